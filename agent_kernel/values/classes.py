"""Notebook classes, taken apart so that they can be made again without running any of the notebook's hooks.

A class is saved as an entry of its own: a skeleton (metaclass, name, bases, slots), the methods, and the other
attributes. All needed skeletons are made first; then methods go in, by `type.__setattr__`: bare functions, and then what
they close over. Only then are there attributes that may hold instances: first what the class's own machinery needs
(fields of a dataclass, members of an enum), then the others in their order. Lists, dicts and their kind are there with the
methods, still without instances: code that makes those may register them there. Their content is set last. Instances
name their class by a random id, so redefining `P` neither changes nor stores again what the old `P` made.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What a class holds is of any type.

from __future__ import annotations

import abc
import collections
import enum
import functools
import inspect
import itertools
import pickle
import secrets
import types
import weakref
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128_digest

from agent_kernel.values.introspection import (
    ATOM_IDS,
    class_dict,
    instance_dict,
    is_made_without_slots,
    module_name,
    names_of_slots,
)
from agent_kernel.values.pickler import Later, Pickler
from agent_kernel.values.reducers.code import digest_of_function, holds_only_atoms, is_easy
from agent_kernel.values.restore import classes as restore
from agent_kernel.values.restore.classes import is_made_again
from agent_kernel.values.surface import find_death_callbacks

if TYPE_CHECKING:
    from agent_kernel.values.aliases import LiveNames

# There with the methods, before any instance.
_PLAIN = frozenset({int, float, complex, str, bytes, bool, type(None), types.FunctionType, itertools.count})
# Of the standard library, around functions: methods in all but name.
_DESCRIPTORS = frozenset(
    {
        *(staticmethod, classmethod, property, enum.property, types.DynamicClassAttribute),
        *(functools.cached_property, functools.partialmethod, functools.singledispatchmethod),
        type(functools.cache(len)),
    }
)
_IN_SKELETON = frozenset({"__slots__", "__module__", "__qualname__", "__doc__", "__orig_bases__", "__class__"})
# What stands in a skeleton is made before anything else is: of what it holds, the notebook has the very objects.
_AGAIN_LATER = frozenset({"__orig_bases__"})
_NOT_SAVED = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__firstlineno__",
        "__static_attributes__",
        "_abc_impl",
        "__abstractmethods__",
        "__slotnames__",
    }
)
# What a library looks up once and notes here. pydantic does when an attribute of an instance is first set.
_LOOKED_UP = frozenset({"__pydantic_setattr_handlers__"})


class ClassRegistry:
    """Which lasting id each live notebook class has, and the other way round."""

    def __init__(self) -> None:
        self._ids: dict[int, tuple[weakref.ref[type], str]] = {}
        self._live: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()
        self._lived: set[str] = set()
        self._lost_slots: dict[str, frozenset[str]] = {}

    def uid_of(self, kind: type) -> str:
        """The class's id; a new one at first sight."""
        known = self._ids.get(id(kind))
        if known is not None and known[0]() is kind:
            return known[1]
        uid = f"{kind.__qualname__}#{secrets.token_hex(5)}"
        self.adopt(uid, kind)
        return uid

    def live(self, uid: str) -> type | None:
        return self._live.get(uid)

    def is_known(self, kind: type) -> bool:
        """Whether the class has an id."""
        known = self._ids.get(id(kind))
        return known is not None and known[0]() is kind

    def has_lived(self, uid: str) -> bool:
        """Whether there was a class of this id in this process."""
        return uid in self._lived

    def adopt(self, uid: str, kind: type) -> None:
        """Make `kind` the live class of this id. One that had it before gets a new id when it is next met."""
        before = self._live.get(uid)
        if before is not None and before is not kind:
            self._ids.pop(id(before), None)
        self._ids[id(kind)] = weakref.ref(kind), uid
        self._live[uid] = kind
        self._lived.add(uid)
        self._lost_slots.pop(uid, None)

    def note_slots(self, uid: str, kind: type) -> bool:
        """Note which slots the class lost. Returns whether they changed since the last time: then its objects hold more or less."""
        led = class_dict(kind)
        lost = frozenset(name for name in names_of_slots(kind) if type(led.get(name)) is not types.MemberDescriptorType)
        before = self._lost_slots.get(uid, frozenset())
        if lost != before:
            self._lost_slots[uid] = lost
        return lost != before

    def forget(self, uid: str) -> None:
        """The class of this id is another one now that could not be loaded: the live one gets a new id when next met."""
        before = self._live.pop(uid, None)
        if before is not None:
            self._ids.pop(id(before), None)


