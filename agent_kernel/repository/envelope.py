"""The bytes around a stored payload: a version, a codec, and for large payloads a seal.

A small payload is checked against its id (BLAKE3) whenever it is read. For large ones that would cost more than
reading them, so they carry a seal: the first half of their id and the xxh3-128 of the payload. The seal finds any
damage, and also an intact payload under the wrong key, at a quarter of BLAKE3's time; `verify` still computes BLAKE3.

A tree node may be stored as what it differs in from its last version (zstd with that as its dictionary): its id is that
of the whole payload all the same. Stored bytes therefore mean something in their own store only; what travels to
another one is payloads.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

import msgspec
import zstandard
from blake3 import blake3
from xxhash import xxh3_128_digest

from agent_kernel.errors import DamagedObjectError, NewerFormatError
from agent_kernel.repository.commits import ID_SIZE, KIND_NAMES, Kind, ObjectId, hex_of, id_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_kernel.storage import Buffer

VERSION: Final = 1
# An earlier release that has the store open may read no commit whose page it would take for garbage.
_VERSIONS: Final = {Kind.COMMIT: 2}
ZSTD: Final = 1  # bits of the codec byte
SEALED: Final = 2
BASED: Final = 4
SEAL_FROM: Final = 8192  # bytes; below this BLAKE3 costs no more than 3 us
HEADER: Final = 2
SEAL: Final = 32
# 262,080 bytes in a piece, this header, and LMDB's own 16 bytes fill exactly 64 pages: at most 48 bytes fit.
PLAIN: Final = bytes([VERSION, 0])

PROBE: Final = 8192
COMPRESS_FROM: Final = 1024
LEAST_PROBE_GAIN: Final = 1.2
_PARALLEL_FROM: Final = 512 << 10
_MOST_THREADS: Final = 8
_KNOWN_BITS: Final = ZSTD | SEALED | BASED
MOST_DEPTH: Final = 7  # bases of bases; a reader fetches them one after the other
BASE_FROM: Final = 160  # bytes; a smaller payload is stored whole
_BASE_HEADER: Final = 1 + ID_SIZE


class Base(msgspec.Struct, frozen=True):
    """An object that another is stored as a difference from."""

    id: ObjectId
    payload: bytes
    depth: int  # 0: stored whole


def damaged(key: bytes, reason: str = "its bytes do not match its id") -> DamagedObjectError:
    return DamagedObjectError(KIND_NAMES.get(kind_of(key), "object"), hex_of(id_of(key)), reason)


def wrap(
    id: ObjectId,
    payload: Buffer,
    *,
    digest: bytes = b"",
    compress: bool = True,
    base: Base | None = None,
    version: int = VERSION,
) -> tuple[bytes, Buffer]:
    """Header and body to store, without copying a payload that does not compress.

    Args:
        digest: xxh3-128 of the payload where the caller knows it already.
        base: what to store the difference from, where that saves at least a third.
    """
    if base is not None and len(payload) >= BASE_FROM and base.depth < MOST_DEPTH:
        body = _difference(payload, base)
        if body is not None:
            return _header(id, payload, BASED, digest, version), body
    body = squeeze([payload])[0] if compress else None
    return _wrapped(id, payload, body, digest, version)


def version_of(kind: bytes) -> int:
    """The version that objects of a kind are stored with."""
    return _VERSIONS.get(kind, VERSION)


def wrap_pieces(pieces: Sequence[tuple[ObjectId, Buffer, bytes]]) -> list[tuple[bytes, Buffer]]:
    """The same for several at once, given as (id, payload, digest), with all processors compressing."""
    bodies = squeeze([payload for _, payload, _ in pieces])
    return [_wrapped(id, payload, body, digest) for (id, payload, digest), body in zip(pieces, bodies, strict=True)]


def _wrapped(
    id: ObjectId, payload: Buffer, body: bytes | None, digest: bytes, version: int = VERSION
) -> tuple[bytes, Buffer]:
    return _header(id, payload, 0 if body is None else ZSTD, digest, version), payload if body is None else body


def _header(id: ObjectId, payload: Buffer, codec: int, digest: bytes, version: int) -> bytes:
    if len(payload) < SEAL_FROM:
        return bytes((version, codec))
    return bytes((version, codec | SEALED)) + id[:16] + (digest or xxh3_128_digest(payload))


def squeeze(payloads: Sequence[Buffer]) -> list[bytes | None]:
    """Each payload as zstd, or None where that would save less than an eighth."""
    squeezed: list[bytes | None] = [None] * len(payloads)
    views = {place: memoryview(payload) for place, payload in enumerate(payloads) if len(payload) >= COMPRESS_FROM}
    if not views:
        return squeezed
    compressor = _compressor()
    views = {place: view for place, view in views.items() if _seems_to_shrink(compressor, view)}
    if len(views) > 1 and sum(map(len, views.values())) >= _PARALLEL_FROM:
        threads = min(len(views), os.cpu_count() or 1, _MOST_THREADS)
        found = compressor.multi_compress_to_buffer(list(views.values()), threads=threads)
        bodies = [found[number].tobytes() for number in range(len(views))]
    else:
        bodies = [compressor.compress(view) for view in views.values()]
    for place, body in zip(views, bodies, strict=True):
        size = len(payloads[place])
        squeezed[place] = body if len(body) <= size - size // 8 else None
    return squeezed


def _compressor() -> zstandard.ZstdCompressor:
    """The thread's own: to make one takes as long as to compress some kilobytes, and two threads cannot share one."""
    try:
        found: zstandard.ZstdCompressor = _of_thread.compressor
    except AttributeError:
        found = _of_thread.compressor = zstandard.ZstdCompressor(level=1)
    return found


