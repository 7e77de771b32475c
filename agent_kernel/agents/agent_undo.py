"""How runs lie in the history: what was taken back, what no undo covers, whether the next step may run at a state; and moves that a client asks for.

A client, beside running code, asks that the last operation is undone, or that a commit is checked out. What it made itself
it may take back. Where that would take back what somebody else did, it is risky, as code is that reaches outside the
variables: then it is a run of one step that a person has to allow. The step's code is the move in words of Python, and
whoever goes on with the run makes the move instead of running it.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from agent_kernel.agents.event_log import EventStore, candidate_on, is_temporary, short_run
from agent_kernel.agents.events import (
    GIVEN,
    ApprovalRequested,
    Effect,
    Event,
    Finding,
    Output,
    Rewound,
    SubRun,
    TaskStart,
    Usage,
)
from agent_kernel.agents.messages import open_action, redact, start_event
from agent_kernel.agents.models import FunctionModel, Request, Turn
from agent_kernel.errors import (
    DamagedObjectError,
    MoveNotMadeError,
    NothingToUndoError,
    RunElsewhereError,
    RunNotFoundError,
)
from agent_kernel.repository import NO_CHAT, ObjectId, hex_of, short
from agent_kernel.repository.commits import ALGORITHM
from agent_kernel.session.history import commit_in_message, prompt, session_of, title
from agent_kernel.text import clean
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.repository import Author, Change, Commit
    from agent_kernel.session import Repository, Session
    from agent_kernel.session.committing import Operation, Report


# -- what undo takes back and redo does again, in words


def operation_text(repo: Repository, operation: Operation, session: str = "") -> str:
    """What is undone or done again: `[11] a slip of the hand`, `the checkout of main`, `the checkout of [7]`, `the checkout that …`.

    Args:
        session: the one that does it. A cell of an earlier one is named by its hash too: its number is another one's now.
    """
    at = operation.after.commit
    commit = repo.commit_at(at) if at is not None else None
    if operation.run:
        return run_text(EventStore(repo.store), operation.run)
    if operation.moved:
        before, after = operation.before, operation.after
        if (before.branch, before.commit) == (
            after.branch,
            after.commit,
        ) and before.not_in_memory > after.not_in_memory:
            return "the checkout that brought back what a restart took"
        reached = "" if at is None or commit is None else prompt(commit) or short(at)
        if at is not None and commit is not None and session and session_of(commit) not in ("", session):
            reached = f"{reached} ({short(at)})"
        return f"the checkout of {operation.after.branch or reached or 'no commit'}"
    if at is None or commit is None:
        return ""
    merged = "".join(f", and {what} that it took" for what in operation.took if commit.cell is not None)
    return " ".join(filter(None, (prompt(commit) or short(at), title(commit)))) + merged


def run_text(event_store: EventStore, run: str) -> str:
    """`the run of analyst (3f2a9)`"""
    try:
        return f"the run of {clean(event_store.first(run).agent)} ({short_run(run)})"
    except RunNotFoundError:  # forgotten
        return f"the run {short_run(run)}"


# -- what was taken back: it is in the history, and no state there is goes on from it any more


class Point(Protocol):
    """The facts about a commit that a move needs. `goes_on`: as `goes_on_from` says."""

    @property
    def id(self) -> ObjectId: ...
    @property
    def parents(self) -> tuple[ObjectId, ...]: ...
    @property
    def goes_on(self) -> tuple[ObjectId, ...]: ...
    @property
    def run(self) -> str: ...


def goes_on_from(commit: Commit) -> tuple[ObjectId, ...]:
    """The commits from which the variables of this one go on: its parents, or what it went back to as a whole.

    Where the conversation alone went back, or single variables were taken from elsewhere, they go on from the parents.
    """
    if commit.kind not in ("undo", "redo", "rollback"):
        return commit.parents
    if commit.restores is None:
        is_before_all = commit.chat == NO_CHAT and all(one.how == "-" for one in commit.changed) and commit.changed
        return () if is_before_all else commit.parents
    is_part = commit.kind == "rollback" and commit.chat is not None
    return commit.parents if is_part else (commit.restores,)


def contains_commit(repo: Repository, head: ObjectId | None, commit: ObjectId) -> bool:
    """Whether the variables at `head` go on from a commit: nobody went back behind it, or elsewhere."""
    try:
        since_ns = repo.commit_at(commit).time_ns
        waiting = [] if head is None else [head]
        visited = set(waiting)
        while waiting:
            at = waiting.pop()
            if at == commit:
                return True
            found = repo.commit_at(at)
            further = [one for one in goes_on_from(found) if one not in visited] if found.time_ns >= since_ns else []
            visited.update(further)
            waiting += further
    except DamagedObjectError:  # it was forgotten, or what came after it
        return False
    return False


def find_undone_runs(history: Iterable[Point], tips: Iterable[ObjectId]) -> frozenset[str]:
    """The runs that the tips lead to and that none of them goes on from. The history is newest first."""
    reached = set(tips)
    current = set(reached)
    abandoned: set[str] = set()
    continued: set[str] = set()
    for one in history:
        if one.id in reached:
            reached.update(one.parents)
            if one.run:
                (continued if one.id in current else abandoned).add(one.run)
        if one.id in current:
            current.update(one.goes_on)
    return frozenset(abandoned - continued)


def find_runs_undone_since(repo: Repository, since_ns: int) -> frozenset[str]:
    """The runs of a repository that were taken back, of those that began after a moment."""
    heads = [head.commit for head in repo.heads().values() if head.branch is None and head.commit is not None]
    tips = list(dict.fromkeys([*repo.branches().values(), *heads]))
    return find_undone_runs(_since(repo, tips, since_ns), tips)


class _Point:
    __slots__ = ("goes_on", "id", "parents", "run")

    def __init__(self, id: ObjectId, commit: Commit) -> None:
        self.id = id
        self.parents = commit.parents
        self.goes_on = goes_on_from(commit)
        self.run = commit.run


def _since(repo: Repository, tips: list[ObjectId], since_ns: int) -> Iterator[_Point]:
    for id, commit in repo.log(tips):
        if commit.time_ns < since_ns:
            return
        yield _Point(id, commit)


# -- what going back does not cover: what steps did outside the variables that the variables go on without, or with again
#
# Two commits are compared: where the variables were, and where they are. The line of each goes on as they do, over undos and
# rollbacks, and the steps on one line that are not on the other are those that were left, or taken on.

_FAR: Final = 1_000  # commits that are looked at
_MOST_STEPS: Final = 4  # things that are named
_LONGEST: Final = 80  # characters of each

Steps = dict[str, set[int]]  # by run


class StepDifference(msgspec.Struct, frozen=True):
    """The steps of runs that lie on the line to one of two commits alone."""

    removed: Steps
    added: Steps


def compare_steps(repo: Repository, before: ObjectId | None, after: ObjectId | None) -> StepDifference:
    """What the variables of `after` go on without, and with again, since they were those of `before`."""
    found = StepDifference({}, {})
    removed, added = _line(repo, before), _line(repo, after)
    one, other = next(removed, None), next(added, None)
    for _ in range(_FAR):
        if (one is None and other is None) or (one and other and one[0] == other[0]):
            break
        if other is None or (one is not None and one[1].time_ns > other[1].time_ns):
            assert one is not None
            _note(repo, one[1], found.removed)
            one = next(removed, None)
        else:
            _note(repo, other[1], found.added)
            other = next(added, None)
    return found


def _line(repo: Repository, at: ObjectId | None) -> Iterator[tuple[ObjectId, Commit]]:
    """The commits that the variables go on from, newest first; it ends where one is gone."""
    while at is not None:
        try:
            commit = repo.commit_at(at)
        except DamagedObjectError:
            return
        yield at, commit
        at = _before(repo, commit)


def _before(repo: Repository, commit: Commit) -> ObjectId | None:
    """Also where only the variables went back, all of them: that looks like taking single ones."""
    target = commit.restores
    if target is not None and commit.kind == "rollback" and _tree(repo, target) == commit.tree:
        return target
    return next(iter(goes_on_from(commit)), None)


def _tree(repo: Repository, at: ObjectId) -> ObjectId | None:
    try:
        return repo.commit_at(at).tree
    except DamagedObjectError:
        return None


def _note(repo: Repository, commit: Commit, found: Steps) -> None:
    """The step of a commit, and those of what it merged."""
    if commit.run and commit.step is not None:
        found.setdefault(commit.run, set()).add(commit.step)
    for merged in commit.parents[1:]:
        base = repo.merge_base(commit.parents[0], merged)
        for at, (id, one) in enumerate(_line(repo, merged)):
            if id == base or at == _FAR:
                break
            if one.run and one.step is not None:
                found.setdefault(one.run, set()).add(one.step)


def _describe_step_effects(event_store: EventStore, steps: Steps) -> str:
    """What these steps did outside, as a few words; "" if nothing is known of that."""
    found = list(
        dict.fromkeys(
            one for run, of in steps.items() for one in _list_effects(list(event_store.of(run)), event_store, of)
        )
    )
    named = [redact(one, _LONGEST) for one in found[:_MOST_STEPS]]
    return ", ".join([*named, *([f"and {len(found) - _MOST_STEPS} more"] if len(found) > _MOST_STEPS else [])])


def _list_effects(events: list[Event], event_store: EventStore, steps: set[int] | None) -> Iterator[str]:
    for event in events:
        if steps is not None and event.step not in steps:
            continue
        if isinstance(event, Effect):
            yield event.text
        elif isinstance(event, SubRun) and event.status != "running":
            yield from _list_effects(list(event_store.of(event.child)), event_store, None)


def find_committed_steps(events: list[Event]) -> set[int]:
    """The steps of a run that became commits: not those of which nobody knows what they did."""
    outputs = (event for event in events if isinstance(event, Output) and event.after != event.before)
    return {event.step for event in outputs if event.step is not None}


def describe_step_numbers(steps: set[int]) -> str:
    """`step 2`, `steps 2 and 4`, `steps 2 to 5`."""
    order = sorted(steps)
    if len(order) > 2 and order[-1] - order[0] == len(order) - 1:
        return f"steps {order[0]} to {order[-1]}"
    *first, last = map(str, order)
    return f"steps {', '.join(first)} and {last}" if first else f"step {last}"


def add_uncovered(
    session: Session, before: ObjectId | None, report: Report, found: StepDifference | None = None
) -> Report:
    """The report of a move through the history, with what it did not cover: what agents did outside the variables.

    Args:
        before: the commit at which the variables were.
        found: the steps that the variables go on without, and with again, if that is known.
    """
    found = compare_steps(session.repo, before, session.head) if found is None else found
    notes = describe_side_effects(EventStore(session.repo.store), found)
    return msgspec.structs.replace(report, notes=(*report.notes, *notes)) if notes else report


def describe_side_effects(event_store: EventStore, found: StepDifference) -> list[str]:
    """What to say about a move: what it does not take back, and what it does not do again."""
    groups: Mapping[str, Steps] = {"not undone": found.removed, "not done again": found.added}
    return [
        f"{what}: {effects}"
        for what, steps in groups.items()
        if steps and (effects := _describe_step_effects(event_store, steps))
    ]


SOURCE: Final = "move"  # of the action that is one
KIND: Final = "goes back"  # of what is found about it
CHANGES: Final = "changes"  # and of the variables that would not be as they are
_MOST: Final = 3  # commits that are named
_MOST_NAMES: Final = 8

# What a move takes back, in lines, what it changes, and whether that is somebody else's.
_Found: TypeAlias = "tuple[list[str], Sequence[Change], bool]"


class Move(msgspec.Struct, frozen=True):
    """An undo, or a checkout of a commit (`ref`), or of one variable of it."""

    ref: str = ""
    name: str = ""

    @property
    def code(self) -> str:
        """The move as a step's code.

        >>> Move("main", "prices").code
        "checkout('main', 'prices')"
        """
        arguments = ", ".join(repr(one) for one in (self.ref, self.name) if one)
        return f"checkout({arguments})" if self.ref else "undo()"

    @classmethod
    def read(cls, code: str) -> Move:
        """The move that some code is. Raises: MoveNotMadeError: the code is not a move.

        >>> Move.read("undo()")
        Move(ref='', name='')
        """
        try:
            parsed = ast.parse(code.strip(), mode="eval")
            arguments = parsed.body.args if isinstance(parsed.body, ast.Call) else []
            texts = [str(ast.literal_eval(one)) for one in arguments[:2]]
            move = cls(*texts)
            if move.code == ast.unparse(parsed):
                return move
        except (SyntaxError, ValueError):
            pass  # invalid code is rejected like any other code
        raise MoveNotMadeError("it is neither undo() nor checkout('REF') nor checkout('REF', 'NAME')")


@contextmanager
def acting_as(session: Session, author: Author) -> Generator[None]:
    """What the session does in the block is this author's; what nobody had committed yet is not."""
    session.commit()
    before, session.author = session.author, author
    try:
        yield
    finally:
        session.author = before


