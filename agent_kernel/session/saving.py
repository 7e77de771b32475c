"""Compare a dumped group with what was saved of it, and store what is new."""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec
from xxhash import xxh3_128, xxh3_128_digest

from agent_kernel.repository import (
    Blob,
    Entry,
    Kind,
    Manifest,
    ObjectId,
    Pieces,
    Unsaved,
    Writer,
    address,
    digest_pieces,
    encode,
    plan_cuts,
    store_blob,
    stream_cuts,
)
from agent_kernel.repository.objects import INLINE
from agent_kernel.session.provenance import version_now
from agent_kernel.session.tracking import (
    NO_CUTS,
    NO_IDS,
    NO_MARKS,
    NO_NAMES,
    NO_OWN,
    NO_PIECES,
    NO_RANGES,
    NO_ROOTS,
    Group,
    Roots,
)
from agent_kernel.values import CLASS_PREFIX, class_entry, list_for_person, previews
from agent_kernel.values.atoms import Part
from agent_kernel.values.definitions import DefinitionId
from agent_kernel.values.groups import Dumped, encode_layout
from agent_kernel.values.introspection import derives_from, ids_of, module_name
from agent_kernel.values.references import is_library, is_own, name_in, source_digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_kernel.values.aliases import Memory
    from agent_kernel.values.segments import Cuts

INLINE_MANIFEST = 320
_ONE_PIECE = 4096
_OWN_BYTES = 8
_NOTHING_READ: Mapping[int, Pieces] = {}
_NOTHING_LOST: Mapping[str, Collection[str]] = {}


class Compared(msgspec.Struct):
    """A dumped group with the digests of its blobs; `signature` covers all that is stored of it."""

    dumped: Dumped
    cuts: list[Sequence[int]]
    digests: list[Sequence[bytes]]
    signature: bytes
    is_plain: bool = False  # one short stream of numbers and texts, of which nothing else is to be noted

    @property
    def size(self) -> int:
        """Bytes of all streams and buffers."""
        own = sum(map(_size, self.dumped.blobs))
        return own + sum(component.compared.size for component in self.dumped.dump.met) if self.dumped.dump.met else own

    @property
    def own(self) -> bytes:
        """Covers the content alone: of a long container not how it refers to what other variables hold of it."""
        if self.dumped.dump.met:
            components = (component.compared.own for component in self.dumped.dump.met)
            return xxh3_128_digest(b"".join([self.signature, *components]))
        cut = self.dumped.segments
        if cut is None or self.dumped.layout.within:
            return self.signature
        buffers = (piece for pieces in self.digests[self.dumped.streams :] for piece in pieces)
        return xxh3_128_digest(b"".join([*(segment.digest for segment in cut.segments), *buffers]))


def own_of(value: object, alone: Compared) -> bytes:
    """Covers what a value is by itself. What is logged changes what a handler writes to, and not the handler."""
    if not derives_from(type(value), logging.Handler) and not derives_from(type(value), logging.Logger):
        return alone.own
    attributes = {
        name: found for name, found in vars(value).items() if name not in ("_cache", "lock", "parent", "manager")
    }
    return xxh3_128_digest(repr(sorted((name, _identify(found)) for name, found in attributes.items())).encode())


def _identify(found: object) -> object:
    if type(found) in (list, tuple):
        return list(map(id, cast("list[object]", found)))
    return found if type(found) in (int, str, bool) else id(found)


def compare(dumped: Dumped, read: Mapping[int, Pieces] = _NOTHING_READ) -> Compared:
    """Hash every blob piece by piece: one fast pass over the bytes.

    Args:
        read: by address memory whose pieces were hashed when it was filled, and need not be again.
    """
    cuts: list[Sequence[int]] = []
    digests: list[Sequence[bytes]] = []
    whole = xxh3_128()
    for position, blob in enumerate(dumped.blobs):
        ends: Sequence[int]
        if isinstance(blob, Part):
            ends, pieces = _hash_part(blob)
            cuts.append(ends)
            digests.append(pieces)
            whole.update(b"".join([blob.nbytes.to_bytes(8, "little"), *pieces]))
            continue
        view = _view(blob)
        if 0 < view.nbytes <= _ONE_PIECE:  # thousands of them in one figure
            ends, pieces = [view.nbytes], [xxh3_128_digest(view)]
        else:
            step = None if position < dumped.streams else dumped.steps[position - dumped.streams]
            ends = stream_cuts(view) if position < dumped.streams else plan_cuts(view.nbytes, step)
            known = read.get(address_in(view)) if read and not view.readonly else None
            pieces = known.digests if known is not None and known.cuts == tuple(ends) else digest_pieces(view, ends)
        cuts.append(ends)
        digests.append(pieces)
        whole.update(b"".join([view.nbytes.to_bytes(8, "little"), *pieces]))
    for definition in dumped.dump.definitions:
        whole.update(definition)
    return Compared(dumped, cuts, digests, whole.digest())


