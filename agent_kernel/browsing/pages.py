"""`cells`: the notebook's page that was stored with a commit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal

import msgspec

from agent_kernel.browsing.arguments import One
from agent_kernel.browsing.book import Book
from agent_kernel.browsing.wording import cleaned
from agent_kernel.errors import TooLargeError
from agent_kernel.verbs.showing import page_of

if TYPE_CHECKING:
    from agent_kernel.repository import Cell
    from agent_kernel.session.notebooks import NotebookCell

__all__ = ["NotebookPage", "PageCell", "cells"]

_MOST = 16 << 20  # characters of all cells


class PageCell(msgspec.Struct, frozen=True):
    """One cell of a notebook's page."""

    id: str
    type: Literal["code", "markdown", "raw"]
    source: str


class NotebookPage(msgspec.Struct, frozen=True):
    """A notebook as it was saved last before a commit. `at`: which cell it was that made the commit, if it is known."""

    name: str
    saved_ms: int
    at: int | None
    cells: tuple[PageCell, ...]


def cells(book: Book, args: One) -> NotebookPage | None:
    """The page with its sources as they were typed, for it is there to be put back; None: none was stored.

    Raises:
        TooLargeError: it is larger than one answer may be.
    """
    commit = book.resolve(args.id)[1]
    page = page_of(book.repo, commit)
    if page is None:
        return None
    size = sum(len(cell.source) for cell in page.cells)
    if size > _MOST:
        raise TooLargeError(f"the page of {cleaned(page.name)}", size, _MOST)
    return NotebookPage(
        cleaned(page.name),
        page.saved_ns // 1_000_000,
        _place(commit.cell, page.cells),
        tuple(PageCell(cleaned(cell.id), _type_of(cell.type), cell.source) for cell in page.cells),
    )


def _place(ran: Cell | None, cells: Sequence[NotebookCell]) -> int | None:
    if ran is None:
        return None
    by_id = (at for at, cell in enumerate(cells) if ran.id and cell.id == ran.id)
    # A kernel is not told the ids of notebooks of old formats, nor by every front end.
    by_code = (at for at, cell in enumerate(cells) if cell.type == "code" and cell.source == ran.source)
    return next(chain(by_id, by_code), None)


def _type_of(found: str) -> Literal["code", "markdown", "raw"]:
    return "markdown" if found == "markdown" else "raw" if found == "raw" else "code"
