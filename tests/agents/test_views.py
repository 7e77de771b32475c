"""States, past states and agents can be looked at, without anything of them being run."""

from __future__ import annotations

import pytest

import agent_kernel as ak


class Trap:
    def __repr__(self) -> str:
        raise AssertionError("it was shown by its own code")


def worker(*turns: str, **more: object) -> ak.Agent:
    return ak.Agent("worker", model=ak.ScriptedModel(turns), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [ak.Versioned, ak.Live])
def test_recent_is_what_the_last_run_changed(kind: type[ak.Live]) -> None:
    state = kind()
    state.update(old=1, gone=2)
    worker("first = 1", "task.success()", state=state)("First")
    worker("second = [2]\nold = 3", "del gone\ntask.success()", state=state)("Second")
    recent = ak.view(state)
    assert [line.partition(":")[0] for line in recent.lines] == ["- gone", "+ second", "~ old"] or [
        line.partition(":")[0] for line in recent.lines
    ] == ["- gone", "~ old", "+ second"]
    assert [line.partition(":")[0] for line in ak.view(state, focus="full").lines] == ["first", "old", "second"]


def test_recent_is_the_last_commit_where_no_agent_made_it() -> None:
    with ak.Versioned() as state:
        worker("first = 1\ntask.success()", state=state)("First")
        state["mine"] = 2
        state.commit("by hand")
        assert list(ak.view(state).lines) == ["+ mine: int 2"]


def test_a_past_state_is_seen_without_being_loaded() -> None:
    with ak.Versioned() as state:
        state["x"] = [1, 2, 3]
        state.commit("begin")
        state["x"] = None
        state.commit("end")
        assert "x: " in str(ak.view(state.at("HEAD~1")))
        assert "[1, 2, 3]" in str(ak.view(state.at("HEAD~1")))


def test_a_plain_mapping_is_seen_whole() -> None:
    assert list(ak.view({"a": 1, "__name__": "x"}).lines) == ["a: int 1"]


def test_an_agent_is_seen_as_its_model_sees_it_or_in_full() -> None:
    agent = worker(primer="You count.")
    for number in range(300):
        agent.fn(name=f"tool_{number}", doc="Does something that takes a while to say in words.")(lambda: None)
    told, full = str(ak.view(agent)), str(ak.view(agent, full=True))
    assert "You count." in told
    assert "tool_0()" in told
    assert "tool_299()" not in told
    assert "tool_299()" in full


def test_no_code_of_a_value_runs() -> None:
    assert "Trap" in str(ak.view({"trap": Trap()}))


def test_a_view_has_a_face_for_notebooks_that_escapes() -> None:
    assert "<script" not in ak.view({"x": "<script>"})._repr_html_()


def test_what_looks_like_a_secret_is_masked() -> None:
    secret = "sk-" + "a1B2c3D4e5F6g7H8" * 3
    assert secret not in str(ak.view({"key": secret, "password": "hunter2"}))
    assert "hunter2" not in str(ak.view({"password": "hunter2"}))


def test_an_unknown_focus_is_refused() -> None:
    with pytest.raises(ValueError, match="recent, full"):
        ak.view({}, focus="all")  # type: ignore[arg-type]


def test_what_has_no_variables_says_so() -> None:
    with pytest.raises(TypeError, match="int has no variables"):
        ak.view(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
