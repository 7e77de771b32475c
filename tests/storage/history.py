"""A tiny history in a store, written so that any loss or damage shows when it is read back.

Commit n lists the digests of its objects; `main` names the last commit. This is what the layers above do, in small.
"""

from __future__ import annotations

import hashlib
import random

from agent_kernel.storage import Store

DIGEST = 16


def head(store: Store) -> int:
    """Return the number of the last commit, 0 if there is none."""
    return int(store.get_many([b"main"]).get(b"main", b"0"))


def commit(store: Store, rng: random.Random, *, largest: int = 300_000) -> int:
    """Add a commit with a few objects, some small and some large, some put before it; return its number."""
    number = head(store)
    objects = dict(_object(rng, largest) for _ in range(rng.randrange(1, 5)))
    listed = b"".join(objects)
    early = {key: objects.pop(key) for key in list(objects) if rng.random() < 0.3}
    store.put_many(early)
    moved = store.swap(
        {b"main": b"%d" % number if number else None},
        {b"main": b"%d" % (number + 1), b"c%06d" % (number + 1): listed},
        objects,
    )
    assert moved, "nobody else writes here"
    return number + 1


def forget(store: Store, keep: int) -> None:
    """Delete all but the last commits, so that their pages are used again."""
    old = store.keys(b"c", limit=10_000)[:-keep]
    listings = store.get_many(old).values()
    store.swap({}, dict.fromkeys(old))  # first, or a kill in between would leave commits without their objects
    store.delete_many(digest for listed in listings for digest in _digests(listed))


def fault(store: Store, acknowledged: int) -> str:
    """Read everything and return what is wrong, "" if nothing is."""
    last = head(store)
    if last < acknowledged:
        return f"{acknowledged - last} acknowledged commits are lost"
    commits = store.get_many(store.keys(b"c", limit=1_000_000))
    if last and b"c%06d" % last not in commits:
        return "the last commit is missing"
    for name, listed in commits.items():
        held = store.get_many(_digests(listed))
        for digest in _digests(listed):
            if digest not in held:
                return f"an object of {name!r} is missing"
            if _digest(held[digest]) != digest:
                return f"an object of {name!r} is damaged"
    return ""


def _object(rng: random.Random, largest: int) -> tuple[bytes, bytes]:
    content = rng.randbytes(rng.randrange(20, largest if rng.random() < 0.3 else 2_000))
    return _digest(content), content


def _digest(content: bytes) -> bytes:
    return b"o" + hashlib.blake2b(content, digest_size=DIGEST).digest()


def _digests(listed: bytes) -> list[bytes]:
    return [listed[i : i + DIGEST + 1] for i in range(0, len(listed), DIGEST + 1)]
