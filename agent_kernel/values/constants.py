"""What belongs to a library and not to the values that use it: what its modules and classes hold.

Two figures share matplotlib's marker paths and identity matrix. Saved apart, each gets its own copy, and nothing that a
person does can tell; saved as one value, a change of one would store both. Only installed packages count: a module that
lies beside the notebook may well hold the person's own state.
"""

# Any library's objects are looked at here, so nothing is known of their types.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any

import msgspec

_PLAIN = frozenset(map(id, (list, dict, set)))


class _Held(msgspec.Struct):
    """What the modules of one package hold. The objects are kept, so that no other can come to have their ids."""

    modules: set[str] = msgspec.field(default_factory=set[str])
    ids: set[int] = msgspec.field(default_factory=set[int])
    values: list[object] = msgspec.field(default_factory=list[object])


_held: dict[str, _Held] = {}


def library_constants(packages: Iterable[str], among: set[int]) -> set[int]:
    """Those of the ids that are of what the loaded modules of these packages hold. A module is looked into once."""
    found: set[int] = set()
    for package in packages:
        held = _held.setdefault(package, _Held())
        for name in _modules(len(sys.modules)).get(package, ()):
            if name not in held.modules:
                held.modules.add(name)
                module = sys.modules.get(name)
                values = list(_held_by(module, package)) if module is not None and _is_installed(module) else []
                held.values += values
                held.ids.update(map(id, values))
        found |= among & held.ids
    return found


@lru_cache(maxsize=1)
def _modules(count: int) -> dict[str, list[str]]:
    """The names of the loaded modules by package, for as long as there are so many of them."""
    found: dict[str, list[str]] = {}
    for name in list(sys.modules):
        found.setdefault(name.partition(".")[0], []).append(name)
    return found


def packages_of(values: Iterable[object]) -> set[str]:
    """The libraries whose objects these are."""
    modules = {type.__getattribute__(kind, "__module__") for kind in set(map(type, values))}
    names = {module.partition(".")[0] for module in modules if isinstance(module, str)}
    return names - {"builtins", "__main__"}


def _is_installed(module: ModuleType) -> bool:
    place = getattr(module, "__file__", None)
    return isinstance(place, str) and ("site-packages" in place or "dist-packages" in place)


def _held_by(module: ModuleType, package: str) -> Iterator[object]:
    for value in list(vars(module).values()):
        yield from _parts(value, package)
        # An abstract class, say, has another metaclass than `type`; none of its code runs here.
        if issubclass(type(value), type) and _package_of_class(value) == package:
            for attribute in list(type.__getattribute__(value, "__dict__").values()):
                yield from _parts(attribute, package)


def _package_of_class(kind: Any) -> str:
    return str(type.__getattribute__(kind, "__module__")).partition(".")[0]


def _parts(value: Any, package: str) -> Iterator[object]:
    """The value, and what hangs on it directly: not deeper, where the person's own objects may be."""
    kind = type(value)
    if _is_data(value):
        yield value
    elif str(kind.__module__).partition(".")[0] == package and kind is not type:
        yield value
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is dict:
            yield attributes
            yield from filter(_is_data, list(attributes.values()))
        if issubclass(kind, dict):
            entries: dict[object, object] = value
            yield from filter(_is_data, list(dict[object, object].values(entries)))


def _is_data(value: object) -> bool:
    kind = type(value)
    return id(kind) in _PLAIN or (kind.__module__ == "numpy" and kind.__name__ == "ndarray")