def compare_plain(dumped: Dumped) -> Compared:
    """The same of what `dump_plain` gave, which is one stream."""
    (stream,) = cast("list[bytes]", dumped.blobs)
    if len(stream) > INLINE:
        return compare(dumped)
    digest = xxh3_128_digest(stream)
    return Compared(dumped, [(len(stream),)], [(digest,)], signature_of(stream), is_plain=True)


def signature_of(stream: bytes) -> bytes:
    """The signature of a value that is one short stream and no more; nothing where the stream is long."""
    if not 0 < len(stream) <= _ONE_PIECE:
        return b""
    return xxh3_128_digest(len(stream).to_bytes(8, "little") + xxh3_128_digest(stream))


def _hash_part(part: Part) -> tuple[Sequence[int], Sequence[bytes]]:
    """Of an array that is known its bytes need not be made."""
    fact = part.fact
    if fact.cuts is None:
        view = part.raw()
        cuts = stream_cuts(view)
        fact.digests = digest_pieces(view, cuts)
        fact.cuts = cuts
    return fact.cuts, fact.digests


def address_in(view: memoryview) -> int:
    """Where the bytes of a writable view are."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def _view(blob: bytes | Memory) -> memoryview:
    return memoryview(blob) if isinstance(blob, bytes) else blob.raw()


def _size(blob: bytes | Memory) -> int:
    if isinstance(blob, bytes):
        return len(blob)
    return blob.nbytes if isinstance(blob, Part) else _view(blob).nbytes


def save(
    writer: Writer,
    compared: Compared,
    members: Mapping[str, object],
    before: Group | None,
    own: Mapping[str, bytes],
    sizes: Mapping[str, int],
    roots: Mapping[str, Roots],
    failures: Mapping[str, Collection[str]] = _NOTHING_LOST,
    whole: Compared | None = None,
) -> Group:
    """Store the group and return what to remember of it.

    Args:
        losing: by member the tokens of what it leads to that cannot be saved.
        sizes: bytes of each member, dumped without the others.
        whole: what to store, where that is more than what is compared.
    """
    stores = whole or compared
    dumped = stores.dumped
    known = before.pieces if before is not None else []
    # A column that is set moves others to another place among the buffers.
    same = {found.digests: found for found in known if found.ids}
    blobs: list[Blob] = []
    pieces: list[Pieces] = []
    for position, blob in enumerate(dumped.blobs):
        earlier = same.get(tuple(stores.digests[position]), known[position] if position < len(known) else None)
        cuts, digests = stores.cuts[position], stores.digests[position]
        stored, stored_pieces = store_blob(writer, partial(_view, blob), cuts, digests, earlier)
        blobs.append(stored)
        pieces.append(stored_pieces)
    manifest = _manifest(writer, dumped, blobs, tuple(members), failures)
    made = _group(compared, members, _entries(writer, manifest, members, sizes, own), pieces, manifest.size, own, roots)
    made.unsaved = manifest.unsaved
    # Where another thread wrote to a buffer while it was saved, the next cell saves it again.
    made.stale = any(tuple(seen) != piece.digests for seen, piece in zip(stores.digests, pieces, strict=True))
    return made


def save_plain(writer: Writer, name: str, value: object, compared: Compared) -> Group:
    """Store a value of which a short stream is all that there is to say; returns what to remember of it, as `save` does."""
    (stream,) = cast("list[bytes]", compared.dumped.blobs)
    manifest = Manifest(blobs=(Blob(len(stream), inline=stream),), size=len(stream))
    return Group(
        members=(name,),
        signature=compared.signature,
        own=NO_OWN,
        stored=_entries(writer, manifest, {name: value}, {}, {name: compared.signature})[name],
        pieces=NO_PIECES,
        reach=compared.dumped.reach,
        globals_used=NO_NAMES,
        classes=NO_NAMES,
        save_failures=(),
        size=manifest.size,
        roots=NO_ROOTS,
        held_ids=NO_IDS,
        held_memory=NO_RANGES,
        holders=NO_NAMES,
        cuts=NO_CUTS,
        marks=NO_MARKS,
        data=NO_OWN,
    )


def _manifest(
    writer: Writer,
    dumped: Dumped,
    blobs: list[Blob],
    names: tuple[str, ...],
    losing: Mapping[str, Collection[str]],
) -> Manifest:
    for payload in dumped.dump.definitions.values():
        writer.add(Kind.DEFINITION, payload)
    size = sum(blob.size for blob in blobs)
    return Manifest(
        layout=encode_layout(dumped.layout),
        blobs=tuple(blobs),
        definitions=tuple(ObjectId(address_of(found)) for found in sorted(dumped.dump.definitions)),
        classes=tuple(sorted(class_entry(uid) for uid in dumped.dump.classes if class_entry(uid) not in names)),
        slots=len(names),
        size=size,
        packages=packages_of(dumped),
        unsaved=describe_unsaved(dumped, names, losing),
    )


def address_of(definition: DefinitionId) -> bytes:
    """The repository's id of a definition: both hash the same bytes the same way."""
    return definition + _ALGORITHM


