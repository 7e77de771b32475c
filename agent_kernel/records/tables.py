"""Records as a table, for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from pydantic import BaseModel

__all__ = ["as_table"]

_ROWS: Final = 50
_COLUMNS: Final = 12
_TEXT: Final = 80  # characters of a cell


def as_table(title: str, records: Sequence[BaseModel]) -> str:
    """HTML of the first records, a column for each field. Everything in it is escaped."""
    many = f"{len(records):,} record{'s' if len(records) != 1 else ''}"
    head = f"<caption>{escape(title)}: {many}</caption>"
    if not records:
        return f"<table>{head}</table>"
    fields = list(type(records[0]).model_fields)[:_COLUMNS]
    rows = [f"<tr>{''.join(f'<th>{escape(field)}</th>' for field in fields)}</tr>"]
    rows += [
        f"<tr>{''.join(f'<td>{_cell(getattr(record, field))}</td>' for field in fields)}</tr>"
        for record in records[:_ROWS]
    ]
    more = f"<p>and {len(records) - _ROWS:,} more</p>" if len(records) > _ROWS else ""
    return f"<table>{head}{''.join(rows)}</table>{more}"


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return escape(text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…")
