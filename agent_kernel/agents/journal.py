"""Where events are kept: an append-only list for each run, beside the history and never rewound.

A key is `e/`, the run's id, NUL, and the event's number; each is written by a swap that expects it to be absent, so that
two processes that go on with one run cannot both write its next event. `e/` keys are no objects: collecting garbage
leaves them alone. Beside them a key `a/` says who drives a run (`holding`), and a run that waits for a person has a key `w/`,
as has one that stopped before it was done, written by the same swaps: whoever lists what waits or stopped, or looks whether
that has changed, need not read how every run of the store stands.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.agents import holding
from agent_kernel.agents.encoding import decode_event, encode_event, spelled_out
from agent_kernel.agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Clarify,
    Event,
    Fail,
    Resumed,
    Success,
    TaskStart,
    Unknown,
)
from agent_kernel.errors import RunBusyError, RunNotFoundError
from agent_kernel.repository.runs import HOLDS

if TYPE_CHECKING:
    from agent_kernel.repository import Holder
    from agent_kernel.storage import Store

__all__ = ["MOVED", "PREFIX", "WAITING", "Journal", "new_run_id", "short_run"]

PREFIX: Final = b"e/"
WAITING: Final = b"w/"
MOVED: Final = b"w!"  # changes whenever a run begins, ends or goes on
_WAITS, _STOPPED = b"\1", b"\2"  # what the key of a run says: it asks a person, or it stopped and can go on
_PAGE: Final = 500


def short_run(run: str) -> str:
    """The part of a run's id that people see and type."""
    return run[-5:]


