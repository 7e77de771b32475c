"""The `task` object with which an agent's code ends its run: `task.success(value)`, `task.fail(…)`, `task.clarify(…)`.

They raise, so that nothing after them runs, and what they raise is no `Exception`, so that code that catches everything
does not swallow the end of its own run. The words are agex's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NoReturn

if TYPE_CHECKING:
    from agent_kernel.agents.arguments import Given

__all__ = ["NAMES", "Settled", "TaskHandle"]

NAMES = ("task", "agent_task")


class Settled(BaseException):
    """How the code ended the run."""

    def __init__(self, how: Literal["success", "fail", "clarify"], value: object = None) -> None:
        super().__init__(how)
        self.how = how
        self.value = value

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it: nothing, since it is no error."""
        return []


class TaskHandle:
    """What an agent's code ends its run with."""

    def __init__(self, inputs: Given) -> None:
        self.inputs = inputs.copy()

    def success(self, value: object = None) -> NoReturn:
        """The task is done, and this is its result."""
        raise Settled("success", value)

    def fail(self, reason: str) -> NoReturn:
        """The task cannot be done."""
        raise Settled("fail", str(reason))

    def clarify(self, question: str) -> NoReturn:
        """Ask the person, and go on when they have answered."""
        raise Settled("clarify", str(question))

    def __repr__(self) -> str:
        return "<task: .success(value), .fail(reason), .clarify(question)>"
