"""Ask a model one question, and see what it answers."""

from __future__ import annotations

import asyncio

import pytest

from agent_kernel.agents.models import Answer, Delta, Model, Request, UserMessage, model_named
from agent_kernel.errors import ModelError
from tests.agents.openai_server import OpenAIServer, Reply

QUESTION = Request("Work.", (UserMessage("Do it."),))


def asked(model: Model, request: Request = QUESTION) -> tuple[list[Delta], Answer]:
    async def ask() -> list[Delta | Answer]:
        return [piece async for piece in model.stream(request)]

    *deltas, answer = asyncio.run(ask())
    assert isinstance(answer, Answer)
    return [delta for delta in deltas if isinstance(delta, Delta)], answer


def answered(*replies: Reply, request: Request = QUESTION, name: str = "local") -> tuple[list[Delta], Answer]:
    with OpenAIServer(*replies).running() as server:
        return asked(model_named(f"openai:{name}@{server.address}"), request)


def refused(reply: Reply) -> ModelError:
    with pytest.raises(ModelError) as caught:
        answered(reply)
    return caught.value


def text_of(deltas: list[Delta], kind: str) -> list[str]:
    return [delta.text for delta in deltas if delta.kind == kind]
