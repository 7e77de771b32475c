"""What can be read of an unpicklable object without running any code.

A hash notices that a connection or a parser changed; it cannot bring it back. What lies in a queue, a thread or a task
says what may change when that is used.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What is read here is of any type.

from __future__ import annotations

import contextvars
import functools
import gc
import types
import weakref
from collections import deque
from collections.abc import Iterable
from itertools import compress, islice
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, cast

import msgspec
import xxhash

from agent_kernel.values.definitions import names_used
from agent_kernel.values.summaries.reading import class_dict, derives_from, instance_dict, referents

if TYPE_CHECKING:
    from agent_kernel.values.aliases import Reach

_PLAIN = frozenset({int, float, complex, str, bytes, bool, type(None)})
_PLAIN_IDS = frozenset(map(id, _PLAIN))  # hashing a type runs its metaclass
# What runs the cells notes each of them in itself: to hold the shell is not to change it.
_RUNS_CELLS = frozenset({"IPython", "ipykernel"})
_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def surface_digest(value: object) -> bytes:
    """Eight bytes over the C attributes and the instance dict, plain values only, and the memory that it lays open.

    None of what runs the cells.
    """
    bases = _bases(type(value))
    if any(_package(base) in _RUNS_CELLS for base in bases):
        return b""
    if looks_at_address(value):
        return b""
    seen: list[tuple[str, object]] = []
    for base in bases:
        for name, descriptor in type.__getattribute__(base, "__dict__").items():
            if type(descriptor) in _DESCRIPTORS and not name.startswith("__"):
                found = _read(descriptor, value)
                if _is_plain(found):
                    seen.append((name, found))
    attributes = instance_dict(value)
    if type(attributes) is dict:  # exactly: a subclass would run its own code
        seen.extend((name, found) for name, found in attributes.items() if _is_plain(found))
    memory = _memory_digest(value, bases)
    return xxhash.xxh3_64_digest(repr(seen).encode("utf-8", "surrogatepass") + memory)


# Bytes of memory that are read: some 5 ms. Of a map of a longer file the rest is not looked at.
_MOST_READ = 1 << 26
_LAY_MEMORY_OPEN = frozenset({("_ctypes", "_CData"), ("mmap", "mmap"), ("builtins", "memoryview")})


def _memory_digest(value: Any, bases: tuple[type, ...]) -> bytes:
    """Covers the bytes of what ctypes makes, of a map of a file, and of a view; where that is safe to read."""
    if _LAY_MEMORY_OPEN.isdisjoint(map(_name, bases)) or any(
        "__buffer__" in class_dict(base) for base in bases if _package(base) == "__main__"
    ):
        return b""
    try:
        with memoryview(value) as view:
            if not view.contiguous:
                return xxhash.xxh3_64_digest(view.tobytes())
            with PickleBuffer(view).raw() as raw:
                return xxhash.xxh3_64_digest(raw[:_MOST_READ])
    except (BufferError, ValueError, TypeError):  # closed, or without memory
        return b""


def looks_at_address(value: Any) -> bool:
    """Whether ctypes made it of an address: no object holds the memory there, and to read what is gone ends the process."""
    plain = next((base for base in _bases(type(value)) if _name(base) == ("_ctypes", "_CData")), None)
    if plain is None:
        return False
    fields: dict[str, Any] = {**class_dict(plain)}
    while (base := fields["_b_base_"].__get__(value)) is not None:
        value = base
    kept = fields["_objects"].__get__(value)
    held: list[Any] = list(kept.values()) if type(kept) is dict else []
    return not fields["_b_needsfree_"].__get__(value) and not any(type(found) is memoryview for found in held)


def _bases(kind: type) -> tuple[type, ...]:
    return type.__getattribute__(kind, "__mro__") or ()  # a type that a library half made has none


def _package(kind: type) -> str:
    module: object = type.__getattribute__(kind, "__module__")
    return module.partition(".")[0] if type(module) is str else ""


def _name(kind: type) -> tuple[object, object]:
    return type.__getattribute__(kind, "__module__"), type.__getattribute__(kind, "__name__")


def _read(descriptor: Any, value: object) -> object:
    try:
        return type(descriptor).__get__(descriptor, value)
    except Exception:  # noqa: BLE001  # a C getter of a closed or half-made object
        return _read


def _is_plain(found: Any) -> bool:
    if type(found) in _PLAIN:
        return True
    return type(found) in (list, tuple) and all(type(item) in _PLAIN for item in found)


class Held(msgspec.Struct):
    """What lies in an object: names that its code uses, ids of the objects, and the memory that arrays among them look at."""

    names: set[str] = msgspec.field(default_factory=set[str])
    ids: set[int] = msgspec.field(default_factory=set[int])
    memory: set[tuple[int, int]] = msgspec.field(default_factory=set[tuple[int, int]])

    def __bool__(self) -> bool:
        return bool(self.names or self.ids)

    def update(self, other: Held) -> None:
        self.names |= other.names
        self.ids |= other.ids
        self.memory |= other.memory

    def add(self, value: object) -> None:
        """One more object lies in it."""
        from agent_kernel.values.unseen import memory_of

        self.ids.add(id(value))
        self.memory.update(memory_of(value))

    def shared_with(self, reach: Reach) -> frozenset[int]:
        """What a value reaches of all this: ids of objects, and where the memory begins."""
        from agent_kernel.values.dump import OBJECTS

        found = reach.ids & self.ids
        for use in reach.memory:
            if use.private:
                continue
            if self._has(use.low) if use.space == OBJECTS else use.space == "cpu" and self._meets(use.low, use.high):
                found.add(use.low)
        return frozenset(found)

    def meets(self, other: Held) -> bool:
        """Whether both have hold of an object, or of the same memory."""
        return not self.ids.isdisjoint(other.ids) or any(self._meets(low, high) for low, high in other.memory)

    def _has(self, item: int) -> bool:
        return item in self.ids

    def _meets(self, low: int, high: int) -> bool:
        return any(first < high and low < last for first, last in self.memory)


MOST_HELD = 2_000  # objects looked at below one that cannot be saved
_NOT_ENTERED = (types.ModuleType, type, types.CodeType, types.FrameType, types.TracebackType)
# Below these lie the shell, its history and its streams, and through them every variable.
_SURROUNDINGS = _RUNS_CELLS | {"agent_kernel", "zmq", "tornado", "traitlets", "comm", "jupyter_client"}


def held_by(value: object, namespace: dict[str, object]) -> Held:
    """What code the object may run, and what it may change, as far as the collector knows what lies in it.

    At most `MOST_HELD` objects are looked at, the nearest first. Modules, classes, frames of others and what runs the
    cells are not entered.
    """
    held = Held()
    level = _below(value, namespace, held)
    seen = {id(value), id(namespace)}
    while level and len(seen) < MOST_HELD:
        fresh: dict[int, object] = {}
        for one in level:
            if id(one) not in seen and not _is_closed(one):
                fresh[id(one)] = one
                if len(seen) + len(fresh) >= MOST_HELD:
                    break
        seen |= fresh.keys()
        for one in fresh.values():
            held.add(one)
            held.ids.update(map(id, _classes_of(one)))
        classes = (cast("type", one) for one in level if derives_from(type(one), type))
        held.ids.update(id(kind) for kind in classes if not is_of_library(kind))
        level = [found for one in fresh.values() for found in _below(one, namespace, held)]
    return held


def _classes_of(value: object) -> tuple[type, ...]:
    """The notebook's classes that an object is made of: it goes on with these."""
    return () if is_of_library(type(value)) else _bases(type(value))


