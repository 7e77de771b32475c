"""`open`, `rows`, `locate`, `branches`: the list, and what stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from urllib.parse import unquote

import msgspec

from agent_kernel.browsing.answers import Branch, Head, Located, Opening, Page, Row, State
from agent_kernel.browsing.arguments import Listed, Nothing, Opened
from agent_kernel.browsing.arguments import Located as Sought
from agent_kernel.browsing.book import Book, Query, Spread, store_id
from agent_kernel.browsing.listing import Item
from agent_kernel.browsing.rows import row_of
from agent_kernel.browsing.wording import called, cleaned
from agent_kernel.repository import Kind, hex_of
from agent_kernel.repository.commits import decode_commit
from agent_kernel.session.labels import prompt
from agent_kernel.verbs.showing import page_of
from agent_kernel.verbs.text import plural
from agent_kernel.verbs.timeline import reached

__all__ = ["branches", "locate", "open_", "rows"]

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
