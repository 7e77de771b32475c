"""The history, newest first: all commits that branches, tags and HEADs reach, their lanes, which a search finds; and `log` and `history`.

A commit is always younger than its parents, so the order is that of time, and what a new commit adds stands at the top. All of it
is kept from one question to the next. Where something was deleted from the store, by a collection or because history was
rewritten, it is all read anew. Nothing is loaded and nothing is run.
"""

from __future__ import annotations

import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from itertools import islice
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
from blake3 import blake3

from agent_kernel.agents.agent_undo import find_undone_runs, goes_on_from
from agent_kernel.agents.event_log import MOVED, WAITING, EventStore
from agent_kernel.commands import describe
from agent_kernel.commands.describe import (
    SIGNS,
    SPACE,
    Block,
    Json,
    Line,
    Opens,
    Piece,
    Result,
    Table,
    chip_pieces,
    cut_pieces,
    paint_all,
    plain,
)
from agent_kernel.commands.scope import Parser, Scope, count
from agent_kernel.errors import DamagedObjectError, RefNotFoundError, StoreError
from agent_kernel.repository import Commit, Head, Kind, ObjectId, short
from agent_kernel.repository.commits import decode_commit
from agent_kernel.repository.refs import BRANCHES, EPOCH, HEADS, TAGS
from agent_kernel.repository.runs import HOLDS
from agent_kernel.session import Repository
from agent_kernel.session.history import (
    Kernels,
    Rank,
    by_name,
    grown,
    is_code,
    mask_commit,
    prompt,
    ranks_of,
    session_of,
    title,
)
from agent_kernel.text import clean, clock, duration, width_of

# -- all commits, kept from one question to the next

NOTHING = 1  # the mark of a cell that changed nothing
_BATCH = 1_000


class Record(msgspec.Struct, frozen=True, gc=False):
    """What the shape of the list needs to know of one commit."""

    id: ObjectId
    parents: tuple[ObjectId, ...]
    goes_on: tuple[ObjectId, ...]  # from whose variables its own go on: mostly its parents
    time_ns: int
    mark: int  # neighbours of the same mark fold into one row; 0: never
    cell: int  # equal for runs of one cell; 0: no cell, or one whose id is not known
    run: str  # the agent's run that it is a step of; "": of none
    is_named: bool
    is_error: bool
    session: str = ""  # in which its numbered cell ran


class View(msgspec.Struct, frozen=True):
    """The history at one moment. Nothing in it changes any more."""

    version: str
    epoch: bytes | None  # another one where anything was deleted from the store
    head: Head
    branches: Mapping[str, ObjectId]
    tags: Mapping[str, ObjectId]
    order: tuple[Record, ...]
    order_of: Mapping[ObjectId, int]
    waiting: tuple[str, ...] = ()  # the runs of agents that wait for a person
    undone: frozenset[str] = frozenset()  # those that were taken back


