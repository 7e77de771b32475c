"""The rows of a list: which commits, under which days, in which folds, and how the graph runs through them.

A list is worked out as a whole, since every page needs to know what stands above it, but only as far as the shape goes:
what a row says is read when the row is asked for. A closed fold is one node of the graph. With a filter, a commit's
parents are the nearest ancestors that are listed, and the line to one that is no neighbour is dashed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

import msgspec

from agent_kernel.browsing.answers import Graph, Line, Part
from agent_kernel.browsing.colours import Colours
from agent_kernel.browsing.gathering import Piece, day_of, pieces_of
from agent_kernel.repository import ObjectId, hex_of
from agent_kernel.session.labels import Kernels
from agent_kernel.verbs.history import Step, Strand, assign
from agent_kernel.verbs.timeline import Record, View

__all__ = ["Fold", "Item", "Listing", "listing_of"]

_LAST_LANE = 6  # lanes beyond the sixth are drawn as one
_MOST_PARENTS = 8  # of a listed commit, nearest first, where others are filtered out
_NONE: Mapping[str, int] = {}


class Fold(msgspec.Struct, frozen=True):
    """Neighbours that may stand as one row, newest first."""

    id: str
    why: str
    members: tuple[Record, ...]
    matching: int  # members that a filter leaves; 0: there is none
    is_open: bool
    run: str = ""  # the agent's run that it is
    part: Part = ""  # of a run that is several rows


class Item(msgspec.Struct, frozen=True, gc=False):
    """A row: a commit, a fold, what waits or stopped, or (none of these) the day of those that follow, or a `text` of its own.

    `node`: its place among the graph's nodes; of a step that waits that of the commit that it would follow on.
    """

    node: int
    record: Record | None = None
    fold: Fold | None = None
    day: str = ""
    text: str = ""
    waits: str = ""  # the run whose step it is
    stopped: str = ""  # a run that stopped before its first commit
    is_under: bool = False  # a step that waits stands right above this commit

    @property
    def is_node(self) -> bool:
        """Whether a node of the graph stands in this row, and not only lines."""
        return self.record is not None or (self.fold is not None and not self.fold.is_open)


class Listing:
    """All rows of a list. The graph is worked out from the top as far as somebody looks; one thread at a time."""

    def __init__(
        self,
        items: Sequence[Item],
        matches: int,
        rows: Mapping[ObjectId, int],
        nodes: Sequence[Sequence[Record]],
        edges: Edges,
        keep: int | None,
    ) -> None:
        self.items = items
        self.matches = matches
        self.rows = rows  # where each listed commit stands
        self._nodes = nodes  # the commits that stand in each
        self._edges = edges
        self._steps: list[Step[int]] = []
        self._more = assign(((node, edges.parents(node)) for node in range(len(nodes))), keep)

    def graph(self, item: Item, colours: Colours) -> Graph:
        """The piece of the graph beside a row."""
        self._steps.extend(islice(self._more, max(0, item.node + 1 - len(self._steps))))
        if item.node >= len(self._nodes) or (item.waits and item.fold is None):
            return Graph(0 if item.waits or item.stopped else None, 0, ())
        step = self._steps[item.node]
        colour = self._colour(item.node, colours)
        passing = [(at, strand) for at, strand in enumerate(step.above) if strand is not None]
        if item.waits:
            down = (None, step.lane, colour, 1)
            return Graph(
                min(step.lane, _LAST_LANE),
                colour,
                _unique([*((at, at, *self._how(strand, colours)) for at, strand in passing), down]),
            )
        if item.stopped:  # it follows on no commit that is listed: beside all lines
            free = max((at for at, _ in passing), default=-1) + 1
            lines = _unique([(at, at, *self._how(strand, colours)) for at, strand in passing])
            return Graph(min(free, _LAST_LANE), colour, lines)
        if not item.is_node:
            return Graph(None, colour, _unique([(at, at, *self._how(strand, colours)) for at, strand in passing]))
        into = [(at, None if strand.parent == item.node else at, *self._how(strand, colours)) for at, strand in passing]
        out = [(None, at, *self._how(strand, colours)) for at, strand in step.sent]
        above = [(step.lane, None, colour, 1)] if item.is_under else []
        return Graph(min(step.lane, _LAST_LANE), colour, _unique([*into, *out, *above]))

    def _how(self, strand: Strand[int], colours: Colours) -> tuple[int, int]:
        # A line is of the branch that it was drawn for: down to a first parent the child's, to others the parent's.
        node = strand.child if strand.is_first else strand.parent
        return self._colour(node, colours), int((strand.child, strand.parent) in self._edges.dashed)

    def _colour(self, node: int, colours: Colours) -> int:
        return colours.commits[self._nodes[node][0].id]


class Edges:
    """Which nodes follow on which, worked out node by node from the top."""

    def __init__(self, view: View, nodes: Sequence[Sequence[Record]], node_of: Mapping[ObjectId, int]) -> None:
        self._nodes = nodes
        self._node_of = node_of
        self._near = _nearest_listed(view, node_of)
        self.dashed: set[tuple[int, int]] = set()  # to a node that is no neighbour

    def parents(self, node: int) -> tuple[int, ...]:
        """The nodes that hold the parents, or else the nearest ancestors that are listed."""
        found: dict[int, None] = {}
        for record in self._nodes[node]:
            for parent in record.parents:
                to = self._node_of.get(parent)
                if to is not None and to != node:
                    self.dashed.discard((node, to))
                    found[to] = None
                for far in self._near.get(parent, ()) if to is None else ():
                    if far not in found and far != node:
                        self.dashed.add((node, far))
                        found[far] = None
        return tuple(found)


def _unique(lines: list[Line]) -> tuple[Line, ...]:
    """The lines with those of the last lanes drawn as one."""
    found: dict[tuple[int | None, int | None], Line] = {}
    for top, bottom, colour, dashed in lines:
        ends = (_capped(top), _capped(bottom))
        found.setdefault(ends, (*ends, colour, dashed))
    return tuple(found.values())


def _capped(lane: int | None) -> int | None:
    return None if lane is None else min(lane, _LAST_LANE)


def listing_of(
    view: View,
    colours: Colours,
    matching: Collection[ObjectId] | None,
    tz_s: int,
    unfolded: Collection[str] = (),
    *,
    fold: bool = True,
    asked_ns: Mapping[str, int] = _NONE,
    stopped_ns: Mapping[str, int] = _NONE,
) -> Listing:
    """Lay out the rows.

    Args:
        matching: the commits that a filter leaves; None: all of them.
        fold: whether neighbours stand as one row at all.
        asked_ns: the runs that wait for a person, which stand open, and when they asked.
        stopped_ns: the runs without a commit that stopped, and when.
    """
    items: list[Item] = []
    rows: dict[ObjectId, int] = {}
    node_of: dict[ObjectId, int] = {}  # also of what is folded away
    seen: set[str] = set()  # the runs whose waiting step is listed: one that was resumed may be in several pieces
    nodes: list[Sequence[Record]] = []
    matches, today = 0, -1
    pieces = pieces_of(view, tz_s)
    parts = _parts(pieces)
    without = [] if matching is not None or not fold else _without_commits(asked_ns, pieces)
    for run in without:  # they stand before all others: what waits is what there is to do
        if today < 0:
            today = max(day_of(asked_ns[run], tz_s), pieces[0].day if pieces else 0)
            items.append(Item(0, day=_date(today)))
        items.append(Item(0, waits=run))
    kernels = Kernels()
    left = [] if matching is not None or not fold else sorted(stopped_ns, key=lambda run: stopped_ns[run])

    def stopped_since(time_ns: int) -> None:
        nonlocal today
        while left and stopped_ns[left[-1]] > time_ns:
            run = left.pop()
            day = day_of(stopped_ns[run], tz_s)
            if day != today:
                items.append(Item(len(nodes), day=_date(day)))
                today = day
            items.append(Item(len(nodes), stopped=run))

    for piece, part in zip(pieces, parts, strict=True):
        members, day = piece.records, piece.day
        between = {one.id: kernels.before(one.id, next(iter(one.parents), None), one.session) for one in members}
        found = members if matching is None else [record for record in members if record.id in matching]
        if not found:
            continue
        matches += len(found)
        stopped_since(members[0].time_ns)
        if day != today:
            items.append(Item(len(nodes), day=_date(day)))
            today = day
        said = between[found[0].id] or between[members[0].id]
        if said:
            items.append(Item(len(nodes), day=_date(day), text=said))
        folded = None
        if fold and piece.why:
            folded = _fold(piece, part, 0 if matching is None else len(found), unfolded, asked_ns)
            items.append(Item(len(nodes), fold=folded))
        if folded is not None and not folded.is_open:
            rows.update((record.id, len(items) - 1) for record in found)
            node_of.update((record.id, len(nodes)) for record in members)
            nodes.append(members)
            continue
        waits = folded is not None and folded.run in asked_ns and folded.run not in seen
        if waits and folded is not None:
            seen.add(folded.run)
            items.append(Item(len(nodes), fold=folded, waits=folded.run))
        for at, record in enumerate(found):
            if at and between[record.id]:
                items.append(Item(len(nodes), day=_date(day), text=between[record.id]))
            rows[record.id] = len(items)
            node_of[record.id] = len(nodes)
            items.append(Item(len(nodes), record, folded, is_under=waits and not at))
            nodes.append((record,))
    stopped_since(-1)
    keep = _tip_of_first(view, colours, node_of)
    return Listing(items, matches, rows, nodes, Edges(view, nodes, node_of), keep)


def _without_commits(asked_ns: Mapping[str, int], pieces: Sequence[Piece]) -> list[str]:
    """The runs that wait and have made no commit yet, newest first."""
    listed = {piece.run for piece in pieces}
    return sorted(asked_ns.keys() - listed, key=lambda run: -asked_ns[run])


def _parts(pieces: Sequence[Piece]) -> list[Part]:
    """Which part of its run each piece is."""
    left = Counter(piece.run for piece in pieces if piece.run)
    of = dict(left)
    found: list[Part] = []
    for piece in pieces:
        left[piece.run] -= 1
        is_first, is_last = left[piece.run] == 0, left[piece.run] == of.get(piece.run, 0) - 1
        is_one = not piece.run or (is_first and is_last)
        found.append("" if is_one else "first" if is_first else "last" if is_last else "middle")
    return found


def _fold(piece: Piece, part: Part, matching: int, unfolded: Collection[str], asked_ns: Mapping[str, int]) -> Fold:
    # Named after its oldest commit, which stays the same while the fold grows.
    id = f"f{hex_of(piece.records[-1].id)[:16]}"
    is_open = id in unfolded or piece.run in asked_ns
    return Fold(id, piece.why, tuple(piece.records), matching, is_open, piece.run, part)


def _date(day: int) -> str:
    return (datetime.fromtimestamp(0, UTC) + timedelta(days=day)).strftime("%Y-%m-%d")


def _nearest_listed(view: View, node_of: Mapping[ObjectId, int]) -> dict[ObjectId, tuple[int, ...]]:
    """For each commit that is not listed, the nodes that its listed ancestors nearest to it stand in."""
    near: dict[ObjectId, tuple[int, ...]] = {}
    if len(node_of) == len(view.order):
        return near
    for record in reversed(view.order):
        if record.id in node_of:
            continue
        found: dict[int, None] = {}
        for parent in record.parents:
            to = node_of.get(parent)
            found.update(dict.fromkeys(near.get(parent, ()) if to is None else (to,)))
        near[record.id] = tuple(found)[:_MOST_PARENTS]
    return near


def _tip_of_first(view: View, colours: Colours, node_of: Mapping[ObjectId, int]) -> int | None:
    """The newest listed node of the branch that has the first lane."""
    if colours.first is None:
        return None
    id: ObjectId | None = view.branches[colours.first]
    while id is not None and id in view.places:
        if id in node_of:
            return node_of[id]
        parents = view.order[view.places[id]].parents
        id = parents[0] if parents else None
    return None
