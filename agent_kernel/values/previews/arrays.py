"""Previews of arrays and of tables, whose columns are arrays: numpy, scipy, torch, arrow, pandas and polars.

Only what is exactly of a library's own type is read: a subclass may define how it is indexed. No value of a memory map is read, since
its file may be gone; object cells are shown by their types. `df.shape`, `df.dtypes` and `df.memory_usage` call into the index and the
columns' arrays, and anyone can write those. The block manager holds them in plain attributes; each is used only if its type is exactly
one of pandas' own. So a subclass of DataFrame is as safe to read as a DataFrame.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, zip_longest
from math import prod
from typing import Any, Final, NamedTuple

from agent_kernel.text import MASK, MORE, clean, count_noun, count_text, shorten
from agent_kernel.values.introspection import (
    ExactTypes,
    class_dict,
    derives_from,
    entry,
    exact_items,
    exact_str,
    find_loaded,
    instance_dict,
    module_name,
    qualified_name,
    shallow_size,
    type_name,
)
from agent_kernel.values.previews.model import (
    CELL,
    LONGEST_TEXT,
    Column,
    Preview,
    Verbatim,
    cell,
    has_known_zone,
    is_whole,
    label,
    moment_text,
    number_text,
)
from agent_kernel.values.previews.redaction import labels_a_secret, names_a_secret, names_its_neighbours

# -- numpy's arrays and scipy's sparse matrices, and the first values of an array for everyone who needs them

_FEW = 6  # values that are shown of an array
_READ = _FEW + 1  # and that are read: one more says that there are more
_WIDEST_CELL = 400  # bytes of one element of a fixed-width string dtype
_MOST_FIELDS = 8
_LONGEST_CHAIN = 8  # owners of a view that are followed

_NDARRAYS: ExactTypes[bool] = ExactTypes([], {"numpy:ndarray": True})
_CLOCK_UNITS = ("s]", "[m]", "[h]", "[D]", "[W]")  # years and months have no length
_VIEWS: ExactTypes[bool] = ExactTypes([(memoryview, True)])
_WORDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex", "S": "bytes", "U": "str"}


def ndarray(value: Any, hide: bool) -> Preview:
    """An array by its shape, dtype, bytes and first values."""
    base: Any = find_loaded("numpy", "ndarray")
    dtype = base.dtype.__get__(value)
    shape: tuple[int, ...] = base.shape.__get__(value)
    values = ""
    if is_array(value) and not hide:
        values = values_text(first_values(value, _READ), shape)
        if dtype.kind == "b" and not is_whole(values):
            values = _counts_text(value) or values
    masked = hide or MASK in values
    size = base.nbytes.__get__(value)
    return Preview("array", type_name(value), MASK if hide else values, shape, dtype_text(dtype), size, masked=masked)


def _counts_text(value: Any) -> str:
    """How often each value of a Boolean array occurs; "" where that is not read, or takes too long."""
    if not 0 < value.size <= MOST_COUNTED or _is_memory_mapped(value):
        return ""
    true = int(find_loaded("numpy", "count_nonzero")(value))  # type: ignore[operator]  # numpy's own function
    return counts_text(true, value.size - true)


def is_array(value: object) -> bool:
    """Whether this is an ndarray and no subclass of it."""
    return _NDARRAYS.of(value) is not None


def dtype_text(dtype: Any) -> str:
    """The dtype in numpy's words: `float64`, `datetime64[ns]`, `str12`, `object`, `(x: int64, y: float32)`."""
    kind: str = dtype.kind
    if kind in "Mm":
        unit = exact_str(dtype.str).partition("[")[2]
        return f"{'datetime64' if kind == 'M' else 'timedelta64'}{'[' + unit if unit else ''}"
    if kind == "V" and dtype.names is not None:
        return _fields_text(dtype)
    if kind in "SU":
        return f"{_WORDS[kind]}{dtype.itemsize // (4 if kind == 'U' else 1)}"
    if kind in "iufc" and _is_numpys_own(dtype):
        return f"{_WORDS[kind]}{8 * dtype.itemsize}"
    return {"b": "bool", "O": "object"}.get(kind) or type_name(dtype).rpartition(".")[2]


