"""Hold back Ctrl-C while something must not stop half-way."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Generator
from types import FrameType


@contextlib.contextmanager
def noted_interrupts() -> Generator[list[int] | None]:
    """Give a list that grows with each Ctrl-C in the block, which still does what it does; None where it cannot be told."""
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(before):
        yield None
        return
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> object:
        arrived.append(number)
        return before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield arrived
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # unless code of others, which ran meanwhile, has set its own
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def uninterrupted() -> Generator[None]:
    """Hold back Ctrl-C until the block is done; then it arrives."""
    # A handler that was not set in Python cannot be put back, so it is left where it is.
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if arrived and callable(before):
            before(*arrived[0])
        elif arrived:
            signal.raise_signal(signal.SIGINT)  # the system's own way to end, or to ignore it
