"""The state of an agent: each row of the feature list that speaks of state, as a test."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agent_kernel as ak
from agent_kernel.records import Change, State
from agent_kernel.records.schema import Plane
from agent_kernel.repository import hex_of


@pytest.fixture
def repo() -> Iterator[ak.Repository]:
    with ak.open("memory:") as opened:
        yield opened


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[ak.Repository]:
    with ak.open(tmp_path / "store") as opened:
        yield opened


PLANES = pytest.mark.parametrize("plane", ["branch", "store"])


# -- Agno


@PLANES
def test_values_are_got_set_updated_and_deleted_by_key(repo: ak.Repository, plane: Plane) -> None:
    """AGNO-1: get, set, has, delete, update, clear, get_all."""
    state = repo.state("ada", plane=plane)
    assert state.get("city") is None
    assert state.get("city", "unknown") == "unknown"
    state.set("city", "London")
    state.set("nothing", None)
    state.set("zero", 0)
    assert (state.get("city"), state.get("nothing", "default"), state.get("zero", 1)) == ("London", None, 0)
    assert state.has("nothing")
    assert not state.has("country")
    assert state.update("profile", {"age": 36}) == {"age": 36}
    assert state.update("profile", {"job": "countess"}) == {"age": 36, "job": "countess"}
    assert state.update("zero", lambda old: old + 1) == 1
    with pytest.raises(ak.InvalidRecordError, match="its value is of type str, not a mapping"):
        state.update("city", {"x": 1})
    assert state.get_all() == {
        "city": "London",
        "nothing": None,
        "zero": 1,
        "profile": {"age": 36, "job": "countess"},
    }
    assert state.keys("p*") == ["profile"]
    assert state.delete("city")
    assert not state.delete("city")
    state.clear()
    assert state.get_all() == {}


@PLANES
def test_all_values_are_replaced_at_once_or_not_at_all(repo: ak.Repository, plane: Plane) -> None:
    state = repo.state("ada", plane=plane, validators={"age": lambda value: value >= 0})
    state.set_many({"city": "London", "age": 36})
    state.replace({"age": 37, "food": "figs"})
    assert state.get_all() == {"age": 37, "food": "figs"}
    with pytest.raises(ak.InvalidRecordError):
        state.replace({"city": "Paris", "age": -1})
    with pytest.raises(ak.RecordAccessError, match="food"):
        repo.state("ada", plane=plane, allow={"write": ["age"]}).replace({"age": 38})
    assert state.get_all() == {"age": 37, "food": "figs"}
    state.replace({})
    assert state.get_all() == {}


def test_what_was_read_is_a_copy(repo: ak.Repository) -> None:
    for state in (repo.state("ada"), repo.state("bob", cache_s=60)):
        given_value: dict[str, Any] = {"tags": ["a"]}
        state.set("x", given_value)
        given_value["tags"].append("mine")
        for _ in range(2):
            state.get("x")["tags"].append("yours")
        assert state.get("x") == {"tags": ["a"]}


def test_users_and_sessions_have_nothing_in_common(repo: ak.Repository) -> None:
    """QA-9: session-scoped, no globals. Also where names look like parts of others."""
    names = [("a", "b"), ("a", "b/c"), ("a/b", "c"), ("a", ""), ("", "a"), ("a*", "b"), ("a[b]", "b"), ("a%2Fb", "c")]
    states = [repo.state(user, session) for user, session in names]
    for number, state in enumerate(states):
        state.set("c/d", number)
        state.save()
    assert [state.get_all() for state in states] == [{"c/d": number} for number in range(len(names))]
    states[0].clear()
    assert states[1].get_all() == {"c/d": 1}


def test_a_state_can_be_shown_to_a_model(repo: ak.Repository) -> None:
    """AGNO-2: the state in the model's context; secrets only by name."""
    pytest.importorskip("cryptography")
    state = repo.state("ada", secret="key", secret_keys=["token"])
    state.set_many({"cart": ["tea"], "token": "hunter2", "user": {"name": "Ada"}})
    assert state.as_text() == 'cart: ["tea"]\ntoken: (secret)\nuser: {"name":"Ada"}'
    assert state.as_text("c*", max_chars=8) == "cart: […"


def test_a_state_is_there_again_in_another_process(stored: ak.Repository, tmp_path: Path) -> None:
    """AGNO-3, QA-2: persisted by session id; the state of a store in memory goes with it, and one need not have any."""
    stored.state("ada", "s1").set("runs", 1)
    code = "import agent_kernel as ak, sys\nwith ak.open(sys.argv[1]) as repo: repo.state('ada', 's1').count('runs')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "store")], check=True)
    assert stored.state("ada", "s1").get("runs") == 2
    with ak.open("memory:") as one, ak.open("memory:") as other:
        one.state("ada").set("runs", 1)
        assert not other.state("ada").has("runs")


def test_a_function_is_handed_the_state(repo: ak.Repository) -> None:
    """AGNO-4: state-aware tools. A model neither sees the parameter nor can fill it."""
    state = repo.state("ada")

    def add(item: str, agent_state: State, count: int = 1) -> int:
        """Add to the cart."""
        return len(agent_state.update("cart", lambda cart: (cart or []) + [item] * count))

    async def add_later(item: str, *, agent_state: State) -> int:
        await asyncio.sleep(0)
        return add(item, agent_state)

    tool, later = state.bind(add), state.bind(add_later)
    assert (tool("tea"), tool("milk", count=2)) == (1, 3)
    assert asyncio.run(later("bread")) == 4
    assert state.get("cart") == ["tea", "milk", "milk", "bread"]
    assert list(inspect.signature(tool).parameters) == ["item", "count"]
    assert "agent_state" not in tool.__annotations__
    assert (tool.__name__, tool.__doc__) == ("add", "Add to the cart.")
    assert inspect.iscoroutinefunction(later)
    with pytest.raises(TypeError):
        tool("tea", agent_state=repo.state("bob"))
    with pytest.raises(TypeError, match="no parameter agent_state"):
        state.bind(len)


def test_a_life_of_a_state(repo: ak.Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """AGNO-5: init once, counters, export, cleanup by days."""
    state = repo.state("ada")
    assert state.init({"theme": "dark", "visits": 0}) == ["theme", "visits"]
    state.set("theme", "light")
    assert state.init({"theme": "dark", "visits": 0}) == []
    assert [state.count("visits"), state.count("visits", 5)] == [1, 6]
    state.save()
    exported = state.export_state()
    assert exported["values"] == {"theme": "light", "visits": 6}
    assert (exported["user"], exported["session"], exported["keys"], exported["rounds"]) == ("ada", "default", 2, [1])
    assert json.loads(json.dumps(exported)) == exported
    later = time.time_ns() + 8 * 86_400 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: later)
    state.count("visits")
    assert state.cleanup(9) == 0
    assert state.cleanup(7) == 2
    assert (state.get_all(), state.rounds(), state.load()) == ({"visits": 7}, [], None)
    assert state.save() == 1


