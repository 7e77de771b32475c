"""What undo takes back and redo does again, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_kernel.agents.journal import Journal, short_run
from agent_kernel.errors import RunNotFoundError
from agent_kernel.repository import short
from agent_kernel.session.labels import prompt, session_of, title
from agent_kernel.values.summaries.wording import clean

if TYPE_CHECKING:
    from agent_kernel.session import Repository
    from agent_kernel.session.operations import Operation

__all__ = ["operation_text", "run_text"]


def operation_text(repo: Repository, operation: Operation, session: str = "") -> str:
    """What is undone or done again: `[11] a slip of the hand`, `the move to main`, `the move to [7]`, `the checkout that …`.

    Args:
        session: the one that does it. A cell of an earlier one is named by its hash too: its number is another one's now.
    """
    at = operation.after.commit
    commit = repo.commit_at(at) if at is not None else None
    if operation.run:
        return run_text(Journal(repo.store), operation.run)
    if operation.moved:
        here, there = operation.before, operation.after
        if (here.branch, here.commit) == (there.branch, there.commit) and here.carried > there.carried:
            return "the checkout that brought back what a restart took"
        reached = "" if at is None or commit is None else prompt(commit) or short(at)
        if at is not None and commit is not None and session and session_of(commit) not in ("", session):
            reached = f"{reached} ({short(at)})"
        return f"the move to {operation.after.branch or reached or 'no commit'}"
    if at is None or commit is None:
        return ""
    took = "".join(f", and {what} that it took" for what in operation.took if commit.cell is not None)
    return " ".join(filter(None, (prompt(commit) or short(at), title(commit)))) + took


def run_text(journal: Journal, run: str) -> str:
    """`the run of analyst (3f2a9)`"""
    try:
        return f"the run of {clean(journal.first(run).agent)} ({short_run(run)})"
    except RunNotFoundError:  # forgotten
        return f"the run {short_run(run)}"
