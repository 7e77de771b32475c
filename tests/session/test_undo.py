"""Undo reverses the last change, past cells that only looked, and redo makes it again."""

from __future__ import annotations

import pytest

from agent_kernel.errors import NothingToUndoError
from tests.support.notebooks import Notebook, names_changed


class TestUndo:
    def test_reverses_one_cell_after_the_other(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.run("x.append(2)")
            nb.run("x.append(3)\ny = 1")
            nb.session.undo()
            assert nb.look("x") == [1, 2]
            assert "y" not in nb.namespace
            nb.session.undo()
            assert nb.look("x") == [1]
            assert nb.session.branch == "main"

    def test_can_be_redone_until_the_next_cell(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            nb.run("x = 2")
            nb.run("x = 3")
            nb.session.undo()
            nb.session.undo()
            nb.session.redo()
            assert nb.look("x") == 2
            nb.session.redo()
            assert nb.look("x") == 3
            nb.session.undo()
            nb.run("y = 1")
            with pytest.raises(NothingToUndoError):
                nb.session.redo()
            assert nb.look("(x, y)") == (2, 1)

    def test_is_a_new_commit(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            second = nb.run("x = 2")
            report = nb.session.undo()
            assert report.record is not None
            assert report.record.kind == "undo"
            assert report.record.parents == (second.commit,)

    def test_reverses_a_checkout(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = 1")
            nb.run("x = 2")
            nb.checkout(old)
            nb.session.undo()
            assert nb.look("x") == 2
            assert nb.session.branch == "main"
            assert not nb.session.status().detached

    def test_reverses_a_rollback(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = 1")
            nb.run("x = 2\ny = 1")
            nb.rollback(old)
            nb.session.undo()
            assert nb.look("(x, y)") == (2, 1)

    def test_reverses_a_merge(self) -> None:
        with Notebook() as nb:
            nb.run("base = 1")
            nb.session.switch("side", create=True)
            nb.run("theirs = 1")
            nb.session.switch("main")
            nb.run("ours = 1")
            nb.session.merge("side")
            assert nb.variables() == {"base", "ours", "theirs"}
            nb.session.undo()
            assert nb.variables() == {"base", "ours"}

    def test_of_nothing_says_so(self) -> None:
        with Notebook() as nb, pytest.raises(NothingToUndoError):
            nb.session.undo()

    def test_of_the_first_cell_leaves_nothing(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            nb.session.undo()
            assert nb.variables() == set()
            nb.session.redo()
            assert nb.look("x") == 1


class TestLooking:
    """A cell that changes nothing is in the history, and is nothing to undo."""

    def test_undo_reverses_the_last_change_past_cells_that_only_looked(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.run("x.append(2)")
            nb.run("len(x)")
            nb.run("x")
            nb.session.undo()
            assert nb.look("x") == [1]
            nb.run("x")
            nb.session.redo()
            assert nb.look("x") == [1, 2]

    def test_undo_takes_a_merge_back_past_a_look_at_what_it_brought(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.session.switch("side", create=True)
            nb.run("y = [2]")
            nb.session.switch("main")
            nb.run("x.append(3)")
            nb.session.merge("side")
            nb.run("y[:1]")
            nb.session.undo()
            assert nb.variables() == {"x"}
            nb.run("x")
            nb.session.redo()
            assert nb.look("(x, y)") == ([1, 3], [2])

    def test_redo_says_that_a_cell_changed_something_since(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            nb.session.undo()
            nb.run("y = 1")
            with pytest.raises(NothingToUndoError, match="a cell ran since the last undo"):
                nb.session.redo()

    def test_redo_never_takes_the_place_of_what_no_cell_has_committed(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.run("x = [2]")
            nb.session.undo()
            nb.namespace["ticks"] = 7  # as a thread would
            with pytest.raises(NothingToUndoError, match="since the last undo"):
                nb.session.redo()
            assert nb.look("(x, ticks)") == ([1], 7)

    def test_a_look_at_a_past_state_starts_no_branch(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = [1]")
            nb.run("x.append(2)")
            nb.checkout(old)
            nb.run("x")
            assert nb.session.branch is None
            assert list(nb.repo.branches()) == ["main"]
            nb.run("x.append(3)")
            assert nb.session.branch is not None


def test_undo_and_redo_across_branches_end_on_the_tip_of_each() -> None:
    with Notebook() as nb:
        nb.run("a = [1]")
        nb.session.switch("side", create=True)
        nb.run("b = 2")
        nb.session.undo()
        nb.session.undo()
        assert nb.session.branch == "main"
        nb.session.redo()
        assert (nb.session.branch, nb.look("'b' in globals()")) == ("side", False)
        nb.session.redo()
        assert nb.look("b") == 2
        nb.run("c = 3")
        assert nb.repo.branches()["side"] == nb.session.head
        nb.session.switch("main")
        nb.session.undo()
        assert nb.look("(a, b, c)") == ([1], 2, 3)


def test_undo_and_redo_find_a_branch_that_was_renamed() -> None:
    with Notebook() as nb:
        nb.run("a = 1")
        nb.session.switch("side", create=True)
        nb.run("b = 1")
        nb.session.switch("main")
        nb.session.undo()
        nb.session.rename_branch("try")
        nb.session.redo()
        assert nb.session.branch == "main"
        nb.session.undo()
        assert nb.session.branch == "try"


def test_undo_of_leaving_a_branch_that_is_gone_by_now_goes_to_its_commit() -> None:
    with Notebook() as nb:
        nb.run("a = [1]")
        nb.session.switch("side", create=True)
        nb.run("b = 2")
        nb.session.switch("main")
        nb.repo.delete_branch("side", force=True)
        nb.session.undo()
        assert (nb.session.branch, nb.look("b")) == (None, 2)
        nb.run("c = 3")
        assert nb.session.branch == "main-2"


def test_undo_takes_back_what_no_cell_committed_before_anything_else() -> None:
    with Notebook() as nb:
        nb.run("q = 1")
        nb.namespace |= {"q": 2, "hours": [1, 2]}
        nb.session.undo()
        assert nb.look("(q, 'hours' in globals())") == (1, False)
        nb.session.redo()
        assert nb.look("(q, hours)") == (2, [1, 2])
        nb.session.undo()
        nb.session.undo()
        assert nb.look("'q' in globals()") is False


# What a cell does to names that share something, and which of them it changes: undo and redo report the same.
SHARERS: dict[str, tuple[str, str, set[str]]] = {
    "one goes": ("words = ['a', 'b']; h = {'w': words}; k = [words]", "del words", {"words"}),
    "one comes": ("words = ['a', 'b']; h = {'w': words}", "k = [words]", {"k"}),
    "the last sharer comes": ("words = ['a', 'b']", "k = [words]", {"k"}),
    "the last sharer goes": ("words = ['a', 'b']; h = {'w': words}", "del h", {"h"}),
    "one takes another": ("words = ['a', 'b']; h = {'w': words}", "words = ['c']", {"words"}),
    "one goes and one changes": (
        "words = ['a', 'b']; h = {'w': words, 'n': 1}; k = [words]",
        "del words; h['n'] = 2",
        {"words", "h"},
    ),
    "all change": ("words = ['a', 'b']; h = {'w': words}; k = [words]", "words.append('c')", {"words", "h", "k"}),
    "one of two groups": (
        "a = [1]; b = [a]; c = [2]; d = [c]; e = [a, c]",
        "del e",
        {"e"},
    ),
    "a view of an array": (
        "import numpy as np\nx = np.arange(99.0); y = x[:9]; z = x[50:]",
        "del x",
        {"x"},
    ),
    "a window that shows no change": ("import numpy as np\nx = np.arange(99.0); y = x[:9]", "x[50] = -1", {"x"}),
    "a row of many": ("rows = [[n] for n in range(5000)]; row = rows[7]; h = [row]", "del row", {"row"}),
    "an instance": ("class C: pass\nc = C(); c.v = [1]; v = c.v; h = [c]", "del v", {"v"}),
}


@pytest.mark.sampled
@pytest.mark.parametrize(("made", "cell", "changed"), SHARERS.values(), ids=SHARERS)
def test_what_others_share_is_no_change_of_theirs(made: str, cell: str, changed: set[str]) -> None:
    with Notebook() as nb:
        nb.run(made)
        assert names_changed(nb.run(cell)) == changed
        for _ in range(2):
            assert names_changed(nb.session.undo()) == changed
            assert names_changed(nb.session.redo()) == changed


def test_that_the_same_names_share_in_another_way_is_a_change_of_them() -> None:
    with Notebook() as nb:
        nb.run("a = [1]; b = [[1], a]; c = [a]")
        before = nb.session.head
        nb.run("b[0] = a")
        assert nb.session.head != before
        assert names_changed(nb.session.undo()) >= {"b"}
        assert nb.look("b[0] is not a and b[1] is a")
