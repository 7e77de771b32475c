"""Going back as a git user expects: whole or not at all, nothing destroyed, nothing lost on the way."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.errors import AmbiguousRefError, NameNotFoundError, RefNotFoundError
from agent_kernel.repository.rewrite import Retention
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed, rev


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

    def test_many_random_states_take_little_and_stay_when_others_are_collected(self) -> None:
        with Notebook() as nb:
            nb.run("import random\nrandom.seed(4)")
            states: list[object] = []
            kept = [nb.run(f"x{number} = random.random()") for number in range(60)]
            taken = sum(nb.repo.stats().stored.values())
            assert taken / 60 < 1_500  # a state alone is 2,500 bytes
            for number in (59, 3, 40):
                nb.rollback(rev(kept[number]))
                states.append(nb.look("random.random()"))
            commit = kept[40].commit
            assert commit is not None
            nb.repo.create_tag("kept", commit)
            nb.repo.prune(Retention(keep_last=2))
            nb.repo.gc(grace_s=0)
            assert nb.repo.verify().is_sound
            nb.rollback("kept")
            assert nb.look("random.random()") == states[-1]

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


def test_a_state_of_random_generators_does_not_differ_from_one_of_a_commit_that_failed(tmp_path: Path) -> None:
    with ak.open(tmp_path / "store") as repo, ak.Versioned(repo) as state:
        state["x"] = 1
        state.commit("stored")
        random.random()
        state["x"] = 2
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(repo.pointers, "change", _fail)
            with pytest.raises(OSError, match="no disk"):
                state.commit("not stored")
        random.random()
        state["x"] = 3
        state.commit("stored")
        assert repo.verify().is_sound
    with ak.open(tmp_path / "store") as repo, ak.Versioned(repo) as state:
        assert state["x"] == 3


def _fail(build: object) -> None:
    raise OSError("no disk")
