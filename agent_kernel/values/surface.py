"""What can be read of an unpicklable object without running any code, and what stands in its place after a restart.

A hash notices that a connection or a parser changed; it cannot bring it back. What lies in a queue, a thread or a task
says what may change when that is used.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import _thread
import contextvars
import functools
import gc
import re
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from itertools import compress, islice
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec
import xxhash

from agent_kernel.errors import LostValueError
from agent_kernel.values import atoms, references
from agent_kernel.values.definitions import names_used
from agent_kernel.values.introspection import (
    TypeCache,
    class_dict,
    derives_from,
    find_loaded,
    instance_dict,
    module_dict,
    referents,
)
from agent_kernel.values.restore.context import is_loading

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from types import FrameType

    from agent_kernel.values.aliases import Reach, SaveFailure


# What is read here is of any type.


_PLAIN = frozenset({int, float, complex, str, bytes, bool, type(None)})
_PLAIN_IDS = frozenset(map(id, _PLAIN))  # hashing a type runs its metaclass
# What runs the cells notes each of them in itself: to hold the shell is not to change it.
_RUNS_CELLS = frozenset({"IPython", "ipykernel"})
_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def surface_digest(value: object) -> bytes:
    """Eight bytes over the C attributes and the instance dict, plain values only, and the memory that it lays open.

    None of what runs the cells.
    """
    if _is_not_read(value):
        return b""
    seen, memory = _read_surface(value)
    return xxhash.xxh3_64_digest(repr(seen).encode("utf-8", "surrogatepass") + memory)


def is_closed(value: object) -> bool:
    """Whether an object shows nothing of what it is in the middle of, as a compressor does: then each use may have changed it."""
    if _is_not_read(value) or any(type(value) is kind for kind in _WITHOUT_STATE) or derives_from(type(value), type):
        return False
    return _read_surface(value) == ([], b"")


_WITHOUT_STATE = (
    *(types.ModuleType, types.BuiltinFunctionType, types.FunctionType, types.MethodType),
    *(type(_thread.allocate_lock()), _thread.RLock),
)


def _is_not_read(value: object) -> bool:
    return any(_package(base) in _RUNS_CELLS for base in _bases(type(value))) or looks_at_address(value)


def _read_surface(value: object) -> tuple[list[tuple[str, object]], bytes]:
    bases = _bases(type(value))
    seen: list[tuple[str, object]] = []
    for base in bases:
        for name, descriptor in type.__getattribute__(base, "__dict__").items():
            if type(descriptor) in _DESCRIPTORS and not name.startswith("__"):
                found = _read(descriptor, value)
                if _is_plain(found):
                    seen.append((name, found))
                elif digest := _running_digest(found):
                    seen.append((name, digest))
    attributes = _attributes_of(value)
    if type(attributes) is dict:  # exactly: a subclass would run its own code
        for name, found in list(attributes.items()):
            if _is_plain(found):
                seen.append((name, found))
            elif digest := _running_digest(found) or _content_digest(found) or _inner_memory_digest(found):
                seen.append((name, digest))
    running = _running_digest(value)
    return ([*seen, ("digest", running)] if running else seen), _memory_digest(value, bases)


def _attributes_of(value: object) -> object:
    if not derives_from(type(value), types.ModuleType):
        return instance_dict(value)
    return {name: found for name, found in module_dict(value).items() if not name.startswith("__")}


def _content_digest(found: Any) -> bytes:
    """What tells of a builtin container in an object: all of it where it is texts and numbers, else how many items it has.

    What lies in containers in it a variable may hold, too, which is saved and comes back.
    """
    kind = type(found)
    if kind is deque:
        found = list(found)
    elif not any(kind is other for other in (list, tuple, dict, set, frozenset)):
        return b""
    items = list(dict.values(found)) if kind is dict else found
    is_plain = len(found) <= _MOST_ITEMS and all(map(_PLAIN_IDS.__contains__, map(id, map(type, items))))
    return (atoms.content_digest(found) if is_plain else b"") or b"%d items" % len(found)


_MOST_ITEMS = 10_000


def _running_digest(value: Any) -> bytes:
    """What a hash object written in C gives for all that it was fed; empty of anything else."""
    if id(type(value)) in _PLAIN_IDS:
        return b""
    fields: dict[str, object] = {}
    for base in reversed(_bases(type(value))):
        fields.update(class_dict(base))
    if not all(type(fields.get(name)) is types.MethodDescriptorType for name in ("digest", "update", "copy")):
        return b""
    for arguments in ((), (16,)):  # some give as many bytes as they are asked for
        try:
            found = value.digest(*arguments)
        except (TypeError, ValueError):
            continue
        return found if type(found) is bytes else b""
    return b""


# Bytes of memory that are read: some 5 ms. Of a map of a longer file the rest is not looked at.
_MOST_READ = 1 << 26
_LAY_MEMORY_OPEN = frozenset({("_ctypes", "_CData"), ("mmap", "mmap"), ("builtins", "memoryview")})


def _lays_memory_open(bases: tuple[type, ...]) -> bool:
    """Whether it is what ctypes makes, a map of a file or a view, and says by none of the notebook's code where that lies."""
    return not _LAY_MEMORY_OPEN.isdisjoint(map(_type_name, bases)) and not any(
        "__buffer__" in class_dict(base) for base in bases if _package(base) == "__main__"
    )


