"""A pytest plugin: LangGraph's tests of `InMemoryStore` get `AgentKernelStore`."""

from __future__ import annotations

import langgraph.store.memory

import agent_kernel as ak
from agent_kernel.integrations.langgraph import AgentKernelStore


class InMemoryStore(AgentKernelStore):
    def __init__(self) -> None:
        super().__init__(ak.open("memory:"))


langgraph.store.memory.InMemoryStore = InMemoryStore  # type: ignore[assignment,misc]
