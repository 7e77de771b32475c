"""A summary in two columns: what kind of value it is, and what it holds. `line` says both in one."""

from __future__ import annotations

from collections.abc import Iterator

from agent_kernel.values.summaries.lines import is_whole, mapping_text, short_type
from agent_kernel.values.summaries.model import MODEL, Summary
from agent_kernel.values.summaries.wording import MASK, MORE, clean, count_text, counted, cut, shape_text

__all__ = ["content", "noun"]

_LONGEST_NOUN, _LONGEST_CONTENT = 60, 120


def noun(summary: Summary) -> str:
    """The kind of value: `DataFrame`, `ndarray float64`, `list`, `function`; of a library's class `ipywidgets.IntSlider`."""
    name = short_type(summary)
    package, _, rest = name.partition(".")
    if "." in rest:
        name = f"{package}.{rest.rpartition('.')[2]}"  # the modules between say where it is written, and not what it is
    match summary.kind:
        case "scalar" if summary.type == "NoneType":
            name = "None"
        case "function":
            name = "function" if name.startswith("builtin") else name
        case "class" | "module":
            name = summary.kind
        case "array" | "tensor" | "sparse" | "series" | "index" if summary.dtype:
            name = f"{name} {summary.dtype}"
        case _:
            pass
    return cut(clean(name), _LONGEST_NOUN)


def content(summary: Summary) -> str:
    """What it holds, without its size: `1,460 × 8`, `(1460,)`, `[12, 57, 233]`, `fit(X, y)`."""
    return cut(clean(", ".join(part for part in _parts(summary) if part)), _LONGEST_CONTENT)


def _parts(summary: Summary) -> Iterator[str]:
    count = summary.shape[0] if summary.shape else None
    match summary.kind:
        case "scalar" | "text" | "class" | "module":
            yield summary.text
        case "function":
            yield summary.text
            yield summary.note
        case "container" | "mapping":
            shown = summary.text if summary.kind == "container" else mapping_text(summary)
            yield "empty" if count == 0 else counted(count, "item") if count is not None and MORE in shown else ""
            yield shown if count else ""
        case "frame" if len(summary.shape) == 2:
            yield f"{count_text(summary.shape[0])} × {count_text(summary.shape[1])}"
        case "series" | "index":
            yield count_text(count) if count is not None else ""
            yield from _values(summary)
        case "array" | "tensor" | "sparse":
            yield shape_text(summary.shape)
            yield summary.note
            yield from _values(summary)
        case _:
            yield counted(count, "item") if count is not None else ""
            yield summary.text if summary.dtype == MODEL else ""
            yield summary.note
    if summary.masked and not summary.columns and summary.kind in ("object", "exception"):
        yield MASK


def _values(summary: Summary) -> Iterator[str]:
    if summary.text and is_whole(summary.text):
        yield summary.text
