"""What a notebook without a store finds beside it: its own store under an old name, or that of its original.

Jupyter gives every cell an id that survives renaming and copying. A store whose history shares half of the notebook's
ids belongs to it: it moves along if its notebook is gone, and is offered as a start if its notebook is still there.
"""

from __future__ import annotations

import json
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import cast

from agent_kernel.errors import AgentKernelError
from agent_kernel.session import Repository
from agent_kernel.verbs import describe
from agent_kernel.verbs.places import is_store, store_beside, stores_in

__all__ = ["adopt", "cell_ids"]

_STORES = 20  # looked into, those used last first
_COMMITS = 5_000  # of each


def adopt(notebook: Path) -> tuple[str, ...]:
    """Take over an orphaned store that is this notebook's, and return what to say; nothing where there is no doubt."""
    place = store_beside(notebook)
    ids = frozenset[str]() if is_store(place) else cell_ids(notebook)
    if not ids:
        return ()
    for found in sorted(stores_in(notebook.parent), key=_used_ns, reverse=True)[:_STORES]:
        shared = ids & _ids_in(found)
        if 2 * len(shared) < len(ids):
            continue
        original = notebook.with_name(f"{found.name}.ipynb")
        if original.exists():
            return (
                f"this looks like a copy of {original.name}: %agent bind --from {original.name} starts from its history",
            )
        if not _is_used(found):
            found.rename(place)
            return (f"took over the history of {original.name}, which has been renamed",)
    return ()


def cell_ids(notebook: Path) -> frozenset[str]:
    """The ids of a notebook's cells; none where the file is not there or not a notebook."""
    try:
        content: object = json.loads(notebook.read_bytes())
    except (OSError, ValueError):
        return frozenset()
    cells = cast("dict[str, object]", content).get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        return frozenset()
    each = [cast("dict[str, object]", cell).get("id") for cell in cast("list[object]", cells) if isinstance(cell, dict)]
    return frozenset(id for id in each if isinstance(id, str) and id)


def _used_ns(store: Path) -> int:
    return (store / "data.mdb").stat().st_mtime_ns


def _ids_in(store: Path) -> frozenset[str]:
    try:
        with closing(Repository.open(store, create=False)) as repo:
            history = repo.log(list(repo.branches().values()))
            return frozenset(commit.cell.id for _, commit in islice(history, _COMMITS) if commit.cell)
    except AgentKernelError:
        return frozenset()


def _is_used(store: Path) -> bool:
    with closing(Repository.open(store, create=False)) as repo:
        return bool(describe.living_holders(repo))
