"""Follow a race in the cell that began it: a line that says how far it is, and the pick of its judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_kernel.agents.racing import judging
from agent_kernel.errors import MergeConflictError
from agent_kernel.verbs.text import plural

if TYPE_CHECKING:
    from agent_kernel.agents.racing.race import Race
    from agent_kernel.magics.tasks.showing import Shown

__all__ = ["followed"]


def followed(race: Race, place: Shown) -> None:
    """Wait until all candidates have ended; an interrupt ends the race, and keeps what there is."""
    many = plural(len(race.candidates), "candidate")
    place.progress(f"{many} on the way")
    for ended, _ in enumerate(race, 1):
        done = sum(one.is_done for one in race.candidates)
        place.progress(f"{ended} of {many} ended, {done} with a result")
    best = race.best
    failed = judging.failure(race.candidates)
    if race.judge is not None and failed:
        place.line(f"{failed[:1].upper()}{failed[1:]}.", strong=True)
    if race.judge is None or best is None or race.is_interrupted:
        return
    try:
        race.pick()
    except MergeConflictError as conflict:
        place.line(f"candidate {best.number} is the best and was not picked: {conflict}", strong=True)
