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

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from agent_kernel.agents import deciding, earlier, judging
from agent_kernel.agents.agent import Agent, place_of
from agent_kernel.agents.awaiting import AnyExecutor, submitted
from agent_kernel.agents.candidates import Candidate, looked_up
from agent_kernel.agents.entrants import Entry, entrants
from agent_kernel.agents.events import Cancelled, Fail, SubRun, Success, TaskStart, Usage
from agent_kernel.agents.journal import new_run_id, short_run
from agent_kernel.agents.log import Log
from agent_kernel.agents.naming import check_price, model_named
from agent_kernel.agents.raced import raced
from agent_kernel.agents.supervising import GRACE_S, Processes
from agent_kernel.agents.workers import Job, lent, stop_key, work
from agent_kernel.errors import (
    BranchInUseError,
    MergeConflictError,
    RaceError,
    RefNotFoundError,
    RunBusyError,
    RunNotFoundError,
)
from agent_kernel.repository import ASIDE, Holder, hex_of
from agent_kernel.session.interrupts import uninterrupted

if TYPE_CHECKING:
    from agent_kernel.agents.agent import State
    from agent_kernel.agents.limits import Limits
    from agent_kernel.agents.log import Listener
    from agent_kernel.agents.place import Place
    from agent_kernel.session import Session
    from agent_kernel.session.reports import Report

__all__ = ["Race", "race"]

Judge: TypeAlias = "str | Callable[[Candidate], object] | None"

