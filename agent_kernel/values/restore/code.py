"""Rebuild functions, closures, modules and what stands around them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from agent_kernel.values.restore.context import Later, current


def function(
    definition: bytes, name: str, cells: tuple[types.CellType, ...] | None, home: str | dict[str, object] | None
) -> types.FunctionType:
    """A function bound to the live namespace (home None), to a module, or to a dict of its own."""
    code = current().code_with_cells(definition, len(cells or ()))
    return types.FunctionType(code, _globals(home), name, None, cells)


def _globals(home: str | dict[str, object] | None) -> dict[str, object]:
    if home is None:
        return current().namespace
    if isinstance(home, str):
        return (sys.modules.get(home) or importlib.import_module(home)).__dict__
    return home


def function_state(made: types.FunctionType, state: tuple[Any, ...]) -> None:
    attributes, made.__kwdefaults__, annotations, doc, module, qualname, made.__defaults__, extra_globals = state
    made.__dict__.update(attributes)
    made.__annotations__ = annotations
    made.__doc__, made.__module__, made.__qualname__ = doc, module, qualname
    if extra_globals:
        made.__globals__.update(extra_globals)


def function_own_dict(made: types.FunctionType, state: tuple[Any, ...]) -> None:
    """As `function_state`, with the very attribute dict that something else holds too."""
    made.__dict__ = state[0]
    function_state(made, ({}, *state[1:]))


def function_values(made: types.FunctionType, state: tuple[Any, Any, dict[str, object]]) -> None:
    """Defaults and attributes that hold instances of classes, which have to be there before."""
    made.__defaults__, made.__kwdefaults__, attributes = state
    made.__dict__.update(attributes)


def function_own_values(made: types.FunctionType, state: tuple[Any, Any, dict[str, object]]) -> None:
    """As `function_values`, with the very attribute dict that something else holds too."""
    made.__dict__ = state[2]
    function_values(made, (*state[:2], {}))


def code(definition: bytes) -> types.CodeType:
    return current().code(definition)


def cell() -> types.CellType:
    return types.CellType()


def cell_state(made: types.CellType, contents: tuple[object]) -> None:
    made.cell_contents = contents[0]


def lru_cache(wrapped: Callable[..., object], maxsize: int | None, typed: bool) -> object:
    return functools.lru_cache(maxsize, typed)(wrapped)


def lru_cache_state(made: object, state: Mapping[str, object]) -> None:
    vars(made).update(state)


Called = tuple[tuple[Any, ...], tuple[tuple[str, Any], ...], object]  # arguments, those with names, and the result


def lru_cache_filled(made: Any, parts: tuple[Mapping[str, object], tuple[Called, ...]]) -> None:
    """As `lru_cache_state`, with results that it has to give again: it is called for each while its code gives that."""
    state, entries = parts
    from agent_kernel.values.surface import save_failure_of

    lru_cache_state(made, state)
    function = made.__wrapped__
    code = function.__code__
    try:
        for arguments, named, result in entries:
            if save_failure_of(result) is None:  # else it is better worked out again
                constants = tuple(result if found is _RESULT else found for found in _giving.co_consts)
                function.__code__ = _giving.replace(co_consts=constants, co_freevars=code.co_freevars)
                made(*arguments, **dict(named))
    finally:
        function.__code__ = code


def _give(*_: object, **__: object) -> object:
    return "the result"


_giving = _give.__code__
_RESULT = next(found for found in _giving.co_consts if found is not None)

_new_type: Any = typing.NewType
_type_var: Any = typing.TypeVar  # type checkers want the arguments spelled out


def new_type(name: str, supertype: Any, module: str) -> object:
    made = _new_type(name, supertype)
    made.__module__ = module
    return made


def type_var(
    name: str, bound: object, constraints: tuple[object, ...], covariant: bool, contravariant: bool, module: str
) -> object:
    made = _type_var(name, *constraints, bound=bound, covariant=covariant, contravariant=contravariant)
    with contextlib.suppress(AttributeError):
        made.__module__ = module
    return made


def other_variable(kind: str, name: str, options: dict[str, Any], module: str) -> object:
    """A `ParamSpec` or a `TypeVarTuple`."""
    made: Any = getattr(typing, kind)(name, **options)
    with contextlib.suppress(AttributeError):
        made.__module__ = module
    return made


def main_module() -> types.ModuleType:
    return sys.modules["__main__"]


def live_namespace() -> dict[str, object]:
    """The notebook's variables themselves, as `globals()` gives them."""
    return current().namespace


