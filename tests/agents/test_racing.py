"""A race tries a task in parallel on branches of one state, and one candidate is picked: nothing else comes of it."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agent_kernel as ak
from agent_kernel.agents.agent import Agent, place_of
from agent_kernel.agents.events import Event, Output, SubRun
from agent_kernel.agents.journal import Journal
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.models import FunctionModel, Request, Turn
from agent_kernel.agents.racing.race import Race, race
from agent_kernel.agents.racing.standings import data_of
from agent_kernel.agents.workers import stop_key
from agent_kernel.errors import ModelError, RaceError, RunNotFoundError
from agent_kernel.session import Versioned
from tests.agents.races import by_task, children, opened, scripted, until

GOOD = scripted("best = min(rows)\ntask.success(best)", name="good")
BETTER = scripted("rows.sort()", "best = rows[0]\ntask.success(best)", name="better")
BAD = scripted("half = len(rows) // 2", "task.fail('no idea')", name="bad")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def state() -> Iterator[Versioned]:
    with Versioned(ak.open("memory:")) as state:
        state["rows"] = [3, 1, 2]
        yield state


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


def test_a_pick_moves_the_branch_forward_where_nothing_happened_since(state: Versioned, pool: Executor) -> None:
    tries = race("lowest", models=[BETTER], n=1, state=state, executor=pool).wait()
    tries.pick(1)
    assert state.session.head == state.repo.resolve(tries.candidate(1).tip)
    state.undo()
    assert dict(state) == {"rows": [3, 1, 2]}


def test_a_pick_is_a_merge_that_names_the_race_where_something_did(state: Versioned, pool: Executor) -> None:
    tries = race("find the lowest", models=[BETTER], n=1, state=state, executor=pool).wait()
    state["mine"] = 5
    state.commit("meanwhile")
    tries.pick(1)
    commit = state.repo.show()
    assert (commit.kind, len(commit.parents)) == ("merge", 2)
    assert commit.message == f"pick candidate 1 of race {tries.id[-5:]}: find the lowest"
    assert (state["mine"], state["rows"]) == (5, [1, 2, 3])


def test_a_conflict_changes_nothing_and_can_be_settled(state: Versioned, pool: Executor) -> None:
    tries = race("lowest", models=[BETTER], n=1, state=state, executor=pool).wait()
    state["rows"] = [7]
    with pytest.raises(ak.MergeConflictError):
        tries.pick(1)
    assert state["rows"] == [7]
    tries.pick(1, theirs=["rows"])
    assert state["rows"] == [1, 2, 3]


def test_the_others_stay_as_branches_until_they_are_discarded(state: Versioned, pool: Executor) -> None:
    tries = race("lowest", models=[GOOD, BETTER], state=state, executor=pool).wait()
    tries.pick(1)
    assert {one.branch for one in tries.candidates} < set(state.repo.branches())
    assert state.repo.at(tries.candidate(2).branch)["rows"] == [1, 2, 3]
    tries.discard()
    tries.discard()
    assert list(state.repo.branches()) == ["main"]


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
    journal = Journal(state.repo.store)
    assert [event.kind for event in journal.of(tries.id)] == [event.kind for event in heard]
    assert {event.parent_run for event in journal.of(first)} == {tries.id}


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
            events = Journal(state.repo.store).of(one.run)
            shown = [event.parts[0].text for event in events if isinstance(event, Output)]
            assert shown == ["".join(f"{who} {at}\n" for at in range(30))]
    assert os.sys.stdout is before  # type: ignore[attr-defined]


def test_a_candidate_that_takes_no_interrupt_is_not_waited_for(
    state: Versioned, pool: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_kernel.agents.racing.field.GRACE_S", 0.3)
    gate = threading.Event()
    state["rows"] = []
    model = FunctionModel(lambda _: Turn("import sys\nsys.modules['gate'].wait()\ntask.success(1)"), "deaf")
    monkeypatch.setitem(__import__("sys").modules, "gate", gate)
    tries = race("go", n=1, models=[model], state=state, executor=pool, deadline_s=0.2)
    with pytest.raises(RaceError, match="what runs it goes on, and is not waited for"):
        tries.wait()
    with pytest.raises(RaceError, match="goes on in a thread"):
        tries.discard()
    gate.set()


def test_an_interrupt_ends_all_and_keeps_what_they_committed(tmp_path: Path) -> None:
    before = children()
    with opened(tmp_path, rows=[1]) as state:
        model = scripted("kept = 1", "import time\nwhile True:\n    time.sleep(0.01)", name="endless")
        tries = race("go", n=2, models=[model], state=state)
        journal = Journal(state.repo.store)

        def interrupt() -> None:
            runs = [one.run for one in tries.candidates]
            until(lambda: all(sum(e.kind == "StepStart" for e in journal.of(run)) == 2 for run in runs))
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        ended = list(tries)
        thread.join()
        assert [one.status for one in ended] == ["interrupted", "interrupted"]
        assert [state.repo.at(one.branch)["kept"] for one in tries.candidates] == [1, 1]
        assert [event.kind for event in journal.of(tries.id)][-1] == "Cancelled"
        with pytest.raises(RaceError, match="came to a result"):
            tries.wait()
        tries.discard()
    assert children() == before


def test_what_has_not_begun_when_the_race_is_cancelled_never_begins(state: Versioned) -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        blocker = pool.submit(gate.wait)
        tries = race("lowest", models=[GOOD], n=2, state=state, executor=pool)
        tries.cancel("never mind")
        gate.set()
        assert blocker.result()
    assert [(one.status, one.reason) for one in tries.candidates] == [
        ("interrupted", "it was stopped before it began")
    ] * 2
    assert tries.is_over


class Elsewhere:
    """A future of a cluster: none of `concurrent.futures`, and work that is on its way is cancelled, and goes on."""

    def __init__(self, inner: Future[Any]) -> None:
        self.inner = inner

    def add_done_callback(self, fn: Callable[[Elsewhere], object]) -> None:
        self.inner.add_done_callback(lambda _: fn(self))

    def result(self) -> object:
        return self.inner.result()

    def cancel(self) -> None:
        """It says nothing of what came of that."""


class Cluster:
    """An executor as a cluster's client is: `submit` with options of its own, no `map`, and jobs that travel as bytes."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool

    def submit(self, fn: Callable[..., object], *args: object, pure: bool = True, key: str | None = None) -> Elsewhere:
        assert pure
        assert key is None
        sent = pickle.dumps((fn, args))

        def done() -> object:
            function, given = pickle.loads(sent)
            return function(*given)

        return Elsewhere(self.pool.submit(done))


