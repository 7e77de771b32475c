"""What a program was told is stored is stored: in parts of transactions, in tasks, while updates wait, and for who cannot read it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import agent_kernel as ak


class Note(ak.Record):
    text: str = ""


class Job(ak.Record):
    plane = "store"
    done: int = 0


class Meter(ak.Record):
    coalesce_s = 30.0
    n: int = 0


class StoreMeter(ak.Record):
    plane = "store"
    coalesce_s = 30.0
    n: int = 0


BOTH = pytest.mark.parametrize("model", [Note, Job])


def _fail_within(memory: ak.Repository, act: Callable[[], object]) -> None:
    with memory.transaction():
        act()
        raise RuntimeError


def _in_thread(act: Callable[[], object]) -> None:
    thread = Thread(target=act)
    thread.start()
    thread.join()


@BOTH
def test_a_part_of_a_transaction_that_fails_leaves_nothing_behind(memory: ak.Repository, model: type[Any]) -> None:
    records = memory.records(model)
    with memory.transaction():
        records.put(model(id="outer"))
        with pytest.raises(RuntimeError):
            _fail_within(memory, lambda: records.put(model(id="half")))
        records.put(model(id="after"))
    assert sorted(records) == ["after", "outer"]


def test_the_first_part_of_a_transaction_can_fail_alone(memory: ak.Repository) -> None:
    notes = memory.records(Note)
    with memory.transaction():
        with pytest.raises(RuntimeError):
            _fail_within(memory, lambda: notes.put(Note(id="half")))
        notes.put(Note(id="after"))
    assert list(notes) == ["after"]


@BOTH
def test_a_task_begun_in_a_transaction_stores_by_itself(memory: ak.Repository, model: type[Any]) -> None:
    records = memory.records(model)

    async def put_later(go: asyncio.Event) -> None:
        await go.wait()
        records.put(model(id="background"))

    async def main() -> None:
        go = asyncio.Event()
        with memory.transaction():
            records.put(model(id="foreground"))
            task = asyncio.create_task(put_later(go))
            await asyncio.sleep(0)
        go.set()
        await task

    asyncio.run(main())
    assert sorted(records) == ["background", "foreground"]


def test_a_thread_that_a_transaction_waits_for_is_a_part_of_it(memory: ak.Repository) -> None:
    notes = memory.records(Note)

    async def main() -> None:
        with memory.transaction():
            await asyncio.to_thread(notes.put, Note(id="a"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        asyncio.run(main())
    assert not notes


def test_a_thread_that_outlives_a_transaction_stores_by_itself(memory: ak.Repository) -> None:
    notes = memory.records(Note)
    go = Event()

    def put_later() -> None:
        go.wait()
        notes.put(Note(id="background"))

    with memory.transaction():
        notes.put(Note(id="foreground"))
        thread = Thread(target=contextvars.copy_context().run, args=(put_later,))
        thread.start()
    go.set()
    thread.join()
    assert sorted(notes) == ["background", "foreground"]


@BOTH
def test_a_transaction_notices_a_record_that_came_while_it_counted(memory: ak.Repository, model: type[Any]) -> None:
    records = memory.records(model)

    def count() -> None:
        with memory.transaction():
            many = len(records)
            _in_thread(lambda: records.put(model(id="other")))
            records.put(model(id=f"after-{many}"))

    with pytest.raises(ak.TransactionConflictError, match="run it again"):
        count()
    assert list(records) == ["other"]


def test_an_update_that_fails_when_it_is_done_again_hinders_no_other(
    repo: ak.Repository, caplog: pytest.LogCaptureFixture
) -> None:
    meters = repo.records(StoreMeter)
    for id in ("a", "b"):
        meters.put(StoreMeter(id=id))

    def change(meter: StoreMeter) -> StoreMeter:
        if meter.n == 99:
            raise KeyError("mine")
        return meter.model_copy(update={"n": 1})

    meters.update("b", n=7)
    meters.update("a", change)
    with ak.open(repo.store.url.removeprefix("lmdb://")) as other:
        other.records(StoreMeter).update("a", n=99)
        other.close()
    with caplog.at_level(logging.WARNING):
        repo.records(Job).put(Job(id="x"))
    assert (meters["a"].n, meters["b"].n) == (99, 7)
    assert "left out: KeyError" in caplog.text


def test_a_change_that_expects_a_version_does_not_wait(repo: ak.Repository) -> None:
    meters = repo.records(StoreMeter)
    meters.put(StoreMeter(id="a"))
    meters.put(StoreMeter(id="a", n=1), expect=1)
    with ak.open(repo.store.url.removeprefix("lmdb://")) as other:
        assert other.records(StoreMeter)["a"].n == 1


def test_updates_that_wait_are_stored_as_the_session_closes(repo: ak.Repository) -> None:
    meters = repo.records(Meter)
    with ak.Versioned(repo):
        meters.put(Meter(id="c"))
        meters.update("c", n=9)
    assert repo.records(Meter)["c"].n == 9


def test_updates_that_wait_stay_with_the_commit_they_were_made_on(repo: ak.Repository) -> None:
    meters = repo.records(Meter)
    with ak.Versioned(repo) as state:
        meters.put(Meter(id="c", n=1))
        state["x"] = 1
        state.commit("first")
        repo.create_tag("one", repo.resolve("HEAD"))
        meters.update("c", n=3)
        state["x"] = 2
        state.checkout("one")
        assert meters["c"].n == 1
        state.undo()
        assert meters["c"].n == 3


def test_updates_that_wait_are_part_of_the_next_commit(repo: ak.Repository) -> None:
    meters = repo.records(Meter)
    with ak.Versioned(repo) as state:
        meters.put(Meter(id="c"))
        state["x"] = 1
        state.commit("one")
        meters.update("c", n=2)
        state["x"] = 2
        state.commit("two")
        assert [commit.message for _, commit in state.history()] == ["two", "one"]
        state.undo()
        assert (state["x"], meters["c"].n) == (1, 0)


@BOTH
def test_a_record_deleted_and_put_in_one_transaction_has_a_new_version(memory: ak.Repository, model: type[Any]) -> None:
    records = memory.records(model)
    for _ in range(3):
        records.put(model(id="a"))
    with memory.transaction():
        records.delete("a")
        records.put(model(id="a"))
    assert records.version("a") == 4
    assert [change.version for change in records.history("a")] == [4, 3, 2, 1]
    with pytest.raises(ak.StaleRecordError):
        records.put(model(id="a"), expect=3)


def test_who_cannot_decrypt_a_record_cannot_delete_it(memory: ak.Repository) -> None:
    pytest.importorskip("cryptography")
    memory.records(Job, secret="mine").put(Job(id="a"))
    for records in (memory.records(Job), memory.records(Job, secret="other")):
        with pytest.raises(ak.SealedRecordError):
            records.delete("a")
    assert memory.records(Job, secret="mine").delete("a")


def test_an_older_program_deletes_nothing_that_a_newer_one_made(memory: ak.Repository) -> None:
    class Newer(ak.Record):
        collection = "Note"
        schema_version = 3

    memory.records(Newer).put(Newer(id="a"))
    with pytest.raises(ak.NewerRecordError):
        memory.records(Note).delete("a")
    assert "a" in memory.records(Newer)


_FORK = """
import os, sys, threading
import agent_kernel as ak

