"""What came of one task that was tried on a branch of its own: read from the store, so that nothing is lost with a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from agent_kernel.agents.events import Action, Clarify, Effect, Event, Fail, Success, Usage
from agent_kernel.agents.events import Cancelled as CancelledEvent
from agent_kernel.agents.log import State, state_of, usage_of
from agent_kernel.repository import ObjectId
from agent_kernel.session.history import changes_between
from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.agents.journal import Journal
    from agent_kernel.session import Repository

__all__ = ["Candidate", "Changed", "looked_up", "pickled"]

_LARGEST_VALUE = 64 << 20
_PLAIN = ("bool", "float", "int", "str")  # of these the value says enough


class Changed(msgspec.Struct, frozen=True):
    """A variable that is another one than at the start: `+`, `~` or `-`, and what it is now."""

    how: str
    name: str
    summary: str = ""
    size_bytes: int = 0


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One of several tries of a task. It can be pickled.

    Attributes:
        number: its place in the race, from 1.
        start, tip: hex ids of the commits where it began, and where its branch is now.
        status: `completed`, `failed`, `interrupted`, `clarify`, or `running`.
        reason: why it is not completed, in words.
        result, type: what it gave back, in one line, and of what type it is.
        payload: that value itself, pickled, if it could be.
        steps, lines: pieces of code that it ran, and their lines.
        effects: what it did outside the variables, each with what it did it to.
    """

    number: int
    branch: str
    run: str
    agent: str
    model: str
    task: str
    start: str
    tip: str = ""
    status: State = "running"
    reason: str = ""
    limit: str = ""
    result: str = ""
    type: str = ""
    payload: bytes | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    steps: int = 0
    lines: int = 0
    changed: tuple[Changed, ...] = ()
    effects: tuple[tuple[str, str], ...] = ()
    score: float | None = None

    def __repr__(self) -> str:
        said = self.result or self.reason
        return f"<Candidate {self.number}, {self.agent}, {self.status}{f': {said}' if said else ''}>"

    @property
    def value(self) -> object:
        """What it gave back; where that could not be pickled, one line about it."""
        if self.payload is None:
            return self.result
        import cloudpickle

        return cloudpickle.loads(self.payload)

    @property
    def is_done(self) -> bool:
        """Whether it can be picked."""
        return self.status == "completed"


def pickled(value: object) -> bytes | None:
    """The value as bytes, if it can be pickled and is no larger than 64 MB."""
    import cloudpickle

    try:
        found = bytes(cloudpickle.dumps(value))
    except Exception:  # noqa: BLE001 - values are foreign code's to pickle
        return None
    return found if len(found) <= _LARGEST_VALUE else None


def looked_up(candidate: Candidate, repo: Repository, journal: Journal) -> Candidate:
    """The candidate with all that the store knows of it: its events, and its branch against where it began."""
    events = tuple(journal.of(candidate.run))
    found: dict[str, Any] = {}
    tip = repo.branches().get(candidate.branch)
    if tip is not None:
        from agent_kernel.repository import hex_of

        found["tip"] = hex_of(tip)
        found["changed"] = changed_between(repo, repo.resolve(candidate.start), tip)
    if events:
        found |= _told(events)
        if candidate.status != "running":  # the worker knows best how it ended
            found.pop("status")
        found["reason"] = candidate.reason or found["reason"]
    return msgspec.structs.replace(candidate, **found)


def _told(events: Sequence[Event]) -> dict[str, Any]:
    last = next((e for e in reversed(events) if isinstance(e, Success | Fail | CancelledEvent | Clarify)), None)
    result, kind = getattr(last, "result", ""), getattr(last, "type", "")
    codes = [event.code for event in events if isinstance(event, Action) and event.code is not None]
    return {
        "status": state_of(events),
        "reason": getattr(last, "reason", "") or getattr(last, "question", ""),
        "limit": getattr(last, "limit", ""),
        "result": result.removeprefix(f"{kind} ") if kind in _PLAIN else result,
        "type": kind,
        "usage": usage_of(events),
        "steps": len(codes),
        "lines": sum(len(code.splitlines()) for code in codes),
        "effects": tuple(dict.fromkeys((e.what, e.target) for e in events if isinstance(e, Effect))),
        "seconds": (events[-1].time_ns - events[0].time_ns) / 1e9,
    }


def changed_between(repo: Repository, start: ObjectId | None, tip: ObjectId) -> tuple[Changed, ...]:
    """The variables that differ, with a line about what each is now. Nothing is loaded."""
    old, new = repo.tree_at(start), repo.tree_at(tip)
    found: list[Changed] = []
    for change in changes_between(repo, old, new):
        entry = new.get(change.name)
        stored = repo.read_summary(entry) if entry is not None else b""
        line = summaries.line(summaries.decode(stored)) if stored else ""
        found.append(Changed(change.how, change.name, line, change.size))
    return tuple(found)
