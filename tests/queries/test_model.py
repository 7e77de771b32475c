"""The list and its graph say the same as the history itself, whatever happened to it and however it grew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.queries.reader import Reader
from agent_kernel.repository import Head, ObjectId, hex_of
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.repositories import commit_values, detach, switch

_PICK = st.integers(0, 1 << 16)
_STEP = st.one_of(
    st.tuples(st.just("commit"), _PICK),
    st.tuples(st.just("commit"), _PICK),
    st.tuples(st.just("merge"), _PICK),
    st.tuples(st.just("branch"), _PICK),
    st.tuples(st.just("switch"), _PICK),
    st.tuples(st.just("detach"), _PICK),
    st.tuples(st.just("tag"), _PICK),
    st.tuples(st.just("delete"), _PICK),
)
STEPS = st.lists(_STEP, max_size=40)
Parents = Mapping[str, tuple[str, ...]]


class World:
    """A repository that changes step by step."""

    def __init__(self) -> None:
        self.repo = Repository.open(MemoryStore())
        self.made: list[ObjectId] = []

    def do(self, what: str, pick: int) -> None:
        head = self.repo.head("s")
        branches = sorted(self.repo.branches())
        if what == "commit" or not self.made:
            self.made.append(commit_values(self.repo, {f"n{pick % 5}": str(len(self.made))}))
        elif what == "merge" and head.commit is not None:
            other = self._picked(pick)
            if other != head.commit:
                self.made.append(commit_values(self.repo, {"m": str(len(self.made))}, parents=[head.commit, other]))
        elif what == "branch" and len(branches) < 4:
            self.repo.create_branch(f"b{pick % 4}", self._picked(pick), force=True)
        elif what == "switch" and branches:
            switch(self.repo, branches[pick % len(branches)])
        elif what == "detach":
            detach(self.repo, self._picked(pick))
        elif what == "tag":
            self.repo.create_tag(f"v{pick % 2}", self._picked(pick), force=True)
        elif what == "delete" and branches:
            self.repo.delete_branch(branches[pick % len(branches)], force=True)

    def _picked(self, pick: int) -> ObjectId:
        return self.made[pick % len(self.made)]

    def parents(self) -> dict[str, tuple[str, ...]]:
        """All commits that a name or a HEAD reaches, newest first, and their parents."""
        heads = [head.commit for head in self.repo.heads().values() if head.commit is not None]
        tips = [*self.repo.branches().values(), *self.repo.tags().values(), *heads]
        return {hex_of(id): tuple(map(hex_of, commit.parents)) for id, commit in self.repo.log(tips)}


def listed(reader: Reader, text: str = "") -> list[Any]:
    return [row for row in reader.ask("rows", {"n": 500, "text": text})["rows"] if row["kind"] == "commit"]


def drawn(rows: Sequence[Any]) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """The edges that somebody sees who follows the lines from row to row, and which of them are dashed."""
    edges: set[tuple[str, str]] = set()
    dashed: set[tuple[str, str]] = set()
    for start, row in enumerate(rows):
        for top, lane, _, is_dashed in row["graph"]["lines"]:
            if top is not None:
                continue
            for below in rows[start + 1 :]:
                (end,) = [bottom for top, bottom, *_ in below["graph"]["lines"] if top == lane]
                if end is None:
                    edges.add((row["id"], below["id"]))
                    dashed |= {(row["id"], below["id"])} if is_dashed else set()
                    break
                assert end == lane
    return edges, dashed


def assert_is_connected(rows: Sequence[Any]) -> None:
    above: set[int] = set()
    for row in rows:
        lines = row["graph"]["lines"]
        assert {top for top, *_ in lines if top is not None} == above
        assert row["graph"]["node"] not in [top for top, bottom, *_ in lines if bottom is not None and top is not None]
        above = {bottom for _, bottom, *_ in lines if bottom is not None}
    assert not above


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_a_reader_that_was_there_all_along_sees_what_a_new_one_sees(steps: list[tuple[str, int]]) -> None:
    world = World()
    old = Reader(world.repo, "s")
    for what, pick in steps:
        world.do(what, pick)
        rows = listed(old)
        assert [row["id"] for row in rows] == list(world.parents())
        assert rows == listed(Reader(world.repo, "s"))


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_the_lines_lead_from_each_commit_to_its_parents(steps: list[tuple[str, int]]) -> None:
    world = World()
    for step in steps:
        world.do(*step)
    rows = listed(Reader(world.repo, "s"))
    assert_is_connected(rows)
    if any(lane == 6 for row in rows for line in row["graph"]["lines"] for lane in line[:2]):
        return  # the last lanes are drawn as one
    edges, dashed = drawn(rows)
    assert edges == {(child, parent) for child, parents in world.parents().items() for parent in parents}
    assert not dashed


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from(["is:merge", "is:named", "tag:v", "branch:main"]))
def test_with_a_filter_the_lines_lead_to_the_nearest_ancestors_that_are_listed(
    steps: list[tuple[str, int]], text: str
) -> None:
    world = World()
    for step in steps:
        world.do(*step)
    rows = listed(Reader(world.repo, "s"), text)
    assert_is_connected(rows)
    if any(lane == 6 for row in rows for line in row["graph"]["lines"] for lane in line[:2]):
        return
    edges, dashed = drawn(rows)
    parents = world.parents()
    shown = {row["id"] for row in rows}
    expected = {(child, found) for child in shown for found in nearest(parents, parents[child], shown)}
    assert edges == expected
    assert dashed == {(child, parent) for child, parent in expected if parent not in parents[child]}


def nearest(parents: Parents, ids: Sequence[str], shown: set[str]) -> set[str]:
    found: set[str] = set()
    for id in ids:
        found |= {id} if id in shown else nearest(parents, parents[id], shown)
    return found


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_each_branch_has_one_colour_along_its_line(steps: list[tuple[str, int]]) -> None:
    world = World()
    for step in steps:
        world.do(*step)
    reader = Reader(world.repo, "s")
    colours = {row["id"]: row["graph"]["colour"] for row in listed(reader)}
    parents = world.parents()
    first = {one["name"]: one["lane"] for one in reader.ask("branches", {})}
    assert len(set(first.values())) == len(first)
    order = sorted(first, key=lambda name: (first[name] != 0, name))
    taken: set[str] = set()
    for name in order:
        id: str | None = hex_of(world.repo.branches()[name])
        while id is not None and id not in taken:
            assert colours[id] == first[name]
            taken.add(id)
            id = parents[id][0] if parents[id] else None
    assert all(colours[id] >= len(first) for id in colours.keys() - taken)


def test_history_that_was_rewritten_is_read_anew() -> None:
    world = World()
    for pick in range(6):
        world.do("commit", pick)
    reader = Reader(world.repo, "s")
    before = listed(reader)
    world.repo.forget(commits=[world.made[2]])
    after = listed(reader)
    assert [row["id"] for row in after] == list(world.parents())
    assert len(after) == len(before) - 1
    assert {row["id"] for row in after} & {row["id"] for row in before} == {row["id"] for row in before[-2:]}


def test_a_history_that_is_rewritten_while_it_is_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for pick in range(6):
        world.do("commit", pick)
    other = Repository(world.repo.store)  # another process, which has read nothing yet
    reader, heads = Reader(other, "s"), other.heads
    rewritten: list[bool] = []

    def heads_of_another_time() -> dict[str, Head]:
        if not rewritten:
            rewritten.append(True)
            world.repo.forget(commits=[world.made[2]])
        return heads()

    monkeypatch.setattr(other, "heads", heads_of_another_time)
    assert [row["id"] for row in listed(reader)] == list(world.parents())
    assert rewritten


def test_several_threads_may_ask_while_commits_are_made() -> None:
    world = World()
    reader = Reader(world.repo, "s")
    world.do("commit", 0)
    failed: list[BaseException] = []

    def look() -> None:
        try:
            for text in ("", "is:named", "nothing") * 20:
                page = reader.ask("rows", {"n": 50, "text": text})
                assert page["matches"] <= page["commits"]
        except BaseException as error:
            failed.append(error)
            raise

    threads = [Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for pick in range(60):
        world.do(("commit", "merge", "branch", "switch", "tag")[pick % 5], pick)
    for thread in threads:
        thread.join()
    assert not failed
    assert [row["id"] for row in listed(reader)] == list(world.parents())
