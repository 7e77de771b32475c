"""What a verb answers: one value that reads as plain text, as JSON and as static HTML.

A result is built of blocks (a line, code, a table), and each face is drawn from the blocks here and nowhere else.
All text in a block is already clean of control characters; HTML escapes everything and holds no script.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from agent_kernel.text import (
    clean,
    clean_lines,
    clock,
    cut,
    duration,
    exact_time,
    list_names,
    money,
    pad,
    plural,
    shorten_url,
    size_text,
    width_of,
)

if TYPE_CHECKING:
    from agent_kernel.errors import MergeConflictError
    from agent_kernel.repository import Unsaved

__all__ = [
    "SIGNS",
    "SPACE",
    "Block",
    "Code",
    "Line",
    "Lines",
    "Opens",
    "Piece",
    "Result",
    "Style",
    "Table",
    "clean",
    "clean_lines",
    "clock",
    "colours_wanted",
    "cut",
    "cut_pieces",
    "duration",
    "exact_time",
    "is_terminal",
    "list_names",
    "money",
    "pad",
    "paint",
    "paint_all",
    "plain",
    "plural",
    "shorten_url",
    "size_text",
    "style_of",
    "width_of",
]


# -- how times, code and names read in one line of plain text
#
# Everything shown comes from a store that someone else may have written: what came out of `clean` or `clean_lines` can
# neither move a terminal's cursor nor turn its text around.


# -- colours of a terminal, as ANSI codes: nothing has to be imported for them
#
# Text is cleaned, measured and cut first, and painted last, so that a code is never cut and takes no column.

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


def paint(text: str, style: Style, *, colour: bool) -> str:
    """Paint the text in its colour."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour and text and style else text


def paint_all(pieces: Iterable[Piece], *, colour: bool) -> str:
    """Paint the pieces one after another."""
    return "".join(paint(text, style, colour=colour) for text, style in pieces)


def plain(pieces: Iterable[Piece]) -> str:
    """The same without colours, to measure it."""
    return "".join(text for text, _ in pieces)


def cut_pieces(pieces: Sequence[Piece], width: int, *, middle: bool = False) -> list[Piece]:
    """The pieces in at most `width` columns, cut as `cut` does it."""
    rest = cut(plain(pieces), width, middle=middle)
    found: list[Piece] = []
    for text, style in pieces:
        part, rest = rest[: len(text)], rest[len(text) :]
        found.append((part, style))
    return found


def style_of(line: str) -> Style:
    """The colour of a line that begins with the sign of what happened: `+ total float64`."""
    return SIGNS.get(line[:1], "") if line[1:2] == " " else ""


Json: TypeAlias = "bool | int | float | str | Sequence[Json] | dict[str, Json] | None"


@dataclass(frozen=True)
class Line:
    """One line of prose."""

    text: str
    strong: bool = False
    style: Style = ""  # of its first `styled` characters; a terminal alone shows it
    styled: int | None = None  # None: all of them


@dataclass(frozen=True)
class Code:
    """Some lines as they were typed."""

    text: str
    signed: bool = False  # each line begins with the sign of what happened, and a terminal paints it


@dataclass(frozen=True)
class Table:
    """Rows under column titles; an empty title keeps a column without a heading in plain text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = field(default=frozenset())  # columns of numbers
    flexible: int = -1  # the column that gives way where the terminal is narrow


Block: TypeAlias = Line | Code | Table
_UNIT: Final = re.compile(r"(\d) ([kMGT]?B|m?s|min|h)\b")


@dataclass(frozen=True)
class Opens:
    """Where a history panel that shows an answer stands open at first. Commits go by their full ids."""

    search: str = ""  # the list, searched for this
    commit: str = ""  # the details of a commit
    compared: tuple[str, str] | None = None  # two commits, the older one first
    name: str = ""  # the variable of which the comparison shows more
    conflict: MergeConflictError | None = None  # what both sides of a merge changed, to be chosen from


class Result:
    """One answer, three faces. A subclass gives its blocks and its JSON."""

    @property
    def ok(self) -> bool:
        """False where a program that asked should take the answer as a failure."""
        return True

    @property
    def unsaved(self) -> Sequence[Unsaved]:
        """What the answer tells of that is not saved or could not be loaded: the next cell need not say it again."""
        return ()

    @property
    def opens(self) -> Opens | None:
        """Where a panel of the history shows the same and more; None: no panel does."""
        return None

    @property
    def is_live(self) -> bool:
        """Whether it changes while someone looks at it; `renew` gives it as it is then."""
        return False

    def renew(self) -> Result:
        """The same question, answered now."""
        return self

    def outline(self) -> Result:
        """The same as it stays in a notebook's file: no code, and of variables their names, types and sizes."""
        return self

    def blocks(self) -> Sequence[Block]:
        """What to show, from top to bottom."""
        raise NotImplementedError

    def to_json(self) -> Json:
        """The same for programs: plain lists, dicts, strings and numbers."""
        raise NotImplementedError

    def to_text(self, width: int | None = None, *, colour: bool = False) -> str:
        """Text without a final line end.

        Args:
            width: columns of the terminal; None: nothing is cut.
            colour: paint it with ANSI codes; without them it is the same text.
        """
        return "\n".join(line for block in self.blocks() for line in _text_lines(block, width, colour=colour))

    def to_html(self) -> str:
        """Static HTML: no scripts, no styles that leave the element, everything escaped."""
        return f'<div class="agent-kernel">{"".join(map(_html, self.blocks()))}</div>'

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        return {"text/plain": self.to_text(100), "text/html": self.to_html()}


