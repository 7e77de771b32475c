"""Names that are hidden from agents are told to none of them, by whatever tool."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.mcp.tools import Steps, Tools
from agent_kernel.session.tracking import HideList


@pytest.fixture
def tools() -> Iterator[Tools]:
    repo = ak.open("memory:")
    state = ak.Versioned(repo)
    state["salaries"] = [1, 2, 3]
    state["names"] = ["a", "b"]
    state.commit("salaries and names")
    state["salaries"] = [4]
    state.commit("more")
    place = ExecutionContext(state.session.namespace, state.session, hidden=lambda name: name == "salaries")
    steps = Steps(lambda: place, agent="visitor", approve="auto", step_s=None, decides="")
    yield Tools(repo, lambda: place, steps)
    state.close()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_variables", {}),
        ("list_variables", {"ref": "HEAD~1"}),
        ("history", {}),
        ("show", {}),
        ("diff", {}),
        ("run_python", {"code": "salaries.append(5)"}),
        ("undo", {}),
    ],
)
def test_no_tool_tells_a_hidden_name(tools: Tools, tool: str, arguments: dict[str, object]) -> None:
    told = tools.call(tool, arguments)
    assert not told.failed
    assert "salaries" not in told.text


def test_a_hidden_variable_is_as_good_as_absent(tools: Tools) -> None:
    told = tools.call("preview", {"name": "salaries"})
    assert told.failed
    assert "[4]" not in told.text
    assert "names" in tools.call("list_variables", {}).text


def test_a_tool_that_there_is_not_is_told_apart(tools: Tools) -> None:
    told = tools.call("remove_everything", {})
    assert told.failed
    assert "run_python" in told.text


def test_what_the_store_says_of_hidden_names_counts_before_anything_is_loaded() -> None:
    repo = ak.open("memory:")
    with ak.Versioned(repo) as state:
        state["salaries"] = [1, 2, 3]
        state["names"] = ["a", "b"]
        state.commit("salaries and names")
    steps = Steps(lambda: pytest.fail("it was loaded"), agent="visitor", approve="auto", step_s=None, decides="")
    tools = Tools(repo, lambda: None, steps)
    assert "salaries" in tools.call("list_variables", {}).text
    HideList(repo).add("salaries")
    for tool in ("list_variables", "show", "history", "diff"):
        assert "salaries" not in tools.call(tool, {}).text
    assert tools.call("preview", {"name": "salaries"}).failed


@pytest.mark.parametrize("ref", ["HEAD", "HEAD~0"])
def test_a_variable_that_is_not_saved_is_listed_as_that_and_without_a_size(ref: str) -> None:
    repo = ak.open("memory:")
    with ak.Versioned(repo) as state, Path(os.devnull).open() as log:
        state["log"] = log
        state.commit("a log")
        place = ExecutionContext(state.session.namespace, state.session)
        steps = Steps(lambda: place, agent="visitor", approve="auto", step_s=None, decides="")
        (line,) = Tools(repo, lambda: place, steps).call("list_variables", {"ref": ref}).text.splitlines()
    assert line == f"log: _io.TextIOWrapper (not saved: an open file on {os.devnull} cannot be saved)"
