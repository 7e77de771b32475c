"""Functions, classes, cells and methods: what a notebook defines goes by value, what a library defines by name.

Of a module of the person's own the content is saved with a variable for it.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import array
import builtins
import collections
import collections.abc
import contextlib
import datetime
import decimal
import enum
import fractions
import functools
import gc
import io
import logging
import pathlib
import pickle
import random
import re
import sys
import types
import typing
import uuid
import weakref
from collections.abc import Collection, Iterable
from functools import cache
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

from xxhash import xxh3_128_digest

from agent_kernel.values import aliases, atoms, references
from agent_kernel.values.definitions import ANY_NAME, LOOKUP_IDS, define, names_used
from agent_kernel.values.introspection import ATOM_IDS, bases_of, class_dict, find_loaded, module_name, referents
from agent_kernel.values.pickler import Later, is_dict_doubtful, is_dict_shared
from agent_kernel.values.reducers import OWN_HOLDS, Handler, is_importable, leaf
from agent_kernel.values.reducers.instances import find_added, reduce_logger
from agent_kernel.values.reducers.objects import can_be_made_bare
from agent_kernel.values.restore import code as restore
from agent_kernel.values.restore.classes import enum_member, enum_property, notebook_class
from agent_kernel.values.restore.code import Called, by_name
from agent_kernel.values.restore.objects import (
    answering_slots_state,
    attributes_state,
    class_attributes,
    dict_view,
    method_of,
    weak_method,
    weak_method_calling,
    weak_proxy,
    weak_proxy_calling,
    weak_reference,
    weak_reference_calling,
    weak_reference_of,
    weak_reference_of_calling,
)
from agent_kernel.values.surface import callback_of, find_death_callbacks, is_alone, is_library_callback

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler


# -- what a module of the person's own holds besides functions and classes: its content is saved with a variable for it
#
# Only plain state is: numbers and texts, containers, arrays and tables of these, and instances of classes of such modules;
# also what its classes and functions hold as attributes, and defaults that can change; and code of the notebook's that a cell
# put there, maybe in the place of the module's own. Anything else may be a resource,
# which the module makes when it is imported, and much of it would be saved with every change.

# A module holds anything.


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
    references.note_own_code(module, classes_of(module))
    budget = [pickler.module_budget]
    state, _ = plain_state(module, budget)
    kinds: OfClasses = {name_of(kind): of_class(kind, budget) for kind in classes_of(module)}
    kinds = {one: found for one, found in kinds.items() if found[0]}
    functions: OfFunctions = {one.__name__: of_function(one, budget) for one in functions_of(module)}
    functions = {one: found for one, found in functions.items() if found[0]}
    caches: OfCaches = {one: entries for one, cached in caches_of(module) if (entries := _of_cache(cached, budget))}
    pickler.module_budget = max(budget[0], 0)
    pickler.keepalive += (state, kinds, functions, caches)
    values = (*state.values(), *kinds.values(), *functions.values(), *caches.values())
    pickler.dump_record.roots.append(values)
    names = tuple(sorted(vars(module)))
    return references.source_digest(name), names, state, kinds, functions, caches, budget[0] > 0


def classes_of(module: types.ModuleType) -> list[type]:
    """The classes that were made in a module, without enumerations."""
    found = [one for one in vars(module).copy().values() if type(one) is not enum.EnumType and isinstance(one, type)]
    return [one for one in found if module_name(one) == module.__name__ and not issubclass(one, enum.Enum)]


def name_of(kind: type) -> str:
    """The name of a class, past what its metaclass would say."""
    name: str = type.__getattribute__(kind, "__qualname__")
    return name


def functions_of(module: types.ModuleType) -> list[types.FunctionType]:
    values = vars(module).copy().values()
    return [one for one in values if type(one) is types.FunctionType and one.__globals__ is vars(module)]


def caches_of(module: types.ModuleType) -> list[tuple[str, Any]]:
    """The functions of a module that keep results, by name."""
    return [(name, one) for name, one in vars(module).copy().items() if type(one) is _Cache]


def of_class(kind: type, budget: list[int]) -> tuple[tuple[str, ...], dict[str, object]]:
    """The names of what a class holds besides methods, and what is plain of it."""
    attributes = {
        name: value
        for name, value in class_dict(kind).items()
        if (name[:2] != "__" and not _is_described(value)) or references.is_code_of_notebook(value)
    }
    return tuple(sorted(attributes)), {
        name: value
        for name, value in sorted(attributes.items())
        if references.is_code_of_notebook(value) or _is_plain_state(value, budget)
    }


def _is_described(value: object) -> bool:
    """Whether it says what the attribute is of an instance: a method, a property, a slot."""
    return isinstance(value, _BY_NAME) or any("__get__" in class_dict(base) for base in bases_of(type(value)))


def of_function(function: types.FunctionType, budget: list[int]) -> tuple[tuple[str, ...], dict[str, object], Any, Any]:
    """The names of its attributes, what is plain of them, and defaults that can change; no names where there is nothing."""
    names = tuple(sorted(vars(function)))
    attributes = {name: vars(function)[name] for name in names if _is_plain_state(vars(function)[name], budget)}
    defaults: Any = function.__defaults__ if _can_change(function.__defaults__, budget) else None
    named: Any = function.__kwdefaults__ if _can_change(function.__kwdefaults__, budget) else None
    is_bare = defaults is None and named is None
    return names or (() if is_bare else ("",)), attributes, defaults, named


def _can_change(found: Any, budget: list[int]) -> bool:
    values = found.values() if type(found) is dict else found or ()
    return not _ATOM_IDS.issuperset(map(id, map(type, values))) and _is_plain_state(found, budget)


def _of_cache(cached: Any, budget: list[int]) -> tuple[Called, ...]:

    entries = find_shared_entries(cached)
    return entries if entries and _is_plain_state(entries, budget) else ()


def keeps_only_values(cached: Any) -> bool:
    """Whether none of the results that a function keeps can change."""
    return _ATOM_IDS.issuperset(map(id, map(type, results_of(cached))))


def _is_own(name: str) -> bool:
    is_excluded = name.partition(".")[0] == "agent_kernel"
    return not is_excluded and not references.is_library(name) and references.is_importable(name)


def plain_state(module: types.ModuleType, budget: list[int]) -> tuple[dict[str, object], list[int]]:
    """The plain state of a module, and its modules of the person's own, by name and in order.

    Args:
        left: how many objects may be looked at, which is counted down.
    """
    found: dict[str, object] = {}
    for name, value in sorted(vars(module).copy().items()):
        if name.startswith("__") or isinstance(value, _BY_NAME):
            is_module = isinstance(value, types.ModuleType) and budget[0] > 0 and _is_own(value.__name__)
            if is_module or references.is_code_of_notebook(value):
                found[name] = value
        elif _is_plain_state(value, budget):
            found[name] = value
    return found, budget


def _is_plain_state(value: Any, budget: list[int]) -> bool:
    """Whether there is nothing but plain state below a value; `left` is how many objects may be looked at."""
    waiting = [value]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if id(kind) in _ATOM_IDS or id(one) in seen:
            continue
        budget[0] -= 1 + _size_of(one) // _BYTES_OF_ONE
        if budget[0] < 0:
            return False
        seen.add(id(one))
        if id(kind) in _SEQUENCE_IDS or id(kind) in _DICT_IDS:
            if len(one) > budget[0]:
                return False
            waiting += [*one, *one.values()] if id(kind) in _DICT_IDS else one
            waiting += [one.default_factory] if id(kind) == id(collections.defaultdict) else []
        elif isinstance(one, _BY_NAME) or _is_data(one):
            continue
        elif references.can_be_set(one) and not references.is_library(kind.__module__):
            waiting += _values_of(one)
        else:
            return False
    return True


def _is_data(one: Any) -> bool:
    """Whether it is a buffer, or an array or a table in which there are no objects of any type."""
    kind = id(type(one))
    if kind in _BUFFER_IDS:
        return True
    if kind == id(find_loaded("numpy", "ndarray")):
        return not one.dtype.hasobject
    if kind in (id(find_loaded("pandas", name)) for name in ("DataFrame", "Series", "Index", "RangeIndex")):
        return True
    generic: Any = find_loaded("numpy", "generic")
    return generic is not None and isinstance(one, generic)


def _size_of(one: Any) -> int:
    if id(type(one)) in _BUFFER_IDS or not _is_data(one):
        return 0
    found: Any = one.memory_usage() if hasattr(one, "memory_usage") else one.nbytes
    return int(found.sum()) if hasattr(found, "sum") else int(found)


def _values_of(one: Any) -> Iterable[object]:
    """What an instance holds: its attributes, and what is in its slots."""
    attributes: Any = object.__getattribute__(one, "__dict__") if type(one).__dictoffset__ else {}
    found: list[object] = list(attributes.values())
    for base in bases_of(type(one)):
        for slot in class_dict(base).values():
            if type(slot) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):  # it is empty
                    found.append(slot.__get__(one))
    return found


# -- what a function with `functools.lru_cache` keeps: which calls, and which of their results others hold too

# What is cached is of any type.


_MOST_BELOW = 500  # objects of a result that are looked at; a larger one counts as shared
# Nobody sees whether one of these is another object. By id: hashing a type runs its metaclass.
_PLAIN_IDS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None), type(...), range)))
_CONTAINER_IDS = frozenset(map(id, (list, tuple, dict, set, frozenset)))


def find_shared_entries(cached: Any) -> tuple[Called, ...]:
    """The calls, the last used last, whose results something else holds too, or a part of them."""
    if type(cached.__wrapped__) is not types.FunctionType:
        return ()
    keys, results, mark = _entries(cached)
    shared = _are_shared(results, _of_result())
    typed: bool = cached.cache_parameters()["typed"]
    return tuple((*_arguments(keys[at], mark, typed), results[at]) for at in compress(range(len(keys)), shared))


def results_of(cached: Any) -> list[Any]:
    return _entries(cached)[1]


def is_librarys_parameters(found: Any) -> bool:
    """Whether this is what `functools` gives each function with a cache to tell how that was made."""
    return type(found) is types.FunctionType and found.__module__ == "functools"


class KnownCache(NamedTuple):
    """How a function keeps results; the calls of whose results something else holds; and the ids of what may come to be held."""

    parameters: tuple[tuple[str, Any], ...]
    shared: tuple[Called, ...]
    ids: tuple[int, ...]


def look_at_cache(cached: Any) -> KnownCache | None:
    """What is saved of a cache, and may be by and by; None where only a dump tells.

    Of a very large cache, as of any large value, only what something else holds counts.
    """
    parameters = cached.__dict__.get("cache_parameters")
    if not is_librarys_parameters(parameters):
        return None
    shared = find_shared_entries(cached)
    results = results_of(cached)
    ids: tuple[int, ...] = ()
    if len(results) <= aliases.LARGE:
        ids = tuple(id(result) for result in results if id(type(result)) not in _PLAIN_IDS)
        containers = [at for at, result in enumerate(results) if id(type(result)) in _CONTAINER_IDS]
        if len(containers) < len(ids) or _list_unclear(results, containers):
            return None
    return KnownCache(tuple(sorted(parameters().items())), shared, ids)


def results_count(cached: Any) -> int:
    """How many results a function keeps."""
    entries = _table_of(cached)
    return 0 if entries is None else len(entries)


def _table_of(cached: Any) -> dict[Any, Any] | None:
    """The dict of a cache without bounds, which only the collector tells."""
    below = gc.get_referents(cached)
    is_unbounded = len(below) > 1 and type(below[1]) is dict and below[1] is not cached.__dict__
    return below[1] if is_unbounded else None


def _entries(cached: Any) -> tuple[list[Any], list[Any], object]:
    """The keys, the results, and what stands in a key before arguments with names: only the collector tells."""
    below = gc.get_referents(cached)
    count = 0 if cached.cache_parameters()["maxsize"] is None else cached.cache_info().currsize
    after = below[1 + 3 * count :]  # of each call there is its key, its result, and a type
    if len(after) < 3 or type(after[0]) is not dict:
        return [], [], None
    if count:
        return below[1 : 1 + 3 * count : 3], below[2 : 1 + 3 * count : 3], after[2]
    return list(after[0]), list(after[0].values()), after[2]


def _arguments(key: Any, mark: object, typed: bool) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
    """What a call was given, from the key that Python makes of it: arguments, the mark, names and values, and types."""
    if type(key) is not tuple:
        return (key,), ()
    at = next((place for place, part in enumerate(key) if part is mark), -1)
    if at < 0:
        return key[: len(key) // 2] if typed else key, ()
    count = (len(key) - at - 1 - at) // 3 if typed else (len(key) - at - 1) // 2
    named = key[at + 1 : at + 1 + 2 * count]
    return key[:at], tuple(zip(named[::2], named[1::2], strict=True))


@cache
def _of_result() -> int:
    """How many references to a result there are while it is looked at, if nothing but the cache holds it."""
    cached = cache(lambda: [0])
    cached()
    results = _entries(cached)[1]
    return next(count for count in range(20) if _are_shared(results, count) == [False])


def _are_shared(results: list[Any], explained: int) -> list[bool]:
    """Whether anything but the cache holds each result, or anything but the result something below it.

    All results are looked at together as far as that goes: a cache has hundreds of thousands.
    """
    kinds = list(map(id, map(type, results)))
    if _PLAIN_IDS.issuperset(kinds):
        return [False] * len(kinds)
    counts = list(map(sys.getrefcount, results))
    shared = [count > explained and kind not in _PLAIN_IDS for count, kind in zip(counts, kinds, strict=True)]
    containers = [at for at, kind in enumerate(kinds) if kind in _CONTAINER_IDS and not shared[at]]
    unclear = _list_unclear(results, containers)
    for at in [at for at, kind in enumerate(kinds) if kind not in _CONTAINER_IDS and kind not in _PLAIN_IDS]:
        if _is_plain(results[at]):
            shared[at] = False
        elif not shared[at] and _is_entered(results[at]):
            unclear.append(at)
    for at in unclear:
        shared[at] = _is_shared_below(results[at])
    return shared


def _list_unclear(results: list[Any], containers: list[int]) -> list[int]:
    """Which of these results, all of them containers, are long or hold more than texts and numbers."""
    found = [results[at] for at in containers]
    is_short = max(map(len, found), default=0) < _MOST_BELOW // 2  # a dict has twice as many objects as keys
    if is_short and _PLAIN_IDS.issuperset(map(id, map(type, gc.get_referents(*found)))):
        return []
    return [
        at
        for at, one in zip(containers, found, strict=True)
        if len(one) >= _MOST_BELOW // 2 or not _PLAIN_IDS.issuperset(map(id, map(type, gc.get_referents(one))))
    ]


def _is_shared_below(result: Any) -> bool:
    seen = 1
    level = referents([result])
    while level:
        counts = list(map(sys.getrefcount, level))
        positions = [at for at, value in enumerate(level) if not _is_plain(value)]
        seen += len(level)
        if seen > _MOST_BELOW or any(counts[at] > _BELOW_IT for at in positions):
            return True
        level = referents([level[at] for at in positions if _is_entered(level[at])])
    return False


# What holds it, the level, and getrefcount's argument.
_BELOW_IT = 3


def _is_plain(value: object) -> bool:
    return id(type(value)) in _PLAIN_IDS or issubclass(type(value), _BY_NAME)


def _is_entered(value: object) -> bool:
    """Whether it is known what lies below: in a container, and in an object of a class of the notebook's."""
    kind = type(value)
    if id(kind) in _CONTAINER_IDS:
        return True
    return bool(kind.__dictoffset__) and all(base is object or base.__module__ == "__main__" for base in bases_of(kind))


