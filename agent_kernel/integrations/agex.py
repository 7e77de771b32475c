"""agex's tasks on our agents: `AgentKernelTask` for programs that call tasks, `AgentTasks` for agents' code that defines them.

The world of a task is a branch. Its inputs are variables there, in the commit from which it begins; its value is in the last one,
and is read from there. So all that a task takes and gives is data that the store holds, but for live inputs: these are handed to
the code as they are, are never stored, and are given again where another process goes on.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from agent_kernel.agents.agent import Agent
from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.events import Error, Usage
from agent_kernel.agents.run import Run, Task, caller_names, drive_together
from agent_kernel.errors import (
    AgentError,
    MissingExtraError,
    TaskClarifyError,
    TaskFailedError,
    TaskInterruptedError,
    TaskPendingError,
)
from agent_kernel.repository import ASIDE, Author, hex_of
from agent_kernel.session import Session
from agent_kernel.session.snapshot import Repository

try:
    from agex.stubs import TaskFailed as CalledTaskFailed
    from agex.stubs import TaskNeedsInput
    from agex.task import NeedsInput, TaskError, TaskFailed, TaskInterrupted, TaskSpec
except ImportError as error:
    raise MissingExtraError("agex", "agex") from error

if TYPE_CHECKING:
    from agent_kernel.session.versioned import Versioned

__all__ = ["AgentKernelOutcome", "AgentKernelTask", "AgentTasks"]

Status: TypeAlias = Literal["success", "failed", "needs_input", "cancelled", "interrupted"]

RESULT: Final = "task_result"  # the variable of a kept world that holds the value


@dataclass(frozen=True)
class AgentKernelOutcome:
    """How a task ended. `message` is why it failed, or its question.

    `ref` names the kept world: it is the id of the run, whose branch is `branch`. `head` is that branch's last commit, in hex
    digits.
    """

    status: Status
    run_id: str
    value: Any = None
    message: str | None = None
    ref: str | None = None
    branch: str = ""
    head: str = ""
    usage: Usage = field(default_factory=Usage)
    _resume: Callable[..., AgentKernelOutcome] | None = field(default=None, repr=False, compare=False)

    def resume(self, answer: str, /, **live: object) -> AgentKernelOutcome:
        """Answer its question, and go on where it was. Live inputs are those of before, but for those that are given.

        Raises:
            ValueError: it has asked nothing.
        """
        if self._resume is None:
            raise ValueError(f"only a task that asked can be answered, and this one is {self.status}")
        return self._resume(answer, **live)


class AgentKernelTask:
    """A typed function that an agent performs, each call in a world of its own: `run`, `resume`, or call it for the value.

    Args:
        function: as for `Agent.task`. Its annotations say what is data and what is live, by agex's rules.

    Raises:
        TypeError: it cannot be a task, by the rules of `Agent.task` or of agex.
    """

    def __init__(self, agent: Agent, function: Callable[..., Any]) -> None:
        names = caller_names()
        self.agent = agent
        self.spec = TaskSpec.of(function, names=names)
        self._task: Task[..., Any, Any] = Task(agent, function, "", {}, names)
        self._live = frozenset(name for name, one in self.spec.params.items() if one.kinds == {"live"})
        self._scratch: dict[str, Repository] = {}  # worlds in memory that wait for an answer

    def __repr__(self) -> str:
        return f"<AgentKernelTask {self.spec.name} of {self.agent.name}>"

    def __call__(self, *args: Any, world: Versioned | None = None, **inputs: Any) -> Any:
        """Do it, and return its value.

        Raises:
            agex.TaskFailed, agex.NeedsInput, agex.TaskInterrupted: it has none. TypeError: as `run`.
        """
        outcome = self.run(*args, world=world, **inputs)
        if outcome.status == "success":
            return outcome.value
        kinds = {"failed": TaskFailed, "needs_input": NeedsInput, "interrupted": TaskInterrupted}
        raise kinds.get(outcome.status, TaskError)(self.spec.name, outcome)

    def run(self, *args: Any, world: Versioned | None = None, keep: bool = False, **inputs: Any) -> AgentKernelOutcome:
        """Do it to its end.

        Args:
            world: it works on a fork of this one's last commit; None: on an empty one in memory.
            keep: leave the fork's branch, which holds the inputs and `task_result`. That of a task that asks always stays.

        Raises:
            TypeError: the inputs do not fit, or cannot be in a world. The model was asked nothing.
            ValueError: `keep` without a world.
        """
        _check_keep(world, keep=keep)
        arguments = self._task.bind(args, inputs)
        self._refuse_unstorable()
        live = {name: value for name, value in arguments.items() if name in self._live}
        repo = Repository.open("memory:") if world is None else world.repo
        branch = f"{self.spec.name}-{secrets.token_hex(3)}"
        if world is not None and world.session.head is not None:
            repo.create_branch(branch, world.session.head)
        session = self._enter(repo, branch)
        try:
            run = self._equipped(live).start(
                self._task.text,
                returns=self._task.returns,
                inputs={name: value for name, value in arguments.items() if name not in live},
                state=session,
            )
            return self._settle(run, session, world, live, keep=keep)
        except BaseException:  # nobody has its ref
            session.close()
            self._put_away("", repo, branch, world, is_kept=False)
            raise

    def resume(
        self, ref: str, answer: str, /, *, world: Versioned | None = None, keep: bool = False, **live: Any
    ) -> AgentKernelOutcome:
        """Answer the question of a task, perhaps of another process, and go on where it was.

        Args:
            ref: of the outcome that asked.
            world: the one that it forked; None: it was in memory, and in this process.
            live: its live inputs, which no world holds.

        Raises:
            TypeError: a live input is missing, or is of another type. It still waits for its answer.
            LookupError: there is no such world. ValueError: it is another task's. RunStateError: it waits for nothing.
        """
        _check_keep(world, keep=keep)
        repo = self._scratch.get(ref) if world is None else world.repo
        if repo is None:
            raise LookupError(f"no world {ref!r} is kept in this process: name the world that it forked")
        start = EventStore(repo.store).first(EventStore(repo.store).find(ref))
        if start.task != self._task.text:
            raise ValueError(f"{ref} is a run of another task than {self.spec.name}")
        self._check_live(live)
        session = self._enter(repo, start.branch)
        try:
            run = self._equipped(live).reopen(start.run, returns=self._task.returns, state=session)
            return self._settle(run.resume(answer), session, world, live, keep=keep)
        finally:
            session.close()

    def _refuse_unstorable(self) -> None:
        """Raise before the model is asked, where the value or an input could not be in a world."""
        name = self.spec.name
        if not self.spec.returns.spec.travels:
            raise TypeError(
                f"{name}() returns {_text(self.spec.returns.annotation)}, which no world can hold: it is live"
            )
        for parameter, one in self.spec.params.items():
            if parameter not in self._live and not one.spec.travels:
                raise TypeError(
                    f"{name}(): {parameter!r} mixes data with what is live ({_text(one.annotation)}), which no world can "
                    "hold: make it an argument of its own"
                )

    def _check_live(self, live: Mapping[str, object]) -> None:
        name = self.spec.name
        unknown, missing = sorted(live.keys() - self._live), sorted(self._live - live.keys())
        if unknown:
            raise TypeError(f"{name}(): {', '.join(unknown)}: no live input of it, and the others come from its world")
        if missing:
            raise TypeError(f"{name}(): live inputs are not stored: give {', '.join(missing)} again")
        for one, value in live.items():
            self._task.check_argument(one, value)

    def _enter(self, repo: Repository, branch: str) -> Session:
        author = Author(self.agent.name, "agent")
        session = Session({}, repo, branch=branch, author=author, session_id=ASIDE + secrets.token_hex(4))
        if session.head is not None:
            session.bring_back(partial=True)
        return session

    def _equipped(self, live: Mapping[str, object]) -> Agent:
        """The agent, with the types of the task and what it was given live."""
        of = self.agent
        made = Agent(
            of.name,
            model=of.model,
            primer=of.primer,
            limits=of.limits,
            approve=of.approve,
            on_event=of.on_event,
            context_tokens=of.context_tokens,
            context=of.context,
            model_settings=of.model_settings,
        )
        made.registry = of.registry.copy()
        for kind in self.spec.types.values():
            made.cls(kind)
        for name, value in live.items():
            made.module(value, name=name, visibility="high")
        return made

    def _settle(
        self, run: Run[Any], session: Session, world: Versioned | None, live: Mapping[str, object], *, keep: bool
    ) -> AgentKernelOutcome:
        """Drive the run to where it rests, and keep its world or put it away."""
        status, value, message = _drive(run)
        branch, repo = session.branch or "", session.repo
        if status == "success":
            session.namespace[RESULT] = value
            report = session.commit(f"result of {self.spec.name}", full=True)
            unsaved = next((one for one in report.unsaved if one.name == RESULT), None)
            if unsaved is None:
                value = repo.at(branch)[RESULT]
            else:
                status, value, message = "failed", None, f"its value cannot be stored: {unsaved.reason}"
        head = "" if session.head is None else hex_of(session.head)
        session.close()
        is_kept = keep or status == "needs_input"
        ref = run.id if is_kept else None
        self._put_away(run.id, repo, branch, world, is_kept=is_kept)

        def again(answer: str, /, **more: object) -> AgentKernelOutcome:
            return self.resume(run.id, answer, world=world, keep=keep, **{**live, **more})

        question = again if status == "needs_input" else None
        return AgentKernelOutcome(
            status, run.id, value, message, ref, branch if is_kept else "", head if is_kept else "", run.usage, question
        )

    def _put_away(self, run: str, repo: Repository, branch: str, world: Versioned | None, *, is_kept: bool) -> None:
        if world is None and is_kept:
            self._scratch[run] = repo
        elif world is None:
            self._scratch.pop(run, None)
            repo.close()
        elif not is_kept and branch in repo.branches():
            repo.delete_branch(branch, force=True)


def _check_keep(world: Versioned | None, *, keep: bool) -> None:
    if keep and world is None:
        raise ValueError("keep needs a world: one in memory is gone with the process")


def _drive(run: Run[Any]) -> tuple[Status, Any, str | None]:
    try:
        return "success", run.result(), None
    except TaskClarifyError as asked:
        return "needs_input", None, asked.question
    except TaskFailedError as failed:
        last = next((one for one in reversed(run.events) if isinstance(one, Error)), None)
        is_models = last is not None and last.source == "model" and last.fatal
        return "interrupted" if is_models else "failed", None, failed.reason
    except TaskPendingError as pending:
        return "interrupted", None, str(pending)
    except TaskInterruptedError as stopped:
        return "interrupted", None, str(stopped)


def _text(annotation: object) -> str:
    from agent_kernel.agents.arguments import type_text

    return type_text(annotation) or str(annotation)


class AgentTasks:
    """`agex` in the code of an agent: `@agex.task` defines a function that another agent performs.

    Give it to the agent whose code defines tasks: `lead.module(AgentTasks(helper), name="agex")`. Each call is a sub-agent on a
    fork of the branch, merged as it ends.

    Args:
        agent: performs the tasks.
    """

    TaskFailed = CalledTaskFailed
    TaskNeedsInput = TaskNeedsInput

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def task(self, function: Any = None, /) -> Any:
        """Make a task of a typed, documented, empty function.

        Raises:
            TypeError: it says nothing, has a parameter without an annotation or of a reserved name, or takes or returns what
                is live.
        """
        names = caller_names()

        def make(function: Callable[..., Any]) -> _CodeTask:
            return _CodeTask(self._agent, function, names)

        return make if function is None else make(function)


class _CodeTask:
    def __init__(self, agent: Agent, function: Callable[..., Any], names: Mapping[str, object]) -> None:
        self._agent = agent
        self._task: Task[..., Any, Any] = Task(agent, function, "", {}, names)
        self.__name__ = self._task.__name__
        hints = self._task.hints
        spec = TaskSpec.of(function, names=names)
        for name in (*spec.params, "return"):
            what = f"parameter {name!r}" if name != "return" else "return"
            if name not in hints:
                raise TypeError(f"{self.__name__}(): its {what} has no annotation")
            if not (spec.returns if name == "return" else spec.params[name]).spec.travels:
                raise TypeError(
                    f"{self.__name__}(): its {what} is {_text(hints[name])}, which is live: it takes and gives data"
                )
        self._types = dict(spec.types)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._value(self._start(args, kwargs))

    def map(self, items: Iterable[Any], *, at_once: int = 4) -> list[Any]:
        """Do it for each item: an argument, or a tuple or dict of them where it takes several. Their order is kept."""
        is_single = len(self._task.hints) == 2  # with that of the return
        runs: list[Run[Any]] = []
        for item in items:
            if isinstance(item, dict) and not is_single:
                runs.append(self._start((), item))
            else:
                runs.append(self._start(item if isinstance(item, tuple) and not is_single else (item,), {}))
        drive_together([run.drive_claimed() for run in runs], at_once)
        return [self._value(run) for run in runs]

    def _start(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Run[Any]:
        # The types go along: on its branch they would be others of the same names.
        inputs = {**self._types, **self._task.bind(args, kwargs)}
        return self._agent.start(self._task.text, returns=self._task.returns, inputs=inputs)

    def _value(self, run: Run[Any]) -> Any:
        try:
            return run.result()
        except TaskClarifyError as asked:
            raise TaskNeedsInput(self.__name__, asked.question) from None
        except AgentError as failed:
            raise CalledTaskFailed(f"task {self.__name__!r} failed: {failed}") from None