_ALGORITHM = address(b"")[32:]


def describe_unsaved(
    dumped: Dumped, names: Sequence[str], losing: Mapping[str, Collection[str]] = _NOTHING_LOST
) -> tuple[Unsaved, ...]:
    """Describe what cannot be saved, under the names that lead to it; all where none is known to."""
    found: list[Unsaved] = []
    for failure in dumped.dump.save_failures.values():
        leading = [name for name in names if failure.token in losing.get(name, ())]
        found.append(Unsaved(list_for_person(leading or names), failure.type, failure.reason, failure.remedy))
    return tuple(found)


def _entries(
    writer: Writer,
    manifest: Manifest,
    members: Mapping[str, object],
    sizes: Mapping[str, int],
    own: Mapping[str, bytes],
) -> dict[str, Entry]:
    payload = encode(manifest)
    inline = len(payload) <= INLINE_MANIFEST and len(members) == 1
    id = None if inline else writer.add(Kind.MANIFEST, payload)
    alias_group = min(members) if len(members) > 1 else ""
    return {
        name: Entry(
            value=payload if inline else b"",
            manifest=id,
            slot=slot,
            alias_group=alias_group,
            preview=_preview(writer, name, value, min(sizes.get(name, manifest.size), manifest.size)),
            own=b"" if name.startswith(CLASS_PREFIX) else own.get(name, b"")[:_OWN_BYTES],
        )
        for slot, (name, value) in enumerate(members.items())
    }


def _preview(writer: Writer, name: str, value: object, size: int) -> bytes:
    if name.startswith(CLASS_PREFIX):
        return b""
    preview = previews.make_preview(value, name)
    if preview.size_bytes:  # what is stored of it, as in the history; not all types tell what they take in memory
        preview = msgspec.structs.replace(preview, size_bytes=size)
    return writer.add_preview(previews.encode(preview))


def _group(
    compared: Compared,
    members: Mapping[str, object],
    entries: dict[str, Entry],
    pieces: list[Pieces],
    size: int,
    own: Mapping[str, bytes],
    roots: Mapping[str, Roots],
) -> Group:
    dumped = compared.dumped
    names = tuple(members)
    return Group(
        members=names,
        signature=compared.signature,
        own=NO_OWN if all(own.get(name) == compared.signature for name in names) else dict(own),
        roots={name: found for name, found in roots.items() if found} or NO_ROOTS,
        stored=entries if len(names) > 1 else next(iter(entries.values())),
        pieces=pieces if any(piece.ids for piece in pieces) else NO_PIECES,
        reach=dumped.reach,
        globals_used=frozenset(dumped.dump.globals_used) or NO_NAMES,
        held_ids=frozenset(dumped.dump.held_ids) or NO_IDS,
        held_memory=frozenset(dumped.dump.held_memory) or NO_RANGES,
        holders=frozenset(dumped.dump.holders) or NO_NAMES,
        classes=frozenset(dumped.dump.classes) or NO_NAMES,
        save_failures=tuple(dumped.dump.save_failures.values()),
        size=size,
        cuts=cuts_of(dumped, members) or NO_CUTS,
        marks=dumped.segments.marks if dumped.segments else NO_MARKS,
        met=dumped.met,
        digest=dumped.digest,
        data=NO_OWN,
        place=_place(dumped, members),
    )


