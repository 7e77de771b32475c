"""Previews of numpy arrays and scipy sparse matrices, and the first values of an array for everyone who needs them.

Only an exact `ndarray` is indexed: a subclass may define how. No value of a memory map is read, since its file may be
gone; object cells are shown by their types.
"""

from __future__ import annotations

import mmap
from math import prod
from typing import Any

from agent_kernel.text import MASK, MORE, clean, count_noun, shorten
from agent_kernel.values.previews.model import LONGEST_TEXT, Preview, is_whole
from agent_kernel.values.previews.plain import Verbatim, cell, moment_text
from agent_kernel.values.previews.reading import (
    ExactTypes,
    derives_from,
    entry,
    exact_items,
    exact_str,
    find_loaded,
    instance_dict,
    shallow_size,
    type_name,
)

_FEW = 6
_WIDEST_CELL = 400  # bytes of one element of a fixed-width string dtype
_MOST_FIELDS = 8
_LONGEST_CHAIN = 8  # owners of a view that are followed

_ARRAYS: ExactTypes[bool] = ExactTypes([], {"numpy:ndarray": True})
_CLOCK_UNITS = ("s]", "[m]", "[h]", "[D]", "[W]")  # years and months have no length
_VIEWS: ExactTypes[bool] = ExactTypes([(memoryview, True)])
_WORDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex", "S": "bytes", "U": "str"}


def ndarray(value: Any, hide: bool) -> Preview:
    """An array by its shape, dtype, bytes and first values."""
    base: Any = find_loaded("numpy", "ndarray")
    dtype = base.dtype.__get__(value)
    shape: tuple[int, ...] = base.shape.__get__(value)
    values = ""
    if is_array(value) and not hide:
        values = values_text(first_values(value, _FEW + 1), shape)
        if dtype.kind == "b" and not is_whole(values):
            values = _counts_text(value) or values
    masked = hide or MASK in values
    size = base.nbytes.__get__(value)
    return Preview("array", type_name(value), MASK if hide else values, shape, dtype_text(dtype), size, masked=masked)


def _counts_text(value: Any) -> str:
    """How often each value of a Boolean array occurs; "" where that is not read, or takes too long."""
    from agent_kernel.values.previews.frames import MOST_COUNTED, counts_text  # which builds on this module

    if not 0 < value.size <= MOST_COUNTED or _is_memory_mapped(value):
        return ""
    true = int(find_loaded("numpy", "count_nonzero")(value))  # type: ignore[operator]  # numpy's own function
    return counts_text(true, value.size - true)


def is_array(value: object) -> bool:
    """Whether this is an ndarray and no subclass of it."""
    return _ARRAYS.of(value) is not None


def dtype_text(dtype: Any) -> str:
    """The dtype in numpy's words: `float64`, `datetime64[ns]`, `str12`, `object`, `(x: int64, y: float32)`."""
    kind: str = dtype.kind
    if kind in "Mm":
        unit = exact_str(dtype.str).partition("[")[2]
        return f"{'datetime64' if kind == 'M' else 'timedelta64'}{'[' + unit if unit else ''}"
    if kind == "V" and dtype.names is not None:
        return _fields_text(dtype)
    if kind in "SU":
        return f"{_WORDS[kind]}{dtype.itemsize // (4 if kind == 'U' else 1)}"
    if kind in "iufc" and _is_numpys_own(dtype):
        return f"{_WORDS[kind]}{8 * dtype.itemsize}"
    return {"b": "bool", "O": "object"}.get(kind) or type_name(dtype).rpartition(".")[2]


def _is_numpys_own(dtype: Any) -> bool:
    # 0: an object of its own, as out of a pickle, or numbers in the other byte order; 2: a type that a library added.
    return bool(dtype.isbuiltin == 1 or (dtype.isbuiltin == 0 and dtype.isnative))


def _fields_text(dtype: Any) -> str:
    names = dtype.names
    texts = [f"{clean(exact_str(name)[:40])}: {dtype_text(dtype.fields[name][0])}" for name in names[:_MOST_FIELDS]]
    return shorten(f"({', '.join(texts)}{', ' + MORE if len(names) > _MOST_FIELDS else ''})", LONGEST_TEXT)


