"""Rows are matched in order, each once, and only with rows that hold the same."""

from __future__ import annotations

import random
import time

import pytest

from agent_kernel.queries.tables import _Patience


def matched(old: list[int], new: list[int]) -> list[tuple[int, int]]:
    return [(mate, place) for place, mate in enumerate(_Patience(old, new).mates()) if mate >= 0]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(300))
def test_any_two_versions_are_matched_in_order(seed: int) -> None:
    draw = random.Random(seed)
    kinds = draw.randint(1, 12)
    old = [draw.randint(0, kinds) for _ in range(draw.randint(0, 30))]
    new = [one for one in old if draw.random() > 0.2]
    for _ in range(draw.randint(0, 4)):
        new.insert(draw.randint(0, len(new)), draw.randint(0, kinds))
    pairs = matched(old, new)
    assert all(old[was] == new[now] for was, now in pairs)
    assert [was for was, _ in pairs] == sorted({was for was, _ in pairs})


@pytest.mark.parametrize("seed", range(30))
def test_where_rows_only_went_all_that_stay_are_matched(seed: int) -> None:
    draw = random.Random(seed)
    old = [draw.randint(0, draw.choice([1, 3, 1_000])) for _ in range(400)]
    new = [one for one in old if draw.random() > 0.1]
    assert len(matched(old, new)) == len(new)


@pytest.mark.parametrize(
    "pair",
    [
        ([0, 1] * 50_000, [1, 1, 0] * 33_000),
        ([0] * 100_000, [0] * 50_000 + [1] * 50_000),
        (list(range(100_000)), list(range(100_000))[::-1]),
        ([n % 317 for n in range(100_000)], [n % 313 for n in range(100_000)]),
        ([n // 2 for n in range(100_000)], [n // 2 for n in range(99_999, -1, -1)]),
    ],
)
def test_what_repeats_itself_takes_no_longer_than_it_is_long(pair: tuple[list[int], list[int]]) -> None:
    began = time.process_time()
    matched(*pair)
    assert time.process_time() - began < 10
