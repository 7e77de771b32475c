"""A pytest plugin: the tests of AgentScope 1 get `AgentKernelSession` for its sessions in files, in Redis and in Tablestore."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import agentscope.session

import agent_kernel as ak
from agent_kernel.integrations.agentscope_v1 import AgentKernelSession


class Session(AgentKernelSession):
    def __init__(self, **_: Any) -> None:
        super().__init__(ak.open("memory:"))


class FakeRedis:
    connection_pool = None

    async def close(self) -> None:
        """There is nothing to close."""


def _module(name: str, **what: Any) -> ModuleType:
    made = sys.modules[name] = ModuleType(name)
    vars(made).update(what)
    return made


_module("fakeredis", aioredis=_module("fakeredis.aioredis", FakeRedis=FakeRedis))
_module("agentscope.session._tablestore_session", TablestoreSession=Session)
for name in ("JSONSession", "RedisSession", "TablestoreSession"):
    setattr(agentscope.session, name, Session)
