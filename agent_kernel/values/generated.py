"""Make again what the standard library generated for a class: the methods of dataclasses and named tuples, protocols.

Such methods are compiled from text that is kept nowhere, so another Python cannot compile them again. It runs its own
generator on a bare class with the same fields, and takes from there what is missing. What protocols carry differs
from version to version, so it is never stored and always made here.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What a class holds is of any type.

from __future__ import annotations

import types
import typing
from typing import Any

from agent_kernel.values.definitions import is_stand_in

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
