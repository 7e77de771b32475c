"""What agents are made of, kept and brought back: snapshots, checkpoints, and supervision that restores and tries again.

Snapshots and checkpoints belong to the branch: a checkout takes an agent's memory back together with the variables. How often an
agent failed and was tried again does not: a checkout must not give it new attempts.
"""

from __future__ import annotations

import builtins
import glob
import inspect
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, ParamSpec, TypeAlias, TypeVar, cast

import msgspec
from pydantic import Field

from agent_kernel.errors import InvalidRecordError, RecordNotFoundError
from agent_kernel.records.collection import Records, together
from agent_kernel.records.documents import (
    checks_arguments,
    is_plain,
    is_text,
    not_negative,
    now_s,
    require_function,
    require_mapping,
    require_plain_function,
    require_result,
    require_takes,
    seconds,
    shown,
)
from agent_kernel.records.schema import Record

if TYPE_CHECKING:
    from agent_kernel.repository import Repository

logger = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
AgentStatus: TypeAlias = Literal["initializing", "idle", "running", "paused", "completed", "failed", "recovering"]


class AgentSnapshot(Record):
    """An agent at one moment. Its id is `AGENT/NUMBER`."""

    collection = "AgentSnapshot"
    agent_id: str
    number: int
    timestamp: float  # seconds since 1970
    state: dict[str, Any] = Field(default_factory=dict[str, Any])  # what its state_dict() gave
    memory_state: dict[str, Any] = Field(default_factory=dict[str, Any])
    tool_state: dict[str, Any] = Field(default_factory=dict[str, Any])
    conversation_history: list[Any] = Field(default_factory=list[Any])
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])


class AgentCheckpoint(Record):
    """An agent after a step of its work. Its id is `AGENT/STEP`."""

    collection = "AgentCheckpoint"
    agent_id: str
    step: int
    timestamp: float  # seconds since 1970
    state: dict[str, Any] = Field(default_factory=dict[str, Any])
    recoverable: bool = True


class AgentRecord(Record):
    """How an agent is, and how often it failed. Beside all branches."""

    collection = "AgentRecord"
    plane = "store"
    transitions: ClassVar[Mapping[str, Any]] = {
        "initializing": ("idle", "running", "failed"),
        "idle": ("running", "paused", "failed", "recovering", "completed"),
        "running": ("idle", "paused", "completed", "failed"),
        "paused": ("running", "idle", "failed"),
        "completed": ("idle", "running", "failed"),
        "failed": ("recovering", "idle", "running"),
        "recovering": ("running", "idle", "failed"),
    }

    status: AgentStatus = "initializing"
    task: str = ""
    attempts: int = 0  # to bring it back since it last did well
    failures: int = 0  # all of them
    recoveries: int = 0  # after which it went on
    last_error: str = ""
    updated_s: float = 0.0  # seconds since 1970


class RecoveryStats(msgspec.Struct, frozen=True):
    """How often an agent failed, and came back."""

    failures: int
    recoveries: int
    attempts: int
    last_error: str

    @property
    def recovery_rate(self) -> float:
        return self.recoveries / self.failures if self.failures else 1.0


