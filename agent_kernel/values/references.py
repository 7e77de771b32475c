"""What a module holds under a name, such as `os.environ` or `matplotlib.rcParams`, is saved as that name.

A library's own object is the library's business: restored, it has to be the very object that the library works with,
and its content is not the notebook's to store. Of a module of the person's own the content is saved too, and set back
into the same object.

What counts is what a module held when it was first looked at: what a cell puts into a module later is the person's own,
and is saved by value. Private names count, for the public functions of `random` hang on one. Modules are looked at once
each, and only as new ones come.

Lists, dicts and sets a few steps below what a library's module holds are its own as well: attributes of its objects, and
dicts in dicts under keys that the library's own files name. They are saved as the way there. Other objects below are not:
many are caches, of which another process has none yet, or settings that a person made.

A NaN that a module holds is saved as its name too.
"""

# Any library's objects are looked at here, so nothing is known of their types.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import enum
import functools
import gc
import logging
import marshal
import os
import re
import struct
import sys
import types
import weakref
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from importlib import machinery
from itertools import chain, compress, repeat
from operator import call, is_, lt, ne
from typing import Any, Final

import msgspec
from xxhash import xxh3_128_hexdigest

from agent_kernel.quiet import uncollected
from agent_kernel.values.definitions import names_used
from agent_kernel.values.introspection import (
    addresses,
    bases_of,
    class_dict,
    derives_from,
    find_loaded,
    ids_of,
    module_dict,
    module_name,
    of_types,
    qualified_name,
)


class Reference(msgspec.Struct, frozen=True):
    """Where an object stands. `is_own`: in a module of the person's own, so its content is saved too.

    `steps` lead on from the name: each is how (`attribute`, `item` or `call`), and of which name or key. Of no module:
    the object is pinned, and its name is a token.
    """

    module: str
    name: str
    is_own: bool = False
    steps: tuple[tuple[str, str], ...] = ()


_CONTAINERS = frozenset(map(id, (list, dict, set)))
# These cannot change, or pickle by name, or come with every module. Types of types are found as they are met.
_LEFT_OUT = (
    *(int, float, complex, bool, str, bytes, type(None), tuple, frozenset, range, slice, type),
    *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.CodeType, types.GenericAlias),
    *(type(Ellipsis), type(NotImplemented), types.UnionType),
    *(property, classmethod, staticmethod, types.MethodType, types.MemberDescriptorType, types.GetSetDescriptorType),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.MethodWrapperType),
    logging.RootLogger,  # found by its name, and saved with what the notebook set
    *(machinery.ModuleSpec, machinery.SourceFileLoader, machinery.ExtensionFileLoader),
)
_LEFT_OUT_MODULES = frozenset(
    {"typing", "typing_extensions", "re", "datetime", "_ctypes", "__future__", "pathlib", "numpy.dtypes"}
)
_LEFT_OUT_BASES = frozenset(map(id, (type, enum.Enum)))
_WITH_ITEMS = frozenset(map(id, (dict, list, set, tuple, frozenset, deque)))
_COUNTS = dict.fromkeys(map(id, _LEFT_OUT), False)  # by the id of a type: whether its objects are noted
_OF_EVERY_MODULE = frozenset(
    {"__builtins__", "__spec__", "__loader__", "__path__", "__annotations__", "__all__", "__warningregistry__"}
)
# What the interpreter or a front end sets as it goes, on behalf of what runs.
_SET_BY_RUNNING = frozenset({"last_type", "last_value", "last_traceback", "last_exc"})
_EXCLUDED = frozenset({"__main__", "__mp_main__", "builtins", "agent_kernel"})
# A few more objects below a name, of which there is always one.
_BELOW = {
    "logging": ("root.manager",),
    "numpy.random.mtrand": ("_rand._bit_generator",),
    "email.policy": ("default.header_factory",),
}
# Whoever runs a session (a test, a command) may have replaced what these hold since an earlier one.
_REPLACED = ("sys", "os", "warnings", "logging", "random")
# Of these a person has many: only what the module's own code names is the module's.
_DATA = (("numpy", "ndarray"), ("pandas", "DataFrame"), ("pandas", "Series"), ("torch", "Tensor"), ("io", "StringIO"))


_classes: dict[int, tuple[weakref.ref[type], Reference | None]] = {}


class _Seen(msgspec.Struct):
    """The modules that were looked at, and how many there were in all."""

    # One that is imported anew may lie where the last one lay.
    modules: dict[str, weakref.ref[Any]] = msgspec.field(default_factory=dict[str, "weakref.ref[Any]"])
    odd: dict[str, int] = msgspec.field(
        default_factory=dict[str, int]
    )  # what is no module may take no reference: its id
    total: int = -1
    loggers: int = -1
    names_of_loggers: set[str] = msgspec.field(default_factory=set[str])
    handlers: dict[int, weakref.ref[Any]] = msgspec.field(default_factory=dict[int, "weakref.ref[Any]"])


_seen = _Seen()
# By id: under which names of which modules an object may stand. Most objects are asked for here, and are not in it.
MODULE_OBJECTS: dict[int, list[tuple[str, str]]] = {}
# Those of `MODULE_OBJECTS` that are exact lists, dicts and sets, of which pickle does not ask: how many held each when that was
# counted last; 0 for the dict of a module.
_containers: dict[int, int] = {}
_LEADING: dict[int, bool] = {id(dict): True}  # by the id of a type: whether what is below its objects is looked at
_HOLDING: dict[
    int, bool
] = {}  # whether its objects hold items, too, to which no way leads: of those the attributes count
_kinds: list[type] = []  # kept, so that no other type comes to have the id of one that is left out
_found: dict[int, Reference | None] = {}


def begin() -> None:
    """A session begins: what it works with from now on may be other objects than those of an earlier one."""
    _note_inner(note(name for name in _REPLACED if name in sys.modules))
    _seen.total = -1
    _seen.loggers = -1
    _seen.names_of_loggers.clear()
    _note_loggers()
    _seen.handlers = {id(handler): weakref.ref(handler) for handler in logging.root.handlers}


