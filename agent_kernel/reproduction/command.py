"""`agent-kernel reproduce PLACE`: run a history, or a notebook, again and compare."""

from __future__ import annotations

import shutil
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from agent_kernel.commands import describe
from agent_kernel.commands.places import find_store, store_path_of
from agent_kernel.commands.scope import Parser, UsageProblem, amount
from agent_kernel.errors import NotAStoreError, StoreReadOnlyError
from agent_kernel.repository import hex_of
from agent_kernel.reproduction.assessment import Settings, assess
from agent_kernel.reproduction.comparison import Side
from agent_kernel.reproduction.equality import Tolerance
from agent_kernel.reproduction.line import Brought, Line, LineCell, read_document, read_line
from agent_kernel.reproduction.report import Reproduction
from agent_kernel.reproduction.runner import Rerun, rerun
from agent_kernel.reproduction.selection import read_changed
from agent_kernel.session import Repository, trust
from agent_kernel.text import clean, plural

if TYPE_CHECKING:
    from agent_kernel.commands.scope import Progress

__all__ = ["parser", "reproduce"]

_HELP: Final = "Run a history again in a fresh kernel, and say which variables and outputs come out the same."
_TIMEOUT_S: Final = 600.0


def parser() -> Parser:
    parser = Parser("agent-kernel reproduce", _HELP)
    parser.takes(
        "place", "place", optional=False, help="a store, a bundle, or a notebook; one without a store is run twice"
    )
    parser.value(
        "--ref", metavar="REF", kind="ref", help="the commit to reproduce (default: the head of the branch used last)"
    )
    what = parser.one_of()
    parser.flag("--document", help="run the cells of the notebook's file twice, even if it has a store", group=what)
    parser.flag(
        "--changed", help="run only cells that you edited since they ran, and those that use what they set", group=what
    )
    parser.value(
        "--timeout",
        metavar="SECONDS",
        convert=_seconds,
        default=_TIMEOUT_S,
        help="that each cell may take (default: 600)",
    )
    parser.value(
        "--rtol",
        metavar="NUMBER",
        convert=_tolerance,
        default=1e-9,
        help="relative tolerance of numbers (default: 1e-9)",
    )
    parser.value(
        "--atol", metavar="NUMBER", convert=_tolerance, default=0.0, help="absolute tolerance of numbers (default: 0)"
    )
    parser.value("--python", metavar="PATH", kind="place", help="run the cells with this interpreter")
    parser.value(
        "--in",
        "--cwd",
        metavar="FOLDER",
        kind="place",
        help="run the cells in this folder (default: that of the notebook, or where the history was made on this machine; else a new one)",
    )
    parser.flag("--only-state", "--no-outputs", help="compare variables, and not what cells showed")
    parser.value("--html", metavar="FILE", kind="place", help="write the report as a page, too")
    parser.value("--badge", metavar="FILE", kind="place", help="write an SVG badge, and print the line for a README")
    parser.flag("--json", help="print the report as JSON")
    parser.explains(
        "The cells run, with all that they do outside the notebook: files that they write are written again, and a bundle\n"
        "writes them into a new folder, which is deleted at the end. The status is 0 if something is reproduced, nothing\n"
        "differs and nothing failed, else 1."
    )
    return parser


def _seconds(text: str) -> float:
    seconds = amount(text, "a number of seconds")
    if not seconds:
        raise ArgumentTypeError("a cell needs some time: give more than 0 seconds")
    return seconds


def _tolerance(text: str) -> float:
    return amount(text, "a tolerance")


def reproduce(options: Namespace, progress: Progress | None = None, notes: Sequence[str] = ()) -> Reproduction:
    """Run it again and compare.

    Args:
        notes: what else its reader should know.

    Raises:
        UsageProblem: the options do not fit what is there.
        AgentKernelError: there is no history, or no kernel starts.
    """
    began_s = time.monotonic()
    plan = _plan(options, progress)
    notebook = Path(options.place).expanduser()
    is_notebook = notebook.suffix == ".ipynb"
    store = None if is_notebook and options.document else _find_history(options.place, notebook, is_notebook)
    if store is None:
        if options.changed:
            raise UsageProblem("--changed compares a notebook's file with its history, and there is no history")
        if options.ref:
            raise UsageProblem("--ref needs a history, and the cells of a document have none")
        found = _of_document(plan, notebook)
    elif options.changed:
        if not is_notebook:
            raise UsageProblem("--changed compares a notebook's file with its history: name the notebook")
        found = _of_changed(plan, store, notebook, options.ref)
    else:
        found = _of_history(plan, store, notebook if is_notebook else None, options.ref)
    found = replace(found, source=options.place, notes=(*notes, *found.notes), took_s=time.monotonic() - began_s)
    return _write(found, options)


def _find_history(text: str, notebook: Path, is_notebook: bool) -> str | None:
    """The store; None: a notebook that has none."""
    try:
        return find_store(text)
    except NotAStoreError:
        if is_notebook and notebook.is_file() and not store_path_of(notebook.absolute()).exists():
            return None
        raise


def _write(found: Reproduction, options: Namespace) -> Reproduction:
    if options.badge:
        path = Path(options.badge).expanduser()
        _write_file(path, found.to_badge())
        found = replace(found, badge=f"![{found.headline}]({path.as_posix()})")
    if options.html:
        _write_file(Path(options.html).expanduser(), found.to_page())
    return found


