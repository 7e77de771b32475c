"""Which browser there is on this machine."""

from __future__ import annotations

import os
import shutil
from typing import Final

__all__ = ["chromium"]

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """The program, where there is one; CHROMIUM names another one."""
    return next(filter(None, [os.environ.get("CHROMIUM"), *map(shutil.which, _NAMES)]), None)
