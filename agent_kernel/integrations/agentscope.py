"""AgentScope's storage as records: `AgentKernelStorage`, for all that its service keeps.

Each kind of AgentScope's records is a kind of records here, named by its user and its id. All methods follow a few rules: put, get,
find, edit and delete a record; only messages, which have an order, have rules of their own. What goes away with a record that is
deleted stands in one place, `_dependents`.

What belongs to a line of history lies on the branch, and a checkout takes it along with the variables: agents, sessions with
their `AgentState`, messages, teams, procedures (SOPs) and their runs. What a checkout must not rewind lies beside all branches:
schedules, knowledge bases with their documents and leases, and what holds secrets, which no commit may keep for ever.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar, cast

from blake3 import blake3
from pydantic import BaseModel, ConfigDict, JsonValue, SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from agent_kernel.errors import MissingExtraError, RecordNotFoundError
from agent_kernel.integrations import open_on
from agent_kernel.records.collection import Records, exactly, together
from agent_kernel.records.documents import keep_infinite
from agent_kernel.records.lists import RecordList, place_of
from agent_kernel.records.schema import Plane, Record
from agent_kernel.session.snapshot import Repository

try:
    from agentscope.app.storage import (
        AgentRecord,
        ChannelRecord,
        CredentialRecord,
        KnowledgeBaseRecord,
        KnowledgeDocumentRecord,
        MCPRecord,
        ScheduleRecord,
        SessionRecord,
        SkillRecord,
        SOPRecord,
        SOPRunRecord,
        StorageBase,
        TeamRecord,
    )
    from agentscope.message import Msg
    from agentscope.state import AgentState
except ImportError as error:
    raise MissingExtraError("agentscope", "agentscope") from error

if TYPE_CHECKING:
    from agentscope.app.storage import KnowledgeDocumentStatus, SessionConfig, SessionOrigin
    from agentscope.credential import CredentialBase
    from agentscope.sop import SOPPhase, SOPRunState

    from agent_kernel.records.documents import Seal

__all__ = ["AgentKernelStorage"]

T = TypeVar("T")
_Names: TypeAlias = tuple[str, ...]  # a record's: the user and the id, mostly
_Json: TypeAlias = dict[str, Any]
_RecordKey: TypeAlias = tuple[str, _Names]  # a collection, and a record's names in it

_MOST_NAME: Final = 100  # bytes of a name in a key
_LAST: Final = 10**12 - 1
_TOGETHER: Final = 100  # items of a list that are read together
_TERMINAL: Final = ("ready", "error")


class _Row(Record):
    """A record of AgentScope under a key of ours, as its JSON: a filter need not build what it leaves out."""

    model_config = ConfigDict(ser_json_inf_nan="constants")
    keeps_past = False  # beside the branches; on a branch the commits keep it
    model: ClassVar[type[BaseModel]]
    document: dict[str, Any]
    name: str = ""  # unique among those of its user

    @property
    def record(self) -> Any:
        return self.model.model_validate(self.document)


class _Agent(_Row):
    collection = "agentscope agent"
    model = AgentRecord


class _Session(_Row):
    collection = "agentscope session"
    model = SessionRecord


class _Team(_Row):
    collection = "agentscope team"
    model = TeamRecord


class _SOP(_Row):
    collection = "agentscope sop"
    model = SOPRecord


class _SOPRun(_Row):
    collection = "agentscope sop run"
    model = SOPRunRecord


class _Schedule(_Row):
    collection = "agentscope schedule"
    model = ScheduleRecord


class _Channel(_Row):
    collection = "agentscope channel"
    model = ChannelRecord


class _Credential(_Row):
    collection = "agentscope credential"
    model = CredentialRecord


class _MCP(_Row):
    collection = "agentscope mcp"
    model = MCPRecord


class _Skill(_Row):
    collection = "agentscope skill"
    model = SkillRecord


class _KnowledgeBase(_Row):
    collection = "agentscope knowledge base"
    model = KnowledgeBaseRecord


class _Document(_Row):
    collection = "agentscope document"
    model = KnowledgeDocumentRecord


class _Message(Record):
    """A message of a session, as earlier releases stored it. Its id ends with its number, turned around: the newest comes first."""

    collection = "agentscope message"
    keeps_past = False
    message: JsonValue


class _Number(Record):
    """Under a message's id its number; under a session's names the largest one."""

    collection = "agentscope message number"
    keeps_past = False
    number: int


class _Talk(NamedTuple):
    """The messages of a session, and their ids in the same order: who looks for an id reads no message. None: it was deleted.

    Ids lie in a list, too: a record for each, in the order of ids that chance made, would take more than the messages.
    """

    ids: RecordList
    messages: RecordList

    def find(self, id: str) -> int | None:
        ids = self.ids.items()
        return ids.index(id) if id in ids else None


class _NumberedTalk(NamedTuple):
    """The same as earlier releases stored it."""

    ids: list[Any]
    messages: list[Any]

    def find(self, id: str) -> int | None:
        return self.ids.index(id) if id in self.ids else None


class AgentKernelStorage(StorageBase):
    """What AgentScope's service stores, in a repository. Safe from several coroutines, threads and processes.

    Args:
        repo: a repository, or the path or URL of one.
        branch: where conversations lie; by default on the branch that this process works on.
        plane: `branch` (the default): agents, sessions, messages, teams and procedures are part of commits, and a checkout
            rewinds them; `store`: they lie beside all branches as the rest does, for a service without notebooks.
        secret: encrypts credentials, MCPs and channels, which hold secrets.

    The methods are those of `StorageBase`. A record's id is its user's own: users that choose equal ids have two records.
    `repo.transaction()` around several calls stores them as one.

    Raises of all methods:
        InvalidRecordError: JSON in UTF-8 cannot hold the record. Nothing was stored.

    Source: the contract of AgentScope 2.0.11 (`agentscope.app.storage.StorageBase`).
    """

    def __init__(
        self,
        repo: Repository | str | Path,
        *,
        branch: str | None = None,
        plane: Plane = "branch",
        secret: bytes | str | Seal | None = None,
    ) -> None:
        self._owns_repo = not isinstance(repo, Repository)
        self.repo = open_on(repo, branch, plane)
        self._kinds: dict[str, Records[Any]] = {}
        self._where: dict[str, Any] = {"plane": plane, "branch": branch, "commit_each": False}

        def kind(model: type[T], plane: Plane, secret: bytes | str | Seal | None = None) -> Records[Any]:
            records = Records(self.repo, cast("type[Any]", model), plane=plane, branch=branch, secret=secret)
            return self._kinds.setdefault(records.schema.collection, records)

        self._agents = kind(_Agent, plane)
        self._sessions = kind(_Session, plane)
        self._messages = kind(_Message, plane)
        self._numbers = kind(_Number, plane)
        self._teams = kind(_Team, plane)
        self._sops = kind(_SOP, plane)
        self._sop_runs = kind(_SOPRun, plane)
        self._schedules = kind(_Schedule, "store")
        self._channels = kind(_Channel, "store", secret)
        self._credentials = kind(_Credential, "store", secret)
        self._mcps = kind(_MCP, "store", secret)
        self._skills = kind(_Skill, "store")
        self._knowledge_bases = kind(_KnowledgeBase, "store")
        self._documents = kind(_Document, "store")

    async def aclose(self) -> None:
        """Let go of the store, if it was opened here."""
        if self._owns_repo:
            await asyncio.to_thread(self.repo.close)

    # -- the rules

    def _rows(self, kind: Records[Any], names: _Names = ()) -> list[Any]:
        """The rows whose names begin so."""
        return kind.find(exactly(_key(*names, "")) + "*" if names else "*")

    def _get(self, kind: Records[Any], *names: str) -> Any:
        row = kind.get(_key(*names))
        return None if row is None else row.record

    def _find(
        self,
        kind: Records[Any],
        *names: str,
        where: Callable[[_Json], bool] = lambda document: True,
        newest_first: bool = False,
    ) -> list[Any]:
        """The records whose names begin so and whose JSON is wanted, by the time when they were made."""
        found = [row.record for row in self._rows(kind, names) if where(row.document)]
        return sorted(found, key=lambda record: record.created_at.timestamp(), reverse=newest_first)

    def _find_named(self, kind: Records[Any], names: _Names, name: str) -> Any:
        return next((row.record for row in self._rows(kind, names) if row.name == name), None)

    def _put(self, kind: Records[Any], names: _Names, document: _Json, name: str = "") -> Any:
        """Store a record, new or in the place of the one with its names, and return it with its times.

        Raises:
            ValueError: another one of the user has this `name`.
        """

        def act() -> Any:
            current = kind.get(_key(*names))
            if name:
                holder = self._find_named(kind, names[:-1], name)
                if holder is not None and holder.id != names[-1]:
                    raise ValueError(
                        f"the {kind.schema.collection} {holder.id!r} has the name {name!r}: choose another"
                    )
            made = (document if current is None else current.document)["created_at"]
            times = {"created_at": made, "updated_at": datetime.now().isoformat()}
            return kind.put(kind.make(id=_key(*names), document=document | times, name=name)).record

        return self._change(kind, act, "put", names)

    def _set(self, kind: Records[Any], names: _Names, change: Callable[[_Json], _Json | None]) -> bool:
        """Set what `change` returns for the JSON of a record that is there. Returns whether it is there and `change` returned some."""

        def act() -> bool:
            row = kind.get(_key(*names))
            new = None if row is None else change(row.document)
            if row is None or new is None:
                return False
            row.document |= {**new, "updated_at": datetime.now().isoformat()}
            kind.put(row)
            return True

        return self._change(kind, act, "update", names)

    def _change(self, kind: Records[Any], act: Callable[[], T], action: str, names: _Names) -> T:
        message = f"{kind.schema.collection}: {action} {names[-1]}"
        # A session's state is long, and shares what stays with its last version in a commit alone.
        return together(kind, act, message, may_lie_beside=kind is self._messages)

    # -- deleting

    def _delete(self, kind: Records[Any], *names: str) -> bool:
        """Delete a record and what goes with it. Returns whether it was there.

        Records of one plane go together. Where some lie on the other plane, those go first: a call that was cut off can be repeated.
        """
        root = (kind.schema.collection, names)
        doomed = self._closure(root)
        planes: dict[Plane, Records[Any]] = {
            self._kinds[collection].schema.plane: self._kinds[collection] for collection, _ in doomed
        }
        planes.pop(kind.schema.plane, None)
        planes[kind.schema.plane] = kind
        return [
            self._change(one, partial(self._delete_on, plane, root, doomed), "delete", names)
            for plane, one in planes.items()
        ][-1]

    def _delete_on(self, plane: Plane, root: _RecordKey, doomed: dict[_RecordKey, None]) -> bool:
        existed = False
        for key in doomed | self._closure(root):
            collection, names = key
            kind = self._kinds[collection]
            if kind.schema.plane == plane:
                record = self._get(kind, *names)
                is_deleted = kind.delete(_key(*names))
                existed |= is_deleted and key == root
                if record is not None:
                    self._forget(record, names)
        return existed

    def _closure(self, root: _RecordKey) -> dict[_RecordKey, None]:
        """The record and all that goes with it. What is not there has nothing, but for the sessions and schedules of an agent."""
        found: dict[_RecordKey, None] = {}
        waiting = [root]
        while waiting:
            key = waiting.pop()
            if key in found:
                continue
            collection, names = key
            record = self._get(self._kinds[collection], *names)
            if record is not None:
                dependents = self._dependents(record, names)
            elif collection == self._agents.schema.collection:  # sessions need no agent that is stored
                dependents = self._of_agent(names)
            else:
                continue
            found[key] = None
            waiting.extend((kind.schema.collection, others) for kind, others in dependents)
        return found

    def _dependents(self, record: Any, names: _Names) -> Iterator[tuple[Records[Any], _Names]]:
        """What goes away with a record."""
        user = names[0]
        if isinstance(record, AgentRecord):
            yield from self._of_agent(names)
        elif isinstance(record, ScheduleRecord):
            for session in self._find(
                self._sessions, user, where=partial(_began_with, field="schedule_id", id=names[-1])
            ):
                yield self._sessions, (user, session.id)
        elif isinstance(record, SessionRecord) and record.team_id:
            team = self._get(self._teams, user, record.team_id)
            if team is not None and team.session_id == names[-1]:
                yield self._teams, (user, record.team_id)
        elif isinstance(record, TeamRecord):
            for member in record.data.members:
                if member.role == "created":
                    yield self._agents, (member.owner_id, member.agent_id)
                else:
                    yield self._sessions, (user, member.session_id)
            for agent in [] if record.data.members else _old_members(record):
                yield self._agents, (user, agent)
        elif isinstance(record, KnowledgeBaseRecord):
            for document in self._find(self._documents, *names):
                yield self._documents, (*names, document.id)
        elif isinstance(record, SOPRecord):
            for run in self._find(self._sop_runs, user, where=lambda one: one["sop_id"] == names[-1]):
                yield self._sop_runs, (user, run.id)
        elif isinstance(record, SOPRunRecord):
            for session in record.sessions.values():
                yield self._sessions, (user, session)

    def _of_agent(self, names: _Names) -> Iterator[tuple[Records[Any], _Names]]:
        user = names[0]
        for kind in (self._sessions, self._schedules):
            for record in self._find(kind, user, where=lambda one: one["agent_id"] == names[-1]):
                yield kind, (user, record.id)

    def _forget(self, record: Any, names: _Names) -> None:
        """Remove what is left of a deleted record in others: messages, a place in teams, a team's leader."""
        user = names[0]
        if isinstance(record, SessionRecord):
            self._delete_messages(user, names[-1])
        elif isinstance(record, TeamRecord):
            self._set(self._sessions, (user, record.session_id), partial(_set_team, team_id=None))
        elif isinstance(record, AgentRecord):
            for team in self._find(self._teams, user):
                self._set(self._teams, (user, team.id), partial(_remove_member, agent_id=names[-1]))

    # -- the rules for coroutines: the same in a thread

    async def _upsert(self, kind: Records[Any], user_id: str, record: BaseModel, name: str = "") -> Any:
        document = _json(record) | {"user_id": user_id}
        return await asyncio.to_thread(self._put, kind, (user_id, document["id"]), document, name)

    async def _fetch(self, kind: Records[Any], *names: str) -> Any:
        return await asyncio.to_thread(self._get, kind, *names)

    async def _list(self, kind: Records[Any], *names: str, **how: Any) -> list[Any]:
        return await asyncio.to_thread(partial(self._find, kind, *names, **how))

    async def _modify(self, kind: Records[Any], names: _Names, change: Callable[[_Json], _Json | None]) -> bool:
        return await asyncio.to_thread(self._set, kind, names, change)

    async def _remove(self, kind: Records[Any], *names: str) -> bool:
        return await asyncio.to_thread(self._delete, kind, *names)

    # -- credentials

    async def upsert_credential(self, user_id: str, credential_data: CredentialBase) -> str:
        data = to_jsonable_python(_unmasked(credential_data.model_dump()))

        def act() -> str:
            named = data | {"name": data.get("name") or self._free_name(user_id, data)}
            record = CredentialRecord(**({"id": data["id"]} if data.get("id") else {}), user_id=user_id, data=named)
            return cast("str", self._put(self._credentials, (user_id, record.id), _json(record)).id)

        return await asyncio.to_thread(together, self._credentials, act)

    def _free_name(self, user_id: str, data: dict[str, Any]) -> str:
        """A name for a credential after its type, with a number where the user has others."""
        kind = data.get("type") or ""
        stem = kind.removesuffix("_credential").replace("_", " ").title() or "Credential"
        others = self._find(self._credentials, user_id, where=lambda one: one["data"].get("type") == kind)
        taken = {one.data.get("name") for one in others if one.id != data.get("id")}
        numbered = (f"{stem} ({number})" for number in range(2, len(taken) + 3))
        return next(name for name in (stem, *numbered) if name not in taken)

    async def list_credentials(self, user_id: str) -> list[CredentialRecord]:
        return await self._list(self._credentials, user_id)

    async def get_credential(self, user_id: str, credential_id: str) -> CredentialRecord | None:
        return await self._fetch(self._credentials, user_id, credential_id)

    async def delete_credential(self, user_id: str, credential_id: str) -> bool:
        return await self._remove(self._credentials, user_id, credential_id)

    # -- MCPs and skills: their names are unique among a user's

    async def upsert_mcp(self, user_id: str, mcp_record: MCPRecord) -> str:
        return (await self._upsert(self._mcps, user_id, mcp_record, mcp_record.name)).id

    async def list_mcps(self, user_id: str) -> list[MCPRecord]:
        return await self._list(self._mcps, user_id)

    async def get_mcp(self, user_id: str, mcp_id: str) -> MCPRecord | None:
        return await self._fetch(self._mcps, user_id, mcp_id)

    async def get_mcp_by_name(self, user_id: str, name: str) -> MCPRecord | None:
        return await asyncio.to_thread(self._find_named, self._mcps, (user_id,), name)

    async def delete_mcp(self, user_id: str, mcp_id: str) -> bool:
        return await self._remove(self._mcps, user_id, mcp_id)

    async def upsert_skill(self, user_id: str, skill_record: SkillRecord) -> str:
        return (await self._upsert(self._skills, user_id, skill_record, skill_record.name)).id

    async def list_skills(self, user_id: str) -> list[SkillRecord]:
        return await self._list(self._skills, user_id)

    async def get_skill(self, user_id: str, skill_id: str) -> SkillRecord | None:
        return await self._fetch(self._skills, user_id, skill_id)

    async def get_skill_by_name(self, user_id: str, name: str) -> SkillRecord | None:
        return await asyncio.to_thread(self._find_named, self._skills, (user_id,), name)

    async def delete_skill(self, user_id: str, skill_id: str) -> bool:
        return await self._remove(self._skills, user_id, skill_id)

    # -- agents

    async def upsert_agent(self, user_id: str, agent_record: AgentRecord) -> str:
        return (await self._upsert(self._agents, user_id, agent_record)).id

    async def list_agents(self, user_id: str) -> list[AgentRecord]:
        """The agents that the user made. Those that a team made are found by their ids alone."""
        return await self._list(self._agents, user_id, where=lambda agent: agent["source"] == "user")

    async def get_agent(self, user_id: str, agent_id: str) -> AgentRecord | None:
        return await self._fetch(self._agents, user_id, agent_id)

    async def delete_agent(self, user_id: str, agent_id: str) -> bool:
        """Delete an agent with its sessions, its schedules and the teams that it leads, and take it out of other teams."""
        return await self._remove(self._agents, user_id, agent_id)

    # -- sessions

    async def upsert_session(
        self,
        user_id: str,
        agent_id: str,
        config: SessionConfig,
        state: AgentState | None = None,
        session_id: str | None = None,
        origin: SessionOrigin | None = None,
        source: str | None = None,
        source_schedule_id: str | None = None,
        source_chat_id: str | None = None,
        source_chat_name: str | None = None,
        source_channel_id: str | None = None,
    ) -> SessionRecord:
        """Begin a session, or set the config of one (and its state, if it is given). Where it came from stays as it was."""
        flat = {
            "source": source,
            "source_schedule_id": source_schedule_id,
            "source_chat_id": source_chat_id,
            "source_chat_name": source_chat_name,
            "source_channel_id": source_channel_id,
        }
        if origin is None and any(flat.values()):
            warnings.warn(
                "pass `origin` to upsert_session: its `source` arguments are deprecated", DeprecationWarning, 2
            )
        updates: _Json = {"config": _json(config)} | ({} if state is None else {"state": _json(state)})
        came_from = {name: value for name, value in flat.items() if value} if origin is None else {"origin": origin}
        own_id = {"id": session_id} if session_id else {}
        new: _Json = (
            _json(SessionRecord(user_id=user_id, agent_id=agent_id, config=config, **own_id, **came_from)) | updates
        )

        def act() -> SessionRecord:
            current = self._sessions.get(_key(user_id, new["id"])) if session_id else None
            return self._put(
                self._sessions, (user_id, new["id"]), new if current is None else current.document | updates
            )

        return await asyncio.to_thread(together, self._sessions, act)

    async def set_session_team_id(self, user_id: str, session_id: str, team_id: str | None) -> None:
        await self._modify(self._sessions, (user_id, session_id), partial(_set_team, team_id=team_id))

    async def update_session_state(self, user_id: str, agent_id: str, session_id: str, state: AgentState) -> None:
        """Set the state of a session.

        Raises:
            RecordNotFoundError (a KeyError): there is no such session.
        """
        new = {"state": _json(state)}
        if not await self._modify(self._sessions, (user_id, session_id), lambda session: new):
            raise RecordNotFoundError(_Session.collection, session_id)

    async def list_sessions(self, user_id: str, agent_id: str) -> list[SessionRecord]:
        """The sessions of an agent, the newest first."""
        return await self._list(
            self._sessions, user_id, where=lambda session: session["agent_id"] == agent_id, newest_first=True
        )

    async def get_session(self, user_id: str, agent_id: str, session_id: str) -> SessionRecord | None:
        return await self._fetch(self._sessions, user_id, session_id)

    async def delete_session(self, user_id: str, agent_id: str, session_id: str) -> bool:
        """Delete a session with its messages and the team that it leads."""
        return await self._remove(self._sessions, user_id, session_id)

    async def list_sessions_by_schedule(self, user_id: str, schedule_id: str) -> list[SessionRecord]:
        """The sessions that a schedule began, the newest first."""
        return await self._list_by_origin(user_id, "schedule_id", schedule_id)

    async def list_sessions_by_channel(self, user_id: str, channel_id: str) -> list[SessionRecord]:
        """The sessions that began with a message of a channel, the newest first."""
        return await self._list_by_origin(user_id, "channel_id", channel_id)

    async def _list_by_origin(self, user_id: str, field: str, id: str) -> list[SessionRecord]:
        return await self._list(
            self._sessions, user_id, where=partial(_began_with, field=field, id=id), newest_first=True
        )

    # -- messages

    async def upsert_message(self, user_id: str, session_id: str, msg: Msg) -> None:
        """Add a message at the end, or put it in the place of the one with its id."""
        await asyncio.to_thread(self._put_message, user_id, session_id, msg.id, _json(msg))

    def _put_message(self, user_id: str, session_id: str, id: str, message: Any) -> None:
        def act(talk: _Talk) -> None:
            number = talk.find(id)
            if number is None:
                talk.ids.append(id)
                talk.messages.append(message)
            else:
                talk.messages.replace_tail(number, [message, *talk.messages[number + 1 :]])

        self._change_talk(user_id, session_id, act, "put", id)

    async def delete_message(self, user_id: str, session_id: str, message_id: str) -> bool:
        def act(talk: _Talk) -> bool:
            number = talk.find(message_id)
            if number is None:
                return False
            for one in (talk.ids, talk.messages):
                rest = one[number + 1 :]
                one.replace_tail(number, [None, *rest] if rest else [])
            return True

        return await asyncio.to_thread(self._change_talk, user_id, session_id, act, "delete", message_id)

    def _delete_messages(self, user_id: str, session_id: str) -> None:
        self._delete_numbered(user_id, session_id)
        talk = self._talk(user_id, session_id)
        for one in (talk.ids, talk.messages):
            if len(one):
                one.clear()

    async def get_message(self, user_id: str, session_id: str, message_id: str) -> Msg | None:
        return await asyncio.to_thread(self._get_message, user_id, session_id, message_id)

    def _get_message(self, user_id: str, session_id: str, message_id: str) -> Msg | None:
        talk = self._read_talk(user_id, session_id)
        number = talk.find(message_id)
        message = None if number is None else next(iter(talk.messages[number : number + 1]), None)
        if message is None or message["id"] != message_id:  # it was deleted meanwhile
            return None
        return Msg.model_validate(message)

    async def list_messages(
        self, user_id: str, session_id: str, limit: int = 50, before: str | None = None, **kwargs: Any
    ) -> tuple[list[Msg], bool]:
        """The newest messages, or the newest of those before the one with the id `before`, in their order; whether there are older ones.

        Where no message has that id, the list is empty.
        """
        if "offset" in kwargs:
            warnings.warn("list_messages pages with `before`: `offset` is ignored", DeprecationWarning, stacklevel=2)

        return await asyncio.to_thread(self._read_messages, user_id, session_id, limit, before)

    def _read_messages(self, user_id: str, session_id: str, limit: int, before: str | None) -> tuple[list[Msg], bool]:
        talk = self._read_talk(user_id, session_id)
        stop = len(talk.messages) if before is None else talk.find(before)
        found: list[Msg] = []
        for message in _newest_first(talk.messages, stop or 0):
            if message is None:  # it was deleted
                continue
            if len(found) >= limit:
                return found[::-1], True
            found.append(Msg.model_validate(message))
        return found[::-1], False

    def _talk(self, user_id: str, session_id: str) -> _Talk:
        name = _key(user_id, session_id)
        return _Talk(
            *(RecordList(self.repo, f"agentscope {what} {name}", **self._where) for what in ("ids", "messages"))
        )

    def _read_talk(self, user_id: str, session_id: str) -> _Talk | _NumberedTalk:
        return self._numbered(user_id, session_id) or self._talk(user_id, session_id)

    def _change_talk(self, user_id: str, session_id: str, act: Callable[[_Talk], T], action: str, id: str) -> T:
        def change() -> T:
            talk, numbered = self._talk(user_id, session_id), self._numbered(user_id, session_id)
            if numbered is not None:
                talk.ids.extend(numbered.ids)
                talk.messages.extend(numbered.messages)
                self._delete_numbered(user_id, session_id)
            return act(talk)

        return self._change(self._messages, change, action, (id,))

    # -- messages as earlier releases stored them: a record for each. The first change of a session moves them into its lists

    def _numbered(self, user_id: str, session_id: str) -> _NumberedTalk | None:
        last: _Number | None = self._numbers.get(_key(user_id, session_id))
        if last is None:
            return None
        rows = (self._messages.get(_message_key(user_id, session_id, number)) for number in range(1, last.number + 1))
        messages = [None if row is None else row.message for row in rows]
        return _NumberedTalk([None if one is None else one["id"] for one in messages], messages)

    def _delete_numbered(self, user_id: str, session_id: str) -> None:
        start = exactly(_key(user_id, session_id, "")) + "*"
        for kind in (self._messages, self._numbers):
            for id in [*kind.ids(start)]:
                kind.delete(id)
        self._numbers.delete(_key(user_id, session_id))

    # -- schedules

    async def upsert_schedule(self, user_id: str, record: ScheduleRecord) -> str:
        return (await self._upsert(self._schedules, user_id, record)).id

    async def get_schedule(self, user_id: str, schedule_id: str) -> ScheduleRecord | None:
        return await self._fetch(self._schedules, user_id, schedule_id)

    async def list_schedules(self, user_id: str) -> list[ScheduleRecord]:
        return await self._list(self._schedules, user_id)

    async def delete_schedule(self, user_id: str, schedule_id: str) -> bool:
        """Delete a schedule with the sessions that it began."""
        return await self._remove(self._schedules, user_id, schedule_id)

    async def list_all_schedules(self) -> list[ScheduleRecord]:
        return await self._list(self._schedules)

    # -- channels: their ids belong to no user, and a bot has one channel

    async def upsert_channel(self, record: ChannelRecord, platform_bot_id: str) -> str:
        return (await asyncio.to_thread(self._put, self._channels, (record.id,), _json(record), platform_bot_id)).id

    async def get_channel(self, channel_id: str) -> ChannelRecord | None:
        return await self._fetch(self._channels, channel_id)

    async def list_channels(self, user_id: str) -> list[ChannelRecord]:
        return await self._list(self._channels, where=lambda channel: channel["user_id"] == user_id)

    async def list_all_channels(self) -> list[ChannelRecord]:
        return await self._list(self._channels)

    async def delete_channel(self, channel_id: str, platform_bot_id: str) -> bool:
        return await self._remove(self._channels, channel_id)

    async def get_channel_id_by_platform_bot_id(self, platform_bot_id: str) -> str | None:
        found = await asyncio.to_thread(self._find_named, self._channels, (), platform_bot_id)
        return None if found is None else found.id

    # -- procedures (SOPs) and their runs

    async def upsert_sop(self, user_id: str, record: SOPRecord) -> SOPRecord:
        return await self._upsert(self._sops, user_id, record)

    async def get_sop(self, user_id: str, sop_id: str) -> SOPRecord | None:
        return await self._fetch(self._sops, user_id, sop_id)

    async def list_sops(self, user_id: str) -> list[SOPRecord]:
        return await self._list(self._sops, user_id)

    async def delete_sop(self, user_id: str, sop_id: str) -> bool:
        """Delete a procedure with its runs and their sessions."""
        return await self._remove(self._sops, user_id, sop_id)

    async def upsert_sop_run(self, user_id: str, record: SOPRunRecord) -> SOPRunRecord:
        return await self._upsert(self._sop_runs, user_id, record)

    async def get_sop_run(self, user_id: str, sop_run_id: str) -> SOPRunRecord | None:
        return await self._fetch(self._sop_runs, user_id, sop_run_id)

    async def list_sop_runs(
        self, user_id: str, sop_id: str | None = None, phase: SOPPhase | None = None
    ) -> list[SOPRunRecord]:
        """The runs of the user, of one procedure or all and in one phase or any, the newest first."""

        def is_wanted(run: _Json) -> bool:
            return sop_id in (None, run["sop_id"]) and phase in (None, run["state"]["phase"])

        return await self._list(self._sop_runs, user_id, where=is_wanted, newest_first=True)

    async def update_sop_run(
        self, user_id: str, sop_run_id: str, state: SOPRunState, sessions: dict[str, str] | None = None
    ) -> None:
        """Set how a run goes, and its sessions if they are given.

        Raises:
            RecordNotFoundError (a KeyError): there is no such run.
        """
        new = {"state": _json(state)} | ({} if sessions is None else {"sessions": dict(sessions)})
        if not await self._modify(self._sop_runs, (user_id, sop_run_id), lambda run: new):
            raise RecordNotFoundError(_SOPRun.collection, sop_run_id)

    async def delete_sop_run(self, user_id: str, sop_run_id: str) -> bool:
        """Delete a run with its sessions."""
        return await self._remove(self._sop_runs, user_id, sop_run_id)

    # -- teams

    async def upsert_team(self, user_id: str, record: TeamRecord) -> TeamRecord:
        return await self._upsert(self._teams, user_id, record)

    async def get_team(self, user_id: str, team_id: str) -> TeamRecord | None:
        return await self._fetch(self._teams, user_id, team_id)

    async def list_teams(self, user_id: str) -> list[TeamRecord]:
        return await self._list(self._teams, user_id)

    async def delete_team(self, user_id: str, team_id: str) -> bool:
        """Delete a team with the agents that were made for it, and of those that it borrowed the sessions in it."""
        return await self._remove(self._teams, user_id, team_id)

    # -- knowledge

    async def upsert_knowledge_base(self, user_id: str, record: KnowledgeBaseRecord) -> KnowledgeBaseRecord:
        """Store a knowledge base. Raises ValueError: it says that it is another user's."""
        _require_owner(user_id, record)
        return await self._upsert(self._knowledge_bases, user_id, record)

    async def get_knowledge_base(self, user_id: str, knowledge_base_id: str) -> KnowledgeBaseRecord | None:
        return await self._fetch(self._knowledge_bases, user_id, knowledge_base_id)

    async def list_knowledge_bases(self, user_id: str) -> list[KnowledgeBaseRecord]:
        return await self._list(self._knowledge_bases, user_id)

    async def delete_knowledge_base(self, user_id: str, knowledge_base_id: str) -> bool:
        """Delete a knowledge base with its documents."""
        return await self._remove(self._knowledge_bases, user_id, knowledge_base_id)

    async def upsert_knowledge_document(self, user_id: str, record: KnowledgeDocumentRecord) -> KnowledgeDocumentRecord:
        """Store a document.

        Raises:
            ValueError: it says that it is another user's. RecordNotFoundError: there is no such knowledge base.
        """
        _require_owner(user_id, record)
        document = _json(record)
        base = (user_id, record.knowledge_base_id)

        def act() -> KnowledgeDocumentRecord:
            if self._get(self._knowledge_bases, *base) is None:
                raise RecordNotFoundError(_KnowledgeBase.collection, base[-1])
            return self._put(self._documents, (*base, record.id), document)

        return await asyncio.to_thread(together, self._documents, act)

    async def get_knowledge_document(
        self, user_id: str, knowledge_base_id: str, document_id: str
    ) -> KnowledgeDocumentRecord | None:
        return await self._fetch(self._documents, user_id, knowledge_base_id, document_id)

    async def list_knowledge_documents(self, user_id: str, knowledge_base_id: str) -> list[KnowledgeDocumentRecord]:
        return await self._list(self._documents, user_id, knowledge_base_id)

    async def delete_knowledge_document(self, user_id: str, knowledge_base_id: str, document_id: str) -> bool:
        return await self._remove(self._documents, user_id, knowledge_base_id, document_id)

    async def update_knowledge_document_status(
        self,
        user_id: str,
        knowledge_base_id: str,
        document_id: str,
        status: KnowledgeDocumentStatus,
        error: str | None = None,
        chunk_count: int | None = None,
    ) -> None:
        """Set a document's status, and its error and number of chunks if they are given. A missing document is left alone."""
        updates = {"error": error, "chunk_count": chunk_count}

        def change(document: _Json) -> _Json:
            return {
                "status": status,
                "data": document["data"] | {name: one for name, one in updates.items() if one is not None},
            }

        await self._modify(self._documents, (user_id, knowledge_base_id, document_id), change)

    # -- leases of documents

    async def acquire_knowledge_document_lease(
        self,
        user_id: str,
        knowledge_base_id: str,
        document_id: str,
        processing_node: str,
        lease_ttl: timedelta,
        now: datetime | None = None,
    ) -> bool:
        """Take the lease of a document that nobody holds, or whose lease is over. Returns whether it is taken."""
        moment = now or datetime.now()

        def change(document: _Json) -> _Json | None:
            if _has_lease(document) and not _is_before(document["lease_expires_at"], moment):
                return None
            return {"processing_node": processing_node, "lease_expires_at": (moment + lease_ttl).isoformat()}

        return await self._modify(self._documents, (user_id, knowledge_base_id, document_id), change)

    async def renew_knowledge_document_lease(
        self,
        user_id: str,
        knowledge_base_id: str,
        document_id: str,
        processing_node: str,
        lease_ttl: timedelta,
        now: datetime | None = None,
    ) -> bool:
        """Hold a lease for longer. Returns whether it still was this worker's."""
        until = (now or datetime.now()) + lease_ttl

        def change(document: _Json) -> _Json | None:
            return {"lease_expires_at": until.isoformat()} if document["processing_node"] == processing_node else None

        return await self._modify(self._documents, (user_id, knowledge_base_id, document_id), change)

    async def release_knowledge_document_lease(
        self, user_id: str, knowledge_base_id: str, document_id: str, processing_node: str
    ) -> None:
        """Give a lease back, if it is this worker's."""

        def change(document: _Json) -> _Json | None:
            is_ours = document["processing_node"] == processing_node
            return {"processing_node": None, "lease_expires_at": None} if is_ours else None

        await self._modify(self._documents, (user_id, knowledge_base_id, document_id), change)

    async def list_knowledge_documents_with_expired_lease(
        self, now: datetime | None = None
    ) -> list[KnowledgeDocumentRecord]:
        """The documents of all users that are not done, and whose lease is over."""
        moment = now or datetime.now()

        def is_expired(document: _Json) -> bool:
            is_open = document["status"] not in _TERMINAL
            return is_open and _has_lease(document) and _is_before(document["lease_expires_at"], moment)

        return await self._list(self._documents, where=is_expired)

    async def list_knowledge_documents_pending_since(self, threshold: datetime) -> list[KnowledgeDocumentRecord]:
        """The documents of all users that were made before a time and that nobody has begun with."""
        return await self._list(
            self._documents, where=lambda one: one["status"] == "pending" and _is_before(one["created_at"], threshold)
        )


