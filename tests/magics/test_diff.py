"""`diff` says where tables and arrays differ, from what is stored and without loading it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.magics.shells import Shell

TABLE = (
    "import pandas as pd, numpy as np\n"
    "df = pd.DataFrame({'a': np.arange(100_000), 'b': np.arange(100_000) / 7, 'c': 1.5, 'g': ['x', 'y'] * 50_000,\n"
    "    't': pd.date_range('2020', periods=100_000, freq='s'), 'k': pd.Categorical(['u', 'v'] * 50_000)})"
)


def details(shell: Shell, before: str, cell: str) -> list[str]:
    for line in (before, cell):
        typed = shell.run(line)
        assert typed.result.success, typed.out
    rows = shell.run("%agent diff HEAD~1 HEAD --json").json["changed"]
    assert len(rows) == 1
    found: list[str] = rows[0]["details"]
    return found


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("df.loc[50_005, 'b'] = 9", ["column b: 1 of 100,000 rows differs: row 50,005"]),
        ("df.loc[70_000:70_009, 'c'] = 9", ["column c: 10 of 100,000 rows differ, between rows 70,000 and 70,009"]),
        (
            "df.loc[99_999, 'a'] = 0; df.loc[9, 'b'] = 0",
            ["column a: 1 of 100,000 rows differs: row 99,999", "column b: 1 of 100,000 rows differs: row 9"],
        ),
        ("df.loc[50_000, 'g'] = 'y'", ["column g: contents differ"]),
        ("df.loc[50_000, 'k'] = 'v'", ["column k: 1 of 100,000 rows differs: row 50,000"]),
        ("df['k'] = df['k'].cat.reorder_categories(['v', 'u'])", ["column k: contents differ"]),
        ("df.loc[50_000, 't'] = pd.Timestamp('1999')", ["column t: 1 of 100,000 rows differs: row 50,000"]),
    ],
)
def test_of_a_table_the_columns_and_rows_are_named(shell: Shell, cell: str, told: list[str]) -> None:
    pytest.importorskip("pandas", minversion="3.0")
    assert details(shell, TABLE, cell) == told


@pytest.mark.parametrize(
    ("made", "cell", "told"),
    [
        ("np.arange(300_000)", "a[200_000] = -1", "1 of 300,000 values differs: row 200,000"),
        ("np.zeros((1000, 50))", "a[7:9] = 1", "100 of 50,000 values differ, between rows 7 and 8"),
        ("np.zeros((50, 1000)).T", "a[3, 4] = 1", "1 of 50,000 values differs"),
        ("np.zeros(90_000, dtype='complex128')", "a[-1] = 1j", "1 of 90,000 values differs: row 89,999"),
        ("np.zeros(90_000, dtype='S3')", "a[89_000] = b'abc'", "1 of 90,000 values differs: row 89,000"),
        ("np.zeros(20)", "a[19] = 1", "1 of 20 values differs: row 19"),
    ],
)
def test_of_an_array_the_values_are_counted(shell: Shell, made: str, cell: str, told: str) -> None:
    assert told in details(shell, f"import numpy as np\na = {made}", cell)


def test_of_a_column_the_values_are_counted(shell: Shell) -> None:
    pytest.importorskip("pandas", minversion="3.0")
    made = "import pandas as pd, numpy as np\ns = pd.Series(np.arange(5_000))"
    assert "1 of 5,000 values differs: row 4,000" in details(shell, made, "s[4_000] = 1")


def test_what_cannot_be_told_is_not_claimed(shell: Shell) -> None:
    assert details(shell, "rows = [[n] for n in range(50)]", "rows[40] = [0]") == [
        "list of 50 list, [[0], [1], [2], …]: contents may differ"
    ]


def test_a_name_that_only_shares_with_what_changed_is_the_same(shell: Shell) -> None:
    shell.run("import numpy as np\na = np.zeros(100_000)\nrest = a[50_000:]\nbox = [rest]")
    shell.run("a[3] = 1")
    shown = [change["name"] for change in shell.log()[0]["changed"]]
    rows = shell.run("%agent diff HEAD~1 HEAD --json").json["changed"]
    assert [row["name"] for row in rows if row["how"] == "~"] == shown
    assert {row["name"] for row in rows if row["how"] == "="} == {"a", "rest", "box"} - set(shown)
    assert "= box: the same value, saved together with what changed" in shell.run("%agent diff HEAD~1 HEAD").out


def test_looking_runs_nothing_of_what_is_stored(shell: Shell, tmp_path: Path) -> None:
    shell.run(
        "class Canary:\n    def __init__(self): self.n = 0\n"
        f"    def __reduce__(self): return (open, ({str(tmp_path / 'ran')!r}, 'w'))\n"
    )
    shell.run("import numpy as np\nit = np.zeros(3); c = Canary()")
    shell.run("it[0] = 1; c.n = 1")
    (tmp_path / "ran").unlink(missing_ok=True)
    assert shell.run("%agent diff HEAD~1 HEAD").result.success
    assert not (tmp_path / "ran").exists()


def test_a_class_that_was_altered_in_place_differs(shell: Shell) -> None:
    shell.run("class K:\n    W = 0\nk = K()")
    shell.run("K.W = 5")
    said = shell.run("%agent diff").out
    assert "~ K: class K" in said
    assert "the class was altered in place" in said


def test_a_table_says_what_differs_also_where_pandas_keeps_text_without_pyarrow(shell: Shell) -> None:
    shell.run(
        "import pandas as pd\nstorage = pd.options.mode.string_storage\npd.options.mode.string_storage = 'python'"
    )
    try:
        shell.run("n = pd.DataFrame({'a': range(5000), 'b': [1.0] * 5000})")
        shell.run("n.loc[17, 'b'] = -1")
        assert "column b: 1 of 5,000 rows differs: row 17" in shell.run("%agent diff").out
    finally:
        shell.run("pd.options.mode.string_storage = storage")


@pytest.mark.parametrize("dtype", ["object", "pd.StringDtype('python')"])
def test_of_texts_that_are_pythons_own_a_change_is_told(shell: Shell, dtype: str) -> None:
    made = f"import pandas as pd\ndf = pd.DataFrame({{'n': range(40), 's': pd.Series(['x'] * 40, dtype={dtype})}})"
    assert details(shell, made, "df.loc[30, 's'] = 'y'") == ["column s: contents differ"]


WIDE = "import pandas as pd\nwide = pd.DataFrame({f'c{n:02}': [n, n] for n in range(60)})"


def test_of_a_wide_table_show_prints_the_columns_that_it_has_values_of(shell: Shell) -> None:
    pytest.importorskip("pandas")
    shell.run(WIDE)
    *_, names, kinds, first, second, rest = shell.run("%agent show HEAD:wide").out.splitlines()
    assert len(names.split()) == len(kinds.split()) == len(first.split()) == len(second.split()) == 12
    assert names.split()[-1] == "c11"
    assert rest == "… and 48 more columns"


def test_of_a_table_without_rows_show_prints_the_columns_that_it_knows(shell: Shell) -> None:
    pytest.importorskip("pandas")
    shell.run(f"{WIDE}\nwide = wide[:0]")
    *_, names, _, rest = shell.run("%agent show HEAD:wide").out.splitlines()
    assert names.split()[-1] == "c39"
    assert rest == "… and 20 more columns"


def test_of_a_wide_table_diff_names_the_first_columns_that_went_and_came(shell: Shell) -> None:
    pytest.importorskip("pandas")
    told = details(shell, WIDE, "wide = wide.drop(columns=[f'c{n:02}' for n in range(20)]).assign(extra=1)")
    assert told[:3] == [
        "columns 60 → 41 (−19)",
        "no longer among the first 40 columns (of others the number is known): c00, c01, c02, c03, c04, c05 and 14 more",
        "now among the first 40 columns (of others the number is known): c40, c41, c42, c43, c44, c45 and 14 more",
    ]


def test_of_a_table_that_is_wide_no_longer_it_names_all_that_is_known_to_be_gone(shell: Shell) -> None:
    pytest.importorskip("pandas")
    told = details(shell, WIDE, "wide = wide.iloc[:, 2:5]")
    assert told[0] == "columns 60 → 3 (−57)"
    assert told[1:3] == ["− c00 int64", "− c01 int64"]


def test_a_single_variable_is_named_behind_the_commits_or_after_the_dashes(shell: Shell) -> None:
    shell.run("x = 1; y = 1")
    shell.run("x = 2; y = 2")
    assert shell.run("%agent diff HEAD~1 HEAD x").out == shell.run("%agent diff HEAD~1 HEAD -- x").out
    assert "y" not in [row["name"] for row in shell.run("%agent diff HEAD~1 HEAD x --json").json["changed"]]
    assert "'z'" in shell.run("%agent diff HEAD~1 HEAD z").err


def test_what_is_not_saved_is_said_to_be_not_saved(shell: Shell) -> None:
    shell.run("x = 1")
    shell.run("rows = [1]; ahead = (i for i in rows); box = {'rows': rows, 'ahead': ahead}; lone = [2]")
    told = shell.run("%agent diff").out
    assert "+ ahead: generator (not saved: a generator cannot be saved)" in told
    box = next(line for line in told.splitlines() if line.startswith("+ box"))
    assert box.endswith("(not all of it is saved: a generator cannot be saved)")
    assert "not saved" not in next(line for line in told.splitlines() if line.startswith("+ rows"))
    assert "not saved" not in next(line for line in told.splitlines() if line.startswith("+ lone"))
    shell.run("box['more'] = 1; next(ahead)")
    assert "(not all of it is saved: a generator cannot be saved)" in shell.run("%agent diff -- box").out


@pytest.mark.parametrize(
    ("assigns", "touches"),
    [
        ("class A: pass\nit = A()", "it.ahead = (i for i in range(3))"),
        ("it = [1]", "it.append(i for i in range(3))"),
        ("it = {}", "it['ahead'] = {'deeper': (i for i in range(3))}"),
    ],
)
def test_what_is_lost_names_the_cell_that_assigned_it_too(shell: Shell, assigns: str, touches: str) -> None:
    shell.run(assigns)
    shell.run(touches)
    shell.run("it")
    assert "Run cells [1] and [2] again to have it back" in shell.run("%agent status").out
    shell.run(assigns)
    shell.run(f"{assigns}\n{touches}")
    assert "Run cell [6] again to have it back" in shell.run("%agent status").out


@pytest.mark.parametrize(
    ("before", "cell", "told"),
    [
        (
            "import pandas as pd; df = pd.DataFrame({'a': range(10)})",
            "df = df[df.a > 4].reset_index(drop=True)",
            [
                "5 rows removed; the rest moved up",
                *(f"row {at} is gone: a {at}" for at in range(4)),
                "… and 1 more row",
            ],
        ),
        (
            "import pandas as pd; df = pd.DataFrame({'a': range(20), 'b': [None, 1] * 10})",
            "df = df.dropna().reset_index(drop=True)",
            [
                "10 rows removed; the rest moved up",
                *(f"row {at} is gone: a {at}, b missing" for at in (0, 2, 4, 6)),
                "… and 6 more rows",
            ],
        ),
        (
            "import pandas as pd; df = pd.DataFrame({'a': range(20), 'b': [None, 1] * 10})",
            "df = df.dropna()",
            [*(f"row {at} is gone: a {at}, b missing" for at in (0, 2, 4, 6)), "… and 6 more rows"],
        ),
    ],
)
def test_the_rows_of_a_table_are_told_apart_as_in_a_panel(
    shell: Shell, before: str, cell: str, told: list[str]
) -> None:
    found = details(shell, before, cell)
    assert [line for line in found if not line.startswith(("rows ", "size ", "~ b"))] == told
    assert told[-1] in shell.run("%agent diff").out


def test_a_variable_that_is_not_saved_is_shown_without_the_size_of_what_stands_for_it(shell: Shell) -> None:
    shell.run("gen = (i for i in range(3))")
    said = shell.run("%agent show HEAD:gen").out
    assert "not saved: a generator cannot be saved" in said
    assert "Size:" not in said
    told = shell.run("%agent show HEAD:gen --json").json
    assert (told["size"], told["not_saved"]) == (0, "a generator cannot be saved")
