"""Run one task of an agent beside everything else: on a branch of its own, in a process of its own where there can be one.

A `Job` says all that is needed, and can be pickled; `work` does it, wherever an executor takes it, and gives back a
`Candidate`. In another process than the one that asks, a fresh Python does the work (`supervising`), so that it can be
bounded and killed. In a thread of the process that asks, it is done right there, with a namespace and a session of its
own: nothing bounds it then but the limits of the run.

The worker opens the store by itself and writes to its branch alone. What it gives back is little; the rest is in the
store, also when the worker dies.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import msgspec

from agent_kernel.agents.candidates import Candidate, pickled
from agent_kernel.agents.encoding import packed
from agent_kernel.agents.journal import Journal
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.log import state_of
from agent_kernel.errors import AgentKernelError, StoreError, TaskInterruptedError
from agent_kernel.repository import ASIDE, Holder

if TYPE_CHECKING:
    from agent_kernel.agents.agent import Agent
    from agent_kernel.agents.run import Run
    from agent_kernel.session import Repository, Session

__all__ = ["BEGUN", "Job", "Named", "Task", "give_up", "is_here", "lent", "stop_key", "work"]

BEGUN = b"!"  # what a worker's process answers first
_OVER = "the race that it belonged to is over"
_LOOK_S = 0.2  # how often a worker looks whether it is to stop


class Named(msgspec.Struct, frozen=True):
    """A type of the notebook, by its name there: a worker has a class of its own that is the same."""

    name: str


class Task(msgspec.Struct, frozen=True):
    """What an agent is asked; it travels as a pickle, since it holds objects of any kind."""

    agent: Agent
    task: str
    returns: object = None
    inputs: dict[str, object] = {}


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker has to know.

    Attributes:
        candidate: as it is before anything ran: its branch exists, and points at where it begins.
        task: a pickled `Task`.
        deadline_s: seconds after which it is ended, from when the worker begins.
        memory_bytes: what the worker's process may take for its data, where the system has such a limit.
        race: id of the race that it belongs to; what `stop_key` makes of it is a setting of the store that ends it.
        home: the process that asks.
        keep: environment variables that the worker gets although they look like secrets.
    """

    url: str
    candidate: Candidate
    task: bytes
    approve: str
    limits: Limits
    deadline_s: float
    memory_bytes: int | None
    race: str
    home: Holder
    keep: tuple[str, ...] = ()


def stop_key(race: str) -> str:
    """The setting of a store that ends all workers of a race."""
    return f"race {race} is over"


_lent: dict[str, Repository] = {}
_here: dict[str, Session] = {}  # with which runs are at work in threads of this process


def is_here(run: str) -> bool:
    """Whether a thread of this process does it, which nobody can end."""
    return run in _here


def give_up(run: str) -> None:
    """Nobody waits for a run any more: what a thread of this process still does with it goes into no store."""
    if (session := _here.get(run)) is not None:
        session.give_up()


@contextmanager
def lent(race: str, repo: Repository) -> Generator[None]:
    """Let workers in threads of this process use a repository that is open already."""
    _lent[race] = repo
    try:
        yield
    finally:
        _lent.pop(race, None)


def work(job: Job) -> Candidate:
    """Do the job. Whatever goes wrong is told by the candidate; nothing is raised, and it does not hang."""
    if job.home.is_this_process():
        repo = _lent.get(job.race)
        if repo is None:
            return failed(job, _OVER)
        own = {**builtins.__dict__}
        return _done(job, repo, {"__name__": "__main__", "__builtins__": own}, lambda: True)
    from agent_kernel.agents.supervising import supervised

    return supervised(job)


def failed(job: Job, reason: str, seconds: float = 0.0) -> Candidate:
    """The candidate of a job that did not come to its end."""
    return msgspec.structs.replace(job.candidate, status="failed", reason=reason, seconds=seconds)


def _done(job: Job, repo: Repository, namespace: dict[str, object], is_wanted: Callable[[], bool]) -> Candidate:
    began = time.monotonic()
    try:
        return _acted(job, repo, namespace, is_wanted)
    except (KeyboardInterrupt, TaskInterruptedError):
        return msgspec.structs.replace(failed(job, "it was stopped"), status="interrupted")
    except AgentKernelError as error:
        return failed(job, str(error), time.monotonic() - began)
    except Exception as error:  # noqa: BLE001 - a candidate that fails must not take the others along
        return failed(job, f"{type(error).__name__}: {error}", time.monotonic() - began)


