"""One run of an agent: iterate over it, await it, or block on its result; stop it, and go on with it."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import msgspec

from agent_kernel.agents import approval, rights
from agent_kernel.agents.agent_undo import is_next_a_step, is_race, refuse_if_elsewhere
from agent_kernel.agents.event_log import short_run, usage_of
from agent_kernel.agents.events import Action, Cancelled, Clarify, Error, Event, Fail, Resumed, Usage
from agent_kernel.agents.executor import RunExecutor, Wait
from agent_kernel.agents.listing import Events
from agent_kernel.agents.messages import open_action
from agent_kernel.errors import (
    RunBusyError,
    RunStateError,
    StoreError,
    TaskClarifyError,
    TaskFailedError,
    TaskInterruptedError,
    TaskPendingError,
)

if TYPE_CHECKING:
    from agent_kernel.agents.event_log import EventStore, State
    from agent_kernel.agents.executor import RunItems
    from agent_kernel.agents.models import Delta

__all__ = ["Outcome", "Run", "drive", "drive_async", "drive_together"]


# -- the two ways to drive a run: blocking, or in an event loop. The course is the same; only the waiting differs

_NAP_S = 0.2


def drive(items: RunItems, first: BaseException | None = None) -> Iterator[Event | Delta]:
    """Go on until the run ends or waits for a person. An interrupt while waiting stops the run, which then ends so.

    Args:
        first: is raised in the course, where it stands.
    """
    item = _advance(items.send, None) if first is None else _advance(items.throw, first)
    while item is not None:
        if isinstance(item, Wait):
            try:
                found = _wait_for(item.future)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the course decides
                item = _advance(items.throw, error)
            else:
                item = _advance(items.send, found)
        else:
            yield item
            item = _advance(items.send, None)


async def drive_async(items: RunItems) -> AsyncIterator[Event | Delta]:
    """The same in an event loop. Code still runs on this thread, and blocks the loop as it does in a cell.

    Where the task is cancelled the run is stopped, so that it can be resumed, and the cancellation goes on.
    """
    item = _advance(items.send, None)
    cancelled: asyncio.CancelledError | None = None
    while item is not None:
        if isinstance(item, Wait):
            try:
                found: Any = await asyncio.wrap_future(item.future)
            except asyncio.CancelledError as error:
                cancelled = error
                item = _advance(items.throw, KeyboardInterrupt())
            except BaseException as error:  # noqa: BLE001 - whatever it is, the course decides
                item = _advance(items.throw, error)
            else:
                with _interruptible():
                    item = _advance(items.send, found)
        else:
            yield item
            with _interruptible():
                item = _advance(items.send, None)
    if cancelled is not None:
        raise cancelled


def _wait_for(future: Future[Any]) -> Any:
    """What the future gives. It wakes up now and then, for a signal that another thread took wakes nobody else."""
    while True:
        try:
            return future.result(timeout=_NAP_S)
        except TimeoutError:
            if future.done():
                return future.result()


def drive_together(runs: Iterable[RunItems], at_once: int) -> None:
    """Drive several runs to their ends on this thread: while some wait for their models, one goes on.

    An interrupt stops all that were begun.
    """
    pending = iter(runs)
    waiting: dict[Future[Any], RunItems] = {}
    try:
        while True:
            while len(waiting) < max(1, at_once) and (items := next(pending, None)) is not None:
                _until_wait(items, _advance(items.send, None), waiting)
            if not waiting:
                return
            finished, _ = wait(waiting, _NAP_S, FIRST_COMPLETED)  # waking up now and then, as `_wait_for` does
            for future in finished:
                items = waiting.pop(future)
                error = future.exception()
                item = _advance(items.throw, error) if error is not None else _advance(items.send, future.result())
                _until_wait(items, item, waiting)
    except KeyboardInterrupt:
        for items in waiting.values():
            _until_wait(items, _advance(items.throw, KeyboardInterrupt()), {})
        raise


def _until_wait(items: RunItems, item: object, waiting: dict[Future[Any], RunItems]) -> None:
    while item is not None and not isinstance(item, Wait):
        item = _advance(items.send, None)
    if isinstance(item, Wait):
        waiting[item.future] = items


def _advance(step: Any, value: Any) -> Any:
    try:
        return step(value)
    except StopIteration:
        return None


@contextmanager
def _interruptible() -> Generator[None]:
    """Let an interrupt reach code that runs in a coroutine: event loops take the signal for themselves."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler or before is None:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


