"""Tasks for a team: each goes to exactly one worker, and comes back if that one dies. Who is in the team, and the locks that processes share.

A task is a record beside all branches, so no checkout does it again. A worker has it for the seconds of its lease, and may
extend that; a lease whose process is gone ends at once. A task whose lease has ended counts as pending, and whoever claims next
first puts it back. Each claim has a number. A late answer counts as long as nobody else has claimed the task, and is refused then.
"""

from __future__ import annotations

import builtins
import glob
import os
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, Self, TypeAlias, cast

import msgspec
from pydantic import BaseModel, Field

from agent_kernel.errors import (
    InvalidRecordError,
    LockHeldError,
    RecordError,
    RecordNotFoundError,
    RecordStateError,
    StaleRecordError,
    TransitionError,
)
from agent_kernel.quiet import Repeated
from agent_kernel.records.collection import Records, is_in_transaction, together
from agent_kernel.records.documents import (
    as_document,
    call_with,
    checks_arguments,
    is_alive,
    is_several,
    is_text,
    new_id,
    not_negative,
    now_s,
    require_mapping,
    require_name,
    require_plain_function,
    require_result,
    require_takes,
    require_text,
    require_whole,
    seconds,
    shown,
    texts,
    this_process,
)
from agent_kernel.records.schema import ROWS, Record, as_rows
from agent_kernel.repository import Holder
from agent_kernel.storage import SupportsLiveness

if TYPE_CHECKING:
    from collections.abc import Generator

    from agent_kernel.repository import Repository

TaskStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]

_CHANCE: Final = random.SystemRandom()  # the program's random numbers stay as they are
_MOST_LOST_CLAIMS: Final = 5  # so many workers may die with a task; then the task is what kills them
_LOOK_S: Final = 1.0  # between looks at whether the processes of the leases live, while there is other work
_LOOK_AGAIN_S: Final = 0.05  # the same, while no task is ready
_MOST_CANDIDATES: Final = 8
_ALL: Final = 1_000_000
_DIGITS: Final = 20
_MOST_NAME: Final = 60  # bytes of a team's name, and of the id of a task: an entry of the index has two ids
_NO_END: Final = 9e9  # seconds since 1970: a lease without an end sorts behind all others


class Task(Record):
    """One task of a queue. Its id is `TEAM/…`."""

    collection = "Task"
    plane = "store"
    transitions: ClassVar[Mapping[str, Any]] = {
        "pending": ("in_progress", "failed", "cancelled"),
        "in_progress": ("pending", "completed", "failed", "cancelled"),
        "completed": (),
        "failed": ("pending",),
        "cancelled": ("pending",),
    }

    team: str
    name: str
    args: dict[str, Any] = Field(default_factory=dict[str, Any])
    priority: int = 0  # the highest goes first
    status: TaskStatus = "pending"
    pushed_s: float = 0.0  # all times in seconds since 1970
    not_before_s: float = 0.0
    needs: list[str] = Field(default_factory=list[str])  # tasks that must be completed before
    waits_for: str = ""  # the first of these that is not
    needed: int = 0  # how often another task began to wait for this one
    agent: str = ""
    process: str = ""
    lease_until_s: float = 0.0  # 0: the lease has no end
    claims: int = 0
    lost: int = 0  # claims whose worker died or was too slow
    retries: int = 0  # so many failures may be tried again
    backoff_s: float = 1.0  # before the first of these, and doubled for each after it
    failures: int = 0
    result: Any = None
    error: str = ""
    started_s: float = 0.0
    ended_s: float = 0.0


class Counts(msgspec.Struct, frozen=True):
    """How many tasks stand how. `completion_rate`: the completed ones, of all."""

    pending: int
    in_progress: int
    completed: int
    failed: int
    cancelled: int

    @property
    def total(self) -> int:
        """How many tasks there are."""
        return self.pending + self.in_progress + self.completed + self.failed + self.cancelled

    @property
    def completion_rate(self) -> float:
        """Which part of all tasks is completed, from 0 to 1."""
        return self.completed / self.total if self.total else 0.0


class Worker(Protocol):
    """An agent: it is given words and values."""

    name: str

    def start(self, task: str, *, inputs: Mapping[str, object]) -> Any: ...


