"""Let many threads use an LMDB environment, or one thread change it alone.

Resizing or reopening the memory map pulls the memory from under every open transaction, so these wait until no
thread is inside and keep new ones out meanwhile. A thread that is inside may enter again, or a read made while
visiting a view could wait for itself.
"""

from __future__ import annotations

import threading


class Gate:
    """Use as a context manager to be inside; `seize` to be alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._inside = 0
        self._waiting = 0
        self._seized = False
        self._mine = threading.local()

    def __enter__(self) -> None:
        depth = self._depth
        if not depth:
            with self._changed:
                while self._seized or self._waiting:
                    self._changed.wait()
                self._inside += 1
        self._mine.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        self._mine.depth = self._depth - 1
        if not self._depth:
            with self._changed:
                self._inside -= 1
                if self._waiting:
                    self._changed.notify_all()

    def seize(self, timeout_s: float) -> bool:
        """Wait until nobody is inside and keep everybody out until `release`. Return whether it worked in time.

        It cannot work for a thread that is inside itself, which gets False at once.
        """
        if self._depth:
            return False
        with self._changed:
            self._waiting += 1
            try:
                self._seized = self._changed.wait_for(self._is_empty, timeout_s)
                return self._seized
            finally:
                self._waiting -= 1
                self._changed.notify_all()

    def release(self) -> None:
        """End what `seize` began."""
        with self._changed:
            self._seized = False
            self._changed.notify_all()

    def _is_empty(self) -> bool:
        return not self._inside and not self._seized

    @property
    def _depth(self) -> int:
        depth: int = getattr(self._mine, "depth", 0)
        return depth
