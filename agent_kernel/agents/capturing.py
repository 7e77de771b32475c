"""Take what code prints, where several pieces of code may print at the same time on threads of their own.

`contextlib.redirect_stdout` swaps a global: of two threads that use it, the one that ends last puts back what the other
had put there. Here one router stands in `sys.stdout` while anybody captures, and hands each text to its thread's taker: that
of the thread itself, or of the one whose code started it. What other threads print goes where it would go anyway.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TextIO
from weakref import WeakSet

from agent_kernel.agents.effects import lineage, threads_followed

__all__ = ["captured"]

_lock = threading.RLock()


# Threads that were started by code whose text was taken, such as those of a pool: they print for whatever runs now.
_of_captures: WeakSet[threading.Thread] = WeakSet()


class _Taker:
    """Where a text goes, and the threads that were there before and that no such code started."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.before = WeakSet(thread for thread in threading.enumerate() if thread not in _of_captures)

    def end(self) -> None:
        """Remember the threads that this thread's code started, and that stay."""
        here = threading.current_thread()
        new = (thread for thread in threading.enumerate() if thread not in self.before and thread is not here)
        _of_captures.update(thread for thread in new if here in lineage(thread.ident or 0))


class _Router(io.TextIOBase):
    """Stands in place of a stream, and knows whose text is whose."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.takers: dict[int, list[_Taker]] = {}

    def taker(self) -> Any:
        here = threading.get_ident()
        mine = self.takers.get(here)
        if mine:
            return mine[-1].stream
        for child, parent in pairwise(lineage(here)):
            # Threads may have been followed for others before: what this one started then is not of what it captures now.
            theirs = [one for one in self.takers.get(parent.ident or 0, ()) if child not in one.before]
            if theirs:
                return theirs[-1].stream
        return self.stream

    def write(self, text: str) -> int:
        return int(self.taker().write(text) or len(text))

    def flush(self) -> None:
        self.taker().flush()

    def close(self) -> None:
        """Nothing here is its own. When it dies, Python closes it, and what it led to may be closed by then."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return int(self.stream.fileno())

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base class calls it an attribute
        return str(getattr(self.stream, "encoding", "utf-8"))


# Of each stream's routers none ever goes: `print` holds no reference to the stream that it prints to, and another
# thread may end its capturing, and with it the last reference to a router, in the middle of a line.
_routers: dict[str, list[_Router]] = {"stdout": [], "stderr": []}


@contextmanager
def captured(taker: TextIO) -> Generator[None]:
    """Give what this thread writes to `sys.stdout` and `sys.stderr` to `taker`, and what threads do that its code starts.

    Those that C code started, or that were there before and that no captured code started, are no one's.
    """
    thread, entry = threading.get_ident(), _Taker(taker)
    with _lock:
        mine = {name: _installed(name) for name in _routers}
        for router in mine.values():
            router.takers.setdefault(thread, []).append(entry)
    try:
        with threads_followed():
            yield
    finally:
        with _lock:
            for name, router in mine.items():
                router.takers[thread].remove(entry)
                if not router.takers[thread]:
                    del router.takers[thread]
                if not router.takers and getattr(sys, name) is router:
                    setattr(sys, name, router.stream)
        entry.end()


def _installed(name: str) -> _Router:
    """The router that stands in a stream's place by now."""
    now = getattr(sys, name)
    if isinstance(now, _Router):
        return now
    router = next((one for one in _routers[name] if not one.takers), None)
    if router is None:
        router = _Router()
        _routers[name].append(router)
    router.stream = now
    setattr(sys, name, router)
    return router
