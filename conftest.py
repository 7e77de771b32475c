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


# Plugins for the suites of others, each in a process of its own: they put our classes in the place of theirs.
_TAKE_PLACES = [
    "tests/integrations/replace_*.py",
    "tests/integrations/scripted_*.py",
    "tests/integrations/kvgit_support/*.py",
]
collect_ignore_glob = [*_TAKE_PLACES, *([] if _are_installed() else ["agent_kernel/integrations/[a-z]*.py"])]
