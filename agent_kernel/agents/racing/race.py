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

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.agents.agent import Agent, place_of
from agent_kernel.agents.approval import log_of, refuse_driven
from agent_kernel.agents.event_log import Log, new_run_id, short_run
from agent_kernel.agents.events import SubRun, TaskStart, Usage
from agent_kernel.agents.models.naming import check_price, model_named
from agent_kernel.agents.racing import standings
from agent_kernel.agents.racing.candidates import AnyExecutor, Entry, Field, Judge, Terms, entrants
from agent_kernel.agents.racing.raced import Raced, is_race, raced
from agent_kernel.agents.racing.standings import candidates_of, lacks
from agent_kernel.agents.workers import Candidate
from agent_kernel.errors import (
    BranchInUseError,
    MergeConflictError,
    RaceError,
    RefNotFoundError,
    RunBusyError,
    RunNotFoundError,
)
from agent_kernel.repository import hex_of

if TYPE_CHECKING:
    from agent_kernel.agents.agent import State
    from agent_kernel.agents.event_log import Listener
    from agent_kernel.agents.execution_context import ExecutionContext
    from agent_kernel.agents.limits import Limits
    from agent_kernel.session import Session
    from agent_kernel.session.operations import Report

__all__ = ["Race", "race"]

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
            of its own and nothing bounds it but its limits; anywhere else it is again a process of its own. A
            provider's model that is given as an object stays in this process: without `executor` its candidates are threads.
        judge: a function of a candidate, or an expression over its variables and `result`; the highest number is best.
        approve: is given once, for all steps of all candidates: nobody can be asked later, so what would ask is denied.
        deadline_s, memory_bytes: of each candidate; its process is ended, or told that there is no memory. For judging all
            of them the judge has as long once more.
        keep: environment variables that workers get although they look like secrets. The models' own are kept anyway.

    Raises:
        RaceError: there is no history to branch from, or the executor cannot see it.
        NoModelError, ModelError, MissingExtraError: no model can take it.
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
    names = " and ".join(dict.fromkeys(one.agent.name for one in found))
    listeners = [on_event] if on_event is not None else []
    log = Log(
        place.event_store, new_run_id(), listeners=listeners, agent=names, namespace="race", parent_run=parent_run
    )
    held = Race(place, log, judge)
    try:
        held.begin(found, executor, Terms(approve, limits, deadline_s, memory_bytes, tuple(keep)))
    except BaseException:
        held.leave()
        raise
    return held


