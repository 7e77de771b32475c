"""Tables side by side: which columns came, went and changed, and the rows that differ, first.

What is shown of a row is read from the stored memory of its columns. Where a column is kept in a way that is not read
here, its cells stay empty, and of a table that is not read at all the first rows are shown as they were noted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from agent_kernel.browsing.faces import Cell, Column, Mark, TableFace, TableRow, text_of
from agent_kernel.browsing.memory import UNREAD, Elements, all_of, elements_of
from agent_kernel.browsing.wording import cleaned
from agent_kernel.values import summaries
from agent_kernel.values.peeking import calls
from agent_kernel.values.summaries.masking import names_its_neighbours
from agent_kernel.verbs.contents import same_column, unlike_column
from agent_kernel.verbs.stored import Part, Stored, columns_of, items_of, same
from agent_kernel.verbs.text import plural

__all__ = ["Frame", "frame_of", "summary_face", "table_face"]

_MANAGER = "pandas.core.internals.managers.BlockManager"
_SINGLE = "pandas.core.internals.managers.SingleBlockManager"
_COLUMNS = 12  # that are shown, those that changed before others
_ROWS = 12  # that changed
_FEWEST = 5
_MOST_COLUMNS = 2_000
_MOST_LABELS = 100_000  # rows of tables whose labels are compared
_MOST_CELLS = 1_000_000  # of all columns that are compared one by one


_SOME, _UNKNOWN = -1, -2  # changed cells of a column: nobody knows how many, or whether there are any


class Frame(msgspec.Struct, frozen=True):
    """A stored table."""

    stored: Stored
    names: tuple[str, ...]
    dtypes: dict[str, str]
    parts: dict[str, Part]
    columns: dict[str, Elements | None]
    labels: Elements | None
    axis: object  # the description of the labels
    rows: int


class _Rows(msgspec.Struct):
    """Which rows to show: their places on either side, -1 where there is none."""

    changed: list[tuple[int, int]]
    others: list[tuple[int, int]]
    cells: dict[str, int]  # changed cells by column, or one of the two below
    added: int = 0
    removed: int = 0
    why_not: str = ""  # they cannot be compared


def frame_of(stored: Stored, summary: summaries.Summary) -> Frame | None:
    """The table; None where it is not kept as pandas keeps one."""
    axes = _axes(stored, summary)
    parts = columns_of(stored)
    if axes is None or parts is None or not 0 < len(parts) <= _MOST_COLUMNS or summary.shape[:1] == (-1,):
        return None
    names = _names(stored, axes[0], len(parts), summary)
    if names is None or len(set(names)) != len(names):
        return None
    known = {column.name: column.of for column in summary.columns}
    found = {name: parts[at] for at, name in enumerate(names) if at in parts}
    if len(found) != len(names):
        return None
    return Frame(
        stored,
        names,
        {name: known.get(name, summary.dtype) for name in names},
        found,
        {name: elements_of(stored, part[0].args[0], part[1]) for name, part in found.items()},
        elements_of(stored, axes[1]),
        axes[1],
        summary.shape[0],
    )


def _axes(stored: Stored, summary: summaries.Summary) -> tuple[object, object] | None:
    if summary.kind == "series":
        managers = calls(stored.value, _SINGLE)
        state = items_of(managers[0].state[0]) if managers and managers[0].state else ()
        labels = items_of(state[0]) if state else ()
        return (None, labels[0]) if labels else None
    managers = calls(stored.value, _MANAGER)
    axes = items_of(managers[0].args[1]) if managers and len(managers[0].args) > 1 else ()
    return (axes[0], axes[1]) if len(axes) == 2 else None


def _names(stored: Stored, axis: object, count: int, summary: summaries.Summary) -> tuple[str, ...] | None:
    if summary.kind == "series":
        return ("values",)
    found = elements_of(stored, axis)
    if found is None or found.count != count:
        return tuple(column.name for column in summary.columns) if len(summary.columns) == count else None
    return tuple(cleaned(str(found.at(place))) for place in range(count))


def table_face(before: Frame | None, after: Frame | None) -> tuple[TableFace, str]:
    """Two versions of a table, or the one that there is, and what to say below."""
    rows = _rows(before, after)
    columns = _columns(before, after, rows)
    shown = sorted(columns, key=lambda column: not column.how)[:_COLUMNS]
    kept = [column for column in columns if column in shown]
    places = [*rows.changed[:_ROWS], *rows.others][: max(_FEWEST, len(rows.changed[:_ROWS]))]
    face = TableFace(tuple(kept), tuple(_row(before, after, kept, place) for place in places))
    return face, _note(before, after, rows, columns, face)


def _rows(before: Frame | None, after: Frame | None) -> _Rows:
    first = before or after
    if before is None or after is None:
        count = first.rows if first is not None else 0
        places = range(min(count, _FEWEST))
        return _Rows([], [(-1, at) if before is None else (at, -1) for at in places], {})
    if before.rows == after.rows and same(before.stored, after.stored, before.axis, after.axis):
        return _by_place(before, after)
    return _by_label(before, after)


def _by_place(before: Frame, after: Frame) -> _Rows:
    """The labels are the same, so each row stands where it stood."""
    changed: dict[int, None] = {}
    cells: dict[str, int] = {}
    for name in after.names:
        if name not in before.parts:
            continue
        found = _changed_in(before, after, name)
        if found is None:
            cells[name] = _SOME
        elif found[0]:
            cells[name] = found[0]
            changed.update(dict.fromkeys(found[1]))
    places = sorted(changed)
    others = [(at, at) for at in range(min(after.rows, _ROWS + _FEWEST)) if at not in changed]
    return _Rows([(at, at) for at in places], others, cells)


def _changed_in(before: Frame, after: Frame, name: str) -> tuple[int, list[int]] | None:
    """How many rows of a column differ, and the first of them; None where only some difference is known."""
    if same_column(before.stored, after.stored, before.parts[name], after.parts[name]):
        return 0, []
    found = unlike_column(before.stored, after.stored, before.parts[name], after.parts[name])
    if found is not None:
        return found.many, found.places
    found_in = _pairs(before, after, name, [(at, at) for at in range(after.rows)])
    return None if found_in is None else (len(found_in), [at for at, _ in found_in])


def _pairs(before: Frame, after: Frame, name: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """The places at which a column differs; None where it cannot be read, or not in a moment."""
    old, new = before.columns[name], after.columns[name]
    was, now = None if old is None else all_of(old), None if new is None else all_of(new)
    if was is None or now is None or len(was) < before.rows or len(now) < after.rows:
        return None
    return [pair for pair in places if _differ(was[pair[0]], now[pair[1]])]


def _differ(old: object, new: object) -> bool:
    if old is UNREAD or new is UNREAD:
        return True
    return old != new and not (old != old and new != new)


def _by_label(before: Frame, after: Frame) -> _Rows:
    """Rows are told apart by their labels."""
    if max(before.rows, after.rows) > _MOST_LABELS:
        return _Rows([], [], {}, why_not="There are too many rows to compare them by their labels.")
    old, new = _places(before), _places(after)
    if old is None or new is None:
        return _Rows([], [], {}, why_not="The rows of the two versions cannot be told apart by their labels.")
    shared = [(old[label], place) for label, place in new.items() if label in old]
    added = [(-1, place) for label, place in new.items() if label not in old]
    removed = [(place, -1) for label, place in old.items() if label not in new]
    cells: dict[str, int] = {}
    changed: dict[tuple[int, int], None] = {}
    names = [name for name in after.names if name in before.parts]
    for name in names[: max(1, _MOST_CELLS // max(1, len(shared)))]:
        found = _pairs(before, after, name, shared)
        if found is None or found:
            cells[name] = _UNKNOWN if found is None else len(found)
            changed.update(dict.fromkeys(found or ()))
    cells |= dict.fromkeys(names[max(1, _MOST_CELLS // max(1, len(shared))) :], _UNKNOWN)
    half = _ROWS // 3
    first = [*islice(changed, half), *added[:half], *removed[:half]]
    rest = [pair for pair in shared[: _ROWS + _FEWEST] if pair not in changed]
    return _Rows(first, rest, cells, len(added), len(removed))


def _places(frame: Frame) -> dict[object, int] | None:
    """Where each label stands; None where one stands for several rows, or they cannot be read."""
    labels = None if frame.labels is None else all_of(frame.labels)
    if labels is None or len(labels) < frame.rows:
        return None
    found = {label: place for place, label in enumerate(labels[: frame.rows])}
    return found if len(found) == frame.rows and UNREAD not in found else None


def _columns(before: Frame | None, after: Frame | None, rows: _Rows) -> list[Column]:
    found: list[Column] = []
    how: Mark
    for name in after.names if after is not None else ():
        assert after is not None
        how = (
            "+"
            if before is not None and name not in before.parts
            else "~"
            if rows.cells.get(name, _UNKNOWN) != _UNKNOWN
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


def _row(before: Frame | None, after: Frame | None, columns: Sequence[Column], place: tuple[int, int]) -> TableRow:
    was, now = place
    cells = [_cell(before, after, column, was, now) for column in columns]
    # In a record one entry may name what another one holds: ("password", "hunter2").
    for side in ("old", "new"):
        said = zip(columns, cells, strict=True)
        if any(names_its_neighbours(column.name, getattr(cell, side)) for column, cell in said):
            cells = [msgspec.structs.replace(cell, old=_hidden(cell.old), new=_hidden(cell.new)) for cell in cells]
    how: Mark = ""
    if before is not None and after is not None:
        how = "+" if was < 0 else "-" if now < 0 else "~" if any(cell.how == "~" for cell in cells) else ""
    return TableRow(_label(after, now) or _label(before, was), how, tuple(cells))


def _hidden(text: str | None) -> str | None:
    return None if text is None else summaries.MASK


def _label(frame: Frame | None, place: int) -> str:
    if frame is None or place < 0:
        return ""
    found = frame.labels.at(place) if frame.labels is not None and place < frame.labels.count else UNREAD
    return f"row {place:,}" if found is UNREAD else text_of(found)


def _cell(before: Frame | None, after: Frame | None, column: Column, was: int, now: int) -> Cell:
    (old, had), (new, has) = _value(before, column.name, was), _value(after, column.name, now)
    if summaries.names_a_secret(column.name):
        return Cell(summaries.MASK if had else None, summaries.MASK if has else None, "")
    changed = had and has and _differ(old, new)
    texts = _texts(old, new) if changed else (text_of(old), text_of(new))
    how: Mark = "~" if changed else column.how if column.how in ("+", "-") else ""
    return Cell(texts[0] if had and old is not UNREAD else None, texts[1] if has and new is not UNREAD else None, how)


def _texts(old: object, new: object) -> tuple[str, str]:
    """Both values, with as many digits as it takes to tell them apart."""
    texts = text_of(old), text_of(new)
    return (repr(old), repr(new)) if texts[0] == texts[1] and isinstance(old, float) else texts


def _value(frame: Frame | None, name: str, place: int) -> tuple[object, bool]:
    """A value, and whether there is one."""
    if frame is None or place < 0 or name not in frame.columns:
        return None, False
    column = frame.columns[name]
    return (UNREAD if column is None or place >= column.count else column.at(place)), True


def _note(before: Frame | None, after: Frame | None, rows: _Rows, columns: Sequence[Column], face: TableFace) -> str:
    return " ".join(_sentences(before, after, rows, columns, face))


def _sentences(
    before: Frame | None, after: Frame | None, rows: _Rows, columns: Sequence[Column], face: TableFace
) -> Iterator[str]:
    total = max(frame.rows for frame in (before, after) if frame is not None)
    if rows.why_not:
        yield rows.why_not
    elif len(face.rows) < total:
        yield f"{len(face.rows)} of {plural(total, 'row')}{', changed ones first' if rows.changed else ''}."
    told = [f"{plural(count, 'cell')} changed in {name}" for name, count in rows.cells.items() if count > 0]
    told += [f"{name} changed" for name, count in rows.cells.items() if count == _SOME]
    told += [f"{name} was not compared" for name, count in rows.cells.items() if count == _UNKNOWN]
    if len(told) > 4:
        told = [*told[:4], f"{len(told) - 4} more columns"]
    for noun, added, removed in (
        ("row", rows.added, rows.removed),
        ("column", sum(column.how == "+" for column in columns), sum(column.how == "-" for column in columns)),
    ):
        told += [f"{plural(added, noun)} added"] if added else []
        told += [f"{plural(removed, noun)} removed"] if removed else []
    if told:
        yield f"{', '.join(told)}."
    if len(face.columns) < len(columns):
        yield f"{len(face.columns)} of {plural(len(columns), 'column')}."


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