def _memory_digest(value: Any, bases: tuple[type, ...]) -> bytes:
    """Covers the bytes that a value lays open, where that is safe to read."""
    if not _lays_memory_open(bases):
        return b""
    try:
        with memoryview(value) as view:
            if not view.contiguous:
                return xxhash.xxh3_64_digest(view.tobytes())
            with PickleBuffer(view).raw() as raw:
                return xxhash.xxh3_64_digest(raw[:_MOST_READ])
    except (BufferError, ValueError, TypeError):  # closed, or without memory
        return b""


def _inner_memory_digest(found: object) -> bytes:
    """Covers the memory that an attribute lays open, or an attribute of that: such as what processes share."""
    inner = instance_dict(found)
    values = (found, *inner.values()) if type(inner) is dict else (found,)
    return b"".join(_memory_digest(value, _bases(type(value))) for value in values)


def looks_at_address(value: Any) -> bool:
    """Whether ctypes made it of an address: no object holds the memory there, and to read what is gone ends the process."""
    plain = next((base for base in _bases(type(value)) if _type_name(base) == ("_ctypes", "_CData")), None)
    if plain is None:
        return False
    fields: dict[str, Any] = {**class_dict(plain)}
    while (base := fields["_b_base_"].__get__(value)) is not None:
        value = base
    kept_alive = fields["_objects"].__get__(value)
    held: list[Any] = list(kept_alive.values()) if type(kept_alive) is dict else []
    return not fields["_b_needsfree_"].__get__(value) and not any(type(found) is memoryview for found in held)


def _bases(kind: type) -> tuple[type, ...]:
    return type.__getattribute__(kind, "__mro__") or ()  # a type that a library half made has none


def _package(kind: type) -> str:
    module: object = type.__getattribute__(kind, "__module__")
    return module.partition(".")[0] if type(module) is str else ""


def _type_name(kind: type) -> tuple[object, object]:
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


