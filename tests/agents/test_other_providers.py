"""Anthropic's and Google's models, by their own packages, from servers on the loopback that answer in their words."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import Versioned
from agent_kernel.agents import Agent, Run
from agent_kernel.agents.events import Action, Error
from agent_kernel.agents.models import Delta
from agent_kernel.errors import TaskFailedError
from tests.agents.openai_server import OpenAIServer, Reply, calls, refuses

KEY = "a-key-for-nobody"


@pytest.fixture(autouse=True, scope="module")
def packages() -> None:
    """Load them for these tests: where they are not installed, each is skipped."""
    pytest.importorskip("pydantic_ai.models.anthropic")
    pytest.importorskip("pydantic_ai.models.google")


def _claude(kind: str, **more: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


def claude(*codes: str, signed: str = "") -> Reply:
    """An answer of the Messages API, streamed, that calls run_python, once for each code.

    Args:
        signed: what it thought before, which it signs.
    """
    about: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-of-the-tests",
        "content": [],
    }
    about |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 100, "output_tokens": 1}}
    thought = {"type": "thinking", "thinking": "", "signature": ""}
    blocks: list[tuple[dict[str, Any], list[dict[str, str]]]] = [
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Now."}])
    ]
    if signed:
        sign = {"type": "signature_delta", "signature": f"signed: {signed}"}
        blocks.insert(0, (thought, [{"type": "thinking_delta", "thinking": signed}, sign]))
    for number, code in enumerate(codes, 1):
        whole = json.dumps({"code": code})
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "run_python", "input": {}}
        pieces = (whole[:7], whole[7:])
        blocks.append((call, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]))
    lines = [_claude("message_start", message=about)]
    for index, (block, deltas) in enumerate(blocks):
        lines += [_claude("content_block_start", index=index, content_block=block)]
        lines += [_claude("content_block_delta", index=index, delta=delta) for delta in deltas]
        lines += [_claude("content_block_stop", index=index)]
    lines += [_claude("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 20})]
    return Reply(lines=[*lines, _claude("message_stop")])


def gemini(code: str, *, signed: str = "") -> Reply:
    """An answer of generateContent, streamed, that calls run_python, with its signature."""
    call: dict[str, Any] = {"functionCall": {"name": "run_python", "args": {"code": code}}}
    if signed:
        call["thoughtSignature"] = base64.b64encode(signed.encode()).decode()
    used = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
    words = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Now."}]}}]}
    last = {"candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP"}]}
    about = {"modelVersion": "gemini-2.5-flash", "usageMetadata": used}
    return Reply(lines=[f"data: {json.dumps(one)}\n\n".encode() for one in (words, {**last, **about})])


PROVIDERS: Mapping[str, tuple[Callable[[str], Reply], str, str]] = {
    # its answers, and the variables of its key and its address
    "anthropic:claude-of-the-tests": (claude, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "google:gemini-2.5-flash": (gemini, "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}


@pytest.fixture(params=PROVIDERS)
def name(request: pytest.FixtureRequest, no_provider_is_asked: None, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("pydantic_ai.models.ALLOW_MODEL_REQUESTS", True)
    return str(request.param)


def serve(name: str, monkeypatch: pytest.MonkeyPatch, *replies: Reply) -> OpenAIServer:
    _, key, address = PROVIDERS[name]
    server = OpenAIServer(*replies)
    monkeypatch.setenv(key, KEY)
    monkeypatch.setenv(address, server.address.removesuffix("/v1"))
    return server


def run_of(name: str) -> Run[object]:
    return Agent("ada", model=name, state=Versioned()).start("Count the rows.")


def test_a_task_runs_to_its_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = PROVIDERS[name][0]
    with serve(
        name, monkeypatch, answer("n = 6 * 7\nprint('rows:', n)"), answer("task.success(n)")
    ).running() as server:
        run = run_of(name)
        assert run.result() == 42
    assert [event.code for event in run.events if isinstance(event, Action)] == [
        "n = 6 * 7\nprint('rows:', n)",
        "task.success(n)",
    ]
    assert run.usage.requests == 2
    assert (run.usage.input_tokens, run.usage.output_tokens) == (200, 40)
    assert run.usage.cost is None  # whatever it would cost elsewhere, it was answered here
    assert all(any(KEY in value for value in headers.values()) for headers in server.headers)
    assert "rows: 42" in json.dumps(server.requests[1])  # what the step showed came back to the model
    assert "run_python" in json.dumps(server.requests[0])


def test_its_code_comes_while_it_is_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = PROVIDERS[name][0]
    with serve(name, monkeypatch, answer("task.success('done')")).running():
        pieces = [one for one in run_of(name).stream() if isinstance(one, Delta)]
    assert "".join(one.text for one in pieces if one.kind == "code") == "task.success('done')"


def test_a_busy_server_is_asked_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = PROVIDERS[name][0]
    busy = refuses(529 if name.startswith("anthropic") else 503, "overloaded", retry_after="0")
    with serve(name, monkeypatch, busy, answer("task.success(1)")).running() as server:
        run = run_of(name)
        assert run.result() == 1
    assert len(server.requests) == 2  # the client itself did not ask again behind our back
    assert [event.fatal for event in run.events if isinstance(event, Error)] == [False]


def test_a_refused_key_ends_the_run_in_one_line_without_the_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = refuses(401, f"the key {KEY} is not valid")
    with serve(name, monkeypatch, refusal).running() as server, pytest.raises(TaskFailedError) as caught:
        run_of(name).result()
    assert len(server.requests) == 1
    assert "401" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def _blocks(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the assistant said before, and what came of it, in a request to the Messages API."""
    return [block for message in request["messages"][1:] for block in message["content"]]


