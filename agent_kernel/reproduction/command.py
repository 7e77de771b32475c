"""`agent-kernel reproduce PLACE`: run a history, or a notebook, again and compare."""

from __future__ import annotations

import shutil
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_kernel.commands import describe
from agent_kernel.commands.diff import environment_changes, environment_of
from agent_kernel.commands.places import find_store, store_beside
from agent_kernel.commands.scope import Parser, UsageProblem, amount
from agent_kernel.commands.text import clean, list_names, plural
from agent_kernel.errors import NotAStoreError, StoreReadOnlyError
from agent_kernel.repository import hex_of
from agent_kernel.reproduction.causes import Cause, CellCauses, Tracer, cause_of_failure
from agent_kernel.reproduction.code import Code, names_set
from agent_kernel.reproduction.comparison import (
    Side,
    StateComparison,
    Verdict,
    compare_outputs,
    shown_by,
    shown_in_file,
)
from agent_kernel.reproduction.equality import Tolerance
from agent_kernel.reproduction.line import Line, LineCell, read_changed, read_document, read_line
from agent_kernel.reproduction.report import CellReport, Reproduction, VariableReport
from agent_kernel.reproduction.runner import Ran, Rerun, rerun
from agent_kernel.session import Repository, trust

if TYPE_CHECKING:
    from agent_kernel.commands.scope import Progress
    from agent_kernel.repository import Commit, ObjectId

__all__ = ["HELP", "parser", "reproduce"]

HELP: Final = "run a history again in a fresh kernel, and say which variables and outputs come out the same"
_TIMEOUT_S: Final = 600.0
_DISTRIBUTIONS: Final = {
    "sklearn": "scikit-learn",
    "cv2": "opencv-python",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "bs4": "beautifulsoup4",
}


def parser() -> Parser:
    parser = Parser("agent-kernel reproduce", f"{HELP[0].upper()}{HELP[1:]}.")
    parser.takes("place", "place", optional=False, help="a store, or a notebook; one without a store is run twice")
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
    parser.value("--cwd", metavar="PATH", kind="place", help="run the cells in this folder")
    parser.flag("--only-state", "--no-outputs", help="compare variables, and not what cells showed")
    parser.value("--html", metavar="FILE", kind="place", help="write the report as a page, too")
    parser.value("--badge", metavar="FILE", kind="place", help="write an SVG badge, and print the line for a README")
    parser.flag("--json", help="print the report as JSON")
    parser.explains(
        "The cells run, with all that they do outside the notebook: files that they write are written again.\n"
        "The status is 0 if nothing differs and nothing failed, else 1."
    )
    return parser


def _seconds(text: str) -> float:
    seconds = amount(text, "a number of seconds")
    if not seconds:
        raise ArgumentTypeError("a cell needs some time: give more than 0 seconds")
    return seconds


def _tolerance(text: str) -> float:
    return amount(text, "a tolerance")


def reproduce(options: Namespace, progress: Progress | None = None) -> Reproduction:
    """Run it again and compare.

    Raises:
        UsageProblem: the options do not fit what is there.
        AgentKernelError: there is no history, or no kernel starts.
    """
    began_s = time.monotonic()
    plan = _plan(options, progress)
    notebook = Path(options.place).expanduser()
    is_notebook = notebook.suffix == ".ipynb"
    place = None if is_notebook and options.document else _find_history(options.place, notebook, is_notebook)
    if place is None:
        if options.changed:
            raise UsageProblem("--changed compares a notebook's file with its history, and there is no history")
        if options.ref:
            raise UsageProblem("--ref needs a history, and the cells of a document have none")
        found = _of_document(plan, notebook)
    elif options.changed:
        if not is_notebook:
            raise UsageProblem("--changed compares a notebook's file with its history: name the notebook")
        found = _of_changed(plan, place, notebook, options.ref)
    else:
        found = _of_history(plan, place, notebook if is_notebook else None, options.ref)
    found = replace(found, place=options.place, took_s=time.monotonic() - began_s)
    return _write(found, options)


