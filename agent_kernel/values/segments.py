"""Cut a long list, tuple, set or dict into segments, each pickled with a memo of its own.

Most of the time of pickling a large container goes into one huge memo. Segments of about a thousand items take a third
of it, and a changed row changes one of them. Cuts stay where they were (`cutting`), so deleting the first row does not
move all the others.

An object held by two segments would come back twice, so a container with more references than its segment explains is
looked for in the others; when it is there too, the value is pickled whole. Objects that other variables hold (the last
row, after a loop) are `anchors`: segments refer to them by number, and they are pickled once, beside those variables.

A very long container that lies within a value (the items of a JSON document, a list that two names hold) is cut like
one that stands alone: a number stands for it in the stream of the value.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import collections
import contextlib
import gc
import io
import threading
import types
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from itertools import islice, pairwise
from typing import Any

import msgspec
from xxhash import xxh3_128_digest

from agent_kernel.values import aliases, atoms, reducers
from agent_kernel.values.aliases import Dump, LiveNames
from agent_kernel.values.introspection import (
    ADDRESS_BYTES,
    addresses,
    ids_in,
    ids_of,
    is_made_in_python,
    module_name,
    referents,
)
from agent_kernel.values.pickler import FOREIGN, Pickler, write_with_nans
from agent_kernel.values.references import NanMarker, list_nans

# -- where a long container is cut, so that the cuts stay where they were
#
# A segment starts at the item that started one before, by identity. Items may be the same object many times over, as
# small numbers are, so what stands at an equal distance from either end counts first, and in between only an item that
# is there once. Of a container in which nothing moved the cuts are the same, which makes its bytes the same.

LENGTH = 1_000
SHORTEST, LONGEST = 250, 2_000


class Cuts(msgspec.Struct, frozen=True):
    """Where the segments of a container of this `length` begin, and the ids of the items there."""

    length: int
    starts: tuple[int, ...]
    ids: tuple[int, ...]

    @property
    def spans(self) -> list[tuple[int, int]]:
        return list(pairwise((*self.starts, self.length)))


NOWHERE = Cuts(0, (), ())


def cut(ids: Sequence[int], before: Cuts, scale: int = 1) -> Cuts:
    """Cut a container with items of these ids: where it was cut before, else every `LENGTH` items, times the scale."""
    marks = _marks(ids, before)
    # Also where other objects stand at the cuts: an equal list made anew has the bytes of the one before.
    stayed = before.length == len(ids) and set(marks) <= set(before.starts)
    starts = before.starts if stayed else _split_at_marks(marks, len(ids), scale)
    return Cuts(len(ids), starts, tuple(ids[start] for start in starts))


def _marks(ids: Sequence[int], before: Cuts) -> list[int]:
    """Where the items are, in ascending order, at which segments began."""
    moved = len(ids) - before.length
    head = _equal_ones(ids, before, range(len(before.ids)), 0)
    low = head[-1] if head else -1
    last = [at for at in reversed(range(len(head), len(before.ids))) if before.starts[at] + moved > low]
    tail = _equal_ones(ids, before, last, moved)[::-1]
    high = tail[0] if tail else len(ids)
    wanted = set(before.ids[len(head) : len(before.ids) - len(tail)])
    if not wanted:
        return head + tail
    between = [at for at, item in enumerate(ids[low + 1 : high], low + 1) if item in wanted]
    times = Counter(map(ids.__getitem__, between))
    return [*head, *(at for at in between if times[ids[at]] == 1), *tail]


def _equal_ones(ids: Sequence[int], before: Cuts, some: range | list[int], moved: int) -> list[int]:
    """Where the starts are, `moved` by so much, as far as they follow one another with the same items."""
    found: list[int] = []
    for at in some:
        place = before.starts[at] + moved
        if place >= len(ids) or ids[place] != before.ids[at]:
            break
        found.append(place)
    return found


def _split_at_marks(marks: list[int], total: int, scale: int) -> tuple[int, ...]:
    """Starts of segments of bounded lengths: at the marks where that is possible."""
    bounds = [0]
    for mark in [*marks, total]:
        while mark - bounds[-1] > LONGEST * scale:
            bounds.append(bounds[-1] + LENGTH * scale)
        if mark - bounds[-1] >= SHORTEST * scale:
            bounds.append(mark)
    if bounds[-1] == total or (len(bounds) > 1 and total - bounds[-1] < SHORTEST * scale):
        bounds.pop()
    return tuple(bounds)


# What is handled here is anyone's object, so its type has no parameters to know.


FROM_LENGTH = 2 * LENGTH
FROM_LENGTH_WITHIN = 10_000
_FORM_IDS = frozenset(map(id, (list, dict, set, tuple)))
_MOST_LOOKED_AT = 2_000  # objects in which long containers are looked for


def is_long(value: object) -> bool:
    """Whether a container is cut into segments."""
    return id(type(value)) in _FORM_IDS and len(value) >= FROM_LENGTH  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def find_long(values: Iterable[object]) -> list[Any]:
    """The very long containers that lie within the values, each once; none in what holds too much besides.

    Looks through builtin containers, attributes and defaults of functions, and at no more than a few thousand objects.
    """
    found: dict[int, Any] = {}
    waiting: list[Any] = list(values)
    seen = set(ids_of(waiting))
    shut: set[int] = set()  # ids of types of which no object leads on: there may be a thousand of one
    remaining = _MOST_LOOKED_AT
    while waiting:
        value = waiting.pop()
        if id(type(value)) in shut:
            continue
        if id(type(value)) in _FORM_IDS and len(value) >= FROM_LENGTH_WITHIN:
            found[id(value)] = value
            continue
        below = _below(value)
        if below is _NOTHING:
            shut.add(id(type(value)))
            continue
        remaining -= len(below)
        if remaining < 0:
            return []
        waiting += [item for item in below if id(item) not in seen]
        seen.update(ids_of(below))
    return list(found.values())


def _below(value: Any) -> Collection[Any]:
    """What a value holds; `_NOTHING` if no object of its type leads on."""
    kind = id(type(value))
    below: Collection[Any] = _NOTHING
    if kind == id(types.FunctionType):
        below = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif kind == id(types.BuiltinMethodType):  # `words.get` leads on, and `len` does not
        below = [value.__self__] if id(type(value.__self__)) in _FORM_IDS else []
    elif kind in _FORM_IDS:
        below = value.values() if kind == id(dict) else value
    elif type(value).__dictoffset__ and reducers.is_plain(type(value)):
        with contextlib.suppress(AttributeError):  # a future of asyncio's keeps its attributes to itself
            below = object.__getattribute__(value, "__dict__").values()
    return below


_NOTHING: Collection[Any] = []  # told from any other by identity


class Segment(msgspec.Struct):
    """One segment: its items while they are needed for walking, its dump, and a digest of its plain stream."""

    items: Any
    dump: Dump
    digest: bytes
    mark: bytes = b""  # covers the content, and which objects the items are and lead to
    shared_ids: set[int] | None = None  # what something outside the segment holds too; None: not walked
    met: bytes | None = None  # the addresses of what was pickled; None: not noted
    is_of_atoms: bool = False


# A long container, where it was cut, and its segments: none where it cannot be cut.
Parts = tuple[Any, Cuts, list[Segment]]


class Segments(msgspec.Struct):
    """All segments of some containers, one container after the other, and where they begin in each.

    `shares`: two of them hold the same object, an anchor. `apart` are the ids of what is stored beside them.
    """

    values: list[Any]
    segments: list[Segment]
    cuts: list[Cuts]
    reach: aliases.Reach = msgspec.field(default_factory=aliases.Reach)
    shares: bool = False
    apart: AbstractSet[int] = frozenset()

    @property
    def marks(self) -> frozenset[bytes]:
        """By which segments are known the next time: none where they share, for alone the value is pickled whole."""
        return frozenset() if self.shares else frozenset(segment.mark for segment in self.segments)

    @property
    def are_of_atoms(self) -> bool:
        return all(segment.is_of_atoms for segment in self.segments)

    @property
    def unwalked(self) -> bool:
        return any(segment.shared_ids is None for segment in self.segments)

    def walk_rest(self, anchors: Collection[int] = ()) -> bool:
        """Look for objects shared between any two segments; False when there are some that are no anchors."""
        return all(self._walk(segment, anchors) for segment in self.segments if segment.shared_ids is None)

    def walk_around(self, anchors: set[int]) -> bool:
        """Look for objects in those segments that hold an anchor; False when any two share one that is not an anchor."""
        waiting = (segment for segment in self.segments if segment.shared_ids is None)
        holding = (part for part in waiting if part.met is None or not anchors.isdisjoint(ids_in(part.met)))
        return all(self._walk(segment, anchors) for segment in holding)

    def walk_new(self, known: Collection[bytes], anchors: Collection[int]) -> bool:
        """Walk the segments that were not seen before, and all of them if one holds what someone else holds too.

        What is there twice was seen once: the same rows may stand in two containers, or in two places of one.
        """
        times = Counter(segment.mark for segment in self.segments)
        fresh = [segment for segment in self.segments if segment.mark not in known or times[segment.mark] > 1]
        if not all(self._walk(segment, anchors) for segment in fresh):
            return False
        unexplained = len(self.reach.ids) > len(self.values) and any(
            held not in anchors for held in self.reach.ids.difference(ids_of(self.values))
        )
        return not unexplained or self.walk_rest(anchors)

    def _walk(self, segment: Segment, anchors: Collection[int]) -> bool:
        segment.shared_ids = aliases.find_shared_below(segment.items, segment.dump, self.apart)
        shared = self.reach.ids & segment.shared_ids
        self.reach.ids |= segment.shared_ids
        self.shares = self.shares or bool(shared)
        return all(item in anchors for item in shared)

    def let_go(self) -> None:
        """Drop the copies of items: they would count as holders the next time, and keep rows alive."""
        for segment in self.segments:
            segment.items = segment.met = None
            segment.shared_ids = segment.shared_ids or set()
        self.values = []


def dump_segments(
    values: Sequence[Any],
    names: LiveNames,
    namespace: dict[str, object],
    before: Sequence[Cuts],
    known: frozenset[bytes] = frozenset(),
    anchors: Collection[int] = (),
    of_atoms: Collection[int] = (),
    dumped: dict[int, Parts] | None = None,
    *,
    apart: AbstractSet[int] = frozenset(),
    notes_met: bool = False,
    only_atoms: bool = False,
) -> Segments | None:
    """Pickle long containers in segments, or say (None) that they have to be pickled whole.

    Args:
        before: where segments began the last time, of each container.
        known: marks of the segments of the last time. Only others are walked for shared objects at once.
        anchors: ids of objects that may stand in several segments, because they will be stored beside them.
        of_atoms: ids of containers whose items cannot change, so nobody sees whether two segments share some; by a guess.
        dumped: by id what was dumped of containers before in this commit, and what is dumped now.
        apart: ids of what is stored beside the segments. What it shares with a segment is stored beside them as well.
        notes_met: note for each segment what was pickled.
        only_atoms: give up where the guess was wrong.
    """
    made = Segments(list(values), [], [], apart=apart)
    made.reach.ids.update(ids_of(values))
    made.reach.complete = False
    for value, starts in zip(values, before, strict=True):
        found = dumped.get(id(value)) if dumped is not None else None
        if found is None:
            seems_of_atoms = id(value) in of_atoms
            options = {"seems_of_atoms": seems_of_atoms, "only_atoms": only_atoms, "notes_met": notes_met}
            try:
                found = _dump_parts(value, starts, names, namespace, anchors, **options)
            except _LeadsAcrossError:
                return None  # not for good: beside other objects these may be anchors
            if dumped is not None and not (found is None and only_atoms):
                dumped[id(value)] = found or (value, NOWHERE, [])
        if found is None or not found[2]:
            return None
        if all(part.is_of_atoms for part in found[2]):
            atoms.make_sure(value)
        made.cuts.append(found[1])
        # Copies: which object each refers to by number depends on what they are dumped beside.
        made.segments += found[2] if dumped is None else map(copy, found[2])
    of_atoms = {id(value) for value in values if id(value) in of_atoms and atoms.holds_atoms(value)}
    if of_atoms and _share_nans(made.segments):  # of other atoms nobody sees whether two segments share some
        return None
    return made if len(of_atoms) == len(values) or made.walk_new(known, anchors) else None


def _share_nans(parts: Sequence[Segment]) -> bool:
    """Whether two segments hold the same NaN that no module holds."""
    found = [set(ids_of(list_nans(part.dump.opaque))) for part in parts if part.dump.opaque]
    return len(set[int]().union(*found)) < sum(map(len, found))


def _dump_parts(
    value: Any,
    before: Cuts,
    names: LiveNames,
    namespace: dict[str, object],
    anchors: Collection[int],
    *,
    seems_of_atoms: bool,
    only_atoms: bool,
    notes_met: bool,
) -> Parts | None:
    """Cut a container and pickle each part; None where that cannot be done part by part.

    Raises:
        _LeadsAcrossError: an item leads to an item of another part that is not an anchor.
    """
    found = _dump_atoms(value, before, names, namespace) if seems_of_atoms else None
    if found is not None or only_atoms:
        return found
    places = addresses(value)
    cuts = cut(ids_in(places), before)
    places = addresses(value.values()) if type(value) is dict else places
    parts = _dump_each(value, cuts, places, names, namespace, anchors, notes_met=notes_met)
    return None if parts is None else (value, cuts, parts)


class _LeadsAcrossError(Exception):
    """An item leads to an item of another segment, which would hold it too."""


def _dump_each(
    value: Any,
    cuts: Cuts,
    places: bytes,
    names: LiveNames,
    namespace: dict[str, object],
    anchors: Collection[int],
    *,
    notes_met: bool,
) -> list[Segment] | None:
    """Args: places: the addresses of the items, or of the values of a dict."""
    found: list[Segment] = []
    shortest = instances = 0
    distinct = set[int]()
    item_ids: set[int] | None = None
    if _seem_to_lead_across(value, cuts):
        return None
    expects_marks = False  # of NaNs: where one segment has some, the next one has
    for items, (start, end) in zip(_slices(value, cuts), cuts.spans, strict=True):
        dump = Dump()
        try:
            with _in_place(items) as placed:
                pickler = pickle_items(placed, names, namespace, dump=dump, expects_marks=expects_marks)
                objects = pickler.sum_met(placed, is_in_place=placed is not items)
            expects_marks = pickler.marker is not None and pickler.marker.is_needed
        except FOREIGN:  # something needs care, which only a whole dump takes
            return None
        if dump.memory:
            return None
        # An item may lead back to the whole container: then each segment would hold all of it.
        size = len(dump.streams[0])
        if not shortest or not shortest <= size <= shortest * _ALIKE:
            if id(value) in pickler.memo_ids():
                return None
            shortest = min(shortest or size, size)
        instances += len(dump.instances)
        distinct.update(ids_of(dump.instances))
        if instances > 2 * len(distinct):  # items lead to each other, and each segment would hold many of them
            return None
        if dump.instances:
            item_ids = _ids_of_items(value) if item_ids is None else item_ids
            others = item_ids.intersection(ids_of(dump.instances)) - _ids_of_items(items)
            if any(other not in anchors for other in others):
                raise _LeadsAcrossError
        digest = xxh3_128_digest(dump.streams[0])
        mark = xxh3_128_digest(digest + places[start * ADDRESS_BYTES : end * ADDRESS_BYTES] + objects)
        met = addresses(gc.get_referents(pickler)) if notes_met else None
        del pickler  # it holds all attribute dicts, which would seem to be shared where the next segment leads to them
        found.append(Segment(items, dump, digest, mark, met=met))
    return found


@contextlib.contextmanager
def _in_place(items: Any) -> Generator[Any]:
    """The same items in a list or dict that is always the same one: so what a pickler holds lies as it did the last time.

    Those of a tuple are given as they are; so are all while another thread, or code that a dump runs, dumps something, too.
    """
    placed: Any = _placed.get(id(type(items)))
    if placed is None or not _placing.acquire(blocking=False):
        yield items
        return
    try:
        (placed.extend if type(items) is list else placed.update)(items)
        yield placed
    finally:
        placed.clear()
        _placing.release()


_placed: dict[int, Any] = {id(list): [], id(dict): {}}
_placing = threading.Lock()


def _ids_of_items(items: Any) -> set[int]:
    return {*ids_of(items), *ids_of(items.values())} if isinstance(items, dict) else set(ids_of(items))


_SAMPLE, _DEPTH = 10, 4  # items at either end of a segment that are looked at before any is pickled, and how far


def _seem_to_lead_across(value: Any, cuts: Cuts) -> bool:
    """Whether a look at a few items says that an item of another segment would be pickled with them.

    The first segment of a tree's nodes may lead to the whole tree: this finds out without pickling it. The look follows only
    objects that are saved by their attributes, and the builtin containers in them.
    """
    parts = _slices(value, cuts)
    first = next(parts)
    reached = _reach_from(first)
    if not reached:
        return False  # no such objects: to list the ids of all items would take as long as to pickle plain rows
    item_ids = _ids_of_items(value)
    rest = collections.deque(parts, maxlen=1)
    looks = [(first, reached), *((items, _reach_from(items)) for items in rest)]
    return any(not (reached & item_ids) <= _ids_of_items(items) for items, reached in looks)


def _reach_from(items: Any) -> set[int]:
    """The ids of the objects with attributes that the items at either end lead to."""
    sides = [list(items), *([list(items.values())] if isinstance(items, dict) else [])]
    level = [item for side in sides for item in (*side[:_SAMPLE], *side[-_SAMPLE:])]
    found: set[int] = set()
    for _ in range(_DEPTH):
        level = [item for item in level if id(type(item)) in _FORM_IDS or _is_saved_by_attributes(type(item))]
        level = referents(level)[:_MOST_LOOKED_AT]
        found.update(id(item) for item in level if _is_saved_by_attributes(type(item)))
    return found


def _is_saved_by_attributes(kind: type) -> bool:
    return is_made_in_python(kind) and module_name(kind) == "__main__" and reducers.saves_attributes(kind)


_MANY_ATOMS = 500_000  # from which each piece that is stored takes longer than the numbers and texts in it


def _dump_atoms(value: Any, before: Cuts, names: LiveNames, namespace: dict[str, object]) -> Parts | None:
    """Pickle the parts of a container of atoms: only of few types something has to be noted. None where it holds anything else."""
    kept = atoms.kept_items(value)
    below = addresses(value if kept is None else kept)
    cuts = cut(ids_in(below), before, 1 + len(below) // ADDRESS_BYTES // _MANY_ATOMS)
    if type(value) is dict:
        below = addresses(value.values())
    found: list[Segment] = []
    expects_marks = False
    parts = _slices(value, cuts) if kept is None else (list(kept[start:end]) for start, end in cuts.spans)
    for items, (start, end) in zip(parts, cuts.spans, strict=True):
        kinds = atoms.kinds_within(items)
        if kinds is None or (kept is not None and not atoms.are_written(kinds)):
            return None
        stream = atoms.dump_of(items, kinds, is_set=kept is not None)
        dump = Dump() if stream is None else Dump(streams=[stream])
        if stream is None:
            try:
                pickler = pickle_items(items, names, namespace, dump=dump, expects_marks=expects_marks)
            except FOREIGN:  # something needs care, which only a whole dump takes
                return None
            expects_marks = pickler.marker is not None and pickler.marker.is_needed
        digest = xxh3_128_digest(dump.streams[0])
        mark = xxh3_128_digest(digest + below[start * ADDRESS_BYTES : end * ADDRESS_BYTES])
        # What is noted of a part, as which NaNs it holds, is looked for in its items.
        found.append(Segment(items if stream is None else None, dump, digest, mark, set(), is_of_atoms=True))
    return value, cuts, found


_ALIKE = 1.5


def _slices(value: Any, cuts: Cuts) -> Iterator[Any]:
    """Copies of the parts, which hold each item once more. A slice that is all of a tuple would be the tuple itself."""
    if type(value) is list:
        yield from (value[start:end] for start, end in cuts.spans)
        return
    items = iter(value.items() if isinstance(value, dict) else value)
    make = type(value) if isinstance(value, (dict, tuple)) else list
    for start, end in cuts.spans:
        yield make(islice(items, end - start))


class Pointing(Pickler):
    """Writes a number in the place of an object that is stored elsewhere in the group; `met` are the numbers, in order."""

    numbers: Mapping[int, int]
    met: list[int]

    def persistent_id(self, obj: Any, /) -> int | str | None:
        number = self.numbers.get(id(obj))
        if number is not None:
            self.met.append(number)
        elif self.marker is not None:
            return self.marker.mark(obj)
        return number

    def mark_nans(self, marker: NanMarker) -> None:
        self.marker = marker


def pickle_items(
    items: Any,
    names: LiveNames,
    namespace: dict[str, object],
    anchors: Mapping[int, int] | None = None,
    *,
    dump: Dump,
    expects_marks: bool = False,
) -> Pickler:
    """Pickle the items of one segment; `anchors` gives the numbers of objects stored elsewhere, by id.

    Asking for each object whether it is an anchor doubles the time, so only segments that hold one are pickled so.
    """
    shared = frozenset(anchors or ())
    pickler = _pickle_items(items, names, namespace, anchors, dump, shared, expects_marks=expects_marks)
    met = pickler.dicts_met()
    if met:
        clear(dump)
        pickler = _pickle_items(items, names, namespace, anchors, dump, shared | met)
    dump.keepalive = pickler.keepalive
    dump.streams.append(pickler.sink.getvalue())
    return pickler


def _pickle_items(
    items: Any,
    names: LiveNames,
    namespace: dict[str, object],
    anchors: Mapping[int, int] | None,
    dump: Dump,
    shared_dicts: frozenset[int],
    *,
    expects_marks: bool = False,
) -> Pickler:
    is_clear = True  # to clear a dump takes as long as to pickle a few hundred texts into it

    def write(marker: NanMarker | None) -> tuple[Pickler, bytes]:
        nonlocal is_clear
        if not is_clear:
            clear(dump)
        is_clear = False
        sink = io.BytesIO()
        pickler = (
            open_pointing(sink, dump, names, namespace, anchors) if anchors else Pickler(sink, dump, names, namespace)
        )
        pickler.shared_dicts = shared_dicts
        if marker is not None:
            pickler.mark_nans(marker)
        pickler.dump(items)
        return pickler, sink.getvalue()

    return write_with_nans(write, namespace, expects_marks=expects_marks)


def clear(dump: Dump) -> None:
    """Forget what was noted, to dump again."""
    fresh = Dump()
    for name in dump.__struct_fields__:
        setattr(dump, name, getattr(fresh, name))


def open_pointing(
    sink: io.BytesIO, dump: Dump, names: LiveNames, namespace: dict[str, object], numbers: Mapping[int, int]
) -> Pointing:
    pickler = Pointing(sink, dump, names, namespace)
    pickler.numbers, pickler.met = numbers, []
    return pickler


def join_dumps(segments: list[Segment]) -> tuple[Dump, list[int]]:
    """Join all that the segments' dumps noted into one record; also return how many buffers each has."""
    whole = Dump()
    for part in (segment.dump for segment in segments):
        whole.foreign += [len(whole.buffers) + position for position in part.foreign]
        whole.streams += part.streams
        whole.buffers += part.buffers
        whole.steps += part.steps
        whole.globals_used |= part.globals_used
        whole.held_ids |= part.held_ids
        whole.holders |= part.holders
        whole.classes.update(part.classes)
        whole.definitions.update(part.definitions)
        whole.save_failures.update(part.save_failures)
        whole.live.update(part.live)
        whole.packages |= part.packages
        whole.class_level |= part.class_level
        whole.instances += part.instances
        whole.opaque += part.opaque
        whole.roots += part.roots
        whole.answers += part.answers
        whole.large_caches += part.large_caches
    return whole, [len(segment.dump.buffers) for segment in segments]
