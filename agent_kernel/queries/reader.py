"""`Reader.ask` takes a question as data and gives the answer as data.

With it stand what may be asked, within which bounds; what all answers need; how failures are told; and how the list stays in a
saved notebook, where nobody can be asked.
"""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from agent_kernel.agents.approval import open_question
from agent_kernel.agents.event_log import EventStore, candidate_on, describe_temporary
from agent_kernel.commands.describe import Table, table_lines
from agent_kernel.commands.history import Finder, Timeline, View
from agent_kernel.errors import (
    AgentKernelError,
    AmbiguousRefError,
    DamagedObjectError,
    NewerFormatError,
    NotAStoreError,
    NotFoundError,
    RequestError,
    StoreUnavailableError,
    TooLargeError,
)
from agent_kernel.queries import HISTORY, wording
from agent_kernel.queries.listing import Colours, Listing, colours_of, head_of, lay_out, row_of, title_of, where_stopped
from agent_kernel.queries.wording import Author, CommitRow, Head, Ref, shorten_line, store_id
from agent_kernel.repository import Commit, ObjectId, person
from agent_kernel.session.history import describe_kind, error_kind
from agent_kernel.text import cut, duration, exact_time, pad, plural, size_text, width_of
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.events import ApprovalRequested, Clarify
    from agent_kernel.session import Repository

__all__ = [
    "At",
    "Between",
    "Code",
    "Failure",
    "Listed",
    "Located",
    "Nothing",
    "OfRun",
    "OfVariable",
    "Opened",
    "Planned",
    "Query",
    "QueryContext",
    "Reader",
    "Revision",
    "Spread",
    "failure",
    "in_words",
    "read",
    "represent_history",
    "represent_in",
]


# -- what may be asked: one structure for each question, with bounds, so that no question costs more than it should

Revision = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Other = Annotated[str, msgspec.Meta(max_length=300)]  # a revision; "": nothing, as before the first commit
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
Count = Annotated[int, msgspec.Meta(ge=0, le=500)]
Row = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]
Text = Annotated[str, msgspec.Meta(max_length=1_000)]
Fold = Annotated[str, msgspec.Meta(max_length=80)]
Folds = Annotated[tuple[Fold, ...], msgspec.Meta(max_length=500)]
Zone = Annotated[int, msgspec.Meta(ge=-86_400, le=86_400)]  # seconds

A = TypeVar("A", bound=msgspec.Struct)


class Listed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"start": "from"}):
    """Which rows are listed, and which of them are wanted."""

    text: Text = ""
    show: Literal["all", "named", "errors"] = "all"
    tz_s: Zone = 0  # the reader's distance from UTC
    unfolded: Folds = ()
    start: Row = 0
    n: Count = 100


