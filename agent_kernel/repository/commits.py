"""What a store's structured objects hold: commits, their trees, entries of a tree, manifests of values; and walks over commits.

They are msgpack, encoded deterministically. A reader ignores fields it does not know, and nothing re-encodes an object
that it only passes on, so what a newer release added survives an older one. Choices are plain strings here, not
literals, for the same reason: a kind of commit that this release has not heard of must still be readable.
"""

from __future__ import annotations

import heapq
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NewType, TypeAlias

import msgspec
from blake3 import blake3
from xxhash import xxh3_64_intdigest

if TYPE_CHECKING:
    from agent_kernel.repository.objects import Objects, Writer
    from agent_kernel.storage import Buffer


# -- addresses of objects, and the kind byte that stands before an address in a key
#
# An id is the BLAKE3 of an object's uncompressed payload and one algorithm byte, so that another hash can be added
# without guessing. The id never depends on the kind: the kind says which part of the store to look in.

ObjectId = NewType("ObjectId", bytes)

ALGORITHM: Final = b"\x01"  # BLAKE3, 32 bytes
ID_SIZE: Final = 33

# Of objects that are stored as differences, how many bases there are, each below the other: a reader fetches them one by one.
MOST_DEPTH: Final = 7
DEEPEST: Final = 31  # of what changes with each commit, and is seldom read as it was


class Kind:
    """The first byte of a key: what the object is."""

    COMMIT: Final = b"c"
    TREE: Final = b"t"
    MANIFEST: Final = b"m"
    CHUNK: Final = b"b"
    LIST: Final = b"l"
    DEFINITION: Final = b"d"
    OUTPUTS: Final = b"o"
    SMALL: Final = b"s"


KIND_NAMES: Final[dict[bytes, str]] = {
    Kind.COMMIT: "commit",
    Kind.TREE: "tree",
    Kind.MANIFEST: "manifest",
    Kind.CHUNK: "chunk",
    Kind.LIST: "chunk list",
    Kind.DEFINITION: "definition",
    Kind.OUTPUTS: "output",
    Kind.SMALL: "small object",
}


def address(payload: Buffer) -> ObjectId:
    """The id under which these bytes are stored."""
    return ObjectId(blake3(payload).digest() + ALGORITHM)


def hex_of(id: ObjectId) -> str:
    """The 64 digits that people and logs see."""
    return id[:-1].hex()


def revision_text(rev: object) -> str:
    """A revision as text: the id of a commit, as `history` and reports have it, is its digits.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(rev, str):
        return rev
    if isinstance(rev, bytes) and len(rev) == ID_SIZE:
        return hex_of(ObjectId(rev))
    raise TypeError(f"a revision is text, such as 'HEAD~1', or the id of a commit, not {rev!r}")


def short(id: ObjectId, n: int = 8) -> str:
    """The first digits, enough to tell commits apart by eye."""
    return id.hex()[:n]


def kind_of(key: bytes) -> bytes:
    return key[:1]


def id_of(key: bytes) -> ObjectId:
    return ObjectId(key[1:])


_NAMES: Final = 6  # that a commit's repr spells out
NO_CHAT: Final = ObjectId(b"")  # for `chat`: no conversation at all
ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


# One letter a field: a commit is stored for every cell, and a manifest of a number inside the tree.
_AUTHOR_KEYS = {"name": "n", "kind": "k"}
_CELL_KEYS = {"source": "s", "id": "i", "number": "n", "duration_s": "d", "error": "e", "outputs": "o"}
_COMMIT_KEYS = {
    "tree": "t",
    "parents": "p",
    "author": "a",
    "time_ns": "n",
    "utc_offset_s": "z",
    "message": "m",
    "kind": "k",
    "status": "s",
    "cell": "c",
    "changed": "d",
    "unsaved": "u",
    "labels": "l",
    "random": "r",
    "cwd": "w",
    "session": "i",
    "run": "g",
    "step": "h",
    "restores": "b",
    "environment": "e",
    "notebook": "j",
    "chat": "f",
    "folders": "y",
    "document": "v",
    "records": "q",
    "recent": "x",
    "set_in_libraries": "o",
}
_MANIFEST_KEYS = {
    "layout": "y",
    "blobs": "b",
    "definitions": "d",
    "classes": "c",
    "slots": "n",
    "size": "z",
    "packages": "p",
    "unsaved": "u",
}


class Author(msgspec.Struct, frozen=True, omit_defaults=True, rename=_AUTHOR_KEYS):
    """Who wrote the code of a commit."""

    name: str
    kind: str = "person"  # or "agent"


def person() -> Author:
    """Who sits here, as the system knows them; `AGENT_KERNEL_AUTHOR` overrides it."""
    import getpass

    name = os.environ.get("AGENT_KERNEL_AUTHOR", "")
    if not name:
        try:
            name = getpass.getuser()
        except (KeyError, OSError):  # a container whose user has no entry
            name = "user"
    return Author(name)


class Cell(msgspec.Struct, frozen=True, omit_defaults=True, rename=_CELL_KEYS):
    """The notebook cell whose run a commit records."""

    source: str
    id: str = ""
    number: int | None = None
    duration_s: float = 0.0
    error: str = ""
    outputs: ObjectId | None = None


class Change(msgspec.Struct, frozen=True, array_like=True):
    """One variable that a commit added, changed or removed."""

    name: str
    how: str  # "+", "~" or "-"
    size: int = 0  # bytes of the value; 0 if removed


class Unsaved(msgspec.Struct, frozen=True, array_like=True):
    """One variable that could not be saved, and what the reader can do about it.

    `stored`: it is saved, and only loading it failed where the commit was made.
    """

    name: str
    type: str
    reason: str
    remedy: str = ""
    stored: bool = False


class Document(msgspec.Struct, frozen=True, array_like=True):
    """The notebook's document beside a commit: a chunk for each of its cells, so that commits share those that stay."""

    name: str
    saved_ns: int
    language: str = ""
    cells: ObjectId | None = None  # a chunk list, see `lists`; None: no cells