def test_values_are_sanitised_and_validated_and_failures_are_seen(repo: ak.Repository) -> None:
    """AGNO-6, QA-9: validators by key; a failure raises and nothing is stored."""

    def adult(age: int) -> bool:
        return age >= 18

    state = repo.state("ada", validators={"age": adult, "mail.*": check_mail}, sanitisers={"name": str.strip})
    state.set_many({"name": "  Ada ", "age": 36, "mail.home": "ada@example.org"})
    before = state.get_all()
    assert before["name"] == "Ada"
    for key, value, why in (
        ("age", 3, "adult refuses it"),
        ("age", "old", "not supported"),
        ("mail.work", "nowhere", "it has no @"),
        ("name", 5, "doesn't apply"),
        ("x", {1, 2}, "valid JSON"),
    ):
        with pytest.raises(ak.InvalidRecordError, match=why) as found:
            state.set(key, value)
        assert "\n" not in str(found.value)
        with pytest.raises(ak.InvalidRecordError):
            state.set_many({"name": "Eve", key: value})
    assert state.get_all() == before
    with pytest.raises(ak.InvalidRecordError):
        state.save({"age": 3})
    assert state.rounds() == []


def check_mail(mail: str) -> None:
    if "@" not in mail:
        raise ValueError("it has no @")


@PLANES
def test_a_backup_is_checked_before_it_is_restored(repo: ak.Repository, plane: Plane) -> None:
    """AGNO-7: backup and restore with validation."""
    state = repo.state("ada", plane=plane, validators={"age": lambda age: age < 150})
    state.set_many({"age": 36, "city": "London"})
    backup = state.backup()
    state.set_many({"age": 37, "job": "countess"})
    state.restore(backup)
    assert state.get_all() == {"age": 36, "city": "London"}
    other = repo.state("bob", plane=plane)
    other.set_many({"age": 200})
    for bad, why in (
        (backup.replace("36", "37"), "checksum"),
        (backup[:-9], "truncated|malformed"),
        ("{}", "format"),
        (backup.replace('"format": 1', '"format": 3'), "knows 2"),
        (other.backup(), "refuses"),
    ):
        with pytest.raises(ak.InvalidRecordError, match=why):
            state.restore(bad)
        assert state.get_all() == {"age": 36, "city": "London"}


def test_reads_are_cached_for_a_while_and_writes_come_in_one(
    repo: ak.Repository, wait: Callable[[float], None]
) -> None:
    """AGNO-8: cached reads with a time to live, batch update, invalidate(key or all)."""
    state, other = repo.state("ada", cache_s=60), repo.state("ada")
    state.set_many({"a": 1, "b": 1})
    assert [commit.message for _, commit in repo.log()] == ["state of ada: set 2 keys"]
    assert (state.get("a"), state.get("b"), state.get("c")) == (1, 1, None)
    other.set_many({"a": 2, "b": 2, "c": 2})
    assert (state.get("a"), state.get("b"), state.get("c", "absent")) == (1, 1, "absent")
    state.invalidate("a")
    assert (state.get("a"), state.get("b")) == (2, 1)
    state.invalidate()
    assert (state.get("b"), state.get("c")) == (2, 2)
    state.set("a", 3)
    assert state.get("a") == 3
    brief = repo.state("ada", cache_s=60)
    assert brief.get("a") == 3
    other.set("a", 4)
    wait(61)
    assert brief.get("a") == 4


