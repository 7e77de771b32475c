"""Build arrays and tables of what a stranger's stream says, by the public constructors of numpy and pandas, after looking at it.

What pandas itself would be given (blocks, managers, codes, dtypes) is noted in parts first. A table is made of its columns once all
of them are found to fit: places within it, lengths that agree, codes that name a category, offsets that lie within their text.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What a stream holds is anyone's object.

from __future__ import annotations

import array
import datetime
import math
import re
import zoneinfo
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from math import prod
from typing import Any, Final, Literal, cast

from agent_kernel.errors import UntrustedValueError
from agent_kernel.values.restore import arrays, frames
from agent_kernel.values.restore.buffers import StoredBytes, bytes_of

_PACKAGE: Final = "agent_kernel.values.restore"
BARE: Final = f"{_PACKAGE}.arrays.object_array_bare"
_KINDS: Final = "biufcmMSU"  # of dtypes whose memory is data, whatever it holds
_LONGEST_DTYPE: Final = 40  # characters of its name
_VOID: Final = re.compile(r"V[1-9]\d{0,6}")
_LARGEST_STRUCTURE: Final = 1 << 20  # bytes of one
_ALIGNED: Final = 0x80  # numpy's flag of a structure that is laid out as C does it
ZONES: Final = (datetime.timezone, zoneinfo.ZoneInfo)
_ZONE: Final = re.compile(r"\w[\w+-]*(?:/[\w+-]+)*", re.ASCII)
_PERIOD: Final = re.compile(r"period\[[A-Za-z0-9-]{1,20}\]")
_CLOSED: Final = ("left", "right", "both", "neither")
_LONGEST_PATTERN: Final = 1000  # characters
_WIDE: Final = re.compile(r"\\[uUN]")
_UNITS: Final = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns")


def refuse(what: str) -> UntrustedValueError:
    return UntrustedValueError(what)


class Part:
    """Something of pandas that is not a value by itself here: what it is, and what the stream says of it."""

    def __init__(self, kind: str, *arguments: Any) -> None:
        self.kind = kind
        self.arguments = arguments
        self.state: Any = None
        self.is_used = False

    def use(self) -> Part:
        self.is_used = True
        return self


class Callee(Part):
    """A function that a stream names. It is there to be called, and is no value itself."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        super().__init__(name)
        self._function = function

    def use_function(self) -> Callable[..., Any]:
        self.use()
        return self._function


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
    if isinstance(kind, _Named) and kind.name == "record":
        kind.use()
        kind = "V1"
    if type(kind) is str and _VOID.fullmatch(kind):
        return Part("an array of structures or objects")
    if isinstance(kind, Part):
        return _structure(kind)
    if not (type(kind) is str and len(kind) <= _LONGEST_DTYPE) and not isinstance(kind, np.dtype):
        raise refuse("an array of a type of its own")
    made: Any = np.dtype(kind, False, True)
    if made.names is not None and made.isnative and not made.hasobject:  # made here
        return made
    if made.hasobject or made.names is not None or made.subdtype is not None or made.kind not in _KINDS:
        raise refuse("an array of structures or objects" if made.kind == "V" else "an array whose memory holds objects")
    if not made.itemsize and made.kind not in "SUmM":
        raise refuse("an array of items without a size")
    return made


def _long_double(name: Any, digits: Any) -> Any:
    if type(name) is not str or len(name) > _LONGEST_DTYPE or type(digits) is not int:
        raise refuse("an array of a type of its own")
    return _dtype(arrays.long_double(name, digits))


def _structure(part: Part) -> Any:
    """A dtype of several fields, or of several equal items, as numpy's public constructor makes it: it looks at the places."""
    np: Any = import_module("numpy")

    state = part.use().state
    if type(state) is not tuple or len(state) not in (8, 9):
        raise refuse(part.kind)
    _, order, items, names, fields, size, _, flags = state[:8]
    if type(items) is tuple and len(items) == 2 and names is None:
        return np.dtype((_dtype(items[0]), _shape(items[1])))
    are_fields = type(names) is tuple and type(fields) is dict and names and set(names) == set(fields)
    if items is not None or order != "|" or not are_fields or any(type(one) is not str for one in names):
        raise refuse(part.kind)
    if type(size) is not int or type(flags) is not int or any(type(fields[one]) is not tuple for one in names):
        raise refuse(part.kind)
    kinds = [_dtype(fields[one][0]) for one in names]
    places = [fields[one][1] for one in names if len(fields[one]) == 2 and type(fields[one][1]) is int]
    if len(places) != len(names) or not 0 < size <= _LARGEST_STRUCTURE:
        raise refuse(part.kind)
    # It raises where a field would lie outside.
    made = np.dtype(
        {"names": list(names), "formats": kinds, "offsets": places, "itemsize": size}, align=bool(flags & _ALIGNED)
    )
    if made.hasobject:
        raise refuse(part.kind)
    return made


