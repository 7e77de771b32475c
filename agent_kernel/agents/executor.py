"""How a run goes: ask the model, look at its code, have it allowed, run it, commit, tell the model, until it is done; and cleanup.

It is a generator that never blocks: it yields the events as they are stored, the pieces of the model's answers, and
`Wait`s, and whoever drives it waits in the way that suits its thread (`run.drive`). Code runs on the thread that drives.
Where it stands follows from the events alone, so that it goes on in another process as well as in this one.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from agent_kernel.agents import agent_undo, approval, event_log, messages, rights
from agent_kernel.agents.approval import StepOutcome
from agent_kernel.agents.arguments import type_text
from agent_kernel.agents.event_log import PREVIEWS, Log, state_of, usage_of
from agent_kernel.agents.events import (
    GIVEN,
    Action,
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Error,
    Event,
    Fail,
    Output,
    Part,
    Retry,
    Rewound,
    StateChange,
    StepStart,
    SubRun,
    Success,
    TryStart,
)
from agent_kernel.agents.execution import (
    NAMES,
    CodeResult,
    RaisedInterrupt,
    TaskHandle,
    drop_locals,
    is_raised_by_code,
    offer_objects,
)
from agent_kernel.agents.gate import EffectStopped, Gate
from agent_kernel.agents.limits import Interruptible, ran_too_long
from agent_kernel.agents.messages import open_action, start_event
from agent_kernel.agents.models import Answer, Delta, Fenced, Message, Model, Request, Stream, is_free, later, split
from agent_kernel.agents.side_effects import record_side_effects
from agent_kernel.errors import (
    AgentKernelError,
    BranchInUseError,
    DamagedObjectError,
    ModelError,
    MoveNotMadeError,
    RefNotFoundError,
    RunNotFoundError,
    WithinStepError,
)
from agent_kernel.quiet import noted_interrupts, uninterrupted
from agent_kernel.repository import ASIDE, Author, hex_of
from agent_kernel.session.history import line_to
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.arguments import Arguments
    from agent_kernel.agents.event_log import EventStore
    from agent_kernel.agents.execution import ExecutionContext
    from agent_kernel.agents.limits import Limits
    from agent_kernel.agents.subagents import ChildRun
    from agent_kernel.repository import Commit, ObjectId
    from agent_kernel.session import Session
    from agent_kernel.session.snapshot import Repository


# -- what a run on its way yields to whoever drives it


class Wait(msgspec.Struct, frozen=True):
    """Something that the run has to wait for. What it gives is sent back, what it raises is thrown."""

    future: Future[Any]


Item: TypeAlias = Event | Delta | Wait
RunItems: TypeAlias = "Generator[Item, Any, None]"


# -- how a run asks its model: within its limits, streamed, again where that may help, and what words alone come to

_LONGEST_WAIT_S = 60.0
_CLOCKS_DIFFER_S = 0.05
_CUT = "the model's answer was cut off at its token limit twice (raise the limit with model_settings={'max_tokens': …})"


def ask(run_executor: RunExecutor) -> RunItems:
    """Ask for the next answer, or end the run where a limit is reached."""
    events = event_log.since_resumed(run_executor.log.events)
    reached = run_executor.setup.limits.find_reached(
        steps=event_log.steps_of(events),
        usage=usage_of(events),
        seconds=run_executor.seconds,
        unpriced=not is_free(run_executor.setup.model) and event_log.has_unpriced(events),
    )
    if reached is not None:
        raised = [event for event in run_executor.log.events if isinstance(event, Error) and event.source == "code"]
        last = f"; the last error of its code: {raised[-1].message}" if reached[0] == "steps" and raised else ""
        yield run_executor.log.note(
            Fail(limit=reached[0], reason=reached[1] + last, waited_s=_has_waited(run_executor))
        )
        return
    began = time.perf_counter()
    try:
        answer = _check_answer(run_executor, (yield from _answer(run_executor)))
    except ModelError as error:
        yield from _handle_model_error(run_executor, error, time.perf_counter() - began)
        return
    found = _find_code_in_words(run_executor, answer)
    text, code = (answer.text, answer.code) if found is None else (found.text, found.code)
    number = event_log.steps_of(run_executor.log.events) + 1 if code is not None else None
    action = Action(
        thinking=answer.thinking,
        text=text,
        code=code,
        call=answer.call,
        response=answer.response,
        said="" if found is None else answer.text,
        usage=answer.usage.clamp(),
        duration_s=round(time.perf_counter() - began, 6),
        waited_s=_has_waited(run_executor),
    )
    yield run_executor.log.note(action, step=number, before=run_executor.context.head)
    if answer.is_cut and events and isinstance(events[-1], Retry) and events[-1].sent == answer.refused:
        yield run_executor.log.note(Fail(reason=_CUT))
    elif answer.refused:
        yield run_executor.log.note(approval.outcome_text(run_executor, answer.refused))
    elif code is None:
        yield from _words(run_executor, answer.text.strip())


def _check_answer(run_executor: RunExecutor, answer: Answer) -> Answer:
    """The answer, if it can be stored and counted: a model may be anybody's object, and say anything.

    Raises:
        ModelError: a part of the answer is not what it has to be, or its cost is no number, and a limit depends on it.
    """
    name = run_executor.setup.model.name
    try:
        parts = msgspec.structs.asdict(answer)
        answer = msgspec.convert({**parts, "usage": msgspec.structs.asdict(parts["usage"])}, Answer)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
        raise ModelError(name, f"its answer cannot be read: {error}") from error
    cost = answer.usage.cost
    if run_executor.setup.limits.cost is not None and cost is not None and not math.isfinite(cost):
        raise ModelError(
            name, f"it says that its answer costs {cost}, which is no number that the limit can be compared with"
        )
    return answer


def _find_code_in_words(run_executor: RunExecutor, answer: Answer) -> Fenced | None:
    """The code in the words of a model that has called no tool in this run: many a local model calls none."""
    if (
        answer.code is not None
        or answer.refused
        or (not answer.in_words and event_log.has_called_tool(run_executor.log.events))
    ):
        return None
    return split(answer.text)


def _answer(run_executor: RunExecutor) -> Generator[Item, Any, Answer]:
    """Stream one answer."""
    answers = sum(isinstance(event, Action) and event.source not in GIVEN for event in run_executor.log.events)
    sent = tuple(messages.messages_of(run_executor.log.events, run_executor.setup.earlier))
    request = Request(
        run_executor.log.start.instructions, sent, answers, _patience(run_executor), run_executor.setup.settings
    )
    with uninterrupted():  # or nobody could end the request
        run_executor.stream = stream = Stream(run_executor.setup.model, request)
    answer: Answer | None = None
    while (piece := (yield Wait(stream.next()))) is not None:
        if isinstance(piece, Answer):
            answer = piece
        else:
            yield piece
    run_executor.stream = None
    if answer is None:
        if run_executor.stopped:
            raise KeyboardInterrupt
        raise ModelError(run_executor.setup.model.name, "it ended without an answer", retry_after_s=0.0)
    return answer


def _patience(run_executor: RunExecutor) -> float | None:
    limits = run_executor.setup.limits
    remaining_s = None if limits.run_s is None else max(0.1, limits.run_s - run_executor.seconds)
    known = [one for one in (limits.model_s, remaining_s) if one is not None]
    return min(known, default=None)


def _handle_model_error(run_executor: RunExecutor, error: ModelError, duration_s: float) -> RunItems:
    """The model did not answer: ask again later, or give up."""
    run_executor.stream = None
    tries = event_log.model_errors(run_executor.log.events)
    again = error.retry_after_s is not None and tries < run_executor.setup.limits.retries
    noted = Error(
        source="model",
        message=str(error),
        fatal=not again,
        duration_s=round(duration_s, 6),
        waited_s=_has_waited(run_executor),
    )
    yield run_executor.log.note(noted)
    if not again:
        limit = _limit_of(run_executor, error)
        run_s = run_executor.setup.limits.run_s
        reason = ran_too_long(run_executor.seconds, run_s) if limit == "run_s" and run_s is not None else str(error)
        yield run_executor.log.note(Fail(reason=reason, limit=limit))
    elif error.retry_after_s:
        run_s = run_executor.setup.limits.run_s
        remaining_s = _LONGEST_WAIT_S if run_s is None else max(0.0, run_s - run_executor.seconds)
        began = time.perf_counter()
        yield Wait(later(min(_LONGEST_WAIT_S, remaining_s, error.retry_after_s * 2**tries)))
        run_executor.waited_s = time.perf_counter() - began


def _has_waited(run_executor: RunExecutor) -> float:
    """How long it waited to ask again, for the event that comes next."""
    waited_s, run_executor.waited_s = run_executor.waited_s, 0.0
    return round(waited_s, 6)


def _limit_of(run_executor: RunExecutor, error: ModelError) -> str:
    """The limit that an answer ran into, if one did."""
    if not error.timed_out:
        return ""
    limits = run_executor.setup.limits
    is_runs = limits.run_s is not None and run_executor.seconds > limits.run_s - _CLOCKS_DIFFER_S
    return "run_s" if is_runs else "model_s"


def _words(run_executor: RunExecutor, text: str) -> RunItems:
    """The model answered with words alone: they are the result, where words can be one."""
    if text and type_text(run_executor.setup.returns) in ("", "str"):
        run_executor.value = text
        yield run_executor.log.note(Success(result=text[:2_000], type="str"), before=run_executor.context.head)
        return
    yield run_executor.log.note(
        approval.outcome_text(
            run_executor,
            "Act by calling run_python (or, if you cannot call it, with one ```python fence), and end the task there "
            "with task.success(value).",
        )
    )


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is made of, besides its events."""

    model: Model
    limits: Limits
    approve: str = "auto"
    returns: object = None
    settings: dict[str, object] = {}
    earlier: tuple[Message, ...] = ()  # the conversation that this run goes on with
    offers: Mapping[str, object] = {}  # what its code finds beside the variables
    allowed: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()  # those of its names that are sub-agents
    can_ask: bool = True
    preview: bool = False  # try each step on a fork first, and ask about what it did there