def test_a_checkout_rewinds_what_was_read_a_moment_ago(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as variables:
        state = repo.state("ada", cache_s=60)
        for number in (1, 2):
            state.set("mood", number)
            variables["number"] = number
            variables.commit(str(number))
            assert state.get("mood") == number
        variables.undo()
        assert (variables["number"], state.get("mood")) == (1, 1)


def test_a_cache_never_keeps_what_was_not_stored(repo: ak.Repository) -> None:
    state = repo.state("ada", cache_s=60)
    state.set("a", 1)

    def fail_half_way() -> None:
        with repo.transaction():
            state.set("a", 2)
            assert state.get("a") == 2
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert state.get("a") == 1


def test_secrets_are_encrypted_and_keys_have_rights(stored: ak.Repository, tmp_path: Path) -> None:
    """AGNO-9: encrypted values, access by key."""
    pytest.importorskip("cryptography")
    state = stored.state("ada", secret="open sesame", secret_keys=["card*"])
    state.set_many({"card": "4111111111111111", "city": "London"})
    state.save()
    state.checkpoint()
    backup = state.backup()
    assert state.get("card") == "4111111111111111"
    assert "4111" not in backup
    assert not any(b"411111" in path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    for stranger in (stored.state("ada"), stored.state("ada", secret="guess")):
        assert stranger.get("city") == "London"
        assert stranger.has("card")
        with pytest.raises(ak.SealedRecordError):
            stranger.get("card")
        with pytest.raises(ak.SealedRecordError):
            stranger.load()
        with pytest.raises(ak.SealedRecordError):
            stranger.restore(backup)
    state.clear()
    state.restore(backup)
    assert state.get("card") == "4111111111111111"


def test_who_may_not_read_or_write_a_key_cannot(repo: ak.Repository) -> None:
    """AGNO-9: access control by key, also by what touches all keys."""
    state = repo.state("ada")
    state.set_many({"public.city": "London", "private.pin": 1234})
    guest = state.restricted(read=["public.*"], write=["public.note"])
    assert guest.get_all() == {"public.city": "London"}
    guest.set("public.note", "hello")
    for refused in (
        lambda: guest.get("private.pin"),
        lambda: guest.has("private.pin"),
        lambda: guest.set("public.city", "Paris"),
        lambda: guest.update("private.pin", lambda pin: pin),
        lambda: guest.delete("public.city"),
        guest.clear,
        guest.save,
        guest.checkpoint,
        guest.backup,
        lambda: guest.restore(state.backup()),
        lambda: next(guest.history("private.pin")),
        lambda: guest.restricted().get("private.pin"),
    ):
        before = state.get_all()
        with pytest.raises(ak.RecordAccessError):
            refused()
        assert state.get_all() == before
    state.save()
    assert guest.load() == {"public.city": "London", "public.note": "hello"}
    assert repo.state("ada", allow={"read": []}).keys() == []


# -- AgentScope


@PLANES
def test_rounds_are_numbered_from_one_and_can_be_overwritten(repo: ak.Repository, plane: Plane) -> None:
    """AS-1: next is the largest plus one, the first is 1, an explicit round overwrites."""
    state = repo.state("ada", plane=plane)
    given_state: dict[str, Any] = {"turns": ["hello"]}
    assert state.save(given_state) == 1
    assert state.save({"turns": []}) == 2
    assert state.save({"turns": ["seven"]}, round=7) == 7
    assert state.save({"turns": ["three"]}, round=3) == 3
    assert state.save({"turns": ["eight"]}) == 8
    assert state.save({"turns": ["again"]}, round=7) == 7
    assert state.rounds() == [1, 2, 3, 7, 8]
    given_state["turns"].append("later")
    assert state.load(1) == {"turns": ["hello"]}
    assert state.load(7) == {"turns": ["again"]}
    assert state.save({"more": 1}, merge=True) == 9
    assert state.load() == {"turns": ["eight"], "more": 1}
    assert repo.state("ada", "other", plane=plane).save({}) == 1
    with pytest.raises(ValueError, match="0 or more"):
        state.save({}, round=-1)
    with pytest.raises(ak.InvalidRecordError):
        state.save({"turns": {1}})
    assert state.rounds()[-1] == 9


def test_the_newest_round_is_loaded_or_none(repo: ak.Repository) -> None:
    """AS-2: latest, else None; a copy that is one's own."""
    state = repo.state("ada")
    assert state.load() is None
    state.save({"x": [1]})
    loaded = state.load()
    assert loaded is not None
    loaded["x"].append(2)
    assert state.load() == {"x": [1]}
    assert state.load(5) is None


def test_processes_that_save_rounds_get_numbers_of_their_own(stored: ak.Repository, tmp_path: Path) -> None:
    code = (
        "import agent_kernel as ak, sys\n"
        "with ak.open(sys.argv[1]) as repo:\n"
        "    state = repo.state('ada', plane='store')\n"
        "    print(*[state.save({'n': n}) for n in range(10)])\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "store")]
    writers = [subprocess.Popen(command, stdout=-1, text=True) for _ in range(2)]
    numbers = [int(number) for writer in writers for number in writer.communicate()[0].split()]
    assert sorted(numbers) == list(range(1, 21))


@PLANES
@pytest.mark.parametrize("place", ["memory:", "store"])
def test_a_state_begins_with_its_repository_and_ends_with_it(plane: Plane, place: str, tmp_path: Path) -> None:
    """AS-3: begin, health and end; what is saved and loaded are copies; coroutines may use it."""
    repo = ak.open(place if place == "memory:" else tmp_path / place)
    state, given_state = repo.state("ada", plane=plane), {"turns": ["hello"]}

    async def use() -> dict[str, Any] | None:
        state.save(given_state)
        given_state["turns"].append("later")
        return state.load()

    loaded = asyncio.run(use())
    assert loaded is not None
    assert loaded == {"turns": ["hello"]}
    loaded["turns"].append("later")
    assert state.load() == {"turns": ["hello"]}
    assert repo.verify().is_sound
    repo.close()
    for refused in (lambda: state.load(), lambda: state.save({}), lambda: state.get("turns")):
        with pytest.raises(ak.StoreUnavailableError):
            refused()


def test_a_state_lies_in_any_store(tmp_path: Path) -> None:
    """AS-4: in memory, on the disk, or in a store of one's own that has the methods of `Store`."""
    from agent_kernel.storage import MemoryStore

    class Own:
        def __init__(self) -> None:
            self.inner = MemoryStore()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    own: Any = Own()
    for place in ("memory:", tmp_path / "store", own):
        with ak.open(place) as repo:
            assert repo.state("ada").save({"turns": 1}) == 1
            assert repo.state("ada").load() == {"turns": 1}
    with ak.open(tmp_path / "store") as again:
        assert again.state("ada").load() == {"turns": 1}


def test_an_agent_that_has_a_state_dict_is_saved_and_loaded(repo: ak.Repository) -> None:
    """AS-5: the contract state_dict() and load_state_dict()."""

    class Counter:
        count = 3

        def state_dict(self) -> dict[str, Any]:
            return {"count": self.count}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.count = state["count"]

    state, agent = repo.state("ada"), Counter()
    assert not state.load_into(agent)
    assert state.save(agent) == 1
    agent.count = 9
    assert state.load_into(agent)
    assert agent.count == 3
    with pytest.raises(ak.InvalidRecordError, match="a state is a mapping, not a list"):
        state.save([1])


# -- the questions


def test_a_user_a_conversation_and_a_task_have_each_their_own(repo: ak.Repository) -> None:
    """QA-1: the scopes."""
    first, second = repo.state("ada", "one"), repo.state("ada", "two")
    first.scope("user").set("name", "Ada")
    first.set("topic", "engines")
    first.scope("task", "plan").set("step", 3)
    assert second.scope("user").get("name") == "Ada"
    assert second.get("topic") is None
    assert first.scope("task", "plan").get_all() == {"step": 3}
    assert first.scope("task", "other").get_all() == second.scope("task", "plan").get_all() == {}
    assert first.get_all() == {"topic": "engines"}
    assert first.scope("conversation").get("topic") == "engines"


def test_a_state_is_rebuilt_from_its_events(repo: ak.Repository) -> None:
    """QA-3: event sourcing in a state; a checkout rewinds the events."""
    events = repo.state("ada").events()
    for amount in (5, 7, -2):
        events.append({"amount": amount})
    repo.create_tag("then", repo.resolve("HEAD"))
    events.append({"amount": 100})

    def step(balance: int, event: dict[str, int]) -> int:
        return balance + event["amount"]

    assert events.fold(0, step) == 110
    assert events.at("then").fold(0, step) == 10


def test_values_sink_through_the_tiers_and_come_up_when_they_are_used(repo: ak.Repository) -> None:
    """QA-4: hot, warm and cold, with a context that combines them."""
    state = repo.state("ada")
    tiers = state.tiers(hot=2, warm=4)
    for number in range(8):
        tiers.put(f"k{number}", [number])
    assert [tiers.tier(f"k{number}") for number in range(8)] == ["cold"] * 4 + ["warm"] * 2 + ["hot"] * 2
    assert list(tiers.context()) == ["k7", "k6", "k5", "k4"]
    assert list(tiers.context(cold="k[01]")) == ["k7", "k6", "k5", "k4", "k1", "k0"]
    assert tiers.get("k0") == [0]
    assert (tiers.tier("k0"), tiers.tier("k4"), tiers.tier("zz")) == ("hot", "cold", None)
    tiers.get("k0").append("mine")
    assert tiers.get("k0") == [0]
    other = state.tiers(hot=2, warm=4)
    assert (other.tier("k0"), other.get("k0")) == ("warm", [0])
    other.put("k0", "changed elsewhere")
    assert tiers.get("k0") == "changed elsewhere"
    assert tiers.delete("k0")
    assert tiers.get("k0", "gone") == "gone"


def test_a_transition_that_is_not_in_the_table_raises(repo: ak.Repository) -> None:
    """QA-5: a state machine for a key."""
    state = repo.state("ada", transitions={"order.*": {"new": ["paid", "cancelled"], "paid": ["sent"], "sent": []}})
    state.set("order.1", "new")
    with pytest.raises(ak.TransitionError, match="cannot go from new to sent: only paid, cancelled can follow"):
        state.set("order.1", "sent")
    state.set_many({"order.1": "paid"})
    state.set("order.1", "paid")
    with pytest.raises(ak.TransitionError):
        state.update("order.1", lambda _: "new")
    state.set("order.1", "sent")
    with pytest.raises(ak.TransitionError, match="nothing can follow it"):
        state.set("order.1", "new")
    assert next(change.new for change in state.history("order.1")) == "sent"


def words(text: str) -> int:
    return len(text.split())


def test_a_conversation_never_has_more_tokens_than_it_may(repo: ak.Repository) -> None:
    """QA-6: bounded; the oldest messages are dropped."""
    memory = repo.state("ada").memory(12, count_tokens=words)
    for number in range(10):
        memory.add("user", f"message {number} of mine", source="test")
        assert memory.tokens() <= 12
    assert [message["content"] for message in memory.messages()] == [f"message {n} of mine" for n in (7, 8, 9)]
    assert memory.messages()[0]["source"] == "test"
    assert len(memory) == len(memory.all) == 10
    with pytest.raises(ak.InvalidRecordError, match="13 tokens, and the memory 12"):
        memory.add("user", "word " * 13)
    memory.clear()
    assert (len(memory), memory.messages()) == (0, [])
    memory.add("user", "new")
    assert memory.tokens() == 1


def test_a_conversation_is_summarised_by_a_given_function(
    repo: ak.Repository, caplog: pytest.LogCaptureFixture
) -> None:
    """QA-6: bounded; what no longer fits is summarised. A function that raises loses nothing."""
    asked: list[tuple[str, list[str]]] = []

    def summarise(summary: str, dropped: list[dict[str, Any]]) -> str:
        asked.append((summary, [message["content"] for message in dropped]))
        if len(asked) == 3:
            raise ConnectionError("no model")
        return f"{len(asked)} summaries" if len(asked) < 6 else "far too long " * 50

    memory = repo.state("ada").memory(20, count_tokens=words, summarise=summarise)
    for number in range(40):
        memory.add("user", f"message {number} of mine")
        assert memory.tokens() <= 20
    assert asked[0] == ("", [f"message {number} of mine" for number in range(4)])
    assert asked[1][0] == "1 summaries"
    assert "no model" in caplog.text
    seen = [text for number, (_, texts) in enumerate(asked) for text in texts if number != 2]
    assert seen == [f"message {number} of mine" for number in range(len(seen))]  # each is summarised once
    assert memory.messages()[0]["role"] == "system"
    assert memory.messages()[-1]["content"] == "message 39 of mine"
    assert len(memory) == 40


def test_the_newest_message_is_sent_as_it_is_however_long_it_is(repo: ak.Repository) -> None:
    """QA-6: a summary stands for what was said before, and never for what was just asked."""
    asked: list[str] = []

    def summarise(summary: str, dropped: list[dict[str, Any]]) -> str:
        asked.extend(message["content"] for message in dropped)
        return "a summary of five words"

    memory = repo.state("ada").memory(10, count_tokens=words, summarise=summarise)
    said: list[str] = []
    for number, length in enumerate((3, 4, 8, 9, 10, 2, 1, 10, 7)):
        said.append(" ".join([str(number)] * length))
        memory.add("user", said[-1])
        sent = memory.messages()
        assert memory.tokens() <= 10
        assert sent[-1]["content"] == said[-1]
        assert asked + [one["content"] for one in sent if one["role"] == "user"] == said
    assert repo.state("ada").memory(3, count_tokens=words).tokens() == 3  # of the summary: no message has so few
    with pytest.raises(ak.InvalidRecordError, match=r"^memory 'memory' is not valid: a role is text, not 5"):
        memory.add(5, "hello")  # type: ignore[arg-type]


def test_a_checkout_rewinds_a_conversation_with_the_variables(repo: ak.Repository) -> None:
    """QA-2: what belongs to a line of history goes with it, and what is stored beside it stays."""
    state, beside = repo.state("ada"), repo.state("ada", plane="store")
    memory = state.memory(100)
    with ak.Versioned(repo) as variables:
        variables["x"] = 1
        memory.add("user", "first")
        state.set("mood", "calm")
        beside.set("paid", 1)
        variables.commit("one")
        repo.create_tag("then", repo.resolve("HEAD"))
        variables["x"] = 2
        memory.add("user", "second")
        state.set("mood", "angry")
        beside.set("paid", 2)
        variables.rollback("then")
        assert (variables["x"], [m["content"] for m in memory.messages()]) == (1, ["first"])
        assert (state.get("mood"), beside.get("paid")) == ("calm", 2)


HOLDER = """
import agent_kernel as ak, sys, time
with ak.open(sys.argv[1]) as repo:
    lock = repo.lock("index", lease_s=float(sys.argv[2]))
    assert lock.acquire()
    print(lock.token, flush=True)
    time.sleep(60)
"""


def hold(store: Path, lease_s: float) -> subprocess.Popen[str]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(store), str(lease_s)], stdout=-1, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline().strip().isdigit()
    return holder


def test_a_lock_is_held_by_one_and_ends_with_its_lease_or_its_process(stored: ak.Repository, tmp_path: Path) -> None:
    """QA-7: a lock between processes with expiry; one whose process is gone ends too."""
    lock = stored.lock("index", lease_s=30)
    with hold(tmp_path / "store", 600) as holder:
        assert not lock.acquire(wait_s=0)
        assert f"process {holder.pid}" in lock.holder()
        with pytest.raises(ak.LockHeldError, match=f"process {holder.pid}"), stored.lock("index", wait_s=0.05):
            pass
        holder.send_signal(signal.SIGKILL)
    began = time.monotonic()
    assert lock.acquire(wait_s=5)
    assert time.monotonic() - began < 2
    assert lock.is_held
    lock.release()
    assert not lock.is_held
    with hold(tmp_path / "store", 0.4) as holder:
        assert lock.acquire(wait_s=5)  # it lives, and its time is over
        holder.kill()


def test_a_lock_has_a_token_that_grows_and_a_lease_that_can_be_extended(repo: ak.Repository) -> None:
    """QA-7: who comes too late is told."""
    one, two = repo.lock("x", lease_s=0.4), repo.lock("x")
    assert one.acquire()
    token = one.token
    one.extend(1.2)
    assert not two.acquire(wait_s=0.5)
    assert two.acquire(wait_s=5)
    assert (one.token, two.token > token) == (0, True)
    with pytest.raises(ak.LockHeldError):
        one.extend()
    one.release()  # it is not its own any more
    assert two.is_held
    two.release()
    two.release()
    assert two.holder() == ""
    with repo.transaction(), pytest.raises(ValueError, match="transaction"):
        two.acquire()


def test_threads_take_turns_with_a_lock_and_count_without(repo: ak.Repository) -> None:
    """QA-7: atomic update."""
    state, lock = repo.state("ada", plane="store"), repo.lock("turns", wait_s=30)
    inside: list[int] = []

    def work() -> None:
        for _ in range(5):
            with lock:
                inside.append(1)
                assert len(inside) == 1
                inside.pop()
            state.count("done")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state.get("done") == 20


@PLANES
def test_a_state_goes_back_to_its_checkpoints(repo: ak.Repository, plane: Plane) -> None:
    """QA-8: checkpoint, rollback(steps), get."""
    state = repo.state("ada", plane=plane)
    with pytest.raises(IndexError, match="no checkpoint 1 step back"):
        state.rollback()
    for number in range(1, 5):
        state.set("n", number)
        assert state.checkpoint(f"at {number}") == number
    state.set("extra", True)
    assert state.rollback() == 4  # it had changed since
    assert state.get_all() == {"n": 4}
    assert (state.rollback(), state.get("n")) == (3, 3)
    assert (state.rollback(2), state.get("n")) == (1, 1)
    with pytest.raises(IndexError):
        state.rollback()
    state.set("n", 10)
    assert state.checkpoint() == 5
    assert (state.rollback(), state.get("n")) == (1, 1)  # 5 came after 1
    assert state.checkpoints() == {1: "at 1", 2: "at 2", 3: "at 3", 4: "at 4", 5: ""}
    assert (state.values_at(4), state.values_at(9)) == ({"n": 4}, None)


def test_two_users_of_a_value_do_not_overwrite_each_other_unseen(repo: ak.Repository) -> None:
    """QA-10: conflicts. A stale write raises; an update is made of what is there; different keys never meet."""
    state = repo.state("ada")
    state.set("doc", "one")
    seen = state.version("doc")
    state.set("doc", "two")
    with pytest.raises(ak.StaleRecordError):
        state.set("doc", "mine", expect=seen)
    state.set("doc", "mine", expect=state.version("doc"))
    with pytest.raises(ak.StaleRecordError):
        state.set("doc", "new", expect=0)
    both = [threading.Thread(target=lambda key=key: [state.count(key) for _ in range(10)]) for key in "ab"]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert (state.get("a"), state.get("b")) == (10, 10)


def test_a_typed_state_of_an_older_program_is_migrated_as_it_is_read(repo: ak.Repository) -> None:
    """QA-10: schema migration. A state that has a schema is a record; values by key need none."""

    class Profile(ak.Record):
        name: str

    repo.records(Profile).put(Profile(id="ada", name="Ada"), user="ada")

    def newer() -> Any:
        class Profile(ak.Record):
            schema_version = 2
            names: list[str]

            @ak.migration(2)
            def split(old: dict[str, Any]) -> dict[str, Any]:  # pyright: ignore[reportGeneralTypeIssues]  # made static
                return {"id": old["id"], "names": [old["name"]]}

        return Profile

    assert repo.records(newer())["ada"].names == ["Ada"]


# -- what is large, what is past, what is watched


def test_a_state_that_grows_too_large_is_told_of_once(repo: ak.Repository) -> None:
    sizes: list[int] = []
    state = repo.state("ada", alert_bytes=1_000, on_alert=sizes.append)
    state.set("a", "x" * 500)
    assert sizes == []
    state.set("b", "x" * 600)
    state.set("c", 1)
    assert [size // 100 for size in sizes] == [11]
    state.delete("b")
    state.set("b", "x" * 600)
    assert len(sizes) == 2
    with pytest.warns(UserWarning, match="has 1,10. bytes, 50 is its limit"):
        repo.state("ada", alert_bytes=50).set("c", 2)


def test_a_value_has_a_history_and_a_past_and_can_be_watched(repo: ak.Repository) -> None:
    state = repo.state("ada*", actor="me")
    heard: list[Change[Any]] = []
    with state.watch("c*", heard.append):
        state.set("city", "London")
        state.set("other", 1)
        repo.state("adam").set("city", "not hers")
        repo.create_tag("then", repo.resolve("HEAD"))
        state.set("city", "Paris")
        state.delete("city")
    assert [(one.id, one.old, one.new) for one in heard] == [
        ("city", None, "London"),
        ("city", "London", "Paris"),
        ("city", "Paris", None),
    ]
    assert [one.new for one in state.history("city")] == [None, "Paris", "London"]
    assert [one.actor for one in state.history("city")][1:] == ["me", "me"]
    past = state.at("then")
    assert past.get_all() == {"city": "London", "other": 1}
    with pytest.raises(ak.StoreReadOnlyError):
        past.set("city", "Rome")


def test_a_value_is_gone_when_its_time_is_over(repo: ak.Repository) -> None:
    state = repo.state("ada", ttl_s=60)
    state.set("token", "x", ttl_s=0.03)
    state.set("stays", "y")
    time.sleep(0.04)
    assert state.get_all() == {"stays": "y"}


def test_coroutines_may_use_a_state(repo: ak.Repository) -> None:
    state = repo.state("ada")

    async def work() -> None:
        for _ in range(5):
            state.count("n")
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(work() for _ in range(6)))
        await asyncio.gather(*(asyncio.to_thread(state.count, "n") for _ in range(6)))

    asyncio.run(main())
    assert state.get("n") == 36


@PLANES
def test_a_writer_that_is_killed_leaves_all_of_a_change_or_nothing(
    stored: ak.Repository, tmp_path: Path, plane: Plane
) -> None:
    code = (
        "import agent_kernel as ak, sys\n"
        "with ak.open(sys.argv[1]) as repo:\n"
        "    state = repo.state('ada', plane=sys.argv[2])\n"
        "    for n in range(10**6):\n"
        "        state.set_many({'a': n, 'b': n, 'c': n}); print(n, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "store"), plane], stdout=-1, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(20):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    values = stored.state("ada", plane=plane).get_all()
    assert values["a"] == values["b"] == values["c"] >= 19


KEYS = st.sampled_from(["a", "b", "a/b", "ü", "*"])
VALUES = st.one_of(
    st.integers(), st.text(max_size=5), st.none(), st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False))
)
STEP = st.one_of(
    st.tuples(st.just("set"), KEYS, VALUES),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("many"), st.dictionaries(KEYS, VALUES)),
    st.tuples(st.just("save"), st.one_of(st.none(), st.integers(0, 5))),
    st.tuples(st.just("clear")),
)


