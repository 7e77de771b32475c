"""Load groups in which a set or dict has an item that leads back to it, by filling sets and dicts after all objects are made.

Until the end a set or dict is empty, so code of a class that runs before, and is given one, would find nothing in it. The
sets and dicts that go into such a call are therefore filled before it (`require_full`), and filled again at the end.
"""

# What is loaded here is anyone's objects.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import collections
import ctypes
import functools
import io
import pickle
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, cast

from agent_kernel.values import restore
from agent_kernel.values.introspection import ATOM_IDS, bases_of, class_dict, derives_from, module_name
from agent_kernel.values.restore.objects import (
    container_own_dict,
    container_state,
    exact_instance,
    instance,
    made_by,
    set_attributes,
)
from agent_kernel.values.streams import Finding, drop_operands, target_of_step

# The steps of Python's unpickler are private, and have no types.

_python: Any = pickle
_Python: Any = _python._Unpickler


class HashingLastUnpickler(Finding, _Python):  # type: ignore[misc]
    """Fills sets and dicts at the end: until then an item that leads to one may have no hash, or another hash."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(_Python.dispatch)

    def __init__(self, stream: io.BytesIO, buffers: Iterator[Any], anchors: list[object]) -> None:
        super().__init__(stream, buffers, anchors)
        self._fills: dict[int, _LateFill] = {}
        self._frozen_sets: dict[int, _LateFrozenSet] = {}
        self._calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def load(self) -> object:
        made: object = super().load()
        # Frozen sets first, because they may be items of sets and dicts. The innermost one was made first.
        containers: list[_LateFill | _LateFrozenSet] = [*self._frozen_sets.values(), *self._fills.values()]
        calls = self._calls
        self._fills, self._frozen_sets, self._calls = {}, {}, []
        for one in containers:
            one.fill()
        for call, arguments in calls:
            call(*arguments)
        return made

    def call_last(self, call: Callable[..., object], *arguments: Any) -> None:
        """Put items that may have no hash yet into a container at the end, by this call."""
        self._calls.append((call, arguments))

    def require_full(self, parts: Iterable[object]) -> None:
        """Fill the sets and dicts among the parts of a call now: its code may read them.

        Raises:
            BaseException: what the hash of an item raises. The call is not made then.
        """
        for part in parts:
            found: _LateFill | _LateFrozenSet | None = self._fills.get(id(part)) or self._frozen_sets.get(id(part))
            if found is not None:
                found.fill()
            elif type(part) is tuple:
                self.require_full(part)

    def keep_for_end(self, target: Any, items: Sequence[Any]) -> bool:
        """Keep items (a key, and perhaps a value) of a set or dict for the end. Returns False if they can go in now."""
        known = self._fills.get(id(target))
        if known is None and any(id(type(key)) not in ATOM_IDS for key, *_ in items):
            known = self._fills[id(target)] = _LateFill(target)
        if known is not None:
            known.items.update((id(item[0]), item) for item in items)
        return known is not None

    def freeze(self, kind: type, items: list[Any]) -> object:
        """Make a frozen set that gets its items at the end."""
        found = _LateFrozenSet(kind, items)
        self._frozen_sets[id(found.made)] = found
        return found.made


class _LateFill:
    """A set or dict, and the items that the stream puts into it, by the ids of their keys."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.items: dict[int, Any] = {}
        self.is_full = False

    def fill(self) -> None:
        """Put all items in. If they are in already, empty it first, because the hashes may have changed."""
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
    """The items of a set or dict, without asking for a hash."""
    is_set = derives_from(type(target), set)
    return [(key,) for key in set.__iter__(target)] if is_set else list(dict.items(target))


def _empty(target: Any) -> Callable[..., object]:
    """Empty a set or dict. Returns the function that puts one item in, past any override."""
    base: Any = next(kind for kind in (set, collections.OrderedDict, dict) if derives_from(type(target), kind))
    base.clear(target)
    return functools.partial(base.add if base is set else base.__setitem__, target)


class _LateFrozenSet:
    """A frozen set, and the items that it gets at the end."""

    def __init__(self, kind: type, items: list[Any]) -> None:
        # With one item that stands for the others: all empty frozen sets are the same object.
        self.made: Any = frozenset.__new__(kind, (object(),))
        self.items = items

    def fill(self) -> None:
        """Put all items in, with `set` as its type for that moment.

        Python has no other way to fill a frozen set that leads to itself. `set.clear` also forgets the hash.
        """
        kind = ctypes.c_void_p.from_address(id(self.made) + object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p))
        before, kind.value = kind.value, id(set)
        try:
            set.clear(self.made)
            set.update(self.made, self.items)
        finally:
            kind.value = before


