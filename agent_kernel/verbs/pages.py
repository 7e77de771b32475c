"""The page that a commit was made on: the notebook's cells, code and text, as they were open or saved last then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from agent_kernel.repository import Commit, ObjectId, hex_of
from agent_kernel.session.notebooks import NotebookCell, NotebookSnapshot, read_notebook
from agent_kernel.values import summaries
from agent_kernel.verbs import describe
from agent_kernel.verbs.output import Block, Code, Json, Line, Result
from agent_kernel.verbs.text import clean, clean_lines, exact_time, plural

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["ShownPage", "page_of"]


def page_of(repo: Repository, commit: Commit) -> NotebookSnapshot | None:
    """The page beside the commit; None where the kernel knew of none."""
    return read_notebook(repo.objects, commit)


@dataclass(frozen=True)
class ShownPage(Result):
    """The page of one commit, with what looks like a secret masked, as in the code of the commit itself."""

    id: ObjectId
    commit: Commit
    page: NotebookSnapshot | None

    def to_json(self) -> Json:
        if self.page is None:
            return {"commit": hex_of(self.id), "notebook": None}
        cells: list[Json] = [{"id": cell.id, "type": cell.type, "source": _masked(cell)} for cell in self.page.cells]
        page: dict[str, Json] = {
            "name": self.page.name,
            "saved": self._saved().isoformat(timespec="microseconds"),
            "cells": cells,
        }
        return {"commit": hex_of(self.id), "notebook": page}

    def blocks(self) -> Sequence[Block]:
        head = Line(describe.label(self.id, self.commit), strong=True)
        if self.page is None:
            return [head, Line("no page was recorded: it was made in a terminal, or before the notebook was saved")]
        many = plural(len(self.page.cells), "cell")
        shown: list[Block] = [
            head,
            Line(f"{clean(self.page.name)}, {many}, as of {self._saved():%a %d %b %Y %H:%M:%S}"),
        ]
        own = self.commit.cell.id if self.commit.cell else ""
        for cell in self.page.cells:
            mark = ", the cell of this commit" if own and cell.id == own else ""
            shown += [Line(""), Line(f"{clean(cell.type)}{mark}:"), Code(clean_lines(_masked(cell)))]
        return shown

    def _saved(self) -> datetime:
        assert self.page is not None
        return exact_time(self.page.saved_ns, self.commit.utc_offset_s)


def _masked(cell: NotebookCell) -> str:
    return summaries.mask_code(cell.source)[0] if cell.type == "code" else summaries.mask_text(cell.source)
