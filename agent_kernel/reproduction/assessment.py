"""`agent-kernel reproduce PLACE`: run a line again, and say of each cell, variable and output how it came out, and why."""

from __future__ import annotations

import shutil
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from agent_kernel.cells.cell_code import read_code
from agent_kernel.commands import describe
from agent_kernel.commands.describe import Block, Json, Result, Style, Table
from agent_kernel.commands.places import find_store, store_path_of
from agent_kernel.commands.scope import Parser, UsageProblem, amount
from agent_kernel.commands.show import environment_changes, environment_of
from agent_kernel.errors import NotAStoreError, StoreReadOnlyError
from agent_kernel.repository import hex_of
from agent_kernel.reproduction.causes import (
    Cause,
    CellCauses,
    Code,
    Tracer,
    cause_of_failure,
    imports,
    names_set,
    read_changed,
)
from agent_kernel.reproduction.comparison import (
    Outcome,
    Side,
    StateComparison,
    Verdict,
    compare_outputs,
    outputs_of_commit,
    outputs_of_file,
    read_manifest_list,
    worst,
)
from agent_kernel.reproduction.equality import Tolerance
from agent_kernel.reproduction.line import Brought, Line, LineCell, Rerun, read_document, read_line, rerun
from agent_kernel.session import Repository, history, trust
from agent_kernel.text import clean, cut, duration, list_names, plural
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.commands.scope import Progress
    from agent_kernel.repository import Commit, ObjectId
    from agent_kernel.reproduction.line import Ran


# -- what came of it, as text, as JSON, as a page of its own, and as a badge for a README


_OUTCOMES: Final[tuple[Outcome, ...]] = ("same", "equal within tolerance", "different", "failed", "not comparable")
_STYLES: Final[dict[Outcome, Style]] = {
    "same": "quiet",
    "equal within tolerance": "quiet",
    "different": "changed",
    "failed": "removed",
    "not comparable": "ref",
}
_CLASSES: Final[dict[Outcome, str]] = {
    "same": "same",
    "equal within tolerance": "equal",
    "different": "different",
    "failed": "failed",
    "not comparable": "unknown",
}
_EQUAL: Final = ("same", "equal within tolerance")
_IDLE: Final = "changed nothing"  # why a cell was not run
_SOURCE: Final = 44
_MOST_CAUSES: Final = 3
_MOST_PACKAGES: Final = 12


@dataclass(frozen=True)
class VariableReport:
    """One variable, after one cell or at the end. `position`: the cell from which on it is so; 0: none is known."""

    name: str
    verdict: Verdict
    causes: tuple[Cause, ...] = ()
    position: int = 0

    def to_json(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "cell": self.position or None,
            **_verdict_json(self.verdict),
            "why": _causes_json(self.causes),
        }


@dataclass(frozen=True)
class CellReport:
    """One cell of the line.

    Attributes:
        failure: why it failed; None if it did not, or did so before: then `as_before` says it.
        note: why it was not run, or not compared.
        output: how what it showed came out; `saved`: against what the notebook's file has.
    """

    position: int
    number: int | None
    source: str
    failure: Cause | None = None
    as_before: str = ""
    note: str = ""
    is_run: bool = True
    variables: tuple[VariableReport, ...] = ()
    output: Verdict | None = None
    saved: Verdict | None = None
    causes: tuple[Cause, ...] = ()  # of what it showed
    saved_causes: tuple[Cause, ...] = ()
    duration_s: float = 0.0

    @property
    def outcome(self) -> Outcome:
        if self.failure is not None:
            return "failed"
        verdicts = [*(one.verdict for one in self.variables), *filter(None, (self.output, self.saved))]
        return worst(one.outcome for one in verdicts) if not self.note else "not comparable"

    @property
    def word(self) -> str:
        """The outcome, as it is shown."""
        if not self.is_run:
            return "not run"
        return "failed as before" if self.as_before and self.outcome in _EQUAL else self.outcome

    @property
    def label(self) -> str:
        """Its place on the line, by which causes name it, and the prompt that it had."""
        return f"cell {self.position}" + (f" [{self.number}]" if self.number is not None else "")

    def to_json(self) -> dict[str, Json]:
        return {
            "cell": self.position,
            "number": self.number,
            "source": self.source,
            "outcome": self.word if self.is_run else "skipped",
            "note": self.note or self.as_before or None,
            "failure": None if self.failure is None else _cause_json(self.failure),
            "variables": [one.to_json() for one in self.variables],
            "outputs": None
            if self.output is None
            else {**_verdict_json(self.output), "why": _causes_json(self.causes)},
            "saved_outputs": None
            if self.saved is None
            else {**_verdict_json(self.saved), "why": _causes_json(self.saved_causes)},
            "duration_s": round(self.duration_s, 3),
        }


