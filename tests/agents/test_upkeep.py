"""What upkeep of a store does to the events of agents' runs: they travel, stay, follow the history, and can be forgotten."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.agents import Agent, ScriptedModel
from agent_kernel.agents.agent import reopen_run, start_run
from agent_kernel.agents.approval import find_waiting
from agent_kernel.agents.event_log import EventStore, state_of
from agent_kernel.agents.events import (
    EVENTS,
    SCHEMA,
    Action,
    ApprovalRequested,
    Event,
    Output,
    StateChange,
    TaskStart,
    Unknown,
)
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.commands.places import copy_store
from agent_kernel.errors import NameNotFoundError
from agent_kernel.repository import Retention
from agent_kernel.repository.runs import match_values
from agent_kernel.session import Repository, Session
from agent_kernel.storage import LmdbStore, MemoryStore
from agent_kernel.values import previews

FIXTURES = Path(__file__).parent.parent / "fixtures"
SECRET = "tangerine-4711"
# Kinds of events that came after the fixture of old runs was written. It is never written again: old stores do not change.
CAME_LATER = {"Rewound", "TryStart"}


def a_session(store: Any = None) -> Session:
    return Session({}, Repository.open(store or MemoryStore()))


def do(session: Session, task: str, *code: str) -> str:
    """A run of these steps; its id."""
    run = Agent("ada", model=ScriptedModel(list(code)), state=session).start(task)
    list(run.stream())
    return run.id


def events(session: Session) -> list[Event]:
    event_store = EventStore(session.repo.store)
    return [event for run in event_store.runs() for event in event_store.of(run)]


def raw(session: Session) -> bytes:
    """All that the store holds."""
    store = session.repo.store
    found: list[bytes] = []
    after = b""
    while keys := store.keys(b"", after, 500):
        found += store.get_many(keys).values()
        after = keys[-1]
    return b"\n".join(found)


def test_collecting_verifying_and_counting_know_of_events() -> None:
    session = a_session()
    do(session, "count", "x = 1", "task.success(x)")
    before = events(session)
    assert session.repo.gc(grace_s=0).objects_deleted >= 0
    assert events(session) == before
    assert session.repo.verify().is_sound
    stats = session.repo.stats(session.id)
    assert stats.events == len(before)
    assert stats.event_bytes > 100


def test_a_damaged_event_costs_itself_alone_and_verify_names_it() -> None:
    session = a_session()
    run = do(session, "count", "x = 1", "task.success(x)")
    store = session.repo.store
    key = b"e/" + run.encode() + b"\0" + (3).to_bytes(8, "big")
    stored = store.get_many([key])[key]
    for broken in (b"", b"\xc1\xff", stored[:-3], stored.replace(b"Output", b"Outpux")):
        assert store.swap({key: store.get_many([key])[key]}, {key: broken})
        found = list(EventStore(store).of(run))
        assert [event.seq for event in found] == list(range(len(found)))
        assert [event.kind for event in found].count("Unknown") == 1
        assert isinstance(found[3], Unknown)
        assert state_of(found) == "completed"
        assert session.repo.traces_of(["x"]) is not None
    assert store.swap({key: broken}, {key: b"\xc1"})
    report = session.repo.verify()
    assert [str(problem) for problem in report.problems] == [f"event {run}/3: it cannot be read"]
    again = reopen_run(ExecutionContext(session.namespace, session), run, model=ScriptedModel(["1"]))
    assert again.status == "completed"
    do(session, "go on", "task.success(1)")  # whose conversation goes on with the damaged one's


def test_a_run_whose_beginning_is_damaged_is_no_run_and_others_are_found() -> None:
    session = a_session()
    first = do(session, "count", "task.success(1)")
    second = do(session, "count", "task.success(2)")
    key = b"e/" + first.encode() + bytes(9)
    store = session.repo.store
    assert store.swap({key: store.get_many([key])[key]}, {key: b"?"})
    assert [start.run for start in EventStore(store).starts()] == [second]
    assert do(session, "count on", "task.success(3)")


def test_events_travel_with_a_copy_of_the_store(tmp_path: Path) -> None:
    with closing(LmdbStore(tmp_path / "from")) as store:
        session = a_session(store)
        do(session, "count", "x = 1", "task.success(x)")
        told = events(session)
        session.close()
    with closing(LmdbStore(tmp_path / "to")) as store:
        copy_store(str(tmp_path / "from"), store)
        assert [event for run in EventStore(store).runs() for event in EventStore(store).of(run)] == told


def test_pruning_lets_events_name_the_commits_that_are_left() -> None:
    session = a_session()
    do(session, "count", *[f"x = {number}" for number in range(5)], "task.success(x)")
    session.prune(Retention(keep_last=2))
    known = {id.hex()[:-2] for id, _ in session.repo.log("HEAD")} | {""}
    named = {commit for event in events(session) for commit in (event.before, event.after)}
    assert len(named) > 1
    assert named <= known
    assert not any(isinstance(event, Unknown) for event in events(session))


def test_forgetting_a_variable_takes_what_runs_were_told_of_it() -> None:
    session = a_session()
    do(session, "keep it", f"fruit = '{SECRET[::-1]}'[::-1]\nprint(fruit)", "other = 1", "print(len(fruit), 'x')")
    do(session, "look", "task.success(other)")
    assert SECRET.encode() in raw(session)
    report = session.forget("fruit")
    assert report.events_masked >= 3
    assert SECRET not in "".join(map(repr, events(session)))
    kept = [event for event in events(session) if isinstance(event, StateChange)]
    assert [change[1] for event in kept for change in event.changed] == ["other"]
    start = [event for event in events(session) if isinstance(event, TaskStart)][-1]
    assert "other: int 1" in start.prompt
    assert "fruit" not in start.prompt
    assert any("fruit" in (event.code or "") for event in events(session) if isinstance(event, Action))


def test_forgetting_a_variable_takes_out_what_it_was_wherever_runs_were_told_of_it() -> None:
    session = a_session()
    do(
        session,
        "keep it",
        f"fruit = '{SECRET[::-1]}'[::-1]",
        "keep = next(value for name, value in [*globals().items()] if name.startswith('fru'))",
        "print(keep)",
    )
    do(session, "look", "print(len(keep))\nprint(keep)", "pair = [keep, 'a pear']", "task.success(keep)")
    session.forget("fruit")
    text = "".join(map(repr, events(session)))
    assert SECRET not in text
    assert "keep: str '(forgotten)'" in text
    assert "'a pear'" in text
    assert session.repo.at("main")["keep"] == SECRET, "the variable that holds the same keeps it in the history"
    session.forget("keep", "pair")
    assert SECRET.encode() not in raw(session)


@pytest.mark.parametrize(
    ("told", "text", "left"),
    [
        ("str 'tangerine'", "a tangerine, and 'tangerine'", "a ?, and '?'"),
        ("str of 500 'tangerine…", "see: tangerine and all of the rest\nnext", "see: ?\nnext"),
        ("str 'it\\'s\\ntwo lines'", "it's\ntwo lines", "?"),
        ("str 'pear'", "a pear", "a pear"),
        ("int 4711471", "4711471 or 47114712, x4711471", "? or 47114712, x4711471"),
        ("int 4711", "4711", "4711"),
        ("list of 3 int, [1, 2, 3]", "other: list of 3 int, [1, 2, 3]", "other: ?"),
        ("DataFrame 3×2, 1.2 kB", "other: DataFrame 3×2, 1.2 kB", "other: DataFrame 3×2, 1.2 kB"),
    ],
)
def test_a_value_is_found_by_what_was_said_of_it(told: str, text: str, left: str) -> None:
    assert match_values([told]).sub("?", text) == left


def test_forgetting_a_variable_lets_go_of_what_a_step_gave_back_on_a_fork(safe_forks: None) -> None:
    session = a_session()
    session.namespace["rows"] = [3]
    session.commit("rows")
    agent = Agent("ada", model=ScriptedModel([f"fruit = '{SECRET[::-1]}'[::-1]\nprint(fruit)"]), state=session)
    run = start_run(agent, "go", ExecutionContext(session.namespace, session), preview=True)
    list(run.stream())
    (asked,) = [event for event in events(session) if isinstance(event, ApprovalRequested)]
    assert SECRET in asked.output
    session.repo.create_branch("kept", asked.branch)
    session.forget("fruit")
    (asked,) = [event for event in events(session) if isinstance(event, ApprovalRequested)]
    assert SECRET not in repr(asked)
    assert (asked.held, asked.branch) == (b"", "")
    assert "approving runs the code again" in asked.told
    again = reopen_run(
        ExecutionContext(session.namespace, session), run.id, model=ScriptedModel(["", "task.success(1)"])
    )
    list(again.approve().stream())
    assert session.namespace["fruit"] == SECRET


def test_forgetting_with_sources_masks_code_outputs_and_prompts() -> None:
    session = a_session()
    do(session, f"Let fruit be {SECRET}.", f"fruit = '{SECRET}'", f"seen = 'a {SECRET} b'\nprint(seen)", "x = 5")
    session.forget("fruit", sources=True)
    text = "".join(map(repr, events(session)))
    assert SECRET not in text
    assert "x = 5" in text
    assert [event.seq for event in events(session)] == list(range(len(events(session))))


def test_code_that_was_never_run_can_be_masked_too() -> None:
    session = a_session()
    run = Agent("ada", model=ScriptedModel([f"fruit = '{SECRET}'"]), state=session, approve="always").start("go")
    list(run.stream())
    with pytest.raises(NameNotFoundError):
        session.repo.forget(["fruit"])
    session.repo.forget(["fruit"], mask=previews.CodeMask())
    assert SECRET.encode() not in raw(session)


def test_forgetting_a_commit_takes_the_events_of_its_step() -> None:
    session = a_session()
    do(session, "count", "x = 1", f"y = '{SECRET}'\nprint(y)", "z = 3\ntask.success(z)")
    second = session.repo.resolve("HEAD~1")
    session.forget(second.hex()[:-2])
    assert session.repo.commit_at(session.repo.resolve("HEAD~1")).step == 1
    found = events(session)
    assert SECRET not in "".join(map(repr, [event for event in found if event.step == 2]))
    assert [event.sent for event in found if isinstance(event, Output)][1] == "(forgotten)"
    assert any("x = 1" in (event.code or "") for event in found if isinstance(event, Action))


@pytest.fixture
def old_runs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / f"runs-{SCHEMA}", tmp_path / "store"))


def test_the_events_of_an_old_store_are_read_and_its_runs_go_on(old_runs: Path) -> None:
    with Repository.open(old_runs, create=False) as repo:
        assert repo.verify().is_sound
        repo.trust()
        event_store = EventStore(repo.store)
        found = {run: list(event_store.of(run)) for run in event_store.runs()}
        assert {event.kind for run in found.values() for event in run} == set(EVENTS) - CAME_LATER
        states = [state_of(run) for run in found.values()]
        assert states == ["completed", "failed", "failed", "failed", "pending", "cancelled"]
        assert find_waiting(event_store, "pending") == [list(found)[4]]
        session = Session({}, repo)
        session.bring_back()
        run = reopen_run(
            ExecutionContext(session.namespace, session), list(found)[4], model=ScriptedModel(["1", "task.success(9)"])
        )
        list(run.deny("no").stream())  # the next step is asked about as well
        assert run.approve().result() == 9
        session.close()


def test_a_store_without_any_events_takes_its_first_run(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "store-1", tmp_path / "store")
    with Repository.open(tmp_path / "store", create=False) as repo:
        repo.trust()
        assert repo.stats().events == 0
        session = Session({}, repo)
        session.bring_back(partial=True)
        assert do(session, "count", "many = len(numbers)\ntask.success(many)")
        session.undo()
        assert session.repo.verify().is_sound
        session.close()
