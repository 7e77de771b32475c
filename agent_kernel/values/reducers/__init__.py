"""How each kind of object is pickled: one handler per exact type, found once and kept.

A handler gets the pickler and the object, and returns what `reducer_override` may return. `copyreg` stays the extension
point: a type registered there is reduced by its own function, and noted like any other.
"""

from __future__ import annotations

import collections
import copyreg
import enum
import io
import random
import sys
import types
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from agent_kernel.values import restore
from agent_kernel.values.definitions import names_used as names_used
from agent_kernel.values.introspection import (
    TypeCache,
    bases_of,
    class_dict,
    find_loaded,
    is_made_in_python,
    module_dict,
    module_name,
    qualified_name,
)

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

Handler = Callable[["Pickler", Any], Any]

HANDLERS: TypeCache[Handler] = TypeCache()
MOST_IN_MODULES = 10_000  # objects of modules of the person's own that one dump looks at, to save their content

# Families that need more than pickle gives, by the top-level package of the type: the module is imported when an object
# of that package is first met, so nothing heavy loads before the user loaded it.
_FAMILIES = {
    "numpy": "arrays",
    "pandas": "frames",
    "polars": "frames",
    "pyarrow": "frames",
    "torch": "handles",
    "matplotlib": "figures",
    "sqlite3": "databases",
    "ipywidgets": "handles",
    "traitlets": "handles",
    "h5py": "handles",
    "bokeh": "handles",
    "numba": "handles",
    "plotly": "copying",
    "PIL": "pictures",
    "agent_kernel": "handles",
}


def leaf(_: Pickler, __: Any) -> Any:
    """Immutable, or pickled by name: nothing to note."""
    return NotImplemented


OWN_HOLDS = 2  # of an attribute dict: the object's, and getrefcount's argument
_holds_on, _attribute_of = sys.getrefcount, object.__getattribute__


def ordinary(pickler: Pickler, value: Any) -> Any:
    """As `pickler.instance`, for objects with an attribute dict: in line, for there may be a hundred thousand."""
    if pickler.careful or _holds_on(_attribute_of(value, "__dict__")) > OWN_HOLDS:
        return pickler.instance(value)
    if not pickler.muted or id(value) not in pickler.muted:
        pickler.dump_record.instances.append(value)
    return NotImplemented


def without_dict(pickler: Pickler, value: Any) -> Any:
    return pickler.instance(value)


def slotted(pickler: Pickler, value: object) -> Any:
    """An object of a notebook class with slots: a cell may replace a slot by an attribute of the class."""
    from agent_kernel.values.reducers.instances import hides_slots, reduce_slotted

    kind = type(value)
    key = id(kind), "hides slots"
    hides = pickler.known_in_dump.get(key)
    if hides is None:
        hides = pickler.known_in_dump[key] = hides_slots(kind)
    return reduce_slotted(pickler, value) if hides else pickler.instance(value)


def custom(pickler: Pickler, value: Any) -> Any:
    return pickler.custom(value)


def immutable(pickler: Pickler, value: Any) -> Any:
    return pickler.immutable(value)


def transparent(pickler: Pickler, value: Any) -> Any:
    """Reduce an object whose identity says nothing, such as an alias of a type, but which may hold what is shared."""
    parts = pickler.protect(value) if pickler.careful else reduce(value)
    if not isinstance(parts, str):
        pickler.note_parts(parts)
    return parts


def is_plain(kind: type) -> bool:
    """Whether pickle saves an object of this type by its attribute dict and its slots."""
    from agent_kernel.values.trials import own_handler

    return own_handler(HANDLERS.get(kind) or handler_for(kind)) in (ordinary, without_dict, slotted)


def saves_attributes(kind: type) -> bool:
    """Whether all attributes of an object are saved with it, also if some are saved early for its hash."""
    from agent_kernel.values.reducers.instances import reduce_hashed
    from agent_kernel.values.trials import own_handler

    return is_plain(kind) or own_handler(HANDLERS.get(kind) or handler_for(kind)) is reduce_hashed


def reduce(value: Any) -> Any:
    from agent_kernel.values.pickler import reduce

    return reduce(value)


def handler_for(kind: type) -> Handler:
    """Find the handler of a type met for the first time."""
    from agent_kernel.values import trials
    from agent_kernel.values.reducers import instances

    return HANDLERS.keep(kind, trials.with_trial(kind, instances.with_additions(kind, _find(kind))))


