"""What a commit, or all steps of a run together, changed, as a row shows it: the largest names, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from agent_kernel.browsing.answers import Sign
from agent_kernel.browsing.wording import cleaned
from agent_kernel.verbs.text import plural

if TYPE_CHECKING:
    from agent_kernel.repository import Change, Commit, Unsaved
    from agent_kernel.values.summaries import Summary
    from agent_kernel.verbs.describe import Rank

__all__ = ["Changed", "changed_by", "chips_of", "counts_of", "growth", "sign_of"]

_CHIPS: Final = 4
# What the lengths of a value count, by its kind.
_UNITS: Final = {
    "container": ("item",),
    "frame": ("row", "column"),
    "mapping": ("key",),
    "series": ("value",),
}
Changed = tuple["Sequence[Change]", "Sequence[Unsaved]"]


def changed_by(commits: Iterable[Commit]) -> Changed:
    """What several commits, the oldest first, changed together: a name that came and went is not among it."""
    changes: dict[str, Change] = {}
    unsaved: dict[str, Unsaved] = {}
    for commit in commits:
        for change in commit.changed:
            before = changes.pop(change.name, None)
            if before is not None and before.how == "+":
                if change.how != "-":
                    changes[change.name] = type(change)(change.name, "+", change.size)
            elif before is not None and before.how == "-" and change.how == "+":
                changes[change.name] = type(change)(change.name, "~", change.size)
            else:
                changes[change.name] = change
        unsaved = {one.name: one for one in commit.unsaved}
    return tuple(changes.values()), tuple(unsaved.values())


def chips_of(changed: Changed, rank: Rank) -> tuple[tuple[tuple[Sign, str, int], ...], int]:
    """The changed names, the most interesting first, and how many there are beyond these. One that is not saved is among them.

    Args:
        rank: how interesting a name is, 0 the most; of equal names the largest comes first.
    """
    saved, not_saved = _apart(changed)
    saved.sort(key=lambda change: (rank(change.name), -change.size))
    room = _CHIPS - bool(not_saved)
    chips = [_chip(sign_of(change.how), change.name, change.size) for change in saved[:room]]
    chips += [_chip("!", name) for name in not_saved[: _CHIPS - len(chips)]]
    return tuple(chips), len(saved) + len(not_saved) - len(chips)


def _apart(changed: Changed) -> tuple[list[Change], list[str]]:
    """What changed and is saved, and the names that are not, each once: some that belong together are told as one."""
    not_saved = dict.fromkeys(name for one in changed[1] for name in one.name.split(", "))
    return [change for change in changed[0] if change.name not in not_saved], list(not_saved)


def _chip(sign: Sign, name: str, size: int = 0) -> tuple[Sign, str, int]:
    return sign, cleaned(name, 60), size


def counts_of(changed: Changed) -> dict[Sign, int]:
    saved, not_saved = _apart(changed)
    counts: Counter[Sign] = Counter(sign_of(change.how) for change in saved)
    if not_saved:
        counts["!"] = len(not_saved)
    return dict(counts)


def sign_of(how: str) -> Sign:
    return "+" if how == "+" else "-" if how == "-" else "~"


def growth(old: Summary, new: Summary) -> str:
    """How much longer or wider a value became: `−17 rows`, `+2 columns`; "": neither, or it is another kind of value.

    >>> from agent_kernel.values.summaries import Summary
    >>> growth(Summary("frame", "DataFrame", shape=(40, 2)), Summary("frame", "DataFrame", shape=(23, 3)))
    '−17 rows, +1 column'
    """
    if old.kind != new.kind or -1 in (*old.shape, *new.shape):
        return ""
    grown = zip(_UNITS.get(old.kind, ()), old.shape, new.shape, strict=False)
    return ", ".join(
        f"{'+' if now > was else '−'}{plural(abs(now - was), unit)}" for unit, was, now in grown if now != was
    )
