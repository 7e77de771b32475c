"""What commands answer, as text, JSON and HTML; and commits and stored variables in words, from what was written down of them.

Nothing here loads a value: a commit's record and the previews beside its entries say everything that is shown.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from agent_kernel.errors import StoreError
from agent_kernel.repository import Change, Commit, Entry, Head, Holder, ObjectId, Unsaved, hex_of
from agent_kernel.session.history import (
    MOST_RANKED,
    Rank,
    mask_commit,
    rank_of,
    size_of,
    summary_of,
    unsaved_names,
)
from agent_kernel.text import (
    clean,
    cut,
    exact_time,
    join_words,
    pad,
    size_text,
    width_of,
)
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.errors import MergeConflictError
    from agent_kernel.session import Repository


# -- what a command answers
#
# One value that reads as plain text, as JSON and as static HTML.
#
# A result is built of blocks (a line, code, a table), and each form is drawn from the blocks here and nowhere else.
# All text in a block is already clean of control characters; HTML escapes everything and holds no script.
#
# Everything shown comes from a store that someone else may have written: what came out of `clean` or `clean_lines` can
# neither move a terminal's cursor nor turn its text around.


# -- colours of a terminal, as ANSI codes: nothing has to be imported for them
#
# Text is cleaned, measured and cut first, and painted last, so that a code is never cut and takes no column.

Style: TypeAlias = Literal["", "strong", "quiet", "id", "ref", "added", "changed", "removed", "unsaved"]
Piece: TypeAlias = "tuple[str, Style]"

SPACE: Final[Piece] = (" ", "")
_CODES: Final[dict[Style, str]] = {
    "strong": "1",
    "quiet": "2",
    "id": "33",
    "ref": "36",
    "added": "32",
    "changed": "33",
    "removed": "31",
    "unsaved": "31",
}
SIGNS: Final[dict[str, Style]] = {
    "+": "added",
    "~": "changed",
    "-": "removed",
    "−": "removed",
    "=": "quiet",
    "!": "unsaved",
}


def colours_wanted(stream: object) -> bool:
    """Whether to paint what is written there: a terminal that takes colours, and nobody said NO_COLOR.

    Source: https://no-color.org
    """
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def is_terminal(stream: object) -> bool:
    """Whether what is written there goes to a terminal, and so to a screen of some width."""
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]  # what stands in for a stream may lack it
    except (AttributeError, ValueError):  # ValueError: it is closed
        return False


def paint(text: str, style: Style, *, colour: bool) -> str:
    """Paint the text in its colour."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour and text and style else text


def paint_all(pieces: Iterable[Piece], *, colour: bool) -> str:
    """Paint the pieces one after another."""
    return "".join(paint(text, style, colour=colour) for text, style in pieces)


def plain(pieces: Iterable[Piece]) -> str:
    """The same without colours, to measure it."""
    return "".join(text for text, _ in pieces)


def cut_pieces(pieces: Sequence[Piece], width: int, *, middle: bool = False) -> list[Piece]:
    """The pieces in at most `width` columns, cut as `cut` does it."""
    rest = cut(plain(pieces), width, middle=middle)
    found: list[Piece] = []
    for text, style in pieces:
        part, rest = rest[: len(text)], rest[len(text) :]
        found.append((part, style))
    return found


def style_of(line: str) -> Style:
    """The colour of a line that begins with the sign of what happened: `+ total float64`."""
    return SIGNS.get(line[:1], "") if line[1:2] == " " else ""


Json: TypeAlias = "bool | int | float | str | Sequence[Json] | dict[str, Json] | None"


@dataclass(frozen=True)
class Line:
    """One line of prose."""

    text: str
    strong: bool = False
    style: Style = ""  # of its first `styled` characters; a terminal alone shows it
    styled: int | None = None  # None: all of them


@dataclass(frozen=True)
class Code:
    """Some lines as they were typed."""

    text: str
    signed: bool = False  # each line begins with the sign of what happened, and a terminal paints it


