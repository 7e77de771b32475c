"""Notebook classes, taken apart so that they can be made again without running any of the notebook's hooks.

A class is saved as an entry of its own: a skeleton (metaclass, name, bases, slots), the methods, and the other
attributes. All needed skeletons are made first; then methods go in, then attributes, by `type.__setattr__`. Instances
name their class by a random id, so redefining `P` neither changes nor stores again what the old `P` made.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What a class holds is of any type.

from __future__ import annotations

import abc
import enum
import secrets
import types
import weakref
from collections.abc import Iterator
from typing import Any

from agent_kernel.values.generated import is_made_again
from agent_kernel.values.restore import classes as restore

_PLAIN = frozenset({int, float, complex, str, bytes, bool, type(None), types.FunctionType})
_SAFE_FIRST = (staticmethod, classmethod, property)
_IN_SKELETON = frozenset({"__slots__", "__module__", "__qualname__", "__doc__", "__orig_bases__", "__class__"})
_NOT_SAVED = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__firstlineno__",
        "__static_attributes__",
        "_abc_impl",
        "__abstractmethods__",
        "__slotnames__",
    }
)


class ClassRegistry:
    """Which lasting id each live notebook class has, and the other way round."""

    def __init__(self) -> None:
        self._ids: dict[int, tuple[weakref.ref[type], str]] = {}
        self._live: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()

    def uid_of(self, kind: type) -> str:
        """The class's id; a new one at first sight."""
        known = self._ids.get(id(kind))
        if known is not None and known[0]() is kind:
            return known[1]
        uid = f"{kind.__qualname__}#{secrets.token_hex(5)}"
        self.adopt(uid, kind)
        return uid

    def live(self, uid: str) -> type | None:
        return self._live.get(uid)

    def adopt(self, uid: str, kind: type) -> None:
        """Make `kind` the live class of this id. One that had it before gets a new id when it is next met."""
        before = self._live.get(uid)
        if before is not None and before is not kind:
            self._ids.pop(id(before), None)
        self._ids[id(kind)] = weakref.ref(kind), uid
        self._live[uid] = kind

    def forget(self, uid: str) -> None:
        """The class of this id is another one now that could not be loaded: the live one gets a new id when next met."""
        before = self._live.pop(uid, None)
        if before is not None:
            self._ids.pop(id(before), None)


class Fill:
    """Pickles as: set these attributes on the class."""

    def __init__(self, kind: type, attributes: dict[str, object]) -> None:
        self.kind, self.attributes = kind, attributes

    def __reduce__(self) -> Any:
        return restore.fill_class, (self.kind, self.attributes)


class FillRegistered(Fill):
    """Pickles as: register these classes with the abstract base class."""

    def __reduce__(self) -> Any:
        return restore.register_classes, (self.kind, list(self.attributes.values()))


class FillMembers(Fill):
    """Pickles as: set these attributes on the members of an enum."""

    def __reduce__(self) -> Any:
        return restore.enum_members, (self.kind, self.attributes)


def skeleton(kind: type[Any]) -> tuple[object, ...]:
    """What must exist before anything else of the class: the arguments of `restore.skeleton` or `enum_skeleton`."""
    if issubclass(kind, enum.Enum):
        members = [(name, member.value) for name, member in kind.__members__.items()]
        return "enum", type(kind), kind.__name__, kind.__bases__, members
    if type(kind).__module__ == "msgspec._core":
        return "struct", kind.__name__, _struct_fields(kind), kind.__bases__, kind.__module__, _struct_options(kind)
    attributes: dict[str, object] = {name: vars(kind)[name] for name in _IN_SKELETON if name in vars(kind)}
    attributes["__qualname__"] = kind.__qualname__
    return "class", type(kind), kind.__name__, kind.__bases__, dict(sorted(attributes.items()))


def _struct_fields(kind: Any) -> list[Any]:
    """A struct's own fields, as `msgspec.defstruct` takes them."""
    import msgspec

    inherited = {found.name for base in kind.__bases__ if base is not msgspec.Struct for found in _fields(base)}
    return [
        (found.name, found.type, *_default_of(found))
        for found in _fields(kind)
        if found.name not in inherited or found.name in vars(kind).get("__annotations__", {})
    ]


