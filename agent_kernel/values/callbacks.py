"""Code of the notebook's that something written in C keeps where the garbage collector does not see it.

An object knows how many references to it there are. Those that no object which the collector knows accounts for are kept
out of its sight: functions for queries of a database, for one.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What is looked at here is of any type.

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from operator import call
from typing import Any

_found: dict[int, tuple[Hashable, list[Callable[[], object]]]] = {}


def unseen_callbacks(keeper: object, mark: Hashable, namespace: dict[str, object]) -> list[object]:
    """Functions, methods and the like that are kept out of sight.

    Args:
        mark: what the keeper says of what it keeps. To look takes as long as a collection: not again while this, and
            what was found, are the same.
    """
    known, refs = _found.get(id(keeper), (None, []))
    found = list(map(call, refs))
    if known != (mark, len(found)) or None in found:
        found = _look(namespace)
        _found[id(keeper)] = (mark, len(found)), list(map(_weakly, found))
    return found


def _weakly(value: object) -> Callable[[], object]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _look(namespace: dict[str, object]) -> list[object]:
    bound: Counter[int] = Counter(map(id, namespace.values()))
    functions = [one for one in gc.get_referrers(namespace) if type(one) is types.FunctionType]
    methods = [one for one in gc.get_objects() if type(one) is types.BuiltinFunctionType and _is_of_container(one)]
    asked = _with_more([*functions, *methods], bound)
    del functions, methods
    found: dict[int, object] = {}
    for _ in range(_WRAPPED):
        unseen, wrappers = _split(asked)
        found |= {id(one): one for one in unseen}
        asked = [one for one in wrappers if id(one) not in found]
        if not asked:
            break
    return list(found.values())


_WRAPPED = 3  # a function in a method in a partial
_WRAPPERS = frozenset(map(id, (types.MethodType, functools.partial)))
_CONTAINERS = frozenset(map(id, (list, dict, set, bytearray, deque)))


def _is_of_container(method: Any) -> bool:
    return id(type(method.__self__)) in _CONTAINERS


def _with_more(functions: list[Any], bound: Counter[int]) -> list[Any]:
    """Those that not only the notebook's variables have."""
    counts = list(map(sys.getrefcount, functions))
    return [one for one, count in zip(functions, counts, strict=True) if count > _COUNTED + bound[id(one)]]


# The list, and getrefcount's argument.
_COUNTED = 2


def _split(asked: list[Any]) -> tuple[list[object], list[object]]:
    """Those with references that no object accounts for, and what wraps one of the others."""
    referrers = _referrers(asked)  # first: from Python 3.13 on, the arguments of that very call are among them
    counts = list(map(sys.getrefcount, asked))
    explained: Counter[int] = Counter()
    wrappers: list[object] = []
    ids = set(map(id, asked))
    for holder in referrers:
        explained.update(item for item in map(id, gc.get_referents(holder)) if item in ids)
        if id(type(holder)) in _WRAPPERS:
            wrappers.append(holder)
    # `asked` is among the referrers; getrefcount's argument is not.
    unseen = [one for one, count in zip(asked, counts, strict=True) if count - 1 > explained[id(one)]]
    return unseen, wrappers


def _referrers(asked: Iterable[Any]) -> list[Any]:
    return gc.get_referrers(*asked) if asked else []
