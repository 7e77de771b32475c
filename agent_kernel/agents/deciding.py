"""Answer for a run that waits, from wherever somebody is: its notebook, another one, or a command line the next day."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from agent_kernel.agents import holding, running_step
from agent_kernel.agents.conversation import open_action
from agent_kernel.agents.events import ApprovalDecided, ApprovalRequested, Clarify, Event, Fail
from agent_kernel.agents.journal import OVER, Log, State, state_of
from agent_kernel.agents.racing.raced import is_race
from agent_kernel.errors import RunBusyError, RunStateError

if TYPE_CHECKING:
    from agent_kernel.agents.journal import Journal

__all__ = [
    "Standing",
    "all_waiting",
    "asked_by",
    "decide",
    "is_decided",
    "log_of",
    "newest",
    "refuse_driven",
    "said_of",
    "standing",
    "waiting",
]


# `stopped`: it is not done, and nobody drives it: its process died, or its loop was left. `undone`: it was taken back.
# `decided`: a person has, and nobody has gone on with it since.
Standing: TypeAlias = State | Literal["stopped", "undone", "decided"]


def decide(log: Log, decision: str, *, code: str | None = None, reason: str = "", by: str = "") -> ApprovalDecided:
    """Store what a person decided about the step that waits; it runs when the run is driven on.

    Raises:
        RunStateError: no step of it waits. RunBusyError: somebody else decided first, or drives it.
        WithinStepError: code of a step decides.
    """
    running_step.refuse("decide about a step")
    if log.state == "running":
        refuse_driven(log)
    if log.state != "pending":
        state = standing(log.journal, log.events)
        if state == "decided":
            raise RunStateError(log.run, "decided already", "decided again; %agent resume lets it go on")
        raise RunStateError(log.run, said_of(state), "approved or denied")
    action, _ = open_action(log.events)
    told = ApprovalDecided(decision=decision, by=by, reason=reason, code=code)
    return log.note(told, step=action.step if action is not None else None)


def refuse_driven(log: Log, *, force: bool = False) -> None:
    """Raise RunBusyError if somebody else drives the run.

    Args:
        force: take it from a process on another machine, of which nobody can tell here whether it lives.
    """
    if log.is_held:
        return
    if force:
        log.journal.release(log.run, elsewhere=True)
    driver = log.journal.driver(log.run)
    if driver is not None:
        raise RunBusyError(log.run, holding.said(driver))


def waiting(events: Sequence[Event]) -> ApprovalRequested | None:
    """What a run asks a person for, if it waits."""
    if state_of(events) != "pending":
        return None
    return next((event for event in reversed(events) if isinstance(event, ApprovalRequested)), None)


def asked_by(events: Sequence[Event]) -> ApprovalRequested | Clarify | None:
    """What a run asks a person, if it waits: for approval, or for an answer."""
    if state_of(events) == "clarify":
        return next((event for event in reversed(events) if isinstance(event, Clarify)), None)
    return waiting(events)


def newest(journal: Journal, states: Collection[Standing]) -> str:
    """The newest run that is in one of these states; "" if no run is.

    Runs that belong to another one (a sub-agent's, a candidate's) go on with that, and races do not go on at all.
    """
    return next(_runs_in(journal, reversed(journal.runs()), states), "")


def all_waiting(journal: Journal, state: Standing) -> list[str]:
    """The runs that wait for a person (`pending`, `clarify`), the newest first; stores of earlier releases mark none."""
    return list(_runs_in(journal, reversed(journal.runs()), (state,)))


def _runs_in(journal: Journal, runs: Iterable[str], states: Collection[Standing]) -> Iterator[str]:
    for run in runs:
        events = tuple(journal.of(run))
        if not events[0].parent_run and not is_race(events[0]) and standing(journal, events) in states:
            yield run


def standing(journal: Journal, events: Sequence[Event], undone: Collection[str] = ()) -> Standing:
    """Where a run stands.

    Args:
        undone: the runs that were taken back. Of one that has ended that is said instead.
    """
    state = state_of(events)
    if state == "running" and journal.driver(events[0].run) is None:
        return "decided" if is_decided(events) else "stopped"
    return "undone" if state in OVER and events[0].run in undone else state


def is_decided(events: Sequence[Event]) -> bool:
    """Whether a person has decided about a step, and nothing came of it yet."""
    last = events[-1]
    return isinstance(last, ApprovalDecided) and last.by != "policy"


def log_of(journal: Journal, run: str) -> Log:
    """A run as it is stored. Raises: RunNotFoundError."""
    run = journal.find(run)
    start = journal.first(run)
    events = tuple(journal.of(run))
    return Log(journal, run, events, agent=start.agent, namespace=start.namespace, parent_run=start.parent_run)


def said_of(state: Standing, events: Sequence[Event] = ()) -> str:
    """The state in words. `events`: of the run, which tell a failure from a limit that stopped it."""
    if state == "failed" and next((event.limit for event in reversed(events) if isinstance(event, Fail)), ""):
        return "stopped at a limit"
    told = {
        "pending": "waiting for approval",
        "clarify": "waiting for an answer",
        "running": "going on",
        "decided": "decided, but has not gone on",
    }
    return told.get(state, state)