def is_preexisting_handler(handler: object) -> bool:
    """Whether the root logger had this handler of log records when the session began: it is not the notebook's."""
    known = _seen.handlers.get(id(handler))
    return known is not None and known() is handler


def look() -> None:
    """Note what new modules hold, also one that was imported anew. Costs nothing while no module came."""
    _note_loggers()
    if len(sys.modules) == _seen.total:
        return
    _seen.total = len(sys.modules)
    fresh = _fresh_modules()
    with uncollected():
        _note_inner(note(fresh))


def _fresh_modules() -> list[str]:
    """The modules that were not looked at yet, or are others by now. Thousands that are the same are passed over in C."""
    modules, seen, odd = sys.modules.copy(), _seen.modules, _seen.odd
    same = map(is_, map(call, seen.values()), map(modules.get, seen))
    others = {name for name, is_same in zip(seen, same, strict=True) if not is_same}
    others |= {name for name, place in odd.items() if id(modules.get(name)) != place}
    known = (seen.keys() | odd.keys()) - others
    if others:  # what they held may be gone, and others may lie where it lay
        _entered.clear()
        for name in others - modules.keys():
            seen.pop(name, None)
            odd.pop(name, None)
    return [name for name in modules if name not in known]


def note(names: Iterable[str]) -> dict[str, list[Any]]:
    """Note what modules hold, and return it by module. Thousands of functions and classes are passed over in C."""
    met = {name: _mark_seen(name) for name in names}
    attributes = {name: module_dict(module) for name, module in met.items() if module is not None}
    for name, held in attributes.items():
        _containers.setdefault(id(held), 0)
        _add(id(held), name, "__dict__")
    containers = _note_attributes(attributes)
    for module, name in containers:  # counted now that nothing here holds it
        held = attributes[module]
        _containers[id(held.get(name))] = sys.getrefcount(held.get(name))
    return {name: list(map(held.get, _names[name])) for name, held in attributes.items()}


def _mark_seen(name: str) -> types.ModuleType | None:
    """The module of this name, which counts as looked at from now on; None where nothing of it is noted."""
    module = sys.modules.get(name)
    _seen.modules.pop(name, None)
    _seen.odd.pop(name, None)
    if type(module) is types.ModuleType:
        _seen.modules[name] = weakref.ref(module)
    else:
        _seen.odd[name] = id(module)
    if name == "builtins" and module is not None:
        _containers.setdefault(id(module_dict(module)), 0)
        _add(id(module_dict(module)), name, "__dict__")
    if name.partition(".")[0] in _EXCLUDED or not is_module(module):
        return None
    if not is_library(name):
        _sources[name] = module_dict(module).get("__spec__"), _digest_source(name)
    return module


def is_module(value: object) -> bool:
    return type(value) is types.ModuleType or derives_from(type(value), types.ModuleType)


def _note_attributes(attributes: dict[str, dict[str, object]]) -> list[tuple[str, str]]:
    """Note where objects stand in these modules; returns where lists, dicts and sets do."""
    copies = [attributes_copy.copy() for attributes_copy in attributes.values()]  # another thread may import
    owners = chain.from_iterable(map(repeat, attributes, map(len, copies)))
    values = list(chain.from_iterable(held.values() for held in copies))
    noted: dict[str, list[str]] = {name: [] for name in attributes}
    containers: list[tuple[str, str]] = []
    for module, name, value in compress(
        zip(owners, chain.from_iterable(copies), values, strict=True), _are_noted(values)
    ):
        if name not in _OF_EVERY_MODULE:
            _add(id(value), module, name)
            noted[module].append(name)
            if id(type(value)) in _CONTAINERS:
                containers.append((module, name))
    _names.update((module, tuple(names)) for module, names in noted.items())
    return containers


def _add(item: int, module: str, name: str) -> None:
    place = module, name
    places = MODULE_OBJECTS.setdefault(item, [place])
    if place not in places:
        places.append(place)


def _are_noted(values: Collection[object]) -> list[bool | None]:
    """Of each value whether it is noted."""
    counts = list(map(_COUNTS.get, ids_of(map(type, values))))
    if None in counts:
        unknown = map(type, compress(values, map(is_, counts, repeat(None))))
        counted = list(map(_counts, unknown))
        for place, count in zip([place for place, count in enumerate(counts) if count is None], counted, strict=True):
            counts[place] = count
    return counts


def _counts(kind: type) -> bool:
    """Whether objects of the type are noted."""
    known = _COUNTS.get(id(kind))
    if known is None:
        bases = set(map(id, bases_of(kind)))
        known = (
            bases.isdisjoint(_LEFT_OUT_BASES)
            and module_name(kind) not in _LEFT_OUT_MODULES
            and not _is_given_again(kind)
        )
        _COUNTS[id(kind)] = known
        leading = known and _has_attributes(kind) and "__code__" not in class_dict(kind)
        _HOLDING[id(kind)] = leading and not bases.isdisjoint(_WITH_ITEMS)
        _LEADING.setdefault(id(kind), leading and not _HOLDING[id(kind)])
        _kinds.append(kind)
    return known


def _is_given_again(kind: type) -> bool:
    """Whether sympy keeps one object for all equal ones: a module that is imported later may hold the object of a variable.

    `Dummy`, a subclass of `Symbol`, is an exception.
    """
    if module_name(kind).partition(".")[0] != "sympy":
        return False
    number: Any = find_loaded("sympy.core.numbers", "Number")
    symbol: Any = find_loaded("sympy.core.symbol", "Symbol")
    return kind is symbol or (number is not None and derives_from(kind, number))


