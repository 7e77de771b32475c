"""Pruning and forgetting: another history, and nothing left of the old one."""

from __future__ import annotations

import msgspec
import pytest

from agent_kernel.errors import BranchInUseError, DamagedObjectError, NameNotFoundError, RefNotFoundError
from agent_kernel.repository.commits import Cell, Change, Kind, ObjectId, Unsaved, address, hex_of, short
from agent_kernel.repository.refs import Holder, start_of
from agent_kernel.repository.repository import Repository
from agent_kernel.repository.rewrite import Retention
from tests.support.repositories import commit_values, detach, entry_of, group_of, keys_of_kind, switch, values_at

SECRET = "hunter2-hunter2-hunter2"


def _line(repo: Repository, count: int) -> list[ObjectId]:
    return [
        commit_values(repo, {f"x{number}": str(number)}, changed=(Change(f"x{number}", "+", 1),))
        for number in range(count)
    ]


def _tip(repo: Repository, name: str = "main") -> ObjectId:
    return repo.branches()[name]


def _is_gone(repo: Repository, id: ObjectId) -> bool:
    with pytest.raises(RefNotFoundError):
        repo.resolve(hex_of(id))
    with pytest.raises(DamagedObjectError):
        Repository(repo.store).commit_at(id)
    return True


def _holds(repo: Repository, text: str) -> bool:
    return any(
        text.encode() in repo.objects.fetch([key])[key].payload
        for kind in (b"c", b"t", b"m", b"b", b"s", b"d")
        for key in repo.pointers.keys(kind)
    )


def test_pruning_keeps_the_last_commits_and_the_state(any_repo: Repository) -> None:
    old = _line(any_repo, 10)
    values = values_at(any_repo, old[-1])
    dry = any_repo.prune(Retention(keep_last=3), dry_run=True)
    assert _tip(any_repo) == old[-1]
    report = any_repo.prune(Retention(keep_last=3))
    assert (report.kept, report.dropped) == (dry.kept, dry.dropped) == (3, 7)
    kept = list(any_repo.log(_tip(any_repo)))
    assert [commit.time_ns for _, commit in kept] == sorted((commit.time_ns for _, commit in kept), reverse=True)
    assert len(kept) == 3
    assert values_at(any_repo, _tip(any_repo)) == values
    assert all(_is_gone(any_repo, id) for id in old)
    assert any_repo.head("s").commit == report.moved[old[-1]]
    assert any_repo.verify().is_sound


def test_a_kept_commit_says_what_changed_since_the_one_before_it(repo: Repository) -> None:
    _line(repo, 6)
    repo.prune(Retention(keep_last=1))
    (commit,) = [commit for _, commit in repo.log(_tip(repo))]
    assert {change.name for change in commit.changed} == {f"x{number}" for number in range(6)}
    assert commit.parents == ()


def test_tagged_named_and_young_commits_are_kept(repo: Repository) -> None:
    old = _line(repo, 3)
    named = commit_values(repo, {"n": "1"}, message="before the experiment")
    _line(repo, 3)
    repo.create_tag("v1", old[1])
    report = repo.prune(Retention(keep_last=1))
    assert report.kept == 3
    messages = [commit.message for _, commit in repo.log(_tip(repo))]
    assert messages == ["", "before the experiment", ""]
    assert values_at(repo, repo.tags()["v1"]) == {"x0": "0", "x1": "1"}
    assert _is_gone(repo, named)
    assert repo.prune(Retention(keep_days=10_000)).dropped == 0


def test_the_reasons_for_what_is_kept_add_up(repo: Repository) -> None:
    old = _line(repo, 5)
    commit_values(repo, {"n": "1"}, message="before the experiment")
    _line(repo, 3)
    repo.create_tag("v1", old[1])
    for dry in (True, False):
        report = repo.prune(Retention(keep_last=2), dry_run=dry)
        assert report.reasons == {"newest": 2, "tagged": 1, "named": 1}
        assert (report.kept, report.dropped) == (4, 5)


def test_a_message_that_nobody_typed_keeps_no_commit(repo: Repository) -> None:
    _line(repo, 2)
    commit_values(repo, {"n": "1"}, message="undo of [1] x", kind="undo")
    commit_values(repo, {"n": "2"}, message="changes that no cell had committed yet")
    commit_values(repo, {"n": "3"}, message="state of ada: set city", kind="records")
    _line(repo, 2)
    assert repo.prune(Retention(keep_last=1)).kept == 1


