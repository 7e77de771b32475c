"""Arrays and long containers whose items cannot change: compared by where the items lie, saved without a walk.

An atom is an object of an immutable builtin type, exactly: a subclass may carry state. While the old items are alive,
the same addresses are the same items, so a shallow copy of an array (8 bytes an item) proves in a millisecond that it
is unchanged. Such a copy is kept only where the death of the array or set can be watched, and goes with it: an array that
a cell drops is freed at once. Of lists, dicts and arrays that cannot be watched only a digest of the content is kept.

To save an array, its distinct objects are pickled once, in order of first appearance, with the codes that say which
stands where. So objects that stand in it several times come back as one. Source: Arrow's dictionary encoding.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# numpy says little of arrays whose dtype is known at run time only.

from __future__ import annotations

import copyreg
import datetime
import decimal
import io
import pickle
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain, compress, count, islice, repeat
from operator import attrgetter, is_, itemgetter, ne
from types import NotImplementedType, SimpleNamespace
from typing import Any

import msgspec
from xxhash import xxh3_128, xxh3_128_digest

from agent_kernel.values.introspection import (
    addresses,
    ids_of,
    ids_of_types,
    of_types,
    set_table_and_items,
    untrack,
    visit_set_table,
)
from agent_kernel.values.references import known_nan_ids, may_hold_nan

LONG = 10_000  # items, from which it pays
_DEEPEST = 4  # tuples in tuples
_LOOKS = 8
_FEW_BYTES = 4_096
# The pickler writes these by itself, whatever is registered for them.
_SCALARS = (str, bytes, int, float, bool, type(None))
_REDUCED = (complex, decimal.Decimal, datetime.date, datetime.timedelta)
_REDUCERS: dict[type, object] = {complex: copyreg.dispatch_table.get(complex)}
# By id: hashing a type runs its metaclass.
_SCALAR_IDS = frozenset(map(id, _SCALARS))
_CONTAINER_IDS = frozenset(map(id, (list, tuple, dict, set)))
_TUPLE_ID = frozenset((id(tuple),))
_WRITTEN_IDS = _SCALAR_IDS | _TUPLE_ID
_TIMED_IDS = frozenset(map(id, (datetime.datetime, datetime.time)))
_ZONE_IDS = frozenset(map(id, (type(None), datetime.timezone)))
_zone_of = attrgetter("tzinfo")

# Gives, of many atoms of one type that a reducer saves, numbers and texts that say the same.
Reader = Callable[[list[Any]], list[Any]]
_NO_MORE: Mapping[int, Reader] = {}


def only_atoms(items: Sequence[object]) -> bool:
    """Whether all items are atoms, or tuples of atoms."""
    return _kinds_of(items) is not None


def _kinds_of(items: Sequence[Any], more: Mapping[int, Reader] = _NO_MORE) -> set[int] | None:
    """The ids of the items' types, if all are atoms, or tuples of atoms, or of the types with more ids."""
    found: set[int] = set()
    for _ in range(_DEEPEST):
        if not _may_be_atoms(items, more):
            return None
        kinds = ids_of_types(items)
        found |= kinds
        if not (kinds <= _WRITTEN_IDS or kinds <= _atom_ids() | _TUPLE_ID | more.keys()):
            return None
        if not _know_their_zones(items, kinds):
            return None
        if id(tuple) not in kinds:
            return found
        items = list(chain.from_iterable(items if len(kinds) == 1 else of_types(items, _TUPLE_ID)))
    return None


def _may_be_atoms(items: Iterable[object], more: Mapping[int, Reader] = _NO_MORE) -> bool:
    """Whether the first items are atoms or tuples: where one is not, that shows mostly there."""
    kinds = {id(type(item)) for item in islice(items, _LOOKS)}
    return kinds <= _WRITTEN_IDS or kinds <= _atom_ids() | _TUPLE_ID | more.keys()


def _know_their_zones(items: Sequence[Any], kinds: AbstractSet[int]) -> bool:
    """Whether no time among these has a time zone that a person's class may have made."""
    timed = kinds & _TIMED_IDS
    zones = list(map(_zone_of, of_types(items, timed))) if timed else []
    return ids_of_types(zones) <= _ZONE_IDS


