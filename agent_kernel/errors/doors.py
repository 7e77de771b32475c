"""What a door answers with where it cannot give what it was asked for."""

from __future__ import annotations

from agent_kernel.errors.base import AgentKernelError


class RequestError(AgentKernelError, ValueError):
    """A panel asked something that cannot be answered."""

    op: str
    reason: str

    def __str__(self) -> str:
        return f"{self.op.replace('_', ' ') or 'the request'}: {self.reason}"


class TooLargeError(AgentKernelError):
    """What was asked for is larger than one answer may be."""

    what: str
    size_bytes: int
    most_bytes: int

    def __str__(self) -> str:
        return f"{self.what} has {self.size_bytes:,} bytes, and at most {self.most_bytes:,} are shown"
