"""How commits, names and sizes are called in a panel, beyond what every door says."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

import msgspec

from agent_kernel.repository import Commit
from agent_kernel.session.labels import is_code, prompt, title
from agent_kernel.values import summaries
from agent_kernel.values.summaries.arrays import number_text
from agent_kernel.values.summaries.wording import MORE
from agent_kernel.verbs.text import clean, cut

__all__ = ["PLAIN", "Style", "called", "cleaned", "prompts", "step_called", "style_of", "subject_of", "text_of"]


_SUBJECT = 200  # characters; a panel is narrower
_NAME = 120
_CALLED = 40


def cleaned(text: str, most: int = _NAME) -> str:
    """A name on one line, however long somebody made it."""
    return cut(clean(text), most)


def subject_of(commit: Commit) -> tuple[str, bool]:
    """What the commit is about, and whether that is code."""
    code = is_code(commit)
    return cut(title(commit), _SUBJECT, middle=code), code


def called(commit: Commit) -> str:
    """The commit inside a sentence: `[7]`, `step 2 of analyst [7]`, or, where no cell made it, its subject in quotes."""
    return step_called(commit) or prompt(commit) or f"“{cut(title(commit), _CALLED)}”"


def step_called(commit: Commit) -> str:
    """The step of a run that the commit is: `step 2 of analyst [7]`. Returns "" for other commits."""
    if not commit.run or commit.step is None:
        return ""
    return f"step {commit.step} of {cleaned(commit.author.name, _CALLED)} {prompt(commit)}".rstrip()


def prompts(newest: Commit, oldest: Commit) -> str:
    """The numbers of several cells: `[8–10]`."""
    first, last = prompt(oldest), prompt(newest)
    return f"{first[:-1]}–{last[1:]}" if first and last and first != last else last or first


# -- values that were read, as they stand in a cell: what looks like a secret is masked, numbers of a column line up

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
