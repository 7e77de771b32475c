"""Run cells in a fresh kernel, bound to a store that goes away: the second run is a history too, with commits to compare.

The kernel is a process of its own in a session of its own, killed with all that it started as the block ends. It dies by
itself where this process is killed. Its store is trusted by the processes that take part, and is in no list.
"""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import TYPE_CHECKING, Any, Final, Literal

from agent_kernel.errors import AgentKernelError, KernelStartError
from agent_kernel.repository import Repository as BareRepository
from agent_kernel.repository import hex_of
from agent_kernel.session import Repository, trust

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_kernel.repository import Commit, ObjectId
    from agent_kernel.reproduction.line import Brought, LineCell

__all__ = ["Ran", "Rerun", "begin", "find_commits", "rerun", "take"]

_START_S: Final = 60.0
_LOAD_S: Final = 600.0  # to load variables of a history, which may be large
_INTERRUPT_S: Final = 5.0  # that a cell has to end after it was interrupted
_TICK_S: Final = 0.2
_TASK_END: Final = "TaskEnd"  # what ends a step of an agent is raised, and is no error


@dataclass(frozen=True)
class Ran:
    """How one cell ended. `died`: the kernel with it; `exit`: it asked the kernel to end."""

    status: Literal["ok", "error", "timeout", "died", "exit"]
    error: str = ""  # the type's name
    text: str = ""
    duration_s: float = 0.0


@dataclass
class Rerun:
    """What came of a line of cells, by their positions."""

    repo: Repository
    secret: str
    ran: dict[int, Ran] = field(default_factory=dict[int, Ran])
    commits: dict[int, tuple[ObjectId, Commit]] = field(default_factory=dict[int, "tuple[ObjectId, Commit]"])
    head: ObjectId | None = None
    ended: str = ""  # why the rest was not run

    @property
    def url(self) -> str:
        return self.repo.store.url


@contextmanager
def rerun(
    cells: Sequence[LineCell],
    *,
    cwd: Path,
    python: str = sys.executable,
    timeout_s: float = 600.0,
    origin: Repository | None = None,
    commands: Sequence[str] = (),
    history: str = "",
    brought: Sequence[Brought] = (),
    progress: Callable[[int], None] = lambda _done: None,
) -> Generator[Rerun]:
    """Run the cells and yield what came of them; kernel and store are gone when the block has ended.

    Args:
        timeout_s: seconds that each cell may take.
        origin: the history that the kernel's store begins as a copy of.
        commands: lines of `%agent` that come before the first cell.
        brought: what is loaded between the cells, for no cell makes it.
        history: the store that has it; "": the kernel's own, which is a copy of `origin`.
        progress: told how many cells have been run.

    Raises:
        KernelStartError: no kernel starts with this interpreter.
    """
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="agent-kernel-", ignore_cleanup_errors=True))
        )
        store_path = folder / "store"
        secret, url = _make_store(store_path, origin)
        kernel = stack.enter_context(_kernel(python, cwd, folder, store_path))
        has_steps = any(cell.record is not None and cell.record.run for cell in cells)
        kernel.begin(secret, url, commands, has_steps=has_steps)
        found = Rerun(stack.enter_context(closing(Repository.open(store_path, create=False))), secret)
        for done, cell in enumerate(cells):
            progress(done)
            for one in brought:
                if one.position == cell.position:
                    kernel.take(history, one)
            found.ran[cell.position] = ran = kernel.run(cell.source, cell.key, timeout_s)
            if ran.status in ("exit", "died") or not kernel.is_alive():
                found.ended = f"the kernel died in cell {cell.position}"
                if ran.status == "exit":
                    found.ended = f"cell {cell.position} ended the kernel"
                if ran.status == "timeout":
                    found.ended = f"cell {cell.position} did not stop when it was interrupted, so its kernel was killed"
                break
        for one in brought:
            if one.position == 0 and not found.ended:
                kernel.take(history, one)
        kernel.stop()
        find_commits(found, cells)
        yield found


