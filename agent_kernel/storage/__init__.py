"""Bytes by key: the protocol every engine satisfies, two engines, and what opens them by URL, or by the path of a folder.

Nothing here knows what the bytes mean. Engines load when their name is first used, so that importing this package
costs nothing. A URL of an engine that is not there raises; it never falls back to another engine.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from agent_kernel.errors import NotAStoreError, StoreUnavailableError
from agent_kernel.lazy_imports import import_lazily

if TYPE_CHECKING:
    from agent_kernel.storage.lmdb import LmdbStore as LmdbStore
    from agent_kernel.storage.memory import MemoryStore as MemoryStore
    from agent_kernel.storage.protocol import Buffer as Buffer
    from agent_kernel.storage.protocol import Durability as Durability
    from agent_kernel.storage.protocol import Store as Store
    from agent_kernel.storage.protocol import StoreSize as StoreSize
    from agent_kernel.storage.protocol import SupportsItems as SupportsItems
    from agent_kernel.storage.protocol import SupportsLiveness as SupportsLiveness
    from agent_kernel.storage.protocol import SupportsPresence as SupportsPresence
    from agent_kernel.storage.protocol import SupportsSize as SupportsSize
    from agent_kernel.storage.protocol import SupportsVersion as SupportsVersion
    from agent_kernel.storage.protocol import SupportsViews as SupportsViews

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

_PROTOCOL = "agent_kernel.storage.protocol"
_HOME = {
    "Buffer": _PROTOCOL,
    "Durability": _PROTOCOL,
    "LmdbStore": "agent_kernel.storage.lmdb",
    "MemoryStore": "agent_kernel.storage.memory",
    "Store": _PROTOCOL,
    "StoreSize": _PROTOCOL,
    "SupportsItems": _PROTOCOL,
    "SupportsLiveness": _PROTOCOL,
    "SupportsPresence": _PROTOCOL,
    "SupportsSize": _PROTOCOL,
    "SupportsVersion": _PROTOCOL,
    "SupportsViews": _PROTOCOL,
}


__getattr__ = import_lazily(__name__, _HOME)


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
