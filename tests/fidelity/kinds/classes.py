"""Classes that cells define: how they are built, and how their bodies come back."""

from tests.fidelity.kinds.kind import Kind

CLASSES = (
    Kind(
        "a class and its instance",
        """
        class Account:
            "Money."

            opened = 0

            def __init__(self, owner):
                self.owner = owner
                self.history = []
                Account.opened += 1

            def pay(self, amount):
                self.history.append(amount)
                return sum(self.history)


        account = Account("ann")
        account.pay(5)
        """,
        """
        assert type(account) is Account and account.owner == "ann" and account.pay(2) == 7
        assert Account.opened == 1 and Account.__doc__ == "Money." and Account.__module__ == "__main__"
        assert Account("bob").history == [] and Account.opened == 2
        """,
    ),
    Kind(
        "inheritance and super",
        """
        class Base:
            def hello(self):
                return ["base"]


        class Left(Base):
            def hello(self):
                return ["left", *super().hello()]


        class Right(Base):
            def hello(self):
                return ["right", *super().hello()]


        class Both(Left, Right):
            def hello(self):
                return ["both", *super().hello()]


        both = Both()
        """,
        """
        assert both.hello() == ["both", "left", "right", "base"]
        assert Both.__mro__ == (Both, Left, Right, Base, object) and isinstance(both, Right)
        """,
    ),
    Kind(
        "properties, class methods and static methods",
        """
        class Circle:
            made = []

            def __init__(self, r):
                self.r = r

            @property
            def area(self):
                return 3 * self.r**2

            @area.setter
            def area(self, value):
                self.r = (value / 3) ** 0.5

            @classmethod
            def unit(cls):
                return cls(1)

            @staticmethod
            def name():
                return "circle"


        circle = Circle(2)
        """,
        """
        assert circle.area == 12 and Circle.name() == "circle" and Circle.unit().r == 1
        circle.area = 27
        assert circle.r == 3
        """,
    ),
    Kind(
        "slots",
        """
        class Point:
            __slots__ = ("x", "y", "__weakref__")

            def __init__(self, x):
                self.x = x


        point = Point(1)
        """,
        """
        assert point.x == 1 and not hasattr(point, "y") and not hasattr(point, "__dict__")
        point.y = 2
        assert point.y == 2
        """,
    ),
    Kind(
        "a metaclass",
        """
        class Named(type):
            def __new__(meta, name, bases, body, suffix=""):
                body["tag"] = name.lower() + suffix
                return super().__new__(meta, name, bases, body)

            def __init__(cls, name, bases, body, suffix=""):
                super().__init__(name, bases, body)

            def __len__(cls):
                return 7


        class Widget(metaclass=Named, suffix="!"):
            pass


        widget = Widget()
        """,
        """
        assert type(Widget) is Named and len(Widget) == 7 and widget.tag == "widget!"
        """,
    ),
    Kind(
        "abstract classes, generics and protocols",
        """
        import abc
        from typing import Generic, Protocol, TypeVar, runtime_checkable

        T = TypeVar("T")


        class Shape(abc.ABC):
            @abc.abstractmethod
            def area(self): ...


        class Square(Shape):
            def area(self):
                return 4


        class Box(Generic[T]):
            def __init__(self, item):
                self.item = item


        @runtime_checkable
        class HasArea(Protocol):
            def area(self): ...


        square = Square()
        box = Box[int](3)
        """,
        """
        assert square.area() == 4 and isinstance(square, Shape) and isinstance(square, HasArea)
        try:
            Shape()
        except TypeError:
            pass
        else:
            raise AssertionError("an abstract class was instantiated")
        assert box.item == 3 and type(box) is Box and Box[int].__args__ == (int,)
        assert Box.__parameters__[0] is Box.__orig_bases__[0].__args__[0] is T
        """,
    ),
    Kind(
        "subclass hooks do not run again",
        """
        class Plugin:
            names = []

            def __init_subclass__(cls, **options):
                super().__init_subclass__(**options)
                Plugin.names.append(cls.__name__)


        class Csv(Plugin):
            pass


        csv_plugin = Csv()
        """,
        """
        assert Plugin.names == ["Csv"] and isinstance(csv_plugin, Plugin)
        """,
    ),
    Kind(
        "descriptors and cached properties",
        """
        import functools


        class Positive:
            def __set_name__(self, owner, name):
                self.name = "_" + name

            def __get__(self, instance, owner):
                return self if instance is None else getattr(instance, self.name, 0)

            def __set__(self, instance, value):
                if value <= 0:
                    raise ValueError(value)
                setattr(instance, self.name, value)


        class Order:
            amount = Positive()

            @functools.cached_property
            def lines(self):
                return ["computed"]


        order = Order()
        order.amount = 3
        order.lines
        """,
        """
        assert order.amount == 3 and order.lines == ["computed"]
        try:
            order.amount = -1
        except ValueError:
            pass
        else:
            raise AssertionError("the descriptor is gone")
        """,
    ),
)
