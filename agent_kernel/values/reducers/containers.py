"""Subclasses of list, dict and set: attributes first, then the items, past any override.

pickle would rebuild such an object by its own `append` or `__setitem__` before it has its attributes; classes that
check or count their items then fail to load.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What containers hold is of any type.

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

from agent_kernel.values.pickler import is_dict_shared, reduced, with_shared_dict
from agent_kernel.values.reducers import Handler
from agent_kernel.values.restore import objects as restore

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler


def handler_for(kind: type[Any]) -> Handler | None:
    if not issubclass(kind, (list, dict, set)) or kind.__module__ in ("collections", "builtins"):
        return None
    if kind in copyreg.dispatch_table:
        return None
    default = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ in (object.__reduce__, set.__reduce__)
    return reduce_container if default else None


def reduce_container(pickler: Pickler, value: Any) -> Any:
    pickler.dump_record.instances.append(value)
    is_shared = is_dict_shared(pickler, value)
    if issubclass(type(value), set):
        found: Any = tuple(set.copy(value))
        shared = with_shared_dict(value, (restore.instance, (type(value),), _state(value)))
        if is_shared and shared[-1] is restore.own_dict_state:
            return *shared[:2], (shared[2], found), None, None, restore.container_own_dict
        return restore.instance, (type(value),), (_state(value), found), None, None, _STATE
    parts = reduced(value)
    if parts[0] is not _NEW:
        pickler.dump_record.roots.append(parts)
        return parts
    state = parts[2] if len(parts) > 2 else None
    shared = with_shared_dict(value, parts[:3]) if is_shared else parts
    items: Any = list.__getitem__(value, slice(None)) if isinstance(value, list) else dict(dict.items(value))
    if shared[-1] is restore.own_dict_state:
        return restore.instance, parts[1], (shared[2], items), None, None, restore.container_own_dict
    return restore.instance, parts[1], (state, items), None, None, _STATE


def _state(value: Any) -> Any:
    """A set's own `__reduce__` leaves slots out; `object`'s way finds both."""
    state = value.__getstate__() if hasattr(value, "__getstate__") else value.__dict__
    return state or None


_copyreg: Any = copyreg  # typeshed lacks `__newobj__`
_NEW = _copyreg.__newobj__
_STATE = restore.container_state
