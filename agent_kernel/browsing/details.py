"""`commit`, `compare`, `environment` and `code`: one commit against its first parent, or against another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

import msgspec

from agent_kernel.browsing.changes import Change, changes_of
from agent_kernel.browsing.listing import sign_of
from agent_kernel.browsing.reader import At, Between, Book
from agent_kernel.browsing.text_diff import Budget, DiffLine, count_of, diff_lines, words_of
from agent_kernel.browsing.wording import Author, Ref, Sign, called, cleaned, step_called, subject_of
from agent_kernel.repository import Commit, Kind, ObjectId, hex_of, read_outputs, short
from agent_kernel.repository.commits import decode_commit
from agent_kernel.session.labels import prompt, shown
from agent_kernel.verbs.comparing import differing, environment_changes, environment_facts, environment_of
from agent_kernel.verbs.text import clean_lines
from agent_kernel.verbs.timeline import Record, reached

__all__ = [
    "Against",
    "CodeDiff",
    "Comparison",
    "Details",
    "EnvironmentDiff",
    "Side",
    "before_of",
    "between",
    "code",
    "commit",
    "compare",
    "environment",
    "last_run",
    "side_of",
    "source_of",
]


# -- `code`: what a cell's code says that its last run did not

_MOST_LOOKED_AT = 60  # earlier cells, where a front end gives cells no ids
_ALIKE = 0.6
_BEGINNING = 2_000  # characters by which they are compared
_LONGEST = 200_000  # characters of a cell


class CodeDiff(msgspec.Struct, frozen=True):
    """A cell's code against another run."""

    about: str
    lines: tuple[DiffLine, ...]


def code(book: Book, args: At) -> CodeDiff:
    """The code against its last run, or against that of another commit. A cell that never ran before is all new."""
    id, commit = book.resolve(args.id)
    if args.against:
        before = book.resolve(args.against)[1]
        return _diff(f"{_cell(commit)} against {called(before)}", source_of(before), source_of(commit), Budget())
    if commit.cell is None:
        return CodeDiff("No cell made this commit", ())
    budget = Budget()
    last = last_run(book, id, commit, budget)
    if last is None:
        return _diff(f"{_cell(commit)}, its first run", "", source_of(commit), budget)
    return _diff(f"{_cell(commit)} against its last run, {called(last)}", source_of(last), source_of(commit), budget)


def _diff(about: str, old: str, new: str, budget: Budget) -> CodeDiff:
    return CodeDiff(f"{about}: the same code" if old == new else about, diff_lines(old, new, budget))


def source_of(commit: Commit) -> str:
    """The code of the commit's cell as it may be shown."""
    cell = shown(commit).cell
    return cell.source[:_LONGEST] if cell is not None else ""


def last_run(book: Book, id: ObjectId, commit: Commit, budget: Budget) -> Commit | None:
    """The run of the same cell before this one: by the cell's id, else by its number or its text; None if it never ran before."""
    if commit.cell is None:
        return None
    earlier = _line_before(book, id)
    if not commit.cell.id:
        return _most_alike(book, earlier, commit, budget)
    mark = hash(commit.cell.id)
    for record in earlier:
        if record.cell == mark:
            return book.repo.commit_at(record.id)
    return None


def _line_before(book: Book, id: ObjectId) -> Iterator[Record]:
    """The commits before this one on its line."""
    view = book.spread().view
    while id in view.places:
        parents = view.order[view.places[id]].parents
        if not parents:
            return
        id = parents[0]
        yield view.order[view.places[id]]


def _most_alike(book: Book, earlier: Iterator[Record], commit: Commit, budget: Budget) -> Commit | None:
    """By their words. Where the budget ends before all were looked at, the best that was found by then."""
    words = _words(commit)
    best, share = None, _ALIKE
    cells = (found for record in earlier if (found := book.repo.commit_at(record.id)).cell is not None)
    for found in islice(cells, _MOST_LOOKED_AT):
        others = _words(found)
        if others == words:
            return found
        if not budget.allows_a_look(others, words):
            break
        matcher = budget.words(others, words)
        if matcher.quick_ratio() <= share:
            continue
        alike = matcher.ratio()
        if alike > share:
            best, share = found, alike
        if found.cell is not None and commit.cell is not None and found.cell.number == commit.cell.number is not None:
            return found if alike > _ALIKE else best
    return best


def _words(commit: Commit) -> list[str]:
    return [word for word in words_of(source_of(commit)[:_BEGINNING]) if not word.isspace()]


def _cell(commit: Commit) -> str:
    return f"Cell {called(commit)}" if commit.cell is not None else called(commit)


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


# -- `environment`: what a commit ran on, and what differs from where another one ran

_MOST_PACKAGES = 2_000  # packages


class Version(msgspec.Struct, frozen=True):
    """A package, or the interpreter, that is not the same."""

    how: Sign
    name: str
    old: str
    new: str


class EnvironmentDiff(msgspec.Struct, frozen=True):
    """An environment against another one."""

    about: str
    facts: tuple[tuple[str, str], ...]
    packages: int
    installed: tuple[tuple[str, str], ...]  # each package and its version
    changed: tuple[Version, ...]