def _find(kind: type[Any]) -> Handler:
    from agent_kernel.values.reducers import code, instances, objects

    exact = exact_handler(kind)
    if exact is not None:
        return exact
    if issubclass(kind, type):
        return code.reduce_class
    if kind.__name__ in ("cython_function_or_method", "fused_cython_function"):
        return leaf  # each release of Cython makes types of this name; they pickle by name
    for base in kind.__mro__:
        package = module_name(base).partition(".")[0]
        if package in _FAMILIES:
            family = import_module(f"agent_kernel.values.reducers.{_FAMILIES[package]}")
            found: Handler | None = family.handler_for(kind)
            if found is not None:
                return found
    if issubclass(kind, enum.Enum):
        return code.reduce_member if is_notebook_type(kind) else leaf
    module = module_name(kind)  # some classes have no `__module__`, or one that is not a text
    if module in objects.IMMUTABLE_MODULES:
        return leaf
    if module.startswith(objects.IMMUTABLE_PACKAGES):
        return immutable
    found = instances.handler_for(kind) or objects.handler_for(kind)
    return instances.of_notebook(kind, found) if is_notebook_type(kind) else instances.past_foreign_new(kind, found)


def exact_handler(kind: type) -> Handler | None:
    """The handler of this very class, if it has one, also where a reload of its module made the class anew."""
    from agent_kernel.values.reducers import code, objects

    found = code.EXACT.get(id(kind)) or objects.EXACT.get(id(kind))
    if found is not None or not is_made_in_python(kind):
        return found
    place = module_name(kind), qualified_name(kind)
    known = code.EXACT_BY_NAME.get(place) or objects.EXACT_BY_NAME.get(place)
    return known if known is not None and find_loaded(*place) is kind else None


def dispatch_table() -> Mapping[type, Callable[[Any], Any]]:
    """cloudpickle's reducers for what pickle lacks (views of dicts, loggers, ...), under the user's own in copyreg."""
    now: dict[Any, Any] = copyreg.dispatch_table
    # By identity: a type or a function may define equality.
    mark = tuple(map(id, now)), tuple(map(id, now.values()))
    if mark != _registered.mark:
        _registered.take(mark, dict(now))
    return _registered.table


class _Registered:
    """What was registered in copyreg when it was last looked at. A type may be registered again, or no longer be."""

    def __init__(self) -> None:
        self.mark: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        self.table: Mapping[type, Callable[[Any], Any]] = {}
        self._seen: dict[Any, Any] = {}

    def take(self, mark: tuple[tuple[int, ...], tuple[int, ...]], now: dict[Any, Any]) -> None:
        import cloudpickle

        for kind in (*now, *self._seen):
            if now.get(kind) is not self._seen.get(kind):
                HANDLERS.forget(kind)  # how its objects are noted depends on it
        found: dict[type, Callable[[Any], Any]] = dict(cloudpickle.CloudPickler.dispatch_table)
        # cloudpickle saves a file by reading it. A user's file is not ours to touch.
        found.pop(io.TextIOWrapper, None)
        self.mark, self.table, self._seen = mark, found | now, now


_registered = _Registered()


def is_notebook_type(kind: type) -> bool:
    """Whether the class was written in the notebook, or cannot be imported."""
    return kind.__module__ == "__main__" or not is_importable(kind)


def is_importable(value: Any) -> bool:
    """Whether the object's module holds it under its own name, so that a name is enough to save it."""
    named = getattr(value, "__module__", None)
    if not isinstance(named, str) or named == "__main__":
        return False
    found: Any = sys.modules.get(named)
    if found is None:
        return False
    try:
        name = value.__qualname__
        if (
            type(found) is types.ModuleType and type(name) is str and "." not in name
        ):  # nearly always; each class is asked for in each dump
            attributes = module_dict(found)
            if name in attributes:
                return attributes[name] is value
        for part in name.split("."):
            # The dict of a module first: its __getattr__ may warn of names that it no longer has.
            attributes = module_dict(found) if issubclass(type(found), types.ModuleType) else {}
            found = attributes[part] if part in attributes else getattr(found, part)
    except AttributeError:
        return False
    return found is value


# Modules whose objects are containers or wrappers like the builtin ones: they are looked into.
_OPEN_MODULES = frozenset({"builtins", "types", "collections", "functools", "itertools", "weakref", "agent_kernel"})


def goes_whole(kind: type, handler: Handler) -> bool:
    """Whether objects of this type are saved whole or not at all: a library's, which nobody else should take apart."""
    from agent_kernel.values import trials
    from agent_kernel.values.reducers import code
    from agent_kernel.values.reducers.instances import reduce_file_handler

    handler = trials.own_handler(handler)
    if (
        handler in (leaf, immutable, transparent, code.reduce_class, reduce_file_handler)
        or exact_handler(kind) is not None
    ):
        return False
    module = module_name(kind).partition(".")[0]
    return module not in _OPEN_MODULES and not is_notebook_type(kind)


_CONTAINER_IDS = frozenset(map(id, (list, dict, set, tuple, frozenset)))


def _is_container(value: object) -> bool:
    return id(type(value)) in _CONTAINER_IDS


_class_level: TypeCache[frozenset[int]] = TypeCache()


def class_level(kind: type) -> frozenset[int]:
    """The ids of containers that the classes of a library's type hold, such as pandas' `_metadata`."""
    known = _class_level.get(kind)
    if known is None:
        attributes = () if is_notebook_type(kind) else (found for base in kind.__mro__ for found in vars(base).values())
        ids = frozenset(map(id, filter(_is_container, attributes)))
        known = _class_level.keep(kind, ids)
    return known