# What is handled here is anyone's object, so its type has no parameters to know.


def reduce_function(pickler: Pickler, function: types.FunctionType) -> Any:
    home: Any = None
    if function.__globals__ is not pickler.namespace:
        if is_importable(function):
            return NotImplemented
        place = references.find_function(function, pickler.known_in_dump)
        if place is not None:
            return pickler.by_name(place)
        home = _home(pickler, function)
        if function.__module__ == "functools":
            _note_dispatch_cache(pickler, function)
    else:
        pickler.note_globals(function.__code__)
    pickler.dump_record.instances.append(function)
    definition, payload = define(function.__code__, pickler.namespace)
    pickler.dump_record.definitions[definition] = payload
    extra: Any = None
    if type(home) is _Globals:
        extra = _own_globals(function)
        # Functions that a script made share their globals with each other, and what these hold with the notebook.
        pickler.dump_record.opaque.append(function.__globals__)
        pickler.dump_record.roots.append(tuple(extra.values()))
    elif type(home) is dict:
        pickler.dump_record.roots.append(home)
    is_shared = is_dict_shared(pickler, function)
    attributes = function.__dict__
    if is_dict_doubtful(pickler, function):
        attributes = attributes.copy()
        pickler.keepalive.append(attributes)
    state: tuple[Any, ...] = (
        attributes,
        function.__kwdefaults__,
        function.__annotations__,
        function.__doc__,
        function.__module__,
        function.__qualname__,
        function.__defaults__,
        extra,
    )
    made = (definition, function.__name__, function.__closure__, home)
    setter = restore.function_own_dict if is_shared else restore.function_state
    if pickler.waiting is not None:
        attributes_held: tuple[Any, ...] = (function.__defaults__, function.__kwdefaults__, attributes)
        if is_easy(attributes_held):
            pickler.waiting.append(Later(setter, function, state))
        else:
            without: tuple[Any, ...] = ({}, None, *state[2:6], None, extra)
            values = restore.function_own_values if is_shared else restore.function_values
            pickler.waiting += [
                Later(restore.function_state, function, without),
                Later(values, function, attributes_held),
            ]
        return restore.function, made
    return restore.function, made, state, None, None, setter


