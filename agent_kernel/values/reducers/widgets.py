"""Widgets of ipywidgets, and of libraries that build on it: their traits, attributes and handlers are saved.

Their id in the front end is what they are known by: a checkout sets the live widget back, so that what is on the screen
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
    if id(widget) in pickler.muted:
        pickler.mute(parts)
    else:
        pickler.dump_record.opaque.append(widget)
        pickler.note_parts(parts)
    return parts
