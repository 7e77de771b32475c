"""The folder of an LMDB store: made whole or not at all, and looked at before LMDB maps it.

LMDB reads through a memory map, where a missing page is a SIGBUS that kills the process, not an error. So a folder
that holds something else, and a file that is cut short, are found out here. A new `data.mdb` is made aside and linked
into place, so that a crash at any moment leaves no half of one.
"""

from __future__ import annotations

import errno
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import lmdb

from agent_kernel.errors import NotAStoreError, StoreError, StoreFullError, StoreReadOnlyError, StoreUnavailableError

DATA, LOCK, COMPACTING = "data.mdb", "lock.mdb", ".compacting"
CLOSED = "last-close"  # what the data file was when a process that wrote to it let go of it
ALIVE = "alive.lock"  # each byte that is locked stands for a process
ENGINE = 0  # LMDB 0.9: the newer format brings nothing, and older releases could not read it
REDIRECT = "bound.json"  # says that a notebook's store lies elsewhere; not ours, but it may lie where a store is made
_NEW = ".new-"
_ROOM_BYTES = 4 << 20  # with less than this left beyond what was being written, a disk counts as full
_META_PAGES = 2
_LOCK_BYTES = 1 << 16  # more than LMDB would make of the lock file for as many readers as we let in
_LOOKS = 5
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_SHORT_WRITE = {errno.EIO, errno.EINVAL}  # what LMDB makes of one in a commit, and in a copy
_NO_PATH = {errno.ENAMETOOLONG: "its path, or a name in it, is too long", errno.ELOOP: "its path is a loop of links"}
READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}

FileId = tuple[int, int]


def url_of(folder: Path) -> str:
    """Return the URL that opens this folder."""
    return f"lmdb://{folder.as_posix()}"


def file_id(folder: Path) -> FileId | None:
    """Say which data file lies in the folder just now, whatever path leads to it; None if the folder has no data file."""
    try:
        found = os.stat(f"{folder}{os.sep}{DATA}")  # noqa: PTH116 - every commit waits for it, and a Path takes five times as long
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise translated(error, folder) from error
    return found.st_dev, found.st_ino


def prepare(folder: Path, *, create: bool) -> FileId:
    """Return the data file of the store in this folder, made if need be.

    Raises:
        NotAStoreError: there is something else, or nothing and `create` is False.
        StoreUnavailableError: the data file is cut short, or nothing can be made there.
    """
    if (shown := str(folder).encode(errors="backslashreplace").decode()) != str(folder):
        raise StoreUnavailableError(f"lmdb://{shown}", "its path holds bytes that are not text")  # LMDB takes only text
    try:
        found = file_id(folder)
        if found is None:
            _check_vacant(folder, create)
            found = _make(folder)
        _check_length(folder)
        _sweep(folder)
    except OSError as error:
        raise translated(error, folder) from error
    return found