@checks_arguments
class Agents:
    """The agents of a store. An agent is an object, or just a name.

    >>> import agent_kernel as ak
    >>> class Counter:
    ...     name, count = "counter", 0
    ...     def state_dict(self): return {"count": self.count}
    ...     def load_state_dict(self, state): self.count = state["count"]
    >>> agents, counter = ak.open("memory:").agents, Counter()
    >>> counter.count = 5
    >>> _ = agents.snapshot(counter)
    >>> counter.count = 99
    >>> _ = agents.restore(counter)
    >>> counter.count
    5
    """

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self.records: Records[AgentRecord] = Records(repo, AgentRecord)
        self._snapshots: Records[AgentSnapshot] = Records(repo, AgentSnapshot)
        self._checkpoints: Records[AgentCheckpoint] = Records(repo, AgentCheckpoint)

    def __getitem__(self, agent: object) -> AgentRecord:
        """How an agent is. Raises: RecordNotFoundError: nobody said anything of it."""
        return self.records[_name_of(agent)]

    def __iter__(self) -> Iterator[AgentRecord]:
        """As `list` has them."""
        return iter(self.list())

    def __contains__(self, agent: object) -> bool:
        return (agent.id if isinstance(agent, AgentRecord) else agent) in self.records

    def list(self) -> list[AgentRecord]:
        """How all agents are."""
        return self.records.find()

    def status(self, agent: object, status: AgentStatus, task: str = "") -> AgentRecord:
        """Say what an agent does. Raises: TransitionError: it cannot do that now."""
        name = _name_of(agent)

        def say() -> AgentRecord:
            self._enter(name)
            return self.records.update(name, status=status, task=task, updated_s=now_s())

        return together(self.records, say)

    def _enter(self, name: str) -> None:
        def enter() -> None:
            if name not in self.records:
                self.records.put(AgentRecord(id=name, updated_s=now_s()))

        together(self.records, enter)

    # -- snapshots

    def snapshot(
        self,
        agent: object,
        *,
        state: Mapping[str, object] | None = None,
        memory_state: Mapping[str, object] | None = None,
        tool_state: Mapping[str, object] | None = None,
        conversation_history: builtins.list[Any] | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> AgentSnapshot:
        """Keep an agent as it is.

        Args:
            agent: an object, whose `state_dict()` is kept if it has one; or a name, with what is to be kept.

        Raises:
            InvalidRecordError: something of it would not come back as it is. Nothing was stored.
        """
        name = _name_of(agent)
        fields: dict[str, Any] = {
            "state": _state_of(agent) if state is None else dict(state),
            "memory_state": dict(memory_state or {}),
            "tool_state": dict(tool_state or {}),
            "conversation_history": [] if conversation_history is None else conversation_history,
            "metadata": dict(metadata or {}),
        }
        for field, value in fields.items():
            _refuse_strange(AgentSnapshot.collection, name, field, value)

        def keep() -> AgentSnapshot:
            number = 1 + self._last_number(name)
            id = _id(name, number)
            snapshot = self._snapshots.make(id=id, agent_id=name, number=number, timestamp=now_s(), **fields)
            return self._snapshots.put(snapshot, expect=0)

        return together(self._snapshots, keep, f"snapshot of agent {name}")

    def list_snapshots(self, agent: object) -> builtins.list[AgentSnapshot]:
        """The snapshots of an agent, the first one first."""
        name = _name_of(agent)
        found = [one for one in self._snapshots.find(f"{glob.escape(name)}/*") if one.agent_id == name]
        return sorted(found, key=lambda one: one.number)

    def _last_number(self, name: str) -> int:
        return _number(next(self._snapshots.ids_back(f"{name}/"), "/0"))

    def latest(self, agent: object) -> AgentSnapshot:
        """Its last snapshot. Raises: RecordNotFoundError: nobody made one."""
        return self._snapshot(_name_of(agent), "latest")

    def delete(self, agent: object, at: str | int) -> bool:
        """Delete a snapshot; whether it was there."""
        try:
            return self._snapshots.delete(self._snapshot(_name_of(agent), at).id)
        except RecordNotFoundError:
            return False

    def restore(self, agent: object, at: str | int = "latest") -> AgentSnapshot:
        """Bring an agent back to a snapshot: its `load_state_dict()` is called, if it has one. Returns the snapshot.

        Args:
            at: "latest", a number, or an id.

        Raises:
            RecordNotFoundError: there is no such snapshot.
        """
        found = self._snapshot(_name_of(agent), at)
        _load_state(agent, found.state)
        return found

    def _snapshot(self, name: str, at: str | int) -> AgentSnapshot:
        number = self._last_number(name) if at == "latest" else at
        id = number if isinstance(number, str) else _id(name, not_negative(number, "at"))
        found: AgentSnapshot | None = self._snapshots.get(id) if id else None
        if found is None or found.agent_id != name:
            raise RecordNotFoundError("snapshot", str(at), f"of agent {name!r}")
        return found

    # -- checkpoints

    def checkpoint(
        self, agent: object, step: int, state: Mapping[str, object] | None = None, *, recoverable: bool = True
    ) -> AgentCheckpoint:
        """Keep an agent after a step. `recoverable`: work may go on from here; else it is only for looking.

        Raises:
            InvalidRecordError: something of it would not come back as it is. ValueError: the step is negative. Nothing was stored.
        """
        not_negative(step, "step")
        name = _name_of(agent)
        state_now = _state_of(agent) if state is None else dict(state)
        _refuse_strange(AgentCheckpoint.collection, name, "state", state_now)
        point = self._checkpoints.make(
            id=_id(name, step),
            agent_id=name,
            step=step,
            timestamp=now_s(),
            state=state_now,
            recoverable=recoverable,
        )
        return self._checkpoints.put(point)

    def list_checkpoints(self, agent: object) -> builtins.list[AgentCheckpoint]:
        """The checkpoints of an agent, by their steps."""
        name = _name_of(agent)
        found = [one for one in self._checkpoints.find(f"{glob.escape(name)}/*") if one.agent_id == name]
        return sorted(found, key=lambda one: one.step)

    def should_checkpoint(self, agent: object, step: int, every: int) -> bool:
        """Whether so many steps have passed since its last checkpoint."""
        not_negative(step, "step")
        not_negative(every, "every")
        last = next(self._checkpoints.ids_back(f"{_name_of(agent)}/"), "/0")
        return step - _number(last) >= every

    def recover(self, agent: object, from_step: int | None = None) -> AgentCheckpoint:
        """Bring an agent back to a recoverable checkpoint, the last one or that of a step; its `load_state_dict()` is called.

        Raises:
            RecordNotFoundError: there is no such checkpoint.
        """
        if from_step is not None:
            not_negative(from_step, "from_step")
        name = _name_of(agent)
        ids = self._checkpoints.ids_back(f"{name}/") if from_step is None else iter([_id(name, from_step)])
        for id in ids:
            one: AgentCheckpoint | None = self._checkpoints.get(id)
            if one is not None and one.recoverable:
                _load_state(agent, one.state)
                return one
        step = "latest" if from_step is None else str(from_step)
        raise RecordNotFoundError("recoverable checkpoint", step, f"of agent {name!r}")

    # -- supervision

    def supervise(self, agent: object, attempts: int = 3, backoff: float = 2.0) -> Supervisor:
        """Run an agent so that a failure brings it back to where it was, and tries again.

        Args:
            attempts: how often it is brought back, until it does well.
            backoff: seconds before the first of these, and doubled for each after it.
        """
        not_negative(attempts, "attempts")
        seconds(backoff, "backoff")
        self._enter(_name_of(agent))
        return Supervisor(self, agent, attempts, backoff)


@checks_arguments
class Supervisor:
    """Runs one agent, and brings it back when it fails."""

    def __init__(self, agents: Agents, agent: object, attempts: int, backoff: float) -> None:
        self.agent = agent
        self._agents = agents
        self._name = _name_of(agent)
        self._most = attempts
        self._backoff_s = backoff
        self._callbacks: list[Callable[[BaseException, AgentRecord], object]] = []
        self._back: list[Callable[[AgentRecord], object]] = []

    def on_failure(self, call: Callable[[BaseException, AgentRecord], object]) -> None:
        """Call a function with each error, and how the agent is then. What it raises goes to the log."""
        require_takes(require_function(call, "on_failure"), "on_failure", 2)
        self._callbacks.append(call)

    def on_recovery(self, call: Callable[[AgentRecord], object]) -> None:
        """Call a function each time it is back, before it is called again. What it raises goes to the log."""
        require_takes(require_function(call, "on_recovery"), "on_recovery", 1)
        self._back.append(call)

    @property
    def record(self) -> AgentRecord:
        """How the agent is."""
        return self._agents[self._name]

    def can_recover(self) -> bool:
        """Whether it may be tried once more."""
        return self.record.attempts < self._most

    def reset(self) -> AgentRecord:
        """Give it all its attempts again. How often it failed stays known."""
        return self._agents.records.update(self._name, attempts=0)

    def stats(self) -> RecoveryStats:
        """How often it failed, and came back."""
        found = self.record
        return RecoveryStats(found.failures, found.recoveries, found.attempts, found.last_error)

    def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function that lets the agent work; after an error restore the agent, wait, and call it again.

        It is restored to its last recoverable checkpoint, or else its last snapshot, or else as it is. An agent with a method
        `resume` has that called.

        Raises:
            TypeError: the function is async, or a generator, or does not take these arguments. What the function raises, when there
                are no attempts left.
        """
        require_plain_function(work, "supervision")
        _require_arguments(work, args, kwargs)
        while True:
            self._set("running")
            try:
                result = work(*args, **kwargs)
            except Exception as error:  # of the agent
                self._failed(error)
                if not self.can_recover():
                    raise
                self._bring_back()
            except BaseException:
                self._set("paused")
                raise
            else:
                self._require_done(result)
                self._did_well()
                return result

    def _require_done(self, result: object) -> None:
        try:
            require_result(result, "supervision")
        except TypeError as error:  # trying again would change nothing
            self._failed(error)
            raise

    def _set(self, status: AgentStatus) -> None:
        self._agents.records.update(self._name, status=status, updated_s=now_s())

    def _failed(self, error: Exception) -> None:
        def note(now: AgentRecord) -> None:
            now.status, now.updated_s = "failed", now_s()
            now.failures += 1
            now.last_error = f"{type(error).__name__}: {error}"

        record = self._agents.records.update(self._name, note)
        for call in self._callbacks:
            _tell(call, error, record)

    def _bring_back(self) -> None:
        """What fails meanwhile counts as a failure of the agent, which has so many attempts."""
        while True:
            try:
                self._recover()
            except Exception as error:  # of the agent
                self._failed(error)
                if not self.can_recover():
                    raise
            else:
                return

    def _recover(self) -> None:
        def note(now: AgentRecord) -> None:
            now.status, now.attempts, now.updated_s = "recovering", now.attempts + 1, now_s()

        attempt = self._agents.records.update(self._name, note).attempts
        time.sleep(self._backoff_s * 2.0 ** (attempt - 1))
        for restore in (self._agents.recover, self._agents.restore):
            try:
                restore(self.agent)
                break
            except RecordNotFoundError:
                continue
        resume: Callable[[], object] | None = getattr(self.agent, "resume", None)
        if resume is not None:
            resume()
        for call in self._back:
            _tell(call, self.record)

    def _did_well(self) -> None:
        def note(now: AgentRecord) -> None:
            now.status, now.updated_s = "idle", now_s()
            now.recoveries += bool(now.attempts)
            now.attempts = 0

        self._agents.records.update(self._name, note)


def _require_arguments(work: Callable[..., object], args: tuple[object, ...], keywords: dict[str, Any]) -> None:
    """Raise TypeError for arguments that a function does not take: to try again would change nothing."""
    try:
        signature = inspect.signature(work)
    except (TypeError, ValueError):  # Python does not say what it takes
        return
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        raise TypeError(f"supervision calls {shown(work)} with what run was given: {error}") from None


def _tell(call: Callable[..., object], *what: object) -> None:
    try:
        call(*what)
    except Exception:  # of the function, which is not ours: the agent is brought back all the same
        logger.exception("a function that hears of a supervised agent raised")


def _id(name: str, number: int) -> str:
    """The ids of an agent sort by their numbers."""
    return f"{name}/{number:08d}" if number < 10**8 else f"{name}/~{number:020d}"


def _number(id: str) -> int:
    return int(id.rpartition("/")[2].lstrip("~"))


def _name_of(agent: object) -> str:
    name = agent if isinstance(agent, str) else getattr(agent, "name", None) or getattr(agent, "id", None)
    if not isinstance(name, str) or not name or "/" in name or "\0" in name or not is_text(name):
        of = "" if name is agent or name is None else f", whose name is {shown(name)}"
        reason = f"an agent is its name (text without / and NUL) or an object that has one, not {shown(agent)}{of}"
        raise InvalidRecordError("AgentRecord", "", reason)
    return name


def _state_of(agent: object) -> dict[str, Any]:
    """What its `state_dict()` gives; nothing where it has none, or is a name.

    Source: AgentScope's StateModule, and PyTorch's before it.
    """
    give: Callable[[], Mapping[str, Any]] | None = getattr(agent, "state_dict", None)
    return {} if give is None else require_mapping(give(), "what state_dict() returns")


def _load_state(agent: object, state: dict[str, Any]) -> None:
    load = getattr(agent, "load_state_dict", None)
    if load is not None:
        cast("Callable[[dict[str, Any]], object]", load)(state)


def _refuse_strange(collection: str, id: str, field: str, value: object) -> None:
    if not is_plain(value):
        reason = (
            f"{field} holds what JSON would change: only text, numbers, lists and dicts by text come back as they are"
        )
        raise InvalidRecordError(collection, id, reason)
