"""A typed, documented, empty function is a task: its arguments and its result are held to its annotations."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import pytest

import agent_kernel as ak
from agent_kernel.agents.events import Action, Event, Fail, Output
from agent_kernel.agents.models import Request


def agent(*turns: ak.Turn | str, **more: object) -> ak.Agent:
    return ak.Agent("worker", model=ak.ScriptedModel(turns), **more)  # type: ignore[arg-type]


class Robot:
    """A class that pydantic knows nothing of."""


@dataclass
class Point:
    x: int
    y: int


def test_calling_it_does_the_docstring_with_its_arguments() -> None:
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        return "task.success(a + b)"

    worker = ak.Agent(model=ak.FunctionModel(answer), primer="You are careful.")

    @worker.task
    def add(a: int, b: int = 3) -> int:
        """Add two numbers."""
        raise NotImplementedError

    assert add(4) == 7
    assert asked[0].instructions.startswith("You are careful.")
    assert asked[0].messages[0].text.startswith("Add two numbers.\n\nGiven as variables: a, b.")
    assert (add.__name__, add.__doc__) == ("add", "Add two numbers.")


def test_text_that_is_given_goes_before_the_docstring() -> None:
    worker = agent("task.success(1)")

    @worker.task("Count the stars.")
    def stars() -> int:
        """For those who call it."""
        raise NotImplementedError

    assert stars.start().task == "Count the stars."


def test_arguments_are_held_to_their_annotations() -> None:
    worker = agent("task.success(repr((point, robot)))")

    @worker.task
    def draw(point: Point, robot: Robot | None = None) -> str:
        """Draw it."""
        raise NotImplementedError

    assert draw({"x": 1, "y": 2}) == "(Point(x=1, y=2), None)"  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="argument 'point' does not fit"):
        draw({"x": "east"})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="argument 'robot' does not fit"):
        draw(Point(1, 2), "no robot")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"draw\(\): missing a required argument"):
        draw()  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"draw\(\): it takes no argument 'pont'; did you mean 'point'\?"):
        draw(pont=Point(1, 2))  # type: ignore[call-overload]


def test_any_object_goes_in_and_comes_out_as_it_is() -> None:
    worker = agent("task.success(robot)")
    robot = Robot()

    @worker.task
    def polish(robot: Robot) -> Robot:
        """Polish it."""
        raise NotImplementedError

    assert polish(robot) is robot


def test_a_result_of_another_type_goes_back_to_the_model() -> None:
    worker = agent("task.success('nine')", "task.success(9)")

    @worker.task
    def count() -> int:
        """Count."""
        raise NotImplementedError

    assert count() == 9


def test_a_task_that_fails_or_asks_raises() -> None:
    failing, asking = agent("task.fail('no data')"), agent("task.clarify('which?')")

    @failing.task
    def first() -> int:
        """Try."""
        raise NotImplementedError

    @asking.task
    def second() -> int:
        """Try."""
        raise NotImplementedError

    with pytest.raises(ak.TaskFailedError, match="no data"):
        first()
    with pytest.raises(ak.TaskClarifyError, match="which"):
        second()


def test_a_question_is_answered_on_the_run() -> None:
    worker = agent("task.clarify('which?')", "task.success(2)")

    @worker.task
    def choose() -> int:
        """Choose."""
        raise NotImplementedError

    run = choose.start()
    with pytest.raises(ak.TaskClarifyError):
        run.result()
    assert run.resume("the second").result() == 2


@pytest.mark.parametrize("body", ["return 1", "x = 1", "print('hello')", "return a", "yield", "raise ValueError"])
def test_a_body_is_refused(body: str) -> None:
    space: dict[str, object] = {}
    exec(f"def work(a: int) -> int:\n    'Work.'\n    {body}", space)
    with pytest.raises(TypeError, match="must be empty"):
        agent().task(space["work"])  # type: ignore[call-overload]


@pytest.mark.parametrize("body", ["pass", "...", "raise NotImplementedError", ""])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_an_empty_body_is_one_that_does_nothing(body: str, kind: str) -> None:
    space: dict[str, object] = {}
    exec(f"{kind} work(a: int) -> int:\n    'Work.'\n    {body}", space)
    assert agent().task(space["work"]).text == "Work."  # type: ignore[call-overload]


def test_a_function_that_says_nothing_is_refused() -> None:
    def silent() -> int:
        raise NotImplementedError

    with pytest.raises(TypeError, match="needs a docstring"):
        agent().task(silent)


def test_an_annotation_that_is_not_known_is_refused() -> None:
    def odd(a: Missing) -> int:  # type: ignore[name-defined]  # noqa: F821
        """Work."""
        raise NotImplementedError

    with pytest.raises(TypeError, match="annotation of odd"):
        agent().task(odd)


def test_an_annotation_may_be_local() -> None:
    @dataclass
    class Box:
        size: int

    worker = agent("task.success(box)")

    @worker.task
    def pack(box: Box) -> Box:
        """Pack it."""
        raise NotImplementedError

    assert pack(Box(3)).size == 3


def test_setup_runs_first_and_the_model_sees_what_came_of_it() -> None:
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        return "task.success(math.floor(half))"

    worker = ak.Agent(model=ak.FunctionModel(answer), approve="never")

    @worker.task(setup="import math, subprocess\nhalf = n / 2\nprint('ready')")
    def halve(n: int) -> int:
        """Halve it."""
        raise NotImplementedError

    events: list[Event] = []
    assert halve(7, on_event=events.append) == 3
    assert len(asked) == 1
    assert "ready" in asked[0].messages[-1].text
    assert [event.source for event in events if isinstance(event, Action)] == ["setup", "model"]
    assert [event.step for event in events if isinstance(event, Output)] == [0, 1]


def test_setup_that_fails_ends_the_run() -> None:
    worker = agent("task.success(1)")

    @worker.task(setup="1 / 0")
    def work() -> int:
        """Work."""
        raise NotImplementedError

    run = work.start()
    with pytest.raises(ak.TaskFailedError, match="setup failed: ZeroDivisionError"):
        run.result()
    assert isinstance(run.events[-1], Fail)


def test_a_call_says_its_state_and_who_is_told() -> None:
    worker = agent("seen = n\ntask.success(n)")

    @worker.task
    def look(n: int) -> int:
        """Look."""
        raise NotImplementedError

    events: list[Event] = []
    with ak.Versioned() as state:
        assert look(5, state=state, on_event=events.append) == 5
        assert state["seen"] == 5
    assert events[-1].kind == "Success"
    live = ak.Live()
    assert look.on(state=live)(6) == 6
    assert live["seen"] == 6


def test_a_parameter_called_state_is_the_functions_own() -> None:
    worker = agent("task.success(state)")

    @worker.task
    def weather(state: str) -> str:
        """Tell the weather."""
        raise NotImplementedError

    assert weather(state="Ohio") == "Ohio"


def test_an_async_function_is_awaited() -> None:
    worker = agent(ak.Turn("task.success(n + 1)", delay_s=0.05))

    @worker.task
    async def grow(n: int) -> int:
        """Grow it."""
        raise NotImplementedError

    async def main() -> list[int]:
        return list(await asyncio.gather(grow(1), grow(2), grow(3)))

    assert asyncio.run(main()) == [2, 3, 4]


def test_streaming_shows_what_happens() -> None:
    worker = agent(ak.Turn("task.success(1)", text="Easy."))

    @worker.task
    def work() -> int:
        """Work."""
        raise NotImplementedError

    assert [type(item).__name__ for item in work.stream()][:2] == ["Delta", "Delta"]


def test_map_waits_for_several_models_at_once_and_keeps_the_order() -> None:
    worker = ak.Agent(model=ak.FunctionModel(lambda _request: ak.Turn("task.success(n * n)", delay_s=0.3)))

    @worker.task
    def square(n: int) -> int:
        """Square it."""
        raise NotImplementedError

    began = time.monotonic()
    assert square.map(range(6), at_once=6) == [0, 1, 4, 9, 16, 25]
    assert time.monotonic() - began < 1.5


def test_map_does_tasks_of_one_state_one_after_the_other() -> None:
    worker = agent("seen = [*globals().get('seen', []), n]", "task.success(len(seen))")

    @worker.task
    def note(n: int) -> int:
        """Note it."""
        raise NotImplementedError

    assert note.on(state=ak.Live()).map([7, 8, 9]) == [1, 2, 3]


def test_map_does_all_before_it_raises() -> None:
    done: list[object] = []
    worker = ak.Agent(
        model=ak.FunctionModel(lambda _request: "task.fail('odd') if n % 2 else task.success(n)"),
        on_event=lambda event: done.append(event) if event.kind == "Success" else None,
    )

    @worker.task
    def even(n: int) -> int:
        """Give back even numbers."""
        raise NotImplementedError

    with pytest.raises(ak.TaskFailedError, match="odd"):
        even.map([2, 3, 4])
    assert len(done) == 2