class Opened(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first rows, with all that stands around them."""

    text: Text = ""
    show: Literal["all", "named", "errors"] = "all"
    tz_s: Zone = 0
    unfolded: Folds = ()
    n: Count = 60


class Located(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit in a list."""

    text: Text = ""
    show: Literal["all", "named", "errors"] = "all"
    tz_s: Zone = 0
    unfolded: Folds = ()
    id: Revision


class At(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit, against its first parent or another one."""

    id: Revision
    against: Other | None = None


class One(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit."""

    id: Revision


class OfRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of an agent, by its full id."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class OfVariable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One variable of one commit."""

    id: Revision
    against: Other | None = None
    name: Name


class Between(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two commits."""

    a: Revision
    b: Revision


class Planned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that may be done."""

    op: Literal["checkout", "rollback", "merge", "cherry_pick"]
    to: Revision


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""


def read(op: str, args: Mapping[str, object], shape: type[A]) -> A:
    """The arguments, checked.

    Raises:
        RequestError: one is missing, unknown, of another type or out of bounds.
    """
    try:
        return msgspec.convert(args, shape)
    except msgspec.ValidationError as error:
        raise RequestError(op, in_words(error)) from None


def in_words(error: msgspec.ValidationError) -> str:
    """What is wrong with an argument, as it is told to the person who gave it.

    >>> in_words(msgspec.ValidationError("Expected `str` of length >= 1 - at `$.name`"))
    'the name is empty'
    """
    message = str(error)
    for pattern, words in _WORDS:
        if found := pattern.fullmatch(message):
            return words(found)
    return message


def _kind(found: re.Match[str]) -> str:
    return f"the {_field(found[2])} is not {_KINDS.get(found[1], found[1])}"


def _field(name: str) -> str:
    return _FIELDS.get(name, name)


_FIELDS = {
    "against": "other commit",
    "from": "first row",
    "id": "commit",
    "n": "number of rows",
    "show": "choice of rows",
    "to": "commit",
    "tz_s": "time zone",
}
_KINDS = {"str": "a text", "int": "a whole number", "bool": "true or false", "array": "a list", "object": "an object"}
_AT = r" - at `\$\.(\w+).*`"
_WORDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"Expected `str` of length >= 1{_AT}"), lambda found: f"the {_field(found[1])} is empty"),
    (
        re.compile(rf"Expected `str` of length <= (\d+){_AT}"),
        lambda found: f"the {_field(found[2])} has more than {int(found[1]):,} characters",
    ),
    (
        re.compile(rf"Expected `array` of length <= (\d+){_AT}"),
        lambda found: f"there are more than {int(found[1]):,} {found[2]}",
    ),
    (
        re.compile(rf"Expected `int` ([<>])= (-?\d+){_AT}"),
        lambda found: f"the {_field(found[3])} is {'less' if found[1] == '>' else 'more'} than {int(found[2]):,}",
    ),
    (re.compile(rf"Expected `(\w+)(?: \| null)?`, got `.*`{_AT}"), _kind),
    (re.compile(rf"Invalid enum value (.*?){_AT}"), lambda found: f"the {_field(found[2])} cannot be {found[1]}"),
    (re.compile(r"Object missing required field `(\w+)`"), lambda found: f"the {_field(found[1])} is missing"),
    (re.compile(r"Object contains unknown field `(.*)`"), lambda found: f"there is no argument {found[1]!r}"),
)


# -- the names that point at commits

_MOST_REFS = 20  # at one commit, HEAD's first


def _refs_by_commit(view: View, colours: Colours, agent_branches: Mapping[str, str]) -> dict[ObjectId, tuple[Ref, ...]]:
    """The names that point at each commit: HEAD's branch first, then branches, tags, and one label for what agents have there.

    Args:
        agent_branches: the branches that nobody named, each in words.
    """
    found: dict[ObjectId, list[Ref]] = {}
    agent_refs: dict[ObjectId, dict[str, str]] = {}
    head = view.head
    if head.commit is not None and head.branch is None:
        found[head.commit] = [Ref("head", "HEAD", True, None)]
    for name, at in sorted(view.branches.items(), key=lambda branch: (branch[0] != head.branch, branch[0])):
        if name != head.branch and name in agent_branches:
            agent_refs.setdefault(at, {})[name] = agent_branches[name]
            continue
        ref = Ref("branch", shorten_line(name, 200), name == head.branch, colours.branches[name])
        found.setdefault(at, []).append(ref)
    for name, at in sorted(view.tags.items()):
        found.setdefault(at, []).append(Ref("tag", shorten_line(name, 200), False, None))
    found = {at: refs[:_MOST_REFS] for at, refs in found.items()}
    for at, labels in agent_refs.items():
        first = next(iter(labels))
        names = shorten_line(", ".join(labels), 200)
        found.setdefault(at, []).append(
            Ref("aside", _summarize_branches(labels), False, colours.branches[first], names)
        )
    return {at: tuple(refs) for at, refs in found.items()}