def _is_closed(value: object) -> bool:
    kind = type(value)
    if id(kind) in _PLAIN_IDS or issubclass(kind, _NOT_ENTERED):
        return True
    return any(_package(base) in _SURROUNDINGS for base in _bases(kind))


def _below(value: Any, namespace: dict[str, object], held: Held) -> Iterable[object]:
    """What the object refers to; of a function what is its own, without its globals. Notes names on the way."""
    from agent_kernel.values.unseen import unseen_below

    kind = type(value)
    if kind is types.FunctionType:
        if value.__globals__ is namespace:
            held.names |= names_used(value.__code__)
        return [value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__]
    for base in _bases(kind):
        if type.__getattribute__(base, "__module__") == "__main__":
            held.names |= names_of_class(base)
    below = _referents(value)
    if issubclass(kind, weakref.ReferenceType):
        below += [weakref.ReferenceType.__call__(value), value.__callback__]
    elif kind is weakref.finalize:
        below += value.peek() or ()
    elif kind is contextvars.ContextVar:
        below.append(contextvars.copy_context().get(value))
    return [*below, *unseen_below(value, namespace, MOST_HELD)]


def _referents(value: Any) -> list[object]:
    """What the object refers to; of a long container no more than is looked at, for all of it would take a copy."""
    kind = id(type(value))
    if kind not in _CONTAINER_IDS or len(value) <= MOST_HELD:
        return referents((value,))
    return list(islice(value.values() if kind == id(dict) else value, MOST_HELD))


