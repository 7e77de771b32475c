"""`python -m agent_kernel` is the command line."""

from __future__ import annotations

import sys

from agent_kernel.cli import main

if __name__ == "__main__":
    sys.exit(main())