def _check_vacant(folder: Path, create: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotAStoreError(url_of(folder), "it is a file, and a store is a folder")
    others = [name for name in _names(folder) if not _is_ours(name)]
    if others:
        more = ", …" if len(others) > 3 else ""
        raise NotAStoreError(url_of(folder), f"the folder holds other things ({', '.join(others[:3])}{more})")
    if not create:
        raise NotAStoreError(url_of(folder), "there is nothing there")


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


def _is_ours(name: str) -> bool:
    return name in (".gitignore", DATA, LOCK, ALIVE, CLOSED, COMPACTING, REDIRECT) or name.startswith(
        _NEW
    )  # data: made a moment ago


def _make(folder: Path) -> FileId:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    try:
        _make_aside(folder)
    except (OSError, lmdb.Error) as error:
        found = file_id(folder)  # of another process, which also swept away what we were making
        if found is None:
            raise translated(error, folder) from error
        return found
    found = file_id(folder)
    if found is None:
        raise StoreUnavailableError(url_of(folder), "its files were removed while it was being made")
    return found


def _make_aside(folder: Path) -> None:
    aside = Path(tempfile.mkdtemp(prefix=_NEW, dir=folder))
    try:
        _write_lock(aside / LOCK)
        lmdb.open(str(aside), map_size=1 << 20, mode=0o600, lib_version=ENGINE).close()
        sync_path(aside / DATA)
        _link(aside / DATA, folder / DATA)
        sync_path(folder)
        sync_path(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def prepare_lock(folder: Path) -> None:
    """Give the lock file room on the disk before LMDB writes to it through a map: there, a full disk ends the process.

    A lock file that is there is let be, since processes may use it: its first block is enough for 60 readers.

    Raises:
        StoreFullError: there is no room.
    """
    lock = folder / LOCK
    try:
        if not lock.exists():
            _make_lock(folder)
        elif sys.platform == "linux" and not lock.stat().st_blocks:  # a full disk ended the process that made it
            with lock.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, _LOCK_BYTES)
    except OSError as error:
        if error.errno in _FULL:
            raise translated(error, folder) from error
        # LMDB makes it, or says why it cannot be


def _make_lock(folder: Path) -> None:
    aside = Path(tempfile.mkdtemp(prefix=_NEW, dir=folder))
    try:
        _write_lock(aside / LOCK)
        _link(aside / LOCK, folder / LOCK)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_lock(lock: Path) -> None:
    lock.touch(mode=0o600)
    lock.write_bytes(bytes(_LOCK_BYTES))


def _link(made: Path, place: Path) -> None:
    try:
        os.link(made, place)  # unlike a rename, never replaces what another process has just made
    except OSError as error:
        if place.exists():
            return
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        made.rename(place)  # a file system without hard links


def _check_length(folder: Path) -> None:
    nbytes = (folder / DATA).stat().st_size
    if nbytes < _META_PAGES * 4096:
        raise StoreUnavailableError(url_of(folder), f"{DATA} is cut short ({nbytes:,} bytes); restore it from a copy")


def check_complete(folder: Path, env: lmdb.Environment, *, writable: bool) -> None:
    """Raise StoreUnavailableError if pages that the last commit uses lie beyond the end of the file."""
    if not _missing_bytes(folder, env):
        return
    # The last pages of a sound file may be free ones that were never written, hence a closer look, which needs a file
    # that does not change meanwhile. Lengthening the file spares the next one to open it that look.
    with env.begin(write=writable):
        missing = _missing_bytes(folder, env)
        if missing and _has_faults(folder):
            reason = f"{DATA} is cut short ({missing:,} bytes are missing); restore it from a copy"
            raise StoreUnavailableError(url_of(folder), reason)
        if missing and writable:
            with suppress(OSError):
                os.truncate(folder / DATA, (folder / DATA).stat().st_size + missing)


def _missing_bytes(folder: Path, env: lmdb.Environment) -> int:
    needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    return max(needed - (folder / DATA).stat().st_size, 0)


def _has_faults(folder: Path) -> bool:
    from lmdb import verify

    try:
        faults: list[str] = verify.verify(str(folder))  # type: ignore[no-untyped-call]  # alone in lmdb without types
    except verify.VerifyError:
        return True
    return len(faults) > 0


def note_close(folder: Path) -> None:
    """Note what the data file is, so that the next process to open it need not look whether it is whole."""
    with suppress(OSError):  # then it looks
        (folder / CLOSED).write_text(_state(folder))


def is_doubtful(folder: Path) -> bool:
    """Whether the last process on the data file was killed, or something else wrote it: a copy, a backup, a bad disk."""
    return (folder / DATA).stat().st_size > _META_PAGES * 4096 and not _is_as_closed(folder)


def fault_of(folder: Path, env: lmdb.Environment, *, writable: bool) -> str:
    """The first page of the data file that cannot be, found without LMDB, which may end the process there; "" if none."""
    from lmdb import verify

    fault = ""
    for _ in range(_LOOKS):
        before = _state(folder)
        with env.begin(write=writable):  # nobody else writes meanwhile
            try:
                faults: list[str] = verify.verify(str(folder))  # type: ignore[no-untyped-call]
                fault = faults[0] if faults else ""
            except verify.VerifyError as error:
                fault = str(error)
        if not fault or _state(folder) == before:  # without the lock of a writer, it may have changed as it was read
            break
    return fault


def _is_as_closed(folder: Path) -> bool:
    try:
        return (folder / CLOSED).read_text() == _state(folder)
    except (OSError, UnicodeDecodeError):
        return False


def _state(folder: Path) -> str:
    found = (folder / DATA).stat()
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def _sweep(folder: Path) -> None:
    for name in _names(folder):
        if name.startswith(_NEW):  # of a process that died, or lost the race, while making the store
            shutil.rmtree(folder / name, ignore_errors=True)


def sync_path(path: Path) -> None:
    """Wait until the file, or the folder's list of names, is on the disk."""
    if sys.platform == "win32" and path.is_dir():
        return  # which has no such call
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def translated(error: lmdb.Error | OSError, folder: Path, nbytes: int = 0) -> StoreError | ValueError:
    """Return what to raise instead of an error of LMDB or of the system, after writing `nbytes`."""
    url = url_of(folder)
    code = error.code if isinstance(error, lmdb.Error) else error.errno
    if code in _FULL or (code in _SHORT_WRITE and not _has_room(folder, nbytes)):
        return StoreFullError(url, str(error))
    if code in READ_ONLY:
        hidden = _unreadable(folder)
        return StoreUnavailableError(url, hidden) if hidden else StoreReadOnlyError(url, f"it is read-only ({error})")
    if code in _NO_PATH:
        return StoreUnavailableError(url, _NO_PATH[code])
    if code in (errno.ENOTDIR, errno.EEXIST):
        return NotAStoreError(url, "a part of its path is a file")
    if isinstance(error, lmdb.InvalidError):
        return NotAStoreError(url, f"{DATA} is damaged, or not a data file of LMDB")
    if isinstance(error, lmdb.CorruptedError | lmdb.PageNotFoundError):
        return StoreUnavailableError(url, f"{DATA} is damaged; restore it from a copy")
    if isinstance(error, lmdb.VersionMismatchError):
        return StoreUnavailableError(url, f"{DATA} has a format of LMDB that this release does not read")
    if isinstance(error, lmdb.BadValsizeError):
        return ValueError("a key is empty or longer than 511 bytes, or a value is over 4 GB")
    return StoreUnavailableError(url, str(error))


def _unreadable(folder: Path) -> str:
    if os.access(folder, os.F_OK) and not os.access(folder, os.R_OK | os.X_OK):
        return "you have no permission to read its folder"
    if os.access(folder / DATA, os.F_OK) and not os.access(folder / DATA, os.R_OK):
        return f"you have no permission to read {DATA}"
    return ""


def why_read_only(folder: Path) -> str:
    """Say what of a store cannot be written that could be opened only for reading."""
    names = [name for name in (DATA, LOCK) if (folder / name).exists() and not os.access(folder / name, os.W_OK)]
    if not names:
        return "its folder is read-only"
    return f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} read-only"


def _has_room(folder: Path, nbytes: int) -> bool:
    # A full disk, a quota and a file size limit all look like a broken disk.
    wanted = 2 * nbytes + _ROOM_BYTES
    if sys.platform != "linux":
        return shutil.disk_usage(folder).free > wanted
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            os.posix_fallocate(probe.fileno(), (folder / DATA).stat().st_size, wanted)
    except OSError as error:
        return error.errno not in _FULL
    return True


# -- which processes use a store's folder, where process numbers cannot tell: other containers, machines with another name
#
# On a file system that belongs to this machine alone, nothing from before its last start can be alive. Of what runs now, each
# process holds one byte of a file locked for as long as it lives; the kernel of the operating system lets go of it for those
# that die. On a network file system neither says anything for sure, so nothing is concluded there.

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
