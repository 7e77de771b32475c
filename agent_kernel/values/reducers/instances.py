"""Objects of the notebook's own classes that pickle could not bring back, its exceptions, loggers and handlers of logs.

pickle makes a bare object and asks it things before it has its attributes, or calls a class with arguments that are not
those of its `__init__`. The streams of these say instead how the object is made and what it is given.
So do those of objects whose class adds attributes to a library's, of which the library's own way of saving knows nothing.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import collections
import copyreg
import dis
import enum
import functools
import inspect
import itertools
import logging
import random
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from agent_kernel.values import references
from agent_kernel.values.definitions import find_nested_codes
from agent_kernel.values.introspection import (
    ATOM_IDS,
    TypeCache,
    bases_of,
    class_dict,
    derives_from,
    find_loaded,
    instance_dict,
    is_made_in_python,
    module_name,
    names_of_slots,
)
from agent_kernel.values.pickler import is_dict_doubtful, is_dict_shared, reduce, with_copied_dict, with_shared_dict
from agent_kernel.values.reducers import Handler, is_live, is_notebook_type
from agent_kernel.values.restore import logs as restored_logs
from agent_kernel.values.restore import objects as restore

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler


# What an object holds is of any type.


_copyreg: Any = copyreg  # typeshed lacks `__newobj__`
_tuple: Any = tuple  # typeshed lacks its `__getnewargs__`
_NEW = _copyreg.__newobj__
_MAKES = (
    _NEW,
    _copyreg.__newobj_ex__,
    restore.instance,
    restore.with_attributes,
    restore.with_slots,
    restore.exception,
)


def of_notebook(kind: type[Any], handler: Handler) -> Handler:
    """The handler of a class of the notebook's, around the one that its bases and methods ask for."""
    if is_saved_as_items(kind):
        return _of_items(handler)
    handler = past_own_new(kind, handler)
    if _defines_any(kind, ("__class__",)):
        handler = _of_class(handler)
    if _defines_any(kind, ("__setattr__",)) and not hasattr(kind, "__setstate__"):
        handler = _past_own_setattr(handler)
    if not _defines_any(kind, ("__getstate__", "__getnewargs__", "__getnewargs_ex__")) and not _defines_reduction(kind):
        return handler

    def reduce_guarded(pickler: Pickler, value: Any) -> Any:
        kind = type(value)  # the one outside, named here, would never die
        pickler.guard(kind)
        parts = handler(pickler, value)
        refused = "" if parts is NotImplemented or isinstance(parts, str) else _why_refused(pickler, kind, parts)
        if parts is NotImplemented and _defines_any(kind, ("__getstate__",)):
            refused = _why_refused(pickler, kind, reduce(value))
        return pickler.refuse(value, f"it cannot be loaded again: {refused}") if refused else parts

    return reduce_guarded


def is_saved_as_items(kind: type[Any]) -> bool:
    """Whether `collections.namedtuple` made the class, and no code of the notebook's says how its objects are saved or loaded."""
    own = [base for base in kind.__mro__ if is_notebook_type(base)]
    if kind.__mro__ != (*own, tuple, object) or type(kind) is not type or kind.__dictoffset__:
        return False
    makers = [base for base in own if "__new__" in vars(base)]
    asked: Any = getattr(kind, "__getnewargs__", None)
    return (
        bool(makers)
        and all(map(_only_fills_fields, makers))
        and getattr(asked, "__globals__", None) is vars(collections)
        and not _defines_reduction(kind)
        and not _defines_any(kind, _SAY_WHAT_ITEMS_ARE)
    )


_SAY_WHAT_ITEMS_ARE = (
    "__getstate__",
    "__setstate__",
    "__getnewargs_ex__",
    "__getattribute__",
    "__getattr__",
    "__class__",
)


def _of_items(handler: Handler) -> Handler:
    """What pickle gives for a tuple with named items, whatever its class says to `iter`.

    To ask the class for it takes ten times as long.
    """

    def reduce_items(pickler: Pickler, value: Any) -> Any:
        if pickler.careful or (pickler.muted and id(value) in pickler.muted):
            return handler(pickler, value)
        pickler.dump_record.instances.append(value)
        return _NEW, (type(value), *_tuple.__getnewargs__(value)[0])

    return reduce_items


def _why_refused(pickler: Pickler, kind: type[Any], parts: Any) -> str:
    """Why Python would refuse to load what a class of the notebook's says of an object; nothing where it would try.

    Nothing of the class is run for that: to load an object may open its file again, or write to it.
    """
    padded: list[Any] = [*parts, None, None, None, None]
    makes, arguments, state = padded[:3]
    if _is_of_notebook(makes) and isinstance(arguments, tuple):
        call = makes, len(arguments)
        if call not in pickler.known_in_dump:
            pickler.known_in_dump[call] = _why_not_called(*call)
        if refused := pickler.known_in_dump[call]:
            return f"{makes.__name__} is called with what __reduce__ gives: {refused}"
    is_pair = isinstance(state, tuple) and len(state) == 2
    if state is None or isinstance(state, dict) or is_pair or padded[5] is not None or hasattr(kind, "__setstate__"):
        return ""
    return f"its state is of the type {type(state).__name__}, and {kind.__name__} has no __setstate__"


def _why_not_called(makes: Any, count: int) -> str:
    """Why something is not called with so many arguments; nothing where it would be, or what it takes is not known."""
    try:
        inspect.signature(makes).bind(*range(count))
    except TypeError as error:
        return str(error)
    except ValueError:
        pass
    return ""


def _is_of_notebook(makes: Any) -> bool:
    if isinstance(makes, type):
        return is_notebook_type(makes) and type(makes) is type
    return type(makes) is types.FunctionType and makes.__module__ == "__main__"


