"""Build another state aside, and remember of what was put in place how its live objects pickle."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pickle import PickleBuffer
from typing import Any, NoReturn

import msgspec

from agent_kernel.repository import (
    AtHand,
    Blob,
    Entry,
    Kind,
    Manifest,
    ObjectId,
    Pieces,
    Repository,
    pieces_of,
    read_blob,
    read_blob_into,
)
from agent_kernel.session import saving
from agent_kernel.session.components import Components, roots_of
from agent_kernel.session.living import Living
from agent_kernel.session.planning import Plan
from agent_kernel.session.tracking import NO_NAMES, NO_PIECES, Group
from agent_kernel.session.unloaded import Failed
from agent_kernel.values.aliases import Reach
from agent_kernel.values.definitions import DefinitionId
from agent_kernel.values.dump import MemoryUse
from agent_kernel.values.entries import CLASS_PREFIX
from agent_kernel.values.groups import Dumped, Layout, decode_layout, dump_group, losses_of
from agent_kernel.values.loader import Loader
from agent_kernel.values.pickler import FOREIGN
from agent_kernel.values.quiet import unwarned
from agent_kernel.values.streams import Failure, StoredGroup
from agent_kernel.values.summaries.reading import module_name


class _Definitions:
    """The loader's source of code."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo

    def definition(self, definition: bytes) -> bytes:
        return self._repo.objects.get(Kind.DEFINITION, ObjectId(saving.address_of(DefinitionId(definition))))


class Built(msgspec.Struct):
    """What a plan gave: values by name, the classes that were made, and what could not be loaded."""

    values: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    classes: dict[str, type] = msgspec.field(default_factory=dict[str, type])
    failed: list[Failed] = msgspec.field(default_factory=list["Failed"])
    contents: list[tuple[object, Any]] = msgspec.field(default_factory=list["tuple[object, Any]"])
    registers: list[object] = msgspec.field(default_factory=list[object])
    pinned: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    set_back: set[int] = msgspec.field(default_factory=set[int])  # ids of the live objects that `contents` go into


def build(
    repo: Repository,
    living: Living,
    namespace: dict[str, object],
    plan: Plan,
    live: Iterable[Group] = (),
    *,
    sets_back: bool = False,
    sets_pinned: bool = False,
) -> Built:
    """Load the plan's entries aside. What fails is taken out of the plan, and costs nothing but itself.

    Args:
        live: groups that are in memory under the same names: of large arrays, only what differs is read from the store.
        sets_back: whether `contents` will be set back into what the person's own modules hold.
        sets_pinned: and into what objects that cannot be saved have hold of.

    Raises:
        KeyboardInterrupt, StoreUnavailableError: nothing was loaded.
    """
    if sets_back:
        _reuse_living_classes(repo, living, namespace, plan)
    planned = list(plan.groups_by_member())
    options = {"sets_back": sets_back, "sets_pinned": sets_pinned}
    loader = Loader(namespace, _Definitions(repo), living, plan.reusable, **options)
    with unwarned(), memory_of(repo, living, namespace, live) as at_hand:
        loaded = loader.load([stored(repo, plan, members, entries, at_hand) for members, entries in planned])
    built = Built(classes=loader.made, contents=loader.contents, registers=loader.registers)
    built.set_back, built.pinned = loader.held_ids, loader.pinned_anew
    for (members, entries), found in zip(planned, loaded, strict=True):
        if not isinstance(found, Failure):
            built.values |= zip(members, found, strict=True)
            continue
        built.values |= found.rest
        lost = tuple(name for name in members if name not in found.rest)
        kept = {name: entries[name] for name in lost}
        built.failed.append(Failed(lost, kept, found.error, found.class_id, plan.manifests.get(members[0])))
        for name in lost:
            del plan.entries[name]
    return built


def _reuse_living_classes(repo: Repository, living: Living, namespace: dict[str, object], plan: Plan) -> None:
    """Take classes that variables no longer lead to, and that are as they were stored: something else still has them."""
    alive = {
        name: living.classes.live(name.removeprefix(CLASS_PREFIX))
        for name in plan.entries
        if name.startswith(CLASS_PREFIX)
    }
    found = {
        name: kind
        for name, kind in alive.items()
        if kind is not None
        and living.classes.is_known(kind)
        and _is_as_stored(repo, living, namespace, plan, name, kind)
    }
    while others := [name for name in found if plan.entries.keys() & set(plan.manifests[name].classes) - found.keys()]:
        for name in others:  # made of a class that is made anew
            del found[name]
    for name, kind in found.items():
        plan.reusable[name.removeprefix(CLASS_PREFIX)] = kind
        plan.kept[name] = plan.entries.pop(name)