def find(value: object, namespace: Mapping[str, object]) -> Reference | None:
    """The module and the name that hold this very object now; None where it is the person's own."""
    places = MODULE_OBJECTS.get(id(value))
    if places is None:
        return None
    known = _found.get(id(value))
    if known is not None and _is_held(known.module, known.name, value, namespace):
        return known
    valid_places = [place for place in places if _is_held(*place, value, namespace)]
    if len(valid_places) > 1:
        valid_places.sort(key=lambda place: _rank(place, value))
    found = next((found for place in valid_places if (found := _reference(place, value)) is not None), None)
    if found is not None:
        _found[id(value)] = found
    return found


def _is_held(module: str, name: str, value: object, namespace: Mapping[str, object]) -> bool:
    return holds(module, name, value) and module_dict(sys.modules[module]) is not namespace


def find_class(kind: type, namespace: Mapping[str, object]) -> Reference | None:
    """The module and the name that hold a library's class which was made at run time and does not know its name."""
    package = module_name(kind).partition(".")[0]
    known_class, known = _classes.get(id(kind), (None, None))
    if known_class is None or known_class() is not kind:
        places = (
            (module, name)
            for module in list(sys.modules)
            if module.partition(".")[0] == package and package not in _EXCLUDED
            for name, value in list(module_dict(sys.modules[module]).items())
            if value is kind and is_module(sys.modules[module])
        )
        ordered = sorted(places, key=lambda place: _rank(place, kind))
        known = next((Reference(*place) for place in ordered if is_library(place[0])), None)
        _classes[id(kind)] = weakref.ref(kind), known
    return known if known is not None and _is_held(known.module, known.name, kind, namespace) else None


_sources: dict[str, tuple[object, str]] = {}


def source_digest(module: str) -> str:
    """What the source of a module of the person's own was when the module was first looked at, or reloaded since."""
    look()
    found = _sources.get(module)
    if found is not None and is_module(sys.modules.get(module)):
        if (
            module_dict(sys.modules[module]).get("__spec__") is not found[0]
        ):  # it is another one for each time it is run
            with uncollected():
                _note_inner(note([module]))
        found = _sources.get(module)
    return found[1] if found is not None else ""


# -- code of the person's own modules, and what a cell puts in its place

_own_code: dict[
    str, dict[str, object]
] = {}  # by module and qualified name: it may be put back, when nothing else has it


def is_code_of_notebook(value: Any) -> bool:
    """Whether it is a function or class that a cell made, or what makes a method or property of one."""
    kind = type(value)
    if issubclass(kind, type):
        return module_name(value) == "__main__"
    function = value.fget if kind is property else value.__func__ if kind in (staticmethod, classmethod) else value
    return type(function) is types.FunctionType and function.__globals__.get("__name__") == "__main__"


def note_own_code(module: types.ModuleType, classes: Iterable[type]) -> None:
    """Remember what a module itself has under these names, and its classes have, before a cell puts something else there."""
    known = _own_code.setdefault(module.__name__, {})
    for name, value in module_dict(module).copy().items():
        if isinstance(value, (types.FunctionType, type)) and not is_code_of_notebook(value):
            known[name] = value
    for kind in classes:
        for name, value in class_dict(kind).items():
            if type(value) in _METHODS and not is_code_of_notebook(value):
                known[f"{qualified_name(kind)}.{name}"] = value


_METHODS = (types.FunctionType, staticmethod, classmethod, property)


def find_own_code(module: str, name: str) -> object | None:
    """What the module itself had under this qualified name; None where that is not known."""
    return _own_code.get(module, {}).get(name)


def _digest_source(module: str) -> str:
    try:
        with open(_file_of(module) or "", "rb") as file:  # noqa: PTH123 - a name that may be none
            return xxh3_128_hexdigest(file.read())
    except OSError:
        return ""


def holds(module: str, name: str, value: object) -> bool:
    """Whether a module holds this very object under the name."""
    return _find_object(module, name) is value


_TEXT = rb"\x8c.([\w.]+)\x94"
_START = rb"\x80\x05\x95.{8}"
_RESTORE = rb"\x8c\x20agent_kernel\.values\.restore\.code\x94"
_NAME_STREAM = re.compile(
    _START + rb"(?:" + _TEXT + _TEXT + rb"\x93\x94\."
    rb"|" + _RESTORE + rb"\x8c.by_name\x94\x93\x94" + _TEXT + _TEXT + rb"\x86\x94R\x94\."
    rb"|" + _RESTORE + rb"\x8c.module\x94\x93\x94" + _TEXT + rb"\x85\x94R\x94\.)",
    re.DOTALL,
)


def name_in(stream: bytes) -> tuple[str, str]:
    """The module and the name that are all there is of a stream; no name: the module itself. ("", ""): there is more."""
    found = _NAME_STREAM.fullmatch(stream)
    if found is None:
        return "", ""
    module, name = [part.decode() for part in found.groups() if part is not None] + [""] * (found.lastindex == 5)
    return module, name


def is_named(module: str, name: str, value: object) -> bool:
    """Whether a value that was saved as this name is what stands there now: then it is saved as the same name again."""
    return bool(module) and (holds(module, name, value) if name else sys.modules.get(module) is value)


def _find_object(module: str, name: str) -> object:
    holder = sys.modules.get(module)
    if not is_module(holder):
        return None
    attributes = module_dict(holder)
    if name == "__dict__":
        return attributes
    first, *below = name.split(".")
    found = attributes.get(first)
    for part in below:
        found = _attribute(found, part)
    return found


def _rank(place: tuple[str, str], value: object) -> tuple[bool, int, int, str, str]:
    """The type's own package first, then public names, then short ones."""
    module, name = place
    parts = [*module.split("."), name]
    private = sum(part.startswith("_") for part in parts)
    return not _is_kin(module, value), private, len(parts), module, name


def _is_kin(module: str, value: object) -> bool:
    return _package(module_name(type(value))) == _package(module)


