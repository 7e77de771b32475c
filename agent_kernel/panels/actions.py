"""What a panel may ask to be done, one structure for each action, with bounds; and how each is done by the live session."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeVar, cast

import msgspec

from agent_kernel.agents.agent_undo import add_uncovered, operation_text
from agent_kernel.agents.approval import is_decided, open_request
from agent_kernel.agents.event_log import EventStore, short_run
from agent_kernel.agents.events import ApprovalDecided
from agent_kernel.commands import describe
from agent_kernel.commands.checkout import redo, undo
from agent_kernel.commands.scope import UsageProblem
from agent_kernel.errors import (
    AgentKernelError,
    DamagedObjectError,
    LoadError,
    MergeConflictError,
    NotFoundError,
    RequestError,
)
from agent_kernel.queries.plans import change_fields
from agent_kernel.queries.reader import failure, in_words
from agent_kernel.queries.wording import commit_text, shorten_line
from agent_kernel.repository import ObjectId, hex_of, short
from agent_kernel.session.history import session_of
from agent_kernel.text import clean, join_words, list_names, plural

if TYPE_CHECKING:
    from agent_kernel.agents.events import ApprovalRequested, Event
    from agent_kernel.commands.checkout import MoveReport
    from agent_kernel.commands.scope import Scope
    from agent_kernel.magics.extension import LiveNotebook
    from agent_kernel.panels.server import Answer, PanelContext, Reply
    from agent_kernel.session import Report, Repository, Session
    from agent_kernel.session.committing import Operation

_Revision = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
_Names = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=1_000)], ...], msgspec.Meta(max_length=10_000)]


class _Args(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an act takes."""


