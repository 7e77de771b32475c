"""Which cells are run again."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from agent_kernel.commands.scope import UsageProblem
from agent_kernel.reproduction.line import Line, read_document, read_line
from agent_kernel.session import Repository
from tests.reproduction.histories import make_history, reproduced, write_notebook


def line_of(place: Path, ref: str | None = None) -> Line:
    with closing(Repository.open(place, create=False)) as repo:
        return read_line(repo, ref)


def sources(line: Line) -> list[str]:
    return [cell.source for cell in line.run]


def test_the_line_has_every_run_of_a_cell_in_its_order(tmp_path: Path) -> None:
    make_history(tmp_path / "s", "x = 1", "y = x", "x = 2", "y = x")
    assert sources(line_of(tmp_path / "s")) == ["x = 1", "y = x", "x = 2", "y = x"]


def test_what_a_rollback_left_behind_is_not_run(tmp_path: Path) -> None:
    make_history(tmp_path / "s", "x = 1", "%agent tag good", "x = 2", "%agent rollback good", "y = x")
    assert sources(line_of(tmp_path / "s")) == ["x = 1", "y = x"]


def test_what_was_undone_is_not_run_and_what_was_redone_is(tmp_path: Path) -> None:
    make_history(tmp_path / "s", "x = 1", "x = 2", "%agent undo", "y = x")
    assert sources(line_of(tmp_path / "s")) == ["x = 1", "y = x"]
    make_history(tmp_path / "t", "x = 1", "x = 2", "%agent undo", "%agent redo", "y = x")
    assert sources(line_of(tmp_path / "t")) == ["x = 1", "x = 2", "y = x"]


def test_a_ref_names_the_end_of_the_line(tmp_path: Path) -> None:
    make_history(tmp_path / "s", "x = 1", "%agent tag half", "x = 2")
    assert sources(line_of(tmp_path / "s", "half")) == ["x = 1"]


def test_a_cell_that_failed_and_changed_nothing_is_skipped(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "x = 1", "1 / 0", "y = 2; raise ValueError('after')")
    assert [cell.is_run for cell in found.cells] == [True, False, True]
    assert found.cells[1].note == "not run: it failed, and changed nothing"
    assert found.ok  # the last one fails as it did
    assert found.all_notes[0] == "Not run again, since they changed nothing when they failed: cell 2."


def test_where_no_cell_was_run_nothing_is_reproduced(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "1 / 0", "raise ValueError")
    assert not found.ok
    assert found.all_notes[0] == "Nothing is reproduced: no cell was run."
    assert "Nothing is reproduced: no cell was run." in found.to_text().splitlines()


def test_where_no_cell_can_be_compared_nothing_is_reproduced(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "rows = (n for n in range(3))")
    assert not found.ok
    assert found.all_notes[0] == "Nothing is reproduced: no cell can be compared."


def test_what_a_merge_brought_is_told(tmp_path: Path) -> None:
    make_history(
        tmp_path / "s",
        "x = 1",
        "%agent switch --create side",
        "made = 2",
        "%agent switch main",
        "y = 1",
        "%agent merge side",
    )
    line = line_of(tmp_path / "s")
    assert sources(line) == ["x = 1", "y = 1"]
    assert line.brought["made"].startswith("a merge (")


WEEKS = "import agent_kernel as ak\nfor week in range(3):\n    days.append(week)\n    ak.here().session.commit(f'week {week}')"


def test_what_a_cell_commits_itself_is_made_again_by_the_cell(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "days = []", WEEKS, "total = sum(days)")
    assert [cell.outcome for cell in found.cells] == ["same", "same", "same"]
    line = line_of(tmp_path / "first")
    assert sources(line) == ["days = []", WEEKS, "total = sum(days)"]
    assert (line.brought, line.all_brought) == ({}, ())


def test_a_branch_from_the_middle_of_a_cell_takes_what_the_cell_committed(tmp_path: Path) -> None:
    make_history(
        tmp_path / "s", "days = []", WEEKS, "%agent branch fork HEAD~2", "%agent switch fork", "total = sum(days)"
    )
    line = line_of(tmp_path / "s")
    assert sources(line) == ["days = []", "total = sum(days)"]
    assert line.brought["days"].startswith("a commit without a cell (")


def test_what_a_command_alone_commits_comes_from_no_cell(tmp_path: Path) -> None:
    make_history(tmp_path / "s", "x = 1", "%agent off", "late = 1", "%agent on", "%agent commit late", "y = late")
    assert line_of(tmp_path / "s").brought["late"].startswith("a commit without a cell (")


def test_a_step_of_an_agent_that_a_cell_runs_is_not_run_by_itself(tmp_path: Path) -> None:
    agent = "import agent_kernel as ak\nmodel = ak.ScriptedModel(['rows.append(1)', 'task.success(len(rows))'])"
    run = "made = ak.Agent('helper', model=model, state=ak.here())('add a row')"
    found = reproduced(tmp_path, "rows = []", agent, run)
    assert found.ok
    notes = [cell.note for cell in found.cells if not cell.is_run]
    assert notes == ["not run: the agent that took this step is run again by cell [3]"] * 2
    line = line_of(tmp_path / "first")
    assert sources(line) == ["rows = []", agent, run]


def test_the_steps_of_a_cell_with_a_task_are_run_by_themselves(tmp_path: Path) -> None:
    script = "script = ['rows.append(1)', 'task.success(len(rows))']"
    make_history(tmp_path / "s", "rows = []", script, "%%agent helper --model script\nadd a row to the rows")
    assert sources(line_of(tmp_path / "s"))[2:] == ["rows.append(1)", "task.success(len(rows))"]


def test_the_python_of_an_agents_cell_is_run_without_its_header(tmp_path: Path) -> None:
    make_history(tmp_path / "s", "%%agent helper\nx = 1")
    assert sources(line_of(tmp_path / "s")) == ["x = 1"]


def test_an_empty_history_has_nothing_to_reproduce(tmp_path: Path) -> None:
    with closing(Repository.open(tmp_path / "s")) as repo, pytest.raises(UsageProblem, match="no commit yet"):
        read_line(repo, None)


def test_a_document_has_its_code_cells_and_what_they_showed(tmp_path: Path) -> None:
    text = {"source": ["x = 1\n", "x"], "outputs": [{"output_type": "stream", "name": "stdout", "text": ["a\n", "b"]}]}
    markdown = {"cell_type": "markdown", "source": "# Title"}
    line = read_document(write_notebook(tmp_path / "n.ipynb", markdown, text, ""))
    assert sources(line) == ["x = 1\nx"]
    assert line.cells[0].saved is not None
    assert line.cells[0].saved[0].text == "a\nb"


@pytest.mark.parametrize("content", ["", "[]", '{"cells": 3}', "\x00"])
def test_a_file_that_is_no_notebook_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "n.ipynb").write_text(content)
    with pytest.raises(UsageProblem, match=r"n\.ipynb"):
        read_document(tmp_path / "n.ipynb")


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"name": "julia-1.9", "language": "julia"}},
        {"language_info": {"name": "R"}},
        {"kernelspec": {"name": "ir"}},
    ],
)
def test_a_notebook_of_another_language_is_rejected(tmp_path: Path, metadata: dict[str, object]) -> None:
    path = write_notebook(tmp_path / "n.ipynb", "x = 1")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"metadata": metadata}))
    with pytest.raises(UsageProblem, match="only Python can be run again"):
        read_document(path)


@pytest.mark.parametrize(
    "metadata", [{}, 3, {"kernelspec": 5}, {"language_info": {"name": "python"}}, {"language_info": []}]
)
@pytest.mark.parametrize("outputs", [5, None, {"a": 1}, [3], [{"data": 4}]])
def test_a_file_with_odd_parts_is_read_without_them(tmp_path: Path, metadata: object, outputs: object) -> None:
    path = write_notebook(tmp_path / "n.ipynb", {"source": "x = 1", "outputs": outputs})
    path.write_text(json.dumps(json.loads(path.read_text()) | {"metadata": metadata}))
    assert sources(read_document(path)) == ["x = 1"]


def test_cells_of_commands_alone_are_no_part_of_a_document(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "n.ipynb", "%load_ext agent_kernel", "x = 1", "# save\n%agent export a.agentnb")
    assert sources(read_document(path)) == ["x = 1"]
