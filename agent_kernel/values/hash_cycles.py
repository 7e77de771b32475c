"""Sets and dicts of which an item leads back to them, where the hash of that item may come of what it leads to.

pickle fills a set as soon as it has the items. An item that leads back to the set is not finished then: some object on the
way gets what it holds only after the set. A hash that is computed now fails, or is another one than later, and the item is
not found any more. A commit finds such groups, and only they are loaded with sets and dicts filled last: that takes several
times as long.
"""

# What is walked here is anyone's objects.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import collections
import ctypes
import functools
import gc
import io
import operator
import pickle
import types
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, chain, compress, islice, repeat
from typing import Any, ClassVar, cast

from agent_kernel.quiet import seldom_collected
from agent_kernel.values import restore
from agent_kernel.values.aliases import Dump
from agent_kernel.values.introspection import (
    ATOM_IDS,
    bases_of,
    class_dict,
    collector_tells_all,
    derives_from,
    ids_of,
    module_name,
    referents,
    says_hash,
    that_lead_on,
    types_of,
)
from agent_kernel.values.restore.objects import (
    container_own_dict,
    container_state,
    exact_instance,
    instance,
    made_by,
    set_attributes,
)
from agent_kernel.values.streams import Finding

_CONTAINERS: tuple[type, ...] = (list, dict, tuple, set, frozenset, types.CellType)
_CONTAINER_IDS = frozenset(map(id, _CONTAINERS))
_FILLED_IDS = frozenset(map(id, (dict, set, frozenset)))
_MOST_WALKED = 200_000  # objects; of more, nobody waits for an answer


def is_filled_too_early(dump: Dump) -> bool:
    """Whether a set or dict of what was dumped is filled before the hash of one of its items can be known."""
    noted = [*dump.instances, *dump.opaque]
    kinds = {id(kind) for kind in types_of(noted) if says_hash(kind)}
    if not kinds:
        return False
    hashed = list(compress(noted, map(kinds.__contains__, ids_of(map(type, noted)))))
    noted_ids, hashed_ids = frozenset(ids_of(noted)), frozenset(ids_of(hashed))
    del noted
    with seldom_collected():
        walked = _walk(hashed, noted_ids)
        holders = _find_holders(walked, hashed_ids)
        if dump.is_flat or len(walked) > _MOST_WALKED:
            return bool(holders)
        return bool(holders) and _has_circle(
            _walk([key for keys in holders.values() for key in keys], noted_ids), holders
        )


def _has_circle(walked: dict[int, Any], holders: dict[int, list[Any]]) -> bool:
    """Whether a set or dict among these is led to by one of the items that it has here."""
    walked = _without_ends(walked)  # what only leads to a holder is in no circle with it
    holders = {item: keys for item, keys in holders.items() if item in walked}
    ids = frozenset(walked)
    # Of objects that all lead to each other, to follow one is enough, and much faster than to find which do.
    if any(item in _walk(list(holders[item]), ids) for item in islice(holders, _FEW)):
        return True
    return bool(holders) and any(
        not part.isdisjoint(map(id, holders[item])) for part in _components(walked) for item in part & holders.keys()
    )


_FEW = 2


def _without_ends(nodes: Mapping[int, Any]) -> dict[int, Any]:
    """Without those that nothing else of these leads to, again and again: what is left is in circles, or led to by one.

    All of one level are taken at once.
    """
    waiting = Counter(_ways_of(nodes.values(), nodes))  # how many ways lead to each
    left = dict(nodes)
    level = list(nodes.keys() - waiting.keys())
    while level:
        taken = [left.pop(item) for item in level]
        followed = Counter(_ways_of(taken, nodes))
        level = [item for item, count in followed.items() if waiting[item] == count]
        waiting.subtract(followed)
    return left