def _find_history(text: str, notebook: Path, is_notebook: bool) -> str | None:
    """The store; None: a notebook that has none."""
    try:
        return find_store(text)
    except NotAStoreError:
        if is_notebook and notebook.is_file() and not store_beside(notebook.absolute()).exists():
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
    tolerance: Tolerance
    timeout_s: float
    python: str
    cwd: str | None
    outputs: bool
    progress: Progress | None

    def report(self, doing: str, total: int) -> Callable[[int], None]:
        if self.progress is None:
            return lambda _done: None
        progress = self.progress
        return lambda done: progress(doing, done, total)


def _plan(options: Namespace, progress: Progress | None) -> _Plan:
    python = sys.executable if options.python is None else shutil.which(str(Path(options.python).expanduser()))
    if python is None:
        raise UsageProblem(f"{options.python} is no interpreter that can be run")
    if options.cwd is not None and not Path(options.cwd).expanduser().is_dir():
        raise UsageProblem(f"{options.cwd} is not a folder")
    tolerance = Tolerance(options.rtol, options.atol)
    return _Plan(tolerance, options.timeout, python, options.cwd, not options.only_state, progress)


def _folder(plan: _Plan, recorded: str, notebook: Path | None) -> Path:
    """Where the cells run: where they did if that is there, else in the notebook's folder."""
    if plan.cwd is not None:
        return Path(plan.cwd).expanduser().absolute()
    if recorded and Path(recorded).is_dir():
        return Path(recorded)
    return notebook.absolute().parent if notebook is not None else Path.cwd()


def _of_history(plan: _Plan, place: str, notebook: Path | None, ref: str | None) -> Reproduction:
    with closing(Repository.open(place, create=False)) as repo, ExitStack() as stack:
        line = read_line(repo, ref)
        run = list(line.run)
        cwd = _folder(plan, line.cwd, notebook)
        again = stack.enter_context(
            rerun(
                run,
                cwd=cwd,
                python=plan.python,
                timeout_s=plan.timeout_s,
                progress=plan.report("running cells", len(run)),
            )
        )
        comparison = _Comparison(plan, line, Side(repo, loads=trust.is_trusted(repo)), again, cwd)
        on = f" on {clean(line.branch)}" if line.branch else ""
        assert line.tip is not None
        what = f"{plural(len(run), 'cell')}{on} run again, up to {describe.label(line.tip, repo.commit_at(line.tip))}"
        return comparison.report(what)


def _of_changed(plan: _Plan, place: str, notebook: Path, ref: str | None) -> Reproduction:
    with closing(Repository.open(place, create=False)) as repo, ExitStack() as stack:
        whole, document = read_line(repo, ref), read_document(notebook)
        line = read_changed(whole, document)
        what = f"{len(line.cells)} of {plural(len(document.cells), 'cell')}, whose code or inputs changed, run again"
        if not line.cells:
            return Reproduction("", "no cell of the file was edited since it ran", "nothing", (), ())
        trust.require(repo)
        cwd = _folder(plan, line.cwd, notebook)
        report = plan.report("running cells", len(line.cells))
        again = stack.enter_context(
            rerun(
                line.cells,
                cwd=cwd,
                python=plan.python,
                timeout_s=plan.timeout_s,
                origin=repo,
                commands=_commands_to_start(repo, line),
                progress=report,
            )
        )
        return _Comparison(plan, line, Side(repo), again, cwd).report(what)


def _commands_to_start(repo: Repository, line: Line) -> list[str]:
    """Load the state before the first cell, and then what the cells that are not run have set since."""
    assert line.tip is not None
    found = [] if line.start is None else [f"rollback {hex_of(line.start)}"]
    tree = repo.tree_at(line.tip)
    since = (name for name, _, _ in tree.diff(repo.tree_at(line.start)))
    names = [name for name in since if name.isidentifier() and name not in line.moved and name in tree]
    return [*found, f"checkout {hex_of(line.tip)} -- {' '.join(names)}"] if names else found