@dataclass(frozen=True)
class Table:
    """Rows under column titles; an empty title keeps a column without a heading in plain text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = field(default=frozenset())  # columns of numbers
    flexible: int = -1  # the column that gives way where the terminal is narrow


Block: TypeAlias = Line | Code | Table
_UNIT: Final = re.compile(r"(\d) ([kMGT]?B|m?s|min|h)\b")


@dataclass(frozen=True)
class Opens:
    """Where a history panel that shows an answer stands open at first. Commits go by their full ids."""

    search: str = ""  # the list, searched for this
    commit: str = ""  # the details of a commit
    compared: tuple[str, str] | None = None  # two commits, the older one first
    name: str = ""  # the variable of which the comparison shows more
    conflict: MergeConflictError | None = None  # what both sides of a merge changed, to be chosen from


class Result:
    """One answer, three faces. A subclass gives its blocks and its JSON."""

    @property
    def ok(self) -> bool:
        """False where a program that asked should take the answer as a failure."""
        return True

    @property
    def unsaved(self) -> Sequence[Unsaved]:
        """What the answer tells of that is not saved or could not be loaded: the next cell need not say it again."""
        return ()

    @property
    def opens(self) -> Opens | None:
        """Where a panel of the history shows the same and more; None: no panel does."""
        return None

    @property
    def is_live(self) -> bool:
        """Whether it changes while someone looks at it; `renew` gives it as it is then."""
        return False

    def renew(self) -> Result:
        """The same question, answered now."""
        return self

    def outline(self) -> Result:
        """The same as it stays in a notebook's file: no code, and of variables their names, types and sizes."""
        return self

    def blocks(self) -> Sequence[Block]:
        """What to show, from top to bottom."""
        raise NotImplementedError

    def to_json(self) -> Json:
        """The same for programs: plain lists, dicts, strings and numbers."""
        raise NotImplementedError

    def to_text(self, width: int | None = None, *, colour: bool = False) -> str:
        """Text without a final line end.

        Args:
            width: columns of the terminal; None: nothing is cut.
            colour: paint it with ANSI codes; without them it is the same text.
        """
        return "\n".join(line for block in self.blocks() for line in _text_lines(block, width, colour=colour))

    def to_html(self) -> str:
        """Static HTML: no scripts, no styles that leave the element, everything escaped."""
        return f'<div class="agent-kernel">{"".join(map(_html, self.blocks()))}</div>'

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        return {"text/plain": self.to_text(100), "text/html": self.to_html()}


@dataclass(frozen=True)
class Lines(Result):
    """A few lines, where there is nothing to tabulate."""

    lines: tuple[str, ...]
    facts: dict[str, Json] = field(default_factory=dict[str, Json])

    def blocks(self) -> Sequence[Block]:
        return [Line(line) for line in self.lines]

    def to_json(self) -> Json:
        return self.facts or {"message": "\n".join(self.lines)}


def _text_lines(block: Block, width: int | None, *, colour: bool) -> list[str]:
    if isinstance(block, Line):
        return [_paint_line(block, colour=colour)]
    if isinstance(block, Code):
        lines = [line.rstrip() for line in block.text.splitlines()]
        return [f"    {paint(line, style_of(line) if block.signed else '', colour=colour)}".rstrip() for line in lines]
    return [line.rstrip() for line in table_lines(block, width)]


def _paint_line(line: Line, *, colour: bool) -> str:
    text = line.text.rstrip()
    at = len(text) if line.styled is None else line.styled
    style: Style = "strong" if line.strong and not line.style else line.style
    return paint(text[:at], style, colour=colour) + text[at:]


def table_lines(table: Table, width: int | None) -> list[str]:
    """The table in aligned columns, two spaces apart; only the flexible column is ever cut."""
    titled = any(table.columns)
    rows = [table.columns, *table.rows] if titled else list(table.rows)
    if not rows:
        return []
    widths = [max(width_of(row[at]) for row in rows) for at in range(len(table.columns))]
    if width is not None and table.flexible >= 0:
        over = sum(widths) + 2 * (len(widths) - 1) - width
        widths[table.flexible] = max(12, widths[table.flexible] - max(0, over))
    return ["  ".join(_cells(row, widths, table)) for row in rows]


def _cells(row: tuple[str, ...], widths: list[int], table: Table) -> list[str]:
    return [
        pad(cut(text, widths[at], middle=True) if at == table.flexible else text, widths[at], right=at in table.right)
        for at, text in enumerate(row)
    ]


