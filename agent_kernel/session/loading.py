"""Build another state aside, and remember of what was put in place how its live objects pickle.

At the end: what to say, and what to put into the namespace, where stored values could not be rebuilt.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from pickle import PickleBuffer
from typing import Any, NoReturn

import msgspec

from agent_kernel.errors import AgentKernelError, DamagedObjectError, LoadError, NewerFormatError, UntrustedValueError
from agent_kernel.quiet import unwarned
from agent_kernel.repository import (
    AtHand,
    Blob,
    Entry,
    Kind,
    Manifest,
    ObjectId,
    Pieces,
    Repository,
    Tree,
    Unsaved,
    pieces_of,
    read_blob,
    read_blob_into,
    short,
)
from agent_kernel.session import trust
from agent_kernel.session.history import class_groups, error_line, find_needed_classes
from agent_kernel.session.provenance import import_folders, version_now
from agent_kernel.session.serialization import Compared, Components, address_in, compare, own_of, roots_of
from agent_kernel.session.staging import address_of, describe_unsaved, is_source, make_group
from agent_kernel.session.tracking import NO_NAMES, NO_PIECES, Group, Living, Placeholders, Tracking
from agent_kernel.values import CLASS_PREFIX, class_entry, previews
from agent_kernel.values.aliases import MemoryUse, Reach, SaveFailure
from agent_kernel.values.definitions import DefinitionId
from agent_kernel.values.groups import Dumped, Layout, decode_layout, dump_group, failures_of
from agent_kernel.values.introspection import module_name
from agent_kernel.values.loader import Loader
from agent_kernel.values.pickler import FOREIGN
from agent_kernel.values.streams import Failure, StoredGroup
from agent_kernel.values.surface import Placeholder

# -- plan another state: load only the names whose values differ, and those whose class does
#
# A live class is never altered. Where a class differs between the two states it is made anew, and everything that is made
# of it is loaded again, so that instances and class belong together.


class Plan(msgspec.Struct):
    """What to load and what to take out of the namespace."""

    entries: dict[str, Entry] = msgspec.field(default_factory=dict[str, Entry])
    removed: set[str] = msgspec.field(default_factory=set[str])
    reusable: dict[str, type] = msgspec.field(default_factory=dict[str, type])
    manifests: dict[str, Manifest] = msgspec.field(default_factory=dict[str, Manifest])
    unchanged: dict[str, Entry] = msgspec.field(
        default_factory=dict[str, Entry]
    )  # live, and left behind by what they shared with
    # By address what was read there: until it is in place nothing else can write to it, but code of its own group.
    read: dict[int, Pieces] = msgspec.field(default_factory=dict[int, Pieces])
    digests: dict[ObjectId, bytes] = msgspec.field(default_factory=dict[ObjectId, bytes])  # of chunks that were read
    unreadable: dict[str, Exception] = msgspec.field(default_factory=dict[str, Exception])  # names without a manifest

    def groups_by_member(self) -> Iterator[tuple[tuple[str, ...], dict[str, Entry]]]:
        """The members of each group to load in the order of their slots, with their entries."""
        return _group(self.entries)

    def groups_after(self) -> Iterator[tuple[tuple[str, ...], dict[str, Entry]]]:
        """The groups to remember anew once the state is there: those that were loaded, and what is left of others."""
        return _group({**self.entries, **self.unchanged})


def _group(entries: Mapping[str, Entry]) -> Iterator[tuple[tuple[str, ...], dict[str, Entry]]]:
    groups: dict[tuple[str, ObjectId | None], list[str]] = {}
    for name, entry in entries.items():
        groups.setdefault(entry.shared_value or (name, None), []).append(name)
    for names in groups.values():
        ordered = tuple(sorted(names, key=lambda name: entries[name].slot))
        yield ordered, {name: entries[name] for name in ordered}


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
    alias_groups = _AliasGroups(target)
    wanted = None if names is None else _with_partners(alias_groups, names)
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
    _add_load_failures(made, tracking, target, stay, wanted)
    if wanted is not None:
        made.entries = {name: entry for name, entry in made.entries.items() if name in wanted}
        _add_instances_of_altered_classes(repo, made, tree, target, wanted)
    _add_torn(made, alias_groups, stay)
    made.removed.update(name for name in stay if name in tracking.groups)
    _add_untracked(made, tracking, target, absent - stay if wanted is None else wanted)
    _add_needs(repo, made, tracking, living, alias_groups, whole=wanted is None)
    if wanted is None:
        made.unchanged = _find_rest_of_groups(made, tracking, target)
    return made


def _find_rest_of_groups(made: Plan, tracking: Tracking, target: Tree) -> dict[str, Entry]:
    """What stays as it is while another name of its group does not: after a restart they may have parted since."""
    moving = made.entries.keys() | made.removed
    torn = {id(group): group for name in moving if (group := tracking.groups.get(name)) is not None}
    rest = {name for group in torn.values() for name in group.members} - moving
    return {name: entry for name in rest if (entry := target.get(name)) is not None}


class _AliasGroups:
    """Which names of a tree share a value. The tree is read through once, however many names ask; not at all if none does."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._members: dict[tuple[str, ObjectId | None], list[str]] | None = None

    def members(self, entry: Entry) -> Sequence[str]:
        """All names that share this value; none if it is one name's alone."""
        value = entry.shared_value
        if value is None:
            return ()
        if self._members is None:
            self._members = {}
            for name, found in self.tree.items():
                if found.shared_value is not None:
                    self._members.setdefault(found.shared_value, []).append(name)
        return self._members.get(value, ())


