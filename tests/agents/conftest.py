"""No test of agents reaches a real provider, whatever it does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def no_provider_is_asked() -> Iterator[None]:
    """pydantic-ai refuses requests to real models, and no model, key or address is named from outside."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.endswith(("_API_KEY", "_BASE_URL")) or name == "AGENT_KERNEL_MODEL":
                patch.delenv(name)
        if find_spec("pydantic_ai") is not None:
            patch.setattr("pydantic_ai.models.ALLOW_MODEL_REQUESTS", False)
        yield


@pytest.fixture
def servers_on_the_loopback_are_asked(no_provider_is_asked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is: there is no key, and every name in the files that use this has an address on the loopback."""
    monkeypatch.setattr("pydantic_ai.models.ALLOW_MODEL_REQUESTS", True)
