"""One variable on both sides: tables, arrays, texts, dicts, objects and pictures, none of them loaded."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from agent_kernel.errors import NameNotFoundError
from agent_kernel.repository import Blob, Face, Output, Outputs
from agent_kernel.values import summaries
from tests.browsing.histories import Notebook, notebook

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


@pytest.fixture
def nb() -> Iterator[Notebook]:
    with notebook() as made:
        yield made


def table(nb: Notebook, name: str = "df", **args: object) -> tuple[Any, dict[str, str], dict[str, Any]]:
    """The answer, what became of each column, and the rows by label: how, and the cells by column."""
    answer = nb.ask("variable", id="HEAD", name=name, **args)
    face = answer["face"]
    assert face["kind"] == "table"
    names = [column["name"] for column in face["columns"]]
    rows = {row["label"]: (row["how"], dict(zip(names, row["cells"], strict=True))) for row in face["rows"]}
    return answer, {column["name"]: column["how"] for column in face["columns"]}, rows


def test_the_rows_of_a_table_that_changed_come_first_with_old_and_new(nb: Notebook) -> None:
    nb.cells(HOUSES, "df.loc[[12, 57, 233], 'area'] = 0.5\ndf['twice'] = df.rooms * 2")
    answer, columns, rows = table(nb)
    assert answer["how"] == "~"
    assert answer["note"] == "5 of 300 rows, changed ones first. 3 cells changed in area, 1 column added."
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
    assert answer["note"] == "5 of 300,000 rows, changed ones first. 1 cell changed in d, 1 column removed."
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
    assert (answer["how"], answer["note"]) == ("+", "5 of 300 rows.")
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


def test_a_query_that_has_not_run_is_named_and_not_run(nb: Notebook) -> None:
    pytest.importorskip("polars")
    nb.run("import polars as pl\nlazy = pl.LazyFrame({'a': [1]}).filter(pl.col('a') > 0)")
    changes = {change["name"]: change for change in nb.ask("commit", id="HEAD")["changes"]}
    assert changes["lazy"]["type"] == "polars.LazyFrame"
    assert not changes["lazy"]["opens"]


CLASSES = """
import collections, dataclasses
class Point:
    def __init__(self, x): self.x, self.password, self.tags = x, 'geheim', ['a', 'b']
    @property
    def far(self): raise RuntimeError('a property ran')
    def __getattr__(self, name): raise RuntimeError('__getattr__ ran')
    def __repr__(self): raise RuntimeError('__repr__ ran')
@dataclasses.dataclass
class Fit:
    x: int
    name: str = 'linear'
@dataclasses.dataclass(slots=True)
class Slim:
    x: int
    label: str = 'geheim2'
    key: str = 'password'
