"""Cells beside thousands of small objects: to look at one takes a few calls, whatever its class says of itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from agent_kernel.values import pickler, segments
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


OWN = f"import weakref\nclass C:\n    def __init__(self, x): self.x, self.y, self.z = x, [x], None\nv = [C(n) for n in range({MADE})]"
SLOTTED = OWN.replace("class C:", "class C:\n    __slots__ = 'x', 'y', 'z', '__weakref__'")
TUPLES = f"{OWN}\nv = [(n, (one,)) for n, one in enumerate(v)]"
# How an object comes to be held twice, and what says so.
HELD_TWICE: dict[str, tuple[str, str, str]] = {
    "by a weak reference": (OWN, "w = weakref.ref(v[7])", "w() is v[7]"),
    "by a weak reference that comes with a change": (OWN, "v[9].x = 3; w = [weakref.ref(v[7]), v[8]]", "w[0]() is v[7] and w[1] is v[8]"),
    "by a list": (OWN, "w = [v[i] for i in range(0, len(v), 700)]", "w[1] is v[700]"),
    "by an index": (OWN, "w = {i: one for i, one in enumerate(v)}", "w[31] is v[31] and w[2_900] is v[2_900]"),
    "by an index of a few": (OWN, "w = {i: one for i, one in enumerate(v[:50])}", "w[31] is v[31] and w[30] is v[30]"),
    "a part of it": (OWN, "w = v[2_000].y", "w is v[2_000].y"),
    "a part of one with slots": (SLOTTED, "w = v[2_000].y", "w is v[2_000].y"),
    "by another one": (OWN, "v[9].z = v[2_900]", "v[9].z is v[2_900]"),
    "by a tuple of another one": (OWN, "v[9].z = (v[2_900],)", "v[9].z[0] is v[2_900]"),
    "twice in the list": (OWN, "v[9] = v[2_900]", "v[9] is v[2_900]"),
    "by a tuple that is held twice": (TUPLES, "v[2_900] = (1, v[77][1])", "v[2_900][1][0] is v[77][1][0]"),
    "by a tuple with a name": (TUPLES, "w = v[77][1]", "w[0] is v[77][1][0]"),
}  # fmt: skip


@pytest.mark.parametrize(("made", "holds", "told"), HELD_TWICE.values(), ids=HELD_TWICE)
def test_an_object_in_a_long_list_that_is_held_twice_stays_one(made: str, holds: str, told: str) -> None:
    first = "v[9].x = 2" if made is not TUPLES else "v[9][1][0].x = 2"
    with Notebook() as nb:
        nb.run(made)
        nb.run(first)
        nb.run(holds)
        late = nb.run(first.replace("9", "30"))
        nb.run("v = None\nif 'w' in globals(): del w")
        nb.checkout(late)
        assert nb.look(told)
        nb.run(first.replace("9", "31"))
        again = nb.run("x = 1")
        nb.run("v = None\nif 'w' in globals(): del w")
        nb.checkout(again)
        assert nb.look(told)


HASHED = "\n    def __eq__(self, other): return self.x == other.x\n    def __hash__(self): return hash(self.x)"
LEADING: dict[str, str] = {
    "to what lies below": "for n in range(1, len(v)): v[n // 2].below.append(v[n])",
    "to what lies above": "for n in range(1, len(v)): v[n].up = v[n // 2]",
    "to the next one": "for n in range(1, len(v)): v[n - 1].up = v[n]",
    "in tuples": "for n in range(1, len(v)): v[n // 2].below.append((n, v[n]))",
}


@pytest.mark.parametrize("hashed", ["", HASHED], ids=["by identity", "with a hash"])
@pytest.mark.parametrize("leads", LEADING.values(), ids=LEADING)
def test_nodes_that_lead_to_each_other_are_pickled_whole_at_once(
    leads: str, hashed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pickled: list[object] = []
    pickle_items = segments.pickle_items

    def noted(items: Any, *rest: Any, **options: Any) -> Any:
        pickled.append(items)
        return pickle_items(items, *rest, **options)

    monkeypatch.setattr(segments, "pickle_items", noted)
    with Notebook() as nb:
        nb.run(f"class Node:\n    def __init__(self, x): self.x, self.up, self.below = x, None, []{hashed}")
        nb.run(f"v = [Node(n) for n in range({MADE})]\n{leads}\ndel n\nw = {{one.x: one for one in v}}")
        nb.run("len(v)")
        before = nb.session.head
        pickled.clear()
        assert names_changed(nb.run("v[7].x = -7")) == {"v", "w"}
        assert not pickled
        nb.checkout(before)
        assert nb.look("v[7].x, v[7] is w[7], len(v)") == (7, True, MADE)
        assert nb.look("all((one[1] if type(one) is tuple else one) in (v[2], v[3]) for one in v[1].below)")
        assert nb.look("v[3].up is None or any(v[3].up is one for one in v)")


@pytest.mark.parametrize("count", [MADE, 2 * MADE, 4 * MADE])
def test_it_is_looked_for_few_of_many_nodes_whether_they_lead_to_one_that_has_a_name(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[object] = []
    leads_to = pickler.leads_to

    def noted(value: object, *rest: Any) -> Any:
        looked_at.append(value)
        return leads_to(value, *rest)

    monkeypatch.setattr("agent_kernel.session.serialization.leads_to", noted)
    with Notebook() as nb:
        nb.run("class Node:\n    def __init__(self, x): self.x, self.up, self.below = x, None, []")
        nb.run(
            f"root = Node(0)\nnodes = [root, *(Node(n) for n in range(1, {count}))]\n"
            "for n in range(1, len(nodes)): nodes[n].up = nodes[n // 2]; nodes[n // 2].below.append(nodes[n])\n"
            "del n\nindex = {one.x: one for one in nodes}"
        )
        before = nb.session.head
        assert names_changed(nb.run("nodes[7].x = -7")) == {"root", "nodes", "index"}
        assert names_changed(nb.run("index[8].x = -8")) == {"root", "nodes", "index"}
        assert len(looked_at) <= 1_000
        nb.checkout(before)
        assert nb.look("nodes[7].x, nodes[7] is index[7] is root.below[0].below[1].below[1]") == (7, True)
        assert nb.look("nodes[0] is index[0] is root and index[4].up.up is root.below[0]")


def test_plain_rows_are_not_asked_whether_they_lead_to_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_ids_of_items", None)
    with Notebook() as nb:
        nb.run(f"v = [{{'n': n, 'tags': [str(n)]}} for n in range({MADE})]")
        assert names_changed(nb.run("v[7]['n'] = 1")) == {"v"}


def test_an_object_that_leads_to_one_of_another_part_stays_one_with_it() -> None:
    with Notebook() as nb:
        nb.run(OWN)
        late = nb.run("v[1_500].z = v[3]; v[1_700].y.append(v[2_900])")
        nb.run("v[3].x = -1")
        nb.checkout(late)
        assert nb.look("v[1_500].z is v[3] and v[1_700].y[1] is v[2_900] and v[3].x == 3")


def test_a_change_of_one_of_many_objects_walks_its_part_of_their_list_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    walk = segments.Segments._walk

    def noted(self: Any, segment: Any, anchors: Any) -> bool:
        walked.append(len(segment.items))
        return walk(self, segment, anchors)

    monkeypatch.setattr(segments.Segments, "_walk", noted)
    with Notebook() as nb:
        nb.run(OWN)
        walked.clear()
        assert names_changed(nb.run("v[7].x = 1")) == {"v"}
        assert walked == [1_000]
        nb.run("w = {i: one for i, one in enumerate(v)}")
        nb.run("v[7].x = 2")
        walked.clear()
        assert names_changed(nb.run("v[7].x = 3")) == {"v", "w"}
        assert walked == [1_000, 1_000]


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


DAYS = "class Day(enum.Enum):\n    MON = 1\n    TUE = 2\nclass In:\n    def __init__(self, x): self.x = {'x': {x}}\n"
LOOKED_AT = {
    "with attributes": ("class C:\n    def __init__(self, x): self.x, self.tags = x, [x]", "C(n)"),
    "of a frozen dataclass": ("@dataclass(frozen=True)\nclass C:\n    x: int\n    tags: list", "C(n, [n])"),
    "of a dataclass with slots": ("@dataclass(slots=True)\nclass C:\n    x: int\n    tags: list", "C(n, [n])"),
    "of a frozen dataclass with slots": ("@dataclass(frozen=True, slots=True)\nclass C:\n    x: int\n    tags: list", "C(n, [n])"),
    "with slots and attributes": ("class B:\n    __slots__ = ('x',)\nclass C(B):\n    def __init__(self, x): self.x, self.tags = x, [x]", "C(n)"),
    "tuples with names": ("class C(NamedTuple):\n    x: int\n    tags: list", "C(n, [n])"),
    "of an abstract base": ("class B(abc.ABC):\n    @abc.abstractmethod\n    def f(self): ...\nclass C(B):\n    def __init__(self, x): self.x, self.tags = x, [x]\n    def f(self): ...", "C(n)"),
    "of a module's class": ("import argparse", "argparse.Namespace(x=n, tags=[n])"),
    "of a class over a module's": ("import argparse\nclass C(argparse.Namespace):\n    def __init__(self, x): self.x, self.tags = x, [x]", "C(n)"),
    "in tuples": ("class C:\n    def __init__(self, x): self.x, self.tags = x, [x]", "(n, C(n))"),
    "in dicts": ("class C:\n    def __init__(self, x): self.x, self.tags = x, [x]", "{'a': C(n), 'b': (n, (1, 2))}"),
    "in objects, with dates and members of enums": (
        f"{DAYS}class C:\n    def __init__(self, x): self.x, self.tags, self.day, self.at = x, [In(x)], Day.MON, datetime.date(2020, 1, 1 + x % 28)",
        "C(n)",
    ),
    "that share objects": ("class In: pass\nins = [[In(), []] for _ in range(7)]\nclass C:\n    def __init__(self, x): self.x, self.tags = x, ins[x % 7]", "C(n)"),
    "with arrays": ("class C:\n    def __init__(self, x): self.x, self.tags, self.v = x, [x], np.arange(3) + x", "C(n)"),
}  # fmt: skip
IMPORTS = (
    "import abc, datetime, enum\nfrom dataclasses import dataclass\nfrom typing import NamedTuple\nimport numpy as np\n"
)
LISTS = {
    "a list": "v = [{one} for n in range({made})]",
    "values of a dict": "v = {{n: {one} for n in range({made})}}",
    "lists in a defaultdict": "import collections\nv = collections.defaultdict(list)\nfor n in range({made}): v[n // 2].append({one})",
    "lists in an object": "class Holder: pass\nv = Holder()\nv.parts = [[{one} for n in range({made} // 10)] for _ in range(10)]",
}  # fmt: skip
LONG = 3_000
TREE = """
class Node:
    def __init__(self, parent): self.parent, self.below, self.x = parent, [], 0