@dataclass(frozen=True)
class Lines(Result):
    """A few lines, where there is nothing to tabulate."""

    lines: tuple[str, ...]
    facts: dict[str, Json] = field(default_factory=dict[str, Json])

    def blocks(self) -> Sequence[Block]:
        return [Line(line) for line in self.lines]

    def to_json(self) -> Json:
        return self.facts or {"message": "\n".join(self.lines)}


def _text_lines(block: Block, width: int | None, *, colour: bool) -> list[str]:
    if isinstance(block, Line):
        return [_paint_line(block, colour=colour)]
    if isinstance(block, Code):
        lines = [line.rstrip() for line in block.text.splitlines()]
        return [f"    {paint(line, style_of(line) if block.signed else '', colour=colour)}".rstrip() for line in lines]
    return [line.rstrip() for line in table_lines(block, width)]


def _paint_line(line: Line, *, colour: bool) -> str:
    text = line.text.rstrip()
    at = len(text) if line.styled is None else line.styled
    style: Style = "strong" if line.strong and not line.style else line.style
    return paint(text[:at], style, colour=colour) + text[at:]


def table_lines(table: Table, width: int | None) -> list[str]:
    """The table in aligned columns, two spaces apart; only the flexible column is ever cut."""
    titled = any(table.columns)
    rows = [table.columns, *table.rows] if titled else list(table.rows)
    if not rows:
        return []
    widths = [max(width_of(row[at]) for row in rows) for at in range(len(table.columns))]
    if width is not None and table.flexible >= 0:
        over = sum(widths) + 2 * (len(widths) - 1) - width
        widths[table.flexible] = max(12, widths[table.flexible] - max(0, over))
    return ["  ".join(_cells(row, widths, table)) for row in rows]


def _cells(row: tuple[str, ...], widths: list[int], table: Table) -> list[str]:
    return [
        pad(cut(text, widths[at], middle=True) if at == table.flexible else text, widths[at], right=at in table.right)
        for at, text in enumerate(row)
    ]


def _html(block: Block) -> str:
    if isinstance(block, Line):
        text = escape(block.text) or "&nbsp;"
        return f"<div>{f'<strong>{text}</strong>' if block.strong else text}</div>"
    if isinstance(block, Code):
        return f"<pre>{escape(block.text)}</pre>"
    head = "".join(f'<th style="text-align:left">{escape(title)}</th>' for title in block.columns)
    head = f"<thead><tr>{head}</tr></thead>" if any(block.columns) else ""
    body = "".join(f"<tr>{_html_cells(row, block)}</tr>" for row in block.rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _stiff(column: int, table: Table) -> str:
    """Where one column gives way, the others stay on one line. Numbers always do."""
    return ";white-space:nowrap" if column in table.right or table.flexible not in (-1, column) else ""


def _whole(text: str) -> str:
    """Number and unit on one line."""
    return _UNIT.sub(r"\1&nbsp;\2", text)


def _html_cells(row: tuple[str, ...], table: Table) -> str:
    return "".join(
        f'<td style="text-align:{"right" if at in table.right else "left"}{_stiff(at, table)}">{_whole(escape(text))}</td>'
        for at, text in enumerate(row)
    )
