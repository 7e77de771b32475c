"""A map that is too small grows by itself, and space that deletions free is used again or given back."""

from __future__ import annotations

import resource
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import lmdb
import pytest

from agent_kernel.errors import StoreFullError, StoreUnavailableError
from agent_kernel.storage import LmdbStore
from tests.storage.children import Child, in_child

SMALL = 64 << 10
PIECE = 262_128


def test_a_full_map_grows_and_the_write_is_made_again(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "s", map_size=SMALL)
    for i in range(20):
        assert store.swap({b"n": b"%d" % i if i else None}, {b"n": b"%d" % (i + 1)}, {b"o%d" % i: bytes(PIECE)})
    assert store.size().entries == 21
    assert store._env.map_size >= 20 * PIECE
    store.close()


def test_the_map_reserves_a_tebibyte_and_takes_nothing(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "s")
    assert store._env.map_size == 1 << 40
    assert store.size().disk_bytes < 64 << 10
    store.close()


def test_a_smaller_address_space_gets_a_smaller_map(tmp_path: Path) -> None:
    def limited() -> str:
        resource.setrlimit(resource.RLIMIT_AS, (16 << 30, resource.RLIM_INFINITY))
        store = LmdbStore(tmp_path / "s")
        store.put_many({b"a": bytes(PIECE)})
        size = store._env.map_size
        again = LmdbStore(tmp_path / "s")  # which asks for a tebibyte too
        assert again.present([b"a"])
        return str(size.bit_length() - 1)

    assert 30 <= int(in_child(limited)) <= 33


def test_an_address_space_that_is_used_up_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    def limited() -> str:
        store = LmdbStore(tmp_path / "s", map_size=1 << 20)
        store.put_many({b"a": b"1"})
        large = bytes(1 << 20)
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + (64 << 20), resource.RLIM_INFINITY))
        # A larger map, or memory for the transaction: which of the two is refused first is up to the allocator.
        with pytest.raises((StoreFullError, StoreUnavailableError), match=r"no room left|Cannot allocate memory"):
            store.put_many(dict.fromkeys((b"b%d" % i for i in range(200)), large))
        return store.get_many([b"a"])[b"a"].decode()

    assert in_child(limited) == "1"


def test_threads_may_grow_it_while_others_read_views(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "s", map_size=SMALL)
    store.put_many({b"seen": b"x" * 20_000})

    def write(thread: int) -> None:
        for i in range(30):
            store.put_many({b"%d.%d" % (thread, i): bytes(60_000)})

    def read(_: int) -> None:
        for _ in range(400):
            store.view_many([b"seen"], lambda _, view: bytes(view))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda work: work[0](work[1]), [(write, 0), (read, 0), (write, 1), (read, 1), (write, 2)]))
    assert store.size().entries == 91
    store.close()


def test_processes_that_start_with_a_small_map_grow_it_together(tmp_path: Path) -> None:
    LmdbStore(tmp_path / "s", map_size=SMALL).close()

    def write(process: int, _: object) -> None:
        store = LmdbStore(tmp_path / "s", map_size=SMALL)
        for i in range(40):
            while True:
                held = store.get_many([b"n"]).get(b"n")
                if store.swap({b"n": held}, {b"n": b"%d" % (int(held or 0) + 1)}):
                    break
            store.put_many({b"o%d.%d" % (process, i): bytes(100_000)})
        store.close()

    children = [Child(partial(write, process)) for process in range(3)]
    assert [child.wait() for child in children] == [(b"", 0)] * 3
    store = LmdbStore(tmp_path / "s", map_size=SMALL)
    assert store.get_many([b"n"]) == {b"n": b"120"}
    assert len(store.keys(b"o")) == 120
    store.close()


def test_space_of_deleted_values_is_used_again(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "s")
    largest = 0
    for generation in range(4):
        keys = [b"%d.%d" % (generation, i) for i in range(100)]
        store.put_many(dict.fromkeys(keys, bytes(PIECE)))
        largest = store.size().disk_bytes
        store.delete_many(keys)
    assert largest < 1.3 * 100 * PIECE
    store.close()


def test_compacting_gives_space_back_and_every_store_goes_on(tmp_path: Path) -> None:
    one, other = LmdbStore(tmp_path / "s"), LmdbStore(tmp_path / "s")
    one.put_many({b"%d" % i: bytes([i]) * PIECE for i in range(40)})
    one.delete_many(b"%d" % i for i in range(1, 40))
    before = other.data_version()
    assert one.compact() > 38 * PIECE
    assert one.size().disk_bytes < 2 * PIECE
    assert other.data_version() != before
    assert other.get_many([b"0"]) == {b"0": bytes(PIECE)}
    assert other.swap({}, {b"ref": b"1"})
    assert sorted(path.name for path in one.path.iterdir()) == [".gitignore", "data.mdb", "lock.mdb"]
    one.close()
    other.close()
    again = LmdbStore(tmp_path / "s", create=False)
    assert again.keys(b"") == [b"0", b"ref"]
    again.close()


