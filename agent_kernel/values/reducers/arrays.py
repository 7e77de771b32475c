"""numpy: buffers out of band, views as views, shared memory once."""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# numpy says little of arrays whose dtype is known at run time only.

from __future__ import annotations

import copyreg
import ctypes
import functools
import gc
import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from sys import getrefcount
from typing import TYPE_CHECKING, Any
from weakref import getweakrefcount

import numpy as np

from agent_kernel.values.aliases import BYTE_OWNERS, OPEN, MemoryUse, Span, find_cluster, owner_of
from agent_kernel.values.atoms import LONG, Part, encode_array
from agent_kernel.values.introspection import ADDRESS_BYTES, copy_memory, ids_in, ids_of
from agent_kernel.values.pickler import reduce
from agent_kernel.values.reducers import HANDLERS, Handler, by_name, is_notebook_type, leaf
from agent_kernel.values.references import NUMPYS_NAN
from agent_kernel.values.restore import arrays as restore
from agent_kernel.values.restore.buffers import exact_bytes
from agent_kernel.values.restore.objects import bare_instance, made_by

if TYPE_CHECKING:
    from agent_kernel.values.aliases import Cluster
    from agent_kernel.values.pickler import Pickler


class OutOfBandBytes:
    """Bytes in what a class gave of itself, which are stored as a buffer and come back as bytes."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw


class BytesOf:
    """Bytes that are those of an array, which is stored anyway."""

    def __init__(self, array: Any) -> None:
        self.array = array


class Built:
    """Stands for an object of its own that is made of what a class gave."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts


HANDLERS.keep(OutOfBandBytes, lambda pickler, aside: (exact_bytes, (pickler.buffer(aside.raw),)))
HANDLERS.keep(BytesOf, lambda _, found: (restore.bytes_of_array, (found.array,)))
HANDLERS.keep(Built, lambda _, built: built.parts)


def handler_for(kind: type) -> Handler | None:
    if issubclass(kind, np.memmap):
        return refuse_map
    if issubclass(kind, np.ma.MaskedArray):
        return reduce_masked
    if issubclass(kind, np.ndarray):
        return reduce_array
    if kind is np.finfo:
        return reduce_limits
    if _is_polynomial(kind):
        return reduce_polynomial
    if is_notebook_type(kind):
        if issubclass(kind, (np.random.Generator, np.random.RandomState)):
            return reduce_own_generator
    elif int(np.__version__.partition(".")[0]) < 2:
        if issubclass(kind, np.random.BitGenerator):
            return reduce_bits
        if issubclass(kind, (np.random.Generator, np.random.RandomState)):
            return reduce_generator
    if kind is np.ufunc:
        return reduce_ufunc
    if issubclass(kind, np.void):
        return reduce_row
    if issubclass(kind, np.generic) and is_notebook_type(kind):
        return reduce_own_scalar
    if issubclass(kind, np.dtype):
        return reduce_dtype
    if issubclass(kind, np.generic):
        return leaf
    return None


def reduce_dtype(pickler: Pickler, dtype: Any) -> Any:
    """Nobody changes a dtype, but its metadata may hold what others hold too."""
    if dtype.metadata is None:
        if restore.is_long_double(dtype):
            return restore.long_double, (dtype.str, restore.long_double_digits())
        return NotImplemented
    parts = pickler.protect(dtype) if pickler.careful else reduce(dtype)
    if id(dtype) not in pickler.muted and not isinstance(parts, str):
        pickler.note_parts(parts)
    return parts


