"""The default store: an embedded LMDB file that several threads and processes may use at once.

Values go in by transactions of about 8 MB: a transaction keeps every page it writes in memory until it commits. A swap
is one transaction, and the only thing that has to be one.

LMDB reads through a memory map, where a missing page is a SIGBUS that kills the process, not an error. So a folder
that holds something else, and a file that is cut short, are found out before LMDB maps them, and a doubtful file is first read
by another process. All stores of one file in this process share one environment, because LMDB's file locks belong to the
process: a second environment on the file would drop the first one's.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import functools
import itertools
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar, cast
from weakref import WeakSet

import lmdb

from agent_kernel.errors import NotAStoreError, StoreError, StoreFullError, StoreReadOnlyError, StoreUnavailableError
from agent_kernel.storage import NO_ITEMS, Buffer, Durability, StoreSize

# -- the folder: made whole or not at all, and looked at before LMDB maps it
#
# A new `data.mdb` is made aside and linked into place, so that a crash at any moment leaves no half of one.

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
_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}

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
        raise translate_error(error, folder) from error
    return found.st_dev, found.st_ino


def prepare(folder: Path, *, create: bool) -> FileId:
    """Return the data file of the store in this folder, made if need be.

    Raises:
        NotAStoreError: there is something else, or nothing and `create` is False.
        StoreUnavailableError: the data file is cut short, or nothing can be made there.
    """
    if (text := str(folder).encode(errors="backslashreplace").decode()) != str(folder):
        raise StoreUnavailableError(f"lmdb://{text}", "its path holds bytes that are not text")  # LMDB takes only text
    try:
        found = file_id(folder)
        if found is None:
            _check_vacant(folder, create)
            found = _make(folder)
        _check_length(folder)
        _sweep(folder)
    except OSError as error:
        raise translate_error(error, folder) from error
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
        _create_files(folder)
    except (OSError, lmdb.Error) as error:
        found = file_id(folder)  # of another process, which also swept away what we were making
        if found is None:
            raise translate_error(error, folder) from error
        return found
    found = file_id(folder)
    if found is None:
        raise StoreUnavailableError(url_of(folder), "its files were removed while it was being made")
    return found


def _create_files(folder: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=_NEW, dir=folder))
    try:
        _write_lock(scratch / LOCK)
        lmdb.open(str(scratch), map_size=1 << 20, mode=0o600, lib_version=ENGINE).close()
        sync_path(scratch / DATA)
        _link(scratch / DATA, folder / DATA)
        sync_path(folder)
        sync_path(folder.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _prepare_lock(folder: Path) -> None:
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
            raise translate_error(error, folder) from error
        # LMDB makes it, or says why it cannot be


def _make_lock(folder: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=_NEW, dir=folder))
    try:
        _write_lock(scratch / LOCK)
        _link(scratch / LOCK, folder / LOCK)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


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


def _check_complete(folder: Path, env: lmdb.Environment, *, writable: bool) -> None:
    """Raise StoreUnavailableError if pages that the last commit uses lie beyond the end of the file."""
    if not _count_missing_bytes(folder, env):
        return
    # The last pages of a sound file may be free ones that were never written, hence a closer look, which needs a file
    # that does not change meanwhile. Lengthening the file spares the next one to open it that look.
    with env.begin(write=writable):
        missing = _count_missing_bytes(folder, env)
        if missing and _has_faults(folder):
            reason = f"{DATA} is cut short ({missing:,} bytes are missing); restore it from a copy"
            raise StoreUnavailableError(url_of(folder), reason)
        if missing and writable:
            with suppress(OSError):
                os.truncate(folder / DATA, (folder / DATA).stat().st_size + missing)


def _count_missing_bytes(folder: Path, env: lmdb.Environment) -> int:
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


def _is_doubtful(folder: Path) -> bool:
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


def translate_error(error: lmdb.Error | OSError, folder: Path, nbytes: int = 0) -> StoreError | ValueError:
    """Return what to raise instead of an error of LMDB or of the system, after writing `nbytes`."""
    url = url_of(folder)
    code = error.code if isinstance(error, lmdb.Error) else error.errno
    if code in _FULL or (code in _SHORT_WRITE and not _has_room(folder, nbytes)):
        return StoreFullError(url, str(error))
    if code in _READ_ONLY:
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
            _lock_byte(self._handle, number)

    def is_held(self, number: int) -> bool | None:
        """Whether the process of this number lives; None: it cannot be told."""
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            _lock_byte(handle, number)
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


def _lock_byte(handle: int, number: int) -> None:
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


# -- let many threads use an LMDB environment, or one thread change it alone
#
# Resizing or reopening the memory map pulls the memory from under every open transaction, so these wait until no
# thread is inside and keep new ones out meanwhile. A thread that is inside may enter again, or a read made while
# visiting a view could wait for itself.
#
# Each thread has a lock of its own, and whoever wants to be alone takes all of them. So nothing is counted: an interrupt
# between two lines of Python would leave a count wrong for good, while `with` and a lock made in C leave nothing behind.


class _Lock(Protocol):
    """What `threading.RLock` makes."""

    def __enter__(self) -> bool: ...
    def __exit__(self, *exc: object) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def _is_owned(self) -> bool: ...


class Gate:
    """`with gate.way:` to be inside; `seize` to be alone."""

    def __init__(self) -> None:
        self._guard = _lock()  # held by whoever waits to be alone, or is
        self._is_wanted = False
        self._ways: WeakSet[_Lock] = WeakSet()  # of all threads that were ever inside and that live
        self._acquired: list[_Lock] = []
        self._mine = threading.local()

    @property
    def way(self) -> _Lock:
        """This thread's lock. Getting it waits as long as somebody else is alone."""
        way: _Lock | None = getattr(self._mine, "way", None)
        if way is None:
            way = _lock()
            with self._guard:
                self._ways.add(way)
            self._mine.way = way
        elif self._is_wanted and not _is_held(way):
            with self._guard:  # threads that come and go without a pause would keep others waiting
                pass
        return way

    def seize(self, timeout_s: float) -> bool:
        """Wait until nobody is inside and keep everybody out until `release`. Return whether it worked in time.

        It cannot work for a thread that is inside itself, which gets False at once.
        """
        way: _Lock | None = getattr(self._mine, "way", None)
        if _is_held(self._guard) or (way is not None and _is_held(way)):
            return False
        end = time.monotonic() + timeout_s
        is_alone = False
        try:
            if not self._guard.acquire(timeout=timeout_s):
                return False
            self._is_wanted = True
            for one in tuple(self._ways):
                self._acquired.append(one)  # first, so that it is given back wherever an interrupt comes
                if not one.acquire(timeout=max(0.0, end - time.monotonic())):
                    return False
            is_alone = True
        finally:
            if not is_alone:
                self.release()
        return True

    def release(self) -> None:
        """End what `seize` began, whatever interrupts come meanwhile. Again: nothing happens."""
        late: KeyboardInterrupt | None = None
        while True:
            try:
                self._give_back()
                break
            except KeyboardInterrupt as arrived:
                late = arrived
        if late is not None:
            raise late

    def _give_back(self) -> None:
        if not _is_held(self._guard):
            return
        while self._acquired:
            if _is_held(self._acquired[-1]):
                self._acquired[-1].release()
            else:
                self._acquired.pop()
        self._is_wanted = False
        self._guard.release()