def _atom_ids() -> frozenset[int]:
    """The types of atoms at this moment: one with a reducer of the user's own is saved by that."""
    kinds = [kind for kind in _REDUCED if copyreg.dispatch_table.get(kind) is _REDUCERS.get(kind)]
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None:
        kinds += [
            type(lone) for lone in (getattr(pandas, "NA", None), getattr(pandas, "NaT", None)) if lone is not None
        ]
    return _SCALAR_IDS.union(ids_of(kinds))


# -- arrays


class Fact(msgspec.Struct):
    """What is known of a buffer without its bytes, or with them where they are few. Whoever hashes it fills in the rest."""

    size: int
    few: bytes | None = None
    cuts: Sequence[int] | None = None
    digests: Sequence[bytes] = ()


class Encoded:
    """An array as the codes and the distinct atoms that it consists of, encoded when somebody asks for the bytes."""

    def __init__(
        self,
        items: Any,
        are_plain: bool,
        facts: tuple[Fact, ...] = (),
        parts: tuple[bytes, bytes] | None = None,
        nans: tuple[tuple[int, float], ...] = (),
    ) -> None:
        self.items = items
        self.are_plain = are_plain
        self.nans = nans  # those of which it counts which they are, by their place among the distinct atoms
        self._parts = parts
        self.facts = facts or tuple(Fact(len(part), part if len(part) <= _FEW_BYTES else None) for part in self.parts())

    def parts(self) -> tuple[bytes, bytes]:
        if self._parts is None:
            codes, distinct = _distinct(self.items)
            self._parts = codes, _pickle_atoms(distinct, self.are_plain)
        return self._parts


class Part(msgspec.Struct, frozen=True):
    """One of the two buffers of an encoded array: its bytes are made when they are needed."""

    whole: Encoded
    position: int

    @property
    def fact(self) -> Fact:
        return self.whole.facts[self.position]

    @property
    def nbytes(self) -> int:
        return self.fact.size

    def raw(self) -> memoryview:
        few = self.fact.few
        return memoryview(self.whole.parts()[self.position] if few is None else few)


class _LastDump(msgspec.Struct):
    """What a watched array or set held when it was dumped last."""

    watch: weakref.ref[Any]
    items: Any
    are_plain: bool = False
    facts: tuple[Fact, ...] = ()
    nans: tuple[tuple[int, float], ...] = ()
    digest: bytes = b""
    table: bytes = b""  # a digest of the table that a set kept the items in


_last_dumps: dict[int, _LastDump] = {}


def encode_array(array: Any, order: str, *, watched: bool) -> Encoded | None:
    """The array in codes and atoms; None if it holds anything but atoms.

    Args:
        watched: remember the items until the array dies. numpy refuses to resize an array that is watched, so not for one
            that a person may hold.
    """
    flat = array.reshape(-1, order=order)
    last = _last_dumps.get(id(array))
    if last is not None and last.watch() is array and last.facts and _same_items(flat, last.items):
        return Encoded(last.items, last.are_plain, last.facts, nans=last.nans)
    _last_dumps.pop(id(array), None)
    items = flat.copy()  # from here on other threads may do with the array what they like
    if not _may_be_atoms(items.flat):
        return None
    codes, distinct = _distinct(items)
    kinds = _kinds_of(distinct)
    if kinds is None:
        return None
    are_plain = kinds <= _SCALAR_IDS
    pickled = _pickle_atoms(distinct, are_plain)
    made = Encoded(items, are_plain, parts=(codes, pickled), nans=_nans_among(distinct, pickled))
    if watched:
        _keep(array, items, are_plain=made.are_plain, facts=made.facts, nans=made.nans)
    return made


def _nans_among(distinct: Sequence[object], pickled: bytes) -> tuple[tuple[int, float], ...]:
    """The NaNs among distinct atoms, and where: all of them where they are few, else those that everybody knows.

    Of very many each was made by itself, as when numbers become objects.
    """
    if not may_hold_nan(pickled):
        return ()
    kinds = list(map(is_, map(type, distinct), repeat(float)))
    floats: list[Any] = list(compress(distinct, kinds))
    are_nan = list(map(ne, floats, floats))
    places, nans = list(compress(compress(count(), kinds), are_nan)), list(compress(floats, are_nan))
    if len(nans) > _FEW_NANS:
        known = list(map(known_nan_ids().__contains__, ids_of(nans)))
        places, nans = list(compress(places, known)), list(compress(nans, known))
    return tuple(zip(places, nans, strict=True))


