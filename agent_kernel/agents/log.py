"""The events of one run as it goes on: stored first, then told to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import msgspec

from agent_kernel.agents.events import (
    Action,
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Clarify,
    Event,
    Fail,
    Output,
    Resumed,
    StepStart,
    SubRun,
    Success,
    TaskStart,
    Usage,
)

if TYPE_CHECKING:
    from agent_kernel.agents.journal import Journal

__all__ = ["Listener", "Log", "State", "state_of", "usage_of"]

E = TypeVar("E", bound=Event)
Listener: TypeAlias = Callable[[Event], object]
State: TypeAlias = Literal["running", "pending", "clarify", "interrupted", "cancelled", "completed", "failed"]


class Log:
    """One run's events: those that are stored, and the next one.

    Args:
        events: what is stored of the run already.
        common: what every event of it says: agent, namespace, parent_run.
    """

    def __init__(
        self,
        journal: Journal,
        run: str,
        events: Sequence[Event] = (),
        listeners: Sequence[Listener] = (),
        **common: str,
    ) -> None:
        self.run = run
        self.events = list(events)
        self.listeners = list(listeners)
        self.journal = journal
        self._common = common

    def note(self, event: E, *, step: int | None = None, before: str = "", after: str = "") -> E:
        """Store an event as the run's next, tell the listeners, and return it as it is stored.

        Raises:
            RunBusyError: somebody else goes on with this run.
            StoreError: it is not stored; nobody was told.
        """
        return self.note_all([event], step=step, before=before, after=after)[0]  # type: ignore[return-value]  # it is the same class

    def note_all(
        self, events: Sequence[Event], *, step: int | None = None, before: str = "", after: str = ""
    ) -> tuple[Event, ...]:
        """Store what belongs together, all of it or nothing, then tell of it in order; raises as `note`."""
        first = self.events[-1].seq + 1 if self.events else 0
        common = {"run": self.run, "step": step, "before": before, "after": after or before, **self._common}
        told = [msgspec.structs.replace(event, seq=first + at, **common) for at, event in enumerate(events)]
        stored = self.journal.append(*told)
        self.events.extend(stored)
        for event in stored:
            for listener in self.listeners:
                listener(event)
        return stored

    @property
    def state(self) -> State:
        return state_of(self.events)

    @property
    def start(self) -> TaskStart:
        first = self.events[0]
        assert isinstance(first, TaskStart)
        return first


def state_of(events: Sequence[Event]) -> State:
    """Where a run stands, judging from its events alone; `running` also says: the process died meanwhile."""
    for event in reversed(events):
        match event:
            case Success():
                return "completed"
            case Fail():
                return "failed"
            case Clarify():
                return "clarify"
            case Cancelled(final=final):
                return "cancelled" if final else "interrupted"
            case ApprovalRequested():
                return "pending"
            case ApprovalDecided() | StepStart() | Action() | TaskStart() | Output() | Resumed():
                return "running"
            case _:
                pass
    return "running"


def usage_of(events: Sequence[Event]) -> Usage:
    """What the models of a run took so far, and those of its sub-agents."""
    return sum((event.usage for event in events if isinstance(event, Action | SubRun)), Usage())
