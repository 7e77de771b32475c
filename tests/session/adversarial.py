"""88 ways to change a value that a look at the cell's words alone would miss, or almost."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from textwrap import dedent


class Found(Enum):
    """When the change must be in a commit's report."""

    IN_THE_CELL = "in the same cell"
    NEVER = "not a change that is versioned"


@dataclass(frozen=True)
class Case:
    """`look` evaluates to what the change changes; the change is reported under every one of `names`."""

    title: str
    setup: tuple[str, ...]
    cell: str
    names: tuple[str, ...] = ("x",)
    look: str = "x"
    found: Found = Found.IN_THE_CELL
    shell: bool = field(default=False, kw_only=True)
    raises: type[BaseException] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "setup", tuple(map(_tidy, self.setup)))
        object.__setattr__(self, "cell", _tidy(self.cell))


def _tidy(source: str) -> str:
    return dedent(source).strip() + "\n"


HELPER_MODULE = """
STATE = []
REG = {}

def poke(*args):
    STATE.append(1)

def register(o):
    REG["o"] = o

def fire():
    REG["o"].append(7)
"""

COMPUTED_NAMES = (
    Case("eval of a computed name", ("x = []",), "n = 'x'\neval('x'.strip()).append(1)"),
    Case("eval of a name built from pieces", ("xx = []",), "eval(chr(120) * 2).append(1)", ("xx",), "xx"),
    Case("exec of a string in a variable", ("x = []", "code = 'x' + '.append(1)'"), "exec(code)"),
    Case("globals()['x']", ("x = []",), "globals()[chr(120)].append(1)"),
    Case(
        "eval under another name",
        ("x = []", "e = eval\nc = 'x' + '.append(2)'"),
        "e(c)",
    ),
    Case(
        "an earlier function that uses globals()",
        ("x = []", "def poke(n):\n    globals()[n].append(1)"),
        "poke(chr(120))",
    ),
    Case(
        "an earlier function that uses eval",
        ("x = []", "def ev(c):\n    return eval(c)"),
        "ev('xx'[:1] + '.append(1)')",
    ),
    Case(
        "an attribute of sys.modules['__main__']",
        ("x = []\nimport sys",),
        "getattr(sys.modules['__main__'], chr(120)).append(1)",
    ),
    Case(
        "setattr on an imported __main__",
        ("x = []", "import __main__ as m"),
        "setattr(m, chr(120), [5])",
    ),
)

LIBRARIES_AND_THREADS = (
    Case(
        "an object registered with a library",
        ("import helper_mod", "x = []\nhelper_mod.register(x)"),
        "helper_mod.fire()",
    ),
    Case(
        "a callback of IPython's events",
        ("x = []\ndef cb(*a):\n    x.append(1)\nget_ipython().events.register('pre_run_cell', cb)",),
        "y = 1",
        shell=True,
    ),
    Case(
        "a thread that was started earlier",
        (
            "import threading, time\nx = []",
            """
            def work():
                time.sleep(0.15)
                x.append(1)
            th = threading.Thread(target=work)
            th.start()
            """,
        ),
        "y = 2\nimport time\ntime.sleep(0.4)",
    ),
    Case(
        "a thread that the cell starts and joins",
        (
            "import threading, time\nx = []",
            """
            def work():
                time.sleep(0.05)
                x.append(1)
            th = threading.Thread(target=work)
            """,
        ),
        "th.start()\nth.join()",
    ),
    Case(
        "a coroutine made earlier, awaited at the top level",
        ("import asyncio\nx = []", "async def w():\n    x.append(1)\nco = w()"),
        "await co",
        shell=True,
    ),
    Case(
        "a monkey-patched function of a module",
        ("import math, helper_mod\nx = []", "def mysqrt(v):\n    x.append(v)\nhelper_mod.poke = mysqrt"),
        "helper_mod.poke(1)",
    ),
    Case(
        "a logging handler that the library holds",
        (
            """
            import logging
            x = []
            class H(logging.Handler):
                def emit(self, r):
                    x.append(1)
            logging.getLogger('q').addHandler(H())
            """,
        ),
        "import logging as L2\nL2.getLogger('q').warning('a')",
    ),
    Case(
        "a finalizer",
        (
            """
            import weakref
            x = []
            class K:
                pass
            k = K()
            fin = weakref.finalize(k, x.append, 1)
            """,
        ),
        "del k",
    ),
    Case(
        "a context variable",
        ("import contextvars\ncv = contextvars.ContextVar('cv', default=None)\nx = []\n_t = cv.set(x)",),
        "cv.get().append(1)",
    ),
    Case(
        "a timer",
        ("import threading\nx = []\nt = threading.Timer(1.5, x.append, (1,))\nt.start()",),
        # Named by nothing; a machine with much to do may take a second to look at the cell that starts it.
        "import threading as th\n[one.join(2) for one in th.enumerate() if isinstance(one, th.Timer)]",
    ),
    Case(
        "threads of joblib",
        ("from joblib import Parallel, delayed\nx = []\ndef jf(i):\n    x.append(i)",),
        "Parallel(2, backend='threading')(delayed(jf)(i) for i in range(2))",
        look="sorted(x)",
    ),
    Case(
        "state inside an imported module",
        ("import helper_mod",),
        "helper_mod.poke()",
        ("helper_mod",),
        "len(helper_mod.STATE) > 0",
    ),
)

