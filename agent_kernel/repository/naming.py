"""Where the names of a store point: HEAD, branches, tags, and what a revision means. With them go leases and settings.

These are the few changing keys of a store. What they point to never changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent_kernel.repository.commits import Commit, ObjectId
from agent_kernel.repository.history import History
from agent_kernel.repository.objects import Objects, Presence
from agent_kernel.repository.refs import (
    RESERVED_SETTINGS,
    SETTINGS,
    Head,
    Holder,
    Leases,
    Move,
    Pointers,
    ReflogEntry,
    Refs,
    head_log,
)

if TYPE_CHECKING:
    from agent_kernel.storage import Store


class _Setting(msgspec.Struct, frozen=True, array_like=True):
    stamp: int
    value: bytes


class Naming:
    """The names of one store. Safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.objects = Objects(store)
        self.pointers = Pointers(store)
        self.presence = Presence()
        self.history = History(self.objects)
        self.refs = Refs(self.pointers, self.objects, self.history)
        self.leases = Leases(self.pointers)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.store.url}>"

    def commit_at(self, id: ObjectId) -> Commit:
        """The commit of this id; raises DamagedObjectError if it is not there."""
        return self.history.commit(id)

    def resolve(self, text: str, session: str = "") -> ObjectId:
        """The commit that a revision names; raises RefNotFoundError or AmbiguousRefError."""
        from agent_kernel.repository.revisions import resolve

        return resolve(self, text, session)

    def branch_meant(self, text: str, session: str = "") -> str | None:
        """The branch that a revision names as a whole (`main`, `HEAD`, `@{-1}`); None: a commit, or nothing."""
        from agent_kernel.repository.revisions import branch_meant

        return branch_meant(self, text, session)

    def _id_of(self, rev: str | ObjectId) -> ObjectId:
        return self.resolve(rev) if isinstance(rev, str) else rev

    # Refs

    def head(self, session: str = "") -> Head:
        """Where a session is, or where the store was used last."""
        return self.refs.head(session)

    def heads(self) -> dict[str, Head]:
        """HEAD of every session that ever moved it; "" is where the store was used last."""
        return self.refs.heads()

    def last_head(self, kernel: str) -> Head | None:
        """Where the last session of a kernel was, by the beginning of its id; None: there was none."""
        return self.refs.last_head(kernel)

    def branches(self) -> dict[str, ObjectId]:
        """The last commit of every branch."""
        return self.refs.branches()

    def tags(self) -> dict[str, ObjectId]:
        """The commit of every tag."""
        return self.refs.tags()

    def create_branch(self, name: str, at: str | ObjectId = "HEAD", force: bool = False) -> None:
        """Make a branch at a commit, or with `force` move the one of that name.

        Raises:
            InvalidRefNameError: git would refuse the name.
            RefExistsError: there is one, and `force` is False.
            BranchInUseError: a living session writes to the one there is.
            RefNotFoundError, AmbiguousRefError: there is no such commit, or several.
        """
        self.refs.create_branch(name, self._id_of(at), force)

    def delete_branch(self, name: str, force: bool = False) -> None:
        """Delete a branch and its reflog.

        Raises:
            RefNotFoundError: there is no such branch.
            BranchInUseError: a living session writes to it.
            UnmergedBranchError: nothing else reaches some of its commits, and `force` is False.
        """
        self.refs.delete_branch(name, force)

    def rename_branch(self, old: str, new: str, force: bool = False) -> None:
        """Rename a branch with its reflog, its lease and the HEADs that are on it.

        Raises:
            RefNotFoundError: there is no such branch. InvalidRefNameError: git would refuse the new name.
            RefExistsError: there is one of the new name, and `force` is False.
        """
        self.refs.rename_branch(old, new, force)

    def create_tag(self, name: str, at: str | ObjectId = "HEAD", force: bool = False) -> None:
        """Make a tag at a commit, or with `force` move the one of that name; raises as `create_branch` does."""
        self.refs.create_tag(name, self._id_of(at), force)

    def delete_tag(self, name: str) -> None:
        """Delete a tag; raises RefNotFoundError if no tag has this name."""
        self.refs.delete_tag(name)

    def move_head(self, session: str, head: Head, message: str) -> None:
        """Put a session on a branch, which need not have a commit yet, or detached on a commit.

        Raises:
            RefNotFoundError: there is no such commit. InvalidRefNameError: no branch can be called that.
        """
        self.refs.move_head(session, head, message)

    def drop_head(self, session: str) -> None:
        """Forget where a session was, and its reflog; nothing happens if it was nowhere."""
        self.refs.drop_head(session)

    def move_branch(
        self, name: str, to: ObjectId, message: str, expected: ObjectId | None, session: str | None = None
    ) -> None:
        """Point a branch at another commit, if it still points at `expected` (None: is not there yet).

        Args:
            session: whose HEAD is on the branch, so that its reflog shows the move too.

        Raises:
            BranchMovedError: it points elsewhere by now.
        """
        self.refs.move_branch(name, to, message, expected, session)

    def head_log(self, session: str = "") -> str:
        """The name of the reflog of a session's HEAD; of the nameless one's, that of the session used last."""
        record = None if session else self.refs.head_record("")
        return head_log(record.session if record else session)

    def reflog(self, name: str, limit: int | None = None) -> list[ReflogEntry]:
        """The moves of a branch, or of `HEAD:<session>`, newest first; `HEAD` is that of the session used last."""
        return self.refs.reflog(self.head_log() if name == "HEAD" else name, limit)

    # Leases and settings

    def acquire_lease(self, branch: str, holder: Holder) -> None:
        """Take a branch's lease, over from a dead holder if need be; raises BranchInUseError if a living one has it."""
        self.leases.acquire(branch, holder)

    def release_lease(self, branch: str, holder: Holder) -> None:
        """Give a branch's lease back; nothing happens if somebody else has it by now."""
        self.leases.release(branch, holder)

    def take_lease_away(self, branch: str) -> Holder | None:
        """Free a branch whose holder cannot be asked from here; see `Leases.take_away`."""
        return self.leases.take_away(branch)

    def lease_of(self, branch: str) -> Holder | None:
        """Who holds a branch, dead or alive; None if nobody does."""
        return self.leases.of(branch)

    def setting(self, name: str) -> bytes | None:
        """A setting of the store, or None."""
        found = self.pointers.get(_setting_key(name), _Setting)
        return None if found is None else found.value

    def set_setting(self, name: str, value: bytes | None) -> None:
        """Set a setting, or remove it."""
        self.pointers.change(lambda move: set_in(move, name, value))


def set_in(move: Move, name: str, value: bytes | None) -> None:
    """Within a move, set a setting, or remove it."""
    move.get(_setting_key(name), _Setting)
    move.set(_setting_key(name), None if value is None else _Setting(move.stamp, value))


def _setting_key(name: str) -> bytes:
    if name in RESERVED_SETTINGS or not name or "\0" in name or len(name.encode()) > 200:
        raise ValueError(f"{name!r} cannot name a setting")
    return SETTINGS + name.encode()