def test_an_executor_needs_no_more_than_submit(state: Versioned, pool: ThreadPoolExecutor) -> None:
    tries = race("lowest", models=[GOOD, BETTER, BAD], state=state, executor=Cluster(pool)).wait()
    assert [(one.status, one.result) for one in tries.candidates] == [
        ("completed", "1"),
        ("completed", "1"),
        ("failed", ""),
    ]


def test_what_an_executor_calls_cancelled_and_lets_go_on_is_stopped(state: Versioned, pool: ThreadPoolExecutor) -> None:
    endless = scripted("kept = 1", "import time\nwhile True:\n    time.sleep(0.01)", name="endless")
    tries = race("go", models=[endless], n=2, state=state, executor=Cluster(pool))
    journal = Journal(state.repo.store)
    runs = [one.run for one in tries.candidates]
    until(lambda: all(sum(event.kind == "StepStart" for event in journal.of(run)) == 2 for run in runs))
    tries.cancel("enough")
    assert [(one.status, one.reason) for one in tries.candidates] == [("interrupted", "enough")] * 2
    assert [state.repo.lease_of(one.branch) for one in tries.candidates] == [None, None]
    assert [state.repo.at(one.branch)["kept"] for one in tries.candidates] == [1, 1]
    assert state.repo.setting(stop_key(tries.id)) is None
    tries.discard()


def test_a_job_that_an_executor_begins_after_its_race_was_cancelled_does_nothing(state: Versioned) -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        _ = pool.submit(gate.wait)
        tries = race("lowest", models=[GOOD], n=1, state=state, executor=Cluster(pool))
        tries.cancel("never mind")
        gate.set()
    (one,) = tries.candidates
    assert (one.status, one.reason) == ("interrupted", "it was stopped before it began")
    assert list(Journal(state.repo.store).of(one.run)) == []


def test_an_executor_that_takes_no_work_leaves_nothing_behind(state: Versioned) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        race("lowest", models=[GOOD], n=2, state=state, executor=pool)
    assert list(state.repo.branches()) == ["main"]


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
    assert tries.notes == ["not with the candidates, since it cannot be saved: lock"]
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
    with pytest.raises(RaceError, match="took 1 step"):
        tries.wait()
    assert [one.limit for one in tries.candidates] == ["steps", "steps"]