def _summarize_branches(labels: Mapping[str, str]) -> str:
    """Several branches that nobody named in a few words: all of a race begin at one commit, and it has its own subject."""
    if len(labels) == 1:
        return next(iter(labels.values()))
    races = {candidate_on(name)[0] for name in labels}
    (race,) = races if len(races) == 1 else ("",)
    return f"{len(labels)} candidates of race {race}" if race else f"{len(labels)} branches of agents"


# -- what answers have in common: the repository, whose HEAD counts, and what was worked out of the history before

_MOST_LISTS = 4  # of one version that are kept


class Query(Protocol):
    """Which rows are listed."""

    @property
    def text(self) -> str: ...
    @property
    def show(self) -> str: ...
    @property
    def tz_s(self) -> int: ...
    @property
    def unfolded(self) -> tuple[str, ...]: ...


class Position(NamedTuple):
    """Where the reader is (`elsewhere.Position`)."""

    repo: Repository
    id: str
    head: ObjectId | None


class Spread(msgspec.Struct, frozen=True):
    """One version of the history, laid open."""

    view: View
    colours: Colours
    refs: Mapping[ObjectId, tuple[Ref, ...]]
    lists: dict[tuple[object, ...], Listing]
    waiting: Mapping[str, ApprovalRequested | Clarify] = {}  # what each run that waits asks a person
    stopped: Mapping[str, int] = {}  # when each run stopped that made no commit and can go on, in nanoseconds
    agent_branches: Mapping[str, str] = {}  # the branches that agents have for a while, in words


class QueryContext:
    """One repository as one session sees it."""

    def __init__(self, repo: Repository, session_id: str) -> None:
        self.repo = repo
        self.session_id = session_id
        self.me = person().name
        self.lock = threading.RLock()
        self._timeline = Timeline(repo, session_id)
        self._finder = Finder(repo)
        self._spread: Spread | None = None

    def resolve(self, rev: str) -> tuple[ObjectId, Commit]:
        """The commit that a revision names; raises RefNotFoundError or AmbiguousRefError."""
        id = self.repo.resolve(rev, self.session_id)
        return id, self.repo.commit_at(id)

    def author(self, commit: Commit) -> Author:
        """Who wrote a commit."""
        name, is_agent = shorten_line(commit.author.name), commit.author.kind == "agent"
        return Author(name, "agent" if is_agent else "person", not is_agent and commit.author.name == self.me)

    def position(self) -> Position:
        """Where the reader is now."""
        return Position(self.repo, self.session_id, self.history_now().view.head.commit)

    def version(self) -> str:
        """Of the history now; it is laid out only once somebody asks for it."""
        with self.lock:
            return self._timeline.version()

    def history_now(self) -> Spread:
        """The history as it is now."""
        with self.lock:
            view = self._timeline.now()
            if self._spread is None or self._spread.view is not view:
                if self._spread is not None and self._spread.view.epoch != view.epoch:
                    self._finder = Finder(self.repo)  # nothing of what was forgotten stays here
                colours = colours_of(view)
                waiting = dict(filter(None, map(self._find_question, view.waiting)))
                agent_branches = describe_temporary(self.repo, EventStore(self.repo.store))
                refs = _refs_by_commit(view, colours, agent_branches)
                stopped = dict(self._find_stopped(view))
                self._spread = Spread(view, colours, refs, {}, waiting, stopped, agent_branches)
            return self._spread

    def _find_stopped(self, view: View) -> Iterator[tuple[str, int]]:
        event_store = EventStore(self.repo.store)
        without = set(event_store.find_stopped()) - {record.run for record in view.order}
        for run in without:
            events = tuple(event_store.of(run))
            if where_stopped(event_store, events)[0]:
                yield run, events[-1].time_ns

    def _find_question(self, run: str) -> tuple[str, ApprovalRequested | Clarify] | None:
        found = open_question(tuple(EventStore(self.repo.store).of(run)))
        return None if found is None else (run, found)

    def list_rows(self, query: Query) -> tuple[Spread, Listing]:
        """The rows of a query, and the history that they are of."""
        with self.lock:
            spread = self.history_now()
            key = (query.text, query.show, query.tz_s, query.unfolded)
            found = spread.lists.pop(key, None)
            if found is None:
                matching = self._finder.find(spread.view, query.text, query.show, query.tz_s)
                asked_ns = {run: request.time_ns for run, request in spread.waiting.items()}
                unfolded = frozenset(query.unfolded)
                found = lay_out(
                    spread.view,
                    spread.colours,
                    matching,
                    query.tz_s,
                    unfolded,
                    asked_ns=asked_ns,
                    stopped_ns=spread.stopped,
                )
            spread.lists[key] = found  # the one used last stands last
            for oldest in list(spread.lists)[:-_MOST_LISTS]:
                del spread.lists[oldest]
            return spread, found


