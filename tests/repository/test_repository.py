"""Opening, settings, statistics and stored formats."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_kernel import repository
from agent_kernel.errors import NewerFormatError, NotAStoreError
from agent_kernel.repository.commits import (
    Author,
    Cell,
    Change,
    Commit,
    Entry,
    Kind,
    Manifest,
    address,
    decode_commit,
    decode_entry,
    encode,
    hex_of,
)
from agent_kernel.repository.refs import FORMAT, FORMAT_VERSION, Stamp
from agent_kernel.repository.repository import Repository
from agent_kernel.repository.rewrite import Retention
from agent_kernel.storage import MemoryStore, Store
from tests.support.repositories import commit_values, entry_of, group_of


def test_every_public_name_is_there() -> None:
    for name in repository.__all__:
        assert getattr(repository, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        repository.nothing_like_it  # noqa: B018


def test_a_path_is_opened_made_and_opened_again(tmp_path: Path) -> None:
    with Repository.open(tmp_path / "store") as repo:
        tip = commit_values(repo, {"a": "1"})
    with Repository.open(f"lmdb://{tmp_path / 'store'}", create=False) as repo:
        assert repo.branches() == {"main": tip}


def test_a_store_that_is_not_there_is_not_made_unasked(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        Repository.open(tmp_path / "store", create=False)
    with pytest.raises(NotAStoreError, match="empty"):
        Repository.open(MemoryStore(), create=False)


def test_a_store_of_something_else_is_left_alone() -> None:
    store = MemoryStore()
    store.put_many({b"somebody's": b"data"})
    with pytest.raises(NotAStoreError):
        Repository.open(store)
    assert store.keys(b"") == [b"somebody's"]
    store.put_many({FORMAT: b"\xc1"})
    with pytest.raises(NotAStoreError, match="cannot be read"):
        Repository.open(store)


def test_a_store_of_a_newer_release_says_so() -> None:
    store = MemoryStore()
    _stamp(store, FORMAT_VERSION + 1)
    with pytest.raises(NewerFormatError, match=f"format {FORMAT_VERSION + 1}"):
        Repository.open(store)


def test_the_first_commit_in_an_older_store_notes_its_format(any_repo: Repository) -> None:
    commit_values(any_repo, {"a": "1"})
    _stamp(any_repo.store, 1)
    repo = Repository.open(any_repo.store)
    repo.create_tag("v1", repo.branches()["main"])
    repo.gc(grace_s=0)
    assert _format_of(repo.store) == 1  # an earlier release may go on with what it knows
    commit_values(repo, {"a": "2"})
    assert _format_of(repo.store) == FORMAT_VERSION


def test_a_commit_that_no_ref_names_notes_the_format_too(repo: Repository) -> None:
    _stamp(repo.store, 1)
    again = Repository(repo.store)
    writer = again.writer()
    tree = again.tree(None).edit(writer, {"a": entry_of("1")})
    again.store_loose(writer, Commit(tree=tree.id, author=Author("x"), time_ns=1))
    assert _format_of(repo.store) == FORMAT_VERSION


def test_a_store_that_a_newer_release_wrote_to_meanwhile_is_left_alone(any_repo: Repository) -> None:
    repo = any_repo
    commit_values(repo, {"a": "1", "b": "1"})
    commit_values(repo, {"a": "2"})
    repo.store.put_many({Kind.SMALL + address(b"of a newer release"): b"\x01\x00of a newer release"})
    _stamp(repo.store, FORMAT_VERSION + 1)
    before = repo.store.get_many(repo.store.keys(b""))
    for write in (
        lambda: commit_values(repo, {"a": "3"}),
        lambda: repo.gc(grace_s=0),
        lambda: repo.gc(),
        lambda: repo.prune(Retention(keep_last=1)),
        lambda: repo.forget(["b"]),
    ):
        with pytest.raises(NewerFormatError, match=f"has format {FORMAT_VERSION + 1}.*upgrade"):
            write()
        assert before.items() <= repo.store.get_many(repo.store.keys(b"")).items()
    assert repo.show("main").parents  # and what is known can be read


def test_a_newer_release_may_come_while_garbage_is_collected(
    any_repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    garbage = Kind.SMALL + address(b"garbage")
    any_repo.store.put_many({garbage: b"\x01\x00garbage"})
    swap = any_repo.store.swap

    def late(*args: Any) -> bool:
        monkeypatch.undo()
        _stamp(any_repo.store, FORMAT_VERSION + 1)
        return swap(*args)

    monkeypatch.setattr(any_repo.store, "swap", late)
    with pytest.raises(NewerFormatError):
        any_repo.gc(grace_s=0)
    assert any_repo.store.get_many([garbage])


def _stamp(store: Store, number: int) -> None:
    assert store.swap({}, {FORMAT: msgspec.msgpack.encode([1, number, "more"])})


def _format_of(store: Store) -> int:
    return msgspec.msgpack.decode(store.get_many([FORMAT])[FORMAT], type=Stamp).number


def test_two_may_open_a_new_store_at_once() -> None:
    store = MemoryStore()
    repos = [Repository.open(store), Repository.open(store)]
    commit_values(repos[0], {"a": "1"})
    assert repos[1].branches().keys() == {"main"}


def test_settings_are_kept_and_removed(any_repo: Repository) -> None:
    assert any_repo.setting("theme") is None
    any_repo.set_setting("theme", b"dark")
    any_repo.set_setting("theme", b"light")
    assert Repository(any_repo.store).setting("theme") == b"light"
    any_repo.set_setting("theme", None)
    assert any_repo.setting("theme") is None
    for name in ("format", "epoch", "gc", "", "a\0b"):
        with pytest.raises(ValueError, match="setting"):
            any_repo.set_setting(name, b"")


def test_statistics_count_what_is_there(any_repo: Repository) -> None:
    commit_values(any_repo, {"a": "12345", "\0class:C": "x"})
    commit_values(any_repo, {**group_of("123", ["b", "c"]), "d": entry_of("12345")})
    stats = any_repo.stats("s")
    assert (stats.commits, stats.names, stats.branches, stats.tags) == (2, 4, 1, 0)
    assert stats.head_bytes == 5 + 3 + 5 + 1
    assert stats.objects["commit"] == 2
    assert stats.stored_bytes == sum(stats.stored.values()) > 100
    assert stats.stored["chunk"] == 0
    assert stats.disk_bytes is not None
    assert stats.disk_bytes > stats.stored_bytes


def test_a_commit_is_one_swap_and_little_reading(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_values(repo, {f"x{number}": "1" for number in range(100)})
    calls: list[str] = []
    for name in ("get_many", "put_many", "swap", "keys", "present", "view_many"):
        monkeypatch.setattr(repo.store, name, _counted(getattr(repo.store, name), name, calls))
    head = repo.head("s")
    assert head.commit is not None
    calls.clear()
    writer = repo.writer()
    tree = repo.tree_at(head.commit).edit(writer, {"x7": entry_of("2")})
    commit = Commit(tree=tree.id, parents=(head.commit,), author=Author("anna"), time_ns=1)
    repo.publish(writer, commit, head=head, session="s", message="")
    assert calls == ["get_many", "swap"]


def _counted(call: Callable[..., object], name: str, calls: list[str]) -> Callable[..., object]:
    def counted(*arguments: object, **keywords: object) -> object:
        calls.append(name)
        return call(*arguments, **keywords)

    return counted


def test_tiny_commits_take_less_than_two_kilobytes_each(tmp_path: Path) -> None:
    with Repository.open(tmp_path / "store") as repo:
        for number in range(500):
            cell = Cell(f"x{number} = compute({number})".ljust(60), id="a1b2c3d4", number=number, duration_s=0.01)
            value = Entry(random.Random(number).randbytes(40))
            commit_values(repo, {f"x{number}": value}, cell=cell, kind="cell", changed=(Change(f"x{number}", "+", 40),))
        size = (tmp_path / "store" / "data.mdb").stat().st_size
    assert size / 500 < 2048


@pytest.mark.parametrize("size", [60_000, 70_000, 10_000_000])
def test_a_commit_with_much_text_is_stored_whole_where_it_has_to_be(any_repo: Repository, size: int) -> None:
    for message in ("short " * 50, "long! " * (size // 6), "short " * 49):
        writer = any_repo.writer()
        tree = any_repo.tree(None).edit(writer, {"x": entry_of(message[:40])})
        head = any_repo.head("s")
        parents = () if head.commit is None else (head.commit,)
        commit = Commit(tree=tree.id, parents=parents, author=Author("anna"), time_ns=len(parents), message=message)
        made = any_repo.publish(writer, commit, head=head, session="s", message="")
        loose = any_repo.store_loose(any_repo.writer(), msgspec.structs.replace(commit, labels=("loose",)))
        fresh = Repository(any_repo.store)
        assert [fresh.commit_at(id).message for id in (made, loose)] == [message, message]
    assert any_repo.verify().is_sound


def test_a_preview_is_inline_or_an_object(repo: Repository) -> None:
    writer = repo.writer()
    for preview in (b"", b"int 5", b"x" * 33, b"x" * 64, b"long " * 100):
        kept = writer.add_preview(preview)
        assert len(kept) <= 64
        writer.flush()
        assert repo.read_preview(Entry(preview=kept)) == preview


def test_equal_commits_have_equal_bytes_and_defaults_take_no_room() -> None:
    commit = Commit(tree=address(b"tree"), author=Author("anna"), time_ns=1)
    assert encode(commit) == encode(decode_commit(encode(commit)))
    assert len(encode(commit)) < 60
    packages = {"b": "2", "a": "1"}
    reordered = dict(reversed(packages.items()))
    assert encode(Manifest(packages=packages)) == encode(Manifest(packages=reordered))


def test_the_stored_form_of_a_commit_is_fixed() -> None:
    commit = Commit(
        tree=address(b"t"),
        parents=(address(b"p"),),
        author=Author("anna", "agent"),
        time_ns=1_700_000_000_000_000_000,
        kind="cell",
        cell=Cell("x = 1", id="c1", number=3),
    )
    # If this changes, so does every id: then the format needs a new version, and a migration.
    assert hex_of(address(encode(commit))).startswith("5d98997e8c424cb0")


def test_fields_and_kinds_of_a_newer_release_are_read_over() -> None:
    stored = msgspec.msgpack.decode(encode(Commit(tree=address(b"t"), author=Author("a"), time_ns=1, kind="cell")))
    stored |= {"k": "teleported", "future": 1}
    assert decode_commit(msgspec.msgpack.encode(stored)).kind == "teleported"
    row = msgspec.msgpack.encode([b"v", None, 0, "", b"", b"own", "future"])
    assert decode_entry(row) == Entry(b"v", own=b"own")
    assert decode_entry(msgspec.msgpack.encode([b"v", None, 0, "", b""])) == Entry(b"v")  # of an earlier release
