"""Run a step of an agent on a fork of the kernel: what it shows is kept as text, and nothing is sent to a front end.

The kernel's connections belong to its process: what a fork sent through them would reach a front end in the parent's
name, or break them. So IPython only says what magics mean in Python there, and displays are written as text.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
from collections.abc import Awaitable, Mapping, Sequence
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from agent_kernel.agents.executing import Executed, PlainExecutor

if TYPE_CHECKING:
    from agent_kernel.magics.shell import Shell

__all__ = ["ForkedShell", "fresh"]


def fresh(module: ModuleType) -> ForkedShell:
    """The same in a process that was not forked, with a shell of its own for this module."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    made: Any = InteractiveShell  # IPython gives it no types
    shell = made.instance(
        user_module=module, user_ns=vars(module), config=Config({"HistoryManager": {"enabled": False}})
    )
    return ForkedShell(shell)


class _AsText:
    """In place of what publishes displays."""

    is_publishing = False

    def publish(self, data: Mapping[str, str], *_: object, **__: object) -> None:
        text = data.get("text/plain", "")
        if text:
            sys.stdout.write(f"{text}\n")

    def clear_output(self, wait: bool = False) -> None:
        """There is nothing to clear."""


class ForkedShell(PlainExecutor):
    """Runs code in a notebook's namespace, with its magics, in a process that must not use its connections."""

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell.user_ns)
        self._shell = shell

    def skip(self, name: str) -> bool:
        """Whether IPython itself put this name into the namespace."""
        from agent_kernel.magics.binding import is_shells_own

        return is_shells_own(name, self._shell.user_ns, self._shell.user_ns_hidden)

    def run(self, code: str, *, timeout_s: float | None) -> Executed:
        self._shell.display_pub = _AsText()
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if self._shell.autoawait else 0
        return super().run(self._shell.transform_cell(code), timeout_s=timeout_s)

    def _evaluated(self, codes: Sequence[CodeType]) -> object:
        """Code that awaits has an event loop of its own: the kernel's belongs to its process."""
        if not any(code.co_flags & inspect.CO_COROUTINE for code in codes):
            return super()._evaluated(codes)
        return asyncio.new_event_loop().run_until_complete(self._awaited(codes))

    async def _awaited(self, codes: Sequence[CodeType]) -> object:
        value: object = None
        for code in codes:
            value = eval(code, self._namespace)
            if code.co_flags & inspect.CO_COROUTINE:
                value = await cast("Awaitable[object]", value)
        return value
