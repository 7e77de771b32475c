"""Each limit ends a run as failed, with everything kept and the limit named."""

from __future__ import annotations

import time

import pytest

import agent_kernel as ak
from agent_kernel.agents.events import Error, Output, Usage
from agent_kernel.errors import ModelError


def failed(limits: ak.Limits, *turns: ak.Turn | str) -> ak.Run[object]:
    """A run that a limit ends."""
    state: dict[str, object] = {}
    run = ak.Agent(model=ak.ScriptedModel(turns), limits=limits, state=state).start("Go on for ever")
    with pytest.raises(ak.TaskFailedError):
        run.result()
    assert run.outcome.status == "failed"
    return run


def test_steps_are_limited() -> None:
    run = failed(ak.Limits(steps=2), *["x = 1"] * 5)
    assert run.outcome.limit == "steps"
    assert sum(isinstance(event, Output) for event in run.events) == 2


def test_a_run_that_ends_at_its_steps_names_the_last_error_of_its_code() -> None:
    run = failed(ak.Limits(steps=2), "1 / 0", "missing", "x = 1")
    assert run.outcome.reason.endswith("; the last error of its code: NameError: name 'missing' is not defined")
    assert run.outcome.reason.startswith("it took 2 steps and was not done (limit: 2)")


def test_tokens_are_limited() -> None:
    turns = [ak.Turn("x = 1", usage=Usage(1, 60, 0))] * 5
    assert failed(ak.Limits(tokens=100), *turns).outcome.limit == "tokens"


def test_cost_is_limited_where_the_price_is_known() -> None:
    turns = [ak.Turn("x = 1", usage=Usage(1, 1, 1, 0.6))] * 5
    run = failed(ak.Limits(cost=1.0), *turns)
    assert run.outcome.limit == "cost"
    assert run.usage.cost == pytest.approx(1.2)


def test_the_time_of_a_run_is_limited() -> None:
    began = time.monotonic()
    turns = [ak.Turn("x = 1", delay_s=0.1)] * 50
    assert failed(ak.Limits(run_s=0.3, steps=None), *turns).outcome.limit == "run_s"
    assert time.monotonic() - began < 5


def test_the_time_of_an_answer_is_limited() -> None:
    run = failed(ak.Limits(model_s=0.05, retries=0), ak.Turn("x = 1", delay_s=30))
    assert run.outcome.limit == "model_s"


def test_the_time_of_a_step_is_limited_and_the_model_is_told() -> None:
    model = ak.ScriptedModel(["done = 1\nwhile True: pass", "task.success(done)"])
    run = ak.Agent(model=model, limits=ak.Limits(step_s=0.2)).start("Loop")
    assert run.result() == 1
    assert [event.status for event in run.events if isinstance(event, Output)] == ["timeout", "ok"]
    assert [event.source for event in run.events if isinstance(event, Error)] == ["code"]


def test_what_is_printed_is_cut_for_the_model_in_its_middle() -> None:
    model = ak.ScriptedModel(["print('a' * 5_000 + 'z')", "task.success()"])
    run = ak.Agent(model=model, limits=ak.Limits(output_chars=300)).start("Print")
    run.result()
    sent = next(event.sent for event in run.events if isinstance(event, Output))
    assert len(sent) < 500
    assert "characters left out" in sent


def test_what_was_done_before_a_limit_is_kept() -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        run = ak.Agent(model=ak.ScriptedModel(["x = 1"] * 3), limits=ak.Limits(steps=1)).start("Go", state=state)
        with pytest.raises(ak.TaskFailedError):
            run.result()
        assert state["x"] == 1
        assert len(state.history()) == 1


def test_a_failed_run_can_be_told_to_go_on() -> None:
    model = ak.ScriptedModel(["task.fail('cannot')", "task.success('after all')"])
    run = ak.Agent(model=model).start("Try")
    with pytest.raises(ak.TaskFailedError):
        run.result()
    assert run.resume("Try harder.").result() == "after all"


@pytest.mark.parametrize("wrong", [-1, -0.5])
def test_a_limit_is_not_negative(wrong: float) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        ak.Limits(run_s=wrong)


def test_waiting_for_a_provider_counts_for_the_time_of_the_run() -> None:
    busy = ak.Turn(error=ModelError("busy", "too many requests", retry_after_s=30.0))
    began = time.monotonic()
    run = failed(ak.Limits(run_s=0.3), busy, busy)
    assert run.outcome.limit == "run_s"
    assert time.monotonic() - began < 10