def digest_of_function(
    function: types.FunctionType, namespace: dict[str, object], members: Collection[int] = (), holders: int = 0
) -> bytes:
    """Covers all that is saved of a plain function of the notebook's; empty for any other.

    A plain function has no closure, no attributes and no callback for its end. Its annotations are builtin types or what
    `typing` makes of them. Its defaults cannot change, or are long containers of what cannot.

    Args:
        members: ids of what the function is saved together with: as a default, which of them it is counts.
        holders: how many are known to hold its annotations besides.
    """
    attributes, defaults = function.__dict__, function.__defaults__
    if function.__globals__ is not namespace or function.__closure__ is not None or type(attributes) is not dict:
        return b""
    if getattr(function, "__type_params__", ()):  # from Python 3.12 on
        return b""
    # One that something else holds, too, may be saved with that, whatever is in it.
    if attributes or sys.getrefcount(attributes) > OWN_HOLDS + 1:
        return b""
    named = function.__kwdefaults__
    if named is not None and (type(named) is not dict or sys.getrefcount(named) > OWN_HOLDS + 1):
        return b""
    annotations = function.__annotations__
    spelled = _spell_annotations(annotations) if annotations else ()
    if annotations and (sys.getrefcount(annotations) > OWN_HOLDS + 1 + holders or spelled is None):
        return b""
    texts = function.__name__, function.__qualname__, function.__module__, function.__doc__
    if type(defaults) not in (tuple, type(None)):
        return b""
    values = (*(defaults or ()), *(named or {}).values())
    places = tuple(id(value) if id(value) in members else 0 for value in values)
    others = tuple(value for value, place in zip(values, places, strict=True) if not place)
    long = [(place, value) for place, value in enumerate(others) if atoms.is_long(value)]
    others = tuple(value for value in others if not atoms.is_long(value))
    if not holds_only_atoms((*texts, *others)):
        return b""
    digests = [(place, id(value), is_alone(value, namespace) and atoms.digest_of(value)) for place, value in long]
    if not all(digest for _, _, digest in digests):
        return b""
    if weakref.getweakrefcount(function) and find_death_callbacks(function, namespace):
        return b""
    definition, _ = define(function.__code__, namespace)
    names = None if named is None else tuple(named)
    if names and not holds_only_atoms(names):
        return b""
    counts = None if defaults is None else len(defaults), id(named), names
    noted = (id(function), id(attributes), bytes(definition), *texts, *counts, others, places)
    kinds = (id(annotations), spelled) if annotations else ()
    return xxh3_128_digest(pickle.dumps((*noted, *kinds, *digests)))


