"""Tell whether the libraries of tables and arrays run nothing but code of their own.

A method that a notebook gave to all tables runs wherever a cell has a table, and may use any variable. So does the code of
an accessor that was registered, of a function that shows numbers, and of one that is called where a number overflows.
"""

# What is handled here is anyone's object, so its type has no parameters to know.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from types import CodeType, FunctionType, ModuleType, NoneType
from typing import Any, cast

import msgspec

from agent_kernel.values.addresses import Versions, addresses
from agent_kernel.values.constants import modules_of
from agent_kernel.values.references import is_library
from agent_kernel.values.summaries.reading import class_dict, module_dict, module_name, qualified_name

_MOST = 200_000  # objects in the classes of a library
_STANDARD = frozenset(sys.stdlib_module_names) - {"__main__"}
_COMPILED = frozenset({"cython_function_or_method", "fused_cython_function"})
_DATA = (str, bytes, int, float, bool, NoneType, ModuleType, CodeType)
_NAMED_TUPLE = "namedtuple_"  # where `collections` makes the code of one
_TEMPLATES = "jinja2"  # they are code that was made at run time


class _LookedAt(msgspec.Struct):
    """What was found in classes and settings the last time. It is kept alive, so that addresses stay its own."""

    count: int = 0  # of modules
    classes: Versions = msgspec.field(default_factory=Versions)
    settings: tuple[dict[Any, Any], ...] = ()
    told: tuple[Any, ...] = ()
    ids: frozenset[int] = frozenset()
    held: tuple[Any, ...] = ()
    is_own: bool = True


_last = [_LookedAt()]


def run_only_their_own() -> bool:
    """Whether pandas and numpy hold no code of anyone else's. Quick where they hold what they held the last time."""
    last, count = _last[0], len(modules_of("pandas"))
    if last.count != count or not last.classes.are_same() or addresses(last.told) != addresses(_told(last.settings)):
        last = _last[0] = _look(count, last)
    return last.is_own


def _look(count: int, last: _LookedAt) -> _LookedAt:
    """Look at all that the classes and the settings hold, less what was found to be their own."""
    kinds, settings = _classes("pandas", count), tuple(_settings())
    classes, told = (
        Versions(kinds),
        tuple(_told(settings)),
    )  # noted first: a change while we look is another the next time
    held = (*chain.from_iterable(class_dict(kind).values() for kind in kinds), *told)
    known = last.ids if last.is_own else frozenset[int]()
    is_own = _is_own(value for value in held if id(value) not in known)
    return _LookedAt(count, classes, settings, told, frozenset(map(id, held)), held, is_own)


def _told(settings: Iterable[dict[Any, Any]]) -> Iterator[Any]:
    """What stands in the settings of pandas, a dict within them too, and what numpy was told to call."""
    yield from chain.from_iterable(map(dict[Any, Any].values, settings))
    yield from _told_to_numpy()


def _told_to_numpy() -> Iterator[Any]:
    """What is called where a number overflows, and what shows numbers."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        yield numpy.geterrcall()
        yield from (numpy.get_printoptions()["formatter"] or {}).values()


def _settings() -> Iterator[dict[Any, Any]]:
    """The dicts of what pandas was told to use: some of it is called when a table is shown."""
    waiting: list[Any] = [vars(sys.modules.get("pandas._config.config", _NONE)).get("_global_config")]
    while waiting:
        setting = waiting.pop()
        if type(setting) is dict:
            yield setting
            waiting += setting.values()


_NONE = ModuleType("none")


@functools.lru_cache(maxsize=4)
def _classes(package: str, _: int) -> tuple[type, ...]:
    """The classes in the modules of the package, as of when so many of its modules were loaded."""
    modules: list[Any] = [sys.modules.get(name) for name in modules_of(package)]
    found = (module_dict(module).values() for module in modules if isinstance(module, ModuleType))
    classes = {id(value): cast("type", value) for value in chain.from_iterable(found) if issubclass(type(value), type)}
    return tuple(kind for kind in classes.values() if _top(module_name(kind)) == package)


def _top(module: object) -> str:
    return module.partition(".")[0] if type(module) is str else ""


@functools.lru_cache(maxsize=1_000)
def _is_library(top: str) -> bool:
    """As `references.is_library`, which looks at files."""
    return top in _STANDARD or is_library(top)


def _is_own(values: Iterable[Any]) -> bool:
    """Whether all code that is held here, however deep, is a library's."""
    waiting = list(values)
    seen: dict[int, object] = {}
    roles: dict[int, str] = {}  # of the values of a class, by its address
    owned: dict[int, bool] = {}  # whether a class or a module's variables are a library's, by address
    while waiting:
        value = waiting.pop()
        kind = type(value)
        role = roles.get(id(kind)) or roles.setdefault(id(kind), _role(kind))
        if role == "data" or id(value) in seen:
            continue
        seen[id(value)] = value
        if role == "function":
            home = value.__globals__
            below: Iterable[Any] = filter(
                None, (value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__)
            )
        else:
            home = value.__globals__ if role == "compiled" else value if role == "class" else kind
            below = () if role in ("class", "template") else gc.get_referents(value)
        is_own = owned.get(id(home))
        if is_own is None:
            is_own = owned[id(home)] = _is_librarys(home)
        if not is_own or len(seen) > _MOST:
            return False
        waiting += below
    return True


def _role(kind: type) -> str:
    """What values of this class are to `_is_own`."""
    if any(kind is one for one in _DATA):
        return "data"
    if kind is FunctionType:
        return "function"
    if qualified_name(kind) in _COMPILED:
        return "compiled"
    if issubclass(kind, type):
        return "class"
    return "template" if _top(module_name(kind)) == _TEMPLATES else "object"


def _is_librarys(home: Any) -> bool:
    """Whether a class, or the module whose variables these are, is a library's."""
    if type(home) is dict:
        module = home.get("__name__")
        return _is_library(_top(module)) or str(module).startswith(_NAMED_TUPLE)
    return _is_library(_top(module_name(home))) or qualified_name(home) in _COMPILED
