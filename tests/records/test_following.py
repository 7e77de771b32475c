"""What is known of a collection is kept up to date by reading what changed, and nothing that changed is missed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.records.collection import Follower, Records, transaction
from agent_kernel.records.lines import DELETED, StoreLine


class Item(ak.Record):
    number: int = 0


@pytest.fixture(params=["branch", "store", "session"])
def items(request: pytest.FixtureRequest, repo: ak.Repository) -> Iterator[Records[Item]]:
    if request.param == "session":
        with ak.Versioned(repo):
            yield repo.records(Item)
    else:
        yield Records(repo, Item, plane=request.param)


def rows(items: Records[Item]) -> dict[str, bytes]:
    start = len(items.prefix)
    return {key[start:]: raw for key, raw in items.line().scan(items.prefix)}


def test_each_look_gives_what_changed_since_the_one_before(items: Records[Item]) -> None:
    items.put(Item(id="before"))
    follower = Follower(items, keeps_rows=True)
    assert set(follower.look()) == {"before"}
    assert follower.look() == {}
    steps: list[tuple[Callable[[], object], set[str]]] = [
        (lambda: items.put(Item(id="new")), {"new"}),
        (lambda: items.update("before", number=1), {"before"}),
        (lambda: [items.update("new", number=n) for n in (1, 2, 3)], {"new"}),
        (lambda: items.delete("new"), {"new"}),
        (lambda: [items.put(Item(id="new")), items.delete("before")], {"new", "before"}),
        (lambda: [items.put(Item(id="a")), items.delete("a")], set()),
        (lambda: None, set()),
    ]
    for act, expected in steps:
        act()
        assert set(follower.look()) == expected
        assert follower.known == rows(items)


def test_a_look_reads_what_changed_and_no_more(items: Records[Item], monkeypatch: pytest.MonkeyPatch) -> None:
    with transaction(items.repo):
        for number in range(300):
            items.put(Item(id=f"r{number}"))
    follower = Follower(items)
    follower.look()
    items.update("r7", number=1)

    def scan(*_: object) -> Iterator[tuple[str, bytes]]:
        raise AssertionError("it reads all of them")

    monkeypatch.setattr(type(items.line()), "_scan", scan)
    assert set(follower.look()) == {"r7"}


def test_only_ids_that_fit_are_known(items: Records[Item]) -> None:
    follower = Follower(items, "web/", lambda id: not id.endswith("x"))
    for id in ("web/1", "web/x", "other/1"):
        items.put(Item(id=id))
    assert set(follower.look()) == {"web/1"}
    items.update("other/1", number=2)
    items.update("web/x", number=2)
    assert follower.look() == {}


def test_a_checkout_changes_what_is_there(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        items = repo.records(Item)
        items.put(Item(id="a"))
        state.commit("a")
        follower = Follower(items, keeps_rows=True)
        follower.look()
        items.put(Item(id="b"))
        assert set(follower.look()) == {"b"}
        state.session.undo()
        assert set(follower.look()) == {"b"}
        assert follower.known == rows(items)
        state.session.switch("other", create=True)
        items.put(Item(id="c"))
        follower.look()
        state.session.switch("main")
        assert set(follower.look()) == {"c"}
        assert follower.known == rows(items)


def test_what_waits_to_be_stored_is_known_and_stays_known_when_it_is(repo: ak.Repository) -> None:
    class Counter(ak.Record):
        coalesce_s = 30.0
        plane = "store"
        number: int = 0

    counters = repo.records(Counter)
    counters.put(Counter(id="a"))
    follower = Follower(counters, keeps_rows=True)
    follower.look()
    counters.update("a", number=1)
    assert set(follower.look()) == {"a"}
    counters.line().flush()
    follower.look()  # its time is that of storing it
    assert follower.known == {
        id: counters.line().read([f"{counters.prefix}{id}"])[f"{counters.prefix}{id}"] for id in "a"
    }


def test_changes_of_other_processes_and_threads_are_all_found(repo: ak.Repository, tmp_path: Path) -> None:
    items = Records(repo, Item, plane="store")
    heard: dict[str, int] = {}
    code = """import sys, agent_kernel as ak
class Item(ak.Record):
    number: int = 0
with ak.open(sys.argv[1]) as repo:
    items = ak.records.Records(repo, Item, plane="store")
    for number in range(1, 101):
        items.put(Item(id=f"{sys.argv[2]}{number % 7}", number=number))"""
    with items.watch("*", lambda change: heard.update({change.id: change.new.number})):  # type: ignore[union-attr]
        others = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "store"), name]) for name in "ab"]
        threads = [
            threading.Thread(target=lambda n=n: [items.put(Item(id=f"t{n}", number=i)) for i in range(1, 51)])
            for n in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [other.wait(60) for other in others] == [0, 0]
        expected = {id: item.number for id, item in items.items()}
        until = time.monotonic() + 5
        while heard != expected and time.monotonic() < until:
            time.sleep(0.02)
    assert heard == expected


def test_the_index_of_changes_does_not_grow_with_changes_nor_for_ever_with_deletions(
    repo: ak.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = Records(repo, Item, plane="store")
    for number in range(20):
        items.put(Item(id="a", number=number))
    assert len(repo.store.keys(b"n/c/", limit=100)) == 1
    assert items.newest() == ["a"]
    monkeypatch.setattr("agent_kernel.records.lines._DELETED_NS", 0)
    for number in range(20):
        items.put(Item(id=f"b{number}"))
        items.delete(f"b{number}")
    assert len(repo.store.keys(DELETED, limit=100)) <= 2
    assert isinstance(items.line(), StoreLine)


def test_what_became_visible_late_is_found_by_reading_all_again(
    repo: ak.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = Records(repo, Item, plane="store")
    follower = Follower(items)
    items.put(Item(id="now"))
    follower.look()
    old = time.time_ns() - 3_600 * 10**9
    with monkeypatch.context() as clock:
        clock.setattr("agent_kernel.records.lines.time.time_ns", lambda: old)
        items.put(Item(id="of an hour ago"))
    items.put(Item(id="later"))
    assert set(follower.look()) == {"later"}
    monkeypatch.setattr("agent_kernel.records.lines.WHOLE_S", 0.0)
    monkeypatch.setattr("agent_kernel.records.collection.WHOLE_S", 0.0)
    assert set(follower.look()) == {"of an hour ago"}


def test_what_happens_while_the_clock_is_set_back_is_found_at_once(
    repo: ak.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = Records(repo, Item, plane="store")
    follower = Follower(items)
    for id in ("before", "changed"):
        items.put(Item(id=id))
    follower.look()
    now = time.time_ns
    for hours in (-1, -2, 0):
        monkeypatch.setattr(
            "agent_kernel.records.lines.time.time_ns", lambda hours=hours: now() + hours * 3_600 * 10**9
        )
        items.put(Item(id=f"new {hours}"))
        items.update("changed", number=hours)
        items.put(Item(id="gone"))
        assert set(follower.look()) == {f"new {hours}", "changed", "gone"}
        items.delete("gone")
        assert set(follower.look()) == {"gone"}
        assert follower.look() == {}
