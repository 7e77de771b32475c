"""Put back what code of the notebook's changes while it is loaded: what it counts and registers, it has done already.

A `__setstate__` or a `__new__` may append to a list of its class, count in a global, keep the last object. What classes
say and what such code uses is noted before it can run, or as it is loaded; afterwards all of it is as it was noted.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What classes and variables hold is of any type.

from __future__ import annotations

import copy
import copyreg
import dis
import enum
import itertools
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent_kernel.values.addresses import ids_of
from agent_kernel.values.classes import DICTS, Content, containers_below
from agent_kernel.values.restore.objects import set_content
from agent_kernel.values.summaries.reading import bases_of, class_dict, module_name

_MISSING = object()
# Loading an object may run these in any case, and those only where the class says itself how its objects are made.
_HOOKS = ("__setstate__", "__new__", "__hash__", "__eq__", "__setattr__", "__getattr__", "__getattribute__")
_HOOKS_OF_MAKING = ("__init__", "__post_init__")
# Making a class runs the first of its bases, and a person's call of a metaclass the others.
_HOOKS_OF_CLASSES = ("__init_subclass__", "__init__", "__new__", "__call__")
_COUNTED_IDS = frozenset(map(id, (int, float, itertools.count)))
_SAY_HOW = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")


class Guard:
    """Notes what is there, and puts it back."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self._namespace = namespace
        self._attributes: dict[tuple[int, str], tuple[type, object]] = {}
        self._names: dict[int, tuple[type, frozenset[str]]] = {}
        self._contents: dict[int, tuple[Any, Any]] = {}
        self._bound: dict[str, object] = {}
        self._seen: dict[int, object] = {}

    def put_back(self) -> None:
        for name, value in self._bound.items():
            if self._namespace.get(name, _MISSING) is not value:
                if value is _MISSING:
                    self._namespace.pop(name, None)
                else:
                    self._namespace[name] = value
        for made, content in self._contents.values():
            if not _holds(made, content):
                set_content(made, content)
        for (_, name), (kind, held) in self._attributes.items():
            if class_dict(kind).get(name, _MISSING) is not held or type(held) is itertools.count:
                type.__setattr__(kind, name, held)
        for kind, names in self._names.values():
            for name in [name for name in class_dict(kind) if name not in names and not name.startswith("__")]:
                type.__delattr__(kind, name)

    # -- what is noted

    def keep_class(self, kind: type) -> None:
        """What a class that lives says, and holds."""
        if id(kind) in self._seen or issubclass(type(kind), enum.EnumType):  # the masks of a flag grow with its members
            return
        self._seen[id(kind)] = kind
        self._names[id(kind)] = kind, frozenset(class_dict(kind))
        said = {name: held for name, held in list(class_dict(kind).items()) if not name.startswith("__")}
        for name, held in said.items():
            self.keep_attribute(kind, name, held)
        self.keep_containers(said.values())

    def keep_attribute(self, kind: type, name: str, held: object) -> None:
        if not name.startswith("__"):
            self._attributes[id(kind), name] = kind, copy.copy(held) if type(held) is itertools.count else held

    def keep_content(self, made: object, content: object) -> None:
        """What a container holds that was just loaded."""
        self._contents[id(made)] = made, content

    def keep_containers(self, values: Iterable[object]) -> None:
        for container in containers_below(values, self._contents):
            self.keep_content(container, Content(container).items)

    def keep_registers(self, bases: Iterable[type], meta: type) -> list[object]:
        """What code of modules may note when a class is made of these bases: containers, which are returned, and attributes."""
        above = {id(base): base for one in (*bases, meta) for base in bases_of(one) if module_name(base) != "__main__"}
        hooks = [(base, _function(class_dict(base).get(name))) for base in above.values() for name in _HOOKS_OF_CLASSES]
        found: list[object] = []
        for base, function in hooks:
            if function is None or function.__globals__ is self._namespace:
                continue
            said = {name: held for name, held in list(class_dict(base).items()) if not name.startswith("__")}
            for name, held in said.items():
                if id(type(held)) in _COUNTED_IDS:
                    self.keep_attribute(base, name, held)
            used = {name for code in nested_codes(function.__code__) for name in code.co_names}
            held_there = (function.__globals__[name] for name in used & function.__globals__.keys())
            found += containers_below((*said.values(), *held_there))
        for container in found:
            if id(container) not in self._contents:
                self.keep_content(container, Content(container).items)
        return found

    def keep_globals(self, kind: type) -> None:
        """The variables that code of the class may change when its objects are loaded."""
        self.keep_used(codes_run(kind, self._namespace, self._seen))

    def keep_used(self, codes: Iterable[types.CodeType]) -> None:
        """The variables that code may change."""
        used: set[str] = set()
        for code in codes:
            used.update(code.co_names)
            for step in dis.get_instructions(code):
                if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                    self._bound.setdefault(step.argval, self._namespace.get(step.argval, _MISSING))
        self.keep_containers(self._namespace[name] for name in used & self._namespace.keys())


