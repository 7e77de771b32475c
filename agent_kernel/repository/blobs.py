"""Store and read bytes of any length, a piece at a time and without copying; and what a cell showed.

Between commits the caller keeps `Pieces`: digests (xxh3) that tell fast which pieces are as they were, and their ids.
Only pieces that are new are hashed for their address (BLAKE3) and written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar, cast

import msgspec
from xxhash import xxh3_128_digest

from agent_kernel.errors import DamagedObjectError, NewerFormatError
from agent_kernel.repository.commits import (
    ENCODER,
    ID_SIZE,
    Blob,
    Kind,
    ObjectId,
    address,
    encode,
    hex_of,
    spans,
    starts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_kernel.repository.objects import AtHand, Objects, Writer
    from agent_kernel.storage import Buffer


# -- long lists of chunks as objects, cut by content: a buffer with one changed chunk shares all list nodes but a path
#
# Only blobs of more than 64 chunks have them; shorter lists stand in the manifest.

REACH: Final = 16  # 33 chunks in a node on average: 1.2 KB, so that LMDB can put several on a page
LONGEST: Final = 128  # where all chunks are equal (a gigabyte of zeros) no hash is the smallest


class ListNode(msgspec.Struct, frozen=True, array_like=True):
    """Ids and lengths in bytes: of chunks at level 0, of nodes one level down above."""

    level: int
    ids: bytes
    sizes: list[int]

    def children(self) -> list[tuple[ObjectId, int]]:
        """(id, bytes below it), in order."""
        places = range(0, len(self.ids), ID_SIZE)
        return [(ObjectId(self.ids[at : at + ID_SIZE]), size) for at, size in zip(places, self.sizes, strict=True)]


_DECODER = msgspec.msgpack.Decoder(ListNode)


def decode_list(payload: bytes) -> ListNode:
    return _DECODER.decode(payload)


def store_list(writer: Writer, chunks: Sequence[tuple[ObjectId, int]]) -> ObjectId:
    """Store the list and return the id of its root."""
    level = 0
    items = list(chunks)
    while True:
        items = [_store_node(writer, level, items[start:end]) for start, end in _cut(items)]
        level += 1
        if len(items) == 1:
            return items[0][0]


def load_list(objects: Objects, root: ObjectId) -> list[tuple[ObjectId, int]]:
    """The chunks in order, read level by level."""
    nodes = objects.load_many(Kind.LIST, [root], decode_list)
    while nodes[0].level:
        below = [id for node in nodes for id, _ in node.children()]
        nodes = objects.load_many(Kind.LIST, below, decode_list)
    return [chunk for node in nodes for chunk in node.children()]


def _store_node(writer: Writer, level: int, items: Sequence[tuple[ObjectId, int]]) -> tuple[ObjectId, int]:
    sizes = [size for _, size in items]
    node = ListNode(level, b"".join([id for id, _ in items]), sizes)
    return writer.add(Kind.LIST, ENCODER.encode(node), compress=False, decoded=node), sum(sizes)


def _cut(items: Sequence[tuple[ObjectId, int]]) -> list[tuple[int, int]]:
    hashes = [int.from_bytes(id[:8], "little") for id, _ in items]
    natural = spans(starts(hashes, REACH), len(items))
    return [(at, min(at + LONGEST, end)) for start, end in natural for at in range(start, end, LONGEST)]


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
    *,
    apart: bool = False,
) -> tuple[Blob, Pieces]:
    """Store what is new of a buffer.

    Args:
        buffer: the bytes, or a function that makes them, which is called when a piece of them is new.
        cuts: where its pieces end; see `plan_cuts` and `stream_cuts`.
        digests: xxh3-128 of the pieces; see `digest_pieces`.
        known: what the last call for this buffer returned.
        apart: its pieces become parts of longer ones before long.

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
                writer.add_pieces(fresh, apart=apart)
                fresh = []
        ids.append(id)
        stored.append(digest)
        start = end
    writer.add_pieces(fresh, apart=apart)
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
    present = writer.present([Kind.CHUNK + id for id in known.ids])
    pairs = zip(known.digests, known.ids, strict=True)
    return {digest: id for digest, id in pairs if Kind.CHUNK + id in present}


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


# -- where a buffer is cut into chunks
#
# Arrays are cut at fixed places, which costs nothing and keeps unchanged pieces recognisable while sizes stay; pickle
# streams, where one longer item moves all that follows, are cut by content.

T = TypeVar("T")
R = TypeVar("R")

PIECE: Final = 262_080  # with the largest header exactly 64 pages of LMDB
LEAST_STRIDE: Final = 64 << 10
WHOLE_STREAM: Final = 64 << 10
AVERAGE_STREAM_CHUNK: Final = 16 << 10
PARALLEL_FROM: Final = 16 << 20  # bytes; starting the threads takes as long as hashing 3 MB
_MOST_THREADS: Final = 8
_TOGETHER: Final = 32  # pieces, 8 MB: handing over one by one takes as long as hashing it


