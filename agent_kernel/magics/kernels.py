"""Which kernel a shell is of: one that is restarted stays the same one, and goes on where it was."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import TYPE_CHECKING

from agent_kernel.repository import OF_KERNEL

if TYPE_CHECKING:
    from agent_kernel.magics.shell import Shell

__all__ = ["session_id"]

# The connection file stays through restarts. Only a random name tells a kernel from all others: other names come again.
_NAMED = re.compile(r"(?:kernel-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|tmp\w{8})\.json$")


def session_id(shell: Shell) -> str | None:
    """An id for a session of the shell's kernel, from which the kernel is known again; None: it has none that stays."""
    named = _NAMED.search(str(shell.config.get("IPKernelApp", {}).get("connection_file", "")))
    if named is None:
        return None
    kernel = hashlib.sha256(named[0].encode()).hexdigest()[:8]
    return f"{kernel}{OF_KERNEL}{secrets.token_hex(4)}"