class _Taken(Exception):  # noqa: N818 - the next task is tried
    """Somebody else was faster."""


def _index_of(task: Task) -> str:
    """Where a task stands: those that can be claimed in the order in which they are, the others by what they wait for."""
    if task.status == "in_progress":
        return f"{task.team}\0in_progress\0{_sortable(task.lease_until_s or _NO_END)}{task.id}"
    if task.status != "pending":
        return f"{task.team}\0{task.status}\0{task.id}"
    if task.waits_for:
        return f"{task.team}\0pending\0waits\0{task.waits_for}\0{task.id}"
    if task.not_before_s:
        return f"{task.team}\0pending\0later\0{_sortable(task.not_before_s)}{task.id}"
    return f"{task.team}\0pending\0ready\0{_sortable(1e9 - task.priority)}{_sortable(task.pushed_s)}{task.id}"


def _sortable(number: float) -> str:
    return f"{int(number * 1e6):0{_DIGITS}}"


@checks_arguments
class Queue:
    """The tasks of one team.

    >>> import agent_kernel as ak
    >>> queue = ak.open("memory:").queue("web")
    >>> _ = queue.push("tidy up"), queue.push("put out the fire", priority=10)
    >>> task = queue.claim("ada")
    >>> task.name
    'put out the fire'
    >>> _ = queue.done(task, "it is out")
    >>> queue.counts().completed, queue.counts().pending
    (1, 1)
    """

    def __init__(self, repo: Repository, team: str) -> None:
        if "/" in require_name(team, "team") or len(team.encode()) > _MOST_NAME:
            raise ValueError(f"a team has a name of at most {_MOST_NAME} bytes, without /, and not {shown(team)}")
        self.repo = repo
        self.team = team
        self.tasks: Records[Task] = Records(repo, Task, index=_index_of)
        self._looked_s = 0.0
        self._collisions = 0  # where others claim at the same time, not all try the same task again and again

    def __repr__(self) -> str:
        return f"<Queue {self.team}: {self.counts().pending:,} pending>"

    def _repr_html_(self) -> str:
        """A table of the tasks that are at work or wait, in a notebook."""
        counts = self.counts()
        tasks = [*self.in_progress()[:ROWS], *self.find("pending", limit=ROWS)][:ROWS]
        columns = ["name", "status", "agent", "priority", "args"]
        rows = [[getattr(task, name) for name in columns] for task in tasks]
        more = counts.pending + counts.in_progress - len(tasks)
        about = ", ".join(f"{getattr(counts, name):,} {name.replace('_', ' ')}" for name in counts.__struct_fields__)
        return as_rows(f"Queue {self.team}", columns, rows, about, [f"{more:,} more tasks"] if more > 0 else [])

    def __getitem__(self, id: str) -> Task:
        """A task. Raises: RecordNotFoundError: no task has this id."""
        return self._as_it_is(self.tasks[self._id(id)])

    def __iter__(self) -> Iterator[Task]:
        """Its tasks, as `find` lists them."""
        return iter(self.find())

    def __contains__(self, task: object) -> bool:
        return isinstance(task, Task | str) and bool(task) and self._id(task) in self.tasks

    def _id(self, task: Task | str) -> str:
        if not isinstance(task, Task | str):  # pyright: ignore[reportUnnecessaryIsInstance]  # who calls may not check types
            raise TypeError(f"a task is given as itself or by its id, not as {shown(task)}")
        id = task if isinstance(task, str) else task.id
        if not id or not is_text(id):
            raise InvalidRecordError(Task.collection, ascii(id), "an id is text that is not empty and that UTF-8 holds")
        id = id if id.startswith(f"{self.team}/") else f"{self.team}/{id}"
        if len(id.encode()) > 2 * _MOST_NAME + 1:
            raise InvalidRecordError(Task.collection, id[:20] + "…", f"its id has more than {_MOST_NAME} bytes")
        return id

    # -- giving

    def push(
        self,
        name: str,
        args: Mapping[str, object] | None = None,
        *,
        priority: int = 0,
        after: float | timedelta | datetime | Task | str | Iterable[Task | str] = 0.0,
        retries: int = 0,
        backoff_s: float = 1.0,
        id: str = "",
    ) -> Task:
        """Put a task into the queue.

        Args:
            args: what it needs, as JSON holds it.
            priority: the highest goes first, and of the same priority the oldest.
            after: seconds that it waits, a `timedelta`, or the time from which on it can be claimed (a `datetime` with a time zone);
                or tasks that must be completed before. If one of those fails, so does this one.
            retries: how often it is tried again after `fail`.

        Raises:
            RecordNotFoundError: it is to come after a task that is not there.
            StaleRecordError: there is a task of this id. TypeError: `args` is not a mapping. TypeError, ValueError: a number
                makes no sense, the name is empty, or a time has no time zone.
        """
        require_name(name, "name")
        require_whole(priority, "priority")
        not_negative(retries, "retries")
        seconds(backoff_s, "backoff_s")
        delay_s, needs = _waits_for(after)
        task = self.tasks.make(
            id=self._id(require_text(id, "id") or new_id()),
            team=self.team,
            name=name,
            args={} if args is None else require_mapping(args, "args"),
            priority=max(min(priority, 10**6), -(10**6)),
            pushed_s=now_s(),
            not_before_s=now_s() + delay_s if delay_s else 0.0,
            needs=[self._id(one) for one in needs],
            retries=retries,
            backoff_s=backoff_s,
        )
        if not task.needs:
            return self.tasks.put(task, expect=0)
        return together(self.tasks, lambda: self.tasks.put(self._waiting(task), expect=0), f"push {task.id}")

    def push_many(self, names: Iterable[str], **options: Any) -> list[Task]:
        """Put several tasks into the queue at once, all or none."""
        checked = texts(names, "names")
        return together(
            self.tasks, lambda: [self.push(name, **options) for name in checked], f"push {len(checked)} tasks"
        )

    def _waiting(self, task: Task) -> Task:
        """The task with the first that it waits for; failed, where one of these cannot be completed any more."""
        for need in task.needs:
            other = self.tasks.require(need)
            if other.status in ("failed", "cancelled"):
                error = f"it needs {need}, which is {other.status}"
                return task.model_copy(update={"status": "failed", "waits_for": "", "error": error, "ended_s": now_s()})
            if other.status != "completed":
                # A change of that one, so that it cannot end at this moment without seeing who waits for it.
                self.tasks.update(need, needed=other.needed + 1)
                return task.model_copy(update={"waits_for": need})
        return task.model_copy(update={"waits_for": ""})

    # -- taking

    def claim(self, agent: str = "", *, lease_s: float = 60.0) -> Task | None:
        """Take the next task, which nobody else gets meanwhile; None: there is nothing to do just now.

        Args:
            lease_s: seconds until somebody else may have it, unless it is extended. 0: as long as this process lives.
        """
        seconds(lease_s, "lease_s")
        taken: set[str] = set()
        if now_s() - self._looked_s > _LOOK_S:
            self._take_back()
        while True:
            ready = self._ready(taken)
            if not ready and now_s() - self._looked_s > _LOOK_AGAIN_S:
                self._take_back()
                ready = self._ready(taken)
            if not ready:
                return None
            id = ready[_CHANCE.randrange(min(self._collisions, len(ready)) or 1)]
            try:
                return self._start(id, agent, lease_s)
            except (_Taken, RecordNotFoundError):
                if is_in_transaction():  # it goes on seeing the task as it first saw it
                    taken.add(id)
                self._collisions = min(self._collisions + 2, _MOST_CANDIDATES)

    def assign(self, task: Task | str, agent: str, *, lease_s: float = 0.0) -> Task:
        """Give a pending task to an agent. Without a lease it is that agent's until somebody says otherwise.

        Raises:
            TransitionError: it is not pending. RecordStateError: it waits for another task.
        """
        id = self._id(task)
        seconds(lease_s, "lease_s")
        try:
            return self._start(id, agent, lease_s, process="")
        except _Taken:
            found = self.tasks.require(id)
            if found.waits_for:
                reason = f"it waits for {found.waits_for}; assign it when that one is completed"
                raise RecordStateError(Task.collection, id, reason) from None
            raise _refusal(found, "in_progress") from None

    def extend(self, task: Task, *, lease_s: float = 60.0) -> Task:
        """Keep a task for so many seconds from now.

        Raises:
            StaleRecordError: somebody else has it by now, or it is over.
        """
        seconds(lease_s, "lease_s", is_zero_allowed=False)
        if not isinstance(task, Task):  # pyright: ignore[reportUnnecessaryIsInstance]  # who calls may not check types
            raise TypeError(f"extend takes the task that claim returned, not {shown(task)}: it says whose claim it is")

        def keep(now: Task) -> None:
            self._check_claim(now, task)
            if now.status != "in_progress":
                raise self._stale(now, task)
            now.lease_until_s = now_s() + lease_s

        def act() -> Task:
            self._regain(task)
            return self.tasks.update(task.id, keep)

        return together(self.tasks, act)

    def _ready(self, taken: Collection[str]) -> list[str]:
        for id in self._first(f"{self.team}\0pending\0later\0", _MOST_CANDIDATES):
            if not self._change_if(id, _is_due, lambda task: setattr(task, "not_before_s", 0.0)):
                break
        ready = self._first(f"{self.team}\0pending\0ready\0", max(self._collisions, 1) + len(taken))
        return [id for id in ready if id not in taken]

    def _first(self, prefix: str, limit: int = _ALL) -> list[str]:
        """The ids of the first tasks whose entries in the index begin so."""
        return self.tasks.first(prefix, limit)

    def _start(self, id: str, agent: str, lease_s: float, process: str | None = None) -> Task:
        process = this_process(self.repo) if process is None else process

        def start(task: Task) -> None:
            if task.status != "pending" or task.waits_for:
                raise _Taken
            task.status, task.agent, task.process = "in_progress", agent, process
            task.claims += 1
            task.started_s = now_s()
            task.lease_until_s = now_s() + lease_s if lease_s else 0.0
            task.not_before_s = 0.0

        return self.tasks.update(id, start)

    def _take_back(self) -> None:
        """Return tasks to the queue whose lease has ended, or whose worker died."""
        self._looked_s = now_s()
        for task in self._stored("in_progress"):
            if not self._is_claim_valid(task):
                self._change_if(task.id, lambda now: not self._is_claim_valid(now), self._end_lost_claim)

    def _is_claim_valid(self, task: Task) -> bool:
        is_over = 0 < task.lease_until_s <= now_s()
        return task.status != "in_progress" or not (is_over or not is_alive(task.process, self.repo))

    def _as_it_is(self, task: Task) -> Task:
        """A task whose lease has ended as whoever claims next will find it."""
        if self._is_claim_valid(task):
            return task
        found = task.model_copy()
        self._end_lost_claim(found)
        return found

    def _end_lost_claim(self, task: Task) -> None:
        task.lost += 1
        if task.lost >= _MOST_LOST_CLAIMS:
            task.status, task.ended_s = "failed", now_s()
            task.error = f"{task.lost} workers died with it, or were too slow"
        else:
            task.status = "pending"
        task.agent, task.process, task.lease_until_s = "", "", 0.0

    def _change_if(self, id: str, wanted: Callable[[Task], bool], change: Callable[[Task], object]) -> bool:
        def check(task: Task) -> None:
            if not wanted(task):
                raise _Taken
            change(task)

        def store() -> None:
            if self.tasks.update(id, check).status == "failed":
                self._release(id)

        try:
            together(self.tasks, store)
        except (_Taken, RecordNotFoundError):
            return False
        return True

    # -- answering

    def done(self, task: Task | str, result: object = None) -> Task:
        """Say that a task is completed. Tasks that waited for it can be claimed.

        Args:
            result: what came of it. Of what JSON does not hold, the nearest that it does is recorded, or a text.

        Raises:
            StaleRecordError: the lease ended, and somebody else has claimed the task since. TransitionError: it is not in progress.
        """

        def complete(now: Task) -> None:
            self._check_claim(now, task)
            _require_in_progress(now, "completed")
            now.status, now.result, now.error, now.ended_s = "completed", as_document(result), "", now_s()
            now.process = ""

        return self._end(task, complete)

    def fail(self, task: Task | str, error: object = "", *, retry: bool | float | None = None) -> Task:
        """Say that a task failed.

        Args:
            retry: whether it goes back into the queue, or after how many seconds; by default as it was pushed.

        Raises:
            StaleRecordError: the lease ended, and somebody else has claimed the task since. TransitionError: it is not in progress.
        """
        if retry is not None and not isinstance(retry, bool):
            seconds(retry, "retry")

        def fail(now: Task) -> None:
            self._check_claim(now, task)
            _require_in_progress(now, "failed")
            now.failures += 1
            now.error = str(error) if not isinstance(error, BaseException) else f"{type(error).__name__}: {error}"
            now.agent, now.process, now.lease_until_s = "", "", 0.0
            if retry is False or (retry is None and now.failures > now.retries):
                now.status, now.ended_s = "failed", now_s()
                return
            now.status = "pending"
            wait_s = now.backoff_s * 2.0 ** (now.failures - 1) if retry is None else 0.0 if retry is True else retry
            now.not_before_s = now_s() + wait_s if wait_s > 0 else 0.0

        return self._end(task, fail)

    def give_back(self, task: Task | str) -> Task:
        """Return a task to the queue that was neither done nor failed. Raises: as `done`."""

        def leave(now: Task) -> None:
            self._check_claim(now, task)
            _require_in_progress(now, "pending")
            now.status, now.agent, now.process, now.lease_until_s = "pending", "", "", 0.0

        return self._end(task, leave)

    def cancel(self, task: Task | str) -> Task:
        """Take a task out of the queue. Tasks that need it fail. Raises: TransitionError: it is over."""

        def cancel(now: Task) -> None:
            if "cancelled" not in Task.transitions[now.status]:
                raise _refusal(now, "cancelled")
            now.status, now.process, now.ended_s = "cancelled", "", now_s()

        return self._end(task, cancel)

    def retry(self, task: Task | str) -> Task:
        """Put a failed or cancelled task back into the queue. Raises: TransitionError: it did not fail."""

        def again(now: Task) -> Task:
            if now.status not in ("failed", "cancelled"):
                raise _refusal(now, "pending")
            now.status, now.error, now.failures, now.lost, now.ended_s = "pending", "", 0, 0, 0.0
            return self._waiting(now)

        return together(self.tasks, lambda: self.tasks.update(self._id(task), again))

    def _check_claim(self, now: Task, task: Task | str) -> None:
        if isinstance(task, Task) and now.claims != task.claims:
            raise self._stale(now, task)

    def _stale(self, now: Task, task: Task) -> StaleRecordError:
        why = "your lease ended" if task.claims else "you did not claim it"
        who = now.agent or "another worker"
        what = {
            "in_progress": f"{who} has it",
            "completed": f"{who} completed it",
            "pending": "it is back in the queue",
        }.get(now.status, f"it is {now.status}")
        reason = f"is not yours: {why}, and {what}"
        return StaleRecordError(Task.collection, now.id, task.claims, now.claims, "claim", reason)

    def _regain(self, task: Task | str) -> None:
        """Take a task again that went back into the queue because the lease ended, and that nobody has claimed since."""
        now: Task | None = self.tasks.get(task.id) if isinstance(task, Task) else None
        if now is None or not isinstance(task, Task) or now.status != "pending":
            return
        if task.status == "in_progress" and (now.claims, now.lost) == (task.claims, task.lost + 1):
            fields = {"status": "in_progress", "agent": task.agent, "process": task.process, "lost": task.lost}
            self.tasks.update(now.id, lambda old: old.model_copy(update=fields))

    def _end(self, task: Task | str, change: Callable[[Task], None]) -> Task:
        id = self._id(task)

        def end() -> Task:
            self._regain(task)
            ended = self.tasks.update(id, change)
            if ended.status != "pending":
                self._release(id)
            return ended

        return together(self.tasks, end)

    def _release(self, id: str) -> None:
        """Look again at the tasks that waited for this one."""
        for waiting in self._first(f"{self.team}\0pending\0waits\0{id}\0"):
            if self.tasks.update(waiting, self._waiting).status == "failed":
                self._release(waiting)

    # -- looking

    def counts(self) -> Counts:
        """How many tasks stand how. Those whose lease has ended are pending again."""
        counts = {status: self._count(status) for status in Counts.__struct_fields__}
        for task in self._stored("in_progress"):
            now = self._as_it_is(task)
            counts["in_progress"] -= 1
            counts[now.status] += 1
        return Counts(**counts)

    def _count(self, status: str) -> int:
        prefix = f"{self.team}\0{status}\0"
        return len(self._first(prefix)) if is_in_transaction() else self.tasks.count(prefix)

    def find(self, status: TaskStatus | None = None, limit: int | None = None) -> list[Task]:
        """The tasks, the first ones first; with a status, those in the order in which they are served.

        Raises:
            ValueError: no task ever has that status, or the limit is below 0.
        """
        if status is not None:
            self.tasks.schema.require_value("status", status)
        if limit is not None:
            not_negative(limit, "limit")
        if status is None:
            return [self._as_it_is(one) for one in self.tasks.find(f"{glob.escape(self.team)}/*", limit=limit)]
        now = [self._as_it_is(one) for one in self._stored("in_progress")]
        found = [one for one in now if one.status == status]
        if status != "in_progress":
            found = sorted((*self._stored(status, limit), *found), key=_index_of)
        return found[:limit]

    def _stored(self, status: TaskStatus, limit: int | None = None) -> list[Task]:
        ids = self._first(f"{self.team}\0{status}\0", _ALL if limit is None else limit)
        return [task for id in ids if (task := self.tasks.get(id)) is not None]

    def in_progress(self) -> list[Task]:
        """The tasks that somebody has, those first whose lease ends first."""
        return self.find("in_progress")

    # -- working

    def run(self, worker: Worker | Callable[[Task], object], agent: str = "", *, lease_s: float = 60.0) -> Task | None:
        """Claim a task, do it, and say how it went. Returns it as it is then; None: there was nothing to do.

        The lease is extended for as long as the worker takes. What the worker raises fails the task, and is not raised here.

        Args:
            worker: a function of the task, which returns the result; or an agent, which is given the task's name as its words
                and its `args` as inputs.

        Raises:
            TypeError: the function is async, or a generator. No task was claimed.
        """
        _require_worker(worker)
        task = self.claim(_name(worker, agent), lease_s=lease_s)
        return None if task is None else self._work(worker, task, lease_s)()

    def drain(self, worker: Worker | Callable[[Task], object], agent: str = "", *, lease_s: float = 60.0) -> int:
        """Do tasks, as `run` does, until there is nothing to claim; how many. Raises: as `run`."""
        _require_worker(worker)
        name, count = _name(worker, agent), 0
        while (task := self.claim(name, lease_s=lease_s)) is not None:
            while task is not None:
                answer = self._work(worker, task, lease_s)
                count += 1
                task = together(self.tasks, lambda: (answer(), self.claim(name, lease_s=lease_s))[1])  # noqa: B023
        return count

    def _work(self, worker: Worker | Callable[[Task], object], task: Task, lease_s: float) -> Callable[[], Task]:
        """Do a task; returns what says how it went."""
        try:
            with self._extended(task, lease_s):
                result = as_document(_do(worker, task))
        except Exception as error:  # noqa: BLE001 - of the worker, whoever that is
            message = f"{type(error).__name__}: {error}"
            return lambda: self._answer(task, lambda: self.fail(task, message))
        except BaseException:  # a person stops it: nothing is wrong with the task
            self._answer(task, lambda: self.give_back(task))
            raise
        return lambda: self._answer(task, lambda: self.done(task, result))

    def _answer(self, task: Task, report: Callable[[], Task]) -> Task:
        try:
            return report()
        except RecordError:  # somebody else has it by now, or it was cancelled: their word counts
            found: Task = self.tasks.get(task.id, task)
            return found

    @contextmanager
    def _extended(self, task: Task, lease_s: float) -> Generator[None]:
        beat = _Heartbeat(lambda: self.extend(task, lease_s=lease_s), lease_s / 3) if lease_s else None
        try:
            yield
        finally:
            if beat is not None:
                beat.stop()


