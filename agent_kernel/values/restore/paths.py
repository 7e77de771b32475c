"""Rebuild paths of another operating system: pathlib has no `WindowsPath` outside of Windows, and no `PosixPath` there.

A relative path becomes one of this system, so that code goes on opening it. One that begins at a drive or at the root leads
nowhere here: it comes as a pure path, which says what it was.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, Final

__all__ = ["FOREIGN", "PosixPath", "WindowsPath"]


class PosixPath(pathlib.PurePosixPath):
    """Stands for the class of this name on Windows."""

    def __new__(cls, *parts: str) -> Any:
        return _here(pathlib.PurePosixPath(*parts))


class WindowsPath(pathlib.PureWindowsPath):
    """Stands for the class of this name elsewhere than on Windows."""

    def __new__(cls, *parts: str) -> Any:
        return _here(pathlib.PureWindowsPath(*parts))


def _here(path: pathlib.PurePath) -> pathlib.PurePath:
    return path if path.anchor else pathlib.Path(*path.parts)


FOREIGN: Final[type[pathlib.PurePath]] = PosixPath if os.name == "nt" else WindowsPath
