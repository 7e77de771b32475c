"""Changes that lie beside the commits of a branch: durable and seen by all at once, and part of whatever commit is named next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.errors import BranchMovedError
from agent_kernel.records import Records
from agent_kernel.records.collection import together
from agent_kernel.records.lines import Pending
from agent_kernel.repository import Holder
from agent_kernel.repository.rewrite import Retention
from agent_kernel.session import Session


class Step(ak.Record):
    """What a program stores often."""

    number: int = 0
    text: str = ""


def put_beside(steps: Records[Step], step: Step) -> None:
    together(steps, lambda: steps.put(step), "step", may_lie_beside=True)


@pytest.fixture
def steps(repo: ak.Repository) -> Records[Step]:
    found = repo.records(Step)
    found.put(Step(id="first"))
    return found


def commits(repo: ak.Repository) -> int:
    return sum(1 for _ in repo.history.walk(list(repo.refs.branches().values())))


def test_they_are_no_commits_and_another_process_sees_them(
    repo: ak.Repository, steps: Records[Step], child: Callable[[str], Any]
) -> None:
    for number in range(20):
        put_beside(steps, Step(id=f"s{number:02}", number=number))
    put_beside(steps, Step(id="s03", number=33))
    together(steps, lambda: steps.delete("s04"), may_lie_beside=True)
    assert commits(repo) == 1
    assert (len(steps), steps["s03"].number, "s04" in steps) == (20, 33, False)
    assert list(steps.ids("s*"))[:5] == ["s00", "s01", "s02", "s03", "s05"]
    assert next(change.new and change.new.number for change in steps.history("s03")) == 33
    code = """
        class Step(ak.Record):
            number: int = 0
            text: str = ""
        found = repo.records(Step)
        print(len(found), found["s03"].number, "s04" in found, [one.id for one in found.find("s1*", limit=2)], flush=True)
        input()
    """
    process = child("import sys\nprint('begun', flush=True)\n" + code.replace("\n        ", "\n"))
    assert process.stdout.readline() == "20 33 False ['s10', 's11']\n"


def test_a_list_that_needs_no_commit_for_each_change_is_as_durable_and_goes_into_the_next_one(
    repo: ak.Repository, steps: Records[Step], child: Callable[[str], Any]
) -> None:
    talk = repo.list("talk", plane="branch", commit_each=False)
    for number in range(10):
        talk.append(number)
    talk.replace_tail(8, ["eight"])
    expected = [*range(8), "eight"]
    assert (commits(repo), list(talk)) == (1, expected)
    code = "print('begun', flush=True)\nprint(list(repo.list('talk', plane='branch')), flush=True)\ninput()"
    assert child(code).stdout.readline() == f"{expected}\n"
    steps.put(Step(id="second"))  # a commit: it takes the list in
    assert commits(repo) == 2
    before = repo.resolve("main").hex()[:64]
    talk.append("nine")
    assert (list(talk.at(before)), list(talk.at("HEAD"))) == (expected, [*expected, "nine"])
    assert repo.verify().is_sound


def test_messages_that_need_no_commit_each_go_into_the_next_one_of_their_state(repo: ak.Repository) -> None:
    state = repo.state("ada", "morning")
    state.set("city", "London")
    memory, events = state.memory(8), state.events(commit_each=False)
    before = commits(repo)
    for number in range(5):
        memory.add("user", f"message {number}, which does not fit")
        events.append(number)
    assert (commits(repo), len(memory), len(memory.messages()), list(events)) == (before, 5, 1, [*range(5)])
    state.set("city", "Paris")
    assert commits(repo) == before + 1
    memory.clear()
    assert (commits(repo), len(memory)) == (before + 1, 0)
    assert [len(state.at(ref).events("memory")) for ref in ("HEAD", "HEAD~1", "HEAD~2")] == [0, 5, 0]
    before = commits(repo)
    each = state.memory(8, commit_each=True)
    each.add("user", "hello")
    each.add("user", "again")
    assert commits(repo) == before + 2
    assert repo.verify().is_sound


def test_who_names_a_commit_means_all_that_the_branch_holds(repo: ak.Repository, steps: Records[Step]) -> None:
    put_beside(steps, Step(id="a", text="long " * 1_000))
    id = repo.resolve("main")
    assert commits(repo) == 2
    assert steps.at(id.hex()[:64])["a"].text == "long " * 1_000
    put_beside(steps, Step(id="b"))
    repo.create_branch("other", "main")
    assert "b" in repo.records(Step, branch="other")
    put_beside(steps, Step(id="c"))
    assert repo.branches()["main"] != repo.branches()["other"]
    put_beside(steps, Step(id="d"))
    repo.rename_branch("main", "trunk")
    assert sorted(repo.records(Step, branch="trunk")) == ["a", "b", "c", "d", "first"]
    assert repo.verify().is_sound


def test_the_next_change_takes_them_in(repo: ak.Repository, steps: Records[Step]) -> None:
    put_beside(steps, Step(id="a", number=1))
    put_beside(steps, Step(id="gone"))
    together(steps, lambda: steps.delete("gone"), may_lie_beside=True)
    steps.update("a", number=2)
    assert commits(repo) == 2
    assert {id: step.number for id, step in steps.items()} == {"a": 2, "first": 0}
    assert not list(repo.pointers.keys(b"n/w/"))


def test_a_session_has_them_in_its_commits(repo: ak.Repository, steps: Records[Step]) -> None:
    put_beside(steps, Step(id="a", number=1))
    with ak.Versioned(repo) as state:
        assert steps["a"].number == 1
        state["x"] = 1
        state.commit("with x")
        put_beside(steps, Step(id="a", number=2))  # of a session: in its commits
        state.commit("later")
        state.rollback("HEAD~1")
        assert steps["a"].number == 1


def test_in_a_session_they_wait_for_its_next_commit_and_are_there_when_it_is_killed(
    repo: ak.Repository, child: Callable[[str], Any]
) -> None:
    code = """
