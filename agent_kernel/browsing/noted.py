"""Tables and series that are not read, by the first rows that were noted when they were committed."""

from __future__ import annotations

from agent_kernel.browsing.faces import Cell, Column, Mark, TableFace, TableRow
from agent_kernel.browsing.wording import cleaned
from agent_kernel.values import summaries

__all__ = ["series_face", "summary_face"]

_COLUMNS = 12


def summary_face(before: summaries.Summary | None, after: summaries.Summary | None) -> TableFace | None:
    """The first rows as they were noted, of tables that are not read."""
    sides = [side for side in (before, after) if side is not None and side.columns]
    if not sides or (before is not None and after is not None and len(sides) < 2):
        return None
    old, new = (_noted(side) for side in (before, after))
    names = list(dict.fromkeys([*new, *old]))[:_COLUMNS]
    columns = tuple(
        Column(cleaned(name), cleaned((new.get(name) or old[name])[0]), _how(old, new, name)) for name in names
    )
    count = max(len(side.rows) for side in sides)
    rows = tuple(
        TableRow(f"row {at}", "", tuple(_noted_cell(old, new, name, at) for name in names)) for at in range(count)
    )
    return TableFace(columns, rows)


def series_face(before: summaries.Summary | None, after: summaries.Summary | None) -> TableFace | None:
    """The first values as they were noted, of a series that is not read."""
    sides = [side for side in (before, after) if side is not None]
    if not sides or not all(side.rows for side in sides):
        return None
    kinds = [cleaned(side.dtype) for side in sides]
    count = max(len(side.rows) for side in sides)
    rows: list[TableRow] = []
    for at in range(count):
        old, new = (cleaned(side.rows[at][0]) if side and at < len(side.rows) else None for side in (before, after))
        changed: Mark = "~" if None not in (old, new) and old != new else ""
        rows.append(TableRow(f"row {at}", changed, (Cell(old, new, changed),)))
    return TableFace((Column("values", kinds[-1], "~" if kinds[0] != kinds[-1] else ""),), tuple(rows))


def _noted(side: summaries.Summary | None) -> dict[str, tuple[str, list[str]]]:
    """By column: the dtype, and the first cells."""
    if side is None:
        return {}
    return {
        column.name: (column.of, [row[at] for row in side.rows if at < len(row)])
        for at, column in enumerate(side.columns)
    }


def _how(old: dict[str, tuple[str, list[str]]], new: dict[str, tuple[str, list[str]]], name: str) -> Mark:
    if not old or not new:
        return ""
    return "+" if name not in old else "-" if name not in new else "~" if old[name] != new[name] else ""


def _noted_cell(
    old: dict[str, tuple[str, list[str]]], new: dict[str, tuple[str, list[str]]], name: str, at: int
) -> Cell:
    texts = [cleaned(side[name][1][at]) if name in side and at < len(side[name][1]) else None for side in (old, new)]
    changed = None not in texts and texts[0] != texts[1]
    return Cell(
        texts[0], texts[1], "~" if changed else _how(old, new, name) if _how(old, new, name) in ("+", "-") else ""
    )
