"""A function with a cache comes back with those results that something else holds too."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from agent_kernel.session import Repository, serialization
from agent_kernel.storage import MemoryStore
from agent_kernel.values.groups import dump_group
from agent_kernel.values.reducers.code import find_shared_entries
from tests.support.notebooks import Notebook, names_changed

# How a cached function is made and called, and what has to hold of it whenever.
SHARED: dict[str, tuple[str, str]] = {
    "a result": ("@cache\ndef f(n): return [n]\nx = f(1)", "f(1) is x"),
    "of a bounded cache": ("@lru_cache(maxsize=4)\ndef f(n): return [n]\nx = [f(n) for n in range(9)]", "all(f(n) is x[n] for n in (5, 6, 7, 8))"),
    "with names": ("@lru_cache\ndef f(a, *, b=1): return [a, b]\nx, y = f(1, b=2), f(a=3)", "f(1, b=2) is x and f(a=3) is y"),
    "with types": ("@lru_cache(typed=True)\ndef f(a, b=1): return [a, b]\nx, y, z = f(1), f(1.0), f(True, b=2)", "f(1) is x and f(1.0) is y and f(True, b=2) is z and x is not y"),
    "with texts and tuples": ("@cache\ndef f(*a): return [a]\nx, y, z = f('a'), f((1, 2)), f()", "f('a') is x and f((1, 2)) is y and f() is z"),
    "a part of a result": ("@cache\ndef f(n): return ([n], {'k': [n]})\nx, y = f(1)[0], f(1)[1]['k']", "f(1)[0] is x and f(1)[1]['k'] is y"),
    "an instance": ("class C:\n    def __init__(self, n): self.n = [n]\n@cache\ndef f(n): return C(n)\nx, y = f(1), f(2).n", "f(1) is x and f(2).n is y"),
    "an instance as argument": ("class C: pass\nc = C()\n@cache\ndef f(c): return [c]\nx = f(c)", "f(c) is x and x[0] is c"),
    "of a closure": ("def make():\n    rows = [1]\n    @cache\n    def f(n): return rows\n    return f\nf = make(); x = f(1)", "f(1) is x"),
    "of one that was decorated before": ("def shout(g):\n    def inner(*a): return [g(*a)]\n    return inner\n@cache\n@shout\ndef f(n): return n\nx = f(1)", "f(1) is x"),
    "held in a container": ("@cache\ndef f(n): return [n]\nfs = {'f': f}; x = f(1)", "fs['f'] is f and f(1) is x"),
    "of a method": ("class C:\n    @cache\n    def m(self, n): return [n]\nc = C(); x = c.m(1); f = [C, c]", "c.m(1) is x"),
    "of a method of what can be hashed": ("class C:\n    def __init__(self): self.k = 'k'\n    def __hash__(self): return hash(self.k)\n    def __eq__(self, other): return self.k == other.k\n    @lru_cache\n    def m(self, n): return [n, self]\nc = C(); x = c.m(1); f = [C, c]", "c.m(1) is x and x[1] is c"),
    "of a static method": ("class C:\n    @staticmethod\n    @cache\n    def m(n): return [n]\nx = C.m(1); f = [C]", "C.m(1) is x"),
    "an array": ("import numpy as np\n@cache\ndef f(n): return np.zeros(n)\nx = f(3)", "f(3) is x"),
    "one of many": ("@cache\ndef f(n): return [n]\nfor n in range(300): f(n)\nx = f(7)", "f(7) is x"),
    "below one of many": ("@cache\ndef f(n): return [n, [n]] if n % 9 else (n, 'a')\nfor n in range(300): f(n)\nx, y = f(7)[1], f(8)", "f(7)[1] is x and f(8) is y and f(8)[1] == [8]"),
    "of many kinds": ("@cache\ndef f(n): return [n, str(n), {n}, {n: n}, (n,), None, print][n % 7]\nfor n in range(70): f(n)\nx = [f(n) for n in (7, 9, 10)]", "all(f(n) is one for n, one in zip((7, 9, 10), x))"),
    "a long one": ("@cache\ndef f(n): return list(range(n))\nx = f(600)\nf(2)", "f(600) is x and f(2) == [0, 1]"),
    "a table": ("import pandas as pd\n@cache\ndef f(n): return pd.DataFrame({'a': [n]})\nx = f(3)", "f(3) is x"),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize(("made", "holds"), SHARED.values(), ids=SHARED)
def test_what_a_variable_shares_with_a_cache_is_one_object_in_every_state(made: str, holds: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("from functools import cache, lru_cache")
        early = nb.run(made)
        assert nb.session.status().lost == ()
        assert nb.look(holds)
        assert not nb.session.commit(full=True).changed
        nb.run("x = None; y = 0")
        nb.checkout(early)
        assert nb.look(holds)
        nb.run("f = None")
        nb.checkout(early)
        assert nb.look(holds)
        assert not nb.session.commit(full=True).changed
    with Notebook(Repository.open(store)) as again:
        again.checkout(early)
        assert again.look(holds)
        assert not again.run("f; x").changed


def test_a_change_of_the_shared_object_is_found_and_taken_back() -> None:
    with Notebook() as nb:
        early = nb.run("from functools import cache\n@cache\ndef f(n): return [n]\nx = f(1)")
        assert names_changed(nb.run("f(1).append(2)")) >= {"x"}
        nb.checkout(early)
        assert nb.look("(x, f(1) is x, f.cache_info().misses)") == ([1], True, 1)


def test_what_nothing_else_holds_is_worked_out_again_and_is_no_change() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(
            "from functools import cache\ncalls = []\n@cache\ndef f(n):\n    calls.append(n)\n    return ['secret'.upper(), n]"
        )
        assert names_changed(nb.run("len(f(1)); sum(len(f(n)) for n in range(50))")) == {"calls"}
        assert not nb.run("f(1); len(f(2))").changed
    assert b"SECRET" not in b"".join(store.get_many(store.keys(b"", limit=10_000)).values())
    with Notebook(Repository.open(store)) as again:
        again.checkout()
        assert again.look("(f.cache_info().currsize, f(1), len(calls))") == (0, ["SECRET", 1], 51)


def test_what_is_in_a_large_cache_is_looked_at_all_at_once() -> None:
    """Each call of a function of ours for each of 50,000 results made a cell beside them take a second."""
    made: dict[str, Any] = {"__name__": "__main__"}
    exec("from functools import cache\n@cache\ndef f(n): return [str(n)]\nfor n in range(5_000): f(n)\nx = f(7)", made)
    calls = 0

    def count(_frame: object, event: str, _of: object) -> None:
        nonlocal calls
        calls += event == "call"

    find_shared_entries(made["f"])  # what it works out once
    sys.setprofile(count)
    try:
        found = find_shared_entries(made["f"])
    finally:
        sys.setprofile(None)
    assert [one[2] for one in found] == [["7"]]
    assert found[0][2] is made["x"]
    assert calls < 50


def test_a_resource_in_a_cache_is_asked_for_again_after_a_restart() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        told = nb.run(
            "import os\nfrom functools import cache\n@cache\ndef f(): return open(os.devnull)\nfile = f(); n = 1"
        )
        assert {lost.type for lost in told.unsaved} == {"_io.TextIOWrapper"}
        nb.run("n = 2; f; file")
        nb.checkout(told)
        assert nb.look("f() is file and not file.closed")
        nb.run("file.close()")
    with Notebook(Repository.open(store)) as again:
        again.checkout()
        assert again.look("n == 1 and f().closed is False and f() is f()")
        again.execute("f().close()")


@pytest.mark.parametrize("gone", ["del y", "y = 0", "y = f(1)", "del y; x['k'] = 1"])
def test_a_result_that_no_variable_holds_any_more_is_let_go_in_that_cell(gone: str) -> None:
    with Notebook() as nb:
        early = nb.run("from functools import cache\n@cache\ndef f(n): return {'n': n}\nx = f(1); y = f(2)")
        nb.run(gone)
        assert not nb.session.commit(full=True).changed
        nb.session.undo()
        assert nb.look("(x, y, f(1) is x, f(2) is y)") == ({"n": 1}, {"n": 2}, True, True)
        nb.session.redo()
        nb.checkout(early)
        nb.run(gone)
        assert not nb.session.commit(full=True).changed


DISPATCHED = {
    "a function": ("@singledispatch\ndef f(x): return 0\nclass X: pass", "f(X()), f(1), f('a')", "f.register(X, lambda x: 1)"),
    "registered before": ("@singledispatch\ndef f(x): return 0\n@f.register\ndef _(x: int): return 5\nclass X(int): pass", "f(1), f(X()), f('a')", "f.register(X, lambda x: 1)"),
    "a method": ("class C:\n    @singledispatchmethod\n    def f(self, x): return 0\nc = C()", "c.f(1), c.f('a')", "C.f.register(str, lambda self, x: 2)"),
    "for an abstract class": ("from collections.abc import Sized\n@singledispatch\ndef f(x): return 0", "f(1), f('a'), f([])", "f.register(Sized, lambda x: 1)"),
}  # fmt: skip


@pytest.mark.parametrize(("made", "calls", "registers"), DISPATCHED.values(), ids=DISPATCHED)
def test_what_a_dispatching_function_found_for_types_is_no_change(made: str, calls: str, registers: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(f"from functools import singledispatch, singledispatchmethod\n{made}")
        early = nb.run("n = 1")
        before = nb.look(calls)
        assert not nb.run(calls).changed
        later = nb.run(registers)
        assert later.changed
        after = nb.look(calls)
        assert after != before
        for _ in range(2):
            nb.checkout(early)
            assert nb.look(calls) == before
            nb.checkout(later)
            assert nb.look(calls) == after
        assert not nb.session.commit(full=True).changed
    with Notebook(Repository.open(store)) as again:
        again.checkout(early)
        assert again.look(calls) == before
        again.run(registers)
        assert again.look(calls) == after


# -- a look at a large cache
#
# Functions of one decorator, of numbers and of lists, and what changes what is saved of them.

_MANY = 3_000
_CACHED = f"""import functools
from typing import Dict, List, Optional
keep = functools.lru_cache(None)
Row = List[int]
@keep
def rows(n: int, *, by: Optional[Dict[str, int]] = None) -> Row:
    'A row.'
    return [n, n]
