"""Small files of the user's own, outside of any store: written whole or not at all, by one process at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Generator
from pathlib import Path
from typing import Final

__all__ = ["exclusive", "folder", "write_whole"]

_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


def folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path() / "agent-kernel"


@contextlib.contextmanager
def exclusive(path: Path) -> Generator[None]:
    """Read this file, change it and write it back while no other process does. Its folder is made.

    Raises:
        OSError: nothing can be written there.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A file beside it is locked, because the file itself is replaced.
    handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Closing would not do: a process that was forked meanwhile has the file open too.
            _lock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def _lock(handle: int, how: int) -> None:
    try:
        fcntl.flock(handle, how)
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # there, on some network file systems, nothing better can be done
            raise


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file, which nobody else may read, once the new one is on the disk. A link stays one.

    Raises:
        OSError: it cannot be written; the old one is as it was.
    """
    target = Path(os.path.realpath(path))
    aside = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        aside.replace(target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
