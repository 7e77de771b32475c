"""A tree: an immutable, sorted, canonical mapping of names to entries.

It is a Merkle B-tree cut at content-defined boundaries, so that equal mappings have equal ids however they were made,
commits share all nodes that did not change, and a comparison skips what is equal.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec
from xxhash import xxh3_64_intdigest

from agent_kernel.repository.commits import ENCODER, ID_SIZE, MOST_DEPTH, Entry, Kind, ObjectId, decode_entry, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agent_kernel.repository.objects import Objects, Writer


# -- the nodes of a tree as bytes: leaves hold rows, inner nodes hold references to nodes one level down
#
# Rows are entries still encoded: most edits, comparisons and walks never need to look inside.
#
# Where a sequence is cut into nodes follows from its content alone. An item starts a node if its hash is smaller than
# those of `reach` items on either side. So equal sequences are cut equally however they came about, an edit moves cuts
# only within `reach` of it, and a node has at least `reach + 1` items (save the last), about `2 * reach + 1` on average,
# and rarely twice that. (Cutting where a hash falls below a limit, as most such trees do, gives nodes so uneven that an
# edit rewrites almost twice as much.)

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
        return _id_in(self.ids, place)


def _id_in(ids: bytes, place: int) -> ObjectId:
    return ObjectId(ids[place * ID_SIZE : (place + 1) * ID_SIZE])


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


def store_node(writer: Writer, node: Node, old: tuple[Ref, Node] | None = None, most_depth: int = MOST_DEPTH) -> Ref:
    """Store a node, as what it differs in from an old version of it if one is given."""
    base = None if old is None else (old[0].id, ENCODER.encode(old[1]))
    id = writer.add(Kind.TREE, ENCODER.encode(node), compress=False, decoded=node, base=base, most_depth=most_depth)
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


# -- change some names of a tree, writing only the nodes on their paths
#
# A run is a stretch of neighbouring nodes of one level that is cut anew. Where names come or go, the run takes in one
# untouched node on each side of what changed: the cuts depend on names within reach, and an untouched neighbour is
# longer than that, so beyond it nothing can move. Where only values change no cut moves, and a run is a single node.

Rows: TypeAlias = Mapping[str, bytes | None]


class Run(msgspec.Struct, frozen=True):
    """Neighbouring nodes of one level, and whether nodes follow them."""

    refs: Sequence[Ref]
    at_end: bool


class TreeEditor:
    """One edit: `changes` maps names to rows, None for those that go; `moving` are those that come or go."""

    def __init__(
        self, objects: Objects, writer: Writer, changes: Rows, moving: Sequence[str], most_depth: int = MOST_DEPTH
    ) -> None:
        self._objects = objects
        self._writer = writer
        self._changes = changes
        self._names = sorted(changes)
        self._moving = moving  # sorted
        self._most_depth = most_depth

    def apply(self, root: ObjectId) -> ObjectId:
        """The id of the tree after the edit."""
        node = self._load([root])[0]
        level = level_of(node)
        refs = self._rewrite(level, Run([Ref("", root, 0)], at_end=True), [node], 0, len(self._names))
        while len(refs) > 1:
            level += 1
            pieces = cut([ref.name for ref in refs], level, at_end=True)
            refs = [store_node(self._writer, inner_of(level, refs[start:end])) for start, end in pieces]
        if not refs:
            return store_node(self._writer, Leaf([], [])).id
        return self._without_lone_parents(refs[0].id)

    def _without_lone_parents(self, root: ObjectId) -> ObjectId:
        while True:
            node = self._load([root])[0]
            if isinstance(node, Leaf) or len(node.names) > 1:
                return root
            root = node.child(0)

    def _load(self, ids: Sequence[ObjectId]) -> list[Node]:
        return self._objects.load_many(Kind.TREE, ids, decode_node)

    def _rewrite(self, level: int, run: Run, nodes: Sequence[Node], low: int, high: int) -> list[Ref]:
        """The nodes that take the place of the run, after the changes `self._names[low:high]`."""
        if not level:
            return self._rewrite_leaves(run, [node for node in nodes if isinstance(node, Leaf)], low, high)
        inners = [node for node in nodes if isinstance(node, Inner)]
        # As they stand in the nodes, for most of the children stay: a reference for each would take longer than all else.
        names = list(chain.from_iterable(node.names for node in inners))
        ids = b"".join([node.ids for node in inners])
        counts = list(chain.from_iterable(node.counts for node in inners))
        parts = self._parts(names, low, high)
        places = [place for start, end, _, _ in parts for place in range(start, end)]
        children = [Ref(names[place], _id_in(ids, place), counts[place]) for place in places]
        below = self._load([child.id for child in children])
        fresh_names: list[str] = []
        fresh_ids: list[bytes] = []
        fresh_counts: list[int] = []
        done = used = 0
        for start, end, first, last in parts:
            begin, used = used, used + end - start
            part = Run(children[begin:used], run.at_end and end == len(names))
            made = self._rewrite(level - 1, part, below[begin:used], first, last)
            fresh_names += [*names[done:start], *(ref.name for ref in made)]
            fresh_ids += [ids[done * ID_SIZE : start * ID_SIZE], *(ref.id for ref in made)]
            fresh_counts += [*counts[done:start], *(ref.size for ref in made)]
            done = end
        fresh_names += names[done:]
        fresh = b"".join([*fresh_ids, ids[done * ID_SIZE :]])
        fresh_counts += counts[done:]
        known = _by_ends(zip(run.refs, inners, strict=True))
        pieces = _same_cuts(inners) if fresh_names == names else cut(fresh_names, level, at_end=run.at_end)
        return [
            self._store_changed(
                Inner(level, fresh_names[start:end], fresh[start * ID_SIZE : end * ID_SIZE], fresh_counts[start:end]),
                known.get(fresh_names[start]) or known.get(fresh_names[end - 1]),
            )
            for start, end in pieces
            if start < end
        ]

    def _parts(self, names: Sequence[str], low: int, high: int) -> list[tuple[int, int, int, int]]:
        """Which children to rewrite: (start, end) of each run of them and (first, last) of its changes."""
        parts: list[tuple[int, int, int, int]] = []
        while low < high:
            child = max(bisect_right(names, self._names[low]) - 1, 0)
            behind = child + 1
            last = bisect_left(self._names, names[behind], low, high) if behind < len(names) else high
            start, end = child, behind
            if self._any_moves(low, last):
                start, end = max(child - 1, 0), min(behind + 1, len(names))
            if parts and parts[-1][1] >= start:
                begun = parts.pop()
                start, end, first = min(begun[0], start), max(begun[1], end), begun[2]
            else:
                first = low
            parts.append((start, end, first, last))
            low = last
        return parts

    def _any_moves(self, low: int, high: int) -> bool:
        place = bisect_left(self._moving, self._names[low])
        return place < len(self._moving) and self._moving[place] <= self._names[high - 1]

    def _rewrite_leaves(self, run: Run, leaves: Sequence[Leaf], low: int, high: int) -> list[Ref]:
        rows = dict(chain.from_iterable(zip(leaf.names, leaf.rows, strict=True) for leaf in leaves))
        before = list(rows)
        for name in self._names[low:high]:
            row = self._changes[name]
            if row is None:
                rows.pop(name, None)
            else:
                rows[name] = row
        moved = len(rows) != len(before) or self._any_moves(low, high)
        names = sorted(rows) if moved else before
        pieces = cut(names, 0, at_end=run.at_end) if moved else _same_cuts(leaves)
        known = _by_ends((ref, leaf) for ref, leaf in zip(run.refs, leaves, strict=True) if leaf.names)
        found: list[Ref] = []
        for start, end in pieces:
            if start == end:
                continue
            piece = Leaf(names[start:end], [rows[name] for name in names[start:end]])
            old = known.get(piece.names[0]) or known.get(piece.names[-1])
            found.append(self._store_changed(piece, old))
        return found

    def _store_changed(self, node: Node, known: tuple[Ref, Node] | None) -> Ref:
        if known is None or known[1] != node:
            old = known if len(self._names) <= MOST_DIFFERENCES else None
            return store_node(self._writer, node, old, self._most_depth)
        count = sum(node.counts) if isinstance(node, Inner) else len(node.names)
        return Ref(node.names[0], known[0].id, count)


def _by_ends(nodes: Iterable[tuple[Ref, Node]]) -> dict[str, tuple[Ref, Node]]:
    """Nodes by their first names and by their last ones: names may be new at either end."""
    pairs = list(nodes)
    return {one.names[-1]: (ref, one) for ref, one in pairs} | {one.names[0]: (ref, one) for ref, one in pairs}


def _same_cuts(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    pieces: list[tuple[int, int]] = []
    end = 0
    for node in nodes:
        pieces.append((end, end + len(node.names)))
        end += len(node.names)
    return pieces


class Tree:
    """The names of one commit, read as they are asked for."""

    def __init__(self, objects: Objects, id: ObjectId) -> None:
        self._objects = objects
        self.id = id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<Tree {self.id.hex()[:8]} of {len(self):,} names>"

    def __len__(self) -> int:
        root = self._node(self.id)
        return sum(root.counts) if isinstance(root, Inner) else len(root.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.row(name) is not None

    def __iter__(self) -> Iterator[str]:
        return self.names()

    def get(self, name: str) -> Entry | None:
        """The entry of one name, or None."""
        row = self.row(name)
        return None if row is None else decode_entry(row)

    def row(self, name: str) -> bytes | None:
        """The encoded entry of one name, or None."""
        node = self._node(self.id)
        while isinstance(node, Inner):
            place = bisect_right(node.names, name) - 1
            if place < 0:
                return None
            node = self._node(node.child(place))
        place = bisect_left(node.names, name)
        return node.rows[place] if place < len(node.names) and node.names[place] == name else None

    def names(self, prefix: str = "") -> Iterator[str]:
        """The names that start with `prefix`, in order."""
        return (name for name, _ in self.rows(prefix))

    def items(self, prefix: str = "") -> Iterator[tuple[str, Entry]]:
        """Names and entries, in order of the names."""
        return ((name, decode_entry(row)) for name, row in self.rows(prefix))

    def rows(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """Names and encoded entries, in order of the names."""
        return self._rows(self._node(self.id), prefix)

    def _rows(self, node: Node, prefix: str) -> Iterator[tuple[str, bytes]]:
        first = max(bisect_right(node.names, prefix) - 1, 0)
        if isinstance(node, Leaf):
            names = node.names
            if (
                names and names[first].startswith(prefix) and names[-1].startswith(prefix)
            ):  # all of them: no need to look
                yield from zip(names[first:], node.rows[first:], strict=True)
                return
            for place in range(first, len(names)):
                if names[place].startswith(prefix):
                    yield names[place], node.rows[place]
            return
        last = first + 1
        while last < len(node.names) and node.names[last].startswith(prefix):
            last += 1
        for child in self._nodes([node.child(place) for place in range(first, last)]):
            yield from self._rows(child, prefix)

    def names_back(self, prefix: str = "") -> Iterator[str]:
        """The names that start with `prefix`, the last one first. Who wants a few has read no more."""
        return self._names_back(self._node(self.id), prefix)

    def _names_back(self, node: Node, prefix: str) -> Iterator[str]:
        first = max(bisect_right(node.names, prefix) - 1, 0)
        last = first + 1
        while last < len(node.names) and node.names[last].startswith(prefix):
            last += 1
        for place in range(min(last, len(node.names)) - 1, first - 1, -1):
            if isinstance(node, Inner):
                yield from self._names_back(self._node(node.child(place)), prefix)
            elif node.names[place].startswith(prefix):
                yield node.names[place]

    def diff(self, other: Tree) -> Iterator[tuple[str, Entry | None, Entry | None]]:
        """What differs from here to `other`: (name, entry here or None, entry there or None), in order."""
        for name, old, new in self.diff_rows(other):
            yield name, decode_entry(old) if old is not None else None, decode_entry(new) if new is not None else None

    def diff_rows(self, other: Tree) -> list[tuple[str, bytes | None, bytes | None]]:
        """The same with encoded entries. Level by level, so that a store far away is asked a few times only."""
        if self.id == other.id:
            return []
        mine, theirs = self._nodes([self.id]), self._nodes([other.id])
        while level := max(level_of(mine[0]) if mine else 0, level_of(theirs[0]) if theirs else 0):
            our_children = _children(mine) if mine and level_of(mine[0]) == level else None
            their_children = _children(theirs) if theirs and level_of(theirs[0]) == level else None
            # A node that both hold covers the same names in both: leave it out. Where one tree is higher, only that
            # one goes down, and what is equal shows on the next level.
            shared = (
                set(our_children).intersection(their_children)
                if our_children is not None and their_children is not None
                else set[ObjectId]()
            )
            if our_children is not None:
                mine = self._nodes([id for id in our_children if id not in shared])
            if their_children is not None:
                theirs = self._nodes([id for id in their_children if id not in shared])
        old, new = _all_rows(mine), _all_rows(theirs)
        return [
            (name, old.get(name), new.get(name))
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        ]

    def edit(self, writer: Writer, changes: Mapping[str, Entry | None]) -> Tree:
        """The tree with these names set, or removed where they map to None."""
        return self.edit_rows(writer, {name: encode(entry) if entry else None for name, entry in changes.items()})

    def edit_rows(self, writer: Writer, changes: Mapping[str, bytes | None], *, most_depth: int = MOST_DEPTH) -> Tree:
        """The same with encoded entries.

        Args:
            most_depth: how many versions of a node may be stored as differences, each from the one before. More of them take
                less space, and longer to be read.
        """
        before = self._present(changes)
        needed = {name: row for name, row in changes.items() if before.get(name) != row}
        if not needed:
            return self
        moving = sorted(name for name, row in needed.items() if (row is None) == (name in before))
        return Tree(self._objects, TreeEditor(self._objects, writer, needed, moving, most_depth).apply(self.id))

    def _present(self, names: Mapping[str, object]) -> dict[str, bytes]:
        if len(names) * 20 < len(self):
            rows = ((name, self.row(name)) for name in names)
            return {name: row for name, row in rows if row is not None}
        return {name: row for name, row in self.rows() if name in names}

    def _node(self, id: ObjectId) -> Node:
        return self._objects.load(Kind.TREE, id, decode_node)

    def _nodes(self, ids: Sequence[ObjectId]) -> list[Node]:
        return self._objects.load_many(Kind.TREE, ids, decode_node)


def _children(nodes: Sequence[Node]) -> list[ObjectId]:
    return [ref.id for node in nodes if isinstance(node, Inner) for ref in node.refs()]


def _all_rows(nodes: Sequence[Node]) -> dict[str, bytes]:
    return {
        name: row for node in nodes if isinstance(node, Leaf) for name, row in zip(node.names, node.rows, strict=True)
    }
