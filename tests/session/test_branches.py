"""Two sessions never write to one branch, and a branch is started, switched to and left as in git."""

from __future__ import annotations

import pytest

from agent_kernel.errors import RefNotFoundError
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed, rev


class TestTwoSessions:
    def test_on_one_branch_make_the_second_fork_and_say_so(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store), session_id="a") as one:
            one.run("x = 1")
            with Notebook(Repository.open(store), session_id="b") as two:
                assert two.session.branch == "main-2"
                assert any("main-2" in note for note in two.session.notes)
                two.checkout()
                assert two.look("x") == 1
                two.run("x = 2")
                one.run("y = 1")
                assert one.look("x") == 1
                assert one.repo.at("main-2")["x"] == 2

    def test_one_after_the_other_share_the_branch(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as one:
            one.run("x = 1")
        with Notebook(Repository.open(store)) as two:
            assert two.session.branch == "main"


class TestAKernelThatIsRestarted:
    """Its sessions are known by the beginning of their ids, which ends with a dot."""

    @staticmethod
    def started(store: MemoryStore, id: str) -> Notebook:
        return Notebook(Repository.open(store), session_id=id)

    def test_goes_on_where_it_was_whatever_another_kernel_did_since(self) -> None:
        store = MemoryStore()
        with self.started(store, "one.1") as one, self.started(store, "two.1") as two:
            one.run("hours = ['first']")
            two.run("toy = 0")
            one.run("hours.append('of work')")
            two.run("toy = 1")
            one.session.close()
            with self.started(store, "one.2") as again:
                assert (again.session.branch, again.session.notes) == ("main", [])
                again.checkout()
                assert again.look("hours") == ["first", "of work"]
            two.session.close()
            with self.started(store, "two.2") as again:
                assert (again.session.branch, again.session.notes) == ("main-2", [])

    def test_another_kernel_goes_on_where_the_store_was_used_last_and_is_told_of_the_other_branch(self) -> None:
        store = MemoryStore()
        with self.started(store, "one.1") as one, self.started(store, "two.1") as two:
            one.run("x = 1")
            two.run("y = 1")
        with self.started(store, "three.1") as three:
            assert three.session.branch == "main-2"
            assert three.session.notes == ["branch main has gone on beside this one: %agent switch main goes there"]
            three.session.switch("main")
            assert three.look("x") == 1

    def test_goes_where_the_store_was_used_last_when_its_branch_is_gone(self) -> None:
        store = MemoryStore()
        with self.started(store, "one.1") as one:
            one.run("x = 1")
            one.session.switch("try", create=True)
        with self.started(store, "two.1") as two:
            two.session.switch("main")
            two.repo.delete_branch("try", force=True)
        with self.started(store, "one.2") as again:
            assert again.session.branch == "main"

    def test_forks_where_another_kernel_took_its_branch_meanwhile(self) -> None:
        store = MemoryStore()
        with self.started(store, "one.1") as one:
            one.run("x = 1")
        with self.started(store, "two.1") as two, self.started(store, "one.2") as again:
            assert (two.session.branch, again.session.branch) == ("main", "main-2")


class TestBranches:
    def test_switch_takes_branches_only(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = 1")
            nb.run("x = 2")
            with pytest.raises(RefNotFoundError):
                nb.session.switch(rev(old))
            assert nb.look("x") == 2

    def test_a_new_branch_starts_from_here(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.session.switch("try", create=True)
            nb.run("x.append(2)")
            nb.session.switch("main")
            assert nb.look("x") == [1]
            nb.session.switch("try")
            assert nb.look("x") == [1, 2]

    def test_ignored_names_are_left_alone(self) -> None:
        with Notebook() as nb:
            early = nb.run("x = 1")
            nb.session.ignore("secret")
            report = nb.run("secret = 'k'\nx = 2")
            assert names_changed(report) == {"x"}
            nb.checkout(early)
            assert nb.look("(x, secret)") == (1, "k")
            assert "secret" not in nb.repo.at("main")


def test_a_branch_that_somebody_moved_by_force_is_left_to_them() -> None:
    with Notebook() as nb:
        first = nb.repo.resolve(rev(nb.run("a = [1]")))
        nb.run("a.append(2)")
        nb.repo.move_branch("main", first, "moved by force", nb.session.head)
        report = nb.run("a.append(3)")
        assert report.branch == "main-2"
        assert any("branch main was moved" in note for note in report.notes)
        assert nb.run("b = 1").branch == "main-2"
        assert nb.repo.branches() == {"main": first, "main-2": nb.session.head}
        nb.session.undo()
        nb.session.undo()
        assert nb.look("a") == [1, 2]
