"""An agent's run as one row: its task, how it stands, what all its steps together changed, and what it took.

What the run's events say is read where they are still there; a run of which they were forgotten still has its commits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from agent_kernel.agents import elsewhere
from agent_kernel.agents.conversation import begun, open_action
from agent_kernel.agents.counting import steps_in
from agent_kernel.agents.deciding import standing
from agent_kernel.agents.events import (
    Action,
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Clarify,
    Fail,
    Output,
    StepStart,
    TaskStart,
)
from agent_kernel.agents.journal import Journal, short_run
from agent_kernel.agents.log import usage_of
from agent_kernel.agents.racing.raced import is_race
from agent_kernel.browsing.answers import Author, FoldRow, Graph, RunFacts, RunStatus, Stopped, WaitRow
from agent_kernel.browsing.chips import changed_by, chips_of, counts_of
from agent_kernel.browsing.wording import cleaned, prompts, subject_of
from agent_kernel.repository import hex_of
from agent_kernel.session.labels import about
from agent_kernel.values import summaries
from agent_kernel.verbs.describe import by_name, ranks

if TYPE_CHECKING:
    from agent_kernel.agents.events import Event
    from agent_kernel.browsing.book import Book, Spread
    from agent_kernel.browsing.listing import Fold
    from agent_kernel.repository import Commit
    from agent_kernel.storage import Store

__all__ = ["code_line", "run_row", "status_of", "stopped_of", "stopped_row", "task_of", "wait_row", "where_stopped"]

_TASK = 200
_NOT_DONE = ("denied", "interrupted", "unknown")  # outputs of steps that did not run to their end


def run_row(book: Book, fold: Fold, spread: Spread, graph: Graph) -> FoldRow:
    """The row of a run, whose steps follow where it is open."""
    commits = [book.repo.commit_at(record.id) for record in fold.members]
    own = [commit for commit in commits if commit.run == fold.run] or commits
    events = tuple(Journal(book.repo.store).of(fold.run))
    usage = usage_of(events)
    changed = changed_by(reversed(commits))
    chips, more = chips_of(changed, by_name(ranks(book.repo, changed[0], commits[0])))
    return FoldRow(
        id=fold.id,
        why="run",
        n=len(commits),
        matching=fold.matching,
        prompt=prompts(own[0], own[-1]),
        subject=task_of(events) or subject_of(own[0])[0],
        unfolded=fold.is_open,
        took_s=sum(commit.cell.duration_s for commit in own if commit.cell is not None),
        time_ms=commits[0].time_ns // 1_000_000,
        graph=graph,
        run=RunFacts(
            id=fold.run,
            short=short_run(fold.run),
            author=book.author(own[0]),
            status=status_of(book.repo.store, events, spread.view.undone),
            part=fold.part,
            # Of a run in several rows each says its own.
            steps=(0 if fold.part else steps_in(events)) or _steps(own),
            tokens=usage.tokens,
            cost=usage.cost,
            tip=hex_of(fold.members[0].id),
            refs=tuple(ref for record in fold.members for ref in spread.refs.get(record.id, ())),
            chips=chips,
            more=more,
            counts=counts_of(changed),
            stopped=stopped_of(book, events) if fold.part in ("", "last") else None,
        ),
    )


def stopped_row(book: Book, run: str, graph: Graph) -> WaitRow:
    """The row of a run that stopped before its first commit."""
    events = tuple(Journal(book.repo.store).of(run))
    start = events[0]
    number = start.number if isinstance(start, TaskStart) else None
    return WaitRow(
        id=f"w{run}",
        run=run,
        depth=0,
        prompt="" if number is None else f"[{number}]",
        subject=task_of(events),
        is_code=False,
        author=Author(cleaned(start.agent), "agent", False),
        waits_for="resume",
        time_ms=events[-1].time_ns // 1_000_000,
        graph=graph,
        stopped=stopped_of(book, events),
    )


def stopped_of(book: Book, events: Sequence[Event]) -> Stopped | None:
    """Where a run stopped that can go on; None: it did not stop."""
    said, step = where_stopped(Journal(book.repo.store), events)
    if not said:
        return None
    away = elsewhere.away(book.position(), events)
    done = [event for event in events if isinstance(event, Output) and event.step is not None]
    return Stopped(
        said=_masked(said),
        code=_code_of(events, step),
        done=sum(event.status not in _NOT_DONE for event in done),
        refused="" if away is None else f"{away.lies}: {away.way}",
        at=events[-1].seq,
        died=standing(Journal(book.repo.store), events) == "stopped",
    )


def where_stopped(journal: Journal, events: Sequence[Event]) -> tuple[str, int | None]:
    """Where a run stopped, in words, and in which step; "": it is done, waits, goes on, or belongs to one that can go on."""
    if not events or events[0].parent_run or is_race(events[0]):
        return "", None
    state = standing(journal, events)
    if state == "failed":
        failed = next(event for event in reversed(events) if isinstance(event, Fail))
        return (f"stopped at a limit: {failed.reason}" if failed.limit else ""), None
    action, since = open_action(events)
    step = action.step if action is not None else None
    if state == "decided":
        decided = next(event for event in reversed(since) if isinstance(event, ApprovalDecided))
        said = "denied" if decided.decision == "deny" else "approved"
        return f"step {step} was {said}, but the run has not resumed", step
    if state not in ("interrupted", "stopped"):
        return "", None
    last = next((event for event in reversed(events) if isinstance(event, Cancelled)), Cancelled())
    if state == "stopped":
        last = Cancelled(during="model", reason=_end_of_process(journal, events[0]))  # nobody noted where
    return f"stopped {_moment(last, step, since)}{f' ({last.reason})' if last.reason else ''}", step or last.step


def _end_of_process(journal: Journal, start: Event) -> str:
    """That the process ended which drove a run; "" where it let the run go."""
    if not journal.is_left_behind(start.run):
        return ""
    return "the kernel ended" if isinstance(start, TaskStart) and start.cell else "its process ended"


def _moment(last: Cancelled, step: int | None, since: Sequence[Event]) -> str:
    if step is not None:
        return f"{'in' if begun(since) is not None else 'before'} step {step}"
    if last.step is not None:
        return f"in step {last.step}"
    return "while the model answered" if last.during == "model" else "between two steps"


def _code_of(events: Sequence[Event], step: int | None) -> str:
    """A line of the code that a step ran, or would have run."""
    if step is None:
        return ""
    own = [event for event in events if event.step == step]
    ran = next((event.code for event in reversed(own) if isinstance(event, StepStart)), "")
    meant = next((event.code or "" for event in own if isinstance(event, Action)), "")
    return code_line(ran or meant)[0]


def status_of(store: Store, events: Sequence[Event], undone: Collection[str]) -> RunStatus:
    """How a run stands. One that is not done and that nobody drives was interrupted: its process died, if nothing else."""
    if not events:
        return "completed"  # they were forgotten, its commits were not
    found = standing(Journal(store), events, undone)
    return "interrupted" if found == "stopped" else found


def _steps(own: Sequence[Commit]) -> int:
    return len({commit.step for commit in own if commit.step is not None}) or len(own)


def wait_row(book: Book, run: str, asked: ApprovalRequested | Clarify, graph: Graph, *, depth: int) -> WaitRow:
    """The row of what a run asks a person. It stands by itself where the run has made no commit yet."""
    is_step = isinstance(asked, ApprovalRequested)
    said, is_code = code_line(asked.code) if isinstance(asked, ApprovalRequested) else (_masked(asked.question), False)
    if not depth and is_step:
        said, is_code = task_of((Journal(book.repo.store).first(run),)), False
    return WaitRow(
        id=f"w{run}",
        run=run,
        depth=depth,
        prompt=f".{asked.step}" if asked.step is not None else "",
        subject=said,
        is_code=is_code,
        author=Author(cleaned(asked.agent), "agent", False),
        waits_for="approval" if is_step else "answer",
        time_ms=asked.time_ns // 1_000_000,
        graph=graph,
    )


def code_line(code: str) -> tuple[str, bool]:
    """The line that stands for a piece of code, and whether it is code and no comment."""
    masked, _ = summaries.mask_code(code)
    said, is_code = about("", masked)
    return cleaned(said, _TASK), is_code


def task_of(events: Sequence[Event]) -> str:
    """The first line of what a run was given to do; "" where that was forgotten."""
    start = events[0] if events else None
    return _masked(start.task) if isinstance(start, TaskStart) else ""


def _masked(text: str) -> str:
    return cleaned(summaries.mask_text(text.strip().partition("\n")[0]), _TASK)
