"""Plan and build another state: load only the names whose values differ, and those whose class does.

A live class is never altered. Where a class differs between the two states it is made anew, and everything that is made
of it is loaded again, so that instances and class belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from agent_kernel.errors import AgentKernelError, LoadError
from agent_kernel.repository import (
    Blob,
    Entry,
    Kind,
    Manifest,
    ObjectId,
    Pieces,
    Repository,
    Tree,
    pieces_of,
    read_blob,
)
from agent_kernel.session import saving
from agent_kernel.session.living import Living
from agent_kernel.session.tracking import Group, Tracking
from agent_kernel.values.aliases import Reach
from agent_kernel.values.definitions import DefinitionId
from agent_kernel.values.entries import CLASS_PREFIX
from agent_kernel.values.groups import decode_layout, dump_group, losses_of
from agent_kernel.values.loader import Loader, StoredGroup
from agent_kernel.values.pickler import explain

_NOBODY = "\0"


class Plan(msgspec.Struct):
    """What to load and what to take out of the namespace."""

    entries: dict[str, Entry] = msgspec.field(default_factory=dict[str, Entry])
    removed: set[str] = msgspec.field(default_factory=set[str])
    reusable: dict[str, type] = msgspec.field(default_factory=dict[str, type])
    manifests: dict[str, Manifest] = msgspec.field(default_factory=dict[str, Manifest])

    def groups_by_member(self) -> Iterator[tuple[tuple[str, ...], dict[str, Entry]]]:
        """The members of each group in the order of their slots, with their entries."""
        groups: dict[tuple[str, ObjectId | None], list[str]] = {}
        for name, entry in self.entries.items():
            key = _group(entry) if entry.leader else (name, None)
            groups.setdefault(key, []).append(name)
        for names in groups.values():
            ordered = tuple(sorted(names, key=lambda name: self.entries[name].slot))
            yield ordered, {name: self.entries[name] for name in ordered}


def plan(
    repo: Repository,
    tracking: Tracking,
    living: Living,
    tree: Tree,
    target: Tree,
    names: Iterable[str] | None,
    absent: frozenset[str] = frozenset(),
    stay: frozenset[str] = frozenset(),
) -> Plan:
    """Find what differs between the live state and the target; `names` limits it to those variables.

    `absent` are names of the tree that are not in memory, `stay` those of the target that are not to be.
    """
    made = Plan()
    wanted = None if names is None else _with_partners(target, names)
    for name, old, new in tree.diff(target):
        if wanted is not None and name not in wanted and not name.startswith(CLASS_PREFIX):
            continue
        if new is None:
            if wanted is None:
                made.removed.add(name)
        elif name in stay:
            continue
        elif not new.is_same_value(old) or name not in tracking.groups:
            made.entries[name] = new
    if wanted is not None:
        made.entries = {name: entry for name, entry in made.entries.items() if name in wanted}
    made.removed.update(name for name in stay if name in tracking.groups)
    _add_untracked(made, tracking, target, absent - stay if wanted is None else wanted)
    _add_needs(repo, made, tracking, living, target)
    return made


def _with_partners(target: Tree, names: Iterable[str]) -> set[str]:
    """The names, and those that share objects with them: they come together."""
    wanted = set(names)
    groups = {_group(entry) for name in wanted if (entry := target.get(name)) is not None and entry.leader}
    if groups:
        wanted |= {name for name, entry in target.items() if _group(entry) in groups}
    return wanted


def _group(entry: Entry) -> tuple[str, ObjectId | None]:
    """What the entries of one group have in common."""
    return entry.leader, entry.manifest


def _add_untracked(made: Plan, tracking: Tracking, target: Tree, wanted: Iterable[str]) -> None:
    """What is not in memory has to be loaded however equal the trees are."""
    for name in wanted:
        entry = target.get(name)
        if entry is not None and name not in tracking.groups and not name.startswith(CLASS_PREFIX):
            made.entries[name] = entry


def _add_needs(repo: Repository, made: Plan, tracking: Tracking, living: Living, target: Tree) -> None:
    """Close the plan over classes: those that loading needs, and everything made of a class that is made anew."""
    todo = list(made.entries)
    anew: set[str] = set()
    while todo:
        name = todo.pop()
        manifest = made.manifests.get(name) or repo.read_manifest(made.entries[name])
        made.manifests[name] = manifest
        for partner in _partners(made.entries[name], target, name):
            if partner not in made.entries:
                made.entries[partner] = target.get(partner) or made.entries[name]
                todo.append(partner)
        if name.startswith(CLASS_PREFIX):
            anew.add(name)
            todo += _users(name, made, tracking, target)
        for needed in manifest.classes:
            uid = needed.removeprefix(CLASS_PREFIX)
            if needed in made.entries:
                continue
            entry = target.get(needed)
            group = tracking.groups.get(needed)
            alive = living.classes.live(uid)
            if (
                alive is not None
                and group is not None
                and entry is not None
                and entry.is_same_value(group.entries[needed])
            ):
                made.reusable[uid] = alive
            elif entry is not None:
                made.entries[needed] = entry
                todo.append(needed)
    for name in anew:
        made.reusable.pop(name.removeprefix(CLASS_PREFIX), None)


def _partners(entry: Entry, target: Tree, name: str) -> list[str]:
    if not entry.leader:
        return []
    return [other for other, found in target.items() if _group(found) == _group(entry) and other != name]


def _users(class_name: str, made: Plan, tracking: Tracking, target: Tree) -> list[str]:
    uid = class_name.removeprefix(CLASS_PREFIX)
    found: list[str] = []
    for group in tracking:
        if uid in group.classes:
            for name in group.members:
                entry = target.get(name)
                if entry is not None and name not in made.entries and name not in made.removed:
                    made.entries[name] = entry
                    found.append(name)
    return found


class _Definitions:
    """The loader's source of code."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo

    def definition(self, definition: bytes) -> bytes:
        return self._repo.objects.get(Kind.DEFINITION, ObjectId(saving.address_of(DefinitionId(definition))))


