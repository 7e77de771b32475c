"""Where two stored versions of an array or a table differ: which columns, how many values, in which rows.

The memory of arrays is stored beside the pickle stream, in pieces that go by their content. Pieces of the same id are the
same and are not even read; of the others the bytes are compared. Nothing is unpickled, and no value is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan, prod
from typing import Final, TypeAlias, cast

import msgspec

from agent_kernel.errors import StoreError
from agent_kernel.repository import Blob, Entry, Manifest
from agent_kernel.repository.blobs import read_blob
from agent_kernel.session import Repository
from agent_kernel.values.groups import decode_layout
from agent_kernel.values.peeking import Buffer, Call, calls, peek
from agent_kernel.values.summaries import Summary
from agent_kernel.verbs.text import clean, plural
from agent_kernel.verbs.unlike import Unlike, unlike

__all__ = ["differences"]

_ARRAY: Final = "agent_kernel.values.restore.arrays.array"
_BLOCK: Final = "pandas._libs.internals._unpickle_block"
_SERIES: Final = "pandas.core.internals.managers.SingleBlockManager"
_MOST_STREAM: Final = 1_000_000  # bytes
_MOST_PLACES: Final = 100_000  # columns of one block
_MOST_COLUMNS: Final = 8  # that are told

Part: TypeAlias = "tuple[Call, int]"  # a block of a table, and which row of it is the column


class _Side(msgspec.Struct, frozen=True):
    """One stored version."""

    repo: Repository
    blobs: tuple[Blob, ...]  # of the buffers
    value: object  # the description of the stream


def differences(repo: Repository, old: Entry, new: Entry, summary: Summary) -> tuple[str, ...]:
    """Lines that say where the contents differ; none where that cannot be told. `summary` is that of the new one."""
    sides = [_side(repo, entry) for entry in (old, new)]
    before, after = sides
    if before is None or after is None:
        return ()
    try:
        if summary.kind in ("frame", "series"):
            return tuple(_in_table(before, after, summary))
        return tuple(_in_array(before, after))
    except (StoreError, IndexError, RecursionError):
        return ()  # damaged, or made by nobody's pickler: the summaries still say what they say


def _side(repo: Repository, entry: Entry) -> _Side | None:
    manifest: Manifest = repo.read_manifest(entry)
    layout = decode_layout(manifest.layout)
    if entry.leader or layout.skeletons or layout.streams != 1 or layout.form or not manifest.blobs:
        return None
    stream = manifest.blobs[0]
    if stream.size > _MOST_STREAM:
        return None
    value = peek(bytes(read_blob(repo.objects, stream)))
    return None if value is None else _Side(repo, manifest.blobs[1:], value)


def _in_array(before: _Side, after: _Side) -> Iterator[str]:
    old, new = before.value, after.value
    if not (isinstance(old, Call) and isinstance(new, Call) and old.name == new.name == _ARRAY):
        return
    if old.args[1:4] != new.args[1:4]:
        return
    shape, order = new.args[2], new.args[3]
    total = prod(_integers(shape))
    found = _unlike(before, after, old, new, 0, total)
    if found is not None and found.many:
        row = prod(_integers(shape)[1:])  # elements of one step along the first axis, as they lie in memory
        yield found.told(total, "value", row if len(_integers(shape)) == 1 or order == "C" else 0)


def _in_table(before: _Side, after: _Side, summary: Summary) -> Iterator[str]:
    old, new = _columns(before), _columns(after)
    if old is None or new is None or old.keys() != new.keys():
        return
    lines = [line for position in sorted(new) if (line := _in_column(before, after, position, old, new, summary))]
    yield from lines[:_MOST_COLUMNS]
    if len(lines) > _MOST_COLUMNS:
        yield f"… and {plural(len(lines) - _MOST_COLUMNS, 'column')} more"


def _columns(side: _Side) -> dict[int, Part] | None:
    """By position: the block that holds the column. None: it is no table as pandas stores it."""
    found: dict[int, Part] = {}
    for block in calls(side.value, _BLOCK):
        if len(block.args) != 3:
            return None
        places = _placement(side, block.args[1])
        if places is None:
            return None
        found |= {place: (block, row) for row, place in enumerate(places)}
    return found or _single(side)


def _single(side: _Side) -> dict[int, Part] | None:
    """A series keeps its one array in the state of its manager."""
    managers = calls(side.value, _SERIES)
    state = _items(managers[0].state[0]) if len(managers) == 1 and managers[0].state else ()
    values = _items(state[1]) if len(state) > 1 else ()
    return {0: (Call(_BLOCK, (values[0],)), 0)} if len(values) == 1 else None


def _placement(side: _Side, where: object) -> Sequence[int] | None:
    if not isinstance(where, Call):
        return None
    if where.name == "builtins.slice":
        bounds = _integers(where.args)
        places = range(bounds[0], bounds[1], bounds[2]) if len(bounds) == 3 and bounds[2] else range(0)
        return places if 0 < len(places) <= _MOST_PLACES else None
    if where.name == _ARRAY and where.args[1] == "<i8" and isinstance(where.args[0], Buffer):
        blob = side.blobs[where.args[0].position]
        return list(memoryview(bytes(read_blob(side.repo.objects, blob))).cast("q"))
    return None


def _in_column(
    before: _Side, after: _Side, position: int, old: dict[int, Part], new: dict[int, Part], summary: Summary
) -> str:
    (was, was_row), (now, row) = old[position], new[position]
    named = summary.kind == "frame"
    known = position < len(summary.columns)
    column = f"column {clean(summary.columns[position].name) if known else position}: " if named else ""
    dense, former = _dense(now.args[0]), _dense(was.args[0])
    if _same(before, after, was.args[0], now.args[0]):
        return ""
    if dense is None or former is None or row != was_row or not _are_alike(dense, former):
        return f"{column}contents differ"
    if not _same(before, after, was.args[0], now.args[0], frozenset([id(former), id(dense)])):
        return f"{column}contents differ"  # also what its values stand for
    rows = _integers(dense.args[2])[-1]
    found = _unlike(before, after, former, dense, row * rows, rows)
    if found is None:
        return f"{column}contents differ"
    return column + found.told(rows, "row" if named else "value", 1) if found.many else ""


def _dense(values: object) -> Call | None:
    """The one array that holds the values of a block; None where there are several (codes and categories, chunks)."""
    arrays = calls(values, _ARRAY)
    return arrays[0] if len(arrays) == 1 else None


def _are_alike(one: Call, other: Call) -> bool:
    """Whether both lie in memory in the same way, column after column."""
    shape = _integers(one.args[2])
    return bool(shape) and one.args[1:4] == other.args[1:4] and (len(shape) == 1 or one.args[3] == "C")


def _unlike(before: _Side, after: _Side, old: Call, new: Call, start: int, many: int) -> Unlike | None:
    was, now = old.args[0], new.args[0]
    if not isinstance(was, Buffer) or not isinstance(now, Buffer):
        return None
    whole = prod(_integers(new.args[2]))
    return unlike(after.repo, before.blobs[was.position], after.blobs[now.position], whole, start, many)


def _items(found: object) -> tuple[object, ...]:
    return tuple(cast("Sequence[object]", found)) if isinstance(found, (tuple, list)) else ()


def _integers(found: object) -> tuple[int, ...]:
    return tuple(one for one in _items(found) if isinstance(one, int))


def _same(before: _Side, after: _Side, old: object, new: object, but: frozenset[int] = frozenset()) -> bool:
    """Whether two descriptions, and the buffers that they speak of, are equal. `but`: calls to pass over, by identity."""
    if isinstance(old, Buffer) and isinstance(new, Buffer):
        # The same content is stored under the same ids, cut at the same places.
        return before.blobs[old.position] == after.blobs[new.position]
    if isinstance(old, Call) and isinstance(new, Call):
        if id(old) in but and id(new) in but:
            return True
        parts = ((old.args, new.args), (old.state, new.state))
        return old.name == new.name and all(_same(before, after, one, other, but) for one, other in parts)
    if isinstance(old, (tuple, list)) and isinstance(new, (tuple, list)):
        one, other = _items(cast("object", old)), _items(cast("object", new))
        return len(one) == len(other) and all(_same(before, after, *pair, but) for pair in zip(one, other, strict=True))
    if isinstance(old, float) and isinstance(new, float) and isnan(old):
        return isnan(new)  # the missing value of a column
    return old == new