def defaults_of(function: types.FunctionType) -> list[Any]:
    """The values of all defaults. A caller that held the dict of those with names would seem to share it."""
    return [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _spell_annotations(annotations: object) -> tuple[object, ...] | None:
    """What the annotations say, if they are builtin types and what `typing` makes of them, which no one can change; else None."""
    if type(annotations) is not dict or not holds_only_atoms(tuple(annotations)):
        return None
    try:
        return tuple((name, _spell(kind)) for name, kind in annotations.items())
    except _OtherAnnotationError:
        return None


class _OtherAnnotationError(Exception):
    """An annotation is anyone's object."""


def _spell(kind: Any) -> object:
    if kind is None or id(kind) in _BUILTIN_TYPE_IDS or id(kind) in _typing_ids():
        return id(kind)
    if type(kind) is str:
        return kind
    if id(type(kind)) in _C_ALIAS_IDS:
        origin, arguments = getattr(kind, "__origin__", None), kind.__args__
    elif id(type(kind)) in _ALIAS_IDS:
        origin, arguments = kind.__dict__["__origin__"], kind.__dict__["__args__"]
    else:
        raise _OtherAnnotationError
    if origin is not None and id(origin) not in _BUILTIN_TYPE_IDS and id(origin) not in _typing_ids():
        raise _OtherAnnotationError
    return id(kind), id(origin), *map(_spell, arguments)


_C_ALIAS_IDS = frozenset(map(id, (types.GenericAlias, types.UnionType)))
_ALIAS_IDS = frozenset(map(id, (type(typing.List[int]), type(typing.Optional[int]))))  # noqa: UP006, UP045  # their own types


@cache
def _typing_ids() -> dict[int, object]:
    """What `typing` and `collections.abc` offer, by id."""
    return {id(found): found for module in (typing, collections.abc) for found in vars(module).values()}


# By id: hashing a type runs its metaclass.
_BUILTIN_TYPE_IDS = frozenset(
    id(kind) for kind in (*vars(builtins).values(), type(None), None) if kind is None or type(kind) is type
)


def holds_only_atoms(items: tuple[object, ...]) -> bool:
    return all(map(ATOM_IDS.__contains__, map(id, map(type, items))))


def _home(pickler: Pickler, function: types.FunctionType) -> Any:
    """The module whose dict the function's globals are.

    Not what its `__module__` says: a dataclass's methods have the globals of `dataclasses`.
    """
    name = function.__globals__.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is not None and module.__dict__ is function.__globals__:
        return name
    if any(value is function.__globals__ for value in pickler.namespace.values()):
        return function.__globals__  # `exec(text, ns)`
    return pickler.globals_holders.setdefault(id(function.__globals__), _Globals())


class _Globals:
    """Stands for a dict of globals of its own, as made by `exec(text, {})`; one per dict, so functions share it."""

    def __reduce__(self) -> Any:
        return dict, ()


def _own_globals(function: types.FunctionType) -> dict[str, object]:
    used = names_used(function.__code__) | {"__name__"}
    return {name: function.__globals__[name] for name in sorted(used) if name in function.__globals__}


def reduce_class(pickler: Pickler, kind: type) -> Any:
    if kind.__module__ != "__main__" and is_importable(kind):
        return NotImplemented
    # `exec(text, {})` names no module: the classes that it makes say that they are of the builtins.
    if kind.__module__ == "builtins" and "__module__" not in vars(kind):
        return _builtin_class(kind)
    reference = None if kind.__module__ == "__main__" else references.find_class(kind, pickler.namespace)
    if reference is not None:
        return pickler.by_name(reference)
    if not can_be_made_bare(kind):
        return pickler.refuse(kind, f"the metaclass of {kind.__name__} is written in C, so the class cannot be saved")
    uid = pickler.names.uid_of(kind)
    pickler.dump_record.classes[uid] = kind
    return notebook_class, (uid,)


def _builtin_class(kind: type) -> Any:
    for module in ("types", "builtins"):
        for name, found in vars(sys.modules[module]).items():
            if found is kind:
                return by_name, (module, name)
    return NotImplemented


def reduce_module(pickler: Pickler, module: types.ModuleType) -> Any:
    if module is builtins or module.__dict__ is pickler.namespace:
        pickler.stop_in_namespace()
        pickler.dump_record.globals_used.add(ANY_NAME)
    name: object = module.__dict__.get("__name__")
    if name != "__main__" and isinstance(name, str) and sys.modules.get(name) is module:
        if not references.comes_from_outside(name):
            return pickler.refuse(module, "a module that was made in a cell and has no file")
        content = content_of(pickler, module)
        if content is None:
            return restore.module, (module.__name__,)
        return restore.module, (module.__name__,), content, None, None, restore.module_content
    if module.__dict__ is pickler.namespace:
        return restore.main_module, ()
    return pickler.refuse(module, "a module that cannot be imported by its name")


def reduce_code(pickler: Pickler, code: types.CodeType) -> Any:
    pickler.note_globals(code)
    definition, payload = define(code, pickler.namespace)
    pickler.dump_record.definitions[definition] = payload
    return restore.code, (definition,)


def reduce_cell(pickler: Pickler, cell: types.CellType) -> Any:
    pickler.dump_record.instances.append(cell)
    try:
        contents = (cell.cell_contents,)
    except ValueError:  # not filled yet
        return restore.cell, ()
    if pickler.waiting is not None:
        pickler.waiting.append(Later(restore.cell_state, cell, contents))
        return restore.cell, ()
    return restore.cell, (), contents, None, None, restore.cell_state


def reduce_later(_: Pickler, later: Later) -> Any:
    return later.__reduce__()


_EASY_IDS = frozenset(
    map(
        id,
        (
            *(int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented)),
            *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.CellType),
        ),
    )
)