FUNCTIONS_AND_GENERATORS = (
    Case("an iterator over a list", ("x = [1, 2]", "it = iter(x)"), "next(it)", ("it",), "it.__length_hint__()"),
    Case(
        "a generator that changes a global",
        ("x = []", "def g():\n    while 1:\n        x.append(1)\n        yield\nit = g()"),
        "next(it)",
    ),
    Case(
        "a generator that changes what it was given",
        ("x = []", "def g(l):\n    while 1:\n        l.append(1)\n        yield\nit = g(x)"),
        "next(it)",
    ),
    Case(
        "a closure over a list",
        ("def mk():\n    x = []\n    def add():\n        x.append(1)\n    return add\nadd = mk()",),
        "add()",
        ("add",),
        "add.__closure__[0].cell_contents",
    ),
    Case(
        "two closures that share a cell",
        (
            """
            def mk():
                n = 0
                def inc():
                    nonlocal n
                    n += 1
                def get():
                    return n
                return inc, get
            inc, get = mk()
            """,
        ),
        "inc()",
        ("inc", "get"),
        "get()",
    ),
    Case("functools.partial", ("import functools\nx = []", "p = functools.partial(x.append, 1)"), "p()"),
    Case(
        "methodcaller on an element",
        ("import operator\nx = []\nholder = {'k': x}", "mc = operator.methodcaller('append', 3)"),
        "mc(holder['k'])",
        ("x", "holder"),
        "(x, holder)",
    ),
    Case("a bound method in a dict", ("x = []", "l = {'f': x.append}"), "l['f'](1)", ("x", "l")),
    Case("a bound method under a name", ("x = []", "ap = x.append"), "ap(1)"),
    Case(
        "a decorator with a registry",
        ("reg = []", "def deco(f):\n    reg.append(f.__name__)\n    return f"),
        "@deco\ndef h():\n    pass",
        ("reg",),
        "reg",
    ),
    Case(
        "a decorated function whose wrapper keeps a dict",
        (
            """
            def memo(f):
                cache = {}
                def w(n):
                    cache[n] = f(n)
                    return cache[n]
                return w
            """,
            "@memo\ndef sq(n):\n    return n * n",
        ),
        "sq(3)",
        ("sq",),
        "[c.cell_contents for c in sq.__closure__ if type(c.cell_contents) is dict]",
    ),
    Case(
        "a cache of functools",
        ("import functools", "@functools.lru_cache\ndef sq(n):\n    return n * n"),
        "sq(3)",
        ("sq",),
        "sq.__wrapped__(3)",
        found=Found.NEVER,
    ),
    Case("a mutable default", ("def f(a, l=[]):\n    l.append(a)",), "f(1)", ("f",), "f.__defaults__"),
    Case("an attribute of a function", ("def f():\n    f.n = getattr(f, 'n', 0) + 1",), "f()", ("f",), "vars(f)"),
    Case("a function defined and called in the cell", ("x = []",), "def q():\n    x.append(1)\nq()"),
    Case("a call inside an f-string", ("x = []\ndef s():\n    x.append(1)\n    return ''",), "f'{s()}'"),
    Case(
        "callbacks in containers of the library",
        (
            """
            import tempfile, collections
            x = []
            dq = collections.deque()
            cbs = collections.defaultdict(list)
            cbs['a'].append(x.append)
            """,
        ),
        "[c(1) for c in cbs['a']]",
    ),
)

