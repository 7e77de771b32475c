"""Models that race for the lowest row: one finds it, one changes more than it has to, one gives up."""

from __future__ import annotations

from collections.abc import Callable

from tests.agents.races import scripted

GOOD = scripted("best = min(rows)\ntask.success(best)", name="good")
BETTER = scripted("rows.sort()", "best = rows[0]\ntask.success(best)", name="better")
BAD = scripted("half = len(rows) // 2", "task.fail('no idea')", name="bad")


def raising(error: BaseException) -> Callable[[object], float]:
    """A judge that raises this."""

    def judge(_: object) -> float:
        raise error

    return judge
