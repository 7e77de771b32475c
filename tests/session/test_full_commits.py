"""A full commit with nothing in between records nothing, whatever long containers hold and however they were cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_kernel.session import Versioned
from agent_kernel.session import open as open_repository
from tests.support.notebooks import Notebook, names_changed

# About the bounds of segments: one is cut from 2,000 items on, at every thousand, and none has more than 2,250.
LENGTHS = st.one_of(
    st.sampled_from([999, 1000, 1001, 1999, 2000, 2001, 2249, 2250, 2251, 2999, 3000, 3001]), st.integers(999, 3001)
)
ITEMS = {
    "small numbers": "[1, 2, 3][n % 3]",
    "one number": "0",
    "numbers": "n",
    "texts": "str(n)",
    "equal texts": "'x' * (n % 5)",
    "rows": "[n]",
    "equal rows": "[7]",
    "nested rows": "{'id': n, 'tags': [str(n % 4), (n % 3,)]}",
    "one row": "one",
    "rows with one part": "[n, one]",
    "a row of few": "few[n % 7]",
}
FORMS = {
    "list": "[{item} for n in range({length})]",
    "tuple": "tuple({item} for n in range({length}))",
    "dict": "{{n: {item} for n in range({length})}}",
    "dict by text": "{{str(n): {item} for n in range({length})}}",
    "numbers in a set": "{{n % 5000 for n in range({length})}}",
    "texts in a set": "{{str(n) for n in range({length})}}",
    "pairs in a set": "{{(n, str(n % 9)) for n in range({length})}}",
    "a list within": "{{'deep': [[{item} for n in range({length})]]}}",
}
CHANGES = {
    "nothing": "",
    "a first one is added": "change(0, 0)",
    "the first go": "change(0, 300)",
    "some go from the middle": "change(700, 1100)",
    "many come in the middle": "change(1500, 1500, 1300)",
    "the last go": "change(-1 * (len(it()) // 7 + 1), None, 0)",
    "it is turned around": "turn()",
    "it is made anew": "again()",
}
EDITS = """
import copy
def it():
    return rows["deep"][0] if type(rows) is dict and "deep" in rows else rows
def put(items):
    global rows
    if type(it()) is list:
        it()[:] = items
    else:
        rows = type(rows)(items)
def items():
    return list(it().items() if type(it()) is dict else it())
def change(start, end, added=1):
    had = items()
    new = [-n - 1 for n in range(added)]
    had[start:end] = [(n, [n]) for n in new] if type(it()) is dict else new
    put(had)
def turn():
    put(items()[::-1])
def again():
    global rows
    rows = copy.deepcopy(rows)
"""
forms, items, changes = (st.sampled_from(sorted(some)) for some in (FORMS, ITEMS, CHANGES))
few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
many = settings(few, max_examples=200)


def made(form: str, item: str, length: int) -> str:
    return FORMS[form].format(item=ITEMS[item], length=length)


@few
@given(forms, items, LENGTHS)
def test_of_a_mapping_with_history_two_full_commits_record_one_change(form: str, item: str, length: int) -> None:
    commit_a_mapping_twice(form, item, length)


@pytest.mark.slow
@many
@given(forms, items, LENGTHS)
def test_of_any_mapping_with_history_two_full_commits_record_one_change(form: str, item: str, length: int) -> None:
    commit_a_mapping_twice(form, item, length)


def commit_a_mapping_twice(form: str, item: str, length: int) -> None:
    parts: dict[str, Any] = {"one": [0], "few": [[n] for n in range(7)]}
    with Versioned(open_repository("memory:")) as state:
        state["p"] = eval(made(form, item, length), parts)
        assert [change.name for change in state.session.commit(full=True).changed] == ["p"]
        stored = state.repo.stats()
        assert state.session.commit(full=True).changed == ()
        assert state.session.commit(full=True).changed == ()
        assert state.repo.stats() == stored


BESIDE = {
    "nothing": "pass",
    "the last one": "last = it()[-1] if type(it()) in (list, tuple) else None",
    "some of them": "some = items()[3:9]",
    "all of them": "other = items()",
    "half of them": "half = tuple(items()[len(it()) // 2:])",
    "the parts": "parts = [one, few]",
    "itself": "same = [rows]",
}


@few
@given(forms, items, LENGTHS, st.sampled_from(sorted(BESIDE)), st.lists(changes, max_size=3), st.booleans())
def test_of_names_that_share_rows_a_full_commit_records_nothing_that_cells_did_not(
    form: str, item: str, length: int, beside: str, edits: list[str], restored: bool
) -> None:
    commit_after_cells(form, item, length, beside, edits, restored=restored)


@pytest.mark.slow
@many
@given(forms, items, LENGTHS, st.sampled_from(sorted(BESIDE)), st.lists(changes, max_size=3), st.booleans())
def test_of_any_names_that_share_rows_a_full_commit_records_nothing_that_cells_did_not(
    form: str, item: str, length: int, beside: str, edits: list[str], restored: bool
) -> None:
    commit_after_cells(form, item, length, beside, edits, restored=restored)


def commit_after_cells(form: str, item: str, length: int, beside: str, edits: list[str], *, restored: bool) -> None:
    with Notebook() as nb:
        nb.run(f"one, few = [0], [[n] for n in range(7)]\n{EDITS}")
        nb.run(f"rows = {made(form, item, length)}")
        nb.run(BESIDE[beside])
        for edit in edits:
            nb.run(CHANGES[edit] or "pass")
        assert names_changed(nb.session.commit(full=True)) == set()
        assert names_changed(nb.session.commit(full=True)) == set()
        if restored:
            here = nb.run("at = 1")
            nb.run("rows = one = few = last = some = other = half = parts = same = None")
            nb.checkout(here)
            assert names_changed(nb.session.commit(full=True)) == set()
            assert names_changed(nb.session.commit(full=True)) == set()


@pytest.mark.parametrize("holds", ["part = rows[5]", "part = rows[-1]"])
@pytest.mark.parametrize("length", [2000, 2001])
def test_a_tuple_that_is_one_segment_shares_its_rows(length: int, holds: str) -> None:
    with Notebook() as nb:
        nb.run(f"rows = tuple([n] for n in range({length}))")
        held = nb.run(holds)
        nb.run("rows = part = None")
        nb.checkout(held)
        assert nb.look(f"{holds.removeprefix('part = ')} is part")
