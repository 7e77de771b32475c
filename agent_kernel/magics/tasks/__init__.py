"""What a notebook adds to the runs of agents: their code runs as cells do, and they are shown as they go."""

from __future__ import annotations

__all__: list[str] = []
