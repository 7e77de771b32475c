"""Bytes by key: what a store promises, the small extras an engine may offer on top, and what opens one by URL or by a path.

Nothing here knows what the bytes mean. Objects are immutable and written with `put_many`; everything that changes (a branch,
HEAD, settings) moves through `swap`, and through nothing else. An engine satisfies these protocols by shape, without a base
class; `agent_kernel.testing.StoreConformance` says whether it does. Engines load when their name is first used, so that
importing this package costs nothing. A URL of an engine that is not there raises; it never falls back to another engine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from agent_kernel.errors import NotAStoreError, StoreUnavailableError
from agent_kernel.lazy_imports import import_lazily

if TYPE_CHECKING:
    from agent_kernel.storage.lmdb import LmdbStore as LmdbStore
    from agent_kernel.storage.memory import MemoryStore as MemoryStore

__all__ = [
    "Buffer",
    "Durability",
    "LmdbStore",
    "MemoryStore",
    "Store",
    "StoreSize",
    "SupportsItems",
    "SupportsLiveness",
    "SupportsPresence",
    "SupportsSize",
    "SupportsVersion",
    "SupportsViews",
    "open_store",
]

__getattr__ = import_lazily(
    __name__, {"LmdbStore": "agent_kernel.storage.lmdb", "MemoryStore": "agent_kernel.storage.memory"}
)

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


# -- open a store

_BUNDLE = ".agentnb"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)


def open_store(
    url: str | os.PathLike[str], *, create: bool = True, readonly: bool = False, durability: Durability = "default"
) -> Store:
    """Open the store at `lmdb:///folder`, a plain path, in a bundle (`bundle:///file`, only to read), or `memory:` (a new one).

    Args:
        create: make the store if it does not exist.
        readonly: refuse to write, and never make anything.
        durability: "full" for a store that loses nothing in a power loss; each commit then syncs twice.

    Raises:
        NotAStoreError: the store does not exist, or the folder holds something else.
        BundleError: the file is not a bundle.
        StoreUnavailableError: it cannot be opened just now, or no engine has this URL.
        ValueError: an option that this engine cannot honour.
    """
    if not os.fspath(url):
        raise NotAStoreError(repr(url), "an empty text names no place")  # as a path it would be the working directory
    match = _SCHEME.fullmatch(url) if isinstance(url, str) else None
    if match is None and os.fspath(url).endswith(_BUNDLE) and Path(url).expanduser().is_file():
        return _open_bundle(os.fspath(url))
    if match is None:
        return _open_lmdb(os.fspath(url), create, readonly, durability)
    engine, rest = match[1].lower(), match[2]
    if engine == "lmdb" and rest.strip("/"):
        return _open_lmdb(rest.removeprefix("//"), create, readonly, durability)
    if engine == "memory" and rest in ("", "//"):
        return _open_memory(readonly, durability)
    if engine == "bundle" and rest.strip("/"):
        return _open_bundle(rest.removeprefix("//"))
    known = "lmdb:///folder, bundle:///file, memory:, or a plain path"
    raise StoreUnavailableError(str(url), f"no engine has such URLs (known: {known})")


def _open_lmdb(path: str, create: bool, readonly: bool, durability: Durability) -> Store:
    from agent_kernel.storage.lmdb import LmdbStore

    return LmdbStore(Path(path).expanduser(), create=create, readonly=readonly, durability=durability)


def _open_bundle(path: str) -> Store:
    from agent_kernel.storage.archive import ArchiveStore

    return ArchiveStore(Path(path).expanduser())


def _open_memory(readonly: bool, durability: Durability) -> Store:
    from agent_kernel.storage.memory import MemoryStore

    if readonly or durability != "default":
        raise ValueError("a new store in memory can be neither read-only nor durable")
    return MemoryStore()
