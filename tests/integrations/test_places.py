"""A branch that is named is one that is there: a misspelt name is an error in each integration, and makes no branch."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.integrations import open_on
from tests.integrations.foreign import needs


def test_a_branch_that_is_there_or_about_to_be_is_taken(repo: ak.Repository, tmp_path: Path) -> None:
    assert open_on(repo, "main", "branch") is repo  # it has no commit yet
    assert open_on(repo, None, "store") is repo
    with ak.Versioned(repo) as state:
        state["x"] = 1
        state.commit("one")
    repo.create_branch("idea", repo.resolve("HEAD"))
    assert open_on(repo, "idea", "branch", "store") is repo
    for given in (repo, tmp_path / "store"):
        with pytest.raises(ak.RefNotFoundError, match="idae"):
            open_on(given, "idae", "branch")
        with pytest.raises(ValueError, match="lies beside all branches, and branch 'idea' was named"):
            open_on(given, "idea", "store")
    assert set(repo.branches()) == {"main", "idea"}


@pytest.mark.parametrize(
    ("package", "module", "name", "first"),
    [
        ("agenticaiframework.state", "agenticai", "AgentKernelBackend", ()),
        ("agentscope.app", "agentscope", "AgentKernelStorage", ()),
        ("pydantic", "agentscope_v1", "AgentKernelSession", ()),
        ("agno.db", "agno", "AgentKernelDb", ()),
        ("langgraph.graph", "langgraph", "AgentKernelSaver", ()),
        ("agents.memory", "openai_agents", "AgentKernelSession", ("talk",)),
        ("agents.memory", "openai_agents", "AdvancedAgentKernelSession", ("talk",)),
        ("pydantic_ai_harness", "pydantic_ai", "AgentKernelStepStore", ()),
        ("pydantic_ai", "pydantic_ai_history", "AgentKernelHistory", ("talk",)),
    ],
)
def test_no_integration_makes_a_branch_of_a_misspelt_name(
    package: str, module: str, name: str, first: tuple[str, ...], repo: ak.Repository
) -> None:
    needs(package)
    kind = getattr(importlib.import_module(f"agent_kernel.integrations.{module}"), name)
    with pytest.raises(ak.RefNotFoundError, match="idae"):
        kind(*first, repo, branch="idae")
    assert kind(*first, repo, branch="main").repo is repo
    assert "idae" not in repo.branches()
