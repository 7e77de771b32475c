"""Which stored memory is which column: from the description of a stream to elements that can be read."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import Final, TypeAlias

from agent_kernel.browsing.memory import (
    FORMATS,
    Categories,
    Chained,
    Elements,
    Joined,
    Masked,
    Memory,
    Numbers,
    Picked,
    Steps,
    Texts,
    Things,
)
from agent_kernel.values.peeking import Buffer, Call, calls
from agent_kernel.verbs.contents import ARRAY, OBJECTS, Stored, atoms_of, code_size, integers, items_of

__all__ = ["elements_of", "numbers_of"]

_STRINGS: Final = {"string": "i", "large_string": "q", "utf8": "i", "large_utf8": "q"}
_OF_SEVERAL: Final = "agent_kernel.values.restore.frames.index_of_several"
_INDEX: Final = "pandas.core.indexes.base._new_Index"
_INDEX_OF_BLOCK: Final = "agent_kernel.values.restore.frames.index"
_ARROW: Final = "agent_kernel.values.restore.frames.arrow_column"
_ARROW_TEXT: Final = "agent_kernel.values.restore.frames.arrow_text"
_MOMENTS: Final = "pandas._libs.arrays.__pyx_unpickle_NDArrayBacked"
_FEW_OBJECTS: Final = "agent_kernel.values.restore.arrays.object_array_bare"
_MASKED: Final = ("BooleanArray", "FloatingArray", "IntegerArray")  # of another module in each release
_VIEW: Final = "agent_kernel.values.restore.arrays.view"
_OBJECT_VIEW: Final = "agent_kernel.values.restore.arrays.object_view"
_POINTER: Final = 8  # bytes of an object in an array, where stores are written
_SPAN: Final = "agent_kernel.values.restore.buffers.memory"


def numbers_of(stored: Stored, array: object, row: int = 0, zone: str = "") -> Numbers | None:
    """The numbers of an array, or of a row of one that has two dimensions; None if it holds something else."""
    placed = _place(array)
    if placed is None:
        return None
    buffer, offset, dtype, shape, strides = placed
    item = _size_of(dtype)
    if len(shape) == 2 and 0 <= row < shape[0]:
        offset, shape, strides = offset + row * strides[0], shape[1:], strides[1:]
    memory = Memory(stored, buffer)
    if len(shape) != 1 or len(strides) != 1 or offset % item or strides[0] % item:
        return None
    last = offset + max(0, shape[0] - 1) * strides[0]
    if shape[0] and not 0 <= min(offset, last) <= max(offset, last) <= memory.size - item:
        return None
    return Numbers(memory, dtype, offset // item, shape[0], zone, strides[0] // item)


_Place: TypeAlias = "tuple[Buffer, int, str, tuple[int, ...], tuple[int, ...]]"


def _place(array: object) -> _Place | None:
    """The memory that an array looks at, the offset of its first item in bytes, its dtype, shape and strides."""
    if not isinstance(array, Call):
        return None
    if array.name == ARRAY:
        buffer, dtype, shape = array.args[0], array.args[1], integers(array.args[2])
        if not isinstance(buffer, Buffer) or not isinstance(dtype, str) or not _size_of(dtype):
            return None
        return buffer, 0, dtype, shape, _dense_strides(shape, _size_of(dtype), str(array.args[3]))
    if array.name != _VIEW or len(array.args) < 5 or not isinstance(array.args[0], Call):
        return None
    owner, offset, dtype = array.args[0], array.args[1], array.args[4]
    buffer = owner.args[0] if owner.name in (ARRAY, _SPAN) and owner.args else None
    if not isinstance(buffer, Buffer) or not isinstance(offset, int) or not isinstance(dtype, str):
        return None
    return (buffer, offset, dtype, integers(array.args[2]), integers(array.args[3])) if _size_of(dtype) else None


def _size_of(dtype: str) -> int:
    """The bytes of an item; 0 where such items are not read here."""
    if dtype[1:4] == "M8[":
        return 8
    return struct.calcsize(f"<{FORMATS[dtype[1:]]}") if dtype[1:] in FORMATS else 0


def _dense_strides(shape: tuple[int, ...], item: int, order: str) -> tuple[int, ...]:
    last_first = range(len(shape)) if order == "F" else reversed(range(len(shape)))
    strides, step = [0] * len(shape), item
    for axis in last_first:
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def elements_of(stored: Stored, values: object, row: int = 0) -> Elements | None:
    """What can be read of a column: `values` is a block of a table, an index, or a column of its own."""
    if not isinstance(values, Call):
        return None
    match values.name:
        case name if name in (ARRAY, _VIEW):
            return numbers_of(stored, values, row)
        case name if name == _ARROW:
            return _arrow(stored, values)
        case name if name == _MOMENTS:
            return _backed(stored, values, row)
        case name if name in (_FEW_OBJECTS, OBJECTS, _OBJECT_VIEW):
            return _objects(stored, values, row)
        case name if name in (_INDEX, "pandas.core.indexes.datetimes._new_DatetimeIndex"):
            return _index(stored, values.args[1] if len(values.args) > 1 else None)
        case name if name in (_OF_SEVERAL, _INDEX_OF_BLOCK):
            given = items_of(values.args[1]) if len(values.args) > 1 else ()
            return _index(stored, given[1] if len(given) > 1 else None)
        case name if name.endswith(_MASKED):
            return _masked(stored, values)
        case _:
            return None


def _masked(stored: Stored, column: Call) -> Elements | None:
    state = items_of(column.state[0]) if column.state else ()
    said = {str(name): held for name, held in zip(state[::2], state[1::2], strict=False)}
    numbers, missing = (numbers_of(stored, said.get(name)) for name in ("_data", "_mask"))
    return None if numbers is None or missing is None else Masked(numbers, missing)


def _arrow(stored: Stored, column: Call) -> Elements | None:
    parts: list[Elements] = []
    for text in calls(column.args[1], _ARROW_TEXT):
        made = _arrow_text(stored, text)
        if made is None:
            return None
        parts.append(made)
    for chunk in calls(column.args[1], "pyarrow.lib._restore_array"):
        fields = items_of(chunk.args[0])
        kind = fields[0] if fields else None
        code = _STRINGS.get(str(kind.args[0])) if isinstance(kind, Call) and kind.args else None
        if code is None or len(fields) < 5:
            return None
        count, first = (one if isinstance(one, int) else 0 for one in (fields[1], fields[3]))
        read = _texts(stored, items_of(fields[4]), code, first, count)
        if read is None:
            return None
        parts.append(read)
    return Chained(parts) if parts else None


def _arrow_text(stored: Stored, text: Call) -> Elements | None:
    """Text in one piece, as its buffers alone."""
    kind, _, count, first, buffers = text.args if len(text.args) == 5 else ("", False, None, None, ())
    if not isinstance(count, int) or not isinstance(first, int):
        return None
    return _texts(stored, items_of(buffers), "q" if kind == "LargeStringArray" else "i", first, count)


def _texts(stored: Stored, buffers: Sequence[object], code: str, first: int, count: int) -> Elements | None:
    """Which are missing, where each ends, and all texts in a row."""
    if len(buffers) < 3:
        return None
    valid, ends, text = (_arrow_buffer(stored, one) for one in buffers[:3])
    item = "i8" if code == "q" else "i4"
    if ends is None or text is None or min(count, first) < 0 or ends.size < (first + count + 1) * int(item[1]):
        return None
    return Texts(valid, Numbers(ends, f"<{item}", 0, first + count + 1), text, first, count)


def _arrow_buffer(stored: Stored, found: object) -> Memory | None:
    held = found.args[0] if isinstance(found, Call) and found.args else found
    return Memory(stored, held) if isinstance(held, (Buffer, bytes)) else None


def _backed(stored: Stored, column: Call, row: int) -> Elements | None:
    """Dates, categories and texts that are Python's own: their state is a dtype and an array."""
    state = items_of(column.state[0]) if column.state else ()
    if len(state) < 2 or not isinstance(state[0], Call) or not isinstance(state[1], Call):
        return None
    if state[1].name in (_FEW_OBJECTS, OBJECTS, _OBJECT_VIEW):
        return _objects(stored, state[1], row)
    zone = "" if state[0].name == "numpy.dtype" else "Z"
    numbers = numbers_of(stored, state[1], row, zone)
    if numbers is None or not state[0].name.endswith("CategoricalDtype"):
        return numbers
    found = calls(state[0], _INDEX) or calls(state[0], _INDEX_OF_BLOCK)
    values = elements_of(stored, found[0]) if found else None
    return None if values is None else Categories(numbers, values)


