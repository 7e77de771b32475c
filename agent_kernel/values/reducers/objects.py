"""Everything that is not code, a builtin container or a known library's memory."""

from __future__ import annotations

import codecs
import contextvars
import copyreg
import dataclasses
import decimal
import functools
import gc
import io
import itertools
import operator
import random
import re
import struct
import sys
import threading
import types
import typing
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from agent_kernel.values.aliases import BYTE_OWNERS, Span
from agent_kernel.values.definitions import ANY_NAME
from agent_kernel.values.introspection import DICT_OF_NAMESPACES, bases_of, class_dict, derives_from, module_name
from agent_kernel.values.pickler import reduce
from agent_kernel.values.reducers import (
    Handler,
    custom,
    immutable,
    instances,
    is_notebook_type,
    ordinary,
    slotted,
    transparent,
    without_dict,
)
from agent_kernel.values.reducers.copying import makes_copies, reduce_copied
from agent_kernel.values.reducers.instances import reduce_file_handler, reduce_log_handler
from agent_kernel.values.references import Content, Named, Reference, containers_among, may_be_container
from agent_kernel.values.restore import objects as restore
from agent_kernel.values.restore.buffers import memory
from agent_kernel.values.restore.classes import known_slots
from agent_kernel.values.restore.code import by_name, live_namespace
from agent_kernel.values.restore.logs import is_of_logging
from agent_kernel.values.surface import Placeholder, Unsavable, looks_at_address

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

# Objects of these modules cannot be changed and hold nothing that can: they are never shared in a way that shows.
IMMUTABLE_MODULES = frozenset(
    {"datetime", "decimal", "_decimal", "fractions", "uuid", "pathlib", "re", "zoneinfo", "ipaddress", "_struct"}
)
IMMUTABLE_PACKAGES = ("pandas._libs.tslibs", "pandas._libs.interval", "dateutil.tz", "pytz")
_IMMUTABLE_BASES = frozenset(
    {("sympy.core.basic", "Basic"), ("astropy.units.core", "UnitBase"), ("unyt.unit_object", "Unit")}
)
_ALIASES = frozenset(
    {
        ("types", "GenericAlias"),
        ("types", "UnionType"),
        ("typing", "ForwardRef"),
        ("typing", "Union"),
        ("typing", "_BaseGenericAlias"),  # typing keeps these, so every annotation with Optional[int] is one object
    }
)
# Classes of cached properties that keep all answers in one dict.
_CACHED_TOGETHER = frozenset({("pandas", "CachedProperty"), ("statsmodels", "cache_readonly")})
_CACHES = frozenset({"cached_property", "_cached_property", "cache_readonly", "CachedProperty"})
_CURRIED = frozenset({("toolz", "curry"), ("cytoolz", "curry")})
_OF_ARGPARSE = frozenset({("argparse", "_ActionsContainer"), ("argparse", "Action")})
_EASILY_KNOWN = frozenset(map(id, (bool, int, str, type(None))))  # what an object's type alone says


def handler_for(kind: type[Any]) -> Handler:
    """The handler of an ordinary class."""
    if issubclass(kind, (threading.Thread, io.IOBase)) and not issubclass(kind, (io.BytesIO, io.StringIO)):
        return refuse_resource
    if kind.__name__ == "PixelAccess":
        from agent_kernel.values.reducers import pictures

        if pictures.is_pixel_access(kind):
            return pictures.reduce_pixels
    if any((module_name(base).partition(".")[0], base.__name__) in _CURRIED for base in kind.__mro__):
        return reduce_curried
    if any(base.__module__ == "multiprocessing.shared_memory" for base in kind.__mro__):
        return refuse_shared_memory
    if kind.__module__ == "tempfile" or kind is weakref.finalize:
        return refuse_temporary
    if is_notebook_type(kind) and not can_be_made_bare(kind):
        return refuse_native
    is_c_data = any(base.__name__ == "_CData" and base.__module__ == "_ctypes" for base in kind.__mro__)
    if is_c_data and not _reduces_itself(kind):
        return reduce_c_data
    if is_notebook_type(kind) and derives_from(kind, weakref.ReferenceType):
        from agent_kernel.values.reducers.code import reduce_other_weak_reference

        return reduce_other_weak_reference
    if kind.__module__ in ("logging", "logging.handlers") and is_of_logging(kind, "FileHandler"):
        return reduce_file_handler
    if is_of_logging(kind, "Handler") and not _reduces_itself(kind):
        return reduce_log_handler
    if is_notebook_type(kind) and _hides_attributes(kind) and not _reduces_itself(kind):
        return refuse_hidden_attributes
    other = _handler_for_state(kind)
    return instances.handler_of_exception(kind, other) if derives_from(kind, BaseException) else other