def _subclass(made: Any, kind: Any, state: Any) -> Any:
    np: Any = import_module("numpy")

    if not isinstance(kind, _Named) or kind.name != "recarray" or type(made) is not np.ndarray or state is not None:
        raise refuse("a kind of array that is not numpy's own")
    kind.use()
    return made.view(np.recarray)


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


def _order(order: Any) -> Literal["C", "F"]:
    return "F" if order == "F" else "C"


def _array(buffer: StoredBytes, dtype: Any, shape: Any, order: Any, writeable: Any = True) -> Any:
    kind = _dtype(dtype)
    return arrays.array(buffer, kind, _fitting(shape, kind, buffer.size), _order(order), bool(writeable))


def _small_array(payload: Any, dtype: Any, shape: Any, writeable: Any, order: Any = "C") -> Any:
    kind = _dtype(dtype)
    if type(payload) is not bytes:
        raise refuse("an array without memory")
    return arrays.small_array(payload, kind, _fitting(shape, kind, len(payload)), bool(writeable), _order(order))


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


def _is_unit(target: Any, spelled: Any) -> bool:
    if target.kind not in "mM" or type(spelled) is not tuple or len(spelled) != 2 or spelled[0] not in (None, {}):
        return False
    unit = spelled[1]
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
        "builtins.Ellipsis",
        "array.array",
        "numpy.nan",
    }
)


def is_constant(module: str, name: str) -> bool:
    return f"{module}.{name}" in _CONSTANTS


# -- pandas

_SHELLS: Final = ("DataFrame", "Series")
_INDEXES: Final = (
    "Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex", "PeriodIndex", "CategoricalIndex", "IntervalIndex",
)  # fmt: skip
_MASKED: Final = ("IntegerArray", "FloatingArray", "BooleanArray")
_DTYPES: Final = ("CategoricalDtype", "DatetimeTZDtype", "BooleanDtype", "IntervalDtype")
_BACKED: Final = ("Categorical", "DatetimeArray", "TimedeltaArray", "PeriodArray", "StringArray")
_ARRAYS: Final = (*_BACKED, "ArrowStringArray", "IntervalArray")
_OFFSETS: Final = ("Day", "Hour", "Minute", "Second", "MonthEnd", "MonthBegin", "BusinessDay", "YearEnd", "YearBegin",
                   "QuarterEnd", "QuarterBegin", "Milli", "Micro")  # fmt: skip
_CLASSES: Final = frozenset((*_SHELLS, *_INDEXES, *_MASKED, *_DTYPES, *_ARRAYS))
_SPARSE: Final = tuple(f"{form}_{kind}" for form in ("csr", "csc", "coo") for kind in ("matrix", "array"))
_OTHERS: Final = frozenset(
    {
        ("numpy", "record"), ("numpy.ma", "MaskedArray"), ("numpy.rec", "recarray"), ("zoneinfo", "ZoneInfo"),
        *((f"scipy.sparse._{name[:3]}", name) for name in _SPARSE),
    }
)  # fmt: skip


def class_named(module: str, name: str) -> Any:
    """What stands for a class of pandas, which is never had itself.

    Raises:
        UntrustedValueError: the name is not one of plain data.
    """
    if (module, name) == ("pandas.core.arrays.datetimes", "INT64_DTYPE"):
        return _dtype("i8")
    if (module.partition(".")[0] == "pandas" and name in _CLASSES) or (module, name) in _OTHERS:
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
    if kind.name in _SPARSE:
        return Part(f"scipy.sparse.{kind.name}")
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
    return Part(f"pandas.{_kind_of(kind, *_BACKED, 'IntervalArray')}")


def settle(made: Any) -> Any:
    """A part that is a value by itself, as this value: a column without a table, how far days are apart, a sparse matrix."""
    if not isinstance(made, Part):
        return made
    name = made.kind.rpartition(".")[2]
    if name in (*_BACKED, *_MASKED):
        pd: Any = import_module("pandas")

        column = _of_part(made.use(), None)
        return column.array if isinstance(column, pd.Series) else column
    if name in _OFFSETS:
        return _frequency(made)
    return _sparse(made.use(), name) if name in _SPARSE else made


