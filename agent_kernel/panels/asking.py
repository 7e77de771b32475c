"""The card under a cell whose agent waits: a widget with buttons, and what stands there without one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from agent_kernel.browsing.cards import card_faces
from agent_kernel.panels.faces import standing_for
from agent_kernel.panels.widget import HistoryPanel

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Answer, Desk
    from agent_kernel.panels.hub import Hub

__all__ = ["Card"]


class Card:
    """What is shown of one step that waits, in the place where it was shown first."""

    def __init__(self, hub: Hub, run: str, *, rich: bool) -> None:
        self._desk: Desk = hub.desk()
        self._run = run
        asked = cast("Answer | None", self._told()["asks"])
        self.step = cast("int", asked["step"]) if asked is not None else 0
        self.panel = self._panel(hub) if rich else None

    def _told(self) -> Answer:
        return self._desk.ask("run", {"id": self._run})

    def _panel(self, hub: Hub) -> HistoryPanel:
        args: Answer = {"text": "", "show": "all", "tz_s": time.localtime().tm_gmtoff, "unfolded": []}
        opening = hub.look(self._desk, "open", {**args, "n": 0})
        opening["state"] = {**cast("Answer", opening["state"]), "busy": None}
        start: Answer = {"card": {"run": self._run, "step": self.step}}
        return HistoryPanel(hub, self._desk, {"args": args, "ok": opening}, start, standing_for(self._desk, start))

    @property
    def display_id(self) -> str:
        return f"agent-kernel-{self._run}-{self.step}"

    def waits(self) -> bool:
        """Whether the step still waits."""
        asked = cast("Answer | None", self._told()["asks"])
        return asked is not None and asked["step"] == self.step

    def bundle(self) -> tuple[Answer, Answer]:
        """The display, as things stand now."""
        faces = cast("Answer", card_faces(self._told(), self.step))
        if self.panel is None:
            return faces, {}
        view, metadata = self.panel.bundle()
        return {**view, **faces}, metadata