def _handler_for_state(kind: type[Any]) -> Handler:
    bases = {(base.__module__, base.__name__) for base in kind.__mro__}
    if bases & _IMMUTABLE_BASES:
        return immutable
    if bases & _ALIASES and kind.__name__ != "_AnnotatedAlias":
        return reduce_typing_alias if ("typing", "_GenericAlias") in bases else transparent
    if not is_notebook_type(kind) and cached_names(kind):
        return reduce_without_caches
    if instances.is_struct(kind):
        return instances.reduce_struct
    if is_notebook_type(kind) and instances.names_only_fields(kind):
        return instances.reduce_slotted
    if _reduces_itself(kind):
        return reduce_copied if makes_copies(kind) else custom
    if bases & _OF_ARGPARSE:
        return reduce_of_argparse
    if not is_notebook_type(kind) and instances.is_tuple_made_in_python(kind):
        return instances.reduce_tuple
    if is_notebook_type(kind) and derives_from(kind, types.SimpleNamespace) and _adds_to_attributes(kind):
        return instances.reduce_slotted
    if is_notebook_type(kind) and instances.answers_for_slots(kind):
        return instances.reduce_slotted
    if _answers_for_any_name(kind):
        return instances.reduce_answering
    if is_notebook_type(kind) and isinstance(kind.__hash__, types.FunctionType) and not hasattr(kind, "__setstate__"):
        return instances.reduce_hashed
    if _reduces_itself_in_c(kind):
        return reduce_native
    if is_notebook_type(kind) and not hasattr(kind, "__setstate__") and instances.is_made_of_slots(kind):
        return slotted
    return ordinary if _lends_attributes(kind) else without_dict


def _lends_attributes(kind: type[Any]) -> bool:
    """Whether the attribute dict of an object can be asked for: a future of asyncio's has one, and keeps it to itself."""
    return bool(kind.__dictoffset__) and any("__dict__" in vars(base) for base in kind.__mro__)


def _adds_to_attributes(kind: type[Any]) -> bool:
    """Whether objects have slots, or answer for any name: the way in which a `SimpleNamespace` is saved knows nothing of either."""
    return instances.is_made_of_slots(kind) or _answers_for_any_name(kind)


def _answers_for_any_name(kind: type[Any]) -> bool:
    """Whether pickle would ask an object for `__setstate__` by code that wants its attributes, which it has not yet."""
    answer = getattr(kind, "__getattr__", None)
    return isinstance(answer, types.FunctionType) and not hasattr(kind, "__setstate__")


def can_be_made_bare(kind: type) -> bool:
    """Whether a class can be made before its body: not if its metaclass is written in C and makes another kind."""
    meta = type(kind)
    if meta.__module__ == "msgspec._core":
        return True
    # What it adds to a class in C (from Python 3.13 on ctypes' fields and sizes) is made by its own code alone.
    plain = meta.__basicsize__ == type.__basicsize__
    return plain and (isinstance(meta.__new__, types.FunctionType) or meta.__new__ is type.__new__)


