"""Where two stored versions of an array or a table differ: which columns, how many values, in which rows.

The memory of arrays is stored beside the pickle stream, in pieces that go by their content. Pieces of the same id are the
same and are not even read; of the others the bytes are compared. Nothing is unpickled, and no value is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final, cast

from agent_kernel.errors import StoreError
from agent_kernel.repository import Entry
from agent_kernel.repository.blobs import read_blob
from agent_kernel.session import Repository
from agent_kernel.values.peeking import Buffer, Call, calls
from agent_kernel.values.summaries import Summary
from agent_kernel.verbs.stored import (
    ARRAY,
    OBJECTS,
    Part,
    Stored,
    atoms_of,
    code_size,
    columns_of,
    integers,
    items_of,
    only_call,
    same,
    stored,
)
from agent_kernel.verbs.text import clean, plural
from agent_kernel.verbs.unlike import Unlike, in_units, unlike, unlike_numbers

__all__ = ["differences", "same_column", "unlike_column"]

_MOST_COLUMNS: Final = 8  # that are told
_MOST_CODES: Final = 4_000_000  # objects of a column
_OF_A_CLASS: Final = "agent_kernel.values.restore.arrays.array_subclass"
_VIEWS: Final = ("agent_kernel.values.restore.arrays.view", "agent_kernel.values.restore.arrays.object_view")
_ARRAYS: Final = (ARRAY, OBJECTS, _OF_A_CLASS)


def differences(repo: Repository, old: Entry, new: Entry, summary: Summary) -> tuple[str, ...]:
    """Lines that say where the contents differ; none where that cannot be told. `summary` is that of the new one."""
    sides = [stored(repo, entry) for entry in (old, new)]
    before, after = sides
    if before is None or after is None:
        return ()
    try:
        if summary.kind in ("frame", "series"):
            return tuple(_in_table(before, after, summary))
        return tuple(_in_array(before, after))
    except (StoreError, IndexError, RecursionError, ValueError):
        return ()  # damaged, or made by nobody's pickler: the summaries still say what they say


def _in_array(before: Stored, after: Stored) -> Iterator[str]:
    old, new = before.value, after.value
    if not (isinstance(old, Call) and isinstance(new, Call) and old.name == new.name and new.name in _ARRAYS):
        return
    arrays = _both(old, new)
    if arrays is None or not same(before, after, old, new, frozenset(map(id, arrays))):
        return
    was, now = arrays
    shape, order = now.args[2], now.args[3]
    total = prod(integers(shape))
    if was.args[2:4] != (shape, order):
        return
    found = _unlike(before, after, was, now, 0, total)
    if found is not None and (found.many or found.left):
        row = prod(integers(shape)[1:])  # elements of one step along the first axis, as they lie in memory
        yield found.told(total, "value", row if len(integers(shape)) == 1 or order == "C" else 0)


def _in_table(before: Stored, after: Stored, summary: Summary) -> Iterator[str]:
    old, new = columns_of(before), columns_of(after)
    if old is None or new is None or old.keys() != new.keys():
        return
    lines = [line for position in sorted(new) if (line := _in_column(before, after, position, old, new, summary))]
    yield from lines[:_MOST_COLUMNS]
    if len(lines) > _MOST_COLUMNS:
        yield f"… and {plural(len(lines) - _MOST_COLUMNS, 'column')} more"


def _in_column(
    before: Stored, after: Stored, position: int, old: dict[int, Part], new: dict[int, Part], summary: Summary
) -> str:
    named = summary.kind == "frame"
    known = position < len(summary.columns)
    column = f"column {clean(summary.columns[position].name) if known else position}: " if named else ""
    if same_column(before, after, old[position], new[position]):
        return ""
    found = unlike_column(before, after, old[position], new[position])
    if found is None:
        return f"{column}contents differ"
    arrays = _both(old[position][0].args[0], new[position][0].args[0])
    rows = integers(arrays[1].args[2])[-1] if arrays is not None else 0
    return column + found.told(rows, "row" if named else "value", 1) if found.many or found.left else ""


def same_column(before: Stored, after: Stored, old: Part, new: Part) -> bool:
    """Whether a column's block is stored as it was."""
    return old[1] == new[1] and same(before, after, old[0].args[0], new[0].args[0])


