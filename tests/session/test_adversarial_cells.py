"""No change is missed, however the cell makes it; and going back over it, and forward again, is exact."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from agent_kernel.repository import ObjectId
from agent_kernel.session.workspace import Detector
from tests.session.adversarial import CASES, HELPER_MODULE, Case, Found
from tests.support.notebooks import Notebook
from tests.support.shells import ShellNotebook

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own, and coroutines that nobody awaits
each_case = pytest.mark.parametrize("case", [pytest.param(case, id=case.title) for case in CASES])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, with a module and a script; what cells leave in libraries is taken out again."""
    (tmp_path / "helper_mod.py").write_text(HELPER_MODULE)
    (tmp_path / "script.py").write_text("x.append(99)\nnewname = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("helper_mod", None)
    logging.getLogger("q").handlers.clear()


@pytest.fixture
def stage(case: Case, desk: Path) -> Iterator[Notebook | ShellNotebook]:
    """What runs the case's cells: a shell where they need one."""
    with ShellNotebook(desk / "store") if case.shell else Notebook() as stage:
        for source in case.setup:
            stage.run(source)
        yield stage


def look(stage: Notebook | ShellNotebook, case: Case) -> object:
    """A copy of what the case changes, which later changes leave alone."""
    return copy.deepcopy(stage.look(case.look))


def tip(stage: Notebook | ShellNotebook) -> ObjectId:
    """The commit that the notebook is at."""
    head = stage.head() if isinstance(stage, ShellNotebook) else stage.session.head
    assert head is not None
    return head


@pytest.mark.sampled
@each_case
def test_a_change_is_reported_in_the_same_cell(
    case: Case, stage: Notebook | ShellNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Detector, "choose_for_verification", lambda *_: [])  # nothing is found by chance
    before = look(stage, case)
    report = stage.run(case.cell, fails=case.raises)
    if case.found is Found.NEVER:
        return
    assert look(stage, case) != before
    assert {change.name for change in report.changed} >= set(case.names)


@pytest.mark.sampled
@each_case
def test_going_back_and_forward_is_exact(case: Case, stage: Notebook | ShellNotebook) -> None:
    before, parent = look(stage, case), tip(stage)
    stage.run(case.cell, fails=case.raises)
    after, child = look(stage, case), tip(stage)
    if case.found is Found.NEVER:
        stage.checkout(parent)
        assert look(stage, case) == after
        return
    stage.checkout(parent)
    assert look(stage, case) == before
    stage.checkout(child)
    assert look(stage, case) == after


def test_there_are_eighty_eight() -> None:
    assert len(CASES) == 88
    assert len({case.title for case in CASES}) == 88


def test_an_inner_list_that_a_library_holds_is_found_by_full_verification(desk: Path) -> None:
    with Notebook() as nb:
        nb.run("import helper_mod\nx = {'deep': [[]]}\nhelper_mod.register(x['deep'][0])")
        before = tip(nb)
        nb.run("helper_mod.fire()")
        nb.session.verify_all()
        assert nb.session.status().unverified == ()
        nb.checkout(before)
        assert nb.look("x") == {"deep": [[]]}
        nb.checkout("main")
        assert nb.look("x") == {"deep": [[7]]}


def test_what_was_bound_between_cells_is_in_the_next_commit() -> None:
    with Notebook() as nb:
        nb.run("x = [1]\ny = 2\nold = 3")
        nb.execute("y = 3\nz = 4\ndel old")
        report = nb.run("unrelated = 0")
        assert {change.name for change in report.changed} >= {"y", "z", "old", "unrelated"}


def test_what_was_changed_in_place_between_cells_is_found_by_verification() -> None:
    with Notebook() as nb:
        made = nb.run("x = [1]\ny = 2")
        nb.execute("x.append(2)")
        nb.session.verify_all()
        nb.run("unrelated = 0")
        since = takewhile(lambda found: found[0] != made.commit, nb.repo.log(nb.repo.resolve("HEAD")))
        assert "x" in {change.name for _, commit in since for change in commit.changed}


def test_a_cell_that_only_reads_changes_nothing() -> None:
    with Notebook() as nb:
        made = nb.run("rows = [{'a': i} for i in range(3000)]\ntotal = 0")
        read = nb.run("len(rows), rows[5], [row for row in rows], sorted(row['a'] for row in rows)")
        assert read.changed == ()
        assert made.record is not None
        assert read.record is not None
        assert read.record.tree == made.record.tree


def test_a_name_bound_to_an_equal_value_stores_nothing_new() -> None:
    with Notebook() as nb:
        nb.run("text = 'a' * 200_000")
        again = nb.run("text = ''.join(['a'] * 200_000)")
        assert again.written_bytes < 20_000