def _hides_attributes(kind: type) -> bool:
    """Whether a class defines `__dict__` itself, so that its objects' attributes cannot be read or set by that name."""
    found = next((class_dict(base)["__dict__"] for base in bases_of(kind) if "__dict__" in class_dict(base)), None)
    if found is None or found is DICT_OF_NAMESPACES:
        return False
    return bool(kind.__dictoffset__) and type(found) is not types.GetSetDescriptorType


def refuse_hidden_attributes(pickler: Pickler, value: Any) -> Any:
    return pickler.refuse(
        value, f"{type(value).__name__} defines __dict__ itself, which hides the attributes of its objects"
    )


def refuse_temporary(pickler: Pickler, value: Any) -> Any:
    return pickler.refuse(value, f"a {type(value).__name__.strip('_')} deletes what it stands for when it goes")


def refuse_shared_memory(pickler: Pickler, value: Any) -> Any:
    """pickle saves its name, under which the system has what any process last wrote there, or nothing any more."""
    return pickler.refuse(
        value, "memory that processes share cannot be saved", "make it again, and keep a copy of its content"
    )


def reduce_c_data(pickler: Pickler, value: Any) -> Any:
    if looks_at_address(value):
        return pickler.refuse(value, "what ctypes makes of a mere address cannot be saved")
    return without_dict(pickler, value)


def refuse_native(pickler: Pickler, value: Any) -> Any:
    return pickler.refuse(
        value, f"the metaclass of {type(value).__name__} is written in C, so its class cannot be saved"
    )


def _reduces_itself(kind: type) -> bool:
    if kind in copyreg.dispatch_table:
        return True
    hooks = (getattr(kind, name, None) for name in ("__reduce_ex__", "__reduce__", "__getstate__"))
    return any(isinstance(hook, types.FunctionType) for hook in hooks)


def _reduces_itself_in_c(kind: type) -> bool:
    """Whether an extension module says how objects of this kind are pickled."""
    for base in kind.__mro__:
        if "__reduce__" in vars(base) or "__reduce_ex__" in vars(base):
            return module_name(base).partition(".")[0] not in sys.stdlib_module_names
    return False


def reduce_native(pickler: Pickler, value: object) -> Any:
    """Functions of extension modules and their singletons give a name: what is found by name cannot be shared."""
    parts = reduce(value)
    if isinstance(parts, str):
        return pickler.protect(value) if pickler.careful else parts
    pickler.note_temporary(parts)
    noted = pickler.instance(value)
    return parts if noted is NotImplemented else noted


def _find_caches(kind: type) -> frozenset[str]:
    names: set[str] = set()
    for base in kind.__mro__:
        attributes = cast("Mapping[str, object]", vars(base))
        for name, found in attributes.items():
            made_by = type(found)
            if made_by.__name__ in _CACHES:
                together = (module_name(made_by).partition(".")[0], made_by.__name__) in _CACHED_TOGETHER
                names.add("_cache" if together else name)
    return frozenset(names)


cached_names: Callable[[type], frozenset[str]] = functools.cache(_find_caches)


def reduce_without_caches(pickler: Pickler, value: object) -> Any:
    """A library's cached properties are derived: reading one must not look like a change."""
    parts = reduce(value)
    if isinstance(parts, str):
        return parts
    if id(value) in pickler.muted:
        pickler.mute(parts)
        return parts
    pickler.dump_record.instances.append(value)
    if pickler.careful:
        parts = pickler.protect(value)
    if len(parts) > 2 and type(parts[2]) is dict:
        caches = cached_names(type(value))
        state = {name: found for name, found in parts[2].items() if name not in caches}
        answers: Any = parts[2].get("_cache") if "_cache" in caches else None
        kinds = map(type, cast("dict[str, object]", answers).values()) if type(answers) is dict else ()
        if not _EASILY_KNOWN.issuperset(map(id, kinds)):
            # Groups that pandas made, whose answers may be of keys that were written over since: compared without.
            pickler.dump_record.answers.append(value)
            if pickler.keeps_answers:
                state["_cache"] = answers
        pickler.keepalive.append(state)
        parts = (*parts[:2], state, *parts[3:])
    return parts


