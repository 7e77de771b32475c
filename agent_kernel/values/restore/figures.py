"""Parts of matplotlib's figures."""

from __future__ import annotations

import sys
import weakref
from typing import Any


def drawn_figure(figure: Any, state: dict[str, Any]) -> None:
    """Give a figure its attributes, and a canvas that draws to memory, whatever window it was shown in."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.__setstate__(state)
    FigureCanvasAgg(figure)


def idle_callbacks(kind: Any, signals: tuple[str, ...], handler: object) -> Any:
    """A registry of callbacks that has none."""
    made = kind.__new__(kind)
    made.__setstate__(
        {
            "_signals": [*signals],
            "exception_handler": handler,
            "callbacks": {},
            "_func_cid_map": None,
            "_pickled_cids": set(),
            "_cid_gen": 0,
        }
    )
    return made


def transformed_path(path: Any, state: dict[str, Any]) -> None:
    """Give a transformed path its attributes, and let the transform that it follows tell it of changes."""
    path.__setstate__({sys.intern(name): value for name, value in state.items()})
    transform: Any = state["_transform"]
    key, followed = id(path), weakref.ref(transform)

    def forget(_: object) -> None:
        living: Any = followed()
        if living is not None:
            living.__dict__["_parents"].pop(key, None)

    # Its own attributes may come to what it follows later.
    transform.__dict__.setdefault("_parents", {})[key] = weakref.ref(path, forget)
