"""Read immutable objects, checked, and write those of one commit: small ones, bytes of any length, and what a cell showed.

Every payload that leaves here matches its id or seal: damage raises, it is never returned. What was decoded once stays
in a small cache, in two generations: when the young one is full it becomes the old one, and what is still used moves
over again. (An exact LRU costs more than the decoding it saves.)

Long bytes are read and written a piece at a time, without copying. Between commits the caller keeps `Pieces`: digests (xxh3) that
tell fast which pieces are as they were, and their ids. Only new pieces are hashed for their address (BLAKE3) and written.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress as chosen
from struct import Struct
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast

import msgspec
import zstandard
from blake3 import blake3
from xxhash import xxh3_128_digest

from agent_kernel.errors import DamagedObjectError, NewerFormatError, StoreError
from agent_kernel.repository.commits import (
    DEEPEST,
    ENCODER,
    ID_SIZE,
    KIND_NAMES,
    MOST_DEPTH,
    Blob,
    Kind,
    ObjectId,
    address,
    encode,
    hex_of,
    id_of,
    kind_of,
    spans,
    starts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_kernel.storage import Buffer, Store

# -- the bytes around a stored payload: a version, a codec, and for large payloads a seal
#
# A small payload is checked against its id (BLAKE3) whenever it is read. For large ones that would cost more than
# reading them, so they carry a seal: the first half of their id and the xxh3-128 of the payload. The seal finds any
# damage, and also an intact payload under the wrong key, at a quarter of BLAKE3's time; `verify` still computes BLAKE3.
# Anybody can make a seal. What comes from a file that anyone may have written is therefore read strictly: compared with
# its whole id, and never unpacked to more than objects have. So all that a trusted commit leads to is what was trusted.
#
# A tree node may be stored as what it differs in from its last version (zstd with that as its dictionary), and a commit of records
# as what it differs in from its parent: its id is that of the whole payload all the same. A chunk may be stored so too, as a part of a longer one that came later. Stored bytes
# therefore mean something in their own store only; what travels to another one is payloads. Where one run of bytes is all that
# differs, as in a node where one name holds another row, the difference is that run: zstd takes ten times as long to say so.

VERSION: Final = 1
# An earlier release that has the store open may read no commit whose page, or whose recent records, it would take for garbage.
_VERSIONS: Final = {Kind.COMMIT: 3}
ZSTD: Final = 1  # bits of the codec byte
SEALED: Final = 2
BASED: Final = 4
PATCH: Final = 8  # with BASED: of the base one run of bytes is replaced, and no zstd says what differs
SEAL_FROM: Final = 8192  # bytes; below this BLAKE3 costs no more than 3 us
# 262,080 bytes in a piece, this header, and LMDB's own 16 bytes fill exactly 64 pages: at most 48 bytes fit.
HEADER: Final = 2
SEAL: Final = 32

APART: Final = 2_048  # bytes from which LMDB gives a value pages of its own

PROBE: Final = 8192
COMPRESS_FROM: Final = 1024
LEAST_PROBE_GAIN: Final = 1.2
_PARALLEL_FROM: Final = 512 << 10
_MOST_THREADS: Final = 8
_KNOWN_BITS: Final = ZSTD | SEALED | BASED | PATCH
_MOST_READ: Final = (
    400  # that a reader follows: of several writers none knows how deep the others stored what it builds on
)
MOST_UNPACKED: Final = 64 << 20  # bytes of an object that is read strictly
_LONG_BASE: Final = 64 << 10  # bytes
BASE_FROM: Final = 160  # bytes; a smaller payload is stored whole
_BASE_HEADER: Final = 1 + ID_SIZE
_KEPT: Final = Struct("<HH")  # how many bytes of the base stay before the run, and behind it
_LONGEST_PATCHED: Final = 8_192  # bytes
_MOST_REPLACED: Final = 160  # bytes of a run; what is left of more of them zstd makes smaller


class Base(msgspec.Struct, frozen=True):
    """An object that another is stored as a difference from."""

    id: ObjectId
    payload: bytes  # of a commit with its id behind it
    depth: int  # 0: stored whole


def make_damaged_error(key: bytes, reason: str = "its bytes do not match its id") -> DamagedObjectError:
    return DamagedObjectError(KIND_NAMES.get(kind_of(key), "object"), hex_of(id_of(key)), reason)


def wrap(
    id: ObjectId,
    payload: Buffer,
    *,
    digest: bytes = b"",
    compress: bool = True,
    base: Base | None = None,
    version: int = VERSION,
    most_depth: int = MOST_DEPTH,
    span: tuple[int, int] | None = None,
) -> tuple[bytes, Buffer]:
    """Header and body to store, without copying a payload that does not compress.

    Args:
        span: where bytes stand that take the place of as many others of the base, if that is all that differs.
        digest: xxh3-128 of the payload where the caller knows it already.
        base: what to store the difference from, where that saves at least a third.
        most_depth: how many bases there may be, one below the other; at most `DEEPEST`.
    """
    if base is not None and len(payload) >= BASE_FROM and base.depth < most_depth:
        for codec, difference in _differences(payload, base, span):
            if 3 * (_BASE_HEADER + len(difference)) <= 2 * len(payload):
                return _header(id, payload, codec, digest, version), b"".join(
                    (bytes((base.depth + 1,)), base.id, difference)
                )
    body = squeeze([payload])[0] if compress else None
    return _wrap(id, payload, body, digest, version)


def version_of(kind: bytes) -> int:
    """The version that objects of a kind are stored with."""
    return _VERSIONS.get(kind, VERSION)


def wrap_pieces(pieces: Sequence[tuple[ObjectId, Buffer, bytes]]) -> list[tuple[bytes, Buffer]]:
    """The same for several at once, given as (id, payload, digest), with all processors compressing."""
    bodies = squeeze([payload for _, payload, _ in pieces])
    return [_wrap(id, payload, body, digest) for (id, payload, digest), body in zip(pieces, bodies, strict=True)]


def _apart(payload: Buffer, parts: tuple[bytes, Buffer]) -> tuple[bytes, Buffer]:
    """Stored bytes that are long enough for a page of their own. What stands behind a frame of zstd is not read."""
    size = len(parts[0]) + len(parts[1])
    if size >= APART or len(payload) >= SEAL_FROM:
        return parts
    body = bytes(parts[1]) if parts[0][1] & ZSTD else _compressor().compress(payload)
    return bytes((VERSION, ZSTD)), body.ljust(APART - HEADER, b"\0")


def _wrap(
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
    if len(body) < _BASE_HEADER or not 1 <= body[0] <= DEEPEST:
        raise make_damaged_error(key, "its header is not one that any release wrote")
    return kind_of(key) + bytes(body[1:_BASE_HEADER]), body[0]


def claimed_size(key: bytes, stored: Buffer) -> int:
    """How many bytes an object says that it unpacks to, before any memory is taken for it.

    Raises:
        DamagedObjectError: more than any object has, or its header is damaged.
    """
    codec, _, body = _parts(key, stored)
    if not codec & (ZSTD | BASED):
        return len(body)
    frame = body[_BASE_HEADER:] if codec & BASED else body
    if codec & PATCH:
        return len(frame) - _KEPT.size + sum(_kept(key, frame))
    try:
        size = zstandard.frame_content_size(bytes(frame[:18]))
    except zstandard.ZstdError as error:
        raise make_damaged_error(key, f"it does not decompress ({error})") from error
    if not 0 <= size <= MOST_UNPACKED:
        raise make_damaged_error(key, f"it would unpack to {size:,} bytes")
    return size


def unwrap(key: bytes, stored: Buffer, base: bytes = b"", *, strictly: bool = False) -> bytes:
    """The payload, checked.

    Args:
        base: the payload of the object that `base_of` names.
        strictly: compare it with its whole id, whatever its seal says.

    Raises:
        DamagedObjectError: the bytes are not those that were stored under this key.
        NewerFormatError: a newer release wrote them.
    """
    if strictly:
        claimed_size(key, stored)
    codec, seal, body = _parts(key, stored)
    if codec & BASED:
        payload = (_patched if codec & PATCH else _inflate)(key, body[_BASE_HEADER:], base)
    else:
        payload = bytes(body) if not codec & ZSTD else _inflate(key, body)
    if seal is None or strictly:
        _require_genuine(key, payload)
    elif seal != key[1:17] + xxh3_128_digest(payload):
        raise make_damaged_error(key)
    return payload


def check(key: bytes, stored: Buffer, *, strictly: bool = False) -> None:
    """Raise as `unwrap` does, without making the payload where it is stored as it is."""
    codec, seal, body = _parts(key, stored)
    if codec & (ZSTD | BASED) or seal is None:
        unwrap(key, stored, strictly=strictly)
    elif strictly:
        _require_genuine(key, body)
    elif seal != key[1:17] + xxh3_128_digest(body):
        raise make_damaged_error(key)


def unwrap_into(key: bytes, stored: Buffer, target: memoryview, *, strictly: bool = False) -> bytes:
    """Put the payload into `target`, which has its exact size, with one copy and one hash. Returns its xxh3-128.

    Args:
        strictly: compare it with its whole id, too: a second hash.
    """
    codec, seal, body = _parts(key, stored)
    if codec & ZSTD:
        _inflate_into(key, body, target)
    elif len(body) != len(target):
        raise make_damaged_error(key, f"it holds {len(body)} bytes where {len(target)} were stored")
    else:
        target[:] = body
    digest: bytes = xxh3_128_digest(target)
    if seal is None or strictly:
        _require_genuine(key, target)
    elif seal != key[1:17] + digest:
        raise make_damaged_error(key)
    return digest


def is_compressed(key: bytes, stored: Buffer) -> bool:
    """Whether reading this takes more than a copy; raises as `unwrap` does if the header is invalid."""
    return bool(_parts(key, stored)[0] & ZSTD)


def is_genuine(key: bytes, payload: Buffer) -> bool:
    """Whether the payload has the id that it is stored under, by BLAKE3."""
    return blake3(payload).digest() == key[1:-1]


def _require_genuine(key: bytes, payload: Buffer) -> None:
    if not is_genuine(key, payload):
        raise make_damaged_error(key)


def _parts(key: bytes, stored: Buffer) -> tuple[int, bytes | None, memoryview]:
    view = memoryview(stored)
    if len(view) < HEADER:
        raise make_damaged_error(key, "its header is cut off")
    version, codec = view[0], view[1]
    known = version_of(kind_of(key))
    if version > known:
        raise NewerFormatError(f"{KIND_NAMES.get(kind_of(key), 'object')} {hex_of(id_of(key))[:16]}", version, known)
    if version < VERSION or codec & ~_KNOWN_BITS:
        raise make_damaged_error(key, "its header is not one that any release wrote")
    if not codec & SEALED:
        return codec, None, view[HEADER:]
    return codec, bytes(view[HEADER : HEADER + SEAL]), view[HEADER + SEAL :]


def _differences(payload: Buffer, base: Base, span: tuple[int, int] | None) -> Iterator[tuple[int, bytes]]:
    """The difference in each form that fits, each with its codec, the quickest one first."""
    patch = _patch(payload, base.payload, span)
    if patch is not None:
        yield BASED | PATCH, patch
    yield BASED, _difference(payload, base.payload)


def _difference(payload: Buffer, base: bytes) -> bytes:
    dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    level = 1 if len(base) <= _LONG_BASE else 3  # the quickest one does not find all that is in a long one
    return zstandard.ZstdCompressor(level=level, dict_data=dictionary, write_dict_id=False).compress(payload)


def _patch(payload: Buffer, base: bytes, span: tuple[int, int] | None) -> bytes | None:
    """The run of bytes that takes another's place in the base, and where; None where it is long."""
    if len(base) > _LONGEST_PATCHED or abs(len(payload) - len(base)) > _MOST_REPLACED:
        return None
    if span is None:
        most = min(len(payload), len(base))
        start = _count_equal(payload[:most], base[:most], "big")
        most -= start
        span = start, len(payload) - _count_equal(payload[len(payload) - most :], base[len(base) - most :], "little")
    start, end = span
    if end - start > _MOST_REPLACED:
        return None
    return _KEPT.pack(start, len(payload) - end) + payload[start:end]


