"""Store and read bytes of any length, a piece at a time and without copying.

Between commits the caller keeps `Pieces`: digests (xxh3) that tell fast which pieces are as they were, and their ids.
Only pieces that are new are hashed for their address (BLAKE3) and written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from xxhash import xxh3_128_digest

from agent_kernel.errors import DamagedObjectError
from agent_kernel.repository.commits import Blob
from agent_kernel.repository.ids import Kind, ObjectId, address, hex_of
from agent_kernel.repository.lists import load_list, store_list

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent_kernel.repository.objects import AtHand, Objects
    from agent_kernel.repository.writer import Writer
    from agent_kernel.storage import Buffer

INLINE: Final = 1024
SHORT_LIST: Final = 64
_BATCH: Final = 16  # pieces, up to 4 MB
_NOTHING: Final[Mapping[ObjectId, AtHand]] = {}
_UNREAD: Final[Mapping[ObjectId, bytes]] = {}


class Pieces(msgspec.Struct, frozen=True):
    """A buffer as it was stored: where it was cut, digests and ids of the pieces, and when they were known there.

    `exact`: the digests are known to be those of the stored pieces, and not only of what lives now.
    """

    cuts: tuple[int, ...]
    digests: tuple[bytes, ...]
    ids: tuple[ObjectId, ...]
    epoch: bytes | None = None
    exact: bool = False


def store_blob(
    writer: Writer,
    buffer: Buffer | Callable[[], Buffer],
    cuts: Sequence[int],
    digests: Sequence[bytes],
    known: Pieces | None = None,
) -> tuple[Blob, Pieces]:
    """Store what is new of a buffer.

    Args:
        buffer: the bytes, or a function that makes them, which is called when a piece of them is new.
        cuts: where its pieces end; see `plan_cuts` and `stream_cuts`.
        digests: xxh3-128 of the pieces; see `digest_pieces`.
        known: what the last call for this buffer returned.

    Returns:
        The blob, and what to remember of it. Its digests are of the bytes that were stored, which differ from `digests`
        where another thread changed the buffer meanwhile.
    """
    size = cuts[-1] if cuts else 0
    view: memoryview | None = None
    if size <= INLINE:
        inline = bytes(_view(buffer)) if size else b""
        return Blob(size, inline=inline), Pieces(tuple(cuts), tuple(digests), (), writer.epoch)
    reusable = _reusable(writer, known)
    exact = not reusable or (known is not None and known.exact)
    ids: list[ObjectId] = []
    stored: list[bytes] = []
    fresh: list[tuple[ObjectId, memoryview, bytes]] = []
    start = 0
    for end, digest in zip(cuts, digests, strict=True):
        id = reusable.get(digest)
        if id is None:
            # A copy, because another thread may write to the array meanwhile: address and bytes have to agree.
            view = _view(buffer) if view is None else view
            piece = bytes(view[start:end])
            digest = xxh3_128_digest(piece)
            id = reusable[digest] = address(piece)
            fresh.append((id, memoryview(piece), digest))
            if len(fresh) == _BATCH:
                writer.add_pieces(fresh)
                fresh = []
        ids.append(id)
        stored.append(digest)
        start = end
    writer.add_pieces(fresh)
    lengths = [end - begin for begin, end in zip([0, *cuts[:-1]], cuts, strict=True)]
    chunks = tuple(zip(ids, lengths, strict=True))
    pieces = Pieces(tuple(cuts), tuple(stored), tuple(ids), writer.epoch, exact)
    if len(chunks) > SHORT_LIST:
        return Blob(size, deep=store_list(writer, chunks)), pieces
    return Blob(size, chunks=chunks), pieces


def _view(buffer: Buffer | Callable[[], Buffer]) -> memoryview:
    return memoryview(buffer() if callable(buffer) else buffer).cast("B")


def _reusable(writer: Writer, known: Pieces | None) -> dict[bytes, ObjectId]:
    if known is None or len(known.digests) != len(known.ids):
        return {}
    if known.epoch == writer.epoch:  # nothing was deleted from the store since
        return dict(zip(known.digests, known.ids, strict=True))
    there = writer.present([Kind.CHUNK + id for id in known.ids])
    pairs = zip(known.digests, known.ids, strict=True)
    return {digest: id for digest, id in pairs if Kind.CHUNK + id in there}


def chunks_of(objects: Objects, blob: Blob) -> Sequence[tuple[ObjectId, int]]:
    """The chunks of a blob that is not inline, in order."""
    return load_list(objects, blob.deep) if blob.deep is not None else blob.chunks


def pieces_of(objects: Objects, blob: Blob, digests: Mapping[ObjectId, bytes] = _UNREAD) -> Pieces:
    """What to remember of a blob that was just read, given the digests of its chunks as `read_blob_into` gave them."""
    cuts: list[int] = []
    chunks = chunks_of(objects, blob) if blob.inline is None else ()
    for _, length in chunks:
        cuts.append((cuts[-1] if cuts else 0) + length)
    ids = tuple(id for id, _ in chunks)
    exact = bool(ids) and digests.keys() >= set(ids)
    return Pieces(tuple(cuts), tuple(map(digests.__getitem__, ids)) if exact else (), ids, exact=exact)


def read_blob(objects: Objects, blob: Blob, into: Buffer | None = None) -> bytes | bytearray | memoryview:
    """The bytes of a blob, each chunk checked.

    Args:
        into: a writable buffer of exactly `blob.size` bytes to fill. Fresh memory costs more than the copy, so
            hand in the array that the bytes are for.

    Raises:
        DamagedObjectError: a chunk is missing or is not what was stored; what is in the buffer is then of no use.
    """
    if blob.inline is not None and into is None:
        return blob.inline
    result: bytes | bytearray | memoryview = bytearray(blob.size) if into is None else into
    read_blob_into(objects, blob, memoryview(result).cast("B"))
    return result


def read_blob_into(
    objects: Objects, blob: Blob, target: memoryview, at_hand: Mapping[ObjectId, AtHand] = _NOTHING
) -> dict[ObjectId, bytes]:
    """Put the bytes of a blob into memory of exactly its size.

    Args:
        at_hand: memory that probably holds some of the chunks: what is there need not be read from the store.

    Returns:
        The xxh3-128 of each chunk.
    """
    if target.nbytes != blob.size:
        raise ValueError(f"the buffer has {target.nbytes} bytes and the blob {blob.size}")
    if blob.inline is not None or not blob.size:
        target[:] = blob.inline or b""
        return {}
    targets: dict[ObjectId, list[memoryview]] = {}
    start = 0
    for id, length in chunks_of(objects, blob):
        targets.setdefault(id, []).append(target[start : start + length])
        start += length
    if start != blob.size:
        digits = hex_of(blob.deep or next(iter(targets)))
        raise DamagedObjectError("blob", digits, f"its chunks have {start} bytes where {blob.size} were stored")
    return objects.read_into(Kind.CHUNK, targets, at_hand)