def replace_in(containers: Iterable[object], instead: Mapping[int, object]) -> None:
    """Put other objects, by the ids of those before, into these containers."""
    for container in {id(one): one for one in containers}.values():
        items = Content(container).items
        if instead.keys().isdisjoint(_parts(container, items)):
            continue

        def now(item: Any) -> Any:
            return instead.get(id(item), item)

        if type(items) is dict:
            set_content(container, {now(key): now(value) for key, value in items.items()})
        elif issubclass(type(container), DICTS):
            set_content(container, [(now(key), now(value)) for key, value in items])
        else:
            set_content(container, list(map(now, items)))


def codes_run(kind: type, namespace: dict[str, object], seen: dict[int, object]) -> Iterator[types.CodeType]:
    """The code that saving and loading an object may run, and what that calls, as far as names tell."""
    bases = [base for base in bases_of(kind) if module_name(base) == "__main__"]
    found = {name: held for base in reversed(bases) for name, held in class_dict(base).items()}
    hooks = [*_HOOKS]
    if any(kind is other for other in copyreg.dispatch_table) or not found.keys().isdisjoint(_SAY_HOW):
        hooks += (*_SAY_HOW, *_HOOKS_OF_MAKING)
        meta = [base for base in bases_of(type(kind)) if module_name(base) == "__main__"]
        found |= {f"{name} of the metaclass": held for base in meta for name, held in class_dict(base).items()}
        hooks.append("__call__ of the metaclass")
    todo = [found[name] for name in hooks if name in found]
    while todo:
        function = _function(todo.pop())
        if function is None or function.__globals__ is not namespace or id(function) in seen:
            continue
        seen[id(function)] = function
        for code in nested_codes(function.__code__):
            yield code
            todo += [found[name] for name in code.co_names if name in found]
            todo += [namespace[name] for name in code.co_names if name in namespace]


def names_run(kinds: Iterable[type], namespace: dict[str, object]) -> set[str]:
    """The names that such code uses."""
    seen: dict[int, object] = {}
    return {name for kind in kinds for code in codes_run(kind, namespace, seen) for name in code.co_names}


def _function(found: Any) -> types.FunctionType | None:
    kind = type(found)
    if kind is staticmethod or kind is classmethod:
        found = found.__func__
    elif kind is property:
        found = found.fget
    return found if type(found) is types.FunctionType else None


def nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code, and that of the functions in it."""
    yield code
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield from nested_codes(constant)


def _holds(container: Any, content: Any) -> bool:
    """Whether a container holds just these objects, in this order."""
    now = Content(container).items
    return len(now) == len(content) and _parts(container, now) == _parts(container, content)


def _parts(container: object, items: Any) -> list[int]:
    if type(items) is dict:
        return [*ids_of(items), *ids_of(items.values())]
    if issubclass(type(container), DICTS):
        return [id(part) for item in items for part in item]
    return list(ids_of(items))
