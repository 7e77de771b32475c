"""A forked child reads on, and writes only through a store that it opened itself."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.storage import LmdbStore
from tests.storage.children import Child, in_child


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    store = LmdbStore(tmp_path / "s")
    store.put_many({b"a": b"1", b"big": bytes(100_000)})
    yield store
    store.close()


def test_a_child_reads_on(store: LmdbStore) -> None:
    def read() -> str:
        seen: list[int] = []
        store.view_many([b"big"], lambda _, view: seen.append(len(view)))
        return f"{store.get_many([b'a'])} {store.keys(b'')} {store.present([b'a', b'x'])} {seen}"

    assert in_child(read) == "{b'a': b'1'} [b'a', b'big'] {b'a'} [100000]"
    assert store.swap({b"a": b"1"}, {b"a": b"2"})


def test_a_child_sees_what_its_parent_writes_after_the_fork(store: LmdbStore) -> None:
    def read(timeout_s: float = 20) -> bytes:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end and not store.present([b"later"]):
            time.sleep(0.005)
        return store.get_many([b"later"])[b"later"]

    with Child(lambda report: report(read())) as child:
        store.put_many({b"later": b"news"})
        assert child.wait() == (b"news", 0)


def test_a_child_refuses_to_write_through_what_it_inherited(store: LmdbStore) -> None:
    def write() -> str:
        refusals: list[str] = []
        for change in (
            lambda: store.put_many({b"b": b"2"}),
            lambda: store.swap({b"a": b"1"}, {b"a": b"2"}),
            lambda: store.delete_many([b"a"]),
        ):
            with pytest.raises(StoreUnavailableError) as caught:
                change()
            refusals.append(str(caught.value))
        assert len(set(refusals)) == 1
        return refusals[0]

    assert "is a fork of the one that opened it" in in_child(write)
    assert store.get_many([b"a"]) == {b"a": b"1"}


def test_a_child_that_opens_it_again_may_write(store: LmdbStore) -> None:
    def write() -> str:
        mine = LmdbStore(store.path)
        mine.swap({b"a": b"1"}, {b"a": b"child"}, {b"object": bytes(300_000)})
        seen = store.get_many([b"a"])[b"a"].decode()
        mine.close()
        store.close()
        return seen

    assert in_child(write) == "child"
    assert store.get_many([b"a"]) == {b"a": b"child"}
    assert store.swap({b"a": b"child"}, {b"a": b"parent"})


def test_a_child_of_a_child_reads_too(store: LmdbStore) -> None:
    assert in_child(lambda: in_child(lambda: store.get_many([b"a"])[b"a"].decode())) == "1"


def test_closing_in_a_child_leaves_the_parent_its_store(store: LmdbStore) -> None:
    in_child(store.close)
    assert store.swap({b"a": b"1"}, {b"a": b"2"})


def _busy(store: LmdbStore, done: threading.Event, thread: int) -> int:
    rng = random.Random(thread)
    writes = 0
    while not done.is_set():
        store.put_many({b"%d.%d" % (thread, writes): rng.randbytes(30_000)})
        store.view_many([b"a", b"big"], lambda _, view: bytes(view[:10]))
        store.delete_many([b"%d.%d" % (thread, writes - 5)])
        writes += 1
    return writes


@pytest.mark.parametrize("forks", [10, pytest.param(400, marks=pytest.mark.slow)])
def test_forking_while_threads_write_hangs_nobody(store: LmdbStore, forks: int) -> None:
    def child(number: int) -> str:
        assert store.get_many([b"a"]) == {b"a": b"1"}
        mine = LmdbStore(store.path)
        mine.swap({b"by child": b"%d" % (number - 1) if number else None}, {b"by child": b"%d" % number})
        mine.close()
        return "ok"

    done = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        threads = [pool.submit(_busy, store, done, i) for i in range(3)]
        try:
            answers = [in_child(partial(child, number)) for number in range(forks)]
        finally:
            done.set()
        assert all(thread.result() > 0 for thread in threads)
    assert answers == ["ok"] * forks
    assert store.get_many([b"by child"]) == {b"by child": b"%d" % (forks - 1)}


def test_a_child_forked_inside_a_visit_is_told_so(store: LmdbStore) -> None:
    def read() -> str:
        with pytest.raises(StoreUnavailableError) as caught:
            store.get_many([b"a"])
        return str(caught.value)

    answers: list[str] = []
    store.view_many([b"a"], lambda *_: answers.append(in_child(read)))
    assert "forked in the middle of a transaction" in answers[0]
    assert in_child(lambda: store.get_many([b"a"])[b"a"].decode()) == "1"
