"""kvgit on our stores: its own tests pass, and what it merges and collects is the same as on its own store."""

from __future__ import annotations

import random
from typing import Any

import pytest

import agent_kernel as ak
from tests.integrations.foreign import needs, run_suite

needs("kvgit.kv", "diskcache")

from kvgit import MergeConflict, Repo
from kvgit.kv.memory import Memory

from agent_kernel.integrations.kvgit import AgentKernelKV

FIXTURE = "its source distribution leaves tests/fixtures/v3_store.json out"
LEFT_OUT = {
    **{
        f"tests/test_storage_v4.py::{name}": FIXTURE
        for name in (
            "TestTheFixture",
            "TestReading",
            "TestWriting",
            "TestKeysSharingABlob::test_a_legacy_store_extended_with_a_shared_blob",
            "TestMergingAcrossFormats",
            "TestHonestCommitHash",
            "TestSweepingAMixedStore",
        )
    },
    "tests/test_open.py::TestOpen::test_default_returns_a_worktree_on_main": "it asks for the class Memory itself",
}


def test_its_tests_pass_on_our_stores() -> None:
    passed, failed = run_suite("kvgit-0.4.3", ["tests"], plugin="replace_kvgit", left_out=LEFT_OUT)
    assert failed == []
    assert passed >= 470


def test_it_leaves_what_is_ours_alone_and_we_leave_its(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        state["x"] = 1
        state.commit("ours")
    store = AgentKernelKV(repo)
    store.set_many({f"{number:04d}": b"v" for number in range(2_500)})
    repo.gc(grace_s=0)
    assert repo.verify().is_sound
    assert len(list(store.items())) == 2_500
    assert len(list(store.keys("000"))) == 10
    store.clear()
    assert list(store.keys()) == []
    assert repo.at("HEAD")["x"] == 1
    with pytest.raises(ValueError, match="at most"):
        store.set("x" * 600, b"")
    assert store.get("x" * 600) is None


@pytest.mark.parametrize("seed", range(4))
def test_merges_and_collections_come_out_as_on_its_own_store(seed: int) -> None:
    outcomes = [play(seed, Memory()), play(seed, AgentKernelKV("memory:"))]
    assert outcomes[0] == outcomes[1]


def play(seed: int, store: Any) -> list[Any]:
    """Commits, branches, merges and collections by chance; what each of them came to."""
    chance = random.Random(seed)
    repo = Repo(store)
    trees = {"main": repo.worktree("main", create=True)}
    seen: list[Any] = []
    for step in range(60):
        name = chance.choice(sorted(trees))
        tree = trees[name]
        act = chance.choice(["write", "write", "write", "delete", "fork", "merge", "drop"])
        if act == "write":
            tree[f"k{chance.randrange(8)}"] = chance.randrange(5)
            tree.commit()
        elif act == "delete" and len(tree):
            del tree[chance.choice(sorted(tree))]
            tree.commit()
        elif act == "fork" and len(trees) < 4:
            repo.branches.create(f"b{step}", at=tree.head)
            trees[f"b{step}"] = repo.worktree(f"b{step}")
        elif act == "merge":
            other = chance.choice(sorted(trees))
            try:
                tree.merge(commit=trees[other].head)
            except MergeConflict as conflict:
                seen.append(("conflict", sorted(conflict.conflicting_keys)))
        elif act == "drop" and name != "main":
            repo.branches.delete(name)
            del trees[name]
            repo.gc()
        seen.append((act, {one: dict(trees[one]) for one in sorted(trees)}))
    return seen
