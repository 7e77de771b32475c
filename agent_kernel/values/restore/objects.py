"""Rebuild containers, weak references, locks and other objects that pickle needs help with."""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What is rebuilt here is of any type.

from __future__ import annotations

import collections
import contextlib
import contextvars
import copyreg
import functools
import importlib
import io
import secrets
import sys
import threading
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any

from agent_kernel.values.introspection import add_reference, allocate, drop_reference
from agent_kernel.values.restore.buffers import StoredBytes, bytes_of
from agent_kernel.values.restore.classes import maker_of
from agent_kernel.values.restore.context import Later, current


def forward_reference(text: str, is_argument: bool, module: Any, is_class: bool) -> Any:
    return typing.ForwardRef(text, is_argument, module, is_class=is_class)


def interned(attributes: Any) -> dict[str, object]:
    """Attributes by the one text for each name that code has too, as pickle does it.

    Else an equal object that a cell makes anew would differ, and what is saved with it would count as changed.
    """
    return {sys.intern(name) if type(name) is str else name: value for name, value in attributes.items()}


def exception(kind: Any, arguments: tuple[object, ...]) -> Any:
    """An exception as it was, without its `__init__`."""
    made = kind.__new__(kind, *arguments)
    _base_exception.args.__set__(
        made, arguments
    )  # past a `__setattr__` that refuses, as that of a frozen dataclass does
    return made


_base_exception: Any = BaseException  # typeshed takes `args` for an attribute of its instances


def exception_group(kind: Any, message: str, exceptions: tuple[BaseException, ...]) -> Any:
    """A group of exceptions, past the `__new__` of the notebook's class."""
    return BaseExceptionGroup.__new__(kind, message, exceptions)


def exception_state(made: Any, state: tuple[dict[str, object]]) -> None:
    object.__getattribute__(made, "__dict__").update(interned(state[0]))


def exception_with(made: Any, parts: tuple[Any, dict[str, object]]) -> None:
    """An exception's attributes, and what Python keeps beside them: cause, context, slots, fields of builtin ones."""
    state, beside = parts
    if type(state) is dict and type(made).__setstate__ is _base_exception.__setstate__:
        exception_state(made, (state,))
    elif state is not None:
        made.__setstate__(state)
    for name, value in sorted(beside.items()):  # the cause first: setting it hides the context
        with contextlib.suppress(AttributeError, TypeError):  # what another Python computes, and lets nobody set
            set_slot(made, name, value)


def exception_own_dict(made: Any, parts: tuple[dict[str, object], dict[str, object]]) -> None:
    """As `exception_with`, with the very attribute dict that something else holds too."""
    attributes, beside = parts
    object.__setattr__(made, "__dict__", attributes)
    exception_with(made, (None, beside))


def own_dict_state(made: Any, state: tuple[dict[str, object], dict[str, object] | None]) -> None:
    """Give an object the very attribute dict that something else holds too, and its slots."""
    attributes, slots = state
    if isinstance(made, types.SimpleNamespace):
        _replace_dict(made, attributes)
    else:
        object.__setattr__(made, "__dict__", attributes)
    for name, value in (slots or {}).items():
        set_slot(made, name, value)


def _replace_dict(made: Any, attributes: dict[str, object]) -> None:
    """Put a dict into the field for it of an object that lets nobody set it: Python offers no other way."""
    import ctypes

    field = ctypes.c_void_p.from_address(id(made) + type(made).__dictoffset__)
    before = field.value
    add_reference(attributes)
    field.value = id(attributes)
    if before:
        drop_reference(before)


def container_own_dict(made: Any, state: tuple[Any, Any]) -> None:
    """As `container_state`, with the very attribute dict: it may be the container itself."""
    attributes, items = state
    own_dict_state(made, attributes)
    container_state(made, (None, items))


def attributes_state(made: Any, state: dict[str, object]) -> None:
    """Attributes of an object whose class answers `__getattr__`, which pickle would ask before they are there."""
    object.__getattribute__(made, "__dict__").update(interned(state))


def builtin_exception(kind: Any, base: Any, arguments: tuple[object, ...]) -> Any:
    """An exception whose builtin base keeps fields of its own, without the `__init__` of the notebook's class."""
    made = kind.__new__(kind, *arguments)
    base.__init__(made, *arguments)
    return made


