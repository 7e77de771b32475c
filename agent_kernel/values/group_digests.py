"""Tell without a dump that names lead to the objects that they led to, and that these hold what they held.

Objects with attributes, functions and short containers are looked through one by one; of a long container of numbers and
texts there is a digest that is taken in C. Of many objects all those of a type are taken at once, which takes a few loops in C.
A look runs nobody's code, and takes a tenth of the time of a dump. Where it meets anything that it does not know, it says
nothing, and the names are dumped.
"""

# What is looked at is anyone's object, so its type has no parameters to know.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import builtins
import collections
import dataclasses
import enum
import functools
import pickle
import sys
import types
import weakref
from array import array
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain, compress, islice, repeat
from operator import ne
from typing import TYPE_CHECKING, Any, NamedTuple

from xxhash import xxh3_128

from agent_kernel.values import CLASS_PREFIX, atoms, reducers, references
from agent_kernel.values.introspection import (
    ADDRESS_BYTES,
    addresses,
    bases_of,
    class_dict,
    distinct_ids,
    ids_of,
    ids_of_types,
    is_dict_slot,
    is_made_in_python,
    loaded_class,
    module_name,
    of_types,
    qualified_name,
)
from agent_kernel.values.surface import find_death_callbacks, is_alone

if TYPE_CHECKING:
    from agent_kernel.values.aliases import LiveNames

