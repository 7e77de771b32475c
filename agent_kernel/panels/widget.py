"""The widgets in a cell's output: the history panel; the cards of an agent that waits, of a race and of a question; the board.

The view of each is a bundled module. Only the opening travels with the panel's state; everything else is asked for by messages. The
display has more representations, for whoever opens the notebook without this kernel.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import anywidget
import traitlets

from agent_kernel.agents.race_comparison import html_of, text_of
from agent_kernel.errors import AgentKernelError
from agent_kernel.panels.server import keep_thread
from agent_kernel.queries import CARD, HISTORY
from agent_kernel.queries.agents import represent_card, represent_question
from agent_kernel.quiet import Repeated

if TYPE_CHECKING:
    from agent_kernel.agents.races import Race
    from agent_kernel.commands.board import Board
    from agent_kernel.commands.describe import Opens, Result
    from agent_kernel.panels import JobQueue
    from agent_kernel.panels.server import Answer, Comm, PanelContext, PanelServer

logger = logging.getLogger(__name__)


# -- the panel's code and style, as one module and one sheet for the front end
#
# An installed package carries them, made when it was built; in a checkout they are put together from the sources.

_BUILT = Path(__file__).parent / "static"
_SOURCES = Path(__file__).parents[2] / "widgets"


@functools.cache
def read_bundle(panel: str) -> tuple[str, str]:
    """The module of a panel (`history`, `board`), and its style."""
    if (_SOURCES / "bundle.py").is_file():
        bundle = _bundle()
        return bundle.module(_SOURCES / panel / "widget.js"), bundle.style(_SOURCES / "shared", _SOURCES / panel)
    return (_BUILT / f"{panel}.js").read_text("utf-8"), (_BUILT / f"{panel}.css").read_text("utf-8")


def _bundle() -> Any:
    spec = importlib.util.spec_from_file_location("agent_kernel_bundle", _SOURCES / "bundle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROWS = 60  # that travel with a panel
_VIEWS = 32  # that one panel may have at once


class HistoryPanel(anywidget.AnyWidget):
    """One panel, which shows the store that the notebook was bound to when it was made.

    Args:
        opening: `{args, ok}`: what the view would ask at first, and the answer.
        start: what stands open at first, as `Host.start` has it.
        representations: what is shown of it where there is no kernel, by MIME type.
    """

    _esm, _css = read_bundle("history")

    opening = traitlets.Dict().tag(sync=True)
    start = traitlets.Dict().tag(sync=True)

    _server: PanelServer | None = None
    _closed: Callable[[HistoryPanel], None] | None = None

    def __init__(
        self,
        server: PanelServer,
        context: PanelContext,
        opening: Answer,
        start: Answer,
        representations: Mapping[str, object],
    ) -> None:
        super().__init__(opening=opening, start=start)
        self.context: PanelContext | None = context
        self._server = server
        self._representations = representations
        self._epoch = context.epoch
        self._watching: dict[str, None] = {}  # the views that stand on a page, as far as they said
        line = cast("Comm", self.comm)
        keep_thread(line)
        line.on_close(self._comm_closed)
        self.on_msg(self._hear)  # pyright: ignore[reportUnknownMemberType]  # ipywidgets gives it no types

    def send(self, content: object, buffers: object = None) -> None:
        """Give all views a message."""
        try:
            super().send(content, buffers)  # pyright: ignore[reportUnknownMemberType]
        except Exception:
            logger.debug("a message reached no panel", exc_info=True)

    def when_closed(self, call: Callable[[HistoryPanel], None]) -> None:
        """Have a function called once nobody can open a view of this panel any more."""
        self._closed = call

    def close(self) -> None:
        line = cast("Comm | None", self.comm)
        super().close()  # pyright: ignore[reportUnknownMemberType]
        if line is not None:  # it may be kept, and would keep this
            line.on_msg(None)
            line.on_close(None)
        server, self._server = self._server, None
        if server is not None:
            server.remove(self)
        if self._closed is not None:
            self._closed(self)

    def _comm_closed(self, _message: object) -> None:
        self.close()

    def renew(self) -> None:
        """Take out of what travelled with the panel what has been deleted from the store since, the code of a cell say."""
        server, context = self._server, self.context
        if server is None or context is None or context.epoch == self._epoch:
            return
        nothing: dict[str, object] = {}
        self._epoch, self._representations = context.epoch, nothing
        before = cast("Answer", self.opening)  # pyright: ignore[reportUnknownMemberType]
        args = cast("Answer", before["args"])
        try:
            found = server.look(context, "open", {**args, "n": ROWS})
        except AgentKernelError:  # what cannot be looked at is not kept either
            logger.debug("the history of a panel cannot be read", exc_info=True)
            found = cast("Answer", before["ok"])
            none: list[object] = []
            found = {**found, "page": {**cast("Answer", found["page"]), "rows": none, "total": 0}}
        self.opening = {"args": args, "ok": found}

    def retire(self) -> None:
        """The extension goes: keep what is shown, and nothing of the notebook."""
        self._server = None

    def _hear(self, _panel: object, content: object, _buffers: object) -> None:
        message = cast("dict[str, object]", content) if isinstance(content, dict) else {}
        server = self._server
        if server is None:
            error = {"code": "gone", "message": self.context.closed_reason if self.context else ""}
            self.send({"id": message.get("id"), "error": error})
        elif message.get("op") == "watch":
            self._watch(server, str(message.get("view", ""))[:80])
        elif message.get("op") == "unwatch":
            self._watching.pop(str(message.get("view", ""))[:80], None)
            if not self._watching:
                server.remove(self)
        else:
            server.hear(self, message)

    def _watch(self, server: PanelServer, view: str) -> None:
        self._watching[view] = None
        if len(self._watching) > _VIEWS:  # pages that were left without a word
            del self._watching[next(iter(self._watching))]
        server.add(self)

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The display: the widget, and the other representations."""
        return _display(self, self._representations)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.bundle()