def _ways_of(values: Iterable[Any], nodes: Container[int]) -> Iterable[int]:
    """The ids of the nodes that these lead to, for each way: of each object it is told what it would be told alone."""
    values = list(values)
    plain = frozenset(id(kind) for kind in types_of(values) if not _is_special(kind) and collector_tells_all(kind))
    are_plain = list(map(plain.__contains__, ids_of(map(type, values))))
    below = list(chain.from_iterable(map(gc.get_referents, compress(values, are_plain))))
    for value in compress(values, map(operator.not_, are_plain)):
        below += _held_by([value])
    return filter(nodes.__contains__, ids_of(below))


def _walk(level: list[Any], noted: AbstractSet[int]) -> dict[int, Any]:
    """What these objects lead to, by id: only what was dumped, and the containers between."""
    found: dict[int, Any] = dict(zip(ids_of(level), level, strict=True))
    while level and len(found) <= _MOST_WALKED:
        below = that_lead_on(_held_by(level))  # first: most are texts and numbers
        fresh = dict(zip(ids_of(below), below, strict=True))
        for known in fresh.keys() & found.keys():
            del fresh[known]
        values = list(fresh.values())
        between = frozenset(id(kind) for kind in types_of(values) if _is_between(kind))
        are_between = map(between.__contains__, ids_of(map(type, values)))
        level = list(compress(values, map(operator.or_, are_between, map(noted.__contains__, fresh))))
        found.update(zip(ids_of(level), level, strict=True))
    return found


def _is_between(kind: type) -> bool:
    return id(kind) in _CONTAINER_IDS or derives_from(kind, weakref.ReferenceType)


def _held_by(values: list[Any]) -> list[Any]:
    special = list(filter(_is_special, types_of(values)))
    if not special:
        return referents(values)
    ids = frozenset(map(id, special))
    below = referents([value for value in values if id(type(value)) not in ids])
    for value in (value for value in values if id(type(value)) in ids):
        if type(value) is types.FunctionType:  # its globals are the namespace
            below += (value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__)
        else:
            below.append(value())
    return below


def _is_special(kind: type) -> bool:
    """Whether what the collector tells of an object is not what its hash may come of."""
    return kind is types.FunctionType or derives_from(kind, weakref.ReferenceType)


def _find_holders(walked: Mapping[int, Any], hashed: AbstractSet[int]) -> dict[int, list[Any]]:
    """The sets and dicts among these, and their items of which code says the hash, or that are made of such."""
    values = list(walked.values())
    kinds = frozenset(id(kind) for kind in types_of(values) if _is_filled(kind))
    filled = list(compress(values, map(kinds.__contains__, ids_of(map(type, values)))))
    found: dict[int, list[Any]] = {}
    for value in _that_may_hold(filled, hashed):
        keys = [key for key in _keys_of(value) if id(key) in hashed or _passes_on(type(key))]
        if keys:
            found[id(value)] = keys
    return found


def _that_may_hold(filled: list[Any], hashed: AbstractSet[int]) -> Iterator[Any]:
    """Without the builtin sets and dicts that hold nothing else than texts, say: nearly all are attribute dicts of objects."""
    are_builtin = list(map(_FILLED_IDS.__contains__, ids_of(map(type, filled))))
    yield from compress(filled, map(operator.not_, are_builtin))
    builtin = list(compress(filled, are_builtin))
    keys = list(chain.from_iterable(builtin))
    kinds = frozenset(id(kind) for kind in types_of(keys) if _passes_on(kind))
    may = map(operator.or_, map(hashed.__contains__, ids_of(keys)), map(kinds.__contains__, ids_of(map(type, keys))))
    ends = list(accumulate(map(len, builtin)))
    places = list(compress(range(len(keys)), may))
    yield from map(builtin.__getitem__, dict.fromkeys(map(bisect_right, repeat(ends), places)))


def _is_filled(kind: type) -> bool:
    return any(derives_from(kind, base) for base in (set, frozenset, dict))


def _keys_of(value: Any) -> Iterable[Any]:
    kind = type(value)
    base: Any = next(base for base in (set, frozenset, dict) if derives_from(kind, base))
    keys: Iterable[Any] = base.__iter__(value)
    return keys


