"""Hold back, while a block of code runs, what would disturb it or the person: warnings, the search for garbage, Ctrl-C, forks.

A library's own reducer may warn, which nobody asked for; where warnings are errors, the object could not be saved. A Ctrl-C must not stop
a commit half-way: it arrives when the block is done. It is also told from an interrupt that code sends itself. A fork waits until
no thread of this package is at work.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from operator import is_
from types import FrameType
from typing import Any, Final

_IGNORE_ALL = ("ignore", None, Warning, None, 0)
# New containers between two collections of them, and collections before the older ones are walked too.
_MANY, _SELDOM = 200_000, 1_000
_HANDLERS: Any = sys.modules["_signal"]  # `signal` makes an enum of each answer, which takes ten times as long
_SIGINT = int(signal.SIGINT)

# -- warnings and garbage


class unwarned:  # noqa: N801 - a block, as those below; a generator would take longer than what it does
    """Let no warning be shown or raised in the block.

    Not `catch_warnings`: it makes Python forget what was shown already, so the person's own would be shown once a cell.
    """

    __slots__ = ("_before", "_filters")

    def __enter__(self) -> None:
        self._filters: list[tuple[object, ...]] = warnings.filters  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
        self._before = list(self._filters)
        self._filters.insert(0, _IGNORE_ALL)

    def __exit__(self, *_: object) -> None:
        filters, before = self._filters, self._before
        if filters is warnings.filters and _are_same(filters, (_IGNORE_ALL, *before)):
            del filters[0]
            return
        # What was looked at may have run anything, also `warnings.resetwarnings()`: only what it added stays.
        known = {*map(id, before), id(_IGNORE_ALL)}
        for found in {id(found): found for found in (filters, warnings.filters)}.values():
            added = [one for one in found if id(one) not in known]
            found[:] = [*added, *before]  # type: ignore[index]  # pyright: ignore[reportIndexIssue]


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


@contextlib.contextmanager
def uncollected() -> Generator[None]:
    """Let Python look for no garbage in the block: nothing that is made there is garbage, and looking takes longer than making it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def seldom_collected() -> Generator[None]:
    """Let the garbage collector run seldom in the block: many small objects that all go again had it walk the whole heap.

    It stays on, for the code of others that runs here may leave more garbage than there is memory.
    """
    before = gc.get_threshold()
    if before[0] == 0:  # off
        yield
        return
    ours = (max(before[0], _MANY), _SELDOM, _SELDOM)
    gc.set_threshold(*ours)
    try:
        yield
    finally:
        if gc.get_threshold()[0] == ours[0]:
            gc.set_threshold(*before)


# -- Ctrl-C
#
# `_thread.interrupt_main()` runs the handler of Ctrl-C without a signal, and no audit event tells of it.
# So the function itself says that the next Ctrl-C is none of a person's, where code calls it that runs in a block that notes
# interrupts: on the main thread, or on a thread that began in there. Debuggers and kernels call it on threads of their own.


class _Senders:
    """Who may send an interrupt that is the code's own."""

    def __init__(self) -> None:
        self.blocks = 0  # that note interrupts now, one within the other
        self.before: frozenset[threading.Thread] = frozenset()  # threads that were there as the outermost began
        self.is_sent = False  # the next interrupt is the code's own
        self.is_passing = False
        self.is_telling = False

    def begin(self) -> None:
        if not self.is_telling:
            _thread.interrupt_main = _wrap_handler(_thread.interrupt_main)
            self.is_telling = True
        if not self.blocks:
            self.before = frozenset(threading.enumerate())
            self.is_sent = False
        self.blocks += 1

    def end(self) -> None:
        self.blocks = max(0, self.blocks - 1)
        if not self.blocks:
            self.before = frozenset()

    def is_code(self) -> bool:
        thread = threading.current_thread()
        if not self.blocks or thread.name.startswith("agent-kernel"):
            return False
        return thread is threading.main_thread() or thread not in self.before

    def take(self) -> bool:
        is_sent, self.is_sent = self.is_sent or self.is_passing, False
        return is_sent

    @contextlib.contextmanager
    def passing(self) -> Generator[None]:
        """The interrupt goes on to the handlers of the blocks around this one."""
        before, self.is_passing = self.is_passing, True
        try:
            yield
        finally:
            self.is_passing = before


_senders: Final = _Senders()


