"""A bundle's file: a zip whose members can be read in place, and the store in it, which cannot be written.

Three members are the store. `store/objects` holds all objects one after the other, `store/index` says where each lies, and
`store/records` is what would change in a store that can be written: branches, tags, HEAD, events. Nothing is unpacked: the
objects that somebody asks for are read where they lie.

A file may come from anywhere, so its directory is checked before anything else: names that no bundle has, members that unpack
to far more than they are, more members than any bundle has, and any byte that `Packer` would not have written, which no digest
would cover. The manifest has the digests of all members. What is read of one is compared with it, and objects with their ids as
`repository.objects` reads them: whoever trusts a manifest is given nothing but what it names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import struct
import threading
import zipfile
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self, cast

import msgspec

from agent_kernel.errors import BundleError, NewerFormatError, StoreReadOnlyError, StoreUnavailableError
from agent_kernel.storage import NO_ITEMS, Buffer, StoreSize

BUNDLE_VERSION: Final = 1
SUFFIX: Final = ".agentnb"
MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "signature.json"  # of the manifest, which therefore does not list it
OBJECTS: Final = "store/objects"
INDEX: Final = "store/index"
RECORDS: Final = "store/records"
NOTEBOOK: Final = "notebook.ipynb"
REQUIREMENTS: Final = "requirements.txt"
LOCK: Final = "pylock.toml"
CRATE: Final = "ro-crate-metadata.json"
README: Final = "README.txt"
# Names that any file system takes, and takes as they are. Export writes no other ones.
_NAMES: Final = frozenset({MANIFEST, SIGNATURE, OBJECTS, INDEX, RECORDS, NOTEBOOK, REQUIREMENTS, LOCK, CRATE, README})
_DATA_NAME: Final = re.compile(r"data/([A-Za-z_][A-Za-z0-9_-]{0,99})\.(?:arrow|csv|json|npy|parquet|txt)")
DEVICES: Final = frozenset(("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))))

OBJECT_KINDS: Final = b"bcdlmost"  # how keys of objects begin; those of records begin with other letters
KEY_SIZE: Final = 34  # of an object: its kind, its digest, the digest's algorithm
ROW: Final = struct.Struct(f">{KEY_SIZE}sQQ")  # its key, where it begins within `store/objects`, and its length

MOST_MEMBERS: Final = 20_000
_MOST_DIRECTORY: Final = 8 << 20  # bytes
_MOST_EXPANSION: Final = 1100  # times its size in the file: no member can have more
_MOST_UNPACKED: Final = 1 << 30  # bytes of all members that are packed
MOST_TEXT: Final = 64 << 20  # bytes of a member that is read as a whole
_MOST_INDEX: Final = 512 << 20  # bytes: ten million objects
_MOST_OBJECT: Final = 1 << 30  # bytes
_PIECE: Final = 1 << 20  # bytes that are read at once
_MOST_RECORDS: Final = 1_000_000
# What a bundle may say of itself as a store. A secret, say, is what tells stores apart that the reader trusts.
_RECORDS_OF_A_BUNDLE: Final = (b"r/heads/", b"r/tags/", b"e/")
_SINGLE_RECORDS: Final = frozenset({b"h/", b"x/format"})

_END: Final = struct.Struct("<4s4H2LH")
_END_64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR: Final = struct.Struct("<4sLQL")
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_SIZES: Final = struct.Struct("<2H2Q")  # the extra field of a large member
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_VERSION: Final = 45  # of the zip format, with 64 bits
_UNIX: Final = 3
_FIRST_DAY: Final = 1 << 5 | 1  # 1 January 1980
_LONG: Final = 0xFFFFFFFF
_LARGE: Final = (1 << 31) - 1  # bytes; for more of them 64 bits are used


class Member(msgspec.Struct, frozen=True):
    """One file within the zip."""

    name: str
    at: int  # where its header begins
    start: int  # of its bytes in the zip
    packed: int  # its bytes in the zip
    size: int
    is_packed: bool
    crc: int


def _header_of(member: Member) -> bytes:
    """What stands before the bytes of a member."""
    name, kind = member.name.encode(), zipfile.ZIP_DEFLATED if member.is_packed else zipfile.ZIP_STORED
    # Whoever packs a small member again as it is has its sizes in the header.
    is_short = member.start == member.at + _LOCAL.size + len(name)
    sizes = b"" if is_short else _SIZES.pack(1, _SIZES.size - 4, member.size, member.packed)
    header_sizes = (member.packed, member.size) if is_short else (_LONG, _LONG)
    header = _LOCAL.pack(
        b"PK\x03\x04", _VERSION, 0, kind, 0, _FIRST_DAY, member.crc, *header_sizes, len(name), len(sizes)
    )
    return header + name + sizes


def _directory_of(members: Sequence[Member]) -> bytes:
    """What stands behind the bytes of the last member. Source: APPNOTE.TXT of PKWARE, and Python's `zipfile`."""
    found = b"".join(map(_entry_of, members))
    at = members[-1].start + members[-1].packed if members else 0
    count, size, records = len(members), len(found), b""
    if at > _LARGE:
        records = _END_64.pack(b"PK\x06\x06", _END_64.size - 12, _VERSION, _VERSION, 0, 0, count, count, size, at)
        records += _LOCATOR.pack(b"PK\x06\x07", 0, at + size, 1)
    return found + records + _END.pack(b"PK\x05\x06", 0, 0, count, count, size, min(at, _LONG), 0)


