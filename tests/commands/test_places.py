"""Where stores lie, and which one a notebook without a store finds."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from agent_kernel.commands.places import (
    adopt,
    cell_ids,
    copy_store,
    default_store,
    find_store,
    is_store,
    notebook_of,
    store_path_of,
)
from agent_kernel.errors import NotAStoreError, StoreUnavailableError
from agent_kernel.session import Repository, bind
from agent_kernel.storage import open_store
from tests.commands.stores import make_history


def write_notebook(path: Path, *ids: str) -> Path:
    path.write_text(json.dumps({"nbformat": 4, "cells": [{"id": id, "cell_type": "code"} for id in ids]}))
    return path


def test_the_notebook_is_what_the_front_end_says() -> None:
    assert notebook_of({"JPY_SESSION_NAME": "/home/a/x.ipynb"}, {}) == Path("/home/a/x.ipynb")
    assert notebook_of({}, {"__vsc_ipynb_file__": "/home/a/y.ipynb"}) == Path("/home/a/y.ipynb")
    assert notebook_of({"JPY_SESSION_NAME": "console-1-a0b1"}, {}) is None
    assert notebook_of({}, {"__vsc_ipynb_file__": 7}) is None


def test_a_notebooks_store_lies_beside_it_and_a_terminals_with_the_users_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_store(tmp_path / "a.b.ipynb", tmp_path) == tmp_path / ".agent-kernel" / "a.b"
    one, other = (default_store(None, folder) for folder in (tmp_path / "p", tmp_path / "q" / "p"))
    assert one.is_relative_to(tmp_path / "data" / "agent-kernel")
    assert one != other
    programs = {default_store(None, tmp_path / "p", kernel) for kernel in ("0a1b2c3d", "99999999")}
    assert len({one, other, *programs}) == 4
    assert default_store(tmp_path / "a.ipynb", tmp_path, "0a1b2c3d") == tmp_path / ".agent-kernel" / "a"


def test_what_someone_names_is_found(tmp_path: Path) -> None:
    store = tmp_path / ".agent-kernel" / "a"
    make_history(store, "x = 1")
    assert {find_store(str(name)) for name in (store, tmp_path, tmp_path / "a.ipynb")} == {str(store)}
    assert find_store("memory:") == "memory:"
    with pytest.raises(NotAStoreError):
        find_store(str(tmp_path / "b.ipynb"))
    assert find_store(str(tmp_path / "b.ipynb"), create=True) == str(tmp_path / ".agent-kernel" / "b")


def test_a_renamed_notebook_takes_its_store_along(tmp_path: Path) -> None:
    make_history(tmp_path / ".agent-kernel" / "old", "x = 1", "y = 1")
    notebook = write_notebook(tmp_path / "new.ipynb", "cell-1", "cell-2", "cell-9")
    assert "old.ipynb" in adopt(notebook)[0]
    assert is_store(store_path_of(notebook))
    assert not (tmp_path / ".agent-kernel" / "old").exists()
    assert adopt(notebook) == ()


def test_a_copied_notebook_is_offered_the_history_of_its_original(tmp_path: Path) -> None:
    make_history(tmp_path / ".agent-kernel" / "old", "x = 1", "y = 1")
    write_notebook(tmp_path / "old.ipynb", "cell-1", "cell-2")
    copy = write_notebook(tmp_path / "copy.ipynb", "cell-1", "cell-2")
    assert "%agent bind --from old.ipynb" in adopt(copy)[0]
    assert not is_store(store_path_of(copy))


def test_a_store_of_other_cells_or_in_use_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / ".agent-kernel" / "old"
    make_history(place, "x = 1", "y = 1")
    assert adopt(write_notebook(tmp_path / "new.ipynb", "cell-1", "b", "c")) == ()
    with closing(Repository.open(place)) as repo, closing(bind({}, repo)):
        assert adopt(write_notebook(tmp_path / "new.ipynb", "cell-1", "cell-2")) == ()
    assert is_store(place)


@pytest.mark.parametrize("ids", [(), ("a", "b")], ids=["a file without ids", "a store without ids"])
def test_one_history_without_a_notebook_is_offered_where_no_ids_tell_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: tuple[str, ...]
) -> None:
    place = tmp_path / ".agent-kernel" / "my old"
    make_history(place, "x = 1", told="" if ids else "cell-")
    notebook = write_notebook(tmp_path / "new.ipynb", *ids)
    assert adopt(notebook)[0].startswith("if this notebook was called my old.ipynb before: ")
    assert f"%agent bind '{place}' goes on with its history" in adopt(notebook)[0]
    monkeypatch.chdir(tmp_path)
    assert "%agent bind '.agent-kernel/my old' goes" in adopt(notebook)[0]
    assert is_store(place)
    with closing(Repository.open(place)) as repo, closing(bind({}, repo)):
        assert adopt(notebook) == ()  # somebody works in it
    make_history(tmp_path / ".agent-kernel" / "older", "x = 1", told="")
    assert adopt(notebook) == ()  # which of the two?
    write_notebook(tmp_path / "older.ipynb")
    assert len(adopt(notebook)) == 1
    write_notebook(tmp_path / "my old.ipynb")
    assert adopt(notebook) == ()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"cells": 7}', '{"cells": [7, {"id": 8}, {}]}'])
def test_what_is_no_notebook_has_no_cells(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.ipynb").write_text(content)
    assert cell_ids(tmp_path / "x.ipynb") == frozenset()
    assert cell_ids(tmp_path / "not-there.ipynb") == frozenset()


def test_a_copy_has_the_same_commits_and_is_as_trusted_as_its_source(tmp_path: Path) -> None:
    ids = make_history(tmp_path / "a", "x = list(range(5000))", "y = 2")
    with closing(open_store(tmp_path / "b")) as target:
        copy_store(str(tmp_path / "a"), target)
        with pytest.raises(StoreUnavailableError, match="history of its own"):
            copy_store(str(tmp_path / "a"), target)
    with closing(Repository.open(tmp_path / "b", create=False)) as repo:
        history = [found[:-1].hex() for found, _ in repo.log(repo.resolve("main"))]
        assert history[: len(ids)] == ids[::-1]
        assert not repo.verify().problems
        assert repo.lease_of("main") is None
        namespace: dict[str, object] = {}
        with closing(bind(namespace, repo)) as session:
            session.checkout()
        assert namespace["y"] == 2


def test_a_copy_of_nothing_is_refused(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "b")) as target, pytest.raises(NotAStoreError):
        copy_store(str(tmp_path / "a"), target)
