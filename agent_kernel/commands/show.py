"""`show`: one commit, or one variable as a commit holds it. Nothing is loaded and nothing is run."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.commands import describe
from agent_kernel.commands.describe import Block, Code, Json, Line, Opens, Result, Table
from agent_kernel.commands.scope import Parser, Scope, UsageProblem
from agent_kernel.errors import NameNotFoundError
from agent_kernel.repository import (
    Commit,
    ObjectId,
    Output,
    Outputs,
    Representation,
    hex_of,
    read_outputs,
    read_representation,
    short,
    split_path,
)
from agent_kernel.session.history import size_of
from agent_kernel.session.provenance import NotebookCell, NotebookSnapshot, read_notebook
from agent_kernel.text import clean, clean_lines, duration, exact_time, plural, size_text
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["DocumentReport", "MaskedOutputs", "outputs_of", "show", "show_arguments"]


# -- what a cell showed, in words: text as text, everything else by its type and size
#
# Stored HTML, SVG and JavaScript never become markup here; of a picture only the size is told. Escape sequences are
# stripped, and what looks like a secret, or is what the cell's own code gave away as one, is masked.

_LINES_EACH, _LINES = 4, 12  # of the brief face
_WIDTH = 400  # characters of a line in it
# In the order in which one of them stands for the others.
_READABLE = ("text/plain", "text/markdown", "text/latex", "text/html", "image/svg+xml", "application/json")


@dataclass(frozen=True)
class MaskedOutputs:
    """The outputs of one commit's cell."""

    outputs: Outputs
    hidden: frozenset[str]  # what the cell's code gave away
    read: Callable[[Representation], bytes | None]

    def without_code(self) -> MaskedOutputs:
        """The same, of errors only what they are called: a traceback quotes code."""
        found = tuple(
            msgspec.structs.replace(one, traceback=(), text="") if one.kind == "error" else one
            for one in self.outputs.outputs
        )
        return replace(self, outputs=msgspec.structs.replace(self.outputs, outputs=found))

    def blocks(self, *, full: bool, how_to_see_more: str) -> list[Block]:
        """All of it, or its first lines."""
        texts = [text for output in self.outputs.outputs if (text := self._text(output))]
        if full:
            return [Code(text) for text in texts]
        lines: list[str] = []
        left_out = 0
        for text in texts:
            own = text.splitlines()
            room = max(0, min(_LINES_EACH, _LINES - len(lines)))
            visible = own if len(own) <= room else own[:room]
            left_out += len(own) - len(visible)
            lines += [line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in visible]
        more = [Line(f"{plural(left_out, 'more line')}: {how_to_see_more}")] if left_out else []
        return [*([Code("\n".join(lines))] if lines else []), *more]

    def to_json(self) -> Json:
        return [self._json(output) for output in self.outputs.outputs]

    def _text(self, output: Output) -> str:
        text = self._text_of(output)
        if output.kind == "update_display_data":
            text = f"(in place of what an earlier cell showed)\n{text}"
        elif output.under is not None:
            text = f"(under [{output.under}])\n{text}"
        elif output.widget:
            text = f"(in a widget)\n{text}"
        return text.rstrip("\n")

    def _text_of(self, output: Output) -> str:
        if output.kind == "gap":
            return f"… {size_text(output.size)} left out …"
        if output.kind == "stream":
            return self.clean(output.text)
        if output.kind == "error":
            return self.clean("\n".join(output.traceback) or f"{output.name}: {output.text}".rstrip(": "))
        best = min(
            (
                representation
                for representation in output.representations
                if representation.mime in _READABLE and representation.is_kept and representation.form != "bytes"
            ),
            key=lambda representation: _READABLE.index(representation.mime),
            default=None,
        )
        others = ", ".join(
            _size(representation) for representation in output.representations if representation is not best
        )
        text = self.content(best) if best is not None else ""
        return "\n".join(part for part in (text, f"({others})" if others else "") if part)

    def content(self, representation: Representation) -> str:
        """The text of one MIME type as it may be shown; nothing if it was left out."""
        content = self.read(representation)
        return "" if content is None else self.clean(content.decode("utf-8", "replace"))

    def clean(self, text: str) -> str:
        """The text without secrets and control characters."""
        return previews.mask_text(clean_lines(text), self.hidden)

    def _json(self, output: Output) -> Json:
        found: dict[str, Json] = {"kind": output.kind}
        if output.kind == "gap":
            return found | {"bytes": output.size}
        named = {"name": output.name, "text": self.clean(output.text), "display_id": output.display}
        found |= {key: value for key, value in named.items() if value}
        if output.traceback:
            found["traceback"] = [self.clean(line) for line in output.traceback]
        if output.number is not None:
            found["number"] = output.number
        if output.under is not None:
            found["under"] = output.under
        if output.widget:
            found["widget"] = output.widget
        if output.representations:
            found["faces"] = [self._representation_json(representation) for representation in output.representations]
        return found

    def _representation_json(self, representation: Representation) -> Json:
        text = (
            {"text": self.content(representation)} if representation.form != "bytes" and representation.is_kept else {}
        )
        return {"mime": representation.mime, "size": representation.size, "kept": representation.is_kept, **text}