def plan_cuts(nbytes: int, stride: int | None = None) -> list[int]:
    """Where the pieces of an array's memory end.

    Args:
        stride: bytes of one step of the slowest axis. Pieces start anew at each step of 64 KB or more, so that
            adding a column to a frame stores a column.

    >>> plan_cuts(600_000)
    [262080, 524160, 600000]
    >>> plan_cuts(600_000, stride=300_000)
    [262080, 300000, 562080, 600000]
    """
    if stride is None or not LEAST_STRIDE <= stride < nbytes:
        stride = nbytes
    return [
        min(end, step + stride, nbytes)
        for step in range(0, nbytes, max(stride, 1))
        for end in range(step + PIECE, min(step + stride, nbytes) + PIECE, PIECE)
    ]


def stream_cuts(buffer: Buffer) -> list[int]:
    """Where the pieces of a pickle stream end: nowhere inside up to 64 KB, else by content, 16 KB on average."""
    size = memoryview(buffer).nbytes
    if size <= WHOLE_STREAM:
        return [size] if size else []
    from pyfastcdc import FastCDC

    chunker = FastCDC(AVERAGE_STREAM_CHUNK)  # one each: it is not safe to share between threads
    return [chunk.offset + chunk.length for chunk in chunker.cut_buf(memoryview(buffer).cast("B"))]


def digest_pieces(buffer: Buffer, cuts: Sequence[int]) -> list[bytes]:
    """xxh3-128 of each piece: what tells, faster than anything else, which pieces changed."""
    view = memoryview(buffer).cast("B")
    pieces = list(zip([0, *cuts], cuts, strict=False))
    return in_threads(lambda piece: xxh3_128_digest(view[piece[0] : piece[1]]), pieces, view.nbytes)


def in_threads(
    work: Callable[[T], R], items: Sequence[T], nbytes: int, *, least: int = PARALLEL_FROM, together: int = _TOGETHER
) -> list[R]:
    """What `work` makes of each item, in order, on several processors where it is about many bytes.

    Worth it for what lets other threads run, as hashes and zstd do.

    Args:
        least: bytes for which threads are started.
        together: how many items a thread takes at once.
    """
    if nbytes < least or len(items) <= together:
        return list(map(work, items))
    threads = min(os.cpu_count() or 1, _MOST_THREADS, -(-len(items) // together))
    if threads < 2:
        return list(map(work, items))
    from concurrent.futures import ThreadPoolExecutor

    def work_through(start: int) -> list[R]:
        return list(map(work, items[start : start + together]))

    starts = range(0, len(items), together)
    with ThreadPoolExecutor(threads, "agent-kernel-read") as pool:
        try:
            running = pool.map(work_through, starts)
        except RuntimeError:  # no thread can be started: the process is about to end, or has too many
            running = map(work_through, starts)
        return [made for batch in running for made in batch]


# -- what a cell showed: an object of its own, to which the cell's commit refers
#
# Outputs are those that the front end got, with all their MIME types, so that they can be shown again as they were. Text
# and JSON stand in the object itself; pictures, and bytes in general, are blobs, so that the same figure in ten commits
# is stored once. What was left out for its size stays visible as a gap or as a representation without content.
#
# The text is untrusted: nothing here escapes, masks or renders it.

VERSION: Final = 1

_OUTPUT_KEYS = {
    "kind": "k",
    "name": "n",
    "text": "t",
    "representations": "f",
    "metadata": "m",
    "traceback": "b",
    "number": "x",
    "display": "d",
    "widget": "w",
    "under": "u",
    "size": "z",
}
_OUTPUTS_KEYS = {"version": "v", "outputs": "o", "dropped_outputs": "n", "dropped_bytes": "z"}


class Representation(msgspec.Struct, frozen=True, array_like=True):
    """One MIME type of an output. With neither text nor blob it was left out for its size."""

    mime: str
    form: str  # "text", "json" (the text is JSON) or "bytes" (base64 in messages)
    size: int  # bytes
    text: str | None = None
    blob: Blob | None = None

    @property
    def is_kept(self) -> bool:
        return self.text is not None or self.blob is not None


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_OUTPUT_KEYS):
    """One output, in the words of the Jupyter protocol."""

    kind: str  # stream, display_data, execute_result, update_display_data, error; or gap: something was left out here
    name: str = ""  # stdout or stderr; of an error its type
    text: str = ""  # of a stream; of an error what it says
    representations: tuple[Representation, ...] = ()
    metadata: str = ""  # JSON
    traceback: tuple[str, ...] = ()
    number: int | None = None  # the prompt of a result
    display: str = ""  # the display id; an update names one of an earlier cell
    widget: str = ""  # the model of the output widget that it was shown in
    under: int | None = None  # the prompt of the earlier cell that it was shown under
    size: int = 0  # of a gap: bytes


class Outputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_OUTPUTS_KEYS):
    """All that one cell showed, in order; of each display id the last state."""

    version: int
    outputs: tuple[Output, ...]
    dropped_outputs: int = 0
    dropped_bytes: int = 0

    def with_texts(self, change: Callable[[str], str]) -> Outputs:
        """The same with each of its texts as `change` gives it: printed, shown in any form, and of errors."""
        return msgspec.structs.replace(self, outputs=tuple(_with_texts(one, change) for one in self.outputs))

    def without_bytes(self, leaves_out: Callable[[bytes], bool]) -> Outputs:
        """The same without the pictures and other bytes that `leaves_out` says, as if they were too large to keep."""
        return msgspec.structs.replace(self, outputs=tuple(_without_bytes(one, leaves_out) for one in self.outputs))


