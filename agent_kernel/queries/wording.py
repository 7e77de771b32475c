"""How commits, names and sizes are called in a panel, beyond what every interface says; the list as data; and the line under a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from blake3 import blake3

from agent_kernel.agents.event_log import short_run
from agent_kernel.queries import FOOTER
from agent_kernel.repository import Change, Commit, ObjectId, Unsaved, hex_of, short
from agent_kernel.session.history import by_name, grown, is_code, mask_commit, prompt, ranks_of, title, unsaved_names
from agent_kernel.text import MORE, clean, cut, duration, money, plural, size_text
from agent_kernel.values import previews
from agent_kernel.values.previews.model import number_text

if TYPE_CHECKING:
    from agent_kernel.session import Repository
    from agent_kernel.session.history import Rank

_SUBJECT = 200  # characters; a panel is narrower
_NAME = 120
_CALLED = 40


def shorten_line(text: str, most: int = _NAME) -> str:
    """Put a name on one line, and cut it if it is long."""
    return cut(clean(text), most)


def subject_of(commit: Commit) -> tuple[str, bool]:
    """What the commit is about, and whether that is code."""
    code = is_code(commit)
    return cut(title(commit), _SUBJECT, middle=code), code


def commit_text(commit: Commit) -> str:
    """The commit inside a sentence: `[7]`, `step 2 of analyst [7]`, or, where no cell made it, its subject in quotes."""
    return step_called(commit) or prompt(commit) or f"“{cut(title(commit), _CALLED)}”"


def step_called(commit: Commit) -> str:
    """The step of a run that the commit is: `step 2 of analyst [7]`. Returns "" for other commits."""
    if not commit.run or commit.step is None:
        return ""
    return f"step {commit.step} of {shorten_line(commit.author.name, _CALLED)} {prompt(commit)}".rstrip()


def prompts(newest: Commit, oldest: Commit) -> str:
    """The numbers of several cells: `[8–10]`."""
    first, last = prompt(oldest), prompt(newest)
    return f"{first[:-1]}–{last[1:]}" if first and last and first != last else last or first


def node_of(commit: Commit) -> Literal["cell", "agent", "merge", "failed", "interrupted"]:
    """The shape of its node: how it ended goes first, then what it is."""
    if commit.status == "interrupted":
        return "interrupted"
    if commit.status != "ok":
        return "failed"
    if len(commit.parents) > 1:
        return "merge"
    return "agent" if commit.author.kind == "agent" else "cell"


def why(commit: Commit) -> str:
    """Why its cell did not end well."""
    if commit.status == "ok":
        return ""
    cell = mask_commit(commit).cell
    error = cell.error if cell is not None else ""
    return "interrupted" if commit.status == "interrupted" else shorten_line(error, 200) or "failed"


def store_id(repo: Repository) -> str:
    """What a store is called where its place must not be told: the same wherever it is moved to."""
    secret = repo.setting("secret")
    return blake3(b"agent-kernel store\0" + (secret or repo.store.url.encode())).hexdigest(16)


# -- values that were read, as they stand in a cell: what looks like a secret is masked, numbers of a column line up

_ROOM = 60  # characters of one cell
_MOST_DECIMALS = 4
_SMALL, _LARGE = 0.01, 1e12  # a column whose floats are all smaller, or some larger, keeps six digits each
_GROUPED_FROM = 10_000  # years are smaller


class Style(msgspec.Struct, frozen=True):
    """How the numbers of a column are written. `decimals`: of its floats; None: as many as each needs."""

    decimals: int | None = None
    is_grouped: bool = False


PLAIN = Style()


def style_of(values: Iterable[object]) -> Style:
    """One number of decimals, and thousands apart, for all numbers that stand below each other."""
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    floats = [value for value in numbers if isinstance(value, float) and isfinite(value)]
    if not floats:
        return Style(is_grouped=any(abs(value) >= _GROUPED_FROM for value in numbers))
    largest = max(map(abs, floats))
    if largest > _LARGE or 0 < largest < _SMALL:
        return PLAIN
    decimals = max(len(number_text(value).partition(".")[2]) for value in floats)
    return Style(min(max(decimals, 1), _MOST_DECIMALS), is_grouped=True)


def text_of(value: object, style: Style = PLAIN) -> str:
    """One value."""
    if value is None:
        return "missing"
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return str(value) if isinstance(value, bool) else MORE
    if isinstance(value, (int, float)):
        text = _number(value, style)
        return f"−{text[1:]}" if text.startswith("-") else text
    if previews.holds_a_secret(value):
        return previews.MASK
    text = previews.clean(value[: 4 * _ROOM])
    return text if len(text) <= _ROOM else f"{text[: _ROOM - 1]}{MORE}"


def _number(value: float, style: Style) -> str:
    if isinstance(value, float) and style.decimals is not None and isfinite(value):
        return f"{value:,.{style.decimals}f}"
    if isinstance(value, int) and style.is_grouped and abs(value) < _LARGE:
        return f"{value:,}"
    text = number_text(value)
    # A float stays one to the eye.
    return f"{text}.0" if isinstance(value, float) and text.lstrip("-").isdigit() else text


# -- the list as data: what `open` and `rows` answer. The names of the fields are the contract with the panel
#
# Sizes are bytes, durations seconds, times milliseconds since 1970 (UTC). Every text is plain text.

Sign: TypeAlias = Literal["+", "~", "-", "!", "="]
# From a lane at the row's top edge to one at its bottom edge (None: the node), the colour, and whether it is dashed.
Line: TypeAlias = "tuple[int | None, int | None, int, int]"
RunStatus: TypeAlias = Literal[
    "running", "pending", "clarify", "interrupted", "cancelled", "completed", "failed", "undone", "decided"
]


class Graph(msgspec.Struct, frozen=True):
    """One row's piece of the graph."""

    node: int | None
    colour: int
    lines: tuple[Line, ...]


