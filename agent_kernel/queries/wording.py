"""How commits, names and sizes are called in a panel, beyond what every interface says; and the list as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from agent_kernel.repository import Change, Commit, ObjectId, Unsaved, hex_of, short
from agent_kernel.session.history import is_code, mask_commit, prompt, title
from agent_kernel.text import MORE, clean, cut
from agent_kernel.values import previews
from agent_kernel.values.previews.plain import number_text

if TYPE_CHECKING:
    from agent_kernel.commands.describe import Rank
    from agent_kernel.queries.reader import QueryContext

__all__ = [
    "PLAIN",
    "Changed",
    "Side",
    "Style",
    "chips_of",
    "combine_changes",
    "commit_text",
    "counts_of",
    "node_of",
    "prompts",
    "select_changed",
    "shorten_line",
    "side_of",
    "sign_of",
    "step_called",
    "style_of",
    "subject_of",
    "text_of",
    "why",
]


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


def side_of(context: QueryContext, id: ObjectId, commit: Commit) -> Side:
    """The commit as one of two that are compared."""
    return Side(hex_of(id), short(id), prompt(commit), commit_text(commit), context.history_now().refs.get(id, ()))


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
