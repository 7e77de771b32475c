"""Lists that grow, stored so that each version costs what is new in it.

A list of messages is a new list at every step. Its items are put into pages, cut by content, so that equal stretches of two
versions are equal pages; pages that are there already are used again. The ids of pages are cut into pages in the same way, level
by level, and what is not enough for a page yet stays in the value itself: the spine. Appending to 10,000 messages writes one
page and a spine of some 40 ids.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from blake3 import blake3

__all__ = ["Pages", "Spine", "pages_of", "read_items", "write_items"]

_PAGE: Final = 4_096  # bytes at which a page of small items is full
_ALONE: Final = 1_024  # bytes from which an item is a page of its own
_SMALL: Final = 512  # bytes below which a page is not cut
_FAN_OUT: Final = 8  # ids of a page of ids, on average
_MOST_IDS: Final = 64

PageId = bytes  # the time in milliseconds and chance: new pages lie beside each other in the store
Page = tuple[int, list[bytes]]  # height, items (0) or ids of pages (1 and more)


class Spine(msgspec.Struct, frozen=True, array_like=True):
    """A list as a value holds it: ids of pages from the highest level down, and the last items."""

    ids: list[tuple[int, PageId]] = []
    tail: list[bytes] = []


class Pages(NamedTuple):
    """Where pages are read and written."""

    read: Callable[[PageId], Page]
    write: Callable[[PageId, Page], None]


def write_items(
    items: Sequence[bytes], find: Callable[[bytes], PageId | None], pages: Pages
) -> tuple[Spine, dict[bytes, PageId]]:
    """Store a list. Returns the value and, by their digests, its pages.

    Args:
        find: tells, by its digest, a page that is there.
    """
    used: dict[bytes, PageId] = {}

    def store(page: Page) -> PageId:
        digest = _digest_of(page)
        id = used.get(digest) or find(digest)
        if id is None:
            id = (time.time_ns() // 1_000_000).to_bytes(6, "big") + os.urandom(4)
            pages.write(id, page)
        used[digest] = id
        return id

    full, tail = _cut_items(items)
    spine: list[tuple[int, PageId]] = []
    ids = [store((0, part)) for part in full]
    height = 0
    while ids:
        parts, rest = _cut_ids(ids)
        spine[:0] = [(height, id) for id in rest]
        height += 1
        ids = [store((height, part)) for part in parts]
    return Spine(spine, tail), used


def read_items(spine: Spine, pages: Pages) -> Iterator[bytes]:
    """The items of a list, in order."""
    for height, id in spine.ids:
        yield from _read_page(height, id, pages)
    yield from spine.tail


def _read_page(height: int, id: PageId, pages: Pages) -> Iterator[bytes]:
    _, parts = pages.read(id)
    if height == 0:
        yield from parts
    for part in parts if height else ():
        yield from _read_page(height - 1, part, pages)


def pages_of(spine: Spine, pages: Pages) -> dict[bytes, PageId]:
    """The pages of a list, by their digests."""
    found: dict[bytes, PageId] = {}
    waiting = [id for _, id in spine.ids]
    while waiting:
        id = waiting.pop()
        page = pages.read(id)
        found[_digest_of(page)] = id
        if page[0]:
            waiting.extend(page[1])
    return found


def _digest_of(page: Page) -> bytes:
    digest = blake3(bytes([page[0]]))
    for part in page[1]:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest(16)


def _cut_items(items: Sequence[bytes]) -> tuple[list[list[bytes]], list[bytes]]:
    full: list[list[bytes]] = []
    part: list[bytes] = []
    size = 0
    for item in items:
        if len(item) >= _ALONE and part:
            full.append(part)
            part, size = [], 0
        part.append(item)
        size += len(item)
        is_cut = size >= _SMALL and blake3(item).digest(1)[0] % 4 == 0
        if len(item) >= _ALONE or size >= _PAGE or is_cut:
            full.append(part)
            part, size = [], 0
    return full, part


def _cut_ids(ids: Sequence[PageId]) -> tuple[list[list[PageId]], list[PageId]]:
    full: list[list[PageId]] = []
    part: list[PageId] = []
    for id in ids:
        part.append(id)
        if id[-1] % _FAN_OUT == 0 or len(part) == _MOST_IDS:
            full.append(part)
            part = []
    return full, part
