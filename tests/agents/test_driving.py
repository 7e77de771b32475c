"""A run is driven by blocking, by iterating, or in an event loop: it is the same run."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import agent_kernel as ak
from agent_kernel.agents.models import Delta
from agent_kernel.session import committing


def counting() -> ak.Run[int]:
    return ak.Agent(model=ak.ScriptedModel(["x = 1", "task.success(x + 1)"])).start("Count", returns=int)


def test_a_run_can_be_awaited() -> None:
    async def main() -> int:
        return await counting()

    assert asyncio.run(main()) == 2


def test_its_events_can_be_iterated_over_in_an_event_loop() -> None:
    async def main() -> list[str]:
        return [event.kind async for event in counting()]

    assert asyncio.run(main()) == [event.kind for event in counting()]


def test_other_coroutines_go_on_while_the_model_answers() -> None:
    async def main() -> int:
        model = ak.ScriptedModel([ak.Turn("task.success(1)", delay_s=0.2)])
        waiting = asyncio.ensure_future(ak.Agent(model=model).start("Wait"))
        turns = 0
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0.01)
        return turns

    assert asyncio.run(main()) > 5


def test_errors_come_out_of_an_awaited_run_as_out_of_a_blocking_one() -> None:
    async def main() -> None:
        await ak.Agent(model=ak.ScriptedModel(["task.fail('no')"])).start("Try")

    with pytest.raises(ak.TaskFailedError, match="no"):
        asyncio.run(main())


def test_code_runs_on_the_thread_that_drives() -> None:
    model = ak.ScriptedModel(["import threading", "task.success(threading.current_thread())"])
    assert ak.Agent(model=model)("Which?") is threading.current_thread()


def test_pieces_of_the_answer_come_before_its_action() -> None:
    run = ak.Agent(model=ak.ScriptedModel([ak.Turn("x = 1\ntask.success(x)", text="Now.")])).start("Stream")
    items = list(run.stream())
    pieces = [item for item in items if isinstance(item, Delta)]
    assert "".join(piece.text for piece in pieces if piece.kind == "code") == "x = 1\ntask.success(x)"
    assert not any(isinstance(event, Delta) for event in run.events)


def test_leaving_the_loop_only_pauses_the_run() -> None:
    run = counting()
    for event in run:
        if event.kind == "Output":
            break
    assert run.status == "running"
    assert run.result() == 2


def test_agents_on_several_threads_take_turns_and_each_step_is_the_commit_of_its_own_agent() -> None:
    with ak.Versioned() as state:

        def work(name: str) -> int:
            turns = [f"{name} = [1]", f"{name}.append(2)", f"task.success(len({name}))"]
            slow = [ak.Turn(code, delay_s=0.01) for code in turns]
            return int(ak.Agent(name, model=ak.ScriptedModel(slow), state=state).start("Work").result())

        names = ["ada", "bob", "eve", "dan"]
        with ThreadPoolExecutor(len(names)) as pool:
            assert list(pool.map(work, names)) == [2] * len(names)
        made = [
            (commit.author.name, [one.name for one in commit.changed])
            for _, commit in state.history()
            if commit.changed
        ]
        assert sorted(made) == sorted((name, [name]) for name in names for _ in range(2))


def test_a_step_does_not_wait_for_ever_for_one_that_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "_TURN_S", 0.1)
    with ak.Versioned() as state, ThreadPoolExecutor(1) as pool:
        inner = ak.Agent("inner", model=ak.ScriptedModel(["x = 1", "task.success(x)"]), state=state)
        run = inner.start("Work")
        outer = ak.Agent("outer", model=ak.ScriptedModel(["task.success(waits())"]), state=state)

        @outer.fn
        def waits() -> str:
            return str(pool.submit(run.result).exception())

        assert "another thread has been running a step" in str(outer.start("Let the other work").result())
        assert run.resume().result() == 1  # nothing of it was lost
