"""Build arrays and tables of what a stranger's stream says, by the public constructors of numpy and pandas, after looking at it.

What pandas itself would be given (blocks, managers, codes, dtypes) is noted in parts first. A table is made of its columns once all
of them are found to fit: places within it, lengths that agree, codes that name a category, offsets that lie within their text.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What a stream holds is anyone's object.

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod
from typing import Any, Final

from agent_kernel.errors import UntrustedValueError
from agent_kernel.values.restore import arrays, frames
from agent_kernel.values.restore.buffers import StoredBytes

__all__ = ["BARE", "FUNCTIONS", "Part", "bare_array", "class_named", "is_constant", "is_scalar", "new", "object_column", "refuse",
           "set_byte_order"]  # fmt: skip

_PACKAGE: Final = "agent_kernel.values.restore"
BARE: Final = f"{_PACKAGE}.arrays.object_array_bare"
_KINDS: Final = "biufcmMSU"  # of dtypes whose memory is data, whatever it holds
_LONGEST_DTYPE: Final = 40  # characters of its name
_UNITS: Final = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns")


def refuse(what: str) -> UntrustedValueError:
    return UntrustedValueError(what)


class Part:
    """Something of pandas that is not a value by itself here: what it is, and what the stream says of it."""

    def __init__(self, kind: str, *given: Any) -> None:
        self.kind = kind
        self.given = given
        self.state: Any = None
        self.is_used = False

    def use(self) -> Part:
        self.is_used = True
        return self


class _Named(Part):
    """A class of pandas that a stream names. It is there to make something of, and is no value itself."""

    def __init__(self, module: str, name: str) -> None:
        super().__init__(f"{module}.{name}")
        self.name = name


# -- numpy


def _dtype(kind: Any, *flags: object) -> Any:
    """A dtype whose memory is data: never references to objects, never structures. Always a new one, since its state may follow."""
    np: Any = import_module("numpy")

    del flags
    if not (type(kind) is str and len(kind) <= _LONGEST_DTYPE) and not isinstance(kind, np.dtype):
        raise refuse("an array of a type of its own")
    made: Any = np.dtype(kind, False, True)
    if made.hasobject or made.names is not None or made.subdtype is not None or made.kind not in _KINDS:
        raise refuse("an array of structures or objects" if made.kind == "V" else "an array whose memory holds objects")
    if not made.itemsize and made.kind not in "SUmM":
        raise refuse("an array of items without a size")
    return made


def _long_double(name: Any, digits: Any) -> Any:
    if type(name) is not str or len(name) > _LONGEST_DTYPE or type(digits) is not int:
        raise refuse("an array of a type of its own")
    return _dtype(arrays.long_double(name, digits))


def _shape(shape: Any) -> tuple[int, ...]:
    if type(shape) is int:
        shape = (shape,)
    if type(shape) not in (tuple, list) or len(shape) > 32 or any(type(one) is not int or one < 0 for one in shape):
        raise refuse("an array without a shape")
    return tuple(shape)


def _fitting(shape: Any, kind: Any, size: int) -> tuple[int, ...]:
    found = _shape(shape)
    if not kind.itemsize or prod(found) * kind.itemsize != size:
        raise refuse("an array whose shape does not fit its memory")
    return found


def _order(order: Any) -> str:
    return "F" if order == "F" else "C"


def _array(buffer: StoredBytes, dtype: Any, shape: Any, order: Any, writeable: Any = True) -> Any:
    kind = _dtype(dtype)
    return arrays.array(buffer, kind, _fitting(shape, kind, buffer.size), _order(order), bool(writeable))


def _small_array(payload: Any, dtype: Any, shape: Any, writeable: Any) -> Any:
    kind = _dtype(dtype)
    if type(payload) is not bytes:
        raise refuse("an array without memory")
    return arrays.small_array(payload, kind, _fitting(shape, kind, len(payload)), bool(writeable))


def _view(owner: Any, offset: Any, shape: Any, strides: Any, dtype: Any, writeable: Any) -> Any:
    """A window of an array. numpy sees to it that it lies within; here, that it does not claim more items than there are."""
    np: Any = import_module("numpy")

    kind, found = _dtype(dtype), _shape(shape)
    if type(owner) is not np.ndarray or owner.dtype.kind not in _KINDS or type(offset) is not int:
        raise refuse("a view of something other than an array of numbers")
    if type(strides) not in (tuple, list) or len(strides) != len(found) or any(type(one) is not int for one in strides):
        raise refuse("a view without strides")
    if not kind.itemsize or prod(found) * kind.itemsize > owner.nbytes:
        raise refuse("a view that is larger than its array")
    return arrays.view(owner, offset, found, tuple(strides), kind, bool(writeable))


def bare_array(shape: Any, order: Any, dtype: Any, room: int) -> Any:
    """An array of objects whose items come later. `room`: how many may still be made."""
    found = _shape(shape)
    if dtype is not object or prod(found) > room:
        raise refuse("an array of objects that is larger than what it is stored in")
    return arrays.object_array_bare(found, _order(order))


def _object_items(made: Any, state: Any) -> None:
    np: Any = import_module("numpy")

    if type(made) is not np.ndarray or made.dtype != object or type(state) is not tuple or len(state) != 3:
        raise refuse("the items of something other than an array of objects")
    items, order, writeable = state
    if type(items) is not list or len(items) != made.size:
        raise refuse("an array of objects with other items than it has room for")
    arrays.object_array_state(made, (items, _order(order), bool(writeable)))


def object_column(items: Any, codes: StoredBytes, shape: Any, order: Any, writeable: Any) -> Any:
    """As `restore.arrays.object_column`, of distinct objects that were read as all else here."""
    found = _shape(shape)
    size = prod(found)
    if type(items) is not list or (codes.size == 0 and size != len(items)):
        raise refuse("an array whose shape does not fit its memory")
    if codes.size and size * int(arrays.code_type(len(items))[-1]) != codes.size:
        raise refuse("an array whose shape does not fit its memory")
    return arrays.object_column_of(items, codes, found, _order(order), bool(writeable))


_MASKED_STATE: Final = frozenset({"_basedict", "_optinfo", "_hardmask", "_sharedmask", "_isfield", "_baseclass"})


def _masked_array(kind: Any, values: Any, mask: Any, fill_value: Any, state: Any) -> Any:
    np: Any = import_module("numpy")

    is_plain = type(state) is dict and not state.keys() - _MASKED_STATE and type(values) is np.ndarray
    if not isinstance(kind, _Named) or kind.name != "MaskedArray" or not is_plain or values.dtype.kind not in _KINDS:
        raise refuse("a kind of masked array that is not numpy's own")
    kind.use()
    if mask is not None and not (type(mask) is np.ndarray and mask.dtype == bool and mask.shape == values.shape):
        raise refuse("a masked array whose mask does not fit")
    own = {
        name: held
        for name, held in state.items()
        if name in ("_hardmask", "_sharedmask", "_isfield") and type(held) is bool
    }
    filled = (
        fill_value if is_scalar(fill_value) or type(fill_value) in (int, float, complex, str, bytes, bool) else None
    )
    made = np.ma.MaskedArray(values, mask=np.ma.nomask if mask is None else mask, copy=False, shrink=False)
    made.fill_value = filled
    made.__dict__.update(own)
    return made


def _scalar(dtype: Any, payload: Any) -> Any:
    np: Any = import_module("numpy")

    kind = _dtype(dtype)
    if type(payload) is not bytes or not kind.itemsize or len(payload) != kind.itemsize:
        raise refuse("a number whose bytes do not fit")
    return np.frombuffer(payload, kind)[0]


def set_byte_order(target: Any, state: Any) -> None:
    """What a simple dtype says of itself: which of its bytes comes first, and the unit of days."""
    np: Any = import_module("numpy")

    if (
        not isinstance(target, np.dtype)
        or target.kind not in _KINDS
        or type(state) is not tuple
        or len(state) not in (8, 9)
    ):
        raise refuse(f"the state of {type(target).__module__}.{type(target).__qualname__}")
    version, order, *none, size, alignment, flags = state[:8]
    sizes = (target.itemsize, 4 if target.kind == "U" else 1) if target.kind in "SU" else (-1, -1)
    is_simple = version in (3, 4) and order in ("<", ">", "|", "=") and none == [None, None, None]
    if (
        not is_simple
        or (size, alignment) != sizes
        or flags not in (0, 8)
        or any(type(one) is not int for one in (version, size, flags))
    ):
        raise refuse("an array of structures")
    if len(state) == 9 and not _is_unit(target, state[8]):
        raise refuse("days in a unit of their own")
    target.__setstate__(state)


def _is_unit(target: Any, said: Any) -> bool:
    if target.kind not in "mM" or type(said) is not tuple or len(said) != 2 or said[0] not in (None, {}):
        return False
    unit = said[1]
    if type(unit) is not tuple or len(unit) != 4:
        return False
    name = unit[0].decode("ascii", "replace") if type(unit[0]) is bytes else unit[0]
    return name in _UNITS and all(type(one) is int and 0 < one < 1_000_000 for one in unit[1:])


def is_scalar(one: object) -> bool:
    """Whether it is a number, day or truth value of numpy or pandas."""
    kind = type(one)
    if kind.__module__ == "numpy":
        np: Any = import_module("numpy")

        return isinstance(one, np.generic)
    return kind.__module__.startswith("pandas") and kind.__name__ in ("Timestamp", "Timedelta", "NaTType", "NAType")


_CONSTANTS: Final = frozenset(
    {
        "numpy.True_",
        "numpy.False_",
        "pandas.NA",
        "pandas.NaT",
        "pandas._libs.missing.NA",
        "pandas._libs.tslibs.nattype.NaT",
    }
)


def is_constant(module: str, name: str) -> bool:
    return f"{module}.{name}" in _CONSTANTS


# -- pandas

_SHELLS: Final = ("DataFrame", "Series")
_INDEXES: Final = ("Index", "RangeIndex", "MultiIndex", "DatetimeIndex")
_MASKED: Final = ("IntegerArray", "FloatingArray", "BooleanArray")
_DTYPES: Final = ("CategoricalDtype", "DatetimeTZDtype")
_ARRAYS: Final = ("Categorical", "DatetimeArray", "TimedeltaArray", "ArrowStringArray", "StringArray")
_OFFSETS: Final = ("Day", "Hour", "Minute", "Second", "MonthEnd", "MonthBegin", "BusinessDay", "YearEnd", "YearBegin",
                   "QuarterEnd", "QuarterBegin", "Milli", "Micro")  # fmt: skip
_CLASSES: Final = frozenset((*_SHELLS, *_INDEXES, *_MASKED, *_DTYPES, *_ARRAYS))


def class_named(module: str, name: str) -> Any:
    """What stands for a class of pandas, which is never had itself.

    Raises:
        UntrustedValueError: the name is not one of plain data.
    """
    if (module.partition(".")[0] == "pandas" and name in _CLASSES) or (module, name) == ("numpy.ma", "MaskedArray"):
        return _Named(module, name)
    raise refuse(f"{module}.{name}")


def new(kind: Any) -> Any:
    """What `__new__` of such a class gives here: an empty table to be filled, or a part."""
    if not isinstance(kind, _Named):
        raise refuse("an object that is made in a way that plain data is not")
    kind.use()
    if kind.name in _SHELLS:
        pd: Any = import_module("pandas")

        return pd.DataFrame() if kind.name == "DataFrame" else pd.Series([], dtype=object)
    if kind.name in (*_MASKED, *_DTYPES):
        return Part(f"pandas.{kind.name}")
    raise refuse(f"pandas.{kind.name}")


def _kind_of(kind: Any, *names: str) -> str:
    if not isinstance(kind, _Named) or kind.name not in names:
        raise refuse(f"pandas.{kind.name}" if isinstance(kind, _Named) else "a class of pandas")
    kind.use()
    return kind.name


def _backed(kind: Any, checksum: Any, state: Any) -> Part:
    del checksum
    if state is not None:
        raise refuse("an array of pandas that is made in a way of its own")
    return Part(f"pandas.{_kind_of(kind, 'Categorical', 'DatetimeArray', 'TimedeltaArray', 'StringArray')}")


def _block(values: Any, places: Any, dimensions: Any) -> Part:
    if isinstance(values, Part):
        values.use()
    return Part("a block of a table", values, places, dimensions)


def _manager(blocks: Any, axes: Any, *rest: Any) -> Part:
    del rest
    if type(blocks) is not tuple or type(axes) is not list or len(axes) != 2:
        raise refuse("a table without axes")
    return Part("what a table is made of", tuple(_used(one, "a block of a table") for one in blocks), tuple(axes))


def _single_manager(block: Any, axis: Any, *rest: Any) -> Part:
    del rest
    return Part("what a series is made of", (_used(block, "a block of a table"),), (axis,))


def _used(part: Any, kind: str) -> Part:
    if not isinstance(part, Part) or part.kind != kind:
        raise refuse("a table that is made of other things")
    return part.use()


def _fill_table(made: Any, state: Any) -> None:
    pd: Any = import_module("pandas")

    is_plain = (
        type(made) in (pd.DataFrame, pd.Series) and type(state) is tuple and len(state) == 3 and type(state[0]) is dict
    )
    if not is_plain:
        raise refuse("a table of a class of its own")
    ours = state[0]
    if type(made) is pd.DataFrame:
        _fill_frame(made, _used(ours.get("_mgr"), "what a table is made of"))
    else:
        _fill_series(made, _used(ours.get("_mgr"), "what a series is made of"), ours.get("_name"))
    attributes = ours.get("attrs")
    if type(attributes) is dict:
        made.attrs = attributes
    flags = ours.get("_flags")
    if type(flags) is dict and flags.get("allows_duplicate_labels") is False:
        made.flags.allows_duplicate_labels = False


def _fill_frame(made: Any, manager: Part) -> None:
    pd: Any = import_module("pandas")

    blocks, (labels, rows) = manager.given
    if not isinstance(labels, pd.Index) or not isinstance(rows, pd.Index):
        raise refuse("a table without axes")
    columns: dict[int, Any] = {}
    for block in blocks:
        values, places, dimensions = block.given
        found = _places(places, len(labels))
        if dimensions != 2 or not columns.keys().isdisjoint(found):
            raise refuse("a table whose columns lie in one place")
        columns |= zip(found, _columns_of(values, len(found), len(rows)), strict=True)
    if len(columns) != len(labels):
        raise refuse("a table without some of its columns")
    # pandas aligns a series with the rows by its own index.
    aligned = {at: one.set_axis(rows) if isinstance(one, pd.Series) else one for at, one in columns.items()}
    made.__init__({at: aligned[at] for at in range(len(labels))}, index=rows)
    made.columns = labels


def _places(places: Any, most: int) -> Sequence[int]:
    np: Any = import_module("numpy")

    if type(places) is slice:
        found: Sequence[Any] = range(
            *(one if type(one) is int else 0 for one in (places.start, places.stop, places.step or 1))
        )
    elif type(places) is np.ndarray and places.dtype.kind in "iu" and places.ndim == 1:
        found = places.tolist()
    else:
        raise refuse("a table whose columns lie nowhere")
    if len(found) > most or len(set(found)) != len(found) or any(not 0 <= one < most for one in found):
        raise refuse("a table whose columns lie outside of it")
    return found


def _columns_of(values: Any, many: int, rows: int) -> list[Any]:
    """The columns of a block, each of its own length."""
    np: Any = import_module("numpy")

    whole: Any = values.state[1] if isinstance(values, Part) and _has_days(values) else values
    if type(whole) is np.ndarray and whole.ndim == 2:
        if whole.shape != (many, rows):
            raise refuse("a table whose columns have other lengths")
        return [_column(values, column) for column in whole]
    found = _column(values, whole)
    if many != 1 or len(found) != rows:
        raise refuse("a table whose columns have other lengths")
    return [found]


def _has_days(part: Part) -> bool:
    state = part.state
    return part.kind in ("pandas.DatetimeArray", "pandas.TimedeltaArray") and type(state) is tuple and len(state) == 2


def _column(values: Any, column: Any) -> Any:
    """One column as pandas' public constructors make it. `column`: its own memory, where `values` is that of several."""
    np: Any = import_module("numpy")
    pd: Any = import_module("pandas")

    if isinstance(values, Part):
        return _of_part(values, column)
    if type(column) is np.ndarray and column.ndim == 1 and (column.dtype == object or column.dtype.kind in _KINDS):
        return pd.Series(column, dtype=column.dtype, copy=True)
    if isinstance(column, pd.api.extensions.ExtensionArray):  # made here, of text
        return column
    raise refuse("a column of a type of its own")


