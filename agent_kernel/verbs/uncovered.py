"""Say of a move through the history what it did not cover: what agents did outside the variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent_kernel.agents import uncovered
from agent_kernel.agents.journal import Journal

if TYPE_CHECKING:
    from agent_kernel.agents.uncovered import Apart
    from agent_kernel.repository import ObjectId
    from agent_kernel.session import Report
    from agent_kernel.verbs.scope import Scope

__all__ = ["steps_between", "told"]


def steps_between(scope: Scope, before: ObjectId | None) -> Apart:
    """The steps of agents that the session's variables go on without, and with again, since they were those of a commit."""
    return uncovered.apart(scope.repo, before, scope.live().head)


def told(scope: Scope, before: ObjectId | None, report: Report, found: Apart | None = None) -> Report:
    """The report of a move, with what it did not cover. `before`: where the variables were."""
    found = steps_between(scope, before) if found is None else found
    notes = uncovered.notes(Journal(scope.repo.store), found)
    return msgspec.structs.replace(report, notes=(*report.notes, *notes)) if notes else report