class Timeline:
    """The history of one repository, as one session sees it. Its caller sees to it that one thread uses it at a time."""

    def __init__(self, repo: Repository, session_id: str) -> None:
        self._repo = repo
        self._session_id = session_id
        self._records: dict[ObjectId, Record] = {}
        self._epoch: bytes | None = None
        self._stored: int | None = None  # the store's own version when it was looked at last
        self._tips: frozenset[ObjectId] = frozenset()
        self._view: View | None = None

    def version(self) -> str:
        """What `now().version` is, without laying out what is new."""
        stored = self._read_version()
        if self._view is not None and stored is not None and stored == self._stored:
            return self._view.version
        return self._refs()[0]

    def now(self) -> View:
        """The history as it is now. Costs next to nothing if nothing was written since.

        Raises:
            DamagedObjectError: a commit that is reached cannot be read.
        """
        stored = self._read_version()
        while self._view is None or stored is None or stored != self._stored:
            try:
                self._look()
            except DamagedObjectError:
                # Another process may have rewritten the history meanwhile: what was looked for is then no longer there.
                before, stored = stored, self._read_version()
                self._forget()
                if stored is None or stored == before:
                    raise
                continue
            self._stored = stored
            break
        assert self._view is not None
        return self._view

    def _forget(self) -> None:
        self._records.clear()
        self._tips, self._view = frozenset(), None
        self._repo.objects.forget_cached()

    def _read_version(self) -> int | None:
        ask = getattr(self._repo.store, "data_version", None)
        return None if ask is None else int(ask())

    def _look(self) -> None:
        """Compare what refs there are with what there were."""
        version, epoch = self._refs()
        if self._view is not None and self._view.version == version:
            return
        if epoch != self._epoch:
            self._forget()
        branches, tags = self._repo.branches(), self._repo.tags()
        heads = [head.commit for head in self._repo.heads().values() if head.branch is None and head.commit]
        tips = frozenset([*branches.values(), *tags.values(), *heads])
        order = self._order(tips)
        order_of = {record.id: position for position, record in enumerate(order)}
        waiting = tuple(EventStore(self._repo.store).waiting())
        undone = _undone(order, [*branches.values(), *heads])
        head = self._repo.head(self._session_id)
        self._view = View(version, epoch, head, branches, tags, order, order_of, waiting, undone)
        self._tips, self._epoch = tips, epoch

    def _refs(self) -> tuple[str, bytes | None]:
        """The version of all that can move, and when something was deleted last."""
        pointers = self._repo.pointers
        found = self._repo.store.get_many([*pointers.keys(BRANCHES), *pointers.keys(TAGS), *pointers.keys(HEADS)])
        epoch = pointers.read([EPOCH])[EPOCH]
        runs = {
            **dict.fromkeys([*pointers.keys(WAITING), *pointers.keys(HOLDS)], b""),
            **self._repo.store.get_many([MOVED]),
        }
        return _version_of({**found, **runs}, epoch), epoch

    def _order(self, tips: frozenset[ObjectId]) -> tuple[Record, ...]:
        if not self._records:
            self._read_all()
        before = self._view
        if before is not None:
            new, met = self._walk(tips, before.order_of)
            # What was reached before still is, if each old tip is one yet or lies below what is new.
            if self._tips <= tips | met:
                fresh = _by_time(new)
                if not before.order or not fresh or fresh[-1].time_ns > before.order[0].time_ns:
                    return (*fresh, *before.order)
                return tuple(_by_time([*fresh, *before.order]))
        return tuple(_by_time(self._walk(tips, {})[0]))

    def _walk(
        self, tips: Iterable[ObjectId], known: Mapping[ObjectId, int]
    ) -> tuple[list[Record], frozenset[ObjectId]]:
        """The commits above the known ones, and those of the known ones that they lead to."""
        found: list[Record] = []
        met: set[ObjectId] = set()
        waiting = list(tips)
        seen = set(waiting)
        while waiting:
            id = waiting.pop()
            if id in known:
                met.add(id)
                continue
            record = self._record(id)
            found.append(record)
            for parent in record.parents:
                if parent not in seen:
                    seen.add(parent)
                    waiting.append(parent)
        return found, frozenset(met)

    def _record(self, id: ObjectId) -> Record:
        found = self._records.get(id)
        if found is None:
            found = self._records[id] = _record_of(id, self._repo.commit_at(id))
        return found

    def _read_all(self) -> None:
        """Read all commits there are, a thousand at a time: one after the other, each names the next, takes far longer."""
        keys = self._repo.pointers.keys(Kind.COMMIT)
        while batch := [ObjectId(key[1:]) for key in islice(keys, _BATCH)]:
            try:
                payloads = self._repo.objects.get_many(Kind.COMMIT, batch)
                self._records.update((id, _record_of(id, decode_commit(payload))) for id, payload in payloads.items())
            except (DamagedObjectError, msgspec.MsgspecError):
                continue  # each is read by itself when it is reached, and only then it matters


def reachable_commits(view: View, tips: Iterable[ObjectId], but: Container[ObjectId] = frozenset()) -> set[ObjectId]:
    """All commits that these lead to. `but`: those that others lead to."""
    found = {tip for tip in tips if tip not in but}
    waiting = list(found)
    while waiting:
        for parent in view.order[view.order_of[waiting.pop()]].parents:
            if parent not in found and parent not in but:
                found.add(parent)
                waiting.append(parent)
    return found


