"""`log` and `history`: the history, newest first. Nothing is loaded and nothing is run.

`history` is the same as a panel where the interface can show one, and as `log` everywhere else.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from agent_kernel.commands import describe
from agent_kernel.commands.describe import (
    SIGNS,
    SPACE,
    Block,
    Json,
    Line,
    Opens,
    Piece,
    Rank,
    Result,
    Table,
    by_name,
    chip_pieces,
    cut_pieces,
    grown,
    paint_all,
    plain,
    ranks_of,
)
from agent_kernel.commands.scope import Parser, Scope, count
from agent_kernel.commands.timeline import Step, assign
from agent_kernel.errors import RefNotFoundError, StoreError
from agent_kernel.repository import Commit, ObjectId, short
from agent_kernel.session import Repository
from agent_kernel.session.history import Kernels, session_of
from agent_kernel.text import clean, clock, duration, width_of

__all__ = ["draw", "history", "history_arguments", "log", "log_arguments"]


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
    from agent_kernel.commands.timeline import Finder, Timeline

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
        from agent_kernel.commands.timeline import forms_for

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
        return short(found), describe.prompt(commit), subject, *map(plain, self._facts(found, commit))

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
    number, mark = describe.prompt(commit), _MARKS.get(commit.status, "")
    return [(f"{number} " if number else "", "quiet"), (mark, SIGNS["!"]), (_about(commit), "")]


def _subject(commit: Commit) -> str:
    return _MARKS.get(commit.status, "") + _about(commit)


def _about(commit: Commit) -> str:
    """What the commit is about, with the agent where one wrote it."""
    agent = f"{clean(commit.author.name)}: " if commit.author.kind == "agent" else ""
    restart = "(restart) " if "restart" in commit.labels else ""
    return restart + agent + describe.title(commit)


def _fit(commit: Commit, room: int) -> list[Piece]:
    return cut_pieces(_describe_commit(commit), max(10, room), middle=describe.is_code(commit))
