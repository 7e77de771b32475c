"""Tables side by side: which columns came, went and changed, and the rows that differ, first.

What is shown of a row is read from the stored memory of its columns. Where a column is kept in a way that is not read
here, its cells stay empty, and of a table that is not read at all the first rows are shown as they were noted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from agent_kernel.browsing.faces import Cell, Column, Mark, TableFace, TableRow
from agent_kernel.browsing.memory import UNREAD, Frame, differ
from agent_kernel.browsing.moved_rows import FEWEST, SHOWN, SOME, UNKNOWN, MovedRows, Rows, rows_of
from agent_kernel.browsing.wording import PLAIN, Style, cleaned, style_of, text_of
from agent_kernel.values import summaries
from agent_kernel.values.summaries.masking import names_its_neighbours
from agent_kernel.verbs.text import plural

__all__ = ["series_face", "summary_face", "table_face"]


_COLUMNS = 12  # that are shown, those that changed before others


def table_face(before: Frame | None, after: Frame | None) -> tuple[TableFace, str]:
    """Two versions of a table, or the one that there is, and what to say below."""
    rows = rows_of(before, after)
    columns = _columns(before, after, rows)
    shown = sorted(columns, key=lambda column: not column.how)[:_COLUMNS]
    kept = [column for column in columns if column in shown]
    places = [*rows.changed[:SHOWN], *rows.others][: max(FEWEST, len(rows.changed[:SHOWN]))]
    cells = [_column_cells(before, after, column, places) for column in kept]
    rows_shown = (
        _row(before, after, kept, place, found) for place, found in zip(places, zip(*cells, strict=True), strict=True)
    )
    face = TableFace(tuple(kept), tuple(rows_shown))
    return face, _note(before, after, rows, columns, face)


def _columns(before: Frame | None, after: Frame | None, rows: Rows) -> list[Column]:
    found: list[Column] = []
    how: Mark
    for name in after.names if after is not None else ():
        assert after is not None
        how = (
            "+"
            if before is not None and name not in before.parts
            else "~"
            if rows.cells.get(name, UNKNOWN) != UNKNOWN
            else ""
        )
        if before is not None and before.dtypes.get(name, after.dtypes[name]) != after.dtypes[name]:
            how = "~"
        found.append(Column(cleaned(name), cleaned(after.dtypes[name]), how))
    if before is not None:
        gone = [name for name in before.names if after is None or name not in after.parts]
        how = "-" if after is not None else ""
        found += [Column(cleaned(name), cleaned(before.dtypes[name]), how) for name in gone]
    return found


def _row(
    before: Frame | None,
    after: Frame | None,
    columns: Sequence[Column],
    place: tuple[int, int],
    cells: Sequence[Cell],
) -> TableRow:
    was, now = place
    # In a record one entry may name what another one holds: ("password", "hunter2").
    for side in ("old", "new"):
        said = zip(columns, cells, strict=True)
        if any(names_its_neighbours(column.name, getattr(cell, side)) for column, cell in said):
            cells = [msgspec.structs.replace(cell, old=_hidden(cell.old), new=_hidden(cell.new)) for cell in cells]
    label = _label(after, now) or _label(before, was)
    if summaries.names_a_secret(label):
        cells = [msgspec.structs.replace(cell, old=_hidden(cell.old), new=_hidden(cell.new)) for cell in cells]
    how: Mark = ""
    if before is not None and after is not None:
        how = "+" if was < 0 else "-" if now < 0 else "~" if any(cell.how == "~" for cell in cells) else ""
    return TableRow(label, how, tuple(cells))


def _hidden(text: str | None) -> str | None:
    return None if text is None else summaries.MASK


def _label(frame: Frame | None, place: int) -> str:
    if frame is None or place < 0:
        return ""
    found = frame.labels.at(place) if frame.labels is not None and place < frame.labels.count else UNREAD
    return f"row {place:,}" if found is UNREAD else text_of(found)


def _column_cells(
    before: Frame | None, after: Frame | None, column: Column, places: Sequence[tuple[int, int]]
) -> list[Cell]:
    """The cells of a column, written alike."""
    pairs = [(_value(before, column.name, was), _value(after, column.name, now)) for was, now in places]
    if summaries.names_a_secret(column.name):
        return [
            Cell(summaries.MASK if had else None, summaries.MASK if has else None, "") for (_, had), (_, has) in pairs
        ]
    style = style_of(value for pair in pairs for value, _ in pair)
    return [_cell(column, style, *old, *new) for old, new in pairs]


def _cell(column: Column, style: Style, old: object, had: bool, new: object, has: bool) -> Cell:
    changed = had and has and UNREAD not in (old, new) and differ(old, new)
    texts = text_of(old, style), text_of(new, style)
    if changed and texts[0] == texts[1]:  # as many digits as it takes to tell them apart
        texts = (repr(old), repr(new)) if text_of(old) == text_of(new) else (text_of(old, PLAIN), text_of(new, PLAIN))
    how: Mark = "~" if changed else column.how if column.how in ("+", "-") else ""
    return Cell(texts[0] if had and old is not UNREAD else None, texts[1] if has and new is not UNREAD else None, how)


def _value(frame: Frame | None, name: str, place: int) -> tuple[object, bool]:
    """A value, and whether there is one."""
    if frame is None or place < 0 or name not in frame.columns:
        return None, False
    column = frame.columns[name]
    return (UNREAD if column is None or place >= column.count else column.at(place)), True


def _note(before: Frame | None, after: Frame | None, rows: Rows, columns: Sequence[Column], face: TableFace) -> str:
    return " ".join(_sentences(before, after, rows, columns, face))


def _sentences(
    before: Frame | None, after: Frame | None, rows: Rows, columns: Sequence[Column], face: TableFace
) -> Iterator[str]:
    total = max(frame.rows for frame in (before, after) if frame is not None)
    if rows.why_not:
        yield rows.why_not
    elif len(face.rows) < total:
        yield f"{len(face.rows)} of {plural(total, 'row')}{', changed ones first' if rows.changed else ''}."
    if rows.matched is not None:
        yield _moves(rows.matched)
    told = [f"{plural(count, 'cell')} changed in {name}" for name, count in rows.cells.items() if count > 0]
    told += [f"{name} changed" for name, count in rows.cells.items() if count == SOME]
    told += [f"{name} was not compared" for name, count in rows.cells.items() if count == UNKNOWN]
    if len(told) > 4:
        told = [*told[:4], f"{len(told) - 4} more columns"]
    for noun, added, removed in (
        ("row", rows.added, rows.removed) if rows.matched is None else ("row", 0, 0),
        ("column", sum(column.how == "+" for column in columns), sum(column.how == "-" for column in columns)),
    ):
        told += [f"{plural(added, noun)} added"] if added else []
        told += [f"{plural(removed, noun)} removed"] if removed else []
    if told:
        yield f"{', '.join(told)}."
    if len(face.columns) < len(columns):
        yield f"{len(face.columns)} of {plural(len(columns), 'column')}."


def _moves(found: MovedRows) -> str:
    """Which rows went and came, and where the others stand: `40 rows went, the others moved up.`"""
    gone, come = len(found.removed), len(found.added)
    said = [f"{plural(gone, 'row')} went"] if gone else []
    said += [f"{plural(come, 'row')} came"] if come else []
    if found.moved:
        all_over = found.moved * 2 > len(found.mates)
        others = "the others" if said else "the rows"
        said.append(
            f"{others} are in another order"
            if all_over
            else f"{plural(found.moved, 'row')} stand{'s' * (found.moved == 1)} elsewhere"
        )
    elif any(mate >= 0 and mate != place for place, mate in enumerate(found.mates)):
        way = "" if gone and come else " up" if gone else " down" if come else ""
        said.append(f"the others moved{way}")
    elif not said:
        said = ["the rows have other labels"]
    text = ", ".join(said)
    return f"{text[0].upper()}{text[1:]}."


# -- tables and series that are not read, by the first rows that were noted when they were committed


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
