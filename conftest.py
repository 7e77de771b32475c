"""Leave out what cannot be imported where the packages of others are not installed: `make test-integrations` runs it."""

from __future__ import annotations

from importlib import metadata

_OTHERS = (
    "agenticaiframework",
    "agentscope",
    "agex",
    "agno",
    "kvgit",
    "langgraph",
    "openai-agents",
    "pydantic-ai-harness",
)


def _are_installed() -> bool:
    try:
        return all(metadata.distribution(name) for name in _OTHERS)
    except metadata.PackageNotFoundError:
        return False


_TAKE_PLACES = [
    "tests/integrations/replace_*.py",
    "tests/integrations/scripted_*.py",
    "tests/integrations/kvgit_support/*.py",
]
collect_ignore_glob = [] if _are_installed() else ["agent_kernel/integrations/[a-z]*.py", *_TAKE_PLACES]
