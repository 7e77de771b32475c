"""What a preview says of a value, in one line."""

from __future__ import annotations

from agent_kernel.values.previews import line, make_preview


def told(value: object, name: str = "") -> str:
    return line(make_preview(value, name))
