"""Other people's agents on our records: their own interfaces, kept in the commits of a branch.

Each module is for one package and needs it installed; each has an extra of its name. What they store lies in records, so a
checkout rewinds a conversation together with the variables, and nothing here keeps files of its own.
"""

from __future__ import annotations

from pathlib import Path

from agent_kernel.errors import RefNotFoundError
from agent_kernel.records.schema import Plane
from agent_kernel.repository.refs import DEFAULT_BRANCH
from agent_kernel.session.snapshot import Repository

__all__ = ["open_on"]


def open_on(repo: Repository | str | Path, branch: str | None, *planes: Plane) -> Repository:
    """The repository, which is opened where a path or URL is given.

    Args:
        branch: the one that was named; None: the one that this process works on.
        planes: where things will lie.

    Raises:
        RefNotFoundError: there is no such branch. To write to it would make another one, with nothing in it.
        ValueError: a branch was named, and nothing will lie on branches.
    """
    if branch is not None and "branch" not in planes:
        raise ValueError(f"the plane 'store' lies beside all branches, and branch {branch!r} was named")
    found = repo if isinstance(repo, Repository) else Repository.open(repo)
    if branch is None or branch == DEFAULT_BRANCH or branch in found.branches():
        return found
    if any(head.branch == branch for head in found.heads().values()):  # a session is on it, and has no commit yet
        return found
    known = found.refs.list_refs()
    if found is not repo:
        found.close()
    raise RefNotFoundError(branch, known)
