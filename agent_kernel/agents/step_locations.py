"""Where the steps of a run lie, if not behind the state at which somebody would go on with it.

The code of a step was written for what the steps before it had made. So nothing is decided about it, and nothing that was
decided, or had not begun as its loop was left, runs where the state does not come from there: on another branch, at an
older commit, or with steps again without which it was written. Steps that were undone do lie behind what came after:
whoever took them back knows of it, and the model is told (`Rewound`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from agent_kernel.agents import agent_undo, temporary_branches
from agent_kernel.agents.agent_undo import SOURCE
from agent_kernel.agents.events import GIVEN, ApprovalRequested, Event, Output, Rewound, TaskStart
from agent_kernel.agents.messages import open_action, start_event
from agent_kernel.errors import DamagedObjectError, RunElsewhereError
from agent_kernel.repository import ObjectId
from agent_kernel.repository.commits import ALGORITHM

if TYPE_CHECKING:
    from agent_kernel.session.snapshot import Repository

__all__ = ["Position", "find_elsewhere_error", "is_next_a_step", "refuse_if_elsewhere"]


class Position(Protocol):
    """Where somebody would go on with a run: a session, or what a reader knows of one."""

    @property
    def repo(self) -> Repository: ...
    @property
    def id(self) -> str: ...
    @property
    def head(self) -> ObjectId | None: ...


def is_next_a_step(events: Sequence[Event]) -> bool:
    """Whether code that was written already is what comes next, if the run goes on: it waits, was decided, or had not begun."""
    action, since = open_action(events)
    return action is not None and action.source not in GIVEN and start_event(since) is None


def refuse_if_elsewhere(session: Position | None, events: Sequence[Event]) -> None:
    """Raise RunElsewhereError where the state of the session does not go on from what the run did."""
    found = find_elsewhere_error(session, events)
    if found is not None:
        raise found


def find_elsewhere_error(session: Position | None, events: Sequence[Event]) -> RunElsewhereError | None:
    """What says that a run lies elsewhere; None: it does not, or it has no history."""
    action, since = open_action(events)
    if session is None or (action is not None and action.source == SOURCE):  # which is only made where it was asked for
        return None
    outputs = [event for event in events if isinstance(event, Output) and event.step is not None and event.after]
    known = next((event.steps for event in reversed(events) if isinstance(event, Rewound)), ())
    missing = [event for event in outputs if event.step not in known and not _is_ancestor(session, event.after)]
    if missing:
        steps = {event.step for event in missing if event.step is not None}
        return _make_error(session, events[0], agent_undo.describe_step_numbers(steps), missing[-1].after)
    before = events[0].before
    if not outputs and before and not _is_ancestor(session, before):
        return _make_error(session, events[0], "the beginning", before)
    request = next((event for event in reversed(since) if isinstance(event, ApprovalRequested)), None)
    if request is not None and request.before and not _is_ancestor(session, request.before):
        return _make_error(session, events[0], f"the state before step {request.step}", request.before)
    return None


def _make_error(session: Position, start: Event, what: str, commit: str) -> RunElsewhereError:
    repo, id = session.repo, _id(commit)
    began_on = start.branch if isinstance(start, TaskStart) else ""
    try:
        holds = [
            name
            for name, tip in repo.branches().items()
            if repo.is_ancestor(id, tip) and not temporary_branches.is_temporary(name)
        ]
    except DamagedObjectError:
        return RunElsewhereError(start.run, what, commit=commit[:8], gone=True)
    branch = began_on if began_on in holds else next(iter(holds), "")
    lease = repo.lease_of(branch) if branch else None
    is_in_use = lease is not None and lease.session != session.id and lease.is_alive(repo.store)
    return RunElsewhereError(start.run, what, branch, commit[:8], is_in_use)


def _is_ancestor(session: Position, commit: str) -> bool:
    """Whether the state goes on from a commit; where the history is damaged nobody knows."""
    if session.head is None:
        return False
    id, repo = _id(commit), session.repo
    try:
        return repo.is_ancestor(id, session.head)
    except DamagedObjectError:  # the commit itself, or one on the way
        pass
    try:
        return any(id in one.parents for _, one in repo.log([session.head]))
    except DamagedObjectError:
        return True


def _id(commit: str) -> ObjectId:
    return ObjectId(bytes.fromhex(commit) + ALGORITHM)
