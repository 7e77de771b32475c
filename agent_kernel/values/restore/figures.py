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
