"""The line of cells that are run again, and the fresh kernel that runs them.

They are those on the line that leads to a commit, or those of a notebook's document.

The line goes from a commit to its first parent, and from a rollback or an undo to the commit that it went back to: what
was left behind there made nothing of the state that is reproduced. Each run of a cell is on it, in the order of the runs.
"""

from __future__ import annotations

import builtins
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from agent_kernel.agents.agent_undo import goes_on_from
from agent_kernel.commands.scope import UsageProblem
from agent_kernel.errors import AgentKernelError, KernelStartError
from agent_kernel.repository import Repository as BareRepository
from agent_kernel.repository import hex_of, short
from agent_kernel.session import Repository, trust
from agent_kernel.session.history import only_commands, within_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_kernel.repository import Commit, ObjectId


# Kernels that are not Python's, by how their names begin, where a file does not say their language.
_KERNELS: Final = {"julia": "Julia", "ir": "R", "xr": "R", "bash": "Bash", "deno": "TypeScript", "rust": "Rust", "sos": "SoS",
    "javascript": "JavaScript", "xcpp": "C++", "scala": "Scala", "octave": "Octave", "matlab": "MATLAB", "sql": "SQL",
    ".net": "C#", "gophernotes": "Go", "ihaskell": "Haskell", "ruby": "Ruby", "sas": "SAS", "stata": "Stata",
}  # fmt: skip
_HEADER: Final = re.compile(r"\s*%%agent\b[^\n]*\n?")


@dataclass(frozen=True)
class SavedOutput:
    """One output in the notebook's file, in the words of its format."""

    kind: str
    name: str = ""
    text: str = ""
    representations: dict[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True)
class LineCell:
    """One run of a cell, or one cell of a document.

    Attributes:
        position: its place on the line, from 1.
        id: that of the document's cell; "" where it is not known.
        number: the prompt that it had.
        commit: the state after it; None in a document.
        skipped: why it is not run; "" if it is.
        saved: what the document says that it showed; None in a history.
        is_edited: its code is not that of its last run.
    """

    position: int
    source: str
    id: str = ""
    number: int | None = None
    commit: ObjectId | None = None
    record: Commit | None = None
    skipped: str = ""
    saved: tuple[SavedOutput, ...] | None = None
    is_edited: bool = False

    @property
    def key(self) -> str:
        """The id that it has in the kernel that runs it again."""
        return f"reproduced-{self.position}"


@dataclass(frozen=True)
class Brought:
    """Variables that no cell of the line set: a merge did, or they were there before.

    Attributes:
        position: of the cell after that; 0: it is after all cells.
    """

    position: int
    commit: ObjectId
    names: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """The cells in the order in which they are run, and what else made the state that they lead to.

    Attributes:
        tip: the commit that is reproduced; None of a document.
        brought: by name, what gave a variable its value instead of a cell: a merge, a cherry-pick.
        all_brought: what was brought at any time, also where a cell has set it since.
        start: the commit whose variables are there before the first cell; None: none are.
        moved: variables that the cells set, now or when they ran last.
    """

    cells: tuple[LineCell, ...]
    tip: ObjectId | None = None
    branch: str = ""
    brought: dict[str, str] = field(default_factory=dict[str, str])
    all_brought: tuple[Brought, ...] = ()
    cwd: str = ""
    start: ObjectId | None = None
    moved: frozenset[str] = frozenset()

    @property
    def run(self) -> Iterator[LineCell]:
        """Those that are run."""
        return (cell for cell in self.cells if not cell.skipped)


def read_line(repo: Repository, ref: str | None) -> Line:
    """The cells that lead to a commit, by default to the head of the branch that was used last.

    Raises:
        RefNotFoundError, AmbiguousRefError: there is no such commit, or several.
        UsageProblem: the history is empty.
    """
    tip = repo.resolve(ref or "HEAD") if ref or repo.head().commit is not None else None
    if tip is None:
        raise UsageProblem("the history has no commit yet: there is nothing to reproduce")
    commits = list(_walk(repo, tip))[::-1]
    cells: list[LineCell] = []
    brought: dict[str, str] = {}
    all_brought: list[Brought] = []
    around = _Around(commits)
    for id, commit in commits:
        if commit.cell is not None and commit.kind == "cell":
            cells.append(_cell(len(cells) + 1, id, commit, around.step(commit)))
            for change in commit.changed:
                brought.pop(change.name, None)
        elif around.makes(commit):
            continue
        elif commit.changed and _brings(commit):
            names = tuple(one.name for one in commit.changed if one.how != "-" and not one.name.startswith("\0"))
            brought |= dict.fromkeys(names, _name(id, commit))
            all_brought.append(Brought(len(cells) + 1, id, names))
    head = repo.head()
    cwd = commits[-1][1].cwd
    return Line(
        tuple(cells), tip, (head.branch or "") if tip == head.commit else ref or "", brought, tuple(all_brought), cwd
    )


