"""`outputs` and `cells`: what a cell showed, and the page that it stood on. Text is masked; pictures come as data, so many of them as fit into one answer.

HTML and SVG are handed on as the text that they are, masked too: whoever shows them does so in a frame without scripts.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agent_kernel.browsing.questions import One
from agent_kernel.browsing.reader import Book
from agent_kernel.browsing.wording import cleaned
from agent_kernel.errors import TooLargeError
from agent_kernel.repository import Commit, Face, Output
from agent_kernel.verbs.showing import ShownOutputs, outputs_of, page_of

if TYPE_CHECKING:
    from agent_kernel.repository import Cell
    from agent_kernel.session.notebooks import NotebookCell

__all__ = ["NotebookPage", "PageCell", "Shown", "cells", "outputs", "picture_of"]


Kind = Literal["text", "error", "image", "html", "svg", "json", "gap"]

_MOST_BYTES: Final = 2_000_000  # of one answer
_MOST_TEXT: Final = 500_000  # characters of one output
_MOST_OUTPUTS: Final = 500
PICTURE_BYTES: Final = 1_000_000
_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
# In the order in which one of them stands for the others.
_FACES: Final[dict[str, Kind]] = {
    **dict.fromkeys(_PICTURES, "image"),
    "text/html": "html",
    "image/svg+xml": "svg",
    "application/json": "json",
    "text/markdown": "text",
    "text/latex": "text",
    "text/plain": "text",
}


class Shown(msgspec.Struct, frozen=True):
    """One output. Without text and picture it was left out, for its size."""

    kind: Kind
    text: str
    uri: str
    size: int
    note: str


class _Room:
    """What is left of an answer."""

    def __init__(self) -> None:
        self.bytes = _MOST_BYTES

    def take(self, size: int) -> bool:
        fits = size <= self.bytes
        self.bytes -= size if fits else 0
        return fits


def outputs(book: Book, args: One) -> tuple[Shown, ...]:
    """All that the commit's cell showed, in order."""
    found = outputs_of(book.repo, book.resolve(args.id)[1])
    if found is None:
        return ()
    room = _Room()
    shown = [_shown(found, output, room) for output in found.outputs.outputs[:_MOST_OUTPUTS]]
    rest = len(found.outputs.outputs) - len(shown)
    return (*shown, *([Shown("gap", "", "", 0, f"{rest:,} more outputs")] if rest else []))


def _shown(found: ShownOutputs, output: Output, room: _Room) -> Shown:
    note = _note(output)
    if output.kind == "gap":
        return Shown("gap", "", "", output.size, "left out when it was shown: too large")
    if output.kind == "stream":
        return _text("text", found.clean(output.text), room, note)
    if output.kind == "error":
        return _text("error", found.clean("\n".join(output.traceback) or f"{output.name}: {output.text}"), room, note)
    face = _best(output)
    if face is None:
        told = ", ".join(f"{cleaned(one.mime)}" for one in output.faces)
        return Shown(
            "gap", "", "", sum(one.size for one in output.faces), f"{told} cannot be shown here" if told else ""
        )
    kind = _FACES[face.mime]
    if not face.is_kept:
        return Shown(kind, "", "", face.size, "left out when it was shown: too large")
    if kind != "image":
        return _text(kind, found.content(face), room, note)
    uri = _uri(found, face) if face.size * 4 // 3 <= room.bytes else ""
    if not uri or not room.take(len(uri)):
        return Shown("image", _words(found, output), "", face.size, "too large to be shown here")
    return Shown("image", _words(found, output), uri, face.size, note)


def _text(kind: Kind, text: str, room: _Room, note: str) -> Shown:
    size = len(text.encode("utf-8", "replace"))
    whole = len(text) <= _MOST_TEXT
    if kind in ("html", "svg") and not whole:  # half of it would be something else
        return Shown(kind, "", "", size, "too large to be shown here")
    shown = text if whole else f"{text[:_MOST_TEXT]}\n…"
    if not room.take(len(shown)):
        return Shown(kind, "", "", size, "too large to be shown here")
    return Shown(kind, shown, "", size, note if whole else "the beginning of a longer text")


def _best(output: Output) -> Face | None:
    """The face that stands for the output: of those that were kept, if one was."""
    known = [face for face in output.faces if face.mime in _FACES]
    order = list(_FACES)
    return min(known, key=lambda face: (not face.is_kept, order.index(face.mime)), default=None)


def _words(found: ShownOutputs, output: Output) -> str:
    """What the object says of itself in plain text, to stand for its picture."""
    plain = next((face for face in output.faces if face.mime == "text/plain"), None)
    return cleaned(found.content(plain), 300) if plain is not None else ""


def _uri(found: ShownOutputs, face: Face) -> str:
    content = found.read(face)
    return "" if content is None else f"data:{face.mime};base64,{b64encode(content).decode()}"


def _note(output: Output) -> str:
    if output.kind == "update_display_data":
        return "in place of what an earlier cell showed"
    if output.under is not None:
        return f"under [{output.under}]"
    if output.widget:
        return "in a widget"
    return "stderr" if output.kind == "stream" and output.name == "stderr" else ""


def picture_of(book: Book, commit: Commit) -> str | None:
    """The last PNG that the commit's cell showed, if it is not large."""
    found = outputs_of(book.repo, commit)
    if found is None:
        return None
    faces = (face for output in reversed(found.outputs.outputs) for face in output.faces)
    kept = (face for face in faces if face.mime == "image/png" and face.is_kept and face.size <= PICTURE_BYTES)
    face = next(kept, None)
    return None if face is None else _uri(found, face)


# -- `cells`: the notebook's page that was stored with a commit

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
