"""Tell of a table or an array whether code gets at nothing but data from it, and whether all of that is as it was.

A dump follows what is saved of a value. Code follows each reference: from a view to the array that it is a part of, from
an index to what that keeps, from an object to what it does not save. So here every reference is followed that the
interpreter knows of, and anything that is neither data nor a part of a table says that there is more to it. Where there
is not, the libraries run their own code alone, and the digest is what it was, then code that had nothing but this value
changed nothing.
"""

# What is handled here is anyone's object, so its type has no parameters to know.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import datetime
import decimal
import gc
import pickle
import sys
import weakref
from array import array
from collections.abc import Iterable
from types import ModuleType
from typing import Any, cast

from xxhash import xxh3_128

from agent_kernel.values import atoms
from agent_kernel.values.dump import MemoryUse
from agent_kernel.values.library_code import run_only_their_own
from agent_kernel.values.summaries.known import TypeCache
from agent_kernel.values.summaries.reading import class_dict, module_dict, module_name, qualified_name

# Beyond these a look at the whole group is no dearer.
_MOST_OBJECTS = 20_000
_MOST_BYTES = 1 << 26
# By id: hashing a type runs its metaclass.
_ATOM_IDS = frozenset(
    map(id, (int, float, complex, bool, str, bytes, type(None), decimal.Decimal, datetime.date, datetime.timedelta))
)
_FOLLOWED_IDS = frozenset(map(id, (list, tuple, set, frozenset, slice)))
_LEAF_IDS = frozenset(map(id, (range, object, type(...), datetime.timezone)))
_MOMENTS = frozenset({"datetime.datetime", "pandas.Timestamp"})
# Who else looks at a block's memory; how to find a label quickly. Both come and go where a table is only read.
_NOTES = frozenset({"pandas._libs.internals.BlockValuesRefs"})
_ENGINES = ("pandas._libs.index", "pandas._libs.hashtable")
_ARROW = frozenset({"pyarrow.lib.ChunkedArray", "pyarrow.lib.Array", "pyarrow.lib.DataType"})


class _MoreThanDataError(Exception):
    """Something was met that may lead anywhere."""


_names: TypeCache[str] = TypeCache()


def _name_of(kind: type) -> str:
    """Where a library holds the type, by module and name; empty for any other type, whatever it calls itself."""
    found = _names.get(kind)
    if found is None:
        module, name = module_name(kind), qualified_name(kind)
        is_held = module != "__main__" and _held_at(module, name) is kind
        found = _names.keep(kind, f"{module}.{name}" if is_held else "")
    return found


def _held_at(module: str, name: str) -> object:
    """What stands there, without the code of anyone who would answer for it."""
    found: object = sys.modules.get(module)
    for part in name.split("."):
        if isinstance(found, ModuleType):
            found = module_dict(found).get(part)
        else:
            found = class_dict(cast("type", found)).get(part) if issubclass(type(found), type) else None
    return found


def is_table_or_array(value: object) -> bool:
    """Whether the value is of a type that `digest_of` looks into."""
    name = _name_of(type(value))
    return name == "numpy.ndarray" or name.startswith("pandas.")


def digest_of(value: object, uses: Iterable[MemoryUse]) -> bytes:
    """Covers all that code gets at from a table or an array; empty where that is not data alone, or too much to look at.

    Args:
        uses: memory whose content is known to be as it was, if the digest of a dump is.
    """
    if not run_only_their_own():
        return b""
    walk = _Walk({(use.low, use.high) for use in uses if use.space == "cpu" and _is_solid(use)})
    try:
        return walk.digest(value)
    except (_MoreThanDataError, RuntimeError):  # or another thread is at it
        return b""


def _is_solid(use: MemoryUse) -> bool:
    flags: Any = getattr(use.holder, "flags", None)
    return bool(getattr(flags, "forc", False)) and use.holder.nbytes == use.high - use.low  # type: ignore[attr-defined]