def unlike_column(before: Stored, after: Stored, old: Part, new: Part) -> Unlike | None:
    """Which rows of a column differ; None where that cannot be told from its memory."""
    (was, was_row), (now, row) = old, new
    arrays = _both(was.args[0], now.args[0])
    if arrays is None or row != was_row or not _are_alike(*arrays):
        return None
    former, dense = arrays
    if not same(before, after, was.args[0], now.args[0], frozenset([id(former), id(dense)])):
        return None  # also what its values stand for
    rows = integers(dense.args[2])[-1]
    return _unlike(before, after, former, dense, row * rows, rows)


def _both(old: object, new: object) -> tuple[Call, Call] | None:
    """The one array that holds the values on either side: of plain memory, or of objects; none where they are views."""
    if any(calls(side, view) for side in (old, new) for view in _VIEWS):
        return None  # of the memory that they look at other tables may hold the rest
    for name in (ARRAY, OBJECTS):
        was, now = only_call(old, name), only_call(new, name)
        if was is not None and now is not None and len(was.args) > 3 and len(now.args) > 3:
            return was, now
    return None


def _are_alike(one: Call, other: Call) -> bool:
    """Whether both lie in memory in the same way, column after column."""
    shape = integers(one.args[2])
    return bool(shape) and one.args[2:4] == other.args[2:4] and (len(shape) == 1 or one.args[3] == "C")


def _unlike(before: Stored, after: Stored, old: Call, new: Call, start: int, many: int) -> Unlike | None:
    was, now = old.args[0], new.args[0]
    if not isinstance(was, Buffer) or not isinstance(now, Buffer):
        return None
    if new.name == OBJECTS:
        return _unlike_objects(before, after, old, new, start, many)
    if old.args[1] != new.args[1]:  # of another kind
        return None
    whole = prod(integers(new.args[2]))
    return unlike(after.repo, before.blobs[was.position], after.blobs[now.position], whole, start, many)


def _unlike_objects(before: Stored, after: Stored, old: Call, new: Call, start: int, many: int) -> Unlike | None:
    """Which objects differ: equal ones may have other codes on either side, so those are numbered anew."""
    was, now = atoms_of(before, old), atoms_of(after, new)
    if was is None or now is None or many > _MOST_CODES:
        return None
    numbers = _Numbers()
    first, second = [numbers.of(atom) for atom in was], [numbers.of(atom) for atom in now]
    one, other = _codes(before, old, len(was), start, many), _codes(after, new, len(now), start, many)
    return unlike_numbers(map(first.__getitem__, one), map(second.__getitem__, other), many)


def _codes(side: Stored, array: Call, distinct: int, start: int, many: int) -> Sequence[int]:
    codes = array.args[0]
    blob = side.blobs[codes.position] if isinstance(codes, Buffer) else None
    if blob is None or not blob.size:  # all are distinct
        return range(start, start + many)
    size = code_size(distinct)
    return in_units(bytes(read_blob(side.repo.objects, blob)), size)[start : start + many]


class _Numbers:
    """Gives descriptions of atoms that nobody could tell apart the same number: 1 and True are two."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}
        self._seen: dict[int, int] = {}  # by id: a stream may speak of the same tuple very often

    def of(self, atom: object) -> int:
        if isinstance(atom, str):
            return self._known.setdefault(atom, len(self._known))
        if not isinstance(atom, (Call, tuple, list)):
            key = (type(atom), repr(atom) if isinstance(atom, float) else atom)
            return self._known.setdefault(key, len(self._known))
        found = self._seen.get(id(cast("object", atom)))
        if found is None:
            name = atom.name if isinstance(atom, Call) else ""
            parts = (*atom.args, *atom.state) if isinstance(atom, Call) else items_of(cast("object", atom))
            found = self._known.setdefault((Call, name, *map(self.of, parts)), len(self._known))
            self._seen[id(cast("object", atom))] = found
        return found
