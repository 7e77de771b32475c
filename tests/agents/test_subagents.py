"""A sub-agent is a function of its parent's: it acts on a branch of its own, which is merged as it succeeds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import agent_kernel as ak
from agent_kernel.agents.asides import among
from agent_kernel.agents.events import ApprovalRequested, Cancelled, Error, Event, Output, StateChange, SubRun, Usage
from agent_kernel.agents.journal import Journal
from agent_kernel.agents.models import Request
from agent_kernel.agents.place import Place


def scripted(name: str, *turns: ak.Turn | str, **more: object) -> ak.Agent:
    return ak.Agent(name, model=ak.ScriptedModel(turns, name=name), **more)  # type: ignore[arg-type]


def pair(parent_turns: list[str], child_turns: list[str | ak.Turn], **more: object) -> ak.Agent:
    """A parent that is given one task of a child: `helper(n)`."""
    parent, child = scripted("parent", *parent_turns, **more), scripted("child", *child_turns)

    @parent.fn
    @child.task
    def helper(n: int) -> int:
        """Do a part of the work."""
        raise NotImplementedError

    assert helper.agent is child
    return parent


@pytest.fixture
def state() -> Iterator[ak.Versioned]:
    with ak.Versioned() as opened:
        opened["base"] = 10
        opened.commit("begin")
        yield opened


def subruns(run: ak.Run[object]) -> list[SubRun]:
    return [event for event in run.events if isinstance(event, SubRun)]


def test_it_is_called_like_a_function_and_gives_its_result() -> None:
    parent = pair(["answer = helper(4)", "task.success(answer + 1)"], ["task.success(n * 10)"])
    assert parent("Work") == 41


def test_the_model_is_told_of_it_like_of_a_function() -> None:
    parent = pair(["task.success()"], [])
    assert "helper(n: int) -> int  # Do a part of the work." in parent.registry.text(1_000)


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


def test_events_name_the_agents_from_the_outermost_down(state: ak.Versioned) -> None:
    heard: list[Event] = []
    outer, middle, inner = (
        scripted("outer", "task.success(second(1))", on_event=heard.append),
        scripted("middle", "task.success(third(1))"),
        scripted("inner", "task.success(3)"),
    )

    @middle.fn
    @inner.task
    def third(n: int) -> int:
        """Do the third part."""
        raise NotImplementedError

    @outer.fn
    @middle.task
    def second(n: int) -> int:
        """Do the second part."""
        raise NotImplementedError

    run = outer.start("Work", state=state)
    assert run.result() == 3
    seen = list(dict.fromkeys(event.namespace for event in heard))
    assert seen == ["outer", "outer/middle", "outer/middle/inner"]
    runs = {event.namespace: event for event in heard if event.kind == "TaskStart"}
    assert runs["outer/middle"].parent_run == run.id
    assert runs["outer/middle/inner"].parent_run == runs["outer/middle"].run
    times = [event.time_ns for event in heard]
    assert times == sorted(set(times))
    place = Place(state.session.namespace, state.session)
    assert {event.id for one in place.journal.runs() for event in place.journal.of(one)} == {e.id for e in heard}


def test_its_events_are_told_of_between_those_of_the_step_that_called_it() -> None:
    heard: list[Event] = []
    pair(["task.success(helper(1))"], ["task.success(n)"])("Work", on_event=heard.append)
    kinds = [(event.agent, event.kind) for event in heard]
    begun, ended = kinds.index(("parent", "StepStart")), kinds.index(("parent", "Output"))
    assert kinds.index(("child", "TaskStart")) > begun
    assert kinds.index(("child", "Success")) < ended


def test_a_parent_that_is_iterated_over_shows_its_sub_agents() -> None:
    run = pair(["task.success(helper(1))"], ["task.success(n)"]).start("Work")
    assert [event.kind for event in run].count("SubRun") == 2


def test_a_sub_agent_has_no_more_budget_than_its_parent_has_left() -> None:
    child = scripted("child", *[ak.Turn("x = 1", usage=Usage(1, 40, 0))] * 9)
    parent = scripted(
        "parent",
        ak.Turn("try:\n    helper(1)\nexcept Exception as error:\n    said = str(error)", usage=Usage(1, 50, 0)),
        ak.Turn("task.success(said)"),
        limits=ak.Limits(tokens=120),
    )

    @parent.fn
    @child.task
    def helper(n: int) -> int:
        """Work."""
        raise NotImplementedError

    run = parent.start("Work")
    with pytest.raises(ak.TaskFailedError):
        run.result()
    assert run.outcome.limit == "tokens"
    assert run.usage.tokens == 50 + 2 * 40


def test_what_it_took_counts_as_its_parents() -> None:
    child = scripted("child", ak.Turn("task.success(n)", usage=Usage(1, 30, 5)))
    parent = scripted("parent", ak.Turn("task.success(helper(1))", usage=Usage(1, 10, 0)))

    @parent.fn
    @child.task
    def helper(n: int) -> int:
        """Work."""
        raise NotImplementedError

    run = parent.start("Work")
    run.result()
    assert (run.usage.requests, run.usage.tokens) == (2, 45)


def test_calling_one_is_asked_about_once_and_that_holds_for_all_it_does() -> None:
    parent = pair(["task.success(helper(1))"], ["import subprocess", "task.success(n)"], approve="risky")
    run = parent.start("Work")
    with pytest.raises(ak.TaskPendingError):
        run.result()
    asked = [event for event in run.events if isinstance(event, ApprovalRequested)]
    assert [(one.kind, one.what) for one in asked[0].findings] == [("agent", "helper acts by itself")]
    assert run.approve().result() == 1


def test_where_nothing_risky_is_allowed_a_sub_agent_may_do_nothing_risky_either() -> None:
    parent = pair(["task.success(helper(1))", "task.success('alone')"], ["task.success(n)"], approve="never")
    assert parent("Work") == "alone"


def test_an_interrupt_of_the_parent_stops_the_sub_agent(state: ak.Versioned) -> None:
    heard: list[Event] = []
    parent = pair(
        ["try:\n    helper(1)\nexcept Exception:\n    pass\nafter = 1", "task.success('again')"],
        ["made = 1", ak.Turn("task.success(1)", delay_s=30)],
    )
    run = parent.start("Work", state=state, on_event=heard.append)

    def stop() -> None:
        while not any(event.agent == "child" and isinstance(event, Output) for event in heard):
            time.sleep(0.01)
        run.cancel("enough")

    threading.Thread(target=stop, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(ak.TaskInterruptedError, match="enough"):
        run.result()
    assert time.monotonic() - began < 10
    assert "after" not in state
    stopped = subruns(run)[-1]
    assert stopped.status == "interrupted"
    # Its branch stands apart from those of people, also from one that is called as those of sub-agents are.
    state.repo.create_branch("child-00000", state.repo.resolve("main"))
    told = {stopped.branch: f"sub-agent child of run {run.id[-5:]}"}
    assert among(state.repo, Journal(state.repo.store)) == told
    with ak.Versioned(state.repo, branch=stopped.branch) as mine:
        mine["seen"] = True
        mine.commit("go on with it")
    assert among(state.repo, Journal(state.repo.store)) == {}
    assert run.resume().result() == "again"


def test_the_time_of_the_parents_step_holds_for_its_sub_agents() -> None:
    parent = pair(
        ["helper(1)", "task.success('late')"], [ak.Turn("task.success(1)", delay_s=30)], limits=ak.Limits(step_s=0.5)
    )
    run = parent.start("Work")
    assert run.result() == "late"
    assert [event.status for event in run.events if isinstance(event, Output)] == ["timeout", "ok"]


def test_it_finds_nothing_that_only_its_parent_was_given() -> None:
    parent = pair(["task.success(helper(1))"], ["secret()", "task.success(n)"])
    parent.fn(name="secret")(lambda: None)
    heard: list[Event] = []
    parent("Work", on_event=heard.append)
    assert [event.agent for event in heard if isinstance(event, Error)] == ["child"]


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


def test_an_async_task_is_called_like_any_other_by_an_agent() -> None:
    child, parent = scripted("child", "task.success(n + 1)"), scripted("parent", "task.success(helper(1))")

    @parent.fn
    @child.task
    async def helper(n: int) -> int:
        """Add one."""
        raise NotImplementedError

    assert parent("Work") == 2


def test_one_that_is_begun_and_never_driven_ends_with_the_step(state: ak.Versioned) -> None:
    parent, child = (
        scripted("parent", "run = begin()\ndel run", "task.success(1)"),
        scripted("child", "task.success(1)"),
    )
    parent.fn(name="begin")(lambda: child.start("Work"))
    run = parent.start("Work", state=state)
    assert run.result() == 1
    assert [event.status for event in subruns(run)] == ["running", "interrupted"]
    assert len(state.repo.branches()) == 1


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


def test_agents_that_begin_each_other_without_end_come_to_one() -> None:
    def calls(request: Request) -> str:
        return "me()" if request.turn == 0 else "task.fail('no further')"

    ada = ak.Agent("ada", model=ak.FunctionModel(calls), limits=ak.Limits(steps=2))

    @ada.fn
    @ada.task
    def me() -> int:  # type: ignore[empty-body]
        """Begin again."""

    with ak.Versioned() as state:
        run = ada.start("Begin", state=state)
        with pytest.raises(ak.TaskFailedError, match="no further"):
            run.result()
        deepest = max((event.namespace for event in ak.events(state)), key=len)
        assert deepest == "/".join(["ada"] * 6)
        told = [event.message for event in ak.events(state) if isinstance(event, Error)]
        assert any("no more than 6 deep" in message for message in told)


def test_a_sub_agent_is_called_on_the_steps_own_thread_or_not_at_all() -> None:
    child = ak.Agent("child", model=ak.FunctionModel(lambda _: "task.success(1)"))
    turns = [
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as pool: list(pool.map(count, 'ab'))",
        "task.success([count(word) for word in 'ab'])",
    ]
    parent = ak.Agent("parent", model=ak.ScriptedModel(turns))

    @parent.fn
    @child.task
    def count(word: str) -> int:  # type: ignore[empty-body]
        """Count it."""

    with ak.Versioned() as state:
        run = parent.start("Count", state=state)
        assert run.result() == [1, 1]
        told = [event.message for event in run.events if isinstance(event, Error)]
        assert "count() is an agent's task: call it on the step's own thread" in told[0]
        assert {event.namespace for event in ak.events(state)} == {"parent", "parent/child"}


def test_a_sub_agent_that_was_begun_and_never_driven_is_interrupted_with_the_step() -> None:
    child = ak.Agent("child", model=ak.ScriptedModel(["task.success(1)"]))
    parent = ak.Agent("parent", model=ak.ScriptedModel(["begin()", "task.success(1)"]))

    @parent.fn
    def begin() -> None:
        _ = child.start("Work")

    with ak.Versioned() as state:
        run = parent.start("Begin", state=state)
        assert run.result() == 1
        ended = [event for event in ak.events(state) if event.namespace == "parent/child"][-1]
        assert isinstance(ended, Cancelled)
        assert [event.status for event in run.events if isinstance(event, SubRun)] == ["running", "interrupted"]
        assert list(state.repo.branches()) == ["main"]
