"""The card under a cell whose agent waits: a widget with buttons, and what stands there without one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from agent_kernel.browsing.asking import card_faces, question_faces
from agent_kernel.panels.faces import standing_for
from agent_kernel.panels.widget import HistoryPanel

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Answer, Desk
    from agent_kernel.panels.hub import Hub

__all__ = ["Card"]


class Card:
    """What is shown of one step that waits, or of one question, in the place where it was shown first.

    Args:
        rich: with a widget.
        later: what the run shows after this stands under the same cell. Else a question has no field: its line is typed.
    """

    def __init__(self, hub: Hub, run: str, *, rich: bool, later: bool) -> None:
        self._desk: Desk = hub.desk()
        self._run = run
        told = self._told()
        self._is_question = bool(told["question"])
        self._number = _asked_in(told, self._is_question)
        self.panel = self._panel(hub) if rich and (later or not self._is_question) else None

    def _told(self) -> Answer:
        return self._desk.ask("run", {"id": self._run})

    def _panel(self, hub: Hub) -> HistoryPanel:
        args: Answer = {"text": "", "show": "all", "tz_s": time.localtime().tm_gmtoff, "unfolded": []}
        opening = hub.look(self._desk, "open", {**args, "n": 0})
        opening["state"] = {**cast("Answer", opening["state"]), "busy": None}
        start: Answer = {"card": {"run": self._run, "step": self._number}}
        if self._is_question:
            start = {"question": {"run": self._run, "number": self._number}}
        return HistoryPanel(hub, self._desk, {"args": args, "ok": opening}, start, standing_for(self._desk, start))

    @property
    def display_id(self) -> str:
        return f"agent-kernel-{self._run}-{'question-' if self._is_question else ''}{self._number}"

    def waits(self) -> bool:
        """Whether the step, or the question, still waits."""
        return _asked_in(self._told(), self._is_question) == self._number

    def bundle(self) -> tuple[Answer, Answer]:
        """The display, as things stand now."""
        faces_of = question_faces if self._is_question else card_faces
        faces = cast("Answer", faces_of(self._told(), self._number))
        if self.panel is None:
            return faces, {}
        view, metadata = self.panel.bundle()
        return {**view, **faces}, metadata


def _asked_in(told: Answer, is_question: bool) -> int:
    """The number of the question, or of the step, that waits; 0: none does."""
    if is_question:
        return len(cast("list[Answer]", told["questions"])) if told["question"] else 0
    asked = cast("Answer | None", told["asks"])
    return cast("int", asked["step"]) if asked is not None else 0