def _is_numpys_own(dtype: Any) -> bool:
    # 0: an object of its own, as out of a pickle, or numbers in the other byte order; 2: a type that a library added.
    return bool(dtype.isbuiltin == 1 or (dtype.isbuiltin == 0 and dtype.isnative))


def _fields_text(dtype: Any) -> str:
    names = dtype.names
    texts = [f"{clean(exact_str(name)[:40])}: {dtype_text(dtype.fields[name][0])}" for name in names[:_MOST_FIELDS]]
    return shorten(f"({', '.join(texts)}{', ' + MORE if len(names) > _MOST_FIELDS else ''})", LONGEST_TEXT)


def first_values(value: Any, count: int) -> list[object]:
    """The first elements of an ndarray as plain objects; empty where they may not be read.

    Object elements come as they are: show them with `cell`, which does not touch what it does not know.
    """
    dtype = value.dtype
    if (
        dtype.kind not in "biufcSUMmO"
        or (dtype.kind in "iufc" and not _is_numpys_own(dtype))
        or _is_memory_mapped(value)
    ):
        return []
    if dtype.itemsize > _WIDEST_CELL:
        return []
    first = value[:count] if value.ndim == 1 else value.flat[:count]
    if dtype.kind == "m":
        return _durations(first)
    if dtype.kind == "M":
        return [Verbatim(moment_text(found)) for found in first.astype("U").tolist()]
    found: list[object] = first.tolist()
    return found


def _durations(first: Any) -> list[object]:
    found: list[object] = first.astype("m8[us]" if first.dtype.str.endswith(_CLOCK_UNITS) else "i8").tolist()
    return found


def _is_memory_mapped(value: Any) -> bool:
    owner = value
    for _ in range(_LONGEST_CHAIN):
        if is_array(owner):
            owner = owner.base
        elif _VIEWS.of(owner):
            owner = owner.obj
    last: object = owner
    return any(derives_from(type(last), mapped) for mapped in (mmap.mmap, find_loaded("numpy", "memmap")))


def values_text(values: list[object], shape: tuple[int, ...]) -> str:
    """The first values in brackets, with an ellipsis where there are more than are shown."""
    if not values:
        return "[]" if 0 in shape else ""
    if not shape:
        return cell(values[0])
    texts = [number_text(found) for found in values[:_FEW]]
    more = [MORE] if len(values) > _FEW or prod(shape) > len(values) else []
    return shorten(f"[{', '.join([*texts, *more])}]", LONGEST_TEXT)


def sparse(value: Any, hide: bool) -> Preview:
    """A scipy sparse matrix by its shape, dtype, bytes and number of stored elements."""
    attributes = instance_dict(value)
    shape = tuple(extent for extent in exact_items(entry(attributes, "_shape")) if type(extent) is int)
    parts = [entry(attributes, name) for name in ("data", "indices", "indptr", "row", "col", "offsets")]
    arrays: list[Any] = [part for part in (*parts, *exact_items(entry(attributes, "coords"))) if is_array(part)]
    elements: Any = parts[0] if is_array(parts[0]) else None
    return Preview(
        "sparse",
        type_name(value),
        shape=shape,
        dtype="" if elements is None else dtype_text(elements.dtype),
        size_bytes=sum(part.nbytes for part in arrays),
        note="" if elements is None or elements.dtype.kind == "O" else count_noun(elements.size, "stored element"),
        masked=hide,
    )


# -- previews of torch tensors
#
# Values are read from plain tensors in main memory only: a GPU would have to be waited for, and a meta or sparse tensor
# has none at hand. While anyone's function or dispatch mode is on, even `shape` would be its code, so torch's own
# switch turns the one off and the other leaves the tensor unread.

_NUMBER_NAMES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
_NUMBERS = frozenset(_NUMBER_NAMES.split())


def tensor(value: Any, hide: bool) -> Preview:
    """A tensor by its shape, dtype, bytes, device and first values."""
    torch: Any = find_loaded("torch", "_C")
    if torch._len_torch_dispatch_stack():
        return Preview("tensor", type_name(value), size_bytes=shallow_size(value), masked=hide)
    with torch.DisableTorchFunction():
        return _tensor(value, hide)


