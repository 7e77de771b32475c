"""Scripted models that come along, so that a run can be seen from end to end without a network or a key."""

from __future__ import annotations

from typing import Final

from agent_kernel.agents.models import ScriptedModel, Turn

__all__ = ["SCRIPTS"]

_TOUR = ScriptedModel(
    [
        Turn(
            thinking="Means hide how a delay is made up, so I look at the spread first.",
            text="First a look at how late flights are, by carrier.",
            code='late = flights.groupby("carrier").arr_delay.agg(["count", "mean", "median"]).round(1)\nlate.head()',
            delay_s=0.2,
        ),
        Turn(
            thinking="Carriers with a few hundred flights say little.",
            text="Carriers with few flights say little: they go.",
            code='late = late[late["count"] >= 1_000].sort_values("median")\nlate.tail(3)',
            delay_s=0.2,
        ),
        Turn(
            text="Of those that are left, the latest one:",
            code="task.success(f\"{late.index[-1]}: half of its flights are {late['median'].iloc[-1]:.0f} min late or more\")",
            delay_s=0.2,
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
