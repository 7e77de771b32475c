"""How a run goes: ask the model, look at its code, have it allowed, run it, commit, tell the model, until it is done.

It is a generator that never blocks: it yields the events as they are stored, the pieces of the model's answers, and
`Wait`s, and whoever drives it waits in the way that suits its thread (`driving`). Code runs on the thread that drives.
Where it stands follows from the events alone, so that it goes on in another process as well as in this one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from agent_kernel.agents import approving, context, conversation, returning
from agent_kernel.agents.effects import Recorder, recorded
from agent_kernel.agents.events import (
    Action,
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Clarify,
    Effect,
    Error,
    Event,
    Fail,
    Output,
    Retry,
    StateChange,
    StepStart,
    Success,
)
from agent_kernel.agents.executing import Executed, interrupt
from agent_kernel.agents.log import Log, usage_of
from agent_kernel.agents.loop import Stream, later
from agent_kernel.agents.models import Answer, Delta, Message, Model, Request
from agent_kernel.agents.review import review
from agent_kernel.agents.settling import Settled, TaskHandle, offered
from agent_kernel.errors import ModelError
from agent_kernel.repository import Author

if TYPE_CHECKING:
    from agent_kernel.agents.limits import Limits
    from agent_kernel.agents.place import Place
    from agent_kernel.repository import Change, Unsaved

__all__ = ["Course", "Item", "Setup", "Wait"]

_LONGEST_WAIT_S = 60.0
_HISTORY_CHARS = 60_000  # of earlier runs that the model is sent again


class Wait(msgspec.Struct, frozen=True):
    """Something that the run has to wait for. What it gives is sent back, what it raises is thrown."""

    future: Future[Any]


Item: TypeAlias = Event | Delta | Wait
Going: TypeAlias = "Generator[Item, Any, None]"


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is made of, besides its events."""

    model: Model
    limits: Limits
    approve: str = "auto"
    returns: object = None
    inputs: dict[str, object] = {}
    earlier: tuple[Message, ...] = ()  # the conversation that this run goes on with
    allowed: frozenset[str] = frozenset()
    can_ask: bool = True