def _walk(repo: Repository, tip: ObjectId) -> Iterator[tuple[ObjectId, Commit]]:
    at: ObjectId | None = tip
    while at is not None:
        commit = repo.commit_at(at)
        yield at, commit
        at = next(iter(goes_on_from(commit)), None)


class _Around:
    """The cells of a line that were run by a person: what such a cell's own code committed is made again by running it."""

    def __init__(self, commits: Sequence[tuple[ObjectId, Commit]]) -> None:
        self._numbers = {
            (commit.session, commit.cell.number)
            for _, commit in commits
            if commit.cell is not None and commit.kind == "cell" and not commit.run
        }

    def makes(self, commit: Commit) -> bool:
        """Whether the code of one of them makes this commit, which has no cell of its own."""
        return any(
            number is not None and within_cell(number) in commit.labels
            for session, number in self._numbers
            if session == commit.session
        )

    def step(self, commit: Commit) -> str:
        """Why a step of an agent is not run by itself: one of them ran the agent."""
        assert commit.cell is not None
        number = commit.cell.number
        if not commit.run or number is None or (commit.session, number) not in self._numbers:
            return ""
        return f"the agent that took this step is run again by cell [{number}]"


def _brings(commit: Commit) -> bool:
    """Whether what it changed came from elsewhere, and not from the commit that the line goes on with."""
    is_whole = commit.kind in ("undo", "redo", "rollback") and goes_on_from(commit) != commit.parents
    return not is_whole


def _name(id: ObjectId, commit: Commit) -> str:
    kinds = {"merge": "a merge", "cherry-pick": "a cherry-pick", "rollback": "a checkout of single variables"}
    return f"{kinds.get(commit.kind, 'a commit without a cell')} ({short(id)})"


def _cell(position: int, id: ObjectId, commit: Commit, skipped: str) -> LineCell:
    cell = commit.cell
    assert cell is not None
    if commit.status != "ok" and not commit.changed:
        skipped = f"it {'was interrupted' if commit.status == 'interrupted' else 'failed'}, and changed nothing"
    source = _HEADER.sub("", cell.source, count=1) if commit.author.kind == "agent" else cell.source
    return LineCell(position, source, cell.id, cell.number, id, commit, skipped)


def read_document(path: Path) -> Line:
    """The code cells of a notebook's file, in their order there, with the outputs that are saved in it.

    Raises:
        UsageProblem: it cannot be read, or is not a notebook with Python in it.
    """
    try:
        content: object = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageProblem(f"there is nothing at {path}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageProblem(f"{path} cannot be read as a notebook ({error})") from None
    document = _object(content)
    found = document.get("cells")
    if not isinstance(found, list):
        raise UsageProblem(f"{path} is not a notebook of format 4")
    language = _language(document)
    if not language.lower().startswith("python"):
        raise UsageProblem(f"{path} is a notebook of {language}, and only Python can be run again")
    cells: list[LineCell] = []
    for one in cast("list[object]", found):
        cell = _object(one)
        source = _text(cell.get("source"))
        if cell.get("cell_type") != "code" or not source.strip() or only_commands(source):
            continue
        outputs = cell.get("outputs")
        number = cell.get("execution_count")
        cells.append(
            LineCell(
                len(cells) + 1,
                source,
                _text(cell.get("id")),
                number if isinstance(number, int) else None,
                saved=tuple(map(_saved, cast("list[object]", outputs))) if isinstance(outputs, list) else (),
            )
        )
    return Line(tuple(cells), cwd=str(path.absolute().parent))


def _saved(found: object) -> SavedOutput:
    output = _object(found)
    kind = _text(output.get("output_type"))
    if kind == "error":
        return SavedOutput(kind, _text(output.get("ename")), _text(output.get("evalue")))
    return SavedOutput(kind, _text(output.get("name")), _text(output.get("text")), _object(output.get("data")))


def _object(found: object) -> dict[str, Any]:
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _language(document: dict[str, Any]) -> str:
    """The language of a notebook's kernel, as far as the file says it."""
    metadata = _object(document.get("metadata"))
    kernel = _object(metadata.get("kernelspec"))
    named = _text(_object(metadata.get("language_info")).get("name")) or _text(kernel.get("language"))
    name = _text(kernel.get("name")).lower()
    return named or next((language for begin, language in _KERNELS.items() if name.startswith(begin)), "Python")


def _text(found: object) -> str:
    """A text as the format writes it: whole, or line by line."""
    if isinstance(found, list):
        return "".join(map(str, cast("Sequence[object]", found)))
    return found if isinstance(found, str) else ""


# -- the second run
#
# Run cells in a fresh kernel, bound to a store that goes away: the second run is a history too, with commits to compare.
#
# The kernel is a process of its own in a session of its own, killed with all that it started as the block ends. It dies by
# itself where this process is killed. Its store is trusted by the processes that take part, and is in no list.


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
        begin = "__import__('agent_kernel.reproduction.line', fromlist=['begin']).begin"
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
        take = "__import__('agent_kernel.reproduction.line', fromlist=['take']).take"
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
