"""Lists: what was appended is there, in its order, once; a tail is replaced whole or not at all."""

from __future__ import annotations

import random
import re
import signal
import string
import subprocess
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import agent_kernel as ak
from agent_kernel.records import lists
from agent_kernel.records.lists import ListChange, RecordList
from agent_kernel.records.schema import Plane
from agent_kernel.records.trees import plan_cuts
from agent_kernel.repository import Kind
from agent_kernel.repository.objects import base_of


def test_a_list_is_deleted_with_its_name_and_comes_back_with_an_undo() -> None:
    with ak.open("memory:") as repo, ak.Versioned(repo) as state:
        talk = RecordList(repo, "my talk/a%2F#b", plane="branch", part_bytes=50)
        talk.extend(f"item {number}" for number in range(40))
        state.commit("said")
        assert lists.names_of_lists(repo, plane="branch") == ["my talk/a%2F#b"]
        assert lists.names_of_lists(repo, "my talk/b", plane="branch") == []
        talk.delete()
        assert (lists.names_of_lists(repo, plane="branch"), list(talk)) == ([], [])
        state.commit("deleted")
        state.undo()
        assert len(talk) == 40


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few items, so that short lists have many."""
    monkeypatch.setattr(lists, "_PART_BYTES", {"store": 24, "branch": 24})


PLANES = pytest.mark.parametrize("plane", ["store", "branch"])


@PLANES
def test_what_was_appended_comes_back_in_its_order(repo: ak.Repository, plane: Plane) -> None:
    turns = repo.list("turns", plane=plane)
    assert turns.append({"role": "user", "text": "hello"}) == 1
    assert turns.append("a", 2, None, [True, 2.5]) == 5
    assert turns.extend(iter(["b"])) == 6
    assert turns.items() == list(turns) == [{"role": "user", "text": "hello"}, "a", 2, None, [True, 2.5], "b"]
    assert (len(turns), turns[0]["role"], turns[-1], turns[1:3]) == (6, "user", "b", ["a", 2])
    assert turns.items(limit=2) == [[True, 2.5], "b"]
    assert turns.items(limit=0) == []
    with pytest.raises(IndexError):
        _ = turns[6]


@PLANES
def test_a_tail_is_replaced_where_it_is_as_expected(repo: ak.Repository, plane: Plane, small_parts: None) -> None:
    numbers = repo.list("numbers", plane=plane)
    numbers.extend(range(100))
    assert numbers.replace_tail(30, ["x"], expect=100) == 31
    with pytest.raises(ak.StaleRecordError, match="is at length 31, and length 100 was expected"):
        numbers.replace_tail(0, expect=100)
    with pytest.raises(IndexError):
        numbers.replace_tail(32)
    assert numbers.items() == [*range(30), "x"]
    assert numbers.pop() == "x"
    numbers.clear()
    assert (len(numbers), numbers.items()) == (0, [])
    with pytest.raises(IndexError):
        numbers.pop()


NOT_JSON: dict[str, Any] = {
    "a set": {1},
    "bytes": b"x",
    "an object": object(),
    "a key that is a number": {1: 2},
    "a tuple, which would come back as a list": (1,),
    "half a character": "\ud800",
}


@pytest.mark.parametrize("case", NOT_JSON)
def test_what_json_cannot_hold_is_refused_and_nothing_is_stored(repo: ak.Repository, case: str) -> None:
    turns = repo.list("turns")
    with pytest.raises(ak.InvalidRecordError) as found:
        turns.append("good", NOT_JSON[case])
    assert "\n" not in str(found.value)
    assert len(turns) == 0


@PLANES
def test_numbers_that_only_python_has_and_large_items_come_back(repo: ak.Repository, plane: Plane) -> None:
    turns = repo.list("turns", plane=plane)
    large = "".join(random.Random(0).choices(string.printable, k=300_000))
    turns.append(2**90, float("inf"), large, "small")
    turns.append("after")
    assert turns.items() == [2**90, float("inf"), large, "small", "after"]


def test_changing_what_was_read_changes_nothing_that_is_stored(repo: ak.Repository) -> None:
    turns = repo.list("turns")
    given_item: dict[str, Any] = {"tags": []}
    turns.append(given_item)
    given_item["tags"].append("mine")
    turns[0]["tags"].append("yours")
    assert turns[0] == {"tags": []}


def test_lists_of_two_names_or_users_have_nothing_in_common(repo: ak.Repository) -> None:
    names = [("a", ""), ("a", "ada"), ("ada/a", ""), ("a#00000000", ""), ("a%2Fb", ""), ("a/b", "")]
    for number, (name, user) in enumerate(names):
        repo.list(name, user=user).append(number)
    assert [repo.list(name, user=user).items() for name, user in names] == [[n] for n in range(len(names))]


def test_a_checkout_rewinds_a_list_of_the_branch_and_leaves_one_of_the_store(
    repo: ak.Repository, small_parts: None
) -> None:
    chat, log = repo.list("chat", plane="branch"), repo.list("log")
    with ak.Versioned(repo) as state:
        state["x"] = 1
        chat.extend(range(20))
        log.extend(range(20))
        state.commit("one")
        repo.create_tag("then", repo.resolve("HEAD"))
        chat.replace_tail(3, ["else"])
        log.replace_tail(3, ["else"])
        state.rollback("then")
        assert chat.items() == list(range(20))
        assert log.items() == [0, 1, 2, "else"]


def test_the_past_of_a_list_of_the_branch_can_be_read(repo: ak.Repository, small_parts: None) -> None:
    chat = repo.list("chat", plane="branch", actor="ada")
    chat.extend(range(20))
    repo.create_tag("then", repo.resolve("HEAD"))
    chat.append("more")
    chat.replace_tail(5, ["x", "y"])
    told = list(chat.history())
    assert [(one.kept, one.removed, one.added) for one in told] == [
        (5, 16, ("x", "y")),
        (20, 0, ("more",)),
        (0, 0, tuple(range(20))),
    ]
    assert {one.actor for one in told} == {"ada"}
    assert chat.at("then").items() == list(range(20))
    with pytest.raises(ak.StoreReadOnlyError):
        chat.at("then").append(1)
    with pytest.raises(ValueError, match="keeps no past"):
        repo.list("log").at("then")


@PLANES
def test_a_watcher_hears_what_was_added_and_removed(repo: ak.Repository, plane: Plane, small_parts: None) -> None:
    chat, other = repo.list("chat*", plane=plane), repo.list("chats", plane=plane)
    heard: list[ListChange] = []
    with chat.watch(heard.append):
        chat.append("a", "b")
        other.append("not mine")
        chat.extend(range(20))
        chat.replace_tail(1, ["c"])
    told = [(one.kept, one.removed, one.added, one.length) for one in heard]
    assert told == [(0, 0, ("a", "b"), 2), (2, 0, tuple(range(20)), 22), (1, 21, ("c",), 2)]


def test_several_lists_change_in_one_transaction_or_none(repo: ak.Repository) -> None:
    one, two = repo.list("one"), repo.list("two")
    with repo.transaction():
        one.append(1)
        two.append(2)
        assert one.items() == [1]

    def fail_half_way() -> None:
        with repo.transaction():
            one.append(3)
            two.replace_tail(9)

    with pytest.raises(IndexError):
        fail_half_way()
    assert (one.items(), two.items()) == ([1], [2])


def test_an_encrypted_list_opens_with_its_key_alone(repo: ak.Repository, tmp_path: Path, small_parts: None) -> None:
    pytest.importorskip("cryptography")
    turns = repo.list("turns", secret="open sesame")
    turns.append(*["my password"] * 9)
    assert turns.items() == ["my password"] * 9
    with pytest.raises(ak.SealedRecordError):
        repo.list("turns").items()
    assert not any(b"my password" in path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())


def test_a_list_takes_a_number_of_items_and_a_length(memory: ak.Repository) -> None:
    turns = memory.list("turns")
    turns.append(1, 2)
    assert (turns.items(limit=0), turns.items(limit=5)) == ([], [1, 2])
    with pytest.raises(ValueError, match="limit is 0 or more, not -1"):
        turns.items(limit=-1)
    with pytest.raises(TypeError, match="limit is a whole number, not '1'"):
        turns.items(limit="1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expect is a whole number, not '2'"):
        turns.replace_tail(0, expect="2")  # type: ignore[arg-type]
    assert list(turns) == [1, 2]


def test_events_are_folded_into_a_state_that_can_be_rebuilt_at_any_length(repo: ak.Repository) -> None:
    """QA-3: event sourcing. The state is made of the events, by replay."""
    events = repo.list("account")
    events.extend([{"add": 5}, {"add": 7}, {"take": 2}])

    def step(balance: int, event: dict[str, int]) -> int:
        return balance + event.get("add", 0) - event.get("take", 0)

    assert events.fold(0, step) == 10
    assert events.fold(0, step, until=2) == 12
    events.append({"take": 10})
    assert events.fold(0, step) == 0


ITEM = st.one_of(st.integers(), st.text(max_size=30), st.lists(st.booleans(), max_size=3), st.none())
STEP = st.one_of(
    st.tuples(st.just("append"), st.lists(ITEM, max_size=9)),
    st.tuples(st.just("replace"), st.integers(0, 40), st.lists(ITEM, max_size=4)),
    st.tuples(st.just("pop")),
    st.tuples(st.just("slice"), st.slices(30)),
    st.tuples(st.just("newest"), st.integers(0, 12)),
)


@PLANES
@settings(max_examples=25)
@given(steps=st.lists(STEP, max_size=25))
def test_a_list_is_what_a_list_of_python_is(plane: Plane, steps: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch, ak.open("memory:") as repo:
        patch.setattr(lists, "_PART_BYTES", {"store": 40, "branch": 40})
        ours, model = repo.list("x", plane=plane), list[Any]()
        for what, *more in steps:
            if what == "append":
                assert ours.append(*more[0]) == len(model) + len(more[0])
                model += more[0]
            elif what == "replace" and more[0] <= len(model):
                ours.replace_tail(more[0], more[1], expect=len(model))
                model[more[0] :] = more[1]
            elif what == "pop" and model:
                assert ours.pop() == model.pop()
            elif what == "slice":
                assert ours[more[0]] == model[more[0]]
            elif what == "newest":
                assert ours.items(limit=more[0]) == (model[-more[0] :] if more[0] else [])
            assert len(ours) == len(model)
        assert ours.items() == list(ours) == model
        assert [ours[place] for place in range(-len(model), len(model))] == model + model


# -- many writers, and writers that die

WRITER = """
import sys, agent_kernel as ak
store, plane, who, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with ak.open(store) as repo:
    turns = repo.list("turns", plane=plane)
    for number in range(count):
        length = turns.append({"who": who, "number": number, "text": who * 500})
        print(length, flush=True)