def is_easy(value: Any, depth: int = 4) -> bool:
    """Whether nothing below the value is an instance of a class that may not be filled yet."""
    kind: Any = type(value)
    if id(kind) in _EASY_IDS or issubclass(kind, type) or depth == 0:
        return depth > 0
    if kind is tuple or kind is list:
        return all(is_easy(item, depth - 1) for item in value)
    if kind is dict:
        return all(is_easy(item, depth - 1) for pair in value.items() for item in pair)
    if kind is types.GenericAlias or kind is types.UnionType:
        return is_easy(value.__args__, depth - 1)
    return bool(kind.__module__ == "typing" and kind.__name__ != "_AnnotatedAlias")


def reduce_method(pickler: Pickler, method: types.MethodType) -> Any:
    if is_importable_name(method):  # random.choice is a method of the generator that random.seed() seeds
        return by_name, (method.__module__, method.__name__)
    pickler.dump_record.roots.append((method.__self__,))
    # pickle would write getattr(self, name), and nothing says that the function still has that name.
    return types.MethodType, (method.__func__, method.__self__)


def reduce_builtin(pickler: Pickler, function: Any) -> Any:
    if function is builtins.__build_class__:
        pickler.stop_in_namespace()
    if id(function) in LOOKUP_IDS:  # whoever holds it may call it by any name
        pickler.dump_record.globals_used.add(ANY_NAME)
    owner = function.__self__
    reference = references.find(owner, pickler.namespace)
    if reference is not None and references.holds(reference.module, function.__name__, function):
        # random.random is a method of the generator that random.seed() seeds.
        return by_name, (reference.module, function.__name__)
    if owner is not None and not issubclass(type(owner), (types.ModuleType, type)):
        pickler.dump_record.instances.append(function)  # x.append keeps x alive, and changes it
        pickler.dump_record.roots.append((owner,))
        if pickler.careful:
            return method_of, (owner, function.__name__)
    return NotImplemented


