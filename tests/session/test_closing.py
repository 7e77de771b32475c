"""A session that was closed has given its branch back: it reads, and changes nothing any more."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_kernel.errors import NotBoundError, SessionClosedError
from agent_kernel.repository import Retention
from agent_kernel.session import Repository, Session, Versioned, bind
from agent_kernel.storage import MemoryStore

WRITES: dict[str, Callable[[Session], object]] = {
    "commit": lambda session: session.commit("late"),
    "begin_cell": lambda session: session.begin_cell("x = 2"),
    "checkout": lambda session: session.checkout("HEAD~1"),
    "checkout of names": lambda session: session.checkout("HEAD~1", ["x"]),
    "bring_back": lambda session: session.bring_back(),
    "leave_behind": lambda session: session.leave_behind(),
    "switch": lambda session: session.switch("main"),
    "switch to a new branch": lambda session: session.switch("other", create=True),
    "rollback": lambda session: session.rollback("HEAD~1"),
    "rollback to nothing": lambda session: session.rollback("nosuch"),
    "undo": lambda session: session.undo(),
    "redo": lambda session: session.redo(),
    "merge": lambda session: session.merge("HEAD~1"),
    "cherry_pick": lambda session: session.cherry_pick("HEAD"),
    "verify_all": lambda session: session.verify_all(),
    "ignore": lambda session: session.ignore("x"),
    "unignore": lambda session: session.unignore("x"),
    "forget": lambda session: session.forget("x"),
    "prune": lambda session: session.prune(Retention(keep_last=1)),
    "rename_branch": lambda session: session.rename_branch("other"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_writes_raises_and_changes_nothing(write: Callable[[Session], object]) -> None:
    repo = Repository.open(MemoryStore())
    namespace: dict[str, object] = {"x": 1}
    session = bind(namespace, repo)
    session.commit("one")
    namespace["x"] = 2
    session.commit("two")
    session.close()
    namespace["x"] = 3
    before = repo.branches(), repo.heads(), repo.setting("ignored")
    with pytest.raises(SessionClosedError, match="was closed"):
        write(session)
    assert (repo.branches(), repo.heads(), repo.setting("ignored")) == before
    assert namespace == {"x": 3}


def test_a_cell_that_closes_the_session_is_not_committed() -> None:
    repo = Repository.open(MemoryStore())
    namespace: dict[str, object] = {}
    session = bind(namespace, repo)
    session.begin_cell("x = 1; session.close()")
    namespace["x"] = 1
    session.close()
    with pytest.raises(SessionClosedError):
        session.end_cell()
    assert repo.branches() == {}


def test_closing_twice_does_nothing_and_reading_goes_on() -> None:
    session = bind({"x": 1}, Repository.open(MemoryStore()))
    session.commit("one")
    session.close()
    session.close()
    assert session.status().branch == "main"
    assert session.repo.show().message == "one"


def test_the_branch_is_free_for_the_next_session() -> None:
    repo = Repository.open(MemoryStore())
    first = bind({"x": 1}, repo)
    first.commit("one")
    first.close()
    second = bind({"x": 1}, repo)
    assert second.branch == "main"
    second.commit("two")
    with pytest.raises(NotBoundError):  # so it can be caught like a namespace that was never bound
        first.commit("three")
    assert repo.show().message == "two"
    second.close()


def test_a_state_that_was_closed_says_so_though_its_store_is_closed_too(tmp_path: Path) -> None:
    state = Versioned(tmp_path / "store")
    state["x"] = 1
    state.commit("one")
    state.close()
    state.close()
    with pytest.raises(SessionClosedError):
        state.commit("two")
    with pytest.raises(SessionClosedError):
        state.rollback("HEAD")


def test_the_error_survives_the_way_to_another_process() -> None:
    assert str(pickle.loads(pickle.dumps(SessionClosedError()))) == str(SessionClosedError())


def test_without_a_cell_a_commit_finds_what_changed_in_place() -> None:
    namespace: dict[str, object] = {"a": [1], "b": {"deep": [[1]]}}
    session = bind(namespace, Repository.open(MemoryStore()))
    session.commit("one")
    namespace["a"].append(2)  # type: ignore[attr-defined]
    namespace["b"]["deep"][0].append(2)  # type: ignore[index]
    assert [change.name for change in session.commit("two").changed] == ["a", "b"]
    assert dict(session.repo.at()) == {"a": [1, 2], "b": {"deep": [[1, 2]]}}
    session.close()


def test_within_a_cell_a_commit_looks_at_what_its_code_speaks_of() -> None:
    namespace: dict[str, object] = {"a": [1], "b": [1]}
    session = bind(namespace, Repository.open(MemoryStore()))
    session.commit("one")
    session.begin_cell("a.append(2); commit()")
    namespace["a"].append(2)  # type: ignore[attr-defined]
    namespace["b"].append(2)  # type: ignore[attr-defined]
    assert [change.name for change in session.commit("two").changed] == ["a"]
    assert [change.name for change in session.commit("three", full=True).changed] == ["b"]
    session.end_cell()
    session.close()


def test_a_commit_without_a_cell_holds_back_a_new_value_of_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_kernel.session.staging.LARGE_BYTES", 10_000)
    session = bind({"small": 1, "large": b"x" * 20_000}, Repository.open(MemoryStore()))
    assert [one.name for one in session.commit("one").unsaved] == ["large"]
    assert [change.name for change in session.commit("two", full=True).changed] == ["large"]
    session.close()
