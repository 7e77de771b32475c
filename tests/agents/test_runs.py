"""A run goes from its task to its end in steps, and where it stands follows from its events."""

from __future__ import annotations

import pytest

import agent_kernel as ak
from agent_kernel.agents.agent import reopen_run
from agent_kernel.agents.event_log import state_of
from agent_kernel.agents.events import (
    Action,
    Error,
    Output,
    Resumed,
    Retry,
    StateChange,
    StepStart,
    Success,
    TaskStart,
    Usage,
)
from agent_kernel.agents.execution import ExecutionContext


def agent(*turns: ak.Turn | str, **more: object) -> ak.Agent:
    """An agent that plays these answers."""
    return ak.Agent("tester", model=ak.ScriptedModel(turns), **more)  # type: ignore[arg-type]


def test_a_run_ends_with_the_value_that_its_code_gives_back() -> None:
    run = agent("x = 20", "task.success(x + 1)").start("Count")
    assert run.result() == 21
    assert run.outcome.status == "completed"
    assert [event.kind for event in run.events] == [
        *("TaskStart", "Action", "StepStart", "Output", "StateChange"),
        *("Action", "StepStart", "Output", "Success"),
    ]


def test_nothing_runs_before_somebody_drives_it() -> None:
    state: dict[str, object] = {}
    run = agent("x = 1", "task.success()").start("Wait", state=state)
    assert (run.status, state) == ("running", {})


def test_a_run_says_how_it_stands_also_where_nobody_drives_it() -> None:
    run = agent("x = 1", "task.success(x)").start("Count")
    assert repr(run) == f"<Run {run.id[-5:]} of tester, not begun>"
    for event in run:
        if isinstance(event, StepStart):
            assert repr(run).endswith("going on>")
            break
    assert repr(run).endswith("stopped>")
    run.result()
    assert repr(run).endswith("completed>")


def test_nothing_behind_the_end_of_the_task_runs() -> None:
    state: dict[str, object] = {}
    agent("task.success(1)\nlater = 2")("Stop there", state=state)
    assert "later" not in state


def test_code_that_catches_everything_does_not_catch_the_end_of_its_run() -> None:
    assert agent("try:\n    task.success(1)\nexcept Exception:\n    task.fail('no')")("End") == 1


def test_a_run_that_gives_up_raises_and_says_why() -> None:
    run = agent("task.fail('no data')").start("Try")
    with pytest.raises(ak.TaskFailedError, match="no data"):
        run.result()
    assert (run.outcome.status, run.outcome.reason, run.outcome.value) == ("failed", "no data", None)


def test_a_question_suspends_the_run_until_it_is_answered() -> None:
    run = agent("task.clarify('which year?')", "task.success(2024)").start("Ask")
    with pytest.raises(ak.TaskClarifyError, match="which year"):
        run.result()
    with pytest.raises(ak.RunStateError):
        _ = run.resume()
    assert run.resume("2024", by="a person").result() == 2024
    answered = [event for event in run.events if isinstance(event, Resumed)]
    assert [(event.sent, event.by) for event in answered] == [("2024", "a person")]


def test_an_error_in_the_code_goes_back_to_the_model() -> None:
    seen: list[str] = []

    def answer(request: object) -> str:
        text = request.messages[-1].text  # type: ignore[attr-defined]
        seen.append(text)
        return "1 / 0" if len(seen) == 1 else "task.success('mended')"

    run = ak.Agent(model=ak.FunctionModel(answer)).start("Divide")
    assert run.result() == "mended"
    assert "ZeroDivisionError" in seen[1]
    assert [event.source for event in run.events if isinstance(event, Error)] == ["code"]


def test_an_error_that_cannot_be_written_goes_back_to_the_model_too() -> None:
    odd = "raise type('Odd', (Exception,), {'__module__': property()})('why')"
    run = ak.Agent(model=ak.ScriptedModel([odd, "task.success(1)"])).start("Try")
    assert run.result() == 1
    assert "Odd" in next(event.sent for event in run.events if isinstance(event, Output))


def test_a_value_of_another_type_goes_back_as_a_retry() -> None:
    run = agent("task.success('seven')", "task.success(7)").start("Count", returns=int)
    assert run.result() == 7
    told = [event.sent for event in run.events if isinstance(event, Retry)]
    assert len(told) == 1
    assert "must be int" in told[0]


