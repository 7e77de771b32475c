"""Which outputs belong to which cell, and its commit: what was heard of it is handed over when the cell has ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from agent_kernel.magics.outputs import Collector
    from agent_kernel.magics.shell import Shell
    from agent_kernel.repository import Outputs
    from agent_kernel.repository.blobs import Output

__all__ = ["OutputRecorder"]


logger = logging.getLogger(__name__)


class Tap(Protocol):
    """Tells a collector what is shown."""

    def install(self) -> None: ...
    def remove(self) -> None: ...
    def begin(self, number: int | None) -> None:
        """What is shown from now on belongs to a cell."""
        ...

    def end(self) -> None:
        """The cell has ended, and all that it showed was heard."""
        ...

    def settle(self) -> None:
        """Hear what was printed and is still on its way."""
        ...

    def mute(self, muted: bool) -> None:
        """Do not listen to the streams for a while."""
        ...


class OutputRecorder:
    """Keeps what cells show until their commits take it. Never raises: no cell is lost for its outputs."""

    def __init__(self, shell: Shell, is_on: Callable[[], bool]) -> None:
        self._shell = shell
        self._is_on = is_on
        self._listening: tuple[Tap, Collector] | None = None  # from the first cell on
        self._running = False
        self._outer: list[list[Outputs] | None] = []
        self._before: list[Outputs] = []  # what the cell showed before the steps of agents in it

    def begin(self, number: int | None) -> None:
        """A cell that will be a commit begins."""
        if not self._is_on():
            self.close()
            return
        self.end()  # of a cell whose end nobody told
        try:
            tap, _ = self._listening = self._listening or self._listen()
            tap.begin(number)
            self._running = True
        except Exception:
            logger.exception("the outputs of a cell are not kept")

    def end(self) -> Outputs | None:
        """It has ended: all that it showed."""
        if not self._running or self._listening is None:
            return None
        self._running = False
        tap, collector = self._listening
        before, self._before = self._before, []
        try:
            tap.end()
            return join_outputs([*before, collector.take()])
        except Exception:
            logger.exception("the outputs of a cell are not kept")
            return None

    def begin_step(self) -> None:
        """A step of an agent begins, in a cell or not. Its outputs are its own."""
        around, before = self._running, self._before
        self._before = []
        before_step = self.end() if around else None
        self.begin(None)
        self._outer.append((before if before_step is None else [*before, before_step]) if around else None)

    def end_step(self) -> Outputs | None:
        """It has ended: all that it showed. What is shown from now on is the cell's around it again."""
        outputs = self.end()
        before = self._outer.pop()
        if before is not None:
            self.begin(None)
            self._before = before
        return outputs

    @contextmanager
    def unrecorded(self) -> Generator[None]:
        """What is printed here is the extension's own, and no output of a cell."""
        if self._listening is None:
            yield
            return
        tap, _ = self._listening
        tap.settle()
        tap.mute(True)
        try:
            yield
        finally:
            tap.settle()
            tap.mute(False)

    def close(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening[0].remove()
            self._listening, self._running = None, False

    def _listen(self) -> tuple[Tap, Collector]:
        from agent_kernel.magics.outputs import Collector

        collector = Collector()
        session = getattr(getattr(self._shell, "kernel", None), "session", None)
        tap: Tap
        if session is None:
            from agent_kernel.magics.outputs import TerminalTap

            tap = TerminalTap(collector, self._shell)
        else:
            from agent_kernel.magics.outputs import KernelTap

            tap = KernelTap(collector, self._shell, session)
        tap.install()
        return tap, collector


def join_outputs(pieces: Sequence[Outputs | None]) -> Outputs | None:
    """What a cell showed between the steps of agents, as one; what comes behind the room of a cell is counted."""
    found = [piece for piece in pieces if piece is not None]
    if len(found) < 2:
        return found[0] if found else None
    from agent_kernel.magics.outputs import ROOM

    joined: list[Output] = []
    used = dropped = dropped_bytes = 0
    for output in (output for piece in found for output in piece.outputs):
        size = len(output.text) + sum(face.size for face in output.representations if face.form != "bytes")
        if used + size > ROOM:
            dropped, dropped_bytes = dropped + 1, dropped_bytes + size
            continue
        used += size
        joined.append(output)
    return msgspec.structs.replace(
        found[0],
        outputs=tuple(joined),
        dropped_outputs=dropped + sum(piece.dropped_outputs for piece in found),
        dropped_bytes=dropped_bytes + sum(piece.dropped_bytes for piece in found),
    )
