"""Tasks for agents in a real shell: they run in its namespace, each step is a commit, and a person can stop and go on."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.agents import FunctionModel, ScriptedModel, Turn
from agent_kernel.agents.deciding import decide, log_of, newest
from agent_kernel.agents.events import Resumed, StepStart
from agent_kernel.magics.extension import AgentKernel
from tests.magics.shells import Shell, Typed


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(store=str(tmp_path / "store")) as shell:
        yield shell


def use(shell: Shell, *turns: Turn | str) -> None:
    """Let tasks go to a model that plays these answers."""
    shell.ip.user_ns["_model"] = ScriptedModel(turns, name="_model")
    shell.run("%agent model scripted:_model")


def runs(shell: Shell) -> list[Any]:
    found: list[Any] = json.loads(shell.run("%agent runs --json").out)
    return found


def test_each_step_of_a_task_is_a_commit_by_the_agent(shell: Shell) -> None:
    use(shell, "x = 1", "y = x + 1", "task.success(y)")
    typed = shell.run("%%agent analyst\nCount up to two.")
    assert typed.result.success, typed.err
    assert typed.result.result == 2
    assert (shell.ns["x"], shell.ns["y"]) == (1, 2)
    steps = [commit for commit in shell.log() if commit["author"]["name"] == "analyst"]
    assert [commit["cell"]["source"] for commit in reversed(steps)] == ["x = 1", "y = x + 1", "task.success(y)"]
    assert not any("Count up" in (commit["cell"] or {"source": ""})["source"] for commit in shell.log())


def test_a_traceback_names_the_step_that_failed_and_not_a_cell_that_is_another(shell: Shell) -> None:
    shell.run("x = 0")
    use(shell, "def halve(n):\n    return n / x", "halve(3)", "task.success()")
    shell.run("%%agent analyst\nHalve the number three.")

    def called() -> str:
        _, name = shell.ip.compile.format_code_name(shell.ns["halve"].__code__.co_filename)
        return str(name)

    assert called() == "In[step 1 of analyst]"
    assert isinstance(shell.run("halve(4)").result.error_in_exec, ZeroDivisionError)
    assert called() == "In[step 1 of analyst]"
    shell.run("def halve(n):\n    return n / x")
    assert called() == f"In[{shell.ip.execution_count - 1}]"


def test_undo_takes_the_whole_run_back_and_redo_brings_it_again(shell: Shell) -> None:
    shell.run("x = 0")
    use(shell, "x = 1", "y = 2", "task.success()")
    shell.run("%%agent analyst\nDo something in steps.")
    assert "the run of analyst" in shell.run("%agent undo").out
    assert shell.ns["x"] == 0
    assert "y" not in shell.ns
    shell.run("%agent redo")
    assert (shell.ns["x"], shell.ns["y"]) == (1, 2)


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


def test_the_next_cell_is_an_operation_of_its_own(shell: Shell) -> None:
    use(shell, "x = 1", "task.success()")
    shell.run("%%agent analyst\nDo something in steps.")
    shell.run("x = 5")
    shell.run("%agent undo")
    assert shell.ns["x"] == 1


def test_what_a_step_prints_and_shows_goes_to_the_person_and_to_the_model(shell: Shell) -> None:
    heard: list[str] = []

    def answer(request: Any) -> str:
        heard.append(request.messages[-1].text)
        return "print('printed'); 40 + 2" if request.turn == 0 else "task.success()"

    shell.ip.user_ns["_model"] = FunctionModel(answer)
    shell.run("%agent model scripted:_model")
    typed = shell.run("%%agent analyst\nShow me a number please.")
    assert "printed" in typed.out
    assert "42" in typed.out
    assert "printed" in heard[1]
    assert "42" in heard[1]


def test_a_semicolon_hides_the_value_of_a_step_as_it_does_in_a_cell(shell: Shell) -> None:
    use(shell, "40 + 2;", "task.success()")
    assert "42" not in shell.run("%%agent analyst\nCount quietly please.").out


def test_the_commit_of_a_step_keeps_what_it_showed(shell: Shell) -> None:
    use(shell, "print('kept')", "task.success()")
    shell.run("%%agent analyst\nPrint a word please.")
    assert "kept" in shell.run("%agent show HEAD~1 --outputs").out


def test_an_error_of_a_step_is_committed_as_failed_and_the_run_goes_on(shell: Shell) -> None:
    use(shell, "before = 1\n1 / 0", "task.success(before)")
    typed = shell.run("%%agent analyst\nDivide by zero please.")
    assert typed.result.success
    assert typed.result.result == 1
    assert "failed" in [commit["status"] for commit in shell.log()]


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


def test_an_interrupt_while_the_model_answers_stops_the_run_and_resume_goes_on(shell: Shell) -> None:
    use(shell, "x = 1", Turn("task.success(x)", delay_s=1.0))
    timer = threading.Timer(0.4, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    began = time.monotonic()
    typed = shell.run("%%agent analyst\nCount up to one please.")
    assert time.monotonic() - began < 0.95
    assert not typed.result.success
    assert "stopped" in typed.out
    assert [run["status"] for run in runs(shell)] == ["interrupted"]
    shell.run("%agent resume")
    assert [run["status"] for run in runs(shell)] == ["completed"]


def test_a_run_that_a_loop_of_the_notebook_drives_is_not_resumed_and_one_that_nobody_drives_is(shell: Shell) -> None:
    use(shell, "task.success(1)")
    shell.run("import agent_kernel as ak")
    shell.run("run = ak.Agent('analyst', model='scripted:_model', state=ak.here()).start('Count up to one please.')")
    shell.run("loop = run.stream(); _ = next(loop)")
    (listed,) = runs(shell)
    assert listed["status"] == "running"
    assert "or go on elsewhere" in shell.run("%agent resume").err
    refused = shell.run(f"%agent resume --run {listed['run']}")
    assert "is being driven by another loop of this process" in refused.err
    shell.run("loop.close()")
    assert runs(shell)[0]["status"] == "stopped"
    shell.run("%agent resume")
    assert [run["status"] for run in runs(shell)] == ["completed"]


def test_an_interrupt_while_code_runs_keeps_what_it_had_done(shell: Shell) -> None:
    use(shell, "import time\nx = 1\ntime.sleep(5)\nx = 2", "task.success(x)")
    threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT)).start()
    typed = shell.run("%%agent analyst --approve auto\nCount up to one please.")
    assert not typed.result.success
    assert shell.ns["x"] == 1
    assert shell.log()[0]["status"] == "interrupted"
    shell.run("%agent resume")
    assert [run["status"] for run in runs(shell)] == ["completed"]


def test_a_question_is_shown_and_the_answer_goes_to_the_model(shell: Shell) -> None:
    use(shell, "task.clarify('which one?')", "task.success('that one')")
    assert "analyst asks: which one?" in shell.run("%%agent analyst\nTake one of them.").out
    without = shell.run("%agent resume")
    assert "analyst asks: which one? (%agent resume ANSWER answers)" in without.out + without.err
    typed = shell.run("%agent resume the left one")
    assert "that one" in typed.out


def test_a_run_that_fails_fails_its_cell(shell: Shell) -> None:
    use(shell, "task.fail('no such data')")
    typed = shell.run("%%agent analyst\nFind the data please.")
    assert not typed.result.success
    assert "failed: no such data" in typed.out
    assert "Traceback" not in typed.out + typed.err


def test_a_result_that_does_not_fit_goes_back_to_the_model(shell: Shell) -> None:
    use(shell, "task.success('3')", "task.success(3)")
    assert shell.run("%%agent analyst --returns int\nCount the rows please.").result.result == 3


@pytest.mark.parametrize(
    "slip",
    [
        *("imprt pandas as pd", "df head", "form os import path", "x = = 1", "pritn x", "del x y", "x is nto None"),
        *("import numpy as np, pandas sa pd", "lambda x y", "elif x is y", "impot os sys time", "retrun the value"),
    ],
)
def test_a_slip_never_becomes_a_task(shell: Shell, slip: str) -> None:
    use(shell, "task.success()")
    typed = shell.run(f"%%agent analyst\n{slip}")
    assert "SyntaxError" in typed.out
    assert "%%agent --task" in typed.out
    assert not runs(shell)


def test_the_name_of_a_variable_that_was_typed_wrong_never_becomes_a_task(shell: Shell) -> None:
    shell.run("orders = [1]")
    use(shell, "task.success()")
    assert "%%agent --task" in shell.run("%%agent analyst\noders head twice").out
    assert not runs(shell)


def test_a_bare_name_that_is_not_known_is_code_and_says_how_to_make_it_a_task(shell: Shell) -> None:
    use(shell, "task.success()")
    assert "%%agent --task" in shell.run("%%agent analyst\nSummarise").out
    assert not runs(shell)
    shell.run("%%agent analyst --task\nSummarise")
    assert len(runs(shell)) == 1


def test_with_commits_off_a_task_leaves_no_history(shell: Shell) -> None:
    use(shell, "x = 1", "task.success(x)")
    shell.run("%agent off")
    before = shell.log()
    assert shell.run("%%agent analyst\nCount up to one please.").result.result == 1
    assert shell.log() == before


def test_an_agent_that_a_cell_starts_commits_its_steps_apart_from_the_cell(shell: Shell) -> None:
    use(shell, "made = given + 1\nprint('of the step')", "task.success(made)")
    shell.run("import agent_kernel as ak")
    typed = shell.run(
        "given = 1\nprint('before')\n"
        "result = ak.Agent('bob', model=_model, state=ak.here())('Add one to it.')\n"
        "print('after')\nafterwards = result * 2"
    )
    assert typed.result.success, typed.err
    assert (shell.ns["made"], shell.ns["afterwards"]) == (2, 4)
    log = list(reversed(shell.log()))
    told = [(commit["author"]["name"], [change["name"] for change in commit["changed"]]) for commit in log]
    me = told[0][0]
    assert told[-4:] == [(me, ["given"]), ("bob", ["made"]), ("bob", []), (me, ["afterwards", "result"])]
    assert shell.run("%agent show HEAD --outputs").out.count("before") >= 1
    assert "of the step" not in shell.run("%agent show HEAD --outputs").out.partition("Outputs")[2]
    assert "of the step" in shell.run("%agent show HEAD~2 --outputs").out


def told(shell: Shell) -> list[str]:
    """The tasks that a model is told of as the next run begins."""
    heard: list[str] = []

    def answer(request: Any) -> str:
        heard.extend(
            message.text.partition("\n")[0] for message in request.messages if type(message).__name__ == "Told"
        )
        return "task.success()"

    shell.ip.user_ns["_model"] = FunctionModel(answer)
    shell.run("%agent model scripted:_model")
    typed = shell.run("%%agent analyst\nSay what you were told.")
    assert typed.result.success, typed.err
    return heard[:-1]


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


def test_a_hidden_variable_is_in_no_prompt(shell: Shell) -> None:
    heard: list[str] = []

    def answer(request: Any) -> str:
        heard.append(request.text)
        return "client_list\nprint(client_list, rows)" if request.turn == 0 else "task.success()"

    shell.ip.user_ns["_model"] = FunctionModel(answer)
    shell.run("%agent model scripted:_model")
    shell.run("client_list = ['Rosalind Quince']\nrows = 3")
    assert "No model is told of client_list" in shell.run("%agent hide client_list").out
    assert "client_list" in shell.run("%agent hide").out
    shell.run("%%agent analyst\nLook at what there is.")
    assert "rows" in heard[0]
    assert not any("Quince" in text for text in heard)
    assert not any(
        "client_list" in text.partition("The notebook's variables")[2].partition("client_list\nprint")[0]
        for text in heard[:1]
    )
    shell.run("%agent hide --remove client_list")
    assert "No variable is hidden" in shell.run("%agent hide").out


def test_a_task_may_have_a_branch_of_its_own(shell: Shell) -> None:
    shell.run("x = 0")
    use(shell, "x = 1", "task.success()")
    shell.run("%%agent analyst --branch bold\nMake x one please.")
    assert "On branch bold" in shell.run("%agent status").out
    shell.run("%agent switch main")
    assert shell.ns["x"] == 0


def test_a_live_task_leaves_no_commits_and_one_without_state_no_variables(shell: Shell) -> None:
    use(shell, "made = 1", "task.success(made)")
    shell.run("x = 0")
    before = shell.log()
    assert shell.run("%%agent analyst --state none\nMake something please.").result.result == 1
    assert "made" not in shell.ns
    assert shell.run("%%agent analyst --state live\nMake something please.").result.result == 1
    assert shell.ns["made"] == 1
    assert shell.log() == before


def test_a_preview_shows_what_a_step_would_change_and_changes_nothing_until_it_is_approved(shell: Shell) -> None:
    shell.run("x = 0")
    use(shell, "x = 1", "task.success(x)")
    typed = shell.run("%%agent analyst --preview\nMake x one please.")
    assert typed.result.success, typed.err
    assert shell.ns["x"] == 0
    assert [run["status"] for run in runs(shell)] == ["pending"], typed.out
    shell.run("%agent approve")
    assert shell.ns["x"] == 1


def test_undo_takes_back_a_question_and_not_the_persons_work_before_it(shell: Shell) -> None:
    shell.run("mine = 'my own work'")
    use(shell, "len(mine)", "task.success()")
    shell.run("%%agent analyst\nHow long is it, please?")
    assert "the run of analyst" in shell.run("%agent undo").out
    assert shell.ns["mine"] == "my own work"
    assert told(shell) == []


def test_one_undo_takes_back_a_cell_with_the_candidate_that_it_picked(shell: Shell) -> None:
    shell.run("import agent_kernel as ak; from concurrent.futures import ThreadPoolExecutor; x = 0")
    shell.run(
        "bob = ak.Agent('bob', model=ak.ScriptedModel(['x = 7; task.success()']))\n"
        "with ThreadPoolExecutor() as pool:\n"
        "    tries = ak.race('Try it', n=1, agent=bob, state=ak.here(), executor=pool).wait()"
    )
    shell.run("best = 1; tries.pick(best); y = 3")
    assert (shell.ns["x"], shell.ns["y"]) == (7, 3)
    assert "[3] best = 1; tries.pick(best); y = 3, and candidate 1 of race" in shell.run("%agent undo").out
    assert (shell.ns["x"], "y" in shell.ns, "best" in shell.ns) == (0, False, False)
    shell.run("%agent redo")
    assert (shell.ns["x"], shell.ns["y"]) == (7, 3)


def test_a_step_awaits_at_its_top_level_also_where_a_loop_runs_already(shell: Shell) -> None:
    use(shell, "import asyncio\nx = await asyncio.sleep(0, 5)", "task.success(x)")

    async def as_a_kernel_does() -> object:
        ran = shell.run("%%agent analyst\nWait for it please.")
        assert asyncio.current_task() is not None
        return ran.result.result

    assert asyncio.run(as_a_kernel_does()) == 5
    assert shell.run("%%agent analyst\nWait for it please.").result.result == 5


def test_a_step_that_awaits_for_too_long_is_interrupted_and_leaves_nothing_pending(shell: Shell) -> None:
    shell.run("import agent_kernel as ak, asyncio")
    use(
        shell,
        "ended = []\nasync def late():\n    try:\n        await asyncio.sleep(60)\n    finally:\n"
        "        ended.append(1)\nlater = asyncio.create_task(late())\nawait asyncio.sleep(60)",
        "task.success(ended)",
    )

    async def as_a_kernel_does() -> Typed:
        limits = "ak.Limits(step_s=0.3)"
        return shell.run(f"ak.Agent('a', model=_model, limits={limits}, state=ak.here())('Wait.')")

    typed = asyncio.run(as_a_kernel_does())
    assert typed.result.result == [1]
    assert "CancelledError" not in typed.out + typed.err  # it met the interrupt where it waited


def test_the_steps_have_the_number_of_their_cell(shell: Shell) -> None:
    use(shell, "x = 1", "task.success()")
    typed = shell.run("%%agent analyst\nMake an x please.")
    assert shell.log()[0]["cell"]["number"] == typed.result.execution_count


PLAY = "from agent_kernel import ScriptedModel\n{} = ScriptedModel({!r}, name={!r})"


def test_fork_tries_a_task_several_times_at_once_and_picks_none_by_itself(shell: Shell) -> None:
    shell.run("x = 1")
    use(shell, "y = x + 1", "task.success(y)")
    typed = shell.run("%%agent analyst --fork 2\nAdd one to it please.")
    assert typed.result.success, typed.err
    race: Any = typed.result.result
    assert [(one.status, one.result) for one in race.candidates] == [("completed", "2")] * 2
    assert "y" not in shell.ns
    race.pick(2)
    assert shell.ns["y"] == 2
    race.discard()


def test_fork_takes_a_model_for_each_candidate_and_a_judge_picks_the_best(shell: Shell) -> None:
    shell.run(PLAY.format("low", ["y = 1", "task.success(y)"], "low"))
    shell.run(PLAY.format("high", ["y = 5", "task.success(y)"], "high"))
    typed = shell.run("%%agent analyst --fork scripted:low,scripted:high --judge y\nMake a number please.")
    assert typed.result.success, typed.err
    race: Any = typed.result.result
    assert [one.model for one in race.candidates] == ["scripted:low", "scripted:high"]
    assert (race.picked, shell.ns["y"]) == (2, 5)
    *both, whole = runs(shell)[:3]
    first, second = sorted(both, key=lambda one: one["candidate"])  # they begin side by side
    assert [(one["candidate"], one["race"]) for one in (first, second)] == [(1, race.id), (2, race.id)]
    assert (whole["picked"], whole["discarded"]) == (2, False)
    assert (whole["steps"], whole["tokens"]) == (4, first["tokens"] + second["tokens"])
    table = shell.run("%agent runs").out
    assert "candidate 1 of" in table
    assert "picked 2 of 2" in table
    assert " status " in table.splitlines()[0]
    race.discard()
    assert runs(shell)[2]["discarded"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--judge y", "there is no --fork"),
        ("--fork 0", "a number from 1"),
        ("--fork 2 --preview", "--fork and --preview"),
        ("--fork scripted:a --model scripted:b", "--fork and --model"),
    ],
)
def test_what_does_not_go_with_fork_is_refused(shell: Shell, line: str, said: str) -> None:
    typed = shell.run(f"%%agent analyst {line}\nMake a number please.")
    assert not typed.result.success
    assert said in typed.out + typed.err


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


@pytest.mark.parametrize("mode", ["none", "live"])
def test_a_run_that_was_approved_elsewhere_goes_on_where_it_acted(shell: Shell, mode: str) -> None:
    shell.run("n = 1")
    use(shell, "n = 2", "import os\nos.system('true')\nn += 1", "task.success(n)")
    shell.run(f"%%agent analyst --state {mode}\nCount one further please.")
    journal = shell.extension.notebook.tasks.place().journal
    decide(log_of(journal, newest(journal, ["pending"])), "approve", by="somebody else")
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


def test_undo_of_the_variables_of_a_move_says_that_head_stays(shell: Shell) -> None:
    shell.run("x = 1")
    shell.run("x = 2")
    shell.run("%agent checkout HEAD~1")
    said = shell.run("%agent undo --only vars").out
    assert said == (
        "The variables went back to before the move to [1], and HEAD stays there: ~x\nthis starts branch main-2\n"
    )
    assert shell.ns["x"] == 2


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
        notebook = shell.extension.notebook.tasks.place()
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


def test_resume_takes_up_the_run_that_failed_last(shell: Shell) -> None:
    use(shell, "x = 1", "x = 2", "task.success(x)")
    typed = shell.run("%%agent analyst --steps 2\nMake x three please.")
    assert "%agent resume tries once more, and may take as much again" in typed.out
    assert shell.run("%agent resume").result.result == 2
    assert [run["status"] for run in runs(shell)] == ["completed"]


def test_a_variable_that_holds_a_model_is_named_as_it_is(shell: Shell) -> None:
    shell.ip.user_ns["fm"] = FunctionModel(lambda request: "x = 1\ntask.success(x)")
    shell.run("turns = ['x = 2', 'task.success(x)']\nnumbers = [1]\ndef plain(request): pass")
    for name, x in (("fm", 1), ("turns", 2)):
        assert shell.run(f"%agent model {name}").result.success
        shell.run("%%agent analyst\nMake an x please.")
        assert shell.ns["x"] == x
    assert shell.run("%%agent analyst --model fm\nMake an x please.").result.result == 1
    assert "FunctionModel(plain) makes one" in shell.run("%agent model plain").err
    assert "numbers is a list here, and not one of answers" in shell.run("%agent model numbers").err
    assert "fn: models here are fm; a model is named PROVIDER:NAME" in shell.run("%agent model fn").err


def test_an_agent_that_acts_here_is_saved_and_its_steps_are_no_change_of_it(tmp_path: Path) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("import agent_kernel as ak\nm = ak.ScriptedModel(['x = 1', 'task.success(x)'], name='m')")
        assert "not saved" not in shell.run("agent = ak.Agent('helper', model=m, state=ak.here())").out
        said = shell.run("run = agent.start('Make an x please.')").out
        run = shell.ns["run"].id[-5:]
        assert f"run is not saved (Run): it holds an open store. Agent.reopen('{run}') gives it again." in said
        assert shell.run("run.result()").out == "Out[4]: 1\n"
        steps = [commit for commit in shell.log() if commit["author"]["name"] == "helper"]
        assert [one["name"] for step in steps for one in step["changed"]] == ["x"]
        assert not any(step["unsaved"] for step in steps)
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("%agent checkout")
        assert shell.run(f"agent.reopen('{run}').status").result.result == "completed"
        assert shell.run("agent('Make an x please.')").result.result == 1
    repo = ak.open(tmp_path / "store")
    elsewhere = ak.Versioned(repo)
    with pytest.raises(ak.NotBoundError):
        elsewhere["agent"].start("Make an x please.")  # type: ignore[attr-defined]  # it is an Agent
    elsewhere.session.close()
    repo.close()


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


def test_a_thread_beside_the_cells_drives_no_agent_on_their_variables(shell: Shell) -> None:
    shell.run("import agent_kernel as ak; from concurrent.futures import ThreadPoolExecutor")
    shell.run("run = ak.Agent('ada', model=ak.ScriptedModel(['x = 1; task.success(x)']), state=ak.here()).start('Go')")
    shell.run("with ThreadPoolExecutor(1) as pool: error = pool.submit(run.result).exception()")
    assert "on the thread of its cells" in str(shell.ns["error"])
    assert "x" not in shell.ns
    assert shell.run("run.resume().result()").result.result == 1


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
    monkeypatch.setattr("agent_kernel.agents.models.naming._registered", {})  # as in another process
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("%agent checkout")
        shell.ip.user_ns["m"] = FunctionModel(answer)
        first, second = [run["run"] for run in runs(shell)]
        assert shell.run(f"%agent resume --run {first} seven").result.result == 7
        shell.ip.user_ns["other"] = ScriptedModel(["task.success(8)"] * 3)
        assert shell.run(f"%agent resume --run {second} --model other eight").result.result == 8


def test_an_agent_that_was_given_a_part_of_a_module_is_saved_with_it(tmp_path: Path) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("import agent_kernel as ak, statistics")
        shell.run("m = ak.ScriptedModel(['task.success(statistics.median([1, 2, 9]))'] * 2)")
        said = shell.run("ada = ak.Agent('ada', model=m, state=ak.here()); ada.module(statistics, include=['median'])")
        assert "not saved" not in said.out + said.err
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("%agent checkout")
        assert shell.run("ada('Find the one in the middle')").result.result == 2


def test_a_run_whose_model_is_gone_says_how_it_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("import agent_kernel as ak")
        shell.run("ada = ak.Agent('ada', model=ak.FunctionModel(lambda _: 'task.clarify(1)'), state=ak.here())")
        assert not shell.run("ada('Ask me')").result.success
    with Shell(store=str(tmp_path / "store")) as shell:
        monkeypatch.setattr("agent_kernel.agents.models.naming._registered", {})  # as in another process
        shell.run("%agent checkout")
        said = shell.run("%agent resume two").err
        assert "--model NAME lets another go on; AGENT.reopen(" in said


def test_a_run_that_goes_on_without_a_step_says_so(shell: Shell) -> None:
    use(shell, "x = 1", "task.clarify('And now?')", "task.success()")
    shell.run("%%agent analyst\nMake x one please.")
    shell.run("%agent checkout HEAD~2")
    assert "goes on without steps 1, 2, not behind the state here" in shell.run("%agent resume go on").out


def test_a_step_is_denied_also_where_the_model_of_its_run_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.ip.user_ns["m"] = FunctionModel(lambda _: "import os\nos.system('true')")
        shell.run("%%agent analyst --model m\nRun something please.")
    monkeypatch.setattr("agent_kernel.agents.models.naming._registered", {})  # as in another process
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("%agent checkout\ndel m")
        assert "Denied. Its model is gone: %agent resume --run" in shell.run("%agent deny no").out
        assert [run["status"] for run in runs(shell)] == ["decided"]
        shell.ip.user_ns["other"] = ScriptedModel(["task.success(8)"] * 3)
        assert shell.run("%agent resume --model other").result.result == 8
