"""Where many objects lie, at once: what `id` says of each of them, in a third of the time.

CPython keeps the addresses of a tuple's items side by side behind its header, and those of a dict's keys and values in
one table. Copied out as bytes they can be compared in one step, where a list of ids makes a number of each first. A
namespace is looked at twice in every cell, so this is most of what ten thousand names cost that stayed as they were.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat, tee
from operator import add, attrgetter, itemgetter, mul, sub
from typing import Any, TypeVar, cast

T = TypeVar("T")

ADDRESS_BYTES = tuple.__itemsize__
ROW_BYTES = 2 * ADDRESS_BYTES
_HEADER = tuple.__basicsize__
_value = attrgetter("value")
# Not `ctypes.string_at`: it tells audit hooks, and where one is written in Python, as that of agents is, threads take turns there.
_copy_memory = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
_MANY = 32  # objects, from which it pays
# One number, text or None: by id, for hashing a type runs its metaclass.
ATOM_IDS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))


def addresses(values: Iterable[object]) -> bytes:
    """The addresses of the objects, one after the other. An address is used again when its object is gone."""
    items = tuple(values)
    found: bytes = _copy_memory(id(items) + _HEADER, len(items) * ADDRESS_BYTES)
    return found


def ids_of(values: Iterable[object]) -> Iterable[int]:
    """What `id` says of each object, for one loop. Unlike many calls of `id`, it costs nothing more once a step has run.

    Each call is an event for the audit hooks of the process, of which agents have one: that takes five times as long.
    """
    items = tuple(values)
    if len(items) < _MANY:
        return map(id, items)
    return memoryview(_copy_memory(id(items) + _HEADER, len(items) * ADDRESS_BYTES)).cast("P")


def ids_in(found: bytes) -> memoryview[int]:
    """The addresses as numbers: each object's `id`."""
    return memoryview(found).cast("P")


def is_among(item: int, found: bytes) -> bool:
    """Whether an id is one of these addresses. To make a number of each of a million takes a hundred times as long."""
    sought = item.to_bytes(ADDRESS_BYTES, sys.byteorder)
    place = found.find(sought)
    while place >= 0 and place % ADDRESS_BYTES:  # the end of one and the beginning of the next may look like it
        place = found.find(sought, place + 1)
    return place >= 0


class Rows:
    """Reads the addresses of each name of a namespace and of its value, in order. A row of zeros: a name was deleted there."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self.namespace = namespace
        self._look: Iterator[tuple[bytes, bytes, int | None]] | None = None

    def read(self) -> bytes:
        """The rows as of one moment."""
        if type(self.namespace) is dict and _knows_tables():
            found = self._table()
            if found is not None:
                return found
        return addresses(chain.from_iterable(list(self.namespace.items())))

    def _table(self) -> bytes | None:
        """The rows in their table; None where they are kept in another form."""
        look, self._look = self._look or _tables_of(self.namespace), None
        rows, header, separate = _at_once(look)
        self._look = look  # unless it was left half way, for want of memory
        return None if separate or header[_KIND] != _OF_TEXTS else rows


# Where CPython, 3.11 to 3.14, keeps the table of a dict, and what of it: the header of the keys is followed by an index
# and then by the rows.
_KEYS_AT, _VALUES_AT, _DICT_BYTES, _OBJECT_BYTES = 32, 40, 48, 16
_KEYS_BYTES, _INDEX_SIZE, _KIND, _COUNT = 32, 9, 10, 24
_OF_TEXTS = 1  # the kind of a table with nothing but texts as keys

_index_size: Callable[[bytes], int] = itemgetter(_INDEX_SIZE)
_count: Callable[[bytes], bytes] = itemgetter(slice(_COUNT, _KEYS_BYTES))
_number_in: Callable[[bytes, str], int] = cast("Callable[[bytes, str], int]", int.from_bytes)


def _tables_of(own: dict[str, object]) -> Iterator[tuple[bytes, bytes, int | None]]:
    """The table of a dict, the header before it, and where its values are if that is elsewhere: each as it is now.

    Not of a copy, which no thread could alter: to copy ten thousand names goes to each of them, wherever it lies.
    """
    places, places_again = tee(_numbers_at(id(own) + _KEYS_AT))
    headers, for_counts, for_sizes = tee(_memory_at(places, repeat(_KEYS_BYTES)), 3)
    starts = map(add, places_again, map(_BEHIND_INDEX.__getitem__, map(_index_size, for_sizes)))
    counts: Iterator[int] = map(_number_in, map(_count, for_counts), repeat(sys.byteorder))
    rows = _memory_at(starts, map(mul, counts, repeat(ROW_BYTES)))
    return zip(rows, headers, _numbers_at(id(own) + _VALUES_AT), strict=False)


def _memory_at(places: Iterable[int], sizes: Iterable[int]) -> Iterator[bytes]:
    return map(_copy_memory, places, sizes)


# By the binary logarithm of the index's size: where the rows begin.
_BEHIND_INDEX = [_KEYS_BYTES + (1 << size) for size in range(64)]


def _numbers_at(place: int) -> Iterator[Any]:
    """What stands at an address now, again and again; None for zero."""
    return map(_value, repeat(ctypes.c_void_p.from_address(place)))


def _at_once(look: Iterator[T]) -> T:
    """The first of what iterators in C give. Nothing else runs meanwhile that could move what they look at.

    That is: no bytecode, between which threads take turns, and no collection of garbage.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return next(look)
    finally:
        if collects:
            gc.enable()