def outputs_of(repo: Repository, commit: Commit) -> MaskedOutputs | None:
    """What the commit's cell showed; None if nothing was kept."""
    cell = commit.cell
    if cell is None or cell.outputs is None:
        return None
    _, hidden = previews.mask_code(cell.source)
    return MaskedOutputs(
        read_outputs(repo.objects, cell.outputs),
        hidden,
        lambda representation: read_representation(repo.objects, representation),
    )


def _size(representation: Representation) -> str:
    left_out = "" if representation.is_kept else " left out"
    return f"{clean_lines(representation.mime)} {size_text(representation.size)}{left_out}"


def show_arguments(parser: Parser) -> None:
    parser.takes("rev", "path", help="a commit (default: HEAD), or REF:NAME for a variable in it")
    what = parser.one_of()
    parser.flag("--outputs", help="all that the cell showed, not only its first lines", group=what)
    parser.flag("--environment", help="interpreter, platform, working directory and installed packages", group=what)
    parser.flag(
        "--notebook", help="the notebook's cells, code and text, as they were open or saved last then", group=what
    )
    parser.explains(
        f"{describe.SIZES}\n\nSTORE can be a bundle, STUDY.agentnb. Without a ref all of it is verified and shown."
    )


def show(scope: Scope, options: Namespace) -> Result:
    rev, name = split_path(options.rev or "HEAD")
    found, commit = scope.commit(rev or "HEAD")
    if name is not None:
        if not name:
            raise UsageProblem(f"say which variable: {rev}:NAME")
        if options.outputs or options.environment or options.notebook:
            raise UsageProblem(f"a variable has no outputs, environment or notebook; they are those of {rev or 'HEAD'}")
        return _variable(scope, found, commit, name)
    if options.environment:
        from agent_kernel.commands.diff import EnvironmentReport, environment_of

        return EnvironmentReport(found, commit, environment_of(scope.repo, commit))
    if options.notebook:
        return DocumentReport(found, commit, read_notebook(scope.repo.objects, commit))
    return _commit(scope, found, commit, full=options.outputs)


def _commit(scope: Scope, found: ObjectId, commit: Commit, *, full: bool) -> CommitReport:
    tree = scope.repo.tree(commit.tree)
    entries = {change.name: tree.get(change.name) for change in commit.changed}
    lines = {name: describe.entry_line(scope.repo, entry) or "removed" for name, entry in entries.items()}
    outlines = {name: describe.entry_outline(scope.repo, name, entry) for name, entry in entries.items()}
    refs = describe.decorations(scope.repo, scope.head()).get(found, ())
    more = scope.spell_command("show", short(found), "--outputs")
    return CommitReport(
        found,
        describe.mask_commit(commit),
        refs,
        lines,
        outlines,
        outputs_of(scope.repo, commit),
        full,
        more,
        describe.holders_among(scope.repo, commit.tree, commit.unsaved),
        describe.changed_records(scope.repo, next(iter(commit.parents), None), found),
    )