def _undone(order: Sequence[Record], tips: Iterable[ObjectId]) -> frozenset[str]:
    """The runs that were taken back. Most histories have none: then nothing is looked for."""
    oldest = next((at for at in range(len(order) - 1, -1, -1) if order[at].run), -1)
    if not any(record.goes_on is not record.parents for record in order[: oldest + 1]):
        return frozenset()
    return find_undone_runs(order[: oldest + 1], tips)


def _version_of(found: Mapping[bytes, bytes], epoch: bytes | None) -> str:
    digest = blake3(epoch or b"")
    for key in sorted(found):
        digest.update(b"%d %d " % (len(key), len(found[key])) + key + found[key])
    return digest.hexdigest(8)


def _by_time(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (-record.time_ns, record.id))


def _record_of(id: ObjectId, commit: Commit) -> Record:
    return Record(
        id=id,
        parents=commit.parents,
        goes_on=goes_on_from(commit),
        time_ns=commit.time_ns,
        mark=_mark(commit),
        cell=hash(commit.cell.id) if commit.cell is not None and commit.cell.id else 0,
        run=commit.run,
        is_named=bool(commit.message.strip()),
        is_error=commit.status != "ok",
        session=sys.intern(session_of(commit)),  # one text for all cells of a kernel
    )


def _mark(commit: Commit) -> int:
    """Equal for runs that may stand as one row: cells that changed nothing, or one cell that changes the same names."""
    cell = commit.cell
    if cell is None or commit.kind != "cell" or commit.status != "ok" or len(commit.parents) > 1:
        return 0
    if commit.message or commit.labels or commit.unsaved:
        return 0
    if not commit.changed:
        return NOTHING
    return hash((cell.id, tuple(change.name for change in commit.changed))) | 2 if cell.id else 0


# -- where each commit stands in the drawing of a history: the lanes of the panel, the `* | |` in front of a log line
#
# One lane for each line of development that is still waiting for its next commit; a commit takes the lane that waited
# for it, and its further parents open lanes of their own. `assign` is the one place where lanes are given out.

Key = TypeVar("Key", bound=Hashable)


class Strand(NamedTuple, Generic[Key]):
    """A line on its way down from a child to its parent."""

    child: Key
    parent: Key
    is_first: bool  # to the first parent


class Step(NamedTuple, Generic[Key]):
    """One commit: its lane, the strands that come in above it, and those that it sends down, each with its lane."""

    lane: int
    above: tuple[Strand[Key] | None, ...]
    sent: tuple[tuple[int, Strand[Key]], ...]


def assign(history: Iterable[tuple[Key, tuple[Key, ...]]], keep: Key | None = None) -> Iterator[Step[Key]]:
    """A step for each commit, children before parents. No more of the history is read than is asked for.

    Args:
        keep: the commit for which the first lane is kept free until it comes.
    """
    waiting: list[Strand[Key] | None] = []
    lanes: dict[Key, list[int]] = {}  # where each key is waited for
    for key, parents in history:
        awaited = lanes.pop(key, ())
        if key == keep:
            keep, lane = None, 0
        else:
            lane = min(awaited) if awaited else _free(waiting, keep)
        above = tuple(waiting)
        for at in awaited:
            waiting[at] = None
        if lane >= len(waiting):
            waiting += [None] * (lane + 1 - len(waiting))
        sent: list[tuple[int, Strand[Key]]] = []
        for order, parent in enumerate(parents):
            known = lanes.get(parent) if order else None
            to = lane if not order else min(known) if known else _free(waiting, keep)
            strand = Strand(key, parent, not order)
            sent.append((to, strand))
            if not known:
                waiting[to : to + 1] = [strand]
                lanes.setdefault(parent, []).append(to)
        yield Step(lane, above, tuple(sent))
        while waiting and waiting[-1] is None:
            waiting.pop()