def test_the_faces_show_the_candidates_side_by_side_and_nothing_of_them_runs(state: Versioned, pool: Executor) -> None:
    evil = scripted(
        "open('/dev/null', 'w').close()\ntask.success('<script>alert(1)</script>\\x1b[31m')", name="<b>evil</b>"
    )
    tries = race("lowest <i>", models=[GOOD, evil, BAD], state=state, executor=pool, judge="len(str(result))").wait()
    text, html = str(tries), tries._repr_html_()
    for said in (
        "Returned",
        "Variables",
        "Code",
        "Outside",
        "Cost",
        "Time",
        "+best",
        "✕ failed",
        "no idea",
        "2 done, 1 failed",
    ):
        assert said in text
        assert said in html.replace("</span>", "").replace('<span style="font-family', "§") or said == "+best"
    assert text.count("✓ best") == html.count("✓ best") == 1
    assert "\x1b" not in text + html
    for raw in ("<script>", "<b>evil", "<i>"):
        assert raw not in html
    assert "pick(2) merges the best" in text


def test_a_value_says_its_type_once_and_a_tie_says_what_decided_it(state: Versioned, pool: Executor) -> None:
    pytest.importorskip("numpy")
    model = scripted("import numpy\nscore = numpy.float64(29.5)", "task.success(score)", name="even")
    tries: Race = race("go", n=2, models=[model], state=state, executor=pool, judge="score").wait()
    assert "float64 29.5" in str(tries)
    assert "numpy.float64" not in str(tries)
    assert tries.best is not None
    said = f"andidates 1 and 2 have the same score: {tries.best.number} was the quickest"
    assert said in str(tries)
    assert data_of(tries, state.repo)["notes"] == [f"C{said}."]


def test_a_pick_tells_what_changed_and_not_how_branches_moved(state: Versioned, pool: Executor) -> None:
    tries: Race = race("lowest", models=[GOOD], state=state, executor=pool).wait()
    report = tries.pick(1)
    assert [(one.how, one.name) for one in report.changed] == [("+", "best")]
    assert report.notes == ()


def test_a_race_says_what_it_is_in_one_line(state: Versioned, pool: Executor) -> None:
    tries: Race = race("lowest", models=[GOOD, BAD], state=state, executor=pool).wait()
    assert repr(tries) == f"<Race {tries.id[-5:]}: 2 candidates, 1 done>"
    assert repr(tries.candidate(2)) == "<Candidate 2, agent, failed: no idea>"


_STATEMENTS = st.sampled_from(
    [
        "a = [1]", "b = a", "b.append(2)", "c = {'a': a, 'b': b}", "del b", "a.clear()", "c['n'] = len(a)",
        "d = c", "import math", "e = math.pi", "def f(x):\n    return x + len(a)", "g = f(1)", "a, b = [0], [0]",
        "class K:\n    n = 1", "k = K()", "k.n = a", "del a",
    ]
)  # fmt: skip


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(_STATEMENTS, min_size=1, max_size=8), meanwhile=st.booleans())
def test_after_a_pick_the_variables_are_what_the_candidate_had(steps: list[str], meanwhile: bool) -> None:
    with Versioned(ak.open("memory:")) as state, ThreadPoolExecutor(1) as pool:
        state.update(a=[1, 2], b={"x": 1}, c=3)
        model = by_task(
            {
                "go": "\n".join(
                    f"try:\n    exec({step!r}, globals())\nexcept (NameError, TypeError, AttributeError, KeyError): pass"
                    for step in steps
                )
                + "\ntask.success()"
            }
        )
        tries = race("go", n=1, models=[model], state=state, executor=pool).wait()
        if meanwhile:
            state["beside"] = 1
        tries.pick(1)
        had = state.repo.at(tries.candidate(1).tip)
        state.pop("beside", None)
        assert set(state) == set(had)
        shown = {name: _shown(value) for name, value in state.items()}
        assert shown == {name: _shown(value) for name, value in had.items()}
        aliased = {(x, y) for x in state for y in state if state[x] is state[y] and type(state[x]) in (list, dict)}
        assert aliased == {(x, y) for x in had for y in had if had[x] is had[y] and type(had[x]) in (list, dict)}


def _shown(value: object) -> object:
    if type(value) in (list, dict, int, float):
        return value
    return type(value).__name__, getattr(value, "__name__", ""), getattr(value, "n", None)


def test_several_races_on_one_state_do_not_stand_in_each_others_way(state: Versioned, pool: Executor) -> None:
    first = race("lowest", models=[GOOD], n=2, state=state, executor=pool)
    second = race("lowest", models=[BETTER], n=2, state=state, executor=pool)
    began = time.monotonic()
    assert all(one.is_done for one in [*first.wait().candidates, *second.wait().candidates])
    assert time.monotonic() - began < 20


