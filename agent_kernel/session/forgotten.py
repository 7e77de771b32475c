"""What `forget --sources` masked stays masked: in the code, the outputs and the pages that later commits keep.

The notebook still says it, and running a cell again would store it again. The store remembers the names alone, and what
belongs to them is found anew: in code by the rules that masked it first, in outputs and messages by what these variables
hold in memory, and by what code gave away before. Digests of the masked texts would find more (a text that stands
without its name in code), and let anyone who has the store try out short ones.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.values import summaries
from agent_kernel.values.redacted_values import Reader, RedactedNumbers, RedactedTexts, faces

if TYPE_CHECKING:
    from agent_kernel.repository import Cell, Outputs
    from agent_kernel.session.notebooks import NotebookCell

__all__ = ["Forgotten"]


_MOST: Final = 300_000  # objects of one variable that are looked at


class Forgotten:
    """Masks what code says of some names, and what they hold where it is shown.

    Args:
        namespace: has these variables while they are in memory.
        before: what was masked until now.
    """

    def __init__(
        self, names: Collection[str], namespace: Mapping[str, object], before: Forgotten | None = None
    ) -> None:
        self.names = frozenset(names)
        self._namespace = namespace
        self._word = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(self.names)))})\b")
        kept = before if before is not None and before.names <= self.names else None
        self._texts: RedactedTexts = RedactedTexts() if kept is None else kept._texts
        self._numbers: RedactedNumbers = RedactedNumbers() if kept is None else kept._numbers
        self._read: dict[str, int] = {}  # the ids of the values that were read last
        self._closed: set[str] = set()  # variables that could not be read as a whole
        self.learn()

    def learn(self, source: str = "") -> None:
        """Read the variables that code has bound to other values, or may have changed."""
        may_change = self._speaks(source)
        for name in self.names & self._namespace.keys():
            value = self._namespace[name]
            if self._read.get(name) == id(value) and not may_change:
                continue
            self._read[name] = id(value)
            reader = Reader(self._texts, self._numbers, _MOST)
            is_whole = reader.read([(value, True)]) and not reader.has_closed
            (self._closed.discard if is_whole else self._closed.add)(name)

    def text(self, text: str) -> str:
        """The text without what these variables hold, and without what code gave away."""
        return self._numbers.masked(self._texts.masked(text)) if text else text

    def cell(self, cell: Cell) -> Cell:
        """The cell of a commit without what its code gives away, and what its error says of it."""
        self.learn(cell.source)
        if not self._speaks(cell.source):
            return msgspec.structs.replace(cell, error=self.text(cell.error))
        source, hidden = summaries.mask_code(cell.source, self.names)
        self._take(hidden)
        error = self.text(summaries.mask_text(cell.error, hidden))
        return msgspec.structs.replace(cell, source=source, error=error)

    def outputs(self, outputs: Outputs, source: str) -> Outputs:
        """What a cell showed, without what its code or these variables give away.

        Of code that speaks of one, pictures are left out, since they may show it, and all outputs where the variable
        cannot be read as a whole.
        """
        speaks = self._speaks(source)
        if speaks and self._closed:
            dropped = outputs.dropped_outputs + len(outputs.outputs)
            return msgspec.structs.replace(outputs, outputs=(), dropped_outputs=dropped)
        return outputs.with_texts(self.text).without_bytes(lambda content: speaks or self._texts.are_in(content))

    def _take(self, literals: Collection[str]) -> None:
        for literal in literals:
            self._texts.update(faces(literal))
            self._numbers.learn(literal)

    def page(self, cells: Sequence[NotebookCell]) -> tuple[NotebookCell, ...]:
        """The cells of a page without what any of its code gives away, wherever on the page that stands."""
        spoken = {cell.source for cell in cells if self._speaks(cell.source)}
        hidden = frozenset[str]()
        for cell in cells:
            if cell.type == "code" and cell.source in spoken:
                hidden |= summaries.mask_code(cell.source, self.names)[1]
        self._take(hidden)
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
