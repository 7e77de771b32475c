"""A restarted kernel holds nothing, and the branch still holds everything: it is carried until the person decides."""

from __future__ import annotations

import pytest

from agent_kernel.repository import Author
from agent_kernel.session import Repository, bind
from agent_kernel.storage import MemoryStore, Store
from tests.support.notebooks import Notebook, names_changed


@pytest.fixture
def store() -> Store:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("df = [1, 2, 3]\nview = df\nmodel = {'w': 1}")
    return store


def restarted(store: Store) -> Notebook:
    return Notebook(Repository.open(store))


class TestWhatIsNotBroughtBack:
    def test_stays_in_the_branch_when_cells_run(self, store: Store) -> None:
        with restarted(store) as nb:
            report = nb.run("x = 1")
            assert names_changed(report) == {"x"}
            assert nb.session.status().carried == ("df", "model", "view")
            assert [found.name for found in nb.repo.diff(nb.repo.resolve("HEAD~1"), report.commit)] == ["x"]

    def test_is_brought_back_any_time_later_beside_what_was_made_since(self, store: Store) -> None:
        with restarted(store) as nb:
            nb.run("x = 1\nmodel = 'another'")
            made = nb.look("model")
            report = nb.checkout()
            assert names_changed(report) == {"df", "view"}
            assert nb.look("(df is view, df, model, x)") == (True, [1, 2, 3], "another", 1)
            assert nb.look("model") is made
            assert nb.session.status().carried == ()

    def test_outlasts_any_number_of_restarts(self, store: Store) -> None:
        for number in range(3):
            with restarted(store) as nb:
                nb.run(f"x{number} = {number}")
        with restarted(store) as nb:
            nb.checkout()
            assert nb.variables() == {"df", "view", "model", "x0", "x1", "x2"}
            assert nb.look("df is view") is True

    def test_is_replaced_by_a_name_that_is_made_again(self, store: Store) -> None:
        with restarted(store) as nb:
            report = nb.run("df = [5]")
            assert [(change.name, change.how) for change in report.changed] == [("df", "~")]
        with restarted(store) as nb:
            nb.checkout()
            assert nb.look("(df, view)") == ([5], [1, 2, 3])

    def test_is_no_change_where_it_is_made_again_as_it_was(self, store: Store) -> None:
        with restarted(store) as nb:
            report = nb.run("df = [1, 2, 3]\nview = df\nmodel = {'w': 1}")
            assert report.changed == ()
            assert report.record is not None
            assert report.record.labels == ("restart",)
            assert not nb.session.status().restart_pending

    def test_goes_with_a_name_that_is_made_and_deleted(self, store: Store) -> None:
        with restarted(store) as nb:
            nb.run("model = 1")
            assert names_changed(nb.run("del model")) == {"model"}
            nb.checkout()
            assert nb.variables() == {"df", "view"}

    def test_is_taken_singly_with_what_shares_its_objects(self, store: Store) -> None:
        with restarted(store) as nb:
            report = nb.checkout("HEAD", names=["df"])
            assert [(change.name, change.how) for change in report.changed] == [("df", "+"), ("view", "+")]
            assert report.record is not None
            assert report.record.changed == ()
            assert nb.look("df is view") is True
            assert nb.session.status().carried == ("model",)
            nb.session.undo()
            assert nb.variables() == set()
            assert nb.session.status().carried == ("df", "model", "view")

    def test_is_left_behind_when_the_person_says_so(self, store: Store) -> None:
        with restarted(store) as nb:
            nb.run("x = 1")
            report = nb.session.leave_behind()
            assert {change.how for change in report.changed} == {"-"}
            assert nb.session.status().carried == ()
            assert set(nb.repo.at("main")) == {"x"}
            nb.session.undo()
            assert nb.session.status().carried == ("df", "model", "view")
            assert nb.look("x") == 1

    def test_is_out_of_the_branch_when_it_is_ignored_or_forgotten(self, store: Store) -> None:
        with restarted(store) as nb:
            nb.session.ignore("model")
            assert nb.session.status().carried == ("df", "view")
            nb.run("x = 1")
            assert set(nb.repo.at("main")) == {"df", "view", "x"}
            nb.session.forget("df")
            nb.checkout()
            assert nb.look("view") == [1, 2, 3]
            assert nb.variables() == {"view", "x"}

    def test_keeps_the_classes_that_it_needs_and_no_longer(self) -> None:
        store = MemoryStore()
        with restarted(store) as nb:
            nb.run("class K:\n    kept = [1]\none = K()\nother = K()")
        with restarted(store) as nb:
            nb.checkout("HEAD", names=["one"])
            nb.run("del one")  # nothing in memory needs the class now
            nb.run("K = 1")
        with restarted(store) as nb:
            nb.checkout()
            assert nb.look("(other.kept, type(other).__name__, K)") == ([1], "K", 1)
        with restarted(store) as nb:
            nb.run("other = 2")
            assert set(nb.repo.tree_at(nb.session.head).names()) == {"K", "other"}