def _entry_of(member: Member) -> bytes:
    name, kind = member.name.encode(), zipfile.ZIP_DEFLATED if member.is_packed else zipfile.ZIP_STORED
    is_large, is_far = max(member.size, member.packed) > _LARGE, member.at > _LARGE
    large = [*([member.size, member.packed] if is_large else []), *([member.at] if is_far else [])]
    extra = struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""
    sizes = (_LONG, _LONG) if is_large else (member.packed, member.size)
    return (
        _ENTRY.pack(
            b"PK\x01\x02",
            _UNIX << 8 | _VERSION,
            _VERSION,
            0,
            kind,
            0,
            _FIRST_DAY,
            member.crc,
            *sizes,
            len(name),
            len(extra),
            0,
            0,
            0,
            (stat.S_IFREG | 0o644) << 16,
            _LONG if is_far else member.at,
        )
        + name
        + extra
    )


class Archive:
    """A zip that was checked, and whose members are read in place.

    Raises:
        BundleError: it is not a zip, or one that no bundle is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise BundleError(str(path), "it is not a regular file")
            self._file = path.open("rb", buffering=0)
        except FileNotFoundError:
            raise BundleError(str(path), "there is no such file") from None
        except OSError as error:
            raise BundleError(str(path), f"it cannot be read ({error})") from error
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            self.members = self._read_directory()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def read_at(self, start: int, size: int) -> bytes:
        """The bytes at this place. The file is not mapped: a reader of mapped memory dies where another program cuts the file off.

        Raises:
            BundleError: the file does not have so many bytes any more, or cannot be read.
        """
        try:
            found = self._read_at(start, size)
            while len(found) < size and (more := self._read_at(start + len(found), size - len(found))):
                found += more
        except (OSError, ValueError) as error:
            raise self.refuse(f"it cannot be read ({error})") from error
        if len(found) < size:
            raise self.refuse("it was cut off while it was read")
        return found

    if hasattr(os, "pread"):

        def _read_at(self, start: int, size: int) -> bytes:
            return os.pread(self._file.fileno(), size, start)

    else:  # Windows

        def _read_at(self, start: int, size: int) -> bytes:
            with self._lock:
                self._file.seek(start)
                return self._file.read(size)

    def refuse(self, reason: str) -> BundleError:
        return BundleError(str(self.path), reason)

    def _read_directory(self) -> dict[str, Member]:
        self._check_directory()
        try:
            with zipfile.ZipFile(self._file) as opened:
                infos = opened.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError, UnicodeError) as error:
            raise self.refuse(f"it is not a whole zip file ({error})") from error
        members: dict[str, Member] = {}
        folded: set[str] = set()
        for info in infos:
            if info.filename.casefold() in folded:
                raise self.refuse(f"it holds {info.filename!r} twice")
            folded.add(info.filename.casefold())
            members[info.filename] = self._locate(info)
        self._check_layout(list(members.values()))
        return members

    def _check_directory(self) -> None:
        """Look at the end of the file: the directory is read as a whole, so it must not be large."""
        first = max(0, self.size - _END.size - 0xFFFF - _LOCATOR.size)
        end = self.read_at(first, self.size - first)
        at = end.rfind(b"PK\x05\x06")
        if at < 0 or at + _END.size > len(end):
            raise self.refuse("it is not a zip file")
        _, _, _, _, count, length, _, _ = _END.unpack_from(end, at)
        if at >= _LOCATOR.size:  # zipfile believes this record wherever it is there
            mark, _, where, _ = _LOCATOR.unpack_from(end, at - _LOCATOR.size)
            if mark == b"PK\x06\x07" and where + _END_64.size <= self.size:
                *_, count_64, length_64, _ = _END_64.unpack(self.read_at(where, _END_64.size))
                count, length = max(count, count_64), max(length, length_64)
        if count > MOST_MEMBERS or length > _MOST_DIRECTORY:
            raise self.refuse(f"it claims {count:,} members, and a bundle has at most {MOST_MEMBERS:,}")

    def _check_name(self, name: str) -> None:
        found = _DATA_NAME.fullmatch(name)
        if name not in _NAMES and (found is None or found[1].casefold() in DEVICES):
            raise self.refuse(f"it holds a member called {name!r}, which no bundle has")

    def _locate(self, info: zipfile.ZipInfo) -> Member:
        is_packed = info.compress_type != zipfile.ZIP_STORED
        if is_packed and info.compress_type != zipfile.ZIP_DEFLATED:
            raise self.refuse(f"{info.filename!r} in it is compressed in a way that bundles do not use")
        if not is_packed and info.compress_size != info.file_size:
            raise self.refuse(f"{info.filename!r} in it has two sizes")
        if info.file_size > max(info.compress_size, 1024) * _MOST_EXPANSION:
            raise self.refuse(f"{info.filename!r} in it would unpack to {info.file_size:,} bytes")
        at = info.header_offset
        extra = int.from_bytes(self.read_at(at + _LOCAL.size - 2, 2), "little")
        start = at + _LOCAL.size + len(info.filename.encode()) + extra
        return Member(info.filename, at, start, info.compress_size, info.file_size, is_packed, info.CRC)

    def _check_layout(self, members: Sequence[Member]) -> None:
        """Raise BundleError unless each byte around the members is as `Packer` writes it: no digest covers these."""
        unpacked = sum(member.size for member in members if member.is_packed)
        if unpacked > _MOST_UNPACKED:
            raise self.refuse(f"its members would unpack to {unpacked:,} bytes")
        at = 0
        for member in members:
            self._check_name(member.name)
            header = _header_of(member)
            if member.at != at or member.start != at + len(header) or self.read_at(at, len(header)) != header:
                raise self.refuse(f"{member.name!r} does not lie where its directory says, or its header was changed")
            at = member.start + member.packed
        end = _directory_of(members)
        if self.size != at + len(end) or self.read_at(at, len(end)) != end:
            raise self.refuse("it has bytes that belong to no member, or its directory was changed")

    def place(self, name: str) -> Member:
        """Where a member lies that is not packed."""
        member = self._member(name)
        if member.is_packed:
            raise self.refuse(f"{name!r} in it is packed, and must not be")
        return member

    def read(self, name: str, most: int = MOST_TEXT) -> bytes:
        """The bytes of a member.

        Raises:
            BundleError: there is no such member, or it is damaged, or larger than `most`.
        """
        member = self._member(name)
        if member.size > most:
            raise self.refuse(f"{name!r} in it has {member.size:,} bytes, and at most {most:,} are read")
        return b"".join(self.pieces(name))

    def pieces(self, name: str) -> Iterable[bytes]:
        """The bytes of a member, piece by piece, checked against its size and its checksum at the end."""
        member = self._member(name)
        inflate = zlib.decompressobj(-15) if member.is_packed else None
        done = crc = 0
        for start in range(0, member.packed, _PIECE):
            piece = self.read_at(member.start + start, min(_PIECE, member.packed - start))
            if inflate is not None:
                try:
                    piece = inflate.decompress(piece, max(member.size - done + 1, 1))
                except zlib.error as error:
                    raise self.refuse(f"{name!r} in it does not unpack ({error})") from error
            done, crc = done + len(piece), zlib.crc32(piece, crc)
            if done > member.size:
                raise self.refuse(f"{name!r} in it is longer than its directory says")
            yield piece
        if done != member.size or crc != member.crc or (inflate is not None and not inflate.eof):
            raise self.refuse(f"{name!r} in it is damaged: its checksum does not match")

    def digest(self, name: str) -> str:
        """The SHA-256 of a member."""
        found = hashlib.sha256()
        for piece in self.pieces(name):
            found.update(piece)
        return found.hexdigest()

    def _member(self, name: str) -> Member:
        if name not in self.members:
            raise self.refuse(f"it holds no {name}")
        return self.members[name]


class _Ref(msgspec.Struct, frozen=True, array_like=True):
    """A branch or a tag, as `repository.refs` stores it."""

    stamp: int
    commit: bytes


class ArchiveStore:
    """The store in a bundle. It can be read and not written.

    Raises:
        BundleError: the file is not a bundle, or its index does not fit.
    """

    is_readonly: Final = True

    def __init__(self, path: Path) -> None:
        self.archive = Archive(Path(path))
        try:
            self._take_up()
        except BaseException:
            self.archive.close()
            raise

    def __repr__(self) -> str:
        return f"<ArchiveStore {self.archive.path}>"

    def _take_up(self) -> None:
        archive = self.archive
        # As it is now, whatever becomes of the file: a signature covers it, and trust goes by it.
        self.manifest_bytes = archive.read(MANIFEST)
        self.fingerprint = hashlib.sha256(self.manifest_bytes).digest()
        self.manifest = self._read_manifest()
        self._objects, index = archive.place(OBJECTS), archive.place(INDEX)
        if index.size % ROW.size or index.size > _MOST_INDEX:
            raise archive.refuse("its index is cut off" if index.size % ROW.size else "its index is too large")
        self._index = self.read(INDEX, _MOST_INDEX)
        self._count = len(self._index) // ROW.size
        self._records = self._read_records()
        self._names = sorted(self._records)
        self._check_refs()
        self._closed = False

    def _read_manifest(self) -> dict[str, Any]:
        """What the bundle says of itself.

        Raises:
            BundleError: it cannot be read. NewerFormatError: a newer release made the bundle.
        """
        try:
            found: object = json.loads(self.manifest_bytes)
        except (ValueError, RecursionError) as error:
            raise self.archive.refuse(f"its manifest cannot be read ({error})") from error
        manifest = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        version = manifest.get("bundle")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise self.archive.refuse("its manifest does not say which format it has")
        if version > BUNDLE_VERSION:
            raise NewerFormatError(str(self.archive.path), version, BUNDLE_VERSION)
        if not isinstance(manifest.get("members"), dict):
            raise self.archive.refuse("its manifest names no members")
        return manifest

    def _read_records(self) -> dict[bytes, bytes]:
        try:
            found = msgspec.msgpack.decode(self.read(RECORDS), type=list[tuple[bytes, bytes]])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self.archive.refuse(f"its records cannot be read ({error})") from error
        records = dict(found)
        if len(records) != len(found) or len(found) > _MOST_RECORDS:
            raise self.archive.refuse("it holds a record twice, or too many of them")
        for key in records:
            if key not in _SINGLE_RECORDS and not key.startswith(_RECORDS_OF_A_BUNDLE):
                raise self.archive.refuse(f"it holds a record {key[:40]!r}, which no bundle has")
        return records

    def _check_refs(self) -> None:
        """Raise BundleError unless the branches and tags are those that the manifest names, for those who read no more."""
        for prefix, kind in ((b"r/heads/", "branches"), (b"r/tags/", "tags")):
            try:
                present = {
                    key.removeprefix(prefix).decode(): msgspec.msgpack.decode(stored, type=_Ref).commit[:-1].hex()
                    for key, stored in self._records.items()
                    if key.startswith(prefix)
                }
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise self.archive.refuse(f"its {kind} cannot be read ({error})") from error
            if present != self.manifest.get(kind):
                raise self.archive.refuse(f"its manifest names other {kind} than its history has")

    def refuse(self, reason: str) -> BundleError:
        """What to raise where an object does not match its id: anyone may have written the file."""
        return self.archive.refuse(reason)

    def read(self, name: str, most: int = MOST_TEXT) -> bytes:
        """The bytes of a member, compared with their digest in the manifest.

        Raises:
            BundleError: there is no such member, it does not match, or is larger than `most`.
        """
        content = self.archive.read(name, most)
        if self.manifest["members"].get(name) != {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}:
            raise self.archive.refuse(f"{name!r} in it does not match its digest")
        return content

    @property
    def url(self) -> str:
        return f"bundle://{self.archive.path.absolute().as_posix()}"

    def check_index(self) -> None:
        """Raise BundleError unless the index is in order, and the objects lie one after the other without a gap."""
        end, before = 0, b""
        for key, start, length in ROW.iter_unpack(self._index):
            if key <= before or start != end or key[:1] not in OBJECT_KINDS:
                raise self.archive.refuse("its index is not in order")
            end, before = start + length, key
        if end != self._objects.size:
            raise self.archive.refuse("its index does not fit its objects")

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the values that are there."""
        found: dict[bytes, bytes] = {}
        for key in keys:
            value = self._find(key)
            if value is not None:
                found[key] = value
        return found

    def view_many(self, keys: Iterable[bytes], visit: Callable[[bytes, memoryview], object]) -> None:
        """Show each value that is there; the view is released when `visit` returns."""
        for key in keys:
            value = self._find(key)
            if value is not None:
                with memoryview(value) as view:
                    visit(key, view)

    def present(self, keys: Iterable[bytes]) -> set[bytes]:
        """Return those of the keys that are there."""
        return {key for key in keys if self._where(key) is not None or key in self._records}

    def _find(self, key: bytes) -> bytes | None:
        where = self._where(key)
        return self._records.get(key) if where is None else self.archive.read_at(*where)

    def _where(self, key: bytes) -> tuple[int, int] | None:
        """Where an object lies in the file, and how long it is; None where it is not there."""
        self._check_open()
        if len(key) != KEY_SIZE or key[:1] not in OBJECT_KINDS:
            return None
        at = self._place(key)
        if at == self._count:
            return None
        found_key, start, length = ROW.unpack_from(self._index, at * ROW.size)
        if found_key != key:
            return None
        if start + length > self._objects.size:
            raise self.archive.refuse("its index leads out of it")
        if length > _MOST_OBJECT:
            raise self.archive.refuse(f"an object in it has {length:,} bytes, which none has")
        return self._objects.start + start, length

    def _place(self, key: bytes) -> int:
        """Where this key stands in the index, or would stand."""
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            at = middle * ROW.size
            if self._index[at : at + KEY_SIZE] < key:
                low = middle + 1
            else:
                high = middle
        return low

    def keys(self, prefix: bytes, after: bytes = b"", limit: int = 1000) -> list[bytes]:
        """Return up to `limit` keys that start with `prefix` and come after `after`, in byte order."""
        self._check_open()
        start = bisect_left(self._names, prefix) if prefix > after else bisect_right(self._names, after)
        found = [key for key in self._names[start : start + max(limit, 0)] if key.startswith(prefix)]
        at = self._place(max(prefix, after))
        while at < self._count and len(found) < 2 * max(limit, 0):
            key = self._index[at * ROW.size : at * ROW.size + KEY_SIZE]
            at += 1
            if key > after or not after:
                if not key.startswith(prefix):
                    break
                found.append(key)
        return sorted(found)[: max(limit, 0)]

    def size(self) -> StoreSize:
        """Return the size of the file, and how much there is in it."""
        nbytes = self.archive.size
        return StoreSize(disk_bytes=nbytes, used_bytes=nbytes, entries=self._count + len(self._records))

    def data_version(self) -> int:
        """Return the same number always: a bundle does not change."""
        return 0

    def put_many(self, items: Mapping[bytes, Sequence[Buffer] | Buffer]) -> None:
        """Refuse: raises StoreReadOnlyError."""
        raise self._refuse()

    def delete_many(self, keys: Iterable[bytes]) -> None:
        """Refuse: raises StoreReadOnlyError."""
        raise self._refuse()

    def swap(
        self,
        expected: Mapping[bytes, bytes | None],
        new: Mapping[bytes, bytes | None],
        items: Mapping[bytes, Sequence[Buffer] | Buffer] = NO_ITEMS,
    ) -> bool:
        """Refuse: raises StoreReadOnlyError."""
        raise self._refuse()

    def close(self) -> None:
        """Let go of the file."""
        self._closed = True
        self.archive.close()

    def _refuse(self) -> StoreReadOnlyError:
        return StoreReadOnlyError(self.url, "a bundle is only read: open it, or import it into a store")

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailableError(self.url, "it was closed")


