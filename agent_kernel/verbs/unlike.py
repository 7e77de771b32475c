"""Which elements of two stored arrays differ, found piece by piece: pieces of the same id are not even read."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, compress, count
from operator import ne
from typing import Final, NamedTuple, TypeAlias

import msgspec

from agent_kernel.repository import Blob, Kind, ObjectId
from agent_kernel.repository.blobs import chunks_of, read_blob
from agent_kernel.repository.cuts import PIECE
from agent_kernel.session import Repository
from agent_kernel.verbs.text import plural

__all__ = ["Unlike", "in_units", "unlike", "unlike_numbers"]

_MOST_COMPARED: Final = 64_000_000  # bytes of both sides; of more the first pieces that differ are compared
_LONGEST_S: Final = 1.0  # of work, after which no other piece is compared
_MOST_PLACES: Final = 200

_Read: TypeAlias = Callable[[], bytes]


class Unlike(msgspec.Struct):
    """How many elements differ, the first and the last of them, and where the first hundreds are.

    `left`: elements of pieces that differ and were not compared, because that takes long.
    """

    many: int = 0
    first: int = -1
    last: int = -1
    places: list[int] = msgspec.field(default_factory=list[int])
    left: int = 0

    def add(self, place: int, limit: int) -> None:
        if 0 <= place < limit and place != self.last:  # one element may be compared in several parts
            self.many += 1
            self.last = place
            if self.first < 0:
                self.first = place
            if len(self.places) < _MOST_PLACES:
                self.places.append(place)

    def add_all(self, places: list[int], shift: int, limit: int) -> None:
        """The same for many in order, each of another element. `shift`: what has to be added to each place."""
        places = places[bisect_left(places, -shift) : bisect_left(places, limit - shift)]
        if not places:
            return
        self.many += len(places)
        self.last = places[-1] + shift
        if self.first < 0:
            self.first = places[0] + shift
        self.places += [place + shift for place in places[: max(0, _MOST_PLACES - len(self.places))]]

    def told(self, total: int, noun: str, row: int) -> str:
        """`2 of 1,000 rows differ, between rows 5 and 17`; a single one is `row 5`. `row`: elements in one; 0: unknown."""
        if self.left:
            least = f"at least {self.many:,} of {plural(total, noun)} differ"
            return f"{least} ({min(self.left, total):,} more lie in pieces that differ and were not compared)"
        said = f"{self.many:,} of {plural(total, noun)} {'differs' if self.many == 1 else 'differ'}"
        if not row:
            return said
        first, last = self.first // row, self.last // row
        return f"{said}: row {first:,}" if first == last else f"{said}, between rows {first:,} and {last:,}"


def unlike(repo: Repository, one: Blob, other: Blob, whole: int, start: int, many: int) -> Unlike | None:
    """How `many` elements from `start` on differ, counted from there; None where that cannot be told.

    Args:
        whole: how many elements the memory holds in all.
    """
    if not whole or one.size != other.size or other.size % whole:
        return None
    item = other.size // whole
    pieces = _pieces(repo, one, other, start * item, (start + many) * item)
    if pieces is None:
        return None
    found = Unlike()
    left, end_s = pieces.left, time.thread_time() + _LONGEST_S
    for at, size, first, second in pieces.compared:
        if time.thread_time() > end_s:
            left += size
            continue
        old, new = first(), second()
        unit = next(size for size in (8, 4, 2, 1) if not (item % size or at % size or len(old) % size))
        differ = compress(count(), map(ne, in_units(old, unit), in_units(new, unit)))
        if unit == item:
            found.add_all(list(differ), at // item - start, many)
        else:
            for place in differ:
                found.add((at + place * unit) // item - start, many)
    found.left = left // item
    return found


def unlike_numbers(old: Iterable[int], new: Iterable[int], many: int) -> Unlike:
    """How many of `many` elements differ. Those of the same number are equal."""
    found = Unlike()
    found.add_all(list(compress(count(), map(ne, old, new))), 0, many)
    return found


def in_units(piece: bytes, size: int) -> memoryview[int]:
    """The bytes as numbers of this size: fewer to compare."""
    view = memoryview(piece)
    return view.cast("Q") if size == 8 else view.cast("I") if size == 4 else view.cast("H") if size == 2 else view


class _Pieces(NamedTuple):
    """Where each begins, how long it is, and what reads either side; and the bytes of those that are not compared."""

    compared: Sequence[tuple[int, int, _Read, _Read]]
    left: int = 0


def _pieces(repo: Repository, one: Blob, other: Blob, low: int, high: int) -> _Pieces | None:
    """The pieces between two offsets that differ; None: they are cut at other places."""
    if one.inline is not None or other.inline is not None:
        return _Pieces([(0, one.size, partial(_whole, repo, one), partial(_whole, repo, other))])
    sides = [chunks_of(repo.objects, blob) for blob in (one, other)]
    lengths = [[size for _, size in side] for side in sides]
    if lengths[0] != lengths[1]:
        return None
    starts = accumulate(lengths[0], initial=0)
    unlike = [
        (at, size, first, second)
        for at, (first, size), (second, _) in zip(starts, *sides, strict=False)
        if first != second and at < high and at + size > low
    ]
    room = _MOST_COMPARED // (2 * PIECE)
    compared = [
        (at, size, partial(_chunk, repo, first), partial(_chunk, repo, second))
        for at, size, first, second in unlike[:room]
    ]
    return _Pieces(compared, sum(size for _, size, _, _ in unlike[room:]))


def _whole(repo: Repository, blob: Blob) -> bytes:
    return bytes(read_blob(repo.objects, blob))


def _chunk(repo: Repository, id: ObjectId) -> bytes:
    return repo.objects.get(Kind.CHUNK, id)