def findings(session: Session, move: Move, author: Author) -> tuple[Finding, ...]:
    """What the move would take back, and change; risky where that is somebody else's.

    Raises:
        RefNotFoundError: there is no such commit. NothingToUndoError: there is nothing to undo.
    """
    session.commit()
    lines, changes, risky = (
        _find_checkout_changes(session, move, author) if move.ref else _find_undo_changes(session, author)
    )
    names = [f"{one.how}{one.name}" for one in changes if not move.name or one.name == move.name]
    return (
        *(Finding(KIND, line, risky=risky) for line in lines),
        *(Finding(CHANGES, name) for name in _cut(names, _MOST_NAMES)),
    )


def _find_checkout_changes(session: Session, move: Move, author: Author) -> _Found:
    repo, head = session.repo, session.head
    target = repo.resolve(move.ref, session.id)
    branch = repo.branch_meant(move.ref, session.id)
    abandoned = list(_find_abandoned_commits(repo, head, target, move.name)) if head is not None else []
    others = [one for one in abandoned if one[1].author != author]
    is_current = branch is not None and branch == session.branch
    return _lines(others or abandoned), session.foreseen(target, is_here=is_current), bool(others)


def _find_abandoned_commits(
    repo: Repository, head: ObjectId, target: ObjectId, name: str
) -> Iterator[tuple[ObjectId, Commit]]:
    """The commits that the variables would be without, or the one variable."""
    base = repo.merge_base(head, target)
    walk = repo.log_of_name(head, name) if name else repo.log(head, first_parent=True, limit=_FAR)
    for id, commit in walk:
        if base is not None and (id == base or repo.is_ancestor(id, base)):
            return
        if commit.changed:
            yield id, commit


