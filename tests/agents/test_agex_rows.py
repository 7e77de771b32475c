"""Each capability of agex that was counted is here, by its number. Where another file holds more of it, its name is said."""

from __future__ import annotations

import statistics
import threading
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.agents.events import Action, Event, Fail, StateChange, Success, TaskStart
from agent_kernel.agents.run import Trial, measure


def agent(*turns: ak.Turn | str, **more: object) -> ak.Agent:
    return ak.Agent("analyst", model=ak.ScriptedModel(turns), **more)  # type: ignore[arg-type]


def test_agex_1_a_stateless_call_takes_any_object_and_leaves_nothing() -> None:
    lock = threading.Lock()
    stateless = agent("left = 1\ntask.success(lock)")
    assert stateless("Give it back", inputs={"lock": lock}) is lock
    assert agent("task.success('left' in globals())")("Look") is False


def test_agex_2_live_state_keeps_any_object_without_a_history() -> None:
    live = ak.Live()
    agent("import threading\nlock = threading.Lock()\ntask.success()", state=live)("Make a lock")
    assert agent("task.success(lock.locked())", state=live)("Look") is False
    assert ak.events(live)[0].before == ""


def test_agex_3_versioned_state_is_a_mapping(tmp_path: Path) -> None:
    """More: tests/session/test_versioned.py."""
    for store in ("memory:", tmp_path / "store"):
        with ak.Versioned(store) as state:
            state["a"], state["b"] = 1, 2
            del state["b"]
            assert (state.get("b", 0), "a" in state) == (0, True)
            assert (list(state.keys()), list(state.values()), list(state.items())) == (["a"], [1], [("a", 1)])


def test_agex_3_it_is_in_memory_where_no_store_is_named() -> None:
    with ak.Versioned() as state, ak.Versioned() as other:
        state["a"] = 1
        state.commit()
        assert state.repo.store.url.startswith("memory:")
        assert dict(other) == {}


def test_agex_4_each_step_is_a_commit_and_none_is_empty_by_hand() -> None:
    with ak.Versioned() as state:
        agent("x = 1", "y = 2\ntask.success()", state=state)("Work")
        assert [commit.step for _, commit in state.history()] == [2, 1]
        assert state.commit().commit is None
        state["lock"] = threading.Lock()
        report = state.commit()
        assert [one.name for one in report.unsaved] == ["lock"]


def test_agex_5_changes_in_place_are_found_and_what_is_shared_stays_shared() -> None:
    """More: tests/session."""
    with ak.Versioned() as state:
        state["a"] = state["b"] = [1]
        state.commit()
        agent("b.append(2)\ntask.success()", state=state)("Add")
        past = state.at()
        assert past["a"] is past["b"]
        assert past["a"] == [1, 2]


def test_agex_6_history_is_looked_at_compared_and_gone_back_to() -> None:
    with ak.Versioned() as state:
        for number in (1, 2):
            state["x"] = number
            state.commit(f"number {number}")
        assert [commit.message for _, commit in state.history()] == ["number 2", "number 1"]
        assert [diff.name for diff in state.diff("HEAD~1")] == ["x"]
        assert state.at("HEAD~1")["x"] == 1
        assert state["x"] == 2
        state.rollback("HEAD~1")
        assert (state["x"], len(state.history())) == (1, 3)
        with pytest.raises(ak.RefNotFoundError):
            state.at("nowhere")


def test_agex_8_what_cannot_be_saved_is_named_and_says_so_when_it_is_used(tmp_path: Path) -> None:
    with ak.Versioned(tmp_path / "store") as state:
        run = agent("rows = (row for row in [])\nn = 1\ntask.success()", state=state).start("Make")
        run.result()
        (change,) = [event for event in run.events if isinstance(event, StateChange)]
        assert [name for name, _ in change.unsaved] == ["rows"]
    with ak.Versioned(tmp_path / "store") as state:
        assert state["n"] == 1
        with pytest.raises(ak.AgentKernelError, match="rows"):
            next(state["rows"])  # type: ignore[call-overload]


def nested(state: ak.Live | None, heard: list[Event]) -> ak.Run[object]:
    """A run with a sub-agent."""
    child, parent = agent("made = n\ntask.success(n)"), agent("task.success(helper(4))", on_event=heard.append)
    child.name = "child"

    @parent.fn
    @child.task
    def helper(n: int) -> int:
        """Help."""
        raise NotImplementedError

    assert helper.is_async is False
    return parent.start("Work", state=state)


def test_agex_9_events_are_ordered_across_sub_agents_and_say_the_state_before_and_after() -> None:
    """More: test_listing.py, subagents/."""
    heard: list[Event] = []
    with ak.Versioned() as state:
        nested(state, heard).result()
        found = ak.events(state)
        assert list(found) == heard
        assert [event.time_ns for event in found] == sorted(event.time_ns for event in found)
        assert {event.namespace for event in found} == {"analyst", "analyst/child"}
        steps = [event for event in found if event.kind == "Output"]
        assert all(event.before != event.after for event in steps)