class Holdings(msgspec.Struct):
    """What lies in an object: names that its code uses, ids of the objects, and the memory that arrays among them look at."""

    names: set[str] = msgspec.field(default_factory=set[str])
    ids: set[int] = msgspec.field(default_factory=set[int])
    memory: set[tuple[int, int]] = msgspec.field(default_factory=set[tuple[int, int]])

    def __bool__(self) -> bool:
        return bool(self.names or self.ids)

    def update(self, other: Holdings) -> None:
        self.names |= other.names
        self.ids |= other.ids
        self.memory |= other.memory

    def add(self, value: object) -> None:
        """One more object lies in it."""
        self.ids.add(id(value))
        self.memory.update(memory_of(value))

    def find_shared(self, reach: Reach) -> frozenset[int]:
        """Find what a value reaches of all this: ids of objects, and where the memory begins."""
        from agent_kernel.values.aliases import OBJECTS, OPEN

        found = reach.ids & self.ids
        for use in reach.memory:
            if use.written != OPEN:
                continue
            if self._has(use.low) if use.space == OBJECTS else use.space == "cpu" and self._meets(use.low, use.high):
                found.add(use.low)
        return frozenset(found)

    def meets(self, other: Holdings) -> bool:
        """Whether both have hold of an object, or of the same memory."""
        return not self.ids.isdisjoint(other.ids) or any(self._meets(low, high) for low, high in other.memory)

    def _has(self, item: int) -> bool:
        return item in self.ids

    def _meets(self, low: int, high: int) -> bool:
        return any(first < high and low < last for first, last in self.memory)


MOST_HOLDINGS = 2_000  # objects looked at below one that cannot be saved
_NOT_ENTERED = (types.ModuleType, type, types.CodeType, types.FrameType, types.TracebackType)
# Below these lie the shell, its history and its streams, and through them every variable.
_SURROUNDINGS = _RUNS_CELLS | {"agent_kernel", "zmq", "tornado", "traitlets", "comm", "jupyter_client"}


def find_holdings(value: object, namespace: dict[str, object]) -> Holdings:
    """Find what code the object may run, and what it may change: its own memory, and what the collector knows to lie in it.

    At most `MOST_HOLDINGS` objects are looked at, the nearest first. Modules, classes, frames of others and what runs the
    cells are not entered.
    """
    holdings = Holdings(memory=set(memory_of(value)))
    level = _below(value, namespace, holdings)
    seen = {id(value), id(namespace)}
    while level and len(seen) < MOST_HOLDINGS:
        fresh: dict[int, object] = {}
        for one in level:
            if id(one) not in seen and not _is_closed(one):
                fresh[id(one)] = one
                if len(seen) + len(fresh) >= MOST_HOLDINGS:
                    break
        seen |= fresh.keys()
        for one in fresh.values():
            holdings.add(one)
            holdings.ids.update(map(id, _classes_of(one)))
        classes = (cast("type", one) for one in level if derives_from(type(one), type))
        holdings.ids.update(id(kind) for kind in classes if not is_of_library(kind))
        level = [found for one in fresh.values() for found in _below(one, namespace, holdings)]
    return holdings


def _classes_of(value: object) -> tuple[type, ...]:
    """The notebook's classes that an object is made of: it goes on with these."""
    return () if is_of_library(type(value)) else _bases(type(value))


def _is_closed(value: object) -> bool:
    kind = type(value)
    if id(kind) in _PLAIN_IDS or issubclass(kind, _NOT_ENTERED):
        return True
    return any(_package(base) in _SURROUNDINGS for base in _bases(kind))


def _below(value: Any, namespace: dict[str, object], holdings: Holdings) -> Iterable[object]:
    """What the object refers to; of a function what is its own, without its globals. Notes names on the way."""
    kind = type(value)
    if kind is types.FunctionType:
        if value.__globals__ is namespace:
            holdings.names |= names_used(value.__code__)
        return [value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__]
    for base in _bases(kind):
        if type.__getattribute__(base, "__module__") == "__main__":
            holdings.names |= names_of_class(base)
    below = _referents(value)
    if issubclass(kind, weakref.ReferenceType):
        below += [weakref.ReferenceType.__call__(value), value.__callback__]
    elif kind is weakref.finalize:
        below += value.peek() or ()
    elif kind is contextvars.ContextVar:
        below.append(contextvars.copy_context().get(value))
    return [*below, *unseen_below(value, namespace, MOST_HOLDINGS)]


