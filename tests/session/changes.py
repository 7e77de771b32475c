"""Small changes that are easily taken for none: an equal value of another type, a flag, a name, an order, a position."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Small:
    """`change` follows `make`; `look` tells before from after, and names are what is reported."""

    make: str
    change: str
    look: str = "repr(x)"
    name: str = "x"
    needs: str = field(default="", kw_only=True)


EQUAL_BUT_NOT_THE_SAME = (
    Small("x = 1", "x = True"),
    Small("x = 1", "x = 1.0"),
    Small("x = 0.0", "x = -0.0"),
    Small("x = (1, 'a')", "x = (True, 'a')"),
    Small("x = (0.0, [])", "x = (-0.0, [])"),
    Small("x = frozenset({1})", "x = frozenset({True})"),
    Small("x = [1]", "x[0] = True"),
    Small("x = {1: 'a'}", "x[1.0] = x.pop(1)"),
    Small("x = {1: 'a'}", "del x[1]\nx[True] = 'a'"),
    Small("from decimal import Decimal\nx = Decimal('1.0')", "x = Decimal('1.00')"),
    Small("from fractions import Fraction\nx = 1", "x = Fraction(1)"),
    Small("x = range(0)", "x = range(1, 1)"),
    Small("x = b'a'", "x = bytearray(b'a')"),
    Small("class S:\n    def __reduce__(self): return 'x'\nx = S()", "x.a = 1", "vars(x)"),
    Small("import datetime as dt\nx = dt.datetime(2024, 1, 1)", "x = x.replace(fold=1)"),
    Small(
        "import datetime as dt\nx = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)",
        "x = x.astimezone(dt.timezone(dt.timedelta(hours=1)))",
    ),
    Small("x = 'a'", "class Text(str): pass\nx = Text('a')", "type(x).__name__"),
    Small("from pathlib import Path, PurePath\nx = PurePath('a')", "x = Path('a')", "type(x).__name__"),
    Small("import enum\nx = 1", "class E(enum.IntEnum):\n    ONE = 1\nx = E.ONE", "type(x).__name__"),
    Small("import numpy as np\nx = 1.0", "x = np.float64(1.0)", "type(x).__name__", needs="numpy"),
    Small("x = {'a': 1, 'b': 2}", "x['a'] = x.pop('a')"),
    Small("from collections import OrderedDict\nx = OrderedDict(a=1, b=2)", "x.move_to_end('a')"),
    Small("y = [1]\nx = [y, y]", "x[1] = list(y)", "x[0] is x[1]"),
    Small("y = [1]\nx = y", "x = list(y)", "x is y"),
    Small("y = [1]\nx = [1]", "x = y", "x is y"),
    Small("x = 0.1", "import math\nx = math.nextafter(x, 1)"),
    Small("x = float('nan')", "x = [x]"),
    Small("x = 'ab' * 3000", "x = 'ab' * 2999 + 'ac'", "x[-3:]"),
    Small("x = 10**3000", "x = x + 1", "x % 10"),
)

METADATA = (
    Small("def x(): pass", "x.__doc__ = 'new'", "x.__doc__"),
    Small("def x(a=1): pass", "x.__defaults__ = (2,)", "x.__defaults__"),
    Small("def x(a=1): pass", "x.__name__ = 'y'", "x.__name__"),
    Small("def x(*, a=1): pass", "x.__kwdefaults__['a'] = 2", "x.__kwdefaults__"),
    Small("def x() -> int: pass", "x.__annotations__['return'] = str", "x.__annotations__"),
    Small(
        "def make():\n    n = 1\n    return lambda: n\nx = make()",
        "x.__closure__[0].cell_contents = 5",
        "x()",
    ),
    Small("class x:\n    a = 1", "x.__doc__ = 'new'", "x.__doc__"),
    Small("class x:\n    a = 1", "x.b = 2", "getattr(x, 'b', None)"),
    Small("class x:\n    a = 1", "del x.a", "hasattr(x, 'a')"),
    Small("class x:\n    def m(self): return 1", "x.m = lambda self: 2", "x().m()"),
    Small("class A: pass\nclass B: pass\nx = A()", "x.__class__ = B", "type(x).__name__"),
    Small("class A:\n    pass\nx = A()\nx.a = 1", "x.__dict__['b'] = 2", "vars(x)"),
    Small("class A:\n    __slots__ = ('a',)\nx = A()\nx.a = 1", "del x.a", "hasattr(x, 'a')"),
    Small("x = ValueError('a')", "x.add_note('n')", "getattr(x, '__notes__', None)"),
    Small("x = ValueError('a')", "x.args = ('b',)", "x.args"),
    Small("import functools\nx = functools.partial(print)", "x.label = 'l'", "vars(x)"),
    Small("class L(list): pass\nx = L([1])", "x.label = 'l'", "vars(x)"),
    Small("import io\nx = io.BytesIO(b'abc')", "x.seek(2)", "x.tell()"),
    Small("import io\nx = io.StringIO('abc')", "x.write('z')", "x.getvalue()"),
    Small("import random\nx = random.Random(1)", "x.seed(2)", "x.getstate()[1][:3]"),
    Small("import random\nx = random.Random(1)", "x.gauss(0, 1)", "x.getstate()"),
    Small("from collections import defaultdict\nx = defaultdict(list)", "x['new']", "dict(x)"),
    Small("from collections import defaultdict\nx = defaultdict(list)", "x.default_factory = int", "x.default_factory"),
    Small("x = bytearray(b'abc')", "memoryview(x)[0] = 65", "bytes(x)"),
    Small("import itertools\nx = itertools.count()", "next(x)"),
    Small("import types\nx = types.SimpleNamespace(a=1)", "x.b = 2"),
    Small(
        "import sqlite3\nx = sqlite3.connect(':memory:')\nx.execute('create table t (a)')",
        "x.execute('insert into t values (1)')\nx.commit()",
        "x.execute('select count(*) from t').fetchone()",
    ),
    Small("import xml.etree.ElementTree as ET\nx = ET.fromstring('<a/>')", "x.set('k', 'v')", "ET.tostring(x)"),
    Small("import weakref\nx = [1]\nclass N: pass\nn = N()\nr = weakref.ref(n)", "del n", "'n' in globals()", "n"),
)

LIBRARIES = (
    Small("import numpy as np\nx = np.arange(6)", "x.shape = (2, 3)", "x.shape", needs="numpy"),
    Small("import numpy as np\nx = np.arange(6)", "x.flags.writeable = False", "x.flags.writeable", needs="numpy"),
    Small("import numpy as np\nx = np.arange(6)", "x = x.astype('i4')", "str(x.dtype)", needs="numpy"),
    Small(
        "import numpy as np\nx = np.zeros((2, 3))", "x = np.asfortranarray(x)", "x.flags.f_contiguous", needs="numpy"
    ),
    Small("import numpy as np\nx = np.array([0.0])", "x[0] = -0.0", "x.tobytes()", needs="numpy"),
    Small("import numpy as np\nx = np.zeros(100_000)", "x[77_777] = 1", "x.sum()", needs="numpy"),
    Small("import numpy as np\nx = np.ma.array([1, 2])", "x[0] = np.ma.masked", "str(x)", needs="numpy"),
    Small("import numpy as np\nx = np.random.default_rng(1)", "x.random()", "x.bit_generator.state", needs="numpy"),
    Small("import numpy as np\nx = np.array([[1], 2], dtype=object)", "x[0].append(5)", "x.tolist()", needs="numpy"),
    Small("import pandas as pd\nx = pd.DataFrame({'a': [1, 2]})", "x.loc[0, 'a'] = 9", "x.to_dict()", needs="pandas"),
    Small("import pandas as pd\nx = pd.DataFrame({'a': [1]})", "x.index.name = 'i'", "x.index.name", needs="pandas"),
    Small("import pandas as pd\nx = pd.DataFrame({'a': [1]})", "x.attrs['unit'] = 'kg'", "x.attrs", needs="pandas"),
    Small("import pandas as pd\nx = pd.DataFrame({'a': [1]})", "x.columns = ['b']", "list(x.columns)", needs="pandas"),
    Small("import pandas as pd\nx = pd.Series([1])", "x.name = 's'", "x.name", needs="pandas"),
    Small("import pandas as pd\nx = pd.Series([1, 2])", "x = x.astype('Int64')", "str(x.dtype)", needs="pandas"),
    Small(
        "import pandas as pd\nx = pd.Series(['a', 'b'], dtype='category')",
        "x = x.cat.add_categories(['c'])",
        "list(x.cat.categories)",
        needs="pandas",
    ),
    Small("import pandas as pd\nx = pd.DataFrame({'a': [[1]]})", "x['a'][0].append(2)", "x['a'][0]", needs="pandas"),
    Small(
        "import polars as pl\nx = pl.DataFrame({'a': [1]})",
        "x[0, 'a'] = 5",
        "x.to_dict(as_series=False)",
        needs="polars",
    ),
    Small("import networkx as nx\nx = nx.Graph()", "x.add_edge(1, 2)", "list(x.edges)", needs="networkx"),
    Small(
        "from sklearn.preprocessing import StandardScaler\nfrom sklearn.pipeline import make_pipeline\n"
        "x = StandardScaler()\npipe = make_pipeline(x)",
        "pipe.fit([[1.0], [2.0]])",
        "hasattr(x, 'mean_')",
        needs="sklearn",
    ),
    Small("import torch\nx = torch.zeros(3)", "x.requires_grad_()", "x.requires_grad", needs="torch"),
    Small("import torch\nx = torch.nn.Linear(1, 1)", "x.eval()", "x.training", needs="torch"),
    Small(
        "import torch\nx = torch.nn.Linear(1, 1)",
        "x(torch.ones(1, 1)).sum().backward()",
        "x.weight.grad is not None",
        needs="torch",
    ),
    Small(
        "import torch\ntorch.manual_seed(0)\nx = torch.nn.Linear(1, 1)\nopt = torch.optim.SGD(x.parameters(), lr=1.0)\n"
        "x(torch.ones(1, 1)).sum().backward()",
        "opt.step()",
        "x.weight.item()",
        needs="torch",
    ),
    Small("import torch\nx = torch.zeros(4)\nview = x[1:]", "view.add_(1)", "x.tolist()", needs="torch"),
    Small("import torch\nx = torch.zeros(4)\nn = x.numpy()", "n[0] = 7", "x.tolist()", needs="torch"),
    Small(
        "import pydantic\nclass M(pydantic.BaseModel):\n    a: list = []\nx = M()",
        "x.a.append(1)",
        "x.model_dump()",
        needs="pydantic",
    ),
)

THROUGH_THE_BACK_DOOR = (
    Small(
        "import matplotlib\nmatplotlib.use('agg')\nfrom matplotlib import pyplot as plt\nx, ax = plt.subplots()",
        "plt.title('drawn through pyplot')",
        "ax.get_title()",
        needs="matplotlib",
    ),
    Small("import builtins\nx = []\nbuiltins.shared_list = x", "shared_list.append(1)"),
    Small("import sys\nx = []", "sys._getframe().f_globals[chr(120)].append(1)"),
    Small(
        "import gc\nmark = 'find ' + str(7)\nx = [mark, 'me']",
        # Not gc.get_objects(): Python's XML parser keeps lists in it that are not filled yet, and cannot be looked into.
        "[o for o in gc.get_referrers(mark) if type(o) is list and o[1:] == ['me']][0].append(1)",
    ),
    Small("import ctypes\nx = [1]\naddress = id(x)", "ctypes.cast(address, ctypes.py_object).value.append(2)"),
    Small("import re\nx = []\ndef on_match(m):\n    x.append(m[0])\n    return ''", "re.sub('a', on_match, 'aa')"),
    Small("import json\nx = []\nhook = {'object_hook': x.append}", "json.loads('{\"a\": 1}', **hook)"),
    Small(
        "import sqlite3\nx = [[]]\ndb = sqlite3.connect(':memory:')\ndb.create_function('f', 1, x[0].append)",
        "db.execute('select f(1)').fetchone()",
    ),
    Small(
        "import signal\nx = []\nold = signal.signal(signal.SIGUSR1, lambda *a: x.append(1))",
        "signal.raise_signal(signal.SIGUSR1)",
    ),
    Small(
        "import warnings\nx = []\nshow = warnings.showwarning",
        "warnings.showwarning = lambda *a: x.append(1)\nwarnings.simplefilter('always')\nwarnings.warn('w')\nwarnings.showwarning = show",
    ),
    Small(
        "import contextlib\nx = []\n@contextlib.contextmanager\ndef cm():\n    x.append(1)\n    yield",
        "with cm():\n    pass",
    ),
    Small(
        "x = []\nclass C:\n    def __enter__(self): x.append(1)\n    def __exit__(self, *a): x.append(2)\nc = C()",
        "with c:\n    pass",
    ),
    Small(
        "x = []\nclass C:\n    def __format__(self, spec):\n        x.append(spec)\n        return ''\nc = C()",
        "f'{c:abc}'",
    ),
    Small("x = []\nclass C:\n    def __iadd__(self, o):\n        x.append(o)\n        return self\nc = C()", "c += 1"),
    Small(
        "x = []\nclass C:\n    def __set_name__(self, owner, name):\n        x.append(name)",
        "class D:\n    attribute = C()",
    ),
    Small(
        "x = []\nclass Base:\n    def __init_subclass__(cls):\n        x.append(cls.__name__)",
        "class Child(Base):\n    pass",
    ),
    Small("x = []\nfilterer = filter(x.append, [1, 2])", "list(filterer)"),
    Small(
        "import functools\nx = []\nclass K:\n    __lt__ = lambda s, o: x.append(1) or False\nks = [K(), K()]",
        "max(ks, key=functools.cmp_to_key(lambda a, b: (a < b) or 0))",
    ),
)

SMALL = (*EQUAL_BUT_NOT_THE_SAME, *METADATA, *LIBRARIES, *THROUGH_THE_BACK_DOOR)
