"""How records lie in the commits of a branch: a row for each, in a tree or beside it, and pieces of documents that versions share."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

import msgspec
import zstandard

from agent_kernel.repository import Blob, Entry, Manifest, ObjectId, hex_of, read_blob
from agent_kernel.repository.commits import (
    DEEPEST,
    MOST_DEPTH,
    Kind,
    Recent,
    Tree,
    address,
    decode_entry,
    decode_manifest,
    encode,
)
from agent_kernel.repository.objects import PIECE, chunks_of, digest_pieces, store_blob

if TYPE_CHECKING:
    from agent_kernel.repository import Repository, Writer
    from agent_kernel.repository.objects import Objects

LIST: Final = "list"  # the collection of lists: what is added to one lies there
LIST_PART: Final = "list part"  # and what was added long ago here
_INLINE: Final = 1_024  # bytes of a row that lies in the tree itself
_MOST_RECENT: Final = 8  # records that a commit holds beside its tree: more, or longer ones, go into the tree
_MOST_RECENT_BYTES: Final = 8 << 10
_LEAST_PIECE: Final = 1_024  # bytes of a document that are stored together
_MOST_PIECE: Final = 16 << 10
_SHORT_END: Final = 256  # bytes of the end of a document that lie in the tree
_COMMA: Final = re.compile(rb',(?=["{\[0-9-])')  # what it begins with makes it quick: it looks at nothing else
_VALUE_ENDS: Final = frozenset(b'"]}0123456789el')
_CLOSES: Final = b"]}"


# Without `gc`: rows are read by the thousand and refer to nothing that could refer to them.
class Row(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """A record as it is stored."""

    version: int  # each change adds one; the first is 1, or follows that of a deleted record
    time_ns: int
    actor: str = ""
    expires_ns: int = 0  # 0: never
    schema: int = 1
    user: str = ""
    is_packed: bool = False
    is_sealed: bool = False  # with the key of its collection
    document: bytes = b""  # JSON
    keeps_past: bool = True  # whether the store's plane keeps this row when another takes its place
    is_final: bool = False  # no other version comes, with which it could share pieces
    is_growing: bool = False  # a final one will hold what it holds

    def is_expired(self, now_ns: int) -> bool:
        return 0 < self.expires_ns <= now_ns

    def text(self) -> bytes:
        """The JSON; of a sealed row, what it is encrypted to."""
        return zstandard.decompress(self.document) if self.is_packed and not self.is_sealed else self.document


_ROW: Final = msgspec.msgpack.Decoder(Row)


def decode_row(raw: bytes) -> Row:
    return _ROW.decode(raw)


class Version(msgspec.Struct, frozen=True):
    """What a record was from one change to the next; `row` is None where it was deleted."""

    row: Row | None
    time_ns: int
    actor: str = ""
    commit: str = ""  # 64 digits; "" for records of the store's plane


# -- entries


def encode_entry(writer: Writer, row: Row, known: Sequence[tuple[ObjectId, int]] = ()) -> bytes:
    """A short row lies in the tree. Of a long one its document lies beside, in pieces that its next version shares.

    Args:
        known: of a list, the pieces of its last version and their lengths.
    """
    raw = encode(row)
    if len(raw) <= _INLINE:
        return encode(Entry(value=encode(Manifest(blobs=(Blob(len(raw), inline=raw),), size=len(raw)))))
    document, end = row.document, b""
    cuts = _plan_cuts_of_list(document, known) if row.is_growing or row.is_final else plan_cuts(document)
    # It differs each time, and is no object for that. What follows the last piece of a list is no piece of any later version.
    longest_end = _LEAST_PIECE if row.is_growing else _SHORT_END
    if len(cuts) > 1 and cuts[-1] - cuts[-2] <= longest_end:
        document, end, cuts = document[: cuts[-2]], document[cuts[-2] :], cuts[:-1]
    if row.is_final:
        cuts = _as_one(writer, document, cuts)
    head = encode(msgspec.structs.replace(row, document=end))
    body, _ = store_blob(writer, document, cuts, digest_pieces(document, cuts), apart=row.is_growing)
    return encode(Entry(value=encode(Manifest(blobs=(Blob(len(head), inline=head), body), size=len(raw)))))


def _as_one(writer: Writer, document: bytes, cuts: Sequence[int]) -> list[int]:
    """Where to cut a document that stays as it is: nowhere. Pieces that are there from earlier become parts of it."""
    if len(cuts) < 2 or len(document) > PIECE:
        return list(cuts)
    pieces = [document[start:end] for start, end in zip([0, *cuts], cuts, strict=False)]
    writer.store_within((address(document), document), [(address(piece), piece) for piece in pieces])
    return [len(document)]


def read_entry(repo: Repository, raw: bytes) -> bytes:
    """The row that an entry of a tree of records holds."""
    entry = decode_entry(raw)
    if entry.manifest is None:  # nearly always: a short row lies in the tree
        blobs = decode_manifest(entry.value).blobs
        if len(blobs) == 1 and (inline := blobs[0].inline) is not None:
            return inline
    head, *more = (bytes(read_blob(repo.objects, blob)) for blob in repo.read_manifest(entry).blobs)
    if not more:
        return head
    row = decode_row(head)
    return encode(msgspec.structs.replace(row, document=more[0] + row.document))


def plan_cuts(document: bytes) -> list[int]:
    """Where the pieces of a document end: between values, so that one that grows or changes shares the others.

    What closes a list stays with what follows it: the last value is the same piece when another one comes after it.

    >>> text = b"x" * 2000
    >>> short, long = b'{"items":["%b","%b"]}' % (text, text), b'{"items":["%b","%b","%b"]}' % (text, text, text)
    >>> [plan_cuts(short), plan_cuts(long)]
    [[2012, 4015, 4017], [2012, 4015, 6018, 6020]]
    """
    cuts: list[int] = []
    quotes = _Quotes(document)
    start = 0
    while len(document) - start > _LEAST_PIECE:
        found = _end_of_value(document, quotes, start + _LEAST_PIECE, min(start + _MOST_PIECE, len(document)))
        if found is None and len(document) - start <= _MOST_PIECE:
            break
        start = start + _MOST_PIECE if found is None else found
        cuts.append(start)
    if start < len(document):
        cuts.append(len(document))
    return cuts


def _plan_cuts_of_list(document: bytes, known: Sequence[tuple[ObjectId, int]]) -> list[int]:
    """Where the pieces of a list end: as far as those that are known are in it, where they do; what was added is one more.

    So a change leaves one piece behind, however many items it adds: each piece is an entry in the store.
    """
    items_end = document.rfind(b'],"')
    if items_end < 0:
        return plan_cuts(document)
    while items_end > 0 and document[items_end - 1] in _CLOSES:
        items_end -= 1
    cuts: list[int] = []
    start = 0
    for id, length in known:
        if start + length > items_end or address(document[start : start + length]) != id:
            break
        start += length
        cuts.append(start)
    quotes = _Quotes(document)
    while items_end - start > _MOST_PIECE:
        found = _end_of_value(document, quotes, start + _MOST_PIECE // 2, start + _MOST_PIECE)
        start = start + _MOST_PIECE if found is None else found
        cuts.append(start)
    if items_end > start and len(document) - start > _LEAST_PIECE:
        start = items_end
        cuts.append(start)
    if start < len(document):
        cuts.append(len(document))
    return cuts


class _Quotes:
    """Tells, from the beginning of a document to its end, where texts are: a comma in one ends no value."""

    def __init__(self, document: bytes) -> None:
        self._document = document.replace(rb"\\", b"__") if b"\\" in document else document
        self._place, self._count = 0, 0

    def is_in_text(self, place: int) -> bool:
        if place < self._place:
            self._place, self._count = 0, 0
        self._count += self._document.count(b'"', self._place, place) - self._document.count(rb"\"", self._place, place)
        self._place = place
        return self._count % 2 == 1


def _end_of_value(document: bytes, quotes: _Quotes, low: int, high: int) -> int | None:
    """Where a value of JSON ends."""
    found = next(_ends_of_values(document, quotes, low, high), None)
    if found is not None:
        return found
    end = high
    while end > low and document[end - 1] in _CLOSES:
        end -= 1
    return end if end < high else None


def _ends_of_values(document: bytes, quotes: _Quotes, low: int, high: int) -> Iterator[int]:
    for comma in _COMMA.finditer(document, low, high):
        if quotes.is_in_text(comma.start()):
            continue
        end = comma.start()
        while end > low and document[end - 1] in _CLOSES:
            end -= 1
        if document[end - 1] in _VALUE_ENDS:
            yield end
        elif end < comma.start():
            yield end + 1


def _stored_pieces(writer: Writer, document: bytes) -> list[tuple[ObjectId, int]]:
    """Pieces of another list that this one begins with: it is a fork of that."""
    found: list[tuple[ObjectId, int]] = []
    quotes = _Quotes(document)
    start = 0
    while len(document) - start > _LEAST_PIECE:
        high = min(start + _MOST_PIECE + 1, len(document))
        ends = _ends_of_values(document, quotes, start + _LEAST_PIECE // 2, high)
        pieces = {Kind.CHUNK + address(document[start:end]): end - start for end in ends}
        present = writer.present(list(pieces))
        key = next((key for key in pieces if key in present), None)
        if key is None:
            break
        found.append((ObjectId(key[1:]), pieces[key]))
        start += pieces[key]
    return found


def entries_of(
    writer: Writer, rows: Mapping[str, Row | None], objects: Objects, before: Tree
) -> dict[str, bytes | None]:
    """The entries of a tree that stand for these rows. `before`: the tree that has their last versions."""

    def encoded(key: str, row: Row) -> bytes:
        is_list = row.is_growing or row.is_final
        if not is_list:
            return encode_entry(writer, row)
        last = before.row(unit_of(key))
        known = _stored_pieces(writer, row.document) if last is None else _pieces_in(objects, last)
        return encode_entry(writer, row, known)

    return {key: None if row is None else encoded(key, row) for key, row in rows.items()}


def _pieces_in(objects: Objects, raw: bytes) -> Sequence[tuple[ObjectId, int]]:
    """The pieces of the document in an entry, and their lengths; nothing if it is short."""
    entry = decode_entry(raw)
    blobs = decode_manifest(entry.value).blobs if entry.manifest is None else ()
    return chunks_of(objects, blobs[1]) if len(blobs) == 2 and blobs[1].inline is None else ()


def unit_of(key: str) -> str:
    """What goes together is named by its first key: a list with its parts."""
    collection, _, id = key.partition("\0")
    return f"{LIST}\0{id.rpartition('#')[0]}" if collection == LIST_PART else key


def name_of(unit: str) -> str:
    """How a person names the record: `Note:a`. No sign in it has a meaning in a conflict or on a command line."""
    collection, _, id = unit.partition("\0")
    return f"{quote(collection, safe='')}:{quote(id, safe='/@#.-_~')}"


def label_of(unit: str, field: str) -> str:
    r"""The name of what a field holds: its own, or of a field `value`, as a state has one, the last part of the record's id.

    >>> label_of("state\0ada/s/morning/api_key", "value"), label_of("Note\0a", "text")
    ('api_key', 'text')
    """
    return unit.partition("\0")[2].rpartition("/")[2] if field == "value" else field


def key_of(name: str) -> str:
    r"""The key of the record that a person names so, or of a list.

    >>> key_of("Note:a"), key_of(name_of("a:b\0c:d"))
    ('Note\x00a', 'a:b\x00c:d')
    """
    collection, _, id = name.partition(":")
    return f"{unquote(collection)}\0{unquote(id)}"


def is_counter(key: str) -> bool:
    """Whether a key is that of the largest version which a deleted record had, and none of a record."""
    return key.startswith("\0")


# -- trees


class RecordTree(Tree):
    """The records of a commit: its tree of them, and what it holds beside that."""

    def __init__(self, objects: Objects, id: ObjectId, recent: Mapping[str, bytes | None]) -> None:
        super().__init__(objects, id)
        self.recent = recent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and other.id == self.id and recent_of(other) == self.recent

    def __hash__(self) -> int:
        return hash(self.id)

    def __len__(self) -> int:
        return super().__len__() + sum(
            (row is not None) - (super(RecordTree, self).row(name) is not None) for name, row in self.recent.items()
        )

    def change(self, writer: Writer, entries: Mapping[str, bytes | None]) -> RecordTree:
        """The records with some changed: beside the tree as long as these are few, for each node of a tree is an object."""
        changed = {**self.recent, **entries}
        recent = {name: row for name, row in changed.items() if row is not None or super(RecordTree, self).row(name)}
        size = sum(len(name) + len(row or b"") for name, row in recent.items())
        if len(recent) <= _MOST_RECENT and size <= _MOST_RECENT_BYTES:
            return RecordTree(self._objects, self.id, recent)
        return RecordTree(self._objects, self.edit_rows(writer, entries, most_depth=DEEPEST).id, {})

    def recent_rows(self) -> Recent:
        """What a commit holds beside its tree."""
        return tuple(sorted(self.recent.items()))

    def row(self, name: str) -> bytes | None:
        return self.recent[name] if name in self.recent else super().row(name)

    def rows(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        recent = {name: row for name, row in self.recent.items() if name.startswith(prefix)}
        return _overlaid(super().rows(prefix), sorted(recent.items())) if recent else super().rows(prefix)

    def names_back(self, prefix: str = "") -> Iterator[str]:
        recent = {name: row for name, row in self.recent.items() if name.startswith(prefix)}
        kept = (name for name in super().names_back(prefix) if name not in recent)
        new = sorted((name for name, row in recent.items() if row is not None), reverse=True)
        return heapq.merge(kept, new, reverse=True)

    def diff_rows(self, other: Tree) -> list[tuple[str, bytes | None, bytes | None]]:
        beside = self.recent.keys() | recent_of(other).keys()
        stored = super().diff_rows(other)
        if not beside:
            return stored
        rows = [one for one in stored if one[0] not in beside]
        rows += [(name, self.row(name), other.row(name)) for name in beside]
        return sorted((one for one in rows if one[1] != one[2]), key=itemgetter(0))

    def edit_rows(self, writer: Writer, changes: Mapping[str, bytes | None], *, most_depth: int = MOST_DEPTH) -> Tree:
        """One tree of all of them."""
        return Tree(self._objects, self.id).edit_rows(writer, {**self.recent, **changes}, most_depth=most_depth)


def recent_of(tree: Tree) -> Mapping[str, bytes | None]:
    return tree.recent if isinstance(tree, RecordTree) else {}


def _overlaid(
    rows: Iterator[tuple[str, bytes]], recent: Sequence[tuple[str, bytes | None]]
) -> Iterator[tuple[str, bytes]]:
    """Rows with others in their place, in order of the names."""
    names = {name for name, _ in recent}
    kept = ((name, row) for name, row in rows if name not in names)
    new = ((name, row) for name, row in recent if row is not None)
    return heapq.merge(kept, new, key=itemgetter(0))


def tree_of(repo: Repository, commit: ObjectId | None) -> RecordTree:
    """The records of a commit."""
    found = None if commit is None else repo.commit_at(commit)
    root = repo.tree(None if found is None else found.records).id
    return RecordTree(repo.objects, root, {} if found is None else dict(found.recent))


def changed_records(
    repo: Repository, old: ObjectId | None, new: ObjectId | None, most: int | None = None
) -> tuple[tuple[str, ...], int]:
    """Which records differ between two commits, as a person names them, in order: `~Note:a`, `+Note:b`, `-Note:c`.

    Args:
        most: so many at most.

    Returns:
        The names, and how many others there are.
    """
    changed = changed_units(repo, old, new)
    names = tuple(f"{how}{name_of(unit)}" for unit, how in changed[:most])
    return names, len(changed) - len(names)


def changed_units(repo: Repository, old: ObjectId | None, new: ObjectId | None) -> list[tuple[str, str]]:
    """The keys of the records that differ between two commits, in order, each with `~`, `+` or `-`."""
    before, after = tree_of(repo, old), tree_of(repo, new)
    if before == after:
        return []
    units: dict[str, tuple[bool, bool]] = {}
    for key, was, row in before.diff_rows(after):
        unit = unit_of(key)
        if is_counter(key):
            continue
        if unit == key or unit not in units:
            units[unit] = (was is not None, row is not None) if unit == key else (True, True)
    signs = {(True, True): "~", (False, True): "+", (True, False): "-"}
    return [(unit, signs[sides]) for unit, sides in sorted(units.items())]


def history_from(repo: Repository, tip: ObjectId | None, key: str) -> Iterator[Version]:
    for id, commit in repo.history.walk([tip] if tip is not None else []):
        before = next(iter(commit.parents), None)
        was, now = tree_of(repo, before), tree_of(repo, id)
        if was == now:
            continue
        old, new = was.row(key), now.row(key)
        if old != new:
            row = None if new is None else decode_row(read_entry(repo, new))
            actor = commit.author.name if row is None else row.actor
            yield Version(row, commit.time_ns if row is None else row.time_ns, actor, hex_of(id))