def reduce_method_wrapper(pickler: Pickler, method: Any) -> Any:
    pickler.dump_record.roots.append((method.__self__,))
    return (method_of, (method.__self__, method.__name__)) if pickler.careful else NotImplemented


def reduce_slot(pickler: Pickler, slot: types.MemberDescriptorType) -> Any:
    """Save a slot as its class and name. Refuse it if a cell has put something else there."""
    kind: type[Any] = slot.__objclass__
    if kind.__module__ != "__main__" or class_dict(kind).get(slot.__name__) is slot:
        return NotImplemented
    return pickler.refuse(slot, f"the class {kind.__name__} no longer has this slot")


def reduce_slice(pickler: Pickler, found: slice) -> Any:
    pickler.dump_record.roots.append((found.start, found.stop, found.step))
    return NotImplemented


def reduce_dict_view(pickler: Pickler, view: Any) -> Any:
    """A view shows its dict, which only the collector can name."""
    (viewed,) = gc.get_referents(view)
    pickler.dump_record.instances.append(view)
    pickler.dump_record.roots.append((viewed,))
    return dict_view, (type(view).__name__.rpartition("_")[2], viewed)


def reduce_lru_cache(pickler: Pickler, cached: Any) -> Any:
    """A cached function, with those results that something else may hold too: `f(1) is x` goes on to hold.

    All others are worked out again: what nobody else holds shows in no other way, and may be a resource, or large.
    """
    if cached.__module__ != "__main__" and is_importable(cached):
        return NotImplemented
    dump = pickler.dump_record
    dump.instances.append(cached)
    parameters = cached.cache_parameters()
    state: Any = cached.__dict__
    if is_librarys_parameters(state.get("cache_parameters")):  # all that one decorator made would share its variables
        state = {name: found for name, found in state.items() if name != "cache_parameters"}
        pickler.keepalive.append(state)
    made = (cached.__wrapped__, parameters["maxsize"], parameters["typed"])
    shared = find_shared_entries(cached) if pickler.waiting is None else ()  # bare functions are not called yet
    entries = _table_of(cached)
    if entries is not None and len(entries) > aliases.LARGE:
        dump.large_caches.append(entries)
        dump.roots.append(shared)
    if not shared:
        return restore.lru_cache, made, state, None, None, restore.lru_cache_state
    return restore.lru_cache, made, (state, shared), None, None, restore.lru_cache_filled


