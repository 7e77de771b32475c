"""Where a long container is cut, so that the cuts stay where they were.

A segment starts at the item that started one before, by identity. Items may be the same object many times over, as
small numbers are, so what stands at an equal distance from either end counts first, and in between only an item that
is there once. Of a container in which nothing moved the cuts are the same, which makes its bytes the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec

LENGTH = 1_000
SHORTEST, LONGEST = 250, 2_000


class Cuts(msgspec.Struct, frozen=True):
    """Where the segments of a container of this `length` begin, and the ids of the items there."""

    length: int
    starts: tuple[int, ...]
    ids: tuple[int, ...]

    @property
    def spans(self) -> list[tuple[int, int]]:
        return list(pairwise((*self.starts, self.length)))


NOWHERE = Cuts(0, (), ())


def cut(ids: Sequence[int], before: Cuts) -> Cuts:
    """Cut a container with items of these ids: where it was cut before, else every `LENGTH` items."""
    marks = _marks(ids, before)
    # Also where other objects stand at the cuts: an equal list made anew has the bytes of the one before.
    stayed = before.length == len(ids) and set(marks) <= set(before.starts)
    starts = before.starts if stayed else _bounded(marks, len(ids))
    return Cuts(len(ids), starts, tuple(ids[start] for start in starts))


def _marks(ids: Sequence[int], before: Cuts) -> list[int]:
    """Where the items are, in ascending order, at which segments began."""
    moved = len(ids) - before.length
    head = _equal_ones(ids, before, range(len(before.ids)), 0)
    low = head[-1] if head else -1
    last = [at for at in reversed(range(len(head), len(before.ids))) if before.starts[at] + moved > low]
    tail = _equal_ones(ids, before, last, moved)[::-1]
    high = tail[0] if tail else len(ids)
    wanted = set(before.ids[len(head) : len(before.ids) - len(tail)])
    if not wanted:
        return head + tail
    between = [at for at, item in enumerate(ids[low + 1 : high], low + 1) if item in wanted]
    times = Counter(map(ids.__getitem__, between))
    return [*head, *(at for at in between if times[ids[at]] == 1), *tail]


def _equal_ones(ids: Sequence[int], before: Cuts, some: range | list[int], moved: int) -> list[int]:
    """Where the starts are, `moved` by so much, as far as they follow one another with the same items."""
    found: list[int] = []
    for at in some:
        place = before.starts[at] + moved
        if place >= len(ids) or ids[place] != before.ids[at]:
            break
        found.append(place)
    return found


def _bounded(marks: list[int], total: int) -> tuple[int, ...]:
    """Starts of segments of bounded lengths: at the marks where that is possible."""
    bounds = [0]
    for mark in [*marks, total]:
        while mark - bounds[-1] > LONGEST:
            bounds.append(bounds[-1] + LENGTH)
        if mark - bounds[-1] >= SHORTEST:
            bounds.append(mark)
    if bounds[-1] == total or (len(bounds) > 1 and total - bounds[-1] < SHORTEST):
        bounds.pop()
    return tuple(bounds)
