"""What threads write beside a session is where it belongs, once, however HEAD moves meanwhile; and nobody waits for ever."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from types import ModuleType

import pytest

import agent_kernel as ak
from agent_kernel.errors import StoreFullError
from agent_kernel.records import Change

SECONDS = 0.4


class Note(ak.Record):
    text: str = ""


class Job(ak.Record):
    plane = "store"
    n: int = 0


class Meter(ak.Record):
    coalesce_s = 0.01
    branch: str
    n: int = 0


@pytest.fixture(autouse=True)
def often_switched() -> Generator[None]:
    """Threads take turns a thousand times as often as they do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


@contextmanager
def at_the_same_time(act: Callable[[], object]) -> Generator[list[BaseException]]:
    """Do something again and again on another thread; what it raised ends it."""
    is_over, raised = Event(), list[BaseException]()

    def work() -> None:
        try:
            while not is_over.is_set():
                act()
                sleep(0.0005)
        except BaseException as error:
            raised.append(error)

    thread = Thread(target=work)
    thread.start()
    try:
        yield raised
    finally:
        is_over.set()
        thread.join(30)
        assert not thread.is_alive()
    assert raised == []


def for_a_while() -> Iterator[int]:
    until, number = monotonic() + SECONDS, 0
    while monotonic() < until:
        number += 1
        yield number


def test_no_update_is_lost_while_another_thread_commits(repo: ak.Repository) -> None:
    state, items, counted = repo.state("ada"), repo.list("items", plane="branch"), list[int]()

    def write() -> None:
        counted.append(state.count("n"))
        items.append(len(counted))

    with ak.Versioned(repo) as variables:
        with at_the_same_time(write):
            for number in for_a_while():
                variables["x"] = number
                variables.commit(str(number))
        assert counted == [*range(1, len(counted) + 1)]
        assert (state.get("n"), items.items()) == (len(counted), counted)


def test_what_a_thread_writes_is_on_the_branch_that_it_was_written_to(repo: ak.Repository) -> None:
    numbers = repo.list("numbers", plane="branch")
    written = list[int]()

    def write() -> None:
        numbers.append(len(written))
        written.append(len(written))

    with ak.Versioned(repo) as variables:
        numbers.append("main")
        variables["x"] = 1
        variables.commit("here")
        repo.create_branch("idea", repo.resolve("HEAD"))
        variables.checkout("idea")
        numbers.replace_tail(0, ["idea"])
        variables.commit("there")
        with at_the_same_time(write):
            for number in for_a_while():
                variables.checkout("main" if number % 2 else "idea")
    here, there = (repo.list("numbers", plane="branch", branch=name).items() for name in ("main", "idea"))
    assert (here[0], there[0]) == ("main", "idea")
    assert sorted([*here[1:], *there[1:]]) == written


def test_updates_that_wait_are_on_the_branch_that_they_were_made_on(repo: ak.Repository) -> None:
    meters, made = repo.records(Meter), Counter[str]()

    def write() -> None:
        made[meters.update("a", lambda meter: setattr(meter, "n", meter.n + 1)).branch] += 1

    with ak.Versioned(repo) as variables:
        meters.put(Meter(id="a", branch="main"))
        variables["x"] = 1
        variables.commit("here")
        repo.create_branch("idea", repo.resolve("HEAD"))
        variables.checkout("idea")
        meters.update("a", branch="idea")
        variables.commit("there")
        with at_the_same_time(write):
            for number in for_a_while():
                variables.checkout("main" if number % 2 else "idea")
    assert made == Counter({name: repo.records(Meter, branch=name)["a"].n for name in ("main", "idea")})


def test_undo_takes_back_records_too_while_a_thread_writes_others(repo: ak.Repository) -> None:
    items, state = repo.list("items", plane="branch"), repo.state("ada")
    with ak.Versioned(repo) as variables:
        variables["x"] = 0
        state.set("x", 0)
        variables.commit("the start")
        with at_the_same_time(lambda: items.append("more")):
            for number in for_a_while():
                variables["x"] = number
                items.append(f"item {number}")
                state.set("x", number)
                variables.commit(str(number))
                variables.undo()
                if variables["x"] == number - 1:  # otherwise it took back what the thread had written last
                    assert f"item {number}" not in items.items()
                    assert state.get("x") == number - 1
                variables["x"] = number
                state.set("x", number)
                variables.commit("again")


