"""The panel's code and style, as one module and one sheet for the front end.

An installed package carries them, made when it was built; in a checkout they are put together from the sources.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

__all__ = ["history"]

_BUILT = Path(__file__).parent / "static"
_SOURCES = Path(__file__).parents[2] / "widgets"


@functools.cache
def history() -> tuple[str, str]:
    """The history panel's module, and its style."""
    if (_SOURCES / "bundle.py").is_file():
        bundle = _bundle()
        return bundle.module(_SOURCES / "history" / "widget.js"), bundle.style(_SOURCES / "history")
    return (_BUILT / "history.js").read_text("utf-8"), (_BUILT / "history.css").read_text("utf-8")


def _bundle() -> Any:
    spec = importlib.util.spec_from_file_location("agent_kernel_bundle", _SOURCES / "bundle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
