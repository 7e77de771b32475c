"""Where each commit stands in the drawing of a history: the `* | |` in front of a log line, the lanes of the panel.

One lane for each line of development that is still waiting for its next commit; a commit takes the lane that waited
for it, and its further parents open lanes of their own. `assign` is the one place where lanes are given out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from agent_kernel.repository import ObjectId

__all__ = ["Step", "Strand", "assign", "draw"]

_MOST = 6

Key = TypeVar("Key", bound=Hashable)


class Strand(NamedTuple, Generic[Key]):
    """A line on its way down from a child to its parent."""

    child: Key
    parent: Key
    is_first: bool  # to the first parent


class Step(NamedTuple, Generic[Key]):
    """One commit: its lane, the strands that come in above it, and those that it sends down, each with its lane."""

    lane: int
    above: tuple[Strand[Key] | None, ...]
    sent: tuple[tuple[int, Strand[Key]], ...]


def assign(history: Iterable[tuple[Key, tuple[Key, ...]]], keep: Key | None = None) -> list[Step[Key]]:
    """A step for each commit, children before parents.

    Args:
        keep: the commit for which the first lane is kept free until it comes.
    """
    waiting: list[Strand[Key] | None] = []
    steps: list[Step[Key]] = []
    for key, parents in history:
        if key == keep:
            keep = None
            lane = 0
        else:
            lane = next((at for at, strand in enumerate(waiting) if strand is not None and strand.parent == key), -1)
            lane = _free(waiting, keep) if lane < 0 else lane
        above = tuple(waiting)
        waiting += [None] * (lane + 1 - len(waiting))
        for at, strand in enumerate(waiting):
            if strand is not None and strand.parent == key:
                waiting[at] = None
        steps.append(Step(lane, above, tuple(_send(waiting, lane, key, parents, keep))))
        while waiting and waiting[-1] is None:
            waiting.pop()
    return steps


def _free(waiting: list[Strand[Key] | None], keep: Key | None) -> int:
    first = 0 if keep is None else 1
    return next((at for at in range(first, len(waiting)) if waiting[at] is None), max(first, len(waiting)))


def _send(
    waiting: list[Strand[Key] | None], lane: int, key: Key, parents: tuple[Key, ...], keep: Key | None
) -> Iterable[tuple[int, Strand[Key]]]:
    for order, parent in enumerate(parents):
        strand = Strand(key, parent, order == 0)
        to = lane
        if order:
            awaited = (at for at, other in enumerate(waiting) if other is not None and other.parent == parent)
            to = next(awaited, -1)
            if to >= 0:
                yield to, strand
                continue
            to = _free(waiting, keep)
            waiting += [None] * (to + 1 - len(waiting))
        waiting[to] = strand
        yield to, strand


def draw(history: Iterable[tuple[ObjectId, tuple[ObjectId, ...]]]) -> list[str]:
    """One text for each commit, children before parents.

    >>> a, b, c, d = (ObjectId(bytes([n])) for n in range(4))
    >>> draw([(d, (b, c)), (c, (a,)), (b, (a,)), (a, ())])
    ['*', '| *', '* |', '*']
    """
    rows = list(history)
    return [_line(step, key) for step, (key, _) in zip(assign(rows), rows, strict=True)]


def _line(step: Step[ObjectId], key: ObjectId) -> str:
    marks = [" " if strand is None or strand.parent == key else "|" for strand in step.above]
    marks += [" "] * (step.lane + 1 - len(marks))
    marks[step.lane] = "*"
    if len(marks) > _MOST:
        marks = [*marks[: _MOST - 1], "*" if step.lane >= _MOST - 1 else "…"]
    return " ".join(marks).rstrip()
