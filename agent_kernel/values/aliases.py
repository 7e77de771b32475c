"""What a dump of values gave, and which mutable objects and memory a value reaches, so that names which share any are saved as one.

Only what the pickler visited is walked: the instances that `reducer_override` saw and the parts that reducers gave, then
builtin containers level by level with `referents`. Modules, classes, globals and immutable objects are never
entered. Grouping names that share nothing is the costliest mistake here; missing a shared object is the worst.

In a large value only containers with more references than the walk explains are kept, and what tuples hold that have
more: nothing else can be shared.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import array
import ctypes
import re
import sys
import types
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, combinations, compress, islice, repeat
from operator import attrgetter, lt, not_
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from agent_kernel.values.introspection import (
    ATOM_IDS,
    addresses,
    ids_in,
    ids_of,
    ids_of_types,
    is_among,
    module_name,
    of_types,
    referents,
    that_lead_on,
)

if TYPE_CHECKING:
    from agent_kernel.values.definitions import DefinitionId
    from agent_kernel.values.references import Named

# -- what pickling a group of values gave: the bytes to store, what was met on the way, and what could not be saved
#
# It is what change detection and the alias walk work on, because the raw object graph reaches far more than is saved.


class CannotSaveError(Exception):
    """Below the value there is something that cannot be saved: it has to be dumped with care."""


class SaveFailure(msgspec.Struct, frozen=True):
    """Why an object below a value was not saved. `token` names the live object."""

    token: str
    type: str
    reason: str
    remedy: str = ""


class LiveNames(Protocol):
    """Gives lasting names to objects that cannot be pickled, and to classes."""

    def token_of(self, value: object) -> str: ...

    def save_failure_of(self, value: object) -> SaveFailure | None: ...

    def remedy_of(self, token: str) -> str: ...

    def surface_of(self, token: str, value: object) -> bytes: ...

    def uid_of(self, kind: type) -> str: ...


OBJECTS = "objects"


class Memory(Protocol):
    """Bytes that are stored beside a stream: a `pickle.PickleBuffer`, or an `atoms.Part`."""

    def raw(self) -> memoryview: ...


# Who writes to memory through a holder: everybody; a frame that copies on write, unless others have it too; nobody, as with Arrow
# and polars. Holders of one kind share nothing with one another in a way that shows, unless it is the first.
OPEN, COPIED, CONSTANT = range(3)


class MemoryUse(msgspec.Struct):
    """A buffer that a visited array or tensor looks at: `space` is "cpu" or a device, addresses are in bytes.

    In the space OBJECTS addresses are ids: of what is shared as the object that it is. `written`: OPEN, COPIED or CONSTANT.
    `owned`: the holder's own, each item in a place of its own.
    """

    holder: object
    space: str
    low: int
    high: int
    written: int = OPEN
    owned: bool = False


class Component(Protocol):
    """Objects that lead to one another and were dumped before, from `root`: a number in their dump stands for each."""

    @property
    def root(self) -> object: ...

    @property
    def places(self) -> Mapping[int, int]: ...


class Components(Protocol):
    """Knows the component of an object that leads back to where that was dumped from."""

    def may_find(self) -> bool: ...

    def find(self, value: object) -> Component | None: ...


class Dump(msgspec.Struct):
    """What pickling gave: streams and buffers to store, and what was visited, to compare and to walk."""

    pickles: int = 0
    streams: list[bytes] = []
    buffers: list[Memory] = []
    steps: list[int | None] = []
    # Positions of buffers that a library's own reducer gave: it wants memory back, ours read when they know what for.
    foreign: list[int] = []
    instances: list[object] = []
    opaque: list[object] = []
    roots: list[object] = []
    memory: list[MemoryUse] = []
    views: dict[int, object] = {}  # by id: the array each is a view of
    object_arrays: list[Any] = []
    answers: list[object] = []  # objects that keep answers which may be old: stored with those, and compared without
    labels: list[Any] = []  # object arrays of an Index or a copy-on-write frame, which groups nothing by them
    # Of arrays that were packed into the state of their holder those that something else holds too: holder, name, array.
    loose: list[tuple[Any, str, Any]] = []
    references: list[object] = []  # of each block: what knows who has its array
    label_references: list[object] = []  # and of each Index
    viewers: list[tuple[object, int]] = []  # objects, and the address of what each reads and writes, as others may
    globals_used: set[str] = set()
    classes: dict[str, type] = {}
    definitions: dict[DefinitionId, bytes] = {}
    held_ids: set[int] = set()  # ids of what lies in objects that cannot be saved, as in graphs of torch
    held_memory: set[tuple[int, int]] = set()  # and what arrays among these look at
    copied: set[int] = set()  # ids of what objects hold that are saved as a copy of it
    # Tokens of objects that may keep functions where nobody sees them.
    holders: set[str] = set()
    save_failures: dict[str, SaveFailure] = {}
    live: dict[str, object] = {}
    class_level: set[int] = set()
    # Lists, dicts and sets that modules hold, by id, and the packages of all that was saved as a name of a module.
    named: dict[int, Named] = {}
    packages: set[str] = set()
    # What reducers made on the way: ids above stay true only while these live.
    keepalive: list[object] = []
    large_caches: list[
        dict[Any, Any]
    ] = []  # what functions keep: of these results only what something else holds is walked
    met: list[Any] = []  # the components that numbers in the stream stand for
    is_flat: bool = False  # whether objects get what they hold only after all of them were made

    def copy(self) -> Dump:
        """The same notes, to be gone on with."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return Dump(
            **{name: found if name in ("keepalive", "pickles", "is_flat") else found.copy() for name, found in fields}
        )


