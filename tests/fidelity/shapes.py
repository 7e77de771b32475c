"""Shapes of classes: what they derive from, what making an object runs, what is saved of it, and where an object stands.

Each shape is a cell. Its names end in the number of the shape, so that many go into one notebook.
"""

from __future__ import annotations

from textwrap import dedent, indent
from typing import NamedTuple


class Base(NamedTuple):
    """What the class derives from, and the arguments that make an object. `own_state`: it has no attributes of C's."""

    derives: str
    arguments: str = ""
    before: str = ""
    meta: str = "type"
    own_state: bool = True


_DATACLASS = (
    "@dataclasses.dataclass({})\nclass D#:\n    a: list = dataclasses.field(default_factory=list)\n    b: int = 3"
)

_BARE = "\ndel D#.__getstate__, D#.__setstate__"  # which save the fields alone, and no attributes beside

BASES = {
    "object": Base(""),
    "dict": Base("dict", "{'k': [1]}"),
    "list": Base("list", "[[1], 2]"),
    "tuple": Base("tuple", "([1], 2)"),
    "str": Base("str", "'text'"),
    "int": Base("int", "7"),
    "float": Base("float", "7.5"),
    "bytes": Base("bytes", "b'x'"),
    "set": Base("set", "[1, 2]"),
    "frozenset": Base("frozenset", "[1, 2]"),
    "bytearray": Base("bytearray", "b'abc'"),
    "OrderedDict": Base("collections.OrderedDict", "{'k': [1]}"),
    "defaultdict": Base("collections.defaultdict", "list, {'k': [1]}"),
    "deque": Base("collections.deque", "[[1], 2], 5"),
    "Counter": Base("collections.Counter", "'aab'", own_state=False),
    "UserDict": Base("collections.UserDict", "{'k': [1]}", meta="abc.ABCMeta"),
    "Exception": Base("Exception", "'m', [1]"),
    "OSError": Base("OSError", "2, 'm'"),
    "array": Base("array.array", "'i', [1, 2]", own_state=False),
    "date": Base("datetime.date", "2020, 1, 2", own_state=False),
    "Path": Base("pathlib.PurePosixPath", "'a/b'", own_state=False),
    "Fraction": Base("fractions.Fraction", "1, 3", meta="abc.ABCMeta", own_state=False),
    "Decimal": Base("decimal.Decimal", "'1.5'", own_state=False),
    "ndarray": Base("numpy.ndarray", "3", own_state=False),
    "partial": Base("functools.partial", "max, 1", own_state=False),
    "namedtuple": Base("N#", "[1], 2", "N# = collections.namedtuple('N#', 'a b')"),
    "NamedTuple": Base("N#", "[1]", "class N#(typing.NamedTuple):\n    a: list\n    b: int = 2"),
    "Generic": Base("typing.Generic[T]"),
    "Protocol": Base("P#", before="class P#(typing.Protocol):\n    def m(self): ...", meta="type(P#)"),
    "ABC": Base("abc.ABC", meta="abc.ABCMeta"),
    "SimpleNamespace": Base("types.SimpleNamespace"),
    "dataclass": Base("D#", "[1]", _DATACLASS.format("")),
    "frozen": Base("D#", "[1]", _DATACLASS.format("frozen=True")),
    "slots": Base("D#", "[1]", _DATACLASS.format("slots=True"), own_state=False),
    "frozen slots": Base("D#", "[1]", _DATACLASS.format("frozen=True, slots=True") + _BARE, own_state=False),
    "attrs": Base(
        "A#", "[1]", "@attrs.define(slots=False)\nclass A#:\n    a: list = attrs.Factory(list)", own_state=False
    ),
    "pydantic": Base(
        "B#", "", "class B#(pydantic.BaseModel, extra='allow'):\n    a: list = [1]", "type(B#)", own_state=False
    ),
}