def _objects(stored: Stored, array: Call, row: int) -> Elements | None:
    if array.name == _OBJECT_VIEW:
        return _picked_objects(stored, array, row)
    if array.name == OBJECTS:
        return _coded_objects(stored, array, row)
    state = items_of(array.state[0]) if array.state else ()
    found = items_of(state[0]) if state else ()
    shape = integers(array.args[0])
    if not shape or len(found) != prod(shape) or (len(shape) == 2 and array.args[1] != "C"):
        return None
    width = shape[-1]
    return Things(found[row * width : (row + 1) * width] if len(shape) == 2 else found)


def _picked_objects(stored: Stored, view: Call, row: int) -> Elements | None:
    """Objects of an array that is stored as a part of another one."""
    owner, offset, shape, strides = view.args[0], view.args[1], integers(view.args[2]), integers(view.args[3])
    if not isinstance(owner, Call) or not isinstance(offset, int) or len(view.args) > 5:  # a column of records
        return None
    if len(shape) == 2 and 0 <= row < shape[0]:
        offset, shape, strides = offset + row * strides[0], shape[1:], strides[1:]
    if len(shape) != 1 or len(strides) != 1 or offset % _POINTER or strides[0] % _POINTER or not strides[0]:
        return None
    first, step = offset // _POINTER, strides[0] // _POINTER
    places, all_objects = range(first, first + shape[0] * step, step), _in_memory_order(stored, owner)
    if all_objects is None or (places and not 0 <= min(places) <= max(places) < all_objects.count):
        return None
    return Picked(all_objects, places)


