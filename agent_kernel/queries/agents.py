"""`run` and `race`: how a run stands, each of its steps, what it asks a person; the candidates of a race."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from agent_kernel.agents.approval import open_question, open_request
from agent_kernel.agents.event_log import EventStore, active_seconds, short_run, state_of, steps_in, usage_of
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
from agent_kernel.agents.race_comparison import data_of, race_table
from agent_kernel.errors import RunNotFoundError, StoreError
from agent_kernel.queries.changes import summary_of
from agent_kernel.queries.listing import QueryContext, cells_took, code_line, find_stop, status_of
from agent_kernel.queries.reader import OfRun
from agent_kernel.queries.text_diff import html_of, pieces_of
from agent_kernel.queries.wording import (
    Author,
    Ref,
    Sign,
    Stopped,
    chips_of,
    combine_changes,
    commit_text,
    node_of,
    prompts,
    select_changed,
    shorten_line,
    subject_of,
    why,
)
from agent_kernel.repository import ObjectId, hex_of
from agent_kernel.session.history import by_name, grown_between, ranks
from agent_kernel.text import clean_lines, plural
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.events import Event, Finding
    from agent_kernel.commands.history import Record
    from agent_kernel.repository import Commit


# -- what a person is asked before a step runs: its code, and a report of what it would reach, write, import, read, delete
#
# What leaves the machine comes first, then files, then the harmless. The five kinds that everybody asks about always have a
# row, so that it is seen where there is nothing; the others only where something was found.

# -- what a person is told of a step that was tried on a fork before they were asked: what it did there, and what accepting does

_MOST: Final = 40
_READ: Final = (
    "This is what the code shows. It may do more when it runs. Undo brings back variables, not files or mail."
)
_KEEPS: Final = (
    "Accepting brings its changes here without running it again. If the same variables change here first, the step runs "
    "again. What it wrote or sent outside is done already."
)
_ENDED: Final = {
    "ok": "ran to its end",
    "failed": "failed",
    "interrupted": "was interrupted",
    "timeout": "ran too long and was ended",
    "killed": "ran too long and was ended",
    "crashed": "crashed; the kernel is unharmed",
    "stopped": "was ended",
}
_ENDS: Final = {"success": "Returned", "fail": "Gave up", "clarify": "Asked"}

Happened = tuple[str, str, str, str]  # a word, the sign of a change or "", what, a remark


def keeps(request: ApprovalRequested) -> bool:
    """Whether approving takes on what the fork did, so that the code does not run again."""
    return bool(request.branch) and not request.told


def note_of(request: ApprovalRequested, hidden: frozenset[str] = frozenset()) -> str:
    """What to know before one says yes, in whole sentences."""
    note = shorten_line(previews.mask_text(request.told, hidden), 500)
    note = f"{note[:1].upper()}{note[1:]}." if note else ""
    if request.stopped and not request.preview:
        return note
    if not request.preview:
        return _READ
    if request.preview == "refused":
        return f"Not tried. {note} {_READ}"
    seen = f"It {_ENDED.get(request.preview, 'ended')} in a separate process."
    if keeps(request):
        return f"{seen} {_KEEPS}"
    return f"{seen} {note} {_READ}"


def describe_effects(
    context: QueryContext, request: ApprovalRequested, before: ObjectId | None, hidden: frozenset[str]
) -> tuple[Happened, ...]:
    """Describe what it changed on the fork, showed, did outside and ended its run with."""
    return tuple(_list_effects(context, request, before, hidden))


def _list_effects(
    context: QueryContext, request: ApprovalRequested, before: ObjectId | None, hidden: frozenset[str]
) -> Iterator[Happened]:
    def mask(text: str) -> str:
        return shorten_line(previews.mask_text(text, hidden), 200)

    for how, name, now in request.changed[:_MOST]:
        was = _was(context, before, name) if how == "~" else ""
        yield "Changed", how, f"{shorten_line(name, 60)} {_became(was, shorten_line(now, 200))}".rstrip(), "on a fork"
    if len(request.changed) > _MOST:
        yield "Changed", "", f"and {len(request.changed) - _MOST} more", ""
    lines = [line for line in request.output.splitlines() if line.strip()]
    if lines:
        yield "Showed", "", mask(lines[0]), plural(len(lines), "line") if len(lines) > 1 else "on a fork"
    if request.error:
        yield "Failed", "", mask(request.error), "on a fork"
    for what, target, count in request.effects[:_MOST]:
        yield "Outside", "", mask(f"{what} {target}{f', {count} times' if count > 1 else ''}"), "is real already"
    if request.settled:
        yield _ENDS.get(request.settled, "Ended with"), "", mask(request.result) or "nothing", "ends the run"


def _was(context: QueryContext, before: ObjectId | None, name: str) -> str:
    if before is None:
        return ""
    try:
        summary = summary_of(context.repo, context.repo.tree_at(before).get(name))
    except StoreError:  # damaged: what it is now can still be said
        return ""
    return "" if summary is None else shorten_line(previews.line(summary), 200)


def _became(was: str, now: str) -> str:
    """`DataFrame 4 × 2, 32 B → 4 × 3, 48 B`: what both begin with is said once."""
    if not was or not now:
        return now
    if was == now:
        return f"{now}: contents differ"
    kind, _, rest = now.partition(" ")
    return f"{was} → {rest if rest[:1].isdigit() and was.startswith(f'{kind} ') else now}"


_MOST_CODE: Final = 100_000
_MOST_ITEMS: Final = 40
_DELETING: Final = ("deletes ", "remove", "unlink", "rmdir", "rmtree", "truncate")
# Which findings of a review stand in which row; rows that stay also where nothing was found come with what is said then.
_ROWS: Final[tuple[tuple[str, frozenset[str], bool], ...]] = (
    ("Reaches", frozenset({"network", "database", "browser", "clipboard"}), True),
    ("Takes back", frozenset({"goes back"}), False),
    ("Starts", frozenset({"processes", "shell", "process state", "kernel"}), False),
    ("Writes", frozenset({"files"}), True),
    ("Hides", frozenset({"dynamic", "dunder", "unreadable"}), False),
    ("Uses", frozenset({"magic", "person", "history", "agent"}), False),
    ("Imports", frozenset({"imports"}), True),
    ("Changes", frozenset({"changes"}), False),
    ("Sets", frozenset({"writes"}), False),
)
_NOTES: Final = {
    "Reaches": "may send data out",
    "Takes back": "what others did",
    "Starts": "beyond this notebook",
    "Writes": "outside the variables",
    "Hides": "what it does cannot be read",
    "Deletes": "gone when it has run",
}


class ReportRow(msgspec.Struct, frozen=True):
    """One kind of thing that the code would do. No items: nothing of the kind was found."""

    word: str
    items: tuple[str, ...]
    risky: bool
    note: str


class Asks(msgspec.Struct, frozen=True, rename={"effects": "tried"}):
    """A step that waits. `effects`: what it did where it was tried on a fork first; `keeps`: approving takes that on."""

    step: int
    code: tuple[tuple[str, str], ...]  # in pieces, each with its kind: keyword, string, number, comment or none
    source: str  # the same as one text, to be changed
    branch: str | None
    after: str
    asked_ms: int
    report: tuple[ReportRow, ...]
    effects: tuple[Happened, ...]
    keeps: bool
    note: str


def asks_of(context: QueryContext, request: ApprovalRequested) -> Asks:
    """The question as a panel shows it; what looks like a secret is masked."""
    code, hidden = previews.mask_code(request.code)
    code = clean_lines(code)[:_MOST_CODE]
    before = _find_commit(context, request.before)
    head = context.history_now().view.head
    return Asks(
        step=request.step or 0,
        code=tuple(pieces_of(code)),
        source=code,
        branch=None if head.branch is None else shorten_line(head.branch, 200),
        after=_name_commit(context, before),
        asked_ms=request.time_ns // 1_000_000,
        report=report_of(request, _names_at(context, before), hidden),
        effects=describe_effects(context, request, before, hidden),
        keeps=keeps(request),
        note=note_of(request, hidden),
    )


def _find_commit(context: QueryContext, id: str) -> ObjectId | None:
    """Return the commit, where it is still there."""
    found = ObjectId(bytes.fromhex(id) + b"\x01") if id else None
    return found if found is not None and found in context.history_now().view.order_of else None


def _name_commit(context: QueryContext, before: ObjectId | None) -> str:
    if before is None:
        return ""
    commit = context.repo.commit_at(before)
    prompt = commit_text(commit)
    return f"{prompt[:-1]}.{commit.step}]" if commit.run and commit.step and prompt.startswith("[") else prompt


def _names_at(context: QueryContext, before: ObjectId | None) -> frozenset[str]:
    """The variables there are when the step begins."""
    if before is None:
        return frozenset()
    return frozenset(context.repo.tree_at(before).names())


def report_of(
    request: ApprovalRequested, names: frozenset[str], hidden: frozenset[str] = frozenset()
) -> tuple[ReportRow, ...]:
    """The rows, the gravest first.

    Args:
        names: variables there are, of which those that the code reads are told.
    """
    deletes = [one for one in request.findings if _deletes(one)]
    rest = [one for one in request.findings if not _deletes(one)]
    rows = [
        _row(word, [one for one in rest if one.kind in kinds], hidden)
        for word, kinds, stays in _ROWS
        if stays or any(one.kind in kinds for one in rest)
    ]
    read = tuple(sorted(_reads(request.code) & names))
    rows.append(ReportRow("Reads", read[:_MOST_ITEMS], False, plural(len(read), "variable") if read else ""))
    deletion = _row("Deletes", deletes, hidden)
    rows.insert(0 if deletion.risky else len(rows), deletion)
    return tuple(sorted(rows, key=_rank))


def _rank(row: ReportRow) -> int:
    """What leaves the machine first; a row that needs a look before one that does not."""
    order = ["Reaches", "Takes back", "Starts", "Deletes", "Writes", "Hides", "Uses"]
    if row.word == "Deletes" and not row.risky:
        return 99
    return order.index(row.word) if row.word in order else 50


def _row(word: str, found: Sequence[Finding], hidden: frozenset[str]) -> ReportRow:
    items = dict.fromkeys(shorten_line(previews.mask_text(one.what, hidden), 200) for one in found)
    risky = any(one.risky for one in found)
    note = (
        _NOTES.get(word, "")
        if risky
        else plural(len(items), "variable")
        if word in ("Changes", "Sets") and items
        else ""
    )
    return ReportRow(word, tuple(items)[:_MOST_ITEMS], risky, note)


def _deletes(one: Finding) -> bool:
    return one.kind == "deletes" or (
        one.kind == "files" and any(word in one.what.partition("(")[0] for word in _DELETING)
    )


def _reads(code: str) -> set[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse("\n".join(_python_lines(code.splitlines())))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)}


def _python_lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield "pass" if line.startswith(("%", "!")) else line


# -- what a run asks, as it stands in a notebook without a panel: what would run, what it would do, what to type
#
# The question about a step is an output of the cell that gave the task, and the code in it is what that cell is about to run: it stays, masked.
# Once it is decided, the same place says what was decided.

_LINE: Final = "1px solid rgba(128,128,128,.35)"
_MUTED: Final = "opacity:.7"
_CODE: Final = "font-family:var(--jp-code-font-family,monospace);font-size:12px"
_RISKY: Final = "color:color-mix(in srgb,#c77700 60%,currentColor)"
_ANSWERS: Final = "%agent resume ANSWER"
_SIGN: Final = {"-": "−"}
# What the rows are about of which nothing was found.
_ABOUT: Final = {
    "Reaches": "use the network",
    "Writes": "write files",
    "Imports": "import",
    "Reads": "read variables",
    "Deletes": "delete",
}
_CELL: Final = "padding:1px 14px 1px 0;text-align:left;vertical-align:top;border:0;background:none"
_DECISIONS: Final = {"approve": "approved", "edit": "approved with other code", "deny": "denied"}

Details = Mapping[str, Any]


def represent_card(run: Details, step: int) -> dict[str, str]:
    """The representations by MIME type.

    Args:
        run: the answer to `run`.
    """
    asks = run["asks"]
    if asks is None or asks["step"] != step:
        message = _describe_decision(run, step)
        return {"text/plain": message, "text/html": f'<div style="font-size:13px;{_MUTED}">{escape(message)}</div>'}
    return {"text/plain": _text(run, asks), "text/html": _html(run, asks)}


def represent_question(run: Details, number: int) -> dict[str, str]:
    """The same of what the agent asks in words: the question and the line to type, then the answer.

    Args:
        run: the answer to `run`.
    """
    name, question = run["author"]["name"], run["questions"][number - 1]
    if question["answered"]:
        texts = [f"{name} asked: {question['text']}", f"{question['answered_by'] or 'answered'}: {question['answer']}"]
        lines = "<br>".join(map(escape, texts))
        return {"text/plain": "\n".join(texts), "text/html": f'<div style="font-size:13px;{_MUTED}">{lines}</div>'}
    title = f"{name} asks: {question['text']}"
    return {"text/plain": f"{title}\n{_ANSWERS} goes on", "text/html": _question(title)}


def _question(title: str) -> str:
    text = escape(title).replace("\n", "<br>")
    return (
        f'<div class="agent-kernel" style="font-size:13px;line-height:20px;padding-left:14px"><b>{text}</b>'
        f'<br><code style="{_CODE};background:none;color:inherit">{_ANSWERS}</code> goes on</div>'
    )


def _describe_decision(run: Details, step: int) -> str:
    found: Sequence[Details] = [one for one in run["steps"] if one["prompt"] == f".{step}"]
    how = _DECISIONS.get(found[-1]["decided"], "") if found else ""
    by = f" by {found[-1]['decided_by']}" if how and found[-1]["decided_by"] else ""
    why = f": {found[-1]['reason']}" if how and found[-1]["reason"] else ""
    return f"{run['author']['name']}: step {step} was {how}{by}{why}" if how else f"step {step} does not wait any more"


def _title(run: Details, asks: Details) -> str:
    if asks["keeps"]:
        return f"{run['author']['name']} tried step {asks['step']} beforehand"
    return f"{run['author']['name']} wants to run step {asks['step']}"


def _list_commands(run: Details) -> list[str]:
    short = run["short"]
    return [f"%agent approve --run {short}", f"%agent edit --run {short}", f"%agent deny REASON --run {short}"]


def _text(run: Details, asks: Details) -> str:
    code = [f"    {line}" for line in asks["source"].splitlines()]
    rows = [
        f"  {'!' if row['risky'] else ' '} {row['word']:<8} {', '.join(row['items'])}" for row in _list_findings(asks)
    ]
    rows += [f"    {line}" for line in _describe_absent(asks)]
    effects = [f"    {word:<8} {_SIGN.get(how, how)}{what}" for word, how, what, _ in asks["tried"]]
    return "\n".join([_title(run, asks), *code, *rows, *effects, f"  {asks['note']}", *_list_commands(run)])


def _html(run: Details, asks: Details) -> str:
    pad = "padding:6px 12px"
    code = html_of(asks["code"])
    nothing = [f'<tr><td colspan="4" style="{_CELL};{_MUTED}">{line}</td></tr>' for line in _describe_absent(asks)]
    rows = "".join([*map(_html_row, _list_findings(asks)), *map(_render_effect, asks["tried"]), *nothing])
    table = f'<table style="border-collapse:collapse;margin:0;color:inherit;font:inherit">{rows}</table>'
    ways = " · ".join(f'<code style="{_CODE};background:none">{escape(way)}</code>' for way in _list_commands(run))
    task = escape(run["task"].strip().partition("\n")[0])
    return (
        f'<div class="agent-kernel-card" style="border:{_LINE};border-radius:2px;font-size:13px;max-width:900px">'
        f'<div style="{pad}"><b>{escape(_title(run, asks))}</b><br><span style="{_MUTED}">Task: {task}</span></div>'
        f'<pre style="margin:0;{pad};border-top:{_LINE};border-bottom:{_LINE};background:rgba(128,128,128,.08);'
        f'color:inherit;line-height:20px;overflow-x:auto;{_CODE}">{code}</pre>'
        f'<div style="{pad}">{table}</div>'
        f'<div style="{pad};padding-top:0;{_MUTED}">{escape(asks["note"])}</div>'
        f'<div style="{pad};border-top:{_LINE}">{ways}</div></div>'
    )


def _list_findings(asks: Details) -> list[Details]:
    return [row for row in asks["report"] if row["items"] or row["risky"]]


def _describe_absent(asks: Details) -> list[str]:
    """All that was not found, in one line: `Does not use the network, write files or delete.`"""
    missing: list[str] = [row["word"] for row in asks["report"] if not row["items"] and not row["risky"]]
    words = [_ABOUT.get(word, word.lower()) for word in missing]
    return [f"Does not {', '.join(words[:-1])}{' or ' if words[1:] else ''}{words[-1]}."] if words else []


def _html_row(row: Details) -> str:
    mark, style = ("⚠", _RISKY) if row["risky"] else ("✓", _MUTED)
    items = ", ".join(f'<span style="{_CODE}">{escape(item)}</span>' for item in row["items"])
    return (
        f'<tr style="background:none"><td style="{_CELL};{style}">{mark}</td><td style="{_CELL}">{escape(row["word"])}</td>'
        f'<td style="{_CELL}">{items}</td><td style="{_CELL};{_MUTED}">{escape(row["note"])}</td></tr>'
    )


def _render_effect(one: Sequence[str]) -> str:
    word, how, what, remark = one
    return (
        f'<tr style="background:none"><td style="{_CELL};{_MUTED}">⑂</td><td style="{_CELL}">{escape(word)}</td>'
        f'<td style="{_CELL}"><span style="{_CODE}">{escape(_SIGN.get(how, how) + what)}</span></td>'
        f'<td style="{_CELL};{_MUTED}">{escape(remark)}</td></tr>'
    )


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


def run(context: QueryContext, args: OfRun) -> RunDetails:
    """One run.

    Raises:
        RunNotFoundError: no run has this id, or several have.
    """
    spread = context.history_now()
    records = [record for record in spread.view.order if record.run == args.id]
    event_store = EventStore(context.repo.store)
    try:
        events = tuple(event_store.of(event_store.find(args.id)))
    except RunNotFoundError:
        if not records:
            raise
        events = ()  # they were forgotten, its commits were not
    commits = [context.repo.commit_at(record.id) for record in records]
    start = events[0] if events else None
    usage = usage_of(events)
    request = open_question(events)
    steps = _steps(events, records, commits)
    changed = combine_changes(reversed(commits))
    base = next(iter(commits[-1].parents), None) if commits else None
    chips, more = chips_of(changed, by_name(ranks(context.repo, changed[0], commits[0]) if commits else {}))
    return RunDetails(
        id=args.id,
        short=short_run(args.id),
        prompt=_prompt(commits, start),
        author=context.author(commits[0])
        if commits
        else Author(shorten_line(start.agent if start else ""), "agent", False),
        task=clean_lines(previews.mask_text(start.task))[:10_000] if isinstance(start, TaskStart) else "",
        model=shorten_line(start.model) if isinstance(start, TaskStart) else "",
        status=status_of(context.repo.store, events, spread.view.undone),
        reason=_reason(events),
        result=_result(events),
        steps=tuple(steps[-_MOST_STEPS:]),
        n_steps=steps_in(events) or len(steps),
        tokens=usage.tokens,
        cost=usage.cost,
        took_s=active_seconds(events) if events else cells_took(commits),
        time_ms=(start.time_ns if start is not None else commits[-1].time_ns) // 1_000_000,
        tip=hex_of(records[0].id) if records else "",
        refs=tuple(ref for record in records for ref in spread.refs.get(record.id, ())),
        asks=asks_of(context, request) if isinstance(request, ApprovalRequested) else None,
        question=_mask_text(request.question, 2_000) if isinstance(request, Clarify) else "",
        questions=tuple(_questions(events)),
        base="" if base is None else hex_of(base),
        changed=tuple(shorten_line(change.name) for change in changed[0][:_MOST_NAMES]),
        chips=chips,
        more=more,
        stopped=find_stop(context, events),
        grew=grown_between(context.repo, base, commits[0].tree, select_changed(chips)) if commits else {},
    )


def _questions(events: Sequence[Event]) -> list[RunQuestion]:
    """What it asked in words; each waits until the run goes on."""
    found: list[RunQuestion] = []
    for event in events:
        if isinstance(event, Clarify):
            text = clean_lines(previews.mask_text(event.question))[:10_000]
            found.append(RunQuestion(len(found) + 1, text, event.time_ns // 1_000_000))
        elif isinstance(event, Resumed) and found and not found[-1].answered:
            answer = {"answer": _mask_text(event.sent, _MOST_ANSWER), "answered_by": shorten_line(event.by)}
            found[-1] = msgspec.structs.replace(found[-1], answered=True, **answer)
    return found


def _prompt(commits: Sequence[Commit], start: Event | None) -> str:
    if commits:
        return prompts(commits[0], commits[-1])
    return f"[{start.number}]" if isinstance(start, TaskStart) and start.number is not None else ""


def _reason(events: Sequence[Event]) -> str:
    """Why it did not end well, or was stopped."""
    last = next((event for event in reversed(events) if isinstance(event, Fail | Cancelled)), None)
    return _mask_text(last.reason, 500) if last is not None and state_of(events) in _STOPPED else ""


def _result(events: Sequence[Event]) -> str:
    """What it gave back."""
    last = next((event for event in reversed(events) if isinstance(event, Success)), None)
    return _mask_text(last.result, 300) if last is not None and state_of(events) == "completed" else ""


def _mask_text(text: str, most: int) -> str:
    return shorten_line(previews.mask_text(text), most)


def _steps(events: Sequence[Event], records: Sequence[Record], commits: Sequence[Commit]) -> list[RunStep]:
    """What its events tell of each, with the commit that it became; of a run without events, its commits."""
    made = {commit.step: (record, commit) for record, commit in zip(records, commits, strict=True)}  # the first of each
    numbers = dict.fromkeys(event.step for event in events if isinstance(event, Action) and event.step is not None)
    if not numbers:
        pairs = zip(records, commits, strict=True)
        return [_of_commit(record, commit) for record, commit in reversed(list(pairs))]
    waits = open_request(events)  # a step that asks in words has run
    return [
        _of_events([event for event in events if event.step == number], made.get(number))
        for number in numbers
        if waits is None or waits.step != number
    ]


def _of_commit(record: Record, commit: Commit) -> RunStep:
    subject, is_code = subject_of(commit)
    took = commit.cell.duration_s if commit.cell is not None else None
    prompt = f".{commit.step}" if commit.step is not None else ""
    return RunStep(hex_of(record.id), prompt, subject, is_code, node_of(commit), why(commit), took)


def _of_events(events: Sequence[Event], made: tuple[Record, Commit] | None) -> RunStep:
    number = events[0].step
    ran = next((event.code for event in reversed(events) if isinstance(event, StepStart)), None)
    meant = next((event.code for event in events if isinstance(event, Action) and event.code), "")
    output = next((event for event in reversed(events) if isinstance(event, Output)), None)
    error = next((event.message for event in reversed(events) if isinstance(event, Error)), "")
    decided = next((event for event in reversed(events) if isinstance(event, ApprovalDecided)), None)
    denied = decided.reason if decided is not None else ""
    node: Node = "running" if output is None else _NODES.get(output.status, "agent")
    subject, is_code = code_line(ran or meant)
    return RunStep(
        id="" if made is None else hex_of(made[0].id),
        prompt=f".{number}",
        subject=subject,
        is_code=is_code,
        node=node if made is None or node == "denied" else node_of(made[1]),
        why=_why(node, denied, error, "" if made is None else why(made[1])),
        took_s=None if output is None or output.status == "denied" else output.duration_s,
        decided="" if decided is None else decided.decision,
        decided_by="" if decided is None else shorten_line(decided.by),
        reason=_mask_text(denied, 500),
    )


def _why(node: Node, denied: str, error: str, committed: str) -> str:
    if node == "denied":
        return _mask_text(f"denied: {denied}" if denied else "denied", 200)
    return committed or (_mask_text(error.strip().rpartition("\n")[2], 200) if node == "failed" else "")


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


class RaceStatus(msgspec.Struct, frozen=True):
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


def race(context: QueryContext, args: OfRun) -> RaceStatus:
    """A race, as it stands for the session that asks.

    Raises:
        RunNotFoundError: no run has this id.
    """
    head = context.history_now().view.head.commit
    found = race_table(context.repo, EventStore(context.repo.store), args.id, head)
    return msgspec.convert(data_of(found, context.repo), RaceStatus)