def _of_document(plan: _Plan, notebook: Path) -> Reproduction:
    line = read_document(notebook)
    if not line.cells:
        raise UsageProblem(f"{notebook} has no code to run")
    cwd = _folder(plan, line.cwd, notebook)
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(
                rerun(
                    line.cells,
                    cwd=cwd,
                    python=plan.python,
                    timeout_s=plan.timeout_s,
                    progress=plan.report(doing, len(line.cells)),
                )
            )
            for doing in ("running cells", "running cells again")
        )
        cells = tuple(_as_recorded(cell, first) for cell in line.cells)
        recorded = replace(line, cells=cells, tip=first.head)
        comparison = _Comparison(plan, recorded, Side(first.repo, first.secret), second, cwd, first)
        return comparison.report(f"{plural(len(cells), 'cell')} of the notebook's file, run twice")


def _as_recorded(cell: LineCell, first: Rerun) -> LineCell:
    id, commit = first.commits.get(cell.position, (None, None))
    return replace(cell, commit=id, record=commit)


_EDITED: Final = (Cause("code", "its code was edited since it ran"),)


class _Comparison:
    """Goes through the cells of a line and says how each came out."""

    def __init__(
        self, plan: _Plan, line: Line, recorded: Side, again: Rerun, cwd: Path, first: Rerun | None = None
    ) -> None:
        self._plan, self._line, self._again, self._first = plan, line, again, first
        self._recorded = recorded
        fresh = Side(again.repo, again.secret)
        self._states = StateComparison(recorded, fresh, plan.tolerance, plan.python, cwd)
        self._tracer = Tracer(cwd)
        self._set_by = _names_set_by(line)
        self._keeps_outputs = any(
            cell.record is not None and cell.record.cell is not None and cell.record.cell.outputs for cell in line.cells
        )
        self._environment = self._find_environment()
        self._causes: dict[str, tuple[Cause, ...]] = {}  # by name, of the cell that last set it

    def report(self, what: str) -> Reproduction:
        verdicts, last = self._compare_states()
        cells = tuple(self._cell(cell, verdicts.get(cell.position, {})) for cell in self._line.cells)
        return Reproduction(
            "", what, self._python(), cells, self._variables(last), self._environment, tuple(self._notes())
        )

    def _python(self) -> str:
        head = self._again.head
        found = environment_of(self._again.repo, None if head is None else self._again.repo.commit_at(head))
        return f"Python {found.python}" if found is not None else self._plan.python

    def _notes(self) -> list[str]:
        notes: list[str] = []
        if self._again.ended:
            notes.append(f"{self._again.ended[0].upper()}{self._again.ended[1:]}; the cells after it were not run.")
        if not self._recorded.loads:
            notes.append(
                "The store is not trusted: none of its values is loaded, and some cannot be compared without that."
            )
        if self._line.brought:
            names = list_names(list(self._line.brought))
            notes.append(f"Not made by a cell of this line, so not made again: {names}.")
        if self._plan.outputs and not self._keeps_outputs and self._first is None:
            notes.append("The history keeps no outputs, so they are not compared.")
        return notes

    def _find_environment(self) -> tuple[tuple[str, str, str, str], ...]:
        if self._line.tip is None or self._again.head is None:
            return ()
        commits = self._recorded.repo.commit_at(self._line.tip), self._again.repo.commit_at(self._again.head)
        before, after = environment_of(self._recorded.repo, commits[0]), environment_of(self._again.repo, commits[1])
        return tuple(environment_changes(before, after)) if before is not None and after is not None else ()

    def _compare_states(self) -> tuple[dict[int, dict[str, Verdict]], dict[str, Verdict]]:
        """The variables that each cell changed on either side, and all of them at the end."""
        names: dict[tuple[ObjectId, ObjectId], list[str]] = {}
        of_cell: dict[int, tuple[tuple[ObjectId, ObjectId], list[str]]] = {}
        for cell in self._line.cells:
            again = self._again.commits.get(cell.position)
            if cell.commit is None or cell.record is None or again is None:
                continue
            pair = cell.commit, again[0]
            changed = _changed(cell.record, again[1])
            names.setdefault(pair, []).extend(changed)
            of_cell[cell.position] = pair, changed
        end: tuple[ObjectId, ObjectId] | None = None
        if self._line.tip is not None and self._again.head is not None and not self._again.ended:
            end = self._line.tip, self._again.head
            names.setdefault(end, []).extend(self._names_at(*end))
        found = self._states.compare(names, names)
        cells = {
            position: {name: found[pair][name] for name in changed} for position, (pair, changed) in of_cell.items()
        }
        return cells, {} if end is None else {name: found[end][name] for name in self._names_at(*end)}

    def _names_at(self, tip: ObjectId, head: ObjectId) -> list[str]:
        trees = self._recorded.repo.tree_at(tip), self._again.repo.tree_at(head)
        return sorted({name for tree in trees for name in tree.names() if not name.startswith("\0")})

    def _cell(self, cell: LineCell, verdicts: Mapping[str, Verdict]) -> CellReport:
        told = CellReport(cell.position, cell.number, cell.source)
        if cell.skipped:
            return replace(told, note=f"not run: {cell.skipped}", is_run=False)
        ran = self._again.ran.get(cell.position)
        causes = self._tracer.look_at(cell)
        if ran is None:
            self._tracer.differs((change.name for change in cell.record.changed) if cell.record else (), cell.position)
            return replace(told, note=f"not run: {self._again.ended}", is_run=False)
        failure = self._failure(cell, ran)
        if cell.commit is None and self._first is None:
            self._causes |= dict.fromkeys(
                names_set(Code(cell.source).tree), (Cause("code", f"cell {cell.position} is new"),)
            )
            return replace(
                told, failure=failure, note="it is new: the history has no run of it", duration_s=ran.duration_s
            )
        variables = tuple(
            self._variable(cell, name, verdict, causes, failed=failure is not None)
            for name, verdict in verdicts.items()
        )
        if failure is not None and cell.record is not None:
            self._tracer.differs((change.name for change in cell.record.changed), cell.position)
        shown, shown_causes = self._outputs(cell, causes) if self._plan.outputs and failure is None else (None, ())
        saved, saved_causes = self._saved(cell, causes) if self._plan.outputs and failure is None else (None, ())
        return replace(
            told,
            failure=failure,
            variables=variables,
            shown=shown,
            saved=saved,
            causes=shown_causes,
            saved_causes=saved_causes,
            duration_s=ran.duration_s,
        )

    def _failure(self, cell: LineCell, ran: Ran) -> Cause | None:
        first = self._first.ran.get(cell.position) if self._first is not None else None
        if first is not None and first.status != "ok" and ran.status == "ok":
            return replace(self._cause_of(cell, first), text=f"only the first time: {self._cause_of(cell, first).text}")
        if ran.status == "ok" or (ran.status == "error" and ran.error in _expected_errors(cell)):
            return None
        return self._cause_of(cell, ran)

    def _cause_of(self, cell: LineCell, ran: Ran) -> Cause:
        later = {
            name for name, positions in self._set_by.items() if any(position > cell.position for position in positions)
        }
        cause = cause_of_failure(ran, cell, later, self._line.brought, self._plan.timeout_s)
        if cause.kind == "hidden state":
            name = cause.text.split()[1].rstrip(",")
            if name in self._tracer.differing:
                return Cause(
                    "follows", f"reads {name}, which cell {self._tracer.differing[name]} did not set this time"
                )
        return cause

    def _variable(
        self, cell: LineCell, name: str, verdict: Verdict, causes: CellCauses, *, failed: bool
    ) -> VariableReport:
        if verdict.outcome == "same":
            self._tracer.is_same([name])
            self._causes.pop(name, None)
            return VariableReport(name, verdict, (), cell.position)
        found: tuple[Cause, ...] = ()
        if verdict.outcome != "not comparable":
            if failed:
                found = (Cause("follows", f"cell {cell.position} failed"),)
            else:
                found = _EDITED if cell.is_edited else causes.of_names.get(name) or self._without_evidence(cell, causes)
        if verdict.outcome == "different":
            self._tracer.differing.pop(name, None)
            self._tracer.differs([name], cell.position)
        self._causes[name] = found
        return VariableReport(name, verdict, found, cell.position)

    def _without_evidence(self, cell: LineCell, causes: CellCauses) -> tuple[Cause, ...]:
        """Where the code that set it says nothing: the rest of the cell, or what it ran on."""
        if causes.of_outputs:
            return causes.of_outputs
        modules = {_DISTRIBUTIONS.get(one, one).lower().replace("_", "-") for one in self._tracer.modules_of(cell)}
        changed = [(name, old, new) for _, name, old, new in self._environment if name in modules or name == "python"]
        if changed:
            return tuple(
                Cause("environment", f"another version: {name} {old or 'none'} → {new or 'none'}")
                for name, old, new in changed
            )
        return (Cause("unknown", "the code does not show why"),)

    def _outputs(self, cell: LineCell, causes: CellCauses) -> tuple[Verdict | None, tuple[Cause, ...]]:
        again = self._again.commits.get(cell.position)
        if cell.record is None or again is None or (self._first is None and not self._keeps_outputs):
            return None, ()
        old, new = shown_by(self._recorded.repo, cell.record), shown_by(self._again.repo, again[1])
        if not old and not new:
            return None, ()
        verdict = compare_outputs(old or [], new or [], self._plan.tolerance, cell.source)
        return verdict, self._causes_of_outputs(cell, verdict, causes)

    def _causes_of_outputs(self, cell: LineCell, verdict: Verdict, causes: CellCauses) -> tuple[Cause, ...]:
        if verdict.outcome != "different":
            return ()
        return _EDITED if cell.is_edited else causes.of_outputs or self._without_evidence(cell, causes)

    def _saved(self, cell: LineCell, causes: CellCauses) -> tuple[Verdict | None, tuple[Cause, ...]]:
        """What the file has, against what the first run showed."""
        if cell.saved is None or cell.record is None or (cell.number is None and not cell.saved):
            return None, ()
        old, new = shown_in_file(cell.saved), shown_by(self._recorded.repo, cell.record)
        if not old and not new:
            return None, ()
        verdict = compare_outputs(old, new or [], self._plan.tolerance, cell.source)
        if verdict.outcome != "different":
            return verdict, ()
        order = _order_of(self._line, cell)
        return verdict, order or self._causes_of_outputs(cell, verdict, causes)

    def _variables(self, last: Mapping[str, Verdict]) -> tuple[VariableReport, ...]:
        found: list[VariableReport] = []
        for name, verdict in last.items():
            causes = self._causes.get(name, ()) if verdict.outcome != "same" else ()
            if verdict.outcome == "different" and name in self._line.brought:
                causes = (Cause("brought", f"it came from {self._line.brought[name]}, and from no cell"),)
            found.append(
                VariableReport(
                    name, verdict, causes, self._tracer.differing.get(name, 0) if verdict.outcome != "same" else 0
                )
            )
        return tuple(found)


