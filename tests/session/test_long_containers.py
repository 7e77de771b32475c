"""Long containers are saved in segments, and still share objects with the variables that hold parts of them."""

from __future__ import annotations

import pytest

from agent_kernel.testing.notebooks import Notebook, names_changed

LONG = {
    "lists": "rows = [[n] for n in range(5000)]",
    "dicts": "rows = [{'id': n, 'tags': [str(n)]} for n in range(5000)]",
    "instances": "class Row:\n    def __init__(self, n):\n        self.cells = [n]\nrows = [Row(n) for n in range(5000)]",
}
HOLDERS = {
    "the loop variable": ("for last in rows: pass", "last is rows[-1]"),
    "a name": ("last = rows[-1]", "last is rows[-1]"),
    "a list": ("some = [rows[3], rows[4000]]", "some[0] is rows[3] and some[1] is rows[4000]"),
    "a dict": ("by_id = {n: rows[n] for n in (1, 2500)}", "by_id[1] is rows[1] and by_id[2500] is rows[2500]"),
    "a slice": ("head = rows[:5]", "all(a is b for a, b in zip(head, rows))"),
    "two names": ("first = rows[0]\nlast = rows[-1]", "first is rows[0] and last is rows[-1]"),
}


@pytest.mark.parametrize("made", LONG.values(), ids=LONG)
@pytest.mark.parametrize(("holds", "look"), HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("apart", [False, True], ids=["one cell", "two cells"])
def test_what_holds_a_row_holds_the_row_of_the_list(made: str, holds: str, look: str, apart: bool) -> None:
    with Notebook() as nb:
        if apart:
            nb.run(made)
            commit = nb.run(holds)
        else:
            commit = nb.run(f"{made}\n{holds}")
        nb.run("for name in [n for n in list(globals()) if not n.startswith('_')]:\n    del globals()[name]")
        nb.checkout(commit)
        assert nb.look(look)


def test_a_row_that_is_changed_through_another_name_changes_the_list() -> None:
    with Notebook() as nb:
        nb.run(LONG["dicts"])
        before = nb.run("for row in rows: pass")
        report = nb.run("row['id'] = 'changed'")
        assert names_changed(report) == {"row", "rows"}
        assert names_changed(nb.run("rows[3]['id'] = 5")) == {"rows"}
        after = nb.run("row = None")
        nb.checkout(before)
        assert nb.look("(row['id'], rows[-1] is row, rows[3]['id'])") == (4999, True, 3)
        nb.checkout(after)
        assert nb.look("(row, rows[-1]['id'], rows[3]['id'])") == (None, "changed", 5)


def test_two_long_lists_may_share_rows() -> None:
    with Notebook() as nb:
        nb.run(LONG["dicts"])
        commit = nb.run("other = rows[1000:4000]")
        nb.run("other[0]['id'] = 'x'")
        nb.checkout(commit)
        assert nb.look("(len(other), other[0] is rows[1000], other[0]['id'])") == (3000, True, 1000)


def test_sharing_that_leaves_all_contents_equal_is_a_change() -> None:
    with Notebook() as nb:
        nb.run("rows = [[7] for n in range(5000)]")
        before = nb.run("x = 1")
        shared = nb.run("rows[4000] = rows[1]")
        assert names_changed(shared) == {"rows"}
        nb.checkout(before)
        assert nb.look("rows[4000] is rows[1]") is False
        nb.checkout(shared)
        assert nb.look("rows[4000] is rows[1]")


def test_sharing_deep_inside_is_found_before_anything_is_replaced() -> None:
    with Notebook() as nb:
        before = nb.run("rows = [{'t': [7]} for n in range(5000)]")
        nb.run("rows[4000]['t'] = rows[1]['t']")
        nb.checkout(before)
        assert nb.look("rows[4000]['t'] is rows[1]['t']") is False
        nb.session.undo()
        assert nb.look("rows[4000]['t'] is rows[1]['t']")
