"""An agent that is not ours: it brings its code by itself, and each piece of it is a run of one step.

So what it does has its place in the history, is reviewed and waits for approval as every agent's step does. Nobody is
asked for more: where such a run goes on (its step was approved, say), it ends when its step has run.
"""

from __future__ import annotations

from agent_kernel.agents.events import Usage
from agent_kernel.agents.models import FunctionModel, Request, Turn

__all__ = ["PREFIX", "outside"]

PREFIX = "outside"
_TOLD = "The agent outside is told what came of it when it asks."


def outside(agent: str, code: str = "") -> FunctionModel:
    """The model of a run that such an agent begins with its code.

    >>> outside("visitor").name
    'outside:visitor'
    """

    def answer(request: Request) -> Turn:
        return Turn(code if request.turn == 0 else None, text="" if request.turn == 0 else _TOLD, usage=Usage())

    return FunctionModel(answer, f"{PREFIX}:{agent}")
