"""Each limit ends a run as failed, with everything kept and the limit named."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.agents.events import Error, Output, Usage
from agent_kernel.agents.models import Answer, Delta, Request
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
    assert run.outcome.reason.startswith("stopped after 2 steps, which is the limit")


def test_tokens_are_limited() -> None:
    turns = [ak.Turn("x = 1", usage=Usage(1, 60, 0))] * 5
    assert failed(ak.Limits(tokens=100), *turns).outcome.limit == "tokens"


def test_cost_is_limited_where_the_price_is_known() -> None:
    turns = [ak.Turn("x = 1", usage=Usage(1, 1, 1, 0.6))] * 5
    run = failed(ak.Limits(cost=1.0), *turns)
    assert run.outcome.limit == "cost"
    assert run.usage.cost == pytest.approx(1.2)


class Paid:
    """A model whose provider tells no price."""

    name = "paid"

    def __init__(self, priced: bool | None = None) -> None:
        self.asked = 0
        if priced is not None:
            self.has_price = lambda: priced

    async def stream(self, request: Request) -> AsyncIterator[Delta | Answer]:
        self.asked += 1
        yield Answer(code="x = 1", usage=Usage(1, 10, 10))


def test_a_limit_on_the_cost_is_refused_where_the_price_is_known_to_be_unknown() -> None:
    model = Paid(priced=False)
    state: dict[str, object] = {"n": 1}
    agent = ak.Agent(model=model, limits=ak.Limits(cost=1.0), state=state)
    with pytest.raises(ak.UnknownPriceError, match=r"what paid costs is not known, .* under \$1: limit its tokens"):
        _ = agent.start("Go on", inputs={"n": 2})
    assert model.asked == 0
    assert state == {"n": 1}
    _ = agent.start("Go on", limits=ak.Limits())


def test_a_race_is_refused_as_well_where_the_price_is_unknown() -> None:
    with ak.Versioned() as state, ThreadPoolExecutor(1) as pool:
        with pytest.raises(ak.UnknownPriceError):
            ak.race(
                "Go",
                n=2,
                agent=ak.Agent(model=Paid(priced=False)),
                state=state,
                executor=pool,
                limits=ak.Limits(cost=1.0),
            )
        assert state.repo.branches().keys() <= {"main"}


@pytest.mark.parametrize("priced", [None, True])
def test_a_limit_on_the_cost_ends_a_run_whose_answers_have_no_price(priced: bool | None) -> None:
    model = Paid(priced)
    run = ak.Agent(model=model, limits=ak.Limits(cost=1.0)).start("Go on")
    with pytest.raises(ak.TaskFailedError, match=r"what its model costs is not known, so it cannot be kept under \$1"):
        run.result()
    assert (run.outcome.limit, model.asked) == ("cost", 1)


def test_models_that_cost_nothing_need_no_price() -> None:
    model = ak.ScriptedModel(["x = 1", "task.success(x)"])
    assert ak.Agent(model=model, limits=ak.Limits(cost=1.0))("Go on") == 1
    free = ak.FunctionModel(lambda request: "task.success(1)" if request.turn else "x = 1")
    assert ak.Agent(model=free, limits=ak.Limits(cost=0.01))("Go on") == 1


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


def test_a_run_that_is_told_to_go_on_may_take_as_much_again() -> None:
    model = ak.ScriptedModel([f"x = {n}" for n in range(4)] + ["task.success(x)"])
    run = ak.Agent(model=model, limits=ak.Limits(steps=2)).start("Count")
    for done in (2, 4):
        with pytest.raises(ak.TaskFailedError) as caught:
            run.result()
        assert caught.value.limit == "steps"
        assert sum(isinstance(event, Output) for event in run.events) == done
        _ = run.resume()
    assert run.result() == 3


def test_the_time_that_a_person_takes_to_decide_is_not_the_runs() -> None:
    code = "import os; os.system('true')"
    limits = ak.Limits(run_s=1.0)
    run = ak.Agent(model=ak.ScriptedModel([code, "task.success(1)"]), limits=limits).start("Wait", approve="risky")
    with pytest.raises(ak.TaskPendingError):
        run.result()
    time.sleep(1.1)
    assert run.approve().result() == 1


def test_a_cost_that_is_not_a_number_is_unknown() -> None:
    assert Usage(1, 1, 1, math.nan).clamp().cost is None
    run = failed(ak.Limits(steps=1), ak.Turn("x = 1", usage=Usage(1, 1, 1, math.inf)), *["x = 1"] * 5)
    assert run.usage.cost is None


def test_more_tokens_than_a_number_holds_end_a_run_with_a_limit() -> None:
    run = failed(ak.Limits(tokens=1_000), ak.Turn("x = 1", usage=Usage(1, 10**30, 0, 1.0)), *["x = 1"] * 5)
    assert run.outcome.limit == "tokens"


def test_a_negative_usage_subtracts_nothing() -> None:
    first, lie = Usage(1, 600, 0, 1.0), Usage(1, -1_000_000, -5, -100.0)
    turns = [ak.Turn("x = 1", usage=one) for one in (first, lie, lie, first)]
    run = failed(ak.Limits(tokens=1_000), *turns, *["x = 1"] * 5)
    assert run.outcome.limit == "tokens"
    assert (run.usage.tokens, run.usage.cost) == (1_200, 2.0)


ANY: Any = ak  # whose parameters take anything


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: ANY.Agent(5), "an agent's name is text, not 5"),
        (lambda: ANY.Agent(limits={"steps": 1}), r"limits= takes ak.Limits\(…\), not {'steps': 1}"),
        (lambda: ANY.Limits(steps="5"), "steps must be a number, not '5'"),
        (lambda: ANY.Agent(model="scripted:hello")(5), "a task is text, not 5"),
        (
            lambda: ANY.Agent(model="scripted:hello")("Count", state="folder"),
            "state= takes a Versioned, a Live, a dict, a session or None, not 'folder'",
        ),
        (lambda: ANY.ScriptedModel("task.success(1)"), r"a script is a list of answers: \['task.success\(1\)'\]"),
    ],
)
def test_what_an_agent_cannot_take_is_named(wrong: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        wrong()
