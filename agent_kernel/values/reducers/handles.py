"""Objects that stand for something outside the kernel: widgets in a front end, files of HDF5, open stores of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_kernel.values.reducers import Handler, dispatch_table
from agent_kernel.values.summaries.reading import module_name

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler


# By name, because they are above this layer. What they consist of (locks, threads, an environment) tells a reader nothing.
_STORES = ("Repository", "Snapshot", "Committing", "Versioned", "LmdbStore", "MemoryStore", "EventStore")
_HANDLES = frozenset({*_STORES, "ExecutionContext", "Run", "Race", "Preview"})


def handler_for(kind: type) -> Handler | None:
    names = {(module_name(base).partition(".")[0], base.__name__) for base in kind.__mro__}
    if ("ipywidgets", "Widget") in names:
        from agent_kernel.values.reducers.widgets import reduce_widget

        return reduce_widget
    if ("traitlets", "HasTraits") in names:
        from agent_kernel.values.reducers.widgets import reduce_with_traits, says_only_traits

        return reduce_with_traits if says_only_traits(kind) and kind not in dispatch_table() else None
    if ("h5py", "HLObject") in names:
        return lose_hdf5
    if any(package == "agent_kernel" and name in _HANDLES for package, name in names):
        return lose_store
    return None


def lose_store(pickler: Pickler, value: Any) -> Any:
    """None of these is told to have changed: what an agent's step does to its place or its run is no change of a variable."""
    if getattr(value, "is_here", False) is True:  # the notebook's own place, which is there wherever this is loaded
        return value.__reduce__()
    return pickler.lose(value, "it holds an open store", again=_way_back(value), by_itself=True)


def _way_back(value: Any) -> str:
    """How to have again what its cell would not make again: that would give the task once more."""
    kind = type(value).__name__
    if kind == "Run":
        return f"Agent.reopen({value.id[-5:]!r}) gives it again"
    if kind == "Race":
        branch = f"race/{value.id[-5:]}/1"
        return f"its cell would begin another race; %agent merge {branch} takes its candidate 1 until you discard it"
    return ""


def lose_hdf5(pickler: Pickler, value: Any) -> Any:
    try:
        where = f" {value.file.filename}"
    except Exception:  # noqa: BLE001  # a closed file raises whatever its version likes
        where = ""
    return pickler.lose(value, f"an HDF5 object of the file{where} is not stored")
