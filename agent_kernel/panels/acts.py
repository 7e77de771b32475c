"""What a panel may ask to be done: one structure for each act, with bounds, and what each is called in a sentence."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, cast

import msgspec

from agent_kernel.agents.approval import is_decided, waiting
from agent_kernel.agents.event_log import EventStore, short_run
from agent_kernel.agents.events import ApprovalDecided
from agent_kernel.agents.moves import operation_text
from agent_kernel.browsing import failure
from agent_kernel.browsing.questions import in_words
from agent_kernel.browsing.wording import called, cleaned
from agent_kernel.errors import AgentKernelError, DamagedObjectError, LoadError, NotFoundError, RequestError
from agent_kernel.panels.desk import GoneError
from agent_kernel.repository import ObjectId, hex_of, short
from agent_kernel.session.labels import session_of
from agent_kernel.verbs.parsing import UsageProblem
from agent_kernel.verbs.text import clean, spelled

if TYPE_CHECKING:
    from agent_kernel.agents.events import ApprovalRequested, Event
    from agent_kernel.panels.desk import Answer, Desk
    from agent_kernel.panels.server import Reply
    from agent_kernel.session import Repository, Session
    from agent_kernel.session.operations import Operation
    from agent_kernel.verbs.scope import Scope

__all__ = [
    "ACTS",
    "Act",
    "Aimed",
    "Branched",
    "Claimed",
    "Committed",
    "Decided",
    "Left",
    "Merged",
    "Named",
    "Nothing",
    "Outcome",
    "Picked",
    "Resumed",
    "Standing",
    "Switched",
    "Tagged",
    "Undone",
    "Wanted",
    "act_of",
    "failed_act",
    "failed_question",
    "name_of",
]


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
_CALLED: Final = {
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
        said = _CALLED[self.op].format(self.label)
        return f"{said[:1].upper()}{said[1:]}"

    @property
    def told(self) -> dict[str, object]:
        """What a panel is told of it while it waits."""
        return {"op": self.op, "label": self.label, "id": self.id}


def act_of(desk: Desk, op: str, args: Mapping[str, object]) -> Act:
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
        return Act(op, found, cleaned(found.branch), _aim(desk, found.branch).id)
    if isinstance(found, Branched | Tagged):
        aim = _aim(desk, found.at)
        return Act(op, msgspec.structs.replace(found, at=aim.rev), cleaned(found.name), aim.id)
    if isinstance(found, Aimed):
        aim = _aim(desk, found.to)
        return Act(op, msgspec.structs.replace(found, to=aim.rev), aim.label, aim.id)
    if isinstance(found, Named):
        aim = _aim(desk, found.id)
        return Act(op, found, aim.label, aim.id)
    if isinstance(found, Decided):
        return Act(op, found, f"step {_waiting(desk, found).step} of {_waiting(desk, found).agent}")
    if isinstance(found, Picked):
        return Act(op, found, f"candidate {found.number}")
    if isinstance(found, Resumed):
        with desk.inside() as (repo, _):
            agent = cleaned(EventStore(repo.store).first(found.run).agent)
        of_run = f"run {short_run(found.run)} of {agent}"
        return Act(op, found, f"the answer to {agent}" if found.answer else f"resuming {of_run}")
    return Act(op, found, "")


def _waiting(desk: Desk, args: Decided) -> ApprovalRequested:
    """What is asked, if it is still what whoever decides has seen."""
    with desk.inside() as (repo, _):
        events = tuple(EventStore(repo.store).of(args.run))
    asked = waiting(events)
    if asked is None or asked.step != args.step:
        raise RequestError("", _why_not(events, args.step))
    return asked


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


def _aim(desk: Desk, rev: str) -> _Aim:
    """What is meant now: HEAD~1 is another commit when the cell that runs has ended."""
    with desk.inside() as (repo, session):
        found = repo.resolve(rev, session.id)
        branch = repo.branch_meant(rev, session.id)
        # Messages of commits say it, so it is as short as it can be.
        own = short(found) if _names(repo, short(found), found) else hex_of(found)
        commit = repo.commit_at(found)
        # A kernel counts its cells anew: the same number is that of another cell now.
        is_older = session_of(commit) not in ("", session.id)
        return _Aim(branch or own, hex_of(found), f"{called(commit)} ({short(found)})" if is_older else called(commit))


def _names(repo: Repository, rev: str, commit: ObjectId) -> bool:
    try:
        return repo.resolve(rev) == commit
    except NotFoundError:
        return False


# -- what a panel is told of an act that could not be done: why, and a word for what to offer

logger = logging.getLogger(__name__)

_SAID = "nothing was"  # changed, merged: an error that says so already needs no second sentence


def failed_question(error: BaseException) -> dict[str, str]:
    """The failure as data."""
    if isinstance(error, GoneError):
        return {"code": "gone", "message": error.reason}
    if not isinstance(error, AgentKernelError):
        logger.error("a panel got no answer", exc_info=error)
    return failure(error)


def failed_act(error: BaseException, *, moved: bool) -> dict[str, str]:
    """`df is damaged in the store. Nothing was changed.`: the end of a sentence that begins with the act.

    Args:
        moved: HEAD is elsewhere all the same.
    """
    if isinstance(error, GoneError):
        return failed_question(error)
    if isinstance(error, KeyboardInterrupt):
        return {"code": "failed", "message": "it was interrupted."}
    if isinstance(error, UsageProblem):
        code, reason = "refused", clean(str(error))
    elif damaged := _damaged(error):
        code, reason = "damaged", damaged
    elif isinstance(error, LoadError):
        code, reason = "refused", f"{spelled(error.names, 5)} could not be loaded: {clean(error.reason)}"
    else:
        told = failed_question(error)
        code, reason = told["code"], told["message"]
    end = "" if moved or _SAID in reason.lower() else " Nothing was changed."
    return {"code": code, "message": f"{reason.rstrip('.')}.{end}"}


def _damaged(error: BaseException) -> str:
    """What is damaged, if that is why."""
    if isinstance(error, LoadError) and isinstance(error.__cause__, DamagedObjectError):
        return f"{spelled(error.names, 5)} {'is' if len(error.names) == 1 else 'are'} damaged in the store"
    if isinstance(error, DamagedObjectError):
        names = error.names
        return f"{spelled(names, 5)} {'is' if len(names) == 1 else 'are'} damaged in the store" if names else _STORE
    return ""


_STORE = "the store is damaged"


# -- an act on its way to its turn, and what came of it

_LONG: Final = frozenset({"decide", "resume"})
_ON_ITS_WAY: Final[dict[str, object]] = {"notes": [], "undo": False, "cells": None}


class Left(msgspec.Struct, frozen=True):
    """Cells that are still to be brought back: only a panel can, and who asked for them may not be there any more."""

    id: str
    document: str  # in which they were asked for; "": in any
    page: object
    label: str  # of the commit

    def told(self, turn: int) -> Answer:
        """The same for panels, without the page."""
        return {"turn": str(turn), "id": self.id, "document": self.document}


class Outcome(msgspec.Struct, frozen=True):
    """What an act did, or why it could not be done."""

    done: dict[str, object] | None = None
    failed: dict[str, str] | None = None

    def told(self, act: Act) -> tuple[Answer | None, Answer | None]:
        """The same for panels that did not ask: what was done, or a whole sentence of what was not."""
        failed = self.failed
        if self.done is not None and "conflicts" in self.done:
            failed = _conflict(self.done)
        if failed is None:
            return None if self.done is None else {**self.done, "cells": None, "op": act.op}, None
        return None, {"text": f"{act.subject} failed: {failed['message']}", "code": failed["code"]}

    def left(self, act: Act) -> Left | None:
        """The cells that came of it, if any."""
        page = None if self.done is None else self.done.get("cells")
        if page is None or not isinstance(act.args, Aimed):
            return None
        return Left(act.id, act.args.document, page, act.label)


class Wanted:
    """Something that a panel wants done.

    Args:
        tell: told whenever its standing has changed, with the outcome where the panel was answered before there was one.
    """

    def __init__(
        self,
        act: Act,
        desk: Desk,
        scope: Callable[[], Scope],
        answer: Reply,
        tell: Callable[[Act, Outcome | None], None],
    ) -> None:
        self.act = act
        self._desk = desk
        self._scope = scope
        self._answer = answer
        self._tell = tell

    def do(self) -> None:
        if self.act.op in _LONG:
            refused = self._tried(self._check)
            if refused.failed is not None:
                self._end(refused)
                return
            # A run may go on for hours: whoever asked knows that it does, and hears of its end as all panels do.
            self._answer.ok({"done": "", **_ON_ITS_WAY, "head": self._desk.head()})
        self._end(self._tried(self._carry_out))

    def _end(self, outcome: Outcome) -> None:
        answered = self._answer.error(outcome.failed) if outcome.failed else self._answer.ok(outcome.done)
        self._tell(self.act, None if answered else outcome)

    def waits(self) -> None:
        self._answer.ok({"queued": self.act.told})
        self._tell(self.act, None)

    def is_dropped(self) -> None:
        self._answer.error({"code": "refused", "message": "another request took its place, or it was cancelled."})

    def _check(self, scope: Scope) -> None:
        from agent_kernel.panels.doing import check

        check(self._desk, scope, self.act)

    def _carry_out(self, scope: Scope) -> Answer:
        from agent_kernel.panels.doing import do

        return do(self._desk, scope, self.act)

    def _tried(self, what: Callable[[Scope], Answer | None]) -> Outcome:
        scope = self._scope()
        before = _position(scope)
        try:
            return Outcome(what(scope))
        except (AgentKernelError, UsageProblem, KeyboardInterrupt) as error:
            return Outcome(failed=failed_act(error, moved=_position(scope) != before))
        except Exception as error:
            logger.exception("an act of a panel failed")
            return Outcome(failed=failed_act(error, moved=_position(scope) != before))


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


class Standing:
    """A part of every panel's state, kept for those that come later too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: Answer | None = None
        self._done: Answer | None = None
        self._left: Left | None = None
        self._undo: Answer | None = None
        self._turn = 0

    @property
    def told(self) -> Answer:
        """The fields of `State` that this is about."""
        with self._lock:
            left = self._left.told(self._turn) if self._left is not None else None
            return {"failed": self._failed, "done": self._done, "cells": left, "undo": self._undo}

    def act_begins(self) -> None:
        """Another act is asked for."""
        with self._lock:
            self._failed = self._done = self._left = None

    def act_ends(self, act: Act, outcome: Outcome) -> None:
        """One that had waited is done, or could not be."""
        with self._lock:
            self._done, self._failed = outcome.told(act)
            self._left = outcome.left(act)
            self._turn += 1

    def cell_begins(self) -> None:
        """All panels have heard what was done. Cells that nobody took up would replace those that are written since."""
        with self._lock:
            self._done = None
            left, self._left = self._left, None
            if left is not None:
                text = f"The notebook's cells of {left.label} were not brought back: another cell has begun first."
                self._failed = {"text": text, "code": "refused"}

    def moved(self, desk: Desk, session: Session | None, *, is_typed: bool) -> str:
        """Note which moves that brought cells are undone by now, or done again. Return what to say if no panel is open.

        Args:
            is_typed: a cell did it, so that no panel knows: they are told as of an act that had waited, and change the cells.
        """
        if session is None or not desk.with_cells:
            return ""
        said = ""
        for operations, is_undone in ((session.operations.undone, True), (session.operations.done, False)):
            for of in map(name_of, operations):
                if desk.with_cells.get(of, is_undone) == is_undone:
                    continue
                desk.with_cells[of] = is_undone
                said = _CELLS_STAY if is_undone else ""
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
                        self._done = {**done, "head": desk.head(), "cells": None}
        return said

    def leave(self, dropped: Act | None) -> None:
        """The notebook lets go of its store, and of what waited."""
        with self._lock:
            self._failed = self._done = self._left = self._undo = None
            if dropped is not None:
                text = f"{dropped.subject} was not done: the notebook has left the store."
                self._failed = {"text": text, "code": "gone"}

    def claim(self, turn: str) -> object:
        """The page that waits to be brought back, for the first who asks."""
        with self._lock:
            if self._left is None or turn != str(self._turn):
                return None
            left, self._left = self._left, None
            return left.page

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
        "text": cleaned(operation_text(repo, operation, session.id), _TEXT),
        "cell": made is not None and made.cell is not None,
        "to": None if before is None else hex_of(before),
        "after": None if after is None or operation.moved else hex_of(after),
    }