def _key(*names: str) -> str:
    """The id of a record's row. An empty last name gives what the ids begin with that have the names before it."""
    return "/".join(map(_part, names))


def _part(name: str) -> str:
    """A name in a key; one that is too long, or that no key holds, is replaced by its digest."""
    raw = name.encode("utf-8", "surrogatepass")
    is_plain = len(raw) <= _MOST_NAME and (name.isprintable() or not name)
    return place_of(name) if is_plain else f"%%{blake3(raw).hexdigest(20)}"


def _message_key(user_id: str, session_id: str, number: int) -> str:
    return f"{_key(user_id, session_id)}/{_LAST - number:012d}"


def _newest_first(items: RecordList | list[Any], stop: int) -> Iterator[Any]:
    """Those before number `stop`, read as they are asked for."""
    for end in range(stop, 0, -_TOGETHER):
        yield from reversed(items[max(end - _TOGETHER, 0) : end])


def _began_with(session: _Json, field: str, id: str) -> bool:
    """Whether a session began with this schedule or channel."""
    return bool(session["origin"].get(field) == id)


def _set_team(session: _Json, team_id: str | None) -> _Json | None:
    return None if session["team_id"] == team_id else {"team_id": team_id}


def _remove_member(team: _Json, agent_id: str) -> _Json | None:
    before = {name: team["data"][name] for name in ("members", "member_ids")}
    after = {
        "members": [one for one in before["members"] if one["agent_id"] != agent_id],
        "member_ids": [id for id in before["member_ids"] if id != agent_id],
    }
    return None if after == before else {"data": team["data"] | after}


def _old_members(team: TeamRecord) -> list[str]:
    """The agents of a team that was stored before teams had roles. Reading the field itself warns."""
    return cast("list[str]", vars(team.data)["member_ids"])


def _has_lease(document: _Json) -> bool:
    return document["processing_node"] is not None and document["lease_expires_at"] is not None


def _json(record: BaseModel) -> _Json:
    """What is stored: what the caller changes later does not matter to it."""
    return cast("_Json", keep_infinite(record.model_dump(mode="json"), record.model_dump()))


def _require_owner(user_id: str, record: Any) -> None:
    if record.user_id != user_id:
        raise ValueError(f"the record's user is {record.user_id!r}, not {user_id!r}")


def _is_before(text: str, other: datetime) -> bool:
    """Whether a stored time is earlier, where one of the two may have a time zone. Without one it is local."""
    return datetime.fromisoformat(text).timestamp() < other.timestamp()


def _unmasked(value: Any) -> Any:
    """What is stored of a credential: its secrets as they are."""
    if isinstance(value, SecretStr | SecretBytes):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {name: _unmasked(one) for name, one in value.items()}
    return [*map(_unmasked, value)] if isinstance(value, list | tuple) else value
