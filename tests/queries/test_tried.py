"""The question about a step that was tried on a fork: what it did there, what was before, and what accepting takes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.agents.agent import open_context, start_run
from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.events import ApprovalRequested
from agent_kernel.commands.agents import Question
from agent_kernel.queries.agents import keeps, note_of, represent_card
from tests.queries.histories import Notebook, notebook

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.fixture
def nb(safe_forks: None) -> Iterator[Notebook]:
    with notebook() as made:
        yield made


def give(nb: Notebook, *turns: str) -> ak.Run[object]:
    agent = ak.Agent("analyst", model=ak.ScriptedModel(turns, name="analyst"), approve="risky")
    run: ak.Run[object] = start_run(agent, "Keep the dear ones", open_context(nb.session), can_ask=True, preview=True)
    for _ in run:
        pass
    return run


def test_it_says_what_it_changed_from_what_it_showed_and_that_accepting_does_not_run_it_again(nb: Notebook) -> None:
    nb.run("n = 1\ndf = [1, 2, 3]\nold = 1")
    run = give(nb, "n = 2\ndf = df[1:]\ndel old\nprint('one')\nprint('two')", "task.success(len(df))")
    told: dict[str, Any] = nb.ask("run", id=run.id)
    asks = told["asks"]
    assert [tuple(one) for one in asks["tried"]] == [
        ("Changed", "~", "df list of 3 int, [1, 2, 3] → list of 2 int, [2, 3]", "on a fork"),
        ("Changed", "~", "n int 1 → 2", "on a fork"),
        ("Changed", "-", "old", "on a fork"),
        ("Showed", "", "one", "2 lines"),
    ]
    assert asks["keeps"]
    assert asks["note"].startswith(
        "It ran to its end in a separate process. Accepting brings its changes here without running it again"
    )
    faces = represent_card(told, 1)
    for face in faces.values():
        assert "analyst tried step 1 beforehand" in face
        assert "→ list of 2 int" in face
        assert "without running it again" in face
    for _ in run.approve():
        pass


def test_a_step_that_ends_the_run_shows_its_result_before_it_is_accepted(nb: Notebook) -> None:
    nb.run("df = [1, 2, 3]")
    run = give(nb, "task.success(len(df))")
    asks = nb.ask("run", id=run.id)["asks"]
    assert [tuple(one) for one in asks["tried"]] == [("Returned", "", "int 3", "ends the run")]
    listed = Question.of(tuple(EventStore(nb.repo.store).of(run.id)))
    assert listed is not None
    assert listed.findings[-1] == "ended the run on a fork (success): int 3"
    for _ in run.approve():
        pass
    assert run.outcome.value == 3


def test_a_step_that_failed_beforehand_says_why(nb: Notebook) -> None:
    nb.run("df = [1, 2, 3]")
    run = give(nb, "p = xs[0]")
    tried = nb.ask("run", id=run.id)["asks"]["tried"]
    assert ("Failed", "", "NameError: name 'xs' is not defined", "on a fork") in [tuple(one) for one in tried]


def test_where_the_code_would_run_again_it_says_so_and_nothing_is_called_accepting() -> None:
    again = ApprovalRequested(
        run="r", agent="a", preview="ok", branch="", told="lock cannot be saved: approving runs the code again"
    )
    assert not keeps(again)
    assert note_of(again).startswith(
        "It ran to its end in a separate process. Lock cannot be saved: approving runs the code again. This is what"
    )
    refused = ApprovalRequested(run="r", agent="a", preview="refused", told="jax is loaded")
    assert note_of(refused).startswith("Not tried. Jax is loaded. This is what the code shows")


def test_a_step_that_was_stopped_as_it_ran_says_what_it_was_about_to_do(nb: Notebook, tmp_path: Path) -> None:
    (tmp_path / "dear").write_text("x")
    nb.run(f"import pathlib\nplace = pathlib.Path({str(tmp_path / 'dear')!r})")
    turns = ("[act() for act in [getattr(place, ''.join(['un', 'link']))]]", "task.success()")
    agent = ak.Agent("analyst", model=ak.ScriptedModel(turns, name="analyst"), approve="risky")
    run: ak.Run[object] = start_run(agent, "Tidy up", open_context(nb.session), can_ask=True)
    for _ in run:
        pass
    asks = nb.ask("run", id=run.id)["asks"]
    (first,) = [row for row in asks["report"] if row["risky"]]
    assert first["word"] == "Deletes"
    assert first["items"] == [f"deletes {tmp_path / 'dear'}"]
    assert asks["note"].startswith("It was stopped before this happened, and its variables were taken back")
    listed = Question.of(tuple(EventStore(nb.repo.store).of(run.id)))
    assert listed is not None
    assert f"files: deletes {tmp_path / 'dear'}" in listed.findings
    assert (tmp_path / "dear").exists()