def _find_undo_changes(session: Session, author: Author) -> _Found:
    operation, repo = session.next_undo, session.repo
    if operation is None:
        raise NothingToUndoError
    at = operation.after.commit
    lines = [operation_text(repo, operation, session.id)] if operation.run or operation.moved else []
    if at is not None and not operation.moved:
        walk = repo.log(at, first_parent=True, limit=_FAR)
        lines += _lines(list(takewhile(lambda one: one[0] != operation.before.commit, walk)))
    return lines, session.foreseen_undo(operation), operation.by != author and at is not None


def _lines(commits: list[tuple[ObjectId, Commit]]) -> list[str]:
    return _cut([f"{commit_in_message(id, commit)}, by {commit.author.name}" for id, commit in commits], _MOST)


def _cut(lines: list[str], most: int) -> list[str]:
    return [*lines[:most], *([f"and {len(lines) - most} more"] if len(lines) > most else [])]


def make_move(session: Session, move: Move, author: Author, requested_at: str) -> str:
    """Make a move that was allowed, and say what it did.

    Args:
        requested_at: the commit at which it was asked for, in hex digits: what was allowed is no more than what was named then.

    Raises:
        MoveNotMadeError: something was done since. LoadError, RefNotFoundError …: as `undo` and `checkout` do.
    """
    with acting_as(session, author):
        if requested_at != ("" if session.head is None else hex_of(session.head)):
            raise MoveNotMadeError("something else was done since it was asked for, and it would take that back too")
        before = session.head
        report = session.checkout(move.ref, [move.name] if move.name else []) if move.ref else session.undo()
    found = StepDifference({}, {}) if move.name else compare_steps(session.repo, before, session.head)
    notes = describe_side_effects(EventStore(session.repo.store), found)
    changed = [f"{one.how}{one.name}" for one in report.changed] + [previews.mask_text(name) for name in report.records]
    names = ", ".join(changed) or "no variable changed"
    names += f" and {report.more_records:,} more records" if report.more_records else ""
    return "\n".join([f"{'Checked out' if move.ref else 'Undone'}: {names}", *report.notes, *notes])


