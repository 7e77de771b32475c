"""bokeh: the document that it works with now, and models under the ids that they had."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def is_current(document: object) -> bool:
    """Whether bokeh shows in this document now what `show` is given."""
    module: Any = sys.modules.get("bokeh.io.state")  # `curdoc()` makes a document if there is none
    current = getattr(module, "_STATE", None)
    return current is not None and current.document is document


def current_document() -> Any:
    """What stands for the document that was the current one. A model that is in it, and in no root of it, can be shown."""
    return import_module("bokeh.io").curdoc()


def model(kind: Any, name: str) -> Any:
    """A bare model with this id, which no model that is made later gets: in one layout each would stand for the other."""
    serialization: Any = import_module("bokeh.util.serialization")
    number = name.removeprefix("p")
    if number.isdecimal():
        with serialization._simple_id_lock:
            serialization._simple_id = max(serialization._simple_id, int(number))
    return kind.__new__(kind, id=name)
