"""Locks that processes share. A lock is a lease: it ends by itself when its time is over, or its process or machine is gone.

So nobody waits for the dead, and whoever works longer than their lease may find that somebody else has it. `token` grows with
each holder: hand it to what you change under the lock, and let it refuse smaller ones.
"""

from __future__ import annotations

import os
import random
import threading
import time
from typing import TYPE_CHECKING, Final, Self

import msgspec

from agent_kernel.errors import LockHeldError
from agent_kernel.records.collection import Records, is_in_transaction, together
from agent_kernel.records.documents import checks_arguments, require_name, seconds
from agent_kernel.records.schema import Record
from agent_kernel.repository import Holder
from agent_kernel.storage import SupportsLiveness

if TYPE_CHECKING:
    from agent_kernel.repository import Repository

__all__ = ["Lock"]

_CHANCE: Final = random.SystemRandom()  # the program's random numbers stay as they are
_LEAST_WAIT_S: Final = 0.005
_MOST_WAIT_S: Final = 0.1


_OF_THREAD: Final = threading.local()  # `owners`: what this thread has


class _Lease(Record):
    collection = "lock"
    plane = "store"
    keeps_past = False
    owner: str = ""  # drawn by lot; "": it is free
    holder: list[str | int] = []  # noqa: RUF012  # pydantic copies it
    until_ns: int = 0

    def who(self) -> Holder:
        return msgspec.convert(self.holder, Holder)

    def is_over(self, store: object) -> bool:
        return not self.owner or self.until_ns <= time.time_ns() or not self.who().is_alive(store)


@checks_arguments
class Lock:
    """A lock by name, for threads and processes. It cannot be taken twice by one.

    Raises:
        TypeError, ValueError: `lease_s` is not more than 0, or `wait_s` is negative.

    >>> import agent_kernel as ak
    >>> repo = ak.open("memory:")
    >>> with repo.lock("index", lease_s=30) as lock:
    ...     repo.lock("index").acquire(wait_s=0)
    False
    """

    def __init__(self, repo: Repository, name: str, *, lease_s: float = 60.0, wait_s: float | None = None) -> None:
        self.name = require_name(name, "name")
        self.lease_s = seconds(lease_s, "lease_s", is_zero_allowed=False)
        self._wait_s = lease_s if wait_s is None else _wait(wait_s)
        self._records = Records(repo, _Lease)
        self._mine = threading.local()

    def acquire(self, *, wait_s: float | None = None) -> bool:
        """Take the lock; False: others had it all the time.

        Args:
            wait_s: seconds to wait for it; by default what the lock was made with.
        """
        if is_in_transaction():
            raise ValueError("a lock is taken at once, and so not within a transaction")
        until = time.monotonic() + (self._wait_s if wait_s is None else _wait(wait_s))
        pause_s = _LEAST_WAIT_S
        while not self._take():
            remaining_s = until - time.monotonic()
            if remaining_s <= 0:
                return False
            time.sleep(min(pause_s * _CHANCE.uniform(0.5, 1), remaining_s))
            pause_s = min(2 * pause_s, _MOST_WAIT_S)
        return True

    def _take(self) -> bool:
        store = self._records.repo.store
        current: _Lease | None = self._records.get(self.name)
        if current is not None and not current.is_over(store):
            return False
        owner, holder = os.urandom(12).hex(), Holder.of_this_process()
        if isinstance(store, SupportsLiveness):
            store.hold(holder.number)

        def act() -> int:
            found: _Lease | None = self._records.get(self.name)
            if found is not None and not found.is_over(store):
                return 0
            until = time.time_ns() + int(self.lease_s * 1e9)
            holder_fields = msgspec.to_builtins(holder)
            self._records.put(_Lease(id=self.name, owner=owner, holder=holder_fields, until_ns=until))
            return self._records.version(self.name)

        token = together(self._records, act, f"lock: take {self.name}")
        if token:
            self._mine.owner, self._mine.token = owner, token
            _OF_THREAD.__dict__.setdefault("owners", set()).add(owner)
        return bool(token)

    @property
    def token(self) -> int:
        """A number that is larger than that of every earlier holder; 0: this thread does not have the lock."""
        return getattr(self._mine, "token", 0) if self.is_held else 0

    @property
    def is_held(self) -> bool:
        """Whether this thread has the lock, and its time is not over."""
        found: _Lease | None = self._records.get(self.name)
        return self._is_mine(found)

    def holder(self) -> str:
        """Who has it, for people; "": nobody."""
        found: _Lease | None = self._records.get(self.name)
        return "" if found is None or found.is_over(self._records.repo.store) else str(found.who())

    def extend(self, lease_s: float | None = None) -> None:
        """Let the lease begin anew.

        Raises:
            LockHeldError: it was over, and somebody else has the lock, or could have had it.
        """
        for_s = self.lease_s if lease_s is None else seconds(lease_s, "lease_s", is_zero_allowed=False)
        self._set_end(time.time_ns() + int(for_s * 1e9))

    def release(self) -> None:
        """Give the lock back. Nothing happens if it was over."""
        try:
            self._set_end(0)
        except LockHeldError:
            pass
        finally:
            _OF_THREAD.__dict__.setdefault("owners", set()).discard(getattr(self._mine, "owner", ""))
            self._mine.owner, self._mine.token = "", 0

    def _set_end(self, until_ns: int) -> None:
        def act() -> None:
            found: _Lease | None = self._records.get(self.name)
            if found is None or not self._is_mine(found):
                raise LockHeldError("lock", self.name, self.holder())
            owner = found.owner if until_ns else ""
            self._records.put(found.model_copy(update={"owner": owner, "until_ns": until_ns}))

        together(self._records, act, f"lock: {self.name}")

    def _is_mine(self, found: _Lease | None) -> bool:
        mine: str = getattr(self._mine, "owner", "")
        return bool(mine) and found is not None and found.owner == mine and found.until_ns > time.time_ns()

    def __enter__(self) -> Self:
        """Take the lock.

        Raises:
            LockHeldError: somebody else, or this thread, had it all the time.
        """
        if not self.acquire():
            found: _Lease | None = self._records.get(self.name)
            is_here = found is not None and found.owner in _OF_THREAD.__dict__.get("owners", ())
            raise LockHeldError("lock", self.name, self.holder(), is_here)
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _wait(wait_s: float) -> float:
    return wait_s if wait_s == float("inf") else seconds(wait_s, "wait_s")