def _html(block: Block) -> str:
    if isinstance(block, Line):
        text = escape(block.text) or "&nbsp;"
        return f"<div>{f'<strong>{text}</strong>' if block.strong else text}</div>"
    if isinstance(block, Code):
        return f"<pre>{escape(block.text)}</pre>"
    head = "".join(f'<th style="text-align:left">{escape(title)}</th>' for title in block.columns)
    head = f"<thead><tr>{head}</tr></thead>" if any(block.columns) else ""
    body = "".join(f"<tr>{_html_cells(row, block)}</tr>" for row in block.rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _stiff(column: int, table: Table) -> str:
    """Where one column gives way, the others stay on one line. Numbers always do."""
    return ";white-space:nowrap" if column in table.right or table.flexible not in (-1, column) else ""


def _whole(text: str) -> str:
    """Number and unit on one line."""
    return _UNIT.sub(r"\1&nbsp;\2", text)


def _html_cells(row: tuple[str, ...], table: Table) -> str:
    return "".join(
        f'<td style="text-align:{"right" if at in table.right else "left"}{_stiff(at, table)}">{_whole(escape(text))}</td>'
        for at, text in enumerate(row)
    )


# -- commits and stored variables in words


SIZES = (
    "A size is that of the value as it is stored, before pieces are shared and compressed; in log, diff and show alike.\n"
    "In memory it may take more, or less."
)

_NAMES = 6  # that a report spells out
_SIGNS = {"~": "~", "+": "+", "-": "−"}


def entry_line(repo: Repository, entry: Entry | None) -> str:
    """The value in one line: `DataFrame 1,000,000 × 12, 96 MB`."""
    if entry is None:
        return ""
    summary = summary_of(repo, entry)
    return clean(previews.line(summary)) if summary is not None else "not described"


def entry_line_with_unsaved(repo: Repository, name: str, entry: Entry | None) -> str:
    """The same, and what of it is not saved: `generator (not saved: a generator cannot be saved)`."""
    line = entry_line(repo, entry)
    missing = not_saved(repo, name, entry)
    return f"{line} ({missing.sentence})" if missing else line


class NotSaved(NamedTuple):
    """What a variable lacks in the store. `is_whole`: all of it, so that its size there is a placeholder's."""

    is_whole: bool
    sentence: str


def not_saved(repo: Repository, name: str, entry: Entry | None) -> NotSaved | None:
    """`not saved: a generator cannot be saved`; None where all of the value is stored."""
    unsaved = (
        [one for one in repo.read_manifest(entry).unsaved if name in one.name.split(", ")] if entry is not None else []
    )
    if not unsaved:
        return None
    summary = summary_of(repo, entry) if entry is not None else None
    is_whole = summary is not None and summary.type == unsaved[0].type
    reasons = "; ".join(dict.fromkeys(clean(one.reason) for one in unsaved))
    return NotSaved(is_whole, f"{'not saved' if is_whole else 'not all of it is saved'}: {reasons}")


def entry_outline(repo: Repository, name: str, entry: Entry | None) -> str:
    """The same without anything that the value holds, for what stays in a notebook's file."""
    summary = None if entry is None else summary_of(repo, entry)
    if summary is None:
        return ""
    line, missing = clean(previews.outline(summary)), not_saved(repo, name, entry)
    return f"{line} ({missing.sentence.partition(':')[0]})" if missing else line


def decorations(repo: Repository, head: Head) -> dict[ObjectId, tuple[str, ...]]:
    """The refs that point at each commit, as git writes them: `HEAD -> main`, `tag: v1`."""
    found: defaultdict[ObjectId, list[str]] = defaultdict(list)
    if head.commit is not None:
        found[head.commit].append(f"HEAD -> {clean(head.branch)}" if head.branch else "HEAD")
    for name, at in sorted(repo.branches().items()):
        if name != head.branch:
            found[at].append(clean(name))
    for name, at in sorted(repo.tags().items()):
        found[at].append(f"tag: {clean(name)}")
    return {at: tuple(names) for at, names in found.items()}


def commit_json(found: ObjectId, commit: Commit) -> dict[str, Json]:
    """One commit for programs; these keys are what scripts may rely on."""
    commit = mask_commit(commit)
    cell = commit.cell
    return {
        "id": hex_of(found),
        "parents": [hex_of(parent) for parent in commit.parents],
        "author": {"name": commit.author.name, "kind": commit.author.kind},
        "time": exact_time(commit.time_ns, commit.utc_offset_s).isoformat(timespec="microseconds"),
        "message": commit.message,
        "cell": None
        if cell is None
        else {
            "id": cell.id,
            "number": cell.number,
            "source": cell.source,
            "duration_s": cell.duration_s,
            "error": cell.error,
        },
        "changed": changes_json(commit.changed),
        "unsaved": unsaved_json(commit.unsaved),
        "status": commit.status,
    }


def find_living_holders(repo: Repository) -> dict[str, Holder]:
    """The branches that living processes write to, with who they are."""
    found = {name: repo.lease_of(name) for name in repo.branches()}
    return {name: holder for name, holder in found.items() if holder is not None and holder.is_alive(repo.store)}


def changes_json(changes: Iterable[Change]) -> list[Json]:
    return [{"name": change.name, "how": change.how, "size": change.size} for change in changes]


def unsaved_json(unsaved: Iterable[Unsaved]) -> list[Json]:
    return [
        {"name": one.name, "type": one.type, "reason": one.reason, "remedy": one.remedy, "stored": one.stored}
        for one in unsaved
    ]


def unsaved_groups(unsaved: Iterable[Unsaved]) -> list[list[Unsaved]]:
    """What goes into one line: the same reason, and one way to have it all back."""
    found: list[list[Unsaved]] = []
    for one in unsaved:
        for group in found:
            is_alike = (group[0].reason, group[0].stored) == (one.reason, one.stored)
            if is_alike and _one_remedy((*group, one)) is not None:
                group.append(one)
                break
        else:
            found.append([one])
    return found


def _one_remedy(unsaved: Iterable[Unsaved]) -> str | None:
    """The remedy that brings all of these back, since it names the cells of every other one; None: there is no such."""
    remedies = {one.remedy for one in unsaved}
    widest = max(remedies, key=len)
    cells = [_CELLS.fullmatch(remedy) for remedy in remedies]
    if len(remedies) == 1 or all(match is not None and match[1] in widest for match in cells):
        return widest
    return None


_CELLS: Final = re.compile(r"run (?:cells? |the cells? of )(.+) again to have it back", re.DOTALL)


def holders_among(repo: Repository, tree: ObjectId | None, unsaved: Iterable[Unsaved]) -> frozenset[str]:
    """The variables that hold what cannot be saved, and are something else themselves. `tree`: that has them."""
    found, entries = set[str](), repo.tree(tree)
    for one in unsaved:
        for name in one.name.split(", "):
            try:
                entry = entries.get(name)
                summary = None if entry is None or one.stored else summary_of(repo, entry)
            except StoreError:
                continue
            if summary is not None and summary.type and summary.type != one.type:
                found.add(name)
    return frozenset(found)


def unsaved_line(*alike: Unsaved, holders: Collection[str] = ()) -> str:
    """`conn is not saved (sqlite3.Connection): a database connection. Run this cell again to have it back.`

    Several with one reason: `state, repo are not saved (Versioned, Repository): each holds an open store.`
    Of what holds it: `con2 and a sqlite3.Connection in holder are not saved: a database connection.`

    Args:
        holders: see `holders_among`.
    """
    one, names = alike[0], unsaved_names(alike)
    kinds = list(dict.fromkeys(_type_text(each.type) for each in alike if each.type))
    reason, remedy = one.reason, _one_remedy(alike) or one.remedy
    subject, are_many = _some(names), len(names) > 1
    kind = f" ({_some(kinds)})" if kinds else ""
    held_in = [name for name in names if name in holders]
    if len(kinds) == 1 and held_in:
        kind, subject, are_many = "", *_name_parts([name for name in names if name not in holders], kinds[0], held_in)
    if are_many:
        reason = f"each {reason.removeprefix('it ')}" if reason.startswith("it ") else reason
        remedy = remedy.replace("to have it back", "to have them back")
    are = f"{'are' if are_many else 'is'} not {'loaded' if one.stored else 'saved'}"
    sentence = f"{subject} {are}{kind}: {reason}".rstrip(". ") + "."
    way = f" {remedy[0].upper()}{remedy[1:].rstrip('.')}." if remedy else ""
    return clean(previews.mask_text(sentence + way))


def _type_text(name: str) -> str:
    """Our own types go by the names that people import them under."""
    return name.rpartition(".")[2] if name.startswith("agent_kernel.") else name


def _name_parts(names: list[str], kind: str, held_in: list[str]) -> tuple[str, bool]:
    """`con2 and a sqlite3.Connection in holder`, and whether that is more than one thing."""
    part = f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind} in {_and(held_in)}"
    return (_and([*names, part]), True) if names else (part[0].upper() + part[1:], False)


