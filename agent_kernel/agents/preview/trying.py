"""Try a step of a run on a fork before anybody is asked about it, and take on what it did there once they agreed.

All that is needed to take it on is in the event that asks, and on the branch that it names: whoever approves it may be
another process.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.agents import preview
from agent_kernel.agents.events import ApprovalRequested
from agent_kernel.agents.executing import Executed
from agent_kernel.agents.gate import finding
from agent_kernel.agents.preview import Preview, previewed
from agent_kernel.errors import LoadError, MergeConflictError, PreviewRefusedError, RefNotFoundError
from agent_kernel.repository import Author, Change, Unsaved

if TYPE_CHECKING:
    from agent_kernel.agents.course import Course
    from agent_kernel.agents.place import Place

__all__ = ["dropped", "refusal", "taken", "tried"]

_STEP_S = 60.0  # that a step has on the fork where no limit says anything
_MOST_HELD = 4 << 20


def refusal(asked: ApprovalRequested, place: Place) -> str:
    """Why the step cannot be tried; "" if nothing is known against it."""
    if any(one.kind == "agent" for one in asked.findings):
        return "no preview: it lets other agents work, whose runs would be lost with a fork"
    return preview.refusal(asked.code, place)


def tried(course: Course, asked: ApprovalRequested, step: int) -> ApprovalRequested:
    """What is asked, with what the step did on a fork; where there can be none, why."""
    log = course.log
    seconds = course.step_s()
    try:
        seen = previewed(
            asked.code,
            course.place,
            author=Author(log.start.agent, "agent"),
            run=log.run,
            step=step,
            deadline_s=_STEP_S if seconds is None else seconds,
            offers=course.offers,
            allowed=None if course.setup.approve == "auto" else course.setup.allowed,
        )
    except PreviewRefusedError as refused:
        return msgspec.structs.replace(asked, preview="refused", told=str(refused))
    held = seen.held() if seen.branch else b""
    told = seen.seen.again or seen.seen.why
    stopped = tuple((what, course.place.masked(target, 300)) for what, target in seen.seen.stopped)
    if len(held) > _MOST_HELD:
        seen.reject()
        held, told = b"", "what it gave back is too large to be kept: approving runs the code again"
    return msgspec.structs.replace(
        asked,
        preview=seen.status,
        told=told,
        changed=tuple((one.how, one.name, one.summary) for one in seen.changed),
        output=course.place.shown(seen.text, course.setup.limits.output_chars),
        settled=seen.seen.settled,
        result=course.place.shown(seen.seen.said, 2_000),
        effects=tuple((what, course.place.masked(target, 300), count) for what, target, count in seen.effects),
        stopped=stopped,
        findings=(*asked.findings, *(finding(*one) for one in stopped)),
        branch=seen.branch,
        held=held,
    )


Taken = tuple[Executed, list[Change], list[Unsaved], dict[tuple[str, str], int]]


def taken(place: Place, asked: ApprovalRequested, run: str) -> Taken | None:
    """Merge what a step did on a fork, and say what it came to; None: what is here now does not go with it."""
    seen = Preview.restored(place, asked.code, asked.held, asked.branch)
    try:
        if seen.seen.again:
            return None
        report = seen.take(run)
    except (MergeConflictError, LoadError, RefNotFoundError):
        return None
    finally:
        seen.reject()
    effects = {(what, target): count for what, target, count in seen.effects}
    return seen.executed(), list(report.changed), list(seen.seen.unsaved), effects


def dropped(place: Place, asked: ApprovalRequested) -> None:
    """Let go of what a step did on a fork."""
    if asked.branch and place.session is not None:
        with suppress(RefNotFoundError):
            place.session.repo.delete_branch(asked.branch, force=True)