class Fill:
    """Pickles as: set these attributes on the class."""

    def __init__(self, kind: type, attributes: dict[str, object]) -> None:
        self.kind, self.attributes = kind, attributes

    def __reduce__(self) -> Any:
        return restore.fill_class, (self.kind, self.attributes)


class FillOne(Fill):
    """Pickles as: set this one attribute, as soon as it is there: what follows may need it."""

    def __reduce__(self) -> Any:
        ((name, value),) = self.attributes.items()
        return restore.fill_attribute, (self.kind, name, value)


class WithoutSlots(Fill):
    """Pickles as: these slots of the class are there, and nothing in the class leads to them."""

    def __reduce__(self) -> Any:
        return restore.without_slots, (self.kind, list(self.attributes))


class Complete(Fill):
    """Pickles as: these attributes are there now; generate what this Python's own machinery adds."""

    def __reduce__(self) -> Any:
        return restore.complete_class, (self.kind, list(self.attributes))


class Bare:
    """Pickles as: make such a container, empty."""

    def __init__(self, container: Any) -> None:
        self.container = container

    def __reduce__(self) -> Any:
        kind = type(self.container)
        if kind is collections.deque:
            return kind, ((), self.container.maxlen)
        return kind, (self.container.default_factory,) if kind is collections.defaultdict else ()


class Content:
    """Pickles as: this is what the container holds."""

    def __init__(self, container: Any) -> None:
        self.container = container
        self.items: Any = list(container)
        if type(container) is dict:
            self.items = container.copy()
        elif issubclass(type(container), DICTS):
            self.items = list(container.items())  # no key is hashed

    def __reduce__(self) -> Any:
        return restore.fill_container, (self.container, self.items)

    def is_easy(self, made: Container[int]) -> bool:
        """Whether there is nothing in it but what is there before any instance."""
        items = list(items_of(self.container))
        if ATOM_IDS.issuperset(map(id, map(type, items))):
            return True
        return len(items) <= _MOST_ITEMS and all(_is_atom(item) or id(item) in made for item in items)


def items_of(container: Any) -> Iterable[object]:
    return chain(container, container.values()) if issubclass(type(container), DICTS) else container


def _is_atom(item: object) -> bool:
    return id(type(item)) in ATOM_IDS or type(item) is type


DICTS = (dict, weakref.WeakValueDictionary, weakref.WeakKeyDictionary)
_CONTAINERS = (
    *(list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter),
    *(weakref.WeakSet, weakref.WeakValueDictionary, weakref.WeakKeyDictionary),
)
_CONTAINER_IDS = frozenset(map(id, _CONTAINERS))
_MOST_ITEMS = 10_000  # looked through for containers that lie in others


PLAIN_CONTAINERS = {kind.__name__: kind for kind in (list, dict, set, collections.deque, collections.OrderedDict)}
_PLAIN_IDS = frozenset(map(id, PLAIN_CONTAINERS.values()))


def is_plain_container(found: object) -> bool:
    """Whether its type is enough to make it, empty."""
    return id(type(found)) in _PLAIN_IDS


def is_container(found: Any) -> bool:
    """Whether it can be made empty, and filled later."""
    if type(found) is collections.defaultdict:
        return type(found.default_factory) is type or found.default_factory is None
    return id(type(found)) in _CONTAINER_IDS


def attributes_of(value: object) -> dict[str, object] | None:
    """The attribute dict of a namespace, or of an object of a class of the notebook's."""
    kind = type(value)
    if id(kind) in ATOM_IDS or issubclass(kind, type) or not kind.__dictoffset__:
        return None
    return instance_dict(value) if module_name(kind) == "__main__" or kind is types.SimpleNamespace else None


def can_be_filled(found: object) -> bool:
    """Whether a stream fills such a container item by item once it is made."""
    return is_plain_container(found) or (type(found) is collections.defaultdict and is_container(found))


