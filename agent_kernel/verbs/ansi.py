"""Colours of a terminal, as ANSI codes: nothing has to be imported for them.

Text is cleaned, measured and cut first, and painted last, so that a code is never cut and takes no column.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from agent_kernel.verbs.text import cut

__all__ = [
    "SIGNS",
    "SPACE",
    "Piece",
    "Style",
    "colours_wanted",
    "cut_pieces",
    "is_terminal",
    "painted",
    "painted_all",
    "plain",
    "style_of",
]

Style: TypeAlias = Literal["", "strong", "quiet", "id", "ref", "added", "changed", "removed", "unsaved"]
Piece: TypeAlias = "tuple[str, Style]"

SPACE: Final[Piece] = (" ", "")
_CODES: Final[dict[Style, str]] = {
    "strong": "1",
    "quiet": "2",
    "id": "33",
    "ref": "36",
    "added": "32",
    "changed": "33",
    "removed": "31",
    "unsaved": "31",
}
SIGNS: Final[dict[str, Style]] = {
    "+": "added",
    "~": "changed",
    "-": "removed",
    "−": "removed",
    "=": "quiet",
    "!": "unsaved",
}


def colours_wanted(stream: object) -> bool:
    """Whether to paint what is written there: a terminal that takes colours, and nobody said NO_COLOR.

    Source: https://no-color.org
    """
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def is_terminal(stream: object) -> bool:
    """Whether what is written there goes to a terminal, and so to a screen of some width."""
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]  # what stands in for a stream may lack it
    except (AttributeError, ValueError):  # ValueError: it is closed
        return False


def painted(text: str, style: Style, *, colour: bool) -> str:
    """The text in its colour."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour and text and style else text


def painted_all(pieces: Iterable[Piece], *, colour: bool) -> str:
    """The pieces one after another."""
    return "".join(painted(text, style, colour=colour) for text, style in pieces)


def plain(pieces: Iterable[Piece]) -> str:
    """The same without colours, to measure it."""
    return "".join(text for text, _ in pieces)


def cut_pieces(pieces: Sequence[Piece], width: int, *, middle: bool = False) -> list[Piece]:
    """The pieces in at most `width` columns, cut as `cut` does it."""
    kept = cut(plain(pieces), width, middle=middle)
    found: list[Piece] = []
    for text, style in pieces:
        part, kept = kept[: len(text)], kept[len(text) :]
        found.append((part, style))
    return found


def style_of(line: str) -> Style:
    """The colour of a line that begins with the sign of what happened: `+ total float64`."""
    return SIGNS.get(line[:1], "") if line[1:2] == " " else ""
