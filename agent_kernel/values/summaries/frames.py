"""Summaries of pandas frames, series and indexes, read from the block manager rather than asked of the frame.

`df.shape`, `df.dtypes` and `df.memory_usage` call into the index and the columns' arrays, and anyone can write those.
The manager holds them in plain attributes; each is used only if its type is exactly one of pandas' own. So a subclass
of DataFrame is as safe to read as a DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from agent_kernel.values.summaries.cells import CELL, Verbatim, label
from agent_kernel.values.summaries.columns import (
    array_of,
    held_at,
    held_bytes,
    held_counts,
    held_dtype,
    held_first,
    held_length,
)
from agent_kernel.values.summaries.known import ExactTypes
from agent_kernel.values.summaries.model import Summary
from agent_kernel.values.summaries.reading import entry, exact_items, instance_dict, shallow_size, type_name
from agent_kernel.values.summaries.tables import (
    CELLS,
    MOST_COLUMNS,
    MOST_COUNTED,
    ROWS,
    Field,
    column,
    counts_text,
    table,
)
from agent_kernel.values.summaries.wording import MORE, cut

_FEW = 7
_MOST_BLOCKS = 1_000
_WIDEST = 20_000  # columns; above it pandas' table of column places is not asked for

_MANAGERS: ExactTypes[bool] = ExactTypes(
    [],
    {
        "pandas.core.internals.managers:BlockManager": True,
        "pandas.core.internals.managers:SingleBlockManager": True,
    },
)
_MULTI: ExactTypes[bool] = ExactTypes([], {"pandas:MultiIndex": True})


def dataframe(value: Any, hide: bool) -> Summary:
    """A frame by its rows and columns, the dtypes of the first columns and the first rows."""
    manager = _manager(value)
    if manager is None:
        return Summary("frame", type_name(value), size_bytes=shallow_size(value), masked=hide)
    names, rows = manager.axes
    width = index_length(names)
    height = index_length(rows)
    fields = list(_fields(manager, names, width)) if 0 <= width <= _WIDEST else []
    return table(
        type_name(value),
        (height, width),
        fields,
        hide=hide,
        size_bytes=_bytes(manager),
        note=_index_note(rows),
        labels=index_first(rows, ROWS),
    )


def series(value: Any, hide: bool) -> Summary:
    """A series by its length, dtype, name and first values."""
    manager = _manager(value)
    if manager is None:
        return Summary("series", type_name(value), size_bytes=shallow_size(value), masked=hide)
    array = manager.blocks[0].values
    rows = manager.axes[0]
    field = Field(_name(value), held_dtype(array), held_first(array, 0, _FEW), _counts(array, 0, index_length(rows)))
    return column(
        "series",
        type_name(value),
        index_length(rows),
        field,
        hide=hide,
        size_bytes=_bytes(manager),
        labels=index_first(rows, _FEW),
    )


def index(value: Any, hide: bool) -> Summary:
    """An index by its length, dtype, name and first values."""
    size = 0 if _MULTI.of(value) else held_bytes(array_of(value))
    dtype = "" if _MULTI.of(value) else held_dtype(array_of(value))
    field = Field(_name(value), dtype, [_shown(found) for found in index_first(value, _FEW)])
    return column("index", type_name(value), index_length(value), field, hide=hide, size_bytes=size)


def index_length(index: Any) -> int:
    """Rows of an index; -1 if it is not pandas' own."""
    return held_length(index._codes[0]) if _MULTI.of(index) else held_length(array_of(index))


def index_first(index: Any, count: int) -> list[object]:
    """The first labels of an index; those of several levels as tuples."""
    if not _MULTI.of(index):
        return held_first(array_of(index), 0, count)
    levels: list[list[object]] = [
        [held_at(array_of(level), code) if code >= 0 else None for code in codes[:count].tolist()]
        for level, codes in zip(index._levels, index._codes, strict=True)
    ]
    return list(zip(*levels, strict=True))


def _manager(value: object) -> Any:
    manager = entry(instance_dict(value), "_mgr")
    return manager if _MANAGERS.of(manager) else None


def _fields(manager: Any, names: Any, width: int) -> Iterator[Field]:
    shown = min(width, MOST_COLUMNS)
    labels = index_first(names, shown)
    blocks, places = manager.blknos[:shown].tolist(), manager.blklocs[:shown].tolist()
    dtypes: dict[int, str] = {}
    rows, counted = index_length(manager.axes[1]), 0
    for place in range(shown):
        array = manager.blocks[blocks[place]].values
        dtype = dtypes.get(blocks[place]) or dtypes.setdefault(blocks[place], held_dtype(array))
        first = held_first(array, places[place], ROWS) if place < CELLS else ()
        counts = _counts(array, places[place], rows) if counted + rows <= MOST_COUNTED else ""
        counted += rows if counts else 0
        yield Field(_label(labels[place]) if labels else MORE, dtype, first, counts)


def _counts(array: object, row: int, rows: int) -> str:
    found = held_counts(array, row) if 0 < rows <= MOST_COUNTED else None
    return "" if found is None else counts_text(*found)


def _shown(found: object) -> object:
    return Verbatim(_label(found)) if exact_items(found) else found


def _label(found: object) -> str:
    parts = exact_items(found)
    return cut(f"({', '.join(label(part, CELL) for part in parts)})", 40) if parts else label(found)


def _name(value: object) -> str:
    name = entry(instance_dict(value), "_name")
    return "" if name is None else _label(name)


def _bytes(manager: Any) -> int:
    blocks = sum(held_bytes(block.values) for block in islice(manager.blocks, _MOST_BLOCKS))
    rows = manager.axes[-1]
    return blocks + (0 if _MULTI.of(rows) else held_bytes(array_of(rows)))


def _index_note(rows: object) -> str:
    name = type_name(rows).rpartition(".")[2]
    return "" if name in ("RangeIndex", "Index") else name
