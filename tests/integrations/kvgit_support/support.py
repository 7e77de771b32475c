"""What kvgit's tests import as `support`, which its source distribution leaves out; written here from how they use it."""

from __future__ import annotations

from typing import Any

import kvgit.kv.memory
from kvgit import Repo


def worktree(store: Any = None, branch: str = "main", **options: Any) -> Any:
    """A worktree of a branch, which is made if it is not there."""
    repo = Repo(kvgit.kv.memory.Memory() if store is None else store, **options)
    return repo.worktree(branch, create=True)


def fork(tree: Any, name: str) -> Any:
    """A worktree of a new branch at the commit of another one."""
    tree.repo.branches.create(name, at=tree.head)
    return tree.repo.worktree(name)


def pointers(store: Any, commit: str) -> dict[str, str]:
    """The keys of a commit, with what their values are stored under."""
    found: dict[str, str] = Repo(store).snapshot(commit=commit)._index()
    return found
