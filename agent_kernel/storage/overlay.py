"""Changes on top of a store that stays as it is: they are kept in memory, and end with this object."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice

from agent_kernel.errors import StoreError
from agent_kernel.storage.memory import MemoryStore
from agent_kernel.storage.protocol import NO_ITEMS, Buffer, Store

_PAGE = 1000


class OverlayStore:
    """A store that reads through to another one, and writes to memory alone.

    Whoever rewrites a history in it leaves the other one's alone.

    Args:
        also: a third store, in which values are found that the other one does not have; its keys are not listed.
    """

    def __init__(self, below: Store, also: Store | None = None) -> None:
        self._below = below
        self._also = MemoryStore() if also is None else also
        self._above = MemoryStore()
        self._gone: set[bytes] = set()  # keys of the other store that do not count here
        self._lock = threading.RLock()  # a swap looks and then writes: nobody else writes between the two

    @property
    def url(self) -> str:
        """That of the store below: whoever does not trust its maker does not trust this one either."""
        return self._below.url

    @property
    def refuse(self) -> Callable[[str], StoreError] | None:
        """What the other stores say of objects that do not match their ids, see `repository.objects`."""
        return getattr(self._below, "refuse", None) or getattr(self._also, "refuse", None)

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the values that are there."""
        wanted = list(keys)
        with self._lock:
            found = self._above.get_many(wanted)
            found |= self._below.get_many([key for key in wanted if key not in found and key not in self._gone])
            return found | self._also.get_many([key for key in wanted if key not in found and key not in self._gone])

    def view_many(self, keys: Iterable[bytes], visit: Callable[[bytes, memoryview], object]) -> None:
        """Show each value that is there; the view is released when `visit` returns."""
        wanted = list(keys)
        above = self._above.present(wanted)
        self._above.view_many([key for key in wanted if key in above], visit)
        waiting = {key for key in wanted if key not in above and key not in self._gone}

        def visit_first(key: bytes, view: memoryview) -> None:
            if key in waiting:
                waiting.remove(key)
                visit(key, view)

        for store in (self._below, self._also):
            view_many = getattr(store, "view_many", None)
            if view_many is not None:
                view_many(list(waiting), visit_first)
            else:
                for key, value in store.get_many(waiting).items():
                    visit_first(key, memoryview(value))

    def put_many(self, items: Mapping[bytes, Sequence[Buffer] | Buffer]) -> None:
        """Store what is absent."""
        with self._lock:
            self._above.put_many({key: value for key, value in items.items() if key not in self.get_many([key])})

    def delete_many(self, keys: Iterable[bytes]) -> None:
        """Let the keys count as absent."""
        doomed = set(keys)
        with self._lock:
            self._above.delete_many(doomed)
            self._gone |= doomed

    def keys(self, prefix: bytes, after: bytes = b"", limit: int = 1000) -> list[bytes]:
        """Return up to `limit` keys that start with `prefix` and come after `after`, in byte order."""
        both = merge(self._pages(self._above, prefix, after), self._pages(self._below, prefix, after))
        found = dict.fromkeys(islice(self._distinct(both), max(limit, 0)))
        return list(found)

    def _distinct(self, keys: Iterable[bytes]) -> Iterable[bytes]:
        last = b""
        for key in keys:
            if key != last:
                last = key
                if key not in self._gone or self._above.present([key]):
                    yield key

    def _pages(self, store: Store, prefix: bytes, after: bytes) -> Iterable[bytes]:
        while page := store.keys(prefix, after, _PAGE):
            yield from page
            after = page[-1]

    def swap(
        self,
        expected: Mapping[bytes, bytes | None],
        new: Mapping[bytes, bytes | None],
        items: Mapping[bytes, Sequence[Buffer] | Buffer] = NO_ITEMS,
    ) -> bool:
        """Move all keys to `new`, and put `items`, if every key still holds `expected`."""
        with self._lock:
            there = self.get_many(expected)
            if any(there.get(key) != value for key, value in expected.items()):
                return False
            self.put_many(items)
            stays = {key: value for key, value in new.items() if value is not None}
            self._above.swap({}, stays)
            self.delete_many(key for key, value in new.items() if value is None)
            self._gone -= stays.keys()
            return True

    def close(self) -> None:
        """Drop the changes. The other store stays open."""
        self._above.close()
