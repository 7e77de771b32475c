"""Which rows of two versions of a table belong together, and which of them differ.

Where the labels are the same, each row stands where it stood, and pieces of memory that are stored once are not even
read. Otherwise rows are told apart by their labels, or by what they hold where the labels are numbers that were given anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from agent_kernel.browsing.frames import Frame
from agent_kernel.browsing.memory import UNREAD, Chained, Elements, Numbers, Steps, all_of, differ
from agent_kernel.browsing.moved_rows import MovedRows, match_rows
from agent_kernel.verbs.contents import same, same_column, unlike_column

__all__ = ["FEWEST", "SHOWN", "SOME", "UNKNOWN", "Rows", "rows_of"]

SHOWN = 12  # rows that changed
FEWEST = 5
_MOST_LABELS = 100_000  # rows of tables whose labels are compared
_SAMPLE = 64  # places at which it is seen whether a column varies
_MOST_BYTES = 128_000_000  # of columns that are compared
_MOST_CELLS = 1_000_000  # of all columns that are compared one by one
SOME, UNKNOWN = -1, -2  # changed cells of a column: nobody knows how many, or whether there are any


class Rows(msgspec.Struct):
    """Which rows to show: their places on either side, -1 where there is none."""

    changed: list[tuple[int, int]]
    others: list[tuple[int, int]]
    cells: dict[str, int]  # changed cells by column, or one of the two below
    added: int = 0
    removed: int = 0
    why_not: str = ""  # they cannot be compared
    many: int = 0  # rows that changed, in all
    matched: MovedRows | None = None  # where they were told apart by what they hold


def rows_of(before: Frame | None, after: Frame | None) -> Rows:
    first = before or after
    if before is None or after is None:
        count = first.rows if first is not None else 0
        places = range(min(count, FEWEST))
        return Rows([], [(-1, at) if before is None else (at, -1) for at in places], {})
    is_same = before.rows == after.rows and same(before.stored, after.stored, before.axis, after.axis)
    found = _by_place(before, after) if is_same else _by_label(before, after)
    if _may_be_renumbered(before, after, found) and not (is_same and _has_a_column_in_place(before, after, found)):
        return _by_content(before, after, found)
    return found


def _may_be_renumbered(before: Frame, after: Frame, found: Rows) -> bool:
    """Whether the labels may be other ones for the same rows: they count from 0, and much changed as they tell it."""
    old, new = before.labels, after.labels
    if not isinstance(new, Steps) or (after.rows and new.at(0) != 0) or (after.rows > 1 and new.at(1) != 1):
        return False
    if not isinstance(old, Steps) and not (isinstance(old, Numbers) and old.is_number):
        return False
    return bool(found.why_not) or found.many > 1 or (found.added > 0 and found.removed > 0)


def _has_a_column_in_place(before: Frame, after: Frame, found: Rows) -> bool:
    """Whether a column that is not the same all the way down is as it was: then the rows stand where they stood."""
    kept = (after.columns[name] for name in after.names if name in before.parts and name not in found.cells)
    return any(column is not None and _varies(column) for column in kept)


def _varies(column: Elements) -> bool:
    first = column.at(0) if column.count else None
    step = max(1, column.count // _SAMPLE)
    return any(differ(column.at(place), first) for place in range(0, column.count, step))


def _by_content(before: Frame, after: Frame, found: Rows) -> Rows:
    """Rows are told apart by what they hold, if that leaves less to say than their labels do."""
    match = match_rows(before, after)
    said = found.many + found.added + found.removed
    if match is None or (not found.why_not and match.cost >= said):
        return found
    names = [name for name in after.names if name in before.parts]
    cells: dict[str, int] = {}
    for name in names:
        many = _cells_of(before, after, name, match)
        if many:
            cells[name] = many
    half, changed = SHOWN // 3, set(match.changed)
    first = [
        *match.changed[:half],
        *((-1, place) for place in match.added[:half]),
        *((place, -1) for place in match.removed[:half]),
    ]
    pairs = ((mate, place) for place, mate in enumerate(match.mates) if mate >= 0)
    others = list(islice((pair for pair in pairs if pair not in changed), SHOWN + FEWEST))
    gone, come, many = len(match.removed), len(match.added), len(match.changed)
    return Rows(first, others, cells, come, gone, many=many, matched=match)


def _cells_of(before: Frame, after: Frame, name: str, match: MovedRows) -> int:
    old, new = before.columns[name], after.columns[name]
    if name not in match.columns or old is None or new is None or len(match.changed) > _MOST_LABELS:
        return UNKNOWN
    return sum(differ(old.at(was), new.at(now)) for was, now in match.changed)


def _by_place(before: Frame, after: Frame) -> Rows:
    """The labels are the same, so each row stands where it stood."""
    changed: dict[int, None] = {}
    cells: dict[str, int] = {}
    room = _MOST_BYTES
    for name in after.names:
        if name not in before.parts or same_column(before.stored, after.stored, before.parts[name], after.parts[name]):
            continue
        room -= 16 * after.rows
        many, places = _changed_in(before, after, name) if room > 0 else (UNKNOWN, [])
        if many:
            cells[name] = many
        changed.update(dict.fromkeys(places))
    places = sorted(changed)
    others = [(at, at) for at in range(min(after.rows, SHOWN + FEWEST)) if at not in changed]
    many = after.rows if SOME in cells.values() or UNKNOWN in cells.values() else len(places)
    return Rows([(at, at) for at in places], others, cells, many=many)


def _changed_in(before: Frame, after: Frame, name: str) -> tuple[int, list[int]]:
    """How many rows of a column differ, and the first of them."""
    found = unlike_column(before.stored, after.stored, before.parts[name], after.parts[name])
    if found is not None:
        return SOME if found.left else found.many, found.places
    old, new = before.columns[name], after.columns[name]
    if isinstance(old, Numbers) and isinstance(new, Numbers):  # it lies elsewhere among other columns now
        places = old.unlike(new)
        if places is not None:
            return len(places), places
    many, pairs = _pairs(before, after, name, [(at, at) for at in range(after.rows)])
    if many == UNKNOWN and isinstance(old, Chained) and isinstance(new, Chained):
        many = SOME  # memory of its own, which is another one
    return many, [at for at, _ in pairs]


def _pairs(
    before: Frame, after: Frame, name: str, places: Sequence[tuple[int, int]]
) -> tuple[int, list[tuple[int, int]]]:
    """How many cells of a column differ, and where; UNKNOWN where some cannot be read, or not in a moment."""
    old, new = before.columns[name], after.columns[name]
    was, now = None if old is None else all_of(old), None if new is None else all_of(new)
    if was is None or now is None or len(was) < before.rows or len(now) < after.rows:
        return UNKNOWN, []
    found = [pair for pair in places if differ(was[pair[0]], now[pair[1]])]
    is_sure = not any(was[one] is UNREAD and now[other] is UNREAD for one, other in places)
    return len(found) if is_sure else SOME if found else UNKNOWN, found


def _by_label(before: Frame, after: Frame) -> Rows:
    """Rows are told apart by their labels."""
    if max(before.rows, after.rows) > _MOST_LABELS:
        return Rows([], [], {}, why_not="There are too many rows to compare them by their labels.")
    old, new = _places(before), _places(after)
    if old is None or new is None:
        return Rows([], [], {}, why_not="The rows of the two versions cannot be told apart by their labels.")
    shared = [(old[label], place) for label, place in new.items() if label in old]
    added = [(-1, place) for label, place in new.items() if label not in old]
    removed = [(place, -1) for label, place in old.items() if label not in new]
    cells: dict[str, int] = {}
    changed: dict[tuple[int, int], None] = {}
    names = [name for name in after.names if name in before.parts]
    for name in names[: max(1, _MOST_CELLS // max(1, len(shared)))]:
        many, found = _pairs(before, after, name, shared)
        if many:
            cells[name] = many
        changed.update(dict.fromkeys(found))
    cells |= dict.fromkeys(names[max(1, _MOST_CELLS // max(1, len(shared))) :], UNKNOWN)
    half = SHOWN // 3
    first = [*islice(changed, half), *added[:half], *removed[:half]]
    rest = [pair for pair in shared[: SHOWN + FEWEST] if pair not in changed]
    return Rows(first, rest, cells, len(added), len(removed), many=len(changed))


def _places(frame: Frame) -> dict[object, int] | None:
    """Where each label stands; None where one stands for several rows, or they cannot be read."""
    labels = None if frame.labels is None else all_of(frame.labels)
    if labels is None or len(labels) < frame.rows:
        return None
    found = {label: place for place, label in enumerate(labels[: frame.rows])}
    return found if len(found) == frame.rows and UNREAD not in found else None
