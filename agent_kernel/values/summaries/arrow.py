"""Summaries of pyarrow tables and arrays, and first cells of arrow memory for everyone who needs them.

Only primitive types are converted: an extension type's `as_py` is anyone's code. Even to look at a type can run code,
because arrow rebuilds an extension type's Python object on demand: as long as the process holds extension types other
than pandas' own, only tables whose schema has none are read. A size is a walk over chunks, so it is left out where
there are many.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from agent_kernel.values.summaries.cells import Verbatim, label, moment_text
from agent_kernel.values.summaries.known import ExactTypes
from agent_kernel.values.summaries.model import Summary
from agent_kernel.values.summaries.reading import class_dict, exact_str, loaded, module_name, qualified_name, type_name
from agent_kernel.values.summaries.tables import BIGGEST_HEAD, CELLS, MOST_COLUMNS, ROWS, Field, column, table
from agent_kernel.values.summaries.wording import MORE, clean, cut

_MOST_CHUNKS = 200
_FEW = 7
_EXTENSION = b"ARROW:extension:name"  # in the serialized schema, which arrow writes without asking Python
_subclasses_of: Callable[[object], list[type]] = class_dict(type)["__subclasses__"]  # type: ignore[assignment]  # a slot
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}

_PRIMITIVE: ExactTypes[bool] = ExactTypes([], {"pyarrow:DataType": True, "pyarrow:Decimal128Type": True})
_TIMESTAMP: ExactTypes[bool] = ExactTypes([], {"pyarrow:TimestampType": True})


def arrow_table(value: Any, hide: bool) -> Summary:
    """A table or record batch by its columns and first rows."""
    schema = value.schema
    if not may_read_types() and _EXTENSION in schema.serialize().to_pybytes():
        names = [Field(label(exact_str(name)), MORE) for name in schema.names[:MOST_COLUMNS]]
        return table(type_name(value), (value.num_rows, value.num_columns), names, hide=hide)
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
    if not may_read_types():
        return Summary("series", type_name(value), shape=(len(value),), size_bytes=arrow_bytes(value), masked=hide)
    field = Field("", arrow_type(value.type), arrow_first(value, _FEW))
    return column("series", type_name(value), len(value), field, hide=hide, size_bytes=arrow_bytes(value))


def may_read_types() -> bool:
    """Whether looking at a type runs arrow's code only: no extension type but pandas' own exists."""
    known = [loaded("pyarrow", "ExtensionType")]
    for kind in known:
        for derived in _subclasses_of(kind) if kind is not None else ():
            module = module_name(derived)
            if not module.startswith(("pandas.", "pyarrow.")) or loaded(module, qualified_name(derived)) is not derived:
                return False
            known.append(derived)
    return True


def arrow_type(kind: object) -> str:
    """Arrow's own words for a primitive type, the name of the kind for a nested one."""
    if _PRIMITIVE.of(kind) or _TIMESTAMP.of(kind):
        return cut(clean(exact_str(str(kind))), 40)
    return qualified_name(type(kind)).removesuffix("Type").lower()


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


def arrow_counts(value: Any) -> tuple[int, int, int] | None:
    """How many values of an array or chunked array are True, False and missing; None for what holds no Booleans."""
    if not _PRIMITIVE.of(value.type) or arrow_type(value.type) != "bool" or _chunks(value) > _MOST_CHUNKS:
        return None
    true = sum(chunk.true_count for chunk in getattr(value, "chunks", [value]))
    missing: int = value.null_count
    return true, len(value) - true - missing, missing


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
