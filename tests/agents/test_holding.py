"""A run is driven by one living loop at a time; who died holds nothing, and a run that waits is held by nobody."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import agent_kernel as ak
from agent_kernel.agents import approval, event_log
from agent_kernel.agents.agent import reopen_run
from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.events import Action, Cancelled, Event, Output, StepStart, Success, TaskStart
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.agents.run import Run, Trial, measure
from agent_kernel.commands.places import copy_store
from agent_kernel.mcp.tools import Steps
from agent_kernel.queries.listing import where_stopped
from agent_kernel.repository import Holder, hex_of
from agent_kernel.storage import LmdbStore

# Its model says that it is asked, and answers when it is told to.
CHILD = """
import sys
import agent_kernel as ak

def answer(request):
    print("asked", flush=True)
    sys.stdin.readline()
    return "x = 1" if request.turn == 0 else "task.success(x)"

run = ak.Agent("ada", model=ak.FunctionModel(answer), state=ak.Versioned(sys.argv[1])).start("count")
print(run.id, flush=True)
print(run.result(), flush=True)
"""


@contextmanager
def driving(tmp_path: Path) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A process that drives a run, and waits for its model."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", CHILD, str(tmp_path / "store")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as child:
        assert child.stdout is not None
        run = child.stdout.readline().strip()
        assert child.stdout.readline() == "asked\n"
        try:
            yield child, run
        finally:
            child.kill()


def begun(*turns: str, state: Any = None) -> Run[Any]:
    return ak.Agent("ada", model=ak.ScriptedModel(turns), state=state).start("go")


def again(run: Run[Any], *turns: str) -> Run[Any]:
    """Another handle of the same run."""
    place = ExecutionContext({}, event_store=run.event_store)
    return reopen_run(place, run.id, model=ak.ScriptedModel(["", *turns]))


def test_a_run_that_another_process_drives_is_refused_with_its_name_and_nothing_is_written(tmp_path: Path) -> None:
    with driving(tmp_path) as (child, id), closing(LmdbStore(tmp_path / "store")) as store:
        place = ExecutionContext({}, event_store=EventStore(store))
        run = reopen_run(place, id, model=ak.ScriptedModel(["task.success('mine')"]))
        before = store.data_version()
        who = f"is being driven by process {child.pid} on "
        for attempt in (
            run.result,
            run.resume,
            run.approve,
            run.deny,
            run.abandon,
            lambda: run.resume("hurry up"),
            lambda: run.resume(force=True),
            lambda: run.edit("x = 2"),
            lambda: approval.decide(approval.log_of(place.event_store, id), "approve"),
        ):
            with pytest.raises(ak.RunBusyError, match=who):
                attempt()
        assert store.data_version() == before
        assert approval.find_newest(place.event_store, ("interrupted", "stopped")) == ""
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("\n\n")
        child.stdin.flush()
        assert child.stdout.read() == "asked\n1\n"
        assert place.event_store.find_driver(id) is None


def test_a_run_that_ends_while_it_is_looked_at_is_not_taken_for_one_that_stopped(tmp_path: Path) -> None:
    with driving(tmp_path) as (child, id), closing(LmdbStore(tmp_path / "store")) as store:
        event_store = EventStore(store)
        read_before = tuple(event_store.of(id))
        assert approval.run_status(event_store, read_before) == "running"
        assert child.communicate("\n\n")[0] == "asked\n1\n"
        now = approval.run_status(event_store, tuple(event_store.of(id)))
        assert approval.run_status(event_store, read_before) == now == "completed"
        assert where_stopped(event_store, read_before) == ("", None)


def test_the_run_of_a_process_that_was_killed_is_taken_over(tmp_path: Path) -> None:
    with driving(tmp_path) as (child, id):
        with closing(LmdbStore(tmp_path / "store")) as store:
            event_store = EventStore(store)
            assert approval.run_status(event_store, tuple(event_store.of(id))) == "running"
        child.send_signal(signal.SIGKILL)
        child.wait()
    with ak.Versioned(tmp_path / "store") as state:
        event_store = EventStore(state.repo.store)
        assert approval.run_status(event_store, tuple(event_store.of(id))) == "stopped"
        assert approval.find_newest(event_store, ("interrupted", "stopped")) == id
        with pytest.raises(ak.RunStateError, match="is stopped: it cannot be approved or denied"):
            approval.decide(approval.log_of(event_store, id), "approve")
        place = ExecutionContext(state.session.namespace, state.session)
        assert reopen_run(place, id, model=ak.ScriptedModel(["task.success('mine')"])).result() == "mine"


def test_a_step_of_an_agent_outside_that_is_driven_elsewhere_is_left_alone(tmp_path: Path) -> None:
    with ak.Versioned(tmp_path / "store") as state:
        place = ExecutionContext(state.session.namespace, state.session)
        steps = Steps(lambda: place, agent="copilot", approve="risky", step_s=None, decides="")
        steps.run("import os\nos.remove('nowhere')", "look")
        (id,) = place.event_store.waiting()
        first = reopen_run(place, id).approve()
        loop = first.stream()
        next(loop)
        with pytest.raises(ak.RunBusyError, match="another loop of this process"):
            steps.result(id)
        list(loop)
        assert "FileNotFoundError" in steps.result(id)


def test_another_thread_of_the_same_process_is_refused_too() -> None:
    asked, go = threading.Event(), threading.Event()

    def answer(_: Any) -> str:
        asked.set()
        go.wait()
        return "task.success(1)"

    run = ak.Agent("ada", model=ak.FunctionModel(answer)).start("go")
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(run.result()))
    thread.start()
    asked.wait()
    try:
        with pytest.raises(ak.RunBusyError, match="another loop of this process"):
            again(run, "task.success(2)").result()
    finally:
        go.set()
        thread.join()
    assert found == [1]


@pytest.mark.parametrize("drive", ["result", "iterate", "halt"])
def test_a_listener_that_waits_for_its_own_run_is_told_that_the_run_is_on_its_way_right_there(drive: str) -> None:
    found: list[str] = []

    def told(event: Event) -> None:
        if isinstance(event, Action):
            with pytest.raises(ak.RunBusyError, match="driven by this very thread") as raised:
                ways[drive]()
            found.append(str(raised.value))
        elif isinstance(event, Success):
            found.append(run.result())

    run = ak.Agent("ada", model=ak.ScriptedModel(["task.success('done')"]), on_event=told).start("go")
    ways: dict[str, Callable[[], object]] = {"result": run.result, "iterate": lambda: list(run), "halt": run.halt}
    assert run.result() == "done"
    assert "a listener, or its own code, cannot wait for it" in found[0]
    assert found[1] == "done"


def test_awaiting_it_there_is_refused_too() -> None:
    refused: list[BaseException] = []

    def told(event: Event) -> None:
        if isinstance(event, Action):
            try:
                next(iter(run.__await__()))
            except ak.RunBusyError as error:
                refused.append(error)

    run = ak.Agent("ada", model=ak.ScriptedModel(["task.success(1)"]), on_event=told).start("go")

    async def main() -> int:
        found: int = await run
        return found

    assert asyncio.run(main()) == 1
    assert "this very thread" in str(refused[0])


def test_a_loop_that_is_held_open_drives_the_run_and_one_that_was_left_does_not() -> None:
    run = begun("x = 1", "task.success(x)")
    loop = iter(run)
    while not isinstance(next(loop), Action):
        pass
    other = again(run, "task.success(2)")
    with pytest.raises(ak.RunBusyError, match="another loop of this process"):
        other.result()
    del loop
    gc.collect()
    assert other.result() == 2
    with pytest.raises(ak.RunBusyError):  # what it knows is old
        run.result()
    assert [event.seq for event in run.event_store.of(run.id)] == list(range(len(other.events)))


def test_a_loop_that_was_left_goes_on_where_it_was() -> None:
    run = begun("x = 1", "task.success(x)")
    for event in run:
        if isinstance(event, StepStart):
            break
    assert run.event_store.find_driver(run.id) is None
    assert run.result() == 1
    assert [event.status for event in run.events if isinstance(event, Output)] == ["ok", "ok"]


def test_a_step_that_had_not_begun_as_its_loop_was_left_does_not_run_on_another_state() -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        state["n"] = 1
        state.commit("start")
        before = state.session.head
        run = ak.Agent("analyst", model=ak.ScriptedModel(["n = 10", "n += 1", "task.success(n)"]), state=state).start(
            "Count"
        )
        for event in run:
            if isinstance(event, Action) and event.step == 2:
                break
        assert before is not None
        state.checkout(hex_of(before))
        with pytest.raises(ak.RunElsewhereError, match="step 1 of run"):
            run.result()
        assert (state["n"], run.status) == (1, "running")
        (stopped,) = run.halt()
        assert isinstance(stopped, Cancelled)
        state.checkout("main")
        assert run.resume().result() == 11


def test_a_run_that_waits_is_held_by_nobody(tmp_path: Path) -> None:
    with ak.Versioned(tmp_path / "store") as state:
        run = begun("task.clarify('?')", "import os\nos.getcwd()\ntask.success(task)", state=state)
        list(run.stream())
        assert (run.status, run.event_store.find_driver(run.id)) == ("clarify", None)
        assert state.repo.store.keys(b"a/") == []


def test_deciding_within_the_loop_goes_on_holding_it() -> None:
    run = ak.Agent("ada", model=ak.ScriptedModel(["import os", "task.success(1)"]), approve="always").start("go")
    drivers: list[object] = []
    for _ in run:
        if run.status == "pending":
            _ = run.approve()
        if run.status == "running" and len(drivers) < 3:
            drivers.append(run.event_store.find_driver(run.id))
    assert run.status == "completed"
    assert drivers[0] is None  # the event of before
    assert None not in drivers[1:]


def test_runs_that_are_driven_together_are_held() -> None:
    def answer(_: Any) -> str:
        drivers.extend(event_store.find_driver(run) for run in event_store.runs())
        return "task.success(1)"

    drivers: list[Any] = []
    state = ak.Live()
    event_store = EventStore(state.beside)
    agent = ak.Agent("ada", model=ak.FunctionModel(answer), state=state)

    @agent.task
    def one(n: int) -> int:
        """Say one."""
        raise NotImplementedError

    assert one.map([1]) == [1]
    assert [driver.pid for driver in drivers] == [os.getpid()]
    assert measure({"one": Trial(one, (1,))}, [ak.ScriptedModel(["task.success(1)"])], times=2)[0].passed == 2


def test_a_run_that_is_awaited_is_held() -> None:
    run = begun("x = 1", "task.success(x)")

    async def awaited() -> object:
        async for event in run:
            if not isinstance(event, TaskStart) and run.status == "running":
                assert run.event_store.find_driver(run.id) is not None
        return await run

    assert asyncio.run(awaited()) == 1


def hold_from(run: Run[Any], holder: Holder) -> None:
    store = run.event_store._store
    assert store.swap({}, {event_log.key(run.id): msgspec.msgpack.encode(holder)})


def test_of_another_machine_nothing_is_known_and_a_person_says_that_it_has_ended() -> None:
    run = begun("task.success(1)")
    hold_from(run, Holder("elsewhere", "boot", 4711, "then", "loop"))
    said = "process 4711 on elsewhere, which may have ended .resume with force"
    with pytest.raises(ak.RunBusyError, match=said):
        run.result()
    with pytest.raises(ak.RunBusyError, match=said):
        _ = run.resume()
    assert run.resume(force=True).result() == 1


def test_collecting_garbage_takes_along_who_drove_a_run_that_is_gone(tmp_path: Path) -> None:
    with ak.Versioned(tmp_path / "store") as state:
        run = begun("task.success(1)", state=state)
        dead = Holder(Holder.of_this_process().host, "an earlier boot", 4711, "then", "loop")
        hold_from(run, dead)
        state.repo.store.delete_many(state.repo.store.keys(b"a/"))
        hold_from(run, dead)
        state.repo.gc()
        assert state.repo.store.keys(b"a/") == []
        run = begun("x = 1", "task.success(x)", state=state)
        loop = run.stream()
        next(loop)
        state.repo.gc()
        assert run.event_store.find_driver(run.id) is not None
        list(loop)


def test_a_copy_of_the_store_does_not_know_who_drives_a_run(tmp_path: Path) -> None:
    with ak.Versioned(tmp_path / "store") as state, closing(LmdbStore(tmp_path / "copy")) as copy:
        run = begun("x = 1", "task.success(x)", state=state)
        loop = run.stream()
        next(loop)
        copy_store(state.repo.store.url, copy)
        assert list(EventStore(copy).of(run.id)) == list(run.events)
        assert copy.keys(b"a/") == []
        assert approval.run_status(EventStore(copy), run.events) == "stopped"
        list(loop)


def test_a_fork_of_the_process_does_not_let_go_of_what_its_parent_drives(tmp_path: Path) -> None:
    run = begun("x = 1", "task.success(x)")
    loop = run.stream()
    next(loop)
    pid = os.fork()
    if pid == 0:
        del loop
        gc.collect()
        os._exit(0 if run.event_store._store.get_many([event_log.key(run.id)]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    list(loop)


def test_the_stopped_candidate_of_a_race_adds_nothing_any_more() -> None:
    run = begun("x = 1", "task.success(x)")
    loop = run.stream()
    next(loop)
    run.event_store.revoke(run.id)
    with pytest.raises(ak.RunBusyError):
        list(loop)


def test_of_many_that_go_on_with_a_run_at_once_one_does() -> None:
    run = begun("x = 1", "task.success(x)")
    hold_from(run, Holder(Holder.of_this_process().host, "an earlier boot", 4711, "then", "loop"))
    gate = threading.Barrier(8)

    def drive(_: int) -> str:
        other = again(run, "task.success(2)")
        gate.wait()
        try:
            return str(other.result())
        except ak.RunBusyError:
            return "busy"

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(drive, range(8))) == ["2", *["busy"] * 7]
    events = list(run.event_store.of(run.id))
    assert [event.seq for event in events] == list(range(len(events)))
    assert [event.kind for event in events].count("Success") == 1
