"""Cells beside thousands of small objects: to look at one takes a few calls, whatever its class says of itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed

MADE = 3_000
# A class, an object of it for each number, and how many calls of Python's functions one may take.
KINDS: dict[str, tuple[str, str, int]] = {
    "tuples with names": ("from collections import namedtuple\nC = namedtuple('C', 'x y')", "C(n, str(n))", 4),
    "typed tuples with names": ("from typing import NamedTuple\nclass C(NamedTuple):\n    x: int\n    y: str = 'a'", "C(n)", 4),
    "with methods": ("from collections import namedtuple\nclass C(namedtuple('C', 'x y')):\n    __slots__ = ()\n    def f(self): return self.x", "C(n, n)", 4),
    "with __reduce__": ("class C:\n    def __init__(self, x): self.x = x\n    def __reduce__(self): return C, (self.x,)", "C(n)", 25),
    "with __getstate__": ("class C:\n    def __init__(self, x): self.x = x\n    def __getstate__(self): return {'x': self.x}", "C(n)", 25),
    "of pydantic": ("import pydantic\nclass C(pydantic.BaseModel):\n    x: int", "C(x=n)", 48),
}  # fmt: skip


@pytest.mark.parametrize(("made", "one", "most"), KINDS.values(), ids=KINDS)
def test_a_cell_beside_many_objects_takes_a_few_calls_for_each(made: str, one: str, most: int) -> None:
    with Notebook() as nb:
        nb.run(made)
        nb.run(f"v = [{one} for n in range({MADE})]")
        nb.run("len(v)")
        assert _calls(lambda: nb.run("len(v)")) < most * MADE + 5_000


def test_nodes_that_lead_to_each_other_are_not_dumped_again_for_each_part_of_their_list() -> None:
    with Notebook() as nb:
        nb.run("class Node:\n    def __init__(self, x): self.x, self.below = x, []")
        nb.run(f"v = [Node(n) for n in range({4 * MADE})]\nfor n in range(1, len(v)): v[n // 2].below.append(v[n])")
        nb.run("len(v)")
        assert _calls(lambda: nb.run("len(v)")) < 10 * 4 * MADE


def test_a_method_of_a_large_dict_with_a_name_is_not_dumped_with_it_to_see_that_neither_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Notebook() as nb:
        early = nb.run("words = {str(n): n for n in range(20_000)}\nget = words.get")
        nb.run("get('7')")
        with monkeypatch.context() as patch:
            patch.setattr("agent_kernel.values.segments.dump_segments", None)
            assert not nb.run("found = get('7')").changed[1:]
        assert names_changed(nb.run("words['new'] = get('7')")) >= {"words"}
        assert names_changed(nb.run("get = words.copy().get")) >= {"get"}
        nb.checkout(early)
        assert nb.look("get.__self__ is words, len(words)") == (True, 20_000)


def _calls(act: Callable[[], object]) -> int:
    calls = 0

    def count(_frame: object, event: str, _of: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


NAMED = {
    "made by namedtuple": "C = namedtuple('C', 'x y')",
    "made by NamedTuple": "class C(NamedTuple):\n    x: int\n    y: object = None",
    "with attributes": "class C(namedtuple('C', 'x y')): pass",
    "with a __new__ of its own": "class C(namedtuple('C', 'x y')):\n    __slots__ = ()\n    def __new__(cls, x, y): return super().__new__(cls, x, [*y])",
    "that iterates otherwise": "class C(namedtuple('C', 'x y')):\n    __slots__ = ()\n    def __iter__(self): return iter((0, 0))",
    "with __getnewargs__": "class C(namedtuple('C', 'x y')):\n    __slots__ = ()\n    def __getnewargs__(self): return self[0], self[1]",
    "with __reduce__": "class C(namedtuple('C', 'x y')):\n    __slots__ = ()\n    def __reduce__(self): return make, (self[0], self[1])\ndef make(x, y): return C(x, y)",
    "with __getstate__": "class C(namedtuple('C', 'x y')):\n    def __getstate__(self): return {'z': 1}",
    "that answers for any name": "class C(namedtuple('C', 'x y')):\n    __slots__ = ()\n    def __getattr__(self, name): return None",
}  # fmt: skip


@pytest.mark.parametrize("made", NAMED.values(), ids=NAMED)
def test_tuples_with_names_come_back_with_the_items_that_they_have(made: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("from collections import namedtuple\nfrom typing import NamedTuple")
        nb.run(made)
        early = nb.run("rows = [1]\nc = C(1, rows)\nd = [c, C(2, rows)]")
        assert "rows" in names_changed(nb.run("rows.append(2); d"))
        nb.checkout(early)
        holds = "(type(c) is C, tuple.__getitem__(c, slice(None)), d[0] is c, d[1][1] is d[0][1], d[1].x)"
        assert nb.look(holds) == (True, (1, [1]), True, nb.look("C(2, rows)[1] is rows"), 2)
    with Notebook(Repository.open(store)) as again:
        again.checkout(early)
        again_is: Any = again.look(holds)
        assert again_is[:3] == (True, (1, [1]), True)