def _passes_on(kind: type) -> bool:
    """Whether the hash of an object is made of those of others."""
    return kind is tuple or kind is frozenset or derives_from(kind, weakref.ReferenceType)


def _components(nodes: Mapping[int, Any]) -> Iterator[set[int]]:
    """The ids of those that lead to each other, one strongly connected component after the other.

    Source: Tarjan, Depth-first search and linear graph algorithms (1972), without recursion.
    """
    order: dict[int, int] = {}
    lowest: dict[int, int] = {}
    waiting: dict[int, None] = {}
    for start in nodes:
        path = [] if start in order else [(start, _ways_from(start, nodes))]
        while path:
            item, ways = path[-1]
            if item not in order:
                order[item] = lowest[item] = len(order)
                waiting[item] = None
            following = next(ways, None)
            if following is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[item])
                if lowest[item] == order[item]:
                    yield _take_until(item, waiting)
            elif following not in order:
                path.append((following, _ways_from(following, nodes)))
            elif following in waiting:
                lowest[item] = min(lowest[item], order[following])


def _ways_from(item: int, nodes: Mapping[int, Any]) -> Iterator[int]:
    return iter(list(_ways_of([nodes[item]], nodes)))


def _take_until(item: int, waiting: dict[int, None]) -> set[int]:
    """Those that came after an object, and itself."""
    part: set[int] = set()
    while item not in part:
        part.add(waiting.popitem()[0])
    return part


# -- load such groups: what a set or dict holds goes in when all objects are finished
#
# The steps of Python's unpickler are no part of its interface, and have no types.

_python: Any = pickle
_Python: Any = _python._Unpickler


class HashingLastUnpickler(Finding, _Python):  # type: ignore[misc]
    """Fills sets and dicts at the end: their items may lead to them, and have no hash before, or another one."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(_Python.dispatch)

    def __init__(self, stream: io.BytesIO, buffers: Iterator[Any], anchors: list[object]) -> None:
        super().__init__(stream, buffers, anchors)
        self._filled: dict[int, _Filled] = {}
        self._frozen: dict[int, _Frozen] = {}
        self._calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def load(self) -> object:
        made: object = super().load()
        # What lies deepest in frozen sets was made first; these may be items of sets.
        containers: list[_Filled | _Frozen] = [*self._frozen.values(), *self._filled.values()]
        calls = self._calls
        self._filled, self._frozen, self._calls = {}, {}, []
        for one in containers:
            one.fill()
        for call, arguments in calls:
            call(*arguments)
        return made

    def call_last(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call at the end what puts items into a container that may have no hash yet."""
        self._calls.append((call, arguments))

    def require_full(self, parts: Iterable[object]) -> None:
        """What is made of a set or dict, or set from one, needs all that is in it.

        Raises:
            BaseException: why something cannot go in yet; nothing is made of the rest.
        """
        for part in parts:
            found: _Filled | _Frozen | None = self._filled.get(id(part)) or self._frozen.get(id(part))
            if found is not None:
                found.fill()
            elif type(part) is tuple:
                self.require_full(part)

    def waits(self, target: Any, items: Sequence[Any]) -> bool:
        """Whether these items go into a set or dict at the end: each is its key, and perhaps a value."""
        known = self._filled.get(id(target))
        if known is None and any(id(type(key)) not in ATOM_IDS for key, *_ in items):
            known = self._filled[id(target)] = _Filled(target)
        if known is not None:
            known.items.update((id(item[0]), item) for item in items)
        return known is not None

    def freeze(self, kind: type, items: list[Any]) -> object:
        """A frozen set that gets its items at the end."""
        found = _Frozen(kind, items)
        self._frozen[id(found.made)] = found
        return found.made