def _sparse(part: Part, name: str) -> Any:
    np: Any = import_module("numpy")
    sparse: Any = import_module("scipy.sparse")

    state = part.state if type(part.state) is dict else {}
    data: Any = state.get("data")
    coords: Any = state.get("coords") if name.startswith("coo") else (state.get("indices"), state.get("indptr"))
    shape = _shape(state.get("_shape"))
    if type(coords) is not tuple or len(shape) != 2 or any(type(one) is not np.ndarray for one in (data, *coords)):
        raise refuse(part.kind)
    if any(one.ndim != 1 for one in (data, *coords)) or data.dtype.kind not in "biufc":
        raise refuse(part.kind)
    if any(one.dtype.kind != "i" for one in coords) or len(coords) != 2:
        raise refuse(part.kind)
    made = getattr(sparse, name)((data, coords) if name.startswith("coo") else (data, *coords), shape=shape)
    if not name.startswith("coo"):  # of the others the constructor does not look at the places
        made.check_format(full_check=True)
    return made


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

    blocks, (labels, rows) = manager.arguments
    if not isinstance(labels, pd.Index) or not isinstance(rows, pd.Index):
        raise refuse("a table without axes")
    columns: dict[int, Any] = {}
    for block in blocks:
        values, places, dimensions = block.arguments
        found = _places(places, len(labels))
        if dimensions != 2 or not columns.keys().isdisjoint(found):
            raise refuse("a table whose columns lie in one place")
        columns |= zip(found, _columns_of(values, len(found), len(rows)), strict=True)
    if len(columns) != len(labels):
        raise refuse("a table without some of its columns")
    # Numbered first: pandas would look for the rows of a column by their labels, and find none.
    made.__init__({at: columns[at] for at in range(len(labels))}, index=pd.RangeIndex(len(rows)))
    made.index, made.columns = rows, labels


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

    whole: Any = values.state[1] if isinstance(values, Part) and _has_memory(values) else values
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


def _has_memory(part: Part) -> bool:
    """Whether it is an array of numpy below, which several columns may share."""
    return _has_days(part) or (
        part.kind in ("pandas.PeriodArray", "pandas.StringArray") and type(part.state) is tuple and len(part.state) == 2
    )


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
        return _column_of_texts(state[0], column if type(column) is np.ndarray else state[1])
    if part.kind == "pandas.PeriodArray" and type(state) is tuple and len(state) == 2:
        dtype, ordinals = state[0], column if type(column) is np.ndarray else state[1]
        if (
            type(ordinals) is not np.ndarray
            or ordinals.dtype != np.int64
            or ordinals.ndim != 1
            or type(dtype) is not pd.PeriodDtype
        ):
            raise refuse("days that are stored as something else")
        return pd.arrays.PeriodArray(ordinals.copy(), dtype=dtype)
    if part.kind == "pandas.IntervalArray" and type(state) is tuple and len(state) == 1 and type(state[0]) is dict:
        return _intervals(state[0])
    if part.kind.removeprefix("pandas.") in _MASKED and type(state) is dict:
        if isinstance(state.get("_dtype"), Part):
            _used(state["_dtype"], "pandas.BooleanDtype")
        data: Any = state.get("_data")
        mask: Any = state.get("_mask")
        if type(data) is not np.ndarray or type(mask) is not np.ndarray or data.shape != mask.shape or data.ndim != 1:
            raise refuse("numbers that may be missing, of several lengths")
        return getattr(pd.arrays, part.kind.removeprefix("pandas."))(data, mask)
    raise refuse(part.kind)


def _column_of_texts(dtype: Any, items: Any) -> Any:
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


def _intervals(fields: dict[Any, Any]) -> Any:
    np: Any = import_module("numpy")
    pd: Any = import_module("pandas")

    ends: list[Any] = [fields.get("_left"), fields.get("_right")]
    dtype = _used(fields.get("_dtype"), "pandas.IntervalDtype").state
    closed = dtype.get("closed") if type(dtype) is dict else None
    if closed not in _CLOSED or any(
        type(end) is not np.ndarray or end.ndim != 1 or end.dtype.kind not in "iufmM" for end in ends
    ):
        raise refuse("intervals of a type of their own")
    return pd.arrays.IntervalArray.from_arrays(*ends, closed=closed, copy=True)