"""


def start(store: Path, plane: str, who: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(store), plane, who, str(count)], stdout=-1, text=True)


def test_processes_that_append_to_one_list_lose_nothing(repo: ak.Repository, tmp_path: Path) -> None:
    writers = [start(tmp_path / "store", "store", who, 40) for who in "abc"]
    assert all(writer.communicate()[0] and writer.returncode == 0 for writer in writers)
    items = repo.list("turns").items()
    assert len(items) == 120
    for who in "abc":
        assert [item["number"] for item in items if item["who"] == who] == list(range(40))


@PLANES
def test_a_writer_that_is_killed_leaves_whole_items(repo: ak.Repository, tmp_path: Path, plane: Plane) -> None:
    writer = start(tmp_path / "store", plane, "k", 100_000)
    assert writer.stdout is not None
    told = [writer.stdout.readline() for _ in range(40)]
    writer.send_signal(signal.SIGKILL)
    told += writer.communicate()[0].splitlines()
    turns, count_told = repo.list("turns", plane=plane), len([line for line in told if line.strip()])
    seen = turns.items()
    length = turns.append("next")
    *items, last = turns.items()
    # All that it was told are there, and at most the one that it was at, whole. LMDB tells readers of a commit after its last
    # write: of one killed between these two the next writer finds what it wrote, and readers see it from then on.
    assert len(seen) - count_told in (0, 1)
    assert len(items) - count_told in (0, 1)
    assert items[: len(seen)] == seen
    assert items == [{"who": "k", "number": number, "text": "k" * 500} for number in range(len(items))]
    assert (last, length) == ("next", len(items) + 1)
    assert repo.verify().is_sound


@PLANES
def test_threads_that_append_and_replace_are_as_if_they_came_in_turn(
    repo: ak.Repository, plane: Plane, small_parts: None
) -> None:
    turns = repo.list("turns", plane=plane)
    turns.extend(range(30))
    bad: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            found = turns.items()
            if found[:30] != list(range(30)) or len(set(map(type, found[30:]))) > 1:
                bad.append(found)

    def replace(value: Any) -> Callable[[], None]:
        def go() -> None:
            for _ in range(8):
                turns.replace_tail(30, [value] * 9)

        return go

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=replace(value)) for value in (1, "one", None)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert bad == []


def test_a_reader_of_a_long_list_opens_few_of_its_parts(repo: ak.Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = repo.list("turns")
    with repo.transaction():
        turns.extend(f"{number:05d}" * 20 for number in range(10_000))
    opened: list[int] = []
    whole = RecordList._part

    def counted(self: RecordList, number: int, tail: Any) -> Any:
        opened.append(number)
        return whole(self, number, tail)

    monkeypatch.setattr(RecordList, "_part", counted)
    assert turns[5_000][:5] == "05000"
    assert [item[:5] for item in turns.items(limit=400)] == [f"{n:05d}" for n in range(9_600, 10_000)]
    assert len(opened) < 15


# -- on a branch, items that were stored one by one become parts of a longer chunk when they are sealed


TURNS = 100  # of 2 KB: three parts are sealed


def grow(repo: ak.Repository, branch: str = "main") -> list[str]:
    """One commit a turn, each with a tag."""
    turns = [f"{number} " + random.Random(number).randbytes(1_000).hex() for number in range(TURNS)]
    talk = repo.list("talk", plane="branch", branch=branch)
    for number, turn in enumerate(turns):
        talk.append(turn)
        repo.create_tag(f"turn-{number}", repo.resolve(branch))
    return turns


def chunks_within_others(repo: ak.Repository) -> int:
    keys = list(repo.pointers.keys(Kind.CHUNK))
    return sum(base_of(key, stored) is not None for key, stored in repo.store.get_many(keys).items())


def check_all(repo: ak.Repository, turns: list[str], numbers: Iterable[int]) -> None:
    for number in numbers:
        assert repo.list("talk", plane="branch").at(f"turn-{number}").items() == turns[: number + 1]
    assert repo.verify().is_sound


def test_each_state_of_a_list_stays_as_it_was_when_its_items_are_sealed(repo: ak.Repository, tmp_path: Path) -> None:
    turns = grow(repo)
    assert chunks_within_others(repo) > 0.6 * TURNS
    check_all(repo, turns, range(0, TURNS, 7))
    with ak.open(tmp_path / "store") as again:
        check_all(again, turns, (0, TURNS // 2, TURNS - 1))


def test_what_was_stored_within_a_chunk_outlives_it(repo: ak.Repository) -> None:
    repo.list("something", plane="branch").append(1)
    repo.create_branch("talking", repo.resolve("HEAD"))
    turns = grow(repo, "talking")
    kept = range(0, 30, 3)  # before the first part was sealed
    repo.delete_branch("talking", force=True)
    for number in range(TURNS):
        if number not in kept:
            repo.delete_tag(f"turn-{number}")
    before = chunks_within_others(repo)
    repo.gc(grace_s=0)
    assert chunks_within_others(repo) < before
    check_all(repo, turns, kept)


def test_a_turn_on_a_branch_costs_little_more_than_its_bytes(repo: ak.Repository) -> None:
    grow(repo)
    stored = sum(repo.stats().stored.values())
    assert stored < 1.2 * TURNS * 2_000  # digits take half of their bytes; without sealing it would be 1.9 times


def test_a_fork_has_the_items_and_shares_what_is_stored(repo: ak.Repository) -> None:
    turns = grow(repo)
    before = sum(repo.stats().stored.values())
    talk = repo.list("talk", plane="branch")
    other = talk.fork("other", 90)
    assert other.items() == turns[:90]
    assert sum(repo.stats().stored.values()) - before < 0.05 * 90 * 2_000
    other.append("another way")
    assert (len(talk), other.items(limit=2)) == (TURNS, [turns[89], "another way"])
    with pytest.raises(ak.StaleRecordError):
        talk.fork("other")
    with pytest.raises(IndexError):
        talk.fork("third", TURNS + 1)
    assert talk.fork("all").items() == turns


@PLANES
def test_a_fork_of_a_list_of_many_parts_begins_where_it_is_told_to(
    repo: ak.Repository, plane: Plane, small_parts: None
) -> None:
    talk = repo.list("talk", plane=plane)
    talk.extend(range(50))
    for until in (0, 1, 9, 25, 49, 50):
        other = talk.fork(f"other {until}", until)
        other.append("end")
        assert other.items() == [*range(until), "end"]
    assert talk.items() == [*range(50)]


# -- the pieces of a long document

VALUE_ENDS = re.compile(rb'(?<=["\]}0-9el])[\]}]*,(?=["{\[0-9-])|[\]}]+$')  # says it in one go, and takes 200 ns a byte


QUOTE = re.compile(rb'\\.|"', re.DOTALL)  # a backslash takes along what follows, also where no JSON has one


@example([b'"', b"y" * 20_000, b'"\\"', b",", b'"'])
@given(
    parts=st.lists(
        st.sampled_from([b'"', b"]", b"}", b",", b"7", b"e", b"[{", b" ", b'"\\\\', b'"\\"', b"x" * 700, b"y" * 20_000])
    )
)
def test_a_document_is_cut_where_values_end_and_else_every_16_kb(parts: list[bytes]) -> None:
    document, cuts, start = b"".join(parts), list[int](), 0
    quotes = [found.start() for found in QUOTE.finditer(document) if found[0] == b'"']

    def is_between_texts(found: re.Match[bytes]) -> bool:
        last = found.end() - 1
        return document[last:] == b"" or document[last] != ord(",") or bisect_left(quotes, last) % 2 == 0

    while len(document) - start > 1_024:
        ends = VALUE_ENDS.finditer(document, start + 1_024, start + (16 << 10))
        found = next(filter(is_between_texts, ends), None)
        if found is None and len(document) - start <= 16 << 10:
            break
        start = start + (16 << 10) if found is None else found.start()
        cuts.append(start)
    assert plan_cuts(document) == [*cuts, *[len(document)] * (start < len(document))]


def test_one_item_is_not_taken_for_a_list_of_items() -> None:
    talk = ak.open("memory:").list("talk")
    talk.append("first")
    for one in ("text", b"bytes", {"role": "user"}):
        for store in (talk.extend, lambda items: talk.replace_tail(0, items)):
            with pytest.raises(TypeError, match="a list of items"):
                store(one)
    assert list(talk) == ["first"]