def _referents(value: Any) -> list[object]:
    """What the object refers to; of a long container no more than is looked at, for all of it would take a copy."""
    kind = id(type(value))
    if kind not in _CONTAINER_IDS or len(value) <= MOST_HOLDINGS:
        return referents((value,))
    return list(islice(value.values() if kind == id(dict) else value, MOST_HOLDINGS))


_CONTAINER_IDS = frozenset(map(id, (list, tuple, set, frozenset, dict, deque)))


def callback_of(reference: Any) -> Any:
    """What a weak reference or a proxy was given to call."""
    if not issubclass(type(reference), weakref.ReferenceType):
        return next(iter(gc.get_referents(reference)), None)  # a proxy answers for its object
    called: Any = reference.__callback__
    if derives_from(type(reference), weakref.WeakMethod) and type(called) is types.FunctionType and called.__closure__:
        cells = dict(zip(called.__code__.co_freevars, called.__closure__, strict=True))
        called = cells["callback"].cell_contents if "callback" in cells else called
    return called


def is_alone(value: object, namespace: dict[str, object]) -> bool:
    """Whether no module holds the value, and nothing of the notebook's waits for its death."""
    return not references.is_container_of_module(value, namespace) and not find_death_callbacks(value, namespace)


def find_death_callbacks(value: object, namespace: dict[str, object]) -> list[object]:
    """Find what weak references to the object call when it dies, without functions of libraries."""
    found = [(reference, callback_of(reference)) for reference in weakref.getweakrefs(value)]
    return [called for one, called in found if called is not None and not is_library_callback(one, called, namespace)]


def find_awaited(values: Iterable[object], namespace: dict[str, object]) -> list[object]:
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
    return [one for one in referred if find_death_callbacks(one, namespace)]


_STEPS_BELOW = 5  # an object, its attributes, a dict, an object in it, its attributes
_MOST_AWAITED = 20_000


def _is_wide(value: Any) -> bool:
    return id(type(value)) in _CONTAINER_IDS and len(value) > MOST_HOLDINGS


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


# -- what stands in the namespace for an object that is not there: every use raises, and says how to get it back
#
# It could not be saved, or it is stored and could not be loaded.

_STATE = "_agent_kernel_lost"
_WORD = re.compile(r"[^\W\d]\w*")
_CONTAINERS = (dict, list, tuple, set)


def _raise(self: Any, *_: Any, **__: Any) -> NoReturn:
    failure = save_failure_of(self)
    if failure is None:
        raise TypeError("not a lost value")
    names, own = _names_used(self) or object.__getattribute__(self, "_agent_kernel_names"), load_failure_of(self)
    shown_failure = own or failure
    remedy = _remedy(self, shown_failure, names[:1])
    raise LostValueError(names[0], shown_failure.type, shown_failure.reason, remedy, own is not None, names[1:])


def _remedy(self: Any, failure: SaveFailure, names: Collection[str]) -> str:
    find = object.__getattribute__(self, "_agent_kernel_remedy")()
    remedy: str = failure.remedy if find is None else find(failure, names)
    return remedy


def _names_used(self: Any) -> tuple[str, ...]:
    """The variable that the running code used, then the other ones that stand for the same object now; (): not known.

    What is bound may have changed since the placeholder was loaded, and what holds it has another name. The nearest
    caller whose variables, or whose text at the running instruction, lead to it says which was used.
    """
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  # the caller of `_raise`
    namespaces: list[dict[str, Any]] = []  # of the code that was called: their names hold the code, not the object
    while frame is not None:
        names = _names_in(self, frame, namespaces)
        if names:
            return names
        namespaces.append(frame.f_globals)
        frame = frame.f_back
    return ()


