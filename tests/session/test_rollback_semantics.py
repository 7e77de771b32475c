"""Going back as a git user expects: whole or not at all, nothing destroyed, nothing lost on the way."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from agent_kernel.errors import (
    AgentKernelError,
    AmbiguousRefError,
    BranchInUseError,
    LostValueError,
    NameNotFoundError,
    NothingToUndoError,
    RefNotFoundError,
)
from agent_kernel.repository import Holder, Retention
from agent_kernel.repository.leases import start_of
from agent_kernel.session import Repository, bind
from agent_kernel.storage import MemoryStore
from agent_kernel.testing.notebooks import Notebook, names_changed, rev


def first_parents(nb: Notebook, start: str) -> list[str]:
    """The cells of a history, newest first."""
    walk = nb.repo.log(nb.repo.resolve(start), first_parent=True)
    return [commit.cell.source for _, commit in walk if commit.cell is not None]


class TestRollback:
    def test_fifty_commits_back(self) -> None:
        with Notebook() as nb:
            nb.run("log = []")
            reports = [nb.run(f"x = {i}\nlog.append({i})\nn{i} = {i}") for i in range(60)]
            back = nb.rollback("HEAD~50")
            assert nb.look("(x, log)") == (9, list(range(10)))
            assert nb.variables() == {"x", "log", *(f"n{i}" for i in range(10))}
            assert back.record is not None
            assert reports[9].record is not None
            assert back.record.kind == "rollback"
            assert back.record.tree == reports[9].record.tree
            assert back.record.restores == reports[9].commit
            assert back.record.parents == (reports[-1].commit,)

    def test_destroys_nothing(self) -> None:
        with Notebook() as nb:
            early = nb.run("x = 1")
            late = nb.run("x = 2\ny = 3")
            nb.rollback(early)
            assert nb.session.branch == "main"
            assert nb.variables() == {"x"}
            nb.checkout(late)
            assert nb.look("(x, y)") == (2, 3)

    def test_goes_on_on_the_same_branch(self) -> None:
        with Notebook() as nb:
            early = nb.run("x = [1]")
            nb.run("x.append(2)")
            nb.rollback(early)
            nb.run("x.append(3)")
            assert nb.look("x") == [1, 3]
            assert not nb.session.status().detached
            assert list(nb.repo.branches()) == ["main"]

    def test_brings_random_state_back(self) -> None:
        pytest.importorskip("numpy")
        draw = "import random, numpy as np\ndrawn = (random.random(), float(np.random.rand()))"
        with Notebook() as nb:
            before = nb.run("import random, numpy as np\nrandom.seed(4)\nnp.random.seed(4)")
            nb.run(draw)
            first = nb.look("drawn")
            nb.run(draw)
            assert nb.look("drawn") != first
            nb.rollback(before)
            nb.run(draw)
            assert nb.look("drawn") == first

    def test_leaves_random_state_alone_when_told_so(self) -> None:
        with Notebook() as nb:
            before = nb.run("import random\nrandom.seed(4)")
            nb.run("a = random.random()")
            state = nb.look("random.getstate()")
            nb.session.rollback(rev(before), keep_random=True)
            assert nb.look("random.getstate()") == state

    def test_commits_first_what_is_not_committed(self) -> None:
        with Notebook() as nb:
            early = nb.run("x = [1]")
            nb.run("y = 1")
            nb.execute("x.append('by hand')\nz = 5")
            nb.rollback(early)
            assert nb.look("x") == [1]
            nb.checkout("HEAD~1")
            assert nb.look("(x, y, z)") == ([1, "by hand"], 1, 5)

    def test_leaves_objects_that_do_not_differ_alone(self) -> None:
        with Notebook() as nb:
            early = nb.run("kept = [1]\nchanged = [1]")
            nb.run("changed.append(2)")
            kept, changed = nb.look("kept"), nb.look("changed")
            nb.rollback(early)
            assert nb.look("kept") is kept
            assert nb.look("changed") is not changed

    def test_to_where_one_is_changes_nothing(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            value = nb.look("x")
            report = nb.rollback("HEAD")
            assert report.changed == ()
            assert nb.look("x") is value


class TestCheckout:
    def test_of_an_old_commit_is_detached_and_the_next_change_starts_a_branch(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = 1")
            nb.run("x = 2")
            nb.checkout(old)
            status = nb.session.status()
            assert status.detached
            assert status.head == old.commit
            report = nb.run("x = 10")
            assert report.branch == "main-2"
            assert nb.session.branch == "main-2"
            assert set(nb.repo.branches()) == {"main", "main-2"}
            assert first_parents(nb, "main-2") == ["x = 10", "x = 1"]
            assert first_parents(nb, "main") == ["x = 2", "x = 1"]

    def test_of_two_old_commits_starts_two_branches(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = 1")
            nb.run("x = 2")
            made: list[str | None] = []
            for value in (10, 20):
                nb.checkout(old)
                made.append(nb.run(f"x = {value}").branch)
            assert made[0] == "main-2"
            assert len(set(made)) == 2
            assert set(nb.repo.branches()) == {"main", *made}

    def test_again_and_again_does_not_run_out_of_branch_names(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = 1")
            nb.run("x = 2")
            for value in range(110):
                nb.checkout(old)
                nb.run(f"x = {value + 10}")
            assert len(nb.repo.branches()) == 111
            assert max(map(len, nb.repo.branches())) < 20

    def test_of_a_branch_goes_on_with_it(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = 1")
            nb.run("x = 2")
            nb.checkout(old)
            nb.run("x = 10")
            nb.checkout("main")
            assert not nb.session.status().detached
            assert nb.look("x") == 2
            assert nb.run("x = 3").branch == "main"

    def test_without_a_ref_brings_the_last_state_of_the_branch(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run("x = [1]\ny = [x]")
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert again.look("y[0] is x") is True

    @pytest.mark.parametrize("how", ["HEAD~2", "HEAD^^", "main~2", "@~2", "v1", "refs/tags/v1", "main@{2}"])
    def test_takes_every_way_to_name_a_commit(self, how: str) -> None:
        with Notebook() as nb:
            wanted = nb.run("x = 1")
            assert wanted.commit is not None
            nb.repo.create_tag("v1", wanted.commit)
            nb.run("x = 2")
            nb.run("x = 3")
            nb.checkout(how)
            assert nb.look("x") == 1

    def test_takes_the_first_digits_of_an_id(self) -> None:
        with Notebook() as nb:
            wanted = nb.run("x = 1")
            nb.run("x = 2")
            nb.checkout(rev(wanted)[:10])
            assert nb.look("x") == 1

    @pytest.mark.parametrize("wrong", ["nothere", "HEAD~99", "0000000000", "main^7", ""])
    def test_of_an_unknown_ref_changes_nothing(self, wrong: str) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            value, head = nb.look("x"), nb.session.head
            with pytest.raises((RefNotFoundError, AmbiguousRefError, ValueError)):
                nb.checkout(wrong)
            assert nb.look("x") is value
            assert nb.session.head == head
            assert nb.session.branch == "main"

    def test_of_names_restores_only_those_and_stays_on_the_branch(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = [1]\ny = [1]")
            nb.run("x = [2]\ny = [2]\nz = [2]")
            nb.checkout(old, names=["x"])
            assert nb.look("(x, y, z)") == ([1], [2], [2])
            assert nb.session.branch == "main"
            assert not nb.session.status().detached
            report = nb.run("done = True")
            assert "y" not in names_changed(report)
            nb.run("del x")
            nb.checkout(report)
            assert nb.look("(x, y, z)") == ([1], [2], [2])

    def test_of_a_deleted_name_brings_it_back(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = [1]\ny = 2")
            nb.run("del x\ny = 3")
            nb.checkout(old, names=["x"])
            assert nb.look("(x, y)") == ([1], 3)

    def test_of_names_that_share_brings_what_they_share(self) -> None:
        with Notebook() as nb:
            old = nb.run("inner = [1]\nouter = {'inner': inner}\nother = 1")
            nb.run("inner.append(2)\nother = 2")
            nb.checkout(old, names=["inner", "outer"])
            assert nb.look("(inner, outer['inner'] is inner, other)") == ([1], True, 2)

    def test_of_a_name_that_is_not_there_changes_nothing(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = [1]")
            nb.run("x.append(2)")
            with pytest.raises(NameNotFoundError, match="nope"):
                nb.checkout(old, names=["x", "nope"])
            assert nb.look("x") == [1, 2]

    def test_commits_first_what_is_not_committed(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = [1]")
            nb.run("y = 1")
            nb.execute("x.append('by hand')")
            nb.checkout(old)
            assert nb.look("x") == [1]
            nb.checkout("main")
            assert nb.look("(x, y)") == ([1, "by hand"], 1)

    def test_back_and_forth_many_times_stays_exact(self) -> None:
        with Notebook() as nb:
            reports = [nb.run("a = [0]\nb = {'a': a}"), nb.run("a.append(1)"), nb.run("b['a'] = list(a)\nc = 3")]
            expected = [("[0]", True), ("[0, 1]", True), ("[0, 1]", False)]
            for step in (0, 2, 1, 0, 1, 2, 0, 2):
                nb.checkout(reports[step])
                assert nb.look("(repr(a), b['a'] is a)") == expected[step]
            assert set(nb.repo.branches()) == {"main"}


class TestUndo:
    def test_reverses_one_cell_after_the_other(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.run("x.append(2)")
            nb.run("x.append(3)\ny = 1")
            nb.session.undo()
            assert nb.look("x") == [1, 2]
            assert "y" not in nb.namespace
            nb.session.undo()
            assert nb.look("x") == [1]
            assert nb.session.branch == "main"

    def test_can_be_redone_until_the_next_cell(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            nb.run("x = 2")
            nb.run("x = 3")
            nb.session.undo()
            nb.session.undo()
            nb.session.redo()
            assert nb.look("x") == 2
            nb.session.redo()
            assert nb.look("x") == 3
            nb.session.undo()
            nb.run("y = 1")
            with pytest.raises(NothingToUndoError):
                nb.session.redo()
            assert nb.look("(x, y)") == (2, 1)

    def test_is_a_new_commit(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            second = nb.run("x = 2")
            report = nb.session.undo()
            assert report.record is not None
            assert report.record.kind == "undo"
            assert report.record.parents == (second.commit,)

    def test_reverses_a_checkout(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = 1")
            nb.run("x = 2")
            nb.checkout(old)
            nb.session.undo()
            assert nb.look("x") == 2
            assert nb.session.branch == "main"
            assert not nb.session.status().detached

    def test_reverses_a_rollback(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = 1")
            nb.run("x = 2\ny = 1")
            nb.rollback(old)
            nb.session.undo()
            assert nb.look("(x, y)") == (2, 1)

    def test_reverses_a_merge(self) -> None:
        with Notebook() as nb:
            nb.run("base = 1")
            nb.session.switch("side", create=True)
            nb.run("theirs = 1")
            nb.session.switch("main")
            nb.run("ours = 1")
            nb.session.merge("side")
            assert nb.variables() == {"base", "ours", "theirs"}
            nb.session.undo()
            assert nb.variables() == {"base", "ours"}

    def test_of_nothing_says_so(self) -> None:
        with Notebook() as nb, pytest.raises(NothingToUndoError):
            nb.session.undo()

    def test_of_the_first_cell_leaves_nothing(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            nb.session.undo()
            assert nb.variables() == set()
            nb.session.redo()
            assert nb.look("x") == 1


class TestLostValues:
    def test_say_which_cell_made_them(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            made = nb.run("gen = (i for i in range(3))")
            nb.run("del gen")
            nb.checkout(made)
            with pytest.raises(LostValueError) as raised:
                nb.look("next(gen)")
            assert raised.value.name == "gen"
            assert "generator" in raised.value.type
            assert "cell [2]" in str(raised.value)

    @pytest.mark.parametrize("use", ["gen.send(1)", "iter(gen)", "len(gen)", "gen + 1", "gen()", "gen[0]", "1 in gen"])
    def test_raise_however_they_are_used(self, use: str) -> None:
        with Notebook() as nb:
            made = nb.run("gen = (i for i in range(3))")
            nb.run("del gen")
            nb.checkout(made)
            with pytest.raises(LostValueError):
                nb.look(use)

    def test_are_committed_again_as_the_same_entry(self) -> None:
        with Notebook() as nb:
            made = nb.run("gen = (i for i in range(3))")
            nb.run("del gen")
            nb.checkout(made)
            again = nb.run("x = 1")
            assert names_changed(again) == {"x"}
            nb.run("del gen")
            nb.checkout(again)
            with pytest.raises(LostValueError) as raised:
                nb.look("next(gen)")
            assert "generator" in raised.value.type

    def test_stay_alive_across_a_checkout_that_does_not_touch_them(self) -> None:
        with Notebook() as nb:
            early = nb.run("import threading\nlock = threading.Lock()\nx = 1")
            lock = nb.look("lock")
            nb.run("x = 2")
            nb.checkout(early)
            assert nb.look("lock") is lock
            nb.checkout("main")
            assert nb.look("lock") is lock

    def test_a_lock_that_is_gone_comes_back_as_one_new_one_for_all_that_shared_it(self) -> None:
        with Notebook() as nb:
            made = nb.run("import threading\nlock = threading.RLock()\nbox = {'lock': lock, 'n': 0}")
            (told,) = {lost.reason for lost in made.unsaved}
            assert told == "a lock cannot be saved; where it is gone, a new one takes its place, unlocked"
            nb.run("del lock, box")
            nb.session.undo()
            assert nb.look("box['lock'] is lock and lock.acquire()") is True
            nb.run("box['n'] = 1")
            assert nb.session.undo().changed  # the box comes back, and the lock is there
            assert nb.look("(box['n'], box['lock'] is lock)") == (0, True)

    def test_are_shared_in_another_kernel_by_what_shared_them_however_it_is_loaded(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run("import threading\nlock = threading.Lock(); gen = (i for i in 'ab'); box = [lock, gen]; x = 1")
            nb.run("del gen, lock")
            nb.run("gen = lock = 2")
        with Notebook(Repository.open(store)) as nb:
            nb.session.checkout("HEAD~2")
            assert nb.look("box[0] is lock and box[1] is gen") is True
            assert names_changed(nb.run("x = 3")) == {"x"}  # to load them is to change nothing
            nb.run("del lock")
            nb.session.checkout("HEAD~1", ["lock"])
            nb.session.checkout("HEAD~1", ["box"])
            nb.session.checkout("HEAD~1", ["gen"])
            assert nb.look("box[0] is lock and box[1] is gen") is True
            with pytest.raises(LostValueError):
                nb.look("next(box[1])")

    def test_stay_only_where_the_very_objects_are_alive(self) -> None:
        store = MemoryStore()
        names = ("lock", "gen", "box")
        with Notebook(Repository.open(store)) as nb:
            made = nb.run(
                "import threading\nlock = threading.Lock(); gen = (i for i in 'ab'); box = [lock, gen]"
            ).commit
            assert made is not None
            assert nb.session.alive(made, names) == set(names)
        with Notebook(Repository.open(store)) as nb:
            nb.session.checkout()
            nb.run("x = 1")
            assert nb.session.alive(made, names) == set()  # placeholders, and a new lock

    def test_are_listed_by_status(self) -> None:
        with Notebook() as nb:
            made = nb.run("gen = (i for i in range(3))")
            nb.run("del gen")
            nb.checkout(made)
            assert [lost.name for lost in nb.session.status().lost] == ["gen"]


class TestCells:
    def test_that_raise_are_committed_as_failed(self) -> None:
        with Notebook() as nb:
            report = nb.run("x = 1\n1 / 0\nx = 2", fails=ZeroDivisionError)
            assert report.record is not None
            assert report.record.status == "failed"
            assert report.record.cell is not None
            assert "ZeroDivisionError" in report.record.cell.error
            assert names_changed(report) == {"x"}

    def test_that_are_interrupted_are_committed_as_interrupted(self) -> None:
        with Notebook() as nb:
            report = nb.run("x = 1\nraise KeyboardInterrupt", fails=KeyboardInterrupt)
            assert report.record is not None
            assert report.record.status == "interrupted"
            assert names_changed(report) == {"x"}

    def test_with_a_syntax_error_leave_the_session_usable(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            nb.run("x = = 2", fails=SyntaxError)
            nb.run("x = 3")
            nb.session.undo()
            assert nb.look("x") == 1

    def test_may_commit_and_check_out_half_way(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.namespace["session"] = nb.session
            nb.session.ignore("session")
            nb.run("x.append(2)\nhalf = session.commit('half-way').commit\nx.append(3)")
            half = nb.look("half")
            assert isinstance(half, bytes)
            assert nb.repo.at(half.hex()[:64])["x"] == [1, 2]
            assert nb.repo.at("main")["x"] == [1, 2, 3]


class TestNamespaces:
    def test_leave_a_modules_own_attributes_alone(self) -> None:
        module = ModuleType("script")
        session = bind(vars(module), Repository.open(MemoryStore()))
        session.begin_cell("x = 1")
        vars(module)["x"] = 1
        report = session.end_cell()
        session.close()
        assert report is not None
        assert names_changed(report) == {"x"}


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


class TestLooking:
    """A cell that changes nothing is in the history, and is nothing to undo."""

    def test_undo_reverses_the_last_change_past_cells_that_only_looked(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.run("x.append(2)")
            nb.run("len(x)")
            nb.run("x")
            nb.session.undo()
            assert nb.look("x") == [1]
            nb.run("x")
            nb.session.redo()
            assert nb.look("x") == [1, 2]

    def test_undo_takes_a_merge_back_past_a_look_at_what_it_brought(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.session.switch("side", create=True)
            nb.run("y = [2]")
            nb.session.switch("main")
            nb.run("x.append(3)")
            nb.session.merge("side")
            nb.run("y[:1]")
            nb.session.undo()
            assert nb.variables() == {"x"}
            nb.run("x")
            nb.session.redo()
            assert nb.look("(x, y)") == ([1, 3], [2])

    def test_redo_says_that_a_cell_changed_something_since(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            nb.session.undo()
            nb.run("y = 1")
            with pytest.raises(NothingToUndoError, match="a cell ran since the last undo"):
                nb.session.redo()

    def test_redo_never_takes_the_place_of_what_no_cell_has_committed(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.run("x = [2]")
            nb.session.undo()
            nb.namespace["ticks"] = 7  # as a thread would
            with pytest.raises(NothingToUndoError, match="since the last undo"):
                nb.session.redo()
            assert nb.look("(x, ticks)") == ([1], 7)

    def test_a_look_at_a_past_state_starts_no_branch(self) -> None:
        with Notebook() as nb:
            old = nb.run("x = [1]")
            nb.run("x.append(2)")
            nb.checkout(old)
            nb.run("x")
            assert nb.session.branch is None
            assert list(nb.repo.branches()) == ["main"]
            nb.run("x.append(3)")
            assert nb.session.branch is not None


def test_a_store_whose_folder_was_removed_is_told_of_and_can_be_left(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Notebook(Repository.open(store)) as nb:
        nb.run("x = 1")
        shutil.rmtree(store)
        with pytest.raises(AgentKernelError):
            nb.session.status()
        nb.session.close()
        other = bind(nb.namespace, Repository.open(tmp_path / "other"))
        assert other.commit("here").commit is not None
        other.close()


class TestLargeManifests:
    """Values whose manifests do not lie inside the tree: groups, and values of many parts."""

    MADE = (
        "rows = [{'id': n} for n in range(3000)]\nsame = {'rows': rows}\nbig = {str(n): 'x' * 50 for n in range(3000)}"
    )

    def test_a_restarted_kernel_commits_them(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run(self.MADE)
        with Notebook(Repository.open(store)) as nb:
            report = nb.run(self.MADE + "\nother = rows[5]")
            assert report.record is not None
            assert "restart" in report.record.labels
            assert "other" in names_changed(report)

    def test_they_are_merged_key_by_key(self) -> None:
        with Notebook() as nb:
            nb.run(self.MADE)
            nb.session.switch("side", create=True)
            nb.run("big['1'] = 'theirs'")
            nb.session.switch("main")
            nb.run("big['2'] = 'ours'")
            nb.session.merge("side")
            assert nb.look("(big['1'], big['2'], len(big))") == ("theirs", "ours", 3000)

    def test_one_of_a_group_is_taken_from_a_commit(self) -> None:
        with Notebook() as nb:
            old = nb.run(self.MADE)
            nb.run("rows.append(1)\nbig['1'] = 'new'\nsame['more'] = [rows]")
            nb.checkout(old, names=["big"])
            assert nb.look("(big['1'], len(rows), same['rows'] is rows)") == ("x" * 50, 3001, True)
            nb.checkout(old, names=["same"])
            assert nb.look("(same['rows'] is rows, len(rows), 'more' in same)") == (True, 3000, False)


def test_a_refused_forget_changes_nothing() -> None:
    with Notebook() as nb:
        nb.run("secret = 'k'\nx = 1")
        other = msgspec.structs.replace(Holder.here("other"), pid=os.getppid(), started=start_of(os.getppid()))
        nb.repo.acquire_lease("side", other)
        head = nb.session.head
        for what in ("secret", "HEAD"):
            with pytest.raises(BranchInUseError):
                nb.session.forget(what)
        assert nb.session.head == head
        assert nb.session.ignored() == ()
        assert names_changed(nb.run("secret = 'l'")) == {"secret"}


def test_asking_what_prune_would_drop_leaves_undo_as_it_was() -> None:
    with Notebook() as nb:
        nb.run("x = [1]")
        nb.run("x.append(2)")
        nb.session.prune(Retention(keep_last=1), dry_run=True)
        nb.session.undo()
        assert nb.look("x") == [1]


@pytest.mark.parametrize("verb", ["prune", "forget"])
def test_undo_says_that_the_history_was_rewritten_and_begins_anew(verb: str) -> None:
    with Notebook() as nb:
        nb.run("x = [1]\ny = 1")
        nb.run("x.append(2)")
        if verb == "prune":
            nb.session.prune(Retention(keep_last=1))
        else:
            nb.session.forget("y")
        said = f"nothing to undo in this session: {verb} has rewritten what was done before"
        with pytest.raises(NothingToUndoError, match=said):
            nb.session.undo()
        nb.run("x.append(3)")
        nb.session.undo()
        assert nb.look("x") == [1, 2]
        with pytest.raises(NothingToUndoError, match=said):
            nb.session.undo()


def test_what_only_a_forgotten_commit_held_is_committed_again_while_it_is_in_memory() -> None:
    with Notebook() as nb:
        nb.run("x = [1]\nkept = [x]\ngone = 1\nclass K: n = 1\nk = K()")
        nb.run("x.append(2)\nmade = [3]\nother = [made]\ndel gone\nK.n = 2")
        assert nb.session.forget("HEAD").in_memory == ("kept", "made", "other", "x")
        assert names_changed(nb.run("z = 1")) == {"x", "kept", "made", "other", "K", "gone", "z"}
        assert nb.session.carried() == []
        tip = nb.session.head
        nb.session.verify_all()
        assert nb.session.head == tip
    with Notebook(nb.repo) as nb:
        nb.checkout()
        assert nb.look("(x, kept[0] is x, other[0] is made, k.n, z)") == ([1, 2], True, True, 2, 1)
        assert "gone" not in nb.namespace  # deleting it is what the next commit holds again too


@pytest.mark.parametrize("how", ["prune", "forget"])
def test_a_session_goes_on_where_something_else_in_its_process_rewrote_the_history(how: str) -> None:
    with Notebook() as nb:
        nb.run("x = [1]")
        nb.run("x.append(2)")
        nb.run("y = [x]")
        if how == "prune":
            nb.repo.prune(Retention(keep_last=1))
        else:
            nb.repo.forget((), {nb.repo.resolve("main")})
        report = nb.run("z = 1")
        assert names_changed(report) == ({"z"} if how == "prune" else {"x", "y", "z"})
        assert len(list(nb.repo.log("main"))) == (2 if how == "prune" else 3)
    with Notebook(nb.repo) as nb:
        nb.checkout()
        assert nb.look("(x, y[0] is x, z)") == ([1, 2], True, 1)


def test_a_commit_after_one_was_forgotten_has_its_random_state() -> None:
    with Notebook() as nb:
        nb.run("import random\nx = 1")
        nb.run("first = random.random()")
        nb.session.forget("HEAD")
        after = nb.run("z = 3")
        drawn = nb.run("a = random.random()").commit
        nb.checkout(after)
        nb.run("b = random.random()")
        there = nb.look("b")
        nb.checkout(drawn)
        assert nb.look("a") == there
        assert nb.repo.verify().problems == ()


def test_undo_and_redo_across_branches_end_on_the_tip_of_each() -> None:
    with Notebook() as nb:
        nb.run("a = [1]")
        nb.session.switch("side", create=True)
        nb.run("b = 2")
        nb.session.undo()
        nb.session.undo()
        assert nb.session.branch == "main"
        nb.session.redo()
        assert (nb.session.branch, nb.look("'b' in globals()")) == ("side", False)
        nb.session.redo()
        assert nb.look("b") == 2
        nb.run("c = 3")
        assert nb.repo.branches()["side"] == nb.session.head
        nb.session.switch("main")
        nb.session.undo()
        assert nb.look("(a, b, c)") == ([1], 2, 3)


def test_undo_and_redo_find_a_branch_that_was_renamed() -> None:
    with Notebook() as nb:
        nb.run("a = 1")
        nb.session.switch("side", create=True)
        nb.run("b = 1")
        nb.session.switch("main")
        nb.session.undo()
        nb.session.rename_branch("try")
        nb.session.redo()
        assert nb.session.branch == "main"
        nb.session.undo()
        assert nb.session.branch == "try"


def test_undo_of_leaving_a_branch_that_is_gone_by_now_goes_to_its_commit() -> None:
    with Notebook() as nb:
        nb.run("a = [1]")
        nb.session.switch("side", create=True)
        nb.run("b = 2")
        nb.session.switch("main")
        nb.repo.delete_branch("side", force=True)
        nb.session.undo()
        assert (nb.session.branch, nb.look("b")) == (None, 2)
        nb.run("c = 3")
        assert nb.session.branch == "main-2"


@pytest.mark.parametrize("gone", ["", "del K", "K = None"])
def test_a_variable_taken_alone_keeps_the_class_that_it_needs(gone: str) -> None:
    repo = Repository.open(MemoryStore())
    with Notebook(repo) as nb:
        first = nb.run(f"class K: pass\nk = K()\nk.v = 1\n{gone}")
        nb.run("k.v = 2")
        nb.checkout(first, names=["k"])
        nb.run("other = 3")
    with Notebook(repo) as nb:
        nb.checkout()
        assert nb.look("(k.v, type(k).__name__, other)") == (1, "K", 3)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_class_taken_alone_is_another_one_than_that_of_what_was_made_since(restarted: bool) -> None:
    repo = Repository.open(MemoryStore())
    with Notebook(repo) as nb:
        first = nb.run("class K:\n    W = 0")
        nb.run("k = K(); k.v = 1")
        last = nb.run("K.W = 5\nk.x = 1")
        if not restarted:
            assert names_changed(nb.checkout(first, names=["K"])) == {"K"}
            assert nb.look("(K.W, k.W, k.x, type(k) is K)") == (0, 5, 1, False)
    with Notebook(repo) as nb:
        if restarted:
            nb.checkout(first, names=["K"])
        nb.checkout()
        assert nb.look("(K.W, k.W, k.x)") == (0, 5, 1)
        assert not nb.session.commit(full=True).changed
        nb.checkout(last)
        assert nb.look("(K.W, k.W, type(k) is K)") == (5, 5, True)


def test_an_instance_taken_alone_leaves_its_class_to_the_others_as_it_is() -> None:
    with Notebook() as nb:
        first = nb.run("class K:\n    W = 0\nk, other = K(), K()")
        nb.run("K.W = 5\nk.x = 1")
        assert names_changed(nb.checkout(first, names=["k"])) == {"k"}
        assert nb.look("(k.W, hasattr(k, 'x'), K.W, other.W, type(other) is K)") == (0, False, 5, 5, True)
        nb.session.undo()
        assert nb.look("(k.W, k.x, type(k) is K)") == (5, 1, True)


def test_a_class_that_was_altered_in_place_is_told_of_when_it_is_taken_back() -> None:
    with Notebook() as nb:
        first = nb.run("class K:\n    W = 0\nk = K()")
        nb.run("K.W = 5")
        assert names_changed(nb.session.rollback(rev(first))) == {"K"}
        assert names_changed(nb.session.undo()) == {"K"}
        assert nb.look("(K.W, k.W)") == (5, 5)


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


def test_what_is_made_of_the_class_that_went_keeps_it_in_the_commit_that_takes_an_older_one() -> None:
    with Notebook() as nb:
        older = nb.run("class K:\n    W = 0")
        nb.run("k = K()\nclass L(K): pass")
        nb.run("K.W = 5")
        taken = nb.checkout(older, names=["K"])
        assert nb.look("(K.W, k.W, L.W)") == (0, 5, 5)
        assert nb.session.commit(full=True).commit is None  # nothing is left that no commit holds
        repo, at = nb.repo, taken
    with Notebook(repo) as nb:
        nb.checkout(at)
        assert nb.look("(K.W, k.W, L.W)") == (0, 5, 5)
        assert nb.look("type(k) is L.__base__ and type(k) is not K")


def test_undo_takes_back_what_no_cell_committed_before_anything_else() -> None:
    with Notebook() as nb:
        nb.run("q = 1")
        nb.namespace |= {"q": 2, "hours": [1, 2]}
        nb.session.undo()
        assert nb.look("(q, 'hours' in globals())") == (1, False)
        nb.session.redo()
        assert nb.look("(q, hours)") == (2, [1, 2])
        nb.session.undo()
        nb.session.undo()
        assert nb.look("'q' in globals()") is False


def test_a_class_leaves_the_commit_with_the_last_class_made_of_it() -> None:
    with Notebook() as nb:
        nb.run("x = 1")
        nb.run("class A: pass\nclass B(A): pass\nclass C(B): pass\nc = C()\ndel A, B, C")
        report = nb.run("del c")
        assert list(nb.repo.tree_at(report.commit).names()) == ["x"]
        nb.session.verify_all()
        assert nb.session.head == report.commit


def test_a_variable_that_is_ignored_no_more_is_stored_from_the_next_cell_on_with_what_shares_it() -> None:
    with Notebook() as nb:
        nb.run("a = [1]\nb = [a]")
        nb.session.ignore("a")
        assert "a" not in nb.repo.tree_at(nb.run("a.append(2)").commit)
        nb.session.unignore("a")
        nb.run("c = 1")
    with Notebook(nb.repo) as nb:
        nb.checkout()
        assert nb.look("(a, b[0] is a, c)") == ([1, 2], True, 1)