# -- an agent that is not ours: it brings its code by itself, and each piece of it is a run of one step
#
# So what it does has its place in the history, is reviewed and waits for approval as every agent's step does. Nobody is
# asked for more: where such a run goes on (its step was approved, say), it ends when its step has run. Where the step was
# denied there is nothing that it could go on with, and the run is given up.

PREFIX = "outside"
DENIED = "denied"  # during which such a run was given up
_TOLD = "The agent outside is told what came of it when it asks."


def is_external(model: str) -> bool:
    """Whether a run with a model of this name is of such an agent.

    >>> is_external("outside:visitor")
    True
    """
    return model.partition(":")[0] == PREFIX


def external_model(agent: str, code: str = "") -> FunctionModel:
    """The model of a run that such an agent begins with its code.

    >>> external_model("visitor").name
    'outside:visitor'
    """

    def answer(request: Request) -> Turn:
        return Turn(code if request.turn == 0 else None, text="" if request.turn == 0 else _TOLD, usage=Usage())

    return FunctionModel(answer, f"{PREFIX}:{agent}")


class Position(Protocol):
    """Where somebody would go on with a run: a session, or what a reader knows of one."""

    @property
    def repo(self) -> Repository: ...
    @property
    def id(self) -> str: ...
    @property
    def head(self) -> ObjectId | None: ...


