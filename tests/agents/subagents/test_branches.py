"""A sub-agent acts on a branch of its own, which is merged as it succeeds."""

from __future__ import annotations

import agent_kernel as ak
from agent_kernel.agents.events import Error, Output, StateChange
from agent_kernel.agents.models import Request
from tests.agents.subagents.family import pair, scripted, subruns


def test_what_it_made_is_merged_by_a_commit_of_two_parents(state: ak.Versioned) -> None:
    parent = pair(["mine = 1\nanswer = helper(4)", "task.success(answer)"], ["made = base + n", "task.success(made)"])
    run = parent.start("Work", state=state)
    assert run.result() == 14
    assert dict(state) == {"base": 10, "mine": 1, "made": 14, "answer": 14}
    (merge,) = [commit for _, commit in state.history() if len(commit.parents) == 2]
    assert (merge.kind, merge.author.name, merge.run) == ("merge", "parent", run.id)
    theirs = state.repo.commit_at(merge.parents[1])
    assert theirs.author.name == "child"


def test_it_sees_what_its_parents_step_did_so_far(state: ak.Versioned) -> None:
    parent = pair(["fresh = 5\ntask.success(helper(1))"], ["task.success(fresh + base)"])
    assert parent("Work", state=state) == 15


def test_its_arguments_do_not_become_variables_of_its_parent(state: ak.Versioned) -> None:
    state["n"] = "mine"
    parent = pair(["task.success(helper(4))"], ["task.success(n)"])
    assert parent("Work", state=state) == 4
    assert state["n"] == "mine"


def test_a_branch_that_is_merged_is_dropped_and_people_stay_on_theirs(state: ak.Versioned) -> None:
    branch = state.session.branch
    pair(["task.success(helper(4))"], ["made = 1\ntask.success(1)"])("Work", state=state)
    assert list(state.repo.branches()) == [branch]
    assert state.repo.head().branch == branch


def test_undo_takes_the_parents_run_back_with_all_that_its_sub_agents_made(state: ak.Versioned) -> None:
    parent = pair(["one = helper(1)", "two = helper(2)\ntask.success(two)"], ["made = n\ntask.success(n)"])
    parent("Work", state=state)
    assert state["made"] == 2
    state.undo()
    assert dict(state) == {"base": 10}
    state.redo()
    assert state["made"] == 2


def test_a_conflict_is_an_error_that_the_parent_sees(state: ak.Versioned) -> None:
    told: list[str] = []

    def answer(request: Request) -> str:
        told.append(request.messages[-1].text)
        if request.turn == 0:
            return "import threading\nfirst = helper(1)\nfirst"
        return "task.success(base)"

    child = scripted("child", "touch()\nbase = 99\ntask.success(1)")
    parent = ak.Agent("parent", model=ak.FunctionModel(answer))
    parent.fn(name="unused")(lambda: None)

    @child.fn
    def touch() -> None:
        """The parent's variable changes while the child works."""
        state["base"] = 11

    @parent.fn
    @child.task
    def helper(n: int) -> int:
        """Change base."""
        raise NotImplementedError

    run = parent.start("Work", state=state)
    assert run.result() == 11
    assert "MergeConflictError" in told[1]
    assert [event.status for event in subruns(run)] == ["running", "conflict"]
    kept = subruns(run)[-1].branch
    assert state.repo.at(kept)["base"] == 99


def test_what_the_parents_step_changed_before_the_call_is_not_overwritten(state: ak.Versioned) -> None:
    state["rows"] = {"a": 1}
    parent = pair(
        ["shared = 5\nrows['q'] = 3\nn = helper(1)", "task.success(shared)"],
        ["shared = 1\nrows['w'] = 2\ntask.success(n)"],
    )
    run = parent.start("Work", state=state)
    assert run.result() == 5
    assert (state["shared"], state["rows"], "n" in state) == (5, {"a": 1, "q": 3}, False)
    (error,) = [event for event in run.events if isinstance(event, Error)]
    assert error.message.startswith("MergeConflictError")
    sent = next(event.sent for event in run.events if isinstance(event, Output))
    assert "both sides changed 2 variables; nothing was merged" in sent
    assert "shared: ours int 5 | theirs int 1" in sent
    kept = state.repo.at(subruns(run)[-1].branch)
    assert (subruns(run)[-1].status, kept["shared"]) == ("conflict", 1)


