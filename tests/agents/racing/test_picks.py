"""One candidate is picked, and nothing else comes of a race."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agent_kernel as ak
from agent_kernel.agents.agent import open_context
from agent_kernel.agents.models import Answer, Delta, Request, register
from agent_kernel.agents.race_comparison import data_of
from agent_kernel.agents.races import Race, race
from agent_kernel.errors import RaceError, RunNotFoundError
from agent_kernel.session import Versioned
from tests.agents.races import by_task, scripted
from tests.agents.racing.racers import BAD, BETTER, GOOD, raising


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
    again = Race.again(open_context(state), held.id)
    assert data_of(again, state.repo) == data_of(held, state.repo)
    assert str(again) == str(held)
    assert again.notes == ["The candidates do not have lock, because it cannot be saved."]
    again.pick(2)
    assert (again.picked, state["rows"]) == (2, [1, 2, 3])
    again.discard()
    told = Race.again(open_context(state), held.id)
    assert (told.picked, told.is_discarded, list(state.repo.branches())) == (2, True, ["main"])
    assert [(change.how, change.name) for change in told.candidate(1).changed] == [("+", "best")]
    with pytest.raises(RunNotFoundError):
        Race.again(open_context(state), held.candidate(1).run)


def _beside(state: Versioned) -> Versioned:
    """The same state on a branch of its own, as another notebook has it."""
    state.repo.create_branch("other", state.repo.resolve("HEAD"))
    return Versioned(state.repo, branch="other")


def test_a_race_follows_what_another_notebook_does_with_it(state: Versioned, pool: Executor) -> None:
    held = race("lowest", models=[GOOD, BETTER], state=state, executor=pool).wait()
    with _beside(state) as other:
        Race.again(open_context(other), held.id).pick(1)
        assert [held.picked, other["best"]] == [None, 1]
        held.pick(2)
        assert [held.picked, state["rows"]] == [2, [1, 2, 3]]
        Race.again(open_context(other), held.id).discard()
        assert held.is_discarded


_goes_on = threading.Event()


class _Late:
    """A model that answers when it may. Candidates on threads share it by its name."""

    name = "late"
    is_free = True

    async def stream(self, request: Request) -> AsyncIterator[Delta | Answer]:
        assert request.turn == 0
        await asyncio.to_thread(_goes_on.wait, 30)
        yield Answer(code="task.success()")


def test_nothing_comes_of_a_race_that_is_still_on_in_another_notebook(state: Versioned, pool: Executor) -> None:
    held = race("lowest", models=[GOOD, register(_Late()).name], state=state, executor=pool)
    try:
        assert next(iter(held)).number == 1
        with _beside(state) as other:
            again = Race.again(open_context(other), held.id)
            for act in (lambda: again.pick(1), again.discard):
                with pytest.raises(ak.RunBusyError):
                    act()
            assert ("best" in other, again.candidate(1).branch in state.repo.branches()) == (False, True)
    finally:
        _goes_on.set()
    held.wait().pick(1)
    assert held.picked == 1


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
    empty = race("lowest", models=[scripted("task.fail('no idea')", name="none")], state=state, executor=pool)
    _ = list(empty)
    assert "stays on their branches" not in str(empty)


class _Unsayable(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    "judge", [raising(_Unsayable()), raising(SystemExit(3)), raising(ValueError("y" * 10**6)), lambda _: "x" * 10**6]
)
def test_a_judge_that_misbehaves_ends_no_race_and_fills_no_store(
    state: Versioned, pool: Executor, judge: Callable[[object], float]
) -> None:
    tries = race("lowest", models=[GOOD, BETTER], state=state, executor=pool, judge=judge).wait()
    assert all(one.reason.startswith("it could not be judged: ") for one in tries.candidates)
    assert all(len(one.reason) < 1_000 for one in tries.candidates)
    tries.pick(2)
    assert state["rows"] == [1, 2, 3]