def _past_own_setattr(handler: Handler) -> Handler:
    """Set slots as they were: pickle would do it by the class's own `__setattr__`, which may refuse."""

    def reduce_set(pickler: Pickler, value: Any) -> Any:
        parts = handler(pickler, value)
        parts = reduce(value) if parts is NotImplemented else parts
        has_slots = len(parts) > 2 and type(parts[2]) is tuple and len(parts[2]) == 2 and parts[0] is not restore.live
        if not has_slots or any(part is not None for part in parts[5:]):
            return parts
        return *parts[:3], *(*parts[3:], None, None)[:2], restore.answering_slots_state

    return reduce_set


def _of_class(handler: Handler) -> Handler:
    """Make objects of their real class, whatever their `__class__` says: pickle refuses objects that name another class."""

    def reduce_of_class(pickler: Pickler, value: Any) -> Any:
        parts = handler(pickler, value)
        parts = reduce(value) if parts is NotImplemented else parts
        return (restore.instance, *parts[1:]) if parts[0] is _NEW else parts

    return reduce_of_class


def past_own_new(kind: type[Any], handler: Handler) -> Handler:
    """Let no `__new__`, `__init__` or metaclass of the notebook's run while its objects are loaded.

    What they did is saved already. They may read what a class or a global holds, which is not there yet, or change that:
    count, register, give another object. What a class says of itself (`__reduce__`) is done as it says.
    """
    maker = _maker_past(kind)
    library = _library_above(kind)
    is_called = library is not object and (_runs_when_called(kind) or _lacks_attributes(library))
    is_called = is_called and not _defines_reduction(kind) and not _is_made_in_c(kind)
    if maker is None and _makes_in_python(kind):
        handler = _exact(kind, handler)
    if maker is None and not is_called:
        return handler
    valued: Any = maker if any(maker is base for base in _VALUED) else None

    def reduce_bare(pickler: Pickler, value: Any) -> Any:
        parts = handler(pickler, value)
        parts = reduce(value) if parts is NotImplemented else parts
        kind, makes = type(value), parts[0]
        if is_called and (makes is kind or makes is restore.builtin_exception):
            return _past_call(pickler, value, library, parts)
        if maker is None or not any(makes is other for other in _MAKES) or _leaves_out(value, parts):
            return parts
        arguments = () if valued is None else valued.__getnewargs__(value)
        if makes is restore.exception:
            arguments = parts[1][1]
        if makes is restore.with_attributes:
            return restore.bare_with_attributes, (kind, maker, arguments, parts[1][2]), *parts[2:]
        if makes is restore.with_slots:
            return restore.bare_with_slots, (kind, maker, arguments, parts[1][2]), *parts[2:]
        return restore.bare_instance, (kind, maker, *arguments), *parts[2:]

    return reduce_bare


def _library_above(kind: type[Any]) -> type[Any]:
    """The library's class that makes the objects: an abstract one before it, such as `Sized`, makes none."""
    above: list[Any] = [base for base in kind.__mro__ if not is_notebook_type(base)]
    makes = (base for base in above if base.__new__ is not object.__new__ or base.__init__ is not object.__init__)
    found: type[Any] = next(makes, above[0])
    return found


def _makes_in_python(kind: type[Any]) -> bool:
    """Whether a library's `__new__` makes the objects, and pickle goes through it: it may make a class for each, as mocks do."""
    making = next(base for base in kind.__mro__ if "__new__" in vars(base))
    foreign = not is_notebook_type(making) and type(vars(making)["__new__"]) is not types.BuiltinFunctionType
    return foreign and not _defines_reduction(kind)


def is_tuple_made_in_python(kind: type[Any]) -> bool:
    """Whether a library's `__new__` may make other items of those that a tuple holds, as that of a mock's call does."""
    says_more = hasattr(kind, "__getnewargs_ex__")
    if says_more or not issubclass(kind, tuple) or getattr(kind, "__getnewargs__", None) is not _ITEMS_OF_TUPLE:
        return False
    making = next(base for base in kind.__mro__ if "__new__" in vars(base))
    return type(vars(making)["__new__"]) is not types.BuiltinFunctionType


_ITEMS_OF_TUPLE: Any = _tuple.__getnewargs__


def reduce_tuple(pickler: Pickler, value: Any) -> Any:
    """A library's tuple with the items that it has, past its `__new__`."""
    parts = reduce_answering(pickler, value)
    if isinstance(parts, str) or parts[0] is not _NEW:
        return parts
    return restore.bare_instance, (type(value), tuple, *_ITEMS_OF_TUPLE(value)), *parts[2:]


def past_foreign_new(kind: type[Any], handler: Handler) -> Handler:
    """Make objects bare whose library's `__new__` wants arguments that nobody saved: their library makes them past it, too."""
    making = [base for base in bases_of(kind) if "__new__" in class_dict(base)]
    maker = next((base for base in making if type(class_dict(base)["__new__"]) is types.BuiltinFunctionType), None)
    asked = any(hasattr(kind, name) for name in ("__getnewargs__", "__getnewargs_ex__"))
    if (
        asked
        or maker is making[0]
        or not any(maker is base for base in _FILLED)
        or not _why_not_called(kind.__new__, 1)
    ):
        return handler

    def reduce_past(pickler: Pickler, value: Any) -> Any:
        parts = handler(pickler, value)
        parts = reduce(value) if parts is NotImplemented else parts
        return (restore.bare_instance, (type(value), maker), *parts[2:]) if parts[0] is _NEW else parts

    return reduce_past


