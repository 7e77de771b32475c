"""Merging two lines of work, by name: what both changed is a conflict, shown and chosen from."""

from __future__ import annotations

from typing import cast

import pytest

from agent_kernel.errors import MergeChoiceError, MergeCommitError, MergeConflictError, UnrelatedHistoriesError
from agent_kernel.repository import hex_of
from agent_kernel.session import Repository
from agent_kernel.session.settling import Resolver
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


# -- resolvers by type


def longer(base: object, ours: object, theirs: object) -> object:
    del base
    return max(ours, theirs, key=len) if isinstance(ours, list) and isinstance(theirs, list) else NotImplemented


def total(base: object, ours: object, theirs: object) -> object:
    """Both sides counted on from the base."""
    assert isinstance(ours, int)
    assert isinstance(theirs, int)
    return ours + theirs - (base if isinstance(base, int) else 0)


def test_a_resolver_merges_values_of_its_type_that_both_sides_changed() -> None:
    with Notebook() as nb:
        forked(nb, base="n = 10\nm = 1", side="n = 13\nm = 2", main="n = 15")
        nb.session.merge("side", resolvers={int: total})
        assert nb.look("(n, m)") == (18, 2)
        nb.session.undo()
        assert nb.look("(n, m)") == (15, 1)


def test_a_resolver_is_told_none_where_both_sides_added_the_value() -> None:
    with Notebook() as nb:
        forked(nb, base="x = 1", side="n = 3", main="n = 4")
        nb.session.merge("side", resolvers={int: total})
        assert nb.look("n") == 7


def test_the_resolver_of_the_nearest_type_is_asked() -> None:
    with Notebook() as nb:
        nb.run("from collections import OrderedDict, Counter")
        forked(nb, base="c = Counter(a=1)", side="c['a'] += 2", main="c['a'] += 3")
        nb.session.merge("side", resolvers={object: lambda *_: "any", dict: lambda *_: "dict"})
        assert nb.look("c") == "dict"


def test_a_resolver_sees_instances_of_the_live_class() -> None:
    with Notebook() as nb:
        forked(nb, base="class Tally: n = 1\nt = Tally()", side="t.n = 3", main="t.n = 5")
        nb.execute("def summed(was, mine, new):\n    mine.n += new.n - was.n\n    return mine")
        nb.session.merge("side", resolvers=cast("dict[type, Resolver]", nb.look("{Tally: summed}")))
        assert nb.look("(t.n, type(t) is Tally)") == (7, True)


def test_keys_of_a_dict_that_hold_instances_are_merged() -> None:
    with Notebook() as nb:
        forked(nb, base="class C: pass\nd = {'c': C(), 'n': 1}", side="d['n'] = 2", main="d['new'] = 3")
        nb.session.merge("side")
        assert nb.look("(d['n'], d['new'], type(d['c']) is C)") == (2, 3, True)


def refuses(*_: object) -> object:
    raise MergeConflictError(())


@pytest.mark.parametrize("resolver", [lambda *_: NotImplemented, refuses], ids=["not implemented", "a conflict"])
def test_what_a_resolver_declines_stays_a_conflict(resolver: Resolver) -> None:
    with Notebook() as nb:
        forked(nb, base="n = 1", side="n = 2", main="n = 3")
        with pytest.raises(MergeConflictError) as raised:
            nb.session.merge("side", resolvers={int: resolver})
        assert raised.value.variables == ("n",)
        assert nb.look("n") == 3


def test_an_error_of_a_resolver_ends_the_merge_with_nothing_changed() -> None:
    def fails(base: object, ours: object, theirs: object) -> object:
        assert isinstance(ours, list)
        ours.append("touched")
        raise ZeroDivisionError

    with Notebook() as nb:
        forked(nb, base="a = [1]\nb = 1", side="a = [2]\nb = 2", main="a = [3]")
        with pytest.raises(ZeroDivisionError):
            nb.session.merge("side", resolvers={list: fails})
        assert nb.look("(a, b)") == ([3], 1)


def test_a_variable_that_a_side_is_chosen_for_is_not_asked_about() -> None:
    with Notebook() as nb:
        forked(nb, base="a = [1]\nb = [1]", side="a = [2]\nb = [2, 2]", main="a = [3, 3]\nb = [3]")
        nb.session.merge("side", theirs=["a"], resolvers={list: longer})
        assert nb.look("(a, b)") == ([2], [2, 2])


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


def test_values_that_share_objects_stay_a_conflict() -> None:
    with Notebook() as nb:
        forked(nb, base="a = [1]\nb = [a]", side="a.append(2)", main="a.append(3)")
        with pytest.raises(MergeConflictError):
            nb.session.merge("side", resolvers={list: longer})


def test_a_deletion_is_no_value_to_resolve() -> None:
    with Notebook() as nb:
        forked(nb, base="a = [1]", side="del a", main="a = [3]")
        with pytest.raises(MergeConflictError):
            nb.session.merge("side", resolvers={list: longer})


# -- cherry-pick


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
        assert report.notes == ("nothing to pick: what side changed is here already",)


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
