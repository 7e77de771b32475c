"""Which values a person looks for first: tables, models, single values, figures, and then everything else."""

from __future__ import annotations

from typing import Final

from agent_kernel.values.summaries.model import MODEL, Summary

__all__ = ["LEAST", "interest", "is_picture"]

_KINDS: Final = {"frame": 0, "series": 0, "scalar": 2, "text": 2}
_MODEL, _FIGURE, LEAST = 1, 3, 4
_PICTURES: Final = frozenset({"Axes", "AxesSubplot", "Figure", "FigureWidget"})


def interest(summary: Summary) -> int:
    """The rank of a value, the most interesting first."""
    if summary.kind != "object":
        return _KINDS.get(summary.kind, LEAST)
    return _MODEL if summary.dtype == MODEL else _FIGURE if is_picture(summary) else LEAST


def is_picture(summary: Summary) -> bool:
    """Whether the value is a figure, of which its cell may have shown a picture."""
    return summary.kind == "object" and summary.type.rpartition(".")[2] in _PICTURES
