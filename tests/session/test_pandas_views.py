"""What is taken from a table is as much one with it after a checkout as it was before, in all releases of pandas.

Before pandas 3 a write to either goes through to the other, unless the option `mode.copy_on_write` is on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed

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


OWN_CLASS = "class Own(pd.Index):\n    def __new__(cls, data, **options):\n        return cls._simple_new(np.asarray(data), None)\n"
OWN_SPAN = "class Span(pd.Timedelta):\n    pass\n"
# What a table leads to beside its columns: a cell that makes it, one that changes it, and what tells one from the other.
BESIDE = {
    "the attributes of a table": ("df = pd.DataFrame({'a': [1]}); x = df.attrs", "x['k'] = 1", "(df.attrs, df.attrs is x)"),
    "those of a column": ("df = pd.Series([1]); x = df.attrs", "df.attrs['k'] = 1", "(x, df.attrs is x)"),
    "what they hold": ("x = [1]; df = pd.Series([1]); df.attrs['x'] = x", "x.append(2)", "df.attrs['x'] is x, x"),
    "an attribute that a person set": ("df = pd.DataFrame({'a': [1]}); df.note = 'one'", "df.note = 'two'", "df.note"),
    "an object as such an attribute": ("x = {1}; df = pd.Series([1]); df.tags = x", "x.add(2)", "(df.tags is x, x)"),
    "an attribute of an index": ("df = pd.Index([1, 2]); df.note = 'one'", "df.note = 'two'", "df.note"),
    "an object as an attribute of an index": ("x = [1]; df = pd.DataFrame({'a': [1]}, index=['q']); df.index.note = x", "x.append(2)", "df.index.note is x, x"),
    "an attribute of an index of several": ("df = pd.MultiIndex.from_product([[1], [2]]); df.note = 'one'", "df.note = 'two'", "df.note, df.sortorder"),
    "an attribute of an index of intervals": ("df = pd.interval_range(0, 3); df.note = 'one'", "df.note = 'two'", "df.note, list(df)"),
    "an attribute of a point in time": ("df = pd.Timestamp('2020'); df.note = 'one'; x = [df]", "df.note = 'two'", "df.note, x[0] is df"),
    "an object as an attribute of a span": ("x = [1]; df = [pd.Timedelta('1h')]; df[0].note = x", "x.append(2)", "df[0].note is x, x"),
    "an attribute of a month": ("df = pd.Period('2020-01'); df.note = [1]", "df.note.append(2)", "df.note, df"),
    "an attribute of an array of pandas": ("df = pd.array([1, None]); df.note = [1]", "df.note.append(2)", "df.note"),
    "an attribute of categories": ("df = pd.Categorical(['a']); df.note = [1]", "df.note.append(2)", "df.note"),
    "an attribute of an index of a class": (OWN_CLASS + "df = Own([1, 2]); df.note = [1]", "df.note.append(2)", "df.note, type(df) is Own"),
    "a span of a class": (OWN_SPAN + "df = Span('1h'); x = 1", "x = 2", "x, df, type(df) is Span"),
    "an attribute of a span of a class": (OWN_SPAN + "df = Span('1h'); df.note = [1]", "df.note.append(2)", "df.note, df, type(df) is Span"),
    "the categories": ("s = pd.Series(list('aba'), dtype='category'); x = s.cat.categories", "s[0] = 'b'", "s.cat.categories is x, s.tolist()"),
    "the categories in a list": ("x = pd.Categorical(list('aba')); s = [x, x.categories]", "s.append(1)", "s[0].categories is s[1], len(s)"),
    "groups": ("df = pd.DataFrame({'k': list('aab'), 'v': [1, 2, 3]}); x = df.groupby('k')", "df.loc[0, 'v'] = 9", "x.obj is df, x['v'].sum().tolist()"),
    "answers that groups gave before a key changed": ("df = pd.DataFrame({'k': [1, 1, 2], 'v': [1, 2, 3]}); x = df.groupby('k'); x.sum(); df.loc[0, 'k'] = 2", "df.loc[1, 'v'] = 9", "x['v'].sum().to_dict(), x.groups, dir(x)"),
    "windows": ("s = pd.Series([1., 2.]); x = s.rolling(2)", "s[0] = 9", "x.obj is s, x.sum().tolist()[1:]"),
    "indexers": ("df = pd.DataFrame({'a': [1]}); x = [df.loc, df.iat]", "x[0][0, 'a'] = 9", "x[1].obj is df, df.values.tolist()"),
    "a name of the index": ("df = pd.DataFrame({'a': [1]}); x = df.index", "x.name = 'n'", "df.index is x, df.index.name"),
    "dates that may not be changed": ("x = pd.period_range('2020', periods=3, freq='M').array.copy(); df = [x]", "x[0] = x[1]", "df[0] is x, str(x[0])"),
}  # fmt: skip
BEFORE_PANDAS_3 = {
    "a column that a frame keeps": ("df = pd.DataFrame({'a': [1, 2]}); s = df['a']", "s[0] = 5", "df['a'] is s, df['a'].tolist()"),
    "and tells of another type": ("df = pd.DataFrame({'a': [1, 2]}); s = df['a']", "s[0] = 1.5", "df['a'] is s, df['a'].tolist()"),
    "and of a name": ("df = pd.DataFrame({'a': [1, 2]}); s = df['a']", "s.name = 'n'", "df['a'] is s, s.name"),
    "a column that is replaced": ("df = pd.DataFrame({'a': [1, 2]}); s = df['a']", "df['a'] = [8, 9]", "s.tolist(), df['a'].tolist()"),
    "a column of which a value is set": ("df = pd.DataFrame({'a': [1, 2], 't': ['x', 'y']}); s = df['t']", "df['t'][0] = 'z'", "s.tolist(), df.loc[0, 't']"),
    "labels": ("df = pd.DataFrame({'a': [1], 'b': [2]})", "df.columns.values[0] = 'z'", "list(df.columns)"),
    "labels of text that a name holds": ("df = pd.DataFrame({'a': [1], 'b': [2]}); x = df.columns.values", "x[0] = 'z'", "list(df.columns)"),
    "a view of labels": ("df = pd.DataFrame({'a': [1], 'b': [2]}); x = df.columns.values[:1]", "x[0] = 'z'", "list(df.columns)"),
    "labels made of an array": ("x = np.array([1, 2]); df = pd.DataFrame({'a': [1, 2]}, index=pd.Index(x))", "x[0] = 9", "list(df.index)"),
    "days that a name holds": ("df = pd.Series([1, 2], index=pd.date_range('2020', periods=2)); x = df.index.values", "x[0] = x[1]", "list(df.index)"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_what_a_table_leads_to_beside_its_columns_is_as_before(notebook: Notebook) -> None:
    nb = notebook
    wrong: list[str] = []
    writes_through = BEFORE_3 and not pd.options.mode.copy_on_write
    for title, (make, change, look) in (BESIDE | (BEFORE_PANDAS_3 if writes_through else {})).items():
        nb.run("df = s = x = None")
        made = nb.run(make)
        before = repr(nb.look(look))
        assert names_changed(nb.run("str(df), str(s), str(x)")) == set(), title
        report = nb.run(change)
        after = repr(nb.look(look))
        nb.checkout(made)
        back = repr(nb.look(look))
        nb.execute(change)
        again = repr(nb.look(look))
        if before == after or not names_changed(report) or (back, again) != (before, after):
            wrong.append(f"{title}: {before}, {after}; then {back}, {again}; {names_changed(report)} reported")
    assert not wrong, "\n".join(wrong)


@pytest.mark.filterwarnings("ignore")
def test_tables_are_not_grouped_by_labels_that_both_have(notebook: Notebook) -> None:
    nb = notebook
    nb.run(
        "df = pd.DataFrame({'a': [1, 2], 'b': [3, 4]}, index=list('xy')); d2 = df.copy(); d3 = df * 2; s = d3['a'] + 1"
    )
    groups = nb.session.workspace.tracking.groups
    assert {name: groups[name].members for name in ("df", "d2", "d3", "s")} == {
        name: (name,) for name in ("df", "d2", "d3", "s")
    }
    nb.run("before = df['a'].sum(), df['b'].mean()")
    for read in (
        "df['a'].sum()",
        "df['b'].describe()",
        "[column for column in df.items()]",
        "df.astype(str)['a'].str.len()",
    ):
        assert names_changed(nb.run(f"len(str({read}))")) == set(), read


def test_the_levels_and_codes_of_an_index_of_several_stay_the_objects_that_names_hold() -> None:
    store = MemoryStore()
    shown = "(index.levels[0] is level, frame.index is index, index.codes[1] is codes, index.levels is index.levels, list(index))"
    with Notebook(Repository.open(store)) as nb:
        first = nb.run(
            "import pandas as pd\nindex = pd.MultiIndex.from_product([['a', 'b'], [1, 2]], names=['u', 'v'])\n"
            "level, codes = index.levels[0], index.codes[1]\nframe = pd.DataFrame({'q': range(4)}, index=index)"
        )
        expected = nb.look(shown)
        assert repr(expected).startswith("(True, True, True, True, ")
        assert names_changed(nb.run("other = index.set_names(['x', 'y'])")) == {"other"}
        nb.run("index = level = codes = frame = None")
        nb.checkout(first)
        assert nb.look(shown) == expected
        assert nb.look("(index.names, level.name, index.get_loc(('b', 1)), index.is_unique)") == (
            ["u", "v"],
            "u",
            2,
            True,
        )
        assert names_changed(nb.run("index.get_loc(('a', 1))")) == set()
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(first)
        assert nb.look(shown) == expected
