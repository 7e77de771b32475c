"""Branches, tags, HEADs and their reflogs.

HEAD belongs to a session; the nameless session's HEAD says where the store was used last. A session that has none of
its own yet sees that one.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.errors import (
    BranchMovedError,
    InvalidRefNameError,
    RefExistsError,
    RefNotFoundError,
    UnmergedBranchError,
)
from agent_kernel.repository.commits import Kind, ObjectId, hex_of
from agent_kernel.repository.leases import carry_lease, refuse_leased
from agent_kernel.repository.pointers import (
    BRANCHES,
    EPOCH,
    HEADS,
    TAGS,
    HeadRecord,
    LogRecord,
    Move,
    Pointers,
    Ref,
    log_key,
    log_prefix,
    stamp_of_log,
)

if TYPE_CHECKING:
    from agent_kernel.repository.history import History
    from agent_kernel.repository.objects import Objects


# -- what may name a branch or a tag: git's rules, so that names mean the same in both

MAX_BYTES: Final = 200
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")
_UNSEEN: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNING: Final = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_ref_name(name: str) -> str:
    """Return the name if it can name a branch or a tag.

    Raises:
        InvalidRefNameError: git would refuse it, it is longer than 200 bytes, or it holds control characters.
    """
    reason = _objection(name)
    if reason:
        raise InvalidRefNameError(name, reason)
    return name


def check_new_ref_name(name: str) -> str:
    """The same for a name that is being given: `refs/heads/main` is how git writes main, and would look like it.

    Raises:
        InvalidRefNameError: it begins with `refs/`, or as `check_ref_name`.
    """
    if name.startswith("refs/"):
        plain = name.removeprefix("refs/").removeprefix("heads/").removeprefix("tags/")
        raise InvalidRefNameError(name, f"it begins with refs/; say {plain}" if plain else "it begins with refs/")
    return check_ref_name(name)


@functools.lru_cache(maxsize=64)  # each commit asks of its branch
def _objection(name: str) -> str:
    if not name:
        return "it is empty"
    if any(unicodedata.category(char) in _UNSEEN for char in name) or not _TURNING.isdisjoint(name):
        return "it holds control characters"
    if len(name.encode()) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES} bytes"
    if found := _FORBIDDEN.search(name):
        return f"it holds {found[0]!r}" if found[0] != " " else "it holds a space"
    if ".." in name or "@{" in name:
        return f"it holds {'..' if '..' in name else '@{'}, which means something else in git"
    if name in ("@", "HEAD") or name.startswith("-"):
        return "it means something else in git"
    if name.endswith("."):
        return "it ends with a dot"
    return next((reason for part in name.split("/") if (reason := _objection_to_part(part))), "")


def _objection_to_part(part: str) -> str:
    if not part:
        return "it begins or ends with a slash, or holds two in a row"
    if part.startswith("."):
        return "a part of it begins with a dot"
    if part.endswith(".lock"):
        return "a part of it ends with .lock"
    return ""


DEFAULT_BRANCH: Final = "main"
OF_KERNEL: Final = (
    "."  # in the id of a session, between its kernel, if it has one, and what tells it from the next one there
)
ASIDE: Final = "~"  # ids of sessions that work beside others begin so: where they are says nothing of where to go on


class Head(msgspec.Struct, frozen=True):
    """Where a session is: on a branch (whose commit is None before the first), or detached at a commit."""

    branch: str | None
    commit: ObjectId | None


class ReflogEntry(msgspec.Struct, frozen=True):
    """One move of a branch or of HEAD."""

    commit: ObjectId
    time_ns: int
    message: str
    session: str
    left: str = ""  # of HEAD: the branch, or the commit, that it was moved away from


def branch_key(name: str) -> bytes:
    return BRANCHES + name.encode()


def tag_key(name: str) -> bytes:
    return TAGS + name.encode()


def head_key(session: str) -> bytes:
    if "\0" in session or len(session.encode()) > 200:
        raise ValueError(f"a session id has at most 200 bytes and no NUL, not {session!r}")
    return HEADS + session.encode()


def head_log(session: str) -> str:
    """The name of a session's reflog; no branch can be called that."""
    return f"HEAD:{session}"


