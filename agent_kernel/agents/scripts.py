"""Scripted models that come along, so that a run can be seen from end to end without a network or a key."""

from __future__ import annotations

from typing import Final

from agent_kernel.agents.models import ScriptedModel, Turn

__all__ = ["SCRIPTS"]

_TOUR = ScriptedModel(
    [
        Turn(
            thinking="I look at the flights before I change anything.",
            text="First a look at the data.",
            code="flights[['dep_delay', 'arr_delay', 'air_time']].describe().round(1)",
            delay_s=0.3,
        ),
        Turn(
            thinking="Rows without a delay never left; the rest has a long tail to the right.",
            text="Flights without a departure never left, so they go; then the mean delay by carrier.",
            code=(
                "flown = flights.dropna(subset=['dep_delay', 'arr_delay'])\n"
                "by_carrier = flown.groupby('carrier').arr_delay.mean().sort_values()\n"
                "by_carrier.round(1)"
            ),
            delay_s=0.3,
        ),
        Turn(
            text="The carrier that is latest on average:",
            code="task.success(f'{by_carrier.index[-1]} is {by_carrier.iloc[-1]:.0f} min late on average')",
            delay_s=0.3,
        ),
    ],
    name="tour",
)

_HELLO = ScriptedModel(
    [
        Turn(text="I make a list of squares.", code="squares = [n * n for n in range(10)]\nsquares"),
        Turn(text="And give back their sum.", code="task.success(sum(squares))"),
    ],
    name="hello",
)

SCRIPTS: Final[dict[str, ScriptedModel]] = {"tour": _TOUR, "hello": _HELLO}
