"""What a kernel does for an agent outside. It is asked by a silent execution, which is no cell and no commit of its own."""

from __future__ import annotations

import json
import time

import msgspec

from agent_kernel.agents.current import here
from agent_kernel.errors import AgentKernelError, NotBoundError
from agent_kernel.mcp.stepping import Steps
from agent_kernel.mcp.tools import Told, Tools

__all__ = ["Answer", "Asked", "answered"]

_DECIDES = (
    "The person allows it in the notebook with %agent approve --run {run}, or denies it with %agent deny --run {run}."
)
_UNBOUND = "No notebook is bound in this kernel: the person runs %load_ext agent_kernel there first."


class Asked(msgspec.Struct, frozen=True):
    """A call of a tool.

    Attributes:
        until: seconds since 1970, after which nobody waits for it any more, so that it must not begin.
    """

    tool: str
    arguments: dict[str, object]
    agent: str
    approve: str
    step_s: float | None
    until: float


class Answer(msgspec.Struct, frozen=True):
    """What came of it. `late`: it did not begin. Its repr is JSON, which is how it leaves the kernel."""

    text: str = ""
    failed: bool = False
    late: bool = False

    def __repr__(self) -> str:
        return json.dumps(msgspec.to_builtins(self))


def answered(request: str) -> Answer:
    """Do what is asked, in the notebook of this kernel."""
    asked = msgspec.json.decode(request, type=Asked)
    if time.time() > asked.until:
        return Answer(late=True)
    try:
        place = here()
    except NotBoundError:
        return Answer(_UNBOUND, failed=True)
    except AgentKernelError as error:
        return Answer(str(error), failed=True)
    steps = Steps(lambda: place, agent=asked.agent, approve=asked.approve, step_s=asked.step_s, decides=_DECIDES)
    repo = place.session.repo if place.session is not None else None
    try:
        told: Told = Tools(repo, lambda: place, steps).call(asked.tool, asked.arguments)
    finally:
        place.moved()  # this was no cell, at the end of which panels are told
    return Answer(told.text, told.failed)
