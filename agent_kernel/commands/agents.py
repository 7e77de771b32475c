"""`approve`, `deny`, `edit`, `resume`, `model` and `runs`: what a person says to agents, and what these did."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_kernel.agents import approval
from agent_kernel.agents.agent_undo import (
    DENIED,
    RaceOutcome,
    candidate_of,
    find_elsewhere_error,
    find_runs_undone_since,
    is_external,
    is_race,
    race_outcome,
)
from agent_kernel.agents.event_log import EventStore, short_run, steps_in, usage_of
from agent_kernel.agents.events import ApprovalRequested, Cancelled, Event, TaskStart
from agent_kernel.agents.executor import PartialWork, find_partial_work
from agent_kernel.commands.describe import Block, Code, Json, Line, Lines, Result, Table
from agent_kernel.commands.scope import Parser, Scope, UsageProblem, count
from agent_kernel.errors import ModelError
from agent_kernel.repository import person
from agent_kernel.text import clean, clean_lines, clock, cut
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.repository import ObjectId
    from agent_kernel.session.snapshot import Repository


# -- what a run waits for, as a verb tells it: the code of a step with what it would do, or a question

_MOST_CODE = 20_000
_MOST_TEXT = 500


@dataclass(frozen=True)
class Question:
    """A question to a person. What looks like a secret is masked in it.

    Attributes:
        step: the one that waits for approval, with its code and what that would do; None: the agent asks in words.
        is_outside: the agent is not ours: it asks for what came of it by itself.
    """

    run: str
    agent: str
    step: int | None
    text: str
    findings: tuple[str, ...] = ()
    is_external: bool = False

    @classmethod
    def of(cls, events: Sequence[Event]) -> Question | None:
        """What a run asks, if it waits."""
        request, start = approval.open_question(events), events[0]
        if request is None:
            return None
        comes = isinstance(start, TaskStart) and is_external(start.model)
        if not isinstance(request, ApprovalRequested):
            question = cut(clean(previews.mask_text(request.question, frozenset())), _MOST_TEXT)
            return cls(start.run, start.agent, None, question, (), comes)
        code, hidden = previews.mask_code(request.code)
        found = [f"{one.kind}: {one.what}" for one in request.findings]
        found += preview_lines(request)
        findings = tuple(cut(clean(previews.mask_text(one, hidden)), _MOST_TEXT) for one in found)
        return cls(start.run, start.agent, request.step, clean_lines(code)[:_MOST_CODE], findings, comes)

    def blocks(self) -> list[Block]:
        """The question, from top to bottom."""
        run, agent = short_run(self.run), clean(self.agent)
        if self.step is None:
            return [Line(f"Run {run}: {agent} asks: {self.text}")]
        found: list[Block] = [Line(f"Run {run}: {agent} wants to run step {self.step}"), Code(self.text)]
        return [*found, *(Line(f"  {one}") for one in self.findings)]

    def facts(self) -> dict[str, Json]:
        """The same for programs."""
        if self.step is None:
            return {"question": self.text}
        return {"step": self.step, "code": self.text, "findings": list(self.findings)}


def preview_lines(request: ApprovalRequested) -> list[str]:
    """What a step did on a fork before anybody was asked, a line for each."""
    found = [f"changed on a fork: {how}{name} {now}".rstrip() for how, name, now in request.changed]
    found += [f"failed on a fork: {request.error}"] if request.error else []
    found += [f"ended the run on a fork ({request.settled}): {request.result or 'nothing'}"] if request.settled else []
    found += [f"has happened already, as it was tried: {what} {target}" for what, target, _ in request.effects]
    if request.preview and not (request.preview == "refused" or found or request.told):
        found.append("changed nothing on a fork")
    return [*found, request.told] if request.told else found


@dataclass(frozen=True)
class DecisionReport(Result):
    """A decision about a step, behind what was decided about."""

    question: Question
    decision: str

    def blocks(self) -> Sequence[Block]:
        done = "approved" if self.decision == "approve" else "denied"
        goes_on = "the agent learns of it" if self.question.is_external else "it goes on"
        way = "as it asks for the result" if self.question.is_external else "with %agent resume in its notebook"
        sentence = f"Step {self.question.step} of run {short_run(self.question.run)} is {done}; {goes_on} {way}"
        return [*self.question.blocks(), Line(sentence)]

    def to_json(self) -> Json:
        return {"run": self.question.run, "decision": self.decision, **self.question.facts()}


_RUN = "which run, by its id or the last characters of it; needed where several wait"
_MOST = 6  # runs that are named
_MOST_TASK = 50  # characters that tell a run from another


def _takes_run(parser: Parser, help: str = _RUN) -> None:
    parser.value("--run", metavar="RUN", help=help, default="")


# -- what waits, as `status` tells it

_MOST_NEWEST = 20
_WAYS = {
    "pending": "waits for approval: %agent approve, %agent edit or %agent deny",
    "clarify": "waits for an answer: %agent resume ANSWER",
    "decided": "is decided, but has not gone on: %agent resume lets it go on",
    "interrupted": "was stopped: %agent resume lets it go on",
    "stopped": "was stopped: %agent resume lets it go on",
}


def waits(repo: Repository) -> tuple[tuple[str, str, str], ...]:
    """The runs that go on only when a person says so, the newest first: the id, how it stands, and that in a sentence."""
    event_store = EventStore(repo.store)
    found: list[tuple[str, str, str]] = []
    # No mark says that a run is decided, so it is looked for among the newest ones.
    for run in sorted(
        {*event_store.waiting(), *event_store.find_stopped(), *event_store.runs()[-_MOST_NEWEST:]}, reverse=True
    ):
        events = tuple(event_store.of(run))
        if not events or events[0].parent_run or is_race(events[0]):
            continue
        state = approval.run_status(event_store, events)
        if state in _WAYS:
            named = _name_run(event_store, run)
            found.append((run, state, f"{named[:1].upper()}{named[1:]} {_WAYS[state]}"))
    return tuple(found)


# -- deciding


def approve_arguments(parser: Parser) -> None:
    _takes_run(parser)


def approve(scope: Scope, options: Namespace) -> Result:
    return _decide(scope, options.run, "approve")


def deny_arguments(parser: Parser) -> None:
    parser.takes_all("reason", "text", help="why, for the agent")
    _takes_run(parser)


def deny(scope: Scope, options: Namespace) -> Result:
    return _decide(scope, options.run, "deny", " ".join(options.words))


def edit_arguments(parser: Parser) -> None:
    _takes_run(parser)


def edit(scope: Scope, options: Namespace) -> Result:
    """Put the code that waits into a cell, where it can be changed; running that cell lets it run."""
    notebook = scope.notebook
    assert notebook is not None
    run = _find_waiting(scope, options.run)
    request = approval.open_request(tuple(EventStore(scope.repo.store).of(run)))
    assert request is not None
    notebook.tasks.offer_edit(run, request.code)
    return Lines((f"The code of step {request.step} is in the next cell: change it there, and run it.",))


def _find_waiting(scope: Scope, run: str) -> str:
    event_store = EventStore(scope.repo.store)
    if run:
        return event_store.find(run)
    found = approval.find_waiting(event_store, "pending")
    if not found:
        # Where a second kernel of the notebook decided, whoever asks here looks for what came of it.
        lies = next(
            (find_elsewhere_error(scope.session, tuple(event_store.of(one))) for one in event_store.runs()[-1:]),
            None,
        )
        decided = approval.find_newest(event_store, ["decided"])
        way = f"; {_name_run(event_store, decided)} is decided already: %agent resume lets it go on" if decided else ""
        raise UsageProblem(f"no run waits for approval{f'; {lies.lies}' if lies else way}")
    return _only(event_store, found, "wait for approval")


def _only(event_store: EventStore, runs: Sequence[str], what: str) -> str:
    """The run that is meant where none is named. Raises: UsageProblem: there are several."""
    if len(runs) == 1:
        return runs[0]
    each = [
        f"{short_run(run)} ({clean(question.agent)})" for run in runs if (question := _find_question(event_store, run))
    ]
    more = f" and {len(runs) - _MOST} more" if len(runs) > _MOST else ""
    raise UsageProblem(f"{len(runs)} runs {what}: {', '.join(each[:_MOST])}{more}; --run RUN says which one")


def _find_question(event_store: EventStore, run: str) -> Question | None:
    return Question.of(tuple(event_store.of(run)))


def _decide(scope: Scope, run: str, decision: str, reason: str = "") -> Result:
    found = _find_waiting(scope, run)
    if scope.notebook is not None:
        return scope.notebook.tasks.decide(found, decision, reason=reason)
    log = approval.log_of(EventStore(scope.repo.store), found)
    question = Question.of(log.events)
    approval.decide(log, decision, reason=reason, by=person().name)
    assert question is not None  # else there was nothing to decide
    return DecisionReport(question, decision)


def resume_arguments(parser: Parser) -> None:
    parser.takes_all("answer", "text", help="the answer to the agent's question, or what else to tell it")
    _takes_run(
        parser,
        "which run, by its id or the last characters of it (default: the newest unfinished run, or the last if it failed)",
    )
    parser.value("--model", metavar="NAME", help="another model from here on", default="")
    parser.flag("--force", help="also one that a process on another machine drove, which may still do so")


def _find_resting(event_store: EventStore) -> str:
    """The newest run that stopped or asks; without one, that which failed, where it was the last that was begun.

    Raises:
        UsageProblem: one was begun behind the failed one that is done, goes on or waits: which is meant nobody can tell.
    """
    found = approval.find_newest(event_store, ("interrupted", "clarify", "stopped", "decided"))
    if found:
        return found
    failed = approval.find_newest(event_store, ["failed"])
    newer = approval.find_newest(event_store, ["pending", "running", "completed"])
    if failed and newer > failed:  # the ids of runs are in the order in which they began
        state = approval.run_status(event_store, tuple(event_store.of(newer)))
        ended = approval.status_text("failed", tuple(event_store.of(failed)))
        what = "is done" if state == "completed" else f"is {approval.status_text(state)}"
        raise UsageProblem(
            f"{_name_run(event_store, failed)} {ended}, and behind it {_name_run(event_store, newer)} {what}: "
            f"%agent resume --run {short_run(failed)} tries it once more"
        )
    return failed


def _name_run(event_store: EventStore, run: str) -> str:
    start = event_store.first(run)
    task = cut(clean(start.task.strip().partition("\n")[0]), _MOST_TASK)
    return f"run {short_run(run)} ({': '.join(filter(None, (clean(start.agent), task)))})"


def resume(scope: Scope, options: Namespace) -> Result:
    notebook = scope.notebook
    assert notebook is not None
    event_store = EventStore(scope.repo.store)
    run = event_store.find(options.run) if options.run else _find_resting(event_store)
    if not run:
        raise UsageProblem("no run can go on: all are done, or wait for approval, or go on elsewhere")
    answer = " ".join(options.words)
    question = _find_question(event_store, run)
    if answer and not options.run and question is not None:
        run = _only(event_store, approval.find_waiting(event_store, "clarify"), "ask something")
    if question is not None and question.step is None and not answer:
        raise UsageProblem(f"{clean(question.agent)} asks: {question.text} (%agent resume ANSWER answers)")
    try:
        says = "" if options.run else f"going on with {_name_run(event_store, run)}"
        return notebook.tasks.resume(run, answer, force=options.force, model=options.model, says=says)
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
        return Lines(
            (f"The model is {name}" if name else "No model is named: %agent model openai:NAME",), {"model": name}
        )
    notebook.tasks.choose(options.name)
    return Lines((f"Tasks go to {options.name} from now on",), {"model": options.name})


# -- `runs`: what agents did, how each run stands, and which of them waits for somebody


def runs_arguments(parser: Parser) -> None:
    parser.value(
        "-n", metavar="N", help="at most this many, the newest first (default: 20)", convert=_positive, default=20
    )


def _positive(text: str) -> int:
    return max(1, count(text))


def runs(scope: Scope, options: Namespace) -> Result:
    event_store = EventStore(scope.repo.store)
    known = event_store.runs()
    found = [tuple(event_store.of(run)) for run in reversed(known[-options.n :])]
    head = scope.head().commit
    undone = find_runs_undone_since(scope.repo, found[-1][0].time_ns) if found else ()
    each = tuple(_Listed.of(scope.repo, event_store, events, undone, head) for events in found)
    return Runs(each, scope.now_ns, len(known) - len(each), scope.spell_command("runs", "-n", str(len(known))))


@dataclass(frozen=True)
class _Listed:
    run: str
    agent: str
    task: str
    state: approval.RunStatus
    steps: int
    tokens: int
    cost: float | None
    time_ns: int
    question: Question | None = None
    candidate: int = 0  # of the race `parent`
    parent: str = ""
    model: str = ""
    raced: RaceOutcome | None = None
    picked: int = 0  # the candidate of it from which the variables go on
    partial: tuple[PartialWork, ...] = ()  # what its sub-agents had done when it stopped
    denied: str = ""  # that it was nothing but a step which was denied, and why
    stands: str = ""  # the state in words

    @classmethod
    def of(
        cls,
        repo: Repository,
        event_store: EventStore,
        events: Sequence[Event],
        undone: Collection[str],
        head: ObjectId | None,
    ) -> _Listed:
        start = events[0]
        race = race_outcome(events) if is_race(start) else None
        # A race has taken what its candidates have.
        taken = [*events, *(event for run in race.runs.values() for event in event_store.of(run))] if race else events
        usage = usage_of(taken)
        steps = steps_in(taken)
        task, model = (start.task, start.model) if isinstance(start, TaskStart) else ("", "")
        number = candidate_of(event_store, start)
        took = usage.tokens, usage.cost
        state = approval.run_status(event_store, events, undone)
        rests = state in ("stopped", "decided", "interrupted") and not start.parent_run
        partial = tuple(one for one in find_partial_work(repo, event_store, events) if one.has_work) if rests else ()
        return cls(
            start.run,
            start.agent,
            task,
            state,
            steps,
            *took,
            start.time_ns,
            Question.of(events),
            number,
            start.parent_run,
            model,
            race,
            race.find_pick(repo, head) if race else 0,
            partial,
            _find_denial(events) if state == "cancelled" else "",
            approval.status_text(state, events),
        )

    @property
    def title(self) -> str:
        """What tells it from the others: its task, which the candidates of a race have in common."""
        return f"candidate {self.candidate} of {short_run(self.parent)}, {self.model}" if self.candidate else self.task

    @property
    def status(self) -> str:
        """How it stands, in words."""
        race = self.raced.describe(self.picked) if self.raced is not None else ""
        return race or (f"given up: {cut(self.denied, 60)}" if self.denied else self.stands)


def _find_denial(events: Sequence[Event]) -> str:
    last = next((event for event in reversed(events) if isinstance(event, Cancelled)), None)
    return clean(last.reason) if last is not None and last.during == DENIED else ""


@dataclass(frozen=True)
class Runs(Result):
    """The runs of agents that a store knows of, the newest first."""

    each: tuple[_Listed, ...]
    now_ns: int
    more: int = 0  # older ones, which are not listed
    every: str = ""  # what to type to have those listed too

    def blocks(self) -> Sequence[Block]:
        if not self.each:
            return [Line("No agent has run here yet.")]
        rows = tuple(
            (
                short_run(one.run),
                clean(one.agent),
                cut(clean(one.title), 60),
                one.status,
                str(one.steps),
                f"{one.tokens:,}",
                "" if one.cost is None else f"${one.cost:.2g}",
                clock(one.time_ns, self.now_ns),
            )
            for one in self.each
        )
        titles = ("run", "agent", "task", "status", "steps", "tokens", "cost", "when")
        waiting = [one.question.blocks() for one in self.each if one.question is not None]
        questions = [block for blocks in waiting for block in (Line(""), *blocks)]
        partial_work = [
            Line(f"Run {short_run(one.run)}: {clean(str(each))}") for one in self.each for each in one.partial
        ]
        more = [Line(f"… and {self.more:,} more: {self.every}")] if self.more else []
        return [Table(titles, rows, frozenset({4, 5, 6}), 2), *more, *questions, *partial_work]

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
                **({} if one.question is None else {"waits_for": one.question.facts()}),
                **({"candidate": one.candidate, "race": one.parent} if one.candidate else {}),
                **({"picked": one.picked or None, "discarded": one.raced.discarded} if one.raced else {}),
                **({"reason": one.denied} if one.denied else {}),
                **({"left_on": [each.branch for each in one.partial]} if one.partial else {}),
            }
            for one in self.each
        ]
