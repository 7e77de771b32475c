"""A sub-agent is a function of its parent's: it is told of, called, shown and counted as part of its parent's run."""

from __future__ import annotations

import pytest

import agent_kernel as ak
from agent_kernel.agents.events import Error, Event, Output, Usage
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.agents.models import Request
from tests.agents.subagents.family import pair, scripted


def test_it_is_called_like_a_function_and_gives_its_result() -> None:
    parent = pair(["answer = helper(4)", "task.success(answer + 1)"], ["task.success(n * 10)"])
    assert parent("Work") == 41


def test_the_model_is_told_of_it_like_of_a_function() -> None:
    parent = pair(["task.success()"], [])
    assert "helper(n: int) -> int  # Do a part of the work." in parent.registry.text(1_000)


def test_events_name_the_agents_from_the_outermost_down(state: ak.Versioned) -> None:
    heard: list[Event] = []
    outer, middle, inner = (
        scripted("outer", "task.success(second(1))", on_event=heard.append),
        scripted("middle", "task.success(third(1))"),
        scripted("inner", "task.success(3)"),
    )

    @middle.fn
    @inner.task
    def third(n: int) -> int:
        """Do the third part."""
        raise NotImplementedError

    @outer.fn
    @middle.task
    def second(n: int) -> int:
        """Do the second part."""
        raise NotImplementedError

    run = outer.start("Work", state=state)
    assert run.result() == 3
    seen = list(dict.fromkeys(event.namespace for event in heard))
    assert seen == ["outer", "outer/middle", "outer/middle/inner"]
    runs = {event.namespace: event for event in heard if event.kind == "TaskStart"}
    assert runs["outer/middle"].parent_run == run.id
    assert runs["outer/middle/inner"].parent_run == runs["outer/middle"].run
    times = [event.time_ns for event in heard]
    assert times == sorted(set(times))
    place = ExecutionContext(state.session.namespace, state.session)
    assert {event.id for one in place.event_store.runs() for event in place.event_store.of(one)} == {
        e.id for e in heard
    }


def test_its_events_are_told_of_between_those_of_the_step_that_called_it() -> None:
    heard: list[Event] = []
    pair(["task.success(helper(1))"], ["task.success(n)"])("Work", on_event=heard.append)
    kinds = [(event.agent, event.kind) for event in heard]
    begun, ended = kinds.index(("parent", "StepStart")), kinds.index(("parent", "Output"))
    assert kinds.index(("child", "TaskStart")) > begun
    assert kinds.index(("child", "Success")) < ended


def test_a_parent_that_is_iterated_over_shows_its_sub_agents() -> None:
    run = pair(["task.success(helper(1))"], ["task.success(n)"]).start("Work")
    assert [event.kind for event in run].count("SubRun") == 2


def test_a_sub_agent_has_no_more_budget_than_its_parent_has_left() -> None:
    child = scripted("child", *[ak.Turn("x = 1", usage=Usage(1, 40, 0))] * 9)
    parent = scripted(
        "parent",
        ak.Turn("try:\n    helper(1)\nexcept Exception as error:\n    said = str(error)", usage=Usage(1, 50, 0)),
        ak.Turn("task.success(said)"),
        limits=ak.Limits(tokens=120),
    )

    @parent.fn
    @child.task
    def helper(n: int) -> int:
        """Work."""
        raise NotImplementedError

    run = parent.start("Work")
    with pytest.raises(ak.TaskFailedError):
        run.result()
    assert run.outcome.limit == "tokens"
    assert run.usage.tokens == 50 + 2 * 40


def test_what_it_took_counts_as_its_parents() -> None:
    child = scripted("child", ak.Turn("task.success(n)", usage=Usage(1, 30, 5)))
    parent = scripted("parent", ak.Turn("task.success(helper(1))", usage=Usage(1, 10, 0)))

    @parent.fn
    @child.task
    def helper(n: int) -> int:
        """Work."""
        raise NotImplementedError

    run = parent.start("Work")
    run.result()
    assert (run.usage.requests, run.usage.tokens) == (2, 45)


def test_where_nothing_risky_is_allowed_a_sub_agent_may_do_nothing_risky_either() -> None:
    statuses: list[str] = []
    parent = pair(
        ["task.success(helper(1))"], ["import subprocess; subprocess.run(['true'])", "task.success(n)"], approve="never",
        on_event=lambda event: statuses.append(event.status) if isinstance(event, Output) else None,
    )  # fmt: skip
    assert parent("Work") == 1
    assert statuses == ["denied", "ok", "ok"]


def test_it_finds_nothing_that_only_its_parent_was_given() -> None:
    parent = pair(["task.success(helper(1))"], ["secret()", "task.success(n)"])
    parent.fn(name="secret")(lambda: None)
    heard: list[Event] = []
    parent("Work", on_event=heard.append)
    assert [event.agent for event in heard if isinstance(event, Error)] == ["child"]


def test_an_async_task_is_called_like_any_other_by_an_agent() -> None:
    child, parent = scripted("child", "task.success(n + 1)"), scripted("parent", "task.success(helper(1))")

    @parent.fn
    @child.task
    async def helper(n: int) -> int:
        """Add one."""
        raise NotImplementedError

    assert parent("Work") == 2


def test_agents_that_begin_each_other_without_end_come_to_one() -> None:
    def calls(request: Request) -> str:
        return "me()" if request.turn == 0 else "task.fail('no further')"

    ada = ak.Agent("ada", model=ak.FunctionModel(calls), limits=ak.Limits(steps=2))

    @ada.fn
    @ada.task
    def me() -> int:  # type: ignore[empty-body]
        """Begin again."""

    with ak.Versioned() as state:
        run = ada.start("Begin", state=state)
        with pytest.raises(ak.TaskFailedError, match="no further"):
            run.result()
        deepest = max((event.namespace for event in ak.events(state)), key=len)
        assert deepest == "/".join(["ada"] * 6)
        told = [event.message for event in ak.events(state) if isinstance(event, Error)]
        assert any("no more than 6 deep" in message for message in told)
