"""Conversations of the OpenAI Agents SDK as records: `AgentKernelSession` and `AdvancedAgentKernelSession`.

A conversation is a list of the branch (`repo.list`), so a checkout takes it along with the variables. The advanced class has
branches within a conversation, too: each is a list of its own, which shares with the others what is stored. It keeps each item
with its time and its turn, so that neither has to be counted again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from blake3 import blake3
from pydantic import Field, JsonValue

from agent_kernel.errors import MissingExtraError
from agent_kernel.integrations import open_on
from agent_kernel.records.collection import Records, exactly
from agent_kernel.records.documents import each_of, pack_json, unpack_json
from agent_kernel.records.lists import RecordList
from agent_kernel.records.schema import Record
from agent_kernel.session.snapshot import Repository

try:
    from agents import _debug
    from agents._tool_identity import is_reserved_synthetic_tool_namespace, tool_qualified_name
    from agents.logger import log_model_action_error, log_model_and_tool_action_error
    from agents.memory import SessionABC, SessionSettings
    from agents.memory.session import _CompactionSnapshot  # pyright: ignore[reportPrivateUsage]
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise MissingExtraError("openai-agents", "openai-agents") from error

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.result import RunResult
    from agents.usage import Usage

__all__ = ["AdvancedAgentKernelSession", "AgentKernelSession"]

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
    commit, and a checkout rewinds both. A program's changes are stored at once, and the next commit of the branch takes
    them in.

    Raises:
        RefNotFoundError: there is no such branch.
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
        self.repo = open_on(repo, branch, "branch")
        self._items = RecordList(self.repo, _name_of(session_id), plane="branch", branch=branch, commit_each=False)
        self._closed = False

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, the oldest first; with a limit, the last ones. A negative limit means all."""
        wanted = resolve_session_limit(limit, self.session_settings)
        self._require_open()
        return await asyncio.to_thread(self._newest, None if wanted is not None and wanted < 0 else wanted)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, all or none. Raises: TypeError: it is one item, or a text."""
        self._require_open()
        items = each_of(items, "items")
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
        for index, item in enumerate(self._items):
            if index == before or not is_expired(_item_of(item)):
                return index
        return before

    def _newest(self, limit: int | None) -> list[TResponseInputItem]:
        """The last items, the oldest of them first."""
        return [_item_of(item) for item in self._items.items(limit)]

    async def _change(self, change: Callable[[], T], what: str) -> T:
        """Make a change in a thread, to its end even where the caller is cancelled meanwhile."""
        self._require_open()
        return await _to_its_end(asyncio.to_thread(self._items.together, change, self._message(what)))

    def _message(self, what: str) -> str:
        return f"OpenAI Agents: {what} of session {self.session_id}"

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"{type(self).__name__} is closed")


def _name_of(session_id: str) -> str:
    """The name of the list. One that is too long for a key, or that no key holds, is replaced by its digest.

    Raises:
        TypeError: it is no text. ValueError: it is empty.
    """
    if not isinstance(session_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # who calls may not check types
        raise TypeError(f"the id of a session is text, and comes before the repository, not {session_id!r}")
    if not session_id:
        raise ValueError("the id of a session is not empty")
    raw = session_id.encode("utf-8", "surrogatepass")
    is_plain = session_id.isprintable() and len(raw) <= _MOST_NAME
    return "openai-agents " + (session_id if is_plain else f"#{blake3(raw).hexdigest()}")


def _item_of(item: Any) -> Any:
    if isinstance(item, list):  # with its time and turn
        item = item[0]
    return unpack_json(item)


async def _to_its_end(work: Awaitable[T]) -> T:
    """Wait until the work is done, even where the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
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


# -- conversations with branches, turns and usage

_MAIN: Final = "main"
_PREVIEW: Final = 100  # characters
_CALLS: Final = frozenset(
    {
        "apply_patch_call",
        "code_interpreter_call",
        "computer_call",
        "custom_tool_call",
        "file_search_call",
        "function_call",
        "mcp_approval_request",
        "mcp_call",
        "shell_call",
        "tool_call",
        "tool_search_call",
        "web_search_call",
    }
)
_SEARCHES: Final = frozenset({"tool_search_call", "tool_search_output"})
_NAMED_BY_TYPE: Final = frozenset(
    {
        "apply_patch_call",
        "code_interpreter_call",
        "computer_call",
        "file_search_call",
        "shell_call",
        "web_search_call",
    }
)


