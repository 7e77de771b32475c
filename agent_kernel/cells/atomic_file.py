"""Put a file in its place as a whole: readers see the old content or the new one, and never a half of it."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from agent_kernel.errors import FileNotWrittenError

__all__ = ["write_file"]


def write_file(path: Path, content: bytes, *, replace: bool) -> Path:
    """Write the file and return its path, links resolved.

    Args:
        replace: also where there is a file already.

    Raises:
        FileExistsError: there is one, and `replace` is not set. It stays as it is, also where it came this moment.
        FileNotWrittenError: nothing can be written there. What was there stays.
    """
    try:
        target = Path(os.path.realpath(path.expanduser()))
        if not replace and os.path.lexists(target):
            raise FileExistsError(str(path))
        if target.is_dir():
            raise FileNotWrittenError(str(path), "it is a folder")
        if not target.parent.is_dir():
            raise FileNotWrittenError(str(path), f"there is no folder {target.parent}")
        _write(target, content, replace=replace)
    except FileExistsError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: ~ of nobody; ValueError: NUL in the name
        raise FileNotWrittenError(str(path), getattr(error, "strerror", None) or str(error)) from error
    return target


def _write(target: Path, content: bytes, *, replace: bool) -> None:
    """Write beside the target first, in the same file system. Made by `open`, so that the person's umask counts."""
    aside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with aside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            with suppress(OSError):
                shutil.copymode(target, aside)
            aside.replace(target)
        else:
            _link(aside, target)
    finally:
        with suppress(OSError):
            aside.unlink()


def _link(aside: Path, target: Path) -> None:
    """Give the file its name, unless another one has it by now."""
    try:
        os.link(aside, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise FileExistsError(str(target)) from None
        aside.replace(target)
