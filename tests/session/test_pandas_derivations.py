"""What pandas derives from a table is a value of its own: a change to one is reported and undone for that one alone.

Under copy-on-write a derived table may share memory with the first until one of them is written to. Nobody can see
that, so it groups nothing.
"""

from __future__ import annotations

import pytest

from tests.support.notebooks import Notebook, names_changed

pytest.importorskip("pandas", minversion="3.0")

TABLE = (
    "import pandas as pd, numpy as np\n"
    "df = pd.DataFrame({'a': np.arange(1000), 'b': np.arange(1000) / 7, 'g': ['x', 'y'] * 500, 'o': [1, 'x'] * 500})\n"
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


@pytest.mark.sampled
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


def test_an_index_with_a_name_is_one_value_with_its_table_and_with_no_other() -> None:
    with Notebook() as nb:
        nb.run(TABLE)
        nb.run("rows, columns = df.index, df.columns")
        nb.run("part, more, shallow = df[['a']], df.assign(c=1), df.copy(deep=False)")
        kept = nb.look("(part, more, shallow)")
        report = nb.run("df.loc[5, 'b'] = 9.0; columns.name = 'of it'")
        assert {change.name for change in report.changed} == {"df", "columns"}
        nb.session.undo()
        assert nb.look("(part, more, shallow)") == kept
        assert nb.look("df.index is rows and df.columns is columns and columns.name is None") is True


@pytest.mark.sampled
@pytest.mark.parametrize("column", ["a", "b", "text", "date", "category", "masked", "span", "mixed"])
def test_tables_in_one_value_share_memory_until_one_is_written_to(column: str) -> None:
    with Notebook() as nb:
        nb.run(
            "import pandas as pd\n"
            "df = pd.DataFrame({'a': range(9), 'b': 0.5, 'text': list('xyz') * 3, 'masked': pd.array([1, 2, None] * 3)})\n"
            "df['date'], df['span'] = pd.date_range('2024', periods=9), pd.interval_range(0, 9)\n"
            "df['category'], df['mixed'] = df['text'].astype('category'), [1, 'x', None] * 3"
        )
        made = nb.run(f"box = [df['{column}'], df, df[['{column}']], df['{column}'].rename('q'), df.copy(deep=False)]")
        nb.run("del box, df")
        nb.checkout(made)
        for number in range(5):
            written = f"box[{number}]" if number in (0, 3) else f"box[{number}]['{column}']"
            before = nb.look(f"[repr(part) for part in box[:{number}] + box[{number + 1}:]]")
            where = f"box[{number}].iloc[0]" if number in (0, 3) else f"box[{number}].loc[0, '{column}']"
            nb.execute(f"{where} = {written}.iloc[1]")
            assert nb.look(f"[repr(part) for part in box[:{number}] + box[{number + 1}:]]") == before


@pytest.mark.parametrize("part", ["df.n.values", "df.index", "df.columns", "[df]", "df.T", "{'n': df.kind.array}"])
@pytest.mark.parametrize("others", ["same = df", "same = df; third = df", "same = df; holder = [df]"])
def test_a_table_with_several_names_is_no_change_when_something_holds_a_part_of_it(part: str, others: str) -> None:
    with Notebook() as nb:
        nb.run(f"import pandas as pd\ndf = pd.DataFrame({{'n': [1, 2], 'kind': ['a', 'b']}})\n{others}")
        made = nb.run(f"part = {part}")
        assert names_changed(made) == {"part"}
        changed = nb.run("df.loc[0, 'n'] = 3")
        assert names_changed(changed) >= {"df", "same"}
        nb.checkout(made)
        assert nb.look("(list(df.n), same is df)") == ([1, 2], True)
