"""A real IPython shell to type cells into, and what it printed."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

from agent_kernel.magics import load_ipython_extension, unload_ipython_extension
from agent_kernel.magics.extension import AgentKernel


def plain_shell(**options: object) -> Any:
    """A shell of its own, with a `__main__` of its own until it is left, and no history file."""
    module = ModuleType("__main__")
    config = Config({"AgentKernel": options, "HistoryManager": {"enabled": False}})
    kind: Any = InteractiveShell
    before = sys.modules["__main__"]
    shell = kind(user_module=module, user_ns=vars(module), config=config)
    shell.main_before = before
    return shell


def leave(shell: Any) -> None:
    """Do now what the shell would do when Python ends, and put back the `__main__` from before."""
    sys.modules["__main__"] = shell.main_before
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()


@dataclass
class Typed:
    """One cell and what came of it."""

    result: ExecutionResult
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    """`with Shell() as shell: shell.run("x = 1")`"""

    def __init__(self, **options: object) -> None:
        self.ip: Any = plain_shell(**options)
        self.loaded = ""

    def __enter__(self) -> Self:
        sys.modules["__main__"] = self.ip.user_module
        with contextlib.redirect_stdout(io.StringIO()) as out:
            load_ipython_extension(self.ip)
        self.loaded = out.getvalue()
        return self

    def __exit__(self, *exc: object) -> None:
        unload_ipython_extension(self.ip)
        leave(self.ip)

    @property
    def extension(self) -> AgentKernel:
        return AgentKernel.of(self.ip)

    @property
    def ns(self) -> dict[str, Any]:
        namespace: dict[str, Any] = self.ip.user_ns
        return namespace

    def run(self, source: str, *, cell_id: str | None = None) -> Typed:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            result = self.ip.run_cell(source, store_history=True, cell_id=cell_id)
        return Typed(result, out.getvalue(), err.getvalue())

    def log(self, words: str = "") -> list[dict[str, Any]]:
        history: list[dict[str, Any]] = self.run(f"%agent log --json {words}").json
        return history
