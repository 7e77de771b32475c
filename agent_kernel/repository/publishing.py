"""Make a commit and move everything that names it, in one swap.

All objects that the commit needs are in the store, or in the swap itself, when the branch moves: garbage collection
changes the epoch whenever it deletes, the swap expects the epoch that the writer began in, and where it has moved on
everything the commit refers to is looked up again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent_kernel.errors import BranchMovedError, StoreUnavailableError
from agent_kernel.repository.commits import Commit, Kind, ObjectId, encode
from agent_kernel.repository.pointers import EPOCH, FORMAT, HEADS, HeadRecord, Move, Ref
from agent_kernel.repository.refs import Head, branch_key, check_ref_name, head_key, head_log, set_head

if TYPE_CHECKING:
    from agent_kernel.repository.objects import Writer
    from agent_kernel.repository.repository import Repository


def publish(
    repo: Repository, writer: Writer, commit: Commit, head: Head, session: str, message: str, branch: str | None
) -> ObjectId:
    """See `Repository.publish`."""
    target = branch if branch is not None else head.branch
    if target is not None:
        check_ref_name(target)
    id = _add_commit(repo, writer, commit)

    def build(move: Move) -> None:
        keys = [EPOCH, FORMAT, head_key(session), HEADS]
        move.read(keys if target is None else [*keys, branch_key(target)])
        move.stamp_format()
        _rely(repo, writer, id, commit, move.raw(EPOCH))
        ref = _expect_unmoved(move, head, session, target, is_new=branch is not None)
        set_head(move, session, target, id)
        if target is not None:
            if ref is None:
                move.enroll()
            move.set(branch_key(target), Ref(move.stamp, id))
            move.log(target, id, message, session)
        move.log(head_log(session), id, message, session)
        move.items = writer.pending()

    repo.pointers.change(build)
    writer.published()
    return id


def store_loose(repo: Repository, writer: Writer, commit: Commit) -> ObjectId:
    """See `Repository.store_loose`."""
    id = _add_commit(repo, writer, commit)
    repo.pointers.change(Move.stamp_format)
    writer.flush()
    return id


def younger_than_parents(repo: Repository, commit: Commit) -> Commit:
    """The commit with its time raised above its parents' where clocks disagree: walks go by time."""
    oldest = max((repo.commit_at(parent).time_ns for parent in commit.parents), default=0)
    return commit if commit.time_ns > oldest else msgspec.structs.replace(commit, time_ns=oldest + 1)


def _add_commit(repo: Repository, writer: Writer, commit: Commit) -> ObjectId:
    commit = younger_than_parents(repo, commit)
    id = writer.add(Kind.COMMIT, encode(commit), decoded=commit)
    for parent in commit.parents:  # or a long session keeps every commit that it made
        repo.objects.supersede(Kind.COMMIT, parent)
    return id


def _expect_unmoved(move: Move, head: Head, session: str, target: str | None, *, is_new: bool) -> Ref | None:
    if target is None:
        record = move.get(head_key(session), HeadRecord)
        if record is not None and (record.branch is not None or record.commit != head.commit):
            raise BranchMovedError("HEAD")
        return None
    ref = move.get(branch_key(target), Ref)
    if (None if ref is None else ref.commit) != head.commit and not (ref is None and is_new):
        raise BranchMovedError(target)
    return ref


def _rely(repo: Repository, writer: Writer, id: ObjectId, commit: Commit, epoch: bytes | None) -> None:
    if epoch == writer.epoch:
        return
    repo.presence.at(epoch)
    from agent_kernel.repository.garbage_collection import missing_for

    repo.objects.forget_cached()
    writer.put_back(epoch, ())
    writer.flush()
    while missing := missing_for(repo.objects, repo.store, id, commit):
        if writer.put_back(epoch, missing):
            reason = "what this commit builds on was collected as garbage meanwhile; commit again"
            raise StoreUnavailableError(repo.store.url, reason)
        writer.flush()