def _of_part(part: Part, column: Any) -> Any:
    np: Any = import_module("numpy")
    pd: Any = import_module("pandas")

    state = part.state
    if _has_days(part):
        memory = column if type(column) is np.ndarray else state[1]
        if type(memory) is not np.ndarray or memory.dtype.kind != ("M" if part.kind == "pandas.DatetimeArray" else "m"):
            raise refuse("days that are stored as something else")
        if isinstance(state[0], Part):
            return pd.Series(memory).dt.tz_localize("UTC").dt.tz_convert(_zone(state[0]))
        return pd.Series(memory, copy=True)
    if part.kind == "pandas.Categorical" and type(state) is tuple and len(state) == 2:
        categories, is_ordered = _categories(state[0])
        codes = state[1]
        if type(codes) is not np.ndarray or codes.dtype.kind != "i" or codes.ndim != 1:
            raise refuse("categories without codes")
        # It raises where a code names no category.
        return pd.Categorical.from_codes(codes, categories=categories, ordered=is_ordered)
    if part.kind == "pandas.StringArray" and type(state) is tuple and len(state) == 2:
        return _texts(*state)
    if part.kind.removeprefix("pandas.") in _MASKED and type(state) is dict:
        data: Any = state.get("_data")
        mask: Any = state.get("_mask")
        if type(data) is not np.ndarray or type(mask) is not np.ndarray or data.shape != mask.shape or data.ndim != 1:
            raise refuse("numbers that may be missing, of several lengths")
        return getattr(pd.arrays, part.kind.removeprefix("pandas."))(data, mask)
    raise refuse(part.kind)