def reduce_array(pickler: Pickler, array: Any) -> Any:
    if type(array) is not np.ndarray:
        return _reduce_subclass(pickler, array)
    if pickler.packs and array.dtype is FLOATS and _is_small_and_own(pickler, array):
        return _reduce_small_floats(pickler, array)
    if id(array.dtype) not in _SPELLED:
        if array.dtype.hasobject or array.dtype.kind == "T":
            return _reduce_objects(pickler, array)
        if not has_plain_memory(array.dtype):
            pickler.dump_record.instances.append(array)
            return NotImplemented
    low, high = bounds(array)
    key = id(array)
    is_made = key in pickler.temporary_ids
    if not is_made and key not in pickler.muted and key not in pickler.private:
        pickler.dump_record.opaque.append(array)
    base = array.base
    if base is None:
        owned = array.flags.c_contiguous
        if owned and key not in pickler.muted:
            pickler.spanning.add(key)
        if not (is_made and array.flags.owndata):
            pickler.uses(array, low, high, owned=owned)
        return plain(pickler, array, low)
    owner = base if type(base) is np.ndarray and base.base is None else owner_of(array)
    if isinstance(owner, np.ndarray) and owner.dtype.hasobject:  # a column of records that hold objects too
        return _reduce_objects(pickler, array)
    pickler.uses(array, low, high)
    if type(owner) in BYTE_OWNERS:
        pickler.dump_record.roots.append((owner,))
        pickler.dump_record.opaque.append(owner)
    elif _is_owner_in_stream(pickler, array, owner) and not _find_cluster(pickler, low):
        pickler.dump_record.views[key] = owner
        return _as_view(array, owner, address_of(owner))
    return plain(pickler, array, low)


def _is_small_and_own(pickler: Pickler, array: Any) -> bool:
    """Whether an array is as each line of a figure has one: a few numbers, in memory that is its own and nobody's else here."""
    if array.base is not None or pickler.clusters or not 0 < array.nbytes <= _SMALL_BYTES:
        return False
    if array.flags.num & _PLAIN != _PLAIN:
        return False
    key = id(array)
    return key not in pickler.temporary_ids and key not in pickler.muted and key not in pickler.private


def _reduce_small_floats(pickler: Pickler, array: Any) -> Any:
    """What `reduce_array` makes of such an array, with a third of the looks at it."""
    record = pickler.dump_record
    record.opaque.append(array)
    pickler.spanning.add(id(array))
    low = address_of(array)
    record.memory.append(
        MemoryUse(array, "cpu", low, low + array.nbytes, OPEN, owned=True)
    )  # as `uses` would: it is nobody's else
    return restore.small_array, (array.tobytes(), _FLOATS_SPELLED, array.shape, True)


def plain(pickler: Pickler, array: Any, low: int) -> Any:
    """An array over bytes: a view of shared memory where a cluster says so, else its own bytes."""
    cluster = _find_cluster(pickler, low) if array.size else None
    if cluster is not None and cluster.base is not array:
        return _as_view(array, cluster.base, cluster.base_low)
    if array.flags.c_contiguous and _is_one_of_many(pickler, array):
        return _small(array)
    if _repeats(array):
        return _reduce_broadcast(pickler, array)
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    source = array.T if order == "F" else array
    if not source.flags.c_contiguous:
        if array.ndim > 2:
            return _reduce_turned(pickler, array)
        order, source = _compact(array)
        if order == "C" and _is_one_of_many(pickler, array):
            return _small(array)
    elif order == "F" and _is_one_of_many(pickler, array):
        return _small(array, order)
    step = source.strides[0] if source.ndim > 1 else None
    raw = pickler.buffer(source.reshape(-1).view(np.uint8) if source.nbytes else b"", step)
    own = (raw, spell(array.dtype), array.shape, order)
    return restore.array, own if array.flags.writeable else (*own, False)


def _find_cluster(pickler: Pickler, low: int) -> Cluster | None:
    return find_cluster(pickler.clusters, low) if pickler.clusters else None


def _is_one_of_many(pickler: Pickler, array: Any) -> bool:
    if array.nbytes > _SMALL_BYTES:
        return False
    pickler.small_arrays += 1
    return pickler.packs or pickler.small_arrays > _MANY_ARRAYS


def _small(array: Any, order: str = "C") -> Any:
    own = (array.tobytes(order), spell(array.dtype), array.shape, array.flags.writeable)
    return restore.small_array, own if order == "C" else (*own, order)


# -- small arrays of which nobody but one object knows, as the transforms of a figure have them by the thousand