class Ref(msgspec.Struct, frozen=True, omit_defaults=True):
    """A branch, a tag, or HEAD where it is on no branch. `head`: HEAD is here by it. `lane`: its colour.

    An `aside` is a branch that nobody named: `name` says what it is, and `branch` is how it can be named.
    """

    kind: Literal["branch", "tag", "head", "aside"]
    name: str
    head: bool
    lane: int | None
    branch: str = ""


class Author(msgspec.Struct, frozen=True):
    """Who wrote the code. `me`: whoever looks."""

    name: str
    kind: Literal["person", "agent"]
    me: bool


class DayRow(msgspec.Struct, frozen=True, tag="day", tag_field="kind", omit_defaults=True):
    """The header above the commits of a day, or, with a `text`, the line between two kernels."""

    day: str  # 2026-11-21
    graph: Graph
    text: str = ""  # kernel restarted


Part: TypeAlias = Literal["", "first", "middle", "last"]


class Stopped(msgspec.Struct, frozen=True, rename={"where": "said"}):
    """That a run stopped before it was done, and can go on: interrupted, at a limit, or as its process ended.

    Attributes:
        where: where it stopped, and why where that is known: `stopped in step 3`.
        code: a line of the code that it was at; "": none.
        done: the steps that had run to their end.
        refused: why it cannot go on where the reader is; "": nothing is known to be in its way.
        at: the number of its last event, another one as soon as it goes on.
        cell: the line that lets it go on, where only a cell can; the kernel knows.
        checked: the kernel has looked whether it can go on. Nobody else knows, so only then it is offered.
        died: nobody noted that it stopped: its process ended in the middle of it.
    """

    where: str
    code: str
    done: int
    refused: str
    at: int
    cell: str = ""
    checked: bool = False
    died: bool = False


class RunFacts(msgspec.Struct, frozen=True):
    """An agent's run as a whole.

    Attributes:
        grew: as of a commit, of all steps together.
        part: where others' commits lie between its own, and it is several rows, which of them this is, the oldest first.
        tip: its newest commit, in full.
    """

    id: str
    short: str
    author: Author
    status: RunStatus
    part: Part
    steps: int
    tokens: int
    cost: float | None  # US dollars; None: not known
    tip: str
    refs: tuple[Ref, ...]
    chips: tuple[tuple[Sign, str, int], ...]
    more: int
    counts: dict[Sign, int]
    stopped: Stopped | None = None
    grew: dict[str, str] = {}


