"""What a run may take. Each limit ends it as failed, keeps everything and is named; code that runs too long is interrupted."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

import msgspec

from agent_kernel.agents.events import Usage


def ran_too_long(seconds: float, most: float) -> str:
    """What to say of a run that took longer than it may.

    >>> ran_too_long(1.234, 1)
    'stopped after 1.23 s (limit: 1 s)'
    """
    return f"stopped after {seconds:.3g} s (limit: {most:.3g} s)"


def _describe_stop(used: str, most: str, is_exact: bool) -> str:
    return f"stopped after {used}, which is the limit" if is_exact else f"stopped after {used} (limit: {most})"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one run; None: no limit.

    Attributes:
        steps: pieces of code that it may run.
        tokens: read and written by the model, over all steps.
        cost: in US dollars. A run whose model has a price that is not known is refused, or ends as that turns out.
        step_s: seconds that one step's code may run. The code is interrupted, and the model is told.
            After `retries` such steps one after the other, or where code goes on in spite of it, the run ends.
        run_s: seconds from its start, waiting for a person not counted.
        model_s: seconds that one answer of the model may take.
        output_chars: of what comes of a step, so much is sent to the model; of more the middle is left out, and
            after `retries` such steps one after the other the run ends.
        retries: times that the model is told that its answer does not fit, or is asked again after an error of its
            provider, one after the other.
    """

    steps: int | None = 20
    tokens: int | None = None
    cost: float | None = None
    step_s: float | None = None
    run_s: float | None = None
    model_s: float | None = 600.0
    output_chars: int = 20_000
    retries: int = 3

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise TypeError(f"{name} must be a number, not {value!r}")
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must be 0 or more, not {value!r}")

    def find_reached(
        self, *, steps: int, usage: Usage, seconds: float, unpriced: bool = False
    ) -> tuple[str, str] | None:
        """The limit that the next step would break: its name, and what to say of it.

        Args:
            unpriced: an answer came whose cost nobody knows.
        """
        if self.steps is not None and steps >= self.steps:
            return "steps", _describe_stop(
                f"{steps:,} step{'s' * (steps != 1)}", f"{self.steps:,}", steps == self.steps
            )
        if self.tokens is not None and usage.tokens >= self.tokens:
            return "tokens", _describe_stop(f"{usage.tokens:,} tokens", f"{self.tokens:,}", usage.tokens == self.tokens)
        cost = usage.cost or 0.0
        if self.cost is not None and cost >= self.cost:
            return "cost", f"stopped after ${cost:.4g} (limit: ${self.cost:.4g})"
        if self.cost is not None and unpriced:
            return "cost", f"what its model costs is not known, so it cannot be kept under ${self.cost:.4g}"
        if self.run_s is not None and seconds >= self.run_s:
            return "run_s", ran_too_long(seconds, self.run_s)
        return None

    def bound_by(self, other: Limits, usage: Usage, seconds: float) -> Limits:
        """These limits for a sub-agent of a run that has the `other` ones, and took so much of them already."""

        def least(mine: float | None, theirs: float | None, used: float) -> float | None:
            remaining = None if theirs is None else max(0.0, theirs - used)
            return min([one for one in (mine, remaining) if one is not None], default=None)

        tokens = least(self.tokens, other.tokens, usage.tokens)
        steps = least(self.steps, other.steps, 0)
        return msgspec.structs.replace(
            self,
            steps=None if steps is None else int(steps),
            tokens=None if tokens is None else int(tokens),
            cost=least(self.cost, other.cost, usage.cost or 0.0),
            run_s=least(self.run_s, other.run_s, seconds),
        )

    def as_dict(self) -> dict[str, float | None]:
        """For the event that starts a run."""
        return {name: getattr(self, name) for name in self.__struct_fields__}

    @classmethod
    def of(cls, stored: dict[str, float | None]) -> Limits:
        """The limits that an event says, of which some may be unknown to this release."""
        return msgspec.convert(
            {name: stored[name] for name in cls.__struct_fields__ if name in stored}, cls, strict=False
        )


# -- interrupt code that runs too long, as Ctrl-C would, and nothing but that code
#
# The interrupt comes from another thread, and could arrive when the code has just ended, in whoever called it. So the end
# of the block is told first, under the lock under which interrupts are sent; what was sent before that and arrives later
# is let fall. On the main thread a signal does it, which ends waiting too; on others an exception is put into the thread,
# which it meets at its next line of Python. A long call into C notices either when it returns.

T = TypeVar("T")

STUBBORN: Final = 3  # interrupts that code may swallow, before something that is not an interrupt is raised
_FIRST_AGAIN_S: Final = 0.5  # what code that was interrupted has for tidying up
_AGAIN_S: Final = 0.2
_JUMPS: Final = 10_000  # it arrives at one of the first
_TOOLS: Final = (4, 3)  # numbers that Python reserves for no kind of tool

