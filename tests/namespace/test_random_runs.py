"""Runs, undo, redo, checkout and new processes in any order, against a model that copies its variables."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent_kernel.agents.namespace import Namespace
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore

CODES = (
    "a = [1]",
    "b = a",
    "b.append(len(b))",
    "c = {'a': a}",
    "del a",
    "a.append(n)\n1 / 0",
    "n = globals().get('n', 0) + 1",
    "def f(): return n",
    "n = f() + 1",
    "a",
)


class Runs(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.repo = Repository.open(MemoryStore())
        self.ns = Namespace(self.repo)
        self.state: dict[str, Any] = {}
        self.done: list[dict[str, Any]] = []
        self.undone: list[dict[str, Any]] = []
        self.commits: list[tuple[str, dict[str, Any]]] = []

    @rule(code=st.sampled_from(CODES))
    def run(self, code: str) -> None:
        before = copy.deepcopy(self.state)
        names = {name: value for name, value in self.state.items() if name != "f"}
        if "f" in self.state:
            exec(CODES[7], names)
        failed = None
        try:
            exec(code, names)
        except Exception as error:
            failed = type(error).__name__
        names.pop("__builtins__", None)
        self.state = {name: "a function" if name == "f" else value for name, value in names.items()}
        ran = self.ns.run(code)
        assert (ran.error is None) == (failed is None), (code, failed, ran)
        if ran.changed:
            self.done.append(before)
            self.undone = []
        self.commits.append((ran.commit, copy.deepcopy(self.state)))

    @precondition(lambda self: self.done)
    @rule()
    def undo(self) -> None:
        self.ns.undo()
        self.undone.append(copy.deepcopy(self.state))
        self.state = self.done.pop()

    @precondition(lambda self: self.undone)
    @rule()
    def redo(self) -> None:
        self.ns.redo()
        self.done.append(copy.deepcopy(self.state))
        self.state = self.undone.pop()

    @precondition(lambda self: self.commits)
    @rule(back=st.integers(0, 5))
    def rollback(self, back: int) -> None:
        to, state = self.commits[-1 - back % len(self.commits)]
        before = copy.deepcopy(self.state)
        report = self.ns.rollback(to)
        self.state = copy.deepcopy(state)
        if report.changed:
            self.done.append(before)
            self.undone = []

    @rule()
    def in_a_new_process(self) -> None:
        self.ns.close()
        self.ns = Namespace(self.repo)
        self.state = copy.deepcopy(self.state)
        self.done, self.undone = [], []

    @invariant()
    def the_variables_are_those_of_the_model(self) -> None:
        found = {name: "a function" if name == "f" else value for name, value in self.ns.items()}
        assert found == self.state
        if "a" in found and "b" in found:
            assert (found["a"] is found["b"]) == (self.state["a"] is self.state["b"])

    def teardown(self) -> None:
        self.ns.close()


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)