def _make_store(path: Path, origin: Repository | None) -> tuple[str, str]:
    """Make the store, empty or as a copy, trust it, and return its secret and URL."""
    from agent_kernel.commands.places import copy_store
    from agent_kernel.storage import open_store

    if origin is not None:
        with closing(open_store(path)) as store:
            copy_store(origin.store.url, store)
    with closing(BareRepository.open(path)) as bare:
        secret, url = trust.create_secret(bare), bare.store.url
    trust.trust_temporarily(secret, url)
    return secret, url


def find_commits(found: Rerun, cells: Sequence[LineCell]) -> None:
    """Note the state after each cell, and at the end."""
    found.repo.objects.forget_cached()
    found.head = found.repo.head().commit
    branches = list(found.repo.branches().values())
    by_key = {cell.key: cell.position for cell in cells}
    for id, commit in found.repo.log(branches) if branches else ():
        position = by_key.get(commit.cell.id) if commit.cell is not None else None
        if position is not None:
            found.commits.setdefault(position, (id, commit))  # newest first


def begin(shell: Any, secret: str, url: str, commands: Sequence[str], *, has_steps: bool) -> None:
    """In the fresh kernel: trust its store, make cells commits from the first one on, and use these commands."""
    trust.trust_temporarily(secret, url)
    shell.extension_manager.load_extension("agent_kernel")
    if (
        has_steps
    ):  # they end with `task.success(…)`, which an executor gives them; a variable of this name is found first
        from agent_kernel.agents.arguments import Inputs
        from agent_kernel.agents.execution import NAMES, TaskHandle

        for name in NAMES:
            setattr(builtins, name, TaskHandle(Inputs({})))
    for command in commands:
        shell.run_line_magic("agent", command)


def take(shell: Any, url: str, commit: str, names: Sequence[str]) -> None:
    """In the fresh kernel: load variables of a commit into the namespace, as far as they can be loaded."""
    from agent_kernel.session import Snapshot

    with closing(Repository.open(url, create=False)) as repo:
        snapshot = Snapshot(repo, repo.resolve(commit), shell.user_ns)
        for name in names:
            with suppress(AgentKernelError):
                shell.user_ns[name] = snapshot[name]


