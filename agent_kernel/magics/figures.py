"""Let figures that were loaded draw, as those do that a cell makes.

A kernel learns to draw figures when pyplot opens its first one: that imports the backend, which sets up the shell. A
figure that comes back never goes through pyplot, so without this it would show as `<Figure size 640x480 with 1 Axes>`.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from types import ModuleType
from typing import cast

from agent_kernel.values.summaries.reading import module_dict

__all__ = ["draw_inline"]

logger = logging.getLogger(__name__)

_BACKEND = "matplotlib_inline.backend_inline"
_NAMES = ("inline", f"module://{_BACKEND}")


def draw_inline() -> None:
    """Import the backend that draws in the page, if figures are there and it is the one that pyplot would take."""
    if "matplotlib.figure" not in sys.modules or _BACKEND in sys.modules or _chosen() not in _NAMES:
        return
    try:
        import_module(_BACKEND)
    except Exception:  # a move must not fail for the sake of a picture
        logger.exception("loaded figures cannot be drawn in the page")


def _chosen() -> object:
    """The backend that is set. Asking matplotlib itself would choose one where none is, and may start a window toolkit."""
    matplotlib = sys.modules.get("matplotlib")
    settings: object = module_dict(matplotlib).get("rcParams") if isinstance(matplotlib, ModuleType) else None
    if not isinstance(settings, dict):
        return None
    # Its own `get` would ask it: a dict's tells what it holds.
    return dict[str, object].get(cast("dict[str, object]", settings), "backend", None)
