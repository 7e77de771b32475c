"""Numbers, texts, None and short containers of them are saved without a walk: exactly as what is looked into is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.session.serialization import Dumps
from tests.support.notebooks import Notebook, rev

ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.integers(150, 250).map(lambda bits: 1 << bits),
)


CONTAINERS = st.one_of(
    st.lists(ATOMS, max_size=5),
    st.lists(ATOMS, max_size=5).map(tuple),
    st.sets(st.integers(0, 9)),
    st.dictionaries(st.text(max_size=3), ATOMS, max_size=4),
    st.lists(st.just("long " * 100), max_size=12),  # too long to stand in the tree
)


def look_into_all(patch: pytest.MonkeyPatch) -> None:
    """Have all values dumped, and what they lead to walked."""
    patch.setattr(Dumps, "_is_atom", lambda *_: False)
    patch.setattr(Dumps, "_keep_plain", lambda *_: False)


def entries_of(values: list[object], *, looked_into: bool) -> list[object]:
    """What the tree holds for one name that is bound to each of the values in turn, and what was said of each."""
    with pytest.MonkeyPatch.context() as patch, Notebook() as nb:
        if looked_into:
            look_into_all(patch)
        found: list[object] = []
        for value in values:
            nb.namespace["x"] = value
            report = nb.run("")
            entry = nb.repo.tree_at(nb.session.head).get("x")
            found.append((entry, [(change.name, change.how, change.size) for change in report.changed]))
        return found


@settings(max_examples=30)
@given(st.lists(ATOMS, min_size=1, max_size=4))
def test_an_atom_is_stored_and_told_of_as_a_value_that_was_looked_into(values: list[object]) -> None:
    assert entries_of(values, looked_into=False) == entries_of(values, looked_into=True)


@settings(max_examples=30)
@given(st.lists(st.one_of(ATOMS, CONTAINERS), min_size=1, max_size=4))
def test_a_short_container_is_stored_and_told_of_as_one_that_was_looked_into(values: list[object]) -> None:
    assert entries_of(values, looked_into=False) == entries_of(values, looked_into=True)


# What cells do to a few variables: content, sharing and holders change, each also to what looks the same as before.
STEPS = (
    "a = [1, 2]",
    "b = [1, 2]",
    "b = a",
    "c = a",
    "c = {'k': 1}",
    "d = (1, 'x')",
    "d = (a, 1)",
    "d = [b]",
    "e = {1, 2}",
    "e = lambda: a",
    "e = (item for item in a)",
    "a.append(3)",
    "a.pop()",
    "a[0] = True",
    "a[0] = 1",
    "a[0] = 1.0",
    "a[0] = type('T', (str,), {})('x')",
    "a[0] = b",
    "b = list(b)",
    "c['k'] = a",
    "c['k'] = 1",
    "del a",
    "del b",
    "import sys; c = sys.path",
    "b = globals()",
    "keep = [a]; a = 0",
    "a = keep[0]",
)


def told_by(steps: list[str], *, looked_into: bool) -> list[object]:
    """What the trees of a few cells hold, what was said of each, and what is shared when all are gone back to."""
    with pytest.MonkeyPatch.context() as patch, Notebook() as nb:
        patch.setattr(
            nb.session.workspace, "choose_for_verification", lambda _: list(nb.session.workspace.tracking.groups)
        )
        if looked_into:
            look_into_all(patch)
        found: list[object] = []
        reports = [
            nb.run(f"try:\n  {step}\nexcept (NameError, TypeError, IndexError, AttributeError): pass") for step in steps
        ]
        for report in reports:
            names = {name: entry.own for name, entry in nb.repo.tree_at(report.commit).items() if name[0] != "\0"}
            found.append((sorted(names), sorted((change.name, change.how) for change in report.changed)))
        for report in reports:
            nb.session.rollback(rev(report))
            values = {name: nb.namespace[name] for name in "abcd" if name in nb.namespace}
            found.append([(one, other) for one in values for other in values if values[one] is values[other]])
            shown = repr([value for value in values.values() if type(value) in (list, set, int)])
            found.append(re.sub("0x[0-9a-f]+", "", shown))
        return found


@settings(max_examples=25)
@given(st.lists(st.sampled_from(STEPS), min_size=2, max_size=9))
def test_cells_that_share_part_and_replace_containers_are_told_of_as_if_all_was_looked_into(steps: list[str]) -> None:
    assert told_by(steps, looked_into=False) == told_by(steps, looked_into=True)


@pytest.mark.slow
@settings(max_examples=400)
@given(st.lists(st.sampled_from(STEPS), min_size=2, max_size=12))
def test_many_cells_that_share_part_and_replace_containers_are_told_of_so(steps: list[str]) -> None:
    assert told_by(steps, looked_into=False) == told_by(steps, looked_into=True)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(ATOMS, min_size=1, max_size=4))
def test_many_atoms_are_stored_and_told_of_as_values_that_were_looked_into(values: list[object]) -> None:
    assert entries_of(values, looked_into=False) == entries_of(values, looked_into=True)


def test_a_variable_that_leaves_a_pair_for_a_number_leaves_the_other_as_it_was() -> None:
    with Notebook() as nb:
        pair = nb.run("a = b = [1]")
        parted = nb.run("a = 1")
        assert [change.name for change in parted.changed] == ["a"]
        nb.run("b.append(2)")
        nb.session.rollback(rev(parted))
        assert (nb.namespace["a"], nb.namespace["b"]) == (1, [1])
        nb.session.rollback(rev(pair))
        assert nb.namespace["a"] is nb.namespace["b"]


def test_a_subclass_of_a_number_or_text_is_looked_into() -> None:
    with Notebook() as nb:
        made = nb.run("class Text(str): pass\nx = Text('a'); x.held = [1]; y = x.held")
        nb.run("y.append(2)")
        nb.session.rollback(rev(made))
        assert vars(nb.namespace["x"])["held"] is nb.namespace["y"]
        assert nb.namespace["y"] == [1]
