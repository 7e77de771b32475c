"""What a step that has run comes to: the events that are written down of it, and what the model is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.agents import context, counting, returning
from agent_kernel.agents.deadlines import STUBBORN
from agent_kernel.agents.events import (
    Cancelled,
    Clarify,
    Effect,
    Error,
    Event,
    Fail,
    Output,
    Retry,
    StateChange,
    Success,
)
from agent_kernel.agents.executing import Executed
from agent_kernel.errors import AgentKernelError
from agent_kernel.repository import Change, Unsaved
from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.agents.course import Course
    from agent_kernel.agents.place import Place
    from agent_kernel.agents.settling import Settled

__all__ = ["Ran", "outcome", "setup_failed", "told"]

_MOST_TEXT = 1_000_000  # characters of an output that are looked at


class Ran(msgspec.Struct, frozen=True):
    """A step that has run."""

    done: Executed
    changed: list[Change]
    unsaved: list[Unsaved]
    effects: dict[tuple[str, str], int]
    note: str = ""  # what else the model has to know
    stopped: tuple[tuple[str, str], ...] = ()  # the effects that it was stopped from having


def outcome(course: Course, ran: Ran, edited: str) -> list[Event]:
    """What is written down of a step that has run, in order."""
    done = ran.done
    course.place.look([one.name for one in ran.changed])
    seen = [one for one in ran.changed if course.place.tells(one.name)]
    changes = context.change_lines(seen, course.place.summary)
    shown = tuple(msgspec.structs.replace(part, text=course.place.shown(part.text)) for part in done.parts)
    whole = "\n\n".join(filter(None, (ran.note, _sent(course, done, changes, edited))))
    sent = context.cut(whole, course.setup.limits.output_chars)
    dropped = max(0, len(whole) - len(sent))
    output = Output(status=done.status, sent=sent, dropped=dropped, parts=shown, duration_s=round(done.seconds, 6))
    found: list[Event] = [output, *_aside(course, ran)]
    if done.status == "interrupted":
        found.append(Cancelled(during="code", reason=course.stopped))
    elif done.settled is not None:
        found += _settled(course, done.settled)
    else:
        found += _overrun(course, output, done.error)
    return found


def _overrun(course: Course, output: Output, error: BaseException | None) -> Iterator[Fail]:
    """The end of the run, where its steps were told too often, one after the other, that they are too much."""
    limits, events = course.setup.limits, counting.taken_up(course.log.events)
    if output.status == "timeout" and limits.step_s is not None:
        again = counting.outputs_in_a_row(events, lambda one: one.status == "timeout")
        if again >= limits.retries or getattr(error, "swallowed", 0) >= STUBBORN:
            yield Fail(limit="step_s", reason=f"its code could not be kept within its time: {error}")
    elif output.dropped:
        again = counting.outputs_in_a_row(events, lambda one: one.dropped > 0)
        if again >= limits.retries:
            many = f"{limits.output_chars:,}"
            yield Fail(limit="output_chars", reason=f"its steps went on to show more than {many} characters")


def _aside(course: Course, ran: Ran) -> Iterator[Event]:
    """What is told beside the output: what changed, what went wrong, what it did outside."""
    if ran.changed or ran.unsaved:
        said = tuple(
            (
                one.how,
                summaries.MASK if course.place.redactor.knows(one.name) else one.name,
                "" if one.how == "-" or course.place.hidden(one.name) else course.place.summary(one.name),
            )
            for one in ran.changed
        )
        yield StateChange(changed=said, unsaved=tuple((one.name, one.reason) for one in ran.unsaved))
    error = ran.done.error
    if error is not None and ran.done.status != "interrupted":
        yield Error(source="code", message=course.place.shown(f"{type(error).__name__}: {_first_line(error)}", 500))
    for (what, target), count in ran.effects.items():
        yield Effect(what=what, target=course.place.masked(target, 300), count=count)


def told(course: Course, sent: str) -> Retry | Fail:
    """What did not fit, for the model to try again; or the end, where it was told that often enough."""
    if counting.retries_in_a_row(counting.taken_up(course.log.events)) >= course.setup.limits.retries:
        reason = f"the model was told {course.setup.limits.retries} times what did not fit: {sent}"
        return Fail(reason=reason[:500], limit="retries")
    return Retry(sent=sent)


def _sent(course: Course, done: Executed, changed: list[str], edited: str) -> str:
    """What the model is told of a step."""
    said = [f"The person changed the code before it ran:\n{course.place.redactor.masked(edited)}"] if edited else []
    text = course.place.shown(done.text, _MOST_TEXT).rstrip()
    match done.status:
        case "timeout":
            said.append(f"The step was interrupted: {done.error}. What it had changed by then is kept.")
        case "interrupted":
            said.append("The person interrupted this step. What it had changed by then is kept.")
        case _:
            pass
    said += [text] if text else []
    if changed:
        said.append("\n".join(["Changed variables:", *changed]))
    return "\n\n".join(said) or "(no output, and no variable changed)"


def _settled(course: Course, settled: Settled) -> Iterator[Event]:
    """How the code ended the run, if what it gave fits."""
    match settled.how:
        case "fail":
            yield Fail(reason=course.place.shown(str(settled.value), 2_000))
        case "clarify":
            yield Clarify(question=course.place.shown(str(settled.value), 4_000))
        case _:
            try:
                course.value = returning.fitted(settled.value, course.setup.returns)
            except returning.Misfit as misfit:
                said = course.place.shown(str(misfit), 500)
                yield Error(source="value", message=said)
                yield told(course, f"task.success was given a value that does not fit: {said}")
                return
            yield _success(course)


def _success(course: Course) -> Success:
    said = "" if course.value is None else summaries.line(summaries.summarize(course.value, "result"))
    return Success(result=course.place.shown(said), type=returning.type_text(type(course.value)))


def setup_failed(done: Executed, place: Place) -> list[Event]:
    if done.status in ("ok", "interrupted"):
        return []
    said = f"{type(done.error).__name__}: {_first_line(done.error)}" if done.error is not None else done.status
    return [Fail(reason=f"its setup failed: {place.shown(said, 500)}")]


def _first_line(error: BaseException) -> str:
    if isinstance(error, AgentKernelError):  # its arguments are no sentence
        return str(error).partition("\n")[0]
    found = [argument for argument in error.args[:1] if type(argument) is str]
    return found[0].partition("\n")[0] if found else ""
