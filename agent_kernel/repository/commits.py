"""Addresses, and what a store's structured objects hold: commits, entries of a tree, and manifests of values.

They are msgpack, encoded deterministically. A reader ignores fields it does not know, and nothing re-encodes an object
that it only passes on, so what a newer release added survives an older one. Choices are plain strings here, not
literals, for the same reason: a kind of commit that this release has not heard of must still be readable.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NewType

import msgspec
from blake3 import blake3

if TYPE_CHECKING:
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
    recent: tuple[
        tuple[str, bytes | None], ...
    ] = ()  # what differs from that tree: names and entries, None where one is gone

    def __repr__(self) -> str:
        """`<Commit cell [7] by ada, tree 1f2e3d4c, on 3f2a91c4: ~df, +model>`; code and messages may hold secrets."""
        cell = f" [{self.cell.number}]" if self.cell is not None and self.cell.number is not None else ""
        on = f", on {' and '.join(map(short, self.parents))}" if self.parents else ""
        changed = ", ".join(f"{change.how}{change.name}" for change in self.changed[:_NAMES]) or "no change"
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
