"""Conformance kit: what every store must do, as tests that anyone's backend can inherit. Needs pytest.

Inherit `StoreConformance`, return your backend from its fixture, and run pytest. Each test is one sentence of the contract
in `agent_kernel.storage`: of values, keys and the lifetime of a store, of what moves together, and of what only
some engines offer.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.storage import (
    MAX_KEY_BYTES,
    Store,
    SupportsItems,
    SupportsPresence,
    SupportsSize,
    SupportsVersion,
    SupportsViews,
)

# -- values of the sizes at which stores differ

PIECE = 262_128  # the largest stored piece of an array: a header and 64 pages less LMDB's own bytes
LARGE = 5_000_000


def pattern(nbytes: int, seed: int = 0) -> bytes:
    """So many bytes, in which no page equals the next."""
    unit = bytes((i * 131 + seed) % 251 for i in range(251))
    return (unit * (nbytes // 251 + 1))[:nbytes]


# -- what only some stores offer: views, presence, size and version. The tests skip an engine that does not


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

    def test_items_are_keys_with_their_values_in_order_after_a_key(self, store: Store) -> None:
        if not isinstance(store, SupportsItems):
            pytest.skip("this engine cannot")
        store.put_many({key: key * 2 for key in (b"a", b"p", b"p\0", b"pa", b"pb", b"q")})
        assert store.items(b"p") == [(key, key * 2) for key in (b"p", b"p\0", b"pa", b"pb")]
        assert store.items(b"p", b"p", 2) == [(b"p\0", b"p\0p\0"), (b"pa", b"papa")]
        assert (
            store.items(b"p", b"pb") == store.items(b"x") == store.items(b"p", b"z") == store.items(b"p", b"", 0) == []
        )

    def test_items_are_those_of_one_moment(self, store: Store) -> None:
        if not isinstance(store, SupportsItems):
            pytest.skip("this engine cannot")
        store.put_many({b"p0": b"0"})
        is_over = Event()

        def move() -> None:
            for number in range(200):
                here, there = b"p%d" % (number % 2), b"p%d" % ((number + 1) % 2)
                assert store.swap({here: b"%d" % number}, {here: None, there: b"%d" % (number + 1)})
            is_over.set()

        with ThreadPoolExecutor(1) as pool:
            moved = pool.submit(move)
            while not is_over.is_set() and not moved.done():
                assert len(store.items(b"p")) == 1
            moved.result()


def _viewable(store: Store) -> SupportsViews:
    if not isinstance(store, SupportsViews):
        pytest.skip("this engine cannot")
    return store


# -- what every store must do when keys move together, and when several threads write: all of a swap, or none of it


class SwapConformance:
    """The tests of `swap`, a part of `StoreConformance`."""

    def test_a_swap_creates_changes_and_deletes(self, store: Store) -> None:
        assert store.swap({b"ref": None}, {b"ref": b"1"})
        assert store.swap({b"ref": b"1"}, {b"ref": b"2"})
        assert store.get_many([b"ref"]) == {b"ref": b"2"}
        assert store.swap({b"ref": b"2"}, {b"ref": None})
        assert store.get_many([b"ref"]) == {}

    def test_expecting_none_means_absent_and_an_empty_value_is_not(self, store: Store) -> None:
        assert store.swap({b"ref": None}, {b"ref": b""})
        assert not store.swap({b"ref": None}, {b"ref": b"1"})
        assert store.swap({b"ref": b""}, {b"ref": b"1"})
        assert not store.swap({b"gone": b""}, {b"gone": b"1"})
        assert store.get_many([b"ref", b"gone"]) == {b"ref": b"1"}

    def test_deleting_what_is_absent_by_swap_is_no_conflict(self, store: Store) -> None:
        assert store.swap({b"ref": None}, {b"ref": None, b"other": None})

    def test_a_swap_moves_all_keys_or_none(self, store: Store) -> None:
        store.put_many({b"a": b"1", b"b": b"1", b"doomed": b"1"})
        new = {b"a": b"2", b"b": b"2", b"c": b"2", b"doomed": None}
        assert not store.swap({b"a": b"1", b"b": b"other"}, new, {b"object": b"x"})
        assert not store.swap({b"a": b"1", b"c": b"there"}, new, {b"object": b"x"})
        before = {b"a": b"1", b"b": b"1", b"doomed": b"1"}
        assert store.get_many([b"a", b"b", b"c", b"doomed", b"object"]) == before
        assert store.swap({b"a": b"1", b"b": b"1", b"c": None}, new, {b"object": [b"x", b"y"]})
        after = {b"a": b"2", b"b": b"2", b"c": b"2", b"object": b"xy"}
        assert store.get_many([b"a", b"b", b"c", b"doomed", b"object"]) == after

    def test_a_swap_may_expect_keys_that_it_leaves_alone(self, store: Store) -> None:
        store.put_many({b"epoch": b"7"})
        assert not store.swap({b"epoch": b"6"}, {b"ref": b"1"})
        assert store.swap({b"epoch": b"7"}, {b"ref": b"1"})
        assert store.get_many([b"epoch", b"ref"]) == {b"epoch": b"7", b"ref": b"1"}

    def test_items_of_a_swap_that_are_there_keep_their_value(self, store: Store) -> None:
        store.put_many({b"object": b"first"})
        assert store.swap({}, {b"ref": b"1"}, {b"object": b"second"})
        assert store.get_many([b"object"]) == {b"object": b"first"}

    def test_large_items_travel_with_a_swap(self, store: Store) -> None:
        items = {b"b%03d" % i: pattern(PIECE, i) for i in range(70)}  # 18 MB
        assert store.swap({b"ref": None}, {b"ref": b"1"}, items)
        assert not store.swap({b"ref": None}, {b"ref": b"2"}, {b"other": b"1"})
        assert store.get_many([*items, b"ref"]) == {**items, b"ref": b"1"}

    def test_one_writer_wins_each_swap(self, store: Store) -> None:
        rounds, writers = 200, 8
        gate = threading.Barrier(writers)

        def claim(writer: int) -> int:
            wins = 0
            for round_ in range(rounds):
                gate.wait()
                key = b"%d" % round_
                wins += store.swap({key: None}, {key: b"%d" % writer})
            return wins

        with ThreadPoolExecutor(writers) as pool:
            assert sum(pool.map(claim, range(writers))) == rounds

    def test_no_increment_is_lost(self, store: Store) -> None:
        def count(_: int) -> None:
            for _ in range(50):
                while True:
                    held = store.get_many([b"n"]).get(b"n")
                    if store.swap({b"n": held}, {b"n": b"%d" % (int(held or 0) + 1)}):
                        break

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(count, range(4)))
        assert store.get_many([b"n"]) == {b"n": b"200"}

    def test_readers_never_see_half_a_swap(self, store: Store) -> None:
        store.swap({}, {b"x": b"0", b"y": b"0"})
        done = threading.Event()
        torn: list[dict[bytes, bytes]] = []

        def read() -> None:
            while not done.is_set():
                time.sleep(0.0005)  # or readers keep the interpreter to themselves
                seen = store.get_many([b"x", b"y"])
                if seen[b"x"] != seen[b"y"]:
                    torn.append(seen)

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(read) for _ in range(2)]
            for i in range(200):
                store.swap({}, {b"x": b"%d" % i, b"y": b"%d" % i})
            done.set()
            for reader in readers:
                reader.result()
        assert not torn

    def test_threads_write_and_read_at_once(self, store: Store) -> None:
        def work(writer: int) -> bool:
            items = {b"%d/%d" % (writer, i): pattern(3_000 * (i % 5), i) for i in range(60)}
            for key, value in items.items():
                store.put_many({key: value})
            store.delete_many(list(items)[:10])
            return store.get_many(items) == dict(list(items.items())[10:])

        with ThreadPoolExecutor(6) as pool:
            assert all(pool.map(work, range(6)))
        assert len(store.keys(b"")) == 300


class StoreConformance(SwapConformance, CapabilityConformance):
    """What every backend must do. Subclass, override `store`, run pytest.

    Override `reopen` as well if values outlive `close`.
    """

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError("return your backend from the `store` fixture")

    def reopen(self, store: Store) -> Store | None:
        """Return a new store on the same bytes as this closed one, or None if nothing outlives a close."""
        del store
        return None

    # put, get, delete

    def test_an_empty_store_has_nothing(self, store: Store) -> None:
        assert store.get_many([b"k"]) == {}
        assert store.keys(b"") == []

    def test_an_empty_value_is_still_a_value(self, store: Store) -> None:
        store.put_many({b"k": b""})
        assert store.get_many([b"k"]) == {b"k": b""}

    def test_absent_keys_are_absent_from_the_answer(self, store: Store) -> None:
        store.put_many({b"a": b"1", b"c": b"3"})
        assert store.get_many([b"a", b"b", b"c", b"cc"]) == {b"a": b"1", b"c": b"3"}

    def test_asking_twice_for_a_key_answers_once(self, store: Store) -> None:
        store.put_many({b"a": b"1"})
        assert store.get_many([b"a", b"a"]) == {b"a": b"1"}

    def test_keys_may_come_from_a_generator(self, store: Store) -> None:
        store.put_many({b"a": b"1", b"b": b"2"})
        assert store.get_many(key for key in (b"a", b"b")) == {b"a": b"1", b"b": b"2"}
        store.delete_many(key for key in (b"a",))
        assert store.keys(b"") == [b"b"]

    def test_putting_again_is_harmless(self, store: Store) -> None:
        for _ in range(3):
            store.put_many({b"a": b"1", b"b": b"2"})
        assert store.get_many([b"a", b"b"]) == {b"a": b"1", b"b": b"2"}

    def test_a_key_that_is_there_keeps_its_value(self, store: Store) -> None:
        store.put_many({b"a": b"first"})
        store.put_many({b"a": b"second", b"b": b"new"})
        assert store.get_many([b"a", b"b"]) == {b"a": b"first", b"b": b"new"}

    def test_nothing_is_put_from_nothing(self, store: Store) -> None:
        store.put_many({})
        store.delete_many([])
        assert store.get_many([]) == {}
        assert store.swap({}, {})

    @pytest.mark.parametrize("nbytes", [1, 2_000, 4_096, PIECE, LARGE])
    def test_values_of_any_size_come_back_equal(self, store: Store, nbytes: int) -> None:
        value = pattern(nbytes)
        store.put_many({b"big": value})
        assert store.get_many([b"big"]) == {b"big": value}

    def test_many_pieces_go_in_at_once(self, store: Store) -> None:
        items = {b"b%03d" % i: pattern(PIECE, i) for i in range(80)}  # 21 MB: several transactions of some engines
        store.put_many(items)
        assert store.get_many(items) == items

    def test_every_byte_may_occur_in_keys_and_values(self, store: Store) -> None:
        items = {bytes([i]) + b"\x00\xff": bytes([i]) for i in range(256)}
        store.put_many(items)
        assert store.get_many(items) == items

    def test_any_contiguous_buffer_is_a_value(self, store: Store) -> None:
        numbers = array("d", [1.5, 2.5, 3.5])
        store.put_many({b"a": bytearray(b"xy"), b"v": memoryview(b"abcdef")[2:4], b"n": memoryview(numbers)})
        expected = {b"a": b"xy", b"v": b"cd", b"n": numbers.tobytes()}
        assert store.get_many([b"a", b"v", b"n"]) == expected

    def test_a_sequence_of_buffers_is_stored_joined(self, store: Store) -> None:
        numbers = array("q", [1, 2])
        large = pattern(PIECE)
        store.put_many(
            {
                b"small": [b"he", bytearray(b"ad"), memoryview(numbers)],
                b"large": (b"\x01\x00", memoryview(large)),
                b"empty": [],
                b"blank": [b"", b""],
                b"after": [b"\x01", memoryview(b"short")],
            }
        )
        assert store.get_many([b"small", b"large", b"empty", b"blank", b"after"]) == {
            b"small": b"head" + numbers.tobytes(),
            b"large": b"\x01\x00" + large,
            b"empty": b"",
            b"blank": b"",
            b"after": b"\x01short",
        }

    def test_a_stored_value_does_not_change_with_its_buffer(self, store: Store) -> None:
        value = bytearray(b"before")
        store.put_many({b"a": value, b"b": [value, value]})
        value[:] = b"after!"
        assert store.get_many([b"a", b"b"]) == {b"a": b"before", b"b": b"beforebefore"}

    def test_answers_are_bytes(self, store: Store) -> None:
        store.put_many({b"a": bytearray(b"1")})
        assert [type(value) for value in store.get_many([b"a"]).values()] == [bytes]

    def test_the_longest_key_is_511_bytes(self, store: Store) -> None:
        key = b"k" * MAX_KEY_BYTES
        store.put_many({key: b"1"})
        assert store.keys(b"k") == [key]

    @pytest.mark.parametrize("key", [b"", b"k" * (MAX_KEY_BYTES + 1)])
    def test_other_keys_are_refused(self, store: Store, key: bytes) -> None:
        with pytest.raises(ValueError, match="key"):
            store.put_many({key: b"1"})
        with pytest.raises(ValueError, match="key"):
            store.swap({}, {b"a": b"1", key: b"1"})
        assert store.keys(b"") == []

    def test_deleted_keys_are_gone_and_can_be_put_again(self, store: Store) -> None:
        store.put_many({b"a": b"1", b"b": b"2", b"c": b"3"})
        store.delete_many([b"a", b"c", b"never"])
        assert store.keys(b"") == [b"b"]
        store.put_many({b"a": b"new"})
        assert store.get_many([b"a", b"b", b"c"]) == {b"a": b"new", b"b": b"2"}

    def test_thousands_of_keys_can_be_deleted_at_once(self, store: Store) -> None:
        keys = [b"%06d" % i for i in range(12_000)]
        store.put_many(dict.fromkeys(keys, b"x"))
        store.delete_many(keys[1:])
        assert store.keys(b"") == keys[:1]

    # keys

    def test_keys_come_in_byte_order(self, store: Store) -> None:
        unordered = [b"b", b"a", b"\xff", b"aa", b"\x00", b"a\x00", b"a\xff", b"B"]
        store.put_many(dict.fromkeys(unordered, b""))
        assert store.keys(b"") == sorted(unordered)

    def test_keys_come_in_pages(self, store: Store) -> None:
        wanted = [b"p%04d" % i for i in range(25)]
        store.put_many(dict.fromkeys([*wanted, b"o", b"q"], b""))
        pages: list[list[bytes]] = []
        after = b""
        while page := store.keys(b"p", after, limit=10):
            pages.append(page)
            after = page[-1]
        assert [len(page) for page in pages] == [10, 10, 5]
        assert [key for page in pages for key in page] == wanted

    def test_a_page_starts_after_a_key_that_may_be_absent(self, store: Store) -> None:
        store.put_many(dict.fromkeys([b"pa", b"pc"], b""))
        assert store.keys(b"p", b"pb") == [b"pc"]
        assert store.keys(b"p", b"a") == [b"pa", b"pc"]
        assert store.keys(b"p", b"p") == [b"pa", b"pc"]
        assert store.keys(b"p", b"pc") == []
        assert store.keys(b"p", b"z") == []

    def test_a_prefix_that_is_a_key_belongs_to_its_own_page(self, store: Store) -> None:
        store.put_many(dict.fromkeys([b"h/", b"h/a", b"h0", b"h"], b""))
        assert store.keys(b"h/") == [b"h/", b"h/a"]
        assert store.keys(b"h/", b"h/") == [b"h/a"]

    def test_a_page_has_a_thousand_keys_unless_told(self, store: Store) -> None:
        store.put_many(dict.fromkeys((b"%05d" % i for i in range(1_001)), b""))
        assert len(store.keys(b"")) == 1_000
        assert len(store.keys(b"", limit=2_000)) == 1_001
        assert store.keys(b"", limit=0) == []

    @pytest.mark.parametrize("prefix", [b"\xff", b"\xff\xff", b"a\xff", b"\x00"])
    def test_prefixes_at_the_edge_of_the_byte_range(self, store: Store, prefix: bytes) -> None:
        inside = [prefix, prefix + b"\x00", prefix + b"\xff" * 20]
        outside = [prefix[:-1] + bytes([max(prefix[-1] - 2, 1)]) + b"z", b"b"]
        store.put_many(dict.fromkeys([*outside, *inside], b""))
        assert store.keys(prefix) == inside

    def test_keys_follow_every_change(self, store: Store) -> None:
        store.put_many({b"b": b"", b"d": b""})
        assert store.keys(b"") == [b"b", b"d"]
        store.put_many({b"a": b"", b"c": b""})
        store.swap({}, {b"b": None, b"e": b""})
        assert store.keys(b"") == [b"a", b"c", b"d", b"e"]
        store.delete_many([b"c"])
        store.swap({}, {b"c": b"back", b"d": b"changed"})
        assert store.keys(b"") == [b"a", b"c", b"d", b"e"]

    # lifetime

    def test_the_url_is_text_with_a_scheme(self, store: Store) -> None:
        assert ":" in store.url

    def test_closing_twice_is_harmless_and_use_after_it_is_an_error(self, store: Store) -> None:
        store.put_many({b"a": b"1"})
        store.close()
        store.close()
        with pytest.raises(StoreUnavailableError):
            store.get_many([b"a"])
        with pytest.raises(StoreUnavailableError):
            store.swap({}, {b"a": b"2"})

    def test_what_was_stored_is_there_after_reopening(self, store: Store) -> None:
        items = {b"a": b"", b"b": pattern(LARGE), b"c": b"1"}
        store.put_many(items)
        store.swap({b"ref": None}, {b"ref": b"1", b"c": None})
        store.close()
        again = self.reopen(store)
        if again is None:
            pytest.skip("nothing outlives a close")
        try:
            assert again.get_many([*items, b"ref"]) == {b"a": b"", b"b": items[b"b"], b"ref": b"1"}
            assert again.swap({b"ref": b"1"}, {b"ref": b"2"})
        finally:
            again.close()
