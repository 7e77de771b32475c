"""`code`: what a cell's code says that its last run did not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from agent_kernel.browsing.arguments import At
from agent_kernel.browsing.book import Book
from agent_kernel.browsing.lines import DiffLine, diff_lines
from agent_kernel.browsing.matching import Budget, words_of
from agent_kernel.browsing.wording import called
from agent_kernel.repository import Commit, ObjectId
from agent_kernel.session.labels import shown
from agent_kernel.verbs.timeline import Record

__all__ = ["CodeDiff", "code", "last_run", "source_of"]

_MOST_LOOKED_AT = 60  # earlier cells, where a front end gives cells no ids
_ALIKE = 0.6
_BEGINNING = 2_000  # characters by which they are compared
_LONGEST = 200_000  # characters of a cell


class CodeDiff(msgspec.Struct, frozen=True):
    """A cell's code against another run."""

    about: str
    lines: tuple[DiffLine, ...]


def code(book: Book, args: At) -> CodeDiff:
    """The code against its last run, or against that of another commit. A cell that never ran before is all new."""
    id, commit = book.resolve(args.id)
    if args.against:
        before = book.resolve(args.against)[1]
        return _diff(f"{_cell(commit)} against {called(before)}", source_of(before), source_of(commit), Budget())
    if commit.cell is None:
        return CodeDiff("No cell made this commit", ())
    budget = Budget()
    last = last_run(book, id, commit, budget)
    if last is None:
        return _diff(f"{_cell(commit)}, its first run", "", source_of(commit), budget)
    return _diff(f"{_cell(commit)} against its last run, {called(last)}", source_of(last), source_of(commit), budget)


def _diff(about: str, old: str, new: str, budget: Budget) -> CodeDiff:
    return CodeDiff(f"{about}: the same code" if old == new else about, diff_lines(old, new, budget))


def source_of(commit: Commit) -> str:
    """The code of the commit's cell as it may be shown."""
    cell = shown(commit).cell
    return cell.source[:_LONGEST] if cell is not None else ""


def last_run(book: Book, id: ObjectId, commit: Commit, budget: Budget) -> Commit | None:
    """The run of the same cell before this one: by the cell's id, else by its number or its text; None: there is none."""
    if commit.cell is None:
        return None
    earlier = _line_before(book, id)
    if not commit.cell.id:
        return _most_alike(book, earlier, commit, budget)
    mark = hash(commit.cell.id)
    for record in earlier:
        if record.cell == mark:
            return book.repo.commit_at(record.id)
    return None


def _line_before(book: Book, id: ObjectId) -> Iterator[Record]:
    """The commits before this one on its line."""
    view = book.spread().view
    while id in view.places:
        parents = view.order[view.places[id]].parents
        if not parents:
            return
        id = parents[0]
        yield view.order[view.places[id]]


def _most_alike(book: Book, earlier: Iterator[Record], commit: Commit, budget: Budget) -> Commit | None:
    """By their words. Where the budget ends before all were looked at, the best that was found by then."""
    words = _words(commit)
    best, share = None, _ALIKE
    cells = (found for record in earlier if (found := book.repo.commit_at(record.id)).cell is not None)
    for found in islice(cells, _MOST_LOOKED_AT):
        others = _words(found)
        if others == words:
            return found
        if not budget.allows_a_look(others, words):
            break
        matcher = budget.words(others, words)
        if matcher.quick_ratio() <= share:
            continue
        alike = matcher.ratio()
        if alike > share:
            best, share = found, alike
        if found.cell is not None and commit.cell is not None and found.cell.number == commit.cell.number is not None:
            return found if alike > _ALIKE else best
    return best


def _words(commit: Commit) -> list[str]:
    return [word for word in words_of(source_of(commit)[:_BEGINNING]) if not word.isspace()]


def _cell(commit: Commit) -> str:
    return f"Cell {called(commit)}" if commit.cell is not None else called(commit)
