"""`Versioned`: a mapping with history, for programs without a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from agent_kernel.errors import NotAStoreError, RefNotFoundError
from agent_kernel.session import Versioned
from agent_kernel.session import open as open_repository


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Versioned]:
    with Versioned(tmp_path / "states.lmdb") as state:
        state["plan"] = ["look"]
        state.commit("a plan")
        yield state


def test_what_changed_in_place_is_committed_and_taken_back(state: Versioned) -> None:
    cast("list[str]", state["plan"]).append("act")
    assert [change.name for change in state.commit("and an act").changed] == ["plan"]
    state.rollback("HEAD~1")
    assert state["plan"] == ["look"]
    state.undo()
    assert state["plan"] == ["look", "act"]
    assert state.at()["plan"] == state.repo.at()["plan"] == ["look", "act"]


@pytest.mark.parametrize(("key", "error"), [(5, TypeError), (None, TypeError), ("a\0b", ValueError)])
def test_a_key_that_no_commit_could_hold_is_refused(state: Versioned, key: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="a key is text"):
        state[key] = 1
    with pytest.raises(error, match="a key is text"):
        state.update({key: 1})
    assert list(state) == ["plan"]


def test_any_text_is_a_key(state: Versioned) -> None:
    for key in ("", "two words", "größe", "__x__", "_1", "In", "class"):
        state[key] = key
    state.commit()
    state.rollback("HEAD~1")
    state.undo()
    assert all(state[key] == key for key in state if key != "plan")
    assert len(state) == 8


def test_a_second_one_on_the_same_branch_works_on_its_own(state: Versioned) -> None:
    with pytest.warns(UserWarning, match="main is in use"):
        other = Versioned(state.repo)
    assert other["plan"] == ["look"]
    other["plan"] = "mine"
    other.commit()
    other.close()
    assert state["plan"] == ["look"]
    assert set(state.repo.branches()) == {"main", "main-2"}


def test_an_empty_text_names_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotAStoreError, match="names no place"):
        Versioned("")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", [5, None, b"work", ["work"]])
def test_what_is_no_place_is_named(place: Any) -> None:
    for open_it in (open_repository, Versioned):
        with pytest.raises(TypeError) as found:
            open_it(place)
        assert str(found.value) == f"a repository is opened from a path, a URL or a store, not {place!r}"


def test_a_state_that_never_was_is_named(tmp_path: Path) -> None:
    with open_repository(tmp_path / "empty") as repo, pytest.raises(RefNotFoundError, match="nothing is committed yet"):
        repo.at()