def _display(
    widget: anywidget.AnyWidget, representations: Mapping[str, object]
) -> tuple[dict[str, Any], dict[str, Any]]:
    # anywidget gives bare dicts.
    made = cast("object", anywidget.AnyWidget._repr_mimebundle_(widget))  # pyright: ignore[reportUnknownMemberType, reportPrivateUsage]
    data, metadata = cast("tuple[dict[str, Any], dict[str, Any]] | None", made) or ({}, {})
    return {**data, **representations}, metadata


# -- what a panel shows of itself where there is no kernel: in a saved notebook, on a web page, in a console

_FORMAT: Final = 1  # of what stands for a card


def represent_result(context: PanelContext, result: Result, opens: Opens) -> Answer:
    """What is shown where there is no kernel, by MIME type. It stays in the notebook's file, so it holds no code and no values."""
    representations, start = context.represent_history(), start_of(opens)
    if not opens.commit and opens.compared is None and opens.conflict is None:
        return representations
    preview = {**cast("Answer", representations[HISTORY]), "start": start}
    outline = result.outline()
    return {HISTORY: preview, "text/html": outline.to_html(), "text/plain": outline.to_text(100)}


def identify_card(context: PanelContext, start: Answer) -> Answer:
    """Tell a front end which card, question or race this is: it shows it, or its HTML where the widget is gone."""
    return {CARD: {"version": _FORMAT, "store": context.store, **start}}


def start_of(opens: Opens) -> Answer:
    """The same, as the view wants it."""
    if opens.compared is not None:
        older, newer = opens.compared
        return {"compare": {"a": older, "b": newer, **({"name": opens.name} if opens.name else {})}}
    if opens.conflict is not None:
        conflict = opens.conflict
        choices = {"message": conflict.message, "partial": conflict.partial, "picks": conflict.picks}
        chosen = {key: value for key, value in choices.items() if value}
        sides = {"ours": list(conflict.ours), "theirs": list(conflict.theirs)}
        return {"conflicts": {"branch": conflict.rev, **sides, **chosen}}
    if opens.commit:
        return {"commit": opens.commit}
    return {"text": opens.search} if opens.search else {}


# -- make the panel that shows a command's answer, with all its representations


def open_panel(server: PanelServer, result: Result, opens: Opens) -> HistoryPanel:
    """Open the panel where the answer is.

    Raises:
        AgentKernelError: the history cannot be read.
    """
    context = server.context()
    representations = represent_result(context, result, opens)
    args: Answer = {"text": opens.search, "show": "all", "tz_s": time.localtime().tm_gmtoff, "unfolded": []}
    opening = server.look(context, "open", {**args, "n": ROWS})
    # The cell that runs is the one that shows the panel: it has ended when somebody looks.
    opening["state"] = {**cast("Answer", opening["state"]), "busy": None}
    return HistoryPanel(server, context, {"args": args, "ok": opening}, start_of(opens), representations)


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
        return _display(self, self._representations)


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
        self._last_bundle = _bundle_of(result)
        self._publisher.publish(self._last_bundle, {}, transient={"display_id": self._id})
        self._refresher = Refresher(result, self._show)

    def close(self) -> None:
        """Leave it as it stands."""
        self._refresher.close()

    def look(self) -> None:
        """Send it anew, if it reads differently now."""
        self._refresher.look()

    def _show(self, result: Result) -> None:
        bundle = _bundle_of(result)
        if bundle != self._last_bundle:
            self._last_bundle = bundle
            self._send()

    def _send(self) -> None:
        session: Any = self._publisher.session
        content = {"data": self._last_bundle, "metadata": {}, "transient": {"display_id": self._id}}
        message = session.msg("update_display_data", content, parent=self._parent)
        send: Callable[..., object] = session.send
        send(self._publisher.pub_socket, message, ident=self._publisher.topic)


def _bundle_of(result: Result) -> dict[str, object]:
    return {"text/plain": result.to_text(100), "text/html": result.to_html()}
