"""The functions that stored pickle streams call to rebuild values.

Their names and arguments are a stored format: never rename one, never drop an argument; add a new function instead.
They find what they need (the namespace, code, classes, live objects) in the loader that is at work in this thread.
"""

from __future__ import annotations

import abc
import contextlib
import copyreg
import functools
import importlib
import itertools
import sys
import threading
import types
import typing
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np


class Context(Protocol):
    """What rebuilding needs from the loader that runs it."""

    namespace: dict[str, object]

    def code(self, definition: bytes) -> types.CodeType: ...

    def find_class(self, uid: str) -> type: ...

    def live(self, token: str) -> object: ...

    def once(self, key: tuple[int, str], make: Callable[[], object]) -> Any: ...

    def live_or(self, token: str, make: Callable[[], object]) -> object: ...


class _Active(threading.local):
    context: Context | None = None


_active = _Active()


@contextlib.contextmanager
def restoring(context: Context) -> Iterator[None]:
    """Make `context` the one that streams loaded in this thread refer to."""
    before, _active.context = _active.context, context
    try:
        yield
    finally:
        _active.context = before


def _context() -> Context:
    if _active.context is None:
        raise RuntimeError("this stream belongs to an agent_kernel store; load it with Repository.at or a session")
    return _active.context


# -- functions and cells


def function(
    definition: bytes, name: str, cells: tuple[types.CellType, ...] | None, home: str | dict[str, object] | None
) -> types.FunctionType:
    """A function bound to the live namespace (home None), to a module, or to a dict of its own."""
    return types.FunctionType(_context().code(definition), _globals(home), name, None, cells)


def _globals(home: str | dict[str, object] | None) -> dict[str, object]:
    if home is None:
        return _context().namespace
    if isinstance(home, str):
        return (sys.modules.get(home) or importlib.import_module(home)).__dict__
    return home


def function_state(made: types.FunctionType, state: tuple[Any, ...]) -> None:
    attributes, made.__kwdefaults__, annotations, doc, module, qualname, made.__defaults__, extra_globals = state
    made.__dict__.update(attributes)
    made.__annotations__ = annotations
    made.__doc__, made.__module__, made.__qualname__ = doc, module, qualname
    if extra_globals:
        made.__globals__.update(extra_globals)


def namespace() -> dict[str, object]:
    return _context().namespace


def code(definition: bytes) -> types.CodeType:
    return _context().code(definition)


def cell() -> types.CellType:
    return types.CellType()


def cell_state(made: types.CellType, contents: tuple[object]) -> None:
    made.cell_contents = contents[0]


def lru_cache(wrapped: Callable[..., object], maxsize: int | None, typed: bool) -> object:
    return functools.lru_cache(maxsize, typed)(wrapped)


def lru_cache_state(made: object, state: Mapping[str, object]) -> None:
    vars(made).update(state)


def type_var(
    name: str, bound: object, constraints: tuple[object, ...], covariant: bool, contravariant: bool, module: str
) -> object:
    made = typing.TypeVar(  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]  # mypy wants a literal name
        name, *constraints, bound=bound, covariant=covariant, contravariant=contravariant
    )
    with contextlib.suppress(AttributeError):
        made.__module__ = module  # type: ignore[misc]  # writable at run time since 3.12
    return made


def weak_reference(target: object) -> object:
    return weakref.ref(target) if target is not None else weakref.ref(_Gone())


def weak_proxy(target: Any) -> object:
    return weakref.proxy(target if target is not None else _Gone())


class _Gone:
    """The target of a weak reference that was already dead."""


def lock(token: str, kind: str) -> object:
    """The lock of a notebook object: the live one where it lives, else a new one, which is unlocked."""
    return _context().live_or(token, threading.RLock if kind == "RLock" else threading.Lock)


def cached_property(function: Callable[[Any], Any], attribute: str | None, doc: str | None) -> object:
    made = functools.cached_property(function)
    made.attrname, made.__doc__ = attribute, doc
    return made


def regex_match(pattern: Any, text: Any, start: int, end: int, regions: tuple[tuple[int, int], ...]) -> object:
    """Match again, and take the way that finds the same regions."""
    tries = [
        (pattern.match, start),
        (pattern.fullmatch, start),
        (pattern.search, start),
        (pattern.match, regions[0][0]),
    ]
    found = [made for find, at in tries if (made := find(text, at, end)) is not None and made.regs == regions]
    if not found:
        raise ValueError(f"{pattern.pattern!r} no longer matches as it did")
    return found[0]


def by_name(module: str, name: str) -> object:
    """A singleton that a module holds under a name."""
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def main_module() -> types.ModuleType:
    return sys.modules["__main__"]


def module(name: str) -> types.ModuleType:
    return importlib.import_module(name)


# -- classes


def notebook_class(uid: str) -> type:
    return _context().find_class(uid)