class _Heartbeat:
    """Calls a function every so many seconds, until it is stopped or the function raises."""

    def __init__(self, call: Callable[[], object], every_s: float) -> None:
        self._call = call
        self._every_s = every_s
        self._lock = threading.Lock()
        self._is_stopped = False
        self._beats = Repeated("lease", self._beat, every_s)

    def _beat(self) -> float | None:
        try:
            with self._lock:
                if not self._is_stopped:
                    self._call()
        except RecordError:
            return None  # the task is somebody else's by now
        return self._every_s

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
        self._beats.close()


def _name(worker: object, agent: str) -> str:
    return agent or (str(getattr(worker, "name", "")) if _is_agent(worker) else "")


def _is_agent(worker: object) -> bool:
    return hasattr(worker, "start") and hasattr(worker, "registry")  # this layer does not know their class


def _do(worker: Worker | Callable[[Task], object], task: Task) -> object:
    if _is_agent(worker):
        return cast("Worker", worker).start(task.name, inputs=task.args).result()
    return require_result(call_with(cast("Callable[[Task], object]", worker), "a queue", task), "a queue")


def _waits_for(after: object) -> tuple[float, list[Task | str]]:
    """The seconds for which a task waits, and the tasks."""
    if isinstance(after, timedelta):
        return seconds(after.total_seconds(), "after"), []
    if isinstance(after, datetime):
        if after.tzinfo is None or after.utcoffset() is None:
            raise ValueError(
                f"after is a time with a time zone, not {after!r}: give it one, datetime.now(UTC) for example"
            )
        return seconds(max(after.timestamp() - now_s(), 0.0), "after"), []
    if isinstance(after, int | float):
        return seconds(after, "after"), []
    if isinstance(after, str | Task):
        return 0.0, [after]
    if not is_several(after):
        raise TypeError(
            f"after is a number of seconds, a timedelta, a datetime, a task or a list of tasks, not {shown(after)}"
        )
    return 0.0, list(after)


