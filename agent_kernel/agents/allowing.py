"""Whether what the model wants to run may run: at once, once a person said so, or not at all; and what comes of the answer.

With `preview` it is tried on a fork first, and what it did there is taken on where the person says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.agents import approving, moves, outcomes
from agent_kernel.agents.conversation import open_action
from agent_kernel.agents.current import guard_pages
from agent_kernel.agents.effects import is_steps_code
from agent_kernel.agents.events import (
    Action,
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Effect,
    Event,
    Finding,
    Output,
    StepStart,
    TryStart,
)
from agent_kernel.agents.gate import Allowed, Gate, finding, given_codes, shown_by, shown_kind
from agent_kernel.agents.outcomes import Ran
from agent_kernel.agents.outside import DENIED, is_outside
from agent_kernel.agents.review.report import review
from agent_kernel.session.interrupts import uninterrupted

if TYPE_CHECKING:
    from agent_kernel.agents.course import Course
    from agent_kernel.agents.going import Going

__all__ = ["allow", "drop", "follow", "gate", "stopped"]

_STOPPED: Final = "it was stopped before this happened, and its variables were taken back: approving runs it again"


def allow(course: Course, action: Action) -> Going:
    """Run what the model wants to run, or ask a person first, or deny it."""
    code = action.code or ""
    if action.source == "setup":  # the program's own code
        yield from course.execute(action, code)
        return
    findings = _findings(course, action, code)
    verdict = approving.verdict(course.setup.approve, findings, can_ask=course.setup.can_ask)
    forbidden = verdict == "deny" and course.setup.approve == "never"
    if course.setup.preview and verdict == "run":
        verdict = "ask" if course.setup.can_ask else "deny"
    if verdict == "run":
        yield from course.execute(action, code)
        return
    asked = ApprovalRequested(code=code, findings=findings)
    if course.setup.preview and verdict == "ask":
        from agent_kernel.agents.preview import trying  # a fork costs its modules only where there is one

        refused = trying.refusal(asked, course.place)
        if refused:
            asked = msgspec.structs.replace(asked, preview="refused", told=refused)
        else:
            yield course.log.note(TryStart(), step=action.step, before=course.place.head)
            asked = trying.tried(course, asked, action.step or 0)
    if verdict != "deny":
        yield course.log.note(asked, step=action.step, before=course.place.head)
        return
    yield from _deny(course, action, [asked], forbidden=forbidden)


def _deny(course: Course, action: Action, asked: list[Event], *, forbidden: bool) -> Going:
    """Deny a step at once: nobody is to find it waiting."""
    reason = "nothing of the kind is allowed" if forbidden else "nobody is there to ask"
    decided = ApprovalDecided(decision="deny", by="policy", reason=reason)
    yield from course.log.note_all([*asked, decided], step=action.step, before=course.place.head)
    yield from follow(course, action, decided)


def gate(course: Course, code: str) -> Gate | None:
    """What stops a step that runs this code; None: nothing does."""
    mode, setup, place = course.setup.approve, course.setup, course.place
    if mode == "auto":
        return None
    guard_pages()
    _, since = open_action(course.log.events)
    approved = frozenset(one for event in since if isinstance(event, ApprovalRequested) for one in event.stopped)
    found = (
        ()
        if mode == "never"
        else review(code, names=place.names(), allowed=setup.allowed, namespace=place.namespace, is_gated=True)
    )
    # What a step made, or gave to its sub-agent, has no more rights than the step.
    codes = frozenset(code for code in given_codes(setup.offers.values()) if not is_steps_code(code))
    url = place.session.repo.store.url if place.session is not None else ""
    shows = shown_by(course.log.events) | {kind for one in approved if (kind := shown_kind(one))}
    return Gate(Allowed(found, approved, shows, setup.allowed, codes), url, place.masked, withholds=mode == "never")


def stopped(course: Course, action: Action, code: str, ran: Ran) -> Going:
    """Ask about a step that was stopped as it began to do something outside, or deny it."""
    place, mode = course.place, course.setup.approve
    effects = tuple((what, place.masked(target, 300)) for what, target in ran.stopped)
    already = [Effect(what=what, target=place.masked(on, 300), count=many) for (what, on), many in ran.effects.items()]
    asked = ApprovalRequested(
        code=code,
        findings=(*_findings(course, action, code), *(finding(*one) for one in effects)),
        stopped=effects,
        told="; ".join(filter(None, (_STOPPED, ran.note))),
        effects=tuple((one.what, one.target, one.count) for one in already),
    )
    if mode == "never" or not course.setup.can_ask:
        yield from _deny(course, action, [*already, asked], forbidden=mode == "never")
        return
    yield from course.log.note_all([*already, asked], step=action.step, before=place.head)


def _findings(course: Course, action: Action, code: str) -> tuple[Finding, ...]:
    """What the step would do."""
    if action.source == moves.SOURCE and course.place.session is not None:
        return moves.findings(course.place.session, moves.Move.read(code), course.author)
    found = review(
        code,
        names=course.place.names(),
        allowed=course.setup.allowed,
        namespace=course.place.namespace,
        is_gated=course.setup.approve in ("risky", "never"),
    )
    return found + _sub_agents(code, course.setup.agents)


def follow(course: Course, action: Action, decided: ApprovalDecided) -> Going:
    """Do what was decided."""
    asked = next((e for e in reversed(course.log.events) if isinstance(e, ApprovalRequested)), ApprovalRequested())
    if decided.decision == "approve" and asked.branch:
        yield from _take(course, action, asked)
        return
    drop(course, asked)
    if decided.decision != "deny":
        code = decided.code or asked.code or action.code or ""
        yield from course.execute(action, code, edited=code != action.code)
        return
    said = approving.denial(asked.findings, decided.reason, asked.stopped)
    denied = Output(status="denied", sent=course.place.masked(said))
    ends = [_given_up(course, decided.reason)] if is_outside(course.log.start.model) else []
    yield from course.log.note_all([denied, *ends], step=action.step, before=course.place.head)


def _given_up(course: Course, reason: str) -> Cancelled:
    """The end of a run that was nothing but the step that was denied."""
    said = course.place.masked(f"it was denied: {reason}" if reason else "it was denied", 2_000)
    return Cancelled(during=DENIED, reason=said, final=True)


def drop(course: Course, asked: ApprovalRequested) -> None:
    """What a step did on a fork goes: it runs here, or not at all."""
    if asked.branch:
        from agent_kernel.agents.preview import trying

        trying.dropped(course.place, asked)


def _take(course: Course, action: Action, asked: ApprovalRequested) -> Going:
    """Take on what a step did on a fork; where what is here now does not go with it, run it."""
    from agent_kernel.agents.preview import trying

    course.place.wait_turn()
    step, before = action.step or 0, course.place.head
    yield course.log.note(StepStart(), step=step, before=before)
    noted: tuple[Event, ...] = ()
    with uninterrupted():
        taken = trying.taken(course.place, asked, course.log.run)
        if taken is not None:
            outcome = outcomes.outcome(course, Ran(*taken), "")
            noted = course.log.note_all(outcome, step=step, before=before, after=course.place.head)
    if taken is None:
        again = "(The variables had changed since this was tried, so it was run again.)"
        ran = course.run_code(asked.code, step)
        if ran.stopped:
            yield from stopped(course, action, asked.code, ran)
            return
        ran = msgspec.structs.replace(ran, note=again)
        noted = course.log.note_all(
            outcomes.outcome(course, ran, ""), step=step, before=before, after=course.place.head
        )
    yield from noted


def _sub_agents(code: str, agents: Collection[str]) -> tuple[Finding, ...]:
    """The sub-agents that the code names: they act by themselves, and may do no more than this run may."""
    said = set(re.findall(r"[^\W\d]\w*", code)) if agents else set[str]()
    return tuple(Finding("agent", f"{name} acts by itself", 0, risky=False) for name in sorted(said & set(agents)))
