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

from agent_kernel.values.summaries.reading import (
    class_dict,
    derives_from,
    instance_dict,
    loaded,
    module_dict,
    module_name,
)

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
    kinds = {id(kind): kind for kind in map(type, values)}
    return {module_name(kind).partition(".")[0] for kind in kinds.values()} - {"", "builtins", "__main__"}


def _is_installed(module: object) -> bool:
    if not issubclass(type(module), ModuleType):  # anything may stand among the modules
        return False
    place = module_dict(module).get("__file__")
    return isinstance(place, str) and ("site-packages" in place or "dist-packages" in place)


def _held_by(module: ModuleType, package: str) -> Iterator[object]:
    for value in list(module_dict(module).values()):
        yield from _parts(value, package)
        # An abstract class, say, has another metaclass than `type`; none of its code runs here.
        kind: Any = value
        if derives_from(type(value), type) and module_name(kind).partition(".")[0] == package:
            for attribute in list(class_dict(kind).values()):
                yield from _parts(attribute, package)


def _parts(value: Any, package: str) -> Iterator[object]:
    """The value, and what hangs on it directly: not deeper, where the person's own objects may be.

    Nothing of the value's own runs: merely asking one of torch's deprecated names for its attributes makes it warn.
    """
    kind = type(value)
    if _is_data(value):
        yield value
    elif kind is not type and module_name(kind).partition(".")[0] == package:
        yield value
        attributes = instance_dict(value)
        if attributes:
            yield attributes
            yield from filter(_is_data, list(attributes.values()))
        if derives_from(kind, dict):
            entries: dict[object, object] = value
            yield from filter(_is_data, list(dict[object, object].values(entries)))


def _is_data(value: object) -> bool:
    kind = type(value)
    return id(kind) in _PLAIN or id(kind) == id(loaded("numpy", "ndarray"))