_MOST_OBJECTS = 100  # that are looked at one by one; beyond these all of a type are taken at once
_MOST_ITEMS = 10_000
_WORTH = 1_000  # objects, from which a dump takes longer than a look
_MANY = 100  # items, which are taken at once
_MOST_LEVELS = 20  # of many objects
_MOST_TYPES = 30  # among those of one level
_MOST_OTHERS = 1_000  # of many objects, those that something else holds too
_LONG_BYTES = 1 << 17  # from which a dump takes longer than a look
_PIECE_BYTES = 1 << 18
_MANY_RESULTS = 1_000  # from which on a dump looks longer at what a function keeps
# By id: hashing a type runs its metaclass.
_ATOM_IDS = frozenset(map(id, (str, bytes, int, float, bool, type(None))))
_ITEM_IDS = frozenset(map(id, (list, tuple, set, frozenset)))
_PLAIN_IDS = _ITEM_IDS | {id(dict)}
_SEQUENCE_IDS = frozenset(map(id, (list, tuple)))
_DICT_IDS = frozenset(map(id, (collections.Counter, collections.defaultdict, collections.OrderedDict)))
_BYTES_IDS = frozenset(map(id, (bytearray, array)))
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
    `takes_many`: many objects were taken at once, which nothing but these members holds. `sees_bytes`: bytearrays or arrays of numbers are covered.
    """

    digest: bytes
    longs: AbstractSet[int] = frozenset()
    sets: AbstractSet[int] = frozenset()
    shareable: AbstractSet[int] = frozenset()
    sees_memory: bool = False
    stops: AbstractSet[int] = frozenset()
    takes_many: bool = False
    sees_bytes: bool = False


def digest_first(
    members: Mapping[str, object], names: LiveNames, namespace: dict[str, object], digest: bytes | None = None
) -> Known | None:
    """What later looks are compared with; None where it takes a dump to tell, or a dump takes no longer.

    That is of anything but plain functions, classes, and what leads to long containers, to many arrays or to many objects.

    Args:
        digest: what a look said just before; None: there was none.
    """
    values: list[Any] = list(members.values())
    if _is_long_alone(values):  # the digest of such a one is taken as it is dumped
        return None
    if digest == b"":
        return None
    if digest and len(values) == 1 and atoms.is_long(values[0]):  # nothing below it is held by anything else
        return Known(digest, shareable=frozenset(ids_of(values)), takes_many=True)
    look = _look_at(members, names, namespace)
    return None if look is None else look.note()  # ids alone: what was met is held by nobody more when it is dumped


def _look_at(members: Mapping[str, object], names: LiveNames, namespace: dict[str, object]) -> _Look | None:
    look = _Look(names, namespace)
    try:
        if not look.take_code(members):
            look.walk(members)
    except (_UnknownError, RuntimeError, AttributeError):  # or another thread is at it, or a slot is empty
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
        self._layouts: dict[int, _Layout] = {}
        self._unchanging_ids: set[int] = set()  # of types of whose objects nobody sees whether others hold them, too
        self._items = 0
        self._longs: list[Any] = []
        self._long_dicts: set[int] = set()  # ids of what such as `Counter` are, of which a copy is among the long ones
        self._arrays: list[Any] = []
        self._bytes: list[Any] = []
        self._results: set[int] = set()  # ids of what functions keep
        self._is_worth = False  # whether a dump would take much longer
        self._many: list[Any] = []  # lists, tuples and dicts whose objects are taken at once
        self._takes_many = False
        self._shared: dict[int, Any] = {}  # objects among many that are held more than once
        self._times_met: collections.Counter[int] = collections.Counter()
        self._content_of_many = xxh3_128()
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
        waiting: list[Any] = []
        for value in members.values():  # first, for variables hold them, too: they are none of many
            self._see(value, waiting)
        while waiting:
            if len(self._seen) > _MOST_OBJECTS or self._items > _MOST_ITEMS:
                self._many.append(waiting)
                break
            self._see(waiting.pop(), waiting)
        del waiting
        if self._many:
            _expect(self._is_worth or bool(self._longs) or self._seems_worth())
            self._take_many(self._pop_many())
            self._expect_explained()
        _expect(self._is_worth or bool(self._longs))

    def _see(self, value: Any, waiting: list[Any]) -> None:
        """Look at one object; what is below it waits for its turn, or is one of many."""
        self._places.append(id(value))
        if id(type(value)) in _ATOM_IDS:
            _expect(not references.is_nan(value))
            self._said.append(value)
        elif id(value) not in self._seen:
            self._seen[id(value)] = value
            below = self._below(value)
            # A set that is freed leaves its place to the next frozenset, whose items may be the same.
            self._places.extend((id(type(value)), len(below)))
            if not self._take_atoms(below):
                if len(below) < _MANY:
                    waiting += below
                    self._items += len(below)
                else:
                    self._many.append(below)

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
        whole.update(self._content_of_many.digest())
        for value in self._longs:
            found = digest_of(value)
            if not found:
                return b""
            whole.update(found)
        for value in self._bytes:
            _read_bytes(value, whole.update)
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
        unchanging = _UNCHANGING_IDS | self._unchanging_ids
        shareable = (item for item, value in self._seen.items() if id(type(value)) not in unchanging)
        sets = frozenset(id(value) for value in self._longs if id(type(value)) == id(set))
        # A `Counter` was digested as a copy, which is gone: the dump may meet another object at its address.
        longs = frozenset(ids_of(self._longs)).intersection(self._seen)
        sees_memory = bool(self._arrays)
        stops = longs.union(self._long_dicts)
        shared = self._results.union(shareable)
        known = Known(digest, longs, sets, shared, sees_memory, stops, self._takes_many, bool(self._bytes))
        return known if digest else None

    def _below(self, value: Any) -> list[Any]:
        """What is saved of an object, and can be looked at in turn."""
        if issubclass(type(value), type):
            return self._of_class(value)
        waits = weakref.getweakrefcount(value) and find_death_callbacks(value, self._namespace)
        _expect(not waits and not references.is_of_module(value, self._namespace))
        _expect(not references.is_container_of_module(value, self._namespace))
        kind = id(type(value))
        below: list[Any] = []
        if (kind in _SEQUENCE_IDS or kind == id(dict)) and _holds_many(value):
            self._places.append(len(value))
            self._many.append(value)  # not its items: to list a million takes longer than to see that it does not pay
        elif kind in _ITEM_IDS or kind == id(dict):
            below = self._items_of(value)
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
        elif kind in _BYTES_IDS:
            self._bytes.append(value)
            self._is_worth = self._is_worth or len(value) * _item_bytes(value) >= _LONG_BYTES
        elif not self._take_unchanging(type(value), [value]):
            below = self._below_instance(value)
        return below

    def _take_unchanging(self, kind: type, values: list[Any]) -> bool:
        """Take members of an enum, which are saved as names and hold what belongs to their class, or dates and the like."""
        if issubclass(kind, enum.Enum):
            self._note(self._uid_of_enum(kind, values).encode())
        elif atoms.is_read(kind):
            content = atoms.read(values)
            _expect(bool(content))
            self._note(content)
        else:
            return False
        self._unchanging_ids.add(id(kind))
        return True

    def _uid_of_enum(self, kind: Any, values: list[Any]) -> str:
        from agent_kernel.values.reducers.code import reduce_member
        from agent_kernel.values.trials import own_handler

        handler = own_handler(reducers.HANDLERS.get(kind) or reducers.handler_for(kind))
        _expect(module_name(kind) == "__main__" and handler is reduce_member)
        named: Any = class_dict(kind)["_member_map_"]
        _expect(distinct_ids(addresses(values)).issubset(ids_of(named.values())))
        return self._names.uid_of(kind)

    def _items_of(self, container: Any) -> list[Any]:
        if _begins_with_array(container) and self._take_arrays(list(container)):
            return []
        if atoms.is_long(container) and _seems_of_atoms(container):
            self._longs.append(container)
            return []
        return _list_items(container)

    def _take_arrays(self, values: list[Any]) -> bool:
        """Take many arrays at once, if there are no others among these."""
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
        below = self._items_of(plain)
        if not below and plain:
            self._long_dicts.add(id(value))
        return [*factory, *below]

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
        layout = self._layout_of(type(value))
        self._said.append(layout.uid)
        below = list(tuple.__iter__(value)) if layout.is_tuple else []
        below += [read(value) for read in layout.slots]
        if layout.has_dict:
            attributes: Any = object.__getattribute__(value, "__dict__")
            # One that something else holds, too, may be saved with that.
            _expect(type(attributes) is dict and sys.getrefcount(attributes) <= reducers.OWN_HOLDS + 1)
            _expect(all(type(name) is str and name[:2] != "__" for name in attributes))
            below += [*attributes, *attributes.values()]
        return below

    def _layout_of(self, kind: type) -> _Layout:
        """What objects of a class consist of, where pickle saves that, and asks no code of the class."""
        found = self._layouts.get(id(kind))
        if found is None:
            found = self._layouts[id(kind)] = _Layout.of(kind, self._names)
        return found

    def _of_class(self, kind: type) -> list[Any]:
        """A class is saved as its name; what a class of the notebook's holds is compared by itself."""
        is_own = type(kind) is type and module_name(kind) == "__main__"
        _expect(is_own or id(kind) in _BUILTIN_TYPE_IDS)
        self._said.append(self._names.uid_of(kind) if is_own else kind.__name__)
        return []

    # -- many objects, level by level: nothing but what is looked at holds them, or they are among those that were seen before

    def _pop_many(self) -> list[Any]:
        many, self._many = self._many, []
        return list(chain.from_iterable(map(_list_items, many)))

    def _take_many(self, level: list[Any]) -> None:
        self._takes_many = True
        count = 0
        for _ in range(_MOST_LEVELS):
            if not level:
                break
            count += len(level)
            level = self._take_level(level)
        _expect(not level)
        self._is_worth = self._is_worth or count >= _WORTH

    def _seems_worth(self) -> bool:
        """Whether some of many objects lead to any of which pickle asks: containers of numbers and texts take it no longer.

        Raises:
            _UnknownError: they lead to what only a dump knows.
        """
        look = _Look(self._names, self._namespace)
        found = False
        some: list[Any] = list(chain.from_iterable(map(_some_items, self._many)))
        for _ in range(_LEVELS_TRIED):
            some = [one for one in some[: _TRIED * _TRIED] if id(type(one)) not in _ATOM_IDS]
            found = found or not set(ids_of(map(type, some))) <= _PLAIN_IDS
            some = [below for one in some for below in islice(chain(look._below(one), look._pop_many()), _TRIED)]
        return found

    def _take_level(self, level: list[Any]) -> list[Any]:
        """Take all these objects; returns what lies below them."""
        types = addresses(map(type, level))
        kinds = distinct_ids(types)
        _expect(len(kinds) <= _MOST_TYPES)
        scalars, others = kinds & _ATOM_IDS, kinds - _ATOM_IDS
        self._note(b"%d" % len(level), types if others and len(kinds) > 1 else b"")
        if scalars:
            self._note_atoms(level if not others else of_types(level, scalars))
        below: list[Any] = []
        for kind in sorted(others):
            below += self._take_type(level if len(kinds) == 1 else of_types(level, {kind}), 1 + (len(kinds) > 1))
        return below

    def _take_type(self, values: list[Any], copies: int) -> list[Any]:
        """Take objects of one type, which so many lists of the look hold."""
        kind = type(values[0])
        places = addresses(values)
        self._note(places)
        if issubclass(kind, type):
            return [below for one in _one_of_each(values, places) for below in self._of_class(one)]
        if self._take_unchanging(kind, values):
            return []
        if id(kind) in _ITEM_IDS:
            below: list[Any] = list(chain.from_iterable(values))
            self._note(pickle.dumps(list(map(len, values)), pickle.HIGHEST_PROTOCOL))
            if id(kind) not in _UNCHANGING_IDS or not ids_of_types(below) <= _ATOM_IDS:
                return list(chain.from_iterable(self._untaken(values, copies)))
            return below
        values = self._untaken(values, copies)
        if not values:
            return []
        if kind is dict:
            return self._below_dicts(values, are_attributes=False)
        if kind is loaded_class("numpy", "ndarray"):
            self._arrays += values
            return []
        return self._below_many(values, self._layout_of(kind))

    def _below_many(self, values: list[Any], layout: _Layout) -> list[Any]:
        self._note(layout.uid.encode())
        watched = list(compress(values, map(weakref.getweakrefcount, values)))
        _expect(len(watched) <= _MOST_OTHERS)
        _expect(not any(find_death_callbacks(value, self._namespace) for value in watched))
        below: list[Any] = []
        for read in layout.slots:
            below += map(read, values)
        if layout.is_tuple:
            self._note(pickle.dumps(list(map(tuple.__len__, values)), pickle.HIGHEST_PROTOCOL))
            below += chain.from_iterable(map(tuple.__iter__, values))
        if layout.has_dict:
            dicts: list[Any] = list(map(object.__getattribute__, values, repeat("__dict__")))
            _expect(ids_of_types(dicts) == {id(dict)} and max(map(sys.getrefcount, dicts)) <= reducers.OWN_HOLDS + 1)
            below += self._below_dicts(dicts, are_attributes=True)
        return below

    def _below_dicts(self, values: list[Any], *, are_attributes: bool) -> list[Any]:
        keys: list[Any] = list(chain.from_iterable(values))
        places = addresses(keys)
        self._note(pickle.dumps(list(map(len, values)), pickle.HIGHEST_PROTOCOL), places)
        distinct = _one_of_each(keys, places)  # mostly the same few texts over and over
        if are_attributes:
            _expect(all(type(name) is str and name[:2] != "__" for name in distinct))
        return [*distinct, *chain.from_iterable(map(dict.values, values))]

    def _untaken(self, values: list[Any], copies: int) -> list[Any]:
        """Those of the objects that were not met before; of such as are held more than once it is counted how often they are met."""
        explained = 2 + copies  # what it was met in, the lists, and getrefcount's argument
        counts = list(map(sys.getrefcount, values))
        if max(counts) <= explained:
            return values
        are_shared = bytes(map(explained.__lt__, counts))
        self._note(are_shared)
        shared = list(compress(values, are_shared))
        self._times_met.update(ids_of(shared))
        distinct = dict(zip(ids_of(shared), shared, strict=True))
        fresh = [one for item, one in distinct.items() if item not in self._shared and item not in self._seen]
        self._shared |= distinct
        return [*compress(values, map(explained.__ge__, counts)), *fresh]

    def _expect_explained(self) -> None:
        """Nothing else may hold any of these but such as were seen one by one: from those on, others are found to share them."""
        shared = self._shared.values()
        explained = [times + 2 for times in map(self._times_met.__getitem__, self._shared)]
        held = list(compress(shared, map(ne, explained, list(map(sys.getrefcount, shared)))))
        _expect(len(held) <= _MOST_OTHERS)
        _expect(all(id(value) in self._seen or _is_unchanging(value) for value in held))

    def _note_atoms(self, values: list[Any]) -> None:
        content = atoms.content_digest(values)
        _expect(bool(content))
        self._note(addresses(values), content)

    def _note(self, *parts: bytes) -> None:
        for part in parts:
            self._content_of_many.update(len(part).to_bytes(8, "little") + part)


