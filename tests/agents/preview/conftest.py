"""A state to preview on, which every test leaves as clean as it found it, and a process that can be forked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.session import Versioned
from tests.agents.preview.seen import open_files
from tests.agents.races import children


@pytest.fixture(params=["folder", "memory"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Versioned]:
    ak.Agent(model=ak.ScriptedModel(["task.success()"]), state={})(
        "Begin"
    )  # the loops of models have files of their own
    before = children()
    place = ak.open(tmp_path / "store" if request.param == "folder" else "memory:")
    with place, Versioned(place) as state:
        state["rows"] = [3, 1, 2]
        state.commit("start")
        files = open_files()
        yield state
        left = {name for name in state.repo.branches() if name != "main"}
        assert not left
        assert set(state.repo.heads()) == {"", state.session.id}
        assert open_files() <= files
    assert children() == before


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest) -> None:
    if "refused" not in request.node.name:
        request.getfixturevalue("safe_forks")