def _tensor(value: Any, hide: bool) -> Preview:
    shape = tuple(int(extent) for extent in value.shape)
    dtype, device = str(value.dtype).removeprefix("torch."), str(value.device)
    notes = [note for note, holds in ((device, device != "cpu"), ("requires grad", value.requires_grad)) if holds]
    readable = device == "cpu" and str(value.layout) == "torch.strided" and dtype in _NUMBERS
    values = values_text(_first(value), shape) if readable and not hide else ""
    return Preview(
        "tensor",
        type_name(value),
        MASK if hide else values,
        shape,
        dtype,
        value.numel() * value.element_size(),
        note=", ".join(notes),
        masked=hide,
    )


def _first(value: Any) -> list[object]:
    value = value.detach()
    if not value.numel():
        return []
    while value.dim() > 1:  # no flattening: of a tensor that is not contiguous it would be a copy
        value = value[0]
    if value.dim() == 0:
        return [value.item()]
    found: list[object] = value[:_READ].tolist()
    return found


# -- what the previews of pandas, polars and arrow tables have in common: columns, a few rows, and what is masked

MOST_COLUMNS: Final = 40
ROWS: Final = 3
CELLS: Final = 12  # columns whose first values are kept
MOST_COUNTED: Final = 500_000  # Booleans of one table that are counted: microseconds
BIGGEST_HEAD: Final = 65_536  # bytes of the first rows of a column that are converted
_DTYPE_ROOM = 40


class Field(NamedTuple):
    """A column: its name, its dtype, its first values (none where they may not be read), and how often each Boolean occurs."""

    name: str
    of: str
    first: Sequence[object] = ()
    counts: str = ""


def table(
    type_: str,
    shape: tuple[int, int],
    fields: Sequence[Field],
    *,
    hide: bool,
    size_bytes: int = 0,
    note: str = "",
    labels: Sequence[object] = (),
) -> Preview:
    """The preview of a table whose first columns are `fields`, and whose first rows go by `labels`."""
    secret = [hide or names_a_secret(field.name) for field in fields[:CELLS]]
    named = [*map(labels_a_secret, labels[:ROWS]), *(False,) * ROWS]
    rows = tuple(
        _row(fields[:CELLS], [one or named[place] for one in secret], place)
        for place in range(min(ROWS, max(shape[0], 0)) if fields else 0)
    )
    masked = hide or any(MASK in text for row in rows for text in row) or any(MASK in field.name for field in fields)
    return Preview(
        "frame",
        type_,
        shape=shape,
        size_bytes=size_bytes,
        columns=tuple(Column(field.name, shorten(field.of, _DTYPE_ROOM)) for field in fields),
        rows=rows,
        note=note,
        masked=masked,
        counts={} if hide else _counts(fields),
    )


def _counts(fields: Sequence[Field]) -> dict[str, str]:
    names = [field.name for field in fields]  # a table may have two columns of one name: of these nothing is told
    return {
        field.name: field.counts
        for field in fields
        if field.counts and names.count(field.name) == 1 and MASK not in field.name and not names_a_secret(field.name)
    }


def counts_text(true: int, false: int, missing: int = 0) -> str:
    """`True 12, False 3`, and how many are missing where some are."""
    counts = [("True", true), ("False", false), ("missing", missing)]
    return ", ".join(f"{what} {count_text(count)}" for what, count in counts if count or what != "missing")


def _row(fields: Sequence[Field], secret: list[bool], place: int) -> tuple[str, ...]:
    found = [field.first[place] if place < len(field.first) else _MISSING for field in fields]
    hide = any(names_its_neighbours(field.name, value) for field, value in zip(fields, found, strict=True))
    return tuple(
        MASK if hide or hidden else MORE if value is _MISSING else number_text(value)
        for hidden, value in zip(secret, found, strict=True)
    )


_MISSING = object()