def first_values(value: Any, count: int) -> list[object]:
    """The first elements of an ndarray as plain objects; empty where they may not be read.

    Object elements come as they are: show them with `cell`, which does not touch what it does not know.
    """
    dtype = value.dtype
    if (
        dtype.kind not in "biufcSUMmO"
        or (dtype.kind in "iufc" and not _is_numpys_own(dtype))
        or _is_memory_mapped(value)
    ):
        return []
    if dtype.itemsize > _WIDEST_CELL:
        return []
    first = value[:count] if value.ndim == 1 else value.flat[:count]
    if dtype.kind == "m":
        return _durations(first)
    if dtype.kind == "M":
        return [Verbatim(moment_text(found)) for found in first.astype("U").tolist()]
    found: list[object] = first.tolist()
    return found


def _durations(first: Any) -> list[object]:
    found: list[object] = first.astype("m8[us]" if first.dtype.str.endswith(_CLOCK_UNITS) else "i8").tolist()
    return found


def _is_memory_mapped(value: Any) -> bool:
    owner = value
    for _ in range(_LONGEST_CHAIN):
        if is_array(owner):
            owner = owner.base
        elif _VIEWS.of(owner):
            owner = owner.obj
    last: object = owner
    return any(derives_from(type(last), mapped) for mapped in (mmap.mmap, find_loaded("numpy", "memmap")))


def values_text(values: list[object], shape: tuple[int, ...]) -> str:
    """The first values in brackets, with an ellipsis where there are more than are shown."""
    if not values:
        return "[]" if 0 in shape else ""
    if not shape:
        return cell(values[0])
    texts = [number_text(found) for found in values[:_FEW]]
    more = [MORE] if len(values) > _FEW or prod(shape) > len(values) else []
    return shorten(f"[{', '.join([*texts, *more])}]", LONGEST_TEXT)


def number_text(value: object) -> str:
    """A cell of a numeric table: six digits tell two floats apart well enough there."""
    return f"{value:.6g}" if type(value) is float else cell(value)


def sparse(value: Any, hide: bool) -> Preview:
    """A scipy sparse matrix by its shape, dtype, bytes and number of stored elements."""
    attributes = instance_dict(value)
    shape = tuple(extent for extent in exact_items(entry(attributes, "_shape")) if type(extent) is int)
    parts = [entry(attributes, name) for name in ("data", "indices", "indptr", "row", "col", "offsets")]
    arrays: list[Any] = [part for part in (*parts, *exact_items(entry(attributes, "coords"))) if is_array(part)]
    elements: Any = parts[0] if is_array(parts[0]) else None
    return Preview(
        "sparse",
        type_name(value),
        shape=shape,
        dtype="" if elements is None else dtype_text(elements.dtype),
        size_bytes=sum(part.nbytes for part in arrays),
        note="" if elements is None or elements.dtype.kind == "O" else count_noun(elements.size, "stored element"),
        masked=hide,
    )


# -- previews of torch tensors
#
# Values are read from plain tensors in main memory only: a GPU would have to be waited for, and a meta or sparse tensor
# has none at hand. While anyone's function or dispatch mode is on, even `shape` would be its code, so torch's own
# switch turns the one off and the other leaves the tensor unread.

_FEW_OF_TENSOR = 7
_NUMBER_NAMES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
_NUMBERS = frozenset(_NUMBER_NAMES.split())


def tensor(value: Any, hide: bool) -> Preview:
    """A tensor by its shape, dtype, bytes, device and first values."""
    torch: Any = find_loaded("torch", "_C")
    if torch._len_torch_dispatch_stack():
        return Preview("tensor", type_name(value), size_bytes=shallow_size(value), masked=hide)
    with torch.DisableTorchFunction():
        return _tensor(value, hide)


def _tensor(value: Any, hide: bool) -> Preview:
    shape = tuple(int(extent) for extent in value.shape)
    dtype, device = str(value.dtype).removeprefix("torch."), str(value.device)
    notes = [note for note, holds in ((device, device != "cpu"), ("requires grad", value.requires_grad)) if holds]
    readable = device == "cpu" and str(value.layout) == "torch.strided" and dtype in _NUMBERS
    values = values_text(_first(value), shape) if readable and not hide else ""
    return Preview(
        "tensor",
        type_name(value),
        MASK if hide else values,
        shape,
        dtype,
        value.numel() * value.element_size(),
        note=", ".join(notes),
        masked=hide,
    )


def _first(value: Any) -> list[object]:
    value = value.detach()
    if not value.numel():
        return []
    while value.dim() > 1:  # no flattening: of a tensor that is not contiguous it would be a copy
        value = value[0]
    if value.dim() == 0:
        return [value.item()]
    found: list[object] = value[:_FEW_OF_TENSOR].tolist()
    return found
