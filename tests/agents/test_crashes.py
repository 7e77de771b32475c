"""What a process leaves that is killed while a step is tried on a fork, or while a sub-agent works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.agents import Turn
from agent_kernel.agents.agent import open_context, reopen_run, start_run
from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.events import Action, ApprovalRequested, Output, StepStart, TryStart
from agent_kernel.agents.executor import delete_unneeded_branches
from agent_kernel.agents.run import Run
from agent_kernel.commands.agents import runs
from agent_kernel.commands.scope import Scope
from agent_kernel.commands.upkeep import gc
from agent_kernel.repository import Head, hex_of
from agent_kernel.session import Repository

pytestmark = pytest.mark.usefixtures("safe_forks")

PREVIEWED = """
import sys
import agent_kernel as ak
from agent_kernel.agents.agent import open_context, start_run

store, code = sys.argv[1:]
state = ak.Versioned(store)
state["rows"] = [3, 1, 2]
run = start_run(ak.Agent("ada", model=ak.ScriptedModel([code]), state=state), "go", open_context(state), preview=True)
list(run.stream())
"""
# A sub-agent commits something, and the process is killed while its model is asked again.
PARENT = """
import os, signal, sys
import agent_kernel as ak

def answer(request):
    if request.turn == 0:
        return "made = n"
    os.kill(os.getpid(), signal.SIGKILL)

child = ak.Agent("child", model=ak.FunctionModel(answer))
state = ak.Versioned(sys.argv[1])
state["x"] = 0
parent = ak.Agent("parent", model=ak.ScriptedModel(["first = 1", "helper(5)"]), state=state)

@parent.fn
@child.task
def helper(n: int) -> int:
    \"\"\"Help.\"\"\"

parent("Work")
"""
# A race whose process is killed: one candidate did something, the other nothing.
RACE = """
import os, signal, sys
from concurrent.futures import ThreadPoolExecutor
import agent_kernel as ak

def works(request):
    if request.turn == 0:
        return "made = 1"
    os.kill(os.getpid(), signal.SIGKILL)