_unheeding: set[int] = set()  # the threads on which each line raises `Unheeded`


class StepTimeout(TimeoutError):  # noqa: N818 - a TimeoutError by name too
    """The code ran longer than a step may. `swallowed`: how many interrupts did not end it."""

    def __init__(self, seconds: float, swallowed: int = 0) -> None:
        times = "once" if swallowed == 1 else f"{swallowed} times"
        on = f", and went on after it was interrupted {times}" if swallowed else ""
        super().__init__(f"it ran longer than {seconds:g} s{on}")
        self.swallowed = swallowed


class SentAgain:
    """Exceptions that are put into a thread, again and again, until they have ended what runs there.

    One may arrive in a finalizer, or another call that Python makes between two lines, where it is ignored. Python says
    nothing of that: the next one comes.
    """


class _UnraisableHook:
    """Python's hook for exceptions that it ignores, but for those that are sent again."""

    def __init__(self, before: Callable[[Any], Any]) -> None:
        self.__wrapped__ = before

    def __call__(self, unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, SentAgain):
            self.__wrapped__(unraisable)

    @classmethod
    def install(cls) -> None:
        if not isinstance(sys.unraisablehook, cls):
            sys.unraisablehook = cls(sys.unraisablehook)


class StepInterrupted(SentAgain, KeyboardInterrupt):
    """Interrupts code that ran too long. Nobody reads where it arrived: IPython shows these lines in place of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return []


class Unheeded(SentAgain, BaseException):
    """Raised in code that swallowed its interrupts: from then on whatever it begins to do raises it again.

    It is made on the thread of that code, wherever it arrives there; so it is here that the lines of the code are watched.
    """

    def __init__(self) -> None:
        frames: list[FrameType] = []
        frame = inspect.currentframe()
        while frame is not None and _is_ours(frame.f_code):
            frame = frame.f_back
        while frame is not None and not _is_ours(frame.f_code):
            frames.append(frame)
            frame = frame.f_back
        if frame is not None:  # else it came late, where no deadline is
            _watch_lines(frames)


def _is_ours(code: CodeType) -> bool:
    return code.co_filename == _is_ours.__code__.co_filename


def _watch_lines(frames: list[FrameType]) -> None:
    """Have each line of this thread raise `Unheeded` from here on, those of these frames too.

    A trace function that raises is switched off, after whatever it has switched on. Up to Python 3.11 the exception is
    made later still, in the code that catches it, and so watches the lines again; from 3.12 on it is made before that.
    There `sys.monitoring` calls a function that raises again and again.
    """
    _unheeding.add(threading.get_ident())
    if _monitors_lines(True):
        return
    for frame in frames:
        frame.f_trace = _again
    sys.settrace(_again)


def _leave_lines(before: Any) -> None:
    """Watch the lines of this thread no more: its trace function is the one from before."""
    if sys.gettrace() is _again:
        sys.settrace(before)
    _unheeding.discard(threading.get_ident())
    # Another thread that begins to be watched just now is so when its code is interrupted again.
    if not _unheeding:
        _monitors_lines(False)


def _monitors_lines(begins: bool) -> bool:
    """Have Python call `_line_begins` for each line, or no more; returns whether it can (3.12, and a number is free)."""
    if sys.version_info < (3, 12):
        return False
    monitoring = sys.monitoring
    for tool in _TOOLS:
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, __name__)
        if monitoring.get_tool(tool) == __name__:
            monitoring.register_callback(tool, monitoring.events.LINE, _line_begins)
            monitoring.set_events(tool, monitoring.events.LINE if begins else 0)
            return True
    return False


def _line_begins(code: CodeType, line: int) -> None:
    if threading.get_ident() in _unheeding and not _is_ours(code):
        raise Unheeded


def _again(frame: FrameType, event: str, arg: object) -> Any:
    """A line of code that heeds nothing begins: it ends at its next jump or call.

    Raising here would do so once, as Python traces nothing any more after that.
    """
    if _is_ours(frame.f_code):
        return None
    put_into(threading.current_thread(), Unheeded)
    return _again


class _Withdrawn(SentAgain, BaseException):
    """Takes the place of an interrupt that came too late."""


class _Watch:
    """Interrupts one thread when it is time, again and again, until it is told that the block has ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.sent = 0
        self.is_up = threading.Event()
        self.is_over = False
        self.is_ours = False  # an interrupt of ours is on its way
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._target = threading.current_thread()
        self._is_main = self._target is threading.main_thread()
        self._is_installed = False
        self._before: Any = None
        self._tracing = sys.gettrace()
        self._blocked: set[int] = set()
        if hasattr(signal, "pthread_sigmask"):
            self._blocked |= signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def begin(self) -> None:
        _UnraisableHook.install()
        if self._is_main:
            self._before = signal.getsignal(signal.SIGINT)
            self._is_installed = True
            signal.signal(signal.SIGINT, self._handle_signal)
        threading.Thread(target=self._run, name="agent-kernel deadline", daemon=True).start()

    def end(self) -> None:
        """Nothing is sent from here on, and what was sent has arrived. Again: nothing happens."""
        late: BaseException | None = None
        while True:
            try:
                if self.sent > STUBBORN:
                    _leave_lines(self._tracing)
                self.is_over = True
                with self._lock:
                    self._ended.set()
                self._withdraw()
                if self.sent and self._is_main and hasattr(signal, "pthread_sigmask"):
                    # What the code kept from arriving arrives here, and nothing of it later.
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT} - self._blocked)
                if self._is_installed:
                    signal.signal(signal.SIGINT, self._before)
                    self._is_installed = False
                break
            except (KeyboardInterrupt, Unheeded) as arrived:
                is_own = self._is_main and not isinstance(arrived, Unheeded)
                late = arrived if is_own else None  # on the main thread it is a person's own
        if late is not None:
            raise late

    def _withdraw(self) -> None:
        """Have what was put into this thread arrive here, where it is let fall.

        Python takes nothing back without a trace: where nothing arrives, it looks for something in all threads at each jump
        from then on, which costs time, and never ends under a debugger (3.11).
        """
        if self.sent <= (STUBBORN if self._is_main else 0):
            return
        try:
            put_into(self._target, _Withdrawn)  # in place of what may be on its way
            for _ in range(_JUMPS):
                pass
        except _Withdrawn:
            pass

    def _run(self) -> None:
        wait = self.seconds
        while not self._ended.wait(wait):
            with self._lock:
                if self.is_over:
                    return
                self.is_up.set()
                self.sent += 1
                self.is_ours = True
                if self._is_main:
                    interrupt(self._target)
                if not self._is_main or self.sent > STUBBORN:  # the code may have switched its signals off
                    put_into(self._target, self._what())
            wait = _FIRST_AGAIN_S if self.sent == 1 else _AGAIN_S

    def _what(self) -> type[BaseException]:
        return StepInterrupted if self.sent <= STUBBORN else Unheeded

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_ours:
            self.is_ours = False
            if not self.is_over:
                raise self._what()
        elif callable(self._before):
            self._before(number, frame)


