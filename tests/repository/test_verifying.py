"""Verification finds every fault, and says whom it concerns."""

from __future__ import annotations

import os
import random

import pytest

from agent_kernel.repository.commits import KIND_NAMES, Commit, Entry, Kind, Manifest, ObjectId, encode
from agent_kernel.repository.objects import digest_pieces, plan_cuts, store_blob
from agent_kernel.repository.repository import Repository
from tests.support.repositories import AUTHOR, commit_values, detach

PIECES = 70


@pytest.fixture
def filled(any_repo: Repository) -> Repository:
    """Three commits; `array` has a chunk list of its own, and shares its value with `view`."""
    commit_values(any_repo, {f"x{number}": str(number) for number in range(40)})
    writer = any_repo.writer()
    buffer = os.urandom(PIECES * 2000)
    cuts = list(range(2000, len(buffer) + 1, 2000))
    blob, _ = store_blob(writer, buffer, cuts, digest_pieces(buffer, cuts))
    words = b"words and words " * 4000
    text, _ = store_blob(writer, words, plan_cuts(len(words)), digest_pieces(words, plan_cuts(len(words))))
    definition = writer.add(Kind.DEFINITION, b"def f(): ...")
    manifest = writer.add(Kind.MANIFEST, encode(Manifest(blobs=(blob, text), definitions=(definition,))))
    preview = writer.add_preview(b"preview " * 20)
    entries = {name: Entry(manifest=manifest, alias_group="array", preview=preview) for name in ("array", "view")}
    head = any_repo.head("s")
    assert head.commit is not None
    tree = any_repo.tree_at(head.commit).edit(writer, entries)
    random_state = writer.add(Kind.SMALL, b"random state")
    commit = Commit(tree=tree.id, parents=(head.commit,), author=AUTHOR, time_ns=1, random=random_state)
    any_repo.publish(writer, commit, head=head, session="s", message="")
    commit_values(any_repo, {"x1": "changed"})
    return any_repo


def _all_keys(repo: Repository) -> list[bytes]:
    return [key for kind in KIND_NAMES for key in repo.pointers.keys(kind)]


def test_a_sound_store_has_no_problems_and_all_of_it_was_read(filled: Repository) -> None:
    steps: list[tuple[int, int]] = []
    report = filled.verify(progress=lambda done, total: steps.append((done, total)))
    assert report.is_sound
    assert report.checked == len(_all_keys(filled)) - 1  # the empty tree belongs to no commit
    assert report.bytes > PIECES * 2000 + 16 * 4000
    assert steps[-1] == (report.checked, report.checked)


def test_every_missing_object_is_found(filled: Repository) -> None:
    keys = [key for key in _all_keys(filled) if key[1:] != filled.tree(None).id]
    for key in random.Random(5).sample(keys, 40):
        stored = filled.store.get_many([key])[key]
        filled.store.delete_many([key])
        report = filled.verify()
        assert [(p.kind, p.id) for p in report.problems if p.reason == "it is missing"] == [
            (KIND_NAMES[key[:1]], key[1:])
        ]
        filled.store.put_many({key: stored})
    assert filled.verify().is_sound


def test_every_damaged_object_is_found(filled: Repository) -> None:
    rng = random.Random(6)
    keys = [key for key in _all_keys(filled) if key[1:] != filled.tree(None).id]
    for key in rng.sample(keys, 40):
        stored = filled.store.get_many([key])[key]
        broken = bytearray(stored)
        broken[rng.randrange(2, len(broken))] ^= 0x10
        filled.store.swap({}, {key: bytes(broken)})
        assert ObjectId(key[1:]) in {problem.id for problem in filled.verify().problems}
        filled.store.swap({}, {key: stored})
    assert filled.verify().is_sound


def test_a_forged_payload_with_a_fitting_checksum_is_found(filled: Repository) -> None:
    one, other = list(filled.pointers.keys(Kind.CHUNK))[:2]
    stored = filled.store.get_many([other])[other]
    filled.store.swap({}, {one: stored})
    assert [problem.id for problem in filled.verify().problems] == [one[1:]]


def test_a_problem_names_the_commits_and_variables_that_it_concerns(filled: Repository) -> None:
    tip = filled.head("s").commit
    assert tip is not None
    middle = filled.commit_at(tip).parents[0]
    chunk = next(iter(filled.pointers.keys(Kind.CHUNK)))
    filled.store.delete_many([chunk])
    (problem,) = filled.verify().problems
    assert problem.names == ("array", "view")
    assert set(problem.reachable_from) == {tip, middle}
    assert "array, view" in str(problem)


def test_a_damaged_commit_concerns_its_children(filled: Repository) -> None:
    tip = filled.head("s").commit
    assert tip is not None
    middle = filled.commit_at(tip).parents[0]
    filled.store.delete_many([Kind.COMMIT + middle])
    (problem,) = [p for p in filled.verify().problems if p.kind == "commit"]
    assert problem.id == middle
    assert problem.reachable_from == (tip,)


def test_what_only_a_reflog_reaches_is_verified_too(filled: Repository) -> None:
    tip = filled.head("s").commit
    assert tip is not None
    middle = filled.commit_at(tip).parents[0]
    filled.move_branch("main", middle, "reset", tip)
    detach(filled, middle)
    filled.store.delete_many([Kind.COMMIT + tip])
    assert [problem.id for problem in filled.verify().problems] == [tip]
