"""Where a session stood and what it did, so that `undo` and `redo` can go back and forth; with it goes the conversation with agents.

An operation is where the session was before and after it: at a commit, and with variables that the branch holds and memory
does not, as after a restart. Reversing one is itself recorded where it happens, so these lists are put back as they were and
shifted by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Final, NamedTuple, TypeAlias

import msgspec

from agent_kernel.errors import DamagedObjectError, NewerFormatError, NothingToUndoError
from agent_kernel.repository import (
    NO_CHAT,
    Author,
    Change,
    Commit,
    Entry,
    ObjectId,
    Repository,
    Tree,
    Unsaved,
    hex_of,
    short,
)
from agent_kernel.repository.commits import ALGORITHM
from agent_kernel.session.history import changes_between, size_of, sort_changes
from agent_kernel.values import CLASS_PREFIX

# -- variables that the branch holds and memory does not: what a restarted kernel has not brought back
#
# Every commit keeps the entries of such names as they are, until the person binds the name anew, loads it, or leaves it
# behind. The functions here say what else of a tree changes with one of them: names that shared a value with it, and
# notebook classes that only it needed.

NOTHING: frozenset[str] = frozenset()
ClassGroups: TypeAlias = dict[tuple[str, "ObjectId | None"], list[str]]


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


def variables(names: Iterable[str]) -> list[str]:
    """Those of the names that a person would list."""
    return sorted(name for name in names if not name.startswith("\0"))


def tree_edits(
    repo: Repository,
    tree: Tree,
    not_loaded: frozenset[str],
    staged: Mapping[str, Entry | None],
    ignored: Iterable[str],
) -> tuple[dict[str, Entry | None], frozenset[str]]:
    """What to edit in a tree that also holds what is not in memory, and which names that is from then on."""
    entries: dict[str, Entry | None] = dict(staged)
    dropped = [name for name, entry in entries.items() if entry is None and name.startswith(CLASS_PREFIX)]
    needed = find_needed_classes(repo, tree, not_loaded - staged.keys()).intersection(dropped) if dropped else NOTHING
    for name in needed:  # nothing in memory needs this class, but what is not loaded does
        del entries[name]
    entries |= dict.fromkeys(ignored)
    entries |= further_edits(repo, tree, not_loaded, entries)
    replaced = {name for name, entry in entries.items() if entry is None} | staged.keys()
    if not_loaded.isdisjoint(replaced) and not_loaded.issuperset(needed):
        return entries, not_loaded  # the same object: nothing has to find out again that it is equal
    return entries, (not_loaded - replaced) | needed


def compare_not_loaded(
    tree: Tree, not_loaded: frozenset[str], entries: Mapping[str, Entry | None], changes: Mapping[str, Change]
) -> tuple[Change, ...]:
    """The changes, with names that were not loaded compared with what the branch holds of them."""
    found = dict(changes)
    for name in not_loaded.intersection(entries):
        entry, before = entries[name], tree.get(name)
        if name not in found and entry is None and not name.startswith("\0"):
            found[name] = Change(name, "-", 0)
        elif name in found and before is not None:
            change = found.pop(name)
            if not before.is_same_value(entry):
                found[name] = Change(name, "~", change.size)
    return sort_changes(found.values())


def further_edits(
    repo: Repository, tree: Tree, not_loaded: frozenset[str], replaced: Collection[str]
) -> dict[str, Entry | None]:
    """What else to edit in the tree when `replaced` names are set or removed: nothing unless one of them was not loaded."""
    removed = not_loaded.intersection(replaced)
    if not removed:
        return {}
    rest = not_loaded - removed
    edits: dict[str, Entry | None] = dict(_regroup(tree, removed, rest))
    classes = find_needed_classes(repo, tree, removed) & rest
    if classes:
        edits |= dict.fromkeys(classes - find_needed_classes(repo, tree, rest))
    return edits


def _regroup(tree: Tree, removed: Iterable[str], rest: Iterable[str]) -> dict[str, Entry]:
    """Entries of what shared a value with a name that is gone.

    An alias group is named after one of its own members: a name that comes to mean something else cannot be taken for one of them.
    """
    entries = (tree.get(name) for name in removed)
    torn = {(entry.alias_group, entry.manifest) for entry in entries if entry is not None and entry.alias_group}
    if not torn:
        return {}
    groups: dict[object, dict[str, Entry]] = {}
    for name in rest:
        entry = tree.get(name)
        if entry is not None and (entry.alias_group, entry.manifest) in torn:
            groups.setdefault((entry.alias_group, entry.manifest), {})[name] = entry
    return {
        name: msgspec.structs.replace(entry, alias_group=min(members) if len(members) > 1 else "")
        for members in groups.values()
        for name, entry in members.items()
    }


def class_groups(tree: Tree) -> ClassGroups:
    """The class entries of each value that several names share: all are read."""
    grouped: ClassGroups = {}
    for name, of_class in tree.items(CLASS_PREFIX):
        if of_class.alias_group:
            grouped.setdefault((of_class.alias_group, of_class.manifest), []).append(name)
    return grouped


def find_needed_classes(
    repo: Repository, tree: Tree, names: Iterable[str], grouped: ClassGroups | None = None
) -> set[str]:
    """Find the class entries that loading these variables takes; all there are where it cannot be told.

    Args:
        grouped: the `class_groups` of the tree, for who asks of many names one by one.
    """
    if grouped is None:
        grouped = class_groups(tree)
    needed: set[str] = set()
    todo = [name for name in names if not name.startswith(CLASS_PREFIX)]
    while todo:
        entry = tree.get(todo.pop())
        if entry is not None:
            partners = grouped.get((entry.alias_group, entry.manifest), []) if entry.alias_group else []
            try:
                classes = repo.read_manifest(entry).classes
            except (DamagedObjectError, NewerFormatError):
                return {name for name, _ in tree.items(CLASS_PREFIX)}
            found = {*classes, *partners} - needed
            needed |= found
            todo += found
    return needed


def live_changes(
    repo: Repository, old: Tree, new: Tree, before: Collection[str], after: Collection[str]
) -> tuple[Change, ...]:
    """What a move changes among the live variables, given what is not loaded before and after it."""
    changed = {change.name for change in changes_between(repo, old, new)}
    found: list[Change] = []
    for name in sorted(changed.union(variables(set(before).symmetric_difference(after)))):
        entry = new.get(name)
        was_live = name not in before and name in old
        if entry is None or name in after:
            if was_live:
                found.append(Change(name, "-", 0))
        elif not was_live or name in changed:
            found.append(Change(name, "~" if was_live else "+", size_of(repo, entry)))
    return tuple(found)


# -- what a session did


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


# -- where the conversation with agents stands: the line of commits whose steps they remember, and what it can go back to
#
# The line to a commit is the line to its first parent and the commit's own step; where a commit went back to an older one,
# the line to that; where it names another one for the conversation alone (`chat`), the line to that.

_GOES_BACK: Final = frozenset({"undo", "redo", "rollback"})
_FAR: Final = 10_000  # commits that are looked at


class RememberedRun(NamedTuple):
    """A run that agents remember, and the commit before it: None: there was none."""

    run: str
    before: ObjectId | None


def line_to(repo: Repository, head: ObjectId | None, since_ns: int = 0) -> Iterator[tuple[str, Commit | None, bool]]:
    """The commits on the line, newest first, in hex digits, and whether their own steps count; at last "" before the first.

    Where a commit is gone that the line would go on with, nothing more is known, and the line ends.
    """
    at = head
    while at is not None and at != NO_CHAT:
        try:
            commit = repo.commit_at(at)
        except DamagedObjectError:
            return
        if commit.time_ns < since_ns:
            return
        goes_back = commit.restores if commit.kind in _GOES_BACK else None
        target = goes_back if commit.chat is None else commit.chat
        yield hex_of(at), commit, target is None
        at = next(iter(commit.parents), None) if target is None else target
    if at is None:
        yield "", None, False


def last_remembered_run(
    repo: Repository, head: ObjectId | None, begun: Mapping[str, str], until: ObjectId | None = None
) -> RememberedRun | None:
    """The last run of those that are remembered at a commit; None: none is.

    Args:
        begun: runs without any step, by the commit, in hex digits, at which they were begun.
        until: what lies behind this commit, and its own step, is not remembered.
    """
    last = None if until is None else hex_of(until)
    line = list(islice(line_to(repo, head), _FAR))
    known = takewhile(lambda one: one[0] != last, line)
    runs = [(commit.run if commit is not None and is_own else "") or begun.get(at, "") for at, commit, is_own in known]
    run = next(filter(None, runs), "")
    if not run:
        return None
    behind = len(runs) - runs[::-1].index(run)  # the run may have gone on after other work
    before = line[behind][0] if behind < len(line) else ""
    return RememberedRun(run, ObjectId(bytes.fromhex(before) + ALGORITHM) if before else None)
