"""An agent's run as one row: its task, how it ended, what all its steps together changed, and what it took.

What the run's events say is read where they are still there; a run of which they were forgotten still has its commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_kernel.agents.events import TaskStart
from agent_kernel.agents.journal import Journal, short_run
from agent_kernel.agents.log import state_of, usage_of
from agent_kernel.browsing.answers import FoldRow, Graph, RunFacts
from agent_kernel.browsing.chips import changed_by, chips_of, counts_of
from agent_kernel.browsing.wording import cleaned, prompts, subject_of
from agent_kernel.repository import hex_of
from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.browsing.book import Book, Spread
    from agent_kernel.browsing.listing import Fold

__all__ = ["run_row"]

_TASK = 200


def run_row(book: Book, fold: Fold, spread: Spread, graph: Graph) -> FoldRow:
    """The row of a run, whose steps follow where it is open."""
    commits = [book.repo.commit_at(record.id) for record in fold.members]
    events = tuple(Journal(book.repo.store).of(commits[0].run))
    start = events[0] if events and isinstance(events[0], TaskStart) else None
    usage = usage_of(events)
    changed = changed_by(reversed(commits))
    chips, more = chips_of(changed)
    task = start.task.strip().partition("\n")[0] if start is not None else ""
    return FoldRow(
        id=fold.id,
        why="run",
        n=len(commits),
        matching=fold.matching,
        prompt=prompts(commits[0], commits[-1]),
        subject=cleaned(summaries.mask_text(task), _TASK) or subject_of(commits[0])[0],
        unfolded=fold.is_open,
        took_s=sum(commit.cell.duration_s for commit in commits if commit.cell is not None),
        time_ms=commits[0].time_ns // 1_000_000,
        graph=graph,
        run=RunFacts(
            id=commits[0].run,
            short=short_run(commits[0].run),
            author=book.author(commits[0]),
            status=state_of(events) if events else "completed",
            steps=len({commit.step for commit in commits}),
            tokens=usage.tokens,
            cost=usage.cost,
            tip=hex_of(fold.members[0].id),
            refs=tuple(ref for record in fold.members for ref in spread.refs.get(record.id, ())),
            chips=chips,
            more=more,
            counts=counts_of(changed),
        ),
    )
