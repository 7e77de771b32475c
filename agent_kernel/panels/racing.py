"""The card of a race: its candidates side by side, with a button for each that can be picked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from agent_kernel.agents.racing.standings import html_of, text_of
from agent_kernel.panels.faces import standing_for
from agent_kernel.panels.widget import HistoryPanel

if TYPE_CHECKING:
    from agent_kernel.agents.racing.race import Race
    from agent_kernel.panels.desk import Answer
    from agent_kernel.panels.hub import Hub

__all__ = ["faces_of_race", "race_panel"]


def race_panel(hub: Hub, race: Race) -> HistoryPanel:
    """The card, whose other faces are the table."""
    desk = hub.desk()
    args: Answer = {"text": "", "show": "all", "tz_s": time.localtime().tm_gmtoff, "unfolded": []}
    opening = hub.look(desk, "open", {**args, "n": 0})
    opening["state"] = {**cast("Answer", opening["state"]), "busy": None}
    start: Answer = {"race": race.id}
    faces = {**standing_for(desk, start), **faces_of_race(race)}
    return HistoryPanel(hub, desk, {"args": args, "ok": opening}, start, faces)


def faces_of_race(race: Race) -> Answer:
    """The table alone, by MIME type."""
    return {"text/html": html_of(race), "text/plain": text_of(race)}
