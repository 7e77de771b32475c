"""The attributes of objects whose class a cell made, of dataclasses and of widgets: what their slots and dicts hold.

Such a class is stored apart from its instances, and its instances together, so that nobody can tell from what is stored
which attribute is which. Only what the interpreter itself keeps is looked at: no property, no `__getattr__` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import cast

from msgspec.structs import replace

from agent_kernel.values.summaries.cells import CELL, entry_of_slot, is_slot, label
from agent_kernel.values.summaries.masking import labels_a_secret, names_its_neighbours
from agent_kernel.values.summaries.model import Column, Summary
from agent_kernel.values.summaries.plain import preview_of
from agent_kernel.values.summaries.reading import (
    bases_of,
    class_dict,
    derives_from,
    entry,
    exact_items,
    instance_dict,
    is_of_notebook,
    loaded,
)
from agent_kernel.values.summaries.wording import MASK

__all__ = ["with_attributes"]

_MOST = 40
_MOST_COUNTED = 10_000
_item_of: Callable[[object, int], object] = class_dict(tuple)["__getitem__"]  # type: ignore[assignment]  # its own slot


def with_attributes(summary: Summary, value: object) -> Summary:
    """The summary with the object's attributes, if it has any that may be told."""
    kind = type(value)
    is_widget = derives_from(kind, loaded("ipywidgets", "Widget"))
    is_data = is_of_notebook(kind) or entry(class_dict(kind), "__dataclass_fields__") is not None
    if summary.masked or not (is_data or is_widget):
        return summary
    attributes = _traits(value) if is_widget else _attributes(value, summary)
    found = list(islice(attributes, _MOST_COUNTED))
    first = found[:_MOST]
    hide = any(names_its_neighbours(name, held) for name, held in first)
    hide = hide or (is_widget and (labels_a_secret(kind.__name__) or labels_a_secret(dict(found).get("description"))))
    columns = tuple(
        Column(label(name, CELL), MASK if hide or labels_a_secret(name) else preview_of(held, CELL, depth=1))
        for name, held in first
    )
    masked = any(MASK in part for column in columns for part in (column.name, column.of))
    return replace(summary, columns=columns, masked=masked, attributes=len(found))


def _traits(widget: object) -> Iterator[tuple[str, object]]:
    """What a widget shows, without how it looks."""
    traits = entry(instance_dict(widget), "_trait_values")
    for name, held in list(cast("dict[object, object]", traits).items()) if type(traits) is dict else ():
        says_nothing = held is None or held is False or (type(held) is str and not held)
        if type(name) is str and not name.startswith("_") and name not in _LOOKS and not says_nothing:
            yield name, held


_LOOKS = frozenset(
    [
        "box_style",
        "button_style",
        "comm",
        "continuous_update",
        "description_allow_html",
        "disabled",
        "icon",
        "keys",
        "layout",
        "log",
        "orientation",
        "readout",
        "readout_format",
        "step",
        "style",
        "tabbable",
        "tooltip",
    ]
)


def _attributes(value: object, summary: Summary) -> Iterator[tuple[str, object]]:
    kind = type(value)
    if derives_from(kind, tuple):  # a named tuple
        names = exact_items(entry(class_dict(kind), "_fields"))
        for place, name in enumerate(names[: summary.shape[0] if summary.shape else 0]):
            if type(name) is str:
                yield name, _item_of(value, place)
    for base in reversed(bases_of(kind)):
        for name, slot in islice(class_dict(base).items(), _MOST_COUNTED):
            if type(name) is str and is_slot(slot) and is_of_notebook(base) and not name.startswith("__"):
                yield name, entry_of_slot(value, name)
    for name, held in instance_dict(value).items():
        if type(name) is str and not name.startswith("__"):
            yield name, held