def column(
    kind: str,
    type_: str,
    length: int,
    field: Field,
    *,
    hide: bool,
    size_bytes: int = 0,
    note: str = "",
    labels: Sequence[object] = (),
    is_read: bool = True,
) -> Preview:
    """The preview of a single named column: a series, an index, an arrow array.

    Args:
        labels: what its first values go by.
        is_read: its values can be read from what is stored, so that they need no place in the preview.
    """
    hide = hide or names_a_secret(field.name) or any(map(names_its_neighbours, labels, field.first))
    values = [Verbatim(MASK) if labels_a_secret(label) else one for label, one in zip_longest(labels, field.first)]
    text = MASK if hide else values_text(values[: len(field.first)], (max(length, 0),))
    if field.counts and not hide and MASK not in text and not is_whole(text):
        text = field.counts
    return Preview(
        kind,
        type_,
        text,
        (length,),
        shorten(field.of, _DTYPE_ROOM),
        size_bytes,
        rows=() if is_read or hide else tuple((number_text(one),) for one in values[: len(field.first)]),
        note=note or (f"name {cell(field.name)}" if field.name else ""),
        masked=MASK in text or any(map(labels_a_secret, labels)),
    )


# -- previews of pyarrow tables and arrays, and first cells of arrow memory for everyone who needs them
#
# Only primitive types are converted: an extension type's `as_py` is anyone's code. Even to look at a type can run code,
# because arrow rebuilds an extension type's Python object on demand: as long as the process holds extension types other
# than pandas' own, only tables whose schema has none are read. A size is a walk over chunks, so it is left out where
# there are many.

_MOST_CHUNKS = 200


_EXTENSION = b"ARROW:extension:name"  # in the serialized schema, which arrow writes without asking Python
_subclasses_of: Callable[[object], list[type]] = class_dict(type)["__subclasses__"]  # type: ignore[assignment]  # a slot
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}

_PRIMITIVE: ExactTypes[bool] = ExactTypes([], {"pyarrow:DataType": True, "pyarrow:Decimal128Type": True})
_TIMESTAMP: ExactTypes[bool] = ExactTypes([], {"pyarrow:TimestampType": True})


def arrow_table(value: Any, hide: bool) -> Preview:
    """A table or record batch by its columns and first rows."""
    schema = value.schema
    if not may_read_types() and _EXTENSION in schema.serialize().to_pybytes():
        names = [Field(label(exact_str(name)), MORE) for name in schema.names[:MOST_COLUMNS]]
        return table(type_name(value), (value.num_rows, value.num_columns), names, hide=hide)
    fields: list[Field] = []
    chunks = 0
    for place in range(min(value.num_columns, MOST_COLUMNS)):
        chunked = value.column(place)
        chunks += _chunks(chunked)
        name = label(exact_str(schema.field(place).name))
        fields.append(Field(name, arrow_type(chunked.type), arrow_first(chunked, ROWS) if place < CELLS else ()))
    size = value.nbytes if chunks <= _MOST_CHUNKS and value.num_columns <= MOST_COLUMNS else 0
    return table(type_name(value), (value.num_rows, value.num_columns), fields, hide=hide, size_bytes=size)


def arrow_array(value: Any, hide: bool) -> Preview:
    """An array or chunked array by its type, length and first values."""
    if not may_read_types():
        return Preview("series", type_name(value), shape=(len(value),), size_bytes=arrow_bytes(value), masked=hide)
    field = Field("", arrow_type(value.type), arrow_first(value, _READ))
    return column("series", type_name(value), len(value), field, hide=hide, size_bytes=arrow_bytes(value))


def may_read_types() -> bool:
    """Whether looking at a type runs arrow's code only: no extension type but pandas' own exists."""
    known = [find_loaded("pyarrow", "ExtensionType")]
    for kind in known:
        for derived in _subclasses_of(kind) if kind is not None else ():
            module = module_name(derived)
            if (
                not module.startswith(("pandas.", "pyarrow."))
                or find_loaded(module, qualified_name(derived)) is not derived
            ):
                return False
            known.append(derived)
    return True


