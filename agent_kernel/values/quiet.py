"""Look at objects of libraries without the person hearing of it.

A library's own reducer may warn, which nobody asked for; where warnings are errors, the object could not be saved.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Generator

_IGNORE_ALL = ("ignore", None, Warning, None, 0)


@contextlib.contextmanager
def unwarned() -> Generator[None]:
    """Let no warning be shown or raised in the block.

    Not `catch_warnings`: it makes Python forget what was shown already, so the person's own would be shown once a cell.
    """
    filters: list[tuple[object, ...]] = warnings.filters  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    filters.insert(0, _IGNORE_ALL)
    try:
        yield
    finally:
        filters.remove(_IGNORE_ALL)