def is_next_a_step(events: Sequence[Event]) -> bool:
    """Whether code that was written already is what comes next, if the run goes on: it waits, was decided, or had not begun."""
    action, since = open_action(events)
    return action is not None and action.source not in GIVEN and start_event(since) is None


def refuse_if_elsewhere(session: Position | None, events: Sequence[Event]) -> None:
    """Raise RunElsewhereError where the state of the session does not go on from what the run did."""
    found = find_elsewhere_error(session, events)
    if found is not None:
        raise found


def find_elsewhere_error(session: Position | None, events: Sequence[Event]) -> RunElsewhereError | None:
    """What says that a run lies elsewhere; None: it does not, or it has no history."""
    action, since = open_action(events)
    if session is None or (action is not None and action.source == SOURCE):  # which is only made where it was asked for
        return None
    outputs = [event for event in events if isinstance(event, Output) and event.step is not None and event.after]
    known = next((event.steps for event in reversed(events) if isinstance(event, Rewound)), ())
    missing = [event for event in outputs if event.step not in known and not _is_ancestor(session, event.after)]
    if missing:
        steps = {event.step for event in missing if event.step is not None}
        return _make_error(session, events[0], describe_step_numbers(steps), missing[-1].after)
    before = events[0].before
    if not outputs and before and not _is_ancestor(session, before):
        return _make_error(session, events[0], "the beginning", before)
    request = next((event for event in reversed(since) if isinstance(event, ApprovalRequested)), None)
    if request is not None and request.before and not _is_ancestor(session, request.before):
        return _make_error(session, events[0], f"the state before step {request.step}", request.before)
    return None


