"""What a store raises, and what lies in it: it cannot be opened, read or written."""

from __future__ import annotations

from agent_kernel.errors.base import AgentKernelError


class StoreError(AgentKernelError):
    """The store itself cannot do what was asked."""


class NotAStoreError(StoreError):
    """The path or URL does not hold a store."""

    url: str
    reason: str = "it holds something else"

    def __str__(self) -> str:
        return f"{self.url} is not an agent_kernel store: {self.reason}"


class NewerFormatError(StoreError):
    """A newer release wrote this."""

    what: str
    found: int
    known: int

    def __str__(self) -> str:
        return f"{self.what} has format {self.found} and this release reads up to {self.known}; upgrade agent-kernel"


class DamagedObjectError(StoreError):
    """A stored object is missing, or its bytes no longer match its id."""

    kind: str
    id: str
    reason: str = "its bytes do not match its id"
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        of = f" (needed by {', '.join(self.names[:5])})" if self.names else ""
        return f"{self.kind} {self.id[:16]}{of} is damaged: {self.reason}; run verify to see what is affected"


class StoreFullError(StoreError):
    """The disk under the store has no room left. Nothing was changed."""

    url: str
    reason: str = ""

    def __str__(self) -> str:
        return f"no room left for {self.url}; nothing was changed; free some space, and the next commit takes these changes along"


class StoreUnavailableError(StoreError):
    """The store cannot be opened or reached just now."""

    url: str
    reason: str

    def __str__(self) -> str:
        return f"{self.url} cannot be used: {self.reason}"


class StoreReadOnlyError(StoreUnavailableError):
    """The store's files or folder cannot be written."""

    reason: str = "it is read-only"
