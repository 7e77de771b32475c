"""What a session answers: what it did, and where it stands."""

from __future__ import annotations

import msgspec

from agent_kernel.repository import Change, Commit, ObjectId, Unsaved


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
