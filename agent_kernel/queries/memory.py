"""Elements read from the stored memory of arrays: numbers, dates, texts, categories. Nothing is unpickled.

Only the pieces that hold what is asked for are read. Libraries are not needed: what a dtype means is written here.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from math import prod
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from agent_kernel.commands.contents import (
    ARRAY,
    OBJECTS,
    Part,
    Stored,
    atoms_of,
    code_size,
    columns_of,
    integers,
    items_of,
)
from agent_kernel.queries.wording import shorten_line
from agent_kernel.repository import Blob, Kind
from agent_kernel.repository.objects import chunks_of
from agent_kernel.values import previews
from agent_kernel.values.previews import MASK, Preview
from agent_kernel.values.previews.redaction import labels_a_secret, speaks_of_secrets
from agent_kernel.values.streams import Buffer, Call, Name, calls

FORMATS: Final = {
    "f8": "d",
    "f4": "f",
    "f2": "e",
    "b1": "?",
    "i8": "q",
    "i4": "i",
    "i2": "h",
    "i1": "b",
    "u8": "Q",
    "u4": "I",
    "u2": "H",
    "u1": "B",
}
_OF_SIZE: Final[dict[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
_MICROSECONDS: Final = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_NEVER: Final = -(1 << 63)  # numpy's missing date
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STRETCH: Final = 16_384  # numbers that are read at once
_MOST_COMPARED: Final = 32_000_000  # bytes of a column
_CACHED_PIECES: Final = 16  # pieces that stay in memory while an array is read
_MOST_NUMBERS: Final = 200_000  # of a column that are compared one by one
_MOST_TEXTS: Final = 25_000
_MOST_OF_TEXT: Final = 64_000_000  # bytes of a column that is read as a whole
_MOST_VALUES: Final = 2_000_000  # of a column that is read as a whole


class Moment(str):
    """A date, or a label of several parts, as text."""

    __slots__ = ()


class Unread:
    """An element that is not read here."""


UNREAD: Final = Unread()


class Elements(Protocol):
    """A column, or an array, element by element."""

    @property
    def count(self) -> int: ...

    def at(self, index: int) -> object:
        """One element; None where it is missing, UNREAD where it cannot be told."""
        ...


class Memory:
    """The bytes of one buffer, read piece by piece, or the few that stand in the stream."""

    def __init__(self, stored: Stored, buffer: Buffer | bytes) -> None:
        self._objects = stored.repo.objects
        self._inline: bytes | None
        if isinstance(buffer, bytes):
            self.size, self._inline = len(buffer), buffer
            return
        blob: Blob = stored.blobs[buffer.position]
        self.size = blob.size
        self._inline = blob.inline
        chunks = list(chunks_of(self._objects, blob)) if blob.inline is None and blob.size else []
        self._ids = [id for id, _ in chunks]
        self._ends = list(accumulate(length for _, length in chunks))
        self._pieces: dict[int, bytes] = {}

    def read(self, start: int, stop: int) -> bytes:
        """The bytes of a range."""
        if self._inline is not None:
            return bytes(self._inline[start:stop])
        parts: list[bytes] = []
        while start < stop:
            piece = bisect_right(self._ends, start)
            first = self._ends[piece - 1] if piece else 0
            content = self._piece(piece)
            parts.append(content[start - first : stop - first])
            start = self._ends[piece]
        return b"".join(parts)

    def _piece(self, number: int) -> bytes:
        found = self._pieces.get(number)
        if found is None:
            if len(self._pieces) >= _CACHED_PIECES:
                self._pieces.clear()
            found = self._pieces[number] = self._objects.get(Kind.CHUNK, self._ids[number])
        return found


class Numbers:
    """Numbers, truth values or dates that lie one after the other, or `step` items apart."""

    def __init__(self, memory: Memory, dtype: str, start: int, count: int, zone: str = "", step: int = 1) -> None:
        self._memory = memory
        self._start, self.count, self._step = start, count, step
        self._show: Callable[[object], object] = _moments(dtype, zone) if dtype[1:3] == "M8" else _plain
        self.is_number = dtype[1:3] != "M8"
        self.is_boolean = dtype[1:] == "b1"
        code = FORMATS["i8" if dtype[1:3] == "M8" else dtype[1:]]
        self._code, self._order = code, ">" if dtype[0] == ">" else "<"
        self._item = struct.calcsize(f"{self._order}{code}")

    @property
    def form(self) -> tuple[str, str, bool]:
        """Equal for numbers whose equal bytes mean the same."""
        return self._code, self._order, self.is_number

    @property
    def item(self) -> int:
        """Bytes of a number."""
        return self._item

    def raw(self, index: int, count: int) -> bytes:
        """The stored bytes of some numbers in a row."""
        return self._bytes(index, count)

    def at(self, index: int) -> object:
        return self._show(self.span(index, 1)[0])

    def span(self, index: int, count: int) -> tuple[float, ...]:
        """Some numbers in a row, as they are stored."""
        return struct.unpack(f"{self._order}{count}{self._code}", self._bytes(index, count))

    def _bytes(self, index: int, count: int) -> bytes:
        first = self._start + index * self._step
        if self._step == 1:
            return self._memory.read(first * self._item, (first + count) * self._item)
        if not count:
            return b""
        last = first + (count - 1) * self._step
        low, high = min(first, last), max(first, last)
        around = memoryview(self._memory.read(low * self._item, (high + 1) * self._item))
        if not self._step:  # one number stands in all places
            return around.tobytes() * count
        return around.cast(_OF_SIZE[self._item])[:: self._step].tobytes()

    def find_differences(self, other: Numbers) -> list[int] | None:
        """The places at which the two differ; None where they are of different kinds, or too long to compare."""
        if (self._code, self._order, self.count) != (other._code, other._order, other.count):
            return None
        if self.count * self._item > _MOST_COMPARED:
            return None
        found: list[int] = []
        for at in range(0, self.count, _STRETCH):
            many = min(_STRETCH, self.count - at)
            if self._bytes(at, many) != other._bytes(at, many):
                pairs = enumerate(zip(self.span(at, many), other.span(at, many), strict=True), at)
                found += [index for index, (one, two) in pairs if one != two and (one == one or two == two)]
        return found

    def sample(self, most: int) -> Iterator[tuple[float, ...]]:
        """All numbers, or of more than `most` stretches from the beginning to the end."""
        step = _STRETCH
        if self.count <= most:
            yield from (self.span(at, min(step, self.count - at)) for at in range(0, self.count, step))
            return
        stretches = most // step
        for number in range(stretches):
            yield self.span((self.count - step) * number // (stretches - 1), step)


class Texts:
    """Texts as Arrow keeps them: where each begins, and all of them in a row."""

    def __init__(self, valid: Memory | None, ends: Numbers, text: Memory, first: int, count: int) -> None:
        self._valid, self._ends, self._text = valid, ends, text
        self._first, self.count = first, count

    def at(self, index: int) -> object:
        index += self._first
        if self._valid is not None and not self._valid.read(index // 8, index // 8 + 1)[0] >> index % 8 & 1:
            return None
        start, stop = self._ends.span(index, 2)
        return self._text.read(int(start), min(int(stop), int(start) + 4_000)).decode("utf-8", "replace")

    def values(self) -> Sequence[object] | None:
        """All texts, as bytes; None where that is much."""
        ends = [int(end) for end in self._ends.span(self._first, self.count + 1)]
        if not self.count or ends[-1] - ends[0] > _MOST_OF_TEXT:
            return None if self.count else ()
        text = self._text.read(ends[0], ends[-1])
        found: list[object] = [text[start - ends[0] : stop - ends[0]] for start, stop in pairwise(ends)]
        if self._valid is not None:
            valid = self._valid.read(0, (self._first + self.count + 7) // 8)
            for at, index in enumerate(range(self._first, self._first + self.count)):
                if not valid[index // 8] >> index % 8 & 1:
                    found[at] = None
        return found


class Chained:
    """Several chunks as one column."""

    def __init__(self, parts: Sequence[Elements]) -> None:
        self._parts = parts
        self._ends = list(accumulate(part.count for part in parts))
        self.count = self._ends[-1] if parts else 0

    def at(self, index: int) -> object:
        part = bisect_right(self._ends, index)
        return self._parts[part].at(index - (self._ends[part - 1] if part else 0))

    def values(self) -> Sequence[object] | None:
        """All elements; None where one of the chunks cannot be read as a whole."""
        found = [values_of(part) for part in self._parts]
        return None if None in found else [value for part in found for value in part or ()]


class Categories:
    """Values that are told by their place among a few."""

    def __init__(self, codes: Numbers, values: Elements) -> None:
        self._codes, self._values = codes, values
        self.count = codes.count

    def at(self, index: int) -> object:
        code = int(self._codes.span(index, 1)[0])
        return None if code < 0 else self._values.at(code)

    def values(self) -> Sequence[object] | None:
        """All elements; None where these cannot be read as a whole."""
        values = values_of(self._values)
        if values is None:
            return None
        known = [*values, None]  # a missing one has the code -1
        return [known[int(code)] for code in self._codes.span(0, self.count)]


class Steps:
    """The numbers of a range."""

    def __init__(self, steps: range) -> None:
        self._steps = steps
        self.count = len(steps)

    def at(self, index: int) -> object:
        return self._steps[index]


class Things:
    """Objects that stand in the stream itself. Only plain ones are read."""

    def __init__(self, found: Sequence[object]) -> None:
        self._found = found
        self.count = len(found)

    def at(self, index: int) -> object:
        one = self._found[index]
        if isinstance(one, Name) and one.text.endswith((".NA", ".NaT")):
            return None
        return _plain(one) if one is None or isinstance(one, (bool, int, float, str)) else UNREAD


class ColumnSample:
    """Some of the elements of another column, in steps."""

    def __init__(self, values: Elements, indices: range) -> None:
        self._values, self._indices = values, indices
        self.count = len(indices)

    def at(self, index: int) -> object:
        return self._values.at(self._indices[index])


class Masked:
    """Numbers of which some are missing."""

    def __init__(self, values: Numbers, missing: Numbers) -> None:
        self._values, self._missing = values, missing
        self.count = min(values.count, missing.count)

    def at(self, index: int) -> object:
        return None if self._missing.span(index, 1)[0] else self._values.at(index)


class Joined:
    """Labels of several parts."""

    def __init__(self, parts: Sequence[Elements]) -> None:
        self._parts = parts
        self.count = min(part.count for part in parts)

    def at(self, index: int) -> object:
        found = [part.at(index) for part in self._parts]
        return UNREAD if UNREAD in found else Moment(", ".join("missing" if one is None else str(one) for one in found))


def all_of(elements: Elements) -> Sequence[object] | None:
    """All elements, to be compared with others of the same kind; None where that takes long."""
    if isinstance(elements, Numbers):
        return elements.span(0, elements.count) if elements.count <= _MOST_NUMBERS else None
    if elements.count > (_MOST_NUMBERS if isinstance(elements, (Steps, Things)) else _MOST_TEXTS):
        return None
    return [elements.at(index) for index in range(elements.count)]


def values_of(elements: Elements) -> Sequence[object] | None:
    """All elements as something that can be compared with other columns of their kind; None where some cannot be read."""
    if elements.count > _MOST_VALUES:
        return None
    if isinstance(elements, (Texts, Chained, Categories)):
        return elements.values()
    found = (
        elements.span(0, elements.count)
        if isinstance(elements, Numbers)
        else [elements.at(index) for index in range(elements.count)]
    )
    if isinstance(elements, Numbers):
        return found if elements.is_number else None
    return None if UNREAD in found else found


def differ(old: object, new: object) -> bool:
    """Whether two elements are known to differ; numbers that are missing are alike."""
    return old is not new and old != new and not (old != old and new != new)


def _plain(found: object) -> object:
    return None if isinstance(found, float) and found != found else found


def _moments(dtype: str, zone: str) -> Callable[[object], object]:
    unit = dtype[4:].rstrip("]")
    scale = _MICROSECONDS.get(unit)

    def show(found: object) -> object:
        if not isinstance(found, int) or scale is None:
            return UNREAD
        if found == _NEVER:
            return None
        try:
            moment = (_EPOCH + timedelta(microseconds=found * scale)).replace(tzinfo=None)
        except OverflowError:
            return UNREAD
        text = moment.isoformat(" ")
        return Moment((text.removesuffix(" 00:00:00") if not zone else text) + zone)

    return show


# -- which stored memory is which column: from the description of a stream to elements that can be read

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
    placed = _layout_of(array)
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


_Layout: TypeAlias = "tuple[Buffer, int, str, tuple[int, ...], tuple[int, ...]]"


def _layout_of(array: object) -> _Layout | None:
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
            return _read_extension(stored, values, row)
        case name if name in (_FEW_OBJECTS, OBJECTS, _OBJECT_VIEW):
            return _objects(stored, values, row)
        case name if name in (_INDEX, "pandas.core.indexes.datetimes._new_DatetimeIndex"):
            return _index(stored, values.args[1] if len(values.args) > 1 else None)
        case name if name in (_OF_SEVERAL, _INDEX_OF_BLOCK):
            given = items_of(values.args[1]) if len(values.args) > 1 else ()
            return _index(stored, given[1] if len(given) > 1 else None)
        case name if name.endswith(_MASKED):
            return _read_masked(stored, values)
        case _:
            return None


def _read_masked(stored: Stored, column: Call) -> Elements | None:
    state = items_of(column.state[0]) if column.state else ()
    fields = {str(name): value for name, value in zip(state[::2], state[1::2], strict=False)}
    numbers, missing = (numbers_of(stored, fields.get(name)) for name in ("_data", "_mask"))
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
    buffer = found.args[0] if isinstance(found, Call) and found.args else found
    return Memory(stored, buffer) if isinstance(buffer, (Buffer, bytes)) else None


def _read_extension(stored: Stored, column: Call, row: int) -> Elements | None:
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
        return _read_object_view(stored, array, row)
    if array.name == OBJECTS:
        return _read_coded_objects(stored, array, row)
    state = items_of(array.state[0]) if array.state else ()
    found = items_of(state[0]) if state else ()
    shape = integers(array.args[0])
    if not shape or len(found) != prod(shape) or (len(shape) == 2 and array.args[1] != "C"):
        return None
    width = shape[-1]
    return Things(found[row * width : (row + 1) * width] if len(shape) == 2 else found)


def _read_object_view(stored: Stored, view: Call, row: int) -> Elements | None:
    """Objects of an array that is stored as a part of another one."""
    owner, offset, shape, strides = view.args[0], view.args[1], integers(view.args[2]), integers(view.args[3])
    if not isinstance(owner, Call) or not isinstance(offset, int) or len(view.args) > 5:  # a column of records
        return None
    if len(shape) == 2 and 0 <= row < shape[0]:
        offset, shape, strides = offset + row * strides[0], shape[1:], strides[1:]
    if len(shape) != 1 or len(strides) != 1 or offset % _POINTER or strides[0] % _POINTER or not strides[0]:
        return None
    first, step = offset // _POINTER, strides[0] // _POINTER
    indices, all_objects = range(first, first + shape[0] * step, step), _in_memory_order(stored, owner)
    if all_objects is None or (indices and not 0 <= min(indices) <= max(indices) < all_objects.count):
        return None
    return ColumnSample(all_objects, indices)


def _in_memory_order(stored: Stored, owner: Call) -> Elements | None:
    if owner.name == OBJECTS:
        return _read_coded_objects(stored, Call(OBJECTS, (*owner.args[:2], (prod(integers(owner.args[2])),), "C")), 0)
    state = items_of(owner.state[0]) if owner.name == _FEW_OBJECTS and owner.state else ()
    return Things(items_of(state[0])) if state and len(owner.args) == 2 else None


def _read_coded_objects(stored: Stored, array: Call, row: int) -> Elements | None:
    atoms, shape = atoms_of(stored, array), integers(array.args[2])
    if atoms is None or (len(shape) == 2 and array.args[3] != "C"):
        return None
    start, width = (row * shape[1], shape[1]) if len(shape) == 2 else (0, prod(shape))
    codes = array.args[0]
    if not isinstance(codes, Buffer) or not stored.blobs[codes.position].size:  # all are distinct
        return Things(atoms[start : start + width])
    numbers = Numbers(Memory(stored, codes), f"<u{code_size(len(atoms))}", start, width)
    return Categories(numbers, Things(atoms))


def _index(stored: Stored, description: object) -> Elements | None:
    """The labels of a table's rows or columns. `description`: what they are made of, by name."""
    fields = items_of(description)
    by_name = {str(name): value for name, value in zip(fields[::2], fields[1::2], strict=False)}
    if "start" in by_name:
        start, stop, step = (by_name.get(name) for name in ("start", "stop", "step"))
        if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int) and step:
            return Steps(range(start, stop, step))
        return None
    if "levels" in by_name:
        levels, codes = items_of(by_name["levels"]), items_of(by_name.get("codes"))
        parts = [_read_categories(stored, level, code) for level, code in zip(levels, codes, strict=False)]
        return Joined([part for part in parts if part is not None]) if parts and None not in parts else None
    return elements_of(stored, by_name.get("data"))