# -- which arrays and tensors look at the same memory, judged by address
#
# Two of them share memory where their address ranges overlap. Neighbouring slices of one array do not overlap and need
# not come back as one; a view and its base do. Within one dump, overlapping ranges form a cluster that is stored once:
# as the array that spans it when there is one, else as the bytes from the lowest to the highest address.

# What holds bytes, may be written to through numpy's views of it, and can be saved.
BYTE_OWNERS: tuple[type, ...] = (bytearray, array.array)


class Span:
    """Raw bytes that several arrays look at, stored as one buffer. `keep` holds whatever owns them."""

    def __init__(self, low: int, high: int, keep: object) -> None:
        self.low, self.high, self.keep = low, high, keep

    def raw(self) -> Any:
        return (ctypes.c_char * (self.high - self.low)).from_address(self.low)


class Cluster(msgspec.Struct, frozen=True):
    """Memory that several visited objects look at. `base` is what is stored; the others become views of it."""

    space: str
    low: int
    high: int
    base: Any
    base_low: int


_NONE: Mapping[int, object] = {}


def clusters_of(uses: Iterable[MemoryUse], views: Mapping[int, object] = _NONE) -> tuple[Cluster, ...]:
    """Find the memory that more than one object of a dump looks at, from low to high addresses.

    Args:
        views: by the id of a view the array that it was pickled as a view of. Those need no cluster.
    """
    found = [
        _cluster(group)
        for group in group_overlapping(use for use in uses if use.space != OBJECTS)
        if (_has_several(group) and not _is_one_array(group, views))
        or (not group[0].owned and _is_shared_bytes(group[0].holder))
    ]
    found = [cluster for cluster in found if not _is_mostly_others(cluster)]
    found.sort(key=_place)  # two ranges of one bytearray both begin where that does
    separate: list[Cluster] = []
    for cluster in found:
        if not separate or separate[-1].space != cluster.space or separate[-1].high <= cluster.low:
            separate.append(cluster)
    return tuple(separate)


def _has_several(group: list[MemoryUse]) -> bool:
    """Whether several holders look at this, one of which may write to it."""
    several = len(group) > 1 and len({id(use.holder) for use in group}) > 1
    return several and any(use.written != CONSTANT for use in group)


def _is_one_array(group: list[MemoryUse], views: Mapping[int, object]) -> bool:
    """Whether these are an array and what was pickled as its views."""
    return len({id(views.get(id(use.holder), use.holder)) for use in group}) == 1


def _is_mostly_others(cluster: Cluster) -> bool:
    """Whether these are a few columns of a wide array, say, with no item in common: most of what they span is not theirs."""
    if type(cluster.base) is not Span:
        return False
    import numpy as np

    uses: Any = cluster.base.keep
    holders: list[Any] = list({id(use.holder): use.holder for use in uses}.values())
    if len(holders) > _MOST_COMPARED or not all(isinstance(holder, np.ndarray) for holder in holders):
        return False
    if 2 * sum(holder.nbytes for holder in holders) > cluster.high - cluster.low:
        return False
    if any(map(overlaps_itself, holders)):
        return False
    return not any(_shares_items(one, other) for one, other in combinations(holders, 2))