Recent: TypeAlias = tuple[tuple[str, bytes | None], ...]  # names and entries, None where one is gone


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_COMMIT_KEYS):
    """One state of all variables, and how it came about."""

    tree: ObjectId
    parents: tuple[ObjectId, ...] = ()
    author: Author
    time_ns: int  # raised by publish where needed, so that a child is always younger than its parents
    utc_offset_s: int = 0
    message: str = ""
    kind: str = "commit"  # cell, commit, rollback, merge, cherry-pick, undo, redo, root, ...
    status: str = "ok"  # ok, failed, interrupted
    cell: Cell | None = None
    changed: tuple[Change, ...] = ()
    unsaved: tuple[Unsaved, ...] = ()
    labels: tuple[str, ...] = ()
    random: ObjectId | None = None
    cwd: str = ""
    session: str = ""
    run: str = ""
    step: int | None = None
    restores: ObjectId | None = None
    environment: ObjectId | None = None
    notebook: ObjectId | None = None  # the whole document as one object: earlier releases wrote this
    chat: ObjectId | None = (
        None  # whose conversation with agents goes on here, where it is not that of its tree; or NO_CHAT
    )
    folders: tuple[str, ...] = ()  # that modules were imported from, beside installed ones and `cwd`
    document: Document | None = None
    records: ObjectId | None = None  # a tree of records, by collection and id; None: there are none
    recent: Recent = ()  # what differs from that tree
    set_in_libraries: tuple[
        str, ...
    ] = ()  # what cells set in the process beside variables, as `pandas.DataFrame.total`

    def __repr__(self) -> str:
        """`<Commit cell [7] by ada, tree 1f2e3d4c, on 3f2a91c4: ~df, +model>`; code and messages may hold secrets."""
        cell = f" [{self.cell.number}]" if self.cell is not None and self.cell.number is not None else ""
        on = f", on {' and '.join(map(short, self.parents))}" if self.parents else ""
        changed = ", ".join(f"{change.how}{change.name}" for change in self.changed[:_NAMES]) or "no variable changed"
        more = f" and {len(self.changed) - _NAMES} more" if len(self.changed) > _NAMES else ""
        return f"<Commit {self.kind}{cell} by {self.author.name}, tree {short(self.tree)}{on}: {changed}{more}>"


