"""The cells that make a variable as a script that runs without a notebook, or as a notebook of those cells.

The cells keep their order, and each says from which commit it is. What only a notebook understands becomes a comment.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agent_kernel.cells.cell_code import CellCode, code_of, indent, read_code, without_own_lines
from agent_kernel.cells.notebook_file import Masks, NotebookFile, notebook_of
from agent_kernel.cells.slices import Slice, SlicedCell
from agent_kernel.repository import Commit, hex_of, short
from agent_kernel.session import Repository
from agent_kernel.session.history import prompt
from agent_kernel.values.previews import clean

__all__ = ["Script", "notebook_of_slice", "script_of"]

_MAGICS = "The lines that begin with % or ! are for notebooks only, and are comments here."
_MASKED = "Something secret is masked: put it back before you run this."
_AWAITS = "It waits at the top level, which only IPython does: run it with `ipython FILE`."
_FAILED = "This cell failed when it ran; what it changed until then stays."
_INTERRUPTED = "This cell was interrupted when it ran: where it stops now may be elsewhere."
_IPYTHON_NOTE = "It uses {names}, which IPython keeps of earlier cells and a script has not: put in what it stands for."
_SHELL = "It uses the shell of the notebook (get_ipython): run it with `ipython FILE`."
_DISPLAY = "from IPython.display import display  # a notebook has it without an import"
_IPYTHON_NAMES = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_oh|_ih|_dh|In|Out")


class Script(NamedTuple):
    """A script. `notes`: why it may give something else than the history has; none: it gives the same."""

    text: str
    notes: tuple[str, ...]
    masked: int


def script_of(repo: Repository, found: Slice) -> Script:
    """Write the cells of a slice as Python."""
    masks = Masks(repo)
    written = [_written(cell, masks) for cell in found.runs]
    notes = _notes(found, masks)
    future = [line for cell in written for line in cell.future]
    head = [
        f"Makes {clean(found.name)} as it is at commit {short(found.commit)}, with the cells of its history that it needs.",
        *notes,
    ]
    parts = ["\n".join(f"# {clean(line)}" for line in head)]
    parts += ["\n".join(dict.fromkeys(future))] if future else []
    parts += [_DISPLAY] if any("display" in read_code(_source(cell)).reads for cell in found.runs) else []
    parts += [cell.text for cell in written]
    return Script("\n\n".join(parts) + "\n", notes, masks.count)


def notebook_of_slice(repo: Repository, found: Slice) -> NotebookFile:
    """Make a notebook of the cells of a slice, with the outputs that they had."""
    heading = (
        f"Makes `{found.name}` as it is at commit `{short(found.commit)}`, with the cells of its history that it needs."
    )
    notes = [
        f"- {note}" for note in dict.fromkeys([*found.notes, *(note for cell in found.cells for note in cell.notes)])
    ]
    facts = {"commit": hex_of(found.commit), "variable": found.name}
    cells = [(cell.id, cell.commit, _source(cell)) for cell in found.runs if _source(cell)]
    return notebook_of(repo, cells, facts, "\n".join([heading, *([""] if notes else []), *notes]))


def _source(cell: SlicedCell) -> str:
    return "" if cell.commit.cell is None else without_own_lines(cell.commit.cell.source)


def _notes(found: Slice, masks: Masks) -> tuple[str, ...]:
    notes = list(found.notes)
    notes += [note for cell in found.cells for note in cell.notes]
    readings = [read_code(_source(cell)) for cell in found.cells]
    if any(code_of(_source(cell)).left_out for cell in found.cells):
        notes.append(_MAGICS)
    if any(reading.awaits for reading in readings):
        notes.append(_AWAITS)
    if any("get_ipython" in reading.reads | reading.within for reading in readings):
        notes.append(_SHELL)
    names_of_ipython = {name for cell in found.cells for name in _names_of_ipython(cell)}
    notes += [_IPYTHON_NOTE.format(names=", ".join(sorted(names_of_ipython)))] if names_of_ipython else []
    notes += [_MASKED] if masks.count else []
    return tuple(dict.fromkeys(notes))


def _names_of_ipython(cell: SlicedCell) -> list[str]:
    """`_`, `_1`, `_i1`, `Out`: what it names of these that no cell of the history made."""
    reading = read_code(_source(cell))
    return [name for name in reading.reads - reading.guesses - {*cell.needs} if _IPYTHON_NAMES.fullmatch(name)]


class _Written(NamedTuple):
    """A cell in a script. `future`: its `from __future__` lines, which only the beginning of a file may have."""

    text: str
    future: tuple[str, ...] = ()


def _written(cell: SlicedCell, masks: Masks) -> _Written:
    commit = cell.commit
    heading = " ".join(part for part in (prompt(commit), short(cell.id), _by(commit)) if part)
    again = f", once more for {', '.join(map(clean, cell.again))}" if cell.again else ""
    comments = [f"# {clean(heading)}{again}", *(f"# {clean(note)}" for note in cell.notes)]
    source = _source(cell)
    if not source:
        return _Written("\n".join([*comments, *(() if cell.notes else ("# (no code)",))]))
    code = code_of(masks.code(source)[0])
    text, future = _without_future(code)
    if commit.status != "ok" and code.is_python:
        comments.append(f"# {_INTERRUPTED if commit.status == 'interrupted' else _FAILED}")
        text = _guard(text)
    return _Written("\n".join([*comments, text.strip("\n")]), future)


def _by(commit: Commit) -> str:
    return f"by {clean(commit.author.name)} (agent)" if commit.author.kind == "agent" else ""


def _without_future(code: CellCode) -> tuple[str, tuple[str, ...]]:
    """The code with `from __future__` lines as comments, and those lines."""
    if not code.is_python or "__future__" not in code.text:
        return code.text, ()
    lines = code.text.split("\n")
    found: list[str] = []
    for node in _future_imports(code.text):
        found.append(ast.unparse(node))
        for at in range(node.lineno - 1, node.end_lineno or node.lineno):
            lines[at] = f"# {lines[at]}"
    return "\n".join(lines), tuple(found)


def _future_imports(text: str) -> Iterator[ast.ImportFrom]:
    body: Iterable[ast.stmt] = ast.parse(text).body
    return (node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _guard(text: str) -> str:
    return f'try:\n{indent(text)}\nexcept BaseException as _error:\n    print(f"this cell failed, as it did in the history: {{_error!r}}")'
