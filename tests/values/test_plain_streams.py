"""Values whose maker is not trusted: plain data comes as it was, and nothing that could run code is built."""

from __future__ import annotations

import io
import math
import os
import pickle
import pickletools
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from agent_kernel.errors import LoadError, UntrustedValueError
from agent_kernel.session import Repository
from agent_kernel.session.snapshot import Snapshot
from agent_kernel.values import plain_tables
from agent_kernel.values.plain_streams import PlainUnpickler
from tests.support.notebooks import Notebook

PLAIN = {
    "numbers": "v = [0, -1, 2**100, 1.5, float('inf'), 1j, True, None]",
    "texts": "v = ['a', 'ß', '', b'bytes', bytearray(b'q')]",
    "containers": "v = {'a': (1, [2]), frozenset({3}): {4, 5}, None: range(3), 'slice': slice(1, None)}",
    "shared": "inner = [1]; v = [inner, inner, {'k': inner}]",
    "circle": "v = [1]; v.append(v)",
    "days": "import datetime as d; v = [d.datetime(2020, 1, 2, tzinfo=d.UTC), d.date(2020, 1, 1), d.timedelta(1), d.time(3)]",
    "exact": "from decimal import Decimal; from fractions import Fraction; v = [Decimal('1.10'), Fraction(1, 3)]",
    "named": "import uuid, pathlib; v = [uuid.UUID(int=3), pathlib.PurePosixPath('a/b')]",
    "counted": "import collections as c; v = [c.Counter('aab'), c.OrderedDict(a=1), c.defaultdict(list, x=[1]), c.deque([1, 2], 5)]",
    "long list": "v = list(range(30_000))",
    "long dict": "v = {str(k): k for k in range(30_000)}",
    "array": "import numpy as np; v = np.arange(12.0).reshape(3, 4)",
    "columns first": "import numpy as np; v = np.asfortranarray(np.arange(12).reshape(3, 4))",
    "read-only": "import numpy as np; v = np.arange(3); v.flags.writeable = False",
    "days of numpy": "import numpy as np; v = np.array(['2020-01-01', 'NaT'], 'M8[ns]')",
    "texts of numpy": "import numpy as np; v = np.array(['ab', 'c'])",
    "objects of numpy": "import numpy as np; v = np.array([1, 'a', None, [2]], object)",
    "column of objects": "import numpy as np; v = np.array(['w%d' % (k % 50) for k in range(20_000)], object)",
    "number of numpy": "import numpy as np; v = [np.float64(3), np.int8(-1), np.bool_(True), np.datetime64('2020-01-01')]",
    "dtype": "import numpy as np; v = np.dtype('<f8')",
    "dtype that numpy holds too": "import numpy as np; v = [np.dtype(bool), np.dtype(np.clongdouble)]",
    "long doubles": "import numpy as np; v = [np.arange(3, dtype=np.longdouble) / 3, np.longdouble(1) / 3, np.ones(2, np.clongdouble)]",
    "bytes in another order": "import numpy as np; v = [np.arange(3, dtype='>i4'), np.array(['a'], '>U1'), np.ones(1, '>f8')]",
    "masked": "import numpy as np; v = np.ma.array([1, 2], mask=[0, 1])",
    "two of one memory": "import numpy as np; a = np.arange(10); v = [a, a[2:5]]",
    "table": (
        "import pandas as pd\nv = pd.DataFrame({'x': [1.0, 2.0], 'y': ['a', None], 'z': pd.Categorical(['u', 'v']),"
        " 'w': pd.to_datetime(['2020-01-01', '2021-01-01']), 'b': [True, False], 'i': pd.array([1, None], dtype='Int64')})"
    ),
    "table with named rows": "import pandas as pd; v = pd.DataFrame({'x': [1, 2], 'y': [.5, 1], 't': ['q', 'r']}, index=['a', 'b'])",
    "table with rows of one name": "import pandas as pd; v = pd.DataFrame({'x': [1, 2, 3], 't': list('abc')}, index=[7, 7, None])",
    "table of days": (
        "import pandas as pd; days = pd.date_range('2020', periods=2, freq='D', name='day')\n"
        "v = pd.DataFrame({'x': [1, 2], 'i': pd.array([1, None], dtype='Int64'), 'd': days}, index=days)"
    ),
    "table with rows of two names": (
        "import pandas as pd; rows = pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=['a', 'b'])\n"
        "v = pd.DataFrame({'x': [1, 2], 'k': pd.Categorical(['u', 'v'])}, index=rows)"
    ),
    "part of a table": "import pandas as pd; v = pd.DataFrame({'x': range(5), 'y': range(5)})[1:4]",
    "texts without pyarrow": "import pandas as pd; v = pd.Series(['a', None], dtype=pd.StringDtype('python', na_value=float('nan')))",
    "texts that may be missing": (
        "import pandas as pd; kind = pd.StringDtype('python')\n"
        "v = pd.DataFrame({'x': pd.array(['a', None], dtype=kind)}, index=pd.Index(['p', 'q'], dtype=kind))"
    ),
    "table with labels": "import pandas as pd; v = pd.DataFrame({'x': [1.5, 2.0], 'y': [True, False]}, index=['b', 'a'])",
    "table with labels twice": "import pandas as pd; v = pd.DataFrame({'x': [1, 2], 't': ['u', 'v']}, index=[7, 7])",
    "table of named days": "import pandas as pd; v = pd.DataFrame({'x': [1, 2]}, index=pd.date_range('2020', periods=2, name='day'))",
    "table without columns": "import pandas as pd; v = pd.DataFrame(index=['a', 'b'])",
    "series": "import pandas as pd; v = pd.Series([1, 2], index=['a', 'b'], name='q')",
    "index": "import pandas as pd; v = pd.MultiIndex.from_tuples([(1, 'a'), (2, 'b')], names=['n', 'm'])",
    "dates": "import pandas as pd; v = pd.date_range('2020', periods=3, tz='UTC')",
    "moments": "import pandas as pd; v = [pd.Timestamp('2020'), pd.Timedelta(1, 'D'), pd.Timestamp('2020', tz='UTC')]",
    "module": "import numpy as v",
    "structures": "import numpy as np; v = np.array([(1, 2.5, 'ab')], [('a', 'i4'), ('b', 'f8'), ('c', 'U3')])",
    "aligned structures": "import numpy as np; v = np.zeros(2, np.dtype([('a', 'i1'), ('b', 'f8')], align=True))",
    "nested structures": "import numpy as np; v = np.zeros(2, [('p', [('x', 'f4'), ('y', 'f4', (2,))]), ('n', '>M8[s]')])",
    "records": "import numpy as np; v = np.rec.array([(1, 2.5)], dtype=[('a', 'i4'), ('b', 'f8')])",
    "texts of pandas": "import pandas as pd; v = [pd.Series(['a', None]), pd.Index(['b'], name='n'), pd.array(['c'], dtype='string')]",
    "arrays of pandas": "import pandas as pd; v = [pd.Categorical(['a', 'b', 'a'], ordered=True), pd.array([True, None]), pd.array([1])]",
    "categories": "import pandas as pd; v = pd.Categorical([1, 2, 1])",
    "index of categories": "import pandas as pd; v = pd.CategoricalIndex(['a', 'b'], name='n')",
    "truth values": "import pandas as pd; v = pd.DataFrame({'a': pd.array([True, None], dtype='boolean')}, index=['x', 'y'])",
    "period": "import pandas as pd; v = pd.Period('2024-03', 'M')",
    "periods": "import pandas as pd; v = pd.period_range('2020', periods=2, freq='Q', name='q')",
    "column of periods": "import pandas as pd; v = pd.DataFrame({'p': pd.period_range('2020', periods=2, freq='D')})",
    "interval": "import pandas as pd; v = [pd.Interval(0, 1.5), pd.Interval(pd.Timestamp(0), pd.Timestamp(1), 'both')]",
    "intervals": "import pandas as pd; v = pd.interval_range(0, 3, name='i')",
    "bins": "import pandas as pd; v = pd.Series(pd.cut([1.0, 2.0, 9.0], 3))",
    "spans": "import pandas as pd; v = pd.timedelta_range('1h', periods=3, freq='2h', name='t')",
    "offset": "import pandas as pd; v = pd.offsets.MonthEnd(2)",
    "typed array": "import array; v = [array.array('d', [1.5, 2.0]), array.array('B', b'ab'), array.array('i')]",
    "zones": "import datetime as d, zoneinfo as z; v = [d.datetime(2024, 7, 1, tzinfo=z.ZoneInfo('Europe/Berlin')), z.ZoneInfo('UTC')]",
    "days of a zone": "import pandas as pd; v = pd.date_range('2024-07-01', periods=3, tz='America/New_York')",
    "moment of a zone": "import pandas as pd; v = pd.Timestamp('2024-07-01', tz='Asia/Tokyo')",
    "patterns": "import re; v = [re.compile('a+(b|c)', re.I), re.compile(rb'[a-z]+')]",
    "ellipsis": "v = [..., (..., 1)]",
    "types": "from datetime import date; from collections import Counter; v = [date, Counter, int, date(2020, 1, 1)]",
}
MORE = {
    "function": ("def v(): return 1", "a function of the notebook"),
    "class": ("class v: pass", "the class v"),
    "instance": ("class C: pass\nv = [1, C()]", "the class C"),
    "partial": ("import functools; v = functools.partial(print, 1)", "partial"),
    "method of a library": ("import os; v = os.system", "system"),
    "class of a library": ("import pandas as pd; v = pd.DataFrame", "pandas.DataFrame"),
    "model": ("from sklearn.linear_model import Ridge; v = Ridge()", "Ridge"),
    "module of one's own": ("import tests.support as v", ""),
    "structures": ("import numpy as np; v = np.zeros(2, [('a', 'i4'), ('b', 'O')])", ""),
    "figure": ("import matplotlib.figure; v = matplotlib.figure.Figure()", "Figure"),
    "generator": ("import numpy as np; v = np.random.default_rng(0)", ""),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", PLAIN)
def test_plain_data_comes_as_it_was(name: str, tmp_path: Path) -> None:
    with Notebook(Repository.open(tmp_path / "store")) as nb:
        nb.run(PLAIN[name])
        assert nb.session.head is not None
        told = Snapshot(nb.repo, nb.session.head, plain=True)["v"]
        assert portrait(told) == portrait(nb.look("v"))
    nb.repo.close()


@pytest.mark.parametrize("name", MORE)
def test_what_is_more_than_data_is_refused_and_named(name: str, tmp_path: Path) -> None:
    code, what = MORE[name]
    with Notebook(Repository.open(tmp_path / "store")) as nb:
        nb.run(code)
        assert nb.session.head is not None
        with pytest.raises(LoadError, match=f"needs .*{what}"):
            Snapshot(nb.repo, nb.session.head, plain=True)["v"]
    nb.repo.close()


def portrait(value: Any, seen: tuple[int, ...] = ()) -> object:
    """All of a value that makes it that value: types, content, what is one object."""
    if id(value) in seen:
        return ("again", seen.index(id(value)))
    seen = (*seen, id(value))
    kind = type(value)
    if kind in (list, tuple):
        return kind, tuple(portrait(item, seen) for item in value)
    if isinstance(value, dict):
        return kind, tuple((portrait(key, seen), portrait(item, seen)) for key, item in value.items())
    if kind is np.ndarray and value.dtype == object:
        return kind, value.shape, tuple(portrait(item, seen) for item in value.flat)
    if isinstance(value, np.ndarray):
        return (
            kind,
            str(value.dtype),
            value.shape,
            value.flags.writeable,
            value.flags.f_contiguous,
            value.tobytes(),
            repr(value),
        )
    if kind.__module__.startswith("pandas"):
        return (
            kind,
            repr(value),
            repr(getattr(value, "dtypes", getattr(value, "dtype", None))),
            pickle.dumps(list(getattr(value, "columns", ()))),
        )
    return kind, repr(value)


def test_names_that_share_a_value_still_do(tmp_path: Path) -> None:
    with Notebook(Repository.open(tmp_path / "store")) as nb:
        nb.run("a = [1]\nb = a\nc = {'a': a}")
        assert nb.session.head is not None
        found = Snapshot(nb.repo, nb.session.head, plain=True)
        assert found["a"] is found["b"]
        assert found["c"]["a"] is found["a"]  # type: ignore[index]
    nb.repo.close()


# -- streams that somebody wrote by hand


def read(stream: bytes, *buffers: bytes) -> object:
    return PlainUnpickler(io.BytesIO(stream), iter([Stored(content) for content in buffers]), []).load()


class Stored:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size = len(content)

    def read_into(self, target: memoryview) -> None:
        target[:] = self._content


def named(module: str, name: str) -> bytes:
    return b"\x8c" + bytes([len(module)]) + module.encode() + b"\x8c" + bytes([len(name)]) + name.encode() + b"\x93"


def call(function: bytes, *arguments: object) -> bytes:
    """A stream that calls a function with plain arguments."""
    packed = pickle.dumps(arguments, 4)[2:-1]
    if packed[:1] == b"\x95":
        packed = packed[9:]
    return b"\x80\x04" + function + packed + b"R."


RESTORE = "agent_kernel.values.restore"
HARMFUL: dict[str, Callable[[], bytes]] = {
    "os.system": lambda: call(named("os", "system"), "touch ran"),
    "posix.system": lambda: call(named("posix", "system"), "touch ran"),
    "builtins.eval": lambda: call(named("builtins", "eval"), "open('ran', 'w')"),
    "builtins.getattr": lambda: call(named("builtins", "getattr"), 1, "real"),
    "by a text": lambda: b"cos\nsystem\n(S'touch ran'\ntR.",
    "by its name through us": lambda: call(named(f"{RESTORE}.code", "by_name"), "os", "system"),
    "a dotted name": lambda: call(named("collections", "abc.sys.modules"), 1),
    "a dotted name of pandas": lambda: call(named("pandas", "io.pickle.read_pickle"), "evil"),
    "a name of pandas that reads files": lambda: call(named("pandas", "read_pickle"), "evil"),
    "a module that is made": lambda: call(named(f"{RESTORE}.code", "module"), "antigravity"),
    "a module beside it": lambda: call(named(f"{RESTORE}.code", "module"), "evil_module"),
    "another restorer": lambda: call(named(f"{RESTORE}.code", "function"), 1),
    "the registry of extensions": lambda: b"\x80\x04\x82\x01.",
    "an old instance": lambda: b"(ios\nsystem\n.",
    "an object": lambda: b"(" + named("os", "system") + b"\x8c\x09touch rano.",
    "new with keywords": lambda: b"\x80\x04" + named("pandas", "DataFrame") + b")}\x92.",
    "the state of a function": lambda: b"\x80\x04" + named("builtins", "dict") + b"}\x8c\x01a\x8c\x01bsb.",
    "the state of a class": lambda: b"\x80\x04" + named("collections", "Counter") + b"}\x8c\x08__init__\x8c\x01bsb.",
    "memory as objects": lambda: (
        b"\x80\x05" + named(f"{RESTORE}.arrays", "array") + b"\x97\x8c\x01OK\x01\x85\x8c\x01Ct\x94R."
    ),
    "an attribute of a module": lambda: (
        b"\x80\x04" + named("builtins", "getattr") + b"(" + named("os", "system") + b"\x8c\x04nametR."
    ),
    "another attribute of a zone": lambda: (
        b"\x80\x04" + named("builtins", "getattr") + b"(" + named("zoneinfo", "ZoneInfo") + b"\x8c\x09from_filetR."
    ),
    "a zone elsewhere": lambda: (
        b"\x80\x04" + named("builtins", "getattr") + b"(" + named("zoneinfo", "ZoneInfo") + b"\x8c\x0a_unpickletR"
        b"(\x8c\x10../../etc/passwdK\x01tR."
    ),
    "a pattern that says what it compiles": lambda: call(named("re", "_compile"), "a", 128),
    "a pattern of all characters": lambda: call(named("re", "_compile"), "[\\u0000-\\U0010ffff]" * 99, 2),
    "an array of objects of the standard library": lambda: (
        b"\x80\x04"
        + named("array", "_array_reconstructor")
        + b"("
        + named("builtins", "list")
        + b"\x8c\x01dK\x10C\x08\0\0\0\0\0\0\0\0tR."
    ),
    "a period without a length": lambda: call(named("pandas", "PeriodDtype"), "period[__import__('os')]"),
    "a call of a text": lambda: b"\x80\x04\x8c\x01a)R.",
}


@pytest.mark.parametrize("name", HARMFUL)
def test_a_stream_that_means_harm_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil_module.py").write_text("open('ran', 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises((UntrustedValueError, pickle.UnpicklingError, TypeError, AttributeError, IndexError)):
        read(HARMFUL[name]())
    assert not (tmp_path / "ran").exists()
    assert "evil_module" not in sys.modules
    assert "antigravity" not in sys.modules


def test_memory_is_never_taken_for_references(tmp_path: Path) -> None:
    """An array of objects made of bytes would follow addresses that somebody chose."""
    for dtype in ("O", "|O8", [("a", "O")]):
        for function, arguments in (
            ("small_array", (b"\x41" * 8, dtype, (1,), True)),
            ("object_array_bare", ((1,), "C", dtype)),
        ):
            with pytest.raises((UntrustedValueError, TypeError)):
                read(call(named(f"{RESTORE}.arrays", function), *arguments))


@pytest.mark.parametrize("shape", [(1 << 40,), (-1,), (3, -1), (2,), (1 << 62, 1 << 62)])
def test_the_shape_of_an_array_has_to_fit_its_memory(shape: tuple[int, ...]) -> None:
    with pytest.raises((UntrustedValueError, ValueError)):
        read(call(named(f"{RESTORE}.arrays", "small_array"), b"\0" * 8, "<f8", shape, True))


def test_a_view_has_to_lie_within_its_array() -> None:
    array = call(named(f"{RESTORE}.arrays", "small_array"), b"\0" * 8, "<f8", (1,), True)[2:-1]
    for offset, shape, strides in ((800, (1,), (8,)), (0, (100,), (8,)), (0, (2,), (1 << 40,)), (-800, (1,), (8,))):
        rest = b"".join(pickle.dumps(part, 2)[2:-1] for part in (offset, shape, strides, "<f8", True))
        stream = b"\x80\x04" + named(f"{RESTORE}.arrays", "view") + b"(" + array + rest + b"tR."
        with pytest.raises((UntrustedValueError, ValueError, TypeError)):
            read(stream)


def test_noise_in_streams_ends_in_an_error_or_in_data() -> None:
    """In a process of its own, since what lies below is C: it may refuse, but it must not die or run anything."""
    done = subprocess.run(
        [sys.executable, "-c", _NOISE],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "done"


_NOISE = """
import io, pickle, random, sys
import numpy as np, pandas as pd
from agent_kernel.repository import read_blob
from agent_kernel.session import Repository, bind
from tests.values.test_plain_streams import PlainUnpickler, Stored
rng = random.Random(1)
frame = pd.DataFrame({"x": [1.0, 2.0], "y": ["a", "b"], "z": pd.Categorical(["u", "v"]), "w": pd.to_datetime(["2020", "2021"])})
sys.addaudithook(lambda event, what: print(event, what) if event in ("os.system", "subprocess.Popen", "pickle.find_class") else None)
namespace = {"v": frame, "w": np.arange(3.0), "x": {"a": [1, (2, "y")]}, "y": pd.date_range("2020", periods=3)}
repo = Repository.open("memory:")
session = bind(namespace, repo)
session.commit("all")
for name in "vwxy":
    manifest = repo.read_manifest(repo.tree_at(session.head).get(name))
    stream, *buffers = [bytes(read_blob(repo.objects, blob)) for blob in manifest.blobs]
    for turn in range(400):
        made = bytearray(stream)
        for _ in range(rng.randrange(1, 4)):
            made[rng.randrange(len(made))] = rng.randrange(256)
        try:
            repr(PlainUnpickler(io.BytesIO(bytes(made)), iter([Stored(one) for one in buffers]), []).load())
        except Exception:
            pass
print("done")
"""


def test_the_streams_above_are_what_they_seem() -> None:
    """Each is a pickle that the standard library takes apart; so none is refused for being none."""
    for name, make in HARMFUL.items():
        if name != "memory as objects":
            assert list(pickletools.genops(make())), name


LONG: dict[str, Callable[[], bytes]] = {
    "a key as deep as the stream": lambda: b"\x80\x04})" + b"\x85" * 300_000 + b"Ns.",
    "a key that is hashed for ever": lambda: b"\x80\x04}(" + b")\x94h\x00\x86\x94" + _doubled(60) + b"Nu.",
    "bytes that are not there": lambda: b"\x80\x05\x96" + (2 << 30).to_bytes(8, "little") + b".",
    "a fraction of very many digits": lambda: call(named("fractions", "Fraction"), "1e100000000"),
    "items of no size": lambda: call(named(f"{RESTORE}.arrays", "small_array"), b"", "V0", (1 << 40,), True),
    "many arrays of objects": lambda: call(named(f"{RESTORE}.arrays", "object_array_bare"), (50_000_000,), "C"),
    "a dtype that is long to read": lambda: call(named("numpy", "dtype"), "(" * 100_000),
    "a frame that never ends": lambda: b"\x80\x05\x95" + (1 << 60).to_bytes(8, "little"),
}


def _doubled(times: int) -> bytes:
    """Each tuple holds the one before it twice."""
    return b"".join(b"h" + bytes([at]) + b"h" + bytes([at]) + b"\x86\x94" for at in range(1, times))


@pytest.mark.parametrize("name", LONG)
def test_what_is_built_is_bounded_by_the_stream(name: str) -> None:
    began = time.perf_counter()
    with pytest.raises((UntrustedValueError, pickle.UnpicklingError)):
        read(LONG[name]())
    assert time.perf_counter() - began < 3


def test_what_stands_elsewhere_is_found_in_lists_alone() -> None:
    for anchors in (np.array([1, 2], object), {0: 1}, "text"):
        with pytest.raises(UntrustedValueError):
            PlainUnpickler(io.BytesIO(b"\x80\x04K\x00Q."), iter(()), anchors).load()  # type: ignore[arg-type]
    for at in (b"K\x05", b"J\xff\xff\xff\xff"):
        with pytest.raises(UntrustedValueError):
            PlainUnpickler(io.BytesIO(b"\x80\x04" + at + b"Q."), iter(()), [1, 2]).load()


class TestTables:
    """Parts of tables that do not fit are refused before pandas is given them."""

    def block(self, values: object, places: object, dimensions: int = 2) -> plain_tables.Part:
        found = plain_tables.FUNCTIONS["pandas._libs.internals._unpickle_block"](values, places, dimensions)
        assert isinstance(found, plain_tables.Part)
        return found

    def frame(self, blocks: tuple[object, ...], labels: int, rows: int) -> Any:
        manager = plain_tables.FUNCTIONS["pandas.core.internals.managers.BlockManager"]
        made = pd.DataFrame()
        state = {"_mgr": manager(blocks, [pd.RangeIndex(labels), pd.RangeIndex(rows)], False)}
        plain_tables.FUNCTIONS[f"{RESTORE}.frames.table_state"](made, (state, {}, {}))
        return made

    def test_parts_that_fit_make_a_table(self) -> None:
        found = self.frame((self.block(np.arange(6.0).reshape(2, 3), slice(0, 2, 1)),), 2, 3)
        assert found.to_numpy().tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]

    @pytest.mark.parametrize(
        "places",
        [
            slice(10**7, 10**7 + 2, 1),
            slice(1, 3, 1),
            np.array([0, 5]),
            np.array([0, 0]),
            np.array([-1, 0]),
            "ab",
        ],
    )
    def test_columns_lie_within_the_table_and_each_in_its_own_place(self, places: object) -> None:
        with pytest.raises((UntrustedValueError, ValueError)):
            self.frame((self.block(np.zeros((2, 3)), places),), 2, 3)

    @pytest.mark.parametrize("shape", [(1, 2), (2, 10), (2,), (2, 3, 1)])
    def test_columns_have_the_length_of_the_table(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(UntrustedValueError):
            self.frame((self.block(np.zeros(shape), slice(0, 2, 1)),), 2, 3)

    @pytest.mark.parametrize("codes", [[0, 2], [0, 100], [-2, 0], [0, 127]])
    def test_codes_name_a_category(self, codes: list[int]) -> None:
        part, dtype = plain_tables.Part("pandas.Categorical"), plain_tables.Part("pandas.CategoricalDtype")
        dtype.state = {"categories": pd.Index(["a", "b"]), "ordered": False}
        part.state = (dtype, np.array(codes, "i1"))
        with pytest.raises(ValueError, match="codes"):
            self.frame((self.block(part, slice(0, 1, 1)),), 1, 2)

    @pytest.mark.parametrize("codes", [[0, 2], [0, 100], [-5, 0]])
    def test_codes_name_a_label_of_their_level(self, codes: list[int]) -> None:
        named_index = plain_tables.class_named("pandas", "MultiIndex")
        said = {"levels": [pd.Index(["a", "b"])], "codes": [np.array(codes, "i1")], "names": [None]}
        with pytest.raises(ValueError, match=r"code"):
            plain_tables.FUNCTIONS[f"{RESTORE}.frames.index_of_several"](None, (named_index, said))

    def test_a_zone_is_never_read_from_a_file(self) -> None:
        part, dtype = plain_tables.Part("pandas.DatetimeArray"), plain_tables.Part("pandas.DatetimeTZDtype")
        dtype.state = {"unit": "ns", "tz": "dateutil//etc/passwd"}
        part.state = (dtype, np.zeros(2, "M8[ns]"))
        with pytest.raises(UntrustedValueError, match="file"):
            self.frame((self.block(part, slice(0, 1, 1)),), 1, 2)


def _structure(names: Any, fields: Any, size: Any = 8, items: Any = None) -> Any:
    part = plain_tables.FUNCTIONS["numpy.dtype"](f"V{size}", False, True)
    part.state = (3, "|", items, names, fields, size, 1, 0)
    return plain_tables.FUNCTIONS[f"{RESTORE}.arrays.small_array"](bytes(size), part, (1,), True)


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        (("a",), {"a": (np.dtype("f8"), 4)}),
        (("a",), {"a": (np.dtype("f8"), -8)}),
        (("a",), {"a": (np.dtype("f8"), 1 << 40)}),
        (("a",), {"a": (np.dtype("O"), 0)}),
        (("a", "b"), {"a": (np.dtype("f4"), 0)}),
        (("a",), {"a": (np.dtype("f4"), 0, "title")}),
        ((1,), {1: (np.dtype("f4"), 0)}),
        ((), {}),
        (None, None),
    ],
)
def test_the_fields_of_a_structure_lie_within_it_and_hold_data(names: Any, fields: Any) -> None:
    with pytest.raises((UntrustedValueError, ValueError, TypeError)):
        _structure(names, fields)


def test_a_structure_that_holds_itself_is_refused() -> None:
    part = plain_tables.Part("an array of structures or objects")
    part.state = (3, "|", None, ("a",), {"a": (part, 0)}, 8, 1, 0)
    with pytest.raises((UntrustedValueError, RecursionError)):
        plain_tables.FUNCTIONS[f"{RESTORE}.arrays.small_array"](bytes(8), part, (1,), True)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("bad", [0, 1])
def test_the_places_of_a_sparse_matrix_lie_within_it(form: str, bad: int) -> None:
    """scipy multiplies without looking where they lead."""
    import scipy.sparse

    made = plain_tables.new(plain_tables.class_named(f"scipy.sparse._{form}", f"{form}_array"))
    whole = getattr(scipy.sparse, f"{form}_array")(np.eye(3))
    names = ("coords",) if form == "coo" else ("indices", "indptr")
    made.state = {"_shape": (3, 3), "data": whole.data, **{name: getattr(whole, name) for name in names}}
    assert (plain_tables.settle(made).toarray() == np.eye(3)).all()
    far = [one.copy() for one in whole.coords] if form == "coo" else [whole.indices.copy(), whole.indptr.copy()]
    far[bad][1] = 1 << 20
    made.state |= {"coords": tuple(far)} if form == "coo" else {"indices": far[0], "indptr": far[1]}
    with pytest.raises((UntrustedValueError, ValueError)):
        plain_tables.settle(made)


@pytest.mark.parametrize(
    ("mark", "expected"), [("numpy.nan", "np.nan"), ("math.nan", "math.nan"), ("#0:7ff8000000000000", "")]
)
def test_a_nan_that_everybody_knows_is_that_object(mark: str, expected: str) -> None:
    found = read(b"\x80\x05]\x94(\x8c" + bytes([len(mark)]) + mark.encode() + b"\x94Qh\x01Qe.")
    assert isinstance(found, list)
    assert found[0] is found[1]
    assert np.isnan(found[0])
    assert (found[0] is np.nan, found[0] is math.nan) == (expected == "np.nan", expected == "math.nan")


def test_no_module_is_imported_for_a_nan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd_module.py").write_text("nan = float('nan')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert np.isnan(read(b"\x80\x05\x8c\x0eodd_module.nan\x94Q."))  # type: ignore[call-overload]
    assert "odd_module" not in sys.modules
    for mark in (b"#0:zz", b"#0:00", b"#"):
        with pytest.raises(UntrustedValueError):
            np.isnan(read(b"\x80\x05\x8c" + bytes([len(mark)]) + mark + b"\x94Q.") or 1 / 0)  # type: ignore[call-overload]
