"""Which arrays and tensors look at the same memory, judged by address.

Two of them share memory where their address ranges overlap. Neighbouring slices of one array do not overlap and need
not come back as one; a view and its base do. Within one dump, overlapping ranges form a cluster that is stored once:
as the array that spans it when there is one, else as the bytes from the lowest to the highest address.
"""

from __future__ import annotations

import array
import ctypes
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import combinations
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from agent_kernel.values.dump import OBJECTS

if TYPE_CHECKING:
    from agent_kernel.values.dump import MemoryUse


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
        for group in overlapping(use for use in uses if use.space != OBJECTS)
        if (len(group) > 1 and len({id(use.holder) for use in group}) > 1 and not _is_one_array(group, views))
        or (not group[0].owned and _is_shared_bytes(group[0].holder))
    ]
    found = [cluster for cluster in found if not _is_mostly_others(cluster)]
    found.sort(key=_place)  # two ranges of one bytearray both begin where that does
    apart: list[Cluster] = []
    for cluster in found:
        if not apart or apart[-1].space != cluster.space or apart[-1].high <= cluster.low:
            apart.append(cluster)
    return tuple(apart)


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


def overlapping(uses: Iterable[MemoryUse]) -> list[list[MemoryUse]]:
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
    """The object at the end of the chain of bases, which owns the memory."""
    while (base := getattr(holder, "base", None)) is not None:
        exporter: Any = getattr(base, "obj", None) if type(base) is memoryview else None
        holder = base if exporter is None else exporter
    return holder


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
    if strides is None or not holder.size or getattr(getattr(holder, "flags", None), "c_contiguous", False):
        return False
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
