"""Rebuild numpy arrays: over memory of their own, or as views of what others look at too."""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# numpy says little of arrays whose dtype is known at run time only.

from __future__ import annotations

from typing import Any

from agent_kernel.values.restore.buffers import StoredBytes, filled


def array(buffer: StoredBytes, dtype: Any, shape: tuple[int, ...], order: str, writeable: bool = True) -> Any:
    import numpy as np

    made = filled(np.empty(shape, np.dtype(dtype), order=order), buffer)  # type: ignore[call-overload]
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

    if mask is None:
        made: Any = np.ma.MaskedArray(values, copy=False).view(kind)
    else:
        made = np.ma.MaskedArray(values, mask=mask, copy=False, keep_mask=False, shrink=False).view(kind)
    made._fill_value = fill_value
    made.__dict__.update(state)
    return made


def ufunc(function: Any, inputs: int, outputs: int, identity: object) -> Any:
    import numpy as np

    return np.frompyfunc(function, inputs, outputs, identity=identity)
