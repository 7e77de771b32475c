"""A front end without a browser: cells that name themselves, comms whose messages are kept, panels that ask and act.

The shell is real, and so are the extension, the session and the widget. Only the wire between a kernel and a browser is
missing: what would be sent is kept here, and what a browser would send is handed to the comm.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import comm
import pytest
from comm.base_comm import BaseComm, CommManager
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import agent_kernel
from agent_kernel.magics.extension import AgentKernel

VIEW = "application/vnd.jupyter.widget-view+json"


class KeptComm(BaseComm):
    """A comm that keeps what is sent. ipykernel 7.4 has the same hook for the thread that messages go to."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self.sent: list[tuple[str, Any]] = []
        super().__init__(*args, **named)

    def publish_msg(self, msg_type: str, data: Any = None, *_: Any, **__: Any) -> None:
        self.sent.append((msg_type, data))

    def _reply_subshell_for(self, _data: object, _default: object) -> object:
        return None


class Kernel:
    """What panels use of a kernel."""

    def __init__(self) -> None:
        self.comm_manager = CommManager()
        self.io_loop = self
        self.soon: list[Callable[[], None]] = []
        self.metadata: dict[str, object] = {"cellId": "cell"}

    def add_callback(self, function: Callable[[], None]) -> None:
        self.soon.append(function)

    def get_parent(self) -> dict[str, object]:
        return {"metadata": self.metadata}

    def set_parent(self, _ident: object, parent: dict[str, Any]) -> None:
        self.metadata = parent["metadata"]


class Publisher(DisplayPublisher):
    """Keeps what is displayed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # IPython gives it no types
        self.shown: list[dict[str, Any]] = []

    def publish(self, data: Any, *_: Any, **__: Any) -> None:
        self.shown.append(data)


class Front:
    """`with Front(folder, monkeypatch) as front: front.run("x = 1")`"""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
        self.folder = folder
        self.notebook = folder / "study.ipynb"
        monkeypatch.setenv("JPY_SESSION_NAME", str(self.notebook))
        monkeypatch.chdir(folder)
        self.kernel = Kernel()
        monkeypatch.setattr(comm, "create_comm", KeptComm)
        monkeypatch.setattr(comm, "get_comm_manager", lambda: self.kernel.comm_manager)
        module = ModuleType("__main__")
        config = Config({"AgentKernel": options, "HistoryManager": {"enabled": False}})
        shell: Any = InteractiveShell
        self._before = sys.modules["__main__"]  # a shell puts itself there as it is made
        self.ip: Any = shell(user_module=module, user_ns=vars(module), config=config)
        self.ip.kernel = self.kernel
        self.ip.display_pub = self.display = Publisher()
        self._ids = count(1)

    def __enter__(self) -> Self:
        sys.modules["__main__"] = self.ip.user_module
        agent_kernel.load_ipython_extension(self.ip)
        return self

    def __exit__(self, *exc: object) -> None:
        agent_kernel.unload_ipython_extension(self.ip)
        sys.modules["__main__"] = self._before
        atexit.unregister(self.ip.atexit_operations)
        self.ip.atexit_operations()

    @property
    def extension(self) -> AgentKernel:
        return AgentKernel.of(self.ip)

    @property
    def ns(self) -> dict[str, Any]:
        namespace: dict[str, Any] = self.ip.user_ns
        return namespace

    def run(self, source: str) -> str:
        """Run a cell as the front end would, and return what it printed."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            self.ip.run_cell(source, store_history=True, cell_id=f"cell-{next(self._ids)}")
        return out.getvalue()

    def show(self, source: str) -> dict[str, Any]:
        """Run a cell that shows one thing, and return what it showed, by MIME type."""
        before = len(self.display.shown)
        said = self.run(source)
        shown = self.display.shown[before:]
        assert len(shown) == 1, said
        return shown[0]

    def panel(self, line: str = "%agent history") -> Panel:
        """The panel that a line shows, with a view that watches it."""
        shown = self.show(line)
        panel = Panel(self.kernel.comm_manager.comms[shown[VIEW]["model_id"]])
        panel.send({"op": "watch", "view": "1"})
        return panel

    def widget(self, panel: Panel) -> Any:
        """The kernel's side of a panel."""
        return vars(sys.modules["ipywidgets.widgets.widget"])["_instances"][panel.comm.comm_id]

    def channel(self, target: str = "agent_kernel.panel") -> Channel:
        """A comm that the front end opens."""
        opened = KeptComm(target_name=target, primary=False)
        self.kernel.comm_manager.register_comm(opened)
        self.kernel.comm_manager.targets[target](opened, {"content": {"data": {}}})
        return Channel(opened)

    def between(self) -> None:
        """Let the kernel's loop come round, on the main thread with no cell running."""
        soon, self.kernel.soon = self.kernel.soon, []
        for function in soon:
            function()

    def during(self, *doing: Callable[[], object], source: str = "meanwhile()", thread: bool = True) -> str:
        """Run a cell during which something is done on another thread, as kernels with subshells have it."""

        def meanwhile() -> None:
            for function in doing:
                if thread:
                    elsewhere(function)
                else:
                    function()

        self.ip.user_ns_hidden["meanwhile"] = self.ip.user_ns["meanwhile"] = meanwhile
        return self.run(source)