class Question(NamedTuple):
    """One operation: what it takes, and the module of this package whose function of the same name answers it."""

    shape: type[msgspec.Struct]
    module: str


class Reader:
    """Answers everything that a panel asks of one repository, as one session sees it.

    Safe to use from several threads. It keeps what it read of the history from one question to the next.

    Args:
        session_id: whose HEAD counts; the nameless session's is where the store was used last.
    """

    def __init__(self, repo: Repository, session_id: str = "") -> None:
        self._context = QueryContext(repo, session_id)

    def ask(self, op: str, args: Mapping[str, object]) -> Any:
        """The answer of an operation of `Reads`, as plain lists, dicts, texts and numbers.

        Raises:
            AgentKernelError: the question has no answer; `failure` says it as data.
        """
        question = QUESTIONS.get(op)
        if question is None:
            known = ", ".join(sorted(QUESTIONS))
            raise RequestError(shorten_line(op), f"there is no such question; the questions are {known}")
        answer = _find_answer(question.module, op)(self._context, read(op, args, question.shape))
        return msgspec.json.decode(msgspec.json.encode(answer))

    def represent_history(self) -> dict[str, Any]:
        """The static representations of the history by MIME type."""
        return represent_in(self._context)

    def version(self) -> str:
        """Changes when a branch, a tag, a commit or a HEAD does. Costs next to nothing if nothing was written since."""
        return self._context.version()


@functools.cache
def _find_answer(module: str, op: str) -> Callable[[QueryContext, Any], object]:
    """Its module loads with the first question of its kind: whoever opens a panel does not wait for those of the others."""
    found: Callable[[QueryContext, Any], object] = getattr(
        import_module(f"agent_kernel.queries.{module}"), _NAMES.get(op, op)
    )
    return found


_NAMES = {"open": "open_"}

QUESTIONS: Mapping[str, Question] = {
    "branches": Question(Nothing, "listing"),
    "cells": Question(One, "variables"),
    "code": Question(At, "changes"),
    "commit": Question(At, "changes"),
    "compare": Question(Between, "changes"),
    "environment": Question(At, "changes"),
    "locate": Question(Located, "listing"),
    "open": Question(Opened, "listing"),
    "outputs": Question(One, "variables"),
    "plan": Question(Planned, "plans"),
    "race": Question(OfRun, "agents"),
    "rows": Question(Listed, "listing"),
    "run": Question(OfRun, "agents"),
    "variable": Question(OfVariable, "variables"),
}


# -- what a panel is told where something could not be answered

Code: TypeAlias = Literal["not_found", "ambiguous", "refused", "damaged", "too_large", "gone", "failed"]

# The first that fits.
_CODES: tuple[tuple[type[AgentKernelError], Code], ...] = (
    (AmbiguousRefError, "ambiguous"),
    (NotFoundError, "not_found"),
    (DamagedObjectError, "damaged"),
    (TooLargeError, "too_large"),
    (NotAStoreError, "gone"),
    (NewerFormatError, "failed"),
    (StoreUnavailableError, "gone"),
    (AgentKernelError, "refused"),
)


