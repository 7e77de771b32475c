"""Class bodies that hold instances: of other notebook classes, of their own, and in circles."""

from tests.fidelity.kinds.kind import Kind

CLASS_BODIES = (
    Kind(
        "class bodies that hold instances",
        """
        from dataclasses import dataclass, field, InitVar, KW_ONLY
        from typing import ClassVar, NamedTuple
        import enum, functools


        @dataclass(frozen=True, slots=True)
        class P:
            x: int
            y: int = 0


        class Own:
            def __init__(self, v):
                self.v = v

            def __setstate__(self, state):
                self.__dict__.update(state)
                self.set = True

            def __eq__(self, o):
                return type(o) is Own and self.v == o.v

            def __hash__(self):
                return hash(self.v)


        class Red:
            def __init__(self, v):
                self.v = v

            def __reduce__(self):
                return Red, (self.v,)

            def __hash__(self):
                return hash(("r", self.v))

            def __eq__(self, o):
                return type(o) is Red and self.v == o.v


        class Holder:
            origin = P(0, 0)
            own = Own(3)
            red = Red(4)
            table = {P(1, 2): "p", Own(1): "own", Red(1): "red"}
            items = {P(5), Own(5), Red(5)}
            frozen = frozenset({P(6), Own(6)})

            def f(self, p=P(9), o=Own(9)):
                return p, o


        class Color(enum.Enum):
            RED = P(1, 2)
            BLUE = Own(7)
            GREEN = Red(8)


        @dataclass(slots=True, kw_only=True, weakref_slot=True)
        class Config:
            origin: P = P(1, 1)
            seed: InitVar[int] = 3
            own: Own = Own(2)
            reg: ClassVar[dict] = {}

            def __post_init__(self, seed):
                self.own = self.own if seed == 3 else Own(seed)


        class NT(NamedTuple):
            p: P = P(3, 3)
            o: Own = Own(4)


        P.zero = P(0, 0)
        Config.reg["c"] = Config()
        c = Config()
        nt = NT()
        alias = list[P]
        galias = dict[str, NT]


        @functools.total_ordering
        class Ord:
            one = None

            def __init__(self, n):
                self.n = n

            def __lt__(self, o):
                return self.n < o.n

            def __eq__(self, o):
                return self.n == o.n

            def __hash__(self):
                return hash(self.n)


        Ord.one = Ord(1)
        Ord.by = {Ord(2): Ord.one}
        """,
        """
        assert Holder.origin == P(0, 0)
        assert Holder.own.v == 3
        assert Holder.red.v == 4
        assert Holder.table[P(1, 2)] == "p"
        assert Holder.table[Own(1)] == "own"
        assert Holder.table[Red(1)] == "red"
        assert {P(5), Own(5), Red(5)} == Holder.items
        assert frozenset({P(6), Own(6)}) == Holder.frozen
        assert Holder().f() == (P(9), Own(9))
        assert Color.RED.value == P(1, 2)
        assert Color(P(1, 2)) is Color.RED
        assert Color(Own(7)) is Color.BLUE
        assert Color(Red(8)) is Color.GREEN
        assert c.origin == P(1, 1)
        assert c.own == Own(2)
        assert Config(seed=5).own == Own(5)
        assert Config().origin is c.origin
        assert Config.reg["c"].origin is c.origin
        assert nt == NT()
        assert NT().p is nt.p
        assert P.zero == P(0)
        assert alias == list[P]
        assert galias == dict[str, NT]
        assert Ord.one <= Ord(1)
        assert Ord.by[Ord(2)] is Ord.one
        import weakref

        assert weakref.ref(c)() is c
        try:
            Config(P(1, 1))
        except TypeError:
            pass
        else:
            raise AssertionError("kw_only is gone")
        try:
            P.zero.x = 1
        except AttributeError:
            pass
        else:
            raise AssertionError("frozen is gone")
        """,
    ),
    Kind(
        "registries and metaclass instances",
        """
        import abc


        class Meta(type):
            registry = {}

            def __new__(m, name, bases, body):
                made = super().__new__(m, name, bases, body)
                m.registry[name] = made
                return made

            def __call__(cls, *a):
                made = super().__call__(*a)
                cls.instances.append(made)
                return made

            def __eq__(cls, other):
                return cls is other

            def __hash__(cls):
                return 17


        class Base(metaclass=Meta):
            instances = []


        class Kid(Base):
            pass


        k = Kid()


        class Plug:
            reg = {}

            def __init_subclass__(cls, key=None, **kw):
                super().__init_subclass__(**kw)
                Plug.reg[cls] = cls()
                cls.key = key

            def __hash__(self):
                return hash(type(self))

            def __eq__(self, o):
                return type(self) is type(o)


        class A(Plug, key="a"):
            pass


        class B(A, key="b"):
            pass


        Plug.seen = {A(): 1, B(): 2}


        class Field:
            def __init__(self, kind):
                self.kind = kind

            def __set_name__(self, owner, name):
                self.owner = owner
                self.name = name
                owner.fields = {**getattr(owner, "fields", {}), name: self}

            def __get__(self, inst, owner):
                return self if inst is None else inst.__dict__.get(self.name, self.kind)

            def __set__(self, inst, v):
                inst.__dict__[self.name] = v

            def __setstate__(self, s):
                self.__dict__.update(s)


        class Model:
            a = Field(int)
            b = Field(A)


        Model.default = Model()
        Model.default.a = 5


        class Shape(abc.ABC):
            known = []

            @abc.abstractmethod
            def area(self): ...


        class Sq(Shape):
            def area(self):
                return 4


        @Shape.register
        class Virtual:
            pass


        Shape.known.append(Sq())
        Shape.known.append(Virtual())


        class Left:
            pass


        class Right:
            other = Left


        Left.other = Right
        Left.me = Left()
        Left.me.kind = Right
        Right.inst = Left.me
        Left.deco = property(lambda s: Right)
        """,
        """
        assert Meta.registry["Kid"] is Kid
        assert Base.instances[0] is k
        assert type(k) is Kid
        assert type(Plug.reg[A]) is A
        assert Plug.seen[A()] == 1
        assert Plug.seen[B()] == 2
        assert B.key == "b"
        assert Model.fields["a"] is vars(Model)["a"]
        assert Model.a.owner is Model
        assert Model.default.a == 5
        assert Model().b is A
        assert isinstance(Virtual(), Shape)
        assert Shape.known[0].area() == 4
        assert type(Shape.known[1]) is Virtual
        assert Left.other is Right
        assert Right.other is Left
        assert Left.me.kind is Right
        assert Right.inst is Left.me
        assert Left.me.deco is Right
        """,
    ),
    Kind(
        "instances whose state needs methods, in cycles with their classes",
        """
        class Money:
            __slots__ = ("amount", "unit")
            cache = {}

            def __init__(self, a, u="EUR"):
                self.amount = a
                self.unit = u
                Money.cache[self] = self

            def __getstate__(self):
                return (self.amount, self.unit)

            def __setstate__(self, s):
                self.amount, self.unit = s
                self.check()

            def check(self):
                assert self.amount >= Limits.lowest

            def __hash__(self):
                return hash((self.amount, self.unit))

            def __eq__(self, o):
                return (self.amount, self.unit) == (o.amount, o.unit)

            def __lt__(self, o):
                return self.amount < o.amount


        class Limits:
            lowest = 0


        one = Money(1)
        two = Money(2)
        Money.unit_money = one
        Limits.pair = {one: two}


        class Temp(float):
            base = None

            def __new__(cls, v, unit="C"):
                self = super().__new__(cls, v)
                self.unit = unit
                return self

            def __reduce__(self):
                return Temp, (float(self), self.unit)


        Temp.base = Temp(3.0, "F")
        Temp.all = [Temp.base, Temp(4)]


        class Args:
            def __new__(cls, a):
                o = super().__new__(cls)
                o.a = a
                return o

            def __getnewargs__(self):
                return (self.a,)


        Args.first = Args(5)


        class KwArgs:
            def __new__(cls, *, a):
                o = super().__new__(cls)
                o.a = a
                return o

            def __getnewargs_ex__(self):
                return (), {"a": self.a}


        KwArgs.first = KwArgs(a=[6])


        class Lst(list):
            def append(self, x):
                super().append(x)
                self.n = getattr(self, "n", 0) + 1


        Lst.all = Lst()
        Lst.all.append(Lst)


        class Sub(dict):
            def __missing__(self, k):
                return Sub.default

            default = None


        Sub.default = Sub(a=1)
        """,
        """
        assert Money.cache[Money(1)] == one
        assert Money.unit_money is one
        assert Limits.pair[one] is two
        assert Temp.base == 3.0
        assert Temp.base.unit == "F"
        assert Temp.all[0] is Temp.base
        assert Args.first.a == 5
        assert KwArgs.first.a == [6]
        assert Lst.all[0] is Lst
        assert Lst.all.n == 1
        assert Sub()["q"] is Sub.default
        """,
    ),
    Kind(
        "classes whose __new__ reads or changes what lies around it",
        """
        import dataclasses
        import enum
        from typing import NamedTuple

        _pool = {}
        _made = []


        class Single:
            inst = None

            def __new__(cls):
                if cls.inst is None:
                    cls.inst = super().__new__(cls)
                    cls.inst.d = []
                return cls.inst


        class Multi:
            pool = {}

            def __new__(cls, key="d"):
                if key not in cls.pool:
                    cls.pool[key] = super().__new__(cls)
                    cls.pool[key].key = key
                return cls.pool[key]

            def __getnewargs__(self):
                return (self.key,)


        class Pooled:
            def __new__(cls, key, *, size=0):
                made = _pool.setdefault(key, super().__new__(cls))
                made.key, made.size = key, size
                return made

            def __getnewargs_ex__(self):
                return (self.key,), {"size": self.size}


        class Tree:
            count = 0

            def __new__(cls, *arguments):
                cls.count += 1
                _made.append(cls.__name__)
                return super().__new__(cls)


        class Oak(Tree):
            def __init__(self, age):
                self.age = age


        class Slotted:
            __slots__ = ("a",)
            count = 0

            def __new__(cls, a):
                Slotted.count += 1
                made = super().__new__(cls)
                made.a = a
                return made


        class Hashed(Tree):
            def __init__(self, a):
                self.a, self.own = a, {}

            def __hash__(self):
                return hash(self.a)

            def __eq__(self, other):
                return self.a == other.a


        class Answers(Tree):
            def __getattr__(self, name):
                if name.startswith("_"):
                    raise AttributeError(name)
                return self.found[name]


        class Stated(Tree):
            def __getstate__(self):
                return dict(self.__dict__, more=1)

            def __setstate__(self, state):
                self.__dict__.update(state)


        class Leaves:
            def __new__(cls):
                made = super().__new__(cls)
                made.cache = "made by __new__"
                return made

            def __getstate__(self):
                return {name: held for name, held in self.__dict__.items() if name != "cache"}


        class Metres(float):
            count = 0

            def __new__(cls, value, unit):
                cls.count += 1
                made = super().__new__(cls, value * 1000)
                made.unit = unit
                return made


        class Number(int):
            def __new__(cls):
                _made.append("Number")
                return super().__new__(cls, len(_made) * 10**20)


        class Word(str):
            def __new__(cls, first, second):
                return super().__new__(cls, first + second)


        class Pair(tuple):
            count = 0

            def __new__(cls, first, second):
                cls.count += 1
                return super().__new__(cls, (first, second))


        class Record(NamedTuple):
            x: int
            y: list


        class Origin(Record):
            def __new__(cls, x):
                _made.append("Origin")
                return super().__new__(cls, x, [x])


        class Stack(list):
            count = 0

            def __new__(cls, *arguments):
                cls.count += 1
                return super().__new__(cls)


        class Table(dict):
            def __new__(cls, *arguments, **named):
                return _pool.setdefault("table", super().__new__(cls))


        class Bag(set):
            def __new__(cls, *arguments):
                return _pool.setdefault("bag", super().__new__(cls))


        class Wrong(Exception):
            count = 0

            def __new__(cls, *arguments):
                Wrong.count += 1
                return super().__new__(cls, *arguments)


        @dataclasses.dataclass(frozen=True)
        class Frozen:
            x: int

            def __new__(cls, *arguments, **named):
                _made.append("Frozen")
                return super().__new__(cls)


        class Colour(enum.Enum):
            RED = 1, "r"

            def __new__(cls, value, letter):
                made = object.__new__(cls)
                made._value_, made.letter = value, letter
                return made


        single = Single()
        single.d.append(1)
        multi, other = Multi("a"), Multi()
        pooled = Pooled("p", size=2)
        tree, oak = Tree(), Oak(100)
        slotted = Slotted([1])
        hashed = Hashed(1)
        hashed.own[hashed] = 2
        answers = Answers()
        answers.found = {"a": 1}
        stated, leaves = Stated(), Leaves()
        metres, number, word, pair = Metres(2, "m"), Number(), Word("a", "b"), Pair(1, [])
        pair[1].append(pair)
        origin, stack, table, bag = Origin(3), Stack(), Table(), Bag()
        stack.append(stack)
        table["a"] = bag
        bag.add(1)
        wrong, frozen, red = Wrong("a", 1), Frozen(4), Colour.RED
        made_before = tuple(_made)
        """,
        """
        assert tuple(_made) == made_before
        assert Single.inst is single and Single() is single and single.d == [1]
        assert Multi.pool == {"a": multi, "d": other} and Multi("a") is multi and Multi() is other
        assert _pool["p"] is pooled and (pooled.key, pooled.size) == ("p", 2)
        assert (Tree.count, Oak.count, Hashed.count, Answers.count, Stated.count) == (1, 2, 2, 2, 2), Tree.count
        assert oak.age == 100 and Slotted.count == 1 and slotted.a == [1]
        assert hashed.own[hashed] == 2 and answers.a == 1 and leaves.cache == "made by __new__"
        assert (metres, metres.unit, Metres.count) == (2000.0, "m", 1)
        assert number == (made_before.index("Number") + 1) * 10**20
        assert word == "ab" and pair[0] == 1 and pair[1][0] is pair and Pair.count == 1
        assert origin == (3, [3]) and origin.y == [3]
        assert stack[0] is stack and Stack.count == 1
        assert _pool["table"] is table and table["a"] is bag and _pool["bag"] is bag and bag == {1}
        assert wrong.args == ("a", 1) and Wrong.count == 1 and frozen.x == 4
        assert red is Colour.RED and red.letter == "r"
        """,
    ),
    Kind(
        "classes that count what is made while it is loaded",
        """
        class Called:
            count, last = 0, None

            def __init__(self, name):
                self.name = name
                Called.count += 1
                Called.last = name

            def __reduce__(self):
                return Called, (self.name,)


        class Stated:
            count = 0

            def __init__(self):
                self.a = [1]

            def __setstate__(self, state):
                Stated.count += 1
                self.__dict__.update(state)


        class Ordered(frozenset):
            count = 0

            def __new__(cls, *arguments):
                cls.count += 1
                return super().__new__(cls, *arguments)


        class Holder:
            held = [Called("h"), Stated()]


        called, stated, ordered = [Called("a"), Called("b")], Stated(), Ordered([1])
        """,
        """
        assert (Called.count, Called.last, Stated.count, Ordered.count) == (3, "b", 0, 1), Called.count
        assert [one.name for one in (*called, Holder.held[0])] == ["a", "b", "h"]
        assert stated.a == Holder.held[1].a == [1] and ordered == {1}
        """,
    ),
)