def answering_slots_state(made: Any, state: tuple[dict[str, object] | None, dict[str, object]]) -> None:
    """As `attributes_state`, for a class with slots."""
    attributes, slots = state
    if attributes:
        attributes_state(made, attributes)
    for name, value in slots.items():
        set_slot(made, name, value)


def set_slot(made: Any, name: str, value: object) -> None:
    """Fill a slot past every `__setattr__`, also past one in C that knows no others than its own.

    Args:
        name: of the slot. A number after it says how many slots of the same name hide it: "x 1" is hidden by one.
    """
    plain, _, hidden = name.partition(" ")
    above = int(hidden or 0)
    for base in type(made).__mro__:
        slot = base.__dict__.get(plain)
        if type(slot) is types.MemberDescriptorType:
            if not above:
                slot.__set__(made, value)
                return
            above -= 1
    object.__setattr__(made, name, value)


Added = tuple[Callable[[Any, Any], object] | None, bool, Any, dict[str, object], dict[str, object]]


def added_state(made: Any, state: Added) -> None:
    """What a library's class says is an object's state, and what the notebook's classes added."""
    set_state, is_given, inner, attributes, slots = state
    if set_state is not None:
        set_state(made, inner)
    elif is_given:
        _set_as_pickle_does(made, inner)
    answering_slots_state(made, (attributes, slots))


def _set_as_pickle_does(made: Any, state: Any) -> None:
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        made.__dict__.update(interned(attributes))
    for name, value in (slots or {}).items():
        setattr(made, name, value)


def with_attributes(kind: Any, arguments: tuple[object, ...], plain: dict[str, object]) -> Any:
    """A bare object that can be hashed already: its own state may hold it as a key."""
    made = kind.__new__(kind, *arguments)
    attributes_state(made, plain)
    return made


def all_attributes_state(made: Any, state: dict[str, object]) -> None:
    """All attributes in their order."""
    attributes = object.__getattribute__(made, "__dict__")
    attributes.clear()
    attributes.update(interned(state))


State = tuple[dict[str, object] | None, dict[str, object]]


def with_slots(kind: Any, arguments: tuple[object, ...], plain: State) -> Any:
    """As `with_attributes`, for a class with slots."""
    made = kind.__new__(kind, *arguments)
    answering_slots_state(made, plain)
    return made


def all_slots_state(made: Any, state: State) -> None:
    """All attributes in their order, and all slots."""
    attributes, slots = state
    if attributes:
        all_attributes_state(made, attributes)
    answering_slots_state(made, (None, slots))


def live(token: str, surface: bytes = b"") -> object:
    """An object that could not be saved: the one still alive in this process, or a placeholder that raises."""
    return current().live(token, surface)


def pinned(token: str, kind: type | None, make: Callable[..., object], *arguments: Any) -> object:
    """An object of which something that stays alive has hold: the very one while it lives; its content follows."""
    return current().pinned(token, kind, make, arguments)


def held_as(module: str, name: str, kind: type | None, make: Callable[..., object], *arguments: Any) -> object:
    """As `held`, for an object that is made in another way; its content follows (`pinned_state`)."""
    return current().held_as(module, name, kind, make, arguments)


def taken(token: str, make: Callable[..., object], *arguments: Any) -> object:
    """As `pinned`, for an object that is made with all that it holds: the very one where it can take that."""
    return current().taken(token, make, arguments)


def pinned_state(made: object, parts: tuple[Any, Any, Any, Any]) -> None:
    current().refill(made, Refill(*parts))


def set_factory(made: Any, factory: Any) -> None:
    made.default_factory = factory


class Refill(Later):
    """All that an object held: what it held besides goes."""

    setter: Callable[[Any, Any], object] | None
    state: Any
    items: list[Any] | None
    pairs: list[tuple[Any, Any]] | None

    def give(self, made: Any) -> None:
        empty(made)
        if self.setter is not None:
            self.setter(made, self.state)
        elif self.state is not None:
            set_attributes(made, self.state)
        if self.items:
            made.extend(self.items)
        set_item = (
            collections.OrderedDict.__setitem__ if isinstance(made, collections.OrderedDict) else dict.__setitem__
        )
        for key, value in self.pairs or ():
            set_item(made, key, value)


_EMPTIED: tuple[Any, ...] = (collections.OrderedDict, dict, list, set, collections.deque)


