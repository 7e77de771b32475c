"""What became of a race, read from the events of its run: its candidates by number, which was picked, whether the others are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.agents.asides import candidate
from agent_kernel.agents.events import Event, SubRun, TaskStart
from agent_kernel.errors import RunNotFoundError

if TYPE_CHECKING:
    from agent_kernel.agents.journal import Journal

__all__ = ["Raced", "candidate_of", "is_race", "raced"]


class Raced(msgspec.Struct, frozen=True):
    """`runs`: the run of each candidate, by its number; `picked`: 0, or its number; `discarded`: the branches are gone."""

    runs: dict[int, str]
    picked: int = 0
    discarded: bool = False

    @property
    def said(self) -> str:
        """`picked 2 of 3`; "" where nothing was decided."""
        many = len(self.runs)
        if self.picked:
            return f"picked {self.picked} of {many}"
        return f"discarded all {many}" if self.discarded else ""


def is_race(start: Event) -> bool:
    """Whether a run is a race as a whole, and not one of its candidates."""
    return isinstance(start, TaskStart) and start.namespace == "race" and not start.prompt


def raced(events: Sequence[Event]) -> Raced:
    """What the events of a race tell."""
    told = [event for event in events if isinstance(event, SubRun)]
    runs = {number: one.child for one in told if (number := candidate(one.branch)[1])}
    picked = next((one for one in reversed(told) if one.status == "picked"), None)
    return Raced(
        runs,
        0 if picked is None else candidate(picked.branch)[1],
        any(one.status == "discarded" for one in told),
    )


def candidate_of(journal: Journal, start: Event) -> int:
    """Which candidate of its race a run is; 0: it is none."""
    if not start.parent_run:
        return 0
    try:
        events = tuple(journal.of(journal.find(start.parent_run)))
    except RunNotFoundError:  # it was forgotten
        return 0
    if not is_race(events[0]):
        return 0
    return next((number for number, run in raced(events).runs.items() if run == start.run), 0)
