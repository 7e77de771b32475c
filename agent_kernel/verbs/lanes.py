"""Where each commit stands in the drawing of a history: the `* | |` in front of a log line, the lanes of the panel.

One lane for each line of development that is still waiting for its next commit; a commit takes the lane that waited
for it, and its further parents open lanes of their own. `assign` is the one place where lanes are given out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
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


def assign(history: Iterable[tuple[Key, tuple[Key, ...]]], keep: Key | None = None) -> Iterator[Step[Key]]:
    """A step for each commit, children before parents. No more of the history is read than is asked for.

    Args:
        keep: the commit for which the first lane is kept free until it comes.
    """
    waiting: list[Strand[Key] | None] = []
    lanes: dict[Key, list[int]] = {}  # where each key is waited for
    for key, parents in history:
        awaited = lanes.pop(key, ())
        if key == keep:
            keep, lane = None, 0
        else:
            lane = min(awaited) if awaited else _free(waiting, keep)
        above = tuple(waiting)
        for at in awaited:
            waiting[at] = None
        if lane >= len(waiting):
            waiting += [None] * (lane + 1 - len(waiting))
        sent: list[tuple[int, Strand[Key]]] = []
        for order, parent in enumerate(parents):
            known = lanes.get(parent) if order else None
            to = lane if not order else min(known) if known else _free(waiting, keep)
            strand = Strand(key, parent, not order)
            sent.append((to, strand))
            if not known:
                waiting[to : to + 1] = [strand]
                lanes.setdefault(parent, []).append(to)
        yield Step(lane, above, tuple(sent))
        while waiting and waiting[-1] is None:
            waiting.pop()


def _free(waiting: list[Strand[Key] | None], keep: Key | None) -> int:
    first = 0 if keep is None else 1
    try:
        return waiting.index(None, first)
    except ValueError:
        if len(waiting) < first:
            waiting.append(None)
        return max(first, len(waiting))


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
