"""A state to race on, and threads that race."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import agent_kernel as ak
from agent_kernel.session import Versioned


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def state() -> Iterator[Versioned]:
    with Versioned(ak.open("memory:")) as state:
        state["rows"] = [3, 1, 2]
        yield state
