"""Summaries of polars frames and series. A lazy frame is named and never collected."""

from __future__ import annotations

from typing import Any

from agent_kernel.values.summaries.cells import label
from agent_kernel.values.summaries.known import ExactTypes
from agent_kernel.values.summaries.model import Summary
from agent_kernel.values.summaries.reading import loaded, type_name
from agent_kernel.values.summaries.tables import (
    BIGGEST_HEAD,
    CELLS,
    MOST_COLUMNS,
    MOST_COUNTED,
    ROWS,
    Field,
    column,
    counts_text,
    table,
)
from agent_kernel.values.summaries.wording import MORE

_FEW = 7
_WIDEST = 20_000

# Extension types and objects are anyone's, nested ones may hold them: only these are converted.
_PLAIN = (
    "Int8 Int16 Int32 Int64 Int128 UInt8 UInt16 UInt32 UInt64 Float16 Float32 Float64 Boolean String Binary "
    "Date Datetime Duration Time Decimal Categorical Enum Null"
)
_DTYPES: ExactTypes[bool] = ExactTypes([], {f"polars:{name}": True for name in _PLAIN.split()})
_OBJECTS: ExactTypes[bool] = ExactTypes([], {"polars:Object": True})


def polars_frame(value: Any, hide: bool) -> Summary:
    """A frame by its rows and columns, the dtypes of the first columns and the first rows."""
    width = value.width
    if not _may_read_dtypes():
        fields = [Field(label(name), MORE) for name in value.columns[:MOST_COLUMNS]]
        return table("polars.DataFrame", (value.height, width), fields, hide=hide)
    fields = [_field(value, place) for place in range(min(width, MOST_COLUMNS))]
    # In older releases of polars asking for the size of objects panics, past `except Exception`.
    size = value.estimated_size() if width <= _WIDEST and not any(map(_OBJECTS.of, value.dtypes)) else 0
    return table("polars.DataFrame", (value.height, width), fields, hide=hide, size_bytes=size)


def polars_series(value: Any, hide: bool) -> Summary:
    """A series by its length, dtype, name and first values."""
    if not _may_read_dtypes():
        return Summary("series", "polars.Series", shape=(len(value),), masked=hide)
    size = 0 if _OBJECTS.of(value.dtype) else value.estimated_size()
    name = label(value.name) if value.name else ""
    field = Field(name, dtype_name(value), _first(value, _FEW), _counts(value))
    return column("series", "polars.Series", len(value), field, hide=hide, size_bytes=size, is_read=False)


def polars_lazy(value: object, hide: bool) -> Summary:
    """A query that has not run: its plan says nothing in short."""
    return Summary("object", "polars.LazyFrame", masked=hide)


def _may_read_dtypes() -> bool:
    # polars asks a registered extension type's class for each dtype that it hands out.
    registry = loaded("polars.datatypes.extension", "_REGISTRY")
    return type(registry) is not dict or not registry


def dtype_name(series: Any) -> str:
    """The dtype's class name; its parameters could be anyone's."""
    return type_name(series.dtype).rpartition(".")[2]


def _field(frame: Any, place: int) -> Field:
    series = frame.to_series(place)
    counts = _counts(series) if len(series) * MOST_COLUMNS <= MOST_COUNTED else ""
    return Field(label(series.name), dtype_name(series), _first(series, ROWS) if place < CELLS else (), counts)


def _counts(series: Any) -> str:
    if dtype_name(series) != "Boolean" or not _DTYPES.of(series.dtype) or not 0 < len(series) <= MOST_COUNTED:
        return ""
    true, missing = int(series.sum() or 0), int(series.null_count())
    return counts_text(true, len(series) - true - missing, missing)


def _first(series: Any, count: int) -> list[object]:
    if not _DTYPES.of(series.dtype):
        return []
    first = series.head(count)
    if first.estimated_size() > BIGGEST_HEAD:
        return []
    found: list[object] = first.to_list()
    return found
