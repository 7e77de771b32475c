"""Verify a bundle from end to end, and make a store of it, or bring its branches into one.

A bundle may come from anyone. Every digest is checked before any ref moves, nothing is unpickled, and what fails leaves nothing
behind.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from agent_kernel.agents.events import decode_event
from agent_kernel.bundle import keys
from agent_kernel.bundle.exporting import all_keys, note_origin
from agent_kernel.commands.scope import UsageProblem
from agent_kernel.errors import (
    AgentKernelError,
    BundleError,
    DamagedObjectError,
    NewerFormatError,
    StoreFullError,
    StoreUnavailableError,
    UntrustedStoreError,
)
from agent_kernel.repository import Commit, Kind, ObjectId, check_ref_name
from agent_kernel.repository import Repository as BareRepository
from agent_kernel.repository.commits import (
    ID_SIZE,
    KIND_NAMES,
    Inner,
    Node,
    decode_commit,
    decode_entry,
    decode_node,
    kind_of,
    level_of,
    preview_id,
)
from agent_kernel.repository.objects import ListNode, base_of, check, claimed_size, decode_list, make_damaged_error
from agent_kernel.repository.refs import BRANCHES, TAGS, Holder, Ref, branch_key, decode_record, encode_record, start_of
from agent_kernel.repository.runs import EVENTS
from agent_kernel.repository.upkeep import Reach, commit_keys
from agent_kernel.session import Repository, trust
from agent_kernel.session.provenance import decode_cell, decode_environment, decode_page
from agent_kernel.storage.archive import INDEX, MANIFEST, NOTEBOOK, OBJECTS, RECORDS, SIGNATURE, ArchiveStore
from agent_kernel.storage.memory import OverlayStore
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.storage import Buffer, Store


# -- whether all that a history holds has the form that its readers expect


_BATCH: Final = 256
_MOST_LEVELS: Final = 40  # of a tree or a list: each has many times what the one below has
_END_OF_TIME_NS: Final = 253_370_764_800 * 1_000_000_000  # the year 9999 begins
_DAY_S: Final = 86_400
_LONGEST_S: Final = 1e10  # that a cell can have taken


def check_form(repo: Repository, keys: Iterable[bytes]) -> None:
    """Decode all objects of a history, and its events.

    Args:
        keys: of all objects.

    Raises:
        DamagedObjectError: one is not in its form.
    """
    found: dict[bytes, list[bytes]] = {}
    for key in keys:
        found.setdefault(kind_of(key), []).append(key)
    small: dict[bytes, Callable[[bytes], object]] = {}
    documents: list[bytes] = []
    for key, payload in _payloads(repo, found.get(Kind.COMMIT, ())):
        commit = _read(key, payload, decode_commit)
        _check_commit(key, commit)
        small |= {Kind.SMALL + id: decode for id, decode in _small_of(commit)}
        rows = [row for _, row in commit.recent if row is not None]
        small |= dict.fromkeys(_previews_of(key, rows), previews.decode)
        if commit.document is not None and commit.document.cells is not None:
            documents.append(Kind.LIST + commit.document.cells)
    nodes = {key: _read(key, payload, decode_node) for key, payload in _payloads(repo, found.get(Kind.TREE, ()))}
    for key, node in nodes.items():
        small |= dict.fromkeys(_check_node(key, node, nodes), previews.decode)
    lists = {key: _read(key, payload, decode_list) for key, payload in _payloads(repo, found.get(Kind.LIST, ()))}
    for key, listed in lists.items():
        _check_list(key, listed, lists)
    for key, payload in _payloads(repo, small):
        _read(key, payload, small[key])
    for key, payload in _payloads(repo, _chunks_below(documents, lists)):
        _read(key, payload, decode_cell)
    for key in repo.pointers.keys(EVENTS):
        try:
            decode_event(repo.store.get_many([key])[key])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise DamagedObjectError("event", key[len(EVENTS) :].hex(), f"it cannot be decoded ({error})") from error


def _payloads(repo: Repository, keys: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    waiting = list(keys)
    for start in range(0, len(waiting), _BATCH):
        for key, found in repo.objects.fetch(waiting[start : start + _BATCH]).items():
            yield key, found.payload


T = TypeVar("T")


def _read(key: bytes, payload: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise make_damaged_error(key, f"it cannot be decoded ({error})") from error


def _check_commit(key: bytes, commit: Commit) -> None:
    if not 0 <= commit.time_ns < _END_OF_TIME_NS or abs(commit.utc_offset_s) >= _DAY_S:
        raise make_damaged_error(key, "it has a time that no calendar has")
    if any(change.how not in ("+", "~", "-") for change in commit.changed):
        raise make_damaged_error(key, "it does not say how a variable changed")
    if commit.cell is not None and not (isfinite(commit.cell.duration_s) and abs(commit.cell.duration_s) < _LONGEST_S):
        raise make_damaged_error(key, "its cell took no time that there is")


def _small_of(commit: Commit) -> Iterator[tuple[ObjectId, Callable[[bytes], object]]]:
    if commit.environment is not None:
        yield commit.environment, decode_environment
    if commit.notebook is not None:
        yield commit.notebook, decode_page


def _check_node(key: bytes, node: Node, nodes: dict[bytes, Node]) -> Iterator[bytes]:
    """Raise DamagedObjectError unless the tree is in order here; the keys of the previews."""
    if not isinstance(node, Inner):
        if len(node.rows) != len(node.names) or any(one >= other for one, other in pairwise(node.names)):
            raise make_damaged_error(key, "its names are not in order")
        yield from _previews_of(key, node.rows)
        return
    if not len(node.ids) == ID_SIZE * len(node.names) == ID_SIZE * len(node.counts) > 0:
        raise make_damaged_error(key, "its parts have different lengths")
    if not 0 < node.level <= _MOST_LEVELS or any(one >= other for one, other in pairwise(node.names)):
        raise make_damaged_error(key, "its names are not in order")
    for ref in node.refs():
        below = nodes.get(Kind.TREE + ref.id)
        if below is None or not below.names or below.names[0] != ref.name or level_of(below) != node.level - 1:
            raise make_damaged_error(key, "what is below it is not what it says")
        if ref.size != (sum(below.counts) if isinstance(below, Inner) else len(below.names)):
            raise make_damaged_error(key, "it holds another number of names than it says")


def _previews_of(key: bytes, rows: Iterable[bytes]) -> Iterator[bytes]:
    for row in rows:
        entry = _read(key, row, decode_entry)
        id = preview_id(entry)
        if id is not None:
            yield Kind.SMALL + id
        elif entry.preview:
            _read(key, entry.preview, previews.decode)


def _check_list(key: bytes, node: ListNode, lists: dict[bytes, ListNode]) -> None:
    if not 0 <= node.level <= _MOST_LEVELS or not len(node.ids) == ID_SIZE * len(node.sizes) > 0:
        raise make_damaged_error(key, "its parts have different lengths")
    for id, size in node.children() if node.level else ():
        below = lists.get(Kind.LIST + id)
        if below is None or below.level != node.level - 1 or sum(below.sizes) != size:
            raise make_damaged_error(key, "what is below it is not what it says")


def _chunks_below(roots: Iterable[bytes], lists: dict[bytes, ListNode]) -> Iterator[bytes]:
    seen = set(roots)
    waiting = list(seen)
    while waiting:
        node = lists[waiting.pop()]
        for id, _ in node.children():
            key = (Kind.LIST if node.level else Kind.CHUNK) + id
            if key not in seen:
                seen.add(key)
                if node.level:
                    waiting.append(key)
                else:
                    yield key


_MOST_EXPANSION: Final = 500  # of all objects together, times what they are in the file
_LEAST_ALLOWED: Final = 1 << 30  # bytes that all objects may have in any case

_TEMPORARY: Final = re.compile(r"\.opening-(\d{1,10})-")
_MAKER: Final = "maker"  # beside a store that is being made: by which process

Progress = Callable[[int, int], None]
_NEEDED: Final = frozenset({OBJECTS, INDEX, RECORDS, MANIFEST, NOTEBOOK})


class OpenBundle:
    """A bundle's file that is open: what it says of itself, and its history, to be read."""

    def __init__(self, store: ArchiveStore) -> None:
        self.store = store
        self.path = store.archive.path
        self.manifest = store.manifest
        self.repo = Repository.open(store, create=False)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of its manifest, which holds the digests of all else."""
        return self.store.fingerprint.hex()

    def notebook(self) -> bytes:
        """The notebook as it was at HEAD."""
        return self.store.read(NOTEBOOK)


@contextmanager
def opened(path: Path, *, soundly: bool = False) -> Generator[OpenBundle]:
    """Open a bundle to look at it. What is read of it is checked as it is read.

    Args:
        soundly: whether a wrong signature is refused here, and not only by `verify`.

    Raises:
        BundleError: it is not a bundle. NewerFormatError: a newer release made it.
    """
    store = ArchiveStore(path)
    try:
        with _as_bundle_errors(path):
            bundle = OpenBundle(store)
        if soundly:
            keys.require_sound(bundle.store)
        yield bundle
    finally:
        store.close()


@contextmanager
def reading(path: Path) -> Generator[None]:
    """What was made to be in no form at all is one line, too, where a history is read that was not verified as a whole.

    Raises:
        BundleError: something could not be read.
    """
    try:
        yield
    except DamagedObjectError as error:
        raise BundleError(str(path), f"a {error.kind} in it is damaged: {error.reason}") from error
    except (AgentKernelError, UsageProblem):
        raise
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise BundleError(str(path), f"its history is not in its form ({type(error).__name__}: {error})") from error


@contextmanager
def _as_bundle_errors(path: Path) -> Generator[None]:
    """What is damaged below is said of the bundle: its reader knows no objects."""
    try:
        yield
    except (BundleError, NewerFormatError, StoreFullError, StoreUnavailableError, UntrustedStoreError):
        raise
    except DamagedObjectError as error:
        raise BundleError(str(path), f"a {error.kind} in it is damaged: {error.reason}") from error
    except (msgspec.MsgspecError, ValueError, AgentKernelError) as error:
        raise BundleError(str(path), str(error)) from error


def verify(bundle: OpenBundle, progress: Progress | None = None) -> None:
    """Check all of a bundle: the signature, each member against the manifest, each object against its id, that none is missing.

    Raises:
        BundleError: something does not match; the text says what.
    """
    with _as_bundle_errors(bundle.path):
        keys.require_sound(bundle.store)
        _check_members(bundle)
        bundle.store.check_index()
        found = _check_objects(bundle.store, progress)
        _check_history(bundle, found)


def _check_members(bundle: OpenBundle) -> None:
    archive, listed = bundle.store.archive, cast("dict[str, Any]", bundle.manifest["members"])
    present = archive.members.keys() - {MANIFEST, SIGNATURE}
    if listed.keys() != present or not present >= _NEEDED - {MANIFEST}:
        odd = sorted(listed.keys() ^ present) or sorted(_NEEDED - present)
        raise archive.refuse(f"its manifest and its members differ: {', '.join(map(repr, odd[:5]))}")
    for name in sorted(present):
        facts = listed[name]
        if not isinstance(facts, dict) or facts != {"sha256": archive.digest(name), "size": archive.members[name].size}:
            raise archive.refuse(f"{name!r} in it does not match its digest")


def _check_objects(store: ArchiveStore, progress: Progress | None) -> set[bytes]:
    """Compare each object with its id; returns the keys of all."""
    seen: set[bytes] = set()
    room = max(_LEAST_ALLOWED, _MOST_EXPANSION * store.archive.size)

    def visit(key: bytes, view: memoryview) -> None:
        nonlocal room
        room -= claimed_size(key, view)
        if room < 0:
            raise store.archive.refuse("its objects would unpack to far more than it holds")
        _require_whole(store, key, view)
        seen.add(key)

    total = store.size().entries
    for page in pages(store):
        store.view_many(page, visit)
        if progress is not None:
            progress(len(seen), total)
    return seen


def _require_whole(store: ArchiveStore, key: bytes, stored: Buffer) -> None:
    """Raise BundleError unless an object stands alone and matches its id."""
    try:
        if base_of(key, stored) is not None:
            raise make_damaged_error(key, "it is stored as a difference from another")
        check(key, stored, strictly=True)
    except DamagedObjectError as error:
        raise store.refuse(f"a {error.kind} in it is damaged: {error.reason}") from error


def pages(store: Store) -> Iterable[list[bytes]]:
    """The keys of all objects, in order."""
    for kind in sorted(KIND_NAMES):
        after = b""
        while found := store.keys(kind, after, _BATCH):
            yield found
            after = found[-1]


def _check_history(bundle: OpenBundle, present: set[bytes]) -> None:
    refs = _refs(bundle.store)
    if not any(key.startswith(BRANCHES) for key in refs):
        raise bundle.store.archive.refuse("it has no branch")
    for key, at in refs.items():
        check_ref_name(key.partition(b"/")[2].partition(b"/")[2].decode("utf-8", "replace"))
        if Kind.COMMIT + at not in present:
            raise bundle.store.archive.refuse(f"{key.decode('utf-8', 'replace')} names a commit that it does not hold")
    head = bundle.repo.refs.head_record("")
    if head is None or head.branch is None or bundle.repo.branches().get(head.branch) != head.commit or head.session:
        raise bundle.store.archive.refuse("its HEAD is on no branch of it")
    missing: list[bytes] = []
    reach = Reach(bundle.repo.objects, missing=missing)
    reach.extend(commit_keys(refs.values()))
    lacking = missing or [key for key in reach.seen if key not in present]
    if lacking:
        raise bundle.store.archive.refuse(f"a {KIND_NAMES[kind_of(lacking[0])]} of its history is missing")
    if extra := present - reach.seen - {Kind.TREE + bundle.repo.tree(None).id}:
        raise bundle.store.archive.refuse(f"{len(extra):,} objects in it belong to no commit")
    check_form(bundle.repo, present)


def _refs(store: Store) -> dict[bytes, ObjectId]:
    found = [key for prefix in (BRANCHES, TAGS) for key in all_keys(store, prefix)]
    return {key: decode_record(raw, Ref).commit for key, raw in store.get_many(found).items()}


THEIRS: Final = "their-HEAD"  # the branch under which the HEAD of the other of two is found


@contextmanager
def overlaid(repo: Repository, other: Path) -> Generator[Repository]:
    """Both histories in one repository, to be compared: that of a bundle is on the branch `THEIRS`. Nothing is written.

    Raises:
        BundleError: the other is not a bundle.
    """
    with opened(other, soundly=True) as theirs:
        with _as_bundle_errors(other):
            tip = theirs.repo.head().commit
        if tip is None:
            raise BundleError(str(other), "it has no commit")
        both = OverlayStore(repo.store, theirs.store)
        both.swap({}, {branch_key(THEIRS): encode_record(Ref(0, tip))})
        yield Repository(both)


# -- a store and a notebook, side by side


class Opened(msgspec.Struct, frozen=True):
    """What opening a bundle made."""

    notebook: Path
    store: Path
    is_trusted: bool
    variables: int
    signature: keys.Check = keys.Check("unsigned")


def open_bundle(
    path: Path, folder: Path, *, name: str = "", trusts: bool = False, progress: Progress | None = None
) -> Opened:
    """Verify a bundle, then make its notebook and its store in a folder.

    Args:
        name: of the notebook without `.ipynb`; by default the bundle's.
        trusts: whether values may be loaded from it from now on, which can run its maker's code. A bundle that was
            trusted before, or signed with a trusted key, needs no such word.

    Raises:
        BundleError: it is not as its maker wrote it. StoreUnavailableError: the notebook, or its store, is there already.
    """
    from agent_kernel.commands.places import store_path_of

    notebook = folder / f"{name or path.name.removesuffix('.agentnb')}.ipynb"
    store = store_path_of(notebook.absolute())
    for target in (notebook, store):
        if os.path.lexists(target):
            raise _already_exists(target)
    if store.parent.is_symlink():
        raise StoreUnavailableError(str(store.parent), "it is a link: the store would be made somewhere else")
    with opened(path) as bundle:
        verify(bundle, progress)
        signature = keys.check(bundle.store)
        trusted = trusts or signature.is_trusted or trust.is_trusted(bundle.repo)
        variables = sum(not one.startswith("\0") for one in bundle.repo.tree_at(bundle.repo.head().commit).names())
        _install(bundle, notebook, store)
    if trusted:
        with Repository.open(store, create=False) as repo:
            repo.trust()
    return Opened(notebook, store, trusted, variables, signature)


def _already_exists(path: Path) -> StoreUnavailableError:
    return StoreUnavailableError(str(path), "it is there already; --as NAME opens the bundle under another name")


def _install(bundle: OpenBundle, notebook: Path, store: Path) -> None:
    """Make store and notebook, both or neither. What fails takes back what it made, and nothing of anybody else."""
    made_folder = not store.parent.exists()
    temporary = store.with_name(f".opening-{os.getpid()}-{secrets.token_hex(4)}-{store.name}")
    made_notebook = False
    try:
        store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(store.parent)
        temporary.mkdir(mode=0o700)
        (temporary / _MAKER).write_bytes(encode_record(Holder.of_this_process()))
        with _as_bundle_errors(bundle.path):
            content = bundle.notebook()
            _fill(bundle.store, temporary / "store")
        try:
            with notebook.open("xb") as file:
                made_notebook = True
                file.write(content)
            (temporary / "store").rename(store)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):  # somebody made one meanwhile
                raise _already_exists(store if made_notebook else notebook) from error
            raise StoreUnavailableError(str(notebook), error.strerror or str(error)) from error
        shutil.rmtree(temporary, ignore_errors=True)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        if made_notebook:
            notebook.unlink(missing_ok=True)
        if made_folder and store.parent.is_dir() and not any(store.parent.iterdir()):
            store.parent.rmdir()
        raise


def _sweep(folder: Path) -> None:
    """Delete what processes have left that were killed while they opened a bundle."""
    for folder_left in folder.glob(".opening-*"):
        match = _TEMPORARY.match(folder_left.name)
        if match is not None and not folder_left.is_symlink() and not _is_being_made(folder_left, int(match[1])):
            shutil.rmtree(folder_left, ignore_errors=True)


def _is_being_made(temporary: Path, pid: int) -> bool:
    try:
        return decode_record((temporary / _MAKER).read_bytes(), Holder).is_alive()
    except (OSError, DamagedObjectError):  # it had just begun
        return start_of(pid) != ""


def _fill(source: ArchiveStore, path: Path) -> None:
    """Make a store that holds what the bundle holds. `path` is not where it stays."""
    from agent_kernel.storage import open_store

    store = open_store(str(path))
    try:
        repo = BareRepository.open(store)
        copy_objects(source, store)
        records = {key: value for prefix in (b"r/", b"h/", b"e/") for key, value in _found(source, prefix).items()}
        if not store.swap(dict.fromkeys(records), records):
            raise StoreUnavailableError(str(path), "somebody else writes there")
        note_origin(repo, source.manifest)
    finally:
        store.close()


def _found(source: Store, prefix: bytes) -> Mapping[bytes, bytes]:
    return source.get_many(list(all_keys(source, prefix)))


def copy_objects(source: ArchiveStore, target: Store) -> None:
    """Put all objects of a verified bundle into a store, each compared once more: the file may have been changed since."""
    for page in pages(source):
        found = source.get_many(page)
        for key, stored in found.items():
            _require_whole(source, key, stored)
        target.put_many(found)


# -- the branches of a bundle in a store that has a history of its own


class Imported(msgspec.Struct, frozen=True):
    """Under which names the branches and tags of a bundle are in the store now."""

    branches: dict[str, str]
    tags: dict[str, str]
    signature: keys.Check = keys.Check("unsigned")


def import_bundle(
    path: Path, repo: Repository, *, trusts: bool = False, prefix: str = "", progress: Progress | None = None
) -> Imported:
    """Verify a bundle, then bring its branches and tags into a store. None that is there is moved.

    Args:
        trusts: whether values of the bundle may be loaded, which can run its maker's code. A store that may be loaded
            takes in nothing else. A bundle that was trusted before, or signed with a trusted key, needs no such word.
        prefix: stands before the names of branches and tags.

    Raises:
        BundleError: it is not as its maker wrote it. UntrustedStoreError: its maker is not trusted, and the store is.
    """
    with opened(path) as bundle:
        signature = keys.require_sound(bundle.store)
        if trust.is_trusted(repo) and not (trusts or signature.is_trusted or trust.is_trusted(bundle.repo)):
            raise UntrustedStoreError(str(path))
        verify(bundle, progress)
        branches, tags = bundle.repo.branches(), bundle.repo.tags()
        copy_objects(bundle.store, repo.store)
        events = _found(bundle.store, b"e/")
        repo.store.swap({}, {key: value for key, value in events.items() if not repo.store.get_many([key])})
        named = {name: _free(repo.branches(), prefix + name, at) for name, at in branches.items()}
        for name, new in named.items():
            if new not in repo.branches():
                repo.create_branch(new, branches[name])
        marked = {name: _free(repo.tags(), prefix + name, at) for name, at in tags.items()}
        for name, new in marked.items():
            if new not in repo.tags():
                repo.create_tag(new, tags[name])
        return Imported(named, marked, signature)


def _free(known: Mapping[str, ObjectId], name: str, at: ObjectId) -> str:
    """The name, or where it is taken the next one that is not; one that names the same commit already is kept."""
    found, number = name, 2
    while found in known and known[found] != at:
        found, number = f"{name}-{number}", number + 1
    return found