_MOST_COMPARED = 64


def _shares_items(one: Any, other: Any) -> bool:
    import numpy as np

    most_work: Any = 10_000
    try:
        return bool(np.shares_memory(one, other, max_work=most_work))
    except RuntimeError:  # numpy finds it too hard to tell
        return True


def _place(cluster: Cluster) -> tuple[str, int]:
    return cluster.space, cluster.low


def group_overlapping(uses: Iterable[MemoryUse]) -> list[list[MemoryUse]]:
    """Group memory uses whose address ranges overlap."""
    groups: list[list[MemoryUse]] = []
    space, reach = "", -1
    for use in sorted(uses, key=BY_PLACE):
        if groups and use.space == space and use.low < reach:
            groups[-1].append(use)
            reach = max(reach, use.high)
        else:
            groups.append([use])
            space, reach = use.space, use.high
    return groups


BY_PLACE = attrgetter("space", "low", "high")


def find_cluster(clusters: tuple[Cluster, ...], address: int, space: str = "cpu") -> Cluster | None:
    """The cluster that an address lies in. They are in order, so a few looks are enough for thousands of them."""
    place = bisect_right(clusters, (space, address), key=_place) - 1
    if place < 0 or clusters[place].space != space or clusters[place].high <= address:
        return None
    return clusters[place]


def _cluster(group: list[MemoryUse]) -> Cluster:
    low, high = min(use.low for use in group), max(use.high for use in group)
    space = group[0].space
    owner = owner_of(group[0].holder)
    if type(owner) in BYTE_OWNERS:
        start = address_of(owner)
        return Cluster(space, start, start + memoryview(owner).nbytes, owner, start)
    for use in group:
        if use.low == low and use.high == high and _can_carry(use.holder):
            return Cluster(space, low, high, use.holder, low)
    return Cluster(space, low, high, Span(low, high, group), low)


def owner_of(holder: Any) -> Any:
    """The object at the end of the chain of bases, which owns the memory.

    An array of Cython answers with its own view, whose base is the array again: such a chain has no end.
    """
    for _ in range(_LONGEST_CHAIN):
        base = getattr(holder, "base", None)
        if base is None or base is holder:
            break
        exporter: Any = getattr(base, "obj", None) if type(base) is memoryview else None
        holder = base if exporter is None else exporter
    return holder


_LONGEST_CHAIN = 100  # numpy lets a view of a view know the owner at once


def address_of(owner: Any) -> int:
    import numpy as np

    return int(np.frombuffer(owner, np.uint8).__array_interface__["data"][0])


def _is_shared_bytes(holder: Any) -> bool:
    return type(owner_of(holder)) in BYTE_OWNERS or overlaps_itself(holder)


def overlaps_itself(holder: Any) -> bool:
    """Whether two items of an array may lie in the same place, as those of sliding windows do.

    Axes of stride 0 do not count: a broadcast array is stored by the items that it repeats.
    """
    strides: Any = getattr(holder, "strides", None)
    if strides is None or not holder.size or getattr(getattr(holder, "flags", None), "forc", False):
        return False  # contiguous, in C's order or in Fortran's
    reach = holder.itemsize
    for step, count in sorted((abs(step), count) for step, count in zip(strides, holder.shape, strict=True)):
        if step and count > 1:
            if step < reach:
                return True
            reach += (count - 1) * step
    return False


def _can_carry(holder: Any) -> bool:
    import numpy as np

    return type(holder) is np.ndarray and not holder.dtype.hasobject and holder.flags.c_contiguous


# What is handled here is anyone's object, so its type has no parameters to know.


