"""A likeness of objects and their classes as plain data: types, state, what classes hold, and what is one object."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Objects of any type are drawn.

from __future__ import annotations

import collections
import enum
import functools
import itertools
import types
from collections.abc import Mapping
from typing import Any

_ATOMS = frozenset(map(id, (int, float, complex, str, bytes, bool, type(None))))
_NOT_DRAWN = frozenset({"__weakref__", "__dict__", "__module__", "__abstractmethods__", "_abc_impl", "__slotnames__"})
_PLAIN: Any = (dict, list, tuple, set, frozenset, collections.deque, str, bytes, int, float)


def likeness(variables: Mapping[str, object]) -> dict[str, Any]:
    drawn = _Drawn()
    return {name: drawn.draw(variables[name]) for name in sorted(variables)}


class _Drawn:
    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        self._kept: list[object] = []  # so that no id is used twice

    def draw(self, value: Any) -> Any:
        kind = type(value)
        if id(kind) in _ATOMS:
            return kind.__name__, repr(value)
        if isinstance(value, types.ModuleType) or (isinstance(value, type) and value.__module__ != "__main__"):
            return "by name", value.__name__
        if id(value) in self._met:
            return "again", self._met[id(value)]
        items: Any = value if kind is tuple else [self]
        if not all(id(type(item)) in _ATOMS for item in items):
            self._met[id(value)] = len(self._met)
            self._kept.append(value)
        if isinstance(value, type):
            return self._class(value)
        return self._code(value) or self._object(value)

    def _class(self, kind: Any) -> Any:
        body = {
            name: found
            for name, found in sorted(vars(kind).items())
            if name not in _NOT_DRAWN
            and not name.startswith(("__pydantic", "__attrs", "__protocol", "__static", "__first"))
            and not isinstance(found, (types.MemberDescriptorType, types.GetSetDescriptorType))
            and (not name.startswith("__") or _is_of_notebook(found) or name == "__annotations__")
        }
        bases: list[Any] = list(map(self.draw, kind.__bases__))
        if issubclass(kind, enum.Enum):
            return "enum", kind.__name__, [self.draw(member) for member in kind.__members__.values()]
        return (
            "class",
            kind.__name__,
            bases,
            self.draw(type(kind)),
            [(n, self.draw(found)) for n, found in body.items()],
        )

    def _code(self, value: Any) -> Any:
        kind = type(value)
        if kind is types.FunctionType:
            if value.__globals__.get("__name__") != "__main__":
                return "by name", value.__qualname__
            parts = (value.__defaults__, value.__kwdefaults__, value.__dict__, value.__annotations__)
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return "function", value.__qualname__, [*map(self.draw, parts), *map(self.draw, cells)]
        if kind is staticmethod or kind is classmethod:
            return kind.__name__, self.draw(value.__func__)
        if kind is property:
            return "property", self.draw(value.fget)
        if kind is types.MethodType:
            return "method", self.draw(value.__self__), self.draw(value.__func__)
        if isinstance(value, enum.Enum):
            return "member", value.name, self.draw(value.value)
        return ("count", repr(value)) if kind is itertools.count else None

    def _object(self, value: Any) -> Any:
        kind = type(value)
        of: Any = next((base for base in _PLAIN if base in type(value).__mro__), None)
        held: Any = None
        if of is dict:
            held = [(self.draw(key), self.draw(item)) for key, item in dict.items(value)]
        elif of is set or of is frozenset:
            held = sorted(map(repr, map(self.draw, of.__iter__(value))))
        elif of in (list, tuple, collections.deque):
            held = [self.draw(item) for item in of.__iter__(value)]
        elif of is not None:
            held = of.__repr__(value)
        elif isinstance(value, BaseException):
            held = self.draw(value.args)
        elif isinstance(value, functools.partial):
            held = [self.draw(part) for part in (value.func, value.args, value.keywords)]
        elif hasattr(value, "tobytes"):
            held = value.tobytes()
        elif isinstance(value, bytearray):
            held = bytes(value)
        else:
            bases: list[Any] = [base for base in kind.__mro__ if _writes_itself(base)]
            held = repr(bases[0].__repr__(value)) if bases else None
        beside = [getattr(value, name, None) for name in ("default_factory", "maxlen")]
        return "object", self.draw(kind), held, list(map(str, beside)), self._attributes(value)

    def _attributes(self, value: Any) -> Any:
        found: dict[str, object] = {}
        if type(value).__dictoffset__:
            found |= object.__getattribute__(value, "__dict__")
        for base in type(value).__mro__:
            if base.__module__ == "__main__":
                slots = [n for n, held in vars(base).items() if isinstance(held, types.MemberDescriptorType)]
                found |= {name: getattr(value, name, "unset") for name in slots}
        return [(name, self.draw(held)) for name, held in sorted(found.items()) if not name.startswith("_")]


def _is_of_notebook(found: Any) -> bool:
    return getattr(getattr(found, "__func__", found), "__module__", None) == "__main__"


def _writes_itself(base: type) -> bool:
    return base.__module__ in ("datetime", "fractions", "decimal", "pathlib") and "__repr__" in vars(base)