def _free(waiting: list[Strand[Key] | None], keep: Key | None) -> int:
    first = 0 if keep is None else 1
    try:
        return waiting.index(None, first)
    except ValueError:
        if len(waiting) < first:
            waiting.append(None)
        return max(first, len(waiting))


# -- which commits a search finds, in a panel and in `log --search`: words, `var:NAME`, `tag:`, `branch:`, `author:`, `cell:N`, `is:WORD`, `since:DATE`
#
# All terms have to fit. What is searched is what is shown, so a masked secret is not found by its letters: text is masked
# where it would fit, which is a small part of all. A term that means nothing (yet: searches run while they are typed)
# finds nothing.

_TERM = re.compile(r'(?:(?P<key>[a-z]+):)?(?:"(?P<quoted>[^"]*)"?|(?P<word>[^\s"]\S*)|(?=\s|$))')
_KEYS = frozenset({"author", "branch", "cell", "is", "since", "tag", "var"})
_MOST_TEXT = 64 << 20  # characters of all commits that are kept to be searched


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
        named = _find_tips(view) if show == "named" else frozenset[ObjectId]()
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

    def _contains(self, record: Record, digest: Digest, words: str) -> bool:
        if digest.text is not None and words not in digest.text:
            return False
        return words in text_of(mask_commit(self._repo.commit_at(record.id)))

    def _test(self, view: View, key: str, value: str, tz_s: int) -> Test:
        folded = value.casefold()
        match key:
            case "var":
                return _is_about(value)
            case "author":
                return lambda record, digest: folded in digest.author
            case "cell":
                return lambda record, digest: value in (str(digest.number), digest.cell)
            case "tag":
                tagged = {at for name, at in view.tags.items() if folded in name.casefold()}
                return lambda record, digest: record.id in tagged
            case "branch":
                on = reachable_commits(view, [at for name, at in view.branches.items() if name == value])
                return lambda record, digest: record.id in on
            case "is":
                return _is(folded, _find_tips(view))
            case "since":
                since = moment(value, tz_s)
                return lambda record, digest: since is not None and record.time_ns >= since
            case _:
                return lambda record, digest: self._contains(record, digest, folded)


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


def forms_for(text: str) -> list[str]:
    """How what a search may have meant is written, where it found nothing. The panel says the same.

    >>> forms_for("is:errr")
    ['There is is:agent, is:error, is:merge, is:named and is:unsaved.']
    """
    found: dict[str, None] = {}
    for match in _TERM.finditer(text):
        key, value = match["key"], match["quoted"] or match["word"] or ""
        if key == "is" and value.casefold() not in _tests_of(()):
            *kinds, last = sorted(_tests_of(()))
            found[f"There is {', '.join(f'is:{kind}' for kind in kinds)} and is:{last}."] = None
        elif key == "since" and moment(value, 0) is None:
            found["A day is written since:2026-11-01, since:today or since:yesterday."] = None
        elif key and key not in _KEYS:
            begins = " ".join(f"{one}:" for one in sorted(_KEYS))
            found[f"{key}: is looked for as text. What begins a search: {begins}"] = None
    return list(found)


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


def _find_tips(view: View) -> frozenset[ObjectId]:
    return frozenset([*view.branches.values(), *view.tags.values()])


def _is_about(name: str) -> Test:
    if "*" in name or "?" in name:
        return lambda record, digest: any(fnmatchcase(found, name) for found in digest.names)
    return lambda record, digest: name in digest.names


def _is(what: str, named: Collection[ObjectId]) -> Test:
    return _tests_of(named).get(what, lambda record, digest: False)


def _tests_of(named: Collection[ObjectId]) -> dict[str, Test]:
    """What can be looked for by `is:`."""
    return {
        "error": lambda record, digest: digest.is_error,
        "merge": lambda record, digest: digest.is_merge,
        "agent": lambda record, digest: digest.is_agent,
        "named": lambda record, digest: record.is_named or record.id in named,
        "unsaved": lambda record, digest: digest.has_unsaved,
    }


