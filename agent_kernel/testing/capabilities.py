"""What only some stores offer: views, presence, size and version. The tests skip an engine that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent_kernel.storage.protocol import Store, SupportsPresence, SupportsSize, SupportsVersion, SupportsViews
from agent_kernel.testing.payloads import LARGE, PIECE, pattern


class CapabilityConformance:
    """The tests of what an engine may offer, a part of `StoreConformance`."""

    def test_views_show_what_is_there(self, store: Store) -> None:
        viewed = _viewable(store)
        items = {b"a": b"", b"b": pattern(PIECE), b"c": b"x"}
        store.put_many(items)
        seen: dict[bytes, bytes] = {}

        def visit(key: bytes, view: memoryview) -> None:
            assert view.readonly
            assert view.nbytes == len(items[key])
            seen[key] = bytes(view)

        viewed.view_many([b"a", b"absent", b"b", b"c"], visit)
        assert seen == items

    def test_a_view_is_released_when_the_visit_ends(self, store: Store) -> None:
        viewed = _viewable(store)
        store.put_many({b"a": b"1", b"b": b"2"})
        kept: list[memoryview] = []
        viewed.view_many([b"a", b"b"], lambda _, view: kept.append(view))
        assert len(kept) == 2
        for view in kept:
            with pytest.raises(ValueError, match="released"):
                bytes(view)

    def test_an_error_of_a_visit_comes_out_and_leaves_the_store_usable(self, store: Store) -> None:
        viewed = _viewable(store)
        store.put_many({b"a": b"1"})

        def fail(key: bytes, view: memoryview) -> None:
            raise LookupError(key, bytes(view))

        with pytest.raises(LookupError):
            viewed.view_many([b"a"], fail)
        assert store.swap({}, {b"ref": b"1"})

    def test_a_visit_may_read_more(self, store: Store) -> None:
        viewed = _viewable(store)
        store.put_many({b"a": b"b", b"b": b"end"})
        found: list[bytes] = []
        viewed.view_many([b"a"], lambda _, view: found.extend(store.get_many([bytes(view)]).values()))
        assert found == [b"end"]

    def test_presence_is_known_without_reading(self, store: Store) -> None:
        if not isinstance(store, SupportsPresence):
            pytest.skip("this engine cannot")
        store.put_many({b"a": b"", b"b": pattern(LARGE)})
        assert store.present([b"a", b"aa", b"b", b"c"]) == {b"a", b"b"}
        assert store.present([]) == set()

    def test_the_size_counts_entries_and_bytes(self, store: Store) -> None:
        if not isinstance(store, SupportsSize):
            pytest.skip("this engine cannot")
        store.put_many({b"%d" % i: pattern(50_000) for i in range(20)})
        full = store.size()
        assert full.entries == 20
        assert 1_000_000 <= full.used_bytes <= full.disk_bytes <= 2_000_000
        store.delete_many(b"%d" % i for i in range(15))
        emptied = store.size()
        assert emptied.entries == 5
        assert emptied.used_bytes < full.used_bytes / 2

    def test_the_version_differs_after_every_change(self, store: Store) -> None:
        if not isinstance(store, SupportsVersion):
            pytest.skip("this engine cannot")
        changes: list[Callable[[], object]] = [
            lambda: store.put_many({b"a": b"1"}),
            lambda: store.swap({b"a": b"1"}, {b"a": b"2"}),
            lambda: store.swap({b"a": b"2"}, {b"a": b"1"}),
            lambda: store.delete_many([b"a"]),
        ]
        versions = [store.data_version()]
        for change in changes:
            change()
            versions.append(store.data_version())
            assert store.data_version() == versions[-1]
        assert len(set(versions)) == len(versions)


def _viewable(store: Store) -> SupportsViews:
    if not isinstance(store, SupportsViews):
        pytest.skip("this engine cannot")
    return store