def containers_below(values: Iterable[object], left_out: Container[int] = ()) -> list[object]:
    """The containers among these values and in those, each once; of very many the nearest."""
    found: dict[int, object] = {}
    level = [value for value in values if is_container(value)]
    looked_at = 0
    while level:
        fresh = {id(value): value for value in level if id(value) not in found and id(value) not in left_out}
        found |= fresh
        short = [value for value in fresh.values() if (looked_at := looked_at + len(value)) <= _MOST_ITEMS]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        level = [item for value in short for item in list(items_of(value)) if is_container(item)]
    return list(found.values())


def digest_of_class(kind: type, names: LiveNames, namespace: dict[str, object]) -> bytes:
    """Covers all that is saved of the body of a plain class of the notebook's; empty for any other.

    Plain is one of `type` whose bases are the notebook's too, with nothing in it but plain functions, numbers and texts.
    """
    if type(kind) is not type or kind.__module__ != "__main__" or find_death_callbacks(kind, namespace):
        return b""
    bases = [base for base in kind.__bases__ if base is not object]
    if any(type(base) is not type or base.__module__ != "__main__" for base in bases):
        return b""
    parts: list[object] = [id(kind), kind.__name__, kind.__qualname__, len(kind.__bases__), *map(names.uid_of, bases)]
    for name, found in list(vars(kind).items()):
        if name in _NOT_SAVED:
            continue
        attribute: object = found
        if type(found) is types.FunctionType:
            attribute = digest_of_function(found, namespace)
            if not attribute:
                return b""
        elif not holds_only_atoms(found if type(found) is tuple else (found,)):
            return b""
        parts.append((type(found).__name__, name, attribute))
    return xxh3_128_digest(pickle.dumps(parts))


class FillRegistered(Fill):
    """Pickles as: register these classes with the abstract base class."""

    def __reduce__(self) -> Any:
        return restore.register_classes, (self.kind, list(self.attributes.values()))


class FillEnum(Fill):
    """Pickles as: give the enum its members; by name the value, and what the data type's `__new__` was given."""

    def __reduce__(self) -> Any:
        return restore.enum_fill, (self.kind, [(name, *held) for name, held in self.attributes.items()])  # type: ignore[misc]


class FillValues(Fill):
    """Pickles as: give members of an enum their values, by name, once there are members that these may lead to."""

    def __reduce__(self) -> Any:
        return restore.enum_values, (self.kind, self.attributes)


class FillMembers(Fill):
    """Pickles as: set these attributes on the members of an enum."""

    def __reduce__(self) -> Any:
        return restore.enum_members, (self.kind, self.attributes)


class FillContents(Fill):
    """Pickles as: fill the members of an enum that are lists, dicts and their kind."""

    def __reduce__(self) -> Any:
        return restore.enum_contents, (self.kind, self.attributes)


def skeleton(kind: type[Any]) -> tuple[object, ...]:
    """What must exist before anything else of the class: the arguments of a function in `restore.classes`."""
    if issubclass(kind, enum.Enum):
        boundary = getattr(kind, "_boundary_", None) if issubclass(kind, enum.Flag) else None
        basics = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        return "bare enum", type(kind), kind.__name__, kind.__bases__, basics, boundary and boundary.name
    if type(kind).__module__ == "msgspec._core":
        return "struct", kind.__name__, _struct_fields(kind), kind.__bases__, kind.__module__, _struct_options(kind)
    attributes: dict[str, object] = {name: vars(kind)[name] for name in _IN_SKELETON if name in vars(kind)}
    attributes["__qualname__"] = kind.__qualname__
    if is_made_without_slots(kind):
        attributes.pop("__slots__", None)
    return "class", type(kind), kind.__name__, kind.__bases__, dict(sorted(attributes.items()))


def _struct_fields(kind: Any) -> list[Any]:
    """A struct's own fields, as `msgspec.defstruct` takes them."""
    # As they are written: what msgspec makes of the name of the class itself is the class, which is not there yet.
    written = vars(kind).get("__annotations__", {})
    return [(found.name, written.get(found.name, found.type), *_details_of(found)) for found in _own_fields(kind)]


def _own_fields(kind: Any) -> list[Any]:
    import msgspec

    inherited = {found.name for base in kind.__bases__ if base is not msgspec.Struct for found in _fields(base)}
    written = vars(kind).get("__annotations__", {})
    return [found for found in _fields(kind) if found.name not in inherited or found.name in written]


def _fields(kind: Any) -> Any:
    import msgspec

    return msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else ()


