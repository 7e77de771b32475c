"""Read values whose maker is not trusted: numbers, texts, containers, arrays and tables, and nothing that could run code.

A pickle is a program: it names functions and calls them. Here only the names of a fixed list count, each stands for a
function that builds data and nothing else, and what it is given is checked first where wrong bytes could harm: memory of an
array is never taken for references to objects, offsets of texts must lie within them. Everything else, a class of the notebook,
a model, a function, raises `UntrustedValueError`, which names it.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What a stream holds is anyone's object.

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from math import prod
from typing import Any, ClassVar, Final

from agent_kernel.errors import UntrustedValueError
from agent_kernel.values.restore import arrays, frames
from agent_kernel.values.restore.buffers import StoredBytes, bytes_of
from agent_kernel.values.streams import Finding

__all__ = ["PlainUnpickler"]

_MOST_BARE: Final = 50_000_000  # items of an array of objects that the stream fills later

# Modules whose import does nothing that anyone would notice. A notebook's own module may stand beside it, and is not here.
_MODULES: Final = frozenset(
    [
        "abc",
        "bisect",
        "calendar",
        "collections",
        "copy",
        "csv",
        "dataclasses",
        "datetime",
        "decimal",
        "enum",
        "fractions",
        "functools",
        "glob",
        "gzip",
        "heapq",
        "io",
        "itertools",
        "json",
        "math",
        "operator",
        "os",
        "pathlib",
        "pprint",
        "random",
        "re",
        "statistics",
        "string",
        "sys",
        "textwrap",
        "time",
        "typing",
        "uuid",
        "warnings",
        "zoneinfo",
        "matplotlib",
        "matplotlib.pyplot",
        "networkx",
        "numpy",
        "pandas",
        "plotly",
        "plotly.express",
        "polars",
        "pyarrow",
        "scipy",
        "scipy.stats",
        "seaborn",
        "sklearn",
        "statsmodels",
        "statsmodels.api",
        "sympy",
        "torch",
        "tqdm",
    ]
)

# Called with what the stream holds, as they are: they build values of builtin types and of the standard library.
_CONSTRUCTORS: Final = frozenset(
    [
        "builtins.complex",
        "builtins.range",
        "builtins.slice",
        "builtins.frozenset",
        "builtins.set",
        "builtins.int",
        "builtins.float",
        "builtins.str",
        "builtins.list",
        "builtins.dict",
        "builtins.tuple",
        "builtins.bool",
        "collections.Counter",
        "collections.OrderedDict",
        "collections.defaultdict",
        "collections.deque",
        "datetime.date",
        "datetime.datetime",
        "datetime.time",
        "datetime.timedelta",
        "datetime.timezone",
        "decimal.Decimal",
        "fractions.Fraction",
        "uuid.UUID",
        "uuid.SafeUUID",
        "pathlib.PosixPath",
        "pathlib.WindowsPath",
        "pathlib.PurePosixPath",
        "pathlib.PureWindowsPath",
        "pathlib.Path",
        "pathlib.PurePath",
        "pathlib._local.PosixPath",
        "pathlib._local.WindowsPath",
        "pandas.core.internals.managers.BlockManager",
        "pandas.core.internals.managers.SingleBlockManager",
        "pandas._libs.internals._unpickle_block",
        "pandas._libs.tslibs.timestamps._unpickle_timestamp",
        "pandas._libs.tslibs.timedeltas._timedelta_unpickle",
        "pandas._libs.tslibs.period._unpickle_period",
        "pandas._libs.tslibs.nattype._nat_unpickle",
        "numpy.True_",
        "numpy.False_",
        "numpy.ma.masked",
        "pandas._libs.missing.NA",
        "pandas._libs.tslibs.nattype.NaT",
        "pandas.NA",
        "pandas.NaT",
    ]
)
# Classes of pandas, by the part of their name behind the package: releases keep them in different modules.
_OF_PANDAS: Final = frozenset(
    [
        "DataFrame",
        "Series",
        "Index",
        "RangeIndex",
        "MultiIndex",
        "DatetimeIndex",
        "TimedeltaIndex",
        "PeriodIndex",
        "IntervalIndex",
        "CategoricalIndex",
        "Categorical",
        "CategoricalDtype",
        "DatetimeTZDtype",
        "PeriodDtype",
        "IntervalDtype",
        "StringDtype",
        "Int8Dtype",
        "Int16Dtype",
        "Int32Dtype",
        "Int64Dtype",
        "UInt8Dtype",
        "UInt16Dtype",
        "UInt32Dtype",
        "UInt64Dtype",
        "Float32Dtype",
        "Float64Dtype",
        "BooleanDtype",
        "Timestamp",
        "Timedelta",
        "Period",
        "IntegerArray",
        "FloatingArray",
        "BooleanArray",
        "DatetimeArray",
        "TimedeltaArray",
        "PeriodArray",
        "IntervalArray",
        "StringArray",
        "ArrowStringArray",
        "ArrowStringArrayNumpySemantics",
        "PandasArray",
        "NumpyExtensionArray",
        "Flags",
        "Day",
        "Hour",
        "Minute",
        "Second",
        "MonthEnd",
        "MonthBegin",
        "BusinessDay",
        "YearEnd",
        "YearBegin",
        "QuarterEnd",
        "QuarterBegin",
        "Week",
        "Milli",
        "Micro",
        "Nano",
    ]
)


def _refuse(what: str) -> UntrustedValueError:
    return UntrustedValueError(what)


def _dtype(kind: object, *flags: object) -> Any:
    """A dtype whose memory is data: never references to objects. Always a new one, since its state may follow."""
    import numpy as np

    del flags
    made: Any = np.dtype(kind, False, True)  # type: ignore[call-overload]
    if made.hasobject:
        raise _refuse("an array whose memory holds objects")
    return made


def _plain_array(buffer: StoredBytes, dtype: Any, shape: Any, order: str, writeable: bool = True) -> Any:
    kind = _dtype(dtype)
    if min(shape, default=1) < 0 or prod(shape) * kind.itemsize != buffer.size:
        raise _refuse("an array whose shape does not fit its memory")
    return arrays.array(buffer, kind, tuple(shape), "F" if order == "F" else "C", bool(writeable))


def _plain_small_array(payload: bytes, dtype: Any, shape: Any, writeable: bool) -> Any:
    kind = _dtype(dtype)
    if min(shape, default=1) < 0 or prod(shape) * kind.itemsize != len(payload):
        raise _refuse("an array whose shape does not fit its memory")
    return arrays.small_array(payload, kind, tuple(shape), bool(writeable))


def _plain_view(owner: Any, offset: int, shape: Any, strides: Any, dtype: Any, writeable: bool) -> Any:
    import numpy as np

    if type(owner) is not np.ndarray or owner.dtype.hasobject:
        raise _refuse("a view of something other than an array of numbers")
    return arrays.view(owner, int(offset), tuple(shape), tuple(strides), _dtype(dtype), bool(writeable))


def _plain_object_array(shape: Any, order: str, dtype: Any = object) -> Any:
    if dtype is not object or min(shape, default=1) < 0 or prod(shape) > _MOST_BARE:
        raise _refuse("a structured array that holds objects")
    return arrays.object_array_bare(tuple(shape), "F" if order == "F" else "C")


def _plain_object_items(made: Any, state: Any) -> None:
    import numpy as np

    if type(made) is not np.ndarray or made.dtype != object:
        raise _refuse("the items of something other than an array of objects")
    arrays.object_array_state(made, state)


def _plain_object_column(codes: StoredBytes, atoms: StoredBytes, shape: Any, order: str, writeable: bool) -> Any:
    """As `arrays.object_column`, with the distinct objects read as all else here."""
    items: Any = PlainUnpickler(io.BytesIO(bytes_of(atoms)), iter(()), []).load()
    if type(items) is not list or prod(shape) > max(_MOST_BARE, codes.size, len(items)) or min(shape, default=1) < 0:
        raise _refuse("an array whose shape does not fit its memory")
    return arrays.object_column_of(items, codes, tuple(shape), "F" if order == "F" else "C", bool(writeable))


def _plain_masked_array(kind: Any, values: Any, mask: Any, fill_value: object, state: Any) -> Any:
    import numpy as np

    if kind is not np.ma.MaskedArray or set(state) - {
        "_basedict",
        "_optinfo",
        "_hardmask",
        "_sharedmask",
        "_isfield",
        "_baseclass",
    }:
        raise _refuse("a kind of masked array that is not numpy's own")
    return arrays.masked_array(kind, values, mask, fill_value, state)


def _scalar(dtype: Any, payload: bytes) -> Any:
    import numpy as np

    kind = _dtype(dtype)
    if type(payload) is not bytes or len(payload) != kind.itemsize:
        raise _refuse("a number whose bytes do not fit")
    return np.frombuffer(payload, kind)[0]


def _plain_arrow_text(kind: str, is_column: bool, length: int, offset: int, buffers: Any) -> Any:
    if kind not in ("StringArray", "LargeStringArray"):
        raise _refuse(f"pyarrow.{kind}")
    made = frames.arrow_text(kind, bool(is_column), int(length), int(offset), buffers)
    made.validate(full=True)  # offsets that lead out of the text would read other memory
    return made


def _plain_arrow_column(kind: Any, chunks: Any, state: Any) -> Any:
    if kind.__name__ not in _OF_PANDAS:
        raise _refuse(str(kind))
    return frames.arrow_column(kind, chunks, state)


def _plain_table_state(made: Any, state: Any) -> None:
    if type(made).__module__.partition(".")[0] != "pandas" or type(made).__name__ not in ("DataFrame", "Series"):
        raise _refuse(type(made).__qualname__)
    ours, columns, own = state
    frames.table_state(
        made, (dict(ours), dict(columns), {name: found for name, found in own.items() if name == "_name"})
    )


def _backed(kind: Any, checksum: int, state: Any) -> Any:
    if state is not None or kind.__name__ not in _OF_PANDAS:
        raise _refuse(str(kind))
    return import_module("pandas._libs.arrays").__pyx_unpickle_NDArrayBacked(kind, checksum, state)


def _new_index(kind: Any, said: dict[str, Any]) -> Any:
    if not isinstance(kind, type) or kind.__name__ not in _OF_PANDAS:
        raise _refuse(str(kind))
    return import_module("pandas.core.indexes.base")._new_Index(kind, dict(said))


def _new_dates(kind: Any, said: dict[str, Any]) -> Any:
    if not isinstance(kind, type) or kind.__name__ not in _OF_PANDAS:
        raise _refuse(str(kind))
    return import_module("pandas.core.indexes.datetimes")._new_DatetimeIndex(kind, dict(said))


def _bytearray(content: bytes = b"", *rest: object) -> bytearray:
    if type(content) is not bytes or rest:
        raise _refuse("a bytearray of a given length")
    return bytearray(content)


def _module(name: str) -> Any:
    if name not in _MODULES:
        raise _refuse(f"the module {name}")
    return import_module(name)


def _by_name(module: str, name: str) -> Any:
    return _find(module, name)


_PACKAGE: Final = "agent_kernel.values.restore"
_GUARDED: Final[dict[str, Callable[..., Any]]] = {
    "builtins.bytearray": _bytearray,
    "numpy.dtype": _dtype,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy.core.multiarray.scalar": _scalar,
    "pandas._libs.arrays.__pyx_unpickle_NDArrayBacked": _backed,
    "pandas.core.indexes.base._new_Index": _new_index,
    "pandas.core.indexes.datetimes._new_DatetimeIndex": _new_dates,
    f"{_PACKAGE}.arrays.array": _plain_array,
    f"{_PACKAGE}.arrays.masked_array": _plain_masked_array,
    f"{_PACKAGE}.arrays.object_array_bare": _plain_object_array,
    f"{_PACKAGE}.arrays.object_array_state": _plain_object_items,
    f"{_PACKAGE}.arrays.object_column": _plain_object_column,
    f"{_PACKAGE}.arrays.small_array": _plain_small_array,
    f"{_PACKAGE}.arrays.view": _plain_view,
    f"{_PACKAGE}.code.by_name": _by_name,
    f"{_PACKAGE}.code.module": _module,
    f"{_PACKAGE}.frames.arrow_column": _plain_arrow_column,
    f"{_PACKAGE}.frames.arrow_text": _plain_arrow_text,
    f"{_PACKAGE}.frames.block": frames.block,
    f"{_PACKAGE}.frames.index": frames.index,
    f"{_PACKAGE}.frames.index_of_several": frames.index_of_several,
    f"{_PACKAGE}.frames.references": frames.references,
    f"{_PACKAGE}.frames.table_state": _plain_table_state,
}


def _find(module: str, name: str) -> Any:
    """What stands for a name in such a stream.

    Raises:
        UntrustedValueError: the name is not one of plain data.
    """
    full = f"{module}.{name}"
    if full in _GUARDED:
        return _GUARDED[full]
    of_pandas = module.partition(".")[0] == "pandas" and name in _OF_PANDAS
    of_numpy = module == "numpy.ma" and name == "MaskedArray"
    if not (full in _CONSTRUCTORS or of_pandas or of_numpy):
        raise _refuse(full)
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise _refuse(full) from error


_python: Any = pickle
_Python: Any = _python._Unpickler
_REFUSED: Final = (
    pickle.INST, pickle.OBJ, pickle.GLOBAL, pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.PERSID, pickle.NEWOBJ_EX,
)  # fmt: skip
_ITEM: Final = {"IntegerArray", "FloatingArray", "BooleanArray"}
_STATES: Final = frozenset(
    [
        "Categorical",
        "DatetimeArray",
        "TimedeltaArray",
        "PeriodArray",
        "IntervalArray",
        "StringArray",
        "CategoricalDtype",
        "DatetimeTZDtype",
    ]
)


class PlainUnpickler(Finding, _Python):  # type: ignore[misc]
    """Builds plain data, and raises UntrustedValueError at the first thing that is not."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        code: step for code, step in _Python.dispatch.items() if bytes([code]) not in _REFUSED
    }

    def __init__(self, stream: io.BytesIO, buffers: Iterator[Any], anchors: list[object]) -> None:
        super().__init__(stream, buffers, anchors)

    def load(self) -> Any:
        try:
            return super().load()
        except KeyError as error:
            code = error.args[0] if error.args else None
            if isinstance(code, int) and bytes([code & 0xFF]) in _REFUSED:
                raise _refuse("an object that is made in a way that plain data is not") from None
            raise

    def find_class(self, module: str, name: str, /) -> Any:
        return _find(module, name)


