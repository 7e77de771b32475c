"""The line under a cell that changed something: which commit it became, and what that changed.

Plain data with two faces, and no widget: a cell must not become slower for it. The lab extension draws it with buttons;
every other front end shows the HTML, which needs no script and holds no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from agent_kernel.browsing.mime import FOOTER
from agent_kernel.browsing.rows import chips_of
from agent_kernel.browsing.wording import cleaned
from agent_kernel.repository import hex_of, short
from agent_kernel.values import summaries
from agent_kernel.verbs.text import duration, size_text

if TYPE_CHECKING:
    from agent_kernel.repository import Commit, ObjectId, Unsaved

__all__ = ["footer"]

_BYTES: Final = 1_000  # a smaller size says nothing beside a name
_COLOURS: Final = {"+": "#2e7d32", "~": "#8a5300", "-": "#c62828", "!": "#8a5300"}
_STYLE: Final = "font-size:11px;line-height:24px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
_MUTED: Final = "color:var(--jp-ui-font-color2,#616161)"

_Chip = tuple[str, str, int]


def footer(
    id: ObjectId, commit: Commit, branch: str | None, news: Sequence[Unsaved], *, undo: bool
) -> dict[str, object] | None:
    """The line by MIME type; None where there is nothing to say.

    Args:
        news: what could not be saved, and was not told before.
    """
    told = _unsaved(news[0]) if news else ""
    named = {name for one in news[:1] for name in one.name.split(", ")}
    chips, more = _chips(commit, named)
    if not chips and not told:
        return None
    line = {
        "commit": hex_of(id),
        "short": short(id),
        "branch": None if branch is None else cleaned(branch, 200),
        "author": {"name": cleaned(commit.author.name), "kind": commit.author.kind},
        "chips": chips,
        "more": more,
        "unsaved": told,
        "took_s": commit.cell.duration_s if commit.cell is not None else None,
        "undo": undo,
    }
    parts = _parts(line, chips)
    return {FOOTER: line, "text/html": _html(parts), "text/plain": " ".join(text for text, _ in parts)}


def _chips(commit: Commit, named: set[str]) -> tuple[list[_Chip], int]:
    """The changed names; those of which a sentence tells are left out."""
    told = {cleaned(name, 60) for name in named}
    chips, more = chips_of(commit)
    return [chip for chip in chips if chip[1] not in told], more


def _unsaved(one: Unsaved) -> str:
    """`conn is not saved: a database connection. Run this cell again to have it back.`"""
    said = f"{one.name} is not {'loaded' if one.stored else 'saved'}: {one.reason}".rstrip(". ") + "."
    remedy = one.remedy.rstrip(".")
    if remedy.startswith("run cell ["):  # it is the cell above this line
        remedy = "run this cell again to have it back"
    way = f" {remedy[0].upper()}{remedy[1:]}." if remedy else ""
    return cleaned(summaries.mask_text(said + way), 300)


def _parts(line: dict[str, object], chips: Sequence[_Chip]) -> list[tuple[str, str]]:
    """The line in pieces of text, each with its style."""
    author = line["author"]
    is_agent = isinstance(author, dict) and author["kind"] == "agent"
    parts = [("■" if is_agent else "●", _MUTED), (str(line["short"]), f"{_MUTED};font-family:monospace")]
    parts += [(str(line["branch"]), _MUTED)] if line["branch"] else []
    parts += [(str(author["name"]), _MUTED)] if is_agent and isinstance(author, dict) else []
    for at, (sign, name, size) in enumerate(chips):
        parts.append((f"{'−' if sign == '-' else sign}{name}", f"color:{_COLOURS[sign]};font-family:monospace"))
        if not at and size >= _BYTES:
            parts.append((size_text(size), _MUTED))
    parts += [(f"{line['more']} more", _MUTED)] if line["more"] else []
    parts += [(f"! {line['unsaved']}", f"color:{_COLOURS['!']}")] if line["unsaved"] else []
    took = line["took_s"]
    return [*parts, (duration(took), _MUTED)] if isinstance(took, float) else parts


def _html(parts: Sequence[tuple[str, str]]) -> str:
    spans = " &nbsp;".join(f'<span style="{style}">{escape(text)}</span>' for text, style in parts)
    return f'<div style="{_STYLE}">{spans}</div>'