def environment(book: Book, args: At) -> EnvironmentDiff:
    """The environment of a commit, against its first parent's or another commit's."""
    commit = book.resolve(args.id)[1]
    if args.against:
        return between(book, book.resolve(args.against)[1], commit)
    return between(book, book.repo.commit_at(commit.parents[0]) if commit.parents else None, commit)


def between(book: Book, before: Commit | None, after: Commit) -> EnvironmentDiff:
    """What `after` ran on, and what of it is not as it was."""
    found = environment_of(book.repo, after)
    if found is None:
        return EnvironmentDiff(f"The environment of {called(after)} was not recorded", (), 0, (), ())
    facts = tuple((name, cleaned(value)) for name, value in environment_facts(found).items() if value)
    parted = (cleaned(one).partition("==") for one in found.packages[:_MOST_PACKAGES])
    installed = tuple((name, version) for name, _, version in parted)
    old = environment_of(book.repo, before)
    if before is None or old is None:
        about = f"Environment of {called(after)}" + (f"; that of {called(before)} was not recorded" if before else "")
        return EnvironmentDiff(about, facts, len(found.packages), installed, ())
    rows = environment_changes(old, found)
    about = f"Environment of {called(after)}, {'against that of' if rows else 'the same as'} {called(before)}"
    changed = tuple(Version(sign_of(how), cleaned(name), cleaned(was), cleaned(now)) for how, name, was, now in rows)
    return EnvironmentDiff(about, facts, len(found.packages), installed, changed[:_MOST_PACKAGES])


# -- `compare`: two commits side by side. The first is the left side

_MOST_CELLS = 50  # of either side whose code is shown
_MOST_RUNS = 3_000  # of either side, the newest, in which they are looked for
_BATCH = 200
_MOST_NAMES = 1_000


class Side(msgspec.Struct, frozen=True):
    """One of two commits."""

    id: str
    short: str
    prompt: str
    label: str
    refs: tuple[Ref, ...]


class CellDiff(msgspec.Struct, frozen=True):
    """The code of a cell that one side ran, or both did."""

    prompt: str
    lines: tuple[DiffLine, ...]
    about: str


class Comparison(msgspec.Struct, frozen=True):
    """What differs. `base`: where both grew from; None: unrelated, or one is it."""

    a: Side
    b: Side
    base: Side | None
    changes: tuple[Change, ...]
    more_changes: int
    same: int
    same_names: tuple[str, ...]
    code: tuple[CellDiff, ...]
    environment: EnvironmentDiff | None


def side_of(book: Book, id: ObjectId, commit: Commit) -> Side:
    return Side(hex_of(id), short(id), prompt(commit), called(commit), book.spread().refs.get(id, ()))


def compare(book: Book, args: Between) -> Comparison:
    """Variables, code and environment of two commits."""
    (a, before), (b, after) = book.resolve(args.a), book.resolve(args.b)
    found = differing(book.repo, a, b)
    changes, more = changes_of(book.repo, found)
    names = {one.name for one in found}
    same = [name for name in book.repo.tree(after.tree).names() if not name.startswith("\0") and name not in names]
    base = book.repo.merge_base(a, b)
    return Comparison(
        a=side_of(book, a, before),
        b=side_of(book, b, after),
        base=None if base is None or base in (a, b) else side_of(book, base, book.repo.commit_at(base)),
        changes=changes,
        more_changes=more,
        same=len(same),
        same_names=tuple(cleaned(name) for name in same[:_MOST_NAMES]),
        code=_code(book, a, b),
        environment=None if before.environment == after.environment else between(book, before, after),
    )


def _code(book: Book, a: ObjectId, b: ObjectId) -> tuple[CellDiff, ...]:
    """The last runs of the cells that only one side made, or that both made with another text; newest last."""
    left, right = _cells_since(book, a, b), _cells_since(book, b, a)
    found: list[CellDiff] = []
    budget = Budget()
    for key in [*left, *(key for key in right if key not in left)]:
        before, after = left.get(key), right.get(key)
        old, new = ("" if one is None else source_of(one) for one in (before, after))
        told = after or before
        if old == new or told is None:
            continue
        about = (
            "" if before is not None and after is not None else f"only on the {'left' if after is None else 'right'}"
        )
        if before is not None and after is not None:
            about = f"{called(before)} and {called(after)}"
        found.append(CellDiff(called(told), diff_lines(old, new, budget), about))
    return tuple(found)


def _cells_since(book: Book, tip: ObjectId, other: ObjectId) -> dict[str, Commit]:
    """The last run of each cell that this side made and the other does not have, in the order in which they ran."""
    view = book.spread().view
    if tip not in view.places or other not in view.places:
        own = book.repo.history.missing_from(tip, [other])
    else:
        own = sorted(reached(view, [tip], reached(view, [other])), key=view.places.__getitem__)
    found: dict[str, Commit] = {}
    for start in range(0, min(len(own), _MOST_RUNS), _BATCH):
        for id, commit in _read(book, own[start : start + _BATCH]):
            if commit.cell is not None:
                found.setdefault(commit.cell.id or hex_of(id), commit)
        if len(found) >= _MOST_CELLS:
            break
    return dict(reversed(list(found.items())[:_MOST_CELLS]))


def _read(book: Book, ids: Sequence[ObjectId]) -> Iterable[tuple[ObjectId, Commit]]:
    return zip(ids, book.repo.objects.load_many(Kind.COMMIT, ids, decode_commit), strict=True)
