"""What two versions of a variable look like side by side."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from agent_kernel.browsing.answers import Sign
from agent_kernel.browsing.lines import DiffLine

__all__ = [
    "ArrayFace",
    "ArrayRow",
    "Cell",
    "Column",
    "Face",
    "Mark",
    "Pair",
    "PairsFace",
    "PicturesFace",
    "TableFace",
    "TableRow",
    "TextFace",
]

Mark: TypeAlias = "Sign | str"  # "" where nothing changed


class Column(msgspec.Struct, frozen=True):
    """A column of a table: its name, its dtype, and what became of it."""

    name: str
    of: str
    how: Mark


class Cell(msgspec.Struct, frozen=True):
    """One value on both sides; None: it is not there, or cannot be read."""

    old: str | None
    new: str | None
    how: Mark


class TableRow(msgspec.Struct, frozen=True):
    """A row with its label."""

    label: str
    how: Mark
    cells: tuple[Cell, ...]


class TableFace(msgspec.Struct, frozen=True, tag="table", tag_field="kind"):
    """A table."""

    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]


class ArrayRow(msgspec.Struct, frozen=True):
    """One version of an array: how its values are spread, and what they come to."""

    label: str
    spread: tuple[float, ...]
    stats: tuple[tuple[str, str, bool], ...]


class ArrayFace(msgspec.Struct, frozen=True, tag="array", tag_field="kind"):
    """An array of numbers."""

    rows: tuple[ArrayRow, ...]


class TextFace(msgspec.Struct, frozen=True, tag="text", tag_field="kind"):
    """A text, line by line."""

    lines: tuple[DiffLine, ...]


class Pair(msgspec.Struct, frozen=True):
    """A key, or an attribute, on both sides; None: it is not there."""

    label: str
    old: str | None
    new: str | None
    changed: bool


class PairsFace(msgspec.Struct, frozen=True, tag="pairs", tag_field="kind"):
    """A dict by its keys, or an object by its attributes."""

    columns: tuple[str, str]
    rows: tuple[Pair, ...]


class PicturesFace(msgspec.Struct, frozen=True, tag="pictures", tag_field="kind"):
    """What cells showed of a figure, as data: URIs."""

    before: str | None
    after: str | None


Face: TypeAlias = TableFace | ArrayFace | TextFace | PairsFace | PicturesFace
