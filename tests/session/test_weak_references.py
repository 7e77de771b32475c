"""A weak reference comes back with what it calls when its target dies, and nothing is called before."""

from __future__ import annotations

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed

CALLED: dict[str, tuple[str, str]] = {  # what is made, and what holds of it
    "a function": ("def call(_): log.append(1)\nr = weakref.ref(c, call)", "r.__callback__ is call and r() is c"),
    "a lambda": ("r = weakref.ref(c, lambda _: log.append(1))", "r() is c"),
    "a method of a list": ("r = weakref.ref(c, log.append)", "r.__callback__.__self__ is log and r() is c"),
    "a closure": (
        "def make(n):\n    def call(_): log.append(n)\n    return call\nr = weakref.ref(c, make(5))",
        "r.__callback__.__closure__[0].cell_contents == 5",
    ),
    "a method of what holds it": (
        (
            "class Watch:\n    def __init__(self, it): self.r = weakref.ref(it, self.gone)\n"
            "    def gone(self, _): log.append(self)\nw = Watch(c)"
        ),
        "w.r.__callback__.__self__ is w and w.r() is c",
    ),
    "the same, held first": (
        (
            "class Watch:\n    def __init__(self, it): self.r = weakref.ref(it, self.gone)\n"
            "    def gone(self, _): log.append(self)\nw = Watch(c); a_first = w.r"
        ),
        "w.r is a_first and a_first.__callback__.__self__ is w",
    ),
    "two for one target": (
        "def one(_): log.append(1)\ndef two(_): pass\nr, s, t = weakref.ref(c, one), weakref.ref(c, two), weakref.ref(c)",
        "r.__callback__ is one and s.__callback__ is two and t.__callback__ is None and weakref.ref(c) is t",
    ),
    "two names for one": (
        "def call(_): log.append(1)\nr = s = weakref.ref(c, call); held = [r]",
        "r is s is held[0]",
    ),
    "a bound method": (
        "def call(_): log.append(1)\nr = weakref.WeakMethod(c.go, call)",
        "r().__self__ is c",
    ),
    "a proxy": ("def call(_): log.append(1)\np = weakref.proxy(c, call)", "p.go.__self__ is c"),
    "a class of one's own": (
        "class Ref(weakref.ref): pass\ndef call(_): log.append(1)\nr = Ref(c, call); r.note = 'n'",
        "type(r) is Ref and r.note == 'n' and r.__callback__ is call",
    ),
    "a class that counts its dead": (
        (
            "class Pool:\n    dead = []\n    def __init__(self): self.live = {}\n"
            "    def add(self, it): self.live[id(it)] = weakref.ref(it, Pool.dead.append)\n"
            "p = Pool(); p.add(c); r = weakref.ref(c, log.append)"
        ),
        "next(iter(p.live.values()))() is c",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize(("made", "holds"), CALLED.values(), ids=CALLED)
def test_what_it_calls_comes_back_and_is_called_once(made: str, holds: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("import weakref\nclass C:\n    def go(self): pass\nc = C(); log = []")
        early = nb.run(made)
        assert nb.session.status().lost == ()
        for _ in range(2):
            nb.run("c.x = 1; log")
            nb.checkout(early)
            assert nb.look(holds)
            assert nb.look("log") == []
        assert names_changed(nb.run("del c")) >= {"c", "log"}
        assert nb.look("len(log)") == 1
        nb.checkout(early)
        assert nb.look(f"({holds}, log)") == (True, [])
    with Notebook(Repository.open(store)) as again:
        again.checkout(early)
        assert again.look(f"({holds}, log)") == (True, [])
        assert "log" in names_changed(again.run("del c"))
        assert again.look("len(log)") == 1


def test_what_is_only_looked_at_calls_nothing() -> None:
    with Notebook() as nb:
        nb.run("import weakref\nclass C: pass\nc = C(); log = []\nr = weakref.ref(c, log.append)")
        nb.run("c.x = 1")
        past = nb.repo.at("HEAD~1")
        assert isinstance(past["c"], object)
        del past
        assert not nb.session.commit(full=True).changed
        assert nb.look("log") == []


def test_a_dead_one_stays_dead_and_calls_nothing() -> None:
    with Notebook() as nb:
        early = nb.run("import weakref\nclass C: pass\nc = C(); log = []\nr = weakref.ref(c, log.append)\ndel c")
        nb.run("r = None; log.append(2)")
        nb.checkout(early)
        assert nb.look("(r(), len(log))") == (None, 1)


@pytest.mark.parametrize("called", ["log.append", "functools.partial(log.append)"])
def test_a_librarys_method_counts_where_what_it_is_called_on_does_not_keep_the_reference(called: str) -> None:
    with Notebook() as nb:
        nb.run("import collections, functools, weakref\nclass C: pass\nc, log = C(), collections.UserList()")
        nb.run(f"r = weakref.ref(c, {called})")
        assert "log" in names_changed(nb.run("del c"))


@pytest.mark.parametrize(
    "held",
    [
        "[frozen]",
        "(1, frozen)",
        "frozenset([frozen])",
        "{'k': (frozen,)}",
        "[(n, frozen) for n in range(4_000)]",
        "P()",
    ],
)
def test_a_weak_reference_to_a_frozen_set_leads_to_it_wherever_that_lies(held: str) -> None:
    looks = "(r() is not None, set(r()), [one is r() for one in (*s, *d.values(), *e)])"
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(
            "import weakref\nfrozen = frozenset(['a', 'b'])\nclass P:\n    def __init__(self): self.at = {frozen: 1}\n"
            f"held = {held}\nr = weakref.ref(frozen); s = weakref.WeakSet([frozen])\n"
            "d = weakref.WeakValueDictionary(k=frozen); e = weakref.WeakKeyDictionary({frozen: 1})"
        )
        late = nb.run("del frozen")
        nb.run("other = r() is not None")
        nb.run("held = None")
        assert nb.look("r()") is None
        nb.checkout(late)
        assert nb.look(looks) == (True, {"a", "b"}, [True] * 3)
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(late)
        assert nb.look(looks) == (True, {"a", "b"}, [True] * 3)