def arrow_type(kind: object) -> str:
    """Arrow's own words for a primitive type, the name of the kind for a nested one."""
    if _PRIMITIVE.of(kind) or _TIMESTAMP.of(kind):
        return shorten(clean(exact_str(str(kind))), 40)
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


# -- the arrays that pandas keeps its columns in: dtype, first values and bytes, by the array's exact type
#
# pandas lets anyone write such an array, so a frame's own properties cannot be trusted to run pandas' code only. What
# is not listed here is shown by its type's name.


class ArrayReader(NamedTuple):
    """How one kind of array is read. `row` picks a column where several share a two-dimensional array."""

    dtype: Callable[[Any], str]
    first: Callable[[Any, int, int], list[object]]  # (array, row, count)
    memory: tuple[str, ...] = ()  # attributes that hold numpy arrays
    counts: Callable[[Any, int], tuple[int, int, int] | None] | None = None


def dtype_of_array(array: object) -> str:
    """The dtype as pandas writes it, or the qualified name of an array type that is not pandas' own."""
    reader = _READERS.of(array)
    return type_name(array) if reader is None else reader.dtype(array)


def first_of_array(array: object, row: int, count: int) -> list[object]:
    """The first values of a column; empty where they may not be read."""
    reader = _READERS.of(array)
    return [] if reader is None else reader.first(array, row, count)


def counts_of_array(array: object, row: int) -> tuple[int, int, int] | None:
    """How many values of a column are True, False and missing; None for what holds no Booleans."""
    reader = _READERS.of(array)
    return None if reader is None or reader.counts is None else reader.counts(array, row)


def bytes_of_array(array: object) -> int:
    """Bytes of the array without those of Python objects in it; 0 if unknown."""
    reader = _READERS.of(array)
    if reader is None:
        return 0
    if reader.first in (_arrow_first, _arrow_checked_first):
        return arrow_bytes(_arrow(array))
    parts: list[Any] = [getattr(array, name) if name else array for name in reader.memory]
    return sum(part.nbytes for part in parts)


def length_of_array(array: Any) -> int:
    """Rows of a one-dimensional array, -1 if it is not pandas' own."""
    return -1 if _READERS.of(array) is None else len(array)


def value_at(array: Any, place: int) -> object:
    """The value at one place of a one-dimensional array."""
    found = first_of_array(array[place : place + 1], 0, 1) if _READERS.of(array) is not None else []
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
    return [_NA if is_missing else value for is_missing, value in zip(missing, values, strict=True)]


def _categories_first(array: Any, row: int, count: int) -> list[object]:
    codes = array._codes
    codes = (codes[row] if codes.ndim == 2 else codes)[:count].tolist()
    categories = array_of(array.dtype.categories)
    return [value_at(categories, code) if code >= 0 else None for code in codes]


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
_MOMENTS = ArrayReader(_moments_dtype, _moments_first, ("_ndarray",))
_MASKED = ArrayReader(_masked_dtype, _masked_first, ("_data", "_mask"), _masked_counts)

_READERS: ExactTypes[ArrayReader] = ExactTypes(
    [(range, ArrayReader(_always("int64"), _range_first))],
    {
        "numpy:ndarray": ArrayReader(_numpy_dtype, _numpy_first, ("",), _numpy_counts),
        "pandas.arrays:DatetimeArray": _MOMENTS,
        "pandas.arrays:TimedeltaArray": _MOMENTS,
        "pandas.arrays:IntegerArray": _MASKED,
        "pandas.arrays:FloatingArray": _MASKED,
        "pandas.arrays:BooleanArray": _MASKED,
        "pandas.arrays:StringArray": ArrayReader(_own_dtype, _wrapped_first, ("_ndarray",)),
        "pandas.arrays:NumpyExtensionArray": ArrayReader(_own_dtype, _wrapped_first, ("_ndarray",)),
        "pandas.arrays:ArrowStringArray": ArrayReader(_own_dtype, _arrow_first),
        "pandas.arrays:ArrowExtensionArray": ArrayReader(_arrow_dtype, _arrow_checked_first, (), _arrow_checked_counts),
        "pandas:Categorical": ArrayReader(_always("category"), _categories_first, ("_codes",)),
        "pandas.arrays:PeriodArray": ArrayReader(_always("period"), _unread, ("_ndarray",)),
        "pandas.arrays:IntervalArray": ArrayReader(_always("interval"), _unread),
        "pandas.arrays:SparseArray": ArrayReader(_always("Sparse"), _unread, ("_sparse_values",)),
    },
)

