"""Any cells, in any order, checked out in any order: every commit is exactly what the namespace was.

Hypothesis writes the cells. A portrait of the namespace after each of them is the model.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.session.portraits import portrait
from tests.support.notebooks import Notebook, rev

pytest.importorskip("numpy")

SETUP = """
import numpy as np
class Node:
    made = []
    def __init__(self, **values):
        self.__dict__.update(values)
def counter():
    n = [0]
    def up():
        n[0] += 1
        return n[0]
    def now():
        return n[0]
    return up, now
"""
NAMES = ("a", "b", "c", "d")
name = st.sampled_from(NAMES)
new_value = st.sampled_from(
    [
        "[]",
        "[1, [2]]",
        "{'k': [1]}",
        "(1, [2])",
        "'text'",
        "3",
        "np.arange(6)",
        "np.zeros((3, 4))[1:]",
        "Node(x=[1])",
        "Node",
        "counter()[0]",
        "list(counter())",
        "np.array([[1], None], dtype=object)",
        "lambda v=[]: v",
        "[{'i': i} for i in range(1500)]",
    ]
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """One line of a cell; it does nothing where the value is of a kind that it does not fit."""
    x, y = draw(name), draw(name)
    templates = [
        f"{x} = {draw(new_value)}",
        f"{x} = {y}",
        f"{x} = [{x}, {y}]",
        f"{x} = {{'x': {x}, 'y': {y}}}",
        f"{x} = Node(left={x}, right={y})",
        f"{x} = ({x}, {y})",
        f"{x}.append({y})",
        f"{x}.append({x})",
        f"{x}[0] = {y}",
        f"{x}[0].append(5)",
        f"{x}['k'] = {y}",
        f"{x}.attr = {y}",
        f"{x}.left.append(7)",
        f"{x}[1:3] = 9",
        f"{x} = {x}[1:]",
        f"{x} = {x}[0]",
        f"{x}()",
        f"{x}()[0].append(1)",
        f"{x}[0]()",
        f"Node.made.append({x})",
        f"del {x}",
        "Node = type('Node', (Node,), {})",
        "def counter():\n    n = [100]\n    def up():\n        n[0] -= 1\n    return up, lambda: n",
    ]
    return draw(st.sampled_from(templates))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[str], list[int]]:
    """Cells, and the order in which to visit what they left."""
    cells = draw(st.lists(st.lists(statements(), min_size=1, max_size=3), min_size=2, max_size=8))
    visits = draw(st.lists(st.integers(0, len(cells)), min_size=2, max_size=8))
    return ["\n".join(map(guarded, lines)) for lines in cells], visits


def guarded(line: str) -> str:
    """A statement that may not fit the value that it meets."""
    body = "\n".join("    " + part for part in line.splitlines())
    return f"try:\n{body}\nexcept Exception:\n    pass"


QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
moves = st.lists(st.booleans(), min_size=3, max_size=8)


@settings(QUIET, max_examples=20)
@given(histories())
def test_every_commit_is_what_the_namespace_was(history: tuple[list[str], list[int]]) -> None:
    visit(*history)


@pytest.mark.slow
@settings(QUIET, max_examples=200)
@given(histories())
def test_every_commit_of_many_histories_is_what_the_namespace_was(history: tuple[list[str], list[int]]) -> None:
    visit(*history)


def visit(cells: list[str], visits: list[int]) -> None:
    """Run the cells, and check out what they left in the order of the visits."""
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        commits = [rev(nb.run(SETUP))]
        portraits = [portrait(nb.namespace)]
        for cell in cells:
            commits.append(rev(nb.run(cell)))
            portraits.append(portrait(nb.namespace))
        for place in visits:
            nb.checkout(commits[place])
            assert portrait(nb.namespace) == portraits[place]
    with Notebook(Repository.open(store)) as again:
        for place in visits[:2]:
            again.checkout(commits[place])
            assert portrait(again.namespace) == portraits[place]


@settings(QUIET, max_examples=10)
@given(histories(), moves)
def test_undo_and_redo_walk_the_same_states(history: tuple[list[str], list[int]], steps: list[bool]) -> None:
    undo_and_redo(history[0], steps)


@pytest.mark.slow
@settings(QUIET, max_examples=100)
@given(histories(), moves)
def test_undo_and_redo_walk_the_same_states_of_many_histories(
    history: tuple[list[str], list[int]], steps: list[bool]
) -> None:
    undo_and_redo(history[0], steps)


def undo_and_redo(cells: list[str], steps: list[bool]) -> None:
    """Run the cells, and walk over what they left: back where a step is true, and forward where it is not."""
    with Notebook() as nb:
        nb.run(SETUP)
        portraits = [portrait(nb.namespace)]
        tree = nb.repo.tree_at(nb.session.head).id
        for cell in cells:
            nb.run(cell)
            before, tree = tree, nb.repo.tree_at(nb.session.head).id
            if tree != before:  # a cell that changed nothing is nothing to undo
                portraits.append(portrait(nb.namespace))
        at = len(portraits) - 1
        for undo in steps:
            if undo and at > 0:
                nb.session.undo()
                at -= 1
            elif not undo and at < len(portraits) - 1:
                nb.session.redo()
                at += 1
            assert portrait(nb.namespace) == portraits[at]
