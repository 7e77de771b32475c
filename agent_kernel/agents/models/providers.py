"""Models of providers, by pydantic-ai's names (`openai:…`, `anthropic:…`, `google:…`, `ollama:…`).

`openai:NAME@http://127.0.0.1:8000/v1` is a model at an address of its own, as is every `openai:NAME` while
OPENAI_BASE_URL is set. What is not OpenAI itself is spoken to in Chat Completions, which all such servers know. A name
may stand in a store that came from elsewhere, so an address in it gets no key but that of its own BASE_URL.

The extra `agent-kernel[agents]` brings pydantic-ai-slim, and a provider's own package is an extra of its own.
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from agent_kernel.errors import MissingExtraError, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.providers import Provider

    from agent_kernel.agents.models.provided import Provided

__all__ = ["EXTRAS", "provided", "wrapped"]

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


def provided(name: str) -> Provided:
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

    from agent_kernel.agents.models.provided import Provided

    if prefix in _ADDRESSED and not address and "@" in rest:
        raise ModelError(name, f"{rest.partition('@')[2]!r} is no address: it begins with http:// or https://")
    if address and not urlsplit(address).hostname:
        raise ModelError(name, f"{address!r} is no address: it names no host")
    if prefix in _RENAMED:
        raise ModelError(name, f"it is called {_RENAMED[prefix]}:{rest} now")
    try:
        return Provided(_inferred(prefix, rest, address, plain), name)
    except ImportError as error:
        raise _missing(name, error) from error
    except UserError as error:
        raise ModelError(name, _said(plain, str(error))) from error


def wrapped(model: object) -> Provided:
    """A model of pydantic-ai's own, as runs know models.

    Raises:
        TypeError: it is none.
    """
    _require()
    from pydantic_ai.models import Model as ProviderModel

    from agent_kernel.agents.models.provided import Provided

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


def _inferred(prefix: str, rest: str, address: str, plain: str) -> ProviderModel:
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
    meant = os.environ.get(f"{variable}_BASE_URL") or ("https://api.openai.com/v1" if variable == "OPENAI" else "")
    same = _origin(meant) == _origin(address)
    return (os.environ.get(f"{variable}_API_KEY") if same else "") or _NO_KEY


def _origin(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme.lower(), parts.netloc.lower()


def _missing(name: str, error: ImportError) -> Exception:
    """The extra of ours that brings what is missing, or what pydantic-ai says."""
    said = str(error)
    group, package = _GROUP.search(said), _PACKAGE.search(said)
    if group is not None and group[1] in EXTRAS:
        return MissingExtraError(package[1] if package else group[1], group[1])
    return ModelError(name, " ".join(said.split()))


def _said(plain: str, said: str) -> str:
    """What pydantic-ai says of a name, less what it says of its own API."""
    if said.startswith("Unknown model"):
        return f"pydantic-ai knows no such model{_close(plain)}"
    variables = list(dict.fromkeys(_VARIABLE.findall(said)))
    if "environment variable" in said and variables:
        return f"set the environment variable {' or '.join(variables)}"
    return " ".join(said.split())[:300]


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
