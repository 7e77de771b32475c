"""One open LMDB data file, and what to do when its map is full, outgrown, or broken.

All stores of one file in this process share one environment, because LMDB's file locks belong to the process: a second
environment on the file would drop the first one's. Who shares is kept in `lmdb`.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar, cast
from weakref import WeakSet

import lmdb

from agent_kernel.errors import StoreFullError, StoreUnavailableError
from agent_kernel.storage._folder import (
    COMPACTING,
    ENGINE,
    READ_ONLY,
    FileId,
    Liveness,
    check_complete,
    fault_of,
    file_id,
    is_doubtful,
    prepare_lock,
    translated,
    url_of,
)

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
        self._taken: list[_Lock] = []
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
                self._taken.append(one)  # first, so that it is given back wherever an interrupt comes
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
        while self._taken:
            if _is_held(self._taken[-1]):
                self._taken[-1].release()
            else:
                self._taken.pop()
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


class Environment:
    """An open data file. `holders` counts the stores on it; the last one closes it."""

    def __init__(self, folder: Path, *, map_size: int, writable: bool, full: bool) -> None:
        self.folder = folder
        self.writable, self.full = writable, full
        self.asked_map = map_size
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
            if checks and is_doubtful(folder):
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
                raise translated(error, self.folder, nbytes) from error
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
            from agent_kernel.storage.urls import probe

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
        if writable <= self.writable and full <= self.full and map_size <= self.asked_map:
            return
        with self.alone():
            self.writable, self.full = self.writable or writable, self.full or full
            self.asked_map = max(self.asked_map, map_size)
            self.map_size = max(self.asked_map, self.map_size)
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
        prepare_lock(self.folder)
        while True:
            before = file_id(self.folder)
            self.handle, self.writable = _opened(self.folder, self.map_size, self.writable, self.full)
            self.found = file_id(self.folder)
            if before == self.found:
                break
            self.handle.close()  # another process compacted it at this moment
        try:
            self.map_size = self.handle.info()["map_size"]
            check_complete(self.folder, self.handle, writable=self.writable)
            self.handle.reader_check()
            if self.writable:  # what a compaction that died left; while we have the file open, none is under way
                shutil.rmtree(self.folder / COMPACTING, ignore_errors=True)
        except BaseException:
            self.handle.close()
            raise
        self._broken = False


def _opened(folder: Path, map_size: int, writable: bool, full: bool) -> tuple[lmdb.Environment, bool]:
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
            if error.code not in READ_ONLY or not (writable or lock):
                raise translated(error, folder) from error
            writable, lock = False, writable  # first without writing, then also without the lock file
    raise StoreUnavailableError(url_of(folder), "its map keeps changing; try again")