class TestGoingBackAcrossARestart:
    def test_undo_takes_back_the_cell_alone(self, store: Store) -> None:
        with restarted(store) as nb:
            nb.run("x = 1\nmodel = 2")
            nb.session.undo()
            assert nb.variables() == set()
            assert nb.repo.at("main")["model"] == {"w": 1}
            nb.session.redo()
            assert nb.look("(x, model)") == (1, 2)

    def test_undo_takes_a_bringing_back_back(self, store: Store) -> None:
        with restarted(store) as nb:
            nb.run("x = 1")
            nb.checkout()
            nb.session.undo()
            assert nb.variables() == {"x"}
            nb.session.undo()
            assert nb.variables() == set()
            nb.checkout()
            assert nb.variables() == {"df", "view", "model"}

    def test_a_rollback_to_a_commit_of_this_session_loads_what_was_in_memory_then(self, store: Store) -> None:
        with restarted(store) as nb:
            early = nb.run("x = 1")
            nb.run("y = 1")
            nb.rollback(early)
            assert nb.variables() == {"x"}
            nb.checkout()
            assert nb.look("(df, x)") == ([1, 2, 3], 1)

    def test_a_rollback_to_a_commit_of_before_loads_all_of_it(self, store: Store) -> None:
        with restarted(store) as nb:
            nb.run("x = 1")
            nb.rollback("HEAD~1")
            assert nb.variables() == {"df", "view", "model"}

    def test_restarted_on_no_branch_the_same_commit_is_brought_back(self, store: Store) -> None:
        with restarted(store) as nb:
            nb.checkout()
            old = nb.run("df.append(4)")
            nb.run("df.append(5)")
            nb.checkout(old)
        with restarted(store) as nb:
            nb.checkout()
            assert nb.look("df") == [1, 2, 3, 4]
            assert nb.session.status().detached
            assert nb.run("df.append(6)").branch == "main-2"


class TestASecondKernel:
    def test_deletes_nothing_of_the_first_one(self, store: Store) -> None:
        with Notebook(Repository.open(store), session_id="a") as one:
            one.checkout()
            one.run("more = 1")
            with Notebook(Repository.open(store), session_id="b") as two:
                assert two.session.branch == "main-2"
                two.run("scratch = [1]")
                two.run("scratch.append(2)")
                report = one.session.merge("main-2")
                assert names_changed(report) == {"scratch"}
                assert one.look("(df is view, model, scratch)") == (True, {"w": 1}, [1, 2])
                one.run("df.append(9)")
                assert names_changed(two.session.merge("main")) == {"df", "view"}
                assert two.look("(df, df is view, scratch)") == ([1, 2, 3, 9], True, [1, 2])
                assert two.session.status().carried == ("model", "more")
                two.session.undo()
                assert two.variables() == {"scratch"}
                assert two.repo.at("main-2")["df"] == [1, 2, 3]


class TestVariablesThatWereThereBefore:
    """A session that begins on a namespace with variables in it, as `%load_ext` in the middle of work does."""

    def test_are_a_commit_of_their_own_which_undo_leaves_alone(self) -> None:
        with Notebook() as nb:
            nb.execute("df = [1]\nmodel = 2")
            assert nb.session.head is None  # binding is quick; the first cell pays
            report = nb.run("typo = df")
            assert names_changed(report) == {"typo"}
            assert [commit.message for _, commit in nb.repo.log(nb.repo.resolve("main"))] == [
                "",
                "what was there before",
            ]
            nb.session.undo()
            assert nb.variables() == {"df", "model"}

    def test_are_committed_before_anything_replaces_them(self, store: Store) -> None:
        namespace: dict[str, object] = {"df": "mine", "own": 1}
        session = bind(namespace, Repository.open(store))
        session.checkout()
        assert (namespace["df"], namespace["own"], namespace["model"]) == ("mine", 1, {"w": 1})
        session.close()

    def test_are_no_commit_where_the_branch_holds_them_already(self, store: Store) -> None:
        with restarted(store) as nb:
            nb.checkout()
            nb.session.close()
            again = bind(nb.namespace, nb.repo, author=Author("ada"))
            before = again.head
            again.begin_cell("x = 1")
            assert again.head == before
            nb.execute("x = 1")
            report = again.end_cell()
            assert report is not None
            assert names_changed(report) == {"x"}
            assert report.record is not None
            assert report.record.labels == ()  # nothing was lost: it is no restart
            again.close()


