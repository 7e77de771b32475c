"""Merging two lines of work, by name: what both changed is a conflict, shown and chosen from."""

from __future__ import annotations

import pytest

from agent_kernel.errors import MergeChoiceError, MergeConflictError, UnrelatedHistoriesError
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.session.forking import forked
from tests.support.notebooks import Notebook


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


@pytest.mark.parametrize(("ours", "theirs"), [("a", "b"), ("b", "a")])
def test_values_that_share_objects_cannot_be_taken_from_both_sides(ours: str, theirs: str) -> None:
    with Notebook() as nb:
        forked(
            nb,
            base="a = [1]\nb = {'l': a, 'k': 0}",
            side="a.append('x'); b['k'] = 'x'",
            main="a.append('m'); b['k'] = 'm'",
        )
        head = nb.session.head
        for choose in (nb.session.merge, nb.session.cherry_pick):
            with pytest.raises(MergeChoiceError) as raised:
                choose("side", ours={ours}, theirs={theirs})
            assert (raised.value.names, raised.value.ours, raised.value.theirs) == (("a", "b"), (ours,), (theirs,))
        assert nb.session.head == head
        nb.session.merge("side", theirs={theirs})
        assert nb.look("(a, b, b['l'] is a)") == ([1, "x"], {"l": [1, "x"], "k": "x"}, True)


def test_one_variable_cannot_be_taken_from_both_sides() -> None:
    with Notebook() as nb:
        forked(nb, base="d = {'k': 0}", side="d['k'] = 1", main="d['k'] = 2")
        with pytest.raises(MergeChoiceError, match="d was chosen from both sides"):
            nb.session.merge("side", ours={"d"}, theirs={"d"})


def test_dicts_that_both_sides_added_are_merged_by_key() -> None:
    with Notebook() as nb:
        forked(nb, base="x = 1", side="d = {'same': 0, 'theirs': [2]}", main="d = {'same': 0, 'ours': 1}")
        nb.session.merge("side")
        assert nb.look("d") == {"same": 0, "ours": 1, "theirs": [2]}


def test_keys_that_clash_in_dicts_that_both_sides_added_are_a_conflict() -> None:
    with Notebook() as nb:
        forked(nb, base="x = 1", side="d = {'k': 2, 'theirs': 2}", main="d = {'k': 1, 'ours': 1}")
        with pytest.raises(MergeConflictError) as raised:
            nb.session.merge("side")
        assert [name for name, _, _ in raised.value.conflicts] == ["d['k']"]
        nb.session.merge("side", theirs=["d"])
        assert nb.look("d") == {"k": 2, "ours": 1, "theirs": 2}


def test_a_class_of_ours_whose_values_all_go_goes_too() -> None:
    with Notebook() as nb:
        other = nb.run("class K: n = 1")
        nb.run("class K: n = 2")
        nb.session.switch("side", create=True)
        nb.checkout(other, names=["K"])
        nb.session.switch("main")
        nb.run("K.n = 3")
        head = nb.session.merge("side", theirs=["K"]).commit
        assert nb.look("K.n") == 1
        nb.session.verify_all()
        assert nb.session.head == head


def test_a_class_that_they_made_anew_stays_where_ours_is_chosen() -> None:
    with Notebook() as nb:
        forked(nb, base="class K: n = 1", side="class K: n = 2", main="x = 1")
        nb.session.merge("side", ours=["K"])
        head = nb.session.head
        nb.session.verify_all()
        assert nb.session.head == head
    with Notebook(nb.repo) as nb:
        nb.checkout()
        assert nb.look("K.n") == 1


ONE_SIDED = {
    "a list": ("a = [0]", "a.append('x')", "b = a", "b == [0] and a == [0, 'x']"),
    "a part of it": ("a = {'l': [0]}", "a['l'] = ['x']", "b = a['l']", "b == [0] and a == {'l': ['x']}"),
    "what leads to it": ("a = [0]", "a.append('x')", "b = {'held': a}", "b == {'held': [0]} and a == [0, 'x']"),
    "a view": (
        "import numpy as np\na = np.zeros(3)",
        "a = np.ones(3)",
        "b = a[1:]",
        "b.tolist() == [0, 0] and a.tolist() == [1, 1, 1]",
    ),
    "a class that holds it": (
        "a = [0]",
        "a.append('x')",
        "class B:\n    held = a\nb = B()",
        "b.held == B.held == [0] and type(b) is B and a == [0, 'x']",
    ),
}


@pytest.mark.parametrize("how", ONE_SIDED)
def test_what_we_alone_made_stays_where_their_value_is_chosen_of_what_it_shares_objects_with(how: str) -> None:
    base, side, main, is_so = ONE_SIDED[how]
    with Notebook() as nb:
        forked(nb, base=base, side=side, main=main)
        with pytest.raises(MergeConflictError) as raised:
            nb.session.merge("side")
        assert raised.value.variables == ("a",)
        assert raised.value.together == ()
        nb.session.merge("side", theirs={"a"})
        assert nb.look(is_so)
        assert nb.run("n = 1").unsaved == ()
    with Notebook(nb.repo) as again:
        again.checkout()
        assert again.look(is_so)


@pytest.mark.parametrize("how", ONE_SIDED)
def test_what_they_alone_made_comes_where_our_value_is_chosen_of_what_it_shares_objects_with(how: str) -> None:
    base, main, side, is_so = ONE_SIDED[how]
    with Notebook() as nb:
        forked(nb, base=base, side=side, main=main)
        nb.session.merge("side", ours={"a"})
        assert nb.look(is_so)
        assert nb.run("n = 1").unsaved == ()
    with Notebook(nb.repo) as again:
        again.checkout()
        assert again.look(is_so)


def test_what_one_side_alone_made_goes_where_that_is_said_of_it() -> None:
    with Notebook() as nb:
        forked(nb, base="a = [0]", side="a.append('x')", main="b = a\nc = a")
        nb.session.merge("side", theirs={"a", "b"})
        assert nb.look("(a, c)") == ([0, "x"], [0])
        assert "b" not in nb.namespace


def test_instances_of_a_class_that_both_sides_changed_stay_with_the_class_that_is_chosen() -> None:
    with Notebook() as nb:
        forked(
            nb,
            base="class K:\n    word = 'base'\nfirst = K()",
            side="K.word = 'theirs'\ntheir = K()",
            main="K.word = 'ours'\nour = K()\nour.held = [1]",
        )
        with pytest.raises(MergeConflictError) as raised:
            nb.session.merge("side")
        nb.session.merge("side", theirs={raised.value.variables[0]})
        assert nb.look("(K.word, our.word, our.held, their.word, first.word)") == (
            *["theirs"] * 2,
            [1],
            *["theirs"] * 2,
        )
        assert nb.look("type(our) is type(their) is type(first) is K")
