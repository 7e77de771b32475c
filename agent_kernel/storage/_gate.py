"""Let many threads use an LMDB environment, or one thread change it alone.

Resizing or reopening the memory map pulls the memory from under every open transaction, so these wait until no
thread is inside and keep new ones out meanwhile. A thread that is inside may enter again, or a read made while
visiting a view could wait for itself.

Each thread has a lock of its own, and whoever wants to be alone takes all of them. So nothing is counted: an interrupt
between two lines of Python would leave a count wrong for good, while `with` and a lock made in C leave nothing behind.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol, cast
from weakref import WeakSet


class _Lock(Protocol):
    """What `threading.RLock` makes."""

    def __enter__(self) -> bool: ...
    def __exit__(self, *exc: object) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def _is_owned(self) -> bool: ...


class Gate:
    """`with gate.way:` to be inside; `seize` to be alone."""

    def __init__(self) -> None:
        self._guard = _lock()  # held by whoever waits to be alone, or is
        self._is_wanted = False
        self._ways: WeakSet[_Lock] = WeakSet()  # of all threads that were ever inside and that live
        self._taken: list[_Lock] = []
        self._mine = threading.local()

    @property
    def way(self) -> _Lock:
        """This thread's lock. Getting it waits as long as somebody else is alone."""
        way: _Lock | None = getattr(self._mine, "way", None)
        if way is None:
            way = _lock()
            with self._guard:
                self._ways.add(way)
            self._mine.way = way
        elif self._is_wanted and not _is_held(way):
            with self._guard:  # threads that come and go without a pause would keep others waiting
                pass
        return way

    def seize(self, timeout_s: float) -> bool:
        """Wait until nobody is inside and keep everybody out until `release`. Return whether it worked in time.

        It cannot work for a thread that is inside itself, which gets False at once.
        """
        way: _Lock | None = getattr(self._mine, "way", None)
        if _is_held(self._guard) or (way is not None and _is_held(way)):
            return False
        end = time.monotonic() + timeout_s
        is_alone = False
        try:
            if not self._guard.acquire(timeout=timeout_s):
                return False
            self._is_wanted = True
            for one in tuple(self._ways):
                self._taken.append(one)  # first, so that it is given back wherever an interrupt comes
                if not one.acquire(timeout=max(0.0, end - time.monotonic())):
                    return False
            is_alone = True
        finally:
            if not is_alone:
                self.release()
        return True

    def release(self) -> None:
        """End what `seize` began, whatever interrupts come meanwhile. Again: nothing happens."""
        late: KeyboardInterrupt | None = None
        while True:
            try:
                self._give_back()
                break
            except KeyboardInterrupt as arrived:
                late = arrived
        if late is not None:
            raise late

    def _give_back(self) -> None:
        if not _is_held(self._guard):
            return
        while self._taken:
            if _is_held(self._taken[-1]):
                self._taken[-1].release()
            else:
                self._taken.pop()
        self._is_wanted = False
        self._guard.release()


def _lock() -> _Lock:
    return cast("_Lock", threading.RLock())


def _is_held(lock: _Lock) -> bool:
    return lock._is_owned()  # pyright: ignore[reportPrivateUsage]  # what `threading.Condition` asks a lock, too