def refuse_resource(pickler: Pickler, value: Any) -> Any:
    if isinstance(value, threading.Thread):
        return pickler.refuse(value, "a thread cannot be saved", "start it again in a cell")
    name = getattr(value, "name", None)
    where = f" on {name}" if isinstance(name, str) else ""
    return pickler.refuse(value, f"an open file{where} cannot be saved", "open it again in a cell")


def reduce_lock(pickler: Pickler, lock: Any) -> Any:
    # Variables, containers and a notebook's own objects are looked into, and only of those does a lock arrive here in a
    # careful dump. A library object that holds one stays what it is: something that cannot be saved.
    if not pickler.careful:
        raise TypeError(f"cannot pickle {type(lock).__name__!r} object")
    pickler.refuse(lock, "a lock cannot be saved", again="after a restart you get a new, unlocked lock")
    return restore.lock, (pickler.names.token_of(lock), type(lock).__name__)


def reduce_cached_property(_: Pickler, made: Any) -> Any:
    # Up to Python 3.11 it holds a lock.
    return restore.cached_property, (made.func, made.attrname, made.__doc__)


def reduce_single_dispatch_method(_: Pickler, made: Any) -> Any:
    # From Python 3.13 on, it has a cache.
    return restore.single_dispatch_method, (), {"dispatcher": made.dispatcher, "func": made.func}


def reduce_context_variable(pickler: Pickler, variable: contextvars.ContextVar[Any]) -> Any:
    """A notebook's own variable with its value here; what was set in contexts of other tasks is theirs."""
    default = tuple(contextvars.Context().run(_values_of, variable))
    current = tuple(_values_of(variable))
    pickler.dump_record.instances.append(variable)
    pickler.dump_record.roots.append((default, current))
    made = (variable.name, default)
    if not current or (default and current[0] is default[0]):
        return restore.context_variable, made
    return restore.context_variable, made, current, None, None, restore.context_variable_state


def reduce_thread_local(pickler: Pickler, value: Any) -> Any:
    """What this thread has in it; what other threads have in it is theirs, and gone with them."""
    attributes: dict[str, object] = value.__dict__
    if not attributes and threading.current_thread() is not threading.main_thread():
        # Another thread than the one that runs cells commits, and sees nothing of what those put there.
        if not pickler.careful:
            raise TypeError(f"cannot pickle {type(value).__name__!r} object")
        return pickler.refuse(value, "what other threads have in it cannot be saved")
    pickler.dump_record.instances.append(value)
    pickler.dump_record.roots.append(tuple(attributes.values()))
    parts = (threading.local, (), dict(attributes)) if attributes else (threading.local, ())
    pickler.note_temporary(parts)
    return parts


def _values_of(variable: contextvars.ContextVar[Any]) -> list[object]:
    try:
        return [variable.get()]
    except LookupError:
        return []


def reduce_match(_: Pickler, match: re.Match[Any]) -> Any:
    return restore.regex_match, (match.re, match.string, match.pos, match.endpos, match.regs)


def reduce_memoryview(pickler: Pickler, view: memoryview) -> Any:
    owner: Any = view.obj
    plain = isinstance(owner, (bytes, *BYTE_OWNERS)) or type(owner).__module__ == "numpy"
    if plain and _has_steps(view, owner):
        return _reduce_stepping_view(pickler, view, owner)
    if not view.contiguous or not plain:
        return pickler.refuse(view, f"a view of {type(owner).__name__} memory cannot be saved")
    offset = _address(view) - _address(memoryview(owner)) if view.nbytes else 0
    pickler.dump_record.instances.append(view)
    pickler.dump_record.opaque.append(owner)
    pickler.dump_record.roots.append((owner,))
    shape = tuple(view.shape or ())
    return restore.byte_view, (owner, offset, view.nbytes, shape, view.format, view.readonly)


