"""Fork and race: the same task several times, or several tasks or models, in parallel on branches of one state.

Each candidate begins at the commit that the state is at, works beside the others in a worker, and commits to a branch of
its own, `race/ID/NUMBER`. Nothing of it touches the live namespace until one is picked, whose branch is then merged.

    >>> import agent_kernel as ak
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> state = ak.Versioned(ak.open("memory:"))
    >>> state["prices"] = [3, 1, 2]
    >>> quick = ak.ScriptedModel(["best = min(prices); task.success(best)"], name="quick")
    >>> slow = ak.ScriptedModel(["prices.sort()", "best = prices[0]; task.success(best)"], name="slow")
    >>> with ThreadPoolExecutor() as pool:
    ...     tries = ak.race("Find the lowest price", models=[quick, slow], state=state, executor=pool).wait()
    >>> [(one.model, one.result, one.steps) for one in tries.candidates]
    [('scripted:quick', '1', 1), ('scripted:slow', '1', 2)]
    >>> _ = tries.pick(2)
    >>> state["prices"]
    [1, 2, 3]
    >>> tries.discard()
"""

from __future__ import annotations

import copy
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, InvalidStateError, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

import msgspec

from agent_kernel.agents import approval, race_comparison
from agent_kernel.agents.agent import Agent, open_context
from agent_kernel.agents.agent_undo import RaceOutcome, is_race, race_outcome
from agent_kernel.agents.approval import log_of, refuse_if_driven
from agent_kernel.agents.current import here_again
from agent_kernel.agents.event_log import Log, new_run_id, short_run
from agent_kernel.agents.events import Cancelled, Fail, SubRun, Success, TaskStart, Usage
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.agents.models import check_price, model_named
from agent_kernel.agents.models.provided import Provided
from agent_kernel.agents.race_comparison import candidates_of, describe_unsaved, html_of, text_of
from agent_kernel.agents.workers import (
    GRACE_S,
    Candidate,
    Job,
    NotebookType,
    Processes,
    Task,
    give_up,
    lend_repository,
    refresh_candidate,
    run_job,
    runs_in_thread,
    share_model,
    stop_key,
)
from agent_kernel.errors import (
    BranchInUseError,
    MergeConflictError,
    RaceError,
    RefNotFoundError,
    RunBusyError,
    RunNotFoundError,
)
from agent_kernel.quiet import uninterrupted
from agent_kernel.repository import ASIDE, Holder, hex_of
from agent_kernel.session import trust

if TYPE_CHECKING:
    from agent_kernel.agents.agent import State
    from agent_kernel.agents.event_log import Listener
    from agent_kernel.agents.limits import Limits
    from agent_kernel.session import Session
    from agent_kernel.session.committing import Report
    from agent_kernel.session.snapshot import Repository


# -- the candidates of a race on their way: branched off, handed to workers, and looked after until all of them have ended

# -- futures of any executor as those of `concurrent.futures`, which alone can be waited for together
#
# Executors of clusters differ in what they know. Some give futures of a kind of their own; most say of work that is on its
# way that it was cancelled, and let it go on. So what became of a worker is looked up in the store.

T = TypeVar("T")


class AnyFuture(Protocol):
    """What a future has to have."""

    def add_done_callback(self, fn: Callable[..., object], /) -> object: ...
    def cancel(self) -> object: ...
    def result(self) -> object: ...


class AnyExecutor(Protocol):
    """What an executor has to have: no `map`, no `shutdown`."""

    def submit(self, fn: Callable[..., object], /, *args: object) -> AnyFuture: ...


class _Followed(Future[T]):
    """Ends as another one does."""

    def __init__(self, of: AnyFuture) -> None:
        super().__init__()
        self._of = of
        of.add_done_callback(self._copy_result)

    def cancel(self) -> bool:
        self._of.cancel()
        return super().cancel()

    def _copy_result(self, of: AnyFuture) -> None:
        with suppress(InvalidStateError):  # it was cancelled meanwhile
            try:
                found = of.result()
            except BaseException as error:  # noqa: BLE001 - it belongs to who asks for the result
                self.set_exception(error)
            else:
                self.set_result(found)  # type: ignore[arg-type]  # what the function returned


# -- who takes part in a race: each task with each agent and each model, packed so that a worker anywhere can begin

