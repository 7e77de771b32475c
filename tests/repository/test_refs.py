"""Branches, tags, HEADs and reflogs."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_kernel.errors import (
    BranchInUseError,
    BranchMovedError,
    InvalidRefNameError,
    RefExistsError,
    RefNotFoundError,
    UnmergedBranchError,
)
from agent_kernel.repository.commits import Commit, address
from agent_kernel.repository.refs import (
    LOGS,
    Head,
    Holder,
    LogRecord,
    Move,
    check_ref_name,
    log_key,
    log_prefix,
    stamp_of_log,
)
from agent_kernel.repository.repository import Repository
from agent_kernel.storage import LmdbStore
from tests.support.repositories import AUTHOR, commit_values, detach, switch, values_at


def test_an_empty_repository_is_on_main_without_a_commit(repo: Repository) -> None:
    assert repo.head("s") == Head("main", None)
    assert repo.branches() == {}
    assert repo.reflog("main") == []


def test_a_commit_moves_branch_and_head_and_their_reflogs_together(any_repo: Repository) -> None:
    first = commit_values(any_repo, {"a": "1"}, message="one")
    second = commit_values(any_repo, {"a": "2"}, message="two")
    assert any_repo.head("s") == any_repo.head() == Head("main", second)
    assert any_repo.branches() == {"main": second}
    for log in ("main", "HEAD:s", "HEAD"):
        assert [(entry.commit, entry.message) for entry in any_repo.reflog(log)] == [(second, "two"), (first, "one")]
    assert any_repo.reflog("main", limit=1)[0].session == "s"


def test_a_commit_stores_one_line_for_the_reflogs_of_its_branch_and_of_head(any_repo: Repository) -> None:
    for step in range(3):
        commit_values(any_repo, {"a": str(step)})
    assert len(list(any_repo.pointers.keys(LOGS))) == 3
    assert any_repo.reflog("HEAD:s") == any_repo.reflog("main")
    detach(any_repo, any_repo.branches()["main"])
    assert [entry.left for entry in any_repo.reflog("HEAD:s")] == ["main", "", "", ""]
    assert [entry.left for entry in any_repo.reflog("main")] == ["", "", ""]


def test_a_reflog_of_head_has_the_moves_of_its_session_alone_the_newest_first(any_repo: Repository) -> None:
    commit_values(any_repo, {"a": "1"}, session="other", message="other 1")
    commit_values(any_repo, {"a": "2"}, message="mine 1")
    any_repo.create_branch("side", commit_values(any_repo, {"a": "3"}, session="other", message="other 2"))
    switch(any_repo, "side")
    commit_values(any_repo, {"b": "1"}, message="mine 2")
    mine = ["mine 2", "checkout: side", "mine 1"]
    assert [entry.message for entry in any_repo.reflog("HEAD:s")] == mine
    for limit in range(4):
        assert [entry.message for entry in any_repo.reflog("HEAD:s", limit)] == mine[:limit]
    assert [entry.message for entry in any_repo.reflog("HEAD:other")] == ["other 2", "other 1"]


def test_a_short_look_at_a_reflog_of_head_finds_moves_behind_many_of_another_session(repo: Repository) -> None:
    mine = commit_values(repo, {"a": "1"}, message="mine")
    for step in range(250):
        commit_values(repo, {"b": str(step)}, session="other")
    assert [(entry.commit, entry.message) for entry in repo.reflog("HEAD:s", 1)] == [(mine, "mine")]
    assert len(repo.reflog("HEAD:other", 240)) == 240


def test_head_tells_of_moves_on_branches_of_any_name(any_repo: Repository) -> None:
    names = ["A", "HEAD-x", "HEAD;x", "HEADS", "a", "a!b", "a/b", "a0", "main/x", "zé"]
    detach(any_repo, commit_values(any_repo, {"a": "1"}, session="other"), session="other")
    detach(any_repo, commit_values(any_repo, {"a": "1"}, message="main"), session="x")
    for name in names:
        any_repo.create_branch(name, "main")
        switch(any_repo, name)
        commit_values(any_repo, {"a": name}, message=name)
    messages = [entry.message for entry in any_repo.reflog("HEAD:s")]
    assert messages[::-2] == ["main", *names]
    assert messages[1::2] == [f"checkout: {name}" for name in reversed(names)]


def test_head_tells_of_the_moves_on_a_branch_that_is_gone(any_repo: Repository) -> None:
    base = commit_values(any_repo, {"a": "1"}, message="base")
    any_repo.create_branch("side", base)
    any_repo.create_branch("over", base)
    for branch in ("side", "over"):
        switch(any_repo, branch)
        commit_values(any_repo, {"a": branch}, message=branch)
    switch(any_repo, "main")
    before = any_repo.reflog("HEAD:s")
    any_repo.rename_branch("side", "kept")
    assert any_repo.reflog("HEAD:s") == before
    any_repo.rename_branch("kept", "over", force=True)
    assert any_repo.reflog("HEAD:s") == before
    any_repo.delete_branch("over", force=True)
    assert any_repo.reflog("HEAD:s") == before
    assert [entry.message for entry in before] == [
        "checkout: main", "over", "checkout: over", "side", "checkout: side", "base"
    ]  # fmt: skip


def test_a_head_tells_nothing_of_one_that_had_its_name_before(any_repo: Repository) -> None:
    commit_values(any_repo, {"a": "1"}, session="other")
    base = commit_values(any_repo, {"a": "2"}, message="before")
    any_repo.create_branch("side", base)
    any_repo.drop_head("s")
    assert any_repo.reflog("HEAD:s") == []
    commit_values(any_repo, {"a": "3"}, message="after")
    assert [entry.message for entry in any_repo.reflog("HEAD:s")] == ["after"]
    switch(any_repo, "side", session="other")
    any_repo.delete_branch("main", force=True)
    assert [entry.message for entry in any_repo.reflog("HEAD:s")] == ["after"]


def test_reflogs_that_an_earlier_release_wrote_twice_are_read_once(any_repo: Repository) -> None:
    first = commit_values(any_repo, {"a": "1"}, message="one")
    second = commit_values(any_repo, {"a": "2"}, message="two")

    def say_again(move: Move) -> None:
        for key, line in any_repo.pointers.all(log_prefix("main"), LogRecord).items():
            move.set(log_key("HEAD:s", stamp_of_log(key)), line)

    any_repo.pointers.change(say_again)
    third = commit_values(any_repo, {"a": "3"}, message="three")
    assert [entry.commit for entry in any_repo.reflog("HEAD:s")] == [third, second, first]
    any_repo.create_branch("side", first)
    switch(any_repo, "side")
    any_repo.delete_branch("main", force=True)
    assert [entry.commit for entry in any_repo.reflog("HEAD:s")] == [first, third, second, first]


def test_a_new_session_is_where_the_store_was_used_last(repo: Repository) -> None:
    commit_values(repo, {"a": "1"}, session="one")
    tip = repo.head("one").commit
    assert repo.head("two") == Head("main", tip)
    assert tip is not None
    detach(repo, tip, session="one")
    assert repo.head("two") == repo.head() == Head(None, tip)
    assert repo.heads() == {"": Head(None, tip), "one": Head(None, tip)}


def test_sessions_keep_their_own_heads(repo: Repository) -> None:
    first = commit_values(repo, {"a": "1"}, session="one")
    repo.create_branch("side", first)
    switch(repo, "side", session="two")
    second = commit_values(repo, {"a": "2"}, session="two")
    assert repo.head("one") == Head("main", first)
    assert repo.head("two") == Head("side", second)
    assert repo.head() == Head("side", second)


def test_who_comes_second_is_told_that_the_branch_moved(any_repo: Repository) -> None:
    commit_values(any_repo, {"a": "1"}, session="one")
    before = any_repo.head("two")
    other = Repository(any_repo.store)
    moved = commit_values(other, {"a": "2"}, session="one")
    writer = any_repo.writer()
    commit = Commit(tree=any_repo.tree(None).id, author=AUTHOR, time_ns=1)
    with pytest.raises(BranchMovedError, match="main"):
        any_repo.publish(writer, commit, head=before, session="two", message="")
    assert any_repo.branches() == {"main": moved}
    assert any_repo.reflog("HEAD:two") == []


def test_what_was_remembered_of_refs_is_not_believed_against_another_process(any_repo: Repository) -> None:
    commit_values(any_repo, {"a": "1"}, session="one")
    other = Repository(any_repo.store)
    commit_values(other, {"a": "2"}, session="one")
    third = commit_values(any_repo, {"a": "3"}, session="one")
    assert any_repo.branches() == {"main": third}
    assert len(list(any_repo.log(third))) == 3


def test_eight_threads_on_one_branch_lose_no_commit(tmp_path: Path) -> None:
    gate = Barrier(8)
    store = LmdbStore(tmp_path / "store")
    commit_values(Repository.open(store), {"start": "0"}, session="0")

    def work(number: int) -> None:
        repo = Repository.open(store)
        gate.wait()
        for step in range(10):
            while True:
                try:
                    commit_values(repo, {f"{number}.{step}": "x"}, session=str(number))
                    break
                except BranchMovedError:
                    pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    repo = Repository.open(store)
    tip = repo.head().commit
    assert tip is not None
    assert len(list(repo.log(tip))) == 81
    assert len(values_at(repo, tip)) == 81
    assert len(repo.reflog("main")) == 81


def test_a_branch_is_made_renamed_and_deleted(any_repo: Repository) -> None:
    tip = commit_values(any_repo, {"a": "1"})
    any_repo.create_branch("try", tip)
    with pytest.raises(RefExistsError, match="try"):
        any_repo.create_branch("try", tip)
    any_repo.rename_branch("try", "kept")
    assert any_repo.branches() == {"kept": tip, "main": tip}
    assert [entry.message for entry in any_repo.reflog("kept")] == ["branch: created"]
    any_repo.delete_branch("kept")
    assert any_repo.branches() == {"main": tip}
    assert any_repo.reflog("kept") == []
    with pytest.raises(RefNotFoundError, match="main"):
        any_repo.delete_branch("kept")


def test_renaming_takes_heads_and_leases_along(repo: Repository) -> None:
    tip = commit_values(repo, {"a": "1"})
    holder = Holder.of_this_process("s")
    repo.acquire_lease("main", holder)
    repo.rename_branch("main", "trunk")
    assert repo.head("s") == repo.head() == Head("trunk", tip)
    assert repo.lease_of("trunk") == holder
    assert repo.lease_of("main") is None
    assert commit_values(repo, {"a": "2"}) == repo.branches()["trunk"]


def test_deleting_a_branch_that_alone_holds_commits_needs_force(repo: Repository) -> None:
    base = commit_values(repo, {"a": "1"})
    repo.create_branch("side", base)
    switch(repo, "side")
    commit_values(repo, {"a": "2"})
    side = commit_values(repo, {"a": "3"})
    switch(repo, "main")
    with pytest.raises(UnmergedBranchError, match="2 commits"):
        repo.delete_branch("side")
    repo.create_tag("keep", side)
    repo.delete_branch("side")
    repo.create_branch("side", side)
    repo.delete_tag("keep")
    repo.delete_branch("side", force=True)
    assert repo.branches() == {"main": base}


def test_a_branch_in_use_is_neither_deleted_nor_moved_by_force(repo: Repository) -> None:
    tip = commit_values(repo, {"a": "1"})
    repo.create_branch("busy", tip)
    repo.acquire_lease("busy", Holder.of_this_process("other"))
    with pytest.raises(BranchInUseError, match="session other"):
        repo.delete_branch("busy", force=True)
    with pytest.raises(BranchInUseError):
        repo.create_branch("busy", tip, force=True)
    repo.release_lease("busy", Holder.of_this_process("other"))
    repo.delete_branch("busy")


def test_tags_do_not_move_unless_forced(repo: Repository) -> None:
    first = commit_values(repo, {"a": "1"})
    second = commit_values(repo, {"a": "2"})
    repo.create_tag("v1", first)
    with pytest.raises(RefExistsError):
        repo.create_tag("v1", second)
    assert repo.tags() == {"v1": first}
    repo.create_tag("v1", second, force=True)
    assert repo.tags() == {"v1": second}
    repo.delete_tag("v1")
    with pytest.raises(RefNotFoundError):
        repo.delete_tag("v1")


def test_no_ref_is_made_to_a_commit_that_is_not_there(repo: Repository) -> None:
    for make in (repo.create_branch, repo.create_tag):
        with pytest.raises(RefNotFoundError):
            make("ghost", address(b"nothing"))
    with pytest.raises(RefNotFoundError):
        detach(repo, address(b"nothing"))
    assert not repo.branches()
    assert not repo.tags()
    assert not repo.heads()


def test_a_branch_moves_only_from_where_it_was_expected(repo: Repository) -> None:
    first = commit_values(repo, {"a": "1"})
    second = commit_values(repo, {"a": "2"})
    with pytest.raises(BranchMovedError):
        repo.move_branch("main", first, "reset", first)
    repo.move_branch("main", first, "reset", second, session="s")
    assert repo.head("s") == Head("main", first)
    assert repo.reflog("HEAD:s", limit=1)[0].message == "reset"
    repo.move_branch("fresh", second, "made", None)
    assert repo.branches() == {"fresh": second, "main": first}


def test_a_bad_name_changes_nothing(repo: Repository) -> None:
    tip = commit_values(repo, {"a": "1"})
    for act in (
        lambda: repo.create_branch("a..b", tip),
        lambda: repo.create_tag("a b", tip),
        lambda: repo.rename_branch("main", "-x"),
        lambda: switch(repo, "HEAD"),
        lambda: commit_values(repo, {"a": "2"}, branch="x" * 201),
    ):
        with pytest.raises(InvalidRefNameError):
            act()
    assert repo.branches() == {"main": tip}


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("ab./-@{}~^: *[\\?é\x01\x7f"), max_size=8) | st.text(max_size=4))
@example("a.lock")
@example("a.lock/b")
@example("@")
def test_git_agrees_on_names_of_branches(name: str) -> None:
    try:
        accepted = check_ref_name(name) == name
    except InvalidRefNameError:
        accepted = False
    if any(ord(char) == 0 or 0xD800 <= ord(char) <= 0xDFFF for char in name):
        assert not accepted  # cannot even be asked for
        return
    asked = ["git", "check-ref-format", "--branch", name]
    git = subprocess.run(asked, cwd="/", capture_output=True, check=False).returncode == 0
    assert git or not accepted
    if git and not accepted:  # we refuse what cannot be seen, too
        assert not all(char.isprintable() for char in name) or name in ("-", "@")  # which it expands


def test_every_reason_to_refuse_a_name_is_told() -> None:
    for name, reason in {
        "": "empty",
        "a\tb": "control",
        "a\u202eb": "control",
        "é" * 101: "200 bytes",
        "a:b": "':'",
        "a b": "a space",
        "a..b": "..",
        "-a": "something else",
        "a.": "dot",
        "a//b": "slash",
        ".a": "begins with a dot",
        "a.lock": ".lock",
    }.items():
        with pytest.raises(InvalidRefNameError, match=reason.replace(".", r"\.")):
            check_ref_name(name)


def test_a_session_id_must_fit_into_a_key(repo: Repository) -> None:
    with pytest.raises(ValueError, match="session id"):
        repo.head("x" * 201)