def _has_steps(view: memoryview, owner: Any) -> bool:
    """Whether a view goes through the memory of its owner in steps of whole items, forwards or backwards."""
    if view.contiguous or view.ndim != 1 or not view.strides or view.strides[0] % view.itemsize:
        return False
    return memoryview(owner).c_contiguous


def _reduce_stepping_view(pickler: Pickler, view: memoryview, owner: Any) -> Any:
    import numpy as np

    step = (view.strides or (1,))[0]
    first = int(np.asarray(view).__array_interface__["data"][0]) - _address(memoryview(owner))
    low, last = min(first, first + (len(view) - 1) * step), max(first, first + (len(view) - 1) * step)
    pickler.dump_record.instances.append(view)
    pickler.dump_record.opaque.append(owner)
    pickler.dump_record.roots.append((owner,))
    size = last + view.itemsize - low
    return restore.stepping_view, (owner, low, size, step // view.itemsize, view.format, view.readonly)


def _address(view: memoryview) -> int:
    import numpy as np

    return int(np.frombuffer(view.cast("B"), np.uint8).__array_interface__["data"][0])


def reduce_forward_reference(pickler: Pickler, value: Any) -> Any:
    """As it is written, without what it was found to mean: that is found again, and may be the class that holds it."""
    if not hasattr(value, "__forward_evaluated__"):  # from Python 3.14 on it keeps none
        return transparent(pickler, value)
    how = value.__forward_is_argument__, value.__forward_module__, value.__forward_is_class__
    return restore.forward_reference, (value.__forward_arg__, *how)


def reduce_typing_alias(pickler: Pickler, value: Any) -> Any:
    """Make an alias without its class's own `__class_getitem__`, which may need what the class gets later."""
    makes: Any = getattr(value.__origin__, "__class_getitem__", None)
    if not isinstance(value.__origin__, type) or getattr(makes, "__module__", "") != "__main__":
        return transparent(pickler, value)
    parts: Any = restore.with_attributes, (type(value), (), dict(value.__dict__))
    pickler.note_parts(parts)
    return parts


def reduce_sentinel(_: Pickler, value: Any) -> Any:
    """A module's one-of-a-kind object, which pickle would make a second one of."""
    module = sys.modules[type(value).__module__]
    for name, found in vars(module).items():
        if found is value:
            return by_name, (module.__name__, name)
    return NotImplemented


def reduce_by_slots(_: Pickler, value: Any) -> Any:
    """What dataclasses keep of a field has other slots in each Python."""
    slots: Any = value.__slots__
    slot_values = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return restore.instance, (type(value),), slot_values, None, None, known_slots


def reduce_placeholder(pickler: Pickler, value: Any) -> Any:
    return pickler.refuse(value, "")


def reduce_unsavable(pickler: Pickler, marked: Unsavable) -> Any:
    return pickler.refuse(marked.value, marked.reason)


def reduce_named(pickler: Pickler, named: Named) -> Any:
    if named.value is pickler.namespace:
        pickler.dump_record.globals_used.add(ANY_NAME)
        return live_namespace, ()
    module, name = named.reference.module, named.reference.name
    if not module:
        size = (len(named.value),) if type(named.value) is bytearray else ()
        return restore.pinned, (name, type(named.value), type(named.value), *size)
    if named.reference.is_own:
        return restore.held, (module, name, type(named.value))
    if named.reference.steps:
        return restore.reached, (module, name, named.reference.steps, type(named.value))
    return by_name, (module, name)


def reduce_content(_: Pickler, content: Content) -> Any:
    return restore.held_content, (content.value, content.items)


def reduce_context(pickler: Pickler, context: decimal.Context) -> Any:
    """What `getcontext` gives is decimal's own, of each thread."""
    return (decimal.getcontext, ()) if context is decimal.getcontext() else pickler.instance(context)


def reduce_signals(_: Pickler, signals: Any) -> Any:
    """Which signals a context traps or has seen is a part of the context, made in C."""
    contexts = (decimal.getcontext(), decimal.DefaultContext, decimal.BasicContext, decimal.ExtendedContext)
    parts = ((context, name) for context in contexts for name in ("traps", "flags"))
    return next(((getattr, part) for part in parts if getattr(*part) is signals), NotImplemented)


def reduce_codec(pickler: Pickler, codec: codecs.CodecInfo) -> Any:
    """By name: `utf8` gives another object than `utf-8`, of the same functions."""
    try:
        found = codecs.lookup(codec.name)
    except LookupError:
        found = None
    if found is None or any(map(operator.is_not, found, codec)):
        return pickler.refuse(codec, "a codec that is not registered under its name cannot be saved")
    return codecs.lookup, (codec.name,)


def reduce_span(pickler: Pickler, span: Span) -> Any:
    return memory, (pickler.buffer(span.raw()),)


_dataclasses: Any = dataclasses  # one of its markers is not public


def reduce_hash_iterator(pickler: Pickler, value: Any) -> Any:
    """An iterator over a dict or set, which pickle makes one over a list of what is left."""
    noted: Any = pickler.instance(value)
    parts = reduce(value) if noted is NotImplemented else noted
    referents: list[Any] = gc.get_referents(value)
    holder = next((found for found in referents if issubclass(type(found), (dict, set))), None)
    if holder is None or parts[0] is restore.live:  # exhausted, or over a frozenset; or not saved
        return parts
    if may_be_container(holder, pickler.namespace):
        named = containers_among({id(holder)}, pickler.namespace).get(id(holder))
        if named is not None and not named.reference.is_own:  # what is left to come is not the iterator's to store
            holder_text = "the variables" if holder is pickler.namespace else "what a module holds"
            return pickler.refuse(value, f"an iterator over {holder_text} cannot be saved", "make it again in a cell")
    return restore.hash_iterator, (holder, type(value).__name__, parts[1][0])


def reduce_pattern(pickler: Pickler, pattern: re.Pattern[Any]) -> Any:
    """A pattern, by its text. That of a `re.Scanner` has no text: pickle would write it, and fail to load it."""
    if type(pattern.pattern) not in (str, bytes):
        return pickler.refuse(pattern, "a pattern of re.Scanner cannot be saved", "make the scanner again in a cell")
    return NotImplemented


def reduce_compiled_format(_: Pickler, value: struct.Struct) -> Any:
    return struct.Struct, (value.format,)


def reduce_of_argparse(pickler: Pickler, value: Any) -> Any:
    """Save `argparse.SUPPRESS` by its name: argparse asks whether a value is that very object."""
    noted: Any = pickler.instance(value)
    parts = reduce(value) if noted is NotImplemented else noted
    nothing: str = sys.modules["argparse"].SUPPRESS
    if len(parts) < 3 or type(parts[2]) is not dict or all(found is not nothing for found in parts[2].values()):
        return noted
    mark = Named(nothing, Reference("argparse", "SUPPRESS"))
    attributes = {name: mark if found is nothing else found for name, found in parts[2].items()}
    pickler.keepalive.append(attributes)
    return *parts[:2], attributes, *parts[3:]


def reduce_list_iterator(pickler: Pickler, value: Any) -> Any:
    """An iterator over a list, and its position, which is set later: the list may be filled after the iterator is made."""
    noted: Any = pickler.instance(value)
    parts = reduce(value) if noted is NotImplemented else noted
    if len(parts) < 3 or parts[0] is restore.live:  # exhausted, or not saved
        return parts
    return *parts[:2], (*parts[1], parts[2]), None, None, restore.list_iterator_state


def reduce_curried(pickler: Pickler, value: Any) -> Any:
    """A function that toolz curries. It names one of the notebook by its variable, and as it is loaded nothing is bound to that."""
    return pickler.custom(value, _reduce_to_function)


def _reduce_to_function(curried: Any) -> Any:
    make, (kind, function, arguments, keywords, attributes, is_variable) = curried.__reduce__()
    # What the first call finds out of the function, and the next one would find out again.
    attributes = tuple(pair for pair in attributes if pair[0] != "_has_unknown_args")
    if type(function) is str and function.startswith("__main__:"):
        function, is_variable = curried.func, None
    return make, (kind, function, arguments, keywords, attributes, is_variable)


def reduce_iterator_over(pickler: Pickler, value: Any) -> Any:
    """An iterator over others. Made again of a file, it would ask that for an iterator, and a file that was closed refuses."""
    noted: Any = pickler.instance(value)
    parts = reduce(value) if noted is NotImplemented else noted
    if parts[0] is restore.live or not any(issubclass(type(part), io.IOBase) for part in parts[1]):
        return noted
    return restore.iterator_over, (parts[0], *parts[1]), *parts[2:]


def reduce_system_random(pickler: Pickler, value: Any) -> Any:
    """It draws from the operating system: there is nothing to save."""
    pickler.dump_record.opaque.append(value)
    return random.SystemRandom, ()


_bare: dict[object, object] = {}
_HASH_ITERATORS = (
    *map(type, (iter(_bare), iter(_bare.values()), iter(_bare.items()), iter(set[object]()))),
    *map(type, (reversed(_bare), reversed(_bare.values()), reversed(_bare.items()))),
)

# They take iterators as they are made. (`chain` and `tee` are given theirs afterwards, and ask them for nothing.)
_OVER_ITERATORS: tuple[type, ...] = (
    *(map, filter, zip, enumerate),
    *(itertools.islice, itertools.takewhile, itertools.dropwhile, itertools.filterfalse, itertools.starmap),
    *(itertools.accumulate, itertools.compress, itertools.zip_longest, itertools.groupby, itertools.cycle),
)

_EXACT: dict[type, Handler] = {
    **dict.fromkeys(_HASH_ITERATORS, reduce_hash_iterator),
    **dict.fromkeys(map(type, (iter(list[object]()), reversed(list[object]()))), reduce_list_iterator),
    **dict.fromkeys(_OVER_ITERATORS, reduce_iterator_over),
    Span: reduce_span,
    Named: reduce_named,
    Content: reduce_content,
    decimal.Context: reduce_context,
    type(decimal.DefaultContext.traps): reduce_signals,
    codecs.CodecInfo: reduce_codec,
    Unsavable: reduce_unsavable,
    Placeholder: reduce_placeholder,
    type(threading.Lock()): reduce_lock,
    type(threading.RLock()): reduce_lock,
    typing.ForwardRef: reduce_forward_reference,
    functools.cached_property: reduce_cached_property,
    functools.singledispatchmethod: reduce_single_dispatch_method,
    re.Match: reduce_match,
    re.Pattern: reduce_pattern,
    struct.Struct: reduce_compiled_format,
    contextvars.ContextVar: reduce_context_variable,
    threading.local: reduce_thread_local,
    memoryview: reduce_memoryview,
    type(dataclasses.MISSING): reduce_sentinel,
    type(dataclasses.KW_ONLY): reduce_sentinel,
    type(_dataclasses._FIELD): reduce_sentinel,
    random.SystemRandom: reduce_system_random,
    dataclasses.Field: reduce_by_slots,
    _dataclasses._DataclassParams: reduce_by_slots,
}
# By id: hashing a type runs its metaclass.
EXACT = {id(kind): handler for kind, handler in _EXACT.items()}
# A reload of a module makes its classes anew.
EXACT_BY_NAME = {(kind.__module__, kind.__qualname__): handler for kind, handler in _EXACT.items()}
