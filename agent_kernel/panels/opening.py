"""What the kernel knows beyond the store of what a panel shows at first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Answer
    from agent_kernel.panels.notebook import Notebook

__all__ = ["opened", "with_ways_on"]


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


def with_ways_on(found: Answer, notebook: Notebook) -> Answer:
    """An answer that may tell of runs that stopped, with what the kernel knows of how they go on."""
    for run, stopped in list(_stopped_in(found)):
        tasks = notebook.scope().notebook
        if tasks is not None:
            stopped["refused"], stopped["cell"] = tasks.tasks.way_on(run)
            stopped["checked"] = True
    return found


def _stopped_in(found: object) -> Iterator[tuple[str, Answer]]:
    """The runs that stopped, by their ids, wherever an answer names them."""
    answer = cast("Answer", found)
    if stopped := answer.get("stopped"):
        yield str(answer.get("run") or answer["id"]), cast("Answer", stopped)
    for row in cast("list[Answer]", answer.get("rows") or []):
        yield from _stopped_in(row["run"] if row["kind"] == "fold" and row["run"] else row)
    if "page" in answer:
        yield from _stopped_in(answer["page"])
