"""Which cells become commits: the two hooks around every cell, and nothing else.

IPython calls `pre_run_cell` and `post_run_cell` for cells inside cells, for hidden executions and, with subshells, on
other threads. A pair counts when it is the outermost one on the main thread, of a cell that goes into the history. The
cell that loads the extension ends without having begun, and is left alone.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent_kernel.magics.shell import CellInfo, Outcome

__all__ = ["CellHooks", "Recorder", "cell_id_of", "has_agent_header", "is_only_agent_lines"]

_AGENT_HEADER = re.compile(r"%%agent(?:\s|$)")
_AGENT_LINE = re.compile(r"\s*%agent(?:\s|\?|$)")


class Recorder(Protocol):
    """What is told of the cells that run. Must not raise: a cell is never lost for its commit."""

    def starts(self, shown: bool) -> None:
        """The main thread is a cell's from now on, whether it counts or not. `shown`: it has a number."""
        ...

    def rests(self) -> None:
        """No cell runs any more, and the end of the one that counted has been told."""
        ...

    def begin(self, source: str, cell_id: str) -> bool:
        """A cell begins. Return whether to report its end too."""
        ...

    def end(self, error: BaseException | None) -> None:
        """It has ended, this way."""
        ...

    def ran_between(self) -> None:
        """Code ran outside cells since the last cell that counted, such as a widget's handler."""
        ...


class CellHooks:
    """Finds the cells that count among all that run."""

    def __init__(self, recorder: Recorder, is_main: Callable[[], bool] | None = None) -> None:
        self._recorder = recorder
        self._is_main = is_main or _on_the_main_thread
        self._running: list[CellInfo] = []
        self._begun = False
        self._executions = 0  # since the last outermost cell began or ended
        self._others = 0  # of those, what was no cell, since the last that counted

    def pre_execute(self) -> None:
        """Code is about to run: of a cell, or of what handles a message of a widget."""
        self._executions += self._is_main()

    def pre_run_cell(self, info: CellInfo) -> None:
        if not self._is_main():
            return
        self._running.append(info)
        if len(self._running) == 1:
            source = info.raw_cell
            shown = info.store_history and not info.silent
            self._recorder.starts(shown)
            self._others += max(self._executions - 1, 0)  # one is the cell's own
            self._executions = 0
            counts = shown and not is_only_agent_lines(source)
            self._begun = counts and self._recorder.begin(source, cell_id_of(info))

    def post_run_cell(self, result: Outcome | None) -> None:
        if not self._is_main() or not self._running:
            return
        # A cell that was cancelled has no result: it is the innermost one.
        info = self._running[-1] if result is None else self._begun_as(result.info)
        if info is None:
            return  # it began before the extension was loaded
        while self._running.pop() is not info:
            pass
        if self._running:
            return
        if self._begun:
            self._begun = False
            if self._others or self._executions:
                self._recorder.ran_between()
            self._others = self._executions = 0
            self._recorder.end(_error_of(result))
        self._recorder.rests()

    def _begun_as(self, info: CellInfo) -> CellInfo | None:
        """What a cell that ended was called when it began."""
        for running in reversed(self._running):
            if running is info:
                return running
        # Where an error cannot be shown, or showing it is interrupted, IPython describes the cell a second time.
        same = (running for running in reversed(self._running) if running.raw_cell == info.raw_cell)
        return next(same, None)


def _on_the_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _error_of(result: Outcome | None) -> BaseException | None:
    if result is None:
        return KeyboardInterrupt()
    error = result.error_before_exec or result.error_in_exec
    if error is None or isinstance(error, Exception):
        return error
    from asyncio import CancelledError  # only now: it brings sockets and encryption, which a terminal may never need

    # A cell that awaits is not interrupted but cancelled.
    return KeyboardInterrupt() if isinstance(error, CancelledError) else error


def is_only_agent_lines(source: str) -> bool:
    """Whether the cell holds `%agent` lines, whoever says them, and nothing else that could change a variable."""
    lines = [line for line in source.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if lines and _AGENT_HEADER.match(lines[0]):
        del lines[0]
    return bool(lines) and all(_AGENT_LINE.match(line) for line in lines)


def has_agent_header(source: str) -> bool:
    """Whether the cell begins with `%%agent`."""
    return _AGENT_HEADER.match(source.lstrip("\n")) is not None


def cell_id_of(info: CellInfo) -> str:
    """The cell's id as the notebook knows it, as far as the front end tells; "" where it does not.

    VS Code sends the URI of the cell, whose path says where on the disk someone works: only its fragment is kept.
    """
    told: object = getattr(info, "cell_id", None)
    if not isinstance(told, str):
        return ""
    return f"vscode:{told.rpartition('#')[2]}" if ":" in told and "#" in told else told
