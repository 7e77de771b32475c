"""Agents that work together: who is there, what each can do and does, and what they share."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from agent_kernel.errors import RecordNotFoundError, StaleRecordError
from agent_kernel.records.checks import checks_arguments, require_mapping, require_name, seconds, shown, texts
from agent_kernel.records.collection import Records
from agent_kernel.records.documents import now_s
from agent_kernel.records.queue import Queue
from agent_kernel.records.schema import Record

if TYPE_CHECKING:
    from agent_kernel.repository import Repository

__all__ = ["Member", "Mode", "Team", "Teams"]

Mode: TypeAlias = Literal["sequential", "parallel", "hierarchical", "consensus", "broadcast"]
MemberStatus: TypeAlias = Literal["available", "busy", "paused", "offline", "failed"]


class Member(BaseModel):
    """An agent of a team."""

    agent: str
    capabilities: list[str] = Field(default_factory=list[str])
    status: MemberStatus = "available"
    current_task: str = ""
    seen_s: float = 0.0  # seconds since 1970: when it last said something of itself


class Team(Record):
    """A team. `mode` says how its agents work together; whoever drives them reads it."""

    collection = "Team"
    plane = "store"

    mode: Mode = "parallel"
    members: dict[str, Member] = Field(default_factory=dict[str, Member])
    shared: dict[str, Any] = Field(default_factory=dict[str, Any])
    created_s: float = 0.0

    @property
    def agents(self) -> builtins.list[str]:
        """The names of its members, in the order in which they joined."""
        return list(self.members)


@checks_arguments
class Teams:
    """The teams of a store.

    >>> import agent_kernel as ak
    >>> teams = ak.open("memory:").teams
    >>> _ = teams.create("web", mode="parallel")
    >>> _ = teams.join("web", "ada", ["python"]), teams.join("web", "bob", ["css"])
    >>> _ = teams.status("web", "ada", "busy", current_task="the parser")
    >>> [member.agent for member in teams.available("css")], teams.available("python")
    (['bob'], [])
    """

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self.records: Records[Team] = Records(repo, Team)

    def __getitem__(self, name: str) -> Team:
        """A team. Raises: RecordNotFoundError: no team has this name."""
        return self.records[name]

    get = __getitem__

    def __iter__(self) -> Iterator[Team]:
        """As `list` has them."""
        return iter(self.list())

    def __contains__(self, one: object) -> bool:
        return (one.id if isinstance(one, Team) else one) in self.records

    def list(self) -> list[Team]:
        """All teams."""
        return self.records.find()

    def create(self, name: str, mode: Mode = "parallel", *, shared: dict[str, object] | None = None) -> Team:
        """Make a team.

        Raises:
            StaleRecordError: there is one of this name. InvalidRecordError: there is no such mode.
        """
        Queue(self.repo, name)  # its name is one that its queue can have
        fields = {} if shared is None else require_mapping(shared, "shared")
        team = self.records.make(id=name, mode=mode, shared=fields, created_s=now_s())
        try:
            return self.records.put(team, expect=0)
        except StaleRecordError as error:
            error.reason = "is there already"
            raise

    def queue(self, name: str) -> Queue:
        """The tasks of a team."""
        return Queue(self.repo, name)

    def join(self, team: str, agent: str, capabilities: Iterable[str] = ()) -> Team:
        """Let an agent into a team, or say anew what it can do.

        Raises:
            RecordNotFoundError: there is no such team. TypeError: `capabilities` is one text.
        """
        require_name(agent, "agent")
        member = Member(agent=agent, capabilities=list(texts(capabilities, "capabilities")), seen_s=now_s())
        return self.records.update(team, lambda old: old.members.update({agent: member}))

    def leave(self, team: str, agent: str) -> Team:
        """Let an agent go. Raises: RecordNotFoundError: it is not there."""

        def leave(found: Team) -> None:
            del found.members[_member(found, agent).agent]

        return self.records.update(team, leave)

    def status(self, team: str, agent: str, status: MemberStatus, current_task: str = "") -> Team:
        """Say what an agent does. Raises: RecordNotFoundError: it is not in the team."""

        def change(found: Team) -> None:
            member = _member(found, agent)
            member.status, member.current_task, member.seen_s = status, current_task, now_s()

        return self.records.update(team, change)

    def available(
        self, capability: str | None = None, team: str | None = None, *, within_s: float = 0.0
    ) -> builtins.list[Member]:
        """The agents that have nothing to do, of all teams or one.

        Args:
            capability: only those that can do this.
            within_s: only those that said something of themselves during the last so many seconds. 0: all.
        """
        since = now_s() - seconds(within_s, "within_s") if within_s != 0 else 0.0
        return [
            member
            for found in ([self[team]] if team is not None else self.list())
            for member in found.members.values()
            if member.status == "available"
            and member.seen_s >= since
            and (capability is None or capability in member.capabilities)
        ]

    def share(self, team: str, **values: object) -> dict[str, Any]:
        """Put values where all agents of a team find them; returns all that is there."""
        return self.records.update(team, lambda old: old.shared.update(values)).shared

    def shared(self, team: str) -> dict[str, Any]:
        """What the agents of a team share."""
        return self[team].shared


def _member(team: Team, agent: object) -> Member:
    if not isinstance(agent, str) or agent not in team.members:
        raise RecordNotFoundError("agent", agent if isinstance(agent, str) else shown(agent), f"in team {team.id!r}")
    return team.members[agent]