def _read_categories(stored: Stored, level: object, codes: object) -> Elements | None:
    values, numbers = elements_of(stored, level), numbers_of(stored, codes)
    return None if values is None or numbers is None else Categories(numbers, values)


# -- A stored table: its columns by name, and what its rows are called

_MANAGER = "pandas.core.internals.managers.BlockManager"
_SINGLE = "pandas.core.internals.managers.SingleBlockManager"
_MOST_COLUMNS = 2_000


class Frame(msgspec.Struct, frozen=True):
    """A stored table."""

    stored: Stored
    names: tuple[str, ...]
    dtypes: dict[str, str]
    parts: dict[str, Part]
    columns: dict[str, Elements | None]
    labels: Elements | None
    axis: object  # the description of the labels
    rows: int


def frame_of(stored: Stored, summary: previews.Preview) -> Frame | None:
    """The table; None where it is not kept as pandas keeps one."""
    axes = _axes(stored, summary)
    parts = columns_of(stored)
    if axes is None or parts is None or not 0 < len(parts) <= _MOST_COLUMNS or summary.shape[:1] == (-1,):
        return None
    names = _names(stored, axes[0], len(parts), summary)
    if names is None or len(set(names)) != len(names):
        return None
    known = {column.name: column.of for column in summary.columns}
    found = {name: parts[at] for at, name in enumerate(names) if at in parts}
    if len(found) != len(names):
        return None
    return Frame(
        stored,
        names,
        {name: known.get(name, summary.dtype) for name in names},
        found,
        {name: elements_of(stored, part[0].args[0], part[1]) for name, part in found.items()},
        elements_of(stored, axes[1]),
        axes[1],
        summary.shape[0],
    )


