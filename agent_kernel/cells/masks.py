"""What files for others do not say: secrets, as `show` and the panels mask them, and literals of hidden variables.

Code and outputs are masked by the same rules as everywhere. Beyond them a file leaves out what code assigns to variables that
`%agent hide` names, and what one cell gives away is masked in what the others show.
"""

from __future__ import annotations

from agent_kernel.session import Repository
from agent_kernel.session.dependencies import words_of
from agent_kernel.session.ignoring import HideList
from agent_kernel.values import summaries

__all__ = ["Masks"]

_LEAST = 6  # characters of a literal that is looked for in other cells; fewer are part of too much else


class Masks:
    """Masks the cells of one file, in order. `count`: cells whose code is not what ran."""

    def __init__(self, repo: Repository) -> None:
        self._hide = HideList(repo)
        self._everywhere: set[str] = set()
        self.count = 0

    def code(self, source: str) -> tuple[str, frozenset[str]]:
        """The code as it may be given away, and the literals that were taken out of it."""
        shown, literals = summaries.mask_code(source)
        hidden = frozenset(self._hide.select(words_of(source)))
        if hidden:
            shown, more = summaries.mask_code(shown, hidden)
            literals |= more
        shown = summaries.mask_text(shown, self._everywhere)
        self._everywhere.update(literal for literal in literals if len(literal) >= _LEAST and not literal.isalpha())
        self.count += shown != source
        return shown, literals

    def text(self, text: str, literals: frozenset[str] = frozenset()) -> str:
        """A text as it may be given away. `literals`: taken out of the code that it belongs to."""
        return summaries.mask_text(text, literals | self._everywhere)