def reduce_type_var(pickler: Pickler, variable: Any) -> Any:
    if is_importable_name(variable):
        return NotImplemented
    pickler.dump_record.instances.append(variable)
    return restore.type_var, (
        variable.__name__,
        variable.__bound__,
        variable.__constraints__,
        variable.__covariant__,
        variable.__contravariant__,
        variable.__module__,
    )


def is_importable_name(variable: Any) -> bool:
    """As `is_importable`, for objects that have a name but no qualified name."""
    module = sys.modules.get(variable.__module__)
    return variable.__module__ != "__main__" and getattr(module, variable.__name__, None) is variable


def reduce_weak_reference(pickler: Pickler, reference: Any) -> Any:
    target: Any = reference()
    if id(type(target)) == id(frozenset):
        pickler.dump_record.opaque.append(target)
    called = _note_callback(pickler, reference, target)
    return (weak_reference_calling, (target, called)) if called is not None else (weak_reference, (target,))


def _note_callback(pickler: Pickler, reference: Any, target: Any) -> Any:
    """Note what a weak reference holds, and return what of the notebook's it calls when its target dies."""
    callback = callback_of(reference)
    called = None if callback is None or is_library_callback(reference, callback, pickler.namespace) else callback
    if called is not None:
        pickler.dump_record.instances.append(reference)  # without a callback there is one for each target
    pickler.dump_record.roots.append((target, called))
    return called


def reduce_weak_method(pickler: Pickler, reference: Any) -> Any:
    method = reference()
    owner, function = (None, None) if method is None else (method.__self__, method.__func__)
    called = _note_callback(pickler, reference, owner)
    made = (owner, function, type(reference))
    return (weak_method_calling, (*made, called)) if called is not None else (weak_method, made)


def reduce_other_weak_reference(pickler: Pickler, reference: Any) -> Any:
    """A reference of a notebook's own class, with its attributes."""
    pickler.dump_record.instances.append(reference)
    made: tuple[Any, ...] = (type(reference), reference())
    called = _note_callback(pickler, reference, reference())
    make: Any = weak_reference_of
    if called is not None:
        make, made = weak_reference_of_calling, (*made, called)
    # object's own way to reduce one knows no class with fields in C.
    return make, made, find_added(reference), None, None, answering_slots_state