_FEW_NANS = 16


def _keep(value: Any, items: Any, **known: Any) -> None:
    key = id(value)

    def drop(watch: weakref.ref[Any]) -> None:
        if key in _last_dumps and _last_dumps[key].watch is watch:
            del _last_dumps[key]
            _guesses.discard(key)

    _last_dumps[key] = _LastDump(weakref.ref(value, drop), items, **known)


def _same_items(flat: Any, items: Any) -> bool:
    import numpy as np

    return flat.size == items.size and bool(np.array_equal(_pointers(flat), _pointers(items)))


class _Pointers:
    """The memory of an array of objects as numbers: numpy gives no such view itself."""

    def __init__(self, flat: Any) -> None:
        import numpy as np

        number = np.dtype(np.uintp).str
        self.flat = flat
        made = flat.__array_interface__
        self.__array_interface__ = {**made, "typestr": number, "descr": [("", number)], "data": (made["data"][0], True)}


def _pointers(flat: Any) -> Any:
    import numpy as np

    return np.asarray(_Pointers(flat))


def _distinct(items: Any) -> tuple[bytes, list[object]]:
    """The codes (none where all objects are distinct), and the distinct objects in order of appearance.

    Addresses are others in each process, and equal columns are to have equal bytes.
    """
    import numpy as np

    places = _pointers(items)
    codes = _codes_of_few(places)
    if codes is None:
        _, first, codes = np.unique(places, return_index=True, return_inverse=True)
        codes = codes.reshape(-1)
    else:
        first = _first_places(codes)
    if len(first) == items.size:
        return b"", items.tolist()
    from agent_kernel.values.restore.arrays import code_type

    order = np.argsort(first)
    rank = np.empty(len(order), code_type(len(order)))
    rank[order] = np.arange(len(order), dtype=rank.dtype)
    return rank[codes].tobytes(), items[first[order]].tolist()


_SAMPLE, _FEW, _STEP = 4_096, 256, 1 << 20


