"""`compare`: two commits side by side. The first is the left side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from agent_kernel.browsing.answers import Ref
from agent_kernel.browsing.arguments import Between
from agent_kernel.browsing.book import Book
from agent_kernel.browsing.changes import Change, changes_of
from agent_kernel.browsing.code import source_of
from agent_kernel.browsing.lines import DiffLine, diff_lines
from agent_kernel.browsing.matching import Budget
from agent_kernel.browsing.surroundings import EnvironmentDiff, between
from agent_kernel.browsing.wording import called, cleaned
from agent_kernel.repository import Commit, Kind, ObjectId, hex_of, short
from agent_kernel.repository.commits import decode_commit
from agent_kernel.session.labels import prompt
from agent_kernel.verbs.comparing import differing
from agent_kernel.verbs.timeline import reached

__all__ = ["Comparison", "Side", "compare", "side_of"]

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