_NEW = "def __new__(cls, *a, **k):\n"
MAKING = {  # what runs: in the class, and before it
    "nothing": ("", ""),
    "counts": (f"count = 0\n{_NEW}    cls.count += 1\n    return NEW", ""),
    "registers": (f"made = []\n{_NEW}    cls.made.append(NEW)\n    return cls.made[-1]", ""),
    "registers globally": (
        f"{_NEW}    LIST#.append(NEW)\n    TOTAL#[0] += 1\n    return LIST#[-1]",
        "LIST# = []\nTOTAL# = [0]",
    ),
    "pools": (f"pool = {{}}\n{_NEW}    return cls.pool.setdefault(repr(a), NEW)", ""),
    "pools globally": (f"{_NEW}    return POOL#.setdefault(repr(a), NEW)", "POOL# = {}"),
    "is the only one": (f"one = None\n{_NEW}    cls.one = cls.one or [NEW]\n    return cls.one[0]", ""),
    "is the only one, by hand": (
        f"{_NEW}    if not hasattr(cls, 'one'):\n        cls.one = NEW\n    return cls.one",
        "",
    ),
    "numbers": (
        f"ids = itertools.count(1)\n{_NEW}    made = NEW\n    object.__setattr__(made, 'id_', next(cls.ids))\n    return made",
        "",
    ),
    "keeps the last": (f"last = None\n{_NEW}    cls.last = NEW\n    return cls.last", ""),
    "registers by kind": (
        (
            "by = collections.defaultdict(list)\nn = {'all': [0]}\n"
            f"{_NEW}    made = NEW\n    cls.by[cls.__name__].append(made)\n    cls.n['all'][0] += 1\n    return made"
        ),
        "",
    ),
    "registers when it is ready": (
        (
            "made = []\nnumber = 0\ndef __init__(self, *a, **k):\n    INIT\n"
            "    type(self).made.append(self)\n    type(self).number += 1"
        ),
        "",
    ),
    "a metaclass registers": (
        "META",
        (
            "class M#(METABASE):\n    made = []\n    def __call__(cls, *a, **k):\n"
            "        cls.made.append(super().__call__(*a, **k))\n        return cls.made[-1]"
        ),
    ),
    "a metaclass keeps the only one": (
        "META",
        (
            "class M#(METABASE):\n    ones = {}\n    def __call__(cls, *a, **k):\n"
            "        if cls not in cls.ones:\n            cls.ones[cls] = super().__call__(*a, **k)\n        return cls.ones[cls]"
        ),
    ),
    "a metaclass registers classes": (
        "META",
        (
            "CLASSES# = {}\nclass M#(METABASE):\n    def __new__(m, n, b, d, **k):\n"
            "        CLASSES#[n] = super().__new__(m, n, b, d, **k)\n        return CLASSES#[n]"
        ),
    ),
    "registers subclasses": (
        (
            "subs = []\nnumber = 0\ndef __init_subclass__(cls, **k):\n    super().__init_subclass__(**k)\n"
            "    cls.subs.append(cls)\n    K#.number += 1"
        ),
        "",
    ),
    "has a descriptor that is told its name": (
        "d = Des#()",
        (
            "class Des#:\n    seen = []\n    def __set_name__(self, owner, name):\n        self.seen.append((owner, name))\n"
            "    def __get__(self, one, owner=None): return self"
        ),
    ),
}

_COPY = "dict(object.__getattribute__(self, '__dict__'))"
STATE = {
    "as it is": "",
    "slots beside": "__slots__ = ('s',)",
    "leaves out what it makes again": (
        f"def __getstate__(self):\n    d = {_COPY}\n    d.pop('cache', None)\n    return d\n"
        "def __setstate__(self, d):\n    self.__dict__.update(d)\n    self.__dict__['cache'] = []"
    ),
    "counts when it is loaded": (
        f"loads = 0\nloaded = []\ndef __getstate__(self):\n    return {_COPY}\n"
        "def __setstate__(self, d):\n    K#.loads += 1\n    K#.loaded.append(self)\n    self.__dict__.update(d)"
    ),
    "counts when it is saved": f"saves = 0\ndef __getstate__(self):\n    K#.saves += 1\n    return {_COPY}",
    "is made by a call": f"def __reduce__(self):\n    return type(self), (ARGUMENTS), {_COPY}",
    "is made by a call, by protocol": f"def __reduce_ex__(self, p):\n    return type(self), (ARGUMENTS), {_COPY}",
    "as its base says": "def __reduce__(self):\n    return super().__reduce__()",
    "as its base says, by protocol": "def __reduce_ex__(self, p):\n    return super().__reduce_ex__(p)",
    "says its arguments": "def __getnewargs__(self):\n    return (ARGUMENTS)",
    "says its arguments by name": "def __getnewargs_ex__(self):\n    return (ARGUMENTS), {}",
    "copyreg": "",
}
_SAYS_STATE = {name for name in STATE if name.startswith(("leaves", "counts", "is made", "as its base", "copyreg"))}

