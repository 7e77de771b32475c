"""What every store must do when keys move together, and when several threads write: all of a swap, or none of it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from agent_kernel.storage.protocol import Store
from agent_kernel.testing.payloads import PIECE, pattern


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
