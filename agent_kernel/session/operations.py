"""What a session did, so that `undo` and `redo` can go back and forth.

An operation is where the session was before and after it. Reversing one is itself recorded where it happens, so these
lists are put back as they were and shifted by one.
"""

from __future__ import annotations

import msgspec

from agent_kernel.errors import NothingToUndoError
from agent_kernel.repository import Author, Change, Commit, ObjectId, Unsaved, short
from agent_kernel.session.carrying import NOTHING_CARRIED, Carried


class Position(msgspec.Struct, frozen=True):
    """Where a session was: on a branch (or none) at a commit (or before the first), and what was not in memory there."""

    branch: str | None
    commit: ObjectId | None
    absent: Carried = NOTHING_CARRIED

    @property
    def carried(self) -> frozenset[str]:
        """What was not in memory there."""
        return self.absent.names()


class Operation(msgspec.Struct, frozen=True):
    """One thing that undo can reverse.

    Attributes:
        moved: HEAD went elsewhere, and no content was made.
        run: an agent's, as a whole.
        took: what agents had made elsewhere and was taken on: candidates, previews.
        by: whose work it is; None: of several, or nobody knows.
        chat: it took the conversation back and nothing else, so redo reverses it too.
    """

    before: Position
    after: Position
    moved: bool = False
    run: str = ""
    took: tuple[str, ...] = ()
    by: Author | None = None
    chat: bool = False


class Operations(msgspec.Struct):
    """The operations of one session: what undo reverses next, and what redo does again next."""

    done: list[Operation] = msgspec.field(default_factory=list[Operation])
    undone: list[Operation] = msgspec.field(default_factory=list[Operation])
    ended: str = ""  # what ended the chance to redo, if anything did
    begun: str = ""  # what happened before the first of these that undo cannot go behind, if anything did

    def add(self, operation: Operation, what: str) -> None:
        """Something was done; `what` says it in the past tense, for whoever wants to redo after it."""
        self.done.append(operation)
        if self.undone:
            self.ended = f"{what} since the last undo"
            self.undone = []

    def prolong(self, before: Position, after: Position) -> None:
        """What was done last ends here by now: what was stored since changed no variable, and is nothing to undo by itself."""
        if self.done and self.done[-1].after == before:
            self.done[-1] = msgspec.structs.replace(self.done[-1], after=after)

    def last(self, verb: str) -> Operation:
        """What the verb is about.

        Raises:
            NothingToUndoError: there is nothing left.
        """
        found = self.done if verb == "undo" or self.brings_chat_back else self.undone
        if not found:
            raise NothingToUndoError(verb, (self.ended or self.begun) if verb == "redo" else self.begun)
        return found[-1]

    @property
    def brings_chat_back(self) -> bool:
        """Whether redo is about a conversation that was taken back last."""
        return not self.undone and bool(self.done) and self.done[-1].chat

    def shifted(self, verb: str) -> Operations:
        """The same after the verb was done."""
        if verb == "redo" and self.brings_chat_back:
            return Operations(self.done[:-1], ended=self.ended, begun=self.begun)
        if verb == "undo":
            return Operations(self.done[:-1], [*self.undone, self.done[-1]], begun=self.begun)
        return Operations([*self.done, self.undone[-1]], self.undone[:-1], begun=self.begun)

    def renamed(self, old: str, new: str) -> Operations:
        """The same where a branch has another name."""

        def at(position: Position) -> Position:
            return msgspec.structs.replace(position, branch=new) if position.branch == old else position

        def of(operations: list[Operation]) -> list[Operation]:
            return [msgspec.structs.replace(one, before=at(one.before), after=at(one.after)) for one in operations]

        return Operations(of(self.done), of(self.undone), self.ended, self.begun)


# -- what a session answers: what it did, and where it stands

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
