"""What front ends know our displays by. It is loaded with the first cell, so it loads nothing."""

from __future__ import annotations

from typing import Final

__all__ = ["CARD", "FOOTER", "HISTORY", "RUN"]

HISTORY: Final = "application/vnd.agent-kernel.history.v1+json"  # a panel
CARD: Final = "application/vnd.agent-kernel.card.v1+json"  # a step that waits, a question, or a race
FOOTER: Final = "application/vnd.agent-kernel.footer.v1+json"  # the line under a cell
RUN: Final = "application/vnd.agent-kernel.run.v1+json"  # a step of a run, or where its first will stand
