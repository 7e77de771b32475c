"""Bytes by key: the protocol every engine satisfies, two engines, and what opens them by URL.

Nothing here knows what the bytes mean. Engines load when their name is first used, so that importing this package
costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from agent_kernel.storage.urls import open_store as open_store

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
    "open_store": "agent_kernel.storage.urls",
}


__getattr__ = import_lazily(__name__, _HOME)
