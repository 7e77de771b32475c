"""Commits and stored variables in words, from what was written down when they were made.

Nothing here loads a value: a commit's record and the previews beside its entries say everything that is shown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from agent_kernel.commands.output import SIGNS, SPACE, Json, Line, Piece, plain
from agent_kernel.errors import StoreError
from agent_kernel.repository import Change, Commit, Entry, Head, Holder, ObjectId, Unsaved, hex_of
from agent_kernel.session.history import is_code, label, mask_commit, prompt, size_of, title, without_code
from agent_kernel.text import clean, exact_time, plural, size_text
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.commands.diff import Differing
    from agent_kernel.session import Repository

__all__ = [
    "SIZES",
    "Rank",
    "by_name",
    "by_size",
    "change_count",
    "change_line",
    "changed_records",
    "changes_json",
    "chip_line",
    "chip_pieces",
    "commit_json",
    "decorations",
    "entry_line",
    "entry_outline",
    "find_living_holders",
    "grown",
    "grown_between",
    "growth",
    "holders_among",
    "is_code",
    "label",
    "live_ranks",
    "mask_commit",
    "most_interesting_first",
    "names_close_to",
    "prompt",
    "rank_of",
    "ranks",
    "ranks_of",
    "records_line",
    "summary_of",
    "title",
    "unsaved_blocks",
    "unsaved_groups",
    "unsaved_json",
    "unsaved_line",
    "unsaved_lines",
    "unsaved_names",
    "without_code",
]


SIZES = (
    "A size is that of the value as it is stored, before pieces are shared and compressed; in log, diff and show alike.\n"
    "In memory it may take more, or less."
)

_NAMES = 6  # that a report spells out
_SIGNS = {"~": "~", "+": "+", "-": "−"}


def summary_of(repo: Repository, entry: Entry) -> previews.Preview | None:
    """What was noted about the value when it was committed; None where nothing was, or nothing that can be read.

    A size is that of what is stored, before packing, as in the history. (Previews of older stores hold what the value
    took in memory, as far as its type could tell.)
    """
    stored = repo.read_preview(entry)
    if not stored:
        return None
    try:
        summary = previews.decode(stored)
    except msgspec.MsgspecError:  # somebody else's store may hold anything
        return None
    if not summary.size_bytes:
        return summary
    known = summary.kind != "object" or not (entry.alias_group or repo.read_manifest(entry).unsaved)
    return msgspec.structs.replace(summary, size_bytes=size_of(repo, entry) if known else 0)


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


def unsaved_names(unsaved: Iterable[Unsaved]) -> list[str]:
    """The variables; some that are saved together are told as one."""
    return list(dict.fromkeys(name for one in unsaved for name in one.name.split(", ")))


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
    Of what holds it: `holder (holds a sqlite3.Connection) and con2 are not saved: a database connection.`

    Args:
        holders: see `holders_among`.
    """
    one, names = alike[0], unsaved_names(alike)
    kinds = list(dict.fromkeys(_type_text(each.type) for each in alike if each.type))
    reason, remedy = one.reason, _one_remedy(alike) or one.remedy
    if len(names) > 1:
        reason = f"each {reason.removeprefix('it ')}" if reason.startswith("it ") else reason
        remedy = remedy.replace("to have it back", "to have them back")
    subject = _some(names)
    kind = f" ({_some(kinds)})" if kinds else ""
    if len(kinds) == 1 and any(name in holders for name in names):
        kind, subject = "", _and([_name_holder(name, kinds[0]) if name in holders else name for name in names])
    are = f"{'are' if len(names) > 1 else 'is'} not {'loaded' if one.stored else 'saved'}"
    sentence = f"{subject} {are}{kind}: {reason}".rstrip(". ") + "."
    way = f" {remedy[0].upper()}{remedy[1:].rstrip('.')}." if remedy else ""
    return clean(previews.mask_text(sentence + way))


def _type_text(name: str) -> str:
    """Our own types go by the names that people import them under."""
    return name.rpartition(".")[2] if name.startswith("agent_kernel.") else name


def _name_holder(name: str, kind: str) -> str:
    return f"{name} (holds {'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind})"


def _and(words: list[str]) -> str:
    """`a, b and c`; of many the first few."""
    return _some(words) if len(words) > _NAMES else " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


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
    first = unsaved_lines(never, holders) if len(unsaved_groups(never)) < 2 else [_line_in_all(never)]
    return list(map(Line, first + unsaved_lines(one for one in found if one.stored)))


