"""Elements read from the stored memory of arrays: numbers, dates, texts, categories. Nothing is unpickled.

Only the pieces that hold what is asked for are read. Libraries are not needed: what a dtype means is written here.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from math import prod
from typing import Final, Protocol

from agent_kernel.repository import Blob, Kind
from agent_kernel.repository.blobs import chunks_of
from agent_kernel.values.peeking import Buffer, Call, calls
from agent_kernel.verbs.stored import ARRAY, Stored, integers, items_of

__all__ = ["UNREAD", "Elements", "Memory", "Moment", "Numbers", "all_of", "elements_of", "numbers_of"]

_FORMATS: Final = {
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
_MICROSECONDS: Final = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_NEVER: Final = -(1 << 63)  # numpy's missing date
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KEPT: Final = 16  # pieces that stay in memory while an array is read
_MOST_NUMBERS: Final = 200_000  # of a column that are compared one by one
_MOST_TEXTS: Final = 25_000
_STRINGS: Final = {"string": "i", "large_string": "q", "utf8": "i", "large_utf8": "q"}
_ARROW: Final = "agent_kernel.values.restore.frames.arrow_column"
_MOMENTS: Final = "pandas._libs.arrays.__pyx_unpickle_NDArrayBacked"
_OBJECTS: Final = "agent_kernel.values.restore.arrays.object_array_bare"


class Moment(str):
    """A date, as text."""

    __slots__ = ()


class Unread:
    """An element that is not read here."""


UNREAD: Final = Unread()


class Elements(Protocol):
    """A column, or an array, element by element."""

    @property
    def count(self) -> int: ...

    def at(self, place: int) -> object:
        """One element; None where it is missing, UNREAD where it cannot be told."""
        ...


class Memory:
    """The bytes of one buffer, read piece by piece."""

    def __init__(self, stored: Stored, buffer: Buffer) -> None:
        self._objects = stored.repo.objects
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
            if len(self._pieces) >= _KEPT:
                self._pieces.clear()
            found = self._pieces[number] = self._objects.get(Kind.CHUNK, self._ids[number])
        return found


class Numbers:
    """Numbers, truth values or dates that lie one after the other."""

    def __init__(self, memory: Memory, dtype: str, start: int, count: int, zone: str = "") -> None:
        self._memory = memory
        self._start, self.count = start, count
        self._show: Callable[[object], object] = _moments(dtype, zone) if dtype[1:3] == "M8" else _plain
        self.is_number = dtype[1:3] != "M8"
        code = _FORMATS["i8" if dtype[1:3] == "M8" else dtype[1:]]
        self._code, self._order = code, ">" if dtype[0] == ">" else "<"
        self._item = struct.calcsize(f"{self._order}{code}")

    def at(self, place: int) -> object:
        return self._show(self.span(place, 1)[0])

    def span(self, place: int, count: int) -> tuple[float, ...]:
        """Some numbers in a row, as they are stored."""
        at = (self._start + place) * self._item
        return struct.unpack(f"{self._order}{count}{self._code}", self._memory.read(at, at + count * self._item))

    def sample(self, most: int) -> Iterator[tuple[float, ...]]:
        """All numbers, or of more than `most` stretches from the beginning to the end."""
        step = 16_384
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

    def at(self, place: int) -> object:
        place += self._first
        if self._valid is not None and not self._valid.read(place // 8, place // 8 + 1)[0] >> place % 8 & 1:
            return None
        start, stop = self._ends.span(place, 2)
        return self._text.read(int(start), min(int(stop), int(start) + 4_000)).decode("utf-8", "replace")


class Chained:
    """Several chunks as one column."""

    def __init__(self, parts: Sequence[Elements]) -> None:
        self._parts = parts
        self._ends = list(accumulate(part.count for part in parts))
        self.count = self._ends[-1] if parts else 0

    def at(self, place: int) -> object:
        part = bisect_right(self._ends, place)
        return self._parts[part].at(place - (self._ends[part - 1] if part else 0))


class Categories:
    """Values that are told by their place among a few."""

    def __init__(self, codes: Numbers, values: Elements) -> None:
        self._codes, self._values = codes, values
        self.count = codes.count

    def at(self, place: int) -> object:
        code = int(self._codes.span(place, 1)[0])
        return None if code < 0 else self._values.at(code)


class Steps:
    """The numbers of a range."""

    def __init__(self, steps: range) -> None:
        self._steps = steps
        self.count = len(steps)

    def at(self, place: int) -> object:
        return self._steps[place]


class Things:
    """Objects that stand in the stream itself. Only plain ones are read."""

    def __init__(self, found: Sequence[object]) -> None:
        self._found = found
        self.count = len(found)

    def at(self, place: int) -> object:
        one = self._found[place]
        return one if one is None or isinstance(one, (bool, int, float, str)) else UNREAD


def all_of(elements: Elements) -> Sequence[object] | None:
    """All elements, to be compared with others of the same kind; None where that takes long."""
    if isinstance(elements, Numbers):
        return elements.span(0, elements.count) if elements.count <= _MOST_NUMBERS else None
    if elements.count > (_MOST_NUMBERS if isinstance(elements, (Steps, Things)) else _MOST_TEXTS):
        return None
    return [elements.at(place) for place in range(elements.count)]


def numbers_of(stored: Stored, array: object, row: int = 0, rows: int = 1, zone: str = "") -> Numbers | None:
    """The numbers of an array, or of one of its `rows` rows; None if it holds something else."""
    if not isinstance(array, Call) or array.name != ARRAY or not isinstance(array.args[0], Buffer):
        return None
    dtype, shape = array.args[1], integers(array.args[2])
    if not isinstance(dtype, str) or (dtype[1:] not in _FORMATS and dtype[1:4] != "M8["):
        return None
    total = prod(shape)
    memory = Memory(stored, array.args[0])
    if memory.size != total * struct.calcsize(f"<{_FORMATS['i8' if dtype[1:3] == 'M8' else dtype[1:]]}"):
        return None
    return Numbers(memory, dtype, row * (total // rows), total // rows, zone)


def elements_of(stored: Stored, values: object, row: int = 0) -> Elements | None:
    """What can be read of a column: `values` is a block of a table, an index, or a column of its own."""
    if not isinstance(values, Call):
        return None
    match values.name:
        case name if name == ARRAY:
            shape = integers(values.args[2])
            if len(shape) == 2 and values.args[3] != "C":
                return None
            return numbers_of(stored, values, row, shape[0] if len(shape) == 2 else 1)
        case name if name == _ARROW:
            return _arrow(stored, values)
        case name if name == _MOMENTS:
            return _backed(stored, values, row)
        case name if name == _OBJECTS:
            return _objects(values, row)
        case "pandas.core.indexes.base._new_Index" | "pandas.core.indexes.datetimes._new_DatetimeIndex":
            return _index(stored, values)
        case _:
            return None


def _arrow(stored: Stored, column: Call) -> Elements | None:
    parts: list[Elements] = []
    for chunk in calls(column.args[1], "pyarrow.lib._restore_array"):
        fields = items_of(chunk.args[0])
        kind = fields[0] if fields else None
        code = _STRINGS.get(str(kind.args[0])) if isinstance(kind, Call) and kind.args else None
        if code is None or len(fields) < 5:
            return None
        count, first = (one if isinstance(one, int) else 0 for one in (fields[1], fields[3]))
        valid, ends, text = (_arrow_buffer(stored, one) for one in items_of(fields[4])[:3])
        if ends is None or text is None:
            return None
        item = "i8" if code == "q" else "i4"
        if min(count, first) < 0 or ends.size < (first + count + 1) * int(item[1]):
            return None
        parts.append(Texts(valid, Numbers(ends, f"<{item}", 0, first + count + 1), text, first, count))
    return Chained(parts) if parts else None


def _arrow_buffer(stored: Stored, found: object) -> Memory | None:
    held = found.args[0] if isinstance(found, Call) and found.args else None
    return Memory(stored, held) if isinstance(held, Buffer) else None


def _backed(stored: Stored, column: Call, row: int) -> Elements | None:
    """Dates and categories: their state is a dtype and an array."""
    state = items_of(column.state[0]) if column.state else ()
    if len(state) < 2 or not isinstance(state[0], Call) or not isinstance(state[1], Call):
        return None
    shape = integers(state[1].args[2]) if len(state[1].args) > 2 else ()
    zone = "" if state[0].name == "numpy.dtype" else "Z"
    numbers = numbers_of(stored, state[1], row, shape[0] if len(shape) == 2 else 1, zone)
    if numbers is None or not state[0].name.endswith("CategoricalDtype"):
        return numbers
    found = calls(state[0], "pandas.core.indexes.base._new_Index")
    values = elements_of(stored, found[0]) if found else None
    return None if values is None else Categories(numbers, values)


def _objects(array: Call, row: int) -> Elements | None:
    state = items_of(array.state[0]) if array.state else ()
    found = items_of(state[0]) if state else ()
    shape = integers(array.args[0])
    if not shape or len(found) != prod(shape) or (len(shape) == 2 and array.args[1] != "C"):
        return None
    width = shape[-1]
    return Things(found[row * width : (row + 1) * width] if len(shape) == 2 else found)


def _index(stored: Stored, index: Call) -> Elements | None:
    """The labels of a table's rows or columns."""
    parts = items_of(index.args[1]) if len(index.args) > 1 else ()
    said = dict(zip(parts[::2], parts[1::2], strict=False)) if all(isinstance(one, str) for one in parts[::2]) else {}
    if "start" in said:
        start, stop, step = (said.get(name) for name in ("start", "stop", "step"))
        if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int) and step:
            return Steps(range(start, stop, step))
        return None
    return elements_of(stored, said.get("data"))


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
        said = moment.isoformat(" ")
        return Moment((said.removesuffix(" 00:00:00") if not zone else said) + zone)

    return show