class FoldRow(msgspec.Struct, frozen=True, tag="fold", tag_field="kind"):
    """Neighbours that changed nothing, repeated runs of one cell, or the steps of an agent's run (`run`)."""

    id: str
    why: Literal["nothing", "repeated", "run"]
    n: int
    matching: int  # of them, where something is searched for; else 0
    prompt: str
    subject: str
    unfolded: bool
    took_s: float
    time_ms: int
    graph: Graph
    run: RunFacts | None = None


class WaitRow(msgspec.Struct, frozen=True, tag="wait", tag_field="kind"):
    """A step that does not run before a person says so, an agent's question, or a run that stopped before its first commit.

    `depth`: 0 where its run has no row.
    """

    id: str
    run: str  # in full
    depth: int
    prompt: str
    subject: str  # a line of the step's code, the question, or, where its run has no row, the task
    is_code: bool
    author: Author
    waits_for: Literal["approval", "answer", "resume"]
    time_ms: int
    graph: Graph
    stopped: Stopped | None = None


class CommitRow(msgspec.Struct, frozen=True, tag="commit", tag_field="kind"):
    """A commit.

    Attributes:
        grew: how much longer or wider a name among the chips became: `−17 rows`.
    """

    id: str
    short: str
    depth: int
    prompt: str
    subject: str
    is_code: bool
    author: Author
    node: Literal["cell", "agent", "merge", "failed", "interrupted"]
    run: str  # the agent's run that it is a step of, in full; "": of none
    why: str
    refs: tuple[Ref, ...]
    chips: tuple[tuple[Sign, str, int], ...]
    more: int
    counts: dict[Sign, int]
    took_s: float | None
    time_ms: int
    graph: Graph
    called: str = ""  # a step of an agent in a sentence, for its cell has others
    grew: dict[str, str] = {}


Row: TypeAlias = DayRow | FoldRow | WaitRow | CommitRow


class Page(msgspec.Struct, frozen=True, rename={"start": "from"}):
    """Some rows of a list."""

    version: str
    start: int
    total: int  # rows
    commits: int
    matches: int
    rows: tuple[Row, ...]


class Located(msgspec.Struct, frozen=True):
    """Where a commit stands in the list; None: it is filtered out."""

    row: int | None


class Head(msgspec.Struct, frozen=True):
    """Where the reader is. `lane`: the branch's colour; None if the reader is on no branch."""

    branch: str | None
    id: str | None
    prompt: str
    label: str
    lane: int | None


class State(msgspec.Struct, frozen=True, rename={"closed_reason": "gone"}):
    """What changes without being asked. Only a kernel knows more than the version and the store that it is of."""

    version: str
    store: str
    busy: str | None = None
    queued: None = None
    failed: str | None = None
    done: None = None
    kernel: bool = False
    closed_reason: None = None


class Opening(msgspec.Struct, frozen=True):
    """Everything that is shown at first. `undone`: the runs that were taken back."""

    title: str
    head: Head
    state: State
    page: Page
    unsaved_names: int = 0
    undone: tuple[str, ...] = ()


class Branch(msgspec.Struct, frozen=True, rename={"is_current": "here"}):
    """A branch in the list of branches."""

    name: str
    id: str
    lane: int | None
    is_current: bool
    note: str
    holder: str


class Side(msgspec.Struct, frozen=True):
    """One of two commits."""

    id: str
    short: str
    prompt: str
    label: str
    refs: tuple[Ref, ...]


# -- what a commit, or all steps of a run together, changed, as a row shows it: the largest names, and counts

_CHIPS: Final = 4
Changed: TypeAlias = tuple[Sequence[Change], Sequence[Unsaved]]


