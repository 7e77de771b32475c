"""A new store that starts as a copy of another: `bind --from`.

Keys and bytes are copied as they are, so every commit keeps its id. The mark by which this user's stores are told from
other people's travels with them: a copy is trusted exactly where its source is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.repository import Repository
from agent_kernel.repository.pointers import BRANCHES, EPOCH, FORMAT, GARBAGE, HEADS, LEASES, ROSTER
from agent_kernel.storage import open_store

if TYPE_CHECKING:
    from agent_kernel.session import Session
    from agent_kernel.storage import Store

__all__ = ["copy_store"]

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
        Repository.open(origin, create=False)  # what cannot be read here must not take the place of what can
        if target.keys(BRANCHES, limit=1) and not (here is not None and _steps_aside(here, origin)):
            why = "it has a history of its own; %agent bind PLACE --from … makes another"
            raise StoreUnavailableError(target.url, why)
        Repository.open(target)  # first of all, so that a copy that is cut off can be made again
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
