"""How often something went wrong one time after the other, counted from the events of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from agent_kernel.agents.events import (
    Action,
    ApprovalRequested,
    Error,
    Event,
    Fail,
    Output,
    Resumed,
    Retry,
    StepStart,
    TryStart,
)

__all__ = [
    "has_called",
    "has_unpriced",
    "model_errors",
    "outputs_in_a_row",
    "retries_in_a_row",
    "seconds_taken",
    "steps_in",
    "steps_of",
    "taken_up",
]

_OF_A_STEP: Final = (ApprovalRequested, StepStart, TryStart, Output)


def taken_up(events: Sequence[Event]) -> Sequence[Event]:
    """The events since a person let the run go on although it had failed: what it may take is counted anew from there."""
    failed = next((at for at in range(len(events) - 1, -1, -1) if isinstance(events[at], Fail)), -1)
    return events[failed + 1 :]


def steps_of(events: Sequence[Event]) -> int:
    """How many pieces of code the model has sent."""
    return sum(isinstance(event, Action) and event.code is not None and event.source == "model" for event in events)


def steps_in(events: Sequence[Event]) -> int:
    """All steps of a run, also those that its program gave it, that were denied, and the one that waits.

    Code that was stopped or refused before it began is none.
    """
    met = {(event.run, event.step) for event in events if isinstance(event, _OF_A_STEP)}
    return sum(
        isinstance(event, Action) and event.code is not None and (event.run, event.step) in met for event in events
    )


def has_called(events: Sequence[Event]) -> bool:
    """Whether the model has sent code by calling the tool, and not only between its words."""
    return any(
        isinstance(event, Action) and event.source == "model" and event.code is not None and not event.said
        for event in events
    )


def seconds_taken(events: Sequence[Event]) -> float:
    """How long the run took already: what its answers and steps took, not the time that a person let it wait.

    Answers that failed count too, and the time before they were asked for again.
    """
    took = sum(event.duration_s for event in events if isinstance(event, Action | Output | Error))
    return took + sum(event.waited_s for event in events if isinstance(event, Action | Error | Fail))


def has_unpriced(events: Sequence[Event]) -> bool:
    """Whether the model gave an answer of which nobody knows what it cost."""
    return any(isinstance(event, Action) and event.source == "model" and event.usage.cost is None for event in events)


def retries_in_a_row(events: Sequence[Event]) -> int:
    """Of the answers before the last one, how many up to it were told that they do not fit."""
    return _in_a_row(events, lambda after: any(isinstance(event, Retry) for event in after))


def outputs_in_a_row(events: Sequence[Event], holds: Callable[[Output], bool]) -> int:
    """Of the answers before the last one, how many up to it were steps with such an output."""
    return _in_a_row(events, lambda after: any(isinstance(event, Output) and holds(event) for event in after))


def model_errors(events: Sequence[Event]) -> int:
    """How often the model failed since it answered last, or since a person let the run go on."""
    many = 0
    for event in reversed(events):
        if isinstance(event, Action | Resumed):
            break
        many += isinstance(event, Error) and event.source == "model"
    return many


def _in_a_row(events: Sequence[Event], holds: Callable[[list[Event]], bool]) -> int:
    many = 0
    for number, after in enumerate(_turns(events)):
        if number and not holds(after):
            break
        many += bool(number)
    return many


def _turns(events: Sequence[Event]) -> Iterator[list[Event]]:
    """What followed on each of the model's answers, the last one first."""
    after: list[Event] = []
    for event in reversed(events):
        if isinstance(event, Action):
            yield after
            after = []
        else:
            after.append(event)
