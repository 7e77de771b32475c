"""Errors of a model are retried where it says that this helps, and end in one clear line where not."""

from __future__ import annotations

import time

import pytest

import agent_kernel as ak
from agent_kernel.agents.event_log import active_seconds
from agent_kernel.agents.events import Error
from agent_kernel.agents.models import Request


class Flaky:
    """A function for a FunctionModel that fails so often, and then answers."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.asked = 0
        self._failures = failures
        self._error = error

    def __call__(self, _request: Request) -> ak.Turn:
        self.asked += 1
        return ak.Turn(error=self._error) if self.asked <= self._failures else ak.Turn("task.success('there')")


def busy() -> ak.ModelError:
    return ak.ModelError("m", "HTTP 429: slow down", retry_after_s=0.02)


def test_an_error_that_passes_is_retried_and_noted() -> None:
    model = Flaky(2, busy())
    run = ak.Agent(model=ak.FunctionModel(model)).start("Ask")
    assert run.result() == "there"
    assert [event.fatal for event in run.events if isinstance(event, Error)] == [False, False]


def test_each_retry_waits_longer() -> None:
    began = time.monotonic()
    ak.Agent(model=ak.FunctionModel(Flaky(3, busy())))("Ask")
    assert time.monotonic() - began >= 0.02 + 0.04 + 0.08


def test_retries_of_the_model_are_bounded_and_the_run_fails() -> None:
    model = Flaky(99, busy())
    run = ak.Agent(model=ak.FunctionModel(model), limits=ak.Limits(retries=2)).start("Ask")
    with pytest.raises(ak.TaskFailedError, match="slow down"):
        run.result()
    assert model.asked == 3


@pytest.mark.parametrize("failures", [3, 99])
def test_attempts_that_failed_and_the_waits_between_them_are_time_that_the_run_took(failures: int) -> None:
    began = time.monotonic()
    run = ak.Agent(model=ak.FunctionModel(Flaky(failures, busy()))).start("Ask")
    for _ in run:
        pass
    assert 0.02 + 0.04 + 0.08 <= active_seconds(run.events) <= time.monotonic() - began


def test_an_error_that_stays_is_not_retried() -> None:
    model = Flaky(99, ak.ModelError("m", "no such model"))
    run = ak.Agent(model=ak.FunctionModel(model)).start("Ask")
    with pytest.raises(ak.TaskFailedError, match="no such model"):
        run.result()
    assert model.asked == 1
    assert run.outcome.status == "failed"


def test_an_error_that_nobody_foresaw_ends_the_run_in_one_line() -> None:
    run = ak.Agent(model=ak.FunctionModel(Flaky(99, ValueError("odd")))).start("Ask")
    with pytest.raises(ak.TaskFailedError, match="ValueError: odd"):
        run.result()


def test_a_script_that_is_too_short_says_so() -> None:
    run = ak.Agent(model=ak.ScriptedModel(["x = 1"])).start("Ask")
    with pytest.raises(ak.TaskFailedError, match="the script has 1 answer; the agent asked for a second"):
        run.result()


def test_an_error_in_code_is_none_of_the_model() -> None:
    answers = iter([ak.Turn("1 / 0"), *[ak.Turn(error=busy())] * 2])
    model = ak.FunctionModel(lambda _request: next(answers, ak.Turn("task.success(1)")))
    assert ak.Agent(model=model, limits=ak.Limits(retries=2))("Ask") == 1


def test_errors_before_and_after_a_step_are_counted_apart() -> None:
    answers = iter([*[ak.Turn(error=busy())] * 2, ak.Turn("x = 1"), *[ak.Turn(error=busy())] * 2])
    model = ak.FunctionModel(lambda _request: next(answers, ak.Turn("task.success(x)")))
    assert ak.Agent(model=model, limits=ak.Limits(retries=2))("Ask") == 1


def test_a_run_that_failed_for_its_model_goes_on_and_asks_as_often_again() -> None:
    model = Flaky(5, busy())
    run = ak.Agent(model=ak.FunctionModel(model), limits=ak.Limits(retries=2)).start("Ask")
    with pytest.raises(ak.TaskFailedError, match="slow down"):
        run.result()
    assert run.resume().result() == "there"
    assert model.asked == 6
