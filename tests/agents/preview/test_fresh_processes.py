"""Where this process cannot be forked, a fresh one loads the state from the store and tries the code there."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.agents.agent import Agent, open_context, start_run
from agent_kernel.agents.events import ApprovalRequested, Output
from agent_kernel.agents.preview import preview
from agent_kernel.agents.run import Run
from agent_kernel.errors import PreviewRefusedError
from agent_kernel.session import Versioned, trust
from tests.agents.preview.seen import told
from tests.agents.races import scripted


@pytest.fixture(autouse=True)
def unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where scikit-learn, torch or polars is loaded."""
    monkeypatch.setattr("agent_kernel.agents.preview.fork_refusal", lambda: "OpenMP runs 4 threads in this process")


# A store in memory is seen by this process alone.
in_a_folder = pytest.mark.parametrize("state", ["folder"], indirect=True)


@in_a_folder
def test_it_sees_the_variables_and_what_it_did_is_taken_on(state: Versioned) -> None:
    seen = preview("rows.sort()\nlowest = rows[0]\nimport os\nwho = os.getpid()\nprint('sorted')\nlowest", state)
    assert seen.text == "sorted\n1\n"
    assert told(seen) == [("+", "lowest"), ("+", "os"), ("~", "rows"), ("+", "who")]
    assert (seen.status, seen.told, state["rows"]) == ("ok", "", [3, 1, 2])
    seen.accept()
    assert (state["rows"], state["lowest"]) == ([1, 2, 3], 1)
    assert state["who"] != os.getpid()
    state.undo()
    assert dict(state) == {"rows": [3, 1, 2]}


@in_a_folder
def test_what_is_not_committed_yet_is_there_too(state: Versioned) -> None:
    state["late"] = 7
    seen = preview("late += 1", state)
    assert told(seen) == [("~", "late")]
    seen.reject()
    assert state["late"] == 7


@in_a_folder
def test_draws_go_on_from_where_they_are_here(state: Versioned) -> None:
    random.seed(4)
    state["seeded"] = True
    state.commit()
    seen = preview("import random\nx = random.random()", state)
    seen.accept()
    drawn = state["x"]
    random.seed(4)
    assert drawn == random.random()


@in_a_folder
def test_an_error_is_told_and_nothing_is_taken_on(state: Versioned) -> None:
    seen = preview("rows.append(4)\n1 / 0", state)
    assert (seen.status, seen.error) == ("failed", "ZeroDivisionError: division by zero")
    seen.reject()
    assert state["rows"] == [3, 1, 2]


@in_a_folder
def test_a_crash_ends_that_process_alone(state: Versioned) -> None:
    seen = preview("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", state)
    assert seen.status == "crashed"
    assert "SIGSEGV" in seen.error
    assert state["rows"] == [3, 1, 2]


@in_a_folder
def test_code_that_takes_too_long_is_ended(state: Versioned) -> None:
    seen = preview("import time\nwhile True:\n    time.sleep(0.1)", state, deadline_s=1.0)
    assert seen.status == "timeout"
    seen.reject()


@in_a_folder
def test_an_interrupt_here_ends_it(state: Versioned) -> None:
    threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        preview("import time\ntime.sleep(60)", state)
    assert time.monotonic() - began < 20


@in_a_folder
def test_functions_and_classes_of_the_notebook_are_there(state: Versioned) -> None:
    state["double"] = eval("lambda x: 2 * x", state.session.namespace)
    seen = preview("twice = double(rows[0])", state)
    seen.accept()
    assert state["twice"] == 6


@in_a_folder
def test_what_cannot_be_saved_is_not_tried_without(state: Versioned) -> None:
    state["ahead"] = (number for number in range(3))
    with pytest.raises(
        PreviewRefusedError,
        match=r"ahead cannot be saved.* \(it runs without `ahead`\)",
    ):
        preview("x = next(ahead)", state)
    preview("rows.append(1)", state).reject()


@in_a_folder
def test_what_failed_for_want_of_such_a_variable_says_that_it_runs_here_instead(state: Versioned) -> None:
    state["ahead"] = (number for number in range(3))
    state["take"] = eval("lambda: next(ahead)", state.session.namespace)
    seen = preview("take()", state)
    assert seen.status == "failed"
    assert "which does not have ahead" in seen.seen.again
    seen.reject()


@in_a_folder
def test_what_a_program_gives_is_there_too_if_it_can_travel(state: Versioned) -> None:
    offers: dict[str, object] = {"double": lambda x: 2 * x, "lock": threading.RLock()}
    seen = preview("twice = double(rows[0])", state, offers=offers)
    seen.accept()
    assert state["twice"] == 6
    with pytest.raises(PreviewRefusedError, match="lock cannot be given to another process"):
        preview("lock.acquire()", state, offers=offers)


@in_a_folder
def test_from_another_thread_there_is_one_too(state: Versioned) -> None:
    found: list[object] = []

    def work() -> None:
        seen = preview("x = 1", state)
        found.append(told(seen))
        seen.reject()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert found == [[("+", "x")]]


@in_a_folder
def test_a_step_of_a_run_is_tried_so_and_asked_about(state: Versioned) -> None:
    agent = Agent("analyst", model=scripted("rows.sort()\nprint('sorted')", "task.success(rows[0])"), state=state)
    run: Run[object] = start_run(agent, "go", open_context(state), preview=True)
    for _ in run.stream():
        pass
    asked = run.events[-1]
    assert isinstance(asked, ApprovalRequested)
    assert (asked.preview, asked.output, asked.told) == ("ok", "sorted\n", "")
    assert asked.changed == (("~", "rows", "list of 3 int, [1, 2, 3]"),)
    assert state["rows"] == [3, 1, 2]
    while run.status == "pending":
        for _ in run.approve().stream():
            pass
    assert (state["rows"], run.outcome.value) == ([1, 2, 3], 1)
    assert next(e.sent for e in run.events if isinstance(e, Output)).startswith("sorted")


def test_with_polars_loaded_there_is_a_preview(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    polars = pytest.importorskip("polars")
    with ak.open(tmp_path / "other") as repo, Versioned(repo) as state:
        state["frame"] = polars.DataFrame({"a": [1, 2, None]})
        seen = preview("frame = frame.drop_nulls()", state)
        assert told(seen) == [("~", "frame")]
        seen.accept()
        assert len(state["frame"]) == 2  # type: ignore[arg-type]  # a frame


@in_a_folder
def test_it_trusts_a_store_that_only_this_process_trusts(
    state: Versioned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state["word"] = re.compile("[a-z]+")  # plain data would load without trust
    state.commit()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))  # its list has no store
    trust.trust_temporarily(trust.create_secret(state.repo), state.repo.store.url)
    seen = preview("word.match('one two')[0]", state)
    assert seen.text == "'one'\n"
    seen.reject()
