"""A variable that is taken alone from a commit, and the class that it is an instance of."""

from __future__ import annotations

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed, rev


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


def test_a_class_leaves_the_commit_with_the_last_class_made_of_it() -> None:
    with Notebook() as nb:
        nb.run("x = 1")
        nb.run("class A: pass\nclass B(A): pass\nclass C(B): pass\nc = C()\ndel A, B, C")
        report = nb.run("del c")
        assert list(nb.repo.tree_at(report.commit).names()) == ["x"]
        nb.session.verify_all()
        assert nb.session.head == report.commit


def test_a_class_of_the_past_that_nothing_needs_leaves_with_what_it_was_made_of() -> None:
    """It shared an object with others, which are saved anew without it: its entry stayed, and its base was gone."""
    store = MemoryStore()
    cells = (
        "parts = [[0], [1]]\nclass K: pass\nclass Other: pass\nk = K()",
        "class K(K): pass\nK.a = parts[1]; Other.a = parts[0]",
        "class K: pass",
        "del k\nimport gc; gc.collect()",
        "t = (parts[0],)",
        "parts[0].append(1)",
    )
    looks: list[object] = []
    with Notebook(Repository.open(store)) as nb:
        made = []
        for cell in cells:
            made.append(nb.run(cell))
            looks.append(nb.look("repr(parts), getattr(Other, 'a', None) is parts[0]"))
            tree = nb.repo.tree_at(nb.session.head)
            for name, entry in tree.items():
                assert {*nb.repo.read_manifest(entry).classes} <= {*tree.names()}, name
    with Notebook(Repository.open(store)) as nb:
        for there, expected in zip(made, looks, strict=True):
            nb.checkout(there)
            assert nb.look("repr(parts), getattr(Other, 'a', None) is parts[0]") == expected
