"""What stands in the namespace for an object that is not there: every use raises, and says how to get it back.

It could not be saved, or it is stored and could not be loaded.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from agent_kernel.errors import LostValueError
from agent_kernel.values.restore.context import is_loading

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import FrameType

    from agent_kernel.values.dump import Loss

_STATE = "_agent_kernel_lost"
_WORD = re.compile(r"[^\W\d]\w*")
_CONTAINERS = (dict, list, tuple, set)


def _raise(self: Any, *_: Any, **__: Any) -> NoReturn:
    loss = loss_of(self)
    if loss is None:
        raise TypeError("not a lost value")
    names, own = _names_used(self) or object.__getattribute__(self, "_agent_kernel_names"), unloaded_of(self)
    told = own or loss
    remedy = _remedy(self, told, names[:1])
    raise LostValueError(names[0], told.type, told.reason, remedy, own is not None, names[1:])


def _remedy(self: Any, told: Loss, names: Collection[str]) -> str:
    find = object.__getattribute__(self, "_agent_kernel_remedy")()
    remedy: str = told.remedy if find is None else find(told, names)
    return remedy


def _names_used(self: Any) -> tuple[str, ...]:
    """The variable that the running code used, then the other ones that stand for the same object now; (): not known.

    What is bound may have changed since the placeholder was loaded, and what holds it has another name. The nearest
    caller whose variables, or whose text at the running instruction, lead to it says which was used.
    """
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  # the caller of `_raise`
    while frame is not None:
        names = _names_in(self, frame)
        if names:
            return names
        frame = frame.f_back
    return ()


def _names_in(self: Any, frame: FrameType) -> tuple[str, ...]:
    variables = frame.f_globals
    if str(variables.get("__name__", "")).partition(".")[0] == __name__.partition(".")[0]:
        return ()
    bound = sorted(name for name, value in tuple(variables.items()) if value is self and not name.startswith("_"))
    text = _running_text(frame)
    words = list(dict.fromkeys(_WORD.findall(text)))
    used = [word for word in words if word in bound]
    if used:
        return (*used, *(name for name in bound if name not in used))
    if bound and not text:
        return tuple(bound)
    holders = [word for word in words if type(variables.get(word)) in _CONTAINERS]
    return (holders[0],) if holders else tuple(bound)


def _running_text(frame: FrameType) -> str:
    """The text of the expression that the frame is at, on one line; "" where its source is not known."""
    from itertools import islice
    from linecache import getline

    first, last, start, end = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    if first is None or first != last or start is None or end is None:
        return getline(frame.f_code.co_filename, frame.f_lineno)
    # Columns are counted in bytes.
    return getline(frame.f_code.co_filename, first).encode()[start:end].decode(errors="replace")


# fmt: off
_EVERY_USE = [
    "__getattr__", "__setattr__", "__delattr__", "__call__", "__repr__", "__str__", "__bytes__", "__format__",
    "__hash__", "__bool__", "__len__", "__iter__", "__next__", "__reversed__", "__contains__", "__getitem__",
    "__setitem__", "__delitem__", "__dir__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__add__",
    "__radd__", "__iadd__", "__sub__", "__rsub__", "__isub__", "__mul__", "__rmul__", "__imul__", "__matmul__",
    "__rmatmul__", "__truediv__", "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__divmod__",
    "__rdivmod__", "__pow__", "__rpow__", "__lshift__", "__rshift__", "__and__", "__rand__", "__or__", "__ror__",
    "__xor__", "__rxor__", "__neg__", "__pos__", "__abs__", "__invert__", "__int__", "__float__", "__complex__",
    "__index__", "__round__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__await__", "__aiter__", "__anext__",
    "__reduce__", "__reduce_ex__", "__copy__", "__deepcopy__", "__fspath__", "__buffer__",
]
# fmt: on


class Unsavable:
    """Pickles as the loss of a whole value, for one that the pickler cannot even look into."""

    def __init__(self, value: object, reason: str) -> None:
        self.value, self.reason = value, reason


class Lost:
    """The place of an object that is not there.

    Args:
        loss: what is saved in its place, where something else is bound to it or holds it.
        unloaded: what to say instead where the object is stored under this very name, and only loading it failed.
        remedy: a weak reference to what gives the remedy to show now.
    """

    __slots__ = (
        "__weakref__",
        "_agent_kernel_lost",
        "_agent_kernel_names",
        "_agent_kernel_remedy",
        "_agent_kernel_unloaded",
    )

    def __init__(
        self,
        loss: Loss,
        name: str = "",
        unloaded: Loss | None = None,
        remedy: Callable[[], Callable[[Loss, Collection[str]], str] | None] = lambda: None,
    ) -> None:
        object.__setattr__(self, _STATE, loss)
        object.__setattr__(self, "_agent_kernel_remedy", remedy)
        object.__setattr__(self, "_agent_kernel_names", (name or loss.type,))
        object.__setattr__(self, "_agent_kernel_unloaded", unloaded)


for _name in _EVERY_USE:
    setattr(Lost, _name, _raise)


# While holders are loaded around it (a dict that has it as a key, a staticmethod), a placeholder is any plain object.


def _hash(self: Any) -> int:
    return object.__hash__(self) if is_loading() else _raise(self)


def _equals(self: Any, other: object) -> Any:
    return object.__eq__(self, other) if is_loading() else _raise(self)


def _attribute(self: Any, name: str) -> NoReturn:
    if is_loading():
        raise AttributeError(name)
    _raise(self)


for _name, _quiet in {"__hash__": _hash, "__eq__": _equals, "__getattr__": _attribute}.items():
    setattr(Lost, _name, _quiet)


def loss_of(value: object) -> Loss | None:
    """The loss that a placeholder stands for; None for any other object."""
    if type(value) is not Lost:
        return None
    loss: Loss = object.__getattribute__(value, _STATE)
    return loss


def unloaded_of(value: object) -> Loss | None:
    """What to say of a stored value that could not be loaded; None for any other object."""
    if type(value) is not Lost:
        return None
    loss: Loss | None = object.__getattribute__(value, "_agent_kernel_unloaded")
    return loss


def name_losses(values: Mapping[str, object]) -> None:
    """Tell each placeholder among these variables by which of them it is reached: it cannot know which one was used."""
    found: dict[int, tuple[Lost, list[str]]] = {}
    for name, value in values.items():
        if type(value) is Lost:
            found.setdefault(id(value), (value, []))[1].append(name)
    for value, names in found.values():
        object.__setattr__(value, "_agent_kernel_names", tuple(sorted(names)))