def test_other_processes_work_with_what_was_compacted(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "s")
    store.put_many({b"%d" % i: bytes(PIECE) for i in range(10)})
    store.delete_many(b"%d" % i for i in range(9))
    store.compact()

    def count() -> None:
        mine = LmdbStore(tmp_path / "s")
        for _ in range(100):
            while True:
                held = mine.get_many([b"n"]).get(b"n")
                if mine.swap({b"n": held}, {b"n": b"%d" % (int(held or 0) + 1)}, {b"o": bytes(30_000)}):
                    break

    children = [Child(lambda _: count()) for _ in range(2)]
    for _ in range(50):
        store.put_many({b"x": bytes(20_000)})
        store.delete_many([b"x"])
    assert [child.wait() for child in children] == [(b"", 0)] * 2
    assert store.get_many([b"n"]) == {b"n": b"200"}
    store.close()


def test_it_is_not_compacted_under_another_process(tmp_path: Path) -> None:
    def hold(report: object) -> None:
        import time

        store = LmdbStore(tmp_path / "s")
        assert callable(report)
        report(b"ready")
        while not store.present([b"enough"]):
            time.sleep(0.005)
        store.put_many({b"by child": b"1"})

    store = LmdbStore(tmp_path / "s")
    store.put_many({b"a": b"1"})
    with Child(hold) as child:
        assert child.heard(5) == b"ready"
        with pytest.raises(StoreUnavailableError, match="another process has it open"):
            store.compact()
        store.put_many({b"enough": b""})
        assert child.wait() == (b"", 0)
    assert store.keys(b"") == [b"a", b"by child", b"enough"]
    assert store.compact() >= 0
    assert store.keys(b"") == [b"a", b"by child", b"enough"]
    store.close()


def test_a_process_that_waits_for_the_compaction_sees_its_result(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "s")
    store.put_many({b"%d" % i: bytes(PIECE) for i in range(60)})

    def visit() -> None:
        for _ in range(30):
            mine = LmdbStore(tmp_path / "s")
            assert mine.present([b"0"])
            mine.close()

    children = [Child(lambda _: visit()) for _ in range(2)]
    compacted = 0
    for _ in range(20):
        try:
            store.compact()
            compacted += 1
        except StoreUnavailableError:
            continue
    assert [child.wait() for child in children] == [(b"", 0)] * 2
    store.compact()
    assert len(store.keys(b"")) == 60
    store.close()


def test_a_compaction_that_fails_changes_nothing(tmp_path: Path) -> None:
    def limited() -> str:
        store = LmdbStore(tmp_path / "s")
        store.put_many({b"%d" % i: bytes(PIECE) for i in range(10)})
        resource.setrlimit(resource.RLIMIT_FSIZE, (PIECE, resource.RLIM_INFINITY))
        with pytest.raises(StoreFullError):
            store.compact()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        store.put_many({b"more": b"1"})
        return str(len(store.keys(b"")))

    assert in_child(limited) == "11"
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == [".gitignore", "data.mdb", "lock.mdb"]
    shutil.rmtree(tmp_path / "s")


def test_a_store_opens_while_another_process_grows_it(tmp_path: Path) -> None:
    LmdbStore(tmp_path / "s", map_size=SMALL).close()

    def grow(_: object) -> None:
        store = LmdbStore(tmp_path / "s", map_size=SMALL)
        for i in range(150):
            store.put_many({b"o%d" % i: bytes(60_000)})
        store.close()

    def look(_: object) -> None:
        for _ in range(60):
            LmdbStore(tmp_path / "s", map_size=SMALL).close()

    children = [Child(work) for work in (grow, look, look, look)]
    assert [child.wait() for child in children] == [(b"", 0)] * 4


def test_a_map_that_is_outgrown_between_the_look_at_its_size_and_the_opening_is_opened_larger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LmdbStore(tmp_path / "s", map_size=SMALL).close()
    really, tried = lmdb.open, list[int]()

    def outgrown_twice(path: str, map_size: int, **options: Any) -> lmdb.Environment:
        tried.append(map_size)
        if len(tried) < 3:
            raise lmdb.MapResizedError("mdb_txn_begin")
        return really(path, map_size, **options)

    monkeypatch.setattr(lmdb, "open", outgrown_twice)
    store = LmdbStore(tmp_path / "s", map_size=SMALL)
    assert tried == [SMALL, 2 * SMALL, 4 * SMALL]
    assert store._env.map_size == 4 * SMALL
    store.close()


def test_a_map_that_is_outgrown_at_every_attempt_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LmdbStore(tmp_path / "s", map_size=SMALL).close()

    def outgrown(*_: object, **__: object) -> lmdb.Environment:
        raise lmdb.MapResizedError("mdb_txn_begin")

    monkeypatch.setattr(lmdb, "open", outgrown)
    with pytest.raises(StoreUnavailableError, match="keeps changing"):
        LmdbStore(tmp_path / "s", map_size=SMALL)