def _in_memory_order(stored: Stored, owner: Call) -> Elements | None:
    if owner.name == OBJECTS:
        return _coded_objects(stored, Call(OBJECTS, (*owner.args[:2], (prod(integers(owner.args[2])),), "C")), 0)
    state = items_of(owner.state[0]) if owner.name == _FEW_OBJECTS and owner.state else ()
    return Things(items_of(state[0])) if state and len(owner.args) == 2 else None


def _coded_objects(stored: Stored, array: Call, row: int) -> Elements | None:
    atoms, shape = atoms_of(stored, array), integers(array.args[2])
    if atoms is None or (len(shape) == 2 and array.args[3] != "C"):
        return None
    start, width = (row * shape[1], shape[1]) if len(shape) == 2 else (0, prod(shape))
    codes = array.args[0]
    if not isinstance(codes, Buffer) or not stored.blobs[codes.position].size:  # all are distinct
        return Things(atoms[start : start + width])
    numbers = Numbers(Memory(stored, codes), f"<u{code_size(len(atoms))}", start, width)
    return Categories(numbers, Things(atoms))


def _index(stored: Stored, given: object) -> Elements | None:
    """The labels of a table's rows or columns. `given`: what they are made of, by name."""
    fields = items_of(given)
    said = {str(name): held for name, held in zip(fields[::2], fields[1::2], strict=False)}
    if "start" in said:
        start, stop, step = (said.get(name) for name in ("start", "stop", "step"))
        if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int) and step:
            return Steps(range(start, stop, step))
        return None
    if "levels" in said:
        levels, codes = items_of(said["levels"]), items_of(said.get("codes"))
        parts = [_coded(stored, level, code) for level, code in zip(levels, codes, strict=False)]
        return Joined([part for part in parts if part is not None]) if parts and None not in parts else None
    return elements_of(stored, said.get("data"))


def _coded(stored: Stored, level: object, codes: object) -> Elements | None:
    values, numbers = elements_of(stored, level), numbers_of(stored, codes)
    return None if values is None or numbers is None else Categories(numbers, values)
