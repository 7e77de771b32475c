"""Hold back Ctrl-C while something must not stop half-way."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Generator
from types import FrameType
from typing import Any

_HANDLERS: Any = sys.modules["_signal"]  # `signal` makes an enum of each answer, which takes ten times as long
_SIGINT = int(signal.SIGINT)


@contextlib.contextmanager
def noted_interrupts() -> Generator[list[int] | None]:
    """Give a list that grows with each Ctrl-C in the block, which still does what it does; None where it cannot be told."""
    before = _HANDLERS.getsignal(_SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(before):
        yield None
        return
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> object:
        arrived.append(number)
        return before(number, frame)

    _HANDLERS.signal(_SIGINT, note)
    try:
        yield arrived
    finally:
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
