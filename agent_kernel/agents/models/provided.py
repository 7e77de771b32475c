"""One request to a model of pydantic-ai, and its answer as it comes in.

pydantic-ai carries one request and streams one answer; the loop around it is the run's own, because a run has to be
rebuilt from its events alone, in another process too. Of an answer with several calls the code is joined into one step.
What a model thought is sent back to it where its provider signed it, or gave it an id, and wants it so: the event has the
answer as pydantic-ai writes it then.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import msgspec

from agent_kernel.agents.events import Usage
from agent_kernel.agents.messages import redact, tokens_of
from agent_kernel.agents.models import (
    Answer,
    AssistantMessage,
    CodeReader,
    Delta,
    Message,
    Request,
    ToolResult,
    UserMessage,
    in_words,
    without_surrogates,
)
from agent_kernel.errors import MissingExtraError, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ModelResponsePart, ToolCallPart
    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.providers import Provider
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition

_TOOL = "run_python"
_SCHEMA = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "Python to run in the notebook's namespace"}},
    "required": ["code"],
    "additionalProperties": False,
}
_BETWEEN = "\n\n"  # the code of several calls
_TOGETHER = "This ran together with the first call, and what came of it stands there."


class Provided:
    """A model of pydantic-ai, any object of its `Model` classes.

    Attributes:
        model: the object of pydantic-ai.
        is_named: whether its name makes it anew elsewhere. The name of an object tells neither its server nor its key.
    """

    def __init__(self, model: ProviderModel, name: str = "") -> None:
        self.model = model
        self.is_named = bool(name)
        self.name = name or f"{model.system}:{model.model_name}"
        self._takes_tools = True  # until its server says that it does not
        self._streams = True  # until it, or its server, says that it does not

    def has_price(self) -> bool:
        """Whether it is known what its answers cost, by its provider and name."""
        from pydantic_ai.messages import ModelResponse
        from pydantic_ai.usage import RequestUsage

        if is_local(self.model.base_url):
            return False
        answer = ModelResponse(
            parts=[],
            usage=RequestUsage(input_tokens=1, output_tokens=1),
            model_name=self.model.model_name,
            provider_name=self.model.system,
            provider_url=self.model.base_url,
        )
        return _cost(answer) is not None

    async def stream(self, request: Request) -> AsyncIterator[Delta | Answer]:
        """The answer in pieces, and at last as a whole.

        Raises:
            ModelError: it cannot answer; `retry_after_s` says whether asking again may help.
        """
        from pydantic_ai.exceptions import ModelHTTPError

        with refusals(self.name):
            while True:
                with_tools, is_streamed, has_begun = self._takes_tools, self._streams, False
                try:
                    async with aclosing(
                        self._request_once(request, with_tools=with_tools, is_streamed=is_streamed)
                    ) as pieces:
                        async for piece in pieces:
                            has_begun = True
                            yield piece
                    return
                except Exception as error:  # the class of the model may be anyone's
                    if with_tools and isinstance(error, ModelHTTPError) and names_tools(error):
                        self._takes_tools = False
                    elif is_streamed and not has_begun and refuses_to_stream(error):
                        self._streams = False
                    else:
                        raise

    async def _request_once(
        self, request: Request, *, with_tools: bool, is_streamed: bool
    ) -> AsyncGenerator[Delta | Answer]:
        """One attempt: with the tool, or, where the server takes none, in words alone; streamed, or as a whole."""
        from pydantic_ai.direct import model_request, model_request_stream
        from pydantic_ai.messages import PartStartEvent
        from pydantic_ai.models import ModelRequestParameters

        parameters = ModelRequestParameters(function_tools=[_tool()] if with_tools else [], allow_text_output=True)
        messages = messages_of(request if with_tools else in_words(request))
        settings = self._settings(request.settings, with_tools=with_tools)
        pieces = _Pieces()
        # Entering the model closes its connections afterwards: nobody else would, and a fork must find none open.
        async with self.model:
            if is_streamed:
                async with model_request_stream(
                    self.model, messages, model_settings=settings, model_request_parameters=parameters
                ) as stream:
                    async for event in stream:
                        for delta in pieces.of(event):
                            yield delta
                    response = stream.get()
            else:
                response = await model_request(
                    self.model, messages, model_settings=settings, model_request_parameters=parameters
                )
                for index, part in enumerate(response.parts):
                    for delta in pieces.of(PartStartEvent(index=index, part=part)):
                        yield delta
            offered = (_TOOL,) if with_tools else ()
            answer = answer_of(response, self.name, offered=offered, is_local=is_local(self.model.base_url))
        answer = answer if answer.usage.tokens else _estimate_usage(request, answer)
        yield answer if with_tools else msgspec.structs.replace(answer, in_words=True)

    def _settings(self, wanted: Mapping[str, object], *, with_tools: bool) -> ModelSettings:
        """How the model is asked, less what it warns that it ignores.

        The run itself asks again, so that each attempt is an event: the provider's client does not.
        """
        from pydantic_ai.settings import ModelSettings

        ours: dict[str, Any] = {"parallel_tool_calls": False, "max_retries": 0}
        rejected = cast("Mapping[str, Any]", self.model.profile).get("openai_unsupported_model_settings", ())
        ignored = {*self.model.unsupported_settings, *rejected, *(() if with_tools else ("parallel_tool_calls",))}
        accepted = {name: value for name, value in ours.items() if name not in ignored}
        return ModelSettings(**{**accepted, **wanted})  # type: ignore[typeddict-item]


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
        if isinstance(message, AssistantMessage):
            found.append(_as_it_came(message.response) or ModelResponse(parts=_convert_assistant_message(message)))
            continue
        parts = _parts(message, found)
        if isinstance(last, ModelRequest):
            parts = [*last.parts, *parts]
            found.pop()
        found.append(ModelRequest(parts=parts, instructions=request.instructions))
    return found


def _parts(message: UserMessage | ToolResult, before: Sequence[ModelMessage]) -> list[ModelRequestPart]:
    """What a person, or the code of a call, says; further calls of one answer, whose code ran with it, have an answer each."""
    from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart

    if not isinstance(message, ToolResult):
        return [UserPromptPart(content=message.text)]
    answer = next((one for one in reversed(before) if isinstance(one, ModelResponse)), None)
    calls = [part.tool_call_id for part in answer.parts if isinstance(part, ToolCallPart)] if answer else []
    others = [call for call in calls if call != message.call] if message.call in calls else []
    results = [(message.call, message.text), *((call, _TOGETHER) for call in others)]
    return [ToolReturnPart(tool_name=_TOOL, content=text, tool_call_id=call) for call, text in results]


def _as_it_came(response: str) -> ModelResponse | None:
    """An answer that was stored whole. None: it was not, or this release of pydantic-ai cannot read it."""
    from pydantic import ValidationError
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse

    try:
        found = ModelMessagesTypeAdapter.validate_json(f"[{response}]") if response else []
    except ValidationError:
        return None
    return next((one for one in found if isinstance(one, ModelResponse)), None)


def _encode_marked_parts(response: ModelResponse) -> str:
    """The answer in JSON, where its provider marked a part of it; "": words and code say all of it."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ThinkingPart
    from pydantic_core import PydanticSerializationError

    marks = [getattr(part, "provider_details", None) for part in response.parts]
    marks += [part.id or part.signature for part in response.parts if isinstance(part, ThinkingPart)]
    if not any(marks):
        return ""
    try:
        # An address may hold a login.
        return ModelMessagesTypeAdapter.dump_json([replace(response, provider_url=None)]).decode()[1:-1]
    except PydanticSerializationError:  # half a character, which no JSON holds: it goes back as its words and code
        return ""


