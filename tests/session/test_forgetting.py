"""Forgetting under a live session: the history loses what it is told to, and memory nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from agent_kernel.errors import NameNotFoundError, StoreFullError
from agent_kernel.repository import Retention
from agent_kernel.repository.runs import EVENTS
from agent_kernel.session import Repository
from agent_kernel.storage import LmdbStore
from tests.support.notebooks import Notebook

CELL = "x = 2; rows.append(2); new = 7; del old"


def forgotten(nb: Notebook) -> None:
    """The last cell is forgotten; memory is as it left it."""
    nb.run("x = 1; rows = [1]; same = rows; old = 5")
    nb.run(CELL)
    nb.session.forget("HEAD")


def test_what_a_forgotten_commit_had_changed_is_called_uncommitted() -> None:
    with Notebook() as nb:
        forgotten(nb)
        status = nb.session.status()
        assert [(change.how, change.name) for change in status.changed] == [("+", "new"), ("-", "old")]
        assert status.unverified == ("rows", "same", "x")


def test_the_next_commit_holds_what_memory_holds() -> None:
    with Notebook() as nb:
        forgotten(nb)
        report = nb.run("y = 1")
        assert {(change.how, change.name) for change in report.changed} == {
            ("+", "y"),
            ("~", "rows"),
            ("~", "same"),
            ("+", "new"),
            ("-", "old"),
            ("~", "x"),
        }
        nb.session.checkout("HEAD~1")
        nb.session.switch("main")
        assert nb.look("(x, rows, rows is same, new, 'old' in globals())") == (2, [1, 2], True, 7, False)


def test_nothing_is_replaced_before_it_is_committed() -> None:
    with Notebook() as nb:
        forgotten(nb)
        nb.session.checkout("main~0")
        assert nb.look("(x, rows, old)") == (1, [1], 5)
        nb.session.switch("main")
        assert nb.look("(x, rows, rows is same, new, 'old' in globals())") == (2, [1, 2], True, 7, False)


def test_a_forgotten_commit_whose_state_came_back_leaves_nothing_uncommitted() -> None:
    with Notebook() as nb:
        nb.run("x = 1; rows = [1]")
        nb.run("x = 2; rows.append(2)")
        nb.session.undo()
        nb.session.forget("HEAD~1")
        assert not nb.session.status().changed
        assert nb.session.commit().commit is None


def test_variables_and_commits_go_together_and_stay_in_memory() -> None:
    with Notebook() as nb:
        nb.run("token = 'first'; kept = 1")
        nb.run("kept = 2")
        nb.run("other = [token]")
        nb.session.forget("token", "HEAD~1", "other")
        assert [cell.source for _, commit in nb.repo.log() if (cell := commit.cell)] == [
            "other = [token]",
            "token = 'first'; kept = 1",
        ]
        assert nb.session.ignored() == ("other", "token")
        assert nb.look("(token, kept, other)") == ("first", 2, ["first"])
        nb.run("later = 1")
        assert set(nb.repo.at("HEAD")) == {"kept", "later"}
        assert nb.repo.at("HEAD")["kept"] == 2


def test_a_class_of_a_forgotten_commit_is_committed_with_its_instances() -> None:
    with Notebook() as nb:
        nb.run("x = 1")
        nb.run(
            "class Point:\n    def __init__(self, v): self.v = v\n    def twice(self): return 2 * self.v\np = Point(4)"
        )
        nb.session.forget("HEAD")
        nb.run("y = 1")
        nb.session.checkout("HEAD~1")
        assert nb.look("'Point' in globals()") is False
        nb.session.switch("main")
        assert nb.look("(p.twice(), Point(5).twice(), type(p) is Point)") == (8, 10, True)
        assert nb.repo.at("HEAD")["p"].twice() == 8  # type: ignore[attr-defined]  # it has the class of the store


def test_masking_the_code_goes_with_variables_alone() -> None:
    with Notebook() as nb:
        nb.run("token = 'a-long-secret'")
        nb.run("x = 1")
        head = nb.session.head
        with pytest.raises(ValueError, match="variables alone"):
            nb.session.forget("token", "HEAD", sources=True)
        assert (nb.session.head, nb.session.ignored()) == (head, ())


def test_one_that_is_not_there_keeps_all() -> None:
    with Notebook() as nb:
        nb.run("a = 1; b = 2")
        head = nb.session.head
        with pytest.raises(NameNotFoundError, match="never"):
            nb.session.forget("a", "never", "b")
        assert (nb.session.head, nb.session.ignored()) == (head, ())


def test_pruning_nothing_leaves_undo_as_it_was() -> None:
    with Notebook() as nb:
        nb.run("x = [1]")
        nb.run("x.append(2)")
        nb.session.prune(Retention(keep_last=10))
        nb.session.undo()
        assert nb.look("x") == [1]


def said_of_secret(nb: Notebook) -> str:
    """Everything that the store says of `secret`: values of all commits, code, events, and the lists of names."""
    repo = nb.session.repo
    commits = [(sorted(repo.tree(commit.tree).names()), commit.cell) for _, commit in repo.log("main")]
    events = repo.store.get_many(repo.store.keys(EVENTS))
    return repr((commits, events, nb.session.ignored(), repo.masked_names()))


def test_forgetting_on_a_full_disk_is_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many writes find room: as long as forgetting fails, everything is there as it was, and can be forgotten later."""
    event = msgspec.msgpack.encode([1, "Action", {"run": "r", "step": 1, "code": "secret = 'zebra-4711'"}])
    for room in itertools.count():
        with Notebook(Repository.open(tmp_path / str(room))) as nb:
            nb.run("secret = 'zebra-4711'; pair = [secret]; other = [pair]")
            nb.session.repo.store.swap({}, {EVENTS + b"r\0" + bytes(4): event})
            with monkeypatch.context() as patched:
                _leave_room(patched, room)
                try:
                    report = nb.session.forget("secret", sources=True)
                except StoreFullError:
                    assert "zebra-4711" in said_of_secret(nb)
                    assert nb.session.ignored() == ()
                    assert nb.session.repo.masked_names() == frozenset()
                    assert nb.session.repo.store.get_many([EVENTS + b"r\0" + bytes(4)]) != {}
                    assert event in nb.session.repo.store.get_many(nb.session.repo.store.keys(EVENTS)).values()
                    finished = False
                else:
                    finished = report.is_collected
                    assert "zebra-4711" not in said_of_secret(nb)
                    assert nb.session.ignored() == ("secret",)
            assert nb.run("more = 1").commit is not None
            assert ("secret" in nb.session.repo.tree_at(nb.session.head)) is ("zebra-4711" in said_of_secret(nb))
            if not finished:
                nb.session.repo.gc(grace_s=0)
                if "zebra-4711" in said_of_secret(nb):
                    nb.session.forget("secret", sources=True)
                assert "zebra-4711" not in said_of_secret(nb)
        if finished:
            return


def _leave_room(patched: pytest.MonkeyPatch, writes: int) -> None:
    """Let so many more writes of stores succeed."""
    left = itertools.count()

    def limited(write: Callable[..., object]) -> Callable[..., object]:
        def attempt(store: LmdbStore, *arguments: object, **named: object) -> object:
            if next(left) >= writes:
                raise StoreFullError(store.url)
            return write(store, *arguments, **named)

        return attempt

    for name in ("swap", "put_many", "delete_many"):
        patched.setattr(LmdbStore, name, limited(getattr(LmdbStore, name)))


def test_a_step_on_a_fork_masks_what_was_forgotten() -> None:
    with Notebook() as nb:
        nb.run("greeting = 'opensesame-blue-42'")
        nb.session.forget("greeting", sources=True)
        nb.session.before_fork()
        nb.session.in_fork()
        report = nb.run("greeting = 'opensesame-blue-42'; other = 1")
        assert report.record is not None
        assert report.record.cell is not None
        assert report.record.cell.source == "greeting = '•••• masked'; other = 1"