_WALKED: frozenset[type] = frozenset({list, dict, tuple, set, frozenset, types.CellType})
_MUTABLE: frozenset[type] = frozenset({list, dict, set, bytearray, types.CellType})
_FOLLOWED = _WALKED | {bytearray}
# By id: hashing a type runs its metaclass.
_MUTABLE_IDS = frozenset(map(id, _MUTABLE))
_FOLLOWED_IDS = frozenset(map(id, _FOLLOWED))
_FROZEN_IDS = frozenset({id(frozenset)})
_UNCHANGING_IDS = frozenset(map(id, (tuple, frozenset)))
_FUNCTION_IDS = frozenset({id(types.FunctionType)})
# Also of a method that is told the class that defines it.
_CODE_IDS = frozenset(map(id, (types.FunctionType, types.BuiltinFunctionType, type(array.array("b").extend))))
LARGE = 20_000


class Reach(msgspec.Struct):
    """The ids of mutable objects, and the memory, that a value reaches. Valid while the value is unchanged and alive.

    `complete` is False for a large value, where `ids` has only the containers that someone else holds too. `deferred`
    says that nothing was walked yet. `named` are containers of modules that were met: those of libraries are not shared by
    the values that name them.
    """

    ids: set[int] = set()
    memory: list[MemoryUse] = []
    complete: bool = True
    deferred: bool = False
    named: set[int] = set()


def reach(values: Iterable[object], dump: Dump, stops: Collection[int] = ()) -> Reach:
    """Walk what the pickler visited below `values`. Call it while the dump is alive: its own objects have ids too.

    Args:
        stops: ids of containers that were dumped elsewhere: nothing below them is looked at.
    """
    found = Reach(memory=[MemoryUse(None, use.space, use.low, use.high, use.written) for use in dump.memory])
    values = list(values)
    noted = dump.instances or dump.opaque or dump.object_arrays or dump.roots or dump.named
    if not noted and not any(map(_FOLLOWED_IDS.__contains__, map(id, map(type, values)))):
        return found  # names of modules, numbers and texts: most of what a cell binds that imports all of a library
    # A frozen set cannot change, but a weak reference may lead to it.
    found.ids.update(
        id(value) for value in values if id(type(value)) in _MUTABLE_IDS or (type(value) is frozenset and value)
    )
    _note_visited(dump, found)
    for value in dump.instances:
        if type(value) is types.FunctionType:
            found.ids.add(id(value.__dict__))  # from which the walk starts
    libraries = {item for item, named in dump.named.items() if not named.reference.is_own}
    tuples = (value for value in values if id(type(value)) in _UNCHANGING_IDS)
    found.ids.update(_find_below_tuples(tuples, entered=set(stops)))
    leaves = dump.class_level.union(libraries, stops, ids_of(dump.large_caches))
    roots = [root for root in _find_roots(values, dump) if id(root) not in libraries and id(root) not in stops]
    _walk([*roots, *dump.roots], found, dump, leaves=leaves)
    found.complete = found.complete and not dump.large_caches
    found.ids.difference_update(ids_of(dump.keepalive))
    found.named = found.ids & dump.named.keys()
    found.ids -= libraries
    return found


def reach_of_saved(values: Iterable[object], dump: Dump, saved: list[object], not_saved: Iterable[int]) -> Reach:
    """What a large dump reaches, told by all that its pickler remembers: nothing goes from one object to the next.

    Of containers only those count that more than one thing holds: what holds another one alone is in the dump itself.

    Args:
        saved: what the pickler holds in its memo; of `not_saved`, by id, it knows for other reasons.
    """
    found = Reach(memory=[MemoryUse(None, use.space, use.low, use.high, use.written) for use in dump.memory])
    _note_visited(dump, found)
    values = list(values)
    followed = of_types(saved, _FOLLOWED_IDS)
    counts = list(map(sys.getrefcount, followed))  # not in one step: then that holds each, too
    over = list(compress(followed, map(lt, repeat(_OF_ONE_SAVED), counts)))
    found.ids.update(ids_of(of_types(over, _MUTABLE_IDS)), _find_weakly_held(followed))
    tuples = of_types(over, _UNCHANGING_IDS)
    found.ids.update(
        _find_long(tuples),
        _find_below_tuples(chain(tuples, (value for value in values if id(type(value)) in _UNCHANGING_IDS))),
    )
    if dump.named:  # the pickler was told of all of these, but not every one was met
        found.ids -= dump.named.keys() - _find_in_containers(followed, dump.named.keys())
    # Of functions a copy is saved.
    functions: Iterable[Any] = of_types(dump.instances, _FUNCTION_IDS)
    level = [part for value in functions for part in _parts_of(value)]
    _walk([value for value in [*values, *level] if id(type(value)) in _FOLLOWED_IDS], found, dump)
    found.complete = False
    libraries = {item for item, named in dump.named.items() if not named.reference.is_own}
    found.ids.difference_update(dump.class_level, ids_of(dump.keepalive), ids_of(dump.roots))
    found.ids.difference_update(not_saved)
    found.named = found.ids & dump.named.keys()
    found.ids -= libraries
    return found


