"""Where each commit stands in the drawing of a history: the `* | |` in front of a log line.

One lane for each line of development that is still waiting for its next commit; a commit takes the lane that waited
for it, and its further parents open lanes of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent_kernel.repository import ObjectId

__all__ = ["draw"]

_MOST = 6


def draw(history: Iterable[tuple[ObjectId, tuple[ObjectId, ...]]]) -> list[str]:
    """One text for each commit, children before parents.

    >>> a, b, c, d = (ObjectId(bytes([n])) for n in range(4))
    >>> draw([(d, (b, c)), (c, (a,)), (b, (a,)), (a, ())])
    ['*', '| *', '* |', '*']
    """
    waiting: list[ObjectId | None] = []
    drawn: list[str] = []
    for commit, parents in history:
        lane = _lane_of(waiting, commit)
        waiting = [None if awaited == commit else awaited for awaited in waiting]
        drawn.append(_line(waiting, lane))
        _open(waiting, lane, parents)
        while waiting and waiting[-1] is None:
            waiting.pop()
    return drawn


def _lane_of(waiting: list[ObjectId | None], commit: ObjectId) -> int:
    if commit in waiting:
        return waiting.index(commit)
    free = waiting.index(None) if None in waiting else len(waiting)
    if free == len(waiting):
        waiting.append(None)
    return free


def _line(waiting: list[ObjectId | None], lane: int) -> str:
    marks = ["*" if at == lane else " " if awaited is None else "|" for at, awaited in enumerate(waiting)]
    if len(marks) > _MOST:
        marks = [*marks[: _MOST - 1], "*" if lane >= _MOST - 1 else "…"]
    return " ".join(marks).rstrip()


def _open(waiting: list[ObjectId | None], lane: int, parents: tuple[ObjectId, ...]) -> None:
    for order, parent in enumerate(parents):
        if order == 0:
            waiting[lane] = parent
        elif parent not in waiting:
            free = waiting.index(None) if None in waiting else len(waiting)
            waiting[free : free + 1] = [parent]
