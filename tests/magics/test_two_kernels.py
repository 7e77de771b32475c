"""A run that waits, and a second kernel of its notebook: nothing of it is decided or goes on where its steps are not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import agent_kernel as ak
from agent_kernel.agents import ScriptedModel
from agent_kernel.agents.approval import decide, log_of
from agent_kernel.agents.event_log import EventStore
from agent_kernel.repository.upkeep import collect
from tests.magics.shells import Shell

FIRST, RISKY = "n = 2", "import os\nos.system('true')\nn += 1"


class Kernels(NamedTuple):
    """The one in which the run waits, and another, which is on a branch of its own."""

    first: Shell
    second: Shell

    @property
    def run(self) -> str:
        """The run that waits."""
        (found,) = self.listed
        return str(found["run"])

    @property
    def listed(self) -> list[Any]:
        found: list[Any] = json.loads(self.second.run("%agent runs --json").out)
        return found

    def give(self, *answers: str) -> None:
        """Let an agent in the first kernel play these answers until something waits."""
        for shell in self:
            shell.ns["_model"] = ScriptedModel(answers, name="_model")
        self.first.run("%%agent analyst --model _model\nCount one further please.")


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[Kernels]:
    with Shell(store=str(tmp_path / "store")) as first:
        first.run("n = 1")
        with Shell(store=str(tmp_path / "store")) as second:
            second.run("%agent checkout")
            yield Kernels(first, second)


ELSEWHERE = "is on branch main and not in the history here, so nothing was done"


@pytest.mark.parametrize("line", ["%agent approve", "%agent edit"])
def test_a_step_is_not_approved_where_the_steps_before_it_are_not(kernels: Kernels, line: str) -> None:
    kernels.give(FIRST, RISKY, "task.success(n)")
    said = kernels.second.run(line).err
    assert f"step 1 of run {kernels.run[-5:]} {ELSEWHERE}" in said
    assert "go on in the notebook that is on main, or %agent merge main brings it here first" in said
    assert kernels.listed[0]["status"] == "pending"
    assert kernels.second.ns["n"] == 1
    kernels.first.run("%agent approve")
    assert kernels.first.ns["n"] == 3


def test_nor_where_its_first_step_waits_and_what_it_began_with_is_not(kernels: Kernels) -> None:
    kernels.first.run("n = 5")
    kernels.give(RISKY, "task.success(n)")
    assert f"the beginning of run {kernels.run[-5:]} {ELSEWHERE}" in kernels.second.run("%agent approve").err
    kernels.first.run("%agent approve")
    assert (kernels.first.ns["n"], kernels.second.ns["n"]) == (6, 1)


def test_a_second_kernel_that_has_those_steps_behind_it_may_approve_and_the_first_is_told_where_the_run_went(
    tmp_path: Path,
) -> None:
    with Shell(store=str(tmp_path / "store")) as first:
        first.ns["_model"] = ScriptedModel([FIRST, RISKY, "task.success(n)"], name="_model")
        first.run("%%agent analyst --model _model\nCount one further please.")
        with Shell(store=str(tmp_path / "store")) as second:
            second.run("%agent checkout")
            second.run("%agent approve")
            assert (first.ns["n"], second.ns["n"]) == (2, 3)
            assert "no run waits for approval; steps 2 and 3 of run" in first.run("%agent approve").err
            assert "on branch main-2 and not in the history here" in first.run("%agent approve").err


def test_code_that_was_edited_there_does_not_run_either(kernels: Kernels) -> None:
    kernels.give(FIRST, RISKY, "task.success(n)")
    typed = kernels.second.run(f"%%agent --edit {kernels.run[-5:]}\nn = 7")
    assert ELSEWHERE in typed.err
    assert kernels.listed[0]["status"] == "pending"


def test_a_denial_is_noted_there_and_the_run_goes_on_where_its_steps_are(kernels: Kernels) -> None:
    kernels.give(FIRST, RISKY, "task.success(n)")
    said = kernels.second.run("%agent deny not now").out
    assert f"Denied. Step 1 of run {kernels.run[-5:]} is on branch main and not in the history here" in said
    assert "%agent resume there lets it go on" in said
    assert kernels.listed[0]["status"] == "decided"
    assert ELSEWHERE in kernels.second.run("%agent resume").err
    kernels.first.run("%agent resume")
    assert (kernels.listed[0]["status"], kernels.first.ns["n"]) == ("completed", 2)


def test_what_was_approved_from_a_command_line_runs_only_where_the_steps_before_it_are(kernels: Kernels) -> None:
    kernels.give(FIRST, RISKY, "task.success(n)")
    event_store: EventStore = kernels.second.extension.notebook.tasks.open_context().event_store
    decide(log_of(event_store, kernels.run), "approve", by="somebody")
    assert ELSEWHERE in kernels.second.run("%agent resume").err
    assert kernels.listed[0]["status"] == "decided"
    kernels.first.run("%agent resume")
    assert kernels.first.ns["n"] == 3


def test_a_run_that_was_stopped_goes_on_where_its_steps_are(kernels: Kernels) -> None:
    kernels.give(FIRST, "task.clarify('Which?')", "task.success(n)")
    assert f"steps 1 and 2 of run {kernels.run[-5:]} are on branch main" in kernels.second.run("%agent resume this").err
    assert kernels.listed[0]["status"] == "clarify"
    kernels.first.run("%agent resume this")
    assert kernels.listed[0]["status"] == "completed"


def test_after_a_merge_the_steps_are_behind_the_state_and_the_run_goes_on_with_them(kernels: Kernels) -> None:
    kernels.give(FIRST, RISKY, "task.success(n)")
    kernels.second.run("%agent merge main")
    typed = kernels.second.run("%agent approve")
    assert "goes on without" not in typed.out
    assert (kernels.second.ns["n"], kernels.first.ns["n"]) == (3, 2)


def test_where_nobody_is_on_the_branch_any_more_going_there_is_offered(kernels: Kernels) -> None:
    kernels.first.run("%agent switch -c try")
    kernels.give(FIRST, RISKY, "task.success(n)")
    kernels.first.run("%agent switch main")
    said = kernels.first.run("%agent approve").err
    assert f"step 1 of run {kernels.run[-5:]} is on branch try and not in the history here" in said
    assert "%agent checkout try goes there" in said
    kernels.first.run("%agent checkout try")
    kernels.first.run("%agent approve")
    assert kernels.first.ns["n"] == 3


def test_what_was_written_without_steps_that_had_been_left_does_not_run_where_they_are_again(kernels: Kernels) -> None:
    kernels.give(FIRST, "task.clarify('Which?')", RISKY, "task.success(n)")
    kernels.first.run("%agent checkout HEAD~2")
    kernels.first.run("n = 500")
    kernels.first.run("%agent resume this")
    kernels.first.run("%agent checkout main")
    said = kernels.first.run("%agent approve").err
    assert f"the state before step 3 of run {kernels.run[-5:]} is on branch main-3 and not in the history here" in said
    assert (kernels.listed[0]["status"], kernels.first.ns["n"]) == ("pending", 2)


def test_after_something_was_forgotten_the_run_goes_on_with_its_steps(kernels: Kernels) -> None:
    kernels.first.run("secret = 5")
    kernels.give(FIRST, RISKY, "task.success(n)")
    kernels.first.run("%agent forget secret --yes")
    assert "goes on without" not in kernels.first.run("%agent approve").out
    assert kernels.first.ns["n"] == 3


def test_where_the_steps_were_collected_nothing_runs(kernels: Kernels) -> None:
    kernels.first.run("%agent switch -c try")
    kernels.give(FIRST, RISKY, "task.success(n)")
    kernels.first.run("%agent switch main")
    kernels.first.run("%agent branch -D try")
    session = kernels.first.extension.notebook.session
    assert session is not None
    collect(session.repo, 0, keep_reflog_s=0)
    said = kernels.first.run("%agent approve").err
    assert f"step 1 of run {kernels.run[-5:]} is gone with commit" in said
    assert (kernels.listed[0]["status"], kernels.first.ns["n"]) == ("pending", 1)


def test_a_program_is_told_so_too(kernels: Kernels) -> None:
    kernels.give(FIRST, RISKY, "task.success(n)")
    session = kernels.second.extension.notebook.session
    agent = ak.Agent("analyst", model=kernels.second.ns["_model"], state=session)
    run: ak.Run[Any] = agent.reopen(kernels.run)
    for answer, words in ((run.approve, ()), (run.edit, ("n = 7",)), (run.deny, ())):
        with pytest.raises(ak.RunElsewhereError, match="is on branch main"):
            _ = answer(*words)
    assert run.status == "pending"
    decide(log_of(run.event_store, run.id), "approve", by="somebody")
    with pytest.raises(ak.RunElsewhereError, match="is on branch main"):
        agent.reopen(kernels.run).result()
    assert kernels.second.ns["n"] == 1
