"""Rebuild numpy arrays: over memory of their own, or as views of what others look at too."""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# numpy says little of arrays whose dtype is known at run time only.

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import MemberDescriptorType
from typing import Any, Literal

from agent_kernel.values.restore.buffers import StoredBytes, bytes_of, filled


def array(buffer: StoredBytes, dtype: Any, shape: tuple[int, ...], order: str, writeable: bool = True) -> Any:
    import numpy as np

    made = filled(np.empty(shape, np.dtype(dtype), order=order), buffer)  # type: ignore[call-overload]
    if not writeable:
        made.flags.writeable = False
    return made


def long_double(name: str, digits: int) -> Any:
    """The dtype of numpy's longest numbers, of which platforms keep other bits under one name.

    Args:
        digits: binary ones after the point, which tell the kinds apart.

    Raises:
        TypeError: this platform keeps them in another way.
    """
    import numpy as np

    if digits != long_double_digits():
        raise TypeError(
            f"its long doubles have {digits} binary digits, and those of this platform {long_double_digits()}; "
            "where it was saved, convert it with .astype(float)"
        )
    return np.dtype(name)


def is_long_double(dtype: Any) -> bool:
    """Whether its numbers are longer than doubles."""
    return bool(dtype.itemsize > {"f": 8, "c": 16}.get(dtype.kind, dtype.itemsize))


@functools.cache
def long_double_digits() -> int:
    import numpy as np

    return int(np.finfo(np.longdouble).nmant)


def small_array(
    payload: bytes, dtype: Any, shape: tuple[int, ...], writeable: bool, order: Literal["C", "F"] = "C"
) -> Any:
    import numpy as np

    made = np.empty(shape, np.dtype(dtype), order)
    if payload:
        made.reshape(-1, order=order).view(np.uint8)[:] = np.frombuffer(payload, np.uint8)
    made.flags.writeable = writeable
    return made


def packed_arrays(holder: Any, made: tuple[dict[str, Any], tuple[tuple[Any, ...], ...]]) -> None:
    """Give an object its attributes, of which small arrays are bytes with a dtype and a shape, or columns of `_xy`."""
    state, packed = made
    for name, *rest in packed:
        if len(rest) == 1:
            state[name] = state["_xy"][:, rest[0]]
        else:
            state[name] = small_array(state[name], rest[0], rest[1], True)
    if hasattr(type(holder), "__setstate__"):
        followed = vars(holder).get("_parents", {})
        holder.__setstate__(
            {sys.intern(name): value for name, value in state.items()}
        )  # as attributes that are set are
        if "_parents" in state:
            from agent_kernel.values.restore.figures import follow, follow_children

            for known in followed.values():  # what was there before, and follows this
                follow(known(), holder)
            follow_children(holder)
    else:
        vars(holder).update(state)


def packed_values(holder: Any, made: tuple[tuple[str, ...], tuple[Any, ...], tuple[tuple[Any, ...], ...]]) -> None:
    """The same, of attributes whose names and values are told apart."""
    names, values, packed = made
    packed_arrays(holder, (dict(zip(names, values, strict=True)), packed))


def shared_arrays(_: None, found: list[tuple[Any, str, Any]]) -> None:
    """Let objects hold these very arrays, in the place of copies that were packed into their attributes."""
    for holder, name, array in found:
        object.__getattribute__(holder, "__dict__")[name] = array


def object_array_bare(shape: tuple[int, ...], order: str, dtype: Any = object) -> Any:
    import numpy as np

    return np.zeros(shape, dtype, order=order) if dtype is not object else np.empty(shape, object, order=order)  # type: ignore[call-overload]


def object_array_state(made: Any, state: tuple[list[object], str, bool]) -> None:
    items, order, writeable = state
    made.flags.writeable = True  # one that lives may be read-only
    if made.size:
        flat = made.reshape(-1, order=order)
        for position, item in enumerate(items):
            flat[position] = item
    made.flags.writeable = writeable


def leaves(array: Any) -> Iterator[Any]:
    """The columns of a structured array that are not structured themselves, as views, in a fixed order."""
    if array.dtype.names is None:
        yield array
    else:
        for name in array.dtype.names:
            yield from leaves(array[name])


def records_state(made: Any, state: tuple[list[Any], bool]) -> None:
    import numpy as np

    columns, writeable = state
    made.flags.writeable = True
    for field, column in zip(leaves(made), columns, strict=True):
        if field.dtype.hasobject:
            for place, item in zip(np.ndindex(field.shape), column, strict=True):
                field[place] = item
        else:
            field[...] = column
    made.flags.writeable = writeable


def object_column(codes: StoredBytes, atoms: StoredBytes, shape: tuple[int, ...], order: str, writeable: bool) -> Any:
    """An array of objects from the distinct ones, pickled, and the codes of which stands where: none if all are distinct."""
    return object_column_of(pickle.loads(bytes_of(atoms)), codes, shape, order, writeable)


def object_column_with_nans(
    codes: StoredBytes,
    atoms: StoredBytes,
    shape: tuple[int, ...],
    order: str,
    writeable: bool,
    nans: tuple[tuple[int, float], ...],
) -> Any:
    """The same with the very objects that are NaN, by their place among the distinct ones."""
    items = pickle.loads(bytes_of(atoms))
    for place, found in nans:
        items[place] = found
    return object_column_of(items, codes, shape, order, writeable)


