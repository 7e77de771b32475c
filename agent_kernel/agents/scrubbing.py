"""The environment that a worker process gets: this one's, without what looks like a secret, but for its own provider's.

A list says by provider which keys its model needs; all others that look like secrets stay here. Code in the worker can
still read files: this keeps keys from being handed around by the way, and stops nobody who means to find them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from agent_kernel.values import summaries

__all__ = ["NEEDED", "scrubbed"]

# By the part of a model's name before the colon, the variables in which pydantic-ai looks for its credentials.
NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "alibaba": ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "github": ("GITHUB_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "google-gla": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "google-vertex": ("GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
    "grok": ("GROK_API_KEY", "XAI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "heroku": ("HEROKU_INFERENCE_KEY",),
    "huggingface": ("HF_TOKEN",),
    "litellm": ("LITELLM_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "nebius": ("NEBIUS_API_KEY",),
    "ollama": ("OLLAMA_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "ovhcloud": ("OVHCLOUD_API_KEY",),
    "sambanova": ("SAMBANOVA_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "vercel": ("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
    "xai": ("XAI_API_KEY",),
}


def scrubbed(environ: Mapping[str, str], model: str = "", keep: Iterable[str] = ()) -> dict[str, str]:
    """The environment without what looks like a secret by its name or its content.

    Args:
        model: a model's name, whose provider's own variables are kept.
        keep: others that are kept.

    >>> scrubbed({"HOME": "/h", "OPENAI_API_KEY": "a", "GROQ_API_KEY": "b"}, "openai:gpt-5")
    {'HOME': '/h', 'OPENAI_API_KEY': 'a'}
    """
    kept = {*NEEDED.get(model.partition(":")[0], ()), *keep}
    return {
        name: value
        for name, value in environ.items()
        if name in kept or not (summaries.names_a_secret(name) or summaries.holds_a_secret(value))
    }
