"""Agents that act by running Python in a namespace, each step a commit. Names load when they are first used.

A run's code runs on the thread that drives it (`run.drive`); its model is asked on a thread of its own (`loop`). Its
events are its record (`events`, `event_log`): the conversation is rebuilt from them, so a run goes on in any process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_kernel.lazy_imports import import_lazily

if TYPE_CHECKING:
    from agent_kernel.agents.agent import Agent as Agent
    from agent_kernel.agents.agent import Member as Member
    from agent_kernel.agents.current import here as here
    from agent_kernel.agents.limits import Limits as Limits
    from agent_kernel.agents.listing import Events as Events
    from agent_kernel.agents.listing import pprint_events as pprint_events
    from agent_kernel.agents.listing import view as view
    from agent_kernel.agents.models import FunctionModel as FunctionModel
    from agent_kernel.agents.models import ScriptedModel as ScriptedModel
    from agent_kernel.agents.models import Turn as Turn
    from agent_kernel.agents.races import Race as Race
    from agent_kernel.agents.races import race as race
    from agent_kernel.agents.run import Outcome as Outcome
    from agent_kernel.agents.run import Run as Run
    from agent_kernel.agents.run import Task as Task
    from agent_kernel.agents.run import Trial as Trial
    from agent_kernel.agents.run import measure as measure
    from agent_kernel.agents.workers import Candidate as Candidate

__all__ = [
    "Agent",
    "Candidate",
    "Events",
    "FunctionModel",
    "Limits",
    "Member",
    "Outcome",
    "Race",
    "Run",
    "ScriptedModel",
    "Task",
    "Trial",
    "Turn",
    "here",
    "measure",
    "pprint_events",
    "race",
    "view",
]

_HOMES = {
    "agent": ("Agent", "Member"),
    "current": ("here",),
    "limits": ("Limits",),
    "listing": ("Events", "pprint_events", "view"),
    "models": ("FunctionModel", "ScriptedModel", "Turn"),
    "races": ("Race", "race"),
    "run": ("Outcome", "Run", "Task", "Trial", "measure"),
    "workers": ("Candidate",),
}
_HOME = {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}


__getattr__ = import_lazily(__name__, _HOME)