def _exact(kind: type[Any], handler: Handler) -> Handler:
    """Let what is loaded be an instance of the class that was saved, and of no other."""

    def reduce_exact(pickler: Pickler, value: Any) -> Any:
        parts = handler(pickler, value)
        parts = reduce(value) if parts is NotImplemented else parts
        if parts[0] is not _NEW:
            return parts
        return restore.exact_instance, parts[1], *parts[2:]

    return reduce_exact


def _past_call(pickler: Pickler, value: Any, library: type, parts: Any) -> Any:
    """Where the library's class says that the object's class is to be called: call the library's part of it."""
    kind = type(value)
    arguments = parts[1] if parts[0] is kind else parts[1][2]
    made = restore.made_by, (kind, library, *arguments)
    rest: list[Any] = [*parts[2:], None, None, None, None]
    if rest[0] is not None or rest[3] is not None or not _lacks_attributes(library):
        return *made, *parts[2:]
    state = find_added(value)  # of which the library knows nothing
    if not any(state):
        return *made, *parts[2:]
    pickler.dump_record.roots.append(state)
    return *made, state, *rest[1:3], restore.answering_slots_state


def _lacks_attributes(library: type) -> bool:
    """Whether objects of the library's class have no attributes, so that it saves none of a class made of it."""
    return not library.__dictoffset__ or library.__module__ == "collections"


def find_added(value: Any) -> tuple[dict[str, object], dict[str, object]]:
    """The attributes and slots that the notebook's classes add to an object of a library's."""
    kind = type(value)
    attributes: dict[str, object] = object.__getattribute__(value, "__dict__") if kind.__dictoffset__ else {}
    return attributes, _filled_slots(value, itertools.takewhile(is_notebook_type, kind.__mro__))


_VALUED = (int, float, complex, str, bytes, tuple)  # what they are is an argument
_FILLED = (object, list, dict, set)  # all that they hold is given to them later


def _maker_past(kind: type[Any]) -> type | None:
    """The builtin base that makes objects of a notebook class which has a `__new__` of its own, or None."""
    making = [base for base in kind.__mro__ if "__new__" in vars(base)]
    own = list(itertools.takewhile(_is_written_in_notebook, making))
    maker = making[len(own)]
    makes_bare = issubclass(maker, BaseException) or any(maker is base for base in (*_VALUED, *_FILLED))
    return maker if makes_bare and not all(map(_only_fills_fields, own)) else None


def _runs_when_called(kind: type[Any]) -> bool:
    """Whether calling the class runs code of the notebook's."""
    meta: list[type] = [base for base in bases_of(type(kind)) if is_notebook_type(base)]
    return _defines_any(kind, ("__new__", "__init__")) or any("__call__" in vars(base) for base in meta)


def _defines_reduction(kind: type[Any]) -> bool:
    """Whether code of the notebook's says how objects are made again."""
    if any(kind is other for other in copyreg.dispatch_table):
        return True
    return _defines_any(kind, ("__reduce_ex__", "__reduce__"))


def _defines_any(kind: type, names: tuple[str, ...]) -> bool:
    bases = itertools.takewhile(is_notebook_type, kind.__mro__)
    return any(name in vars(base) for base in bases for name in names)


def _is_written_in_notebook(kind: type) -> bool:  # what nobody can import may be written in C, too
    return is_notebook_type(kind) and type(vars(kind)["__new__"]) is not types.BuiltinFunctionType


def _is_made_in_c(kind: type[Any]) -> bool:
    """Whether a metaclass written in C gives classes a way of their own to make objects, as msgspec's does."""
    return bool(_basic_size(type(kind)) != _basic_size(type))


_basic_size: Any = type.__dict__["__basicsize__"].__get__


def _only_fills_fields(kind: type) -> bool:
    """Whether the `__new__` is the one that `collections.namedtuple` writes: it does no more than `tuple`'s."""
    own = vars(kind)["__new__"]
    code = getattr(getattr(own, "__func__", own), "__code__", None)
    return "_fields" in vars(kind) and code is not None and code.co_names == ("_tuple_new",)


def _leaves_out(value: Any, parts: Any) -> bool:
    """Whether the class's own `__getstate__` leaves attributes to its `__new__`."""
    if not isinstance(getattr(type(value), "__getstate__", None), types.FunctionType):
        return False
    state = parts[2] if len(parts) > 2 else None
    attributes = object.__getattribute__(value, "__dict__") if type(value).__dictoffset__ else {}
    return type(state) is not dict or not attributes.keys() <= state.keys()


def handler_of_exception(kind: type[Any], other: Handler) -> Handler:
    """How an exception is made, and after that what Python keeps beside its arguments, which pickle leaves out."""
    if issubclass(kind, BaseExceptionGroup) and not _defines_reduction(kind):
        made: Handler = reduce_exception_group
    elif is_plain_exception(kind):
        made = reduce_exception
    else:
        made = reduce_builtin_exception if has_own_init(kind) else other
    if is_notebook_type(kind) and _defines_any(kind, ("__setattr__",)):
        made = _past_setattr_of_exception(made)

    def reduce_whole(pickler: Pickler, error: BaseException) -> Any:
        is_shared = is_dict_shared(pickler, error)
        parts = made(pickler, error)
        fields = _find_fields(error)
        if not fields and not is_shared and not is_dict_doubtful(pickler, error):
            return parts
        parts = reduce(error) if parts is NotImplemented else parts
        if isinstance(parts, str) or parts[0] is restore.live:  # found by name, or not saved
            return parts
        pickler.dump_record.roots.append(fields)
        if is_shared and (parts[-1] is restore.exception_state or _sets_attributes(error, parts)):
            return parts[0], parts[1], (error.__dict__, fields), None, None, restore.exception_own_dict
        if is_dict_doubtful(pickler, error):
            parts = with_copied_dict(pickler, error, parts)
        if not fields:
            return parts
        state: Any = parts[2] if len(parts) > 2 else None
        if parts[-1] is restore.exception_state:
            state = state[0]
        return parts[0], parts[1], (state, fields), None, None, restore.exception_with

    return reduce_whole