def elsewhere(function: Callable[[], object]) -> None:
    """Call it on another thread, and wait until it is done."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


class Channel:
    """One end of a comm: asks with plain messages."""

    def __init__(self, opened: Any) -> None:
        self.comm = opened
        self._ids = count(1)

    def send(self, content: dict[str, Any]) -> None:
        """Send a message as the browser would."""
        self.comm.handle_msg({"content": {"data": self._wrapped(content)}, "buffers": []})

    def heard(self) -> list[dict[str, Any]]:
        """All messages so far."""
        return [self._content(data) for kind, data in self.comm.sent if kind == "comm_msg"]

    def ask(self, op: str, **args: object) -> Any:
        """What is answered at once."""
        return self.answer(self.say(op, **args))

    def say(self, op: str, **args: object) -> int:
        """Ask, and return the number of the question."""
        id = next(self._ids)
        self.send({"id": id, "op": op, "args": {name.rstrip("_"): value for name, value in args.items()}})
        return id

    def answer(self, id: int) -> Any:
        """The answer to a question; of one that failed, the error."""
        found = [message for message in self.heard() if message.get("id") == id]
        assert len(found) == 1, found
        return found[0]["ok"] if "ok" in found[0] else found[0]["error"]

    @property
    def states(self) -> list[dict[str, Any]]:
        return [message["state"] for message in self.heard() if message.get("event") == "state"]

    @property
    def state(self) -> dict[str, Any]:
        return self.states[-1]

    def _wrapped(self, content: dict[str, Any]) -> dict[str, Any]:
        return content

    def _content(self, data: dict[str, Any]) -> dict[str, Any]:
        return data


class Panel(Channel):
    """One view of a panel."""

    @property
    def model(self) -> dict[str, Any]:
        """What the front end was given when the widget was made."""
        kind, data = self.comm.sent[0]
        assert kind == "comm_open"
        state: dict[str, Any] = data["state"]
        return state

    @property
    def updates(self) -> dict[str, Any]:
        """What of the widget's state was sent again since."""
        sent = [data["state"] for kind, data in self.comm.sent[1:] if kind == "comm_msg" and "state" in data]
        return {name: value for state in sent for name, value in state.items()}

    def _wrapped(self, content: dict[str, Any]) -> dict[str, Any]:
        return {"method": "custom", "content": content}

    def _content(self, data: dict[str, Any]) -> dict[str, Any]:
        content: dict[str, Any] = data.get("content", {})
        return content


def walk(value: object) -> Iterator[str]:
    """All texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from walk(key)
            yield from walk(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from walk(one)
