"""Two lines of work that come from one commit."""

from __future__ import annotations

from tests.support.notebooks import Notebook


def forked(nb: Notebook, *, base: str, side: str, main: str) -> None:
    """Branch `side` off after `base`, run a cell on each branch, and end up on main."""
    nb.run(base)
    nb.session.switch("side", create=True)
    nb.run(side)
    nb.session.switch("main")
    nb.run(main)