def new_run_id() -> str:
    """An id that sorts by the time it was made: 11 hex digits of milliseconds, 5 of chance."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(3)[:5]}"


class Journal:
    """The events of all runs in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last_ns = 0

    def append(self, *events: Event, held: bytes | None = None) -> tuple[Event, ...]:
        """Store events as the next ones of their run, all or none, and return them as they were stored.

        Args:
            held: what `hold` gave to whoever drives the run. It is let go where the run comes to rest with the events.

        Raises:
            RunBusyError: somebody else drives the run, or wrote such a number meanwhile.
            StoreError: they are not stored, and must not be shown.
        """
        stamped: list[Event] = []
        for event in events:
            self._last_ns = max(time.time_ns(), self._last_ns + 1)
            stamped.append(msgspec.structs.replace(event, time_ns=self._last_ns))
        try:
            bodies = [encode_event(event) for event in stamped]
        except UnicodeEncodeError:
            stamped = [spelled_out(event) for event in stamped]
            bodies = [encode_event(event) for event in stamped]
        new: dict[bytes, bytes | None] = {
            _key(event.run, event.seq): body for event, body in zip(stamped, bodies, strict=True)
        }
        expected: dict[bytes, bytes | None] = dict.fromkeys(new)
        for marker, mark in _marks_after(stamped).items():
            before = self._store.get_many([marker]).get(marker)
            expected[marker] = None if before is None else bytes(before)
            new[marker] = mark
        run = events[0].run
        hold = holding.key(run)
        expected[hold] = self._free(run) if held is None else held
        if holding.comes_to_rest(stamped[-1]):
            new[hold] = None
        if any(isinstance(event, TaskStart | Resumed | Cancelled | Success | Fail) for event in stamped):
            # Expected to be nothing: runs beside each other are not in each other's way, and the last word will do.
            new[MOVED] = self._last_ns.to_bytes(8, "big")
        if not self._store.swap(expected, new):
            driver = self.driver(run)
            raise RunBusyError(run, "" if driver is None else holding.said(driver))
        return tuple(stamped)

    # -- who drives a run

    def driver(self, run: str) -> Holder | None:
        """Who drives a run now; None: nobody, or a process that died meanwhile."""
        stored = self._store.get_many([holding.key(run)])
        found = next((holding.driver(held) for held in stored.values()), None)
        return found if found is not None and holding.is_alive(found, self._store) else None

    def is_left_behind(self, run: str) -> bool:
        """Whether the process that drove a run ended without letting it go."""
        held = self._store.get_many([holding.key(run)]).get(holding.key(run))
        return held is not None and not holding.is_alive(holding.driver(held), self._store)

    def hold(self, run: str, seq: int) -> bytes:
        """Drive a run from here on, whose next event has this number. What it returns says so, and is for `append`.

        Raises:
            RunBusyError: somebody else drives it, or has gone on with it meanwhile. Nothing was written.
        """
        before = self._free(run)
        held = holding.begin()
        try:
            if self._store.swap({holding.key(run): before, _key(run, seq): None}, {holding.key(run): held}):
                return held
        except BaseException:
            holding.end(held)
            raise
        holding.end(held)
        driver = self.driver(run)
        raise RunBusyError(run, "" if driver is None else holding.said(driver))

    def let_go(self, run: str, held: bytes) -> None:
        """Drive it no more; nothing happens where it was let go already."""
        holding.end(held)
        self._store.swap({holding.key(run): held}, {holding.key(run): None})

    def release(self, run: str, *, elsewhere: bool = False) -> None:
        """Take a run from whoever drives it: what they would add from then on is refused.

        Args:
            elsewhere: only where that is on another machine.
        """
        driver = self.driver(run)
        if driver is not None and (not elsewhere or holding.is_elsewhere(driver)):
            self._store.swap({}, {holding.key(run): None})

    def _free(self, run: str) -> bytes | None:
        """What stands where the driver of a run does, if that is nobody who lives. Raises: RunBusyError."""
        held = self._store.get_many([holding.key(run)]).get(holding.key(run))
        if held is None:
            return None
        driver = holding.driver(held)
        if holding.is_alive(driver, self._store):
            raise RunBusyError(run, holding.said(driver))
        return bytes(held)

    def of(self, run: str, after: int = -1) -> Iterator[Event]:
        """The events of a run in order, from the one behind number `after` on.

        One that cannot be read is an `Unknown` in its place: it costs nothing but itself.
        """
        prefix = _prefix(run)
        last = b"" if after < 0 else _key(run, after)
        while keys := self._store.keys(prefix, last, _PAGE):
            found = self._store.get_many(keys)
            yield from (_decoded(key, found[key]) for key in keys if key in found)
            last = keys[-1]

    def first(self, run: str) -> TaskStart:
        """How a run began.

        Raises:
            RunNotFoundError: there is no such run.
        """
        found = self._store.get_many([_key(run, 0)])
        start = next((_decoded(*one) for one in found.items()), None)
        if not isinstance(start, TaskStart):
            raise RunNotFoundError(run)
        return start

    def starts(self) -> list[TaskStart]:
        """How all runs began, oldest first; of those of which it can be read."""
        found = self._store.get_many([_key(run, 0) for run in self.runs()])
        starts = (_decoded(*one) for one in sorted(found.items()))
        return [start for start in starts if isinstance(start, TaskStart)]

    def runs(self) -> list[str]:
        """The ids of all runs, oldest first."""
        found: list[str] = []
        last = b""
        while keys := self._store.keys(PREFIX, last, 1):
            run = keys[0][len(PREFIX) :].partition(b"\0")[0]
            found.append(run.decode())
            last = PREFIX + run + b"\1"  # behind every event of this run: their keys go on with NUL
        return found

    def waiting(self) -> list[str]:
        """The ids of the runs that wait for a person, to approve a step or to answer, oldest first."""
        return self._marked(_WAITS)

    def stopped(self) -> list[str]:
        """The ids of the runs that stopped before they were done, oldest first: interrupted, at a limit, or with their process.

        Those that went on since are not among them. Stores of earlier releases mark only the last kind.
        """
        held = [key[len(HOLDS) :].decode() for key in self._keys(HOLDS)]
        return sorted({*self._marked(_STOPPED), *(run for run in held if self.driver(run) is None)})

    def _marked(self, mark: bytes) -> list[str]:
        found = self._store.get_many(list(self._keys(WAITING)))
        return sorted(key[len(WAITING) :].decode() for key, stored in found.items() if bytes(stored) == mark)

    def _keys(self, prefix: bytes) -> Iterator[bytes]:
        last = b""
        while keys := self._store.keys(prefix, last, _PAGE):
            yield from keys
            last = keys[-1]

    def find(self, part: str) -> str:
        """The run whose id begins or ends so; "" is the newest one. Ids begin with the time, so they differ at the end.

        Raises:
            RunNotFoundError: there is none, or there are several.
        """
        runs = self.runs()
        fits = runs[-1:] if not part else [run for run in runs if run.startswith(part) or run.endswith(part)]
        if len(fits) != 1:
            raise RunNotFoundError(part, tuple(fits))
        return fits[0]

    def erase(self, run: str) -> None:
        """Forget all that is known of a run."""
        prefix = _prefix(run)
        while keys := self._store.keys(prefix, b"", _PAGE):
            self._store.delete_many(keys)
        self._store.delete_many([WAITING + run.encode(), holding.key(run)])


def _decoded(key: bytes, stored: bytes) -> Event:
    try:
        return decode_event(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        run, _, number = key[len(PREFIX) :].partition(b"\0")
        return Unknown(name="damaged", run=run.decode("utf-8", "replace"), seq=int.from_bytes(number, "big"))


def _marks_after(events: Sequence[Event]) -> dict[bytes, bytes | None]:
    """The keys of the runs that begin to wait or stop with these events, or do neither any more."""
    found: dict[bytes, bytes | None] = {}
    mark: bytes | None
    for event in events:
        match event:
            case ApprovalRequested() | Clarify():
                mark = _WAITS
            case Cancelled(final=False):
                mark = _STOPPED
            case Fail(limit=limit) if limit:
                mark = _STOPPED
            case ApprovalDecided() | Resumed() | Cancelled() | Success() | Fail():
                mark = None
            case _:
                continue
        found[WAITING + event.run.encode()] = mark
    return found


def _prefix(run: str) -> bytes:
    return PREFIX + run.encode() + b"\0"


def _key(run: str, seq: int) -> bytes:
    return _prefix(run) + seq.to_bytes(8, "big")