def _with_partners(alias_groups: _AliasGroups, names: Iterable[str]) -> set[str]:
    """The names, and those that share objects with them: they come together."""
    wanted = set(names)
    entries = [entry for name in wanted if (entry := alias_groups.tree.get(name)) is not None]
    return wanted.union(*map(alias_groups.members, entries))


def _add_torn(made: Plan, alias_groups: _AliasGroups, stay: frozenset[str]) -> None:
    """What is to stay out of memory comes after all if there it shares objects with what does not, however equal that is."""
    for name in stay:
        entry = alias_groups.tree.get(name)
        if entry is not None and entry.alias_group and not stay.issuperset(alias_groups.members(entry)):
            made.entries[name] = entry


def _add_instances_of_altered_classes(
    repo: Repository, made: Plan, tree: Tree, target: Tree, wanted: Iterable[str]
) -> None:
    """What is the same but for its class, which was altered in place."""
    altered = {name for name, old, new in tree.diff(target) if name.startswith(CLASS_PREFIX) and old and new}
    grouped = class_groups(target) if altered else {}
    for name in wanted if altered else ():
        entry = target.get(name)
        if entry is not None and not altered.isdisjoint(find_needed_classes(repo, target, [name], grouped)):
            made.entries[name] = entry


def _add_untracked(made: Plan, tracking: Tracking, target: Tree, wanted: Iterable[str]) -> None:
    """What is not in memory has to be loaded however equal the trees are."""
    for name in wanted:
        entry = target.get(name)
        if entry is not None and name not in tracking.groups and not name.startswith(CLASS_PREFIX):
            made.entries[name] = entry


def _add_load_failures(
    made: Plan, tracking: Tracking, target: Tree, stay: frozenset[str], wanted: set[str] | None
) -> None:
    """What could not be loaded before may be by now."""
    for group in tracking.without_values:
        for name in group.members:
            entry = target.get(name)
            is_wanted = not name.startswith(CLASS_PREFIX) and name not in stay
            if entry is not None and is_wanted and (wanted is None or name in wanted):
                made.entries[name] = entry


def _add_needs(
    repo: Repository, made: Plan, tracking: Tracking, living: Living, alias_groups: _AliasGroups, *, whole: bool
) -> None:
    """Close the plan over classes: those that loading needs, and of a whole state everything made of one that is made anew."""
    target = alias_groups.tree
    todo = list(made.entries)
    closed: set[tuple[str, ObjectId | None]] = set()  # values all of whose names are in the plan
    anew: set[str] = set()
    while todo:
        name = todo.pop()
        own = made.entries[name]
        if own.shared_value is not None and own.shared_value not in closed:
            closed.add(own.shared_value)
            todo += _take(made, target, alias_groups.members(own))
        if name.startswith(CLASS_PREFIX):
            anew.add(name)
            using = tracking.users_of(name.removeprefix(CLASS_PREFIX)) if whole else ()
            todo += _take(made, target, [user for user in using if user not in made.removed])
        for needed in _classes_of(repo, made, name, target):
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