def _names_in(self: Any, frame: FrameType, namespaces: list[dict[str, Any]]) -> tuple[str, ...]:
    variables = frame.f_globals
    if str(variables.get("__name__", "")).partition(".")[0] == __name__.partition(".")[0]:
        return ()
    bound_names = sorted(name for name, value in tuple(variables.items()) if value is self and not name.startswith("_"))
    text = _running_text(frame)
    words = list(dict.fromkeys(_WORD.findall(text)))
    used = [word for word in words if word in bound_names]
    if used:
        return (*used, *(name for name in bound_names if name not in used))
    if bound_names and not text:
        return tuple(bound_names)
    containers = [word for word in words if type(variables.get(word)) in _CONTAINERS]
    holders = [word for word in containers if not any(variables[word] is one for one in namespaces)]
    return (holders[0],) if holders else tuple(bound_names)


def _running_text(frame: FrameType) -> str:
    """The text of the expression that the frame is at, on one line; "" where its source is not known."""
    from itertools import islice
    from linecache import getline

    first, last, start, end = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    if first is None or first != last or start is None or end is None:
        return getline(frame.f_code.co_filename, frame.f_lineno)
    # Columns are counted in bytes.
    return getline(frame.f_code.co_filename, first).encode()[start:end].decode(errors="replace")


# fmt: off
_EVERY_USE = [
    "__getattr__", "__setattr__", "__delattr__", "__call__", "__repr__", "__str__", "__bytes__", "__format__",
    "__hash__", "__bool__", "__len__", "__iter__", "__next__", "__reversed__", "__contains__", "__getitem__",
    "__setitem__", "__delitem__", "__dir__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__add__",
    "__radd__", "__iadd__", "__sub__", "__rsub__", "__isub__", "__mul__", "__rmul__", "__imul__", "__matmul__",
    "__rmatmul__", "__truediv__", "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__divmod__",
    "__rdivmod__", "__pow__", "__rpow__", "__lshift__", "__rshift__", "__and__", "__rand__", "__or__", "__ror__",
    "__xor__", "__rxor__", "__neg__", "__pos__", "__abs__", "__invert__", "__int__", "__float__", "__complex__",
    "__index__", "__round__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__await__", "__aiter__", "__anext__",
    "__reduce__", "__reduce_ex__", "__copy__", "__deepcopy__", "__fspath__", "__buffer__",
]
# fmt: on


class Unsavable:
    """Pickles as the save failure of a whole value, for one that the pickler cannot even look into."""

    def __init__(self, value: object, reason: str) -> None:
        self.value, self.reason = value, reason


class Placeholder:
    """The place of an object that is not there.

    Args:
        loss: what is saved in its place, where something else is bound to it or holds it.
        unloaded: what to say instead where the object is stored under this very name, and only loading it failed.
        remedy: a weak reference to what gives the remedy to show now.
    """

    __slots__ = (
        "__weakref__",
        "_agent_kernel_lost",
        "_agent_kernel_names",
        "_agent_kernel_remedy",
        "_agent_kernel_unloaded",
    )

    def __init__(
        self,
        failure: SaveFailure,
        name: str = "",
        load_failure: SaveFailure | None = None,
        remedy: Callable[[], Callable[[SaveFailure, Collection[str]], str] | None] = lambda: None,
    ) -> None:
        object.__setattr__(self, _STATE, failure)
        object.__setattr__(self, "_agent_kernel_remedy", remedy)
        object.__setattr__(self, "_agent_kernel_names", (name or failure.type,))
        object.__setattr__(self, "_agent_kernel_unloaded", load_failure)


for _name in _EVERY_USE:
    setattr(Placeholder, _name, _raise)


# While holders are loaded around it (a dict that has it as a key, a staticmethod), a placeholder is any plain object.


def _hash(self: Any) -> int:
    return object.__hash__(self) if is_loading() else _raise(self)


def _equals(self: Any, other: object) -> Any:
    return object.__eq__(self, other) if is_loading() else _raise(self)