def build(
    repo: Repository, living: Living, namespace: dict[str, object], plan: Plan
) -> tuple[dict[str, object], dict[str, type]]:
    """Load the plan's entries; returns values by name and the classes that were made.

    Raises:
        LoadError: a value could not be rebuilt.
        DamagedObjectError: a stored object is missing or damaged.
    """
    groups = [stored(repo, entries, plan.manifests[members[0]]) for members, entries in plan.groups_by_member()]
    loader = Loader(namespace, _Definitions(repo), living, plan.reusable)
    try:
        loaded = loader.load(groups)
    except AgentKernelError:
        raise
    except Exception as error:  # stored reducers and the users' own __setstate__ run here
        raise _load_error(repo, living, namespace, plan, error) from error
    values = {
        name: value
        for group, found in zip(groups, loaded, strict=True)
        for name, value in zip(group.members, found, strict=True)
        if name != _NOBODY
    }
    return values, loader.made


class _StoredBytes(msgspec.Struct, frozen=True):
    """A blob that is read when it is known what memory it is for."""

    repo: Repository
    blob: Blob

    @property
    def size(self) -> int:
        return self.blob.size

    def read_into(self, target: memoryview) -> None:
        read_blob(self.repo.objects, self.blob, target)


def stored(repo: Repository, entries: Mapping[str, Entry], manifest: Manifest) -> StoredGroup:
    """A group as a loader wants it. A slot that no name of the tree stands for any more is nobody's."""
    names = {entry.slot: name for name, entry in entries.items()}
    members = tuple(names.get(slot, _NOBODY) for slot in range(manifest.slots))

    def stream(position: int) -> bytes:
        return bytes(read_blob(repo.objects, manifest.blobs[position]))

    def buffer(position: int) -> _StoredBytes:
        return _StoredBytes(repo, manifest.blobs[position])

    return StoredGroup(members, decode_layout(manifest.layout), stream, buffer)


def _load_error(
    repo: Repository, living: Living, namespace: dict[str, object], plan: Plan, error: Exception
) -> LoadError:
    """Find out which names fail, each loaded by itself."""
    failing: list[str] = []
    packages: dict[str, str] = {}
    classes = {name: entry for name, entry in plan.entries.items() if name.startswith(CLASS_PREFIX)}
    for members, entries in plan.groups_by_member():
        if members[0] in classes:
            continue
        part = Plan({**classes, **entries}, set(), plan.reusable, plan.manifests)
        groups = [stored(repo, found, plan.manifests[names[0]]) for names, found in part.groups_by_member()]
        try:
            Loader(namespace, _Definitions(repo), living, plan.reusable).load(groups)
        except Exception:  # noqa: BLE001  # it is told of below
            failing += members
            packages |= plan.manifests[members[0]].packages
    shown = tuple(name for name in failing if not name.startswith("\0")) or ("the state",)
    return LoadError(shown, explain(error), tuple(f"{name} {version}" for name, version in sorted(packages.items())))


# -- what is remembered of loaded values


def unread(members: tuple[str, ...], entries: Mapping[str, Entry]) -> Group:
    """A group that was loaded and not read again yet: whatever is found counts as a change."""
    return Group(
        members=members,
        signature=b"",
        own={},
        entries=dict(entries),
        pieces=[],
        reach=Reach(),
        globals_used=frozenset(),
        classes=frozenset(),
        losses=(),
        size=0,
        stale=True,
    )


def baseline(
    repo: Repository,
    living: Living,
    namespace: dict[str, object],
    members: tuple[str, ...],
    entries: Mapping[str, Entry],
) -> Group | None:
    """Pickle what was just loaded, so that the next comparison is with the live object's own bytes."""
    first = members[0]
    try:
        values = {name: _member(living, namespace, name) for name in members}
        compared = saving.compare(dump_group(values, living, namespace))
        own = {first: compared.own}
        if len(members) > 1:
            own = {
                name: saving.compare(dump_group({name: value}, living, namespace)).own for name, value in values.items()
            }
    except (Exception, KeyboardInterrupt):  # noqa: BLE001  # it stays unread, and the next commit saves it again
        return None
    manifest = repo.read_manifest(entries[first])
    pieces: list[Pieces] = [pieces_of(repo.objects, blob) for blob in manifest.blobs]
    group = saving.remembered(compared, values, dict(entries), pieces, own)
    known = {loss.token: loss for loss in losses_of(decode_layout(manifest.layout))}
    group.losses = tuple(known.values()) or group.losses
    return group


def _member(living: Living, namespace: dict[str, object], name: str) -> object:
    if name.startswith(CLASS_PREFIX):
        return living.classes.live(name.removeprefix(CLASS_PREFIX))
    return namespace[name]
