"""The history as it stays in a saved notebook: read without a kernel, on a web page, on paper, in a diff.

It carries names, types and sizes, and what people wrote as messages. It carries no code: the cell may have been deleted
since, and a notebook is given to others. So "What ran" says what kind of thing it was.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent_kernel.browsing.listing import listing_of
from agent_kernel.browsing.lists import head_of, row_of, title_of
from agent_kernel.browsing.mime import HISTORY
from agent_kernel.browsing.reader import Book, Spread, store_id
from agent_kernel.browsing.wording import Author, CommitRow, Head, Row
from agent_kernel.repository import Commit, ObjectId
from agent_kernel.session.labels import error_kind, what_ran
from agent_kernel.verbs.output import Table, table_lines
from agent_kernel.verbs.text import cut, duration, exact_time, pad, plural, size_text, width_of

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["faces", "faces_of", "store_id"]

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
    rows: tuple[Row, ...]


def faces(repo: Repository, session_id: str = "", *, rows: int = ROWS, now_ns: int | None = None) -> dict[str, Any]:
    """The static faces by MIME type: a table as HTML and as plain text, and our own as data."""
    return faces_of(Book(repo, session_id), rows=rows, now_ns=now_ns)


def faces_of(book: Book, *, rows: int = ROWS, now_ns: int | None = None) -> dict[str, Any]:
    """The same, from what is read already."""
    spread = book.spread()
    made = _preview(book, spread, rows, time.time_ns() if now_ns is None else now_ns)
    commits = [row for row in made.rows if isinstance(row, CommitRow)]
    caption = _caption(made, len(commits))
    table = [_cells(book, row) for row in commits]
    return {
        HISTORY: msgspec.json.decode(msgspec.json.encode(made)),
        "text/html": _html(caption, table),
        "text/plain": "\n".join(line.rstrip() for line in [caption, *_plain(table)]),
    }


def _preview(book: Book, spread: Spread, most: int, now_ns: int) -> Preview:
    # The days of whoever saves it: nobody knows where it will be read.
    listing = listing_of(spread.view, spread.colours, None, time.localtime(now_ns / 1e9).tm_gmtoff, fold=False)
    rows: list[Row] = []
    for item in listing.items:
        if sum(isinstance(row, CommitRow) for row in rows) >= most:
            break
        row = row_of(book, listing, item, spread)
        if isinstance(row, CommitRow) and item.record is not None:
            row = _without_code(row, book.repo.commit_at(item.record.id))
        rows.append(row)
    head = head_of(book, spread)
    at = spread.view.head.commit
    if at is not None and not head.prompt:
        head = msgspec.structs.replace(head, label=f"“{what_ran(book.repo.commit_at(at))}”")
    title = title_of(book, spread)
    return Preview(1, store_id(book.repo), title, now_ns // 1_000_000, head, len(spread.view.order), tuple(rows))


def _without_code(row: CommitRow, commit: Commit) -> CommitRow:
    author = row.author if row.author.kind == "agent" else Author("", "person", False)
    return msgspec.structs.replace(row, subject=what_ran(commit), is_code=False, why=error_kind(commit), author=author)


def _caption(made: Preview, count: int) -> str:
    saved = exact_time(made.saved_ms * 1_000_000, time.localtime(made.saved_ms / 1e3).tm_gmtoff)
    some = f"Newest {count} of {made.commits:,} commits" if count < made.commits else plural(count, "commit")
    return (
        f"History of {made.title}, saved {saved:%a} {saved.day} {saved:%b %Y, %H:%M}. {some}. "
        "Open it with a kernel to compare or check out."
    )


def _cells(book: Book, row: CommitRow) -> tuple[str, ...]:
    commit = book.repo.commit_at(ObjectId(bytes.fromhex(row.id) + b"\x01"))
    when = exact_time(commit.time_ns, commit.utc_offset_s)
    refs = ", ".join(f"{ref.name} (HEAD)" if ref.head and ref.kind == "branch" else ref.name for ref in row.refs)
    said = row.subject if not row.why else f"{row.subject}, {row.why}"
    took = duration(row.took_s) if row.took_s is not None else ""
    return f"{_graph(row)} {refs}".rstrip(), row.prompt, said, _chips(row), took, f"{when.day} {when:%b %H:%M}"


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
    said = f'<p style="margin:0;padding:4px 10px;font:inherit;{_MUTED}">{escape(caption)}</p>'
    return f'<div class="agent-kernel-history" style="font-size:13px">{said}{table if rows else ""}</div>'


def _style(at: int) -> str:
    font = f";{_FONT};white-space:pre" if at in _CODE else ""
    numbers = f";font-variant-numeric:tabular-nums;{_MUTED}" if at in _RIGHT else ""
    return f"{_CELL};{_aligned(at)}{font}{numbers}"


def _aligned(at: int) -> str:
    return f"text-align:{'right' if at in _RIGHT else 'left'}"


def _plain(rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    narrow = [(*row[:2], cut(row[2], 40), cut(row[3], 44), *row[4:]) for row in rows]
    wide = max(width_of(row[0]) for row in narrow)
    return table_lines(Table(_COLUMNS, tuple((pad(row[0], wide), *row[1:]) for row in narrow), right=_RIGHT), None)
