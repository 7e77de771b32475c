"""A store that has become large says so, once, and is not asked at every cell."""

from __future__ import annotations

import pytest

from agent_kernel.session import history
from agent_kernel.storage import MemoryStore, StoreSize


class Sized(MemoryStore):
    """A store that says how large it is, and how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.held = 0
        self.asked = 0

    def size(self) -> StoreSize:
        self.asked += 1
        return StoreSize(self.held, self.held, 1)


@pytest.fixture
def store() -> Sized:
    return Sized()


def test_a_large_store_is_told_of_once_and_again_when_it_doubled(store: Sized) -> None:
    watch = history.Growth()
    said: list[str] = []
    for held in (1, 9, 11, 15, 21, 25):
        store.held = held * 1_000_000_000
        said.append(watch.notice(store, 1_000_000_000))
    assert [bool(line) for line in said] == [False, False, True, False, False, True]
    assert said[2].startswith("the history takes 11")


def test_small_commits_do_not_ask_each_time(store: Sized) -> None:
    watch = history.Growth()
    for _ in range(100):
        watch.notice(store, 1_000)
    assert store.asked == 1


def test_a_large_commit_asks_at_once(store: Sized) -> None:
    watch = history.Growth()
    watch.notice(store, 1_000)
    store.held = history.FIRST_BYTES
    assert watch.notice(store, 5_000_000)
