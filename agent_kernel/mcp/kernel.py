"""What an agent outside acts on: a running kernel, asked over its own channels between its cells, or a store alone."""

from __future__ import annotations

import queue
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent_kernel.agents.execution_context import ExecutionContext
from agent_kernel.errors import NotAStoreError
from agent_kernel.mcp.stepping import Answer, Asked, Steps
from agent_kernel.mcp.tools import Told, Tools
from agent_kernel.repository import Author
from agent_kernel.session import Repository, Versioned
from agent_kernel.verbs.places import find_store

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient

__all__ = ["Kernel", "Stored", "connected", "opened"]


_CALL: Final = "__import__('agent_kernel.mcp.stepping', fromlist=['answered']).answered({request!r})"
_BUSY: Final = "The kernel is busy with something else; nothing was done. Ask again when it has ended."
_GONE: Final = "The kernel has ended, or does not answer any more; it is not known what came of this call."


@contextmanager
def connected(
    connection_file: str, *, agent: str, approve: str, step_s: float | None, wait_s: float
) -> Generator[Kernel]:
    """A connection to the kernel of this file (or of this id), closed at the end.

    Raises:
        NotAStoreError: there is no such file.
    """
    from jupyter_client.blocking.client import BlockingKernelClient
    from jupyter_client.connect import find_connection_file

    try:
        found = find_connection_file(connection_file)
    except OSError:
        raise NotAStoreError(connection_file, "there is no such connection file of a kernel") from None
    client = BlockingKernelClient()
    client.load_connection_file(found)
    client.start_channels()
    try:
        yield Kernel(client, agent=agent, approve=approve, step_s=step_s, wait_s=wait_s)
    finally:
        client.stop_channels()


class Kernel:
    """The tools of a kernel.

    Args:
        wait_s: seconds that a call waits for a busy kernel.
    """

    def __init__(
        self, client: BlockingKernelClient, *, agent: str, approve: str, step_s: float | None, wait_s: float
    ) -> None:
        self._client = client
        self._agent = agent
        self._approve = approve
        self._step_s = step_s
        self._wait_s = wait_s
        self._is_ready = False

    def call(self, tool: str, arguments: dict[str, object], agent: str = "") -> Told:
        """Use a tool in the kernel, or say that it is busy: then nothing of it happens later either."""
        if not self._ready():
            return Told(_BUSY, failed=True)
        until = time.time() + self._wait_s
        asked = Asked(tool, arguments, agent or self._agent, self._approve, self._step_s, until)
        request = msgspec.json.encode(asked).decode()
        message = self._client.execute(
            "",
            silent=True,
            store_history=False,
            user_expressions={"answer": _CALL.format(request=request)},
            allow_stdin=False,
            stop_on_error=False,
        )
        reply = self._reply(message, until)
        return Told(_BUSY if reply is None else _GONE, failed=True) if not reply else _told(reply)

    def stop(self) -> None:
        """Interrupt what runs there; from any thread."""
        message = self._client.session.msg("interrupt_request", content={})
        self._client.control_channel.send(message)

    def _ready(self) -> bool:
        if not self._is_ready:
            try:
                self._client.wait_for_ready(timeout=self._wait_s)
            except RuntimeError:  # it has not answered in that time
                return False
            self._is_ready = True
        return True

    def _reply(self, message: str, until: float) -> dict[str, Any] | None:
        """The kernel's answer; None: it has not begun by then. Empty: the kernel is gone."""
        has_begun = False
        while True:
            has_begun = has_begun or self._begins(message)
            try:
                reply: dict[str, Any] = self._client.get_shell_msg(timeout=0.1 if not has_begun else 1.0)
            except queue.Empty:
                if not self._client.is_alive():
                    return {}
                if not has_begun and time.time() > until:
                    return None
                continue
            if reply["parent_header"].get("msg_id") == message:
                return reply

    def _begins(self, message: str) -> bool:
        """Whether the kernel says that it is at work on this request."""
        while True:
            try:
                heard: dict[str, Any] = self._client.get_iopub_msg(timeout=0)
            except queue.Empty:
                return False
            is_ours = heard["parent_header"].get("msg_id") == message
            if is_ours and heard["msg_type"] == "status" and heard["content"].get("execution_state") == "busy":
                return True


def _told(reply: dict[str, Any]) -> Told:
    content = reply["content"]
    shown = content.get("user_expressions", {}).get("answer", {})
    if shown.get("status") != "ok":
        about = shown or content
        return Told(
            f"The kernel could not do it: {about.get('ename', 'error')}: {about.get('evalue', '')}", failed=True
        )
    answer = msgspec.json.decode(shown["data"]["text/plain"], type=Answer)
    return Told(_BUSY, failed=True) if answer.late else Told(answer.text, answer.failed)


# -- A store as a namespace for an agent outside: a branch of it, whose values are loaded when something first acts on them


@contextmanager
def opened(store: str, *, agent: str, approve: str, step_s: float | None, branch: str | None) -> Generator[Stored]:
    """The store, closed at the end.

    Raises:
        StoreError: it cannot be opened. NotAStoreError: the place holds no store.
    """
    repo = Repository.open(find_store(store), create=False)
    found = Stored(repo, store, agent=agent, approve=approve, step_s=step_s, branch=branch)
    try:
        yield found
    finally:
        found.close()
        repo.close()


class Stored:
    """The tools of a store."""

    def __init__(
        self, repo: Repository, name: str, *, agent: str, approve: str, step_s: float | None, branch: str | None
    ) -> None:
        self._repo = repo
        self._branch = branch
        self._agent = agent
        self._state: Versioned | None = None
        self._place: ExecutionContext | None = None
        self._notes: list[str] = []
        decides = (
            f"The person allows it with `agent-kernel approve {name} --run {{run}}`, or denies it with "
            f"`agent-kernel deny {name} --run {{run}} REASON`."
        )
        self._begin = partial(Steps, self.open, approve=approve, step_s=step_s, decides=decides)
        self._steps: dict[str, Steps] = {}  # of each agent

    def call(self, tool: str, arguments: dict[str, object], agent: str = "") -> Told:
        """Use a tool by its name."""
        name = agent or self._agent
        steps = self._steps[name] = self._steps.get(name) or self._begin(agent=name)
        told = Tools(self._repo, lambda: self._place, steps).call(tool, arguments)
        notes, self._notes = self._notes, []
        return Told("\n\n".join([told.text, *notes]), told.failed) if notes else told

    def stop(self) -> None:
        """Interrupt the code that runs; from any thread."""
        for steps in tuple(self._steps.values()):
            steps.stop()

    def open(self) -> ExecutionContext:
        """The branch's variables, loaded when this is first called.

        Raises:
            UntrustedStoreError: somebody else made the store, and nobody here trusts it.
        """
        if self._place is None:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                self._state = Versioned(self._repo, branch=self._branch, author=Author(self._agent, "agent"))
            self._notes += [str(one.message) for one in told]
            self._place = ExecutionContext(self._state.session.namespace, self._state.session)
        return self._place

    def close(self) -> None:
        """Give the branch back."""
        if self._state is not None:
            self._state.close()
