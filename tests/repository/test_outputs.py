"""The outputs of a cell are an object of their own, whose pictures are stored once."""

from __future__ import annotations

import os

import msgspec
import pytest

from agent_kernel.commands.places import copy_store
from agent_kernel.errors import NewerFormatError, StoreError
from agent_kernel.repository import (
    Blob,
    Cell,
    Commit,
    Kind,
    ObjectId,
    Output,
    Outputs,
    Repository,
    Representation,
    encode,
    read_outputs,
    read_representation,
    store_outputs,
)
from agent_kernel.repository.objects import OUTPUTS_VERSION
from agent_kernel.storage import MemoryStore
from tests.support.repositories import AUTHOR, commit_values


def picture(payload: bytes) -> Output:
    return Output(
        kind="display_data",
        representations=(Representation("image/png", "bytes", len(payload), blob=Blob(len(payload), payload)),),
    )


def shown(*outputs: Output) -> Outputs:
    return Outputs(version=OUTPUTS_VERSION, outputs=outputs)


def commit_outputs(repo: Repository, outputs: Outputs, source: str = "plot()") -> ObjectId:
    writer = repo.writer()
    head = repo.head("s")
    cell = Cell(source, outputs=store_outputs(writer, outputs))
    parents = () if head.commit is None else (head.commit,)
    commit = Commit(tree=repo.tree_at(head.commit).id, parents=parents, author=AUTHOR, time_ns=1, cell=cell)
    return repo.publish(writer, commit, head=head, session="s", message="")


def outputs_of(repo: Repository, commit: ObjectId) -> Outputs:
    cell = repo.commit_at(commit).cell
    assert cell is not None
    assert cell.outputs is not None
    return read_outputs(repo.objects, cell.outputs)


def test_outputs_come_back_as_they_were(any_repo: Repository) -> None:
    commit_values(any_repo, {"x": "1"})
    large, small = os.urandom(600_000), b"\x89PNG"
    said = Output(kind="stream", name="stdout", text="three\nlines\n…")
    made = commit_outputs(any_repo, shown(said, picture(large), picture(small)))
    any_repo.objects.forget_cached()
    first, second, third = outputs_of(any_repo, made).outputs
    assert first == said
    assert read_representation(any_repo.objects, second.representations[0]) == large
    assert read_representation(any_repo.objects, third.representations[0]) == small


def test_a_picture_shown_twice_is_stored_once(any_repo: Repository) -> None:
    commit_values(any_repo, {"x": "1"})
    payload = os.urandom(100_000)
    commit_outputs(any_repo, shown(picture(payload)))
    before = any_repo.stats("s").objects["chunk"]
    commit_outputs(any_repo, shown(picture(payload), Output(kind="stream", name="stdout", text="again")))
    assert any_repo.stats("s").objects["chunk"] == before == 1
    assert any_repo.stats("s").objects["output"] == 2


def test_collection_keeps_outputs_with_their_commit_and_no_longer(any_repo: Repository) -> None:
    commit_values(any_repo, {"x": "1"})
    kept = commit_outputs(any_repo, shown(picture(os.urandom(70 * 262_080))), "kept")
    lost = commit_outputs(any_repo, shown(picture(os.urandom(300_000))), "lost")
    any_repo.gc(grace_s=0)
    assert outputs_of(any_repo, lost).outputs
    any_repo.forget(commits=[lost])
    assert any_repo.stats("s").objects["output"] == 1
    assert (
        len(read_representation(any_repo.objects, outputs_of(any_repo, kept).outputs[0].representations[0]) or b"")
        == 70 * 262_080
    )


def test_verify_reads_outputs_and_says_whose_are_damaged(any_repo: Repository) -> None:
    commit_values(any_repo, {"x": "1"})
    made = commit_outputs(any_repo, shown(picture(os.urandom(100_000))))
    assert any_repo.verify().is_sound
    (chunk,) = any_repo.pointers.keys(Kind.CHUNK)
    any_repo.store.delete_many([chunk])
    (problem,) = any_repo.verify().problems
    assert problem.reachable_from == (made,)
    (key,) = any_repo.pointers.keys(Kind.OUTPUTS)
    any_repo.store.delete_many([key])
    assert {problem.kind for problem in any_repo.verify().problems} == {"output"}


def test_a_copied_store_has_the_outputs_too(tmp_path: object) -> None:
    source = f"{tmp_path}/source"
    with Repository.open(source) as repo:
        commit_values(repo, {"x": "1"})
        made = commit_outputs(repo, shown(picture(b"\x89" * 50_000)))
    target = MemoryStore()
    copy_store(source, target)
    copy = Repository.open(target)
    assert read_representation(copy.objects, outputs_of(copy, made).outputs[0].representations[0]) == b"\x89" * 50_000


def test_outputs_of_a_newer_release_are_refused_and_never_collected(repo: Repository) -> None:
    commit_values(repo, {"x": "1"})
    commit_outputs(repo, msgspec.structs.replace(shown(picture(os.urandom(5_000))), version=OUTPUTS_VERSION + 1))
    with pytest.raises(NewerFormatError):
        repo.gc(grace_s=0)
    assert repo.stats("s").objects["chunk"] == 1


def test_fields_that_a_newer_release_added_do_no_harm(repo: Repository) -> None:
    raw = msgspec.msgpack.decode(encode(shown(Output(kind="stream", name="stdout", text="x"))))
    raw["new"] = raw["o"][0]["new"] = "?"
    writer = repo.writer()
    id = writer.add(Kind.OUTPUTS, msgspec.msgpack.encode(raw))
    writer.flush()
    assert read_outputs(repo.objects, id).outputs[0].text == "x"
    assert issubclass(NewerFormatError, StoreError)


def test_forgetting_a_name_takes_the_outputs_of_the_cells_that_speak_of_it(any_repo: Repository) -> None:
    commit_values(any_repo, {"secret": "1", "other": "2"})
    said = Output(kind="stream", name="stdout", text="hunter2")
    commit_outputs(any_repo, shown(said, picture(os.urandom(50_000))), "print(secret)")
    commit_outputs(any_repo, shown(Output(kind="stream", name="stdout", text="harmless")), "print(other)")
    report = any_repo.forget(["secret"])
    assert report.outputs_dropped == 1
    cells = [commit.cell for _, commit in any_repo.log(any_repo.branches()["main"]) if commit.cell]
    assert [(cell.source, cell.outputs is None) for cell in cells] == [("print(other)", False), ("print(secret)", True)]
    assert any_repo.stats("s").objects["output"] == 1
    assert any_repo.stats("s").objects["chunk"] == 0
    assert any_repo.verify().is_sound