_RANGE_INDEX: ExactTypes[bool] = ExactTypes([], {"pandas:RangeIndex": True})
_INDEXES: ExactTypes[bool] = ExactTypes(
    [],
    {f"pandas:{kind}Index": True for kind in ("", "Datetime", "Timedelta", "Period", "Categorical", "Interval")},
)


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


def dataframe(value: Any, hide: bool) -> Preview:
    """A frame by its rows and columns, the dtypes of the first columns and the first rows."""
    manager = _manager(value)
    if manager is None:
        return Preview("frame", type_name(value), size_bytes=shallow_size(value), masked=hide)
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


def series(value: Any, hide: bool) -> Preview:
    """A series by its length, dtype, name and first values."""
    manager = _manager(value)
    if manager is None:
        return Preview("series", type_name(value), size_bytes=shallow_size(value), masked=hide)
    array = manager.blocks[0].values
    rows = manager.axes[0]
    field = Field(
        _name(value),
        dtype_of_array(array),
        first_of_array(array, 0, _READ),
        _counts_of_pandas(array, 0, index_length(rows)),
    )
    return column(
        "series",
        type_name(value),
        index_length(rows),
        field,
        hide=hide,
        size_bytes=_bytes(manager),
        labels=index_first(rows, _READ),
    )


def index(value: Any, hide: bool) -> Preview:
    """An index by its length, dtype, name and first values."""
    size = 0 if _MULTI.of(value) else bytes_of_array(array_of(value))
    dtype = "" if _MULTI.of(value) else dtype_of_array(array_of(value))
    field = Field(_name(value), dtype, [_as_label(found) for found in index_first(value, _READ)])
    return column("index", type_name(value), index_length(value), field, hide=hide, size_bytes=size)


def index_length(index: Any) -> int:
    """Rows of an index; -1 if it is not pandas' own."""
    return length_of_array(index._codes[0]) if _MULTI.of(index) else length_of_array(array_of(index))


def index_first(index: Any, count: int) -> list[object]:
    """The first labels of an index; those of several levels as tuples."""
    if not _MULTI.of(index):
        return first_of_array(array_of(index), 0, count)
    levels: list[list[object]] = [
        [value_at(array_of(level), code) if code >= 0 else None for code in codes[:count].tolist()]
        for level, codes in zip(index._levels, index._codes, strict=True)
    ]
    return list(zip(*levels, strict=True))


def _manager(value: object) -> Any:
    manager = entry(instance_dict(value), "_mgr")
    return manager if _MANAGERS.of(manager) else None


def _fields(manager: Any, names: Any, width: int) -> Iterator[Field]:
    count = min(width, MOST_COLUMNS)
    labels = index_first(names, count)
    blocks, places = manager.blknos[:count].tolist(), manager.blklocs[:count].tolist()
    dtypes: dict[int, str] = {}
    rows, counted = index_length(manager.axes[1]), 0
    for place in range(count):
        array = manager.blocks[blocks[place]].values
        dtype = dtypes.get(blocks[place]) or dtypes.setdefault(blocks[place], dtype_of_array(array))
        first = first_of_array(array, places[place], ROWS) if place < CELLS else ()
        counts = _counts_of_pandas(array, places[place], rows) if counted + rows <= MOST_COUNTED else ""
        counted += rows if counts else 0
        yield Field(_label(labels[place]) if labels else MORE, dtype, first, counts)


def _counts_of_pandas(array: object, row: int, rows: int) -> str:
    found = counts_of_array(array, row) if 0 < rows <= MOST_COUNTED else None
    return "" if found is None else counts_text(*found)


def _as_label(found: object) -> object:
    return Verbatim(_label(found)) if exact_items(found) else found


