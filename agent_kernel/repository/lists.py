"""Long lists of chunks as objects, cut by content: a buffer with one changed chunk shares all list nodes but a path.

Only blobs of more than 64 chunks have them; shorter lists stand in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.repository.commits import ENCODER
from agent_kernel.repository.ids import ID_SIZE, Kind, ObjectId
from agent_kernel.repository.nodes import spans, starts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_kernel.repository.objects import Objects
    from agent_kernel.repository.writer import Writer

REACH: Final = 16  # 33 chunks in a node on average: 1.2 KB, so that LMDB can put several on a page
LONGEST: Final = 128  # where all chunks are equal (a gigabyte of zeros) no hash is the smallest


class ListNode(msgspec.Struct, frozen=True, array_like=True):
    """Ids and lengths in bytes: of chunks at level 0, of nodes one level down above."""

    level: int
    ids: bytes
    sizes: list[int]

    def children(self) -> list[tuple[ObjectId, int]]:
        """(id, bytes below it), in order."""
        places = range(0, len(self.ids), ID_SIZE)
        return [(ObjectId(self.ids[at : at + ID_SIZE]), size) for at, size in zip(places, self.sizes, strict=True)]


_DECODER = msgspec.msgpack.Decoder(ListNode)


def decode_list(payload: bytes) -> ListNode:
    return _DECODER.decode(payload)


def store_list(writer: Writer, chunks: Sequence[tuple[ObjectId, int]]) -> ObjectId:
    """Store the list and return the id of its root."""
    level = 0
    items = list(chunks)
    while True:
        items = [_store_node(writer, level, items[start:end]) for start, end in _cut(items)]
        level += 1
        if len(items) == 1:
            return items[0][0]


def load_list(objects: Objects, root: ObjectId) -> list[tuple[ObjectId, int]]:
    """The chunks in order, read level by level."""
    nodes = objects.load_many(Kind.LIST, [root], decode_list)
    while nodes[0].level:
        below = [id for node in nodes for id, _ in node.children()]
        nodes = objects.load_many(Kind.LIST, below, decode_list)
    return [chunk for node in nodes for chunk in node.children()]


def _store_node(writer: Writer, level: int, items: Sequence[tuple[ObjectId, int]]) -> tuple[ObjectId, int]:
    sizes = [size for _, size in items]
    node = ListNode(level, b"".join([id for id, _ in items]), sizes)
    return writer.add(Kind.LIST, ENCODER.encode(node), compress=False, decoded=node), sum(sizes)


def _cut(items: Sequence[tuple[ObjectId, int]]) -> list[tuple[int, int]]:
    hashes = [int.from_bytes(id[:8], "little") for id, _ in items]
    natural = spans(starts(hashes, REACH), len(items))
    return [(at, min(at + LONGEST, end)) for start, end in natural for at in range(start, end, LONGEST)]
