"""A store opens by URL or by path, and a URL that makes no sense opens nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_kernel.errors import NotAStoreError, StoreReadOnlyError, StoreUnavailableError
from agent_kernel.storage import LmdbStore, MemoryStore, open_store


@pytest.mark.parametrize("form", ["lmdb://{}", "lmdb:{}", "LMDB://{}", "{}"])
def test_a_folder_opens_by_url_or_path(tmp_path: Path, form: str) -> None:
    store = open_store(form.format(tmp_path / "a store"))
    assert store.url == f"lmdb://{tmp_path}/a store"
    store.put_many({b"a": b"1"})
    store.close()
    again = open_store(store.url, create=False)
    assert again.get_many([b"a"]) == {b"a": b"1"}
    again.close()


def test_a_path_object_and_a_home_directory_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    store, same = open_store(tmp_path / "s"), open_store("~/s", create=False)
    assert store.url == same.url
    store.close()
    same.close()


def test_a_relative_path_is_remembered_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("lmdb:here")
    assert store.url == f"lmdb://{tmp_path}/here"
    store.close()


def test_each_memory_store_is_new() -> None:
    one, other = open_store("memory:"), open_store("memory://")
    assert isinstance(one, MemoryStore)
    one.put_many({b"a": b"1"})
    assert other.get_many([b"a"]) == {}


@pytest.mark.parametrize("url", ["redis://host", "memory:name", "lmdb:", "lmdb://", "s3://bucket/x"])
def test_a_url_of_no_engine_is_refused(url: str) -> None:
    with pytest.raises(StoreUnavailableError, match="known: lmdb:///folder, bundle:///file, memory:"):
        open_store(url)


def test_options_that_memory_cannot_honour_are_refused() -> None:
    with pytest.raises(ValueError, match="memory"):
        open_store("memory:", durability="full")
    with pytest.raises(ValueError, match="memory"):
        open_store("memory:", readonly=True)


def test_opening_without_creating_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="nothing there"):
        open_store(tmp_path / "s", create=False)
    with pytest.raises(NotAStoreError, match="nothing there"):
        open_store(tmp_path / "s", readonly=True)
    assert list(tmp_path.iterdir()) == []


def test_a_store_opened_read_only_refuses_every_change(tmp_path: Path) -> None:
    writer = LmdbStore(tmp_path / "s")
    writer.put_many({b"a": b"1"})
    reader = LmdbStore(tmp_path / "s", readonly=True)
    assert reader.is_readonly
    assert not writer.is_readonly
    for change in (
        lambda: reader.put_many({b"b": b"2"}),
        lambda: reader.delete_many([b"a"]),
        lambda: reader.swap({}, {b"a": b"2"}),
        reader.compact,
    ):
        with pytest.raises(StoreReadOnlyError, match="read-only"):
            change()
    assert reader.get_many([b"a"]) == {b"a": b"1"}
    writer.close()
    reader.close()


def test_a_durability_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'default' or 'full'"):
        LmdbStore(tmp_path / "s", durability="none")  # type: ignore[arg-type]  # what a caller without types may pass
    assert list(tmp_path.iterdir()) == []
