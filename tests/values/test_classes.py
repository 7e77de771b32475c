"""Notebook classes come back without a hook of theirs running, and beside the live ones, which stay what they are."""

from __future__ import annotations

import enum
import gc
from typing import Any

import pytest

from agent_kernel.values import class_entry
from agent_kernel.values.classes import ClassRegistry
from tests.values.notebook import Namespace

HOOKS = """
RAN = []

class Meta(type):
    def __new__(meta, name, bases, body, **options):
        RAN.append("metaclass __new__")
        return super().__new__(meta, name, bases, body)
    def __init__(cls, name, bases, body, **options):
        RAN.append("metaclass __init__")
        super().__init__(name, bases, body)
    def __setattr__(cls, name, value):
        RAN.append("metaclass __setattr__")
        super().__setattr__(name, value)
    def __call__(cls, *arguments):
        RAN.append("metaclass __call__")
        return super().__call__(*arguments)
    @classmethod
    def __prepare__(meta, name, bases, **options):
        RAN.append("metaclass __prepare__")
        return {}

class Field:
    def __set_name__(self, owner, name):
        RAN.append("__set_name__")
        self.name = name
    def __set__(self, instance, value):
        RAN.append("__set__")
        instance.__dict__[self.name] = value
    def __get__(self, instance, owner=None):
        RAN.append("__get__")
        return self if instance is None else instance.__dict__[self.name]

class Base:
    def __init_subclass__(cls, **options):
        RAN.append("__init_subclass__")

class Child(Base, metaclass=Meta):
    size = Field()
    def __new__(cls, *arguments):
        RAN.append("__new__")
        return super().__new__(cls)
    def __init__(self, size):
        RAN.append("__init__")
        self.size = size
    def doubled(self):
        return 2 * self.size

child = Child(21)
"""


def test_loading_a_class_runs_no_hook_of_the_notebook() -> None:
    notebook = Namespace()
    notebook.run(HOOKS)
    kept = notebook.keep("child")
    notebook["RAN"].clear()
    made = notebook.load(kept)["child"]
    assert notebook["RAN"] == []
    assert made.doubled() == 42
    assert type(made) is not notebook["Child"]
    assert type(type(made)).__name__ == "Meta"


def test_loading_a_class_alone_runs_nothing_at_all() -> None:
    notebook = Namespace()
    notebook.run(HOOKS)
    kept = notebook.keep("Child")
    notebook["RAN"].clear()
    made = notebook.load(kept)["Child"]
    assert notebook["RAN"] == []
    assert [base.__name__ for base in made.__mro__] == ["Child", "Base", "object"]
    assert vars(made)["size"].name == "size"


def test_a_loaded_class_goes_on_as_its_hooks_say() -> None:
    notebook = Namespace()
    notebook.run(HOOKS)
    loaded = notebook.there_and_back("Child")["Child"]
    notebook["RAN"].clear()
    type("Grandchild", (loaded.__mro__[1],), {})
    assert notebook["RAN"] == ["__init_subclass__"]


def test_a_live_class_is_not_altered_by_loading() -> None:
    notebook = Namespace()
    notebook.run("class P:\n    kind = 'old'\n    def who(self):\n        return self.kind\n\np = P()\n")
    kept = notebook.keep("p")
    live = notebook["P"]
    live.kind = "changed since"
    live.extra = []
    before = dict(vars(live))
    made = notebook.load(kept)["p"]
    assert dict(vars(live)) == before
    assert (made.who(), notebook["p"].who()) == ("old", "changed since")
    assert not hasattr(type(made), "extra")


def test_a_live_class_whose_body_is_the_same_can_be_used_as_it_is() -> None:
    notebook = Namespace()
    notebook.run("class P: ...\n\np = P()\n")
    (values, _) = notebook.keep("p")
    uid = notebook.living.uid_of(notebook["P"])
    made = notebook.load([values], reusable={uid: notebook["P"]})["p"]
    assert type(made) is notebook["P"]