class Refs:
    """The named commits of one store."""

    def __init__(self, pointers: Pointers, objects: Objects, history: History) -> None:
        self.pointers = pointers
        self._objects = objects
        self._history = history

    def branches(self) -> dict[str, ObjectId]:
        return self._names(BRANCHES)

    def tags(self) -> dict[str, ObjectId]:
        return self._names(TAGS)

    def _names(self, prefix: bytes) -> dict[str, ObjectId]:
        found = self.pointers.all(prefix, Ref)
        return {key[len(prefix) :].decode(): ref.commit for key, ref in found.items()}

    def ref(self, key: bytes) -> ObjectId | None:
        found = self.pointers.get(key, Ref)
        return None if found is None else found.commit

    def known(self) -> tuple[str, ...]:
        """Names to show somebody who asked for one that is not there."""
        return (*self.branches(), *self.tags())

    def head(self, session: str = "") -> Head:
        """Where the session is; a new session is where the store was used last."""
        record = self.head_record(session)
        return Head(DEFAULT_BRANCH, self.ref(branch_key(DEFAULT_BRANCH))) if record is None else self._head(record)

    def head_record(self, session: str) -> HeadRecord | None:
        keys = [head_key(session), HEADS]
        self.pointers.read(keys)
        return self.pointers.get(keys[0], HeadRecord) or self.pointers.get(HEADS, HeadRecord)

    def heads(self) -> dict[str, Head]:
        """HEAD of every session that ever moved it; "" is where the store was used last."""
        found = self.pointers.all(HEADS, HeadRecord)
        return {key[len(HEADS) :].decode(): self._head(record) for key, record in found.items()}

    def last_head(self, kernel: str) -> Head | None:
        """Where the last session of a kernel was; None: there was none."""
        found = self.pointers.all(head_key(kernel + OF_KERNEL), HeadRecord).values()
        return self._head(max(found, key=lambda record: record.stamp)) if found else None

    def _head(self, record: HeadRecord) -> Head:
        if record.branch is None:
            return Head(None, record.commit)
        return Head(record.branch, self.ref(branch_key(record.branch)))

    def move_head(self, session: str, head: Head, message: str) -> None:
        """Put a session on a branch, which need not have a commit yet, or detached on a commit."""
        if head.branch is not None:
            check_ref_name(head.branch)

        def build(move: Move) -> None:
            move.read([EPOCH, head_key(session), HEADS])
            before = move.get(head_key(session), HeadRecord)
            commit = head.commit
            if head.branch is not None:
                ref = move.get(branch_key(head.branch), Ref)
                commit = None if ref is None else ref.commit
            elif commit is None or not self.exists(commit):
                raise RefNotFoundError("HEAD" if commit is None else hex_of(commit), self.known())
            set_head(move, session, head.branch, commit)
            if commit is not None:
                move.log(head_log(session), commit, message, session, _left(move, before, head.branch))

        self.pointers.change(build)

    def drop_head(self, session: str) -> None:
        """Forget where a session was, and its reflog; nothing happens if it was nowhere."""

        def build(move: Move) -> None:
            if move.get(head_key(session), HeadRecord) is not None:
                move.enroll()
                move.set(head_key(session), None)
            for key in self.pointers.keys(log_prefix(head_log(session))):
                move.new[key] = None

        self.pointers.change(build)

    def move_branch(
        self, name: str, to: ObjectId, message: str, expected: ObjectId | None, session: str | None = None
    ) -> None:
        """Point a branch at another commit, if it still points at `expected` (None: is not there yet).

        Args:
            session: whose HEAD is on the branch, so that its reflog shows the move too.

        Raises:
            BranchMovedError: it points elsewhere by now.
        """
        check_ref_name(name)

        def build(move: Move) -> None:
            move.raw(EPOCH)
            ref = move.get(branch_key(name), Ref)
            if (None if ref is None else ref.commit) != expected:
                raise BranchMovedError(name)
            if session is not None:
                set_head(move, session, name, None)
            self._point(move, branch_key(name), ref, to)
            move.log(name, to, message, session or "")
            if session is not None:
                move.log(head_log(session), to, message, session)

        self.pointers.change(build)

    def create_branch(self, name: str, at: ObjectId, force: bool = False, message: str = "") -> None:
        """Make a branch, or with `force` move the one of that name.

        Raises:
            InvalidRefNameError: git would refuse the name.
            RefExistsError: there is one, and `force` is False.
            BranchInUseError: a living session writes to the one there is.
        """
        check_new_ref_name(name)

        def build(move: Move) -> None:
            move.raw(EPOCH)
            ref = move.get(branch_key(name), Ref)
            if ref is not None and not force:
                raise RefExistsError(name)
            if ref is not None:
                refuse_leased(move, name)
            self._point(move, branch_key(name), ref, at)
            move.log(name, at, message or "branch: created", "")

        self.pointers.change(build)

    def create_tag(self, name: str, at: ObjectId, force: bool = False) -> None:
        """Make a tag, or with `force` move the one of that name; raises as `create_branch` does."""
        check_new_ref_name(name)

        def build(move: Move) -> None:
            move.raw(EPOCH)
            ref = move.get(tag_key(name), Ref)
            if ref is not None and not force:
                raise RefExistsError(name)
            self._point(move, tag_key(name), ref, at)

        self.pointers.change(build)

    def delete_tag(self, name: str) -> None:
        def build(move: Move) -> None:
            if move.get(tag_key(name), Ref) is None:
                raise RefNotFoundError(name, self.known())
            move.enroll()
            move.set(tag_key(name), None)

        self.pointers.change(build)

    def delete_branch(self, name: str, force: bool = False) -> None:
        """Delete a branch and its reflog.

        Raises:
            BranchInUseError: a living session writes to it.
            UnmergedBranchError: nothing else reaches some of its commits, and `force` is False.
        """

        def build(move: Move) -> None:
            ref = move.get(branch_key(name), Ref)
            if ref is None:
                raise RefNotFoundError(name, self.known())
            refuse_leased(move, name)
            lost = [] if force else self._history.missing_from(ref.commit, self._others(name))
            if lost:
                raise UnmergedBranchError(name, len(lost))
            move.enroll()
            move.set(branch_key(name), None)
            for key in self.pointers.keys(log_prefix(name)):
                move.new[key] = None

        self.pointers.change(build)

    def rename_branch(self, old: str, new: str, force: bool = False) -> None:
        """Rename a branch with its reflog, its lease and the HEADs that are on it."""
        check_new_ref_name(new)
        if old == new:
            return

        def build(move: Move) -> None:
            ref = move.get(branch_key(old), Ref)
            there = move.get(branch_key(new), Ref)
            if ref is None:
                raise RefNotFoundError(old, self.known())
            if there is not None and not force:
                raise RefExistsError(new)
            refuse_leased(move, new)
            move.enroll()
            for key in list(self.pointers.keys(HEADS)):
                head = move.get(key, HeadRecord)
                if head is not None and head.branch == old:
                    move.set(key, HeadRecord(move.stamp, new, None, head.session))
            carry_lease(move, old, new)
            for key in self.pointers.keys(log_prefix(new)):
                move.new[key] = None
            lines = self.pointers.all(log_prefix(old), LogRecord)
            for key, line in lines.items():
                move.new[key] = None
                move.set(log_key(new, stamp_of_log(key)), line)
            move.set(branch_key(old), None)
            move.set(branch_key(new), Ref(move.stamp, ref.commit))

        self.pointers.change(build)

    def reflog(self, name: str, limit: int | None = None) -> list[ReflogEntry]:
        """The moves of a branch, or of `HEAD:<session>`, newest first."""
        lines = self.pointers.all(log_prefix(name), LogRecord, limit)
        return [
            ReflogEntry(line.commit, stamp_of_log(key), line.message, line.session, line.left)
            for key, line in lines.items()
        ]

    def exists(self, commit: ObjectId) -> bool:
        """Whether the store holds this commit; asked anew, since the cache may know more than the store."""
        return bool(self.pointers.present([Kind.COMMIT + commit]))

    def _point(self, move: Move, key: bytes, ref: Ref | None, at: ObjectId) -> None:
        if not self.exists(at):
            raise RefNotFoundError(hex_of(at), self.known())
        if ref is None:
            move.enroll()
        move.set(key, Ref(move.stamp, at))

    def _others(self, branch: str) -> list[ObjectId]:
        heads = [head.commit for head in self.heads().values() if head.branch is None and head.commit is not None]
        return [id for name, id in self.branches().items() if name != branch] + [*self.tags().values(), *heads]


def set_head(move: Move, session: str, branch: str | None, commit: ObjectId | None) -> None:
    """Within a move, put a session's HEAD somewhere, and note it as where the store was used last."""
    commit = commit if branch is None else None
    here, last = head_key(session), move.get(HEADS, HeadRecord)
    if move.get(here, HeadRecord) is None or last is None:
        move.enroll()
    if session.startswith(ASIDE):
        move.set(here, HeadRecord(move.stamp, branch, commit))
        return
    if here == HEADS:
        move.set(HEADS, HeadRecord(move.stamp, branch, commit))
        return
    if last is None or (last.branch, last.commit, last.session) != (branch, commit, session):
        move.set(HEADS, HeadRecord(move.stamp, branch, commit, session))
    move.set(here, HeadRecord(move.stamp, branch, commit))


def _left(move: Move, before: HeadRecord | None, branch: str | None) -> str:
    before = before or move.get(HEADS, HeadRecord)
    if before is None or (before.branch == branch and branch is not None):
        return ""
    if before.branch is not None:
        return before.branch
    return "" if before.commit is None else hex_of(before.commit)
