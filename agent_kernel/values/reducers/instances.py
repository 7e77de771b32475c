"""Objects of the notebook's own classes that pickle could not bring back, and its exceptions.

pickle makes a bare object and asks it things before it has its attributes, or calls a class with arguments that are not
those of its `__init__`. The streams of these say instead how the object is made and what it is given.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# What an object holds is of any type.

from __future__ import annotations

import copyreg
import itertools
import types
from typing import TYPE_CHECKING, Any

from agent_kernel.values.pickler import is_dict_shared, reduced, with_shared_dict
from agent_kernel.values.reducers import Handler, is_notebook_type
from agent_kernel.values.restore import objects as restore

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

_copyreg: Any = copyreg  # typeshed lacks `__newobj__`
_NEW = _copyreg.__newobj__
_MAKES = (_NEW, _copyreg.__newobj_ex__, restore.instance, restore.with_attributes, restore.exception)


def past_own_new(kind: type[Any], handler: Handler) -> Handler:
    """Let no `__new__` of the notebook's run while its objects are loaded: what it did is saved already.

    It may read what its class or a global holds, which is not there yet, or change that: count, give another object.
    """
    maker = _maker_past(kind)
    if maker is None:
        return _exact(kind, handler) if _makes_in_python(kind) else handler
    valued: Any = maker if any(maker is base for base in _VALUED) else None

    def reduce_bare(pickler: Pickler, value: Any) -> Any:
        parts = handler(pickler, value)
        parts = reduced(value) if parts is NotImplemented else parts
        makes = parts[0]
        if not any(makes is other for other in _MAKES) or _leaves_out(value, parts):
            return parts
        arguments = () if valued is None else valued.__getnewargs__(value)
        if makes is restore.exception:
            arguments = parts[1][1]
        if makes is restore.with_attributes:
            return restore.bare_with_attributes, (kind, maker, arguments, parts[1][2]), *parts[2:]
        return restore.bare_instance, (kind, maker, *arguments), *parts[2:]

    return reduce_bare


def _makes_in_python(kind: type[Any]) -> bool:
    """Whether a library's `__new__` makes the objects, and pickle goes through it: it may make a class for each, as mocks do."""
    making = next(base for base in kind.__mro__ if "__new__" in vars(base))
    foreign = not is_notebook_type(making) and type(vars(making)["__new__"]) is not types.BuiltinFunctionType
    return foreign and not _says_how_it_is_made(kind)


def _exact(kind: type[Any], handler: Handler) -> Handler:
    """Let what is loaded be an instance of the class that was saved, and of no other."""

    def reduce_exact(pickler: Pickler, value: Any) -> Any:
        parts = handler(pickler, value)
        parts = reduced(value) if parts is NotImplemented else parts
        if parts[0] is not _NEW:
            return parts
        return restore.exact_instance, parts[1], *parts[2:]

    return reduce_exact


_VALUED = (int, float, complex, str, bytes, tuple)  # what they are is an argument
_FILLED = (object, list, dict, set)  # all that they hold is given to them later


def _maker_past(kind: type[Any]) -> type | None:
    """The builtin base that makes objects of a notebook class which has a `__new__` of its own, or None."""
    making = [base for base in kind.__mro__ if "__new__" in vars(base)]
    own = list(itertools.takewhile(_is_written_in_notebook, making))
    maker = making[len(own)]
    makes_bare = issubclass(maker, BaseException) or any(maker is base for base in (*_VALUED, *_FILLED))
    if not makes_bare or all(map(_only_fills_fields, own)) or _says_how_it_is_made(kind):
        return None
    return maker


def _says_how_it_is_made(kind: type[Any]) -> bool:
    own: Any = kind.__reduce_ex__
    if kind in copyreg.dispatch_table or own is not object.__reduce_ex__:
        return True
    return isinstance(kind.__reduce__, types.FunctionType)


def _is_written_in_notebook(kind: type) -> bool:  # what nobody can import may be written in C, too
    return is_notebook_type(kind) and type(vars(kind)["__new__"]) is not types.BuiltinFunctionType


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
    held = object.__getattribute__(value, "__dict__") if type(value).__dictoffset__ else {}
    return type(state) is not dict or not held.keys() <= state.keys()


