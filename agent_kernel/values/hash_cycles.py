"""Find sets and dicts that one of their items leads back to, where the hash of that item may depend on what it leads to.

pickle fills a set as soon as it has the items. An item that leads back to the set is not finished then: some object on the
way gets what it holds only after the set. A hash that is computed now fails, or differs from the later one, and a look-up
does not find the item. A commit looks for such groups, because to fill sets and dicts last takes several times as long:
only these groups are loaded so.
"""

# What is walked here is anyone's objects.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import gc
import operator
import types
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import accumulate, chain, compress, islice, repeat
from typing import Any

from agent_kernel.quiet import seldom_collected
from agent_kernel.values.aliases import Dump
from agent_kernel.values.introspection import (
    collector_tells_all,
    defines_hash,
    derives_from,
    ids_of,
    module_name,
    referents,
    that_lead_on,
    types_of,
)

_CONTAINERS: tuple[type, ...] = (list, dict, tuple, set, frozenset, types.CellType)
_CONTAINER_IDS = frozenset(map(id, _CONTAINERS))
_FILLED_IDS = frozenset(map(id, (dict, set, frozenset)))
_MOST_WALKED = 200_000  # objects; beyond, a group that may have a cycle counts as one that has


def is_filled_too_early(dump: Dump) -> bool:
    """Whether pickle would fill a set or dict of this dump before the hash of one of its items can be known."""
    noted = [*dump.instances, *dump.opaque]
    kinds = {id(kind) for kind in types_of(noted) if defines_hash(kind) and not _is_left_out(kind)}
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
        return bool(holders) and _has_cycle(_walk(list(chain.from_iterable(holders.values())), noted_ids), holders)


def _is_left_out(kind: type) -> bool:
    """Whether no object of a class is looked at.

    The hash of a builtin method says which object it is of. Parts of a figure lead to all of it, and to walk that would
    take as long as half of its dump: matplotlib keeps none of those with a hash in a set or dict.
    """
    return kind is types.BuiltinMethodType or module_name(kind).startswith("matplotlib.")


def _has_cycle(walked: dict[int, Any], holders: dict[int, list[Any]]) -> bool:
    """Whether an item of a set or dict among `holders` leads back to it."""
    walked = _drop_sources(walked)  # what only leads to a holder is not in a cycle with it
    holders = {item: keys for item, keys in holders.items() if item in walked}
    ids = frozenset(walked)
    # Where all objects lead to each other, one item shows it, much faster than Tarjan's algorithm.
    if any(item in _walk(list(holders[item]), ids) for item in islice(holders, _FEW)):
        return True
    return bool(holders) and any(
        not part.isdisjoint(map(id, holders[item])) for part in _components(walked) for item in part & holders.keys()
    )


_FEW = 2


def _drop_sources(nodes: Mapping[int, Any]) -> dict[int, Any]:
    """Remove the nodes that no other node leads to, until there are none. The rest is in a cycle, or a cycle leads to it."""
    waiting = Counter(_successors(nodes.values(), nodes))  # how many references lead to each
    left = dict(nodes)
    level = list(nodes.keys() - waiting.keys())
    while level:
        taken = [left.pop(item) for item in level]
        followed = Counter(_successors(taken, nodes))
        level = [item for item, count in followed.items() if waiting[item] == count]
        waiting.subtract(followed)
    return left


def _successors(values: Iterable[Any], nodes: Container[int]) -> Iterable[int]:
    """The ids of the nodes that these values refer to, once for each reference, also where two values refer to one node."""
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
        below = that_lead_on(_held_by(level))  # first, because most are texts and numbers
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
    """Whether the hash of an object may depend on other things than those that the collector names."""
    return kind is types.FunctionType or derives_from(kind, weakref.ReferenceType)


def _find_holders(walked: Mapping[int, Any], hashed: AbstractSet[int]) -> dict[int, list[Any]]:
    """The sets and dicts among these by id, each with its items whose hash code defines, or which contain such an item."""
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
    """Leave out builtin sets and dicts whose keys are all texts, say: nearly all are attribute dicts of objects."""
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
    """Whether the hash of an object is made from the hashes of others."""
    return kind is tuple or kind is frozenset or derives_from(kind, weakref.ReferenceType)


def _components(nodes: Mapping[int, Any]) -> Iterator[set[int]]:
    """The ids of the nodes in each strongly connected component.

    Source: Tarjan, Depth-first search and linear graph algorithms (1972), without recursion.
    """
    order: dict[int, int] = {}
    lowest: dict[int, int] = {}
    waiting: dict[int, None] = {}
    for start in nodes:
        path = [] if start in order else [(start, _iterate_successors(start, nodes))]
        while path:
            item, successors = path[-1]
            if item not in order:
                order[item] = lowest[item] = len(order)
                waiting[item] = None
            following = next(successors, None)
            if following is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[item])
                if lowest[item] == order[item]:
                    yield _pop_until(item, waiting)
            elif following not in order:
                path.append((following, _iterate_successors(following, nodes)))
            elif following in waiting:
                lowest[item] = min(lowest[item], order[following])


def _iterate_successors(item: int, nodes: Mapping[int, Any]) -> Iterator[int]:
    return iter(list(_successors([nodes[item]], nodes)))


def _pop_until(item: int, waiting: dict[int, None]) -> set[int]:
    """Remove and return the last ids, back to `item`."""
    part: set[int] = set()
    while item not in part:
        part.add(waiting.popitem()[0])
    return part
