"""The conversation goes back with the variables, alone, or not at all, and comes back after a restart."""

from __future__ import annotations

from pathlib import Path

from agent_kernel.agents import Turn
from tests.magics.shells import Shell
from tests.magics.tasks import told, use


def test_undo_takes_the_conversation_back_with_the_variables(shell: Shell) -> None:
    use(shell, "x = 1", "task.success()")
    shell.run("%%agent analyst\nMake an x please.")
    shell.run("%%agent analyst\nMake another x please.")
    shell.run("x = 5")
    assert told(shell) == ["Make an x please.", "Make another x please."]
    shell.run("%agent undo 4")
    assert told(shell) == []


def test_undo_of_the_variables_alone_leaves_the_conversation(shell: Shell) -> None:
    shell.run("x = 0")
    use(shell, "x = 1", "task.success()")
    shell.run("%%agent analyst\nMake an x please.")
    shell.run("%agent undo --only vars")
    assert shell.ns["x"] == 0
    assert told(shell) == ["Make an x please."]


def test_undo_of_the_conversation_alone_leaves_the_variables(shell: Shell) -> None:
    use(shell, "x = 1", "task.success()")
    shell.run("%%agent analyst\nMake an x please.")
    assert "The conversation went back to before the run of analyst" in shell.run("%agent undo --only chat").out
    assert shell.ns["x"] == 1
    assert told(shell) == []


def test_redo_brings_the_conversation_back_and_says_so(shell: Shell) -> None:
    use(shell, "x = 1", "task.success()")
    shell.run("%%agent analyst\nMake an x please.")
    shell.run("%agent undo --only chat")
    assert shell.run("%agent redo").out == "The conversation is back where it was: no variable changed\n"
    shell.run("%agent undo --only chat")
    assert shell.run("%agent undo").out == "The conversation is back where it was: no variable changed\n"
    assert shell.run("%agent redo").out == "The conversation went back again: no variable changed\n"
    shell.run("%agent undo")
    assert told(shell) == ["Make an x please."]


def test_undo_of_the_variables_of_a_move_says_that_head_stays(shell: Shell) -> None:
    shell.run("x = 1")
    shell.run("x = 2")
    shell.run("%agent checkout HEAD~1")
    said = shell.run("%agent undo --only vars").out
    assert said == (
        "The variables went back to before the checkout of [1], and HEAD stays there: ~x\nthis starts branch main-2\n"
    )
    assert shell.ns["x"] == 2


def test_after_a_restart_the_conversation_comes_back_with_the_variables(tmp_path: Path) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        use(shell, "x = 1", "task.success(x)")
        shell.run("%%agent analyst\nMake x one please.")
    with Shell(store=str(tmp_path / "store")) as shell:
        assert told(shell) == []  # it tells of variables that are not there
        shell.run("%agent checkout")
        assert told(shell)[0] == "Make x one please."
        assert shell.ns["x"] == 1
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("%agent checkout --fresh")
        assert told(shell) == []
        shell.run("%agent undo 2")
        shell.run("%agent checkout")
        assert told(shell)[0] == "Make x one please."


def test_the_conversation_goes_back_by_runs_and_no_further_than_there_are_any(tmp_path: Path) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        use(shell, "x = 1", "task.success()")
        shell.run("%%agent analyst\nMake an x please.")
    with Shell(store=str(tmp_path / "store")) as shell:
        assert "no conversation to take back" in shell.run("%agent undo --only chat").err
        shell.run("%agent checkout")
        use(shell, "x = 2", "task.success()")
        shell.run("%%agent helper\nMake another x please.")
        shell.run("y = 1")
        assert "to before the run of helper (" in shell.run("%agent undo --only chat").out
        assert "to before the run of analyst (" in shell.run("%agent undo --only chat").out
        assert "no conversation to take back" in shell.run("%agent undo --only chat").err
        assert (shell.ns["x"], shell.ns["y"]) == (2, 1)
        assert "is back up to the run of analyst (" in shell.run("%agent redo").out
        assert "to before the run of analyst (" in shell.run("%agent undo --only chat").out
        use(shell, Turn(text="It is two."))
        shell.run("%%agent helper\nWhat is x here, please?")
        shell.run("z = 1")
        assert "to before the run of helper (" in shell.run("%agent undo --only chat").out
        assert "no conversation to take back" in shell.run("%agent undo --only chat").err