@PLANES
@settings(max_examples=25)
@given(steps=st.lists(STEP, max_size=20))
def test_a_state_is_what_a_dict_is(plane: Plane, steps: list[Any]) -> None:
    with ak.open("memory:") as repo:
        state, model, rounds = repo.state("ada", plane=plane), dict[str, Any](), dict[int, Any]()
        for what, *more in steps:
            if what == "set":
                state.set(*more)
                model[more[0]] = more[1]
            elif what == "many":
                state.set_many(more[0])
                model |= more[0]
            elif what == "delete":
                assert state.delete(more[0]) == (model.pop(more[0], state) is not state)
            elif what == "clear":
                state.clear()
                model.clear()
            else:
                number = max(rounds, default=0) + 1 if more[0] is None else more[0]
                assert state.save(round=more[0]) == number
                rounds[number] = dict(model)
            assert state.get_all() == model
        assert state.load() == (rounds[max(rounds)] if rounds else None)
        assert {number: state.load(number) for number in state.rounds()} == rounds
        restored = repo.state("bob", plane=plane)
        restored.restore(state.backup())
        assert restored.get_all() == model


# -- rules and arguments that make no sense


def test_secret_keys_without_a_secret_are_refused(repo: ak.Repository) -> None:
    with pytest.raises(ValueError, match="with a secret"):
        repo.state("ada", secret_keys=["card"])