def _line_in_all(unsaved: Sequence[Unsaved]) -> str:
    """`lock, f are not saved. Run cell [3] again to have them back. %agent status tells why.`"""
    way = (_one_remedy(unsaved) or "").replace("to have it back", "to have them back").rstrip(".")
    way = (
        f" {way[0].upper()}{way[1:]}. %agent status tells why."
        if way
        else " %agent status tells why, and the way back."
    )
    return clean(previews.mask_text(f"{_some(sorted(unsaved_names(unsaved)))} are not saved.{way}"))


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


# What the lengths of a value count, by its kind.
_UNITS: Final = {
    "container": ("item",),
    "frame": ("row", "column"),
    "mapping": ("key",),
    "series": ("value",),
}


def growth(old: previews.Preview, new: previews.Preview) -> str:
    """How much longer or wider a value became: `−17 rows`, `+2 columns`; "": neither, or it is another kind of value.

    >>> from agent_kernel.values.previews import Preview
    >>> growth(Preview("frame", "DataFrame", shape=(40, 2)), Preview("frame", "DataFrame", shape=(23, 3)))
    '−17 rows, +1 column'
    """
    if old.kind != new.kind or -1 in (*old.shape, *new.shape):
        return ""
    grown = zip(_UNITS.get(old.kind, ()), old.shape, new.shape, strict=False)
    return ", ".join(
        f"{'+' if now > was else '−'}{plural(abs(now - was), unit)}" for unit, was, now in grown if now != was
    )


def grown(repo: Repository, commit: Commit, names: Sequence[str] | None = None) -> dict[str, str]:
    """How much longer or wider each name became that the commit changed: of these names, or of the largest ones."""
    if names is None:
        changed = sorted((change for change in commit.changed if change.how == "~"), key=lambda change: -change.size)
        names = [change.name for change in changed[:_MOST]]
    return grown_between(repo, commit.parents[0], commit.tree, names) if names and commit.parents else {}


def grown_between(repo: Repository, base: ObjectId | None, after: ObjectId, names: Iterable[str]) -> dict[str, str]:
    """The same of some names between a commit, None: the empty state, and a tree."""
    found: dict[str, str] = {}
    try:
        trees = repo.tree_at(base), repo.tree(after)
        for name in names:
            old, new = (
                None if entry is None else summary_of(repo, entry) for entry in (tree.get(name) for tree in trees)
            )
            if old is not None and new is not None and (growth_text := growth(old, new)):
                found[name] = growth_text
    except StoreError:  # what can be said of the others will do
        pass
    return found


# -- which changes to name first: those of tables, models, single values and figures, then the others. See `previews.interest`

Rank = Callable[[str], int]

_MOST: Final = 64  # names whose kind is looked at, the largest first


def by_name(known: Mapping[str, int]) -> Rank:
    """The rank of a name; of one that is not known the last."""
    return lambda name: known.get(name, previews.LEAST)


def ranks_of(repo: Repository, commit: Commit) -> dict[str, int]:
    """The ranks of what a commit changed."""
    return ranks(repo, commit.changed, commit)


def ranks(repo: Repository, changes: Sequence[Change], after: Commit) -> dict[str, int]:
    """The ranks of changed names. What was removed is not among them, and so comes last.

    Nothing is read where there is nothing to sort.
    """
    if len(changes) < 2:
        return {}
    looked_at = sorted(changes, key=lambda change: -change.size)[:_MOST]
    tree = repo.tree(after.tree)
    return {change.name: rank_of(repo, tree.get(change.name)) for change in looked_at if change.how != "-"}


def rank_of(repo: Repository, entry: Entry | None) -> int:
    """The rank of a stored value, by what was noted about it when it was committed."""
    try:
        stored = b"" if entry is None else repo.read_preview(entry)
        return previews.interest(previews.decode(stored)) if stored else previews.LEAST
    except (StoreError, msgspec.MsgspecError):
        return previews.LEAST


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
    first = [name for name, _ in zip(names, range(_MOST), strict=False)]
    return {
        name: previews.interest(previews.make_preview(namespace[name], name)) for name in first if name in namespace
    }


def changed_records(repo: Repository, old: ObjectId | None, new: ObjectId) -> tuple[str, ...]:
    """Which records differ between two commits, as a person names them: `~Note:a`, `+Note:b`, `-Note:c`."""
    before, after = None if old is None else repo.commit_at(old), repo.commit_at(new)
    recent = () if before is None else before.recent
    if (None if before is None else before.records, recent) == (after.records, after.recent):
        return ()
    from agent_kernel.records.merge import changed_records as find  # models load slowly, and few commits need them

    return find(repo, old, new)


def records_line(changed: Sequence[str]) -> str:
    """The same in one line: `~Note:a, +Note:b`; of many the first."""
    more = f" and {len(changed) - _MOST_RECORDS} more" if len(changed) > _MOST_RECORDS else ""
    return clean(", ".join(changed[:_MOST_RECORDS]) + more)


_MOST_RECORDS: Final = 8
