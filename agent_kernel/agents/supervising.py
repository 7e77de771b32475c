"""Have a job done by a fresh Python, and end it with its children when its time is up or nobody wants it any more.

It is spawned, never forked: it inherits no lock, no thread and no open store. It leads a process group of its own, which
is killed as a whole, whatever it left running; a child that made itself a group of its own is out of reach.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

import msgspec

from agent_kernel.agents.candidates import Candidate
from agent_kernel.agents.encoding import packed
from agent_kernel.agents.scrubbing import scrubbed
from agent_kernel.agents.workers import BEGUN, Job, failed

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Processes", "ended_by", "supervised", "swept", "waited"]

GRACE_S = 5.0  # that a worker has to end by itself once it was told to
_STARTING_S = 60.0  # that Python has to start, on a busy machine
_LOOK_S = 0.02
_MOST_SAID = 2_000  # bytes of what a dead worker's process said last
_BEGIN = """\
import pickle, sys
given = open(0, "rb", closefd=False)
sys.path[:] = pickle.load(given)
from agent_kernel.agents.workers import main
main(given)
"""


def supervised(job: Job, stop: threading.Event | None = None) -> Candidate:
    """Do a job in a process of its own. A worker that dies is a failed candidate, and says what it died of."""
    began = time.monotonic()
    # Files, not pipes: neither side ever waits for the other to read.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as said:
        pickle.dump(sys.path, given)
        given.write(packed(job))
        given.seek(0)
        try:
            process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-c", _BEGIN],
                stdin=given,
                stdout=answer,
                stderr=said,
                env=scrubbed(os.environ, job.candidate.model, job.keep),
                start_new_session=True,
            )
        except OSError as error:
            return failed(job, f"its process could not be started: {error}")
        try:
            why = waited(process, answer.fileno(), job.deadline_s, stop)
        finally:
            swept(process)
        answer.seek(len(BEGUN))
        found = _read(answer.read())
        if found is not None:
            return msgspec.structs.replace(found, seconds=time.monotonic() - began)
        reason = why or ended_by(process.returncode, said)
        return failed(job, reason, time.monotonic() - began)


def waited(process: subprocess.Popen[bytes], answer: int, deadline_s: float, stop: threading.Event | None) -> str:
    """Wait for the end, which comes at the latest some seconds after the deadline; why it was ended, if it was.

    Time counts from when Python is there and the work begins. The run's own limit comes first, and lets it end in good
    order.
    """
    end = time.monotonic() + deadline_s + _STARTING_S
    begun = stopped = None
    while process.poll() is None:
        now = time.monotonic()
        if begun is None and os.fstat(answer).st_size:
            begun = now
            end = now + deadline_s + GRACE_S
        if stopped is None and stop is not None and stop.is_set():
            stopped = now  # it looks by itself whether its race is over
        if stopped is not None and now > stopped + GRACE_S:
            return "it was stopped, did not end by itself, and was killed"
        if now > end:
            return f"it did not end within {deadline_s:g} s, and was killed"
        time.sleep(_LOOK_S)
    return ""


def swept(process: subprocess.Popen[bytes]) -> None:
    """End what is left of it, and let no zombie stay."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _read(answer: bytes) -> Candidate | None:
    try:
        return msgspec.msgpack.decode(answer, type=Candidate)
    except msgspec.DecodeError:
        return None


def ended_by(code: int | None, said: IO[bytes]) -> str:
    """Of what a process died that gave no answer."""
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"its process was ended by {name}"
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - _MOST_SAID))
    lines = [line for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
    last = f": {lines[-1][:300]}" if lines else ""
    return f"its process ended without an answer (exit status {code}){last}"


class Processes(Executor):
    """Does each job in a process of its own, so many at a time. What else is submitted is not for it.

    >>> Processes(2).submit(len, "abc")
    Traceback (most recent call last):
    TypeError: only jobs of workers can be submitted
    """

    def __init__(self, most: int) -> None:
        self._stop = threading.Event()
        self._waiters = ThreadPoolExecutor(most, "agent-kernel workers")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if kwargs or len(args) != 1 or not isinstance(args[0], Job):
            raise TypeError("only jobs of workers can be submitted")
        return self._waiters.submit(supervised, args[0], self._stop)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """With `cancel_futures`, also those that are on their way end: by themselves, or some seconds later killed."""
        if cancel_futures:
            self._stop.set()
        self._waiters.shutdown(wait, cancel_futures=cancel_futures)
