"""`%%agent` in a real shell: a plain cell in every way, but for the author of its commit."""

from __future__ import annotations

import pytest

from tests.magics.shells import Shell


def test_the_author_of_the_commit_is_the_agent(shell: Shell) -> None:
    shell.run("%%agent analyst\nx = 1")
    shell.run("%%agent\ny = 1")
    shell.run("z = 1")
    authors = [(commit["author"]["name"], commit["author"]["kind"]) for commit in shell.log("-n 3")]
    assert authors[1:] == [("agent", "agent"), ("analyst", "agent")]
    assert authors[0][1] == "person"
    assert "[1] analyst: x = 1" in shell.run("%agent log").out


def test_the_last_expression_is_the_cells_value(shell: Shell) -> None:
    assert shell.run("%%agent\nx = 41\nx + 1").result.result == 42


def test_await_works_at_the_top_level(shell: Shell) -> None:
    shell.run("import asyncio")
    typed = shell.run("%%agent\nx = await asyncio.sleep(0, 'done')")
    assert typed.result.success, typed.err
    assert shell.ns["x"] == "done"


def test_a_traceback_names_the_line_of_the_cell(shell: Shell) -> None:
    typed = shell.run("%%agent\nx = 1\n\n1 / 0")
    error = typed.result.error_in_exec
    assert error is not None
    assert error.__traceback__ is not None
    at = error.__traceback__
    while at.tb_next is not None:
        at = at.tb_next
    assert at.tb_lineno == 4


def test_magics_work_inside(shell: Shell) -> None:
    assert "Wall time" in shell.run("%%agent\n%time x = 1").out
    assert "Wall time" in shell.run("%%agent analyst\n%%time\ny = 1").out
    assert (shell.ns["x"], shell.ns["y"]) == (1, 1)
    assert shell.log("-n 1")[0]["author"]["name"] == "analyst"


def test_words_are_a_task_and_where_no_model_is_named_a_line_says_how_to_name_one(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENT_KERNEL_MODEL", raising=False)
    typed = shell.run("%%agent analyst\nDrop the outliers and fit a model of price. Leave it in `model`.")
    assert "no model is named: %agent model openai:NAME" in typed.err
    assert "Traceback" not in typed.err
    assert len(typed.err.strip().splitlines()) == 1
    assert not [commit for commit in shell.log() if commit["cell"]]  # nothing ran


def test_a_mistake_in_code_shows_as_in_a_plain_cell(shell: Shell) -> None:
    assert "SyntaxError" in shell.run("%%agent\nx = = 1").out
    assert "SyntaxError" in shell.run("%%agent --py\nDrop the outliers").out


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%agent a..b\nx = 1", "cannot name"),
        ("%%agent --wrong\nx = 1", "--wrong"),
        ("%%agent analyst\n", "empty"),
    ],
)
def test_a_wrong_header_runs_nothing(shell: Shell, cell: str, said: str) -> None:
    typed = shell.run(cell)
    assert said in typed.err
    assert "x" not in shell.ns


@pytest.mark.parametrize(
    "cell", ["%%agent", "%%agent --help", "%%agent analyst\n%agent log -n 1", "%%agent a b\nx = 1"]
)
def test_a_cell_in_which_nothing_ran_is_no_commit(shell: Shell, cell: str) -> None:
    shell.run("x = 0")
    before = shell.log()
    typed = shell.run(cell)
    assert "%%agent [-h] [--py | --task]" in typed.out + typed.err or "[1] x = 0" in typed.out
    assert shell.log() == before


def test_in_a_terminal_a_cell_of_an_agent_ends_with_an_empty_line_as_every_cell_magic(shell: Shell) -> None:
    whole = shell.ip.check_complete
    assert whole("%%agent analyst")[0] == "incomplete"
    assert whole("%%agent analyst\nx = 1\n")[0] == "incomplete"
    assert whole("%%agent analyst\nx = 1\n\n") == whole("%%time\nx = 1\n\n")
    assert whole("%%agent analyst\nx = 1\n\n")[0] == "complete"


def test_a_program_may_run_one(shell: Shell) -> None:
    shell.ip.run_cell_magic("agent", "analyst", "x = 1\n")
    assert shell.log("-n 1")[0]["author"]["name"] == "analyst"


def test_the_magic_is_listed_and_explained(shell: Shell) -> None:
    assert "agent" in shell.ip.magics_manager.magics["cell"]
    assert "%%agent [NAME]" in (shell.ip.find_cell_magic("agent").__doc__ or "")
