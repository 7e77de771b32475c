"""Rebuild notebook classes without running any hook of the notebook's."""

from __future__ import annotations

import abc
import types
from typing import Any

from agent_kernel.values.generated import complete
from agent_kernel.values.restore.context import current

# What a dataclass says of itself where an older Python did not say it: as if the option had not been used.
_NEWER_SLOTS = {"match_args": True, "kw_only": False, "slots": False, "weakref_slot": False, "doc": None}


def notebook_class(uid: str) -> type:
    return current().find_class(uid)


def skeleton(meta: type[type], name: str, bases: tuple[type, ...], attributes: dict[str, object]) -> type:
    """A class without a body: no notebook hook exists yet, so making it runs none."""
    if issubclass(meta, abc.ABCMeta):
        return abc.ABCMeta.__new__(meta, name, bases, attributes)
    try:
        return type.__new__(meta, name, bases, attributes)
    except TypeError:  # a metaclass written in C makes its own kind of class
        return types.new_class(name, bases, {"metaclass": meta}, lambda body: body.update(attributes))


def struct_skeleton(name: str, fields: list[Any], bases: tuple[Any, ...], module: str, options: dict[str, Any]) -> type:
    """A msgspec struct, whose metaclass is written in C and wants all fields at once."""
    import msgspec

    def spelled(name: str, kind: Any, how: str = "", default: Any = None) -> Any:
        if not how:
            return name, kind
        return name, kind, msgspec.field(default_factory=default) if how == "factory" else default

    made: type = msgspec.defstruct(name, [spelled(*parts) for parts in fields], bases=bases, module=module, **options)
    return made


def enum_skeleton(meta: Any, name: str, bases: tuple[type, ...], members: list[tuple[str, object]]) -> type:
    """Source: cloudpickle's way to make an enum before its methods."""
    body = meta.__prepare__(name, bases)
    for member, value in members:
        body[member] = value
    made: type = meta.__new__(meta, name, bases, body)
    return made


def register_classes(made: Any, registered: list[type]) -> None:
    """Make classes virtual subclasses of an abstract base class again, past any override of `register`."""
    for kind in registered:
        abc.ABCMeta.register(made, kind)


def enum_members(made: Any, extras: dict[str, dict[str, object]]) -> None:
    for name, attributes in extras.items():
        made.__members__[name].__dict__.update(attributes)


def fill_class(made: type, attributes: dict[str, object]) -> None:
    # type.__setattr__, so that no metaclass of the notebook's runs.
    for name, value in attributes.items():
        type.__setattr__(made, name, value)
    complete(made, attributes)


def known_slots(made: Any, state: dict[str, object]) -> None:
    """The slots that this Python's version of a library class has; one that it lacks means nothing to it."""
    for name, value in {**_NEWER_SLOTS, **state}.items():
        if name in made.__slots__:
            object.__setattr__(made, name, value)