from agent_kernel.records.collection import together
class Step(ak.Record):
    number: int = 0
    text: str = ""
state = ak.Versioned(repo)
found = repo.records(Step)
state["x"] = 1
state.commit("begin")
for number in range(5):
    together(found, lambda: found.put(Step(id="a", number=number)), may_lie_beside=True)
state["x"] = 2
state.commit("a turn")
for number in range(5, 9):
    together(found, lambda: found.put(Step(id="a", number=number)), may_lie_beside=True)
together(found, lambda: found.put(Step(id="b")), may_lie_beside=True)
print(len(state.history()), flush=True)
input()
"""
    process = child("print('begun', flush=True)\n" + code)
    assert process.stdout.readline() == "2\n"
    assert repo.records(Step)["a"].number == 8  # another process sees them at once
    assert commits(repo) == 2
    process.kill()
    process.wait()
    with ak.Versioned(repo) as state:
        found = repo.records(Step)
        assert (state["x"], found["a"].number, "b" in found) == (2, 8, True)
        state.rollback("HEAD~1")
        assert (state["x"], found["a"].number, "b" in found) == (2, 4, False)
        state.rollback("HEAD~3")
        assert (state["x"], "a" in found) == (1, False)
    assert repo.verify().is_sound


def test_each_change_in_a_session_is_durable_and_no_commit(repo: ak.Repository, steps: Records[Step]) -> None:
    talk = repo.list("talk", plane="branch")
    with ak.Versioned(repo) as state:
        state["x"] = 1
        state.commit("begin")
        before = commits(repo)
        for number in range(10):
            steps.put(Step(id="a", number=number))
            talk.append(number)
        assert commits(repo) == before
        with ak.open(Path(repo.store.url.removeprefix("lmdb://"))) as other:
            assert (other.records(Step)["a"].number, list(other.list("talk", plane="branch"))) == (9, [*range(10)])
        state.undo()
        assert ("a" in steps, list(talk)) == (False, [])
        state.redo()
        assert (steps["a"].number, list(talk)) == (9, [*range(10)])


def test_who_names_a_commit_of_a_session_means_all_that_it_holds(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        steps = repo.records(Step)
        state["x"] = 1
        state.commit("begin")
        put_beside(steps, Step(id="a"))
        assert "a" in steps.at("HEAD")
        put_beside(steps, Step(id="b"))
        repo.create_branch("other")
        assert "b" in steps.at("other")
        put_beside(steps, Step(id="c"))
        assert "c" in steps.at(next(iter(repo.log()))[0].hex()[:64])
        state["x"] = 2
        state.commit("and x")
        assert state.history(1)[0][1].message == "and x"
        state.undo()
        assert (state["x"], "b" in steps) == (1, True)


def test_a_commit_of_them_alone_says_what_changed(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        steps = repo.records(Step)
        state["x"] = 1
        state.commit("begin")
        for number in range(3):
            steps.put(Step(id="a", number=number))
        one = state.repo.log(limit=1)
        steps.put(Step(id="b"))
        steps.put(Step(id="c"))
        several = state.repo.log(limit=1)
        assert [commit.message for found in (one, several) for _, commit in found] == [
            "Step: put a",
            "Step: put b, and 1 other change of records",
        ]


def test_one_undo_reverses_them_with_the_variables_or_alone(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        steps = repo.records(Step)
        state["x"] = 1
        state.commit("begin")
        put_beside(steps, Step(id="a"))
        put_beside(steps, Step(id="b"))
        state["x"] = 2
        state.commit("both")
        put_beside(steps, Step(id="c"))
        state.undo()
        assert (state["x"], list(steps.ids())) == (2, ["a", "b"])
        state.undo()
        assert (state["x"], list(steps.ids())) == (1, [])
        state.redo()
        assert (state["x"], list(steps.ids())) == (2, ["a", "b"])
        put_beside(steps, Step(id="d"))
        state.checkout("HEAD~1")
    assert repo.verify().is_sound
    assert not list(repo.pointers.keys(b"n/w/"))


LOOKS: list[Callable[[ak.Repository], object]] = [
    lambda repo: None,
    lambda repo: list(repo.log()),
    lambda repo: repo.resolve("HEAD"),
    lambda repo: repo.branches(),
    lambda repo: repo.records(Step).at("HEAD"),
]


@pytest.mark.parametrize("look", LOOKS, ids=["none", "log", "resolve", "branches", "at"])
@pytest.mark.parametrize("changes_variables", [False, True])
def test_what_undo_reverses_does_not_depend_on_who_looked_meanwhile(
    repo: ak.Repository, look: Callable[[ak.Repository], object], changes_variables: bool
) -> None:
    with ak.Versioned(repo) as state:
        steps = repo.records(Step)
        state["x"] = 1
        state.commit("begin")
        for id in "abc":
            steps.put(Step(id=id))
            look(repo)
        if changes_variables:
            state["x"] = 2
        state.undo()
        assert (state["x"], list(steps)) == (1, [])
        state.redo()
        assert (state["x"], list(steps)) == (2 if changes_variables else 1, ["a", "b", "c"])
        state.undo()
        state.undo()  # of the first commit
        with pytest.raises(ak.NothingToUndoError):
            state.undo()
    assert repo.verify().is_sound


@pytest.mark.parametrize("refer", ["create_tag", "create_branch"])
def test_undo_goes_back_to_a_commit_of_records_that_a_tag_or_a_branch_names(repo: ak.Repository, refer: str) -> None:
    with ak.Versioned(repo) as state:
        steps = repo.records(Step)
        state["x"] = 1
        state.commit("begin")
        steps.put(Step(id="a"))
        getattr(repo, refer)("named")
        steps.put(Step(id="b"))
        list(repo.log())
        steps.put(Step(id="c"))
        state["x"] = 2
        state.undo()
        assert (state["x"], list(steps)) == (1, ["a"])
        state.undo()
        assert (state["x"], list(steps)) == (1, [])
        assert list(steps.at("named")) == ["a"]


@pytest.mark.parametrize("verb", ["rollback", "checkout"])
def test_a_revision_counts_them_in_everywhere(repo: ak.Repository, verb: str) -> None:
    with ak.Versioned(repo) as state:
        steps = repo.records(Step)
        for number in (1, 2):
            state["x"] = number
            state.commit(str(number))
        steps.put(Step(id="a"))
        getattr(state, verb)("HEAD~1")
        assert (state["x"], list(steps)) == (2, [])
        state.undo()
        assert (state["x"], list(steps)) == (2, ["a"])
        state["x"] = 3
        steps.put(Step(id="b"))
        getattr(state, verb)("HEAD~1")
        assert (state["x"], list(steps)) == (2, ["a"])
        state.undo()
        assert (state["x"], list(steps)) == (3, ["a", "b"])
        with pytest.raises(ak.RefNotFoundError):
            getattr(state, verb)("nothing")
        assert (state["x"], list(steps)) == (3, ["a", "b"])


def test_a_commit_that_does_not_take_them_in_moves_no_branch(repo: ak.Repository, steps: Records[Step]) -> None:
    put_beside(steps, Step(id="a"))
    head = repo.refs.head("")
    assert head.commit is not None
    with pytest.raises(BranchMovedError):
        repo.publish(repo.writer(), repo.commit_at(head.commit), head=head, session="other", message="")
    assert "a" in steps


def test_a_branch_that_a_session_of_another_process_holds_is_left_alone(
    repo: ak.Repository, steps: Records[Step], child: Callable[[str], Any]
) -> None:
    child("state = ak.Versioned(repo)\nstate['x'] = 1\nstate.commit('held')\nprint('held', flush=True)\ninput()")
    with pytest.raises(ak.BranchInUseError):
        put_beside(steps, Step(id="a"))
    assert "a" not in steps


def test_none_is_lost_where_many_write_at_once(tmp_path: Path, repo: ak.Repository, steps: Records[Step]) -> None:
    def count(number: int) -> None:
        with ak.open(tmp_path / "store") as mine:
            own = mine.records(Step)

            def add(step: Step) -> Step:
                return step.model_copy(update={"number": step.number + 1})

            for _ in range(15):
                if number % 2:
                    own.update("first", add)
                else:
                    together(own, lambda: own.update("first", add), may_lie_beside=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(4)))
    assert steps["first"].number == 60


def test_they_are_there_when_the_process_is_killed(
    repo: ak.Repository, steps: Records[Step], child: Callable[[str], Any]
) -> None:
    code = """
