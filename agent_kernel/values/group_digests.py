"""Tell without a dump that names lead to the objects that they led to, and that these hold what they held.

Objects with attributes, functions and short containers are looked through one by one; of a long container of numbers and
texts there is a digest that is taken in C. A look runs nobody's code, and takes a tenth of the time of a dump. Where it
meets anything that it does not know, it says nothing, and the names are dumped.
"""

# What is looked at is anyone's object, so its type has no parameters to know.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import builtins
import collections
import functools
import pickle
import sys
import types
import weakref
from array import array
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from xxhash import xxh3_128

from agent_kernel.values import CLASS_PREFIX, atoms, reducers, references
from agent_kernel.values.introspection import bases_of, class_dict, ids_of, loaded_class, module_name
from agent_kernel.values.surface import find_death_callbacks, is_alone

if TYPE_CHECKING:
    from agent_kernel.values.aliases import LiveNames

_MOST_OBJECTS = 1_000  # beyond these a dump takes hardly longer
_MOST_ITEMS = 10_000
_MANY_RESULTS = 1_000  # from which on a dump looks longer at what a function keeps
# By id: hashing a type runs its metaclass.
_ATOM_IDS = frozenset(map(id, (str, bytes, int, float, bool, type(None))))
_ITEM_IDS = frozenset(map(id, (list, tuple, set, frozenset)))
_SEQUENCE_IDS = frozenset(map(id, (list, tuple)))
_DICT_IDS = frozenset(map(id, (collections.Counter, collections.defaultdict, collections.OrderedDict)))
_CACHED = type(functools.cache(lambda: None))
_OWNER_IDS = frozenset(map(id, (str, list, tuple, dict, set)))
_UNCHANGING_IDS = frozenset(map(id, (tuple, frozenset, type)))
_BUILTIN_TYPE_IDS = frozenset(id(kind) for kind in vars(builtins).values() if type(kind) is type)
# What says how pickle saves an object, or lets code of its class do so.
_HOOKS = frozenset(
    {
        *("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__"),
        *("__getattribute__", "__getattr__", "__class__", "__del__"),
    }
)


class _UnknownError(Exception):
    """Something was met of which only a dump tells whether it changed."""


def is_unchanged(
    members: Mapping[str, object],
    digest: bytes,
    names: LiveNames,
    namespace: dict[str, object],
    noted: dict[tuple[str, ...], bytes] | None = None,
) -> bool:
    """Whether a dump of the members would give what it gave when this was their digest.

    Args:
        noted: takes what the digest is now, for the dump that follows.
    """
    now = _digest_now(members, names, namespace)
    if noted is not None:
        noted[tuple(members)] = now
    return now == digest


def _digest_now(members: Mapping[str, object], names: LiveNames, namespace: dict[str, object]) -> bytes:
    references.look()
    values: list[Any] = list(members.values())
    if _is_long_alone(values):
        return atoms.digest_of(values[0]) if is_alone(values[0], namespace) else b""
    look = _look_at(members, names, namespace)
    return b"" if look is None else look.digest()


class Known(NamedTuple):
    """The digest of some members, and ids: of the long containers below them, and of all that others may hold, too.

    Of the sets among the long ones it is not sure yet that they hold numbers and texts alone. `sees_memory`: that of arrays
    is covered, too. `stops`: the long containers, and what such as `Counter` are long, below which nothing can change.
    """

    digest: bytes
    longs: AbstractSet[int] = frozenset()
    sets: AbstractSet[int] = frozenset()
    shareable: AbstractSet[int] = frozenset()
    sees_memory: bool = False
    stops: AbstractSet[int] = frozenset()


def digest_first(members: Mapping[str, object], names: LiveNames, namespace: dict[str, object]) -> Known | None:
    """What later looks are compared with; None where it takes a dump to tell, or a dump takes no longer.

    That is of anything but plain functions, classes, and what leads to long containers of numbers and texts or to many arrays.
    """
    values: list[Any] = list(members.values())
    if _is_long_alone(values):  # the digest of such a one is taken as it is dumped
        return None
    look = _look_at(members, names, namespace)
    return None if look is None else look.note()  # ids alone: what was met is held by nobody more when it is dumped


