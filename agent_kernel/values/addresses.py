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
from collections.abc import Iterable, Iterator
from ctypes import string_at
from itertools import chain, repeat, zip_longest
from operator import add, attrgetter, mul
from typing import Any, TypeVar

T = TypeVar("T")

ADDRESS_BYTES = tuple.__itemsize__
ROW_BYTES = 2 * ADDRESS_BYTES
_HEADER = tuple.__basicsize__
_MANY = 32  # objects, from which it pays
_STRETCHES = (64 * 64 * ADDRESS_BYTES, 64 * ADDRESS_BYTES, 8 * ADDRESS_BYTES)


def addresses(values: Iterable[object]) -> bytes:
    """The addresses of the objects, one after the other. An address is used again when its object is gone."""
    items = tuple(values)
    return string_at(id(items) + _HEADER, len(items) * ADDRESS_BYTES)


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


def rows_of(namespace: dict[str, object]) -> bytes:
    """The addresses of each name and of its value, in order, as of one moment. A row of zeros: a name was deleted there."""
    if type(namespace) is dict and _knows_tables():
        found = _table(namespace.copy())  # nobody else has the copy: no thread can alter it while it is read
        if found is not None:
            return found
    return addresses(chain.from_iterable(list(namespace.items())))


# Where CPython, 3.11 to 3.14, keeps the table of a dict, and what of it: the header of the keys is followed by an index
# and then by the rows.
_KEYS_AT, _VALUES_AT, _DICT_BYTES, _OBJECT_BYTES = 32, 40, 48, 16
_KEYS_BYTES, _INDEX_SIZE, _KIND, _COUNT = 32, 9, 10, 24
_OF_TEXTS = 1  # the kind of a table with nothing but texts as keys


def _table(own: dict[str, object]) -> bytes | None:
    """The rows of a dict; None where they are kept in another form."""
    if _number(id(own) + _VALUES_AT):
        return None
    keys = _number(id(own) + _KEYS_AT)
    header = string_at(keys, _KEYS_BYTES)
    if header[_KIND] != _OF_TEXTS:
        return None
    count = int.from_bytes(header[_COUNT:], sys.byteorder)
    return string_at(keys + _KEYS_BYTES + (1 << header[_INDEX_SIZE]), count * ROW_BYTES)


def _number(place: int) -> int:
    return int.from_bytes(string_at(place, ADDRESS_BYTES), sys.byteorder)


@functools.cache
def _knows_tables() -> bool:
    """Whether this Python keeps dicts as we know it: tried on some, after what would make the trial itself dangerous."""
    same = (dict.__basicsize__, object.__basicsize__, ADDRESS_BYTES) == (_DICT_BYTES, _OBJECT_BYTES, 8)
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 14) or not same:
        return False
    for size in (1, 5, 300):
        some: dict[str, object] = {f"name {number}": [number] for number in range(size)}
        if _table(some) != addresses(chain.from_iterable(list(some.items()))):
            return False
        del some["name 0"]
        if _table(some) != bytes(ROW_BYTES) + addresses(chain.from_iterable(list(some.items()))):
            return False
    return True


def set_table(own: set[object]) -> bytes | None:
    """The table in which a set keeps its items; None where this Python is not known.

    To read the items takes five times as long: that goes to each of them, wherever it lies, to count one more reference.
    """
    return _table_of_set(own, repeat(None))[0] if _knows_sets() else None


def set_table_and_items(own: set[object]) -> tuple[bytes, tuple[object, ...]]:
    """The table, or nothing where this Python is not known, and the items, as of one moment."""
    return _table_of_set(own, map(tuple, repeat(own))) if _knows_sets() else (b"", tuple(own))


# Where CPython, 3.11 to 3.14, keeps the number of rows of a set's table less one, and its address.
_MASK_AT, _ROWS_AT, _SET_BYTES = 32, 40, 200
_DELETED = (1 << 64) - 1  # the hash in the row of an item that was deleted
_value = attrgetter("value")
_copy_memory: Any = ctypes._string_at  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def _table_of_set(own: set[object], beside: Iterator[T]) -> tuple[bytes, T]:
    """The table, and what comes from an iterator."""
    # Iterators in C from the first look to the last, and no collection of garbage: nothing else runs in between, which
    # could have the table move.
    masks: Iterator[int] = map(_value, repeat(ctypes.c_ssize_t.from_address(id(own) + _MASK_AT)))
    sizes = map(mul, map(add, masks, repeat(1)), repeat(ROW_BYTES))
    places: Iterator[int] = map(_value, repeat(ctypes.c_void_p.from_address(id(own) + _ROWS_AT)))
    tables: Iterator[bytes] = map(_copy_memory, places, sizes)
    look = zip(tables, beside, strict=False)
    collects = gc.isenabled()
    gc.disable()
    try:
        return next(look)
    finally:
        if collects:
            gc.enable()


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
        held = [(place, mark) for place, mark in zip(rows[::2], rows[1::2], strict=True) if place and mark != _DELETED]
        if held != [(id(item), hash(item) % (_DELETED + 1)) for item in items]:
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
    for start, end in _unlike(before, now, 0, max(len(before), len(now)), *_STRETCHES):
        pairs = enumerate(zip_longest(ids_in(before[start:end]), ids_in(now[start:end])), start // ADDRESS_BYTES)
        found += [place for place, (a, b) in pairs if a != b]
    return found


def _unlike(before: bytes, now: bytes, start: int, end: int, size: int, *smaller: int) -> Iterator[tuple[int, int]]:
    for place in range(start, end, size):
        behind = min(place + size, end)
        if before[place:behind] != now[place:behind]:
            if smaller:
                yield from _unlike(before, now, place, behind, *smaller)
            else:
                yield place, behind