def test_retries_are_bounded() -> None:
    run = agent(*["task.success('seven')"] * 9, limits=ak.Limits(retries=2)).start("Count", returns=int)
    with pytest.raises(ak.TaskFailedError):
        run.result()
    assert run.outcome.limit == "retries"
    assert sum(isinstance(event, Retry) for event in run.events) == 2


def test_a_step_that_went_well_starts_the_count_of_retries_again() -> None:
    unfit = "task.success('seven')"
    turns = [unfit, unfit, "x = 1", unfit, unfit, "task.success(7)"]
    assert agent(*turns, limits=ak.Limits(retries=2))("Count", returns=int) == 7


def test_words_alone_are_told_so_often_and_no_more() -> None:
    run = agent(*[ak.Turn(text="Soon.")] * 9, limits=ak.Limits(retries=2)).start("Count", returns=int)
    with pytest.raises(ak.TaskFailedError):
        run.result()
    assert (run.outcome.limit, len([e for e in run.events if isinstance(e, Action)])) == ("retries", 3)


def test_a_value_is_made_fit_where_that_loses_nothing() -> None:
    assert agent("task.success(3)")("Measure", returns=float) == 3.0
    assert agent("task.success({'a': [1, 2]})")("Group", returns=dict[str, list[int]]) == {"a": [1, 2]}


def test_a_boolean_is_no_number() -> None:
    run = agent("task.success(True)", "task.success(1)").start("Count", returns=int)
    assert run.result() is not True


def test_words_alone_are_a_result_where_words_can_be_one() -> None:
    assert agent(ak.Turn(text="It is blue."))("Which colour?") == "It is blue."
    assert agent(ak.Turn(text="It is blue."))("Which colour?", returns=str) == "It is blue."


def test_words_alone_are_told_to_act_where_a_value_is_wanted() -> None:
    run = agent(ak.Turn(text="About seven."), "task.success(7)").start("Count", returns=int)
    assert run.result() == 7
    assert any(isinstance(event, Retry) for event in run.events)


def test_every_step_of_a_versioned_state_is_a_commit_by_the_agent() -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        run = agent("x = 1", "y = x + 1\ntask.success(y)").start("Count", state=state)
        assert run.result() == 2
        commits = [commit for _, commit in state.history()]
        assert [(commit.author.name, commit.run, commit.step) for commit in commits] == [
            ("tester", run.id, 2),
            ("tester", run.id, 1),
        ]
        assert (state["x"], state["y"]) == (1, 2)


def test_events_say_the_commits_that_they_stand_between() -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        state["x"] = 0
        state.commit("begin")
        run = agent("x = 1", "task.success(x)").start("Count", state=state)
        run.result()
        outputs = [event for event in run.events if isinstance(event, Output)]
        assert outputs[0].before != outputs[0].after == outputs[1].before
        assert state.at(outputs[0].before)["x"] == 0
        assert state.at(outputs[0].after)["x"] == 1
        assert run.outcome.commit == outputs[1].after


def test_undo_takes_the_whole_run_back() -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        state["x"] = 0
        state.commit("begin")
        agent("x = 1", "x = 2", "task.success(x)")("Count", state=state)
        state.undo()
        assert dict(state) == {"x": 0}


def test_what_a_step_changed_is_told_of_every_kind_of_state() -> None:
    states: list[dict[str, object] | ak.Live | None] = [{"old": 1}, ak.Live(), None]
    for state in states:
        run = agent("new = 1", "task.success()").start("Make", state=state)
        run.result()
        (change,) = [event for event in run.events if isinstance(event, StateChange)]
        assert [(how, name) for how, name, _ in change.changed] == [("+", "new")]


def test_a_namespace_is_fresh_where_there_is_no_state() -> None:
    first = agent("x = 1", "task.success()")
    first("Leave something")
    second = agent("task.success('x' in globals())")
    assert second("Look for it") is False


def test_inputs_are_variables_of_the_task() -> None:
    assert agent("task.success(a + task.inputs['b'])")("Add", inputs={"a": 1, "b": 2}) == 3


def test_where_a_run_stands_follows_from_its_events_alone() -> None:
    run = agent("task.clarify('?')", "task.success(1)").start("Ask")
    stands = [state_of(run.events[:1])]
    with pytest.raises(ak.TaskClarifyError):
        run.result()
    stands.append(state_of(run.events))
    run.resume("yes").result()
    stands.append(state_of(run.events))
    assert stands == ["running", "clarify", "completed"]