def handler_of_exception(kind: type[Any], other: Handler) -> Handler:
    """How an exception is made, and after that what Python keeps beside its arguments, which pickle leaves out."""
    if is_plain_exception(kind):
        made: Handler = reduce_exception
    else:
        made = reduce_builtin_exception if has_own_init(kind) else other

    def reduce_whole(pickler: Pickler, error: BaseException) -> Any:
        is_shared = is_dict_shared(pickler, error)
        parts = made(pickler, error)
        beside = _beside(error)
        if not beside and not is_shared:
            return parts
        parts = reduced(error) if parts is NotImplemented else parts
        if isinstance(parts, str) or parts[0] is restore.live:  # found by name, or lost
            return parts
        pickler.dump_record.roots.append(beside)
        if is_shared and (parts[-1] is restore.exception_state or _sets_attributes(error, parts)):
            return parts[0], parts[1], (error.__dict__, beside), None, None, restore.exception_own_dict
        if not beside:
            return parts
        state: Any = parts[2] if len(parts) > 2 else None
        if parts[-1] is restore.exception_state:
            state = state[0]
        return parts[0], parts[1], (state, beside), None, None, restore.exception_with

    return reduce_whole


def _sets_attributes(error: BaseException, parts: Any) -> bool:
    """Whether loading does nothing with the state but to set its items as attributes."""
    plain: Any = BaseException.__setstate__
    return len(parts) == 3 and parts[2] is error.__dict__ and type(error).__setstate__ is plain


_CHAIN = ("__cause__", "__context__", "__suppress_context__")
# `args` is what it is made with; its traceback leads into frames, which cannot be saved.
_NOT_BESIDE = frozenset({"args", "__traceback__", "__dict__", *_CHAIN})
_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def _beside(error: BaseException) -> dict[str, object]:
    """What an exception holds in fields of its own: its cause and context, what C keeps for it, slots."""
    found: dict[str, object] = {name: held for name in _CHAIN if (held := getattr(error, name))}
    bare = error.__cause__ is not None and error.__suppress_context__
    if bare:
        del found["__suppress_context__"]  # setting the cause sets it
    if error.__cause__ is not None and not error.__suppress_context__:
        found["__suppress_context__"] = False
    for name in _fields_of(type(error)):
        held = getattr(error, name, None)
        if held is not None:
            found[name] = held
    return found


def _fields_of(kind: type) -> tuple[str, ...]:
    bases = (base for base in kind.__mro__ if base is not BaseException and base is not object)
    held: list[tuple[str, object]] = [item for base in bases for item in list(vars(base).items())]
    names = [name for name, found in held if isinstance(found, _FIELDS)]
    kept = {name for name in names if name not in _NOT_BESIDE and not _is_made_of_arguments(kind, name)}
    return tuple(sorted(kept - {"__weakref__"}))


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


def has_own_init(kind: type[Any]) -> bool:
    """A notebook's own exception whose `__init__` takes other arguments than its builtin base, which has fields."""
    builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    own = isinstance(kind.__init__, types.FunctionType) and kind.__reduce__ is builtin.__reduce__
    return own and is_notebook_type(kind) and kind.__setstate__ is BaseException.__setstate__


def reduce_builtin_exception(pickler: Pickler, error: BaseException) -> Any:
    parts = pickler.instance(error)
    parts = reduced(error) if parts is NotImplemented else parts
    if parts[0] is not type(error):  # a token for what is lost
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
    parts: Any = reduced(value) if noted is NotImplemented else noted
    whole = len(parts) >= 3 and parts[0] is _NEW and type(parts[2]) is dict and not any(parts[3:])
    if not whole:
        return noted
    plain = {name: found for name, found in parts[2].items() if _is_plain(found)}
    if not plain or len(plain) == len(parts[2]):
        return noted
    kind, *arguments = parts[1]
    made = (kind, tuple(arguments), plain)
    return restore.with_attributes, made, parts[2], None, None, restore.all_attributes_state


# By id: hashing a type runs its metaclass.
_ATOM_IDS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))


def _is_plain(found: Any) -> bool:
    kind = type(found)
    return id(kind) in _ATOM_IDS or ((kind is tuple or kind is frozenset) and all(map(_is_plain, found)))


def reduce_answering(pickler: Pickler, value: Any) -> Any:
    """An object that answers for any name: pickle would ask it for `__setstate__` before it has its attributes."""
    pickler.dump_record.instances.append(value)
    is_shared = is_dict_shared(pickler, value)
    parts = pickler.protect(value) if pickler.careful else reduced(value)
    if is_shared:
        return with_shared_dict(value, parts)
    if len(parts) < 3 or parts[0] is not _NEW or any(part is not None for part in parts[3:]):
        return parts
    if type(parts[2]) is dict:
        return *parts[:3], None, None, restore.attributes_state
    has_slots = type(parts[2]) is tuple and len(parts[2]) == 2
    return (*parts[:3], None, None, restore.answering_slots_state) if has_slots else parts
