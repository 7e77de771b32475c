"""Which branch a session works on: one writer each, so a second session forks."""

from __future__ import annotations

import getpass
import os

from agent_kernel.errors import BranchInUseError
from agent_kernel.repository import OF_KERNEL, Author, Head, Holder, ObjectId, Repository, short


def person() -> Author:
    """Who sits here, as the system knows them; `AGENT_KERNEL_AUTHOR` overrides it."""
    name = os.environ.get("AGENT_KERNEL_AUTHOR", "")
    if not name:
        try:
            name = getpass.getuser()
        except (KeyError, OSError):  # a container whose user has no entry
            name = "user"
    return Author(name)


def take(repo: Repository, wanted: str | None, holder: Holder, session: str) -> tuple[str | None, ObjectId | None, str]:
    """Put a new session on a branch and lease it.

    Returns:
        The branch (None: HEAD is detached), its commit, and what to tell the person, if anything.
    """
    own = _own(repo, session) if wanted is None else Head(wanted, repo.branches().get(wanted))
    head = own or repo.head()
    if head.branch is None:
        repo.move_head(session, head, "session: start")
        return None, head.commit, "HEAD is on no branch; the next change starts one"
    branch, commit = head.branch, head.commit
    note = ""
    if wanted is not None and commit is None and repo.branches():
        commit = repo.head().commit
        if commit is not None:
            repo.create_branch(wanted, commit)
        note = f"{wanted} is a new branch, {f'at {short(commit)}' if commit is not None else 'with no commit yet'}"
    try:
        repo.acquire_lease(branch, holder)
    except BranchInUseError as busy:
        name = free_name(repo, branch)
        repo.acquire_lease(name, holder)
        if commit is not None:
            repo.create_branch(name, commit)
        note = f"branch {branch} is in use by {busy.holder}; this session works on {name}"
        branch = name
    note = note or (_beside(repo, branch) if own is None else "")
    repo.move_head(session, Head(branch, commit), "session: start")
    return branch, commit, note


def _own(repo: Repository, session: str) -> Head | None:
    """Where this kernel was before it was restarted, whatever others did since; None: it was not here yet."""
    kernel, of_kernel, _ = session.partition(OF_KERNEL)
    head = repo.last_head(kernel) if of_kernel else None
    return None if head is None or (head.commit is None and repo.branches()) else head


def _beside(repo: Repository, branch: str) -> str:
    """What to tell of a branch that went on, and is free, since this one was forked off it for a second session; "": nothing."""
    tips = repo.branches()
    stem, _, last = branch.rpartition("-")
    if not last.isdigit() or branch not in tips or stem not in tips or repo.is_ancestor(tips[stem], tips[branch]):
        return ""
    lease = repo.lease_of(stem)
    if lease is not None and lease.is_alive(repo.store):
        return ""
    return f"branch {stem} has gone on beside this one: %agent switch {stem} goes there"


def free_name(repo: Repository, base: str) -> str:
    """`base-2`, or the next number that no branch has and nobody holds."""
    known = repo.branches()
    stem, _, last = base.rpartition("-")
    if last.isdigit() and stem in known:  # a fork of a fork is named after the first
        base = stem
    number = 2
    while f"{base}-{number}" in known or repo.lease_of(f"{base}-{number}") is not None:
        number += 1
    return f"{base}-{number}"
