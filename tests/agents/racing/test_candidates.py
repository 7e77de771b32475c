"""A race tries a task in parallel on branches of one state; its candidates are told apart, and one is the best."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Executor
from pathlib import Path

import pytest

from agent_kernel.agents.agent import Agent
from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.events import Event, Output, SubRun
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.models import FunctionModel, Request, Turn
from agent_kernel.agents.races import race
from agent_kernel.agents.workers import stop_key
from agent_kernel.errors import ModelError, RaceError
from agent_kernel.session import Versioned
from tests.agents.races import children, opened, scripted
from tests.agents.racing.racers import BAD, BETTER, GOOD


def test_each_candidate_begins_at_the_same_commit_in_a_process_of_its_own(tmp_path: Path) -> None:
    before = children()
    with opened(tmp_path, rows=[3, 1, 2]) as state:
        state["late"] = "not committed yet"
        crash = scripted("import ctypes\nctypes.string_at(0)", name="crash")
        tries = race("lowest", models=[GOOD, BETTER, BAD, crash], state=state)
        assert {one.number for one in tries} == {1, 2, 3, 4}
        assert [one.status for one in tries.candidates] == ["completed", "completed", "failed", "failed"]
        assert [one.reason for one in tries.candidates] == ["", "", "no idea", "its process was ended by SIGSEGV"]
        assert {one.start for one in tries.candidates} == {tries.candidates[0].start}
        assert state.repo.at(tries.candidates[2].tip)["late"] == "not committed yet"
        assert state["rows"] == [3, 1, 2]
        assert state.repo.head().branch == "main"
        tries.pick(2)
        assert (state["rows"], state["best"]) == ([1, 2, 3], 1)
        tries.discard()
        assert list(state.repo.branches()) == ["main"]
        assert set(state.repo.heads()) == {"", state.session.id}
        assert state.repo.setting(stop_key(tries.id)) is None
    assert children() == before


def test_a_candidate_tells_its_result_what_changed_and_what_it_took(state: Versioned, pool: Executor) -> None:
    state["gone"] = 1
    model = scripted("rows.append(9); new = 1; del gone", "task.success(rows)", name="m")
    one = race("go", n=1, models=[model], state=state, executor=pool).wait().candidate(1)
    assert [(change.how, change.name) for change in one.changed] == [("-", "gone"), ("+", "new"), ("~", "rows")]
    assert (one.value, one.type, one.steps, one.lines) == ([3, 1, 2, 9], "list", 2, 2)
    assert one.usage.requests == 2
    assert one.seconds > 0
    assert one.result == "list of 4 int, [3, 1, 2, …]"


def test_one_task_is_tried_three_times_unless_something_else_is_said(state: Versioned, pool: Executor) -> None:
    assert len(race("go", models=[GOOD], state=state, executor=pool).wait().candidates) == 3
    assert len(race("go", models=[GOOD], n=2, state=state, executor=pool).wait().candidates) == 2
    assert len(race(["a", "b"], agent=Agent("x", model=GOOD), state=state, executor=pool).wait().candidates) == 2
    with pytest.raises(RaceError, match="at least 1"):
        race("go", models=[GOOD], n=0, state=state, executor=pool)


def test_agents_race_too_and_each_signs_its_own_commits(state: Versioned, pool: Executor) -> None:
    agents = [Agent("ridge", model=GOOD), Agent("boosting", model=BETTER)]
    tries = race("lowest", agent=agents, state=state, executor=pool).wait()
    assert [state.repo.show(one.tip).author.name for one in tries.candidates] == ["ridge", "boosting"]


def test_the_judge_is_an_expression_over_the_candidates_variables(state: Versioned, pool: Executor) -> None:
    tries = race(
        "lowest", models=[GOOD, BETTER, BAD], state=state, executor=pool, judge="result + (rows[0] == 1)"
    ).wait()
    assert [one.score for one in tries.candidates] == [1.0, 2.0, None]
    assert tries.best is not None
    assert tries.best.number == 2
    tries.pick()
    assert state["rows"] == [1, 2, 3]


def test_the_judge_may_be_a_function_and_where_it_fails_there_is_no_score(state: Versioned, pool: Executor) -> None:
    tries = race(
        "lowest", models=[GOOD, BETTER], state=state, executor=pool, judge=lambda one: 1 / (one.steps - 1)
    ).wait()
    assert [one.score for one in tries.candidates] == [None, 1.0]
    assert "ZeroDivisionError" in tries.candidate(1).reason
    assert tries.best is tries.candidate(2)


def test_without_a_judge_the_only_one_with_a_result_is_the_best(state: Versioned, pool: Executor) -> None:
    alone = race("lowest", models=[GOOD, BAD], state=state, executor=pool).wait()
    assert alone.best is alone.candidate(1)
    several = race("lowest", models=[GOOD, BETTER], state=state, executor=pool).wait()
    assert several.best is None
    with pytest.raises(RaceError, match=r"no best candidate: pick\(NUMBER\)"):
        several.pick()


def test_where_all_fail_the_error_says_of_each_why(state: Versioned, pool: Executor) -> None:
    tries = race("lowest", models=[BAD], n=2, state=state, executor=pool)
    with pytest.raises(RaceError, match="1: no idea; 2: no idea"):
        tries.wait()
    with pytest.raises(RaceError, match=r"candidate 1 cannot be picked: it is failed \(no idea\)"):
        tries.pick(1)
    with pytest.raises(RaceError, match="candidates 1 to 2, and no 3"):
        tries.pick(3)
    assert state["rows"] == [3, 1, 2]


def test_the_events_of_a_race_tell_of_its_candidates_and_theirs_of_the_race(state: Versioned, pool: Executor) -> None:
    heard: list[Event] = []
    tries = race("lowest", models=[GOOD, BAD], state=state, executor=pool, on_event=heard.append, parent_run="p").wait()
    tries.pick(1)
    told = sorted((event.child, event.status) for event in heard if isinstance(event, SubRun))
    first, second = (one.run for one in tries.candidates)
    assert told == sorted(
        [(first, "running"), (first, "completed"), (first, "picked"), (second, "running"), (second, "failed")]
    )
    assert {event.parent_run for event in heard} == {"p"}
    event_store = EventStore(state.repo.store)
    assert [event.kind for event in event_store.of(tries.id)] == [event.kind for event in heard]
    assert {event.parent_run for event in event_store.of(first)} == {tries.id}


def test_threads_do_not_mix_what_they_print_or_how_they_end(state: Versioned, pool: Executor) -> None:
    def answer(request: Request) -> Turn:
        code = "import time\nfor at in range(30):\n    print(task.inputs['who'], at)\n    time.sleep(0.01)\n"
        return Turn(f"{code}task.success(task.inputs['who'])")

    model = FunctionModel(answer, "talk")
    before = os.sys.stdout  # type: ignore[attr-defined]
    races = [race("talk", n=2, models=[model], state=state, executor=pool, inputs={"who": who}) for who in "ab"]
    for tries, who in zip(races, "ab", strict=True):
        assert [one.value for one in tries.wait().candidates] == [who, who]
        for one in tries.candidates:
            events = EventStore(state.repo.store).of(one.run)
            shown = [event.parts[0].text for event in events if isinstance(event, Output)]
            assert shown == ["".join(f"{who} {at}\n" for at in range(30))]
    assert os.sys.stdout is before  # type: ignore[attr-defined]


def test_a_race_needs_a_history_that_its_workers_can_see(state: Versioned, pool: Executor) -> None:
    with pytest.raises(RaceError, match="give executor=ThreadPoolExecutor"):
        race("go", models=[GOOD], state=state)
    with pytest.raises(RaceError, match="a state with a history"):
        race("go", models=[GOOD], executor=pool)
    with pytest.raises(RaceError, match="a state with a history"):
        race("go", models=[GOOD], state={}, executor=pool)
    with pytest.raises(ModelError):
        race("go", models=["scripted:nobody"], state=state, executor=pool)


def test_what_cannot_be_sent_is_said_before_anything_runs(state: Versioned, pool: Executor) -> None:
    locks = [threading.Lock()]
    model = FunctionModel(lambda _: Turn("task.success(1)" if locks else ""), "locked")
    with pytest.raises(RaceError, match="cannot be sent to a worker"):
        race("go", models=[model], state=state, executor=pool)
    assert list(state.repo.branches()) in ([], ["main"])


def test_what_cannot_be_saved_is_said_to_be_missing(state: Versioned, pool: Executor) -> None:
    state["lock"] = threading.Lock()
    tries = race("lowest", models=[GOOD], n=1, state=state, executor=pool).wait()
    assert tries.notes == ["The candidates do not have lock, because it cannot be saved."]
    state["other"] = threading.Lock()
    again = race("lowest", models=[GOOD], n=1, state=state, executor=pool).wait()
    assert again.notes == ["The candidates do not have lock and other, because these cannot be saved."]
    tries.pick(1)
    assert state["best"] == 1
    with state["lock"]:  # type: ignore[attr-defined]
        pass


def test_a_type_of_the_notebook_is_the_workers_own(state: Versioned, pool: Executor) -> None:
    state.session.namespace["__name__"] = "__main__"
    exec("class Point:\n    def __init__(self, x): self.x = x\n", state.session.namespace)
    point = state["Point"]
    code = "task.success(Point(2))"
    tries = race("go", n=1, models=[scripted(code)], state=state, executor=pool, returns=point).wait()
    assert tries.candidate(1).type == "Point"


def test_limits_hold_for_each_candidate(state: Versioned, pool: Executor) -> None:
    tries = race("go", n=2, models=[scripted("a = 1", "b = 1")], state=state, executor=pool, limits=Limits(steps=1))
    with pytest.raises(RaceError, match="stopped after 1 step"):
        tries.wait()
    assert [one.limit for one in tries.candidates] == ["steps", "steps"]


def test_several_races_on_one_state_do_not_stand_in_each_others_way(state: Versioned, pool: Executor) -> None:
    first = race("lowest", models=[GOOD], n=2, state=state, executor=pool)
    second = race("lowest", models=[BETTER], n=2, state=state, executor=pool)
    began = time.monotonic()
    assert all(one.is_done for one in [*first.wait().candidates, *second.wait().candidates])
    assert time.monotonic() - began < 20


def test_what_can_be_no_model_is_refused_as_an_agent_refuses_it(state: Versioned, pool: Executor) -> None:
    answers = ["task.success(1)"]
    with pytest.raises(TypeError) as of_agent:
        Agent(model=answers)
    with pytest.raises(TypeError) as of_race:
        race("lowest", models=[answers], state=state, executor=pool)
    assert str(of_race.value) == str(of_agent.value)
