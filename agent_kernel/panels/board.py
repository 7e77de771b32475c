"""The board as a widget: its view is a bundled module, and what is shown is sent again as it changes."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, cast

import anywidget
import traitlets

from agent_kernel.errors import AgentKernelError
from agent_kernel.panels.live import Refresher
from agent_kernel.panels.widget import keep_thread, read_bundle

if TYPE_CHECKING:
    from agent_kernel.commands.board import Board
    from agent_kernel.panels.widget import Comm

__all__ = ["BoardPanel"]

logger = logging.getLogger(__name__)

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
