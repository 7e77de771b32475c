"""A bar on standard error while something long is running, where someone is there to see it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from agent_kernel.verbs.scope import Progress

__all__ = ["progress_bar"]


@contextmanager
def progress_bar() -> Generator[Progress | None]:
    """Yield what a long verb reports to; None where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bars: list[_Bar] = []

    def report(doing: str, done: int, total: int) -> None:
        # rich is slow to import: only once something long has begun.
        if not bars:
            bars.append(_Bar())
        bars[0].move(doing, done, total)

    try:
        yield report
    finally:
        for bar in bars:
            bar.close()


class _Bar:
    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as RichProgress
        from rich.progress import TaskID

        self._shown = RichProgress(console=Console(stderr=True), transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._shown.start()

    def move(self, doing: str, done: int, total: int) -> None:
        if doing not in self._tasks:
            self._tasks[doing] = self._shown.add_task(doing, total=None)
        self._shown.update(self._tasks[doing], completed=done, total=total or None)

    def close(self) -> None:
        self._shown.stop()
