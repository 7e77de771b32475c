"""What a task gives back is of the type that was asked for, whoever goes on with it."""

from __future__ import annotations

import collections
import datetime
import typing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

import agent_kernel as ak
from agent_kernel.agents import arguments
from agent_kernel.agents.events import Retry, TaskStart

ASKS = "import os\nos.system('true')"


def asking(*turns: str, state: ak.Versioned, name: str = "asking") -> ak.Agent:
    return ak.Agent("asking", model=ak.ScriptedModel(turns, name=name), state=state, approve="risky")


@pytest.mark.parametrize("wanted", [int, list[int], dict[str, float]])
def test_a_run_that_is_found_again_holds_its_result_to_the_type_it_began_with(wanted: Any) -> None:
    with ak.Versioned() as state:
        good = {int: "3", list[int]: "[3]", dict[str, float]: "{'a': 0.5}"}[wanted]
        agent = asking(ASKS, "task.success('words')", f"task.success({good})", state=state)
        first = agent.start("Give it", returns=wanted)
        for _ in first:
            pass
        again = agent.reopen(first.id).approve()
        assert again.result() == eval(good)
        assert "Retry" in [event.kind for event in again.events]


def test_a_run_goes_on_with_its_agents_own_model() -> None:
    with ak.Versioned() as state:
        one = ak.Agent("one", model=ak.FunctionModel(lambda request: "task.clarify('Which?')"), state=state)
        run = one.start("Do it")
        for _ in run:
            pass
        _ = ak.Agent("two", model=ak.FunctionModel(lambda request: "task.fail('another model')")).start("Fail")
        again = ak.Agent("one", model=ak.FunctionModel(lambda request: "task.success('mine')"), state=state).reopen(
            run.id
        )
        assert again.resume("This one.").result() == "mine"


@dataclass
class Unresolved:
    """A record of which one part is not known."""

    other: "NoSuchType"  # type: ignore[name-defined]  # noqa: F821, UP037


@pytest.mark.parametrize("wrong", [5, len, [int], "Nope", lambda x: x, Unresolved])
def test_what_is_no_type_is_refused_before_anything_runs(wrong: object) -> None:
    with pytest.raises(TypeError, match="must be a type"):
        _ = ak.Agent(model=ak.ScriptedModel(["task.success(1)"])).start("Try", returns=wrong)


@pytest.mark.parametrize(
    "wanted",
    [
        int,
        list[int],
        int | None,
        dict[str, list[float]],
        Literal["a", "b"],
        type(None),
        collections.OrderedDict,
        typing.Union[int, str],  # noqa: UP007 - how older code has it
        typing.Callable[[int], str],
        tuple[int, ...],
    ],
)
def test_a_type_is_found_by_its_text(wanted: object) -> None:
    text = arguments.type_text(wanted)
    assert arguments.type_text(arguments.type_of_text(text, {})) == text
    assert not isinstance(arguments.type_of_text(text, {}), arguments.TypeText)


def test_a_type_that_is_not_to_be_found_is_held_to_its_name() -> None:
    Own = type("Own", (), {"__module__": "__main__"})
    wanted = arguments.type_of_text("Own", {})
    value = Own()
    assert arguments.fit(value, wanted) is value
    with pytest.raises(arguments.Misfit):
        arguments.fit(1, wanted)
    assert arguments.type_of_text("Own", {"Own": Own}) is Own
    assert isinstance(arguments.type_of_text("print('run')", {}), arguments.TypeText)


def test_keys_among_the_settings_of_a_model_are_not_stored() -> None:
    settings = {
        "temperature": 0.1,
        "max_tokens": 100,
        "api_key": "abcdefgh",
        "user": "sk-abcdefghijklmnopqrstuvwx123456",
    }
    run = ak.Agent(model=ak.ScriptedModel(["task.success()"]), model_settings=settings).start("Go")
    start = run.events[0]
    assert isinstance(start, TaskStart)
    assert start.settings == {"temperature": 0.1, "max_tokens": 100}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (["1", "2"], list[int]),
        (["yes"], list[bool]),
        ([b"x"], list[str]),
        ({"a": "1e3"}, dict[str, float]),
        ("5", int | None),
        (True, float | None),
        ([1], list[bool]),
        ([[1, "2"]], list[list[int]]),
        ((1, "2"), tuple[int, int]),
        ({"1": 2}, dict[int, int]),
    ],
)
def test_no_value_is_turned_into_another_one(value: object, wanted: object) -> None:
    with pytest.raises(arguments.Misfit):
        arguments.fit(value, wanted)


@pytest.mark.parametrize(
    ("value", "wanted", "same"),
    [
        ([1, 2], list[float], [1.0, 2.0]),
        ([1, 2], tuple[int, int], (1, 2)),
        ({"a": None}, dict[str, int | None], {"a": None}),
        (True, bool | None, True),
        ("2026-01-02", datetime.date | None, datetime.date(2026, 1, 2)),
        ([np.float64(0.5)], list[float], [0.5]),
        ({"a": np.int64(3)}, dict[str, int], {"a": 3}),
    ],
)
def test_what_loses_nothing_is_made_fit(value: object, wanted: object, same: object) -> None:
    assert arguments.fit(value, wanted) == same


@dataclass
class Score:
    student: str
    total: int


@dataclass
class Report:
    scores: list[Score]
    grid: np.ndarray[Any, Any]
    next: Report | None = None


def test_the_fields_of_a_dataclass_are_of_their_types() -> None:
    good = Report([Score("ada", 7)], np.zeros(2))
    good.next = good  # it holds itself
    fitting: list[tuple[object, object]] = [(good, Report), ([good], list[Report]), ({"a": good}, dict[str, Report])]
    for value, wanted in fitting:
        arguments.check_type(wanted)
        assert arguments.fit(value, wanted) == value
    for wrong in (
        Report([Score("ada", "7")], np.zeros(2)),  # type: ignore[arg-type]
        Report([Score("ada", 7)], [0, 0]),  # type: ignore[arg-type]
        Report([Score("ada", 7)], np.zeros(2), Report([5], np.zeros(2))),  # type: ignore[list-item]
    ):
        held: list[tuple[object, object]] = [
            (wrong, Report),
            ([wrong], list[Report]),
            ({"a": wrong}, dict[str, Report]),
        ]
        for value, wanted in held:
            with pytest.raises(arguments.Misfit, match=r"Score\.total|Report\.grid|Report\.scores"):
                arguments.fit(value, wanted)
    with pytest.raises(arguments.Misfit, match="Report, and is dict"):
        arguments.fit({"scores": []}, Report)


def test_an_agent_is_told_of_a_field_that_is_of_another_type() -> None:
    scripted = ak.ScriptedModel(["task.success(Score('ada', '7'))", "task.success(Score('ada', 7))"])
    agent = ak.Agent("scorer", model=scripted)
    agent.cls(Score)
    run = agent.start("Score", returns=Score)
    assert run.result() == Score("ada", 7)
    told = [event.sent for event in run.events if isinstance(event, Retry)]
    assert len(told) == 1
    assert "Score.total: it must be int, and is str" in told[0]