def _axes(stored: Stored, summary: previews.Preview) -> tuple[object, object] | None:
    if summary.kind == "series":
        managers = calls(stored.value, _SINGLE)
        if not managers:
            return None
        if len(managers[0].args) > 1:
            return None, managers[0].args[1]
        state = items_of(managers[0].state[0]) if managers[0].state else ()  # as earlier releases wrote it
        labels = items_of(state[0]) if state else ()
        return (None, labels[0]) if labels else None
    managers = calls(stored.value, _MANAGER)
    axes = items_of(managers[0].args[1]) if managers and len(managers[0].args) > 1 else ()
    return (axes[0], axes[1]) if len(axes) == 2 else None


def _names(stored: Stored, axis: object, count: int, summary: previews.Preview) -> tuple[str, ...] | None:
    if summary.kind == "series":
        return ("values",)
    found = elements_of(stored, axis)
    if found is None or found.count != count:
        return tuple(column.name for column in summary.columns) if len(summary.columns) == count else None
    return tuple(shorten_line(previews.mask_text(str(found.at(index)))) for index in range(count))


# -- which stored series hold a secret: their own name says so of all of it, a label of what stands beside it


def is_named_a_secret(stored: Stored) -> bool:
    """Whether this is a series that goes by the name of a secret, under whatever name the notebook keeps it."""
    value = stored.value
    if not isinstance(value, Call) or not value.name.endswith("Series") or not value.state:
        return False
    state = items_of(value.state[0])
    return any(name == "_name" and labels_a_secret(label) for name, label in zip(state[::2], state[1::2], strict=False))


def is_hidden(summary: Preview) -> bool:
    """Whether nothing but a mask was noted of what it holds."""
    return summary.kind == "series" and summary.text == MASK


def may_name_a_secret(labels: Elements | None) -> bool:
    """Whether one of the labels is, or where they are too many to be read may be, the name of a secret."""
    if labels is None or isinstance(labels, (Numbers, Steps)):
        return False
    found = all_of(labels)
    if found is None:
        return True
    return any(isinstance(one, str) and speaks_of_secrets(one) and labels_a_secret(str(one)) for one in found)
