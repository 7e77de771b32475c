"""Agents and models that the variables of a notebook hold."""

from __future__ import annotations

from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.agents import FunctionModel
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