class Failure(msgspec.Struct, frozen=True):
    """Why there is no answer: a word for programs, a sentence for people."""

    code: Code
    message: str


def failure(error: BaseException) -> dict[str, str]:
    """The failure as data. Of an error that nobody raised on purpose only the type is told."""
    codes: list[Code] = [code for kind, code in _CODES if isinstance(error, kind)]
    known = isinstance(error, AgentKernelError)
    text = str(error) if known else f"it could not be read ({type(error).__name__})"
    # A message of several lines, as that of a merge conflict, is told in one.
    message = previews.clean(previews.mask_text(" ".join(text.split())))
    found: dict[str, str] = msgspec.to_builtins(Failure(codes[0] if codes else "failed", message))
    return found


# -- the list as it stays in a saved notebook: read without a kernel, on a web page, on paper, in a diff
#
# It carries names, types and sizes, and what people wrote as messages. It carries no code: the cell may have been deleted
# since, and a notebook is given to others. So "What ran" says what kind of thing it was.

ROWS: Final = 20

_COLUMNS: Final = ("Branch", "Cell", "What ran", "Changed", "Took", "When")
_RIGHT: Final = frozenset({4, 5})
_CODE: Final = frozenset({0, 1, 3})  # columns in the font of code
_DOTS: Final = {"merge": "○", "failed": "✕", "interrupted": "⊖", "agent": "■"}
_MUTED: Final = "opacity:.7"
_CELL: Final = "padding:4px 10px;border-bottom:1px solid rgba(128,128,128,.3);white-space:nowrap"
_FONT: Final = "font-family:var(--jp-code-font-family,monospace)"


class Preview(msgspec.Struct, frozen=True):
    """The newest rows, without code."""

    version: int
    store: str
    title: str
    saved_ms: int
    head: Head
    commits: int
    rows: tuple[wording.Row, ...]


def represent_history(
    repo: Repository, session_id: str = "", *, rows: int = ROWS, now_ns: int | None = None
) -> dict[str, Any]:
    """The static representations by MIME type: a table as HTML and as plain text, and our own as data."""
    return represent_in(QueryContext(repo, session_id), rows=rows, now_ns=now_ns)


def represent_in(context: QueryContext, *, rows: int = ROWS, now_ns: int | None = None) -> dict[str, Any]:
    """The same, from what is read already."""
    spread = context.history_now()
    made = _preview(context, spread, rows, time.time_ns() if now_ns is None else now_ns)
    commits = [row for row in made.rows if isinstance(row, CommitRow)]
    caption = _caption(made, len(commits))
    table = [_cells(context, row) for row in commits]
    return {
        HISTORY: msgspec.json.decode(msgspec.json.encode(made)),
        "text/html": _html(caption, table),
        "text/plain": "\n".join(line.rstrip() for line in [caption, *_plain(table)]),
    }


