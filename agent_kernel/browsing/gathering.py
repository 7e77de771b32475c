"""Which commits stand together in the list: the steps of an agent's run, cells that changed nothing, runs of one cell.

The list has the order of time, but the commits of a run stand together, and those of its sub-agents with them, also where
others were made meanwhile. No commit may stand below its parent, so a run is in several pieces where somebody else's
commits lie between its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agent_kernel.repository import ObjectId
from agent_kernel.verbs.timeline import NOTHING, Record, View

__all__ = ["Piece", "day_of", "pieces_of"]


class Piece:
    """Commits that stand next to each other, newest first. `run`: the agent's run that they are."""

    __slots__ = ("day", "records", "run")

    def __init__(self, record: Record, day: int, run: str) -> None:
        self.records = [record]
        self.day = day
        self.run = run

    @property
    def why(self) -> str:
        """Why they may stand as one row: run, nothing, repeated; "": they may not."""
        if self.run:
            return "run"
        return "" if len(self.records) < 2 else "nothing" if self.records[0].mark == NOTHING else "repeated"


def pieces_of(view: View, tz_s: int) -> list[Piece]:
    """Commits one by one or, where they may stand as one row, together."""
    pinned = {view.head.commit, *view.branches.values(), *view.tags.values()}
    pieces: list[Piece] = []
    roots = _roots(view)
    last_of: dict[str, int] = {}  # where the piece of a run stands that may still grow
    floor: dict[ObjectId, int] = {}  # no piece before this one may hold it: one of its children stands there
    for record in view.order:
        day = day_of(record.time_ns, tz_s)
        root = roots.get(record.run or record.id, record.run)
        at = last_of.get(root, -1) if root else len(pieces) - 1
        fits = at >= floor.get(record.id, 0)
        if root and at >= 0 and fits:
            pieces[at].records.append(record)
        elif (
            not root and pieces and not pieces[-1].run and day == pieces[-1].day and _folds(pieces[-1], record, pinned)
        ):
            pieces[-1].records.append(record)
        else:
            pieces.append(Piece(record, day, root))
            at = len(pieces) - 1
            if root:
                last_of[root] = at
        for parent in record.parents:
            floor[parent] = max(floor.get(parent, 0), at)
    return pieces


def _roots(view: View) -> dict[str | ObjectId, str]:
    """The outermost run that each run of a sub-agent belongs to: one of its commits merged theirs.

    What a sub-agent left uncommitted is committed before the merge, as no step of any run: by its id.
    """
    outer: dict[str | ObjectId, str] = {}
    for record in view.order:
        if not record.run:
            continue
        for merged in (view.order[view.places[parent]] for parent in record.parents[1:]):
            inner = merged
            if not merged.run and merged.parents:
                inner = view.order[view.places[merged.parents[0]]]
            if inner.run and inner.run != record.run:
                outer.setdefault(inner.run, record.run)
                outer.setdefault(merged.id, record.run)
    return {one: _outermost(one, outer) for one in outer}


def _outermost(one: str | ObjectId, outer: Mapping[str | ObjectId, str]) -> str:
    seen = {one}
    while one in outer and outer[one] not in seen:
        one = outer[one]
        seen.add(one)
    return str(one)


def _folds(newer: Piece, older: Record, pinned: Collection[ObjectId | None]) -> bool:
    """Whether two neighbours may stand as one row. What a name points at stays in sight."""
    last = newer.records[-1]
    alike = last.mark == older.mark != 0 and last.parents == (older.id,)
    return alike and last.id not in pinned and older.id not in pinned


def day_of(time_ns: int, tz_s: int) -> int:
    """The reader's day, counted from 1970."""
    return (time_ns // 1_000_000_000 + tz_s) // 86_400