def _texts(dtype: Any, items: Any) -> Any:
    """A column of text as pandas keeps it where there is no pyarrow."""
    np: Any = import_module("numpy")
    pd: Any = import_module("pandas")

    is_whole = type(items) is np.ndarray and items.dtype == object and items.ndim == 1
    if type(dtype) is not pd.StringDtype or not is_whole or not all(map(_is_text, items.tolist())):
        raise refuse("text that is kept in a way of its own")
    return pd.array(items, dtype=dtype)


def _is_text(one: object) -> bool:
    is_missing = one is None or (type(one) is float and math.isnan(one)) or type(one).__name__ == "NAType"
    return type(one) is str or is_missing


def _categories(dtype: Any) -> tuple[Any, bool]:
    pd: Any = import_module("pandas")

    said = _used(dtype, "pandas.CategoricalDtype").state
    if (
        type(said) is not dict
        or not isinstance(said.get("categories"), pd.Index)
        or type(said.get("ordered")) is not bool
    ):
        raise refuse("categories of a type of their own")
    return said["categories"], said["ordered"]


def _zone(dtype: Any) -> datetime.timezone:
    said = _used(dtype, "pandas.DatetimeTZDtype").state
    zone = said.get("tz") if type(said) is dict else None
    if type(zone) is not datetime.timezone:
        raise refuse("a time zone that is read from a file")
    return zone


