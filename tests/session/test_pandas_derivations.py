"""What pandas derives from a table is a value of its own: a change to one is reported and undone for that one alone.

Under copy-on-write a derived table may share memory with the first until one of them is written to. Nobody can see
that, so it groups nothing.
"""

from __future__ import annotations

import pytest

from agent_kernel.testing.notebooks import Notebook

pytest.importorskip("pandas", minversion="3.0")

TABLE = (
    "import pandas as pd, numpy as np\n"
    "df = pd.DataFrame({'a': np.arange(1000), 'b': np.arange(1000) / 7, 'g': ['x', 'y'] * 500})\n"
    "named = df.set_index('g')"
)
DERIVED = {
    "a mask": "df[df.a > 500]",
    "sort_values": "df.sort_values('b').reset_index(drop=True)",
    "merge": "df.merge(df[['a']], on='a')",
    "groupby and agg": "df.groupby('g').agg({'a': 'sum'})",
    "assign": "df.assign(c=1)",
    "copy": "df.copy()",
    "drop": "df.drop(columns=['b'])",
    "head": "df.head(10)",
    "loc": "df.loc[5:10]",
    "loc with a mask": "df.loc[df.a > 3, ['a', 'g']]",
    "concat": "pd.concat([df, df])",
    "pivot": "df.pivot_table(index='g', columns='a', values='b')",
    "a column": "df['a']",
    "columns": "df[['a', 'b']]",
    "rename": "df.rename(columns={'a': 'z'})",
    "set_index": "df.set_index('a')",
    "astype": "df.astype({'a': 'float64'})",
    "fillna": "df.fillna(0)",
    "query": "df.query('a > 5')",
    "arithmetic": "df['a'] + 1",
    "of an indexed table": "named.loc['x']",
    "statistics": "df.describe()",
}


@pytest.mark.parametrize("how", DERIVED.values(), ids=DERIVED.keys())
def test_a_derived_table_is_a_value_of_its_own(how: str) -> None:
    with Notebook() as nb:
        nb.run(TABLE)
        nb.run(f"part = {how}")
        kept = nb.namespace["part"]
        report = nb.run("df.loc[5, 'b'] = 9.0")
        assert [(change.how, change.name) for change in report.changed] == [("~", "df")]
        nb.session.undo()
        assert nb.namespace["part"] is kept
        assert nb.look("float(df.loc[5, 'b'])") == pytest.approx(5 / 7)


def test_an_array_of_a_table_is_one_value_with_it() -> None:
    with Notebook() as nb:
        nb.run(TABLE)
        nb.run("values = df['a'].values")
        nb.session.rollback("HEAD")
        assert nb.look("np.shares_memory(values, df['a'].values)") is True
