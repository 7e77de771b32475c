"""The cards under cells: of an agent that waits, of a race, of a question. Widgets with buttons, and what stands there without them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from agent_kernel.agents.races.comparison import html_of, text_of
from agent_kernel.panels.widget import HistoryPanel, identify_card, keep_thread
from agent_kernel.queries.agents import represent_card, represent_question

if TYPE_CHECKING:
    from agent_kernel.agents.races.race import Race
    from agent_kernel.panels import JobQueue
    from agent_kernel.panels.server import Answer, PanelContext, PanelServer
    from agent_kernel.panels.widget import Comm

__all__ = ["Card", "Offer", "race_panel", "represent_race"]


class Card:
    """What is shown of one step that waits, or of one question, in the place where it was shown first.

    Args:
        rich: with a widget.
        later: what the run shows after this stands under the same cell. Else a question has no field: its line is typed.
    """

    def __init__(self, server: PanelServer, run: str, *, rich: bool, later: bool) -> None:
        self._context: PanelContext = server.context()
        self._run = run
        run_answer = self._query_run()
        self._is_question = bool(run_answer["question"])
        self._number = _open_number(run_answer, self._is_question)
        self.panel = self._panel(server) if rich and (later or not self._is_question) else None

    def _query_run(self) -> Answer:
        return self._context.ask("run", {"id": self._run})

    def _panel(self, server: PanelServer) -> HistoryPanel:
        args: Answer = {"text": "", "show": "all", "tz_s": time.localtime().tm_gmtoff, "unfolded": []}
        opening = server.look(self._context, "open", {**args, "n": 0})
        opening["state"] = {**cast("Answer", opening["state"]), "busy": None}
        start: Answer = {"card": {"run": self._run, "step": self._number}}
        if self._is_question:
            start = {"question": {"run": self._run, "number": self._number}}
        return HistoryPanel(
            server, self._context, {"args": args, "ok": opening}, start, identify_card(self._context, start)
        )

    @property
    def display_id(self) -> str:
        return f"agent-kernel-{self._run}-{'question-' if self._is_question else ''}{self._number}"

    def waits(self) -> bool:
        """Whether the step, or the question, still waits."""
        return _open_number(self._query_run(), self._is_question) == self._number

    def bundle(self) -> tuple[Answer, Answer]:
        """The display, as things stand now."""
        represent = represent_question if self._is_question else represent_card
        representations = cast("Answer", represent(self._query_run(), self._number))
        if self.panel is None:
            return representations, {}
        view, metadata = self.panel.bundle()
        return {**view, **representations}, metadata


def _open_number(run: Answer, is_question: bool) -> int:
    """Return the number of the question, or of the step, that waits; 0: none does."""
    if is_question:
        return len(cast("list[Answer]", run["questions"])) if run["question"] else 0
    request = cast("Answer | None", run["asks"])
    return cast("int", request["step"]) if request is not None else 0


# -- A question under a cell, with a button for each answer: one click, and it is done between cells

logger = logging.getLogger(__name__)


class Offer:
    """The question, until one of its buttons was clicked.

    Args:
        choices: what each button says, and what it does.
    """

    def __init__(self, jobs: JobQueue, question: str, choices: Sequence[tuple[str, Callable[[], None]]]) -> None:
        widgets: Any = __import__("ipywidgets")  # it has no types
        self._jobs = jobs
        self._question = question
        self._answered = False
        self.buttons = [self._button(widgets, label, call) for label, call in choices]
        self._box = widgets.HBox([widgets.Label(question), *self.buttons])

    def _button(self, widgets: Any, label: str, call: Callable[[], None]) -> Any:
        button = widgets.Button(description=label, layout={"width": "auto"})
        keep_thread(cast("Comm", button.comm))
        button.on_click(partial(self._choose, call))
        return button

    def _choose(self, call: Callable[[], None], _button: object) -> None:
        if self._answered:
            return  # two clicks came before the buttons had gone
        self._answered = True
        self._box.close()
        self._jobs.take(_Chosen(call, self._question))

    def bundle(self) -> Answer:
        """The display: the buttons, and the question alone where they cannot be shown."""
        view = cast("Answer", self._box._repr_mimebundle_())
        return {**view, "text/plain": self._question}


class _Chosen:
    """What a button does, as soon as it is its turn."""

    def __init__(self, call: Callable[[], None], question: str) -> None:
        self._call = call
        self._question = question

    def do(self) -> None:
        try:
            self._call()
        except Exception:
            logger.exception("what a button does has failed: %s", self._question)

    def waits(self) -> None: ...

    def is_dropped(self) -> None: ...


# -- the card of a race: its candidates side by side, with a button for each that can be picked


def race_panel(server: PanelServer, race: Race) -> HistoryPanel:
    """The card, whose other representations are the table."""
    context = server.context()
    args: Answer = {"text": "", "show": "all", "tz_s": time.localtime().tm_gmtoff, "unfolded": []}
    opening = server.look(context, "open", {**args, "n": 0})
    opening["state"] = {**cast("Answer", opening["state"]), "busy": None}
    start: Answer = {"race": race.id}
    representations = {**identify_card(context, start), **represent_race(race)}
    return HistoryPanel(server, context, {"args": args, "ok": opening}, start, representations)


def represent_race(race: Race) -> Answer:
    """The table alone, by MIME type."""
    return {"text/html": html_of(race), "text/plain": text_of(race)}


# -- the line under a cell that changed something: which commit it became, and what that changed
#
# Plain data with two representations, and no widget: a cell must not become slower for it. The lab extension draws it with buttons;
# every other front end shows the HTML, which needs no script and holds no code.
