"""`open`, `rows`, `locate`, `branches`: the list, and what stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

import msgspec

from agent_kernel.browsing.listing import (
    Fold,
    Item,
    Listing,
    changed_among,
    chips_of,
    counts_of,
    run_row,
    stopped_row,
    wait_row,
)
from agent_kernel.browsing.questions import Listed, Nothing, Opened
from agent_kernel.browsing.questions import Located as Sought
from agent_kernel.browsing.reader import Book, Query, Spread, store_id
from agent_kernel.browsing.wording import (
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
    called,
    cleaned,
    prompts,
    step_called,
    subject_of,
)
from agent_kernel.repository import Commit, Kind, ObjectId, hex_of, short
from agent_kernel.repository.commits import decode_commit
from agent_kernel.session.labels import prompt, shown
from agent_kernel.verbs.describe import by_name, grown, ranks_of
from agent_kernel.verbs.showing import page_of
from agent_kernel.verbs.text import plural
from agent_kernel.verbs.timeline import reached

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["branches", "locate", "node_of", "open_", "row_of", "rows", "why"]


# -- what the rows of a list say


def row_of(book: Book, listing: Listing, item: Item, spread: Spread) -> Row:
    """One row."""
    graph = listing.graph(item, spread.colours)
    if item.record is not None:
        return _commit_row(book, item, item.record.id, spread.refs.get(item.record.id, ()), graph)
    if item.stopped:
        return stopped_row(book, item.stopped, graph)
    if item.waits:
        return wait_row(book, item.waits, spread.waiting[item.waits], graph, depth=int(item.fold is not None))
    if item.fold is None:
        return DayRow(item.day, graph, item.text)
    if item.fold.why == "run":
        return run_row(book, item.fold, spread, graph)
    return _fold_row(book.repo, item.fold, graph)


def _commit_row(book: Book, item: Item, id: ObjectId, refs: tuple[Ref, ...], graph: Graph) -> CommitRow:
    commit = book.repo.commit_at(id)
    subject, code = subject_of(commit)
    chips, more = chips_of((commit.changed, commit.unsaved), by_name(ranks_of(book.repo, commit)))
    return CommitRow(
        id=hex_of(id),
        short=short(id),
        depth=_depth(item, commit),
        prompt=f".{commit.step}" if item.fold is not None and commit.run and commit.step else prompt(commit),
        subject=subject,
        is_code=code,
        author=book.author(commit),
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
        grew=grown(book.repo, commit, changed_among(chips)),
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
    cell = shown(commit).cell
    error = cell.error if cell is not None else ""
    return "interrupted" if commit.status == "interrupted" else cleaned(error, 200) or "failed"


_MOST_OPENING = 46_000  # bytes of the rows that `open` sends; what stands around them takes less than 4,000
_MOST_FOLDED = 2_000  # commits of closed folds that are read at once


def open_(book: Book, args: Opened) -> Opening:
    """Everything that is shown at first. Where rows are long there are fewer of them, so that it stays small."""
    spread = book.spread()
    page = _page(book, args, 0, args.n, most_bytes=_MOST_OPENING)
    return Opening(
        title_of(book, spread),
        head_of(book, spread),
        State(page.version, store_id(book.repo)),
        page,
        undone=tuple(sorted(spread.view.undone)),
    )


def rows(book: Book, args: Listed) -> Page:
    """Some rows."""
    return _page(book, args, args.start, args.n)


def locate(book: Book, args: Sought) -> Located:
    """The row that a commit stands in."""
    id, _ = book.resolve(args.id)
    _, listing = book.listing(args)
    return Located(listing.rows.get(id))


def _page(book: Book, query: Query, start: int, n: int, most_bytes: int | None = None) -> Page:
    with book.lock:
        spread, listing = book.listing(query)
        found: list[Row] = []
        size = 0
        items = listing.items[start : start + n]
        _fetch(book, items)
        for item in items:
            row = row_of(book, listing, item, spread)
            if most_bytes is not None:
                size += len(msgspec.json.encode(row)) + 1
                if size > most_bytes and found:
                    break
            found.append(row)
        view = spread.view
        return Page(view.version, start, len(listing.items), len(view.order), listing.matches, tuple(found))


def _fetch(book: Book, items: Sequence[Item]) -> None:
    """Read what the rows are about at once: a round trip for each would take most of the time."""
    single = [item.record.id for item in items if item.record is not None]
    folded = [record.id for item in items if item.record is None and item.fold for record in item.fold.members]
    book.repo.objects.load_many(Kind.COMMIT, [*single, *folded[:_MOST_FOLDED]], decode_commit)


def head_of(book: Book, spread: Spread) -> Head:
    """Where the session is."""
    head = spread.view.head
    lane = spread.colours.branches.get(head.branch) if head.branch is not None else None
    branch = None if head.branch is None else cleaned(head.branch, 200)
    if head.commit is None:
        return Head(branch, None, "", "", lane)
    commit = book.repo.commit_at(head.commit)
    return Head(branch, hex_of(head.commit), prompt(commit), called(commit), lane)


def title_of(book: Book, spread: Spread) -> str:
    """What the history is of: the notebook, as HEAD's commit knows it, or the store's folder."""
    head = spread.view.head.commit
    page = page_of(book.repo, book.repo.commit_at(head)) if head is not None else None
    if page is not None and page.name:
        return cleaned(page.name)
    return cleaned(PurePath(unquote(book.repo.store.url.partition("://")[2])).name or "memory")


def branches(book: Book, args: Nothing) -> tuple[Branch, ...]:
    """The branches of people: the one HEAD is on first, then those that moved last."""
    spread = book.spread()
    view = spread.view
    named = [one for one in view.branches.items() if one[0] == view.head.branch or one[0] not in spread.asides]
    ordered = sorted(named, key=lambda branch: (view.places[branch[1]], branch[0]))
    ordered.sort(key=lambda branch: branch[0] != view.head.branch)
    return tuple(
        Branch(
            name=cleaned(name, 200),
            id=hex_of(at),
            lane=spread.colours.branches[name],
            here=name == view.head.branch,
            note=_note(spread, name),
            holder=_holder(book, name),
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
    own = len(reached(view, [view.branches[name]], reached(view, [view.branches[into]])))
    return f"{plural(own, 'commit')} of its own" if own else f"merged into {cleaned(into, 200)}"


def _holder(book: Book, name: str) -> str:
    holder = book.repo.lease_of(name)
    if holder is None or not holder.is_alive(book.repo.store) or holder.session == book.session_id:
        return ""
    return cleaned(str(holder), 200)