_CONTAINER_IDS = frozenset(map(id, (list, tuple, set, frozenset, dict, deque)))


def callback_of(reference: Any) -> Any:
    """What a weak reference or a proxy was given to call."""
    if not issubclass(type(reference), weakref.ReferenceType):
        return next(iter(gc.get_referents(reference)), None)  # a proxy answers for its object
    called: Any = reference.__callback__
    if weakref.WeakMethod in type(reference).__mro__ and type(called) is types.FunctionType and called.__closure__:
        cells = dict(zip(called.__code__.co_freevars, called.__closure__, strict=True))
        called = cells["callback"].cell_contents if "callback" in cells else called
    return called


def called_at_death(value: object, namespace: dict[str, object]) -> list[object]:
    """What weak references to the object call when it dies, without functions of libraries."""
    found = [(reference, callback_of(reference)) for reference in weakref.getweakrefs(value)]
    return [called for one, called in found if called is not None and not is_library_callback(one, called, namespace)]


def awaited_among(values: Iterable[object], namespace: dict[str, object]) -> list[object]:
    """Those of the values, and of what lies near below them, at whose death something of the notebook's is called."""
    level = list(values)
    seen: dict[int, object] = {}
    for _ in range(_STEPS_BELOW):
        fresh = {id(one): one for one in level if id(one) not in seen and not _is_closed(one)}
        if len(seen) + len(fresh) > _MOST_AWAITED:
            break
        seen |= fresh
        level = referents([one for one in fresh.values() if not _is_wide(one)])
    referred = compress(seen.values(), map(weakref.getweakrefcount, seen.values()))
    return [one for one in referred if called_at_death(one, namespace)]


_STEPS_BELOW = 5  # an object, its attributes, a dict, an object in it, its attributes
_MOST_AWAITED = 20_000


def _is_wide(value: Any) -> bool:
    return id(type(value)) in _CONTAINER_IDS and len(value) > MOST_HELD


def is_library_callback(reference: object, callback: Any, namespace: dict[str, object]) -> bool:
    """Whether nothing of the notebook's can be in what a weak reference calls."""
    if type(callback) is functools.partial and all(map(_is_plain, (*callback.args, *callback.keywords.values()))):
        callback = callback.func
    if type(callback) is types.FunctionType:
        return callback.__globals__ is not namespace
    if type(callback) is types.MethodType and type(callback.__func__) is types.FunctionType:
        # A library's registry drops a reference of its own, as matplotlib's does whose target is gone.
        own = callback.__func__.__globals__ is namespace or not is_of_library(type(callback.__self__))
        return not own and _keeps(callback.__self__, reference)
    if type(callback) is not types.BuiltinFunctionType or callback.__name__ != "_destroy":
        return False
    # What an abstract class has each class call that it was asked of: its set drops the weak reference to that.
    return type(callback.__self__) is weakref.ReferenceType


def _keeps(registry: object, reference: object) -> bool:
    """Whether an object holds the reference: in a dict of its dicts, say."""
    level = [registry]
    for _ in range(_STEPS_BELOW):
        below = referents(level)
        if any(one is reference for one in below):
            return True
        level = [one for one in below if id(type(one)) in _CONTAINER_IDS][:_MOST_KEPT]
    return False


_MOST_KEPT = 100


def is_of_library(kind: type) -> bool:
    """Whether neither the class nor any of its bases is the notebook's."""
    if id(kind) in _library_types:
        return True
    is_library = all(type.__getattribute__(base, "__module__") != "__main__" for base in _bases(kind))
    if is_library:
        _library_types[id(kind)] = kind
    return is_library


_library_types: dict[int, type] = {}  # held, so that an id stays theirs; those of notebooks are free to die


def names_of_class(kind: type) -> set[str]:
    """Names that the methods of a class use."""
    members = type.__getattribute__(kind, "__dict__").values()
    functions = (getattr(member, "__func__", member) for member in members if id(type(member)) in _METHOD_IDS)
    accessors = (
        part for member in members if type(member) is property for part in (member.fget, member.fset, member.fdel)
    )
    return {
        name
        for function in (*functions, *accessors)
        if type(function) is types.FunctionType
        for name in names_used(function.__code__)
    }


_METHOD_IDS = frozenset(map(id, (types.FunctionType, staticmethod, classmethod)))
