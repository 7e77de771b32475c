"""Values that were read, as they stand in a cell: what looks like a secret is masked, numbers of a column line up."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

import msgspec

from agent_kernel.values import summaries
from agent_kernel.values.summaries.arrays import number_text
from agent_kernel.values.summaries.wording import MORE

__all__ = ["PLAIN", "Style", "style_of", "text_of"]

_ROOM = 60  # characters of one cell
_MOST_DECIMALS = 4
_SMALL, _LARGE = 0.01, 1e12  # a column whose floats are all smaller, or some larger, keeps six digits each
_GROUPED_FROM = 10_000  # years are smaller


class Style(msgspec.Struct, frozen=True):
    """How the numbers of a column are written. `decimals`: of its floats; None: as many as each needs."""

    decimals: int | None = None
    is_grouped: bool = False


PLAIN = Style()


def style_of(values: Iterable[object]) -> Style:
    """One number of decimals, and thousands apart, for all numbers that stand below each other."""
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    floats = [value for value in numbers if isinstance(value, float) and isfinite(value)]
    if not floats:
        return Style(is_grouped=any(abs(value) >= _GROUPED_FROM for value in numbers))
    largest = max(map(abs, floats))
    if largest > _LARGE or 0 < largest < _SMALL:
        return PLAIN
    decimals = max(len(number_text(value).partition(".")[2]) for value in floats)
    return Style(min(max(decimals, 1), _MOST_DECIMALS), is_grouped=True)


def text_of(value: object, style: Style = PLAIN) -> str:
    """One value."""
    if value is None:
        return "missing"
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return str(value) if isinstance(value, bool) else MORE
    if isinstance(value, (int, float)):
        said = _number(value, style)
        return f"−{said[1:]}" if said.startswith("-") else said
    if summaries.holds_a_secret(value):
        return summaries.MASK
    said = summaries.clean(value[: 4 * _ROOM])
    return said if len(said) <= _ROOM else f"{said[: _ROOM - 1]}{MORE}"


def _number(value: float, style: Style) -> str:
    if isinstance(value, float) and style.decimals is not None and isfinite(value):
        return f"{value:,.{style.decimals}f}"
    if isinstance(value, int) and style.is_grouped and abs(value) < _LARGE:
        return f"{value:,}"
    said = number_text(value)
    # A float stays one to the eye.
    return f"{said}.0" if isinstance(value, float) and said.lstrip("-").isdigit() else said