def _convert_assistant_message(message: AssistantMessage) -> list[ModelResponsePart]:
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
    is_filtered = response.finish_reason in ("content_filter", "error")
    refused = _explain_refusal([call.tool_name for call in calls], offered, is_cut=is_cut, is_filtered=is_filtered)
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
        response="" if refused else _encode_marked_parts(response),
    )


def _explain_refusal(called: Sequence[str], offered: Sequence[str], *, is_cut: bool, is_filtered: bool) -> str:
    """Why nothing of an answer must run."""
    others = [name for name in called if name not in offered]
    if called and is_filtered:  # it may lack its end
        return "The provider broke your answer off, so none of it ran. Send it again, in other words."
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
        raise ModelError(name, f"it called {call.tool_name} with code that is not text", retry_after_s=0.0)
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


def _estimate_usage(request: Request, answer: Answer) -> Answer:
    """The answer of a server that does not say what it took: about as many tokens as the texts have, at no known price."""
    sent = tokens_of(request.instructions) + sum(tokens_of(_text(message)) for message in request.messages)
    got = tokens_of(answer.thinking) + tokens_of(answer.text) + tokens_of(answer.code or "")
    return msgspec.structs.replace(answer, usage=Usage(answer.usage.requests, sent, got))


def _text(message: Message) -> str:
    return f"{message.text}{message.code or ''}" if isinstance(message, AssistantMessage) else message.text


