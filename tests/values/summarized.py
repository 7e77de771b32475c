"""What a summary says of a value, in one line."""

from __future__ import annotations

from agent_kernel.values.summaries import line, summarize


def told(value: object, name: str = "") -> str:
    return line(summarize(value, name))
