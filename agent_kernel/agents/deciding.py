"""Answer for a run that waits, from wherever somebody is: its notebook, another one, or a command line the next day."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from agent_kernel.agents.conversation import open_action
from agent_kernel.agents.events import ApprovalDecided, ApprovalRequested, Clarify, Event
from agent_kernel.agents.log import Log, State, state_of
from agent_kernel.errors import RunStateError

if TYPE_CHECKING:
    from agent_kernel.agents.journal import Journal
    from agent_kernel.agents.undone import Standing

__all__ = ["asked_by", "decide", "log_of", "newest", "said_of", "waiting"]


def decide(log: Log, decision: str, *, code: str | None = None, reason: str = "", by: str = "") -> ApprovalDecided:
    """Store what a person decided about the step that waits; it runs when the run is driven on.

    Raises:
        RunStateError: no step of it waits. RunBusyError: somebody else decided first.
    """
    if log.state != "pending":
        raise RunStateError(log.run, said_of(log.state), "approved or denied")
    action, _ = open_action(log.events)
    told = ApprovalDecided(decision=decision, by=by, reason=reason, code=code)
    return log.note(told, step=action.step if action is not None else None)


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


def newest(journal: Journal, states: Collection[State]) -> str:
    """The newest run that is in one of these states; "" if there is none."""
    for run in reversed(journal.runs()):
        if state_of(tuple(journal.of(run))) in states:
            return run
    return ""


def log_of(journal: Journal, run: str) -> Log:
    """A run as it is stored. Raises: RunNotFoundError."""
    run = journal.find(run)
    start = journal.first(run)
    events = tuple(journal.of(run))
    return Log(journal, run, events, agent=start.agent, namespace=start.namespace, parent_run=start.parent_run)


def said_of(state: Standing) -> str:
    """The state in words."""
    told = {"pending": "waiting for approval", "clarify": "waiting for an answer", "running": "going on"}
    return told.get(state, state)
