"""What `forget --sources` masked stays masked: in the code and the pages that later commits keep.

The notebook still says it, and running a cell again would store it again. The store remembers the names alone, and what
belongs to them is found anew by the rules that masked it first. Digests of the masked texts would find more (a text
that stands without its name), and let anyone who has the store try out short ones.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.repository import Cell
    from agent_kernel.session.notebooks import NotebookCell

__all__ = ["Forgotten"]


class Forgotten:
    """Masks what code says of some names."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.names = frozenset(names)
        self._word = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(self.names)))})\b")

    def cell(self, cell: Cell) -> Cell:
        """The cell of a commit without what its code gives away."""
        if not self._speaks(cell.source):
            return cell
        source, hidden = summaries.mask_code(cell.source, self.names)
        return msgspec.structs.replace(cell, source=source, error=summaries.mask_text(cell.error, hidden))

    def page(self, cells: Sequence[NotebookCell]) -> tuple[NotebookCell, ...]:
        """The cells of a page without what any of its code gives away, wherever on the page that stands."""
        spoken = {cell.source for cell in cells if self._speaks(cell.source)}
        hidden = frozenset[str]()
        for cell in cells:
            if cell.type == "code" and cell.source in spoken:
                hidden |= summaries.mask_code(cell.source, self.names)[1]
        return tuple(
            msgspec.structs.replace(cell, source=self._masked(cell, hidden, masks=cell.source in spoken))
            for cell in cells
        )

    def _masked(self, cell: NotebookCell, hidden: frozenset[str], *, masks: bool) -> str:
        source = cell.source
        if masks and cell.type == "code":
            source = summaries.mask_code(source, self.names)[0]
        if masks or any(literal in source for literal in hidden):
            source = summaries.mask_text(source, hidden)
        return source

    def _speaks(self, source: str) -> bool:
        return bool(self.names) and self._word.search(source) is not None