def _and(words: list[str]) -> str:
    """`a, b and c`; of many the first few."""
    return _some(words) if len(words) > _NAMES else join_words(words)


def _some(words: list[str]) -> str:
    more = f" and {len(words) - _NAMES} more" if len(words) > _NAMES else ""
    return ", ".join(words[:_NAMES]) + more


def unsaved_lines(unsaved: Iterable[Unsaved], holders: Collection[str] = ()) -> list[str]:
    """A line for each reason."""
    return [unsaved_line(*alike, holders=holders) for alike in unsaved_groups(unsaved)]


def unsaved_blocks(unsaved: Iterable[Unsaved], holders: Collection[str] = ()) -> list[Line]:
    """What a move says: one line of all that was never saved, and one for each reason why something could not be loaded."""
    found = list(unsaved)
    never = [one for one in found if not one.stored]
    first = unsaved_lines(never, holders) if len(unsaved_groups(never)) < 2 else [_line_in_all(never, holders)]
    return list(map(Line, first + unsaved_lines(one for one in found if one.stored)))


def _line_in_all(unsaved: Sequence[Unsaved], holders: Collection[str]) -> str:
    """`lock, f are not saved. Run cell [3] again to have them back. %agent status tells why.`

    Of what holds it: `lock and parts of m are not saved.`
    """
    way = (_one_remedy(unsaved) or "").replace("to have it back", "to have them back").rstrip(".")
    way = (
        f" {way[0].upper()}{way[1:]}. %agent status tells why."
        if way
        else " %agent status tells why, and the way back."
    )
    names = sorted(unsaved_names(unsaved))
    held_in, whole = [name for name in names if name in holders], [name for name in names if name not in holders]
    parts = f"parts of {_and(held_in)}" if held_in else ""
    subject = (_and([*whole, parts]) if whole else parts[0].upper() + parts[1:]) if parts else _some(whole)
    return clean(previews.mask_text(f"{subject} are not saved.{way}"))


