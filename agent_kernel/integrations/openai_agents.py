"""Conversations of the OpenAI Agents SDK as records: `AgentKernelSession`.

A conversation is a list of the branch (`repo.list`), so a checkout takes it along with the variables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from blake3 import blake3

from agent_kernel.errors import MissingExtraError
from agent_kernel.records.documents import pack_json, unpack_json
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

_MOST_NAME: Final = 200  # bytes


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
        self._items = self.repo.list(_name_of(session_id), plane="branch", branch=branch)
        self._closed = False

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, the oldest first; with a limit, the last ones. A negative limit means all."""
        wanted = resolve_session_limit(limit, self.session_settings)
        self._require_open()
        return await asyncio.to_thread(self._newest, None if wanted is not None and wanted < 0 else wanted)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, all or none."""
        self._require_open()
        if items:
            await self._change(partial(self._items.extend, [pack_json(item) for item in items]), "add items")

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it. Returns None if the session is empty."""
        return await self._pop_item_with_validation()

    async def _pop_item_with_validation(
        self, validate: Callable[[TResponseInputItem], None] | None = None
    ) -> TResponseInputItem | None:
        """The SDK asks for this where an item has to be checked before it goes."""

        def pop() -> TResponseInputItem | None:
            if not len(self._items):
                return None
            (item,) = self._newest(1)
            if validate is not None:
                validate(item)
            self._items.pop()
            return item

        return await self._change(pop, "pop item")

    async def clear_session(self) -> None:
        """Remove all items."""
        await self._change(self._items.clear, "clear")

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
                first = len(self._items) - len(expected)
                expired = 0 if prune_prefix is None else self._expired(first, prune_prefix)
                before = [*self._items[expired:first]] if expired else []
                self._items.replace_tail(0 if expired else first, [*before, *map(pack_json, output)])
                return True

            return await self._change(replace, "replace the end")

        return _CompactionSnapshot(rows, complete, replace_suffix)

    def _expired(self, before: int, is_expired: Callable[[TResponseInputItem], bool]) -> int:
        """How many items, from the oldest on, are expired."""
        for place, item in enumerate(self._items):
            if place == before or not is_expired(unpack_json(item)):
                return place
        return before

    def _newest(self, limit: int | None) -> list[TResponseInputItem]:
        """The last items, the oldest of them first."""
        return [unpack_json(item) for item in self._items.items(limit)]

    async def _change(self, change: Callable[[], T], what: str) -> T:
        """Make a change in a thread, to its end even where the caller is cancelled meanwhile."""
        self._require_open()
        message = f"OpenAI Agents: {what} of session {self.session_id}"
        task = asyncio.ensure_future(asyncio.to_thread(self._items.together, change, message))
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


def _name_of(session_id: str) -> str:
    """The name of the list. One that is too long for a key, or that no key holds, is replaced by its digest."""
    raw = session_id.encode("utf-8", "surrogatepass")
    is_plain = session_id.isprintable() and len(raw) <= _MOST_NAME
    return "openai-agents " + (session_id if is_plain else f"#{blake3(raw).hexdigest()}")
