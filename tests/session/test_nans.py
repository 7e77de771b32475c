"""Which NaN it is: dicts, sets, `in` and `is` find one by its identity, so it comes back as the object that it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_kernel.values import atoms, segments
from tests.support.elsewhere import Sheet, elsewhere
from tests.support.notebooks import Notebook, names_changed

START = (
    "import collections, math, types\nimport numpy as np, pandas as pd\nmine = float('nan')\n"
    f"n, m = {atoms.LONG + 500}, {2 * segments.FROM_LENGTH}"
)
pytestmark = pytest.mark.filterwarnings("ignore")

# A cell, and what is true of it.
NUMPYS = [
    ("labels = {np.nan: 'missing', 1.0: 'one'}", "labels[np.nan] == 'missing'"),
    ("x = np.nan", "x is np.nan"),
    ("x = math.nan", "x is math.nan and x is not np.nan"),
    ("values = [1.0, np.nan]", "np.nan in values"),
    ("seen = {math.nan, 2.0}", "math.nan in seen and np.nan not in seen"),
    ("nested = {'a': [(1, {np.nan: 2})]}", "nested['a'][0][1][np.nan] == 2"),
    ("rows = [{'v': np.nan, 'i': i} for i in range(m)]", "all(row['v'] is np.nan for row in rows)"),
    ("numbers = [np.nan if i % 3 else 1.0 * i for i in range(n)]", "sum(v is np.nan for v in numbers) > n // 2"),
    ("table = {i: np.nan for i in range(n)}", "all(v is np.nan for v in table.values())"),
    ("def fill(v=np.nan, *, w=math.nan): return v, w", "fill()[0] is np.nan and fill()[1] is math.nan"),
    ("def outer(v):\n    return lambda: v\ninner = outer(np.nan)", "inner() is np.nan"),
    ("class Options:\n    missing = np.nan\no = Options(); o.other = math.nan", "Options.missing is np.nan and o.other is math.nan"),
    ("space = types.SimpleNamespace(v=np.nan)", "space.v is np.nan"),
    ("queue = collections.deque([np.nan])", "queue[0] is np.nan"),
    ("column = np.array(['a', np.nan, None, math.nan], object)", "column[1] is np.nan and column[3] is math.nan"),
    ("column = np.array(['a', np.nan] * n, object)", "all(v is np.nan for v in column[1::2])"),
    ("column = np.array(['a', math.nan] * n, object)", "all(v is math.nan for v in column[1::2])"),
    ("records = np.array([(1, np.nan), (2, 'b')], [('i', int), ('o', object)])", "records['o'][0] is np.nan"),
    ("s = pd.Series(['a', np.nan], dtype=object)", "s[1] is np.nan"),
    ("s = pd.Series(['a', np.nan] * n, dtype=object)", "all(v is np.nan for v in s[1::2])"),
    ("s = pd.Series(['a', np.nan], dtype=pd.StringDtype('python', na_value=np.nan))", "s[1] is np.nan and s.dtype.na_value is np.nan"),
    ("df = pd.DataFrame({'t': ['a', np.nan], 'x': [1.5, np.nan]}).astype({'t': object})", "df.t[1] is np.nan"),
    ("index = pd.Index(['a', np.nan], dtype=object)", "index[1] is np.nan"),
]  # fmt: skip
MINE = [
    ("d = {mine: 1}", "d[mine] == 1"),
    ("pair = [mine, mine]", "pair[0] is pair[1] and mine in pair"),
    ("apart = [float('nan'), float('nan')]", "apart[0] is not apart[1]"),
    ("d = {mine: 1}\nkeys = list(d)", "keys[0] in d and mine in keys"),
    (
        (
            "looks = [np.frombuffer(b'G\\x7f\\xf8' + bytes(5), np.int64).copy() for _ in range(100)]\n"
            "pair = [looks, mine, mine, float('nan'), np.nan]"
        ),
        "pair[1] is pair[2] is mine and pair[3] not in pair[:3] and pair[4] is np.nan",
    ),
    ("numbers = [mine] * n", "all(v is mine for v in numbers)"),
    ("numbers = [mine, *range(n), mine]", "numbers[0] is numbers[-1]"),
    ("rows = [{'v': mine} for i in range(m)]", "all(row['v'] is mine for row in rows)"),
    ("column = np.array(['a', mine] * n, object)", "all(v is mine for v in column[1::2])"),
    ("o = types.SimpleNamespace(v=mine)\nd = {o.v: o}", "d[o.v] is o and o.v is mine"),
    ("negative = -mine\npair = (negative, negative)", "pair[0] is pair[1] and math.copysign(1, pair[0]) == -1"),
]
each = pytest.mark.parametrize(("cell", "holds"), [*NUMPYS, *MINE])


@each
def test_a_nan_is_the_same_object_after_a_checkout(cell: str, holds: str) -> None:
    with Notebook() as nb:
        nb.run(START)
        made = nb.run(cell)
        assert nb.look(holds)
        names = [name for name in nb.variables() if name not in ("collections", "math", "types", "np", "pd", "n", "m")]
        nb.run(f"del {', '.join(sorted(names))}")
        nb.checkout(made)
        assert nb.look(holds)
        assert not nb.run("; ".join(sorted(names))).changed


def test_nans_are_the_same_objects_in_a_new_process(tmp_path: Path) -> None:
    cases = {str(number): case for number, case in enumerate([*NUMPYS, *MINE])}
    made = elsewhere({at: Sheet(str(tmp_path / at), (START, cell)) for at, (cell, _) in cases.items()})
    assert not [result for result in made.values() if result.error or result.unsaved]
    checks = {at: (f"assert {holds}, {cell!r}",) for at, (cell, holds) in cases.items()}
    found = elsewhere({at: Sheet(str(tmp_path / at), checkout=True, checks=checks[at]) for at in cases})
    assert not [(cases[at], result) for at, result in found.items() if result.error or result.failed]


@pytest.mark.parametrize(
    ("cell", "change"),
    [
        ("d = [np.nan]", "d[0] = math.nan"),
        ("d = {1: np.nan}", "d[1] = float('nan')"),
        ("d = [mine, mine]", "d[1] = float('nan')"),
        ("d = np.array(['a', np.nan] * n, object)", "d[1] = mine"),
    ],
)
def test_another_nan_is_a_change(cell: str, change: str) -> None:
    with Notebook() as nb:
        nb.run(START)
        nb.run(cell)
        assert "d" in names_changed(nb.run(change))


def test_a_nan_of_a_module_that_is_gone_comes_back_as_one_nan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_marks.py").write_text("MISSING = float('nan')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with Notebook() as nb:
        made = nb.run("import own_marks\nd = {own_marks.MISSING: 1}\nkept = [own_marks.MISSING]")
        nb.run("del d, kept")
        nb.checkout(made)
        assert nb.look("d[own_marks.MISSING] == 1 and kept[0] is own_marks.MISSING")
        nb.run("del d, kept, own_marks")
        nb.execute("import sys; del sys.modules['own_marks'], sys")
        (tmp_path / "own_marks.py").write_text("raise RuntimeError\n")
        nb.checkout(made, names=["d"])
        assert nb.look("list(d)[0] != list(d)[0]")
