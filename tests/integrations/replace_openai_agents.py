"""A pytest plugin: tests of the OpenAI Agents SDK get our sessions for `SQLiteSession` and `AdvancedSQLiteSession`."""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
from collections.abc import Callable, Coroutine, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import agents
import agents.extensions.memory
import agents.memory

import agent_kernel as ak
from agent_kernel.integrations.openai_agents import (
    AdvancedAgentKernelSession,
    AgentKernelSession,
    _rows,
    _tool_of,
)

OPEN: dict[str, ak.Repository] = {}
# Their tests hold back work by its name.
WORK: Final = {
    "add": "_add_items_sync",
    "capture": "_capture_current_turn",
    "delete": "_delete_sync",
    "fork": "_copy_sync",
    "point": "_commit_branch_pointer",
    "pop": "_pop_item_sync",
    "store": "_update_sync",
}


def repo_of(place: str) -> ak.Repository:
    if place == ":memory:":
        return ak.open("memory:")
    return OPEN.get(place) or OPEN.setdefault(place, ak.open(f"{place}.store"))


class SQLiteSession(AgentKernelSession):
    def __init__(self, session_id: str, db_path: str | Path = ":memory:", session_settings: Any = None) -> None:
        super().__init__(session_id, repo_of(str(db_path)), session_settings=session_settings)


class AdvancedSQLiteSession(AdvancedAgentKernelSession):
    def __init__(
        self,
        *,
        session_id: str,
        db_path: str | Path = ":memory:",
        create_tables: bool = False,
        logger: Any = None,
        session_settings: Any = None,
    ) -> None:
        super().__init__(session_id, repo_of(str(db_path)), session_settings=session_settings, logger=logger)

    @property
    def _current_branch_id(self) -> str:
        return self.current_branch

    @property
    def _moment(self) -> Any:
        return self._branch_state

    @_moment.setter
    def _moment(self, state: Any) -> None:
        self._branch_state = state

    def _in_thread(self, work: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
        return super()._in_thread(renamed(work))

    def _in_order(self, work: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
        return self._run_ordered_turn_operation(renamed(work))

    def _run_ordered_turn_operation(self, worker: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
        return super()._in_order(worker)

    async def _store_turn_usage(self, usage: Any, branch: str, first: Any) -> None:
        await self._update_turn_usage_internal(usage, branch, first)

    async def _update_turn_usage_internal(self, *given: Any) -> None:
        await super()._store_turn_usage(*given)

    def _append(self, branch: str, items: Any) -> None:
        super()._append(branch, items)
        self._insert_structure_metadata(None, items, branch)

    def _insert_structure_metadata(self, connection: Any, items: Any, branch_id: str | None = None) -> None:
        """Where their tests raise, after the items are written."""

    messages_table = "agent_messages"

    @contextmanager
    def _locked_connection(self) -> Generator[sqlite3.Connection]:
        """What their tests look for in tables, in tables that are made of our records for each look."""
        with closing(sqlite3.connect(":memory:")) as tables:
            tables.executescript(TABLES)
            fill(tables, self)
            tables.commit()
            yield tables


TABLES: Final = """
    CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data);
    CREATE TABLE message_structure (id INTEGER PRIMARY KEY, session_id, message_id, branch_id, message_type,
        sequence_number, user_turn_number, branch_turn_number, tool_name);
    CREATE TABLE turn_usage (session_id, branch_id, user_turn_number, total_tokens);
    CREATE TABLE branch_reservations (session_id, branch_id);
"""


def fill(tables: sqlite3.Connection, session: AdvancedSQLiteSession) -> None:
    id = session.session_id
    messages: dict[tuple[str, int], int] = {}
    place = 0
    for branch in dict.fromkeys(["main", *session._about().created_ns]):
        tables.execute("INSERT INTO branch_reservations VALUES (?, ?)", (id, branch))
        for row in _rows(session._list(branch)):
            place += 1
            text = json.dumps(row.item)
            message = messages.setdefault((text, row.time_ns), len(messages) + 1)
            tables.execute("INSERT OR IGNORE INTO agent_messages VALUES (?, ?, ?)", (message, id, text))
            values = (place, id, message, branch, row.kind, place, row.turn, row.turn, _tool_of(row.item))
            tables.execute("INSERT INTO message_structure VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    for one in session._usages(None):
        tables.execute("INSERT INTO turn_usage VALUES (?, ?, ?, ?)", (id, one.branch, one.turn, one.total_tokens))


def renamed(work: Callable[[], Any]) -> Callable[[], Any]:
    name = work.func.__name__.split("_")[1] if isinstance(work, partial) else work.__name__
    renamed = lambda: work()  # noqa: E731
    renamed.__name__ = WORK.get(name, name)
    return renamed


for place in (agents, agents.memory):
    place.SQLiteSession = SQLiteSession  # type: ignore[misc,assignment]
agents.extensions.memory.AdvancedSQLiteSession = AdvancedSQLiteSession  # type: ignore[misc,assignment]
multiprocessing.set_forkserver_preload([__name__])
