"""Repositories to test with: in memory, and in LMDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.repository.repository import Repository
from agent_kernel.storage import LmdbStore, MemoryStore


@pytest.fixture
def repo() -> Iterator[Repository]:
    with Repository.open(MemoryStore()) as repo:
        yield repo


@pytest.fixture(params=["memory", "lmdb"])
def any_repo(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Repository]:
    store = MemoryStore() if request.param == "memory" else LmdbStore(tmp_path / "store")
    with Repository.open(store) as repo:
        yield repo