class _Walk:
    def __init__(self, known: set[tuple[int, int]]) -> None:
        self._known = known
        self._seen: dict[int, object] = {}  # alive, so that no address is met twice
        self._places = array("Q")
        self._atoms: list[object] = []
        self._hash = xxh3_128()
        self._left = _MOST_BYTES

    def digest(self, value: object) -> bytes:
        waiting: list[Any] = [value]
        while waiting:
            item = waiting.pop()
            if id(type(item)) in _ATOM_IDS:
                self._atoms.append(item)
                continue
            self._places.append(id(item))
            if id(item) in self._seen:
                continue
            self._seen[id(item)] = item
            below = self._below(item)
            if len(self._seen) + len(self._atoms) + len(below) > _MOST_OBJECTS:
                raise _MoreThanDataError
            self._places.append(len(below))
            waiting += below
        self._hash.update(self._places)
        self._hash.update(pickle.dumps(self._atoms, pickle.HIGHEST_PROTOCOL))
        return self._hash.digest()

    def _below(self, item: Any) -> list[Any]:
        kind = type(item)
        if kind is dict:
            return [*item.keys(), *item.values()]
        if id(kind) in _FOLLOWED_IDS:
            return gc.get_referents(item) if kind is slice else list(item)
        if id(kind) in _LEAF_IDS:
            return []
        if kind is weakref.ref:
            return self._referent(item)
        if issubclass(kind, type):
            self._expect(_name_of(item).startswith(("pandas.", "numpy.", "builtins.")))
            return []
        return self._in_library(item, _name_of(kind))

    def _expect(self, known: bool) -> None:
        if not known:
            raise _MoreThanDataError

    def _referent(self, item: weakref.ref[Any]) -> list[Any]:
        self._expect(item.__callback__ is None)
        return [item()]

    def _in_library(self, item: Any, name: str) -> list[Any]:
        if name == "numpy.ndarray":
            return self._below_array(item)
        if name in _MOMENTS:
            return [item.tzinfo]
        if name in _NOTES or name in _ARROW or name == "zoneinfo.ZoneInfo":
            return []
        if name.startswith("pandas."):
            return self._below_part(item)
        numpy: Any = sys.modules.get("numpy")
        self._expect(numpy is not None)
        if isinstance(item, numpy.dtype):
            self._expect(item.metadata is None and (item.fields is None or not item.hasobject))
        else:
            self._expect(name.startswith("numpy.") and isinstance(item, numpy.generic))
            self._expect(not isinstance(item, (numpy.void, numpy.object_)))
        return []

    def _below_part(self, item: Any) -> list[Any]:
        """What a part of a table holds. Its attributes first: from then on the interpreter holds them in one way."""
        kind = type(item)
        own = object.__getattribute__(item, "__dict__") if kind.__dictoffset__ else {}
        below: list[Any] = [held for held in gc.get_referents(item) if held is not own and held is not kind]
        cache = own.get("_cache") if type(own.get("_cache")) is dict else None
        below += (held for pair in own.items() for held in pair if held is not cache)
        if cache is not None:
            below = [held for held in below if held is not cache]
            below += (held for pair in cache.items() if not _is_derived(*pair) for held in pair)
        return below

    def _below_array(self, item: Any) -> list[Any]:
        """The array that this one is a part of, and the objects that it holds."""
        dtype = item.dtype
        self._expect(dtype.metadata is None and (dtype.kind == "O" or not dtype.hasobject))
        place: int = item.__array_interface__["data"][0]
        self._hash.update(repr((item.shape, item.strides, dtype, item.flags.writeable, place)).encode())
        if item.base is not None:
            # Anything else that has memory of its own may let others write to more of it.
            self._expect(_name_of(type(item.base)) == "numpy.ndarray")
        elif dtype.kind != "O":
            self._take_in(item, place)
        return [*self._items(item), *([] if item.base is None else [item.base])]

    def _items(self, item: Any) -> list[Any]:
        if item.dtype.kind != "O":
            return []
        if not atoms.is_long(item):
            return list(item.reshape(-1).tolist())
        digest = atoms.digest_of(item)
        self._expect(bool(digest))
        self._hash.update(digest)
        return []

    def _take_in(self, owner: Any, place: int) -> None:
        """Hash the memory, unless the dump did that."""
        self._expect(owner.flags.owndata and owner.flags.forc)
        if (place, place + owner.nbytes) in self._known:
            return
        self._left -= owner.nbytes
        self._expect(self._left >= 0)
        self._hash.update(owner.reshape(-1, order="A").view("u1"))


def _is_derived(key: object, held: Any) -> bool:
    """Whether an index keeps this because it was worked out from it, and nothing but it can be reached from there."""
    if type(key) is not str:
        return False
    if issubclass(type(held), type):
        return _name_of(held).startswith("pandas.")
    name = _name_of(type(held))
    return id(type(held)) in _ATOM_IDS or name in _NOTES or name == "pandas.StringDtype" or name.startswith(_ENGINES)