def _note_dispatch_cache(pickler: Pickler, function: types.FunctionType) -> None:
    """What `functools.singledispatch` found for each type is derived from what is registered: a call does not change it."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name == "dispatch_cache":
            pickler.derived.add(id(cell.cell_contents))


def reduce_weak_dict(pickler: Pickler, mapping: Any) -> Any:
    pickler.dump_record.instances.append(mapping)
    contents = {} if id(mapping) in pickler.derived else dict(mapping.items())
    pickler.keepalive.append(contents)
    _note_frozen_sets(pickler, (*contents, *contents.values()))
    return type(mapping), (contents,)


def reduce_weak_set(pickler: Pickler, members: Any) -> Any:
    pickler.dump_record.instances.append(members)
    found = list(members)
    _note_frozen_sets(pickler, found)
    return type(members), (found,)


def _note_frozen_sets(pickler: Pickler, held: Iterable[object]) -> None:
    """Note frozen sets that are held weakly, since no walk meets them. Other objects are noted when they are pickled."""
    frozen = tuple(one for one in held if type(one) is frozenset)
    if frozen:
        pickler.dump_record.roots.append(frozen)


def reduce_mapping_proxy(pickler: Pickler, proxy: Any) -> Any:
    """The proxy of a dict shows that very dict, which only the collector can name."""
    below = gc.get_referents(proxy)
    mapping = below[0] if len(below) == 1 else proxy.copy()
    kind = _class_of(mapping)
    if kind is not None:
        return class_attributes, (kind,)
    pickler.dump_record.instances.append(proxy)
    pickler.dump_record.roots.append((mapping,))
    return types.MappingProxyType, (mapping,)


def _class_of(attributes: Any) -> type | None:
    """The class whose own dict this is, if it is one."""
    if type(attributes) is not dict or "__module__" not in attributes or "__doc__" not in attributes:
        return None
    # Not gc.get_referrers(): it does not know what was frozen.
    classes: list[type] = [object]
    seen: set[type] = set()
    while classes:
        kind = classes.pop()
        if any(one is attributes for one in gc.get_referents(class_dict(kind))):
            return kind
        if kind not in seen:
            seen.add(kind)
            classes += type.__subclasses__(kind)
    return None


def reduce_weak_proxy(pickler: Pickler, proxy: Any) -> Any:
    pickler.dump_record.opaque.append(proxy)
    try:
        target = proxy.__init__.__self__
    except ReferenceError:
        return weak_proxy, (None,)
    called = _note_callback(pickler, proxy, target)
    return (weak_proxy_calling, (target, called)) if called is not None else (weak_proxy, (target,))


def refuse_resumable(pickler: Pickler, value: Any) -> Any:
    kind = type(value).__name__.replace("_", " ")
    return pickler.refuse(value, f"a {kind} cannot be saved")


def refuse_frame(pickler: Pickler, value: Any) -> Any:
    return pickler.refuse(value, f"a {type(value).__name__} cannot be saved")


def reduce_member(_: Pickler, member: Any) -> Any:
    """By name, for its value may be anything; a combination of flags by value."""
    kind: Any = type(member)
    name = member._name_
    return (enum_member, (kind, name)) if kind.__members__.get(name) is member else NotImplemented


def reduce_enum_property(_: Pickler, made: Any) -> Any:
    return enum_property, (made.fget, made.fset, made.fdel, made.__doc__, made.name, made.clsname)


def reduce_dynamic_attribute(_: Pickler, made: Any) -> Any:
    return types.DynamicClassAttribute, (made.fget, made.fset, made.fdel, made.__doc__)


def reduce_new_type(pickler: Pickler, made: Any) -> Any:
    if is_importable(made):
        return NotImplemented
    pickler.dump_record.instances.append(made)
    parts = restore.new_type, (made.__name__, made.__supertype__, made.__module__)
    added: dict[str, object] = {name: vars(made)[name] for name in vars(made) if name[:2] != "__"}
    return (*parts, added, None, None, attributes_state) if added else parts


def reduce_other_variable(pickler: Pickler, variable: Any) -> Any:
    """One of a type that stands for parameters, or for several types."""
    if is_importable_name(variable):
        return NotImplemented
    pickler.dump_record.instances.append(variable)
    variance = {name: getattr(variable, f"__{name}__", None) for name in ("bound", "covariant", "contravariant")}
    options = {name: held for name, held in variance.items() if held}
    return restore.other_variable, (type(variable).__name__, variable.__name__, options, variable.__module__)


def _views_of(made: dict[Any, Any]) -> tuple[Any, ...]:
    return made.keys(), made.values(), made.items()


_EXACT: dict[type, Handler] = {
    Later: reduce_later,
    enum.property: reduce_enum_property,
    types.DynamicClassAttribute: reduce_dynamic_attribute,
    typing.NewType: reduce_new_type,
    types.FunctionType: reduce_function,
    types.ModuleType: reduce_module,
    types.CodeType: reduce_code,
    types.CellType: reduce_cell,
    types.MethodType: reduce_method,
    types.BuiltinFunctionType: reduce_builtin,
    type(array.array("b").extend): reduce_builtin,  # that is told the class that defines it
    type(functools.cache(len)): reduce_lru_cache,  # it has no public name
    typing.TypeVar: reduce_type_var,
    typing.ParamSpec: reduce_other_variable,
    typing.TypeVarTuple: reduce_other_variable,
    weakref.ReferenceType: reduce_weak_reference,
    weakref.WeakMethod: reduce_weak_method,
    weakref.WeakValueDictionary: reduce_weak_dict,
    weakref.WeakKeyDictionary: reduce_weak_dict,
    weakref.WeakSet: reduce_weak_set,
    types.MappingProxyType: reduce_mapping_proxy,
    weakref.ProxyType: reduce_weak_proxy,
    weakref.CallableProxyType: reduce_weak_proxy,
    types.GeneratorType: refuse_resumable,
    types.CoroutineType: refuse_resumable,
    types.AsyncGeneratorType: refuse_resumable,
    types.FrameType: refuse_frame,
    types.TracebackType: refuse_frame,
    types.MethodDescriptorType: leaf,
    types.WrapperDescriptorType: leaf,
    types.MethodWrapperType: reduce_method_wrapper,
    types.GetSetDescriptorType: leaf,
    types.MemberDescriptorType: reduce_slot,
    type(None): leaf,
    type(Ellipsis): leaf,
    type(NotImplemented): leaf,
    range: leaf,
    slice: reduce_slice,
    logging.Logger: reduce_logger,
    logging.RootLogger: reduce_logger,
    **dict.fromkeys(map(type, (*_views_of({}), *_views_of(collections.OrderedDict[Any, Any]()))), reduce_dict_view),
}
# By id: hashing a type runs its metaclass.
EXACT = {id(kind): handler for kind, handler in _EXACT.items()}
# A reload of a module makes its classes anew.
EXACT_BY_NAME = {(kind.__module__, kind.__qualname__): handler for kind, handler in _EXACT.items()}
