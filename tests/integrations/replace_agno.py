"""A pytest plugin: agno's tests get `AgentKernelDb` for `InMemoryDb` and for `SqliteDb`."""

from __future__ import annotations

import contextlib
from typing import Any
from unittest.mock import Mock

import agno.db.in_memory
import agno.db.in_memory.in_memory_db
import agno.db.sqlite
import agno.db.sqlite.sqlite

import agent_kernel as ak
from agent_kernel.integrations.agno import AgentKernelDb

assert "tests" not in agno.db.__path__[0], "the released package is tested, and not the source beside its tests"


class InMemoryDb(AgentKernelDb):
    def __init__(self) -> None:
        super().__init__(ak.open("memory:"))


class SqliteDb(AgentKernelDb):
    def __init__(self, db_file: str | None = None, **tables: Any) -> None:
        super().__init__("memory:" if db_file is None else f"{db_file}.store")

    def Session(self) -> Any:
        """What cleans up after a test: here each has a store of its own."""
        return contextlib.nullcontext(Mock())

    def _get_table(self, table_type: str, **options: Any) -> None:
        return None


for module in (agno.db.in_memory, agno.db.in_memory.in_memory_db):
    module.InMemoryDb = InMemoryDb  # type: ignore[attr-defined]
for module in (agno.db.sqlite, agno.db.sqlite.sqlite):
    module.SqliteDb = SqliteDb  # type: ignore[attr-defined]
