"""A store in this process's memory: for tests, and for work that nobody wants to keep.

One lock around a dict. Keys are kept sorted lazily: new ones are appended to a list that is sorted when somebody
asks for a page, which timsort does in about one pass.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice, takewhile

from agent_kernel.errors import StoreError, StoreUnavailableError
from agent_kernel.storage import NO_ITEMS, Buffer, Store, StoreSize, check_key


def _join(value: Sequence[Buffer] | Buffer) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    return b"".join(value)


class MemoryStore:
    """Bytes by key for as long as this object lives."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._order: list[bytes] = []
        self._sorted = True
        self._nbytes = 0
        self._version = 0
        self._closed = False
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._values):,} entries>"

    @property
    def url(self) -> str:
        """Always `memory:`, which names a new, empty store when opened again."""
        return "memory:"

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the values that are there."""
        with self._lock:
            self._check_open()
            return {key: self._values[key] for key in keys if key in self._values}

    def put_many(self, items: Mapping[bytes, Sequence[Buffer] | Buffer]) -> None:
        """Store a copy of what is absent."""
        copies = {key: _join(value) for key, value in items.items()}
        with self._lock:
            self._check_open()
            self._add(copies)

    def delete_many(self, keys: Iterable[bytes]) -> None:
        """Delete the keys that are there."""
        doomed = set(keys)
        with self._lock:
            self._check_open()
            for key in doomed & self._values.keys():
                self._nbytes -= len(self._values.pop(key))
            self._order = [key for key in self._order if key in self._values]
            self._version += 1

    def keys(self, prefix: bytes, after: bytes = b"", limit: int = 1000) -> list[bytes]:
        """Return up to `limit` keys that start with `prefix` and come after `after`, in byte order."""
        with self._lock:
            return self._keys(prefix, after, limit)

    def _keys(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        self._check_open()
        self._sort()
        start = bisect_left(self._order, prefix) if prefix > after else bisect_right(self._order, after)
        return list(takewhile(lambda key: key.startswith(prefix), self._order[start : start + max(limit, 0)]))

    def items(self, prefix: bytes, after: bytes = b"", limit: int | None = None) -> list[tuple[bytes, bytes]]:
        """Return up to `limit` keys that start with `prefix` and come after `after`, with their values, as of one moment."""
        with self._lock:
            keys = self._keys(prefix, after, len(self._values) if limit is None else limit)
            return [(key, self._values[key]) for key in keys]

    def swap(
        self,
        expected: Mapping[bytes, bytes | None],
        new: Mapping[bytes, bytes | None],
        items: Mapping[bytes, Sequence[Buffer] | Buffer] = NO_ITEMS,
    ) -> bool:
        """Move all keys to `new`, and put `items`, if every key still holds `expected`."""
        copies = {key: _join(value) for key, value in items.items()}
        for key in new:
            check_key(key)
        with self._lock:
            self._check_open()
            if any(self._values.get(key) != value for key, value in expected.items()):
                return False
            self._add(copies)
            for key, value in new.items():
                self._set(key, value)
            self._version += 1
            return True

    def view_many(self, keys: Iterable[bytes], visit: Callable[[bytes, memoryview], object]) -> None:
        """Show each value that is there; the view is released when `visit` returns."""
        for key, value in self.get_many(keys).items():
            with memoryview(value) as view:
                visit(key, view)

    def present(self, keys: Iterable[bytes]) -> set[bytes]:
        """Return those of the keys that are there."""
        with self._lock:
            self._check_open()
            return {key for key in keys if key in self._values}

    def size(self) -> StoreSize:
        """Return the bytes held, keys included."""
        with self._lock:
            self._check_open()
            nbytes = self._nbytes + sum(map(len, self._values))
            return StoreSize(disk_bytes=nbytes, used_bytes=nbytes, entries=len(self._values))

    def data_version(self) -> int:
        """Return a number that grows with every change."""
        with self._lock:
            self._check_open()
            return self._version

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._values, self._order, self._nbytes = {}, [], 0

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailableError(self.url, "it was closed")

    def _add(self, copies: Mapping[bytes, bytes]) -> None:
        for key in copies:
            check_key(key)
        for key, value in copies.items():
            if key not in self._values:
                self._set(key, value)
        self._version += 1

    def _set(self, key: bytes, value: bytes | None) -> None:
        old = self._values.pop(key, None)
        if old is not None:
            self._nbytes -= len(old)
        if value is not None:
            self._values[key] = value
            self._nbytes += len(value)
            if old is None:
                self._order.append(key)
                self._sorted = False
        elif old is not None:
            self._sort()
            del self._order[bisect_left(self._order, key)]

    def _sort(self) -> None:
        if not self._sorted:
            self._order.sort()
            self._sorted = True


# -- changes on top of a store that stays as it is: they are kept in memory, and end with this object


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
        self._deleted: set[bytes] = set()  # keys of the other store that do not count here
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
            found |= self._below.get_many([key for key in wanted if key not in found and key not in self._deleted])
            return found | self._also.get_many([key for key in wanted if key not in found and key not in self._deleted])

    def view_many(self, keys: Iterable[bytes], visit: Callable[[bytes, memoryview], object]) -> None:
        """Show each value that is there; the view is released when `visit` returns."""
        wanted = list(keys)
        above = self._above.present(wanted)
        self._above.view_many([key for key in wanted if key in above], visit)
        waiting = {key for key in wanted if key not in above and key not in self._deleted}

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
            self._deleted |= doomed

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
                if key not in self._deleted or self._above.present([key]):
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
            current = self.get_many(expected)
            if any(current.get(key) != value for key, value in expected.items()):
                return False
            self.put_many(items)
            stays = {key: value for key, value in new.items() if value is not None}
            self._above.swap({}, stays)
            self.delete_many(key for key, value in new.items() if value is None)
            self._deleted -= stays.keys()
            return True

    def close(self) -> None:
        """Drop the changes. The other store stays open."""
        self._above.close()