def moment(text: str, tz_s: int, now: datetime | None = None) -> int | None:
    """When a day or a time of the reader's begins, in nanoseconds; None if it is not a time.

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


# -- the `* | |` in front of a log line

_MOST_LANES = 6


def draw(history: Iterable[tuple[ObjectId, tuple[ObjectId, ...]]]) -> list[str]:
    """One text for each commit, children before parents.

    >>> a, b, c, d = (ObjectId(bytes([n])) for n in range(4))
    >>> draw([(d, (b, c)), (c, (a,)), (b, (a,)), (a, ())])
    ['*', '| *', '* |', '*']
    """
    rows = list(history)
    return [_line(step, key) for step, (key, _) in zip(assign(rows), rows, strict=True)]


def _line(step: Step[ObjectId], key: ObjectId) -> str:
    marks = [" " if strand is None or strand.parent == key else "|" for strand in step.above]
    marks += [" "] * (step.lane + 1 - len(marks))
    marks[step.lane] = "*"
    if len(marks) > _MOST_LANES:
        marks = [*marks[: _MOST_LANES - 1], "*" if step.lane >= _MOST_LANES - 1 else "…"]
    return " ".join(marks).rstrip()


# -- `log`; and `history`, which is a panel where the interface can show one, and the same as `log` everywhere else

_DEFAULT_ROWS = 25  # rows of a log that someone reads, unless they ask for more
_SUBJECT = 46  # columns that the subject keeps beside the changed names
_CHIPS, _FEWEST = 44, 12  # columns for the changed names, at most and at least
_GAP: Piece = ("   ", "")  # between columns
_LONGEST = 1_000  # columns of a row in a pipe, without what it changed
_SEARCH = "only commits whose code, variable names, message or error hold this; also var:df, is:error, author:NAME, since:DATE"
_MARKS = {"failed": "✕ ", "interrupted": "⊖ "}


def log_arguments(parser: Parser) -> None:
    parser.takes("rev", "ref", help="start here instead of where you are")
    parser.value("-n", "--limit", metavar="N", help="at most this many commits", convert=count)
    parser.flag("--all", help="every branch and tag")
    parser.value("--search", metavar="TEXT", help=_SEARCH)
    parser.answers("--oneline", "every commit takes one line as it is")
    parser.names("only commits that changed one of these variables")
    parser.explains(
        "A line: the commit, [cell] and what it is about, the variables that it changed (+ added, ~ changed, − removed,\n"
        "! not saved) and the records (Note:a), how long the cell took, when. Of a table that grew or shrank it says by\n"
        "how many rows. The size is that of the first variable's value, not of what the commit wrote: what is stored already\n"
        "is not stored again, and pieces are compressed (stats says what it takes).\n"
        f"{describe.SIZES}"
    )


def log(scope: Scope, options: Namespace) -> Log:
    limit: int | None = options.limit
    if limit is None and scope.brief and not options.json:
        limit = _DEFAULT_ROWS
    starts = _starts(scope, options.rev, options.all)
    found = _search(scope, options.search, _history(scope, starts, options.names))
    rows = list(islice(found, None if limit is None else limit + 1))
    commits = rows if limit is None else rows[:limit]
    return Log(
        nothing=_explain_empty(scope, options, limit) if not commits else "",
        commits=tuple(commits),
        refs=describe.decorations(scope.repo, scope.head()),
        now_ns=scope.now_ns,
        older=_older(scope, options, len(commits)) if len(rows) > len(commits) and options.limit is None else "",
        without=_without(scope, starts, options.names) if commits and len(options.names) > 1 else (),
        graph=not options.names and not options.search,
        ranks={} if options.json else {found: ranks_of(scope.repo, commit) for found, commit in commits},
        grew={} if options.json else {found: grown(scope.repo, commit) for found, commit in commits},
        records={}
        if options.json
        else {found: names for found, commit in commits if (names := _changed_records(scope.repo, found, commit))},
    )


def _changed_records(repo: Repository, found: ObjectId, commit: Commit) -> tuple[str, ...]:
    """The records that a commit changed; of a merge those that differ from where it was made."""
    parent = next(iter(commit.parents), None)
    if commit.records is None and (parent is None or repo.commit_at(parent).records is None):
        return ()
    try:
        return describe.changed_records(repo, parent, found)
    except StoreError:  # pruned, or damaged: the log shows what is there
        return ()


def history_arguments(parser: Parser) -> None:
    parser.value("-n", "--limit", metavar="N", help="at most this many commits, where they are printed", convert=count)
    parser.value("--search", metavar="TEXT", help=_SEARCH)
    parser.names("only commits that changed one of these variables")


def history(scope: Scope, options: Namespace) -> Result:
    found = log(scope, Namespace(rev=None, all=False, **vars(options)))
    terms = [f"var:{name}" for name in options.names]
    return replace(found, panel=Opens(search=" ".join([*terms, *filter(None, [options.search])])))


def _search(
    scope: Scope, search: str | None, rows: Iterator[tuple[ObjectId, Commit]]
) -> Iterator[tuple[ObjectId, Commit]]:
    """Select those of the commits that a search finds, as a panel's does. No value is loaded."""
    if not search:
        return rows
    view = Timeline(scope.repo, scope.session.id if scope.session is not None else "").now()
    found = Finder(scope.repo).find(view, search, "all", time.localtime().tm_gmtoff)
    return rows if found is None else (row for row in rows if row[0] in found)


