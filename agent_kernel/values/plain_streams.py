"""Read values whose maker is not trusted: numbers, texts, containers, arrays and tables, and nothing that could run code.

A pickle is a program: it names functions and calls them. Here it is run by Python's own unpickler, step by step, and each step
says no to all that plain data does not need. Only the names of a fixed list count. Each stands for a function of this package
that looks at what it is given before it builds anything: nothing of numpy or pandas is handed bytes, codes or shapes that
somebody else wrote unless they were found to fit. What is built is bounded by the length of the stream. Everything else, a class of the
notebook, a model, a function, raises `UntrustedValueError`, which names it.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What a stream holds is anyone's object.

from __future__ import annotations

import datetime
import decimal
import fractions
import io
import pathlib
import pickle
import re
import struct
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from importlib import import_module
from types import NoneType
from typing import Any, ClassVar, Final

from agent_kernel.values import plain_tables
from agent_kernel.values.plain_tables import Callee, Part, refuse
from agent_kernel.values.references import KNOWN_NANS, is_nan, load_nan
from agent_kernel.values.restore.buffers import StoredBytes, bytes_of
from agent_kernel.values.restore.context import current
from agent_kernel.values.restore.paths import FOREIGN
from agent_kernel.values.streams import Finding

_MOST_DIGITS: Final = 10_000
_MOST_IN_A_KEY: Final = 10_000  # objects, each counted as often as it stands there: so long it takes to hash
_DEEPEST_KEY: Final = 100

# Modules whose import does nothing that anyone would notice. A notebook's own module may stand beside it, and is not here.
_MODULES: Final = frozenset(
    [
        *(
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
        ),
        *(
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
        ),
        *("random", "re", "statistics", "string", "sys", "textwrap", "time", "typing", "uuid", "warnings", "zoneinfo"),
        *(
            "matplotlib",
            "matplotlib.pyplot",
            "networkx",
            "numpy",
            "pandas",
            "plotly",
            "plotly.express",
            "polars",
            "pyarrow",
        ),
        *("scipy", "scipy.stats", "seaborn", "sklearn", "statsmodels", "statsmodels.api", "sympy", "torch", "tqdm"),
    ]
)
_FACTORIES: Final[dict[str, type]] = {
    f"builtins.{kind.__name__}": kind for kind in (bool, bytes, dict, float, int, list, set, str, tuple)
}
_NUMBER: Final = re.compile(r"[+-]?\d+(/\d+)?")
_ATOMS: Final = frozenset({NoneType, bool, int, float, complex, str, bytes})
_PATHS: Final = (pathlib.PurePosixPath, pathlib.PureWindowsPath)
_DAYS: Final = (datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone)
_HASHABLE: Final = frozenset({*_ATOMS, *_DAYS, decimal.Decimal, fractions.Fraction, uuid.UUID, range})


# -- the functions that stand for names


def _of_types(arguments: tuple[object, ...], *kinds: type) -> None:
    if not all(type(one) in kinds for one in arguments):
        raise refuse("something that is made of other things than it should be")


def _complex(*parts: Any) -> complex:
    _of_types(parts, float, int)
    return complex(*parts)


def _range(*parts: Any) -> range:
    _of_types(parts, int)
    return range(*parts)


def _slice(*parts: Any) -> slice:
    return slice(*parts)


def _bytearray(content: Any = b"") -> bytearray:
    _of_types((content,), bytes)
    return bytearray(content)


def _counter(*arguments: Any) -> Counter[Any]:
    _of_types(arguments, dict)
    return Counter(*arguments)


def _ordered(*arguments: Any) -> OrderedDict[Any, Any]:
    _of_types(arguments)
    if arguments:
        raise refuse("a dict that is made in a way of its own")
    return OrderedDict()


def _defaultdict(factory: Any = None) -> defaultdict[Any, Any]:
    if factory is not None and factory not in _FACTORIES.values():
        raise refuse("a dict with defaults of its own")
    return defaultdict(factory)


def _deque(items: Any = (), longest: Any = None) -> deque[Any]:
    _of_types((items,), list, tuple)
    _of_types((longest,), int, NoneType)
    return deque(items, longest)


def _day(kind: Any) -> Callable[..., Any]:
    def make(*parts: Any) -> Any:
        _of_types(parts, int, bytes, str, datetime.timedelta, *plain_tables.ZONES, NoneType)
        return kind(*parts)

    return make


def _decimal(text: Any) -> decimal.Decimal:
    _of_types((text,), str)
    if len(text) > _MOST_DIGITS:
        raise refuse("a number of very many digits")
    return decimal.Decimal(text)


def _fraction(*parts: Any) -> fractions.Fraction:
    _of_types(parts, str, int)
    if not all(type(one) is int or (len(one) <= _MOST_DIGITS and _NUMBER.fullmatch(one)) for one in parts):
        raise refuse("a number of very many digits")
    return fractions.Fraction(*parts)


def _path(kind: Any) -> Callable[..., Any]:
    def make(*parts: Any) -> Any:
        _of_types(parts, str)
        return kind(*parts)

    return make


def _module(name: Any) -> Any:
    if name not in _MODULES:
        raise refuse(f"the module {name}")
    return import_module(name)


def _unsaved(token: Any, surface: Any = b"") -> object:
    """What stands for an object that was not saved."""
    _of_types((token,), str)
    _of_types((surface,), bytes)
    return current().live(token)


_PACKAGE: Final = "agent_kernel.values.restore"
_GUARDED: Final[dict[str, Callable[..., Any]]] = {
    "builtins.bytearray": _bytearray,
    "builtins.complex": _complex,
    "builtins.range": _range,
    "builtins.slice": _slice,
    "collections.Counter": _counter,
    "collections.OrderedDict": _ordered,
    "collections.defaultdict": _defaultdict,
    "collections.deque": _deque,
    "decimal.Decimal": _decimal,
    "fractions.Fraction": _fraction,
    **{f"datetime.{kind.__name__}": _day(kind) for kind in _DAYS},
    **{f"pathlib.{kind.__name__}": _path(kind) for kind in _PATHS},
    **{f"pathlib.{name}": _path(pathlib.Path) for name in ("PosixPath", "WindowsPath")},
    f"pathlib.{FOREIGN.__name__}": _path(FOREIGN),
    f"{_PACKAGE}.code.module": _module,
    **plain_tables.FUNCTIONS,
}
_BY_NAME: Final = f"{_PACKAGE}.code.by_name"
_COLUMN: Final = f"{_PACKAGE}.arrays.object_column"
_COLUMN_WITH_NANS: Final = f"{_COLUMN}_with_nans"


_STANDARD: Final = frozenset({"builtins", "collections", "datetime", "decimal", "fractions", "pathlib"})
_LIVE: Final = f"{_PACKAGE}.objects.live"


# -- the steps

_python: Any = pickle
_Python: Any = _python._Unpickler
_STEPS: Final = (
    pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.POP, pickle.MEMOIZE, pickle.BINGET, pickle.LONG_BINGET,
    pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.LONG4,
    pickle.BINFLOAT, pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINUNICODE8, pickle.BINBYTES, pickle.SHORT_BINBYTES,
    pickle.BINBYTES8, pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.EMPTY_LIST,
    pickle.EMPTY_DICT, pickle.EMPTY_SET, pickle.STACK_GLOBAL, pickle.BINPERSID, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER,
)  # fmt: skip


class PlainUnpickler(Finding, _Python):  # type: ignore[misc]
    """Builds plain data, and raises UntrustedValueError at the first thing that is not."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {step[0]: _Python.dispatch[step[0]] for step in _STEPS}

    def __init__(self, stream: io.BytesIO, buffers: Iterator[Any], anchors: list[object]) -> None:
        super().__init__(stream, buffers, anchors)
        self.length = len(stream.getbuffer())
        self.room = self.length + 1000  # items of arrays that are filled later
        self._calls: dict[
            int, Callable[..., Any]
        ] = {}  # by the id of a class of the standard library, what makes its instances
        self._parts: list[Part] = []  # of tables, which must become one

    def load(self) -> Any:
        try:
            found = plain_tables.settle(super().load())
        except KeyError as error:
            raise refuse("an object that is made in a way that plain data is not") from error
        except (EOFError, struct.error, IndexError, RecursionError, MemoryError, OverflowError) as error:
            raise refuse(f"a stream that is whole ({type(error).__name__})") from error
        unused = next((part for part in self._parts if not part.is_used), None)
        if unused is not None:
            raise refuse(unused.kind)
        return found

    def persistent_load(self, pid: Any) -> object:
        if type(pid) is str:
            return self._nan(pid)
        if type(self.pointed) not in (list, tuple) or type(pid) is not int or not 0 <= pid < len(self.pointed):
            raise refuse("something that stands in another place than it should")
        return self.pointed[pid]

    def _nan(self, mark: str) -> float:
        try:
            return load_nan(mark, self.nans, self.find_nan)
        except (ValueError, struct.error) as error:
            raise refuse("a number that is written in a way of its own") from error

    def find_nan(self, module: str, name: str) -> object:
        return super().find_nan(module, name) if (module, name) in KNOWN_NANS else None

    def find_class(self, module: str, name: str, /) -> Any:
        module = "pathlib" if module == "pathlib._local" else module  # Python 3.13 has its paths there
        full = f"{module}.{name}"
        if full in _FACTORIES:
            return _FACTORIES[full]
        if full in _GUARDED and module in _STANDARD:
            # A value of its own, as `from datetime import date` makes one; a call of it goes to the function beside it.
            found = getattr(import_module(module), name, None)
            if isinstance(found, type):
                self._calls[id(found)] = _GUARDED[full]
                return found
        own: dict[str, Callable[..., Any]] = {
            _BY_NAME: self.find_class, _COLUMN: self._object_column, _COLUMN_WITH_NANS: self._object_column,
            plain_tables.BARE: self._bare_array, _LIVE: _unsaved,
        }  # fmt: skip
        function = own.get(full) or _GUARDED.get(full)
        if function is None:
            return self._constant_or_class(module, name)
        self._parts.append(callee := Callee(full, function))
        return callee

    def _constant_or_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" == "uuid.UUID":
            return uuid.UUID
        if plain_tables.is_constant(module, name):
            return getattr(import_module(module), name)
        found = plain_tables.class_named(module, name)
        if isinstance(found, Part):
            self._parts.append(found)
        return found

    def _bare_array(self, shape: Any, order: Any, dtype: Any = object) -> Any:
        made = plain_tables.bare_array(shape, order, dtype, self.room)
        self.room -= made.size
        return made

    def _object_column(
        self, codes: StoredBytes, atoms: StoredBytes, shape: Any, order: Any, writeable: Any, found: Any = ()
    ) -> Any:
        items = PlainUnpickler(io.BytesIO(bytes_of(atoms)), iter(()), []).load()
        _set_nans(items, found)
        return plain_tables.object_column(items, codes, shape, order, writeable)

    # Steps that take something from the stack: called with the unpickler itself.

    def reduce(self) -> None:
        args, function = self.stack.pop(), self.stack[-1]
        if isinstance(function, Callee):
            do: Any = function.use_function()
        else:
            do = self._calls.get(id(function))
        if type(args) is not tuple or do is None:
            raise refuse("a call of something other than a function of plain data")
        made = do(*args)
        if isinstance(made, Part):
            self._parts.append(made)
        self.stack[-1] = made

    def new_object(self) -> None:
        args, kind = self.stack.pop(), self.stack[-1]
        if args != ():
            raise refuse("an object that is made in a way that plain data is not")
        made = uuid.UUID.__new__(uuid.UUID) if kind is uuid.UUID else plain_tables.new(kind)
        if isinstance(made, Part):
            self._parts.append(made)
        self.stack[-1] = made

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is uuid.UUID:
            value = state.get("int") if type(state) is dict else None
            if type(value) is not int or not 0 <= value < 1 << 128:
                raise refuse("a UUID without a number")
            object.__setattr__(target, "int", value)
            object.__setattr__(target, "is_safe", uuid.SafeUUID.unknown)
        elif isinstance(target, Part):
            target.state = state
        else:
            plain_tables.set_byte_order(target, state)

    def append(self) -> None:
        self._extend([self.stack.pop()])

    def appends(self) -> None:
        self._extend(self.pop_mark())

    def _extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) not in (list, deque):
            raise refuse("items of something other than a list")
        self.stack[-1].extend(map(plain_tables.settle, items))

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._update([key, value])

    def set_items(self) -> None:
        self._update(self.pop_mark())

    def _update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict, Counter, defaultdict):
            raise refuse("items of something other than a dict")
        for at in range(0, len(items), 2):
            _check_key(items[at])
            target[items[at]] = items[at + 1]

    def add_items(self) -> None:
        items = self.pop_mark()
        if type(self.stack[-1]) is not set:
            raise refuse("items of something other than a set")
        for item in items:
            _check_key(item)
        self.stack[-1].update(items)

    def frozen_set(self) -> None:
        items = self.pop_mark()
        for item in items:
            _check_key(item)
        self.append_to_stack(frozenset(items))

    def append_to_stack(self, made: object) -> None:
        self.stack.append(made)

    def long_bytearray(self) -> None:
        size = int.from_bytes(self.read(8), "little")
        if size > self.length:
            raise refuse("a stream that is whole")
        self.stack.append(bytearray(self.read(size)))