def _fill_series(made: Any, manager: Part, name: Any) -> None:
    pd: Any = import_module("pandas")

    (block,), (rows,) = manager.given
    values, places, dimensions = block.given
    if dimensions != 1 or not isinstance(rows, pd.Index) or len(_places(places, len(rows))) != len(rows):
        raise refuse("a series without an axis")
    whole: Any = values.state[1] if isinstance(values, Part) and _has_days(values) else values
    column = _column(values, whole)
    if len(column) != len(rows):
        raise refuse("a series of another length")
    made.__init__(column.array if isinstance(column, pd.Series) else column, index=rows, name=_label(name), copy=True)


def _label(name: Any) -> Any:
    is_plain = name is None or type(name) in (str, int, float, bool) or is_scalar(name)
    if type(name) is tuple and all(type(one) in (str, int, float, bool) for one in name):
        return name
    if not is_plain:
        raise refuse("a name of a type of its own")
    return name


def _index(kind: Any, said: Any) -> Any:
    np: Any = import_module("numpy")
    pd: Any = import_module("pandas")

    name = _kind_of(kind, *_INDEXES)
    if type(said) is not dict:
        raise refuse("an index that says nothing")
    if name == "RangeIndex":
        parts = [said.get(part) for part in ("start", "stop", "step")]
        if any(type(part) is not int for part in parts) or not parts[2]:
            raise refuse("an index without an end")
        return pd.RangeIndex(*parts, name=_label(said.get("name")))
    if name == "DatetimeIndex":
        return _dates(kind, said)
    data: Any = _labels(said.get("data"))
    if (
        name == "Index"
        and type(data) is np.ndarray
        and data.ndim == 1
        and (data.dtype == object or data.dtype.kind in _KINDS)
    ):
        return pd.Index(data, dtype=data.dtype, name=_label(said.get("name")), copy=True)
    if name == "Index" and isinstance(data, pd.api.extensions.ExtensionArray):
        return pd.Index(data, name=_label(said.get("name")))
    raise refuse(f"pandas.{name}")


