"""A portrait of a namespace: what its values are and what they share, as plain data that can be compared.

Two namespaces have equal portraits if nobody could tell them apart by looking and by changing things.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import cast

import numpy as np


def portrait(namespace: Mapping[str, object]) -> dict[str, object]:
    """Draw every variable; an object or a piece of memory that was drawn before is drawn as its number."""
    drawn = _Drawn()
    return {name: drawn.draw(namespace[name]) for name in sorted(namespace) if not name.startswith("__")}


class _Drawn:
    """What was met so far, in the order in which it was met."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        self._memory: dict[int, int] = {}
        self._kept: list[object] = []  # so that no id is used twice

    def draw(self, value: object) -> object:
        if _is_immutable(value):
            return (type(value).__name__, repr(value))
        if isinstance(value, ModuleType) or (isinstance(value, type) and value.__module__ != "__main__"):
            return ("by name", value.__name__)
        if id(value) in self._met:
            return ("again", self._met[id(value)])
        self._met[id(value)] = len(self._met)
        self._kept.append(value)
        if isinstance(value, np.ndarray):
            return self._array(cast("np.ndarray[tuple[int, ...], np.dtype[np.generic]]", value))
        if isinstance(value, (list, tuple)):
            return (type(value).__name__, *map(self.draw, cast("list[object]", value)))
        if isinstance(value, dict):
            items = cast("dict[object, object]", value).items()
            return (type(value).__name__, *((self.draw(key), self.draw(found)) for key, found in items))
        if isinstance(value, (set, frozenset)):
            return (type(value).__name__, *sorted(map(repr, cast("set[object]", value))))
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            body = {k: v for k, v in vars(value).items() if not k.startswith("__")}
            return ("class", value.__qualname__, tuple((k, self.draw(v)) for k, v in sorted(body.items())))
        if hasattr(value, "__dict__"):
            return ("instance", self.draw(type(value)), self.draw(vars(value)))
        return ("other", type(value).__qualname__, repr(value))

    def _array(self, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> object:
        kind = (array.shape, str(array.dtype), array.flags.writeable)
        if not array.size:
            return ("array", kind)  # it lies nowhere
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        start = array.__array_interface__["data"][0]
        first = self._memory.setdefault(_owner_key(owner), start)
        where = (list(self._memory).index(_owner_key(owner)), start - first)
        elements = [self.draw(element) for element in array.flat] if array.dtype.hasobject else repr(array.tolist())
        return ("array", kind, where, array.strides, elements)

    def _function(self, function: FunctionType) -> object:
        cells = function.__closure__ or ()
        return (
            "function",
            function.__code__.co_code,
            repr(function.__code__.co_consts[:1]),
            self.draw(function.__defaults__),
            self.draw(function.__dict__),
            tuple(self._cell(cell) for cell in cells),
        )

    def _cell(self, cell: object) -> object:
        if id(cell) in self._met:
            return ("again", self._met[id(cell)])
        self._met[id(cell)] = len(self._met)
        self._kept.append(cell)
        return ("cell", self.draw(getattr(cell, "cell_contents")))  # noqa: B009  types.CellType is not a name to import


def _is_immutable(value: object) -> bool:
    """Whether nobody could tell this value from an equal one but by its identity, which is not promised."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_immutable, cast("tuple[object, ...]", value)))
    return value is None or isinstance(value, (bool, int, float, str, bytes, np.generic))


def _owner_key(owner: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> int:
    # Views of a base that nothing else reaches may come back with an owner that is only as long as they need.
    return id(owner.base) if owner.base is not None else id(owner)
