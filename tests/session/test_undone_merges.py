"""A merge that was undone is no merge any more: it can be made again, and is made whole."""

from __future__ import annotations

import pytest

from agent_kernel.errors import MergeConflictError
from tests.session.forking import forked
from tests.support.notebooks import Notebook


def _fork_with_a_clash(nb: Notebook) -> None:
    nb.run("d = 1")
    nb.session.switch("b", create=True)
    nb.run("d = 2; only_b = [1]")
    nb.session.switch("main")
    nb.run("d = 3")


def test_a_merge_that_was_undone_can_be_made_again_with_another_choice() -> None:
    with Notebook() as nb:
        _fork_with_a_clash(nb)
        nb.session.merge("b", ours={"d"})
        nb.session.undo()
        assert nb.look("'only_b' in globals()") is False
        nb.session.merge("b", theirs={"d"})
        assert nb.look("(d, only_b)") == (2, [1])
        assert "already up to date" in nb.session.merge("b").notes[0]


def test_a_merge_that_changed_nothing_is_undone_by_itself_and_asks_again() -> None:
    with Notebook() as nb:
        forked(nb, base="a = [1]", side="a.append('theirs')", main="a.append('ours')")
        merged = nb.session.merge("side", ours={"a"})
        assert (merged.record.kind if merged.record else "", merged.changed) == ("merge", ())
        undone = nb.session.undo()
        assert undone.record is not None
        assert "undo of" in undone.record.message
        assert nb.look("a") == [1, "ours"]
        with pytest.raises(MergeConflictError):
            nb.session.merge("side")
        nb.session.redo()
        assert "already up to date" in nb.session.merge("side").notes[0]
        nb.session.undo()
        nb.session.merge("side", theirs={"a"})
        assert nb.look("a") == [1, "theirs"]


def test_a_branch_keeps_its_own_when_it_merges_a_line_that_undid_it() -> None:
    with Notebook() as nb:
        _fork_with_a_clash(nb)
        nb.session.merge("b", ours={"d"})
        nb.session.undo()
        nb.run("e = 5")
        nb.session.switch("b")
        nb.session.merge("main", ours={"d"})
        assert nb.look("(d, e, only_b)") == (2, 5, [1])


def test_a_fast_forward_that_was_undone_can_be_made_again() -> None:
    with Notebook() as nb:
        nb.run("x = 1")
        nb.session.switch("b", create=True)
        nb.run("only_b = [1]")
        nb.session.switch("main")
        nb.session.merge("b")
        nb.session.undo()
        assert nb.look("'only_b' in globals()") is False
        nb.session.merge("b")
        assert nb.look("only_b") == [1]


def test_a_single_variable_that_was_taken_back_leaves_a_merge_merged() -> None:
    with Notebook() as nb:
        _fork_with_a_clash(nb)
        nb.session.merge("b", theirs={"d"})
        nb.checkout("HEAD^1", names=["d"])
        assert "already up to date" in nb.session.merge("b").notes[0]
        assert nb.look("(d, only_b)") == (3, [1])


def test_a_merge_of_the_line_that_a_branch_left_is_up_to_date_whatever_was_taken_from_it() -> None:
    with Notebook() as nb:
        first = nb.run("x = 1")
        nb.run("y = 2")
        nb.session.undo()
        nb.run("del x")
        nb.session.switch("b", create=True)
        nb.checkout(first, names=["x"])
        assert "already up to date" in nb.session.merge("main").notes[0]
        assert nb.look("x") == 1
        nb.rollback(first)
        assert "already up to date" in nb.session.merge("main").notes[0]


def _merge_undone(nb: Notebook) -> None:
    forked(nb, base="d = 1", side="theirs = [1]", main="m = 1")
    nb.session.merge("side")
    nb.session.undo()


def test_a_merge_that_was_undone_is_made_whole_when_the_other_side_went_on() -> None:
    with Notebook() as nb:
        _merge_undone(nb)
        nb.session.switch("side")
        nb.run("more = 2")
        nb.session.switch("main")
        nb.session.merge("side")
        assert nb.look("(d, m, theirs, more)") == (1, 1, [1], 2)


def test_a_branch_that_went_on_keeps_its_own_when_it_merges_a_line_that_undid_it() -> None:
    with Notebook() as nb:
        _merge_undone(nb)
        nb.run("e = 5")
        nb.session.switch("side")
        nb.run("more = 2")
        nb.session.merge("main")
        assert nb.look("(d, m, e, theirs, more)") == (1, 1, 5, [1], 2)


def test_a_fast_forward_that_was_undone_is_made_whole_when_the_other_side_went_on() -> None:
    with Notebook() as nb:
        nb.run("x = 1")
        nb.session.switch("side", create=True)
        nb.run("theirs = [1]")
        nb.session.switch("main")
        nb.session.merge("side")
        nb.session.undo()
        nb.run("e = 5")
        nb.session.switch("side")
        nb.run("more = 2")
        nb.session.switch("main")
        nb.session.merge("side")
        assert nb.look("(x, e, theirs, more)") == (1, 5, [1], 2)


def test_what_was_undone_after_the_merge_was_does_not_make_it_merged() -> None:
    with Notebook() as nb:
        _merge_undone(nb)
        nb.run("e = 5")
        nb.session.undo()
        nb.session.merge("side")
        assert nb.look("theirs") == [1]


def test_a_merge_that_was_done_again_is_merged() -> None:
    with Notebook() as nb:
        _merge_undone(nb)
        nb.session.redo()
        nb.run("del theirs")
        nb.session.switch("side")
        nb.run("more = 2")
        nb.session.switch("main")
        nb.session.merge("side")
        assert nb.variables() == {"d", "m", "more"}


def test_undoing_what_followed_a_rollback_leaves_the_rollback_a_change_of_its_own() -> None:
    with Notebook() as nb:
        older = nb.run("f = [1]")
        nb.run("f = {'q': 2}")
        nb.session.switch("side", create=True)
        nb.run("theirs = 1")
        nb.session.switch("main")
        nb.rollback(older)
        nb.run("a = 1")
        nb.session.undo()
        nb.session.merge("side")
        assert nb.look("(f, theirs)") == ([1], 1)
