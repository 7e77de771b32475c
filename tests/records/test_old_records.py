"""Records that earlier formats wrote are read, changed and collected as those of now. The fixtures are never made again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_kernel as ak
from tests.fixtures.make_records import ITEMS, PLANES, Job, Note

FIXTURES = Path(__file__).parent.parent / "fixtures"
STORES = sorted(path.name for path in FIXTURES.glob("records-*"))


@pytest.fixture(params=STORES)
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ak.Repository]:
    with ak.Repository.open(Path(shutil.copytree(FIXTURES / request.param, tmp_path / "store")), create=False) as repo:
        yield repo


def test_there_is_a_store_of_every_format_that_has_records() -> None:
    assert STORES == ["records-3", "records-4", "records-5"]


def test_old_records_are_read_with_their_history(repo: ak.Repository) -> None:
    notes = repo.records(Note)
    assert [len(note.text) for note in notes.find(order="id")] == [6, 5_000]
    assert [change.new and change.new.text for change in notes.history("a")] == ["second", "first"]
    assert repo.records(Job)["j"].title == "paid"
    assert repo.state("ada").get("city") == "Köln"
    assert repo.queue("web").counts().pending == 1
    assert repo.workflows["study"].status == "RUNNING"
    for plane in PLANES:
        assert list(repo.list("talk", plane=plane)) == ITEMS


def test_old_lists_go_on_and_lose_nothing_when_garbage_is_collected(repo: ak.Repository) -> None:
    old = repo.resolve("main")
    for plane in PLANES:
        for item in ITEMS:
            repo.list("talk", plane=plane).append(item)
    repo.records(Note).update("long", text="words and " * 499 + "an end")
    repo.gc(grace_s=0)
    assert repo.verify().is_sound
    for plane in PLANES:
        assert list(repo.list("talk", plane=plane)) == ITEMS * 2
    repo.create_branch("old", old)
    assert list(repo.list("talk", plane="branch", branch="old")) == ITEMS
    assert repo.records(Note, branch="old")["long"].text == "words and " * 500
