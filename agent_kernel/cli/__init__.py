"""The command line: `agent-kernel VERB STORE …`, the verbs of `%agent` on a store, without a notebook."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 it could not be done, 2 it was not understood."""
    from agent_kernel.cli.command import main as run

    return run(argv)
