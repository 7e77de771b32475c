"""Histories made in this process, and second runs of them: shells instead of kernels, which take a second to start."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from agent_kernel.reproduction.assessment import CellReport, Reproduction, Settings, assess
from agent_kernel.reproduction.comparison import Side, Verdict
from agent_kernel.reproduction.line import Line, LineCell, Ran, Rerun, find_commits, read_line
from agent_kernel.session import Repository, trust
from tests.magics.shells import Shell

__all__ = ["again", "cell", "make_history", "reproduced", "variable", "write_notebook"]


def make_history(place: Path, *cells: str) -> None:
    """Run cells in a shell of their own that is bound to a new store."""
    with Shell(store=str(place)) as shell:
        for number, source in enumerate(cells, 1):
            shell.run(source, cell_id=f"id-{number}")


@contextmanager
def again(line: Line, place: Path) -> Generator[Rerun]:
    """Run the cells of a line a second time, in a shell of its own."""
    ran: dict[int, Ran] = {}
    with Shell(store=str(place)) as shell:
        for one in line.run:
            error = shell.run(one.source, cell_id=one.key).result
            raised = error.error_in_exec or error.error_before_exec
            ran[one.position] = Ran("ok") if raised is None else Ran("error", type(raised).__name__, str(raised))
    with closing(Repository.open(place, create=False)) as repo:
        found = Rerun(repo, "", ran)
        find_commits(found, list(line.run))
        yield found


def reproduced(
    tmp_path: Path, *cells: str, others: Sequence[str] = (), settings: Settings | None = None, trusted: bool = True
) -> Reproduction:
    """Run cells twice and compare. `others`: what runs the second time instead, as an unseen change of the world."""
    make_history(tmp_path / "first", *cells)
    with closing(Repository.open(tmp_path / "first", create=False)) as repo:
        line = read_line(repo, None)
        second = line
        if others:
            changed = (LineCell(one.position, other) for one, other in zip(line.cells, others, strict=True))
            second = Line(tuple(changed))
        with again(second, tmp_path / "second") as rerun:
            side = Side(repo, loads=trusted and trust.is_trusted(repo))
            return assess(line, side, rerun, tmp_path, settings or Settings(), "the cells")


def cell(found: Reproduction, position: int) -> CellReport:
    return found.cells[position - 1]


def variable(found: Reproduction, name: str) -> tuple[Verdict, str]:
    """How a variable came out at the end, and the first reason."""
    one = next(one for one in found.variables if one.name == name)
    return one.verdict, one.causes[0].text if one.causes else ""


def write_notebook(path: Path, *cells: str | dict[str, Any]) -> Path:
    """A notebook's file with these code cells."""
    made: list[dict[str, Any]] = []
    for number, one in enumerate(cells, 1):
        given = {"source": one} if isinstance(one, str) else one
        made.append(
            {"cell_type": "code", "id": f"id-{number}", "metadata": {}, "execution_count": number, "outputs": []}
            | given
        )
    path.write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path