@lru_cache(maxsize=1024)
def _package(module: str) -> str:
    package = module.partition(".")[0]
    return "" if package in sys.stdlib_module_names else package.lstrip("_")


def _reference(place: tuple[str, str], value: object) -> Reference | None:
    """The place, if what stands there is the module's own and can be found there again."""
    module, name = place
    if module == "sys" and name in _SET_BY_RUNNING:
        return None
    if is_library(module):
        return Reference(module, name) if _is_made_by_library(module, name, value) else None
    return Reference(module, name, is_own=True) if is_importable(module) and can_be_set(value) else None


def is_library(module: str) -> bool:
    """Whether a module belongs to the interpreter or to an installed package: the notebook never, whatever file started it."""
    if module.partition(".")[0] == "__main__":
        return False
    for name in (module, module.partition(".")[0]):
        place = _file_of(name)
        if place is not None:
            return place == "" or place.startswith(_LIBRARY) or "site-packages" in place or "dist-packages" in place
    return False


def is_own(module: str) -> bool:
    """Whether a module is the person's own, and another process could import it."""
    return module.partition(".")[0] not in _EXCLUDED and not is_library(module) and is_importable(module)


_LIBRARY = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - to compare with module files as they are spelled


def _file_of(module: str) -> str | None:
    """The file of a module; "" for what is built into the interpreter, None where nothing says."""
    attributes = module_dict(sys.modules[module]) if module in sys.modules else {}
    place = attributes.get("__file__")
    if isinstance(place, str):
        return place
    origin = getattr(attributes.get("__spec__"), "origin", None)
    return "" if origin in ("built-in", "frozen") else None


def comes_from_outside(module: str) -> bool:
    """Whether something imported a module, or the package that it belongs to; one that was made by hand has no file."""
    names = (module, module.partition(".")[0])
    attributes = [module_dict(sys.modules[name]) for name in names if is_module(sys.modules.get(name))]
    return any(found.get("__spec__") is not None or found.get("__file__") is not None for found in attributes)


def is_importable(module: str) -> bool:
    """Whether another process could import the module: one that was made by hand has no file."""
    return bool(_file_of(module)) and getattr(module_dict(sys.modules[module]).get("__spec__"), "name", "") == module


def can_be_set(value: object) -> bool:
    """Whether the content of an object can be replaced by another one's."""
    from agent_kernel.values.reducers import can_be_pinned

    is_code = type(value) is types.FunctionType or type(value) is types.CellType
    return is_plain_instance(value) or (can_be_pinned(value) and not is_code)


def is_plain_instance(value: object) -> bool:
    """Whether all that an object holds are its attributes; so are lists, dicts and sets."""
    kind = type(value)
    if id(kind) in _CONTAINERS:
        return True
    return (
        kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and not any(base.__module__ == "builtins" and base is not object for base in bases_of(kind))
        and bool(kind.__dictoffset__)
        and not hasattr(kind, "__setstate__")
        and not _has_slots(kind)
    )


def _has_slots(kind: type) -> bool:
    return any("__slots__" in vars(base) and vars(base)["__slots__"] for base in bases_of(kind))


def _is_made_by_library(module: str, name: str, value: object) -> bool:
    """Whether the library itself put the object there, and not a cell that ran before it was looked at."""
    data = any(derives_from(type(value), kind) for place in _DATA if (kind := find_loaded(*place)) is not None)
    if _is_kin(module, value) and not data and id(type(value)) not in _CONTAINERS:
        return True
    names = _names_in(module)
    return name == "__dict__" or names is None or name in names


def find_function(function: types.FunctionType, known: dict[tuple[object, ...], Any]) -> Reference | None:
    """Where its library holds a function that is not found under its own name, as `torch.nn.functional.max_pool2d`.

    Args:
        known: which functions modules hold, by their ids, as far as that was looked up in this dump.
    """
    places: tuple[Any, ...] = (function.__module__, function.__globals__.get("__name__"))
    for module in places:
        held: Any = sys.modules.get(module) if type(module) is str and is_library(module) else None
        if not issubclass(type(held), types.ModuleType):
            continue
        attributes = module_dict(held)
        key = "functions of", module
        if key not in known:
            some = [(name, value) for name, value in list(attributes.items()) if type(value) is types.FunctionType]
            known[key] = {id(value): name for name, value in reversed(some)}  # of several names the first
        name = known[key].get(id(function))
        if name is None or attributes.get(name) is not function:
            continue
        names = _names_in(module)
        if names is None or name in names:  # else a cell may have put it there
            return Reference(module, name)
    return _find_wrapped(function)


# By the id of a type that wraps a function: the names under which it holds the function.
_WRAPPED = {
    id(classmethod): ("__func__",),
    id(property): ("fget", "fset", "fdel"),
    id(functools.cached_property): ("func",),
    id(types.FunctionType): ("__wrapped__",),
    id(type(lru_cache(len))): ("__wrapped__",),
}


def _find_wrapped(function: types.FunctionType) -> Reference | None:
    """Where a library holds a function in what wraps it, as `typing.Generic.__class_getitem__.__func__`."""
    module, path = function.__module__, function.__qualname__.split(".")
    found: Any = sys.modules.get(module) if type(module) is str and is_library(module) else None
    if not issubclass(type(found), types.ModuleType):
        return None
    names = _names_in(module)
    if names is not None and not names.issuperset(path):  # a function within another, or put there by a cell
        return None
    for part in path:
        if part != path[0] and not isinstance(found, type):
            return None
        found = (class_dict(found) if isinstance(found, type) else module_dict(found)).get(part)
    for name in _WRAPPED.get(id(type(found)), ()):
        if getattr(found, name, None) is function:
            return Reference(module, ".".join((*path, name)))
    return None


_code_names: dict[str, frozenset[str] | None] = {}


def _names_in(module: str) -> frozenset[str] | None:
    """The names that the code of a module uses; None where it is not written in Python."""
    if module not in _code_names:
        _code_names[module] = _read_names(module)
    return _code_names[module]


