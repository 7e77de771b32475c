"""A sub-agent ends with its parent's step, on whose thread it runs."""

from __future__ import annotations

import threading
import time

import pytest

import agent_kernel as ak
from agent_kernel.agents.event_log import EventStore, describe_temporary
from agent_kernel.agents.events import Cancelled, Error, Event, Output, SubRun
from tests.agents.subagents.family import pair, scripted, subruns


def test_an_interrupt_of_the_parent_stops_the_sub_agent(state: ak.Versioned) -> None:
    heard: list[Event] = []
    parent = pair(
        ["try:\n    helper(1)\nexcept Exception:\n    pass\nafter = 1", "task.success('again')"],
        ["made = 1", ak.Turn("task.success(1)", delay_s=30)],
    )
    run = parent.start("Work", state=state, on_event=heard.append)

    def stop() -> None:
        while not any(event.agent == "child" and isinstance(event, Output) for event in heard):
            time.sleep(0.01)
        run.cancel("enough")

    threading.Thread(target=stop, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(ak.TaskInterruptedError, match="enough"):
        run.result()
    assert time.monotonic() - began < 10
    assert "after" not in state
    stopped = subruns(run)[-1]
    assert stopped.status == "interrupted"
    # Its branch stands apart from those of people, also from one that is called as those of sub-agents are.
    state.repo.create_branch("child-00000", state.repo.resolve("main"))
    told = {stopped.branch: f"sub-agent child of run {run.id[-5:]}"}
    assert describe_temporary(state.repo, EventStore(state.repo.store)) == told
    with ak.Versioned(state.repo, branch=stopped.branch) as mine:
        mine["seen"] = True
        mine.commit("go on with it")
    assert describe_temporary(state.repo, EventStore(state.repo.store)) == {}
    assert run.resume().result() == "again"


def test_the_time_of_the_parents_step_holds_for_its_sub_agents() -> None:
    parent = pair(
        ["helper(1)", "task.success('late')"], [ak.Turn("task.success(1)", delay_s=30)], limits=ak.Limits(step_s=0.5)
    )
    run = parent.start("Work")
    assert run.result() == "late"
    assert [event.status for event in run.events if isinstance(event, Output)] == ["timeout", "ok"]


def test_one_that_is_begun_and_never_driven_ends_with_the_step(state: ak.Versioned) -> None:
    parent, child = (
        scripted("parent", "run = begin()\ndel run", "task.success(1)"),
        scripted("child", "task.success(1)"),
    )
    parent.fn(name="begin")(lambda: child.start("Work"))
    run = parent.start("Work", state=state)
    assert run.result() == 1
    assert [event.status for event in subruns(run)] == ["running", "interrupted"]
    assert len(state.repo.branches()) == 1


def test_a_sub_agent_is_called_on_the_steps_own_thread_or_not_at_all() -> None:
    child = ak.Agent("child", model=ak.FunctionModel(lambda _: "task.success(1)"))
    turns = [
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as pool: list(pool.map(count, 'ab'))",
        "task.success([count(word) for word in 'ab'])",
    ]
    parent = ak.Agent("parent", model=ak.ScriptedModel(turns))

    @parent.fn
    @child.task
    def count(word: str) -> int:  # type: ignore[empty-body]
        """Count it."""

    with ak.Versioned() as state:
        run = parent.start("Count", state=state)
        assert run.result() == [1, 1]
        told = [event.message for event in run.events if isinstance(event, Error)]
        assert "count() is an agent's task: call it on the step's own thread" in told[0]
        assert {event.namespace for event in ak.events(state)} == {"parent", "parent/child"}


def test_a_sub_agent_that_was_begun_and_never_driven_is_interrupted_with_the_step() -> None:
    child = ak.Agent("child", model=ak.ScriptedModel(["task.success(1)"]))
    parent = ak.Agent("parent", model=ak.ScriptedModel(["begin()", "task.success(1)"]))

    @parent.fn
    def begin() -> None:
        _ = child.start("Work")

    with ak.Versioned() as state:
        run = parent.start("Begin", state=state)
        assert run.result() == 1
        ended = [event for event in ak.events(state) if event.namespace == "parent/child"][-1]
        assert isinstance(ended, Cancelled)
        assert [event.status for event in run.events if isinstance(event, SubRun)] == ["running", "interrupted"]
        assert list(state.repo.branches()) == ["main"]
