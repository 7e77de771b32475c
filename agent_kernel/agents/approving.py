"""Whether a step may run, has to be asked about, or is denied.

`always` asks about every step, `risky` about those that reach outside the variables, `auto` about none; `never` asks
about none either, and denies what `risky` would ask about. Where nobody is there to ask, what would ask is denied.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from agent_kernel.agents.review.report import is_risky

if TYPE_CHECKING:
    from agent_kernel.agents.events import Finding

__all__ = ["MODES", "Mode", "Verdict", "denial", "is_forbidden", "verdict"]

Mode: TypeAlias = Literal["risky", "always", "auto", "never"]
Verdict: TypeAlias = Literal["run", "ask", "deny"]
MODES: tuple[str, ...] = get_args(Mode)


def verdict(mode: str, findings: Collection[Finding], *, can_ask: bool) -> Verdict:
    """What is to be done about a step whose code would do this."""
    if mode == "auto" or (mode != "always" and not is_risky(findings)):
        return "run"
    if mode == "never":
        return "deny"
    return "ask" if can_ask else "deny"


def is_forbidden(mode: str, findings: Collection[Finding]) -> bool:
    """Whether the mode itself says no, and not that nobody is there to ask."""
    return mode == "never" and is_risky(findings)


def denial(findings: Collection[Finding], reason: str, stopped: Collection[tuple[str, str]] = ()) -> str:
    """What the model is told of a step that was denied.

    Args:
        stopped: what it was stopped from doing as it ran.
    """
    if stopped:
        effects = "; ".join(f"{what} {target}".strip() for what, target in stopped)
        why = f" Reason: {reason}." if reason else ""
        return (
            f"This step was stopped before this happened: {effects}. It was denied.{why} What the step had changed was "
            "taken back. Find a way without it, or end with task.fail or task.clarify."
        )
    risky = "; ".join(f"{one.kind}: {one.what}" for one in findings if one.risky)
    why = f" Reason: {reason}." if reason else ""
    what = f" What had to be asked about: {risky}." if risky else ""
    return f"This step was not run: it was denied.{why}{what} Find a way without it, or end with task.fail or task.clarify."
