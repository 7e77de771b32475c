"""Hold back Ctrl-C and the garbage collector while something must not stop half-way, or be slowed down."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
from collections.abc import Generator
from types import FrameType


@contextlib.contextmanager
def uninterrupted() -> Generator[None]:
    """Hold back Ctrl-C until the block is done; then it arrives."""
    if threading.current_thread() is not threading.main_thread():
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


@contextlib.contextmanager
def uncollected() -> Generator[None]:
    """Hold back the garbage collector: many small objects that all go again would have it walk the whole heap."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