def empty(made: Any) -> None:
    """Take all that it holds out of an object, past any override."""
    for base in _EMPTIED:
        if isinstance(made, base):
            base.clear(made)
            break
    if type(made).__dictoffset__:
        object.__getattribute__(made, "__dict__").clear()
    for base in type(made).__mro__:
        for slot in vars(base).values() if "__slots__" in vars(base) else ():
            if type(slot) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):
                    slot.__delete__(made)
    if type(made) is types.CellType:
        with contextlib.suppress(ValueError):
            del made.cell_contents


def can_take(made: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether an object can be given other content: something may look at its memory, and a function keeps its cells."""
    kind: Any = type(made)
    try:
        if kind is types.FunctionType:
            from agent_kernel.values.definitions import define

            definition, _, cells, home = arguments
            same = list(map(id, cells or ())) == list(map(id, made.__closure__ or ()))
            return same and home is None and define(made.__code__, current().namespace)[0] == definition
        if kind is bytearray and len(made) != arguments[0]:
            made += b"\0"
            del made[-1]
        elif kind in (io.StringIO, io.BytesIO):
            made.__setstate__(made.__getstate__())
        elif kind.__module__.partition(".")[0] == "numpy":
            return _can_take_numbers(made, arguments)
    except (BufferError, ValueError):
        return False
    return True


def _can_take_numbers(made: Any, arguments: tuple[Any, ...]) -> bool:
    """Of an array of objects, and of what gives random numbers: whether it has the form, or draws from the same source."""
    import numpy as np

    if isinstance(made, np.ndarray):
        from agent_kernel.values.restore.arrays import object_array_bare
        from agent_kernel.values.restore.taking import can_be_written, fits_array

        return can_be_written(made) and fits_array(made, object_array_bare(*arguments))
    return not isinstance(made, np.random.RandomState) or made._bit_generator is next(iter(arguments), None)


def held(module: str, name: str, kind: type) -> object:
    """What a module of the person's own holds under this name; its content follows."""
    return current().held(module, name, kind)


def reached(module: str, name: str, steps: tuple[tuple[str, str], ...], kind: type) -> object:
    """A list, dict or set below what a library's module holds; an empty one where the library has none there by now."""
    found: Any = importlib.import_module(module)
    try:
        found = functools.reduce(getattr, name.split("."), found)
        for how, part in steps:
            found = found(part) if how == "call" else found[part] if how == "item" else getattr(found, part)
    except (AttributeError, LookupError, TypeError):
        found = None
    return found if type(found) is kind else kind()


def held_state(made: object, content: Any) -> None:
    current().set_content(made, content)


def held_content(made: object, content: Any) -> None:
    """As `held_state`, in a pickle of its own."""
    current().set_content(made, content)


def set_content(made: Any, content: Any) -> None:
    """Replace the content of a list, dict, set or deque, or the attributes of an object, and run none of its code."""
    kind = type(made)
    if isinstance(content, Later):
        content.give(made)
    elif kind is list or kind is bytearray:
        made[:] = content
    elif kind is collections.deque:
        made.clear()
        made.extend(content)
    elif any(kind is other for other in _FILLED_BY_UPDATE):
        made.clear()
        if kind is collections.Counter:  # whose own update counts
            dict.update(made, content)
        else:
            made.update(content)
    elif (target := object.__getattribute__(made, "__dict__")) is not content:
        target.clear()
        target.update(content)


_FILLED_BY_UPDATE = (
    *(dict, set, collections.OrderedDict, collections.defaultdict, collections.Counter),
    *(weakref.WeakSet, weakref.WeakValueDictionary, weakref.WeakKeyDictionary),
)


def lock(token: str, kind: str) -> object:
    """A lock: the live one where it lives, else a new one, unlocked, for all that shared it."""
    return current().live_or(token, threading.RLock if kind == "RLock" else threading.Lock)


def weak_reference(target: object) -> object:
    return weakref.ref(target) if target is not None else weakref.ref(_Gone())


def weak_proxy(target: Any) -> object:
    return weakref.proxy(target if target is not None else _Gone())


def weak_reference_of(kind: Any, target: object) -> object:
    """A weak reference of a class of its own, to what is alive or was dead already."""
    return kind(target if target is not None else _Gone())


def weak_method(owner: object, function: Any, kind: Any) -> object:
    return kind(types.MethodType(function, owner) if owner is not None else _Gone().method)


# With what is called when the target dies. Values that are only looked at die, too, and nobody is to hear of it.


def weak_reference_calling(target: object, called: Any) -> object:
    return weak_reference(target) if not _is_heard(target) else weakref.ref(target, called)


def weak_proxy_calling(target: Any, called: Any) -> object:
    return weak_proxy(target) if not _is_heard(target) else weakref.proxy(target, called)


def weak_reference_of_calling(kind: Any, target: object, called: Any) -> object:
    return weak_reference_of(kind, target) if not _is_heard(target) else kind(target, called)


def weak_method_calling(owner: object, function: Any, kind: Any, called: Any) -> object:
    made = (owner, function, kind)
    return weak_method(*made) if not _is_heard(owner) else kind(types.MethodType(function, owner), called)


def _is_heard(target: object) -> bool:
    return target is not None and current().takes_place


class _Gone:
    """The target of a weak reference that was already dead."""

    def method(self) -> None: ...


def cached_property(function: Callable[[Any], Any], attribute: str | None, doc: str | None) -> object:
    made = functools.cached_property(function)
    made.attrname, made.__doc__ = attribute, doc
    return made


def single_dispatch_method() -> object:
    """Without its functions, which are given to it later; with the cache that this Python's version has."""
    made: object = functools.singledispatchmethod(live)
    return made


def method_of(owner: Any, name: str) -> object:
    """A method written in C; of an object that is not there what stands for that, and raises the reason when it is used."""
    from agent_kernel.values.surface import Placeholder

    return owner if type(owner) is Placeholder else getattr(owner, name)


def dict_view(kind: str, mapping: Any) -> object:
    """The keys, values or items of this very dict, past any override."""
    base: Any = collections.OrderedDict if isinstance(mapping, collections.OrderedDict) else dict
    return getattr(base, kind)(mapping)


_context_variable: Any = contextvars.ContextVar


def context_variable(name: str, default: tuple[object, ...]) -> Any:
    """A context variable with its default, if it has one."""
    return _context_variable(name, default=default[0]) if default else _context_variable(name)


def context_variable_state(made: Any, value: tuple[object]) -> None:
    """Set it in the context that loads, which is the one that runs cells."""
    made.set(value[0])


def class_attributes(kind: type) -> object:
    """The mapping proxy that `vars` gives for a class."""
    return vars(kind)


def regex_match(pattern: Any, text: Any, start: int, end: int, regions: tuple[tuple[int, int], ...]) -> object:
    """Match again, and take the way that finds the same regions."""
    tries = [
        (pattern.match, start),
        (pattern.fullmatch, start),
        (pattern.search, start),
        (pattern.match, regions[0][0]),
    ]
    found = [made for find, at in tries if (made := find(text, at, end)) is not None and made.regs == regions]
    if not found:
        raise ValueError(f"{pattern.pattern!r} no longer matches as it did")
    return found[0]


# -- containers


def container_state(made: Any, state: tuple[object, Any]) -> None:
    """Give a list, dict or set subclass its attributes first, then its items past any override."""
    attributes, items = state
    if attributes is not None:
        set_attributes(made, attributes)
    if isinstance(made, list):
        list.extend(made, items)
    elif isinstance(made, dict):
        dict.update(made, items)
    else:
        set.update(made, items)


def set_attributes(made: Any, state: Any) -> None:
    """What pickle does with a state, including slots."""
    if hasattr(type(made), "__setstate__"):
        made.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        made.__dict__.update(interned(state))
    for name, value in (slots or {}).items():
        set_slot(made, name, value)


def flat(value: object, _: list[None]) -> object:
    """What was saved bare, and behind it, in a list, what everything in it holds."""
    return value


def flat_behind(_inner: list[object], value: object, _: list[object]) -> object:
    """The same of what holds containers in containers: `inner` has those that lie deepest first."""
    return value


def instance(kind: Any, *arguments: object) -> object:
    """What pickle's own way to make a bare instance does (`copyreg.__newobj__`)."""
    return kind.__new__(kind, *arguments)


def exact_instance(kind: Any, *arguments: object) -> object:
    """An instance of no other class than this: a library's `__new__` may make one for each object, as those of mocks do.

    It may also give an object that it made before, of a class equal to this one: sympy does, for `Function("f")`.
    """
    made = kind.__new__(kind, *arguments)
    found: object = type(made)
    return made if found is kind or found == kind else maker_of(kind).__new__(kind)


def bare_instance(kind: Any, maker: Any, *arguments: object) -> object:
    """A bare instance, past the `__new__` of the notebook's classes."""
    return maker.__new__(kind, *arguments)


def bare_struct(kind: Any) -> Any:
    """An empty struct of msgspec, without its `__post_init__`. No call in Python makes one."""
    if type(kind).__module__ != "msgspec._core":
        raise TypeError(f"{kind.__name__} is no longer a struct of msgspec")
    return allocate(kind, 0)


def struct_state(made: Any, state: tuple[dict[str, object] | None, dict[str, object], tuple[str, ...]]) -> None:
    """Set the fields of a struct. Fields that its class got after it was saved get their defaults."""
    attributes, fields, unset = state
    answering_slots_state(made, (attributes, fields))
    kind = type(made)
    if len(fields) + len(unset) == len(kind.__struct_fields__):
        return
    import msgspec

    for field in msgspec.structs.fields(kind):
        if field.name in fields or field.name in unset:
            continue
        if field.default_factory is not msgspec.NODEFAULT:
            set_slot(made, field.name, field.default_factory())
        elif field.default is not msgspec.NODEFAULT:
            set_slot(made, field.name, field.default)


def made_by(kind: Any, library: Any, *arguments: object) -> Any:
    """An object as the library's class alone makes one when it is called, past the notebook's classes around it."""
    made = library.__new__(kind) if library.__new__ is object.__new__ else library.__new__(kind, *arguments)
    if library.__init__ is not object.__init__ and isinstance(made, kind):
        library.__init__(made, *arguments)
    return made


def bare_with_attributes(kind: Any, maker: Any, arguments: tuple[object, ...], plain: dict[str, object]) -> Any:
    """As `with_attributes`, past the `__new__` of the notebook's classes."""
    made = maker.__new__(kind, *arguments)
    attributes_state(made, plain)
    return made


def bare_with_slots(kind: Any, maker: Any, arguments: tuple[object, ...], plain: State) -> Any:
    """As `with_slots`, past the `__new__` of the notebook's classes."""
    made = maker.__new__(kind, *arguments)
    answering_slots_state(made, plain)
    return made


_copyreg: Any = copyreg  # typeshed lacks `__newobj__`
# What makes an object that is given all that it holds afterwards. Of these some take arguments of a library's class.
MAKES_BARE: tuple[Any, ...] = (
    *(_copyreg.__newobj__, instance, exact_instance, bare_instance),
    *(bare_struct, with_attributes, with_slots, bare_with_attributes, bare_with_slots, pinned, held, held_as),
)


def hash_iterator(holder: Any, kind: str, rest: list[Any]) -> object:
    """An iterator over a dict or set that stands where `rest` is left; over the rest alone where the order is another."""
    view, go_through = _HASH_ITERATORS[kind]
    if len(holder) < len(rest):  # not filled yet: it holds its own iterator
        return iter(rest)
    made = go_through(view(holder))
    for _ in range(len(holder) - len(rest)):
        next(made)
    if kind == "set_iterator" and not _stands_before(holder, rest):
        return iter(rest)
    return made


class _Asked:
    """Gives an iterator that is asked for one: a file that was closed would raise an error."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __iter__(self) -> Any:
        return self._found


def iterator_over(kind: Any, *arguments: Any) -> Any:
    """A `map`, `filter` or the like over files, which may be closed."""
    return kind(*(_Asked(part) if issubclass(type(part), io.IOBase) else part for part in arguments))


def list_iterator_state(made: Any, state: tuple[Any, int]) -> None:
    """Set the position of an iterator. Python limits it to the length of the list, which is filled later: lengthen that here."""
    found, position = state
    length = len(found)
    list.extend(found, [None] * (position + 1 - length))
    made.__setstate__(position)
    list.__delitem__(found, slice(length, None))


def _same(found: Any) -> Any:
    return found


_of_dict: Any = dict
_HASH_ITERATORS: dict[str, tuple[Any, Any]] = {  # which view, and what goes through it
    "dict_keyiterator": (_of_dict.keys, iter),
    "dict_valueiterator": (_of_dict.values, iter),
    "dict_itemiterator": (_of_dict.items, iter),
    "dict_reversekeyiterator": (_of_dict.keys, reversed),
    "dict_reversevalueiterator": (_of_dict.values, reversed),
    "dict_reverseitemiterator": (_of_dict.items, reversed),
    "set_iterator": (_same, set.__iter__),
}


def _stands_before(holder: set[Any], rest: list[Any]) -> bool:
    """Whether the set goes through these items last, and in this order; none of them is asked."""
    found = list(set.__iter__(holder))[len(holder) - len(rest) :]
    return all(
        one is other or (type(one) is type(other) and type(one) in (int, str, bytes, float) and one == other)
        for one, other in zip(found, rest, strict=True)
    )


# -- memory of other kinds


def byte_view(owner: Any, offset: int, size: int, shape: tuple[int, ...], form: str, readonly: bool) -> memoryview:
    whole = memoryview(owner).cast("B")[offset : offset + size]
    if form != "B" or len(shape) != 1:
        whole = whole.cast("B").cast(form, shape)  # type: ignore[call-overload]
    return whole.toreadonly() if readonly else whole


def stepping_view(owner: Any, offset: int, size: int, step: int, form: str, readonly: bool) -> memoryview:
    whole = memoryview(owner).cast("B")[offset : offset + size]
    items = (whole if form == "B" else whole.cast(form))[::step]  # type: ignore[call-overload]
    return items.toreadonly() if readonly else items


def sqlite_memory(image: Any, isolation_level: Any, row_factory: Any, text_factory: Any, *autocommit: Any) -> object:
    """A database in memory, or a connection to a shared one; `autocommit` from Python 3.12 on, where it is not the default."""
    import sqlite3

    options = {"autocommit": autocommit[0]} if autocommit else {}
    options["isolation_level"] = isolation_level
    if type(image) is _SharedDatabase:
        made = sqlite3.connect(image.name, uri=True, **options)
    else:
        made = sqlite3.connect(":memory:", **options)
        _fill_database(made, image)
    made.row_factory = row_factory
    made.text_factory = text_factory
    return made


class _SharedDatabase:
    """A database in memory that several connections share. It lives as long as one of them, or this object, does."""

    def __init__(self, image: StoredBytes) -> None:
        import sqlite3

        # A new name each time, because the name of a living database would lead to that one.
        self.name = f"file:agent-kernel-{secrets.token_hex(12)}?mode=memory&cache=shared"
        self._first = sqlite3.connect(self.name, uri=True, check_same_thread=False)
        with contextlib.closing(sqlite3.connect(":memory:")) as aside:
            _fill_database(aside, image)
            aside.backup(self._first)

    def __del__(self) -> None:
        self._first.close()


def _fill_database(made: Any, image: StoredBytes) -> None:
    if image.size:
        made.deserialize(bytes(bytes_of(image)))


def sqlite_shared(image: StoredBytes) -> object:
    """A database in memory, for the connections that share it."""
    return _SharedDatabase(image)


def sqlite_row(names: tuple[str, ...], values: tuple[object, ...]) -> object:
    import sqlite3

    return sqlite3.Row(_cursor_of(names), values)


@functools.lru_cache(64)
def _cursor_of(names: tuple[str, ...]) -> Any:
    """A cursor whose results have columns of these names. A row takes its names from a cursor."""
    import sqlite3

    columns = ", ".join('0 AS "{}"'.format(name.replace('"', '""')) for name in names)
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        return connection.execute(f"SELECT {columns}")


def pixels_of(picture: Any) -> Any:
    """What `Image.load` of PIL returns, so that `pixels[x, y]` works."""
    return picture.im.pixel_access(0)


def drawing_on(picture: Any, mode: str) -> Any:
    """What draws on a picture of PIL."""
    from PIL import ImageDraw

    return ImageDraw.Draw(picture, mode)


def sqlite_without_functions(token: str, functions: tuple[tuple[str, int], ...], *database: Any) -> Any:
    """As `sqlite_memory`, with what raises in the place of the functions that queries called."""
    made: Any = sqlite_memory(*database)
    for name, arguments in functions:
        made.create_function(name, arguments, current().live(token))
    return made
