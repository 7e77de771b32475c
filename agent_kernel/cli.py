"""The command line: `agent-kernel VERB STORE …`, the commands of `%agent` on a store, without a notebook; `reproduce` and `install`.

One command finds the store, holds its branch where something is written, runs the verb and prints the answer.

Answers go to standard output, everything else to standard error, so that `--json` can be piped.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.commands.describe import Lines, Result, colours_wanted, find_living_holders
from agent_kernel.commands.places import BUNDLE, find_store
from agent_kernel.commands.scope import (
    COMMANDS,
    Command,
    Helped,
    Overview,
    Parser,
    Progress,
    Question,
    Scope,
    UsageProblem,
    command_named,
    error_json,
    expand_help,
    package_version,
    parser_of,
    run,
    wants_json,
)
from agent_kernel.errors import AgentKernelError, BranchInUseError, StoreReadOnlyError
from agent_kernel.queries import row_lines

if TYPE_CHECKING:
    from agent_kernel.session import Repository


# -- A bar on standard error while something long is running, where someone is there to see it


@contextmanager
def progress_bar() -> Generator[Progress | None]:
    """Yield what a long verb reports to; None where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bars: list[_Bar] = []

    def report(doing: str, done: int, total: int) -> None:
        # rich is slow to import: only once something long has begun.
        if not bars:
            bars.append(_Bar())
        bars[0].move(doing, done, total)

    try:
        yield report
    finally:
        for bar in bars:
            bar.close()


