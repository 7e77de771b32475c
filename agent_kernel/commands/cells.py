"""`notebook`, `deps` and `script`: the cells of the history as files, and those that make a variable.

Nothing is loaded and nothing is run.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent_kernel.cells import (
    NotebookFile,
    Script,
    first_line,
    history_notebook,
    notebook_of_slice,
    script_of,
    write_file,
)
from agent_kernel.cells.slices import Slice, SlicedCell, slice_of
from agent_kernel.commands.describe import Block, Code, Json, Line, Lines, Opens, Result, Table
from agent_kernel.commands.scope import Parser, Scope, UsageProblem
from agent_kernel.repository import Commit, hex_of, short
from agent_kernel.session import history
from agent_kernel.text import clean, list_names, plural, shorten_url

_NOTEBOOK, _PYTHON = ".ipynb", ".py"


# -- `notebook`: the history of a commit as a notebook file


def notebook_arguments(parser: Parser) -> None:
    parser.takes("rev", "ref", help="the commit whose history it is (default: HEAD)", default="HEAD")
    _output_arguments(parser, "FILE.ipynb", "the file to write")
    parser.flag("--failed", help="also cells that failed or were interrupted")
    parser.explains(
        "The cells that lead to the commit, in the order in which they ran, with their recorded outputs. What was rolled\n"
        "back or undone is left out, and so are %agent lines. Texts of the document come from when it was saved last.\n"
        "Secrets are masked. No kernel is needed, and no value is loaded."
    )


def notebook(scope: Scope, options: Namespace) -> Result:
    path = _path(options.output, (_NOTEBOOK,))
    if path is None:
        raise UsageProblem(f"say which file to write: {scope.spell_command('notebook', '-o', 'history.ipynb')}")
    found = scope.resolve(options.rev)
    made = history_notebook(scope.repo, found, keep_failed=options.failed)
    written = _write(path, made.content, force=options.force)
    lines = [f"Wrote {plural(made.cells, 'cell')} to {shorten_url(str(written))}.", *_about(made)]
    failed, changed = made.failed
    facts: dict[str, Json] = {
        "path": str(written),
        "commit": hex_of(found),
        "cells": made.cells,
        "left_out": failed,
        "left_out_with_changes": changed,
        "masked": made.masked,
    }
    return Lines(tuple(lines), facts)


def _about(made: NotebookFile) -> list[str]:
    """What a reader of the file should know."""
    notes: list[str] = []
    failed, changed = made.failed
    if failed:
        more = f", {changed} of which changed variables" if changed else ""
        are = "is" if failed == 1 else "are"
        notes.append(
            f"{plural(failed, 'cell')} that failed or stopped early {are} left out{more}: --failed keeps them."
        )
    if made.masked:
        notes.append(f"Secrets are masked in {plural(made.masked, 'cell')}.")
    if made.is_truncated:
        notes.append("The store no longer holds the beginning of this history.")
    return notes


# -- `deps`: the cells that make a variable


def deps_arguments(parser: Parser) -> None:
    _slice_arguments(parser)
    parser.explains(
        "Begins at the commit that changed the variable last, and follows what its code reads to the commits that changed\n"
        "that last before it. Changes in place count too. Where code cannot be read (magics, exec), it says so and\n"
        "includes more cells rather than fewer."
    )


def deps(scope: Scope, options: Namespace) -> Result:
    return Deps(slice_of(scope.repo, scope.resolve(options.rev), _name(options.name)))


def _slice_arguments(parser: Parser) -> None:
    parser.takes("name", "name", help="a variable", optional=False)
    parser.takes("rev", "ref", help="as of this commit (default: HEAD)", default="HEAD")


def _name(text: str) -> str:
    if not text.isidentifier():
        raise UsageProblem(f"{clean(text)!r} is not the name of a variable; name it, and then the commit")
    return text


@dataclass(frozen=True)
class Deps(Result):
    """The cells that make a variable, oldest first."""

    slice: Slice
    has_code: bool = True

    @property
    def opens(self) -> Opens:
        return Opens(commit=hex_of(self.slice.cells[-1].id)) if self.slice.cells else Opens()

    def outline(self) -> Deps:
        return replace(self, has_code=False)

    def to_json(self) -> Json:
        return {
            "name": self.slice.name,
            "commit": hex_of(self.slice.commit),
            "cells": [_cell_json(cell) for cell in self.slice.cells],
            "notes": list(self.slice.notes),
            "complete": self.slice.is_whole,
        }

    def blocks(self) -> Sequence[Block]:
        found = self.slice
        name, count = clean(found.name), len(found.cells)
        title = Line(f"{name} takes {plural(count, 'cell')} to make, as of {short(found.commit)}:", strong=True)
        if not count:
            title = Line(f"No cell that is left made {name}.", strong=True)
        rows = tuple(self._row(cell) for cell in found.cells)
        notes = [(history.prompt(cell.commit) or short(cell.id), note) for cell in found.cells for note in cell.notes]
        return [
            title,
            Table(("Cell", "Commit", "Code" if self.has_code else "", "Gives", "Needs"), rows, flexible=2),
            *(Line(clean(f"! {at}: {note}")) for at, note in notes),
            *(Line(clean(f"! {note}")) for note in found.notes),
        ]

    def _row(self, cell: SlicedCell) -> tuple[str, ...]:
        code = clean(_first_line(cell.commit)) if self.has_code else ""
        return history.prompt(cell.commit), short(cell.id), code, list_names(cell.gives), list_names(cell.needs)


def _first_line(commit: Commit) -> str:
    return first_line(commit) or f"({history.title(commit)})"


def _cell_json(cell: SlicedCell) -> Json:
    made = history.mask_commit(cell.commit).cell
    return {
        "id": hex_of(cell.id),
        "number": made.number if made is not None else None,
        "source": made.source if made is not None else "",
        "gives": list(cell.gives),
        "needs": list(cell.needs),
        "notes": list(cell.notes),
    }


# -- `script`: the same as a file that runs


def script_arguments(parser: Parser) -> None:
    _slice_arguments(parser)
    _output_arguments(parser, "FILE", "write FILE.py or FILE.ipynb (default: print it)")
    parser.explains(
        "The cells that deps lists, in their order, with the commit of each. Lines that only a notebook understands are\n"
        "comments. Files, random numbers and the clock may give something else than they did. Secrets are masked."
    )


def script(scope: Scope, options: Namespace) -> Result:
    path = _path(options.output, (_PYTHON, _NOTEBOOK))
    found = scope.resolve(options.rev)
    cells = slice_of(scope.repo, found, _name(options.name))
    made = script_of(scope.repo, cells)
    if path is None:
        if options.force:
            raise UsageProblem("--force goes with -o FILE")
        return ScriptReport(cells, made)
    content = made.text.encode() if path.suffix == _PYTHON else notebook_of_slice(scope.repo, cells).content
    written = _write(path, content, force=options.force)
    sentence = (
        f"Wrote {plural(len(cells.runs), 'cell')} that {'makes' if len(cells.runs) == 1 else 'make'} {cells.name} to"
    )
    lines = [clean(f"{sentence} {shorten_url(str(written))}."), *(clean(f"! {note}") for note in made.notes)]
    return Lines(tuple(lines), {"path": str(written), **_script_facts(cells, made)})


def _script_facts(cells: Slice, made: Script) -> dict[str, Json]:
    return {
        "name": cells.name,
        "commit": hex_of(cells.commit),
        "cells": [hex_of(cell.id) for cell in cells.runs],
        "notes": list(made.notes),
        "masked": made.masked,
    }


@dataclass(frozen=True)
class ScriptReport(Result):
    """A script, printed as it is, so that a shell can send it to a file."""

    cells: Slice
    script: Script

    def outline(self) -> Result:
        count = plural(len(self.cells.runs), "cell")
        return Lines((clean(f"The script of {self.cells.name} has {count} as of {short(self.cells.commit)}."),))

    def to_json(self) -> Json:
        return {**_script_facts(self.cells, self.script), "script": self.script.text}

    def to_text(self, width: int | None = None, *, colour: bool = False) -> str:
        return "\n".join(map(_printable, self.script.text.rstrip("\n").split("\n")))

    def blocks(self) -> Sequence[Block]:
        return [Code(self.to_text())]


def _printable(line: str) -> str:
    """The line as it is, unless it could move a terminal's cursor or turn its text around."""
    return line if line.replace("\t", " ").isprintable() else clean(line.expandtabs(4))


# -- what both that write have in common


def _output_arguments(parser: Parser, metavar: str, help: str) -> None:
    parser.value("-o", "--output", metavar=metavar, help=help, kind="place")
    parser.flag("--force", help="replace a file that is there already")


def _path(text: str | None, endings: tuple[str, ...]) -> Path | None:
    if text is None:
        return None
    path = Path(text)
    if path.suffix not in endings:
        raise UsageProblem(f"the name of the file must end in {' or '.join(endings)}, and {clean(text)!r} does not")
    return path


def _write(path: Path, content: bytes, *, force: bool) -> Path:
    try:
        return write_file(path, content, replace=force)
    except FileExistsError:
        raise UsageProblem(f"{clean(str(path))} exists already; --force replaces it") from None
