"""A table on both sides: the rows and cells that changed, with old and new, and nothing loaded."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.queries.histories import Notebook

HOUSES = """
import numpy as np
import pandas as pd
df = pd.DataFrame({
    'district': [f'd{n % 7}' for n in range(300)],
    'area': np.arange(300.0),
    'rooms': np.arange(300) % 5,
    'sold': pd.date_range('2026-01-01', periods=300),
    'kind': pd.Categorical(['flat', 'house'] * 150),
    'new': [True, False] * 150,
})
"""


def table(nb: Notebook, name: str = "df", **args: object) -> tuple[Any, dict[str, str], dict[str, Any]]:
    """The answer, what became of each column, and the rows by label: how, and the cells by column."""
    answer = nb.ask("variable", id="HEAD", name=name, **args)
    face = answer["face"]
    assert face["kind"] == "table"
    names = [column["name"] for column in face["columns"]]
    rows = {row["label"]: (row["how"], dict(zip(names, row["cells"], strict=True))) for row in face["rows"]}
    return answer, {column["name"]: column["how"] for column in face["columns"]}, rows


def test_of_a_boolean_column_the_counts_stand_below_the_rows(nb: Notebook) -> None:
    nb.cells(
        "import pandas as pd\ndf = pd.DataFrame({'id': range(9), 'new': [True] * 3 + [False] * 6})",
        "df['new'] = ~df.new",
    )
    assert table(nb)[0]["note"].endswith("new: True 3, False 6 → True 6, False 3.")


def test_the_rows_of_a_table_that_changed_come_first_with_old_and_new(nb: Notebook) -> None:
    nb.cells(HOUSES, "df.loc[[12, 57, 233], 'area'] = 0.5\ndf['twice'] = df.rooms * 2")
    answer, columns, rows = table(nb)
    assert answer["how"] == "~"
    assert answer["note"] == "3 cells changed in area, 1 column added. Shows 5 of 300 rows."
    assert columns == {
        **dict.fromkeys(["district", "rooms", "sold", "kind", "new"], ""),
        "area": "~",
        "twice": "+",
    }
    assert list(rows) == ["12", "57", "233", "0", "1"]
    assert [how for how, _ in rows.values()] == ["~", "~", "~", "", ""]
    assert rows["57"][1]["area"] == {"old": "57.0", "new": "0.5", "how": "~"}
    assert rows["57"][1]["twice"] == {"old": None, "new": "4", "how": "+"}


def test_cells_of_every_common_kind_are_read(nb: Notebook) -> None:
    nb.cells(HOUSES, "df.loc[8, 'rooms'] = 9\ndf.loc[8, 'area'] = np.nan")
    _, _, rows = table(nb)
    cells = {name: cell["new"] for name, cell in rows["8"][1].items()}
    assert cells == {
        "district": "d1",
        "area": "missing",
        "rooms": "9",
        "sold": "2026-01-09",
        "kind": "flat",
        "new": "True",
    }


def test_the_numbers_of_a_column_line_up(nb: Notebook) -> None:
    nb.run(
        "import pandas as pd\n"
        "df = pd.DataFrame({'area': [96.0, 118.25, -3.5], 'price': [318_000, 9_500, -12], 'year': [1931, 1988, 2024],\n"
        "    'tiny': [1e-9, 2e-9, 3.5e-9], 'third': [1 / 3, 2 / 3, 100.0]})"
    )
    _, _, rows = table(nb)
    assert {name: [rows[label][1][name]["new"] for label in "012"] for name in rows["0"][1]} == {
        "area": ["96.00", "118.25", "−3.50"],
        "price": ["318,000", "9,500", "−12"],
        "year": ["1931", "1988", "2024"],
        "tiny": ["1e-09", "2e-09", "3.5e-09"],
        "third": ["0.3333", "0.6667", "100.0000"],
    }


def test_texts_dates_and_categories_that_changed_are_found(nb: Notebook) -> None:
    nb.cells(
        HOUSES,
        "df.loc[3, 'district'] = 'other'\ndf.loc[4, 'sold'] = pd.Timestamp('2026-02-01 12:30')\ndf.loc[5, 'kind'] = 'flat'",
    )
    _, columns, rows = table(nb)
    assert {name for name, how in columns.items() if how == "~"} == {"district", "sold", "kind"}
    assert rows["3"][1]["district"] == {"old": "d3", "new": "other", "how": "~"}
    assert rows["4"][1]["sold"] == {"old": "2026-01-05", "new": "2026-02-01 12:30:00", "how": "~"}
    assert rows["5"][1]["kind"] == {"old": "house", "new": "flat", "how": "~"}


def test_texts_that_are_pythons_own_are_read_and_their_changes_found(nb: Notebook) -> None:
    nb.run(
        "import pandas as pd\n"
        "python = pd.StringDtype('python')\n"
        "df = pd.DataFrame({'o': pd.Series(['a', None, 3, [1]], dtype=object), 'p': ['b', 'c', 'd', 'e']})\n"
        "df['s'] = pd.array(['x', None, 'y', 'z'], dtype=python)\n"
        "df.index = pd.Index(['k', 'l', 'm', 'n'], dtype=object)"
    )
    nb.run("df.loc['l', 'o'] = 'new'\ndf.loc['k', 's'] = 'changed'")
    _, columns, rows = table(nb)
    assert {name for name, how in columns.items() if how == "~"} == {"o", "s"}
    assert rows["l"][1]["o"] == {"old": "missing", "new": "new", "how": "~"}
    assert rows["k"][1]["s"] == {"old": "x", "new": "changed", "how": "~"}
    assert {label: row["o"]["new"] for label, (_, row) in rows.items()} == {"k": "a", "l": "new", "m": "3", "n": None}


def test_columns_that_only_lie_elsewhere_are_the_same(nb: Notebook) -> None:
    nb.run(
        "import numpy as np, pandas as pd\ndf = pd.DataFrame(np.arange(1_200_000.0).reshape(-1, 4), columns=list('abcd'))"
    )
    nb.run("del df['b']\ndf = df.copy()\ndf.loc[299_999, 'd'] = np.nan")
    answer, columns, rows = table(nb)
    assert columns == {"a": "", "c": "", "d": "~", "b": "-"}
    assert answer["note"] == "1 cell changed in d, 1 column removed. Shows 5 of 300,000 rows."
    assert next(iter(rows)) == "299999"


def test_cells_that_cannot_be_read_are_not_said_to_have_changed(nb: Notebook) -> None:
    nb.run("import pandas as pd\ndf = pd.DataFrame({'o': pd.Series([[1], [2], 'x'], dtype=object), 'n': [1, 2, 3]})")
    nb.run("df.loc[2, 'o'] = 'y'\ndf['new'] = 1")
    answer, columns, rows = table(nb)
    assert columns == {"o": "~", "n": "", "new": "+"}
    assert {label: how for label, (how, _) in rows.items()} == {"2": "~", "0": "", "1": ""}
    assert rows["0"][1]["o"] == {"old": None, "new": None, "how": ""}
    assert answer["note"] == "o changed, 1 column added."


def test_numbers_that_may_be_missing_and_labels_of_several_parts_are_read(nb: Notebook) -> None:
    nb.run(
        "import pandas as pd\n"
        "labels = pd.MultiIndex.from_tuples([('a', 1), ('a', 2), ('b', 1)])\n"
        "df = pd.DataFrame({'n': pd.array([1, None, 3], dtype='Int64')}, index=labels)"
    )
    nb.run("df.loc[('a', 2), 'n'] = 7")
    _, _, rows = table(nb)
    assert rows["a, 2"][1]["n"] == {"old": "missing", "new": "7", "how": "~"}
    assert rows["b, 1"][1]["n"]["new"] == "3"


def test_rows_that_went_and_came_are_told_by_their_labels(nb: Notebook) -> None:
    nb.cells(
        HOUSES, "df = df.drop(index=[2, 5])\ndf.loc[1000] = ['x', 1.5, 1, df.sold[0], 'flat', True]\ndel df['new']"
    )
    answer, columns, rows = table(nb)
    assert {label: how for label, (how, _) in rows.items() if how} == {"1000": "+", "2": "-", "5": "-"}
    assert rows["1000"][1]["area"] == {"old": None, "new": "1.5", "how": ""}
    assert rows["2"][1]["area"] == {"old": "2.0", "new": None, "how": ""}
    assert columns["new"] == "-"
    assert "1 row added, 2 rows removed, 1 column removed" in answer["note"]


def test_rows_keep_their_labels_when_others_before_them_go(nb: Notebook) -> None:
    nb.cells(HOUSES, "df = df.drop(index=range(100))\ndf.loc[250, 'area'] = 1.0")
    answer, _, rows = table(nb)
    assert rows["250"][0] == "~"
    assert "1 cell changed in area, 100 rows removed" in answer["note"]


def test_many_rows_are_still_compared_one_by_one_when_others_went(nb: Notebook) -> None:
    nb.run("import numpy as np, pandas as pd\ndf = pd.DataFrame({'a': np.arange(90_000), 'b': np.arange(90_000.0)})")
    nb.run("df = df[df.a % 3 != 0]\ndf.loc[50_000, 'b'] = -1")
    answer, _, rows = table(nb)
    assert rows["50000"][1]["b"] == {"old": "50,000.0", "new": "−1.0", "how": "~"}
    assert "1 cell changed in b, 30,000 rows removed" in answer["note"]


def test_where_rows_cannot_be_told_apart_it_is_said_with_what_is_known(nb: Notebook) -> None:
    nb.run("import pandas as pd\ndf = pd.DataFrame({'a': range(4)}, index=[1, 1, 2, 2])")
    nb.run("df = df[df.a > 1]")
    answer, _, rows = table(nb)
    assert not rows
    assert answer["note"] == "The rows of the two versions cannot be told apart by their labels."
    assert "rows 4 → 2 (−2)" in answer["lines"]


def test_of_too_many_rows_only_the_numbers_are_told(nb: Notebook) -> None:
    nb.run("import numpy as np, pandas as pd\ndf = pd.DataFrame({'a': np.arange(200_000)})")
    nb.run("df = df[df.a > 1]")
    answer, _, rows = table(nb)
    assert not rows
    assert answer["note"] == "There are too many rows to compare them by their labels."
    assert "rows 200,000 → 199,998 (−2)" in answer["lines"]


GAPS = """
import numpy as np
import pandas as pd
df = pd.DataFrame({
    'district': [f'd{n % 7}' for n in range(1_422)],
    'area': np.arange(1_422) * 1.5,
    'rooms': np.arange(1_422) % 5,
    'sold': pd.date_range('2026-01-01', periods=1_422),
    'kind': pd.Categorical(['flat', 'house', 'mill'] * 474),
    'new': [True, False] * 711,
})
df.loc[np.arange(17, 1_417, 35), 'area'] = np.nan
df.loc[3, 'district'] = None
df = df.copy()
"""


def test_rows_that_were_numbered_anew_are_told_by_what_they_hold(nb: Notebook) -> None:
    nb.cells(GAPS, "df = df.dropna(subset=['area']).reset_index(drop=True)")
    answer, columns, rows = table(nb)
    assert answer["note"] == "40 rows removed; the rest moved up. Shows 5 of 1,422 rows."
    assert set(columns.values()) == {""}
    assert [(label, how) for label, (how, _) in rows.items()][:4] == [
        ("17", "-"),
        ("52", "-"),
        ("87", "-"),
        ("122", "-"),
    ]
    assert rows["17"][1]["district"] == {"old": "d3", "new": None, "how": ""}


def test_among_rows_that_moved_the_cells_that_changed_are_found(nb: Notebook) -> None:
    nb.cells(
        GAPS,
        "df = df.dropna(subset=['area']).reset_index(drop=True)\ndf.loc[700, 'rooms'] = 99\n"
        "df = df.iloc[[0, 5, *range(1, len(df))]].reset_index(drop=True)\n"
        "df.loc[1, ['district', 'area', 'rooms', 'kind']] = ['x', -1.0, 77, 'mill']",
    )
    answer, columns, rows = table(nb)
    assert "40 rows removed, 1 row added; the rest moved. 1 cell changed in rooms." in answer["note"]
    assert {name for name, how in columns.items() if how} == {"rooms"}
    assert rows["701"][0] == "~"
    assert rows["701"][1]["rooms"]["new"] == "99"
    assert rows["1"][0] == "+"


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ("df = df.sort_values('area', ascending=False, ignore_index=True)", "The rows are in another order."),
        ("df = df.iloc[[*range(9), *range(10, len(df)), 9]].reset_index(drop=True)", "1 row stands elsewhere."),
        ("df = df[df.index % 2 == 0]", "711 rows removed."),
        ("df = df.head(1_000)", "422 rows removed."),
        (
            "df = df.iloc[[5, 6, *range(len(df))]].reset_index(drop=True)\ndf.loc[[0, 1], 'area'] = 0.25",
            "2 rows added; the rest moved down.",
        ),
        ("df['area'] = df.area * 2", "1,381 cells changed in area."),
        ("df = df.sort_values('area', ascending=False)", "The rows are in another order."),
        (
            "df = df.dropna(subset=['area']).reset_index(drop=True)\ndf['rooms'] += 1",
            "40 rows removed; the rest moved up. 1,382 cells changed in rooms.",
        ),
        (
            "df = df.dropna(subset=['area']).reset_index(drop=True)\ndf['rooms'] += 1\ndf['kind'] = df.kind.str.upper()",
            "40 rows removed; the rest moved up. 1,382 cells changed in rooms, 1,382 cells changed in kind.",
        ),
    ],
)
def test_what_leaves_the_least_to_say_is_said(nb: Notebook, change: str, note: str) -> None:
    nb.cells(GAPS, change)
    assert note in table(nb)[0]["note"]


def test_labels_with_gaps_that_are_numbered_anew_are_no_change_of_the_rows(nb: Notebook) -> None:
    nb.cells(GAPS, "df = df.dropna(subset=['area'])", "df = df.reset_index(drop=True)")
    answer, columns, _ = table(nb)
    assert answer["note"] == "The rows have other labels. Shows 5 of 1,382 rows."
    assert set(columns.values()) == {""}


def test_rows_that_are_all_alike_or_repeat_themselves_are_matched(nb: Notebook) -> None:
    nb.run("import pandas as pd\ndf = pd.DataFrame({'a': [0, 1] * 5_000, 'b': [1, 0] * 5_000})")
    nb.run("df = df.drop(index=[3, 500, 7_001]).reset_index(drop=True)")
    assert "3 rows removed; the rest moved up." in table(nb)[0]["note"]


def test_numbers_of_equal_hash_are_other_rows(nb: Notebook) -> None:
    nb.run("import pandas as pd\ndf = pd.DataFrame({'a': [-1, -2, 7] * 40, 'n': range(120)})")
    nb.run("df = df.iloc[1:].reset_index(drop=True)\ndf.loc[[50, 60], 'a'] = [-2, 7]")
    answer, _, rows = table(nb)
    assert "1 row removed; the rest moved up. 2 cells changed in a." in answer["note"], answer["note"]
    assert {label for label, (how, _) in rows.items() if how == "~"} == {"50", "60"}


@pytest.mark.parametrize("tenth", [9_000, pytest.param(90_000, marks=pytest.mark.slow)])
def test_a_million_rows_that_were_numbered_anew_take_seconds(nb: Notebook, tenth: int) -> None:
    """A tenth of that is enough to see that it takes a tenth of the time."""
    n = 10 * tenth
    nb.run(
        "import numpy as np, pandas as pd\n"
        f"df = pd.DataFrame({{'a': np.arange({n}), 'b': np.arange({n}) * 0.5, 'c': ['x', 'y'] * {n // 2}}})"
    )
    nb.run(
        f"df = df.drop(index=np.arange(10, {4 * tenth} + 10, {tenth // 10})).reset_index(drop=True)\n"
        f"df.loc[{5 * tenth}, 'b'] = -1.5"
    )
    began = time.process_time()
    answer, _, rows = table(nb)
    assert time.process_time() - began < n / 30_000
    assert "40 rows removed; the rest moved up. 1 cell changed in b." in answer["note"]
    assert rows[str(5 * tenth)][0] == "~"


def test_labels_may_be_texts(nb: Notebook) -> None:
    nb.cells("import pandas as pd\ndf = pd.DataFrame({'n': [1, 2, 3]}, index=['a', 'b', 'c'])", "df.loc['b', 'n'] = 7")
    _, _, rows = table(nb)
    assert list(rows) == ["b", "a", "c"]


def test_two_floats_that_read_the_same_are_told_apart(nb: Notebook) -> None:
    nb.cells("import pandas as pd\ndf = pd.DataFrame({'n': [0.1]})", "df.loc[0, 'n'] = 0.1 + 1e-12")
    _, _, rows = table(nb)
    assert rows["0"][1]["n"]["old"] != rows["0"][1]["n"]["new"]


def test_a_table_that_is_new_is_shown_as_it_is(nb: Notebook) -> None:
    nb.run(HOUSES)
    answer, columns, rows = table(nb)
    assert (answer["how"], answer["note"]) == ("+", "Shows 5 of 300 rows.")
    assert set(columns.values()) == {""}
    assert rows["0"] == ("", {**rows["0"][1], "area": {"old": None, "new": "0.0", "how": ""}})


def test_of_a_wide_table_the_columns_that_changed_are_shown(nb: Notebook) -> None:
    nb.run("import pandas as pd\ndf = pd.DataFrame({f'c{n}': [n] for n in range(200)})")
    nb.run("df.loc[0, 'c150'] = 0")
    answer, columns, _ = table(nb)
    assert len(columns) == 12
    assert columns["c150"] == "~"
    assert "12 of 200 columns." in answer["note"]


def test_columns_and_records_that_name_a_secret_stay_hidden(nb: Notebook) -> None:
    nb.run("import pandas as pd\ndf = pd.DataFrame({'password': ['geheim1'], 'x': [1]})")
    nb.run("pairs = pd.DataFrame({'name': ['password', 'city'], 'value': ['geheim2', 'Rome']})")
    nb.run("df.loc[0, 'password'] = 'geheim3'\npairs.loc[:, 'value'] = ['geheim4', 'Oslo']")
    text = str([nb.ask("variable", id="HEAD", name=name) for name in ("df", "pairs")])
    assert "geheim" not in text
    assert "Oslo" in text


def test_a_table_that_is_not_read_is_shown_as_it_was_noted(nb: Notebook) -> None:
    polars = pytest.importorskip("polars")
    assert polars
    nb.cells(
        "import polars as pl\ndf = pl.DataFrame({'a': [1, 2], 'b': ['x', 'y']})", "df = df.with_columns(c=pl.lit(7))"
    )
    answer, columns, rows = table(nb)
    assert columns == {"a": "", "b": "", "c": "+"}
    assert rows["row 1"][1]["a"] == {"old": "2", "new": "2", "how": ""}
    assert "as they were noted" in answer["note"]


def test_a_series_that_is_not_read_is_shown_by_its_first_values(nb: Notebook) -> None:
    pytest.importorskip("polars")
    nb.cells("import polars as pl\ns = pl.Series('area', range(9))", "s = s + (s == 2)")
    answer, _, rows = table(nb, "s")
    assert rows["row 2"] == ("~", {"values": {"old": "2", "new": "3", "how": "~"}})
    assert rows["row 1"][0] == ""
    assert "first values as they were noted" in answer["note"]


def test_a_removed_variable_is_what_it_was(nb: Notebook) -> None:
    nb.cells(HOUSES, "del df")
    answer, _, rows = table(nb)
    assert answer["how"] == "-"
    assert rows["0"][1]["area"] == {"old": "0.0", "new": None, "how": ""}


def test_a_table_in_thousands_of_pieces_is_read_where_it_changed(nb: Notebook) -> None:
    nb.run(
        "import numpy as np, pandas as pd\ndf = pd.DataFrame({'a': np.arange(1_000_000), 'b': np.arange(1_000_000.0)})"
    )
    nb.run("df.loc[654_321, 'b'] = -1.5")
    answer, _, rows = table(nb)
    assert next(iter(rows)) == "654321"
    assert "1 cell changed in b" in answer["note"]


WORDS = """
import numpy as np
import pandas as pd
words = [f'w{n % 5_000}' for n in range(20_000)]
python = pd.StringDtype('python')
many = pd.DataFrame({'word': pd.Series(words, dtype=object), 'back': pd.Series(words[::-1], dtype=object)})
many['n'] = np.arange(20_000)
alone = pd.DataFrame({'word': pd.Series([f'x{n}' for n in range(20_000)], dtype=object)})
block = pd.DataFrame(np.array([words, words[::-1]], dtype=object).T.copy(order='F'), columns=['word', 'back'])
text = pd.DataFrame({'word': pd.array(words, dtype=python)})
named = pd.DataFrame({'n': np.arange(20_000)}, index=pd.Index(alone.word.copy(), dtype=object))
levels = pd.DataFrame({'n': np.arange(20_000)}, index=pd.MultiIndex.from_arrays([words, np.arange(20_000)]))
gone = pd.DataFrame({'word': pd.Series(words, dtype=object)})
mixed = pd.DataFrame({'word': pd.Series([('a', n % 3) if n % 2 else n % 7 for n in range(20_000)], dtype=object)})
column = pd.Series(words, dtype=object)
short = pd.Series(['a', 'b', None], dtype=object)
shared = also = pd.DataFrame({'word': pd.Series(words, dtype=object), 'n': np.arange(20_000)})
array = np.array(words, dtype=object)
numbers = np.rec.array([(n, n / 2) for n in range(20)])
"""
CHANGES = """
many.loc[12_345, 'word'] = 'new'
many.loc[777, 'back'] = None
alone.loc[777, 'word'] = 3.5
block.loc[9, 'back'] = 'w1'
text.loc[4, 'word'] = 'new'
named.iloc[5, 0] = -1
levels.iloc[3, 0] = -1
gone = gone.drop(index=[3, 4])
gone.loc[9, 'word'] = 'new'
mixed.loc[[2, 3], 'word'] = 'new'
column[17] = 'new'
short[1] = 'new'
shared.loc[1, 'word'] = 'new'
array[7] = array[9_000] = 'new'
numbers[5] = (-1, 0.5)
"""


def test_long_columns_of_objects_are_read_and_compared_row_by_row(nb: Notebook) -> None:
    nb.cells(WORDS, CHANGES)
    first = {
        "many": ("777", "back", "w4222", "missing", "1 cell changed in word, 1 cell changed in back."),
        "alone": ("777", "word", "x777", "3.5", "1 cell changed in word."),
        "block": ("9", "back", "w4990", "w1", "1 cell changed in back."),
        "text": ("4", "word", "w4", "new", "1 cell changed in word."),
        "named": ("x5", "n", "5", "−1", "1 cell changed in n."),
        "levels": ("w3, 3", "n", "3", "−1", "1 cell changed in n."),
        "gone": ("9", "word", "w9", "new", "1 cell changed in word, 2 rows removed."),
        "mixed": ("2", "word", "2", "new", "2 cells changed in word."),
        "column": ("17", "values", "w17", "new", "1 cell changed in values."),
        "short": ("1", "values", "b", "new", "1 cell changed in values."),
        "shared": ("1", "word", "w1", "new", "1 cell changed in word."),
        "also": ("1", "word", "w1", "new", "1 cell changed in word."),
    }
    for name, (label, column, old, new, note) in first.items():
        answer, _, rows = table(nb, name)
        assert next(iter(rows)) == label, name
        assert rows[label][1][column] == {"old": old, "new": new, "how": "~"}, name
        assert note in answer["note"], name
    lines = {name: nb.ask("variable", id="HEAD", name=name)["lines"] for name in ("array", "numbers")}
    assert lines["array"][-1:] == ["2 of 20,000 values differ, between rows 7 and 9,000"]
    assert lines["numbers"][-1] == "1 of 20 values differs: row 5"
    changes = {change["name"]: change for change in nb.ask("commit", id="HEAD")["changes"]}
    assert all(changes[name]["opens"] for name in first)


def test_equal_objects_are_the_same_and_different_ones_that_count_as_equal_are_not(nb: Notebook) -> None:
    nb.run(
        "import pandas as pd\n"
        "found = [n % 9 for n in range(20_000)]\n"
        "one = pd.Series(found, dtype=object)\n"
        "other = pd.Series([float('nan') if not n else str(n) for n in found], dtype=object)"
    )
    nb.run(
        "one[10_001] = True if one[10_001] == 1 else float(one[10_001])\n"
        "other[10_001] = ''.join(list(other[10_001])); other[0] = float('nan'); other[5] = 'new'"
    )
    assert "1 cell changed in values." in table(nb, "one")[0]["note"]
    assert "1 cell changed in values." in table(nb, "other")[0]["note"]


def test_tables_that_share_memory_or_hang_on_a_module_are_read(nb: Notebook) -> None:
    nb.run("import pandas as pd, warnings\ndf = pd.DataFrame({'a': range(5), 'b': list('vwxyz')})")
    nb.run("other = df.copy(deep=False)\nheld = pd.DataFrame({'a': [1, 2]})\nheld.attrs['of'] = warnings.filters")
    nb.run("df.loc[1, 'b'] = 'new'\nother.loc[2, 'a'] = 7\nheld.loc[1, 'a'] = 7")
    # Before pandas 3 both write to one memory.
    both = {"1": "~", "2": "~"} if pytest.importorskip("pandas").__version__ < "3" else None
    for name, changed in (("df", both or {"1": "~"}), ("other", both or {"2": "~"}), ("held", {"1": "~"})):
        assert {row: how for row, (how, _) in table(nb, name)[2].items() if how} == changed, name


def test_columns_that_are_views_of_memory_are_read_where_they_lie(nb: Notebook) -> None:
    nb.run(
        "import numpy as np, pandas as pd\n"
        "memory = np.arange(24.0).reshape(6, 4)\n"
        "df = pd.DataFrame(memory, columns=list('abcd'), copy=False)\n"
        "back = pd.DataFrame(memory[::-1, 1:3], columns=list('xy'), copy=False)\n"
        "days = pd.DataFrame(memory.astype('i8').view('M8[s]'), columns=list('abcd'), copy=False)"
    )
    # Named, for a frame over a reversed view is not known to share the memory, and is looked at in its turn.
    nb.run("memory[1, 2] = -5; memory[4, 1] = 50; days.iloc[3, 1] = pd.Timestamp(0); len(back)")
    for name, cells in {
        "df": {("1", "c"): ("6", "−5"), ("4", "b"): ("17", "50")},
        "back": {("4", "y"): ("6", "−5"), ("1", "x"): ("17", "50")},
        "days": {("3", "b"): ("1970-01-01 00:00:13", "1970-01-01")},
    }.items():
        rows = table(nb, name)[2]
        found = {(row, at): cell for row, (_, cells) in rows.items() for at, cell in cells.items() if cell["how"]}
        assert found.keys() == cells.keys(), name
        told = {
            place: tuple(str(cell[side]).removesuffix(".0") for side in ("old", "new")) for place, cell in found.items()
        }
        assert told == cells, name


@pytest.mark.parametrize(
    ("made", "changed"),
    [
        ("years = np.arange(2000, 2006)\ndf = pd.DataFrame({'v': range(6)}, index=years)", "years[1] = 7"),
        ("years = np.arange(12)[::2]\ndf = pd.DataFrame({'v': range(6)}, index=years[::-1])", "df.loc[8, 'v'] = 7"),
        ("a = np.array([*'abcdef'], dtype=object)\ndf = pd.DataFrame({'v': range(6)}, index=a)", "df.loc['c', 'v'] = 7"),
        ("a = np.array([*'abcde', 1], dtype=object)\ndf = pd.DataFrame({'v': range(3)}, index=a[::-2])", "a[3] = 'z'"),
        ("df = pd.DataFrame({'v': np.arange(6)}).set_index('v', drop=False)", "df.loc[4, 'v'] = 7"),
        ("a = np.arange(6).reshape(3, 2)\ndf = pd.DataFrame(a[::-1], columns=['v', 'w'], copy=False)", "a[0, 0] = 7"),
        ("a = np.array([*'abcde', 1], dtype=object)\ndf = pd.DataFrame({'v': a[1::2]}, copy=False)", "a[3] = '7'"),
        ("a = np.array([*range(9), *map(str, range(9, 20_000))], dtype=object)\ndf = pd.DataFrame({'v': a[::-3]}, copy=False)", "a[4] = 'x'"),
    ],
)  # fmt: skip
def test_tables_over_the_array_of_a_variable_are_read(nb: Notebook, made: str, changed: str) -> None:
    nb.run("import numpy as np, pandas as pd\n" + made)
    nb.run(changed)
    answer, _, rows = table(nb)
    live: Any = nb.namespace["df"]
    expected = {str(label): str(value) for label, value in zip(live.index, live["v"], strict=True)}
    shown = {label: cells["v"]["new"] for label, (how, cells) in rows.items() if how != "-"}
    assert shown == {label: expected[label] for label in shown}
    assert len(shown) >= 3
    assert "1 of" in answer["note"] or "1 cell changed" in answer["note"] or "1 row" in answer["note"], answer["note"]