def _index_of_intervals(kind: Any, intervals: Any, name: Any) -> Any:
    pd: Any = import_module("pandas")

    _kind_of(kind, "IntervalIndex")
    return pd.IntervalIndex(_of_part(_used(intervals, "pandas.IntervalArray"), None), name=_label(name))


def _interval(left: Any, right: Any, closed: Any) -> Any:
    pd: Any = import_module("pandas")

    if closed not in _CLOSED or any(type(one) not in (int, float) and not is_scalar(one) for one in (left, right)):
        raise refuse("pandas.Interval")
    return pd.Interval(left, right, closed)


def _categories(dtype: Any) -> tuple[Any, bool]:
    pd: Any = import_module("pandas")

    state = _used(dtype, "pandas.CategoricalDtype").state
    if (
        type(state) is not dict
        or not isinstance(state.get("categories"), pd.Index)
        or type(state.get("ordered")) is not bool
    ):
        raise refuse("categories of a type of their own")
    return state["categories"], state["ordered"]


def _zone(dtype: Any) -> datetime.tzinfo:
    state = _used(dtype, "pandas.DatetimeTZDtype").state
    zone: Any = state.get("tz") if type(state) is dict else None
    if type(zone) not in ZONES:
        raise refuse("a time zone that is read from a file")
    return cast("datetime.tzinfo", zone)


def _attribute(kind: Any, name: Any) -> Part:
    """How a time zone is named: `getattr(ZoneInfo, "_unpickle")(name, …)`."""
    if not isinstance(kind, _Named) or kind.name != "ZoneInfo" or name != "_unpickle":
        raise refuse("builtins.getattr")
    kind.use()
    return Callee("zoneinfo.ZoneInfo", _named_zone)


def _named_zone(name: Any, is_cached: Any) -> zoneinfo.ZoneInfo:
    del is_cached
    if type(name) is not str or len(name) > _LONGEST_DTYPE or not _ZONE.fullmatch(name):
        raise refuse("a time zone without a name")
    return zoneinfo.ZoneInfo(name)  # of this system; it looks for no other files


def _typed_array(kind: Any, code: Any, form: Any, content: Any) -> Any:
    if (
        kind is not array.array
        or type(content) is not bytes
        or type(form) is not int
        or code not in tuple("bBhHiIlLqQfd")
    ):
        raise refuse("array.array")
    make: Any = array._array_reconstructor  # type: ignore[attr-defined]  # it compares the sizes
    return make(kind, code, form, content)


def _pattern(text: Any, flags: Any) -> Any:
    """A pattern that takes no long time to compile, as a class of all characters of Unicode without their case would."""
    decoded = text.decode("latin-1") if type(text) is bytes else text
    if type(decoded) is not str or not decoded.isascii() or len(decoded) > _LONGEST_PATTERN or _WIDE.search(decoded):
        raise refuse("a long regular expression")
    if type(flags) is not int or flags & ~int(
        re.ASCII | re.IGNORECASE | re.MULTILINE | re.DOTALL | re.UNICODE | re.VERBOSE
    ):
        raise refuse("a regular expression of a kind of its own")
    return re.compile(text, flags)


def _fill_series(made: Any, manager: Part, name: Any) -> None:
    pd: Any = import_module("pandas")

    (block,), (rows,) = manager.arguments
    values, places, dimensions = block.arguments
    if dimensions != 1 or not isinstance(rows, pd.Index) or len(_places(places, len(rows))) != len(rows):
        raise refuse("a series without an axis")
    whole: Any = values.state[1] if isinstance(values, Part) and _has_memory(values) else values
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


def _index(kind: Any, fields: Any) -> Any:
    np: Any = import_module("numpy")
    pd: Any = import_module("pandas")

    name = _kind_of(kind, *_INDEXES)
    if type(fields) is not dict:
        raise refuse("an index that says nothing")
    if name == "RangeIndex":
        parts = [fields.get(part) for part in ("start", "stop", "step")]
        if any(type(part) is not int for part in parts) or not parts[2]:
            raise refuse("an index without an end")
        return pd.RangeIndex(*parts, name=_label(fields.get("name")))
    if name == "DatetimeIndex":
        return _dates(kind, fields)
    data: Any = _labels(fields.get("data"))
    if (
        name == "Index"
        and type(data) is np.ndarray
        and data.ndim == 1
        and (data.dtype == object or data.dtype.kind in _KINDS)
    ):
        return pd.Index(data, dtype=data.dtype, name=_label(fields.get("name")), copy=True)
    if name == "Index" and isinstance(data, pd.api.extensions.ExtensionArray):
        return pd.Index(data, name=_label(fields.get("name")))
    below = {"Index": "StringArray", "PeriodIndex": "PeriodArray", "CategoricalIndex": "Categorical"}
    if name in below and isinstance(data, Part):
        column = _of_part(_used(data, f"pandas.{below[name]}"), None)
        return getattr(pd, name)(column, name=_label(fields.get("name")))
    raise refuse(f"pandas.{name}")


