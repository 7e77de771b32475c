"""Cut a long list, tuple, set or dict into segments, each pickled with a memo of its own.

Most of the time of pickling a large container goes into one huge memo. Segments of about a thousand items take a third
of it, and a changed row changes one of them. Cuts stay where they were: a segment starts at the item that started one
before (by identity), so deleting the first row does not move all the others.

An object held by two segments would come back twice, so a container with more references than its segment explains is
looked for in the others; when it is there too, the value is pickled whole. Objects that other variables hold (the last
row, after a loop) are `anchors`: segments refer to them by number, and they are pickled once, beside those variables.
"""

# What is handled here is anyone's object, so its type has no parameters to know.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import io
from array import array
from collections.abc import Collection, Iterator, Mapping
from itertools import islice, pairwise
from typing import Any

import msgspec
from xxhash import xxh3_128_digest

from agent_kernel.values import aliases
from agent_kernel.values.pickler import FOREIGN, Dump, LiveNames, Pickler

LENGTH = 1_000
SHORTEST, LONGEST = 250, 2_000
FROM_LENGTH = 2 * LENGTH
_FORM_IDS = frozenset(map(id, (list, dict, set, tuple)))


def is_long(value: object) -> bool:
    """Whether a container is cut into segments."""
    return id(type(value)) in _FORM_IDS and len(value) >= FROM_LENGTH  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class Segment(msgspec.Struct):
    """One segment: its items while they are needed for walking, its dump, and a digest of its plain stream."""

    items: Any
    dump: Dump
    digest: bytes
    mark: bytes = b""  # covers the content and which objects the items are
    held: set[int] | None = None  # what something outside the segment holds too; None: not walked


class Segments(msgspec.Struct):
    """All segments of one container. `starts` are the ids of the items that begin one."""

    value: Any
    segments: list[Segment]
    starts: frozenset[int]
    reach: aliases.Reach = msgspec.field(default_factory=aliases.Reach)

    @property
    def marks(self) -> frozenset[bytes]:
        return frozenset(segment.mark for segment in self.segments)

    @property
    def unwalked(self) -> bool:
        return any(segment.held is None for segment in self.segments)

    def walk_rest(self, anchors: Collection[int] = ()) -> bool:
        """Look for objects shared between any two segments; False when there are some that are no anchors."""
        return all(self._walk(segment, anchors) for segment in self.segments if segment.held is None)

    def walk_new(self, known: Collection[bytes], anchors: Collection[int]) -> bool:
        """Walk the segments that were not seen before, and all of them if one holds what someone else holds too."""
        fresh = [segment for segment in self.segments if segment.mark not in known]
        if not all(self._walk(segment, anchors) for segment in fresh):
            return False
        unexplained = len(self.reach.ids) > 1 and any(held not in anchors for held in self.reach.ids - {id(self.value)})
        return not unexplained or self.walk_rest(anchors)

    def _walk(self, segment: Segment, anchors: Collection[int]) -> bool:
        segment.held = aliases.held_below(segment.items, segment.dump)
        shared = self.reach.ids & segment.held
        self.reach.ids |= segment.held
        return all(item in anchors for item in shared)

    def let_go(self) -> None:
        """Drop the copies of items: they would count as holders the next time, and keep rows alive."""
        for segment in self.segments:
            segment.items = None
            segment.held = segment.held or set()
        self.value = None


def dump_segments(
    value: Any,
    names: LiveNames,
    namespace: dict[str, object],
    starts: frozenset[int] = frozenset(),
    known: frozenset[bytes] = frozenset(),
    anchors: Collection[int] = (),
) -> Segments | None:
    """Pickle a long container in segments, or say (None) that it has to be pickled whole.

    Args:
        starts: where segments began the last time.
        known: marks of the segments of the last time. Only others are walked for shared objects at once.
        anchors: ids of objects that may stand in several segments, because they will be stored beside them.
    """
    if not is_long(value):
        return None
    ids = list(map(id, value))
    cuts = _cuts(ids, starts)
    made = Segments(value, [], frozenset(ids[start] for start, _ in cuts))
    below = list(map(id, value.values())) if type(value) is dict else ids
    made.reach.ids.add(id(value))
    made.reach.complete = False
    for items, (start, end) in zip(_slices(value, cuts), cuts, strict=True):
        try:
            dump = pickle_items(items, names, namespace)
        except FOREIGN:  # something needs care, which only a whole dump takes
            return None
        if dump.memory:
            return None
        digest = xxh3_128_digest(dump.streams[0])
        mark = xxh3_128_digest(digest + array("Q", below[start:end]).tobytes())
        made.segments.append(Segment(items, dump, digest, mark))
    return made if made.walk_new(known, anchors) else None


def _cuts(ids: list[int], starts: frozenset[int]) -> list[tuple[int, int]]:
    """Where segments begin and end: at the items that began one before, else every `LENGTH` items."""
    total = len(ids)
    marks = [position for position, item in enumerate(ids) if item in starts] if starts else []
    bounds = [0]
    for mark in [*marks, total]:
        while mark - bounds[-1] > LONGEST:
            bounds.append(bounds[-1] + LENGTH)
        if mark - bounds[-1] >= SHORTEST:
            bounds.append(mark)
    if bounds[-1] != total:
        if len(bounds) > 1 and total - bounds[-1] < SHORTEST:
            bounds.pop()
        bounds.append(total)
    return list(pairwise(bounds))


def _slices(value: Any, cuts: list[tuple[int, int]]) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        yield from (value[start:end] for start, end in cuts)
        return
    items = iter(value.items() if isinstance(value, dict) else value)
    for start, end in cuts:
        some = islice(items, end - start)
        yield dict(some) if isinstance(value, dict) else list(some)


class _Anchored(Pickler):
    """Writes a number in the place of an object that is stored elsewhere in the group."""

    anchors: Mapping[int, int]

    def persistent_id(self, obj: Any, /) -> int | None:
        return self.anchors.get(id(obj))


def pickle_items(
    items: Any, names: LiveNames, namespace: dict[str, object], anchors: Mapping[int, int] | None = None
) -> Dump:
    """Pickle the items of one segment; `anchors` gives the numbers of objects stored elsewhere, by id.

    Asking for each object whether it is an anchor doubles the time, so only segments that hold one are pickled so.
    """
    sink = io.BytesIO()
    dump = Dump()
    pickler = Pickler(sink, dump, names, namespace)
    if anchors is not None:
        pickler = _Anchored(sink, dump, names, namespace)
        pickler.anchors = anchors
    pickler.dump(items)
    dump.kept = pickler.kept
    dump.streams.append(sink.getvalue())
    return dump


def joined(segments: list[Segment]) -> tuple[Dump, list[int]]:
    """One record of all that the segments' dumps noted, and how many buffers each has."""
    whole = Dump()
    for part in (segment.dump for segment in segments):
        whole.foreign += [len(whole.buffers) + position for position in part.foreign]
        whole.streams += part.streams
        whole.buffers += part.buffers
        whole.steps += part.steps
        whole.globals_used |= part.globals_used
        whole.classes.update(part.classes)
        whole.definitions.update(part.definitions)
        whole.losses.update(part.losses)
        whole.live.update(part.live)
        whole.class_level |= part.class_level
        whole.instances += part.instances
        whole.opaque += part.opaque
        whole.roots += part.roots
    return whole, [len(segment.dump.buffers) for segment in segments]