def _older(scope: Scope, options: Namespace, row_count: int) -> str:
    """What to type for the commits before those that are shown."""
    search = ["--search", options.search] if options.search else []
    return scope.spell_command("log", "-n", str(4 * row_count), *search)


def _explain_empty(scope: Scope, options: Namespace, limit: int | None) -> str:
    """Explain why there is nothing to show."""
    head = scope.head().commit
    if head is None:
        return (
            "No history yet. Run a cell: each one becomes a commit of the variables it changed. "
            "(A copied notebook leaves its history behind: copy .agent-kernel/NAME too, or %agent bind --from PATH.)"
        )
    if limit == 0:
        return "No commit is shown, as -n 0 asks."
    if options.search:
        return " ".join([f"No commit matches {clean(options.search)}.", *forms_for(options.search)])
    found = [name for name in options.names if name not in scope.repo.tree_at(head)]
    close = [near for name in found for near in describe.names_close_to(scope.repo, scope.repo.commit_at(head), name)]
    hint = f" Did you mean {' or '.join(map(clean, close[:3]))}?" if close else ""
    return f"No commit changed {clean(' or '.join(options.names))}.{hint}"


def _starts(scope: Scope, rev: str | None, every: bool) -> list[ObjectId]:
    head = scope.head().commit
    starts = [_start(scope, rev)] if rev else [head] if head is not None else []
    if every:
        starts += [*scope.repo.branches().values(), *scope.repo.tags().values()]
    return list(dict.fromkeys(starts))


def _start(scope: Scope, rev: str) -> ObjectId:
    try:
        return scope.resolve(rev)
    except RefNotFoundError as error:
        number = rev.removeprefix("-")
        if error.reason or not (number.isdecimal() and number.isascii()):
            raise
        remedy = f"{scope.spell_command('log', '-n', number)} shows so many commits"
        raise RefNotFoundError(rev, error.known, error.reason, error.or_else(remedy), error.said) from None


def _history(scope: Scope, starts: list[ObjectId], names: list[str]) -> Iterator[tuple[ObjectId, Commit]]:
    if not starts:
        return iter(())
    if not names:
        return scope.repo.log(starts)
    if len(names) == len(starts) == 1:
        return scope.repo.log_of_name(starts[0], names[0])
    wanted = {found for start in starts for name in names for found, _ in scope.repo.log_of_name(start, name)}
    return (row for row in scope.repo.log(starts) if row[0] in wanted)


def _without(scope: Scope, starts: list[ObjectId], names: list[str]) -> tuple[str, ...]:
    """Of several names those that no commit changed."""

    def has_changed(name: str) -> bool:
        return any(next(iter(scope.repo.log_of_name(start, name)), None) is not None for start in starts)

    return tuple(name for name in dict.fromkeys(names) if not has_changed(name))


