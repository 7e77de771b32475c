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
from agent_kernel.agents.execution import Executed
from agent_kernel.agents.gate import finding
from agent_kernel.agents.preview import Preview, preview_code
from agent_kernel.errors import LoadError, MergeConflictError, PreviewRefusedError, RefNotFoundError
from agent_kernel.repository import Author, Change, Unsaved

if TYPE_CHECKING:
    from agent_kernel.agents.execution_context import ExecutionContext
    from agent_kernel.agents.executor import RunExecutor

__all__ = ["drop_try", "refusal", "take_on", "try_step"]

_STEP_S = 60.0  # that a step has on the fork where no limit says anything
_MOST_HELD = 4 << 20


def refusal(asked: ApprovalRequested, place: ExecutionContext) -> str:
    """Why the step cannot be tried; "" if nothing is known against it."""
    if any(one.kind == "agent" for one in asked.findings):
        return "no preview: it lets other agents work, whose runs would be lost with a fork"
    return preview.refusal(asked.code, place)


def try_step(run_executor: RunExecutor, asked: ApprovalRequested, step: int) -> ApprovalRequested:
    """What is asked, with what the step did on a fork; where there can be none, why."""
    log = run_executor.log
    seconds = run_executor.step_s()
    try:
        seen = preview_code(
            asked.code,
            run_executor.place,
            author=Author(log.start.agent, "agent"),
            run=log.run,
            step=step,
            deadline_s=_STEP_S if seconds is None else seconds,
            offers=run_executor.offers,
            allowed=None if run_executor.setup.approve == "auto" else run_executor.setup.allowed,
        )
    except PreviewRefusedError as refused:
        return msgspec.structs.replace(asked, preview="refused", told=str(refused))
    held = seen.pack() if seen.branch else b""
    told = seen.seen.again or seen.seen.why
    stopped = tuple((what, run_executor.place.redact(target, 300)) for what, target in seen.seen.stopped)
    if len(held) > _MOST_HELD:
        seen.reject()
        held, told = b"", "what it gave back is too large to be kept: approving runs the code again"
    return msgspec.structs.replace(
        asked,
        preview=seen.status,
        told=told,
        changed=tuple((one.how, one.name, one.summary) for one in seen.changed),
        output=run_executor.place.redact_output(seen.text, run_executor.setup.limits.output_chars),
        error="" if seen.error == told else run_executor.place.redact_output(seen.error, 500),
        settled=seen.seen.settled,
        result=run_executor.place.redact_output(seen.seen.said, 2_000),
        effects=tuple((what, run_executor.place.redact(target, 300), count) for what, target, count in seen.effects),
        stopped=stopped,
        findings=(*asked.findings, *(finding(*one) for one in stopped)),
        branch=seen.branch,
        held=held,
    )


Taken = tuple[Executed, list[Change], list[Unsaved], dict[tuple[str, str], int]]


def take_on(place: ExecutionContext, asked: ApprovalRequested, run: str) -> Taken | None:
    """Merge what a step did on a fork, and say what it came to; None: what is here now does not go with it."""
    seen = Preview.restore(place, asked.code, asked.held, asked.branch)
    try:
        if seen.seen.again:
            return None
        report = seen.take(run)
    except (MergeConflictError, LoadError, RefNotFoundError):
        return None
    finally:
        seen.reject()
    effects = {(what, target): count for what, target, count in seen.effects}
    return seen.to_executed(), list(report.changed), list(seen.seen.unsaved), effects


def drop_try(place: ExecutionContext, asked: ApprovalRequested) -> None:
    """Let go of what a step did on a fork."""
    if asked.branch and place.session is not None:
        with suppress(RefNotFoundError):
            place.session.repo.delete_branch(asked.branch, force=True)