_TRIED = 8
_LEVELS_TRIED = 5


def _one_of_each(values: list[Any], places: bytes) -> list[Any]:
    many = len(distinct_ids(places))
    found: dict[int, Any] = {}
    for value in values:
        found.setdefault(id(value), value)
        if len(found) == many:
            break
    return list(found.values())


def _is_unchanging(value: Any) -> bool:
    return id(type(value)) in _UNCHANGING_IDS and ids_of_types(list(value)) <= _ATOM_IDS


def _list_items(container: Any) -> list[Any]:
    return [*container, *container.values()] if type(container) is dict else list(container)


def _some_items(container: Any) -> list[Any]:
    parts = (container, container.values()) if type(container) is dict else (container,)
    return [item for part in parts for item in atoms.some_of(part, _TRIED)]


def _holds_many(container: Any) -> bool:
    """Whether a list, tuple or dict is long, and holds other objects than numbers, texts and arrays."""
    return atoms.is_long(container) and not _begins_with_array(container) and not _seems_of_atoms(container)


def _is_long_alone(values: list[Any]) -> bool:
    """Whether there is but one long container, and of numbers and texts."""
    if len(values) != 1 or not atoms.is_long(values[0]):
        return False
    return not _begins_with_array(values[0]) and _seems_of_atoms(values[0])


