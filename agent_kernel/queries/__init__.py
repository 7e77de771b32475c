"""What a panel shows of a repository: one question, one answer of plain data.

`reader.Reader.ask` answers from what was written down when commits were made: nothing is unpickled, no user code runs, what
looks like a secret is masked, and no text holds a control character. It knows no kernel and no server, so both show
the same. Modules load when they are first needed; this one is loaded with the first cell, so it loads nothing itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agent_kernel.repository import Entry
    from agent_kernel.session import Repository


# -- what front ends know our displays by

HISTORY: Final = "application/vnd.agent-kernel.history.v1+json"  # a panel
CARD: Final = "application/vnd.agent-kernel.card.v1+json"  # a step that waits, a question, or a race
FOOTER: Final = "application/vnd.agent-kernel.footer.v1+json"  # the line under a cell
RUN: Final = "application/vnd.agent-kernel.run.v1+json"  # a step of a run, or where its first will stand


def row_lines(repo: Repository, old: Entry, new: Entry) -> tuple[str, ...] | None:
    """See `tables.row_lines`, which loads with the first diff of a table: the interfaces give this to their scopes."""
    from agent_kernel.queries.tables import row_lines as lines_of

    return lines_of(repo, old, new)
