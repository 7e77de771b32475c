"""Anthropic's and Google's models, by their own packages, from servers on the loopback that answer in their words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agent_kernel import Versioned
from agent_kernel.agents import Agent, Run
from agent_kernel.agents.events import Action, Error
from agent_kernel.agents.models import Delta
from agent_kernel.errors import TaskFailedError
from tests.agents.openai_server import OpenAIServer, Reply, refuses

pytest.importorskip("pydantic_ai.models.anthropic")
pytest.importorskip("pydantic_ai.models.google")

KEY = "a-key-for-nobody"


def _claude(kind: str, **more: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


def claude(code: str, *, thinking: str = "") -> Reply:
    """An answer of the Messages API, streamed, that calls run_python."""
    about: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-of-the-tests",
        "content": [],
    }
    about |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 100, "output_tokens": 1}}
    whole = json.dumps({"code": code})
    call = {"type": "tool_use", "id": "toolu_1", "name": "run_python", "input": {}}
    text = {"type": "text", "text": ""}
    return Reply(
        lines=[
            _claude("message_start", message=about),
            _claude("content_block_start", index=0, content_block=text),
            _claude("content_block_delta", index=0, delta={"type": "text_delta", "text": thinking or "Now."}),
            _claude("content_block_stop", index=0),
            _claude("content_block_start", index=1, content_block=call),
            *(
                _claude("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": piece})
                for piece in (whole[:7], whole[7:])
            ),
            _claude("content_block_stop", index=1),
            _claude("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 20}),
            _claude("message_stop"),
        ]
    )


def gemini(code: str) -> Reply:
    """An answer of generateContent, streamed, that calls run_python."""
    call = {"functionCall": {"name": "run_python", "args": {"code": code}}}
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
