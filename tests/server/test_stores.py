"""Stores that are being looked at: by ids that say nothing, by threads that hold nobody up, closed when left alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from agent_kernel.server import OpenStore, OpenStores, ProblemError
from tests.server.servers import run


@pytest.fixture
def stores() -> Generator[OpenStores]:
    made = OpenStores(lambda folder: None, idle_s=0.2)
    yield made
    made.close()


def store(folder: Path) -> Path:
    run(folder, "x = 1")
    return folder


def version(store: OpenStore) -> str:
    return store.reader.version()


def test_an_id_is_the_same_for_one_server_and_another_for_the_next(stores: OpenStores, tmp_path: Path) -> None:
    other = OpenStores(lambda folder: None)
    assert stores.id_of(tmp_path) == stores.id_of(tmp_path)
    assert stores.id_of(tmp_path) != stores.id_of(tmp_path / "b")
    assert stores.id_of(tmp_path) != other.id_of(tmp_path)
    other.close()


def test_an_id_that_was_not_given_opens_nothing(stores: OpenStores) -> None:
    with pytest.raises(ProblemError) as raised:
        asyncio.run(stores.ask("0" * 32, version))
    assert (raised.value.status, raised.value.code) == (404, "gone")


def test_a_slow_question_holds_up_neither_the_server_nor_other_stores(stores: OpenStores, tmp_path: Path) -> None:
    slow, quick = stores.id_of(store(tmp_path / "slow")), stores.id_of(store(tmp_path / "quick"))
    done = threading.Event()
    running: list[int] = []

    def wait(store: OpenStore) -> None:
        running.append(1)
        assert done.wait(30)

    async def ask() -> None:
        waiting = [asyncio.ensure_future(stores.ask(slow, wait)) for _ in range(6)]
        assert await stores.ask(quick, version)
        assert len(running) <= 2, "one store leaves threads for the others"
        done.set()
        await asyncio.gather(*waiting)

    asyncio.run(ask())
    assert len(running) == 6


def test_slow_questions_to_many_stores_hold_up_no_other_store_and_not_what_is_quick(tmp_path: Path) -> None:
    stores = OpenStores(lambda folder: None)
    slow = [stores.id_of(store(tmp_path / f"slow{number}")) for number in range(4)]
    quick = stores.id_of(store(tmp_path / "quick"))
    done = threading.Event()

    async def ask() -> None:
        waiting = [asyncio.ensure_future(stores.ask(id, lambda _: done.wait(30))) for id in slow for _ in range(3)]
        await asyncio.sleep(0.2)
        assert await asyncio.wait_for(stores.ask(quick, version), 10)
        assert await asyncio.wait_for(stores.ask(slow[0], version, is_quick=True), 10)
        assert await asyncio.wait_for(stores.run(lambda: 7), 10) == 7
        done.set()
        await asyncio.gather(*waiting)

    asyncio.run(ask())
    stores.close()


def test_whoever_waits_too_long_is_told_so_and_the_store_stays_open_until_it_has_answered(tmp_path: Path) -> None:
    stores = OpenStores(lambda folder: None, idle_s=0.1, answer_s=0.2)
    id, done, answered = stores.id_of(store(tmp_path / "slow")), threading.Event(), list[str]()

    def wait(store: OpenStore) -> None:
        assert done.wait(30)
        answered.append(version(store))

    async def ask() -> None:
        for asked in [stores.ask(id, wait) for _ in range(3)]:  # the third finds no place
            with pytest.raises(ProblemError) as raised:
                await asked
            assert (raised.value.status, raised.value.code) == (503, "failed")
            assert raised.value.retry_s > 0
            assert "too long" in raised.value.message
        await asyncio.sleep(0.5)
        assert stores.open_stores() == 1
        done.set()
        for _ in range(200):
            await asyncio.sleep(0.05)
            if not stores.open_stores():
                break
        assert len(answered) == 3

    asyncio.run(ask())
    stores.close()


def test_no_more_than_some_stores_are_open_and_those_at_rest_give_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_kernel.server._MOST_OPEN", 2)
    stores = OpenStores(lambda folder: None)
    ids = [stores.id_of(store(tmp_path / f"store{number}")) for number in range(3)]
    done = threading.Event()

    async def ask() -> None:
        for id in ids:
            assert await stores.ask(id, version)
        assert stores.open_stores() == 2
        waiting = [asyncio.ensure_future(stores.ask(id, lambda _: done.wait(30))) for id in ids[1:]]
        await asyncio.sleep(0.2)
        with pytest.raises(ProblemError) as raised:
            await stores.ask(ids[0], version)
        assert raised.value.status == 503
        done.set()
        await asyncio.gather(*waiting)

    asyncio.run(ask())
    stores.close()


def test_a_store_is_open_while_it_is_asked_and_closed_a_while_after(stores: OpenStores, tmp_path: Path) -> None:
    id = stores.id_of(store(tmp_path / "store"))

    async def ask() -> None:
        for _ in range(4):
            await stores.ask(id, version)
            await asyncio.sleep(0.1)
            assert stores.open_stores() == 1
        for _ in range(100):
            await asyncio.sleep(0.05)
            if not stores.open_stores():
                break
        assert stores.open_stores() == 0
        assert await stores.ask(id, version), "and opened again"

    asyncio.run(ask())


def test_a_store_may_be_looked_at_only_as_long_as_it_may(tmp_path: Path) -> None:
    allowed = [True]

    def require(folder: Path) -> None:
        if not allowed[0]:
            raise ProblemError(403, "not any more")

    stores = OpenStores(require)
    id = stores.id_of(store(tmp_path / "store"))
    assert asyncio.run(stores.ask(id, version))
    allowed[0] = False
    with pytest.raises(ProblemError):
        asyncio.run(stores.ask(id, version))
    stores.close()
