"""A step that is tried on a fork of a notebook's process, or in a fresh one, has its magics, and what it shows stays text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_kernel as ak
from tests.magics.shells import Shell


@pytest.fixture(params=["forked", "fresh"])
def shell(
    request: pytest.FixtureRequest, tmp_path: Path, safe_forks: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shell]:
    if request.param == "fresh":  # where a fork is not safe
        monkeypatch.setattr("agent_kernel.agents.preview.fork_refusal", lambda: "polars is loaded")
    with Shell(store=str(tmp_path / "store")) as shell:
        yield shell


def test_magics_work_and_displays_are_text(shell: Shell) -> None:
    shell.run("rows = [3, 1, 2]")
    seen = ak.preview("from IPython.display import display\ndisplay(rows)\n%time rows.sort()\nrows", ak.here())
    assert seen.status == "ok", seen.text
    assert seen.text.startswith("[3, 1, 2]\n")
    assert "Wall time" in seen.text
    assert seen.text.endswith("[1, 2, 3]\n")
    assert shell.ns["rows"] == [3, 1, 2]
    seen.accept()
    assert shell.ns["rows"] == [1, 2, 3]


def test_a_preview_within_a_cell_is_no_part_of_the_cell(shell: Shell) -> None:
    shell.run("import agent_kernel as ak\nrows = [3, 1, 2]")
    typed = shell.run("before = 1\nak.preview('rows.sort()', ak.here()).accept()\nafter = rows[0]")
    assert typed.result.success, typed.err
    assert (shell.ns["rows"], shell.ns["after"]) == ([1, 2, 3], 1)
    assert [name for name in ak.here().session.repo.branches() if name != "main"] == []  # type: ignore[union-attr]
    last = shell.log("-n 1")[0]
    assert {change["name"] for change in last["changed"]} == {"after"}


def test_one_undo_takes_back_a_cell_with_the_preview_that_it_accepted(shell: Shell) -> None:
    shell.run("import agent_kernel as ak; x = 0")
    shell.run("seen = ak.preview('x = 9', ak.here()); seen.accept(); y = 3")
    assert (shell.ns["x"], shell.ns["y"]) == (9, 3)
    assert "and the preview that it took" in shell.run("%agent undo").out
    assert (shell.ns["x"], "y" in shell.ns) == (0, False)


def test_code_that_awaits_has_an_event_loop_of_its_own(shell: Shell) -> None:
    code = "import asyncio\nt = asyncio.ensure_future(asyncio.sleep(0, 5))\nx = await t\ndel t\nawait asyncio.sleep(0, x + 1)"
    seen = ak.preview(code, ak.here())
    assert (seen.status, seen.text) == ("ok", "6\n"), seen.text
    seen.accept()
    assert shell.ns["x"] == 5


def test_code_that_awaits_works_where_a_loop_runs_already_and_ends_at_the_deadline(shell: Shell) -> None:
    async def within_a_loop() -> tuple[ak.Preview, ak.Preview]:
        quick = ak.preview("import asyncio\ny = await asyncio.sleep(0, 7)", ak.here())
        return quick, ak.preview("import asyncio\nawait asyncio.sleep(60)", ak.here(), deadline_s=0.3)

    quick, slow = asyncio.run(within_a_loop())
    assert (quick.status, slow.status) == ("ok", "timeout")
    assert {one.name for one in quick.changed} == {"asyncio", "y"}
    quick.reject()


def test_undo_names_the_agent_of_a_run_whose_step_was_taken_on_from_a_fork(shell: Shell) -> None:
    shell.run("import agent_kernel as ak; x = 0")
    shell.run("model = ak.ScriptedModel(['x = 1', 'task.success(x)'])")
    shell.run("%%agent pv --preview --model model\nMake x one please.")
    shell.run("%agent approve")
    assert "Undone the run of pv (" in shell.run("%agent undo").out


def test_what_a_previewed_run_did_is_its_agents_and_its_undo_is_the_persons(shell: Shell) -> None:
    shell.run("import agent_kernel as ak; x = 0")
    shell.run("model = ak.ScriptedModel(['x = 1', 'task.success(x)'])")
    shell.run("%%agent pv --preview --model model\nMake x one please.")
    shell.run("other = 3")
    shell.run("%agent approve")
    assert (shell.ns["x"], shell.ns["other"]) == (1, 3)
    me = shell.extension.notebook.session.author.name  # type: ignore[union-attr]
    accepted = shell.log()[0]
    assert (accepted["author"]["name"], accepted["message"]) == ("pv", "apply step 1 of pv as previewed")
    for verb in ("undo", "redo"):
        shell.run(f"%agent {verb}")
        reversed_ = shell.log()[0]
        assert reversed_["message"].startswith(f"{verb} of the run of pv (")
        assert reversed_["author"]["name"] == me