class Blob(msgspec.Struct, frozen=True, array_like=True):
    """Bytes of any length: inline, as a list of chunks, or as a tree of such lists."""

    size: int
    inline: bytes | None = None
    chunks: tuple[tuple[ObjectId, int], ...] = ()
    deep: ObjectId | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_MANIFEST_KEYS):
    """How to put one value together again. The layout's meaning belongs to `agent_kernel.values`."""

    layout: bytes = b""
    blobs: tuple[Blob, ...] = ()
    definitions: tuple[ObjectId, ...] = ()
    classes: tuple[str, ...] = ()  # names of tree entries that loading needs
    slots: int = 1
    size: int = 0
    packages: dict[str, str] = {}
    unsaved: tuple[Unsaved, ...] = ()


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a tree holds for one name: a slot of a value, and a preview that can be shown without loading it."""

    value: bytes = b""  # the manifest itself where it is small
    manifest: ObjectId | None = None
    slot: int = 0
    alias_group: str = ""  # the first name of those that share this value; "" or its own name if it is alone
    preview: bytes = b""  # inline, or the id of a small object if it has an id's length
    own: bytes = b""  # of what the name's value is without those that share it; empty in entries of earlier releases

    @property
    def shared_value(self) -> tuple[str, ObjectId | None] | None:
        """The same for all names of a tree that share a value; None if no other name shares it.

        The name of the group alone does not tell: names that left it may be in another one of the same first name.
        """
        return (self.alias_group, self.manifest) if self.alias_group else None

    def is_same_value(self, other: Entry | None) -> bool:
        """Whether both stand for the same stored value. Previews do not count: they may be improved later."""
        return other is not None and (
            (self.value, self.manifest, self.slot, self.alias_group)
            == (other.value, other.manifest, other.slot, other.alias_group)
        )


_COMMIT = msgspec.msgpack.Decoder(Commit)
_MANIFEST = msgspec.msgpack.Decoder(Manifest)
_ENTRY = msgspec.msgpack.Decoder(Entry)


def encode(value: msgspec.Struct) -> bytes:
    """The bytes of a structure; equal structures give equal bytes on every machine."""
    return ENCODER.encode(value)


def decode_commit(payload: bytes) -> Commit:
    return _COMMIT.decode(payload)


def decode_manifest(payload: bytes) -> Manifest:
    return _MANIFEST.decode(payload)


def decode_entry(row: bytes) -> Entry:
    return _ENTRY.decode(row)


def amend(payload: bytes, **fields: object) -> bytes:
    """Replace some fields of an encoded commit, keeping those that this release does not know."""
    stored: dict[str, Any] = msgspec.msgpack.decode(payload)
    cell = fields.get("cell")
    if isinstance(cell, Cell):
        known: dict[str, Any] = msgspec.msgpack.decode(encode(cell))
        before: dict[str, Any] = stored.get(_COMMIT_KEYS["cell"]) or {}
        unknown = {key: value for key, value in before.items() if key not in _CELL_KEYS.values()}
        fields["cell"] = {**unknown, **known}
    default = {_COMMIT_KEYS[field.name]: field.default for field in msgspec.structs.fields(Commit)}
    stored.update({_COMMIT_KEYS[name]: value for name, value in fields.items()})
    return ENCODER.encode({name: value for name, value in stored.items() if value != default.get(name, ...)})


def preview_id(entry: Entry) -> ObjectId | None:
    """The small object that holds this entry's preview, if it is not inline."""
    return ObjectId(entry.preview) if len(entry.preview) == ID_SIZE else None


# -- a tree: an immutable, sorted, canonical mapping of names to entries
#
# It is a Merkle B-tree cut at content-defined boundaries, so that equal mappings have equal ids however they were made,
# commits share all nodes that did not change, and a comparison skips what is equal.
#
# The nodes as bytes: leaves hold rows, inner nodes hold references to nodes one level down.
#
# Rows are entries still encoded: most edits, comparisons and walks never need to look inside.
#
# Where a sequence is cut into nodes follows from its content alone. An item starts a node if its hash is smaller than
# those of `reach` items on either side. So equal sequences are cut equally however they came about, an edit moves cuts
# only within `reach` of it, and a node has at least `reach + 1` items (save the last), about `2 * reach + 1` on average,
# and rarely twice that. (Cutting where a hash falls below a limit, as most such trees do, gives nodes so uneven that an
# edit rewrites almost twice as much.)

# Averages of 13 names in a leaf and 41 children in an inner node. A leaf is stored with each of its changes, and whole again before long;
# what changes in an inner node is the id of a child, and each level of them is another object to be stored.
LEAF_REACH: Final = 6
INNER_REACH: Final = 20
MOST_DIFFERENCES: Final = 100  # changes in an edit; beyond that, finding differences costs more time than it is worth


