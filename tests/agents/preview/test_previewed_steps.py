"""Each step of a run is tried on a fork first, and asked about with what it did there."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from agent_kernel.agents.agent import Agent, open_context, reopen_run, start_run
from agent_kernel.agents.events import ApprovalRequested, Effect, Output, StateChange
from agent_kernel.agents.run import Run
from agent_kernel.session import Versioned
from tests.agents.races import scripted

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
]


def begun(state: Versioned, *turns: str, **options: object) -> Run[object]:
    agent = Agent("analyst", model=scripted(*turns), state=state, **options)  # type: ignore[arg-type]
    return start_run(agent, "go", open_context(state), preview=True)


def asked(run: Run[object]) -> ApprovalRequested:
    found = run.events[-1]
    assert isinstance(found, ApprovalRequested)
    return found


def drive(run: Run[object]) -> None:
    for _ in run.stream():
        pass


def driven(run: Run[object]) -> Run[object]:
    drive(run)
    return run


def test_a_run_asks_about_each_step_with_what_it_did(state: Versioned) -> None:
    run = driven(begun(state, "rows.sort()\nprint('sorted')", "task.success(rows[0])"))
    first = asked(run)
    assert (run.status, first.preview, first.output, first.told) == ("pending", "ok", "sorted\n", "")
    assert first.changed == (("~", "rows", "list of 3 int, [1, 2, 3]"),)
    assert state["rows"] == [3, 1, 2]
    drive(run.approve())
    assert (state["rows"], run.status) == ([1, 2, 3], "pending")
    drive(run.approve())
    assert (run.status, run.outcome.value) == ("completed", 1)
    assert next(e.sent for e in run.events if isinstance(e, Output)).startswith("sorted")
    assert [e.changed for e in run.events if isinstance(e, StateChange)] == [first.changed]
    state.undo()
    assert dict(state) == {"rows": [3, 1, 2]}


def test_a_denied_step_leaves_nothing_and_the_model_is_told(state: Versioned) -> None:
    run = driven(begun(state, "rows.clear()", "task.success('kept')"))
    drive(run.deny("not those"))
    assert state["rows"] == [3, 1, 2]
    assert "Reason: not those." in next(e.sent for e in run.events if isinstance(e, Output))
    assert driven(run.approve()).result() == "kept"


def test_what_a_person_writes_instead_runs_instead(state: Versioned) -> None:
    run = driven(begun(state, "rows.clear()", "task.success()"))
    drive(run.edit("rows.append(4)"))
    assert state["rows"] == [3, 1, 2, 4]
    run.abandon()


def test_a_run_that_is_given_up_leaves_no_branch(state: Versioned) -> None:
    run = driven(begun(state, "rows.clear()"))
    assert asked(run).branch
    run.abandon()
    assert list(state.repo.branches()) == ["main"]


def test_somebody_else_may_approve_it_later(state: Versioned) -> None:
    run = driven(begun(state, "rows.sort()\ntask.success(len(rows))"))
    again = reopen_run(open_context(state), run.id, model=scripted("task.fail('asked again')"))
    assert driven(again.approve()).outcome.value == 3
    assert state["rows"] == [1, 2, 3]


def test_a_step_that_crashed_on_the_fork_is_asked_about_and_the_model_told(state: Versioned) -> None:
    run = driven(begun(state, "import ctypes\nctypes.string_at(0)", "task.success('other way')"))
    first = asked(run)
    assert (first.preview, first.told) == ("crashed", "it crashed: SIGSEGV: approving runs it here")
    drive(run.deny("it crashes"))
    assert driven(run.approve()).result() == "other way"


def test_where_there_can_be_no_preview_the_question_says_why(state: Versioned) -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="downloader")
    thread.start()
    try:
        run = driven(begun(state, "rows.sort()\ntask.success()"))
    finally:
        gate.set()
        thread.join()
    if state.repo.store.url.startswith("memory:"):  # else a fresh process tries it
        assert asked(run).preview == "refused"
        assert "'downloader'" in asked(run).told
    assert state["rows"] == [3, 1, 2]
    drive(run.approve())
    assert state["rows"] == [1, 2, 3]


def test_what_changed_meanwhile_makes_the_step_run_again(state: Versioned) -> None:
    run = driven(begun(state, "rows.sort()\ntask.success(rows[0])"))
    state["rows"] = [9, 8]
    drive(run.approve())
    assert state["rows"] == [8, 9]
    assert "so it was run again" in next(e.sent for e in run.events if isinstance(e, Output))
    assert run.outcome.value == 8


def test_effects_on_the_fork_have_happened_and_are_told_once(state: Versioned, tmp_path: Path) -> None:
    run = driven(begun(state, f"open({str(tmp_path / 'x')!r}, 'w').close()", "task.success()"))
    assert asked(run).effects == (("writes", str(tmp_path / "x"), 1),)
    drive(run.approve())
    assert [e.count for e in run.events if isinstance(e, Effect)] == [1]
    run.abandon()


def test_where_effects_are_asked_about_none_happens_before(state: Versioned, tmp_path: Path) -> None:
    code = f"rows.sort()\nopen({str(tmp_path / 'x')!r}, 'w').close()\nlater = 1"
    run = driven(begun(state, code, "task.success()", approve="risky"))
    assert (asked(run).preview, asked(run).stopped) == ("stopped", (("writes", str(tmp_path / "x")),))
    assert not (tmp_path / "x").exists()
    assert (asked(run).effects, asked(run).branch, asked(run).changed) == ((), "", ())
    drive(run.approve())
    assert (tmp_path / "x").exists()
    assert state["rows"] == [1, 2, 3]
    run.abandon()


def test_where_nobody_can_be_asked_a_previewed_step_is_denied(state: Versioned) -> None:
    agent = Agent("analyst", model=scripted("rows.clear()", "task.success()"), state=state)
    run = driven(start_run(agent, "go", open_context(state), preview=True, can_ask=False))
    assert state["rows"] == [3, 1, 2]
    assert "nobody is there to ask" in next(e.sent for e in run.events if isinstance(e, Output))
