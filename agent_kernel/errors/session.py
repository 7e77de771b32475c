"""What a session raises: there is none, or it cannot do this here."""

from __future__ import annotations

from agent_kernel.errors.base import AgentKernelError


class NotBoundError(AgentKernelError):
    """No store is bound to this notebook."""

    def __str__(self) -> str:
        return "no store is bound to this namespace; run %agent bind (from Python: agent_kernel.bind)"


class SessionClosedError(NotBoundError):
    """The session was closed and gave its branch back. Nothing was changed."""

    def __str__(self) -> str:
        return "this session was closed, and gave its branch back; bind the namespace again (agent_kernel.bind)"


class UntrustedStoreError(AgentKernelError):
    """Loading values runs code, and this store was made by someone else."""

    url: str

    def __str__(self) -> str:
        return (
            f"{self.url} was made by someone else, and loading its values can run their code; "
            "look through it with log, show and diff, then run %agent trust (from Python: Session.trust or Repository.trust)"
        )


class NothingToUndoError(AgentKernelError):
    """This session has done nothing that could be undone (or redone)."""

    verb: str = "undo"
    reason: str = ""
    chat: bool = False  # of the conversation alone

    def __str__(self) -> str:
        if self.chat:
            return "no conversation to take back: agents remember no run here"
        return f"nothing to {self.verb} in this session" + (f": {self.reason}" if self.reason else "")
