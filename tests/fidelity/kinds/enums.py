"""Enums and flags, with everything that their bodies may say."""

from tests.fidelity.kinds.kind import Kind

ENUMS = (
    Kind(
        "enums with everything",
        """
        import enum
        from types import DynamicClassAttribute


        class Level(enum.Enum):
            _ignore_ = ["tmp"]
            tmp = 1
            LOW = 1
            HIGH = 2
            TOP = 2
            secret = enum.nonmember([9])

            @enum.member
            def CALL():
                return 5

            @classmethod
            def _missing_(cls, value):
                return cls.LOW if value == "low" else None

            @enum.property
            def label(self):
                return self.name.lower()

            @DynamicClassAttribute
            def other(self):
                return self.name.upper()

            @property
            def third(self):
                return 3


        class Auto(enum.Enum):
            @staticmethod
            def _generate_next_value_(name, start, count, last):
                return name.lower()

            A = enum.auto()
            B = enum.auto()


        class Planet(enum.Enum):
            EARTH = (1, [2])
            MARS = (3, [4])

            def __init__(self, mass, radius):
                self.mass = mass
                self.radius = radius


        class Coord(bytes, enum.Enum):
            def __new__(cls, value, label):
                obj = bytes.__new__(cls, [value])
                obj._value_ = value
                obj.label = label
                return obj

            PX = (1, "P.X")
            PY = (2, "P.Y")


        class Weekday(enum.IntEnum):
            MON = 1
            TUE = 2

            @classmethod
            def _missing_(cls, v):
                return cls.MON


        class Str(enum.StrEnum):
            A = enum.auto()
            B = "bee"


        class Mut(enum.Enum):
            L = [1, 2]
            D = {"a": [1]}


        l = [7]


        class Shares(enum.Enum):
            X = l


        level = Level.HIGH
        aut = Auto.A
        earth = Planet.EARTH
        px = Coord.PX
        table = {Level.LOW: 1, Weekday.MON: 2}
        """,
        """
        assert Level("low") is Level.LOW
        assert Level.TOP is Level.HIGH is level
        assert Level.secret == [9]
        assert Level.CALL.value() == 5
        assert level.label == "high"
        assert level.other == "HIGH"
        assert level.third == 3
        assert list(Level.__members__) == ["LOW", "HIGH", "TOP", "CALL"]
        assert not hasattr(Level, "tmp")
        assert [m.name for m in Level] == ["LOW", "HIGH", "CALL"]
        assert Auto.A.value == "a" is not None
        assert aut is Auto.A
        assert Auto("b") is Auto.B
        assert earth.mass == 1
        assert earth.radius is earth.value[1]
        assert Planet((3, [4])) is Planet.MARS
        assert px == b"\\x01"
        assert px.value == 1
        assert px.label == "P.X"
        assert Coord(2) is Coord.PY
        assert Weekday(99) is Weekday.MON
        assert Weekday.TUE + 1 == 3
        assert Str.A == "a"
        assert Str("bee") is Str.B
        assert Mut([1, 2]) is Mut.L
        assert Mut.D.value["a"] == [1]
        assert Shares.X.value is l
        assert table[Level.LOW] == 1
        assert table[Weekday.MON] == 2
        assert Level._generate_next_value_ is not None
        assert repr(level) == "<Level.HIGH: 2>"


        class Auto2(enum.Enum):
            _generate_next_value_ = vars(Auto)["_generate_next_value_"]
            Q = enum.auto()


        assert Auto2.Q.value == "q"
        try:
            Level(77)
        except ValueError:
            pass
        else:
            raise AssertionError
        try:
            Level.LOW = 3
        except AttributeError:
            pass
        else:
            raise AssertionError
        """,
    ),
    Kind(
        "flags",
        """
        import enum


        class Perm(enum.Flag):
            R = enum.auto()
            W = enum.auto()
            X = enum.auto()
            RW = R | W


        class Keep(enum.IntFlag, boundary=enum.KEEP):
            A = 1
            B = 4


        class Eject(enum.Flag, boundary=enum.EJECT):
            A = 1
            B = 2


        class Conform(enum.Flag, boundary=enum.CONFORM):
            A = 1
            B = 4


        class Strict(enum.Flag, boundary=enum.STRICT):
            A = 1
            B = 2


        class FKeep(enum.Flag, boundary=enum.KEEP):
            A = 1
            B = 8

            def shout(self):
                return "!" + str(self.value)

            @classmethod
            def _missing_(cls, value):
                return super()._missing_(value)


        rw = Perm.R | Perm.W
        k = Keep(19)
        none = Perm(0)
        fk = FKeep(30)
        both = Perm.R | Perm.X
        inv = ~Perm.R
        d = {both: 1, k: 2}
        """,
        """
        assert rw is Perm.RW
        assert k == 19
        assert type(k) is Keep
        assert none is Perm(0)
        assert fk.value == 30
        assert type(fk) is FKeep
        assert fk is FKeep(30)
        assert fk.shout() == "!30"
        assert both is (Perm.R | Perm.X)
        assert inv is ~Perm.R
        assert Perm.X in both
        assert d[Perm.R | Perm.X] == 1
        assert d[Keep(19)] == 2
        assert Keep._boundary_ is enum.KEEP
        assert Eject._boundary_ is enum.EJECT
        assert Conform._boundary_ is enum.CONFORM
        assert Strict._boundary_ is enum.STRICT
        assert Eject(9) == 9
        assert type(Eject(9)) is int
        assert Conform(3) is Conform.A
        assert Keep(64) == 64
        try:
            Strict(9)
        except ValueError:
            pass
        else:
            raise AssertionError
        assert list(both) == [Perm.R, Perm.X]
        assert len(Perm) == 3
        assert "A" in repr(Keep(5))
        """,
    ),
)
