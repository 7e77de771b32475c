"""What a panel shows of a repository: one question, one answer of plain data.

`Reader.ask` answers from what was written down when commits were made: nothing is unpickled, no user code runs, what
looks like a secret is masked, and no text holds a control character. It knows no kernel and no server, so both show
the same. Modules load when they are first needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_kernel.browsing.reader import Reader as Reader
    from agent_kernel.browsing.reader import failure as failure
    from agent_kernel.repository import Entry
    from agent_kernel.session import Repository

__all__ = ["Reader", "failure", "row_lines"]

_HOME = {"Reader": "agent_kernel.browsing.reader", "failure": "agent_kernel.browsing.reader"}


def row_lines(repo: Repository, old: Entry, new: Entry) -> tuple[str, ...] | None:
    """See `tables.row_lines`, which loads with the first diff of a table: the doors give this to their scopes."""
    from agent_kernel.browsing.tables import row_lines as lines_of

    return lines_of(repo, old, new)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next access skips this function
    return value