def _past_setattr_of_exception(handler: Handler) -> Handler:
    """Set the attributes of an exception past the `__setattr__` of its class, which Python would call."""

    def reduce_past(pickler: Pickler, error: BaseException) -> Any:
        parts = handler(pickler, error)
        parts = reduce(error) if parts is NotImplemented else parts
        if isinstance(parts, str) or not _sets_attributes(error, parts):
            return parts
        return *parts[:2], (dict(error.__dict__),), None, None, restore.exception_state

    return reduce_past


def _sets_attributes(error: BaseException, parts: Any) -> bool:
    """Whether loading does nothing with the state but to set its items as attributes."""
    plain: Any = BaseException.__setstate__
    return len(parts) == 3 and parts[2] is error.__dict__ and type(error).__setstate__ is plain


_CHAIN = ("__cause__", "__context__", "__suppress_context__")
# `args` is what all but groups are made with; its traceback leads into frames, which cannot be saved.
_NOT_BESIDE = frozenset({"args", "__traceback__", "__dict__", "__weakref__", *_CHAIN})
_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def _find_fields(error: BaseException) -> dict[str, object]:
    """What an exception holds in fields of its own: its cause and context, what C keeps for it, slots."""
    kept = ((name, getattr(BaseException, name).__get__(error)) for name in _CHAIN)
    found: dict[str, object] = {name: held for name, held in kept if held is not None and held is not False}
    if "__cause__" in found and not found.pop("__suppress_context__", False):  # setting the cause sets it
        found["__suppress_context__"] = False
    for name, field in _fields_of(type(error)):
        held = _content_of(field, error)
        # A slot that holds None is not empty; what C keeps is None from the start.
        if held is not _MISSING and (held is not None or field.__objclass__.__module__ != "builtins"):
            found[name] = held
    if isinstance(error, BaseExceptionGroup):
        found["args"] = error.args
    return found


def _fields_of(kind: type) -> list[tuple[str, Any]]:
    """The fields of an exception, by the names under which `restore.set_slot` finds them."""
    fields: list[tuple[str, Any]] = []
    above: dict[str, int] = {}
    for base in bases_of(kind):
        for name, found in list(class_dict(base).items()):
            if not isinstance(found, _FIELDS) or base is BaseException or base is object:
                continue
            if name not in _NOT_BESIDE and not _is_made_of_arguments(kind, name):
                hidden_by = above.get(name, 0)
                fields.append((f"{name} {hidden_by}" if hidden_by else name, found))
                above[name] = hidden_by + (type(found) is types.MemberDescriptorType)
    return sorted(fields, key=itemgetter(0))


def _is_made_of_arguments(kind: type, name: str) -> bool:
    return issubclass(kind, BaseExceptionGroup) and name in ("message", "exceptions")  # and cannot be set


def is_plain_exception(kind: type) -> bool:
    """A notebook's own exception over a builtin one that has no fields of its own."""
    builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    own: Any = kind.__reduce__
    plain = builtin.__basicsize__ == BaseException.__basicsize__ and own is BaseException.__reduce__
    return plain and is_notebook_type(kind) and "__setstate__" not in {n for b in kind.__mro__[:-3] for n in vars(b)}


def reduce_exception(pickler: Pickler, error: BaseException) -> Any:
    """pickle would call the class with `args`, which rarely are what its `__init__` was called with."""
    pickler.dump_record.instances.append(error)
    return restore.exception, (type(error), error.args), (dict(error.__dict__),), None, None, restore.exception_state


def reduce_exception_group(pickler: Pickler, error: Any) -> Any:
    """Make it of its message and exceptions: `args` are what its class was called with, and a list there may lead to the group."""
    pickler.dump_record.instances.append(error)
    made = (type(error), error.message, error.exceptions)
    return restore.exception_group, made, (dict(error.__dict__),), None, None, restore.exception_state


def has_own_init(kind: type[Any]) -> bool:
    """A notebook's own exception whose `__init__` takes other arguments than its builtin base, which has fields."""
    builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    own = isinstance(kind.__init__, types.FunctionType) and kind.__reduce__ is builtin.__reduce__
    return own and is_notebook_type(kind) and kind.__setstate__ is BaseException.__setstate__


def reduce_builtin_exception(pickler: Pickler, error: BaseException) -> Any:
    parts = pickler.instance(error)
    parts = reduce(error) if parts is NotImplemented else parts
    if parts[0] is not type(error):  # a token for what is not saved
        return parts
    builtin = next(base for base in type(error).__mro__ if base.__module__ == "builtins")
    made = (type(error), builtin, parts[1])
    return restore.builtin_exception, made, (dict(error.__dict__),), None, None, restore.exception_state


def reduce_hashed(pickler: Pickler, value: Any) -> Any:
    """An object whose hash is computed from its attributes: those that are plain are there before anything holds it."""
    noted: Any = pickler.instance(value)
    if noted is not NotImplemented and noted[-1] is restore.own_dict_state:
        return noted
    if type(value).__dictoffset__ and all(map(_is_plain, object.__getattribute__(value, "__dict__").values())):
        return noted  # nothing in it can hold it
    parts: Any = reduce(value) if noted is NotImplemented else noted
    whole = len(parts) >= 3 and parts[0] is _NEW and not any(parts[3:])
    if whole and type(parts[2]) is tuple and len(parts[2]) == 2:
        return _with_plain_slots(parts) or noted
    if not whole or type(parts[2]) is not dict:
        return noted
    plain = {name: found for name, found in parts[2].items() if _is_plain(found)}
    if not plain or len(plain) == len(parts[2]):
        return noted
    kind, *arguments = parts[1]
    made = (kind, tuple(arguments), plain)
    return restore.with_attributes, made, parts[2], None, None, restore.all_attributes_state


