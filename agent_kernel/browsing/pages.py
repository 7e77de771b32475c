"""`cells`: the notebook's page that was stored with a commit."""

from __future__ import annotations

from typing import Literal

import msgspec

from agent_kernel.browsing.arguments import One
from agent_kernel.browsing.book import Book
from agent_kernel.browsing.wording import cleaned
from agent_kernel.errors import TooLargeError
from agent_kernel.verbs.pages import page_of

__all__ = ["NotebookPage", "PageCell", "cells"]

_MOST = 16 << 20  # characters of all cells


class PageCell(msgspec.Struct, frozen=True):
    """One cell of a notebook's page."""

    id: str
    type: Literal["code", "markdown", "raw"]
    source: str


class NotebookPage(msgspec.Struct, frozen=True):
    """A notebook as it was saved last before a commit."""

    name: str
    saved_ms: int
    cells: tuple[PageCell, ...]


def cells(book: Book, args: One) -> NotebookPage | None:
    """The page with its sources as they were typed, for it is there to be put back; None: none was stored.

    Raises:
        TooLargeError: it is larger than one answer may be.
    """
    page = page_of(book.repo, book.resolve(args.id)[1])
    if page is None:
        return None
    size = sum(len(cell.source) for cell in page.cells)
    if size > _MOST:
        raise TooLargeError(f"the page of {cleaned(page.name)}", size, _MOST)
    return NotebookPage(
        cleaned(page.name),
        page.saved_ns // 1_000_000,
        tuple(PageCell(cleaned(cell.id), _type_of(cell.type), cell.source) for cell in page.cells),
    )


def _type_of(found: str) -> Literal["code", "markdown", "raw"]:
    return "markdown" if found == "markdown" else "raw" if found == "raw" else "code"
