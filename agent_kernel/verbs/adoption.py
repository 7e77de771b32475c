"""What a notebook without a store finds beside it: its own store under an old name, or that of its original.

Jupyter gives every cell an id that survives renaming and copying. A store whose history shares half of the notebook's
ids belongs to it: it moves along if its notebook is gone, and is offered as a start if its notebook is still there.
Where one of the two sides knows no such ids nothing can be told by them: a single store that lost its notebook is
offered then.
"""

from __future__ import annotations

import json
import shlex
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
_NOT_IN_FILES = "vscode:"  # VS Code has ids of its own for the cells of a kernel


def adopt(notebook: Path) -> tuple[str, ...]:
    """Take over an orphaned store that is this notebook's, and return what to say; nothing where there is no doubt."""
    place = store_beside(notebook)
    if is_store(place):
        return ()
    ids = cell_ids(notebook)
    unknown: list[Path] = []  # orphans of which the ids cannot tell whose they are
    for found in sorted(stores_in(notebook.parent), key=_used_ns, reverse=True)[:_STORES]:
        theirs = _ids_in(found) if ids else frozenset[str]()
        original = notebook.with_name(f"{found.name}.ipynb")
        if not theirs and not original.exists():
            unknown.append(found)
        if not theirs or 2 * len(ids & theirs) < len(ids):
            continue
        if original.exists():
            return (
                f"this looks like a copy of {original.name}: %agent bind --from {original.name} starts from its history",
            )
        if not _is_used(found):
            found.rename(place)
            return (f"took over the history of {original.name}, which has been renamed",)
    return _offer(unknown[0]) if len(unknown) == 1 else ()


def _offer(store: Path) -> tuple[str, ...]:
    """A line about the one store here that lost its notebook, unless somebody works in it."""
    try:
        if _is_used(store):
            return ()
    except AgentKernelError:
        return ()
    shown = store.relative_to(Path.cwd()) if store.is_relative_to(Path.cwd()) else store
    bind = f"%agent bind {shlex.quote(str(shown))}"
    return (f"if this notebook was called {store.name}.ipynb before: {bind} goes on with its history",)


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
    """The ids that files of notebooks could hold too."""
    try:
        with closing(Repository.open(store, create=False)) as repo:
            history = repo.log(list(repo.branches().values()))
            ids = (commit.cell.id for _, commit in islice(history, _COMMITS) if commit.cell)
            return frozenset(id for id in ids if id and not id.startswith(_NOT_IN_FILES))
    except AgentKernelError:
        return frozenset()


def _is_used(store: Path) -> bool:
    with closing(Repository.open(store, create=False)) as repo:
        return bool(describe.living_holders(repo))
