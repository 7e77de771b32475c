"""What a module of the person's own holds besides functions and classes: its content is saved with a variable for it.

Only plain state is: numbers and texts, containers, arrays and tables of these, and instances of classes of such modules;
also what its classes and functions hold as attributes, and defaults that can change. Anything else may be a resource,
which the module makes when it is imported, and much of it would be saved with every change.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# A module holds anything.

from __future__ import annotations

import array
import collections
import contextlib
import datetime
import decimal
import enum
import fractions
import functools
import io
import pathlib
import random
import re
import types
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agent_kernel.values import references
from agent_kernel.values.summaries.reading import bases_of, class_dict, loaded, module_name

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler
    from agent_kernel.values.restore.code import Called

_VALUES = (
    *(int, float, complex, bool, str, bytes, type(None), range, decimal.Decimal, fractions.Fraction, uuid.UUID),
    *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, re.Pattern),
    *(pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
)
_ATOM_IDS = frozenset(map(id, _VALUES))
_SEQUENCE_IDS = frozenset(map(id, (list, set, tuple, frozenset, collections.deque)))
_DICT_IDS = frozenset(map(id, (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)))
_BUFFER_IDS = frozenset(map(id, (bytearray, array.array, io.StringIO, io.BytesIO, random.Random)))
_BYTES_OF_ONE = 10_000  # of an array or a table, which count as an object that is looked at
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, enum.Enum)
_Cache: Any = type(functools.cache(len))  # it has no public name

# By name, what a class or a function holds: all names, and the plain attributes; of a function also its defaults.
OfClasses = dict[str, tuple[tuple[str, ...], dict[str, object]]]
OfFunctions = dict[str, tuple[tuple[str, ...], dict[str, object], Any, Any]]
OfCaches = dict[str, "tuple[Called, ...]"]
Content = tuple[str, tuple[str, ...], dict[str, object], OfClasses, OfFunctions, OfCaches, bool]


def content_of(pickler: Pickler, module: types.ModuleType) -> Content | None:
    """What its source was, the names in it, and its plain state; None of a library's module.

    Also where there is no state: what comes later goes when that is checked out.
    """
    name = module.__name__
    if not _is_own(name):
        return None
    left = [pickler.left_in_modules]
    state, _ = plain_state(module, left)
    kinds: OfClasses = {name_of(kind): of_class(kind, left) for kind in classes_of(module)}
    kinds = {one: found for one, found in kinds.items() if found[0]}
    functions: OfFunctions = {one.__name__: of_function(one, left) for one in functions_of(module)}
    functions = {one: found for one, found in functions.items() if found[0]}
    caches: OfCaches = {one: entries for one, cached in caches_of(module) if (entries := _of_cache(cached, left))}
    pickler.left_in_modules = max(left[0], 0)
    pickler.kept += (state, kinds, functions, caches)
    held = (*state.values(), *kinds.values(), *functions.values(), *caches.values())
    pickler.dump_record.roots.append(held)
    names = tuple(sorted(vars(module)))
    return references.source_digest(name), names, state, kinds, functions, caches, left[0] > 0


def classes_of(module: types.ModuleType) -> list[type]:
    """The classes that were made in a module, without enumerations."""
    found = [one for one in vars(module).copy().values() if type(one) is not enum.EnumType and isinstance(one, type)]
    return [one for one in found if module_name(one) == module.__name__ and not issubclass(one, enum.Enum)]


def name_of(kind: type) -> str:
    """The name of a class, past what its metaclass would say."""
    name: str = type.__getattribute__(kind, "__qualname__")
    return name


def functions_of(module: types.ModuleType) -> list[types.FunctionType]:
    held = vars(module).copy().values()
    return [one for one in held if type(one) is types.FunctionType and one.__globals__ is vars(module)]


def caches_of(module: types.ModuleType) -> list[tuple[str, Any]]:
    """The functions of a module that keep results, by name."""
    return [(name, one) for name, one in vars(module).copy().items() if type(one) is _Cache]


def of_class(kind: type, left: list[int]) -> tuple[tuple[str, ...], dict[str, object]]:
    """The names of what a class holds besides methods, and what is plain of it."""
    held = {name: value for name, value in class_dict(kind).items() if name[:2] != "__" and not _is_described(value)}
    return tuple(sorted(held)), {name: value for name, value in sorted(held.items()) if _is_plain(value, left)}


def _is_described(value: object) -> bool:
    """Whether it says what the attribute is of an instance: a method, a property, a slot."""
    return isinstance(value, _BY_NAME) or any("__get__" in class_dict(base) for base in bases_of(type(value)))


def of_function(function: types.FunctionType, left: list[int]) -> tuple[tuple[str, ...], dict[str, object], Any, Any]:
    """The names of its attributes, what is plain of them, and defaults that can change; no names where there is nothing."""
    names = tuple(sorted(vars(function)))
    held = {name: vars(function)[name] for name in names if _is_plain(vars(function)[name], left)}
    defaults: Any = function.__defaults__ if _can_change(function.__defaults__, left) else None
    named: Any = function.__kwdefaults__ if _can_change(function.__kwdefaults__, left) else None
    is_bare = defaults is None and named is None
    return names or (() if is_bare else ("",)), held, defaults, named


def _can_change(found: Any, left: list[int]) -> bool:
    values = found.values() if type(found) is dict else found or ()
    return not _ATOM_IDS.issuperset(map(id, map(type, values))) and _is_plain(found, left)


def _of_cache(cached: Any, left: list[int]) -> tuple[Called, ...]:
    from agent_kernel.values.reducers.code import shared_entries

    entries = shared_entries(cached)
    return entries if entries and _is_plain(entries, left) else ()


def keeps_only_values(cached: Any) -> bool:
    """Whether none of the results that a function keeps can change."""
    from agent_kernel.values.reducers.code import results_of

    return _ATOM_IDS.issuperset(map(id, map(type, results_of(cached))))


def _is_own(name: str) -> bool:
    is_excluded = name.partition(".")[0] == "agent_kernel"
    return not is_excluded and not references.is_library(name) and references.is_importable(name)


def plain_state(module: types.ModuleType, left: list[int]) -> tuple[dict[str, object], list[int]]:
    """The plain state of a module, and its modules of the person's own, by name and in order.

    Args:
        left: how many objects may be looked at, which is counted down.
    """
    found: dict[str, object] = {}
    for name, value in sorted(vars(module).copy().items()):
        if name.startswith("__") or isinstance(value, _BY_NAME):
            if isinstance(value, types.ModuleType) and left[0] > 0 and _is_own(value.__name__):
                found[name] = value
        elif _is_plain(value, left):
            found[name] = value
    return found, left


def _is_plain(value: Any, left: list[int]) -> bool:
    """Whether there is nothing but plain state below a value; `left` is how many objects may be looked at."""
    waiting = [value]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if id(kind) in _ATOM_IDS or id(one) in seen:
            continue
        left[0] -= 1 + _size_of(one) // _BYTES_OF_ONE
        if left[0] < 0:
            return False
        seen.add(id(one))
        if id(kind) in _SEQUENCE_IDS or id(kind) in _DICT_IDS:
            if len(one) > left[0]:
                return False
            waiting += [*one, *one.values()] if id(kind) in _DICT_IDS else one
            waiting += [one.default_factory] if id(kind) == id(collections.defaultdict) else []
        elif isinstance(one, _BY_NAME) or _is_data(one):
            continue
        elif references.can_be_set(one) and not references.is_library(kind.__module__):
            waiting += _held_by(one)
        else:
            return False
    return True


def _is_data(one: Any) -> bool:
    """Whether it is a buffer, or an array or a table in which there are no objects of any type."""
    kind = id(type(one))
    if kind in _BUFFER_IDS:
        return True
    if kind == id(loaded("numpy", "ndarray")):
        return not one.dtype.hasobject
    if kind in (id(loaded("pandas", name)) for name in ("DataFrame", "Series", "Index", "RangeIndex")):
        return True
    generic: Any = loaded("numpy", "generic")
    return generic is not None and isinstance(one, generic)


def _size_of(one: Any) -> int:
    if id(type(one)) in _BUFFER_IDS or not _is_data(one):
        return 0
    found: Any = one.memory_usage() if hasattr(one, "memory_usage") else one.nbytes
    return int(found.sum()) if hasattr(found, "sum") else int(found)


def _held_by(one: Any) -> Iterable[object]:
    """What an instance holds: its attributes, and what is in its slots."""
    attributes: Any = object.__getattribute__(one, "__dict__") if type(one).__dictoffset__ else {}
    found: list[object] = list(attributes.values())
    for base in bases_of(type(one)):
        for slot in class_dict(base).values():
            if type(slot) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):  # it is empty
                    found.append(slot.__get__(one))
    return found
