"""A stored table: its columns by name, and what its rows are called."""

from __future__ import annotations

import msgspec

from agent_kernel.browsing.elements import elements_of
from agent_kernel.browsing.memory import Elements
from agent_kernel.browsing.wording import cleaned
from agent_kernel.values import summaries
from agent_kernel.values.peeking import calls
from agent_kernel.verbs.contents import Part, Stored, columns_of, items_of

__all__ = ["Frame", "frame_of"]

_MANAGER = "pandas.core.internals.managers.BlockManager"
_SINGLE = "pandas.core.internals.managers.SingleBlockManager"
_MOST_COLUMNS = 2_000


class Frame(msgspec.Struct, frozen=True):
    """A stored table."""

    stored: Stored
    names: tuple[str, ...]
    dtypes: dict[str, str]
    parts: dict[str, Part]
    columns: dict[str, Elements | None]
    labels: Elements | None
    axis: object  # the description of the labels
    rows: int


def frame_of(stored: Stored, summary: summaries.Summary) -> Frame | None:
    """The table; None where it is not kept as pandas keeps one."""
    axes = _axes(stored, summary)
    parts = columns_of(stored)
    if axes is None or parts is None or not 0 < len(parts) <= _MOST_COLUMNS or summary.shape[:1] == (-1,):
        return None
    names = _names(stored, axes[0], len(parts), summary)
    if names is None or len(set(names)) != len(names):
        return None
    known = {column.name: column.of for column in summary.columns}
    found = {name: parts[at] for at, name in enumerate(names) if at in parts}
    if len(found) != len(names):
        return None
    return Frame(
        stored,
        names,
        {name: known.get(name, summary.dtype) for name in names},
        found,
        {name: elements_of(stored, part[0].args[0], part[1]) for name, part in found.items()},
        elements_of(stored, axes[1]),
        axes[1],
        summary.shape[0],
    )


def _axes(stored: Stored, summary: summaries.Summary) -> tuple[object, object] | None:
    if summary.kind == "series":
        managers = calls(stored.value, _SINGLE)
        if not managers:
            return None
        if len(managers[0].args) > 1:
            return None, managers[0].args[1]
        state = items_of(managers[0].state[0]) if managers[0].state else ()  # as earlier releases wrote it
        labels = items_of(state[0]) if state else ()
        return (None, labels[0]) if labels else None
    managers = calls(stored.value, _MANAGER)
    axes = items_of(managers[0].args[1]) if managers and len(managers[0].args) > 1 else ()
    return (axes[0], axes[1]) if len(axes) == 2 else None


def _names(stored: Stored, axis: object, count: int, summary: summaries.Summary) -> tuple[str, ...] | None:
    if summary.kind == "series":
        return ("values",)
    found = elements_of(stored, axis)
    if found is None or found.count != count:
        return tuple(column.name for column in summary.columns) if len(summary.columns) == count else None
    return tuple(cleaned(summaries.mask_text(str(found.at(place)))) for place in range(count))