def _take(made: Plan, target: Tree, names: Iterable[str]) -> list[str]:
    """Plan to load these names too, as far as the target has them; returns those that are new in the plan."""
    missing = ((name, target.get(name)) for name in names if name not in made.entries)
    found = {name: entry for name, entry in missing if entry is not None}
    made.entries |= found
    return list(found)


def _classes_of(repo: Repository, made: Plan, name: str, target: Tree) -> tuple[str, ...]:
    """The class entries that loading the name needs; none where its manifest cannot be read."""
    if name in made.unreadable:
        return ()
    own = made.entries[name]
    try:
        manifest = made.manifests[name] = made.manifests.get(name) or repo.read_manifest(own)
        layout = decode_layout(manifest.layout)
    except (DamagedObjectError, NewerFormatError, msgspec.MsgspecError) as error:
        made.unreadable[name] = error
        return ()
    left = (class_entry(uid) for uid in layout.skeletons) if own.alias_group else ()
    return *manifest.classes, *(
        kind for kind in left if (now := target.get(kind)) and now.shared_value != own.shared_value
    )


class _Definitions:
    """The loader's source of code."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo

    def definition(self, definition: bytes) -> bytes:
        return self._repo.objects.get(Kind.DEFINITION, ObjectId(address_of(DefinitionId(definition))))


class Built(msgspec.Struct):
    """What a plan gave: values by name, the classes that were made, and what could not be loaded."""

    values: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    classes: dict[str, type] = msgspec.field(default_factory=dict[str, type])
    failed: list[LoadFailure] = msgspec.field(default_factory=list["LoadFailure"])
    contents: list[tuple[object, Any]] = msgspec.field(default_factory=list["tuple[object, Any]"])
    registers: list[object] = msgspec.field(default_factory=list[object])
    pinned: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    kept_live: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])  # as of the loader
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
    plain: bool = False,
) -> Built:
    """Load the plan's entries aside. What fails is taken out of the plan, and costs nothing but itself.

    Args:
        live: groups that are in memory under the same names: of large arrays, only what differs is read from the store.
        sets_back: whether `contents` will be set back into what the person's own modules hold.
        sets_pinned: and into what objects that cannot be saved have hold of.
        plain: whether to build plain data alone. So it is where the store's maker is not trusted.

    Raises:
        KeyboardInterrupt, StoreUnavailableError: nothing was loaded.
    """
    if sets_back:
        _reuse_living_classes(repo, living, namespace, plan)
    planned = list(plan.groups_by_member())
    options = {"sets_back": sets_back, "sets_pinned": sets_pinned}
    loader = Loader(namespace, _Definitions(repo), living, plan.reusable, **options)
    with unwarned(), memory_of(repo, living, namespace, live) as at_hand:
        is_plain = plain or not trust.is_trusted(repo)
        groups = [read_group(repo, plan, members, entries, at_hand, is_plain=is_plain) for members, entries in planned]
        loaded = loader.load(groups)
    built = Built(classes=loader.new_classes, contents=loader.contents, registers=loader.registers)
    built.set_back, built.pinned, built.kept_live = loader.held_ids, loader.pinned_anew, loader.kept_live
    for (members, entries), found in zip(planned, loaded, strict=True):
        if not isinstance(found, Failure):
            built.values |= zip(members, found, strict=True)
            continue
        built.values |= found.rest
        failed_names = tuple(name for name in members if name not in found.rest)
        failed_entries = {name: entries[name] for name in failed_names}
        built.failed.append(
            LoadFailure(failed_names, failed_entries, found.error, found.class_id, plan.manifests.get(members[0]))
        )
        for name in failed_names:
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
        plan.unchanged[name] = plan.entries.pop(name)


def _is_as_stored(
    repo: Repository, living: Living, namespace: dict[str, object], plan: Plan, name: str, kind: type
) -> bool:
    """Whether the class would be saved as it is stored."""
    entry, manifest = plan.entries[name], plan.manifests.get(name)
    if manifest is None or entry.alias_group or decode_layout(manifest.layout).losses:
        return False
    try:
        dumped = dump_group({name: kind}, living, namespace)
        blobs = [blob if isinstance(blob, bytes) else bytes(blob.raw()) for blob in dumped.blobs]
        # Only a commit looks for cycles: a dump alone does not set `fills_last`.
        stored = msgspec.structs.replace(decode_layout(manifest.layout), fills_last=False)
        return dumped.layout == stored and blobs == [bytes(read_blob(repo.objects, blob)) for blob in manifest.blobs]
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
            self.plan.read[address_in(target)] = pieces_of(self.repo.objects, self.blob, digests)


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
        if group.placeholders is not None or group.stale or not _is_mostly_memory(repo, group):
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
    address = address_in(view)
    return next((use for use in uses if use.space == "cpu" and use.low <= address < use.high), None)


def read_group(
    repo: Repository,
    plan: Plan,
    members: tuple[str, ...],
    entries: Mapping[str, Entry],
    at_hand: Mapping[ObjectId, AtHand],
    *,
    is_plain: bool = False,
) -> StoredGroup:
    """Read a group as a loader wants it; one that has no readable manifest raises when it is read.

    Args:
        is_plain: whether only plain data of it may be built, because its maker is not trusted.
    """
    unreadable: Exception | None = next((plan.unreadable[name] for name in members if name in plan.unreadable), None)
    if unreadable is None and is_plain:
        unreadable = _more_than_data(plan.manifests[members[0]])
    if unreadable is not None:
        return _unreadable(members, unreadable)
    manifest = plan.manifests[members[0]]

    def stream(position: int) -> bytes:
        return bytes(read_blob(repo.objects, manifest.blobs[position]))

    def buffer(position: int) -> _StoredBytes:
        return _StoredBytes(repo, manifest.blobs[position], at_hand, plan)

    layout = decode_layout(manifest.layout)
    elsewhere = _classes_elsewhere(plan, members, layout)
    return StoredGroup(
        members,
        tuple(entries[name].slot for name in members),
        manifest.slots,
        layout,
        stream,
        buffer,
        _classes_needed(manifest) | elsewhere,
        is_plain,
        elsewhere,
    )


def _classes_elsewhere(plan: Plan, members: Sequence[str], layout: Layout) -> frozenset[str]:
    """The classes that left a value: they changed while its other names could not be loaded."""
    left = [uid for uid in layout.skeletons if class_entry(uid) not in members]
    return frozenset(uid for uid in left if uid in plan.reusable or class_entry(uid) in plan.entries) or NO_NAMES


def _more_than_data(manifest: Manifest) -> UntrustedValueError | None:
    """Why a value is more than plain data, where that can be told without reading it."""
    layout = decode_layout(manifest.layout)
    if manifest.classes or layout.skeletons:
        named = sorted(
            {uid.removeprefix(CLASS_PREFIX).partition("#")[0] for uid in (*manifest.classes, *layout.skeletons)}
        )
        return UntrustedValueError(f"the class {named[0]}")
    if manifest.definitions:
        return UntrustedValueError("a function of the notebook")
    return UntrustedValueError("objects that live outside of it") if layout.pins else None


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
        save_failures=(),
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
        compared = led or _compare(values, living, namespace, plan)
        alone = {first: compared}
        if led is not None or len(members) > 1:
            alone = {
                name: _compare({name: value}, living, namespace, plan, components) for name, value in values.items()
            }
        own = {name: own_of(values[name], found) for name, found in alone.items()}
        roots = {name: roots_of(found.dumped.dump) for name, found in alone.items()}
    except (Exception, KeyboardInterrupt):  # noqa: BLE001  # it stays unread, and the next commit saves it again
        return None
    manifest = repo.read_manifest(entries[first])
    pieces: list[Pieces] = [pieces_of(repo.objects, blob, plan.digests) for blob in manifest.blobs]
    group = make_group(compared, values, dict(entries), pieces, own, roots)
    # A library may make another class as it loads the value: what is stored goes on to need the one it was saved with.
    group.classes = group.classes | _classes_needed(manifest) or NO_NAMES
    known = {failure.token: failure for failure in failures_of(decode_layout(manifest.layout))}
    group.save_failures = tuple(known.values()) or group.save_failures
    group.unsaved = manifest.unsaved or describe_unsaved(compared.dumped, members)
    return group


def _compare(
    values: Mapping[str, object],
    living: Living,
    namespace: dict[str, object],
    plan: Plan,
    components: Components | None = None,
) -> Compared:
    dumped = dump_group(values, living, namespace, components=components)
    return compare(dumped, _NOTHING_READ if _may_write(dumped) else plan.read)


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


# -- what a state is loaded without: stored values that could not be rebuilt here
#
# Each is replaced in the namespace by a placeholder: using it raises an error. The name keeps its entry in the tree: no
# commit stores it anew, so nothing of it is lost, and a later checkout tries it again.

WAY_ON = "--partial (in Python partial=True) goes on without, and keeps what is stored"
_FURTHEST = 10_000  # commits to look through for the cell that made a value


class LoadFailure(msgspec.Struct, frozen=True):
    """A group that could not be loaded. `class_id`: for the sake of this class; `manifest`: None if it is not readable."""

    members: tuple[str, ...]
    entries: dict[str, Entry]
    error: BaseException
    class_id: str
    manifest: Manifest | None
    folder: str = ""  # the one that a module came from which is not found now

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in self.members if not name.startswith("\0"))

    def reason(self) -> str:
        """Why, in one line, and which packages are other ones than those it was saved with."""
        kind = self.class_id.partition("#")[0]
        of_class = f"the class {kind} cannot be loaded: " if kind else ""
        packages = self.manifest.packages if self.manifest is not None else {}
        others = [_other(package, saved) for package, saved in sorted(packages.items())]
        differ = "; ".join(filter(None, others))
        text = of_class + error_line(self.error) + (f" (saved with {differ})" if differ else "")
        if not self.folder:
            return text
        if not Path(self.folder).is_dir():
            return f"{text}; it came from the folder {self.folder}, which is not there now"
        return f"{text}; it came from a folder that is not in sys.path: run sys.path.insert(0, {self.folder!r}) and check out again"


def with_folder(repo: Repository, failed: LoadFailure, sources: Sequence[ObjectId]) -> LoadFailure:
    """Say of a module that is not found which folder it came from, as far as the history knows: nothing is imported."""
    name = failed.error.name if isinstance(failed.error, ModuleNotFoundError) else None
    package = (name or "").partition(".")[0]
    if not package:
        return failed
    import_path = set(import_folders(sys.path))
    missing: str = ""
    for folder in dict.fromkeys(folder for source in sources for folder in _folders(repo, source)):
        if folder in import_path:
            continue
        if not Path(folder).is_dir():
            missing = missing or folder
        elif any(_is_module(entry.name, package) for entry in Path(folder).iterdir()):
            return msgspec.structs.replace(failed, folder=folder)
    return msgspec.structs.replace(failed, folder=missing)


def _is_module(file: str, package: str) -> bool:
    return file == package or (file.startswith(f"{package}.") and file.endswith((".py", ".so", ".pyd")))


def _folders(repo: Repository, source: ObjectId) -> list[str]:
    """The folders that the sessions of these commits imported from, the latest first."""
    try:
        commits = (commit for _, commit in repo.log(source, limit=_LATEST, first_parent=True))
        return list(dict.fromkeys(folder for commit in commits for folder in (*commit.folders, commit.cwd) if folder))
    except AgentKernelError:  # the history is damaged further back
        return []


_LATEST = 1_000  # commits to look through for the folder of a module


def _other(package: str, saved: str) -> str:
    if is_source(package):
        return ""
    now = version_now(package)
    if now == saved:
        return ""
    if now:
        return f"{package} {saved}, this is {now}"
    from importlib.util import find_spec

    is_there = package in sys.modules or find_spec(package) is not None
    return f"{package} {saved}" + ("" if is_there else ", which is not installed")


def load_error(failed: Iterable[LoadFailure], way: str = "") -> LoadError:
    """The error that names what could not be loaded, each with its reason."""
    by_reason: dict[str, list[str]] = {}
    causes: list[BaseException] = []
    for one in failed:
        if one.names:
            by_reason.setdefault(one.reason(), []).extend(one.names)
            causes.append(one.error)
    names = tuple(sorted(name for found in by_reason.values() for name in found))
    failures = tuple((tuple(sorted(found)), reason) for reason, found in by_reason.items())
    error = LoadError(names, "; ".join(by_reason), failures, way)
    error.__cause__ = causes[0]
    return error


# -- placeholders


def make_placeholders(
    repo: Repository, failed: Sequence[LoadFailure], sources: Sequence[ObjectId], classes: frozenset[str]
) -> list[Group]:
    """What to remember of groups that could not be loaded, with a placeholder for each of their names.

    Args:
        sources: commits from which the entries come.
        classes: the ids of all classes in the tree, for groups of which it cannot be read what they need.
    """
    cells = _cells(repo, sources, {name for one in failed for name in one.names})
    return [_unloaded_group(repo, one, cells, classes) for one in failed]


def _unloaded_group(repo: Repository, failed: LoadFailure, cells: dict[str, str], classes: frozenset[str]) -> Group:
    reason = failed.reason()
    placeholders = Placeholders({}, {})
    for name in failed.names:
        kind = _type(repo, failed.entries[name])
        made = f"; {cells[name]} made it" if name in cells else ""
        remedy = f"what was saved stays in the store: when the cause is gone, %agent checkout loads it{made}"
        own = SaveFailure("", kind, reason, remedy)
        copied = SaveFailure(
            f"unloaded-{secrets.token_hex(6)}",
            kind,
            f"it is a copy of what stood for {name}, which could not be loaded: {reason}",
            f"copy {name} again where it is loaded",
        )
        placeholders.by_name[name] = Placeholder(copied, name, own)
        placeholders.reports[name] = Unsaved(name, kind, reason, remedy, stored=True)
    needs = failed.manifest.classes if failed.manifest is not None else ()
    return Group(
        members=failed.members,
        signature=b"",
        own={},
        stored=failed.entries,
        pieces=[],
        reach=Reach(),
        globals_used=frozenset(),
        classes=frozenset(needed.removeprefix(CLASS_PREFIX) for needed in needs) if failed.manifest else classes,
        save_failures=(),
        size=failed.manifest.size if failed.manifest is not None else 0,
        placeholders=placeholders,
    )


def _type(repo: Repository, entry: Entry) -> str:
    try:
        return previews.decode(repo.read_preview(entry)).type
    except (DamagedObjectError, NewerFormatError, msgspec.MsgspecError):
        return ""


# -- where a value comes from


def _cells(repo: Repository, sources: Sequence[ObjectId], names: set[str]) -> dict[str, str]:
    """The cell that made each of these values, as far as the history can be read."""
    found: dict[str, str] = {}
    for source in sources:
        try:
            _walk_back(repo, source, names - found.keys(), found)
        except AgentKernelError:  # the history is damaged further back: what was found so far will do
            continue
    return found


def _walk_back(repo: Repository, start: ObjectId, names: set[str], found: dict[str, str]) -> None:
    for id, commit in repo.log(start, limit=_FURTHEST, first_parent=True):
        changed = names & {change.name for change in commit.changed if change.how != "-"}
        names = names - changed
        if not changed:
            continue
        sources = [commit.restores] if commit.restores is not None else list(commit.parents[1:])
        if commit.cell is not None:
            number = f" [{commit.cell.number}]" if commit.cell.number is not None else ""
            found |= dict.fromkeys(changed, f"the cell{number} of {short(id)}")
        elif sources:
            _walk_back(repo, sources[0], changed, found)
        else:
            found |= dict.fromkeys(changed, f"commit {short(id)}")
        if not names:
            return