def test_a_class_that_is_not_stored_beside_the_value_is_named() -> None:
    notebook = Namespace()
    notebook.run("class P: ...\n\np = P()\n")
    (values, _) = notebook.keep("p")
    with pytest.raises(LookupError, match="the class P is not stored"):
        notebook.load([values])


def test_instances_keep_the_version_that_made_them() -> None:
    notebook = Namespace()
    notebook.run("class P:\n    def version(self):\n        return 1\n\nfirst = P()\n")
    notebook.run("class P:\n    def version(self):\n        return 2\n\nsecond = P()\nboth = [first, second]\n")
    first, second = notebook.there_and_back("both")["both"]
    assert (first.version(), second.version()) == (1, 2)
    assert type(first) is not type(second)


def test_redefining_a_class_does_not_change_what_is_stored_of_old_instances() -> None:
    notebook = Namespace()
    notebook.run("class P: ...\n\np = P()\n")
    before = [part.blobs for part in notebook.keep("p")]
    notebook.run("class P:\n    another = True\n")
    assert [part.blobs for part in notebook.keep("p")] == before


def test_an_instance_and_its_class_come_back_as_one() -> None:
    notebook = Namespace()
    notebook.run("class P: ...\n\nP.best = P()\nP.kinds = [P]\npair = (P, P.best)\n")
    kind, best = notebook.load(notebook.keep("pair", beside=[notebook["P"]]))["pair"]
    assert type(best) is kind
    assert kind.best is best
    assert kind.kinds == [kind]


def test_super_reaches_the_loaded_base() -> None:
    source = """
class Base:
    def name(self):
        return "base"

class Child(Base):
    def name(self):
        return "child of " + super().name()

child = Child()
"""
    notebook = Namespace()
    notebook.run(source)
    made = notebook.there_and_back("child")["child"]
    assert made.name() == "child of base"
    assert type(made).__mro__[1] is not notebook["Base"]


def test_slots_properties_and_static_methods_come_back() -> None:
    source = """
class Point:
    __slots__ = ("x", "y")
    def __init__(self, x, y):
        self.x, self.y = x, y
    @property
    def swapped(self):
        return self.make(self.y, self.x)
    @staticmethod
    def make(x, y):
        return Point(x, y)
    @classmethod
    def zero(cls):
        return cls(0, 0)

point = Point(1, 2)
"""
    notebook = Namespace()
    notebook.run(source)
    made = notebook.there_and_back("point")["point"]
    assert (made.x, made.y, made.swapped.x, type(made).zero().y) == (1, 2, 2, 0)
    with pytest.raises(AttributeError):
        made.z = 3


def test_an_enum_has_its_members_and_their_attributes() -> None:
    source = """
import enum

class Colour(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1
    @property
    def shout(self):
        return self.name + "!"

Colour.GREEN.note = ["calm"]
colours = {"best": Colour.GREEN}
"""
    notebook = Namespace()
    notebook.run(source)
    best = notebook.there_and_back("colours")["colours"]["best"]
    kind: Any = type(best)
    assert enum.Enum in kind.__mro__
    assert (best.shout, best.note, [member.name for member in kind]) == ("GREEN!", ["calm"], ["RED", "GREEN"])
    assert kind(2) is best
    assert kind.CRIMSON is kind.RED


def test_an_enum_over_a_class_of_the_notebook_is_shown_as_it_was() -> None:
    source = """
import enum, dataclasses

@dataclasses.dataclass(frozen=True)
class Mass:
    kg: float
class Planet(Mass, enum.Enum):
    EARTH = 1.0
class Loud(int):
    def __repr__(self):
        return f"{int(self)}!"
class Number(Loud, enum.Enum):
    ONE = 1
class Bits(Loud, enum.Flag):
    LOW = 1
class Own:
    def __init__(self, value):
        self.value_given = value
    def __str__(self):
        return "own"
class Told(Own, enum.Enum):
    A = 5
members = [Planet.EARTH, Number.ONE, Bits.LOW, Told.A]
shown = [(repr(one), str(one), format(one, "")) for one in members]
"""
    notebook = Namespace()
    notebook.run(source)
    found = notebook.there_and_back("members", "shown")
    members: Any = found["members"]
    assert [(repr(one), str(one), format(one, "")) for one in members] == found["shown"]