@keep
def count(n: int) -> int: return 2 * n
def fill(size={_MANY}):
    for n in range(size): rows(n), count(n)
fill()"""


@pytest.fixture
def dumps(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The members of all groups that are dumped."""
    found: list[set[str]] = []

    def noted(members: Any, *arguments: Any, **options: Any) -> Any:
        found.append(set(members))
        return dump_group(members, *arguments, **options)

    monkeypatch.setattr(serialization, "dump_group", noted)
    return found


@pytest.mark.parametrize("size", [_MANY, 2 * _MANY, 4 * _MANY])
def test_a_call_that_finds_its_result_in_a_large_cache_dumps_no_cached_function(
    size: int, dumps: list[set[str]]
) -> None:
    with Notebook() as nb:
        nb.run(_CACHED)
        nb.run(f"fill({size})")
        dumps.clear()
        assert not nb.run("rows(7), count(7)").changed
        assert not any({"rows", "count"} & members for members in dumps)


def test_of_a_very_large_cache_results_that_come_later_are_no_reason_to_dump_it(dumps: list[set[str]]) -> None:
    with Notebook() as nb:
        nb.run(f"{_CACHED}\nfill(25_000)")
        nb.run("rows(7)")
        dumps.clear()
        assert not nb.run("fill(26_000)").changed
        assert not any({"rows", "count"} & members for members in dumps)


