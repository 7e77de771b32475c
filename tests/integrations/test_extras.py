"""Without the package that it is for, an integration names the extra that brings it; nothing else loads it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PACKAGES = {
    "agenticai": ("agenticaiframework", "agenticai"),
    "agentscope": ("agentscope", "agentscope"),
    "agex": ("agex", "agex"),
    "agno": ("agno", "agno"),
    "kvgit": ("kvgit", "kvgit"),
    "langgraph": ("langgraph", "langgraph"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai_harness", "pydantic-ai"),
}


@pytest.mark.parametrize("module", PACKAGES)
def test_an_integration_without_its_package_names_the_extra(module: str) -> None:
    package, extra = PACKAGES[module]
    code = f"""
import sys
sys.modules[{package!r}] = None
import agent_kernel as ak
try:
    import agent_kernel.integrations.{module}
except ak.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f'pip install "agent-kernel[{extra}]"' in done.stdout