def test_a_forgotten_member_of_a_group_leaves_the_others_as_they_were() -> None:
    with Notebook() as nb:
        nb.run("a = [1]\nb = a\nc = a")
        nb.run("del b, c")
        nb.session.forget("a")
        nb.checkout("HEAD~2")
        assert nb.look("(b, b is c)") == ([1], True)


def test_taking_one_variable_leaves_what_shared_a_value_with_it_to_be_brought_back() -> None:
    repo = Repository.open(MemoryStore())
    with Notebook(repo) as nb:
        first = nb.run("b = [43]")
        nb.run("e = [b, 71]")
    with Notebook(repo) as nb:
        nb.checkout(first, names=["b"])
        assert nb.session.carried() == ["e"]
        nb.checkout()
        assert nb.look("(b, e)") == ([43], [[43], 71])


def test_what_parted_from_a_carried_partner_is_still_watched_after_going_back_and_forth() -> None:
    repo = Repository.open(MemoryStore())
    with Notebook(repo) as nb:
        first = nb.run("a = [2]; e = a; f = a")
    with Notebook(repo) as nb:
        second = nb.run("e = [70]")
        nb.rollback(first)
        nb.checkout(second)
        assert names_changed(nb.run("f.append(85)")) == {"a", "f"}
        tip = nb.session.head
    with Notebook(repo) as nb:
        nb.checkout(tip)
        assert nb.look("(a, a is f, e)") == ([2, 85], True, [70])


@pytest.mark.parametrize("way", ["taken", "made"])
def test_a_class_stays_beside_what_is_not_brought_back_when_another_one_takes_its_name(way: str) -> None:
    repo = Repository.open(MemoryStore())
    with Notebook(repo) as nb:
        other = nb.run("class K: n = 1")
        nb.run("class K: n = 2")
        both = nb.run("k = K()")
    with Notebook(repo) as nb:
        nb.checkout(both, names=["K"])
        if way == "taken":
            nb.checkout(other, names=["K"])
        else:
            nb.run("class K: n = 1")
        nb.checkout()
        assert nb.look("(K.n, k.n)") == (1, 2)


def test_what_shares_at_a_commit_comes_together_though_one_of_them_was_not_brought_back() -> None:
    repo = Repository.open(MemoryStore())
    with Notebook(repo) as nb:
        beside = nb.run("a = [1]; d = a")
        nb.run("del d; f = a")
    with Notebook(repo) as nb:
        neither = nb.run("x = 1")
        nb.checkout(beside, names=["a"])
        assert nb.session.carried() == ["f"]
        nb.rollback(neither)
        assert nb.look("(a, a is f)") == ([1], True)
        assert nb.session.carried() == []


CLASSES = {
    "a list": "list",
    "a dict": "dict",
    "an exception": "Exception",
    "one that answers for any name": "Answers",
    "a plain one": "object",
}


@pytest.mark.parametrize("base", CLASSES.values(), ids=CLASSES)
def test_an_equal_object_that_a_cell_makes_again_after_a_restart_changes_nothing(base: str) -> None:
    source = (
        "class Answers:\n    def __getattr__(self, name): raise AttributeError(name)\n"
        f"class Kept({base}):\n    def __init__(self, part): self.label, self.part = 1, part\n"
        "part = [1]\none = Kept(part); other = Kept(part)"
    )
    store = MemoryStore()
    with restarted(store) as nb:
        nb.run(source)
    with restarted(store) as nb:
        nb.checkout("main")
        assert names_changed(nb.run("one = Kept(part)")) == set()
        assert names_changed(nb.run("one.label = 2")) >= {"one"}
