"""One request to a model of pydantic-ai, and its answer as it comes in.

pydantic-ai carries one request and streams one answer; the loop around it is the run's own, because a run has to be
rebuilt from its events alone, in another process too. Of an answer with several calls the code is joined into one step.
What a model thought before is not sent back to it: no event says how it was signed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import msgspec

from agent_kernel.agents.context import tokens_of
from agent_kernel.agents.events import Usage
from agent_kernel.agents.models import Answer, Delta, Message, Request, Returned, Said, Told
from agent_kernel.agents.models.fencing import in_words
from agent_kernel.agents.models.fragments import CodeReader, without_surrogates
from agent_kernel.errors import ModelError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ModelResponsePart, ToolCallPart
    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition

__all__ = ["Provided", "answer_of", "is_local"]

_TOOL = "run_python"
_SCHEMA = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "Python to run in the notebook's namespace"}},
    "required": ["code"],
    "additionalProperties": False,
}
_BETWEEN = "\n\n"  # the code of several calls


class Provided:
    """A model of pydantic-ai, any object of its `Model` classes."""

    def __init__(self, model: ProviderModel, name: str = "") -> None:
        self._model = model
        self.name = name or f"{model.system}:{model.model_name}"
        self._takes_tools = True  # until its server says that it does not

    def has_price(self) -> bool:
        """Whether it is known what its answers cost, by its provider and name."""
        from pydantic_ai.messages import ModelResponse
        from pydantic_ai.usage import RequestUsage

        if is_local(self._model.base_url):
            return False
        answer = ModelResponse(
            parts=[],
            usage=RequestUsage(input_tokens=1, output_tokens=1),
            model_name=self._model.model_name,
            provider_name=self._model.system,
            provider_url=self._model.base_url,
        )
        return _cost(answer) is not None

    async def stream(self, request: Request) -> AsyncIterator[Delta | Answer]:
        """The answer in pieces, and at last as a whole.

        Raises:
            ModelError: it cannot answer; `retry_after_s` says whether asking again may help.
        """
        from pydantic_ai.exceptions import ModelHTTPError

        from agent_kernel.agents.models.refusing import names_tools, refusals

        with refusals(self.name):
            while True:
                with_tools = self._takes_tools
                try:
                    async with aclosing(self._asked(request, with_tools=with_tools)) as pieces:
                        async for piece in pieces:
                            yield piece
                    return
                except ModelHTTPError as error:
                    if not with_tools or not names_tools(error):
                        raise
                    self._takes_tools = False

    async def _asked(self, request: Request, *, with_tools: bool) -> AsyncGenerator[Delta | Answer]:
        """One attempt: with the tool, or, where the server takes none, in words alone."""
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.models import ModelRequestParameters

        asked = ModelRequestParameters(function_tools=[_tool()] if with_tools else [], allow_text_output=True)
        messages = messages_of(request if with_tools else in_words(request))
        pieces = _Pieces()
        # Entering the model closes its connections afterwards: nobody else would, and a fork must find none open.
        async with (
            self._model,
            model_request_stream(
                self._model,
                messages,
                model_settings=self._settings(request.settings, with_tools=with_tools),
                model_request_parameters=asked,
            ) as stream,
        ):
            async for event in stream:
                for delta in pieces.of(event):
                    yield delta
            offered = (_TOOL,) if with_tools else ()
            answer = answer_of(stream.get(), self.name, offered=offered, is_local=is_local(self._model.base_url))
        answer = answer if answer.usage.tokens else _estimated(request, answer)
        yield answer if with_tools else msgspec.structs.replace(answer, in_words=True)

    def _settings(self, wanted: Mapping[str, object], *, with_tools: bool) -> ModelSettings:
        """How the model is asked, less what it warns that it ignores.

        The run itself asks again, so that each attempt is an event: the provider's client does not.
        """
        from pydantic_ai.settings import ModelSettings

        ours: dict[str, Any] = {"parallel_tool_calls": False, "max_retries": 0}
        rejected = cast("Mapping[str, Any]", self._model.profile).get("openai_unsupported_model_settings", ())
        ignored = {*self._model.unsupported_settings, *rejected, *(() if with_tools else ("parallel_tool_calls",))}
        kept = {name: value for name, value in ours.items() if name not in ignored}
        return ModelSettings(**{**kept, **wanted})  # type: ignore[typeddict-item]


def _tool() -> ToolDefinition:
    from pydantic_ai.tools import ToolDefinition

    return ToolDefinition(
        name=_TOOL,
        description="Run Python in the notebook's own namespace; what it shows and changes comes back.",
        parameters_json_schema=_SCHEMA,
    )


def messages_of(request: Request) -> list[ModelMessage]:
    """The conversation in pydantic-ai's terms; what follows on each other from one side is one message."""
    from pydantic_ai.messages import ModelRequest, ModelResponse

    found: list[ModelMessage] = []
    for message in request.messages:
        last = found[-1] if found else None
        if isinstance(message, Said):
            found.append(ModelResponse(parts=_said(message)))
        elif isinstance(last, ModelRequest):
            found[-1] = ModelRequest(parts=[*last.parts, _part(message)], instructions=request.instructions)
        else:
            found.append(ModelRequest(parts=[_part(message)], instructions=request.instructions))
    return found


def _part(message: Told | Returned) -> ModelRequestPart:
    from pydantic_ai.messages import ToolReturnPart, UserPromptPart

    if isinstance(message, Returned):
        return ToolReturnPart(tool_name=_TOOL, content=message.text, tool_call_id=message.call)
    return UserPromptPart(content=message.text)


