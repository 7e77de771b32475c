"""Forgetting under a live session: the history loses what it is told to, and memory nothing."""

from __future__ import annotations

import pytest

from agent_kernel.errors import NameNotFoundError
from agent_kernel.repository import Retention
from agent_kernel.testing.notebooks import Notebook

CELL = "x = 2; rows.append(2); new = 7; del old"


def forgotten(nb: Notebook) -> None:
    """The last cell is forgotten; memory is as it left it."""
    nb.run("x = 1; rows = [1]; same = rows; old = 5")
    nb.run(CELL)
    nb.session.forget("HEAD")


def test_what_a_forgotten_commit_had_changed_is_called_uncommitted() -> None:
    with Notebook() as nb:
        forgotten(nb)
        status = nb.session.status()
        assert [(change.how, change.name) for change in status.changed] == [("+", "new"), ("-", "old")]
        assert status.unverified == ("rows", "same", "x")


def test_the_next_commit_holds_what_memory_holds() -> None:
    with Notebook() as nb:
        forgotten(nb)
        report = nb.run("y = 1")
        assert {(change.how, change.name) for change in report.changed} == {
            ("+", "y"),
            ("~", "rows"),
            ("~", "same"),
            ("+", "new"),
            ("-", "old"),
            ("~", "x"),
        }
        nb.session.checkout("HEAD~1")
        nb.session.switch("main")
        assert nb.look("(x, rows, rows is same, new, 'old' in globals())") == (2, [1, 2], True, 7, False)


def test_nothing_is_replaced_before_it_is_committed() -> None:
    with Notebook() as nb:
        forgotten(nb)
        nb.session.checkout("main~0")
        assert nb.look("(x, rows, old)") == (1, [1], 5)
        nb.session.switch("main")
        assert nb.look("(x, rows, rows is same, new, 'old' in globals())") == (2, [1, 2], True, 7, False)


def test_a_forgotten_commit_whose_state_came_back_leaves_nothing_uncommitted() -> None:
    with Notebook() as nb:
        nb.run("x = 1; rows = [1]")
        nb.run("x = 2; rows.append(2)")
        nb.session.undo()
        nb.session.forget("HEAD~1")
        assert not nb.session.status().changed
        assert nb.session.commit().commit is None


def test_variables_and_commits_go_together_and_stay_in_memory() -> None:
    with Notebook() as nb:
        nb.run("token = 'first'; kept = 1")
        nb.run("kept = 2")
        nb.run("other = [token]")
        nb.session.forget("token", "HEAD~1", "other")
        assert [cell.source for _, commit in nb.repo.log() if (cell := commit.cell)] == [
            "other = [token]",
            "token = 'first'; kept = 1",
        ]
        assert nb.session.ignored() == ("other", "token")
        assert nb.look("(token, kept, other)") == ("first", 2, ["first"])
        nb.run("later = 1")
        assert set(nb.repo.at("HEAD")) == {"kept", "later"}
        assert nb.repo.at("HEAD")["kept"] == 2


def test_a_class_of_a_forgotten_commit_is_committed_with_its_instances() -> None:
    with Notebook() as nb:
        nb.run("x = 1")
        nb.run(
            "class Point:\n    def __init__(self, v): self.v = v\n    def twice(self): return 2 * self.v\np = Point(4)"
        )
        nb.session.forget("HEAD")
        nb.run("y = 1")
        nb.session.checkout("HEAD~1")
        assert nb.look("'Point' in globals()") is False
        nb.session.switch("main")
        assert nb.look("(p.twice(), Point(5).twice(), type(p) is Point)") == (8, 10, True)
        assert nb.repo.at("HEAD")["p"].twice() == 8  # type: ignore[attr-defined]  # it has the class of the store


def test_masking_the_code_goes_with_variables_alone() -> None:
    with Notebook() as nb:
        nb.run("token = 'a-long-secret'")
        nb.run("x = 1")
        head = nb.session.head
        with pytest.raises(ValueError, match="variables alone"):
            nb.session.forget("token", "HEAD", sources=True)
        assert (nb.session.head, nb.session.ignored()) == (head, ())


def test_one_that_is_not_there_keeps_all() -> None:
    with Notebook() as nb:
        nb.run("a = 1; b = 2")
        head = nb.session.head
        with pytest.raises(NameNotFoundError, match="never"):
            nb.session.forget("a", "never", "b")
        assert (nb.session.head, nb.session.ignored()) == (head, ())


def test_pruning_nothing_leaves_undo_as_it_was() -> None:
    with Notebook() as nb:
        nb.run("x = [1]")
        nb.run("x.append(2)")
        nb.session.prune(Retention(keep_last=10))
        nb.session.undo()
        assert nb.look("x") == [1]