def _require_worker(worker: object) -> None:
    if not _is_agent(worker):
        require_plain_function(worker, "a queue")
        require_takes(cast("Callable[..., object]", worker), "a worker", 1)


def _require_in_progress(task: Task, new: TaskStatus) -> None:
    """What was answered once is not answered again: the table lets each status follow itself, and a result would be replaced."""
    if task.status != "in_progress":
        raise _refusal(task, new)


def _refusal(task: Task, new: TaskStatus) -> TransitionError:
    """That a verb of the queue cannot change the status in this way, and what can."""
    way = {
        "pending": "nobody has it yet; claim() it first, or assign() it",
        "in_progress": "an agent has it; done(), fail() or give_back() ends that first",
        "completed": "it is completed; push() another one to have it done again",
        "failed": "it failed; retry() puts it back into the queue",
        "cancelled": "it is cancelled; retry() puts it back into the queue",
    }[task.status]
    return TransitionError(Task.collection, task.id, task.status, new, Task.transitions[task.status], way)


def _is_due(task: Task) -> bool:
    return task.status == "pending" and task.not_before_s <= now_s()


# -- agents that work together: who is there, what each can do and does, and what they share


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


# -- locks that processes share: leases, as those of tasks
#
# A lock ends by itself when its time is over, or its process or machine is gone. So nobody waits for the dead, and whoever works longer
# than their lease may find that somebody else has it. `token` grows with each holder: hand it to what you change under the lock, and
# let it refuse smaller ones.