def test_an_abstract_class_stays_abstract() -> None:
    source = """
import abc

class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

class Square(Shape):
    def area(self):
        return 4

square = Square()
"""
    notebook = Namespace()
    notebook.run(source)
    made = notebook.there_and_back("square")["square"]
    shape: Any = type(made).__mro__[1]
    assert made.area() == 4
    assert isinstance(made, shape)
    with pytest.raises(TypeError, match="abstract"):
        shape()


def test_a_dataclass_compares_with_others_of_its_version() -> None:
    source = """
import dataclasses

@dataclasses.dataclass(order=True)
class Row:
    name: str
    tags: list[str] = dataclasses.field(default_factory=list)

rows = [Row("b"), Row("a", ["x"])]
"""
    notebook = Namespace()
    notebook.run(source)
    made = notebook.there_and_back("rows")["rows"]
    assert [row.name for row in sorted(made)] == ["a", "b"]
    assert made[0] == type(made[0])("b", [])
    assert made[0] != notebook["rows"][0]


def test_a_struct_of_msgspec_comes_back() -> None:
    source = """
import msgspec

class Row(msgspec.Struct, frozen=True, tag="row"):
    name: str
    tags: list[str] = msgspec.field(default_factory=list)
    size: int = 3

row = Row("a", ["x"])
"""
    notebook = Namespace()
    notebook.run(source)
    made = notebook.there_and_back("row")["row"]
    assert (made.name, made.tags, made.size, type(made)("b").tags) == ("a", ["x"], 3, [])
    assert type(made).__struct_config__.tag == "row"


def test_a_struct_of_msgspec_takes_its_fields_by_name_alone_as_it_did() -> None:
    notebook = Namespace()
    notebook.run(
        "import msgspec\nclass Base(msgspec.Struct): first: int = 1\n"
        "class Row(Base, kw_only=True): name: str\nrow = Row(2, name='a')"
    )
    made = notebook.there_and_back("row")["row"]
    assert (made.first, made.name, type(made)(3, name="b").name) == (2, "a", "b")
    with pytest.raises(TypeError, match="positional"):
        type(made)(3, "b")


class TestClassRegistry:
    def test_a_class_keeps_its_id(self) -> None:
        kinds = ClassRegistry()
        made = type("P", (), {})
        assert kinds.uid_of(made) == kinds.uid_of(made)
        assert kinds.live(kinds.uid_of(made)) is made

    def test_two_classes_of_one_name_have_two_ids(self) -> None:
        kinds = ClassRegistry()
        one, two = type("P", (), {}), type("P", (), {})
        assert kinds.uid_of(one) != kinds.uid_of(two)
        assert kinds.uid_of(one).startswith("P#")

    def test_the_class_that_is_put_in_place_takes_the_id_over(self) -> None:
        kinds = ClassRegistry()
        old, new = type("P", (), {}), type("P", (), {})
        uid = kinds.uid_of(old)
        kinds.adopt(uid, new)
        assert kinds.live(uid) is new
        assert kinds.uid_of(new) == uid
        assert kinds.uid_of(old) != uid

    def test_an_id_does_not_keep_its_class_alive(self) -> None:
        kinds = ClassRegistry()
        gc.freeze()  # what other tests left behind is not collected here
        try:
            uid = kinds.uid_of(type("P", (), {}))
            gc.collect()
        finally:
            gc.unfreeze()
        assert kinds.live(uid) is None


def test_class_entries_cannot_be_the_name_of_a_variable() -> None:
    assert class_entry("P#1").startswith("\0")