def pack(pickler: Pickler, holder: Any, state: dict[str, Any], names: Iterable[str]) -> tuple[object, ...]:
    """Put bytes in the place of small arrays among the attributes that an object is saved with; returns which and what.

    What is written does not depend on who else holds such an array: that is noted, and written behind the dump.
    """
    attributes = object.__getattribute__(holder, "__dict__")
    packed: list[tuple[object, ...]] = []
    points, first = None, -1
    for name in names:
        array: Any = attributes.get(name)
        if type(array) is not np.ndarray:
            continue
        is_shared = getrefcount(array) > _ALONE or getweakrefcount(array)
        base = array.base
        if base is not None:
            if points is None:
                points = attributes.get("_xy")
                first = _address_of_points(points)
            if base is points:
                column = _column_of(array, points, first)
                if column >= 0:
                    if is_shared:
                        _note_loose(pickler, holder, name, array)
                    state[name] = None
                    packed.append((name, column))
                    continue
            if not _is_whole(array, base):
                continue
            del base
            is_shared = is_shared or _count_holds(array.base) > _BASE_ALONE or getweakrefcount(array.base)
        spelled = _DTYPES.get(id(array.dtype))
        flags = array.flags.num & _PLAIN
        if spelled is None or array.nbytes > _SMALL_BYTES or flags != (_PLAIN if array.base is None else _OF_VIEW):
            continue
        if is_shared:
            _note_loose(pickler, holder, name, array)
        state[name] = array.tobytes()
        packed.append((name, spelled[1], array.shape))
    made = tuple(packed)
    if len(_packed) > _MOST_PACKED:
        _packed.clear()
    return _packed.setdefault(made, made)  # one object is written once


# numpy's flags: contiguous in C's order, writable, and owner of its memory.
_OF_VIEW = 0x401
_PLAIN = _OF_VIEW | 0x4
_packed: dict[tuple[object, ...], tuple[object, ...]] = {}
_MOST_PACKED = 1_000
FLOATS = np.dtype(np.float64)
_FLOATS_SPELLED = FLOATS.str  # which makes a text each time, and pickle would write each of them
_DTYPES = {id(dtype): (dtype, dtype.str) for dtype in (np.dtype(np.float64), np.dtype(np.int64))}


def bytes_of(array: Any, holds: int) -> bytes | None:
    """The bytes of a small array of floats that nobody else has, nor its memory; None of any other.

    Args:
        holds: how many references are counted to one that a single dict holds, and the caller.
    """
    if type(array) is not np.ndarray or array.dtype is not FLOATS or array.nbytes > _SMALL_BYTES:
        return None
    if getrefcount(array) > holds or getweakrefcount(array):
        return None
    base = array.base
    flags = array.flags.num & _PLAIN
    if base is None:
        return array.tobytes() if flags == _PLAIN else None
    if flags != _OF_VIEW or not _is_whole(array, base):
        return None
    del base
    if _count_holds(array.base) > _BASE_ALONE or getweakrefcount(array.base):
        return None
    return array.tobytes()


def _is_whole(array: Any, base: Any) -> bool:
    """Whether an array is a view of all of another one, which has its memory for itself."""
    whole = type(base) is np.ndarray and base.dtype is array.dtype and base.nbytes == array.nbytes
    return whole and bool(base.flags.owndata) and bool(base.flags.writeable)


def _address_of_points(points: Any) -> int:
    """Where the points of a line begin; -1 where a column of theirs cannot be told from other views of them."""
    if type(points) is not np.ndarray or points.ndim != 2 or points.flags.num & _OF_VIEW != _OF_VIEW:
        return -1
    return address_of(points) if points.itemsize else -1


def _column_of(array: Any, points: Any, first: int) -> int:
    """Which column of a line's points this view of them is, as the line holds those too; -1: none."""
    if first < 0 or array.dtype is not points.dtype:
        return -1
    if array.shape != points.shape[:1] or array.strides != points.strides[:1] or not array.flags.writeable:
        return -1
    column, rest = divmod(address_of(array) - first, points.itemsize)
    return column if rest == 0 and 0 <= column < points.shape[1] else -1


def _count_holds(array: Any) -> int:
    return getrefcount(array)


def _count_in_pack() -> tuple[int, int]:
    """How many references `pack` counts to an array that its holder alone has, and to the base of one."""
    attributes = {"array": np.zeros(2), "view": np.zeros(2).reshape(1, 2)}
    state = dict(attributes)
    array = attributes.get("array")
    view: Any = attributes.get("view")
    return getrefcount(array) + (state is attributes), _count_holds(view.base)


_ALONE, _BASE_ALONE = _count_in_pack()


def _note_loose(pickler: Pickler, holder: Any, name: str, array: Any) -> None:
    record = pickler.dump_record
    record.loose.append((holder, name, array))
    record.opaque.append(array)
    pickler.uses(array, *bounds(array))
    if id(array.base) in pickler.spanning:
        record.views[id(array)] = array.base


