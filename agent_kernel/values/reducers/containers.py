"""Subclasses of list, dict and set: attributes first, then the items, past any override.

pickle would rebuild such an object by its own `append` or `__setitem__` before it has its attributes; classes that
check or count their items then fail to load.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What containers hold is of any type.

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

from agent_kernel.values.pickler import is_dict_doubtful, is_dict_shared, reduced, with_copied_dict, with_shared_dict
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
        shared: Any = (restore.instance, (type(value),), _state(value))
        shared = with_shared_dict(value, shared) if is_shared else shared
        if shared[-1] is restore.own_dict_state:
            return *shared[:2], (shared[2], found), None, None, restore.container_own_dict
        state = _state(value)
        if is_dict_doubtful(pickler, value):
            state = with_copied_dict(pickler, value, (None, None, state))[2]
        return restore.instance, (type(value),), (state, found), None, None, _STATE
    parts = reduced(value)
    if parts[0] is not _NEW:
        pickler.note_parts(parts)
        return parts
    if is_dict_doubtful(pickler, value):
        parts = with_copied_dict(pickler, value, parts)
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