def combine_changes(commits: Iterable[Commit]) -> Changed:
    """Combine what several commits, the oldest first, changed. A name that came and went is left out."""
    changes: dict[str, Change] = {}
    unsaved: dict[str, Unsaved] = {}
    for commit in commits:
        for change in commit.changed:
            before = changes.pop(change.name, None)
            if before is not None and before.how == "+":
                if change.how != "-":
                    changes[change.name] = type(change)(change.name, "+", change.size)
            elif before is not None and before.how == "-" and change.how == "+":
                changes[change.name] = type(change)(change.name, "~", change.size)
            else:
                changes[change.name] = change
        unsaved = {one.name: one for one in commit.unsaved}
    return tuple(changes.values()), tuple(unsaved.values())


def chips_of(changed: Changed, rank: Rank) -> tuple[tuple[tuple[Sign, str, int], ...], int]:
    """The changed names, the most interesting first, and how many there are beyond these. One that is not saved is among them.

    Args:
        rank: how interesting a name is, 0 the most; of equal names the largest comes first.
    """
    saved, not_saved = _separate_unsaved(changed)
    saved.sort(key=lambda change: (rank(change.name), -change.size))
    room = _CHIPS - bool(not_saved)
    chips = [_chip(sign_of(change.how), change.name, change.size) for change in saved[:room]]
    chips += [_chip("!", name) for name in not_saved[: _CHIPS - len(chips)]]
    return tuple(chips), len(saved) + len(not_saved) - len(chips)


def record_chips(records: Sequence[str], shown: int) -> tuple[tuple[tuple[Sign, str, int], ...], int]:
    """Records that changed beside so many names of variables: as many as there is room for, and how many there are beyond these.

    Args:
        records: as a report names them, `~Note:a`. Their ids are text of anybody, so keys and tokens in it are masked.
    """
    named = records[: max(0, _CHIPS - shown)]
    chips = tuple(_chip(sign_of(name[0]), previews.mask_text(name[1:])) for name in named)
    return chips, len(records) - len(chips)


def select_changed(chips: Iterable[tuple[Sign, str, int]]) -> list[str]:
    """Select the names that were there before: of these it can be said how much longer or wider they became."""
    return [name for sign, name, _ in chips if sign == "~"]


def _separate_unsaved(changed: Changed) -> tuple[list[Change], list[str]]:
    """What changed and is saved, and the names that are not, each once: some that belong together are told as one."""
    not_saved = dict.fromkeys(name for one in changed[1] for name in one.name.split(", "))
    return [change for change in changed[0] if change.name not in not_saved], list(not_saved)


def _chip(sign: Sign, name: str, size: int = 0) -> tuple[Sign, str, int]:
    return sign, shorten_line(name, 60), size


def counts_of(changed: Changed) -> dict[Sign, int]:
    saved, not_saved = _separate_unsaved(changed)
    counts: Counter[Sign] = Counter(sign_of(change.how) for change in saved)
    if not_saved:
        counts["!"] = len(not_saved)
    return dict(counts)


def sign_of(how: str) -> Sign:
    return "+" if how == "+" else "-" if how == "-" else "~"


# -- the line under a cell that changed something: which commit it became, and what that changed
#
# Plain data with two representations, and no widget: a cell must not become slower for it. The lab extension draws it with buttons;
# every other front end shows the HTML, which needs no script and holds no code.

_MOST: Final = 3  # names, reasons and ways in one line
_BYTES: Final = 1_000  # a smaller size says nothing beside a name
# Mixed with the colour of the page's text, so that they read on a light and on a dark one.
_COLOURS: Final = {
    sign: f"color:color-mix(in srgb,{accent} 60%,currentColor)"
    for sign, accent in {"+": "#2e9d42", "~": "#c77700", "-": "#d33c3c", "!": "#c77700"}.items()
}
_STYLE: Final = "font-size:11px;line-height:24px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
_MUTED: Final = "opacity:.7"
_CODE: Final = "font-family:var(--jp-code-font-family,monospace)"
_ENDINGS: Final = {"completed": "done", "interrupted": "stopped", "cancelled": "given up"}
_Chip = tuple[str, str, int]