def _is_owner_in_stream(pickler: Pickler, array: Any, owner: Any) -> bool:
    """Whether an array that is in the stream anyway owns this one's memory: then no second dump has to find that out."""
    if not array.size or id(array) in pickler.muted:
        return False
    return id(owner) in pickler.spanning or (pickler.packs and _is_small_owner(owner))


def _is_small_owner(owner: Any) -> bool:
    """The lines of a grid are views of one small array, each of every third of its numbers: it may as well be saved too."""
    is_plain = type(owner) is np.ndarray and has_plain_memory(owner.dtype) and owner.flags.c_contiguous
    return is_plain and owner.nbytes <= _SMALL_OWNER_BYTES and owner.base is None


# A figure has ten thousand arrays of a few numbers. A blob for each would cost more than all the rest of it.
_SMALL_BYTES = 256
_MANY_ARRAYS = 64
_SMALL_OWNER_BYTES = 4_096


def _as_view(array: Any, owner: Any, low: int) -> Any:
    made = (owner, address_of(array) - low, array.shape, array.strides, spell(array.dtype))
    return restore.view, (*made, array.flags.writeable)


def _compact(array: Any) -> tuple[str, Any]:
    """A strided array travels as a contiguous copy, in the order that its strides are nearest to."""
    order = "F" if array.ndim > 1 and abs(array.strides[0]) < abs(array.strides[-1]) else "C"
    copied = np.array(array, order=order, copy=True, subok=False)  # type: ignore[call-overload]
    return order, copied.T if order == "F" else copied


def _reduce_turned(pickler: Pickler, array: Any) -> Any:
    """Axes in neither order, as a transposed image has them: bytes without gaps, and the strides over them."""
    dense = np.array(array, order="K", copy=True, subok=False)
    low, high = bounds(dense)
    pickler.keepalive.append(dense)
    span = Span(low, high, dense)
    return restore.view, (span, 0, array.shape, dense.strides, spell(array.dtype), array.flags.writeable)


def _repeats(array: Any) -> bool:
    """Whether the array is broadcast: one item stands in many places."""
    if not array.size or 0 not in array.strides:
        return False
    return any(count > 1 and step == 0 for count, step in zip(array.shape, array.strides, strict=True))


def _reduce_broadcast(pickler: Pickler, array: Any) -> Any:
    steps = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)
    base = np.ascontiguousarray(array[steps])
    pickler.keepalive.append(base)
    strides = tuple(0 if old == 0 else new for old, new in zip(array.strides, base.strides, strict=True))
    return restore.broadcast, (base, array.shape, strides, array.flags.writeable)


def _reduce_objects(pickler: Pickler, array: Any) -> Any:
    """Arrays whose memory holds references: their items are pickled one by one, a view as a view of its owner."""
    if id(array) in pickler.private:
        pickler.dump_record.labels.append(array)
        pickler.identify_items(array, private=True)
    elif id(array) not in pickler.muted:
        pickler.dump_record.opaque.append(array)
        pickler.dump_record.object_arrays.append(array)
        pickler.identify_items(array)
    owner = _object_owner(array)
    if owner is not None and id(owner) in pickler.shared_owners and _as_plain(pickler, owner) is not array:
        return _object_view(pickler, array, owner)
    if not array.dtype.hasobject and array.dtype.kind != "T":
        return plain(pickler, array, address_of(array))
    if _repeats(array):
        return _reduce_broadcast(pickler, array)
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    if array.dtype.names is not None:
        return _reduce_records(pickler, array, order)
    if array.dtype != object and array.dtype.kind != "T":
        return NotImplemented
    plainest = array.dtype == object and array.dtype.metadata is None
    if plainest and array.size >= LONG:
        watched = id(array) in pickler.muted or id(array) in pickler.private or id(array) in pickler.watched
        encoded = encode_array(array, order, watched=watched)
        if encoded is not None:
            codes, atoms = pickler.part(Part(encoded, 0)), pickler.part(Part(encoded, 1))
            column = (codes, atoms, array.shape, order, array.flags.writeable)
            if encoded.nans:
                found = tuple((place, name_nan(value)) for place, value in encoded.nans)
                return restore.object_column_with_nans, (*column, found)
            return restore.object_column, column
    items = _list_items(array.reshape(-1, order=order))
    pickler.keepalive.append(items)
    if id(array) in pickler.muted:
        pickler.mute(items)
    elif array.dtype == object:
        pickler.dump_record.roots.append(items)
    made = (array.shape, order) if plainest else (array.shape, order, array.dtype)
    state = (items, order, array.flags.writeable)
    return restore.object_array_bare, made, state, None, None, restore.object_array_state


