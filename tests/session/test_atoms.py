"""Numbers, texts and None are saved without a look at what they lead to: exactly as what is looked at is."""

from __future__ import annotations

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


def entries_of(values: list[object], *, looked_into: bool) -> list[object]:
    """What the tree holds for one name that is bound to each of the values in turn, and what was said of each."""
    with pytest.MonkeyPatch.context() as patch, Notebook() as nb:
        if looked_into:
            patch.setattr(Dumps, "_is_atom", lambda *_: False)
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
