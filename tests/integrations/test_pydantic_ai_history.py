"""Conversations of pydantic-ai by name: a run goes on with one, another name forks it, and a checkout rewinds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from tests.integrations.foreign import needs

needs("pydantic_ai.messages")

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_kernel.integrations.pydantic_ai_history import AgentKernelHistory


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Asks the tool first, and then says which questions it has heard."""
    last = messages[-1].parts[-1]
    if isinstance(last, UserPromptPart):
        return ModelResponse(parts=[ToolCallPart("price", {"of": str(last.content)}, f"call {len(messages)}")])
    heard = [str(part.content) for one in messages for part in one.parts if isinstance(part, UserPromptPart)]
    return ModelResponse(parts=[TextPart(", ".join(heard))])


agent = Agent(FunctionModel(answer))


@agent.tool_plain
def price(of: str) -> dict[str, Any]:
    return {"of": of, "price": 3.5}


def ask(history: AgentKernelHistory, question: str) -> str:
    result = agent.run_sync(question, message_history=history.messages())
    history.extend(result.new_messages())
    return result.output


def test_a_run_is_resumed_in_another_process_and_forked_to_another_name(repo: ak.Repository, tmp_path: Path) -> None:
    history = AgentKernelHistory("dinner", repo)
    assert (ask(history, "figs"), ask(history, "dates")) == ("figs", "figs, dates")
    with ak.open(tmp_path / "store") as other:
        again = AgentKernelHistory("dinner", other)
        assert ask(again, "nuts") == "figs, dates, nuts"
        fork = again.fork("without dates", until=4)
        assert ask(fork, "milk") == "figs, milk"
    assert (len(history), len(AgentKernelHistory("without dates", repo))) == (12, 8)
    assert ask(history, "bread") == "figs, dates, nuts, bread"
    with pytest.raises(ak.StaleRecordError):
        history.fork("without dates")
    with pytest.raises(IndexError, match="has 16 items"):
        history.fork("more", until=17)


@pytest.mark.parametrize("plane", ["branch", "store"])
def test_messages_come_back_as_they_were(plane: Any, repo: ak.Repository) -> None:
    image = BinaryContent(b"\xff\x00image", media_type="image/png")
    messages: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(["look", image])], instructions="Be short."),
        ModelResponse(parts=[ThinkingPart("hm", signature="s"), ToolCallPart("t", '{"a": 1}', "c")], model_name="m"),
        ModelRequest(parts=[ToolReturnPart("t", {"b": [1.5, None]}, "c")]),
        ModelResponse(parts=[TextPart("done")]),
    ]
    for name in ("talk", "x" * 1_000, "line\nbreak"):
        history = AgentKernelHistory(name, repo, plane=plane)
        assert history.extend(messages) == 4
        found = history.messages()
        assert ModelMessagesTypeAdapter.dump_json(found) == ModelMessagesTypeAdapter.dump_json(messages)
        assert (found[1:], [*history][1:], history.messages(until=2)[1:]) == (messages[1:], messages[1:], messages[1:2])
    with pytest.raises(ak.InvalidRecordError):
        history.extend([ModelRequest(parts=[UserPromptPart("\ud800")])])
    assert len(history) == 4
    history.clear()
    assert history.messages() == []


def test_infinity_and_nan_come_back_and_are_not_stored_again(repo: ak.Repository) -> None:
    history = AgentKernelHistory("talk", repo)
    result = {"loss": float("inf"), "steps": [float("nan"), float("-inf"), None]}
    messages: list[ModelMessage] = [
        ModelResponse(parts=[ToolCallPart("fit", {"most": float("inf")}, "c")]),
        ModelRequest(parts=[ToolReturnPart("fit", result, "c", metadata=result)]),
    ]
    history.save(messages)
    call, answer = (one.parts[0] for one in history.messages())
    assert isinstance(call, ToolCallPart)
    assert isinstance(answer, ToolReturnPart)
    assert str([call.args, answer.content, answer.metadata]) == str([{"most": float("inf")}, result, result])
    history.save([*messages, ModelResponse(parts=[TextPart("done")])])
    change = next(repo.list("pydantic-ai talk", plane="branch").history())
    assert (change.kept, change.removed) == (2, 0)


def test_saving_a_whole_conversation_stores_what_is_new_and_drops_what_is_gone(repo: ak.Repository) -> None:
    history = AgentKernelHistory("talk", repo)
    first = agent.run_sync("figs")
    assert history.save(first.all_messages()) == 4
    second = agent.run_sync("dates", message_history=history.messages())
    assert history.save(second.all_messages()) == 8
    newest = next(iter(repo.list("pydantic-ai talk", plane="branch").history()))
    assert (newest.kept, len(newest.added)) == (4, 4)
    assert history.save(second.all_messages()[:4]) == 4
    assert history.messages() == first.all_messages()


def test_two_runs_that_begin_at_the_same_message_do_not_mix(repo: ak.Repository) -> None:
    history = AgentKernelHistory("talk", repo)
    runs = [agent.run_sync(question, message_history=history.messages()) for question in ("figs", "dates")]
    assert history.extend(runs[0].new_messages(), expect=0) == 4
    with pytest.raises(ak.StaleRecordError):
        history.extend(runs[1].new_messages(), expect=0)
    assert history.messages() == runs[0].all_messages()


def test_a_checkout_rewinds_the_conversation_and_the_variables_as_one(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        history, beside = AgentKernelHistory("talk", repo), AgentKernelHistory("talk", repo, plane="store")
        for question in ("figs", "dates"):
            state["answer"] = ask(history, question)
            ask(beside, question)
            state.commit(question)
        state.undo()
        assert (state["answer"], len(history), len(beside)) == ("figs", 4, 8)
        state.redo()
        assert (state["answer"], len(history)) == ("figs, dates", 8)
        repo.create_branch("idea", repo.resolve("HEAD~1"))
    assert ask(AgentKernelHistory("talk", repo, branch="idea"), "milk") == "figs, milk"
    assert len(history) == 8
    with pytest.raises(ValueError, match="lies beside all branches"):
        AgentKernelHistory("talk", repo, plane="store", branch="idea")


@pytest.mark.parametrize("wrong", [["figs"], "figs", [{"role": "user"}]])
def test_what_is_no_message_is_refused(repo: ak.Repository, wrong: Any) -> None:
    history = AgentKernelHistory("dinner", repo)
    for act in (history.extend, history.save):
        with pytest.raises(TypeError, match="a conversation holds ModelMessage objects, not"):
            act(wrong)
    assert history.messages() == []