def _labels(found: Any) -> Any:
    return _of_part(found.use(), None) if isinstance(found, Part) and found.kind == "pandas.StringArray" else found


def _dates(kind: Any, said: Any) -> Any:
    pd: Any = import_module("pandas")

    _kind_of(kind, "DatetimeIndex")
    if type(said) is not dict:
        raise refuse("an index that says nothing")
    column = _of_part(_used(said.get("data"), "pandas.DatetimeArray"), None)
    made = pd.DatetimeIndex(column, name=_label(said.get("name")))
    frequency = said.get("freq")
    if isinstance(frequency, Part):
        try:
            made.freq = _frequency(frequency)
        except ValueError as error:
            raise refuse("days that are not as far apart as they say") from error
    return made


def _frequency(part: Part) -> Any:
    pd: Any = import_module("pandas")

    name = part.use().kind.removeprefix("pandas.")
    count = part.given[0] if part.given else 1
    if name not in _OFFSETS or type(count) is not int or abs(count) > 1_000_000:
        raise refuse(part.kind)
    return getattr(pd.offsets, name)(count)


def _offset(name: str) -> Callable[..., Part]:
    return lambda *given: Part(f"pandas.{name}", *given[:1])


def _index_of_several(make: Any, arguments: Any) -> Any:
    np: Any = import_module("numpy")
    pd: Any = import_module("pandas")

    del make
    kind, said = arguments
    _kind_of(kind, "MultiIndex")
    held: tuple[Any, ...] = tuple(
        said.get(part) if type(said) is dict else None for part in ("levels", "codes", "names")
    )
    levels, codes, names = held
    are_plain = all(type(part) is list for part in (levels, codes, names)) and all(
        isinstance(one, pd.Index) for one in levels
    )
    if not are_plain or not all(type(one) is np.ndarray and one.dtype.kind == "i" and one.ndim == 1 for one in codes):
        raise refuse("an index of several levels that do not fit")
    # It raises where a code names nothing of its level.
    return pd.MultiIndex(levels=levels, codes=codes, names=list(map(_label, names)), verify_integrity=True)