@pytest.mark.parametrize(
    "make",
    [
        lambda repo: repo.state("ada", secret="key", secret_keys="card"),
        lambda repo: repo.state("ada", allow={"read": "a*"}),
        lambda repo: repo.state("ada").restricted(read="a*"),
        lambda repo: repo.state("ada", transitions={"order": {"new": "paid"}}),
    ],
)
def test_one_text_is_not_a_list_of_names(repo: ak.Repository, make: Any) -> None:
    with pytest.raises(TypeError, match="list of"):
        make(repo)


def test_a_misspelt_right_is_refused(repo: ak.Repository) -> None:
    with pytest.raises(ValueError, match="not 'reed'"):
        repo.state("ada", allow={"reed": ["a*"]})


def test_who_has_no_key_deletes_no_secret(stored: ak.Repository) -> None:
    pytest.importorskip("cryptography")
    state = stored.state("ada", secret="open sesame")
    state.set("card", "4111")
    state.save()
    for stranger in (stored.state("ada"), stored.state("ada", secret="guess")):
        for refused in (lambda s=stranger: s.delete("card"), stranger.clear, lambda s=stranger: s.cleanup(0)):
            with pytest.raises(ak.SealedRecordError):
                refused()
    assert (state.get("card"), state.load()) == ("4111", {"card": "4111"})


