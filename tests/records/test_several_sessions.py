"""Which of several sessions of a process records go with: no change of one line of history lands in another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import agent_kernel as ak

CODE = """
import agent_kernel as ak

class Note(ak.Record):
    text: str = ""

notes = ak.open({path!r}).records(Note)
notes.put(Note(id={id!r}))
done = True
"""


class Note(ak.Record):
    text: str = ""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.fixture
def pair(path: str) -> Iterator[tuple[ak.Namespace, ak.Namespace]]:
    """Two of one store, as a program has them for two agents: on main, and on main-2."""
    with ak.Namespace(path) as one, ak.Namespace(path) as other:
        one.run("x = 1")
        other.run("x = 2")
        assert [ns.session.branch for ns in (one, other)] == ["main", "main-2"]
        yield one, other


@pytest.mark.parametrize("turn", [0, 1])
def test_what_code_changes_goes_with_the_namespace_that_runs_it(
    path: str, pair: tuple[ak.Namespace, ak.Namespace], turn: int
) -> None:
    mine, other = pair[turn], pair[1 - turn]
    mine.run(CODE.format(path=path, id="a"))
    for ns, has_it in ((mine, True), (other, False)):
        assert ("a" in ns.repo.records(Note, branch=ns.session.branch)) is has_it
        assert ("a" in ns.repo.records(Note)) is has_it  # what is asked of its own repository
    mine.undo()  # one commit, with the variables
    assert "done" not in mine
    assert "a" not in mine.repo.records(Note)


def test_a_repository_leads_to_the_session_that_was_made_of_it(pair: tuple[ak.Namespace, ak.Namespace]) -> None:
    for ns, id in zip(pair, "ab", strict=True):
        ns.repo.records(Note).put(Note(id=id))
    assert [list(ns.repo.records(Note)) for ns in pair] == [["a"], ["b"]]


def test_an_agents_step_within_a_cell_has_records_of_its_own(path: str) -> None:
    """A sub-agent works on a branch of its own, of the same repository."""
    author = ak.Author(kind="agent", name="helper")
    with ak.open(path) as repo:
        cells, steps = ak.bind({}, repo), None
        notes, seen = repo.records(Note), list[Any]()
        cells.begin_cell("notes.put(…)")
        notes.put(Note(id="cell"))
        steps = ak.bind({}, repo, branch="main-2")
        notes.put(Note(id="still the cell"))
        steps.begin_step("notes.put(…)", author=author, run="", step=1)
        notes.put(Note(id="step"))
        other_thread = Thread(target=lambda: seen.extend(notes))  # it runs no code of them: the first session
        other_thread.start()
        other_thread.join()
        steps.end_step()
        notes.put(Note(id="the cell again"))
        cells.end_cell()
        assert list(repo.records(Note, branch="main")) == ["cell", "still the cell", "the cell again"]
        assert list(repo.records(Note, branch="main-2")) == ["step"]
        assert seen == ["cell", "still the cell"]
        steps.close()
        cells.close()


def test_of_sessions_that_run_nothing_it_is_the_first(path: str) -> None:
    with ak.open(path) as repo:
        first = ak.bind({"x": 1}, repo)
        first.commit("one")
        for number in range(20):
            repo.create_branch(f"b{number}")
        others = [ak.bind({}, repo, branch=f"b{number}") for number in range(20)]
        repo.records(Note).put(Note(id="a"))
        assert [branch for branch in repo.branches() if "a" in repo.records(Note, branch=branch)] == ["main"]
        for session in (*others, first):
            session.close()
