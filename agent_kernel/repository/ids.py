"""Addresses of objects, and the kind byte that stands before an address in a key.

An id is the BLAKE3 of an object's uncompressed payload and one algorithm byte, so that another hash can be added
without guessing. The id never depends on the kind: the kind says which part of the store to look in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NewType

from blake3 import blake3

if TYPE_CHECKING:
    from agent_kernel.storage import Buffer

ObjectId = NewType("ObjectId", bytes)

ALGORITHM: Final = b"\x01"  # BLAKE3, 32 bytes
ID_SIZE: Final = 33


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