_MANY = 3


class Entry(msgspec.Struct, frozen=True):
    """One that takes part: its task, the agent as the worker will have it, and all of it pickled.

    Attributes:
        stays: whether its model is an object that only this process has.
    """

    task: str
    agent: Agent
    model: str
    payload: bytes
    stays: bool = False


def list_entries(
    tasks: Sequence[str],
    agents: Sequence[Agent],
    models: Sequence[object],
    n: int | None,
    context: ExecutionContext,
    returns: object,
    inputs: Mapping[str, object] | None,
) -> list[Entry]:
    """All candidates in order.

    Raises:
        RaceError: the race has no candidates, or one cannot be sent to a worker. ModelError and others: there is no such model.
    """
    pairs = [(task, agent, model) for task in tasks for agent in agents for model in (models or [agent.model])]
    many = n if n is not None else _MANY if len(pairs) == 1 else 1
    if many < 1 or not pairs:
        raise RaceError("a race needs a task, and n of at least 1")
    found = [
        _entry(task, agent, model, context, _encode_type(returns, context), dict(inputs or {}))
        for task, agent, model in pairs
    ]
    return list(itertools.chain.from_iterable(itertools.repeat(one, many) for one in found))


def _entry(
    task: str, agent: Agent, model: object, context: ExecutionContext, returns: object, inputs: dict[str, object]
) -> Entry:
    import cloudpickle

    known = model_named(model, context.namespace)
    sent = copy.copy(agent)
    # A provider's model is made anew from its name where it is used, unless it is an object: its name may be another
    # server's, and its key must be in no file. What is no provider's goes along as it is.
    stays = isinstance(known, Provided) and not known.is_named
    named = known.name if isinstance(known, Provided) and known.is_named else known
    vars(sent).update(state=None, on_event=None, model=named)
    packed = copy.copy(sent)
    vars(packed).update(model=share_model(known) if stays else named)
    try:
        payload = bytes(cloudpickle.dumps(Task(packed, task, returns, inputs)))
    except Exception as error:
        what = f"agent {agent.name!r} with model {known.name!r} and its inputs cannot be sent to a worker"
        way = "name the model instead of giving the object" if not isinstance(model, str) else "leave out what fails"
        raise RaceError(f"{what}: {type(error).__name__}: {error}; {way}") from error
    return Entry(task, sent, known.name, payload, stays)


def _encode_type(returns: object, context: ExecutionContext) -> object:
    """The type as it travels: one of the notebook's own goes by its name, since the worker has its own of it."""
    if isinstance(returns, type) and context.namespace.get(returns.__name__) is returns:
        return NotebookType(returns.__name__)
    return returns


Judge: TypeAlias = "str | Callable[[Candidate], object] | None"

_TICK_S = 0.5
_LOOK_S = 0.05
_THREAD_S = 1.5  # that a thread has to end once it was told to


class Terms(msgspec.Struct, frozen=True):
    """On what terms all candidates work: see `race`."""

    approve: str
    limits: Limits | None
    deadline_s: float
    memory_bytes: int | None
    keep: tuple[str, ...]


