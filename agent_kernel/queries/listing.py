"""The list: which commits, under which days, in which folds, how the graph runs through them, and what all answers need.

A list is worked out as a whole, since every page needs to know what stands above it, but only as far as the shape goes:
what a row says is read when the row is asked for. A closed fold is one node of the graph. With a filter, a commit's
parents are the nearest ancestors that are listed, and the line to one that is not a neighbour is dashed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec

from agent_kernel.agents.agent_undo import find_elsewhere_error, is_race
from agent_kernel.agents.approval import open_question, run_status
from agent_kernel.agents.event_log import (
    EventStore,
    active_seconds,
    candidate_on,
    describe_temporary,
    short_run,
    state_of,
    steps_in,
    usage_of,
)
from agent_kernel.agents.events import (
    Action,
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Clarify,
    Fail,
    Output,
    StepStart,
    TaskStart,
)
from agent_kernel.agents.messages import open_action, start_event
from agent_kernel.commands.history import NOTHING, Finder, Record, Step, Strand, Timeline, View, assign
from agent_kernel.queries.wording import (
    Author,
    CommitRow,
    DayRow,
    FoldRow,
    Graph,
    Line,
    Part,
    Ref,
    Row,
    RunFacts,
    RunStatus,
    Side,
    Stopped,
    WaitRow,
    chips_of,
    combine_changes,
    commit_text,
    counts_of,
    node_of,
    prompts,
    select_changed,
    shorten_line,
    step_called,
    subject_of,
    why,
)
from agent_kernel.repository import ObjectId, hex_of, person, short
from agent_kernel.session.history import Kernels, about, by_name, grown, grown_between, prompt, ranks, ranks_of
from agent_kernel.text import plural
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.events import Event
    from agent_kernel.repository import Commit
    from agent_kernel.session import Repository
    from agent_kernel.storage import Store


# -- which commits stand together in the list: the steps of an agent's run, cells that changed nothing, runs of one cell
#
# The list has the order of time, but the commits of a run stand together, and those of its sub-agents with them, also where
# others were made meanwhile. No commit may stand below its parent, so a run is in several pieces where somebody else's
# commits lie between its own.


class Piece:
    """Commits that stand next to each other, newest first. `run`: the agent's run that they are."""

    __slots__ = ("day", "records", "run")

    def __init__(self, record: Record, day: int, run: str) -> None:
        self.records = [record]
        self.day = day
        self.run = run

    @property
    def why(self) -> str:
        """Why they may stand as one row: run, nothing, repeated; "": they may not."""
        if self.run:
            return "run"
        return "" if len(self.records) < 2 else "nothing" if self.records[0].mark == NOTHING else "repeated"


def pieces_of(view: View, tz_s: int) -> list[Piece]:
    """Commits one by one or, where they may stand as one row, together."""
    pinned = {view.head.commit, *view.branches.values(), *view.tags.values()}
    pieces: list[Piece] = []
    roots = _roots(view)
    last_of: dict[str, int] = {}  # where the piece of a run stands that may still grow
    floor: dict[ObjectId, int] = {}  # no piece before this one may hold it: one of its children stands there
    for record in view.order:
        day = day_of(record.time_ns, tz_s)
        root = roots.get(record.run or record.id, record.run)
        at = last_of.get(root, -1) if root else len(pieces) - 1
        fits = at >= floor.get(record.id, 0)
        if root and at >= 0 and fits:
            pieces[at].records.append(record)
        elif (
            not root and pieces and not pieces[-1].run and day == pieces[-1].day and _folds(pieces[-1], record, pinned)
        ):
            pieces[-1].records.append(record)
        else:
            pieces.append(Piece(record, day, root))
            at = len(pieces) - 1
            if root:
                last_of[root] = at
        for parent in record.parents:
            floor[parent] = max(floor.get(parent, 0), at)
    return pieces


