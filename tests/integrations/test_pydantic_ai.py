"""pydantic-ai-harness on our records: runs are resumed and forked, and behave as on its own store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from tests.integrations.foreign import needs

needs("pydantic_ai_harness.step_persistence")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    InMemoryStepStore,
    RunRecord,
    StepEvent,
    StepPersistence,
    StepStore,
    ToolEffectRecord,
    continue_run,
    fork_run,
)

from agent_kernel.integrations.pydantic_ai import AgentKernelStepStore
from agent_kernel.records.collection import Records


def turn(number: int) -> list[ModelMessage]:
    question = ModelRequest(parts=[UserPromptPart(f"question {number}")])
    return [question, ModelResponse(parts=[TextPart(f"answer {number}")])]


async def script(store: Any) -> list[Any]:
    """Each of the ten methods, with repetitions and what is not there."""
    seen: list[Any] = []
    for number, parent in enumerate([None, "r0", "r0"]):
        await store.register_run(RunRecord(run_id=f"r{number}", parent_run_id=parent, conversation_id="c"))
    for step in range(4):
        messages = [message for number in range(step + 1) for message in turn(number)]
        for key in (f"{step}:a", f"{step}:a", f"{max(step - 2, 0)}:late"):
            state: Any = "interrupted" if step == 3 else "complete"
            await store.save_snapshot(
                ContinuableSnapshot(run_id="r0", step_index=step, messages=messages, state=state, idempotency_key=key)
            )
        for _ in range(2):
            await store.append_event(
                StepEvent(run_id="r0", kind="run_started", step_index=step, idempotency_key=f"e{step}")
            )
        await store.append_event(StepEvent(run_id="r0", kind="run_completed", step_index=step))
        await store.record_tool_effect(
            ToolEffectRecord(tool_call_id=f"t{step}", tool_name="pay", run_id="r0", status="started")
        )
    await store.record_tool_effect(
        ToolEffectRecord(tool_call_id="t1", tool_name="pay", run_id="r0", status="completed", effect_summary="paid")
    )
    for run in ("r0", "r1", "none"):
        seen += [await store.get_run(run_id=run), await store.list_events(run_id=run)]
        for interrupted in (False, True):
            seen.append(await store.latest_snapshot(run_id=run, include_interrupted=interrupted))
            seen.append(await store.list_snapshots(run_id=run, include_interrupted=interrupted))
        seen.append(await store.list_unresolved_tool_effects(run_id=run))
        seen.append(await store.get_tool_effect(run_id=run, tool_call_id="t1"))
    seen.append(await store.list_runs())
    seen += [await store.list_runs(parent_run_id="r0"), await store.list_runs(conversation_id="other")]
    return [strip(one) for one in seen]


def strip(value: Any) -> Any:
    """Without times, which differ from call to call, and counts, of which defaults are written out."""
    if isinstance(value, list):
        return [strip(one) for one in value]
    if hasattr(value, "__dict__"):
        return {
            name: strip(one) for name, one in vars(value).items() if name not in ("timestamp", "started_at", "usage")
        }
    return value


def test_all_ten_methods_do_what_its_own_store_does(repo: ak.Repository) -> None:
    store = AgentKernelStepStore(repo)
    assert isinstance(store, StepStore)
    assert asyncio.run(script(store)) == asyncio.run(script(InMemoryStepStore()))


def answering(calls: list[str]) -> FunctionModel:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) % 4 == 1:
            return ModelResponse(parts=[ToolCallPart("pay", {"amount": 3}, f"call {len(messages)}")])
        return ModelResponse(parts=[TextPart(f"done after {len(messages)}")])

    return FunctionModel(answer)


def agent_on(store: AgentKernelStepStore, calls: list[str]) -> Any:
    agent = Agent(answering(calls), capabilities=[StepPersistence(store=store)])

    def pay(amount: int) -> str:
        calls.append(f"paid {amount}")
        return "paid"

    agent.tool_plain(pay)
    return agent


def test_a_run_is_resumed_and_forked_in_another_process_too(repo: ak.Repository, tmp_path: Path) -> None:
    calls: list[str] = []
    store = AgentKernelStepStore(repo)
    agent = agent_on(store, calls)
    assert asyncio.run(agent.run("buy")).output == "done after 3"
    (first,) = asyncio.run(store.list_runs())
    with ak.open(tmp_path / "store") as other:
        again = AgentKernelStepStore(other)
        history = asyncio.run(continue_run(again, run_id=first.run_id))
        assert len(history) == 4
        assert asyncio.run(agent_on(again, calls).run("and more", message_history=history)).output == "done after 7"
        fork = asyncio.run(fork_run(again, run_id=first.run_id))
        assert asyncio.run(agent_on(again, calls).run("or else", message_history=fork)).output == "done after 7"
    assert calls == ["paid 3"] * 3
    assert len(asyncio.run(store.list_runs())) == 3


def test_a_checkout_rewinds_runs_and_variables_and_no_effect(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        store = AgentKernelStepStore(repo)
        state["x"] = 1
        state.commit("before")
        repo.create_tag("before", repo.resolve("HEAD"))
        asyncio.run(agent_on(store, []).run("buy"))
        state["x"] = 2
        state.commit("bought")
        (run,) = asyncio.run(store.list_runs())
        state.rollback("before")
        assert (state["x"], asyncio.run(store.list_runs())) == (1, [])
        effect = asyncio.run(store.get_tool_effect(run_id=run.run_id, tool_call_id="call 1"))
        assert effect is not None
        assert effect.status == "completed"
        state.undo()
        assert (state["x"], len(asyncio.run(store.list_runs()))) == (2, 1)


def test_a_step_reads_no_more_of_a_long_run_than_of_a_short_one(
    repo: ak.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = AgentKernelStepStore(repo)
    read: list[str] = []
    load, load_many = Records.load, Records._load_many

    def noting(self: Any, row: Any, id: str) -> Any:
        read.append(id)
        return load(self, row, id)

    def noting_many(self: Any, rows: Any) -> Any:
        read.extend(id for id, _ in rows)
        return load_many(self, rows)

    monkeypatch.setattr(Records, "load", noting)
    monkeypatch.setattr(Records, "_load_many", noting_many)
    counts = []
    for step in range(20):
        read.clear()
        messages = [message for number in range(step + 1) for message in turn(number)]
        snapshot = ContinuableSnapshot(
            run_id="r", step_index=step, messages=messages, state="complete", idempotency_key=f"{step}:a"
        )
        event = StepEvent(run_id="r", kind="run_started", step_index=step, idempotency_key=f"e{step}")
        for _ in range(2):
            asyncio.run(store.save_snapshot(snapshot))
            asyncio.run(store.append_event(event))
        counts.append(len(read))
    assert counts[-1] == counts[2] > 0
    assert [len(one.messages) for one in asyncio.run(store.list_snapshots(run_id="r"))] == [2 * n for n in range(1, 21)]


def test_messages_that_were_cut_away_are_not_in_later_snapshots(repo: ak.Repository) -> None:
    store = AgentKernelStepStore(repo)
    histories = [turn(1), turn(1) + turn(2), turn(2), turn(1) + turn(3) + turn(4), turn(1)]
    for step, messages in enumerate(histories):
        asyncio.run(
            store.save_snapshot(ContinuableSnapshot(run_id="r", step_index=step, messages=messages, state="complete"))
        )
    found = [one.messages for one in asyncio.run(store.list_snapshots(run_id="r"))]
    assert [strip([part for one in messages for part in one.parts]) for messages in found] == [
        strip([part for one in messages for part in one.parts]) for messages in histories
    ]