_LEAST_WAIT_S: Final = 0.005
_MOST_WAIT_S: Final = 0.1


_OF_THREAD: Final = threading.local()  # `owners`: what this thread has


class _Lease(Record):
    collection = "lock"
    plane = "store"
    keeps_past = False
    owner: str = ""  # drawn by lot; "": it is free
    holder: list[str | int] = []  # noqa: RUF012  # pydantic copies it
    until_ns: int = 0

    def who(self) -> Holder:
        return msgspec.convert(self.holder, Holder)

    def is_over(self, store: object) -> bool:
        return not self.owner or self.until_ns <= time.time_ns() or not self.who().is_alive(store)


@checks_arguments
class Lock:
    """A lock by name, for threads and processes. It cannot be taken twice by one.

    Raises:
        TypeError, ValueError: `lease_s` is not more than 0, or `wait_s` is negative.

    >>> import agent_kernel as ak
    >>> repo = ak.open("memory:")
    >>> with repo.lock("index", lease_s=30) as lock:
    ...     repo.lock("index").acquire(wait_s=0)
    False
    """

    def __init__(self, repo: Repository, name: str, *, lease_s: float = 60.0, wait_s: float | None = None) -> None:
        self.name = require_name(name, "name")
        self.lease_s = seconds(lease_s, "lease_s", is_zero_allowed=False)
        self._wait_s = lease_s if wait_s is None else _wait(wait_s)
        self._records = Records(repo, _Lease)
        self._mine = threading.local()

    def acquire(self, *, wait_s: float | None = None) -> bool:
        """Take the lock; False: others had it all the time.

        Args:
            wait_s: seconds to wait for it; by default what the lock was made with.
        """
        if is_in_transaction():
            raise ValueError("a lock is taken at once, and so not within a transaction")
        until = time.monotonic() + (self._wait_s if wait_s is None else _wait(wait_s))
        pause_s = _LEAST_WAIT_S
        while not self._take():
            remaining_s = until - time.monotonic()
            if remaining_s <= 0:
                return False
            time.sleep(min(pause_s * _CHANCE.uniform(0.5, 1), remaining_s))
            pause_s = min(2 * pause_s, _MOST_WAIT_S)
        return True

    def _take(self) -> bool:
        store = self._records.repo.store
        current: _Lease | None = self._records.get(self.name)
        if current is not None and not current.is_over(store):
            return False
        owner, holder = os.urandom(12).hex(), Holder.of_this_process()
        if isinstance(store, SupportsLiveness):
            store.hold(holder.number)

        def act() -> int:
            found: _Lease | None = self._records.get(self.name)
            if found is not None and not found.is_over(store):
                return 0
            until = time.time_ns() + int(self.lease_s * 1e9)
            holder_fields = msgspec.to_builtins(holder)
            self._records.put(_Lease(id=self.name, owner=owner, holder=holder_fields, until_ns=until))
            return self._records.version(self.name)

        token = together(self._records, act, f"lock: take {self.name}")
        if token:
            self._mine.owner, self._mine.token = owner, token
            _OF_THREAD.__dict__.setdefault("owners", set()).add(owner)
        return bool(token)

    @property
    def token(self) -> int:
        """A number that is larger than that of every earlier holder; 0: this thread does not have the lock."""
        return getattr(self._mine, "token", 0) if self.is_held else 0

    @property
    def is_held(self) -> bool:
        """Whether this thread has the lock, and its time is not over."""
        found: _Lease | None = self._records.get(self.name)
        return self._is_mine(found)

    def holder(self) -> str:
        """Who has it, for people; "": nobody."""
        found: _Lease | None = self._records.get(self.name)
        return "" if found is None or found.is_over(self._records.repo.store) else str(found.who())

    def extend(self, lease_s: float | None = None) -> None:
        """Let the lease begin anew.

        Raises:
            LockHeldError: it was over, and somebody else has the lock, or could have had it.
        """
        for_s = self.lease_s if lease_s is None else seconds(lease_s, "lease_s", is_zero_allowed=False)
        self._set_end(time.time_ns() + int(for_s * 1e9))

    def release(self) -> None:
        """Give the lock back. Nothing happens if it was over."""
        try:
            self._set_end(0)
        except LockHeldError:
            pass
        finally:
            _OF_THREAD.__dict__.setdefault("owners", set()).discard(getattr(self._mine, "owner", ""))
            self._mine.owner, self._mine.token = "", 0

    def _set_end(self, until_ns: int) -> None:
        def act() -> None:
            found: _Lease | None = self._records.get(self.name)
            if found is None or not self._is_mine(found):
                raise LockHeldError("lock", self.name, self.holder())
            owner = found.owner if until_ns else ""
            self._records.put(found.model_copy(update={"owner": owner, "until_ns": until_ns}))

        together(self._records, act, f"lock: {self.name}")

    def _is_mine(self, found: _Lease | None) -> bool:
        mine: str = getattr(self._mine, "owner", "")
        return bool(mine) and found is not None and found.owner == mine and found.until_ns > time.time_ns()

    def __enter__(self) -> Self:
        """Take the lock.

        Raises:
            LockHeldError: somebody else, or this thread, had it all the time.
        """
        if not self.acquire():
            found: _Lease | None = self._records.get(self.name)
            is_here = found is not None and found.owner in _OF_THREAD.__dict__.get("owners", ())
            raise LockHeldError("lock", self.name, self.holder(), is_here)
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _wait(wait_s: float) -> float:
    return wait_s if wait_s == float("inf") else seconds(wait_s, "wait_s")