def _is_as_stored(
    repo: Repository, living: Living, namespace: dict[str, object], plan: Plan, name: str, kind: type
) -> bool:
    """Whether the class would be saved as it is stored."""
    entry, manifest = plan.entries[name], plan.manifests.get(name)
    if manifest is None or entry.leader or decode_layout(manifest.layout).losses:
        return False
    try:
        dumped = dump_group({name: kind}, living, namespace)
        blobs = [blob if isinstance(blob, bytes) else bytes(blob.raw()) for blob in dumped.blobs]
        return dumped.layout == decode_layout(manifest.layout) and blobs == [
            bytes(read_blob(repo.objects, blob)) for blob in manifest.blobs
        ]
    except (*FOREIGN, RecursionError):
        return False


class _StoredBytes(msgspec.Struct, frozen=True):
    """A blob that is read when it is known what memory it is for."""

    repo: Repository
    blob: Blob
    at_hand: Mapping[ObjectId, AtHand]
    plan: Plan

    @property
    def size(self) -> int:
        return self.blob.size

    def read_into(self, target: memoryview) -> None:
        digests = read_blob_into(self.repo.objects, self.blob, target, self.at_hand)
        self.plan.digests |= digests
        if digests:
            self.plan.read[saving.address_in(target)] = pieces_of(self.repo.objects, self.blob, digests)


_LARGE = 8_000_000
_SMALL = 1_000_000


@contextmanager
def memory_of(
    repo: Repository, living: Living, namespace: dict[str, object], live: Iterable[Group]
) -> Generator[dict[ObjectId, AtHand]]:
    """The memory of large live arrays by the chunks that it was stored as, for as long as the block lasts.

    It may have changed since: whoever takes of it checks what was taken. Only what is cheap to dump is looked at.
    """
    at_hand: dict[ObjectId, AtHand] = {}
    holders: list[object] = []
    for group in live:
        if group.unloaded is not None or group.stale or not _is_mostly_memory(repo, group):
            continue
        try:
            members = {name: _member(living, namespace, name) for name in group.members}
            dumped = dump_group(members, living, namespace)
        except FOREIGN:  # then all of it is read
            continue
        for blob, known in zip(dumped.blobs[dumped.streams :], group.pieces[dumped.streams :], strict=False):
            if not isinstance(blob, PickleBuffer):
                continue
            view = blob.raw()
            use = _use_of(view, dumped.dump.memory)
            if use is not None and known.exact and known.cuts[-1] == view.nbytes:
                holders.append(use.holder)
                parts = (view[start:end] for start, end in pairwise((0, *known.cuts)))
                at_hand |= zip(known.ids, map(AtHand, parts, known.digests), strict=True)
    try:
        yield at_hand
    finally:
        at_hand.clear()


def _is_mostly_memory(repo: Repository, group: Group) -> bool:
    if sum(known.cuts[-1] for known in group.pieces if known.cuts) < _LARGE:
        return False
    manifest = repo.read_manifest(group.entries[group.members[0]])
    layout = decode_layout(manifest.layout)
    sizes = [blob.size for blob in manifest.blobs]
    streams = len(layout.skeletons) + layout.streams
    return sum(sizes[:streams]) <= _SMALL and sum(sizes[streams:]) >= _LARGE


def _use_of(view: memoryview, uses: Iterable[MemoryUse]) -> MemoryUse | None:
    """Whose memory this is; None where it was copied only to be dumped."""
    if view.readonly or not view.nbytes:
        return None
    address = saving.address_in(view)
    return next((use for use in uses if use.space == "cpu" and use.low <= address < use.high), None)


