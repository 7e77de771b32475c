"""Histories to export: what a notebook shows and says, also what nobody means well with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from agent_kernel.bundle import exporting
from agent_kernel.bundle.members import Contents
from agent_kernel.repository import Blob, Output, Outputs, Representation
from agent_kernel.session import Repository, bind

__all__ = ["ATTACKS", "PNG", "Ran", "contents_of", "make_study", "picture", "printed", "shown"]

# Each would do something in a page or a terminal that shows it as it is.
ATTACKS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(1)>',
    "\x1b[31mred\x1b]0;title\x07",
    "\u202eabc\u2066",
    "</style><style>*{display:none}",
    "&lt;b&gt;",
)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


class Ran(NamedTuple):
    """A cell that ran, and what it showed."""

    source: str
    outputs: Sequence[Output] = ()
    values: dict[str, object] | None = None  # instead of running it


def printed(text: str, name: str = "stdout") -> Output:
    return Output(kind="stream", name=name, text=text)


def shown(**faces: str) -> Output:
    """An output in these formats; `text_plain` stands for `text/plain`."""
    kinds = {name.replace("_", "/", 1).replace("_", "+"): text for name, text in faces.items()}
    return Output(
        kind="display_data",
        representations=tuple(Representation(kind, "text", len(text), text) for kind, text in kinds.items()),
    )


def picture(mime: str, content: bytes, text: str = "a figure") -> Output:
    face = Representation(mime, "bytes", len(content), blob=Blob(len(content), content))
    return Output(kind="display_data", representations=(Representation("text/plain", "text", len(text), text), face))


def make_study(place: Path, *cells: Ran | str) -> Path:
    """Run the cells on branch main of a new store; the last commit has the tag v1."""
    namespace: dict[str, object] = {}
    with closing(Repository.open(place)) as repo, closing(bind(namespace, repo, skip=_is_hidden)) as session:
        for number, cell in enumerate(cells, 1):
            ran = Ran(cell) if isinstance(cell, str) else cell
            session.begin_cell(ran.source, cell_id=f"cell-{number}", number=number)
            if ran.values is None:
                exec(ran.source, namespace)
            else:
                namespace.update(ran.values)
            session.end_cell(outputs=Outputs(version=1, outputs=tuple(ran.outputs)) if ran.outputs else None)
        assert session.head is not None
        repo.create_tag("v1", session.head)
    return place


def _is_hidden(name: str) -> bool:
    return name.startswith("__")


def contents_of(repo: Repository) -> Contents:
    return exporting.gather(repo, exporting.choose(repo, [*repo.branches()]))
