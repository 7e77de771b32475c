"""numpy: buffers out of band, views as views, shared memory once."""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# numpy says little of arrays whose dtype is known at run time only.

from __future__ import annotations

import functools
import gc
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_kernel.values.memory import find_cluster, owner_of
from agent_kernel.values.reducers import Handler, leaf
from agent_kernel.values.restore import arrays as restore

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler


def handler_for(kind: type) -> Handler | None:
    if issubclass(kind, np.memmap):
        return lose_map
    if issubclass(kind, np.ma.MaskedArray):
        return reduce_masked
    if issubclass(kind, np.ndarray):
        return reduce_array
    if kind is np.ufunc:
        return reduce_ufunc
    if issubclass(kind, (np.generic, np.dtype)):
        return leaf
    return None


def reduce_array(pickler: Pickler, array: Any) -> Any:
    low, high = bounds(array)
    if type(array) is not np.ndarray:
        return _reduce_subclass(pickler, array)
    if array.dtype.hasobject:
        return _reduce_objects(pickler, array)
    if not _has_plain_memory(array.dtype):
        pickler.dump_record.instances.append(array)
        return NotImplemented
    if id(array) not in pickler.muted and id(array) not in pickler.private:
        pickler.dump_record.opaque.append(array)
    pickler.uses(array, low, high)
    owner = owner_of(array)
    if type(owner) is bytearray:
        pickler.dump_record.roots.append((owner,))
    return plain(pickler, array, low)


def plain(pickler: Pickler, array: Any, low: int) -> Any:
    """An array over bytes: a view of shared memory where a cluster says so, else its own bytes."""
    cluster = find_cluster(pickler.clusters, low) if array.size else None
    if cluster is not None and cluster.base is not array:
        made = (cluster.base, _address(array) - cluster.base_low, array.shape, array.strides, spell(array.dtype))
        return restore.view, (*made, array.flags.writeable)
    if (
        array.size
        and 0 in array.strides
        and any(n > 1 and s == 0 for n, s in zip(array.shape, array.strides, strict=True))
    ):
        return _reduce_broadcast(pickler, array)
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    source = array.T if order == "F" else array
    if not source.flags.c_contiguous:
        order, source = _compact(array)
    step = source.strides[0] if source.ndim > 1 else None
    raw = pickler.buffer(source.reshape(-1).view(np.uint8) if source.nbytes else b"", step)
    own = (raw, spell(array.dtype), array.shape, order)
    return restore.array, own if array.flags.writeable else (*own, False)


def _compact(array: Any) -> tuple[str, Any]:
    """A strided array travels as a contiguous copy, in the order that its strides are nearest to."""
    order = "F" if array.ndim > 1 and abs(array.strides[0]) < abs(array.strides[-1]) else "C"
    copied = np.array(array, order=order, copy=True, subok=False)  # type: ignore[call-overload]
    return order, copied.T if order == "F" else copied


def _reduce_broadcast(pickler: Pickler, array: Any) -> Any:
    steps = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)
    base = np.ascontiguousarray(array[steps])
    pickler.kept.append(base)
    strides = tuple(0 if old == 0 else new for old, new in zip(array.strides, base.strides, strict=True))
    return restore.broadcast, (base, array.shape, strides, array.flags.writeable)


def _reduce_objects(pickler: Pickler, array: Any) -> Any:
    if id(array) not in pickler.muted:
        pickler.dump_record.opaque.append(array)
    if array.dtype != object:
        return NotImplemented
    owner = _object_owner(array)
    if id(array) not in pickler.muted:
        pickler.dump_record.object_arrays.append(array)
    if owner is not None and id(owner) in pickler.shared_owners:
        offset = _address(array) - _address(owner)
        return restore.object_view, (owner, offset, array.shape, array.strides, array.flags.writeable)
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    items = array.reshape(-1, order=order).tolist()
    pickler.kept.append(items)
    if id(array) in pickler.muted:
        pickler.mute(items)
    else:
        pickler.dump_record.roots.append(items)
    state = (items, order, array.flags.writeable)
    return restore.object_array_bare, (array.shape, order), state, None, None, restore.object_array_state


def _object_owner(array: Any) -> Any:
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    contiguous = owner.flags.c_contiguous or owner.flags.f_contiguous
    return owner if owner is not array and contiguous and type(owner) is np.ndarray else None


def _reduce_subclass(pickler: Pickler, array: Any) -> Any:
    kind: Any = type(array)
    if kind.__reduce__ is not np.ndarray.__reduce__ or array.dtype.hasobject or not _has_plain_memory(array.dtype):
        pickler.dump_record.instances.append(array)
        return pickler.protect(array) if pickler.careful else NotImplemented
    pickler.dump_record.opaque.append(array)
    state = dict(getattr(array, "__dict__", {}))
    pickler.dump_record.roots.append(state)
    return restore.array_subclass, (_as_plain(pickler, array), kind, state)


def reduce_masked(pickler: Pickler, array: Any) -> Any:
    kind: type = type(array)
    if kind is not np.ma.MaskedArray or array.dtype.hasobject:
        pickler.dump_record.instances.append(array)
        return NotImplemented
    pickler.dump_record.opaque.append(array)
    mask = None if array._mask is np.ma.nomask else array._mask  # `.mask` gives a new view each time
    state = {"_hardmask": array._hardmask, "_sharedmask": False}
    values = _as_plain(pickler, array)
    # fill_value is set by merely showing the array, so only one that differs from the default counts.
    fill = None if array._fill_value is None or _is_default_fill(array) else array._fill_value
    return restore.masked_array, (np.ma.MaskedArray, values, mask, fill, state)


def _is_default_fill(array: Any) -> bool:
    return bool(array._fill_value == np.ma.default_fill_value(array.dtype))


def _as_plain(pickler: Pickler, array: Any) -> Any:
    made = array.view(np.ndarray)
    pickler.kept.append(made)
    return made


def reduce_ufunc(pickler: Pickler, made: Any) -> Any:
    """numpy pickles a ufunc by name; one made by `frompyfunc` holds its function, and nothing else."""
    held = [found for found in gc.get_referents(made) if callable(found)]
    if len(held) != 1:
        return NotImplemented
    pickler.dump_record.opaque.append(made)
    return restore.ufunc, (held[0], made.nin, made.nout, made.identity)


def lose_map(pickler: Pickler, array: Any) -> Any:
    if getattr(array, "_mmap", None) is None:  # an ordinary result that kept the subclass
        return _reduce_subclass(pickler, array)
    where = f" {array.filename}" if array.filename else ""
    return pickler.lose(array, f"a memory map of the file{where} is not stored", "open the file again in a cell")


def bounds(array: Any) -> tuple[int, int]:
    """The address range that the array's elements lie in, in bytes."""
    low = high = _address(array)
    if array.flags.c_contiguous:
        return low, low + array.nbytes
    for count, stride in zip(array.shape, array.strides, strict=True):
        if count == 0:
            return low, low
        low, high = (low + (count - 1) * stride, high) if stride < 0 else (low, high + (count - 1) * stride)
    return low, high + array.itemsize


def _address(array: Any) -> int:
    return int(array.ctypes.data)  # `__array_interface__` spells out the dtype each time


@functools.cache
def spell(dtype: Any) -> Any:
    """The dtype's short name where that says all of it, else the dtype itself."""
    return dtype.str if dtype.metadata is None and np.dtype(dtype.str) == dtype else dtype


@functools.cache
def _has_plain_memory(dtype: Any) -> bool:
    return not dtype.hasobject and dtype.kind in "biufcmMSUV"
