"""Garbage collection: mark, wait, sweep.

Objects carry no time of writing, so a collection writes down what it finds unreachable, and a later one deletes what
is on that list, is still unreachable, and has been so for the grace. The list holds eight bytes of each id: were two
to agree, one object would be collected younger than it should, which only costs its writer a second write.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.repository.pointers import FORMAT, GARBAGE, LOGS, Move, Stamp, refuse_newer, stamp_of_log
from agent_kernel.repository.runs import let_go
from agent_kernel.repository.sweeping import Progress, Sweeper, stored_sizes

if TYPE_CHECKING:
    from agent_kernel.repository.repository import Repository

KEEP_REFLOG_S: Final = 90 * 86_400.0
_SIGNS = 8
_LOG_SLICE: Final = 1000


@dataclass(frozen=True)
class GcReport:
    """What a collection did, or would have done."""

    objects_deleted: int
    bytes_freed: int
    kept: int  # objects that something reaches
    waiting: int = 0  # unreachable ones that a later collection will delete


class _Garbage(msgspec.Struct, frozen=True, array_like=True):
    stamp: int
    signs: bytes


def collect(
    repo: Repository,
    grace_s: float = 3600.0,
    dry_run: bool = False,
    progress: Progress | None = None,
    keep_reflog_s: float = KEEP_REFLOG_S,
) -> GcReport:
    """See `Repository.gc`."""
    refuse_newer(repo.store, repo.pointers.get(FORMAT, Stamp))
    if grace_s <= 0:
        repo.leases.refuse_others()
    if not dry_run:
        _expire_reflogs(repo, keep_reflog_s)
        let_go(repo)
    sweeper = Sweeper(repo)
    garbage = sweeper.unreachable()
    doomed = garbage if grace_s <= 0 else _old_enough(repo, garbage, grace_s)
    waiting = len(garbage) - len(doomed)
    if dry_run:
        freed = sum(stored_sizes(repo.store, doomed).values())
        return GcReport(len(doomed), freed, len(sweeper.reach.seen), waiting)
    count, freed = sweeper.delete(doomed, progress)
    _write_down(repo, set(garbage) - set(doomed), grace_s)
    return GcReport(count, freed, len(sweeper.reach.seen), waiting)


def _sign(key: bytes) -> bytes:
    return key[1 : 1 + _SIGNS]


def _old_enough(repo: Repository, garbage: list[bytes], grace_s: float) -> list[bytes]:
    listed = repo.pointers.get(GARBAGE, _Garbage)
    if listed is None or time.time_ns() - listed.stamp < grace_s * 1e9:
        return []
    signs = {listed.signs[at : at + _SIGNS] for at in range(0, len(listed.signs), _SIGNS)}
    return [key for key in garbage if _sign(key) in signs]


def _write_down(repo: Repository, garbage: set[bytes], grace_s: float) -> None:
    def build(move: Move) -> None:
        listed = move.get(GARBAGE, _Garbage)
        if not garbage:
            move.set(GARBAGE, None)
        elif listed is None or grace_s <= 0 or time.time_ns() - listed.stamp >= grace_s * 1e9:
            # A list that is still waiting stays, or frequent collections would put off its day for ever.
            move.set(GARBAGE, _Garbage(time.time_ns(), b"".join(sorted(map(_sign, garbage)))))

    repo.pointers.change(build)


def _expire_reflogs(repo: Repository, keep_s: float) -> None:
    oldest = time.time_ns() - int(keep_s * 1e9)
    stale = [key for key in repo.pointers.keys(LOGS) if stamp_of_log(key) < oldest]
    for start in range(0, len(stale), _LOG_SLICE):
        repo.store.swap({}, dict.fromkeys(stale[start : start + _LOG_SLICE]))