def _labels(found: Any) -> Any:
    return _of_part(found.use(), None) if isinstance(found, Part) and found.kind == "pandas.StringArray" else found


def _dates(kind: Any, fields: Any) -> Any:
    """An index of moments, or of spans of time."""
    pd: Any = import_module("pandas")

    name = _kind_of(kind, "DatetimeIndex", "TimedeltaIndex")
    if type(fields) is not dict:
        raise refuse("an index that says nothing")
    column = _of_part(_used(fields.get("data"), f"pandas.{name.removesuffix('Index')}Array"), None)
    made = getattr(pd, name)(column, name=_label(fields.get("name")))
    frequency = fields.get("freq")
    if isinstance(frequency, Part):
        try:
            made.freq = _frequency(frequency)
        except ValueError as error:
            raise refuse("days that are not as far apart as they say") from error
    return made


def _frequency(part: Part) -> Any:
    pd: Any = import_module("pandas")

    name = part.use().kind.removeprefix("pandas.")
    count = part.arguments[0] if part.arguments else 1
    if name not in _OFFSETS or type(count) is not int or abs(count) > 1_000_000:
        raise refuse(part.kind)
    return getattr(pd.offsets, name)(count)


def _offset(name: str) -> Callable[..., Part]:
    return lambda *given: Part(f"pandas.{name}", *given[:1])


def _index_of_several(make: Any, arguments: Any) -> Any:
    np: Any = import_module("numpy")
    pd: Any = import_module("pandas")

    del make
    kind, fields = arguments
    _kind_of(kind, "MultiIndex")
    read_levels: tuple[Any, ...] = tuple(
        fields.get(part) if type(fields) is dict else None for part in ("levels", "codes", "names")
    )
    levels, codes, names = read_levels
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
    if storage == "pyarrow" and find_spec("pyarrow") is None:
        storage = "python"
    is_nan = type(missing) is float and math.isnan(missing)
    return pd.StringDtype(storage, na_value=missing) if is_nan else pd.StringDtype(storage)


def _arrow_text(kind: Any, is_column: Any, length: Any, offset: Any, buffers: Any) -> Any:
    if kind not in ("StringArray", "LargeStringArray") or type(buffers) is not list or len(buffers) != 3:
        raise refuse("text that is kept in a way of its own")
    if any(type(one) is not int or one < 0 for one in (length, offset)):
        raise refuse("text without a length")
    if find_spec("pyarrow") is None:
        return Part("text", _texts(kind, length, offset, buffers))
    made = frames.arrow_text(kind, False, length, offset, buffers)
    made.validate(full=True)  # offsets that lead out of the text would read other memory
    if not is_column:
        return made
    pa: Any = import_module("pyarrow")

    return pa.chunked_array([made])


def _texts(kind: str, length: int, offset: int, buffers: list[Any]) -> list[str | None]:
    """What Arrow holds, where pyarrow is not installed: places in one text, and a bit for each that is there."""
    np: Any = import_module("numpy")

    raw = [b"" if one is None else one if type(one) is bytes else bytes(bytes_of(one)) for one in buffers]
    width = 4 if kind == "StringArray" else 8
    bits = np.unpackbits(np.frombuffer(raw[0], "u1"), bitorder="little")[offset : offset + length]
    if len(raw[1]) < width * (offset + length + 1) or len(bits) < (length if raw[0] else 0):
        raise refuse("text that is shorter than it says")
    places = np.frombuffer(raw[1], f"<i{width}", length + 1, width * offset).tolist()
    if places[0] < 0 or places[-1] > len(raw[2]) or any(one > other for one, other in pairwise(places)):
        raise refuse("text that lies outside of what it is stored in")
    found: list[str | None] = [raw[2][one:other].decode() for one, other in pairwise(places)]
    return [text if is_valid else None for text, is_valid in zip(found, bits, strict=True)] if raw[0] else found


