"""How LMDB's transactions are used: many for a large put, one for a swap, and none that a dead reader holds open."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_kernel.storage import LmdbStore
from tests.storage.children import Child

PIECE = 262_128


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    store = LmdbStore(tmp_path / "s")
    yield store
    store.close()


def _transactions(store: LmdbStore, work: Callable[[], object]) -> int:
    before = store.data_version()
    work()
    return store.data_version() - before


def test_a_large_put_is_split_into_transactions_of_8_mb(store: LmdbStore) -> None:
    items = {b"b%03d" % i: bytes(PIECE) for i in range(96)}  # 25 MB
    assert _transactions(store, lambda: store.put_many(items)) == 3
    assert _transactions(store, lambda: store.put_many({b"a": b"1", b"b": b"2"})) == 1


def test_many_small_values_are_split_too(store: LmdbStore) -> None:
    items = {b"s%06d" % i: b"small" for i in range(20_000)}
    assert 2 <= _transactions(store, lambda: store.put_many(items)) <= 5


def test_a_swap_with_its_items_is_one_transaction(store: LmdbStore) -> None:
    items = {b"b%03d" % i: bytes(PIECE) for i in range(60)}  # 16 MB less a little
    new: dict[bytes, bytes | None] = {b"ref": b"1", b"head": b"1", b"log": b"1"}
    assert _transactions(store, lambda: store.swap({b"ref": None}, new, items)) == 1


def test_larger_items_are_put_before_the_swap(store: LmdbStore) -> None:
    items = {b"b%03d" % i: bytes(PIECE) for i in range(96)}
    assert _transactions(store, lambda: store.swap({b"ref": None}, {b"ref": b"1"}, items)) == 4
    assert store.get_many([b"ref"]) == {b"ref": b"1"}


def test_a_swap_that_must_fail_writes_nothing(store: LmdbStore) -> None:
    store.put_many({b"ref": b"1"})
    large = {b"b%03d" % i: bytes(PIECE) for i in range(96)}
    assert _transactions(store, lambda: store.swap({b"ref": None}, {b"ref": b"2"}, {b"o": b"x"})) == 0
    assert _transactions(store, lambda: store.swap({b"ref": None}, {b"ref": b"2"}, large)) == 0
    assert store.keys(b"") == [b"ref"]


def test_a_large_deletion_is_followed_by_a_commit_that_frees_its_pages(store: LmdbStore) -> None:
    keys = [b"%03d" % i for i in range(100)]
    store.put_many(dict.fromkeys(keys, b"x"))
    assert _transactions(store, lambda: store.delete_many(keys[:3])) == 1
    assert _transactions(store, lambda: store.delete_many(keys)) == 2
    assert store.keys(b"") == []


def test_a_reader_that_died_is_forgotten_when_the_store_is_next_opened(store: LmdbStore) -> None:
    store.put_many({b"a": b"1"})

    def read(report: Callable[[bytes], object]) -> None:
        def stay(_: bytes, view: memoryview) -> None:
            report(bytes(view))
            time.sleep(60)

        LmdbStore(store.path).view_many([b"a"], stay)

    with Child(read) as child:
        assert child.heard(1) == b"1"
        pid = str(child.pid)
        assert pid in store._env.handle.readers()
        child.kill()
        child.wait()
    assert pid in store._env.handle.readers()
    store.close()
    again = LmdbStore(store.path)
    assert pid not in again._env.handle.readers()
    again.close()


def test_what_a_compaction_that_died_left_is_removed(store: LmdbStore) -> None:
    store.close()
    (store.path / ".compacting").mkdir()
    (store.path / ".compacting" / "data.mdb").write_bytes(bytes(100_000))
    LmdbStore(store.path).close()
    assert sorted(path.name for path in store.path.iterdir()) == [".gitignore", "data.mdb", "last-close", "lock.mdb"]