from agent_kernel.records.collection import together
class Step(ak.Record):
    number: int = 0
    text: str = ""
found = repo.records(Step)
for number in range(5):
    together(found, lambda: found.put(Step(id=f"k{number}", number=number)), may_lie_beside=True)
print("stored", flush=True)
input()
"""
    process = child(code)
    process.kill()
    process.wait()
    assert [step.number for step in steps.find("k*")] == [0, 1, 2, 3, 4]


def test_many_go_into_a_commit(repo: ak.Repository, steps: Records[Step]) -> None:
    for number in range(40):
        put_beside(steps, Step(id=f"s{number}", text=repr(number) + str(hash(str(number))) * 3_000))
    assert commits(repo) >= 1
    assert len(steps) == 41
    assert repo.gc(grace_s=0) is not None
    assert len(steps) == 41
    assert repo.verify().is_sound


def test_a_kernel_that_is_restarted_has_them(repo: ak.Repository, child: Callable[[str], Any]) -> None:
    code = """
from agent_kernel.session import Session
class Step(ak.Record):
    number: int = 0
session = Session({}, repo, session_id="k.1")
session.runs_cells = True
session.begin_cell("x = 1", number=1)
session.namespace["x"] = 1
session.end_cell()
repo.records(Step).put(Step(id="between cells"))
print("stored", flush=True)
input()
"""
    process = child(code)
    process.kill()
    process.wait()
    session = Session({}, repo, session_id="k.2")
    found = repo.records(Step)
    assert list(found) == ["between cells"]
    session.commit("here")
    assert (session.branch, list(found)) == ("main", ["between cells"])
    session.close()


def test_a_branch_that_moves_leaves_none_behind(repo: ak.Repository, steps: Records[Step]) -> None:
    first = repo.resolve("main")
    put_beside(steps, Step(id="a"))
    repo.create_branch("main", first, force=True)
    assert list(steps) == ["first"]
    put_beside(steps, Step(id="b"))
    with pytest.raises(BranchMovedError):
        repo.move_branch("main", first, "", first)
    assert list(steps) == ["b", "first"]
    repo.rename_branch("main", "trunk")
    repo.create_branch("main", first)
    assert list(repo.records(Step, branch="main")) == ["first"]
    put_beside(repo.records(Step, branch="main"), Step(id="c"))
    repo.create_branch("kept", "main")
    repo.delete_branch("main")
    repo.create_branch("main", first)
    assert list(repo.records(Step, branch="main")) == ["first"]


def test_a_session_that_renames_its_branch_takes_them_along(repo: ak.Repository, steps: Records[Step]) -> None:
    with ak.Versioned(repo) as state:
        state["x"] = 1
        state.commit("begin")
        steps.put(Step(id="a"))
        state.session.rename_branch("trunk")
        steps.put(Step(id="b"))
        state.commit("later")
        assert state.session.branch == "trunk"
    repo.create_branch("main", "trunk~1")
    assert list(repo.records(Step, branch="trunk")) == ["a", "b", "first"]
    assert list(repo.records(Step, branch="main")) == ["a", "first"]


def test_nobody_renames_a_branch_beside_which_another_process_stores(
    repo: ak.Repository, child: Callable[[str], Any]
) -> None:
    code = """