def _count_equal(one: Buffer, other: Buffer, order: Literal["big", "little"]) -> int:
    """How many bytes of two as long ones are the same: "big" counts from their beginning, "little" from their end."""
    low, high = 0, len(one)
    # Nothing differs before `low`, or behind `high`; to make numbers of all takes longer.
    while high - low > _SHORT_RUN:
        middle = (low + high) // 2
        near = slice(low, middle) if order == "big" else slice(middle, high)
        if (one[near] == other[near]) == (order == "big"):
            low = middle
        else:
            high = middle
    # To compare them byte by byte takes far longer.
    differing = int.from_bytes(one[low:high], order) ^ int.from_bytes(other[low:high], order)
    same = high - low - (differing.bit_length() + 7) // 8
    return low + same if order == "big" else len(one) - high + same


_SHORT_RUN: Final = 512  # bytes


def _kept(key: bytes, body: memoryview) -> tuple[int, int]:
    if len(body) < _KEPT.size:
        raise make_damaged_error(key, "its header is cut off")
    before, behind = _KEPT.unpack(body[: _KEPT.size])
    return before, behind


def _patched(key: bytes, body: memoryview, base: bytes) -> bytes:
    before, behind = _kept(key, body)
    if before + behind > len(base):
        raise make_damaged_error(key, "what it is stored as a difference from is shorter than it says")
    return b"".join((base[:before], body[_KEPT.size :], base[len(base) - behind :]))