def test_what_an_undo_said_speaks_of_the_new_commit(repo: Repository) -> None:
    old = _line(repo, 3)
    commit_values(repo, {"n": "1"}, message=f"undo of {short(old[2])} [3] x", kind="undo", restores=old[2])
    repo.prune(Retention(keep_last=2))
    (_, undo), (before, _) = repo.log(_tip(repo))
    assert undo.message == f"undo of {short(before)} [3] x"


def test_a_policy_may_let_tags_go(repo: Repository) -> None:
    old = _line(repo, 4)
    repo.create_tag("v1", old[1])
    repo.prune(Retention(keep_last=2, keep_tagged=False))
    assert repo.tags() == {}
    assert len(list(repo.log(_tip(repo)))) == 2


def test_pruning_keeps_the_shape_of_merges(repo: Repository) -> None:
    base = _line(repo, 3)[-1]
    repo.create_branch("side", base)
    ours = [commit_values(repo, {"o": str(number)}) for number in range(3)][-1]
    switch(repo, "side")
    theirs = [commit_values(repo, {"t": str(number)}) for number in range(3)][-1]
    switch(repo, "main")
    commit_values(repo, {"t": "2"}, parents=[ours, theirs], message="merge")
    repo.prune(Retention(keep_last=2))
    ((_, merge), *_) = repo.log(_tip(repo))
    assert merge.message == "merge"
    assert [values_at(repo, parent).get("t") for parent in merge.parents] == [None, "2"]
    assert repo.verify().is_sound


def test_reflogs_follow_what_is_kept_and_drop_the_rest(repo: Repository) -> None:
    _line(repo, 5)
    repo.prune(Retention(keep_last=2))
    assert [entry.commit for entry in repo.reflog("main")] == [id for id, _ in repo.log(_tip(repo))]


def test_pruning_nothing_changes_nothing(repo: Repository) -> None:
    tip = _line(repo, 3)[-1]
    report = repo.prune(Retention(keep_last=100))
    assert (report.dropped, report.moved, report.objects_deleted) == (0, {}, 0)
    assert _tip(repo) == tip


def test_a_forgotten_name_is_nowhere_any_more(any_repo: Repository) -> None:
    first = commit_values(any_repo, {"a": "1"}, message="first")
    second = commit_values(
        any_repo,
        {"token": SECRET},
        cell=Cell("token = input()"),
        changed=(Change("token", "+", 9),),
        unsaved=(Unsaved("token", "str", "x"),),
    )
    third = commit_values(any_repo, {"a": "2"}, restores=second)
    any_repo.create_tag("v1", third)
    detach(any_repo, second, session="other")
    report = any_repo.forget(["token"])
    assert not _holds(any_repo, SECRET)
    assert _is_gone(any_repo, second)
    assert _is_gone(any_repo, third)
    tip = _tip(any_repo)
    assert any_repo.tags() == {"v1": tip}
    assert values_at(any_repo, tip) == {"a": "2"}
    log = list(any_repo.log(tip))
    assert [id for id, _ in log] == [report.moved[third], report.moved[second], first]
    assert not log[1][1].changed
    assert not log[1][1].unsaved
    assert log[0][1].restores == report.moved[second]
    assert any_repo.head("other").commit == report.moved[second]
    assert report.mentioned_in == (report.moved[second],)
    assert any_repo.reflog("main")[0].commit == tip
    assert any_repo.verify().is_sound


def test_commits_from_before_a_forgotten_name_keep_their_ids(repo: Repository) -> None:
    first = commit_values(repo, {"a": "1"})
    commit_values(repo, {"token": SECRET})
    repo.forget(["token"])
    assert [id for id, _ in repo.log(_tip(repo))][-1] == first


def test_undone_commits_with_a_forgotten_name_go_too(repo: Repository) -> None:
    first = commit_values(repo, {"a": "1"})
    undone = commit_values(repo, {"token": SECRET})
    repo.move_branch("main", first, "reset", undone)
    with pytest.raises(NameNotFoundError):
        repo.forget(["token"])  # no ref reaches it
    commit_values(repo, {"token": SECRET + "!"})
    repo.forget(["token"])
    assert not _holds(repo, SECRET)
    assert _is_gone(repo, undone)


