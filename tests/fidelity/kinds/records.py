"""Classes whose bodies a library wrote: data classes, enums, named tuples, models."""

from tests.fidelity.kinds.kind import Kind

RECORDS = (
    Kind(
        "dataclasses, plain, frozen, with slots",
        """
        from dataclasses import dataclass, field, replace


        @dataclass(order=True)
        class Job:
            cost: int
            tags: list = field(default_factory=list, compare=False)


        @dataclass(frozen=True)
        class Key:
            name: str


        @dataclass(frozen=True, slots=True, kw_only=True)
        class Cell:
            row: int = 0


        job, key, cell = Job(3, ["a"]), Key("k"), Cell(row=4)
        by_key = {key: job}
        """,
        """
        import dataclasses

        assert job == Job(3) and job.tags == ["a"] and Job(1) < job and Job(1).tags == []
        assert by_key[Key("k")] is job and next(iter(by_key)) is key
        assert cell == Cell(row=4) and replace(cell, row=5).row == 5
        try:
            key.name = "other"
        except dataclasses.FrozenInstanceError:
            pass
        else:
            raise AssertionError("a frozen instance was changed")
        """,
    ),
    Kind(
        "enums and flags",
        """
        import enum


        class Colour(enum.Enum):
            RED = 1
            CRIMSON = 1
            GREEN = "g"

            def low(self):
                return self.name.lower()


        class Access(enum.IntFlag):
            READ = 1
            WRITE = 2


        colour, access = Colour.GREEN, Access.READ | Access.WRITE
        """,
        """
        assert colour is Colour.GREEN and Colour("g") is colour and colour.low() == "green"
        assert Colour.CRIMSON is Colour.RED and list(Colour) == [Colour.RED, Colour.GREEN]
        assert access == 3 and Access.WRITE in access and type(access) is Access
        """,
    ),
    Kind(
        "named tuples and typed dicts",
        """
        import collections
        from typing import NamedTuple, TypedDict

        Pair = collections.namedtuple("Pair", "left right", defaults=[0])


        class City(NamedTuple):
            name: str
            people: int = 1


        class Options(TypedDict, total=False):
            depth: int


        pair, city = Pair(1), City("Rome")
        options: Options = {"depth": 2}
        """,
        """
        assert pair == (1, 0) and type(pair) is Pair and pair._replace(left=5).left == 5
        assert city.people == 1 and type(city) is City and Options.__annotations__.keys() == {"depth"}
        assert options == {"depth": 2} and type(options) is dict
        """,
    ),
    Kind(
        "models of pydantic",
        """
        from pydantic import BaseModel, Field, field_validator


        class Item(BaseModel):
            name: str
            price: float = Field(gt=0)
            tags: list[str] = []

            @field_validator("name")
            @classmethod
            def strip(cls, value):
                return value.strip()


        class Order(BaseModel):
            items: list[Item]


        item = Item(name=" pen ", price=2)
        order = Order(items=[item])
        order.items[0] = item
        """,
        """
        import pydantic

        assert item == Item(name="pen", price=2.0) and type(item) is Item and item.name == "pen"
        assert order.items[0] is item and order.model_dump() == {"items": [{"name": "pen", "price": 2.0, "tags": []}]}
        assert Item.model_validate({"name": " a ", "price": 1}).name == "a"
        try:
            Item(name="x", price=-1)
        except pydantic.ValidationError:
            pass
        else:
            raise AssertionError("validation is gone")
        """,
        needs=("pydantic",),
    ),
    Kind(
        "classes of attrs and msgspec",
        """
        import attrs
        import msgspec


        @attrs.define
        class Size:
            w: int
            h: int = 2


        class Message(msgspec.Struct):
            text: str
            to: list[str] = []


        size, message = Size(1), Message("hi", ["ann"])
        """,
        """
        assert size == Size(1, 2) and type(size) is Size
        assert message == Message("hi", ["ann"]) and msgspec.json.encode(message) == b'{"text":"hi","to":["ann"]}'
        """,
        needs=("attrs",),
    ),
    Kind(
        "structs of msgspec that name themselves and each other, with names of their own in messages",
        """
        import msgspec
        from typing import ClassVar, Optional


        class Base(msgspec.Struct, kw_only=True, rename="camel"):
            in_use: bool = False


        class Tree(Base):
            LIMIT: ClassVar[int] = 3
            size: int
            left: Optional["Tree"] = None
            leaves: "list[Leaf]" = msgspec.field(default_factory=list)


        class Leaf(msgspec.Struct):
            tree: "Tree | None" = msgspec.field(default=None, name="@tree")


        tree = Tree(1, left=Tree(2), leaves=[Leaf()])
        sent = msgspec.json.encode(tree)
        read = msgspec.json.decode(sent, type=Tree)
        """,
        """
        assert sent == b'{"size":1,"left":{"size":2,"left":null,"leaves":[],"inUse":false},"leaves":[{"@tree":null}],"inUse":false}'
        assert type(tree) is type(tree.left) is type(read) is Tree and tree == read and Tree.LIMIT == 3
        assert msgspec.json.encode(tree) == sent and msgspec.json.decode(sent, type=Tree) == tree
        assert Tree.__annotations__["left"] == Optional["Tree"] and Leaf.__annotations__ == {"tree": "Tree | None"}
        assert msgspec.structs.fields(Tree)[1].type == Optional[Tree]
        """,
    ),
    Kind(
        "references to types that are not there yet",
        """
        import typing


        class Later:
            value: typing.Optional["Later"] = None


        hints = typing.get_type_hints(Later)
        found = typing.ForwardRef("Later"), typing.ForwardRef("list[int]", is_argument=False, is_class=True)
        """,
        """
        assert hints == typing.get_type_hints(Later) == {"value": typing.Optional[Later]}
        assert found == (typing.ForwardRef("Later"), typing.ForwardRef("list[int]", is_argument=False, is_class=True))
        """,
    ),
)
