"""`runs`: what agents did, how each run stands, and which of them waits for somebody."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_kernel.agents import deciding, leftovers
from agent_kernel.agents.counting import steps_in
from agent_kernel.agents.events import Cancelled, Event, TaskStart
from agent_kernel.agents.journal import Journal, short_run
from agent_kernel.agents.log import usage_of
from agent_kernel.agents.outside import DENIED
from agent_kernel.agents.racing.raced import Raced, candidate_of, is_race, raced
from agent_kernel.agents.undone import undone_since
from agent_kernel.verbs.asking import Asked
from agent_kernel.verbs.output import Block, Json, Line, Result, Table
from agent_kernel.verbs.parsing import Parser, count
from agent_kernel.verbs.scope import Scope
from agent_kernel.verbs.text import clean, clock, cut

if TYPE_CHECKING:
    from agent_kernel.repository import ObjectId
    from agent_kernel.session.snapshot import Repository

__all__ = ["Runs", "runs", "runs_arguments"]


def runs_arguments(parser: Parser) -> None:
    parser.value("-n", metavar="N", help="so many, the newest first (20 unless told)", convert=_positive, default=20)


def _positive(text: str) -> int:
    return max(1, count(text))


def runs(scope: Scope, options: Namespace) -> Result:
    journal = Journal(scope.repo.store)
    known = journal.runs()
    found = [tuple(journal.of(run)) for run in reversed(known[-options.n :])]
    head = scope.head().commit
    undone = undone_since(scope.repo, found[-1][0].time_ns) if found else ()
    each = tuple(_Listed.of(scope.repo, journal, events, undone, head) for events in found)
    return Runs(each, scope.now_ns, len(known) - len(each), scope.command)


@dataclass(frozen=True)
class _Listed:
    run: str
    agent: str
    task: str
    state: deciding.Standing
    steps: int
    tokens: int
    cost: float | None
    time_ns: int
    asked: Asked | None = None
    candidate: int = 0  # of the race `parent`
    parent: str = ""
    model: str = ""
    raced: Raced | None = None
    picked: int = 0  # the candidate of it from which the variables go on
    left: tuple[leftovers.Partial, ...] = ()  # what its sub-agents had done when it stopped
    denied: str = ""  # that it was nothing but a step which was denied, and why
    stands: str = ""  # the state in words

    @classmethod
    def of(
        cls,
        repo: Repository,
        journal: Journal,
        events: Sequence[Event],
        undone: Collection[str],
        head: ObjectId | None,
    ) -> _Listed:
        start = events[0]
        race = raced(events) if is_race(start) else None
        # A race has taken what its candidates have.
        taken = [*events, *(event for run in race.runs.values() for event in journal.of(run))] if race else events
        usage = usage_of(taken)
        steps = steps_in(taken)
        task, model = (start.task, start.model) if isinstance(start, TaskStart) else ("", "")
        number = candidate_of(journal, start)
        took = usage.tokens, usage.cost
        state = deciding.standing(journal, events, undone)
        rests = state in ("stopped", "decided", "interrupted") and not start.parent_run
        left = tuple(one for one in leftovers.partial(repo, journal, events) if one.has_work) if rests else ()
        return cls(
            start.run,
            start.agent,
            task,
            state,
            steps,
            *took,
            start.time_ns,
            Asked.of(events),
            number,
            start.parent_run,
            model,
            race,
            race.picked(repo, head) if race else 0,
            left,
            _denied(events) if state == "cancelled" else "",
            deciding.said_of(state, events),
        )

    @property
    def title(self) -> str:
        """What tells it from the others: its task, which the candidates of a race have in common."""
        return f"candidate {self.candidate} of {short_run(self.parent)}, {self.model}" if self.candidate else self.task

    @property
    def said(self) -> str:
        """How it stands, in words."""
        race = self.raced.said(self.picked) if self.raced is not None else ""
        return race or (f"given up: {cut(self.denied, 60)}" if self.denied else self.stands)


def _denied(events: Sequence[Event]) -> str:
    last = next((event for event in reversed(events) if isinstance(event, Cancelled)), None)
    return clean(last.reason) if last is not None and last.during == DENIED else ""


@dataclass(frozen=True)
class Runs(Result):
    """The runs of agents that a store knows of, the newest first."""

    each: tuple[_Listed, ...]
    now_ns: int
    more: int = 0  # older ones, which are not listed
    command: str = "%agent"

    def blocks(self) -> Sequence[Block]:
        if not self.each:
            return [Line("No agent has run here yet.")]
        rows = tuple(
            (
                short_run(one.run),
                clean(one.agent),
                cut(clean(one.title), 60),
                one.said,
                str(one.steps),
                f"{one.tokens:,}",
                "" if one.cost is None else f"${one.cost:.2g}",
                clock(one.time_ns, self.now_ns),
            )
            for one in self.each
        )
        titles = ("run", "agent", "task", "status", "steps", "tokens", "cost", "when")
        waiting = [one.asked.blocks() for one in self.each if one.asked is not None]
        asked = [block for blocks in waiting for block in (Line(""), *blocks)]
        left = [Line(f"Run {short_run(one.run)}: {clean(str(each))}") for one in self.each for each in one.left]
        every = f"{self.command} runs -n {len(self.each) + self.more}"
        more = [Line(f"… and {self.more:,} more: {every}")] if self.more else []
        return [Table(titles, rows, frozenset({4, 5, 6}), 2), *more, *asked, *left]

    def to_json(self) -> Json:
        return [
            {
                "run": one.run,
                "agent": one.agent,
                "task": clean(one.task),
                "status": one.state,
                "steps": one.steps,
                "tokens": one.tokens,
                "cost": one.cost,
                "time": one.time_ns // 1_000_000_000,
                **({} if one.asked is None else {"waits_for": one.asked.facts()}),
                **({"candidate": one.candidate, "race": one.parent} if one.candidate else {}),
                **({"picked": one.picked or None, "discarded": one.raced.discarded} if one.raced else {}),
                **({"reason": one.denied} if one.denied else {}),
                **({"left_on": [each.branch for each in one.left]} if one.left else {}),
            }
            for one in self.each
        ]