def cuts_of(dumped: Dumped, members: Mapping[str, object]) -> dict[str | int, Cuts]:
    """Where long containers were cut: of a member by its name, of one within the members by its id."""
    cut = dumped.segments
    if cut is None:
        return {}
    if dumped.layout.within:
        return dict(zip(map(id, cut.values), cut.cuts, strict=True))
    return {tuple(members)[dumped.layout.long]: cut.cuts[0]}


def _place(dumped: Dumped, members: Mapping[str, object]) -> tuple[str, str]:
    """The name of a module, if that is all that was saved: then the value cannot change by its content."""
    dump = dumped.dump
    noted = (dump.instances, dump.opaque, dump.roots, dump.memory, dump.classes, dump.globals_used, dump.save_failures)
    if len(members) > 1 or len(dump.streams) != 1 or any(noted) or dump.held_ids or dump.holders or dumped.reach.ids:
        return "", ""
    stream = dump.streams[0]
    module, name = name_in(stream) if len(stream) < _LONGEST_NAME else ("", "")
    # A module of the person's own that holds nothing may come to hold something.
    return ("", "") if module and not name and not is_library(module) else (module, name)


_LONGEST_NAME = 600


def make_group(
    compared: Compared,
    members: Mapping[str, object],
    entries: dict[str, Entry],
    stored: Sequence[Pieces],
    own: Mapping[str, bytes],
    roots: Mapping[str, Roots],
) -> Group:
    """Note what to remember of a group that was just loaded: its live bytes now, the chunks that it came from."""
    pieces: list[Pieces] = []
    for position, (cuts, digests) in enumerate(zip(compared.cuts, compared.digests, strict=True)):
        same = (
            position < len(stored) and stored[position].cuts == tuple(cuts) and len(stored[position].ids) == len(cuts)
        )
        read = stored[position] if same and position >= compared.dumped.streams else None
        if read is None or (read.exact and read.digests != tuple(digests)):  # loading made something else of it
            pieces.append(Pieces(tuple(cuts), (), ()))
        else:
            pieces.append(Pieces(tuple(cuts), tuple(digests), read.ids, exact=read.exact))
    return _group(compared, members, entries, pieces, compared.size, own, roots)


def packages_of(dumped: Dumped) -> dict[str, str]:
    """Versions of the packages that the streams import from, so that a failed load can name them."""
    found: dict[str, str] = {}
    for package in sorted(_packages(dumped)):
        version = _version(package)
        if version:
            found[package] = version
    return found | _own_sources(dumped)


_SOURCE = " source"  # behind the name of a module, where else a package stands with its version


def _own_sources(dumped: Dumped) -> dict[str, str]:
    """What the source was of the modules of the person's own whose classes are saved as their names."""
    from agent_kernel.values.reducers import is_importable

    kinds: list[type] = list(map(type, (*dumped.dump.instances, *dumped.dump.opaque)))
    kinds = list(dict(zip(ids_of(kinds), kinds, strict=True)).values())  # by id: hashing a type runs its metaclass
    own = {module for module in set(map(module_name, kinds)) if is_own(module)}
    named = {module_name(kind) for kind in kinds if module_name(kind) in own and is_importable(kind)}
    digests = {module: source_digest(module) for module in named}
    return {f"{module}{_SOURCE}": digest for module, digest in sorted(digests.items()) if digest}


def is_source(package: str) -> bool:
    """Whether what a manifest says under this name is of the source of a module of the person's own."""
    return package.endswith(_SOURCE)


def find_changed_modules(packages: Mapping[str, str]) -> list[str]:
    """The modules of the person's own whose source is another one than these packages say."""
    own = {package.removesuffix(_SOURCE): digest for package, digest in packages.items() if is_source(package)}
    return [module for module, digest in own.items() if source_digest(module) not in ("", digest)]


def _packages(dumped: Dumped) -> Iterable[str]:
    if not (dumped.dump.instances or dumped.dump.opaque or dumped.dump.packages):
        return ()
    kinds = {type(value) for value in (*dumped.dump.instances, *dumped.dump.opaque)}
    names = {name.partition(".")[0] for kind in kinds if isinstance(name := getattr(kind, "__module__", None), str)}
    return (names | dumped.dump.packages) - {"builtins", "__main__", "agent_kernel"} - sys.stdlib_module_names


_versions: dict[str, str] = {}


def _version(package: str) -> str:
    if package not in _versions:
        _versions[package] = version_now(package)
    return _versions[package]