def _preview(context: QueryContext, spread: Spread, most: int, now_ns: int) -> Preview:
    # The days of whoever saves it: nobody knows where it will be read.
    listing = lay_out(spread.view, spread.colours, None, time.localtime(now_ns / 1e9).tm_gmtoff, fold=False)
    rows: list[wording.Row] = []
    for item in listing.items:
        if sum(isinstance(row, CommitRow) for row in rows) >= most:
            break
        row = row_of(context, listing, item, spread)
        if isinstance(row, CommitRow) and item.record is not None:
            row = _without_code(row, context.repo.commit_at(item.record.id))
        rows.append(row)
    head = head_of(context, spread)
    at = spread.view.head.commit
    if at is not None and not head.prompt:
        head = msgspec.structs.replace(head, label=f"“{describe_kind(context.repo.commit_at(at))}”")
    title = title_of(context, spread)
    return Preview(1, store_id(context.repo), title, now_ns // 1_000_000, head, len(spread.view.order), tuple(rows))


def _without_code(row: CommitRow, commit: Commit) -> CommitRow:
    author = row.author if row.author.kind == "agent" else Author("", "person", False)
    return msgspec.structs.replace(
        row, subject=describe_kind(commit), is_code=False, why=error_kind(commit), author=author
    )


def _caption(made: Preview, count: int) -> str:
    saved = exact_time(made.saved_ms * 1_000_000, time.localtime(made.saved_ms / 1e3).tm_gmtoff)
    some = f"Newest {count} of {made.commits:,} commits" if count < made.commits else plural(count, "commit")
    return (
        f"History of {made.title}, saved {saved:%a} {saved.day} {saved:%b %Y, %H:%M}. {some}. "
        "Open it with a kernel to compare or check out."
    )


def _cells(context: QueryContext, row: CommitRow) -> tuple[str, ...]:
    commit = context.repo.commit_at(ObjectId(bytes.fromhex(row.id) + b"\x01"))
    when = exact_time(commit.time_ns, commit.utc_offset_s)
    refs = ", ".join(f"{ref.name} (HEAD)" if ref.head and ref.kind == "branch" else ref.name for ref in row.refs)
    subject = row.subject if not row.why else f"{row.subject}, {row.why}"
    took = duration(row.took_s) if row.took_s is not None else ""
    return f"{_graph(row)} {refs}".rstrip(), row.prompt, subject, _chips(row), took, f"{when.day} {when:%b %H:%M}"


def _graph(row: CommitRow) -> str:
    """The lanes at this row, with the commit's own sign in its lane."""
    lanes = {line[0] for line in row.graph.lines if line[0] is not None and line[1] is not None}
    node = row.graph.node or 0
    marks = ["│" if lane in lanes else " " for lane in range(max([node, *lanes]) + 1)]
    marks[node] = _DOTS.get(row.node, "●")
    return " ".join(marks)


def _chips(row: CommitRow) -> str:
    names = [f"{'−' if how == '-' else how}{name}" for how, name, _ in row.chips]
    if row.chips and row.chips[0][2] >= 1_000:
        names[0] += f" {size_text(row.chips[0][2])}"
    return " ".join(names) + (f", {row.more} more" if row.more else "")


def _html(caption: str, rows: Sequence[tuple[str, ...]]) -> str:
    """Inline styles that read on a light and on a dark page; everything escaped, no scripts."""
    head = "".join(
        f'<th style="{_style(at)};{_MUTED};font-weight:400">{title}</th>' for at, title in enumerate(_COLUMNS)
    )
    body = "".join(
        "<tr>" + "".join(f'<td style="{_style(at)}">{escape(text)}</td>' for at, text in enumerate(row)) + "</tr>"
        for row in rows
    )
    table = f'<table style="border-collapse:collapse;margin:0;color:inherit;font:inherit"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    heading = f'<p style="margin:0;padding:4px 10px;font:inherit;{_MUTED}">{escape(caption)}</p>'
    return f'<div class="agent-kernel-history" style="font-size:13px">{heading}{table if rows else ""}</div>'


def _style(at: int) -> str:
    font = f";{_FONT};white-space:pre" if at in _CODE else ""
    numbers = f";font-variant-numeric:tabular-nums;{_MUTED}" if at in _RIGHT else ""
    return f"{_CELL};{_alignment(at)}{font}{numbers}"


def _alignment(at: int) -> str:
    return f"text-align:{'right' if at in _RIGHT else 'left'}"


def _plain(rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    narrow = [(*row[:2], cut(row[2], 40), cut(row[3], 44), *row[4:]) for row in rows]
    wide = max(width_of(row[0]) for row in narrow)
    return table_lines(Table(_COLUMNS, tuple((pad(row[0], wide), *row[1:]) for row in narrow), right=_RIGHT), None)
