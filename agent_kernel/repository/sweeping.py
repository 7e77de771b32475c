"""Delete objects that no branch, tag, HEAD or reflog reaches.

A writer stores objects first and moves its branch last, so what it is just writing looks like garbage. Three rules
keep that safe without anybody waiting. A deletion is a swap that expects every ref to be where it was when the
reachable objects were marked; it changes the epoch, which every publishing swap expects; and what a writer then finds
gone it writes again, or refuses to publish. Objects go children before parents' history: newest commits first, so that
a commit that is still there has all its ancestors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.repository.commits import decode_commit
from agent_kernel.repository.envelope import base_of, wrap
from agent_kernel.repository.ids import Kind, id_of, kind_of
from agent_kernel.repository.marking import Reach, commit_keys
from agent_kernel.repository.pointers import (
    BRANCHES,
    EPOCH,
    FORMAT,
    HEADS,
    LOGS,
    ROSTER,
    TAGS,
    HeadRecord,
    LogRecord,
    Ref,
    Stamp,
    decoded,
    encoded,
    refuse_newer,
)

if TYPE_CHECKING:
    from agent_kernel.repository.repository import Repository
    from agent_kernel.storage import Store

Progress: TypeAlias = Callable[[int, int], None]  # done, of how many

_SLICE: Final = 2000
_ATTEMPTS: Final = 100
_ORDER: Final = (
    Kind.COMMIT,
    Kind.TREE,
    Kind.MANIFEST,
    Kind.OUTPUTS,
    Kind.LIST,
    Kind.DEFINITION,
    Kind.SMALL,
    Kind.CHUNK,
)


class Sweeper:
    """One marking of everything reachable, kept true while refs move, and deletions that rely on it."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self.reach = Reach(repo.objects)
        self._roots: dict[bytes, bytes | None] = {}
        self.mark()

    def mark(self) -> None:
        """Look where the refs are now, and mark what they reach."""
        pointers = self._repo.pointers
        # The roster first: a ref that appears after it was read changes it, and the deletion fails.
        roots = pointers.read([EPOCH, ROSTER, FORMAT])
        # What a newer release wrote may refer to more than is known here.
        refuse_newer(self._repo.store, None if (raw := roots[FORMAT]) is None else decoded(raw, Stamp))
        roots |= pointers.read([key for prefix in (BRANCHES, TAGS, HEADS) for key in pointers.keys(prefix)])
        refs = (decoded(raw, Ref).commit for key, raw in roots.items() if raw and key.startswith((BRANCHES, TAGS)))
        heads = (decoded(raw, HeadRecord).commit for key, raw in roots.items() if raw and key.startswith(HEADS))
        logged = (line.commit for line in pointers.all(LOGS, LogRecord).values())
        self._roots = roots
        self.reach.extend([Kind.TREE + self._repo.tree(None).id, *commit_keys([*refs, *heads, *logged])])

    def unreachable(self) -> list[bytes]:
        """The keys of all objects that nothing reaches."""
        seen = self.reach.seen
        return [key for kind in _ORDER for key in self._repo.pointers.keys(kind) if key not in seen]

    def delete(self, doomed: Iterable[bytes], progress: Progress | None = None) -> tuple[int, int]:
        """Delete those of the objects that nothing reaches; return how many, and their bytes."""
        waiting = self._ordered(doomed)
        total, count, freed, failures = len(waiting), 0, 0, 0
        self._add_bases_of_garbage(set(waiting))
        while waiting:
            part = [key for key in waiting[:_SLICE] if key not in self.reach.seen]
            sizes = stored_sizes(self._repo.store, part)
            if self._delete_slice(list(sizes)):
                count, freed = count + len(sizes), freed + sum(sizes.values())
                waiting = waiting[_SLICE:]
                if progress is not None:
                    progress(total - len(waiting), total)
                continue
            failures += 1
            if failures == _ATTEMPTS:
                raise StoreUnavailableError(self._repo.store.url, "it is too busy to collect garbage; try again later")
            self.mark()
        self._repo.objects.forget_cached()
        return count, freed

    def _delete_slice(self, part: list[bytes]) -> bool:
        raw = self._roots[EPOCH]
        last = 0 if raw is None else decoded(raw, Stamp).number
        epoch = encoded(Stamp(0, last + 1))
        new: dict[bytes, bytes | None] = {EPOCH: epoch, **self._whole_again(set(part))}
        new.update(dict.fromkeys(part))
        if not self._repo.store.swap(self._roots, new):
            return False
        self._roots[EPOCH] = epoch
        return True

    def _ordered(self, doomed: Iterable[bytes]) -> list[bytes]:
        keys = [key for key in doomed if key not in self.reach.seen]
        commits = [key for key in keys if kind_of(key) == Kind.COMMIT]
        found = self._repo.objects.fetch(commits)
        age = {key: -decode_commit(found[key].payload).time_ns for key in commits if key in found}
        rank = {kind: place for place, kind in enumerate(_ORDER)}
        return sorted(keys, key=lambda key: (rank[kind_of(key)], age.get(key, 0)))

    def _add_bases_of_garbage(self, doomed: set[bytes]) -> None:
        staying = [
            key for key in self._repo.pointers.keys(Kind.TREE) if key not in self.reach.seen and key not in doomed
        ]
        for key, stored in self._repo.store.get_many(staying).items():
            base = base_of(key, stored)
            if base is not None:
                self.reach.bases.setdefault(base[0], []).append(key)

    def _whole_again(self, doomed: set[bytes]) -> dict[bytes, bytes]:
        """Tree nodes stored as differences from what is about to go, to be stored whole."""
        keys = [key for base in doomed & self.reach.bases.keys() for key in self.reach.bases[base] if key not in doomed]
        found = self._repo.objects.fetch(keys)
        return {key: b"".join(wrap(id_of(key), there.payload)) for key, there in found.items()}


def stored_sizes(store: Store, keys: Iterable[bytes]) -> dict[bytes, int]:
    """How many bytes are stored under each key that is there, without reading them where the engine can."""
    sizes: dict[bytes, int] = {}

    def visit(key: bytes, view: memoryview) -> None:
        sizes[key] = len(view)

    view_many = getattr(store, "view_many", None)
    wanted = list(keys)
    for start in range(0, len(wanted), 256):
        batch = wanted[start : start + 256]
        if view_many is not None:
            view_many(batch, visit)
        else:
            sizes.update((key, len(stored)) for key, stored in store.get_many(batch).items())
    return sizes
