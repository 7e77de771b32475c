"""What a store promises, and the small extras an engine may offer on top.

Objects are immutable and written with `put_many`; everything that changes (a branch, HEAD, settings) moves through
`swap`, and through nothing else. An engine satisfies these protocols by shape, without a base class;
`agent_kernel.testing.StoreConformance` says whether it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Contiguous bytes, of any item format."""

Durability: TypeAlias = Literal["default", "full"]
"""What a power loss may take: "default" the last commit at most, "full" nothing. Neither ever corrupts."""

MAX_KEY_BYTES = 511
"""The longest key that every engine takes."""

NO_ITEMS: Mapping[bytes, Sequence[Buffer] | Buffer] = MappingProxyType({})


class Store(Protocol):
    """Bytes by key, 1 to 511 bytes long. Safe to call from several threads, and processes, at once."""

    @property
    def url(self) -> str:
        """Where the bytes are, in the form that `open_store` takes."""
        ...

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the values that are there; absent keys are absent from the answer."""
        ...

    def put_many(self, items: Mapping[bytes, Sequence[Buffer] | Buffer]) -> None:
        """Store what is absent; a key that is there keeps its value, so putting again is harmless.

        A sequence of buffers is stored joined. Not one transaction: after a failure some items may be stored.

        Raises:
            StoreFullError: no room; what was stored before this call is untouched.
            ValueError: a key is empty or longer than 511 bytes.
        """
        ...

    def delete_many(self, keys: Iterable[bytes]) -> None:
        """Delete the keys that are there."""
        ...

    def keys(self, prefix: bytes, after: bytes = b"", limit: int = 1000) -> list[bytes]:
        """Return up to `limit` keys that start with `prefix` and come after `after`, in byte order."""
        ...

    def swap(
        self,
        expected: Mapping[bytes, bytes | None],
        new: Mapping[bytes, bytes | None],
        items: Mapping[bytes, Sequence[Buffer] | Buffer] = NO_ITEMS,
    ) -> bool:
        """Move all keys to `new` if every one still holds `expected`; return whether it did.

        None is absence: expected there, or wanted. `expected` may name keys that `new` leaves alone, and the other
        way round. `items` are put in the same step; where they are large (over 16 MB) an engine may put them first,
        so that they stay behind when the swap then fails, as garbage that nothing names.
        """
        ...

    def close(self) -> None:
        """Let go of the store; calling it again is harmless."""
        ...


@runtime_checkable
class SupportsViews(Protocol):
    """An engine that can show stored bytes without copying them."""

    def view_many(self, keys: Iterable[bytes], visit: Callable[[bytes, memoryview], object]) -> None:
        """Call `visit` for each key that is there, with a read-only view of its value.

        The view is released when `visit` returns. Keep nothing that refers to it, and do not write to the store from
        inside `visit`.
        """
        ...


@runtime_checkable
class SupportsPresence(Protocol):
    """An engine that can tell what it holds without reading it."""

    def present(self, keys: Iterable[bytes]) -> set[bytes]:
        """Return those of the keys that are there."""
        ...


@runtime_checkable
class SupportsItems(Protocol):
    """An engine that can list keys with their values as of one moment."""

    def items(self, prefix: bytes, after: bytes = b"", limit: int | None = None) -> list[tuple[bytes, bytes]]:
        """Return up to `limit` keys, with their values, that start with `prefix` and come after `after`, in byte order."""
        ...


class StoreSize(msgspec.Struct, frozen=True):
    """How large a store is."""

    disk_bytes: int  # what the store takes from its disk, or memory
    used_bytes: int  # of those, not free for reuse
    entries: int


@runtime_checkable
class SupportsSize(Protocol):
    """An engine that knows its own size."""

    def size(self) -> StoreSize:
        """Return the size, without reading the entries."""
        ...


@runtime_checkable
class SupportsVersion(Protocol):
    """An engine that can tell cheaply whether anything changed."""

    def data_version(self) -> int:
        """Return a number that differs after every change by anyone. Compare it for equality only."""
        ...


@runtime_checkable
class SupportsLiveness(Protocol):
    """An engine that can tell which processes use it, where their numbers cannot: in other containers, on other machines."""

    @property
    def is_on_this_machine(self) -> bool:
        """Whether no other machine can use the store."""
        ...

    def hold(self, number: int) -> None:
        """Be seen as alive under this number of 62 bits, until the store is closed or the process ends."""
        ...

    def is_held(self, number: int) -> bool | None:
        """Whether some process is alive under this number; None: it cannot be told."""
        ...


def check_key(key: bytes) -> None:
    """Raise ValueError unless every engine can hold this key."""
    if not 0 < len(key) <= MAX_KEY_BYTES:
        raise ValueError(f"a key has 1 to {MAX_KEY_BYTES} bytes, not {len(key)}")
