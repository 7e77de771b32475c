"""One value that cannot be loaded does not cost the others: a move names it and goes on without it when asked to.

`Fragile` cannot be loaded while the file `broken` is there; the library `demo` can be taken away.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_kernel.errors import LoadError, LostValueError, MergeConflictError
from agent_kernel.repository import Tree
from agent_kernel.session import Repository, Versioned
from agent_kernel.storage import MemoryStore
from agent_kernel.testing.notebooks import Notebook, names_changed, rev

FRAGILE = """class Fragile:
    def __init__(self, v):
        self.v = v
    def __setstate__(self, state):
        if __import__('os').path.exists({flag!r}):
            raise RuntimeError('cannot')
        self.__dict__.update(state)
"""


class Breaks:
    """What makes loading fail, and mends it."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag
        self.fragile = FRAGILE.format(flag=str(flag))

    def start(self) -> None:
        self.flag.touch()

    def mend(self) -> None:
        self.flag.unlink()


@pytest.fixture
def breaks(tmp_path: Path) -> Breaks:
    return Breaks(tmp_path / "broken")


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """A library of version 3.1; call with False to uninstall it, with True to have it back."""
    folder = tmp_path / "library"
    (folder / "demo").mkdir(parents=True)
    code = "__version__ = '3.1'\nclass Thing:\n    def __init__(self, v):\n        self.v = v\nclass Base: pass\n"
    (folder / "demo" / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(folder)

    def install(there: bool) -> None:
        sys.modules.pop("demo", None)
        sys.path_importer_cache.clear()
        if there:
            (folder / "away").rename(folder / "demo")
        else:
            (folder / "demo").rename(folder / "away")

    yield install
    sys.modules.pop("demo", None)


def tree_of(nb: Notebook) -> Tree:
    return nb.repo.tree_at(nb.session.head)


class TestWithoutTheOption:
    def test_a_move_names_what_cannot_be_loaded_and_why_and_changes_nothing(self, breaks: Breaks) -> None:
        with Notebook() as nb:
            early = nb.run(breaks.fragile + "f = Fragile(1)\nx = [1]")
            nb.run("del f\nx.append(2)\nlater = 3")
            before, head = dict(nb.namespace), nb.session.head
            breaks.start()
            with pytest.raises(LoadError) as raised:
                nb.checkout(early)
            assert raised.value.names == ("f",)
            said = str(raised.value)
            assert said.startswith("f could not be loaded: RuntimeError: cannot; nothing was changed; --partial")
            assert "\n" not in said
            assert nb.session.head == head
            assert {name: id(value) for name, value in nb.namespace.items()} == {
                name: id(value) for name, value in before.items()
            }

    def test_several_are_named_each_with_its_reason(self, breaks: Breaks, demo: Callable[[bool], None]) -> None:
        with Notebook() as nb:
            early = nb.run(breaks.fragile + "import demo\nf = Fragile(1)\nt = demo.Thing(1)\nu = demo.Thing(2)\nx = 1")
            nb.run("del f, t, u, demo\nx = 2")
            breaks.start()
            demo(False)
            with pytest.raises(LoadError) as raised:
                nb.checkout(early)
            assert raised.value.names == ("demo", "f", "t", "u")
            lines = str(raised.value).splitlines()
            assert "f could not be loaded: RuntimeError: cannot" in lines
            missing = "ModuleNotFoundError: No module named 'demo'"
            assert f"demo could not be loaded: {missing}" in lines
            assert f"t, u could not be loaded: {missing} (saved with demo 3.1, which is not installed)" in lines
            assert lines[-1].startswith("nothing was changed; --partial")

    def test_another_version_of_a_library_is_told_of(
        self, demo: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Notebook() as nb:
            early = nb.run("import demo\nt = demo.Thing(1)")
            nb.run("del t")
            monkeypatch.setattr("demo.__version__", "2.2")
            monkeypatch.delattr("demo.Thing")
            with pytest.raises(LoadError, match=r"\(saved with demo 3\.1, this is 2\.2\)"):
                nb.checkout(early)

    def test_a_bad_class_is_blamed_on_the_values_that_need_it(self, demo: Callable[[bool], None]) -> None:
        with Notebook() as nb:
            early = nb.run(
                "import demo\n"
                "class Sub(demo.Base):\n    def m(self):\n        return 1\n"
                "class SubSub(Sub): pass\n"
                "class Fine: pass\n"
                "del demo\n"
                "s, t, fine, x = Sub(), [SubSub()], Fine(), [1]\n"
                "def uses_no_class():\n    return Sub"
            )
            nb.run("del Sub, SubSub, Fine, s, t, fine, x, uses_no_class")
            demo(False)
            with pytest.raises(LoadError) as raised:
                nb.checkout(early)
            assert raised.value.names == ("Sub", "SubSub", "s", "t")
            reason = "the class Sub cannot be loaded: ModuleNotFoundError: No module named 'demo'"
            assert raised.value.failures == ((("Sub", "SubSub", "s", "t"), reason),)

    @pytest.mark.parametrize("kind", ["KeyboardInterrupt", "MemoryError"])
    def test_an_interrupt_and_full_memory_leave_everything_as_it_was(self, kind: str) -> None:
        with Notebook() as nb:
            early = nb.run(
                f"class Heavy:\n    def __setstate__(self, state):\n        raise {kind}\nh = Heavy()\nh.v = 1\nx = [1]"
            )
            nb.run("del h\nx.append(2)")
            before, head = dict(nb.namespace), nb.session.head
            for move in (nb.checkout, nb.rollback):
                with pytest.raises(KeyboardInterrupt if kind == "KeyboardInterrupt" else LoadError) as raised:
                    move(early)
                if isinstance(raised.value, LoadError):
                    assert raised.value.names == ("h",)
                assert nb.session.head == head
                assert list(map(id, nb.namespace.values())) == list(map(id, before.values()))

    def test_an_interrupt_stops_a_partial_move_too(self) -> None:
        with Notebook() as nb:
            early = nb.run(
                "class Heavy:\n    def __setstate__(self, state):\n        raise KeyboardInterrupt\n"
                "h = Heavy()\nh.v = 1\nx = [1]"
            )
            nb.run("del h\nx.append(2)")
            with pytest.raises(KeyboardInterrupt):
                nb.checkout(early, partial=True)
            assert nb.look("x") == [1, 2]
            assert "h" not in nb.namespace


MOVES: dict[str, Callable[[Notebook], object]] = {
    "checkout": lambda nb: nb.session.checkout("good", partial=True),
    "switch": lambda nb: nb.session.switch("good", partial=True),
    "rollback": lambda nb: nb.session.rollback("good", partial=True),
    "undo": lambda nb: nb.session.undo(partial=True),
}


class TestPartialMoves:
    @pytest.mark.parametrize("move", MOVES)
    def test_load_everything_else(self, move: str, breaks: Breaks) -> None:
        with Notebook() as nb:
            nb.run(breaks.fragile + "f = Fragile(1)\nx = [1]")
            nb.repo.create_branch("good", nb.session.head or pytest.fail("no commit"))
            nb.run("del f\nx.append(2)")
            breaks.start()
            MOVES[move](nb)
            assert nb.look("x") == [1]
            with pytest.raises(LostValueError, match="could not be loaded: RuntimeError: cannot"):
                nb.look("f.v")
            good = nb.repo.tree_at(nb.repo.branches()["good"])
            assert tree_of(nb) == good, "what is stored stays what it was"

    def test_redo_and_merge_do_too(self, breaks: Breaks) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.session.switch("side", create=True)
            nb.run(breaks.fragile + "f = Fragile(1)\ny = [1]")
            nb.session.undo()
            breaks.start()
            with pytest.raises(LoadError):
                nb.session.redo()
            nb.session.redo(partial=True)
            assert nb.look("y") == [1]
            nb.session.switch("main")
            nb.run("z = 1")
            with pytest.raises(LoadError) as raised:
                nb.session.merge("side")
            assert raised.value.names == ("f",)
            report = nb.session.merge("side", partial=True)
            assert nb.look("(x, y, z)") == ([1], [1], 1)
            assert [(one.name, one.stored) for one in report.unsaved] == [("f", True)]
            breaks.mend()
            nb.checkout()
            assert nb.look("f.v") == 1

    def test_say_what_they_went_without(self, breaks: Breaks) -> None:
        with Notebook() as nb:
            nb.run("x = 0")
            early = nb.run(breaks.fragile + "f = Fragile(1)")
            nb.run("del f")
            breaks.start()
            report = nb.rollback(early, partial=True)
            (told,) = report.unsaved
            assert (told.name, told.type, told.stored) == ("f", "Fragile", True)
            assert "RuntimeError: cannot" in told.reason
            assert "the cell [2]" in told.remedy
            assert report.record is not None
            assert report.record.unsaved == report.unsaved
            assert nb.session.status().lost == report.unsaved
            later = nb.run("x = 1")
            assert later.unsaved == report.unsaved
            assert names_changed(later) == {"x"}

    def test_names_that_share_objects_go_together(self, breaks: Breaks) -> None:
        with Notebook() as nb:
            early = nb.run(breaks.fragile + "f = Fragile([1])\npart = f.v\nx = [1]")
            nb.run("del f, part, x")
            breaks.start()
            with pytest.raises(LoadError) as raised:
                nb.checkout(early)
            assert raised.value.names == ("f", "part")
            nb.checkout(early, partial=True)
            assert nb.look("x") == [1]
            for name in ("f", "part"):
                with pytest.raises(LostValueError):
                    nb.look(f"{name}.v")
            breaks.mend()
            nb.checkout(early)
            assert nb.look("f.v is part and part == [1]")

    def test_of_single_names_leave_those_that_fail_as_they_are(self, breaks: Breaks) -> None:
        with Notebook() as nb:
            early = nb.run(breaks.fragile + "f = Fragile(1)\nx = [1]\ny = [1]")
            nb.run("f = 'mine'\nx.append(2)\ny.append(2)")
            breaks.start()
            with pytest.raises(LoadError):
                nb.checkout(early, names=["f", "x"])
            assert nb.look("x") == [1, 2]
            report = nb.checkout(early, names=["f", "x"], partial=True)
            assert nb.look("(f, x, y)") == ("mine", [1], [1, 2])
            assert names_changed(report) == {"x"}
            assert any("f not loaded, and left as is: RuntimeError: cannot" in note for note in report.notes)
            with pytest.raises(LoadError):
                nb.checkout(early, names=["f"], partial=True)

    def test_of_a_fresh_kernel_bring_back_the_rest(self, breaks: Breaks) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run(breaks.fragile + "f = Fragile(1)\nx = [1]")
        breaks.start()
        with Notebook(Repository.open(store)) as again:
            tree = tree_of(again)
            with pytest.raises(LoadError):
                again.checkout()
            assert again.variables() == set()
            again.checkout(partial=True)
            assert again.look("x") == [1]
            assert again.session.branch == "main"
            assert names_changed(again.run("x.append(2)")) == {"x"}
            assert tree_of(again).get("f") == tree.get("f")
        breaks.mend()
        with Notebook(Repository.open(store)) as third:
            third.checkout()
            assert third.look("(x, f.v)") == ([1, 2], 1)

    def test_of_a_fresh_kernel_that_ran_a_cell_can_be_asked_for_twice(self, breaks: Breaks) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run(breaks.fragile + "f = Fragile(1)\nx = [1]")
        breaks.start()
        with Notebook(Repository.open(store)) as again:
            again.run("unrelated = 1")
            with pytest.raises(LoadError):
                again.checkout()
            again.checkout(partial=True)
            assert again.look("x") == [1]

    def test_keep_generators_as_they_are_where_theirs_cannot_be_loaded(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            early = nb.run("import random\nrandom.seed(1)\nx = 1")
            nb.run("x = 2\nrandom.seed(2)\nn = random.random()")
            assert early.record is not None
            assert early.record.random is not None
            store.delete_many([b"s" + early.record.random])
            nb.repo.objects.forget_cached()
            state = nb.look("random.getstate()")
            with pytest.raises(LoadError, match="the state of the random generators could not be loaded") as raised:
                nb.checkout(early)
            assert raised.value.names == ()
            assert nb.look("x") == 2
            report = nb.rollback(early, partial=True)
            assert nb.look("x") == 1
            assert nb.look("random.getstate()") == state
            assert any("random generators stays as it is" in note for note in report.notes)
            assert report.record is not None
            assert report.record.random != early.record.random
            nb.checkout(early, partial=True)
            nb.session.checkout(rev(early), keep_random=True)


class TestPlaceholders:
    @pytest.fixture
    def nb(self, breaks: Breaks) -> Iterator[Notebook]:
        """A state without `f`, and without `a` and `b`, which share a part."""
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
        assert [one.name for one in report.unsaved] == ["b"]
        assert tree_of(nb).get("b") == tree.get("b")
        with pytest.raises(LostValueError):
            nb.look("b[0]")
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
        assert set(lost.split(", ")) == {"a", "b", "held", "y"}
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
        assert {one.name for one in nb.session.status().lost} == {"a", "b", "f"}

    def test_ignoring_and_forgetting_one_takes_it_out(self, nb: Notebook) -> None:
        nb.session.forget("b")
        assert "b" not in tree_of(nb)
        assert "a" in tree_of(nb)
        assert nb.repo.verify().is_sound


def test_a_class_that_fails_does_not_lend_its_name_to_the_live_one(demo: Callable[[bool], None]) -> None:
    with Notebook() as nb:
        nb.run("import demo\nclass C:\n    tag = 'old'\nc = C()\nc.v = 1\nhidden = [C()]")
        early = nb.run("C.extra = demo.Thing(1)")
        nb.run("del C.extra")
        nb.run("del demo")
        held = nb.look("hidden[0]")
        demo(False)
        with pytest.raises(LoadError) as raised:
            nb.checkout(early)
        assert raised.value.names == ("C", "c", "demo", "hidden")
        nb.checkout(early, partial=True)
        tree = tree_of(nb)
        nb.namespace["z"] = held
        nb.run("z")
        assert all(tree_of(nb).get(name) == entry for name, entry in tree.items())
        demo(True)
        nb.checkout()
        assert nb.look("(c.v, C.extra.v, type(c) is C, type(z) is C, z.tag)") == (1, 1, True, False, "old")


def test_a_name_of_a_group_can_be_loaded_after_the_other_was_forgotten() -> None:
    with Notebook() as nb:
        nb.run("a = [1]\nb = {'a': a}")
        nb.session.forget("a")
        head = nb.session.head
        assert head is not None
        assert nb.repo.at(head[:-1].hex())["b"] == {"a": [1]}


def test_a_dict_that_cannot_be_loaded_is_a_conflict_in_a_partial_merge(breaks: Breaks) -> None:
    with Notebook() as nb:
        nb.run(breaks.fragile + "d = {'f': Fragile(1)}")
        nb.session.switch("side", create=True)
        nb.run("d['theirs'] = 1")
        nb.session.switch("main")
        nb.run("d['ours'] = 1")
        breaks.start()
        with pytest.raises(LoadError) as raised:
            nb.session.merge("side")
        assert raised.value.names == ("d",)
        with pytest.raises(MergeConflictError):
            nb.session.merge("side", partial=True)
        nb.session.merge("side", partial=True, theirs=["d"])
        breaks.mend()
        nb.checkout()
        assert set(nb.look("d")) == {"f", "theirs"}  # type: ignore[call-overload]


class TestLookingFromPython:
    def test_a_snapshot_fails_for_that_name_alone(self, breaks: Breaks) -> None:
        with Notebook() as nb:
            nb.run(breaks.fragile + "f = Fragile(1)\nx = [1]")
            breaks.start()
            past = nb.repo.at("HEAD")
            with pytest.raises(LoadError) as raised:
                past["f"]
            assert raised.value.names == ("f",)
            assert "RuntimeError: cannot" in str(raised.value)
            assert past["x"] == [1]
            breaks.mend()
            assert vars(past["f"]) == {"v": 1}

    def test_a_mapping_opens_and_fails_for_that_key_alone(self, demo: Callable[[bool], None]) -> None:
        import demo as library  # type: ignore[import-not-found]  # the fixture's

        store = MemoryStore()
        with Versioned(Repository.open(store)) as state:
            state["t"], state["x"] = library.Thing(1), [1]
            state.commit("first")
        demo(False)
        with Versioned(Repository.open(store)) as again:
            assert set(again) == {"t", "x"}
            assert again["x"] == [1]
            with pytest.raises(LoadError, match="t could not be loaded: ModuleNotFoundError") as raised:
                again["t"]
            assert raised.value.names == ("t",)
            again["x"] = [2]
            assert names_changed(again.commit("second")) == {"x"}
            with pytest.raises(LoadError):
                again.at("HEAD~1")["t"]
            demo(True)
            again.checkout()
            assert vars(again["t"]) == {"v": 1}


def test_code_that_runs_while_loading_sees_the_globals_of_the_state_that_is_on_its_way() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(
            "import math\n"
            "class Part: pass\n"
            "def helper(v):\n"
            "    made = Part()\n"
            "    made.v = math.floor(v) + offset\n"
            "    return made\n"
            "offset = 1\n"
            "class Needs:\n"
            "    def __setstate__(self, state):\n"
            "        self.__dict__.update(state)\n"
            "        self.part = helper(self.v)\n"
            "    def __hash__(self):\n"
            "        return math.floor(self.v)\n"
            "n = Needs()\nn.v = 1.5\nkeyed = {n: 1}\nother = [Needs()]\nother[0].v = 2.5\n"
            "class Holds:\n    at = other[0]"
        )
    with Notebook(Repository.open(store)) as again:
        again.checkout()
        assert again.look("(n.part.v, type(n.part) is Part, keyed[n], other[0].part.v)") == (2, True, 1, 3)
        assert again.look("Holds.at is other[0]")
        again.run("del math, offset, helper, Part, n, keyed")
        before = list(again.namespace)
        with pytest.raises(LoadError) as raised:
            again.checkout("HEAD~1", names=["n"])
        assert "NameError" in str(raised.value)
        assert list(again.namespace) == before


def test_what_cannot_be_loaded_is_carried_over_restarts_like_the_rest(breaks: Breaks) -> None:
    repo = Repository.open(MemoryStore())
    with Notebook(repo) as nb:
        nb.run(breaks.fragile + "f = Fragile(1)\nx = [1]\ny = x")
    breaks.start()
    with Notebook(repo) as nb:
        nb.run("later = 2")
    with Notebook(repo) as nb:
        with pytest.raises(LoadError):
            nb.checkout()
        assert "x" not in nb.namespace
        nb.checkout(partial=True)
        assert nb.look("(x, y is x, later)") == ([1], True, 2)
        with pytest.raises(LostValueError):
            nb.look("f.v")
        assert names_changed(nb.run("x.append(2)")) == {"x", "y"}
        undone = nb.session.undo()
        assert {change.name for change in undone.changed} == {"x", "y"}
    with Notebook(repo) as nb:
        nb.run("z = 1")
        breaks.mend()
        nb.checkout()
        assert nb.look("(f.v, x, later, z)") == (1, [1], 2, 1)
