"""`open`, `rows`, `locate`, `branches`: the list, what stands around it, and how it stays in a saved notebook."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from agent_kernel.commands.describe import Table, by_name, grown, ranks_of, table_lines
from agent_kernel.commands.history import reachable_commits
from agent_kernel.queries import HISTORY
from agent_kernel.queries.listing import Fold, Item, Listing, lay_out, make_wait_row, run_row, wait_row
from agent_kernel.queries.reader import Listed, Nothing, Opened, Query, QueryContext, Spread, store_id
from agent_kernel.queries.reader import Located as Sought
from agent_kernel.queries.wording import (
    Author,
    Branch,
    CommitRow,
    DayRow,
    FoldRow,
    Graph,
    Head,
    Located,
    Opening,
    Page,
    Ref,
    Row,
    State,
    chips_of,
    commit_text,
    counts_of,
    node_of,
    prompts,
    select_changed,
    shorten_line,
    step_called,
    subject_of,
    why,
)
from agent_kernel.repository import Commit, Kind, ObjectId, hex_of, short
from agent_kernel.repository.commits import decode_commit
from agent_kernel.session.history import describe_kind, error_kind, prompt
from agent_kernel.session.provenance import read_notebook
from agent_kernel.text import cut, duration, exact_time, pad, plural, size_text, width_of

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["branches", "locate", "open_", "represent_history", "represent_in", "rows"]


# -- what the rows of a list say


def _row_of(context: QueryContext, listing: Listing, item: Item, spread: Spread) -> Row:
    """One row."""
    graph = listing.graph(item, spread.colours)
    if item.record is not None:
        return _commit_row(context, item, item.record.id, spread.refs.get(item.record.id, ()), graph)
    if item.stopped:
        return make_wait_row(context, item.stopped, graph)
    if item.waits:
        return wait_row(context, item.waits, spread.waiting[item.waits], graph, depth=int(item.fold is not None))
    if item.fold is None:
        return DayRow(item.day, graph, item.text)
    if item.fold.why == "run":
        return run_row(context, item.fold, spread, graph)
    return _fold_row(context.repo, item.fold, graph)


def _commit_row(context: QueryContext, item: Item, id: ObjectId, refs: tuple[Ref, ...], graph: Graph) -> CommitRow:
    commit = context.repo.commit_at(id)
    subject, code = subject_of(commit)
    chips, more = chips_of((commit.changed, commit.unsaved), by_name(ranks_of(context.repo, commit)))
    return CommitRow(
        id=hex_of(id),
        short=short(id),
        depth=_depth(item, commit),
        prompt=f".{commit.step}" if item.fold is not None and commit.run and commit.step else prompt(commit),
        subject=subject,
        is_code=code,
        author=context.author(commit),
        node=node_of(commit),
        run=commit.run,
        why=why(commit),
        refs=refs,
        chips=chips,
        more=more,
        counts=counts_of((commit.changed, commit.unsaved)),
        took_s=commit.cell.duration_s if commit.cell is not None else None,
        time_ms=commit.time_ns // 1_000_000,
        graph=graph,
        called=step_called(commit),
        grew=grown(context.repo, commit, select_changed(chips)),
    )


def _depth(item: Item, commit: Commit) -> int:
    """How deep it stands: a step of a sub-agent stands below those of the run that it works for."""
    if item.fold is None:
        return 0
    return 2 if item.fold.run and commit.run != item.fold.run else 1


def _fold_row(repo: Repository, fold: Fold, graph: Graph) -> FoldRow:
    commits = [repo.commit_at(record.id) for record in fold.members]
    nothing = fold.why == "nothing"
    return FoldRow(
        id=fold.id,
        why="nothing" if nothing else "repeated",
        n=len(commits),
        matching=fold.matching,
        prompt=prompts(commits[0], commits[-1]),
        subject=f"{plural(len(commits), 'cell')} that changed nothing" if nothing else subject_of(commits[0])[0],
        unfolded=fold.is_open,
        took_s=sum(commit.cell.duration_s for commit in commits if commit.cell is not None),
        time_ms=commits[0].time_ns // 1_000_000,
        graph=graph,
    )


_MOST_OPENING = 46_000  # bytes of the rows that `open` sends; what stands around them takes less than 4,000
_MOST_FOLDED = 2_000  # commits of closed folds that are read at once


def open_(context: QueryContext, args: Opened) -> Opening:
    """Everything that is shown at first. Where rows are long there are fewer of them, so that it stays small."""
    spread = context.history_now()
    page = _page(context, args, 0, args.n, most_bytes=_MOST_OPENING)
    return Opening(
        _title_of(context, spread),
        _head_of(context, spread),
        State(page.version, store_id(context.repo)),
        page,
        undone=tuple(sorted(spread.view.undone)),
    )


def rows(context: QueryContext, args: Listed) -> Page:
    """Some rows."""
    return _page(context, args, args.start, args.n)


def locate(context: QueryContext, args: Sought) -> Located:
    """The row that a commit stands in."""
    id, _ = context.resolve(args.id)
    _, listing = context.list_rows(args)
    return Located(listing.rows.get(id))


def _page(context: QueryContext, query: Query, start: int, n: int, most_bytes: int | None = None) -> Page:
    with context.lock:
        spread, listing = context.list_rows(query)
        found: list[Row] = []
        size = 0
        items = listing.items[start : start + n]
        _fetch(context, items)
        for item in items:
            row = _row_of(context, listing, item, spread)
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


def _head_of(context: QueryContext, spread: Spread) -> Head:
    """Where the session is."""
    head = spread.view.head
    lane = spread.colours.branches.get(head.branch) if head.branch is not None else None
    branch = None if head.branch is None else shorten_line(head.branch, 200)
    if head.commit is None:
        return Head(branch, None, "", "", lane)
    commit = context.repo.commit_at(head.commit)
    return Head(branch, hex_of(head.commit), prompt(commit), commit_text(commit), lane)


def _title_of(context: QueryContext, spread: Spread) -> str:
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
    rows: tuple[Row, ...]


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
    rows: list[Row] = []
    for item in listing.items:
        if sum(isinstance(row, CommitRow) for row in rows) >= most:
            break
        row = _row_of(context, listing, item, spread)
        if isinstance(row, CommitRow) and item.record is not None:
            row = _without_code(row, context.repo.commit_at(item.record.id))
        rows.append(row)
    head = _head_of(context, spread)
    at = spread.view.head.commit
    if at is not None and not head.prompt:
        head = msgspec.structs.replace(head, label=f"“{describe_kind(context.repo.commit_at(at))}”")
    title = _title_of(context, spread)
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
