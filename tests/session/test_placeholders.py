"""What stands for a value that could not be loaded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_kernel.errors import LostValueError
from tests.session.breaking import Breaks, tree_of
from tests.support.notebooks import Notebook, names_changed


class TestPlaceholders:
    @pytest.fixture
    def nb(self, breaks: Breaks) -> Iterator[Notebook]:
        """A state without `f`, and without `a`, which shares a part with `b`."""
        with Notebook() as nb:
            nb.run(breaks.fragile + "f = Fragile(1)\na = Fragile([1])\nb = a.v\nx = [1]")
            nb.repo.create_tag("good", nb.session.head or pytest.fail("no commit"))
            nb.run("del f, a, b\nx.append(2)")
            breaks.start()
            nb.rollback("good", partial=True)
            yield nb

    @pytest.mark.parametrize("use", ["f.v", "f()", "str(f)", "f + 1", "len(f)", "f == 1", "hash(f)", "[*f]", "f.v = 1"])
    def test_raise_however_they_are_used(self, nb: Notebook, use: str) -> None:
        tree = tree_of(nb)
        report = nb.run(use, fails=LostValueError)
        assert report.changed == ()
        assert tree_of(nb) == tree

    def test_say_what_is_the_matter(self, nb: Notebook) -> None:
        with pytest.raises(LostValueError) as raised:
            nb.look("f.v")
        said = str(raised.value)
        assert said.startswith("'f' was a Fragile, which could not be loaded: RuntimeError: cannot; ")
        assert "the cell [1]" in said
        assert raised.value.stored

    def test_are_never_stored_anew(self, nb: Notebook, breaks: Breaks) -> None:
        tree = tree_of(nb)
        assert nb.run("f, a, b").changed == ()
        assert nb.session.commit("all", full=True).changed == ()
        assert nb.run("globals()").changed == ()
        assert tree_of(nb) == tree
        assert "f" not in nb.session.status().unverified
        breaks.mend()
        nb.checkout()
        assert nb.look("(f.v, a.v is b, x)") == (1, True, [1])
        assert nb.session.status().lost == ()
        assert nb.run("x.append(3)\na.v.append(2)").unsaved == ()

    def test_are_tried_again_by_every_move_and_never_in_its_way(self, nb: Notebook, breaks: Breaks) -> None:
        nb.run("y = 1")
        nb.session.undo()
        nb.checkout("good")
        with pytest.raises(LostValueError):
            nb.look("f.v")
        breaks.mend()
        nb.checkout("main")
        assert nb.look("f.v") == 1

    def test_that_are_bound_anew_are_a_change_of_that_name_alone(self, nb: Notebook, breaks: Breaks) -> None:
        tree = tree_of(nb)
        report = nb.run("a = 'mine'\nf = 2")
        assert names_changed(report) == {"a", "f"}
        assert report.unsaved == ()
        assert tree_of(nb).get("b") == tree.get("b")
        assert nb.look("b") == [1]
        breaks.mend()
        nb.checkout()
        assert nb.look("(a, b, f)") == ("mine", [1], 2)
        nb.checkout("good")
        assert nb.look("(a.v is b, f.v)") == (True, 1)
        nb.checkout("main")
        assert nb.run("b.append(2)").unsaved == ()
        assert nb.look("(a, b)") == ("mine", [1, 2])

    def test_that_are_deleted_are_gone_and_the_rest_of_their_group_stays(self, nb: Notebook, breaks: Breaks) -> None:
        tree = tree_of(nb)
        assert names_changed(nb.run("del b, f")) == {"b", "f"}
        assert tree_of(nb).get("a") == tree.get("a")
        nb.run("del x")
        assert [one.name for one in nb.session.status().lost] == ["a"]
        breaks.mend()
        nb.checkout()
        assert nb.look("a.v") == [1]
        nb.checkout("good")
        assert nb.look("a.v is b")

    def test_that_are_all_gone_take_their_class_out_of_the_tree(self, nb: Notebook) -> None:
        nb.run("del f, a, b, Fragile")
        assert sorted(tree_of(nb).names()) == ["x"]

    def test_a_copy_of_one_is_named_as_not_saved_and_costs_the_original_nothing(
        self, nb: Notebook, breaks: Breaks
    ) -> None:
        tree = tree_of(nb)
        report = nb.run("y = f\nheld = {'f': f}\na, b = b, a")
        assert tree_of(nb).get("f") == tree.get("f")
        lost = ", ".join(one.name for one in report.unsaved if not one.stored)
        assert set(lost.split(", ")) == {"b", "held", "y"}
        said = next(one for one in report.unsaved if "y" in one.name)
        assert said.reason.startswith("it is a copy of what stood for f, which could not be loaded")
        breaks.mend()
        nb.run("del f, y, held")
        nb.checkout(report)
        assert nb.look("f.v") == 1
        with pytest.raises(LostValueError, match="copy f again"):
            nb.look("y.v")
        with pytest.raises(LostValueError):
            nb.look("held['f'].v")

    def test_their_class_may_change_and_be_loaded_later(self, nb: Notebook, breaks: Breaks) -> None:
        nb.run("Fragile.tag = 'new'")
        nb.run("class Fragile: pass")
        breaks.mend()
        nb.checkout()
        assert nb.look("(f.v, f.tag, type(f) is Fragile)") == (1, "new", False)

    def test_survive_upkeep(self, nb: Notebook, breaks: Breaks) -> None:
        nb.run("y = 1")
        nb.repo.gc(grace_s=0)
        from agent_kernel.repository import Retention

        nb.repo.delete_tag("good")
        nb.session.prune(Retention(keep_last=1))
        nb.run("y = 2")
        nb.repo.gc(grace_s=0)
        assert nb.repo.verify().is_sound
        breaks.mend()
        nb.checkout()
        assert nb.look("(f.v, a.v is b, y)") == (1, True, 2)

    def test_are_merged_as_what_they_stand_for(self, nb: Notebook, breaks: Breaks) -> None:
        nb.session.switch("side", create=True)
        nb.run("y = 1")
        nb.session.switch("main")
        nb.run("z = 1")
        nb.session.merge("side")
        breaks.mend()
        nb.checkout()
        assert nb.look("(f.v, a.v is b, y, z)") == (1, True, 1, 1)

    def test_are_left_behind_where_another_state_has_another_value(self, nb: Notebook) -> None:
        nb.checkout("HEAD~1")
        assert nb.variables() == {"Fragile", "x"}
        nb.checkout("good", partial=True)
        assert {one.name for one in nb.session.status().lost} == {"a", "f"}

    def test_ignoring_and_forgetting_one_takes_it_out(self, nb: Notebook) -> None:
        nb.session.forget("b")
        assert "b" not in tree_of(nb)
        assert "a" in tree_of(nb)
        assert nb.repo.verify().is_sound
