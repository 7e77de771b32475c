"""The history panel in a cell's output: a widget whose view is the bundled module.

Only the opening travels with the widget's state; everything else is asked for by messages. The display has more representations,
for whoever opens the notebook without this kernel.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import anywidget
import traitlets

from agent_kernel.errors import AgentKernelError
from agent_kernel.panels.server import keep_thread
from agent_kernel.queries import CARD, HISTORY

if TYPE_CHECKING:
    from agent_kernel.commands.describe import Opens, Result
    from agent_kernel.panels.server import Answer, Comm, PanelContext, PanelServer

__all__ = [
    "ROWS",
    "HistoryPanel",
    "identify_card",
    "open_panel",
    "read_bundle",
    "represent_result",
    "start_of",
]


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
        # anywidget gives bare dicts.
        made = cast("object", super()._repr_mimebundle_())  # pyright: ignore[reportUnknownMemberType]
        view = cast("tuple[dict[str, Any], dict[str, Any]] | None", made)
        data, metadata = view or ({}, {})
        return {**data, **self._representations}, metadata

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.bundle()


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
