"""What this package does on threads of its own, beside the notebook, and forks of the process while none of them is at work.

A forked child has only the thread that forked: a lock that another one held is held there for ever. So these threads say when
they work, and a fork waits until none does. Between two calls they hold nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["Repeated", "none_at_work", "working"]


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


@contextmanager
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


@contextmanager
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