def test_what_put_returned_from_is_stored_while_another_thread_commits(tmp_path: Path) -> None:
    with ak.open(tmp_path / "store") as repo, ak.Versioned(repo) as variables, ak.open(tmp_path / "store") as other:
        notes, seen, count = repo.records(Note), other.records(Note, branch="main"), list[int]()
        variables["x"] = b""
        variables.commit("the start")

        def write() -> None:
            notes.put(Note(id=str(len(count))))
            assert str(len(count)) in seen
            count.append(1)

        with at_the_same_time(write):
            for number in for_a_while():
                variables["x"] = bytes([number % 256]) * 1_000_000
                variables.commit(str(number))
        assert count


def test_a_write_that_raises_leaves_nothing_to_be_stored_later(
    repo: ak.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = repo.list("items", plane="branch")
    with ak.Versioned(repo) as variables:
        items.append("first")

        def refuse(*_: object, **__: object) -> None:
            raise StoreFullError(repo.store.url)

        with monkeypatch.context() as full:
            full.setattr(type(repo.pointers), "change", refuse)
            with pytest.raises(StoreFullError):
                items.append("second")
        assert items.items() == ["first"]
        items.append("second")
        variables.commit("one more")
        assert items.items() == ["first", "second"]


def test_a_list_of_records_is_that_of_one_moment_while_a_thread_writes(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as variables:
        notes = repo.records(Note)
        notes.put(Note(id="0"))

        def swap_both() -> None:
            old = next(notes.ids())
            with repo.transaction():
                notes.delete(old)
                notes.put(Note(id="1" if old == "0" else "0"))

        with at_the_same_time(swap_both):
            for number in for_a_while():
                assert (len(notes), len(notes.find())) == (1, 1)
                variables["x"] = number
                variables.commit(str(number))


def test_a_reader_sees_no_half_of_a_transaction_of_another_process(tmp_path: Path) -> None:
    with ak.open(tmp_path / "store") as repo, ak.open(tmp_path / "store") as other:
        jobs, state = repo.records(Job), repo.state("ada", plane="store")
        seen, seen_state = other.records(Job), other.state("ada", plane="store")
        jobs.put(Job(id="0"))
        state.replace({"0": 1})

        def write() -> None:
            old = next(jobs.ids())
            new = "1" if old == "0" else "0"
            with repo.transaction():
                jobs.delete(old)
                jobs.put(Job(id=new))
            state.replace({new: 1})

        with at_the_same_time(write):
            for _ in for_a_while():
                assert (len(seen), len(seen.find("*")), len(seen_state.get_all())) == (1, 1, 1)


def test_watchers_that_write_do_not_wait_for_each_other(repo: ak.Repository) -> None:
    jobs, told = repo.records(Job), list[str]()

    def answer(change: Change[Job]) -> None:
        if change.new is not None and change.new.n < 2:
            sleep(0.005)
            jobs.put(Job(id=f"{change.id}{change.new.n}", n=change.new.n + 1))
        told.append(change.id)

    with ak.open(repo.store.url) as other, jobs.watch("a*", answer), jobs.watch("*", answer):
        for number in range(20):
            (jobs if number % 2 else other.records(Job)).put(Job(id=f"a{number}-"))
        until = monotonic() + 20
        while len({id for id in told if len(id.partition("-")[2]) == 2}) < 20 and monotonic() < until:
            sleep(0.01)
    assert len({id for id in told if len(id.partition("-")[2]) == 2}) == 20


def test_a_program_that_imports_asyncio_at_that_moment_stores_all_the_same(
    repo: ak.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another thread imports it, `sys.modules` has it without its functions."""
    monkeypatch.setitem(sys.modules, "asyncio", ModuleType("asyncio"))
    jobs = repo.records(Job)
    with repo.transaction():
        jobs.put(Job(id="a"))
        jobs.update("a", n=1)
    assert jobs["a"].n == 1
    with ak.Versioned(repo) as state:
        state["x"] = 1
        assert state.commit("with x") is not None