def test_functions_of_one_decorator_are_saved_each_by_itself() -> None:
    with Notebook() as nb:
        nb.run(_CACHED)
        assert names_changed(nb.run("@keep\ndef count(n: int) -> int: return 3 * n")) == {"count"}
        nb.session.undo()
        assert nb.look("(count(4), rows(4), count.cache_parameters(), rows.cache_info().misses)") == (
            8, [4, 4], {"maxsize": None, "typed": False}, _MANY,
        )  # fmt: skip


@pytest.mark.parametrize("size", [_MANY, 25_000])
def test_a_cache_of_which_a_variable_holds_a_result_is_not_dumped_to_see_that_neither_changed(
    size: int, dumps: list[set[str]]
) -> None:
    with Notebook() as nb:
        nb.run(f"{_CACHED}\nfill({size})")
        nb.run("row = rows(7); box = [rows(8, by=None)]")
        nb.run("rows(9)")
        dumps.clear()
        assert not nb.run("rows(9), rows(7)").changed
        assert not any("rows" in members for members in dumps)
        assert names_changed(nb.run("rows(8, by=None)[0] = -8")) >= {"box"}


@pytest.mark.parametrize("size", [_MANY, 25_000])
@pytest.mark.parametrize("change", ["rows(7).append(1)", "row.append(1)", "held['row'].append(1)", "take()"])
def test_a_result_that_is_taken_out_of_a_large_cache_is_shared_from_then_on(size: int, change: str) -> None:
    with Notebook() as nb:
        nb.run(f"{_CACHED}\nfill({size})\ndef take(): row.append(1)")
        nb.run("rows(7)")
        early = nb.run("row = rows(7); held = {'row': row}")
        assert names_changed(nb.run(change)) >= {"row", "held"}
        nb.checkout(early)
        assert nb.look("(row, row is rows(7), held['row'] is row)") == ([7, 7], True, True)