class RunExecutor:
    """One run on its way."""

    def __init__(self, setup: Setup, context: ExecutionContext, log: Log, arguments: Arguments) -> None:
        self.setup = setup
        self.context = context
        self.log = log
        self.arguments = arguments
        log.when_over = arguments.unbind
        self.value: object = None
        self.stream: Stream | None = None  # while the model answers
        self.code = Interruptible()  # while code runs
        self.step = 0  # the one that runs, or ran last
        self.children: list[ChildRun[Any]] = []  # sub-agents that are at work
        self.waited_s = 0.0  # to ask the model again, and no event says so yet
        self.stopped = ""  # why somebody stopped it from elsewhere
        self._began = time.monotonic()
        rights.track(self)  # once it has its setup: a step on another thread may note it now

    def run(self) -> RunItems:
        """Go on from where the events end, until it is done, stopped, or waits for a person."""
        try:
            self.log.read_again()
            self._began = time.monotonic() - event_log.active_seconds(event_log.since_resumed(self.log.events))
            yield from self._note_rewound_steps()
            note = self._drop_partial_work()
            while self.log.state == "running":
                rights.put_back_between_steps()
                if self.stopped:
                    yield self.log.note(Cancelled(during="pause", reason=self.stopped))
                    return
                yield from self._next(note)
        except KeyboardInterrupt:
            yield from self.note_interrupt()
        finally:
            if self.stream is not None:
                self.stream.cancel()
                self.stream = None

    def _note_rewound_steps(self) -> RunItems:
        """Steps that were taken back since the run was driven last, or brought again: the conversation goes with them."""
        session, events = self.context.session, self.log.events
        outputs = [event for event in events if isinstance(event, Output) and event.step is not None and event.after]
        if session is None or not outputs or self.log.state != "running":
            return
        start = self.log.start
        known = messages.find_known_commits(session.repo, session.head, start.time_ns) | {start.before}
        undone = tuple(event.step for event in outputs if event.step is not None and event.after not in known)
        if undone != next((event.steps for event in reversed(events) if isinstance(event, Rewound)), ()):
            yield self.log.note(Rewound(steps=undone), before=self.context.head)

    def note_interrupt(self) -> tuple[Event, ...]:
        """Note that a person stopped it; nothing where it had just come to its end."""
        with uninterrupted():
            return self._note_interrupt()

    def stop(self, reason: str) -> None:
        """Stop it from whatever thread: it ends as interrupted as soon as it can."""
        self.stopped = reason
        for child in tuple(self.children):
            child.cancel(reason)
        if not self.code.interrupt() and self.stream is not None:
            self.stream.cancel()

    def forget_preview(self) -> None:
        """Nobody will decide about the step that waits: what it did on a fork goes."""
        request = approval.open_request(self.log.events)
        if request is not None:
            approval.discard_preview(self, request)

    @property
    def author(self) -> Author:
        """Who signs what it does."""
        return Author(self.log.start.agent, "agent")

    @property
    def offers(self) -> dict[str, object]:
        """What code finds beside the variables."""
        return {**self.setup.offers, **dict.fromkeys(NAMES, TaskHandle(self.arguments.inputs))}

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._began

    def _drop_partial_work(self) -> str:
        """Let go of what sub-agents had committed that stopped halfway, as the run goes on without it; a sentence of it."""
        session, events = self.context.session, self.log.events
        if session is None or self.log.state != "running" or not any(isinstance(event, SubRun) for event in events):
            return ""
        found = find_partial_work(session.repo, self.log.event_store, events)
        delete_branches(session.repo, [one.branch for one in found])
        agents = ", ".join(dict.fromkeys(one.agent for one in found if one.has_work))
        return f"\n\nWhat {agents} had done by then is not part of the state." if agents else ""

    def _next(self, note: str) -> RunItems:
        action, since = messages.open_action(self.log.events)
        if action is None:
            yield from ask(self)
        elif (start := messages.start_event(since)) is not None:
            sent = messages.UNKNOWN_TRY if isinstance(start, TryStart) else messages.UNKNOWN
            yield from self._recover_outcome(action, start, note) or [
                self.log.note(Output(status="unknown", sent=sent + note), step=action.step)
            ]
            if isinstance(start, StepStart):
                approval.discard_preview(
                    self, next((one for one in since if isinstance(one, ApprovalRequested)), ApprovalRequested())
                )
        else:
            decided = next((one for one in reversed(since) if isinstance(one, ApprovalDecided)), None)
            yield from (
                approval.run_or_ask(self, action) if decided is None else approval.apply_decision(self, action, decided)
            )

    # -- what was left open

    def _note_interrupt(self) -> tuple[Event, ...]:
        """A person stopped it. Of a step that had begun the outcome is known, or at least that it was stopped."""
        if self.stream is not None:
            self.stream.cancel()
        if self.log.state != "running":  # it had just come to its end
            return ()
        action, since = messages.open_action(self.log.events)
        start = messages.start_event(since)
        if action is None or start is None:
            during = "model" if action is None else "pause"
            return (self.log.note(Cancelled(during=during, reason=self.stopped), before=self.context.head),)
        note = self._describe_partial_work(start.seq)
        noted = self._recover_outcome(action, start, note)
        if not noted:
            sent = messages.STOPPED_TRY if isinstance(start, TryStart) else messages.STOPPED
            noted = (
                self.log.note(
                    Output(status="interrupted", sent=sent + note), step=action.step, before=self.context.head
                ),
            )
        last = Cancelled(during="code", reason=self.stopped)
        return (*noted, self.log.note(last, step=action.step, before=self.context.head))

    def _recover_outcome(self, action: Action, start: StepStart | TryStart, note: str) -> tuple[Event, ...]:
        """What a step came to of which no outcome was stored, where its commit says it; `note`: what else to tell."""
        if self.context.session is None or isinstance(start, TryStart):
            return ()
        found = find_step_commit(self.context.session.repo, self.log.run, action.step or 0, start.time_ns)
        if found is None:
            return ()
        events, after = recover_outcome(self.context, *found, self.setup.limits.output_chars, note)
        return self.log.note_all(events, step=action.step, before=start.before, after=after)

    # -- running

    def execute(self, action: Action, code: str, *, edited: bool = False) -> RunItems:
        self.context.wait_turn()
        step, before = action.step or 0, self.context.head
        yield self.log.note(StepStart(code="" if code == action.code else code), step=step, before=before)
        if action.source == agent_undo.SOURCE:
            yield from self._make_move(code, step, before)
            return
        noted = len(self.log.events)
        step_outcome = self.run_code(code, step, is_guarded=action.source != "setup")
        if step_outcome.stopped:
            yield from self.log.events[noted:]
            yield from approval.stop_step(self, action, code, step_outcome)
            return
        if step_outcome.result.status == "interrupted":
            step_outcome = msgspec.structs.replace(step_outcome, note=self._describe_partial_work(noted).strip())
        yield from self.log.events[noted:]  # what its sub-agents noted meanwhile
        # All that the step came to is stored at once: no crash leaves an output whose end of the run is missing.
        outcome = approval.outcome_events(self, step_outcome, code if edited else "")
        if action.source in GIVEN:
            outcome += approval.check_setup(step_outcome.result, self.context)
        yield from self.log.note_all(outcome, step=step, before=before, after=self.context.head)

    def _describe_partial_work(self, since: int) -> str:
        """Where that is which sub-agents had done that the interrupt stopped, if they had done anything."""
        if self.context.session is None:
            return ""
        found = find_partial_work(self.context.session.repo, self.log.event_store, self.log.events[since:])
        text = "; ".join(str(one) for one in found if one.has_work)
        return f"\n\n{text[:1].upper()}{text[1:]}." if text else ""

    def _make_move(self, code: str, step: int, before: str) -> tuple[Event, ...]:
        """Make the move that was allowed, in place of running code; with it the run has ended."""
        session, began = self.context.session, time.perf_counter()
        requested_at = next((event.before for event in self.log.events if isinstance(event, ApprovalRequested)), before)
        try:
            if session is None:
                raise MoveNotMadeError("nothing is committed here that one could go back to")
            text, failed = agent_undo.make_move(session, agent_undo.Move.read(code), self.author, requested_at), False
        except AgentKernelError as error:
            text, failed = str(error), True
        text, duration_s = self.context.redact(text), round(time.perf_counter() - began, 6)
        output = Output(status="failed" if failed else "ok", sent=text, duration_s=duration_s)
        end = Fail(reason=text) if failed else Success(result=text)
        return self.log.note_all([output, end], step=step, before=before, after=self.context.head)

    def run_code(self, code: str, step: int, *, is_guarded: bool = True) -> StepOutcome:
        """Run code as a step. `is_guarded`: what nobody allowed is stopped; then its variables are taken back."""
        final: CodeResult | None = None
        self.step = step
        gate = approval.make_gate(self, code) if is_guarded else None
        self.context.begin(code, self.author, self.log.run, step)
        # Also as it is committed: to save a value runs code of its class.
        with (
            record_side_effects(self.context.quiet_paths(), gate) as recorder,
            rights.enter_step(self) as put_back,
        ):
            try:
                result = self._execute(code, gate)
                if gate is not None and result.error is not None:
                    drop_locals(result.error)
                if put_back():
                    result = _refuse_agent_change(result)
                final = self.context.redact_environment(_fail_if_stopped(result, gate))
            finally:
                if gate is not None:
                    gate.drop_collection_hooks()
                for child in tuple(self.children):
                    child.leave()
                with gate.committing() if gate is not None else nullcontext(_never) as refuses:
                    changed, unsaved, note = self.context.end(final, refuses)
                put_back()
        assert final is not None  # else an error goes on its way already
        stopped = tuple(gate.stopped) if gate is not None else ()
        return StepOutcome(_fail_if_stopped(final, gate), changed, unsaved, recorder.found, note, stopped)

    def _execute(self, code: str, gate: Gate | None) -> CodeResult:
        """Run the code, with what it was given beside the variables."""
        if gate is not None:
            gate.when_stopped = self.code.interrupt
        with noted_interrupts() as arrived, offer_objects(self.offers, self.context.namespace):
            try:
                result = self.code.run(
                    lambda: self.context.executor.run(code, timeout_s=self.step_s()), is_stopped=lambda: self.stopped
                )
            except KeyboardInterrupt:
                if self.stopped or gate is None or not gate.interrupts or len(arrived or ()) > gate.interrupts:
                    raise
                result = CodeResult()  # by the gate alone, as the code ended
        if is_raised_by_code(result.error, arrived) and not (arrived or self.stopped):
            return msgspec.structs.replace(result, error=RaisedInterrupt())
        return result

    def step_s(self) -> float | None:
        limits = self.setup.limits
        remaining_s = None if limits.run_s is None else max(0.05, limits.run_s - self.seconds)
        return min([one for one in (limits.step_s, remaining_s) if one is not None], default=None)