class Step(ak.Record):
    number: int = 0
state = ak.Versioned(repo)
state["x"] = 1
state.commit("begin")
repo.records(Step).put(Step(id="a"))
print("stored", flush=True)
input()
repo.records(Step).put(Step(id="b"))
print(state.session.branch, flush=True)
input()
"""
    process = child(code)
    with pytest.raises(ak.BranchInUseError):
        repo.rename_branch("main", "trunk")
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "main\n"
    assert list(repo.records(Step)) == ["a", "b"]


def test_an_interrupt_waits_until_a_change_is_stored(repo: ak.Repository, steps: Records[Step]) -> None:
    with ak.Versioned(repo) as state:
        state["x"] = 1
        state.commit("begin")
        change = repo.pointers.change

        def interrupted(build: Callable[[Any], Any]) -> Any:
            result = change(build)
            signal.raise_signal(signal.SIGINT)
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(repo.pointers, "change", interrupted)
            with pytest.raises(KeyboardInterrupt):
                steps.put(Step(id="a"))
        steps.put(Step(id="b"))
        state.commit("later")
        assert (state.session.branch, list(steps)) == ("main", ["a", "b", "first"])


def test_they_are_there_after_this_process_has_rewritten_the_history(repo: ak.Repository, steps: Records[Step]) -> None:
    with ak.Versioned(repo) as state:
        for number in range(4):
            state["x"] = number
            state.commit("turn")
        steps.put(Step(id="a"))
        repo.prune(Retention(keep_last=1))
        repo.gc(grace_s=0)
        assert list(steps) == ["a", "first"]
        steps.put(Step(id="b"))
        state["x"] = 9
        state.commit("later")
        assert (state.session.branch, list(steps)) == ("main", ["a", "b", "first"])
        state.undo()
        assert (state["x"], "b" in steps) == (3, False)
    assert repo.verify().is_sound


def test_one_undo_reverses_a_rollback_or_a_cherry_pick_of_records_alone(
    repo: ak.Repository, steps: Records[Step]
) -> None:
    with ak.Versioned(repo) as state:
        state["x"] = 1
        state.commit("begin")
        steps.put(Step(id="a"))
        state.commit("a")
        state.rollback("HEAD~1")
        assert list(steps) == ["first"]
        state.undo()
        assert list(steps) == ["a", "first"]
        state.redo()
        assert list(steps) == ["first"]
        state.session.switch("other", create=True)
        steps.put(Step(id="b"))
        state.commit("b")
        state.session.switch("main")
        state.session.cherry_pick("other")
        assert list(steps) == ["b", "first"]
        state.undo()
        assert (state.session.branch, list(steps)) == ("main", ["first"])


def test_none_is_lost_where_threads_store_the_first_ones(
    memory: ak.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Pending.__init__

    def slow(self: Pending, *args: Any) -> None:
        begin(self, *args)
        time.sleep(0.05)

    monkeypatch.setattr(Pending, "__init__", slow)
    with ak.Versioned(memory) as state:
        state["x"] = 1
        state.commit("begin")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: memory.records(Step).put(Step(id=str(number))), range(4)))
        assert (state.session.branch, len(memory.records(Step))) == ("main", 4)


def test_a_session_begins_with_what_was_stored_while_it_took_the_branch(
    repo: ak.Repository, steps: Records[Step]
) -> None:
    acquire = repo.leases.acquire

    def late(branch: str, holder: Holder) -> None:
        if "late" not in steps:
            put_beside(steps, Step(id="late"))
        acquire(branch, holder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repo.leases, "acquire", late)
        state = ak.Versioned(repo)
    state["x"] = 1
    state.commit("begin")
    assert (state.session.branch, sorted(repo.records(Step))) == ("main", ["first", "late"])
    state.close()


def test_a_program_that_closes_the_store_before_its_session_ends_without_alarm(tmp_path: Path) -> None:
    """As it ends, its session would commit them. They are stored without that, so "not stored" was wrong."""
    code = f"""
        import agent_kernel as ak

        class Step(ak.Record):
            number: int = 0
            coalesce_s = 9.0

        repo = ak.open({str(tmp_path / "store")!r})
        variables = ak.Versioned(repo)
        steps = repo.records(Step)
        for number in range(3):
            steps.put(Step(id="a", number=number))
        repo.close()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    with ak.open(tmp_path / "store") as repo:
        assert repo.records(Step)["a"].number == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_reads_them_and_the_commits_of_the_branch(child: Callable[[str], Any]) -> None:
    code = """
import os
class Step(ak.Record):
    number: int = 0
found = repo.records(Step)
def look(*expected):
    if pid := os.fork():
        print("child", os.waitpid(pid, 0)[1], flush=True)
        return
    assert list(found) == list(expected), list(found)
    assert repo.branches() and list(repo.log()) and repo.resolve("main")
    os._exit(0)
print("begun", flush=True)
found.put(Step(id="a"))
log = repo.list("log", plane="branch", commit_each=False)
log.append(1)
look("a")
state = ak.Versioned(repo)
state["x"] = 1
state.commit("begin")
found.put(Step(id="b"))
look("a", "b")
input()
"""
    process = child(code)
    assert [process.stdout.readline() for _ in range(2)] == ["child 0\n"] * 2