@dataclass(frozen=True)
class Log(Result):
    """A history, newest first."""

    nothing: str  # what to say if there are no commits
    commits: tuple[tuple[ObjectId, Commit], ...]
    refs: dict[ObjectId, tuple[str, ...]]
    now_ns: int
    older: str = ""  # what shows the commits before these, if there are any
    without: tuple[str, ...] = ()  # names asked for that no commit changed
    graph: bool = True
    panel: Opens | None = None  # of `history`
    ranks: Mapping[ObjectId, Mapping[str, int]] = field(default_factory=dict[ObjectId, Mapping[str, int]])
    grew: Mapping[ObjectId, Mapping[str, str]] = field(default_factory=dict[ObjectId, Mapping[str, str]])
    records: Mapping[ObjectId, tuple[str, ...]] = field(default_factory=dict[ObjectId, tuple[str, ...]])

    @property
    def opens(self) -> Opens | None:
        return self.panel

    def to_json(self) -> Json:
        return [describe.commit_json(found, commit) for found, commit in self.commits]

    def blocks(self) -> Sequence[Block]:
        if not self.commits:
            return [Line(self.nothing)]
        columns = ("Commit", "Cell", "", "Changed", "Took", "When")
        rows: list[tuple[str, ...]] = []
        for (found, commit), divider in zip(self.commits, self._dividers(), strict=True):
            rows += [("", "", f"── {divider} ──", "", "", "")] if divider else []
            rows.append(self._html_row(found, commit))
        return [Table(columns, tuple(rows), right=frozenset({4, 5})), *self._rest()]

    def _dividers(self) -> list[str]:
        """What to say above each commit."""
        kernels = Kernels()
        if not self.graph:  # of one variable's commits others lie between them
            return [kernels.before(None, None, session_of(commit)) for _, commit in self.commits]
        return [
            kernels.before(found, next(iter(commit.parents), None), session_of(commit))
            for found, commit in self.commits
        ]

    def to_text(self, width: int | None = None, *, colour: bool = False) -> str:
        if not self.commits:
            return super().to_text(width, colour=colour)
        heads = self._heads()
        rights = _columns([self._facts(*row) for row in self.commits], width)
        # In a pipe there is no screen that cuts: each column is as wide as what stands in it.
        room = _LONGEST if width is None else max(24, width - width_of(plain(rights[0])) - len(_GAP[0]))
        lefts = [
            cut_pieces([*head, *_fit(commit, room - width_of(plain(head)))], room)
            for head, (_, commit) in zip(heads, self.commits, strict=True)
        ]
        wide = max(width_of(plain(left)) for left in lefts)
        rows = [[*_pad(left, wide), _GAP, *right] for left, right in zip(lefts, rights, strict=True)]
        drawn: list[str] = []
        for head, row, text in zip(heads, rows, self._dividers(), strict=True):
            divider: Piece = (f"{head[0][0].replace('*', '|').rstrip()} ── {text} ──", "quiet")
            drawn += [paint_all([divider], colour=colour)] if text else []
            drawn.append(paint_all(_without_end(row), colour=colour))
        return "\n".join([*drawn, *(line.text for line in self._rest())])

    def _heads(self) -> list[list[Piece]]:
        """What a row begins with: its piece of the graph, the id, and the refs that point at it."""
        lanes = draw((found, commit.parents) for found, commit in self.commits) if self.graph else []
        return [
            [(f"{lanes[at] if lanes else '*'} ", ""), (short(found), "id"), SPACE, *self._refs_piece(found)]
            for at, (found, _) in enumerate(self.commits)
        ]

    def _refs_piece(self, found: ObjectId) -> list[Piece]:
        return [(refs.rstrip(), "ref"), SPACE] if (refs := self._refs(found)) else []

    def _refs(self, found: ObjectId) -> str:
        refs = self.refs.get(found)
        return f"({', '.join(refs)}) " if refs else ""

    def _rest(self) -> list[Line]:
        older = [Line(f"… older commits: {self.older}")] if self.older else []
        return [*older, *([Line(f"No commit changed {clean(' or '.join(self.without))}.")] if self.without else [])]

    def _html_row(self, found: ObjectId, commit: Commit) -> tuple[str, ...]:
        subject = self._refs(found) + _subject(commit)
        return short(found), prompt(commit), subject, *map(plain, self._facts(found, commit))

    def _facts(self, found: ObjectId, commit: Commit) -> _Facts:
        rank, grew = by_name(self.ranks.get(found, {})), self.grew.get(found, {})
        return _facts(commit, self.now_ns, rank, grew, self.records.get(found, ()))