def _read_names(module: str) -> frozenset[str] | None:
    loader: Any = getattr(module_dict(sys.modules[module]).get("__spec__"), "loader", None)
    read = getattr(loader, "get_code", None)
    try:
        code = read(module) if read is not None else None
    except (ImportError, OSError, SyntaxError, EOFError):
        return frozenset()
    return None if code is None else frozenset(names_used(code))


# -- exact containers, of which the pickler is not asked


class Named(msgspec.Struct, frozen=True):
    """A list, dict or set that a module holds, and where."""

    value: Any
    reference: Reference


def pin(value: object, token: str) -> Named:
    """What is saved of an object of which something that stays alive has hold: its token, and what goes back into it."""
    return Named(value, Reference("", token, is_own=True))


def is_exact_container(value: object) -> bool:
    """Whether the pickler is not asked of an object, which can change."""
    return id(type(value)) in _EXACT_CONTAINERS


_EXACT_CONTAINERS = _CONTAINERS | {id(bytearray)}


class Content(msgspec.Struct, frozen=True):
    """What goes back into such a container."""

    value: Any
    items: Any


_NAMESPACE = Reference("__main__", "__dict__")


def containers_among(ids: AbstractSet[int], namespace: dict[str, object]) -> dict[int, Named]:
    """Those of the ids that are lists, dicts and sets which modules hold, or the notebook's namespace."""
    found: dict[int, Named] = {}
    if id(namespace) in ids:
        found[id(namespace)] = Named(namespace, _NAMESPACE)
    for item in sorted(_containers.keys() & ids):
        for module, name in MODULE_OBJECTS[item]:
            value = _find_object(module, name)
            if id(value) == item:
                reference = find(value, namespace)
                if reference is not None:
                    found[item] = Named(value, reference)
                break
    for item in sorted(_inner.keys() & ids):
        reached = _reach(item, namespace) if item not in found else None
        if reached is not None:
            found[item] = reached
    return found


def count_holders(package: str) -> dict[int, int]:
    """How many objects hold each of a package's lists, dicts and sets, by id."""
    return {item: _count_holders(item) for item in _containers_of(package)}


def find_newly_held(counts: Mapping[int, int]) -> set[int]:
    """The ids of those that more objects hold than was noted.

    That is a guess at which of them a new object of the package holds, for anything may hold them.
    """
    return {item for item, count in counts.items() if count > _containers.get(item, count)}


def note_holders(counts: Mapping[int, int]) -> dict[int, int]:
    """Note what holds them, now that the package's new objects are known; returns what came, by id."""
    more = {item: counts[item] - _containers[item] for item in find_newly_held(counts)}
    _containers.update((item, count) for item, count in counts.items() if item in _containers)
    return more


def discount_holders(gone: Mapping[int, int]) -> None:
    """What held these so often has died since they were counted."""
    for item, count in gone.items():
        if item in _containers:
            _containers[item] -= count


def _containers_of(package: str) -> list[int]:
    return _list_containers(package, len(_containers))


@lru_cache(maxsize=1)
def _list_containers(package: str, _: int) -> list[int]:
    """Kept for as long as there are so many of them."""
    places = ((item, *MODULE_OBJECTS[item][0]) for item in _containers)
    return [item for item, module, name in places if name != "__dict__" and module.partition(".")[0] == package]


def _count_holders(item: int) -> int:
    return sys.getrefcount(_find_object(*MODULE_OBJECTS[item][0]))


def is_of_module(value: object, namespace: Mapping[str, object]) -> bool:
    """Whether a module holds this very object under a name: not one that lies where such a one died."""
    return id(value) in MODULE_OBJECTS and find(value, namespace) is not None


def may_be_container(value: object, namespace: dict[str, object]) -> bool:
    """Whether a list, dict or set may be a module's, or is the notebook's namespace."""
    return id(value) in _containers or value is namespace or id(value) in _inner


def is_container_of_module(value: object, namespace: dict[str, object]) -> bool:
    """Whether a list, dict or set is a module's, or is the notebook's namespace: not one that lies where such a one died."""
    return may_be_container(value, namespace) and bool(containers_among({id(value)}, namespace))


# -- lists, dicts and sets below what libraries hold

_SHORTEST_KEY = 4
_HOPS = 2  # attributes and items from what a module holds, or a class of it


class _Batch(msgspec.Struct):
    """Modules that were looked at together. `above`: by the id of a container, which of them lead to it, once asked."""

    modules: tuple[str, ...]
    above: dict[int, list[str]] | None = None


_inner: dict[int, _Batch] = {}  # by id: with which modules it was met
_ways: dict[int, Reference] = {}
_names: dict[str, tuple[str, ...]] = {}  # of each module, those under which objects were noted
# What belongs to the session, or to whoever uses the library, hangs on some of these. Of the others nobody asks for a
# part: they serve the front end and this package.
_NOT_ENTERED = frozenset(
    {
        *(
            "IPython",
            "ipykernel",
            "traitlets",
            "ipywidgets",
            "anywidget",
            "comm",
            "jupyter_client",
            "jupyter_core",
            "zmq",
        ),
        *(
            "jupyter_server",
            "tornado",
            "debugpy",
            "nbformat",
            "prompt_toolkit",
            "jedi",
            "parso",
            "pygments",
            "stack_data",
        ),
        *("executing", "asttokens", "pure_eval", "decorator", "wcwidth", "pexpect", "ptyprocess", "matplotlib_inline"),
        *(
            "psutil",
            "platformdirs",
            "packaging",
            "six",
            "lmdb",
            "msgspec",
            "pydantic",
            "pydantic_core",
            "rich",
            "blake3",
        ),
        *("xxhash", "zstandard", "cloudpickle", "pytest", "_pytest", "pluggy", "hypothesis", "unittest", "concurrent"),
        *("multiprocessing", "gc", "sympy", "mpmath"),
    }
)