T = TypeVar("T")
_THIS_THREAD: Final = "this very thread, which is in the middle of it: a listener, or its own code, cannot wait for it"
_OTHER_THREAD: Final = "another thread of this process"


class Outcome(msgspec.Struct, frozen=True):
    """How a run stands. `value` only where it was made in this process; `commit` is where its last step led."""

    status: State
    value: object = None
    reason: str = ""
    limit: str = ""
    commit: str = ""
    usage: Usage = Usage()


class Run(Generic[T]):
    """A task on its way. Its code runs on the thread that drives it: iterates, awaits, or asks for the result."""

    def __init__(self, run_executor: RunExecutor) -> None:
        self._run_executor = run_executor
        self._items: RunItems | None = None
        self._loops = 0  # that drive it from here
        self._thread = 0  # on which the first of them does

    def __repr__(self) -> str:
        return f"<Run {short_run(self.id)} of {self.agent}, {self._describe_status()}>"

    def _describe_status(self) -> str:
        """Where it stands in words; that nobody drives it is said, too, as far as its store can tell."""
        log = self._run_executor.log
        try:
            stands = log.state if log.is_claimed else approval.run_status(log.event_store, log.events)
        except StoreError:  # a repr never fails
            stands = log.state
        has_begun = any(isinstance(event, Action | Error | Cancelled) for event in log.events)
        return approval.status_text(stands) if has_begun or stands != "stopped" else "not begun"

    @property
    def id(self) -> str:
        """Unique; people see and type its last five digits."""
        return self._run_executor.log.run

    @property
    def agent(self) -> str:
        """The name of the agent whose run it is."""
        return self._run_executor.log.start.agent

    @property
    def task(self) -> str:
        """What it was given to do."""
        return self._run_executor.log.start.task

    @property
    def model(self) -> str:
        """The name of the model that it began with."""
        return self._run_executor.log.start.model

    @property
    def events(self) -> Events:
        """All that happened so far; of its sub-agents `agent_kernel.events(run)` tells too."""
        return Events(self._run_executor.log.events)

    @property
    def event_store(self) -> EventStore:
        """Where its events are kept."""
        return self._run_executor.log.event_store

    @property
    def status(self) -> State:
        """Where it stands, judging from its events; `running` is also said of one that nobody drives."""
        return self._run_executor.log.state

    @property
    def usage(self) -> Usage:
        """What the model took so far."""
        return usage_of(self._run_executor.log.events)

    @property
    def outcome(self) -> Outcome:
        """How it stands; never raises, drives nothing."""
        events = self._run_executor.log.events
        last = events[-1]
        reason = ""
        for event in reversed(events):
            if isinstance(event, Fail | Cancelled):
                reason = event.reason
            elif isinstance(event, Clarify):
                reason = event.question
            else:
                continue
            break
        limit = last.limit if isinstance(last, Fail) else ""
        commit = next((event.after for event in reversed(events) if event.after), "")
        return Outcome(self.status, self._run_executor.value, reason, limit, commit, self.usage)

    def is_current(self) -> bool:
        """Whether nobody else went on with it: the stored events are those that are known here."""
        log = self._run_executor.log
        return next(log.event_store.of(self.id, len(log.events) - 1), None) is None

    # -- driving

    def __iter__(self) -> Iterator[Event]:
        """Drive it, and see each event once it is stored; those of before first. Leaving the loop only pauses it."""
        yield from tuple(self._run_executor.log.events)
        for item in self.stream():
            if isinstance(item, Event):
                yield item

    def stream(self) -> Iterator[Event | Delta]:
        """Drive it, and see also the pieces of the model's answers as they come in.

        Raises:
            RunBusyError: somebody else drives it, or went on with it since it was looked at here.
            RunElsewhereError: the next step is written already, and the state here does not go on from those before it.
        """
        try:
            with self._claim():
                yield from drive(self.items())
        except KeyboardInterrupt:  # before it was begun, or where it had ended: else the course has dealt with it
            yield from self.halt()

    async def __aiter__(self) -> AsyncIterator[Event]:
        for event in tuple(self._run_executor.log.events):
            yield event
        async for item in self._stream_async():
            if isinstance(item, Event):
                yield item

    async def _stream_async(self) -> AsyncIterator[Event | Delta]:
        try:
            with self._claim():
                async for item in drive_async(self.items()):
                    yield item
        except KeyboardInterrupt:  # as in `stream`
            for event in self.halt():
                yield event

    def __await__(self) -> Generator[object, None, T]:
        return self._await_result().__await__()

    async def _await_result(self) -> T:
        async for _ in self._stream_async():
            pass
        return self._result()

    def result(self) -> T:
        """Drive it to its end, and return what it gave.

        Raises:
            TaskFailedError: it gave up, a limit ended it, or its model failed.
            TaskClarifyError: it has a question: `resume(answer)`.
            TaskPendingError: a step waits for approval: `approve()`, `edit(code)`, `deny(reason)`.
            TaskInterruptedError: it was stopped: `resume()`.
        """
        try:
            for _ in self.stream():
                pass
        except KeyboardInterrupt:  # between two events
            self.halt()
        return self._result()

    def _result(self) -> T:
        outcome = self.outcome
        match outcome.status:
            case "completed":
                return cast("T", outcome.value)
            case "failed":
                raise TaskFailedError(outcome.reason, self.id, outcome.limit)
            case "clarify":
                raise TaskClarifyError(outcome.reason, self.id)
            case "pending":
                action, _ = open_action(self._run_executor.log.events)
                raise TaskPendingError(self.id, (action.code or "") if action else "")
            case _:
                raise TaskInterruptedError(self.id, outcome.reason)

    def drive_claimed(self) -> RunItems:
        """What is driven together with other runs (`drive_together`)."""
        with self._claim():
            yield from self.items()

    @contextmanager
    def _claim(self, *, goes_on: bool = True) -> Generator[None]:
        """While it is driven from here nobody else drives it. Where a loop is left it is released, and only pauses."""
        log, arguments = self._run_executor.log, self._run_executor.arguments
        if not self._loops and goes_on and log.state == "running":
            log.read_again()
            if is_next_a_step(log.events):
                refuse_if_elsewhere(self._run_executor.context.session, log.events)
        self._loops += 1
        if self._loops == 1:
            self._thread = threading.get_ident()
        try:
            log.claim()
            if self._loops == 1 and log.state == "running":
                arguments.resume()
            yield
        finally:
            self._loops -= 1
            if not self._loops:
                arguments.pause()
                log.release()

    def items(self) -> RunItems:
        """What is driven (`drive`): one at a time, and again as long as it is not done.

        Raises:
            RunBusyError: it is at work right here, as where a listener of the run, or its own code, asks for its result.
        """
        if self._items is not None and inspect.getgeneratorstate(self._items) == inspect.GEN_RUNNING:
            if self.status != "running":  # as where it is told that it has ended: nothing is left to be driven
                return _nothing()
            raise RunBusyError(self.id, _THIS_THREAD if self._thread == threading.get_ident() else _OTHER_THREAD)
        if self._items is None or inspect.getgeneratorstate(self._items) == inspect.GEN_CLOSED:
            self._items = self._run_executor.run()
        return self._items

    # -- a person's part

    def resume(self, answer: str = "", *, by: str = "", force: bool = False) -> Run[T]:
        """Let it go on after it was stopped, or answer its question; then drive it as before.

        Args:
            force: also where a process on another machine drives it, of which nobody can tell here whether it lives.

        Raises:
            RunStateError: it is done, waits for approval, or is a race. RunBusyError: somebody else drives it.
            WithinStepError: code of a step resumes a run that it has not begun.
        """
        self._refuse_within_others("resume a run")
        if is_race(self._run_executor.log.start):  # it has no conversation of its own: only candidates ask a model
            raise RunStateError(self.id, "a race", "resumed; run its cell again")
        status = self.status
        if status == "running":
            approval.refuse_if_driven(self._run_executor.log, force=force)
        if status == "clarify" and not answer:
            raise RunStateError(self.id, "waiting for an answer", "resumed without one: resume(answer)")
        if status not in ("clarify", "interrupted", "running", "failed"):
            raise RunStateError(self.id, approval.status_text(status), "resumed")
        self._run_executor.stopped = ""
        sent = answer or ("Go on." if status == "failed" else "")
        if status != "running" or sent:
            self._run_executor.log.note(Resumed(sent=self._run_executor.context.redactor.redact(sent), by=by))
        return self._continue()

    @rights.only_by_person("decide about a step")
    def approve(self, *, by: str = "") -> Run[T]:
        """Let the step that waits run as it is.

        Raises:
            RunStateError: none waits. RunElsewhereError: the state here does not go on from the steps before it.
            WithinStepError: code of a step approves one.
        """
        return self._decide("approve", by=by)

    @rights.only_by_person("decide about a step")
    def edit(self, code: str, *, by: str = "") -> Run[T]:
        """Let this code run instead of the step that waits; the model is told. Raises: as `approve`."""
        return self._decide("edit", code=code, by=by)

    @rights.only_by_person("decide about a step")
    def deny(self, reason: str = "", *, by: str = "") -> Run[T]:
        """Do not run the step that waits; the model is told why, and goes on. Raises: as `approve`."""
        return self._decide("deny", reason=reason, by=by)

    def _decide(self, decision: str, *, code: str | None = None, reason: str = "", by: str = "") -> Run[T]:
        if self.status == "pending":
            self._run_executor.log.read_again()
            refuse_if_elsewhere(self._run_executor.context.session, self._run_executor.log.events)
        approval.decide(self._run_executor.log, decision, code=code, reason=reason, by=by)
        return self._continue()

    def _refuse_within_others(self, what: str) -> None:
        parent = rights.running_executor()
        if parent is None or self._run_executor.log.start.parent_run != parent.log.run:
            rights.refuse_within_step(what)

    def _continue(self) -> Run[T]:
        if self._loops:  # decided within the loop that drives it: that goes on
            self._run_executor.log.claim()
        return self

    def halt(self) -> tuple[Event, ...]:
        """Stop it where it stands, on the thread that drives it, as an interrupt does while it waits; what is noted of that."""
        if self.status != "running":
            return ()
        with self._claim(goes_on=False):
            items = self.items()
            if inspect.getgeneratorstate(items) == inspect.GEN_CREATED:
                return self._run_executor.note_interrupt()
            return tuple(one for one in drive(items, KeyboardInterrupt()) if isinstance(one, Event))

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop it, from any thread: the model's answer is cut off, code is interrupted. It can be resumed."""
        self._run_executor.stop(reason)

    def abandon(self, reason: str = "given up") -> None:
        """Give it up for good, where it stands. Raises: RunStateError: it is done. RunBusyError: somebody else drives it."""
        self._refuse_within_others("give up a run")
        if self.status in ("completed", "failed", "cancelled"):
            raise RunStateError(self.id, approval.status_text(self.status), "given up")
        approval.refuse_if_driven(self._run_executor.log)
        self._run_executor.forget_preview()
        self._run_executor.log.note(Cancelled(during="pause", reason=reason, final=True))


def _nothing() -> RunItems:
    yield from ()