Pair = collections.namedtuple('Pair', 'x y')
"""


@pytest.mark.parametrize(
    ("make", "rest"),
    [
        ("Point({})", {"password": "•••• masked", "tags": "['a', 'b']"}),
        ("Fit({})", {"name": "'linear'"}),
        ("Slim({})", {"label": "•••• masked", "key": "•••• masked"}),
        ("Pair({}, 7)", {"y": "7"}),
    ],
)
def test_an_object_of_a_class_of_the_notebook_is_shown_by_its_attributes(
    nb: Notebook, make: str, rest: dict[str, str]
) -> None:
    nb.cells(CLASSES, f"one = {make.format(1)}", f"one = {make.format(2)}")
    answer = nb.ask("variable", id="HEAD", name="one")
    assert answer["face"]["kind"] == "pairs"
    rows = {row["label"]: (row["old"], row["new"], row["changed"]) for row in answer["face"]["rows"]}
    # One entry of a record may name what another one holds, and then none is shown.
    x = ("•••• masked", "•••• masked", False) if "key" in rest else ("1", "2", True)
    assert rows == {"x": x, **{name: (text, text, False) for name, text in rest.items()}}
    (change,) = nb.ask("commit", id="HEAD")["changes"]
    assert change["opens"]
    assert "geheim" not in str([answer, change])


def test_of_an_object_with_many_attributes_the_first_are_shown_and_the_others_counted(nb: Notebook) -> None:
    nb.run("class Wide:\n    pass\none = Wide()\nfor n in range(100): setattr(one, f'a{n}', n)")
    nb.run("one.a99 = 0")
    answer = nb.ask("variable", id="HEAD", name="one")
    assert len(answer["face"]["rows"]) == 40
    assert answer["note"] == "40 of 100 attributes; what changed does not show here."


def test_a_summary_that_an_older_release_stored_has_no_attributes() -> None:
    older = summaries.decode(msgspec.msgpack.encode({"k": "object", "t": "Point"}))
    assert (older.columns, older.attributes) == ((), 0)
    assert summaries.lines_diff(older, older) == ["Point: contents may differ"]


def test_a_long_array_is_compared_exactly_by_the_pieces_that_differ(nb: Notebook) -> None:
    nb.cells("import numpy as np\nz = np.arange(600_000.0)", "z[5] = 1\nz[599_999] = 0", "z = z + 1")
    few, all_ = (nb.ask("variable", id=at, name="z")["lines"] for at in ("HEAD~1", "HEAD"))
    assert few == ["2 of 600,000 values differ, between rows 5 and 599,999"]
    assert all_ == ["600,000 of 600,000 values differ, between rows 0 and 599,999"]


def test_where_comparing_takes_long_it_is_said_what_is_left(nb: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_kernel.verbs.unlike._MOST_COMPARED", 2_000_000)
    nb.cells("import numpy as np\nz = np.arange(600_000.0)", "z = z + 1")
    (line,) = nb.ask("variable", id="HEAD", name="z")["lines"]
    assert line.startswith("at least ")
    assert line.endswith(" more lie in pieces that differ and were not compared)")
    monkeypatch.setattr("agent_kernel.verbs.unlike._LONGEST_S", -1.0)
    (line,) = nb.ask("variable", id="HEAD", name="z")["lines"]
    assert line.startswith("at least 0 of 600,000 values differ (600,000 more lie")


def test_an_array_shows_how_its_values_are_spread(nb: Notebook) -> None:
    nb.cells("import numpy as np\nz = np.array([0.0, 1, 2, 3, 40])", "z[4] = 4\nz[0] = np.nan")
    answer = nb.ask("variable", id="HEAD", name="z")
    before, after = answer["face"]["rows"]
    assert (before["label"], after["label"]) == ("before", "after")
    assert len(before["spread"]) == len(after["spread"]) == 16
    assert max(before["spread"]) == max(after["spread"]) == 1
    assert [stat[:2] for stat in before["stats"]] == [["min", "0"], ["mean", "9.2"], ["max", "40"], ["sd", "15.43"]]
    assert after["stats"] == [
        ["min", "1", True],
        ["mean", "2.5", True],
        ["max", "4", True],
        ["sd", "1.118", True],
        ["missing", "1", True],
    ]
    assert answer["lines"] == ["2 of 5 values differ, between rows 0 and 4"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint64", "bool", ">f8", ">i2"])
def test_numbers_of_every_kind_are_read(nb: Notebook, dtype: str) -> None:
    nb.run(f"import numpy as np\nz = np.array([0, 1, 1, 0, 1]).astype('{dtype}').reshape(5, 1)")
    (after,) = nb.ask("variable", id="HEAD", name="z")["face"]["rows"]
    assert [stat[1] for stat in after["stats"]] == ["0", "0.6", "1", "0.4899"]


def test_a_long_array_is_sampled_and_it_is_said(nb: Notebook) -> None:
    nb.run("import numpy as np\nz = np.arange(2_000_000.0)")
    answer = nb.ask("variable", id="HEAD", name="z")
    assert answer["note"] == "Worked out from 262,144 of 2,000,000 values."
    stats = {name: said for name, said, _ in answer["face"]["rows"][0]["stats"]}
    assert stats["min"] == "0"
    assert stats["max"] == "1,999,999"


def test_series_and_tensors_are_arrays_too(nb: Notebook) -> None:
    pytest.importorskip("torch")
    nb.cells("import pandas as pd, torch\ns = pd.Series([1, 2, 3])\nt = torch.arange(4.0)", "s[0] = 9\nt[0] = 5")
    for name in ("s", "t"):
        assert nb.ask("variable", id="HEAD", name=name)["face"]["kind"] == "array"


def test_a_text_is_shown_line_by_line(nb: Notebook) -> None:
    nb.cells("text = 'one\\ntwo\\nthree'", "text = 'one\\nTwo\\nthree\\nfour'")
    face = nb.ask("variable", id="HEAD", name="text")["face"]
    said = [(line["how"], "".join(word for word, _ in line["words"])) for line in face["lines"]]
    assert said == [(" ", "one"), ("-", "two"), ("+", "Two"), (" ", "three"), ("+", "four")]


def test_a_dict_is_shown_key_by_key_and_no_change_inside_is_missed(nb: Notebook) -> None:
    nb.cells("d = {'a': 1, 'b': list(range(50)), 'same': 'x'}", "d['a'] = 2\nd['b'][40] = 7\nd['new'] = None")
    face = nb.ask("variable", id="HEAD", name="d")["face"]
    assert face["kind"] == "pairs"
    assert {row["label"]: (row["old"], row["new"], row["changed"]) for row in face["rows"]} == {
        "'a'": ("1", "2", True),
        "'b'": ("[0, 1, 2, …]", "[0, 1, 2, …]", True),
        "'same'": ("'x'", "'x'", False),
        "'new'": (None, "None", True),
    }


def test_a_change_beyond_the_keys_that_are_shown_is_said_to_be_there(nb: Notebook) -> None:
    nb.cells("d = {n: n for n in range(90)}", "d[80] = 0")
    answer = nb.ask("variable", id="HEAD", name="d")
    assert not any(row["changed"] for row in answer["face"]["rows"])
    assert answer["note"] == "40 of 90 keys; what changed does not show here."


def test_an_object_is_shown_by_its_attributes(nb: Notebook) -> None:
    pytest.importorskip("sklearn")
    fit = "m = Ridge(alpha={}).fit([[0.0], [1], [2]], [0.0, 1, 2])"
    nb.cells(f"from sklearn.linear_model import Ridge\n{fit.format(1.0)}", fit.format(3.0))
    assert nb.ask("commit", id="HEAD")["changes"][0]["opens"]
    rows = {row["label"]: row for row in nb.ask("variable", id="HEAD", name="m")["face"]["rows"]}
    assert (rows["alpha"]["old"], rows["alpha"]["new"], rows["alpha"]["changed"]) == ("1.0", "3.0", True)
    assert rows["coef_"]["old"] == "[0.666667]"
    assert not rows["fit_intercept"]["changed"]


def test_figures_are_the_pictures_that_their_cells_showed(nb: Notebook) -> None:
    pytest.importorskip("matplotlib")
    pictures = [b"\x89PNG first", b"\x89PNG second"]
    for number, picture in enumerate(pictures):
        face = Face("image/png", "bytes", len(picture), blob=Blob(len(picture), picture))
        shown = Outputs(version=1, outputs=(Output(kind="display_data", faces=(face,)),))
        nb.run(f"from matplotlib.figure import Figure\nfig = Figure(figsize=({number + 1}, 1))", shows=shown)
    change = next(one for one in nb.ask("commit", id="HEAD")["changes"] if one["name"] == "fig")
    assert change["opens"]
    answer = nb.ask("variable", id="HEAD", name="fig")
    uris = [f"data:image/png;base64,{b64encode(picture).decode()}" for picture in pictures]
    assert answer["face"] == {"kind": "pictures", "before": uris[0], "after": uris[1]}
    assert answer["note"] == "As [1] and [2] showed it."
    assert not [line for line in answer["lines"] if "may differ" in line]  # the line above has said that they do


def test_a_figure_that_no_cell_showed_has_no_picture(nb: Notebook) -> None:
    pytest.importorskip("matplotlib")
    nb.run("from matplotlib.figure import Figure\nfig = Figure()")
    answer = nb.ask("variable", id="HEAD", name="fig")
    assert answer["face"] is None
    assert answer["note"] == "No cell that changed it showed a picture of it."


def test_a_variable_is_as_the_commit_says_it_is(nb: Notebook) -> None:
    nb.cells("class P:\n    x = 1\np = P()\nother = 1", "P.x = 2")
    for change in nb.ask("commit", id="HEAD")["changes"]:
        assert nb.ask("variable", id="HEAD", name=change["name"])["how"] == change["how"]
    assert nb.ask("variable", id="HEAD", name="other")["how"] == "="


def test_what_cannot_be_looked_into_says_so(nb: Notebook) -> None:
    nb.cells("class P(str):\n    pass\np = P('a')", "p = P('b')")
    answer = nb.ask("variable", id="HEAD", name="p")
    assert answer["face"] is None
    assert answer["lines"] or answer["note"]
    assert nb.ask("variable", id="HEAD~1", name="p")["note"] == "There is no more to see of it without loading it."


def test_a_secret_is_not_shown(nb: Notebook) -> None:
    nb.cells("password = 'geheim'", "password = 'geheimer'")
    answer = nb.ask("variable", id="HEAD", name="password")
    assert "geheim" not in str(answer)
    assert answer["note"] == "Its name says that it is a secret, so it is not shown."


def test_a_name_that_neither_side_has_is_not_found(nb: Notebook) -> None:
    nb.run("houses = 1")
    with pytest.raises(NameNotFoundError, match="did you mean houses"):
        nb.ask("variable", id="HEAD", name="house")


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