class _Bar:
    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as RichProgress
        from rich.progress import TaskID

        self._progress = RichProgress(console=Console(stderr=True), transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._progress.start()

    def move(self, doing: str, done: int, total: int) -> None:
        if doing not in self._tasks:
            self._tasks[doing] = self._progress.add_task(doing, total=None)
        self._progress.update(self._tasks[doing], completed=done, total=total or None)

    def close(self) -> None:
        self._progress.stop()


_COMMAND = "agent-kernel"
_IN_A_NOTEBOOK = "run %agent {} in the notebook that has it open. {}"
_FORCED = (
    "--force writes all the same: that notebook keeps its variables, and its next cell goes to a new branch",
    "--force changes where the next session starts, and nothing in that notebook",
)
_FOR_A_NOTEBOOK = re.compile(r"%agent(?! [\w-]+ in (?:the|its) notebook)")  # what is typed here as `agent-kernel`
_BUNDLES = "bundle://"
_DONE, _FAILED, _MISUSED, _INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 it could not be done, 2 it was not understood."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows ? for what it lacks
    try:
        with ended_by_sigterm():
            return _dispatch(words)
    except (UsageProblem, AgentKernelError) as error:
        if wants_json(words):
            print(json.dumps(error_json(error), ensure_ascii=False, indent=2))
            sys.stdout.flush()
            return _MISUSED if isinstance(error, UsageProblem) else _FAILED
        if isinstance(error, Question):
            print(error, file=sys.stderr)
            return _MISUSED
        if isinstance(error, UsageProblem):
            return _complain(str(error), _MISUSED)
        return _complain(_FOR_A_NOTEBOOK.sub(_COMMAND, str(error)), _FAILED)
    except (msgspec.MsgspecError, UnicodeError) as error:
        return _complain(f"something that is stored there cannot be read ({error})", _FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        # The reader has left (`… | head`): nothing is wrong, but Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _DONE


def _complain(text: str, status: int) -> int:
    print(f"{_COMMAND}: {text}", file=sys.stderr)
    return status


def _dispatch(words: Sequence[str]) -> int:
    words = expand_help(words)
    if not words or words[0] in ("-h", "--help", "help"):
        return _print(_overview(), as_json=False)
    if words[0] == "--version":
        return _print(Lines((f"{_COMMAND} {package_version()}",)), as_json=False)
    try:
        if words[0] == "install":
            return _print(install(words[1:]), as_json=False)
        if words[0] == "reproduce":
            return _reproduce(words[1:])
        if words[0] == "worker":
            from agent_kernel.commands.worker import worker

            return worker(words[1:])
        if words[0] == "open":
            from agent_kernel.bundle.commands import open_command

            with progress_bar() as progress:
                opened = open_command(words[1:], progress)
            return _print(opened, as_json=wants_json(words))
        if words[0] == "key":
            from agent_kernel.bundle.commands import key_command

            return _print(key_command(words[1:]), as_json=wants_json(words))
        others = ["open", "reproduce", "worker", "key", "install", "mcp"]
        command = command_named(
            words[0], [*(name for name, command in COMMANDS.items() if command.needs == "store"), *others]
        )
        if command.needs != "store":
            raise UsageProblem(f"{command.name} is for a running notebook: use it there as %agent {command.name}")
        options = _parser(command).read(words[1:])
    except Helped as told:
        return _print(Lines((str(told),)), as_json=False)
    return _run(command, options)


def _overview() -> Overview:
    commands = [command for command in COMMANDS.values() if command.needs == "store"]
    opening = Command("open", "verify a bundle, and make its notebook and its store", "")
    key = Command("key", "your key, which signs bundles, and the keys of others that you trust", "")
    install = Command("install", "make the kernel “Python 3 (Agent)” known to Jupyter", "")
    reproduce = Command("reproduce", "run a history again in a fresh kernel, and say what comes out the same", "")
    worker = Command("worker", "run an agent's code in the variables of a store, by JSON lines", "")
    # Another interface, which `agent_kernel.__main__` opens: interfaces do not import each other.
    mcp = Command("mcp", "serve the variables of a store, or of a running kernel, to agents outside", "")
    return Overview(_COMMAND, [*commands, opening, reproduce, worker, key, install, mcp], alone=True)


def _parser(command: Command) -> Parser:
    parser = parser_of(command, _COMMAND, names_store=True)
    if command.writes and "--force" not in parser.options:
        parser.flag("--force", help="write even where a living process uses the branch")
    return parser


def _run(command: Command, options: Namespace) -> int:
    store = find_store(options.store)
    if command.name == "show" and store.startswith(_BUNDLES) and not _asks_for_a_commit(options):
        from agent_kernel.bundle.report import show_bundle

        with progress_bar() as progress:
            report = show_bundle(store, named=options.store, command=_COMMAND, now_ns=time.time_ns(), progress=progress)
        return _print(report, as_json=options.json)
    if command.name == "verify" and store.startswith(_BUNDLES):
        from agent_kernel.bundle.commands import verify_bundle

        with progress_bar() as progress:
            return _print(verify_bundle(Path(store.removeprefix(_BUNDLES)), progress), as_json=options.json)
    with (
        progress_bar() as progress,
        _opened(store, command, progress) as only,
        _with_another_bundle(only, command, options) as (repo, sides),
    ):
        if command.writes and not options.force and not _only_reads(command, options):
            _refuse_used(repo, command, options)
        scope = Scope(repo, store_name=options.store, command=_COMMAND, progress=progress, sides=sides)
        scope.brief, scope.row_lines = sys.stdout.isatty(), row_lines
        result = run(command, scope, options)
        text = _spell(result, as_json=options.json)  # here, as it may read on
    print(text, flush=True)
    return _DONE if result.ok else _FAILED


@contextmanager
def _opened(store: str, command: Command, progress: Progress | None) -> Generator[Repository]:
    """The history there. The signature of a bundle is checked, and before an export all of it: what leaves it looks sound."""
    from agent_kernel.session import Repository

    if not store.startswith(_BUNDLES):
        with closing(Repository.open(store, create=False)) as repo:
            yield repo
        return
    from agent_kernel.bundle import opening

    with opening.opened(Path(store.removeprefix(_BUNDLES)), soundly=True) as bundle:
        if command.name == "export":
            opening.verify(bundle, partial(progress, "checking") if progress is not None else None)
        with opening.reading(bundle.path):
            yield bundle.repo


@contextmanager
def _with_another_bundle(
    repo: Repository, command: Command, options: Namespace
) -> Generator[tuple[Repository, tuple[str, str]]]:
    """`diff STORE OTHER.agentnb` compares the HEADs of both; also how the two are named."""
    other = options.old if command.name == "diff" else None
    if other is None or not other.endswith(BUNDLE) or other in repo.refs.list_refs():
        yield repo, ("", "")
        return
    from agent_kernel.bundle.opening import THEIRS, overlaid

    if options.new != "HEAD":
        raise UsageProblem("two bundles are compared at their HEADs: name nothing after the second one")
    with overlaid(repo, Path(other).expanduser()) as both:
        options.old, options.new = "HEAD", THEIRS
        yield both, (options.store, other)


def _reproduce(words: Sequence[str]) -> int:
    from agent_kernel.reproduction import assessment as reproduction

    options = reproduction.parser().read(words)
    with progress_bar() as progress:
        result = reproduction.reproduce(options, progress, _notes_on(options.place, progress))
    return _print(result, as_json=options.json)


def _notes_on(text: str, progress: Progress | None) -> tuple[str, ...]:
    """Who signed a bundle, which is verified before its cells run."""
    if not text.startswith(_BUNDLES) and not (text.endswith(BUNDLE) and Path(text).expanduser().is_file()):
        return ()
    from agent_kernel.bundle.commands import check_bundle

    return check_bundle(Path(text.removeprefix(_BUNDLES)).expanduser(), progress)


@contextmanager
def ended_by_sigterm() -> Generator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that what it started is stopped and cleaned up."""
    if threading.current_thread() is not threading.main_thread():  # no other one may say what a signal does
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _asks_for_a_commit(options: Namespace) -> bool:
    """Whether `show` is to show one commit of a bundle, and not the bundle."""
    return options.rev is not None or options.outputs or options.environment or options.notebook


def _only_reads(command: Command, options: Namespace) -> bool:
    return command.name in ("branch", "tag") and options.name is None


def _refuse_used(repo: Repository, command: Command, options: Namespace) -> None:
    """Raise BranchInUseError if a living process holds a branch that this would move.

    Creating a branch or a tag moves none.
    """
    if command.name in ("branch", "tag"):
        touched = [options.name] if command.name == "branch" else []
    else:
        touched = [repo.head().branch]
    holders = find_living_holders(repo)
    for branch in touched:
        if branch in holders:
            forced = _FORCED[command.name in ("checkout", "switch")]
            raise BranchInUseError(branch, str(holders[branch]), _IN_A_NOTEBOOK.format(command.name, forced))


def _print(result: Result, *, as_json: bool) -> int:
    print(_spell(result, as_json=as_json), flush=True)
    return _DONE if result.ok else _FAILED


def _spell(result: Result, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(result.to_json(), ensure_ascii=False, indent=2)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return result.to_text(width, colour=colours_wanted(sys.stdout))


# -- `agent-kernel install`: make the kernel “Python 3 (Agent)” known to Jupyter, with this very interpreter
#
# The kernel that comes in the wheel finds `python` on the path of whoever starts it; a Jupyter in another environment
# needs the interpreter's absolute path.

_NAME = "agent-kernel"


def spec() -> dict[str, object]:
    """The kernelspec: ipykernel with the extension loaded from the first cell on."""
    start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--ext=agent_kernel"]
    return {
        "argv": start,
        "display_name": "Python 3 (Agent)",
        "language": "python",
        "metadata": {"debugger": True},
    }


def install(words: Sequence[str]) -> Lines:
    """Write the kernelspec and say where it went.

    Raises:
        Helped: help was asked for.
        UsageProblem: the words do not fit.
        StoreReadOnlyError: nothing can be written there.
    """
    parser = Parser("agent-kernel install", "Make the kernel “Python 3 (Agent)” known to Jupyter.")
    one = parser.one_of()
    parser.flag("--user", help="for this user (without an option: for this environment)", group=one)
    parser.value("--prefix", metavar="PATH", help="for the environment at PATH", kind="place", group=one)
    options = parser.read(words)
    folder = _kernels(options.user, options.prefix) / _NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.json").write_text(json.dumps(spec(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreReadOnlyError(str(folder), f"{error.strerror or error}; try --user") from error
    return Lines((f"Installed the kernel “Python 3 (Agent)” in {folder}",), {"kernel": _NAME, "folder": str(folder)})


def _kernels(user: bool, prefix: str | None) -> Path:
    if user:
        from jupyter_core.paths import jupyter_data_dir

        return Path(jupyter_data_dir()) / "kernels"
    return Path(prefix or sys.prefix).expanduser() / "share" / "jupyter" / "kernels"
