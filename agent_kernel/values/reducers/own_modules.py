"""What a module of the person's own holds besides functions and classes: its content is saved with a variable for it.

Only plain state is: numbers and texts, lists, dicts and sets of these, and instances of classes of such modules. Anything
else may be a resource, which the module makes when it is imported, and much of it would be saved with every change.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# A module holds anything.

from __future__ import annotations

import enum
import types
from typing import TYPE_CHECKING, Any

from agent_kernel.values import references

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

_ATOM_IDS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None), range)))
_CONTAINER_IDS = frozenset(map(id, (list, dict, set, tuple, frozenset)))
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, enum.Enum)

Content = tuple[str, tuple[str, ...], dict[str, object]]


def content_of(pickler: Pickler, module: types.ModuleType) -> Content | None:
    """What its source was, the names in it, and its plain state; None of a library's module, or where there is none."""
    name = module.__name__
    if not _is_own(name):
        return None
    state, pickler.left_in_modules = plain_state(module, pickler.left_in_modules)
    pickler.kept.append(state)
    pickler.dump_record.roots.append(tuple(state.values()))
    return (references.source_digest(name), tuple(sorted(vars(module))), state) if state else None


def _is_own(name: str) -> bool:
    is_excluded = name.partition(".")[0] == "agent_kernel"
    return not is_excluded and not references.is_library(name) and references.is_importable(name)


def plain_state(module: types.ModuleType, most: int) -> tuple[dict[str, object], int]:
    """The plain state of a module, and its modules of the person's own, by name and in order.

    Args:
        most: how many objects may be looked at. How many more may be is returned beside.
    """
    left = [most]
    found: dict[str, object] = {}
    for name, value in sorted(vars(module).copy().items()):
        if name.startswith("__") or isinstance(value, _BY_NAME):
            if isinstance(value, types.ModuleType) and left[0] and _is_own(value.__name__):
                found[name] = value
        elif _is_plain(value, left):
            found[name] = value
    return found, max(left[0], 0)


def _is_plain(value: Any, left: list[int]) -> bool:
    """Whether there is nothing but plain state below a value; `left` is how many objects may be looked at."""
    waiting = [value]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if id(kind) in _ATOM_IDS or id(one) in seen:
            continue
        left[0] -= 1
        if left[0] < 0:
            return False
        seen.add(id(one))
        if id(kind) in _CONTAINER_IDS:
            if len(one) > left[0]:
                return False
            waiting += [*one, *one.values()] if kind is dict else one
        elif isinstance(one, _BY_NAME):
            continue
        elif references.can_be_set(one) and not references.is_library(kind.__module__):
            waiting.append(vars(one))
        else:
            return False
    return True