def _load_build(self: Any) -> None:
    state, target = self.stack[-1], self.stack[-2]
    kind = type(target)
    home, name = kind.__module__.partition(".")[0], kind.__name__
    if home == "numpy" and name.endswith("DType"):
        _set_byte_order(target, state)
        self.stack.pop()
        return
    if home == "pandas" and name in _ITEM and type(state) is dict:
        vars(target).update(
            {sys.intern(key): value for key, value in state.items() if key in ("_data", "_mask", "_dtype")}
        )
        self.stack.pop()
        return
    if not (home == "pandas" and name in _STATES) and not (kind.__module__ == "uuid" and type(state) is dict):
        raise _refuse(f"the state of {kind.__module__}.{kind.__qualname__}")
    _Python.dispatch[pickle.BUILD[0]](self)


def _set_byte_order(target: Any, state: Any) -> None:
    """What a simple dtype says of itself: which of its bytes comes first, and its unit where it is one of days."""
    version, order, subarray, names, fields = state[:5]
    if version not in (3, 4) or order not in ("<", ">", "|", "=") or (subarray, names, fields) != (None, None, None):
        raise _refuse("an array of structures")
    sizes = state[5:8]
    if sizes not in ((-1, -1, 0), (-1, -1, 64)) and target.char not in "SUmM":
        raise _refuse("an array of structures")
    if target.char in "SU" and sizes[0] != target.itemsize:
        raise _refuse("an array of structures")
    target.__setstate__(state)


def _load_reduce(self: Any) -> None:
    args, function = self.stack[-1], self.stack[-2]
    if not callable(function) or type(args) is not tuple:
        raise _refuse("a call of something other than a function")
    _Python.dispatch[pickle.REDUCE[0]](self)


PlainUnpickler.dispatch[pickle.BUILD[0]] = _load_build
PlainUnpickler.dispatch[pickle.REDUCE[0]] = _load_reduce
