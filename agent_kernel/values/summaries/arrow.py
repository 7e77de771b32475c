"""Summaries of pyarrow tables and arrays, and first cells of arrow memory for everyone who needs them.

Only primitive types are converted: an extension type's `as_py` is anyone's code. A size is a walk over chunks, so it
is left out where there are many.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agent_kernel.values.summaries.cells import Verbatim, label, moment_text
from agent_kernel.values.summaries.known import ExactTypes
from agent_kernel.values.summaries.model import Summary
from agent_kernel.values.summaries.reading import exact_str, loaded, type_name
from agent_kernel.values.summaries.tables import BIGGEST_HEAD, CELLS, MOST_COLUMNS, ROWS, Field, column, table
from agent_kernel.values.summaries.wording import clean, cut

_MOST_CHUNKS = 200
_FEW = 7
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}

_PRIMITIVE: ExactTypes[bool] = ExactTypes([], {"pyarrow:DataType": True, "pyarrow:Decimal128Type": True})
_TIMESTAMP: ExactTypes[bool] = ExactTypes([], {"pyarrow:TimestampType": True})


def arrow_table(value: Any, hide: bool) -> Summary:
    """A table or record batch by its columns and first rows."""
    schema = value.schema
    fields: list[Field] = []
    chunks = 0
    for place in range(min(value.num_columns, MOST_COLUMNS)):
        held = value.column(place)
        chunks += _chunks(held)
        name = label(exact_str(schema.field(place).name))
        fields.append(Field(name, arrow_type(held.type), arrow_first(held, ROWS) if place < CELLS else ()))
    size = value.nbytes if chunks <= _MOST_CHUNKS and value.num_columns <= MOST_COLUMNS else 0
    return table(type_name(value), (value.num_rows, value.num_columns), fields, hide=hide, size_bytes=size)


def arrow_array(value: Any, hide: bool) -> Summary:
    """An array or chunked array by its type, length and first values."""
    field = Field("", arrow_type(value.type), arrow_first(value, _FEW))
    return column("series", type_name(value), len(value), field, hide=hide, size_bytes=arrow_bytes(value))


def arrow_type(kind: Any) -> str:
    """Arrow's own words for the type, written by its C++ side."""
    base: Any = loaded("pyarrow", "DataType")
    return cut(clean(exact_str(base.__str__(kind))[:200]), 40)


def arrow_bytes(value: Any) -> int:
    """Bytes of an array's buffers; 0 where counting would be a long walk."""
    size: int = value.nbytes if _chunks(value) <= _MOST_CHUNKS else 0
    return size


def arrow_first(value: Any, count: int) -> list[object]:
    """The first values of an array or chunked array as plain objects; empty where they may not be read."""
    kind = value.type
    first = value.slice(0, count)
    if _TIMESTAMP.of(kind):
        return [_moment(found.value, kind.unit) for found in first]
    if not _PRIMITIVE.of(kind) or first.nbytes > BIGGEST_HEAD:
        return []
    found: list[object] = first.to_pylist()
    return found


def _moment(ticks: int | None, unit: str) -> Verbatim | None:
    if ticks is None:
        return None
    micros = ticks // 1_000 if unit == "ns" else ticks * _TICKS[unit]
    try:
        return Verbatim(moment_text((_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat()))
    except OverflowError:
        return Verbatim(f"{ticks} {unit}")


def _chunks(value: Any) -> int:
    count: int = getattr(value, "num_chunks", 1)
    return count
