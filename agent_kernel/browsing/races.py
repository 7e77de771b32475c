"""`race`: the candidates of a race side by side, which was picked, and what discarding them would delete."""

from __future__ import annotations

import msgspec

from agent_kernel.agents.journal import Journal
from agent_kernel.agents.racing.standings import data_of
from agent_kernel.agents.racing.told import told
from agent_kernel.browsing.arguments import OfRun
from agent_kernel.browsing.book import Book

__all__ = ["RaceCandidate", "RaceRow", "RaceStanding", "race"]


class RaceCandidate(msgspec.Struct, frozen=True):
    """One of them: the head of its column. `tip`: the last commit of its branch; "": it is gone."""

    number: int
    title: str
    best: bool
    done: bool
    tip: str


class RaceRow(msgspec.Struct, frozen=True):
    """A measure: for each candidate its lines, each of parts with their manner."""

    label: str
    cells: tuple[tuple[tuple[tuple[str, str], ...], ...], ...]


class RaceStanding(msgspec.Struct, frozen=True):
    """A race as it stands. `picked`: from which candidate the variables here go on; null where that was undone."""

    id: str
    short: str
    task: str
    start: str
    counts: str
    over: bool
    picked: int | None
    discarded: bool
    deletes: str  # what is gone for good with the branches, in a sentence
    notes: tuple[str, ...]
    candidates: tuple[RaceCandidate, ...]
    rows: tuple[RaceRow, ...]


def race(book: Book, args: OfRun) -> RaceStanding:
    """A race, as it stands for the session that the book is of.

    Raises:
        RunNotFoundError: there is none of this id.
    """
    head = book.spread().view.head.commit
    found = told(book.repo, Journal(book.repo.store), args.id, head)
    return msgspec.convert(data_of(found, book.repo), RaceStanding)