def _label(found: object) -> str:
    parts = exact_items(found)
    return shorten(f"({', '.join(label(part, CELL) for part in parts)})", 40) if parts else label(found)


def _name(value: object) -> str:
    name = entry(instance_dict(value), "_name")
    return "" if name is None else _label(name)


def _bytes(manager: Any) -> int:
    blocks = sum(bytes_of_array(block.values) for block in islice(manager.blocks, _MOST_BLOCKS))
    rows = manager.axes[-1]
    return blocks + (0 if _MULTI.of(rows) else bytes_of_array(array_of(rows)))


def _index_note(rows: object) -> str:
    name = type_name(rows).rpartition(".")[2]
    return "" if name in ("RangeIndex", "Index") else name


# -- previews of polars frames and series. A lazy frame is named and never collected

# Extension types and objects are anyone's, nested ones may hold them: only these are converted.
_PLAIN = (
    "Int8 Int16 Int32 Int64 Int128 UInt8 UInt16 UInt32 UInt64 Float16 Float32 Float64 Boolean String Binary "
    "Date Datetime Duration Time Decimal Categorical Enum Null"
)
_DTYPES: ExactTypes[bool] = ExactTypes([], {f"polars:{name}": True for name in _PLAIN.split()})
_OBJECTS: ExactTypes[bool] = ExactTypes([], {"polars:Object": True})


def polars_frame(value: Any, hide: bool) -> Preview:
    """A frame by its rows and columns, the dtypes of the first columns and the first rows."""
    width = value.width
    if not _may_read_dtypes():
        fields = [Field(label(name), MORE) for name in value.columns[:MOST_COLUMNS]]
        return table("polars.DataFrame", (value.height, width), fields, hide=hide)
    fields = [_field(value, place) for place in range(min(width, MOST_COLUMNS))]
    # In older releases of polars asking for the size of objects panics, past `except Exception`.
    size = value.estimated_size() if width <= _WIDEST and not any(map(_OBJECTS.of, value.dtypes)) else 0
    return table("polars.DataFrame", (value.height, width), fields, hide=hide, size_bytes=size)


def polars_series(value: Any, hide: bool) -> Preview:
    """A series by its length, dtype, name and first values."""
    if not _may_read_dtypes():
        return Preview("series", "polars.Series", shape=(len(value),), masked=hide)
    size = 0 if _OBJECTS.of(value.dtype) else value.estimated_size()
    name = label(value.name) if value.name else ""
    field = Field(name, dtype_name(value), _first_of_polars(value, _READ), _counts_of_polars(value))
    return column("series", "polars.Series", len(value), field, hide=hide, size_bytes=size, is_read=False)


def polars_lazy(value: object, hide: bool) -> Preview:
    """A query that has not run: its plan says nothing in short."""
    return Preview("object", "polars.LazyFrame", masked=hide)


def _may_read_dtypes() -> bool:
    # polars asks a registered extension type's class for each dtype that it hands out.
    registry = find_loaded("polars.datatypes.extension", "_REGISTRY")
    return type(registry) is not dict or not registry


def dtype_name(series: Any) -> str:
    """The dtype's class name; its parameters could be anyone's."""
    return type_name(series.dtype).rpartition(".")[2]


def _field(frame: Any, place: int) -> Field:
    series = frame.to_series(place)
    counts = _counts_of_polars(series) if len(series) * MOST_COLUMNS <= MOST_COUNTED else ""
    return Field(
        label(series.name), dtype_name(series), _first_of_polars(series, ROWS) if place < CELLS else (), counts
    )


def _counts_of_polars(series: Any) -> str:
    if dtype_name(series) != "Boolean" or not _DTYPES.of(series.dtype) or not 0 < len(series) <= MOST_COUNTED:
        return ""
    true, missing = int(series.sum() or 0), int(series.null_count())
    return counts_text(true, len(series) - true - missing, missing)


def _first_of_polars(series: Any, count: int) -> list[object]:
    if not _DTYPES.of(series.dtype):
        return []
    first = series.head(count)
    if first.estimated_size() > BIGGEST_HEAD:
        return []
    found: list[object] = first.to_list()
    return found
