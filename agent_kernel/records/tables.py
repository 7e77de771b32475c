"""Records, lists and states as tables, for a notebook."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from html import escape
from typing import Final

from pydantic import BaseModel

__all__ = ["ROWS", "as_rows", "as_table"]

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
    names = list(type(records[0]).model_fields) if records else []
    rows = [[getattr(record, name) for name in names] for record in records[:ROWS]]
    return as_rows(title, names, rows, count_text, [f"{many - ROWS:,} more records"] if many > ROWS else [])


def as_rows(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    about: str = "",
    omitted: Sequence[str] = (),
    note: str = "",
) -> str:
    """HTML of rows under the names of their columns, as `as_table` says.

    Args:
        about: what to say beside the title. `omitted`: what is not shown. `note`: what to say below.
    """
    head = f"<caption{_CAPTION}><b>{escape(title)}</b> <span{_QUIET}>{escape(about)}</span></caption>"
    below = f"<div{_QUIET}>{escape(note)}</div>" if note else ""
    if not rows:
        return f"<table>{head}</table>{below}"
    shown = columns[:_COLUMNS]
    sides = [_ALIGN_RIGHT if _are_numbers([row[at] for row in rows]) else _ALIGN_LEFT for at in range(len(shown))]
    names = "".join(f"<th{side}>{escape(name)}</th>" for name, side in zip(shown, sides, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{side}>{_cell(value)}</td>' for value, side in zip(row, sides, strict=False))}</tr>"
        for row in rows
    )
    omitted = [*omitted, *([f"{len(columns) - len(shown):,} more fields"] if len(columns) > len(shown) else [])]
    more = f"<div{_QUIET}>and {' and '.join(omitted)}</div>" if omitted else ""
    return f"<table>{head}<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{more}{below}"


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