def _details_of(found: Any) -> tuple[Any, ...]:
    """The default of a field, and the name that it has in messages where that is another one."""
    default = _default_of(found)
    return default if found.encode_name == found.name else (*(default or ("", None)), found.encode_name)


def _default_of(found: Any) -> tuple[Any, ...]:
    import msgspec

    if found.default_factory is not msgspec.NODEFAULT:
        return "factory", found.default_factory
    return () if found.default is msgspec.NODEFAULT else ("value", found.default)


def _struct_options(kind: Any) -> dict[str, Any]:
    config = kind.__struct_config__
    names = (
        "frozen",
        "eq",
        "order",
        "array_like",
        "gc",
        "repr_omit_defaults",
        "omit_defaults",
        "forbid_unknown_fields",
    )
    options: dict[str, Any] = {name: getattr(config, name) for name in (*names, "weakref", "dict", "cache_hash")}
    if "__orig_bases__" in vars(kind):  # msgspec makes a generic struct only with these
        options["namespace"] = {"__orig_bases__": kind.__orig_bases__}
    parameters = inspect.signature(kind).parameters
    if any(parameters[found.name].kind is inspect.Parameter.KEYWORD_ONLY for found in _own_fields(kind)):
        options["kw_only"] = True  # which holds for all fields of one class
    return {**options, "tag": config.tag, "tag_field": config.tag_field}


def make(parts: tuple[Any, ...]) -> type:
    """Make the bare class that `skeleton` took apart."""
    form, *arguments = parts
    makers: dict[str, Any] = {
        "enum": restore.enum_skeleton,
        "bare enum": restore.bare_enum,
        "struct": restore.struct_skeleton,
    }
    made: type = makers.get(form, restore.skeleton)(*arguments)
    return made


class Body:
    """A class's attributes in the order in which they go in.

    `methods` before there is any instance, then what the class needs to have instances (`early`), then the others.
    """

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        methods: dict[str, object] = {}
        early: dict[str, object] = {}
        rest: dict[str, object] = {}
        empty: dict[str, object] = {}
        for name, found in _attributes(kind):
            if is_container(found) and not name.startswith("__"):
                empty[name] = found
                continue
            is_early = (name.startswith("__") and name.endswith("__")) or type(found) in _DESCRIPTORS
            (methods if _is_bare(found) else early if is_early else rest)[name] = found
        self.methods: list[Fill] = []
        if lost := _find_lost_slots(kind):
            self.methods.append(WithoutSlots(kind, lost))
        self.methods += [Fill(kind, methods)] if methods else []
        self.empty: list[Fill] = [Fill(kind, empty)] if empty else []
        self.early: list[Fill] = []
        self.rest: list[Fill] = [FillOne(kind, {name: found}) for name, found in rest.items()]
        if issubclass(kind, enum.Enum):
            members: dict[str, object] = {name: _find_arguments(member) for name, member in kind.__members__.items()}
            later = _values_for_later(kind)
            stand_in = {id(member): restore.NoValueYet() for member in later.values()}
            members |= {name: (stand_in[id(member)], ()) for name, member in later.items()}
            values: dict[str, object] = {name: member._value_ for name, member in later.items()}
            self.rest = [*([FillValues(kind, values)] if values else []), *self.rest]
            extras: dict[str, object] = {name: e for name, member in kind.__members__.items() if (e := _extra(member))}
            self.early += [FillEnum(kind, members)] if members else []
            self.rest += [FillMembers(kind, extras)] if extras else []
            if (plain := _PLAIN_CONTENT.get(restore.container_of(kind))) is not None:
                contents: dict[str, object] = {name: plain(member) for name, member in kind.__members__.items()}
                self.rest += [FillContents(kind, contents)] if contents else []
        self.early += [Fill(kind, early)] if early else []
        self.rest += [Complete(kind, rest)] if rest else []
        registered = _find_registered(kind)
        self.rest += [FillRegistered(kind, registered)] if registered else []

    @property
    def fills(self) -> list[Fill]:
        return [*self.methods, *self.empty, *self.early, *self.rest]


def by_need(needs: Sequence[Collection[int]]) -> list[int]:
    """Numbers from 0 on, each after those that it needs, as far as they do not need each other."""
    ordered: dict[int, None] = {}
    begun: set[int] = set()
    todo = list(reversed(range(len(needs))))
    while todo:
        number = todo[-1]
        if number in begun:
            ordered.setdefault(todo.pop())
            continue
        begun.add(number)
        todo += [other for other in sorted(needs[number], reverse=True) if other not in begun]
    return list(ordered)


