"""The board as a widget: its view is a bundled module, and what is shown is sent again as it changes."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import anywidget
import traitlets

from agent_kernel.background import Repeated
from agent_kernel.errors import AgentKernelError
from agent_kernel.panels.widget import keep_thread, read_bundle

if TYPE_CHECKING:
    from agent_kernel.commands.board import Board
    from agent_kernel.commands.describe import Result
    from agent_kernel.panels.widget import Comm

__all__ = [
    "BoardPanel",
    "LiveDisplay",
    "Refresher",
]

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


# -- a display that stays up to date by itself, for answers that change while someone looks at them
#
# A thread looks at the store, which costs nothing while nothing changes there, and sends the display anew. It sends past the
# cells: what a cell that runs meanwhile shows is that cell's own, and is kept with it.

logger = logging.getLogger(__name__)

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
