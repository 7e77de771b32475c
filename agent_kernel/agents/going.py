"""What a run on its way yields to whoever drives it."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, TypeAlias

import msgspec

from agent_kernel.agents.events import Event
from agent_kernel.agents.models import Delta

__all__ = ["Going", "Item", "Wait"]


class Wait(msgspec.Struct, frozen=True):
    """Something that the run has to wait for. What it gives is sent back, what it raises is thrown."""

    future: Future[Any]


Item: TypeAlias = Event | Delta | Wait
Going: TypeAlias = "Generator[Item, Any, None]"