def in_order(bodies: Sequence[Body], kinds_in: Callable[[object], Collection[int]]) -> list[Body]:
    """Bodies of classes after those of classes whose instances they hold.

    Args:
        kinds_in: the ids of the types of all objects below a value.
    """
    if len(bodies) < 2:
        return list(bodies)
    numbers = {id(body.kind): number for number, body in enumerate(bodies)}
    held_kinds = [kinds_in([fill.attributes for fill in body.fills]) for body in bodies]
    order = by_need([[numbers[kind] for kind in kinds if kind in numbers] for kinds in held_kinds])
    return [bodies[number] for number in order]


def phases(bodies: Sequence[Body], values: object) -> Callable[[Pickler], Iterator[object]]:
    """What is pickled one after another: bare methods, what is easily given to them, early attributes, others, values."""

    def give(pickler: Pickler) -> Iterator[object]:
        hard: list[Later] = []
        contents = _make_empty(pickler, bodies)
        made = {id(content.container) for content in contents}
        full: list[Content] = []
        filled_last: list[Content] = []
        for content in contents:
            (full if content.is_easy(made) else filled_last).append(content)
        pickler.waiting = []
        yield [fill for body in bodies for fill in (*body.methods, *body.empty)] + full
        while pickler.waiting:
            found, pickler.waiting = pickler.waiting, []
            hard += [later for later in found if not is_easy(later.state)]
            easy = [later for later in found if is_easy(later.state)]
            if easy:
                yield easy
        pickler.waiting = None
        yield [fill for body in bodies for fill in body.early]
        yield [*hard, *(fill for body in bodies for fill in body.rest), *filled_last]
        yield values

    return give


def _make_empty(pickler: Pickler, bodies: Sequence[Body]) -> list[Content]:
    """Write the containers of classes, empty; gives what is to be in them. What modules hold is there by name already."""
    attributes = [found for body in bodies for fill in body.empty for found in fill.attributes.values()]
    found = containers_below(attributes, pickler.dump_record.named)
    containers = [container for container in found if not _has_attributes(container)]
    if not containers:
        return []
    # Noted, because nothing else says that these are in the stream and may be shared.
    pickler.dump_record.instances += [container for container in containers if id(type(container)) not in _BUILTIN_IDS]
    pickler.stand_for([Bare(container) for container in containers], containers)
    pickler.dump_record.pickles += 1
    contents = [Content(container) for container in containers]
    pickler.keepalive += (content.items for content in contents)
    return contents


_BUILTIN_IDS = frozenset(map(id, (list, dict, set)))


def _has_attributes(container: Any) -> bool:
    """Whether a container has attributes of its own, which it would lose if it were made empty here."""
    return type(container) in (collections.OrderedDict, collections.Counter) and bool(container.__dict__)


def _is_bare(found: Any) -> bool:
    """Whether an attribute is plain, or a function with nothing around it but what Python puts around methods."""
    kind = type(found)
    if kind in _PLAIN:
        return True
    if kind is staticmethod or kind is classmethod:
        return type(found.__func__) is types.FunctionType
    return kind is property and all(
        type(part) in (types.FunctionType, type(None)) for part in (found.fget, found.fset, found.fdel)
    )


def _find_arguments(member: Any) -> tuple[object, object]:
    """A member's value, and the arguments that its data type's own `__new__` makes it of."""
    base = restore.maker_of(type(member))
    getter = getattr(base, "__getnewargs__", None)
    if getter is not None:
        return member._value_, getter(member)
    if base is object or restore.container_of(type(member)) is not None:
        return member._value_, ()
    return member._value_, base.__reduce__(member)[1]


def _values_for_later(kind: type[enum.Enum]) -> dict[str, Any]:
    """By name the members whose values are not plain, where nothing but the value makes a member, and no data type does."""
    if restore.maker_of(kind) is not object:
        return {}
    return {name: member for name, member in kind.__members__.items() if not _is_plain_value(member._value_)}


def _is_plain_value(value: Any) -> bool:
    return all(map(_is_plain_value, value)) if type(value) is tuple else id(type(value)) in ATOM_IDS


