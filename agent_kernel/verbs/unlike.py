"""Which elements of two stored arrays differ, found piece by piece: pieces of the same id are not even read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, compress, count
from operator import ne
from typing import Final

import msgspec

from agent_kernel.repository import Blob, Kind, ObjectId
from agent_kernel.repository.blobs import chunks_of, read_blob
from agent_kernel.repository.cuts import PIECE
from agent_kernel.session import Repository
from agent_kernel.verbs.text import plural

__all__ = ["Unlike", "unlike"]

_MOST_COMPARED: Final = 64_000_000  # bytes of both sides; of more it is only said that they differ
_MOST_PLACES: Final = 200


class Unlike(msgspec.Struct):
    """How many elements differ, the first and the last of them, and where the first hundreds are."""

    many: int = 0
    first: int = -1
    last: int = -1
    places: list[int] = msgspec.field(default_factory=list[int])

    def add(self, place: int, limit: int) -> None:
        if 0 <= place < limit and place != self.last:  # one element may be compared in several parts
            self.many += 1
            self.last = place
            if self.first < 0:
                self.first = place
            if len(self.places) < _MOST_PLACES:
                self.places.append(place)

    def told(self, total: int, noun: str, row: int) -> str:
        """`2 of 1,000 rows differ, between rows 5 and 17`; a single one is `row 5`. `row`: elements in one; 0: unknown."""
        said = f"{self.many:,} of {plural(total, noun)} {'differs' if self.many == 1 else 'differ'}"
        if not row:
            return said
        first, last = self.first // row, self.last // row
        return f"{said}: row {first:,}" if first == last else f"{said}, between rows {first:,} and {last:,}"


def unlike(repo: Repository, one: Blob, other: Blob, whole: int, start: int, many: int) -> Unlike | None:
    """How `many` elements from `start` on differ, counted from there; None where that cannot be told, or takes long.

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
    for at, first, second in pieces:
        unit = next(size for size in (8, 4, 2, 1) if not (item % size or at % size or len(first) % size))
        differ = map(ne, _in_units(first, unit), _in_units(second, unit))
        for place in compress(count(), differ):
            found.add((at + place * unit) // item - start, many)
    return found


def _in_units(piece: bytes, size: int) -> memoryview[int]:
    """The bytes as numbers of this size: fewer to compare."""
    view = memoryview(piece)
    return view.cast("Q") if size == 8 else view.cast("I") if size == 4 else view.cast("H") if size == 2 else view


def _pieces(repo: Repository, one: Blob, other: Blob, low: int, high: int) -> Iterator[tuple[int, bytes, bytes]] | None:
    """The pieces between two offsets that differ: where they begin, and the bytes of both; None: too much to compare."""
    if one.inline is not None or other.inline is not None:
        return iter([(0, bytes(read_blob(repo.objects, one)), bytes(read_blob(repo.objects, other)))])
    sides = [chunks_of(repo.objects, blob) for blob in (one, other)]
    lengths = [[size for _, size in side] for side in sides]
    if lengths[0] != lengths[1]:
        return None
    starts = accumulate(lengths[0], initial=0)
    unlike = [
        (at, first, second)
        for at, (first, size), (second, _) in zip(starts, *sides, strict=False)
        if first != second and at < high and at + size > low
    ]
    if 2 * PIECE * len(unlike) > _MOST_COMPARED:
        return None
    return ((at, _chunk(repo, first), _chunk(repo, second)) for at, first, second in unlike)


def _chunk(repo: Repository, id: ObjectId) -> bytes:
    return repo.objects.get(Kind.CHUNK, id)
