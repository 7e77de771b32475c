"""The 57 further objects, all in one notebook: right in the same process, and right in a new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.session import Repository
from tests.fidelity.fifty_seven import OBJECTS, Made
from tests.support.elsewhere import Sheet, SheetResult, elsewhere
from tests.support.notebooks import Main, Notebook

pytestmark = pytest.mark.filterwarnings("ignore")
each_object = pytest.mark.parametrize("made", [pytest.param(made, id=made.title) for made in OBJECTS])
CELLS = tuple(made.cell for made in OBJECTS)


def check_of(made: Made) -> str:
    return f"assert {made.holds}\n"


@pytest.fixture(scope="module")
def as_made() -> Iterator[Main]:
    with Main() as main:
        for cell in CELLS:
            main.execute(cell)
        yield main


@pytest.fixture(scope="module")
def restored() -> Iterator[Notebook]:
    with Notebook() as nb:
        reports = [nb.run(cell) for cell in CELLS]
        names = nb.variables()
        nb.run("\n".join(f"{name} = None" for name in sorted(names)))
        nb.checkout(reports[-1])
        assert nb.variables() == names
        yield nb


@pytest.fixture(scope="module")
def restored_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> SheetResult:
    pytest.importorskip("pandas")
    store = str(tmp_path_factory.mktemp("fifty-seven") / "store")
    made = elsewhere({"all": Sheet(store, CELLS)})["all"]
    assert made.error == ""
    return elsewhere({"all": Sheet(store, checkout=True, checks=tuple(map(check_of, OBJECTS)))})["all"]


def test_there_are_fifty_seven() -> None:
    assert len(OBJECTS) == 57


@each_object
def test_it_holds_as_made(made: Made, as_made: Main) -> None:
    as_made.execute(check_of(made))


@pytest.mark.sampled
@each_object
def test_it_comes_back(made: Made, restored: Notebook) -> None:
    restored.execute(check_of(made))


@pytest.mark.sampled
@each_object
def test_it_comes_back_in_a_new_process(made: Made, restored_elsewhere: SheetResult) -> None:
    assert not restored_elsewhere.error, restored_elsewhere.error
    failed = [failure for failure in restored_elsewhere.failed if made.holds in failure]
    assert not failed, failed[0]


def test_nothing_of_them_is_named_as_unsaved(tmp_path: Path) -> None:
    repo = Repository.open(tmp_path / "store")
    with Notebook(repo) as nb:
        lost = [one.name for cell in CELLS for one in nb.run(cell).unsaved]
    repo.close()
    assert lost == []