class _Conversation(Record):
    """What is known of a conversation beside what was said."""

    collection = "openai-agents conversation"
    session: str
    cleared: int = 0  # how often
    created_ns: dict[str, int] = Field(default_factory=dict[str, int])  # of each branch that was ever there


class _TurnUsage(Record):
    """What the model used in a turn."""

    collection = "openai-agents usage"
    branch: str
    turn: int
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: JsonValue = None
    output_tokens_details: JsonValue = None


class _Row(NamedTuple):
    """An item of a conversation."""

    item: Any
    turn: int  # how many messages of the user there are up to it
    time_ns: int  # 0: `AgentKernelSession` stored it, which keeps no times

    @property
    def is_user(self) -> bool:
        return _is_user(self.item)

    @property
    def kind(self) -> str:
        """`user`, `assistant`, or the type that the SDK gives."""
        if not isinstance(self.item, dict):
            return "other"
        role = self.item.get("role")
        return str(role if role in ("user", "assistant") else self.item.get("type") or "other")


class _Moment(NamedTuple):
    """Where a conversation was when somebody asked: the branch, and how often it had been cleared."""

    branch: str
    cleared: int


class AdvancedAgentKernelSession(AgentKernelSession):
    """A conversation with branches of its own, and with what the model used in each turn. It answers as `AdvancedSQLiteSession` does.

    Args:
        session_id: the conversation's name; the same one goes on with it, also where `AgentKernelSession` began it.
        repo: a repository, or the path or URL of one.
        branch: of the repository; by default the one that this process works on.
        session_settings: as in the SDK; `limit` is how many of the last items are read.
        logger: what is told of branches, and of usage that could not be stored; by default that of this module.

    A branch of the conversation begins with the items before a turn, and shares what is stored of them. Which branch is the
    current one, each object says for itself; it begins with `main`. What several calls of one object change is done in the order
    of the calls.

    Source: `agents.extensions.memory.AdvancedSQLiteSession`.
    """

    def __init__(
        self,
        session_id: str,
        repo: Repository | str | Path,
        *,
        branch: str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        super().__init__(session_id, repo, branch=branch, session_settings=session_settings)
        self._branch = branch
        self._logger = logger or logging.getLogger(__name__)
        self._id = _digest(session_id)
        self._conversations = Records(self.repo, _Conversation, branch=branch)
        self._usage = Records(self.repo, _TurnUsage, branch=branch)
        self._lists = {_MAIN: self._items}
        self._queue_lock = threading.Lock()
        self._last: Future[None] | None = None
        found = self._about()
        self._moment = _Moment(_MAIN, found.cleared)  # both change at once

    @property
    def current_branch(self) -> str:
        """The branch of the conversation that items are added to. After a rollback past its beginning that is `main`."""
        return self._moment.branch if self._closed else self._refreshed(self._about()).branch

    # -- items

    async def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[TResponseInputItem]:
        """The items of a branch, the oldest first; with a limit, the last ones. A negative limit means all."""
        wanted = resolve_session_limit(limit, self.session_settings)
        self._require_open()

        def read() -> list[TResponseInputItem]:
            items = self._list(self._or_current(branch_id)).items(None if wanted is not None and wanted < 0 else wanted)
            return [_item_of(item) for item in items]

        return await self._in_thread(read)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end of the current branch, all or none. Raises: TypeError: it is one item, or a text."""
        self._require_open()
        items = each_of(items, "items")
        if not items:
            return
        moment = self._moment

        def add() -> None:
            self._append(self._current_for(moment), items)

        try:
            await _to_its_end(self._in_order(self._as_one(add, "add items")))
        except Exception as error:
            log_model_and_tool_action_error(self._logger, "Failed to add session items", error)
            raise

    def _append(self, branch: str, items: list[TResponseInputItem]) -> None:
        items_stored, now = self._list(branch), time.time_ns()
        last = next(_backwards(items_stored), None)
        turn = 0 if last is None else last.turn
        stored: list[JsonValue] = []
        for index, item in enumerate(items):
            turn += _is_user(item)
            stored.append([pack_json(item), now + index, turn])
        items_stored.extend(stored)
        about = self._about()
        if branch not in about.created_ns:
            self._keep(about, branch)

    async def _pop_item_with_validation(
        self, validate: Callable[[TResponseInputItem], None] | None = None
    ) -> TResponseInputItem | None:
        self._require_open()
        moment = self._moment

        def pop() -> TResponseInputItem | None:
            branch = self._current_for(moment)
            items = self._list(branch)
            newest = _backwards(items)
            last = next(newest, None)
            if last is None:
                return None
            if validate is not None:
                validate(last.item)
            before = next(newest, None)
            items.pop()
            if before is None or before.turn != last.turn:
                self._usage.delete(self._usage_id(branch, last.turn))
            item: TResponseInputItem = last.item
            return item

        return await _to_its_end(self._in_order(self._as_one(pop, "pop item")))

    async def clear_session(self) -> None:
        """Remove all items of all branches. The names of the branches stay taken."""
        self._require_open()

        def clear() -> int:
            about = self._about()
            for branch in about.created_ns.keys() | {_MAIN}:
                if len(self._list(branch)):
                    self._list(branch).clear()
                self._forget_usage(branch)
            self._keep(about, *([_MAIN] if _MAIN not in about.created_ns else []), cleared=about.cleared + 1)
            return about.cleared + 1

        def settle() -> None:
            self._moment = _Moment(_MAIN, self._as_one(clear, "clear")())

        await _to_its_end(self._in_thread(settle))

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> _CompactionSnapshot | None:
        return None  # the items of a turn belong to it, also those that a summary would replace

    # -- branches of the conversation

    async def create_branch_from_turn(self, turn_number: int, branch_name: str | None = None) -> str:
        """Begin a branch with what was said before a turn, and go on with it. Returns its name.

        Args:
            branch_name: one that was not used in this conversation; by default one is made.

        Raises:
            ValueError: there is no such turn in the current branch, or the name is empty or taken.
        """
        if branch_name is not None and not branch_name.strip():
            raise ValueError("Branch name cannot be empty")
        self._require_open()

        def fork() -> tuple[str, _Row, _Moment]:
            about = self._about()
            current = self._refreshed(about)
            rows = _rows(self._list(current.branch))
            found = next(((at, row) for at, row in enumerate(rows) if row.is_user and row.turn == turn_number), None)
            if found is None:
                raise ValueError(f"Turn {turn_number} does not contain a user message in branch '{current.branch}'")
            index, row = found
            name = self._new_name(about, branch_name, turn_number)
            if index:
                self._list(current.branch).fork(self._name_of_list(name), index)
            self._keep(about, name)
            return name, row, current

        async def create() -> tuple[str, _Row, _Moment]:
            name, row, current = await self._in_thread(self._as_one(fork, f"branch from turn {turn_number}"))
            await self._in_thread(partial(self._point_to, name, current.cleared))
            return name, row, current

        name, row, current = await _to_its_end(create())
        excerpt = "" if _debug.DONT_LOG_MODEL_DATA else f" ({_preview(row.item.get('content', ''), 50)!r})"
        self._logger.debug("Created branch %r from turn %s%s in %r", name, turn_number, excerpt, current.branch)
        return name

    async def create_branch_from_content(self, search_term: str, branch_name: str | None = None) -> str:
        """Begin a branch before the first turn whose message has a text. Returns its name.

        Raises:
            ValueError: no turn of the current branch has it, or the name is empty or taken.
        """
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise ValueError(f"No user turns found containing '{search_term}'")
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Go on with another branch.

        Raises:
            ValueError: nothing is in it.
        """
        self._require_open()

        def look() -> int:
            self._require_branch(branch_id)
            return self._about().cleared

        before = self.current_branch
        cleared = await _to_its_end(self._in_thread(look))
        if await _to_its_end(self._in_thread(partial(self._point_to, branch_id, cleared))):
            self._logger.info("Switched from branch '%s' to '%s'", before, branch_id)

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:
        """Delete a branch with its usage. Its name stays taken.

        Args:
            force: delete the current branch, too, and go on with `main`.

        Raises:
            ValueError: it is `main`, or the current one without `force`, or nothing is in it.
        """
        if not branch_id or not branch_id.strip():
            raise ValueError("Branch ID cannot be empty")
        if branch_id == _MAIN:
            raise ValueError("Cannot delete the 'main' branch")
        self._require_open()
        if branch_id == self.current_branch:
            if not force:
                raise ValueError(f"Cannot delete current branch '{branch_id}'. Use force=True or switch branches first")
            await self._in_thread(partial(self._require_branch, branch_id))
            await self.switch_to_branch(_MAIN)

        def delete() -> int:
            self._require_branch(branch_id)
            items = self._list(branch_id)
            count = len(items)
            items.clear()
            self._forget_usage(branch_id)
            return count

        # In the order of the calls: an item that is on its way to the branch must not begin it again.
        count = await _to_its_end(self._in_order(self._as_one(delete, f"delete branch {branch_id}")))
        self._logger.info("Deleted branch '%s': %s items", branch_id, count)

    async def list_branches(self) -> list[dict[str, Any]]:
        """The branches that have items, the oldest first, with `branch_id`, `message_count`, `user_turns`, `is_current`, `created_at`."""
        self._require_open()

        def read() -> list[dict[str, Any]]:
            about = self._about()
            current = self._refreshed(about).branch
            created = {_MAIN: 0} | about.created_ns
            found: list[dict[str, Any]] = []
            for name in sorted(created, key=lambda name: created[name]):
                last = next(_backwards(self._list(name)), None)
                if last is not None:
                    found.append(
                        {
                            "branch_id": name,
                            "message_count": len(self._list(name)),
                            "user_turns": last.turn,
                            "is_current": name == current,
                            "created_at": _timestamp(created[name]),
                        }
                    )
            return found

        return await self._in_thread(read)

    # -- turns

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """What the user said in each turn: `turn`, `content` (its beginning), `full_content`, `timestamp`, `can_branch`."""
        return [_as_turn(row, _PREVIEW) for row in await self._read(branch_id) if row.is_user]

    async def find_turns_by_content(self, search_term: str, branch_id: str | None = None) -> list[dict[str, Any]]:
        """The turns whose message has a text, whether ASCII letters are large or small. `content` is the whole text."""
        has = re.compile(re.escape(search_term), re.IGNORECASE | re.ASCII).search
        rows = [row for row in await self._read(branch_id) if row.is_user]
        return [_as_turn(row, None) for row in rows if any(map(has, _texts_of(row.item.get("content", ""))))]

    async def get_conversation_by_turns(self, branch_id: str | None = None) -> dict[int, list[dict[str, str | None]]]:
        """By turn, `type` and `tool_name` of each item."""
        turns: dict[int, list[dict[str, str | None]]] = {}
        for row in await self._read(branch_id):
            turns.setdefault(row.turn, []).append({"type": row.kind, "tool_name": _tool_of(row.item)})
        return turns

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """(tool, how often it was called, turn), in order of the turns."""
        rows = [(row, _tool_of(row.item)) for row in await self._read(branch_id)]
        searched = {(row.turn, tool) for row, tool in rows if row.kind == "tool_search_call"}
        counts: dict[tuple[int, str], int] = {}
        for row, tool in rows:
            is_search = row.kind == "tool_search_output" and (row.turn, tool) not in searched
            if tool is not None and (row.kind in _CALLS or is_search):
                counts[row.turn, tool] = counts.get((row.turn, tool), 0) + 1
        return [(tool, count, turn) for (turn, tool), count in sorted(counts.items())]

    # -- usage

    async def store_run_usage(self, result: RunResult) -> None:
        """Note what a run used, for the turn that the current branch is in now. Call it when the run is over.

        What is added or popped afterwards does not change which turn that is. What cannot be stored goes to the log.
        """
        moment = self._moment

        def capture() -> tuple[str, _Row | None]:
            if self._refreshed(self._about()).cleared != moment.cleared:
                return moment.branch, None
            branch = self._current_for(moment)
            return branch, _first_of_turn(self._list(branch))

        try:
            usage = result.context_wrapper.usage
            captured = self._in_order(capture)

            async def store() -> None:
                await self._store_turn_usage(usage, *await captured)

            await _to_its_end(store())
        except Exception as error:  # noqa: BLE001  # a run that is over does not fail for what it used
            extra: dict[str, object] = {"session_id": self.session_id}
            log_model_action_error(self._logger, "Failed to store session usage", error, diagnostic_extra=lambda: extra)

    async def _store_turn_usage(self, usage: Usage, branch: str, first: _Row | None) -> None:
        """`first`: the first item of the turn. Where it is gone, or another one is in its place, nothing is stored."""
        if first is None:
            return

        def store() -> None:
            if any(row == first for row in _backwards(self._list(branch))):
                self._usage.put(
                    _TurnUsage(
                        id=self._usage_id(branch, first.turn),
                        branch=branch,
                        turn=first.turn,
                        requests=usage.requests or 0,
                        input_tokens=usage.input_tokens or 0,
                        output_tokens=usage.output_tokens or 0,
                        total_tokens=usage.total_tokens or 0,
                        input_tokens_details=_details_of(usage.input_tokens_details),
                        output_tokens_details=_details_of(usage.output_tokens_details),
                    )
                )

        await _to_its_end(self._in_thread(self._as_one(store, "usage")))

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """What all turns used, of one branch or of all. Returns None if nothing was stored."""
        self._require_open()
        found = await self._in_thread(lambda: self._usages(branch_id or None))
        if not found:
            return None
        fields = ("requests", "input_tokens", "output_tokens", "total_tokens")
        return {name: sum(getattr(one, name) for one in found) for name in fields} | {"total_turns": len(found)}

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """What a turn used, {} where nothing was stored; without a number, a list of all turns of the branch."""
        self._require_open()
        found = await self._in_thread(lambda: self._usages(self._or_current(branch_id)))
        fields = ("requests", "input_tokens", "output_tokens", "total_tokens")
        details = ("input_tokens_details", "output_tokens_details")
        rows = {one.turn: {name: getattr(one, name) for name in (*fields, *details)} for one in found}
        if user_turn_number is not None:
            return rows.get(user_turn_number, {})
        return [{"user_turn_number": turn, **row} for turn, row in rows.items()]

    def _usages(self, branch: str | None) -> list[_TurnUsage]:
        start = f"{self._id}/" if branch is None else self._usage_id(branch)
        return self._usage.find(exactly(start) + "*")

    def _usage_id(self, branch: str, turn: int | None = None) -> str:
        return f"{self._id}/{_digest(branch)}/" + ("" if turn is None else f"{turn:010d}")

    def _forget_usage(self, branch: str) -> None:
        for one in self._usages(branch):
            self._usage.delete(one.id)

    # -- what is there

    def _about(self) -> _Conversation:
        found: _Conversation | None = self._conversations.get(self._id)
        return found or _Conversation(id=self._id, session=json.dumps(self.session_id)[1:-1])

    def _keep(self, about: _Conversation, *new: str, cleared: int | None = None) -> None:
        created = about.created_ns | dict.fromkeys(new, time.time_ns())
        cleared = about.cleared if cleared is None else cleared
        self._conversations.put(about.model_copy(update={"created_ns": created, "cleared": cleared}))

    def _new_name(self, about: _Conversation, name: str | None, turn: int) -> str:
        taken = about.created_ns.keys() | {_MAIN}
        if name is not None:
            if name in taken:
                raise ValueError(f"Branch ID '{name}' has already been used. Choose a new branch ID.")
            return name
        start = name = f"branch_from_turn_{turn}_{int(time.time())}"
        number = 1
        while name in taken:
            number += 1
            name = f"{start}_{number}"
        return name

    def _list(self, branch: str) -> RecordList:
        found = self._lists.get(branch)
        if found is None:
            name = self._name_of_list(branch)
            found = RecordList(self.repo, name, plane="branch", branch=self._branch, commit_each=False)
            self._lists[branch] = found
        return found

    def _name_of_list(self, branch: str) -> str:
        if branch == _MAIN:
            return _name_of(self.session_id)
        return "openai-agents-branch " + _digest(self.session_id + "\0" + branch)

    async def _read(self, branch: str | None) -> list[_Row]:
        self._require_open()
        return await self._in_thread(lambda: list(_rows(self._list(self._or_current(branch)))))

    def _require_branch(self, branch: str) -> None:
        if not len(self._list(branch)):
            raise ValueError(f"Branch '{branch}' does not exist")

    # -- which branch is the current one. Another object may have cleared the conversation, or a rollback have gone back to where the
    # branch was not made yet: there is only `main` then. When the rollback is reversed, the branch is the current one again.

    def _refreshed(self, about: _Conversation) -> _Moment:
        if about.cleared != self._moment.cleared:
            self._moment = _Moment(_MAIN, about.cleared)
        return self._moment if self._exists(self._moment.branch, about) else _Moment(_MAIN, about.cleared)

    def _exists(self, branch: str, about: _Conversation) -> bool:
        return branch == _MAIN or branch in about.created_ns

    def _or_current(self, branch: str | None) -> str:
        return self._refreshed(self._about()).branch if branch is None else branch

    def _current_for(self, moment: _Moment) -> str:
        """The branch that a call is about: the one that was current then, unless all were cleared since."""
        about = self._about()
        now = self._refreshed(about)
        exists = now.cleared == moment.cleared and self._exists(moment.branch, about)
        return moment.branch if exists else now.branch

    def _point_to(self, branch: str, cleared: int) -> bool:
        """Make a branch the current one, unless all were cleared since; whether that was done."""
        now = self._about().cleared
        self._moment = _Moment(branch if now == cleared else _MAIN, now)
        return now == cleared

    # -- how work is done

    def _as_one(self, change: Callable[[], T], what: str) -> Callable[[], T]:
        """The change as one commit; it keeps its name."""

        def work() -> T:
            self._require_open()
            return self._items.together(change, self._message(what))

        work.__name__ = change.__name__
        return work

    def _in_thread(self, work: Callable[[], T]) -> Coroutine[Any, Any, T]:
        return asyncio.to_thread(work)

    def _in_order(self, work: Callable[[], T]) -> Coroutine[Any, Any, T]:
        """Do the work after all that was put in order before, on whatever event loop that is."""
        done: Future[None] = Future()
        with self._queue_lock:
            before, self._last = self._last, done

        async def run() -> T:
            try:
                if before is not None:
                    await asyncio.wrap_future(before)
                return await self._in_thread(work)
            finally:
                done.set_result(None)
                with self._queue_lock:
                    if self._last is done:
                        self._last = None

        return run()


def _rows(items: RecordList) -> Iterator[_Row]:
    turn = 0
    for stored in items:
        row = _row(stored)
        turn = row.turn if row.time_ns else turn + row.is_user
        yield row._replace(turn=turn)


def _row(stored: Any) -> _Row:
    return _Row(_item_of(stored), stored[2], stored[1]) if isinstance(stored, list) else _Row(_item_of(stored), 0, 0)


_FEW: Final = 16


def _backwards(items: RecordList) -> Iterator[_Row]:
    """The items, the newest first; read as they are asked for."""
    count = len(items)
    step = _FEW
    while count:
        start = max(count - step, 0)
        rows = [_row(stored) for stored in items[start:count]]
        if not all(row.time_ns for row in rows):  # their turns have to be counted
            rows, start = list(_rows(items))[:count], 0
        yield from reversed(rows)
        count, step = start, 2 * step


def _first_of_turn(items: RecordList) -> _Row | None:
    """The first item of the last turn. None: there is no turn yet."""
    first: _Row | None = None
    for row in _backwards(items):
        if first is not None and row.turn != first.turn:
            break
        first = row
    return first


def _is_user(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "user"


def _digest(text: str) -> str:
    return blake3(text.encode("utf-8", "surrogatepass")).hexdigest(16)


def _timestamp(time_ns: int) -> str | None:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S") if time_ns else None


def _as_turn(row: _Row, preview: int | None) -> dict[str, Any]:
    content = row.item.get("content", "")
    return {
        "turn": row.turn,
        "content": _preview(content, preview),
        "full_content": content,
        "timestamp": _timestamp(row.time_ns),
        "can_branch": True,
    }


def _preview(content: Any, most: int | None) -> str:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return text if most is None or len(text) <= most else text[:most] + "..."


def _texts_of(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [str(part.get("text", "")) for part in content or () if isinstance(part, dict)]


def _tool_of(item: Any) -> str | None:
    """The name of the tool that an item is a call or an output of."""
    if not isinstance(item, dict):
        return None
    kind, name = item.get("type"), item.get("name")
    if kind in ("mcp_call", "mcp_approval_request") and "server_label" in item:
        parts = [str(part) for part in (item.get("server_label"), name) if part]
        return ".".join(parts) or None
    if kind in _SEARCHES:
        return "tool_search"
    if kind in _NAMED_BY_TYPE:
        return str(kind)
    if name is None:
        return None
    namespace = None if item.get("namespace") is None else str(item["namespace"])
    if is_reserved_synthetic_tool_namespace(str(name), namespace):
        return str(name)
    return tool_qualified_name(str(name), namespace) or str(name)


def _details_of(details: Any) -> Any:
    """The parts of what was used; None where JSON cannot hold them."""
    if not details:
        return None
    try:
        return json.loads(json.dumps({name: value for name, value in vars(details).items() if value is not None}))
    except (TypeError, ValueError):
        return None
