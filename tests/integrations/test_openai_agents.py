"""The OpenAI Agents SDK on our records: its own suites pass, and a conversation rewinds together with the variables."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from tests.integrations.foreign import needs, run_suite

needs("agents.memory")

from agents import Agent, Runner
from agents.testing import ModelStep, ScriptedModel, assistant_message

from agent_kernel.integrations.openai_agents import AdvancedAgentKernelSession, AgentKernelSession

SDIST = "openai_agents-0.24.0"
CONNECTIONS = "it is about SQLite's connections and locks"
ROWS = "it writes into SQLite's tables"
LEFT_OUT = {
    f"tests/memory/test_session.py::test_sqlite_session_{name}": why
    for why, names in {
        CONNECTIONS: (
            "close_closes_worker_thread_connections",
            "reaps_connections_from_exited_worker_threads",
            "closes_retired_connections_before_the_next_allocation",
            "keeps_connections_of_live_worker_threads",
            "file_lock_is_shared_across_instances",
            "rollback_failure_evicts_connection",
            "close_retries_quarantined_connection",
            "post_commit_cancellation_propagates_after_known_outcome",
        ),
        ROWS: (
            "pop_item_skips_corrupt_most_recent",
            "pop_item_returns_none_after_dropping_only_corrupt_rows",
            "get_items_limit_skips_corrupt_newest_rows",
            "get_items_session_settings_limit_skips_corrupt_rows",
            "failed_add_items_releases_write_lock",
            "failed_clear_session_rolls_back",
            "failed_pop_item_releases_write_lock",
        ),
    }.items()
    for name in names
}
ADVANCED = "tests/extensions/memory/test_advanced_sqlite_session.py"
OWNERS = "it is about which tables of a SQLite file belong to whom"
ADVANCED_LEFT_OUT = {
    f"{ADVANCED}::test_{name}": why
    for why, names in {
        CONNECTIONS: (
            "add_items_rollback_failure_invalidates_connection",
            "auxiliary_mutation_cancellation_waits_for_commit",
            "branch_allocation_is_serialized_across_processes",
            "clear_session_rolls_back_on_failure_after_earlier_delete",
            "failed_branch_reservation_rolls_back_and_allows_retry",
            "legacy_destructive_noops_leave_database_unlocked",
            "orphan_cleanup_uses_set_based_delete_for_many_messages",
            "pop_item_rolls_back_on_failure_after_earlier_delete",
            "post_commit_cancellation_propagates_after_known_mutation_outcome",
            "store_run_usage_waits_for_database_lock_off_event_loop",
            "structure_initialization_failure_invalidates_connection",
            "switch_validation_cancellation_waits_for_generation_commit",
        ),
        ROWS: (
            "add_items_rolls_back_partial_structure_metadata_write",
            "branch_reservations_migrate_existing_populated_branches",
            "default_read_does_not_initialize_clear_generation_table",
            "failed_usage_write_rolls_back_cached_connection",
            "get_items_limit_skips_corrupt_newest_rows",
            "legacy_branch_ids_are_backfilled_before_destructive_operations",
            "tool_usage_reads_legacy_shell_and_patch_names",
        ),
        OWNERS: (
            "advanced_session_respects_custom_table_names",
            "concurrent_structure_table_claims_leave_one_coherent_owner",
            "identifier_resolution_leaves_connection_authorized",
            "no_create_session_rejects_a_database_without_an_owner",
            "no_create_session_rejects_owner_metadata_without_base_tables",
            "structure_tables_accept",
            "structure_tables_reject",
        ),
    }.items()
    for name in names
}


def text(item: Any) -> Any:
    return item["content"]


def said(session: AgentKernelSession) -> list[Any]:
    return [item.get("content") for item in asyncio.run(session.get_items())]


@pytest.mark.timeout(500)  # some of theirs wait on purpose
@pytest.mark.parametrize(
    ("place", "expected"),
    [("tests/memory/test_session.py", 39), ("tests/deferred_session_writes", 160), (ADVANCED, 127)],
)
def test_its_tests_of_sessions_pass_with_ours(place: str, expected: int) -> None:
    left_out = LEFT_OUT | ADVANCED_LEFT_OUT
    passed, failed = run_suite(SDIST, [place], plugin="replace_openai_agents", left_out=left_out)
    assert failed == []
    assert passed == expected


def test_a_checkout_rewinds_the_conversation_and_the_variables_as_one(repo: ak.Repository) -> None:
    model = ScriptedModel([ModelStep([assistant_message(f"answer {number}")]) for number in (1, 2)])
    agent = Agent(name="helper", model=model)
    with ak.Versioned(repo) as state:
        session = AgentKernelSession("talk", repo)

        def ask(question: str) -> None:
            state["answer"] = asyncio.run(Runner.run(agent, question, session=session)).final_output
            state.commit(question)

        ask("first")
        repo.create_tag("first", repo.resolve("HEAD"))
        ask("second")
        assert (state["answer"], len(said(session))) == ("answer 2", 4)
        state.rollback("first")
        assert (state["answer"], said(session)[0], len(said(session))) == ("answer 1", "first", 2)
        state.undo()
        assert (state["answer"], len(said(session))) == ("answer 2", 4)


def test_a_branch_has_a_conversation_of_its_own(repo: ak.Repository) -> None:
    session = AgentKernelSession("talk", repo)
    asyncio.run(session.add_items([{"role": "user", "content": "common"}]))
    repo.create_branch("idea", repo.resolve("HEAD"))
    idea = AgentKernelSession("talk", repo, branch="idea")
    asyncio.run(idea.add_items([{"role": "user", "content": "another way"}]))
    assert (said(session), said(idea)) == (["common"], ["common", "another way"])


def test_another_process_goes_on_with_a_conversation(repo: ak.Repository, tmp_path: Path) -> None:
    odd: Any = {"role": "user", "content": "half \ud800 and é and \0", "number": 2**70}
    asyncio.run(AgentKernelSession("talk", repo).add_items([odd]))
    with ak.open(tmp_path / "store") as other:
        assert asyncio.run(AgentKernelSession("talk", other).get_items()) == [odd]


def test_a_conversation_costs_what_was_said(tmp_path: Path) -> None:
    """Each turn is a commit of its own here: the worst case."""

    def grow(repo: ak.Repository, turns: int) -> float:
        session = AgentKernelSession("talk", repo)
        before = sum(repo.stats().stored.values())

        async def talk() -> None:
            for _ in range(turns):
                await session.add_items([{"role": "user", "content": os.urandom(1_024).hex()}])

        asyncio.run(talk())
        return (sum(repo.stats().stored.values()) - before) / (turns * 2_048)

    with ak.open(tmp_path / "store") as repo:
        _, _, late = grow(repo, 50), grow(repo, 200), grow(repo, 50)
    assert late < 1.5  # the text is compressed, and each turn is a commit


USER: Any = {"role": "user", "content": "a question"}
MODEL: Any = {"role": "assistant", "content": "an answer"}


def test_a_checkout_rewinds_branches_of_a_conversation_and_the_variables_as_one(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        session = AdvancedAgentKernelSession("talk", repo)
        state["turns"] = 2
        asyncio.run(session.add_items([USER, MODEL, USER, MODEL]))
        state.commit("two turns")
        assert asyncio.run(session.create_branch_from_turn(2, "idea")) == "idea"
        state["turns"] = 1
        state.commit("another way")
        assert [branch["branch_id"] for branch in asyncio.run(session.list_branches())] == ["main", "idea"]
        state.undo()
        assert state["turns"] == 2
        assert [branch["branch_id"] for branch in asyncio.run(session.list_branches())] == ["main"]
        assert session.current_branch == "main"
        assert said(session) == said(AdvancedAgentKernelSession("talk", repo)) != []
        asyncio.run(session.add_items([USER]))
        assert [branch["branch_id"] for branch in asyncio.run(session.list_branches())] == ["main"]
        assert len(said(AdvancedAgentKernelSession("talk", repo))) == 5


def test_a_rollback_that_is_reversed_goes_on_with_the_branch(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        session = AdvancedAgentKernelSession("talk", repo)
        state["turns"] = 2
        asyncio.run(session.add_items([USER, MODEL, USER, MODEL]))
        state.commit("two turns")
        asyncio.run(session.create_branch_from_turn(2, "idea"))
        state["turns"] = 1
        state.commit("another way")
        state.undo()
        assert len(said(session)) == 4
        state.redo()
        assert session.current_branch == "idea"
        assert said(session) == [USER["content"], MODEL["content"]]


def test_a_conversation_that_the_plain_class_began_has_turns_and_branches(repo: ak.Repository) -> None:
    asyncio.run(AgentKernelSession("talk", repo).add_items([USER, MODEL, USER]))
    session = AdvancedAgentKernelSession("talk", repo)
    asyncio.run(session.add_items([MODEL, USER]))
    assert list(asyncio.run(session.get_conversation_by_turns())) == [1, 2, 3]
    asyncio.run(session.create_branch_from_turn(3, "idea"))
    assert len(said(session)) == 4
    asyncio.run(session.delete_branch("idea", force=True))
    assert said(session) == said(AgentKernelSession("talk", repo))
    assert len(said(session)) == 5


def test_what_a_failed_change_did_is_not_there(repo: ak.Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    session = AdvancedAgentKernelSession("talk", repo)
    asyncio.run(session.add_items([USER]))
    head = repo.resolve("HEAD")

    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "_usage_id": session.pop_item,
        "_forget_usage": session.clear_session,
        "_keep": lambda: session.create_branch_from_turn(1, "idea"),
    }
    for broken, call in calls.items():
        with monkeypatch.context() as patch:
            patch.setattr(session, broken, fail)
            with pytest.raises(RuntimeError, match="on purpose"):
                asyncio.run(call())
    assert (repo.resolve("HEAD"), said(session), session.current_branch) == (head, [USER["content"]], "main")
    asyncio.run(session.add_items([MODEL]))  # and nothing waits for what failed
    assert len(said(session)) == 2


def test_a_branch_of_a_conversation_costs_little(tmp_path: Path) -> None:
    with ak.open(tmp_path / "store") as repo:
        session = AdvancedAgentKernelSession("talk", repo)
        items = [{"role": "user", "content": os.urandom(1_024).hex()} for _ in range(200)]
        asyncio.run(session.add_items(items))  # type: ignore[arg-type]
        before = sum(repo.stats().stored.values())
        for number in range(5):
            asyncio.run(session.create_branch_from_turn(200, f"idea {number}"))
            asyncio.run(session.switch_to_branch("main"))
        each = (sum(repo.stats().stored.values()) - before) / 5
    assert each < 0.05 * 200 * 2_048


@pytest.mark.parametrize("kind", [AgentKernelSession, AdvancedAgentKernelSession])
@pytest.mark.parametrize("item", ["text", "5", "", 5, None, [1], [{"role": "user"}], True], ids=repr)
def test_an_item_that_is_no_dict_comes_back_and_spoils_no_conversation(kind: Any, item: Any) -> None:
    session = kind("talk", ak.open("memory:"))
    hello: Any = {"role": "user", "content": "hello"}
    for one in (hello, item):
        asyncio.run(session.add_items([one]))
    assert asyncio.run(session.get_items()) == [hello, item]
    assert asyncio.run(session.pop_item()) == item


@pytest.mark.parametrize("kind", [AgentKernelSession, AdvancedAgentKernelSession])
@pytest.mark.parametrize("items", ["abc", b"abc", {"role": "user", "content": "hello"}, 5, None], ids=repr)
def test_one_item_is_not_several(
    repo: ak.Repository, kind: type[AgentKernelSession | AdvancedAgentKernelSession], items: Any
) -> None:
    session = kind(session_id="talk", repo=repo)
    with pytest.raises(TypeError, match=r"^items is a list, not .+: give"):
        asyncio.run(session.add_items(items))
    assert asyncio.run(session.get_items()) == []
