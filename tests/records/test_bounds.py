"""What a verb reads does not grow with what is stored: counted at n, 2n and 4n."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agent_kernel as ak
from agent_kernel.records import lines
from agent_kernel.records.collection import Records
from agent_kernel.records.knowledge import Source
from agent_kernel.records.speech import SpeechRecord
from agent_kernel.repository.commits import Tree


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """How many rows and keys a call reads, of trees and of the store."""
    seen = [0]

    def counted(function: Callable[..., Any], many: Callable[[Any], int]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            found = function(*args, **options)
            seen[0] += many(found)
            return found

        return call

    def counted_each(function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def call(*args: Any, **options: Any) -> Iterator[Any]:
            for one in function(*args, **options):
                seen[0] += 1
                yield one

        return call

    monkeypatch.setattr(Tree, "row", counted(Tree.row, lambda _: 1))
    monkeypatch.setattr(Tree, "rows", counted_each(Tree.rows))
    monkeypatch.setattr(Tree, "names_back", counted_each(Tree.names_back))
    monkeypatch.setattr(lines.StoreLine, "_items", counted(lines.StoreLine._items, len))
    monkeypatch.setattr(lines.StoreLine, "_stored", counted(lines.StoreLine._stored, lambda _: 1))
    monkeypatch.setattr(lines.StoreLine, "_pages", counted_each(lines.StoreLine._pages))

    def count(act: Callable[[], object]) -> int:
        seen[0] = 0
        act()
        return seen[0]

    return count


def snapshots(repo: ak.Repository, numbers: Sequence[int]) -> None:
    agents = repo.agents
    for number in numbers:
        snapshot = agents._snapshots.make(id=f"ada/{number:08d}", agent_id="ada", number=number, timestamp=0.0)
        agents._snapshots.put(snapshot)
        agents.checkpoint("ada", number, {"n": number})


def runs(repo: ak.Repository, numbers: Sequence[int]) -> None:
    for name in ("double", "half"):
        tool = repo.tool(name=name)(abs)
        for number in numbers:
            tool(number)


def sources(repo: ak.Repository, numbers: Sequence[int]) -> None:
    for number in numbers:
        repo.knowledge.source("docs", str(number), documents=2, status="indexed")
    repo.knowledge.overview("docs")


def sessions(repo: ak.Repository, numbers: Sequence[int]) -> None:
    for number in numbers:
        repo.speech.records.put(SpeechRecord(id=f"stt-{number}", status="ended", started_s=float(number)))
        if number < 3:
            repo.speech.open("stt")


def ended_sessions(repo: ak.Repository, numbers: Sequence[int]) -> None:
    for number in numbers:
        repo.speech.records.put(SpeechRecord(id=f"stt-{number}", status="ended", ended_s=time.time()))


def tiers(repo: ak.Repository, numbers: Sequence[int]) -> None:
    found = repo.state("ada").tiers(hot=2, warm=4)
    for number in numbers:
        found.put(f"k{number}", number)


def tasks(repo: ak.Repository, numbers: Sequence[int]) -> None:
    for number in numbers:
        repo.queue("web").push(f"t{number}")


Fill = Callable[[ak.Repository, Sequence[int]], None]
VERBS: dict[str, tuple[Fill, Callable[[ak.Repository], Callable[[], object]]]] = {
    "snapshot": (snapshots, lambda repo: lambda: repo.agents.snapshot("ada", state={"n": 1})),
    "latest snapshot": (snapshots, lambda repo: lambda: repo.agents.latest("ada")),
    "should checkpoint": (snapshots, lambda repo: lambda: repo.agents.should_checkpoint("ada", 1_000, 5)),
    "recover": (snapshots, lambda repo: lambda: repo.agents.recover("ada")),
    "runs of a tool": (runs, lambda repo: lambda: repo.tools.runs("double", 5)),
    "runs of all tools": (runs, lambda repo: lambda: repo.tools.runs(limit=5)),
    "names of tools": (runs, lambda repo: lambda: repo.tools.names()),
    "overview": (sources, lambda repo: lambda: repo.knowledge.overview("docs")),
    "source": (sources, lambda repo: lambda: repo.knowledge.source("docs", "1", documents=3)),
    "names of knowledge bases": (sources, lambda repo: lambda: repo.knowledge.names()),
    "stale sources": (sources, lambda repo: lambda: repo.knowledge.stale(3_600)),
    "stale sources of a base": (sources, lambda repo: lambda: repo.knowledge.stale(3_600, "docs")),
    "cleanup of speech": (ended_sessions, lambda repo: lambda: repo.speech.cleanup(3_600)),
    "active sessions": (sessions, lambda repo: lambda: repo.speech.active()),
    "tiers put": (tiers, lambda repo: partial(repo.state("ada").tiers(warm=4).put, "new", 1)),
    "tiers get of a cold value": (tiers, lambda repo: partial(repo.state("ada").tiers(warm=4).get, "k1")),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_reads_no_more_where_more_is_stored(
    tmp_path: Path, count: Callable[[Callable[[], object]], int], verb: str
) -> None:
    fill, verb_of = VERBS[verb]
    reads: list[int] = []
    with ak.open(tmp_path / "store") as repo:
        is_branch = fill in (snapshots, tiers)
        many = 120 if is_branch else 20  # an edit of a small tree reads all of it
        for low, high in ((0, many), (many, 2 * many), (2 * many, 4 * many)):
            with repo.transaction() if is_branch else nullcontext():
                fill(repo, range(low, high))
            act = verb_of(repo)
            act()  # what is done once
            reads.append(count(act))
    assert max(reads) <= reads[0] + 3, reads


def test_what_changed_last_is_found_without_reading_all(
    tmp_path: Path, count: Callable[[Callable[[], object]], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Item(ak.Record):
        plane = "store"

    with ak.open(tmp_path / "store") as repo:
        items: Records[Item] = repo.records(Item)
        now = time.time_ns
        shift = 0
        monkeypatch.setattr("agent_kernel.records.lines.time.time_ns", lambda: now() + shift)
        for number in range(100):
            items.put(Item(id=f"a{number:02d}"))
            shift += 60 * 10**9
        found: list[str] = []
        pages: list[int] = []
        keys = repo.store.keys

        def counted(*args: Any) -> Any:
            page = keys(*args)
            pages.append(len(page))
            return page

        monkeypatch.setattr(repo.store, "keys", counted)
        found = items.newest("", 3)
        assert (found, sum(pages) < 30) == (["a99", "a98", "a97"], True)
        assert items.newest("a0", 20) == [f"a0{number}" for number in range(9, -1, -1)]


# -- what earlier releases stored


def test_sessions_and_sources_of_an_earlier_release_are_found(tmp_path: Path) -> None:
    with ak.open(tmp_path / "store") as repo:
        old = Records(repo, SpeechRecord)
        for number in range(150):
            status: Literal["active", "ended"] = "active" if number % 50 == 7 else "ended"
            old.put(SpeechRecord(id=f"stt-{number:03d}", status=status, started_s=float(number)))
        for number in range(5):
            Records(repo, Source).put(Source(id=f"docs/{number}", kb="docs", documents=number))
        assert [one.id for one in repo.speech.active()] == ["stt-107", "stt-057", "stt-007"]
        repo.speech["stt-057"].end()
        assert [one.id for one in repo.speech.active()] == ["stt-107", "stt-007"]
        knowledge = repo.knowledge
        assert (knowledge.names(), knowledge.overview("docs").documents) == (["docs"], 10)
        knowledge.forget("docs", "4")
        assert (knowledge.overview("docs").documents, knowledge.overview("docs").sources) == (6, 4)


def test_warm_values_of_an_earlier_release_sink_too(tmp_path: Path) -> None:
    with ak.open(tmp_path / "store") as repo:
        state = repo.state("ada")
        tiers = state.tiers(hot=1, warm=3)
        for number in range(3):
            record = tiers._records.make(id=f"{state.place}k{number}", value=number, used_ns=number + 1)
            tiers._records.put(record)
        tiers.put("new", "n")
        assert [tiers.tier(key) for key in ("k0", "k1", "k2", "new")] == ["cold", "warm", "warm", "hot"]


# -- what is kept is what adding up would find


def test_totals_are_those_of_the_sources_whatever_happens(tmp_path: Path) -> None:
    step = st.tuples(
        st.sampled_from(["source", "forget", "move", "overview", "failed transaction"]),
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 9),
    )

    @settings(max_examples=30, deadline=None)
    @given(st.lists(step, max_size=12))
    def check(steps: list[tuple[str, str, int]]) -> None:
        with ak.open("memory:") as repo:
            knowledge = repo.knowledge
            for what, id, number in steps:
                if what == "source":
                    knowledge.source("docs", id, documents=number, size=number * 2, synced_s=float(number))
                elif what == "forget":
                    knowledge.forget("docs", id)
                elif what == "overview":
                    knowledge.overview("docs")
                elif what == "move" and f"docs/{id}" in knowledge.records:
                    knowledge.records.delete(f"docs/{id}")
                elif what == "failed transaction":
                    with suppress(ZeroDivisionError), repo.transaction():
                        knowledge.source("docs", id, documents=number)
                        raise ZeroDivisionError
                found, base = knowledge.sources("docs"), knowledge.overview("docs")
                assert (base.sources, base.documents, base.size, base.last_updated_s) == (
                    len(found),
                    sum(one.documents for one in found),
                    sum(one.size for one in found),
                    max((one.synced_s for one in found), default=0.0),
                )

    check()
