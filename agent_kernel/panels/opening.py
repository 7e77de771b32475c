"""What the kernel knows beyond the store of what a panel shows at first."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Answer
    from agent_kernel.panels.notebook import Notebook

__all__ = ["opened"]


def opened(found: Answer, state: Answer, notebook: Notebook) -> Answer:
    """The answer to `open`, completed."""
    path = notebook.path()
    title = found["title"] if path is None else path.name
    is_empty = cast("Answer", found["page"])["commits"] == 0
    # Only the thread that cells run on may look at the variables.
    here = threading.current_thread() is threading.main_thread()
    return {
        **found,
        "title": title,
        "state": state,
        "unsaved_names": len(notebook.names()) if is_empty and here else 0,
    }
