"""The history panel in a cell's output: a widget whose view is the bundled module.

Only the opening travels with the widget's state; everything else is asked for by messages. The display has more faces,
for whoever opens the notebook without this kernel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import anywidget
import traitlets

from agent_kernel.errors import AgentKernelError
from agent_kernel.panels import assets
from agent_kernel.panels.channels import keep_thread

if TYPE_CHECKING:
    from agent_kernel.panels.channels import Comm
    from agent_kernel.panels.desk import Answer, Desk
    from agent_kernel.panels.hub import Hub

__all__ = ["ROWS", "HistoryPanel"]

logger = logging.getLogger(__name__)

ROWS = 60  # that travel with a panel
_VIEWS = 32  # that one panel may have at once


class HistoryPanel(anywidget.AnyWidget):
    """One panel, which shows the store that the notebook was bound to when it was made.

    Args:
        opening: `{args, ok}`: what the view would ask at first, and the answer.
        start: what stands open at first, as `Host.start` has it.
        faces: what is shown of it where there is no kernel, by MIME type.
    """

    _esm, _css = assets.history()

    opening = traitlets.Dict().tag(sync=True)
    start = traitlets.Dict().tag(sync=True)

    _hub: Hub | None = None
    _closed: Callable[[HistoryPanel], None] | None = None

    def __init__(self, hub: Hub, desk: Desk, opening: Answer, start: Answer, faces: Mapping[str, object]) -> None:
        super().__init__(opening=opening, start=start)
        self.desk: Desk | None = desk
        self._hub = hub
        self._faces = faces
        self._epoch = desk.epoch
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
        hub, self._hub = self._hub, None
        if hub is not None:
            hub.remove(self)
        if self._closed is not None:
            self._closed(self)

    def _comm_closed(self, _message: object) -> None:
        self.close()

    def renew(self) -> None:
        """Take out of what travelled with the panel what has been deleted from the store since, the code of a cell say."""
        hub, desk = self._hub, self.desk
        if hub is None or desk is None or desk.epoch == self._epoch:
            return
        nothing: dict[str, object] = {}
        self._epoch, self._faces = desk.epoch, nothing
        before = cast("Answer", self.opening)  # pyright: ignore[reportUnknownMemberType]
        args = cast("Answer", before["args"])
        try:
            found = hub.look(desk, "open", {**args, "n": ROWS})
        except AgentKernelError:  # what cannot be looked at is not kept either
            logger.debug("the history of a panel cannot be read", exc_info=True)
            found = cast("Answer", before["ok"])
            none: list[object] = []
            found = {**found, "page": {**cast("Answer", found["page"]), "rows": none, "total": 0}}
        self.opening = {"args": args, "ok": found}

    def retire(self) -> None:
        """The extension goes: keep what is shown, and nothing of the notebook."""
        self._hub = None

    def _hear(self, _panel: object, content: object, _buffers: object) -> None:
        message = cast("dict[str, object]", content) if isinstance(content, dict) else {}
        hub = self._hub
        if hub is None:
            gone = {"code": "gone", "message": self.desk.gone if self.desk else ""}
            self.send({"id": message.get("id"), "error": gone})
        elif message.get("op") == "watch":
            self._watch(hub, str(message.get("view", ""))[:80])
        elif message.get("op") == "unwatch":
            self._watching.pop(str(message.get("view", ""))[:80], None)
            if not self._watching:
                hub.remove(self)
        else:
            hub.hear(self, message)

    def _watch(self, hub: Hub, view: str) -> None:
        self._watching[view] = None
        if len(self._watching) > _VIEWS:  # pages that were left without a word
            del self._watching[next(iter(self._watching))]
        hub.add(self)

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The display: the widget, and the other faces."""
        # anywidget gives bare dicts.
        made = cast("object", super()._repr_mimebundle_())  # pyright: ignore[reportUnknownMemberType]
        view = cast("tuple[dict[str, Any], dict[str, Any]] | None", made)
        data, metadata = view or ({}, {})
        return {**data, **self._faces}, metadata

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.bundle()