def _fields(kind: Any) -> Any:
    import msgspec

    return msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else ()


def _default_of(found: Any) -> tuple[Any, ...]:
    import msgspec

    if found.default_factory is not msgspec.NODEFAULT:
        return "factory", found.default_factory
    return () if found.default is msgspec.NODEFAULT else ("value", found.default)


def _struct_options(kind: Any) -> dict[str, Any]:
    config = kind.__struct_config__
    names = (
        "frozen",
        "eq",
        "order",
        "array_like",
        "gc",
        "repr_omit_defaults",
        "omit_defaults",
        "forbid_unknown_fields",
    )
    options = {name: getattr(config, name) for name in (*names, "weakref", "dict", "cache_hash")}
    return {**options, "tag": config.tag, "tag_field": config.tag_field}


def make(parts: tuple[Any, ...]) -> type:
    """Make the bare class that `skeleton` took apart."""
    form, *arguments = parts
    makers: dict[str, Any] = {"enum": restore.enum_skeleton, "struct": restore.struct_skeleton}
    made: type = makers.get(form, restore.skeleton)(*arguments)
    return made


def body(kind: type[Any]) -> tuple[list[Fill], list[Fill]]:
    """The class's attributes: those that can go in before any instance exists (methods), and the rest."""
    first: dict[str, object] = {}
    rest: dict[str, object] = {}
    for name, found in _attributes(kind):
        (first if type(found) in _PLAIN or isinstance(found, _SAFE_FIRST) else rest)[name] = found
    fills = [Fill(kind, rest)] if rest else []
    if issubclass(kind, enum.Enum):
        first.update({"__module__": kind.__module__, "__qualname__": kind.__qualname__})
        extras = {name: _extra(member) for name, member in kind.__members__.items() if _extra(member)}
        fills += [FillMembers(kind, dict(extras))] if extras else []
    registered = _registered(kind)
    fills += [FillRegistered(kind, registered)] if registered else []
    return [Fill(kind, first)] if first else [], fills


def _registered(kind: type) -> dict[str, object]:
    """The classes that were registered with an abstract base class, by name."""
    if not isinstance(kind, abc.ABCMeta):
        return {}
    dump: Any = getattr(abc, "_get_dump")  # noqa: B009  # the one way to see them; the C module has no types
    alive = [found for reference in dump(kind)[0] if (found := reference()) is not None]
    return {found.__qualname__: found for found in sorted(alive, key=lambda found: found.__qualname__)}


def _attributes(kind: Any) -> Iterator[tuple[str, object]]:
    is_enum = issubclass(kind, enum.Enum)
    made_by_c = _names_made_by_c(kind)
    for name, found in list(vars(kind).items()):
        if name in _NOT_SAVED or name in made_by_c or (name in _IN_SKELETON and not (is_enum and name == "__doc__")):
            continue
        if isinstance(found, (types.MemberDescriptorType, types.GetSetDescriptorType)) and found.__objclass__ is kind:
            continue  # slots are made by the skeleton
        if is_made_again(kind, name, found):
            continue
        if is_enum and (name in kind.__members__ or _is_enum_bookkeeping(name, found)):
            continue
        yield name, found
    # Also where there is none: the skeleton of a concrete class lacks the methods that make it one.
    if isinstance(kind, abc.ABCMeta) and "__abstractmethods__" in vars(kind):
        yield "__abstractmethods__", vars(kind)["__abstractmethods__"]


def _names_made_by_c(kind: type) -> set[str]:
    if type(kind).__module__ != "msgspec._core":
        return set()
    return {name for name in vars(kind) if name.startswith("__struct_")} | {"__match_args__", "__annotations__"}


def _is_enum_bookkeeping(name: str, found: object) -> bool:
    sunder = name.startswith("_") and name.endswith("_") and not name.startswith("__")
    return sunder or name == "__new__" or type(found).__module__ == "enum" or name in {"__members__", "__reduce_ex__"}


def _extra(member: Any) -> dict[str, object]:
    own = {"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"}
    return {name: value for name, value in vars(member).items() if name not in own}