def _wrap_handler(act: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(act)
    def note_and_act(signum: int = _SIGINT, /) -> None:
        if int(signum) != _SIGINT or not _senders.is_code():
            act(signum)
            return
        _senders.is_sent = True
        try:
            act(signum)
        finally:
            if threading.current_thread() is threading.main_thread():  # it has arrived in here, or never does
                _senders.is_sent = False

    del note_and_act.__wrapped__  # nobody is to call it past this
    return note_and_act


_MARK: Final = "_agent_kernel_sent_by_code"


def is_sent_by_code(error: BaseException | None) -> bool:
    """Whether this is the interrupt of a `_thread.interrupt_main()` that code called in a block that notes interrupts."""
    return isinstance(error, KeyboardInterrupt) and _MARK in vars(error)


@contextlib.contextmanager
def noted_interrupts() -> Generator[list[int] | None]:
    """Give a list that grows with each Ctrl-C in the block, which still does what it does; None where it cannot be told.

    An interrupt that code in the block sends by `_thread.interrupt_main()` does not count.
    """
    before = _HANDLERS.getsignal(_SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(before):
        yield None
        return
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> object:
        if not _senders.take():
            arrived.append(number)
            return before(number, frame)
        try:
            with _senders.passing():
                return before(number, frame)
        except KeyboardInterrupt as error:
            vars(error)[_MARK] = True
            raise

    _HANDLERS.signal(_SIGINT, note)
    try:
        _senders.begin()
        yield arrived
    finally:
        _senders.end()
        if _HANDLERS.getsignal(_SIGINT) is note:  # unless code of others, which ran meanwhile, has set its own
            _HANDLERS.signal(_SIGINT, before)


@contextlib.contextmanager
def uninterrupted() -> Generator[None]:
    """Hold back Ctrl-C until the block is done; then it arrives."""
    # A handler that was not set in Python cannot be put back, so it is left where it is.
    if threading.current_thread() is not threading.main_thread() or _HANDLERS.getsignal(_SIGINT) is None:
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append((number, frame))

    before = _HANDLERS.signal(_SIGINT, note)
    try:
        yield
    finally:
        _HANDLERS.signal(_SIGINT, before)
        if arrived and callable(before):
            before(*arrived[0])
        elif arrived:
            signal.raise_signal(signal.SIGINT)  # the system's own way to end, or to ignore it


# -- the threads of this package that work beside the notebook, and forks of the process while none of them is at work
#
# A forked child has only the thread that forked: a lock that another one held is held there for ever. So these threads say when
# they work, and a fork waits until none does. Between two calls they hold nothing.


class _Work:
    """Which threads are at work, and how many forks wait for them or are made."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """In a forked child: the other threads are not there, nor is who holds the lock."""
        self.changed = threading.Condition()
        self.names: list[str] = []
        self.forks = 0


_work = _Work()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_work.begin_anew)


@contextlib.contextmanager
def working() -> Generator[None]:
    """In the block this thread is at work, which no fork interrupts."""
    name = threading.current_thread().name
    with _work.changed:
        _work.changed.wait_for(lambda: not _work.forks)
        _work.names.append(name)
    try:
        yield
    finally:
        with _work.changed:
            _work.names.remove(name)
            _work.changed.notify_all()


@contextlib.contextmanager
def none_at_work(wait_s: float) -> Generator[str]:
    """In the block no thread of ours begins to work.

    Yields:
        The name of one that is still at work after so many seconds; "" where all have ended.
    """
    with _work.changed:
        _work.forks += 1
        _work.changed.wait_for(lambda: not _work.names, wait_s)
        busy = next(iter(_work.names), "")
    try:
        yield busy
    finally:
        with _work.changed:
            _work.forks -= 1
            _work.changed.notify_all()


class Repeated(threading.Thread):
    """Calls a function again and again on a thread of its own, until it is closed.

    Args:
        name: what the thread is called, after "agent-kernel".
        call: gives the seconds until its next call, or None to end.
        wait_s: until the first call.
    """

    def __init__(self, name: str, call: Callable[[], float | None], wait_s: float) -> None:
        super().__init__(name=f"agent-kernel {name}", daemon=True)
        self._call = call
        self._wait_s: float | None = wait_s
        self._closed = threading.Event()
        self.start()

    def run(self) -> None:
        while self._wait_s is not None and not self._closed.wait(self._wait_s):
            with working():
                self._wait_s = None if self._closed.is_set() else self._call()

    @property
    def is_closed(self) -> bool:
        """Whether no call begins from here on."""
        return self._closed.is_set()

    def close(self, wait_s: float = 0.0) -> None:
        """Call it no more. A call that has begun goes on; it is waited for so many seconds, but by no call of its own."""
        self._closed.set()
        if wait_s and threading.current_thread() is not self:
            self.join(wait_s)
