"""Both engines do what every engine must do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.storage import LmdbStore, MemoryStore, Store, open_store
from agent_kernel.testing import StoreConformance


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestLmdbStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = LmdbStore(tmp_path / "store")
        yield store
        store.close()

    def reopen(self, store: Store) -> Store | None:
        return open_store(store.url, create=False)


class TestLmdbStoreWithASmallMap(TestLmdbStore):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = LmdbStore(tmp_path / "store", map_size=64 << 10, durability="full")
        yield store
        store.close()
