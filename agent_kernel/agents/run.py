"""One run of an agent: iterate over it, await it, or block on its result; stop it, and go on with it. And tasks as functions, which begin runs."""

from __future__ import annotations

import asyncio
import dis
import functools
import inspect
import signal
import sys
import threading
import typing
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from html import escape
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, cast, overload

import msgspec

from agent_kernel.agents import approval, event_log, rights
from agent_kernel.agents.agent_undo import is_next_a_step, is_race, refuse_if_elsewhere
from agent_kernel.agents.arguments import Misfit, fit
from agent_kernel.agents.event_log import short_run, usage_of
from agent_kernel.agents.events import Action, Cancelled, Clarify, Error, Event, Fail, Resumed, Usage
from agent_kernel.agents.executor import RunExecutor, Wait
from agent_kernel.agents.listing import Events
from agent_kernel.agents.messages import open_action
from agent_kernel.agents.rights import parent_executor
from agent_kernel.errors import (
    AgentKernelError,
    RunBusyError,
    RunStateError,
    StoreError,
    TaskClarifyError,
    TaskFailedError,
    TaskInterruptedError,
    TaskPendingError,
)

if TYPE_CHECKING:
    from typing import Unpack

    from agent_kernel.agents.agent import Agent, Options, State
    from agent_kernel.agents.event_log import EventStore, Listener
    from agent_kernel.agents.executor import RunItems
    from agent_kernel.agents.models import Delta


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

    status: event_log.State
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
    def status(self) -> event_log.State:
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

    @rights.only_by_person
    def approve(self, *, by: str = "") -> Run[T]:
        """Let the step that waits run as it is.

        Raises:
            RunStateError: none waits. RunElsewhereError: the state here does not go on from the steps before it.
            WithinStepError: code of a step approves one.
        """
        return self._decide("approve", by=by)

    @rights.only_by_person
    def edit(self, code: str, *, by: str = "") -> Run[T]:
        """Let this code run instead of the step that waits; the model is told. Raises: as `approve`."""
        return self._decide("edit", code=code, by=by)

    @rights.only_by_person
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


# -- tasks as functions: the signature says what goes in and comes out, the docstring what is to be done, an agent does it
#
# `evaluate` tells how well agents do: the same tasks, several times, on several models.


P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")
_NOTHING_DONE = frozenset(
    [
        "CACHE",
        "CALL_INTRINSIC_1",
        "COPY_FREE_VARS",
        "LOAD_CONST",
        "LOAD_GLOBAL",
        "MAKE_CELL",
        "NOP",
        "POP_TOP",
        "RAISE_VARARGS",
        "RERAISE",
        "RESUME",
        "RETURN_CONST",
        "RETURN_GENERATOR",
        "RETURN_VALUE",
    ]
)
_ASIDE = ("state", "on_event")  # said of a call, where the function has no parameters of these names


