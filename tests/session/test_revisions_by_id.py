"""The ids of commits, as history and reports give them, are revisions wherever one is asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import agent_kernel as ak
from agent_kernel.repository import ObjectId, hex_of


def _as_it_is(id: ObjectId) -> str | ObjectId:
    return id


def _digits(id: ObjectId) -> str:
    return id.hex()


@pytest.mark.parametrize("write", [_as_it_is, _digits, hex_of])
def test_an_id_names_its_commit_for_each_method(write: Callable[[ObjectId], str | ObjectId]) -> None:
    with ak.Versioned() as state:
        state["a"] = 1
        first = state.commit("one").commit
        assert first is not None
        state["a"] = 2
        state.commit("two")
        second = state.history()[0][0]
        assert state.at(write(first))["a"] == 1
        assert [one.name for one in state.diff(write(first), write(second))] == ["a"]
        assert state.repo.resolve(write(first)) == first
        assert state.repo.show(write(second)).message == "two"
        state.rollback(write(first))
        assert state.get("a") == 1
        state.checkout(write(second))
        assert dict(state) == {"a": 2}
        assert f"moving to {hex_of(second)[:8]}" in state.repo.reflog(state.repo.head_log(state.session.id))[0].message


def test_an_id_of_no_commit_and_what_is_no_revision_are_refused() -> None:
    with ak.Versioned() as state:
        state["a"] = 1
        id = state.commit("one").commit
        assert id is not None
        unknown = ObjectId(bytes(len(id) - 1) + id[-1:])
        with pytest.raises(ak.RefNotFoundError, match="0000"):
            state.rollback(unknown)
        for wrong in (5, None, b"abc"):
            with pytest.raises(TypeError, match="a revision is text, such as 'HEAD~1', or the id of a commit, not"):
                state.rollback(wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        assert state["a"] == 1


def test_a_namespace_takes_the_ids_of_its_history() -> None:
    with ak.Namespace() as ns:
        ns.run("x = 1")
        first = ns.history()[0][0]
        ns.run("x = 2")
        ns.rollback(first)
        assert ns["x"] == 1