def _with_plain_slots(parts: Any) -> Any:
    """The same of an object with slots; None: no slot is plain, or all that it holds is."""
    attributes, slots = ({name: found for name, found in (held or {}).items() if _is_plain(found)} for held in parts[2])
    if not slots or len(attributes) + len(slots) == len(parts[2][0] or ()) + len(parts[2][1]):
        return None
    kind, *arguments = parts[1]
    made = (kind, tuple(arguments), (attributes, slots))
    return restore.with_slots, made, parts[2], None, None, restore.all_slots_state


# By id: hashing a type runs its metaclass.


def _is_plain(found: Any) -> bool:
    kind = type(found)
    return id(kind) in ATOM_IDS or ((kind is tuple or kind is frozenset) and all(map(_is_plain, found)))


def is_struct(kind: type) -> bool:
    """Whether msgspec says how objects of a class are saved: by a call with all their fields."""
    mixin: Any = find_loaded("msgspec", "Struct")
    if mixin is None or not derives_from(kind, mixin) or any(kind is other for other in copyreg.dispatch_table):
        return False
    says, plain = cast("Any", kind), cast("Any", object)
    return says.__reduce__ is mixin.__reduce__ and says.__reduce_ex__ is plain.__reduce_ex__


def reduce_struct(pickler: Pickler, value: Any) -> Any:
    """A struct of msgspec. It is made empty and then filled if a field may hold it, or if a call would lose or change something."""
    parts = pickler.custom(value, _struct_parts)
    if pickler.careful and not is_live(parts):
        parts = _struct_parts(value)
    if len(parts) > 2:
        pickler.note_parts(parts[2])  # the collector does not look into each struct
    return parts


def _struct_parts(value: Any) -> tuple[Any, ...]:
    kind = type(value)
    slots = {name: _content_of(slot, value) for base in bases_of(kind) for name, slot in _slots_of(base)}
    fields = {name: slots[name] for name in kind.__struct_fields__ if slots[name] is not _MISSING}
    attributes = dict(instance_dict(value)) if kind.__dictoffset__ else None
    is_whole = len(fields) == len(kind.__struct_fields__) and not attributes and not hasattr(kind, "__post_init__")
    if is_whole and all(map(_is_plain, fields.values())):
        whole: tuple[Any, ...] = value.__reduce__()
        return whole
    unset = tuple(name for name in kind.__struct_fields__ if name not in fields)
    return restore.bare_struct, (kind,), (attributes, fields, unset), None, None, restore.struct_state


def reduce_answering(pickler: Pickler, value: Any) -> Any:
    """An object that answers for any name: pickle would ask it for `__setstate__` before it has its attributes."""
    pickler.dump_record.instances.append(value)
    is_shared = is_dict_shared(pickler, value)
    parts = pickler.protect(value) if pickler.careful else reduce(value)
    if is_shared:
        return with_shared_dict(value, parts)
    if is_dict_doubtful(pickler, value):
        parts = with_copied_dict(pickler, value, parts)
    if len(parts) < 3 or parts[0] is not _NEW or any(part is not None for part in parts[3:]):
        return parts
    if type(parts[2]) is dict:
        return *parts[:3], None, None, restore.attributes_state
    has_slots = type(parts[2]) is tuple and len(parts[2]) == 2
    return (*parts[:3], None, None, restore.answering_slots_state) if has_slots else parts


def answers_for_slots(kind: type[Any]) -> bool:
    """Whether code of the class answers for its slots, and no code says what of an object is saved.

    It may answer while nothing is in a slot, or hide it: by a property of the same name, or by another slot.
    """
    answers = isinstance(getattr(kind, "__getattr__", None), types.FunctionType)
    return (answers or _hides_slots(kind)) and is_made_of_slots(kind)


def is_made_of_slots(kind: type[Any]) -> bool:
    """Whether an object holds everything in slots, attributes and items, and no code says what of it is saved."""
    own = [base for base in bases_of(kind) if not any(base is other for other in _FILLED)]
    return (
        not _is_told_arguments(kind)
        and all(map(is_made_in_python, own))
        and any(True for base in own for _ in _slots_of(base))
    )


def _hides_slots(kind: type[Any]) -> bool:
    known = _hiding.get(kind)
    return _hiding.keep(kind, hides_slots(kind)) if known is None else known


_hiding: TypeCache[bool] = TypeCache()


def hides_slots(kind: type[Any]) -> bool:
    """Whether the name of a slot leads to something else, which pickle would read, or fail to set."""
    bases = bases_of(kind)
    first = {name: class_dict(base)[name] for base in reversed(bases) for name in class_dict(base)}
    slots = [item for base in bases for item in _slots_of(base)]
    taken = [first.get(name) for base in bases for name in names_of_slots(base) - {name for name, _ in _slots_of(base)}]
    if any(getattr(type(found), "__set__", None) and getattr(found, "fset", True) for found in taken):
        return False  # pickle asks what took the place of a slot
    return bool(taken) or any(first[name] is not slot for name, slot in slots)


def reduce_slotted(pickler: Pickler, value: Any) -> Any:
    """An object whose class answers for its slots: pickle would take the answer for what is in them, and have it computed."""
    pickler.dump_record.instances.append(value)
    parts: Any = _NEW, (type(value),), _own_state(value), None, None
    if is_dict_shared(pickler, value):
        return with_shared_dict(value, parts)
    if is_dict_doubtful(pickler, value):
        parts = with_copied_dict(pickler, value, parts)
    if parts[2] is None or _takes_state(type(value)):
        return parts
    return *parts, restore.answering_slots_state if type(parts[2]) is tuple else restore.attributes_state


