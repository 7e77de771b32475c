"""Where records lie, and how they change.

There are two places. Records of the plane `branch` are a tree of their own in each commit: a checkout, a rollback and a merge
take them along with the variables. Records of the plane `store` lie beside all branches, a key for each, and no checkout
touches them: a task that is done stays done. Both change in the same way: a function reads rows from an `Edit` and sets others,
and where somebody else was faster it is called again. So a verb is written as if it were alone. It runs without a lock: what it
read is compared with what is there when it has ended, under the lock, and only then is anything stored. So it may wait for others,
and may take as long as it likes.

While a session of this process is on a branch, changes of records go into its next commit: variables and records are one
state. Until then they lie beside the branch, as durable as a commit; those that a cell makes wait for its commit. Without a session each
change is a commit of its own, or lies beside the branch too.
"""

from __future__ import annotations

import atexit
import functools
import heapq
import itertools
import logging
import os
import random
import sys
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

import msgspec
import zstandard

from agent_kernel.errors import (
    AgentKernelError,
    BranchInUseError,
    BranchMovedError,
    DamagedObjectError,
    RefNotFoundError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from agent_kernel.quiet import Repeated
from agent_kernel.records.sessions import SESSIONS, LiveBranch
from agent_kernel.records.trees import (
    LIST,
    LIST_PART,
    RecordTree,
    Row,
    Version,
    decode_row,
    entries_of,
    history_from,
    is_counter,
    read_entry,
    tree_of,
)
from agent_kernel.repository import Author, Commit, Head, ObjectId, person
from agent_kernel.repository.commits import (
    Tree,
    encode,
)
from agent_kernel.repository.refs import (
    BESIDE,
    Beside,
    Move,
    Ref,
    beside_key,
    branch_key,
    decode_record,
    refuse_leased,
    waiting_prefix,
)
from agent_kernel.storage import SupportsItems

if TYPE_CHECKING:
    from agent_kernel.repository import Holder, Repository, Writer

T = TypeVar("T")
_LINES: Final[weakref.WeakSet[Line]] = weakref.WeakSet()
logger = logging.getLogger(__name__)

ROWS: Final = b"n/r/"  # of the store's plane: the present row of a record
PAST: Final = b"n/h/"  # a row that was replaced or deleted, by its version
INDEX: Final = b"n/i/"  # what a collection finds records by
CHANGED: Final = b"n/c/"  # the present records by when they changed: collection NUL time id
DELETED: Final = b"n/d/"  # the same of those that were deleted not long ago
_CHANCE: Final = random.SystemRandom()  # the program's random numbers stay as they are
_ATTEMPTS: Final = 1_000
_PATIENCE_S: Final = 0.004
_AGAIN_S: Final = 1.0  # until updates that could not be stored are tried again
_TURN_S: Final = 0.02  # a change takes less, unless its function does something else beside
_MOST_BESIDE: Final = 512 << 10  # bytes of changes beside a branch: more go into a commit
_PAGE: Final = 1_000
_BACK_NS: Final = 3 * 10**9  # a change may become visible so much later than its time says
WHOLE_S: Final = 60.0  # what became visible later still (another machine's clock is behind) is found by reading all
_DELETED_NS: Final = 3_600 * 10**9
_FEW: Final = 8


def _attempts() -> Iterator[None]:
    """To change what others change too: a second one at once, and each later one after a pause of some length."""
    for attempt in range(_ATTEMPTS):
        if attempt > 1:
            time.sleep(_CHANCE.random() * _PATIENCE_S)
        yield


class Edit:
    """One attempt to change rows. It sees its own changes."""

    def __init__(self, read: Callable[[Sequence[str]], Mapping[str, bytes]]) -> None:
        self._read = read
        self.seen: dict[str, bytes | None] = {}
        self.listed: dict[str, set[str]] = {}  # the keys that were there, by what they begin with
        self.new: dict[str, Row | None] = {}
        self.index: dict[bytes, bytes | None] = {}
        self.may_lie_beside = False  # instead of in a commit of its own

    def fetch(self, keys: Sequence[str]) -> None:
        """Read several rows at once; `get` then has them."""
        missing = [key for key in keys if key not in self.seen]
        found: Mapping[str, bytes] = self._read(missing) if missing else {}
        self.seen.update((key, found.get(key)) for key in missing)

    def get(self, key: str) -> Row | None:
        if key in self.new:
            return self.new[key]
        raw = self.raw(key)
        return None if raw is None else decode_row(raw)

    def raw(self, key: str) -> bytes | None:
        """The same, encoded."""
        if key in self.new:
            row = self.new[key]
            return None if row is None else encode(row)
        self.fetch([key])
        return self.seen[key]

    def set(self, key: str, row: Row | None) -> None:
        self.new[key] = row


# -- the largest version that a deleted record of a collection had: what is put next begins above it, and no old `expect` fits
#
# One row for a collection, under a key that no record has. A row for each id would be exact, and would grow for ever.


def deleted_key(collection: str) -> str:
    """Where that version is kept: `is_counter` tells it from the key of a record."""
    return f"\0{collection}"


def last_deleted_version(edit: Edit, collection: str) -> int:
    row = edit.get(deleted_key(collection))
    return 0 if row is None else row.version


def note_deleted_version(edit: Edit, collection: str, row: Row) -> None:
    """A record is deleted, which had this row."""
    if row.version >= last_deleted_version(edit, collection):
        key = deleted_key(collection)
        edit.set(key, Row(version=row.version + 1, time_ns=row.time_ns, keeps_past=False))


class Look(msgspec.Struct, frozen=True):
    """Where a look at the records of a line stood, to go on from."""

    line: object  # what the rest belongs to
    over: dict[str, Row | None]  # what was not stored yet
    tree: Tree | None = None
    last_ns: int = 0  # of the store's plane: the newest change, and the entries for it and for those shortly before
    seen: frozenset[bytes] = frozenset()
    whole_s: float = 0.0  # when all was read


_Waiting: TypeAlias = tuple[
    dict[str, Row | None], dict[bytes, bytes | None], dict[str, bytes | None], list[Callable[[Edit], object]]
]


class _OutdatedError(Exception):
    """What an attempt read was changed by others meanwhile."""


class Packer(Protocol):
    """Who stores many small records of which one commit makes few."""

    def pack(self) -> None: ...


class Line(ABC):
    """Rows by key, `collection NUL id`. Safe to use from several threads."""

    is_readonly: bool = False
    moves: int = 0  # how often HEAD of the session went elsewhere, other than by a commit

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self._lock = threading.RLock()
        self._turn = threading.RLock()
        self._waiting: dict[str, Row | None] = {}
        self._waiting_index: dict[bytes, bytes | None] = {}
        self._bases: dict[str, bytes | None] = {}  # what was stored of the rows that wait, as they began to
        self._builds: list[Callable[[Edit], object]] = []  # what made them
        self._unstored: int = 0  # changes of what no store has yet: counted after each
        self._due: Repeated | None = None
        if not self.is_readonly:  # of these there are many, and nothing waits in them
            _LINES.add(self)

    def read(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The rows that are there, encoded."""
        with self._lock:
            found = self._stored(keys)
            for key in self._waiting.keys() & set(keys):
                row = self._waiting[key]
                found.pop(key, None)
                if row is not None:
                    found[key] = encode(row)
            return found

    def scan(self, prefix: str, *, at_once: bool = False) -> Iterator[tuple[str, bytes]]:
        """Keys and rows, in order of the keys.

        Args:
            at_once: all as of one moment. Otherwise what comes after many is read when it is asked for, and may be newer.
        """
        with self._lock:
            waiting = {key: row for key, row in self._waiting.items() if key.startswith(prefix)}
            stored = self._scan(prefix, at_once=at_once or bool(waiting))
        if not waiting:
            yield from stored
            return
        found = dict(stored)
        for key, row in waiting.items():
            found.pop(key, None)
            if row is not None:
                found[key] = encode(row)
        yield from sorted(found.items())

    def require_writable(self) -> None:
        """Raise StoreReadOnlyError for records of a commit."""
        if self.is_readonly:
            reason = "these records are those of a commit, and a commit does not change"
            raise StoreReadOnlyError(self.repo.store.url, reason)

    def keys(self, prefix: str) -> set[str]:
        """The keys of the records that are there."""
        with self._lock:
            found = set(self._keys(prefix))
            waiting = self._waiting
            found |= {key for key, row in waiting.items() if row is not None and key.startswith(prefix)}
            return found - {key for key, row in waiting.items() if row is None}

    def bytes_beside(self) -> int:
        """How many bytes lie beside the commits of the branch."""
        return 0

    def keys_beside(self, prefix: str) -> set[str]:
        """The keys of the records there."""
        del prefix
        return set()

    def pack_with(self, packer: Packer) -> None:
        """Let it pack what is pending before each commit of the session, as long as somebody has it."""
        del packer

    @contextmanager
    def _alone(self) -> Generator[None]:
        """While nobody else stores."""
        with self._lock:
            yield

    def change(
        self, build: Callable[[Edit], T], message: str = "", wait_s: float = 0.0, *, may_lie_beside: bool = False
    ) -> T:
        """Make the changes that `build` sets, all or none; it is called again where somebody else was faster.

        Args:
            wait_s: seconds that the changes may wait for others, to be stored with them. Readers of this process see them at once.
            may_lie_beside: whether they may be stored beside the commits of a branch, until its next commit takes them in. All
                readers see them at once.
        """
        for _ in _attempts():
            with self._in_turn():
                edit = Edit(self.read)
                edit.may_lie_beside = may_lie_beside
                try:
                    result = build(edit)
                except Exception:
                    if self.is_outdated(edit):  # it saw what never was there together: that says nothing
                        continue
                    raise
                try:
                    self._take(edit, build, message, wait_s)
                except _OutdatedError:
                    continue
                return result
        raise StoreUnavailableError(self.repo.store.url, f"others kept changing it during {_ATTEMPTS:,} attempts")

    @contextmanager
    def _in_turn(self) -> Generator[None]:
        """Threads take turns, so that they need not do again what another one undid. Nobody waits long for one that takes its time."""
        has_turn = self._turn.acquire(timeout=_TURN_S)
        try:
            yield
        finally:
            if has_turn:
                self._turn.release()

    def _take(self, edit: Edit, build: Callable[[Edit], object], message: str, wait_s: float) -> None:
        """Store what an attempt changed, or let it wait. Raises: _OutdatedError: nothing was stored."""
        if not edit.new:
            return
        with self._alone():
            if wait_s > 0:
                self._require_current(edit, self._with_all_that_waits())
                self._bases = {key: edit.seen.get(key) for key in edit.new} | self._bases
                self._waiting.update(edit.new)
                self._waiting_index.update(edit.index)
                self._builds.append(build)
                self._unstored += 1
                self._store_soon(wait_s)
            else:
                self._change(
                    lambda now: self._with_waiting(now, lambda now: self._adopt(edit, now)),
                    message,
                    self._clear_waiting,
                )

    def _adopt(self, edit: Edit, now: Edit) -> None:
        self._require_current(edit, now)
        now.new.update(edit.new)
        now.index.update(edit.index)
        now.may_lie_beside = edit.may_lie_beside

    def _require_current(self, edit: Edit, now: Edit) -> None:
        now.fetch(list(edit.seen))
        if any(now.raw(key) != raw for key, raw in edit.seen.items()):
            raise _OutdatedError
        for prefix, keys in edit.listed.items():
            new = {key for key, row in now.new.items() if row is not None and key.startswith(prefix)}
            deleted = {key for key, row in now.new.items() if row is None}
            if {*self._keys(prefix), *new} - deleted != keys:
                raise _OutdatedError

    def is_outdated(self, edit: Edit) -> bool:
        """Whether others changed what an attempt read."""
        with self._lock:
            try:
                self._require_current(edit, self._with_all_that_waits())
            except _OutdatedError:
                return True
        return False

    def _with_all_that_waits(self) -> Edit:
        now = Edit(self._stored)
        now.new.update(self._waiting)
        return now

    def flush(self) -> None:
        """Store what waits."""
        with self._alone():
            if self._waiting:
                self._change(lambda edit: self._with_waiting(edit, lambda _: None), "", self._clear_waiting)

    def _with_waiting(self, edit: Edit, build: Callable[[Edit], T]) -> T:
        edit.fetch(list(self._bases))
        if all(edit.seen[key] == raw for key, raw in self._bases.items()):
            edit.new.update(self._waiting)
            edit.index.update(self._waiting_index)
        else:  # somebody else changed some of them, who must not be overwritten: change what is there now
            for again in self._builds:
                self._rebuild(edit, again)
        return build(edit)

    def _rebuild(self, edit: Edit, build: Callable[[Edit], object]) -> None:
        before = dict(edit.new), dict(edit.index)
        try:
            build(edit)
        except Exception as error:  # noqa: BLE001 - of the update's own function: the others do not suffer for it
            edit.new, edit.index = before
            logger.warning("an update that waited no longer fits, and is left out: %s", type(error).__name__)

    def _clear_waiting(self) -> None:
        for waiting in (self._waiting, self._waiting_index, self._bases, self._builds):
            waiting.clear()
        self._unstored += 1
        if self._due is not None:
            self._due.close()
            self._due = None

    def in_fork(self) -> None:
        """In a forked child: the threads that had a lock are not here, and what waits is stored by the process that it waits in."""
        self._lock, self._turn, self._due = threading.RLock(), threading.RLock(), None
        if not self.repo.store.url.startswith("memory:"):  # of that, the child has one of its own
            self._clear_waiting()

    def _all_that_waits(self) -> _Waiting:
        return dict(self._waiting), dict(self._waiting_index), dict(self._bases), list(self._builds)

    def _wait_again(self, waiting: _Waiting) -> None:
        self._waiting, self._waiting_index, self._bases, self._builds = waiting
        self._unstored += 1
        if self._waiting:
            self._store_soon(1.0)

    def _store_soon(self, wait_s: float) -> None:
        if self._due is None:
            _UNSTORED.add(self)
            self._due = Repeated("write", self._store_what_is_due, wait_s)

    def _store_what_is_due(self) -> float | None:
        try:
            with self._alone():
                self.flush()
                self._due = None
        except AgentKernelError as error:  # the store may be full, or not there just now
            logger.warning("updates that wait could not be stored yet: %s", error)
            return _AGAIN_S
        return None

    @abstractmethod
    def mark(self) -> object:
        """What differs from before if anything may have changed."""

    @abstractmethod
    def changed(self, since: Look | None, prefix: str) -> tuple[Look, dict[str, bytes | None] | None]:
        """Where the line stands, and the rows that may have changed since (None: it was deleted); in place of these None: any may.

        A row may be newer than the look. Then it comes again with the next one.
        """

    def _over(self, prefix: str) -> dict[str, Row | None]:
        """What is not stored yet."""
        return {key: row for key, row in self._waiting.items() if key.startswith(prefix)}

    def _rows_now(self, keys: set[str]) -> dict[str, bytes | None]:
        found = self.read(sorted(keys))
        return {key: found.get(key) for key in keys}

    @abstractmethod
    def history(self, key: str) -> Iterator[Version]:
        """What a record was, the newest first."""

    @abstractmethod
    def _stored(self, keys: Sequence[str]) -> dict[str, bytes]: ...

    @abstractmethod
    def _keys(self, prefix: str) -> Iterator[str]:
        """The keys, each read when it is asked for."""

    def keys_back(self, prefix: str) -> Iterator[str]:
        """The keys, the last one first, each read when it is asked for. The plane `store` reads all of them."""
        with self._lock:
            over = self._over(prefix)
            stored = (key for key in self._keys_back(prefix) if key not in over)
        present = sorted((key for key, row in over.items() if row is not None), reverse=True)
        return heapq.merge(stored, present, reverse=True)

    def _keys_back(self, prefix: str) -> Iterator[str]:
        return iter(list(self._keys(prefix))[::-1])

    @abstractmethod
    def _scan(self, prefix: str, *, at_once: bool) -> Iterator[tuple[str, bytes]]:
        """The rows, in order of their keys. `at_once`: as of the moment of the call, also where they are asked for later."""

    @abstractmethod
    def _change(self, build: Callable[[Edit], T], message: str, done: Callable[[], None]) -> T: ...


_UNSTORED: Final[weakref.WeakSet[Line]] = weakref.WeakSet()


def _in_fork() -> None:
    for line in list(_LINES):
        line.in_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_fork)


@atexit.register
def flush(repo: Repository | None = None) -> None:
    """Store what waits to be stored, of one repository or of all."""
    for line in list(_UNSTORED):
        if repo is None or line.repo is repo:
            try:
                line.flush()
            except Exception as error:
                if repo is not None:
                    raise
                logger.warning("updates that waited could not be stored: %s", error)  # at the end of the process


# -- beside all branches


class StoreLine(Line):
    """Records that no checkout rewinds: one key for each, changed by compare-and-swap."""

    def mark(self) -> object:
        version: Callable[[], int] | None = getattr(self.repo.store, "data_version", None)
        return object() if version is None else version(), self._unstored

    def changed(self, since: Look | None, prefix: str) -> tuple[Look, dict[str, bytes | None] | None]:
        collection = prefix.partition("\0")[0]
        now, now_ns = time.monotonic(), time.time_ns()
        known = since if since is not None and since.line is self and now - since.whole_s <= WHOLE_S else None
        with self._lock:
            over = self._over(prefix)
            last_ns = now_ns if known is None else min(known.last_ns, now_ns)  # the clock may have been set back
            entries = self._changes(collection, last_ns - _BACK_NS)
        last_ns = min(max((int.from_bytes(one[:8], "big") for one in entries), default=last_ns), now_ns)
        if known is None:
            return Look(self, over, None, last_ns, entries, now), None
        keys = {f"{collection}\0{one[8:].decode()}" for one in entries - known.seen}
        keys = {key for key in keys if key.startswith(prefix)} | _differing(known.over, over)
        return Look(self, over, None, last_ns, entries, known.whole_s), self._rows_now(keys)

    def newest(self, prefix: str, start: str, limit: int) -> list[str]:
        """The ids of the records that changed last."""
        wanted, back_ns = start.encode(), 10**9
        collection, now_ns = prefix.partition("\0")[0], time.time_ns()
        while True:  # an index is read forwards alone: from a while ago on, and from long ago if that is not enough
            after_ns = max(now_ns - back_ns, 0)
            entries = [one for one in self._changes(collection, after_ns) if one.startswith(wanted, 8)]
            if not after_ns or len({one[8:] for one in entries}) >= limit:
                break
            back_ns *= 8
        ids = (
            one[8:].decode() for one in heapq.nlargest(2 * limit, entries)
        )  # one that was deleted and came again is there twice
        return list(dict.fromkeys(ids))[:limit]

    def _changes(self, collection: str, after_ns: int) -> frozenset[bytes]:
        """What changed after a time: its time in 8 bytes, and its id."""
        found: list[bytes] = []
        for index in (CHANGED, DELETED):
            start = index + collection.encode() + b"\0"
            after = start + max(after_ns, 0).to_bytes(8, "big")
            while page := self.repo.store.keys(start, after, _PAGE):
                found += [key[len(start) :] for key in page]
                after = page[-1]
        return frozenset(found)

    def _stored(self, keys: Sequence[str]) -> dict[str, bytes]:
        found = self.repo.store.get_many([ROWS + key.encode() for key in keys])
        return {key[len(ROWS) :].decode(): raw for key, raw in found.items()}

    def _scan(self, prefix: str, *, at_once: bool) -> Iterator[tuple[str, bytes]]:
        start = ROWS + prefix.encode()
        pages = iter([self._items(start, b"", None)]) if at_once else self._pages_of_items(start)
        return ((key[len(ROWS) :].decode(), raw) for page in pages for key, raw in page)

    def _pages_of_items(self, prefix: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        after = b""
        while page := self._items(prefix, after, _PAGE):
            yield page
            after = page[-1][0]

    def _items(self, prefix: bytes, after: bytes, limit: int | None) -> list[tuple[bytes, bytes]]:
        store = self.repo.store
        if isinstance(store, SupportsItems):
            return store.items(prefix, after, limit)
        keys = store.keys(prefix, after, sys.maxsize if limit is None else limit)
        found = store.get_many(keys)
        return [(key, found[key]) for key in keys if key in found]

    def _keys(self, prefix: str) -> Iterator[str]:
        return (key[len(ROWS) :].decode() for page in self._pages(ROWS + prefix.encode()) for key in page)

    def _pages(self, prefix: bytes) -> Iterator[list[bytes]]:
        after = b""
        while page := self.repo.store.keys(prefix, after, _PAGE):
            yield page
            after = page[-1]

    def find(self, prefix: bytes, limit: int, after: bytes = b"") -> list[tuple[bytes, bytes]]:
        """The first entries of an index, of those behind `after`."""
        found = self._items(INDEX + prefix, INDEX + after if after else b"", limit)
        return [(key[len(INDEX) :], value) for key, value in found]

    def fill_index(self, prefix: str, entries_of: Callable[[str, Row], Sequence[bytes]], marker: bytes) -> None:
        """Enter records that were stored before there was the index. `marker`: an entry that says that this was done."""
        if self.repo.store.get_many([INDEX + marker]):
            return
        after, start = b"", ROWS + prefix.encode()
        while page := self._items(start, after, _FEW * _FEW):
            rows = {key[len(start) :].decode(): decode_row(raw) for key, raw in page}
            entries = {INDEX + entry: id.encode() for id, row in rows.items() for entry in entries_of(id, row)}
            if self.repo.store.swap(dict(page), entries):  # else somebody changed one of them: read them again
                after = page[-1][0]
        self.repo.store.swap({INDEX + marker: None}, {INDEX + marker: b""})

    def count(self, prefix: bytes) -> int:
        """How many entries of an index begin so."""
        return sum(map(len, self._pages(INDEX + prefix)))

    def _change(self, build: Callable[[Edit], T], message: str, done: Callable[[], None]) -> T:
        store = self.repo.store
        for _ in _attempts():
            edit = Edit(self._stored)
            result = build(edit)
            if not edit.new:
                return result
            expected = {ROWS + key.encode(): raw for key, raw in edit.seen.items()}
            new: dict[bytes, bytes | None] = {INDEX + key: value for key, value in edit.index.items()}
            now = time.time_ns()
            for key, row in edit.new.items():
                new |= self._moves(key, edit.seen.get(key), row, now)
            if store.swap(expected, new):
                done()
                return result
        raise StoreUnavailableError(store.url, f"others kept changing it during {_ATTEMPTS:,} attempts")

    def _moves(self, key: str, before: bytes | None, row: Row | None, now_ns: int) -> dict[bytes, bytes | None]:
        old = None if before is None else decode_row(before)
        if row is not None and row.time_ns < now_ns:  # what counts is when it is stored
            row = msgspec.structs.replace(row, time_ns=now_ns)
        new: dict[bytes, bytes | None] = {ROWS + key.encode(): None if row is None else encode(row)}
        if old is not None:
            new[_change_key(CHANGED, key, old.time_ns)] = None
        if row is not None:
            new[_change_key(CHANGED, key, row.time_ns)] = b""
        elif old is not None:
            new[_change_key(DELETED, key, max(now_ns, old.time_ns + 1))] = b""
            new |= self._forgotten(key.partition("\0")[0], now_ns)
        if old is not None and old.keeps_past:
            assert before is not None
            new[_past_key(key, old.version)] = before
            if row is None:
                deletion = Row(version=old.version + 1, time_ns=now_ns, schema=0)
                new[_past_key(key, deletion.version)] = encode(deletion)
        return new

    def _forgotten(self, collection: str, now_ns: int) -> dict[bytes, bytes | None]:
        """A few deletions that nobody asks for any more."""
        start = DELETED + collection.encode() + b"\0"
        end = start + (now_ns - _DELETED_NS).to_bytes(8, "big")
        return {key: None for key in self.repo.store.keys(start, b"", _FEW) if key < end}

    def last_version(self, key: str) -> int:
        """The version of a record that was deleted; 0: there never was one."""
        last = b""
        for page in self._pages(PAST + key.encode() + b"\0"):
            last = page[-1]
        return int.from_bytes(last[-8:], "big") if last else 0

    def history(self, key: str) -> Iterator[Version]:
        present = self.read([key]).get(key)
        if present is not None:
            yield _version_of(decode_row(present))
        keys = [one for page in self._pages(PAST + key.encode() + b"\0") for one in page]
        for start in range(len(keys), 0, -_PAGE):
            part = keys[max(start - _PAGE, 0) : start]
            found = self.repo.store.get_many(part)
            yield from (_version_of(decode_row(found[one])) for one in reversed(part) if one in found)

    def keys_ever(self, prefix: str) -> Iterator[str]:
        """The keys of all records that are there or were."""
        yield from (key for key, _ in self.scan(prefix))
        for page in self._pages(PAST + prefix.encode()):
            yield from (key[len(PAST) : -9].decode() for key in page)

    def trim(self, key: str, keeps: int) -> None:
        """Delete all but the newest versions of a record."""
        keys = [one for page in self._pages(PAST + key.encode() + b"\0") for one in page]
        self.repo.store.delete_many(keys[: max(len(keys) - keeps, 0)])


def _past_key(key: str, version: int) -> bytes:
    return PAST + key.encode() + b"\0" + version.to_bytes(8, "big")


def _change_key(index: bytes, key: str, time_ns: int) -> bytes:
    collection, _, id = key.partition("\0")
    return index + collection.encode() + b"\0" + time_ns.to_bytes(8, "big") + id.encode()


def _differing(one: Mapping[str, Row | None], other: Mapping[str, Row | None]) -> set[str]:
    keys = one.keys() | other.keys()
    return {key for key in keys if (key in one) != (key in other) or one.get(key) != other.get(key)}


def _version_of(row: Row) -> Version:
    return Version(None if not row.schema else row, row.time_ns, row.actor)


# -- in the commits of a branch


class PastLine(Line):
    """The records of one commit, to be read."""

    is_readonly = True

    def __init__(self, repo: Repository, commit: ObjectId | None) -> None:
        super().__init__(repo)
        self._commit = commit

    def tree(self) -> RecordTree:
        """The tree of the records."""
        return tree_of(self.repo, self._commit)

    def mark(self) -> object:
        return self.tree()

    def changed(self, since: Look | None, prefix: str) -> tuple[Look, dict[str, bytes | None] | None]:
        with self._lock:
            look = Look(self.repo, self._over(prefix), self.tree())
        if since is None or since.tree is None or look.tree is None or since.line is not self.repo:
            return look, None
        keys = {key for key, _, _ in since.tree.diff_rows(look.tree) if key.startswith(prefix)}
        return look, self._rows_now(keys | _differing(since.over, look.over))

    def _stored(self, keys: Sequence[str]) -> dict[str, bytes]:
        tree = self.tree()
        rows = ((key, tree.row(key)) for key in keys)
        return {key: read_entry(self.repo, row) for key, row in rows if row is not None}

    def _keys(self, prefix: str) -> Iterator[str]:
        return self.tree().names(prefix)

    def _keys_back(self, prefix: str) -> Iterator[str]:
        return self.tree().names_back(prefix)

    def _scan(self, prefix: str, *, at_once: bool) -> Iterator[tuple[str, bytes]]:
        return ((key, read_entry(self.repo, row)) for key, row in self.tree().rows(prefix))

    def _change(self, build: Callable[[Edit], T], message: str, done: Callable[[], None]) -> T:
        self.require_writable()
        raise AssertionError("a line that is written to has its own way to do so")

    def history(self, key: str) -> Iterator[Version]:
        return history_from(self.repo, self._commit, key)


class _Beside(msgspec.Struct, frozen=True):
    """Changes of records that no commit of the branch has yet."""

    mark: bytes | None = None  # what the store holds where their number is
    keys: tuple[bytes, ...] = ()
    rows: dict[str, Row | None] = {}
    size: int = 0  # bytes


class _State(msgspec.Struct, frozen=True):
    tip: ObjectId | None
    beside: _Beside


_ENCODER: Final = msgspec.msgpack.Encoder()
_WAITING_ROWS: Final = msgspec.msgpack.Decoder(dict[str, Row | None])


class _BesideBranch:
    """What lies beside the commits of a branch: changes of records, each as durable as a commit, until the next commit takes them in."""

    def __init__(self, repo: Repository, branch: str) -> None:
        self.repo = repo
        self.branch = branch
        self._seen: _Beside | None = None

    def state(self) -> _State:
        """The last commit of the branch and what lies beside it, as of one moment."""
        keys = branch_key(self.branch), beside_key(self.branch)
        while True:
            ref, mark = map(self.repo.pointers.read(keys).__getitem__, keys)
            if self._seen is None or mark != self._seen.mark:
                known = self._read(mark)
                if self.repo.pointers.read(keys[1:])[keys[1]] != mark:
                    continue  # it changed meanwhile
                self._seen = known
            return _State(None if ref is None else decode_record(ref, Ref).commit, self._seen)

    def _read(self, mark: bytes | None) -> _Beside:
        if mark is None or not decode_record(mark, Beside).count:
            return _Beside(mark)
        keys = list(self.repo.pointers.keys(waiting_prefix(self.branch)))
        known = self._seen
        if known is not None and known.keys and keys[: len(known.keys)] == list(known.keys):
            new, rows, size = keys[len(known.keys) :], dict(known.rows), known.size
        else:
            new, rows, size = keys, dict[str, "Row | None"](), 0
        found = self.repo.store.get_many(new)
        for key in new:
            raw = found.get(key, b"")
            size += len(raw)
            rows.update(_WAITING_ROWS.decode(zstandard.decompress(raw)) if raw else {})
        return _Beside(mark, tuple(keys), rows, size)

    def put(self, state: _State, rows: Mapping[str, Row | None], holder: Holder | None = None) -> bool:
        """Store changes without a commit. Returns whether that was done: not where many lie there, or the branch has no commit yet.

        Args:
            holder: whose the branch is, if a session makes the changes.

        Raises:
            BranchMovedError: it is no longer as in `state`. BranchInUseError: somebody else holds it.
        """
        if any(row is not None and row.is_final for row in rows.values()):
            return False  # it would be written twice
        raw = zstandard.ZstdCompressor(level=1).compress(_ENCODER.encode(rows))
        if state.tip is None or state.beside.size + len(raw) > _MOST_BESIDE:
            return False
        mark_key = beside_key(self.branch)
        beside, made = state.beside, _Beside()

        def build(move: Move) -> None:
            nonlocal made
            ref = move.get(branch_key(self.branch), Ref)
            if ref is None or ref.commit != state.tip or move.raw(mark_key) != beside.mark:
                raise BranchMovedError(self.branch)
            refuse_leased(move, self.branch, holder)
            move.stamp_format()
            move.get(mark_key, Beside)
            move.set(mark_key, Beside(move.stamp, len(beside.keys) + 1))
            key = waiting_prefix(self.branch) + move.stamp.to_bytes(8, "big")
            move.new[key] = raw
            made = _Beside(move.new[mark_key], (*beside.keys, key), {**beside.rows, **rows}, beside.size + len(raw))

        self.repo.pointers.change(build)
        self._seen = made  # or its next reader would decode all of it
        return True

    def take_in(self, state: _State, move: Move) -> None:
        """Within the move to a commit that has it: nothing lies beside the branch any more."""
        if move.raw(beside_key(self.branch)) != state.beside.mark:
            raise BranchMovedError(self.branch)
        if state.beside.keys:
            move.get(beside_key(self.branch), Beside)
            move.set(beside_key(self.branch), Beside(move.stamp))
            move.new.update(dict.fromkeys(state.beside.keys))


class BranchLine(PastLine):
    """The records at the tip of a branch. Each change is a commit, but for those that may lie beside the branch until the next one.

    A program that stores small records one by one would pay for each with a commit, which stays. What lies beside is as durable, and
    all readers of the branch see it. It goes into a commit when there is enough of it, or somebody else changes a record, opens a
    session there or names a commit of it.
    """

    is_readonly = False

    def __init__(self, repo: Repository, branch: str, author: Author) -> None:
        super().__init__(repo, None)
        self.branch = branch
        self._author = author
        self._beside = _BesideBranch(repo, branch)

    def tip(self) -> ObjectId | None:
        """The last commit of the branch."""
        return self._state().tip

    def _state(self) -> _State:
        return self._beside.state()

    def tree(self) -> RecordTree:
        return tree_of(self.repo, self.tip())

    def mark(self) -> object:
        state = self._state()
        return tree_of(self.repo, state.tip), state.beside.mark, self._unstored

    def history(self, key: str) -> Iterator[Version]:
        state = self._state()
        if key in state.beside.rows:
            row = state.beside.rows[key]
            yield Version(row, time.time_ns() if row is None else row.time_ns, "" if row is None else row.actor)
        yield from history_from(self.repo, state.tip, key)

    def _stored(self, keys: Sequence[str]) -> dict[str, bytes]:
        return self._rows(self._state(), keys)

    def _over(self, prefix: str) -> dict[str, Row | None]:
        beside = self._state().beside.rows
        return {key: row for key, row in {**beside, **self._waiting}.items() if key.startswith(prefix)}

    def _keys(self, prefix: str) -> Iterator[str]:
        state = self._state()
        rows = state.beside.rows
        stored = (key for key in tree_of(self.repo, state.tip).names(prefix) if key not in rows)
        return heapq.merge(
            stored, sorted(key for key, row in rows.items() if row is not None and key.startswith(prefix))
        )

    def _scan(self, prefix: str, *, at_once: bool) -> Iterator[tuple[str, bytes]]:
        state = self._state()
        stored = ((key, read_entry(self.repo, row)) for key, row in tree_of(self.repo, state.tip).rows(prefix))
        beside = sorted((one for one in state.beside.rows.items() if one[0].startswith(prefix)), key=itemgetter(0))
        return _merged(stored, beside) if beside else stored

    def bytes_beside(self) -> int:
        return self._state().beside.size

    def keys_beside(self, prefix: str) -> set[str]:
        rows = self._state().beside.rows
        return {key for key, row in rows.items() if row is not None and key.startswith(prefix)}

    def settle(self) -> None:
        """Let a commit take in what lies beside the branch."""
        if self._state().beside.keys:
            self._change(lambda _: None, "", lambda: None, settles=True)

    def _change(
        self, build: Callable[[Edit], T], message: str, done: Callable[[], None], *, settles: bool = False
    ) -> T:
        for _ in _attempts():
            state = self._state()
            tip = state.tip
            before = None if tip is None else self.repo.commit_at(tip)
            tree = tree_of(self.repo, tip)
            edit = Edit(lambda keys, state=state: self._rows(state, keys))  # type: ignore[misc]
            result = build(edit)
            if not edit.new and not (settles and state.beside.keys):
                return result
            try:
                if edit.may_lie_beside and self._beside.put(state, edit.new):
                    done()
                    return result
            except BranchMovedError:
                continue
            writer = self.repo.writer()
            rows = {**state.beside.rows, **edit.new}
            after = tree.change(writer, entries_of(writer, rows, self.repo.objects, tree))
            commit = Commit(
                tree=self.repo.tree(None).id if before is None else before.tree,
                parents=() if tip is None else (tip,),
                author=self._author,
                time_ns=time.time_ns(),
                utc_offset_s=time.localtime().tm_gmtoff,
                message=message,
                kind="records",
                records=after.id,
                recent=after.recent_rows(),
                random=None if before is None else before.random,
                environment=None if before is None else before.environment,
                document=None if before is None else before.document,
            )
            try:
                also = functools.partial(self._beside.take_in, state)
                self.repo.publish(writer, commit, head=Head(self.branch, tip), session=None, message=message, also=also)
            except BranchMovedError:
                continue
            done()
            return result
        raise StoreUnavailableError(self.repo.store.url, f"others kept changing it during {_ATTEMPTS:,} attempts")

    def _rows(self, state: _State, keys: Sequence[str]) -> dict[str, bytes]:
        beside, tree = state.beside.rows, tree_of(self.repo, state.tip)
        found: dict[str, bytes] = {}
        for key in keys:
            if key in beside:
                if (waiting := beside[key]) is not None:
                    found[key] = encode(waiting)
            elif (row := tree.row(key)) is not None:
                found[key] = read_entry(self.repo, row)
        return found


def settle(repo: Repository) -> None:
    """Let commits take in what lies beside branches: who names a commit of one means all that it holds.

    Who may only read, as a forked child, or has a full disk, sees the commits that are there: what lies beside them stays.
    """
    for session in list(SESSIONS):
        is_own = session.lease.pid == os.getpid()
        if is_own and session.is_open and _same_store(session.repo, repo):
            session.pending.settle()
    for key in repo.store.keys(BESIDE):
        mark = repo.pointers.get(key, Beside)
        if mark is not None and mark.count:
            branch = key[len(BESIDE) :].decode()
            lease = repo.lease_of(branch)
            is_leased = lease is not None and lease.is_alive(repo.store)  # the session's next commit takes it in
            if not is_leased and repo.pointers.get(branch_key(branch), Ref) is not None:
                try:
                    BranchLine(repo, branch, person()).settle()
                except (BranchInUseError, StoreReadOnlyError):
                    continue
                except StoreUnavailableError as error:
                    logger.warning("records beside the branch %s are in no commit yet: %s", branch, error)


# -- in the next commit of a session


_NOT_KEPT: Final = object()


class Pending(PastLine):
    """Records as the session has them: those of its HEAD, with what its next commit will change."""

    is_readonly = False

    def __init__(self, repo: Repository, session: LiveBranch) -> None:
        super().__init__(repo, None)
        self._session = weakref.ref(session)
        self.rows: dict[str, Row | None] = {}
        self._in_commit: dict[str, Row | None] = {}  # what the commit under way takes along
        self._beside: _BesideBranch | None = None  # of the branch that it is on
        self._kept: dict[str, Row | None] = {}  # what of the rows lies there
        self._kept_keys: tuple[bytes, ...] = ()
        self._packers: weakref.WeakSet[Packer] = weakref.WeakSet()
        self._said, self._others = "", 0  # the first change that is pending, and how many others there are
        self._versions_left: dict[str, int] = {}  # of records that an undo or a rollback took back

    def note_left(self, left: ObjectId | None, now: ObjectId | None) -> None:
        """HEAD went back, as an undo does: of the records that this changed, the next change has a larger version than any of then.

        An `expect` of what was taken back would fit what somebody else changed since. Of a list it is the length, and no version.

        Raises:
            DamagedObjectError: what is left cannot be read.
        """
        for key, was, _ in tree_of(self.repo, left).diff_rows(tree_of(self.repo, now)):
            if was is not None and not is_counter(key) and not key.startswith((f"{LIST}\0", f"{LIST_PART}\0")):
                version = decode_row(read_entry(self.repo, was)).version
                self._versions_left[key] = max(version, self.last_version(key))

    def last_version(self, key: str) -> int:
        """The largest version of a record that was taken back in this session; 0: none was."""
        return self._versions_left.get(key, 0)

    def _live_branch(self) -> LiveBranch:
        session = self._session()
        assert session is not None  # whoever has this line has the session
        return session

    def tree(self) -> RecordTree:
        """The records of HEAD."""
        session = self._live_branch()
        try:
            return tree_of(self.repo, session.head)
        except DamagedObjectError:  # or this process rewrote the history
            session.follow_rewriting()
            return tree_of(self.repo, session.head)

    @contextmanager
    def _alone(self) -> Generator[None]:
        # In this order everywhere: who moves HEAD may have to wait for the rows.
        with self._live_branch().alone(), self._lock:
            yield

    def mark(self) -> object:
        with self._lock:
            return self.tree(), self._unstored

    def _stored(self, keys: Sequence[str]) -> dict[str, bytes]:
        tree = self.tree()
        found: dict[str, bytes] = {}
        for key in keys:
            if key in self.rows:
                if (pending := self.rows[key]) is not None:
                    found[key] = encode(pending)
            elif (row := tree.row(key)) is not None:
                found[key] = read_entry(self.repo, row)
        return found

    def _over(self, prefix: str) -> dict[str, Row | None]:
        return {key: row for key, row in {**self.rows, **self._waiting}.items() if key.startswith(prefix)}

    def _keys(self, prefix: str) -> Iterator[str]:
        with self._lock:
            rows, names = {**self.rows}, self.tree().names(prefix)
        stored = (key for key in names if key not in rows)
        new = (key for key, row in rows.items() if row is not None and key.startswith(prefix))
        return itertools.chain(stored, new)

    def _scan(self, prefix: str, *, at_once: bool) -> Iterator[tuple[str, bytes]]:
        stored = ((key, read_entry(self.repo, row)) for key, row in self.tree().rows(prefix))
        pending = sorted((one for one in self.rows.items() if one[0].startswith(prefix)), key=itemgetter(0))
        return _merged(stored, pending) if pending else stored

    def _change(self, build: Callable[[Edit], T], message: str, done: Callable[[], None]) -> T:
        edit = Edit(self._stored)
        result = build(edit)
        if edit.new:
            session = self._live_branch()
            head, waiting = session.head, self._all_that_waits()
            before = {key: self.rows[key] for key in edit.new if key in self.rows}
            said = self._said, self._others
            with session.uninterrupted():  # what is stored and what is known of it are one
                self.rows.update(edit.new)
                self._unstored += 1
                self._said, self._others = self._said or message, self._others + (message != (self._said or message))
                done()
                try:
                    if session.commits_records and not self._put_beside(session):
                        self._commit_rows(session)
                except BaseException:
                    if session.head == head:  # nothing of it is stored: what raises has changed nothing
                        for key in edit.new:
                            self.rows.pop(key, None)
                        self.rows.update(before)
                        self._unstored += 1
                        self._said, self._others = said
                        self._wait_again(waiting)
                    raise
        return result

    def _commit_rows(self, session: LiveBranch) -> None:
        rows, head = dict(self.rows), session.head
        try:
            session.commit_records()
        except BaseException:
            if session.head == head:  # as they were before they were packed
                self.rows = rows
                self._unstored += 1
            raise

    def _put_beside(self, session: LiveBranch) -> bool:
        """Store what is pending beside the branch, until the next commit. Returns whether that was done."""
        if session.branch is None or not session.is_open or session.lease.pid != os.getpid():
            return False
        beside = self._beside
        if beside is None or beside.branch != session.branch:
            beside = self._beside = _BesideBranch(self.repo, session.branch)
        state = beside.state()
        if state.tip != session.head or state.beside.keys != self._kept_keys:
            return False  # somebody else was there: the commit finds out, and starts another branch
        # All of it, and not this change alone: others may refer to what a change before them stored.
        new = {key: row for key, row in self.rows.items() if key not in self._kept or self._kept[key] is not row}
        try:
            if not beside.put(state, new, session.lease):
                return False
        except (BranchMovedError, BranchInUseError):
            return False
        self._kept |= new
        self._kept_keys = beside.state().beside.keys
        return True

    def settle(self) -> None:
        """Let a commit take in what lies beside the branch."""
        if self._kept_keys and self._live_branch().commits_records:
            with self._alone():
                if self._kept_keys:
                    self._live_branch().commit_records()

    def take_in(self, branch: str | None) -> Callable[[Move], object] | None:
        """What is to be done within the move of a branch to a commit that has all that is pending; None: nothing."""
        beside = self._beside
        if not self._kept_keys or beside is None or beside.branch != branch:
            return None
        state = beside.state()
        if state.beside.keys != self._kept_keys:
            raise BranchMovedError(beside.branch)
        return functools.partial(beside.take_in, state)

    @property
    def message(self) -> str:
        """What a commit of them alone says."""
        others = f"{self._others:,} other change{'s' if self._others != 1 else ''} of records"
        return f"{self._said}, and {others}" if self._said and self._others else self._said or "records changed"

    @property
    def lies_beside(self) -> bool:
        """Whether something of it lies beside the branch."""
        return bool(self._kept_keys)

    @property
    def is_stored(self) -> bool:
        """Whether all of it lies beside the branch, where the next commit of the branch takes it in, whoever makes it."""
        with self._lock:
            return not self._waiting and all(self._kept.get(key, _NOT_KEPT) is row for key, row in self.rows.items())

    def history(self, key: str) -> Iterator[Version]:
        if key in self.rows:
            row = self.rows[key]
            yield Version(row, time.time_ns() if row is None else row.time_ns, "" if row is None else row.actor)
        yield from history_from(self.repo, self._live_branch().head, key)

    def gather(self) -> bool:
        """Let what waits be part of the next commit, and of no commit of its own. Returns whether anything is pending."""
        if self._waiting:
            with self._alone():
                edit = Edit(self._stored)
                self._with_waiting(edit, lambda _: None)
                self.rows.update(edit.new)
                self._clear_waiting()
        return bool(self.rows)

    @property
    def moves(self) -> int:  # type: ignore[override]
        return self._live_branch().moves

    def keys_beside(self, prefix: str) -> set[str]:
        return {key for key, row in self.rows.items() if row is not None and key.startswith(prefix)}

    def pack_with(self, packer: Packer) -> None:
        self._packers.add(packer)

    def _pack(self) -> None:
        for packer in list(self._packers):
            try:
                packer.pack()
            except Exception:
                logger.warning("records go into the commit as they are: to pack them failed", exc_info=True)

    def edited(self, writer: Writer, tree: RecordTree) -> RecordTree:
        """These records with what is pending."""
        self._pack()
        with self._lock:
            self._in_commit = dict(self.rows)
        return tree.change(writer, entries_of(writer, self._in_commit, self.repo.objects, self.tree()))

    @contextmanager
    def head_moves(self) -> Generator[None]:
        """HEAD becomes the commit that took rows along, in the block. Nobody reads meanwhile: they would be neither here nor there."""
        with self._lock:
            for key, row in self._in_commit.items():
                if key in self.rows and self.rows[key] is row:
                    del self.rows[key]
            self._unstored += 1
            self._in_commit, self._kept, self._kept_keys = {}, {}, ()
            if not self.rows:
                self._said, self._others = "", 0
            yield


def _merged(
    stored: Iterator[tuple[str, bytes]], changed: Sequence[tuple[str, Row | None]]
) -> Iterator[tuple[str, bytes]]:
    """Stored rows with those that are changed, in order of the keys. Each is read when it is asked for."""
    instead = dict(changed)
    new = iter(changed)
    next_new = next(new, None)
    for key, raw in stored:
        while next_new is not None and next_new[0] <= key:
            if next_new[1] is not None:
                yield next_new[0], encode(next_new[1])
            next_new = next(new, None)
        if key not in instead:
            yield key, raw
    while next_new is not None:
        if next_new[1] is not None:
            yield next_new[0], encode(next_new[1])
        next_new = next(new, None)


def line_of(repo: Repository, branch: str | None, author: Author) -> Line:
    """Where records of the plane `branch` lie: with a session of this process that is there, or else on the branch.

    Args:
        branch: None: where the session of this process is, or else the branch of HEAD. Of several sessions it is one that was
            made of this repository, and of these the one whose code this thread runs (of an agent's step within a cell, the
            agent's), or else the first.

    Raises:
        RefNotFoundError: the branch does not exist, or nobody names one and HEAD is not on one.
    """
    found = [
        session
        for session in list(SESSIONS)
        if session.is_open and _same_store(session.repo, repo) and branch in (None, session.branch)
    ]
    if found:
        own = [session for session in found if session.repo is repo] or found
        return max(own, key=attrgetter("runs_here_since")).pending  # of equal ones, the first
    if branch is None:
        head = repo.refs.head("")  # and not `repo.head`, which has commits take in what lies beside branches
        if head.branch is None and head.commit is None:
            head = Head("main", None)
        if head.branch is None:
            raise RefNotFoundError(
                "HEAD", tuple(repo.branches()), "HEAD is on no branch: name the branch of the records"
            )
        branch = head.branch
    else:
        _require_branch(repo, branch)
    key = f"_branch_line {branch} {author.name}"  # one for each, so that what waits in it is seen by all
    line: BranchLine = repo.__dict__.get(key) or repo.__dict__.setdefault(key, BranchLine(repo, branch, author))
    return line


def _require_branch(repo: Repository, branch: str) -> None:
    """Raise RefNotFoundError for a branch that is not there. The first one of a store begins with what is written to it."""
    if (
        repo.pointers.get(branch_key(branch), Ref) is None
        and branch != repo.refs.head("").branch
        and (known := repo.branches())
    ):
        raise RefNotFoundError(branch, tuple(known))


def _same_store(one: Repository, other: Repository) -> bool:
    return one.store is other.store or (one.store.url == other.store.url and not one.store.url.startswith("memory:"))
