"""Sessions and memories of agno as records: `AgentKernelDb`.

A session is a record, and its runs are a list (`RecordList`). So storing a run costs that run, however long the conversation is. A
record leads from a run's id to its number in the list; where a run was deleted, None is there, and the others keep their numbers. Ids
are replaced by their digests, since they may be longer than a key.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from blake3 import blake3
from pydantic import ConfigDict

from agent_kernel.errors import MissingExtraError
from agent_kernel.integrations import open_on
from agent_kernel.records.collection import Records, exactly, together
from agent_kernel.records.documents import new_id
from agent_kernel.records.lists import RecordList
from agent_kernel.records.schema import Plane, Record
from agent_kernel.session.snapshot import Repository

try:
    from agno.db.base import SessionType
    from agno.db.in_memory import InMemoryDb
    from agno.db.in_memory.utils import apply_sorting
    from agno.db.schemas.memory import UserMemory
    from agno.db.utils import (
        CustomJSONEncoder,
        deserialize_run,
        deserialize_session,
        filter_context_runs,
        get_run_type,
    )
    from agno.run.base import RunStatus
    from agno.session import AgentSession, TeamSession, WorkflowSession
    from agno.utils.string import generate_id
except ImportError as error:
    raise MissingExtraError("agno", "agno") from error

if TYPE_CHECKING:
    from agno.session import Session

__all__ = ["AgentKernelDb"]

T = TypeVar("T")

_TRACES: Final = (
    *("upsert_trace", "get_trace", "get_traces", "get_trace_stats"),
    *("create_span", "create_spans", "get_span", "get_spans", "get_span_stats"),
)

_TOGETHER: Final = 16  # runs that are read at once
_ACTIVE: Final = ("PENDING", "RUNNING", "PAUSED")  # a run that is not over
_MAY_CANCEL: Final = ("PENDING", "RUNNING")


class _Document(Record):
    model_config = ConfigDict(ser_json_inf_nan="constants")
    keeps_past = False


class _SessionRecord(_Document):
    collection = "agno sessions"
    since: str  # sorts sessions in the order in which they came
    row: dict[str, Any]  # as agno's tables have it, without the runs


class _RunPlace(Record):
    collection = "agno run places"
    keeps_past = False
    session: str
    number: int


class _MemoryRecord(_Document):
    collection = "agno memories"
    since: str
    memory: dict[str, Any]


class AgentKernelDb(InMemoryDb):
    """agno's sessions, runs and user memories in a store. Safe from several threads, coroutines and processes.

    Args:
        repo: a repository, or the path or URL of one.
        branch: whose sessions; by default those of the branch that this process works on.
        plane: of sessions and runs. "branch": while a session of this process (`ak.Versioned`, a bound notebook) is on the branch,
            they are part of its next commit, and a checkout rewinds both. "store": no checkout rewinds them.
        memory_plane: the same of user memories.
        id: agno's name of this database; by default one that the store's address gives, the same in each process.

    Raises:
        RefNotFoundError: there is no such branch. ValueError: one was named, and nothing of this database lies on branches.

    Sessions, runs and user memories are durable, and other processes see them. All else is as in `InMemoryDb`: metrics,
    evaluations, rows of knowledge contents and schema versions are in this process's memory alone and end with it; traces,
    schedules, approvals and other tables that `InMemoryDb` has not are not here either.
    """

    def __init__(
        self,
        repo: Repository | str | Path,
        *,
        branch: str | None = None,
        plane: Plane = "branch",
        memory_plane: Plane = "store",
        id: str | None = None,
    ) -> None:
        self._is_ready = False
        super().__init__()
        self._owns_repo = not isinstance(repo, Repository)
        self.repo = open_on(repo, branch, plane, memory_plane)
        self.id = id or generate_id(f"agent_kernel {self.repo.store.url}")
        self._session_records = Records(self.repo, _SessionRecord, plane=plane, branch=branch)
        self._run_numbers = Records(self.repo, _RunPlace, plane=plane, branch=branch)
        self._memory_records = Records(self.repo, _MemoryRecord, plane=memory_plane, branch=branch)
        self._where: dict[str, Any] = {"plane": plane, "branch": branch}
        self._is_ready = True

    def close(self) -> None:
        """Let go of the store, if it was opened here."""
        if self._owns_repo:
            self.repo.close()

    # -- what methods of InMemoryDb that are not replaced here (metrics, most that read memories) read

    @property
    def _sessions(self) -> dict[str, dict[str, Any]]:
        return {record.row["session_id"]: self._row_of(record) for record in self._in_order()}

    @_sessions.setter
    def _sessions(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        if self._is_ready:
            self._change(partial(self._replace_sessions, rows), "replace all sessions")

    @property
    def _memories(self) -> list[dict[str, Any]]:
        return [record.memory for record in self._memory_records.find(order="since")]

    @_memories.setter
    def _memories(self, memories: Sequence[Mapping[str, Any]]) -> None:
        if self._is_ready:
            self._change_memories(partial(self._replace_memories, memories), "replace all memories")

    def _replace_sessions(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        for record in self._session_records.find():
            self._delete(record)
        for id, row in rows.items():
            self._insert({**row, "session_id": id}, row.get("runs") or [])

    def _replace_memories(self, memories: Sequence[Mapping[str, Any]]) -> None:
        for id in [*self._memory_records]:
            self._memory_records.delete(id)
        for memory in memories:
            self._memory_records.put(_MemoryRecord(id=_key(memory["memory_id"]), since=new_id(), memory=_plain(memory)))

    # -- sessions

    def get_session(
        self,
        session_id: str,
        session_type: SessionType | None = None,
        user_id: str | None = None,
        deserialize: bool | None = True,
        runs_limit: int | None = None,
    ) -> Any:
        """A session with its runs, or None where it does not exist or is another user's.

        Args:
            session_type: the class that it becomes; by default the one that it was.
            deserialize: False: as a dict.
            runs_limit: only so many of the last runs that belong to the conversation. No others are read.
        """
        record = self._record(session_id, user_id)
        if record is None:
            return None
        return _deserialized(self._row_of(record, runs_limit), session_type, deserialize)

    def get_sessions(
        self,
        session_type: SessionType | None = None,
        user_id: str | None = None,
        component_id: str | None = None,
        session_name: str | None = None,
        start_timestamp: int | None = None,
        end_timestamp: int | None = None,
        limit: int | None = None,
        page: int | None = None,
        sort_by: str | None = None,
        sort_order: str | None = None,
        deserialize: bool | None = True,
        include_runs: bool = True,
    ) -> Any:
        """Sessions, by default in the order in which they came; with `deserialize=False` as dicts, and how many there are in all.

        Args:
            component_id: of this agent, team or workflow.
            session_name: what the name has in it, in upper or lower case.
            start_timestamp: made then or later, in seconds since 1970.
            end_timestamp: made then or before.
            page: the first one is 1; each has `limit` sessions.
            include_runs: False: no runs are read.
        """
        kind = None if session_type is None else SessionType(session_type).value

        def is_wanted(record: _SessionRecord) -> bool:
            row = record.row
            made = row.get("created_at") or 0
            name = (row.get("session_data") or {}).get("session_name") or ""
            return (
                user_id in (None, row.get("user_id"))
                and kind in (None, row.get("session_type"))
                and (component_id is None or component_id in _components(row, kind))
                and (session_name is None or session_name.lower() in name.lower())
                and (start_timestamp is None or made >= start_timestamp)
                and (end_timestamp is None or made <= end_timestamp)
            )

        records = {record.row["session_id"]: record for record in self._in_order(is_wanted)}
        rows = apply_sorting([record.row for record in records.values()], sort_by, sort_order)
        wanted = _page(rows, limit, page)
        for row in wanted:
            row["runs"] = self._runs_of(records[row["session_id"]]) if include_runs else None
        if not deserialize:
            return wanted, len(rows)
        return [deserialize_session(session_type, row) for row in wanted]

    def upsert_session(self, session: Session, deserialize: bool | None = True) -> Any:
        """Store a session. Returns it, or None where it is another user's.

        Its runs are stored with it only where it is new: `upsert_run` stores the others.

        Raises:
            TypeError: something in it has no form in JSON. Nothing was stored.
        """
        found = self._upsert([session], f"session {session.session_id}")
        return _stored(*found[0], deserialize) if found else None

    def upsert_sessions(
        self, sessions: list[Session], deserialize: bool | None = True, preserve_updated_at: bool = False
    ) -> list[Any]:
        """Store several sessions, all or none. Returns them, but for those of other users.

        Args:
            preserve_updated_at: keep what they say of when they were changed.
        """
        present = [session for session in sessions if session is not None]
        found = self._upsert(present, f"{len(present)} sessions", preserve_updated_at) if present else []
        return [_stored(row, session, deserialize) for row, session in found]

    def _upsert(
        self, sessions: Sequence[Session], what: str, keeps_time: bool = False
    ) -> list[tuple[dict[str, Any], Session]]:
        rows = [(_plain(_typed(session)), session) for session in sessions]

        def store() -> list[tuple[dict[str, Any], Session]]:
            done = ((self._upsert_row(row, session, keeps_time), session) for row, session in rows)
            return [(row, session) for row, session in done if row is not None]

        return self._change(store, what)

    def _upsert_row(self, original: dict[str, Any], session: Session, keeps_time: bool) -> dict[str, Any] | None:
        row = dict(original)
        updated = row.get("updated_at") if keeps_time else None
        record = self._record(row["session_id"])
        if record is None:
            row["created_at"] = row.get("created_at") or int(time.time())
            row["updated_at"] = updated or row["created_at"]
            self._insert(row, session.runs or [])
            return row
        if record.row.get("user_id") not in (None, row.get("user_id")):
            return None
        row["created_at"] = record.row.get("created_at") or row.get("created_at")
        row["updated_at"] = updated or int(time.time())
        self._session_records.put(record.model_copy(update={"row": row}))
        return row

    def _insert(self, row: Mapping[str, Any], runs: Iterable[Any]) -> None:
        plain = _plain({name: value for name, value in row.items() if name != "runs"})
        record = _SessionRecord(id=_key(plain["session_id"]), since=new_id(), row=plain)
        for run in runs:
            document = _as_dict(run)
            if document.get("run_id") is not None:
                self._put_run(record, document)
        self._session_records.put(record)

    def rename_session(
        self,
        session_id: str,
        session_type: SessionType | None,
        session_name: str,
        user_id: str | None = None,
        deserialize: bool | None = True,
    ) -> Any:
        """Give a session a name. Returns it, or None where it does not exist, is of another type or another user's."""

        def rename() -> _SessionRecord | None:
            record = self._record(session_id, user_id)
            if record is None or (session_type is not None and record.row.get("session_type") != session_type.value):
                return None
            record.row["session_data"] = {**(record.row.get("session_data") or {}), "session_name": session_name}
            return self._session_records.put(record)

        record = self._change(rename, f"rename session {session_id}")
        return None if record is None else _deserialized(self._row_of(record), session_type, deserialize)

    def delete_session(self, session_id: str, user_id: str | None = None) -> bool:
        """Delete a session and its runs; whether it was there and this user's."""

        def delete() -> bool:
            record = self._record(session_id, user_id)
            if record is not None:
                self._delete(record)
            return record is not None

        return self._change(delete, f"delete session {session_id}")

    def delete_sessions(self, session_ids: list[str], user_id: str | None = None) -> None:
        """Delete the sessions of these that are there and this user's, with their runs."""

        def delete() -> None:
            for id in session_ids:
                self.delete_session(id, user_id)

        self._change(delete, f"delete {len(session_ids)} sessions")

    def reassign_session_owner(self, session_id: str, *, previous_user_id: str, user_id: str | None) -> bool:
        """Give a session to another user, if it is still the previous one's and no run of it goes on; whether it was done."""

        def reassign() -> bool:
            record = self._record(session_id)
            if record is None or record.row.get("user_id") != previous_user_id:
                return False
            if any(run.get("status") in _ACTIVE for run in self._runs_of(record)):
                return False
            record.row["user_id"] = user_id
            self._session_records.put(record)
            return True

        return self._change(reassign, f"new owner of session {session_id}")

    def _record(self, session_id: str, user_id: str | None = None) -> _SessionRecord | None:
        found: _SessionRecord | None = self._session_records.get(_key(session_id))
        return None if found is None or user_id not in (None, found.row.get("user_id")) else found

    def _in_order(self, is_wanted: Callable[[_SessionRecord], bool] | None = None) -> list[_SessionRecord]:
        return self._session_records.find(where=is_wanted, order="since")

    def _row_of(self, record: _SessionRecord, runs_limit: int | None = None) -> dict[str, Any]:
        """A session as a dict, with its runs."""
        if runs_limit is None:
            return {**record.row, "runs": self._runs_of(record)}
        newest = [*itertools.islice(self._context_runs(record), max(runs_limit, 0))]
        return {**record.row, "runs": newest[::-1]}

    def _delete(self, record: _SessionRecord) -> None:
        for run in self._runs_of(record):
            self._run_numbers.delete(_run_id(run["run_id"], record.id))
        self._list(record.id).clear()
        self._session_records.delete(record.id)

    # -- runs

    def get_run(self, run_id: str, deserialize: bool | None = True) -> Any:
        """A run, of whatever session, or None."""
        for entry in self._numbers_of(run_id):
            run = self._list(entry.session)[entry.number]
            return deserialize_run(get_run_type(run), run) if deserialize else run
        return None

    def get_runs(
        self,
        session_id: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        team_id: str | None = None,
        workflow_id: str | None = None,
        status: Any = None,
        limit: int | None = None,
        page: int | None = None,
        sort_by: str | None = None,
        sort_order: str | None = None,
        deserialize: bool | None = True,
    ) -> Any:
        """Runs, by default by their place in their sessions; with `deserialize=False` as dicts, and how many there are in all."""
        wanted = {"agent_id": agent_id, "team_id": team_id, "workflow_id": workflow_id}
        wanted["status"] = status.value if isinstance(status, RunStatus) else status
        records = self._in_order() if session_id is None else [self._record(session_id)]
        runs = [
            run
            for record in records
            if record is not None and user_id in (None, record.row.get("user_id"))
            for run in self._runs_of(record)
            if all(value in (None, run.get(name)) for name, value in wanted.items())
        ]
        if sort_by is None:
            runs.sort(key=lambda run: (run.get("run_index") or 0, run.get("created_at") or 0))
        else:
            runs = apply_sorting(runs, sort_by, sort_order)
        selected = _page(runs, limit, page)
        return [deserialize_run(get_run_type(run), run) for run in selected] if deserialize else (selected, len(runs))

    def upsert_run(self, run: Any, session_id: str, user_id: str | None = None, run_index: int | None = None) -> None:
        """Store a run of a session. Where the session does not exist, nothing is stored.

        Args:
            run_index: its place in the session, where the run does not say it; by default after all others. A run that is there keeps
                its place.

        Raises:
            ValueError: the run has no id. TypeError: something in it has no form in JSON. Nothing was stored.
        """
        document = _as_dict(run)
        if document.get("run_id") is None:
            raise ValueError("Run must have a run_id")
        if run_index is not None and document.get("run_index") is None:
            document["run_index"] = run_index

        def store() -> None:
            record = self._record(session_id)
            if record is not None:
                self._put_run(record, document)
                self._touch(record)

        self._change(store, f"run of session {session_id}")

    def _put_run(self, record: _SessionRecord, run: dict[str, Any]) -> None:
        id, runs = _run_id(run["run_id"], record.id), self._list(record.id)
        entry: _RunPlace | None = self._run_numbers.get(id)
        if entry is None:
            number = len(runs)
            self._run_numbers.put(_RunPlace(id=id, session=record.id, number=number))
            runs.append(run if run.get("run_index") is not None else {**run, "run_index": number})
        else:
            before = runs[entry.number]
            self._replace_run(entry, {**run, "run_index": before.get("run_index", entry.number)})

    def _replace_run(self, entry: _RunPlace, run: dict[str, Any]) -> None:
        runs = self._list(entry.session)
        runs.replace_tail(entry.number, [run, *runs[entry.number + 1 :]])

    def delete_run(self, run_id: str) -> bool:
        """Delete a run, of whatever session; whether it was there.

        agno makes ids of runs that no two have, and names no session here: runs of several sessions that share an id go together.
        """
        return self._change(partial(self._delete_runs, [run_id]), f"delete run {run_id}")

    def delete_runs(self, run_ids: list[str]) -> None:
        """Delete the runs of these that are there."""
        self._change(partial(self._delete_runs, run_ids), f"delete {len(run_ids)} runs")

    def _delete_runs(self, run_ids: Iterable[str]) -> bool:
        deleted: dict[str, set[int]] = {}
        for entry in itertools.chain.from_iterable(map(self._numbers_of, run_ids)):
            self._run_numbers.delete(entry.id)
            deleted.setdefault(entry.session, set()).add(entry.number)
        for session, numbers in deleted.items():
            runs, first = self._list(session), min(numbers)
            remaining = [None if number in numbers else run for number, run in enumerate(runs[first:], first)]
            while remaining and remaining[-1] is None:
                remaining.pop()
            runs.replace_tail(first, remaining)
            self._touch(self._session_records[session])
        return bool(deleted)

    def cancel_pending_run(
        self,
        run_id: str,
        *,
        session_id: str,
        reason: str,
        user_id: str | None = None,
        expected_status: str = "PENDING",
    ) -> bool:
        """Cancel a run that still has the status that was seen, and is this user's or nobody's; whether it was done.

        Raises:
            ValueError: the status is neither PENDING nor RUNNING.
        """
        if expected_status not in _MAY_CANCEL:
            raise ValueError(f"the status is {' or '.join(_MAY_CANCEL)}, not {expected_status!r}")

        def cancel() -> bool:
            record = self._record(session_id)
            entry = None if record is None else self._run_numbers.get(_run_id(run_id, record.id))
            if record is None or entry is None or record.row.get("user_id") not in (None, user_id):
                return False
            run = self._list(entry.session)[entry.number]
            if run.get("status") != expected_status:
                return False
            self._replace_run(entry, {**run, "status": "CANCELLED", "content": run.get("content") or reason})
            return True

        return self._change(cancel, f"cancel run {run_id}")

    def _numbers_of(self, run_id: str) -> list[_RunPlace]:
        return self._run_numbers.find(exactly(_key(run_id)) + ".*")

    def _list(self, session: str) -> RecordList:
        """The runs of a session, by the id of its record."""
        return RecordList(self.repo, f"agno {session}", commit_each=False, **self._where)

    def _runs_of(self, record: _SessionRecord) -> list[dict[str, Any]]:
        return [run for run in self._list(record.id).items() if run is not None]

    def _context_runs(self, record: _SessionRecord) -> Iterator[dict[str, Any]]:
        """The runs that belong to the conversation, the newest first, read as they are asked for."""
        runs = self._list(record.id)
        for stop in range(len(runs), 0, -_TOGETHER):
            yield from reversed(filter_context_runs(runs[max(stop - _TOGETHER, 0) : stop]))

    def _touch(self, record: _SessionRecord) -> None:
        """Say that the session was changed now. Within a second it is said once."""
        now = int(time.time())
        if record.row.get("updated_at") != now:
            self._session_records.put(record.model_copy(update={"row": {**record.row, "updated_at": now}}))

    # -- memories

    def get_user_memory(self, memory_id: str, deserialize: bool | None = True, user_id: str | None = None) -> Any:
        """A memory, or None where it does not exist or is another user's."""
        found: _MemoryRecord | None = self._memory_records.get(_key(memory_id))
        if found is None or user_id not in (None, found.memory.get("user_id")):
            return None
        return UserMemory.from_dict(found.memory) if deserialize else found.memory

    def upsert_user_memory(self, memory: UserMemory, deserialize: bool | None = True) -> Any:
        """Store a memory, with a new id where it has none. Returns it as it is stored.

        One that is there keeps its owner and the time when it was made, whoever stores it.
        """
        return self.upsert_memories([memory], deserialize)[0]

    def upsert_memories(
        self, memories: list[UserMemory], deserialize: bool | None = True, preserve_updated_at: bool = False
    ) -> list[Any]:
        """Store several memories, all or none. Returns them as they are stored.

        Args:
            preserve_updated_at: keep what they say of when they were changed.
        """
        documents: list[dict[str, Any]] = []
        for memory in memories:
            if memory is not None:
                memory.memory_id = memory.memory_id or str(uuid4())
                updated = memory.updated_at if preserve_updated_at else None
                documents.append({**_plain(memory.to_dict()), "updated_at": updated or int(time.time())})

        def store() -> list[dict[str, Any]]:
            stored: list[dict[str, Any]] = []
            for document in documents:
                id = _key(document["memory_id"])
                current: _MemoryRecord | None = self._memory_records.get(id)
                preserved = (
                    {} if current is None else {name: current.memory.get(name) for name in ("user_id", "created_at")}
                )
                memory = {**document, **{name: value for name, value in preserved.items() if value is not None}}
                since = new_id() if current is None else current.since
                self._memory_records.put(_MemoryRecord(id=id, since=since, memory=memory))
                stored.append(memory)
            return stored

        found = self._change_memories(store, f"{len(documents)} memories") if documents else []
        return [UserMemory.from_dict(one) if deserialize else one for one in found]

    def delete_user_memory(self, memory_id: str, user_id: str | None = None) -> None:
        """Delete a memory, if it is this user's."""
        self.delete_user_memories([memory_id], user_id)

    def delete_user_memories(self, memory_ids: list[str], user_id: str | None = None) -> None:
        """Delete the memories of these that are this user's."""

        def delete() -> None:
            for id in memory_ids:
                if self.get_user_memory(id, deserialize=False, user_id=user_id) is not None:
                    self._memory_records.delete(_key(id))

        self._change_memories(delete, f"delete {len(memory_ids)} memories")

    def clear_memories(self) -> None:
        """Delete the memories of all users."""
        self._memories = []

    # -- changing

    def _change(self, change: Callable[[], T], what: str) -> T:
        return together(self._session_records, change, f"agno: {what}", may_lie_beside=True)

    def _change_memories(self, change: Callable[[], T], what: str) -> T:
        return together(self._memory_records, change, f"agno: {what}", may_lie_beside=True)