class Leaf(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Names in order, and their rows."""

    names: list[str]
    rows: list[bytes]


class Inner(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """References to the nodes below: the first name of each, its id and how many names it holds.

    Formats before 8 cut these at a reach of 6. Such a tree is read as it is, and cut anew above its leaves when it is changed.
    """

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


class WideInner(Inner, frozen=True, array_like=True, tag=2):
    """The same, cut at today's reach."""


def _id_in(ids: bytes, place: int) -> ObjectId:
    return ObjectId(ids[place * ID_SIZE : (place + 1) * ID_SIZE])


Node: TypeAlias = Leaf | Inner


class Ref(NamedTuple):
    """A node as its parent knows it."""

    name: str  # the first in it
    id: ObjectId
    size: int  # names below it


_DECODER: msgspec.msgpack.Decoder[Node] = msgspec.msgpack.Decoder(Leaf | Inner | WideInner)


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


def _store_with_child(
    writer: Writer, old: tuple[ObjectId, Inner], place: int, child: ObjectId, most_depth: int
) -> ObjectId:
    """Store a node with another child in one place. Only its id differs in the bytes, so nothing is encoded for that."""
    id, node = old
    start = place * ID_SIZE
    ids = b"".join((node.ids[:start], child, node.ids[start + ID_SIZE :]))
    before = ENCODER.encode(node)
    start += before.index(node.ids)
    payload = b"".join((before[:start], child, before[start + ID_SIZE :]))
    made = WideInner(node.level, node.names, ids, node.counts)
    span = start, start + ID_SIZE
    return writer.add(Kind.TREE, payload, False, decoded=made, base=(id, before), most_depth=most_depth, span=span)


def inner_of(level: int, refs: Sequence[Ref]) -> WideInner:
    return WideInner(level, [ref.name for ref in refs], b"".join([ref.id for ref in refs]), [ref.size for ref in refs])


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
        if not refs:
            return store_node(self._writer, Leaf([], [])).id
        return self._without_lone_parents(_store_above(self._writer, level, refs))

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
                WideInner(
                    level, fresh_names[start:end], fresh[start * ID_SIZE : end * ID_SIZE], fresh_counts[start:end]
                ),
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


def _store_above(writer: Writer, level: int, refs: list[Ref]) -> ObjectId:
    """Store what leads to all these nodes of one level; returns the id of the root."""
    while len(refs) > 1:
        level += 1
        pieces = cut([ref.name for ref in refs], level, at_end=True)
        refs = [store_node(writer, inner_of(level, refs[start:end])) for start, end in pieces]
    return refs[0].id


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

    def leaf_ids(self) -> list[ObjectId]:
        """The ids of the nodes that hold the rows, in order of the names. Does not read these nodes, unless the root is one."""
        ids = [self.id]
        while ids and level_of((nodes := self._nodes(ids))[0]):
            ids = _children(nodes)
            if level_of(nodes[0]) == 1:
                break
        return ids

    def leaf_rows(self, ids: Sequence[ObjectId]) -> list[list[tuple[str, bytes]]]:
        """The names and encoded entries in each of these nodes."""
        return [list(self._rows(node, "")) for node in self._nodes(ids)]

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
        is_old = type(self._node(self.id)) is Inner
        if len(changes) == 1 and not is_old:
            ((name, row),) = changes.items()
            replaced = self._replace_row(writer, name, row, most_depth)
            if replaced is not None:
                return replaced
        before = self._present(changes)
        needed = {name: row for name, row in changes.items() if before.get(name) != row}
        if not needed:
            return self
        if is_old:
            return self._cut_anew(writer).edit_rows(writer, needed, most_depth=most_depth)
        moving = sorted(name for name, row in needed.items() if (row is None) == (name in before))
        return Tree(self._objects, TreeEditor(self._objects, writer, needed, moving, most_depth).apply(self.id))

    def _replace_row(self, writer: Writer, name: str, row: bytes | None, most_depth: int) -> Tree | None:
        """The tree in which one name that it has holds another row, as most cells leave one; None if names come or go."""
        path: list[tuple[ObjectId, Inner, int]] = []
        id, node = self.id, self._node(self.id)
        while isinstance(node, Inner):
            place = max(bisect_right(node.names, name) - 1, 0)
            path.append((id, node, place))
            id = node.child(place)
            node = self._node(id)
        place = bisect_left(node.names, name)
        known = node.rows[place] if place < len(node.names) and node.names[place] == name else None
        if known == row:
            return self
        if known is None or row is None:
            return None
        leaf = Leaf(node.names, [*node.rows[:place], row, *node.rows[place + 1 :]])
        made = store_node(writer, leaf, (Ref("", id, 0), node), most_depth).id
        for id, above, place in reversed(path):  # no cut moves, for names alone decide where these are
            made = _store_with_child(writer, (id, above), place, made, most_depth)
        return Tree(self._objects, made)

    def _cut_anew(self, writer: Writer) -> Tree:
        """The same rows in the form that today's trees have: the leaves stay, and what leads to them is cut anew."""
        refs = [Ref("", self.id, 0)]
        while isinstance((nodes := self._nodes([ref.id for ref in refs]))[0], Inner):
            refs = [ref for node in nodes if isinstance(node, Inner) for ref in node.refs()]
        return Tree(self._objects, _store_above(writer, 0, refs))

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


# -- walks over commits
#
# A commit is always younger than its parents (publishing sees to it), so going back in order of time never shows a
# parent before a child and needs no look at the whole history. The searches below are git's.


_OURS, _THEIRS, _STALE = 1, 2, 4


class History:
    """The commits of one store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def commit(self, id: ObjectId) -> Commit:
        return self._objects.load(Kind.COMMIT, id, decode_commit)

    def walk(self, starts: Iterable[ObjectId], *, first_parent: bool = False) -> Iterator[tuple[ObjectId, Commit]]:
        """All commits that the starts reach, newest first."""
        queue = _Queue(self, starts)
        while queue:
            id, commit = queue.pop()
            yield id, commit
            queue.push(commit.parents[:1] if first_parent else commit.parents)

    def walk_of_name(self, start: ObjectId, name: str) -> Iterator[tuple[ObjectId, Commit]]:
        """Only the commits that changed one name. A merge that took it from one side is passed over to that side."""
        queue = _Queue(self, [start])
        while queue:
            id, commit = queue.pop()
            mine = self._row(commit, name)
            parents = [(parent, self.commit(parent)) for parent in commit.parents]
            same = next((parent for parent, before in parents if self._row(before, name) == mine), None)
            if same is not None:
                queue.push([same])
                continue
            if parents or mine is not None:
                yield id, commit
            queue.push(commit.parents)

    def merge_bases(self, ours: ObjectId, theirs: ObjectId) -> list[ObjectId]:
        """The best common ancestors, newest first: those that no other common ancestor reaches."""
        if ours == theirs:
            return [ours]
        marks = {ours: _OURS, theirs: _THEIRS}
        queue = _Queue(self, [ours, theirs])
        waiting = {ours, theirs}  # in the queue and not stale
        found: list[ObjectId] = []
        while waiting:
            id, commit = queue.pop()
            waiting.discard(id)
            mark = marks[id]
            if mark == _OURS | _THEIRS:
                found.append(id)
                mark |= _STALE
            for parent in commit.parents:
                seen = marks.get(parent, 0)
                marks[parent] = seen | mark
                if (seen | mark) & _STALE:
                    waiting.discard(parent)
                elif parent not in queue.visited:
                    waiting.add(parent)
            queue.push(commit.parents)
        return [id for id in found if not marks[id] & _STALE]

    def is_ancestor(self, older: ObjectId, newer: ObjectId) -> bool:
        """Whether `newer` reaches `older`; a commit is its own ancestor."""
        return any(id == older for id in self._since(newer, self.commit(older).time_ns))

    def missing_from(self, start: ObjectId, others: Iterable[ObjectId]) -> list[ObjectId]:
        """Commits that `start` reaches and none of the others does, newest first."""
        marks = dict.fromkeys(others, _THEIRS)
        if start in marks:
            return []
        queue = _Queue(self, [start, *marks])
        marks[start] = _OURS
        waiting = {start}
        found: list[ObjectId] = []
        while waiting:
            id, commit = queue.pop()
            waiting.discard(id)
            if marks[id] == _OURS:
                found.append(id)
            for parent in commit.parents:
                marks[parent] = marks.get(parent, 0) | marks[id]
                if marks[parent] & _THEIRS:
                    waiting.discard(parent)
                else:
                    waiting.add(parent)
            queue.push(commit.parents)
        return found

    def _since(self, start: ObjectId, oldest_ns: int) -> Iterator[ObjectId]:
        queue = _Queue(self, [start])
        while queue:
            id, commit = queue.pop()
            yield id
            if commit.time_ns > oldest_ns:
                queue.push(commit.parents)

    def _row(self, commit: Commit, name: str) -> bytes | None:
        return Tree(self._objects, commit.tree).row(name)


class _Queue:
    """Commits still to visit, youngest first, each once."""

    def __init__(self, history: History, starts: Iterable[ObjectId]) -> None:
        self._history = history
        self._heap: list[tuple[int, ObjectId]] = []
        self._commits: dict[ObjectId, Commit] = {}
        self._met: set[ObjectId] = set()
        self.visited: set[ObjectId] = set()
        self.push(starts)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, ids: Iterable[ObjectId]) -> None:
        for id in ids:
            if id not in self._met:
                self._met.add(id)
                commit = self._commits[id] = self._history.commit(id)
                heapq.heappush(self._heap, (-commit.time_ns, id))

    def pop(self) -> tuple[ObjectId, Commit]:
        _, id = heapq.heappop(self._heap)
        self.visited.add(id)
        return id, self._commits.pop(id)