def _find_in_containers(containers: list[object], ids: AbstractSet[int]) -> set[int]:
    """Those of the ids that other containers among these hold."""
    holders = compress(containers, map(not_, map(ids.__contains__, ids_of(containers))))
    held = addresses(referents(holders))
    if len(ids) > _MOST_SEARCHED:
        return set(ids).intersection(ids_in(held))
    return {item for item in ids if is_among(item, held)}


_MOST_SEARCHED = 20
# The memo, a holder, both lists, and getrefcount's argument.
_OF_ONE_SAVED = 5


def find_shared_below(items: Any, dump: Dump, apart: AbstractSet[int] = frozenset()) -> set[int]:
    """Find the ids of mutable objects in one segment that something outside the segment holds too.

    `items` is the segment's own copy of its part of the container, so its items have one holder more than usual. It is None
    if the items are atoms.

    Args:
        apart: ids of objects that are stored outside the segment. What one of them holds counts as held from there.
    """
    found = Reach(complete=False)
    # No variable here may hold an item: it would count as a holder.
    again = Counter(ids_of([*items, *items.values()] if isinstance(items, dict) else items or ()))
    found.ids.update(_find_noted_elsewhere(dump, again))
    found.ids.update(id(owner_of(array)) for array in dump.object_arrays)
    objects = set(ids_of((*dump.instances, *dump.opaque)))
    _walk([items], found, dump, copies=1, objects=objects, shut=apart)
    _walk(
        [*_find_roots((), dump, apart), *dump.roots], found, dump, leaves=dump.class_level, objects=objects, shut=apart
    )
    found.ids.difference_update(ids_of(dump.keepalive))
    found.ids.discard(id(items))
    return found.ids


def find_possibly_shared(values: Sequence[object], dump: Dump, holders: int, stops: Collection[int] = ()) -> set[int]:
    """Find the ids of mutable objects that something but the values themselves may hold.

    Errs on the safe side: a reference that cannot be explained counts as a holder.

    Args:
        holders: how many references to each of the values their keepers account for.
        stops: ids of containers that were dumped elsewhere: nothing below them is looked at.
    """
    found = Reach(complete=False)
    explained = Counter(dict.fromkeys(ids_of(values), holders))
    for use in dump.memory:  # noted once more for its memory; an array that owns it is also the base of what was stored
        explained[id(use.holder)] += 2 if getattr(use.holder, "base", use) is None else 1
    found.ids.update(_find_noted_elsewhere(dump, explained))
    # An instance that only a tuple holds is held elsewhere where the tuple is.
    objects = set(ids_of((*dump.instances, *dump.opaque)))
    _walk([list(values)], found, dump, copies=holders, leaves=stops, objects=objects)
    _walk([*_find_roots((), dump), *dump.roots], found, dump, leaves=dump.class_level.union(stops), objects=objects)
    found.ids.difference_update(ids_of(dump.keepalive))
    return found.ids


def _find_noted_elsewhere(dump: Dump, explained: Mapping[int, int]) -> set[int]:
    """The ids of objects noted in a dump that have more holders than are known, or that a weak reference leads to.

    Args:
        explained: by id, how many references beyond the usual ones are known.
    """
    noted = [*dump.instances, *dump.opaque]
    limits = [_NOTED + explained.get(item, 0) for item in ids_of(noted)]
    counts = list(map(sys.getrefcount, noted))
    weakly = compress(noted, map(weakref.getweakrefcount, noted))
    return {*ids_of(compress(noted, map(lt, limits, counts))), *ids_of(weakly)}


