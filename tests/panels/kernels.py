"""A real kernel, and the messages that a browser would send to it."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.kernels import started

VIEW = "application/vnd.jupyter.widget-view+json"

Message = dict[str, Any]


@contextmanager
def kernel(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Browser]:
    """The kernel "Python 3 (Agent)", started for this notebook."""
    with started(notebook, monkeypatch) as (client, manager):
        yield Browser(client, manager)


class Browser:
    """What a front end does: runs cells that have names, and speaks over comms on a subshell, as JupyterLab does."""

    def __init__(self, client: BlockingKernelClient, manager: KernelManager) -> None:
        self.client = client
        self.manager = manager
        self.published: list[Message] = []
        self._subshell: str | None = None

    # -- cells

    def start(self, source: str, *, cell: str | None = "cell", attended: bool = False) -> str:
        """Send a cell, and return the id of the request.

        Args:
            cell: its name; None: of a front end that names none.
            attended: a person is there to be asked.
        """
        content = {
            "code": source,
            "silent": False,
            "store_history": True,
            "allow_stdin": attended,
            "stop_on_error": True,
        }
        message = self.client.session.msg("execute_request", content, metadata={"cellId": cell} if cell else {})
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def finish(self, request: str) -> list[Message]:
        """Wait until it has run; what it published."""
        self.until(lambda message: _of(message, request) and message["content"].get("execution_state") == "idle")
        return [message for message in self.published if _of(message, request)]

    def run(self, source: str, *, cell: str | None = "cell") -> list[Message]:
        """Run a cell; what it published."""
        return self.finish(self.start(source, cell=cell))

    def text(self, source: str) -> str:
        """What a cell prints."""
        return "".join(message["content"].get("text", "") for message in self.run(source))

    def until(self, is_it: Callable[[Message], bool], timeout_s: float = 30) -> Message:
        """Wait for a message; it may have come already."""
        for message in self.published:
            if is_it(message):
                return message
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            self.published.append(message)
            if is_it(message):
                return message
        raise AssertionError("the message did not come")

    # -- comms

    def panel(self) -> Wire:
        """The panel that `%agent history` shows, watched."""
        shown = [message for message in self.run("%agent history") if message["msg_type"] == "display_data"]
        wire = Wire(self, shown[-1]["content"]["data"][VIEW]["model_id"])
        wire.send({"op": "watch", "view": "1"})
        return wire

    @property
    def subshell(self) -> str | None:
        """The thread that comms use; None: this kernel has one thread."""
        if self._subshell is None and "kernel subshells" in self._features():
            message = self.client.session.msg("create_subshell_request")
            self.client.control_channel.send(message)
            while True:
                reply = self.client.get_control_msg(timeout=30)
                if reply["msg_type"] == "create_subshell_reply":
                    self._subshell = reply["content"]["subshell_id"]
                    break
        return self._subshell

    def _features(self) -> list[str]:
        request = self.client.kernel_info()
        while True:
            reply = self.client.get_shell_msg(timeout=30)
            if reply["parent_header"]["msg_id"] == request:
                return list(reply["content"].get("supported_features", ()))


class Wire:
    """One comm, as the browser holds it."""

    def __init__(self, browser: Browser, comm: str) -> None:
        self.browser = browser
        self.comm = comm
        self._asked = 0

    def send(self, content: Message) -> None:
        """Send a message on the subshell, if there is one."""
        session = self.browser.client.session
        data = {"method": "custom", "content": content}
        message = session.msg("comm_msg", {"comm_id": self.comm, "data": data})
        if self.browser.subshell is not None:
            message["header"]["subshell_id"] = self.browser.subshell
        self.browser.client.shell_channel.send(message)

    def say(self, op: str, **args: object) -> int:
        self._asked += 1
        self.send({"id": self._asked, "op": op, "args": args})
        return self._asked

    def ask(self, op: str, **args: object) -> Any:
        """What is answered."""
        return self.answer(self.say(op, **args))

    def answer(self, id: int) -> Any:
        content = self._content(self.browser.until(lambda message: self._content(message).get("id") == id))
        return content["ok"] if "ok" in content else content["error"]

    def state(self, holds: Callable[[Message], object]) -> Message:
        """The first state of which that holds."""

        def is_it(message: Message) -> bool:
            state = self._content(message).get("state")
            return state is not None and bool(holds(state))

        state: Message = self._content(self.browser.until(is_it))["state"]
        return state

    def _content(self, message: Message) -> Message:
        if message["msg_type"] != "comm_msg" or message["content"]["comm_id"] != self.comm:
            return {}
        content: Message = message["content"]["data"].get("content", {})
        return content


def _of(message: Message, request: str) -> bool:
    return bool(message["parent_header"].get("msg_id") == request)
