"""Rebuild notebook classes without running any hook of the notebook's."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import abc
import enum
import types
import typing
from collections import OrderedDict, deque
from typing import Any

from agent_kernel.values.definitions import is_stand_in
from agent_kernel.values.restore.context import current

# -- make again what the standard library generated for a class: the methods of dataclasses and named tuples, protocols
#
# Such methods are compiled from text that is kept nowhere, so another Python cannot compile them again. It runs its own
# generator on a bare class with the same fields, and takes from there what is missing. What protocols carry differs
# from version to version, so it is never stored and always made here.

# What a class holds is of any type.


_PROTOCOL_KIND: type = type(typing.Protocol)
_MADE_FOR_PROTOCOLS = frozenset(
    {"__protocol_attrs__", "__callable_proto_members_only__", "__non_callable_proto_members__"}
)


def complete(kind: type, given: typing.Iterable[str]) -> None:
    """These attributes were just given to a class: generate what its stored form lacks."""
    own = type.__getattribute__(kind, "__dict__")
    if "__dataclass_fields__" in given:
        _replace_missing(kind, lambda: _bare_dataclass(kind, own))
        _let_replace(kind)
    if "_fields" in given and tuple in kind.__bases__:
        _replace_missing(kind, lambda: _bare_named_tuple(kind, own))
    if "_is_protocol" in given and type(kind) is _PROTOCOL_KIND:
        _complete_protocol(kind)


def is_made_again(kind: type, name: str, found: object) -> bool:
    """Whether the library that put this attribute into the class has its own way to do it again."""
    if name == "__replace__":
        return "__dataclass_fields__" in type.__getattribute__(kind, "__dict__") and found is _dataclass_replace()
    return _is_made_for_protocol(kind, name, found)


def _is_made_for_protocol(kind: type, name: str, found: object) -> bool:
    if type(kind) is not _PROTOCOL_KIND:
        return False
    if name in _MADE_FOR_PROTOCOLS or (name == "__init__" and found is object.__init__):
        return True
    function = _function(found) if name in ("__init__", "__subclasshook__") else None
    return function is not None and function.__module__ == "typing"


def _replace_missing(kind: type, generate: typing.Callable[[], type]) -> None:
    missing = [name for name, found in list(vars(kind).items()) if _is_missing(found)]
    if not missing:
        return
    source = generate()
    for name in missing:
        fresh = vars(source).get(name)
        if fresh is not None:
            type.__setattr__(kind, name, _moved(fresh, vars(kind)[name], source, kind))


def _is_missing(found: object) -> bool:
    function = _function(found)
    return function is not None and is_stand_in(function.__code__)


def _function(found: object) -> types.FunctionType | None:
    """The function at the bottom of what a class holds under a name."""
    while not isinstance(found, types.FunctionType):
        if not isinstance(found, (staticmethod, classmethod)):
            return None
        found = found.__func__
    inner = found.__dict__.get("__wrapped__")
    return inner if isinstance(inner, types.FunctionType) else found


def _let_replace(kind: type) -> None:
    """`copy.replace`, from Python 3.13 on."""
    replace = _dataclass_replace()
    if replace is not None and "__replace__" not in type.__getattribute__(kind, "__dict__"):
        type.__setattr__(kind, "__replace__", replace)


def _dataclass_replace() -> object:
    import dataclasses

    return vars(dataclasses).get("_replace")


def _bare_dataclass(kind: type, own: typing.Mapping[str, Any]) -> type:
    import dataclasses

    params = own["__dataclass_params__"]
    body: dict[str, Any] = {"__annotations__": {}, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    if hasattr(kind, "__post_init__"):
        body["__post_init__"] = None
    spelled = ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only")
    for name, field in own["__dataclass_fields__"].items():
        form = field._field_type.name
        if form == "_FIELD_CLASSVAR":
            continue
        body["__annotations__"][name] = dataclasses.InitVar[object] if form == "_FIELD_INITVAR" else object
        body[name] = dataclasses.field(**{option: getattr(field, option) for option in spelled})
    options = {name: getattr(params, name) for name in ("init", "repr", "eq", "order", "unsafe_hash", "frozen")}
    return dataclasses.dataclass(**options)(type(kind.__name__, (), body))


def _bare_named_tuple(kind: type, own: typing.Mapping[str, Any]) -> type:
    import collections

    defaults = own.get("_field_defaults", {}).values()
    # Fields that were renamed when the class was made have names that are refused unless they may be renamed.
    generate: Any = collections.namedtuple  # noqa: PYI024
    made: type = generate(kind.__name__, own["_fields"], rename=True, defaults=tuple(defaults))
    return made


def _moved(fresh: Any, missing: Any, source: type, kind: type) -> Any:
    """What was generated for the bare class, as an attribute of the real one."""
    if isinstance(fresh, (staticmethod, classmethod)):
        return type(fresh)(_moved(fresh.__func__, _function(missing), source, kind))
    stored = _function(missing)
    for cell in fresh.__closure__ or ():
        if cell.cell_contents is source:  # a frozen class's __setattr__ asks for its own class
            cell.cell_contents = kind
    if stored is None or "__wrapped__" in fresh.__dict__:
        fresh.__qualname__ = f"{kind.__qualname__}.{fresh.__name__}"
        return fresh
    made = types.FunctionType(fresh.__code__, stored.__globals__, fresh.__name__, fresh.__defaults__, fresh.__closure__)
    made.__kwdefaults__, made.__annotations__ = fresh.__kwdefaults__, stored.__annotations__
    made.__doc__, made.__module__, made.__qualname__ = stored.__doc__, stored.__module__, stored.__qualname__
    return made


def _complete_protocol(kind: type) -> None:
    begin: Any = vars(typing.Protocol)["__init_subclass__"]
    stored = vars(kind).get("__subclasshook__")
    if stored is not None and _is_made_for_protocol(kind, "__subclasshook__", stored):
        type.__delattr__(kind, "__subclasshook__")
    initialise: Any = vars(_PROTOCOL_KIND).get("__init__")
    begin.__func__(kind)
    if initialise is not None:  # from Python 3.12 on
        initialise(kind, kind.__name__, kind.__bases__, {})


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

    def spelled(name: str, kind: Any, how: str = "", default: Any = None, in_messages: str = "") -> Any:
        given: dict[str, Any] = {"factory": {"default_factory": default}, "value": {"default": default}}.get(how, {})
        if in_messages:
            given["name"] = in_messages
        return (name, kind, msgspec.field(**given)) if given else (name, kind)

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
    if not current().fills(made):
        return
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


class NoValueYet:
    """Stands for the value of a member that gets it once there are members: it may lead to some, or be equal to another by now."""


def enum_values(made: Any, values: dict[str, object]) -> None:
    """Give members the values that others stood for."""
    if not current().fills(made):
        return
    for name, value in values.items():
        object.__setattr__(made.__members__[name], "_value_", value)
    by_value = list(made._value2member_map_.items())
    made._value2member_map_.clear()
    for value, member in by_value:
        found = member._value_ if type(value) is NoValueYet else value
        try:
            made._value2member_map_.setdefault(found, member)
        except TypeError:  # it has no hash: since Python 3.12 an enum keeps it elsewhere
            if "_unhashable_values_" in vars(made):
                made._unhashable_values_.append(found)
            if "_unhashable_values_map_" in vars(made):
                made._unhashable_values_map_.setdefault(member._name_, []).append(found)


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
    if not current().fills(made):
        return
    type.__setattr__(made, name, value)
    current().note_attribute(made, name, value)


def fill_container(made: Any, content: Any) -> None:
    """What a list, dict or set of a class holds."""
    current().set_content(made, content)


def complete_class(made: type, given: list[str]) -> None:
    if current().fills(made):
        complete(made, given)


def register_classes(made: Any, registered: list[type]) -> None:
    """Make classes virtual subclasses of an abstract base class again, past any override of `register`."""
    for kind in registered if current().fills(made) else ():
        abc.ABCMeta.register(made, kind)


def enum_members(made: Any, extras: dict[str, dict[str, object]]) -> None:
    for name, attributes in extras.items() if current().fills(made) else ():
        made.__members__[name].__dict__.update(attributes)


def enum_contents(made: Any, contents: dict[str, Any]) -> None:
    """What members hold that are lists, dicts, sets, deques or bytearrays: their data type fills them after `__new__`."""
    base = container_of(made)
    fill = base.update if hasattr(base, "update") else base.extend
    for name, content in contents.items() if current().fills(made) else ():
        fill(made.__members__[name], content)


def container_of(kind: type) -> Any:
    """The builtin container that a class derives from and that is filled after it is made; None if it derives from no such container."""
    return next((base for base in kind.__mro__ if base in _CONTAINERS), None)


_CONTAINERS = (OrderedDict, dict, list, set, deque, bytearray)


def without_slots(made: type, names: list[str]) -> None:
    """Delete the members that lead to slots of these names."""
    for name in names if current().fills(made) else ():
        if name in type.__getattribute__(made, "__dict__"):
            type.__delattr__(made, name)


def fill_class(made: type, attributes: dict[str, object]) -> None:
    # type.__setattr__, so that no metaclass of the notebook's runs.
    for name, value in attributes.items():
        fill_attribute(made, name, value)
    complete_class(made, list(attributes))


def known_slots(made: Any, state: dict[str, object]) -> None:
    """The slots that this Python's version of a library class has; one that it lacks means nothing to it."""
    for name, value in {**_NEWER_SLOTS, **state}.items():
        if name in made.__slots__:
            object.__setattr__(made, name, value)
