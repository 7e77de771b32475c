"""Several stores of one process on one folder, however they come to it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from pickle import PickleBuffer

import pytest

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.storage import LmdbStore, lmdb
from tests.storage.children import Child, in_child


def _descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def _flags(store: LmdbStore) -> dict[str, bool]:
    return dict(store._env.handle.flags())  # type: ignore[arg-type]  # a TypedDict of booleans


def test_two_stores_on_one_folder_see_each_other(tmp_path: Path) -> None:
    one, other = LmdbStore(tmp_path / "s"), LmdbStore(tmp_path / "s")
    one.put_many({b"a": b"1"})
    assert other.get_many([b"a"]) == {b"a": b"1"}
    assert other.swap({b"a": b"1"}, {b"a": b"2"})
    one.close()
    assert other.get_many([b"a"]) == {b"a": b"2"}
    with pytest.raises(StoreUnavailableError, match="closed"):
        one.get_many([b"a"])
    other.close()


def test_the_last_store_to_close_closes_the_file(tmp_path: Path) -> None:
    before = _descriptors()
    stores = [LmdbStore(tmp_path / "s") for _ in range(5)]
    opened = _descriptors()
    assert opened > before
    for store in stores[:-1]:
        store.close()
    assert _descriptors() == opened
    stores[-1].close()
    assert _descriptors() == before
    assert not any(env.folder == stores[0].path for env in lmdb._environments.values())


def test_another_path_to_the_folder_is_the_same_store(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "s")
    one, other = LmdbStore(tmp_path / "s"), LmdbStore(tmp_path / "link")
    one.put_many({b"a": b"1"})
    assert other.keys(b"") == [b"a"]
    assert one.url == other.url
    one.close()
    other.close()


def test_a_renamed_folder_goes_on_once_it_is_opened_by_its_new_name(tmp_path: Path) -> None:
    old = LmdbStore(tmp_path / "old")
    old.put_many({b"a": b"1"})
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(StoreUnavailableError, match="removed or replaced"):
        old.put_many({b"b": b"2"})
    new = LmdbStore(tmp_path / "new")
    new.put_many({b"c": b"3"})
    assert old.keys(b"") == [b"a", b"c"]
    old.close()
    new.close()


def test_the_stronger_durability_holds_for_both(tmp_path: Path) -> None:
    weak = LmdbStore(tmp_path / "s")
    flags = _flags(weak)
    assert (flags["sync"], flags["metasync"], flags["writemap"]) == (True, False, False)
    weak.put_many({b"a": b"1"})
    strong = LmdbStore(tmp_path / "s", durability="full")
    flags = _flags(weak)
    assert (flags["sync"], flags["metasync"], flags["writemap"]) == (True, True, False)
    assert weak.get_many([b"a"]) == {b"a": b"1"}
    strong.close()
    weak.close()


def test_a_reader_that_came_first_does_not_keep_a_writer_out(tmp_path: Path) -> None:
    LmdbStore(tmp_path / "s").close()
    reader = LmdbStore(tmp_path / "s", readonly=True)
    writer = LmdbStore(tmp_path / "s")
    writer.put_many({b"a": b"1"})
    assert reader.get_many([b"a"]) == {b"a": b"1"}
    reader.close()
    writer.close()


def test_threads_may_open_and_close_it_at_once(tmp_path: Path) -> None:
    gate = threading.Barrier(6)

    def visit(thread: int) -> None:
        gate.wait()
        for i in range(20):
            store = LmdbStore(tmp_path / "s", durability="full" if i % 7 == 0 else "default")
            store.put_many({b"%d.%d" % (thread, i): b"x"})
            store.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(visit, range(6)))
    store = LmdbStore(tmp_path / "s")
    assert len(store.keys(b"")) == 120
    store.close()


def test_processes_that_make_it_at_once_make_one_store(tmp_path: Path) -> None:
    def make(name: bytes, _: object) -> None:
        store = LmdbStore(tmp_path / "s")
        store.put_many({name: b"x"})
        store.close()

    for round_ in range(10):
        names = [b"%d.%d" % (round_, i) for i in range(4)]
        children = [Child(partial(make, name)) for name in names]
        assert [child.wait() for child in children] == [(b"", 0)] * 4
        store = LmdbStore(tmp_path / "s")
        assert store.keys(b"") == names
        store.close()
        (tmp_path / "s").rename(tmp_path / str(round_))


def test_another_process_is_told_by_the_version(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "s")
    before = store.data_version()

    def write() -> None:
        other = LmdbStore(tmp_path / "s")
        other.swap({}, {b"ref": b"1"})
        other.close()

    in_child(write)
    assert store.data_version() != before
    assert store.get_many([b"ref"]) == {b"ref": b"1"}
    store.close()


def test_a_view_that_is_kept_by_a_buffer_is_an_error(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "s")
    store.put_many({b"a": bytes(5_000)})
    kept: list[object] = []
    with pytest.raises(BufferError):
        store.view_many([b"a"], lambda _, view: kept.append(PickleBuffer(view)))
    kept.clear()
    store.close()


def test_closing_inside_a_visit_is_refused(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "s")
    store.put_many({b"a": b"1"})
    with pytest.raises(StoreUnavailableError, match="being visited"):
        store.view_many([b"a"], lambda *_: store.close())
    assert store.get_many([b"a"]) == {b"a": b"1"}
    store.close()