def _changed(old: Commit, new: Commit) -> list[str]:
    return list(
        dict.fromkeys(
            change.name for commit in (old, new) for change in commit.changed if not change.name.startswith("\0")
        )
    )


def _names_set_by(line: Line) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for cell in line.cells:
        names = names_set(Code(cell.source).tree)
        if cell.record is not None:
            names |= {change.name for change in cell.record.changed if change.how != "-"}
        for name in names:
            found.setdefault(name, []).append(cell.position)
    return found


def _expected_errors(cell: LineCell) -> set[str]:
    """The errors with which it ended before, so that ending so again is no failure."""
    found = {output.name for output in cell.saved or () if output.kind == "error"}
    if cell.saved is None and cell.record is not None and cell.record.status != "ok" and cell.record.cell is not None:
        found.add(cell.record.cell.error.partition(":")[0].strip())
    return found


def _order_of(line: Line, cell: LineCell) -> tuple[Cause, ...]:
    """Whether the file's cells ran in another order than they stand in when it was saved."""
    if cell.number is None:
        return (Cause("hidden state", "the file does not say when the cell ran"),)
    before = [one for one in line.cells if one.position < cell.position and one.number is not None]
    later = [one for one in before if one.number is not None and one.number > cell.number]
    if later:
        return (Cause("hidden state", f"when the file was saved, [{later[0].number}] above it had run after it"),)
    return ()