class CandidatePool:
    """All candidates of a race, by their numbers."""

    def __init__(self, log: Log, repo: Repository, judge: Judge, ended: Sequence[Candidate] = ()) -> None:
        self.judge = judge
        self._log = log
        self._repo = repo
        self._candidates: dict[int, Candidate] = {one.number: one for one in ended}
        self._running: dict[Future[Candidate], int] = {}
        self._unjudged: list[Candidate] = []  # which came to a result, and whose judge has not been asked
        self._since: dict[int, float] = {}
        self._deadline_s = 0.0
        self._judging = race_comparison.Judging(judge, 0.0)
        self._own: list[Processes | ThreadPoolExecutor] = []
        self._open = ExitStack()

    # -- beginning

    def begin(self, entries: Sequence[Entry], start: str, executor: AnyExecutor | None, terms: Terms) -> None:
        """Make the branches, and let the workers go."""
        self._deadline_s = terms.deadline_s
        self._judging = race_comparison.Judging(self.judge, terms.deadline_s)
        processes = threads = executor
        if processes is None or threads is None:
            most = min(len(entries), os.cpu_count() or 1)
            processes, threads = Processes(most), ThreadPoolExecutor(most, "agent-kernel candidates")
            self._own = [processes, threads]
        self._open.enter_context(lend_repository(self._log.run, self._repo))
        jobs = [self._prepare_job(number, entry, start, terms) for number, entry in enumerate(entries, 1)]
        for entry, job in zip(entries, jobs, strict=True):
            taker = threads if entry.stays else processes
            self._running[self._submit(taker, job)] = job.candidate.number

    def _prepare_job(self, number: int, entry: Entry, start: str, terms: Terms) -> Job:
        race = self._log.run
        candidate = Candidate(
            number=number,
            branch=f"race/{short_run(race)}/{number}",
            run=new_run_id(),
            agent=entry.agent.name,
            model=entry.model,
            task=entry.task,
            start=start,
        )
        self._repo.create_branch(candidate.branch, self._repo.resolve(start))
        self._candidates[number] = candidate
        self._note(candidate)
        return Job(
            url=self._repo.store.url,
            candidate=candidate,
            task=entry.payload,
            approve=terms.approve,
            limits=terms.limits or entry.agent.limits,
            deadline_s=terms.deadline_s,
            memory_bytes=terms.memory_bytes,
            race=race,
            home=Holder.of_this_process(),
            keep=terms.keep,
            secret=trust.secret_to_pass_on(self._repo),
        )

    def _submit(self, executor: AnyExecutor, job: Job) -> Future[Candidate]:
        try:
            future = executor.submit(run_job, job)
            return cast("Future[Candidate]", future) if isinstance(future, Future) else _Followed(future)
        except BaseException:  # it takes no work, so there is no race
            self.cancel("its executor took no work")
            self.close()
            for one in self.candidates:
                with suppress(RefNotFoundError, BranchInUseError):
                    self._repo.delete_branch(one.branch, force=True)
            raise

    def leave(self) -> None:
        """It did not come to begin."""
        self._open.close()

    # -- going on

    def __iter__(self) -> Iterator[Candidate]:
        """As `Race` says."""
        yield from [one for one in self.candidates if one.status != "running" and one not in self._unjudged]
        while not self.is_over:
            try:
                ended = self._next()
            except KeyboardInterrupt:
                numbers = {*self._running.values(), *(one.number for one in self._unjudged)}
                self.cancel("it was interrupted")
                ended = [one for one in self.candidates if one.number in numbers]
            yield from ended
        self.close()

    def _next(self) -> list[Candidate]:
        """Candidates that have ended, and been judged, if there are any by now."""
        if self._unjudged:
            found = self._judging.score(self._unjudged[0], self._repo)  # what an interrupt may end
            with uninterrupted():
                del self._unjudged[0]
                return [self._record(found)]
        finished, _ = wait(self._running, timeout=_TICK_S, return_when=FIRST_COMPLETED)
        with uninterrupted():  # an interrupt in between would lose one
            ended = [*(self._collect(self._running.pop(future), future) for future in finished), *self._overdue()]
            self._unjudged = [one for one in ended if one.is_done and self.judge is not None]
            for one in self._unjudged:
                self._candidates[one.number] = one
            return [self._record(one) for one in ended if one not in self._unjudged]

    def _overdue(self) -> list[Candidate]:
        """Those that should have been ended long ago: of a thread, for one, nobody can be sure."""
        now, late = time.monotonic(), list[Candidate]()
        for future, number in list(self._running.items()):
            grace_s = _THREAD_S if runs_in_thread(self._candidates[number].run) else 3 * GRACE_S
            if future.running() and now > self._since.setdefault(number, now) + self._deadline_s + grace_s:
                del self._running[future]
                reason = f"it did not end within {self._deadline_s:g} s; what runs it goes on, and is not waited for"
                late.append(
                    self._refresh(msgspec.structs.replace(self._candidates[number], status="failed", reason=reason))
                )
        return late

    def _collect(self, number: int, future: Future[Candidate]) -> Candidate:
        began = self._candidates[number]
        try:
            found = future.result()
        except CancelledError:
            reason = "its executor let it go" if self._has_begun(number) else "it was stopped before it began"
            found = msgspec.structs.replace(began, status="interrupted", reason=reason)
        except Exception as error:  # noqa: BLE001 - the executor's own: its worker died, it was shut down, …
            reason = f"its worker failed: {type(error).__name__}: {error}"
            found = msgspec.structs.replace(began, status="failed", reason=reason)
        return self._refresh(found)

    def _refresh(self, found: Candidate) -> Candidate:
        """A candidate with what the store knows of it."""
        self._end_lost_run(found)
        return refresh_candidate(found, self._repo, self._log.event_store)

    def _record(self, found: Candidate) -> Candidate:
        """Keep what became of a candidate, and tell whoever listens."""
        self._candidates[found.number] = found
        self._note(found)
        return found

    def _end_lost_run(self, found: Candidate) -> None:
        """Of a worker that died, or does not end, end its run, and forget where it was. What it still does goes nowhere."""
        give_up(found.run)
        with suppress(RunNotFoundError, RunBusyError):
            log = approval.log_of(self._log.event_store, found.run)
            if log.state == "running":
                log.event_store.revoke(log.run)  # it may be a thread that nobody could end: what it adds is refused
                stopped = found.status == "interrupted"
                log.note(Cancelled(during="worker", reason=found.reason) if stopped else Fail(reason=found.reason))
        self._repo.drop_head(ASIDE + found.run)

    def _note(self, one: Candidate) -> None:
        note = SubRun(
            child=one.run,
            child_agent=one.agent,
            task=one.task,
            branch=one.branch,
            status=one.status,
            model=one.model,
            reason=one.reason,
            score=one.score,
        )
        self._log.note(note, before=one.start, after=one.tip)

    def cancel(self, reason: str = "cancelled") -> None:
        """End all workers. What they have committed stays on their branches."""
        if self.is_over:
            return
        while self._unjudged:
            self._record(race_comparison.mark_unjudged(self._unjudged.pop(0), reason))
        self._repo.set_setting(stop_key(self._log.run), b"1")
        cancelled = [future for future in self._running if future.cancel()]
        begun = [self._running.pop(future) for future in cancelled if self._has_begun(self._running[future])]
        for future in cancelled:
            if future in self._running:
                self._record_cancelled(future)
        for own in self._own:
            own.shutdown(wait=False, cancel_futures=True)
        are_threads = all(runs_in_thread(self._candidates[number].run) for number in self._running.values())
        grace_s = _THREAD_S if are_threads else 3 * GRACE_S  # of a thread nobody has more than it ends by itself
        end = time.monotonic() + 3 * GRACE_S
        finished, late = wait(self._running, timeout=grace_s)
        for future in finished:
            self._record_cancelled(future)
        for number in begun:
            self._record_stopped(number, reason if self._wait_until_free(number, end) else f"{reason}; it did not end")
        for future in late:
            self._record_stopped(self._running.pop(future), f"{reason}; it did not end")
        self._log.note(Cancelled(during="race", reason=reason))
        self.close()

    def _record_cancelled(self, future: Future[Candidate]) -> None:
        """Of a race that is cancelled nothing is judged any more."""
        found = self._collect(self._running.pop(future), future)
        is_unjudged = found.is_done and self.judge is not None
        self._record(race_comparison.mark_unjudged(found, "the race was stopped") if is_unjudged else found)

    def _record_stopped(self, number: int, reason: str) -> None:
        found = msgspec.structs.replace(self._candidates[number], status="interrupted", reason=reason)
        self._record(self._refresh(found))

    def _has_begun(self, number: int) -> bool:
        """Whether its worker is at work, or was: executors of clusters cannot say, and call it cancelled in any case."""
        return next(self._log.event_store.of(self._candidates[number].run), None) is not None

    def _wait_until_free(self, number: int, end: float) -> bool:
        """Wait until no worker has its branch any more, at the latest until then."""
        while (holder := self._repo.lease_of(self._candidates[number].branch)) is not None and holder.is_alive(
            self._repo.store
        ):
            if time.monotonic() > end:
                return False
            time.sleep(_LOOK_S)
        return True

    def close(self) -> None:
        """All have ended: say so once, and keep nothing open."""
        if self._log.state == "running" and self._log.is_claimed:
            completed = [one for one in self.candidates if one.is_done]
            text = f"{len(completed)} of {len(self._candidates)} candidates came to a result"
            self._log.note(Success(result=text) if completed else Fail(reason="no candidate came to a result"))
        for own in self._own:
            own.shutdown(wait=False)
        if self._repo.setting(stop_key(self._log.run)) is not None:
            self._repo.set_setting(stop_key(self._log.run), None)
        self._open.close()

    # -- what there is

    @property
    def candidates(self) -> list[Candidate]:
        """All of them in order, also those that are still on their way."""
        return [self._candidates[number] for number in sorted(self._candidates)]

    @property
    def is_over(self) -> bool:
        """Whether all have ended."""
        return not (self._running or self._unjudged)

    def __len__(self) -> int:
        return len(self._candidates)

    def __getitem__(self, number: int) -> Candidate:
        return self._candidates[number]

    def __contains__(self, number: int) -> bool:
        return number in self._candidates


