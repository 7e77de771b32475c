"""A cell that defines a class runs again: no change, unless the class is another one or something of the earlier one is left."""

from __future__ import annotations

import gc
import weakref
from typing import Any, cast

import pytest

from agent_kernel.session import Repository
from agent_kernel.session.history import changes_between
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed

_PLAIN = "class A:\n    n = 1\n    def f(self, k=2):\n        return self.n + k\n"
_SAME = {
    "plain": _PLAIN,
    "with an instance": _PLAIN + "a = A(); a.m = [1]\n",
    "subclass": _PLAIN + "class B(A):\n    def f(self, k=3):\n        return super().f(k)\nb = B()\n",
    "dataclass": "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    x: list = field(default_factory=list)\n",
    "enumeration": "import enum\nclass A(enum.Enum):\n    one = 1\n    two = 2\nkept = {A.one: [A.two]}\n",
    "named tuple": "from collections import namedtuple\nA = namedtuple('A', 'x y')\na = A(1, 2)\n",
    "inner class": "class A:\n    class B:\n        n = 1\n    b = B()\n",
    "slots": "class A:\n    __slots__ = ('x',)\na = A(); a.x = 1\n",
    "exception": "class A(Exception):\n    code = 1\na = A('x')\n",
    "abstract": "import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def f(self): ...\n",
    "metaclass": "class M(type):\n    pass\nclass A(metaclass=M):\n    n = 1\n",
    "used by a function": _PLAIN + "def make():\n    return A()\n",
    "generic": "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass A(Generic[T]):\n    n: int = 1\n",
    "property": "class A:\n    @property\n    def p(self):\n        return 1\n    @classmethod\n    def c(cls):\n        return cls\n",
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", _SAME)
def test_the_same_class_again_is_no_change(kind: str) -> None:
    with Notebook() as nb:
        first = nb.run(_SAME[kind])
        before = nb.look("A")
        again = nb.run(_SAME[kind])
        assert nb.look("A") is not before
        assert names_changed(again) == set()
        assert first.commit is not None
        assert again.commit is not None
        trees = [nb.repo.tree_at(report.commit) for report in (first, again)]
        assert changes_between(nb.repo, *trees) == ()
        nb.run("A.added = 5")
        nb.checkout(first)
        assert not hasattr(nb.look("A"), "added")


@pytest.mark.sampled
@pytest.mark.parametrize("kind", _SAME)
def test_the_same_class_again_comes_back_in_another_kernel(kind: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(_SAME[kind])
        nb.run(_SAME[kind])
    with Notebook(Repository.open(store)) as nb:
        nb.checkout("main")
        for name, value in list(nb.namespace.items()):
            if name in ("a", "b"):
                assert type(value) is nb.look(name.upper())


_OTHER = {
    "attribute": _PLAIN.replace("n = 1", "n = 2"),
    "default": _PLAIN.replace("k=2", "k=3"),
    "code": _PLAIN.replace("self.n + k", "self.n - k"),
    "base": _PLAIN.replace("class A", "class A(dict)"),
    "metaclass": "class M(type): ...\n" + _PLAIN.replace("class A", "class A(metaclass=M)"),
    "documentation": _PLAIN.replace("    n = 1", "    'text'\n    n = 1"),
    "annotation": _PLAIN.replace("n = 1", "n: int = 1"),
    "one more": _PLAIN + "    m = 1\n",
    "one less": _PLAIN.replace("    n = 1\n", ""),
    "decorator": "def d(c):\n    c.x = 1\n    return c\n@d\n" + _PLAIN,
    "slots": _PLAIN.replace("    n = 1", "    __slots__ = ('x',)\n    n = 1"),
}


@pytest.mark.parametrize("kind", _OTHER)
def test_another_class_of_the_name_is_a_change(kind: str) -> None:
    with Notebook() as nb:
        first = nb.run(_PLAIN)
        second = nb.run(_OTHER[kind])
        assert "A" in names_changed(second)
        nb.checkout(first)
        assert nb.look("(A.n, A().f(), hasattr(A, 'x'), hasattr(A, 'm'), A.__doc__, A.__bases__, type(A))") == (
            *(1, 3, False, False, None, (object,), type),
        )


def test_an_instance_of_the_earlier_class_stays_one_and_the_name_has_changed() -> None:
    with Notebook() as nb:
        first = nb.run(_PLAIN + "a = A()")
        again = nb.run(_PLAIN)
        assert names_changed(again) == {"A"}
        assert nb.look("type(a) is A") is False
        nb.checkout(first)
        assert nb.look("type(a) is A")
        nb.checkout("main")
        assert nb.look("type(a) is A") is False


@pytest.mark.parametrize(
    "held", ["import queue; q = queue.Queue(); q.put(A())", "import queue; q = queue.Queue(); q.put([A])"]
)
def test_what_is_left_of_the_earlier_class_where_nothing_is_saved_counts(held: str) -> None:
    with Notebook() as nb:
        first = nb.run(_PLAIN + held)
        assert names_changed(nb.run(_PLAIN)) == {"A"}
        nb.checkout(first)
        found: Any = nb.look("q.queue[0]")
        assert (found[0] if type(found) is list else type(cast("object", found))) is nb.look("A")


def test_a_subclass_of_the_earlier_class_stays_one() -> None:
    with Notebook() as nb:
        nb.run(_PLAIN)
        nb.run("class B(A): ...")
        assert names_changed(nb.run(_PLAIN)) == {"A"}
        assert nb.look("issubclass(B, A)") is False


def test_undo_after_it_takes_back_what_was_done_before() -> None:
    with Notebook() as nb:
        nb.run("x = 1")
        nb.run(_PLAIN)
        nb.run("x = 2")
        nb.run(_PLAIN)
        nb.session.undo()
        assert nb.look("x") == 1


def test_a_class_that_was_changed_in_place_is_as_its_source_says_again() -> None:
    with Notebook() as nb:
        nb.run(_PLAIN)
        changed = nb.run("A.n = 5")
        assert names_changed(nb.run(_PLAIN)) == {"A"}
        nb.checkout(changed)
        assert nb.look("A.n") == 5


def test_the_earlier_class_is_free_to_die() -> None:
    with Notebook() as nb:
        nb.run(_PLAIN)
        seen = weakref.ref(cast("type", nb.look("A")))
        nb.run(_PLAIN)
        nb.run("pass")
        gc.collect()
        assert seen() is None