_Facts = tuple[list[Piece], list[Piece], list[Piece]]


def _facts(commit: Commit, now_ns: int, rank: Rank, grew: Mapping[str, str], records: tuple[str, ...]) -> _Facts:
    """What stands at the right of a row: changed names, how long the cell took, when it was."""
    not_saved = {name for one in commit.unsaved for name in one.name.split(", ")}
    saved = (change for change in commit.changed if change.name not in not_saved)
    chips = chip_pieces(((change.how, change.name, change.size) for change in saved), rank=rank, grew=grew)
    for one in commit.unsaved[:2]:
        if chips:
            chips.append(SPACE)
        chips.append((f"!{clean(one.name)}", SIGNS["!"]))
    if records:
        if chips:
            chips.append(SPACE)
        chips += chip_pieces((one[0], one[1:], 0) for one in records)
    took = duration(commit.cell.duration_s) if commit.cell else ""
    return chips, [(took, "quiet")], [(clock(commit.time_ns, now_ns), "quiet")]


def _columns(facts: list[_Facts], width: int | None) -> list[list[Piece]]:
    wide = [max(width_of(plain(fact[at])) for fact in facts) for at in range(3)]
    if width is not None:
        wide = _fit_columns(wide, width)
    found: list[list[Piece]] = []
    for chips, took, when in facts:
        parts = [
            _pad(cut_pieces(chips, wide[0]), wide[0]),
            _pad(took, wide[1], right=True),
            _pad(when, wide[2]),
        ]
        visible = [part for part, room in zip(parts, wide, strict=True) if room]
        found.append([piece for at, part in enumerate(visible) for piece in ([_GAP, *part] if at else part)])
    return found


def _fit_columns(wide: list[int], width: int) -> list[int]:
    """How wide each column may be, 0: it goes. First goes how long it took, then when it was, and the names never."""
    names, took, when = min(wide[0], _CHIPS), wide[1], wide[2]
    for times in ([took, when], [0, when]):
        room = width - _SUBJECT - sum(times) - len(_GAP[0]) * (1 + sum(map(bool, times)))
        if room >= min(names, _FEWEST):
            return [min(names, room), *times]
    return [min(names, max(_FEWEST, width // 3)), 0, 0]


def _pad(pieces: Sequence[Piece], width: int, *, right: bool = False) -> list[Piece]:
    fill: Piece = (" " * (width - width_of(plain(pieces))), "")
    return [fill, *pieces] if right else [*pieces, fill]


def _without_end(pieces: list[Piece]) -> list[Piece]:
    """The pieces without the spaces at the end of the line."""
    while pieces and not pieces[-1][0].strip():
        pieces = pieces[:-1]
    return [*pieces[:-1], (pieces[-1][0].rstrip(), pieces[-1][1])] if pieces else pieces


def _describe_commit(commit: Commit) -> list[Piece]:
    """The cell's number, a mark where the cell did not end well, and what the commit is about."""
    number, mark = prompt(commit), _MARKS.get(commit.status, "")
    return [(f"{number} " if number else "", "quiet"), (mark, SIGNS["!"]), (_about(commit), "")]


def _subject(commit: Commit) -> str:
    return _MARKS.get(commit.status, "") + _about(commit)


def _about(commit: Commit) -> str:
    """What the commit is about, with the agent where one wrote it."""
    agent = f"{clean(commit.author.name)}: " if commit.author.kind == "agent" else ""
    restart = "(restart) " if "restart" in commit.labels else ""
    return restart + agent + title(commit)


def _fit(commit: Commit, room: int) -> list[Piece]:
    return cut_pieces(_describe_commit(commit), max(10, room), middle=is_code(commit))
