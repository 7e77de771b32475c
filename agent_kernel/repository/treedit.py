"""Change some names of a tree, writing only the nodes on their paths.

A run is a stretch of neighbouring nodes of one level that is cut anew. Where names come or go, the run takes in one
untouched node on each side of what changed: the cuts depend on names within reach, and an untouched neighbour is
longer than that, so beyond it nothing can move. Where only values change no cut moves, and a run is a single node.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from agent_kernel.repository.ids import Kind
from agent_kernel.repository.nodes import (
    MOST_DIFFERENCES,
    Inner,
    Leaf,
    Node,
    Ref,
    cut,
    decode_node,
    inner_of,
    level_of,
    store_node,
)

if TYPE_CHECKING:
    from agent_kernel.repository.ids import ObjectId
    from agent_kernel.repository.objects import Objects
    from agent_kernel.repository.writer import Writer

Rows: TypeAlias = Mapping[str, bytes | None]


class Run(msgspec.Struct, frozen=True):
    """Neighbouring nodes of one level, and whether nodes follow them."""

    refs: Sequence[Ref]
    at_end: bool


class TreeEditor:
    """One edit: `changes` maps names to rows, None for those that go; `moving` are those that come or go."""

    def __init__(self, objects: Objects, writer: Writer, changes: Rows, moving: Sequence[str]) -> None:
        self._objects = objects
        self._writer = writer
        self._changes = changes
        self._names = sorted(changes)
        self._moving = moving  # sorted

    def apply(self, root: ObjectId) -> ObjectId:
        """The id of the tree after the edit."""
        node = self._load([root])[0]
        level = level_of(node)
        refs = self._rewrite(level, Run([Ref("", root, 0)], at_end=True), [node], 0, len(self._names))
        while len(refs) > 1:
            level += 1
            refs = self._store_inner(level, refs, cut([ref.name for ref in refs], level, at_end=True), {})
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
        children = [ref for node in inners for ref in node.refs()]
        names = [name for node in inners for name in node.names]
        fresh: list[Ref] = []
        done = 0
        parts = self._parts(names, low, high)
        loaded = dict(self._loaded(children, parts))
        for start, end, first, last in parts:
            part = Run(children[start:end], run.at_end and end == len(children))
            below = [loaded[ref.id] for ref in part.refs]
            fresh += children[done:start]
            fresh += self._rewrite(level - 1, part, below, first, last)
            done = end
        fresh += children[done:]
        fresh_names = [ref.name for ref in fresh]
        if fresh_names == names:
            return [
                before
                if fresh[start:end] == children[start:end]
                else self._kept_or_stored(inner_of(level, fresh[start:end]), (before, node))
                for (start, end), before, node in zip(_same_cuts(inners), run.refs, inners, strict=True)
            ]
        pieces = cut(fresh_names, level, at_end=run.at_end)
        known = {node.names[0]: (ref, node) for ref, node in zip(run.refs, inners, strict=True)}
        return self._store_inner(level, fresh, pieces, known)

    def _loaded(
        self, children: Sequence[Ref], parts: Sequence[tuple[int, int, int, int]]
    ) -> list[tuple[ObjectId, Node]]:
        ids = [ref.id for start, end, _, _ in parts for ref in children[start:end]]
        return list(zip(ids, self._load(ids), strict=True))

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
        rows = {name: row for leaf in leaves for name, row in zip(leaf.names, leaf.rows, strict=True)}
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
        known = {leaf.names[0]: (ref, leaf) for ref, leaf in zip(run.refs, leaves, strict=True) if leaf.names}
        found: list[Ref] = []
        for start, end in pieces:
            if start == end:
                continue
            piece = Leaf(names[start:end], [rows[name] for name in names[start:end]])
            found.append(self._kept_or_stored(piece, known.get(piece.names[0])))
        return found

    def _store_inner(
        self,
        level: int,
        refs: Sequence[Ref],
        pieces: Sequence[tuple[int, int]],
        known: Mapping[str, tuple[Ref, Inner]],
    ) -> list[Ref]:
        return [
            self._kept_or_stored(inner_of(level, refs[start:end]), known.get(refs[start].name))
            for start, end in pieces
            if start < end
        ]

    def _kept_or_stored(self, node: Node, known: tuple[Ref, Node] | None) -> Ref:
        if known is None or known[1] != node:
            return store_node(self._writer, node, known if len(self._names) <= MOST_DIFFERENCES else None)
        count = sum(node.counts) if isinstance(node, Inner) else len(node.names)
        return Ref(node.names[0], known[0].id, count)


def _same_cuts(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    pieces: list[tuple[int, int]] = []
    end = 0
    for node in nodes:
        pieces.append((end, end + len(node.names)))
        end += len(node.names)
    return pieces