def within(seconds: float | None, act: Callable[[], T]) -> T:
    """Do something, and interrupt it after so many seconds; what swallows the interrupt is interrupted again.

    This is not a context manager: an interrupt that came while one is left would leave it behind half-way.

    Raises:
        StepTimeout: the time was up, whatever the code made of the interrupt; but what else it raised goes first.
    """
    if seconds is None:
        return act()
    watch = _Watch(seconds)
    try:
        try:
            watch.begin()
            result = act()
        finally:
            watch.end()
    except (KeyboardInterrupt, Unheeded):
        watch.end()  # the interrupt may have come before it was told so
        if watch.is_up.is_set():
            raise StepTimeout(seconds, watch.sent - 1) from None
        raise
    if watch.is_up.is_set():
        raise StepTimeout(seconds, watch.sent)
    return result


def interrupt(thread: threading.Thread) -> None:
    """Raise KeyboardInterrupt in a thread, where it is or at its next line of Python."""
    if thread is threading.main_thread() and hasattr(signal, "pthread_kill") and thread.ident is not None:
        signal.pthread_kill(thread.ident, signal.SIGINT)
    elif thread is threading.main_thread():
        import _thread

        _thread.interrupt_main()
    else:
        put_into(thread, KeyboardInterrupt)


def put_into(thread: threading.Thread, what: type[BaseException]) -> None:
    """Let a thread raise this at its next line of Python."""
    import ctypes

    _UnraisableHook.install()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(what))


class Interruptible:
    """A stretch of code on one thread that others may interrupt while it lasts, and not a moment longer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def run(self, act: Callable[[], T], is_stopped: Callable[[], object] = lambda: False) -> T:
        """Do something that others may interrupt.

        Args:
            is_stopped: asked as it begins. Who sets what it reads before they interrupt is not too early either.
        """
        try:
            try:
                self._thread = threading.current_thread()
                if is_stopped():
                    raise KeyboardInterrupt
                return act()
            finally:
                self._end()
        except KeyboardInterrupt:
            self._end()  # it may have come before the end was told
            raise

    def _end(self) -> None:
        late: BaseException | None = None
        while True:
            try:
                with self._lock:
                    self._thread = None
                break
            except KeyboardInterrupt as arrived:
                late = arrived
        if late is not None:
            raise late

    def interrupt(self) -> bool:
        """Interrupt it, if it lasts still; returns whether it did."""
        with self._lock:
            if self._thread is None:
                return False
            interrupt(self._thread)
            return True