def _claudes(*replies: Reply, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    monkeypatch.setattr("pydantic_ai.models.ALLOW_MODEL_REQUESTS", True)
    return serve("anthropic:claude-of-the-tests", monkeypatch, *replies)


@pytest.mark.usefixtures("no_provider_is_asked")
class TestSigned:
    """What a model thought goes back to it as it signed it: some providers refuse a call without."""

    NAME = "anthropic:claude-of-the-tests"

    def test_thinking_goes_back_in_the_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        replies = claude("n = 42", signed="Six by seven."), claude("task.success(n)")
        with _claudes(*replies, monkeypatch=monkeypatch).running() as server:
            assert run_of(self.NAME).result() == 42
        thought, said, call, came = _blocks(server.requests[1])
        assert thought == {"type": "thinking", "thinking": "Six by seven.", "signature": "signed: Six by seven."}
        assert said["text"] == "Now."
        assert call["input"] == {"code": "n = 42"}
        assert came["tool_use_id"] == call["id"]

    def test_and_in_later_runs_of_another_process(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        first = _claudes(claude("task.success(1)", signed="First."), monkeypatch=monkeypatch)
        with first.running(), Versioned(tmp_path) as state:
            Agent("ada", model=self.NAME, state=state).start("One").result()
        server = _claudes(claude("task.success(2)"), monkeypatch=monkeypatch)
        with server.running(), Versioned(tmp_path) as state:
            Agent("ada", model=self.NAME, state=state).start("Two").result()
        assert "signed: First." in json.dumps(server.requests[0])

    def test_each_of_several_calls_is_answered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        replies = claude("a = 1", "print(a + 1)", signed="Twice."), claude("task.success(a)")
        with _claudes(*replies, monkeypatch=monkeypatch).running() as server:
            assert run_of(self.NAME).result() == 1
        came = {block["tool_use_id"]: json.dumps(block["content"]) for block in _blocks(server.requests[1])[-2:]}
        assert set(came) == {"toolu_1", "toolu_2"}
        assert "2" in came["toolu_1"]
        assert "together with the first call" in came["toolu_2"]

    def test_an_answer_without_any_mark_is_its_words_and_code(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with _claudes(claude("task.success(1)"), monkeypatch=monkeypatch).running():
            run = run_of(self.NAME)
            run.result()
        assert [event.response for event in run.events if isinstance(event, Action)] == [""]

    def test_another_provider_is_sent_what_it_can_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        state = Versioned()
        with _claudes(claude("task.success(1)", signed="First."), monkeypatch=monkeypatch).running():
            Agent("ada", model=self.NAME, state=state).start("One").result()
        with OpenAIServer(calls("task.success(2)")).running() as server:
            Agent("ada", model=f"openai:local@{server.address}", state=state).start("Two").result()
        assert "task.success(1)" in json.dumps(server.requests[0])
        assert "signed" not in json.dumps(server.requests[0])

    def test_a_signature_of_a_call_goes_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pydantic_ai.models.ALLOW_MODEL_REQUESTS", True)
        name = "google:gemini-2.5-flash"
        replies = gemini("n = 1", signed="by gemini"), gemini("task.success(n)")
        with serve(name, monkeypatch, *replies).running() as server:
            assert run_of(name).result() == 1
        assert base64.b64encode(b"by gemini").decode() in json.dumps(server.requests[1])

    def test_forget_takes_it_out_where_it_changes_the_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        state = Versioned()
        state["plan"] = "sell the north-4711 mill"
        state.commit()
        replies = (
            claude("task.success(1)", signed="The plan is to sell the north-4711 mill."),
            claude("task.success(2)"),
        )
        with _claudes(*replies, monkeypatch=monkeypatch).running() as server:
            run = Agent("ada", model=self.NAME, state=state).start("One")
            run.result()
            state.session.forget("plan")
            Agent("ada", model=self.NAME, state=state).start("Two").result()
        assert "north-4711" not in json.dumps(server.requests[1])
