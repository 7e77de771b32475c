"""Everything in a store that changes: refs, heads, reflogs, leases, settings.

A change is a `Move`: it reads keys and sets keys, and goes through only if all it read still holds when it is made. If
not, it is built again from what holds now. So each operation is written as if it were alone.

Values begin with a stamp, nanoseconds that only ever grow, so that A, B, A is seen as a change; the same stamp numbers
the reflogs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from agent_kernel.errors import AgentKernelError, DamagedObjectError, NewerFormatError, StoreUnavailableError
from agent_kernel.repository.commits import ObjectId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_kernel.storage import Buffer, Store

T = TypeVar("T")
V = TypeVar("V", bound=msgspec.Struct)

FORMAT_VERSION: Final = 2  # 2: pages in parts, and all of values that came with them
FORMAT: Final = b"x/format"
EPOCH: Final = b"x/epoch"  # changes whenever objects were deleted
ROSTER: Final = b"x/roster"  # changes whenever a branch, tag or head comes or goes
GARBAGE: Final = b"x/gc"  # what the last collection found unreachable
BRANCHES: Final = b"r/heads/"
TAGS: Final = b"r/tags/"
HEADS: Final = b"h/"
LEASES: Final = b"k/"
LOGS: Final = b"g/"
SETTINGS: Final = b"x/"
RESERVED_SETTINGS: Final = frozenset({"format", "epoch", "roster", "gc"})

_ATTEMPTS: Final = 300
_PATIENCE_S: Final = 0.005
_NEWEST: Final = (1 << 64) - 1


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """A branch or a tag."""

    stamp: int
    commit: ObjectId


class HeadRecord(msgspec.Struct, frozen=True, array_like=True):
    """HEAD of a session: on a branch, or (detached) on a commit."""

    stamp: int
    branch: str | None = None
    commit: ObjectId | None = None
    session: str = ""


class LogRecord(msgspec.Struct, frozen=True, array_like=True):
    """One line of a reflog; its time is in its key."""

    commit: ObjectId
    message: str = ""
    session: str = ""
    left: str = ""  # the branch, or the commit's digits, that HEAD was moved away from


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """A value that only says that something happened, or how often."""

    stamp: int
    number: int = 0


def log_key(name: str, stamp: int) -> bytes:
    """The key of a reflog line. Stamps count down, so that the newest line comes first."""
    return log_prefix(name) + (_NEWEST - stamp).to_bytes(8, "big")


def log_prefix(name: str) -> bytes:
    return LOGS + name.encode() + b"\0"


def stamp_of_log(key: bytes) -> int:
    return _NEWEST - int.from_bytes(key[-8:], "big")


def encoded(value: msgspec.Struct) -> bytes:
    return msgspec.msgpack.encode(value)


def decoded(raw: bytes, shape: type[V]) -> V:
    """A record that changes; raises DamagedObjectError if the bytes are not a valid record."""
    try:
        return msgspec.msgpack.decode(raw, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedObjectError("record", raw[:8].hex(), f"{shape.__name__} cannot be read: {error}") from error


class Move:
    """One attempt to change several keys at once."""

    def __init__(self, pointers: Pointers, fresh: bool) -> None:
        self._pointers = pointers
        self._fresh = fresh
        self.expected: dict[bytes, bytes | None] = {}
        self.new: dict[bytes, bytes | None] = {}
        self.items: Mapping[bytes, Sequence[Buffer] | Buffer] = {}
        self.used_cache = False
        self.stamp = time.time_ns()

    @property
    def store(self) -> Store:
        return self._pointers.store

    def read(self, keys: Iterable[bytes]) -> None:
        """Fetch several keys at once; `get` then finds them."""
        missing = [key for key in keys if key not in self.expected]
        cached = {} if self._fresh else self._pointers.cached(missing)
        self.used_cache |= bool(cached)
        self.expected.update(cached)
        self.expected.update(self._pointers.read([key for key in missing if key not in cached]))

    def raw(self, key: bytes) -> bytes | None:
        """The bytes of a key, which must still be there when the move is made."""
        if key not in self.expected:
            self.read([key])
        return self.expected[key]

    def get(self, key: bytes, shape: type[V]) -> V | None:
        """The value of a key, decoded. Whatever is set in this move gets a later stamp."""
        raw = self.raw(key)
        if raw is None:
            return None
        value = decoded(raw, shape)
        self.stamp = max(self.stamp, getattr(value, "stamp", 0) + 1)
        return value

    def set(self, key: bytes, value: msgspec.Struct | None) -> None:
        """Set a key when the move is made, or delete it."""
        self.new[key] = None if value is None else encoded(value)

    def log(self, name: str, commit: ObjectId, message: str, session: str, left: str = "") -> None:
        """Add a line to a reflog; call it when all values this move changes have been read."""
        self.set(log_key(name, self.stamp), LogRecord(commit, message, session, left))

    def stamp_format(self) -> None:
        """Note the format of what this move makes reachable, so that an earlier release leaves the store alone.

        Raises:
            NewerFormatError: a newer release wrote here meanwhile.
        """
        found = self.get(FORMAT, Stamp)
        refuse_newer(self.store, found)
        if found is None or found.number < FORMAT_VERSION:
            self.set(FORMAT, Stamp(self.stamp, FORMAT_VERSION))

    def enroll(self) -> None:
        """Note that a ref or head comes or goes."""
        self.get(ROSTER, Stamp)
        self.set(ROSTER, Stamp(self.stamp))


def refuse_newer(store: Store, found: Stamp | None) -> None:
    """Raise NewerFormatError if the store's format is one that this release does not know."""
    if found is not None and found.number > FORMAT_VERSION:
        raise NewerFormatError(store.url, found.number, FORMAT_VERSION)