def module(name: str) -> types.ModuleType:
    return importlib.import_module(name)


OfFunction = tuple[tuple[str, ...], dict[str, object], Any, Any]


class ModuleContent(Later):
    """What goes back into a module of the person's own, unless that is another one by now."""

    source: str
    names: tuple[str, ...]
    state: dict[str, object]
    classes: dict[str, tuple[tuple[str, ...], dict[str, object]]] | None = None  # by name; None: not saved
    functions: Any = None  # by name: names of attributes, those that are plain, defaults
    caches: Any = None  # by name, the calls of which others hold the results
    is_whole: bool = True  # else there was more than is looked at

    def is_of(self, made: object) -> bool:
        from agent_kernel.values.references import source_digest

        return isinstance(made, types.ModuleType) and source_digest(made.__name__) == self.source

    def give(self, made: types.ModuleType) -> None:
        from agent_kernel.values.reducers import MOST_IN_MODULES
        from agent_kernel.values.reducers.code import classes_of, plain_state
        from agent_kernel.values.references import find_own_code, is_code_of_notebook, note_own_code

        note_own_code(made, classes_of(made))
        for name, value in plain_state(made, [MOST_IN_MODULES])[0].items():
            if name not in self.names:
                delattr(made, name)
            elif name not in self.state and is_code_of_notebook(value):
                setattr(made, name, find_own_code(made.__name__, name) or value)
        vars(made).update(self.state)
        if self.classes is not None and self.is_whole:
            self._give_to_classes(made, self.classes)
            self._give_to_functions(made, self.functions)
            self._give_to_caches(made, self.caches)

    def _give_to_classes(
        self, made: types.ModuleType, classes: dict[str, tuple[tuple[str, ...], dict[str, object]]]
    ) -> None:
        from agent_kernel.values.reducers import MOST_IN_MODULES
        from agent_kernel.values.reducers.code import classes_of, name_of, of_class
        from agent_kernel.values.references import find_own_code

        for kind in classes_of(made):
            names, held = classes.get(name_of(kind), ((), {}))
            for name in of_class(kind, [MOST_IN_MODULES])[1].keys() - set(names):
                own = find_own_code(made.__name__, f"{name_of(kind)}.{name}")
                if own is None:
                    type.__delattr__(kind, name)
                else:
                    type.__setattr__(kind, name, own)
            for name, value in held.items():
                type.__setattr__(kind, name, value)

    def _give_to_functions(self, made: types.ModuleType, saved: dict[str, OfFunction]) -> None:
        from agent_kernel.values.reducers import MOST_IN_MODULES
        from agent_kernel.values.reducers.code import functions_of, of_function

        for function in functions_of(made):
            names, held, defaults, named = saved.get(function.__name__, ((), {}, None, None))
            for name in of_function(function, [MOST_IN_MODULES])[1].keys() - set(names):
                del function.__dict__[name]
            function.__dict__.update(held)
            function.__defaults__ = function.__defaults__ if defaults is None else defaults
            function.__kwdefaults__ = function.__kwdefaults__ if named is None else named

    def _give_to_caches(self, made: types.ModuleType, saved: dict[str, tuple[Called, ...]]) -> None:
        from agent_kernel.values.reducers.code import caches_of, keeps_only_values

        for name, cached in caches_of(made):
            if name in saved or not keeps_only_values(cached):  # what it keeps may have changed since
                cached.cache_clear()
                lru_cache_filled(cached, ({}, saved.get(name, ())))


def module_state(made: types.ModuleType, state: tuple[str, tuple[str, ...], dict[str, object]]) -> None:
    """Of a module that lives: it gets this when the other variables are taken on."""
    current().set_later(made, ModuleContent(*state))


def module_content(made: types.ModuleType, state: tuple[Any, ...]) -> None:
    """As `module_state`, with what its classes and functions hold."""
    current().set_later(made, ModuleContent(*state))


def by_name(module: str, name: str) -> object:
    """A singleton that a module holds under a name."""
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))