def _cost(response: ModelResponse) -> float | None:
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # its price is not known, or what it used is not
        return None


# -- models of providers, by pydantic-ai's names (`openai:…`, `anthropic:…`, `google:…`, `ollama:…`)
#
# `openai:NAME@http://127.0.0.1:8000/v1` is a model at an address of its own, as is every `openai:NAME` while
# OPENAI_BASE_URL is set. What is not OpenAI itself is spoken to in Chat Completions, which all such servers know. A name
# may stand in a store that came from elsewhere, so an address in it gets no key but that of its own BASE_URL.
#
# The extra `agent-kernel[agents]` brings pydantic-ai-slim, and a provider's own package is an extra of its own.

EXTRAS: Final = ("anthropic", "bedrock", "cohere", "google", "groq", "huggingface", "mistral", "openai", "xai")
_ADDRESSED: Final = ("openai", "openai-chat", "openai-responses", "ollama", "vllm")
# Those that pydantic-ai knows without naming a model of theirs.
_FREE: Final = (*_ADDRESSED, "azure", "github", "litellm", "openrouter", "together", "fireworks", "sambanova")
_KNOWN: Final = (
    "anthropic",
    "google",
    "mistral",
    "ollama",
    "openai",
    "vllm",
)  # those that are named where none is close
_RENAMED: Final = {"google-gla": "google", "google-vertex": "google-cloud"}
# Whose models are called so, where pydantic-ai is not there to tell.
_FAMILIES: Final = {"gpt": "openai", "claude": "anthropic", "gemini": "google", "mistral": "mistral", "grok": "xai"}
_NO_KEY: Final = "no-key"  # the clients want one, and such servers look at none

_ADDRESS = re.compile(r"@(?=https?://)")
_VARIABLE = re.compile(r"`([A-Z][A-Z0-9_]{3,})`")
_GROUP = re.compile(r"pydantic-ai-slim\[([\w-]+)\]")
_PACKAGE = re.compile(r"install (?:the )?`([\w.-]+)`")


def make_model(name: str) -> Provided:
    """The model of this name.

    Raises:
        MissingExtraError: the package that it needs is not installed.
        ModelError: there is no such model, or its key is not set.
    """
    plain, _, address = _at(name)
    prefix, _, rest = plain.partition(":")
    if not rest and plain != "test":
        raise ModelError(name, f"a model is named PROVIDER:NAME{_close(plain)}")
    _require(_extra_of(prefix))
    from pydantic_ai.exceptions import UserError

    if prefix in _ADDRESSED and not address and "@" in rest:
        raise ModelError(
            name, f"{rest.partition('@')[2]!r} is not an address: an address begins with http:// or https://"
        )
    if address and not urlsplit(address).hostname:
        raise ModelError(name, f"{address!r} is not an address: it has no host")
    if prefix in _RENAMED:
        raise ModelError(name, f"it is called {_RENAMED[prefix]}:{rest} now")
    try:
        return Provided(_infer_model(prefix, rest, address, plain), name)
    except ImportError as error:
        raise _missing(name, error) from error
    except UserError as error:
        raise ModelError(name, _without_keys(plain, str(error))) from error


def wrap_model(model: object) -> Provided:
    """A model of pydantic-ai's own, as runs know models.

    Raises:
        TypeError: it is not one.
    """
    _require()
    from pydantic_ai.models import Model as ProviderModel

    if not isinstance(model, ProviderModel):
        raise TypeError(f"a model is a name, a Model, or one of pydantic-ai's, not {type(model).__name__}")
    return Provided(cast("Any", model))


def _require(extra: str = "agents") -> None:
    """Raise MissingExtraError where pydantic-ai is not installed. `extra`: the one that brings all that is needed."""
    try:
        import_module("pydantic_ai.models")
    except ImportError as error:
        raise MissingExtraError(str(error.name or "pydantic_ai").partition(".")[0], extra) from error


def _extra_of(prefix: str) -> str:
    """The extra that brings a provider's package, as far as it is known without pydantic-ai."""
    if prefix in _FREE:
        return "openai"  # they speak as OpenAI does
    provider = prefix.partition("-")[0]  # openai-responses, google-cloud
    return provider if provider in EXTRAS else "agents"