class _Filled:
    """A set or dict, and what the stream puts into it: by the ids of the keys, with their values."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.items: dict[int, Any] = {}
        self.is_full = False

    def fill(self) -> None:
        """Put all in, anew where that was done before: the hashes may be others by now."""
        target = self.target
        items = list(self.items.values())
        put: Callable[..., object] = target.add if derives_from(type(target), set) else target.__setitem__
        if self.is_full:
            items = [*(item for item in _items_in(target) if id(item[0]) not in self.items), *items]
            put = _empty(target)
        self.is_full = True
        for item in items:
            put(*item)


def _items_in(target: Any) -> list[tuple[Any, ...]]:
    """The items of a set or dict, without a look at a hash."""
    is_set = derives_from(type(target), set)
    return [(key,) for key in set.__iter__(target)] if is_set else list(dict.items(target))


def _empty(target: Any) -> Callable[..., object]:
    """Empty a set or dict; returns what puts one item in, past any override."""
    base: Any = next(kind for kind in (set, collections.OrderedDict, dict) if derives_from(type(target), kind))
    base.clear(target)
    return functools.partial(base.add if base is set else base.__setitem__, target)


class _Frozen:
    """A frozen set that is empty but for what stands for its items, and those."""

    def __init__(self, kind: type, items: list[Any]) -> None:
        self.made: Any = frozenset.__new__(kind, (object(),))
        self.items = items

    def fill(self) -> None:
        """Put all in, whoever holds it already, and forget a hash that it had. Python has no other way to what leads to itself."""
        kind = ctypes.c_void_p.from_address(id(self.made) + object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p))
        before, kind.value = kind.value, id(set)
        try:
            set.clear(self.made)
            set.update(self.made, self.items)
        finally:
            kind.value = before


def _wrap_hashing_fill(step: Callable[[Any], None], below: int) -> Callable[[Any], None]:
    """A step that fills a set or dict: what comes of other items than numbers and texts waits for the end."""

    def load(self: Any) -> None:
        target = self.stack[-below] if below else self.metastack[-1][-1]
        is_set = derives_from(type(target), set)
        if not is_set and not derives_from(type(target), dict):
            step(self)
            return
        given = iter(self.stack[1 - below :] if below else list(self.stack))
        if not self.waits(target, [(key,) for key in given] if is_set else list(zip(given, given, strict=True))):
            step(self)
        elif below:
            del self.stack[1 - below :]
        else:
            self.pop_mark()

    return load


for _code, _below in ((pickle.SETITEM, 3), (pickle.SETITEMS, 0), (pickle.ADDITEMS, 0)):
    HashingLastUnpickler.dispatch[_code[0]] = _wrap_hashing_fill(_Python.dispatch[_code[0]], _below)


def _freeze(self: Any) -> None:
    items = self.pop_mark()
    self.append(frozenset(items) if _are_atoms(items) else self.freeze(frozenset, items))


def _are_atoms(items: Iterable[object]) -> bool:
    return all(id(type(item)) in ATOM_IDS for item in items)


HashingLastUnpickler.dispatch[pickle.FROZENSET[0]] = _freeze

# What is made of its items, and can be made empty and given them later.
_GIVEN_ITEMS: dict[Any, Callable[..., object]] = {
    weakref.WeakSet: weakref.WeakSet[Any].update,
    weakref.WeakKeyDictionary: weakref.WeakKeyDictionary[Any, Any].update,
    collections.Counter: dict[Any, Any].update,
}


def _find_frozen(call: Any, arguments: tuple[Any, ...]) -> tuple[type, list[Any]] | None:
    """The class and the items of a frozen set, where a call makes one, and no code of the class does."""
    if call is made_by and len(arguments) == 3 and arguments[1] is frozenset:
        return arguments[0], list(arguments[2])
    is_plain = type(call) is type and derives_from(call, frozenset) and call.__new__ is cast("Any", frozenset).__new__
    return (call, list(arguments[0])) if is_plain and len(arguments) == 1 else None


def _is_builtin_exception(kind: type) -> bool:
    return derives_from(kind, BaseException) and module_name(kind) == "builtins"


_MAKE_OF_CONTENT: tuple[Any, ...] = (made_by, instance, exact_instance, set_attributes)  # by code of another class


def _only_holds(call: Any) -> bool:
    """Whether what a call is given does not have to be full: a function of ours, a view, a tuple with names."""
    if type(call) is types.FunctionType:
        is_ours = call.__module__.startswith(f"{restore.__name__}.")
        return is_ours and not any(call is makes for makes in _MAKE_OF_CONTENT)
    if call is types.MappingProxyType or (derives_from(type(call), type) and _is_builtin_exception(call)):
        return True
    making = (
        next((base for base in bases_of(call) if "__new__" in class_dict(base)), None) if type(call) is type else None
    )
    return making is tuple or (making is not None and derives_from(making, tuple) and "_fields" in class_dict(making))


def _reduce_hashing(self: Any) -> None:
    """A call: of what fills a container of a class of its own, or makes one of items, the items wait for the end."""
    call, arguments = self.stack[-2:]
    if any(call is fills for fills in (container_state, container_own_dict)) and not derives_from(
        type(arguments[0]), list
    ):
        made, (attributes, items) = arguments
        self.stack[-1] = made, (attributes, ())
        self.call_last(container_state, made, (None, items))
    elif len(arguments) == 1 and (give := next((give for kind, give in _GIVEN_ITEMS.items() if call is kind), None)):
        self.stack[-1] = ()
        _Python.dispatch[pickle.REDUCE[0]](self)
        self.call_last(give, self.stack[-1], *arguments)
        return
    elif (frozen := _find_frozen(call, arguments)) is not None and not _are_atoms(frozen[1]):
        self.stack[-2:] = [self.freeze(*frozen)]
        return
    elif not _only_holds(call):
        self.require_full(arguments)
    _Python.dispatch[pickle.REDUCE[0]](self)
    made = self.stack[-1]
    if (derives_from(type(made), set) or derives_from(type(made), dict)) and not any(
        made is part for part in arguments
    ):
        self.call_last(hash_anew, [made])


def hash_anew(memo: Iterable[Any]) -> None:
    """Put into each set and dict among these what it holds, once more."""
    for made in [made for made in memo if _may_hold_hashed(made)]:
        items = _items_in(made)
        put = _empty(made)
        for item in items:
            put(*item)


def _may_hold_hashed(made: Any) -> bool:
    is_filled = derives_from(type(made), set) or derives_from(type(made), dict)
    return is_filled and any(id(type(key)) not in ATOM_IDS for key, *_ in _items_in(made))


def _wrap_hashing_make(step: Callable[[Any], None], taken: int) -> Callable[[Any], None]:
    """A step that may run code of a class, the first of these many parts of the stack."""

    def load(self: Any) -> None:
        if not _only_holds(self.stack[-taken]):
            self.require_full(self.stack[1 - taken :])
        step(self)

    return load


HashingLastUnpickler.dispatch[pickle.REDUCE[0]] = _reduce_hashing
for _code, _taken in ((pickle.NEWOBJ, 2), (pickle.NEWOBJ_EX, 3)):
    HashingLastUnpickler.dispatch[_code[0]] = _wrap_hashing_make(_Python.dispatch[_code[0]], _taken)


_SET_ATTRIBUTES_ALONE = frozenset(
    {"attr._make", "dataclasses", "pydantic.main"}
)  # the modules of such a `__setstate__`


def _build_hashing(self: Any) -> None:
    state = self.stack[-1]
    if (
        getattr(getattr(type(self.stack[-2]), "__setstate__", None), "__module__", "attr._make")
        not in _SET_ATTRIBUTES_ALONE
    ):
        self.require_full(state.values() if type(state) is dict else (state,))
    _Python.dispatch[pickle.BUILD[0]](self)


HashingLastUnpickler.dispatch[pickle.BUILD[0]] = _build_hashing