@dataclass(frozen=True)
class CommitReport(Result):
    """A commit with its code and what it did to each variable."""

    id: ObjectId
    commit: Commit
    refs: tuple[str, ...]
    lines: dict[str, str]  # changed name: its value in one line
    outlines: dict[str, str]  # and without anything that it holds
    outputs: MaskedOutputs | None
    full: bool  # all outputs, not only their first lines
    how_to_see_more: str
    holders: frozenset[str] = frozenset()  # of what is not saved: see `describe.holders_among`
    records: tuple[str, ...] = ()  # that changed

    @property
    def opens(self) -> Opens:
        return Opens(commit=hex_of(self.id))

    def to_json(self) -> Json:
        values: dict[str, Json] = dict(self.lines)
        outputs: Json = self.outputs.to_json() if self.outputs is not None else []
        facts = describe.commit_json(self.id, self.commit)
        return {
            **facts,
            "refs": list(self.refs),
            "values": values,
            "outputs": outputs,
            "records": list(self.records),
        }

    def outline(self) -> CommitReport:
        outputs = self.outputs.without_code() if self.full and self.outputs is not None else None
        return replace(
            self, commit=describe.without_code(self.commit), lines=self.outlines, outputs=outputs, records=()
        )

    def blocks(self) -> Sequence[Block]:
        refs = f" ({', '.join(self.refs)})" if self.refs else ""
        blocks: list[Block] = [Line(f"commit {hex_of(self.id)}{refs}", strong=True), Table(("", ""), self._facts())]
        if text := self._text():
            blocks += [Line(""), Code(text)]
        if self.outputs is not None:
            blocks += [
                Line(""),
                Line("Output:"),
                *self.outputs.blocks(full=self.full, how_to_see_more=self.how_to_see_more),
            ]
        if self.commit.changed:
            blocks += [Line(""), Table(("", "", ""), self._rows(), flexible=2)]
        return [*blocks, *(Line(f"! {line}") for line in describe.unsaved_lines(self.commit.unsaved, self.holders))]

    def _facts(self) -> tuple[tuple[str, str], ...]:
        commit = self.commit
        agent = " (agent)" if commit.author.kind == "agent" else ""
        facts = [("Author:", clean(commit.author.name) + agent), ("Date:", _date(commit))]
        if len(commit.parents) > 1:
            facts.append(("Merge:", " ".join(short(parent) for parent in commit.parents)))
        if commit.cell:
            facts.append(("Cell:", _cell(commit)))
        if commit.restores is not None:
            facts.append(("Restores:", short(commit.restores)))
        if commit.labels:
            facts.append(("Labels:", clean(", ".join(commit.labels))))
        if self.records:
            facts.append(("Records:", describe.records_line(self.records)))
        return tuple(facts)

    def _text(self) -> str:
        parts = [self.commit.message, self.commit.cell.source if self.commit.cell else ""]
        return "\n\n".join(clean_lines(part.strip("\n")) for part in parts if part.strip())

    def _rows(self) -> tuple[tuple[str, str, str], ...]:
        return tuple(
            ("−" if change.how == "-" else change.how, clean(change.name), self.lines[change.name])
            for change in self.commit.changed
        )


def _date(commit: Commit) -> str:
    return f"{exact_time(commit.time_ns, commit.utc_offset_s):%a %d %b %Y %H:%M:%S %z}"


def _cell(commit: Commit) -> str:
    assert commit.cell is not None
    how = f"{commit.status}: {commit.cell.error}" if commit.cell.error else commit.status
    return clean(", ".join(part for part in (describe.prompt(commit), duration(commit.cell.duration_s), how) if part))


def _variable(scope: Scope, found: ObjectId, commit: Commit, name: str) -> VariableReport:
    entry = scope.repo.tree(commit.tree).get(name)
    if entry is None or name.startswith("\0"):
        raise NameNotFoundError(name, f"commit {short(found)}", describe.names_close_to(scope.repo, commit, name))
    last = next(iter(scope.repo.log_of_name(found, name)), (found, commit))
    summary = describe.summary_of(scope.repo, entry)
    missing = describe.not_saved(scope.repo, name, entry)
    return VariableReport(name, found, summary, size_of(scope.repo, entry), last, missing)