def _inflate(key: bytes, body: memoryview, base: bytes = b"") -> bytes:
    try:
        if not base:
            return zstandard.ZstdDecompressor().decompress(body)
        dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        return zstandard.ZstdDecompressor(dict_data=dictionary).decompress(body)
    # A damaged header may claim any size, more than there is memory.
    except (zstandard.ZstdError, MemoryError) as error:
        raise make_damaged_error(
            key, f"it does not decompress ({str(error) or 'it claims more bytes than there is memory'})"
        ) from error


def _inflate_into(key: bytes, body: memoryview, target: memoryview) -> None:
    try:
        if zstandard.frame_content_size(bytes(body[:18])) != len(target):
            raise make_damaged_error(key, "it expands to another size than was stored")
        reader = zstandard.ZstdDecompressor().stream_reader(body)
        done = 0
        while done < len(target):
            count = reader.readinto(target[done:])  # pyright: ignore[reportUnknownMemberType]  # its stub says nothing
            if not count:
                raise make_damaged_error(key, "it expands to fewer bytes than were stored")
            done += count
    except zstandard.ZstdError as error:
        raise make_damaged_error(key, f"it does not decompress ({error})") from error


T = TypeVar("T")
R = TypeVar("R")

CACHE_BYTES: Final = 8 << 20  # of payloads; decoded they take a few times as much
_BATCH: Final = 32
_BASES_BYTES: Final = 1 << 20  # of payloads that others were read from: most often they are asked for next
_INFLATE_PARALLEL_FROM: Final = 1 << 20