def _with_texts(output: Output, change: Callable[[str], str]) -> Output:
    return msgspec.structs.replace(
        output,
        name=change(output.name) if output.kind == "error" else output.name,
        text=change(output.text),
        representations=tuple(
            representation if representation.text is None else _with_text(representation, representation.text, change)
            for representation in output.representations
        ),
        metadata=_in_json(output.metadata, change),
        traceback=tuple(map(change, output.traceback)),
    )


def _with_text(representation: Representation, text: str, change: Callable[[str], str]) -> Representation:
    text = _in_json(text, change) if representation.form == "json" else change(text)
    return msgspec.structs.replace(representation, text=text, size=len(text.encode("utf-8", "surrogatepass")))


def _in_json(text: str, change: Callable[[str], str]) -> str:
    """The JSON with its texts and numbers changed. It stays JSON: a number that is changed becomes a text."""
    changed = change(text)
    if changed == text:
        return text
    try:
        return json.dumps(_in_value(json.loads(text), change), ensure_ascii=False)
    except (ValueError, RecursionError):
        return changed


def _in_value(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_in_value(one, change) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        return {change(key): _in_value(one, change) for key, one in cast("dict[str, object]", value).items()}
    if value is None or isinstance(value, bool):
        return value
    written = json.dumps(value)
    changed = change(written)
    return value if changed == written else changed


def _without_bytes(output: Output, leaves_out: Callable[[bytes], bool]) -> Output:
    return msgspec.structs.replace(
        output,
        representations=tuple(
            msgspec.structs.replace(representation, blob=None)
            if representation.blob is not None
            and representation.blob.inline is not None
            and leaves_out(representation.blob.inline)
            else representation
            for representation in output.representations
        ),
    )


_OUTPUT_DECODER = msgspec.msgpack.Decoder(Outputs)


def decode_outputs(payload: bytes) -> Outputs:
    """The outputs of a cell.

    Raises:
        NewerFormatError: a newer release wrote them, and what they refer to is not known.
    """
    found = _OUTPUT_DECODER.decode(payload)
    if found.version > VERSION:
        raise NewerFormatError("the output of a cell", found.version, VERSION)
    return found


def blobs_of(outputs: Outputs) -> Iterator[Blob]:
    return (
        representation.blob
        for output in outputs.outputs
        for representation in output.representations
        if representation.blob is not None
    )


def store_outputs(writer: Writer, outputs: Outputs) -> ObjectId:
    """Store the outputs, whose blobs may still hold their bytes inline however long they are."""
    stored = tuple(
        msgspec.structs.replace(
            output, representations=tuple(_store(writer, representation) for representation in output.representations)
        )
        if output.representations
        else output
        for output in outputs.outputs
    )
    return writer.add(Kind.OUTPUTS, encode(msgspec.structs.replace(outputs, outputs=stored)))


def _store(writer: Writer, representation: Representation) -> Representation:
    content = representation.blob.inline if representation.blob is not None else None
    if content is None or len(content) <= INLINE:
        return representation
    cuts = plan_cuts(len(content))
    blob, _ = store_blob(writer, content, cuts, digest_pieces(content, cuts))
    return msgspec.structs.replace(representation, blob=blob)


def read_outputs(objects: Objects, id: ObjectId) -> Outputs:
    """The outputs that a commit refers to; raises as `Objects.get`, and NewerFormatError."""
    return objects.load(Kind.OUTPUTS, id, decode_outputs)


def read_representation(objects: Objects, representation: Representation) -> bytes | None:
    """The whole content of one MIME type; None if it was left out."""
    if representation.text is not None:
        return representation.text.encode("utf-8", "surrogatepass")
    return None if representation.blob is None else bytes(read_blob(objects, representation.blob))