class _Author(msgspec.Struct, frozen=True):
    name: str
    kind: str


class _Stopped(msgspec.Struct, frozen=True):
    """`at`: the number of the run's last event, another one as soon as it goes on."""

    code: str
    done: int
    at: int


class _Run(msgspec.Struct, frozen=True, rename={"ending": "said"}):
    id: str
    ending: str  # how it ended
    bad: bool
    done: bool  # it came to its end, and well
    steps: int
    tokens: int
    cost: float | None
    stopped: _Stopped | None = None  # it can go on, and these are no failure


class _Line(msgspec.Struct, frozen=True):
    """What the line says. The names of the fields are the contract with the lab extension."""

    commit: str
    short: str
    branch: str | None
    author: _Author
    chips: list[_Chip]
    more: int  # changed names beyond the chips
    unsaved: str
    took_s: float | None
    undo: bool  # whether the session's next undo takes this commit back
    run: _Run | None = None  # the agent's run that ended so; then the commit is its newest one
    grew: dict[str, str] = {}  # how much longer or wider a name became: −17 rows


def footer(
    repo: Repository,
    id: ObjectId,
    commit: Commit,
    branch: str | None,
    news: Sequence[Unsaved],
    *,
    undo: bool,
    records: Sequence[str] = (),
    more_records: int = 0,
) -> dict[str, object] | None:
    """The line by MIME type; None where there is nothing to say.

    Args:
        news: what could not be saved, and was not told before.
        records: that changed, as a report names them: they stand where the names of variables leave room.
        more_records: the number of others.
    """
    named = {shorten_line(name, 60) for name in unsaved_names(news)}
    chips, more = chips_of((commit.changed, commit.unsaved), by_name(ranks_of(repo, commit)))
    of_records, left_out = record_chips(records, len(chips))
    line = _Line(
        commit=hex_of(id),
        short=short(id),
        branch=None if branch is None else shorten_line(branch, 200),
        author=_Author(shorten_line(commit.author.name), commit.author.kind),
        chips=[*(chip for chip in chips if chip[1] not in named), *of_records],  # of what is named the sentence tells
        more=more + left_out + more_records,
        unsaved=_describe_unsaved(news),
        took_s=commit.cell.duration_s if commit.cell is not None else None,
        undo=undo,
        grew=grown(repo, commit, select_changed(chips)),
    )
    if not line.chips and not line.unsaved:
        return None
    parts = _parts(line)
    data: object = msgspec.to_builtins(line)
    return {FOOTER: data, "text/html": _html(parts), "text/plain": " ".join(text for text, _ in parts)}


def run_footer(run: Mapping[str, Any], branch: str | None, *, undo: bool) -> dict[str, object]:
    """The line under a cell whose agent has come to an end, or was stopped, by MIME type.

    Args:
        run: the answer to `run`.
    """
    status: str = run["status"]
    stopped = run["stopped"]
    ending = _Run(
        id=run["id"],
        ending=stopped["said"] if stopped else ": ".join(filter(None, (_ENDINGS.get(status, status), run["reason"]))),
        bad=status == "failed" and not stopped,
        done=status == "completed",
        steps=len(run["steps"]),
        tokens=run["tokens"],
        cost=run["cost"],
        stopped=_Stopped(stopped["code"], stopped["done"], stopped["at"]) if stopped else None,
    )
    line = _Line(
        commit=run["tip"],
        short=run["tip"][:8],
        branch=None if branch is None else shorten_line(branch, 200),
        author=_Author(run["author"]["name"], "agent"),
        chips=[(sign, name, 0) for sign, name, _ in run["chips"]],  # of several steps together no size says much
        more=run["more"],
        unsaved="",
        took_s=run["took_s"],
        undo=undo,
        run=ending,
        grew=run["grew"],
    )
    data: object = msgspec.to_builtins(line)
    parts = _run_parts(line, ending)
    return {FOOTER: data, "text/html": _html(parts), "text/plain": " ".join(text for text, _ in parts)}


