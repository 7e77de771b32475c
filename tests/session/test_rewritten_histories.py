"""A session goes on where its history was pruned, or something of it was forgotten."""

from __future__ import annotations

import os

import msgspec
import pytest

from agent_kernel.errors import BranchInUseError, NothingToUndoError
from agent_kernel.repository import Holder, Retention
from agent_kernel.repository.refs import start_of
from tests.support.notebooks import Notebook, names_changed


def test_a_refused_forget_changes_nothing() -> None:
    with Notebook() as nb:
        nb.run("secret = 'k'\nx = 1")
        other = msgspec.structs.replace(
            Holder.of_this_process("other"), pid=os.getppid(), started=start_of(os.getppid())
        )
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
