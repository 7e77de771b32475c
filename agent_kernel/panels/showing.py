"""Make the panel that shows a verb's answer, with all its faces."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from agent_kernel.panels.faces import faces_of, start_of
from agent_kernel.panels.widget import ROWS, HistoryPanel

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Answer
    from agent_kernel.panels.hub import Hub
    from agent_kernel.verbs.output import Opens, Result

__all__ = ["shown"]


def shown(hub: Hub, result: Result, opens: Opens) -> HistoryPanel:
    """The panel, opened where the answer is.

    Raises:
        AgentKernelError: the history cannot be read.
    """
    desk = hub.desk()
    faces = faces_of(desk, result, opens)
    args: Answer = {"text": opens.search, "show": "all", "tz_s": time.localtime().tm_gmtoff, "unfolded": []}
    opening = hub.look(desk, "open", {**args, "n": ROWS})
    # The cell that runs is the one that shows the panel: it has ended when somebody looks.
    opening["state"] = {**cast("Answer", opening["state"]), "busy": None}
    return HistoryPanel(hub, desk, {"args": args, "ok": opening}, start_of(opens), faces)
