"""What every store must do, as tests that anyone's backend can inherit.

Each test is one sentence of the contract in `agent_kernel.storage.protocol`: here of values, keys and the lifetime of a
store, in `swaps` of what moves together, in `capabilities` of what only some engines offer.
"""

from __future__ import annotations

from array import array

import pytest

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.storage.protocol import MAX_KEY_BYTES, Store
from agent_kernel.testing.capabilities import CapabilityConformance
from agent_kernel.testing.payloads import LARGE, PIECE, pattern
from agent_kernel.testing.swaps import SwapConformance


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