def _roots(view: View) -> dict[str | ObjectId, str]:
    """The outermost run that each run of a sub-agent belongs to: one of its commits merged theirs.

    What a sub-agent left uncommitted is committed before the merge, as no step of any run: by its id.
    """
    outer: dict[str | ObjectId, str] = {}
    for record in view.order:
        if not record.run:
            continue
        for merged in (view.order[view.order_of[parent]] for parent in record.parents[1:]):
            inner = merged
            if not merged.run and merged.parents:
                inner = view.order[view.order_of[merged.parents[0]]]
            if inner.run and inner.run != record.run:
                outer.setdefault(inner.run, record.run)
                outer.setdefault(merged.id, record.run)
    return {one: _outermost(one, outer) for one in outer}


def _outermost(one: str | ObjectId, outer: Mapping[str | ObjectId, str]) -> str:
    seen = {one}
    while one in outer and outer[one] not in seen:
        one = outer[one]
        seen.add(one)
    return str(one)


def _folds(newer: Piece, older: Record, pinned: Collection[ObjectId | None]) -> bool:
    """Whether two neighbours may stand as one row. What a name points at stays in sight."""
    last = newer.records[-1]
    alike = last.mark == older.mark != 0 and last.parents == (older.id,)
    return alike and last.id not in pinned and older.id not in pinned


