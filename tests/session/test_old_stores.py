"""Stores that earlier formats wrote still open. The folders in tests/fixtures are never made again, only added to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent_kernel.errors import LoadError, LostValueError
from agent_kernel.repository import Retention
from agent_kernel.session import Repository
from agent_kernel.session.provenance import read_notebook
from tests.support.notebooks import Notebook

FIXTURES = Path(__file__).parent.parent / "fixtures"
STORES = sorted(FIXTURES.glob("store-*"))


@pytest.fixture(params=STORES, ids=lambda path: path.name)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(request.param, tmp_path / "store"))


def test_there_is_a_store_of_every_format() -> None:
    assert [path.name for path in STORES] == ["store-1", "store-1-pages", "store-2", "store-6", "store-7"]


def test_a_newer_release_writes_into_old_stores_and_collects_nothing_of_theirs(store: Path) -> None:
    with Repository.open(store, create=False) as repo:
        repo.trust()
        pages = [read_notebook(repo.objects, commit) for _, commit in repo.log("main")]
        with Notebook(repo) as nb:
            nb.session.checkout("main")
            nb.run("numbers.append(5)")
        assert not repo.gc(grace_s=0).objects_deleted
        repo.prune(Retention(keep_last=2))
        assert repo.verify().is_sound
        assert [read_notebook(repo.objects, commit) for _, commit in repo.log("main")][1:2] == pages[:1]


@pytest.mark.parametrize("name", ["store-1-pages", "store-2", "store-6", "store-7"])
def test_pages_of_every_form_come_back(name: str, tmp_path: Path) -> None:
    with Repository.open(Path(shutil.copytree(FIXTURES / name, tmp_path / "store")), create=False) as repo:
        newest, older = (read_notebook(repo.objects, commit) for _, commit in repo.log("main", limit=2))
        assert newest is not None
        assert older is not None
        assert (newest.name, newest.language, older.cells[0].source) == ("old.ipynb", "python", "# Numbers")
        assert [cell.type for cell in newest.cells] == ["markdown", *["code"] * 5]
        assert newest.cells[4].source.endswith("range(2500)]\n# 3")


def test_an_old_store_opens_is_sound_and_can_be_looked_through(store: Path) -> None:
    with Repository.open(store, create=False) as repo:
        assert repo.verify().is_sound
        assert sorted(repo.branches()) == ["main", "side"]
        changed = [
            [change.how + change.name for change in commit.changed] for _, commit in repo.log(repo.resolve("v1"))
        ]
        assert changed[0] == ["+generator", "-text"]
        assert repo.at("v1").summary("numbers").startswith("list of 4 int")


def test_the_reflogs_of_an_old_store_say_each_move_once(store: Path) -> None:
    with Repository.open(store, create=False) as repo:
        before = repo.reflog("HEAD")
        session = before[0].session
        assert len(before) == len({entry.time_ns for entry in before})
        assert {entry.commit for entry in repo.reflog("main") if entry.session} <= {entry.commit for entry in before}
        repo.create_branch("other", "main")
        with Notebook(repo) as nb:
            nb.session.switch("other")
        repo.delete_branch("main", force=True)
        assert repo.reflog(f"HEAD:{session}") == before


def test_an_old_store_that_came_from_elsewhere_is_not_loaded_before_it_is_trusted(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # of a user who has trusted no copy of it
    with Repository.open(store, create=False) as repo:
        assert repo.at("v1")["numbers"] == [1, 2, 3, 4]  # plain data
        for name, what in {"double": "a function of the notebook", "point": "the class Point"}.items():
            with pytest.raises(LoadError, match=f"needs {what}"):
                _ = repo.at("v1")[name]


def test_every_state_of_an_old_store_comes_back(store: Path) -> None:
    with Repository.open(store, create=False) as repo:
        repo.trust()
        with Notebook(repo) as nb:
            nb.session.checkout("v1")
            assert nb.look("(numbers, same['numbers'] is numbers)") == ([1, 2, 3, 4], True)
            assert nb.look("(double(5), type(point) is Point, Point.made[0] is point)") == (10, True, True)
            assert nb.look("(len(rows), rows[2499])") == (2500, {"id": 2499, "tags": ["0"]})
            with pytest.raises(LostValueError, match=r"run the cell (of [0-9a-f]{8} |that made it)"):
                nb.look("next(generator)")
            nb.session.checkout("v1~4")
            assert nb.look("(numbers, text, 'double' in globals())") == ([1, 2, 3], "grüße", False)
            nb.session.switch("side")
            assert nb.look("double(5)") == 15
