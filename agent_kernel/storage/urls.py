"""Open a store by URL, or by the path of its folder.

A URL of an engine that is not there raises; it never falls back to another engine.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from agent_kernel.errors import NotAStoreError, StoreUnavailableError

if TYPE_CHECKING:
    from agent_kernel.storage.protocol import Durability, Store

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)


def open_store(
    url: str | os.PathLike[str], *, create: bool = True, readonly: bool = False, durability: Durability = "default"
) -> Store:
    """Open the store at `lmdb:///folder`, a plain path, or `memory:` (a new, empty one).

    Args:
        create: make the store if it does not exist.
        readonly: refuse to write, and never make anything.
        durability: "full" for a store that loses nothing in a power loss; each commit then syncs twice.

    Raises:
        NotAStoreError: the store does not exist, or the folder holds something else.
        StoreUnavailableError: it cannot be opened just now, or no engine has this URL.
        ValueError: an option that this engine cannot honour.
    """
    if not os.fspath(url):
        raise NotAStoreError(repr(url), "an empty text names no place")  # as a path it would be the working directory
    match = _SCHEME.fullmatch(url) if isinstance(url, str) else None
    if match is None:
        return _open_lmdb(os.fspath(url), create, readonly, durability)
    engine, rest = match[1].lower(), match[2]
    if engine == "lmdb" and rest.strip("/"):
        return _open_lmdb(rest.removeprefix("//"), create, readonly, durability)
    if engine == "memory" and rest in ("", "//"):
        return _open_memory(readonly, durability)
    raise StoreUnavailableError(str(url), "no engine has such URLs (known: lmdb:///folder, memory:, or a plain path)")


def _open_lmdb(path: str, create: bool, readonly: bool, durability: Durability) -> Store:
    from agent_kernel.storage.lmdb import LmdbStore

    return LmdbStore(Path(path).expanduser(), create=create, readonly=readonly, durability=durability)


def _open_memory(readonly: bool, durability: Durability) -> Store:
    from agent_kernel.storage.memory import MemoryStore

    if readonly or durability != "default":
        raise ValueError("a new store in memory can be neither read-only nor durable")
    return MemoryStore()
