"""Classes of every shape come back: type, state, sharing, and what the classes and variables hold, to the last count."""

from __future__ import annotations

import copyreg
from collections.abc import Iterator
from typing import Any

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.fidelity.likeness import likeness
from tests.fidelity.shapes import IMPORTS, shapes
from tests.support.notebooks import Notebook, names_changed

SHAPES = shapes(48)
TOGETHER = 12


@pytest.fixture(autouse=True)
def _no_registrations_left() -> Iterator[None]:
    before = dict(copyreg.dispatch_table)
    yield
    copyreg.dispatch_table.clear()
    copyreg.dispatch_table.update(before)


def of_shape(nb: Notebook, number: int) -> dict[str, object]:
    return {name: found for name, found in nb.namespace.items() if name.rstrip("0123456789") + str(number) == name}


def unlike(before: dict[int, Any], nb: Notebook) -> list[Any]:
    return [SHAPES[number] for number, made in before.items() if likeness(of_shape(nb, number)) != made]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, len(SHAPES), TOGETHER))
def test_a_shape_comes_back_as_it_was(first: int) -> None:
    numbers = range(first, min(first + TOGETHER, len(SHAPES)))
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(IMPORTS)
        for number in numbers:
            assert nb.run(SHAPES[number].cell(number)).unsaved == (), SHAPES[number]
        made = nb.run("1")
        before = {number: likeness(of_shape(nb, number)) for number in numbers}
        names = ", ".join(sorted(name for number in numbers for name in of_shape(nb, number)))
        assert names_changed(nb.run(names)) == set(), "reading is no change"
        nb.run(f"del {names}")
        nb.checkout(made)
        assert unlike(before, nb) == []
        assert names_changed(nb.run(names)) == set()
        assert unlike(before, nb) == [], "saving changes nothing"
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(made)
        assert unlike(before, nb) == []
        assert names_changed(nb.run(names)) == set()


CONTENTS = """
import collections, enum
class Rows(list): pass
class Table(dict): pass
class A(Table, enum.Enum):
    ONE = {"x": [1]}
    TWO = {"y": 2}
class B(Rows, enum.Enum):
    ONE = [1, 2]
class C(set, enum.Enum):
    ONE = {1, 2}
class D(bytearray, enum.Enum):
    ONE = b"ab"
class E(collections.OrderedDict, enum.Enum):
    ONE = {"b": 1, "a": 2}
class F(collections.deque, enum.Enum):
    ONE = [1, 2]
held = [A.ONE, B.ONE]
"""


def test_members_of_an_enum_keep_what_they_hold() -> None:
    store = MemoryStore()
    seen = "(dict(A.ONE), A.ONE.value, dict(A.TWO), list(B.ONE), set(C.ONE), bytes(D.ONE), list(E.ONE), list(F.ONE))"
    with Notebook(Repository.open(store)) as nb:
        nb.run(CONTENTS)
        nb.run("A.ONE['z'] = B.ONE")
        then = nb.look(f"repr({seen})")
    with Notebook(Repository.open(store)) as again:
        again.checkout()
        assert again.look(f"repr({seen})") == then
        assert again.look("held[0] is A.ONE and held[1] is A.ONE['z'] is B.ONE and A({'x': [1]}) is A.ONE")


# An enum whose values are no numbers or texts, a cell that lets a value lead to a member, and what holds from there on.
LEADING = {
    "a list": (
        "class Step(enum.Enum):\n    FIRST = []\n    LAST = [1]",
        "Step.FIRST.value.append({Step.LAST: Step.FIRST})",
        "Step.FIRST.value == [{Step.LAST: Step.FIRST}]",
    ),
    "a list in a tuple": (
        "class Step(enum.Enum):\n    FIRST = ([], 1)\n    LAST = ([], 2)",
        "Step.FIRST.value[0].append(Step.LAST)",
        "Step.FIRST.value[0] == [Step.LAST]",
    ),
    "an object": (
        "class State:\n    next = None\nclass Step(enum.Enum):\n    FIRST = State()\n    LAST = State()",
        "Step.FIRST.value.next = Step.LAST",
        "Step.FIRST.value.next is Step.LAST",
    ),
    "a list that became equal to another": (
        "class Step(enum.Enum):\n    FIRST = []\n    ALSO = FIRST\n    LAST = [1]",
        "Step.FIRST.value.append(1)",
        "Step.ALSO is Step.FIRST is not Step.LAST and Step.FIRST.value == [1]",
    ),
    "in another enum": (
        "class Other(enum.Enum):\n    ONE = {}\nclass Step(enum.Enum):\n    FIRST = [Other.ONE]\n    LAST = {}",
        "Other.ONE.value[Step.LAST] = Step.FIRST",
        "Step.FIRST.value[0].value == {Step.LAST: Step.FIRST}",
    ),
}


