"""Work in steps: how far it is, what came of each step, and checkpoints to go back to.

A workflow is one record of its branch, its steps included. So each change is a commit, or part of the session's next one, and
a checkout rewinds it together with the variables. A checkpoint is a copy of the steps under a number of its own: going back to
it is a change like any other, and forgets nothing.
"""

from __future__ import annotations

import builtins
import glob
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import BaseModel, Field

from agent_kernel.errors import (
    InvalidRecordError,
    RecordNotFoundError,
    RecordStateError,
    StaleRecordError,
    TransitionError,
)
from agent_kernel.records.collection import Records, together
from agent_kernel.records.documents import (
    as_document,
    checks_arguments,
    first_free,
    is_alive,
    not_negative,
    now_s,
    require_mapping,
    require_name,
    require_text,
    shown,
    texts,
    this_process,
)
from agent_kernel.records.schema import Record

if TYPE_CHECKING:
    from agent_kernel.repository import Repository

Status: TypeAlias = Literal["PENDING", "RUNNING", "PAUSED", "WAITING", "COMPLETED", "FAILED", "CANCELLED"]
StepStatus: TypeAlias = Literal["PENDING", "RUNNING", "COMPLETED", "FAILED", "SKIPPED"]
_DONE: Final = ("COMPLETED", "SKIPPED")
_OVER: Final = ("COMPLETED", "FAILED", "CANCELLED")
_AT_WORK: Final[set[tuple[int, str, str, float]]] = set()  # the steps that threads of this process are at


class Step(BaseModel):
    """One step: its status, and what came of it."""

    name: str
    status: StepStatus = "PENDING"
    result: Any = None
    error: str = ""
    attempts: int = 0
    started_s: float = 0.0  # seconds since 1970
    duration_s: float = 0.0
    process: str = ""


class Progress(BaseModel):
    """How many steps are done, of how many."""

    current: int
    total: int

    @property
    def fraction(self) -> float:
        return self.current / self.total if self.total else 0.0


class Workflow(Record):
    """A workflow with its steps."""

    collection = "Workflow"
    transitions: ClassVar[Mapping[str, Any]] = {
        "PENDING": ("RUNNING", "CANCELLED"),
        "RUNNING": ("PAUSED", "WAITING", "COMPLETED", "FAILED", "CANCELLED"),
        "PAUSED": ("RUNNING", "CANCELLED"),
        "WAITING": ("RUNNING", "PAUSED", "FAILED", "CANCELLED"),
        "COMPLETED": ("RUNNING",),  # from a checkpoint
        "FAILED": ("RUNNING", "CANCELLED"),
        "CANCELLED": ("RUNNING",),  # from a checkpoint
    }

    name: str
    status: Status = "PENDING"
    steps: list[Step] = Field(default_factory=list[Step])
    is_open: bool = False  # steps are added as they are entered
    reason: str = ""  # why it is paused, waits, failed or was cancelled
    context: dict[str, Any] = Field(default_factory=dict[str, Any])
    checkpoint_every: int = 0  # steps; 0: only when it is asked for
    checkpoints: int = 0  # how many were made
    started_s: float = 0.0  # seconds since 1970

    @property
    def progress(self) -> Progress:
        """How far it is."""
        return Progress(current=sum(step.status in _DONE for step in self.steps), total=len(self.steps))

    def step(self, name: str) -> Step:
        """A step. Raises: RecordStateError: no step has this name."""
        for step in self.steps:
            if step.name == name:
                return step
        known = ", ".join(step.name for step in self.steps) or "none yet"
        raise RecordStateError(self.collection, self.id, f"it has no step {name!r} (its steps: {known})")

    @property
    def way_on(self) -> str:
        """The calls that lead on from its status."""
        back = "resume(at=…) goes back to a checkpoint" if self.checkpoints else ""
        return {
            "PENDING": "resume() it first",
            "PAUSED": "resume() it first",
            "WAITING": "resume() it first",
            "FAILED": "retry() the step that failed, or resume() it, first",
            "CANCELLED": back or "it has no checkpoint to resume at; start() another workflow",
            "COMPLETED": "; ".join(filter(None, ("retry() takes back a step that you name", back))),
        }.get(self.status, "")

    @property
    def next_step(self) -> Step | None:
        """The first step that is not done."""
        return next((step for step in self.steps if step.status not in _DONE), None)


class WorkflowCheckpoint(Record):
    """A copy of a workflow. Its id is `WORKFLOW@NUMBER`."""

    collection = "WorkflowCheckpoint"
    workflow: str
    number: int
    name: str = ""
    time_s: float = 0.0  # seconds since 1970
    state: Workflow