root = Node(None)
v = [root]
for n in range(1, 3_000):
    v.append(Node(v[n // 3]))
    v[n // 3].below.append(v[n])
"""


@pytest.mark.parametrize("held", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize(("made", "one"), LOOKED_AT.values(), ids=LOOKED_AT)
def test_a_cell_that_reads_many_objects_calls_nothing_for_each(made: str, one: str, held: str) -> None:
    with Notebook() as nb:
        nb.run(IMPORTS + made)
        nb.run(held.format(one=one, made=LONG))
        nb.run("len(vars(v) if hasattr(v, 'parts') else v)")
        assert _calls(lambda: nb.run("len(vars(v) if hasattr(v, 'parts') else v)")) < 3 * LONG


def test_the_last_object_of_a_loop_costs_the_next_cells_nothing() -> None:
    with Notebook() as nb:
        nb.run(IMPORTS + LOOKED_AT["in objects, with dates and members of enums"][0])
        nb.run(f"v = [C(n) for n in range({LONG})]\nfor last in v: pass")
        nb.run("len(v)")
        assert _calls(lambda: nb.run("len(v)")) < 3 * LONG
        before = nb.run("n = len(v)")
        assert names_changed(nb.run("last.tags[0].x['y'] = 1")) == {"v", "last"}
        nb.checkout(before)
        assert nb.look("last is v[-1], last.tags[0].x") == (True, {"x": {LONG - 1}})


@pytest.mark.parametrize("tree", ["", "last, first, row, rows = v[n], v[1], v[2].below, {'below': v[3].below}"])
def test_a_cell_that_reads_a_tree_calls_nothing_for_each_of_its_nodes(tree: str) -> None:
    source = TREE.replace("self.parent, self.below, self.x = parent, [], 0", "self.below, self.x = [], 0")
    with Notebook() as nb:
        nb.run(source + tree)
        before = nb.run("len(v), root.x")
        assert _calls(lambda: nb.run("len(v), root.x")) < 3 * LONG
        changed = names_changed(nb.run("v[7].x = 1"))
        assert {"v", "root"} <= changed <= {"v", "root", "row", "rows", "first"}
        nb.run("len(v)")
        assert "v" in names_changed(nb.run("root.below[1].below.append(v[-1])"))
        nb.checkout(before)
        assert nb.look("({n.x for n in v}, v[0] is root, len(v[2].below))") == ({0}, True, 3)
        if tree:
            assert (
                nb.look("(last is v[-1], first is v[1], row is v[2].below, rows['below'] is v[3].below)") == (True,) * 4
            )


def test_a_cell_that_reads_a_graph_calls_nothing_for_each_of_its_nodes() -> None:
    with Notebook() as nb:
        nb.run(TREE)
        before = nb.run("len(v), root.x")
        assert _calls(lambda: nb.run("len(v), root.x")) < 3 * LONG
        assert names_changed(nb.run("v[-1].parent.parent.x = 1")) == {"v", "root"}
        nb.run("a = v[1500]\na.parent.below.remove(a)")
        assert names_changed(nb.run("a.below.append(1)")) == {"v", "a"}  # the root leads to it no more
        nb.checkout(before)
        assert nb.look("({n.x for n in v}, v[0] is root, v[1500] in v[1500].parent.below)") == ({0}, True, True)


# What one cell does to the objects, and what tells it afterwards.
CHANGES = {
    "an attribute": ("v[5].x = -1", "v[5].x"),
    "an equal one of another type": ("v[1].x = True", "repr(v[1].x)"),
    "the sign of zero": ("v[0].x = 0.0\nv[0].x = -0.0", "repr(v[0].x)"),
    "a new attribute": ("v[5].y = 1", "hasattr(v[5], 'y')"),
    "an attribute less": ("del v[5].x", "hasattr(v[5], 'x')"),
    "the order of attributes": ("x = v[5].__dict__.pop('x'); v[5].x = x; del x", "list(v[5].__dict__)"),
    "an attribute dict": ("v[5].__dict__ = {'x': 5, 'tags': [6]}", "v[5].tags"),
    "a class": ("v[5].__class__ = D", "type(v[5]) is D"),
    "a list below": ("v[5].tags.append(1)", "list(v[5].tags)"),
    "a list below, by a function": ("change(v[5].tags)", "list(v[5].tags)"),
    "a place": ("v[5], v[6] = v[6], v[5]", "v[5].x"),
    "the order": ("v.reverse()", "v[5].x"),
    "the length": ("del v[-1]", "len(v)"),
    "an object that comes twice": ("v[5] = v[6]", "v[5] is v[6]"),
    "a list that comes twice": ("v[5].tags = v[6].tags", "v[5].tags is v[6].tags"),
    "a list that a variable holds too": ("tags = v[5].tags", "any(t is v[5].tags for t in [globals().get('tags')])"),
    "an object that a variable holds too": ("one = v[5]", "any(o is v[5] for o in [globals().get('one')])"),
    "what the class says of its objects": ("C.__getstate__ = lambda self: {'x': 0, 'tags': []}", "'__getstate__' in vars(C)"),
    "a NaN": ("v[5].x = np.nan", "v[5].x is np.nan"),
    "the array below": ("v[5].tags = np.arange(3)\nv[5].tags[1] = 7", "list(v[5].tags)"),
    "its own list": ("v[5].tags = v", "v[5].tags is v"),
    "a text with a state": ("v[5].x = Text('a')\nv[5].x.more = 1", "getattr(v[5].x, 'more', None)"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "tells"), CHANGES.values(), ids=CHANGES)
def test_whatever_changes_among_many_objects_is_found_and_goes_back(change: str, tells: str) -> None:
    with Notebook() as nb:
        nb.run(IMPORTS + LOOKED_AT["with attributes"][0] + "\nclass D(C): pass\nclass Text(str): pass")
        nb.run("def change(tags): tags.append(1)")
        nb.run(f"v = [C(n) for n in range({LONG})]")
        early = nb.run("total = sum(one.x for one in v)")
        before = nb.look(tells)
        late = nb.run(change)
        assert late.commit is not None
        after = nb.look(tells)
        assert after != before
        for commit, told in ((early, before), (late, after), (early, before), (late, after)):
            nb.checkout(commit)
            assert nb.look(tells) == told, (tells, told)


@pytest.mark.parametrize("name", ["one", "tags"])
def test_what_a_variable_holds_of_many_objects_is_changed_through_either(name: str) -> None:
    with Notebook() as nb:
        nb.run(LOOKED_AT["with attributes"][0])
        nb.run(f"v = [C(n) for n in range({LONG})]")
        nb.run("len(v)")
        early = nb.run("one = v[5]" if name == "one" else "tags = v[5].tags")
        nb.run("len(v)")
        assert names_changed(nb.run("one.x = 'new'" if name == "one" else "tags.append('new')")) == {"v", name}
        nb.checkout(early)
        assert nb.look("one is v[5] and one.x == 5" if name == "one" else "tags is v[5].tags and tags == [5]")
        nb.run("v[5].x, v[5].tags = 9, v[5].tags + [9]" if name == "one" else "v[5].tags.append(9)")
        nb.checkout(early)
        assert nb.look("one is v[5] and one.x == 5" if name == "one" else "tags is v[5].tags and tags == [5]")


HIDING = {
    "a property in the place of a slot": "class C:\n    __slots__ = ('x', 'y')\nof = C.x\nC.x = property(of.__get__, of.__set__)",
    "a slot under no name": "class C:\n    __slots__ = ('x', 'y')\nof = C.x\nC.x = property(lambda self: of.__get__(self), lambda self, x: of.__set__(self, x))\nC.__slots__ = ('y', 'x')",
    "a property over the slot of a base": "class B:\n    __slots__ = ('x', 'y')\nclass C(B):\n    __slots__ = ('z',)\n    x = property(lambda self: self.z, lambda self, x: C.z.__set__(self, x))",
}  # fmt: skip


@pytest.mark.parametrize("made", HIDING.values(), ids=HIDING)
def test_an_attribute_behind_a_property_is_seen_to_change(made: str) -> None:
    with Notebook() as nb:
        nb.run(made)
        nb.run(f"v = [C() for _ in range({LONG})]\nfor n, one in enumerate(v): one.x = one.y = n\ndel n, one")
        nb.run("len(v)")
        before = nb.run("n = len(v)")
        assert "v" in names_changed(nb.run("v[5].x = 'new'"))
        nb.checkout(before)
        assert nb.look("v[5].x") == 5


def test_what_is_in_a_slot_below_a_property_is_what_changes_and_comes_back() -> None:
    """What the property makes up is made up again: it is of the variable that it asks."""
    with Notebook() as nb:
        nb.run("says = [1]")
        nb.run(
            "class B:\n    __slots__ = ('x',)\nclass C(B):\n    __slots__ = ()\n    x = property(lambda self: says[0], lambda self, x: None)"
        )
        before = nb.run(f"v = [C() for _ in range({LONG})]\nfor one in v: B.x.__set__(one, 0)")
        nb.run("len(v)")
        nb.run("n = len(v)")
        assert names_changed(nb.run("says[0] = len(v)")) == {"says"}
        assert names_changed(nb.run("B.x.__set__(v[5], 7)")) == {"v"}
        nb.checkout(before)
        assert nb.look("(v[5].x, B.x.__get__(v[5]))") == (1, 0)
