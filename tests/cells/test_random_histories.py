"""Whatever cells and moves a history has, a script that is said to be complete makes what the notebook has."""

from __future__ import annotations

import pytest

from tests.cells.random_histories import outcomes


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_complete_scripts_make_equal_values(start: int) -> None:
    found = [outcome for seed in range(start, start + 20) for outcome in outcomes(seed)]
    whole = [outcome for outcome in found if outcome.is_whole]
    assert [outcome for outcome in whole if outcome.made != outcome.expected] == []
    assert len(whole) > len(found) / 2 > 10