_TYPES: Final = (
    (AgentSession, SessionType.AGENT),
    (TeamSession, SessionType.TEAM),
    (WorkflowSession, SessionType.WORKFLOW),
)


def _without_traces(name: str) -> Callable[..., Any]:
    def refuse(*args: object, **kwargs: object) -> Any:
        raise NotImplementedError(f"AgentKernelDb keeps no traces: give agno a database of its own for them ({name})")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Raises: NotImplementedError: traces are not kept here."
    return refuse


for _name in _TRACES:
    setattr(AgentKernelDb, _name, _without_traces(_name))


def _typed(session: Session) -> dict[str, Any]:
    """A session as a dict, with its type and without its runs."""
    row = session.to_dict(include_runs=False)
    return row | next(({"session_type": kind.value} for model, kind in _TYPES if isinstance(session, model)), {})


def _deserialized(row: dict[str, Any], session_type: SessionType | None, deserialize: bool | None) -> Any:
    return deserialize_session(session_type, row) if deserialize else row


def _stored(row: dict[str, Any], session: Session, deserialize: bool | None) -> Any:
    """What agno gets back of a session that it stored: the row, with the runs that it has itself."""
    if not deserialize:
        return {**row, "runs": [_as_dict(run) for run in session.runs or []]}
    found = deserialize_session(None, _plain(row))
    found.runs = session.runs
    return found


def _components(row: Mapping[str, Any], kind: str | None) -> list[Any]:
    """The ids of the agent, team and workflow of a session, or of the one of a type."""
    names = [one.value for _, one in _TYPES] if kind is None else [kind]
    return [row.get(f"{name}_id") for name in names]


def _page(found: list[T], limit: int | None, page: int | None) -> list[T]:
    if limit is None:
        return found
    start = 0 if page is None else (page - 1) * limit
    return found[start : start + limit]


def _as_dict(run: Any) -> dict[str, Any]:
    return _plain(run if isinstance(run, dict) else run.to_dict())


def _plain(value: Any) -> Any:
    """A value as JSON holds it, in the form that agno's other databases give it, and none of it shared with the caller."""
    text = json.dumps(value, cls=CustomJSONEncoder)
    plain = json.loads(text)
    if "\\ud" in text and not _is_text(plain):  # half a character, which UTF-8 cannot hold
        return json.loads(json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace"))
    return plain


def _is_text(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _key(name: str) -> str:
    return blake3(str(name).encode("utf-8", "surrogatepass")).hexdigest(12)


def _run_id(run_id: str, session: str) -> str:
    return f"{_key(run_id)}.{session}"
