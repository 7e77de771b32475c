"""Agents and models that the variables of a notebook hold."""

from __future__ import annotations

from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.agents import FunctionModel
from agent_kernel.agents.events import TaskStart
from tests.magics.shells import Shell


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


def test_an_agent_that_was_given_a_part_of_a_module_is_saved_with_it(tmp_path: Path) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("import agent_kernel as ak, statistics")
        shell.run("m = ak.ScriptedModel(['task.success(statistics.median([1, 2, 9]))'] * 2)")
        said = shell.run("ada = ak.Agent('ada', model=m, state=ak.here()); ada.module(statistics, include=['median'])")
        assert "not saved" not in said.out + said.err
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("%agent checkout")
        assert shell.run("ada('Find the one in the middle')").result.result == 2


TEAM = """
import agent_kernel as ak
scout = ak.Agent("scout", model=ak.ScriptedModel(["task.success(n + 1)"], name="scout"))
@scout.task
def look_up(n: int) -> int:
    '''Find the number after it.'''
def double(n):
    return 2 * n
m = ak.ScriptedModel(["y = double(look_up(3))", "task.success(y)"], name="m")
analyst = ak.Agent("analyst", model=m, primer="You count.", approve="never", limits=ak.Limits(steps=7))
analyst.fn(double)
_ = analyst.fn(look_up)
"""


def begun(shell: Shell, task: str = "Count on from three.", options: str = "") -> TaskStart:
    typed = shell.run(f"%%agent analyst {options}\n{task}")
    assert typed.result.success, typed.err
    event_store = shell.extension.notebook.tasks.open_context().event_store
    return next(start for run in reversed(event_store.runs()) if (start := event_store.first(run)).agent == "analyst")


def test_a_cell_means_the_agent_that_the_notebook_holds_under_its_name(shell: Shell) -> None:
    shell.run(TEAM)
    start = begun(shell)
    assert shell.ns["y"] == 8
    assert "You count." in start.instructions
    assert "double" in start.instructions
    assert (start.approve, start.limits["steps"], start.model) == ("never", 7, "scripted:m")


def test_what_the_cell_says_goes_before_what_the_agent_has(shell: Shell) -> None:
    shell.run(TEAM)
    shell.run("other = ak.ScriptedModel(['task.success(1)'], name='other')")
    options = "--approve auto --steps 3 --seconds 40.5 --tokens 900 --model other"
    start = begun(shell, options=options)
    limits = {name: start.limits[name] for name in ("steps", "run_s", "tokens", "cost")}
    assert (start.approve, start.model) == ("auto", "other")
    assert limits == {"steps": 3, "run_s": 40.5, "tokens": 900, "cost": None}


def test_an_agent_is_found_by_what_it_is_called_and_two_that_are_called_alike_are_told_apart(shell: Shell) -> None:
    shell.run(TEAM)
    shell.run("first = analyst\ndel analyst")
    assert begun(shell).limits["steps"] == 7
    shell.run("second = ak.Agent('analyst', model=m)")
    refused = shell.run("%%agent analyst\nCount on from three.")
    assert "first and second hold different agents called analyst: put the variable's name after %%agent" in refused.err
    assert shell.run("%%agent second --steps 1\nCount on from three.").result.error_in_exec is not None


def test_a_run_that_waits_goes_on_with_what_the_agent_was_given(shell: Shell) -> None:
    shell.run(TEAM)
    shell.run("%%agent analyst --approve always\nCount on from three.")
    shell.extension.notebook.tasks.runs.clear()  # as after a restart
    shell.run("%agent approve")
    assert shell.ns["y"] == 8


def test_without_one_a_name_is_a_bare_agents(shell: Shell) -> None:
    shell.run("import agent_kernel as ak\nm = ak.ScriptedModel(['task.success(1)'], name='m')")
    start = begun(shell, options="--model m")
    assert (start.approve, start.limits["steps"]) == ("risky", 20)


@pytest.mark.parametrize(
    ("chosen", "options", "acts"),
    [("", "", "risky"), (", approve='auto'", "", "auto"), (", approve='auto'", "--approve risky", "risky")],
)
def test_an_agent_without_an_approval_of_its_own_asks_about_risky_steps_in_a_cell(
    shell: Shell, chosen: str, options: str, acts: str
) -> None:
    shell.run("import agent_kernel as ak\nm = ak.ScriptedModel(['task.success(1)'], name='m')")
    shell.run(f"analyst = ak.Agent('analyst', model=m{chosen})")
    assert begun(shell, options=options).approve == acts


def test_from_python_an_agent_without_an_approval_of_its_own_asks_nobody(shell: Shell) -> None:
    shell.run("import agent_kernel as ak\nm = ak.ScriptedModel(['task.success(1)'], name='m')")
    shell.run("analyst = ak.Agent('analyst', model=m, state=ak.here())\nrun = analyst.start('Count on from three.')")
    event_store = shell.extension.notebook.tasks.open_context().event_store
    assert event_store.first(shell.ns["run"].id).approve == "auto"
