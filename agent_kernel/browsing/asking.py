"""What a person is asked before a step runs: its code, and a report of what it would reach, write, import, read, delete.

What leaves the machine comes first, then files, then the harmless. The five kinds that everybody asks about always have a
row, so that it is seen where there is nothing; the others only where something was found.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.browsing.highlighting import pieces_of
from agent_kernel.browsing.tried import Happened, happened, keeps, note_of
from agent_kernel.browsing.wording import called, cleaned
from agent_kernel.repository import ObjectId
from agent_kernel.values import summaries
from agent_kernel.verbs.text import clean_lines, plural

if TYPE_CHECKING:
    from agent_kernel.agents.events import ApprovalRequested, Finding
    from agent_kernel.browsing.book import Book

__all__ = ["Asks", "ReportRow", "asks_of", "report_of"]

_MOST_CODE: Final = 100_000
_MOST_ITEMS: Final = 40
_DELETING: Final = ("deletes ", "remove", "unlink", "rmdir", "rmtree", "truncate")
# Which findings of a review stand in which row; rows that stay also where nothing was found come with what is said then.
_ROWS: Final[tuple[tuple[str, frozenset[str], bool], ...]] = (
    ("Reaches", frozenset({"network", "database", "browser", "clipboard"}), True),
    ("Takes back", frozenset({"goes back"}), False),
    ("Starts", frozenset({"processes", "shell", "process state", "kernel"}), False),
    ("Writes", frozenset({"files"}), True),
    ("Hides", frozenset({"dynamic", "dunder", "unreadable"}), False),
    ("Uses", frozenset({"magic", "person", "history", "agent"}), False),
    ("Imports", frozenset({"imports"}), True),
    ("Changes", frozenset({"changes"}), False),
    ("Sets", frozenset({"writes"}), False),
)
_NOTES: Final = {
    "Reaches": "may send data out",
    "Takes back": "what others did",
    "Starts": "beyond this notebook",
    "Writes": "outside the variables",
    "Hides": "what it does cannot be read",
    "Deletes": "gone when it has run",
}


class ReportRow(msgspec.Struct, frozen=True):
    """One kind of thing that the code would do. No items: nothing of the kind was found."""

    word: str
    items: tuple[str, ...]
    risky: bool
    note: str


class Asks(msgspec.Struct, frozen=True):
    """A step that waits. `tried`: what it did where it was tried on a fork first; `keeps`: approving takes that on."""

    step: int
    code: tuple[tuple[str, str], ...]  # in pieces, each with its kind: keyword, string, number, comment or none
    source: str  # the same as one text, to be changed
    branch: str | None
    after: str
    asked_ms: int
    report: tuple[ReportRow, ...]
    tried: tuple[Happened, ...]
    keeps: bool
    note: str


def asks_of(book: Book, asked: ApprovalRequested) -> Asks:
    """The question as a panel shows it; what looks like a secret is masked."""
    code, hidden = summaries.mask_code(asked.code)
    code = clean_lines(code)[:_MOST_CODE]
    before = _known(book, asked.before)
    head = book.spread().view.head
    return Asks(
        step=asked.step or 0,
        code=tuple(pieces_of(code)),
        source=code,
        branch=None if head.branch is None else cleaned(head.branch, 200),
        after=_called(book, before),
        asked_ms=asked.time_ns // 1_000_000,
        report=report_of(asked, _names_at(book, before), hidden),
        tried=happened(book, asked, before, hidden),
        keeps=keeps(asked),
        note=note_of(asked, hidden),
    )


def _known(book: Book, id: str) -> ObjectId | None:
    """The commit, where it is still there."""
    found = ObjectId(bytes.fromhex(id) + b"\x01") if id else None
    return found if found is not None and found in book.spread().view.places else None


def _called(book: Book, before: ObjectId | None) -> str:
    if before is None:
        return ""
    commit = book.repo.commit_at(before)
    prompt = called(commit)
    return f"{prompt[:-1]}.{commit.step}]" if commit.run and commit.step and prompt.startswith("[") else prompt


def _names_at(book: Book, before: ObjectId | None) -> frozenset[str]:
    """The variables there are when the step begins."""
    if before is None:
        return frozenset()
    return frozenset(book.repo.tree_at(before).names())


def report_of(
    asked: ApprovalRequested, names: frozenset[str], hidden: frozenset[str] = frozenset()
) -> tuple[ReportRow, ...]:
    """The rows, the gravest first.

    Args:
        names: variables there are, of which those that the code reads are told.
    """
    deletes = [one for one in asked.findings if _deletes(one)]
    rest = [one for one in asked.findings if not _deletes(one)]
    rows = [
        _row(word, [one for one in rest if one.kind in kinds], hidden)
        for word, kinds, stays in _ROWS
        if stays or any(one.kind in kinds for one in rest)
    ]
    read = tuple(sorted(_reads(asked.code) & names))
    rows.append(ReportRow("Reads", read[:_MOST_ITEMS], False, plural(len(read), "name") if read else ""))
    gone = _row("Deletes", deletes, hidden)
    rows.insert(0 if gone.risky else len(rows), gone)
    return tuple(sorted(rows, key=_rank))


def _rank(row: ReportRow) -> int:
    """What leaves the machine first; a row that needs a look before one that does not."""
    order = ["Reaches", "Takes back", "Starts", "Deletes", "Writes", "Hides", "Uses"]
    if row.word == "Deletes" and not row.risky:
        return 99
    return order.index(row.word) if row.word in order else 50


def _row(word: str, found: Sequence[Finding], hidden: frozenset[str]) -> ReportRow:
    items = dict.fromkeys(cleaned(summaries.mask_text(one.what, hidden), 200) for one in found)
    risky = any(one.risky for one in found)
    note = (
        _NOTES.get(word, "") if risky else plural(len(items), "name") if word in ("Changes", "Sets") and items else ""
    )
    return ReportRow(word, tuple(items)[:_MOST_ITEMS], risky, note)


def _deletes(one: Finding) -> bool:
    return one.kind == "deletes" or (
        one.kind == "files" and any(word in one.what.partition("(")[0] for word in _DELETING)
    )


def _reads(code: str) -> set[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse("\n".join(_python_lines(code.splitlines())))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)}


def _python_lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield "pass" if line.startswith(("%", "!")) else line
