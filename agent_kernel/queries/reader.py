"""`Reader.ask` takes a question as data and gives the answer as data.

With it stand what may be asked, within which bounds; the answers of `open`, `rows`, `locate` and `branches`; how failures are
told; and how the list stays in a saved notebook, where nobody can be asked.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec

from agent_kernel.commands.describe import Table, table_lines
from agent_kernel.commands.history import reachable_commits
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
from agent_kernel.queries.listing import Item, Query, QueryContext, Spread, lay_out, row_of
from agent_kernel.queries.wording import (
    Author,
    Branch,
    CommitRow,
    Head,
    Opening,
    Page,
    State,
    commit_text,
    shorten_line,
    store_id,
)
from agent_kernel.repository import Commit, Kind, ObjectId, hex_of
from agent_kernel.repository.commits import decode_commit
from agent_kernel.session.history import describe_kind, error_kind, prompt
from agent_kernel.session.provenance import read_notebook
from agent_kernel.text import cut, duration, exact_time, pad, plural, size_text, width_of
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.session import Repository


# -- what may be asked: one structure for each question, with bounds, so that no question costs more than it should

Revision = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Other = Annotated[str, msgspec.Meta(max_length=300)]  # a revision; "": nothing, as before the first commit
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
Count = Annotated[int, msgspec.Meta(ge=0, le=500)]
Row = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]

A = TypeVar("A", bound=msgspec.Struct)


class Listed(Query, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"start": "from"}):
    """Which rows are listed, and which of them are wanted."""

    start: Row = 0
    n: Count = 100


class Opened(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first rows, with all that stands around them."""

    n: Count = 60