def skeleton(meta: type, name: str, bases: tuple[type, ...], attributes: dict[str, object]) -> type:
    """A class without a body: no notebook hook exists yet, so making it runs none."""
    if isinstance(meta, type) and issubclass(meta, abc.ABCMeta):
        return abc.ABCMeta.__new__(meta, name, bases, attributes)
    try:
        return type.__new__(meta, name, bases, attributes)
    except TypeError:  # a metaclass written in C makes its own kind of class
        return types.new_class(name, bases, {"metaclass": meta}, lambda body: body.update(attributes))


def struct_skeleton(name: str, fields: list[Any], bases: tuple[Any, ...], module: str, options: dict[str, Any]) -> type:
    """A msgspec struct, whose metaclass is written in C and wants all fields at once."""
    import msgspec

    def spelled(name: str, kind: Any, how: str = "", default: Any = None) -> Any:
        if not how:
            return name, kind
        return name, kind, msgspec.field(default_factory=default) if how == "factory" else default

    made: type = msgspec.defstruct(name, [spelled(*parts) for parts in fields], bases=bases, module=module, **options)
    return made


def enum_skeleton(meta: Any, name: str, bases: tuple[type, ...], members: list[tuple[str, object]]) -> type:
    """Source: cloudpickle's way to make an enum before its methods."""
    body = meta.__prepare__(name, bases)
    for member, value in members:
        body[member] = value
    made: type = meta.__new__(meta, name, bases, body)
    return made


def enum_members(made: Any, extras: dict[str, dict[str, object]]) -> None:
    for name, attributes in extras.items():
        made.__members__[name].__dict__.update(attributes)


def fill_class(made: type, attributes: dict[str, object]) -> None:
    # type.__setattr__, so that no metaclass of the notebook's runs.
    for name, value in attributes.items():
        type.__setattr__(made, name, value)


def live(token: str, surface: bytes = b"") -> object:
    """An object that could not be saved: the one still alive in this process, or a placeholder that raises."""
    return _context().live(token)


# -- containers


def container_state(made: Any, state: tuple[object, object]) -> None:
    """Give a list, dict or set subclass its attributes first, then its items past any override."""
    attributes, items = state
    if attributes is not None:
        set_attributes(made, attributes)
    if isinstance(made, list):
        list.extend(made, items)  # type: ignore[arg-type]
    elif isinstance(made, dict):
        dict.update(made, items)  # type: ignore[call-overload]
    else:
        set.update(made, items)


def set_attributes(made: Any, state: Any) -> None:
    """What pickle does with a state, including slots."""
    if hasattr(type(made), "__setstate__"):
        made.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        made.__dict__.update(state)
    for name, value in (slots or {}).items():
        object.__setattr__(made, name, value)


def instance(kind: type, *arguments: object) -> object:
    return copyreg.__newobj__(kind, *arguments)  # type: ignore[attr-defined]  # pyright: ignore


def segmented_list(parts: list[list[object]]) -> list[object]:
    return list(itertools.chain.from_iterable(parts))


# -- arrays


class StoredBytes(Protocol):
    """A buffer that is read when it is known what it is for."""

    size: int

    def read_into(self, target: memoryview) -> None: ...


def memory(buffer: StoredBytes) -> np.ndarray[Any, Any]:
    """Plain writable bytes that several views share."""
    import numpy as np

    return _filled(np.empty(buffer.size, np.uint8), buffer)


def _filled(made: Any, buffer: StoredBytes) -> Any:
    """Read straight into a new array, so that it owns its memory as the stored one did."""
    import numpy as np

    if made.nbytes:
        flat = made if made.flags.c_contiguous else made.T
        buffer.read_into(memoryview(flat.reshape(-1).view(np.uint8)))
    return made


def fresh_memory(buffer: StoredBytes) -> Any:
    """Writable memory for a library's own reducer; not zeroed first where numpy can be had."""
    try:
        return memory(buffer)
    except ImportError:
        return _bytes_of(buffer)


def _bytes_of(buffer: StoredBytes) -> bytearray:
    made = bytearray(buffer.size)
    buffer.read_into(memoryview(made))
    return made


def array(buffer: StoredBytes, dtype: Any, shape: tuple[int, ...], order: str, writeable: bool = True) -> Any:
    import numpy as np

    made = _filled(np.empty(shape, np.dtype(dtype), order=order), buffer)  # type: ignore[call-overload]
    if not writeable:
        made.flags.writeable = False
    return made


def object_array_bare(shape: tuple[int, ...], order: str) -> Any:
    import numpy as np

    return np.empty(shape, object, order=order)  # type: ignore[call-overload]


def object_array_state(made: Any, state: tuple[list[object], str, bool]) -> None:
    items, order, writeable = state
    if made.size:
        flat = made.reshape(-1, order=order)
        for position, item in enumerate(items):
            flat[position] = item
    made.flags.writeable = writeable


