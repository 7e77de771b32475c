"""A `%%agent` cell that could be a task or code: whoever typed it says which, and it runs again as that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from agent_kernel.magics.tasks.apart import Apart

if TYPE_CHECKING:
    from agent_kernel.magics.shell import Shell

__all__ = ["QUESTION", "choices", "in_words"]

QUESTION: Final = "Is this cell a task or Python?"
_CELL: Final = "cell"


def choices(shell: Shell, agent: str, line: str, body: str, cell_id: str) -> list[tuple[str, Callable[[], None]]]:
    """What each button says, and what it does; none where the cell's output would not show what it does."""
    apart = Apart(shell)
    apart.remember(_CELL)
    if not apart.can_show(_CELL):
        return []
    says = {"--task": f"Give it to {agent}", "--py": "Run it as Python"}
    return [
        (label, partial(_run_again, shell, apart, f"%%agent {line} {flag}\n{body}", cell_id))
        for flag, label in says.items()
    ]


def in_words(agent: str) -> str:
    """The same where there are no buttons."""
    return f"{QUESTION} %%agent --task gives it to {agent}, %%agent --py runs it as Python"


def _run_again(shell: Shell, apart: Apart, source: str, cell_id: str) -> None:
    with apart.beneath_its_cell(_CELL):
        shell.run_cell(source, store_history=True, cell_id=cell_id or None)
