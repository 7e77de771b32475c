"""A race as its store tells it: in another process than it was held in, after a restart, where no kernel is at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from agent_kernel.agents.candidates import Candidate, changed_between, looked_up
from agent_kernel.agents.deciding import standing
from agent_kernel.agents.events import Event, SubRun, TaskStart, Usage
from agent_kernel.agents.racing import judging
from agent_kernel.agents.racing.raced import is_race, raced
from agent_kernel.errors import DamagedObjectError, RunNotFoundError
from agent_kernel.repository import ObjectId
from agent_kernel.repository.ids import ALGORITHM

if TYPE_CHECKING:
    from agent_kernel.agents.journal import Journal
    from agent_kernel.agents.log import State
    from agent_kernel.session import Repository

__all__ = ["Shown", "Told", "candidates_of", "lacks", "told"]

_DIED = "its process ended before it did"


class Shown(Protocol):
    """What of a race is looked at side by side."""

    @property
    def id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def candidates(self) -> Sequence[Candidate]: ...
    @property
    def best(self) -> Candidate | None: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def picked(self) -> int | None: ...
    @property
    def is_discarded(self) -> bool: ...


class Told(msgspec.Struct, frozen=True):
    """A race as it stands at one moment, to be looked at."""

    id: str
    task: str
    notes: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    is_over: bool
    picked: int | None
    is_discarded: bool

    @property
    def usage(self) -> Usage:
        """What all of them took."""
        return sum((one.usage for one in self.candidates), Usage())

    @property
    def best(self) -> Candidate | None:
        """As `Race.best`."""
        return judging.best(self.candidates, is_judged=any(one.score is not None for one in self.candidates))


def told(repo: Repository, journal: Journal, run: str, head: ObjectId | None) -> Told:
    """A race, as it stands for whoever is at a commit.

    Raises:
        RunNotFoundError: there is no race of this id.
    """
    events = tuple(journal.of(journal.find(run)))
    if not is_race(events[0]):
        raise RunNotFoundError(run)
    start = cast("TaskStart", events[0])
    found = raced(events)
    return Told(
        start.run,
        start.task,
        tuple(lacks(start.left_out)),
        tuple(candidates_of(repo, journal, events)),
        standing(journal, events) != "running",
        found.picked(repo, head) or None,
        found.discarded,
    )


def lacks(names: Sequence[str]) -> list[str]:
    """What is said of variables that the candidates are without."""
    return [f"not with the candidates, since it cannot be saved: {', '.join(names)}"] if names else []


def candidates_of(repo: Repository, journal: Journal, events: Sequence[Event]) -> list[Candidate]:
    """The candidates of a race in order, from its events and theirs."""
    is_over = standing(journal, events) != "running"
    by_number = raced(events).runs
    subs = [event for event in events if isinstance(event, SubRun)]
    return [
        _candidate(repo, journal, number, [one for one in subs if one.child == run], is_over=is_over)
        for number, run in sorted(by_number.items())
    ]


def _candidate(repo: Repository, journal: Journal, number: int, subs: Sequence[SubRun], *, is_over: bool) -> Candidate:
    first = subs[0]
    last = next(one for one in reversed(subs) if one.status not in ("picked", "discarded"))
    began = next(journal.of(first.child), None)
    found = Candidate(
        number=number,
        branch=first.branch,
        run=first.child,
        agent=first.child_agent,
        model=first.model or (began.model if isinstance(began, TaskStart) else ""),
        task=first.task,
        start=first.before,
        tip=last.after,
        status=cast("State", last.status),
        reason=last.reason,
        score=last.score,
    )
    found = looked_up(found, repo, journal)
    if found.status == "running" and is_over and journal.driver(found.run) is None:
        found = msgspec.structs.replace(found, status="interrupted", reason=_DIED)
    return found if found.branch in repo.branches() else _without_branch(repo, found)


def _without_branch(repo: Repository, found: Candidate) -> Candidate:
    """What it changed can be told as long as its commits are not collected, and is not of use without them."""
    start, tip = (ObjectId(bytes.fromhex(at) + ALGORITHM) if at else None for at in (found.start, found.tip))
    try:
        changed = changed_between(repo, start, tip) if tip is not None else ()
    except DamagedObjectError:
        return msgspec.structs.replace(found, tip="")
    return msgspec.structs.replace(found, changed=changed)