def _at(name: str) -> tuple[str, str, str]:
    found = _ADDRESS.search(name)
    return (name[: found.start()], "@", name[found.end() :]) if found else (name, "", "")


def _infer_model(prefix: str, rest: str, address: str, plain: str) -> ProviderModel:
    """The model that pydantic-ai makes of a name.

    Raises:
        UserError, ImportError: pydantic-ai's own.
    """
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    if address and prefix not in _ADDRESSED:
        raise UserError(f"only {', '.join(_ADDRESSED)} take an address")
    where = address or (os.environ.get("OPENAI_BASE_URL", "") if prefix.startswith("openai") else "")
    if prefix in ("openai", "openai-chat") and where and urlsplit(where).hostname != "api.openai.com":
        return _compatible(rest, where)
    if not address:
        return infer_model(plain)
    return infer_model(plain, lambda kind: _provider(kind, address))


def _compatible(rest: str, address: str) -> ProviderModel:
    """A model behind an address that speaks as OpenAI does."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    return OpenAIChatModel(
        rest,
        provider=_provider("openai", address),
        profile=OpenAIModelProfile(
            # A connection that ends early may look like an answer that ended: then only this tells them apart.
            openai_chat_streaming_requires_finish_reason=True,
            # The older name of the same, which all of them know.
            openai_chat_supports_max_completion_tokens=False,
            # Some refuse what they do not know, and calls are joined anyway.
            openai_unsupported_model_settings=("parallel_tool_calls",),
        ),
    )


def _provider(kind: str, address: str) -> Provider[Any]:
    from pydantic_ai.providers import infer_provider_class

    makes = cast("Callable[..., Provider[Any]]", infer_provider_class(kind))
    return makes(base_url=address, api_key=_key_of(kind, address))


def _key_of(kind: str, address: str) -> str:
    """The key that the environment holds for this very address."""
    variable = kind.partition("-")[0].upper()
    expected = os.environ.get(f"{variable}_BASE_URL") or ("https://api.openai.com/v1" if variable == "OPENAI" else "")
    same = _origin(expected) == _origin(address)
    return (os.environ.get(f"{variable}_API_KEY") if same else "") or _NO_KEY


def _origin(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme.lower(), parts.netloc.lower()


def _missing(name: str, error: ImportError) -> Exception:
    """The extra of ours that brings what is missing, or what pydantic-ai says."""
    text = str(error)
    group, package = _GROUP.search(text), _PACKAGE.search(text)
    if group is not None and group[1] in EXTRAS:
        return MissingExtraError(package[1] if package else group[1], group[1])
    return ModelError(name, " ".join(text.split()))


def _without_keys(plain: str, text: str) -> str:
    """What pydantic-ai says of a name, less what it says of its own API."""
    if text.startswith("Unknown model"):
        return f"pydantic-ai knows no such model{_close(plain)}"
    variables = list(dict.fromkeys(_VARIABLE.findall(text)))
    if "environment variable" in text and variables:
        return f"set the environment variable {' or '.join(variables)}"
    return " ".join(text.split())[:300]


def _close(plain: str) -> str:
    """Names that are close, to be said behind what was wrong."""
    try:
        from pydantic_ai.models import known_model_names
    except ImportError:
        family = next((family for family in _FAMILIES if plain.startswith(family)), None)
        return (
            f"; did you mean {_FAMILIES[family]}:{plain}?"
            if family
            else f"; the providers are {', '.join(_KNOWN)} and more"
        )

    prefix, _, rest = plain.partition(":")
    known = [name for name in known_model_names() if not name.startswith("gateway/")]
    kinds = sorted({*(name.partition(":")[0] for name in known), *_FREE} - {"test"})
    if rest:
        near = [f"{kind}:{rest}" for kind in get_close_matches(prefix, kinds, 2, 0.6)]
    else:
        named = {name.partition(":")[2]: name for name in reversed(known)}
        near = [named[close] for close in get_close_matches(prefix, list(named), 3, 0.8)]
        near += [f"{kind}:NAME" for kind in get_close_matches(prefix, kinds, 1, 0.8)]
    return (
        f"; did you mean {' or '.join(near)}?"
        if near
        else f"; the providers are {', '.join(_KNOWN)} and {len(kinds) - len(_KNOWN)} more"
    )


# -- why a provider did not answer, in one line, and whether asking again may help. No key is ever part of the line

_TRANSIENT: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_UNFIT: Final = frozenset({400, 404, 422, 501})
_AGAIN_S: Final = 1.0  # where the provider says no time
_LONGEST_S: Final = 60.0  # a provider that wants more time than this is not waited for
_MOST_CHARS: Final = 400
_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")


def names_tools(error: ModelHTTPError) -> bool:
    """Whether a server refused the request because of its tools: it, or its model, knows none."""
    text = _message(error.body) or str(error.body or error)
    if error.status_code == 500:  # which llama.cpp answers
        return bool(re.search(r"\btools\b.*\b(requires?|support)", text, re.IGNORECASE | re.DOTALL))
    return error.status_code in _UNFIT and bool(re.search(r"\btools?(\b|_)", text, re.IGNORECASE))


def refuses_to_stream(error: Exception) -> bool:
    """Whether a model, or its server, answers only as a whole.

    pydantic-ai's own base class raises NotImplementedError, its `FunctionModel` an AssertionError; a server that
    streams to some of its customers only, as OpenAI does, refuses the request.
    """
    from pydantic_ai.exceptions import ModelHTTPError, UserError

    if isinstance(error, ModelHTTPError):
        text = _message(error.body) or str(error.body or error)
        return error.status_code in _UNFIT and bool(re.search(r"\bstream(ed|ing)?\b", text, re.IGNORECASE))
    if isinstance(error, NotImplementedError | AssertionError | UserError):
        return "stream" in str(error).lower()
    return False


@contextmanager
def refusals(name: str) -> Generator[None]:
    """Let what pydantic-ai raises be a ModelError.

    Raises:
        ModelError: the model of this name did not answer.
    """
    from pydantic_ai import exceptions

    try:
        yield
    except exceptions.ModelHTTPError as error:
        raise _of_status(name, error) from error
    except exceptions.ModelAPIError as error:
        raise _without_status(name, error) from error
    except exceptions.UnexpectedModelBehavior as error:  # what it sent is no answer
        raise ModelError(name, one_line(str(error)), retry_after_s=_AGAIN_S) from error
    except exceptions.UserError as error:
        raise ModelError(name, one_line(str(error))) from error


def _of_status(name: str, error: ModelHTTPError) -> ModelError:
    from pydantic_ai import exceptions

    text = f"HTTP {error.status_code}: {one_line(_message(error.body) or str(error))}"
    if error.status_code in (401, 403):
        return ModelError(name, f"{text} (is its key the right one?)")
    if error.suggested_model_id:
        return ModelError(name, f"{text}; did you mean {error.suggested_model_id}?")
    is_spent = isinstance(error, exceptions.ModelQuotaExceededError)
    if is_spent or error.status_code not in _TRANSIENT or error.provider_retry_hint is False:
        return ModelError(name, text)
    return _again(name, text, error.retry_after)


def _without_status(name: str, error: ModelAPIError) -> ModelError:
    from pydantic_ai import exceptions

    text = one_line(_message(error.body) or _innermost(error))
    if isinstance(error, exceptions.ModelQuotaExceededError | exceptions.ModelRequestRejectedError):
        return ModelError(name, text)
    return _again(name, text, error.retry_after)


def _again(name: str, text: str, wait_s: float | None) -> ModelError:
    wait_s = _AGAIN_S if wait_s is None else wait_s
    if wait_s > _LONGEST_S:
        return ModelError(name, f"{text} (it asks to wait {wait_s:,.0f} s)")
    return ModelError(name, text, retry_after_s=wait_s)


def _message(body: object) -> str:
    """The sentence in the body of an error, where it is one of the usual shapes."""
    for _ in range(3):
        if not isinstance(body, Mapping):
            break
        found = cast("Mapping[str, Any]", body)
        body = found.get("error") or found.get("message") or found.get("detail") or ""
    return body if isinstance(body, str) else ""


def _innermost(error: BaseException) -> str:
    """What pydantic-ai says, and what the connection itself said."""
    text = deepest = str(error)
    cause = error.__cause__ or error.__context__
    while cause is not None:
        deepest = str(cause) or deepest
        cause = cause.__cause__ or cause.__context__
    return text if deepest in text else f"{text.rstrip('.')}: {deepest}"


def one_line(text: str) -> str:
    """The text in one line, without anything that is a key."""
    for variable, value in os.environ.items():
        if len(value) >= 8 and _SECRET_NAME.search(variable):
            text = text.replace(value, "••••")
    return " ".join(redact(text).split())[:_MOST_CHARS]