def day_of(time_ns: int, tz_s: int) -> int:
    """The reader's day, counted from 1970."""
    return (time_ns // 1_000_000_000 + tz_s) // 86_400


# -- which colour a commit has: that of the branch on whose line it was made
#
# A branch's line is its tip, the tip's first parent, and so on. Where lines run together, the part that they share
# belongs to the first of them: main (or, without one, the branch of HEAD), then the others by name. Colours are numbers:
# 0 is that first branch, the others count on from the oldest, so that a new branch changes no other's colour. Lines of
# branches that are gone come last.

_MAIN = "main"


class Colours(msgspec.Struct, frozen=True):
    """Colours of commits and of branches."""

    commits: Mapping[ObjectId, int]
    branches: Mapping[str, int]
    first: str | None  # the branch of colour 0


def colours_of(view: View) -> Colours:
    """The colours of everything in the view."""
    first = _MAIN if _MAIN in view.branches else view.head.branch if view.head.branch in view.branches else None
    names = sorted(view.branches, key=lambda name: (name != first, name))
    lines: dict[ObjectId, str] = {}
    own: dict[str, int] = {}  # when the oldest commit of its own was made
    for name in names:
        for id in _line(view, view.branches[name], lines):
            lines[id] = name
            own[name] = view.order[view.order_of[id]].time_ns
    newest = view.order[0].time_ns if view.order else 0
    ranked = sorted(names, key=lambda name: (name != first, own.get(name, newest + 1), name))
    branches = {name: colour for colour, name in enumerate(ranked)}
    commits = {id: branches[name] for id, name in lines.items()}
    _colour_rest(view, commits, len(branches))
    return Colours(commits, branches, first)


def _line(view: View, tip: ObjectId, taken: Container[ObjectId]) -> Iterator[ObjectId]:
    id: ObjectId | None = tip
    while id is not None and id not in taken and id in view.order_of:
        yield id
        parents = view.order[view.order_of[id]].parents
        id = parents[0] if parents else None


def _colour_rest(view: View, commits: dict[ObjectId, int], colour: int) -> None:
    """What no branch is on any more: each line a colour of its own, the oldest first."""
    lines: list[list[ObjectId]] = []
    taken = set(commits)
    for record in view.order:
        if record.id not in taken:
            lines.append(list(_line(view, record.id, taken)))
            taken.update(lines[-1])
    for number, line in enumerate(reversed(lines), colour):
        commits.update(dict.fromkeys(line, number))


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
        self.dashed: set[tuple[int, int]] = set()  # to a node that is not a neighbour

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
        ends = (_cap_lane(top), _cap_lane(bottom))
        found.setdefault(ends, (*ends, colour, dashed))
    return tuple(found.values())


def _cap_lane(lane: int | None) -> int | None:
    return None if lane is None else min(lane, _LAST_LANE)


def lay_out(
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
    remaining = [] if matching is not None or not fold else sorted(stopped_ns, key=lambda run: stopped_ns[run])

    def add_stopped_since(time_ns: int) -> None:
        nonlocal today
        while remaining and stopped_ns[remaining[-1]] > time_ns:
            run = remaining.pop()
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
        add_stopped_since(members[0].time_ns)
        if day != today:
            items.append(Item(len(nodes), day=_date(day)))
            today = day
        text = between[found[0].id] or between[members[0].id]
        if text:
            items.append(Item(len(nodes), day=_date(day), text=text))
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
    add_stopped_since(-1)
    keep = _tip_of_first(view, colours, node_of)
    return Listing(items, matches, rows, nodes, Edges(view, nodes, node_of), keep)


def _without_commits(asked_ns: Mapping[str, int], pieces: Sequence[Piece]) -> list[str]:
    """The runs that wait and have made no commit yet, newest first."""
    listed = {piece.run for piece in pieces}
    return sorted(asked_ns.keys() - listed, key=lambda run: -asked_ns[run])


def _parts(pieces: Sequence[Piece]) -> list[Part]:
    """Which part of its run each piece is."""
    remaining = Counter(piece.run for piece in pieces if piece.run)
    of = dict(remaining)
    found: list[Part] = []
    for piece in pieces:
        remaining[piece.run] -= 1
        is_first, is_last = remaining[piece.run] == 0, remaining[piece.run] == of.get(piece.run, 0) - 1
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
    while id is not None and id in view.order_of:
        if id in node_of:
            return node_of[id]
        parents = view.order[view.order_of[id]].parents
        id = parents[0] if parents else None
    return None


# -- the names that point at commits

_MOST_REFS = 20  # at one commit, HEAD's first


def _refs_by_commit(view: View, colours: Colours, agent_branches: Mapping[str, str]) -> dict[ObjectId, tuple[Ref, ...]]:
    """The names that point at each commit: HEAD's branch first, then branches, tags, and one label for what agents have there.

    Args:
        agent_branches: the branches that nobody named, each in words.
    """
    found: dict[ObjectId, list[Ref]] = {}
    agent_refs: dict[ObjectId, dict[str, str]] = {}
    head = view.head
    if head.commit is not None and head.branch is None:
        found[head.commit] = [Ref("head", "HEAD", True, None)]
    for name, at in sorted(view.branches.items(), key=lambda branch: (branch[0] != head.branch, branch[0])):
        if name != head.branch and name in agent_branches:
            agent_refs.setdefault(at, {})[name] = agent_branches[name]
            continue
        ref = Ref("branch", shorten_line(name, 200), name == head.branch, colours.branches[name])
        found.setdefault(at, []).append(ref)
    for name, at in sorted(view.tags.items()):
        found.setdefault(at, []).append(Ref("tag", shorten_line(name, 200), False, None))
    found = {at: refs[:_MOST_REFS] for at, refs in found.items()}
    for at, labels in agent_refs.items():
        first = next(iter(labels))
        names = shorten_line(", ".join(labels), 200)
        found.setdefault(at, []).append(
            Ref("aside", _summarize_branches(labels), False, colours.branches[first], names)
        )
    return {at: tuple(refs) for at, refs in found.items()}


def _summarize_branches(labels: Mapping[str, str]) -> str:
    """Several branches that nobody named in a few words: all of a race begin at one commit, and it has its own subject."""
    if len(labels) == 1:
        return next(iter(labels.values()))
    races = {candidate_on(name)[0] for name in labels}
    (race,) = races if len(races) == 1 else ("",)
    return f"{len(labels)} candidates of race {race}" if race else f"{len(labels)} branches of agents"


# -- what answers have in common: the repository, whose HEAD counts, and what was worked out of the history before

_MOST_LISTS = 4  # of one version that are kept


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which rows are listed."""

    text: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    show: Literal["all", "named", "errors"] = "all"
    tz_s: Annotated[int, msgspec.Meta(ge=-86_400, le=86_400)] = 0  # the reader's distance from UTC
    unfolded: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=80)], ...], msgspec.Meta(max_length=500)] = ()


class Position(NamedTuple):
    """Where the reader is (`agent_undo.Position`)."""

    repo: Repository
    id: str
    head: ObjectId | None


class Spread(msgspec.Struct, frozen=True):
    """One version of the history, laid open."""

    view: View
    colours: Colours
    refs: Mapping[ObjectId, tuple[Ref, ...]]
    lists: dict[tuple[object, ...], Listing]
    waiting: Mapping[str, ApprovalRequested | Clarify] = {}  # what each run that waits asks a person
    stopped: Mapping[str, int] = {}  # when each run stopped that made no commit and can go on, in nanoseconds
    agent_branches: Mapping[str, str] = {}  # the branches that agents have for a while, in words


class QueryContext:
    """One repository as one session sees it."""

    def __init__(self, repo: Repository, session_id: str) -> None:
        self.repo = repo
        self.session_id = session_id
        self.me = person().name
        self.lock = threading.RLock()
        self._timeline = Timeline(repo, session_id)
        self._finder = Finder(repo)
        self._spread: Spread | None = None

    def resolve(self, rev: str) -> tuple[ObjectId, Commit]:
        """The commit that a revision names; raises RefNotFoundError or AmbiguousRefError."""
        id = self.repo.resolve(rev, self.session_id)
        return id, self.repo.commit_at(id)

    def author(self, commit: Commit) -> Author:
        """Who wrote a commit."""
        name, is_agent = shorten_line(commit.author.name), commit.author.kind == "agent"
        return Author(name, "agent" if is_agent else "person", not is_agent and commit.author.name == self.me)

    def position(self) -> Position:
        """Where the reader is now."""
        return Position(self.repo, self.session_id, self.history_now().view.head.commit)

    def version(self) -> str:
        """Of the history now; it is laid out only once somebody asks for it."""
        with self.lock:
            return self._timeline.version()

    def history_now(self) -> Spread:
        """The history as it is now."""
        with self.lock:
            view = self._timeline.now()
            if self._spread is None or self._spread.view is not view:
                if self._spread is not None and self._spread.view.epoch != view.epoch:
                    self._finder = Finder(self.repo)  # nothing of what was forgotten stays here
                colours = colours_of(view)
                waiting = dict(filter(None, map(self._find_question, view.waiting)))
                agent_branches = describe_temporary(self.repo, EventStore(self.repo.store))
                refs = _refs_by_commit(view, colours, agent_branches)
                stopped = dict(self._find_stopped(view))
                self._spread = Spread(view, colours, refs, {}, waiting, stopped, agent_branches)
            return self._spread

    def _find_stopped(self, view: View) -> Iterator[tuple[str, int]]:
        event_store = EventStore(self.repo.store)
        without = set(event_store.find_stopped()) - {record.run for record in view.order}
        for run in without:
            events = tuple(event_store.of(run))
            if where_stopped(event_store, events)[0]:
                yield run, events[-1].time_ns

    def _find_question(self, run: str) -> tuple[str, ApprovalRequested | Clarify] | None:
        found = open_question(tuple(EventStore(self.repo.store).of(run)))
        return None if found is None else (run, found)

    def list_rows(self, query: Query) -> tuple[Spread, Listing]:
        """The rows of a query, and the history that they are of."""
        with self.lock:
            spread = self.history_now()
            key = (query.text, query.show, query.tz_s, query.unfolded)
            found = spread.lists.pop(key, None)
            if found is None:
                matching = self._finder.find(spread.view, query.text, query.show, query.tz_s)
                asked_ns = {run: request.time_ns for run, request in spread.waiting.items()}
                unfolded = frozenset(query.unfolded)
                found = lay_out(
                    spread.view,
                    spread.colours,
                    matching,
                    query.tz_s,
                    unfolded,
                    asked_ns=asked_ns,
                    stopped_ns=spread.stopped,
                )
            spread.lists[key] = found  # the one used last stands last
            for oldest in list(spread.lists)[:-_MOST_LISTS]:
                del spread.lists[oldest]
            return spread, found


def side_of(context: QueryContext, id: ObjectId, commit: Commit) -> Side:
    """The commit as one of two that are compared."""
    return Side(hex_of(id), short(id), prompt(commit), commit_text(commit), context.history_now().refs.get(id, ()))


# -- an agent's run as one row: its task, how it stands, what all its steps together changed, and what it took
#
# What the run's events say is read where they are still there; a run of which they were forgotten still has its commits.

_TASK = 200
_NOT_DONE = ("denied", "interrupted", "unknown")  # outputs of steps that did not run to their end


def run_row(context: QueryContext, fold: Fold, spread: Spread, graph: Graph) -> FoldRow:
    """The row of a run, whose steps follow where it is open."""
    commits = [context.repo.commit_at(record.id) for record in fold.members]
    own = [commit for commit in commits if commit.run == fold.run] or commits
    events = tuple(EventStore(context.repo.store).of(fold.run))
    usage = usage_of(events)
    changed = combine_changes(reversed(commits))
    chips, more = chips_of(changed, by_name(ranks(context.repo, changed[0], commits[0])))
    return FoldRow(
        id=fold.id,
        why="run",
        n=len(commits),
        matching=fold.matching,
        prompt=prompts(own[0], own[-1]),
        subject=task_of(events) or subject_of(own[0])[0],
        unfolded=fold.is_open,
        took_s=active_seconds(events) if events and not fold.part else cells_took(own),
        time_ms=commits[0].time_ns // 1_000_000,
        graph=graph,
        run=RunFacts(
            id=fold.run,
            short=short_run(fold.run),
            author=context.author(own[0]),
            status=status_of(context.repo.store, events, spread.view.undone),
            part=fold.part,
            # Of a run in several rows each says its own.
            steps=(0 if fold.part else steps_in(events)) or _steps(own),
            tokens=usage.tokens,
            cost=usage.cost,
            tip=hex_of(fold.members[0].id),
            refs=tuple(ref for record in fold.members for ref in spread.refs.get(record.id, ())),
            chips=chips,
            more=more,
            counts=counts_of(changed),
            stopped=find_stop(context, events) if fold.part in ("", "last") else None,
            grew=grown_between(
                context.repo, next(iter(commits[-1].parents), None), commits[0].tree, select_changed(chips)
            ),
        ),
    )


def cells_took(commits: Iterable[Commit]) -> float:
    """The seconds that the code of some commits ran."""
    return sum(commit.cell.duration_s for commit in commits if commit.cell is not None)


def make_wait_row(context: QueryContext, run: str, graph: Graph) -> WaitRow:
    """Make the row of a run that stopped before its first commit."""
    events = tuple(EventStore(context.repo.store).of(run))
    start = events[0]
    number = start.number if isinstance(start, TaskStart) else None
    return WaitRow(
        id=f"w{run}",
        run=run,
        depth=0,
        prompt="" if number is None else f"[{number}]",
        subject=task_of(events),
        is_code=False,
        author=Author(shorten_line(start.agent), "agent", False),
        waits_for="resume",
        time_ms=events[-1].time_ns // 1_000_000,
        graph=graph,
        stopped=find_stop(context, events),
    )


def find_stop(context: QueryContext, events: Sequence[Event]) -> Stopped | None:
    """Find where a run stopped that can go on. Returns None if it did not stop."""
    where, step = where_stopped(EventStore(context.repo.store), events)
    if not where:
        return None
    away = find_elsewhere_error(context.position(), events)
    done = [event for event in events if isinstance(event, Output) and event.step is not None]
    return Stopped(
        where=_mask_line(where),
        code=_code_of(events, step),
        done=sum(event.status not in _NOT_DONE for event in done),
        refused="" if away is None else f"{away.lies}: {away.way}",
        at=events[-1].seq,
        died=run_status(EventStore(context.repo.store), events) == "stopped",
    )


def where_stopped(event_store: EventStore, events: Sequence[Event]) -> tuple[str, int | None]:
    """Where a run stopped, in words, and in which step; "": it is done, waits, goes on, or belongs to one that can go on."""
    if not events or events[0].parent_run or is_race(events[0]):
        return "", None
    state = run_status(event_store, events)
    if state != state_of(events) and (newer := tuple(event_store.of(events[0].run, events[-1].seq))):
        return where_stopped(event_store, (*events, *newer))  # it went on since its events were read
    if state == "failed":
        failed = next(event for event in reversed(events) if isinstance(event, Fail))
        text = failed.reason if failed.reason.startswith("stopped after ") else f"stopped at a limit: {failed.reason}"
        return (text if failed.limit else ""), None
    action, since = open_action(events)
    step = action.step if action is not None else None
    if state == "decided":
        decided = next(event for event in reversed(since) if isinstance(event, ApprovalDecided))
        text = "denied" if decided.decision == "deny" else "approved"
        return f"step {step} was {text}, but the run has not resumed", step
    if state not in ("interrupted", "stopped"):
        return "", None
    last = next((event for event in reversed(events) if isinstance(event, Cancelled)), Cancelled())
    if state == "stopped":
        last = Cancelled(during="model", reason=_end_of_process(event_store, events[0]))  # nobody noted where
    return f"stopped {_moment(last, step, since)}{f' ({last.reason})' if last.reason else ''}", step or last.step


def _end_of_process(event_store: EventStore, start: Event) -> str:
    """That the process ended which drove a run; "" where it let the run go."""
    if not event_store.is_abandoned(start.run):
        return ""
    return "the kernel ended" if isinstance(start, TaskStart) and start.cell else "its process ended"


def _moment(last: Cancelled, step: int | None, since: Sequence[Event]) -> str:
    if step is not None:
        return f"{'in' if start_event(since) is not None else 'before'} step {step}"
    if last.step is not None:
        return f"in step {last.step}"
    return "while the model answered" if last.during == "model" else "between two steps"


def _code_of(events: Sequence[Event], step: int | None) -> str:
    """A line of the code that a step ran, or would have run."""
    if step is None:
        return ""
    own = [event for event in events if event.step == step]
    ran = next((event.code for event in reversed(own) if isinstance(event, StepStart)), "")
    meant = next((event.code or "" for event in own if isinstance(event, Action)), "")
    return code_line(ran or meant)[0]


def status_of(store: Store, events: Sequence[Event], undone: Collection[str]) -> RunStatus:
    """How a run stands. One that is not done and that nobody drives was interrupted: its process died, if nothing else."""
    if not events:
        return "completed"  # they were forgotten, its commits were not
    found = run_status(EventStore(store), events, undone)
    return "interrupted" if found == "stopped" else found


def _steps(own: Sequence[Commit]) -> int:
    return len({commit.step for commit in own if commit.step is not None}) or len(own)


def wait_row(
    context: QueryContext, run: str, request: ApprovalRequested | Clarify, graph: Graph, *, depth: int
) -> WaitRow:
    """The row of what a run asks a person. It stands by itself where the run has made no commit yet."""
    is_step = isinstance(request, ApprovalRequested)
    subject, is_code = (
        code_line(request.code) if isinstance(request, ApprovalRequested) else (_mask_line(request.question), False)
    )
    if not depth and is_step:
        subject, is_code = task_of((EventStore(context.repo.store).first(run),)), False
    return WaitRow(
        id=f"w{run}",
        run=run,
        depth=depth,
        prompt=f".{request.step}" if request.step is not None else "",
        subject=subject,
        is_code=is_code,
        author=Author(shorten_line(request.agent), "agent", False),
        waits_for="approval" if is_step else "answer",
        time_ms=request.time_ns // 1_000_000,
        graph=graph,
    )


def code_line(code: str) -> tuple[str, bool]:
    """The line that stands for a piece of code, and whether it is code and no comment."""
    masked, _ = previews.mask_code(code)
    line, is_code = about("", masked)
    return shorten_line(line, _TASK), is_code


def task_of(events: Sequence[Event]) -> str:
    """The first line of what a run was given to do; "" where that was forgotten."""
    start = events[0] if events else None
    return _mask_line(start.task) if isinstance(start, TaskStart) else ""


def _mask_line(text: str) -> str:
    return shorten_line(previews.mask_text(text.strip().partition("\n")[0]), _TASK)


# -- what the rows of a list say


def row_of(context: QueryContext, listing: Listing, item: Item, spread: Spread) -> Row:
    """One row."""
    graph = listing.graph(item, spread.colours)
    if item.record is not None:
        return _commit_row(context, item, item.record.id, spread.refs.get(item.record.id, ()), graph)
    if item.stopped:
        return make_wait_row(context, item.stopped, graph)
    if item.waits:
        return wait_row(context, item.waits, spread.waiting[item.waits], graph, depth=int(item.fold is not None))
    if item.fold is None:
        return DayRow(item.day, graph, item.text)
    if item.fold.why == "run":
        return run_row(context, item.fold, spread, graph)
    return _fold_row(context.repo, item.fold, graph)


def _commit_row(context: QueryContext, item: Item, id: ObjectId, refs: tuple[Ref, ...], graph: Graph) -> CommitRow:
    commit = context.repo.commit_at(id)
    subject, code = subject_of(commit)
    chips, more = chips_of((commit.changed, commit.unsaved), by_name(ranks_of(context.repo, commit)))
    return CommitRow(
        id=hex_of(id),
        short=short(id),
        depth=_depth(item, commit),
        prompt=f".{commit.step}" if item.fold is not None and commit.run and commit.step else prompt(commit),
        subject=subject,
        is_code=code,
        author=context.author(commit),
        node=node_of(commit),
        run=commit.run,
        why=why(commit),
        refs=refs,
        chips=chips,
        more=more,
        counts=counts_of((commit.changed, commit.unsaved)),
        took_s=commit.cell.duration_s if commit.cell is not None else None,
        time_ms=commit.time_ns // 1_000_000,
        graph=graph,
        called=step_called(commit),
        grew=grown(context.repo, commit, select_changed(chips)),
    )


def _depth(item: Item, commit: Commit) -> int:
    """How deep it stands: a step of a sub-agent stands below those of the run that it works for."""
    if item.fold is None:
        return 0
    return 2 if item.fold.run and commit.run != item.fold.run else 1


def _fold_row(repo: Repository, fold: Fold, graph: Graph) -> FoldRow:
    commits = [repo.commit_at(record.id) for record in fold.members]
    nothing = fold.why == "nothing"
    return FoldRow(
        id=fold.id,
        why="nothing" if nothing else "repeated",
        n=len(commits),
        matching=fold.matching,
        prompt=prompts(commits[0], commits[-1]),
        subject=f"{plural(len(commits), 'cell')} that changed nothing" if nothing else subject_of(commits[0])[0],
        unfolded=fold.is_open,
        took_s=sum(commit.cell.duration_s for commit in commits if commit.cell is not None),
        time_ms=commits[0].time_ns // 1_000_000,
        graph=graph,
    )