class Task(Generic[P, C, R]):
    """A function whose body is an agent's work. What it gives is of the type that it is annotated with.

    Calling it does the task and returns its result; that of an `async def` is awaited. `state=` and `on_event=` may be
    said beside its own arguments.
    """

    def __init__(
        self, agent: Agent, function: Callable[P, object], text: str, options: Options, localns: Mapping[str, object]
    ) -> None:
        name = getattr(function, "__name__", "the task")
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType):
            raise TypeError(f"a task is made of a function, not of {type(function).__name__}")
        if not _is_empty(code, function.__doc__):
            raise TypeError(f"the body of {name} must be empty: the agent does what its docstring says")
        self.text = inspect.cleandoc(text or function.__doc__ or "")
        if not self.text:
            raise TypeError(f"{name} needs a docstring, which says what is to be done")
        self.agent = agent
        self.function = function
        self._options = options
        self.hints = _hints(function, name, localns)
        self._signature = inspect.signature(function)
        self.is_async = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<task {self.__name__}{self._signature} of {self.agent.name}>"

    __name__: str
    hints: dict[str, Any]  # the types of its parameters, and of its `return`

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C: ...
    @overload
    def __call__(self, *args: Any, state: State, **kwargs: Any) -> C: ...
    @overload
    def __call__(self, *args: Any, on_event: Listener, **kwargs: Any) -> C: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do it.

        Raises:
            TypeError: the arguments do not fit the signature. Otherwise what `Run.result` raises.
        """
        overrides = {
            name: kwargs.pop(name) for name in _ASIDE if name in kwargs and name not in self._signature.parameters
        }
        run = self._start(args, kwargs, cast("Options", {**self._options, **overrides}))
        return run if self.is_async else run.result()

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Begin it; nothing runs until the run is driven. Raises: TypeError: the arguments do not fit."""
        return self._start(args, kwargs, self._options)

    def stream(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[Event | Delta]:
        """Do it, and see its events, and the pieces of the model's answers, as they come."""
        return self._start(args, kwargs, self._options).stream()

    def on(self, **options: Unpack[Options]) -> Task[P, C, R]:
        """The same task with another state, model, limits, approval or listener."""
        merged = cast("Options", {**self._options, **options})
        return Task(self.agent, self.function, self.text, merged, {**self.hints})

    def map(self, *arguments: Iterable[Any], at_once: int = 4) -> list[R]:
        """Do it once for each argument, as `map` would, and return the results in order.

        While one waits for its model the others go on; their code runs one after the other, on this thread. Tasks that
        share a state are done one after the other. All are done before an error of one is raised.

        Args:
            at_once: so many are begun before the first of them is done.
        """
        runs = [self._start(values, {}, self._options) for values in zip(*arguments, strict=False)]
        has_state = self._options.get("state", self.agent.state) is not None
        drive_together([run.drive_claimed() for run in runs], 1 if has_state else at_once)
        results: list[R] = []
        errors: list[AgentKernelError] = []
        for run in runs:
            try:
                results.append(run.result())
            except AgentKernelError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return results

    def blocking(self, *args: Any, **kwargs: Any) -> R:
        """Do it and return its result, also where it is an `async def`: what another agent's code calls.

        Raises:
            RuntimeError: it is called on a thread that the step started. There nobody would know whose sub-agent it is.
        """
        parent_executor(f"{self.__name__}() is an agent's task")
        return self._start(args, kwargs, self._options).result()

    def _start(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options) -> Run[R]:
        run = self.agent.start(self.text, returns=self.returns, inputs=self.bind(args, kwargs), **options)
        return cast("Run[R]", run)

    @property
    def returns(self) -> object:
        """The type that its result has; None: any."""
        return self.hints.get("return")

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, object]:
        """The arguments of a call by name, each of the annotated type. Raises: TypeError: they do not fit."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.__name__}(): {self._unknown(kwargs) or error}") from None
        bound.apply_defaults()
        return {name: self.check_argument(name, value) for name, value in bound.arguments.items()}

    def _unknown(self, kwargs: Mapping[str, Any]) -> str:
        """What is said of an argument that the function does not take: before all, as one that it misses may be meant."""
        from difflib import get_close_matches

        known = self._signature.parameters
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values()):
            return ""
        unknown = next((name for name in kwargs if name not in known), "")
        close = get_close_matches(unknown, known, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known) or 'none'}"
        return f"it takes no argument {unknown!r}; {hint}" if unknown else ""

    def check_argument(self, name: str, value: Any) -> object:
        """An argument, as its annotation has it. Raises: TypeError: it does not fit."""
        wanted = self.hints.get(name)
        kind = self._signature.parameters[name].kind
        try:
            if kind is inspect.Parameter.VAR_POSITIONAL:
                return tuple(fit(one, wanted) for one in value)
            if kind is inspect.Parameter.VAR_KEYWORD:
                return {key: fit(one, wanted) for key, one in value.items()}
            default = self._signature.parameters[name].default
            return value if value is default else fit(value, wanted)
        except Misfit as misfit:
            raise TypeError(f"{self.__name__}(): argument {name!r} does not fit: {misfit}") from None


def _hints(function: Callable[..., object], name: str, localns: Mapping[str, object]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, localns=dict(localns), include_extras=True)
    except NameError as error:
        raise TypeError(f"an annotation of {name} is not known here: {error}") from error


def _is_empty(code: CodeType, doc: str | None) -> bool:
    """Whether a function does nothing: `pass`, `...`, a docstring, or `raise NotImplementedError`."""
    consts = [one for one in code.co_consts if one is not None and one is not ... and one != doc]
    names = set(code.co_names) - {"NotImplementedError"}
    return not consts and not names and {one.opname for one in dis.get_instructions(code)} <= _NOTHING_DONE


def caller_names() -> dict[str, object]:
    """Names of the function in which a task is defined, for its annotations: of the one that called our caller."""
    return dict(sys._getframe(2).f_locals)  # pyright: ignore[reportPrivateUsage]


# -- how well agents do: the same tasks, several times on each of several models, as a table


class Trial(msgspec.Struct, frozen=True):
    """A task with its arguments. `passes` says of a result whether it is right; without it, any result is."""

    task: Task[..., Any, Any]
    arguments: tuple[Any, ...] = ()
    passes: Callable[[Any], bool] | None = None


class Measured(msgspec.Struct, frozen=True):
    """What the runs of one trial on one model came to.

    `steps`, `tokens` and `seconds` are means; `cost` is the sum in US dollars, None where no price is known.
    """

    trial: str
    model: str
    runs: int
    passed: int
    steps: float
    tokens: float
    seconds: float
    cost: float | None = None


class Measures(tuple[Measured, ...]):
    """One row for each trial and model."""

    __slots__ = ()

    def __str__(self) -> str:
        rows = [("trial", "model", "passed", "steps", "tokens", "seconds", "cost"), *(_cells(one) for one in self)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(
            f"<th>{name}</th>" for name in ("trial", "model", "passed", "steps", "tokens", "seconds", "cost")
        )
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in _cells(one)) for one in self)
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def measure(trials: Mapping[str, Trial], models: Sequence[object], *, times: int = 3, at_once: int = 4) -> Measures:
    """Do every trial so many times on every model, each time from an empty namespace.

    Args:
        models: as for `Agent`.
        at_once: so many runs wait for their models at the same time; their code runs one after the other.
    """
    measured: list[Measured] = []
    for model in models:
        for name, trial in trials.items():
            task = trial.task.on(model=model, state=None)
            runs = [task.start(*trial.arguments) for _ in range(times)]
            drive_together([run.drive_claimed() for run in runs], at_once)
            measured.append(_measure(name, trial, runs))
    return Measures(measured)


def _measure(name: str, trial: Trial, runs: Sequence[Run[Any]]) -> Measured:
    many = max(1, len(runs))
    costs = [run.usage.cost for run in runs if run.usage.cost is not None]
    return Measured(
        trial=name,
        model=runs[0].model if runs else "",
        runs=len(runs),
        passed=sum(_has_passed(trial, run) for run in runs),
        steps=sum(event_log.steps_of(run.events) for run in runs) / many,
        tokens=sum(run.usage.tokens for run in runs) / many,
        seconds=sum(event_log.active_seconds(run.events) for run in runs) / many,
        cost=sum(costs) if costs else None,
    )


def _has_passed(trial: Trial, run: Run[Any]) -> bool:
    outcome = run.outcome
    return outcome.status == "completed" and (trial.passes is None or bool(trial.passes(outcome.value)))


def _cells(one: Measured) -> tuple[str, ...]:
    cost = "" if one.cost is None else f"${one.cost:.4f}"
    numbers = (f"{one.steps:.1f}", f"{one.tokens:,.0f}", f"{one.seconds:.2f}")
    return (one.trial, one.model, f"{one.passed}/{one.runs}", *numbers, cost)
