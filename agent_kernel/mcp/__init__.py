"""An interface for agents outside: `agent-kernel mcp` serves a store's variables, or those of a running kernel, by MCP.

What the tools do is in `tools`, on whatever namespace stands behind them. It runs on the main thread, where an interrupt
reaches it, or in the kernel; the protocol is spoken on a thread of its own (`server`).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Serve until the client leaves, and return the exit status of the command."""
    from agent_kernel.mcp.server import main as run

    return run(argv)
