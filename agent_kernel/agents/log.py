"""The events of one run as it goes on: stored first, then told to whoever listens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

import msgspec

from agent_kernel.agents import holding
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
from agent_kernel.errors import StoreError
from agent_kernel.session.interrupts import uninterrupted

if TYPE_CHECKING:
    from agent_kernel.agents.journal import Journal

__all__ = ["OVER", "Listener", "Log", "State", "state_of", "usage_of"]

logger = logging.getLogger(__name__)
E = TypeVar("E", bound=Event)
Listener: TypeAlias = Callable[[Event], object]
State: TypeAlias = Literal["running", "pending", "clarify", "interrupted", "cancelled", "completed", "failed"]


OVER: Final = frozenset({"completed", "failed", "cancelled"})  # a failed one can be taken up again


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
        self._held: bytes | None = None  # while this is what drives the run
        self.when_over: Callable[[], None] = lambda: None  # called once it is stored that the run is over

    def hold(self) -> None:
        """Drive the run from here on, if it can go on at all.

        Raises:
            RunBusyError: somebody else drives it, or went on with it meanwhile. Nothing was written.
        """
        if not self.is_held and self.state == "running":
            with uninterrupted():
                self._held = self.journal.hold(self.run, self._next_number())

    @property
    def is_held(self) -> bool:
        """Whether this is what drives the run."""
        return self._held is not None and holding.is_driving(self._held)

    def let_go(self) -> None:
        """Drive it no more. Where it stopped halfway, whoever comes may go on with it."""
        held = self._held
        if held is None or not holding.is_own(held):
            return
        with uninterrupted():
            try:
                self.journal.let_go(self.run, held)
            except StoreError as error:  # a loop may be collected after its store was closed
                logger.warning("run %s stays held until this process ends: %s", self.run, error)
            self._held = None

    def catch_up(self) -> bool:
        """Take in what others have added since it was looked at here; returns whether they had. While it is held, nobody can."""
        if self.is_held:
            return False
        with uninterrupted():
            found = list(self.journal.of(self.run, self._next_number() - 1))
            self.events.extend(found)
        return bool(found)

    def follow_rewritten(self) -> None:
        """Know the commits by what they are called since the history was rewritten, as the stored events do."""
        if self.is_held or not self.events:
            return
        last = self.events[-1]
        stored = next(self.journal.of(self.run, last.seq - 1), last)
        if (stored.before, stored.after) == (last.before, last.after):
            return
        with uninterrupted():
            again = {event.seq: event for event in self.journal.of(self.run)}
            self.events = [again.get(event.seq, event) for event in self.events]

    def _next_number(self) -> int:
        return self.events[-1].seq + 1 if self.events else 0

    def note(self, event: E, *, step: int | None = None, before: str = "", after: str = "") -> E:
        """Store an event as the run's next, tell the listeners, and return it as it is stored.

        Raises:
            RunBusyError: somebody else drives this run, or went on with it.
            StoreError: it is not stored; nobody was told.
        """
        return self.note_all([event], step=step, before=before, after=after)[0]  # type: ignore[return-value]  # it is the same class

    def note_all(
        self, events: Sequence[Event], *, step: int | None = None, before: str = "", after: str = ""
    ) -> tuple[Event, ...]:
        """Store what belongs together, all of it or nothing, then tell of it in order; raises as `note`."""
        first = self._next_number()
        common = {"run": self.run, "step": step, "before": before, "after": after or before, **self._common}
        told = [msgspec.structs.replace(event, seq=first + at, **common) for at, event in enumerate(events)]
        with uninterrupted():  # what is stored has to be known here: its numbers are taken
            stored = self.journal.append(*told, held=self._held)
            if self._held is not None and holding.comes_to_rest(stored[-1]):
                holding.end(self._held)
                self._held = None
            self.events.extend(stored)
            if self.state in OVER:
                self.when_over()
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