def common_item(one: Any, other: Any, dump: Dump) -> int | None:
    """The id of an item that two long containers both hold, if a look at some of their items finds one.

    Lists, dicts and sets count, and objects of the notebook's own classes that the dump of `one` noted. The caller leaves
    out what libraries hold.
    """
    few, many = sorted((one, other), key=len)
    some = list(islice(_items_of(few), 0, None, max(1, len(few) // _LOOKS)))
    containers = [item for item in some if id(type(item)) in _MUTABLE_IDS]
    shared = [item for item in containers if sys.getrefcount(item) > _OF_ONE]
    if len(containers) < len(some):
        noted = set(ids_of(dump.instances))
        shared += [item for item in some if id(item) in noted and module_name(type(item)) == "__main__"]
    if not shared:
        return None
    ids = ids_of_items(many)
    return next((id(item) for item in shared if id(item) in ids), None)


_LOOKS = 500
# The container, `some`, `containers`, the comprehension's variable and getrefcount's argument.
_OF_ONE = 5


def _items_of(container: Any) -> Iterable[object]:
    return container.values() if type(container) is dict else container


def ids_of_items(container: Any) -> set[int]:
    """The ids of what a long container directly holds."""
    return set(ids_of(_items_of(container)))


def find(ids: set[int], values: Iterable[object], dump: Dump, stops: Collection[int] = ()) -> list[Any]:
    """The objects of these ids below the values, in an order that depends on the values alone."""
    values = list(values)
    found = {id(value): value for value in (*values, *dump.instances, *dump.opaque) if id(value) in ids}
    level = [value for value in (*_find_roots(values, dump), *dump.roots) if id(value) not in stops]
    visited = {id(value) for value in level}.union(stops)
    while level and len(found) < len(ids):
        level = [value for value in referents(level) if id(type(value)) in _FOLLOWED_IDS and id(value) not in visited]
        visited.update(ids_of(level))
        found.update((id(value), value) for value in level if id(value) in ids)
    return list(found.values())


# A noted object is held by its parent, the dump's list, `noted`, and getrefcount's own argument.
_NOTED = 4


def _note_visited(dump: Dump, found: Reach) -> None:
    found.ids.update(ids_of(dump.opaque), ids_of(dump.instances))
    found.ids.update(id(owner_of(array)) for array in dump.object_arrays)


def _find_roots(values: Iterable[object], dump: Dump, apart: AbstractSet[int] = frozenset()) -> list[object]:
    """Where a walk starts. Notes of the dump count as reached; functions are entered by their own state alone.

    Args:
        apart: ids of noted objects that are not entered.
    """
    roots: list[object] = [value for value in values if id(type(value)) in _FOLLOWED_IDS]
    instances = [value for value in dump.instances if id(value) not in apart] if apart else dump.instances
    code = list(map(_CODE_IDS.__contains__, ids_of(map(type, instances))))
    roots.extend(compress(instances, map(not_, code)))
    for value in compress(instances, code):
        if isinstance(value, types.FunctionType):
            roots.extend(_parts_of(value))
    return roots


def _parts_of(function: types.FunctionType) -> tuple[Any, ...]:
    """Without its globals: they are the namespace, which everything would share."""
    return function.__closure__, function.__defaults__, function.__kwdefaults__, function.__dict__


def _walk(
    level: list[Any],
    found: Reach,
    dump: Dump,
    copies: int = 0,
    leaves: Iterable[int] = (),
    objects: AbstractSet[int] = frozenset(),
    shut: AbstractSet[int] = frozenset(),
) -> None:
    """Note what the values of `level` lead to.

    Args:
        objects: ids of those that count as reached where a tuple is that leads to them and has other holders.
        shut: ids of those that count as reached, and are not entered.
    """
    entered = set(leaves)  # and tuples below which all was found: of tuples in tuples each level may be shared
    visited = {id(value) for value in level} | entered
    seen = len(visited)
    only_tracked = not _may_hold_bytearrays(dump)
    while level:
        below = referents(level)
        level = []  # no holder of what is counted
        followed = of_types(below, _FOLLOWED_IDS)
        del below
        found.ids.update(_find_weakly_held(followed))
        mutable = of_types(followed, _MUTABLE_IDS)
        seen += len(followed)
        found.complete = found.complete and seen <= LARGE
        if found.complete:
            found.ids.update(ids_of(mutable))
        else:
            shared_here = _find_with_more_references(mutable, copies)
            found.ids.update(shared_here.difference(visited), shared_here.intersection(dump.named))
        del mutable
        tuples = of_types(followed, _UNCHANGING_IDS)
        found.ids.update(_find_long(tuples))
        if not found.complete:
            shared = _find_with_more_references(tuples, copies) if tuples else ()
            found.ids.update(
                _find_below_tuples((value for value in tuples if id(value) in shared), objects, entered)
                if shared
                else ()
            )
        del tuples
        if only_tracked:  # the collector leaves dicts and tuples alone that hold nothing but texts and numbers
            followed = that_lead_on(followed)
        fresh = dict(zip(ids_of(followed), followed, strict=True))
        del followed
        for known in visited.intersection(fresh):
            del fresh[known]
        visited.update(fresh)
        for known in fresh.keys() & shut if shut else ():
            del fresh[known]
        level = list(fresh.values())
        del fresh
        copies = 0


def _find_weakly_held(followed: list[Any]) -> Iterable[int]:
    """The ids of frozen sets that a weak reference leads to. It comes back dead unless it is loaded with that very set."""
    frozen = of_types(followed, _FROZEN_IDS)
    return ids_of(compress(frozen, map(weakref.getweakrefcount, frozen)))


def _find_below_tuples(
    tuples: Iterable[object], objects: AbstractSet[int] = frozenset(), entered: set[int] | None = None
) -> set[int]:
    """The ids of the mutable containers that tuples and frozen sets hold, which may have no other holder: who shares a tuple shares these.

    Args:
        objects: the ids of what else counts.
        entered: the ids of tuples below which all was found, to be passed over and added to.
    """
    found: set[int] = set()
    visited: set[int] = set() if entered is None else entered
    level: list[Any] = [value for value in tuples if id(value) not in visited]
    visited.update(ids_of(level))
    while level:
        below = referents(level)  # also of those that the collector does not track: they may hold bytearrays
        found.update(ids_of(of_types(below, _MUTABLE_IDS)))
        if objects:
            found.update(filter(objects.__contains__, ids_of(below)))
        level = [value for value in of_types(below, _UNCHANGING_IDS) if id(value) not in visited]
        visited.update(ids_of(level))
    return found


def _find_long(tuples: list[Any]) -> set[int]:
    """The ids of long tuples that hold more than numbers and texts.

    A variable that is bound to one is cut into segments, and its rows count as held by nobody else: it is told by the tuple
    that another one holds them, too.
    """
    long = [value for value in tuples if len(value) >= _LONG_TUPLE]
    return {id(value) for value in long if not ids_of_types(tuple(value)) <= ATOM_IDS}


_LONG_TUPLE = 100  # no container that is cut is shorter


def _find_with_more_references(mutable: list[Any], copies: int) -> set[int]:
    """The ids of those that have more references than the walk explains.

    That is for each time it was met its parent, `followed` and `mutable`, and once getrefcount's own argument.
    """
    counts = list(map(sys.getrefcount, mutable))
    above = list(map((_EXPLAINED + copies).__lt__, counts))
    over = list(ids_of(compress(mutable, above)))
    met = Counter(over)
    if len(met) == len(over):
        return set(over)
    explained = map((1 + copies).__add__, map((_EXPLAINED - 1).__mul__, map(met.__getitem__, over)))
    return set(compress(over, map(lt, explained, compress(counts, above))))


# A container in a walk is held by its parent, by `followed`, by `mutable`, and by getrefcount's own argument.
_EXPLAINED = 4

# The instruction for a bytearray and its length, which is below 4 GB; other bytes may look like it.
_BYTEARRAY = re.compile(rb"\x96.{4}\0{4}", re.DOTALL)


def _may_hold_bytearrays(dump: Dump) -> bool:
    """Whether the walk has to look into containers that the collector does not track."""
    return any(_BYTEARRAY.search(stream) is not None for stream in dump.streams)


def join_reaches(parts: Iterable[Reach]) -> Reach:
    """Join what several values reach."""
    parts = list(parts)
    ids = set[int]().union(*(part.ids for part in parts))
    memory = [use for part in parts for use in part.memory]
    named = set[int]().union(*(part.named for part in parts))
    return Reach(ids, memory, all(part.complete for part in parts), named=named)


def can_meet(one: int, other: int) -> bool:
    """Whether what is written through one kind of holder may show through another."""
    return one != other or one == OPEN
