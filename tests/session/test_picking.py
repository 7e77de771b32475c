"""Picking a commit brings its own change alone, as one commit."""

from __future__ import annotations

import pytest

from agent_kernel.errors import MergeCommitError, MergeConflictError
from agent_kernel.repository import hex_of
from tests.session.forking import forked
from tests.support.notebooks import Notebook


def test_a_picked_commit_brings_its_own_change_alone() -> None:
    with Notebook() as nb:
        forked(nb, base="a = 1\ngone = 1", side="early = 1", main="mine = 1")
        nb.session.switch("side")
        nb.run("# the good part\na = 2\ndel gone")
        nb.run("late = 1")
        nb.session.switch("main")
        report = nb.session.cherry_pick("side~1")
        assert nb.look("(a, mine)") == (2, 1)
        assert nb.variables() == {"a", "mine"}
        assert [change.how + change.name for change in report.changed] == ["~a", "-gone"]


def test_a_pick_is_one_commit_with_one_parent_that_names_what_was_picked() -> None:
    with Notebook() as nb:
        forked(nb, base="a = 1", side="# the good part\na = 2", main="b = 1")
        picked = nb.repo.resolve("side")
        record = nb.session.cherry_pick("side").record
        assert record is not None
        assert (record.kind, record.parents) == ("cherry-pick", (nb.repo.resolve("HEAD^"),))
        assert record.message == f"the good part\n\n(cherry picked from commit {hex_of(picked)})"
        assert record.author == nb.repo.commit_at(picked).author
        assert nb.repo.resolve(hex_of(picked)) == picked
        assert [entry.message for entry in nb.repo.reflog("main", 1)] == ["the good part"]


def test_a_pick_is_undone_and_redone_as_one_operation() -> None:
    with Notebook() as nb:
        forked(nb, base="a = 1", side="a = 2\nnew = 3", main="b = 1")
        nb.session.cherry_pick("side", message="taken")
        nb.session.undo()
        assert nb.look("(a, b)") == (1, 1)
        assert "new" not in nb.namespace
        nb.session.redo()
        assert nb.look("(a, b, new)") == (2, 1, 3)


def test_a_pick_that_clashes_changes_nothing_and_a_side_settles_it() -> None:
    with Notebook() as nb:
        forked(nb, base="a = 1", side="a = 'theirs'\nb = 2", main="a = 'ours'")
        head = nb.session.head
        with pytest.raises(MergeConflictError) as raised:
            nb.session.cherry_pick("side")
        assert raised.value.variables == ("a",)
        assert (nb.look("a"), nb.session.head) == ("ours", head)
        nb.session.cherry_pick("side", theirs=["a"])
        assert nb.look("(a, b)") == ("theirs", 2)


def test_a_picked_change_inside_a_dict_is_merged_by_key() -> None:
    with Notebook() as nb:
        forked(nb, base="d = {'x': 1}", side="d['early'] = 1", main="d['mine'] = 1")
        nb.session.switch("side")
        nb.run("d['x'] = 2")
        nb.session.switch("main")
        nb.session.cherry_pick("side")
        assert nb.look("d") == {"x": 2, "mine": 1}


def test_a_first_commit_is_picked_whole_into_another_history() -> None:
    with Notebook() as nb:
        nb.run("a = 1")
        nb.run("b = 2")
        nb.run("del a")
        nb.session.cherry_pick("HEAD~2")
        assert nb.look("(a, b)") == (1, 2)


def test_a_merge_is_not_picked() -> None:
    with Notebook() as nb:
        forked(nb, base="a = 1", side="b = 1", main="c = 1")
        nb.session.merge("side")
        head = nb.session.head
        with pytest.raises(MergeCommitError, match="merge of 2 commits") as raised:
            nb.session.cherry_pick("main")
        assert "\n" not in str(raised.value)
        assert nb.session.head == head


def test_what_is_here_already_makes_no_commit() -> None:
    with Notebook() as nb:
        forked(nb, base="a = 1", side="a = 2", main="a = 2\nb = 1")
        head = nb.session.head
        report = nb.session.cherry_pick("side")
        assert (nb.session.head, report.changed) == (head, ())
        assert report.notes == ("nothing to cherry-pick: the changes of side are here already",)


def test_a_picked_change_of_a_class_that_nothing_here_is_made_of_brings_no_class() -> None:
    with Notebook() as nb:
        nothing = nb.run("x = 1")
        nb.run("class K: n = 1\nk = K()")
        nb.run("K.n = 2")
        nb.rollback(nothing)
        head = nb.session.head
        nb.session.cherry_pick("HEAD~1")
        assert nb.session.head == head
        nb.session.verify_all()
        assert nb.session.head == head