def _takes_state(kind: type[Any]) -> bool:
    """Whether code of the class takes its state. A method that `dataclasses` writes does not count: it only sets the fields."""
    how = getattr(kind, "__setstate__", None)
    return how is not None and not _is_of_dataclasses(how)


def _is_of_dataclasses(how: object) -> bool:
    return type(how) is types.FunctionType and how.__module__ == "dataclasses"


def names_only_fields(kind: type[Any]) -> bool:
    """Whether `dataclasses` says what of an object is saved, and an object may hold more than the fields.

    What it writes for frozen classes with slots names no attributes, and no slots of bases that are no dataclasses.
    """
    said = (getattr(kind, name, None) for name in ("__getstate__", "__setstate__"))
    if not all(map(_is_of_dataclasses, said)) or _defines_reduction(kind):
        return False
    slots = {name for base in bases_of(kind) for name, _ in _slots_of(base)}
    fields: Any = getattr(kind, "__dataclass_fields__", ())
    return (bool(kind.__dictoffset__) or not slots.issubset(fields)) and is_made_of_slots(kind)


def _own_state(value: Any) -> Any:
    """What Python would give to a `__setstate__`, without a question to the object: attributes, and slots if any are filled."""
    attributes = object.__getattribute__(value, "__dict__") if type(value).__dictoffset__ else None
    slots = _filled_slots(value, bases_of(type(value)))
    if _takes_state(type(value)):  # which knows no hidden ones
        slots = {name: content for name, content in slots.items() if " " not in name}
    return (attributes, slots) if slots else attributes


def _filled_slots(value: Any, bases: Iterable[type]) -> dict[str, object]:
    """What is in the slots of an object, by the names under which `restore.set_slot` finds them."""
    filled: dict[str, object] = {}
    above: dict[str, int] = {}
    for base in bases:
        for name, slot in _slots_of(base):
            content, hidden_by = _content_of(slot, value), above.get(name, 0)
            if content is not _MISSING:
                filled[f"{name} {hidden_by}" if hidden_by else name] = content
            above[name] = hidden_by + 1
    return filled


def _slots_of(kind: type) -> Iterator[tuple[str, types.MemberDescriptorType]]:
    for name, found in list(class_dict(kind).items()):
        if type(found) is types.MemberDescriptorType and name != "__dict__":  # of `SimpleNamespace`: all attributes
            yield name, found


# -- what a notebook's class adds to a library's: attributes and slots of which the library's own way of saving knows nothing
#
# `random.Random` saves the state of its generator, and `functools.partial` its function: what an object of a class made of
# them holds besides would be gone. So what such an object was reduced to is looked through, and what is missing is added.
# What the library's own code sets, it leaves out on purpose.

_SAY_HOW = ("__reduce_ex__", "__reduce__", "__getstate__")
_DEPTH = 3
# Of what compiled code sets nothing can be read: such as the seconds of a span, once somebody asks for them.
_COMPILED_MOMENTS = "pandas._libs.tslibs"
_MOST_READ = 10_000  # functions of libraries: a table has a thousand
_MISSING = object()


def with_additions(kind: type[Any], handler: Handler) -> Handler:
    """The handler of a class, and around it what saves the attributes and slots that the handler leaves out."""
    if _may_be_left_out(kind, handler):
        return _with_attributes(handler)
    if not _may_leave_out(kind):
        return handler

    def reduce_whole(pickler: Pickler, value: Any) -> Any:
        parts = handler(pickler, value)
        kind = type(value)
        key = id(kind), "set by libraries"
        if key not in pickler.known_in_dump:
            pickler.known_in_dump[key] = _names_set(kind)
        own = _find_left_out(value, pickler.known_in_dump[key])
        if not any(own):
            return parts
        whole = reduce(value) if parts is NotImplemented else parts
        if isinstance(whole, str) or whole[0] is restore.live:  # found by name, or not saved
            return parts
        dicts = list(_dicts_in(whole[1:3], _DEPTH))
        attributes, slots = (_find_missing(part, dicts) if part else part for part in own)
        if not attributes and not slots:
            return parts
        if not _names(type(value), whole[:2], _DEPTH):
            return pickler.refuse(
                value, f"its library would load it as an object of its own, not as {type(value).__name__}"
            )
        return add_attributes(pickler, value, whole, attributes, slots)

    return reduce_whole


def _with_attributes(handler: Handler) -> Handler:
    """The same for a library's class that says itself how its objects are saved: the attributes that a person set on one."""

    def reduce_with_attributes(pickler: Pickler, value: Any) -> Any:
        parts = handler(pickler, value)
        if pickler.is_probe or isinstance(parts, str) or parts[0] is restore.live:
            return parts
        attributes: dict[str, object] = object.__getattribute__(value, "__dict__")
        key = id(type(value)), "named by libraries"
        known: set[str] | None = pickler.known_in_dump.get(key)
        if known is not None and known.issuperset(attributes):  # nearly always
            return parts
        attributes = _find_missing(attributes, list(_dicts_in(parts[1:3], _DEPTH)))
        if attributes and known is None:  # rarely: to read what a library's code sets takes long the first time
            from agent_kernel.values.reducers.objects import cached_names

            names = _names_set(type(value), _names_and_texts_of)
            known = pickler.known_in_dump[key] = names.union(cached_names(type(value)))
        # What code in C sets nobody can read, and names it so.
        attributes = {
            name: found for name, found in attributes.items() if name not in (known or ()) and name[:1] != "_"
        }
        return add_attributes(pickler, value, parts, attributes, {}) if attributes else parts

    return reduce_with_attributes


