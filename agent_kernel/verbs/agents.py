"""`runs`, `approve`, `deny`, `edit`, `resume`, `model` and `hide`: what a person says to agents."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_kernel.agents import deciding, leftovers
from agent_kernel.agents.counting import steps_in
from agent_kernel.agents.events import Event, TaskStart
from agent_kernel.agents.journal import Journal, short_run
from agent_kernel.agents.log import usage_of
from agent_kernel.agents.racing.raced import Raced, candidate_of, is_race, raced
from agent_kernel.agents.undone import undone_since
from agent_kernel.errors import ModelError
from agent_kernel.session.branches import person
from agent_kernel.session.hiding import HideList
from agent_kernel.verbs.asking import Asked, Decided
from agent_kernel.verbs.ignoring import check_entry
from agent_kernel.verbs.output import Block, Json, Line, Result, Said, Table
from agent_kernel.verbs.parsing import Parser, UsageProblem
from agent_kernel.verbs.scope import Scope
from agent_kernel.verbs.text import clean, clock, cut

if TYPE_CHECKING:
    from agent_kernel.repository import ObjectId
    from agent_kernel.session.snapshot import Repository

__all__ = [
    "approve",
    "approve_arguments",
    "deny",
    "deny_arguments",
    "edit",
    "edit_arguments",
    "hide",
    "hide_arguments",
    "model",
    "model_arguments",
    "resume",
    "resume_arguments",
    "runs",
    "runs_arguments",
]

_RUN = "which run, by its id or the last characters of it; needed where several wait"
_MOST = 6  # runs that are named


def _takes_run(parser: Parser, help: str = _RUN) -> None:
    parser.value("--run", metavar="RUN", help=help, default="")


# -- looking


def runs_arguments(parser: Parser) -> None:
    parser.value("-n", metavar="N", help="so many, the newest first (20 unless told)", convert=_positive, default=20)


def _positive(text: str) -> int:
    from agent_kernel.verbs.parsing import count

    return max(1, count(text))


def runs(scope: Scope, options: Namespace) -> Result:
    journal = Journal(scope.repo.store)
    found = [tuple(journal.of(run)) for run in reversed(journal.runs()[-options.n :])]
    head = scope.head().commit
    undone = undone_since(scope.repo, found[-1][0].time_ns) if found else ()
    return Runs(tuple(_Listed.of(scope.repo, journal, events, undone, head) for events in found), scope.now_ns)


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
        )

    @property
    def title(self) -> str:
        """What tells it from the others: its task, which the candidates of a race have in common."""
        return f"candidate {self.candidate} of {short_run(self.parent)}, {self.model}" if self.candidate else self.task

    @property
    def said(self) -> str:
        """How it stands, in words."""
        return (self.raced.said(self.picked) if self.raced is not None else "") or deciding.said_of(self.state)


@dataclass(frozen=True)
class Runs(Result):
    """The runs of agents that a store knows of, the newest first."""

    each: tuple[_Listed, ...]
    now_ns: int

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
        return [Table(titles, rows, frozenset({4, 5, 6}), 2), *asked, *left]

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
                **({"left_on": [each.branch for each in one.left]} if one.left else {}),
            }
            for one in self.each
        ]


# -- deciding


def approve_arguments(parser: Parser) -> None:
    _takes_run(parser)


def approve(scope: Scope, options: Namespace) -> Result:
    return _decided(scope, options.run, "approve")


def deny_arguments(parser: Parser) -> None:
    parser.takes_all("reason", "text", help="why, for the agent")
    _takes_run(parser)


def deny(scope: Scope, options: Namespace) -> Result:
    return _decided(scope, options.run, "deny", " ".join(options.words))


def edit_arguments(parser: Parser) -> None:
    _takes_run(parser)


def edit(scope: Scope, options: Namespace) -> Result:
    """Put the code that waits into a cell, where it can be changed; running that cell lets it run."""
    notebook = scope.notebook
    assert notebook is not None
    run = _waiting(scope, options.run)
    asked = deciding.waiting(tuple(Journal(scope.repo.store).of(run)))
    assert asked is not None
    notebook.tasks.offer_edit(run, asked.code)
    return Said((f"The code of step {asked.step} is in the next cell: change it there, and run it.",))


def _waiting(scope: Scope, run: str) -> str:
    journal = Journal(scope.repo.store)
    if run:
        return journal.find(run)
    found = deciding.all_waiting(journal, "pending")
    if not found:
        raise UsageProblem("no run waits for approval")
    return _only(journal, found, "wait for approval")


def _only(journal: Journal, runs: Sequence[str], what: str) -> str:
    """The run that is meant where none is named. Raises: UsageProblem: there are several."""
    if len(runs) == 1:
        return runs[0]
    each = [f"{short_run(run)} ({clean(asked.agent)})" for run in runs if (asked := _asked(journal, run))]
    more = f" and {len(runs) - _MOST} more" if len(runs) > _MOST else ""
    raise UsageProblem(f"{len(runs)} runs {what}: {', '.join(each[:_MOST])}{more}; --run RUN says which one")


def _asked(journal: Journal, run: str) -> Asked | None:
    return Asked.of(tuple(journal.of(run)))


def _decided(scope: Scope, run: str, decision: str, reason: str = "") -> Result:
    found = _waiting(scope, run)
    if scope.notebook is not None:
        return scope.notebook.tasks.decide(found, decision, reason=reason)
    log = deciding.log_of(Journal(scope.repo.store), found)
    asked = Asked.of(log.events)
    deciding.decide(log, decision, reason=reason, by=person().name)
    assert asked is not None  # else there was nothing to decide
    return Decided(asked, decision)


def resume_arguments(parser: Parser) -> None:
    parser.takes_all("answer", "text", help="the answer to the agent's question, or what else to tell it")
    _takes_run(
        parser,
        "which run, by its id or the last characters of it (unless told the newest one that is not done, or else that failed)",
    )
    parser.value("--model", metavar="NAME", help="another model from here on", default="")
    parser.flag("--force", help="also one that a process on another machine drove, which may still do so")


def _resting(journal: Journal) -> str:
    """The newest run that stopped or asks; without one, the newest that failed."""
    found = deciding.newest(journal, ("interrupted", "clarify", "stopped", "decided"))
    return found or deciding.newest(journal, ["failed"])


def resume(scope: Scope, options: Namespace) -> Result:
    notebook = scope.notebook
    assert notebook is not None
    journal = Journal(scope.repo.store)
    run = journal.find(options.run) if options.run else _resting(journal)
    if not run:
        raise UsageProblem("no run can go on: all are done, or wait for approval, or go on elsewhere")
    answer = " ".join(options.words)
    asked = _asked(journal, run)
    if answer and not options.run and asked is not None:
        run = _only(journal, deciding.all_waiting(journal, "clarify"), "ask something")
    if asked is not None and asked.step is None and not answer:
        raise UsageProblem(f"{clean(asked.agent)} asks: {asked.text} (%agent resume ANSWER answers)")
    try:
        return notebook.tasks.resume(run, answer, force=options.force, model=options.model)
    except ModelError as error:
        own = f"AGENT.reopen({short_run(run)!r}) has the agent's own"
        raise UsageProblem(f"{error}. --model NAME lets another go on; {own}") from error


# -- choosing


def model_arguments(parser: Parser) -> None:
    parser.takes(
        "name",
        "text",
        help="openai:NAME, anthropic:NAME …, or a variable that holds a model; without one, say which it is",
    )


def model(scope: Scope, options: Namespace) -> Result:
    notebook = scope.notebook
    assert notebook is not None
    if options.name is None:
        name = notebook.tasks.model
        return Said(
            (f"The model is {name}" if name else "No model is named: %agent model openai:NAME",), {"model": name}
        )
    notebook.tasks.choose(options.name)
    return Said((f"Tasks go to {options.name} from now on",), {"model": options.name})


# -- keeping


def hide_arguments(parser: Parser) -> None:
    parser.takes_all(
        "names", "name", help="variables, or patterns ('client_*'); without any, list those that are hidden"
    )
    parser.flag("--remove", help="models may be told of them again")
    parser.explains(
        "A hidden variable stays in the history and can be used by code. Its name, and texts and numbers of four\n"
        "characters and more of its value, are left out of what models are sent from now on, also where code prints them.\n"
        "Not left out: what is computed from it, shorter texts and numbers, and what a model was sent before. An agent\n"
        "that guesses the name can still use it: `ignore` and `forget` keep a value out of the history."
    )


def hide(scope: Scope, options: Namespace) -> Result:
    hidden = HideList(scope.repo)
    names: list[str] = list(dict.fromkeys(options.words))
    if not names:
        if options.remove:
            raise UsageProblem("say which variables")
        listed = sorted(hidden)
        return Said(
            (f"Hidden: {', '.join(map(clean, listed))}" if listed else "No variable is hidden.",), {"hidden": listed}
        )
    if options.remove:
        unknown = [name for name in names if name not in set(hidden)]
        if unknown:
            raise UsageProblem(f"{clean(', '.join(unknown))} is not on the list of what is hidden")
        for name in names:
            hidden.remove(name)
        return Said(tuple(f"Models may be told of {clean(name)} again" for name in names), {"shown": names})
    for name in names:
        check_entry(name)
    for name in names:
        hidden.add(name)
    return Said(tuple(f"No model is told of {clean(name)} from now on" for name in names), {"hidden": names})