@functools.cache
def _knows_tables() -> bool:
    """Whether this Python keeps dicts as we know it: tried on some, after what would make the trial itself dangerous."""
    same = (dict.__basicsize__, object.__basicsize__, ADDRESS_BYTES) == (_DICT_BYTES, _OBJECT_BYTES, 8)
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 14) or not same:
        return False
    for size in (1, 5, 300):
        some: dict[str, object] = {f"name {number}": [number] for number in range(size)}
        tables = _tables_of(some)
        if next(tables)[0] != addresses(chain.from_iterable(list(some.items()))):
            return False
        del some["name 0"]
        if next(tables)[0] != bytes(ROW_BYTES) + addresses(chain.from_iterable(list(some.items()))):
            return False
    return True


def visit_set_table(own: set[object], visit: Callable[[bytes], object]) -> bool:
    """Give a function in C the table in which a set keeps its items, piece by piece; False where this Python is not known.

    To read the items takes five times as long: that goes to each of them, wherever it lies, to count one more reference.
    A copy of a whole table takes twice as long: it is in no cache of the processor when it is read.
    """
    if not _knows_sets():
        return False
    masks: ctypes.c_ssize_t = ctypes.c_ssize_t.from_address(id(own) + _MASK_AT)
    pieces = range(0, (masks.value + 1) * ROW_BYTES, _PIECE_BYTES)
    # Where the table is, and how long, is looked up for each piece right before it is copied: should `visit` let threads
    # take turns, a table that was moved meanwhile is read where it is now, and one that shrank no further than it goes.
    now = map(mul, map(add, map(_value, repeat(masks)), repeat(1)), repeat(ROW_BYTES))
    sizes = map(max, repeat(0), map(min, repeat(_PIECE_BYTES), map(sub, now, pieces)))
    places = map(add, _numbers_at(id(own) + _ROWS_AT), pieces)
    visited: list[Iterator[object]] = [map(visit, _memory_at(places, sizes))]
    _at_once(map(deque[object], visited, repeat(0)))
    return True


_PIECE_BYTES = 1 << 16  # it stays in the processor's cache until it is visited


def set_table_and_items(own: set[object]) -> tuple[bytes, tuple[object, ...]]:
    """The table, or nothing where this Python is not known, and the items, as of one moment."""
    return _table_of_set(own, map(tuple, repeat(own))) if _knows_sets() else (b"", tuple(own))


# Where CPython, 3.11 to 3.14, keeps the number of rows of a set's table less one, and its address.
_MASK_AT, _ROWS_AT, _SET_BYTES = 32, 40, 200
_DELETED = (1 << 64) - 1  # the hash in the row of an item that was deleted


def _table_of_set(own: set[object], others: Iterator[T]) -> tuple[bytes, T]:
    """The table, and what comes from an iterator."""
    masks: Iterator[int] = map(_value, repeat(ctypes.c_ssize_t.from_address(id(own) + _MASK_AT)))
    sizes = map(mul, map(add, masks, repeat(1)), repeat(ROW_BYTES))
    tables = _memory_at(_numbers_at(id(own) + _ROWS_AT), sizes)
    return _at_once(zip(tables, others, strict=False))