def test_a_run_goes_on_from_its_stored_events() -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        run = agent("x = 1\ntask.clarify('go on?')", "task.success(x + 1)").start("Two parts", state=state)
        with pytest.raises(ak.TaskClarifyError):
            run.result()
        place = ExecutionContext(state.session.namespace, state.session)
        again = reopen_run(place, run.id, model=ak.ScriptedModel(["", "task.success(x + 1)"]))
        assert again.status == "clarify"
        assert again.resume("yes").result() == 2


def test_a_step_that_ran_when_the_process_died_is_unknown_and_not_repeated() -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        run = agent("x = 1", "task.success(x)").start("Die", state=state)
        for event in run:
            if isinstance(event, StepStart):
                break  # the process dies here
        again = reopen_run(
            ExecutionContext(state.session.namespace, state.session),
            run.id,
            model=ak.ScriptedModel(["", "task.success('looked')"]),
        )
        assert again.result() == "looked"
        assert [event.status for event in again.events if isinstance(event, Output)] == ["unknown", "ok"]
        assert "x" not in state


def test_two_that_drive_the_same_run_cannot_both_go_on() -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        place = ExecutionContext(state.session.namespace, state.session)
        run = agent("x = 1", "task.success(x)").start("Race", state=place)
        other = reopen_run(place, run.id, model=ak.ScriptedModel(["x = 1", "task.success(x)"]))
        assert run.result() == 1
        with pytest.raises(ak.RunBusyError):
            other.result()


def test_events_are_stored_before_they_are_shown() -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        place = ExecutionContext(state.session.namespace, state.session)
        stored: list[bool] = []
        run = agent("x = 1", "task.success(x)").start(
            "Look",
            state=place,
            on_event=lambda event: stored.append(event in list(place.event_store.of(event.run))),
        )
        for event in run:
            assert event in list(place.event_store.of(run.id))
        assert stored == [True] * len(run.events)


def test_iterating_shows_what_was_before_and_then_what_comes() -> None:
    run = agent("x = 1", "task.success(x)").start("Go")
    first = next(iter(run))
    assert isinstance(first, TaskStart)
    assert [event.seq for event in run] == list(range(len(run.events)))
    assert isinstance(run.events[-1], Success)


def test_the_usage_of_a_run_is_that_of_its_answers() -> None:
    run = agent(ak.Turn("x = 1", usage=Usage(1, 2, 3)), ak.Turn("task.success()", usage=Usage(1, 3, 4))).start("Count")
    run.result()
    assert (run.usage.requests, run.usage.input_tokens, run.usage.output_tokens, run.usage.tokens) == (2, 5, 7, 12)


def test_a_run_that_is_given_up_cannot_go_on() -> None:
    run = agent("task.clarify('?')").start("Ask")
    with pytest.raises(ak.TaskClarifyError):
        run.result()
    run.abandon()
    assert run.status == "cancelled"
    with pytest.raises(ak.RunStateError):
        _ = run.resume("an answer")


def test_an_agent_without_a_model_says_where_one_is_named() -> None:
    with pytest.raises(ak.NoModelError, match="set AGENT_KERNEL_MODEL, or give model="):
        _ = ak.Agent().start("Anything")


@pytest.mark.parametrize("model", [3, None, ak.ScriptedModel, lambda request: "x = 1"])  # pyright: ignore[reportUnknownLambdaType]
def test_what_is_no_model_is_told_at_once(model: object) -> None:
    with pytest.raises(TypeError, match="model is a name, a Model, or one of pydantic-ai's, not"):
        ak.Agent(model=model)


def test_a_function_that_answers_nothing_is_one_clear_error() -> None:
    run = ak.Agent(model=ak.FunctionModel(lambda request: None)).start("Go")  # type: ignore[arg-type, return-value]
    with pytest.raises(
        ak.TaskFailedError, match="function: its function returned None, which is neither code nor a Turn"
    ):
        run.result()


def test_an_agent_that_a_variable_holds_does_not_change_with_each_of_its_steps() -> None:
    with ak.Versioned() as state:
        place = ExecutionContext(state.session.namespace, state.session)
        state["agent"] = agent = ak.Agent(
            "ada", model=ak.ScriptedModel(["x = 1", "y = 2", "task.success()"]), state=place
        )
        state["run"] = run = agent.start("work")
        state.commit("made")
        run.result()
        assert [[one.name for one in commit.changed] for _, commit in state.history()] == [
            [],
            ["y"],
            ["x"],
            ["agent", "run"],
        ]