def test_a_sub_agent_may_change_what_one_before_it_made(state: ak.Versioned) -> None:
    parent = pair(["helper(1)\ntwo = helper(2)", "task.success(made)"], ["made = n\ntask.success(n)"] * 2)
    assert parent("Work", state=state) == 2


def test_the_parent_is_told_what_the_merge_changed(state: ak.Versioned) -> None:
    parent = pair(
        ["mine = 1\nanswer = helper(4)", "task.success(answer)"], ["made = base + n\nbase = 11\ntask.success(made)"]
    )
    run = parent.start("Work", state=state)
    assert run.result() == 14
    (change,) = [event for event in run.events if isinstance(event, StateChange)]
    assert [one[:2] for one in change.changed] == [("+", "answer"), ("~", "base"), ("+", "made"), ("+", "mine")]
    sent = next(event.sent for event in run.events if isinstance(event, Output))
    assert "made: int 14" in sent
    assert "base: int 11" in sent


def test_one_that_fails_raises_in_its_parent_and_nothing_of_it_is_merged(state: ak.Versioned) -> None:
    parent = pair(
        ["try:\n    helper(1)\nexcept Exception as error:\n    said = str(error)", "task.success(said)"],
        ["made = 1", "task.fail('too hard')"],
    )
    run = parent.start("Work", state=state)
    assert "too hard" in str(run.result())
    assert "made" not in state
    assert subruns(run)[-1].status == "failed"
    assert state.repo.at(subruns(run)[-1].branch)["made"] == 1


def test_a_sub_agent_with_a_state_of_its_own_acts_there(state: ak.Versioned) -> None:
    own = ak.Live()
    child = scripted("child", "kept = n\ntask.success(n)", state=own)
    parent = scripted("parent", "task.success(helper(3))")

    @parent.fn
    @child.task
    def helper(n: int) -> int:
        """Keep it."""
        raise NotImplementedError

    assert parent("Work", state=state) == 3
    assert own["kept"] == 3
    assert "kept" not in state


def test_what_a_sub_agent_made_that_was_only_iterated_over_comes_to_its_parent(state: ak.Versioned) -> None:
    parent, child = scripted("parent", state=state), scripted("child", "found = 42", "task.success(found)")

    @child.task
    def look() -> int:
        """Look it up."""
        raise NotImplementedError

    parent.fn(name="look")(look.start)
    parent.model = ak.ScriptedModel(["for event in look(): pass\nprint(found)", "task.success(found)"])
    assert parent("Find it") == 42
    assert list(state.repo.branches()) == ["main"]


def test_an_error_of_one_of_many_loses_nothing_of_the_others(state: ak.Versioned) -> None:
    def answer(request: Request) -> str:
        return (
            "task.fail('no')"
            if "odd" in request.messages[0].text
            else f"kept = {len(request.messages)}; task.success()"
        )

    child = ak.Agent("child", model=ak.FunctionModel(answer))

    @child.task
    def look(how: str) -> None:
        """Look it up."""
        raise NotImplementedError

    parent = scripted("parent", "look(['odd', 'even'])", "task.success(kept)", state=state)
    parent.fn(name="look")(look.map)
    assert parent("Find it") == 1


def test_a_sub_agent_that_cannot_begin_leaves_no_branch(state: ak.Versioned) -> None:
    parent, child = scripted("parent", state=state), ak.Agent("child", model="scripted:nowhere-to-be-found")

    @parent.fn
    @child.task
    def look() -> int:
        """Look it up."""
        raise NotImplementedError

    assert look.agent is child
    parent.model = ak.ScriptedModel(["look()", "task.success()"])
    parent("Find it")
    assert list(state.repo.branches()) == ["main"]


def test_what_a_sub_agent_made_is_merged_where_its_parent_looked_away_at_its_end(state: ak.Versioned) -> None:
    parent, child = scripted("parent", state=state), scripted("child", "found = 42", "task.success(found)")

    @child.task
    def look() -> int:
        """Look it up."""
        raise NotImplementedError

    parent.fn(name="look")(look.start)
    until = "for event in look():\n    if event.kind == 'Success':\n        break"
    parent.model = ak.ScriptedModel([until, "task.success(found)"])
    assert parent("Find it") == 42
    assert list(state.repo.branches()) == ["main"]