waits = ak.ScriptedModel([ak.Turn("task.success()", delay_s=60)])
state = ak.Versioned(sys.argv[1])
state["x"] = 1
ak.race("go", models=[ak.FunctionModel(works), waits], state=state, executor=ThreadPoolExecutor()).wait()
"""
# A preview that nobody decided about, of no run.
SEEN = """
import os, signal, sys
import agent_kernel as ak
state = ak.Versioned(sys.argv[1])
state["rows"] = [3, 1, 2]
seen = ak.preview("rows.sort()", state)
print(seen.branch, flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
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


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def killed(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment(), capture_output=True, check=False
    )
    assert done.returncode == -9, done.stderr.decode()


def taken_up(state: ak.Versioned, *turns: str | Turn, preview: bool = False) -> Run[Any]:
    """The newest run that another process began."""
    model = ak.ScriptedModel(["", *turns])
    return reopen_run(open_context(state), "", model=model, preview=preview)


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
        run = start_run(ak.Agent("ada", model=model, state=state), "go", open_context(state), preview=True)
        with monkeypatch.context() as patched:
            patched.setattr("agent_kernel.agents.preview.preview_code", interrupted)
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
        run = start_run(ak.Agent("ada", model=model, state=state), "go", open_context(state), preview=True)
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
        run = start_run(ak.Agent("ada", model=model, state=state), "go", open_context(state), preview=True)
        list(run.stream())
        assert not any(isinstance(event, TryStart) for event in EventStore(state.repo.store).of(run.id))
        asked = run.events[-1]
        assert isinstance(asked, ApprovalRequested)
        assert asked.told == "this system cannot fork, and a store in memory is seen by this process alone"


def quick(state: ak.Versioned) -> None:
    """The next run of whoever."""
    ak.Agent("other", model=ak.ScriptedModel(["task.success()"]), state=state)("Look")


def test_what_a_sub_agent_had_done_is_kept_until_the_run_goes_on(tmp_path: Path) -> None:
    killed(PARENT, str(tmp_path / "store"))
    with ak.Versioned(tmp_path / "store") as state:
        event_store = EventStore(state.repo.store)
        run = next(start.run for start in event_store.starts() if not start.parent_run)
        (kept,) = set(state.repo.branches()) - {"main"}
        assert state.repo.at(kept)["made"] == 5
        quick(state)
        assert set(state.repo.branches()) == {"main", kept}
        said = runs(Scope(state.repo), Namespace(n=20))
        assert said.to_text().endswith(f"what child had done is on branch {kept}, until the run goes on or is undone")
        again = reopen_run(open_context(state), run, model=ak.ScriptedModel(["", "", "task.success(first)"]))
        assert again.resume().result() == 1
        unknown = next(event for event in again.events if isinstance(event, Output) and event.status == "unknown")
        assert unknown.sent.endswith("\n\nWhat child had done by then is not part of the state.")
        assert set(state.repo.branches()) == {"main"}
        assert not [name for name in state.repo.heads() if name.startswith("~")]
        assert "made" not in state


def test_what_a_sub_agent_had_done_goes_with_a_run_that_is_undone_or_given_up(tmp_path: Path) -> None:
    killed(PARENT, str(tmp_path / "store"))
    shutil.copytree(tmp_path / "store", tmp_path / "other")
    with ak.Versioned(tmp_path / "store") as state:
        state.session.rollback(next(hex_of(id) for id, commit in state.history() if not commit.run))
        quick(state)
        assert set(state.repo.branches()) == {"main"}
    with ak.Versioned(tmp_path / "other") as state:
        run = next(start.run for start in EventStore(state.repo.store).starts() if not start.parent_run)
        reopen_run(open_context(state), run, model=ak.ScriptedModel([""])).abandon()
        said = gc(Scope(state.repo, state.session), Namespace(dry_run=False)).to_text()
        assert said.startswith("Deleted 1 branch that agents left behind: child-")
        assert set(state.repo.branches()) == {"main"}


def test_the_branch_of_a_sub_agent_that_a_person_is_on_or_went_on_with_stays(tmp_path: Path) -> None:
    killed(PARENT, str(tmp_path / "store"))
    with ak.Versioned(tmp_path / "store") as state:
        (kept,) = set(state.repo.branches()) - {"main"}
        run = next(start.run for start in EventStore(state.repo.store).starts() if not start.parent_run)
        state.session.switch(kept)
        reopen_run(open_context(state), run, model=ak.ScriptedModel([""])).abandon()
        state.session.switch("main")
        state.repo.move_head("somebody", Head(kept, None), "look at it")
        assert delete_unneeded_branches(state.repo, EventStore(state.repo.store)) == ()
        state.repo.drop_head("somebody")
        state.session.switch(kept)
        state["mine"] = 1
        state.session.switch("main")
        assert delete_unneeded_branches(state.repo, EventStore(state.repo.store)) == ()
        assert state.repo.at(kept)["mine"] == 1


def test_an_interrupt_says_where_that_is_which_a_sub_agent_had_done() -> None:
    with ak.Versioned() as state:
        child = ak.Agent("child", model=ak.ScriptedModel(["made = n", Turn("task.success(1)", delay_s=30)]))
        parent = ak.Agent("parent", model=ak.ScriptedModel(["helper(5)", "task.success(2)"]), state=state)

        @parent.fn
        @child.task
        def helper(n: int) -> int:
            """Help."""
            raise NotImplementedError

        def stop(event: object) -> None:
            if isinstance(event, Output) and event.agent == "child":
                (working,) = run._run_executor.children
                threading.Timer(0.1, lambda: working.cancel("enough")).start()

        run = parent.start("Work", on_event=stop)
        list(run.stream())
        (kept,) = set(state.repo.branches()) - {"main"}
        assert state.repo.at(kept)["made"] == 5
        output = next(event for event in run.events if isinstance(event, Output))
        assert f"What child had done is on branch {kept}, until the run goes on or is undone." in output.sent
        quick(state)
        assert kept in state.repo.branches()
        assert run.resume().result() == 2
        assert set(state.repo.branches()) == {"main"}


def test_a_preview_of_a_process_that_died_goes_and_one_of_a_living_one_stays(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", SEEN, str(tmp_path / "store")]
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment()) as child,
        Repository.open(tmp_path / "store") as repo,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        branch = child.stdout.readline().strip()
        assert delete_unneeded_branches(repo, EventStore(repo.store)) == ()
        assert branch in repo.branches()
        child.stdin.write("\n")
        child.stdin.flush()
        child.wait()
        assert delete_unneeded_branches(repo, EventStore(repo.store)) == (branch,)
        assert set(repo.branches()) == {"main"}


def test_a_step_that_waits_keeps_what_it_did_on_a_fork_and_one_that_was_decided_does_not() -> None:
    with ak.Versioned() as state:
        state["rows"] = [3, 1, 2]
        run = start_run(
            ak.Agent("ada", model=ak.ScriptedModel(["rows.sort()"]), state=state),
            "go",
            open_context(state),
            preview=True,
        )
        list(run.stream())
        asked = run.events[-1]
        assert isinstance(asked, ApprovalRequested)
        event_store = EventStore(state.repo.store)
        assert delete_unneeded_branches(state.repo, event_store) == ()
        _ = run.approve()
        assert delete_unneeded_branches(state.repo, event_store) == ()  # it is taken on as the run goes on
        run.abandon()
        state.repo.create_branch(asked.branch, "main", force=True)  # as if the process had died then
        state.repo.create_branch("preview/mine", "main")
        assert delete_unneeded_branches(state.repo, event_store) == (asked.branch,)
        assert "preview/mine" in state.repo.branches()


def test_of_a_race_whose_process_died_the_branches_with_work_on_them_stay(tmp_path: Path) -> None:
    killed(RACE, str(tmp_path / "store"))
    with ak.Versioned(tmp_path / "store") as state:
        tried = sorted(name for name in state.repo.branches() if name.startswith("race/"))
        assert len(tried) == 2
        quick(state)
        assert set(state.repo.branches()) == {"main", tried[0]}
        assert state.repo.at(tried[0])["made"] == 1
        assert not [name for name in state.repo.heads() if name.startswith("~")]


def test_branches_that_only_look_like_those_of_agents_are_left_alone() -> None:
    with ak.Versioned() as state:
        state["x"] = 1
        quick(state)
        named = ["try-12345", "race/later", "race/abcde/1", "preview/of-it"]
        for name in named:
            state.repo.create_branch(name, "main")
        assert delete_unneeded_branches(state.repo, EventStore(state.repo.store)) == ()
