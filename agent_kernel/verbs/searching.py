"""Which commits a search finds, in a panel and in `log --search`: words, `var:NAME`, `tag:`, `branch:`, `author:`, `cell:N`, `is:WORD`, `since:DATE`.

All terms have to fit. What is searched is what is shown, so a masked secret is not found by its letters: text is masked
where it would fit, which is a small part of all. A term that means nothing (yet: searches run while they are typed)
finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from agent_kernel.repository import Commit, Kind, ObjectId
from agent_kernel.repository.commits import decode_commit
from agent_kernel.session.labels import shown
from agent_kernel.values.summaries import clean
from agent_kernel.verbs.timeline import Record, View, reached

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["Finder"]

_TERM = re.compile(r'(?:(?P<key>[a-z]+):)?(?:"(?P<quoted>[^"]*)"?|(?P<word>[^\s"]\S*)|(?=\s|$))')
_KEYS = frozenset({"author", "branch", "cell", "is", "since", "tag", "var"})
_MOST_TEXT = 64 << 20  # characters of all commits that are kept to be searched
_BATCH = 1_000


class Digest(msgspec.Struct, frozen=True, gc=False):
    """What a search looks at of one commit."""

    text: str | None  # as it was typed, in small letters; None: there is too much of it to keep
    names: tuple[str, ...]
    author: str
    cell: str
    number: int | None
    is_error: bool
    is_merge: bool
    is_agent: bool
    has_unsaved: bool
    time_ns: int


Test: TypeAlias = Callable[[Record, Digest], bool]


class Finder:
    """Searches of one repository, with what they read of its commits. One thread at a time."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._digests: dict[ObjectId, Digest] = {}
        self._characters = 0

    def find(self, view: View, text: str, show: str, tz_s: int) -> Collection[ObjectId] | None:
        """The commits that fit; None: nothing is left out."""
        tests = [self._test(view, key, value, tz_s) for key, value in terms_of(text)]
        named = _named(view) if show == "named" else frozenset[ObjectId]()
        candidates = [
            record
            for record in view.order
            if show == "all" or (record.is_error if show == "errors" else record.is_named or record.id in named)
        ]
        if not tests:
            return None if show == "all" else {record.id for record in candidates}
        self._digest(record.id for record in candidates)
        digests = self._digests
        return {record.id for record in candidates if all(test(record, digests[record.id]) for test in tests)}

    def _digest(self, ids: Iterable[ObjectId]) -> None:
        missing = [id for id in ids if id not in self._digests]
        for start in range(0, len(missing), _BATCH):
            payloads = self._repo.objects.get_many(Kind.COMMIT, missing[start : start + _BATCH])
            for id, payload in payloads.items():
                digest = digest_of(decode_commit(payload))
                length = len(digest.text or "")
                if self._characters + length > _MOST_TEXT:
                    digest = msgspec.structs.replace(digest, text=None)
                else:
                    self._characters += length
                self._digests[id] = digest

    def _says(self, record: Record, digest: Digest, words: str) -> bool:
        if digest.text is not None and words not in digest.text:
            return False
        return words in text_of(shown(self._repo.commit_at(record.id)))

    def _test(self, view: View, key: str, value: str, tz_s: int) -> Test:
        folded = value.casefold()
        match key:
            case "var":
                return _about(value)
            case "author":
                return lambda record, digest: folded in digest.author
            case "cell":
                return lambda record, digest: value in (str(digest.number), digest.cell)
            case "tag":
                tagged = {at for name, at in view.tags.items() if folded in name.casefold()}
                return lambda record, digest: record.id in tagged
            case "branch":
                on = reached(view, [at for name, at in view.branches.items() if name == value])
                return lambda record, digest: record.id in on
            case "is":
                return _is(folded, _named(view))
            case "since":
                since = moment(value, tz_s)
                return lambda record, digest: since is not None and record.time_ns >= since
            case _:
                return lambda record, digest: self._says(record, digest, folded)


def terms_of(text: str) -> list[tuple[str, str]]:
    """The terms of a search: a key, or nothing, and what is looked for.

    >>> terms_of('var:df is:error "two words" a:b')
    [('var', 'df'), ('is', 'error'), ('', 'two words'), ('', 'a:b')]
    """
    found: list[tuple[str, str]] = []
    for match in _TERM.finditer(text):
        key = match["key"] or ""
        value = match["quoted"] if match["quoted"] is not None else match["word"] or ""
        if key and key not in _KEYS:
            key, value = "", f"{key}:{value}"
        found.append((key, clean(value)))
    return [(key, value) for key, value in found if key or value]


def text_of(commit: Commit) -> str:
    """All that free text is looked for in, in small letters: message, code, error, names of variables."""
    cell = (commit.cell.source, commit.cell.error) if commit.cell is not None else ()
    names = (change.name for change in commit.changed)
    return "\n".join(part for part in (commit.message, *cell, *names) if part).casefold()


def digest_of(commit: Commit) -> Digest:
    cell = commit.cell
    return Digest(
        text=text_of(commit),
        names=(*(change.name for change in commit.changed), *(one.name for one in commit.unsaved)),
        author=commit.author.name.casefold(),
        cell=cell.id if cell is not None else "",
        number=cell.number if cell is not None else None,
        is_error=commit.status != "ok",
        is_merge=len(commit.parents) > 1,
        is_agent=commit.author.kind == "agent",
        has_unsaved=bool(commit.unsaved),
        time_ns=commit.time_ns,
    )


def _named(view: View) -> frozenset[ObjectId]:
    return frozenset([*view.branches.values(), *view.tags.values()])


def _about(name: str) -> Test:
    if "*" in name or "?" in name:
        return lambda record, digest: any(fnmatchcase(found, name) for found in digest.names)
    return lambda record, digest: name in digest.names


def _is(what: str, named: Collection[ObjectId]) -> Test:
    tests: dict[str, Test] = {
        "error": lambda record, digest: digest.is_error,
        "merge": lambda record, digest: digest.is_merge,
        "agent": lambda record, digest: digest.is_agent,
        "named": lambda record, digest: record.is_named or record.id in named,
        "unsaved": lambda record, digest: digest.has_unsaved,
    }
    return tests.get(what, lambda record, digest: False)


def moment(text: str, tz_s: int, now: datetime | None = None) -> int | None:
    """When a day or a time of the reader's begins, in nanoseconds; None where it is none.

    >>> moment("1970-01-02", 3600)
    82800000000000
    """
    zone = timedelta(seconds=tz_s)
    today = ((now or datetime.now(UTC)) + zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    days = {"today": 0, "yesterday": 1}
    try:
        local = today - timedelta(days=days[text]) if text in days else datetime.fromisoformat(text)
        if local.tzinfo is None:
            local = (local - zone).replace(tzinfo=UTC)
        return int(local.timestamp()) * 1_000_000_000
    except (ValueError, OverflowError):
        return None
