"""An agent that is not ours: it brings its code by itself, and each piece of it is a run of one step.

So what it does has its place in the history, is reviewed and waits for approval as every agent's step does. Nobody is
asked for more: where such a run goes on (its step was approved, say), it ends when its step has run. Where the step was
denied there is nothing that it could go on with, and the run is given up.
"""

from __future__ import annotations

from agent_kernel.agents.events import Usage
from agent_kernel.agents.models import FunctionModel, Request, Turn

__all__ = ["DENIED", "PREFIX", "is_outside", "outside"]

PREFIX = "outside"
DENIED = "denied"  # during which such a run was given up
_TOLD = "The agent outside is told what came of it when it asks."


def is_outside(model: str) -> bool:
    """Whether a run with a model of this name is of such an agent.

    >>> is_outside("outside:visitor")
    True
    """
    return model.partition(":")[0] == PREFIX


def outside(agent: str, code: str = "") -> FunctionModel:
    """The model of a run that such an agent begins with its code.

    >>> outside("visitor").name
    'outside:visitor'
    """

    def answer(request: Request) -> Turn:
        return Turn(code if request.turn == 0 else None, text="" if request.turn == 0 else _TOLD, usage=Usage())

    return FunctionModel(answer, f"{PREFIX}:{agent}")
