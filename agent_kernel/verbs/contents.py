"""Where two stored versions of an array or a table differ: which columns, how many values, in which rows.

The memory of arrays is stored beside the pickle stream, in pieces that go by their content. Pieces of the same id are the
same and are not even read; of the others the bytes are compared. Nothing is unpickled, and no value is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from agent_kernel.errors import StoreError
from agent_kernel.repository import Entry
from agent_kernel.session import Repository
from agent_kernel.values.peeking import Buffer, Call
from agent_kernel.values.summaries import Summary
from agent_kernel.verbs.stored import ARRAY, Part, Stored, columns_of, dense_array, integers, same, stored
from agent_kernel.verbs.text import clean, plural
from agent_kernel.verbs.unlike import Unlike, unlike

__all__ = ["differences", "same_column", "unlike_column"]

_MOST_COLUMNS: Final = 8  # that are told


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
    except (StoreError, IndexError, RecursionError):
        return ()  # damaged, or made by nobody's pickler: the summaries still say what they say


def _in_array(before: Stored, after: Stored) -> Iterator[str]:
    old, new = before.value, after.value
    if not (isinstance(old, Call) and isinstance(new, Call) and old.name == new.name == ARRAY):
        return
    if old.args[1:4] != new.args[1:4]:
        return
    shape, order = new.args[2], new.args[3]
    total = prod(integers(shape))
    found = _unlike(before, after, old, new, 0, total)
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
    now = dense_array(new[position][0].args[0])
    rows = integers(now.args[2])[-1] if now is not None else 0
    return column + found.told(rows, "row" if named else "value", 1) if found.many or found.left else ""


def same_column(before: Stored, after: Stored, old: Part, new: Part) -> bool:
    """Whether a column's block is stored as it was."""
    return old[1] == new[1] and same(before, after, old[0].args[0], new[0].args[0])


def unlike_column(before: Stored, after: Stored, old: Part, new: Part) -> Unlike | None:
    """Which rows of a column differ; None where that cannot be told from its memory."""
    (was, was_row), (now, row) = old, new
    dense, former = dense_array(now.args[0]), dense_array(was.args[0])
    if dense is None or former is None or row != was_row or not _are_alike(dense, former):
        return None
    if not same(before, after, was.args[0], now.args[0], frozenset([id(former), id(dense)])):
        return None  # also what its values stand for
    rows = integers(dense.args[2])[-1]
    return _unlike(before, after, former, dense, row * rows, rows)


def _are_alike(one: Call, other: Call) -> bool:
    """Whether both lie in memory in the same way, column after column."""
    shape = integers(one.args[2])
    return bool(shape) and one.args[1:4] == other.args[1:4] and (len(shape) == 1 or one.args[3] == "C")


def _unlike(before: Stored, after: Stored, old: Call, new: Call, start: int, many: int) -> Unlike | None:
    was, now = old.args[0], new.args[0]
    if not isinstance(was, Buffer) or not isinstance(now, Buffer):
        return None
    whole = prod(integers(new.args[2]))
    return unlike(after.repo, before.blobs[was.position], after.blobs[now.position], whole, start, many)