class _NumpysNan:
    """Stands for numpy's own NaN, of which it counts which one it is: columns with missing values are full of it."""


_numpys_nan: Any = _NumpysNan()
_nan: object = np.nan
HANDLERS.keep(_NumpysNan, lambda pickler, _: by_name(*NUMPYS_NAN.split(".")))


def _list_items(flat: Any) -> list[object]:
    items: list[object] = flat.tolist()
    # By identity: comparing runs anyone's code.
    if any(map(operator.is_, items, repeat(_nan))):
        return list(map(name_nan, items))
    return items


def name_nan(value: object) -> Any:
    return _numpys_nan if value is _nan else value


def _object_view(pickler: Pickler, array: Any, owner: Any) -> Any:
    offset = address_of(array) - address_of(owner)
    made = (_as_plain(pickler, owner), offset, array.shape, array.strides, array.flags.writeable)
    return restore.object_view, made if array.dtype is owner.dtype else (*made, array.dtype)


def _reduce_records(pickler: Pickler, array: Any, order: str) -> Any:
    """Records with objects in them, column by column."""
    columns: list[Any] = []
    for field in restore.leaves(array):
        if field.dtype.hasobject:
            columns.append(_list_items(field.reshape(-1)))
        else:
            columns.append(np.array(field, order="C", subok=False))
            pickler.mute(columns[-1])
    pickler.keepalive.append(columns)
    objects = [column for column in columns if type(column) is list]
    if id(array) in pickler.muted:
        pickler.mute(objects)
    else:
        pickler.dump_record.roots.append(objects)
    made, state = (array.shape, order, array.dtype), (columns, array.flags.writeable)
    return restore.object_array_bare, made, state, None, None, restore.records_state


def _object_owner(array: Any) -> Any:
    """The array that owns the memory, where its items lie one after another; None if this one does."""
    owner = owner_of(array)
    if owner is array or not isinstance(owner, np.ndarray) or not owner.size or not owner.itemsize:
        return None
    if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        return None
    offset = address_of(array) - address_of(owner)
    try:
        restore.items_at(owner.view(np.ndarray), offset, array.dtype)
    except LookupError:
        return None
    return owner


def reduce_row(pickler: Pickler, row: Any) -> Any:
    """A row of a structured array looks at the array's memory; one that owns its bytes cannot be changed."""
    if row.base is None:
        return NotImplemented
    pickler.dump_record.opaque.append(row)
    inner = np.asarray(row)
    pickler.keepalive.append(inner)
    return restore.row, (inner,)


def _reduce_subclass(pickler: Pickler, array: Any) -> Any:
    kind: Any = type(array)
    if not _pickles_like_ndarray(kind) or not (array.dtype.hasobject or has_plain_memory(array.dtype)):
        return _reduce_by_itself(pickler, array)
    pickler.dump_record.opaque.append(array)
    state = dict(getattr(array, "__dict__", {}))
    pickler.dump_record.roots.append(state)
    made = restore.array_subclass, (_as_plain(pickler, array), kind, None)
    return (*made, state, None, None, restore.array_attributes) if state else made


def _pickles_like_ndarray(kind: Any) -> bool:
    hooks = ("__reduce_ex__", "__reduce__", "__setstate__")
    return kind not in copyreg.dispatch_table and all(getattr(kind, at) is getattr(np.ndarray, at) for at in hooks)


