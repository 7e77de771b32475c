"""Turn what cells do to a namespace into commits on a branch, and keep what each did for undo and redo.

Order is what makes it safe. A commit is staged from the live values, published in one swap, and only then taken as the
state to compare with; a failed publish leaves everything to the next commit.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

import msgspec

from agent_kernel.errors import (
    AgentKernelError,
    BranchMovedError,
    DamagedObjectError,
    NothingToUndoError,
    SessionClosedError,
    StoreError,
    StoreUnavailableError,
)
from agent_kernel.quiet import seldom_collected, uninterrupted
from agent_kernel.records.sessions import SESSIONS
from agent_kernel.repository import (
    ASIDE,
    Author,
    Cell,
    Change,
    Entry,
    Head,
    Holder,
    Kind,
    ObjectId,
    Tree,
    Unsaved,
    Writer,
    person,
    short,
)
from agent_kernel.session import history, trust
from agent_kernel.session.dependencies import leave_figures
from agent_kernel.session.history import (
    NOTHING,
    Draft,
    LooseRecorder,
    Recorder,
    compare_not_loaded,
    describe_error,
    escape_surrogates,
    only_commands,
    sort_changes,
    tree_edits,
    variables,
    within_cell,
)
from agent_kernel.session.process_state import PYLAB, Before, ran_pylab
from agent_kernel.session.snapshot import Repository
from agent_kernel.session.tracking import IgnoreList
from agent_kernel.session.workspace import Touched, Workspace

if TYPE_CHECKING:
    from collections.abc import Generator

    from agent_kernel.records.lines import Pending
    from agent_kernel.repository import Commit, Outputs
    from agent_kernel.repository.commits import Recent
    from agent_kernel.session.provenance import NotebookSnapshot
    from agent_kernel.session.serialization import Staged
    from agent_kernel.session.tracking import Living


# -- where a session stood and what it did, so that `undo` and `redo` can go back and forth; with it goes the conversation
#
# An operation is where the session was before and after it: at a commit, and with variables that the branch holds and memory
# does not, as after a restart. Reversing one is itself recorded where it happens, so these lists are put back as they were and
# shifted by one.


class NotLoaded:
    """What a branch held and memory did not, at one moment of a session.

    A session remembers one of these at each commit. So one keeps only how it differs from the one before it, and equal
    ones are the same object.
    """

    __slots__ = ("_added", "_before", "_removed")

    def __init__(
        self, names: frozenset[str] = NOTHING, before: NotLoaded | None = None, removed: frozenset[str] = NOTHING
    ) -> None:
        self._before, self._added, self._removed = before, names, removed

    def names(self) -> frozenset[str]:
        """The names that are not loaded."""
        moments: list[NotLoaded] = []
        moment: NotLoaded | None = self
        while moment is not None:
            moments.append(moment)
            moment = moment._before
        found: set[str] = set()
        for moment in reversed(moments):
            found -= moment._removed
            found |= moment._added
        return frozenset(found)

    def then(self, names: frozenset[str], was: frozenset[str] | None = None) -> NotLoaded:
        """The moment after this one, with these names. `was`: what `names` gives now, if that is known."""
        was = self.names() if was is None else was
        if names is was or names == was:
            return self
        added, removed = names - was, was - names
        return NotLoaded(added, self, removed) if len(added) + len(removed) < len(names) else NotLoaded(names)


ALL_LOADED = NotLoaded()


class Position(msgspec.Struct, frozen=True, gc=False):
    """Where a session was: on a branch (or none) at a commit (or before the first), and what was not in memory there."""

    branch: str | None
    commit: ObjectId | None
    absent: NotLoaded = ALL_LOADED

    @property
    def not_in_memory(self) -> frozenset[str]:
        """What was not in memory there."""
        return self.absent.names()


class Operation(msgspec.Struct, frozen=True, gc=False):
    """One thing that undo can reverse.

    Attributes:
        moved: HEAD went elsewhere, and no content was made.
        run: an agent's, as a whole.
        took: what agents had made elsewhere and was taken on: candidates, previews.
        by: whose work it is; None: of several, or nobody knows.
        chat: it took the conversation back and nothing else, so redo reverses it too.
    """

    before: Position
    after: Position
    moved: bool = False
    run: str = ""
    took: tuple[str, ...] = ()
    by: Author | None = None
    chat: bool = False


class Operations(msgspec.Struct):
    """The operations of one session: what undo reverses next, and what redo does again next."""

    done: list[Operation] = msgspec.field(default_factory=list[Operation])
    undone: list[Operation] = msgspec.field(default_factory=list[Operation])
    ended: str = ""  # what ended the chance to redo, if anything did
    begun: str = ""  # what happened before the first of these that undo cannot go behind, if anything did

    def add(self, operation: Operation, what: str) -> None:
        """Something was done; `what` says it in the past tense, for whoever wants to redo after it."""
        self.done.append(operation)
        if self.undone:
            self.ended = f"{what} since the last undo"
            self.undone = []

    def prolong(self, before: Position, after: Position) -> None:
        """What was done last ends here by now: what was stored since changed no variable, and is nothing to undo by itself."""
        if self.done and self.done[-1].after == before:
            self.done[-1] = msgspec.structs.replace(self.done[-1], after=after)

    def last(self, verb: str) -> Operation:
        """What the verb is about.

        Raises:
            NothingToUndoError: there is nothing left.
        """
        found = self.done if verb == "undo" or self.brings_chat_back else self.undone
        if not found:
            raise NothingToUndoError(verb, (self.ended or self.begun) if verb == "redo" else self.begun)
        return found[-1]

    @property
    def brings_chat_back(self) -> bool:
        """Whether redo is about a conversation that was taken back last."""
        return not self.undone and bool(self.done) and self.done[-1].chat

    def shift(self, verb: str) -> Operations:
        """Return the same after the verb was done."""
        if verb == "redo" and self.brings_chat_back:
            return Operations(self.done[:-1], ended=self.ended, begun=self.begun)
        if verb == "undo":
            return Operations(self.done[:-1], [*self.undone, self.done[-1]], begun=self.begun)
        return Operations([*self.done, self.undone[-1]], self.undone[:-1], begun=self.begun)

    def rename_branch(self, old: str, new: str) -> Operations:
        """Return the same where a branch has another name."""

        def at(position: Position) -> Position:
            return msgspec.structs.replace(position, branch=new) if position.branch == old else position

        def of(operations: list[Operation]) -> list[Operation]:
            return [msgspec.structs.replace(one, before=at(one.before), after=at(one.after)) for one in operations]

        return Operations(of(self.done), of(self.undone), self.ended, self.begun)


# -- what a session answers: what it did, and where it stands

_NAMES = 6  # that a report spells out


class Report(msgspec.Struct, frozen=True):
    """What one operation did. `commit` is None where nothing had to be recorded.

    `records` names the first of the records that changed, as the log does: `~Note:a`. `more_records` counts the others.
    """

    commit: ObjectId | None
    record: Commit | None
    branch: str | None
    changed: tuple[Change, ...] = ()
    unsaved: tuple[Unsaved, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    written_bytes: int = 0
    records: tuple[str, ...] = ()
    more_records: int = 0

    def __repr__(self) -> str:
        """`<Report 3f2a91c4 on main: ~df, +model, ~Note:a>`"""
        at = "no commit" if self.commit is None else short(self.commit)
        names = [f"{change.how}{change.name}" for change in self.changed] + list(self.records)
        changed = ", ".join(names[:_NAMES]) or "no change"
        rest = len(names[_NAMES:]) + self.more_records
        more = f" and {rest} more" if rest else ""
        return f"<Report {at} on {self.branch or 'no branch'}: {changed}{more}>"


class Status(msgspec.Struct, frozen=True):
    """Where a session stands. `changed` counts bindings only; `unverified` names what may have changed in place.

    `carried`: variables of before a restart that the branch holds and memory does not.
    """

    branch: str | None
    head: ObjectId | None
    detached: bool
    restart_pending: bool
    names: int
    unverified: tuple[str, ...]
    changed: tuple[Change, ...]
    lost: tuple[Unsaved, ...]
    ignored: tuple[str, ...]
    store_url: str
    store_bytes: int
    carried: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """`<Status on main at 3f2a91c4: 12 bound, 2 not committed>`"""
        at = "no commit yet" if self.head is None else short(self.head)
        where = f"on {self.branch or 'no branch'} at {at}"
        return f"<Status {where}: {self.names:,} bound, {len(self.changed):,} not committed>"


# -- a session: its namespace, its branch and HEAD, and what the branch holds that memory does not
#
# Nothing here writes a commit. HEAD is looked up again where something else in this process rewrote the history.

# What Python itself puts into a module's namespace.
_MODULE_NAMES = frozenset(
    [
        "__name__",
        "__doc__",
        "__package__",
        "__loader__",
        "__spec__",
        "__file__",
        "__cached__",
        "__builtins__",
        "__annotations__",
        "__warningregistry__",
    ]
)
_DAMAGED = "a part of the store is damaged; %agent verify names the variables that it hits"


class Running(msgspec.Struct):
    """The cell that runs, or the step."""

    source: str
    id: str
    number: int | None
    author: Author
    began: float
    outside: frozenset[str]
    depth: int = 1
    run: str = ""
    step: int | None = None
    operations_before: int = 0  # operations before it
    thread: int = 0  # that it runs on
    before: Before | None = None  # what it may set in the process


logger = logging.getLogger(__name__)


class RecordCommits(msgspec.Struct, frozen=True):
    """Commits of records alone which a program made between two commits of its own.

    Attributes:
        before: where the session was.
        done: how many operations undo could reverse there.
        others: what other branches and tags held when the first was made: it is not among that.
        operations: how many operations undo can reverse after the last.
    """

    before: Position
    operations_before: int
    others: frozenset[ObjectId]
    first: ObjectId
    last: ObjectId
    operations: int


P = ParamSpec("P")
S = TypeVar("S", bound="Committing")
T = TypeVar("T")


def moves_head(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Let no other thread commit records from when a method commits what is there until HEAD is where it leads.

    Otherwise they would be built on the state that is left, and be committed in the other one.
    """

    @functools.wraps(method)
    def alone(session: S, /, *args: P.args, **options: P.kwargs) -> T:
        with session.alone(), session.committing():
            try:
                return method(session, *args, **options)
            finally:
                session.moves += 1

    return alone