def _codes_of_few(places: Any) -> Any:
    """A number for each of the addresses, where few of them differ: then there is nothing to sort. None: too many do.

    A column of categories is mostly so. Those that a sample lacks are added; with more than a few of them it is left.
    """
    import numpy as np

    known = np.unique(places[:: max(1, places.size // _SAMPLE)])
    if not 0 < len(known) <= _FEW:
        return None
    numbers = np.arange(len(known))  # an address keeps its number when others come
    codes = np.empty(places.size, np.intp)
    for start in range(0, places.size, _STEP):
        part = places[start : start + _STEP]
        found = np.minimum(np.searchsorted(known, part), len(known) - 1)
        missing = known[found] != part
        if missing.any():
            new = np.unique(part[missing])
            if len(known) + len(new) > 2 * _FEW:
                return None
            where = np.searchsorted(known, new)
            known = np.insert(known, where, new)
            numbers = np.insert(numbers, where, np.arange(len(numbers), len(numbers) + len(new)))
            found = np.searchsorted(known, part)
        codes[start : start + _STEP] = numbers[found]
    return codes


def _first_places(codes: Any) -> Any:
    """Where each of the numbers 0 … n stands first."""
    import numpy as np

    first = np.empty(int(codes.max()) + 1, np.intp)
    for start in range((codes.size - 1) // _STEP * _STEP, -1, -_STEP):
        part = codes[start : start + _STEP]
        first[part[::-1]] = np.arange(start + part.size - 1, start - 1, -1)  # the last one that is set stays
    return first


def _pickle_atoms(items: list[object], are_plain: bool) -> bytes:
    # Tuples have parts that they may share; what is reduced names its type each time. All others need no memo.
    return dump_alone(items) if are_plain else pickle.dumps(items, 5)


# -- lists, tuples, dicts and sets


def is_long(value: Any) -> bool:
    """Whether this is a container, or an array of objects, of so many items that a digest pays."""
    if id(type(value)) in _CONTAINER_IDS:
        return len(value) >= LONG
    numpy: Any = sys.modules.get("numpy")
    is_array = numpy is not None and type(value) is getattr(numpy, "ndarray", None)
    return bool(is_array and value.dtype == object and value.size >= LONG)


def digest_of(value: Any) -> bytes:
    """Covers the content of a long container of atoms, or array of them, and which objects its items are; else empty.

    Equal digests say that nothing changed. It takes a few nanoseconds an item and runs nobody's code.
    """
    if not is_long(value):
        return b""
    if type(value) is set:
        return _digest_of_set(value)
    if id(type(value)) in _CONTAINER_IDS:
        return _digest(value)
    shape = repr((value.shape, value.strides, value.flags.writeable, value.flags.c_contiguous)).encode()
    return _digest(value.reshape(-1).tolist(), shape)


def _digest(container: Any, prefix: bytes = b"") -> bytes:
    whole = xxh3_128()
    parts = (container, container.values()) if type(container) is dict else (container,)
    try:
        try:
            _pickle_alone(container, SimpleNamespace(write=whole.update))
        except _NotScalarError:
            whole = xxh3_128()
            for part in parts:
                _read(list(part), _readers(), whole.update)
        places = list(map(addresses, parts))
    except (_NotScalarError, RuntimeError, ValueError, AttributeError):  # not atoms alone, or another thread is at it
        return b""
    for part in (prefix, *places):
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.digest()


def content_digest(container: Any) -> bytes:
    """Covers what a container holds, and containers in it, of nothing but numbers and texts; empty where there is more."""
    whole = xxh3_128()
    try:
        _pickle_alone(container, SimpleNamespace(write=whole.update))
    except (_NotScalarError, RuntimeError, ValueError):  # also one that holds itself
        return b""
    return whole.digest()


def holds_atoms(value: Any) -> bool:
    """Whether a container or an array of objects holds nothing but atoms."""
    if id(type(value)) == id(set) and _digest_of_set(value):
        return True
    if id(type(value)) not in _CONTAINER_IDS:
        return only_atoms(value.reshape(-1).tolist())
    return id(value) in _sure or kinds_within(value) is not None


def kinds_within(container: Any) -> set[int] | None:
    """The ids of the types of what a container holds, if all are atoms, or tuples of atoms."""
    found: set[int] = set()
    for part in (container, container.values()) if type(container) is dict else (container,):
        kinds = _kinds_of(tuple(part), _readers()) if _may_be_atoms(part, _readers()) else None
        if kinds is None:
            return None
        found |= kinds
    return found


class _NotScalarError(Exception):
    """Something has to be reduced, which may run other people's code."""


class _Alone(pickle.Pickler):
    """Without a memo, and for what the pickler writes by itself alone."""

    def reducer_override(self, _: Any, /) -> NotImplementedType:
        raise _NotScalarError


def are_written(kinds: AbstractSet[int]) -> bool:
    """Whether the pickler writes atoms of these types by itself."""
    return kinds <= _WRITTEN_IDS


def dump_of(items: Any, kinds: AbstractSet[int], *, is_set: bool) -> bytes | None:
    """Write a container of atoms of these types; None where a reducer has to be asked, or it counts which NaN one is.

    Args:
        is_set: the items are those of a set. Where none of them has parts, each stands for itself, and pickle need not remember any.
    """
    if is_set and kinds <= _UNIQUE_IDS:
        return dump_alone(items)
    if not are_written(kinds):
        return None
    stream = pickle.dumps(items, 5)
    return None if may_hold_nan(stream) else stream


def dump_alone(items: Any) -> bytes:
    """Write texts and numbers, and remember none of them on the way."""
    sink = io.BytesIO()
    _pickle_alone(items, sink)
    return sink.getvalue()


def _pickle_alone(items: Any, sink: Any) -> None:
    pickler = _Alone(sink, 5)
    pickler.fast = True
    pickler.dump(items)


# -- atoms that a reducer saves: to call it takes as long as to pickle them, so what they hold is read for all of a type at once


def _read(items: list[Any], readers: Mapping[int, Reader], update: Callable[[bytes], object], depth: int = 0) -> None:
    """Digest which types items have, and what they hold.

    Raises:
        _NotScalarError: not all are atoms.
    """
    kinds = ids_of_types(items)
    update(b"%d" % len(items) + (addresses(map(type, items)) if len(kinds) > 1 else b""))
    for kind in sorted(kinds):
        some = items if len(kinds) == 1 else of_types(items, {kind})
        if kind == id(tuple) and depth < _DEEPEST:
            _pickle_alone(list(map(len, some)), SimpleNamespace(write=update))
            _read(list(chain.from_iterable(some)), readers, update, depth + 1)
        elif kind in readers:
            update(b"%d" % kind)
            _pickle_alone(readers[kind](some), SimpleNamespace(write=update))
        else:
            _pickle_alone(some, SimpleNamespace(write=update))


def is_read(kind: type) -> bool:
    """Whether this is a type of atoms that a reducer saves, of which a digest of the content can be taken."""
    return id(kind) in _readers()


def read(items: list[Any]) -> bytes:
    """A digest of the content of atoms of one such type; empty where it cannot be told."""
    whole = xxh3_128()
    try:
        _read(items, _readers(), whole.update)
    except (_NotScalarError, RuntimeError, ValueError, AttributeError):
        return b""
    return whole.digest()


def _readers() -> Mapping[int, Reader]:
    """By the id of the type, what reads atoms of it; not those with a reducer of the user's own."""
    modules = sys.modules.get("numpy"), sys.modules.get("uuid")
    if _known.modules != modules:
        _known.modules, _known.readers = modules, _make_readers(*modules)
    # The types are only told by their ids: to look one up runs its metaclass.
    own = {id(kind) for kind, reduce in copyreg.dispatch_table.copy().items() if reduce is not _OURS.get(id(kind))}
    if own.isdisjoint(_known.readers):
        return _known.readers
    return {kind: reader for kind, reader in _known.readers.items() if kind not in own}


_OURS = {id(complex): copyreg.dispatch_table.get(complex)}


class _Known:
    modules: tuple[Any, Any] = (None, None)
    readers: Mapping[int, Reader] = _NO_MORE


_known = _Known()


def _make_readers(numpy: Any, uuid: Any) -> Mapping[int, Reader]:
    found: dict[int, Reader] = {
        id(complex): _attributes_of("real", "imag"),
        id(decimal.Decimal): lambda items: list(map(str, items)),
        id(datetime.date): _attributes_of("year", "month", "day"),
        id(datetime.timedelta): _attributes_of("days", "seconds", "microseconds"),
        id(datetime.datetime): _read_times,
        id(datetime.time): _read_times,
    }
    if uuid is not None:
        found[id(uuid.UUID)] = partial(_read_ids, uuid.UUID)
    for name in _NUMBERS if numpy is not None else ():
        kind = getattr(numpy, name)
        found[id(kind)] = partial(_read_numbers, numpy, kind)
    return found


# Of numpy's the plain ones: each is as many bytes as its type says.
_NUMBERS = ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
            "float16", "float32", "float64", "complex64", "complex128")  # fmt: skip


def _read_ids(kind: Any, items: list[Any]) -> list[Any]:
    return [*map(kind.int.__get__, items), addresses(map(kind.is_safe.__get__, items))]


def _read_numbers(numpy: Any, kind: Any, items: list[Any]) -> list[Any]:
    return [numpy.array(items, kind).tobytes()]


def _attributes_of(*names: str) -> Reader:
    read = attrgetter(*names)
    return lambda items: list(map(read, items))


def _read_times(items: list[Any]) -> list[Any]:
    """What they are reduced to, and their zones, which are few."""
    reduce: Any = type(items[0]).__reduce_ex__
    states = map(itemgetter(1), map(reduce, items, repeat(4)))
    zones = list(map(_zone_of, items))
    distinct = dict(zip(ids_of(zones), zones, strict=True))
    if not ids_of_types(list(distinct.values())) <= _ZONE_IDS:
        raise _NotScalarError
    return [*map(itemgetter(0), states), addresses(zones), *map(repr, distinct.values())]


# -- what is a guess until it is dumped
#
# Whether all items are atoms is asked of each part of a long container right before that is pickled: to go to millions of
# items once more takes as long as to pickle them. Until then a look at some of them is enough to try.

_sure: set[int] = set()  # ids of containers, of which that was found out as they were dumped, while a group is dumped


def may_hold_atoms(value: Any) -> bool:
    """Whether a long container or array seems to hold nothing but atoms."""
    kind = id(type(value))
    if kind == id(set):
        return bool(_guess_digest(value))
    if kind not in _CONTAINER_IDS:
        return holds_atoms(value)
    if id(value) in _sure:
        return True
    parts = (value, value.values()) if type(value) is dict else (value,)
    return all(_kinds_of(tuple(some_of(part, _TRIED)), _readers()) is not None for part in parts)


_TRIED = 200


def some_of(items: Any, most: int) -> list[Any]:
    """A few items from all over a list or tuple, or from both ends of a dict or of its values, where no other can be gone to at once."""
    if type(items) is list or type(items) is tuple:
        return list(items[:: max(1, len(items) // most)])
    return [*islice(items, most // 2), *islice(reversed(items), most // 2)]


def make_sure(value: Any) -> None:
    """All items were found to be atoms as they were dumped."""
    if id(type(value)) == id(set):
        _settle(id(value))
    else:
        _sure.add(id(value))


# -- sets
#
# The items of a set lie anywhere in memory, so going to each is dear: they are kept until it dies, and only compared.


def _digest_of_set(value: set[object]) -> bytes:
    digest = _guess_digest(value)
    return digest if digest and _is_sure(value) else b""


def _guess_digest(value: set[object]) -> bytes:
    """The digest of a set that seems to hold atoms alone; of no use before that is sure."""
    last = _last_dumps.get(id(value))
    if last is not None and last.watch() is not value:
        last = None
    if last is not None and last.table and _mark_of(value) == last.table:
        return last.digest
    table, items = set_table_and_items(value)
    mark = xxh3_128_digest(table) if table else b""
    if last is not None and addresses(last.items) == addresses(items):
        last.table = mark  # it grew and shrank again
        return last.digest
    forget_guess(value)
    if not _may_be_atoms(items):
        return b""
    # The items are kept, so no other can come to lie where one of them is: a number that is given once stands for them.
    digest = b"set %d" % next(_turns)
    _keep(value, items, digest=digest, table=mark)
    _guesses.add(id(value))
    return digest


_turns = count(1)
_guesses: set[int] = set()  # ids of sets of whose items it is not known yet that all are atoms
# Of equal ones a set holds but one. Of NaNs it may hold several, and a tuple may hold what another one holds, too.
_UNIQUE_IDS = frozenset(map(id, (str, bytes, int, bool, type(None))))


def guess_digest(value: Any) -> bytes:
    """As `digest_of`; of no use before `holds_atoms` says yes."""
    return _guess_digest(value) if id(type(value)) == id(set) and is_long(value) else digest_of(value)


def kept_items(value: Any) -> tuple[object, ...] | None:
    """The items that are kept of a set, as of when it was looked at last; None of anything else."""
    last = _last_dumps.get(id(value)) if id(type(value)) == id(set) else None
    return last.items if last is not None and last.watch() is value else None


def forget_guess(value: Any) -> None:
    """Keep nothing of a set."""
    _last_dumps.pop(id(value), None)
    _guesses.discard(id(value))


def forget_guesses() -> None:
    """Keep no items of which nobody made sure: they may be objects that are to die. What is sure is so for one dump."""
    _sure.clear()
    while _guesses:
        _last_dumps.pop(_guesses.pop(), None)


def hold_atoms(ids: Iterable[int]) -> bool:
    """Whether the sets with these ids, of which items are kept, hold nothing but atoms."""
    return all(_is_sure_of(item, _last_dumps.get(item)) for item in ids)


def _is_sure(value: set[object]) -> bool:
    return _is_sure_of(id(value), _last_dumps.get(id(value)))


def _is_sure_of(item: int, last: _LastDump | None) -> bool:
    if last is None or item not in _guesses:
        return last is not None
    kinds = _kinds_of(last.items)
    if kinds is None or not are_written(kinds):
        _last_dumps.pop(item, None)
    _settle(item)
    return item in _last_dumps


def _settle(item: int) -> None:
    last = _last_dumps.get(item)
    if item in _guesses and last is not None:
        untrack(last.items)
    _guesses.discard(item)


def _mark_of(value: set[object]) -> bytes:
    """Covers the table of a set; empty where that cannot be read."""
    whole = xxh3_128()
    return whole.digest() if visit_set_table(value, whole.update) else b""
