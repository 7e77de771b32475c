"""Widgets beside the history panel: the cards of an agent that waits, of a race and of a question; the board.

Each view is a bundled module, with buttons; a card also says what stands there without them. The board is sent again as it changes.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import anywidget
import traitlets

from agent_kernel.agents.races.comparison import html_of, text_of
from agent_kernel.errors import AgentKernelError
from agent_kernel.panels.server import keep_thread
from agent_kernel.panels.widget import HistoryPanel, identify_card, read_bundle
from agent_kernel.queries.agents import represent_card, represent_question
from agent_kernel.quiet import Repeated

if TYPE_CHECKING:
    from agent_kernel.agents.races.race import Race
    from agent_kernel.commands.board import Board
    from agent_kernel.commands.describe import Result
    from agent_kernel.panels import JobQueue
    from agent_kernel.panels.server import Answer, Comm, PanelContext, PanelServer

__all__ = ["BoardPanel", "Card", "LiveDisplay", "Offer", "Refresher", "race_panel", "represent_race"]


# -- cards
#
# The cards under cells: of an agent that waits, of a race, of a question. Widgets with buttons, and what stands there without them.


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


# -- the board
#
# The board as a widget: its view is a bundled module, and what is shown is sent again as it changes.


_STOPPED = "Stopped"


class BoardPanel(anywidget.AnyWidget):
    """One board, until it is closed."""

    _esm, _css = read_bundle("board")

    board = traitlets.Dict().tag(sync=True)

    def __init__(self, result: Board) -> None:
        super().__init__(board=_state_of(result))
        self._result = result
        self._representations = {"text/plain": result.to_text(100), "text/html": result.to_html()}
        line = cast("Comm", self.comm)
        keep_thread(line)
        line.on_close(self._comm_closed)
        self.on_msg(self._hear)  # pyright: ignore[reportUnknownMemberType]  # ipywidgets gives it no types
        self._refresher = Refresher(result, self._show)

    def look(self) -> None:
        """Bring it up to date now."""
        self._refresher.look()

    def close(self, why: str = _STOPPED) -> None:
        """Leave it as it stands. Lines still open."""
        self._refresher.close()
        self.board = {**cast("dict[str, object]", self.board), "ended": why}  # pyright: ignore[reportUnknownMemberType]

    def _comm_closed(self, _message: object) -> None:
        self._refresher.close()

    def _show(self, result: Board) -> None:
        new = _state_of(result)
        old = cast("dict[str, object]", self.board)  # pyright: ignore[reportUnknownMemberType]
        if new["parts"] != old["parts"]:
            self.board = new

    def _hear(self, _panel: object, content: object, _buffers: object) -> None:
        message = cast("dict[str, object]", content) if isinstance(content, dict) else {}
        if message.get("op") != "history":
            return
        answer: dict[str, object]
        try:
            answer = {"ok": self._result.history(str(message.get("line", ""))).to_panel()}
        except AgentKernelError as error:
            answer = {"error": str(error)}
        except Exception as error:  # whoever asked is told, and the kernel goes on
            logger.exception("the history of a line cannot be shown")
            answer = {"error": type(error).__name__}
        self.send({"id": message.get("id"), **answer})  # pyright: ignore[reportUnknownMemberType]

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The display: the widget, and what stands in its place where there is no kernel."""
        made = cast("object", super()._repr_mimebundle_())  # pyright: ignore[reportUnknownMemberType]
        view = cast("tuple[dict[str, Any], dict[str, Any]] | None", made)
        data, metadata = view or ({}, {})
        return {**data, **self._representations}, metadata


def _state_of(result: Board) -> dict[str, object]:
    return {"parts": result.view(), "time_s": time.time(), "ended": ""}


_LOOK_S: Final = 0.3
_SHARE: Final = 10  # at most a tenth of the time goes into looking


class Refresher:
    """Has what changes shown again and again, on a thread of its own, until it is closed."""

    def __init__(self, result: Result, show: Callable[[Any], object]) -> None:
        self._result = result
        self._show = show
        self._lock = threading.Lock()
        self._looks = Repeated("board", self._keep, _LOOK_S)

    def close(self) -> None:
        """Show it no more."""
        self._looks.close(2 * _LOOK_S)

    def _keep(self) -> float | None:
        began = time.perf_counter()
        try:
            self.look()
        except AgentKernelError:  # the store is closed, or not there just now
            logger.debug("a live display was not brought up to date", exc_info=True)
        except Exception:
            logger.exception("a live display is no longer brought up to date")
            return None
        return max(_LOOK_S, _SHARE * (time.perf_counter() - began))

    def look(self) -> None:
        """Show it as it is now."""
        with self._lock:
            result = self._result.renew()
            if not self._looks.is_closed:
                self._show(result)


class LiveDisplay:
    """One display, until it is closed.

    Args:
        shell: of a kernel. The display belongs to the cell that it answers now.
    """

    def __init__(self, shell: Any, result: Result) -> None:
        self._publisher = shell.display_pub
        self._parent = shell.kernel.get_parent()
        self._id = f"agent-kernel-live-{secrets.token_hex(4)}"
        self._last_bundle = _bundle(result)
        self._publisher.publish(self._last_bundle, {}, transient={"display_id": self._id})
        self._refresher = Refresher(result, self._show)

    def close(self) -> None:
        """Leave it as it stands."""
        self._refresher.close()

    def look(self) -> None:
        """Send it anew, if it reads differently now."""
        self._refresher.look()

    def _show(self, result: Result) -> None:
        bundle = _bundle(result)
        if bundle != self._last_bundle:
            self._last_bundle = bundle
            self._send()

    def _send(self) -> None:
        session: Any = self._publisher.session
        content = {"data": self._last_bundle, "metadata": {}, "transient": {"display_id": self._id}}
        message = session.msg("update_display_data", content, parent=self._parent)
        send: Callable[..., object] = session.send
        send(self._publisher.pub_socket, message, ident=self._publisher.topic)


def _bundle(result: Result) -> dict[str, object]:
    return {"text/plain": result.to_text(100), "text/html": result.to_html()}