def _reduce_by_itself(pickler: Pickler, array: Any) -> Any:
    """A class that says how it is pickled is asked, but its memory goes out of band, and is shared as any array's is."""
    parts = pickler.custom(array)
    if type(parts) is not tuple or not has_plain_memory(array.dtype):
        return parts
    low, high = bounds(array)
    pickler.uses(array, low, high)
    cluster = find_cluster(pickler.clusters, low) if array.size else None
    if (
        cluster is None and array.dtype.isnative
    ):  # numpy's own part of it loads any other order of bytes as the machine's
        return _replace_bytes(parts, OutOfBandBytes)
    plain_array = _as_plain(pickler, array)
    built = Built(_replace_bytes(parts, lambda raw: _bytes_again(raw, plain_array)))
    pickler.keepalive.append(built)
    return restore.array_as, (plain_array, type(array)), (built,), None, None, restore.take_attributes


_AT_LEAST = 4096  # shorter bytes are as well kept in the stream


def _replace_bytes(parts: tuple[Any, ...], replace: Callable[[bytes], Any]) -> tuple[Any, ...]:
    """The same tuples with something in the place of long bytes. Lists and dicts stay the objects that they are."""
    made: list[Any] = []
    for part in parts:
        if type(part) is bytes and len(part) >= _AT_LEAST:
            made.append(replace(part))
        else:
            made.append(_replace_bytes(part, replace) if type(part) is tuple else part)
    return parts if all(map(operator.is_, parts, made)) else tuple(made)


def _bytes_again(raw: bytes, array: Any) -> Any:
    """What a class gave of its memory need not be stored twice."""
    return BytesOf(array) if raw == array.tobytes("A") else OutOfBandBytes(raw)


def reduce_masked(pickler: Pickler, array: Any) -> Any:
    kind: type = type(array)
    if kind is not np.ma.MaskedArray:
        return _reduce_by_itself(pickler, array)
    pickler.dump_record.opaque.append(array)
    mask = None if array._mask is np.ma.nomask else array._mask  # `.mask` gives a new view each time
    state = {name: found for name, found in vars(array).items() if name not in _OF_MASKED}
    if array._optinfo:
        state["_optinfo"] = array._optinfo
    if state:
        pickler.dump_record.roots.append(state)
    flags = {"_hardmask": array._hardmask, "_sharedmask": array._sharedmask}
    values = _as_plain(pickler, array)
    # fill_value is set by merely showing the array, so only one that differs from the default counts.
    fill = None if array._fill_value is None or _is_default_fill(array) else array._fill_value
    made = restore.masked_array, (np.ma.MaskedArray, values, mask, fill, flags)
    # Not as it is made: what a person set may lead back to the array.
    return (*made, state, None, None, restore.array_attributes) if state else made


_OF_MASKED = frozenset(
    {"_mask", "_data", "_fill_value", "_hardmask", "_sharedmask", "_isfield", "_baseclass", "_optinfo", "_basedict"}
)


def _is_default_fill(array: Any) -> bool:
    if array.dtype.hasobject:  # whose comparison runs anyone's code
        return bool(type(array._fill_value) is np.ndarray and array._fill_value.item() == "?")
    return bool(array._fill_value == np.ma.default_fill_value(array.dtype))


def _as_plain(pickler: Pickler, array: Any) -> Any:
    """The same memory as a plain array: one and the same in a dump, so that it comes back as one."""
    if type(array) is np.ndarray:
        return array
    made = pickler.plain_arrays.get(id(array))
    if made is None:
        made = pickler.plain_arrays[id(array)] = np.ndarray.view(array, np.ndarray)
        pickler.keepalive.append(made)
    return made


def reduce_bits(pickler: Pickler, bits: Any) -> Any:
    """Before numpy 2 what seeded it is left out, and copied with each generator that draws from it."""
    seed = getattr(bits, "_seed_seq", None)
    pickler.dump_record.instances.append(bits)
    pickler.dump_record.roots.append((seed,))
    return restore.bits, (type(bits), seed), (bits.state,), None, None, restore.bits_state


def reduce_generator(pickler: Pickler, generator: Any) -> Any:
    bits = generator._bit_generator if isinstance(generator, np.random.RandomState) else generator.bit_generator
    pickler.dump_record.instances.append(generator)
    pickler.dump_record.roots.append((bits,))
    if not isinstance(generator, np.random.RandomState):
        return type(generator), (bits,)
    state = generator.get_state(legacy=False)
    drawn = (state["has_gauss"], state["gauss"])
    return type(generator), (bits,), drawn, None, None, restore.drawn_state


