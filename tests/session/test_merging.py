"""Merging two lines of work, by name: what both changed is a conflict, shown and chosen from."""

from __future__ import annotations

import pytest

from agent_kernel.errors import MergeConflictError, UnrelatedHistoriesError
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from agent_kernel.testing.notebooks import Notebook


def forked(nb: Notebook, *, base: str, side: str, main: str) -> None:
    """Branch `side` off after `base`, run a cell on each branch, and end up on main."""
    nb.run(base)
    nb.session.switch("side", create=True)
    nb.run(side)
    nb.session.switch("main")
    nb.run(main)


def test_both_sides_work_comes_together() -> None:
    with Notebook() as nb:
        forked(nb, base="a = 1\nb = 1\ngone = 1", side="b = 2\nnew = 'theirs'\ndel gone", main="a = 3")
        report = nb.session.merge("side")
        assert nb.look("(a, b, new)") == (3, 2, "theirs")
        assert "gone" not in nb.namespace
        assert report.record is not None
        assert report.record.kind == "merge"
        assert report.record.parents == (nb.repo.resolve("HEAD^1"), nb.repo.resolve("side"))


def test_the_same_change_on_both_sides_is_no_conflict() -> None:
    with Notebook() as nb:
        forked(nb, base="a = 1", side="a = [2]", main="a = [2]")
        nb.session.merge("side")
        assert nb.look("a") == [2]


def test_a_conflict_shows_both_values_and_changes_nothing() -> None:
    with Notebook() as nb:
        forked(nb, base="a = 1\nb = 1", side="a = 'theirs'\nb = 2", main="a = 'ours'")
        head = nb.session.head
        with pytest.raises(MergeConflictError) as raised:
            nb.session.merge("side")
        ((name, ours, theirs),) = raised.value.conflicts
        assert (name, "ours" in ours, "theirs" in theirs) == ("a", True, True)
        assert nb.look("(a, b)") == ("ours", 1)
        assert nb.session.head == head


@pytest.mark.parametrize(("ours", "theirs", "expected"), [(("a",), (), "ours"), ((), ("a",), "theirs")])
def test_a_conflict_is_settled_by_naming_a_side(ours: tuple[str, ...], theirs: tuple[str, ...], expected: str) -> None:
    with Notebook() as nb:
        forked(nb, base="a = 1\nb = 1", side="a = 'theirs'\nb = 2", main="a = 'ours'")
        nb.session.merge("side", ours=ours, theirs=theirs)
        assert nb.look("(a, b)") == (expected, 2)


def test_merging_what_is_already_there_changes_nothing() -> None:
    with Notebook() as nb:
        nb.run("a = 1")
        nb.session.switch("side", create=True)
        nb.session.switch("main")
        nb.run("a = 2")
        assert nb.session.merge("side").changed == ()
        assert nb.look("a") == 2


def test_a_branch_that_is_only_ahead_is_taken_whole() -> None:
    with Notebook() as nb:
        nb.run("a = 1")
        nb.session.switch("side", create=True)
        nb.run("a = [2]\nb = [a]")
        nb.session.switch("main")
        nb.session.merge("side")
        assert nb.session.branch == "main"
        assert nb.look("b[0] is a") is True


def test_values_that_share_come_over_together() -> None:
    with Notebook() as nb:
        forked(nb, base="a = [1]\nb = [a]", side="a.append(2)", main="c = 1")
        nb.session.merge("side")
        assert nb.look("(a, b[0] is a, c)") == ([1, 2], True, 1)


def test_instances_come_over_with_their_class() -> None:
    with Notebook() as nb:
        forked(nb, base="x = 1", side="class C:\n    def m(self):\n        return x\nc = C()", main="x = 5")
        nb.session.merge("side")
        assert nb.look("(c.m(), type(c) is C)") == (5, True)


def test_histories_without_a_common_start_are_refused() -> None:
    mine, theirs = MemoryStore(), MemoryStore()
    with Notebook(Repository.open(theirs)) as other:
        stranger = other.run("x = 2").commit
        assert stranger is not None
    with Notebook(Repository.open(mine)) as nb:
        nb.run("x = 1")
        for kind in (b"c", b"t", b"m", b"b", b"l", b"d", b"s"):
            mine.put_many(theirs.get_many(theirs.keys(kind)))
        nb.repo.create_branch("other", stranger)
        with pytest.raises(UnrelatedHistoriesError):
            nb.session.merge("other")
        assert nb.look("x") == 1
