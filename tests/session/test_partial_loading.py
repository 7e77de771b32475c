"""One value that cannot be loaded does not cost the others: a move goes on without it when asked to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent_kernel.errors import LoadError, LostValueError, MergeConflictError
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.session.breaking import Breaks, tree_of
from tests.support.notebooks import Notebook, names_changed, rev

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

    def test_what_shares_an_object_with_one_that_fails_comes_alone_and_is_one_with_it_again_later(
        self, breaks: Breaks
    ) -> None:
        with Notebook() as nb:
            early = nb.run(breaks.fragile + "f = Fragile([1])\npart = f.v\nx = [1]")
            nb.run("del f, part, x")
            breaks.start()
            with pytest.raises(LoadError) as raised:
                nb.checkout(early)
            assert raised.value.names == ("f",)
            nb.checkout(early, partial=True)
            assert nb.look("(x, part)") == ([1], [1])
            with pytest.raises(LostValueError):
                nb.look("f.v")
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
            (told,) = again.checkout().unsaved
            assert (told.name, told.stored) == ("f", True)
            assert "RuntimeError: cannot" in told.reason
            assert again.look("x") == [1]
            with pytest.raises(LostValueError, match="could not be loaded: RuntimeError: cannot"):
                again.look("f.v")
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
            again.checkout()
            assert again.look("(x, unrelated)") == ([1], 1)

    def test_of_a_fresh_kernel_that_would_leave_live_variables_have_to_be_asked_for(self, breaks: Breaks) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            early = nb.run(breaks.fragile + "f = Fragile(1)\nx = [1]")
            nb.run("x.append(2)")
        breaks.start()
        with Notebook(Repository.open(store)) as again:
            again.run("x = 'mine'")
            with pytest.raises(LoadError):
                again.checkout(early)
            assert again.look("x") == "mine"
            again.checkout()
            assert again.look("x") == "mine"
            with pytest.raises(LostValueError):
                again.look("f.v")

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
        nb.checkout()
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


# Code that has hold of `table` and `rows`, and of what only the library can make; and the names that are lost with that.
CLASSES_OF_A_LIBRARY = {
    "a class made of one of its classes": ("class Sub(demo.Base):\n    held = [table, rows]", {"Sub"}),
    "and its instances": ("class Sub(demo.Base): pass\nsub = Sub()\nSub.held, sub.rows = table, rows", {"Sub", "sub"}),
    "a class that holds one of its objects": (
        "class Own:\n    tool = demo.Thing(rows)\nown = Own()\nown.table = table",
        {"Own", "own"},
    ),
    "a data class with a field of its type": (
        "from dataclasses import dataclass\n@dataclass\nclass Own:\n    base: demo.Base\n    rows: list\nown = Own(1, rows)",
        {"Own", "own"},
    ),
    "an enumeration with one of its objects": (
        "import enum\nclass Own(enum.Enum):\n    A = rows\n    B = demo.Thing(1)\nown = Own.A",
        {"Own", "own"},
    ),
    "a function that closes over one of its objects": (
        "def make(tool, held):\n    return lambda: (tool, held)\nown = make(demo.Thing(1), [table, rows])",
        {"own"},
    ),
}


@pytest.mark.parametrize(("code", "lost"), CLASSES_OF_A_LIBRARY.values(), ids=CLASSES_OF_A_LIBRARY)
def test_data_comes_back_though_a_class_that_cannot_be_loaded_holds_it(
    code: str, lost: set[str], demo: Callable[[bool], None]
) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(f"import demo\ntable, rows = {{'n': [1, 2]}}, [1]\nboth = [table, rows]\n{code}\ndel demo")
    demo(False)
    with Notebook(Repository.open(store)) as again:
        told = again.checkout().unsaved
        assert {name for one in told for name in one.name.split(", ")} == lost
        assert all("No module named 'demo'" in one.reason for one in told)
        assert again.look("(table, rows)") == ({"n": [1, 2]}, [1])
        assert again.look("both[0] is table and both[1] is rows")
        assert names_changed(again.run("rows.append(2)")) == {"both", "rows"}
    demo(True)
    with Notebook(Repository.open(store)) as third:
        assert third.checkout().unsaved == ()
        assert third.look("(table, rows)") == ({"n": [1, 2]}, [1, 2])
        assert all(name in third.namespace for name in lost)


OF_ONE_REGISTER = """
import demo
register = []
class Away(demo.Base):
    known = register
class Below(Away): pass
class Holds:
    known = register
    thing = demo.Thing(1)
class Names:
    known = register
    def other(self, kind=Away): return kind
class Fine:
    known = register
    def seven(self): return 7
class Finer(Fine):
    known = register
    other = Fine
away, below, fine, finer = Away(), Below(), Fine(), Finer()
alone = [fine]
register.append(fine)
del demo
"""
OTHERS = (
    "fine.seven() + finer.seven(), [type(fine) is Fine, type(finer) is Finer, Finer.other is Fine, alone[0] is fine],"
    "[Fine.known is register, Finer.known is register], register[0] is fine"
)


def test_one_class_that_fails_leaves_the_others_that_share_objects_with_it(demo: Callable[[bool], None]) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(OF_ONE_REGISTER)
        was = nb.look(OTHERS)
    demo(False)
    with Notebook(Repository.open(store)) as again:
        told = again.checkout().unsaved
        assert {name for one in told for name in one.name.split(", ")} == {
            "Away",
            "Below",
            "Holds",
            "Names",
            "away",
            "below",
        }
        assert again.look(OTHERS) == was
        for lost in ("Away()", "Below()", "Holds()", "Names()", "away.known"):
            with pytest.raises(LostValueError, match="No module named 'demo'"):
                again.look(lost)
        again.run("n = 1")
        demo(True)
        assert again.checkout().unsaved == ()
        assert again.look(OTHERS) == was
        assert again.look("Away.known is Holds.known is register and type(away) is Away and Names().other() is Away")
    with Notebook(Repository.open(store)) as third:
        assert third.checkout().unsaved == ()
        assert third.look(OTHERS) == was
        assert third.look("Away.known is Holds.known is register and type(away) is Away and Names().other() is Away")


@pytest.mark.parametrize(
    ("change", "is_so"),
    [
        (
            "register.append(2)",
            "register == [fine, 2] and Fine.known is Finer.known is register and len(Away.known) == 1",
        ),
        ("Fine.more = [3]", "Fine.more == [3] and Fine.known is register and not hasattr(Away, 'more')"),
        ("fine.z = 1", "vars(fine) == {'z': 1} and alone[0] is register[0] is fine"),
        (
            "def six(self): return 6\nFine.seven = six\ndel six",
            "fine.seven() == finer.seven() == Away.known[0].seven() == 6",
        ),
        ("del register, fine", "Fine.known is Finer.known and len(Fine.known) == len(Away.known) == 1"),
    ],
)
def test_what_changes_while_such_a_class_is_away_is_what_a_later_checkout_gives(
    change: str, is_so: str, demo: Callable[[bool], None]
) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(OF_ONE_REGISTER)
        was = nb.look(OTHERS)
    demo(False)
    with Notebook(Repository.open(store)) as again:
        again.checkout()
        again.run(change)
    demo(True)
    with Notebook(Repository.open(store)) as third:
        assert third.checkout().unsaved == ()
        assert third.look(is_so)
        assert third.look(
            "type(alone[0]) is type(Away.known[0]) is Fine and type(finer) is Finer and type(away) is Away"
        )
        assert names_changed(third.run("n = 1")) == {"n"}
        third.checkout("HEAD~2")
        assert third.look(OTHERS) == was
