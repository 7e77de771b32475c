"""What the front end says of the notebook's page: its cells, as they stand in the open document.

The lab extension sends them before each cell runs, so that the commit holds the page as the person saw it, saved or not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, cast

import msgspec

from agent_kernel.session.notebooks import NotebookCell, page_of

if TYPE_CHECKING:
    from agent_kernel.panels.channels import Comm
    from agent_kernel.panels.notebook import Notebook

__all__ = ["PageChannel"]

logger = logging.getLogger(__name__)


class _Cell(msgspec.Struct, frozen=True):
    id: Annotated[str, msgspec.Meta(max_length=1_000)]
    type: Literal["code", "markdown", "raw"]
    source: str


class _Page(msgspec.Struct, frozen=True):
    cells: Annotated[tuple[_Cell, ...], msgspec.Meta(max_length=100_000)]
    name: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    language: Annotated[str, msgspec.Meta(max_length=100)] = ""


class PageChannel:
    """Hears of the page over one comm."""

    def __init__(self, notebook: Notebook, comm: Comm, hung_up: Callable[[PageChannel], None]) -> None:
        self._notebook = notebook
        self._comm = comm
        self._hung_up = hung_up
        comm.on_msg(self._hear)
        comm.on_close(self._closed)

    def close(self) -> None:
        """Hang up."""
        self._comm.on_msg(None)
        self._comm.on_close(None)
        self._comm.close()

    def _hear(self, message: Mapping[str, object]) -> None:
        content = cast("Mapping[str, object]", message["content"])
        try:
            told = msgspec.convert(content["data"], _Page)
            cells = (NotebookCell(cell.id, cell.type, cell.source) for cell in told.cells)
            self._notebook.tell_page(page_of(told.name, told.language, cells))
        except (msgspec.ValidationError, ValueError) as error:  # the file, as it was saved, has to do
            logger.warning("the page that the front end told is not kept: %s", error)

    def _closed(self, _message: object) -> None:
        self._hung_up(self)
