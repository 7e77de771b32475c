"""How a run asks its model: within its limits, streamed, again where that may help, and what words alone come to."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from agent_kernel.agents import conversation, counting, outcomes, returning
from agent_kernel.agents.events import Action, Error, Fail, Retry, Success
from agent_kernel.agents.going import Wait
from agent_kernel.agents.limits import ran_too_long
from agent_kernel.agents.log import usage_of
from agent_kernel.agents.models import Answer, Request
from agent_kernel.agents.models.fencing import Fenced, split
from agent_kernel.agents.models.loop import Stream, later
from agent_kernel.agents.models.naming import is_free
from agent_kernel.errors import ModelError
from agent_kernel.session.interrupts import uninterrupted

if TYPE_CHECKING:
    from agent_kernel.agents.course import Course
    from agent_kernel.agents.going import Going, Item

__all__ = ["ask"]

_LONGEST_WAIT_S = 60.0
_CLOCKS_DIFFER_S = 0.05
_CUT = "the model's answer was cut off at its token limit twice (raise the limit with model_settings={'max_tokens': …})"


def ask(course: Course) -> Going:
    """Ask for the next answer, or end the run where a limit is reached."""
    events = counting.taken_up(course.log.events)
    reached = course.setup.limits.reached(
        steps=counting.steps_of(events),
        usage=usage_of(events),
        seconds=course.seconds,
        unpriced=not is_free(course.setup.model) and counting.has_unpriced(events),
    )
    if reached is not None:
        raised = [event for event in course.log.events if isinstance(event, Error) and event.source == "code"]
        last = f"; the last error of its code: {raised[-1].message}" if reached[0] == "steps" and raised else ""
        yield course.log.note(Fail(limit=reached[0], reason=reached[1] + last, waited_s=_has_waited(course)))
        return
    began = time.perf_counter()
    try:
        answer = yield from _answer(course)
    except ModelError as error:
        yield from _failed(course, error, time.perf_counter() - began)
        return
    found = _written_as_words(course, answer)
    text, code = (answer.text, answer.code) if found is None else (found.text, found.code)
    number = counting.steps_of(course.log.events) + 1 if code is not None else None
    action = Action(
        thinking=answer.thinking,
        text=text,
        code=code,
        call=answer.call,
        said="" if found is None else answer.text,
        usage=answer.usage,
        duration_s=round(time.perf_counter() - began, 6),
        waited_s=_has_waited(course),
    )
    yield course.log.note(action, step=number, before=course.place.head)
    if answer.is_cut and events and isinstance(events[-1], Retry) and events[-1].sent == answer.refused:
        yield course.log.note(Fail(reason=_CUT))
    elif answer.refused:
        yield course.log.note(outcomes.told(course, answer.refused))
    elif code is None:
        yield from _words(course, answer.text.strip())


def _written_as_words(course: Course, answer: Answer) -> Fenced | None:
    """The code in the words of a model that has called no tool in this run: many a local model calls none."""
    if answer.code is not None or answer.refused or (not answer.in_words and counting.has_called(course.log.events)):
        return None
    return split(answer.text)


def _answer(course: Course) -> Generator[Item, Any, Answer]:
    """Stream one answer."""
    answers = sum(isinstance(event, Action) and event.source != "setup" for event in course.log.events)
    sent = tuple(conversation.messages_of(course.log.events, course.setup.earlier))
    request = Request(course.log.start.instructions, sent, answers, _patience(course), course.setup.settings)
    with uninterrupted():  # or nobody could end the request
        course.stream = stream = Stream(course.setup.model, request)
    answer: Answer | None = None
    while (piece := (yield Wait(stream.next()))) is not None:
        if isinstance(piece, Answer):
            answer = piece
        else:
            yield piece
    course.stream = None
    if answer is None:
        if course.stopped:
            raise KeyboardInterrupt
        raise ModelError(course.setup.model.name, "it ended without an answer", retry_after_s=0.0)
    return answer


def _patience(course: Course) -> float | None:
    limits = course.setup.limits
    left = None if limits.run_s is None else max(0.1, limits.run_s - course.seconds)
    known = [one for one in (limits.model_s, left) if one is not None]
    return min(known, default=None)


def _failed(course: Course, error: ModelError, took_s: float) -> Going:
    """The model did not answer: ask again later, or give up."""
    course.stream = None
    tries = counting.model_errors(course.log.events)
    again = error.retry_after_s is not None and tries < course.setup.limits.retries
    noted = Error(
        source="model",
        message=str(error),
        fatal=not again,
        duration_s=round(took_s, 6),
        waited_s=_has_waited(course),
    )
    yield course.log.note(noted)
    if not again:
        limit = _limit_of(course, error)
        run_s = course.setup.limits.run_s
        reason = ran_too_long(course.seconds, run_s) if limit == "run_s" and run_s is not None else str(error)
        yield course.log.note(Fail(reason=reason, limit=limit))
    elif error.retry_after_s:
        run_s = course.setup.limits.run_s
        left = _LONGEST_WAIT_S if run_s is None else max(0.0, run_s - course.seconds)
        began = time.perf_counter()
        yield Wait(later(min(_LONGEST_WAIT_S, left, error.retry_after_s * 2**tries)))
        course.waited_s = time.perf_counter() - began


def _has_waited(course: Course) -> float:
    """How long it waited to ask again, for the event that comes next."""
    waited_s, course.waited_s = course.waited_s, 0.0
    return round(waited_s, 6)


def _limit_of(course: Course, error: ModelError) -> str:
    """The limit that an answer ran into, if one did."""
    if not error.timed_out:
        return ""
    limits = course.setup.limits
    is_runs = limits.run_s is not None and course.seconds > limits.run_s - _CLOCKS_DIFFER_S
    return "run_s" if is_runs else "model_s"


def _words(course: Course, text: str) -> Going:
    """The model answered with words alone: they are the result, where words can be one."""
    if text and returning.type_text(course.setup.returns) in ("", "str"):
        course.value = text
        yield course.log.note(Success(result=text[:2_000], type="str"), before=course.place.head)
        return
    yield course.log.note(
        outcomes.told(
            course,
            "Act by calling run_python (or, if you cannot call it, with one ```python fence), and end the task there "
            "with task.success(value).",
        )
    )