def _never() -> bool:
    return False


def _refuse_agent_change(result: CodeResult) -> CodeResult:
    """What a step came to that changed what an agent may do, by a way that Python lets nobody refuse."""
    error = WithinStepError("change an agent")
    text = f"{result.text}{type(error).__name__}: {error}. It was undone.\n"
    return msgspec.structs.replace(result, text=text, error=error, task_end=None)


def _fail_if_stopped(result: CodeResult, gate: Gate | None) -> CodeResult:
    """What a step came to that was stopped, whatever its code made of that."""
    first = next(iter(gate.stopped), None) if gate is not None else None
    return result if first is None else msgspec.structs.replace(result, error=EffectStopped(*first), task_end=None)


# -- cleanup: branches that agents have for a while, and that stay behind where their process died or their run was stopped
#
# What a step did on a fork (`preview/…`) is needed as long as somebody may take it on. What a sub-agent had committed when
# it stopped is kept as long as its outermost run rests where it was: a person may look at it, merge it, or give it another
# name. It goes when that run goes on, is over, or is undone. A candidate's work stays until somebody deletes its branch;
# where the race died, branches on which nothing was done go. Nothing that a living process holds is touched.

_STOPPED: Final = ("running", "interrupted")  # how a sub-agent is told of that did not come to an end


