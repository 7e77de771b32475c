"""What a process leaves that is killed while a step is tried on a fork, or while a sub-agent works."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.agents import Turn
from agent_kernel.agents.agent import place_of, reopened, started
from agent_kernel.agents.events import Action, ApprovalRequested, Output, StepStart, TryStart
from agent_kernel.agents.journal import Journal
from agent_kernel.agents.run import Run

PREVIEWED = """
import sys
import agent_kernel as ak
from agent_kernel.agents.agent import place_of, started

store, code = sys.argv[1:]
state = ak.Versioned(store)
state["rows"] = [3, 1, 2]
run = started(ak.Agent("ada", model=ak.ScriptedModel([code]), state=state), "go", place_of(state), preview=True)
list(run.stream())
"""
# The step of a fork marks that it ran, and kills the process that tries it.
DEADLY = """
import os, signal, time
def mark():
    with open({marks!r}, "a") as file:
        file.write("x")
mark()
rows.clear()
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(0.3)
mark()
"""


def killed(program: str, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, check=False
    )
    assert done.returncode == -9, done.stderr.decode()


def taken_up(state: ak.Versioned, *turns: str | Turn, preview: bool = False) -> Run[Any]:
    """The newest run that another process began."""
    model = ak.ScriptedModel(["", *turns])
    return reopened(place_of(state), "", model=model, preview=preview)


def test_a_step_that_was_tried_on_a_fork_as_the_process_was_killed_is_unknown_and_not_tried_again(
    tmp_path: Path,
) -> None:
    marks = tmp_path / "marks"
    killed(PREVIEWED, str(tmp_path / "store"), DEADLY.format(marks=str(marks)))
    with ak.Versioned(tmp_path / "store") as state:
        run = taken_up(state, "task.success('looked')", preview=True)
        assert isinstance(run.events[-1], TryStart)
        list(run.resume().stream())
        (output,) = [event for event in run.events if isinstance(event, Output)]
        assert (output.status, output.step) == ("unknown", 1)
        assert output.sent.startswith("The process died while this step was tried on a fork of it")
        assert isinstance(run.events[-1], ApprovalRequested), "the model's next step is asked about as ever"
        assert run.approve().result() == "looked"
        assert state["rows"] == [3, 1, 2]
    if sys.platform == "linux":
        time.sleep(0.4)
        assert marks.read_text() == "x", "the fork outlived its parent"


def test_an_interrupt_of_a_try_is_told_and_the_step_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    with ak.Versioned() as state:
        state["rows"] = [3, 1, 2]
        model = ak.ScriptedModel(["rows.clear()", "task.success('looked')"])
        run = started(ak.Agent("ada", model=model, state=state), "go", place_of(state), preview=True)
        with monkeypatch.context() as patched:
            patched.setattr("agent_kernel.agents.trying.previewed", interrupted)
            list(run.stream())
        assert run.status == "interrupted"
        (output,) = [event for event in run.events if isinstance(event, Output)]
        assert output.status == "interrupted"
        assert "while it was tried on a fork" in output.sent
        list(run.resume().stream())
        assert [event.code for event in run.events if isinstance(event, Action)] == [
            "rows.clear()",
            "task.success('looked')",
        ]
        assert run.approve().result() == "looked"


def test_a_process_that_dies_before_it_takes_on_what_a_fork_did_claims_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ak.Versioned(tmp_path / "store") as state:
        state["rows"] = [3, 1, 2]
        model = ak.ScriptedModel(["rows.clear()", "task.success('looked')"])
        run = started(ak.Agent("ada", model=model, state=state), "go", place_of(state), preview=True)
        list(run.stream())
        for event in run.approve().stream():
            assert isinstance(event, StepStart)
            break  # as if it died here
        again = taken_up(state, "task.success('looked')")
        assert again.resume().result() == "looked"
        (first, _) = [event for event in again.events if isinstance(event, Output)]
        assert first.status == "unknown"
        assert state["rows"] == [3, 1, 2]


def test_where_no_fork_is_made_no_try_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with ak.Versioned() as state:
        model = ak.ScriptedModel(["x = 1"])
        run = started(ak.Agent("ada", model=model, state=state), "go", place_of(state), preview=True)
        list(run.stream())
        assert not any(isinstance(event, TryStart) for event in Journal(state.repo.store).of(run.id))
        asked = run.events[-1]
        assert isinstance(asked, ApprovalRequested)
        assert asked.told == "this system cannot fork"
