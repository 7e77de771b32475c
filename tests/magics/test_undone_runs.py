"""Undo takes a run back as one operation, redo brings it again, and both say what they do not cover."""

from __future__ import annotations

from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.agents.events import StepStart
from tests.magics.shells import Shell
from tests.magics.tasks import runs, told, use


def test_undo_takes_the_whole_run_back_and_redo_brings_it_again(shell: Shell) -> None:
    shell.run("x = 0")
    use(shell, "x = 1", "y = 2", "task.success()")
    shell.run("%%agent analyst\nDo something in steps.")
    assert "the run of analyst" in shell.run("%agent undo").out
    assert shell.ns["x"] == 0
    assert "y" not in shell.ns
    shell.run("%agent redo")
    assert (shell.ns["x"], shell.ns["y"]) == (1, 2)


def test_the_list_of_runs_says_how_many_it_leaves_out(shell: Shell) -> None:
    use(shell, "task.success()")
    for _ in range(3):
        shell.run("%%agent analyst\nDo something in steps.")
    assert "… and 2 more: %agent runs -n 3\n" in shell.run("%agent runs -n 1").out
    assert "more" not in shell.run("%agent runs -n 3").out
    assert "more" not in shell.run("%agent runs").out


def test_the_list_of_runs_says_which_was_undone(shell: Shell) -> None:
    shell.run("x = 0")
    use(shell, "x = 1", "task.success()")
    shell.run("%%agent analyst\nDo something in steps.")
    shell.run("y = 1")
    found: list[str] = []
    for line in ("%agent undo", "%agent undo", "%agent redo", "%agent undo --only chat", "%agent undo 2"):
        shell.run(line)
        found += [run["status"] for run in runs(shell)]
    assert found == ["completed", "undone", "completed", "completed", "undone"]
    assert "undone" in shell.run("%agent runs").out


def test_the_list_of_runs_calls_one_that_reached_a_limit_what_its_cell_does(shell: Shell) -> None:
    use(shell, "x = 1", "y = 2")
    shell.run("%%agent analyst --steps 1\nDo something in steps.")
    listed = shell.run("%agent runs").out
    assert "stopped at a limit" in listed
    assert "failed" not in listed
    use(shell, "task.fail('no data')")
    shell.run("%%agent analyst\nDo something else.")
    assert "failed" in shell.run("%agent runs").out


def test_the_next_cell_is_an_operation_of_its_own(shell: Shell) -> None:
    use(shell, "x = 1", "task.success()")
    shell.run("%%agent analyst\nDo something in steps.")
    shell.run("x = 5")
    shell.run("%agent undo")
    assert shell.ns["x"] == 1


def test_undo_takes_back_a_question_and_not_the_persons_work_before_it(shell: Shell) -> None:
    shell.run("mine = 'my own work'")
    use(shell, "len(mine)", "task.success()")
    shell.run("%%agent analyst\nHow long is it, please?")
    assert "the run of analyst" in shell.run("%agent undo").out
    assert shell.ns["mine"] == "my own work"
    assert told(shell) == []


WRITES = "z = 1\nopen('x.txt', 'w').close()"


def test_going_back_says_what_it_does_not_cover(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shell.run("y = 1")
    first = shell.log()[0]["id"]
    use(shell, WRITES, "task.success()")
    shell.run("%%agent helper --approve auto\nWrite a file please.")
    here = shell.log()[0]["id"]
    undone = shell.run("%agent undo").out
    assert "Undone the run of helper" in undone
    assert undone.endswith("−z\nnot undone: writes x.txt\n")
    assert "not done again: writes" in shell.run("%agent redo").out
    assert "not undone: writes" in shell.run(f"%agent rollback --only vars {first}").out
    assert "undone:" not in shell.run("%agent undo --only chat").out
    assert "not done again: writes" in shell.run(f"%agent checkout {here}").out
    shell.run("w = 1")
    assert "not undone" not in shell.run("%agent undo").out


def test_a_run_that_went_on_after_a_restart_is_undone_as_a_whole(tmp_path: Path) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("n = 1\nscript = ['n = 2', 'import os\\nos.system(\"true\")', 'task.success(n)']")
        shell.run("%%agent analyst --model scripted:script\nCount one further please.")
        assert shell.ns["n"] == 2
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("%agent checkout")
        shell.run("%agent approve")
        undone = shell.run("%agent undo").out
        assert undone.startswith("Undone the run of analyst")
        assert "~n" in undone
        assert undone.endswith("not undone: runs true\n")
        assert shell.ns["n"] == 1
        assert [run["status"] for run in runs(shell)] == ["undone"]
        shell.run("%agent redo")
        assert shell.ns["n"] == 2


def test_a_step_of_which_nothing_is_known_is_no_part_that_stays(tmp_path: Path) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        use(shell, "n = 2", "n = 3", "task.success(n)")
        notebook = shell.extension.notebook.tasks.open_context()
        run = ak.Agent("analyst", model="scripted:_model", state=notebook).start("Count to three please.")
        for event in run:  # as where the process dies in the second step
            if isinstance(event, StepStart) and event.step == 2:
                break
        shell.run("%agent resume")
        assert shell.run("%agent undo").out.startswith("Undone the run of analyst")
        assert "n" not in shell.ns


def test_undo_of_a_run_that_other_work_parts_says_which_steps_it_is_of(shell: Shell) -> None:
    shell.run("n = 1")
    use(shell, "n = 2", "import os\nos.system('true')\ne = 1", "task.success(n)")
    shell.run("%%agent analyst\nCount one further please.")
    shell.run("meanwhile = 7")
    shell.run("%agent approve")
    undone = shell.run("%agent undo").out
    assert undone.startswith("Undone steps 2 and 3 of the run of analyst")
    assert "step 1 of the run came before other work, and so stayed: %agent rollback " in undone
    assert (shell.ns["n"], shell.ns["meanwhile"], "e" in shell.ns) == (2, 7, False)
    shell.run("%agent undo")
    assert shell.run("%agent undo").out.startswith("Undone step 1 of the run of analyst")
    assert shell.ns["n"] == 1


def test_undo_calls_a_cell_that_drove_a_run_by_the_cell_and_not_by_the_runs_last_step(shell: Shell) -> None:
    use(shell, "x = 1", "task.success(x)")
    shell.run("import agent_kernel as ak\nada = ak.Agent('ada', model='scripted:_model', state=ak.here())")
    shell.run("ada('Make x one please')")
    number = shell.ip.execution_count - 1
    assert shell.run("%agent undo").out.startswith(f"Undone [{number}] ada('Make x one please'): −x")
    assert shell.run("%agent redo").out.startswith(f"Done again [{number}] ada('Make x one please'): +x")
    assert shell.log("-n 1")[0]["message"].endswith("ada('Make x one please')")
    assert shell.ns["x"] == 1
