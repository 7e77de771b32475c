"""What a notebook's class adds to a library's: attributes and slots of which the library's own way of saving knows nothing.

`random.Random` saves the state of its generator, and `functools.partial` its function: what an object of a class made of
them holds besides would be gone. So what such an object was reduced to is looked through, and what is missing is added.
What the library's own code sets, it leaves out on purpose.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What objects hold is of any type.

from __future__ import annotations

import copyreg
import dis
import enum
import functools
import itertools
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent_kernel.values.introspection import bases_of, class_dict, module_name
from agent_kernel.values.loader import find_nested_codes
from agent_kernel.values.pickler import reduce
from agent_kernel.values.reducers import Handler, is_notebook_type
from agent_kernel.values.restore import objects as restore

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

_SAY_HOW = ("__reduce_ex__", "__reduce__", "__getstate__")
_DEPTH = 3
# Of what compiled code sets nothing can be read: such as the seconds of a span, once somebody asks for them.
_COMPILED_MOMENTS = "pandas._libs.tslibs"
_MOST_READ = 10_000  # functions of libraries: a table has a thousand, which take half a second to read
_MISSING = object()


def with_additions(kind: type[Any], handler: Handler) -> Handler:
    """The handler of a class, and around it what saves the attributes and slots that the handler leaves out."""
    if not _may_leave_out(kind):
        return handler

    def reduce_whole(pickler: Pickler, value: Any) -> Any:
        parts = handler(pickler, value)
        own = _find_added(value)
        if not any(own):
            return parts
        whole = reduce(value) if parts is NotImplemented else parts
        if isinstance(whole, str) or whole[0] is restore.live:  # found by name, or not saved
            return parts
        dicts = list(_dicts_in(whole[1:3], _DEPTH))
        attributes, slots = (
            {name: found for name, found in part.items() if all(one.get(name, _MISSING) is not found for one in dicts)}
            for part in own
        )
        if not attributes and not slots:
            return parts
        if not _names(type(value), whole[:2], _DEPTH):
            return pickler.refuse(
                value, f"its library would load it as an object of its own, not as {type(value).__name__}"
            )
        return add(pickler, value, whole, attributes, slots)

    return reduce_whole


def add(
    pickler: Pickler, value: object, whole: tuple[Any, ...], attributes: dict[str, object], slots: dict[str, object]
) -> tuple[Any, ...]:
    """What an object was reduced to, with attributes and slots that it leaves out; those may be changed, or shared."""
    pickler.dump_record.instances.append(value)
    pickler.dump_record.roots.append((attributes, slots))
    rest: list[Any] = [*whole[2:], None, None, None, None]
    state = (rest[3], rest[0] is not None, rest[0], attributes, slots)
    return *whole[:2], state, *rest[1:3], restore.added_state


def _may_leave_out(kind: type[Any]) -> bool:
    """Whether a library says how objects of a class are saved that the notebook made of one of its classes."""
    if not is_notebook_type(kind) or issubclass(kind, (type, enum.Enum, BaseException)):
        return False
    own = list(itertools.takewhile(is_notebook_type, bases_of(kind)))
    above = [base for base in bases_of(kind) if base is not object and not is_notebook_type(base)]
    if any(name in class_dict(base) for base in own for name in _SAY_HOW) or not above:
        return False
    has_handler = module_name(above[0]).partition(".")[0] in ("numpy", "pandas")
    says = any(name in class_dict(base) for base in above for name in _SAY_HOW)
    return has_handler or says or any(any(base is other for base in above) for other in copyreg.dispatch_table)


def _find_added(value: Any) -> tuple[dict[str, object], dict[str, object]]:
    """The attributes that no code of the library sets, and the slots of the notebook's classes."""
    kind = type(value)
    own: dict[str, object] = object.__getattribute__(value, "__dict__") if kind.__dictoffset__ else {}
    attributes = dict(own)
    if attributes:
        set_by_library = _names_set(kind)
        attributes = {name: found for name, found in attributes.items() if name not in set_by_library}
        if any(module_name(base).startswith(_COMPILED_MOMENTS) for base in bases_of(kind)):
            attributes = {name: found for name, found in attributes.items() if name[:1] != "_"}
    slots: dict[str, object] = {}
    for base in itertools.takewhile(is_notebook_type, kind.__mro__):
        for name, found in list(class_dict(base).items()):
            if type(found) is types.MemberDescriptorType:
                content = _content_of(found, value)
                if content is not _MISSING:
                    slots[name] = content
    return attributes, slots


def _content_of(slot: types.MemberDescriptorType, value: Any) -> object:
    try:
        return slot.__get__(value)
    except AttributeError:
        return _MISSING


def _names_set(kind: type) -> set[str]:
    """The attributes that code of a library's classes sets, also such as it names in a text."""
    names: set[str] = set()
    for base in bases_of(kind):
        if base is object or is_notebook_type(base):
            continue
        for attribute in list(class_dict(base).values()):
            function = getattr(attribute, "__func__", attribute)
            if type(function) is types.FunctionType:
                names |= _names_set_by(function.__code__)
    return names


@functools.lru_cache(_MOST_READ)
def _names_set_by(code: types.CodeType) -> frozenset[str]:
    names: set[str] = set()
    for one in find_nested_codes(code):
        names.update(step.argval for step in dis.get_instructions(one) if step.opname == "STORE_ATTR")
        names.update(text for text in one.co_consts if type(text) is str and text.startswith("_"))
    return frozenset(names)


def _names(kind: type, parts: Any, depth: int) -> bool:
    return any(part is kind or (type(part) is tuple and depth and _names(kind, part, depth - 1)) for part in parts)


def _dicts_in(parts: Any, depth: int) -> Iterator[dict[Any, Any]]:
    for part in parts:
        if type(part) is dict:
            yield part
        elif type(part) is tuple and depth:
            yield from _dicts_in(part, depth - 1)