class Pointers:
    """The changing keys of one store, with what was last seen of them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._seen: dict[bytes, bytes | None] = {}

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        return {key: self._seen[key] for key in keys if key in self._seen}

    def read(self, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """What the keys hold now, in one round trip."""
        wanted = list(keys)
        if not wanted:
            return {}
        found = self.store.get_many(wanted)
        values = {key: found.get(key) for key in wanted}
        self._seen.update((key, value) for key, value in values.items() if not key.startswith(LOGS))
        return values

    def get(self, key: bytes, shape: type[V]) -> V | None:
        raw = self.read([key])[key]
        return None if raw is None else decoded(raw, shape)

    def keys(self, prefix: bytes, limit: int | None = None) -> Iterator[bytes]:
        """All keys with this prefix, in order."""
        after = b""
        while True:
            page = self.store.keys(prefix, after, 1000 if limit is None else min(limit, 1000))
            yield from page
            if limit is not None:
                limit -= len(page)
            if len(page) < 1000 or limit == 0:
                return
            after = page[-1]

    def present(self, keys: Iterable[bytes]) -> set[bytes]:
        """Those of the keys, of whatever kind, that the store holds."""
        look: Callable[[Iterable[bytes]], set[bytes]] | None = getattr(self.store, "present", None)
        return look(keys) if look is not None else set(self.store.get_many(keys))

    def all(self, prefix: bytes, shape: type[V], limit: int | None = None) -> dict[bytes, V]:
        """All values under a prefix, or the first of them, by key."""
        keys = list(self.keys(prefix, limit))
        found = self.store.get_many(keys) if keys else {}
        return {key: decoded(found[key], shape) for key in keys if key in found}

    def change(self, build: Callable[[Move], T]) -> T:
        """Build a move and make it; build it again, from what holds then, as long as others come first.

        `build` may be called several times. What it raises on the ground of remembered values is not believed until
        it raises it again on fresh ones.
        """
        for attempt in range(_ATTEMPTS):
            move = Move(self, fresh=attempt > 0)
            try:
                result = build(move)
            except AgentKernelError:
                if move.used_cache:
                    continue
                raise
            if not move.new and not move.items:
                return result
            if self.store.swap(move.expected, move.new, move.items):
                self._seen.update((key, value) for key, value in move.new.items() if not key.startswith(LOGS))
                return result
            if attempt > 1:
                time.sleep(random.random() * _PATIENCE_S)
        raise StoreUnavailableError(self.store.url, f"others kept changing it during {_ATTEMPTS} attempts")