def _wrap_hashing_fill(step: Callable[[Any], None], below: int) -> Callable[[Any], None]:
    """Wrap a step that fills a set or dict: its items wait for the end, unless all keys are numbers and texts."""

    def load(self: Any) -> None:
        target = target_of_step(self, below)
        is_set = derives_from(type(target), set)
        if not is_set and not derives_from(type(target), dict):
            step(self)
            return
        given = iter(self.stack[1 - below :] if below else list(self.stack))
        if not self.keep_for_end(target, [(key,) for key in given] if is_set else list(zip(given, given, strict=True))):
            step(self)
        else:
            drop_operands(self, below)

    return load


for _code, _below in ((pickle.SETITEM, 3), (pickle.SETITEMS, 0), (pickle.ADDITEMS, 0)):
    HashingLastUnpickler.dispatch[_code[0]] = _wrap_hashing_fill(_Python.dispatch[_code[0]], _below)


def _freeze(self: Any) -> None:
    items = self.pop_mark()
    self.append(frozenset(items) if _are_atoms(items) else self.freeze(frozenset, items))


def _are_atoms(items: Iterable[object]) -> bool:
    return all(id(type(item)) in ATOM_IDS for item in items)


HashingLastUnpickler.dispatch[pickle.FROZENSET[0]] = _freeze

# Types that take their items as argument. They are made empty here, and each gets its items later by this call.
_GIVEN_ITEMS: dict[Any, Callable[..., object]] = {
    weakref.WeakSet: weakref.WeakSet[Any].update,
    weakref.WeakKeyDictionary: weakref.WeakKeyDictionary[Any, Any].update,
    collections.Counter: dict[Any, Any].update,
}


def _find_frozen(call: Any, arguments: tuple[Any, ...]) -> tuple[type, list[Any]] | None:
    """The class and the items of the frozen set that a call makes. None if it makes something else, or runs code of the class."""
    if call is made_by and len(arguments) == 3 and arguments[1] is frozenset:
        return arguments[0], list(arguments[2])
    is_plain = type(call) is type and derives_from(call, frozenset) and call.__new__ is cast("Any", frozenset).__new__
    return (call, list(arguments[0])) if is_plain and len(arguments) == 1 else None


def _is_builtin_exception(kind: type) -> bool:
    return derives_from(kind, BaseException) and module_name(kind) == "builtins"


# Of our functions those that hand what they are given to code of a class.
_MAKE_OF_CONTENT: tuple[Any, ...] = (made_by, instance, exact_instance, set_attributes)


def _only_holds(call: Any) -> bool:
    """Whether a call reads nothing from the sets and dicts that it is given: most of our functions, a view, a named tuple."""
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
    """A call. If it fills a container, or makes one from items, the items wait for the end."""
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
    if _is_set_or_dict(made) and not any(made is part for part in arguments):
        self.call_last(hash_anew, [made])


def hash_anew(memo: Iterable[Any]) -> None:
    """Empty the sets and dicts among these, and put their items in again, because the hashes may have changed."""
    for made in [made for made in memo if _may_hold_hashed(made)]:
        items = _items_in(made)
        put = _empty(made)
        for item in items:
            put(*item)


def _may_hold_hashed(made: Any) -> bool:
    return _is_set_or_dict(made) and any(id(type(key)) not in ATOM_IDS for key, *_ in _items_in(made))


def _is_set_or_dict(made: Any) -> bool:
    return derives_from(type(made), set) or derives_from(type(made), dict)


def _wrap_hashing_make(step: Callable[[Any], None], taken: int) -> Callable[[Any], None]:
    """Wrap a step that takes this many parts of the stack and may run code of the first, a class."""

    def load(self: Any) -> None:
        if not _only_holds(self.stack[-taken]):
            self.require_full(self.stack[1 - taken :])
        step(self)

    return load


HashingLastUnpickler.dispatch[pickle.REDUCE[0]] = _reduce_hashing
for _code, _taken in ((pickle.NEWOBJ, 2), (pickle.NEWOBJ_EX, 3)):
    HashingLastUnpickler.dispatch[_code[0]] = _wrap_hashing_make(_Python.dispatch[_code[0]], _taken)


# Modules whose `__setstate__` only sets attributes.
_SET_ATTRIBUTES_ALONE = frozenset({"attr._make", "dataclasses", "pydantic.main"})


def _build_hashing(self: Any) -> None:
    state = self.stack[-1]
    takes_state = getattr(type(self.stack[-2]), "__setstate__", None)
    # A class without one, or with one in C, counts as one that only sets attributes.
    if getattr(takes_state, "__module__", "attr._make") not in _SET_ATTRIBUTES_ALONE:
        self.require_full(state.values() if type(state) is dict else (state,))
    _Python.dispatch[pickle.BUILD[0]](self)


HashingLastUnpickler.dispatch[pickle.BUILD[0]] = _build_hashing
