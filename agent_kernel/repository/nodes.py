"""The nodes of a tree as bytes: leaves hold rows, inner nodes hold references to nodes one level down.

Rows are entries still encoded: most edits, comparisons and walks never need to look inside.

Where a sequence is cut into nodes follows from its content alone. An item starts a node if its hash is smaller than
those of `reach` items on either side. So equal sequences are cut equally however they came about, an edit moves cuts
only within `reach` of it, and a node has at least `reach + 1` items (save the last), about `2 * reach + 1` on average,
and rarely twice that. (Cutting where a hash falls below a limit, as most such trees do, gives nodes so uneven that an
edit rewrites almost twice as much.)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec
from xxhash import xxh3_64_intdigest

from agent_kernel.repository.commits import ENCODER
from agent_kernel.repository.ids import ID_SIZE, Kind, ObjectId

if TYPE_CHECKING:
    from agent_kernel.repository.writer import Writer

# Averages of 13 names in a leaf and 13 children in an inner node.
LEAF_REACH: Final = 6
INNER_REACH: Final = 6
MOST_DIFFERENCES: Final = 100  # changes in an edit; beyond that, finding differences costs more time than it is worth


class Leaf(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Names in order, and their rows."""

    names: list[str]
    rows: list[bytes]


class Inner(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """References to the nodes below: the first name of each, its id and how many names it holds."""

    level: int
    names: list[str]
    ids: bytes
    counts: list[int]

    def refs(self) -> list[Ref]:
        """The children, in order."""
        ids = [self.ids[place : place + ID_SIZE] for place in range(0, len(self.ids), ID_SIZE)]
        return list(map(Ref._make, zip(self.names, ids, self.counts, strict=True)))

    def child(self, place: int) -> ObjectId:
        return ObjectId(self.ids[place * ID_SIZE : (place + 1) * ID_SIZE])


Node: TypeAlias = Leaf | Inner


class Ref(NamedTuple):
    """A node as its parent knows it."""

    name: str  # the first in it
    id: ObjectId
    size: int  # names below it


_DECODER: msgspec.msgpack.Decoder[Node] = msgspec.msgpack.Decoder(Leaf | Inner)


def decode_node(payload: bytes) -> Node:
    return _DECODER.decode(payload)


def level_of(node: Node) -> int:
    return node.level if isinstance(node, Inner) else 0


def cut(names: Sequence[str], level: int, *, at_end: bool) -> list[tuple[int, int]]:
    """Where nodes of this level start and end. Names alone decide, so that a new value never moves a cut."""
    reach = INNER_REACH if level else LEAF_REACH
    hashes = list(map(xxh3_64_intdigest, map(str.encode, names), repeat(level)))
    return spans(starts(hashes, reach, at_end=at_end), len(names))


def store_node(writer: Writer, node: Node, old: tuple[Ref, Node] | None = None) -> Ref:
    """Store a node, as what it differs in from an old version of it if one is given."""
    base = None if old is None else (old[0].id, ENCODER.encode(old[1]))
    id = writer.add(Kind.TREE, ENCODER.encode(node), compress=False, decoded=node, base=base)
    count = sum(node.counts) if isinstance(node, Inner) else len(node.names)
    return Ref(node.names[0] if node.names else "", id, count)


def inner_of(level: int, refs: Sequence[Ref]) -> Inner:
    return Inner(level, [ref.name for ref in refs], b"".join([ref.id for ref in refs]), [ref.size for ref in refs])


# -- where a sequence is cut


def starts(hashes: Sequence[int], reach: int, *, at_end: bool = True) -> list[int]:
    """Positions at which nodes start; the first is always 0.

    Args:
        hashes: of a whole sequence, or of a part that begins where a node is known to start.
        at_end: whether it is the end of the whole sequence. If not, the item after the last is known to start a node.
    """
    # The first item keeps others from starting a node near it: because it has the smallest hash there or, at the very
    # beginning, by decree. The item behind the end does the same.
    count = len(hashes)
    end = count if at_end else count - reach
    found = [0] if count else []
    for place in range(reach + 1, end):
        if hashes[place] >= hashes[place - 1]:  # spares half of the looks around
            continue
        around = hashes[place - reach : place + reach + 1]
        least = min(around)
        if hashes[place] == least and around.count(least) == 1:
            found.append(place)
    return found


def spans(cuts: Sequence[int], count: int) -> list[tuple[int, int]]:
    """The (start, end) of each node."""
    return list(zip(cuts, [*cuts[1:], count], strict=True)) if cuts else []