class Meter(ak.Record):
    coalesce_s = 30.0
    n: int = 0

class StoreMeter(Meter):
    plane = "store"

url, way = sys.argv[1:]
with ak.open(url) as repo:
    both = repo.records(Meter), repo.records(StoreMeter)
    for meters, model in zip(both, (Meter, StoreMeter)):
        meters.put(model(id="a"))
        meters.update("a", n=1)
    if way == "while a thread has the lock":
        entered, leave = threading.Event(), threading.Event()
        def hold():
            for meters in both:
                meters.line()._lock.acquire()
            entered.set()
            leave.wait()
            for meters in both:
                meters.line()._lock.release()
        holder = threading.Thread(target=hold)
        holder.start()
        entered.wait()
    child = os.fork()
    if not child:
        known = [meters["a"].n for meters in both]
        if url == "memory:":
            for meters in both:
                meters.update("a", n=7)
            known = [meters["a"].n for meters in both]
        sys.exit(0 if known == ([7, 7] if url == "memory:" else [0, 0]) else 5)
    if way != "as it is":
        leave.set()
        holder.join()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for meters in both:
        meters.update("a", lambda old: setattr(old, "n", old.n + 1))
    print(status, *(meters["a"].n for meters in both))
if url != "memory:":
    with ak.open(url) as repo:
        print(repo.records(Meter)["a"].n, repo.records(StoreMeter)["a"].n)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("way", ["as it is", "while a thread has the lock"])
@pytest.mark.parametrize("where", ["store", "memory:"])
def test_what_waits_is_its_process_s_and_no_fork_s(tmp_path: Path, where: str, way: str) -> None:
    url = where if where == "memory:" else str(tmp_path / where)
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", _FORK, url, way]
    found = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (found.stdout.split(), found.stderr) == (["0", "2", "2"] + (["2", "2"] if where == "store" else []), "")
