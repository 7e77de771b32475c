"""What a function with `functools.lru_cache` keeps: which calls, and which of their results others hold too."""

# What is cached is of any type.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import enum
import gc
import sys
import types
from functools import cache
from typing import Any

from agent_kernel.values.restore.code import Called
from agent_kernel.values.summaries.reading import bases_of, referents

_MOST_BELOW = 500  # objects of a result that are looked at; a larger one counts as shared
# Nobody sees whether one of these is another object. By id: hashing a type runs its metaclass.
_PLAIN_IDS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None), type(...), range)))
_CONTAINER_IDS = frozenset(map(id, (list, tuple, dict, set, frozenset)))
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, enum.Enum)


def shared_entries(cached: Any) -> tuple[Called, ...]:
    """The calls, the last used last, whose results something else holds too, or a part of them."""
    if type(cached.__wrapped__) is not types.FunctionType:
        return ()
    keys, results, mark = _entries(cached)
    shared = _are_shared(results, _of_result())
    typed: bool = cached.cache_parameters()["typed"]
    return tuple((*_arguments(key, mark, typed), results[at]) for at, key in enumerate(keys) if shared[at])


def results_of(cached: Any) -> list[Any]:
    return _entries(cached)[1]


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
    return [_is_shared(result, explained) for result in results]


def _is_shared(result: Any, explained: int) -> bool:
    """Whether anything but the cache holds a result, or anything but the result something below it."""
    seen = 0
    level = [result]
    while level:
        counts = list(map(sys.getrefcount, level))
        kept = [at for at, value in enumerate(level) if not _is_plain(value)]
        seen += len(level)
        if seen > _MOST_BELOW or any(counts[at] > explained for at in kept):
            return True
        level = referents([level[at] for at in kept if _is_entered(level[at])])
        explained = _BELOW_IT
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