def test_a_cleanup_of_negative_days_deletes_nothing(repo: ak.Repository) -> None:
    state = repo.state("ada")
    state.set("a", 1)
    for days in (-1, math.nan, math.inf):
        with pytest.raises(ValueError, match="days"):
            state.cleanup(days)
    assert state.get("a") == 1


def test_adding_to_a_round_keeps_what_may_not_be_read(repo: ak.Repository) -> None:
    state = repo.state("ada")
    state.save({"pin": 1234, "city": "London"}, round=1)
    guest = state.restricted(read=["city"], write=["note"])
    guest.save({"note": "hi"}, round=1, merge=True)
    assert state.load(1) == {"pin": 1234, "city": "London", "note": "hi"}
    with pytest.raises(ak.RecordAccessError):
        guest.save({"note": "hi"}, round=1)
    assert state.load(1) == {"pin": 1234, "city": "London", "note": "hi"}


def test_who_may_do_less_may_do_less_with_events_memory_and_tiers(repo: ak.Repository) -> None:
    state = repo.state("ada")
    state.tiers().put("pin", 1234)
    guest = state.restricted(read=["city"], write=["city"])
    for refused in (
        guest.events,
        lambda: guest.memory(100),
        lambda: guest.tiers().get("pin"),
        lambda: guest.tiers().put("pin", 0),
        lambda: guest.tiers().delete("pin"),
    ):
        with pytest.raises(ak.RecordAccessError):
            refused()
    assert guest.tiers().context() == {}
    guest.tiers().put("city", "London")
    assert state.tiers().context() == {"city": "London", "pin": 1234}


def test_the_past_of_a_state_is_that_of_all_its_parts(repo: ak.Repository) -> None:
    state = repo.state("ada")
    state.events().append("then")
    state.memory(100).add("user", "then")
    state.tiers().put("a", "then")
    then = hex_of(repo.resolve("HEAD"))
    state.events().append("now")
    state.memory(100).add("user", "now")
    state.tiers().put("a", "now")
    state.scope("user").set("a", "now")
    past = state.at(then)
    assert list(past.events()) == ["then"]
    assert [one["content"] for one in past.memory(100).messages()] == ["then"]
    assert past.tiers().get("a") == "then"
    assert past.scope("user").get_all() == {}
    for change in (lambda: past.events().append("x"), lambda: past.tiers().put("a", "x"), lambda: past.set("a", 1)):
        with pytest.raises(ak.AgentKernelError):
            change()


def test_tiers_see_that_another_put_a_value_anew(repo: ak.Repository) -> None:
    one, other = repo.state("ada").tiers(), repo.state("ada").tiers()
    one.put("a", "old")
    assert other.get("a") == "old"
    one.delete("a")
    one.put("a", "new")
    assert other.get("a") == "new"


def test_a_counter_keeps_its_time_to_live(repo: ak.Repository, wait: Callable[[float], None]) -> None:
    state = repo.state("ada")
    state.set("n", 1, ttl_s=60)
    assert state.count("n") == 2
    wait(61)
    assert not state.has("n")


@pytest.mark.parametrize("ttl_s", [-1, 0, math.nan, math.inf])
def test_a_time_to_live_is_more_than_0(repo: ak.Repository, ttl_s: float) -> None:
    state = repo.state("ada")
    state.set("a", 1)
    with pytest.raises(ValueError, match="ttl_s"):
        state.set("a", 2, ttl_s=ttl_s)
    assert state.get("a") == 1


