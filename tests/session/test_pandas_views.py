"""What is taken from a table is as much one with it after a checkout as it was before, in all releases of pandas.

Before pandas 3 a write to either goes through to the other, unless the option `mode.copy_on_write` is on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agent_kernel.testing.notebooks import Notebook, names_changed

pd: Any = pytest.importorskip("pandas")
BEFORE_3 = int(pd.__version__.partition(".")[0]) < 3

TABLE = "pd.DataFrame({'a': np.arange(20.), 'b': np.arange(20.) * 2, 't': list('abcdefghijklmnopqrst')})"
# What is taken from the table `df`, and a cell that writes to it, or to the table.
TAKEN = {
    "a column of numbers": ("s = df['a']", "s.iloc[0] = 99"),
    "a column of texts": ("s = df['t']", "s.iloc[0] = 'changed'"),
    "a column of texts, and the table is written to": ("s = df['t']", "df.loc[0, 't'] = 'changed'"),
    "objects": ("df['t'] = df['t'].astype(object); s = df['t'].to_numpy()", "if s.flags.writeable: s[0] = 'changed'"),
    "many objects": (
        "df = pd.DataFrame({'t': np.array(list('abcd') * 2000, dtype=object)}); s = df['t']; x = df[10:]",
        "s.iloc[50] = 'changed'",
    ),
    "numbers": ("df = df[['a', 'b']]; s = df.to_numpy()", "if s.flags.writeable: s[0, 0] = 99"),
    "rows": ("s = df[5:10]", "s.iloc[0, 0] = 99"),
    "rows, and the table is written to": ("s = df.iloc[5:10]", "df.iloc[6, 1] = 99"),
    "a column of rows": ("x = df[3:9]; s = x['a']", "s.iloc[2] = -1"),
    "the transposed table": ("df = df[['a', 'b']]; s = df.T", "s.iloc[0, 0] = 99"),
    "a shallow copy": ("s = df.copy(deep=False)", "s.iloc[0, 0] = 99"),
    "a copy": ("s = df.copy()", "s.iloc[0, 0] = 99"),
    "categories": ("df['k'] = pd.Categorical(list('ab') * 10); s = df['k']", "s.iloc[0] = 'b'"),
    "days": ("df['d'] = pd.date_range('2020', periods=20); s = df['d']", "s.iloc[0] = pd.Timestamp('1999')"),
    "integers with gaps": ("df['n'] = pd.array([1, None] * 10, dtype='Int64'); s = df['n']", "s.iloc[0] = 99"),
    "an array of objects that a column was made of": (
        "s = np.array(list('abcd'), dtype=object); x = pd.arrays.NumpyExtensionArray(s); df = None",
        "s[0] = 'changed'",
    ),
    "an array that a table was made of": (
        "s = np.zeros((5, 3)); df = pd.DataFrame(s, columns=list('xyz'), copy=False)",
        "df.iloc[1, 1] = 5",
    ),
}


@pytest.fixture(params=[False, True] if BEFORE_3 else [None])
def notebook(request: pytest.FixtureRequest) -> Iterator[Notebook]:
    with Notebook() as nb:
        nb.run("import numpy as np, pandas as pd")
        if request.param is None:
            yield nb
            return
        before = pd.options.mode.copy_on_write
        pd.options.mode.copy_on_write = request.param
        yield nb
        pd.options.mode.copy_on_write = before


@pytest.mark.filterwarnings("ignore")  # pandas 2 warns of writes to what may be a copy
def test_what_is_taken_from_a_table_is_one_with_it_as_before(notebook: Notebook) -> None:
    nb = notebook
    wrong: list[str] = []
    for title, (take, write) in TAKEN.items():
        made = nb.run(f"df = {TABLE}; x = None; {take}")
        before = _look(nb)
        report = nb.run(write)
        after = _look(nb)
        changed = {name for name in after if after[name] != before[name]}
        nb.checkout(made)
        back = _look(nb)
        nb.run(write)
        again = _look(nb)
        if not changed <= names_changed(report) or back != before or again != after:
            wrong.append(
                f"{title}: {changed} changed, {names_changed(report)} reported; {back != before, again != after}"
            )
    assert not wrong, "\n".join(wrong)


def _look(nb: Notebook) -> dict[str, object]:
    pairs = ", ".join(f"('{name}', {name})" for name in ("df", "s", "x") if name in nb.namespace)
    seen: Any = nb.look(f"[(name, str(np.asarray(value).tolist())) for name, value in [{pairs}]]")
    return dict(seen)