CLASSES = (
    Case(
        "a class attribute through an instance",
        ("class C:\n    reg = []\n    def add(self):\n        C.reg.append(1)\nc = C()",),
        "c.add()",
        ("C",),
        "C.reg",
    ),
    Case(
        "a class attribute through type()",
        ("class C:\n    n = 0\nc = C()",),
        "type(c).n += 1",
        ("C",),
        "(C.n, c.n)",
    ),
    Case(
        "a property with a side effect",
        ("x = []", "class C:\n    @property\n    def p(self):\n        x.append(1)\nc = C()"),
        "c.p",
    ),
    Case(
        "__getattr__",
        ("x = []", "class C:\n    def __getattr__(self, k):\n        x.append(k)\nc = C()"),
        "c.anything",
    ),
    Case("__del__", ("x = []", "class C:\n    def __del__(self):\n        x.append(1)\nc = C()"), "del c"),
    Case(
        "__lt__, called by sorted",
        ("x = []", "class C:\n    def __lt__(self, o):\n        x.append(1)\n        return False\nl = [C(), C()]"),
        "sorted(l)",
    ),
    Case(
        "a method found by a computed name",
        (
            "import pandas as pd\nx = []",
            "class M(dict):\n    def poke(self):\n        x.append(1)\nm = M()",
        ),
        "getattr(m, 'po' + 'ke')()",
    ),
    Case(
        "__missing__ of a dict",
        ("x = []\nclass D(dict):\n    def __missing__(self, k):\n        x.append(k)\n        return 0\nd = D()",),
        "d['q']",
    ),
    Case(
        "an observer that an object holds",
        (
            """
            x = []
            class W:
                def __init__(s):
                    s.cbs = []
                def set(s, v):
                    for c in s.cbs:
                        c(v)
            w = W()
            w.cbs.append(lambda v: x.append(v))
            """,
        ),
        "w.set(1)",
    ),
    Case(
        "a method that calls a function that calls a function",
        (
            """
            x = []
            def inner():
                x.append(1)
            def outer():
                inner()
            class C:
                def m(self):
                    outer()
            c = C()
            """,
        ),
        "c.m()",
    ),
    Case(
        "a function in a list of a class",
        ("x = []\nclass C:\n    hooks = [lambda: x.append(1)]\nc = C()",),
        "[h() for h in c.hooks]",
    ),
    Case(
        "a class method",
        ("x = []\nclass C:\n    @classmethod\n    def k(cls):\n        x.append(1)",),
        "C.k()",
    ),
    Case(
        "__call__ of a metaclass",
        (
            """
            x = []
            class M(type):
                def __call__(cls, *a):
                    x.append(1)
                    return super().__call__(*a)
            class C(metaclass=M):
                pass
            """,
        ),
        "c = C()",
        ("x", "c"),
    ),
)

FRAMES_AND_ARRAYS = (
    Case(
        "a transformer of scikit-learn that calls a function of the notebook",
        (
            """
            from sklearn.preprocessing import FunctionTransformer
            import numpy as np
            x = []
            """,
            "def tr(a):\n    x.append(1)\n    return a\nft = FunctionTransformer(tr)",
        ),
        "ft.transform(np.ones((2, 2)))",
    ),
    Case(
        "a view of an array with another name",
        ("import numpy as np\nx = np.zeros(5)", "v = x[1:3]"),
        "v[0] = 9",
        ("x", "v"),
        "(x.tolist(), v.tolist())",
    ),
    Case(
        "out= into an alias",
        ("import numpy as np\nx = np.zeros(5)\nd = {'k': x}",),
        "np.add(d['k'], 1, out=d['k'])",
        ("x", "d"),
        "(x.tolist(), d['k'].tolist())",
    ),
    Case(
        "a variable inside a query of pandas",
        ("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\nx = 1",),
        "df2 = df.query('a>@x')",
        ("df2",),
        "'df2' in globals() and df2.to_dict()",
    ),
    Case(
        "eval in place",
        ("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})",),
        "df.eval('b=a*2', inplace=True)",
        ("df",),
        "df.to_dict()",
    ),
    Case(
        "apply with a function of the notebook",
        ("import pandas as pd\nx = []\ndf = pd.DataFrame({'a': [1, 2]})", "def fn(v):\n    x.append(v)"),
        "df.a.apply(fn)",
    ),
    Case(
        "a frame that DuckDB finds by a computed name",
        ("import duckdb, pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\nq = 'select * from d' + 'f'",),
        "r = duckdb.sql(q).df()",
        ("r",),
        "'r' in globals() and r.to_dict()",
    ),
)

MAGICS = (
    Case("%run -i", ("x = []",), "%run -i script.py", ("x", "newname"), "(x, 'newname' in globals())", shell=True),
    Case("%%time", ("x = []",), "%%time\nx.append(1)", shell=True),
    Case("%timeit", ("x = []",), "%timeit -n1 -r1 x.append(1)", look="len(x) > 0", shell=True),
    Case(
        "the output of a command", ("x = ['a']",), "y = !echo {x}", ("y",), "'y' in globals() and list(y)", shell=True
    ),
    Case("%rerun", ("x = []", "x.append(1)"), "%rerun -l 1", shell=True),
    Case("the last result, _", ("x = []", "x"), "_.append(1)", shell=True),
    Case("an older result, Out[n]", ("x = []", "x"), "list(Out.values())[-1].append(1)", shell=True),
    Case("the last input, run again", ("x = []", "x.append(1)"), "get_ipython().run_cell(_i)", shell=True),
)

