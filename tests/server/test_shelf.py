"""Stores that are being looked at: by ids that say nothing, by threads that hold nobody up, closed when left alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from agent_kernel.server.problems import ProblemError
from agent_kernel.server.shelf import Shelf, Shelved
from tests.server.servers import run


@pytest.fixture
def shelf() -> Generator[Shelf]:
    made = Shelf(lambda folder: None, idle_s=0.2)
    yield made
    made.close()


def store(folder: Path) -> Path:
    run(folder, "x = 1")
    return folder


def version(shelved: Shelved) -> str:
    return shelved.reader.version()


def test_an_id_is_the_same_for_one_server_and_another_for_the_next(shelf: Shelf, tmp_path: Path) -> None:
    other = Shelf(lambda folder: None)
    assert shelf.id_of(tmp_path) == shelf.id_of(tmp_path)
    assert shelf.id_of(tmp_path) != shelf.id_of(tmp_path / "b")
    assert shelf.id_of(tmp_path) != other.id_of(tmp_path)
    other.close()


def test_an_id_that_was_not_given_opens_nothing(shelf: Shelf) -> None:
    with pytest.raises(ProblemError) as raised:
        asyncio.run(shelf.ask("0" * 32, version))
    assert (raised.value.status, raised.value.code) == (404, "gone")


def test_a_slow_question_holds_up_neither_the_server_nor_other_stores(shelf: Shelf, tmp_path: Path) -> None:
    slow, quick = shelf.id_of(store(tmp_path / "slow")), shelf.id_of(store(tmp_path / "quick"))
    done = threading.Event()
    running: list[int] = []

    def wait(shelved: Shelved) -> None:
        running.append(1)
        assert done.wait(30)

    async def ask() -> None:
        waiting = [asyncio.ensure_future(shelf.ask(slow, wait)) for _ in range(6)]
        assert await shelf.ask(quick, version)
        assert len(running) <= 2, "one store leaves threads for the others"
        done.set()
        await asyncio.gather(*waiting)

    asyncio.run(ask())
    assert len(running) == 6


def test_a_store_is_open_while_it_is_asked_and_closed_a_while_after(shelf: Shelf, tmp_path: Path) -> None:
    id = shelf.id_of(store(tmp_path / "store"))

    async def ask() -> None:
        for _ in range(4):
            await shelf.ask(id, version)
            await asyncio.sleep(0.1)
            assert shelf.open_stores() == 1
        for _ in range(100):
            await asyncio.sleep(0.05)
            if not shelf.open_stores():
                break
        assert shelf.open_stores() == 0
        assert await shelf.ask(id, version), "and opened again"

    asyncio.run(ask())


def test_a_store_may_be_looked_at_only_as_long_as_it_may(tmp_path: Path) -> None:
    allowed = [True]

    def require(folder: Path) -> None:
        if not allowed[0]:
            raise ProblemError(403, "not any more")

    shelf = Shelf(require)
    id = shelf.id_of(store(tmp_path / "store"))
    assert asyncio.run(shelf.ask(id, version))
    allowed[0] = False
    with pytest.raises(ProblemError):
        asyncio.run(shelf.ask(id, version))
    shelf.close()
