"""What a session answers: what it did, and where it stands."""

from __future__ import annotations

import msgspec

from agent_kernel.repository import Change, Commit, ObjectId, Unsaved, short

_NAMES = 6  # that a report spells out


class Report(msgspec.Struct, frozen=True):
    """What one operation did. `commit` is None where nothing had to be recorded."""

    commit: ObjectId | None
    record: Commit | None
    branch: str | None
    changed: tuple[Change, ...] = ()
    unsaved: tuple[Unsaved, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    written_bytes: int = 0

    def __repr__(self) -> str:
        """`<Report 3f2a91c4 on main: ~df, +model>`"""
        at = "no commit" if self.commit is None else short(self.commit)
        changed = ", ".join(f"{change.how}{change.name}" for change in self.changed[:_NAMES]) or "no change"
        more = f" and {len(self.changed) - _NAMES} more" if len(self.changed) > _NAMES else ""
        return f"<Report {at} on {self.branch or 'no branch'}: {changed}{more}>"


class Status(msgspec.Struct, frozen=True):
    """Where a session stands. `changed` counts bindings only; `unverified` names what may have changed in place.

    `carried`: variables of before a restart that the branch holds and memory does not.
    """

    branch: str | None
    head: ObjectId | None
    detached: bool
    restart_pending: bool
    names: int
    unverified: tuple[str, ...]
    changed: tuple[Change, ...]
    lost: tuple[Unsaved, ...]
    ignored: tuple[str, ...]
    store_url: str
    store_bytes: int
    carried: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """`<Status on main at 3f2a91c4: 12 bound, 2 not committed>`"""
        at = "no commit yet" if self.head is None else short(self.head)
        where = f"on {self.branch or 'no branch'} at {at}"
        return f"<Status {where}: {self.names:,} bound, {len(self.changed):,} not committed>"