def _look_at(members: Mapping[str, object], names: LiveNames, namespace: dict[str, object]) -> _Look | None:
    look = _Look(names, namespace)
    try:
        if not look.take_code(members):
            look.walk(members)
    except (_UnknownError, RuntimeError):  # or another thread is at it
        return None
    return look


class _Look:
    """One look at all that some values lead to."""

    def __init__(self, names: LiveNames, namespace: dict[str, object]) -> None:
        self._names = names
        self._namespace = namespace
        self._seen: dict[int, object] = {}  # alive, so that no address is met twice
        self._places = array("Q")
        self._said: list[object] = []
        self._kinds: dict[int, str] = {}
        self._items = 0
        self._longs: list[Any] = []
        self._long_dicts: set[int] = set()  # ids of what such as `Counter` are, of which a copy is among the long ones
        self._arrays: list[Any] = []
        self._results: set[int] = set()  # ids of what functions keep
        self._is_worth = False  # whether a dump would take much longer
        self._of_code = b""

    def take_code(self, members: Mapping[str, object]) -> bool:
        """Take a plain function or a class for all that there is; False where it is not, or not alone."""
        if len(members) == 1:
            ((name, value),) = members.items()
            self._of_code = _digest_of_code(name, value, self._names, self._namespace)
        return bool(self._of_code)

    def walk(self, members: Mapping[str, object]) -> None:
        """Look through all that the members lead to.

        Raises:
            _UnknownError: something is among it that only a dump knows.
        """
        _expect(not any(name.startswith(CLASS_PREFIX) for name in members))
        self._said += members
        waiting: list[Any] = list(members.values())
        while waiting:
            value = waiting.pop()
            self._places.append(id(value))
            if id(type(value)) in _ATOM_IDS:
                _expect(not references.is_nan(value))
                self._said.append(value)
            elif id(value) not in self._seen:
                self._seen[id(value)] = value
                below = self._below(value)
                self._items += len(below)
                _expect(len(self._seen) <= _MOST_OBJECTS and self._items <= _MOST_ITEMS)
                # A set that is freed leaves its place to the next frozenset, whose items may be the same.
                self._places.extend((id(type(value)), len(below)))
                if not self._take_atoms(below):
                    waiting += below
        _expect(self._is_worth or bool(self._longs))

    def _take_atoms(self, values: list[Any]) -> bool:
        """Take atoms all at once, as most containers hold nothing else."""
        kinds = set(ids_of(map(type, values)))
        if not kinds <= _ATOM_IDS:
            return False
        _expect(id(float) not in kinds or not any(map(references.is_nan, values)))
        self._places.extend(ids_of(values))
        self._said += values
        return True

    def digest(self, digest_of: Callable[[Any], bytes] = atoms.digest_of) -> bytes:
        """Covers all that was met. Equal ones mean something only where the first one was not empty."""
        if self._of_code:
            return self._of_code
        whole = xxh3_128(self._places)
        whole.update(pickle.dumps(self._said, pickle.HIGHEST_PROTOCOL))
        for value in self._longs:
            found = digest_of(value)
            if not found:
                return b""
            whole.update(found)
        if self._arrays:
            from agent_kernel.values import array_digests

            found = array_digests.digest_of(self._arrays)
            if not found:
                return b""
            whole.update(found)
        return whole.digest()

    def note(self) -> Known | None:
        """The digest, and what it covers; None where a long container holds more than numbers and texts."""
        digest = self.digest(atoms.guess_digest) if all(map(_may_hold_atoms, self._longs)) else b""
        shareable = (item for item, value in self._seen.items() if id(type(value)) not in _UNCHANGING_IDS)
        sets = frozenset(id(value) for value in self._longs if id(type(value)) == id(set))
        # A `Counter` was digested as a copy, which is gone: the dump may meet another object at its address.
        longs = frozenset(ids_of(self._longs)).intersection(self._seen)
        sees_memory = bool(self._arrays)
        stops = longs.union(self._long_dicts)
        return Known(digest, longs, sets, self._results.union(shareable), sees_memory, stops) if digest else None

    def _below(self, value: Any) -> list[Any]:
        """What is saved of an object, and can be looked at in turn."""
        if issubclass(type(value), type):
            return self._of_class(value)
        waits = weakref.getweakrefcount(value) and find_death_callbacks(value, self._namespace)
        _expect(not waits and not references.is_of_module(value, self._namespace))
        _expect(not references.is_container_of_module(value, self._namespace))
        kind = id(type(value))
        below: list[Any] = []
        if kind in _ITEM_IDS:
            below = self._items_of(value, value)
        elif kind == id(dict):
            below = self._items_of(value, [*value, *value.values()] if len(value) < atoms.LONG else ())
        elif kind in _DICT_IDS:
            below = self._below_dict(value)
        elif kind == id(types.FunctionType):
            below = self._below_function(value)
        elif kind == id(types.BuiltinMethodType):
            below = self._below_method(value)
        elif kind == id(_CACHED):
            below = self._below_cached(value)
        elif _is_array(value):
            self._arrays.append(value)
        else:
            below = self._below_instance(value)
        return below

    def _items_of(self, container: Any, items: Iterable[Any]) -> list[Any]:
        if id(type(container)) in _SEQUENCE_IDS and self._take_arrays(list(container)):
            return []
        if atoms.is_long(container):
            self._longs.append(container)
            return []
        _expect(len(container) < atoms.LONG)
        return list(items)

    def _take_arrays(self, values: list[Any]) -> bool:
        """Take many arrays at once, if there are no others among these."""
        if not values or not _is_array(values[0]):
            return False
        from agent_kernel.values import array_digests

        if len(values) < array_digests.MANY or not array_digests.are_arrays(values):
            return False
        ids = ids_of(values)
        if not references.MODULE_OBJECTS.keys().isdisjoint(ids):
            _expect(not any(references.is_of_module(value, self._namespace) for value in values))
        self._places.extend(ids)
        self._arrays += values
        self._is_worth = True
        return True

    def _below_dict(self, value: Any) -> list[Any]:
        """A dict of the standard library's, which Python code of nobody else fills or lists."""
        kind = type(value)
        _expect(not any(kind is other for other in reducers.dispatch_table()))
        _expect(not kind.__dictoffset__ or not object.__getattribute__(value, "__dict__"))
        factory = [value.default_factory] if kind is collections.defaultdict else []
        plain = dict(value)
        self._said.append(kind.__name__)
        if atoms.is_long(plain):
            self._long_dicts.add(id(value))
        return [*factory, *self._items_of(plain, [*plain, *plain.values()] if len(plain) < atoms.LONG else ())]

    def _below_function(self, function: types.FunctionType, holders: int = 0) -> list[Any]:
        from agent_kernel.values.reducers.code import defaults_of, digest_of_function

        below = [value for value in defaults_of(function) if id(type(value)) not in _ATOM_IDS]
        digest = digest_of_function(function, self._namespace, set(ids_of(below)), holders)
        _expect(bool(digest))
        self._said.append(digest)
        return below

    def _below_cached(self, cached: Any) -> list[Any]:
        """A function of the notebook's with `functools.lru_cache`, and those results that something else holds, too."""
        from agent_kernel.values.reducers.code import look_at_cache, results_count

        own: Any = cached.__dict__
        _expect(type(own) is dict and sys.getrefcount(own) <= reducers.OWN_HOLDS + 1)
        function = own.get("__wrapped__")
        _expect(type(function) is types.FunctionType and function.__globals__ is self._namespace)
        known = look_at_cache(cached)
        if known is None or type(own.get("__module__")) is not str or own["__module__"] != "__main__":
            raise _UnknownError
        self._said += known.ids
        self._said += (len(known.ids), *chain.from_iterable(known.parameters))
        self._results.update(known.ids)
        self._is_worth = self._is_worth or results_count(cached) >= _MANY_RESULTS
        common = own.get("__annotations__")
        is_common = common is not None and common is function.__annotations__
        del common
        below = [function] if id(function) in self._seen else self._enter(function, holders=int(is_common))
        left = ("__wrapped__", "cache_parameters", *(("__annotations__",) if is_common else ()))
        for arguments, named, result in known.shared:  # not these tuples, which are made anew each time
            below += (len(arguments), *arguments, *chain.from_iterable(named), result)
        return [*below, *(part for pair in own.items() if pair[0] not in left for part in pair)]

    def _enter(self, function: Any, holders: int) -> list[Any]:
        self._places.append(id(function))
        self._seen[id(function)] = function
        return self._below_function(function, holders)

    def _below_method(self, method: Any) -> list[Any]:
        """A method of a container, such as `words.get`, or of a text."""
        _expect(id(type(method.__self__)) in _OWNER_IDS)
        self._said.append(method.__name__)
        return [method.__self__]

    def _below_instance(self, value: Any) -> list[Any]:
        self._said.append(self._name_of(type(value)))
        attributes: Any = object.__getattribute__(value, "__dict__")
        # One that something else holds, too, may be saved with that.
        _expect(type(attributes) is dict and sys.getrefcount(attributes) <= reducers.OWN_HOLDS + 1)
        _expect(all(type(name) is str and name[:2] != "__" for name in attributes))
        return [*attributes, *attributes.values()]

    def _name_of(self, kind: type) -> str:
        """Which class of the notebook's this is; its objects are nothing but their attributes."""
        found = self._kinds.get(id(kind))
        if found is None:
            _expect(_is_plain(kind))
            found = self._kinds[id(kind)] = self._names.uid_of(kind)
        return found

    def _of_class(self, kind: type) -> list[Any]:
        """A class is saved as its name; what a class of the notebook's holds is compared by itself."""
        is_own = type(kind) is type and module_name(kind) == "__main__"
        _expect(is_own or id(kind) in _BUILTIN_TYPE_IDS)
        self._said.append(self._names.uid_of(kind) if is_own else kind.__name__)
        return []