def test_a_race_that_is_bound_to_a_name_takes_nothing_along_into_the_history(state: Versioned, pool: Executor) -> None:
    tries = race("lowest", models=[GOOD], n=1, state=state, executor=pool).wait()
    state["tries"] = tries
    assert [one.reason for one in state.commit("look at it").unsaved] == ["it holds an open store"]
    tries.pick(1)
    assert state["tries"] is tries


def test_what_was_undone_meanwhile_does_not_come_back_with_a_candidate(state: Versioned, pool: Executor) -> None:
    state["n"] = 1
    state.commit("one")
    state["n"] = 2
    state.commit("two")
    tries = race(
        "try it", models=[ak.ScriptedModel(["n = n * 10", "task.success()"])], state=state, executor=pool
    ).wait()
    state.undo()
    with pytest.raises(ak.MergeConflictError):
        tries.pick(1)
    assert dict(state) == {"rows": [3, 1, 2], "n": 1}
    tries.pick(1, theirs=["n"])
    assert dict(state) == {"rows": [3, 1, 2], "n": 20}


def test_two_candidates_are_not_mixed(state: Versioned, pool: Executor) -> None:
    models = [ak.ScriptedModel([f"v{n} = {n}; task.success()"], name=str(n)) for n in (1, 2)]
    tries = race("try it", models=models, state=state, executor=pool).wait()
    tries.pick(1)
    with pytest.raises(RaceError, match="undo that first"):
        tries.pick(2)
    assert "v2" not in state
    state.undo()
    tries.pick(2)
    assert ("v1" in state, state["v2"]) == (False, 2)


@pytest.mark.parametrize("meanwhile", [False, True])
def test_what_is_picked_is_what_the_variables_go_on_from(state: Versioned, pool: Executor, meanwhile: bool) -> None:
    tries = race("lowest", models=[GOOD, BETTER], state=state, executor=pool).wait()
    if meanwhile:  # the branch does not just move forward
        state["beside"] = 1
    tries.pick(1)
    state["after"] = 1
    state.commit("go on")
    assert (tries.picked, "candidate 1 was picked; the others stay" in str(tries)) == (1, True)
    state.undo()
    state.undo()
    assert (tries.picked, "was picked" in str(tries)) == (None, False)
    state.redo()
    assert tries.picked == 1
    state.undo()
    tries.pick(2)
    assert tries.picked == 2


def test_a_race_of_another_process_is_picked_from_as_its_store_tells_it(state: Versioned, pool: Executor) -> None:
    state["lock"] = threading.Lock()
    judge = "1 if best == 1 else 1 / 0"
    held = race("lowest", models=[GOOD, BETTER, BAD], state=state, executor=pool, judge=judge).wait()
    again = Race.again(place_of(state), held.id)
    assert data_of(again, state.repo) == data_of(held, state.repo)
    assert str(again) == str(held)
    assert again.notes == ["not with the candidates, since it cannot be saved: lock"]
    again.pick(2)
    assert (again.picked, state["rows"]) == (2, [1, 2, 3])
    again.discard()
    told = Race.again(place_of(state), held.id)
    assert (told.picked, told.is_discarded, list(state.repo.branches())) == (2, True, ["main"])
    assert [(change.how, change.name) for change in told.candidate(1).changed] == [("+", "best")]
    with pytest.raises(RunNotFoundError):
        Race.again(place_of(state), held.candidate(1).run)


def test_it_is_said_first_what_goes_for_good_with_the_branches(state: Versioned, pool: Executor) -> None:
    tries = race("lowest", models=[GOOD, BETTER, BAD], state=state, executor=pool).wait()
    said = "Deletes 3 branches with {} commits that are nowhere else. Undo does not bring that back."
    assert data_of(tries, state.repo)["deletes"] == said.format(5)
    tries.pick(2)
    assert data_of(tries, state.repo)["deletes"] == said.format(3)
    state.undo()
    tries.discard()
    assert data_of(tries, state.repo)["deletes"] == ""
    assert str(tries).endswith("discarded")
    with pytest.raises(RaceError, match="candidate 1 cannot be picked: its branch is gone"):
        tries.pick(1)


def test_where_none_came_to_a_result_it_is_said_how_their_branches_go(state: Versioned, pool: Executor) -> None:
    tries = race("lowest", models=[BAD], n=2, state=state, executor=pool)
    _ = list(tries)
    assert "what they committed stays on their branches until discard()" in str(tries)
