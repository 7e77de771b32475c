"""What became of a race, read from the events of its run: its candidates by number, which were picked, whether the others are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.agents.agent_undo import contains_commit
from agent_kernel.agents.events import Event, SubRun, TaskStart
from agent_kernel.agents.temporary_branches import candidate
from agent_kernel.errors import RunNotFoundError
from agent_kernel.repository import ObjectId
from agent_kernel.repository.commits import ALGORITHM

if TYPE_CHECKING:
    from agent_kernel.agents.event_log import EventStore
    from agent_kernel.session.snapshot import Repository

__all__ = ["RaceOutcome", "candidate_of", "is_race", "race_outcome"]


class RaceOutcome(msgspec.Struct, frozen=True):
    """`runs`: the run of each candidate, by its number; `discarded`: the branches are gone.

    `picks`: which were picked, the last first, each with the commit that its variables came here with.
    """

    runs: dict[int, str]
    picks: tuple[tuple[int, str], ...] = ()
    discarded: bool = False

    def find_pick(self, repo: Repository, head: ObjectId | None) -> int:
        """The number of the candidate from which the variables at a commit go on; 0: none, or its pick was undone."""
        picks = (
            one for one, at in self.picks if at and contains_commit(repo, head, ObjectId(bytes.fromhex(at) + ALGORITHM))
        )
        return next(picks, 0)

    def describe(self, picked: int) -> str:
        """`picked 2 of 3`; "" where nothing is decided."""
        many = len(self.runs)
        if picked:
            return f"picked {picked} of {many}"
        return f"discarded all {many}" if self.discarded else ""


def is_race(start: Event) -> bool:
    """Whether a run is a race as a whole, and not one of its candidates."""
    return isinstance(start, TaskStart) and start.namespace == "race" and not start.prompt


def race_outcome(events: Sequence[Event]) -> RaceOutcome:
    """What the events of a race tell."""
    notes = [event for event in events if isinstance(event, SubRun)]
    runs = {number: one.child for one in notes if (number := candidate(one.branch)[1])}
    picks = [(candidate(one.branch)[1], one.after or one.before) for one in reversed(notes) if one.status == "picked"]
    return RaceOutcome(runs, tuple(picks), any(one.status == "discarded" for one in notes))


def candidate_of(event_store: EventStore, start: Event) -> int:
    """Which candidate of its race a run is; 0 for other runs."""
    if not start.parent_run:
        return 0
    try:
        events = tuple(event_store.of(event_store.find(start.parent_run)))
    except RunNotFoundError:  # it was forgotten
        return 0
    if not is_race(events[0]):
        return 0
    return next((number for number, run in race_outcome(events).runs.items() if run == start.run), 0)
