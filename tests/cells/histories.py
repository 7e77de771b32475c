"""Notebooks whose history is written to files, and what such a file says."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import nbformat

from agent_kernel.cells import NotebookFile, history_notebook, script_of
from agent_kernel.cells.slices import Slice, slice_of
from agent_kernel.repository import Author, ObjectId, Output, Outputs, Representation
from agent_kernel.session import Report
from agent_kernel.session.provenance import NotebookCell, page_of
from tests.support.notebooks import Notebook as PlainNotebook
from tests.support.notebooks import as_main


class Notebook(PlainNotebook):
    """A notebook whose cells say what they show, and which front end they are in."""

    number = 0

    def cell(
        self, source: str, *, id: str = "", shows: Outputs | None = None, raises: BaseException | None = None
    ) -> Report:
        """Run a cell. What is no Python of it (magics) is not run; `raises`: what it ends with, as if it had."""
        self.number += 1
        with as_main(self.module):
            self.session.begin_cell(source, cell_id=id or f"cell-{self.number}", number=self.number)
            self.execute("\n".join(line for line in source.split("\n") if not line.lstrip().startswith(("%", "!"))))
            report = self.session.end_cell(error=raises, outputs=shows)
        assert report is not None
        return report

    def cells(self, *sources: str) -> list[Report]:
        return [self.cell(source) for source in sources]

    def step(self, source: str, run: str, step: int, *, id: str = "") -> None:
        """Code of an agent runs, as a step of its run."""
        with as_main(self.module):
            self.session.begin_step(source, author=Author("ada", "agent"), run=run, step=step, cell_id=id)
            self.execute(source)
            self.session.end_step()

    def page(self, *cells: tuple[str, str, str]) -> None:
        """The front end tells the document: id, type and source of each cell."""
        self.session._recorder.open_document = page_of(
            "analysis.ipynb", "python", [NotebookCell(*cell) for cell in cells]
        )

    @property
    def head(self) -> ObjectId:
        head = self.session.head
        assert head is not None
        return head

    # -- the history as a notebook

    def written(self, *, keep_failed: bool = False) -> NotebookFile:
        return history_notebook(self.repo, self.head, keep_failed=keep_failed)

    def document(self, *, keep_failed: bool = False) -> Any:
        """The notebook, which nbformat finds valid."""
        return read(self.written(keep_failed=keep_failed).content)

    def code(self, *, keep_failed: bool = False) -> list[str]:
        return [
            cell["source"] for cell in self.document(keep_failed=keep_failed)["cells"] if cell["cell_type"] == "code"
        ]

    def outputs(self, at: int = 0) -> list[Any]:
        """What a code cell of it shows."""
        found = [cell for cell in self.document()["cells"] if cell["cell_type"] == "code"]
        outputs: list[Any] = found[at]["outputs"]
        return outputs

    # -- the cells that make a variable

    def slice(self, name: str) -> Slice:
        return slice_of(self.repo, self.head, name)

    def makers(self, name: str) -> list[str]:
        """The code of the cells that make a variable."""
        return [cell.commit.cell.source for cell in self.slice(name).cells if cell.commit.cell is not None]

    def script(self, name: str) -> str:
        return script_of(self.repo, self.slice(name)).text

    def check_script(self, name: str, show: str = "") -> str:
        """The script makes the same in a fresh interpreter; returns it. `show`: what to compare, of the variable."""
        script = self.script(name)
        shown = show or f"repr({name})"
        assert run_script(script, shown) == str(self.look(shown))
        return script


def read(content: bytes) -> Any:
    """The notebook file, with sources and texts as one string each, as Jupyter takes them."""
    document: Any = nbformat.reads(content.decode(), as_version=4)
    nbformat.validate(document)
    ids = [cell["id"] for cell in document["cells"]]
    assert len(set(ids)) == len(ids)
    return document


def run_script(script: str, shown: str) -> str:
    """Run a script in an interpreter of its own, and return what an expression is then."""
    probe = f"\nprint('\\n---' + str({shown}), end='')\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", script + probe], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition("\n---")[2]


def shown(*outputs: Output) -> Outputs:
    return Outputs(version=1, outputs=outputs)


def text_face(text: str, mime: str = "text/plain", form: str = "text") -> Representation:
    return Representation(mime, form, len(text.encode()), text)


def metadata(cell: Any) -> Any:
    """What the file says of a cell's commit."""
    return json.loads(json.dumps(cell["metadata"]["agent_kernel"]))
