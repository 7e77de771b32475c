"""Collect the objects of one commit and store them, small ones together with the ref that makes them reachable.

Objects are written before anything names them, so until then they look like garbage. The writer remembers the epoch of
garbage collection that it started in: publishing expects it unchanged, and looks again for everything it relied on if
it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress as chosen
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.repository.envelope import BASE_FROM, is_based, version_of, wrap, wrap_pieces
from agent_kernel.repository.ids import Kind, ObjectId, address, kind_of

if TYPE_CHECKING:
    from agent_kernel.repository.objects import Objects
    from agent_kernel.storage import Buffer, Store

BATCH_BYTES: Final = 8 << 20
INLINE_SUMMARY: Final = 64
_KNOWN_KEYS: Final = 200_000
_KEEP_PAYLOAD: Final = 64 << 10


class Presence(msgspec.Struct):
    """Keys that were in the store during one epoch: what nobody can have deleted while it lasts."""

    epoch: bytes | None = None
    keys: set[bytes] = msgspec.field(default_factory=set[bytes])

    def at(self, epoch: bytes | None) -> Presence:
        """Forget what was known if the epoch is another one."""
        if epoch != self.epoch:
            self.epoch, self.keys = epoch, set()
        return self

    def note(self, keys: Iterable[bytes]) -> None:
        if len(self.keys) > _KNOWN_KEYS:
            self.keys = set()
        self.keys.update(keys)


class Writer:
    """The objects of one commit on their way into the store. Use one for each commit, from one thread."""

    def __init__(self, store: Store, objects: Objects, presence: Presence) -> None:
        self._store = store
        self._objects = objects
        self._presence = presence
        self.epoch = presence.epoch
        self.written_bytes = 0
        self._pending: dict[bytes, tuple[bytes, Buffer]] = {}
        self._pending_bytes = 0
        self._payloads: dict[bytes, bytes] = {}  # of small objects, to store again what a collection took

    def add(
        self,
        kind: bytes,
        payload: bytes,
        compress: bool = True,
        *,
        decoded: object = None,
        base: tuple[ObjectId, bytes] | None = None,
    ) -> ObjectId:
        """Store a payload, unless it is known to be there, and return its id.

        Args:
            decoded: what the payload decodes to, for the cache.
            base: id and payload of an object of this kind that differs little, to store the difference from.
        """
        id = address(payload)
        key = kind + id
        if decoded is not None:
            self._objects.remember(kind, id, decoded, len(payload))
        if len(payload) <= _KEEP_PAYLOAD:
            self._payloads[key] = payload
        if key not in self._pending and key not in self._presence.keys:
            is_small = BASE_FROM <= len(payload) <= _KEEP_PAYLOAD
            known = self._objects.base_for(kind, *base) if base is not None and is_small else None
            parts = wrap(id, payload, compress=compress, base=known, version=version_of(kind))
            if kind == Kind.TREE:
                self._objects.note_depth(key, parts)
            self._queue(key, parts)
        if base is not None and base[0] != id:
            self._objects.supersede(kind, base[0])
        return id

    def add_summary(self, summary: bytes) -> bytes:
        """What to put into an entry for this summary: itself if it is short, else the id of a small object."""
        if len(summary) <= INLINE_SUMMARY and len(summary) != len(address(b"")):
            return summary
        return self.add(Kind.SMALL, summary)

    def add_pieces(self, pieces: Sequence[tuple[ObjectId, memoryview, bytes]]) -> None:
        """Store chunks, given as (id, bytes, xxh3-128 of them), without copying what does not compress.

        The bytes must not change until `flush` or the publishing of the commit.
        """
        keys = [Kind.CHUNK + id for id, _, _ in pieces]
        there = self.present(keys)
        missing = [key not in there and key not in self._pending for key in keys]
        absent = dict(chosen(zip(keys, pieces, strict=True), missing))
        for key, parts in zip(absent, wrap_pieces(list(absent.values())), strict=True):
            self._queue(key, parts)

    def present(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of the keys that are in the store, as far as can be told without reading them."""
        known = self._presence.keys
        there = {key for key in keys if key in known}
        look: Callable[[Iterable[bytes]], set[bytes]] | None = getattr(self._store, "present", None)
        if look is not None and len(there) < len(keys):
            found = look([key for key in keys if key not in known])
            self._presence.note(found)
            there |= found
        return there

    def flush(self) -> None:
        """Store what was collected, in a transaction before the one that publishes."""
        if self._pending:
            pending, self._pending, self._pending_bytes = self._pending, {}, 0
            # Only the publishing swap, which expects that nothing was deleted, may store differences: here their base
            # could go away while they stay.
            whole = {key: self._payloads[key] for key, parts in pending.items() if is_based(parts[0])}
            pending.update((key, wrap(ObjectId(key[1:]), payload)) for key, payload in whole.items())
            self._store.put_many(pending)
            self._note(pending)

    def pending(self) -> dict[bytes, tuple[bytes, Buffer]]:
        """What the publishing swap is to store itself."""
        return self._pending

    def published(self) -> None:
        """The swap that stored `pending()` went through."""
        self._note(self._pending)
        self._pending, self._pending_bytes = {}, 0

    def put_back(self, epoch: bytes | None, missing: Iterable[bytes]) -> list[bytes]:
        """Queue again what a collection took, go on in its epoch, and return the keys that nobody holds any more."""
        self.epoch = epoch
        lost: list[bytes] = []
        for key in missing:
            payload = self._payloads.get(key)
            if payload is None:
                lost.append(key)
            else:
                self._queue(key, wrap(ObjectId(key[1:]), payload, version=version_of(kind_of(key))))
        return lost

    def _queue(self, key: bytes, parts: tuple[bytes, Buffer]) -> None:
        size = len(parts[0]) + len(parts[1])
        self._pending[key] = parts
        self._pending_bytes += size
        self.written_bytes += size
        if self._pending_bytes >= BATCH_BYTES:
            self.flush()

    def _note(self, keys: Iterable[bytes]) -> None:
        if self._presence.epoch == self.epoch:
            # No other commit is the same, and hardly a tree node is made again that an edit replaced.
            self._presence.note(key for key in keys if not key.startswith((Kind.COMMIT, Kind.TREE)))