def _verdict_json(verdict: Verdict) -> dict[str, Json]:
    return {"outcome": verdict.outcome, "details": list(verdict.details), "reason": verdict.reason or None}


def _cause_json(cause: Cause) -> dict[str, Json]:
    return {"kind": cause.kind, "text": cause.text}


def _causes_json(causes: Iterable[Cause]) -> list[Json]:
    return [_cause_json(cause) for cause in causes]


@dataclass(frozen=True)
class Reproduction(Result):
    """All of it.

    Attributes:
        source: what was reproduced, as it was named.
        what: where its cells come from, in words.
        python: what ran them.
        folder: where they ran.
        is_edited: False: only what was edited since it ran was wanted, and nothing was.
        environment: what is another version now: sign, name, before, after.
        notes: what a reader should know before they trust the rest.
        badge: a line for a README, if one was wanted.
    """

    source: str
    what: str
    python: str
    cells: tuple[CellReport, ...]
    variables: tuple[VariableReport, ...]
    environment: tuple[tuple[str, str, str, str], ...] = ()
    notes: tuple[str, ...] = ()
    took_s: float = 0.0
    badge: str = ""
    folder: str = ""
    is_edited: bool = True

    @property
    def ok(self) -> bool:
        """Whether something is reproduced, nothing differs and nothing failed."""
        found = [cell.outcome for cell in self.cells] + [one.verdict.outcome for one in self.variables]
        return not {"different", "failed"} & set(found) and not self.nothing

    @property
    def nothing(self) -> str:
        """Says that nothing is reproduced though there are cells; "": something is, or what differs says enough."""
        run = [cell for cell in self.cells if cell.is_run]
        if not self.cells:
            return "" if not self.is_edited else "Nothing is reproduced: no cell uses what you edited, so none was run."
        if not run:
            return "Nothing is reproduced: no cell was run."
        outcomes_of_run = {cell.outcome for cell in run if not cell.as_before} - {"not comparable"}
        if all(cell.as_before for cell in run):
            return "Nothing is reproduced: every cell fails, as it did before."
        outcomes = {one.verdict.outcome for one in self.variables}
        if outcomes_of_run - {"same"} or (outcomes_of_run and (self._compared or outcomes != {"not comparable"})):
            return ""
        return "Nothing is reproduced: no cell can be compared."

    @property
    def _compared(self) -> list[Outcome]:
        """What was compared after each cell."""
        verdicts = [one.verdict for cell in self.cells for one in cell.variables]
        verdicts += [one for cell in self.cells for one in (cell.output, cell.saved) if one is not None]
        return [one.outcome for one in verdicts if one.outcome != "not comparable"]

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, with what follows from the cells."""
        skipped = [str(cell.position) for cell in self.cells if not cell.is_run and cell.note.endswith(_IDLE)]
        noun = "cell" if len(skipped) == 1 else "cells"
        idle = f"Not run again, since they changed nothing when they failed: {noun} {list_names(skipped)}."
        return (*filter(None, [self.nothing]), *([idle] if skipped else []), *self.notes)

    @property
    def counts(self) -> tuple[str, str, str]:
        """How the cells, the variables and the outputs came out."""
        run = [cell for cell in self.cells if cell.is_run]
        outputs = [verdict.outcome for cell in run for verdict in (cell.output, cell.saved) if verdict is not None]
        return (
            _count("cell", [cell.outcome for cell in run]),
            _count("variable", [one.verdict.outcome for one in self.variables]),
            _count("output", outputs),
        )

    @property
    def headline(self) -> str:
        run = [cell for cell in self.cells if cell.is_run]
        if not self.cells:
            return "nothing was run again" if self.is_edited else "no cell was edited, so none was run again"
        same = sum(cell.outcome in _EQUAL and not cell.as_before for cell in run)
        failed = sum(cell.word == "failed as before" for cell in run)
        unknown = sum(one.verdict.outcome == "not comparable" for one in self.variables)
        more = f", {failed} failed as before" if failed else ""
        more += f", {unknown} of {plural(len(self.variables), 'variable')} not comparable" if unknown else ""
        return f"{same} of {plural(len(run), 'cell')} reproduced{more}"

    def to_json(self) -> Json:
        environment: list[Json] = [
            {"name": name, "how": how, "old": old or None, "new": new or None}
            for how, name, old, new in self.environment
        ]
        return {
            "place": self.source,
            "of": self.what,
            "python": self.python,
            "folder": self.folder or None,
            "reproduced": self.ok,
            "headline": self.headline,
            "cells": [cell.to_json() for cell in self.cells],
            "variables": [one.to_json() for one in self.variables],
            "environment": environment,
            "notes": list(self.all_notes),
            "duration_s": round(self.took_s, 3),
            "badge": self.badge or None,
        }

    def blocks(self) -> Sequence[Block]:
        head = f"{clean(self.source)}: {self.headline}"
        found: list[Block] = [
            describe.Line(head, strong=True),
            describe.Line(self._ran),
        ]
        found += [describe.Line(note) for note in self.all_notes]
        found += [*self._environment_blocks(), describe.Line(""), self._table()]
        for cell in self.cells:
            found += _cell_blocks(cell)
        found += self._variable_blocks()
        found += [describe.Line(""), *(describe.Line(count, style="quiet") for count in self.counts if count)]
        return [*found, *([describe.Line(""), describe.Line(self.badge)] if self.badge else [])]

    @property
    def _ran(self) -> str:
        where = f", in the folder {clean(self.folder)}" if self.folder else ""
        return f"{self.what}, in {duration(self.took_s)} with {self.python}{where}"

    def _environment_blocks(self) -> list[Block]:
        if not self.environment:
            return []
        rows = tuple(
            ("−" if how == "-" else how, clean(name), " → ".join(clean(one) for one in (old, new) if one))
            for how, name, old, new in self.environment[:_MOST_PACKAGES]
        )
        more = len(self.environment) - _MOST_PACKAGES
        rest = [describe.Line(f"… and {more} more")] if more > 0 else []
        return [describe.Line("The environment differs:"), Table(("", "", ""), rows), *rest]

    def _table(self) -> Table:
        rows = tuple(
            (
                str(cell.position),
                _first_line(cell.source),
                cell.word,
                _changed_names(cell),
            )
            for cell in self.cells
        )
        return Table(("Cell", "", "Outcome", ""), rows, right=frozenset([0]), flexible=1)

    def _variable_blocks(self) -> list[Block]:
        """Of the last state what no cell above has told."""
        reported = {one.name for cell in self.cells for one in cell.variables if one.verdict.outcome != "same"}
        rest = [one for one in self.variables if one.verdict.outcome != "same" and one.name not in reported]
        return (
            [
                describe.Line(""),
                describe.Line("At the end", strong=True),
                *(block for one in rest for block in _variable(one)),
            ]
            if rest
            else []
        )

    # -- a page of its own

    def to_page(self) -> str:
        """An HTML document that needs nothing else: no script, no font, no network."""
        counts = "".join(f"<li>{escape(count)}</li>" for count in self.counts if count)
        notes = "".join(f"<p class='note'>{escape(note)}</p>" for note in self.all_notes)
        state = "ok" if self.ok else "bad"
        return _PAGE.format(
            title=escape(f"{self.source}: {self.headline}"),
            source=escape(self.source),
            state=state,
            headline=escape(self.headline),
            what=escape(self._ran),
            notes=notes,
            counts=counts,
            environment=self._environment_html(),
            cells="".join(map(_cell_html, self.cells)),
            variables="".join(map(_variable_row, self.variables)),
            style=_STYLE,
        )

    def _environment_html(self) -> str:
        if not self.environment:
            return ""
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(old) or '–'}</td><td>{escape(new) or '–'}</td></tr>"
            for _, name, old, new in self.environment
        )
        head = "<tr><th>Package</th><th>Then</th><th>Now</th></tr>"
        return f"<details><summary>The environment differs ({len(self.environment)})</summary><table>{head}{rows}</table></details>"

    def to_badge(self) -> str:
        """An SVG with the headline: green where all came out the same."""
        text = self.headline.replace(" reproduced", "", 1)
        left, right = 76, 14 + 7 * len(text)
        return _BADGE.format(
            left=left, right=right, width=left + right, at=left / 2, to=left + right / 2,
            colour="#2e7d32" if self.ok else "#b3261e", text=escape(text), title=escape(self.headline),
        )  # fmt: skip


def _count(noun: str, outcomes: Sequence[str]) -> str:
    counted = Counter(outcomes)
    parts = ", ".join(f"{counted[one]} {one}" for one in _OUTCOMES if counted[one])
    return f"{plural(len(outcomes), noun)}: {parts}" if outcomes else ""


def _first_line(source: str) -> str:
    lines = [line for line in source.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    first = clean(lines[0]) if lines else ""
    return cut(first + (" …" if len(lines) > 1 else ""), _SOURCE)


def _changed_names(cell: CellReport) -> str:
    names = [one.name for one in cell.variables if one.verdict.outcome not in _EQUAL]
    outputs = [
        what for what, verdict in (("output", cell.output), ("saved output", cell.saved)) if _is_reported(verdict)
    ]
    return list_names([*map(clean, names), *outputs], 4) if names or outputs else ""


def _is_reported(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.outcome not in _EQUAL


def _cell_blocks(cell: CellReport) -> list[Block]:
    found: list[Block] = []
    if cell.failure is not None:
        found.append(describe.Line(f"  failed: {clean(cell.failure.text)}"))
    if cell.note or cell.as_before:
        found.append(describe.Line(f"  {clean(cell.note or cell.as_before)}"))
    for one in cell.variables:
        if one.verdict.outcome != "same":
            found += _variable(one)
    for what, verdict, causes in (
        ("the output", cell.output, cell.causes),
        ("the output saved in the file", cell.saved, cell.saved_causes),
    ):
        if verdict is not None and verdict.outcome != "same":
            found += _verdict(what, verdict, causes)
    head = f"{cell.label}: {_first_line(cell.source)}"
    return [describe.Line(""), describe.Line(head, strong=True), *found] if found else []


def _variable(one: VariableReport) -> list[Block]:
    return _verdict(clean(one.name), one.verdict, one.causes)


def _verdict(what: str, verdict: Verdict, causes: Sequence[Cause]) -> list[Block]:
    head = describe.Line(f"  {what}: {verdict.outcome}", style=_STYLES[verdict.outcome])
    reason = [describe.Line(f"    {clean(verdict.reason)}")] if verdict.reason else []
    details = [describe.Code("\n".join(verdict.details), signed=True)] if verdict.details else []
    return [
        head,
        *reason,
        *details,
        *(describe.Line(f"    why: {clean(cause.text)}") for cause in causes[:_MOST_CAUSES]),
    ]


def _cell_html(cell: CellReport) -> str:
    outcome = cell.outcome
    name = _CLASSES[outcome] if cell.is_run else "skipped"
    body = f"<pre class='code'>{escape(cell.source)}</pre>"
    if cell.failure is not None:
        body += f"<p class='why'>failed: {escape(clean(cell.failure.text))}</p>"
    if cell.note or cell.as_before:
        body += f"<p class='why'>{escape(clean(cell.note or cell.as_before))}</p>"
    body += "".join(
        _verdict_html(one.name, one.verdict, one.causes) for one in cell.variables if one.verdict.outcome != "same"
    )
    for what, verdict, causes in (
        ("output", cell.output, cell.causes),
        ("output saved in the file", cell.saved, cell.saved_causes),
    ):
        if verdict is not None and verdict.outcome != "same":
            body += _verdict_html(what, verdict, causes)
    is_open = " open" if outcome in ("different", "failed") and cell.is_run else ""
    label, line = escape(cell.label), escape(_first_line(cell.source))
    return (
        f"<details class='cell'{is_open}><summary><span class='tag {name}'>{escape(cell.word)}</span> "
        f"<span class='number'>{label}</span> <code>{line}</code></summary>{body}</details>"
    )


def _verdict_html(what: str, verdict: Verdict, causes: Sequence[Cause]) -> str:
    details = f"<pre>{escape(chr(10).join(verdict.details))}</pre>" if verdict.details else ""
    reason = f" <span class='reason'>{escape(clean(verdict.reason))}</span>" if verdict.reason else ""
    why = "".join(f"<p class='why'>why: {escape(clean(cause.text))}</p>" for cause in causes[:_MOST_CAUSES])
    name = _CLASSES[verdict.outcome]
    return f"<div class='told'><b>{escape(clean(what))}</b> <span class='tag {name}'>{verdict.outcome}</span>{reason}{details}{why}</div>"


def _variable_row(one: VariableReport) -> str:
    verdict = one.verdict
    why = "; ".join(clean(cause.text) for cause in one.causes[:_MOST_CAUSES]) or clean(verdict.reason)
    tag = f"<span class='tag {_CLASSES[verdict.outcome]}'>{verdict.outcome}</span>"
    return f"<tr><td><code>{escape(clean(one.name))}</code></td><td>{tag}</td><td>{escape(why)}</td></tr>"


_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1b1f; --soft: #5d5d66; --paper: #fff; --line: #dcdce2; --code: #f5f5f8;
  --same: #2e6b34; --different: #8a5a00; --failed: #a3201a; --unknown: #2b5ba8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6ea; --soft: #a2a2ad; --paper: #17171a; --line: #34343b;
  --code: #202026; --same: #8bc690; --different: #e5b567; --failed: #f2958e; --unknown: #92b8f4; } }
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem;
  padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; } .soft, .note, .number { color: var(--soft); }
ul { padding-left: 1.2rem; } table { border-collapse: collapse; width: 100%; }
td, th { border-top: 1px solid var(--line); padding: .3rem .5rem; text-align: left; vertical-align: top; }
pre, code { font: .85rem/1.45 ui-monospace, monospace; } pre { background: var(--code); margin: .4rem 0; overflow: auto;
  padding: .5rem .7rem; border-radius: 4px; max-height: 24rem; }
details.cell { border-top: 1px solid var(--line); padding: .4rem 0; } summary { cursor: pointer; }
.told { border-left: 3px solid var(--line); margin: .6rem 0 .6rem .2rem; padding-left: .7rem; }
.told pre { white-space: pre-wrap; }
.tag { border: 1px solid currentColor; border-radius: 4px; font-size: .8rem; padding: 0 .4rem; white-space: nowrap; }
.same, .equal { color: var(--same); } .different { color: var(--different); } .failed { color: var(--failed); }
.unknown, .skipped { color: var(--unknown); } .ok { color: var(--same); } .bad { color: var(--failed); }
"""

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head><body>
<h1>{source}: <span class="{state}">{headline}</span></h1>
<p class="soft">{what}</p>{notes}<ul>{counts}</ul>{environment}
<h2>Cells</h2>{cells}
<h2>Variables at the end</h2><table><tr><th>Name</th><th>Outcome</th><th>Why</th></tr>{variables}</table>
</body></html>
"""

_BADGE: Final = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{title}">
<title>{title}</title>
<rect width="{width}" height="20" rx="3" fill="#555"/><path d="M{left} 0h{right}v20h-{right}z" fill="{colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{at}" y="14">reproduced</text><text x="{to}" y="14">{text}</text></g></svg>
"""


