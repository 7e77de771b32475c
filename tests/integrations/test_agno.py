"""agno on our records: its suites of sessions and memories pass, and a session rewinds together with the variables.

Neither agno's wheel nor its source distribution has its tests. To run them, clone the tag beside the unpacked source distributions:

    git clone --depth 1 --branch v3.0.0a3 https://github.com/agno-agi/agno $AGENT_KERNEL_SDISTS/agno-tests

Without them, the tests here say what has to hold.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from tests.integrations.foreign import ROOT, needs, run_suite

needs("agno.db")

from agno.agent import Agent
from agno.db.base import SessionType
from agno.db.schemas.memory import UserMemory
from agno.run.agent import RunOutput
from agno.run.base import RunStatus
from agno.session import AgentSession, TeamSession, WorkflowSession
from agno.session.summary import SessionSummary

from agent_kernel.integrations.agno import AgentKernelDb
from tests.integrations.scripted_agno import ScriptedModel

SOURCE = "agno-tests/libs/agno/tests"
HOW_TO_GET = "git clone --depth 1 --branch v3.0.0a3 https://github.com/agno-agi/agno $AGENT_KERNEL_SDISTS/agno-tests"
TABLES = "it reads or writes SQLite's tables"
IN_PLACE = "it changes or keeps a dict of InMemoryDb, which is what is stored there and a copy here"
OLDER = "agno 3.1.10 itself fails it: since then an upsert returns the caller's runs"
LEFT_OUT = {
    f"unit/{file}::{name}": why
    for why, file, names in (
        (
            IN_PLACE,
            "db/test_in_memory_runs.py",
            (
                "TestUpsertRun::test_update_preserves_original_run_index",
                "TestDeleteRun::test_delete_updates_session_updated_at",
            ),
        ),
        (
            OLDER,
            "db/test_in_memory_sessions.py",
            (
                "TestSessionRowAndRuns::test_upsert_return_carries_stored_runs",
                "TestSessionRowAndRuns::test_stored_runs_are_isolated_from_the_returned_copy",
            ),
        ),
        (
            TABLES,
            "db/test_runs_limit.py",
            (
                "TestRunIndexBackfill::test_existing_null_index_is_backfilled_on_next_write",
                "TestRunsLimitUnmigrated::test_blob_fallback_returns_most_recent_n",
                "TestRunsLimitUnmigrated::test_blob_full_history_when_no_limit",
                "TestFilterBeforeSlice::test_unmigrated_excludes_member_and_skip_status",
                "TestRunsLimitPartialMigration::test_partial_migration_merges_before_slicing",
                "TestRunsLimitPartialMigration::test_partial_migration_no_run_lost",
            ),
        ),
        (
            TABLES,
            "agent/test_fork_session_persists_runs.py",
            ("TestAgentForkSessionPersistsRuns::test_sync_fork_preserves_run_content_and_order",),
        ),
    )
    for name in names
}


@pytest.fixture(params=["branch", "store"])
def db(request: pytest.FixtureRequest, repo: ak.Repository) -> AgentKernelDb:
    return AgentKernelDb(repo, plane=request.param, memory_plane=request.param)


def session_of(id: str, user: str | None = "ada", **more: Any) -> AgentSession:
    return AgentSession(**{"session_id": id, "user_id": user, "agent_id": "helper", "created_at": 1_000, **more})


def run_of(id: str, content: str = "", **more: Any) -> RunOutput:
    return RunOutput(**{"run_id": id, "agent_id": "helper", "content": content, "status": RunStatus.completed, **more})


def names(found: Any) -> list[Any]:
    return [one.session_id for one in found]


def contents(db: AgentKernelDb, session: str, **how: Any) -> list[Any]:
    return [run["content"] for run in db.get_session(session, deserialize=False, **how)["runs"]]


def agent_on(db: AgentKernelDb, *answers: Any, **more: Any) -> Agent:
    return Agent(model=ScriptedModel(*answers), db=db, session_id="talk", telemetry=False, **more)


# -- their own tests


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["integration/db/sqlite/test_session.py"], 33),
        (["integration/db/sqlite/test_memory.py"], 6),
        (["unit/db/test_session_isolation.py", "integration/db/sqlite/test_session_isolation.py"], 22),
        ([f"unit/db/test_in_memory_{what}.py" for what in ("memory", "runs", "sessions")], 67),
        (["unit/db/test_runs_limit.py"], 26),
        (["unit/agent/test_checkpoint_steps.py", "unit/agent/test_fork_session_persists_runs.py"], 35),
    ],
    ids=["sessions", "memories", "isolation", "in memory", "limits", "agents"],
)
def test_its_tests_pass_with_ours(files: list[str], expected: int) -> None:
    passed, failed = run_suite(SOURCE, files, plugin="replace_agno", left_out=LEFT_OUT, how_to_get=HOW_TO_GET)
    assert failed == []
    assert passed == expected


# -- sessions


def test_a_session_comes_back_with_all_that_it_holds(db: AgentKernelDb) -> None:
    summary = SessionSummary(summary="about figs", topics=["figs"])
    given = session_of("s", session_data={"session_state": {"n": [1]}}, metadata={"a": {"b": 1}}, summary=summary)
    given.agent_data, given.runs = {"name": "Helper"}, [run_of("r", "hello")]
    stored = db.upsert_session(given)
    assert stored is not None
    assert stored.updated_at == stored.created_at == 1_000
    found = db.get_session("s", SessionType.AGENT)
    assert isinstance(found, AgentSession)
    for name in ("user_id", "agent_id", "session_data", "metadata", "agent_data", "summary", "created_at"):
        assert getattr(found, name) == getattr(given, name), name
    assert [(run.run_id, run.content) for run in found.runs or []] == [("r", "hello")]


def test_what_is_stored_shares_nothing_with_what_was_given_or_read(db: AgentKernelDb) -> None:
    state = {"n": 1}
    db.upsert_session(session_of("s", session_data={"session_state": state}))
    state["n"] = 2
    db.get_session("s").session_data["session_state"]["n"] = 3
    assert db.get_session("s").session_data["session_state"] == {"n": 1}


def test_storing_a_session_again_keeps_its_runs_and_when_it_was_made(db: AgentKernelDb) -> None:
    db.upsert_session(session_of("s", runs=[run_of("r", "hello")]))
    again = db.upsert_session(session_of("s", session_data={"session_name": "new"}, created_at=1_000))
    assert again is not None
    assert again.updated_at > 1_000
    assert contents(db, "s") == ["hello"]
    assert db.get_session("s").created_at == 1_000


def test_a_session_of_another_user_is_neither_read_nor_changed(db: AgentKernelDb) -> None:
    db.upsert_session(session_of("s"))
    assert db.upsert_session(session_of("s", "bob")) is None
    assert db.get_session("s", user_id="bob") is None
    assert db.rename_session("s", SessionType.AGENT, "mine", user_id="bob") is None
    assert db.delete_session("s", user_id="bob") is False
    db.delete_sessions(["s"], user_id="bob")
    assert db.get_session("s", user_id="ada").session_data is None


def test_a_session_of_nobody_can_be_taken_by_anybody(db: AgentKernelDb) -> None:
    db.upsert_session(session_of("s", None))
    assert db.upsert_session(session_of("s", "bob")).user_id == "bob"
    assert db.reassign_session_owner("s", previous_user_id="ada", user_id="ada") is False
    assert db.reassign_session_owner("s", previous_user_id="bob", user_id="ada") is True
    db.upsert_run(run_of("r", status=RunStatus.running), "s")
    assert db.reassign_session_owner("s", previous_user_id="ada", user_id="bob") is False


def test_each_type_of_session_comes_back_as_that_type(db: AgentKernelDb) -> None:
    given = [session_of("a"), TeamSession("t", team_id="crew"), WorkflowSession("w", workflow_id="flow")]
    assert [type(one) for one in db.upsert_sessions(given)] == [AgentSession, TeamSession, WorkflowSession]
    assert [type(one) for one in db.get_sessions()] == [AgentSession, TeamSession, WorkflowSession]
    assert names(db.get_sessions(SessionType.TEAM)) == ["t"]
    assert names(db.get_sessions(component_id="flow")) == ["w"]
    assert names(db.get_sessions(SessionType.AGENT, component_id="flow")) == []
    assert isinstance(db.get_session("a", SessionType.TEAM), TeamSession)


def test_sessions_are_filtered_sorted_and_paged(db: AgentKernelDb) -> None:
    db.upsert_sessions(
        [
            session_of(
                f"s{number}", f"user-{number % 2}", created_at=100 * number + 100, session_data={"session_name": name}
            )
            for number, name in enumerate(["Apples", "Pears", "Red apples", "Figs"])
        ]
    )
    assert names(db.get_sessions(user_id="user-1")) == ["s1", "s3"]
    assert names(db.get_sessions(session_name="apples")) == ["s0", "s2"]
    assert names(db.get_sessions(start_timestamp=200, end_timestamp=300)) == ["s1", "s2"]
    assert names(db.get_sessions(sort_by="created_at", sort_order="desc", limit=2)) == ["s3", "s2"]
    assert names(db.get_sessions(limit=3, page=2)) == ["s3"]
    rows, total = db.get_sessions(user_id="user-0", limit=1, deserialize=False)
    assert ([row["session_id"] for row in rows], total) == (["s0"], 2)


def test_a_list_of_sessions_leaves_their_runs_out_where_nobody_wants_them(db: AgentKernelDb) -> None:
    db.upsert_session(session_of("s", runs=[run_of("r")]))
    assert db.get_sessions(deserialize=False, include_runs=False)[0][0]["runs"] is None
    assert len(db.get_sessions(deserialize=False)[0][0]["runs"]) == 1


def test_a_session_gets_a_name(db: AgentKernelDb) -> None:
    db.upsert_session(session_of("s", session_data={"key": 1}))
    assert db.rename_session("s", SessionType.TEAM, "no") is None
    assert db.rename_session("s", None, "yes").session_data == {"key": 1, "session_name": "yes"}
    assert db.get_session("s", deserialize=False)["session_data"]["session_name"] == "yes"


def test_a_deleted_session_takes_its_runs_along(db: AgentKernelDb) -> None:
    db.upsert_sessions([session_of(id, runs=[run_of(f"run of {id}")]) for id in "abc"])
    assert db.delete_session("a") is True
    assert db.delete_session("a") is False
    db.delete_sessions(["b", "unknown"])
    assert names(db.get_sessions()) == ["c"]
    assert [run.run_id for run in db.get_runs()] == ["run of c"]
    db.upsert_session(session_of("a"))
    assert db.get_session("a").runs == []


def test_several_sessions_are_stored_together_or_not_at_all(db: AgentKernelDb) -> None:
    with pytest.raises(TypeError):
        db.upsert_sessions([session_of("good"), session_of("bad", session_data={"session_state": {"f": print}})])
    assert db.get_sessions() == []


# -- runs


def test_a_run_is_added_once_and_replaced_where_it_is(db: AgentKernelDb) -> None:
    db.upsert_session(session_of("s"))
    for number in range(3):
        db.upsert_run(run_of(f"r{number}", f"first {number}"), "s", run_index=number)
    db.upsert_run(run_of("r1", "second"), "s", run_index=9)
    rows, total = db.get_runs("s", deserialize=False)
    assert [(row["content"], row["run_index"]) for row in rows] == [("first 0", 0), ("second", 1), ("first 2", 2)]
    assert total == 3
    assert contents(db, "s") == ["first 0", "second", "first 2"]


def test_a_run_without_a_session_or_an_id_is_not_stored(db: AgentKernelDb) -> None:
    db.upsert_run(run_of("r"), "unknown")
    assert db.get_run("r") is None
    db.upsert_session(session_of("s"))
    with pytest.raises(ValueError, match="run_id"):
        db.upsert_run({"content": "nobody's"}, "s")


def test_runs_are_found_by_id_and_by_what_they_are(db: AgentKernelDb) -> None:
    db.upsert_sessions([session_of("a"), session_of("b", "bob")])
    db.upsert_run(run_of("r1", "one"), "a")
    db.upsert_run(run_of("r2", "two", agent_id="other", status=RunStatus.error), "a")
    db.upsert_run(run_of("r3", "three"), "b")
    assert db.get_run("r3").content == "three"
    assert db.get_run("r3", deserialize=False)["agent_id"] == "helper"

    def ids(**wanted: Any) -> list[str]:
        return sorted(run.run_id for run in db.get_runs(**wanted))

    assert (ids(), ids(user_id="bob"), ids(agent_id="other")) == (["r1", "r2", "r3"], ["r3"], ["r2"])
    assert (ids(status="ERROR"), ids(status=RunStatus.completed, session_id="a")) == (["r2"], ["r1"])
    assert ids(session_id="unknown") == []


def test_only_the_last_runs_of_a_conversation_are_read(db: AgentKernelDb) -> None:
    db.upsert_session(session_of("s"))
    for number in range(6):
        db.upsert_run(run_of(f"r{number}", str(number)), "s")
    db.upsert_run(run_of("member", "of a team", parent_run_id="r5"), "s")
    db.upsert_run(run_of("failed", "no", status=RunStatus.error), "s")
    assert contents(db, "s", runs_limit=2) == ["4", "5"]
    assert len(contents(db, "s")) == 8


def test_deleted_runs_are_gone_and_the_others_keep_their_order(db: AgentKernelDb) -> None:
    db.upsert_session(session_of("s", runs=[run_of(f"r{number}", str(number)) for number in range(5)]))
    assert db.delete_run("r1") is True
    assert db.delete_run("r1") is False
    db.delete_runs(["r0", "r3", "unknown"])
    db.upsert_run(run_of("r1", "again"), "s")
    assert contents(db, "s") == ["2", "4", "again"]
    assert contents(db, "s", runs_limit=2) == ["4", "again"]


def test_a_waiting_run_is_cancelled_only_while_it_waits(db: AgentKernelDb) -> None:
    db.upsert_session(session_of("s"))
    db.upsert_run(run_of("r", status=RunStatus.pending), "s")

    def cancel(**how: Any) -> bool:
        return db.cancel_pending_run("r", **{"session_id": "s", "reason": "its worker died", "user_id": "ada", **how})

    assert cancel(user_id="bob") is False
    assert cancel(expected_status="RUNNING") is False
    assert cancel() is True
    assert cancel() is False
    run = db.get_run("r")
    assert (run.status, run.content) == (RunStatus.cancelled, "its worker died")
    with pytest.raises(ValueError, match="PENDING or RUNNING"):
        cancel(expected_status="COMPLETED")


def test_half_a_character_and_ids_of_any_length_are_stored(db: AgentKernelDb) -> None:
    id = "\0/*" + "long" * 500
    db.upsert_session(session_of(id))
    db.upsert_run(run_of(id, "half \ud83d and whole \U0001f600"), id)
    assert contents(db, id) == ["half ? and whole \U0001f600"]


# -- memories


def test_memories_are_kept_found_and_deleted(db: AgentKernelDb) -> None:
    def remember(id: str, user: str, text: str, *topics: str) -> None:
        db.upsert_user_memory(
            UserMemory(memory=text, memory_id=id, user_id=user, topics=list(topics), agent_id="helper")
        )

    remember("1", "ada", "likes figs", "food")
    remember("2", "ada", "swims", "sport", "water")
    remember("3", "bob", "likes dates", "food")
    remember("1", "ada", "likes figs and dates", "food")
    assert [one.memory for one in db.get_user_memories(user_id="ada")] == ["likes figs and dates", "swims"]
    assert [one.memory_id for one in db.get_user_memories(topics=["food"])] == ["1", "3"]
    assert [one.memory_id for one in db.get_user_memories(search_content="SWIM")] == ["2"]
    assert set(db.get_all_memory_topics("ada")) == {"food", "sport", "water"}
    stats, total = db.get_user_memory_stats()
    assert ({one["user_id"]: one["total_memories"] for one in stats}, total) == ({"ada": 2, "bob": 1}, 2)
    assert db.get_user_memory("3", user_id="ada") is None
    db.delete_user_memory("3", user_id="ada")
    assert db.get_user_memory("3").memory == "likes dates"
    db.delete_user_memories(["1", "3", "unknown"])
    assert [one.memory_id for one in db.get_user_memories()] == ["2"]
    db.clear_memories()
    assert db.get_user_memories() == []


def test_a_memory_without_an_id_gets_one(db: AgentKernelDb) -> None:
    given = UserMemory(memory="swims", user_id="ada")
    stored = db.upsert_user_memory(given, deserialize=False)
    assert stored["memory_id"] == given.memory_id
    assert db.get_user_memory(str(given.memory_id)).memory == "swims"


def test_a_memory_and_a_session_keep_their_owner_and_when_they_were_made(db: AgentKernelDb) -> None:
    db.upsert_user_memory(UserMemory(memory="swims", memory_id="m", user_id="ada", created_at=1_000))
    changed = db.upsert_user_memory(UserMemory(memory="flies", memory_id="m", user_id="bob", created_at=2_000))
    assert (changed.user_id, changed.created_at, changed.memory) == ("ada", 1_000, "flies")
    assert [one.memory for one in db.get_user_memories(user_id="ada")] == ["flies"]
    assert db.get_user_memories(user_id="bob") == []
    db.upsert_session(AgentSession(session_id="s", user_id="ada", created_at=1_000))
    db.upsert_session(AgentSession(session_id="s", user_id="ada", created_at=2_000))
    assert db.get_session("s").created_at == 1_000


def test_a_branch_for_what_lies_beside_all_branches_is_an_error(repo: ak.Repository) -> None:
    with pytest.raises(ValueError, match="lies beside all branches, and branch 'main' was named"):
        AgentKernelDb(repo, plane="store", branch="main")
    assert AgentKernelDb(repo, plane="store", memory_plane="branch", branch="main").get_user_memories() == []


def test_memories_stay_when_a_checkout_goes_back_unless_they_are_asked_to_go_along(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        staying, going = AgentKernelDb(repo), AgentKernelDb(repo, memory_plane="branch")
        state["n"] = 1
        state.commit("one")
        repo.create_tag("one", repo.resolve("HEAD"))
        staying.upsert_user_memory(UserMemory(memory="stays", memory_id="s"))
        going.upsert_user_memory(UserMemory(memory="goes", memory_id="g"))
        state["n"] = 2
        state.commit("two")
        state.rollback("one")
        assert [one.memory for one in staying.get_user_memories()] == ["stays"]
        assert going.get_user_memories() == []


# -- what is durable, and what is not


def test_another_process_sees_sessions_and_memories_and_goes_on_with_an_agent(tmp_path: Path) -> None:
    child = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from agno.agent import Agent
from agent_kernel.integrations.agno import AgentKernelDb
from tests.integrations.scripted_agno import ScriptedModel

def count(run_context, by: int) -> str:
    run_context.session_state["n"] += by
    return f"it is {{run_context.session_state['n']}}"

db = AgentKernelDb({str(tmp_path / "store")!r})
model = ScriptedModel(("count", {{"by": 2}}), "done")
agent = Agent(model=model, db=db, tools=[count], session_id="talk", user_id="ada", session_state={{"n": 0}},
              add_history_to_context=True, telemetry=False)
agent.run(sys.argv[1])
print(agent.get_session_state(), [text for text in model.asked[0]], len(db.get_session("talk").runs), db.id)
db.close()
"""
    done = [
        subprocess.run([sys.executable, "-c", child, question], capture_output=True, text=True, check=True).stdout
        for question in ("first", "second")
    ]
    first, second = (line.splitlines()[-1] for line in done)
    assert first.startswith("{'n': 2} ['first'] 1 ")
    assert second.startswith("{'n': 4} ['first', 'None', 'it is 2', 'done', 'second'] 2 ")
    assert first.split()[-1] == second.split()[-1]


