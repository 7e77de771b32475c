"""The arrays that pandas keeps its columns in: dtype, first values and bytes, by the array's exact type.

pandas lets anyone write such an array, so a frame's own properties cannot be trusted to run pandas' code only. What
is not listed here is shown by its type's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from agent_kernel.values.summaries.arrays import dtype_text, first_values
from agent_kernel.values.summaries.arrow import arrow_bytes, arrow_counts, arrow_first, arrow_type, may_read_types
from agent_kernel.values.summaries.cells import Verbatim, has_known_zone
from agent_kernel.values.summaries.known import ExactTypes
from agent_kernel.values.summaries.reading import exact_str, type_name
from agent_kernel.values.summaries.wording import MORE, clean


class Held(NamedTuple):
    """How one kind of array is read. `row` picks a column where several share a two-dimensional array."""

    dtype: Callable[[Any], str]
    first: Callable[[Any, int, int], list[object]]  # (array, row, count)
    memory: tuple[str, ...] = ()  # attributes that hold numpy arrays
    counts: Callable[[Any, int], tuple[int, int, int] | None] | None = None


def held_dtype(array: object) -> str:
    """The dtype as pandas writes it, or the qualified name of an array type that is not pandas' own."""
    held = _ARRAYS.of(array)
    return type_name(array) if held is None else held.dtype(array)


def held_first(array: object, row: int, count: int) -> list[object]:
    """The first values of a column; empty where they may not be read."""
    held = _ARRAYS.of(array)
    return [] if held is None else held.first(array, row, count)


def held_counts(array: object, row: int) -> tuple[int, int, int] | None:
    """How many values of a column are True, False and missing; None for what holds no Booleans."""
    held = _ARRAYS.of(array)
    return None if held is None or held.counts is None else held.counts(array, row)


def held_bytes(array: object) -> int:
    """Bytes of the array without those of Python objects in it; 0 if unknown."""
    held = _ARRAYS.of(array)
    if held is None:
        return 0
    if held.first in (_arrow_first, _arrow_checked_first):
        return arrow_bytes(_arrow(array))
    parts: list[Any] = [getattr(array, name) if name else array for name in held.memory]
    return sum(part.nbytes for part in parts)


def held_length(array: Any) -> int:
    """Rows of a one-dimensional array, -1 if it is not pandas' own."""
    return -1 if _ARRAYS.of(array) is None else len(array)


def held_at(array: Any, place: int) -> object:
    """The value at one place of a one-dimensional array."""
    found = held_first(array[place : place + 1], 0, 1) if _ARRAYS.of(array) is not None else []
    return found[0] if found else Verbatim(MORE)


def array_of(index: Any) -> object:
    """The array under an index, the range of a RangeIndex, or the index itself if it is not pandas' own."""
    if _RANGE_INDEX.of(index):
        return index._range
    return index._data if _INDEXES.of(index) else index


def _numpy_first(array: Any, row: int, count: int) -> list[object]:
    return first_values(array[row] if array.ndim == 2 else array, count)


def _numpy_counts(array: Any, row: int) -> tuple[int, int, int] | None:
    if array.dtype.kind != "b":
        return None
    column = array[row] if array.ndim == 2 else array
    true = int(column.sum())
    return true, len(column) - true, 0


def _masked_counts(array: Any, row: int) -> tuple[int, int, int] | None:
    if array._data.dtype.kind != "b":
        return None
    missing = int(array._mask.sum())
    true = int((array._data & ~array._mask).sum())
    return true, len(array._data) - true - missing, missing


def _arrow_checked_counts(array: Any, row: int) -> tuple[int, int, int] | None:
    return arrow_counts(_arrow(array)) if may_read_types() else None


def _moments_dtype(array: Any) -> str:
    dtype = array.dtype
    zone = getattr(dtype, "tz", None)
    if zone is None:
        return dtype_text(array._ndarray.dtype)
    return f"datetime64[{dtype.unit}, {clean(str(zone)) if has_known_zone(zone) else MORE}]"