def _note_inner(noted: dict[str, list[Any]]) -> None:
    """Note the containers below what these modules hold, of all of them in one walk: it takes a microsecond each."""
    libraries = [name for name in noted if noted[name] and name.partition(".")[0] not in _NOT_ENTERED]
    libraries = [name for name in libraries if is_library(name)]
    values: list[Any] = []
    for module in libraries:
        values += noted[module]
        for name in _BELOW.get(module, ()):
            values.append(_find_object(module, name))
            _add(id(values[-1]), module, name)
    inner = _walk(values, _fresh)
    containers = ids_of(compress(inner, map(_CONTAINERS.__contains__, ids_of(map(type, inner)))))
    inside = set(containers)
    inside.difference_update([item for item in MODULE_OBJECTS.keys() & inside if _is_under_name(item)])
    # What was met before is there still, or is another that lies in the place of one: then these modules lead to it.
    earlier = {id(_inner[item]): _inner[item] for item in inside & _inner.keys()}
    joined = {key: _Batch(tuple(dict.fromkeys((*batch.modules, *libraries)))) for key, batch in earlier.items()}
    _inner.update((item, joined[id(_inner[item])]) for item in inside & _inner.keys())
    _inner.update(dict.fromkeys(inside - _inner.keys(), _Batch(tuple(libraries))))


def _is_under_name(item: int) -> bool:
    """Whether a module holds what has this id under a name still."""
    return any(id(_find_object(*place)) == item for place in MODULE_OBJECTS[item])


