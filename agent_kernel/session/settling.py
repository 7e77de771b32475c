"""Settle what both sides of a merge changed by looking at the values: dicts key by key, others by a function of theirs.

Only a value that no other variable shares objects with is settled so, and only if what comes out can be stored with the
classes that our side has; everything else stays a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from agent_kernel.errors import LoadError, MergeConflictError
from agent_kernel.repository import Conflict, Entry, ObjectId, Tree, Writer
from agent_kernel.session import keys, saving
from agent_kernel.session.snapshot import Repository, Snapshot
from agent_kernel.session.workspace import Workspace
from agent_kernel.values import summaries
from agent_kernel.values.entries import CLASS_PREFIX, class_entry
from agent_kernel.values.groups import dump_group

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


class Sides(NamedTuple):
    """The commits of a merge; None is the empty one."""

    base: ObjectId | None
    ours: ObjectId | None
    theirs: ObjectId | None


class Settled(msgspec.Struct, frozen=True):
    """What could be settled, and which keys clash in the dicts that could not."""

    entries: dict[str, Entry] = msgspec.field(default_factory=dict[str, Entry])
    clashes: dict[str, list[tuple[str, str, str]]] = msgspec.field(
        default_factory=dict[str, "list[tuple[str, str, str]]"]
    )


def settle(
    repo: Repository,
    writer: Writer,
    workspace: Workspace,
    sides: Sides,
    conflicts: Mapping[str, Conflict],
    choices: Choices,
) -> Settled:
    """Settle the conflicts that can be; a variable that one side is chosen for is not asked about.

    Raises:
        LoadError: a value that is needed cannot be loaded, and the choices are not `partial`.
    """
    settled = Settled()
    snapshots = [_snapshot(repo, workspace, commit) for commit in sides]
    mine = repo.tree_at(sides.ours)
    for name, conflict in conflicts.items():
        entries = (conflict.base, conflict.ours, conflict.theirs)
        chosen = name in choices.ours or name in choices.theirs
        dicts = all(entry is None or _is_dict(repo, entry) for entry in entries)
        shared = any(entry is not None and entry.leader for entry in entries)
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
        made = NotImplemented if chosen else _resolved(choices.resolvers, was, ours, theirs)
        if made is NotImplemented and dicts:
            made = _by_key(workspace, settled, name, (was, ours, theirs), choices)
        entry = None if made is NotImplemented else _stored(writer, workspace, mine, name, made)
        if entry is not None:
            settled.entries[name] = entry
    return settled


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
    return summaries.decode(repo.read_summary(entry)).type == "dict"


def _resolved(resolvers: Mapping[type, Resolver], base: object, ours: object, theirs: object) -> object:
    """What the resolver of the nearest class of both values says; NotImplemented without one."""
    for kind in type(ours).__mro__:
        if kind in resolvers and kind in type(theirs).__mro__:
            try:
                return resolvers[kind](base, ours, theirs)
            except MergeConflictError:
                return NotImplemented
    return NotImplemented


def _by_key(
    workspace: Workspace, settled: Settled, name: str, values: tuple[object, object, object], choices: Choices
) -> object:
    prefer: keys.Preference = "ours" if name in choices.ours else "theirs" if name in choices.theirs else ""
    was, ours, theirs = values
    made = keys.merge_keys(workspace, {} if was is None else was, ours, theirs, prefer)  # both may have added it
    if made is None:
        return NotImplemented
    if made.clashes:
        settled.clashes[name] = keys.described(name, made.clashes)
        return NotImplemented
    return made.merged


def _stored(writer: Writer, workspace: Workspace, mine: Tree, name: str, value: object) -> Entry | None:
    """The entry of a merged value; None if it is made of classes that our side does not have."""
    dumped = dump_group({name: value}, workspace.living, workspace.namespace)
    if any(class_entry(uid) not in mine for uid in dumped.dump.classes):
        return None
    return saving.save(writer, saving.compare(dumped), {name: value}, None, {}, {}, {}).entries[name]