class Located(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit in a list."""

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


# -- what answers a question


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
    "branches": Question(Nothing, "reader"),
    "cells": Question(One, "variables"),
    "code": Question(At, "changes"),
    "commit": Question(At, "changes"),
    "compare": Question(Between, "changes"),
    "environment": Question(At, "changes"),
    "locate": Question(Located, "reader"),
    "open": Question(Opened, "reader"),
    "outputs": Question(One, "variables"),
    "plan": Question(Planned, "plans"),
    "race": Question(OfRun, "agents"),
    "rows": Question(Listed, "reader"),
    "run": Question(OfRun, "agents"),
    "variable": Question(OfVariable, "variables"),
}


# -- `open`, `rows`, `locate`, `branches`: the list, and what stands around it

_MOST_OPENING = 46_000  # bytes of the rows that `open` sends; what stands around them takes less than 4,000
_MOST_FOLDED = 2_000  # commits of closed folds that are read at once


def open_(context: QueryContext, args: Opened) -> Opening:
    """Everything that is shown at first. Where rows are long there are fewer of them, so that it stays small."""
    spread = context.history_now()
    page = _page(context, args, 0, args.n, most_bytes=_MOST_OPENING)
    return Opening(
        title_of(context, spread),
        head_of(context, spread),
        State(page.version, store_id(context.repo)),
        page,
        undone=tuple(sorted(spread.view.undone)),
    )


def rows(context: QueryContext, args: Listed) -> Page:
    """Some rows."""
    return _page(context, args, args.start, args.n)


def locate(context: QueryContext, args: Located) -> wording.Located:
    """The row that a commit stands in."""
    id, _ = context.resolve(args.id)
    _, listing = context.list_rows(args)
    return wording.Located(listing.rows.get(id))


def _page(context: QueryContext, query: Query, start: int, n: int, most_bytes: int | None = None) -> Page:
    with context.lock:
        spread, listing = context.list_rows(query)
        found: list[wording.Row] = []
        size = 0
        items = listing.items[start : start + n]
        _fetch(context, items)
        for item in items:
            row = row_of(context, listing, item, spread)
            if most_bytes is not None:
                size += len(msgspec.json.encode(row)) + 1
                if size > most_bytes and found:
                    break
            found.append(row)
        view = spread.view
        return Page(view.version, start, len(listing.items), len(view.order), listing.matches, tuple(found))


def _fetch(context: QueryContext, items: Sequence[Item]) -> None:
    """Read what the rows are about at once: a round trip for each would take most of the time."""
    single = [item.record.id for item in items if item.record is not None]
    folded = [record.id for item in items if item.record is None and item.fold for record in item.fold.members]
    context.repo.objects.load_many(Kind.COMMIT, [*single, *folded[:_MOST_FOLDED]], decode_commit)


def head_of(context: QueryContext, spread: Spread) -> Head:
    """Where the session is."""
    head = spread.view.head
    lane = spread.colours.branches.get(head.branch) if head.branch is not None else None
    branch = None if head.branch is None else shorten_line(head.branch, 200)
    if head.commit is None:
        return Head(branch, None, "", "", lane)
    commit = context.repo.commit_at(head.commit)
    return Head(branch, hex_of(head.commit), prompt(commit), commit_text(commit), lane)


def title_of(context: QueryContext, spread: Spread) -> str:
    """What the history is of: the notebook, as HEAD's commit knows it, or the store's folder."""
    head = spread.view.head.commit
    document = read_notebook(context.repo.objects, context.repo.commit_at(head)) if head is not None else None
    if document is not None and document.name:
        return shorten_line(document.name)
    return shorten_line(PurePath(unquote(context.repo.store.url.partition("://")[2])).name or "memory")


def branches(context: QueryContext, args: Nothing) -> tuple[Branch, ...]:
    """The branches of people: the one HEAD is on first, then those that moved last."""
    spread = context.history_now()
    view = spread.view
    named = [one for one in view.branches.items() if one[0] == view.head.branch or one[0] not in spread.agent_branches]
    ordered = sorted(named, key=lambda branch: (view.order_of[branch[1]], branch[0]))
    ordered.sort(key=lambda branch: branch[0] != view.head.branch)
    return tuple(
        Branch(
            name=shorten_line(name, 200),
            id=hex_of(at),
            lane=spread.colours.branches[name],
            is_current=name == view.head.branch,
            note=_note(spread, name),
            holder=_holder(context, name),
        )
        for name, at in ordered
    )


def _note(spread: Spread, name: str) -> str:
    """How it stands to where the reader is: `merged into main`, `2 commits of its own`."""
    view = spread.view
    if name == view.head.branch:
        return "you are here"
    into = view.head.branch if view.head.branch in view.branches else spread.colours.first
    if into is None or into == name:
        return ""
    own = len(reachable_commits(view, [view.branches[name]], reachable_commits(view, [view.branches[into]])))
    return f"{plural(own, 'commit')} of its own" if own else f"merged into {shorten_line(into, 200)}"


def _holder(context: QueryContext, name: str) -> str:
    holder = context.repo.lease_of(name)
    if holder is None or not holder.is_alive(context.repo.store) or holder.session == context.session_id:
        return ""
    return shorten_line(str(holder), 200)


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

_ROWS: Final = 20

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


def represent_in(context: QueryContext, now_ns: int | None = None) -> dict[str, Any]:
    """The static representations by MIME type: a table as HTML and as plain text, and our own as data."""
    spread = context.history_now()
    made = _preview(context, spread, time.time_ns() if now_ns is None else now_ns)
    commits = [row for row in made.rows if isinstance(row, CommitRow)]
    caption = _caption(made, len(commits))
    table = [_cells(context, row) for row in commits]
    return {
        HISTORY: msgspec.json.decode(msgspec.json.encode(made)),
        "text/html": _html(caption, table),
        "text/plain": "\n".join(line.rstrip() for line in [caption, *_plain(table)]),
    }


def _preview(context: QueryContext, spread: Spread, now_ns: int) -> Preview:
    # The days of whoever saves it: nobody knows where it will be read.
    listing = lay_out(spread.view, spread.colours, None, time.localtime(now_ns / 1e9).tm_gmtoff, fold=False)
    rows: list[wording.Row] = []
    for item in listing.items:
        if sum(isinstance(row, CommitRow) for row in rows) >= _ROWS:
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