def stored(
    repo: Repository,
    plan: Plan,
    members: tuple[str, ...],
    entries: Mapping[str, Entry],
    at_hand: Mapping[ObjectId, AtHand],
) -> StoredGroup:
    """A group as a loader wants it; one that has no readable manifest raises when it is read."""
    unreadable = next((plan.unreadable[name] for name in members if name in plan.unreadable), None)
    if unreadable is not None:
        return _unreadable(members, unreadable)
    manifest = plan.manifests[members[0]]

    def stream(position: int) -> bytes:
        return bytes(read_blob(repo.objects, manifest.blobs[position]))

    def buffer(position: int) -> _StoredBytes:
        return _StoredBytes(repo, manifest.blobs[position], at_hand, plan)

    return StoredGroup(
        members,
        tuple(entries[name].slot for name in members),
        manifest.slots,
        decode_layout(manifest.layout),
        stream,
        buffer,
        _classes_needed(manifest),
    )


def _classes_needed(manifest: Manifest) -> frozenset[str]:
    return frozenset(needed.removeprefix(CLASS_PREFIX) for needed in manifest.classes) or NO_NAMES


def _unreadable(members: tuple[str, ...], error: Exception) -> StoredGroup:
    def read(_: int) -> NoReturn:
        raise error

    uids = tuple(name.removeprefix(CLASS_PREFIX) for name in members if name.startswith(CLASS_PREFIX))
    return StoredGroup(members, (), 0, Layout(skeletons=uids), read, read)


# -- what is remembered of loaded values


def unread(members: tuple[str, ...], entries: Mapping[str, Entry], manifest: Manifest | None = None) -> Group:
    """A group that was loaded and not read again yet: whatever is found counts as a change."""
    return Group(
        members=members,
        signature=b"",
        own={},
        stored=entries[members[0]] if len(members) == 1 else dict(entries),
        pieces=NO_PIECES,
        reach=Reach(),
        globals_used=NO_NAMES,
        classes=_classes_needed(manifest) if manifest is not None else NO_NAMES,
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
    plan: Plan,
) -> Group | None:
    """Pickle what was just loaded, so that the next comparison is with the live object's own bytes.

    Memory that was read for it was hashed as it was read. What a thread has written there since is found as a change.
    """
    first = members[0]
    try:
        values = {name: _member(living, namespace, name) for name in members}
        components = Components(living, namespace)
        led = components.dump_led(values)
        compared = led or _compared(values, living, namespace, plan)
        alone = {first: compared}
        if led is not None or len(members) > 1:
            alone = {
                name: _compared({name: value}, living, namespace, plan, components) for name, value in values.items()
            }
        own = {name: saving.own_of(values[name], found) for name, found in alone.items()}
        roots = {name: roots_of(found.dumped.dump) for name, found in alone.items()}
    except (Exception, KeyboardInterrupt):  # noqa: BLE001  # it stays unread, and the next commit saves it again
        return None
    manifest = repo.read_manifest(entries[first])
    pieces: list[Pieces] = [pieces_of(repo.objects, blob, plan.digests) for blob in manifest.blobs]
    group = saving.remembered(compared, values, dict(entries), pieces, own, roots)
    # A library may make another class as it loads the value: what is stored goes on to need the one it was saved with.
    group.classes = group.classes | _classes_needed(manifest) or NO_NAMES
    known = {loss.token: loss for loss in losses_of(decode_layout(manifest.layout))}
    group.losses = tuple(known.values()) or group.losses
    group.lost = manifest.lost or saving.unsaved_of(compared.dumped, members)
    return group


def _compared(
    values: Mapping[str, object],
    living: Living,
    namespace: dict[str, object],
    plan: Plan,
    components: Components | None = None,
) -> saving.Compared:
    dumped = dump_group(values, living, namespace, components=components)
    return saving.compare(dumped, _NOTHING_READ if _may_write(dumped) else plan.read)


_NOTHING_READ: Mapping[int, Pieces] = {}


def _may_write(dumped: Dumped) -> bool:
    """Whether something of these values has code that runs as it is loaded, and may write to its own arrays."""
    # By id: hashing a type runs its metaclass.
    kinds = {id(type(value)): type(value) for value in (*dumped.dump.instances, *dumped.dump.opaque)}
    return not _OF_ARRAYS.issuperset(module_name(kind).partition(".")[0] for kind in kinds.values())


_OF_ARRAYS = frozenset(("numpy", "pandas"))


def _member(living: Living, namespace: dict[str, object], name: str) -> object:
    if name.startswith(CLASS_PREFIX):
        return living.classes.live(name.removeprefix(CLASS_PREFIX))
    return namespace[name]
