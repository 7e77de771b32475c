"""Three-way merges of states: by variable in the repository,, and by value where both sides changed one.

The values of a merge are dumped and stored aside before anything live changes, so that a merge happens whole or not at
all. A cherry-pick is the same merge from another base.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from agent_kernel.errors import (
    LoadError,
    MergeChoiceError,
    MergeCommitError,
    MergeConflictError,
    NameNotFoundError,
    UnrelatedHistoriesError,
)
from agent_kernel.repository import Commit, Conflict, Entry, ObjectId, Tree, Writer, short
from agent_kernel.session.serialization import compare
from agent_kernel.session.snapshot import Repository, Snapshot
from agent_kernel.session.staging import save
from agent_kernel.session.workspace import Workspace
from agent_kernel.values import CLASS_PREFIX, class_entry, previews
from agent_kernel.values.groups import dump_group

# -- where a merge starts from, also after one that was undone
#
# An undo is a commit of its own, so what it took back stays in the history. To a plain three-way merge that looks merged
# already: the same merge could not be made again, and merging the other way would delete what it had brought. Here it
# counts as not merged, from where the history went back to.


class Start(msgspec.Struct, frozen=True):
    """The common ancestor to merge from (None if there is no common ancestor), and whether one side holds the other."""

    base: ObjectId | None
    up_to_date: bool = False
    fast_forward: bool = False


def start(repo: Repository, head: ObjectId, other: ObjectId) -> Start:
    """How to merge `other` into `here`."""
    base = repo.merge_base(head, other)
    if base is None:
        return Start(None)
    undone_by_us = None if base == head else _before_it_was_undone(repo, head, base, by_merge=False)
    if undone_by_us is not None:
        return Start(repo.merge_base(undone_by_us, other))
    undone_by_them = None if base == other else _before_it_was_undone(repo, other, base, by_merge=True)
    if undone_by_them is not None:
        return Start(repo.merge_base(undone_by_them, head))
    return Start(base, up_to_date=base == other, fast_forward=base == head)


def _before_it_was_undone(repo: Repository, tip: ObjectId, side: ObjectId, *, by_merge: bool) -> ObjectId | None:
    """What an undo on the tip's line went back to, if that was to before the line took `side` in.

    Args:
        by_merge: `side` counts as taken in by merge commits alone, not where the line is its own continuation.
    """
    back: ObjectId | None = None
    for id, commit in repo.log(tip, first_parent=True):
        if id == side:  # from here on it is the line itself
            return None if by_merge else back
        if any(repo.is_ancestor(side, parent) for parent in commit.parents[1:]):
            return back  # here it was taken in
        to = _find_restored(repo, commit)
        if back is not None or to is None:
            continue
        if repo.is_ancestor(side, to):
            return None  # done again since
        if commit.kind == "undo" and repo.is_ancestor(side, commit.parents[0]):
            back = to
    return None


def _find_restored(repo: Repository, commit: Commit) -> ObjectId | None:
    """The commit that this one went back to; not an undo or redo, but where that went. None: to none, or not as a whole."""
    found: ObjectId | None = None
    while commit.restores is not None and (found is None or commit.kind in ("undo", "redo")):
        before = repo.commit_at(commit.restores)
        if before.tree != commit.tree:
            break
        found, commit = commit.restores, before
    return found


# -- merge a dict that both sides changed, key by key, and say which keys clash

Preference: TypeAlias = Literal["", "ours", "theirs"]

_GONE: Final = object()
_MOST_CLASHES: Final = 8  # keys of one dict that an error names


class Clash(msgspec.Struct, frozen=True):
    """A key that both sides changed, and what each has for it; `_GONE` where a side deleted it."""

    key: object
    ours: object
    theirs: object


class KeyMerge(msgspec.Struct, frozen=True):
    """The merged dict in our order, and the keys of it that both sides changed in different ways."""

    merged: dict[object, object]
    clashes: tuple[Clash, ...]


def merge_keys(workspace: Workspace, base: Any, ours: Any, theirs: Any, prefer: Preference) -> KeyMerge | None:
    """Merge two dicts that come from a third; None if one of them is no plain dict.

    Args:
        prefer: whose value a key has that both changed; without it that key is a clash.
    """
    if not all(type(side) is dict for side in (base, ours, theirs)):
        return None
    was, mine, new = (_fingerprints(workspace, side) for side in (base, ours, theirs))
    merged: dict[object, object] = dict(ours)
    clashes: list[Clash] = []
    for key in [*base, *(key for key in theirs if key not in base)]:
        if new.get(key) in (was.get(key), mine.get(key)):
            continue
        if mine.get(key) != was.get(key):
            if not prefer:
                clashes.append(Clash(key, ours.get(key, _GONE), theirs.get(key, _GONE)))
            if prefer != "theirs":
                continue
        if key in theirs:
            merged[key] = theirs[key]
        else:
            merged.pop(key, None)
    return KeyMerge(merged, tuple(clashes))


def describe_clashes(name: str, clashes: tuple[Clash, ...]) -> list[tuple[str, str, str]]:
    """Describe the clashes as an error lists them: `prices['tea']`, and what either side has."""
    rows = [(f"{name}[{_key(one.key)}]", _line(one.key, one.ours), _line(one.key, one.theirs)) for one in clashes]
    if len(rows) > _MOST_CLASHES:
        rows = [*rows[:_MOST_CLASHES], (f"{name}[…]", f"{len(rows) - _MOST_CLASHES} more", "…")]
    return rows


def _key(key: object) -> str:
    return previews.make_preview(key).text or previews.line(previews.make_preview(key))


def _line(key: object, value: object) -> str:
    if value is _GONE:
        return "removed"
    return previews.line(previews.make_preview(value, key if type(key) is str else ""))


def _fingerprints(workspace: Workspace, side: dict[object, object]) -> dict[object, bytes]:
    return {
        key: compare(dump_group({"": value}, workspace.living, workspace.namespace)).signature
        for key, value in side.items()
    }


# -- settle what both sides of a merge changed by looking at the values: dicts key by key, others by a function of theirs
#
# Only a value that no other variable shares objects with is settled so, and only if what comes out can be stored with the
# classes that our side has; everything else stays a conflict.

# Called with the value as it was, ours and theirs; what it was is None where both sides added it. Returns the merged
# value. NotImplemented, or raising MergeConflictError, leaves it a conflict.
Resolver: TypeAlias = Callable[[object, object, object], object]


class Choices(msgspec.Struct, frozen=True):
    """How to settle what both sides changed.

    Attributes:
        partial: what cannot be loaded is left a conflict.
        since: where the other side began; what was undone here since does not come back with it.
    """

    ours: frozenset[str] = frozenset()
    theirs: frozenset[str] = frozenset()
    resolvers: Mapping[type, Resolver] = {}
    partial: bool = False
    fast_forward: bool = True
    since: ObjectId | None = None

    def without(self, names: Collection[str]) -> Choices:
        """The same without choices for these names."""
        ours, theirs = self.ours.difference(names), self.theirs.difference(names)
        return msgspec.structs.replace(self, ours=ours, theirs=theirs)


class Sides(NamedTuple):
    """The commits of a merge; None is the empty one."""

    base: ObjectId | None
    ours: ObjectId | None
    theirs: ObjectId | None


class PartialMerge(msgspec.Struct, frozen=True):
    """What could be settled, and which keys clash in the dicts that could not."""

    entries: dict[str, Entry] = msgspec.field(default_factory=dict[str, Entry])
    clashes: dict[str, list[tuple[str, str, str]]] = msgspec.field(
        default_factory=dict[str, "list[tuple[str, str, str]]"]
    )


def settle_conflicts(
    repo: Repository,
    writer: Writer,
    workspace: Workspace,
    sides: Sides,
    conflicts: Mapping[str, Conflict],
    choices: Choices,
) -> PartialMerge:
    """Settle the conflicts that can be; a variable that one side is chosen for is not asked about.

    Raises:
        LoadError: a value that is needed cannot be loaded, and the choices are not `partial`.
    """
    partial = PartialMerge()
    snapshots = [_snapshot(repo, workspace, commit) for commit in sides]
    mine = repo.tree_at(sides.ours)
    for name, conflict in conflicts.items():
        entries = (conflict.base, conflict.ours, conflict.theirs)
        chosen = name in choices.ours or name in choices.theirs
        dicts = all(entry is None or _is_dict(repo, entry) for entry in entries)
        shared = any(entry is not None and entry.alias_group for entry in entries)
        if shared or conflict.ours is None or conflict.theirs is None:
            continue
        if not dicts and (chosen or not choices.resolvers):
            continue
        try:
            was, ours, theirs = (
                None if entry is None or snapshot is None else snapshot[name]
                for entry, snapshot in zip(entries, snapshots, strict=True)
            )
        except LoadError:
            if choices.partial:
                continue
            raise
        made = NotImplemented if chosen else _resolve(choices.resolvers, was, ours, theirs)
        if made is NotImplemented and dicts:
            made = _by_key(workspace, partial, name, (was, ours, theirs), choices)
        entry = None if made is NotImplemented else _store(writer, workspace, mine, name, made)
        if entry is not None:
            partial.entries[name] = entry
    return partial


def _snapshot(repo: Repository, workspace: Workspace, commit: ObjectId | None) -> Snapshot | None:
    """The values of a side. What is made of a class that is live here, unaltered, is an instance of the live one."""
    if commit is None:
        return None
    classes: dict[str, type] = {}
    for name, entry in repo.tree_at(commit).items(CLASS_PREFIX):
        uid = name.removeprefix(CLASS_PREFIX)
        alive, group = workspace.living.classes.live(uid), workspace.tracking.groups.get(name)
        if alive is not None and group is not None and entry.is_same_value(group.entries[name]):
            classes[uid] = alive
    return Snapshot(repo, commit, workspace.namespace, classes)


def _is_dict(repo: Repository, entry: Entry) -> bool:
    return previews.decode(repo.read_preview(entry)).type == "dict"


def _resolve(resolvers: Mapping[type, Resolver], base: object, ours: object, theirs: object) -> object:
    """What the resolver of the nearest class of both values says; NotImplemented without one."""
    for kind in type(ours).__mro__:
        if kind in resolvers and kind in type(theirs).__mro__:
            try:
                return resolvers[kind](base, ours, theirs)
            except MergeConflictError:
                return NotImplemented
    return NotImplemented


def _by_key(
    workspace: Workspace, partial: PartialMerge, name: str, values: tuple[object, object, object], choices: Choices
) -> object:
    prefer: Preference = "ours" if name in choices.ours else "theirs" if name in choices.theirs else ""
    was, ours, theirs = values
    made = merge_keys(workspace, {} if was is None else was, ours, theirs, prefer)  # both may have added it
    if made is None:
        return NotImplemented
    if made.clashes:
        partial.clashes[name] = describe_clashes(name, made.clashes)
        return NotImplemented
    return made.merged


def _store(writer: Writer, workspace: Workspace, mine: Tree, name: str, value: object) -> Entry | None:
    """The entry of a merged value; None if it is made of classes that our side does not have."""
    dumped = dump_group({name: value}, workspace.living, workspace.namespace)
    if any(class_entry(uid) not in mine for uid in dumped.dump.classes):
        return None
    return save(writer, compare(dumped), {name: value}, None, {}, {}, {}).entries[name]


class Outcome(msgspec.Struct, frozen=True):
    """The merged tree (None: nothing to merge), and whether the branch only has to move forward."""

    tree: Tree | None
    note: str = ""
    fast_forward: bool = False


def merge(
    repo: Repository,
    writer: Writer,
    workspace: Workspace,
    head: ObjectId | None,
    other: ObjectId,
    rev: str,
    choices: Choices,
) -> Outcome:
    """Compute the merge of `other`, which was called `rev`, into `here`.

    Raises:
        UnrelatedHistoriesError, MergeConflictError, MergeChoiceError, NameNotFoundError, LoadError: nothing was changed.
    """
    if head is None:
        return Outcome(repo.tree_at(other), f"fast-forward to {short(other)}", fast_forward=True)
    begin = start(repo, head, other)
    if begin.base is None:
        raise UnrelatedHistoriesError("HEAD", rev)
    if begin.up_to_date:
        return Outcome(None, f"already up to date with {rev}")
    if begin.fast_forward and choices.fast_forward and not (choices.ours or choices.theirs):
        return Outcome(repo.tree_at(other), f"fast-forward to {short(other)}", fast_forward=True)
    sides = Sides(choices.since or begin.base, head, other)
    return Outcome(_three_way(repo, writer, workspace, sides, rev, choices))


def pick(
    repo: Repository,
    writer: Writer,
    workspace: Workspace,
    head: ObjectId | None,
    picked: ObjectId,
    rev: str,
    choices: Choices,
) -> Outcome:
    """Compute what `here` becomes with the change that `picked` made to its parent; a first commit's is all it holds.

    Raises:
        MergeCommitError: it has several parents.
        MergeConflictError, MergeChoiceError, NameNotFoundError, LoadError: nothing was changed.
    """
    parents = repo.commit_at(picked).parents
    if len(parents) > 1:
        raise MergeCommitError(rev, len(parents))
    sides = Sides(parents[0] if parents else None, head, picked)
    tree = _three_way(repo, writer, workspace, sides, rev, choices)
    if tree == repo.tree_at(head):
        return Outcome(None, f"nothing to cherry-pick: the changes of {rev} are here already")
    return Outcome(tree)


def _three_way(
    repo: Repository, writer: Writer, workspace: Workspace, sides: Sides, rev: str, choices: Choices
) -> Tree:
    base, mine, theirs = trees = (repo.tree_at(sides.base), repo.tree_at(sides.ours), repo.tree_at(sides.theirs))
    plain = repo.merge_trees(*trees)
    _check_choices(choices, plain.conflicts, mine, rev)
    partial = settle_conflicts(repo, writer, workspace, sides, plain.conflicts, choices)
    # Of a dict, a choice settles the keys that clash; of anything else, the whole value.
    done = partial.entries.keys()
    merged = repo.merge_trees(base, mine, theirs, choose_ours=choices.ours - done, choose_theirs=choices.theirs - done)
    remaining = {name: found for name, found in merged.conflicts.items() if name not in done}
    if remaining:
        raise conflict_of(repo, remaining, partial.clashes)
    changes: dict[str, Entry | None] = {**merged.changes, **partial.entries}
    return mine.edit(writer, changes) if changes else mine


def _check_choices(choices: Choices, conflicts: Mapping[str, Conflict], mine: Tree, rev: str) -> None:
    for name in choices.ours | choices.theirs:
        if name not in conflicts and name not in mine:
            raise NameNotFoundError(name, f"the conflicts with {rev}")
        if name in choices.ours and name in choices.theirs:
            raise MergeChoiceError((name,), (name,), (name,))


def conflict_of(
    repo: Repository,
    conflicts: Mapping[str, Conflict],
    clashes: Mapping[str, Sequence[tuple[str, str, str]]] = {},
) -> MergeConflictError:
    """The error that lists conflicts; `clashes` are rows that say more of some: the keys of a dict."""
    # A name that one side made since is in conflict only because it shares objects with one that both sides have.
    both = {name: one for name, one in conflicts.items() if one.base or (one.ours and one.theirs)} or conflicts
    rows = (clashes.get(name) or [describe_conflict(repo, name, found)] for name, found in sorted(both.items()))
    groups = {tuple(sorted((name, *found.partners))) for name, found in conflicts.items() if found.partners}
    return MergeConflictError(tuple(row for found in rows for row in found), tuple(sorted(groups)))


def describe_conflict(repo: Repository, name: str, conflict: Conflict) -> tuple[str, str, str]:
    """Describe a conflict as an error lists it: the name, and what either side has."""
    return name, _preview(repo, conflict.ours), _preview(repo, conflict.theirs)


def _preview(repo: Repository, entry: Entry | None) -> str:
    stored = repo.read_preview(entry) if entry is not None else b""
    if not stored:
        return "removed" if entry is None else "not described"
    return previews.line(previews.decode(stored))