def _said(message: Said) -> list[ModelResponsePart]:
    from pydantic_ai.messages import TextPart, ToolCallPart

    parts: list[ModelResponsePart] = [TextPart(content=message.text)] if message.text else []
    if message.code is not None:
        parts.append(ToolCallPart(tool_name=_TOOL, args={"code": message.code}, tool_call_id=message.call))
    return parts or [TextPart(content="(no answer)")]


class _Pieces:
    """The pieces of one answer, the code of its calls read from their JSON as it comes in."""

    def __init__(self) -> None:
        self._readers: dict[int, CodeReader] = {}

    def of(self, event: object) -> list[Delta]:
        from pydantic_ai import messages

        if isinstance(event, messages.PartStartEvent):
            part = event.part
            if isinstance(part, messages.ThinkingPart | messages.TextPart):
                return _words(part.part_kind, part.content)
            return self._code(event.index, part.args) if isinstance(part, messages.ToolCallPart) else []
        if isinstance(event, messages.PartDeltaEvent):
            piece = event.delta
            if isinstance(piece, messages.ThinkingPartDelta | messages.TextPartDelta):
                return _words(piece.part_delta_kind, piece.content_delta)
            return self._code(event.index, piece.args_delta) if isinstance(piece, messages.ToolCallPartDelta) else []
        return []

    def _code(self, index: int, args: str | Mapping[str, object] | None) -> list[Delta]:
        found: list[Delta] = []
        if index not in self._readers:
            found = [Delta("code", _BETWEEN)] if self._readers else []
            self._readers[index] = CodeReader()
        if isinstance(args, Mapping):
            text = without_surrogates(str(args.get("code", "")))
        else:
            text = self._readers[index].feed(args or "")
        return [*found, Delta("code", text)] if text else found


def _words(kind: Any, text: str | None) -> list[Delta]:
    return [Delta(kind, without_surrogates(text))] if text else []


def answer_of(
    response: ModelResponse, name: str = "", *, offered: Sequence[str] = (_TOOL,), is_local: bool = False
) -> Answer:
    """The whole answer.

    Args:
        offered: the tools that it may call.
        is_local: it comes from this machine or its network, where no price list holds.

    Raises:
        ModelError: it was withheld, or calls without code.
    """
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    thinking = "".join(part.content for part in response.parts if isinstance(part, ThinkingPart))
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    is_cut = response.finish_reason == "length"
    refused = _refused([call.tool_name for call in calls], offered, is_cut=is_cut)
    codes = [] if refused else [_code_of(call, name) for call in calls]
    if not calls and response.finish_reason in ("content_filter", "error"):
        raise ModelError(name, "the provider withheld its answer")
    return Answer(
        without_surrogates(thinking),
        without_surrogates(text),
        _BETWEEN.join(codes) if codes else None,
        calls[0].tool_call_id if codes else "",
        _usage(response, is_local=is_local),
        refused=refused,
        is_cut=is_cut,
    )


def _refused(called: Sequence[str], offered: Sequence[str], *, is_cut: bool) -> str:
    """Why nothing of an answer must run."""
    others = [name for name in called if name not in offered]
    if others and not is_cut:
        instead = f"call {offered[0]}" if offered else "write code in one ```python fence"
        return f"There is no tool {others[0][:100]!r}, so none of your answer ran: {instead}."
    if is_cut:
        return "Your answer was cut off at its token limit, so none of it ran. Send less code at a time."
    return ""


def _code_of(call: ToolCallPart, name: str) -> str:
    try:
        code = call.args_as_dict(raise_if_invalid=True)["code"]
    except (KeyError, ValueError, AssertionError) as error:
        raise ModelError(name, f"it called {call.tool_name} without whole code", retry_after_s=0.0) from error
    if not isinstance(code, str):
        raise ModelError(name, f"it called {call.tool_name} with code that is no text", retry_after_s=0.0)
    return without_surrogates(code)


def _usage(response: ModelResponse, *, is_local: bool) -> Usage:
    used = response.usage
    if used.input_tokens < 0 or used.output_tokens < 0:
        return Usage(1)  # the server says nothing that could be so: it is estimated
    return Usage(1, used.input_tokens, used.output_tokens, None if is_local else _cost(response))


def is_local(address: str | None) -> bool:
    """Whether an address is of this machine or of a private network, where the price list of the model's maker says nothing.

    >>> [is_local(f"http://{host}/v1") for host in ("localhost:8000", "10.1.2.3", "[::1]", "gpu", "api.openai.com")]
    [True, True, True, True, False]
    """
    host = urlsplit(address or "").hostname or ""
    try:
        return not ip_address(host).is_global
    except ValueError:
        return bool(host) and ("." not in host or host.endswith((".localhost", ".local", ".internal", ".lan")))


def _estimated(request: Request, answer: Answer) -> Answer:
    """The answer of a server that does not say what it took: about as many tokens as the texts have, at no known price."""
    sent = tokens_of(request.instructions) + sum(tokens_of(_text(message)) for message in request.messages)
    got = tokens_of(answer.thinking) + tokens_of(answer.text) + tokens_of(answer.code or "")
    return msgspec.structs.replace(answer, usage=Usage(answer.usage.requests, sent, got))


def _text(message: Message) -> str:
    return f"{message.text}{message.code or ''}" if isinstance(message, Said) else message.text


def _cost(response: ModelResponse) -> float | None:
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # its price is not known, or what it used is not
        return None
