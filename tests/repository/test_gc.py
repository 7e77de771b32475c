"""Garbage collection deletes garbage only, whatever happens meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import msgspec
import pytest

from agent_kernel.errors import BranchInUseError, DamagedObjectError, StoreUnavailableError
from agent_kernel.repository import upkeep
from agent_kernel.repository.commits import Blob, Commit, Entry, Kind, Manifest, ObjectId, encode
from agent_kernel.repository.objects import Pieces, Writer, digest_pieces, plan_cuts, read_blob, store_blob
from agent_kernel.repository.refs import Head, Holder, start_of
from agent_kernel.repository.repository import Repository
from agent_kernel.repository.upkeep import collect
from agent_kernel.storage import Store
from tests.support.repositories import AUTHOR, commit_values, detach, keys_of_kind, switch, values_at


def _abandon(repo: Repository, values: dict[str, str | Entry | None]) -> ObjectId:
    """A commit that nothing names any more."""
    base = commit_values(repo, {"base": "kept"})
    repo.create_branch("gone", base)
    switch(repo, "gone")
    lost = commit_values(repo, values)
    switch(repo, "main")
    repo.delete_branch("gone", force=True)
    _forget_reflog(repo)
    return lost


def _forget_reflog(repo: Repository) -> None:
    repo.store.delete_many(list(repo.pointers.keys(b"g/")))


def _large(writer: Writer, buffer: bytes, known: Pieces | None = None) -> tuple[Entry, Blob, Pieces]:
    cuts = plan_cuts(len(buffer))
    blob, pieces = store_blob(writer, buffer, cuts, digest_pieces(buffer, cuts), known)
    manifest = writer.add(Kind.MANIFEST, encode(Manifest(blobs=(blob,), size=len(buffer))))
    return Entry(manifest=manifest), blob, pieces


def _publish(repo: Repository, writer: Writer, entries: dict[str, Entry]) -> ObjectId:
    head = repo.head("s")
    tree = repo.tree_at(head.commit).edit(writer, entries)
    parents = () if head.commit is None else (head.commit,)
    commit = Commit(tree=tree.id, parents=parents, author=AUTHOR, time_ns=1)
    return repo.publish(writer, commit, head=head, session="s", message="")


def test_everything_that_a_ref_reaches_stays(any_repo: Repository) -> None:
    writer = any_repo.writer()
    entry, blob, _ = _large(writer, os.urandom(70 * 262_080))
    tip = _publish(any_repo, writer, {"array": entry})
    commit_values(any_repo, {"a": "1", "b": "2"})
    tagged = commit_values(any_repo, {"a": "3"})
    any_repo.create_tag("v1", tagged)
    before = {kind: keys_of_kind(any_repo, kind) for kind in (b"c", b"t", b"b", b"l", b"m")}
    report = any_repo.gc(grace_s=0)
    assert report.objects_deleted == 0
    assert {kind: keys_of_kind(any_repo, kind) for kind in before} == before
    assert len(read_blob(any_repo.objects, blob)) == blob.size
    assert values_at(any_repo, tagged) == {"a": "3", "array": "", "b": "2"}
    assert any_repo.commit_at(tip).tree


def test_what_nothing_reaches_goes(any_repo: Repository) -> None:
    lost = _abandon(any_repo, {"secret": "x"})
    dry = any_repo.gc(grace_s=0, dry_run=True)
    assert any_repo.commit_at(lost).tree
    report = any_repo.gc(grace_s=0)
    assert report == dry
    assert report.objects_deleted >= 2
    assert report.bytes_freed > 0
    with pytest.raises(DamagedObjectError, match="missing"):
        any_repo.commit_at(lost)
    assert any_repo.verify().is_sound
    tip = any_repo.head("s").commit
    assert values_at(any_repo, tip) == {"base": "kept"}


def test_an_empty_repository_survives_a_collection(repo: Repository) -> None:
    repo.gc(grace_s=0)
    assert list(Repository(repo.store).tree(None).items()) == []
    commit_values(repo, {"a": "1"})


def test_reflogs_and_detached_heads_keep_commits_alive(repo: Repository) -> None:
    first = commit_values(repo, {"a": "1"})
    second = commit_values(repo, {"a": "2"})
    repo.move_branch("main", first, "reset", second)
    repo.gc(grace_s=0)
    assert repo.commit_at(second).tree
    detach(repo, second)
    _forget_reflog(repo)
    repo.gc(grace_s=0)
    assert repo.commit_at(second).tree
    switch(repo, "main")
    _forget_reflog(repo)
    repo.gc(grace_s=0)
    with pytest.raises(DamagedObjectError):
        repo.commit_at(second)


def test_reflog_lines_expire_and_let_go(repo: Repository) -> None:
    first = commit_values(repo, {"a": "1"})
    second = commit_values(repo, {"a": "2"})
    repo.move_branch("main", first, "reset", second, session="s")
    collect(repo, grace_s=0, keep_reflog_s=60)
    assert repo.commit_at(second).tree
    collect(repo, grace_s=0, keep_reflog_s=0)
    assert repo.reflog("main") == []
    with pytest.raises(DamagedObjectError):
        repo.commit_at(second)


def test_garbage_is_seen_once_and_deleted_after_the_grace(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = _abandon(repo, {"a": "1"})
    report = repo.gc(grace_s=100)
    assert report.objects_deleted == 0
    assert report.waiting >= 2
    younger = repo.writer()
    young = younger.add(Kind.SMALL, b"written by a commit in flight")
    younger.flush()
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 50 * 10**9)
    assert repo.gc(grace_s=100).objects_deleted == 0
    monkeypatch.setattr(time, "time_ns", lambda: now + 101 * 10**9)
    report = repo.gc(grace_s=100)
    assert report.objects_deleted >= 2
    assert report.waiting == 1
    with pytest.raises(DamagedObjectError):
        repo.commit_at(lost)
    assert repo.objects.get(Kind.SMALL, young)
    monkeypatch.setattr(time, "time_ns", lambda: now + 202 * 10**9)
    assert repo.gc(grace_s=100).objects_deleted == 1
    assert repo.gc(grace_s=100).waiting == 0


def test_collecting_at_once_is_refused_while_somebody_else_works(repo: Repository) -> None:
    _abandon(repo, {"a": "1"})
    repo.acquire_lease("main", Holder.of_this_process("ours"))
    repo.acquire_lease("side", msgspec.structs.replace(Holder.of_this_process("far"), pid=1, started=start_of(1)))
    with pytest.raises(BranchInUseError, match="session far, process 1"):
        repo.gc(grace_s=0)
    repo.gc(grace_s=3600)


def test_a_commit_that_relied_on_a_collected_chunk_is_refused_and_works_the_second_time(any_repo: Repository) -> None:
    buffer = os.urandom(300_000)
    commit_values(any_repo, {"a": "1"})
    old = any_repo.writer()
    _, _, pieces = _large(old, buffer)
    old.flush()  # in the store, but nothing names it: another session's abandoned work
    writer = any_repo.writer()
    entry, _, _ = _large(writer, buffer, pieces)
    assert Repository(any_repo.store).gc(grace_s=0).objects_deleted >= 2
    tip = any_repo.head("s")
    with pytest.raises(StoreUnavailableError, match="commit again"):
        _publish(any_repo, writer, {"array": entry})
    assert any_repo.head("s") == tip
    writer = any_repo.writer()
    entry, blob, _ = _large(writer, buffer, pieces)
    _publish(any_repo, writer, {"array": entry})
    assert read_blob(any_repo.objects, blob) == buffer
    assert any_repo.verify().is_sound


def test_a_commit_whose_small_objects_were_collected_writes_them_again(any_repo: Repository) -> None:
    commit_values(any_repo, {"a": "1"})
    writer = any_repo.writer()
    definition = writer.add(Kind.DEFINITION, b"def f(): ...")
    manifest = writer.add(Kind.MANIFEST, encode(Manifest(definitions=(definition,))))
    writer.flush()
    other = Repository(any_repo.store)
    assert other.gc(grace_s=0).objects_deleted == 2
    _publish(any_repo, writer, {"f": Entry(manifest=manifest)})
    assert any_repo.objects.get(Kind.DEFINITION, definition)
    assert any_repo.verify().is_sound


@pytest.mark.parametrize("when", ["marked", "measured"])
def test_a_ref_that_appears_during_a_collection_saves_its_commit(
    any_repo: Repository, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    lost = _abandon(any_repo, {"a": "1"})
    other = Repository(any_repo.store)
    rescued: list[ObjectId] = []

    def rescue() -> None:
        if not rescued:
            rescued.append(lost)
            other.create_branch("rescued", lost)

    mark, measure = upkeep.Sweeper.mark, upkeep.measure_stored

    def mark_then_rescue(sweeper: upkeep.Sweeper) -> None:
        mark(sweeper)
        rescue()

    def rescue_then_measure(store: Store, keys: list[bytes]) -> dict[bytes, int]:
        rescue()
        return measure(store, keys)

    if when == "marked":
        monkeypatch.setattr(upkeep.Sweeper, "mark", mark_then_rescue)
    else:
        monkeypatch.setattr(upkeep, "measure_stored", rescue_then_measure)
    report = any_repo.gc(grace_s=0)
    assert report.objects_deleted == 0
    assert values_at(any_repo, any_repo.resolve("rescued")) == {"a": "1", "base": "kept"}
    assert any_repo.verify().is_sound


def test_a_commit_made_during_a_collection_keeps_what_it_found_there(
    any_repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = _abandon(any_repo, {"a": "1", "b": "2"})
    tree = any_repo.commit_at(lost).tree
    other = Repository(any_repo.store)
    head = other.head("s")
    made: list[ObjectId] = []
    measure = upkeep.measure_stored

    def commit_first(store: object, keys: list[bytes]) -> dict[bytes, int]:
        if not made:
            writer = other.writer()
            assert head.commit is not None
            back = Commit(tree=tree, parents=(head.commit,), author=AUTHOR, time_ns=1)
            made.append(other.publish(writer, back, head=head, session="s", message="rollback"))
        return measure(any_repo.store, keys)

    monkeypatch.setattr(upkeep, "measure_stored", commit_first)
    any_repo.gc(grace_s=0)
    assert values_at(any_repo, made[0]) == {"a": "1", "b": "2", "base": "kept"}
    assert any_repo.verify().is_sound


def test_nodes_stored_as_differences_outlive_what_they_differ_from(any_repo: Repository) -> None:
    commit_values(any_repo, {f"name_{number}": "x" * 30 for number in range(40)})
    for step in range(12):
        commit_values(any_repo, {"name_7": f"step {step}"})
    tip = any_repo.head("s").commit
    assert tip is not None
    values = values_at(any_repo, tip)
    tree = any_repo.commit_at(tip).tree
    writer = any_repo.writer()
    alone = Commit(tree=tree, author=AUTHOR, time_ns=1)
    any_repo.publish(writer, alone, head=Head(None, None), session="s", message="", branch="alone")
    any_repo.delete_branch("main", force=True)
    _forget_reflog(any_repo)
    assert any_repo.gc(grace_s=0).objects_deleted > 12
    fresh = Repository(any_repo.store)
    assert values_at(fresh, fresh.resolve("alone")) == values
    assert fresh.verify().is_sound


def test_nothing_is_deleted_where_it_cannot_be_told_what_is_reachable(repo: Repository) -> None:
    tip = commit_values(repo, {"a": "1"})
    repo.store.delete_many([Kind.TREE + repo.commit_at(tip).tree])
    before = repo.store.keys(b"")
    with pytest.raises(DamagedObjectError, match="verify"):
        repo.gc(grace_s=0)
    assert repo.store.keys(b"") == before


def test_progress_is_told(repo: Repository) -> None:
    _abandon(repo, {"a": "1"})
    steps: list[tuple[int, int]] = []
    report = repo.gc(grace_s=0, progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (report.objects_deleted, report.objects_deleted)


def test_collections_just_before_every_attempt_to_publish_do_not_lose_the_commit_itself(
    any_repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_values(any_repo, {"a": "1"})
    other = Repository(any_repo.store)
    swap = any_repo.store.swap
    collections: list[int] = []

    def collect_first(*arguments: Mapping[bytes, bytes]) -> bool:
        monkeypatch.setattr(any_repo.store, "swap", swap)
        if len(collections) < 3:
            garbage = other.writer()
            garbage.add(Kind.SMALL, b"garbage %d" % len(collections))
            garbage.flush()
            collections.append(other.gc(grace_s=0).objects_deleted)
            monkeypatch.setattr(any_repo.store, "swap", collect_first)
        return swap(*arguments)

    writer = any_repo.writer()
    definition = writer.add(Kind.DEFINITION, b"def f(): ...")
    manifest = writer.add(Kind.MANIFEST, encode(Manifest(definitions=(definition,))))
    monkeypatch.setattr(any_repo.store, "swap", collect_first)
    tip = _publish(any_repo, writer, {"f": Entry(manifest=manifest)})
    assert collections[0] == 1
    assert min(collections[1:]) > 1  # the commit was stored, looked like garbage, and was taken
    assert values_at(Repository(any_repo.store), tip)["a"] == "1"
    assert any_repo.verify().is_sound