_DEADLINE_S = 3600.0


def race(
    tasks: str | Sequence[str],
    *,
    n: int | None = None,
    models: Sequence[object] = (),
    agent: Agent | Sequence[Agent] | None = None,
    state: State = None,
    executor: AnyExecutor | None = None,
    judge: Judge = None,
    approve: str = "auto",
    limits: Limits | None = None,
    returns: object = None,
    inputs: Mapping[str, object] | None = None,
    deadline_s: float = _DEADLINE_S,
    memory_bytes: int | None = None,
    keep: Sequence[str] = (),
    on_event: Listener | None = None,
    parent_run: str = "",
) -> Race:
    """Try a task in parallel on branches of the current state, and return the race, which is on its way.

    There is a candidate for each task with each agent and each model, `n` times.

    Args:
        n: by default 3 where that would be one candidate, else 1.
        models: names or models; by default each agent's own.
        state: what has a history, a `Versioned` or a session; by default the agent's, else this notebook. What it has
            uncommitted is committed first.
        executor: by default each candidate has a process of its own, as many at a time as there are cores. Any
            `concurrent.futures.Executor` will do, and what has its `submit`: in a thread of this process a candidate has a namespace and a session
            of its own and nothing bounds it but its limits; anywhere else it is again a process of its own. A
            provider's model that is given as an object stays in this process: without `executor` its candidates are threads.
        judge: a function of a candidate, or an expression over its variables and `result`; the highest number is best.
        approve: is given once, for all steps of all candidates: nobody can be asked later, so what would ask is denied.
        deadline_s: of each candidate, after which its process is ended. For judging all of them the judge has as long once more.
        memory_bytes: of each candidate; above it, its process is told that there is no memory.
        keep: environment variables that workers get although they look like secrets. The models' own are kept anyway.

    Raises:
        RaceError: there is no history to branch from, or the executor cannot see it.
        NoModelError, ModelError, MissingExtraError: no model can take it.
    """
    agents = [agent] if isinstance(agent, Agent) else list(agent or [Agent()])
    base_state = state if state is not None else agents[0].state
    context = open_context(
        notebook if base_state is None and isinstance(notebook := here_again(), ExecutionContext) else base_state
    )
    session = context.session
    if session is None:
        raise RaceError(
            "a race branches from a state with a history: give state=ak.here() for this notebook, or an ak.Versioned"
        )
    if executor is None and session.repo.store.url.startswith("memory:"):
        raise RaceError(
            "a store in memory is seen by this process alone: give executor=ThreadPoolExecutor(), or keep it in a folder"
        )
    found = list_entries(
        [tasks] if isinstance(tasks, str) else list(tasks), agents, models, n, context, returns, inputs
    )
    for entry in found:
        check_price(model_named(entry.agent.model, context.namespace), (limits or entry.agent.limits).cost)
    names = " and ".join(dict.fromkeys(one.agent.name for one in found))
    listeners = [on_event] if on_event is not None else []
    log = Log(
        context.event_store, new_run_id(), listeners=listeners, agent=names, namespace="race", parent_run=parent_run
    )
    begun = Race(context, log, judge)
    try:
        begun.begin(found, executor, Terms(approve, limits, deadline_s, memory_bytes, tuple(keep)))
    except BaseException:
        begun.leave()
        raise
    return begun


