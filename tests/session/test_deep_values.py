"""Containers in containers and objects that lead to one another, however deep: saved whole, or named as not saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.elsewhere import Sheet, elsewhere
from tests.support.notebooks import Notebook, names_changed

MAKERS = """
class Node:
    def __init__(self, value, next):
        self.value, self.next = value, next
class Slotted:
    __slots__ = ("value", "next")
    def __init__(self, value, next):
        self.value, self.next = value, next
FORMS = {
    "list": lambda i, x: [x, [i]],
    "dict": lambda i, x: {"next": x, "value": [i]},
    "tuple": lambda i, x: (x, [i]),
    "set": lambda i, x: [x, frozenset({i, (i,)})],
    "object": lambda i, x: Node([i], x),
    "slots": lambda i, x: Slotted([i], x),
    "mixed": lambda i, x: Node([i], [{"next": x}]),
    "containers below objects": lambda i, x: Node([i], x) if i % 700 == 0 else [x, [i]],
    "objects in tuples": lambda i, x: (Node([i], x), [i]),
}
def below(x):
    if isinstance(x, (Node, Slotted)):
        return x.next
    if isinstance(x, dict):
        return x["next"]
    return x[0] if isinstance(x, (list, tuple)) else None
def build(form, depth):
    x = None
    for i in range(depth):
        x = FORMS[form](i, x)
    return x
def walk(x, steps=None):
    taken = 0
    while x is not None and taken != steps:
        x, taken = below(x), taken + 1
    return x, taken
"""
FORMS = ["list", "dict", "tuple", "set", "object", "slots", "mixed", "containers below objects", "objects in tuples"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("depth", [500, 1_000, 3_000, pytest.param(10_000, marks=pytest.mark.sampled)])
def test_a_deep_value_comes_back_whole_and_shares_what_it_shared(form: str, depth: int) -> None:
    with Notebook() as nb:
        nb.run(MAKERS)
        made = nb.run(f"x = build({form!r}, {depth})")
        assert made.unsaved == ()
        steps = nb.look("walk(x)[1]")
        inner = nb.run(f"inner = walk(x, {depth} - 40)[0]")
        changed = nb.run("x_new = [inner]; del x_new[:]; last = walk(x, 30)[0]; mark = [last]")
        assert changed.unsaved == inner.unsaved == ()
        nb.run("del x, inner, last, mark")
        nb.checkout(changed)
        assert nb.look(f"(walk(x)[1], walk(x, {depth} - 40)[0] is inner, walk(x, 30)[0] is last is mark[0])") == (
            steps, True, True,
        )  # fmt: skip


@pytest.mark.parametrize("depth", [3_000, 20_000])
def test_a_change_deep_below_is_found_and_taken_back(depth: int) -> None:
    with Notebook() as nb:
        nb.run(MAKERS)
        first = nb.run(f"x = build('list', {depth})\ny = walk(x, {depth} - 5)[0]")
        assert names_changed(nb.run("y[1][0] = 'new'")) == {"x", "y"}
        nb.checkout(first)
        assert nb.look(f"(y[1], walk(x, {depth} - 5)[0] is y)") == ([4], True)


def test_deep_values_come_back_in_a_new_process(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    made = f"values = {{form: build(form, 5_000) for form in {FORMS!r}}}\nsteps = {{f: walk(v)[1] for f, v in values.items()}}"
    assert not elsewhere({"made": Sheet(store, (MAKERS, made))})["made"].unsaved
    check = "assert {f: walk(v)[1] for f, v in values.items()} == steps and min(steps.values()) >= 5_000"
    found = elsewhere({"read": Sheet(store, checkout=True, checks=(check,))})["read"]
    assert not found.error
    assert not found.failed


def test_lists_that_lead_back_and_forth_are_named_where_they_are_too_deep() -> None:
    with Notebook() as nb:
        cell = "first = row = [0, None, None]\nfor i in range(50_000):\n    row[1] = [i, None, row]\n    row = row[1]\ndel row, i"
        made = nb.run(cell)
        assert [(found.name, found.reason) for found in made.unsaved] == [
            ("first", "it is nested too deeply to be saved")
        ]