class Race:
    """A race: iterate over it to have its candidates as they end, or `wait`; then `pick` one."""

    def __init__(self, place: ExecutionContext, log: Log, judge: Judge, ended: Sequence[Candidate] = ()) -> None:
        self.id = log.run
        self.notes: list[str] = []
        self._place = place
        self._session: Session = place.session  # type: ignore[assignment]  # a race has one
        self._repo = self._session.repo
        self._log = log
        self._field = Field(self._log, self._repo, judge, ended)

    @classmethod
    def again(cls, place: ExecutionContext, id: str) -> Race:
        """A race that another process held, as its store tells it: to be looked at, picked from, or discarded.

        Raises:
            RunNotFoundError: there is no race of this id. RaceError: there is no history that one could be picked into.
        """
        if place.session is None:
            raise RaceError("a candidate is picked into a state with a history")
        repo, log = place.session.repo, log_of(place.event_store, id)
        if not is_race(log.start):
            raise RunNotFoundError(id)
        found = cls(place, log, None, candidates_of(repo, place.event_store, log.events))
        found.notes += lacks(log.start.left_out)
        return found

    def begin(self, entries: Sequence[Entry], executor: AnyExecutor | None, terms: Terms) -> None:
        """Commit what is not committed yet, make the branches, and let the workers go."""
        start, lost = self._committed()
        self.notes += lacks(lost)
        task = "; ".join(dict.fromkeys(one.task for one in entries))
        models = ", ".join(dict.fromkeys(one.model for one in entries))
        begins = TaskStart(task=task, model=models, approve=terms.approve, left_out=tuple(lost))
        self._log.note(begins, before=start)
        self._log.hold()  # until it is over: so that one whose process died is told from one that goes on
        self._field.begin(entries, start, executor, terms)

    def leave(self) -> None:
        """It did not come to begin: drive it no more."""
        self._field.leave()
        self._log.let_go()

    def _committed(self) -> tuple[str, list[str]]:
        """Commit all that is there; the commit from which the candidates begin, and what cannot be saved."""
        report = self._session.commit(full=True)
        if self._session.head is None:
            report = self._session.commit("before a race", full=True)
        lost = sorted({one.name for one in (*report.unsaved, *self._session.status().lost)})
        return self._place.head, lost

    # -- going on

    def __iter__(self) -> Iterator[Candidate]:
        """The candidates as they end, those that have ended first. An interrupt ends the race, and keeps what they did."""
        return iter(self._field)

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

    def cancel(self, reason: str = "cancelled") -> None:
        """End all workers. What they have committed stays on their branches."""
        self._field.cancel(reason)

    # -- what came of it

    @property
    def judge(self) -> Judge:
        return self._field.judge

    @property
    def task(self) -> str:
        return self._log.start.task

    @property
    def candidates(self) -> list[Candidate]:
        """All of them in order, also those that are still on their way."""
        return self._field.candidates

    @property
    def is_over(self) -> bool:
        """Whether all have ended."""
        return self._field.is_over

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
        return standings.best(self.candidates, is_judged=is_judged)

    @property
    def picked(self) -> int | None:
        """The number of the candidate that was picked and that the variables go on from; None also where that was undone."""
        return self._known().picked(self._repo, self._session.head) or None

    def _known(self) -> Raced:
        """What became of it, also from other notebooks."""
        self._log.catch_up()
        return raced(self._log.events)

    def _note(self, told: SubRun, *, before: str, after: str) -> None:
        """Note what was done with a candidate, behind what others have noted meanwhile."""
        while True:
            try:
                self._log.note(told, before=before, after=after)
                return
            except RunBusyError:
                if not self._log.catch_up():
                    raise

    def candidate(self, number: int) -> Candidate:
        """Raises RaceError if no candidate has this number."""
        if number not in self._field:
            raise RaceError(f"race {short_run(self.id)} has candidates 1 to {len(self._field)}, and no {number}")
        return self._field[number]

    def pick(self, number: int | None = None, *, theirs: Sequence[str] = (), ours: Sequence[str] = ()) -> Report:
        """Merge a candidate's branch into the current one; the others stay as branches until `discard`.

        Where nothing was committed here since the race began, the branch just moves forward to the candidate's commits.

        Args:
            number: by default that of the best.
            theirs, ours: variables that both sides changed since, and whose value goes.

        Raises:
            RaceError: it came to no result, there is no best one, or another one is picked already. MergeConflictError: nothing was changed.
            RunBusyError: the race is still on in another process, which alone can note what becomes of it.
        """
        refuse_driven(self._log)
        chosen = self.best if number is None else self.candidate(number)
        if chosen is None:
            failed = standings.failure(self.candidates)
            said = f"{failed}; " if failed else ""
            raise RaceError(f"{said}race {short_run(self.id)} has no best candidate: pick(NUMBER) names one")
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
        told = SubRun(child=chosen.run, child_agent=chosen.agent, branch=chosen.branch, status="picked")
        self._note(told, before=chosen.tip, after=hex_of(report.commit) if report.commit is not None else "")
        # That the branch was moved forward is how it is done, and says nothing to whoever picks.
        notes = tuple(note for note in report.notes if not note.startswith("fast-forward"))
        return msgspec.structs.replace(report, notes=notes)

    @property
    def is_discarded(self) -> bool:
        """Whether the branches of its candidates are gone."""
        return self._known().discarded

    def discard(self) -> None:
        """Delete the branches of all candidates. What was picked is part of the branch that it was merged into.

        Raises:
            RaceError, RunBusyError: it is still on, here or in another process.
        """
        refuse_driven(self._log)
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
            self._note(told, before=one.start, after=one.tip)

    # -- faces

    def __repr__(self) -> str:
        done = sum(one.is_done for one in self.candidates)
        return f"<Race {short_run(self.id)}: {len(self._field)} candidates, {done} done>"

    def __str__(self) -> str:
        from agent_kernel.agents.racing.standings import text_of

        return text_of(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        from agent_kernel.agents.racing.standings import html_of, text_of

        return {"text/plain": text_of(self), "text/html": html_of(self)}

    def _repr_html_(self) -> str:
        from agent_kernel.agents.racing.standings import html_of

        return html_of(self)
