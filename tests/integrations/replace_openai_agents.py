"""A pytest plugin: tests of the OpenAI Agents SDK get `AgentKernelSession` for `SQLiteSession`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agents
import agents.memory

import agent_kernel as ak
from agent_kernel.integrations.openai_agents import AgentKernelSession

OPEN: dict[str, ak.Repository] = {}


class SQLiteSession(AgentKernelSession):
    def __init__(self, session_id: str, db_path: str | Path = ":memory:", session_settings: Any = None) -> None:
        place = str(db_path)
        if place == ":memory:":
            repo = ak.open("memory:")
        else:
            repo = OPEN.get(place) or OPEN.setdefault(place, ak.open(f"{place}.store"))
        super().__init__(session_id, repo, session_settings=session_settings)


agents.SQLiteSession = SQLiteSession  # type: ignore[misc,assignment]
agents.memory.SQLiteSession = SQLiteSession  # type: ignore[misc,assignment]
