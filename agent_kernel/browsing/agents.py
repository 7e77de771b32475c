"""`run` and `race`: how a run of an agent stands, each of its steps, and what it asks a person; the candidates of a race."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from agent_kernel.agents.deciding import asked_by, waiting
from agent_kernel.agents.events import (
    Action,
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Clarify,
    Error,
    Fail,
    Output,
    Resumed,
    StepStart,
    Success,
    TaskStart,
)
from agent_kernel.agents.journal import Journal, seconds_taken, short_run, state_of, steps_in, usage_of
from agent_kernel.agents.racing.standings import data_of, told
from agent_kernel.browsing.answers import Author, Ref, Sign, Stopped
from agent_kernel.browsing.arguments import OfRun
from agent_kernel.browsing.asking import Asks, asks_of
from agent_kernel.browsing.book import Book
from agent_kernel.browsing.changes import summary_of
from agent_kernel.browsing.listing import changed_by, chips_of, code_line, growth, status_of, stopped_of
from agent_kernel.browsing.lists import node_of, why
from agent_kernel.browsing.wording import cleaned, prompts, subject_of
from agent_kernel.errors import RunNotFoundError
from agent_kernel.repository import hex_of
from agent_kernel.values import summaries
from agent_kernel.verbs.describe import by_name, ranks
from agent_kernel.verbs.text import clean_lines

if TYPE_CHECKING:
    from agent_kernel.agents.events import Event
    from agent_kernel.repository import Commit, ObjectId
    from agent_kernel.verbs.timeline import Record

__all__ = ["RaceCandidate", "RaceRow", "RaceStanding", "RunDetails", "RunQuestion", "RunStep", "race", "run"]


Node: TypeAlias = Literal["cell", "agent", "merge", "failed", "interrupted", "denied", "running"]
_STOPPED = ("failed", "interrupted", "cancelled")
_MOST_STEPS = 1_000
_MOST_ANSWER = 2_000
_MOST_NAMES = 500
_NODES: dict[str, Node] = {
    "ok": "agent",
    "failed": "failed",
    "interrupted": "interrupted",
    "timeout": "interrupted",
    "unknown": "interrupted",
    "denied": "denied",
}


class RunStep(msgspec.Struct, frozen=True):
    """One step. `id`: the commit that it became; "": none. `decided`: approve, edit, deny; "": nobody was asked.

    `reason`: what was said to a denial.
    """

    id: str
    prompt: str
    subject: str
    is_code: bool
    node: Node
    why: str
    took_s: float | None
    decided: str = ""
    decided_by: str = ""
    reason: str = ""


class RunQuestion(msgspec.Struct, frozen=True):
    """What it asked a person in words, counted from 1. `answered`: it does not wait any more."""

    number: int
    text: str
    asked_ms: int
    answered: bool = False
    answer: str = ""
    answered_by: str = ""


class RunDetails(msgspec.Struct, frozen=True):
    """Everything about a run. `tip`: its newest commit, "" where it made none; `asks`, `question`: what it waits for.

    `questions`: all that it asked in words, with what was answered; the last one is what it waits for, where it does.

    `base`: the commit before its first one, "" where that is the first of all. `changed`: the names that its steps changed
    together; `chips` and `more` say it as of a commit, and `grew` how much longer or wider those became: `−17 rows`.

    `result`: what it gave back, in a line; `reason`: why it did not come to one. `n_steps` counts also the step that waits.
    """

    id: str
    short: str
    prompt: str
    author: Author
    task: str
    model: str
    status: Literal[
        "running", "pending", "clarify", "interrupted", "cancelled", "completed", "failed", "undone", "decided"
    ]
    reason: str
    result: str
    steps: tuple[RunStep, ...]
    n_steps: int
    tokens: int
    cost: float | None
    took_s: float
    time_ms: int
    tip: str
    refs: tuple[Ref, ...]
    asks: Asks | None
    question: str
    questions: tuple[RunQuestion, ...] = ()
    base: str = ""
    changed: tuple[str, ...] = ()
    chips: tuple[tuple[Sign, str, int], ...] = ()
    more: int = 0
    grew: dict[str, str] = {}
    stopped: Stopped | None = None


def run(book: Book, args: OfRun) -> RunDetails:
    """One run.

    Raises:
        RunNotFoundError: no run has this id, or several have.
    """
    spread = book.spread()
    records = [record for record in spread.view.order if record.run == args.id]
    journal = Journal(book.repo.store)
    try:
        events = tuple(journal.of(journal.find(args.id)))
    except RunNotFoundError:
        if not records:
            raise
        events = ()  # they were forgotten, its commits were not
    commits = [book.repo.commit_at(record.id) for record in records]
    start = events[0] if events else None
    usage = usage_of(events)
    asked = asked_by(events)
    steps = _steps(events, records, commits)
    changed = changed_by(reversed(commits))
    base = next(iter(commits[-1].parents), None) if commits else None
    chips, more = chips_of(changed, by_name(ranks(book.repo, changed[0], commits[0]) if commits else {}))
    return RunDetails(
        id=args.id,
        short=short_run(args.id),
        prompt=_prompt(commits, start),
        author=book.author(commits[0]) if commits else Author(cleaned(start.agent if start else ""), "agent", False),
        task=clean_lines(summaries.mask_text(start.task))[:10_000] if isinstance(start, TaskStart) else "",
        model=cleaned(start.model) if isinstance(start, TaskStart) else "",
        status=status_of(book.repo.store, events, spread.view.undone),
        reason=_reason(events),
        result=_result(events),
        steps=tuple(steps[-_MOST_STEPS:]),
        n_steps=steps_in(events) or len(steps),
        tokens=usage.tokens,
        cost=usage.cost,
        took_s=seconds_taken(events) if events else _cells_took(commits),
        time_ms=(start.time_ns if start is not None else commits[-1].time_ns) // 1_000_000,
        tip=hex_of(records[0].id) if records else "",
        refs=tuple(ref for record in records for ref in spread.refs.get(record.id, ())),
        asks=asks_of(book, asked) if isinstance(asked, ApprovalRequested) else None,
        question=_said(asked.question, 2_000) if isinstance(asked, Clarify) else "",
        questions=tuple(_questions(events)),
        base="" if base is None else hex_of(base),
        changed=tuple(cleaned(change.name) for change in changed[0][:_MOST_NAMES]),
        chips=chips,
        more=more,
        stopped=stopped_of(book, events),
        grew=_grown(book, base, records[0].id, [name for sign, name, _ in chips if sign == "~"]) if records else {},
    )


def _grown(book: Book, base: ObjectId | None, tip: ObjectId, names: Sequence[str]) -> dict[str, str]:
    """How much longer or wider each became."""
    trees = book.repo.tree_at(base), book.repo.tree_at(tip)
    found: dict[str, str] = {}
    for name in names:
        old, new = (summary_of(book.repo, tree.get(name)) for tree in trees)
        if old is not None and new is not None and (said := growth(old, new)):
            found[name] = said
    return found


def _questions(events: Sequence[Event]) -> list[RunQuestion]:
    """What it asked in words; each waits until the run goes on."""
    found: list[RunQuestion] = []
    for event in events:
        if isinstance(event, Clarify):
            text = clean_lines(summaries.mask_text(event.question))[:10_000]
            found.append(RunQuestion(len(found) + 1, text, event.time_ns // 1_000_000))
        elif isinstance(event, Resumed) and found and not found[-1].answered:
            told = {"answer": _said(event.sent, _MOST_ANSWER), "answered_by": cleaned(event.by)}
            found[-1] = msgspec.structs.replace(found[-1], answered=True, **told)
    return found


def _prompt(commits: Sequence[Commit], start: Event | None) -> str:
    if commits:
        return prompts(commits[0], commits[-1])
    return f"[{start.number}]" if isinstance(start, TaskStart) and start.number is not None else ""


def _reason(events: Sequence[Event]) -> str:
    """Why it did not end well, or was stopped."""
    last = next((event for event in reversed(events) if isinstance(event, Fail | Cancelled)), None)
    return _said(last.reason, 500) if last is not None and state_of(events) in _STOPPED else ""


def _result(events: Sequence[Event]) -> str:
    """What it gave back."""
    last = next((event for event in reversed(events) if isinstance(event, Success)), None)
    return _said(last.result, 300) if last is not None and state_of(events) == "completed" else ""


def _said(text: str, most: int) -> str:
    return cleaned(summaries.mask_text(text), most)


def _cells_took(commits: Sequence[Commit]) -> float:
    return sum(commit.cell.duration_s for commit in commits if commit.cell is not None)


def _steps(events: Sequence[Event], records: Sequence[Record], commits: Sequence[Commit]) -> list[RunStep]:
    """What its events tell of each, with the commit that it became; of a run without events, its commits."""
    made = {commit.step: (record, commit) for record, commit in zip(records, commits, strict=True)}  # the first of each
    numbers = dict.fromkeys(event.step for event in events if isinstance(event, Action) and event.step is not None)
    if not numbers:
        pairs = zip(records, commits, strict=True)
        return [_of_commit(record, commit) for record, commit in reversed(list(pairs))]
    waits = waiting(events)  # a step that asks in words has run
    return [
        _of_events([event for event in events if event.step == number], made.get(number))
        for number in numbers
        if waits is None or waits.step != number
    ]


def _of_commit(record: Record, commit: Commit) -> RunStep:
    said, is_code = subject_of(commit)
    took = commit.cell.duration_s if commit.cell is not None else None
    prompt = f".{commit.step}" if commit.step is not None else ""
    return RunStep(hex_of(record.id), prompt, said, is_code, node_of(commit), why(commit), took)


def _of_events(events: Sequence[Event], made: tuple[Record, Commit] | None) -> RunStep:
    number = events[0].step
    ran = next((event.code for event in reversed(events) if isinstance(event, StepStart)), None)
    meant = next((event.code for event in events if isinstance(event, Action) and event.code), "")
    output = next((event for event in reversed(events) if isinstance(event, Output)), None)
    error = next((event.message for event in reversed(events) if isinstance(event, Error)), "")
    decided = next((event for event in reversed(events) if isinstance(event, ApprovalDecided)), None)
    denied = decided.reason if decided is not None else ""
    node: Node = "running" if output is None else _NODES.get(output.status, "agent")
    said, is_code = code_line(ran or meant)
    return RunStep(
        id="" if made is None else hex_of(made[0].id),
        prompt=f".{number}",
        subject=said,
        is_code=is_code,
        node=node if made is None or node == "denied" else node_of(made[1]),
        why=_why(node, denied, error, "" if made is None else why(made[1])),
        took_s=None if output is None or output.status == "denied" else output.duration_s,
        decided="" if decided is None else decided.decision,
        decided_by="" if decided is None else cleaned(decided.by),
        reason=_said(denied, 500),
    )


def _why(node: Node, denied: str, error: str, committed: str) -> str:
    if node == "denied":
        return _said(f"denied: {denied}" if denied else "denied", 200)
    return committed or (_said(error.strip().rpartition("\n")[2], 200) if node == "failed" else "")


# -- `race`: the candidates of a race side by side, which was picked, and what discarding them would delete


class RaceCandidate(msgspec.Struct, frozen=True):
    """One of them: the head of its column. `tip`: the last commit of its branch; "": it is gone."""

    number: int
    title: str
    best: bool
    done: bool
    tip: str


class RaceRow(msgspec.Struct, frozen=True):
    """A measure: for each candidate its lines, each of parts with their manner."""

    label: str
    cells: tuple[tuple[tuple[tuple[str, str], ...], ...], ...]


class RaceStanding(msgspec.Struct, frozen=True):
    """A race as it stands. `picked`: from which candidate the variables here go on; null where that was undone."""

    id: str
    short: str
    task: str
    start: str
    counts: str
    over: bool
    picked: int | None
    discarded: bool
    deletes: str  # what is gone for good with the branches, in a sentence
    notes: tuple[str, ...]
    candidates: tuple[RaceCandidate, ...]
    rows: tuple[RaceRow, ...]


def race(book: Book, args: OfRun) -> RaceStanding:
    """A race, as it stands for the session that the book is of.

    Raises:
        RunNotFoundError: no run has this id.
    """
    head = book.spread().view.head.commit
    found = told(book.repo, Journal(book.repo.store), args.id, head)
    return msgspec.convert(data_of(found, book.repo), RaceStanding)