def _arrow_column(kind: Any, chunks: Any, state: Any) -> Any:
    pd: Any = import_module("pandas")

    _kind_of(kind, "ArrowStringArray")
    dtype = state.get("_dtype") if type(state) is dict else None
    if isinstance(chunks, Part):
        if type(dtype) is not pd.StringDtype:
            raise refuse("text that is kept in a way of its own")
        return pd.array(_used(chunks, "text").arguments[0], dtype=dtype)
    pa: Any = import_module("pyarrow")
    if not isinstance(chunks, pa.ChunkedArray) or type(dtype) is not pd.StringDtype:
        raise refuse("text that is kept in a way of its own")
    return pd.array(chunks.to_pylist(), dtype=dtype)


def _moment(value: Any, frequency: Any, zone: Any, unit: Any = 10) -> Any:
    if type(value) is not int or frequency is not None or type(unit) is not int or not 0 <= unit <= 10:
        raise refuse("a moment of a kind of its own")
    if zone is not None and type(zone) not in ZONES:
        raise refuse("a time zone that is read from a file")
    timestamps: Any = import_module("pandas._libs.tslibs.timestamps")
    return timestamps._unpickle_timestamp(value, None, zone, unit)


def _span(value: Any, unit: Any = 10) -> Any:
    if type(value) is not int or type(unit) is not int or not 0 <= unit <= 10:
        raise refuse("a span of time of a kind of its own")
    timedeltas: Any = import_module("pandas._libs.tslibs.timedeltas")
    return timedeltas._timedelta_unpickle(value, unit)


def _period_dtype(name: Any) -> Any:
    pd: Any = import_module("pandas")

    if type(name) is not str or not _PERIOD.fullmatch(name):
        raise refuse("pandas.PeriodDtype")
    return pd.PeriodDtype(name[len("period[") : -1])


def _period(value: Any, frequency: Any, ordinal: Any) -> Any:
    pd: Any = import_module("pandas")

    if value is not None or type(ordinal) is not int or not isinstance(frequency, Part):
        raise refuse("pandas.Period")
    return pd.Period(ordinal=ordinal, freq=_frequency(frequency))


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "array._array_reconstructor": _typed_array,
    "builtins.getattr": _attribute,
    "numpy.dtype": _dtype,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy.core.multiarray.scalar": _scalar,
    "pandas._libs.arrays.__pyx_unpickle_NDArrayBacked": _backed,
    "pandas._libs.internals._unpickle_block": _block,
    "pandas._libs.interval.__pyx_unpickle_IntervalMixin": _backed,
    "pandas._libs.tslibs.timedeltas._timedelta_unpickle": _span,
    "pandas._libs.tslibs.timestamps._unpickle_timestamp": _moment,
    "pandas.core.indexes.base._new_Index": _index,
    "pandas.core.indexes.datetimes._new_DatetimeIndex": _dates,
    "pandas.core.indexes.timedeltas._new_TimedeltaIndex": _dates,
    "pandas.core.internals.managers.BlockManager": _manager,
    "pandas.core.internals.managers.SingleBlockManager": _single_manager,
    "pandas.Interval": _interval,
    "pandas.Period": _period,
    "pandas.PeriodDtype": _period_dtype,
    "pandas.StringDtype": _text_dtype,
    "re._compile": _pattern,
    "pandas.core.arrays.string_.StringDtype": _text_dtype,
    **{f"pandas._libs.tslibs.offsets.{name}": _offset(name) for name in _OFFSETS},
    f"{_PACKAGE}.arrays.array": _array,
    f"{_PACKAGE}.arrays.long_double": _long_double,
    f"{_PACKAGE}.arrays.array_subclass": _subclass,
    f"{_PACKAGE}.arrays.masked_array": _masked_array,
    f"{_PACKAGE}.arrays.object_array_state": _object_items,
    f"{_PACKAGE}.arrays.small_array": _small_array,
    f"{_PACKAGE}.arrays.view": _view,
    f"{_PACKAGE}.frames.arrow_column": _arrow_column,
    f"{_PACKAGE}.frames.arrow_text": _arrow_text,
    f"{_PACKAGE}.frames.index_of_intervals": _index_of_intervals,
    f"{_PACKAGE}.frames.index_of_several": _index_of_several,
    f"{_PACKAGE}.frames.table_state": _fill_table,
}