for _step, _do in (
    (pickle.REDUCE, PlainUnpickler.reduce), (pickle.NEWOBJ, PlainUnpickler.new_object), (pickle.BUILD, PlainUnpickler.build),
    (pickle.APPEND, PlainUnpickler.append), (pickle.APPENDS, PlainUnpickler.appends), (pickle.SETITEM, PlainUnpickler.set_item),
    (pickle.SETITEMS, PlainUnpickler.set_items), (pickle.ADDITEMS, PlainUnpickler.add_items),
    (pickle.FROZENSET, PlainUnpickler.frozen_set), (pickle.BYTEARRAY8, PlainUnpickler.long_bytearray),
):  # fmt: skip
    PlainUnpickler.dispatch[_step[0]] = _do


def _set_nans(items: Any, found: Any) -> None:
    """Put each NaN into its place among the objects of a column, if there is one there."""
    if type(items) is not list or type(found) is not tuple:
        raise refuse("an array of objects that is made in a way of its own")
    for one in found:
        place, value = one if type(one) is tuple and len(one) == 2 else (None, None)
        if type(place) is not int or not 0 <= place < len(items) or not is_nan(value) or not is_nan(items[place]):
            raise refuse("an array of objects that is made in a way of its own")
        items[place] = value


def _check_key(key: object) -> None:
    """Raise unless it can be hashed in a short time: tuples in tuples are hashed as often as they stand there."""
    if type(key) in _ATOMS:
        return
    waiting: list[tuple[object, int]] = [(key, 0)]
    remaining = _MOST_IN_A_KEY
    while waiting:
        one, depth = waiting.pop()
        remaining -= 1
        if remaining < 0 or depth > _DEEPEST_KEY:
            raise refuse("a key that takes long to look up")
        if type(one) is tuple or type(one) is frozenset:
            remaining -= len(one)
            if remaining >= 0:
                waiting += [(item, depth + 1) for item in one]
        elif type(one) not in _HASHABLE and not isinstance(one, _PATHS) and not plain_tables.is_scalar(one):
            raise refuse(f"a key of type {type(one).__qualname__}")