def object_column_of(
    items: list[object], codes: StoredBytes, shape: tuple[int, ...], order: str, writeable: bool
) -> Any:
    """The same from the distinct objects themselves."""
    import numpy as np

    distinct = np.fromiter(items, object, len(items))
    del items
    made = np.empty(shape, object, order=order)  # type: ignore[call-overload]
    flat = made.reshape(-1, order=order)
    if codes.size:
        flat[:] = distinct[filled(np.empty(made.size, code_type(len(distinct))), codes)]
    else:
        flat[:] = distinct
    made.flags.writeable = writeable
    return made


def code_type(distinct: int) -> str:
    """The dtype of codes of so many objects."""
    return "<u1" if distinct <= 1 << 8 else "<u2" if distinct <= 1 << 16 else "<u4" if distinct <= 1 << 32 else "<u8"


def view(owner: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, writeable: bool) -> Any:
    import numpy as np

    with _open(owner, writeable):
        made = np.ndarray(shape, dtype, buffer=_exposed(owner), offset=offset, strides=strides)
    if not writeable:
        made.flags.writeable = False
    return made


def object_view(
    owner: Any,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    writeable: bool,
    dtype: Any = None,
) -> Any:
    import numpy as np

    with _open(owner, writeable):
        first = items_at(owner, offset, owner.dtype if dtype is None else dtype)
        if dtype is not None and _is_selection(dtype, owner.dtype):
            records = owner.reshape(-1, order="A")[offset // owner.itemsize :]
            made = np.lib.stride_tricks.as_strided(records, shape, strides)[list(dtype.names)]
        elif first.dtype.hasobject and first.dtype.kind != "T":
            made = np.lib.stride_tricks.as_strided(first, shape, strides)
            # Only so does metadata of the dtype stay.
            made = made.getfield(owner.dtype if dtype is None else dtype, 0)
        else:
            made = _strided(first, shape, strides)
    if not writeable:
        made.flags.writeable = False
    return made


def items_at(owner: Any, offset: int, dtype: Any) -> Any:
    """The items of an array that holds references, or of a column of it, from one that lies `offset` bytes on.

    numpy gives a column of objects by its name alone.

    Raises:
        LookupError: there is no such column.
    """
    import numpy as np

    flat = owner.reshape(-1, order="A")
    first, within = divmod(offset, owner.itemsize)
    items = flat[first:]
    if not within and _is_selection(dtype, items.dtype):
        return items[list(dtype.names)]
    while within or items.dtype != dtype:
        name = _column_at(items.dtype, within, dtype.itemsize)
        column = items.dtype.fields[name]
        within -= column[1]
        items = items[name]
        if column[0].subdtype is not None:
            place, within = divmod(within, column[0].base.itemsize)
            items = items[(slice(None), *np.unravel_index(place, column[0].shape))]
    return items


def _is_selection(dtype: Any, of: Any) -> bool:
    """Whether these are some of the columns of those records, where they lie."""
    if dtype == of or dtype.names is None or of.names is None or dtype.itemsize != of.itemsize:
        return False
    return all(of.fields.get(name) == dtype.fields[name] for name in dtype.names)


def _column_at(dtype: Any, offset: int, size: int) -> str:
    for name in dtype.names or ():
        kind, start = dtype.fields[name][:2]
        if start <= offset and offset + size <= start + kind.itemsize:
            return str(name)
    raise LookupError(f"no column of {dtype} at {offset}")


def _strided(first: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Without references in it: texts of any length have no interface that tells of them, and from numpy 2.5 on no buffer."""
    import numpy as np

    if first.dtype.kind != "T":
        return np.lib.stride_tricks.as_strided(first, shape, strides)
    if 0 in shape:
        return first[:0].reshape(shape)
    from agent_kernel.quiet import unwarned

    made = np.broadcast_to(first[:1].reshape(()), shape)
    with unwarned():  # numpy from 2.4 on names `as_strided` instead, which cannot do it
        made.flags.writeable = True
        made.strides = strides  # pyright: ignore[reportDeprecated]
    return made


@contextmanager
def _open(owner: Any, writeable: bool) -> Generator[None]:
    """A writable view of an array that is read-only by now: it was made before."""
    import numpy as np

    closed = writeable and isinstance(owner, np.ndarray) and not owner.flags.writeable
    if closed:
        owner.flags.writeable = True
    try:
        yield
    finally:
        if closed:
            owner.flags.writeable = False


def row(inner: Any) -> Any:
    """A row of a structured array, which looks at the same memory."""
    return inner[()]


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


def array_attributes(made: Any, state: dict[str, object]) -> None:
    made.__dict__.update(state)


def array_as(plain: Any, kind: type) -> Any:
    """The same memory as an array of a class that says itself how it is pickled; its attributes come after."""
    return plain.view(kind)


def take_attributes(made: Any, state: tuple[Any]) -> None:
    """Take over what another object was given, that was made as the class wants it, but has memory of its own."""
    (built,) = state
    if hasattr(built, "__dict__"):
        made.__dict__.clear()
        made.__dict__.update(built.__dict__)
    for base in type(made).__mro__:
        for slot in vars(base).values():
            if type(slot) is MemberDescriptorType and hasattr(built, slot.__name__):
                slot.__set__(made, slot.__get__(built))


def bytes_of_array(array: Any) -> bytes:
    return bytes(array.tobytes("A"))


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


def bits(kind: Any, seed: object) -> Any:
    """What generators of random numbers draw from; its state comes after."""
    return kind() if seed is None else kind(seed)


def bits_state(made: Any, state: tuple[Any]) -> None:
    made.state = state[0]


def drawn_state(made: Any, state: tuple[int, float]) -> None:
    """The second of two normal numbers that an old generator drew at once."""
    now = made.get_state(legacy=False)
    made.set_state(now | {"has_gauss": state[0], "gauss": state[1]})
