"""Whose turn it is on the main thread: a cell's, or that of what was asked for meanwhile.

A kernel may hand over messages on other threads while a cell runs, or even while none does. The user's variables are
changed on the main thread alone, and never under a running cell; one job waits at a time, and a later one takes its
place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

__all__ = ["Job", "JobQueue"]


class Job(Protocol):
    """Something to do between cells."""

    def do(self) -> None:
        """It is its turn, on the main thread. Raises nothing."""
        ...

    def waits(self) -> None:
        """It has to wait for a running cell: told once, from any thread, before its turn or its dropping."""
        ...

    def is_dropped(self) -> None:
        """A later job took its place, or it was cancelled."""
        ...


class JobQueue:
    """Hands the main thread to one after the other.

    Args:
        wake: has a function called soon on the main thread, from whichever thread it is asked to.
    """

    def __init__(self, wake: Callable[[Callable[[], None]], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._running = False
        self._waiting: Job | None = None
        self.prompt = ""  # of the running cell

    @property
    def is_running(self) -> bool:
        """Whether the main thread is a cell's."""
        return self._running

    @property
    def is_free(self) -> bool:
        """Whether who asks may touch the variables: on the main thread, with no cell running."""
        return not self._running and threading.current_thread() is threading.main_thread()

    @property
    def waiting(self) -> Job | None:
        """What waits for a running cell to end."""
        return self._waiting if self._running else None

    def cell_begins(self, prompt: str) -> None:
        """The main thread is a cell's."""
        with self._lock:
            self._running, self.prompt = True, prompt
            job = self._waiting
        if job is not None:
            job.waits()

    def cell_ends(self) -> None:
        """The cell has ended: do what waited now."""
        with self._lock:
            self._running, self.prompt = False, ""
        self._between()

    def take(self, job: Job) -> None:
        """Do it now if that is possible here, else as soon as it is."""
        with self._lock:
            running = self._running
            runs_now = not running and threading.current_thread() is threading.main_thread()
            before, self._waiting = self._waiting, None if runs_now else job
        if before is not None:
            before.is_dropped()
        if runs_now:
            job.do()
        elif running:
            job.waits()
        else:
            self._wake(self._between)

    def drop(self) -> Job | None:
        """Forget what waits, and say what it was."""
        with self._lock:
            job, self._waiting = self._waiting, None
        if job is not None:
            job.is_dropped()
        return job

    def _between(self) -> None:
        with self._lock:
            if self._running:
                return  # a cell was quicker, and the job was told to wait for its end
            job, self._waiting = self._waiting, None
        if job is not None:
            job.do()