def test_names_that_hold_the_same_value_are_named(repo: Repository) -> None:
    commit_values(repo, {**group_of(SECRET, ["token", "copy"]), "other": entry_of(SECRET)})
    assert repo.forget(["token"]).shared_with == ("copy",)


def test_several_names_and_commits_go_in_one_rewriting(any_repo: Repository) -> None:
    first = commit_values(any_repo, {"a": "1"})
    bad = commit_values(any_repo, {"b": "2"}, changed=(Change("b", "+", 1),))
    changed = (Change("token", "+", 9), Change("c", "+", 1))
    last = commit_values(any_repo, {"token": SECRET, "c": "3"}, changed=changed)
    report = any_repo.forget(["token", "a"], [bad])
    assert not _holds(any_repo, SECRET)
    assert _is_gone(any_repo, bad)
    history = list(any_repo.log(_tip(any_repo)))
    assert [id for id, _ in history] == [report.moved[last], report.moved[first]]
    assert [change.name for change in history[0][1].changed] == ["b", "c"]
    assert any_repo.verify().is_sound


def test_of_several_names_all_are_forgotten_or_none(repo: Repository) -> None:
    tip = commit_values(repo, {"a": "1", "b": "2"})
    with pytest.raises(NameNotFoundError, match="never"):
        repo.forget(["a", "never", "b"])
    with pytest.raises(RefNotFoundError):
        repo.forget(["a"], [address(b"nothing")])
    assert _tip(repo) == tip


def test_a_name_that_never_was_cannot_be_forgotten(repo: Repository) -> None:
    tip = commit_values(repo, {"a": "1"})
    with pytest.raises(NameNotFoundError, match="never"):
        repo.forget(["never"])
    assert _tip(repo) == tip


def test_a_forgotten_commit_leaves_its_children_to_its_parents(any_repo: Repository) -> None:
    ids = _line(any_repo, 4)
    values = values_at(any_repo, ids[3])
    any_repo.create_tag("bad", ids[1])
    report = any_repo.forget(commits=[ids[1]])
    assert _is_gone(any_repo, ids[1])
    assert any_repo.tags() == {}
    log = [id for id, _ in any_repo.log(_tip(any_repo))]
    assert log == [report.moved[ids[3]], report.moved[ids[2]], ids[0]]
    assert values_at(any_repo, log[0]) == values
    assert any_repo.verify().is_sound


def test_forgetting_the_last_commit_moves_the_branch_back(repo: Repository) -> None:
    ids = _line(repo, 2)
    repo.forget(commits=[ids[1]])
    assert repo.head("s").commit == ids[0]
    repo.forget(commits=[ids[0]])
    assert repo.branches() == {}
    assert repo.head("s").commit is None
    assert commit_values(repo, {"a": "1"})
    with pytest.raises(RefNotFoundError):
        repo.forget(commits=[address(b"nothing")])


def test_nothing_is_rewritten_under_somebody_elses_feet(repo: Repository) -> None:
    ids = _line(repo, 3)
    repo.acquire_lease("side", msgspec.structs.replace(Holder.of_this_process("far"), pid=1, started=start_of(1)))
    for act in (
        lambda: repo.prune(Retention(keep_last=1)),
        lambda: repo.forget(["x1"]),
        lambda: repo.forget(commits=[ids[0]]),
    ):
        with pytest.raises(BranchInUseError):
            act()
    assert _tip(repo) == ids[2]


def test_fields_of_a_newer_release_survive_a_rewrite(repo: Repository) -> None:
    commit_values(repo, {"token": SECRET})
    tip = commit_values(repo, {"a": "1"})
    fields = msgspec.msgpack.decode(repo.objects.get(Kind.COMMIT, tip))
    fields["future"] = ["something"]
    writer = repo.writer()
    newer = writer.add(Kind.COMMIT, msgspec.msgpack.encode(fields))
    writer.flush()
    repo.move_branch("main", newer, "test", tip)
    assert repo.commit_at(newer).parents  # unknown fields do not disturb
    repo.forget(["token"])
    assert msgspec.msgpack.decode(repo.objects.get(Kind.COMMIT, _tip(repo)))["future"] == ["something"]


def test_a_rewrite_leaves_no_garbage(repo: Repository) -> None:
    _line(repo, 8)
    repo.prune(Retention(keep_last=2))
    assert repo.gc(grace_s=0).objects_deleted == 0
    assert len(keys_of_kind(repo)) == 2
