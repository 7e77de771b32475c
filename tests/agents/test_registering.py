"""What a program gives an agent is found by its code, told to its model, and needs no asking."""

from __future__ import annotations

import json
import threading
import types
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.agents.agent import Member, State


class Index:
    """Finds documents."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def find(self, word: str) -> int:
        """Where it is."""
        return self.words.index(word)

    def _rebuild(self) -> None: ...


def agent(*turns: ak.Turn | str, **more: object) -> ak.Agent:
    return ak.Agent("user", model=ak.ScriptedModel(turns), **more)  # type: ignore[arg-type]


def told(one: ak.Agent) -> str:
    """What its model is told of what it was given."""
    return one.registry.text(2_000)


def test_a_function_is_found_whatever_the_state() -> None:
    user = agent("task.success(double(4))")

    @user.fn
    def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    with ak.Versioned() as state:
        states: list[State] = [None, ak.Live(), {}, state]
        for one in states:
            assert user("Double it", state=one) == 8
        assert dict(state) == {}
    assert double(1) == 2
    with pytest.raises(NameError):
        eval("double", {})


def test_a_model_is_told_of_signatures_and_first_lines() -> None:
    user = agent()

    @user.fn
    def double(n: int) -> int:
        """Twice as much.

        And more that nobody is told.
        """
        return 2 * n

    user.fn(name="half", visibility="medium", doc="unsaid")(lambda n: n / 2)
    user.fn(name="third", visibility="low")(lambda n: n / 3)
    lines = told(user).splitlines()[1:]
    assert lines == ["  double(n: int) -> int  # Twice as much.", "  half(n)", "  third"]
    start = user.start("Anything").events[0]
    assert "double(n: int) -> int" in start.instructions  # type: ignore[attr-defined]


def test_a_class_is_told_of_with_its_public_members() -> None:
    user = agent("task.success(Index(['a', 'b']).find('b'))")
    user.cls(Index)
    assert "Index(words: list[str])  # Finds documents." in told(user)
    assert ".find(word: str) -> int  # Where it is." in told(user)
    assert "_rebuild" not in told(user)
    assert user("Find it") == 1


def test_members_are_chosen_by_patterns_and_configured_one_by_one() -> None:
    user = agent("task.success(sorted(name for name in dir(js) if name[0] != '_'))")
    user.module(
        json, name="js", include=["dump*", "loads"], exclude="dump", configure={"loads": Member("high", "Read.")}
    )
    assert user("Look") == ["dumps", "loads"]
    assert "js.loads(" in told(user)
    assert "# Read." in told(user)
    assert "js.dumps" not in told(user)
    loud = agent()
    loud.module(json, name="js", visibility="high", include="dumps")
    assert "js.dumps(" in told(loud)


def test_a_whole_module_is_the_module_itself() -> None:
    user = agent("task.success(json)")
    user.module(json)
    assert user("Give it back") is json


def test_submodules_are_told_of_where_that_is_asked_for() -> None:
    outer, inner = types.ModuleType("outer"), types.ModuleType("outer.inner")
    inner.__dict__["reach"] = lambda: "far"
    outer.__dict__["inner"] = inner
    flat, deep = agent(), agent()
    flat.module(outer, visibility="medium")
    deep.module(outer, visibility="medium", recursive=True)
    assert "outer.inner.reach" not in told(flat)
    assert "outer.inner.reach()" in told(deep)


def test_a_live_object_is_given_under_a_name() -> None:
    user = agent("task.success(docs.find('b'))")
    user.module(Index(["a", "b"]), name="docs", include="find", visibility="high")
    assert "docs: Index" in told(user)
    assert "docs.find(word: str) -> int  # Where it is." in told(user)
    assert user("Find b") == 1


def test_a_property_of_a_live_object_is_not_run_to_be_told_of() -> None:
    class Trap:
        @property
        def danger(self) -> int:
            raise AssertionError("it was run")

    user = agent()
    user.module(Trap(), name="trap", visibility="high")
    assert "trap.danger" in told(user)


def test_more_than_the_budget_is_told_by_name_alone() -> None:
    user = agent()
    for number in range(100):
        user.fn(name=f"tool_{number}", doc="It does something that takes many words to say. " * 3)(lambda: None)
    text = user.registry.text(500)
    assert len(text) < 500 * 4 + 1_200
    assert "tool_99" in text


def test_using_it_needs_no_asking() -> None:
    def run(given: bool) -> str:
        user = agent("import subprocess\nsubprocess.run", "task.success()", approve="risky")
        if given:
            user.module(__import__("subprocess"))
        one = user.start("Run")
        try:
            one.result()
        except ak.TaskPendingError:
            return one.status
        return one.status

    assert (run(given=False), run(given=True)) == ("pending", "completed")


def test_agents_on_two_threads_find_each_their_own() -> None:
    def serve(who: str, out: dict[str, object], gate: threading.Barrier) -> None:
        user = agent("meet()\nanswer = whose()\nmeet()", "task.success((answer, whose(), task.inputs['who']))")
        user.fn(name="whose")(lambda: who)
        user.fn(name="meet")(gate.wait)
        out[who] = user("Ask", inputs={"who": who})

    out: dict[str, object] = {}
    gate = threading.Barrier(2)
    threads = [threading.Thread(target=serve, args=(who, out, gate)) for who in ("ann", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert out == {"ann": ("ann", "ann", "ann"), "bob": ("bob", "bob", "bob")}


def test_code_that_comes_back_from_the_history_finds_it_too(tmp_path: Path) -> None:
    user = agent("def fetch():\n    return whose()\n", "task.success()")
    user.fn(name="whose")(lambda: "mine")
    with ak.Versioned(tmp_path / "store") as state:
        user("Write a function", state=state)
    with ak.Versioned(tmp_path / "store") as state:
        again = agent("task.success(fetch())")
        again.fn(name="whose")(lambda: "yours")
        assert again("Use it", state=state) == "yours"


def test_a_variable_of_the_same_name_goes_first() -> None:
    user = agent("task.success(rate)")
    user.fn(name="rate")(lambda: 1)
    assert user("Look", state={"rate": 0.5}) == 0.5


def test_an_unknown_visibility_is_refused() -> None:
    with pytest.raises(ValueError, match="high, medium, low"):
        agent().fn(visibility="some")(lambda: 1)  # type: ignore[call-overload]
