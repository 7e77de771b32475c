"""Columns of Python texts and long containers of them: a cell that reads them dumps nothing, one that changes them misses nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from agent_kernel.values import atoms, segments
from tests.support.notebooks import Notebook, names_changed

N = atoms.LONG + 500
FRAME = (
    f"import numpy as np, pandas as pd\nn = {N}\n"
    "df = pd.DataFrame({'x': np.arange(n) * 1.0})\n"
    "users = [f'user {i}' for i in range(50)]\n"
    "df['a'] = pd.Series([users[i % 50] for i in range(n)], dtype=object)\n"
    "df['b'] = pd.Series([f'city {i}' for i in range(n)], dtype=object)"
)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the arrays whose items were looked at one by one."""
    sizes: list[int] = []
    distinct: Callable[..., tuple[bytes, list[object]]] = atoms._distinct

    def noted(items: list[object]) -> tuple[bytes, list[object]]:
        sizes.append(len(items))
        return distinct(items)

    monkeypatch.setattr(atoms, "_distinct", noted)
    return sizes


def test_only_a_text_column_that_changed_is_encoded(encoded: list[int]) -> None:
    with Notebook() as nb:
        first = nb.run(FRAME)
        assert encoded == [N, N]
        for cell in ("df.head()", "# df.a", "df['x'].sum()", "df.describe()"):
            assert not nb.run(cell).changed
        assert names_changed(nb.run("df['x'] = df['x'] * 2")) == {"df"}
        assert names_changed(nb.run("df.loc[3, 'x'] = 7.0")) == {"df"}
        assert encoded == [N, N]
        second = nb.run("df.loc[3, 'a'] = 'changed'")
        assert names_changed(second) == {"df"}
        nb.run("df['c'] = df['b']")
        third = nb.run("df['b'] = df['b'].str.upper()")
        nb.checkout(first)
        assert nb.look("(df.a[3], df.b[9], df.x[3], list(df), df.a[1] is df.a[51])") == (
            "user 3", "city 9", 3.0, ["x", "a", "b"], True,
        )  # fmt: skip
        nb.checkout(second)
        assert nb.look("(df.a[3], df.a[4], df.x[3])") == ("changed", "user 4", 7.0)
        nb.checkout(third)
        assert nb.look("(df.b[9], df.c[9], df.dtypes.astype(str).tolist()[1])") == ("CITY 9", "city 9", "object")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("make", "change", "look"),
    [
        ("[f'w{i}' for i in range(n)]", "w[5] = w[6]", "w[5]"),
        ("[f'w{i}' for i in range(n)]", "w.sort(key=len, reverse=True)", "w[0]"),
        ("[f'w{i}' for i in range(n)]", "w[7] = ''.join(['w', '7']); w[8] = 'x'", "w[8]"),
        ("[i * 0.5 for i in range(n)]", "w[5] += 1", "w[5]"),
        ("list(range(n))", "random.Random(0).shuffle(w)", "w[:3]"),
        ("{f'w{i}': i for i in range(n)}", "w['w5'] = 5.0", "repr(w['w5'])"),
        ("{f'w{i}': i for i in range(n)}", "w['w5'] = True", "w['w5']"),
        ("{f'w{i}' for i in range(n)}", "w ^= {'w1', 'z'}", "('w1' in w, 'z' in w)"),
        ("set(range(n))", "w.discard(1); w.add(True)", "[x for x in w if x is True]"),
        ("[(i, 'a') for i in range(n)]", "w[3] = (3, 'a', [])", "w[3]"),
        ("np.array([f'w{i}' for i in range(n)], object)", "w[3] = None", "w[3]"),
        ("np.array([f'w{i}' for i in range(n)], object)", "w.resize((2, n // 2), refcheck=False)", "w.shape"),
        ("np.array([f'w{i}' for i in range(n)], object)", "w.flags.writeable = False", "w.flags.writeable"),
        ("np.array([f'w{i}' for i in range(n)], object)", "w[:][4] = [1]", "w[4]"),
    ],
)
def test_every_change_of_a_long_value_is_saved(make: str, change: str, look: str) -> None:
    with Notebook() as nb:
        nb.run(f"import numpy as np, random; n = {N}\nw = {make}")
        before = nb.look(look)
        assert not nb.run("len(w)").changed
        first = nb.run("other = 1")
        second = nb.run(change)
        assert "w" in names_changed(second)
        after = nb.look(look)
        assert not nb.run("len(w)").changed
        nb.checkout(first)
        assert nb.look(look) == before
        assert not nb.run("len(w)").changed
        nb.checkout(second)
        assert nb.look(look) == after


def test_an_item_that_an_equal_one_replaced_is_no_change_and_its_state_is_one() -> None:
    with Notebook() as nb:
        nb.run(f"class S(str): pass\nw = [f'w{{i}}' for i in range({N})]\nimport numpy as np\na = np.array(w, object)")
        assert not nb.run("w[5] = ''.join(['w', '5']); a[5] = ''.join(['w', '5'])").changed
        assert not nb.run("w[5], a[5]").changed
        nb.run("w[6] = S('w6'); w[6].note = 1; a[6] = S('w6'); a[6].note = 1")
        first = nb.run("other = 1")
        assert names_changed(nb.run("w[6].note = 2; a[6].note = 2")) == {"a", "w"}
        nb.checkout(first)
        assert nb.look("(type(w[6]) is S, w[6].note, type(a[6]) is S, a[6].note)") == (True, 1, True, 1)


@pytest.mark.parametrize("how", ["del df", "df = None", "df['a'] = 1; df['b'] = 1"])
def test_a_column_that_a_cell_drops_is_freed_in_that_cell(how: str) -> None:
    with Notebook() as nb:
        nb.run(FRAME)
        nb.run("df.head()")
        gc.collect()
        before = len(atoms._last_dumps)
        nb.run(f"{how}\nimport gc; gc.collect()\nfrom agent_kernel.values import atoms\nkept = len(atoms._last_dumps)")
        assert nb.look("kept") == before - 2


def test_columns_that_two_frames_share_are_found_through_both() -> None:
    with Notebook() as nb:
        nb.run(f"import numpy as np, pandas as pd\na = np.array([f'w{{i}}' for i in range({N})], object)")
        nb.run("one = pd.DataFrame({'a': a}, copy=False); two = pd.Series(a, copy=False); view = a[:100]")
        before = nb.run("len(one), len(two)")
        assert not before.changed
        changed = nb.run("a[3] = 'changed'")
        assert {"a", "view"} <= names_changed(changed)
        nb.checkout(before)
        assert nb.look("(a[3], view[3])") == ("w3", "w3")
        nb.run("a[3] = 'again'")
        assert nb.look("view[3]") == "again"


def test_a_long_set_in_a_function_costs_no_dump_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with Notebook() as nb:
        nb.run(f"words = {{f'w{{i}}' for i in range({N})}}\ndef known(w):\n    return w in words")
        nb.run("known('w1')")
        dumped: list[int] = []
        dump_segments = segments.dump_segments

        def noted(values: Any, *args: Any, **options: Any) -> Any:
            dumped.extend(map(len, values))
            return dump_segments(values, *args, **options)

        monkeypatch.setattr(segments, "dump_segments", noted)
        nb.run("# known")
        nb.run("known('w1')")
        assert not dumped
        nb.run("words.add('x')")
        assert dumped == [N + 1]
