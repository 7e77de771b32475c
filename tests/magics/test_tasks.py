"""Tasks for agents in a real shell: they run in its namespace, and each step is a commit."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from agent_kernel.agents import FunctionModel
from tests.magics.shells import Shell
from tests.magics.tasks import runs, use


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
    typed = shell.run("%%agent analyst\noders head twice")
    assert "%%agent --task" in typed.out + typed.err
    assert not runs(shell)


def test_a_bare_name_that_is_not_known_is_no_task_until_it_is_said_to_be_one(shell: Shell) -> None:
    use(shell, "task.success()")
    typed = shell.run("%%agent analyst\nSummarise")
    assert "%%agent --task" in typed.err
    assert "%%agent --py" in typed.err
    assert not typed.result.success
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


@pytest.mark.parametrize("state", ["none", "live", "notebook"])
def test_what_the_code_shows_appears_under_the_cell_wherever_the_task_acts(shell: Shell, state: str) -> None:
    use(shell, "print(1 + 1)\n41 + 1", "nothing_of_this_name", "task.success()")
    where = "" if state == "notebook" else f" --state {state}"
    shown = shell.run(f"%%agent analyst{where}\nShow something please.").out
    assert re.search(r"^2\n(Out\[\d+\]: )?42$", shown, re.MULTILINE)
    assert re.search(r"NameError\S*: name 'nothing_of_this_name' is not defined", shown)


def test_a_step_awaits_at_its_top_level_also_where_a_loop_runs_already(shell: Shell) -> None:
    use(shell, "import asyncio\nx = await asyncio.sleep(0, 5)", "task.success(x)")

    async def as_a_kernel_does() -> object:
        ran = shell.run("%%agent analyst\nWait for it please.")
        assert asyncio.current_task() is not None
        return ran.result.result

    assert asyncio.run(as_a_kernel_does()) == 5
    assert shell.run("%%agent analyst\nWait for it please.").result.result == 5


def test_the_steps_have_the_number_of_their_cell(shell: Shell) -> None:
    use(shell, "x = 1", "task.success()")
    typed = shell.run("%%agent analyst\nMake an x please.")
    assert shell.log()[0]["cell"]["number"] == typed.result.execution_count


LOOPS = {
    "a loop": "while True: pass",
    "one that catches all": "import time\nwhile True:\n    try: time.sleep(0.05)\n    except BaseException: pass",
    "a coroutine that catches all": "import asyncio\nasync def work():\n    while True:\n        try: await asyncio.sleep(0.05)\n        except BaseException: pass\nawait work()",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_cell_ends_about_a_second_after_its_limit_with_plain_lines_and_can_be_resumed(
    shell: Shell, loop: str
) -> None:
    use(shell, "kept = 1", LOOPS[loop], "task.success(kept)")
    began = time.monotonic()
    typed = shell.run("%%agent analyst --seconds 1\nWork on it please.")
    assert time.monotonic() - began < 1 + 2.5
    assert "Traceback" not in typed.out + typed.err
    assert "(limit: 1 s)" in typed.out + typed.err
    assert shell.ns["kept"] == 1
    assert shell.run("%agent resume").out.rstrip().endswith(": 1")
    # What was left takes no turns from cells that await.
    began = time.monotonic()
    assert shell.run("import asyncio\nawait asyncio.sleep(0.01, 'done')").result.result == "done"
    assert time.monotonic() - began < 2.5
