"""Tables side by side: which columns came, went and changed, which rows belong together, and those that differ, first.

What is shown of a row is read from the stored memory of its columns. Where a column is kept in a way that is not read
here, its cells stay empty, and of a table that is not read at all the first rows are shown as they were noted.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from xxhash import xxh3_128_digest

from agent_kernel.commands.contents import compare_columns, is_same, is_same_column, read_stored
from agent_kernel.errors import StoreError
from agent_kernel.queries.changes import Cell, Column, Mark, TableDiff, TableRow, summary_of
from agent_kernel.queries.memory import (
    UNREAD,
    Chained,
    Elements,
    Frame,
    Numbers,
    Steps,
    all_of,
    differ,
    frame_of,
    is_hidden,
    is_named_a_secret,
    values_of,
)
from agent_kernel.queries.wording import PLAIN, Style, shorten_line, style_of, text_of
from agent_kernel.repository import Entry
from agent_kernel.text import plural
from agent_kernel.values import previews
from agent_kernel.values.previews.redaction import names_its_neighbours

if TYPE_CHECKING:
    from agent_kernel.session import Repository


# -- which row of a table is which row of its next version, by what they hold: for tables whose rows were numbered anew
#
# A patience diff, as git and bzr have it: rows that stand once on either side, in the same order, belong together; what lies
# between them is matched outward from these, and again within what is left, and rows that repeat themselves by Myers' diff, as far as few of them differ. Rows
# are compared by digests of their stored memory. A million rows take seconds, and where it would be more, some stay unmatched.

_MOST_ROWS: Final = 2_000_000  # of both sides together
_MOST_BYTES: Final = 128_000_000  # of the columns of one side
_BLOCK: Final = 16_384  # rows that are put together at once
_VISITS: Final = 12  # looks at each row, all in all
_MOST_EDITS: Final = 256  # rows that differ among some that repeat themselves
_MOST_PAIRS: Final = 10_000  # of a rest whose rows are compared with each other
_MOST_MATCHED: Final = 2_000_000  # rows, times columns, times columns that are left out in turn
_ALIKE: Final = 0.5  # share of the cells by which a row is taken for the same row, changed

Read: TypeAlias = Callable[[int, int], bytes]
Columns: TypeAlias = dict[str, tuple[int, Read, Read]]  # bytes of an item, and what reads them on either side


class MovedRows(msgspec.Struct):
    """Where each row of the new version stood.

    Attributes:
        mates: for each new row the place of the old one, -1: it is new.
        changed: pairs of which some cells differ.
        moved: how many stand on another side of rows that stayed in order.
        removed, added: places on their own side.
        columns: those that were compared.
    """

    mates: list[int]
    changed: list[tuple[int, int]]
    moved: int
    removed: list[int]
    added: list[int]
    columns: frozenset[str]

    @property
    def cost(self) -> float:
        """How much there is to say: a row that moved as it was is half a change."""
        return len(self.changed) + len(self.removed) + len(self.added) + self.moved / 2


def match_rows(before: Frame, after: Frame) -> MovedRows | None:
    """Match the rows by their contents; None where these cannot be read, or are too many."""
    if not before.rows or not after.rows or before.rows + after.rows > _MOST_ROWS:
        return None
    columns = dict(_columns_of_rows(before, after))
    if not columns:
        return None
    found = _match(before, after, columns)
    fewer = min(before.rows, after.rows)
    few = (found.in_order + found.moved) * 2 <= fewer
    if len(columns) > 1 and few and (before.rows + after.rows) * len(columns) ** 2 <= _MOST_MATCHED:
        best = max((_match(before, after, part) for part in _parts(columns)), key=lambda one: one.in_order)
        found = best if best.in_order * 2 > fewer else found
    return _with_changes(before, after, columns, found)


class _Matched(msgspec.Struct):
    """What `columns` tell of the rows: those that are the same there, and what lies between them."""

    columns: Columns
    mates: list[int]
    gaps: list[tuple[range, range]]
    moved: int
    in_order: int  # stayed in order


def _parts(columns: Columns) -> Iterator[Columns]:
    """Columns that may tell rows apart where another one changed from top to bottom: all but one, and each alone."""
    for name in columns:
        yield {other: column for other, column in columns.items() if other != name}
    if len(columns) > 2:
        yield from ({name: column} for name, column in columns.items())


def _match(before: Frame, after: Frame, columns: Columns) -> _Matched:
    ids: dict[bytes, int] = {}
    old = _rows([(width, read) for width, read, _ in columns.values()], before.rows, ids)
    new = _rows([(width, read) for width, _, read in columns.values()], after.rows, ids)
    mates = _Patience(old, new).mates()
    gaps = list(_gaps(mates, before.rows))
    in_order = sum(mate >= 0 for mate in mates)
    return _Matched(columns, mates, gaps, _move(old, new, mates), in_order)


def _with_changes(before: Frame, after: Frame, columns: Columns, found: _Matched) -> MovedRows:
    """Add rows that are the same ones with other cells, in those columns or beside them."""
    mates, taken = found.mates, set(found.mates)
    changed: list[tuple[int, int]] = []
    for old_gap, new_gap in found.gaps:
        unmatched = (
            [position for position in old_gap if position not in taken],
            [position for position in new_gap if mates[position] < 0],
        )
        changed += _alike(before, after, sorted(found.columns), *unmatched)
    for was, now in changed:
        mates[now] = was
    others = [name for name in columns if name not in found.columns]
    if others:
        known = set(changed)
        pairs = ((mate, position) for position, mate in enumerate(mates) if mate >= 0)
        changed = [pair for pair in pairs if pair in known or _differs(before, after, others, *pair)]
    taken = set(mates)
    removed = [position for position in range(before.rows) if position not in taken]
    added = [at for at, was in enumerate(mates) if was < 0]
    return MovedRows(mates, changed, found.moved, removed, added, frozenset(columns))


def _differs(before: Frame, after: Frame, names: Sequence[str], was: int, now: int) -> bool:
    return any(differ(_at(before, name, was), _at(after, name, now)) for name in names)


# Rows as numbers ------------------------------------------------------------------------------------------------------


def _columns_of_rows(before: Frame, after: Frame) -> Iterator[tuple[str, tuple[int, Read, Read]]]:
    """Of each column that both have and that can be read: bytes of an item, and what reads them on either side."""
    room = _MOST_BYTES
    for name in after.names:
        old, new = before.columns.get(name), after.columns.get(name)
        if old is None or new is None or old.count < before.rows or new.count < after.rows:
            continue
        found = _readers(old, new)
        if found is None:
            continue
        room -= found[0] * max(before.rows, after.rows)
        if room < 0:
            return
        yield name, found


def _readers(old: Elements, new: Elements) -> tuple[int, Read, Read] | None:
    if isinstance(old, Numbers) and isinstance(new, Numbers) and old.form == new.form:
        return old.item, old.raw, new.raw
    was, now = values_of(old), values_of(new)
    if was is None or now is None:
        return None
    numbers: dict[object, int] = {}
    try:
        sides = [array("I", [numbers.setdefault(value, len(numbers)) for value in side]) for side in (was, now)]
    except TypeError:  # what has no hash
        return None
    return sides[0].itemsize, _reader(sides[0]), _reader(sides[1])


def _reader(codes: array[int]) -> Read:
    return lambda position, count: codes[position : position + count].tobytes()


def _rows(columns: Sequence[tuple[int, Read]], count: int, ids: dict[bytes, int]) -> list[int]:
    """A number for each row, the same for rows that hold the same."""
    found: list[int] = []
    width = sum(item for item, _ in columns)
    for start in range(0, count, _BLOCK):
        many = min(_BLOCK, count - start)
        block, at = bytearray(many * width), 0
        for item, read in columns:
            content = read(start, many)
            for byte in range(item):  # one byte of all rows at a time: a loop over rows would take far longer
                block[at + byte :: width] = content[byte::item]
            at += item
        rows = bytes(block)
        found += [
            ids.setdefault(xxh3_128_digest(rows[position : position + width]), len(ids))
            for position in range(0, many * width, width)
        ]
    return found


# Matching -------------------------------------------------------------------------------------------------------------


class _Patience:
    """Two sequences of numbers, matched in order."""

    def __init__(self, old: Sequence[int], new: Sequence[int]) -> None:
        self._old, self._new = old, new
        self._mates = [-1] * len(new)
        self._visits = _VISITS * (len(old) + len(new)) + 1_000

    def mates(self) -> list[int]:
        """For each of the new ones the place of its mate, -1: none."""
        stack = [(0, len(self._old), 0, len(self._new))]
        while stack:
            alo, ahi, blo, bhi = self._trim(*stack.pop())
            self._visits -= ahi - alo + bhi - blo
            if alo == ahi or blo == bhi or self._visits < 0:
                continue
            anchors = self._anchors(alo, ahi, blo, bhi)
            if not anchors:
                self._match_rest(alo, ahi, blo, bhi)
            for was, now in anchors:
                self._mates[now] = was
                stack.append((alo, was, blo, now))
                alo, blo = was + 1, now + 1
            if anchors:
                stack.append((alo, ahi, blo, bhi))
        return self._mates

    def _trim(self, alo: int, ahi: int, blo: int, bhi: int) -> tuple[int, int, int, int]:
        """Match what is the same at both ends."""
        old, new, mates = self._old, self._new, self._mates
        while alo < ahi and blo < bhi and old[alo] == new[blo]:
            mates[blo] = alo
            alo, blo = alo + 1, blo + 1
        while alo < ahi and blo < bhi and old[ahi - 1] == new[bhi - 1]:
            ahi, bhi = ahi - 1, bhi - 1
            mates[bhi] = ahi
        return alo, ahi, blo, bhi

    def _anchors(self, alo: int, ahi: int, blo: int, bhi: int) -> list[tuple[int, int]]:
        """What stands once on either side, as far as it is in the same order."""
        was, now = _once(self._old, alo, ahi), _once(self._new, blo, bhi)
        return _in_order(
            [(was[one], position) for one, position in now.items() if position >= 0 and was.get(one, -1) >= 0]
        )

    def _match_rest(self, alo: int, ahi: int, blo: int, bhi: int) -> None:
        """Rows that stand there several times: the shortest way from the old to the new ones (Myers, 1986)."""
        old, new, high, wide = self._old, self._new, ahi - alo, bhi - blo
        if abs(high - wide) > _MOST_EDITS or set(old[alo:ahi]).isdisjoint(new[blo:bhi]):
            return
        far, trace = {1: 0}, list[dict[int, int]]()  # how far each diagonal reaches, with so many edits
        for edits in range(_MOST_EDITS):
            trace.append(dict(far))
            for line in range(-edits, edits + 1, 2):
                down = line == -edits or (line != edits and far[line - 1] < far[line + 1])
                first = x = far[line + 1] if down else far[line - 1] + 1
                while x < high and x - line < wide and old[alo + x] == new[blo + x - line]:
                    x += 1
                far[line] = x
                self._visits -= x - first + 1
                if x >= high and x - line >= wide:
                    self._take_back(trace, alo, blo, line, x)
                    return
            if self._visits < 0:
                return

    def _take_back(self, trace: list[dict[int, int]], alo: int, blo: int, line: int, x: int) -> None:
        """Walk the way back, and match what is the same along it."""
        for edits in range(len(trace) - 1, -1, -1):
            far = trace[edits]
            down = line == -edits or (line != edits and far[line - 1] < far[line + 1])
            before = line + 1 if down else line - 1
            start = far[before] if down else far[before] + 1
            for position in range(start if edits else 0, x):
                self._mates[blo + position - line] = alo + position
            line, x = before, far[before]


def _once(numbers: Sequence[int], start: int, stop: int) -> dict[int, int]:
    """Where each stands; -1: in several places."""
    found: dict[int, int] = {}
    for position in range(start, stop):
        one = numbers[position]
        found[one] = -1 if one in found else position
    return found


def _in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, sorted by their second places, whose first places grow too (patience sorting)."""
    tops: list[int] = []  # the smallest end of a run of each length
    ends: list[int] = []
    before: list[int] = []
    for number, (position, _) in enumerate(pairs):
        at = len(tops) if not tops or position > tops[-1] else bisect_left(tops, position)
        tops[at : at + 1] = [position]
        ends[at : at + 1] = [number]
        before.append(ends[at - 1] if at else -1)
    found: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _gaps(mates: Sequence[int], rows: int) -> Iterator[tuple[range, range]]:
    """What lies between rows that are the same, on either side."""
    was = now = 0
    for position, mate in enumerate([*mates, rows]):
        if mate < 0:
            continue
        if mate > was and position > now:
            yield range(was, mate), range(now, position)
        was, now = mate + 1, position + 1