def view(owner: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, writeable: bool) -> Any:
    import numpy as np

    made = np.ndarray(shape, dtype, buffer=_exposed(owner), offset=offset, strides=strides)
    if not writeable:
        made.flags.writeable = False
    return made


def object_view(owner: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], writeable: bool) -> Any:
    import numpy as np

    flat = owner.reshape(-1, order="A")
    made = np.lib.stride_tricks.as_strided(flat[offset // owner.itemsize :], shape, strides)
    if not writeable:
        made.flags.writeable = False
    return made


def _exposed(owner: Any) -> Any:
    if type(owner).__module__.startswith("torch"):
        return owner.numpy()
    return owner


def broadcast(base: Any, shape: tuple[int, ...], strides: tuple[int, ...], writeable: bool) -> Any:
    import numpy as np

    made = np.lib.stride_tricks.as_strided(base, shape, strides)
    if not writeable:
        made.flags.writeable = False
    return made


def array_subclass(plain: Any, kind: type, state: dict[str, object] | None) -> Any:
    made = plain.view(kind)
    if state:
        made.__dict__.update(state)
    return made


def masked_array(kind: type, values: Any, mask: Any, fill_value: object, state: dict[str, object]) -> Any:
    import numpy as np

    made = np.ma.MaskedArray(values, mask=mask, copy=False, keep_mask=False, shrink=False).view(kind)
    made._fill_value = fill_value  # type: ignore[attr-defined]
    made.__dict__.update(state)
    return made


def byte_view(owner: Any, offset: int, size: int, shape: tuple[int, ...], form: str, readonly: bool) -> memoryview:
    whole = memoryview(owner).cast("B")[offset : offset + size]
    if form != "B" or len(shape) != 1:
        whole = whole.cast("B").cast(form, shape)  # type: ignore[call-overload]
    return whole.toreadonly() if readonly else whole


def ufunc(function: Any, inputs: int, outputs: int, identity: object) -> Any:
    import numpy as np

    return np.frompyfunc(function, inputs, outputs, identity=identity)


# -- data frames


def polars_series(state: StoredBytes) -> Any:
    import polars as pl

    made = pl.Series.__new__(pl.Series)
    made.__setstate__(bytes(_bytes_of(state)))  # type: ignore[no-untyped-call]
    return made


def polars_frame(columns: list[Any]) -> Any:
    import polars as pl

    return pl.DataFrame([polars_series(state) for state in columns])


def arrow_slice(kind: str, image: StoredBytes) -> Any:
    import pyarrow as pa

    table = pa.ipc.open_stream(pa.py_buffer(_bytes_of(image))).read_all()
    if kind == "Table":
        return table
    if kind == "RecordBatch":
        return table.combine_chunks().to_batches()[0]
    column = table.column(0)
    if kind == "ChunkedArray":
        return column
    joined = column.combine_chunks()  # an array, or in older releases still one chunk
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


# -- torch


def tensor(base: Any, dtype: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], device: str) -> Any:
    """A tensor over an array's memory; on another device, over one copy there that all tensors of that memory share."""
    import torch

    kind: Any = getattr(torch, dtype)
    if not len(base):
        return torch.empty(shape, dtype=kind, device=_device(device))
    storage = _context().once((id(base), device), lambda: _storage(base, device))
    return torch.empty(0, dtype=kind, device=storage.device).set_(storage, offset, shape, strides)


def _storage(base: Any, device: str) -> Any:
    import numpy as np
    import torch

    raw = base.reshape(-1, order="A").view(np.uint8) if isinstance(base, np.ndarray) else base
    return torch.frombuffer(raw, dtype=torch.uint8).to(_device(device)).untyped_storage()


def _device(wanted: str) -> str:
    """The wanted device where this machine has it, else the CPU."""
    import torch

    return wanted if wanted == "cpu" or torch.cuda.is_available() else "cpu"


def parameter(
    base: Any, dtype: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], device: str, kind: Any
) -> Any:
    import torch

    return torch.Tensor._make_subclass(kind, tensor(base, dtype, offset, shape, strides, device))  # type: ignore


def tensor_state(made: Any, state: tuple[Any, ...]) -> None:
    requires_grad, grad, attributes = state
    made.requires_grad_(requires_grad)
    if grad is not None:
        made.grad = grad
    for name, value in attributes.items():
        setattr(made, name, value)


# -- databases


def sqlite_memory(image: StoredBytes, isolation_level: str | None, row_factory: object, text_factory: object) -> object:
    import sqlite3

    made = sqlite3.connect(":memory:", isolation_level=isolation_level)
    if image.size:
        made.deserialize(bytes(_bytes_of(image)))
    made.row_factory = row_factory
    made.text_factory = text_factory
    return made