def _acted(job: Job, repo: Repository, namespace: dict[str, object], is_wanted: Callable[[], bool]) -> Candidate:
    """Take the branch, load its state, drive the run there."""
    import cloudpickle

    from agent_kernel.agents.agent import started
    from agent_kernel.agents.place import Place
    from agent_kernel.session.session import Session

    wanted = job.candidate
    if _is_over(job, repo):
        return failed(job, _OVER)
    session = Session(namespace, repo, branch=wanted.branch, session_id=ASIDE + wanted.run)
    try:
        if session.branch != wanted.branch:
            return failed(job, "; ".join(session.notes))
        if job.home.is_this_process():
            _here[wanted.run] = session
        session.checkout(partial=True, keep_random=job.home.is_this_process())
        asked = cast("Task", cloudpickle.loads(job.task))
        returns = namespace.get(asked.returns.name) if isinstance(asked.returns, Named) else asked.returns
        run = started(
            asked.agent,
            asked.task,
            Place(namespace, session),
            returns=returns,
            inputs=asked.inputs,
            approve=job.approve,
            limits=_limits(job),
            can_ask=False,
            run=wanted.run,
            parent_run=job.race,
            namespace=f"race/{asked.agent.name}",
        )
        with _stopped_from_elsewhere(run, job, repo, is_wanted):
            for _ in run.stream():
                pass
        return _told(wanted, run)
    finally:
        _here.pop(wanted.run, None)
        session.close()


def _limits(job: Job) -> Limits:
    """The run's own limits, which end it in good order before the deadline would."""
    own = job.limits.run_s
    return msgspec.structs.replace(job.limits, run_s=job.deadline_s if own is None else min(own, job.deadline_s))


def _told(wanted: Candidate, run: Run[Any]) -> Candidate:
    outcome = run.outcome
    payload = pickled(outcome.value) if outcome.status == "completed" else None
    return msgspec.structs.replace(
        wanted,
        status=outcome.status,
        reason=outcome.reason,
        limit=outcome.limit,
        tip=outcome.commit,
        usage=outcome.usage,
        payload=payload,
    )


def _is_over(job: Job, repo: Repository) -> bool:
    """Whether its race has ended. An executor may begin a job long after it was cancelled."""
    if repo.setting(stop_key(job.race)) is not None:
        return True
    events = tuple(Journal(repo.store).of(job.race))
    return bool(events) and state_of(events) != "running"


@contextmanager
def _stopped_from_elsewhere(
    run: Run[Any], job: Job, repo: Repository, is_wanted: Callable[[], bool]
) -> Generator[None]:
    """Stop the run when its race is over, or when nobody waits for it any more."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_S):
            try:
                over = _is_over(job, repo)
            except StoreError:
                over = False  # the store is busy, or gone: the run finds out by itself
            if over or not is_wanted():
                run.cancel("the race was stopped")
                return

    thread = threading.Thread(target=watch, name="agent-kernel worker", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# -- the worker's process


def taken_output() -> BinaryIO:
    """What leads to the parent. What is printed past Python from now on goes nowhere, so that it is not taken for an answer."""
    answer = os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    return answer


def main(given: BinaryIO) -> None:
    """What a worker's process does: read a job, do it, write the candidate, and end."""
    answer = taken_output()
    job = msgspec.msgpack.decode(given.read(), type=Job)
    answer.write(BEGUN)
    answer.flush()
    _bound_memory(job.memory_bytes)
    parent = os.getppid()
    found = _opened(job, lambda: os.getppid() == parent)
    answer.write(packed(found))
    answer.flush()
    sys.stderr.flush()
    os._exit(0)  # threads and exit functions that the code left must not keep it


def _opened(job: Job, is_wanted: Callable[[], bool]) -> Candidate:
    from agent_kernel.session.snapshot import Repository

    # Functions and classes of the notebook say that they are from here.
    module = sys.modules["__main__"] = ModuleType("__main__")
    try:
        repo = Repository.open(job.url, create=False)
    except AgentKernelError as error:
        return failed(job, str(error))
    with repo:
        return _done(job, repo, module.__dict__, is_wanted)


def _bound_memory(most: int | None) -> None:
    """Bound what the process allocates. Its address space is not: the store reserves much more than it takes."""
    if most is None:
        return
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