class PartialWork(msgspec.Struct, frozen=True):
    """What a sub-agent had committed when it stopped, on a branch of its own."""

    branch: str
    agent: str
    has_work: bool

    def __str__(self) -> str:
        return f"what {self.agent} had done is on branch {self.branch}, until the run goes on or is undone"


def find_partial_work(repo: Repository, event_store: EventStore, events: Sequence[Event]) -> list[PartialWork]:
    """What the sub-agents of a run left that stopped halfway, also their own sub-agents."""
    runs: dict[str, list[SubRun]] = {}
    for event in events:
        if isinstance(event, SubRun) and event.branch and not event.branch.startswith(event_log.RACES):
            runs.setdefault(event.child, []).append(event)
    stopped = {child: notes for child, notes in runs.items() if notes[-1].status in _STOPPED}
    if not stopped:
        return []
    known = repo.branches()
    found: list[PartialWork] = []
    for child, notes in stopped.items():
        first = notes[0]
        if first.branch in known and not _is_continued_by_person(repo, known[first.branch], first.before):
            has_work = hex_of(known[first.branch]) != first.before
            found.append(PartialWork(first.branch, first.child_agent, has_work))
        found += find_partial_work(repo, event_store, tuple(event_store.of(child)))
    return found


def _is_continued_by_person(repo: Repository, tip: ObjectId, start: str) -> bool:
    """Whether a person committed something on the branch of a sub-agent: then it is theirs."""
    return hex_of(tip) != start and repo.commit_at(tip).author.kind == "person"


