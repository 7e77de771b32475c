"""A run goes on: with an answer, after it failed, after a restart, and with another model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_kernel.agents import FunctionModel, ScriptedModel
from agent_kernel.agents.events import Resumed
from tests.magics.shells import Shell
from tests.magics.tasks import runs, use


def test_a_question_is_shown_and_the_answer_goes_to_the_model(shell: Shell) -> None:
    use(shell, "task.clarify('which one?')", "task.success('that one')")
    assert "analyst asks: which one?" in shell.run("%%agent analyst\nTake one of them.").out
    without = shell.run("%agent resume")
    assert "analyst asks: which one? (%agent resume ANSWER answers)" in without.out + without.err
    typed = shell.run("%agent resume the left one")
    assert "that one" in typed.out


def test_a_run_goes_on_after_a_restart_once_its_variables_are_back(tmp_path: Path) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("n = 1\nscript = ['import os\\nos.system(\"true\")\\nn += 1', 'task.success(n)']")
        shell.run("%%agent analyst --model scripted:script\nCount one further please.")
    with Shell(store=str(tmp_path / "store")) as shell:
        for line in ("%agent approve", "%agent deny no"):
            assert "%agent checkout brings them back" in shell.run(line).err
        assert [run["status"] for run in runs(shell)] == ["pending"]
        shell.run("%agent checkout")
        shell.run("%agent approve")
        assert shell.ns["n"] == 2


def test_resume_takes_up_the_run_that_failed_last(shell: Shell) -> None:
    use(shell, "x = 1", "x = 2", "task.success(x)")
    typed = shell.run("%%agent analyst --steps 2\nMake x three please.")
    assert "%agent resume tries again with the same limits." in typed.out
    assert shell.run("%agent resume").result.result == 2
    assert [run["status"] for run in runs(shell)] == ["completed"]


def test_resume_says_which_run_it_takes_up_where_none_was_named(shell: Shell) -> None:
    use(shell, "task.fail('no')", "task.fail('still no')", "task.success(2)")
    shell.run("%%agent analyst\nMake x three please.\nIn whatever way.")
    (failed,) = (run["run"][-5:] for run in runs(shell))
    assert f"going on with run {failed} (analyst: Make x three please.)" in shell.run("%agent resume").out
    assert "going on with" not in shell.run(f"%agent resume --run {failed}").out


@pytest.mark.parametrize(
    ("newer", "stands"),
    [("import os\nos.system('true')", "is waiting for approval"), ("task.success()", "is done")],
)
def test_a_run_that_failed_is_not_taken_up_unnamed_where_another_began_behind_it(
    shell: Shell, newer: str, stands: str
) -> None:
    use(shell, "task.fail('no')", "task.success(2)")
    shell.run("%%agent analyst\nMake x three please.")
    use(shell, newer, "task.success()")
    shell.run("%%agent helper\nCount to one please.")
    waits, failed = (run["run"][-5:] for run in runs(shell))
    said = shell.run("%agent resume").err
    assert f"run {failed} (analyst: Make x three please.) failed" in said
    assert f"behind it run {waits} (helper: Count to one please.) {stands}: %agent resume --run {failed}" in said
    assert [run["status"] for run in runs(shell)][1] == "failed"
    shell.run(f"%agent resume --run {failed}")
    assert [run["status"] for run in runs(shell)][1] == "completed"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("don't do it", "don't do it"),
        ("it's mine, don't", "it's mine, don't"),
        ("'not this disk'", "not this disk"),
        ('"it\'s --force that is wrong"', "it's --force that is wrong"),
        ('the 5" disk', 'the 5" disk'),
    ],
)
def test_words_for_an_agent_are_taken_as_they_are(shell: Shell, typed: str, said: str) -> None:
    use(shell, "task.clarify('Which one?')", "task.success()")
    shell.run("%%agent analyst\nCount to one please.")
    typed_line = shell.run(f"%agent resume {typed}")
    assert typed_line.result.success, typed_line.err
    run = next(iter(shell.extension.notebook.tasks.runs.values()))
    assert [event.sent for event in run.events if isinstance(event, Resumed)] == [said]


def test_a_model_that_a_variable_holds_is_found_again_after_a_restart_or_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Any) -> str:
        return "task.clarify('How many?')" if request.turn == 0 else "task.success(7)"

    with Shell(store=str(tmp_path / "store")) as shell:
        shell.ip.user_ns["m"] = FunctionModel(answer)
        shell.run("%agent model m")
        shell.run("%%agent analyst\nCount them please.")
        shell.run("%%agent analyst\nCount the others please.")
    monkeypatch.setattr("agent_kernel.agents.models._registered", {})  # as in another process
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("%agent checkout")
        shell.ip.user_ns["m"] = FunctionModel(answer)
        first, second = [run["run"] for run in runs(shell)]
        assert shell.run(f"%agent resume --run {first} seven").result.result == 7
        shell.ip.user_ns["other"] = ScriptedModel(["task.success(8)"] * 3)
        assert shell.run(f"%agent resume --run {second} --model other eight").result.result == 8


def test_a_run_whose_model_is_gone_says_how_it_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("import agent_kernel as ak")
        shell.run("ada = ak.Agent('ada', model=ak.FunctionModel(lambda _: 'task.clarify(1)'), state=ak.here())")
        assert not shell.run("ada('Ask me')").result.success
    with Shell(store=str(tmp_path / "store")) as shell:
        monkeypatch.setattr("agent_kernel.agents.models._registered", {})  # as in another process
        monkeypatch.setattr("agent_kernel.agents.agent._own_models", {})
        shell.run("%agent checkout")
        shell.run("del ada")  # the agent that the notebook holds brings its model
        said = shell.run("%agent resume two").err
        assert "--model NAME lets another go on; AGENT.reopen(" in said


def test_a_run_that_goes_on_without_a_step_says_so(shell: Shell) -> None:
    use(shell, "x = 1", "task.clarify('And now?')", "task.success()")
    shell.run("%%agent analyst\nMake x one please.")
    shell.run("%agent checkout HEAD~2")
    assert "goes on without steps 1, 2, not in the history here" in shell.run("%agent resume go on").out
