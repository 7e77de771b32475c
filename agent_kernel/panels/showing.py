"""Make the panel that shows a verb's answer, with all its faces."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent_kernel.panels.widget import HistoryPanel

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Answer
    from agent_kernel.panels.hub import Hub
    from agent_kernel.panels.notebook import Notebook
    from agent_kernel.verbs.output import Opens, Result

__all__ = ["shown"]

_ROWS = 60  # that travel with a panel


def shown(hub: Hub, notebook: Notebook, result: Result, opens: Opens) -> HistoryPanel:
    """The panel, opened where the answer is.

    Raises:
        AgentKernelError: the history cannot be read.
    """
    desk = hub.desk()
    args: Answer = {"text": opens.search, "show": "all", "tz_s": time.localtime().tm_gmtoff, "unfolded": []}
    opening = hub.look(desk, "open", {**args, "n": _ROWS})
    faces = {"text/plain": result.to_text(100), "text/html": result.to_html()}
    return HistoryPanel(hub, desk, {"args": args, "ok": opening}, _start(opens), faces)


def _start(opens: Opens) -> Answer:
    """The same, as the view wants it."""
    if opens.compared is not None:
        older, newer = opens.compared
        return {"compare": {"a": older, "b": newer, **({"name": opens.name} if opens.name else {})}}
    if opens.commit:
        return {"commit": opens.commit}
    return {"text": opens.search} if opens.search else {}
