"""The time of a preview does not grow with the data. Ratios within one run, because machines differ."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import pytest

from agent_kernel.values.previews import make_preview

np: Any = pytest.importorskip("numpy")
pd: Any = pytest.importorskip("pandas")


def best_s(value: object) -> float:
    return min(timeit.repeat(lambda: make_preview(value), number=20, repeat=7)) / 20


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (lambda: pd.DataFrame(np.zeros((10, 20))), lambda: pd.DataFrame(np.zeros((1_000_000, 20)))),
        (lambda: np.zeros((10, 10)), lambda: np.zeros((3_000, 3_000))),
        (lambda: np.zeros((10, 10)).T, lambda: np.zeros((3_000, 3_000)).T),
        (lambda: [{"a": 1}] * 40, lambda: [{"a": 1}] * 300_000),
        (lambda: dict.fromkeys(range(100), 1), lambda: dict.fromkeys(range(300_000), 1)),
        (lambda: "x" * 1_000, lambda: "x" * 10_000_000),
        (lambda: set(range(100)), lambda: set(range(300_000))),
        (lambda: pd.Series(["x"] * 10), lambda: pd.Series(["x"] * 300_000)),
    ],
)
def test_a_large_value_takes_no_longer_than_a_small_one(
    small: Callable[[], object], large: Callable[[], object]
) -> None:
    assert best_s(large()) <= 4 * best_s(small()) + 20e-6


def test_a_number_is_summarized_in_the_time_of_a_few_calls() -> None:
    reference = min(timeit.repeat(lambda: [repr(n) for n in range(20)], number=200, repeat=5)) / 200
    assert best_s(42) <= 20 * reference


def test_a_frame_is_summarized_faster_than_pandas_writes_its_first_rows() -> None:
    frame = pd.DataFrame(np.zeros((100_000, 20)))
    reference = min(timeit.repeat(lambda: repr(frame.head(3)), number=2, repeat=3)) / 2
    assert best_s(frame) <= reference
