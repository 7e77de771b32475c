"""A commit in a few words, for people: `3f2a91c4 [7] convert to euros`.

Messages that a session writes by itself speak of other commits in these words, so the words are made here and not at the
interfaces. What looks like a secret is masked first.
"""

from __future__ import annotations

import re

import msgspec

from agent_kernel.repository import ASIDE, OF_KERNEL, Commit, ObjectId, short
from agent_kernel.values import previews
from agent_kernel.values.previews.model import clean, cut

__all__ = [
    "Kernels",
    "about",
    "commit_in_message",
    "commit_in_undo",
    "describe_kind",
    "error_kind",
    "is_code",
    "label",
    "mask_commit",
    "prompt",
    "session_of",
    "subject",
    "title",
    "without_code",
]

_IMPORT = re.compile(r"(?:import|from)\s+[\w.]+")
_LONGEST = 60  # characters of a title inside the message of another commit
_WRITTEN = frozenset({"cell", "commit", "merge"})  # kinds whose message a person wrote; others quote a cell
_MESSAGE = 80
_NAME = 120


def mask_commit(commit: Commit) -> Commit:
    """Mask what looks like a secret in a commit's code, its error and its message, as every interface shows it."""
    cell, hidden = commit.cell, frozenset[str]()
    if cell is not None:
        source, hidden = previews.mask_code(cell.source)
        cell = msgspec.structs.replace(cell, source=source, error=previews.mask_text(cell.error, hidden))
    message = previews.mask_text(commit.message, hidden)
    unsaved = tuple(
        msgspec.structs.replace(one, reason=previews.mask_text(one.reason, hidden)) for one in commit.unsaved
    )
    return msgspec.structs.replace(commit, cell=cell, message=message, unsaved=unsaved)


def subject(message: str, source: str) -> str:
    """What a commit is about: its message, else the cell's leading comment, else its first line that does something."""
    return about(message, source)[0]


def is_code(commit: Commit) -> bool:
    """Whether a line of the cell's code stands for the commit, and no words of a person's."""
    return about(commit.message, commit.cell.source if commit.cell else "")[1]


def about(message: str, source: str) -> tuple[str, bool]:
    """The same as `subject`, and whether it is a line of the code."""
    if message.strip():
        return clean(message.strip().splitlines()[0]), False
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    body = [line for line in lines if not line.startswith("%%agent")]
    if not body:
        return clean(lines[0]) if lines else "", bool(lines)
    comment = body[0].lstrip("#! ").strip()
    if body[0].startswith("#") and comment:
        return clean(comment), False
    code = [line for line in body if not line.startswith("#")]
    return clean(next((line for line in code if not _IMPORT.match(line)), (code or body)[0])), True


def title(commit: Commit) -> str:
    """What the commit is about, in one line; never empty."""
    commit = mask_commit(commit)
    text = subject(commit.message, commit.cell.source if commit.cell else "")
    return text or {"root": "the beginning", "commit": "what no cell had committed yet"}.get(commit.kind, commit.kind)


def prompt(commit: Commit) -> str:
    """The cell's number as Jupyter shows it."""
    return f"[{commit.cell.number}]" if commit.cell and commit.cell.number is not None else ""


def label(found: ObjectId, commit: Commit, *, longest: int = 0) -> str:
    """The commit in a sentence: `3f2a91c4 [7] convert to euros`. `longest`: characters of its title; 0: all."""
    text = title(commit)
    if longest and len(text) > longest:
        text = f"{text[: longest - 1]}…"
    return " ".join(part for part in (short(found), prompt(commit), text) if part)


def commit_in_message(found: ObjectId, commit: Commit, rev: str = "") -> str:
    """The commit inside another one's message: as it was called by whoever typed it, then what it is."""
    text = label(found, commit, longest=_LONGEST)
    return f"{rev}: {text}" if rev and not text.startswith(rev) else text


class Kernels:
    """Where a history that is listed newest first passes from one kernel to the one before: numbers of cells begin anew there."""

    def __init__(self) -> None:
        self._next: dict[ObjectId | None, str] = {}  # by commit, the session of the cell that went on from it

    def before(self, found: ObjectId | None, parent: ObjectId | None, session: str) -> str:
        """What to say right above this commit; "" mostly.

        Args:
            found, parent: the commit, and from which it goes on; None: others lie between those that are listed.
            session: in which its cell ran; "": it has no numbered cell of a kernel.
        """
        later = self._next.pop(found, "")
        if later or session:
            self._next[parent] = session or later
        if not later or not session or later == session:
            return ""
        if later.partition(OF_KERNEL)[0] == session.partition(OF_KERNEL)[0]:
            return "kernel restarted"
        return "new kernel" if OF_KERNEL in later and OF_KERNEL in session else "new session"


def session_of(commit: Commit) -> str:
    """The session in which the commit's numbered cell ran. Returns "" without such a cell, or where an agent ran it aside."""
    is_numbered = commit.cell is not None and commit.cell.number is not None
    return commit.session if is_numbered and not commit.session.startswith(ASIDE) else ""


def commit_in_undo(found: ObjectId, commit: Commit) -> str:
    """The commit inside the message of an undo: `3f2a91c4 [7] x = 1`, and of another move `3f2a91c4 (roll back to HEAD~2)`."""
    if commit.cell is not None:
        return commit_in_message(found, commit)
    text = title(commit)
    if commit.kind not in _WRITTEN:
        text = text.partition(": ")[0]  # behind it stands what the move went to, in as many words again
    return f"{short(found)} ({cut(text, _LONGEST)})"


def describe_kind(commit: Commit) -> str:
    """What kind of thing it was, or what somebody wrote about it; never code."""
    message = mask_commit(commit).message.strip()
    if message and commit.kind in _WRITTEN:
        return cut(clean(message.splitlines()[0]), _MESSAGE)
    if commit.cell is not None:
        return f"cell of {cut(clean(commit.author.name), _NAME)}" if commit.author.kind == "agent" else "cell"
    names = {"root": "the beginning", "commit": "what no cell had committed yet"}
    return names.get(commit.kind, cut(clean(commit.kind), _NAME))


def error_kind(commit: Commit) -> str:
    """The type of the error: its text may hold what the variables held."""
    if commit.status == "ok" or commit.cell is None:
        return ""
    kind = commit.cell.error.partition(":")[0]
    return "interrupted" if commit.status == "interrupted" else kind if kind.isidentifier() else "failed"


def without_code(commit: Commit) -> Commit:
    """The commit as it may stay in a notebook that others are given, when the cell may have been deleted long since."""
    cell = commit.cell
    if cell is not None:
        error = error_kind(commit) if cell.error else ""
        cell = msgspec.structs.replace(cell, source="", error=error, outputs=None)
    return msgspec.structs.replace(commit, message=describe_kind(commit), cell=cell)
