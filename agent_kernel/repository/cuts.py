"""Where a buffer is cut into chunks.

Arrays are cut at fixed places, which costs nothing and keeps unchanged pieces recognisable while sizes stay; pickle
streams, where one longer item moves all that follows, are cut by content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xxhash import xxh3_128_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_kernel.storage import Buffer

PIECE: Final = 262_080  # with the largest header exactly 64 pages of LMDB
LEAST_STRIDE: Final = 64 << 10
WHOLE_STREAM: Final = 64 << 10
AVERAGE_STREAM_CHUNK: Final = 16 << 10


def plan_cuts(nbytes: int, stride: int | None = None) -> list[int]:
    """Where the pieces of an array's memory end.

    Args:
        stride: bytes of one step of the slowest axis. Pieces start anew at each step of 64 KB or more, so that
            adding a column to a frame stores a column.

    >>> plan_cuts(600_000)
    [262080, 524160, 600000]
    >>> plan_cuts(600_000, stride=300_000)
    [262080, 300000, 562080, 600000]
    """
    if stride is None or not LEAST_STRIDE <= stride < nbytes:
        stride = nbytes
    return [
        min(end, step + stride, nbytes)
        for step in range(0, nbytes, max(stride, 1))
        for end in range(step + PIECE, min(step + stride, nbytes) + PIECE, PIECE)
    ]


def stream_cuts(buffer: Buffer) -> list[int]:
    """Where the pieces of a pickle stream end: nowhere inside up to 64 KB, else by content, 16 KB on average."""
    size = memoryview(buffer).nbytes
    if size <= WHOLE_STREAM:
        return [size] if size else []
    from pyfastcdc import FastCDC

    chunker = FastCDC(AVERAGE_STREAM_CHUNK)  # one each: it is not safe to share between threads
    return [chunk.offset + chunk.length for chunk in chunker.cut_buf(memoryview(buffer).cast("B"))]


def digest_pieces(buffer: Buffer, cuts: Sequence[int]) -> list[bytes]:
    """xxh3-128 of each piece: what tells, faster than anything else, which pieces changed."""
    view = memoryview(buffer).cast("B")
    return [xxh3_128_digest(view[start:end]) for start, end in zip([0, *cuts], cuts, strict=False)]