def _text_dtype(storage: Any = None, missing: Any = None) -> Any:
    pd: Any = import_module("pandas")

    if storage not in (None, "python", "pyarrow"):
        raise refuse("text that is kept in a way of its own")
    is_nan = type(missing) is float and math.isnan(missing)
    return pd.StringDtype(storage, na_value=missing) if is_nan else pd.StringDtype(storage)


def _arrow_text(kind: Any, is_column: Any, length: Any, offset: Any, buffers: Any) -> Any:
    if kind not in ("StringArray", "LargeStringArray") or type(buffers) is not list or len(buffers) != 3:
        raise refuse("text that is kept in a way of its own")
    if any(type(one) is not int or one < 0 for one in (length, offset)):
        raise refuse("text without a length")
    made = frames.arrow_text(kind, False, length, offset, buffers)
    made.validate(full=True)  # offsets that lead out of the text would read other memory
    if not is_column:
        return made
    pa: Any = import_module("pyarrow")

    return pa.chunked_array([made])


def _arrow_column(kind: Any, chunks: Any, state: Any) -> Any:
    pd: Any = import_module("pandas")
    pa: Any = import_module("pyarrow")

    _kind_of(kind, "ArrowStringArray")
    dtype = state.get("_dtype") if type(state) is dict else None
    if not isinstance(chunks, pa.ChunkedArray) or type(dtype) is not pd.StringDtype:
        raise refuse("text that is kept in a way of its own")
    return pd.array(chunks.to_pylist(), dtype=dtype)


