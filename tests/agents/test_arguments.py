"""A task's arguments are variables while it goes on; what stood under their names before is never lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.agents import arguments
from agent_kernel.agents.events import Output, Success

ASKS = "task.clarify('go on?')"
INTERRUPT = "import signal\nsignal.raise_signal(signal.SIGINT)"


def agent(*turns: str, limits: ak.Limits | None = None) -> ak.Agent:
    return ak.Agent("ada", model=ak.ScriptedModel(turns), limits=limits or ak.Limits())


def begun(run: ak.Run[Any]) -> ak.Run[Any]:
    """The run, driven as far as it goes."""
    for _ in run:
        pass
    return run


@pytest.fixture(params=["dict", "live", "versioned"])
def state(request: pytest.FixtureRequest) -> Any:
    made: Any = {"dict": dict, "live": ak.Live, "versioned": ak.Versioned}[request.param]()
    made["x"], made["mine"] = ["old"], 1
    return made


def test_what_an_argument_replaced_comes_back_as_the_run_ends(state: Any) -> None:
    old = state["x"]
    run = agent("seen = x[0]", "task.success(seen)").start("Look", inputs={"x": ["given"], "new": 2}, state=state)
    assert run.result() == "given"
    assert state["x"] is old
    assert (state["new"], state["seen"], state["mine"]) == (2, "given", 1)


def test_what_the_run_makes_of_such_a_name_counts_for_the_run_alone(state: Any) -> None:
    agent("x = 'mine now'", "del x", "task.success()")("Change it", inputs={"x": ["given"]}, state=state)
    assert state["x"] == ["old"]


@pytest.mark.parametrize("turns", [["task.fail('no')"], ["y = 1"] * 5])
def test_it_comes_back_also_where_the_run_fails(state: Any, turns: list[str]) -> None:
    run = begun(agent(*turns, limits=ak.Limits(steps=2)).start("Fail", inputs={"x": 3}, state=state))
    assert run.status == "failed"
    assert state["x"] == ["old"]


def test_it_comes_back_before_anybody_hears_that_the_run_is_done(state: Any) -> None:
    for event in agent("task.success(x)").start("Look", inputs={"x": 3}, state=state):
        if isinstance(event, Success):
            break
    assert state["x"] == ["old"]


def test_while_a_run_waits_its_arguments_stand_and_afterwards_what_was_there(state: Any) -> None:
    run = begun(agent(ASKS, "task.success((x, task.inputs['x']))").start("Ask", inputs={"x": 3}, state=state))
    assert state["x"] == 3
    assert run.resume("yes").result() == (3, 3)
    assert state["x"] == ["old"]


def test_a_run_that_is_interrupted_goes_on_with_its_arguments(state: Any) -> None:
    run = begun(agent(INTERRUPT, "task.success(x)").start("Stop", inputs={"x": 3}, state=state))
    assert run.status == "interrupted"
    assert run.resume().result() == 3
    assert state["x"] == ["old"]


def test_a_run_that_is_given_up_puts_back_what_was_there(state: Any) -> None:
    run = begun(agent(ASKS).start("Ask", inputs={"x": 3}, state=state))
    run.abandon()
    assert state["x"] == ["old"]


def test_a_run_that_failed_and_is_taken_up_again_has_its_arguments_again(state: Any) -> None:
    run = begun(agent("task.fail('no')", "task.success(x)").start("Fail", inputs={"x": 3}, state=state))
    assert state["x"] == ["old"]
    assert run.resume("try again").result() == 3
    assert state["x"] == ["old"]


def test_what_a_person_makes_of_the_name_meanwhile_stays(state: Any) -> None:
    run = begun(agent(ASKS, "task.success(x)").start("Ask", inputs={"x": 3}, state=state))
    state["x"] = "the person's"
    assert run.resume("yes").result() == "the person's"
    assert state["x"] == "the person's"


def test_what_a_person_makes_of_the_name_between_two_looks_at_the_run_stays(state: Any) -> None:
    run = agent("y = 1", "task.success(x)").start("Look", inputs={"x": 3}, state=state)
    for event in run:
        if isinstance(event, Output):
            break
    state["x"] = "the person's"
    assert run.result() == "the person's"
    assert state["x"] == "the person's"


def test_what_a_person_makes_of_the_name_before_the_run_is_driven_stays(state: Any) -> None:
    run = agent("task.success(x)").start("Look", inputs={"x": 3}, state=state)
    state["x"] = "the person's"
    assert run.result() == "the person's"
    assert state["x"] == "the person's"


def test_what_the_run_makes_of_the_name_between_two_looks_is_the_runs(state: Any) -> None:
    run = agent("x = 4", "task.success(x)").start("Look", inputs={"x": 3}, state=state)
    for event in run:
        if isinstance(event, Output):
            break
    assert run.result() == 4
    assert state["x"] == ["old"]


def test_a_run_that_is_found_again_in_this_process_has_its_arguments(state: Any) -> None:
    ada = agent(ASKS, "task.success(task.inputs['x'])")
    _ = begun(ada.start("Ask", inputs={"x": 3}, state=state))
    found = ada.reopen(state=state) if not isinstance(state, dict) else None
    if found is not None:  # a dict has no journal to find it in
        assert found.resume("yes").result() == 3
        assert state["x"] == ["old"]


def test_nothing_is_held_of_runs_that_are_done(state: Any) -> None:
    before = set(arguments._active)  # pyright: ignore[reportPrivateUsage]
    agent("task.success(x)")("Look", inputs={"x": 3}, state=state)
    assert set(arguments._active) == before  # pyright: ignore[reportPrivateUsage]


def test_a_task_function_called_again_and_again_keeps_what_was_there(state: Any) -> None:
    ada = agent("task.success(x + 1)")

    @ada.task
    def more(x: int) -> int:  # type: ignore[empty-body]  # a task
        """Add one."""

    assert [more.on(state=state)(n) for n in (1, 2)] == [2, 3]
    assert state["x"] == ["old"]


def test_undo_takes_a_run_back_with_its_arguments() -> None:
    with ak.Versioned() as state:
        state["x"] = "old"
        state.commit("begin")
        agent("y = x", "task.success()")("Look", inputs={"x": "given", "new": 1}, state=state)
        assert dict(state) == {"x": "old", "new": 1, "y": "given"}
        state.undo()
        assert dict(state) == {"x": "old"}


def test_what_was_never_committed_is_in_the_history_before_it_is_replaced() -> None:
    with ak.Versioned() as state:
        state["x"] = "never committed"
        run = agent("task.success()").start("Look", inputs={"x": "given"}, state=state)
        (args, commit), (before, _), *_ = state.history()
        assert (commit.author.name, commit.run, commit.step) == ("ada", run.id, None)
        assert [state.at(one.hex()[:-2])["x"] for one in (args, before)] == ["given", "never committed"]


def test_the_history_says_what_the_arguments_were_and_what_came_back() -> None:
    with ak.Versioned() as state:
        state["x"] = "old"
        state.commit("begin")
        agent("task.success()")("Look", inputs={"x": "given", "n": 1}, state=state)
        sources = [commit.cell.source for _, commit in state.history() if commit.cell is not None]
        assert sources == ["# what the arguments stood for comes back: x", "task.success()", "# arguments: x, n"]


def test_an_argument_that_is_the_variable_itself_makes_no_commit() -> None:
    with ak.Versioned() as state:
        state["x"] = [1]
        state.commit("begin")
        _ = agent("task.success()").start("Look", inputs={"x": state["x"]}, state=state)
        assert len(state.history()) == 1


# -- in another process: nothing but the store is left


def left(path: Path, *turns: str, **inputs: object) -> None:
    """A store with a run that stopped, as a process leaves it."""
    with ak.Versioned(path) as state:
        state["x"] = "old"
        state.commit("begin")
        _ = begun(agent(*turns).start("Stop", inputs=inputs, state=state))


@pytest.mark.parametrize("first", [[INTERRUPT], ["x = 'changed'", ASKS]])
def test_another_process_goes_on_with_the_arguments_and_puts_back_what_was_there(
    tmp_path: Path, first: list[str]
) -> None:
    left(tmp_path / "store", *first, x="given", n=2)
    with ak.Versioned(tmp_path / "store") as state:
        run = agent(*first, "task.success((x, dict(task.inputs)))").reopen(state=state)
        assert run.resume("yes").result() == (
            "changed" if len(first) > 1 else "given", {"x": "given", "n": 2},
        )  # fmt: skip
        assert (state["x"], state["n"]) == ("old", 2)


def test_a_run_that_stopped_before_its_first_step_has_its_arguments_there_too(tmp_path: Path) -> None:
    with ak.Versioned(tmp_path / "store") as state:
        state["x"] = "old"
        _ = agent("").start("Stop", inputs={"x": "given"}, state=state)
    with ak.Versioned(tmp_path / "store") as state:
        assert agent("task.success((x, task.inputs['x']))").reopen(state=state).result() == ("given", "given")
        assert state["x"] == "old"


def test_what_a_person_made_of_the_name_in_another_process_stays(tmp_path: Path) -> None:
    left(tmp_path / "store", ASKS, x="given")
    with ak.Versioned(tmp_path / "store") as state:
        state["x"] = "the person's"
        state.commit("changed by hand")
        agent(ASKS, "task.success()").reopen(state=state).resume("yes").result()
        assert state["x"] == "the person's"


def test_an_argument_that_could_not_be_stored_says_so_in_another_process(tmp_path: Path) -> None:
    left(tmp_path / "store", ASKS, rows=(row for row in ["a"]))
    with ak.Versioned(tmp_path / "store") as state:
        run = agent(ASKS, "next(task.inputs['rows'])", "task.success()").reopen(state=state)
        run.resume("yes").result()
        assert "'rows' was a generator, which could not be saved" in said_by(run)


def test_an_argument_that_is_gone_says_so() -> None:
    state = ak.Live()
    ada = agent(ASKS, "task.inputs['n']", "task.inputs['other']", "task.success()")
    _ = begun(ada.start("Stop", inputs={"n": 1}, state=state))
    del state["n"]
    run = ada.reopen(state=state)
    run.resume("yes").result()
    assert "'n' was an input of this task and is no longer available" in said_by(run)
    assert "'other' was" not in said_by(run)


def said_by(run: ak.Run[Any]) -> str:
    return "\n".join(event.sent for event in run.events if isinstance(event, Output))