def test_what_is_wrong_with_a_key_or_a_change_is_said(repo: ak.Repository) -> None:
    state = repo.state("ada")
    state.set("city", "London")
    for wrong, said in (
        (lambda: state.set(5, 1), "'5' is not valid: a key is text"),  # type: ignore[arg-type]
        (lambda: state.count("city"), "'city' is not valid: its value is of type str, not a number"),
        (lambda: state.update("city", 5), "a mapping or a function"),  # type: ignore[arg-type]
        (lambda: state.restore(5), "backup 'default' is not valid"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ak.InvalidRecordError, match=said):
            wrong()
    with pytest.raises(ak.StaleRecordError, match="state 'city' is at version 1"):
        state.set("city", "Paris", expect=7)
    with pytest.raises(TypeError, match="steps is a whole number"):
        state.rollback("label")  # type: ignore[arg-type]


def test_a_transition_from_a_mapping_is_looked_up_too(repo: ak.Repository) -> None:
    state = repo.state("ada", transitions={"order": {"new": ["paid"]}})
    state.set("order", {"a": 1})
    state.set("order", "new")
    with pytest.raises(ak.TransitionError):
        state.set("order", "lost")


def test_a_damaged_secret_backup_says_so(repo: ak.Repository) -> None:
    pytest.importorskip("cryptography")
    state = repo.state("ada", secret="key")
    state.set("a", 1)
    content = "not base64!"
    damaged = json.loads(state.backup()) | {"content": content, "sha256": hashlib.sha256(content.encode()).hexdigest()}
    with pytest.raises(ak.InvalidRecordError, match="damaged"):
        state.restore(json.dumps(damaged))


def test_a_memory_that_was_cleared_meanwhile_gets_no_old_summary(repo: ak.Repository) -> None:
    def summarise(summary: str, dropped: list[dict[str, Any]]) -> str:
        memory.clear()
        return "about the old conversation"

    memory = repo.state("ada").memory(4, count_tokens=words, summarise=summarise)
    memory.add("user", "one two three")
    memory.add("user", "four five six")
    assert memory.messages() == []


@pytest.mark.parametrize("tokens", [-5, math.nan, 2.5])
def test_a_number_of_tokens_is_0_or_more(repo: ak.Repository, tokens: Any) -> None:
    memory = repo.state("ada").memory(4, count_tokens=lambda text: tokens)
    with pytest.raises((TypeError, ValueError), match="count_tokens"):
        memory.add("user", "one two three four five")
    assert len(memory) == 0


def test_a_lock_taken_twice_by_a_thread_says_so(repo: ak.Repository) -> None:
    with repo.lock("a"), pytest.raises(ak.LockHeldError, match="held by this thread already"):
        repo.lock("a", wait_s=0).__enter__()


@pytest.mark.parametrize("lease_s", [0, -1, math.nan, math.inf])
def test_the_lease_of_a_lock_is_more_than_0_seconds(repo: ak.Repository, lease_s: float) -> None:
    with pytest.raises(ValueError, match="lease_s is more than 0"):
        repo.lock("a", lease_s=lease_s)


def test_values_in_tiers_follow_the_rules_of_the_state(repo: ak.Repository) -> None:
    tiers = repo.state("ada", validators={"age": lambda age: age < 150}, sanitisers={"name": str.strip}).tiers()
    tiers.put("name", " Ada ")
    with pytest.raises(ak.InvalidRecordError, match="'age' is not valid"):
        tiers.put("age", 999)
    assert (tiers.get("name"), tiers.get("age")) == ("Ada", None)


def test_who_may_not_read_a_key_learns_nothing_of_it(repo: ak.Repository) -> None:
    state = repo.state("ada")
    state.set("private.a", 1)
    other = state.restricted(read=["public.*"])
    for act in (lambda: other.version("private.a"), lambda: other.history("private.a")):
        with pytest.raises(ak.RecordAccessError):
            act()


def test_what_json_cannot_hold_is_in_no_round(repo: ak.Repository) -> None:
    state = repo.state("ada")
    for value in (object(), "\ud800", {1, 2}):
        with pytest.raises(ak.InvalidRecordError, match="key"):
            state.save({"key": value})
    assert state.rounds() == []


def test_an_error_of_a_secret_names_its_key_and_not_where_it_lies(repo: ak.Repository) -> None:
    repo.state("ada", secret="right").set("password", "pw")
    other = repo.state("ada", secret="wrong")
    for act in (other.size_bytes, other.export_state, lambda: list(other.history("password"))):
        with pytest.raises(ak.SealedRecordError, match=r"state 'password'"):
            act()


def test_an_error_of_what_is_built_on_a_secret_names_it_as_its_user_does(stored: ak.Repository) -> None:
    state = stored.state("ada", secret="key")
    state.set("a", 1)
    state.save()
    state.checkpoint()
    state.events("log").append(1)
    state.memory(9, name="talk").add("user", "hello")
    state.tiers().put("b", 2)
    stranger = stored.state("ada")
    for act, name in (
        (lambda: stranger.load(), "round of the state '1'"),
        (lambda: stranger.values_at(1), "checkpoint of the state '1'"),
        (lambda: stranger.events("log")[0], "list 'log'"),
        (lambda: stranger.events("log").append(2), "list 'log'"),
        (lambda: stranger.memory(9, name="talk").messages(), "list 'talk'"),
        (lambda: stranger.tiers().get("b"), "tier 'b'"),
        (lambda: stranger.tiers().put("b", 3), "tier 'b'"),
        (lambda: stranger.tiers().context(), "tier 'b'"),
        (lambda: stored.list("\0x").append(1), "list '\\x00x'"),
    ):
        with pytest.raises(ak.RecordError) as found:
            act()
        assert str(found.value).startswith(f"{name} ")
    assert repr(state.events("log")) == "<RecordList 'log': 1 items>"


def test_a_key_is_replaced_while_what_the_old_one_encrypted_is_there(stored: ak.Repository) -> None:
    """AGNO-9: the new key encrypts, and the old one still reads."""
    old = stored.state("ada", secret="old")
    old.set_many({"card": "4111", "pin": 7})
    old.save()
    both = stored.state("ada", secret=["new", "old"])
    both.set("card", "4222")
    assert (both.get_all(), both.load()) == ({"card": "4222", "pin": 7}, {"card": "4111", "pin": 7})
    new = stored.state("ada", secret="new")
    assert new.get("card") == "4222"
    for state, key in ((new, "pin"), (old, "card")):
        with pytest.raises(ak.SealedRecordError):
            state.get(key)
    both.replace(both.get_all())
    assert new.get_all() == {"card": "4222", "pin": 7}


@pytest.mark.parametrize("secret", ["", b"", [], ["good", ""], 5, ["good", 5], {"a": "b"}])
def test_what_is_no_key_is_refused(stored: ak.Repository, secret: Any) -> None:
    for make in (stored.state, stored.list):
        with pytest.raises((TypeError, ValueError), match=r"secret|key"):
            make("ada", secret=secret)


def test_the_size_of_values_that_cannot_be_read_does_not_say_that_nothing_was_stored(repo: ak.Repository) -> None:
    """What cannot be decrypted counts as it is stored."""
    repo.state("ada", secret="right").set("card", "4" * 400)
    for secret in (None, "wrong"):
        sizes: list[int] = []
        state = repo.state("ada", secret=secret, alert_bytes=1_000, on_alert=sizes.append)
        state.set("city", "Rome")
        assert (state.get("city"), sizes) == ("Rome", [])
        state.set("text", "x" * 600)
        (size,) = sizes
        assert 1_000 < size < 1_200
        state.delete("city")
        state.delete("text")


def test_an_alert_that_raises_does_not_say_that_nothing_was_stored(
    repo: ak.Repository, caplog: pytest.LogCaptureFixture
) -> None:
    def alert(size: int) -> None:
        raise RuntimeError(f"{size} bytes")

    state = repo.state("ada", alert_bytes=10, on_alert=alert)
    state.set("key", "x" * 20)
    assert state.get("key") == "x" * 20
    assert "25 bytes" in caplog.text
    for wrong in (-1, "10", 2.5):
        with pytest.raises((TypeError, ValueError), match="alert_bytes"):
            repo.state("ada", alert_bytes=wrong)  # type: ignore[arg-type]


def test_arguments_that_make_no_sense_are_refused_before_anything_is_done(repo: ak.Repository) -> None:
    state = repo.state("ada")
    events = state.events()
    events.append(1, 2)
    with pytest.raises(ValueError, match="until"):
        events.fold(0, lambda total, one: total + one, until=-1)
    memory = state.memory(10, count_tokens=lambda text: len(text.split()))
    for content in (5, None, ["text"]):
        with pytest.raises(ak.InvalidRecordError, match="a message is text"):
            memory.add("user", content)  # type: ignore[arg-type]
    assert len(memory) == 0
    for act, said in (
        (lambda: state.load("1"), "the number of a round is a whole number"),  # type: ignore[arg-type]
        (lambda: state.values_at("1"), "the number of a checkpoint is a whole number"),  # type: ignore[arg-type]
        (lambda: state.cleanup("1"), "days is a number of days, not '1'"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=said):
            act()
    with pytest.raises(ak.InvalidRecordError, match=r"^state .a\\x00b. is not valid: a key has no NUL$"):
        state.set("a\0b", 1)
    with pytest.raises(TypeError, match="by is a number"):
        state.count("visits", by="1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a watcher is a function"):
        state.watch("*", None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a pattern"):
        repo.records(ak.Record).watch(5, print)  # type: ignore[arg-type]


def test_what_is_read_without_the_store_is_gone_when_its_time_is_over(wait: Callable[[float], None]) -> None:
    state = ak.open("memory:").state("ada", cache_s=90)
    state.set("token", 1, ttl_s=60)
    assert state.get("token") == 1
    wait(61)
    assert state.get("token") is None


async def _awaited(summary: str, messages: object) -> str:
    raise AssertionError((summary, messages))


def test_a_summary_is_text_and_nothing_else_stands_for_messages() -> None:
    state = ak.open("memory:").state("ada")

    def count(text: str) -> int:
        return len(text.split())

    refused: list[Any] = [_awaited, "text"]
    for function in refused:
        with pytest.raises(TypeError, match="a memory takes a"):
            state.memory(5, count_tokens=count, summarise=function)
    made: list[Any] = [None, 5, _awaited("", [])]
    for result in made:
        memory = state.memory(5, name="talk", count_tokens=count, summarise=partial(_returned, result))
        memory.clear()
        memory.add("user", "one two three")
        memory.add("user", "four five six")
        assert [message["content"] for message in memory.messages()] == ["four five six"]
        assert len(memory) == 2


def _returned(result: Any, *_: object) -> Any:
    return result


# -- a state as a dict


def test_a_state_is_read_and_written_as_a_dict_is(repo: ak.Repository) -> None:
    state = repo.state("ada")
    assert (len(state), list(state), bool(state)) == (0, [], True)
    state["city"], state["none"] = "London", None
    state["profile"] = {"age": 36}
    state["profile"]["age"] = 5  # of a copy of its own
    assert (state["city"], state["none"], state["profile"]) == ("London", None, {"age": 36})
    assert ("city" in state, "none" in state, "country" in state) == (True, True, False)
    assert [one in state for one in (5, None, "", "a\0b", "\ud800")] == [False] * 5
    assert (len(state), list(state)) == (3, ["city", "none", "profile"])
    del state["none"]
    assert dict(state) == state.get_all() == {"city": "London", "profile": {"age": 36}}


def test_a_key_that_is_not_there_is_a_key_error(memory: ak.Repository) -> None:
    state = memory.state("ada")

    def delete() -> None:
        del state["city"]

    for act in (lambda: state["city"], delete):
        with pytest.raises(KeyError) as found:
            act()
        assert isinstance(found.value, ak.RecordNotFoundError)
        assert str(found.value) == "there is no value 'city' in the state of 'ada'"


def test_a_state_as_a_dict_keeps_its_rules(memory: ak.Repository) -> None:
    state = memory.state("ada", validators={"age": lambda age: age >= 0}, transitions={"status": {"new": ["paid"]}})
    state.set_many({"age": 36, "status": "new"})
    guest = state.restricted(read=["age"], write=[])
    assert (dict(guest), len(guest)) == ({"age": 36}, 1)
    for act, kind in (
        (lambda: state.__setitem__("age", -1), ak.InvalidRecordError),
        (lambda: state.__setitem__("status", "sent"), ak.TransitionError),
        (lambda: guest.__setitem__("age", 5), ak.RecordAccessError),
        (lambda: guest.__delitem__("age"), ak.RecordAccessError),
        (lambda: guest["status"], ak.RecordAccessError),
        (lambda: "status" in guest, ak.RecordAccessError),
        (lambda: state.__setitem__("", 1), ak.InvalidRecordError),
    ):
        with pytest.raises(kind):
            act()
    assert state.get_all() == {"age": 36, "status": "new"}


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"validators": [print]}, "validators is a mapping of names to values, not"),
        ({"validators": {"a": 5}}, "a validator is a function, not 5"),
        (
            {"validators": {"a": lambda: True}},
            "a validator takes one value, and the function <lambda> cannot be called so",
        ),
        ({"sanitisers": "a"}, "sanitisers is a mapping of names to values, not 'a'"),
        ({"sanitisers": {5: str}}, "sanitisers is a mapping of names to values, and its key 5 is not text"),
        (
            {"transitions": {"a": 5}},
            r"transitions\['a'\] is a dict, from a value to the list of those that may follow it",
        ),
        (
            {"transitions": {"a": {"new": 5}}},
            r"transitions\['a'\]: what follows 'new' is a list of values, not 5: write \[5\]",
        ),
        (
            {"transitions": {"a": {"new": "paid"}}},
            r"transitions\['a'\]: what follows 'new' is a list of values, not 'paid': write \['paid'\]",
        ),
        ({"allow": ["a"]}, "allow is a mapping of names to values, not"),
        ({"on_alert": 5, "alert_bytes": 9}, "on_alert is a function, not 5"),
        ({"branch": 5}, "branch is text, not 5"),
    ],
)
def test_a_rule_that_makes_no_sense_is_said_as_the_state_is_opened(
    memory: ak.Repository, rules: dict[str, Any], said: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{said}"):
        memory.state("ada", **rules)


@pytest.mark.parametrize("message", [("a", "b"), print, {"role": "user"}, b"hello", None, ["hello"]])
def test_a_message_that_is_no_text_is_said_with_what_to_do(memory: ak.Repository, message: Any) -> None:
    talk = memory.state("ada").memory(100)
    with pytest.raises(ak.InvalidRecordError, match=r'a message is text, not .+: add\("user", "hello"\) adds one$'):
        talk.add("user", message)
    assert len(talk) == 0


def test_what_is_encrypted_says_which_call_takes_its_key(memory: ak.Repository) -> None:
    memory.state("ada", secret="key").set("card", "4111")
    memory.list("talk", secret="key").append("hush")
    cases: tuple[tuple[Callable[[], object], str], ...] = (
        (
            lambda: memory.state("ada").get("card"),
            "state 'card' is encrypted: open its collection with the key, repo.state(…, secret=…)",
        ),
        (
            lambda: memory.list("talk")[0],
            "list 'talk' is encrypted: open its collection with the key, repo.list(…, secret=…)",
        ),
    )
    for act, said in cases:
        with pytest.raises(ak.SealedRecordError, match=f"^{re.escape(said)}$"):
            act()


@pytest.mark.parametrize(("user", "session"), [("a\0b", "s"), ("ada", "s\0")])
def test_a_user_and_a_session_have_no_nul(memory: ak.Repository, user: str, session: str) -> None:
    with pytest.raises(ValueError, match=r"^a user, a session and a task have names without NUL, not "):
        memory.state(user, session)


def test_a_warning_of_a_large_state_is_that_of_who_made_it_so(memory: ak.Repository) -> None:
    state = memory.state("ada", alert_bytes=10)
    with pytest.warns(UserWarning, match="10 is its limit") as found:
        state["text"] = "x" * 20
    assert found[0].filename == __file__


def test_who_changes_a_rule_that_was_given_changes_no_state(memory: ak.Repository) -> None:
    allow = {"read": ["a"], "write": list[str]()}
    state = memory.state("ada", allow=allow)
    allow["write"] = ["*"]
    with pytest.raises(ak.RecordAccessError):
        state.set("a", 1)


def test_a_function_may_change_the_value_that_an_update_gives_it(memory: ak.Repository) -> None:
    """What `append` returns, None, became the value."""
    state = memory.state("ada", "cart")
    state.set("cart", ["tea"])
    assert state.update("cart", lambda cart: cart.append("milk")) == ["tea", "milk"]
    assert state.get("cart") == ["tea", "milk"]
    assert state.update("cart", lambda cart: cart[:1]) == ["tea"]
    with pytest.raises(ZeroDivisionError):
        state.update("cart", lambda cart: cart.clear() or 1 / 0)
    assert state.get("cart") == ["tea"]


def test_a_sanitiser_and_a_backup_of_the_wrong_kind_are_named_so(memory: ak.Repository) -> None:
    with pytest.raises(TypeError, match=r"^a sanitiser is a function, not 5$"):
        memory.state("ada", sanitisers={"a": 5})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ak.InvalidRecordError, match=r"a backup is the text that `backup` gave, not \{\}$"):
        memory.state("ada").restore({})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