@dataclass(frozen=True)
class VariableReport(Result):
    """One variable as a commit holds it, from its summary."""

    name: str
    commit: ObjectId
    summary: previews.Preview | None
    size: int
    last: tuple[ObjectId, Commit]  # the commit that made it what it is
    missing: describe.NotSaved | None = None

    @property
    def _is_missing(self) -> bool:
        return self.missing is not None and self.missing.is_whole

    def to_json(self) -> Json:
        return {
            "name": self.name,
            "commit": hex_of(self.commit),
            "size": 0 if self._is_missing else self.size,
            "not_saved": self.missing.sentence.partition(": ")[2] if self.missing else None,
            "changed_in": hex_of(self.last[0]),
            "summary": _summary_json(self.summary) if self.summary else None,
        }

    def blocks(self) -> Sequence[Block]:
        line = clean(previews.line(self.summary)) if self.summary else "not described"
        facts = [("Commit:", short(self.commit))]
        # What stands in the place of a value that is not saved at all has a size, which nobody asks about.
        facts += [] if self._is_missing else [("Size:", size_text(self.size))]
        facts.append(("Changed in:", describe.label(*self.last)))
        line += f" ({self.missing.sentence})" if self.missing else ""
        table = _first_rows(self.summary) if self.summary and self.summary.columns else []
        return [Line(f"{clean(self.name)}: {line}", strong=True), Table(("", ""), tuple(facts)), *table]


def _summary_json(summary: previews.Preview) -> Json:
    return {
        "kind": summary.kind,
        "type": summary.type,
        "text": summary.text,
        "shape": list(summary.shape),
        "dtype": summary.dtype,
        "size_bytes": summary.size_bytes,
        "columns": [{"name": column.name, "of": column.of} for column in summary.columns],
        "rows": [list(row) for row in summary.rows],
        "note": summary.note,
    }


def _kind(column: previews.Column, summary: previews.Preview) -> str:
    """What a column is: its dtype, and of a Boolean one how often each value occurs."""
    return clean(", ".join(filter(None, (column.of, summary.counts.get(column.name, "")))))


def _first_rows(summary: previews.Preview) -> list[Block]:
    """The first rows of a table with what its columns are below, or the first entries of something else, as far as both are known."""
    known = max(map(len, summary.rows), default=len(summary.columns))
    columns = summary.columns[: known or None]
    names = tuple(clean(column.name) for column in columns)
    kinds = tuple(_kind(column, summary) for column in columns)
    rows = [tuple(map(clean, row))[: len(names)] for row in summary.rows]
    table = Table(names, (*(row + ("",) * (len(names) - len(row)) for row in rows), kinds))
    more = previews.count_of_columns(summary) - len(names)
    if more <= 0:
        return [table]
    return [table, Line(f"… and {plural(more, f'more {previews.noun_of_columns(summary)}')}")]


# -- the page that a commit was made on: the notebook's cells, code and text, as they were open or saved last then


@dataclass(frozen=True)
class DocumentReport(Result):
    """The page of one commit, with what looks like a secret masked, as in the code of the commit itself."""

    id: ObjectId
    commit: Commit
    document: NotebookSnapshot | None

    def to_json(self) -> Json:
        if self.document is None:
            return {"commit": hex_of(self.id), "notebook": None}
        cells: list[Json] = [
            {"id": cell.id, "type": cell.type, "source": _mask_cell(cell)} for cell in self.document.cells
        ]
        document: dict[str, Json] = {
            "name": self.document.name,
            "saved": self._save_time().isoformat(timespec="microseconds"),
            "cells": cells,
        }
        return {"commit": hex_of(self.id), "notebook": document}

    def blocks(self) -> Sequence[Block]:
        head = Line(describe.label(self.id, self.commit), strong=True)
        if self.document is None:
            return [head, Line("no page was recorded: it was made in a terminal, or before the notebook was saved")]
        many = plural(len(self.document.cells), "cell")
        blocks: list[Block] = [
            head,
            Line(f"{clean(self.document.name)}, {many}, as of {self._save_time():%a %d %b %Y %H:%M:%S}"),
        ]
        own = self.commit.cell.id if self.commit.cell else ""
        for cell in self.document.cells:
            mark = ", the cell of this commit" if own and cell.id == own else ""
            blocks += [Line(""), Line(f"{clean(cell.type)}{mark}:"), Code(clean_lines(_mask_cell(cell)))]
        return blocks

    def _save_time(self) -> datetime:
        assert self.document is not None
        return exact_time(self.document.saved_ns, self.commit.utc_offset_s)


def _mask_cell(cell: NotebookCell) -> str:
    return previews.mask_code(cell.source)[0] if cell.type == "code" else previews.mask_text(cell.source)
