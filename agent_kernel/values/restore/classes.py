"""Rebuild notebook classes without running any hook of the notebook's."""

from __future__ import annotations

import abc
import enum
import types
from collections import OrderedDict, deque
from typing import Any

from agent_kernel.values.generated import complete
from agent_kernel.values.restore.context import current

# What a dataclass says of itself where an older Python did not say it: as if the option had not been used.
_NEWER_SLOTS = {"match_args": True, "kw_only": False, "slots": False, "weakref_slot": False, "doc": None}


def notebook_class(uid: str) -> type:
    return current().find_class(uid)


def skeleton(meta: type[type], name: str, bases: tuple[type, ...], attributes: dict[str, object]) -> type:
    """A class without a body: no notebook hook exists yet, so making it runs none. One of a module's class may run."""
    current().note_registers(bases, meta)
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


def bare_enum(meta: Any, name: str, bases: tuple[type, ...], said: dict[str, object], boundary: str | None) -> type:
    """An enum without members: they may be instances of classes that have no methods yet."""
    kind: Any = enum.EnumType
    body = kind.__prepare__.__func__(meta, name, bases)
    for attribute, value in said.items():
        body[attribute] = value
    made: type = kind.__new__(meta, name, bases, body, boundary=enum.FlagBoundary[boundary] if boundary else None)
    return made


def maker_of(kind: type) -> Any:
    """The first base with a `__new__` in C: what makes a bare member."""
    return next(base for base in kind.__mro__ if type(vars(base).get("__new__")) is types.BuiltinFunctionType)


def enum_fill(made: Any, members: list[tuple[str, object, tuple[object, ...]]]) -> None:
    """Give an enum its members through Python's own bookkeeping, but past the notebook's `__new__` and `__init__`."""
    machinery: Any = enum
    kept: dict[str, Any] = {name: vars(made)[name] for name in _MAKES_MEMBERS if name in vars(made)}
    try:
        for name, value, arguments in members:
            bare = maker_of(made).__new__(made, *arguments)
            object.__setattr__(bare, "_value_", value)
            for attribute, given in zip(_MAKES_MEMBERS, (False, _gives(bare), _gives(None)), strict=True):
                type.__setattr__(made, attribute, given)
            member = machinery._proto_member(value)
            type.__setattr__(made, name, member)
            member.__set_name__(made, name)
    finally:
        for name in _MAKES_MEMBERS:
            if name in kept:
                type.__setattr__(made, name, kept[name])
            elif name in vars(made):
                type.__delattr__(made, name)
    if issubclass(made, enum.Flag):
        numbers: list[Any] = [member.value for member in made]
        if numbers != sorted(numbers):
            type.__setattr__(made, "_iter_member_", machinery.Flag.__dict__["_iter_member_by_def_"])


# By which Python's bookkeeping makes a member.
_MAKES_MEMBERS = ("_use_args_", "_new_member_", "__init__")


def _gives(value: object) -> Any:
    def give(*_: object) -> object:
        return value

    return give


def enum_member(kind: Any, name: str) -> object:
    return kind.__members__[name]


def enum_property(get: Any, set_: Any, delete: Any, doc: Any, name: Any, owner: Any) -> object:
    made: Any = enum.property(get, set_, delete, doc)
    made.name, made.clsname = name, owner
    return made


def fill_attribute(made: type, name: str, value: object) -> None:
    type.__setattr__(made, name, value)
    current().note_attribute(made, name, value)


def fill_container(made: Any, content: Any) -> None:
    """What a list, dict or set of a class holds."""
    current().set_content(made, content)


def complete_class(made: type, given: list[str]) -> None:
    complete(made, given)


def register_classes(made: Any, registered: list[type]) -> None:
    """Make classes virtual subclasses of an abstract base class again, past any override of `register`."""
    for kind in registered:
        abc.ABCMeta.register(made, kind)


def enum_members(made: Any, extras: dict[str, dict[str, object]]) -> None:
    for name, attributes in extras.items():
        made.__members__[name].__dict__.update(attributes)


def enum_contents(made: Any, contents: dict[str, Any]) -> None:
    """What members hold that are lists, dicts, sets, deques or bytearrays: their data type fills them after `__new__`."""
    base = container_of(made)
    fill = base.update if hasattr(base, "update") else base.extend
    for name, content in contents.items():
        fill(made.__members__[name], content)


def container_of(kind: type) -> Any:
    """The builtin container that a class derives from and that is filled after it is made; None if it derives from no such container."""
    return next((base for base in kind.__mro__ if base in _CONTAINERS), None)


_CONTAINERS = (OrderedDict, dict, list, set, deque, bytearray)


def fill_class(made: type, attributes: dict[str, object]) -> None:
    # type.__setattr__, so that no metaclass of the notebook's runs.
    for name, value in attributes.items():
        fill_attribute(made, name, value)
    complete(made, attributes)


def known_slots(made: Any, state: dict[str, object]) -> None:
    """The slots that this Python's version of a library class has; one that it lacks means nothing to it."""
    for name, value in {**_NEWER_SLOTS, **state}.items():
        if name in made.__slots__:
            object.__setattr__(made, name, value)