@pytest.mark.parametrize(("made", "leads", "holds"), LEADING.values(), ids=LEADING)
def test_the_value_of_a_member_may_lead_to_members(made: str, leads: str, holds: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        before = nb.run(f"import enum\n{made}")
        after = nb.run(leads)
        nb.checkout(before)
        assert nb.look(f"not ({holds})")
        nb.checkout(after)
        assert nb.look(holds)
    with Notebook(Repository.open(store)) as again:
        again.checkout(after)
        assert again.look(f"{holds} and Step(Step.FIRST.value) is Step.FIRST and list(Step) == [Step.FIRST, Step.LAST]")


# A class made of `SimpleNamespace`, what it is made with, and what holds after a cell changed one of its objects.
NAMESPACES = {
    "plain": ("class Kind(types.SimpleNamespace): pass", "Kind(a=[1])", "kept.a is one.a and one.a == [1, 2]"),
    "that wants arguments": (
        "calls = []\nclass Kind(types.SimpleNamespace):\n    def __init__(self, a): calls.append(a); super().__init__(a=a)",
        "Kind([1])",
        "calls == [[1, 2]] and calls[0] is one.a",
    ),
    "with slots": (
        "class Kind(types.SimpleNamespace):\n    __slots__ = ('held',)",
        "Kind(a=[1])\none.held = one.a",
        "one.held is one.a and one.a == [1, 2] and 'held' not in vars(one)",
    ),
    "that answers for any name": (
        "class Kind(types.SimpleNamespace):\n    def __getattr__(self, name): raise KeyError(name)",
        "Kind(a=[1])",
        "one.me is one and one.a == [1, 2]",
    ),
}


@pytest.mark.parametrize(("made", "makes", "holds"), NAMESPACES.values(), ids=NAMESPACES)
def test_an_object_of_a_class_made_of_simple_namespace_comes_back(made: str, makes: str, holds: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        before = nb.run(f"import types\n{made}\none = {makes}\nkept = one\nattributes = vars(one)")
        after = nb.run("one.a.append(2); one.me = one")
        assert [*before.unsaved, *after.unsaved] == []
        nb.checkout(before)
        assert nb.look("one.a == [1] and kept is one and not hasattr(types.SimpleNamespace(**vars(one)), 'me')")
        nb.checkout(after)
        assert nb.look(f"{holds} and vars(one) is attributes")
    with Notebook(Repository.open(store)) as again:
        again.checkout(after)
        assert again.look(f"{holds} and vars(one) is attributes and type(one) is Kind and kept is one")


HASHED = """
class K:
    {body}
    def __init__(self, a): self.a = a
    def __eq__(self, other): return self.a == other.a
    def __hash__(self): return hash(self.a)
k = K(1)
m = {{k: 'one'}}
k.owner = m
s = {{k}}
"""


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "__slots__ = ('a', '__dict__')",
        "__slots__ = ('a', 'owner')",
        "__slots__ = ('a', 'owner', '__weakref__')\n    def __new__(cls, a): return object.__new__(cls)",
    ],
)
def test_an_object_that_is_a_key_of_what_it_holds_comes_back(body: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        first = nb.run(HASHED.format(body=body))
        nb.run("m[k] = 'two'")
        nb.checkout(first)
        assert nb.look("m[k] == 'one' and k.owner is m and next(iter(m)) is k and k in s")
    with Notebook(Repository.open(store)) as again:
        again.checkout()
        assert again.look("m[k] == 'one' and k.owner is m and next(iter(m)) is k and k in s")