def test_no_run_is_lost_where_several_threads_and_databases_write_one_session(tmp_path: Path) -> None:
    with ak.open(tmp_path / "store") as one, ak.open(tmp_path / "store") as other:
        dbs = [AgentKernelDb(repo) for repo in (one, other)]
        dbs[0].upsert_session(session_of("s"))

        def work(number: int) -> None:
            for run in range(5):
                dbs[number % 2].upsert_run(run_of(f"{number}.{run}"), "s")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        runs = dbs[0].get_session("s", deserialize=False)["runs"]
    assert {run["run_id"] for run in runs} == {f"{number}.{run}" for number in range(4) for run in range(5)}
    assert [run["run_index"] for run in runs] == list(range(20))


def test_metrics_are_made_of_stored_sessions_and_are_in_memory_alone(repo: ak.Repository) -> None:
    db = AgentKernelDb(repo)
    db.upsert_session(session_of("s", created_at=None, runs=[run_of("r", model="scripted", model_provider="none")]))
    other = AgentKernelDb(repo)
    found = other.calculate_metrics()
    assert found is not None
    assert (found[0]["agent_sessions_count"], found[0]["agent_runs_count"]) == (1, 1)
    assert len(other.get_metrics()[0]) == 1
    assert db.get_metrics()[0] == []