class AtHand(msgspec.Struct, frozen=True):
    """Memory that held a payload, and the payload's xxh3-128."""

    memory: memoryview
    digest: bytes


_NOTHING: Final[Mapping[ObjectId, AtHand]] = {}


class Fetched(msgspec.Struct, frozen=True, gc=False):
    """A payload, and the key of the object that it is stored as a difference from."""

    payload: bytes
    base: bytes | None


class Objects:
    """The immutable objects of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # What a store says that anyone may have written, instead of that an object is damaged: see `strictly` above.
        self._refuse: Callable[[str], StoreError] | None = getattr(store, "refuse", None)
        self._young: dict[bytes, object] = {}
        self._old: dict[bytes, object] = {}
        self._young_bytes = 0
        # How many bases an object has. The complement of that where it was read: it may not be what it is encoded to here.
        self._depths: dict[bytes, int] = {}
        self._bases: dict[bytes, Fetched] = {}
        self._bases_bytes = 0

    def get(self, kind: bytes, id: ObjectId) -> bytes:
        """The payload of one object.

        Raises:
            DamagedObjectError: it is missing, or its bytes are not what was stored.
            NewerFormatError: a newer release wrote it.
        """
        return self.get_many(kind, [id])[id]

    def get_many(self, kind: bytes, ids: Iterable[ObjectId]) -> dict[ObjectId, bytes]:
        """The payloads of all these objects, in one round trip; raises as `get` does."""
        keys = {kind + id: id for id in ids}
        with self._refusing():
            found = self._read_near(list(keys))
            for key in keys:
                if key not in found:
                    raise make_damaged_error(key, "it is missing")
        return {id: found[key].payload for key, id in keys.items()}

    def fetch(self, keys: Iterable[bytes]) -> dict[bytes, Fetched]:
        """What is there of these keys, checked. Objects that are stored as differences cost a round trip a base."""
        with self._refusing():
            return self._fetch(list(keys))

    def check(self, key: bytes, stored: Buffer) -> None:
        """Raise as `get` does unless these bytes, which the store has under a key of its own, are right."""
        with self._refusing():
            check(key, stored, strictly=self._refuse is not None)

    @contextmanager
    def _refusing(self) -> Generator[None]:
        try:
            yield
        except DamagedObjectError as error:
            if self._refuse is None:
                raise
            raise self._refuse(f"a {error.kind} in it is damaged: {error.reason}") from error

    def _fetch(self, wanted: list[bytes], most_bases: int = _MOST_READ) -> dict[bytes, Fetched]:
        strictly = self._refuse is not None
        stored = self._store.get_many(wanted) if wanted else {}
        bases = {key: base_id for key, body in stored.items() if (base_id := base_of(key, body)) is not None}
        if bases and not most_bases:
            raise make_damaged_error(next(iter(bases)), "it is stored as a difference from too many others")
        below = self._read_near([*{base for base, _ in bases.values()}], most_bases - 1) if bases else {}
        self._note_bases(below)
        found: dict[bytes, Fetched] = {}
        for key, body in stored.items():
            if key not in bases:
                self._note_read(key, 0)
                found[key] = Fetched(unwrap(key, body, strictly=strictly), None)
                continue
            base, depth = bases[key]
            self._note_read(key, depth)
            if base not in below:
                raise make_damaged_error(key, "what it is stored as a difference from is missing")
            content = _content_of_base(base[:1], ObjectId(base[1:]), below[base].payload)
            found[key] = Fetched(unwrap(key, body, content, strictly=strictly), base)
        return found

    def _read_near(self, wanted: list[bytes], most_bases: int = _MOST_READ) -> dict[bytes, Fetched]:
        """The same, of which some were read lately as bases of others."""
        near = {key: self._bases[key] for key in wanted if key in self._bases}
        return near | self._fetch([key for key in wanted if key not in near], most_bases)

    def _note_bases(self, found: Mapping[bytes, Fetched]) -> None:
        if self._bases_bytes > _BASES_BYTES:
            self._bases, self._bases_bytes = {}, 0
        self._bases.update(found)
        self._bases_bytes += sum(len(one.payload) for one in found.values())

    def base_for(self, kind: bytes, id: ObjectId, payload: bytes, new: Mapping[bytes, int]) -> Base | None:
        """The object as something to store a difference from, if it was seen lately and this is its payload.

        Args:
            new: depths of objects that are stored together with the difference.
        """
        depth = new.get(kind + id, self._depths.get(kind + id))
        if depth is None or (depth < 0 and address(payload) != id):
            return None
        return Base(id, _content_of_base(kind, id, payload), depth if depth >= 0 else ~depth)

    def _note_read(self, key: bytes, depth: int) -> None:
        self._depths[key] = depth if self._depths.get(key, -1) >= 0 else ~depth

    def note_depths(self, depths: Mapping[bytes, int]) -> None:
        """Remember how objects are stored."""
        self._depths.update(depths)

    def load(self, kind: bytes, id: ObjectId, decode: Callable[[bytes], T]) -> T:
        """The decoded object, from the cache if it was seen lately. Treat it as immutable."""
        key = kind + id
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                payload = self.get(kind, id)
                with self._refusing():
                    found = _decode(key, payload, decode)
                self.remember(kind, id, found, len(payload))
            else:
                self._young[key] = found
        return cast("T", found)

    def load_many(self, kind: bytes, ids: Iterable[ObjectId], decode: Callable[[bytes], T]) -> list[T]:
        """The decoded objects in the order asked for; those not cached come in one round trip."""
        wanted = list(ids)
        found = {id: self._find_cached(kind + id) for id in wanted}
        missing = [id for id, value in found.items() if value is None]
        for id, payload in self.get_many(kind, missing).items() if missing else ():
            with self._refusing():
                found[id] = value = _decode(kind + id, payload, decode)
            self.remember(kind, id, value, len(payload))
        return [cast("T", found[id]) for id in wanted]

    def remember(self, kind: bytes, id: ObjectId, value: object, size: int) -> None:
        """Keep what was just decoded, or encoded, for the next reader."""
        if self._young_bytes > CACHE_BYTES:
            self._old, self._young, self._young_bytes = self._young, {}, 0
            self._depths = {key: depth for key, depth in self._depths.copy().items() if key in self._old}
        self._young[kind + id] = value
        self._young_bytes += size + 200

    def supersede(self, kind: bytes, id: ObjectId) -> None:
        """Another object comes in the place of this one: who looks at what was reads it from the store."""
        key = kind + id
        for known in (self._young, self._old, self._depths):
            known.pop(key, None)

    def forget_cached(self) -> None:
        """Drop the cache, after objects were deleted."""
        self._old, self._young, self._young_bytes = {}, {}, 0
        self._depths = {}
        self._bases, self._bases_bytes = {}, 0

    def _find_cached(self, key: bytes) -> object | None:
        found = self._young.get(key)
        return found if found is not None else self._old.get(key)

    def read_into(
        self,
        kind: bytes,
        targets: Mapping[ObjectId, list[memoryview]],
        at_hand: Mapping[ObjectId, AtHand] = _NOTHING,
    ) -> dict[ObjectId, bytes]:
        """Put each payload into all its targets, checked: what is stored raw straight from the store's pages.

        Args:
            at_hand: memory that probably holds some of the payloads. Where it does they are copied from there, and the
                pages of the store's file stay out of this process.

        Returns:
            The xxh3-128 of each payload.
        """
        near = [(id, at_hand[id], targets[id]) for id in targets.keys() & at_hand.keys()]
        taken = in_threads(_take, near, sum(len(slot) for *_, slots in near for slot in slots))
        digests = {id: found.digest for (id, found, _), right in zip(near, taken, strict=True) if right}
        keys = {kind + id: slots for id, slots in targets.items() if id not in digests}
        with self._refusing():
            return digests | self._read_into(keys)

    def _read_into(self, keys: Mapping[bytes, list[memoryview]]) -> dict[ObjectId, bytes]:
        digests: dict[ObjectId, bytes] = {}
        strictly = self._refuse is not None
        seen: set[bytes] = set()
        failures: list[StoreError] = []
        compressed: list[tuple[bytes, bytes]] = []
        based: list[bytes] = []

        def visit(key: bytes, view: memoryview) -> None:
            seen.add(key)
            try:
                if base_of(key, view) is not None:
                    based.append(key)
                elif is_compressed(key, view):
                    compressed.append((key, bytes(view)))  # a view lasts no longer than its visit
                elif not failures:
                    digests[ObjectId(key[1:])] = _fill(key, view, keys[key], strictly)
            except StoreError as error:  # raised below: the store need not expect errors inside its transaction
                failures.append(error)

        wanted = list(keys)
        for start in range(0, len(wanted), _BATCH):
            view_stored(self._store, wanted[start : start + _BATCH], visit)
            if failures:
                raise failures[0]
            expanded = _expand(compressed, keys, strictly)
            digests |= {ObjectId(key[1:]): digest for (key, _), digest in zip(compressed, expanded, strict=True)}
            compressed.clear()
        for key, found in self._fetch(based).items() if based else ():
            for target in keys[key]:
                target[:] = found.payload
            digests[ObjectId(key[1:])] = xxh3_128_digest(found.payload)
        for key in wanted:
            if key not in seen:
                raise make_damaged_error(key, "it is missing")
        return digests


def _content_of_base(kind: bytes, id: ObjectId, payload: bytes) -> bytes:
    """What a difference is taken from. A commit says the id of its parent: it is there too, and need not be stored twice."""
    return payload + id if kind == Kind.COMMIT else payload


def view_stored(store: Store, keys: Sequence[bytes], visit: Callable[[bytes, memoryview], object]) -> None:
    """Call `visit` with what is stored under each of these keys, without a copy where the store can."""
    view_many = getattr(store, "view_many", None)
    if view_many is not None:
        view_many(keys, visit)
    else:
        for key, stored in store.get_many(keys).items():
            visit(key, memoryview(stored))


def _take(near: tuple[ObjectId, AtHand, list[memoryview]]) -> bool:
    """Copy what is at hand, and say whether that was right: it may have changed, even while it was copied."""
    _, found, slots = near
    for target in slots:
        if len(target) != len(found.memory):
            return False
        target[:] = found.memory
        if xxh3_128_digest(target) != found.digest:
            return False
    return True


def _fill(key: bytes, stored: Buffer, slots: list[memoryview], strictly: bool) -> bytes:
    digest = b""
    for target in slots:
        digest = unwrap_into(key, stored, target, strictly=strictly)
    return digest


def _expand(
    compressed: Sequence[tuple[bytes, bytes]], keys: Mapping[bytes, list[memoryview]], strictly: bool
) -> list[bytes]:
    """Decompress into place, several at once where there is enough to do: zstd and the hash let other threads run."""
    nbytes = sum(len(slot) for key, _ in compressed for slot in keys[key])
    return in_threads(
        lambda one: _fill(one[0], one[1], keys[one[0]], strictly),
        compressed,
        nbytes,
        least=_INFLATE_PARALLEL_FROM,
        together=1,
    )


def _decode(key: bytes, payload: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise make_damaged_error(key, f"it cannot be decoded ({error})") from error


# -- collect the objects of one commit and store them, small ones together with the ref that makes them reachable
#
# Objects are written before anything names them, so until then they look like garbage. The writer remembers the epoch of
# garbage collection that it started in: publishing expects it unchanged, and looks again for everything it relied on if
# it is not.

BATCH_BYTES: Final = 8 << 20
INLINE_PREVIEW: Final = 64
_KNOWN_KEYS: Final = 200_000
_KEEP_PAYLOAD: Final = 64 << 10


class Presence(msgspec.Struct):
    """Keys that were in the store during one epoch: what nobody can have deleted while it lasts."""

    epoch: bytes | None = None
    keys: set[bytes] = msgspec.field(default_factory=set[bytes])

    def at(self, epoch: bytes | None) -> Presence:
        """Forget what was known if the epoch is another one."""
        if epoch != self.epoch:
            self.epoch, self.keys = epoch, set()
        return self

    def note(self, keys: Iterable[bytes]) -> None:
        if len(self.keys) > _KNOWN_KEYS:
            self.keys = set()
        self.keys.update(keys)


class Writer:
    """The objects of one commit on their way into the store. Use one for each commit, from one thread."""

    def __init__(self, store: Store, objects: Objects, presence: Presence) -> None:
        self._store = store
        self._objects = objects
        self._presence = presence
        self.epoch = presence.epoch
        self.written_bytes = 0
        self._pending: dict[bytes, tuple[bytes, Buffer]] = {}
        self._pending_bytes = 0
        self._payloads: dict[bytes, bytes] = {}  # of small objects, to store again what a collection took
        self._within: dict[bytes, bytes] = {}
        # Of what is not stored yet: where its commit fails it never is, and nothing else may differ from it.
        self._depths: dict[bytes, int] = {}

    def add(
        self,
        kind: bytes,
        payload: bytes,
        compress: bool = True,
        *,
        decoded: object = None,
        base: tuple[ObjectId, bytes] | None = None,
        most_depth: int = MOST_DEPTH,
        id: ObjectId | None = None,
        span: tuple[int, int] | None = None,
    ) -> ObjectId:
        """Store a payload, unless it is known to be there, and return its id.

        Args:
            id: of the payload, where it was stored before: to work it out again is to hash it.
            decoded: what the payload decodes to, for the cache.
            base: id and payload of an object of this kind that differs little, to store the difference from.
            most_depth: of differences from differences.
            span: where bytes stand that take the place of as many others of `base`, if that is all that differs.
        """
        id = id or address(payload)
        key = kind + id
        if decoded is not None:
            self._objects.remember(kind, id, decoded, len(payload))
        if len(payload) <= _KEEP_PAYLOAD:
            self._payloads[key] = payload
        if key not in self._pending and key not in self._presence.keys:
            known = None
            if BASE_FROM <= len(payload) <= _KEEP_PAYLOAD:  # or it could not be stored whole again
                known = None if base is None else self._objects.base_for(kind, *base, self._depths)
            parts = wrap(
                id, payload, compress=compress, base=known, version=version_of(kind), most_depth=most_depth, span=span
            )
            if kind in (Kind.TREE, Kind.COMMIT) or base is not None:  # the next one may differ little from it
                self._depths[key] = parts[1][0] if is_based(parts[0]) else 0
            self._queue(key, parts)
        if base is not None and base[0] != id:
            self._objects.supersede(kind, base[0])
            self._depths.pop(kind + base[0], None)
        return id

    def add_preview(self, preview: bytes) -> bytes:
        """What to put into an entry for this preview: itself if it is short, else the id of a small object."""
        if len(preview) <= INLINE_PREVIEW and len(preview) != len(address(b"")):
            return preview
        return self.add(Kind.SMALL, preview)

    def add_pieces(self, pieces: Sequence[tuple[ObjectId, memoryview, bytes]], *, apart: bool = False) -> None:
        """Store chunks, given as (id, bytes, xxh3-128 of them), without copying what does not compress.

        The bytes must not change until `flush` or the publishing of the commit.

        Args:
            apart: they become parts of longer ones before long, see `store_within`. Until then they take whole pages: among small
                objects they would leave holes.
        """
        keys = [Kind.CHUNK + id for id, _, _ in pieces]
        present = self.present(keys)
        missing = [key not in present and key not in self._pending for key in keys]
        absent = dict(chosen(zip(keys, pieces, strict=True), missing))
        for (key, piece), parts in zip(absent.items(), wrap_pieces(list(absent.values())), strict=True):
            self._queue(key, _apart(piece[1], parts) if apart else parts)

    def store_within(self, whole: tuple[ObjectId, bytes], pieces: Iterable[tuple[ObjectId, bytes]]) -> None:
        """Let chunks that are there already be stored as parts of a longer one, which this commit refers to.

        Args:
            whole: id and payload of the longer one.
            pieces: ids and payloads.
        """
        # Only of shorter ones, so that nothing is ever stored as a part of itself.
        shorter = {Kind.CHUNK + id: (id, piece) for id, piece in pieces if len(piece) < len(whole[1])}
        present = self.present(list(shorter)) - self._pending.keys()
        for key in present:
            header, body = wrap(*shorter[key], base=Base(*whole, 0))
            if is_based(header):
                self._within[key] = b"".join((header, body))

    def stored_within(self) -> Mapping[bytes, bytes]:
        """What the publishing swap is to store in the place of what is there. No other one may: see `flush`."""
        return self._within

    def present(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of the keys that are in the store, as far as can be told without reading them."""
        known = self._presence.keys
        present = {key for key in keys if key in known}
        look: Callable[[Iterable[bytes]], set[bytes]] | None = getattr(self._store, "present", None)
        if look is not None and len(present) < len(keys):
            found = look([key for key in keys if key not in known])
            self._presence.note(found)
            present |= found
        return present

    def flush(self) -> None:
        """Store what was collected, in a transaction before the one that publishes."""
        if self._pending:
            pending, self._pending, self._pending_bytes = self._pending, {}, 0
            # Only the publishing swap, which expects that nothing was deleted, may store differences: here their base
            # could go away while they stay.
            whole = {key: self._payloads[key] for key, parts in pending.items() if is_based(parts[0])}
            pending.update(
                (key, wrap(ObjectId(key[1:]), payload, version=version_of(kind_of(key))))
                for key, payload in whole.items()
            )
            self._store.put_many(pending)
            self._objects.note_depths(dict.fromkeys(self._depths.keys() & pending, 0))
            self._depths = {}
            self._note(pending)

    def pending(self) -> dict[bytes, tuple[bytes, Buffer]]:
        """What the publishing swap is to store itself."""
        return self._pending

    def note_published(self) -> None:
        """Note that the swap that stored `pending()` went through."""
        self._note(self._pending)
        self._objects.note_depths(self._depths)
        self._pending, self._pending_bytes, self._within, self._depths = {}, 0, {}, {}

    def requeue(self, epoch: bytes | None, missing: Iterable[bytes]) -> list[bytes]:
        """Queue again what a collection took, go on in its epoch, and return the keys that nobody holds any more."""
        self.epoch = epoch
        unknown: list[bytes] = []
        for key in missing:
            payload = self._payloads.get(key)
            if payload is None:
                unknown.append(key)
            else:
                self._queue(key, wrap(ObjectId(key[1:]), payload, version=version_of(kind_of(key))))
        return unknown

    def _queue(self, key: bytes, parts: tuple[bytes, Buffer]) -> None:
        size = len(parts[0]) + len(parts[1])
        self._pending[key] = parts
        self._pending_bytes += size
        self.written_bytes += size
        if self._pending_bytes >= BATCH_BYTES:
            self.flush()

    def _note(self, keys: Iterable[bytes]) -> None:
        if self._presence.epoch == self.epoch:
            # No other commit is the same, and hardly a tree node is made again that an edit replaced.
            self._presence.note(key for key in keys if not key.startswith((Kind.COMMIT, Kind.TREE)))


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
_WRITTEN_TOGETHER: Final = 16  # pieces, up to 4 MB
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
            if len(fresh) == _WRITTEN_TOGETHER:
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

PIECE: Final = 262_080  # with the largest header exactly 64 pages of LMDB
LEAST_STRIDE: Final = 64 << 10
WHOLE_STREAM: Final = 64 << 10
AVERAGE_STREAM_CHUNK: Final = 16 << 10
PARALLEL_FROM: Final = 16 << 20  # bytes; starting the threads takes as long as hashing 3 MB
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

OUTPUTS_VERSION: Final = 1

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
    if found.version > OUTPUTS_VERSION:
        raise NewerFormatError("the output of a cell", found.version, OUTPUTS_VERSION)
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