def delete_branches(repo: Repository, branches: Sequence[str]) -> tuple[str, ...]:
    """Delete branches that nobody is on, with what was left of those who were; returns those that went."""
    if not branches:
        return ()
    deleted: list[str] = []
    in_use = {head.branch for session, head in repo.heads().items() if not session.startswith(ASIDE)}
    for name in branches:
        holder = repo.lease_of(name)
        if name in in_use:
            continue
        with suppress(RefNotFoundError, BranchInUseError):
            repo.delete_branch(name, force=True)
            deleted.append(name)
            if holder is not None:
                repo.release_lease(name, holder)
    return tuple(deleted)


def delete_unneeded_branches(
    repo: Repository, event_store: EventStore, session: Session | None = None
) -> tuple[str, ...]:
    """Delete what nobody needs any more of what processes left behind that died; returns the branches.

    Args:
        session: where it stands it can be told which runs were undone.
    """
    leases = {name: repo.lease_of(name) for name in repo.branches() if _may_be_temporary(name)}
    free = [name for name, holder in leases.items() if holder is None or not holder.is_alive(repo.store)]
    needs = _Needs(repo, event_store, session)
    deleted = delete_branches(repo, [name for name in free if not needs.needs(name)])
    _forget_heads(repo)
    return deleted


def _may_be_temporary(name: str) -> bool:
    return event_log.is_temporary(name) or event_log.may_be_sub_agents(name)