def _moment(value: Any, frequency: Any, zone: Any, unit: Any = 10) -> Any:
    if type(value) is not int or frequency is not None or type(unit) is not int or not 0 <= unit <= 10:
        raise refuse("a moment of a kind of its own")
    if zone is not None and type(zone) is not datetime.timezone:
        raise refuse("a time zone that is read from a file")
    timestamps: Any = import_module("pandas._libs.tslibs.timestamps")
    return timestamps._unpickle_timestamp(value, None, zone, unit)


def _span(value: Any, unit: Any = 10) -> Any:
    if type(value) is not int or type(unit) is not int or not 0 <= unit <= 10:
        raise refuse("a span of time of a kind of its own")
    timedeltas: Any = import_module("pandas._libs.tslibs.timedeltas")
    return timedeltas._timedelta_unpickle(value, unit)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "numpy.dtype": _dtype,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy.core.multiarray.scalar": _scalar,
    "pandas._libs.arrays.__pyx_unpickle_NDArrayBacked": _backed,
    "pandas._libs.internals._unpickle_block": _block,
    "pandas._libs.tslibs.timedeltas._timedelta_unpickle": _span,
    "pandas._libs.tslibs.timestamps._unpickle_timestamp": _moment,
    "pandas.core.indexes.base._new_Index": _index,
    "pandas.core.indexes.datetimes._new_DatetimeIndex": _dates,
    "pandas.core.internals.managers.BlockManager": _manager,
    "pandas.core.internals.managers.SingleBlockManager": _single_manager,
    "pandas.StringDtype": _text_dtype,
    "pandas.core.arrays.string_.StringDtype": _text_dtype,
    **{f"pandas._libs.tslibs.offsets.{name}": _offset(name) for name in _OFFSETS},
    f"{_PACKAGE}.arrays.array": _array,
    f"{_PACKAGE}.arrays.long_double": _long_double,
    f"{_PACKAGE}.arrays.masked_array": _masked_array,
    f"{_PACKAGE}.arrays.object_array_state": _object_items,
    f"{_PACKAGE}.arrays.small_array": _small_array,
    f"{_PACKAGE}.arrays.view": _view,
    f"{_PACKAGE}.frames.arrow_column": _arrow_column,
    f"{_PACKAGE}.frames.arrow_text": _arrow_text,
    f"{_PACKAGE}.frames.index_of_several": _index_of_several,
    f"{_PACKAGE}.frames.table_state": _fill_table,
}
