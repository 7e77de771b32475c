"""Cut a long list, tuple, set or dict into segments, each pickled with a memo of its own.

Most of the time of pickling a large container goes into one huge memo. Segments of about a thousand items take a third
of it, and a changed row changes one of them. Cuts stay where they were (`cutting`), so deleting the first row does not
move all the others.

An object held by two segments would come back twice, so a container with more references than its segment explains is
looked for in the others; when it is there too, the value is pickled whole. Objects that other variables hold (the last
row, after a loop) are `anchors`: segments refer to them by number, and they are pickled once, beside those variables.
"""

# What is handled here is anyone's object, so its type has no parameters to know.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
from xxhash import xxh3_128_digest

from agent_kernel.values import aliases
from agent_kernel.values.addresses import ADDRESS_BYTES, addresses, ids_in
from agent_kernel.values.cutting import LENGTH, NOWHERE, Cuts, cut
from agent_kernel.values.dump import Dump, LiveNames
from agent_kernel.values.pickler import FOREIGN, Pickler

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
    """All segments of one container, and where they begin. `shares`: two of them hold the same object, an anchor."""

    value: Any
    segments: list[Segment]
    cuts: Cuts
    reach: aliases.Reach = msgspec.field(default_factory=aliases.Reach)
    shares: bool = False

    @property
    def marks(self) -> frozenset[bytes]:
        """By which segments are known the next time: none where they share, for alone the value is pickled whole."""
        return frozenset() if self.shares else frozenset(segment.mark for segment in self.segments)

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
        self.shares = self.shares or bool(shared)
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
    before: Cuts = NOWHERE,
    known: frozenset[bytes] = frozenset(),
    anchors: Collection[int] = (),
    of_atoms: bool = False,
) -> Segments | None:
    """Pickle a long container in segments, or say (None) that it has to be pickled whole.

    Args:
        before: where segments began the last time.
        known: marks of the segments of the last time. Only others are walked for shared objects at once.
        anchors: ids of objects that may stand in several segments, because they will be stored beside them.
        of_atoms: the items cannot change, so nobody sees whether two segments share some.
    """
    if not is_long(value):
        return None
    places = addresses(value)
    cuts = cut(ids_in(places), before)
    made = Segments(value, [], cuts)
    below = addresses(value.values()) if type(value) is dict else places
    made.reach.ids.add(id(value))
    made.reach.complete = False
    for items, (start, end) in zip(_slices(value, cuts), cuts.spans, strict=True):
        try:
            dump = pickle_items(items, names, namespace)
        except FOREIGN:  # something needs care, which only a whole dump takes
            return None
        if dump.memory:
            return None
        digest = xxh3_128_digest(dump.streams[0])
        mark = xxh3_128_digest(digest + below[start * ADDRESS_BYTES : end * ADDRESS_BYTES])
        made.segments.append(Segment(items, dump, digest, mark, set() if of_atoms else None))
    return made if of_atoms or made.walk_new(known, anchors) else None


def _slices(value: Any, cuts: Cuts) -> Iterator[Any]:
    """Copies of the parts, which hold each item once more. A slice that is all of a tuple would be the tuple itself."""
    if type(value) is list:
        yield from (value[start:end] for start, end in cuts.spans)
        return
    items = iter(value.items() if isinstance(value, dict) else value)
    make = type(value) if isinstance(value, (dict, tuple)) else list
    for start, end in cuts.spans:
        yield make(islice(items, end - start))


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
        whole.held |= part.held
        whole.holders |= part.holders
        whole.classes.update(part.classes)
        whole.definitions.update(part.definitions)
        whole.losses.update(part.losses)
        whole.live.update(part.live)
        whole.packages |= part.packages
        whole.class_level |= part.class_level
        whole.instances += part.instances
        whole.opaque += part.opaque
        whole.roots += part.roots
    return whole, [len(segment.dump.buffers) for segment in segments]
