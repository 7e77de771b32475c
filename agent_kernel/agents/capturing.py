"""Take what code prints, where several pieces of code may print at the same time on threads of their own.

`contextlib.redirect_stdout` swaps a global: of two threads that use it, the one that ends last puts back what the other
had put there. Here one router stands in `sys.stdout` while anybody captures, and hands each text to its thread's taker.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO

__all__ = ["captured"]

_lock = threading.RLock()


class _Router(io.TextIOBase):
    """Stands in place of a stream. A thread that captures nothing itself prints for the only one that does."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.takers: dict[int, list[TextIO]] = {}

    def taker(self) -> Any:
        mine = self.takers.get(threading.get_ident())
        if mine:
            return mine[-1]
        others = list(self.takers.values())
        return others[0][-1] if len(others) == 1 else self.stream

    def write(self, text: str) -> int:
        return int(self.taker().write(text) or len(text))

    def flush(self) -> None:
        self.taker().flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return int(self.stream.fileno())

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base class calls it an attribute
        return str(getattr(self.stream, "encoding", "utf-8"))


_routers: dict[str, _Router] = {}


@contextmanager
def captured(taker: TextIO) -> Generator[None]:
    """Give what this thread writes to `sys.stdout` and `sys.stderr` to `taker`.

    Threads that the code starts print there too, as long as no other thread captures at the same time.
    """
    thread = threading.get_ident()
    with _lock:
        for name in ("stdout", "stderr"):
            router = _routers.get(name)
            if router is None or getattr(sys, name) is not router:
                router = _routers[name] = _Router(getattr(sys, name))
                setattr(sys, name, router)
            router.takers.setdefault(thread, []).append(taker)
    mine = dict(_routers)
    try:
        yield
    finally:
        with _lock:
            for name, router in mine.items():
                router.takers[thread].remove(taker)
                if not router.takers[thread]:
                    del router.takers[thread]
                if not router.takers and getattr(sys, name) is router:
                    setattr(sys, name, router.stream)
                    _routers.pop(name, None)