class Packer:
    """Writes a bundle's zip, member by member. Equal members give equal bytes: no times, no owners.

    Use it as a context: what leaves it by an error leaves no file behind.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary_path = path.with_name(
            f".{path.name}.{hashlib.sha256(str(id(self)).encode()).hexdigest()[:8]}.tmp"
        )

    def __enter__(self) -> Self:
        self._file = self._temporary_path.open("xb")
        self._members: list[Member] = []
        self.digests: dict[str, tuple[str, int]] = {}  # by name: the SHA-256 and the size
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        try:
            with self._file:
                if kind is None:
                    self._file.write(_directory_of(self._members))
            if kind is None:
                self._temporary_path.replace(self._path)
        finally:
            self._temporary_path.unlink(missing_ok=True)

    def add(self, name: str, batches: Iterable[Sequence[Buffer]], *, packed: bool = False) -> None:
        """Add a member, from the pieces of each batch. `packed`: it is compressed, and can then only be read as a whole."""
        at = self._file.tell()
        start = at + self._file.write(_header_of(Member(name, at, -1, 0, 0, packed, 0)))
        deflate = zlib.compressobj(wbits=-15) if packed else None
        found, size, crc = hashlib.sha256(), 0, 0

        def read(pieces: Sequence[Buffer]) -> None:
            for piece in pieces:
                found.update(piece)

        # Beside the writing: for large pieces neither of the two holds the interpreter.
        with ThreadPoolExecutor(1) as executor:
            hashed = executor.submit(read, ())
            for pieces in batches:
                hashed.result()
                hashed = executor.submit(read, pieces)
                for piece in pieces:
                    size += memoryview(piece).nbytes
                    crc = zlib.crc32(piece, crc)
                    self._file.write(piece if deflate is None else deflate.compress(piece))
            hashed.result()
        if deflate is not None:
            self._file.write(deflate.flush())
        end = self._file.tell()
        member = Member(name, at, start, end - start, size, packed, crc)
        self._file.seek(at)
        self._file.write(_header_of(member))  # as long as before: now it is known what there is
        self._file.seek(end)
        self._members.append(member)
        self.digests[name] = (found.hexdigest(), size)
