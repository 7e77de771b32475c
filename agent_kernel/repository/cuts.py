"""Where a buffer is cut into chunks.

Arrays are cut at fixed places, which costs nothing and keeps unchanged pieces recognisable while sizes stay; pickle
streams, where one longer item moves all that follows, are cut by content.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

from xxhash import xxh3_128_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_kernel.storage import Buffer

T = TypeVar("T")
R = TypeVar("R")

PIECE: Final = 262_080  # with the largest header exactly 64 pages of LMDB
LEAST_STRIDE: Final = 64 << 10
WHOLE_STREAM: Final = 64 << 10
AVERAGE_STREAM_CHUNK: Final = 16 << 10
PARALLEL_FROM: Final = 16 << 20  # bytes; starting the threads takes as long as hashing 3 MB
_MOST_THREADS: Final = 8
_TOGETHER: Final = 32  # pieces, 8 MB: handing over one by one takes as long as hashing it


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
    pieces = list(zip([0, *cuts], cuts, strict=False))
    return in_threads(lambda piece: xxh3_128_digest(view[piece[0] : piece[1]]), pieces, view.nbytes)


def in_threads(
    work: Callable[[T], R], items: Sequence[T], nbytes: int, *, least: int = PARALLEL_FROM, together: int = _TOGETHER
) -> list[R]:
    """What `work` makes of each item, in order, on several processors where it is about many bytes.

    Worth it for what lets other threads run, as hashes and zstd do.

    Args:
        least: bytes for which threads are started.
        together: how many items a thread takes at once.
    """
    threads = min(os.cpu_count() or 1, _MOST_THREADS, -(-len(items) // together))
    if nbytes < least or threads < 2:
        return list(map(work, items))
    from concurrent.futures import ThreadPoolExecutor

    def work_through(start: int) -> list[R]:
        return list(map(work, items[start : start + together]))

    starts = range(0, len(items), together)
    with ThreadPoolExecutor(threads, "agent-kernel-read") as pool:
        try:
            running = pool.map(work_through, starts)
        except RuntimeError:  # no thread can be started: the process is about to end, or has too many
            running = map(work_through, starts)
        return [made for batch in running for made in batch]