def _move(old: Sequence[int], new: Sequence[int], mates: list[int]) -> int:
    """Match rows that stand elsewhere as they were, and count them."""
    taken, unmatched = set(mates), defaultdict[int, list[int]](list)
    for position in range(len(old) - 1, -1, -1):
        if position not in taken:
            unmatched[old[position]].append(position)
    moved = 0
    for position, mate in enumerate(mates):
        if mate < 0 and unmatched.get(new[position]):
            mates[position] = unmatched[new[position]].pop()
            moved += 1
    return moved


def _alike(
    before: Frame, after: Frame, columns: Sequence[str], removed: Sequence[int], added: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Which of the rows that went is which of those that came in its place, with other cells, in order."""
    if len(columns) == 1:  # then nothing of a row is left where a cell changed
        yield from zip(removed, added, strict=False) if len(removed) == len(added) else ()
        return
    if len(removed) == len(added):
        yield from (
            pair for pair in zip(removed, added, strict=True) if _share(before, after, columns, *pair) >= _ALIKE
        )
        return
    if len(removed) * len(added) > _MOST_PAIRS:
        return
    first = 0
    for was in removed:
        shares = [_share(before, after, columns, was, now) for now in added[first:]]
        best = max(shares, default=0.0)
        if best >= _ALIKE:
            now = first + shares.index(best)
            yield was, added[now]
            first = now + 1


def _share(before: Frame, after: Frame, columns: Sequence[str], was: int, now: int) -> float:
    """The share of the cells that are the same, of the first columns."""
    names = columns[:32]
    return sum(not differ(_at(before, name, was), _at(after, name, now)) for name in names) / len(names)


def _at(frame: Frame, name: str, position: int) -> object:
    column = frame.columns[name]
    return None if column is None else column.at(position)


# -- which rows of two versions of a table belong together, and which of them differ
#
# Where the labels are the same, each row stands where it stood, and pieces of memory that are stored once are not even
# read. Otherwise rows are told apart by their labels, or by what they hold where the labels are numbers that were given anew.

MOST_ROWS = 12  # rows that changed
FEWEST = 5
_MOST_LABELS = 100_000  # rows of tables whose labels are compared
_SAMPLE = 64  # places at which it is seen whether a column varies
_MOST_COMPARED = 128_000_000  # of columns that are compared
_MOST_CELLS = 1_000_000  # of all columns that are compared one by one
SOME, UNKNOWN = -1, -2  # changed cells of a column: nobody knows how many, or whether there are any


class Rows(msgspec.Struct):
    """Which rows to show: their places on either side, -1 for a missing row."""

    changed: list[tuple[int, int]]
    others: list[tuple[int, int]]
    cells: dict[str, int]  # changed cells by column, or one of the two below
    added: int = 0
    removed: int = 0
    why_not: str = ""  # they cannot be compared
    many: int = 0  # rows that changed, in all
    matched: MovedRows | None = None  # where they were told apart by what they hold
    moved: int = 0  # where they were told apart by their labels: how many stand on another side of others


def rows_of(before: Frame | None, after: Frame | None) -> Rows:
    first = before or after
    if before is None or after is None:
        count = first.rows if first is not None else 0
        positions = range(min(count, FEWEST))
        return Rows([], [(-1, at) if before is None else (at, -1) for at in positions], {})
    has_same_rows = before.rows == after.rows and is_same(before.stored, after.stored, before.axis, after.axis)
    found = _by_position(before, after) if has_same_rows else _by_label(before, after)
    if _may_be_renumbered(before, after, found) and not (has_same_rows and _has_unchanged_column(before, after, found)):
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


def _has_unchanged_column(before: Frame, after: Frame, found: Rows) -> bool:
    """Whether a column that is not the same all the way down is as it was: then the rows stand where they stood."""
    columns = (after.columns[name] for name in after.names if name in before.parts and name not in found.cells)
    return any(column is not None and _varies(column) for column in columns)


def _varies(column: Elements) -> bool:
    first = column.at(0) if column.count else None
    step = max(1, column.count // _SAMPLE)
    return any(differ(column.at(position), first) for position in range(0, column.count, step))


def _by_content(before: Frame, after: Frame, found: Rows) -> Rows:
    """Rows are told apart by what they hold, if that leaves less to say than their labels do."""
    match = match_rows(before, after)
    cost = found.many + found.added + found.removed
    if match is None:
        return found
    names = [name for name in after.names if name in before.parts]
    cells: dict[str, int] = {}
    for name in names:
        many = _cells_of(before, after, name, match)
        if many:
            cells[name] = many
    if not found.why_not and match.cost >= cost:
        # As many rows, but fewer of their cells: rows went, and one column changed from top to bottom.
        by_content = _cost_of(cells, match.cost, len(match.removed) + len(match.added) + match.moved / 2, names)
        if by_content >= _cost_of(found.cells, found.many, found.added + found.removed, names):
            return found
    half, changed = MOST_ROWS // 3, set(match.changed)
    first = [
        *match.changed[:half],
        *((-1, position) for position in match.added[:half]),
        *((position, -1) for position in match.removed[:half]),
    ]
    pairs = ((mate, position) for position, mate in enumerate(match.mates) if mate >= 0)
    others = list(islice((pair for pair in pairs if pair not in changed), MOST_ROWS + FEWEST))
    removed, added, many = len(match.removed), len(match.added), len(match.changed)
    return Rows(first, others, cells, added, removed, many=many, matched=match)


def _cost_of(cells: dict[str, int], rows: float, whole: float, names: Sequence[str]) -> float:
    """How many cells there are to say something of: those that changed, and all of the rows that came, went and moved."""
    return sum(count if count > 0 else rows for count in cells.values()) + whole * len(names)


def _cells_of(before: Frame, after: Frame, name: str, match: MovedRows) -> int:
    old, new = before.columns[name], after.columns[name]
    if name not in match.columns or old is None or new is None or len(match.changed) > _MOST_LABELS:
        return UNKNOWN
    return sum(differ(old.at(was), new.at(now)) for was, now in match.changed)


def _by_position(before: Frame, after: Frame) -> Rows:
    """The labels are the same, so each row stands where it stood."""
    changed: dict[int, None] = {}
    cells: dict[str, int] = {}
    room = _MOST_COMPARED
    for name in after.names:
        if name not in before.parts or is_same_column(
            before.stored, after.stored, before.parts[name], after.parts[name]
        ):
            continue
        room -= 16 * after.rows
        many, positions = _compare_column(before, after, name) if room > 0 else (UNKNOWN, [])
        if many:
            cells[name] = many
        changed.update(dict.fromkeys(positions))
    positions = sorted(changed)
    others = [(at, at) for at in range(min(after.rows, MOST_ROWS + FEWEST)) if at not in changed]
    many = after.rows if SOME in cells.values() or UNKNOWN in cells.values() else len(positions)
    return Rows([(at, at) for at in positions], others, cells, many=many)


def _compare_column(before: Frame, after: Frame, name: str) -> tuple[int, list[int]]:
    """Return how many rows of a column differ, and the first of them."""
    found = compare_columns(before.stored, after.stored, before.parts[name], after.parts[name])
    if found is not None:
        return SOME if found.uncompared else found.many, found.positions
    old, new = before.columns[name], after.columns[name]
    if isinstance(old, Numbers) and isinstance(new, Numbers):  # it lies elsewhere among other columns now
        positions = old.find_differences(new)
        if positions is not None:
            return len(positions), positions
    many, pairs = _pairs(before, after, name, [(at, at) for at in range(after.rows)])
    if many == UNKNOWN and isinstance(old, Chained) and isinstance(new, Chained):
        many = SOME  # memory of its own, which is another one
    return many, [at for at, _ in pairs]


def _pairs(
    before: Frame, after: Frame, name: str, positions: Sequence[tuple[int, int]]
) -> tuple[int, list[tuple[int, int]]]:
    """How many cells of a column differ, and where; UNKNOWN where some cannot be read, or not in a moment."""
    old, new = before.columns[name], after.columns[name]
    was, now = None if old is None else all_of(old), None if new is None else all_of(new)
    if was is None or now is None or len(was) < before.rows or len(now) < after.rows:
        return UNKNOWN, []
    found = [pair for pair in positions if differ(was[pair[0]], now[pair[1]])]
    is_sure = not any(was[one] is UNREAD and now[other] is UNREAD for one, other in positions)
    return len(found) if is_sure else SOME if found else UNKNOWN, found


def _by_label(before: Frame, after: Frame) -> Rows:
    """Rows are told apart by their labels."""
    if max(before.rows, after.rows) > _MOST_LABELS:
        return Rows([], [], {}, why_not="There are too many rows to compare them by their labels.")
    old, new = _positions_of(before), _positions_of(after)
    if old is None or new is None:
        return Rows([], [], {}, why_not="The rows of the two versions cannot be told apart by their labels.")
    shared = [(old[label], position) for label, position in new.items() if label in old]
    added = [(-1, position) for label, position in new.items() if label not in old]
    removed = [(position, -1) for label, position in old.items() if label not in new]
    cells: dict[str, int] = {}
    changed: dict[tuple[int, int], None] = {}
    names = [name for name in after.names if name in before.parts]
    for name in names[: max(1, _MOST_CELLS // max(1, len(shared)))]:
        many, found = _pairs(before, after, name, shared)
        if many:
            cells[name] = many
        changed.update(dict.fromkeys(found))
    cells |= dict.fromkeys(names[max(1, _MOST_CELLS // max(1, len(shared))) :], UNKNOWN)
    half = MOST_ROWS // 3
    first = [*islice(changed, half), *added[:half], *removed[:half]]
    rest = [pair for pair in shared[: MOST_ROWS + FEWEST] if pair not in changed]
    moved = len(shared) - len(_in_order(shared))
    return Rows(first, rest, cells, len(added), len(removed), many=len(changed), moved=moved)


def _positions_of(frame: Frame) -> dict[object, int] | None:
    """Where each label stands; None where one stands for several rows, or they cannot be read."""
    labels = None if frame.labels is None else all_of(frame.labels)
    if labels is None or len(labels) < frame.rows:
        return None
    found = {label: position for position, label in enumerate(labels[: frame.rows])}
    return found if len(found) == frame.rows and UNREAD not in found else None


_COLUMNS = 12  # that are shown, those that changed before others


def diff_tables(before: Frame | None, after: Frame | None) -> tuple[TableDiff, str]:
    """Two versions of a table, or the one that there is, and what to say below."""
    rows = rows_of(before, after)
    columns = _columns(before, after, rows)
    first = sorted(columns, key=lambda column: not column.how)[:_COLUMNS]
    selected = [column for column in columns if column in first]
    positions = [*rows.changed[:MOST_ROWS], *rows.others][: max(FEWEST, len(rows.changed[:MOST_ROWS]))]
    cells = [_column_cells(before, after, column, positions) for column in selected]
    table_rows = (
        _row(before, after, selected, position, found)
        for position, found in zip(positions, zip(*cells, strict=True), strict=True)
    )
    diff = TableDiff(tuple(selected), tuple(table_rows))
    return diff, _note(before, after, rows, columns, diff)


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
        found.append(Column(shorten_line(name), shorten_line(after.dtypes[name]), how))
    if before is not None:
        gone = [name for name in before.names if after is None or name not in after.parts]
        how = "-" if after is not None else ""
        found += [Column(shorten_line(name), shorten_line(before.dtypes[name]), how) for name in gone]
    return found


def _row(
    before: Frame | None,
    after: Frame | None,
    columns: Sequence[Column],
    position: tuple[int, int],
    cells: Sequence[Cell],
) -> TableRow:
    was, now = position
    # In a record one entry may name what another one holds: ("password", "hunter2").
    for side in ("old", "new"):
        labeled = zip(columns, cells, strict=True)
        if any(names_its_neighbours(column.name, getattr(cell, side)) for column, cell in labeled):
            cells = [msgspec.structs.replace(cell, old=_hidden(cell.old), new=_hidden(cell.new)) for cell in cells]
    label = _label(after, now) or _label(before, was)
    if previews.names_a_secret(label):
        cells = [msgspec.structs.replace(cell, old=_hidden(cell.old), new=_hidden(cell.new)) for cell in cells]
    how: Mark = ""
    if before is not None and after is not None:
        how = "+" if was < 0 else "-" if now < 0 else "~" if any(cell.how == "~" for cell in cells) else ""
    return TableRow(label, how, tuple(cells))


def _hidden(text: str | None) -> str | None:
    return None if text is None else previews.MASK


def _label(frame: Frame | None, position: int) -> str:
    if frame is None or position < 0:
        return ""
    found = frame.labels.at(position) if frame.labels is not None and position < frame.labels.count else UNREAD
    return f"row {position:,}" if found is UNREAD else text_of(found)


def _column_cells(
    before: Frame | None, after: Frame | None, column: Column, positions: Sequence[tuple[int, int]]
) -> list[Cell]:
    """The cells of a column, written alike."""
    pairs = [(_value(before, column.name, was), _value(after, column.name, now)) for was, now in positions]
    if previews.names_a_secret(column.name):
        return [
            Cell(previews.MASK if had else None, previews.MASK if has else None, "") for (_, had), (_, has) in pairs
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


def _value(frame: Frame | None, name: str, position: int) -> tuple[object, bool]:
    """A value, and whether there is one."""
    if frame is None or position < 0 or name not in frame.columns:
        return None, False
    column = frame.columns[name]
    return (UNREAD if column is None or position >= column.count else column.at(position)), True


def _note(before: Frame | None, after: Frame | None, rows: Rows, columns: Sequence[Column], diff: TableDiff) -> str:
    return " ".join(_sentences(before, after, rows, columns, diff))


def _sentences(
    before: Frame | None, after: Frame | None, rows: Rows, columns: Sequence[Column], diff: TableDiff
) -> Iterator[str]:
    if rows.why_not:
        yield rows.why_not
    if rows.matched is not None:
        yield row_moves(rows.matched)
    elif rows.moved and after is not None:
        yield f"{_sentence(_describe_moved(rows.moved, after.rows))}."
    parts = [f"{plural(count, 'cell')} changed in {name}" for name, count in rows.cells.items() if count > 0]
    parts += [f"{name} changed" for name, count in rows.cells.items() if count == SOME]
    parts += [f"{name} was not compared" for name, count in rows.cells.items() if count == UNKNOWN]
    if len(parts) > 4:
        parts = [*parts[:4], f"{len(parts) - 4} more columns"]
    for noun, added, removed in (
        ("row", rows.added, rows.removed) if rows.matched is None else ("row", 0, 0),
        ("column", sum(column.how == "+" for column in columns), sum(column.how == "-" for column in columns)),
    ):
        parts += [f"{plural(added, noun)} added"] if added else []
        parts += [f"{plural(removed, noun)} removed"] if removed else []
    if parts:
        yield f"{', '.join(parts)}."
    total = max(frame.rows for frame in (before, after) if frame is not None)
    counts = [f"{len(diff.rows)} of {plural(total, 'row')}"] if len(diff.rows) < total and not rows.why_not else []
    if len(diff.columns) < len(columns):
        counts.append(f"{len(diff.columns)} of {plural(len(columns), 'column')}")
    if counts:
        yield f"Shows {' and '.join(counts)}."


def row_moves(found: MovedRows) -> str:
    """Which rows were removed and added, and where the rest stand: `40 rows removed; the rest moved up.`"""
    removed, added = len(found.removed), len(found.added)
    parts = [f"{plural(removed, 'row')} removed"] if removed else []
    parts += [f"{plural(added, 'row')} added"] if added else []
    if found.moved:
        rest = _describe_moved(found.moved, len(found.mates), "the rest" if parts else "the rows")
    elif any(mate >= 0 and mate != position for position, mate in enumerate(found.mates)):
        way = "" if removed and added else " up" if removed else " down" if added else ""
        rest = f"the rest moved{way}"
    else:
        rest = "" if parts else "the rows have other labels"
    return f"{_sentence('; '.join(filter(None, (', '.join(parts), rest))))}."


def _describe_moved(moved: int, rows: int, which: str = "the rows") -> str:
    if moved * 2 > rows:
        return f"{which} are in another order"
    return f"{plural(moved, 'row')} stand{'s' * (moved == 1)} elsewhere"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


# -- rows in a few lines of text, for a terminal

_MOST_LINES = 8  # rows that are told


def row_lines(repo: Repository, old: Entry, new: Entry) -> tuple[str, ...] | None:
    """Which rows went, came and changed, in lines; None where rows only changed in place, or cannot be told apart."""
    known = [summary_of(repo, entry) for entry in (old, new)]
    before, after = known
    if before is None or after is None or not {before.kind, after.kind} <= {"frame", "series"}:
        return None
    if any(is_hidden(side) or (side.kind == "series" and side.masked) for side in (before, after)):
        return None
    try:
        stored = [read_stored(repo, entry) for entry in (old, new)]
        if any(side is None or is_named_a_secret(side) for side in stored):
            return None
        frames = [
            frame_of(side, known) for side, known in zip(stored, (before, after), strict=True) if side is not None
        ]
        if frames[0] is None or frames[1] is None:
            return None
        return _row_lines(frames[0], frames[1])
    except (StoreError, IndexError, RecursionError, ValueError):
        return None  # damaged, or made by nobody's pickler


def _row_lines(before: Frame, after: Frame) -> tuple[str, ...] | None:
    rows = rows_of(before, after)
    if rows.why_not or not (rows.added or rows.removed or rows.matched or rows.moved):
        return None
    found = _columns(before, after, rows)
    columns = [column for column in found if column in sorted(found, key=lambda one: not one.how)[:_COLUMNS]]
    order = sorted(rows.changed, key=lambda pair: (pair[1] >= 0, pair[0] < 0, pair))  # those that went first
    positions = order[:_MOST_LINES]
    cells = [_column_cells(before, after, column, positions) for column in columns]
    lines = [row_moves(rows.matched).rstrip(".")] if rows.matched is not None else []
    lines += [_sentence(_describe_moved(rows.moved, after.rows))] if rows.moved else []
    for position, row in zip(positions, zip(*cells, strict=True), strict=True):
        lines.append(_row_line(_row(before, after, columns, position, row), columns))
    more = rows.many + rows.added + rows.removed - len(positions)
    return (*lines, f"… and {plural(more, 'more row')}") if more else tuple(lines)


def _row_line(row: TableRow, columns: Sequence[Column]) -> str:
    """`row 3, a: 1 → 2`, `row 3 is gone: a 1, b missing`."""
    label = row.label if row.label.startswith("row ") else f"row {row.label}"
    cells = list(zip(columns, row.cells, strict=True))
    if row.how not in ("+", "-"):
        return f"{label}, " + ", ".join(
            f"{column.name}: {cell.old} → {cell.new}" for column, cell in cells if cell.how == "~"
        )
    texts = ((column.name, cell.old if row.how == "-" else cell.new) for column, cell in cells)
    values = ", ".join(f"{name} {text}" for name, text in texts if text is not None)
    return f"{label} is {'gone' if row.how == '-' else 'new'}: {values}"


# -- tables and series that are not read, by the first rows that were noted when they were committed


def diff_previews(before: previews.Preview | None, after: previews.Preview | None) -> TableDiff | None:
    """The first rows as they were noted, of tables that are not read."""
    sides = [side for side in (before, after) if side is not None and side.columns]
    if not sides or (before is not None and after is not None and len(sides) < 2):
        return None
    old, new = (_read_noted(side) for side in (before, after))
    names = list(dict.fromkeys([*new, *old]))[:_COLUMNS]
    columns = tuple(
        Column(shorten_line(name), shorten_line((new.get(name) or old[name])[0]), _how(old, new, name))
        for name in names
    )
    count = max(len(side.rows) for side in sides)
    rows = tuple(
        TableRow(f"row {at}", "", tuple(_compare_noted(old, new, name, at) for name in names)) for at in range(count)
    )
    return TableDiff(columns, rows)


def diff_series(before: previews.Preview | None, after: previews.Preview | None) -> TableDiff | None:
    """The first values as they were noted, of a series that is not read."""
    sides = [side for side in (before, after) if side is not None]
    if not sides or not all(side.rows for side in sides):
        return None
    kinds = [shorten_line(side.dtype) for side in sides]
    count = max(len(side.rows) for side in sides)
    rows: list[TableRow] = []
    for at in range(count):
        old, new = (
            shorten_line(side.rows[at][0]) if side and at < len(side.rows) else None for side in (before, after)
        )
        changed: Mark = "~" if None not in (old, new) and old != new else ""
        rows.append(TableRow(f"row {at}", changed, (Cell(old, new, changed),)))
    return TableDiff((Column("values", kinds[-1], "~" if kinds[0] != kinds[-1] else ""),), tuple(rows))


def _read_noted(side: previews.Preview | None) -> dict[str, tuple[str, list[str]]]:
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


def _compare_noted(
    old: dict[str, tuple[str, list[str]]], new: dict[str, tuple[str, list[str]]], name: str, at: int
) -> Cell:
    texts = [
        shorten_line(side[name][1][at]) if name in side and at < len(side[name][1]) else None for side in (old, new)
    ]
    changed = None not in texts and texts[0] != texts[1]
    return Cell(
        texts[0], texts[1], "~" if changed else _how(old, new, name) if _how(old, new, name) in ("+", "-") else ""
    )