def change_line(changes: Iterable[Change], rank: Rank) -> str:
    """`~df, +prices, −tmp`; of many the first few and the counts; or nothing."""
    found = sorted(changes, key=lambda change: (change.how == "-", rank(change.name), -change.size, change.name))
    first = found if len(found) <= _NAMES else found[: _NAMES - 1]
    names = ", ".join(f"{_SIGNS.get(change.how, '?')}{clean(change.name)}" for change in first)
    if len(first) == len(found):
        return names
    return f"{names} and {len(found) - len(first):,} more ({change_count(found)})"


def change_count(changes: Iterable[Change]) -> str:
    """`3 changed, 1 added, 2 removed`, or nothing."""
    hows = [change.how for change in changes]
    counted = [(hows.count(how), word) for how, word in (("~", "changed"), ("+", "added"), ("-", "removed"))]
    return ", ".join(f"{count:,} {word}" for count, word in counted if count)


def names_close_to(repo: Repository, commit: Commit, name: str) -> tuple[str, ...]:
    """Names in the commit that are spelled almost like this one."""
    from difflib import get_close_matches

    known = [other for other in repo.tree(commit.tree).names() if not other.startswith("\0")]
    return tuple(get_close_matches(name, known, 3))


# -- the names that a commit changed, in a few words: `~df 1.2 MB +model −tmp, 2 more`

_WORTH_TELLING = 1_000  # bytes; a smaller size says nothing beside a name


def by_size(name: str) -> int:
    """The rank of names of which only the size says anything."""
    return 0


NOTHING_GREW: Final[Mapping[str, str]] = MappingProxyType({})


def chip_line(
    changes: Iterable[tuple[str, str, int]],
    *,
    most: int = 4,
    rank: Rank = by_size,
    grew: Mapping[str, str] = NOTHING_GREW,
) -> str:
    """Changed names as text; see `chip_pieces`."""
    return plain(chip_pieces(changes, most=most, rank=rank, grew=grew))


