"""Models of providers, by pydantic-ai's names (`openai:…`, `anthropic:…`, `google:…`, `ollama:…`).

pydantic-ai carries one request and streams one answer; the loop around it is the run's own, because a run has to be
rebuilt from its events alone, in another process too. Of an answer with several calls the code is joined into one step.

The extra `agent-kernel[agents]` brings pydantic-ai-slim, and a provider's own package is an extra of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from agent_kernel.agents.events import Usage
from agent_kernel.agents.models import Answer, Delta, Message, Model, Request, Returned, Said, Told
from agent_kernel.errors import MissingExtraError, ModelError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.tools import ToolDefinition

__all__ = ["Provided", "provided"]

_TOOL = "run_python"
_SCHEMA = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "Python to run in the notebook's namespace"}},
    "required": ["code"],
    "additionalProperties": False,
}
_TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504, 529}


def provided(name: str) -> Model:
    """The model of this name.

    Raises:
        MissingExtraError: the package that it needs is not installed.
        ModelError: there is no such model, or its key is not set.
    """
    try:
        from pydantic_ai.models import infer_model
    except ImportError as error:
        raise MissingExtraError("pydantic_ai", "agents") from error
    try:
        return Provided(infer_model(name), name)
    except ImportError as error:
        raise MissingExtraError(str(error.name or error), name.partition(":")[0]) from error
    except Exception as error:
        raise ModelError(name, str(error)) from error


class Provided:
    """A model of pydantic-ai, any object of its `Model` classes."""

    def __init__(self, model: ProviderModel, name: str = "") -> None:
        self._model = model
        self.name = name or f"{model.system}:{model.model_name}"

    async def stream(self, request: Request) -> AsyncIterator[Delta | Answer]:
        from pydantic_ai import exceptions
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.settings import ModelSettings

        asked = ModelRequestParameters(function_tools=[_tool()], allow_text_output=True)
        settings = ModelSettings(parallel_tool_calls=False)
        try:
            async with model_request_stream(
                self._model, _messages(request), model_settings=settings, model_request_parameters=asked
            ) as stream:
                async for event in stream:
                    delta = _delta(event)
                    if delta is not None:
                        yield delta
                answer = _answer(stream.get())
        except exceptions.ModelHTTPError as error:
            raise _http_error(self.name, error) from error
        except (exceptions.ModelAPIError, exceptions.UnexpectedModelBehavior) as error:
            transient = isinstance(error, exceptions.ModelConnectionError | exceptions.ModelUnavailableError)
            raise ModelError(self.name, _one_line(error), retry_after_s=1.0 if transient else None) from error
        except exceptions.UserError as error:
            raise ModelError(self.name, _one_line(error)) from error
        yield answer


def _tool() -> ToolDefinition:
    from pydantic_ai.tools import ToolDefinition

    return ToolDefinition(
        name=_TOOL,
        description="Run Python in the notebook's own namespace; what it shows and changes comes back.",
        parameters_json_schema=_SCHEMA,
    )


def _messages(request: Request) -> list[ModelMessage]:
    """The conversation in pydantic-ai's terms; what follows on each other from one side is one message."""
    from pydantic_ai.messages import ModelRequest, ModelResponse

    found: list[ModelMessage] = []
    for message in request.messages:
        if isinstance(message, Said):
            found.append(ModelResponse(parts=_said(message)))
        elif found and isinstance(found[-1], ModelRequest):
            found[-1] = ModelRequest(parts=[*found[-1].parts, _part(message)], instructions=request.instructions)
        else:
            found.append(ModelRequest(parts=[_part(message)], instructions=request.instructions))
    return found


def _part(message: Message) -> Any:
    from pydantic_ai.messages import ToolReturnPart, UserPromptPart

    if isinstance(message, Returned):
        return ToolReturnPart(tool_name=_TOOL, content=message.text, tool_call_id=message.call)
    assert isinstance(message, Told)
    return UserPromptPart(content=message.text)


def _said(message: Said) -> list[Any]:
    from pydantic_ai.messages import TextPart, ToolCallPart

    parts: list[Any] = [TextPart(content=message.text)] if message.text else []
    if message.code is not None:
        parts.append(ToolCallPart(tool_name=_TOOL, args={"code": message.code}, tool_call_id=message.call))
    return parts or [TextPart(content="")]


def _delta(event: object) -> Delta | None:
    from pydantic_ai import messages

    if isinstance(event, messages.PartStartEvent):
        part = event.part
        if isinstance(part, messages.ThinkingPart) and part.content:
            return Delta("thinking", part.content)
        if isinstance(part, messages.TextPart) and part.content:
            return Delta("text", part.content)
        if isinstance(part, messages.ToolCallPart) and isinstance(part.args, str) and part.args:
            return Delta("code", part.args)
    if isinstance(event, messages.PartDeltaEvent):
        piece = event.delta
        if isinstance(piece, messages.ThinkingPartDelta) and piece.content_delta:
            return Delta("thinking", piece.content_delta)
        if isinstance(piece, messages.TextPartDelta) and piece.content_delta:
            return Delta("text", piece.content_delta)
        if isinstance(piece, messages.ToolCallPartDelta) and isinstance(piece.args_delta, str) and piece.args_delta:
            return Delta("code", piece.args_delta)
    return None


def _answer(response: ModelResponse) -> Answer:
    """The whole answer.

    Raises:
        ModelError: it calls a tool that there is not, or was cut off before its code was whole.
    """
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    thinking = "".join(part.content for part in response.parts if isinstance(part, ThinkingPart))
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    codes: list[str] = []
    for call in calls:
        try:
            codes.append(str(call.args_as_dict(raise_if_invalid=True)["code"]))
        except (KeyError, ValueError) as error:
            name = response.model_name or "the model"
            cut = " (its answer was cut off)" if response.finish_reason == "length" else ""
            raise ModelError(name, f"it called {call.tool_name} without whole code{cut}", retry_after_s=0.0) from error
    used = response.usage
    usage = Usage(1, used.input_tokens, used.output_tokens, _cost(response))
    code = "\n\n".join(codes) if calls else None
    return Answer(thinking, text, code, calls[0].tool_call_id if calls else "", usage)


def _cost(response: ModelResponse) -> float | None:
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # its price is not known
        return None


def _http_error(name: str, error: Any) -> ModelError:
    wait = None
    if error.status_code in _TRANSIENT:
        headers: dict[str, str] = dict(error.headers or {})
        asked = headers.get("retry-after", "")
        wait = float(asked) if asked.replace(".", "", 1).isdigit() else 1.0
    return ModelError(name, f"HTTP {error.status_code}: {_one_line(error)}", retry_after_s=wait)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:400]