def _is_long_alone(values: list[Any]) -> bool:
    """Whether there is but one long container, and not of arrays."""
    if len(values) != 1 or not atoms.is_long(values[0]):
        return False
    return not (id(type(values[0])) in _SEQUENCE_IDS and _is_array(values[0][0]))


def _is_array(value: object) -> bool:
    return type(value) is loaded_class("numpy", "ndarray")


def _may_hold_atoms(value: Any) -> bool:
    """Of a set that is made sure of as it is dumped."""
    return atoms.may_hold_atoms(value) if type(value) is set else atoms.holds_atoms(value)


def _digest_of_code(name: str, value: Any, names: LiveNames, namespace: dict[str, object]) -> bytes:
    """Covers what is saved of a plain function, or under this name of a class; empty for anything else.

    Most of what a cell uses are functions and classes that no cell changes, and to dump one takes ten times as long.
    """
    is_function = type(value) is types.FunctionType
    if not is_function and (type(value) is not type or value.__module__ != "__main__"):
        return b""
    if is_function:
        from agent_kernel.values.reducers.code import defaults_of, digest_of_function

        return b"" if any(map(atoms.is_long, defaults_of(value))) else digest_of_function(value, namespace)
    if name.startswith(CLASS_PREFIX):
        from agent_kernel.values.classes import digest_of_class

        return digest_of_class(value, names, namespace)
    return b"" if find_death_callbacks(value, namespace) else b"class " + names.uid_of(value).encode()


def _expect(known: bool) -> None:
    if not known:
        raise _UnknownError


def _is_plain(kind: type) -> bool:
    """Whether pickle saves objects of a class of the notebook's by their attributes, and asks none of its code."""
    if module_name(kind) != "__main__" or not kind.__dictoffset__ or not reducers.is_ordinary(kind):
        return False
    if any(kind is other for other in reducers.dispatch_table()):
        return False
    own = [class_dict(base) for base in bases_of(kind) if base is not object]
    if not all(_HOOKS.isdisjoint(found) for found in own):
        return False
    slots = (one for found in own for one in found.values() if type(one) is types.MemberDescriptorType)
    return all(module_name(base) == "__main__" for base in bases_of(kind)[:-1]) and not any(True for _ in slots)
