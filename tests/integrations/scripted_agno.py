"""A model of agno that gives answers from a list, without a network."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from agno.models.base import Model
from agno.models.response import ModelResponse

Answer = str | tuple[str, dict[str, Any]]


class ScriptedModel(Model):
    """Each answer is a text, or a tool's name and its arguments. `asked` has the messages of each request."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(id="scripted", name="Scripted", provider="none")
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def invoke(self, messages: list[Any], *args: Any, **options: Any) -> ModelResponse:
        self.asked.append([str(message.content) for message in messages])
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return ModelResponse(role="assistant", content=answer)
        name, arguments = answer
        call = {"name": name, "arguments": json.dumps(arguments)}
        id = f"call-{len(self.answers)}"
        return ModelResponse(role="assistant", tool_calls=[{"id": id, "type": "function", "function": call}])

    async def ainvoke(self, messages: list[Any], *args: Any, **options: Any) -> ModelResponse:
        return self.invoke(messages)

    def invoke_stream(self, messages: list[Any], *args: Any, **options: Any) -> Iterator[ModelResponse]:
        yield self.invoke(messages)

    async def ainvoke_stream(self, messages: list[Any], *args: Any, **options: Any) -> AsyncIterator[ModelResponse]:
        yield self.invoke(messages)

    def _parse_provider_response(self, response: Any, **options: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response