# -- run the line, and compare cell by cell

_DISTRIBUTIONS: Final = {
    "sklearn": "scikit-learn",
    "cv2": "opencv-python",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "bs4": "beautifulsoup4",
}


@dataclass(frozen=True)
class Settings:
    """How it is run and compared. `outputs`: also what cells show."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    outputs: bool = True
    timeout_s: float = 600.0
    python: str = sys.executable


def assess(
    line: Line, recorded: Side, again: Rerun, cwd: Path, settings: Settings, what: str, first: Rerun | None = None
) -> Reproduction:
    """Compare a line of cells with its second run.

    Args:
        recorded: where the commits of the line are.
        cwd: where the cells ran.
        what: the line in words.
        first: of a document, the run that made those commits.
    """
    return _Assessment(settings, line, recorded, again, cwd, first).report(what)


_EDITED: Final = (Cause("code", "the cell was edited or moved since it ran"),)
_MASKED: Final = (Cause("masked", "a secret in its code is masked, and it ran with the mask in its place"),)
_UNKNOWN: Final = (Cause("unknown", "the code does not show why"),)
# A file does not say which versions it was saved with.
_SAVED_OTHERWISE: Final = (
    Cause("environment", "both runs agree: the file was saved with other versions, other data or other code"),
)


class _Assessment:
    """Goes through the cells of a line and says how each came out."""

    def __init__(
        self, settings: Settings, line: Line, recorded: Side, again: Rerun, cwd: Path, first: Rerun | None = None
    ) -> None:
        self._settings, self._line, self._again, self._first = settings, line, again, first
        self._recorded = recorded
        fresh = Side(again.repo, again.secret)
        self._folder = str(cwd)
        self._states = StateComparison(recorded, fresh, settings.tolerance, settings.python, cwd)
        self._tracer = Tracer(cwd)
        self._set_by = _names_set_by(line)
        self._keeps_outputs = any(
            cell.record is not None and cell.record.cell is not None and cell.record.cell.outputs for cell in line.cells
        )
        self._has_saved_outputs = any(cell.saved for cell in line.cells)  # else they were cleared
        self._environment = self._find_environment()
        self._silent = read_manifest_list(recorded.repo.store, "silent")
        self._causes: dict[str, tuple[Cause, ...]] = {}  # by name, of the cell that last set it
        self._skipped: dict[str, int] = {}  # by name, the cell that would set it and is not run

    def report(self, what: str) -> Reproduction:
        verdicts, last = self._compare_states()
        cells = tuple(self._cell(cell, verdicts.get(cell.position, {})) for cell in self._line.cells)
        variables, notes = self._variables(last), tuple(self._notes())
        return Reproduction("", what, self._python(), cells, variables, self._environment, notes, folder=self._folder)

    def _python(self) -> str:
        head = self._again.head
        found = environment_of(self._again.repo, None if head is None else self._again.repo.commit_at(head))
        return f"Python {found.python}" if found is not None else self._settings.python

    def _notes(self) -> list[str]:
        notes: list[str] = []
        if self._again.ended:
            notes.append(f"{self._again.ended[0].upper()}{self._again.ended[1:]}; the cells after it were not run.")
        if not self._recorded.loads:
            notes.append(
                "The store is not trusted: of its values only plain data is loaded, and what needs more cannot be compared."
            )
        if self._line.brought:
            names = list_names(list(self._line.brought))
            source = "taken from the history" if self._recorded.loads else "missing in the second run"
            notes.append(f"No cell of this line makes these, so they are {source}: {names}.")
        if self._settings.outputs and not self._keeps_outputs and self._first is None:
            notes.append("No cell of the history showed anything, so only variables are compared.")
        return notes

    def _find_environment(self) -> tuple[tuple[str, str, str, str], ...]:
        if self._line.tip is None or self._again.head is None:
            return ()
        commits = self._recorded.repo.commit_at(self._line.tip), self._again.repo.commit_at(self._again.head)
        before, after = environment_of(self._recorded.repo, commits[0]), environment_of(self._again.repo, commits[1])
        if before is None or after is None:
            return ()
        # What the notebook imports comes first.
        imported = {_distribution(name) for cell in self._line.cells for name in imports(Code(cell.source).tree)}
        found = environment_changes(before, after)
        return tuple(sorted(found, key=lambda one: (one[1] != "python", _distribution(one[1]) not in imported)))

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
        report = CellReport(cell.position, cell.number, previews.mask_code(cell.source)[0])
        if cell.skipped:
            self._skipped |= dict.fromkeys(read_code(cell.source).may_bind, cell.position)
            return replace(report, note=f"not run: {cell.skipped}", is_run=False)
        ran = self._again.ran.get(cell.position)
        causes = self._tracer.look_at(cell)
        if ran is None:
            self._tracer.differs((change.name for change in cell.record.changed) if cell.record else (), cell.position)
            return replace(report, note=f"not run: {self._again.ended}", is_run=False)
        failure = self._failure(cell, ran)
        if failure is not None:
            failure = replace(failure, text=previews.mask_text(failure.text, previews.mask_code(cell.source)[1]))
        if cell.commit is None and self._first is None:
            self._causes |= dict.fromkeys(
                names_set(Code(cell.source).tree), (Cause("code", f"cell {cell.position} is new"),)
            )
            return replace(
                report, failure=failure, note="it is new: the history has no run of it", duration_s=ran.duration_s
            )
        variables = tuple(
            self._variable(cell, name, verdict, causes, failed=failure is not None)
            for name, verdict in verdicts.items()
        )
        if failure is not None:
            changed = {change.name for change in cell.record.changed} if cell.record is not None else set[str]()
            self._tracer.differs(changed | read_code(cell.source).may_bind, cell.position)
        as_before = f"failed as before: {ran.error}" if failure is None and ran.status == "error" else ""
        output, output_causes = (
            self._outputs(cell, causes) if self._settings.outputs and failure is None else (None, ())
        )
        saved, saved_causes = self._saved(cell, causes) if self._settings.outputs and failure is None else (None, ())
        if saved_causes == _UNKNOWN and (output is None or output.outcome == "same"):
            saved_causes = _SAVED_OTHERWISE
        return replace(
            report,
            failure=failure,
            as_before=as_before,
            variables=variables,
            output=output,
            saved=saved,
            causes=output_causes,
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
        cause = cause_of_failure(ran, later, self._line.brought, self._settings.timeout_s)
        versions = next(((old, new) for _, name, old, new in self._environment if name == "python"), None)
        if ran.error == "SyntaxError" and versions is not None:
            return Cause(
                "environment", f"{cause.text}; it was written for Python {versions[0]}, and this is {versions[1]}"
            )
        if cause.kind == "hidden state":
            name = cause.text.split()[1].rstrip(",")
            if name in self._tracer.differing:
                return Cause(
                    "follows", f"reads {name}, which cell {self._tracer.differing[name]} did not set this time"
                )
            if name in self._skipped:
                return Cause("follows", f"reads {name}, which cell {self._skipped[name]} would set, which is not run")
        return cause

    def _variable(
        self, cell: LineCell, name: str, verdict: Verdict, causes: CellCauses, *, failed: bool
    ) -> VariableReport:
        # A clock's time is close to that of the last run, however exactly it is looked at.
        of_name = causes.of_names.get(name, ()) if verdict.outcome != "same" else ()
        if self._tracer.is_of_clock(name, of_name) and verdict.outcome == "equal within tolerance":
            verdict = replace(verdict, outcome="different")
        if verdict.outcome == "same":
            self._tracer.is_same([name])
            self._causes.pop(name, None)
            return VariableReport(name, verdict, (), cell.position)
        found: tuple[Cause, ...] = ()
        if verdict.outcome != "not comparable":
            if previews.MASK in cell.source:
                found = _MASKED
            elif failed:
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
        modules = set(map(_distribution, self._tracer.modules_of(cell)))
        changed = [(name, old, new) for _, name, old, new in self._environment if name in modules or name == "python"]
        if changed:
            return tuple(
                Cause("environment", f"another version: {name} {old or 'none'} → {new or 'none'}")
                for name, old, new in changed
            )
        return _UNKNOWN

    def _outputs(self, cell: LineCell, causes: CellCauses) -> tuple[Verdict | None, tuple[Cause, ...]]:
        again = self._again.commits.get(cell.position)
        if cell.record is None or again is None or (self._first is None and not self._keeps_outputs):
            return None, ()
        if cell.commit is not None and hex_of(cell.commit) in self._silent:
            return Verdict("not comparable", reason="the bundle leaves out what the cell showed"), ()
        old, new = outputs_of_commit(self._recorded.repo, cell.record), outputs_of_commit(self._again.repo, again[1])
        if not old and not new:
            return None, ()
        verdict = compare_outputs(old or [], new or [], self._settings.tolerance, cell.source)
        if verdict.outcome == "equal within tolerance" and causes.shows_clock:
            verdict = replace(verdict, outcome="different")
        return verdict, self._causes_of_outputs(cell, verdict, causes)

    def _causes_of_outputs(self, cell: LineCell, verdict: Verdict, causes: CellCauses) -> tuple[Cause, ...]:
        if verdict.outcome != "different":
            return ()
        if previews.MASK in cell.source:
            return _MASKED
        return _EDITED if cell.is_edited else causes.of_outputs or self._without_evidence(cell, causes)

    def _saved(self, cell: LineCell, causes: CellCauses) -> tuple[Verdict | None, tuple[Cause, ...]]:
        """What the file has, against what the first run showed."""
        if not self._has_saved_outputs or cell.saved is None or cell.record is None:
            return None, ()
        if cell.number is None and not cell.saved:
            return None, ()
        old, new = outputs_of_file(cell.saved), outputs_of_commit(self._recorded.repo, cell.record)
        if not old and not new:
            return None, ()
        verdict = compare_outputs(old, new or [], self._settings.tolerance, cell.source)
        if verdict.outcome == "equal within tolerance" and causes.shows_clock:
            verdict = replace(verdict, outcome="different")
        if verdict.outcome != "different":
            return verdict, ()
        order = _order_of(self._line, cell)
        return verdict, order or self._causes_of_outputs(cell, verdict, causes)

    def _variables(self, last: Mapping[str, Verdict]) -> tuple[VariableReport, ...]:
        found: list[VariableReport] = []
        for name, verdict in last.items():
            causes = self._causes.get(name, ()) if verdict.outcome != "same" else ()
            if verdict.outcome == "equal within tolerance" and name in self._tracer.clocked:
                verdict = replace(verdict, outcome="different")
            if verdict.outcome == "different" and name in self._line.brought:
                verdict = Verdict("not comparable", (), "no cell of the line makes it")
                causes = (Cause("brought", f"it came from {self._line.brought[name]}, and from no cell"),)
            found.append(
                VariableReport(
                    name, verdict, causes, self._tracer.differing.get(name, 0) if verdict.outcome != "same" else 0
                )
            )
        return tuple(found)


def _distribution(module: str) -> str:
    return _DISTRIBUTIONS.get(module, module).lower().replace("_", "-")


def _changed(old: Commit, new: Commit) -> list[str]:
    return list(
        dict.fromkeys(
            change.name for commit in (old, new) for change in commit.changed if not change.name.startswith("\0")
        )
    )


def _names_set_by(line: Line) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for cell in line.cells:
        names = set(read_code(cell.source).may_bind)
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


# -- the command, its options and what it tells meanwhile


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
        what = f"{plural(len(run), 'cell')}{on} run again, up to {history.label(line.tip, repo.commit_at(line.tip))}"
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
