"""The OpenAI Agents SDK on our records: its own suites pass, and a conversation rewinds together with the variables."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from tests.integrations.foreign import needs, run_suite

needs("agents.memory")

from agents import Agent, Runner
from agents.testing import ModelStep, ScriptedModel, assistant_message

from agent_kernel.integrations.openai_agents import AgentKernelSession

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


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[ak.Repository]:
    with ak.open(tmp_path / "store") as opened:
        yield opened


def text(item: Any) -> Any:
    return item["content"]


def said(session: AgentKernelSession) -> list[Any]:
    return [item.get("content") for item in asyncio.run(session.get_items())]


@pytest.mark.parametrize(
    ("place", "expected"), [("tests/memory/test_session.py", 39), ("tests/deferred_session_writes", 160)]
)
def test_its_tests_of_sessions_pass_with_ours(place: str, expected: int) -> None:
    passed, failed = run_suite(SDIST, [place], plugin="replace_openai_agents", left_out=LEFT_OUT)
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
