"""`agent-kernel` and `python -m agent_kernel`: the command line, and the interface for agents outside. Interfaces do not import each other."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 it could not be done, 2 it was not understood."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:2] == ["help", "mcp"]:
        words = ["mcp", "--help"]
    if words[:1] == ["mcp"]:
        from agent_kernel.mcp import main as serve

        return serve(words[1:])
    from agent_kernel.cli import main as run

    return run(words)


if __name__ == "__main__":
    sys.exit(main())
