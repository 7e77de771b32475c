"""A tree: an immutable, sorted, canonical mapping of names to entries.

It is a Merkle B-tree cut at content-defined boundaries, so that equal mappings have equal ids however they were made,
commits share all nodes that did not change, and a comparison skips what is equal.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from agent_kernel.repository.commits import Entry, decode_entry, encode
from agent_kernel.repository.ids import Kind, ObjectId
from agent_kernel.repository.nodes import Inner, Leaf, Node, decode_node, level_of
from agent_kernel.repository.treedit import TreeEditor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agent_kernel.repository.objects import Objects
    from agent_kernel.repository.writer import Writer


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
        if isinstance(node, Leaf):
            for name, row in zip(node.names, node.rows, strict=True):
                if name.startswith(prefix):
                    yield name, row
            return
        first = max(bisect_right(node.names, prefix) - 1, 0)
        last = first + 1
        while last < len(node.names) and node.names[last].startswith(prefix):
            last += 1
        for child in self._nodes([node.child(place) for place in range(first, last)]):
            yield from self._rows(child, prefix)

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
            here = _children(mine) if mine and level_of(mine[0]) == level else None
            there = _children(theirs) if theirs and level_of(theirs[0]) == level else None
            # A node that both hold covers the same names in both: leave it out. Where one tree is higher, only that
            # one goes down, and what is equal shows on the next level.
            shared = set(here).intersection(there) if here is not None and there is not None else set[ObjectId]()
            if here is not None:
                mine = self._nodes([id for id in here if id not in shared])
            if there is not None:
                theirs = self._nodes([id for id in there if id not in shared])
        old, new = _all_rows(mine), _all_rows(theirs)
        return [
            (name, old.get(name), new.get(name))
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        ]

    def edit(self, writer: Writer, changes: Mapping[str, Entry | None]) -> Tree:
        """The tree with these names set, or removed where they map to None."""
        return self.edit_rows(writer, {name: encode(entry) if entry else None for name, entry in changes.items()})

    def edit_rows(self, writer: Writer, changes: Mapping[str, bytes | None]) -> Tree:
        """The same with encoded entries."""
        before = self._present(changes)
        needed = {name: row for name, row in changes.items() if before.get(name) != row}
        if not needed:
            return self
        moving = sorted(name for name, row in needed.items() if (row is None) == (name in before))
        return Tree(self._objects, TreeEditor(self._objects, writer, needed, moving).apply(self.id))

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
