"""Join a namespace to a branch of a store. Modules load when a name of theirs is first used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agent_kernel.lazy_imports import import_lazily

if TYPE_CHECKING:
    from agent_kernel.repository import Author
    from agent_kernel.session.committing import Report as Report
    from agent_kernel.session.committing import Status as Status
    from agent_kernel.session.session import Session as Session
    from agent_kernel.session.snapshot import Repository as Repository
    from agent_kernel.session.snapshot import Snapshot as Snapshot
    from agent_kernel.session.tracking import Living
    from agent_kernel.session.versioned import Live as Live
    from agent_kernel.session.versioned import Versioned as Versioned
    from agent_kernel.storage import Store

__all__ = ["Live", "Report", "Repository", "Session", "Snapshot", "Status", "Versioned", "bind", "open"]

_HOMES = {
    "committing": ("Report", "Status"),
    "session": ("Session",),
    "snapshot": ("Repository", "Snapshot"),
    "versioned": ("Live", "Versioned"),
}
_HOME = {name: f"agent_kernel.session.{module}" for module, names in _HOMES.items() for name in names}


__getattr__ = import_lazily(__name__, _HOME)


def open(store: Store | Path | str, *, create: bool = True) -> Repository:
    """Open the repository at a path or URL, and make it if it is not there.

    Raises:
        NotAStoreError: the place holds something else, or nothing and `create` is False.
        NewerFormatError: a newer release made it.
    """
    from agent_kernel.session.snapshot import Repository

    return Repository.open(store, create=create)


def bind(
    namespace: dict[str, object],
    repo: Repository | Path | str,
    *,
    branch: str | None = None,
    author: Author | None = None,
    session_id: str | None = None,
    skip: Callable[[str], bool] | None = None,
    living: Living | None = None,
) -> Session:
    """Bind a namespace to a branch of a store. The namespace stays the plain dict that it is.

    Args:
        branch: by default the one that the store was used on last. One in use by a living session is forked.
        author: whose commits these are; by default the person who runs the process.
        skip: says which names are not versioned.
        living: what a session of this namespace and store knew that has closed: this one goes on for it, under its id.

    Raises:
        NotAStoreError, NewerFormatError, StoreUnavailableError: the store cannot be used.
    """
    from agent_kernel.session.session import Session
    from agent_kernel.session.snapshot import Repository

    if not isinstance(repo, Repository):
        repo = Repository.open(repo)
    return Session(namespace, repo, branch=branch, author=author, session_id=session_id, skip=skip, living=living)