class Race:
    """A race: iterate over it to have its candidates as they end, or `wait`; then `pick` one."""

    def __init__(self, context: ExecutionContext, log: Log, judge: Judge, ended: Sequence[Candidate] = ()) -> None:
        self.id = log.run
        self.notes: list[str] = []
        self._context = context
        self._session: Session = context.session  # type: ignore[assignment]  # a race has one
        self._repo = self._session.repo
        self._log = log
        self._pool = CandidatePool(self._log, self._repo, judge, ended)

    @classmethod
    def again(cls, context: ExecutionContext, id: str) -> Race:
        """A race that another process held, as its store tells it: to be looked at, picked from, or discarded.

        Raises:
            RunNotFoundError: there is no race of this id. RaceError: there is no history that one could be picked into.
        """
        if context.session is None:
            raise RaceError("a candidate is picked into a state with a history")
        repo, log = context.session.repo, log_of(context.event_store, id)
        if not is_race(log.start):
            raise RunNotFoundError(id)
        found = cls(context, log, None, candidates_of(repo, context.event_store, log.events))
        found.notes += describe_unsaved(log.start.left_out)
        return found

    def begin(self, entries: Sequence[Entry], executor: AnyExecutor | None, terms: Terms) -> None:
        """Commit what is not committed yet, make the branches, and let the workers go."""
        start, unsaved = self._commit_all()
        self.notes += describe_unsaved(unsaved)
        task = "; ".join(dict.fromkeys(one.task for one in entries))
        models = ", ".join(dict.fromkeys(one.model for one in entries))
        begins = TaskStart(task=task, model=models, approve=terms.approve, left_out=tuple(unsaved))
        self._log.note(begins, before=start)
        self._log.claim()  # until it is over: so that one whose process died is told from one that goes on
        self._pool.begin(entries, start, executor, terms)

    def leave(self) -> None:
        """It did not come to begin: drive it no more."""
        self._pool.leave()
        self._log.release()

    def _commit_all(self) -> tuple[str, list[str]]:
        """Commit all that is there; the commit from which the candidates begin, and what cannot be saved."""
        report = self._session.commit(full=True)
        if self._session.head is None:
            report = self._session.commit("before a race", full=True)
        unsaved = sorted({one.name for one in (*report.unsaved, *self._session.status().lost)})
        return self._context.head, unsaved

    # -- going on

    def __iter__(self) -> Iterator[Candidate]:
        """The candidates as they end, those that have ended first. An interrupt ends the race, and keeps what they did."""
        return iter(self._pool)

    def wait(self) -> Race:
        """Let all candidates come to their end, and return the race.

        Raises:
            RaceError: none of them came to a result; it says of each why.
        """
        for _ in self:
            pass
        if not any(one.is_done for one in self.candidates):
            reasons = "; ".join(f"{one.number}: {one.reason or one.status}" for one in self.candidates)
            raise RaceError(f"no candidate of race {short_run(self.id)} came to a result ({reasons})")
        return self

    def cancel(self, reason: str = "cancelled") -> None:
        """End all workers. What they have committed stays on their branches."""
        self._pool.cancel(reason)

    # -- what came of it

    @property
    def judge(self) -> Judge:
        return self._pool.judge

    @property
    def task(self) -> str:
        return self._log.start.task

    @property
    def candidates(self) -> list[Candidate]:
        """All of them in order, also those that are still on their way."""
        return self._pool.candidates

    @property
    def is_over(self) -> bool:
        """Whether all have ended."""
        return self._pool.is_over

    @property
    def is_interrupted(self) -> bool:
        """Whether it was stopped before all of its candidates had ended and been judged."""
        return self._log.state == "interrupted"

    @property
    def usage(self) -> Usage:
        """What all of them took."""
        return sum((one.usage for one in self.candidates), Usage())

    @property
    def best(self) -> Candidate | None:
        """The one that the judge prefers; without a judge, the only one that came to a result, if it is only one."""
        is_judged = self.judge is not None or any(one.score is not None for one in self.candidates)
        return race_comparison.best(self.candidates, is_judged=is_judged)

    @property
    def picked(self) -> int | None:
        """The number of the candidate that was picked and that the variables go on from; None also where that was undone."""
        return self._read_outcome().find_pick(self._repo, self._session.head) or None

    def _read_outcome(self) -> RaceOutcome:
        """What became of it, also from other notebooks."""
        self._log.catch_up()
        return race_outcome(self._log.events)

    def _note(self, note: SubRun, *, before: str, after: str) -> None:
        """Note what was done with a candidate, behind what others have noted meanwhile."""
        while True:
            try:
                self._log.note(note, before=before, after=after)
                return
            except RunBusyError:
                if not self._log.catch_up():
                    raise

    def candidate(self, number: int) -> Candidate:
        """Raises RaceError if no candidate has this number."""
        if number not in self._pool:
            raise RaceError(f"race {short_run(self.id)} has candidates 1 to {len(self._pool)}, and no {number}")
        return self._pool[number]

    def pick(self, number: int | None = None, *, theirs: Sequence[str] = (), ours: Sequence[str] = ()) -> Report:
        """Merge a candidate's branch into the current one; the others stay as branches until `discard`.

        Where nothing was committed here since the race began, the branch just moves forward to the candidate's commits.

        Args:
            number: by default that of the best.
            theirs: variables that both sides changed since, where the candidate's value counts.
            ours: variables that both sides changed since, where the value of this branch counts.

        Raises:
            RaceError: it came to no result, there is no best one, or another one is picked already. MergeConflictError: nothing was changed.
            RunBusyError: the race is still on in another process, which alone can note what becomes of it.
        """
        refuse_if_driven(self._log)
        chosen = self.best if number is None else self.candidate(number)
        if chosen is None:
            failed = race_comparison.failure(self.candidates)
            prefix = f"{failed}; " if failed else ""
            raise RaceError(f"{prefix}race {short_run(self.id)} has no best candidate: pick(NUMBER) names one")
        if not chosen.is_done:
            why = f" ({chosen.reason})" if chosen.reason else ""
            raise RaceError(f"candidate {chosen.number} cannot be picked: it is {chosen.status}{why}")
        if chosen.branch not in self._repo.branches():
            raise RaceError(f"candidate {chosen.number} cannot be picked: its branch is gone")
        picked = self.picked
        if picked not in (None, chosen.number):
            raise RaceError(
                f"candidate {picked} is picked already, and another one would be mixed with it: undo that first"
            )
        message = f"pick candidate {chosen.number} of race {short_run(self.id)}: {self.task}"
        with self._session.taking(f"candidate {chosen.number} of race {short_run(self.id)}"):
            try:
                report = self._session.merge(
                    chosen.tip or chosen.branch,
                    theirs=theirs,
                    ours=ours,
                    message=message,
                    since=self._repo.resolve(chosen.start) if chosen.start else None,
                )
            except MergeConflictError as conflict:
                conflict.rev = ""  # merged by itself, the candidate would not count as picked
                conflict.add_note(f"From Python: pick({chosen.number}, ours=[…], theirs=[…])")
                raise
        pick_note = SubRun(child=chosen.run, child_agent=chosen.agent, branch=chosen.branch, status="picked")
        self._note(pick_note, before=chosen.tip, after=hex_of(report.commit) if report.commit is not None else "")
        # That the branch was moved forward is how it is done, and says nothing to whoever picks.
        notes = tuple(note for note in report.notes if not note.startswith("fast-forward"))
        return msgspec.structs.replace(report, notes=notes)

    @property
    def is_discarded(self) -> bool:
        """Whether the branches of its candidates are gone."""
        return self._read_outcome().discarded

    def discard(self) -> None:
        """Delete the branches of all candidates. What was picked is part of the branch that it was merged into.

        Raises:
            RaceError, RunBusyError: it is still on, here or in another process.
        """
        refuse_if_driven(self._log)
        for one in self.candidates:
            if one.status == "running":
                raise RaceError("the race is still on: cancel() ends it")
            try:
                self._repo.delete_branch(one.branch, force=True)
            except RefNotFoundError:  # somebody did so before
                continue
            except BranchInUseError as busy:
                raise RaceError(f"candidate {one.number} goes on in a thread that did not end ({busy})") from busy
            note = SubRun(child=one.run, child_agent=one.agent, branch=one.branch, status="discarded")
            self._note(note, before=one.start, after=one.tip)

    # -- faces

    def __repr__(self) -> str:
        completed = sum(one.is_done for one in self.candidates)
        return f"<Race {short_run(self.id)}: {len(self._pool)} candidates, {completed} done>"

    def __str__(self) -> str:
        return text_of(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": text_of(self), "text/html": html_of(self)}

    def _repr_html_(self) -> str:
        return html_of(self)
