"""Rebuild polars and pyarrow data; pandas frames rebuild themselves around restored arrays."""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from importlib import import_module
from typing import Any

from agent_kernel.values.restore.buffers import StoredBytes, bytes_of, fresh_memory


def polars_series(state: StoredBytes | tuple[str, Any, list[Any]]) -> Any:
    """From the bytes that polars gave, or from a name, a type and pieces, some of them arrays whose memory it looks at."""
    import polars as pl

    if isinstance(state, tuple):
        name, dtype, pieces = state
        first, *others = (_polars_piece(name, dtype, piece) for piece in pieces)
        for other in others:
            first.append(other)
        return first
    made = pl.Series.__new__(pl.Series)
    made.__setstate__(bytes(bytes_of(state)))
    return made


def _polars_piece(name: str, dtype: Any, piece: Any) -> Any:
    import numpy as np
    import polars as pl

    if isinstance(piece, list):
        return pl.DataFrame([polars_series(field) for field in piece]).to_struct(name)
    if not isinstance(piece, np.ndarray):
        return polars_series(piece)
    made = pl.Series(name, piece)
    return made if made.dtype == dtype else made.cast(dtype)


def polars_frame(columns: list[Any]) -> Any:
    import polars as pl

    return pl.DataFrame([polars_series(state) for state in columns])


def arrow_column(kind: Any, chunks: Any, state: dict[str, object]) -> Any:
    """A pandas column over Arrow chunks as they were."""
    made = kind.__new__(kind)
    made.__dict__.update(state, _pa_array=chunks)
    return made


def table_state(made: Any, state: tuple[dict[str, Any], dict[object, Any], dict[str, object]]) -> None:
    """Fill a frame or series, and let it have the very dict of its attributes, and the columns that others took."""
    ours, columns, own = state
    made.__setstate__(dict(ours))
    object.__setattr__(made, "_attrs", ours["attrs"])
    for label, column in columns.items():
        made._item_cache[label] = column
        column._set_as_cached(label, made)
    for name, found in own.items():
        object.__setattr__(made, name, found)


def index_of_several(make: Any, arguments: tuple[Any, dict[str, Any]]) -> Any:
    """A MultiIndex with the very levels and codes that it had."""
    kind, said = arguments
    made = make(kind, dict(said))
    frozen = type(made._codes)
    made._codes = frozen(said["codes"])
    for level in said["levels"]:
        level._no_setting_name = True
    made._cache["levels"] = frozen(said["levels"])
    return made


def span(kind: Any, value: int, unit: int) -> Any:
    """A span of time of a class that was made of pandas' own."""
    return kind._from_value_and_reso(value, unit)


def index_of_intervals(kind: Any, intervals: Any, name: object) -> Any:
    """An IntervalIndex, with ends that may be out of order."""
    return kind._simple_new(intervals, name=name)


def index(make: Any, arguments: tuple[Any, ...], known: Any) -> Any:
    """An index of an array that is a block's too; `known` is what both have in common."""
    made = make(*arguments)
    made._references = known
    known.add_index_reference(made)
    return made


def references() -> Any:
    """What pandas knows of the blocks that share memory, so that it copies before it writes."""
    internals: Any = import_module("pandas._libs.internals")
    return internals.BlockValuesRefs()


def block(make: Any, arguments: tuple[Any, ...], known: Any) -> Any:
    """A block of a frame that shares memory with others; `known` is the one object that they have in common."""
    made = make(*arguments)
    made.refs = known
    known.add_reference(made)
    return made


def arrow_text(kind: str, is_column: bool, length: int, offset: int, buffers: list[Any]) -> Any:
    """An array of text, or the column that it is the only chunk of."""
    import pyarrow as pa

    held = [None if one is None else pa.py_buffer(one if type(one) is bytes else fresh_memory(one)) for one in buffers]
    array = getattr(pa, kind).from_buffers(length, held[1], held[2], held[0], -1, offset)
    return pa.chunked_array([array]) if is_column else array


def arrow_buffer(array: Any) -> Any:
    """The memory of an array, which it has too."""
    import pyarrow as pa

    return pa.py_buffer(array)


def arrow_slice(kind: str, image: StoredBytes) -> Any:
    import pyarrow as pa

    table = pa.ipc.open_stream(pa.py_buffer(bytes_of(image))).read_all()
    if kind == "Table":
        return table
    if kind == "RecordBatch":
        return table.combine_chunks().to_batches()[0]
    column = table.column(0)
    if kind == "ChunkedArray":
        return column
    joined = column.combine_chunks()  # an array, or in older releases still one chunk
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined
