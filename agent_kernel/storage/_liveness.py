"""Which processes use a store's folder, where process numbers cannot tell: other containers, machines with another name.

On a file system that belongs to this machine alone, nothing from before its last start can be alive. Of what runs now, each
process holds one byte of a file locked for as long as it lives; the kernel of the operating system lets go of it for those
that die. On a network file system neither says anything for sure, so nothing is concluded there.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from agent_kernel.storage._folder import ALIVE

# File systems that one machine has at a time. Any other may be a network's.
_LOCAL = frozenset(
    {"apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs", "ntfs3", "overlay", "ramfs"}
    | {"reiserfs", "tmpfs", "vfat", "xfs", "zfs"}
)


class Liveness:
    """The locks of one folder. Numbers are offsets in the lock file: 62 bits that stand for one process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / ALIVE
        self._handle: int | None = None
        self._guard = threading.Lock()

    @functools.cached_property
    def is_on_this_machine(self) -> bool:
        """Whether no other machine can use the folder."""
        return is_on_this_machine(self._folder)

    def hold(self, number: int) -> None:
        """Be seen as alive under this number until this process ends; nothing happens where that cannot be."""
        with self._guard, suppress(OSError, _UnsupportedError):
            if self._handle is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._handle = os.open(self._path, flags, 0o600)
            _lock(self._handle, number)

    def is_held(self, number: int) -> bool | None:
        """Whether the process of this number lives; None: it cannot be told."""
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            _lock(handle, number)
        except _UnsupportedError:
            return None
        except OSError:  # somebody has it
            return True
        finally:
            os.close(handle)
        return False

    def close(self) -> None:
        """Let go of every number."""
        with self._guard:
            handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


class _UnsupportedError(Exception):
    """This system has no locks that belong to an open file."""


def _lock(handle: int, number: int) -> None:
    """Lock one byte of an open file, without waiting; raises OSError where another open file has it."""
    if sys.platform != "linux":
        raise _UnsupportedError
    import fcntl
    import struct

    # struct flock: type, whence, start, length, and a pid that is 0. Locks of a process would go with any close of the file.
    wanted = struct.pack("hhxxxxqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
    fcntl.fcntl(handle, fcntl.F_OFD_SETLK, wanted)


def is_on_this_machine(folder: Path) -> bool:
    """Whether the folder's file system is this machine's alone, so that no other can use the store."""
    if sys.platform == "linux":
        return _kind(folder, Path("/proc/self/mountinfo")) in _LOCAL
    try:
        said = subprocess.run(["mount"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return False
    # "/dev/disk3s1 on /System/Volumes/Data (apfs, local, journaled)"
    mounts = [line.partition(" on ")[2].rpartition(" (") for line in said.splitlines()]
    options = [(place, kind) for place, _, kind in mounts if _holds(place, folder)]
    return "local" in max(options, default=("", ""), key=lambda found: len(found[0]))[1].strip(")").split(", ")


def _kind(folder: Path, mounts: Path) -> str:
    """The type of the file system that the folder lies on."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        # 36 35 98:0 /root /mount/point rw,noatime master:1 - ext3 /dev/root rw; blanks are octal. The last of equals is on top.
        fields, _, rest = line.partition(" - ")
        place = fields.split(" ")[4].replace("\\040", " ")
        if _holds(place, folder) and len(place) >= best:
            best, kind = len(place), rest.split(" ")[0]
    return kind


def _holds(place: str, folder: Path) -> bool:
    return bool(place) and folder.is_relative_to(place)