_of_thread = threading.local()


def _seems_to_shrink(compressor: zstandard.ZstdCompressor, view: memoryview) -> bool:
    if len(view) <= 4 * PROBE:
        return True
    middle = (len(view) - PROBE) // 2
    return len(compressor.compress(view[middle : middle + PROBE])) * LEAST_PROBE_GAIN <= PROBE


def is_based(header: bytes) -> bool:
    """Whether an object with this header is stored as a difference from another."""
    return bool(header[1] & BASED)


def base_of(key: bytes, stored: Buffer) -> tuple[bytes, int] | None:
    """The key of the object this one is stored as a difference from, and how many bases there are; None if whole."""
    codec, _, body = _parts(key, stored)
    if not codec & BASED:
        return None
    if len(body) < _BASE_HEADER or not 1 <= body[0] <= MOST_DEPTH:
        raise damaged(key, "its header is not one that any release wrote")
    return kind_of(key) + bytes(body[1:_BASE_HEADER]), body[0]


def unwrap(key: bytes, stored: Buffer, base: bytes = b"") -> bytes:
    """The payload, checked.

    Args:
        base: the payload of the object that `base_of` names.

    Raises:
        DamagedObjectError: the bytes are not those that were stored under this key.
        NewerFormatError: a newer release wrote them.
    """
    codec, seal, body = _parts(key, stored)
    if codec & BASED:
        payload = _inflate(key, body[_BASE_HEADER:], base)
    else:
        payload = bytes(body) if not codec & ZSTD else _inflate(key, body)
    if seal is None:
        if blake3(payload).digest() != key[1:-1]:
            raise damaged(key)
    elif seal != key[1:17] + xxh3_128_digest(payload):
        raise damaged(key)
    return payload


def unwrap_into(key: bytes, stored: Buffer, target: memoryview) -> bytes:
    """Put the payload into `target`, which has its exact size, with one copy and one hash. Returns its xxh3-128."""
    codec, seal, body = _parts(key, stored)
    if codec & ZSTD:
        _inflate_into(key, body, target)
    elif len(body) != len(target):
        raise damaged(key, f"it holds {len(body)} bytes where {len(target)} were stored")
    else:
        target[:] = body
    digest: bytes = xxh3_128_digest(target)
    if seal is None:
        if blake3(target).digest() != key[1:-1]:
            raise damaged(key)
    elif seal != key[1:17] + digest:
        raise damaged(key)
    return digest


def is_compressed(key: bytes, stored: Buffer) -> bool:
    """Whether reading this takes more than a copy; raises as `unwrap` does if the header is invalid."""
    return bool(_parts(key, stored)[0] & ZSTD)


def is_genuine(key: bytes, payload: Buffer) -> bool:
    """Whether the payload has the id that it is stored under, by BLAKE3."""
    return blake3(payload).digest() == key[1:-1]


def _parts(key: bytes, stored: Buffer) -> tuple[int, bytes | None, memoryview]:
    view = memoryview(stored)
    if len(view) < HEADER:
        raise damaged(key, "its header is cut off")
    version, codec = view[0], view[1]
    known = version_of(kind_of(key))
    if version > known:
        raise NewerFormatError(f"{KIND_NAMES.get(kind_of(key), 'object')} {hex_of(id_of(key))[:16]}", version, known)
    if version < VERSION or codec & ~_KNOWN_BITS:
        raise damaged(key, "its header is not one that any release wrote")
    if not codec & SEALED:
        return codec, None, view[HEADER:]
    return codec, bytes(view[HEADER : HEADER + SEAL]), view[HEADER + SEAL :]


def _difference(payload: Buffer, base: Base) -> bytes | None:
    dictionary = zstandard.ZstdCompressionDict(base.payload, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    body = zstandard.ZstdCompressor(level=1, dict_data=dictionary, write_dict_id=False).compress(payload)
    if 3 * (_BASE_HEADER + len(body)) > 2 * len(payload):
        return None
    return bytes((base.depth + 1,)) + base.id + body


def _inflate(key: bytes, body: memoryview, base: bytes = b"") -> bytes:
    try:
        if not base:
            return zstandard.ZstdDecompressor().decompress(body)
        dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        return zstandard.ZstdDecompressor(dict_data=dictionary).decompress(body)
    # A damaged header may claim any size, more than there is memory.
    except (zstandard.ZstdError, MemoryError) as error:
        raise damaged(
            key, f"it does not decompress ({str(error) or 'it claims more bytes than there is memory'})"
        ) from error


def _inflate_into(key: bytes, body: memoryview, target: memoryview) -> None:
    try:
        if zstandard.frame_content_size(bytes(body[:18])) != len(target):
            raise damaged(key, "it expands to another size than was stored")
        reader = zstandard.ZstdDecompressor().stream_reader(body)
        done = 0
        while done < len(target):
            count = reader.readinto(target[done:])  # pyright: ignore[reportUnknownMemberType]  # its stub says nothing
            if not count:
                raise damaged(key, "it expands to fewer bytes than were stored")
            done += count
    except zstandard.ZstdError as error:
        raise damaged(key, f"it does not decompress ({error})") from error