# What makes a bare member leaves these empty; what fills them may be the notebook's.
_PLAIN_CONTENT: dict[Any, Callable[[Any], object]] = {
    dict: lambda member: dict[Any, Any](dict[Any, Any].items(member)),
    collections.OrderedDict: lambda member: dict[Any, Any](collections.OrderedDict[Any, Any].items(member)),
    list: lambda member: list[Any](list[Any].__iter__(member)),
    set: lambda member: set[Any](set[Any].__iter__(member)),
    collections.deque: lambda member: list[Any](collections.deque[Any].__iter__(member)),
    bytearray: bytes,
}


def _find_registered(kind: type) -> dict[str, object]:
    """The classes that were registered with an abstract base class, by name."""
    if not isinstance(kind, abc.ABCMeta):
        return {}
    dump: Any = getattr(abc, "_get_dump")  # noqa: B009  # the one way to see them; the C module has no types
    alive = [found for reference in dump(kind)[0] if (found := reference()) is not None]
    return {found.__qualname__: found for found in sorted(alive, key=lambda found: found.__qualname__)}


def _attributes(kind: Any) -> Iterator[tuple[str, object]]:
    is_enum = issubclass(kind, enum.Enum)
    made_by_c = _names_made_by_c(kind)
    in_skeleton = _IN_SKELETON - _AGAIN_LATER
    if is_made_without_slots(kind):
        in_skeleton -= {"__slots__"}
    for name, found in list(vars(kind).items()):
        if name in _NOT_SAVED or name in made_by_c or (name in in_skeleton and not (is_enum and name == "__doc__")):
            continue
        if isinstance(found, _SLOTS) and found.__objclass__ is kind and found.__name__ == name:
            continue  # slots are made by the skeleton
        if name == "__annotations__" and type(found) is dict and not found:
            continue  # Python adds them, empty, when code first asks for them
        if is_made_again(kind, name, found):
            continue
        if is_enum and (
            name in kind.__members__ or (_is_made_by_enum(name, found) and not _is_of_data_type(kind, name))
        ):
            continue
        yield name, {} if name in _LOOKED_UP else found
    # Also where there is none: the skeleton of a concrete class lacks the methods that make it one.
    if isinstance(kind, abc.ABCMeta) and "__abstractmethods__" in vars(kind):
        yield "__abstractmethods__", vars(kind)["__abstractmethods__"]


_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def _find_lost_slots(kind: type) -> dict[str, object]:
    """The names of slots that were deleted from the class. If something took the place of a slot, that is saved instead."""
    if issubclass(kind, enum.Enum) or type(kind).__module__ == "msgspec._core":
        return {}
    found: dict[str, Any] = dict.fromkeys(sorted(names_of_slots(kind) - class_dict(kind).keys()))
    return found


def _names_made_by_c(kind: type) -> set[str]:
    if type(kind).__module__ != "msgspec._core":
        return set()
    # Its annotations are set again, because those of a generic struct must hold the notebook's own type variables.
    return {name for name in vars(kind) if name.startswith("__struct_")} | {"__match_args__"}


_MADE_BY_ENUM = frozenset(
    {
        *("_member_names_", "_member_map_", "_value2member_map_", "_member_type_", "_value_repr_", "_iter_member_"),
        *("_boundary_", "_flag_mask_", "_singles_mask_", "_all_bits_", "_inverted_", "_sort_order_", "__members__"),
        *("_unhashable_values_", "_unhashable_values_map_", "_hashable_values_", "__new__", "__signature__"),
    }
)


def _is_made_by_enum(name: str, found: object) -> bool:
    """Whether Python puts this into every enum, or will again when it gets its members."""
    if name in _MADE_BY_ENUM:
        return True
    return name != "_generate_next_value_" and getattr(found, "__module__", "") == "enum" and callable(found)


def _is_of_data_type(kind: Any, name: str) -> bool:
    """Whether Python chose this by the methods of the members' data type, which a bare class of the notebook's lacks."""
    return name in _CHOSEN_BY_ENUM and module_name(kind._member_type_) == "__main__"


_CHOSEN_BY_ENUM = frozenset({"_value_repr_", "__repr__", "__str__", "__format__", "__reduce_ex__"})


def _extra(member: Any) -> dict[str, object]:
    own = {"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"}
    return {name: value for name, value in vars(member).items() if name not in own}
