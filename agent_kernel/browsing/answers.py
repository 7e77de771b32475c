"""The list as data: what `open` and `rows` answer. The names of the fields are the contract with the panel.

Sizes are bytes, durations seconds, times milliseconds since 1970 (UTC). Every text is plain text.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

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


class Stopped(msgspec.Struct, frozen=True):
    """That a run stopped before it was done, and can go on: interrupted, at a limit, or as its process ended.

    Attributes:
        said: where it stopped, and why where that is known: `stopped in step 3`.
        code: a line of the code that it was at; "": none.
        done: the steps that had run to their end.
        refused: why it cannot go on where the reader is; "": nothing is known to be in its way.
        at: the number of its last event, another one as soon as it goes on.
        cell: the line that lets it go on, where only a cell can; the kernel knows.
        checked: the kernel has looked whether it can go on. Nobody else knows, so only then it is offered.
        died: nobody noted that it stopped: its process ended in the middle of it.
    """

    said: str
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
    """A commit."""

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


class State(msgspec.Struct, frozen=True):
    """What changes without being asked. Only a kernel knows more than the version and the store that it is of."""

    version: str
    store: str
    busy: str | None = None
    queued: None = None
    failed: str | None = None
    done: None = None
    kernel: bool = False
    gone: None = None


class Opening(msgspec.Struct, frozen=True):
    """Everything that is shown at first. `undone`: the runs that were taken back."""

    title: str
    head: Head
    state: State
    page: Page
    unsaved_names: int = 0
    undone: tuple[str, ...] = ()


class Branch(msgspec.Struct, frozen=True):
    """A branch in the list of branches."""

    name: str
    id: str
    lane: int | None
    here: bool
    note: str
    holder: str