class Aimed(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to go, whether the code comes along, and into which of the front end's documents."""

    to: _Revision
    what: Literal["both", "variables"] = "both"
    document: Annotated[str, msgspec.Meta(max_length=10_000)] = ""


class Switched(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The branch to go to."""

    branch: _Revision


class Merged(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The branch to merge, or the commit to pick, and which side is taken of what both sides changed."""

    branch: _Revision
    ours: _Names = ()
    theirs: _Names = ()
    message: Annotated[str, msgspec.Meta(max_length=10_000)] = ""
    partial: bool = False


class Committed(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the commit is about."""

    message: Annotated[str, msgspec.Meta(max_length=10_000)] = ""


class Branched(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new branch, where it starts, and whether to go there."""

    name: _Revision
    at: _Revision = "HEAD"
    go: bool = False


class Tagged(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new tag, and what it names."""

    name: _Revision
    at: _Revision = "HEAD"


class Named(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit."""

    id: _Revision


class Claimed(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cells that an act has left, by the turn that it was done in."""

    turn: Annotated[str, msgspec.Meta(max_length=100)]


class Undone(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Undo and redo: what is next, or nothing if HEAD is at another commit by then than whoever asked saw.

    `of`: which operation was meant, as `Done` and `State.undo` name it: moves may end where they began.
    """

    head: _Revision | None = None
    of: Annotated[str, msgspec.Meta(max_length=100)] = ""


class Decided(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to become of the step that waits, if it is still this one."""

    run: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    step: int
    decision: Literal["approve", "edit", "deny"]
    code: Annotated[str, msgspec.Meta(max_length=1_000_000)] | None = None
    reason: Annotated[str, msgspec.Meta(max_length=10_000)] = ""


class Resumed(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run that is to go on, and the answer to its question: if it is still this one, where `question` is its number."""

    run: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    answer: Annotated[str, msgspec.Meta(max_length=100_000)] = ""
    question: int | None = None


class Picked(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The candidate of a race whose branch is to be merged."""

    race: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    number: int


class Discarded(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The race whose candidates' branches are to go."""

    race: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class Nothing(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No arguments."""


ACTS: Final[Mapping[str, type[_Args]]] = {
    "branch": Branched,
    "cancel": Nothing,
    "checkout": Aimed,
    "cherry_pick": Merged,
    "claim": Claimed,
    "commit_now": Committed,
    "decide": Decided,
    "discard": Discarded,
    "merge": Merged,
    "pick": Picked,
    "redo": Undone,
    "resume": Resumed,
    "rollback": Aimed,
    "switch": Switched,
    "tag": Tagged,
    "undo": Undone,
    "verify": Nothing,
    "write_notebook": Named,
}

# The act as the subject of a sentence, "Check out of [7] failed".
_SUBJECTS: Final = {
    "branch": "New branch {}",
    "checkout": "Check out of {}",
    "cherry_pick": "Cherry-pick of {}",
    "commit_now": "Commit",
    "decide": "The decision on {}",
    "discard": "Discarding the candidates",
    "merge": "Merge of {}",
    "pick": "Pick of {}",
    "redo": "Redo",
    "resume": "{}",
    "rollback": "Roll back to {}",
    "switch": "Switch to {}",
    "tag": "Tag {}",
    "undo": "Undo",
    "verify": "Check of the store",
    "write_notebook": "Writing the notebook of {}",
}


class Act(msgspec.Struct, frozen=True):
    """Something that was asked for."""

    op: str
    args: _Args
    label: str  # what it is about: a commit as it is called in a sentence, or a branch's name
    id: str = ""  # the commit that it is about

    @property
    def subject(self) -> str:
        """The act at the beginning of a sentence."""
        text = _SUBJECTS[self.op].format(self.label)
        return f"{text[:1].upper()}{text[1:]}"

    @property
    def description(self) -> dict[str, object]:
        """What a panel is told of it while it waits."""
        return {"op": self.op, "label": self.label, "id": self.id}


def act_of(context: PanelContext, op: str, args: Mapping[str, object]) -> Act:
    """The act, checked; what it names is there.

    Raises:
        RequestError: its arguments do not fit.
        RefNotFoundError, AmbiguousRefError: it names no commit, or several.
    """
    try:
        found = msgspec.convert(args, ACTS[op])
    except msgspec.ValidationError as error:
        raise RequestError(op, in_words(error)) from None
    if isinstance(found, Switched | Merged):
        return Act(op, found, shorten_line(found.branch), _aim(context, found.branch).id)
    if isinstance(found, Branched | Tagged):
        aim = _aim(context, found.at)
        return Act(op, msgspec.structs.replace(found, at=aim.rev), shorten_line(found.name), aim.id)
    if isinstance(found, Aimed):
        aim = _aim(context, found.to)
        return Act(op, msgspec.structs.replace(found, to=aim.rev), aim.label, aim.id)
    if isinstance(found, Named):
        aim = _aim(context, found.id)
        return Act(op, found, aim.label, aim.id)
    if isinstance(found, Decided):
        return Act(
            op, found, f"step {_find_open_request(context, found).step} of {_find_open_request(context, found).agent}"
        )
    if isinstance(found, Picked):
        return Act(op, found, f"candidate {found.number}")
    if isinstance(found, Resumed):
        with context.inside() as (repo, _):
            agent = shorten_line(EventStore(repo.store).first(found.run).agent)
        of_run = f"run {short_run(found.run)} of {agent}"
        return Act(op, found, f"the answer to {agent}" if found.answer else f"resuming {of_run}")
    return Act(op, found, "")


def _find_open_request(context: PanelContext, args: Decided) -> ApprovalRequested:
    """Return what is asked, if it is still what whoever decides has seen."""
    with context.inside() as (repo, _):
        events = tuple(EventStore(repo.store).of(args.run))
    request = open_request(events)
    if request is None or request.step != args.step:
        raise RequestError("", _why_not(events, args.step))
    return request


def _why_not(events: Sequence[Event], step: int) -> str:
    """Why a step cannot be decided about that a card shows as waiting, as a person reads it there."""
    decided = next((one for one in reversed(events) if isinstance(one, ApprovalDecided) and one.step == step), None)
    if decided is None:
        return f"Step {step} does not wait any more."
    how = "denied" if decided.decision == "deny" else "approved"
    way = " %agent resume lets the run go on." if is_decided(events) else ""
    return f"Step {step} is {how} already.{way}"


class _Aim(NamedTuple):
    """A commit: how it is written so that it stays the one that was meant, its full id, and what it is called."""

    rev: str
    id: str
    label: str


def _aim(context: PanelContext, rev: str) -> _Aim:
    """What is meant now: HEAD~1 is another commit when the cell that runs has ended."""
    with context.inside() as (repo, session):
        found = repo.resolve(rev, session.id)
        branch = repo.branch_meant(rev, session.id)
        # Messages of commits say it, so it is as short as it can be.
        own = short(found) if _names(repo, short(found), found) else hex_of(found)
        commit = repo.commit_at(found)
        # A kernel counts its cells anew: the same number is that of another cell now.
        is_older = session_of(commit) not in ("", session.id)
        return _Aim(
            branch or own, hex_of(found), f"{commit_text(commit)} ({short(found)})" if is_older else commit_text(commit)
        )


def _names(repo: Repository, rev: str, commit: ObjectId) -> bool:
    try:
        return repo.resolve(rev) == commit
    except NotFoundError:
        return False


# -- what a panel is told of an act that could not be done: why, and a word for what to offer

logger = logging.getLogger(__name__)

_NOTHING_WAS = "nothing was"  # changed, merged: an error that says so already needs no second sentence


class ContextClosedError(AgentKernelError):
    """The panel belongs to a store that the notebook has left."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def describe_question_failure(error: BaseException) -> dict[str, str]:
    """Describe why a question failed, as data."""
    if isinstance(error, ContextClosedError):
        return {"code": "gone", "message": error.reason}
    if not isinstance(error, AgentKernelError):
        logger.error("a panel got no answer", exc_info=error)
    return failure(error)


def describe_act_failure(error: BaseException, *, moved: bool) -> dict[str, str]:
    """`df is damaged in the store. Nothing was changed.`: the end of a sentence that begins with the act.

    Args:
        moved: HEAD is elsewhere all the same.
    """
    if isinstance(error, ContextClosedError):
        return describe_question_failure(error)
    if isinstance(error, KeyboardInterrupt):
        return {"code": "failed", "message": "it was interrupted."}
    if isinstance(error, UsageProblem):
        code, reason = "refused", clean(str(error))
    elif damaged := _describe_damage(error):
        code, reason = "damaged", damaged
    elif isinstance(error, LoadError):
        code, reason = "refused", f"{list_names(error.names, 5)} could not be loaded: {clean(error.reason)}"
    else:
        failed = describe_question_failure(error)
        code, reason = failed["code"], failed["message"]
    end = "" if moved or _NOTHING_WAS in reason.lower() else " Nothing was changed."
    return {"code": code, "message": f"{reason.rstrip('.')}.{end}"}


def _describe_damage(error: BaseException) -> str:
    """Describe what is damaged, if that is why."""
    if isinstance(error, LoadError) and isinstance(error.__cause__, DamagedObjectError):
        return f"{list_names(error.names, 5)} {'is' if len(error.names) == 1 else 'are'} damaged in the store"
    if isinstance(error, DamagedObjectError):
        names = error.names
        return f"{list_names(names, 5)} {'is' if len(names) == 1 else 'are'} damaged in the store" if names else _STORE
    return ""


_STORE = "the store is damaged"


# -- an act on its way to its turn, and what came of it

_LONG: Final = frozenset({"decide", "resume"})
_ON_ITS_WAY: Final[dict[str, object]] = {"notes": [], "undo": False, "cells": None}


class PendingCells(msgspec.Struct, frozen=True):
    """Cells that are still to be brought back: only a panel can, and who asked for them may not be there any more."""

    id: str
    document: str  # in which they were asked for; "": in any
    cells: object
    label: str  # of the commit

    def describe(self, turn: int) -> Answer:
        """The same for panels, without the cells."""
        return {"turn": str(turn), "id": self.id, "document": self.document}


class Outcome(msgspec.Struct, frozen=True):
    """What an act did, or why it could not be done."""

    done: dict[str, object] | None = None
    failed: dict[str, str] | None = None

    def describe(self, act: Act) -> tuple[Answer | None, Answer | None]:
        """The same for panels that did not ask: what was done, or a whole sentence of what was not."""
        failed = self.failed
        if self.done is not None and "conflicts" in self.done:
            failed = _conflict(self.done)
        if failed is None:
            return None if self.done is None else {**self.done, "cells": None, "op": act.op}, None
        return None, {"text": f"{act.subject} failed: {failed['message']}", "code": failed["code"]}

    def pending_cells(self, act: Act) -> PendingCells | None:
        """Return the cells that came of it, if any."""
        cells = None if self.done is None else self.done.get("cells")
        if cells is None or not isinstance(act.args, Aimed):
            return None
        return PendingCells(act.id, act.args.document, cells, act.label)


class ActJob:
    """Something that a panel wants done.

    Args:
        report: called whenever its state has changed, with the outcome where the panel was answered before there was one.
    """

    def __init__(
        self,
        act: Act,
        context: PanelContext,
        scope: Callable[[], Scope],
        answer: Reply,
        report: Callable[[Act, Outcome | None], None],
    ) -> None:
        self.act = act
        self._context = context
        self._scope = scope
        self._answer = answer
        self._report = report

    def do(self) -> None:
        if self.act.op in _LONG:
            refused = self._try(self._check)
            if refused.failed is not None:
                self._end(refused)
                return
            # A run may go on for hours: whoever asked knows that it does, and hears of its end as all panels do.
            self._answer.ok({"done": "", **_ON_ITS_WAY, "head": self._context.head()})
        self._end(self._try(self._carry_out))

    def _end(self, outcome: Outcome) -> None:
        answered = self._answer.error(outcome.failed) if outcome.failed else self._answer.ok(outcome.done)
        self._report(self.act, None if answered else outcome)

    def waits(self) -> None:
        self._answer.ok({"queued": self.act.description})
        self._report(self.act, None)

    def is_dropped(self) -> None:
        self._answer.error({"code": "refused", "message": "another request took its place, or it was cancelled."})

    def _check(self, scope: Scope) -> None:

        check(self._context, scope, self.act)

    def _carry_out(self, scope: Scope) -> Answer:

        return do(self._context, scope, self.act)

    def _try(self, what: Callable[[Scope], Answer | None]) -> Outcome:
        scope = self._scope()
        before = _position(scope)
        try:
            return Outcome(what(scope))
        except (AgentKernelError, UsageProblem, KeyboardInterrupt) as error:
            return Outcome(failed=describe_act_failure(error, moved=_position(scope) != before))
        except Exception as error:
            logger.exception("an act of a panel failed")
            return Outcome(failed=describe_act_failure(error, moved=_position(scope) != before))


def _position(scope: Scope) -> tuple[object, ...]:
    session = scope.session
    return () if session is None else (session.branch, session.head)


def _conflict(found: Answer) -> dict[str, str]:
    rows = cast("list[dict[str, str]]", found["conflicts"])
    names = list(dict.fromkeys(row["name"].partition("[")[0] for row in rows))
    clash = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return {"code": "refused", "message": f"both sides changed {clash}. Nothing was changed."}


# -- what panels are told beyond what the store knows: what came of acts that had waited, and what undo would take back

_TEXT = 60  # characters


_CELLS_STAY: Final = (
    "The notebook's cells were not changed back, because no history panel is open. "
    "Edit \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} Undo changes them back."
)


class SharedState:
    """A part of every panel's state, kept for those that come later too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: Answer | None = None
        self._done: Answer | None = None
        self._pending_cells: PendingCells | None = None
        self._undo: Answer | None = None
        self._turn = 0

    @property
    def fields(self) -> Answer:
        """The fields of `State` that this is about."""
        with self._lock:
            pending = self._pending_cells.describe(self._turn) if self._pending_cells is not None else None
            return {"failed": self._failed, "done": self._done, "cells": pending, "undo": self._undo}

    def act_begins(self) -> None:
        """Another act is asked for."""
        with self._lock:
            self._failed = self._done = self._pending_cells = None

    def act_ends(self, act: Act, outcome: Outcome) -> None:
        """One that had waited is done, or could not be."""
        with self._lock:
            self._done, self._failed = outcome.describe(act)
            self._pending_cells = outcome.pending_cells(act)
            self._turn += 1

    def cell_begins(self) -> None:
        """All panels have heard what was done. Cells that nobody took up would replace those that are written since."""
        with self._lock:
            self._done = None
            pending, self._pending_cells = self._pending_cells, None
            if pending is not None:
                text = f"The notebook's cells of {pending.label} were not brought back: another cell has begun first."
                self._failed = {"text": text, "code": "refused"}

    def note_moves(self, context: PanelContext, session: Session | None, *, is_typed: bool) -> str:
        """Note which moves that brought cells are undone by now, or done again. Return what to say if no panel is open.

        Args:
            is_typed: a cell did it, so that no panel knows: they are told as of an act that had waited, and change the cells.
        """
        if session is None or not context.with_cells:
            return ""
        message = ""
        for operations, is_undone in ((session.operations.undone, True), (session.operations.done, False)):
            for of in map(name_of, operations):
                if context.with_cells.get(of, is_undone) == is_undone:
                    continue
                context.with_cells[of] = is_undone
                message = _CELLS_STAY if is_undone else ""
                if is_typed:
                    op, text = ("undo", "undone") if is_undone else ("redo", "done again")
                    done: dict[str, object] = {
                        "op": op,
                        "done": f"Checkout {text}.",
                        "notes": [],
                        "undo": False,
                        "of": of,
                    }
                    with self._lock:
                        self._done = {**done, "head": context.head(), "cells": None}
        return message

    def leave(self, dropped: Act | None) -> None:
        """The notebook lets go of its store, and of what waited."""
        with self._lock:
            self._failed = self._done = self._pending_cells = self._undo = None
            if dropped is not None:
                text = f"{dropped.subject} was not done: the notebook has left the store."
                self._failed = {"text": text, "code": "gone"}

    def claim(self, turn: str) -> object:
        """The cells that wait to be brought back, for the first who asks."""
        with self._lock:
            if self._pending_cells is None or turn != str(self._turn):
                return None
            pending, self._pending_cells = self._pending_cells, None
            return pending.cells

    def look_back(self, repo: Repository | None, session: Session | None) -> None:
        """See what undo would take back now. On the main thread alone."""
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            found = None if repo is None or session is None else _undoable(repo, session)
        except AgentKernelError:  # damaged: whoever undoes is told
            logger.debug("what undo would take back cannot be read", exc_info=True)
            found = None
        with self._lock:
            self._undo = found


def name_of(operation: Operation | None) -> str:
    """A name for an operation, so that nobody undoes another one by mistake; "": no operation."""
    if operation is None:
        return ""
    before, after = operation.before, operation.after
    fields = (before.branch, before.commit, after.branch, after.commit, operation.moved, operation.run)
    return hashlib.sha256(repr(fields).encode()).hexdigest()[:16]


def _undoable(repo: Repository, session: Session) -> Answer | None:
    operation = session.next_undo
    if operation is None:
        return None
    before, after = operation.before.commit, operation.after.commit
    made = None if after is None or operation.moved else repo.commit_at(after)
    return {
        "of": name_of(operation),
        "text": shorten_line(operation_text(repo, operation, session.id), _TEXT),
        "cell": made is not None and made.cell is not None,
        "to": None if before is None else hex_of(before),
        "after": None if after is None or operation.moved else hex_of(after),
    }


# -- do what a panel asked for, by the live session, and say what came of it
#
# On the main thread, between cells. What is said here is in the words of the panel; what single commands say of the same is
# made by the verbs.

A = TypeVar("A")


def do(context: PanelContext, scope: Scope, act: Act) -> Answer:
    """Do it: `Done`, or the conflicts of a merge.

    Raises:
        AgentKernelError: it could not be done; nothing was changed.
    """
    context.check()  # only this thread lets go of a store, so others may go on looking meanwhile
    return _DOING[act.op](context, scope, act)


def _checkout(context: PanelContext, scope: Scope, act: Act) -> Answer:
    args = _args(act, Aimed)
    document = _load_document(context, args)  # before anything moves: it may be damaged
    before = scope.live().head
    report = add_uncovered(scope.live(), before, scope.live().checkout(args.to))
    return _with_cells(context, _answer_move(context, scope, f"Checked out {act.label}", report, document))


def _rollback(context: PanelContext, scope: Scope, act: Act) -> Answer:
    args = _args(act, Aimed)
    document = _load_document(context, args)
    before = scope.live().head
    report = add_uncovered(scope.live(), before, scope.live().rollback(args.to))
    return _with_cells(context, _answer_move(context, scope, f"Rolled back to {act.label}", report, document))


def _with_cells(context: PanelContext, done: Answer) -> Answer:
    """Note that the notebook's cells came back with this: whoever undoes it wants those back, too."""
    if done["cells"] is not None:
        context.with_cells[str(done["of"])] = False
    return done


def _load_document(context: PanelContext, args: Aimed) -> object:
    """The notebook's document, where the code is to come along: of where a branch is now, as the variables are."""
    return context.ask("cells", {"id": args.to}) if args.what == "both" else None


def _switch(context: PanelContext, scope: Scope, act: Act) -> Answer:
    before = scope.live().head
    report = add_uncovered(scope.live(), before, scope.live().switch(_args(act, Switched).branch))
    return _answer_move(context, scope, f"Switched to {act.label}", report)


def _undo(context: PanelContext, scope: Scope, act: Act) -> Answer:
    _check_meant(scope, act, scope.live().next_undo)
    done = _answer_move_report(context, scope, undo(scope, Namespace(count="1", partial=False, only="")))
    # What undo would reverse next is something else by now.
    return {**done, "undo": False, "of": name_of(scope.live().next_redo)}


def _redo(context: PanelContext, scope: Scope, act: Act) -> Answer:
    _check_meant(scope, act, scope.live().next_redo)
    return _answer_move_report(context, scope, redo(scope, Namespace(count="1", partial=False)))


def _check_meant(scope: Scope, act: Act, operation: Operation | None) -> None:
    """What is next to be undone is no longer what was meant, if a cell or another panel has done something since."""
    meant, head = _args(act, Undone), scope.live().head
    if head is None:  # no operation ends before the first commit, so there is none to be taken for another
        return
    is_other = bool(meant.of) and meant.of != name_of(operation)
    if is_other or (meant.head is not None and hex_of(head) != meant.head):
        raise UsageProblem(f"HEAD is at {commit_text(scope.repo.commit_at(head))} by now")


def _merge(context: PanelContext, scope: Scope, act: Act) -> Answer:
    from agent_kernel.commands.checkout import merge

    args = _args(act, Merged)
    options = Namespace(rev=args.branch, **_choices(args))
    try:
        result: Any = merge(scope, options)
    except MergeConflictError as conflict:
        return _clash(args, conflict)
    if result.report is None:
        return _answer_done(context, scope, f"{result.sentence}.")
    return _answer_move(context, scope, f"Merged {act.label}", result.report)


def _cherry_pick(context: PanelContext, scope: Scope, act: Act) -> Answer:
    args = _args(act, Merged)
    before = scope.live().head
    try:
        report = scope.live().cherry_pick(args.branch, **_choices(args))
    except MergeConflictError as conflict:
        return _clash(args, conflict)
    if report.commit == before:
        return _answer_done(
            context, scope, f"Nothing to cherry-pick: the changes of {act.label} are here already.", None
        )
    return _answer_move(context, scope, f"Cherry-picked {act.label}", report)


def _choices(args: Merged) -> dict[str, Any]:
    return {"ours": list(args.ours), "theirs": list(args.theirs), "message": args.message, "partial": args.partial}


def _clash(args: Merged, conflict: MergeConflictError) -> Answer:
    from agent_kernel.commands.scope import conflicts_json

    return {"conflicts": conflicts_json(conflict), "branch": args.branch}


def _commit(context: PanelContext, scope: Scope, act: Act) -> Answer:
    report = scope.live().commit(_args(act, Committed).message)
    if report.commit is None:
        return _answer_done(context, scope, "Nothing to commit: no variable has changed since the last commit.", report)
    return _answer_done(context, scope, f"Committed: {count_changes(report)}.", report)


def _branch(context: PanelContext, scope: Scope, act: Act) -> Answer:
    args = _args(act, Branched)
    scope.repo.create_branch(args.name, scope.resolve(args.at))
    if not args.go:
        return _answer_done(context, scope, f"Branch {act.label} starts at {commit_text(scope.commit(args.at)[1])}.")
    try:
        report = scope.live().switch(args.name)
    except BaseException:
        scope.repo.delete_branch(args.name, force=True)
        raise
    return _answer_move(context, scope, f"Switched to new branch {act.label}", report)


def _verify(context: PanelContext, scope: Scope, act: Act) -> Answer:
    report = scope.repo.verify()
    checked = f"{plural(report.checked, 'object')} checked"
    if not report.problems:
        return _answer_done(context, scope, f"{checked}: all sound.")
    found = f"{checked}: {plural(len(report.problems), 'damaged object')}."
    names = sorted({name for one in report.problems for name in one.names})
    needed = [f"Needed by {_list_names(names)}."] if names else []
    return _answer_done(context, scope, found, notes=[*needed, "%agent verify lists them."])


def _decide(context: PanelContext, scope: Scope, act: Act) -> Answer:
    args = _args(act, Decided)
    notebook = scope.notebook
    assert notebook is not None
    code = args.code if args.decision == "edit" else None
    reply = notebook.tasks.decide_between_cells(args.run, args.decision, reason=args.reason, code=code)
    return _answer_done(context, scope, f"{describe_decision(act)} {reply}")


def check(context: PanelContext, scope: Scope, act: Act) -> None:
    """Raise UsageProblem where it is known beforehand that it could not be done."""
    if isinstance(act.args, Resumed):
        _check_question(context, act.args)
        if not act.args.answer:
            _check_way_on(scope, act.args)
    if isinstance(act.args, Decided) and act.args.decision == "edit":
        notebook = scope.notebook
        assert notebook is not None
        notebook.tasks.check_code(act.args.code or "")


def _check_question(context: PanelContext, args: Resumed) -> None:
    """An answer is to what was seen: by now it may be answered, and the run may ask something else."""
    if args.question is None:
        return
    run: Any = context.ask("run", {"id": args.run})
    questions = run["questions"][args.question - 1 : args.question]
    if not run["question"] or len(run["questions"]) != args.question:
        by = f" by {questions[0]['answered_by']}" if questions and questions[0]["answered_by"] else ""
        raise UsageProblem(f"this question was answered{by} already; nothing was done")


def _check_way_on(scope: Scope, args: Resumed) -> None:
    notebook = scope.notebook
    assert notebook is not None
    refused, _ = notebook.tasks.way_on(args.run)
    if refused:
        raise UsageProblem(refused)


def describe_decision(act: Act) -> str:
    """`Step 4 of analyst was approved.`"""
    args = _args(act, Decided)
    return f"{act.label[:1].upper()}{act.label[1:]} was {'denied' if args.decision == 'deny' else 'approved'}."


def _resume(context: PanelContext, scope: Scope, act: Act) -> Answer:
    args = _args(act, Resumed)
    notebook = scope.notebook
    assert notebook is not None
    reply = notebook.tasks.resume_between_cells(args.run, args.answer)
    return _answer_done(
        context, scope, reply if args.answer else f"Resumed {act.label.removeprefix('resuming ')}. {reply}"
    )


def _pick(context: PanelContext, scope: Scope, act: Act) -> Answer:
    args = _args(act, Picked)
    notebook = scope.notebook
    assert notebook is not None
    try:
        report = notebook.tasks.pick(args.race, args.number)
    except MergeConflictError as conflict:
        names = _list_names(sorted({name.partition("[")[0] for name, _, _ in conflict.conflicts}))
        raise UsageProblem(f"both sides changed {names}: pick({args.number}, theirs=[…]) in a cell chooses") from None
    return _answer_move(context, scope, f"Picked {act.label}", report)


def _discard(context: PanelContext, scope: Scope, act: Act) -> Answer:
    notebook = scope.notebook
    assert notebook is not None
    race = notebook.tasks.race(_args(act, Discarded).race)
    race.discard()
    many = plural(len(race.candidates), "candidate")
    rest = f" What candidate {race.picked} did stays where it was merged." if race.picked is not None else ""
    return _answer_done(context, scope, f"Discarded the branches of {many}.{rest}")


_DOING: Final[dict[str, Callable[[PanelContext, Scope, Act], Answer]]] = {
    "branch": _branch,
    "checkout": _checkout,
    "cherry_pick": _cherry_pick,
    "commit_now": _commit,
    "decide": _decide,
    "discard": _discard,
    "merge": _merge,
    "pick": _pick,
    "redo": _redo,
    "resume": _resume,
    "rollback": _rollback,
    "switch": _switch,
    "undo": _undo,
    "verify": _verify,
}


# -- saying it


def _answer_move_report(context: PanelContext, scope: Scope, result: Any) -> Answer:
    moved: MoveReport = result
    assert moved.report is not None
    return _answer_move(context, scope, shorten_line(moved.sentence, 200), moved.report)


def _answer_move(context: PanelContext, scope: Scope, headline: str, report: Report, document: object = None) -> Answer:
    """`Checked out [7]: 3 variables changed, 1 removed. conn stays as it is.`"""
    sentence = f"{headline}: {count_changes(report)}."
    staying = _find_staying(scope.live())
    if staying:
        sentence += f" {_list_names(staying)} {'stays as it is' if len(staying) == 1 else 'stay as they are'}."
    told = [one for one in report.unsaved if one.name not in staying]
    holders = describe.holders_among(scope.repo, scope.repo.commit_at(scope.resolve("HEAD")).tree, told) if told else ()
    unsaved = [describe.unsaved_line(one, holders=holders) for one in told]
    return _answer_done(context, scope, sentence, report, document, unsaved)


def _answer_done(
    context: PanelContext,
    scope: Scope,
    sentence: str,
    report: Report | None = None,
    document: object = None,
    notes: Sequence[str] = (),
) -> Answer:
    sentences = [f"{clean(note)[:1].upper()}{clean(note)[1:]}" for note in (*(report.notes if report else ()), *notes)]
    return {
        "done": sentence,
        "notes": [note if note.endswith(".") else f"{note}." for note in sentences],
        "undo": report is not None and scope.live().next_undo is not None,
        "of": name_of(scope.live().next_undo),
        "head": context.head(),
        "cells": document,
    }


def count_changes(report: Report) -> str:
    """`3 variables changed, 1 added, 1 removed; 2 records changed`."""
    hows = [change.how for change in report.changed]
    found = [(hows.count(how), word) for how, word in (("~", "changed"), ("+", "added"), ("-", "removed"))]
    parts = [f"{count:,} {word}" for count, word in found if count]
    many = len(report.records) + report.more_records
    records = f"{plural(many, 'record')} changed" if many else ""
    if not parts:
        return records or "no variable changed"
    number, _, word = parts[0].partition(" ")
    variables = ", ".join([f"{number} {'variable' if number == '1' else 'variables'} {word}", *parts[1:]])
    return "; ".join(filter(None, (variables, records)))


def _find_staying(session: Session) -> list[str]:
    """The variables that are not saved, and that the move has left alone."""
    unsaved = {name for one in session.status(names=False).lost if not one.stored for name in one.name.split(", ")}
    return sorted(session.alive(session.head, unsaved)) if session.head is not None else []


def _list_names(names: Sequence[str], most: int = 5) -> str:
    texts = [clean(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(texts)} and {len(names) - most} more"
    return join_words(texts)


def _args(act: Act, shape: type[A]) -> A:
    assert isinstance(act.args, shape)
    return act.args


# -- the acts that change neither a variable nor HEAD, and so wait for no cell: `tag`, and `write_notebook`

_SHORT = 8  # digits of a commit's id
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # nbformat 4.5; formats before it have none
_INDENT = 1  # as Jupyter writes its files


def tag(context: PanelContext, notebook: LiveNotebook, act: Act) -> Answer:
    """Name a commit."""
    assert isinstance(act.args, Tagged)
    with context.inside() as (repo, session):
        at = repo.resolve(act.args.at, session.id)
        repo.create_tag(act.args.name, at)
        message = f"Tagged {commit_text(repo.commit_at(at))} as {act.label}."
    return {"done": message, "notes": [], "undo": False, "head": context.head(), "cells": None}


def write_notebook(context: PanelContext, notebook: LiveNotebook, act: Act) -> Answer:
    """Write the document that was stored with a commit to a file of its own, beside the notebook."""
    assert isinstance(act.args, Named)
    document = cast("Answer | None", context.ask("cells", {"id": act.args.id}))
    if document is None:
        raise RequestError("write_notebook", f"no page of the notebook was stored with {act.label}")
    path = notebook.path()
    folder, name = (Path.cwd(), Path(str(document["name"])).name) if path is None else (path.parent, path.name)
    stem = name.removesuffix(".ipynb")
    written = _write(folder, f"{stem}@{act.id[:_SHORT]}", _notebook(document, path))
    where = "beside the notebook" if path is not None else f"in {folder}"
    message = f"Wrote {written.name} {where}."
    return {"done": message, "notes": [], "undo": False, "head": context.head(), "cells": None}


def _write(folder: Path, stem: str, content: bytes) -> Path:
    """Write a new file; one of the same name that says something else stays, and the new one gets a number."""
    number = 1
    while True:
        path = folder / (f"{stem}.ipynb" if number == 1 else f"{stem}-{number}.ipynb")
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            if path.read_bytes() != content:
                number += 1
                continue
        except OSError as error:
            raise RequestError("write_notebook", f"{path} cannot be written: {error.strerror}") from error
        return path


def _notebook(document: Answer, path: Path | None) -> bytes:
    """The document as a notebook file, with the metadata that the notebook has now.

    Of today's format, or of the one before it where the cells have no ids, or some that are none.
    """
    cells = cast("list[dict[str, str]]", document["cells"])
    ids = [cell["id"] for cell in cells]
    has_ids = all(_ID.fullmatch(id) for id in ids) and len(set(ids)) == len(ids)
    notebook = {
        "cells": [_cell(cell, has_ids=has_ids) for cell in cells],
        "metadata": _metadata(path),
        "nbformat": 4,
        "nbformat_minor": 5 if has_ids else 4,
    }
    return msgspec.json.format(msgspec.json.encode(notebook), indent=_INDENT) + b"\n"


def _cell(cell: dict[str, str], *, has_ids: bool) -> Answer:
    named: Answer = {"id": cell["id"]} if has_ids else {}
    lines = cell["source"].splitlines(keepends=True)
    made: Answer = {"cell_type": cell["type"], **named, "metadata": {}, "source": lines}
    return {**made, "execution_count": None, "outputs": []} if cell["type"] == "code" else made


class _File(msgspec.Struct):
    metadata: dict[str, object] = msgspec.field(default_factory=dict[str, object])


def _metadata(path: Path | None) -> dict[str, object]:
    """The kernel and the language, as the notebook's file names them."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File).metadata if path is not None else {}
    except (OSError, msgspec.MsgspecError):  # not saved yet
        return {}
    return {key: found[key] for key in ("kernelspec", "language_info") if key in found}


# -- what a move would do to what is live, beyond what the store says of it

_NAMES = 3


def complete_plan(context: PanelContext, args: Mapping[str, object], found: Answer) -> Answer:
    """Complete the answer to `plan`. On the main thread, between cells."""
    with context.inside() as (repo, session):
        to = repo.resolve(str(cast("Answer", found["to"])["id"]), session.id)
        cannot = cast("list[Answer]", found["cannot"])
        alive = session.alive(to, [str(one["name"]) for one in cannot])
        uncommitted = [change.name for change in session.status(names=False).changed]
        live = _compare_with_memory(repo, session, args, to)
    return {
        **found,
        **live,
        "cannot": [{**one, "stays": one["name"] in alive} for one in cannot],
        "notes": [*_note_uncommitted(uncommitted), *cast("list[str]", found["notes"])],
    }


def _compare_with_memory(repo: Repository, session: Session, args: Mapping[str, object], to: ObjectId) -> Answer:
    """Find what changes, where a restart took variables of HEAD out of memory that nobody brought back."""
    if args["op"] in ("merge", "cherry_pick") or not session.carried():
        return {}
    branch = repo.branch_meant(str(args["to"]), session.id) if args["op"] == "checkout" else None
    changes = session.foreseen(to, is_here=branch is not None and branch == session.branch)
    return change_fields(repo, repo.tree_at(to), changes)


def _note_uncommitted(names: Sequence[str]) -> list[str]:
    """That what is not committed yet is committed before anything moves."""
    if not names:
        return []
    texts = [clean(name) for name in names[:_NAMES]]
    more = len(names) - len(texts)
    listed = ", ".join(texts[:-1])
    listing = f"{', '.join(texts)} and {more} more" if more else f"{listed} and {texts[-1]}" if listed else texts[0]
    return [f"{listing} {'is' if len(names) == 1 else 'are'} committed first."]
