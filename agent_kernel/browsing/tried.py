"""What a person is told of a step that was tried on a fork before they were asked: what it did there, and what accepting does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from agent_kernel.browsing.changes import summary_of
from agent_kernel.browsing.wording import cleaned
from agent_kernel.errors import StoreError
from agent_kernel.repository import ObjectId
from agent_kernel.values import summaries
from agent_kernel.verbs.text import plural

if TYPE_CHECKING:
    from agent_kernel.agents.events import ApprovalRequested
    from agent_kernel.browsing.book import Book

__all__ = ["Happened", "happened", "keeps", "note_of"]

_MOST: Final = 40
_READ: Final = "Read from the code; it may do more than this. Undo brings back variables, not files or mail."
_KEEPS: Final = (
    "Accepting takes on what it changed there, and does not run it again, unless the same variables are changed here "
    "meanwhile. Files and mail are real already."
)
_ENDED: Final = {
    "ok": "ran to its end",
    "failed": "failed",
    "interrupted": "was interrupted",
    "timeout": "ran too long and was ended",
    "killed": "ran too long and was ended",
    "crashed": "crashed; the kernel is unharmed",
    "stopped": "was ended",
}
_ENDS: Final = {"success": "Returned", "fail": "Gave up", "clarify": "Asked"}

Happened = tuple[str, str, str, str]  # a word, the sign of a change or "", what, a remark


def keeps(asked: ApprovalRequested) -> bool:
    """Whether approving takes on what the fork did, so that the code does not run again."""
    return bool(asked.branch) and not asked.told


def note_of(asked: ApprovalRequested, hidden: frozenset[str] = frozenset()) -> str:
    """What to know before one says yes, in whole sentences."""
    told = cleaned(summaries.mask_text(asked.told, hidden), 500)
    told = f"{told[:1].upper()}{told[1:]}." if told else ""
    if asked.stopped and not asked.preview:
        return told
    if not asked.preview:
        return _READ
    if asked.preview == "refused":
        return f"Not tried. {told} {_READ}"
    seen = f"It {_ENDED.get(asked.preview, 'ended')} in a process of its own."
    if keeps(asked):
        return f"{seen} {_KEEPS}"
    return f"{seen} {told} {_READ}"


def happened(
    book: Book, asked: ApprovalRequested, before: ObjectId | None, hidden: frozenset[str]
) -> tuple[Happened, ...]:
    """What it changed on the fork, showed, did outside and ended its run with."""
    return tuple(_happened(book, asked, before, hidden))


def _happened(
    book: Book, asked: ApprovalRequested, before: ObjectId | None, hidden: frozenset[str]
) -> Iterator[Happened]:
    def masked(text: str) -> str:
        return cleaned(summaries.mask_text(text, hidden), 200)

    for how, name, now in asked.changed[:_MOST]:
        was = _was(book, before, name) if how == "~" else ""
        yield "Changed", how, f"{cleaned(name, 60)} {_became(was, cleaned(now, 200))}".rstrip(), "there"
    if len(asked.changed) > _MOST:
        yield "Changed", "", f"and {len(asked.changed) - _MOST} more", ""
    lines = [line for line in asked.output.splitlines() if line.strip()]
    if lines:
        yield "Showed", "", masked(lines[0]), plural(len(lines), "line") if len(lines) > 1 else "there"
    for what, target, count in asked.effects[:_MOST]:
        yield "Outside", "", masked(f"{what} {target}{f', {count} times' if count > 1 else ''}"), "is real already"
    if asked.settled:
        yield _ENDS.get(asked.settled, "Ended with"), "", masked(asked.result) or "nothing", "ends the run"


def _was(book: Book, before: ObjectId | None, name: str) -> str:
    if before is None:
        return ""
    try:
        summary = summary_of(book.repo, book.repo.tree_at(before).get(name))
    except StoreError:  # damaged: what it is now can still be said
        return ""
    return "" if summary is None else cleaned(summaries.line(summary), 200)


def _became(was: str, now: str) -> str:
    """`DataFrame 4 × 2, 32 B → 4 × 3, 48 B`: what both begin with is said once."""
    if not was or not now:
        return now
    if was == now:
        return f"{now}: contents differ"
    kind, _, rest = now.partition(" ")
    return f"{was} → {rest if rest[:1].isdigit() and was.startswith(f'{kind} ') else now}"
