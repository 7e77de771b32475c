"""Elements read from the stored memory of arrays: numbers, dates, texts, categories. Nothing is unpickled.

Only the pieces that hold what is asked for are read. Libraries are not needed: what a dtype means is written here.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import Final, Literal, Protocol

from agent_kernel.repository import Blob, Kind
from agent_kernel.repository.blobs import chunks_of
from agent_kernel.values.peeking import Buffer, Name
from agent_kernel.verbs.contents import Stored

__all__ = [
    "FORMATS",
    "UNREAD",
    "Categories",
    "Chained",
    "Elements",
    "Joined",
    "Masked",
    "Memory",
    "Moment",
    "Numbers",
    "Picked",
    "Steps",
    "Texts",
    "Things",
    "all_of",
    "differ",
    "values_of",
]

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
_KEPT: Final = 16  # pieces that stay in memory while an array is read
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

    def at(self, place: int) -> object:
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
            if len(self._pieces) >= _KEPT:
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

    def raw(self, place: int, count: int) -> bytes:
        """The stored bytes of some numbers in a row."""
        return self._bytes(place, count)

    def at(self, place: int) -> object:
        return self._show(self.span(place, 1)[0])

    def span(self, place: int, count: int) -> tuple[float, ...]:
        """Some numbers in a row, as they are stored."""
        return struct.unpack(f"{self._order}{count}{self._code}", self._bytes(place, count))

    def _bytes(self, place: int, count: int) -> bytes:
        first = self._start + place * self._step
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

    def unlike(self, other: Numbers) -> list[int] | None:
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
                found += [place for place, (one, two) in pairs if one != two and (one == one or two == two)]
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

    def at(self, place: int) -> object:
        place += self._first
        if self._valid is not None and not self._valid.read(place // 8, place // 8 + 1)[0] >> place % 8 & 1:
            return None
        start, stop = self._ends.span(place, 2)
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
            for at, place in enumerate(range(self._first, self._first + self.count)):
                if not valid[place // 8] >> place % 8 & 1:
                    found[at] = None
        return found


class Chained:
    """Several chunks as one column."""

    def __init__(self, parts: Sequence[Elements]) -> None:
        self._parts = parts
        self._ends = list(accumulate(part.count for part in parts))
        self.count = self._ends[-1] if parts else 0

    def at(self, place: int) -> object:
        part = bisect_right(self._ends, place)
        return self._parts[part].at(place - (self._ends[part - 1] if part else 0))

    def values(self) -> Sequence[object] | None:
        """All elements; None where one of the chunks cannot be read as a whole."""
        found = [values_of(part) for part in self._parts]
        return None if None in found else [value for part in found for value in part or ()]


class Categories:
    """Values that are told by their place among a few."""

    def __init__(self, codes: Numbers, values: Elements) -> None:
        self._codes, self._values = codes, values
        self.count = codes.count

    def at(self, place: int) -> object:
        code = int(self._codes.span(place, 1)[0])
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

    def at(self, place: int) -> object:
        return self._steps[place]


class Things:
    """Objects that stand in the stream itself. Only plain ones are read."""

    def __init__(self, found: Sequence[object]) -> None:
        self._found = found
        self.count = len(found)

    def at(self, place: int) -> object:
        one = self._found[place]
        if isinstance(one, Name) and one.text.endswith((".NA", ".NaT")):
            return None
        return _plain(one) if one is None or isinstance(one, (bool, int, float, str)) else UNREAD


class Picked:
    """Some of the elements of another column, in steps."""

    def __init__(self, values: Elements, places: range) -> None:
        self._values, self._places = values, places
        self.count = len(places)

    def at(self, place: int) -> object:
        return self._values.at(self._places[place])


class Masked:
    """Numbers of which some are missing."""

    def __init__(self, values: Numbers, missing: Numbers) -> None:
        self._values, self._missing = values, missing
        self.count = min(values.count, missing.count)

    def at(self, place: int) -> object:
        return None if self._missing.span(place, 1)[0] else self._values.at(place)


class Joined:
    """Labels of several parts."""

    def __init__(self, parts: Sequence[Elements]) -> None:
        self._parts = parts
        self.count = min(part.count for part in parts)

    def at(self, place: int) -> object:
        found = [part.at(place) for part in self._parts]
        return UNREAD if UNREAD in found else Moment(", ".join("missing" if one is None else str(one) for one in found))


def all_of(elements: Elements) -> Sequence[object] | None:
    """All elements, to be compared with others of the same kind; None where that takes long."""
    if isinstance(elements, Numbers):
        return elements.span(0, elements.count) if elements.count <= _MOST_NUMBERS else None
    if elements.count > (_MOST_NUMBERS if isinstance(elements, (Steps, Things)) else _MOST_TEXTS):
        return None
    return [elements.at(place) for place in range(elements.count)]


def values_of(elements: Elements) -> Sequence[object] | None:
    """All elements as something that can be compared with other columns of their kind; None where some cannot be read."""
    if elements.count > _MOST_VALUES:
        return None
    if isinstance(elements, (Texts, Chained, Categories)):
        return elements.values()
    found = (
        elements.span(0, elements.count)
        if isinstance(elements, Numbers)
        else [elements.at(place) for place in range(elements.count)]
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
        said = moment.isoformat(" ")
        return Moment((said.removesuffix(" 00:00:00") if not zone else said) + zone)

    return show
