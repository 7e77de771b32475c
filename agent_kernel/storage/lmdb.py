"""The default store: an embedded LMDB file that several threads and processes may use at once.

Values go in by transactions of about 8 MB: a transaction keeps every page it writes in memory until it commits. A swap
is one transaction, and the only thing that has to be one. Which files are open here is known, and a doubtful one is first read
by another process.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import cast

import lmdb

from agent_kernel.errors import StoreError, StoreFullError, StoreReadOnlyError, StoreUnavailableError
from agent_kernel.storage import _environment
from agent_kernel.storage._environment import (
    COMPACTING,
    DATA,
    ENGINE,
    LOCK,
    Environment,
    FileId,
    file_id,
    note_close,
    prepare,
    sync_path,
    translate_error,
    url_of,
    why_read_only,
)
from agent_kernel.storage.protocol import NO_ITEMS, Buffer, Durability, StoreSize

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
    _environment.checks = False
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
