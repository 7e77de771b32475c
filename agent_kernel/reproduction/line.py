"""Which cells are run again: those on the line that leads to a commit, or those of a notebook's document.

The line goes from a commit to its first parent, and from a rollback or an undo to the commit that it went back to: what
was left behind there made nothing of the state that is reproduced. Each run of a cell is on it, in the order of the runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from agent_kernel.agents.agent_undo import goes_on_from
from agent_kernel.commands.scope import UsageProblem
from agent_kernel.repository import short
from agent_kernel.session.history import only_commands, within_cell

if TYPE_CHECKING:
    from agent_kernel.repository import Commit, ObjectId
    from agent_kernel.session import Repository

__all__ = ["Brought", "Line", "LineCell", "SavedOutput", "read_document", "read_line"]

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