@pytest.mark.parametrize(
    "change",
    [
        "rows.note = [1]",
        "rows.__wrapped__.__defaults__ = (1,)",
        "rows.__wrapped__.__kwdefaults__['by'] = {'a': 1}",
        "rows.__annotations__['return'] = int",
        "rows.__wrapped__.__code__ = other.__code__",
        "rows.__name__ = 'lines'",
        "rows = functools.lru_cache(5)(rows.__wrapped__)",
        "rows = functools.lru_cache(None, typed=True)(rows.__wrapped__)",
        "rows.cache_parameters = lambda: {'maxsize': 7, 'typed': False}",
    ],
)
def test_a_change_of_a_function_with_a_large_cache_is_found_and_taken_back(change: str) -> None:
    content = (
        "repr((rows(3), sorted(vars(rows).keys()), rows.__annotations__, rows.__name__, rows.__wrapped__.__defaults__,"
        " rows.__wrapped__.__kwdefaults__, rows.cache_parameters()))"
    )
    with Notebook() as nb:
        nb.run(f"{_CACHED}\ndef other(n, *, by=None): return [-n]")
        early = nb.run("rows(7)")
        before = nb.look(content)
        assert names_changed(nb.run(change)) == {"rows"}
        nb.checkout(early)
        assert nb.look(content) == before


def test_a_model_is_no_other_one_because_an_attribute_of_an_instance_was_set() -> None:
    model = "from pydantic import BaseModel, ConfigDict\nclass Model(BaseModel):\n    model_config = ConfigDict(validate_assignment=True)"
    with Notebook() as nb:
        nb.run(
            model + "\n    name: str = 'a'\n    _notes: int = 0\nclass Other(Model): pass\nm, other = Model(), Other()"
        )
        assert names_changed(nb.run("m.name = 'b'")) == {"m"}
        was = nb.run("m._notes, other.name = 1, 'c'")
        assert names_changed(was) == {"m", "other"}
        nb.run("Model.limit = [1]\ndel m, other")
        nb.checkout(was)
        assert names_changed(nb.run("m.name = other.name = 'd'")) == {"m", "other"}
        assert nb.look("m.name, other.name, m._notes, hasattr(Model, 'limit')") == ("d", "d", 1, False)
    with Notebook(nb.repo) as again:
        again.checkout(was)
        again.run("m.name, other._notes = 'e', 2")
        assert again.look("m.name, m._notes, other.name, other._notes") == ("e", 1, "c", 2)
