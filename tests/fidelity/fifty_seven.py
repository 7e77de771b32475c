"""The 57 objects that broke earlier designs, in one notebook that grows cell by cell.

Some use names of earlier cells. What the measurements in the design named as failing is among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent


@dataclass(frozen=True)
class Made:
    """A cell, and an expression that is true of what it made."""

    title: str
    cell: str
    holds: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "cell", dedent(self.cell).strip() + "\n")


OBJECTS = (
    Made(
        "dataclass",
        """
        from dataclasses import dataclass, field
        @dataclass(order=True)
        class D:
            a: int = 1
            l: list = field(default_factory=list)
        d = D(2)
        """,
        "d == D(2) and type(d) is D and D(3).l == []",
    ),
    Made(
        "frozen dataclass with slots",
        """
        @dataclass(frozen=True, slots=True)
        class FS:
            a: int = 1
        fs = FS(4)
        """,
        "fs == FS(4) and fs.a == 4",
    ),
    Made(
        "enum",
        """
        import enum
        class Col(enum.Enum):
            R = 1
            G = 2
            def low(self):
                return self.name.lower()
        col = Col.G
        """,
        "col is Col.G and Col(1) is Col.R and col.low() == 'g'",
    ),
    Made(
        "int flag",
        """
        class Fl(enum.IntFlag):
            A = 1
            B = 2
        fl = Fl.A | Fl.B
        """,
        "fl == 3 and Fl.A in fl",
    ),
    Made(
        "namedtuple",
        """
        import collections
        Pt = collections.namedtuple("Pt", "x y")
        pt = Pt(1, 2)
        """,
        "pt.x == 1 and type(pt) is Pt",
    ),
    Made(
        "typing.NamedTuple",
        """
        import typing
        class NT(typing.NamedTuple):
            x: int
            y: int = 5
        nt = NT(1)
        """,
        "nt.y == 5 and type(nt) is NT",
    ),
    Made(
        "super() and inheritance",
        """
        class A0:
            def hi(self):
                return "A"
        class B0(A0):
            def hi(self):
                return super().hi() + "B"
        b0 = B0()
        """,
        "b0.hi() == 'AB' and isinstance(b0, A0) and B0.__bases__[0] is A0",
    ),
    Made(
        "abstract base class",
        """
        import abc
        class Sh(abc.ABC):
            @abc.abstractmethod
            def area(self): ...
        class Sq(Sh):
            def area(self):
                return 4
        sq = Sq()
        """,
        "sq.area() == 4 and isinstance(sq, Sh)",
    ),
    Made(
        "slots",
        """
        class Sl:
            __slots__ = ("a", "b")
            def __init__(s):
                s.a = 1
        sl = Sl()
        """,
        "sl.a == 1 and not hasattr(sl, 'b')",
    ),
    Made(
        "property, static and class method",
        """
        class Pr:
            n = 0
            @property
            def p(self):
                return 7
            @staticmethod
            def s():
                return 8
            @classmethod
            def c(cls):
                cls.n += 1
                return cls.n
        pr = Pr()
        """,
        "pr.p == 7 and Pr.s() == 8 and pr.c() == 1",
    ),
    Made(
        "nested class",
        """
        class Out1:
            class In1:
                v = 3
        oi = Out1.In1()
        """,
        "oi.v == 3 and type(oi) is Out1.In1",
    ),
    Made(
        "class made in a function",
        """
        def mkc():
            class L:
                def g(self):
                    return 5
            return L
        lc = mkc()()
        """,
        "lc.g() == 5",
    ),
    Made(
        "recursive function",
        """
        def fact(n):
            return 1 if n < 2 else n * fact(n - 1)
        """,
        "fact(5) == 120",
    ),
    Made(
        "recursive closure",
        """
        def mkfib():
            def fib(n):
                return n if n < 2 else fib(n - 1) + fib(n - 2)
            return fib
        fib = mkfib()
        """,
        "fib(10) == 55",
    ),
    Made(
        "two functions share a cell",
        """
        def mk2():
            n = 0
            def inc():
                nonlocal n
                n += 1
            def get():
                return n
            return inc, get
        inc2, get2 = mk2()
        inc2()
        """,
        "(inc2(), get2())[1] == 2",
    ),
    Made(
        "decorated with wraps",
        """
        import functools
        def deco(f):
            @functools.wraps(f)
            def w(*a):
                return f(*a) + 1
            return w
        @deco
        def five():
            return 5
        """,
        "five() == 6 and five.__wrapped__() == 5",
    ),
    Made(
        "lru_cache",
        """
        @functools.lru_cache(None)
        def lc2(n):
            return n * 2
        lc2(4)
        """,
        "lc2(4) == 8 and lc2.cache_parameters()['maxsize'] is None",
    ),
    Made(
        "singledispatch",
        """
        @functools.singledispatch
        def sd(x):
            return "o"
        @sd.register
        def _(x: int):
            return "i"
        """,
        "sd(1) == 'i' and sd('') == 'o'",
    ),
    Made(
        "keyword defaults and annotations",
        """
        def kw(a: int, *, b=[2]) -> str:
            return (a, b)
        """,
        "kw(1) == (1, [2]) and kw.__annotations__['return'] is str",
    ),
    Made(
        "async def",
        """
        import asyncio
        async def co1():
            return 9
        """,
        "asyncio.run(co1()) == 9",
    ),
    Made(
        "generator function",
        """
        def gf():
            yield 1
        """,
        "list(gf()) == [1]",
    ),
    Made(
        "bound methods",
        """
        bm = d.__eq__
        bm2 = b0.hi
        """,
        "bm2() == 'AB' and bm2.__self__ is b0 and bm.__self__ is d",
    ),
    Made(
        "function attribute",
        """
        def fa():
            return fa.n
        fa.n = 4
        """,
        "fa() == 4",
    ),
    Made(
        "instance in an attribute of its own class",
        """
        class Reg:
            items = []
            def __init__(s):
                Reg.items.append(s)
        r1 = Reg()
        """,
        "Reg.items[0] is r1",
    ),
    Made(
        "exception with a keyword",
        """
        class MyE(Exception):
            def __init__(s, a, b=0):
                super().__init__(a)
                s.b = b
        e1 = MyE("x", b=3)
        """,
        "e1.b == 3 and e1.args == ('x',) and type(e1) is MyE",
    ),
    Made(
        "view with a negative stride",
        """
        import numpy as np
        na = np.arange(6)
        nr = na[::-1]
        """,
        "np.shares_memory(na, nr) and nr[0] == 5",
    ),
    Made(
        "read-only broadcast",
        "bc = np.broadcast_to(np.arange(3), (4, 3))",
        "bc.shape == (4, 3) and not bc.flags.writeable",
    ),
    Made(
        "view of a base without a name",
        "vb = np.arange(1000)[10:20]",
        "vb.sum() == 145 and vb.flags.writeable",
    ),
    Made(
        "two views of a dropped base",
        """
        _tmp = np.arange(1000)
        va = _tmp[10:20]
        vc = _tmp[15:30]
        del _tmp
        """,
        "np.shares_memory(va, vc) and va[5] == vc[0]",
    ),
    Made(
        "transposed, by column",
        """
        nt2 = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        ntT = nt2.T
        """,
        "np.shares_memory(nt2, ntT) and nt2.flags.f_contiguous",
    ),
    Made(
        "field of a structured array",
        """
        sa = np.zeros(3, dtype=[("a", "i4"), ("b", "f8")])
        sb = sa["b"]
        """,
        "np.shares_memory(sa, sb)",
    ),
    Made(
        "view of an object array",
        """
        oa = np.array([[1], [2]], dtype=object)
        ov = oa[:1]
        """,
        "np.shares_memory(oa, ov)",
    ),
    Made(
        "array under a name and in a list",
        "al = [na, na[1:3]]",
        "al[0] is na and np.shares_memory(al[1], na)",
    ),
    Made(
        "array over a bytearray",
        """
        ba = bytearray(16)
        fb = np.frombuffer(ba, "u1")
        """,
        "(ba.__setitem__(0, 7), fb[0])[1] == 7",
    ),
    Made(
        "series of a frame",
        """
        import pandas as pd
        pf = pd.DataFrame({"a": [1.0, 2.0]})
        ps = pf["a"]
        """,
        "list(ps) == [1, 2]",
    ),
    Made(
        "data of a masked array",
        """
        mx = np.ma.array([1, 2], mask=[0, 1])
        mv = mx.data
        """,
        "np.shares_memory(mx.data, mv)",
    ),
    Made(
        "weak reference",
        """
        import weakref
        class W1:
            pass
        w1 = W1()
        wr = weakref.ref(w1)
        """,
        "wr() is w1",
    ),
    Made(
        "weak value dictionary",
        'wv = weakref.WeakValueDictionary({"k": w1})',
        "wv['k'] is w1",
    ),
    Made(
        "defaultdict with a lambda",
        "dd = collections.defaultdict(lambda: 5)",
        "dd['q'] == 5",
    ),
    Made(
        "set of instances",
        "ss = {d0 for d0 in [FS(1), FS(2)]}",
        "FS(1) in ss",
    ),
    Made(
        "dict keyed by an instance with identity hash",
        """
        class K1:
            pass
        k1 = K1()
        kd = {k1: 1}
        """,
        "kd[k1] == 1",
    ),
    Made(
        "metaclass",
        """
        class Mt(type):
            def __new__(m, n, b, d):
                d["tag"] = n.lower()
                return super().__new__(m, n, b, d)
        class UsesM(metaclass=Mt):
            pass
        um = UsesM()
        """,
        "um.tag == 'usesm' and type(UsesM) is Mt",
    ),
    Made(
        "__init_subclass__ with a registry",
        """
        class Base1:
            subs = []
            def __init_subclass__(cls, **k):
                super().__init_subclass__(**k)
                Base1.subs.append(cls.__name__)
        class Sub1(Base1):
            pass
        s1 = Sub1()
        """,
        "Base1.subs == ['Sub1'] and isinstance(s1, Base1)",
    ),
    Made(
        "generic class",
        """
        T = typing.TypeVar("T")
        class G1(typing.Generic[T]):
            pass
        g1 = G1[int]()
        """,
        "isinstance(g1, G1)",
    ),
    Made(
        "typed dict",
        """
        class TD(typing.TypedDict):
            a: int
        td: TD = {"a": 1}
        """,
        "td['a'] == 1",
    ),
    Made(
        "descriptor with __set_name__",
        """
        class De:
            def __set_name__(s, o, n):
                s.n = n
            def __get__(s, i, o):
                return s.n
        class UD:
            q = De()
        ud = UD()
        """,
        "ud.q == 'q'",
    ),
    Made(
        "cached_property",
        """
        class CP:
            @functools.cached_property
            def v(self):
                return 3
        cp = CP()
        cp.v
        """,
        "cp.v == 3",
    ),
    Made(
        "global counter written by a method",
        """
        cnt = 0
        class Ct:
            def go(self):
                global cnt
                cnt += 1
        ct = Ct()
        ct.go()
        """,
        "cnt == 1",
    ),
    Made(
        "__getstate__ that leaves a file out",
        """
        class GS:
            def __init__(s):
                with open("/dev/null") as s.f:
                    s.v = 1
            def __getstate__(s):
                return {"v": s.v}
            def __setstate__(s, d):
                s.v = d["v"]
                s.f = None
        gs = GS()
        """,
        "gs.v == 1",
    ),
    Made(
        "inspect.getsource",
        """
        def srcf():
            return "find me"
        """,
        "'find me' in __import__('inspect').getsource(srcf)",
    ),
    Made(
        "lambda in a dict",
        'ld = {"f": lambda x: x + cnt}',
        "ld['f'](1) == 1 + cnt",
    ),
    Made(
        "ufunc of a Python function",
        "uf = np.frompyfunc(lambda a: a + 1, 1, 1)",
        "uf(1) == 2",
    ),
    Made(
        "module alias",
        "import os.path as osp",
        "osp.join('a', 'b') == 'a/b'",
    ),
    Made(
        "iterator half-way",
        """
        it3 = iter([1, 2, 3])
        next(it3)
        """,
        "next(it3) == 2",
    ),
    Made(
        "array.array",
        """
        import array
        ar = array.array("i", [1, 2])
        """,
        "ar[1] == 2",
    ),
    Made(
        "re.Match",
        """
        import re
        mt = re.match("a", "abc")
        """,
        "mt.group() == 'a'",
    ),
    Made(
        "memoryview",
        'mvw = memoryview(bytearray(b"abc"))',
        "bytes(mvw) == b'abc'",
    ),
)