def _forget_heads(repo: Repository) -> None:
    """Forget where workers and sub-agents were whose process died: what they left would be kept for nobody."""
    heads = [name for name, head in repo.heads().items() if name.startswith(ASIDE) and head.branch is not None]
    if heads:
        alive = {holder.session for _, holder in repo.leases.find_living()}
        for name in heads:
            if name not in alive:
                repo.drop_head(name)


class _Needs:
    """Says of branches whether a run, or a person, may need them."""

    def __init__(self, repo: Repository, event_store: EventStore, session: Session | None) -> None:
        self._repo = repo
        self._event_store = event_store
        self._session = session
        self._read: dict[str, tuple[Event, ...]] = {}

    def needs(self, name: str) -> bool:
        try:
            return self._needs(name)
        except (DamagedObjectError, RunNotFoundError):  # nobody can tell any more
            return True

    def _needs(self, name: str) -> bool:
        preview, (race, _) = event_log.previewed_run(name), event_log.candidate_on(name)
        if preview is not None:
            return any(self._may_take(run, name) for run in self._runs_of_preview(name, preview))
        if race:
            return not any(self._is_abandoned_empty(run, name) for run in self._runs(race))
        return self._is_for_a_person(name)

    def _runs(self, end: str) -> Iterator[str]:
        return (run for run in self._all_runs if run.endswith(end))

    @functools.cached_property
    def _all_runs(self) -> list[str]:
        return self._event_store.runs()

    def _events(self, run: str) -> tuple[Event, ...]:
        if run not in self._read:
            self._read[run] = tuple(self._event_store.of(run))
        return self._read[run]

    def _runs_of_preview(self, name: str, run: str) -> Iterator[str]:
        if run:
            yield from self._runs(run)
            return
        yield from self._event_store.waiting()  # an earlier release named no run
        commit = self._repo.commit_at(self._repo.branches()[name])
        yield from [commit.run] if commit.run else []

    def _may_take(self, run: str, branch: str) -> bool:
        """Whether what a step did on a fork waits for a decision, or to be taken on."""
        if self._event_store.find_driver(run) is not None:
            return True
        events = self._events(run)
        _, since = open_action(events)
        request = next((one for one in reversed(since) if isinstance(one, ApprovalRequested)), None)
        return (
            state_of(events) != "cancelled"
            and request is not None
            and request.branch == branch
            and start_event(since) is None
        )

    def _is_abandoned_empty(self, race: str, branch: str) -> bool:
        """Whether nothing was done on a candidate's branch, and nobody drives the race any more."""
        events = self._events(race)
        start = next((one.before for one in events if isinstance(one, SubRun) and one.branch == branch), "")
        return (
            hex_of(self._repo.branches()[branch]) == start
            and approval.run_status(self._event_store, events) == "stopped"
        )

    def _is_for_a_person(self, name: str) -> bool:
        """Whether this is no sub-agent's branch, or one that is kept for a person."""
        start = event_log.find_sub_agent(self._event_store, name)
        if start is None:  # nothing was done where not even its run was begun
            holder = self._repo.lease_of(name)
            return holder is None or not holder.session.startswith(ASIDE)
        notes = [one for one in self._events(start.parent_run) if isinstance(one, SubRun) and one.child == start.run]
        if notes and notes[-1].status not in _STOPPED:
            return True  # it failed, or could not be merged: that was told, and is a person's to look at
        if notes and _is_continued_by_person(self._repo, self._repo.branches()[name], notes[0].before):
            return True
        while start.parent_run:
            start = self._event_store.first(start.parent_run)
        return self._rests(start.run)

    def _rests(self, run: str) -> bool:
        """Whether a run may go on, or does, from where it stands."""
        if self._event_store.find_driver(run) is not None:
            return True
        events = self._events(run)
        return state_of(events) not in ("completed", "failed", "cancelled") and not self._is_undone(events)

    def _is_undone(self, events: Sequence[Event]) -> bool:
        """Whether no step of it lies on the line of history any more."""
        made = {event.after for event in events if isinstance(event, Output) and event.after not in ("", event.before)}
        if self._session is None or not made:
            return False
        line = line_to(self._session.repo, self._session.head, events[0].time_ns)
        return made.isdisjoint(at for at, _, _ in line)