BINDINGS = (
    Case(
        "import *",
        ("x = 1",),
        "from helper_mod import *",
        ("poke", "STATE"),
        "sorted(n for n in ('poke', 'STATE') if n in globals())",
    ),
    Case("a random generator", ("import random\nrnd = random.Random(0)",), "rnd.random()", ("rnd",), "rnd.getstate()"),
    Case(
        "names bound by for and :=",
        ("x = 1",),
        "for x in range(3):\n    pass\nif (zz := 5):\n    pass",
        ("x", "zz"),
        "(x, globals().get('zz'))",
    ),
    Case("del", ("x = []",), "del x", look="'x' in globals()"),
    Case("a cell that raises after it changed something", ("x = []",), "x.append(1)\n1 / 0", raises=ZeroDivisionError),
)

# The variable stands in the cell as an attribute alone: what leads to it is something else.
ATTRIBUTES = (
    Case(
        "of a library's object",
        ("import logging\nq = logging.getLogger('q')\nx = []\nq.x = x",),
        "q.x.append(1)",
    ),
    Case(
        "of a library's class",
        ("import json\nx = []\njson.JSONEncoder.x = x",),
        "json.JSONEncoder.x.append(1)\ndel json.JSONEncoder.x",
    ),
    Case(
        "of a module of one's own",
        ("from helper_mod import STATE\nimport helper_mod as h",),
        "h.STATE.append(1)",
        ("STATE",),
        "STATE",
    ),
    Case(
        "of one that sys.modules has",
        ("import sys\nfrom helper_mod import STATE",),
        "sys.modules['helper_mod'].STATE.append(1)",
        ("STATE",),
        "STATE",
    ),
    Case(
        "of one that is imported by name",
        ("import importlib\nfrom helper_mod import STATE",),
        "importlib.import_module('helper_mod').STATE.append(1)",
        ("STATE",),
        "STATE",
    ),
    Case(
        "of one by a function under another name",
        ("from importlib import import_module as get\nfrom helper_mod import STATE",),
        "get('helper_mod').STATE.append(1)",
        ("STATE",),
        "STATE",
    ),
    Case(
        "of one by __import__",
        ("from helper_mod import STATE",),
        "__import__('helper_mod').STATE.append(1)",
        ("STATE",),
        "STATE",
    ),
    Case(
        "of one that a function imports",
        ("from helper_mod import STATE",),
        "def f():\n    import helper_mod\n    helper_mod.STATE.append(1)\nf()",
        ("STATE",),
        "STATE",
    ),
    Case(
        "of one that a container holds",
        ("import helper_mod\nfrom helper_mod import STATE\nheld = [helper_mod]\ndel helper_mod",),
        "held[0].STATE.append(1)",
        ("STATE",),
        "STATE",
    ),
    Case("of __main__ in a variable", ("import sys\nmain = sys.modules['__main__']\nx = []",), "main.x.append(1)"),
    Case(
        "of an object whose attributes are the variables",
        ("class C: pass\nc = C()\nc.__dict__ = globals()\nx = []",),
        "c.x.append(1)",
    ),
    Case("of an object that holds it", ("class C: pass\nc = C()\nc.x = x = []",), "c.x.append(1)"),
    Case(
        "of what a function gives",
        ("x = []\nclass C: pass\nc = C()\nc.x = x\ndef f():\n    return c",),
        "f().x.append(1)",
    ),
    Case("of a class", ("class C:\n    x = []\nx = C.x",), "C.x.append(1)"),
    Case("of a function", ("def f(): pass\nf.x = x = []",), "f.x.append(1)"),
    Case(
        "of a column of a table",
        ("import pandas as pd\ndf = pd.DataFrame({'x': [1, 2]}, dtype=object)\nx = df['x'].array",),
        "df.x.array[0] = [1]",
        ("df", "x"),
        "list(df['x'])",
    ),
    Case(
        "looked up by a class of one's own",
        ("class C:\n    def __getattr__(self, name): return globals()[name]\nc = C()\nx = []",),
        "c.x.append(1)",
    ),
)

CASES = (
    *COMPUTED_NAMES,
    *LIBRARIES_AND_THREADS,
    *FUNCTIONS_AND_GENERATORS,
    *CLASSES,
    *FRAMES_AND_ARRAYS,
    *MAGICS,
    *BINDINGS,
    *ATTRIBUTES,
)
