"""What the garbage collector does not see in an object, and the memory that an object looks at.

Arrays, series of polars and tracebacks have hold of objects that `gc.get_referents` does not give. Nothing of the notebook's
runs here, only the library's own accessors.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What is read here is of any type.

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from agent_kernel.values.summaries.reading import TypeCache, class_dict, derives_from, loaded

Unseen = Callable[[Any, dict[str, object], int], list[object]]


def unseen_below(value: Any, namespace: dict[str, object], most: int) -> list[object]:
    """What the object has hold of besides. At most so many items of an array."""
    read = _readers.get(type(value))
    if read is None:
        read = _readers.keep(type(value), next((read for is_of, read in _UNSEEN if is_of(type(value))), _nothing))
    return read(value, namespace, most)


def _nothing(_: Any, __: dict[str, object], ___: int) -> list[object]:
    return []


def memory_of(value: Any) -> list[tuple[int, int]]:
    """The addresses of the memory that an array, a tensor or a buffer of Arrow looks at."""
    if _is_array(type(value)):
        from agent_kernel.values.reducers.arrays import bounds

        ranges = [bounds(value)]
    elif _is_kind(type(value), "torch", "Tensor") and value.device.type == "cpu" and not value.is_sparse:
        storage = value.untyped_storage()
        ranges = [(storage.data_ptr(), storage.data_ptr() + storage.nbytes())]
    elif _is_kind(type(value), "pyarrow", "Buffer"):
        ranges = [(value.address, value.address + value.size)]
    else:
        ranges = []
    return [(low, high) for low, high in ranges if low < high]


def _is_kind(kind: type, module: str, name: str) -> bool:
    found = loaded(module, name)
    return isinstance(found, type) and derives_from(kind, found)


def _is_array(kind: type) -> bool:
    return _is_kind(kind, "numpy", "ndarray")


def _of_array(array: Any, _: dict[str, object], most: int) -> list[object]:
    """The array that owns the memory, and items that are objects."""
    import numpy as np

    from agent_kernel.values.restore.arrays import leaves

    fields: Any = class_dict(np.ndarray)
    base, dtype = fields["base"].__get__(array), fields["dtype"].__get__(array)
    if not dtype.hasobject:
        return [base]
    plain = np.ndarray.view(array, np.ndarray)
    return [base, *(item for part in leaves(plain) if part.dtype == object for item in islice(part.flat, most))]


def _of_generator(generator: Any, _: dict[str, object], __: int) -> list[object]:
    return [getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", None)]


def _of_series(series: Any, _: dict[str, object], most: int) -> list[object]:
    """Only a series of Python's objects has any."""
    polars: Any = loaded("polars", "Object")
    return list(series.head(most)) if series.dtype == polars else []


def _of_frame(frame: Any, namespace: dict[str, object], most: int) -> list[object]:
    return [item for series in frame.get_columns() for item in _of_series(series, namespace, most)]


def _of_traceback(traceback: types.TracebackType, namespace: dict[str, object], _: int) -> list[object]:
    """The local variables of the notebook's functions that were running."""
    found: list[object] = []
    following: types.TracebackType | None = traceback
    while following is not None:
        if following.tb_frame.f_globals is namespace:
            found += (one for one in gc.get_referents(following.tb_frame) if not _is_of_every_frame(one))
        following = following.tb_next
    return [one for one in found if one is not namespace]


def _of_database(connection: Any, namespace: dict[str, object], _: int) -> list[object]:
    """Functions that queries call, if it has any."""
    from agent_kernel.values.definitions import unseen_callbacks
    from agent_kernel.values.reducers.databases import names_of_functions

    names = names_of_functions(connection)
    return unseen_callbacks(connection, names, namespace) if names else []


def _is_of_every_frame(value: object) -> bool:
    kinds = (types.FrameType, types.CodeType, types.FunctionType)
    return isinstance(value, kinds) or (type(value) is dict and value.get("__name__") == "builtins")


_UNSEEN: Iterable[tuple[Callable[[type], bool], Unseen]] = (
    (_is_array, _of_array),
    (lambda kind: _is_kind(kind, "numpy.random", "Generator"), _of_generator),
    (lambda kind: _is_kind(kind, "numpy.random", "RandomState"), _of_generator),
    (lambda kind: _is_kind(kind, "polars", "Series"), _of_series),
    (lambda kind: _is_kind(kind, "polars", "DataFrame"), _of_frame),
    (lambda kind: kind is types.TracebackType, _of_traceback),
    (lambda kind: _is_kind(kind, "sqlite3", "Connection"), _of_database),
)
_readers: TypeCache[Unseen] = TypeCache()