def is_resumable(value: object) -> bool:
    # By identity: a metaclass may define equality.
    kind = type(value)
    return kind is types.GeneratorType or kind is types.CoroutineType or kind is types.AsyncGeneratorType


def by_name(module: str, name: str) -> Any:
    return restore.by_name, (module, name)


def reduce_module_object(module: str, name: str, value: Any) -> Any:
    state = object.__getattribute__(value, "__dict__")
    return restore.held, (module, name, type(value)), state, None, None, restore.held_state


def live_token(token: str, surface: bytes) -> Any:
    return restore.live, (token, surface)


def is_live(parts: Any) -> bool:
    """Whether an object was reduced to its token alone."""
    return parts[0] is restore.live


# -- objects that are set back while they live


_SET_BACK = (
    *(list, dict, set, bytearray, collections.deque, collections.OrderedDict, collections.defaultdict),
    *(collections.Counter, types.CellType, types.FunctionType, types.SimpleNamespace),
    *(io.StringIO, io.BytesIO, random.Random),
)
_SET_BACK_IDS = frozenset(map(id, _SET_BACK))
_NAMELESS_IDS = frozenset(map(id, (types.FunctionType, types.CellType)))  # no module holds these under their names
_HOOKS = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")


def can_be_set_back(value: object) -> bool:
    """Whether a live object can take what is loaded in its place: as `can_be_pinned`, and arrays, tables, databases."""
    from agent_kernel.values.restore.taking import can_take_whole

    return _is_filled(type(value)) or can_take_whole(type(value)) or can_be_pinned(value)


def can_be_pinned(value: object) -> bool:
    """Whether an object can be given all that it held, and stay the object that it is.

    Not if code of its class says what that is, or what its hash is: then a dict that is loaded would look in vain for it.
    """
    kind = type(value)
    if id(kind) in _SET_BACK_IDS:
        return True
    bases = bases_of(kind)
    above = {id(base) for base in bases if module_name(base) == "builtins"}
    own = [class_dict(base) for base in bases if module_name(base) != "builtins"]
    named = set[str]().union(*own)
    hashes = next((found["__hash__"] for found in own if "__hash__" in found), None)
    return (
        above <= _ABOVE_IDS
        and named.isdisjoint(_HOOKS)
        and hashes is None
        and not any(kind is other for other in dispatch_table())
        and not issubclass(kind, (enum.Enum, type))
    )


_ABOVE_IDS = frozenset(map(id, (object, list, dict, set)))
# By package and name: what is made bare, and then given all that it holds.
_FILLED = frozenset({"pandas.DataFrame", "pandas.Series", "numpy.BitGenerator", "numpy.RandomState", "numpy.ndarray"})


def _is_filled(kind: type) -> bool:
    if module_name(kind).partition(".")[0] not in ("pandas", "numpy"):
        return False
    return any(f"{module_name(base).partition('.')[0]}.{base.__name__}" in _FILLED for base in bases_of(kind))


def is_inner(value: object) -> bool:
    """Whether an object is a part of a table that comes back with that, as the blocks of pandas do."""
    return module_name(type(value)).startswith(("pandas.core.internals", "pandas._libs.internals"))


def reduce_pinned(value: object, token: str, parts: tuple[Any, ...]) -> Any:
    """Save an object so that the live one is set back where it still lives, and made as `parts` say where it does not."""
    from agent_kernel.values.restore.taking import can_take_whole

    if can_take_whole(type(value)) and not any(parts[2:]):
        return restore.taken, (token, *parts[0:1], *parts[1])
    refilled = _split_refill(value, parts)
    if refilled is None:
        return parts
    made, refill = refilled
    return restore.pinned, (token, *made), refill, None, None, restore.pinned_state


def reduce_module_object_as(value: object, module: str, name: str, parts: tuple[Any, ...]) -> Any:
    """Save what a module of the person's own holds so that the live one is set back where it is still held."""
    refilled = _split_refill(value, parts)
    if refilled is None:
        return parts
    made, refill = refilled
    return restore.held_as, (module, name, *made), refill, None, None, restore.pinned_state


def _split_refill(value: object, parts: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """How an object is made bare, and all that goes into it; None where what is in it is said as it is made."""
    padded: list[Any] = [*parts, None, None, None, None]
    make, arguments, state, items, pairs, setter = padded[:6]
    kind, found = type(value), cast("Any", value)
    bare = id(kind) in _SET_BACK_IDS or _is_filled(kind) or any(make is other for other in restore.MAKES_BARE)
    if not bare or (_is_filled(kind) and state is None):
        return None
    if id(kind) == id(collections.defaultdict):
        setter, state = restore.set_factory, found.default_factory
    elif id(kind) == id(collections.Counter):
        make, arguments, pairs = collections.Counter, (), found.items()
    refill = setter, state, *(None if some is None else list(some) for some in (items, pairs))
    named = None if id(kind) in _NAMELESS_IDS else kind
    return (named, make, *arguments), refill
