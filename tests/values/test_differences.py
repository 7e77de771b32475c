"""Two previews say in a few lines what differs."""

from __future__ import annotations

from typing import Any

import pytest

from agent_kernel.values.previews import MASK, lines_diff, make_preview

np: Any = pytest.importorskip("numpy")
pd: Any = pytest.importorskip("pandas")


def test_a_scalar_that_changed_is_told_old_and_new() -> None:
    assert lines_diff(make_preview(42), make_preview(43)) == ["42 → 43"]
    assert lines_diff(make_preview("a"), make_preview(1)) == ["str 'a' → int 1"]
    assert lines_diff(None, make_preview(1)) == ["+ int 1"]
    assert lines_diff(make_preview(1), None) == ["− int 1"]
    assert lines_diff(None, None) == []


def test_a_long_text_that_changed_is_told_on_two_lines() -> None:
    told_lines = lines_diff(make_preview("a" * 100), make_preview("b" * 100))
    assert [shown[:4] for shown in told_lines] == ["− 'a", "+ 'b"]


def test_a_frame_that_changed_is_told_by_rows_columns_and_first_cells() -> None:
    old = pd.DataFrame({"price": [1.5, 2.5], "gone": [1, 2], "n": [1, 2]})
    new = pd.DataFrame({"price": [1.5, 3.5, 1], "n": ["1", "2", "3"], "price_eur": [1.0, 2.0, 3.0]})
    assert lines_diff(make_preview(old), make_preview(new))[:7] == [
        "rows 2 → 3 (+1)",
        "− gone int64",
        "+ price_eur float64",
        f"~ n: int64 → {make_preview(new).columns[1].of}",
        "row 0, n: 1 → '1'",
        "row 1, price: 2.5 → 3.5",
        "row 1, n: 2 → '2'",
    ]


def test_rows_that_are_gone_from_a_renumbered_frame_are_told_and_not_those_that_moved_up() -> None:
    old = pd.DataFrame({"a": range(50), "b": [None if number == 1 else float(number) for number in range(50)]})
    assert lines_diff(make_preview(old), make_preview(old.dropna().reset_index(drop=True)))[:2] == [
        "rows 50 → 49 (−1)",
        "row 1 is gone: a 1, b missing",
    ]
    longer = pd.concat([old.iloc[[7]], old]).reset_index(drop=True)
    assert lines_diff(make_preview(old), make_preview(longer))[:2] == ["rows 50 → 51 (+1)", "row 0 is new: a 7, b 7"]


def test_an_array_that_changed_is_told_by_shape_dtype_and_values() -> None:
    assert lines_diff(make_preview(np.arange(3)), make_preview(np.array([0, 9, 2]))) == ["values [0, 1, 2] → [0, 9, 2]"]
    told_lines = lines_diff(make_preview(np.zeros((2, 3))), make_preview(np.zeros((3, 2), "f4")))
    assert told_lines == ["shape (2, 3) → (3, 2)", "dtype float64 → float32", "size 48 B → 24 B"]


def test_a_dict_that_changed_is_told_by_its_keys() -> None:
    old, new = {"lr": 0.1, "gone": 1, "same": 1}, {"lr": 0.01, "same": 1, "new": 2}
    assert lines_diff(make_preview(old), make_preview(new)) == ["− 'gone' 1", "+ 'new' 2", "~ 'lr': 0.1 → 0.01"]


def test_what_the_summaries_cannot_tell_is_said() -> None:
    old, new = np.zeros(1000), np.zeros(1000)
    new[999] = 1
    assert lines_diff(make_preview(old), make_preview(new)) == ["ndarray float64 (1000,), 8 kB: contents may differ"]
    hidden = lines_diff(make_preview("one", "password"), make_preview("two", "password"))
    assert hidden == [f"str {MASK}: what is hidden may differ"]


def test_columns_beyond_those_kept_are_not_called_missing() -> None:
    old = pd.DataFrame(np.zeros((1, 60)), columns=[f"c{n}" for n in range(60)])
    new = old[old.columns[5:]]
    assert not any(shown.startswith(("+ ", "− ")) for shown in lines_diff(make_preview(old), make_preview(new)))
