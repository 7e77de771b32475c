"""Sessions of AgentScope 1 as states: `AgentKernelSession`. For AgentScope 2, which has none, see `agentscope`.

What a module's `state_dict()` gives is a value of `repo.state(user, session)`, by the module's name. So a session can be read and
changed there too, and a checkout takes it along with the variables. It needs nothing of AgentScope but the objects that it is handed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from blake3 import blake3

from agent_kernel.integrations import open_on
from agent_kernel.records.documents import is_plain
from agent_kernel.records.schema import Plane
from agent_kernel.session.snapshot import Repository

if TYPE_CHECKING:
    from agent_kernel.records.state import State

    SessionBase = object
else:
    try:
        from agentscope.session import SessionBase
    except ImportError:  # AgentScope 2, or none: the class is the same without it
        SessionBase = object

__all__ = ["AgentKernelSession", "StateModule"]

logger = logging.getLogger(__name__)


class StateModule(Protocol):
    """What has a state: AgentScope's agents, memories and toolkits, or any object of this shape."""

    def state_dict(self) -> Mapping[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any], /) -> object: ...


class AgentKernelSession(SessionBase):
    """Saves and loads agents by user and session. Safe from several coroutines, threads and processes.

    Args:
        repo: a repository, or the path or URL of one.
        branch: where sessions lie; by default on the branch that this process works on.
        plane: `branch` (the default): a checkout rewinds them; `store`: it does not.
        key_ttl: seconds after which a session is gone that nobody saves; by default never.

    Source: the contract of AgentScope 1.0.21 (`agentscope.session.SessionBase`).
    """

    def __init__(
        self,
        repo: Repository | str | Path,
        *,
        branch: str | None = None,
        plane: Plane = "branch",
        key_ttl: float | None = None,
    ) -> None:
        self._owns_repo = not isinstance(repo, Repository)
        self.repo = open_on(repo, branch, plane)
        self._where: dict[str, Any] = {"branch": branch, "plane": plane, "ttl_s": key_ttl}

    def state(self, session_id: str, user_id: str = "") -> State:
        """The session as a state of ours: a value for each module."""
        return self.repo.state(_part(user_id), _part(session_id), **self._where)

    async def save_session_state(
        self, session_id: str, user_id: str = "", **state_modules_mapping: StateModule
    ) -> None:
        """Save modules by name. Those of an earlier save that are not named now are removed.

        Raises:
            TypeError: JSON cannot hold a state. InvalidRecordError: JSON in UTF-8 cannot. Nothing was stored.
        """
        # What the modules give belongs to them, and they may go on while it is stored.
        values = {name: json.loads(json.dumps(module.state_dict())) for name, module in state_modules_mapping.items()}
        await asyncio.to_thread(self.state(session_id, user_id).replace, values)

    async def load_session_state(
        self,
        session_id: str,
        user_id: str = "",
        allow_not_exist: bool = True,
        **state_modules_mapping: StateModule,
    ) -> None:
        """Hand each module what was saved under its name. One that has nothing saved stays as it is.

        Raises:
            ValueError: nothing was saved, and `allow_not_exist` is False.
        """
        values = await asyncio.to_thread(self.state(session_id, user_id).get_all)
        if not values and not allow_not_exist:
            raise ValueError(f"nothing was saved of session {session_id!r} of user {user_id!r}")
        if not values:
            logger.info("nothing was saved of the session: its modules stay as they are")
        for name, module in state_modules_mapping.items():
            if name in values:
                module.load_state_dict(values[name])

    async def close(self) -> None:
        """Let go of the store, if it was opened here."""
        if self._owns_repo:
            await asyncio.to_thread(self.repo.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


_MOST_NAME = 100  # bytes


def _part(name: str) -> str:
    """A name in a key; one that is too long, or that no key holds, is replaced by its digest."""
    raw = name.encode("utf-8", "surrogatepass")
    return name if len(raw) <= _MOST_NAME and is_plain(name) and "\0" not in name else f"#{blake3(raw).hexdigest(20)}"
