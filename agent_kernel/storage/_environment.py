"""An LMDB environment: the folder that it lies in, and the one open data file with its map, which can be full, outgrown or broken.

LMDB reads through a memory map, where a missing page is a SIGBUS that kills the process, not an error. So a folder
that holds something else, and a file that is cut short, are found out before LMDB maps them. All stores of one file in
this process share one environment, because LMDB's file locks belong to the process: a second environment on the file
would drop the first one's. Who shares is kept in `lmdb`.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar, cast
from weakref import WeakSet

import lmdb

from agent_kernel.errors import NotAStoreError, StoreError, StoreFullError, StoreReadOnlyError, StoreUnavailableError

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


checks = True  # whether a data file is checked that may be damaged; not where somebody looks whether that is deadly


# -- the open data file, and what to do when its map is full, outgrown, or broken


class Environment:
    """An open data file. `holders` counts the stores on it; the last one closes it."""

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
            if checks and _is_doubtful(folder):
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
            from agent_kernel.storage.lmdb import probe

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
