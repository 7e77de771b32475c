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
from types import ModuleType
from typing import Any

_PLAIN = frozenset(map(id, (list, dict, set)))
_known: dict[str, tuple[int, frozenset[int], list[object]]] = {}


def library_constants(packages: Iterable[str]) -> frozenset[int]:
    """The ids of what the loaded modules of these packages hold. Looked up once, and again when more modules load."""
    found: set[int] = set()
    for package in packages:
        modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package]
        known = _known.get(package)
        if known is None or known[0] != len(modules):
            held = [value for module in modules if _is_installed(module) for value in _held_by(module, package)]
            # The objects are kept, so that no other object can come to have their ids.
            known = _known[package] = (len(modules), frozenset(map(id, held)), held)
        found |= known[1]
    return frozenset(found)


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
        if type(value) is type and value.__module__.partition(".")[0] == package:
            for attribute in list(vars(value).values()):
                yield from _parts(attribute, package)


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