def _make_error(session: Position, start: Event, what: str, commit: str) -> RunElsewhereError:
    repo, id = session.repo, _id(commit)
    began_on = start.branch if isinstance(start, TaskStart) else ""
    try:
        holds = [name for name, tip in repo.branches().items() if repo.is_ancestor(id, tip) and not is_temporary(name)]
    except DamagedObjectError:
        return RunElsewhereError(start.run, what, commit=commit[:8], gone=True)
    branch = began_on if began_on in holds else next(iter(holds), "")
    lease = repo.lease_of(branch) if branch else None
    is_in_use = lease is not None and lease.session != session.id and lease.is_alive(repo.store)
    return RunElsewhereError(start.run, what, branch, commit[:8], is_in_use)


def _is_ancestor(session: Position, commit: str) -> bool:
    """Whether the state goes on from a commit; where the history is damaged nobody knows."""
    if session.head is None:
        return False
    id, repo = _id(commit), session.repo
    try:
        return repo.is_ancestor(id, session.head)
    except DamagedObjectError:  # the commit itself, or one on the way
        pass
    try:
        return any(id in one.parents for _, one in repo.log([session.head]))
    except DamagedObjectError:
        return True


def _id(commit: str) -> ObjectId:
    return ObjectId(bytes.fromhex(commit) + ALGORITHM)


# -- what became of a race, read from the events of its run: its candidates by number, which were picked, whether the others are gone


class RaceOutcome(msgspec.Struct, frozen=True):
    """`runs`: the run of each candidate, by its number; `discarded`: the branches are gone.

    `picks`: which were picked, the last first, each with the commit that its variables came here with.
    """

    runs: dict[int, str]
    picks: tuple[tuple[int, str], ...] = ()
    discarded: bool = False

    def find_pick(self, repo: Repository, head: ObjectId | None) -> int:
        """The number of the candidate from which the variables at a commit go on; 0: none, or its pick was undone."""
        picks = (
            one for one, at in self.picks if at and contains_commit(repo, head, ObjectId(bytes.fromhex(at) + ALGORITHM))
        )
        return next(picks, 0)

    def describe(self, picked: int) -> str:
        """`picked 2 of 3`; "" where nothing is decided."""
        many = len(self.runs)
        if picked:
            return f"picked {picked} of {many}"
        return f"discarded all {many}" if self.discarded else ""


def is_race(start: Event) -> bool:
    """Whether a run is a race as a whole, and not one of its candidates."""
    return isinstance(start, TaskStart) and start.namespace == "race" and not start.prompt


def race_outcome(events: Sequence[Event]) -> RaceOutcome:
    """What the events of a race tell."""
    notes = [event for event in events if isinstance(event, SubRun)]
    runs = {number: one.child for one in notes if (number := candidate_on(one.branch)[1])}
    picks = [
        (candidate_on(one.branch)[1], one.after or one.before) for one in reversed(notes) if one.status == "picked"
    ]
    return RaceOutcome(runs, tuple(picks), any(one.status == "discarded" for one in notes))


def candidate_of(event_store: EventStore, start: Event) -> int:
    """Which candidate of its race a run is; 0 for other runs."""
    if not start.parent_run:
        return 0
    try:
        events = tuple(event_store.of(event_store.find(start.parent_run)))
    except RunNotFoundError:  # it was forgotten
        return 0
    if not is_race(events[0]):
        return 0
    return next((number for number, run in race_outcome(events).runs.items() if run == start.run), 0)