def _walk(values: list[Any], counting: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """What lies so many hops below these, of each level what counts. It is all done in C."""
    inner: list[Any] = []
    level = counting(values)
    for _ in range(_HOPS):
        level = counting(_below(level))
        attached = _below([item for item in level if type(item) is dict])  # of an object, perhaps
        inner += level
        level += counting(attached)
        inner += level
    return inner


def _below(level: list[Any]) -> list[Any]:
    """What these lead to by a name or a key; of a very long dict nothing, for that is data."""
    kinds = list(ids_of(map(type, level)))
    leading = compress(level, map(_LEADING.get, kinds))
    # Such as `rcParams`, whose items are settings that a person makes.
    holding = compress(level, map(_HOLDING.get, kinds))
    attributes = [object.__getattribute__(item, "__dict__") for item in holding]
    return gc.get_referents(*attributes, *[item for item in leading if type(item) is not dict or len(item) <= _LONGEST])


_LONGEST = 2_000
_entered: set[int] = set()  # ids of what was met once


def _once(found: list[Any]) -> list[Any]:
    """Those that may be a library's own, each once."""
    counting = list(compress(found, _are_noted(found)))
    return list(dict(zip(ids_of(counting), counting, strict=True)).values())


def _fresh(found: list[Any]) -> list[Any]:
    """Those of them that were not met before."""
    fresh = {id(item): item for item in _once(found)}
    for item in _entered.intersection(fresh):
        del fresh[item]
    _entered.update(fresh)
    return list(fresh.values())


_OF_LOGGERS = _Batch(("logging",))


def _note_loggers() -> None:
    """Loggers are saved as their names, so the lists of what handles and filters their records stand below those.

    Each is looked at once, when it is new: a list that a person puts in the place of such a one is the person's.
    """
    if len(logging.root.manager.loggerDict) == _seen.loggers:
        return
    _seen.loggers = len(logging.root.manager.loggerDict)
    for logger in [logger for logger in _loggers() if logger.name not in _seen.names_of_loggers]:
        _seen.names_of_loggers.add(logger.name)
        for name in ("handlers", "filters"):
            _inner.setdefault(id(_attribute(logger, name)), _OF_LOGGERS)


def _loggers() -> list[Any]:
    return [
        logging.root,
        *(found for found in list(logging.root.manager.loggerDict.values()) if hasattr(found, "name")),
    ]


def _reach(item: int, namespace: Mapping[str, object]) -> Named | None:
    """The container of this id, and the way to it; None, and never again, where it is not a library's by now."""
    known = _ways.get(item)
    value = _follow(known) if known is not None else None
    if known is not None and id(value) == item:
        return Named(value, known)
    _ways.pop(item, None)
    holders: dict[tuple[int, int], bool] = {}
    ways = (_find_way(item, module, holders) for module in _modules_above(item))
    found = next((found for found in ways if found is not None), None)
    if found is None or found.value is namespace:
        del _inner[item]
        return None
    _ways[item] = found.reference
    return found


def _modules_above(item: int) -> list[str]:
    """The modules that may lead to a container, found for all that were noted with it at once."""
    batch = _inner[item]
    if batch.above is None:
        batch.above = {}
        for module in batch.modules:
            for other in set(ids_of(_walk(_find_noted((module,)), _once))) & _inner.keys():
                batch.above.setdefault(other, []).append(module)
    found = batch.above.get(item, [])
    return [*found, "logging"] if "logging" in batch.modules and "logging" not in found else found


def _find_noted(modules: Iterable[str]) -> list[Any]:
    """The objects under the names that were noted of these modules, and those that are always below."""
    found: list[Any] = []
    for module in modules:
        if is_module(sys.modules.get(module)):
            found += map(module_dict(sys.modules[module]).get, _names.get(module, ()))
            found += (_find_object(module, name) for name in _BELOW.get(module, ()))
    return found


def _find_way(item: int, module: str, holders: dict[tuple[int, int], bool]) -> Named | None:
    for logger in _loggers() if module == "logging" else ():
        for name in ("handlers", "filters"):
            value = _attribute(logger, name)
            if id(value) == item:
                steps = (("call", str(logger.name)), ("attribute", name))
                return Named(value, Reference("logging", "getLogger", steps=steps))
    if not is_module(sys.modules.get(module)):
        return None
    names = (*_names.get(module, ()), *_BELOW.get(module, ()))
    level: list[tuple[object, Reference]] = [
        (value, Reference(module, name))
        for name, value in zip(names, _find_noted((module,)), strict=True)
        if _counts(type(value)) and _leads_to(value, item, _HOPS, holders)
    ]
    for _ in range(_HOPS):
        deeper: list[tuple[object, Reference]] = []
        for owner, reference in level:
            for step, value in _parts(owner):
                way = Reference(module, reference.name, steps=(*reference.steps, step))
                if id(value) == item and all(_is_in_code(module, *one) for one in way.steps):
                    return Named(value, way)
                if _counts(type(value)):
                    deeper.append((value, way))
        level = deeper
    return None


def _leads_to(owner: object, item: int, hops: int, known: dict[tuple[int, int], bool]) -> bool:
    """Whether the item is so many hops below: hundreds of modules hold the same objects, each of which is asked once."""
    key = id(owner), hops
    if key not in known:
        below = [value for _, value in _parts(owner)]
        known[key] = item in ids_of(below) or (
            hops > 1 and any(_counts(type(value)) and _leads_to(value, item, hops - 1, known) for value in below)
        )
    return known[key]


def _parts(owner: object) -> list[tuple[tuple[str, str], object]]:
    """The attributes of an object, and the items of a dict, found without running code of its class."""
    found: list[tuple[tuple[str, str], object]] = []
    if type(owner) is dict:  # others are settings, whose lists are whoever set them
        items: list[tuple[Any, Any]] = list(owner.items())
        found += [(("item", key), value) for key, value in items if type(key) is str and type(value) is dict]
    return found + [(("attribute", name), value) for name, value in _attributes(owner).items()]


def _has_attributes(kind: type) -> bool:
    """Whether its objects have a `__dict__`: without one, nothing is below them that has a name."""
    return bool(kind.__dictoffset__)


def _attributes(owner: object) -> dict[str, object]:
    if not _has_attributes(type(owner)):
        return {}
    return dict(object.__getattribute__(owner, "__dict__"))


def _attribute(owner: object, name: str) -> object:
    attributes = _attributes(owner)
    if name in attributes:
        return attributes[name]
    for base in bases_of(type(owner)):
        found = class_dict(base).get(name)
        if type(found) is types.GetSetDescriptorType or type(found) is types.MemberDescriptorType:
            return found.__get__(owner)
        if found is not None:
            return found
    return None


def _follow(reference: Reference) -> object:
    found: Any = _find_object(reference.module, reference.name)
    for how, name in reference.steps:
        if how == "call":
            found = next((logger for logger in _loggers() if logger.name == name), None)
        elif how == "item":
            found = found.get(name) if type(found) is dict else None
        else:
            found = _attribute(found, name)
    return found


@cache
def _is_in_code(module: str, how: str, name: str) -> bool:
    """Whether a file of the module's package has this as a name or a text of its own: then no cell made it up."""
    if how == "item" and len(name) < _SHORTEST_KEY:  # which anyone may think of
        return False
    package = module.partition(".")[0]
    if not name.isascii() or len(name) >= 256:
        return False
    spelled, mark = name.encode(), bytes((len(name),)) + name.encode()
    modules = [
        other
        for other in sorted(sys.modules, key=lambda other: (other != module, other))
        if other.partition(".")[0] == package
    ]
    later: list[str] = []
    # First those that spell it in their source: to read the code of a whole package takes up to half a second.
    for other in modules:
        if spelled not in _read_source(other):
            later.append(other)
        elif mark in _read_compiled(other):
            return True
    return any(mark in _read_compiled(other) for other in later)


def _read_source(module: str) -> bytes:
    file = _file_of(module) or ""
    try:
        with open(file if file.endswith(".py") else "", "rb") as source:  # noqa: PTH123 - a name that may be none
            return source.read()
    except OSError:
        return b""


@lru_cache(maxsize=64)
def _read_compiled(module: str) -> bytes:
    """The compiled file of a module: each of its names and short texts stands there behind its length."""
    loader: Any = getattr(module_dict(sys.modules[module]).get("__spec__"), "loader", None)
    read = getattr(loader, "get_code", None)
    try:
        code = read(module) if read is not None else None
    except (ImportError, OSError, SyntaxError, EOFError):
        return b""
    return b"" if code is None else marshal.dumps(code)


# -- which NaN a float is: dicts, sets, `in` and `is` find one by its identity alone, and nearly all of them are numpy's own
#
# The C pickler writes floats by itself and asks nobody. So a stream in which a NaN is found afterwards is written once more,
# and this time `persistent_id` says of a NaN where it comes from: `"numpy.nan"` is the one that stands under that name of a
# module, `"#3:7ff8000000000000"` the fourth of those that the stream holds several times, with its bits. Every other NaN is
# written as it always was, and so is all that holds none: that costs one search through the stream.

_NAN: Final = re.compile(rb"G[\x7f\xff][\xf8-\xff]")
# First those that every process finds, whatever else imports them.
KNOWN_NANS: Final = (("math", "nan"), ("numpy", "nan"), ("cmath", "nan"))
NUMPYS_NAN: Final = "numpy.nan"
_NO_NANS_OF: Final = frozenset({"__main__", "__mp_main__", "agent_kernel"})

Place = tuple[str, str]  # a module, and the name under which it holds the object


def may_hold_nan(stream: bytes) -> bool:
    """Whether there may be a NaN in a stream of pickle."""
    return _NAN.search(stream) is not None


def is_nan(value: object) -> bool:
    return type(value) is float and value != value


def find_known_nan(value: object) -> Place | None:
    """Where a NaN stands in the modules that every process has."""
    return next((place for place in KNOWN_NANS if holds(*place, value)), None)


def known_nan_ids() -> frozenset[int]:
    """The ids of the NaNs that stand in those modules now."""
    return frozenset(id(value) for value in (_find_object(*place) for place in KNOWN_NANS) if is_nan(value))


class NanMarker:
    """Says of the NaNs of one stream which they are.

    `unnamed` are those that no module holds, as often as they were met; `shared` those that have a number.
    """

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self.unnamed: list[float] = []
        self.shared: list[float] = []
        self._namespace = namespace
        self._marks: dict[int, str] = {}
        self._met: list[float] = []  # alive, so that no other object comes to have the id of one

    def mark(self, obj: object, /) -> str | None:
        """What pickle is to write for an object; None: the object itself."""
        if type(obj) is not float or obj == obj:
            return None
        mark = self._marks.get(id(obj))
        if mark is None:
            if not self._met:
                _nan_scan.look()
            place = _find_nan_in_modules(obj, self._namespace)
            mark = self._marks[id(obj)] = ".".join(place) if place is not None else ""
            self._met.append(obj)
        if not mark:
            self.unnamed.append(obj)
        return mark or None

    def number_shared(self) -> bool:
        """Give those a number that were met several times, and say whether there are any: then the stream is written again."""
        times = Counter(ids_of(self.unnamed))
        self.shared = [found for found in self._met if times[id(found)] > 1]
        for number, found in enumerate(self.shared):
            self._marks[id(found)] = f"#{number}:{struct.pack('>d', found).hex()}"
        if self.shared:
            self.unnamed = []
        return bool(self.shared)

    @property
    def is_needed(self) -> bool:
        """Whether any of them was not written as it always was."""
        return any(self._marks.values())

    def list_held(self) -> list[float]:
        """Those that no module holds, and that something outside of the stream may hold too."""
        return [
            *self.shared,
            *_list_held_nans(self.unnamed, 4),
        ]  # what it was met in, both lists, and getrefcount's argument


def find_unmarked_nans(stream: bytes, saved: list[object]) -> list[float] | None:
    """Of a stream whose NaNs are each there once and in no module: those that something outside of it may hold too.

    Such are most of those that came of numbers, of a table or an array. None: it takes a marker to tell.

    Args:
        saved: what the pickler holds in its memo.
    """
    found = list_nans(gc.get_referents(*saved))
    _nan_scan.look()
    ids = set(ids_of(found))
    packed: list[Any] = of_types(saved, _BYTES_ID)  # what small arrays hold, for one
    looks_so = sum(len(_NAN.findall(part)) for part in packed)
    met = len(_NAN.findall(stream)) - looks_so
    if len(ids) < len(found) or len(found) < met or not ids.isdisjoint(_nan_scan.places):
        return None
    return _list_held_nans(found, 3)  # what it was met in, the list, and getrefcount's argument


_BYTES_ID: Final = frozenset((id(bytes),))


def list_nans(values: list[object]) -> list[float]:
    """The NaNs among these objects."""
    flatnonzero: Any = find_loaded("numpy", "flatnonzero")
    if flatnonzero is None:
        floats: list[Any] = list(compress(values, map(is_, map(type, values), repeat(float))))
    else:  # in half of the time
        import numpy as np

        kinds = np.frombuffer(addresses(list(map(type, values))), np.uintp)
        floats = list(map(values.__getitem__, flatnonzero(kinds == id(float)).tolist()))
    return list(compress(floats, map(ne, floats, floats)))


def _list_held_nans(found: list[float], explained: int) -> list[float]:
    counts = list(map(sys.getrefcount, found))  # not in one step: then that holds each, too
    return list(compress(found, map(lt, repeat(explained), counts)))


class _NanScan:
    """The NaNs of the modules that were looked at. Of a module of the person's own they are looked for each time."""

    def __init__(self) -> None:
        self.modules: dict[str, int] = {}
        self.own: set[str] = set()
        self.places: dict[int, list[Place]] = {}
        # The addresses of all names and modules at the last look, which each part of a long container asks for.
        self._seen = b""

    def look(self) -> None:
        modules = list(sys.modules.items())
        seen = addresses(chain.from_iterable(modules))
        names = modules if seen != self._seen else [(name, sys.modules.get(name)) for name in self.own]
        for name, module in names:
            if self.modules.get(name) == id(module) and name not in self.own:
                continue
            if name.partition(".")[0] in _NO_NANS_OF or not is_module(module):
                continue
            if not is_library(name):
                self.own.add(name)
            self.modules[name] = id(module)
            for attribute, value in list(module_dict(module).items()):
                if is_nan(value):
                    self._add(id(value), (name, attribute))
        self._seen = seen

    def _add(self, item: int, place: Place) -> None:
        places = self.places.setdefault(item, [])
        if place not in places:
            places.append(place)


_nan_scan = _NanScan()


def _find_nan_in_modules(value: float, namespace: Mapping[str, object]) -> Place | None:
    places = _nan_scan.places.get(id(value))
    if places is None:
        return None
    known = find_known_nan(value)
    if known is not None:
        return known
    held = [place for place in places if holds(*place, value) and _may_name(place, namespace)]
    return min(held, key=lambda place: (place[0].count("."), place), default=None)


def _may_name(place: Place, namespace: Mapping[str, object]) -> bool:
    module, name = place
    if module_dict(sys.modules[module]) is namespace or not name.isidentifier():
        return False
    return is_library(module) or is_importable(module)


def load_nan(mark: str, made: dict[str, float], find: Callable[[str, str], object]) -> float:
    """The NaN that a mark stands for.

    Args:
        made: those of the same stream that have a number.
        find: gives what a module holds under a name; None if the module has none.
    """
    if not mark.startswith("#"):
        module, _, name = mark.rpartition(".")
        found = find(module, name)
        # A module that is gone or has changed holds none that this could be compared with.
        return found if type(found) is float and found != found else made.setdefault(mark, float("nan"))
    if mark not in made:
        (made[mark],) = struct.unpack(">d", bytes.fromhex(mark.partition(":")[2]))
    return made[mark]