# -- agents


def test_a_checkout_rewinds_the_session_and_the_variables_as_one(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        db = AgentKernelDb(repo)
        agent = agent_on(db, "Figs.", "Dates.", "Nuts.", session_state={"asked": 0}, add_history_to_context=True)

        def ask(question: str, asked: int) -> None:
            state["answer"] = agent.run(question, session_state={"asked": asked}).content
            state.commit(question)

        ask("What shall I buy?", 1)
        repo.create_tag("first", repo.resolve("HEAD"))
        ask("And something else?", 2)
        assert (state["answer"], agent.get_session_state()["asked"]) == ("Dates.", 2)
        state.rollback("first")
        assert (state["answer"], agent.get_session_state()["asked"]) == ("Figs.", 1)
        assert contents(db, "talk") == ["Figs."]
        ask("Anything else?", 2)
        assert agent.model.asked[-1] == ["What shall I buy?", "Figs.", "Anything else?"]
        assert contents(db, "talk") == ["Figs.", "Nuts."]
        repo.create_branch("other", repo.resolve("first"))
        assert contents(AgentKernelDb(repo, branch="other"), "talk") == ["Figs."]


def test_a_cell_s_session_and_variables_are_one_commit(tmp_path: Path) -> None:
    """Its code is what a notebook's cell has: one undo takes back all that it did."""
    with ak.Namespace(tmp_path / "store") as notebook:
        ran = notebook.run(f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from agno.agent import Agent
from agent_kernel.integrations.agno import AgentKernelDb
from tests.integrations.scripted_agno import ScriptedModel

def ask(question, answer):
    agent = Agent(model=ScriptedModel(answer), db=AgentKernelDb({str(tmp_path / "store")!r}), session_id="talk", telemetry=False)
    return agent.run(question).content
""")
        assert ran.error is None, ran.error
        for number in (1, 2):
            ran = notebook.run(f"answer = ask('question', 'answer {number}')")
            assert ran.error is None, ran.error
        assert contents(AgentKernelDb(notebook.repo), "talk") == ["answer 1", "answer 2"]
        notebook.undo()
        assert notebook["answer"] == "answer 1"
        assert contents(AgentKernelDb(notebook.repo), "talk") == ["answer 1"]


def test_sessions_of_the_store_s_plane_stay_when_a_checkout_goes_back(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        db = AgentKernelDb(repo, plane="store")
        agent = agent_on(db, "one", "two")
        for number in (1, 2):
            state["n"] = agent.run(f"question {number}").content
            state.commit()
            repo.create_tag(f"after-{number}", repo.resolve("HEAD"))
        state.rollback("after-1")
        assert state["n"] == "one"
        assert contents(db, "talk") == ["one", "two"]


def test_a_forked_session_goes_its_own_way(db: AgentKernelDb) -> None:
    agent = agent_on(db, "one", "two", "three", session_state={"n": 1})
    agent.run("first")
    agent.run("second")
    fork = agent.fork_session(source_session_id="talk")
    agent.run("third", session_id=fork)
    assert (contents(db, "talk"), contents(db, fork)) == (["one", "two"], ["one", "two", "three"])
    ids = [{run["run_id"] for run in db.get_session(id, deserialize=False)["runs"]} for id in ("talk", fork)]
    assert not ids[0] & ids[1]
    assert agent.get_session_state(fork) == {"n": 1}


@pytest.mark.parametrize(("mode", "expected"), [("runs", []), ("tool-batch", ["RUNNING", "RUNNING"])])
def test_a_run_is_stored_at_its_end_or_after_each_batch_of_tools(
    db: AgentKernelDb, mode: Any, expected: list[str]
) -> None:
    seen: list[tuple[str, int]] = []

    def look(step: int) -> str:
        """Look at what is stored."""
        runs = (db.get_session("talk", deserialize=False) or {"runs": []})["runs"]
        seen.extend((run["status"], len(run["messages"])) for run in runs)
        return "looked"

    agent = agent_on(
        db, ("look", {"step": 1}), ("look", {"step": 2}), ("look", {"step": 3}), "done", tools=[look], checkpoint=mode
    )
    agent.run("go on")
    assert [status for status, _ in seen] == expected
    assert [size for _, size in seen] == sorted({size for _, size in seen})
    (run,) = db.get_session("talk", deserialize=False)["runs"]
    assert (run["status"], run["content"], len(run["messages"])) == ("COMPLETED", "done", 8)


def test_a_run_whose_process_was_killed_goes_on_from_its_last_batch_of_tools(tmp_path: Path) -> None:
    child = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from agno.agent import Agent
from agent_kernel.integrations.agno import AgentKernelDb
from tests.integrations.scripted_agno import ScriptedModel

def work(step: int) -> str:
    if step == 2:
        os._exit(9)
    return "worked"

model = ScriptedModel(("work", {{"step": 1}}), ("work", {{"step": 2}}))
Agent(model=model, db=AgentKernelDb({str(tmp_path / "store")!r}), tools=[work], session_id="talk", checkpoint="tool-batch",
      telemetry=False).run("go on")
"""
    died = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=False)
    assert died.returncode == 9, died.stderr
    db = AgentKernelDb(tmp_path / "store")
    (run,) = db.get_session("talk", deserialize=False)["runs"]
    assert (run["status"], [message["role"] for message in run["messages"]]) == (
        "RUNNING",
        ["user", "assistant", "tool"],
    )
    agent = agent_on(db, "done", checkpoint="tool-batch")
    assert agent.continue_run(run_id=run["run_id"], session_id="talk", input="Go on.").content == "done"
    assert contents(db, "talk") == ["done"]
    db.close()


def test_an_agent_in_a_coroutine_stores_the_same(db: AgentKernelDb) -> None:
    agent = agent_on(db, "one", "two")

    async def talk() -> None:
        await agent.arun("first")
        await agent.arun("second")

    asyncio.run(talk())
    assert contents(db, "talk") == ["one", "two"]


def test_storing_a_session_costs_what_is_new_in_it(tmp_path: Path) -> None:
    lot, own = random.Random(0), 0
    with ak.open(tmp_path / "store") as repo:
        db = AgentKernelDb(repo, plane="store")
        session = session_of("s", session_data={"session_state": {"n": 0}})
        for number in range(300):
            text = "".join(lot.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=3_000))
            run = run_of(f"r{number}", text)
            session.upsert_run(run)
            db.upsert_session(session)
            db.upsert_run(run, "s", run_index=number)
            own += len(json.dumps(run.to_dict()))
    taken = (tmp_path / "store" / "data.mdb").stat().st_blocks * 512
    assert taken <= 1.2 * own


def test_a_trace_is_refused_with_a_line_that_says_where_it_belongs(db: AgentKernelDb) -> None:
    for name in ("upsert_trace", "get_trace", "get_traces", "create_span", "get_spans", "get_span_stats"):
        with pytest.raises(NotImplementedError, match=rf"^AgentKernelDb keeps no traces: .*\({name}\)$"):
            getattr(db, name)()
