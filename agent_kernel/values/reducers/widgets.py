"""Widgets of ipywidgets, and other objects with traits: their traits, attributes and handlers are saved.

The id in the front end is what a widget is known by: a checkout sets the live widget back, so that what is on the screen
follows, and after a restart a widget with that id is made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import astuple

from agent_kernel.values.restore import widgets

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

TOKEN: Final = "widget "  # of `Dump.holders`: with the id of one behind it


def reduce_widget(pickler: Pickler, widget: Any) -> Any:
    model_id = object.__getattribute__(widget, "__dict__")["_model_id"] or ""
    parts = (
        widgets.widget,
        (type(cast("object", widget)), model_id),
        astuple(widgets.WidgetState.of(widget)),
        None,
        None,
        widgets.fill,
    )
    pickler.dump_record.holders.add(f"{TOKEN}{model_id}")
    return _noted(pickler, widget, parts)


def reduce_with_traits(pickler: Pickler, value: Any) -> Any:
    """An object of traitlets: what it says of itself to pickle leaves out who observes it, and what it is linked with."""
    kind: Any = type(cast("object", value))
    parts = widgets.with_traits, (kind,), astuple(widgets.WidgetState.of(value)), None, None, widgets.fill_traits
    return _noted(pickler, value, parts)


def says_only_traits(kind: Any) -> bool:
    """Whether objects of a class with traits are pickled as traitlets says."""
    says: Any = next(base for base in kind.__mro__ if (base.__module__, base.__name__) == _HAS_TRAITS)
    return kind.__reduce_ex__ is object.__reduce_ex__ and all(
        getattr(kind, name, None) is getattr(says, name, None)
        for name in ("__getstate__", "__setstate__", "__reduce__")
    )


_HAS_TRAITS = ("traitlets.traitlets", "HasTraits")


def _noted(pickler: Pickler, value: Any, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    if id(value) in pickler.muted:
        pickler.mute(parts)
    else:
        pickler.dump_record.opaque.append(value)
        pickler.note_parts(parts)
    return parts
