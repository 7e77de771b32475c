"""Run a function in a forked child, watch what becomes of it, and leave no child behind."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Self

DEADLINE_S = 60


class Child:
    """A forked child that runs `work`; what it reports, and finally returns, can be read as bytes.

    `work` gets a function by which it reports. As a context manager, it is killed at the end if it still runs.
    """

    def __init__(self, work: Callable[[Callable[[bytes], object]], object]) -> None:
        reading, writing = os.pipe()
        self._status: int | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside other threads, which we are after
            self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _run(work, writing)
        os.close(writing)
        self._reading = reading

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        self.wait()

    def kill(self) -> None:
        """Send SIGKILL."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)

    def heard(self, nbytes: int) -> bytes:
        """Return up to `nbytes` of what it reported, waiting for some."""
        return os.read(self._reading, nbytes)

    def wait(self) -> tuple[bytes, int]:
        """Return what it reported and its exit status (negative: the signal that killed it), once it has ended."""
        if self._status is not None:
            return b"", self._status
        pieces: list[bytes] = []
        while piece := os.read(self._reading, 1 << 16):
            pieces.append(piece)
        self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._reading)
        return b"".join(pieces), self._status


def in_child(work: Callable[[], object]) -> str:
    """Return, as text, what `work` returned in a forked child; its error, or its death, fails the test."""
    with Child(lambda report: report(str(work()).encode())) as child:
        answer, status = child.wait()
    assert status == 0, f"the child ended with {status}: {answer.decode()}"
    return answer.decode()


def _run(work: Callable[[Callable[[bytes], object]], object], writing: int) -> None:
    status = 1
    try:
        signal.alarm(DEADLINE_S)  # a child that hangs dies of it
        work(lambda report: os.write(writing, report))
        status = 0
    except BaseException:
        os.write(writing, traceback.format_exc().encode())
    finally:
        os._exit(status)