def reduce_own_generator(pickler: Pickler, generator: Any) -> Any:
    """numpy would make one of its own class, past the notebook's."""
    _, made, *rest = reduce_generator(pickler, generator)
    library = np.random.RandomState if isinstance(generator, np.random.RandomState) else np.random.Generator
    return made_by, (type(generator), library, *made), *rest


def reduce_own_scalar(pickler: Pickler, value: Any) -> Any:
    """numpy would make a number of its own class, past the notebook's."""
    library: Any = next(base for base in type(value).__mro__ if not is_notebook_type(base))
    pickler.dump_record.instances.append(value)
    return bare_instance, (type(value), library, library(value))


def reduce_limits(_: Pickler, limits: Any) -> Any:
    """There is one for each dtype, which pickle would make without saying of which."""
    return np.finfo, (limits.dtype,)


def _is_polynomial(kind: type) -> bool:
    return any(base.__module__ == "numpy.polynomial._polybase" for base in kind.__mro__) and not is_notebook_type(kind)


def reduce_polynomial(pickler: Pickler, polynomial: Any) -> Any:
    """numpy copies the coefficients when it pickles one, though others may hold the same array."""
    pickler.dump_record.instances.append(polynomial)
    return copyreg.__newobj__, (type(polynomial),), dict(vars(polynomial))  # type: ignore[attr-defined]


def reduce_ufunc(pickler: Pickler, made: Any) -> Any:
    """numpy pickles a ufunc by name; one made by `frompyfunc` holds its function, and nothing else."""
    functions = [found for found in gc.get_referents(made) if callable(found)]
    if len(functions) != 1:
        return NotImplemented
    pickler.dump_record.opaque.append(made)
    return restore.ufunc, (functions[0], made.nin, made.nout, made.identity)


def refuse_map(pickler: Pickler, array: Any) -> Any:
    if getattr(array, "_mmap", None) is None:  # an ordinary result that kept the subclass
        return _reduce_subclass(pickler, array)
    where = f" {array.filename}" if array.filename else ""
    return pickler.refuse(array, f"a memory map of the file{where} is not stored", "open the file again in a cell")


def bounds(array: Any) -> tuple[int, int]:
    """The address range that the array's elements lie in, in bytes."""
    low = high = address_of(array)
    if array.flags.c_contiguous:
        return low, low + array.nbytes
    for count, stride in zip(array.shape, array.strides, strict=True):
        if count == 0:
            return low, low
        low, high = (low + (count - 1) * stride, high) if stride < 0 else (low, high + (count - 1) * stride)
    return low, high + array.itemsize


_HEADER = object.__basicsize__
_field: Callable[[int], Any] = ctypes.c_void_p.from_address


def address_of(array: Any) -> int:
    # The first field of an array, by numpy's binary interface: asking for `ctypes.data` takes ten times as long.
    return int(_field(id(array) + _HEADER).value or 0) if _IS_FIRST else int(array.ctypes.data)


def addresses_of(arrays: Sequence[Any]) -> list[int]:
    """The same of many arrays, in a fraction of the time."""
    if not _IS_FIRST:
        return list(map(address_of, arrays))
    fields = map(copy_memory, map(_HEADER.__add__, ids_of(arrays)), repeat(ADDRESS_BYTES))
    return list(ids_in(b"".join(fields)))


_probe = np.zeros(1)
_IS_FIRST = bool(_field(id(_probe) + _HEADER).value == _probe.ctypes.data)


def spell(dtype: Any) -> Any:
    """The dtype's short name where that says all of it, else the dtype itself."""
    known = _SPELLED.get(id(dtype))
    if known is not None:
        return known
    # Not looked up by the dtype alone: one with metadata is equal to the one without.
    return _short_name(dtype) if dtype.metadata is None and dtype.names is None and dtype.kind != "T" else dtype


@functools.cache
def _short_name(dtype: Any) -> Any:
    return dtype.str if np.dtype(dtype.str) == dtype and not restore.is_long_double(dtype) else dtype


@functools.cache
def has_plain_memory(dtype: Any) -> bool:
    return not dtype.hasobject and dtype.kind in "biufcmMSUV"


# numpy's own dtypes of numbers, by their ids: to hash one takes as long as to reduce a small array.
_NUMBERS = tuple(map(np.dtype, "?bhilqBHILQefdFD"))
_SPELLED: dict[int, str] = {id(dtype): dtype.str for dtype in _NUMBERS}
