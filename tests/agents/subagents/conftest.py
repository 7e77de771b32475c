"""A state that a parent and its sub-agents act on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import agent_kernel as ak


@pytest.fixture
def state() -> Iterator[ak.Versioned]:
    with ak.Versioned() as opened:
        opened["base"] = 10
        opened.commit("begin")
        yield opened
