"""An agent and those that it may call, with models that play their answers."""

from __future__ import annotations

import agent_kernel as ak
from agent_kernel.agents.events import SubRun


def scripted(name: str, *turns: ak.Turn | str, **more: object) -> ak.Agent:
    return ak.Agent(name, model=ak.ScriptedModel(turns, name=name), **more)  # type: ignore[arg-type]


def pair(parent_turns: list[str], child_turns: list[str | ak.Turn], **more: object) -> ak.Agent:
    """A parent that is given one task of a child: `helper(n)`."""
    parent, child = scripted("parent", *parent_turns, **more), scripted("child", *child_turns)

    @parent.fn
    @child.task
    def helper(n: int) -> int:
        """Do a part of the work."""
        raise NotImplementedError

    assert helper.agent is child
    return parent


def subruns(run: ak.Run[object]) -> list[SubRun]:
    return [event for event in run.events if isinstance(event, SubRun)]
