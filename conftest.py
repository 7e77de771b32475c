"""Leave out what cannot be imported where the packages of others are not installed: `make test-integrations` runs it.

Modules without an example are left out too: to look for one imports them all, with torch and scikit-learn, in each process.
"""

from __future__ import annotations

from collections.abc import Generator
from importlib import metadata
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

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


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    found = yield
    has_examples = ">>> " in file_path.read_text("utf-8", "replace")
    return [one for one in found if has_examples or not isinstance(one, DoctestModule)]