def _begins_with_array(container: Any) -> bool:
    return id(type(container)) in _SEQUENCE_IDS and bool(container) and _is_array(container[0])


def _seems_of_atoms(value: Any) -> bool:
    """Whether that is so of some items of a long container. Nearly always it is so of a set, of which to ask takes longer."""
    return type(value) is set or atoms.may_hold_atoms(value)


def _item_bytes(value: Any) -> int:
    return 1 if type(value) is bytearray else value.itemsize


def _read_bytes(value: Any, update: Callable[[Any], object]) -> None:
    """Digest copies of pieces: a view of the memory would keep other threads from appending to it."""
    update(f"{len(value)} {getattr(value, 'typecode', '')}".encode())
    step = _PIECE_BYTES // _item_bytes(value)
    for start in range(0, len(value), step):
        update(value[start : start + step])


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


class _Layout(NamedTuple):
    """What objects of a class consist of that is written in Python."""

    uid: str
    has_dict: bool
    slots: tuple[Callable[[Any], Any], ...]  # each reads one
    is_tuple: bool

    @classmethod
    def of(cls, kind: type, names: LiveNames) -> _Layout:
        """Find that out.

        Raises:
            _UnknownError: how the objects are saved, something else says.
        """
        from agent_kernel.values.reducers.instances import is_saved_as_items

        _expect(not any(kind is other for other in reducers.dispatch_table()))
        is_own = module_name(kind) == "__main__"
        uid = names.uid_of(kind) if is_own else f"{id(kind)} {module_name(kind)}.{qualified_name(kind)}"
        if is_own and is_saved_as_items(kind):
            return cls(uid, has_dict=False, slots=(), is_tuple=True)
        _expect(is_own or (reducers.is_importable(kind) and reducers.is_plain(kind)))
        bases = bases_of(kind)[:-1]
        own: list[Mapping[str, Any]] = [class_dict(base) for base in bases]
        _expect(all(map(is_made_in_python, bases)) and all(map(_says_nothing, own)))
        named = [pair for found in own for pair in found.items() if type(pair[1]) is types.MemberDescriptorType]
        slots = [one for _, one in named]
        has_dict = bool(kind.__dictoffset__)
        _expect((has_dict or bool(slots)) and _has_room_for(kind, len(slots)))
        _expect(all(_is_found(name, one, own) for name, one in named) and _has_own_dict(own))
        saved: Any = class_dict(kind).get("__slotnames__")  # of pickle, where it saved one
        _expect(saved is None or sorted(saved) == sorted(name for name, _ in named))
        return cls(uid, has_dict, tuple(one.__get__ for one in slots), is_tuple=False)


