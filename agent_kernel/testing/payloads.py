"""Values of the sizes at which stores differ."""

from __future__ import annotations

PIECE = 262_128  # the largest stored piece of an array: a header and 64 pages less LMDB's own bytes
LARGE = 5_000_000


def pattern(nbytes: int, seed: int = 0) -> bytes:
    """So many bytes, in which no page equals the next."""
    unit = bytes((i * 131 + seed) % 251 for i in range(251))
    return (unit * (nbytes // 251 + 1))[:nbytes]