def _lock() -> _Lock:
    return cast("_Lock", threading.RLock())


def _is_held(lock: _Lock) -> bool:
    return lock._is_owned()  # pyright: ignore[reportPrivateUsage]  # what `threading.Condition` asks a lock, too


logger = logging.getLogger(__name__)

R = TypeVar("R")
_LEAST_MAP = 1 << 30
_MAX_READERS = 1000  # threads and processes that read at one moment
_ATTEMPTS = 64  # each one may grow the map; doubling from a page to 2**64 takes fewer
_WAIT_S = 60.0


# -- the open data file, and what to do when its map is full, outgrown, or broken


class Environment:
    """An open data file. `holders` counts the stores on it; the last one closes it."""

    is_checked = True  # where it may be damaged; not where a process of its own finds out whether that is deadly

    def __init__(self, folder: Path, *, map_size: int, writable: bool, full: bool) -> None:
        self.folder = folder
        self.writable, self.full = writable, full
        self.requested_map_size = map_size
        self.map_size: int = map_size
        self.holders = 0
        self.compactions = 0
        self.is_damaged = False  # in a page that costs only what lies in it
        self.inherited = False  # by a forked child, which must not use it
        self.torn = False  # forked while a thread was inside
        self.gate = Gate()
        self.pinned: int | None = None  # a descriptor on the lock file; closing it would drop LMDB's own lock
        self.found: FileId | None = None
        self.liveness = Liveness(folder)
        self._broken = False
        self.open()
        try:
            if self.is_checked and _is_doubtful(folder):
                self._refuse_deadly()
        except BaseException:
            self.shut()
            raise

    def read(self, work: Callable[[lmdb.Transaction[bytes]], R]) -> R:
        """Return what `work` makes of a read transaction."""

        def attempt() -> R:
            with self.handle.begin() as txn:
                return work(txn)

        return self._persistently(attempt, 0)

    def view(self, work: Callable[[lmdb.Transaction[memoryview]], R]) -> R:
        """The same with views, which are invalid once `work` returns."""

        def attempt() -> R:
            with self.handle.begin(buffers=True) as txn:
                return work(txn)

        return self._persistently(attempt, 0)

    def write(self, work: Callable[[lmdb.Transaction[bytes]], R], nbytes: int = 0) -> R:
        """Return what `work` did in a write transaction. It may run several times; only the last one counts.

        Args:
            nbytes: about how much `work` writes, to tell a full disk from a broken one.
        """

        def attempt() -> R:
            with self.handle.begin(write=True) as txn:
                return work(txn)

        self._require_its_file()
        return self._persistently(attempt, nbytes)

    def _require_its_file(self) -> None:
        if file_id(self.folder) != self.found:
            raise StoreUnavailableError(url_of(self.folder), "its data file was removed or replaced; open it again")

    def _persistently(self, attempt: Callable[[], R], nbytes: int) -> R:
        for _ in range(_ATTEMPTS):
            size = self.map_size
            try:
                with self.gate.way:
                    if not self._broken:
                        return attempt()
                self._reopen_alone()
            except lmdb.MapFullError:
                self._resize(size, size * 2)
            except lmdb.MapResizedError:  # another process grew it
                self._resize(size, 0)
            except lmdb.PanicError:  # an earlier write failed half way; the file is as it was before
                self._reopen_alone()
            except lmdb.ReadersFullError:
                if not self.handle.reader_check():
                    raise StoreUnavailableError(url_of(self.folder), "too many readers have it open") from None
            except lmdb.Error as error:
                raise translate_error(error, self.folder, nbytes) from error
        raise StoreUnavailableError(url_of(self.folder), "its map keeps changing; try again")

    def check(self) -> None:
        """Check the structure of the data file; raises StoreUnavailableError if it is damaged, or is not there."""
        self._require_its_file()
        fault = self._fault()
        if fault:
            raise StoreUnavailableError(url_of(self.folder), f"its data file is damaged: {fault}")

    def _fault(self) -> str:
        return self._persistently(lambda: fault_of(self.folder, self.handle, writable=self.writable), 0)

    def _refuse_deadly(self) -> None:
        """Raise StoreUnavailableError where reading would end the process; what else is damaged costs only itself."""
        fault = self._fault()
        if fault:
            logger.debug("a data file is damaged: %s", fault)
            probe(self.folder, only_deadly=True)
            self.is_damaged = True

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Wait until no thread has a transaction, and let none begin one.

        Raises:
            StoreUnavailableError: one stayed open, or this thread has one, being called while visiting a view.
        """
        if not self.gate.seize(_WAIT_S):
            raise StoreUnavailableError(url_of(self.folder), "a view of its values is still being visited")
        try:
            yield
        finally:
            self.gate.release()

    def _resize(self, seen: int, wanted: int) -> None:
        with self.alone():
            if self.map_size != seen:
                return  # another thread was faster
            try:
                self.handle.set_mapsize(wanted)
            except lmdb.Error as error:
                self.reopen()  # the old map is gone, and a call on it would crash
                raise StoreFullError(url_of(self.folder), f"the map cannot grow ({error})") from error
            self.map_size = self.handle.info()["map_size"]
            logger.debug("a map is now %s bytes", self.map_size)

    def strengthen(self, *, map_size: int, writable: bool, full: bool) -> None:
        """Reopen for a new holder who needs to write, to lose nothing, or a larger map."""
        if writable <= self.writable and full <= self.full and map_size <= self.requested_map_size:
            return
        with self.alone():
            self.writable, self.full = self.writable or writable, self.full or full
            self.requested_map_size = max(self.requested_map_size, map_size)
            self.map_size = max(self.requested_map_size, self.map_size)
            self.reopen()

    def _reopen_alone(self) -> None:
        with self.alone():
            self.reopen()

    def reopen(self) -> None:
        """Close and open. Only while alone."""
        self.shut()
        self.open()

    def shut(self) -> None:
        """Close the file. Only while alone."""
        self._broken = True
        self.handle.close()
        if self.pinned is not None:
            os.close(self.pinned)
            self.pinned = None

    def open(self) -> None:
        """Open the file that lies in the folder now. Only after `shut`, which leaves this object unusable."""
        _prepare_lock(self.folder)
        while True:
            before = file_id(self.folder)
            self.handle, self.writable = _open(self.folder, self.map_size, self.writable, self.full)
            self.found = file_id(self.folder)
            if before == self.found:
                break
            self.handle.close()  # another process compacted it at this moment
        try:
            self.map_size = self.handle.info()["map_size"]
            _check_complete(self.folder, self.handle, writable=self.writable)
            self.handle.reader_check()
            if self.writable:  # what a compaction that died left; while we have the file open, none is under way
                shutil.rmtree(self.folder / COMPACTING, ignore_errors=True)
        except BaseException:
            self.handle.close()
            raise
        self._broken = False


def _open(folder: Path, map_size: int, writable: bool, full: bool) -> tuple[lmdb.Environment, bool]:
    lock = True
    for _ in range(_ATTEMPTS):
        try:
            env = lmdb.open(
                str(folder),
                map_size=map_size,
                readonly=not writable,
                lock=lock,
                create=False,
                metasync=full,  # the data is synced in any case, so that a power loss never corrupts
                writemap=False,  # with it, a full disk kills the process
                max_readers=_MAX_READERS,
                mode=0o600,
                lib_version=ENGINE,
            )
            return env, writable
        except lmdb.MemoryError as error:
            if map_size <= _LEAST_MAP:
                raise StoreUnavailableError(url_of(folder), "there is no address space left to map it") from error
            map_size //= 2
        except lmdb.MapResizedError:  # another process grew it between LMDB's look at the size and its first reading
            map_size *= 2
            logger.debug("a map was outgrown while it was opened; next with %s bytes", map_size)
        except lmdb.Error as error:
            if error.code not in _READ_ONLY or not (writable or lock):
                raise translate_error(error, folder) from error
            writable, lock = False, writable  # first without writing, then also without the lock file
    raise StoreUnavailableError(url_of(folder), "its map keeps changing; try again")


# -- which data files this process has open, and what a forked child does about them
#
# A child may use nothing of its parent's. LMDB, told to close an inherited environment, waits for transactions whose
# threads do not exist in the child; so the parent waits, before it forks, until no thread is inside one.

_FORK_WAIT_S = 10.0

guard = threading.RLock()  # of the registry; taken before any gate
_environments: dict[FileId | None, Environment] = {}
_inherited: list[Environment] = []
_seized: list[Environment] = []


def acquire(folder: Path, *, create: bool, writable: bool, full: bool, map_size: int) -> Environment:
    """Open the store in this folder, or share it if this process has it open already.

    Raises:
        NotAStoreError: there is something else, or nothing and `create` is False.
        StoreUnavailableError: it cannot be opened just now.
    """
    with guard:
        _close_inherited(folder)
        env = _environments.get(prepare(folder, create=create))
        if env is None:
            env = Environment(folder, map_size=map_size, writable=writable, full=full)
            _environments[env.found] = env
        else:
            env.folder = folder  # the newest path, if the folder was renamed
            env.strengthen(map_size=map_size, writable=writable, full=full)
        env.holders += 1
        return env


def release(env: Environment) -> None:
    """Give back what `acquire` gave; the last holder closes it."""
    with guard:
        if env.holders == 1 and not env.inherited:
            with env.alone():
                _environments.pop(env.found, None)
                env.shut()
                env.liveness.close()
                if env.writable:
                    note_close(env.folder)
        env.holders -= 1


def _note_closes() -> None:
    """Note what the data files are that this process leaves open as it ends."""
    with guard:
        for env in _environments.values():
            if env.writable:
                note_close(env.folder)


atexit.register(_note_closes)


def renew(env: Environment) -> None:
    """Open an environment again that was shut, perhaps with another data file. With `guard` held."""
    old = env.found
    env.open()
    _environments.pop(old, None)
    _environments[env.found] = env


def _close_inherited(folder: Path) -> None:
    found = file_id(folder)
    for env in tuple(_inherited):
        if not env.torn:
            env.shut()
            _inherited.remove(env)
        elif env.found == found:
            reason = "this process was forked in the middle of a transaction; start it with the spawn method"
            raise StoreUnavailableError(url_of(folder), reason)


def _before_fork() -> None:
    guard.acquire()
    for env in _environments.values():
        env.torn = not env.gate.seize(_FORK_WAIT_S)
        if not env.torn:
            _seized.append(env)


def _after_in_parent() -> None:
    while _seized:
        _seized.pop().gate.release()
    guard.release()


def _after_in_child() -> None:
    for env in _environments.values():
        env.inherited = True
    _inherited.extend(_environments.values())
    _environments.clear()
    _seized.clear()  # nobody uses an inherited gate again
    guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)


Item = tuple[bytes, Sequence[Buffer] | Buffer]

_MAP_BYTES = 1 << 40  # reserved address space; nothing is taken from the disk or from memory
_BATCH_BYTES = 8 << 20
_ITEM_BYTES = 1024  # a small value dirties a page of its own in the worst case, so it counts for more than it holds
_SWAP_BYTES = 16 << 20
_SMALL_BYTES = 64 << 10  # to join in fresh memory
_DELETE_BATCH = 10_000
_SETTLE_KEYS = 64
_SCRATCH_KEY = b"\x00settle"


class LmdbStore:
    """Bytes by key in a folder.

    Args:
        durability: after a power loss, "default" may have lost the last commit, "full" nothing; "full" syncs twice.
            Where two stores of one process share a folder, the stronger wish holds for both.
        map_size: bytes of address space to start with; it grows by itself.

    Raises:
        NotAStoreError: there is something else, or nothing and `create` is False.
        StoreUnavailableError: it cannot be opened just now.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        readonly: bool = False,
        durability: Durability = "default",
        map_size: int = _MAP_BYTES,
    ) -> None:
        if durability not in ("default", "full"):
            raise ValueError(f"durability is 'default' or 'full', not {durability!r}")
        self.path = Path(os.path.realpath(path))
        self._readonly = readonly
        self._closed = False
        self._is_forked = False
        self._requested = (durability == "full", map_size)
        self._env = self._acquire(create=create and not readonly)

    def __repr__(self) -> str:
        return f"LmdbStore({str(self.path)!r})"

    @property
    def url(self) -> str:
        """`lmdb://` and the folder."""
        return url_of(self.path)

    @property
    def is_readonly(self) -> bool:
        """Whether writing would raise: asked for, or because of the folder's permissions."""
        return self._readonly or not self._environment().writable

    @property
    def is_damaged(self) -> bool:
        """Whether a page was found that cannot be read as the data file was opened; the others can."""
        return self._environment().is_damaged

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the values that are there, as of one moment."""

        def read(txn: lmdb.Transaction[bytes]) -> dict[bytes, bytes]:
            return {key: value for key in keys if (value := txn.get(key)) is not None}

        return self._environment().read(read)

    def view_many(self, keys: Iterable[bytes], visit: Callable[[bytes, memoryview], object]) -> None:
        """Show each value that is there, as of one moment, without copying it.

        Raises:
            BufferError: `visit` kept an object that uses the view. Not all can be told: a kept slice is just invalid.
        """

        def read(txn: lmdb.Transaction[memoryview]) -> None:
            for key in keys:
                view = txn.get(key)
                if view is not None:
                    with view:
                        visit(key, view)

        self._environment().view(read)

    def present(self, keys: Iterable[bytes]) -> set[bytes]:
        """Return those of the keys that are there, without touching the values."""

        def read(txn: lmdb.Transaction[bytes]) -> set[bytes]:
            cursor = txn.cursor()
            return {key for key in keys if cursor.set_key(key)}

        return self._environment().read(read)

    def keys(self, prefix: bytes, after: bytes = b"", limit: int = 1000) -> list[bytes]:
        """Return up to `limit` keys that start with `prefix` and come after `after`, in byte order."""

        def read(txn: lmdb.Transaction[bytes]) -> list[bytes]:
            found: list[bytes] = []
            cursor = txn.cursor()
            more = cursor.set_range(max(prefix, after))
            while more and len(found) < limit and (key := cursor.key()).startswith(prefix):
                if key > after:
                    found.append(key)
                more = cursor.next()
            return found

        return self._environment().read(read)

    def items(self, prefix: bytes, after: bytes = b"", limit: int | None = None) -> list[tuple[bytes, bytes]]:
        """Return up to `limit` keys that start with `prefix` and come after `after`, with their values, as of one moment."""

        def read(txn: lmdb.Transaction[bytes]) -> list[tuple[bytes, bytes]]:
            cursor = txn.cursor()
            if not cursor.set_range(max(prefix, after + b"\0")):  # no key comes between a key and it with NUL behind it
                return []
            below = itertools.takewhile(lambda item: item[0].startswith(prefix), cursor)
            return list(itertools.islice(below, limit))

        return self._environment().read(read)

    def put_many(self, items: Mapping[bytes, Sequence[Buffer] | Buffer]) -> None:
        """Store what is absent, in transactions of about 8 MB."""
        env = self._writable_environment()
        for batch, nbytes in _batches(items.items()):
            _put(env, batch, nbytes)

    def delete_many(self, keys: Iterable[bytes]) -> None:
        """Delete the keys that are there, in transactions of 10,000."""
        env = self._writable_environment()
        deleted = sum(env.write(_deletion(batch)) for batch in _chunk(keys, _DELETE_BATCH))
        if deleted >= _SETTLE_KEYS:
            with suppress(StoreFullError):  # what was asked for is done
                env.write(_settle)

    def swap(
        self,
        expected: Mapping[bytes, bytes | None],
        new: Mapping[bytes, bytes | None],
        items: Mapping[bytes, Sequence[Buffer] | Buffer] = NO_ITEMS,
    ) -> bool:
        """Move all keys to `new`, and put `items`, in one transaction. Items over 16 MB in all are put before it."""
        env = self._writable_environment()
        sizes = list(map(_size_of, items.values()))
        nbytes = sum(sizes)
        if nbytes > _SWAP_BYTES:
            if self.get_many(expected) != {key: value for key, value in expected.items() if value is not None}:
                return False
            self.put_many(items)
            items, sizes, nbytes = NO_ITEMS, [], 0

        def move(txn: lmdb.Transaction[bytes]) -> bool:
            if any(txn.get(key) != value for key, value in expected.items()):
                return False
            join = _Joiner()
            for (key, value), size in zip(items.items(), sizes, strict=True):
                txn.put(key, join(value, size), overwrite=False)
            for key, moved in new.items():
                if moved is None:
                    txn.delete(key)
                else:
                    txn.put(key, moved)
            return True

        return env.write(move, nbytes)

    def size(self) -> StoreSize:
        """Return the size of the data file, and what of it is in use."""
        stat = self._environment().read(lambda txn: txn.stat())
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        try:
            on_disk = (self.path / DATA).stat().st_size
        except OSError as error:
            raise StoreUnavailableError(self.url, "its folder is gone") from error
        return StoreSize(on_disk, pages * stat["psize"], stat["entries"])

    def data_version(self) -> int:
        """Return a number that differs after every commit of any process. Reads no page; compare for equality."""
        env = self._environment()
        return (env.compactions << 48) + env.read(lambda txn: txn.id())

    def compact(self) -> int:
        """Give free space back to the disk, and return the bytes given back.

        Raises:
            StoreUnavailableError: another process has the store open.
            StoreFullError: there is no room for the copy. Nothing was changed.
        """
        return compact(self._writable_environment())

    def check(self) -> None:
        """Check the structure of the data file, page by page; raises StoreUnavailableError if it is damaged."""
        self._environment().check()

    @property
    def is_on_this_machine(self) -> bool:
        """Whether no other machine can use the store, because it lies on a disk of this one."""
        return self._environment().liveness.is_on_this_machine

    def hold(self, number: int) -> None:
        """Be seen as alive under this number of 62 bits, by processes of other containers too, for as long as it has the store open."""
        self._environment().liveness.hold(number)

    def is_held(self, number: int) -> bool | None:
        """Whether some process is alive under this number; None: it cannot be told."""
        return self._environment().liveness.is_held(number)

    def reopen_after_fork(self) -> None:
        """In a forked child: open the file anew, also to write. Its caller sees to it that the child moves no ref."""
        self._environment()
        self._is_forked = False

    def close(self) -> None:
        """Let go of the file; the last store of this process on it closes it."""
        if not self._closed:
            release(self._env)
            self._closed = True

    def _acquire(self, *, create: bool) -> Environment:
        full, map_size = self._requested
        return acquire(self.path, create=create, writable=not self._readonly, full=full, map_size=map_size)

    def _environment(self) -> Environment:
        if self._closed:
            raise StoreUnavailableError(self.url, "it was closed")
        if self._env.inherited:
            self._is_forked = True
            self._env = self._acquire(create=False)
        return self._env

    def _writable_environment(self) -> Environment:
        env = self._environment()
        if self._is_forked:
            # The same session in two processes would commit the same cell twice.
            reason = "this process is a fork of the one that opened it, and may only read; open it again to write"
            raise StoreUnavailableError(self.url, reason)
        if self._readonly:
            raise StoreReadOnlyError(self.url, "it was opened read-only")
        if not env.writable:
            raise StoreReadOnlyError(self.url, why_read_only(self.path))
        return env


def _batches(items: Iterable[Item]) -> Iterator[tuple[list[Item], int]]:
    batch: list[Item] = []
    nbytes = 0
    for key, value in items:
        batch.append((key, value))
        nbytes += _ITEM_BYTES + _size_of(value)
        if nbytes >= _BATCH_BYTES:
            yield batch, nbytes
            batch, nbytes = [], 0
    if batch:
        yield batch, nbytes


def _put(env: Environment, batch: list[Item], nbytes: int) -> None:
    def put(txn: lmdb.Transaction[bytes]) -> None:
        join = _Joiner()
        for key, value in batch:
            txn.put(key, join(value, _size_of(value)), overwrite=False)

    env.write(put, nbytes)


def _chunk(keys: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    remaining = iter(keys)
    while chunk := list(islice(remaining, size)):
        yield chunk


def _deletion(keys: list[bytes]) -> Callable[[lmdb.Transaction[bytes]], int]:
    return lambda txn: sum(txn.delete(key) for key in keys)


def _settle(txn: lmdb.Transaction[bytes]) -> None:
    # Pages that one transaction frees can be reused from the next but one on, and LMDB skips a commit of nothing.
    txn.put(_SCRATCH_KEY, b"")
    txn.delete(_SCRATCH_KEY)


class _Joiner:
    """Join pieces, large ones in one buffer that is used again: fresh memory costs more than the copy into it."""

    def __init__(self) -> None:
        self._scratch = memoryview(bytearray())

    def __call__(self, value: Sequence[Buffer] | Buffer, nbytes: int) -> Buffer:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return cast("Buffer", value)
        if nbytes <= _SMALL_BYTES:
            return b"".join(value)
        if nbytes > len(self._scratch):
            self._scratch = memoryview(bytearray(nbytes))
        end = 0
        for piece in value:
            start, end = end, end + _size_of(piece)
            if end > start:
                self._scratch[start:end] = memoryview(piece).cast("B")
        return self._scratch[:nbytes]


# -- give the space that deleted values left in a data file back to the disk
#
# LMDB reuses free pages but never shrinks its file, so the file is copied without them and the copy renamed over it.
# A process that kept the old file open would go on writing to a file without a name: compaction therefore needs to be
# the only process, which it makes sure of with the very lock by which LMDB counts its users.


def compact(env: Environment) -> int:
    """Rewrite the data file without its free pages, and return the bytes given back.

    Every store of this process on the file goes on with the new one.

    Raises:
        StoreUnavailableError: another process has the store open.
        StoreFullError: there is no room for the copy. Nothing was changed.
    """
    before = (env.folder / DATA).stat().st_size
    with guard, env.alone():
        env.shut()
        try:
            env.pinned = _lock_others_out(env)
            _replace(env)
        except (lmdb.Error, OSError) as error:
            raise translate_error(error, env.folder, before) from error
        finally:
            shutil.rmtree(env.folder / COMPACTING, ignore_errors=True)
            renew(env)
        env.compactions += 1
    return before - (env.folder / DATA).stat().st_size


def _lock_others_out(env: Environment) -> int:
    # The first byte of the lock file: LMDB locks it shared while open. Our descriptor stays open beside the new
    # environment, because closing any descriptor of a file drops all locks that the process has on it.
    handle = os.open(env.folder / LOCK, os.O_RDWR)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    except OSError as error:
        os.close(handle)
        reason = "another process has it open; close it there, then compact again"
        raise StoreUnavailableError(url_of(env.folder), reason) from error
    return handle


def _replace(env: Environment) -> None:
    compacted = env.folder / COMPACTING
    shutil.rmtree(compacted, ignore_errors=True)
    compacted.mkdir(mode=0o700)
    source = lmdb.open(
        str(env.folder), map_size=env.map_size, readonly=True, lock=False, create=False, lib_version=ENGINE
    )
    try:
        source.copy(str(compacted), compact=True)
    finally:
        source.close()
    sync_path(compacted / DATA)
    shutil.copymode(env.folder / DATA, compacted / DATA)
    (compacted / DATA).replace(env.folder / DATA)
    sync_path(env.folder)


def _size_of(value: Sequence[Buffer] | Buffer) -> int:
    """Return how many bytes are stored for `value`."""
    if isinstance(value, (bytes, bytearray)):
        return len(value)
    if isinstance(value, memoryview):
        return value.nbytes
    return sum(map(_size_of, value))


# -- read a data file that came from elsewhere in a process of its own: a damaged one can kill its reader
#
# LMDB maps the file and believes its page numbers, so a bad one ends the process with a bus error and no exception. The
# process that looks first is a small one, and says by living that the file can be read from end to end.

LOOK_S = 300.0


def probe(folder: Path, *, only_deadly: bool = False) -> None:
    """Read all of a store in another process.

    Raises:
        StoreUnavailableError: that process died of it, or (unless `only_deadly`) could not read everything.
    """
    command = [sys.executable, "-m", "agent_kernel.storage.lmdb", str(folder)]
    try:
        looked = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise StoreUnavailableError(str(folder), f"reading it through took over {LOOK_S:.0f} s") from error
    if looked.returncode < 0:
        raise StoreUnavailableError(str(folder), "its data file is damaged: reading it killed the process that tried")
    if looked.returncode and not only_deadly:
        last = (looked.stderr.strip().splitlines() or ["it cannot be read"])[-1]
        raise StoreUnavailableError(str(folder), last)


def read_through(folder: Path) -> None:
    """Touch every key and value. What cannot be read raises once the rest was read."""
    Environment.is_checked = False
    store = LmdbStore(folder, create=False, readonly=True)
    failed: StoreError | None = None
    for first in range(256):
        after = prefix = bytes([first])
        try:
            while keys := store.keys(prefix, after):
                store.view_many(keys, lambda _, view: sum(view[::4096]))
                after = keys[-1]
        except StoreError as error:
            failed = error
    store.close()
    if failed is not None:
        raise failed


if __name__ == "__main__":
    try:
        read_through(Path(sys.argv[1]))
    except StoreError as error:
        sys.exit(str(vars(error).get("reason", error)))