# -- what became of a step whose outcome was never written down: the process died, or an interrupt came, after its code ran
#
# A step's commit names its run and its number. Where it is in the history the step has run to its end, and what it came to
# is read from there. Where it is not, nobody knows.

KEPT = "(What came of this step was not recorded as it ran; this is what the history has kept of it.)"


def find_step_commit(repo: Repository, run: str, step: int, began_ns: int) -> tuple[ObjectId, Commit] | None:
    """The commit that a step became, wherever in the history it is by now; `began_ns`: when its code began."""
    heads = [head.commit for head in repo.heads().values() if head.commit is not None]
    # What a step did on a fork is no outcome: it was not taken on.
    branches = [tip for name, tip in repo.branches().items() if not name.startswith(PREVIEWS)]
    for id, commit in repo.log(list(dict.fromkeys([*branches, *heads]))):
        if commit.time_ns < began_ns:
            return None
        if commit.run == run and commit.step == step:
            return id, commit
    return None


def recover_outcome(
    context: ExecutionContext, id: ObjectId, commit: Commit, most_chars: int, note: str = ""
) -> tuple[list[Event], str]:
    """The events that say what a step came to, read from its commit, and the commit's id in hex digits.

    Args:
        note: what else the model is told.
    """
    assert context.session is not None
    repo = context.session.repo
    context.learn_secrets()
    text = context.redact_output(_read_output_text(repo, commit), most_chars).rstrip()
    tree = repo.tree(commit.tree)

    def summary(name: str) -> str:
        entry = tree.get(name)
        stored = repo.read_preview(entry) if entry is not None else b""
        if not stored or context.is_hidden(name):
            return ""
        return context.redact(messages.value_text(previews.decode(stored), context.policy))

    lines = messages.change_lines([one for one in commit.changed if context.is_visible(one.name)], summary)
    pieces = [KEPT, *([text] if text else []), *(["\n".join(["Changed variables:", *lines])] if lines else [])]
    parts = (Part("text/plain", text),) if text else ()
    seconds = commit.cell.duration_s if commit.cell is not None else 0.0
    sent = messages.cut("\n\n".join(pieces), most_chars) + note
    found: list[Event] = [Output(status=_status(commit), sent=sent, parts=parts, duration_s=seconds)]
    if commit.changed or commit.unsaved:
        changed = tuple(
            (
                one.how,
                previews.MASK if context.redactor.knows(one.name) else one.name,
                "" if one.how == "-" else summary(one.name),
            )
            for one in commit.changed
        )
        found.append(StateChange(changed=changed, unsaved=tuple((one.name, one.reason) for one in commit.unsaved)))
    return found, hex_of(id)


def _status(commit: Commit) -> str:
    error = commit.cell.error if commit.cell is not None else ""
    return "timeout" if error.startswith("StepTimeout") else commit.status


def _read_output_text(repo: Repository, commit: Commit) -> str:
    """What the step printed and showed, as text, and what it raised."""
    from agent_kernel.repository import read_outputs

    cell = commit.cell
    if cell is None:
        return ""
    if cell.outputs is None:
        return cell.error
    pieces: list[str] = []
    for output in read_outputs(repo.objects, cell.outputs).outputs:
        pieces += ["\n".join(output.traceback) or output.text] if output.kind in ("stream", "error") else []
        pieces += [face.text for face in output.representations if face.mime == "text/plain" and face.text]
    return "\n".join(piece.rstrip() for piece in pieces if piece)