_TICK_S = 0.5
_LOOK_S = 0.05
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
        state: what has a history, a `Versioned` or a session; by default the agent's. What it has uncommitted is
            committed first.
        executor: by default each candidate has a process of its own, as many at a time as there are cores. Any
            `concurrent.futures.Executor` will do, and what has its `submit`: in a thread of this process a candidate has a namespace and a session
            of its own and nothing bounds it but its limits; anywhere else it is again a process of its own.
        judge: a function of a candidate, or an expression over its variables and `result`; the highest number is best.
        approve: is given once, for all steps of all candidates: nobody can be asked later, so what would ask is denied.
        deadline_s, memory_bytes: of each candidate; its process is ended, or told that there is no memory.
        keep: environment variables that workers get although they look like secrets. The models' own are kept anyway.

    Raises:
        RaceError: there is no history to branch from, or the executor cannot see it.
        NoModelError, ModelError, MissingExtraError: there is no model that could take it.
    """
    agents = [agent] if isinstance(agent, Agent) else list(agent or [Agent()])
    place = place_of(state if state is not None else agents[0].state)
    session = place.session
    if session is None:
        raise RaceError("a race branches from a state with a history: give state=, a Versioned or a session")
    if executor is None and session.repo.store.url.startswith("memory:"):
        raise RaceError(
            "a store in memory is seen by this process alone: give executor=ThreadPoolExecutor(), or keep it in a folder"
        )
    found = entrants([tasks] if isinstance(tasks, str) else list(tasks), agents, models, n, place, returns, inputs)
    for entry in found:
        check_price(model_named(entry.agent.model, place.namespace), (limits or entry.agent.limits).cost)
    held = Race(place, found, judge, on_event, parent_run)
    try:
        held.begin(executor, approve, limits, deadline_s, memory_bytes, tuple(keep))
    except BaseException:
        held.leave()
        raise
    return held


class Race:
    """A race: iterate over it to have its candidates as they end, or `wait`; then `pick` one."""

    def __init__(
        self, place: Place, found: Sequence[Entry], judge: Judge, on_event: Listener | None, parent_run: str
    ) -> None:
        self.id = new_run_id()
        self.judge = judge
        self.notes: list[str] = []
        self.picked: int | None = None
        self._picked_at = ""
        self._place = place
        self._session: Session = place.session  # type: ignore[assignment]  # a race has one
        self._repo = self._session.repo
        listeners = [on_event] if on_event is not None else []
        names = " and ".join(dict.fromkeys(one.agent.name for one in found))
        self._log = Log(
            place.journal, self.id, listeners=listeners, agent=names, namespace="race", parent_run=parent_run
        )
        self._open = ExitStack()
        self._running: dict[Future[Candidate], int] = {}
        self._since: dict[int, float] = {}
        self._deadline_s = _DEADLINE_S
        self._own: Processes | None = None
        self._entries = found
        self._candidates: dict[int, Candidate] = {}

    # -- beginning

    def begin(
        self,
        executor: AnyExecutor | None,
        approve: str,
        limits: Limits | None,
        deadline_s: float,
        memory_bytes: int | None,
        keep: tuple[str, ...],
    ) -> None:
        """Commit what is not committed yet, make the branches, and let the workers go."""
        session, start = self._session, self._committed()
        task = "; ".join(dict.fromkeys(one.task for one in self._entries))
        models = ", ".join(dict.fromkeys(one.model for one in self._entries))
        self._log.note(TaskStart(task=task, model=models, approve=approve), before=start)
        self._log.hold()  # until it is over: so that one whose process died is told from one that goes on
        self._deadline_s = deadline_s
        if executor is None:
            executor = self._own = Processes(min(len(self._entries), os.cpu_count() or 1))
        self._open.enter_context(lent(self.id, self._repo))
        jobs: list[Job] = []
        for number, entry in enumerate(self._entries, 1):
            candidate = Candidate(
                number=number,
                branch=f"race/{short_run(self.id)}/{number}",
                run=new_run_id(),
                agent=entry.agent.name,
                model=entry.model,
                task=entry.task,
                start=start,
            )
            self._repo.create_branch(candidate.branch, session.repo.resolve(start))
            self._candidates[number] = candidate
            self._note(candidate)
            job = Job(
                url=self._repo.store.url,
                candidate=candidate,
                task=entry.payload,
                approve=approve,
                limits=limits or entry.agent.limits,
                deadline_s=deadline_s,
                memory_bytes=memory_bytes,
                race=self.id,
                home=Holder.here(),
                keep=keep,
            )
            jobs.append(job)
        for job in jobs:
            self._running[self._submitted(executor, job)] = job.candidate.number

    def _submitted(self, executor: AnyExecutor, job: Job) -> Future[Candidate]:
        try:
            return submitted(executor, work, job)
        except BaseException:  # it takes no work, so there is no race
            self.cancel("its executor took no work")
            self._close()
            for one in self.candidates:
                with suppress(RefNotFoundError, BranchInUseError):
                    self._repo.delete_branch(one.branch, force=True)
            raise

    def leave(self) -> None:
        """It did not come to begin: drive it no more."""
        self._open.close()
        self._log.let_go()

    def _committed(self) -> str:
        """Commit all that is there; the commit from which the candidates begin."""
        report = self._session.commit(full=True)
        if self._session.head is None:
            report = self._session.commit("before a race", full=True)
        lost = sorted({one.name for one in (*report.unsaved, *self._session.status().lost)})
        if lost:
            self.notes.append(f"not with the candidates, since it cannot be saved: {', '.join(lost)}")
        return self._place.head

    # -- going on

    def __iter__(self) -> Iterator[Candidate]:
        """The candidates as they end, those that have ended first. An interrupt ends the race, and keeps what there is."""
        yield from [one for one in self.candidates if one.status != "running"]
        while self._running:
            try:
                ended = self._next()
            except KeyboardInterrupt:
                self.cancel("it was interrupted")
                ended = [one for one in self.candidates if one.status == "interrupted"]
            yield from ended
        self._close()

    def wait(self) -> Race:
        """Let all candidates come to their end, and return the race.

        Raises:
            RaceError: none of them came to a result; it says of each why.
        """
        for _ in self:
            pass
        if not any(one.is_done for one in self.candidates):
            told = "; ".join(f"{one.number}: {one.reason or one.status}" for one in self.candidates)
            raise RaceError(f"no candidate of race {short_run(self.id)} came to a result ({told})")
        return self

    def _next(self) -> list[Candidate]:
        """Candidates that have ended, if there are any by now."""
        done, _ = wait(self._running, timeout=_TICK_S, return_when=FIRST_COMPLETED)
        with uninterrupted():  # an interrupt in between would lose one
            return [*(self._ended(self._running.pop(future), future) for future in done), *self._overdue()]

    def _overdue(self) -> list[Candidate]:
        """Those that should have been ended long ago: of a thread, for one, nobody can be sure."""
        now, late = time.monotonic(), list[Candidate]()
        for future, number in list(self._running.items()):
            if future.running() and now > self._since.setdefault(number, now) + self._deadline_s + 3 * GRACE_S:
                del self._running[future]
                reason = f"it did not end within {self._deadline_s:g} s; what runs it goes on, and is not waited for"
                late.append(
                    self._settled(msgspec.structs.replace(self._candidates[number], status="failed", reason=reason))
                )
        return late

    def _ended(self, number: int, future: Future[Candidate]) -> Candidate:
        began = self._candidates[number]
        try:
            found = future.result()
        except CancelledError:
            reason = "its executor let it go" if self._has_begun(number) else "it was stopped before it began"
            found = msgspec.structs.replace(began, status="interrupted", reason=reason)
        except Exception as error:  # noqa: BLE001 - the executor's own: its worker died, it was shut down, …
            reason = f"its worker failed: {type(error).__name__}: {error}"
            found = msgspec.structs.replace(began, status="failed", reason=reason)
        return self._settled(found)

    def _settled(self, found: Candidate) -> Candidate:
        """A candidate with what the store knows of it, judged, and told to whoever listens."""
        self._bury(found)
        found = looked_up(found, self._repo, self._place.journal)
        found = judging.judged(found, self._repo, self.judge)
        self._candidates[found.number] = found
        self._note(found)
        return found

    def _bury(self, found: Candidate) -> None:
        """Of a worker that died, end its run, and forget where it was."""
        with suppress(RunNotFoundError, RunBusyError):
            log = deciding.log_of(self._place.journal, found.run)
            if log.state == "running":
                log.journal.release(log.run)  # it may be a thread that nobody could end: what it adds is refused
                stopped = found.status == "interrupted"
                log.note(Cancelled(during="worker", reason=found.reason) if stopped else Fail(reason=found.reason))
        self._repo.drop_head(ASIDE + found.run)

    def _note(self, one: Candidate) -> None:
        told = SubRun(child=one.run, child_agent=one.agent, task=one.task, branch=one.branch, status=one.status)
        self._log.note(told, before=one.start, after=one.tip)

    def cancel(self, reason: str = "cancelled") -> None:
        """End all workers. What they have committed stays on their branches."""
        if not self._running:
            return
        self._repo.set_setting(stop_key(self.id), b"1")
        cancelled = [future for future in self._running if future.cancel()]
        begun = [self._running.pop(future) for future in cancelled if self._has_begun(self._running[future])]
        for future in cancelled:
            if future in self._running:
                self._ended(self._running.pop(future), future)
        if self._own is not None:
            self._own.shutdown(wait=False, cancel_futures=True)
        end = time.monotonic() + 3 * GRACE_S
        done, late = wait(self._running, timeout=3 * GRACE_S)
        for future in done:
            self._ended(self._running.pop(future), future)
        for number in begun:
            self._stopped(number, reason if self._has_left(number, end) else f"{reason}; it did not end")
        for future in late:
            self._stopped(self._running.pop(future), f"{reason}; it did not end")
        self._log.note(Cancelled(during="race", reason=reason))
        self._close()

    def _stopped(self, number: int, reason: str) -> None:
        self._settled(msgspec.structs.replace(self._candidates[number], status="interrupted", reason=reason))

    def _has_begun(self, number: int) -> bool:
        """Whether its worker is at work, or was: executors of clusters cannot say, and call it cancelled in any case."""
        return next(self._place.journal.of(self._candidates[number].run), None) is not None

    def _has_left(self, number: int, end: float) -> bool:
        """Wait until no worker has its branch any more, at the latest until then."""
        while (holder := self._repo.lease_of(self._candidates[number].branch)) is not None and holder.is_alive():
            if time.monotonic() > end:
                return False
            time.sleep(_LOOK_S)
        return True

    def _close(self) -> None:
        """All have ended: say so once, and keep nothing open."""
        if self._log.state == "running":
            done = [one for one in self.candidates if one.is_done]
            said = f"{len(done)} of {len(self._candidates)} candidates came to a result"
            self._log.note(Success(result=said) if done else Fail(reason="no candidate came to a result"))
        if self._own is not None:
            self._own.shutdown(wait=False)
        if self._repo.setting(stop_key(self.id)) is not None:
            self._repo.set_setting(stop_key(self.id), None)
        self._open.close()

    # -- what came of it

    @property
    def task(self) -> str:
        return self._log.start.task

    @property
    def candidates(self) -> list[Candidate]:
        """All of them in order, also those that are still on their way."""
        return [self._candidates[number] for number in sorted(self._candidates)]

    @property
    def is_over(self) -> bool:
        """Whether all have ended."""
        return not self._running

    @property
    def usage(self) -> Usage:
        """What all of them took."""
        return sum((one.usage for one in self.candidates), Usage())

    @property
    def best(self) -> Candidate | None:
        """The one that the judge prefers; without a judge, the only one that came to a result, if it is only one."""
        return judging.best(self.candidates, self.judge)

    def candidate(self, number: int) -> Candidate:
        """Raises RaceError if there is none of this number."""
        if number not in self._candidates:
            raise RaceError(f"race {short_run(self.id)} has candidates 1 to {len(self._candidates)}, and no {number}")
        return self._candidates[number]

    def pick(self, number: int | None = None, *, theirs: Sequence[str] = (), ours: Sequence[str] = ()) -> Report:
        """Merge a candidate's branch into the current one; the others stay as branches until `discard`.

        Where nothing was committed here since the race began, the branch just moves forward to the candidate's commits.

        Args:
            number: by default that of the best.
            theirs, ours: variables that both sides changed since, and whose value goes.

        Raises:
            RaceError: it came to no result, there is no best one, or another one is picked already. MergeConflictError: nothing was changed.
        """
        chosen = self.best if number is None else self.candidate(number)
        if chosen is None:
            raise RaceError(f"race {short_run(self.id)} has no best candidate: pick(NUMBER) names one")
        if not chosen.is_done:
            why = f" ({chosen.reason})" if chosen.reason else ""
            raise RaceError(f"candidate {chosen.number} cannot be picked: it is {chosen.status}{why}")
        if self.picked not in (None, chosen.number) and self._is_held():
            raise RaceError(
                f"candidate {self.picked} is picked already, and another one would be mixed with it: undo that first"
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
                conflict.add_note(f"From Python: pick({chosen.number}, ours=[…], theirs=[…])")
                raise
        self.picked = chosen.number
        self._picked_at = hex_of(report.commit) if report.commit is not None else chosen.tip
        told = SubRun(child=chosen.run, child_agent=chosen.agent, branch=chosen.branch, status="picked")
        self._log.note(told, before=chosen.tip, after=hex_of(report.commit) if report.commit is not None else "")
        # That the branch was moved forward is how it is done, and says nothing to whoever picks.
        notes = tuple(note for note in report.notes if not note.startswith("fast-forward"))
        return msgspec.structs.replace(report, notes=notes)

    def _is_held(self) -> bool:
        """Whether the variables are those that follow on the pick: nobody went back behind it."""
        return self._picked_at in {at for at, _, _ in earlier.line_to(self._repo, self._session.head)}

    @property
    def is_discarded(self) -> bool:
        """Whether the branches of its candidates are gone."""
        return raced(self._log.events).discarded

    def discard(self) -> None:
        """Delete the branches of all candidates. What was picked is part of the branch that it was merged into."""
        for one in self.candidates:
            if one.status == "running":
                raise RaceError("the race is still on: cancel() ends it")
            try:
                self._repo.delete_branch(one.branch, force=True)
            except RefNotFoundError:  # somebody did so before
                continue
            except BranchInUseError as busy:
                raise RaceError(f"candidate {one.number} goes on in a thread that did not end ({busy})") from busy
            told = SubRun(child=one.run, child_agent=one.agent, branch=one.branch, status="discarded")
            self._log.note(told, before=one.start, after=one.tip)

    # -- faces

    def __repr__(self) -> str:
        done = sum(one.is_done for one in self.candidates)
        return f"<Race {short_run(self.id)}: {len(self._candidates)} candidates, {done} done>"

    def __str__(self) -> str:
        from agent_kernel.agents.standings import text_of

        return text_of(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        from agent_kernel.agents.standings import html_of, text_of

        return {"text/plain": text_of(self), "text/html": html_of(self)}

    def _repr_html_(self) -> str:
        from agent_kernel.agents.standings import html_of

        return html_of(self)
