"""Nobody types anything for code that an agent outside runs: what it reads is at its end.

Over standard input and output the client speaks there. The transport serves it from copies of its own, with the null
device in their place, so that no process that the code starts can read a request. Here `sys.stdin` is replaced besides,
anew for each call, whatever it is and whatever earlier code did to it: over HTTP it would be a terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["without_input"]


@contextmanager
def without_input() -> Generator[None]:
    """While the block runs, `input()` raises EOFError, and `sys.stdin` has nothing to read."""
    # A pipe that nobody writes to, and no text in memory: code may give it to a process.
    reads, writes = os.pipe()
    os.close(writes)
    before = sys.stdin
    with os.fdopen(reads, encoding="utf-8") as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = before