def _find_missing(attributes: dict[str, object], dicts: list[dict[Any, Any]]) -> dict[str, object]:
    """The attributes that are not in the dicts of what an object was reduced to."""
    return {
        name: found for name, found in attributes.items() if all(one.get(name, _MISSING) is not found for one in dicts)
    }


def add_attributes(
    pickler: Pickler, value: object, whole: tuple[Any, ...], attributes: dict[str, object], slots: dict[str, object]
) -> tuple[Any, ...]:
    """What an object was reduced to, with attributes and slots that it leaves out; those may be changed, or shared."""
    pickler.dump_record.instances.append(value)
    pickler.dump_record.roots.append((attributes, slots))
    rest: list[Any] = [*whole[2:], None, None, None, None]
    state = (rest[3], rest[0] is not None, rest[0], attributes, slots)
    return *whole[:2], state, *rest[1:3], restore.added_state


def _may_leave_out(kind: type[Any]) -> bool:
    """Whether a library says how objects of a class are saved that the notebook made of one of its classes.

    Or of one of its own, that says so too and takes any attribute.
    """
    if id(kind) in _TAKES_ANY_IDS:
        return True
    if not is_notebook_type(kind) or issubclass(kind, (type, enum.Enum, BaseException)):
        return False
    own = list(itertools.takewhile(is_notebook_type, bases_of(kind)))
    above = [base for base in bases_of(kind) if base is not object and not is_notebook_type(base)]
    said = [class_dict(base)[name] for base in own for name in _SAY_HOW if name in class_dict(base)]
    if said and all(getattr(how, "__module__", "") == "attr._make" for how in said):
        return True  # attrs leaves out what is in slots for cached properties
    if said or not above:
        return False
    has_handler = module_name(above[0]).partition(".")[0] in ("numpy", "pandas")
    says = any(name in class_dict(base) for base in above for name in _SAY_HOW)
    return has_handler or says or any(any(base is other for base in above) for other in copyreg.dispatch_table)


_TAKES_ANY_IDS = frozenset(map(id, (collections.Counter, random.Random)))


def _may_be_left_out(kind: type, handler: Handler) -> bool:
    """Whether a library's class takes any attribute, and says how its objects are saved; a handler made for it knows all."""
    from agent_kernel.values.reducers import custom
    from agent_kernel.values.reducers.copying import reduce_copied
    from agent_kernel.values.reducers.objects import reduce_native, reduce_without_caches

    general = (custom, reduce_copied, reduce_native, reduce_without_caches)
    if handler not in general or is_notebook_type(kind) or not kind.__dictoffset__:
        return False
    return not issubclass(kind, (type, enum.Enum, BaseException)) and id(kind) not in _TAKES_ANY_IDS


def _find_left_out(value: Any, set_by_library: Collection[str]) -> tuple[dict[str, object], dict[str, object]]:
    """The attributes that no code of the library sets, and the slots of the notebook's classes."""
    kind = type(value)
    own: dict[str, object] = object.__getattribute__(value, "__dict__") if kind.__dictoffset__ else {}
    attributes = dict(own)
    if attributes:
        attributes = {name: found for name, found in attributes.items() if name not in set_by_library}
        if any(module_name(base).startswith(_COMPILED_MOMENTS) for base in bases_of(kind)):
            attributes = {name: found for name, found in attributes.items() if name[:1] != "_"}
    slots = _filled_slots(value, itertools.takewhile(is_notebook_type, kind.__mro__))
    slots.pop("_attrs_cached_hash", None)  # it differs between processes
    return attributes, slots


def _content_of(slot: types.MemberDescriptorType, value: Any) -> object:
    try:
        return slot.__get__(value)
    except AttributeError:
        return _MISSING


def _names_set(kind: type, names_of: Callable[[types.CodeType], frozenset[str]] | None = None) -> set[str]:
    """The attributes that code of a library's classes sets, also such as it names in a text."""
    names: set[str] = set()
    for base in bases_of(kind):
        if base is object or is_notebook_type(base):
            continue
        for attribute in list(class_dict(base).values()):
            function = getattr(attribute, "__func__", attribute)
            if type(function) is types.FunctionType:
                names |= (names_of or _names_set_by)(function.__code__)
    return names


@functools.lru_cache(_MOST_READ)
def _names_set_by(code: types.CodeType) -> frozenset[str]:
    names: set[str] = set()
    for one in find_nested_codes(code):
        names.update(_stored_attributes(one))
        names.update(text for text in one.co_consts if type(text) is str and text.startswith("_"))
    return frozenset(names)


def _stored_attributes(code: types.CodeType) -> Iterator[str]:
    """As `dis` finds them, in a twentieth of the time."""
    steps = code.co_code
    extended = 0
    for operation, argument in zip(steps[::2], steps[1::2], strict=True):
        argument |= extended
        extended = argument << 8 if operation == _EXTENDED_ARGUMENT else 0
        if operation == _STORE_ATTRIBUTE:
            yield code.co_names[argument]


_EXTENDED_ARGUMENT, _STORE_ATTRIBUTE = dis.EXTENDED_ARG, dis.opmap["STORE_ATTR"]


@functools.lru_cache(_MOST_READ)
def _names_and_texts_of(code: types.CodeType) -> frozenset[str]:
    """What the code sets, and any text in it: it may set that by `setattr`, or in the attribute dict."""
    texts = (text for one in find_nested_codes(code) for text in one.co_consts if type(text) is str)
    return _names_set_by(code).union(filter(str.isidentifier, texts))


def _names(kind: type, parts: Any, depth: int) -> bool:
    return any(part is kind or (type(part) is tuple and depth and _names(kind, part, depth - 1)) for part in parts)


