"""`commit`: one commit against its first parent, or against another one."""

from __future__ import annotations

from typing import Literal

import msgspec

from agent_kernel.browsing.answers import Author, Ref
from agent_kernel.browsing.arguments import At
from agent_kernel.browsing.book import Book
from agent_kernel.browsing.changes import Change, changes_of
from agent_kernel.browsing.code import last_run, source_of
from agent_kernel.browsing.lines import count_of
from agent_kernel.browsing.matching import Budget
from agent_kernel.browsing.wording import called, cleaned, step_called, subject_of
from agent_kernel.repository import Commit, ObjectId, hex_of, read_outputs, short
from agent_kernel.session.labels import prompt, shown
from agent_kernel.verbs.comparing import differing
from agent_kernel.verbs.text import clean_lines

__all__ = ["Against", "Details", "before_of", "commit"]


class Against(msgspec.Struct, frozen=True):
    """The other side of a comparison."""

    id: str
    label: str


class Unsaved(msgspec.Struct, frozen=True):
    """A variable that could not be saved, why, and what can be done about it."""

    name: str
    type: str
    reason: str
    remedy: str


class CodeCount(msgspec.Struct, frozen=True):
    """Lines that the cell's last run did not have, and lines that only it had."""

    added: int
    removed: int


class Details(msgspec.Struct, frozen=True):
    """Everything about a commit but its outputs, its code line by line, and the contents of variables."""

    id: str
    short: str
    prompt: str
    subject: str
    is_code: bool
    message: str
    source: str
    author: Author
    time_ms: int
    took_s: float | None
    status: str
    error: str
    labels: tuple[str, ...]
    parents: tuple[str, ...]
    refs: tuple[Ref, ...]
    against: Against | None
    changes: tuple[Change, ...]
    more_changes: int  # beyond those
    unsaved: tuple[Unsaved, ...]
    code: CodeCount | None
    outputs: int
    environment: Literal["same", "changed", "none"]
    cells: bool
    cwd: str
    called: str = ""  # a step of an agent in a sentence, for its cell has others


def commit(book: Book, args: At) -> Details:
    """One commit."""
    id, found = book.resolve(args.id)
    before = before_of(book, found, args.against)
    changes, more = changes_of(book.repo, differing(book.repo, None if before is None else before[0], id))
    subject, is_code = subject_of(found)
    masked = shown(found)
    return Details(
        id=hex_of(id),
        short=short(id),
        prompt=prompt(found),
        subject=subject,
        is_code=is_code,
        message=clean_lines(masked.message)[:10_000],
        source=clean_lines(source_of(found)),
        author=book.author(found),
        time_ms=found.time_ns // 1_000_000,
        took_s=found.cell.duration_s if found.cell is not None else None,
        status=cleaned(found.status),
        error=cleaned(masked.cell.error, 500) if masked.cell is not None else "",
        labels=tuple(cleaned(label) for label in found.labels[:20]),
        parents=tuple(map(hex_of, found.parents[:20])),
        refs=book.spread().refs.get(id, ()),
        against=None if before is None else Against(hex_of(before[0]), called(before[1])),
        changes=changes,
        more_changes=more,
        unsaved=tuple(
            Unsaved(cleaned(one.name), cleaned(one.type), cleaned(one.reason, 300), cleaned(one.remedy, 300))
            for one in masked.unsaved[:500]
        ),
        code=_code_count(book, id, found),
        outputs=_output_count(book, found),
        environment=_environment(found, None if before is None else before[1]),
        cells=(found.document or found.notebook) is not None,
        cwd=cleaned(found.cwd, 500),
        called=step_called(found),
    )


def before_of(book: Book, found: Commit, against: str | None) -> tuple[ObjectId, Commit] | None:
    """What a commit is compared with: another one, or its first parent, if it has one; "": nothing."""
    if against == "":
        return None
    if against is not None:
        return book.resolve(against)
    return (found.parents[0], book.repo.commit_at(found.parents[0])) if found.parents else None


def _code_count(book: Book, id: ObjectId, found: Commit) -> CodeCount | None:
    if found.cell is None:
        return None
    budget = Budget()
    last = last_run(book, id, found, budget)
    return CodeCount(*count_of("" if last is None else source_of(last), source_of(found), budget))


def _output_count(book: Book, found: Commit) -> int:
    if found.cell is None or found.cell.outputs is None:
        return 0
    return len(read_outputs(book.repo.objects, found.cell.outputs).outputs)


def _environment(found: Commit, before: Commit | None) -> Literal["same", "changed", "none"]:
    if found.environment is None:
        return "none"
    return "same" if before is None or before.environment == found.environment else "changed"
