"""What came of a reproduction, as text, as JSON, as a page of its own, and as a badge for a README."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from agent_kernel.commands.describe import Block, Code, Json, Line, Result, Style, Table
from agent_kernel.reproduction.causes import Cause
from agent_kernel.reproduction.comparison import Outcome, Verdict, worst
from agent_kernel.text import clean, cut, duration, list_names, plural

__all__ = ["CellReport", "Reproduction", "VariableReport"]

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
            Line(head, strong=True),
            Line(self._ran),
        ]
        found += [Line(note) for note in self.all_notes]
        found += [*self._environment_blocks(), Line(""), self._table()]
        for cell in self.cells:
            found += _cell_blocks(cell)
        found += self._variable_blocks()
        found += [Line(""), *(Line(count, style="quiet") for count in self.counts if count)]
        return [*found, *([Line(""), Line(self.badge)] if self.badge else [])]

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
        rest = [Line(f"… and {more} more")] if more > 0 else []
        return [Line("The environment differs:"), Table(("", "", ""), rows), *rest]

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
            [Line(""), Line("At the end", strong=True), *(block for one in rest for block in _variable(one))]
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
        found.append(Line(f"  failed: {clean(cell.failure.text)}"))
    if cell.note or cell.as_before:
        found.append(Line(f"  {clean(cell.note or cell.as_before)}"))
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
    return [Line(""), Line(head, strong=True), *found] if found else []


def _variable(one: VariableReport) -> list[Block]:
    return _verdict(clean(one.name), one.verdict, one.causes)


def _verdict(what: str, verdict: Verdict, causes: Sequence[Cause]) -> list[Block]:
    head = Line(f"  {what}: {verdict.outcome}", style=_STYLES[verdict.outcome])
    reason = [Line(f"    {clean(verdict.reason)}")] if verdict.reason else []
    details = [Code("\n".join(verdict.details), signed=True)] if verdict.details else []
    return [head, *reason, *details, *(Line(f"    why: {clean(cause.text)}") for cause in causes[:_MOST_CAUSES])]


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
