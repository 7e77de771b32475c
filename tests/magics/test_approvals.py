"""A step that reaches outside waits: a person approves it, changes it or denies it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.agents import FunctionModel, ScriptedModel
from agent_kernel.agents.approval import decide, find_newest, log_of
from agent_kernel.magics.extension import AgentKernel
from tests.magics.shells import Shell
from tests.magics.tasks import runs, use


def test_a_step_that_reaches_outside_waits_for_approval(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    use(shell, f"import pathlib; pathlib.Path({str(out)!r}).write_text('x')", "task.success('written')")
    typed = shell.run("%%agent analyst\nWrite a file please.")
    assert typed.result.success
    assert "wants to run step 1" in typed.out
    assert not out.exists()
    assert [run["status"] for run in runs(shell)] == ["pending"]
    typed = shell.run("%agent approve")
    assert out.read_text() == "x"
    assert f"outside the variables: writes {out}" in typed.out
    assert [run["status"] for run in runs(shell)] == ["completed"]


def test_the_prompt_of_the_value_stands_once_in_a_terminal(shell: Shell) -> None:
    use(shell, "import os\nos.system('true')\nx = 41\nx", "x + 1", "task.success(x + 1)")
    shell.run("%%agent analyst\nMake a number please.")
    typed = shell.run("%agent approve")
    assert typed.out.count("Out[") == 1
    assert [line for line in typed.out.splitlines() if line in ("41", "42")] == ["41", "42"]
    assert typed.out.rstrip().endswith("]: 42")
    assert shell.run("1 + 1").out.startswith("Out[")


def test_a_step_that_is_stopped_as_it_runs_waits_for_approval(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    shell.run(f"import pathlib\nplace = pathlib.Path({str(out)!r})\nrows = [1]")
    unseen = "[act('x') for act in [getattr(place, ''.join(['write', '_text']))]]"
    use(shell, f"rows.append(2)\nnew = 1\n{unseen}", "task.success(rows)")
    typed = shell.run("%%agent analyst\nWrite a file please.")
    assert "wants to run step 1" in typed.out
    assert f"files: writes {out}" in typed.out
    assert "Traceback" not in typed.out + typed.err
    assert not out.exists()
    assert shell.ip.user_ns["rows"] == [1]
    assert "new" not in shell.ip.user_ns
    assert shell.run("%agent approve").result.success
    assert out.read_text() == "x"
    assert shell.ip.user_ns["rows"] == [1, 2]
    shell.run("%agent undo")
    assert shell.ip.user_ns["rows"] == [1]
    assert "new" not in shell.ip.user_ns


def test_a_step_that_is_denied_does_not_run_and_the_model_is_told_why(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    heard: list[str] = []

    def answer(request: Any) -> str:
        heard.append(request.messages[-1].text)
        return f"import pathlib; pathlib.Path({str(out)!r}).write_text('x')" if request.turn == 0 else "task.success()"

    shell.ip.user_ns["_model"] = FunctionModel(answer)
    shell.run("%agent model scripted:_model")
    shell.run("%%agent analyst\nWrite a file please.")
    shell.run("%agent deny not on this disk")
    assert not out.exists()
    assert "not on this disk" in heard[1]


def test_the_code_that_waits_can_be_changed_before_it_runs(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    use(shell, f"import pathlib; pathlib.Path({str(out)!r}).write_text('x')", "task.success(n)")
    shell.run("%%agent analyst\nWrite a file please.")
    shell.run("%agent edit")
    (run,) = runs(shell)
    wrong = shell.run(f"%%agent --edit {run['run']}\nn = (7")
    assert "'(' was never closed; nothing was decided" in wrong.err + wrong.out
    assert [one["status"] for one in runs(shell)] == ["pending"]
    typed = shell.run(f"%%agent --edit {run['run']}\nn = 7")
    assert not out.exists()
    assert typed.result.result == 7


def test_where_nobody_can_be_asked_what_would_ask_is_denied(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.txt"
    use(shell, f"import pathlib; pathlib.Path({str(out)!r}).write_text('x')", "task.success('without')")
    monkeypatch.setattr(AgentKernel.of(shell.ip).notebook.tasks, "can_ask", lambda: False)
    typed = shell.run("%%agent analyst\nWrite a file please.")
    assert "nobody is there to ask" in typed.out
    assert typed.result.result == "without"
    assert not out.exists()


def test_an_agent_that_never_may_says_what_the_step_would_have_done(shell: Shell, tmp_path: Path) -> None:
    use(
        shell, f"import pathlib; pathlib.Path({str(tmp_path / 'out.txt')!r}).write_text('x')", "task.success('without')"
    )
    typed = shell.run("%%agent analyst --approve never\nWrite a file please.")
    assert 'Step 1 was denied: this agent has approve="never", and the step writes a file.' in typed.out


def test_a_preview_shows_what_a_step_would_change_and_changes_nothing_until_it_is_approved(shell: Shell) -> None:
    shell.run("x = 0")
    use(shell, "x = 1\nprint('x becomes one')", "task.success(x)")
    typed = shell.run("%%agent analyst --preview\nMake x one please.")
    assert typed.result.success, typed.err
    assert shell.ns["x"] == 0
    assert [run["status"] for run in runs(shell)] == ["pending"], typed.out
    assert "changed on a fork: ~x int 1" in typed.out
    assert "x becomes one" in shell.run("%agent approve").out.splitlines(), (
        "it stands there as if the step had run here"
    )
    assert shell.ns["x"] == 1


def test_a_preview_that_fails_says_why_in_the_question(shell: Shell) -> None:
    shell.run("x = 0")
    use(shell, "p = xs[0]", "task.success()")
    typed = shell.run("%%agent analyst --preview\nMake p one please.")
    assert "failed on a fork: NameError: name 'xs' is not defined" in typed.out
    assert "failed on a fork: NameError: name 'xs' is not defined" in shell.run("%agent runs").out


@pytest.mark.parametrize("mode", ["none", "live"])
def test_a_run_that_was_approved_elsewhere_goes_on_where_it_acted(shell: Shell, mode: str) -> None:
    shell.run("n = 1")
    use(shell, "n = 2", "import os\nos.system('true')\nn += 1", "task.success(n)")
    shell.run(f"%%agent analyst --state {mode}\nCount one further please.")
    event_store = shell.extension.notebook.tasks.open_context().event_store
    decide(log_of(event_store, find_newest(event_store, ["pending"])), "approve", by="somebody else")
    assert shell.run("%agent resume").result.success
    assert runs(shell)[0]["status"] == "completed"
    assert shell.ns["n"] == (1 if mode == "none" else 3)
    assert not [commit for commit in shell.log() if commit["author"]["name"] == "analyst"]


def test_a_run_that_was_in_memory_alone_does_not_go_on_elsewhere(tmp_path: Path) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        use(shell, "import os\nos.system('true')\nn = 1", "task.success(n)")
        shell.run("%%agent analyst --state none\nCount to one please.")
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("%agent checkout")
        assert "in memory alone" in shell.run("%agent approve").err
        assert "n" not in shell.ns


def test_where_several_runs_wait_the_one_that_is_meant_has_to_be_named(shell: Shell) -> None:
    use(shell, "import os\nos.system('true')\nn = 1", "task.success(n)")
    for agent in ("analyst", "helper"):
        shell.run(f"%%agent {agent}\nCount to one please.")
    newer, older = (run["run"][-5:] for run in runs(shell))
    for line in ("approve", "deny not now", "edit"):
        said = shell.run(f"%agent {line}").err
        assert f"2 runs wait for approval: {newer} (helper), {older} (analyst); --run RUN says which one" in said
    assert [run["status"] for run in runs(shell)] == ["pending", "pending"]
    shell.run(f"%agent approve --run {older}")
    assert [run["status"] for run in runs(shell)] == ["pending", "completed"]
    shell.run("%agent approve")
    assert [run["status"] for run in runs(shell)] == ["completed", "completed"]


def test_a_step_is_denied_also_where_the_model_of_its_run_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.ip.user_ns["m"] = FunctionModel(lambda _: "import os\nos.system('true')")
        shell.run("%%agent analyst --model m\nRun something please.")
    monkeypatch.setattr("agent_kernel.agents.models._registered", {})  # as in another process
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("%agent checkout\ndel m")
        assert "Denied. Its model is gone: %agent resume --run" in shell.run("%agent deny no").out
        assert [run["status"] for run in runs(shell)] == ["decided"]
        shell.ip.user_ns["other"] = ScriptedModel(["task.success(8)"] * 3)
        assert shell.run("%agent resume --model other").result.result == 8


def test_status_says_what_waits_and_how_it_goes_on(shell: Shell, tmp_path: Path) -> None:
    assert "run" not in shell.run("%agent status").out.lower()
    use(shell, f"import os; os.mkdir({str(tmp_path / 'made')!r})", "task.clarify('Which one?')", "task.success()")
    shell.run("%%agent analyst\nMake a folder please.")
    (run,) = runs(shell)
    named = f"Run {run['run'][-5:]} (analyst: Make a folder please.)"
    said = shell.run("%agent status").out
    assert f"{named} waits for approval: %agent approve, %agent edit or %agent deny" in said
    event_store = shell.extension.notebook.tasks.open_context().event_store
    decide(log_of(event_store, run["run"]), "approve", by="ada")  # in another process
    said = shell.run("%agent status").out
    assert f"{named} is decided, but has not gone on: %agent resume lets it go on" in said
    assert json.loads(shell.run("%agent status --json").out)["runs"] == [{"run": run["run"], "status": "decided"}]
    refused = shell.run("%agent deny").err
    assert "no run waits for approval; run" in refused
    assert "is decided already: %agent resume lets it go on" in refused
    refused = shell.run(f"%agent deny --run {run['run'][-5:]}").err
    assert "is decided already: it cannot be decided again; %agent resume lets it go on" in refused
    shell.run("%agent resume")
    assert f"{named} waits for an answer: %agent resume ANSWER" in shell.run("%agent status").out
    shell.run("%agent resume the first")
    assert "(analyst" not in shell.run("%agent status").out
