"""One module for each kind of work. `WORKLOADS` lists them in the order in which they run and are shown."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.tables import Table

WORKLOADS = (
    "start_up",
    "quiet_cells",
    "hot_loops",
    "names_5000",
    "tiny_cells",
    "array_512mb",
    "frame_1m",
    "text_columns",
    "rows_300k",
    "words",
    "many_objects",
    "switch_branch",
    "notebook_33",
    "figures",
    "memory_1gb",
    "growth_names",
    "growth_10k",
    "history_10k",
    "history_browser",
    "footer",
    "records",
    "record_lists",
    "conversation_growth",
    "agno_sessions",
    "agent_steps",
    "bundles",
    "faithful",
)


def load(name: str) -> Callable[[Bench], Table]:
    """The function that runs a workload."""
    run: Callable[[Bench], Table] = import_module(f"benchmarks.workloads.{name}").run
    return run
