"""Conversations of the OpenAI Agents SDK as records: `AgentKernelSession`.

Each item is a record of the branch, so a checkout takes the conversation along with the variables. The keys of a session count
down: the newest item comes first, so that the last items are read without the others, and what is added lies together.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from blake3 import blake3

from agent_kernel.errors import MissingExtraError
from agent_kernel.records.collection import Records, exactly, together
from agent_kernel.records.schema import Record
from agent_kernel.session.snapshot import Repository

try:
    from agents.memory import SessionABC, SessionSettings
    from agents.memory.session import _CompactionSnapshot  # pyright: ignore[reportPrivateUsage]
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise MissingExtraError("openai-agents", "openai-agents") from error

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

__all__ = ["AgentKernelSession"]

T = TypeVar("T")

_LAST: Final = 10**12 - 1  # the first item's number; the next ones count down from it


class _ItemRecord(Record):
    collection = "openai-agents"
    session: str
    item: str  # JSON: text of a model may hold what UTF-8 cannot


class AgentKernelSession(SessionABC):
    """A conversation on a branch. Safe from several coroutines, threads and processes.

    Args:
        session_id: the conversation's name; the same one goes on with it.
        repo: a repository, or the path or URL of one.
        branch: whose conversation; by default that of the branch that this process works on.
        session_settings: as in the SDK; `limit` is how many of the last items are read.

    While a session of this process is on the branch (`ak.Versioned`, a bound notebook), the conversation is part of its next
    commit, and a checkout rewinds both.
    """

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        repo: Repository | str | Path,
        *,
        branch: str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._owns_repo = not isinstance(repo, Repository)
        self.repo = repo if isinstance(repo, Repository) else Repository.open(repo)
        self._items = Records(self.repo, _ItemRecord, branch=branch)
        self._start = blake3(session_id.encode("utf-8", "surrogatepass")).hexdigest(10) + "."
        self._closed = False

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, the oldest first; with a limit, the last ones. A negative limit means all."""
        wanted = resolve_session_limit(limit, self.session_settings)
        self._require_open()
        return [item for _, item in await asyncio.to_thread(self._newest, wanted)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, all or none."""
        self._require_open()
        if items:
            await self._change(partial(self._append, [json.dumps(item) for item in items]), "add items")

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it. Returns None if the session is empty."""
        return await self._pop_item_with_validation()

    async def _pop_item_with_validation(
        self, validate: Callable[[TResponseInputItem], None] | None = None
    ) -> TResponseInputItem | None:
        """The SDK asks for this where an item has to be checked before it goes."""

        def pop() -> TResponseInputItem | None:
            for id, item in self._newest(1):
                if validate is not None:
                    validate(item)
                self._items.delete(id)
                return item
            return None

        return await self._change(pop, "pop item")

    async def clear_session(self) -> None:
        """Remove all items."""

        def clear() -> None:
            for id in list(self._items.ids(exactly(self._start) + "*")):
                self._items.delete(id)

        await self._change(clear, "clear")

    def close(self) -> None:
        """Let go of the store, if it was opened here. Using the session afterwards raises RuntimeError."""
        if not self._closed:
            self._closed = True
            if self._owns_repo:
                self.repo.close()

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> _CompactionSnapshot | None:
        """The last items, and how to replace the end of them if nobody has changed it. The SDK asks for this to compact."""
        self._require_open()
        if type(self)._newest is not AgentKernelSession._newest:
            return None  # a class that keeps more than items says itself how
        found = await asyncio.to_thread(self._newest, limit + 1)
        complete, rows = len(found) <= limit, found[-limit:]

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            expected = rows[start:]
            if not expected:
                return False

            def replace() -> bool:
                if self._newest(len(expected)) != expected:
                    return False
                if prune_prefix is not None:
                    self._prune(expected[0][0], prune_prefix)
                for id, _ in expected:
                    self._items.delete(id)
                self._append([json.dumps(item) for item in output], _number_of(expected[0][0]))
                return True

            return await self._change(replace, "replace the end")

        return _CompactionSnapshot([item for _, item in rows], complete, replace_suffix)

    def _prune(self, before: str, is_expired: Callable[[TResponseInputItem], bool]) -> None:
        """Delete items from the oldest on, as long as they are expired."""
        for id in reversed(list(self._items.ids(exactly(self._start) + "*"))):
            if id <= before or not is_expired(json.loads(self._items[id].item)):
                return
            self._items.delete(id)

    def _newest(self, limit: int | None) -> list[tuple[str, TResponseInputItem]]:
        """The last items with their ids, the oldest of them first."""
        found: list[tuple[str, TResponseInputItem]] = []
        for id in self._items.ids(exactly(self._start) + "*") if limit != 0 else ():
            record = self._items.get(id)
            if record is not None:
                found.append((id, json.loads(record.item)))
            if limit is not None and len(found) == limit:
                break
        return found[::-1]

    def _append(self, items: list[str], number: int | None = None) -> None:
        if number is None:
            newest = next(self._items.ids(exactly(self._start) + "*"), None)
            number = _LAST if newest is None else _number_of(newest) - 1
        while items and self._id_of(number) in self._items:  # somebody else has just added it
            number -= 1
        for place, item in enumerate(items):
            self._items.put(_ItemRecord(id=self._id_of(number - place), session=self.session_id, item=item))

    def _id_of(self, number: int) -> str:
        return f"{self._start}{number:012d}"

    async def _change(self, change: Callable[[], T], what: str) -> T:
        """Make a change in a thread, to its end even where the caller is cancelled meanwhile."""
        self._require_open()
        message = f"OpenAI Agents: {what} of session {self.session_id}"
        task = asyncio.ensure_future(asyncio.to_thread(together, self._items, change, message))
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = cancelled or error
        if cancelled is not None:
            task.exception()
            raise cancelled
        return task.result()

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"{type(self).__name__} is closed")


def _number_of(id: str) -> int:
    return int(id.rpartition(".")[2])
