"""Bundles that earlier versions wrote still open. The files in tests/fixtures are never made again, only added to."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from agent_kernel.bundle import opening
from agent_kernel.errors import LoadError
from agent_kernel.session import Repository
from agent_kernel.storage.archive import BUNDLE_VERSION
from tests.support.notebooks import Notebook

BUNDLES = sorted((Path(__file__).parent.parent / "fixtures").glob("bundle-*.agentnb"))


def test_there_is_a_bundle_of_every_version() -> None:
    assert [path.stem for path in BUNDLES] == [f"bundle-{version}" for version in range(1, BUNDLE_VERSION + 1)]


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.stem)
def test_an_old_bundle_opens(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # of a user who has trusted no copy of it
    made = opening.open_bundle(bundle, tmp_path)
    assert "def double(x)" in made.notebook.read_text(encoding="utf-8")
    with closing(Repository.open(made.store, create=False)) as repo:
        assert repo.verify().is_sound
        assert set(repo.branches()) == {"main", "side"}
        assert repo.at("v1")["numbers"] == [1, 2, 3, 4]
        with pytest.raises(LoadError, match="a function of the notebook"):
            _ = repo.at("v1")["double"]
        repo.trust()
        with Notebook(repo) as nb:
            nb.session.checkout("v1")
            assert nb.look("(double(5), type(point) is Point, len(rows))") == (10, True, 2500)
            nb.session.switch("side")
            assert nb.look("double(5)") == 15
