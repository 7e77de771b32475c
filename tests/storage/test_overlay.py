"""Changes on top of a store: they count above it, and it stays as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_kernel.storage import MemoryStore, Store
from agent_kernel.storage.memory import OverlayStore
from agent_kernel.testing import StoreConformance


class TestOverlayStore(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return OverlayStore(MemoryStore())


class TestOverlayOfAStoreWithADeletedKey(StoreConformance):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        below = MemoryStore()
        below.put_many({b"gone": b"1"})
        store = OverlayStore(below)
        store.delete_many([b"gone"])
        yield store
        assert below.get_many([b"gone"]) == {b"gone": b"1"}
        assert below.keys(b"") == [b"gone"]


def test_what_lies_below_is_read_through_and_stays() -> None:
    below, also = MemoryStore(), MemoryStore()
    below.put_many({b"a": b"1", b"b": b"2", b"d": b"4"})
    also.put_many({b"c": b"3", b"a": b"other"})
    store = OverlayStore(below, also)
    assert store.get_many([b"a", b"b", b"c"]) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert store.swap({b"a": b"1"}, {b"a": None, b"b": b"new", b"e": b"5"})
    assert not store.swap({b"a": b"1"}, {b"a": b"2"})
    assert store.keys(b"") == [b"b", b"d", b"e"]
    assert store.get_many([b"a", b"b", b"e"]) == {b"b": b"new", b"e": b"5"}
    seen: dict[bytes, bytes] = {}
    store.view_many([b"a", b"b", b"c", b"d"], lambda key, view: seen.update({key: bytes(view)}))
    assert seen == {b"b": b"new", b"c": b"3", b"d": b"4"}
    assert below.get_many([b"a", b"b", b"d"]) == {b"a": b"1", b"b": b"2", b"d": b"4"}


def test_pages_of_keys_go_on_where_the_last_one_ended() -> None:
    below = MemoryStore()
    below.put_many({b"k%03d" % number: b"" for number in range(0, 300, 2)})
    store = OverlayStore(below)
    store.put_many({b"k%03d" % number: b"" for number in range(1, 300, 2)})
    found: list[bytes] = []
    while page := store.keys(b"k", found[-1] if found else b"", 7):
        found += page
    assert found == [b"k%03d" % number for number in range(300)]