def _attribute(self: Any, name: str) -> NoReturn:
    if is_loading():
        raise AttributeError(name)
    _raise(self)


for _name, _quiet in {"__hash__": _hash, "__eq__": _equals, "__getattr__": _attribute}.items():
    setattr(Placeholder, _name, _quiet)


def save_failure_of(value: object) -> SaveFailure | None:
    """The save failure that a placeholder stands for; None for any other object."""
    if type(value) is not Placeholder:
        return None
    failure: SaveFailure = object.__getattribute__(value, _STATE)
    return failure


def load_failure_of(value: object) -> SaveFailure | None:
    """What to say of a stored value that could not be loaded; None for any other object."""
    if type(value) is not Placeholder:
        return None
    failure: SaveFailure | None = object.__getattribute__(value, "_agent_kernel_unloaded")
    return failure


def name_placeholders(values: Mapping[str, object]) -> None:
    """Tell each placeholder among these variables by which of them it is reached: it cannot know which one was used."""
    found: dict[int, tuple[Placeholder, list[str]]] = {}
    for name, value in values.items():
        if type(value) is Placeholder:
            found.setdefault(id(value), (value, []))[1].append(name)
    for value, names in found.values():
        object.__setattr__(value, "_agent_kernel_names", tuple(sorted(names)))


# -- what the garbage collector does not see in an object, and the memory that an object looks at
#
# Arrays, series of polars and tracebacks have hold of objects that `gc.get_referents` does not give. Nothing of the notebook's
# runs here, only the library's own accessors.

# What is read here is of any type.


Unseen = Callable[[Any, dict[str, object], int], list[object]]


def unseen_below(value: Any, namespace: dict[str, object], most: int) -> list[object]:
    """What the object has hold of besides. At most so many items of an array."""
    read = _readers.get(type(value))
    if read is None:
        read = _readers.keep(type(value), next((read for is_of, read in _UNSEEN if is_of(type(value))), _find_nothing))
    return read(value, namespace, most)


def _is_never_entered(kind: type) -> bool:
    """Whether the collector looks into no object of this type, whatever its attributes in C give: iterators of numpy, say."""
    return not kind.__flags__ & _IS_COLLECTED and not _is_kind(kind, "numpy", "generic")


_IS_COLLECTED = 1 << 14  # Py_TPFLAGS_HAVE_GC


def _of_attributes(value: Any, _: dict[str, object], most: int) -> list[object]:
    """What its attributes in C give, and lies in what they make for whoever asks: other objects come to lie where that dies."""
    level = [
        _read(descriptor, value)
        for base in _bases(type(value))
        for name, descriptor in class_dict(base).items()
        if type(descriptor) in _DESCRIPTORS and not name.startswith("__")
    ]
    held: list[object] = []
    while level and len(held) < most:
        fresh: list[object] = []
        while level:
            found = level.pop()
            if sys.getrefcount(found) > _HELD_HERE:
                held.append(found)
            else:
                fresh += unseen_below(found, {}, most) if _is_array(type(found)) else referents((found,))
        level = fresh
    return held


_HELD_HERE = 2  # the variable, and getrefcount's argument


def _find_nothing(_: Any, __: dict[str, object], ___: int) -> list[object]:
    return []


def memory_of(value: Any) -> list[tuple[int, int]]:
    """The addresses of the memory that an array, a tensor, a buffer of Arrow, a map of a file or what ctypes makes looks at."""
    if _is_array(type(value)):
        from agent_kernel.values.reducers.arrays import bounds

        ranges = [bounds(value)]
    elif _is_kind(type(value), "torch", "Tensor") and value.device.type == "cpu" and not value.is_sparse:
        storage = value.untyped_storage()
        ranges = [(storage.data_ptr(), storage.data_ptr() + storage.nbytes())]
    elif _is_kind(type(value), "pyarrow", "Buffer"):
        ranges = [(value.address, value.address + value.size)]
    elif _lays_memory_open(_bases(type(value))):
        ranges = _ranges_of_buffer(value)
    else:
        ranges = []
    return [(low, high) for low, high in ranges if low < high]