def _write_file(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreReadOnlyError(str(path), error.strerror or str(error)) from error


# -- what is run, and what is compared with what


@dataclass(frozen=True)
class _Plan:
    settings: Settings
    folder: Path | None
    progress: Progress | None

    @contextmanager
    def choose_folder(
        self, notebook: Path | None, repo: Repository | None = None, line: Line | None = None
    ) -> Generator[Path]:
        """Where the cells run; one that is made for them is gone afterwards.

        A folder that somebody else's history names is not used: here it may be yours, with your files.
        """
        if self.folder is not None:
            yield self.folder
        elif notebook is not None:
            yield notebook.absolute().parent
        elif repo is not None and line is not None and Path(line.cwd or "?").is_dir() and _is_own_work(repo, line):
            yield Path(line.cwd)
        else:
            with TemporaryDirectory(prefix="agent-kernel-", ignore_cleanup_errors=True) as made:
                yield Path(made).resolve()

    def rerun(
        self,
        cells: Sequence[LineCell],
        cwd: Path,
        doing: str = "running cells",
        origin: Repository | None = None,
        commands: Sequence[str] = (),
        history: str = "",
        brought: Sequence[Brought] = (),
    ) -> AbstractContextManager[Rerun]:
        progress = self.progress
        return rerun(
            cells,
            cwd=cwd,
            python=self.settings.python,
            timeout_s=self.settings.timeout_s,
            origin=origin,
            commands=commands,
            history=history,
            brought=brought,
            progress=(lambda _done: None) if progress is None else (lambda done: progress(doing, done, len(cells))),
        )


def _plan(options: Namespace, progress: Progress | None) -> _Plan:
    python = sys.executable if options.python is None else shutil.which(str(Path(options.python).expanduser()))
    if python is None:
        raise UsageProblem(f"{options.python} is no interpreter that can be run")
    named = vars(options)["in"]
    folder = None if named is None else Path(named).expanduser().absolute()
    if folder is not None and not folder.is_dir():
        raise UsageProblem(f"{named} is not a folder")
    tolerance = Tolerance(options.rtol, options.atol)
    settings = Settings(tolerance, not options.only_state, options.timeout, python)
    return _Plan(settings, folder, progress)


def _is_own_work(repo: Repository, line: Line) -> bool:
    """Whether you trust the store, and its own sessions made the cells: those of a bundle that was opened were made elsewhere."""
    sessions = repo.heads()
    return trust.is_trusted(repo) and all(cell.record is None or cell.record.session in sessions for cell in line.cells)


def _of_history(plan: _Plan, store: str, notebook: Path | None, ref: str | None) -> Reproduction:
    with closing(Repository.open(store, create=False)) as repo:
        line = read_line(repo, ref)
        assert line.tip is not None
        run = list(line.run)
        on = f" on {clean(line.branch)}" if line.branch else ""
        what = f"{plural(len(run), 'cell')}{on} run again, up to {describe.label(line.tip, repo.commit_at(line.tip))}"
        is_trusted = trust.is_trusted(repo)
        brought = line.all_brought if is_trusted else ()
        with (
            plan.choose_folder(notebook, repo, line) as cwd,
            plan.rerun(run, cwd, history=repo.store.url, brought=brought) as again,
        ):
            return assess(line, Side(repo, loads=is_trusted), again, cwd, plan.settings, what)


def _of_changed(plan: _Plan, store: str, notebook: Path, ref: str | None) -> Reproduction:
    with closing(Repository.open(store, create=False)) as repo:
        whole, document = read_line(repo, ref), read_document(notebook)
        selection = read_changed(whole, document, repo)
        line = selection.line
        if not line.cells and not selection.is_edited:
            return Reproduction("", "all cells of the file are as they ran", "no kernel", (), (), is_edited=False)
        trust.require(repo)
        what = f"{len(line.cells)} of {plural(len(document.cells), 'cell')}, whose code or inputs may have changed, run again"
        start = [] if line.start is None else [f"rollback {hex_of(line.start)}"]
        with (
            plan.choose_folder(notebook) as cwd,
            plan.rerun(line.cells, cwd, origin=repo, commands=start, brought=line.all_brought) as again,
        ):
            return assess(line, Side(repo), again, cwd, plan.settings, what)


def _of_document(plan: _Plan, notebook: Path) -> Reproduction:
    line = read_document(notebook)
    if not line.cells:
        raise UsageProblem(f"{notebook} has no code to run")
    with (
        plan.choose_folder(notebook) as cwd,
        plan.rerun(line.cells, cwd) as first,
        plan.rerun(line.cells, cwd, "running cells again") as second,
    ):
        cells = tuple(_as_recorded(cell, first) for cell in line.cells)
        recorded = replace(line, cells=cells, tip=first.head)
        what = f"{plural(len(cells), 'cell')} of the notebook's file, run twice"
        return assess(recorded, Side(first.repo, first.secret), second, cwd, plan.settings, what, first)


def _as_recorded(cell: LineCell, first: Rerun) -> LineCell:
    id, commit = first.commits.get(cell.position, (None, None))
    return replace(cell, commit=id, record=commit)
