"""Records as a table, for a notebook."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from html import escape
from typing import Final

from pydantic import BaseModel

__all__ = ["ROWS", "as_table"]

ROWS: Final = 50
_COLUMNS: Final = 12
_TEXT: Final = 80  # characters of a cell
_ALIGN_LEFT: Final = ' style="text-align:left"'
_ALIGN_RIGHT: Final = ' style="text-align:right;white-space:nowrap"'
_CAPTION: Final = ' style="text-align:left;white-space:nowrap;padding:4px 0"'
_QUIET: Final = ' style="opacity:0.7"'


def as_table(title: str, records: Sequence[BaseModel], count: int | None = None) -> str:
    """HTML of the first records, a column for each field: numbers to the right, all else to the left. Everything is escaped.

    Args:
        count: how many records there are, where more than these.
    """
    many = len(records) if count is None else count
    count_text = f"{many:,} record{'s' if many != 1 else ''}"
    head = f"<caption{_CAPTION}><b>{escape(title)}</b> <span{_QUIET}>{count_text}</span></caption>"
    if not records:
        return f"<table>{head}</table>"
    first = records[:ROWS]
    names = list(type(records[0]).model_fields)
    fields = names[:_COLUMNS]
    sides = [
        _ALIGN_RIGHT if _are_numbers([getattr(record, field) for record in first]) else _ALIGN_LEFT for field in fields
    ]
    columns = "".join(f"<th{side}>{escape(field)}</th>" for field, side in zip(fields, sides, strict=True))
    rows = "".join(f"<tr>{_cells(record, fields, sides)}</tr>" for record in first)
    omitted = [f"{many - len(first):,} more records"] if many > len(first) else []
    omitted += [f"{len(names) - len(fields):,} more fields"] if len(names) > len(fields) else []
    more = f"<div{_QUIET}>and {' and '.join(omitted)}</div>" if omitted else ""
    return f"<table>{head}<thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _cells(record: BaseModel, fields: Sequence[str], sides: Sequence[str]) -> str:
    return "".join(f"<td{side}>{_cell(getattr(record, field))}</td>" for field, side in zip(fields, sides, strict=True))


def _are_numbers(values: Sequence[object]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present)


def _cell(value: object) -> str:
    text = _text(value)
    if len(text) > _TEXT:
        return f'<span title="{escape(text[:2_000])}">{escape(text[: _TEXT - 1])}…</span>'
    return escape(text)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, list | tuple | set | frozenset):
        items: list[object] = list(value)  # pyright: ignore[reportUnknownArgumentType]  # of whatever
        if all(isinstance(one, str | int | float) for one in items):
            return ", ".join(map(str, items))
        value = items
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
