"""Steps of pydantic-ai-harness as records: `AgentKernelStepStore`. For conversations by name see `pydantic_ai_history`.

Runs, events and snapshots are records of the branch: a checkout rewinds them with the variables. Effects of tools lie beside all
branches: a call that was made stays made, whatever is rewound. Of a snapshot only the messages that are new in its run are
stored with it; the snapshot before has the others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from blake3 import blake3
from pydantic import TypeAdapter

from agent_kernel.errors import MissingExtraError
from agent_kernel.integrations import open_on
from agent_kernel.records.collection import Records, exactly, together
from agent_kernel.records.schema import Plane, Record
from agent_kernel.session.snapshot import Repository

try:
    from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord, StepEvent, ToolEffectRecord
except ImportError as error:
    raise MissingExtraError("pydantic-ai-harness", "pydantic-ai") from error

from agent_kernel.integrations.pydantic_ai_history import (
    MESSAGES,
    is_same_message,
)  # it needs pydantic-ai, which is there

__all__ = ["AgentKernelStepStore"]

T = TypeVar("T")

_LAST: Final = 10**9 - 1  # numbers count down from it, so that the newest comes first


class _RunRecord(Record):
    collection = "pydantic-ai runs"
    run: dict[str, Any]


class _EventRecord(Record):
    collection = "pydantic-ai events"
    event: dict[str, Any]


class _SnapshotRecord(Record):
    collection = "pydantic-ai snapshots"
    snapshot: dict[str, Any]  # without its messages
    base: str = ""  # the id of the snapshot whose first messages are those of this one
    shared: int = 0  # how many
    messages: list[Any]  # the others
    count: int  # of all messages
    digest: str  # of all messages
    number: int = -1  # the largest one that harness put before a key of the run


class _KeyRecord(Record):
    """An idempotency key that was seen, under the run and what it is a key of."""

    collection = "pydantic-ai keys"


class _EffectRecord(Record):
    collection = "pydantic-ai effects"
    plane: ClassVar[Plane] = "store"
    effect: dict[str, Any]


_RUN: Final = TypeAdapter(RunRecord)
_EVENT: Final = TypeAdapter(StepEvent)
_EFFECT: Final = TypeAdapter(ToolEffectRecord)
_FIELDS: Final = (
    "run_id",
    "step_index",
    "conversation_id",
    "parent_run_id",
    "agent_name",
    "state",
    "idempotency_key",
)


class AgentKernelStepStore:
    """A `StepStore` on a branch. Safe from several coroutines, threads and processes.

    Args:
        repo: a repository, or the path or URL of one.
        branch: whose runs; by default those of the branch that this process works on.
    """

    def __init__(self, repo: Repository | str | Path, *, branch: str | None = None) -> None:
        self.repo = open_on(repo, branch, "branch")
        self._runs = Records(self.repo, _RunRecord, branch=branch)
        self._events = Records(self.repo, _EventRecord, branch=branch)
        self._snapshots = Records(self.repo, _SnapshotRecord, branch=branch)
        self._keys = Records(self.repo, _KeyRecord, branch=branch)
        self._effects = Records(self.repo, _EffectRecord)

    async def register_run(self, record: RunRecord) -> None:
        """Store what a run is."""
        stored = _RunRecord(id=_key(record.run_id), run=_RUN.dump_python(record, mode="json"))
        await self._change(partial(self._runs.put, stored), f"pydantic-ai: run {record.run_id}")

    async def get_run(self, *, run_id: str) -> RunRecord | None:
        """What a run is; None: it is not known."""
        found = await asyncio.to_thread(self._runs.get, _key(run_id))
        return None if found is None else _RUN.validate_python(found.run)

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> list[RunRecord]:
        """The runs of a parent and of a conversation, in the order in which they began."""
        runs = [_RUN.validate_python(stored.run) for stored in await asyncio.to_thread(self._runs.find)]
        wanted = [run for run in runs if parent_run_id in (None, run.parent_run_id)]
        return sorted(
            (run for run in wanted if conversation_id in (None, run.conversation_id)), key=lambda run: run.started_at
        )

    async def append_event(self, event: StepEvent) -> None:
        """Store an event, once for each idempotency key."""

        def append() -> None:
            if not self._is_new(f"{start}e.", event.idempotency_key):
                return
            self._events.put(_EventRecord(id=_next(self._events, start), event=_EVENT.dump_python(event, mode="json")))

        start = f"{_key(event.run_id)}."
        await self._change(append, f"pydantic-ai: {event.kind} of run {event.run_id}")

    async def list_events(self, *, run_id: str) -> list[StepEvent]:
        """The events of a run, in order."""
        found = await asyncio.to_thread(self._events.find, f"{_key(run_id)}.*")
        return [_EVENT.validate_python(stored.event) for stored in reversed(found)]

    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        """Store a snapshot, once for each idempotency key, and none that is older than the newest."""

        def save() -> None:
            newest = next(self._snapshots.ids(exactly(start) + "*"), "")
            before: _SnapshotRecord | None = self._snapshots.get(newest) if newest else None
            largest = -1 if before is None else before.number
            number = _number_of(snapshot.idempotency_key or "")
            if (number is not None and number < largest) or not self._is_new(f"{start}s.", snapshot.idempotency_key):
                return
            shared = 0 if before is None else self._shared(before, messages, lines)
            stored = _SnapshotRecord(
                id=_next(self._snapshots, start),
                snapshot={name: getattr(snapshot, name) for name in _FIELDS}
                | {"timestamp": snapshot.timestamp.isoformat()},
                base=newest if shared else "",
                shared=shared,
                messages=messages[shared:],
                count=len(messages),
                digest=_digest(lines),
                number=largest if number is None else number,
            )
            self._snapshots.put(stored)

        start = f"{_key(snapshot.run_id)}."
        messages: list[Any] = MESSAGES.dump_python(snapshot.messages, mode="json")
        lines = [json.dumps(message).encode() for message in messages]
        await self._change(save, f"pydantic-ai: step {snapshot.step_index} of run {snapshot.run_id}")

    def _is_new(self, start: str, key: str | None) -> bool:
        """Whether this key was not seen yet. From now on it was."""
        if key is None:
            return True
        id = start + _key(key)
        if id in self._keys:
            return False
        self._keys.put(_KeyRecord(id=id))
        return True

    def _shared(self, before: _SnapshotRecord, messages: list[Any], lines: list[bytes]) -> int:
        """How many messages are those of the snapshot before: mostly all that it has, and its digest says so."""
        if before.digest == _digest(lines[: before.count]):
            return before.count
        return _shared(self._messages_of(before.id), messages)

    def _messages_of(self, id: str) -> list[Any]:
        parts: list[list[Any]] = []
        wanted: int | None = None
        while id:
            stored = self._snapshots[id]
            own = stored.messages if wanted is None else stored.messages[: max(wanted - stored.shared, 0)]
            parts.append(own)
            wanted = stored.shared if wanted is None else min(wanted, stored.shared)
            id = stored.base if wanted else ""
        return [message for part in reversed(parts) for message in part]

    async def latest_snapshot(self, *, run_id: str, include_interrupted: bool = False) -> ContinuableSnapshot | None:
        """The newest snapshot that a run can be resumed from. Returns None if the run has no such snapshot."""
        found = await asyncio.to_thread(self._load, run_id, include_interrupted, 1)
        return found[0] if found else None

    async def list_snapshots(self, *, run_id: str, include_interrupted: bool = False) -> list[ContinuableSnapshot]:
        """The snapshots of a run, in order."""
        return (await asyncio.to_thread(self._load, run_id, include_interrupted, None))[::-1]

    def _load(self, run_id: str, include_interrupted: bool, limit: int | None) -> list[ContinuableSnapshot]:
        found: list[ContinuableSnapshot] = []
        for id in self._snapshots.ids(exactly(f"{_key(run_id)}.") + "*"):
            stored = self._snapshots[id]
            if include_interrupted or stored.snapshot["state"] == "complete":
                messages = MESSAGES.validate_python(self._messages_of(id))
                found.append(_SNAPSHOT.validate_python({**stored.snapshot, "messages": messages}))
            if limit is not None and len(found) >= limit:
                break
        return found

    async def record_tool_effect(self, record: ToolEffectRecord) -> None:
        """Store what became of a call of a tool. No checkout rewinds it."""
        id = f"{_key(record.run_id)}.{_key(record.tool_call_id)}"
        stored = _EffectRecord(id=id, effect=_EFFECT.dump_python(record, mode="json"))
        await self._change(
            partial(self._effects.put, stored), f"pydantic-ai: {record.status} {record.tool_name}", self._effects
        )

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        """What became of a call; None: nothing is known of it."""
        found = await asyncio.to_thread(self._effects.get, f"{_key(run_id)}.{_key(tool_call_id)}")
        return None if found is None else _EFFECT.validate_python(found.effect)

    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        """The calls of a run that began, and of whose end nothing is known."""
        found = await asyncio.to_thread(self._effects.find, f"{_key(run_id)}.*")
        effects = [_EFFECT.validate_python(stored.effect) for stored in found]
        return sorted((one for one in effects if one.status == "started"), key=lambda one: one.started_at)

    async def _change(self, change: Callable[[], T], message: str, records: Records[Any] | None = None) -> T:
        return await asyncio.to_thread(together, self._runs if records is None else records, change, message)


_SNAPSHOT: Final = TypeAdapter(ContinuableSnapshot)


def _key(name: str) -> str:
    return blake3(name.encode("utf-8", "surrogatepass")).hexdigest(12)


def _digest(lines: Sequence[bytes]) -> str:
    return blake3(b"\n".join(lines)).hexdigest(16)


def _next(records: Records[Any], start: str) -> str:
    newest = next(records.ids(exactly(start) + "*"), None)
    number = _LAST if newest is None else int(newest.rpartition(".")[2]) - 1
    while f"{start}{number:09d}" in records:  # somebody else has just added it
        number -= 1
    return f"{start}{number:09d}"


def _shared(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many messages at the beginning are the same."""
    for index, (one, other) in enumerate(zip(before, after, strict=False)):
        if not is_same_message(one, other):
            return index
    return min(len(before), len(after))


def _number_of(key: str) -> int | None:
    """The number that harness puts before its keys, so that late repetitions are known."""
    head, colon, _ = key.partition(":")
    return int(head) if colon and head.isdecimal() else None