class StepRefused(Exception):  # noqa: N818 - nothing went wrong
    """What a step made is not committed: looking at it did what nobody had allowed."""


def _records_of(commit: Commit) -> tuple[ObjectId | None, Recent]:
    return commit.records, commit.recent


def name_records(report: Report, repo: Repository, before: ObjectId | None) -> Report:
    """The report with the records that are others than at a commit before. It costs nothing where these are the same."""
    if report.commit is None or report.record is None:
        return report
    try:
        if _records_of(report.record) == ((None, ()) if before is None else _records_of(repo.commit_at(before))):
            return report
        from agent_kernel.records.trees import changed_records

        names, more = changed_records(repo, before, report.commit, _MOST_RECORDS)
    except StoreError as error:  # what was done is done
        logger.debug("the records that changed are not named", exc_info=error)
        return report
    return msgspec.structs.replace(report, records=names, more_records=more)


_MOST_RECORDS: Final = 50  # that a report names


_TURN_S: Final = 60.0  # that a step of an agent waits for another thread's, and records for a commit


class Committing:
    """A live namespace on a branch, whose cells, and whose agents' steps, become commits."""

    def __init__(
        self,
        namespace: dict[str, object],
        repo: Repository,
        *,
        branch: str | None = None,
        author: Author | None = None,
        session_id: str | None = None,
        skip: Callable[[str], bool] | None = None,
        living: Living | None = None,
    ) -> None:
        # One that goes on for another has its id: cells, and what they made, are found under it.
        self.id = (living.session if living is not None else session_id) or secrets.token_hex(4)
        self.repo = repo
        self.namespace = namespace
        self.author = author or person()
        self.notes: list[str] = []
        self.ignoring = IgnoreList(repo)
        self.workspace = Workspace(namespace, repo, lambda name: not self._is_skipped(name), living)
        self.workspace.living.session = self.id
        # Where cells run, a commit of records between them stays; else the program's next commit takes its place.
        self.runs_cells = False
        self._record_commits: RecordCommits | None = None
        self._skip = skip
        self._recorder = Recorder(repo, self.id, self.workspace.living.process)
        self._thread = threading.get_ident()
        self._holder = Holder.of_this_process(self.id)
        self._cell: Running | None = None
        # The cells around agents' steps, and how much was done before.
        self._outer: list[tuple[Running | None, int]] = []
        self._steps = threading.RLock()  # whose thread runs a step
        self._publishing = threading.RLock()  # whose thread moves HEAD: any may commit records
        self._first_pending = threading.Lock()
        self._committing: list[int] = []  # the threads that are about to
        self.moves = 0  # of HEAD, other than by a commit here
        self._refuses: Callable[[], bool] = lambda: False  # of the step that ends: whether it must not be committed
        self._operations = Operations()
        self._closed = False
        self._given_up = False
        self._growth = history.Growth()
        self.passed_over = ""  # the run that changed nothing, of which undo said so
        self.branch: str | None
        self.head: ObjectId | None
        self.branch, self.head, note = history.take(repo, branch, self._holder, self.id)
        self.notes += filter(None, (note, trust.notice(repo), _DAMAGED if repo.is_damaged() else ""))
        self._base = self.branch or "main"
        self._tree: Tree = repo.tree_at(self.head)
        # What the branch holds and this session has not loaded; and what that was at commits which this session made.
        self._not_loaded_names, self._absent = NOTHING, ALL_LOADED
        self._index = history.EntryIndex(repo)
        self._not_loaded = frozenset(self._tree.names())
        self._not_loaded_at: dict[ObjectId, NotLoaded] = {}
        self._bound_at = self.head
        self._restarted = any(name not in namespace for name in variables(self._not_loaded))
        self._found_names = bool(self.workspace.bindings.names(namespace))
        self._begun = False
        self._epoch: bytes | None = None  # the store's, as of which HEAD is known to be there
        SESSIONS[self] = None

    def __repr__(self) -> str:
        """`<Session on main at 3f2a91c4, lmdb:///…>`"""
        at = "no commit yet" if self.head is None else short(self.head)
        closed = ", closed" if self._closed else ""
        return f"<{type(self).__name__} on {self.branch or 'no branch'} at {at}, {self.repo.store.url}{closed}>"

    @property
    def _position(self) -> Position:
        last = self._operations.done[-1].after if self._operations.done else None
        if last is not None and (last.branch, last.commit) == (self.branch, self.head) and last.absent is self._absent:
            return last
        return Position(self.branch, self.head, self._absent)

    @property
    def _not_loaded(self) -> frozenset[str]:
        return self._not_loaded_names

    @_not_loaded.setter
    def _not_loaded(self, names: frozenset[str]) -> None:
        self._absent = self._absent.then(names, self._not_loaded_names)
        self._not_loaded_names = names

    @property
    def operations(self) -> Operations:
        """What undo and redo go by, the newest last."""
        return self._operations

    @property
    def next_undo(self) -> Operation | None:
        """What `undo` would reverse."""
        return self._operations.done[-1] if self._operations.done else None

    @property
    def next_redo(self) -> Operation | None:
        """What `redo` would do again; of a conversation that was taken back last, bring back."""
        if self._operations.brings_chat_back:
            return self._operations.done[-1]
        return self._operations.undone[-1] if self._operations.undone else None

    def _is_skipped(self, name: str) -> bool:
        return (
            "\0" in name
            or name in _MODULE_NAMES
            or name in self.ignoring
            or (self._skip is not None and self._skip(name))
        )

    def watch_notebook(self, path: Path | None) -> None:
        """Keep the cells of this notebook file with the commits, as they were on the disk at the time."""
        self._recorder.notebook = path

    def tell_page(self, page: NotebookSnapshot) -> None:
        """Keep these cells with the commits, as a front end has them open, until the file is saved after this."""
        self._recorder.open_document = page

    @property
    def has_page(self) -> bool:
        """Whether the cells of a notebook are kept with the commits."""
        return self._recorder.notebook is not None or self._recorder.open_document is not None

    def status(self, names: bool = True) -> Status:
        """Where the session stands; runs nothing and reads no value."""
        rebound = self.workspace.bindings.find_changes(self.namespace)
        # Bound to a store that has them already: whether they are still the same, only the next commit finds out.
        known = frozenset(name for name in rebound.new if name in self._tree)
        marks = [(rebound.new - known, "+"), (rebound.rebound, "~"), (rebound.removed, "-")]
        changed = sort_changes(Change(name, how, 0) for found, how in marks for name in found)
        unseen = [*known, *self.workspace.find_unverified()] if names else []
        unverified = sorted({name for name in unseen if not name.startswith("\0")} - rebound.removed)
        size = getattr(self.repo.store, "size", None)
        carried = self.carried()
        return Status(
            branch=self.branch,
            head=self.head,
            detached=self.branch is None,
            restart_pending=bool(carried),
            names=len(self.workspace.bindings.names(self.namespace)),
            unverified=tuple(unverified),
            changed=changed,
            lost=self.workspace.describe_unsaved(),
            ignored=tuple(sorted(self.ignoring)),
            store_url=self.repo.store.url,
            store_bytes=size().disk_bytes if size is not None else 0,
            carried=tuple(carried),
        )

    def carried(self) -> list[str]:
        """Variables that the branch holds and memory does not, because a restart took them and nobody brought them back."""
        return [
            name for name in variables(self._not_loaded) if name not in self.namespace and name not in self.ignoring
        ]

    @property
    def restarted_at(self) -> ObjectId | None:
        """The commit at which a restart took variables out of memory that nobody has brought back; None: all are there."""
        return self._bound_at if self.carried() else None

    def _follow_rewriting(self, writer: Writer) -> None:
        """Where something else in this process pruned the history, or forgot of it, HEAD is another commit by now."""
        if writer.epoch == self._epoch:
            return
        self._epoch = writer.epoch
        self._recorder.masks(self.repo.masked_names(), self.namespace)
        if self.head is not None and not self.repo.store.get_many([Kind.COMMIT + self.head]):
            self._reread_head("something")
            self._compare_with_head()

    def follow_rewriting(self) -> None:
        """Look HEAD up again if something else in this process has rewritten the history."""
        self._follow_rewriting(self.repo.writer())

    def _reread_head(self, verb: str) -> None:
        head = self.repo.head(self.id)
        self.branch, self.head = head.branch, head.commit
        self.moves += 1
        self._tree = self.repo.tree_at(self.head)
        self._not_loaded = frozenset(name for name in self._not_loaded if name in self._tree)
        self._not_loaded_at.clear()
        self._operations = Operations(
            begun=f"{verb} has rewritten what was done before; rollback REF goes to what is left"
        )

    def _compare_with_head(self) -> tuple[str, ...]:
        """The commit of the present state may be gone. What memory holds otherwise is uncommitted from then on."""
        uncommitted = self.workspace.compare_with(self._tree, self._not_loaded)
        self._not_loaded = frozenset(name for name in self._tree.names() if name not in self.workspace.tracking.groups)
        return tuple(uncommitted)

    @property
    def pending(self) -> Pending:
        """The records of the branch, with what the next commit will change of them."""
        if self._recorder.pending is None:
            from agent_kernel.records.lines import Pending

            with self._first_pending:  # of two that threads begin, one would not be committed
                if self._recorder.pending is None:
                    self._recorder.pending = Pending(self.repo, self)
        return self._recorder.pending

    @property
    def lease(self) -> Holder:
        """Who holds the branch for it."""
        return self._holder

    @property
    def is_open(self) -> bool:
        """Whether it can still commit."""
        return not (self._closed or self._given_up)

    def commit_records(self) -> None:
        """Commit changed records now. Where a cell runs, or HEAD moves, they are for the next commit.

        So are those that another thread changes between two cells: undo after a cell reverses that cell.
        """
        self._require_open()
        if self.commits_records and self._has_pending():
            self._commit_records()

    def _commit_records(self) -> None:
        with self._publishing, self.committing():
            before, done = self._position, len(self._operations.done)
            record_commits = self._record_commits if self._ends_with_record_commits() else None
            draft = self._commit_pending()
            if self.head is not None and not self.runs_cells and (draft.undoable or before.commit is None):
                now = len(self._operations.done)
                self._record_commits = (
                    RecordCommits(before, done, self._other_tips(), self.head, self.head, now)
                    if record_commits is None
                    else msgspec.structs.replace(record_commits, last=self.head, operations=now)
                )

    @property
    def runs_here_since(self) -> float:
        """When the cell or step began that this thread runs, on `time.perf_counter`; 0.0: it runs none."""
        running = self._cell
        return running.began if running is not None and running.thread == threading.get_ident() else 0.0

    @property
    def commits_records(self) -> bool:
        """Whether `commit_records` commits, and leaves nothing to the next commit."""
        return not self._leaves_records_to_cell and threading.get_ident() not in self._committing

    @property
    def _leaves_records_to_cell(self) -> bool:
        return self._cell is not None or (self.runs_cells and threading.get_ident() != self._thread)

    def _resolve(self, rev: str) -> ObjectId:
        """The commit that a revision names. It counts from the same commit as for all others, who name one while HEAD stays."""
        pending = self._recorder.pending
        if pending is not None and pending.lies_beside and not self._leaves_records_to_cell:
            pending.gather()
            self._commit_records()
        return self.repo.resolve(rev, self.id)

    @contextmanager
    def committing(self) -> Generator[None]:
        """What changes records, or asks for what is there, within the block makes no commit of its own."""
        thread = threading.get_ident()
        self._committing.append(thread)
        try:
            yield
        finally:
            self._committing.remove(thread)

    @contextmanager
    def alone(self) -> Generator[None]:
        """While no other thread commits, and HEAD stays where it is. The same thread may ask for it again.

        Raises:
            StoreUnavailableError: another thread has been at it for a minute. It may be waiting for this one.
        """
        if not self._publishing.acquire(timeout=_TURN_S):
            raise StoreUnavailableError(self.repo.store.url, "another thread has been committing for a minute")
        try:
            yield
        finally:
            self._publishing.release()

    def uninterrupted(self) -> contextlib.AbstractContextManager[None]:
        """While Ctrl-C waits."""
        return uninterrupted()

    def commit_last_records(self) -> None:
        """The session ends, and nobody else commits what threads changed since the last commit, or what waits to be stored together."""
        pending = self._recorder.pending
        if pending is None or not self.is_open or self._holder.pid != os.getpid():  # a fork leaves all to its parent
            return
        pending.flush()
        try:
            if self._has_pending():
                self._commit_pending()
        except StoreUnavailableError:
            if not pending.is_stored:
                raise
            # The program closed the store before its session: nothing is lost, the next commit of the branch takes it in.

    def _commit_pending(self) -> Draft:
        with uninterrupted():
            writer, draft = self.repo.writer(), self._own_draft(self.pending.message)
            self._follow_rewriting(writer)
            self._record(writer, self._tree, draft, time.perf_counter(), self._not_loaded)
        return draft

    def keep_record_commits(self) -> None:
        """Somebody refers to HEAD: let commits of records alone stay as they are."""
        self._record_commits = None

    def _ends_with_record_commits(self) -> bool:
        """Whether what was done last were commits of records alone, which no other branch and no tag holds."""
        record_commits = self._record_commits
        if (
            record_commits is None
            or self.head != record_commits.last
            or len(self._operations.done) != record_commits.operations
        ):
            return False
        return not any(
            self.repo.is_ancestor(record_commits.first, tip) for tip in self._other_tips() - record_commits.others
        )

    def _other_tips(self) -> frozenset[ObjectId]:
        branches = (id for name, id in self.repo.refs.branches().items() if name != self.branch)
        return frozenset((*self.repo.tags().values(), *branches))

    def _has_pending(self) -> bool:
        if self._recorder.pending is None:
            return False
        return self._recorder.pending.gather()  # updates that wait belong to what is here

    def _require_open(self) -> None:
        # Once the lease is given back, the branch may be another session's to move.
        if self._closed or self._given_up:
            raise SessionClosedError

    def give_up(self) -> None:
        """Have it write nothing any more, from whatever thread: what works with it does not end, and nobody waits for it."""
        self._given_up = True

    def close(self) -> None:
        """Give the branch back. Records that wait are committed; variables stay uncommitted. Closing it again does nothing."""
        if self._closed:
            return
        try:
            self.commit_last_records()
        finally:
            self._closed = True
            self._leave()

    def _leave(self) -> None:
        self.workspace.monitor.close()
        self.workspace.living.rest()
        leave_figures()
        if self.branch is not None:
            with contextlib.suppress(StoreError):  # the store may be gone by now, and its leases with it
                self.repo.release_lease(self.branch, self._holder)
                if self.id.startswith(ASIDE):  # nobody goes on from where it was
                    self.repo.drop_head(self.id)

    # -- cells

    def begin_cell(
        self, source: str, *, cell_id: str = "", number: int | None = None, author: Author | None = None
    ) -> Report | None:
        """A cell is about to run. What moved since the last commit was not this cell's doing.

        Variables that are there before the session's first cell get a commit of their own, which undo does not reverse.

        Raises:
            SessionClosedError: nothing was committed. So do all methods that write.
        """
        self._require_open()
        if self._cell is not None:  # a cell run by a cell is part of it
            self._cell.depth += 1
            return None
        found = None if self._begun else self._commit_existing_variables()
        outside: frozenset[str] = frozenset()
        if self.workspace.tracking.groups:
            rebound = self.workspace.bindings.find_changes(self.namespace)
            outside = rebound.new | rebound.rebound | rebound.removed
        self.workspace.living.cell = f"cell [{number}]" if number is not None else "the cell that made it"
        self._cell = Running(source, cell_id, number, author or self.author, time.perf_counter(), outside)
        self._cell.operations_before = len(self._operations.done)
        self._cell.thread = threading.get_ident()
        self._cell.before = self.workspace.living.process.look_before(source, self.namespace)
        self.workspace.begin()
        return found

    def _commit_existing_variables(self) -> Report | None:
        report: Report | None = None
        if self.workspace.bindings.names(self.namespace):
            draft = Draft(kind="commit", author=self.author, message="what was there before", undoable=False)
            report = self._commit(draft, "", only_changes=True)
        self._begun = True
        return report

    def end_cell(self, *, error: BaseException | None = None, outputs: Outputs | None = None) -> Report | None:
        """The cell has run, well or not: commit what it changed. None for a cell of nothing but %agent lines.

        One in which agents worked, or that took on what they made, is one operation with all that.

        Args:
            outputs: what the cell showed; pictures in it may still be inline.
        """
        running = self._cell
        report = self._end_cell(error, outputs)
        if running is not None and not running.depth and not running.run:
            mine = self._operations.done[running.operations_before :]
            if any(one.run or one.took for one in mine):
                # Also where nothing is left for the cell's own commit to change: the operation goes by that, not by a step.
                self._join(
                    "", running.operations_before, self._position if report is not None and report.commit else None
                )
        return report

    def _end_cell(self, error: BaseException | None, outputs: Outputs | None) -> Report | None:
        running = self._cell
        if running is None:
            return None
        running.depth -= 1
        if running.depth:
            return None
        self._cell = None
        self.workspace.monitor.stop()
        self.workspace.living.process.note(
            running.source, self.namespace, running.before, self.workspace.names_of_shell
        )
        if only_commands(running.source):
            return None
        interrupted = isinstance(error, KeyboardInterrupt)
        draft = Draft(
            kind="cell",
            author=running.author,
            status="ok" if error is None else "interrupted" if interrupted else "failed",
            cell=Cell(
                source=escape_surrogates(running.source),
                id=running.id,
                number=running.number,
                duration_s=round(time.perf_counter() - running.began, 6),
                error="" if error is None else describe_error(error),
            ),
            outputs=outputs,
            run=running.run,
            step=running.step,
        )
        return self._commit(draft, running.source, outside=running.outside, rolling=True)

    def commit(self, message: str = "", *, full: bool = False, author: Author | None = None) -> Report:
        """Commit now. Without a message, and with nothing changed, there is nothing to record.

        While no cell is running, no code says what may have changed, and every variable is looked at.

        Args:
            full: do so within a cell too, and store also values of gigabytes, which are held back otherwise.
        """
        draft = self._own_draft(message, author)
        draft.takes_in = True
        source = self._cell.source if self._cell is not None else ""
        looks = full or self._cell is None
        return self._commit(draft, source, everything=looks, holds_back=not full, only_changes=not message)

    @seldom_collected()
    def _commit(
        self,
        draft: Draft,
        source: str,
        *,
        everything: bool = False,
        holds_back: bool | None = None,
        only_changes: bool = False,
        outside: frozenset[str] = frozenset(),
        rolling: bool = False,
    ) -> Report:
        self._require_open()
        began = time.perf_counter()
        writer = self.repo.writer()
        self._follow_rewriting(writer)
        touched = self.workspace.find_touched(source, everything=everything)
        checked = self.workspace.choose_for_verification(touched) if rolling and not touched.everything else []
        asked = everything if holds_back is None else not holds_back
        wider = touched.with_checked(checked, stores_large=asked)
        try:
            staged = self.workspace.stage(wider, writer)
        except AgentKernelError:
            self.workspace.look_again(wider, None)
            raise
        except Exception as error:  # code of others runs there, and may do what nobody thought of
            if not rolling:
                raise
            return self._keep_cell(writer, touched, draft, error, began)
        if rolling and self._refuses():
            self.workspace.look_again(wider, staged)
            raise StepRefused
        if staged.interrupted and everything:  # something is about to be replaced that could not be saved
            raise KeyboardInterrupt
        # On no branch, only a change starts one: looking at a past state must not.
        looks = only_changes or (self.branch is None and not draft.message)
        if looks and not staged.entries and not self._has_pending() and not self._takes_in(draft):
            self.workspace.accept(staged)
            self._begun = True
            return Report(None, None, self.branch, seconds=time.perf_counter() - began)
        if rolling:
            draft.labels += _labels(staged, touched, frozenset(checked), outside)
        try:
            return self._publish(writer, staged, draft, began, looks=looks)
        except BaseException:
            self.workspace.look_again(wider, staged)
            raise

    def _cell_around(self) -> list[str]:
        """The label of a commit without a cell that the code of a cell makes: running the cell again makes it again."""
        cells = [self._cell, *(cell for cell, _ in reversed(self._outer))]
        around = next((cell for cell in cells if cell is not None and not cell.run), None)
        if around is None or around.number is None or only_commands(around.source):
            return []
        return [within_cell(around.number)]

    def _keep_cell(self, writer: Writer, touched: Touched, draft: Draft, error: Exception, began: float) -> Report:
        """Saving the variables of a cell failed: commit the cell without them, and leave them to the next commit."""
        logger.debug("the variables of a cell were not saved", exc_info=error)
        draft.unsaved = self.workspace.postpone(touched, error)
        if self.branch is None:  # nothing starts a branch that has nothing to hold
            return Report(None, None, None, unsaved=draft.unsaved, seconds=time.perf_counter() - began)
        with uninterrupted():
            return self._record(writer, self._tree, draft, began, self._not_loaded)

    def _publish(self, writer: Writer, staged: Staged, draft: Draft, began: float, *, looks: bool) -> Report:
        absent_names = self._not_loaded
        entries: dict[str, Entry | None] = dict(staged.entries)
        if absent_names:
            entries, absent_names = tree_edits(
                self._index, self._tree, absent_names, staged.entries, self.ignoring.select(absent_names)
            )
        # Before the tree is edited: its nodes are at hand until then.
        draft.changed = compare_not_loaded(self._tree, self._not_loaded, entries, staged.changes)
        tree = self._tree.edit(writer, entries) if entries else self._tree
        unloaded = [one for one in self.workspace.describe_load_failures() if one.name not in staged.entries]
        draft.unsaved = (*staged.unsaved.values(), *self.workspace.unwritable(), *unloaded)
        with uninterrupted():
            if not looks or tree.id != self._tree.id or self._has_pending() or self._takes_in(draft):
                report = self._record(writer, tree, draft, began, absent_names)
            else:  # what is new in memory is what the branch holds
                self._not_loaded = absent_names
                report = Report(None, None, self.branch, seconds=time.perf_counter() - began)
            self.workspace.accept(staged)
        self._begun = True
        return report

    def _record(
        self, writer: Writer, tree: Tree, draft: Draft, began: float, absent_names: frozenset[str] = NOTHING
    ) -> Report:
        """Publish a commit on the branch, or on a new one if HEAD is detached, and remember where that leads.

        Args:
            carried: what of the tree is not in memory.
        """
        with self._publishing, self.committing():
            return self._record_alone(writer, tree, draft, began, absent_names)

    def _record_alone(
        self, writer: Writer, tree: Tree, draft: Draft, began: float, absent_names: frozenset[str]
    ) -> Report:
        before = self._position
        target, note = self._branch_to_write()
        if self._restarted:
            draft.labels.append("restart")
        if draft.cell is None:
            draft.labels += self._cell_around()
        # A merge that took nothing of theirs changes what the next one starts from.
        record_commits = self._record_commits if draft.is_own and self._ends_with_record_commits() else None
        if record_commits is not None:
            before = record_commits.before
        if record_commits is not None and draft.takes_in:
            draft.instead = () if before.commit is None else (before.commit,)
        records = self._has_pending() or record_commits is not None
        changes = tree.id != self._tree.id or absent_names != self._not_loaded or bool(draft.other_parents)
        records_before = (None, ()) if self.head is None else _records_of(self.repo.commit_at(self.head))
        try:
            made, record = self._recorder.publish(writer, tree, draft, Head(self.branch, self.head), target)
        except BranchMovedError:
            if target != self.branch:
                raise
            target, note = self._fork(target)
            made, record = self._recorder.publish(writer, tree, draft, Head(self.branch, self.head), target)
        records = records or _records_of(record) != records_before  # a rollback may change nothing else
        changes = changes or records or self._takes_on_pylab(before.commit, record)
        pending = self._recorder.pending
        with contextlib.nullcontext() if pending is None else pending.head_moves():
            self.branch, self.head, self._tree, self._not_loaded = target, made, tree, absent_names
        self._restarted = False
        if record_commits is not None:
            self._operations.done = self._operations.done[: record_commits.operations_before]
        if absent_names:
            self._not_loaded_at[made] = self._absent
        # A cell that only looked is nothing to undo; a run that only looked is: the conversation goes back with it.
        if changes and draft.kind == "commit" and not (draft.changed or draft.run or draft.other_parents or records):
            self._operations.prolong(before, self._position)  # no more than who shares what was found out
        elif (changes or draft.run) and draft.undoable and draft.kind not in ("undo", "redo"):
            what = "a cell ran" if draft.kind == "cell" else f"a {draft.kind} was made"
            self._operations.add(Operation(before, self._position, by=draft.author), what)
        report = Report(
            commit=made,
            record=record,
            branch=self.branch,
            changed=draft.changed,
            unsaved=draft.unsaved,
            notes=tuple(filter(None, (note, self._growth.notice(self.repo.store, writer.written_bytes)))),
            seconds=time.perf_counter() - began,
            written_bytes=writer.written_bytes,
        )
        return name_records(report, self.repo, next(iter(record.parents), None)) if records else report

    def _takes_on_pylab(self, before: ObjectId | None, record: Commit) -> bool:
        """Whether the names of `%pylab` come with a commit: it is undone like one that binds variables."""
        bound = self.workspace.living.process.pylab.bound
        return bool(bound) and PYLAB in record.set_in_libraries and not ran_pylab(self.repo, before)

    def _takes_in(self, draft: Draft) -> bool:
        """Whether a commit takes the place of those of records alone that lie before it: with the variables they are one."""
        return draft.takes_in and self._ends_with_record_commits()

    def _branch_to_write(self) -> tuple[str, str]:
        if self.branch is not None:
            return self.branch, ""
        name = history.free_name(self.repo, self._base)
        self.repo.acquire_lease(name, self._holder)
        self._base = name
        return name, f"this starts branch {name}"

    def _fork(self, branch: str) -> tuple[str, str]:
        """Somebody moved the branch though it is leased to this session: leave it to them, and lose nothing here."""
        name = history.free_name(self.repo, branch)
        self.repo.acquire_lease(name, self._holder)
        self.repo.release_lease(branch, self._holder)
        self._base = name
        return name, f"branch {branch} was moved by someone else; this session goes on as {name}"

    def _save_uncommitted(self) -> Report | None:
        """Commit what is not committed yet, having looked at everything: nothing may be replaced unseen."""
        report = self._commit(
            self._own_draft(f"changes that {'no cell had' if self.runs_cells else 'were not'} committed yet"),
            self._cell.source if self._cell is not None else "",
            everything=True,
            only_changes=True,
        )
        return report if report.commit is not None else None

    def _own_draft(self, message: str, author: Author | None = None) -> Draft:
        """A commit that is no cell's. What was there when the session began is nothing that undo could take back."""
        undoable = self._begun or not self._found_names
        draft = Draft(kind="commit", author=author or self.author, message=message, undoable=undoable, is_own=True)
        return draft if author is not None else self._within_step(draft)

    def _within_step(self, draft: Draft) -> Draft:
        """What happens within an agent's step is the agent's doing."""
        if self._cell is not None and self._cell.run:
            draft.author, draft.run, draft.step = self._cell.author, self._cell.run, self._cell.step
        return draft

    # -- steps of an agent: each is a commit of its own, also in the middle of a cell, and a whole run is one operation of undo

    def begin_step(
        self, source: str, *, author: Author, run: str, step: int | None, cell_id: str = "", number: int | None = None
    ) -> None:
        """Code of an agent is about to run. What the cell around it did so far is committed first, as the cell's own.

        Args:
            step: None: it belongs to the run, and is no step of it.
            cell_id: of the notebook cell that the agent runs in.
            number: of that cell.
        """
        self._require_open()
        self._take_turn()
        try:
            self._begin_within(source, author, cell_id, number)
        except BaseException:
            self._steps.release()
            raise
        if self._cell is not None:
            self._cell.run, self._cell.step = run, step

    def _begin_within(self, source: str, author: Author, cell_id: str, number: int | None) -> None:
        if self._cell is not None:
            draft = self._own_draft("before an agent's step")
            self._commit(draft, self._cell.source, only_changes=True)
            self.workspace.monitor.stop()
        self._outer.append((self._cell, len(self._operations.done)))
        self._cell = None
        try:
            self.begin_cell(source, cell_id=cell_id, number=number, author=author)
        except BaseException:
            self._cell, _ = self._outer.pop()
            raise

    def wait_turn(self) -> None:
        """Wait until no other thread runs a step here: what two change at once nobody could tell apart.

        Raises:
            StepBusyError: one has been running for a minute. It may be waiting for this thread.
        """
        self._take_turn()
        self._steps.release()

    def _take_turn(self) -> None:
        if not self._steps.acquire(timeout=_TURN_S):
            from agent_kernel.errors import StepBusyError

            raise StepBusyError(_TURN_S)

    def end_step(
        self,
        *,
        error: BaseException | None = None,
        outputs: Outputs | None = None,
        refuses: Callable[[], bool] = lambda: False,
        take_back: Callable[[], object] = lambda: None,
    ) -> Report | None:
        """It has run, well or not: commit what it changed. The cell around it goes on.

        Args:
            refuses: whether it must not be committed after all, asked once its variables were looked at.
            take_back: called then, before it ends; what is left is committed.
        """
        running = self._cell
        run = running.run if running is not None else ""
        try:
            self._refuses = refuses
            try:
                return self.end_cell(error=error, outputs=outputs)
            except StepRefused:
                self._refuses = lambda: False
                self._cell = running
                if running is not None:
                    running.depth += 1
                take_back()
                return self.end_cell(error=error, outputs=outputs)
        finally:
            self._refuses = lambda: False
            self._cell, before = self._outer.pop()
            self._join(run, min(before, len(self._operations.done)))
            if self._cell is not None:
                self.workspace.monitor.start()
            self._steps.release()

    def save_step(self) -> ObjectId:
        """Commit what the running step did so far, and return where that led: a sub-agent begins there."""
        self._save_uncommitted()
        return self.head or self._record_beginning()

    def _record_beginning(self) -> ObjectId:
        made = self.commit("begin").commit
        assert made is not None  # with a message there is a commit
        return made

    # -- steps that are seen on a fork first

    def before_fork(self) -> None:
        """Commit all that is not committed yet, so that what a fork changes is the step's own doing."""
        self._require_open()
        self._save_uncommitted()

    def in_fork(self) -> None:
        """In a forked child: from here on commits have no name, and nothing that the parent relies on is moved."""
        reopen: Callable[[], None] | None = getattr(self.repo.store, "reopen_after_fork", None)
        if reopen is not None:
            reopen()
        pending, self._recorder = self._recorder.pending, LooseRecorder(self.repo, self.id, self._recorder.process)
        self._recorder.pending = pending
        self._publishing = threading.RLock()  # the thread that had the other one is not here
        self._recorder.masks(self.repo.masked_names(), self.namespace)
        self.branch = self.branch or self._base  # else the first commit would start one

    @contextmanager
    def taking(self, what: str) -> Generator[None]:
        """The operation that the block ends with takes on what an agent made elsewhere; within a cell it is part of the cell's."""
        before = len(self._operations.done)
        yield
        done = self._operations.done
        if len(done) > before:
            done[-1] = msgspec.structs.replace(done[-1], took=(*done[-1].took, what))

    def _join(self, run: str, before: int, after: Position | None = None) -> None:
        """Make what was done since, and what the same run did right before, one operation.

        Args:
            after: where it ends; by default where the last thing did that was done.
        """
        done = self._operations.done
        while run and before and done[before - 1].run == run:
            before -= 1
        mine = done[before:]
        if mine:
            is_first = bool(run) and not any(one.run == run for one in done[:before])
            begun = self._find_start(run, mine[0].before) if is_first else mine[0].before
            took = tuple(what for one in mine for what in one.took)
            by = mine[0].by if all(one.by == mine[0].by for one in mine) else None
            whole = Operation(begun, after or mine[-1].after, all(one.moved for one in mine), run, took, by)
            self._operations.done = [*done[:before], whole]

    def _find_start(self, run: str, position: Position) -> Position:
        """Where a run began that this session goes on with: its steps of before a restart go back with the others."""
        at = position.commit
        try:
            while at is not None and (commit := self.repo.commit_at(at)).run == run:
                at = next(iter(commit.parents), None)
            if at == position.commit:
                return position
            names = self.repo.tree_at(at)
        except DamagedObjectError:  # pruned
            return position
        was = position.not_in_memory
        return Position(
            position.branch, at, position.absent.then(frozenset(name for name in was if name in names), was)
        )


def _labels(staged: Staged, touched: Touched, checked: frozenset[str], outside: frozenset[str]) -> list[str]:
    """Say of changes that the cell's own code does not explain where they come from."""
    moved = touched.rebound.new | touched.rebound.rebound | touched.rebound.removed
    found = sorted(name for name in staged.changes if name in checked and name not in touched.names | moved)
    before = sorted(name for name in staged.changes if name in outside)
    labels = [f"changed before the cell ran: {', '.join(before)}"] if before else []
    return [*labels, f"changed by something else: {', '.join(found)}"] if found else labels