def test_agex_10_all_kinds_of_its_events_are_there() -> None:
    failing = agent(ak.Turn("1 / 0", thinking="Hm."), "task.fail('cannot')").start("Try", inputs={"n": 1})
    with pytest.raises(ak.TaskFailedError):
        failing.result()
    start, action = failing.events[0], failing.events[1]
    assert isinstance(start, TaskStart)
    assert isinstance(action, Action)
    assert (list(start.inputs), start.task, action.thinking, action.code) == (["n"], "Try", "Hm.", "1 / 0")
    assert {"Output", "Error"} <= {event.kind for event in failing.events}
    assert isinstance(failing.events[-1], Fail)
    asking = agent("task.clarify('which?')").start("Ask")
    with pytest.raises(ak.TaskClarifyError):
        asking.result()
    assert asking.events[-1].kind == "Clarify"


def test_agex_11_events_are_heard_streamed_printed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """More: test_listing.py."""
    heard: list[Event] = []
    run = nested(None, heard)
    assert "Delta" in {type(item).__name__ for item in run.stream()}
    assert {event.agent for event in heard} == {"analyst", "child"}
    ak.pprint_events(heard, verbosity="brief", color=False, width=60, truncate_code_lines=3)
    assert "[analyst/child] done" in capsys.readouterr().out
    assert run.events._repr_html_().startswith("<div")


def test_agex_12_states_past_states_and_agents_can_be_viewed() -> None:
    """More: test_views.py."""
    with ak.Versioned() as state:
        agent("x = 1\ntask.success()", state=state)("Work")
        assert ak.view(state).lines == ("+ x: int 1",)
        assert ak.view(state, focus="full").lines == ak.view(state.at()).lines == ("x: int 1",)
    assert "count" in str(ak.view(agent(primer="You count."), full=True))


def test_agex_13_tasks_are_functions() -> None:
    """More: test_tasks.py."""
    worker = agent("task.success(math.floor(n))")
    heard: list[Event] = []

    @worker.task(setup="import math")
    def floor(n: float) -> int:
        """Round it down."""
        raise NotImplementedError

    assert floor(2.5, state=ak.Live(), on_event=heard.append) == 2
    assert isinstance(heard[-1], Success)
    with pytest.raises(TypeError, match="does not fit"):
        floor("wide")  # type: ignore[call-overload]


def test_agex_14_an_agent_has_its_settings_and_tests_have_models() -> None:
    """More: test_limits.py, test_model_errors.py."""
    limits = ak.Limits(step_s=5, steps=1, tokens=65_536, retries=2)
    bounded = ak.Agent("bounded", primer="Be quick.", model=ak.FunctionModel(lambda _: "x = 1"), limits=limits)
    run = bounded.start("Never end")
    with pytest.raises(ak.TaskFailedError):
        run.result()
    assert run.outcome.limit == "steps"


def test_agex_15_an_agent_is_given_functions_classes_modules_and_live_objects() -> None:
    """More: test_registering.py."""

    class Shelf:
        def find(self, name: str) -> str:
            """Find it."""
            return name.upper()

    user = agent(
        "task.success((twice(2), stats.mean([1, 3]), Shelf().find('a'), shelf.find('b'), hasattr(stats, 'mode')))"
    )
    user.fn(name="twice")(lambda n: 2 * n)
    user.cls(Shelf)
    user.module(statistics, name="stats", include="mean", configure={"mean": ak.Member("high")})
    user.module(Shelf(), name="shelf", include="find")
    assert user("Use them") == (4, 2, "A", "B", False)


def test_agex_16_sub_agents_are_functions_on_one_store() -> None:
    """More: subagents/."""
    with ak.Versioned() as state:
        assert nested(state, []).result() == 4
        assert state["made"] == 4
        assert {commit.author.name for _, commit in state.history()} >= {"analyst", "child"}


def test_agex_17_values_are_told_within_a_budget_and_tasks_are_measured() -> None:
    """More: test_measuring.py."""
    state: dict[str, object] = {f"name_{number}": "x" * 100 for number in range(1_000)}
    start = agent(context_tokens=500).start("Look", state=state).events[0]
    assert isinstance(start, TaskStart)
    assert len(start.prompt) <= 500 * 4
    worker = agent()

    @worker.task
    def one() -> int:
        """Give one."""
        raise NotImplementedError

    (row,) = measure({"one": Trial(one)}, [ak.ScriptedModel(["task.success(1)"])], times=2)
    assert (row.passed, row.runs, row.steps) == (2, 2, 1.0)
    assert row.tokens > 0