class StepRun:
    """A step while it runs. Set its `result`, which is recorded as it ends.

    Of what JSON does not hold, the nearest that it does is recorded (a tuple as a list), or its `repr` as text.
    """

    def __init__(self, flows: Workflows, id: str, step: Step) -> None:
        self._flows = flows
        self._id = id
        self.step = step
        self.result: Any = None

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody cancelled the workflow meanwhile: a long step looks now and then."""
        return self._flows[self._id].status == "CANCELLED"


@checks_arguments
class Workflows:
    """The workflows of the branch.

    >>> import agent_kernel as ak
    >>> flows = ak.open("memory:").workflows
    >>> _ = flows.start("nightly", ["load", "clean"])
    >>> with flows.step("nightly", "load") as step:
    ...     step.result = {"rows": 344}
    >>> flows.progress("nightly").current, flows["nightly"].step("load").result
    (1, {'rows': 344})
    """

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self.records: Records[Workflow] = Records(repo, Workflow)
        self._checkpoints: Records[WorkflowCheckpoint] = Records(repo, WorkflowCheckpoint)

    def __getitem__(self, id: str) -> Workflow:
        """A workflow. Raises: RecordNotFoundError: no workflow has this id."""
        return self.records[id]

    get = __getitem__

    def __iter__(self) -> Iterator[Workflow]:
        """As `list` has them."""
        return iter(self.list())

    def __contains__(self, one: object) -> bool:
        return (one.id if isinstance(one, Workflow) else one) in self.records

    def start(
        self,
        name: str,
        steps: Iterable[str] = (),
        *,
        id: str = "",
        context: dict[str, object] | None = None,
        checkpoint_every: int = 0,
    ) -> Workflow:
        """Begin a workflow.

        Args:
            steps: their names, in order. Without any they are added as they are entered, and `complete` ends the workflow.
            id: by default its name, or `name-2` and so on where that is taken.
            checkpoint_every: make a checkpoint each time that so many more steps are completed.

        Raises:
            StaleRecordError: there is a workflow of the `id` that was given. InvalidRecordError: two steps have one name.
            TypeError: `steps` is one text.
        """
        require_name(name, "name")
        require_text(id, "id")
        names = texts(steps, "steps")
        for one in names:
            require_name(one, "a step")
        not_negative(checkpoint_every, "checkpoint_every")
        if len(set(names)) < len(names):
            raise InvalidRecordError(Workflow.collection, id or name, "two of its steps have one name")
        flow = self.records.make(
            id=id or name,
            name=name,
            status="RUNNING",
            steps=[{"name": step} for step in names],
            is_open=not names,
            context={} if context is None else require_mapping(context, "context"),
            checkpoint_every=checkpoint_every,
            started_s=now_s(),
        )
        if id:
            return self.records.put(flow, expect=0)
        return first_free(
            name, lambda free: self.records.put(flow.model_copy(update={"id": free}), expect=0), StaleRecordError
        )

    def progress(self, id: str) -> Progress:
        """How far a workflow is."""
        return self[id].progress

    def list(self, status: Status | None = None) -> list[Workflow]:
        """The workflows, or those of one status, the newest first."""
        where = None if status is None else {"status": status}
        return self.records.find(where=where, order="-started_s")

    def delete(self, id: str) -> bool:
        """Delete a workflow that is over, with its checkpoints; whether it was there. Earlier commits still have it.

        Raises:
            RecordStateError: it is not over (completed, failed or cancelled), or a step of it still runs.
        """

        def act() -> bool:
            flow: Workflow | None = self.records.get(id)
            if flow is None:
                return False
            if flow.status not in _OVER:
                raise _not_now(id, f"it is {flow.status}; cancel({id!r}) it first")
            for step in flow.steps:
                if who := self._who_is_at(id, step):
                    raise _not_now(id, f"{who} is at its step {step.name}; wait until it ends")
            for point in self.checkpoints(id):
                self._checkpoints.delete(point.id)
            return self.records.delete(id)

        return together(self.records, act, f"workflow {id}: delete")

    # -- steps

    @contextmanager
    def step(self, id: str, name: str) -> Generator[StepRun]:
        """Do a step in the block. It is completed as the block ends, and the workflow with its last one.

        What the block raises fails the step and the workflow, and is raised on; entering the step once more tries it again. An
        interrupt pauses the workflow instead. While it is paused, or over, no step begins.

        Raises:
            TransitionError: the workflow does not run. RecordStateError: it has no such step, the step is done, or
                another living process or thread is at it.
        """
        mine = (hash(self.repo.store.url), _id_of(id), require_name(name, "name"), now_s())
        _AT_WORK.add(mine)
        try:
            run = StepRun(self, id, self._begin(id, name, mine[-1]))
            yield from self._during(run, id, name)
        finally:
            _AT_WORK.discard(mine)

    def _during(self, run: StepRun, id: str, name: str) -> Generator[StepRun]:
        began = time.perf_counter()
        try:
            yield run
        except BaseException as error:
            message = f"{type(error).__name__}: {error}".rstrip(": ")
            self._end(id, name, time.perf_counter() - began, error=message, is_fault=isinstance(error, Exception))
            raise
        self._end(id, name, time.perf_counter() - began, result=as_document(run.result))

    def _begin(self, id: str, name: str, began_s: float) -> Step:
        process = this_process(self.repo)

        def begin(flow: Workflow) -> None:
            if flow.status == "FAILED":  # trying a step again lets it go on
                flow.status, flow.reason = "RUNNING", ""
            if flow.status != "RUNNING":
                raise _refusal(flow, f"step {name}")
            if flow.is_open and all(step.name != name for step in flow.steps):
                flow.steps.append(Step(name=name))
            step = flow.step(name)
            if step.status in _DONE:
                raise _not_now(id, f"its step {name} is done; retry({id!r}, {name!r}) takes it back")
            who = self._who_is_at(id, step)
            if who == "another process":
                raise _not_now(id, f"another process is at its step {name}; wait until it ends, or dies")
            if who:
                raise _not_now(id, f"this process is at its step {name} already; enter it once, and wait until it ends")
            step.status, step.process, step.started_s, step.error = "RUNNING", process, began_s, ""
            step.attempts += 1

        return self.records.update(id, begin).step(name)

    def _who_is_at(self, id: str, step: Step) -> str:
        """Which process does a step just now; "": none."""
        if step.status != "RUNNING":
            return ""
        if step.process != this_process(self.repo):
            return "another process" if is_alive(step.process, self.repo) else ""
        is_here = (hash(self.repo.store.url), id, step.name, step.started_s) in _AT_WORK
        return "this process" if is_here else ""

    def _end(
        self, id: str, name: str, duration_s: float, *, result: object = None, error: str = "", is_fault: bool = True
    ) -> None:
        def end(flow: Workflow) -> None:
            step = flow.step(name)
            step.duration_s, step.process, step.error = duration_s, "", error
            if not error:
                step.status, step.result = "COMPLETED", result
                _complete(flow)
                return
            step.status = "FAILED" if is_fault else "PENDING"
            if flow.status == "RUNNING":
                flow.status, flow.reason = ("FAILED" if is_fault else "PAUSED"), f"{name}: {error}"

        def store() -> None:
            flow = self.records.update(id, end)
            if not error and flow.checkpoint_every and flow.progress.current % flow.checkpoint_every == 0:
                self.checkpoint(id, f"after {name}")

        together(self.records, store, f"workflow {id}: {name} {'failed' if error else 'completed'}")

    def fail(self, id: str, step: str, error: str) -> Workflow:
        """Say that a step failed, which fails the workflow. Raises: TransitionError: it does not run."""

        def fail(flow: Workflow) -> None:
            found = flow.step(step)
            _require_next(flow, "FAILED")
            found.status, found.error, found.process = "FAILED", error, ""
            flow.status, flow.reason = "FAILED", f"{step}: {error}"

        return self.records.update(id, fail)

    def retry(self, id: str, step: str = "") -> Workflow:
        """Take back a step, by default the one that failed, so that it can be done again. The workflow runs on.

        Raises:
            TransitionError: the workflow is paused, waits or is cancelled: `resume` comes first. RecordStateError: no step failed,
                or it has no such step.
        """

        def again(flow: Workflow) -> None:
            if flow.status in ("PAUSED", "WAITING", "CANCELLED"):
                raise _refusal(flow, "RUNNING by retry")
            failed = step or next((one.name for one in flow.steps if one.status == "FAILED"), "")
            if not failed and flow.status != "FAILED":
                raise _not_now(id, f"none of its steps failed; name the one to take back: retry({id!r}, step)")
            if failed:
                found = flow.step(failed)
                found.status, found.error, found.result = "PENDING", "", None
            flow.status, flow.reason = "RUNNING", ""

        return self.records.update(id, again)

    def skip(self, id: str, step: str) -> Workflow:
        """Leave a step out. It counts as done. Raises: RecordStateError: the workflow has no such step."""

        def skip(flow: Workflow) -> None:
            flow.step(step).status = "SKIPPED"
            _complete(flow)

        return self.records.update(id, skip)

    # -- the whole

    def pause(self, id: str, reason: str = "") -> Workflow:
        """Let no further step begin, until `resume`. Raises: TransitionError: it does not run."""
        return self._to(id, "PAUSED", reason)

    def wait(self, id: str, reason: str = "") -> Workflow:
        """Wait for somebody: an approval, an answer. `resume` goes on. Raises: TransitionError: it does not run."""
        return self._to(id, "WAITING", reason)

    def cancel(self, id: str, reason: str = "") -> Workflow:
        """Give a workflow up. Raises: TransitionError: it is completed."""
        return self._to(id, "CANCELLED", reason)

    def complete(self, id: str) -> Workflow:
        """Say that a workflow is completed. One whose steps were given to `start` is completed with the last of them."""
        return self._to(id, "COMPLETED", "")

    def _to(self, id: str, status: Status, reason: str) -> Workflow:
        def go(flow: Workflow) -> None:
            _require_next(flow, status)
            flow.status, flow.reason = status, reason

        return self.records.update(id, go)

    def resume(self, id: str, at: str | int | None = None) -> Workflow:
        """Let a workflow go on. If all of its steps are done, it is completed.

        Args:
            at: a checkpoint, by its number, its name or "latest", to whose steps it goes back. Later checkpoints stay.

        Raises:
            TransitionError: it is over, and there is no `at`. RecordNotFoundError: there is no such checkpoint.
        """
        if at is None:
            return self._change(id, lambda flow: None, over=False)
        state = self._checkpoint(id, at).state

        def back(flow: Workflow) -> None:
            flow.steps, flow.context = state.steps, state.context
            for step in flow.steps:
                if step.status == "RUNNING":
                    step.status, step.process = "PENDING", ""

        return self._change(id, back, over=True)

    def _change(self, id: str, change: Callable[[Workflow], None], *, over: bool) -> Workflow:
        def go_on(flow: Workflow) -> None:
            if flow.status in ("COMPLETED", "CANCELLED") and not over:
                raise _refusal(flow, "RUNNING")
            change(flow)
            flow.status, flow.reason = "RUNNING", ""

        def act() -> Workflow:
            flow = self.records.update(id, go_on)
            return self.records.update(id, _complete) if _is_done(flow) else flow

        return together(self.records, act, f"workflow {id}: resume")

    # -- checkpoints

    def checkpoint(self, id: str, name: str = "") -> WorkflowCheckpoint:
        """Keep how a workflow stands, to go back to it."""

        def keep() -> WorkflowCheckpoint:
            flow = self.records.update(id, lambda old: old.model_copy(update={"checkpoints": old.checkpoints + 1}))
            number = flow.checkpoints
            point = WorkflowCheckpoint(
                id=f"{id}@{number:06d}", workflow=id, number=number, name=name, time_s=now_s(), state=flow
            )
            return self._checkpoints.put(point)

        return together(self.records, keep, f"workflow {id}: checkpoint {name}".rstrip())

    def checkpoints(self, id: str) -> builtins.list[WorkflowCheckpoint]:
        """The checkpoints of a workflow, the first one first."""
        found = self._checkpoints.find(f"{glob.escape(_id_of(id))}@*", where={"workflow": id})
        return sorted(found, key=lambda point: point.number)

    def _checkpoint(self, id: str, at: str | int) -> WorkflowCheckpoint:
        found = self.checkpoints(id)
        for point in reversed(found):
            if at == "latest" or at in (point.number, point.id, point.name):
                return point
        raise RecordNotFoundError("checkpoint", str(at), f"of workflow {id!r}")


def _id_of(id: object) -> str:
    """The id of a workflow. Raises: InvalidRecordError: it is no text."""
    if not isinstance(id, str):
        raise InvalidRecordError(Workflow.collection, shown(id), "an id is text")
    return id


def _not_now(id: str, reason: str) -> RecordStateError:
    return RecordStateError(Workflow.collection, id, reason)


def _require_next(flow: Workflow, status: Status) -> None:
    if status not in (flow.status, *Workflow.transitions[flow.status]):
        raise _refusal(flow, status)


def _refusal(flow: Workflow, new: str) -> TransitionError:
    return TransitionError(
        Workflow.collection, flow.id, flow.status, new, Workflow.transitions[flow.status], flow.way_on
    )


def _is_done(flow: Workflow) -> bool:
    return flow.status == "RUNNING" and not flow.is_open and flow.next_step is None


def _complete(flow: Workflow) -> None:
    if _is_done(flow):
        flow.status = "COMPLETED"