@functools.cache
def _knows_sets() -> bool:
    """Whether this Python keeps sets as we know it: tried on some, after what would make the trial itself dangerous."""
    same = (set.__basicsize__, object.__basicsize__, ADDRESS_BYTES) == (_SET_BYTES, _OBJECT_BYTES, 8)
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 14) or not same:
        return False
    for size in (1, 5, 300, 5_000):
        some: set[object] = {f"item {number}" for number in range(size)}
        some.discard("item 3")
        table, items = _table_of_set(some, map(tuple, repeat(some)))
        rows = ids_in(table)
        entries = [
            (place, mark) for place, mark in zip(rows[::2], rows[1::2], strict=True) if place and mark != _DELETED
        ]
        if entries != [(id(item), hash(item) % (_DELETED + 1)) for item in items]:
            return False
    return True


class Versions:
    """Tells whether classes are as they were: CPython gives each a number, and another one once the class has changed.

    The number stands in the class itself. To read what a class holds takes a hundred times as long.
    """

    def __init__(self, kinds: Iterable[type] = ()) -> None:
        self.kinds = tuple(kinds)
        self._tags: list[Any] = []
        if _knows_versions():
            self._tags = [ctypes.c_uint.from_address(id(kind) + _VERSION_AT) for kind in self.kinds]
            for kind in self.kinds:
                _have_numbered(kind)
        self._seen = self._read()

    def _read(self) -> list[int]:
        return list(map(_value, self._tags))

    def are_same(self) -> bool:
        """Whether no class has changed since this was made. False where nothing tells."""
        return bool(self._seen) and 0 not in self._seen and self._seen == self._read()

    def take_changed(self) -> list[type]:
        """Return the classes that have changed, and compare with them as they are now from here on. All where nothing tells."""
        now = self._read()
        if not now:
            return list(self.kinds)
        changed = [place for place, tag in enumerate(now) if not tag or tag != self._seen[place]]
        for place in changed:
            _have_numbered(self.kinds[place])
            self._seen[place] = self._tags[place].value  # before anyone looks: what changes meanwhile has changed again
        return [self.kinds[place] for place in changed]


_VERSION_AT = 384  # where CPython, 3.11 to 3.14, keeps the number of a class; 0 is none


def _have_numbered(kind: type) -> None:
    """Look for an attribute: a class gets its number with the first such look."""
    with contextlib.suppress(AttributeError):
        type.__getattribute__(kind, "_no attribute of any class_")


@functools.cache
def _knows_versions() -> bool:
    """Whether this Python numbers its classes as we know it: tried on one and on its base."""
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 14) or ADDRESS_BYTES != 8:
        return False
    base = type("Base", (), {})
    kind = type("Derived", (base,), {})
    seen = [0]
    for changed, value in ((kind, 1), (kind, 2), (base, 3)):
        type.__setattr__(changed, "some", value)
        for one in (base, kind):
            _have_numbered(one)
        seen.append(ctypes.c_uint.from_address(id(kind) + _VERSION_AT).value)
    return len(set(seen)) == len(seen)


def differences(before: bytes, now: bytes) -> list[int]:
    """Places at which two long rows of addresses differ. Most do at a few, so they are compared a stretch at a time."""
    found: list[int] = []
    for start in _find_differences(before, now, range(0, max(len(before), len(now)), _LONG_STRETCH)):
        for begin in _find_differences(before, now, range(start, start + _LONG_STRETCH, _STRETCH)):
            old, new = before[begin : begin + _STRETCH], now[begin : begin + _STRETCH]
            bits = int.from_bytes(old, "little") ^ int.from_bytes(new, "little")
            place = begin // ADDRESS_BYTES
            while bits:
                skipped = ((bits & -bits).bit_length() - 1) // _ADDRESS_BITS
                found.append(place + skipped)
                bits >>= (skipped + 1) * _ADDRESS_BITS
                place += skipped + 1
    return found


def _find_differences(before: bytes, now: bytes, starts: range) -> list[int]:
    """Where the stretches that differ begin."""
    size = starts.step
    return [start for start in starts if before[start : start + size] != now[start : start + size]]


_STRETCH, _LONG_STRETCH = 128 * ADDRESS_BYTES, 4096 * ADDRESS_BYTES
_ADDRESS_BITS = 8 * ADDRESS_BYTES