def chip_pieces(
    changes: Iterable[tuple[str, str, int]],
    *,
    most: int = 4,
    rank: Rank = by_size,
    grew: Mapping[str, str] = NOTHING_GREW,
) -> list[Piece]:
    """Changed names in pieces, each with its colour, and how much longer or wider it became, as far as that is known.

    Otherwise the first one tells its size, from 1 kB on.

    Args:
        changes: how a name changed, the name, and the bytes of its value.
        rank: how interesting a name is, 0 the most; of equal names the largest comes first.
    """
    ranked = sorted(changes, key=lambda change: (rank(change[1]), -change[2]))
    found: list[Piece] = []
    for how, name, size in ranked[:most]:
        if found:
            found.append(SPACE)
        found.append((f"{'−' if how == '-' else how}{clean(name)}", SIGNS.get(how, "")))
        if name in grew:
            found.append((f" {grew[name]}", "quiet"))
        elif len(found) == 1 and size >= _WORTH_TELLING:
            found.append((f" {size_text(size)}", "quiet"))
    if len(ranked) > most:
        found.append((f", {len(ranked) - most} more", "quiet"))
    return found


# -- the order in which changes are told


class Differing(NamedTuple):
    """A variable that is not the same on two sides; None: it is not there. `how`: "=" where only what it shares changed."""

    name: str
    how: str
    old: Entry | None
    new: Entry | None


def most_interesting_first(repo: Repository, found: Sequence[Differing], most: int | None = None) -> list[Differing]:
    """What differs, in the one order in which changes are told: by interest, and the larger first; then what was removed.

    Args:
        most: so many at most, the largest.
    """
    group = {"~": 0, "+": 0, "-": 1, "=": 2}
    sizes = {one.name: max(0 if side is None else size_of(repo, side) for side in (one.old, one.new)) for one in found}
    largest = sorted(found, key=lambda one: (group[one.how], -sizes[one.name]))[:most]
    rank = {one.name: rank_of(repo, one.new or one.old) for one in largest}
    return sorted(largest, key=lambda one: (group[one.how], rank[one.name]))


def live_ranks(namespace: Mapping[str, object], names: Iterable[str]) -> dict[str, int]:
    """The ranks of variables that are in memory."""
    first = [name for name, _ in zip(names, range(MOST_RANKED), strict=False)]
    return {
        name: previews.interest(previews.make_preview(namespace[name], name)) for name in first if name in namespace
    }


def changed_records(repo: Repository, old: ObjectId | None, new: ObjectId) -> tuple[str, ...]:
    """Which records differ between two commits, as a person names them: `~Note:a`, `+Note:b`, `-Note:c`."""
    before, after = None if old is None else repo.commit_at(old), repo.commit_at(new)
    recent = () if before is None else before.recent
    if (None if before is None else before.records, recent) == (after.records, after.recent):
        return ()
    from agent_kernel.records.trees import changed_records as find  # few commits need them

    return find(repo, old, new)[0]


def record_changes(
    repo: Repository, old: ObjectId | None, new: ObjectId, only: Collection[str] = ()
) -> tuple[tuple[str, str, str], ...]:
    """How the first of them changed, its name, and the fields that differ: `text draft → final, stars 1 → 2`."""
    from agent_kernel.records.merge import changes_of_records  # models load slowly, and few commits need them

    found = changes_of_records(repo, old, new, only=only, most=None if only else _MOST_RECORDS)
    return tuple((how, clean(previews.mask_text(name)), clean(text)) for how, name, text in found)


def has_record(repo: Repository, commit: ObjectId | None, name: str) -> bool:
    """Whether the commit has a record, or a list, that a person names so."""
    if ":" not in name:
        return False
    from agent_kernel.records.trees import key_of, tree_of

    return tree_of(repo, commit).row(key_of(name)) is not None


def records_line(changed: Sequence[str], more: int = 0) -> str:
    """The same in one line: `~Note:a, +Note:b`; of many the first. Their ids are text of anybody: keys and tokens in it are masked.

    Args:
        more: how many others changed.
    """
    left_out = len(changed[_MOST_RECORDS:]) + more
    names = (previews.mask_text(name) for name in changed[:_MOST_RECORDS])
    return clean(", ".join(names) + (f" and {left_out:,} more" if left_out else ""))


_MOST_RECORDS: Final = 8
