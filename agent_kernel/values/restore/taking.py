"""Let an object that lives take the content of one that was loaded: arrays, tables, and databases in memory.

Whether it can is found out while everything is still as it was; to take cannot fail then. An array keeps its memory, for
others may look at it, so dtype, shape and order have to be the same.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from agent_kernel.values.aliases import BYTE_OWNERS, owner_of
from agent_kernel.values.introspection import bases_of, module_name
from agent_kernel.values.restore.context import Later


class Take(Later):
    """What was loaded, and how another object takes it. It lives until all is in place: memory is known by address."""

    made: Any
    take: Callable[[Any, Any], object]

    def give(self, made: Any) -> None:
        self.take(made, self.made)


def content_for(live: object, made: object) -> Later | None:
    """What lets the one that lives be what was loaded; None if it cannot."""
    if type(live) is not type(made):
        return None
    ways = _ways_of(type(live))
    return Take(made, ways[1]) if ways is not None and ways[0](live, made) else None


def can_take_whole(kind: type) -> bool:
    """Whether objects of this type take what is loaded from another one."""
    return _ways_of(kind) is not None


def _ways_of(kind: type) -> tuple[Callable[[Any, Any], bool], Callable[[Any, Any], object]] | None:
    for base in bases_of(kind):
        name = f"{module_name(base).partition('.')[0]}.{base.__name__}"
        found = _WAYS.get(name)
        if found is not None and (base is kind or name in _OF_SUBCLASSES):
            return found
    return None


def fits_array(live: Any, made: Any) -> bool:
    """Whether an array has the form of another one, and is a view of the same memory if that is a view."""
    same_form = live.dtype == made.dtype and live.shape == made.shape and live.strides == made.strides
    if not same_form or live.dtype.metadata is not None or made.dtype.metadata is not None:
        return False
    if made.base is not None and live.ctypes.data != made.ctypes.data:
        return False
    return can_be_written(live) or (made.base is not None and live.flags.writeable == made.flags.writeable)


def can_be_written(live: Any) -> bool:
    """Whether an array's memory is the interpreter's own. No rollback writes to a mapped file or to shared memory."""
    import numpy as np

    owner = owner_of(live)
    own = owner.flags.owndata if isinstance(owner, np.ndarray) else type(owner) in BYTE_OWNERS
    return bool(own and (live.flags.writeable or live.flags.owndata))


def _take_array(live: Any, made: Any) -> None:
    import numpy as np

    if live.ctypes.data != made.ctypes.data:
        live.flags.writeable = True
        np.copyto(live, made)
    live.flags.writeable = made.flags.writeable


def _fits_numbers(live: Any, made: Any) -> bool:
    """Of the standard library's arrays: one whose memory somebody looks at keeps its length."""
    if live.typecode != made.typecode:
        return False
    if len(live) != len(made):
        with contextlib.suppress(BufferError):
            live.append(0)
            live.pop()
            return True
        return False
    return True


def _take_numbers(live: Any, made: Any) -> None:
    live[:] = made


def _always(_: Any, __: Any) -> bool:
    return True


def _take_attributes(live: Any, made: Any) -> None:
    """Of what is nothing but its attributes."""
    attributes = object.__getattribute__(live, "__dict__")
    attributes.clear()
    attributes.update(object.__getattribute__(made, "__dict__"))


def _take_index(live: Any, made: Any) -> None:
    _take_attributes(live, made)
    known = vars(live).get("_references")
    if known is not None:
        known.add_index_reference(live)


def _same_bits(live: Any, made: Any) -> bool:
    return live.bit_generator is made.bit_generator


def _fits_database(live: Any, _: Any) -> bool:
    """Whether nothing reads or writes just now: to put back what is there changes nothing."""
    import sqlite3

    try:
        with contextlib.closing(sqlite3.connect(":memory:")) as aside:
            _copy_database(live, aside)
            _copy_database(aside, live)
    except sqlite3.Error:
        return False
    return True


def _copy_database(source: Any, target: Any) -> None:
    """As `backup`, which waits for ever where a transaction is open that this very thread would have to end."""
    import sqlite3

    def stop_where_locked(status: int, *_: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise sqlite3.OperationalError("the database is in a transaction")

    source.backup(target, progress=stop_where_locked)


def _take_database(live: Any, made: Any) -> None:
    _copy_database(made, live)
    for name in ("isolation_level", "row_factory", "text_factory", "autocommit"):
        if hasattr(made, name) and getattr(live, name) is not getattr(made, name):
            setattr(live, name, getattr(made, name))


def _nothing(_: Any, __: Any) -> None:
    """It is what it was."""


# By package and name: whether an object fits, and how it takes the content of another one.
_WAYS: dict[str, tuple[Callable[[Any, Any], bool], Callable[[Any, Any], object]]] = {
    "numpy.ndarray": (fits_array, _take_array),
    "numpy.Generator": (_same_bits, _nothing),
    "array.array": (_fits_numbers, _take_numbers),
    "pandas.Index": (_always, _take_index),
    "polars.DataFrame": (_always, _take_attributes),
    "polars.Series": (_always, _take_attributes),
    "sqlite3.Connection": (_fits_database, _take_database),
}
_OF_SUBCLASSES = frozenset({"pandas.Index"})
