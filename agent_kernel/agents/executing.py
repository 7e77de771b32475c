"""Running one piece of an agent's code in a namespace: on the thread that calls, so that an interrupt reaches it."""

from __future__ import annotations

import ast
import dis
import io
import linecache
import os
import sys
import time
import traceback
from collections.abc import Sequence
from types import CodeType
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from agent_kernel.agents.capturing import captured
from agent_kernel.agents.deadlines import StepTimeout, within
from agent_kernel.agents.effects import STEP
from agent_kernel.agents.events import Part
from agent_kernel.agents.gate import EffectStopped
from agent_kernel.agents.settling import Settled
from agent_kernel.session.history import written

if TYPE_CHECKING:
    from agent_kernel.repository import Outputs

__all__ = ["Executed", "Executor", "PlainExecutor", "RaisedInterrupt", "Status", "is_raised_by_code"]

Status = Literal["ok", "failed", "interrupted", "timeout"]
_MOST_KEPT = 1_000_000  # characters that a step's printing may take before the rest is dropped


class RaisedInterrupt(RuntimeError):  # noqa: N818 - it stands for what is no error by name
    """The code raised KeyboardInterrupt by itself: nobody interrupted it."""

    def __init__(self) -> None:
        super().__init__("the code raised KeyboardInterrupt itself; nobody interrupted it")


def is_raised_by_code(error: BaseException | None) -> bool:
    """Whether this is a KeyboardInterrupt that a `raise` of the code, or of a library, made.

    A real one arrives between two instructions, wherever the code is; this package raises it where it stopped a run.
    """
    last = error.__traceback__ if isinstance(error, KeyboardInterrupt) else None
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == "agent_kernel":
        return False
    code = last.tb_frame.f_code
    found = (one for one in dis.get_instructions(code) if one.offset == last.tb_lasti)
    return next((one.opname for one in found), "") == "RAISE_VARARGS"


class Executed(msgspec.Struct, frozen=True):
    """What running a piece of code came to.

    Attributes:
        text: what it printed and showed, as text, the traceback too.
        parts: the same by MIME type.
        outputs: the same as the history keeps it, where the notebook knows it.
        error: what it raised, if it did; None also where it ended its run.
        settled: how it ended its run, if it did.
    """

    text: str = ""
    parts: tuple[Part, ...] = ()
    outputs: Outputs | None = None
    error: BaseException | None = None
    settled: Settled | None = None
    seconds: float = 0.0

    @property
    def status(self) -> Status:
        if self.error is None:
            return "ok"
        if isinstance(self.error, StepTimeout):
            return "timeout"
        return "interrupted" if isinstance(self.error, KeyboardInterrupt) else "failed"


class Executor(Protocol):
    """Runs code in one namespace."""

    def run(self, code: str, *, timeout_s: float | None) -> Executed:
        """Run it on the calling thread; never raises what the code raises.

        Args:
            timeout_s: seconds after which it is interrupted.
        """
        ...


class PlainExecutor:
    """Runs code in a dict, as a script would; the value of a last expression is shown.

    What it prints is taken from `sys.stdout` and `sys.stderr` while it runs, on the thread that it runs on and on those that its
    code started, in this step or in one before it on this thread. What other threads of the program print meanwhile is theirs.
    """

    _flags = 0  # with which code is compiled

    def __init__(self, namespace: dict[str, object]) -> None:
        self._namespace = namespace
        self._count = 0

    def run(self, code: str, *, timeout_s: float | None) -> Executed:
        self._count += 1
        filename = f"{STEP} {os.getpid()}-{self._count}>"
        linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
        shown = _Bounded()
        began = time.perf_counter()
        error: BaseException | None = None
        settled: Settled | None = None
        try:
            with captured(shown):
                within(timeout_s, lambda: self._run(code, filename))
        except Settled as end:
            settled = end
        except EffectStopped as stopped:  # it is said by whoever asks about it
            error = stopped
        except BaseException as raised:  # noqa: BLE001 - whatever the code raises is its outcome
            error = raised
            shown.write(_traceback(raised, filename))
        seconds = time.perf_counter() - began
        text = shown.getvalue()
        parts = (Part("text/plain", text),) if text else ()
        return Executed(text, parts, _kept(text), error, settled, seconds)

    def _run(self, code: str, filename: str) -> None:
        tree = ast.parse(code, filename)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        else:
            last = None
        is_new = "__builtins__" not in self._namespace
        try:
            self._evaluate(tree, last, filename)
        finally:
            if is_new:  # `exec` puts it there, and it is nobody's variable
                self._namespace.pop("__builtins__", None)

    def _evaluate(self, tree: ast.Module, last: ast.Expr | None, filename: str) -> None:
        codes = [compile(tree, filename, "exec", self._flags, dont_inherit=True)]
        if last is not None:
            codes.append(compile(ast.Expression(last.value), filename, "eval", self._flags, dont_inherit=True))
        value = self._evaluated(codes)
        if value is not None:
            sys.stdout.write(f"{value!r}\n")

    def _evaluated(self, codes: Sequence[CodeType]) -> object:
        """Run one after the other, and return the value of the last; statements have none."""
        return [eval(code, self._namespace) for code in codes][-1]


def _kept(text: str) -> Outputs | None:
    """The text as the history keeps what a cell showed."""
    if not text:
        return None
    from agent_kernel.repository import Output, Outputs

    return Outputs(version=1, outputs=(Output(kind="stream", name="stdout", text=written(text)),))


def _traceback(error: BaseException, filename: str) -> str:
    """The traceback from the agent's own code on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != filename:
        frames = frames.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception as broken:  # noqa: BLE001 - an error of the code's own class says of itself what it likes
        return f"{type(error).__qualname__}, of which no traceback can be written: {type(broken).__name__}\n"


class _Bounded(io.StringIO):
    """Text up to a size; what comes behind is counted and dropped."""

    dropped = 0

    def write(self, text: str) -> int:
        room = _MOST_KEPT - self.tell()
        super().write(text[: max(0, room)])
        self.dropped += max(0, len(text) - max(0, room))
        return len(text)
