"""Objects of libraries that are saved as copies of what they hold, such as the figures of plotly and the documents of bs4.

What else holds a part of one (`trace = figure.data[0]`) would be cut off from it: a change through that would be missed, and
a checkout would bring back two parts. So what such an object holds and does not save is looked through, by the collector's
references and without any of its code. Names that hold parts of it are one group with it. It is compared as its library says
how it is saved, and stored with its own attributes where a part is in the same dump.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What objects hold is of any type.

from __future__ import annotations

import copy
import types
from typing import TYPE_CHECKING, Any

from agent_kernel.values.aliases import CONSTANT, OBJECTS, OPEN, MemoryUse
from agent_kernel.values.introspection import (
    ATOM_IDS,
    TypeCache,
    bases_of,
    class_dict,
    derives_from,
    find_loaded,
    is_made_in_python,
    module_name,
    referents,
)
from agent_kernel.values.reducers import instances, is_notebook_type
from agent_kernel.values.restore import objects as restore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_kernel.values.pickler import Pickler
    from agent_kernel.values.reducers import Handler

_MOST_SAVED = 2_000  # objects in what a library gives for one: where there are more, it is mostly data
_MOST_LOOKED_AT = 20_000  # objects below one
_MOST_ITEMS = 2_000  # of a container, which is data where it has more
_CONTAINER_IDS = frozenset(map(id, (list, tuple, dict, set, frozenset)))
_CLOSED_IDS = ATOM_IDS | frozenset(
    map(id, (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.CodeType, types.FrameType))
)


def handler_for(kind: type) -> Handler | None:
    """The handler of a figure of plotly that is saved as plotly says. One that is a widget is saved as a widget."""
    figure: Any = find_loaded("plotly.basedatatypes", "BaseFigure")
    if figure is None or derives_from(kind, find_loaded("ipywidgets", "Widget")):
        return None
    as_known = {"_data", "_layout", "_frame_objs"} <= {*figure.to_dict.__code__.co_names}
    if not as_known or getattr(kind, "__reduce__", None) is not figure.__reduce__:
        return None
    return instances.of_notebook(kind, _reduce_figure) if is_notebook_type(kind) else reduce_figure


def reduce_figure(pickler: Pickler, figure: Any) -> Any:
    """As `reduce_copied`, with what plotly leaves out."""
    return _note_held(pickler, figure, _reduce_figure(pickler, figure))


def _reduce_figure(pickler: Pickler, figure: Any) -> Any:
    """A figure with its arrays, and what functions of plotly set on it, such as the fits of trend lines."""
    parts = pickler.custom(figure, _describe_figure)
    if pickler.is_probe or isinstance(parts, str) or parts[0] is restore.live:
        return parts
    made: Any = find_loaded("plotly.basedatatypes", "BaseFigure")
    attributes: dict[str, object] = object.__getattribute__(figure, "__dict__")
    names = attributes.keys() - made.__init__.__code__.co_names
    added = {name: attributes[name] for name in sorted(names)}
    return instances.add_attributes(pickler, figure, parts, added, {}) if added else parts


def _describe_figure(figure: Any) -> Any:
    """What plotly makes an equal figure of. It says texts in place of arrays, as it sends them to the page, and they stay texts."""
    props = {
        "data": figure._data,
        "layout": figure._layout,
        "frames": [frame._props for frame in figure._frame_objs],
        "_grid_str": figure._grid_str,
        "_grid_ref": figure._grid_ref,
    }
    return type(figure), (copy.deepcopy(props),)


def reduce_copied(pickler: Pickler, value: Any) -> Any:
    """As its library says, and note what it holds and does not save; with its own attributes where copies are opened."""
    return _note_held(pickler, value, pickler.custom(value))


def _note_held(pickler: Pickler, value: Any, parts: Any) -> Any:
    if pickler.is_probe or isinstance(parts, str) or parts[0] is restore.live or id(value) in pickler.muted:
        return parts
    attributes: dict[str, object] = object.__getattribute__(value, "__dict__")
    saved = _find_saved(parts)
    if saved is None or all(map(saved.__contains__, map(id, attributes.values()))):
        return parts
    found = _find_below(value, [held for held in attributes.values() if id(held) not in saved], saved)
    if not any(map(_is_object, found.values())):
        return parts
    if pickler.opens_copies:
        copied = attributes.copy()
        pickler.keepalive.append(copied)
        pickler.dump_record.instances.append(value)
        made = (restore.bare_instance, (type(value), object))
        return *made, (copied, _find_slots(value)), None, None, restore.answering_slots_state
    dump = pickler.dump_record
    dump.copied |= found.keys()
    dump.memory.append(MemoryUse(value, OBJECTS, id(value), id(value) + 1, OPEN))
    dump.memory += (
        MemoryUse(one, OBJECTS, item, item + 1, CONSTANT) for item, one in found.items() if makes_copies(type(one))
    )
    return parts


def makes_copies(kind: type) -> bool:
    """Whether an object of a library's class may be saved as a copy of what it holds, and can be made bare instead."""
    known = _known.get(kind)
    return _known.keep(kind, _may_make_copies(kind)) if known is None else known


_known: TypeCache[bool] = TypeCache()


def _may_make_copies(kind: type) -> bool:
    if is_notebook_type(kind) or not kind.__dictoffset__ or issubclass(kind, (type, BaseException)):
        return False
    # What this package puts into streams says how it is loaded.
    if module_name(kind).partition(".")[0] == "agent_kernel":
        return False
    bases = [base for base in bases_of(kind) if base is not object]
    if not bases or not all(map(is_made_in_python, bases)):
        return False
    says = ("__reduce_ex__", "__reduce__", "__getstate__")
    return any(type(class_dict(base).get(name)) is types.FunctionType for base in bases for name in says)


def _find_saved(parts: tuple[Any, ...]) -> set[int] | None:
    """The ids of what stands in containers of what an object is reduced to; None of more than is looked through."""
    saved: set[int] = set()
    level: list[Any] = list(parts[1:3])
    while level:
        fresh: list[Any] = []
        for one in level:
            if id(one) in saved:
                continue
            saved.add(id(one))
            if id(type(one)) in _CONTAINER_IDS:
                if len(one) + len(fresh) + len(saved) > _MOST_SAVED:
                    return None
                fresh += one.values() if type(one) is dict else one
        level = fresh
    return saved


def _find_below(value: object, level: Iterable[object], saved: set[int]) -> dict[int, object]:
    """What lies below the object and is not saved of it, without numbers, texts, code, classes and modules; by id."""
    found: dict[int, object] = {}
    seen = {id(value), *saved}
    while level:
        fresh = {id(one): one for one in level if id(one) not in seen and not _is_closed(one)}
        seen |= fresh.keys()
        found |= fresh
        if len(found) > _MOST_LOOKED_AT:
            break
        level = referents([one for one in fresh.values() if not _is_data(one)])
    return found


def _find_slots(value: Any) -> dict[str, object]:
    slots: dict[str, object] = {}
    for base in bases_of(type(value)):
        for name, found in list(class_dict(base).items()):
            if type(found) is types.MemberDescriptorType and (held := getattr(value, name, slots)) is not slots:
                slots[name] = held
    return slots


def _is_object(one: object) -> bool:
    return bool(type(one).__dictoffset__)


def _is_closed(one: object) -> bool:
    return id(type(one)) in _CLOSED_IDS or issubclass(type(one), type)


def _is_data(one: Any) -> bool:
    return id(type(one)) in _CONTAINER_IDS and len(one) > _MOST_ITEMS
