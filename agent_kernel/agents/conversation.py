"""The conversation with the model, rebuilt from the events of a run, and of the runs before it on this line of history.

Nothing of a conversation is kept but the events, so it is the same in every process. A run's own messages are followed
by nothing but more of them: what was sent once stays as it was sent, and prompt caches stay warm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_kernel.agents.events import (
    Action,
    ApprovalRequested,
    Clarify,
    Compaction,
    Event,
    Fail,
    Output,
    Resumed,
    Retry,
    Rewound,
    StepStart,
    Success,
    TaskStart,
    TryStart,
)
from agent_kernel.agents.models import Message, Returned, Said, Told
from agent_kernel.agents.models.fencing import CAME

__all__ = [
    "STOPPED",
    "STOPPED_TRY",
    "UNKNOWN",
    "UNKNOWN_TRY",
    "begun",
    "messages_of",
    "open_action",
    "told_later",
    "within",
]

UNKNOWN = (
    "It is not known whether this step ran to its end: the process died while it ran. Look at the state before you "
    "repeat anything that reaches outside."
)

STOPPED = "The person interrupted this step. What it had changed by then is kept."
UNKNOWN_TRY = (
    "The process died while this step was tried on a fork of it: no variable was changed, but it is not known what it did "
    "outside. Look before you repeat anything that reaches outside."
)
STOPPED_TRY = (
    "The person interrupted this step while it was tried on a fork: no variable was changed, but what it had done outside "
    "by then stays."
)


def messages_of(events: Iterable[Event], earlier: Iterable[Message] = ()) -> list[Message]:
    """What was said in a run so far, behind what was said in the runs that it goes on with.

    A call that nothing came of yet stays open.
    """
    found = list(earlier)
    said = Said()  # what it answered last
    fenced = False  # and whether it had called no tool
    events = list(events)
    gone = next((event.steps for event in reversed(events) if isinstance(event, Rewound)), ())
    for event in events:
        if event.step is not None and event.step in gone:
            continue
        match event:
            case TaskStart(prompt=prompt):
                found.append(Told(prompt))
            case Action():
                fenced = bool(event.said)
                said = Said(event.said) if fenced else Said(event.text, event.code, event.call)
                found.append(said)
            case Output(sent=sent):
                came = Told(f"{CAME}{sent}") if fenced else Returned(said.call, sent)
                found.insert(_behind(found, said), came)
            case Retry(sent=sent) | Resumed(sent=sent) if sent:
                found.append(Told(sent))
            case Compaction(dropped=dropped, sent=sent):
                found[:dropped] = [Told(sent)] if sent else []
            case _:
                pass
    return found


def _behind(messages: list[Message], said: Said) -> int:
    """Where what came of a call stands: providers want it right behind the call, whatever was said meanwhile."""
    found = (at + 1 for at in range(len(messages) - 1, -1, -1) if messages[at] is said)
    return next(found, len(messages))


def closing(events: Sequence[Event]) -> list[Message]:
    """How a run ended, in one message, for the runs that come after it."""
    last = events[-1] if events else None
    match last:
        case Success(result=result):
            said = f"(done: {result})" if result else "(done)"
        case Fail(reason=reason):
            said = f"(failed: {reason})"
        case Clarify(question=question):
            said = question
        case _:
            said = "(stopped before it was done)"
    return [Said(said)]


def told_later(events: Sequence[Event]) -> list[Message]:
    """What runs that come after this one are told of it: all that was said, and how it ended."""
    found = messages_of([event for event in events if not isinstance(event, Compaction)])
    last = found[-1]
    if isinstance(last, Said) and (last.code is not None or open_action(events)[0] is not None):
        found.pop()  # nothing came of it, and a call must not stay open
    answered = isinstance(events[-1], Success) and isinstance(found[-1], Said) and found[-1].code is None
    return found if answered else [*found, *closing(events)]


def open_action(events: Sequence[Event]) -> tuple[Action | None, list[Event]]:
    """The step of which no outcome is known yet, and the events that came behind it."""
    for at in range(len(events) - 1, -1, -1):
        event = events[at]
        if isinstance(event, Output):
            return None, []
        if isinstance(event, Action):
            return (event, list(events[at + 1 :])) if event.code is not None else (None, [])
    return None, []


def begun(since: Sequence[Event]) -> StepStart | TryStart | None:
    """How the code of a step began of which no outcome is known: it may have run, here or on a fork."""
    for event in reversed(since):
        if isinstance(event, ApprovalRequested):
            return None  # a try has ended by then, and what was decided has not begun
        if isinstance(event, StepStart | TryStart):
            return event
    return None


def within(messages: Sequence[Message], most_chars: int) -> tuple[list[Message], int]:
    """The newest messages that fit, beginning with what the model is told, and how many were left out."""
    kept: list[Message] = []
    room = most_chars
    for message in reversed(messages):
        room -= len(message.text) + len(getattr(message, "code", None) or "")
        if room < 0:
            break
        kept.insert(0, message)
    while kept and not isinstance(kept[0], Told):
        kept.pop(0)
    return kept, len(messages) - len(kept)