class Course:
    """One run on its way."""

    def __init__(self, setup: Setup, place: Place, log: Log) -> None:
        self.setup = setup
        self.place = place
        self.log = log
        self.value: object = None
        self.stream: Stream | None = None  # while the model answers
        self.is_running_code = False
        self.stopped = ""  # why somebody stopped it from elsewhere
        self._thread: threading.Thread | None = None
        self._began = time.monotonic() - _seconds(log.events)

    def go(self) -> Going:
        """Go on from where the events end, until it is done, stopped, or waits for a person."""
        try:
            while self.log.state == "running":
                if self.stopped:
                    yield self.log.note(Cancelled(during="pause", reason=self.stopped))
                    return
                yield from self._next()
        except KeyboardInterrupt:
            if self.stream is not None:
                self.stream.cancel()
            during = "code" if self.is_running_code else "model"
            self.is_running_code = False
            yield self.log.note(Cancelled(during=during, reason=self.stopped), before=self.place.head)
        finally:
            if self.stream is not None:
                self.stream.cancel()
                self.stream = None

    def stop(self, reason: str) -> None:
        """Stop it from whatever thread: it ends as interrupted as soon as it can."""
        self.stopped = reason
        if self.is_running_code and self._thread is not None:
            interrupt(self._thread)
        elif self.stream is not None:
            self.stream.cancel()

    def _next(self) -> Going:
        action, since = conversation.open_action(self.log.events)
        if action is None:
            yield from self._ask()
        elif any(isinstance(event, StepStart) for event in since):
            yield self.log.note(Output(status="unknown", sent=conversation.UNKNOWN), step=action.step)
        else:
            decided = next((one for one in reversed(since) if isinstance(one, ApprovalDecided)), None)
            yield from self._allow(action) if decided is None else self._follow(action, decided)

    # -- asking

    def _ask(self) -> Going:
        reached = self.setup.limits.reached(
            steps=self._steps(), usage=usage_of(self.log.events), seconds=time.monotonic() - self._began
        )
        if reached is not None:
            yield self.log.note(Fail(limit=reached[0], reason=reached[1]))
            return
        began = time.perf_counter()
        try:
            answer = yield from self._answer()
        except ModelError as error:
            yield from self._failed(error)
            return
        number = self._steps() + 1 if answer.code is not None else None
        action = Action(
            thinking=answer.thinking,
            text=answer.text,
            code=answer.code,
            call=answer.call,
            usage=answer.usage,
            duration_s=round(time.perf_counter() - began, 6),
        )
        yield self.log.note(action, step=number, before=self.place.head)
        if answer.code is None:
            yield from self._words(answer.text.strip())

    def _answer(self) -> Generator[Item, Any, Answer]:
        """Stream one answer."""
        answers = sum(isinstance(event, Action) for event in self.log.events)
        sent = (*self.setup.earlier, *conversation.messages_of(self.log.events))
        request = Request(self.log.start.instructions, sent, answers, self._patience())
        self.stream = stream = Stream(self.setup.model, request)
        answer: Answer | None = None
        while (piece := (yield Wait(stream.next()))) is not None:
            if isinstance(piece, Answer):
                answer = piece
            else:
                yield piece
        self.stream = None
        if answer is None:
            if self.stopped:
                raise KeyboardInterrupt
            raise ModelError(self.setup.model.name, "it ended without an answer", retry_after_s=0.0)
        return answer

    def _patience(self) -> float | None:
        limits = self.setup.limits
        left = None if limits.run_s is None else max(0.1, limits.run_s - (time.monotonic() - self._began))
        known = [one for one in (limits.model_s, left) if one is not None]
        return min(known, default=None)

    def _failed(self, error: ModelError) -> Going:
        """The model did not answer: ask again later, or give up."""
        self.stream = None
        tries = self._errors_in_a_row()
        again = error.retry_after_s is not None and tries < self.setup.limits.retries
        yield self.log.note(Error(source="model", message=str(error), fatal=not again))
        if not again:
            yield self.log.note(Fail(reason=str(error), limit=self._limit_of(error)))
        elif error.retry_after_s:
            yield Wait(later(min(_LONGEST_WAIT_S, error.retry_after_s * 2**tries)))

    def _limit_of(self, error: ModelError) -> str:
        """The limit that an answer ran into, if one did."""
        if not error.timed_out:
            return ""
        run_s = self.setup.limits.run_s
        return "model_s" if run_s is None or time.monotonic() - self._began < run_s else "run_s"

    def _words(self, text: str) -> Going:
        """The model answered with words alone: they are the result, where words can be one."""
        if text and returning.type_text(self.setup.returns) in ("", "str"):
            self.value = text
            yield self.log.note(Success(result=text[:2_000], type="str"), before=self.place.head)
            return
        yield from self._retry("Act by calling run_python, and end the task there with task.success(value).")

    def _retry(self, sent: str) -> Going:
        if self._retries_in_a_row() >= self.setup.limits.retries:
            reason = f"the model was told {self.setup.limits.retries} times what did not fit: {sent}"
            yield self.log.note(Fail(reason=reason[:500], limit="retries"))
            return
        yield self.log.note(Retry(sent=sent))

    # -- allowing

    def _allow(self, action: Action) -> Going:
        code = action.code or ""
        findings = review(code, names=self.place.names(), allowed=self.setup.allowed)
        verdict = approving.verdict(self.setup.approve, findings, can_ask=self.setup.can_ask)
        if verdict == "run":
            yield from self._execute(action, code)
            return
        yield self.log.note(ApprovalRequested(code=code, findings=findings), step=action.step, before=self.place.head)
        if verdict == "deny":
            reason = "nobody is there to ask" if self.setup.approve != "never" else "nothing of the kind is allowed"
            decided = self.log.note(ApprovalDecided(decision="deny", by="policy", reason=reason), step=action.step)
            yield decided
            yield from self._follow(action, decided)

    def _follow(self, action: Action, decided: ApprovalDecided) -> Going:
        if decided.decision != "deny":
            yield from self._execute(action, decided.code or action.code or "", edited=decided.code is not None)
            return
        findings = next((e.findings for e in reversed(self.log.events) if isinstance(e, ApprovalRequested)), ())
        yield self.log.note(
            Output(status="denied", sent=approving.denial(findings, decided.reason)),
            step=action.step,
            before=self.place.head,
        )

    # -- running

    def _execute(self, action: Action, code: str, *, edited: bool = False) -> Going:
        step, before = action.step or 0, self.place.head
        yield self.log.note(StepStart(code="" if code == action.code else code), step=step, before=before)
        self.place.begin(code, Author(self.log.start.agent, "agent"), self.log.run, step)
        self._thread = threading.current_thread()
        self.is_running_code = True
        done: Executed | None = None
        changed: list[Change] = []
        unsaved: list[Unsaved] = []
        handle = TaskHandle(self.setup.inputs)
        try:
            with recorded(self.place.quiet_paths()) as effects, offered(handle):
                done = self.place.executor.run(code, timeout_s=self._step_s())
        finally:
            changed, unsaved = self.place.end(done)
        assert done is not None  # else an error goes on its way already
        after = self.place.head
        told = context.change_lines(changed, self.place.summary)
        shown = tuple(msgspec.structs.replace(part, text=context.masked(part.text, 100_000)) for part in done.parts)
        sent = self._sent(done, told, code if edited else "")
        yield self.log.note(
            Output(status=done.status, sent=sent, parts=shown, duration_s=round(done.seconds, 6)),
            step=step,
            before=before,
            after=after,
        )
        yield from self._aside(done, changed, unsaved, effects, step, after)
        self.is_running_code = False
        if done.status == "interrupted":
            yield self.log.note(Cancelled(during="code", reason=self.stopped), step=step, before=after)
        elif done.settled is not None:
            yield from self._settle(done.settled, step, after)

    def _aside(
        self,
        done: Executed,
        changed: list[Change],
        unsaved: list[Unsaved],
        effects: Recorder,
        step: int,
        after: str,
    ) -> Going:
        """What is told beside the output: what changed, what went wrong, what it did outside."""
        if changed or unsaved:
            said = tuple((one.how, one.name, "" if one.how == "-" else self.place.summary(one.name)) for one in changed)
            lost = tuple((one.name, one.reason) for one in unsaved)
            yield self.log.note(StateChange(changed=said, unsaved=lost), step=step, before=after)
        if done.error is not None and done.status != "interrupted":
            message = context.masked(f"{type(done.error).__name__}: {_first_line(done.error)}", 500)
            yield self.log.note(Error(source="code", message=message), step=step, before=after)
        for (what, target), count in effects.found.items():
            yield self.log.note(
                Effect(what=what, target=context.masked(target, 300), count=count), step=step, before=after
            )

    def _step_s(self) -> float | None:
        limits = self.setup.limits
        left = None if limits.run_s is None else max(0.05, limits.run_s - (time.monotonic() - self._began))
        return min([one for one in (limits.step_s, left) if one is not None], default=None)

    def _sent(self, done: Executed, changed: list[str], edited: str) -> str:
        """What the model is told of a step."""
        said = [f"The person changed the code before it ran:\n{edited}"] if edited else []
        text = context.masked(done.text, self.setup.limits.output_chars).rstrip()
        match done.status:
            case "timeout":
                said.append(f"The step was interrupted: {done.error}. What it had changed by then is kept.")
            case "interrupted":
                said.append("The person interrupted this step. What it had changed by then is kept.")
            case _:
                pass
        said += [text] if text else []
        if changed:
            said.append("\n".join(["Changed variables:", *changed]))
        return "\n\n".join(said) or "(no output, and no variable changed)"

    def _settle(self, settled: Settled, step: int, after: str) -> Going:
        match settled.how:
            case "fail":
                yield self.log.note(Fail(reason=context.masked(str(settled.value), 2_000)), step=step, before=after)
            case "clarify":
                yield self.log.note(Clarify(question=str(settled.value)[:4_000]), step=step, before=after)
            case _:
                try:
                    self.value = returning.fitted(settled.value, self.setup.returns)
                except returning.Misfit as misfit:
                    yield self.log.note(Error(source="value", message=str(misfit)[:500]), step=step, before=after)
                    yield from self._retry(f"task.success was given a value that does not fit: {misfit}")
                    return
                yield self.log.note(self._success(), step=step, before=after)

    def _success(self) -> Success:
        from agent_kernel.values import summaries

        said = "" if self.value is None else summaries.line(summaries.summarize(self.value, "result"))
        return Success(result=said, type=returning.type_text(type(self.value)))

    # -- counting

    def _steps(self) -> int:
        return sum(isinstance(event, Action) and event.code is not None for event in self.log.events)

    def _errors_in_a_row(self) -> int:
        """How often the model failed since it answered last."""
        many = 0
        for event in reversed(self.log.events):
            if isinstance(event, Action):
                break
            many += isinstance(event, Error) and event.source == "model"
        return many

    def _retries_in_a_row(self) -> int:
        """How often the model was told that its answer does not fit, since a step that gave back nothing unfit."""
        many = 0
        is_unfit = False
        for event in reversed(self.log.events):
            if isinstance(event, Output) and not is_unfit:
                break
            is_unfit = isinstance(event, Error) and event.source == "value"
            many += isinstance(event, Retry)
        return many


def _first_line(error: BaseException) -> str:
    found = [argument for argument in error.args[:1] if type(argument) is str]
    return found[0].partition("\n")[0] if found else ""


def _seconds(events: list[Event]) -> float:
    """How long the run took already: what its answers and steps took, not the time that a person let it wait."""
    return sum(event.duration_s for event in events if isinstance(event, Action | Output))