def _has_room_for(kind: type, slots: int) -> bool:
    """Whether these are all the slots of its objects: of one whose descriptor is gone, pickle asks the class by name."""
    offsets = (kind.__dictoffset__, kind.__weakrefoffset__)  # below 0: before the object
    return kind.__basicsize__ == object.__basicsize__ + ADDRESS_BYTES * (slots + sum(at > 0 for at in offsets))


def _is_found(name: str, slot: object, own: list[Mapping[str, Any]]) -> bool:
    """Whether an object's attribute of this name is the slot, and no property of a class below hides it."""
    return next(found[name] for found in own if name in found) is slot


def _has_own_dict(own: list[Mapping[str, Any]]) -> bool:
    return all(is_dict_slot(found["__dict__"]) for found in own if "__dict__" in found)


def _says_nothing(found: Mapping[str, Any]) -> bool:
    """Whether a class with these attributes says nothing of its own of how its objects are saved."""
    return all(id(getattr(found[name], "__code__", None)) in _OF_DATACLASSES for name in _HOOKS & found.keys())


# Of those that are frozen and have slots.
_OF_DATACLASSES = frozenset(
    id(function.__code__)
    for name in ("_dataclass_getstate", "_dataclass_setstate")
    if (function := getattr(dataclasses, name, None)) is not None
)