def _moments_first(array: Any, row: int, count: int) -> list[object]:
    return _numpy_first(array._ndarray, row, count)


def _masked_dtype(array: Any) -> str:
    name = dtype_text(array._data.dtype)
    return "boolean" if name == "bool" else f"UI{name[2:]}" if name[0] == "u" else name.capitalize()


def _masked_first(array: Any, row: int, count: int) -> list[object]:
    missing = array._mask[:count].tolist()
    values = first_values(array._data, count)
    return [_NA if gone else value for gone, value in zip(missing, values, strict=True)]


def _categories_first(array: Any, row: int, count: int) -> list[object]:
    codes = array._codes
    codes = (codes[row] if codes.ndim == 2 else codes)[:count].tolist()
    categories = array_of(array.dtype.categories)
    return [held_at(categories, code) if code >= 0 else None for code in codes]


def _arrow(array: Any) -> Any:
    return array._pa_array


def _arrow_first(array: Any, row: int, count: int) -> list[object]:
    return arrow_first(_arrow(array), count)


def _arrow_dtype(array: Any) -> str:
    return f"{arrow_type(_arrow(array).type)}[pyarrow]" if may_read_types() else "pyarrow"


def _arrow_checked_first(array: Any, row: int, count: int) -> list[object]:
    return _arrow_first(array, row, count) if may_read_types() else []


def _numpy_dtype(array: Any) -> str:
    return dtype_text(array.dtype)


def _own_dtype(array: Any) -> str:
    return exact_str(str(array.dtype))


def _wrapped_first(array: Any, row: int, count: int) -> list[object]:
    return first_values(array._ndarray, count)


def _range_first(array: range, row: int, count: int) -> list[object]:
    return list(array[:count])


def _unread(array: Any, row: int, count: int) -> list[object]:
    return []


def _always(dtype: str) -> Callable[[Any], str]:
    return lambda array: dtype


_NA = Verbatim("<NA>")
_MOMENTS = Held(_moments_dtype, _moments_first, ("_ndarray",))
_MASKED = Held(_masked_dtype, _masked_first, ("_data", "_mask"), _masked_counts)

_ARRAYS: ExactTypes[Held] = ExactTypes(
    [(range, Held(_always("int64"), _range_first))],
    {
        "numpy:ndarray": Held(_numpy_dtype, _numpy_first, ("",), _numpy_counts),
        "pandas.arrays:DatetimeArray": _MOMENTS,
        "pandas.arrays:TimedeltaArray": _MOMENTS,
        "pandas.arrays:IntegerArray": _MASKED,
        "pandas.arrays:FloatingArray": _MASKED,
        "pandas.arrays:BooleanArray": _MASKED,
        "pandas.arrays:StringArray": Held(_own_dtype, _wrapped_first, ("_ndarray",)),
        "pandas.arrays:NumpyExtensionArray": Held(_own_dtype, _wrapped_first, ("_ndarray",)),
        "pandas.arrays:ArrowStringArray": Held(_own_dtype, _arrow_first),
        "pandas.arrays:ArrowExtensionArray": Held(_arrow_dtype, _arrow_checked_first, (), _arrow_checked_counts),
        "pandas:Categorical": Held(_always("category"), _categories_first, ("_codes",)),
        "pandas.arrays:PeriodArray": Held(_always("period"), _unread, ("_ndarray",)),
        "pandas.arrays:IntervalArray": Held(_always("interval"), _unread),
        "pandas.arrays:SparseArray": Held(_always("Sparse"), _unread, ("_sparse_values",)),
    },
)

_RANGE_INDEX: ExactTypes[bool] = ExactTypes([], {"pandas:RangeIndex": True})
_INDEXES: ExactTypes[bool] = ExactTypes(
    [],
    {f"pandas:{kind}Index": True for kind in ("", "Datetime", "Timedelta", "Period", "Categorical", "Interval")},
)