PLACES = {
    "two names": "b# = a#",
    "its own class": "K#.zero = a#\nK#.many = [a#]",
    "another class": "class H#:\n    one = a#\n    many = {'x': [a#]}",
    "a default": "def f#(x=a#, *, y=[a#]): return x, y",
    "a closure": "def outer#(v):\n    def inner(): return v\n    return inner\nf# = outer#(a#)",
    "an annotation": "def f#(x: a#) -> [a#]: ...\nclass H#:\n    x: a#",
    "an enum": "class E#(enum.Enum):\n    A = (1, a#)\n    B = (2, a#)",
    "an attribute": "class H#: pass\nh# = H#()\nh#.a = a#\nh#.b = [a#]",
    "itself": "a#.__dict__['me'] = a#\na#.__dict__['list'] = [a#]",
    "others of its class": "many# = [a#, K#(ARGS), K#(ARGS)]",
    "a method": "m# = a#.__repr__\nhold# = [a#]",
    "a property": "class H#:\n    p = property(lambda self, v=a#: v)\n    c = classmethod(lambda cls, v=a#: v)",
    "a partial function": "p# = functools.partial(max, a#)",
}

IMPORTS = (
    "import abc, array, attrs, collections, copyreg, dataclasses, datetime, decimal, enum, fractions, functools\n"
    "import itertools, numpy, pathlib, pydantic, types, typing\nT = typing.TypeVar('T')\n"
)
_WITHOUT_INIT = frozenset(
    (
        *("tuple", "str", "int", "float", "bytes", "frozenset", "array", "date", "Path", "Fraction", "Decimal"),
        *("ndarray", "partial", "namedtuple", "NamedTuple"),
    )
)
_WITHOUT_ARGUMENTS = frozenset({"object", "Generic", "Protocol", "ABC", "SimpleNamespace", "UserDict", "pydantic"})


class Shape(NamedTuple):
    base: str
    making: str
    state: str
    place: str

    def is_sound(self) -> bool:
        """Whether the class's own code saves all of its object; what C keeps is in no attribute dict."""
        base = BASES[self.base]
        if self.state in _SAYS_STATE and not base.own_state:
            return False
        if self.base == "pydantic" and MAKING[self.making][0] not in ("", "META"):
            return False  # it takes what a class holds for fields
        if self.state == "slots beside" and self.base in ("tuple", "int", "bytes", "namedtuple", "NamedTuple"):
            return False  # not possible
        if self.state == "slots beside" and (self.making == "numbers" or self.place == "itself"):
            return False  # some have no attributes beside
        if (self.base in ("partial", "ndarray", "SimpleNamespace") and self.state == "slots beside") or (
            self.base,
            self.place,
        ) == (
            "ndarray",
            "itself",
        ):
            return False
        if self.base == "defaultdict" and self.state.startswith("as its base"):
            return False
        if self.place == "others of its class" and self.state.startswith("leaves out"):
            return False  # they have nothing to leave out
        return not (self.base in ("date", "Path", "Decimal", "ndarray") and self.place == "a method")

    def cell(self, number: int) -> str:
        base = BASES[self.base]
        body, before = MAKING[self.making]
        plain = self.base in _WITHOUT_ARGUMENTS or base.before.startswith(("@", "class B"))
        body = body.replace("NEW", "super().__new__(cls)" if plain else "super().__new__(cls, *a, **k)")
        body = body.replace("INIT", "pass" if self.base in _WITHOUT_INIT else "super().__init__(*a, **k)")
        arguments = f"({base.arguments},)" if base.arguments else "()"
        meta, body = (", metaclass=M#", "") if body == "META" else ("", body)
        said = STATE[self.state].replace("(ARGUMENTS)", arguments)
        inner = "\n".join(filter(None, (body, said))) or "pass"
        after = "class Sub#(K#): pass\nclass Other#(K#): pass" if self.making == "registers subclasses" else ""
        if self.state == "copyreg":
            after += f"\ncopyreg.pickle(K#, lambda one: (K#, {arguments}, dict(one.__dict__)))"
        parts = [
            base.before,
            before.replace("METABASE", base.meta),
            f"class K#({base.derives}{meta}):\n{indent(inner, '    ')}".replace("(, ", "("),
            after,
            f"a# = K#({base.arguments})",
            "if hasattr(a#, '__dict__'): a#.__dict__['tag'] = [1]",
            "if hasattr(K#, 's'): object.__setattr__(a#, 's', getattr(a#, 'tag', [5]))",
            "a#.__dict__['cache'] = []" if "cache" in said else "",
            PLACES[self.place].replace("ARGS", base.arguments),
        ]
        return dedent("\n".join(filter(None, parts))).replace("#", str(number))


def shapes(count: int, first: int = 0) -> list[Shape]:
    """As many sound shapes: each base, way of making, state and place with ever other ones."""
    tables = [list(table) for table in (BASES, MAKING, STATE, PLACES)]  # of 37, 17, 12 and 13: no common factor
    found: list[Shape] = []
    number = first
    while len(found) < count:
        shape = Shape(*(table[number % len(table)] for table in tables))
        found += [shape] if shape.is_sound() else []
        number += 1
    return found