class _Kernel:
    """A kernel process and the channel on which code is sent to it."""

    def __init__(self, manager: Any, client: Any, python: str) -> None:
        self._manager, self._client, self._python = manager, client, python
        self._group: int | None = manager.provisioner.pgid
        self._stopped = False

    def begin(self, secret: str, url: str, commands: Sequence[str], *, has_steps: bool) -> None:
        """Bind it to its store, and use these commands there."""
        self._wait_until_ready()
        begin = "__import__('agent_kernel.reproduction.runner', fromlist=['begin']).begin"
        arguments = f"{secret!r}, {url!r}, {list(commands)!r}, has_steps={has_steps}"
        ran = self._execute(f"{begin}(get_ipython(), {arguments})", {}, _LOAD_S, silent=True)
        if ran.status != "ok":
            raise KernelStartError(self._python, f"{ran.error}: {ran.text}" if ran.error else ran.status)

    def take(self, url: str, one: Brought) -> None:
        """Load what no cell makes; where the kernel's own store has it, as a commit."""
        if not url:
            command = f"checkout {hex_of(one.commit)} -- {' '.join(one.names)}"
            self._execute(f"get_ipython().run_line_magic('agent', {command!r})", {}, _LOAD_S, silent=True)
            return
        take = "__import__('agent_kernel.reproduction.runner', fromlist=['take']).take"
        self._execute(
            f"{take}(get_ipython(), {url!r}, {hex_of(one.commit)!r}, {one.names!r})", {}, _LOAD_S, silent=True
        )

    def _wait_until_ready(self) -> None:
        self._client.kernel_info()
        end_s = time.monotonic() + _START_S
        while time.monotonic() < end_s:
            with suppress(Empty):
                self._client.get_shell_msg(timeout=_TICK_S)
                return
            if not self.is_alive():
                raise KernelStartError(self._python)
        raise KernelStartError(self._python, f"it was not ready after {_START_S:.0f} s")

    def is_alive(self) -> bool:
        return not self._stopped and bool(self._manager.is_alive())

    def run(self, source: str, cell_id: str, timeout_s: float) -> Ran:
        return self._execute(source, {"cellId": cell_id}, timeout_s)

    def _execute(self, source: str, metadata: Mapping[str, str], timeout_s: float, *, silent: bool = False) -> Ran:
        content: dict[str, object] = {
            "code": source,
            "silent": silent,
            "store_history": not silent,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        message = self._client.session.msg("execute_request", content, metadata=dict(metadata))
        began_s = time.monotonic()
        self._client.shell_channel.send(message)
        reply = self._wait(message["header"]["msg_id"], timeout_s)
        if reply is None and self.is_alive():
            self._manager.interrupt_kernel()
            if self._wait(message["header"]["msg_id"], _INTERRUPT_S) is None:
                self.stop()
            return Ran("timeout", duration_s=time.monotonic() - began_s)
        took_s = time.monotonic() - began_s
        if reply is None:
            return Ran("died", duration_s=took_s)
        if any(one.get("source") == "ask_exit" for one in reply.get("payload") or ()):
            return Ran("exit", duration_s=took_s)
        if reply.get("status") == "ok" or reply.get("ename") == _TASK_END:
            return Ran("ok", duration_s=took_s)
        return Ran("error", str(reply.get("ename", "")), str(reply.get("evalue", "")), took_s)

    def _wait(self, id: str, timeout_s: float) -> dict[str, Any] | None:
        """The answer to a message; None: it did not come in time, or the kernel is dead."""
        end_s = time.monotonic() + timeout_s
        while (left_s := end_s - time.monotonic()) > 0:
            with suppress(Empty):
                message = self._client.get_shell_msg(timeout=min(_TICK_S, left_s))
                if message["parent_header"].get("msg_id") == id:
                    content: dict[str, Any] = message["content"]
                    return content
                continue
            if not self.is_alive():
                return None
        return None

    def stop(self) -> None:
        """Kill the kernel and what it started."""
        if self._stopped:
            return
        self._stopped = True
        self._client.stop_channels()
        with suppress(Exception):  # it has died, or just does
            self._manager.shutdown_kernel(now=True)
        if self._group is not None and hasattr(os, "killpg"):
            # What it started may outlive it in the same group.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)
        with suppress(Exception):
            self._manager.cleanup_resources()


@contextmanager
def _kernel(python: str, cwd: Path, folder: Path, store_path: Path) -> Generator[_Kernel]:
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import KernelManager

    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}", f"--AgentKernel.store={store_path}"]
    argv += ["--AgentKernel.commits=all", "--AgentKernel.footer=False", "--AgentKernel.quiet=True"]
    argv += ["--AgentKernel.outputs=keep", "--AgentKernel.on_restart=offer", "--HistoryManager.hist_file=:memory:"]

    class OneSpec(KernelSpecManager):
        """Knows the one kernel that is wanted."""

        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            return KernelSpec(argv=argv, display_name=kernel_name, language="python")

    manager = KernelManager(kernel_spec_manager=OneSpec(), connection_file=str(folder / "kernel.json"))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        manager.start_kernel(cwd=str(cwd), env=_environment(), **quiet)
    except OSError as error:
        raise KernelStartError(python, error.strerror or str(error)) from error
    client = manager.blocking_client()
    kernel = _Kernel(manager, client, python)
    try:
        client.start_channels(shell=True, iopub=False, stdin=False, hb=False, control=False)
        yield kernel
    finally:
        kernel.stop()


def _environment() -> dict[str, str]:
    """This process's, without what would tell the kernel that it runs somebody's notebook."""
    return {name: value for name, value in os.environ.items() if not name.startswith("JPY_")}