def _ranges_of_buffer(value: Any) -> list[tuple[int, int]]:
    """Where a buffer lies, if numpy is loaded: it tells, and what else may look at the same memory is mostly its own."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "frombuffer") or looks_at_address(value):
        return []
    from agent_kernel.values.reducers.arrays import bounds

    try:
        with memoryview(value) as view, view.cast("B") if view.contiguous else view as data:
            return [bounds(numpy.asarray(data))] if data.nbytes else []
    except (BufferError, ValueError, TypeError):  # closed, or without memory
        return []


def _is_kind(kind: type, module: str, name: str) -> bool:
    found = find_loaded(module, name)
    return isinstance(found, type) and derives_from(kind, found)


def _is_array(kind: type) -> bool:
    return _is_kind(kind, "numpy", "ndarray")


def _of_array(array: Any, _: dict[str, object], most: int) -> list[object]:
    """The array that owns the memory, and items that are objects."""
    import numpy as np

    from agent_kernel.values.restore.arrays import leaves

    fields: Any = class_dict(np.ndarray)
    base, dtype = fields["base"].__get__(array), fields["dtype"].__get__(array)
    if not dtype.hasobject:
        return [base]
    plain = np.ndarray.view(array, np.ndarray)
    return [base, *(item for part in leaves(plain) if part.dtype == object for item in islice(part.flat, most))]


def _of_generator(generator: Any, _: dict[str, object], __: int) -> list[object]:
    return [getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", None)]


def _of_series(series: Any, _: dict[str, object], most: int) -> list[object]:
    """Only a series of Python's objects has any."""
    polars: Any = find_loaded("polars", "Object")
    return list(series.head(most)) if series.dtype == polars else []


def _of_frame(frame: Any, namespace: dict[str, object], most: int) -> list[object]:
    return [item for series in frame.get_columns() for item in _of_series(series, namespace, most)]


def _of_traceback(traceback: types.TracebackType, namespace: dict[str, object], _: int) -> list[object]:
    """The local variables of the notebook's functions that were running."""
    found: list[object] = []
    following: types.TracebackType | None = traceback
    while following is not None:
        if following.tb_frame.f_globals is namespace:
            found += (one for one in gc.get_referents(following.tb_frame) if not _is_of_every_frame(one))
        following = following.tb_next
    return [one for one in found if one is not namespace]


def _of_database(connection: Any, namespace: dict[str, object], _: int) -> list[object]:
    """Functions that queries call, if it has any."""
    from agent_kernel.values.definitions import unseen_callbacks
    from agent_kernel.values.reducers.databases import names_of_functions

    names = names_of_functions(connection)
    return unseen_callbacks(connection, names, namespace) if names else []


def _is_of_every_frame(value: object) -> bool:
    kinds = (types.FrameType, types.CodeType, types.FunctionType)
    return isinstance(value, kinds) or (type(value) is dict and value.get("__name__") == "builtins")


_UNSEEN: Iterable[tuple[Callable[[type], bool], Unseen]] = (
    (_is_array, _of_array),
    (lambda kind: _is_kind(kind, "numpy.random", "Generator"), _of_generator),
    (lambda kind: _is_kind(kind, "numpy.random", "RandomState"), _of_generator),
    (lambda kind: _is_kind(kind, "polars", "Series"), _of_series),
    (lambda kind: _is_kind(kind, "polars", "DataFrame"), _of_frame),
    (lambda kind: kind is types.TracebackType, _of_traceback),
    (lambda kind: _is_kind(kind, "sqlite3", "Connection"), _of_database),
    (_is_never_entered, _of_attributes),
)
_readers: TypeCache[Unseen] = TypeCache()
