"""A conversation costs what is said in it: growth is bounded, on a branch too, where each turn is a commit."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.records.schema import Plane
from agent_kernel.repository.commits import Kind
from agent_kernel.repository.rewrite import Retention
from agent_kernel.storage import SupportsSize

SIGNS = "".join(sign for sign in map(chr, range(33, 127)) if sign not in '"\\')
TURN_BYTES = 2_048
TURNS = 320  # ten parts of a list: what waits to become part of one lies in pages of its own


def bytes_in(place: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in place.rglob("*") if file.is_file())


@pytest.mark.parametrize("plane", ["store", "branch"])
def test_turns_of_2_kb_take_at_most_1_2_times_their_bytes(tmp_path: Path, plane: Plane) -> None:
    lot = random.Random(0)
    with ak.open(tmp_path / "store") as repo:
        talk = repo.list("talk", plane=plane)

        def say() -> int:
            for _ in range(TURNS):
                talk.append("".join(lot.choices(SIGNS, k=TURN_BYTES)))
            return bytes_in(tmp_path)

        say()  # what a store takes in any case
        before, after = say(), say()
        assert after - before <= 1.2 * TURNS * TURN_BYTES


def test_question_and_answer_take_at_most_1_2_times_their_bytes_where_they_need_no_commit_each(tmp_path: Path) -> None:
    lot = random.Random(0)
    with ak.open(tmp_path / "store") as repo:
        talk = repo.list("talk", plane="branch", commit_each=False)

        def say() -> int:
            for _ in range(TURNS * 2):
                talk.append("".join(lot.choices(SIGNS, k=TURN_BYTES // 2)))
            return bytes_in(tmp_path)

        say()
        before, after = say(), say()
        assert after - before <= 1.2 * TURNS * TURN_BYTES
        assert len(talk) == 6 * TURNS


def test_turns_that_a_session_commits_add_at_most_1_2_times_their_bytes_to_its_commits(tmp_path: Path) -> None:
    """Pages in use count: those that are free for reuse come and go by a sixth of what so few turns say."""

    def grown(name: str, *, says: bool) -> int:
        lot = random.Random(0)
        with ak.open(tmp_path / name) as repo, ak.Versioned(repo) as state:
            store = repo.store
            assert isinstance(store, SupportsSize)
            talk = repo.list("talk", plane="branch")

            def turns() -> int:
                for number in range(TURNS):
                    for _ in range(2 if says else 0):
                        talk.append("".join(lot.choices(SIGNS, k=TURN_BYTES // 2)))
                    state["number"] = number
                    state.commit("a turn")
                return store.size().used_bytes

            before = turns()
            return turns() - before

    assert grown("talk", says=True) - grown("alone", says=False) <= 1.2 * TURNS * TURN_BYTES


def test_a_change_of_a_list_leaves_one_piece_however_many_items_it_adds(tmp_path: Path) -> None:
    """Each item of 1 KB was a piece of its own, with an entry in the store: question and answer in one change took 1.3 times their bytes."""
    with ak.open(tmp_path / "store") as repo:
        talk = repo.list("talk", plane="branch")
        texts = [f"{number} " + "word, [1],{2} " * 90 for number in range(120)]
        for start in range(0, len(texts), 4):
            talk.append(*texts[start : start + 4])
        assert sum(1 for _ in repo.pointers.keys(Kind.CHUNK)) <= 30 + 5
        assert list(talk) == texts
        fork = talk.fork("fork")
        assert sum(1 for _ in repo.pointers.keys(Kind.CHUNK)) <= 30 + 6
        assert (list(fork), repo.verify().is_sound) == (texts, True)


def message(text: str, number: int) -> dict[str, Any]:
    """As frameworks write it: the text, and what else there is to say of it."""
    part = {"content": text, "timestamp": f"2026-11-28T03:46:{number % 60:02}Z", "part_kind": "text"}
    usage = dict.fromkeys(("input_tokens", "cache_read_tokens", "output_tokens", "output_audio_tokens"), number)
    more = dict.fromkeys(("model_name", "provider_name", "provider_url", "finish_reason", "run_id", "metadata"))
    return {"parts": [part], "usage": usage, **more, "kind": "response", "state": "complete"}


def test_messages_of_many_fields_take_at_most_1_2_times_their_bytes(tmp_path: Path) -> None:
    """Each turn left its end behind as a piece of its own, which no later version has."""
    lot = random.Random(0)
    with ak.open(tmp_path / "store") as repo:
        talk = repo.list("talk", plane="branch")

        def say() -> tuple[int, int]:
            own = 0
            for number in range(TURNS):
                turn = [message("".join(lot.choices(SIGNS, k=1_024)), number) for _ in range(2)]
                own += len(json.dumps(turn))
                talk.extend(turn)
            return own, bytes_in(tmp_path)

        _, before = say()
        own, after = say()
        assert after - before <= 1.2 * own


def test_each_turn_on_a_branch_is_a_commit_that_can_be_gone_back_to(tmp_path: Path) -> None:
    texts = [f"{number} " + "word, 1 " * 200 for number in range(120)]
    with ak.open(tmp_path / "store") as repo:
        talk = repo.list("talk", plane="branch")
        ids = [(talk.append(text), repo.resolve("main"))[1] for text in texts]
        assert len(set(ids)) == len(texts)
    with ak.open(tmp_path / "store") as repo:  # with nothing remembered
        talk = repo.list("talk", plane="branch")
        for number in (0, 1, 7, 31, 32, 33, 64, 90, 119):
            assert list(talk.at(ids[number].hex()[:64])) == texts[: number + 1]
        assert [id for id, _ in repo.log()] == ids[::-1]
        assert len(list(talk.history())) == len(texts)
        assert repo.verify().is_sound
        repo.create_branch("again", ids[40])
        again = repo.list("talk", plane="branch", branch="again")
        again.append("another way")
        assert list(again) == [*texts[:41], "another way"]
        repo.gc(grace_s=0)
        assert repo.verify().is_sound
        assert list(talk) == texts


def test_a_commit_of_records_is_stored_as_what_it_differs_in_and_survives_the_ones_before(tmp_path: Path) -> None:
    with ak.open(tmp_path / "store") as repo:
        talk = repo.list("talk", plane="branch")
        for number in range(60):
            talk.append(f"{number} " + "text " * 300)
        sizes = [len(repo.store.get_many([Kind.COMMIT + id])[Kind.COMMIT + id]) for id, _ in repo.log()]
        assert sorted(sizes)[len(sizes) // 2] < 260
        repo.create_tag("middle", list(repo.log())[20][0])
        items = talk.at("middle").items()
        repo.prune(Retention(keep_last=1))
        assert len(list(repo.log())) < 60
        assert talk.items(limit=1)[0].startswith("59 ")
        assert talk.at("middle").items() == items
        assert repo.verify().is_sound


def test_a_text_is_not_cut_where_it_looks_like_the_end_of_a_value(tmp_path: Path) -> None:
    """Each such cut left a piece behind that no later version has."""
    with ak.open(tmp_path / "store") as repo:
        talk = repo.list("talk", plane="branch")
        for number in range(70):
            talk.append(f"{number} " + 'so said, "1,2,3" and {"a": [1,2]},{"b": "\\"} ' * 40)
        chunks = sum(1 for _ in repo.pointers.keys(Kind.CHUNK))
        assert chunks < 70 + 10
        assert [text.partition(" ")[0] for text in talk] == [str(number) for number in range(70)]
