"""What a notebook without a store finds beside it: its own store under an old name, or that of its original.

Jupyter gives every cell an id that survives renaming and copying. A store whose history shares half of the notebook's
ids belongs to it: it moves along if its notebook is gone, and is offered as a start if its notebook is still there.
Where one of the two sides knows no such ids nothing can be told by them: a single store that lost its notebook is
offered then.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from agent_kernel.errors import AgentKernelError, StoreUnavailableError
from agent_kernel.repository import Repository as BareRepository
from agent_kernel.repository.pointers import BRANCHES, EPOCH, FORMAT, GARBAGE, HEADS, LEASES, ROSTER
from agent_kernel.session import Repository
from agent_kernel.storage import open_store
from agent_kernel.verbs import describe
from agent_kernel.verbs.places import is_store, store_beside, stores_in

if TYPE_CHECKING:
    from agent_kernel.session import Session
    from agent_kernel.storage import Store

__all__ = ["adopt", "cell_ids", "copy_store"]


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


# -- A new store that starts as a copy of another: `bind --from`
#
# Keys and bytes are copied as they are, so every commit keeps its id. The mark by which this user's stores are told from
# other people's travels with them: a copy is trusted exactly where its source is.

_BATCH = 64
_OBJECTS = b"bcdlmost"  # the kinds of immutable objects
_OWN = frozenset({EPOCH, FORMAT, GARBAGE, ROSTER})  # what a store knows of itself


def copy_store(source: str, target: Store, here: Session | None = None) -> None:
    """Fill an empty store with everything that another holds; leases and sessions stay behind.

    Args:
        here: the session that works in the target. Where nobody else did, what it has committed so far (a notebook's
            first cell, say, before anybody could answer the offer to start from the original) steps aside.

    Raises:
        NotAStoreError: there is no store at the source. NewerFormatError: a newer release made it.
        StoreUnavailableError: the target has a history already.
    """
    with closing(open_store(source, create=False, readonly=True)) as origin:
        BareRepository.open(origin, create=False)  # what cannot be read here must not take the place of what can
        if target.keys(BRANCHES, limit=1) and not (here is not None and _steps_aside(here, origin)):
            why = "it has a history of its own; %agent bind PLACE --from … makes another"
            raise StoreUnavailableError(target.url, why)
        BareRepository.open(target)  # first of all, so that a copy that is cut off can be made again
        for keys in _pages(origin):
            found = origin.get_many(keys)
            if keys[0][:1] in _OBJECTS:
                target.put_many(found)
            else:
                held = target.get_many(keys)
                target.swap({key: held.get(key) for key in found}, found)


def _steps_aside(here: Session, origin: Store) -> bool:
    """Give branches that only this session wrote names that the other store does not have."""
    repo = here.repo
    own = repo.branches()
    if any(commit.session != here.id for _, commit in repo.log(list(own.values()))):
        return False
    for name in own:
        number = 2
        while f"{name}-{number}" in own or origin.get_many([BRANCHES + f"{name}-{number}".encode()]):
            number += 1
        if name == here.branch:
            here.rename_branch(f"{name}-{number}")
        else:
            repo.rename_branch(name, f"{name}-{number}")
    return True


def _pages(origin: Store) -> Iterator[list[bytes]]:
    """All keys worth copying, objects first, so that no ref ever names what is not there yet."""
    for prefix in [bytes([kind]) for kind in _OBJECTS] + [b"e/", b"w/", b"x/", b"g/", b"h/", b"r/"]:
        after = b""
        while keys := origin.keys(prefix, after, _BATCH):
            wanted = [key for key in keys if _travels(key)]
            if wanted:
                yield wanted
            after = keys[-1]


def _travels(key: bytes) -> bool:
    if key.startswith(HEADS):
        return key == HEADS  # where the store was used last; sessions belong to the original
    return key not in _OWN and not key.startswith(LEASES)