def _run_parts(line: _Line, run: _Run) -> list[tuple[str, str]]:
    colour = _COLOURS["-"] if run.bad else _COLOURS["!"] if not run.done else ""
    spent = f"{run.tokens:,} tokens" if run.cost is None else money(run.cost)
    steps = f"{plural(run.stopped.done, 'step')} done" if run.stopped else plural(run.steps, "step")
    is_nothing = run.stopped is not None and not run.stopped.done
    taken = [] if is_nothing else [(steps, _MUTED)]
    taken += [(spent, _MUTED)] if run.tokens or not run.stopped else []
    return [
        ("⊖" if run.stopped else "■", colour if run.stopped else _MUTED),
        (line.author.name, _MUTED),
        (run.ending, colour),
        *([("code:", _MUTED), (run.stopped.code, f"{_MUTED};{_CODE}")] if run.stopped and run.stopped.code else []),
        *_chip_parts(line),
        *taken,
        (duration(line.took_s or 0.0), _MUTED),
        *([(f"Resume: %agent resume --run {short_run(run.id)}", _MUTED)] if run.stopped else []),
    ]


def _describe_unsaved(news: Sequence[Unsaved]) -> str:
    """`lock, fh are not saved: a lock cannot be saved; an open file cannot be saved. Run this cell again to have them back.`"""
    sentences = (_describe_alike([one for one in news if one.stored == stored]) for stored in (False, True))
    return shorten_line(previews.mask_text(" ".join(filter(None, sentences))), 400)


def _describe_alike(alike: Sequence[Unsaved]) -> str:
    if not alike:
        return ""
    names, many = unsaved_names(alike), len(alike) > 1
    reasons = list(dict.fromkeys(one.reason.rstrip(". ") for one in alike))
    remedies = list(dict.fromkeys(_remedy(one, many=many) for one in alike if one.remedy))
    predicate = f"{'are' if len(names) > 1 else 'is'} not {'loaded' if alike[0].stored else 'saved'}"
    sentence = f"{_some(names, ', ')} {predicate}: {_some(reasons, '; ')}."
    return " ".join([sentence, *(f"{way[0].upper()}{way[1:]}." for way in remedies[:_MOST])])


def _remedy(one: Unsaved, *, many: bool) -> str:
    way = one.remedy.rstrip(".")
    if way.startswith("run cell ["):  # it is the cell above this line
        way = "run this cell again to have it back"
    return way.replace("to have it back", "to have them back") if many else way


def _some(texts: Sequence[str], comma: str) -> str:
    more = len(texts) - _MOST
    return comma.join(texts[:_MOST]) + (f" and {more} more" if more > 0 else "")


def _parts(line: _Line) -> list[tuple[str, str]]:
    """The line in pieces of text, each with its style."""
    is_agent = line.author.kind == "agent"
    parts = [("■" if is_agent else "●", _MUTED), (line.short, f"{_MUTED};{_CODE}")]
    parts += [(line.branch, _MUTED)] if line.branch else []
    parts += [(line.author.name, _MUTED)] if is_agent else []
    parts += _chip_parts(line)
    parts += [(f"! {line.unsaved}", _COLOURS["!"])] if line.unsaved else []
    return [*parts, (duration(line.took_s), _MUTED)] if line.took_s is not None else parts


def _chip_parts(line: _Line) -> Iterator[tuple[str, str]]:
    for at, (sign, name, size) in enumerate(line.chips):
        yield f"{'−' if sign == '-' else sign}{name}", f"{_COLOURS[sign]};{_CODE}"
        if name in line.grew:
            yield line.grew[name], _MUTED
        elif not at and size >= _BYTES:
            yield size_text(size), _MUTED
    if line.more:
        yield f"{line.more} more", _MUTED


def _html(parts: Sequence[tuple[str, str]]) -> str:
    spans = " &nbsp;".join(f'<span style="{style}">{escape(text)}</span>' for text, style in parts)
    return f'<div style="{_STYLE}">{spans}</div>'
