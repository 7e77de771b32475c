"""The names that a commit changed, in a few words: `~df 1.2 MB +model −tmp, 2 more`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent_kernel.verbs.ansi import SIGNS, SPACE, Piece, plain
from agent_kernel.verbs.text import clean, size_text

if TYPE_CHECKING:
    from agent_kernel.verbs.interest import Rank

__all__ = ["by_size", "chip_line", "chip_pieces"]

_WORTH_TELLING = 1_000  # bytes; a smaller size says nothing beside a name


def by_size(name: str) -> int:
    """The rank of names of which only the size says anything."""
    return 0


def chip_line(changes: Iterable[tuple[str, str, int]], *, most: int = 4, rank: Rank = by_size) -> str:
    """Changed names as text; see `chip_pieces`."""
    return plain(chip_pieces(changes, most=most, rank=rank))


def chip_pieces(changes: Iterable[tuple[str, str, int]], *, most: int = 4, rank: Rank = by_size) -> list[Piece]:
    """Changed names in pieces, each with its colour. The first one tells its size, from 1 kB on.

    Args:
        changes: how a name changed, the name, and the bytes of its value.
        rank: how interesting a name is, 0 the most; of equal names the largest comes first.
    """
    ranked = sorted(changes, key=lambda change: (rank(change[1]), -change[2]))
    found: list[Piece] = []
    for how, name, size in ranked[:most]:
        if found:
            found.append(SPACE)
        found.append((f"{'−' if how == '-' else how}{clean(name)}", SIGNS[how]))
        if len(found) == 1 and size >= _WORTH_TELLING:
            found.append((f" {size_text(size)}", "quiet"))
    if len(ranked) > most:
        found.append((f", {len(ranked) - most} more", "quiet"))
    return found
