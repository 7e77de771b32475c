"""A pytest plugin: AgentScope's tests get `AgentKernelStorage` for its Redis and SQL storages, without Redis or SQLAlchemy."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Self

import agentscope.app.storage

import agent_kernel as ak
from agent_kernel.integrations import agentscope as ours


class Storage(ours.AgentKernelStorage):
    def __init__(self, *_: Any, **more: Any) -> None:
        super().__init__(ak.open("memory:"))


class RedisStorage(Storage):
    """Its tests make one without `__init__`, give it a client, and stamp records through that client."""

    KeyConfig = agentscope.app.storage.RedisStorage.KeyConfig

    def __new__(cls, *_: Any, **more: Any) -> Self:
        made = super().__new__(cls)
        made.__init__()  # type: ignore[misc]
        return made

    def _key(self, template: str, **names: str) -> tuple[str, dict[str, str]]:
        return template, names


class Client:
    """Reads and writes the JSON of a session or an agent, as the setup of some tests does."""

    def __init__(self) -> None:
        self.storage: Any = None

    def _record(self, key: tuple[str, dict[str, str]]) -> tuple[Any, tuple[str, str]]:
        user, id = key[1].values()
        kinds = {"session_id": self.storage._sessions, "agent_id": self.storage._agents}
        return kinds[[*key[1]][1]], (user, id)

    async def get(self, key: tuple[str, dict[str, str]]) -> str:
        kind, names = self._record(key)
        return str(self.storage._get(kind, *names).model_dump_json())

    async def set(self, key: tuple[str, dict[str, str]], text: str) -> None:
        kind, names = self._record(key)
        record = kind.schema.model.model.model_validate_json(text)
        self.storage._put(kind, names, record.model_dump(mode="json"))

    async def sadd(self, key: object, *ids: str) -> None:
        """Records of ours need no set of their ids."""


def _bind(storage: Any, client: Client) -> None:
    client.storage = storage
    storage.__dict__["_client"] = client


RedisStorage._client = property(lambda self: self.__dict__.get("_client"), _bind)  # type: ignore[attr-defined]


def _module(name: str, **what: Any) -> Any:
    made = sys.modules[name] = ModuleType(name)
    vars(made).update(what)
    return made


# Their tests ask for these two: what a fake Redis is given to is `Client`, and what SQL refuses is our error.
_redis = _module("fakeredis.aioredis", FakeRedis=lambda **_: Client())
_module("fakeredis", aioredis=_redis)
_errors = _module("sqlalchemy.exc", IntegrityError=ak.RecordNotFoundError)
_module("sqlalchemy", exc=_errors)

agentscope.app.storage.RedisStorage = RedisStorage  # type: ignore[misc,assignment]
vars(agentscope.app.storage)["AsyncSQLAlchemyStorage"] = Storage