def _dicts_in(parts: Any, depth: int) -> Iterator[dict[Any, Any]]:
    for part in parts:
        if type(part) is dict:
            yield part
        elif type(part) is tuple and depth:
            yield from _dicts_in(part, depth - 1)


# -- subclasses of list, dict and set: attributes first, then the items, past any override
#
# pickle would rebuild such an object by its own `append` or `__setitem__` before it has its attributes; classes that
# check or count their items then fail to load.

# What containers hold is of any type.


def handler_for(kind: type[Any]) -> Handler | None:
    if not issubclass(kind, (list, dict, set)) or kind.__module__ in ("collections", "builtins"):
        return None
    if kind in copyreg.dispatch_table:
        return None
    # `Counter.__reduce__` gives a call with all items, which may have no hash yet.
    plain = (object.__reduce__, set.__reduce__, *((collections.Counter.__reduce__,) if is_notebook_type(kind) else ()))
    default = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ in plain
    return reduce_container if default else None


def reduce_container(pickler: Pickler, value: Any) -> Any:
    pickler.dump_record.instances.append(value)
    is_shared = is_dict_shared(pickler, value)
    if issubclass(type(value), set):
        found: Any = tuple(set.copy(value))
        shared: Any = (restore.instance, (type(value),), _state(value))
        shared = with_shared_dict(value, shared) if is_shared else shared
        if shared[-1] is restore.own_dict_state:
            return *shared[:2], (shared[2], found), None, None, restore.container_own_dict
        state = _state(value)
        if is_dict_doubtful(pickler, value):
            state = with_copied_dict(pickler, value, (None, None, state))[2]
        return restore.instance, (type(value),), (state, found), None, None, _STATE
    parts: Any = reduce(value) if _is_told_arguments(type(value)) else (_NEW, (type(value),), _state_as_said(value))
    if parts[0] is not _NEW:
        pickler.note_parts(parts)
        return parts
    if is_dict_doubtful(pickler, value):
        parts = with_copied_dict(pickler, value, parts)
    state = parts[2] if len(parts) > 2 else None
    shared = with_shared_dict(value, parts[:3]) if is_shared else parts
    items: Any = list.__getitem__(value, slice(None)) if isinstance(value, list) else dict(dict.items(value))
    if shared[-1] is restore.own_dict_state:
        return restore.instance, parts[1], (shared[2], items), None, None, restore.container_own_dict
    return restore.instance, parts[1], (state, items), None, None, _STATE


def _is_told_arguments(kind: type[Any]) -> bool:
    return any(hasattr(kind, name) for name in ("__getnewargs__", "__getnewargs_ex__"))


def _state_as_said(value: Any) -> Any:
    """The state that pickle would find. Pickle itself would also run the class's own code for the items."""
    state_method: Any = type(value).__getstate__
    return _state(value) if state_method is object.__getstate__ else value.__getstate__()


def _state(value: Any) -> Any:
    """A set's own `__reduce__` leaves slots out; `object`'s way finds both."""
    state_method: Any = type(value).__getstate__
    if state_method is object.__getstate__ and answers_for_slots(type(value)):
        return _own_state(value) or None
    state = value.__getstate__() if hasattr(value, "__getstate__") else value.__dict__
    return state or None


_STATE = restore.container_state


# -- loggers of the notebook's with their settings, which go back into the same logger, and handlers of log records
#
# A logger is found by its name. Those of libraries belong to these, and are saved as names alone; so do the handlers that the
# root logger had when the session began.

# Streams of handlers are of any type.


_LOCKS = (type(threading.RLock()), type(None))


def reduce_logger(pickler: Pickler, logger: logging.Logger) -> Any:
    """By name. A logger that does not belong to a library is saved with its level, its handlers and its filters."""
    if logging.getLogger(logger.name) is not logger or _is_of_library(logger):
        return NotImplemented
    handlers = tuple(handler for handler in logger.handlers if not references.is_preexisting_handler(handler))
    filters = tuple(logger.filters)
    pickler.dump_record.opaque.append(logger)
    pickler.dump_record.roots.append((*handlers, *filters))
    state = (logger.level, logger.propagate, logger.disabled, handlers, filters)
    return restored_logs.logger, (logger.name,), state, None, None, restored_logs.logger_state


def _is_of_library(logger: logging.Logger) -> bool:
    package = logger.name.partition(".")[0]
    return package in sys.modules and references.is_library(package)


def reduce_file_handler(pickler: Pickler, handler: logging.FileHandler) -> Any:
    """With its settings, and without its open file, which is not ours to open."""
    attributes: dict[str, object] = vars(handler).copy()
    lock, _ = attributes.pop("lock", None), attributes.pop("stream", None)
    path = attributes.get("baseFilename")
    if not isinstance(path, str) or not any(type(lock) is kind for kind in _LOCKS):
        return pickler.refuse(handler, "a handler of log records without its file cannot be saved")
    pickler.refuse(
        handler, f"its open file {path} cannot be saved; after a restart it appends to that file if there is one"
    )
    pickler.keepalive.append(attributes)
    pickler.dump_record.instances.append(handler)
    made = (pickler.names.token_of(handler), type(handler), path)
    return restored_logs.file_handler, made, attributes, None, None, restored_logs.file_handler_state


def reduce_log_handler(pickler: Pickler, handler: logging.Handler) -> Any:
    """With a lock of its own: nobody waits for it between two cells."""
    attributes: dict[str, object] = vars(handler).copy()
    lock = attributes.pop("lock", None)
    if not any(type(lock) is kind for kind in _LOCKS):
        return pickler.instance(handler)
    pickler.keepalive.append(attributes)
    pickler.dump_record.instances.append(handler)
    return restored_logs.log_handler, (type(handler),), attributes, None, None, restored_logs.log_handler_state
