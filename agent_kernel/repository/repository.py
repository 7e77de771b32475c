"""A repository: git's words over the immutable objects and the few changing keys of one store.

The keys are HEAD, branches, tags, leases and settings; what they point to never changes. What only upkeep and
merges need loads when it is asked for, so that a notebook which binds to a store pays for little.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec

from agent_kernel.errors import (
    AmbiguousRefError,
    BranchMovedError,
    DamagedObjectError,
    NotAStoreError,
    RefNotFoundError,
    StoreUnavailableError,
)
from agent_kernel.repository.commits import (
    ALGORITHM,
    DEEPEST,
    Commit,
    Entry,
    History,
    Kind,
    Manifest,
    ObjectId,
    Tree,
    decode_manifest,
    encode,
    hex_of,
    preview_id,
    revision_text,
    short,
)
from agent_kernel.repository.objects import Objects, Presence, Writer
from agent_kernel.repository.refs import (
    BESIDE,
    EPOCH,
    FORMAT,
    HEADS,
    LOGS,
    RESERVED_SETTINGS,
    SETTINGS,
    Head,
    HeadRecord,
    Holder,
    Leases,
    LogRecord,
    Move,
    Pointers,
    Ref,
    ReflogEntry,
    Refs,
    Stamp,
    beside_key,
    branch_key,
    check_ref_name,
    head_key,
    head_log,
    refuse_beside,
    refuse_leased,
    refuse_newer,
    set_head,
    tag_key,
)

if TYPE_CHECKING:
    from agent_kernel.repository.merge import TreeMerge
    from agent_kernel.repository.rewrite import ForgetReport, Mask, PruneReport, Retention, Traces
    from agent_kernel.repository.upkeep import GcReport, Progress, Stats, VerifyReport
    from agent_kernel.storage import Store

_NO_SETTINGS: Final[Mapping[str, bytes | None]] = {}
MASKED: Final = "masked"  # the setting that names the variables of which later commits mask what code says


class _Setting(msgspec.Struct, frozen=True, array_like=True):
    stamp: int
    value: bytes


class NameDiff(msgspec.Struct, frozen=True):
    """What one name stands for on two sides; None where it is not there."""

    name: str
    old: Entry | None
    new: Entry | None

    def __repr__(self) -> str:
        how = "+" if self.old is None else "-" if self.new is None else "~"
        return f"<NameDiff {how}{self.name}>"


class Repository:
    """One store's history. Safe to use from several threads; each commit has a writer of its own."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.objects = Objects(store)
        self.pointers = Pointers(store)
        self.presence = Presence()
        self.history = History(self.objects)
        self.refs = Refs(self.pointers, self.objects, self.history)
        self.leases = Leases(self.pointers)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.store.url}>"

    @classmethod
    def open(cls, store: Store | str | Path, *, create: bool = True) -> Self:
        """Open the repository in a store, or in the store at a path or URL.

        Raises:
            NotAStoreError: it holds something else, or nothing and `create` is False.
            NewerFormatError: a newer release made it.
            TypeError: it is neither a path, a URL nor a store.
        """
        if isinstance(store, str | Path):
            from agent_kernel.storage import open_store

            store = open_store(store, create=create)
        elif not hasattr(store, "get_many"):
            raise TypeError(f"a repository is opened from a path, a URL or a store, not {store!r}")
        repo = cls(store)
        repo._check_format(create=create)
        return repo

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def commit_at(self, id: ObjectId) -> Commit:
        """The commit of this id; raises DamagedObjectError if it is not there."""
        return self.history.commit(id)

    def resolve(self, rev: str | ObjectId, session: str = "") -> ObjectId:
        """The commit that a revision names; raises RefNotFoundError or AmbiguousRefError."""
        self._settle()
        return _resolve(self, revision_text(rev), session)

    def branch_meant(self, rev: str | ObjectId, session: str = "") -> str | None:
        """The branch that a revision names as a whole (`main`, `HEAD`, `@{-1}`); None: a commit, or nothing."""
        return _branch_meant(self, revision_text(rev), session)

    def _id_of(self, rev: str | ObjectId) -> ObjectId:
        return rev if isinstance(rev, bytes) else self.resolve(rev)

    # Refs

    def _settle(self) -> None:
        """Who names a commit of a branch means all that the branch holds."""
        if self.store.keys(BESIDE, limit=1):
            self.take_in()

    def take_in(self) -> None:
        """Let commits take in what lies beside branches, for who puts something there."""

    def head(self, session: str = "") -> Head:
        """Where a session is, or where the store was used last."""
        self._settle()
        return self.refs.head(session)

    def heads(self) -> dict[str, Head]:
        """HEAD of every session that ever moved it; "" is where the store was used last."""
        return self.refs.heads()

    def last_head(self, kernel: str) -> Head | None:
        """Where the last session of a kernel was, by the beginning of its id; None: there was none."""
        self._settle()
        return self.refs.last_head(kernel)

    def branches(self) -> dict[str, ObjectId]:
        """The last commit of every branch."""
        self._settle()
        return self.refs.branches()

    def tags(self) -> dict[str, ObjectId]:
        """The commit of every tag."""
        return self.refs.tags()

    def create_branch(self, name: str, at: str | ObjectId = "HEAD", force: bool = False) -> None:
        """Make a branch at a commit, or with `force` move the one of that name.

        Raises:
            InvalidRefNameError: git would refuse the name.
            RefExistsError: there is one, and `force` is False.
            BranchInUseError: a living session writes to the one there is.
            RefNotFoundError, AmbiguousRefError: there is no such commit, or several.
        """
        self._settle()
        self.refs.create_branch(name, self._id_of(at), force)

    def delete_branch(self, name: str, force: bool = False) -> None:
        """Delete a branch and its reflog.

        Raises:
            RefNotFoundError: there is no such branch.
            BranchInUseError: a living session writes to it.
            UnmergedBranchError: nothing else reaches some of its commits, and `force` is False.
        """
        self._settle()
        self.refs.delete_branch(name, force)

    def rename_branch(self, old: str, new: str, force: bool = False) -> None:
        """Rename a branch with its reflog, its lease and the HEADs that are on it.

        Raises:
            RefNotFoundError: there is no such branch. InvalidRefNameError: git would refuse the new name.
            RefExistsError: there is one of the new name, and `force` is False.
        """
        self._settle()
        self.refs.rename_branch(old, new, force)

    def create_tag(self, name: str, at: str | ObjectId = "HEAD", force: bool = False) -> None:
        """Make a tag at a commit, or with `force` move the one of that name; raises as `create_branch` does."""
        self.refs.create_tag(name, self._id_of(at), force)

    def delete_tag(self, name: str) -> None:
        """Delete a tag; raises RefNotFoundError if no tag has this name."""
        self.refs.delete_tag(name)

    def move_head(self, session: str, head: Head, message: str) -> None:
        """Put a session on a branch, which need not have a commit yet, or detached on a commit.

        Raises:
            RefNotFoundError: there is no such commit. InvalidRefNameError: no branch can be called that.
        """
        self.refs.move_head(session, head, message)

    def drop_head(self, session: str) -> None:
        """Forget where a session was, and its reflog; nothing happens if it was nowhere."""
        self.refs.drop_head(session)

    def move_branch(
        self, name: str, to: ObjectId, message: str, expected: ObjectId | None, session: str | None = None
    ) -> None:
        """Point a branch at another commit, if it still points at `expected` (None: is not there yet).

        Args:
            session: whose HEAD is on the branch, so that its reflog shows the move too.

        Raises:
            BranchMovedError: it points elsewhere by now, or records lie beside it.
        """
        self.refs.move_branch(name, to, message, expected, session)

    def head_log(self, session: str = "") -> str:
        """The name of the reflog of a session's HEAD; of the nameless one's, that of the session used last."""
        record = None if session else self.refs.head_record("")
        return head_log(record.session if record else session)

    def reflog(self, name: str, limit: int | None = None) -> list[ReflogEntry]:
        """The moves of a branch, or of `HEAD:<session>`, newest first; `HEAD` is that of the session used last."""
        return self.refs.reflog(self.head_log() if name == "HEAD" else name, limit)

    # Leases and settings

    def acquire_lease(self, branch: str, holder: Holder) -> None:
        """Take a branch's lease, over from a dead holder if need be; raises BranchInUseError if a living one has it."""
        self.leases.acquire(branch, holder)

    def release_lease(self, branch: str, holder: Holder) -> None:
        """Give a branch's lease back; nothing happens if somebody else has it by now."""
        self.leases.release(branch, holder)

    def take_lease_away(self, branch: str) -> Holder | None:
        """Free a branch whose holder cannot be asked from here; see `Leases.take_away`."""
        return self.leases.take_away(branch)

    def lease_of(self, branch: str) -> Holder | None:
        """Who holds a branch, dead or alive; None if nobody does."""
        return self.leases.of(branch)

    def setting(self, name: str) -> bytes | None:
        """A setting of the store, or None."""
        found = self.pointers.get(_setting_key(name), _Setting)
        return None if found is None else found.value

    def set_setting(self, name: str, value: bytes | None) -> None:
        """Set a setting, or remove it."""
        self.pointers.change(lambda move: set_in(move, name, value))

    # Objects

    def writer(self) -> Writer:
        """Collects the objects of the next commit."""
        epoch = self.pointers.read([EPOCH])[EPOCH]
        if epoch != self.presence.epoch:
            # Something was deleted: what is cached may be gone, and must not be built upon.
            self.presence.at(epoch)
            self.objects.forget_cached()
        return Writer(self.store, self.objects, self.presence)

    def tree(self, id: ObjectId | None) -> Tree:
        """The tree of this id; None is the empty one."""
        return Tree(self.objects, self._empty_tree if id is None else id)

    def tree_at(self, commit: ObjectId | None) -> Tree:
        """The tree of a commit; of none, the empty one."""
        return self.tree(None if commit is None else self.commit_at(commit).tree)

    def read_manifest(self, entry: Entry) -> Manifest:
        """How to rebuild the value that an entry stands for."""
        if entry.manifest is None:
            return decode_manifest(entry.value)
        return self.objects.load(Kind.MANIFEST, entry.manifest, decode_manifest)

    def read_preview(self, entry: Entry) -> bytes:
        """The encoded preview of an entry, wherever it is."""
        id = preview_id(entry)
        return entry.preview if id is None else self.objects.get(Kind.SMALL, id)

    # History

    def show(self, rev: str | ObjectId = "HEAD") -> Commit:
        """The commit that a revision names; raises as `resolve`."""
        return self.commit_at(self._id_of(rev))

    def log(
        self,
        start: str | ObjectId | Sequence[ObjectId] = "HEAD",
        *,
        limit: int | None = None,
        first_parent: bool = False,
    ) -> Iterator[tuple[ObjectId, Commit]]:
        """The commits that a revision, or several ids, reach, newest first; raises as `resolve`.

        Where nothing is committed yet, the log of HEAD is empty.
        """
        if start == "HEAD" and self.head().commit is None:
            return iter(())
        starts = [self._id_of(start)] if isinstance(start, str | bytes) else start
        return islice(self.history.walk(starts, first_parent=first_parent), limit)

    def log_of_name(self, start: ObjectId, name: str) -> Iterator[tuple[ObjectId, Commit]]:
        """The commits that changed one name, newest first."""
        return self.history.walk_of_name(start, name)

    def diff(
        self, old: str | ObjectId | None, new: str | ObjectId | None = "HEAD", *, all: bool = False
    ) -> list[NameDiff]:
        """What differs between two commits, None being the empty one; raises as `resolve`.

        Args:
            all: also what the session keeps under names that begin with NUL.
        """
        before, after = (None if rev is None else self._id_of(rev) for rev in (old, new))
        found = self.tree_at(before).diff(self.tree_at(after))
        return [
            NameDiff(name, before, after)
            for name, before, after in found
            if (all or not name.startswith("\0")) and not (before is not None and before.is_same_value(after))
        ]

    def merge_base(self, a: ObjectId, b: ObjectId) -> ObjectId | None:
        """The best common ancestor, the newest if there are several; None for unrelated histories."""
        return next(iter(self.history.merge_bases(a, b)), None)

    def merge_bases(self, a: ObjectId, b: ObjectId) -> list[ObjectId]:
        """All best common ancestors, the newest first."""
        return self.history.merge_bases(a, b)

    def is_ancestor(self, older: ObjectId, newer: ObjectId) -> bool:
        """Whether the newer commit reaches the older one, or is it."""
        return self.history.is_ancestor(older, newer)

    def publish(
        self,
        writer: Writer,
        commit: Commit,
        *,
        head: Head,
        session: str | None,
        message: str,
        branch: str | None = None,
        also: Callable[[Move], object] | None = None,
    ) -> ObjectId:
        """Store what is left in the writer and the commit, and move the branch, HEAD and their reflogs, in one transaction.

        Args:
            head: where the session was when the commit was made.
            session: None: no session makes it. No HEAD moves, no reflog tells of it, and a branch that anybody holds is
                refused with BranchInUseError.
            branch: a branch to move, or to start, instead of the one HEAD is on.
            also: sets other keys in the same transaction.

        Raises:
            BranchMovedError: somebody else moved the branch, or put records beside it that `also` does not take in. Nothing
                was changed.
            StoreUnavailableError: garbage collection took what the writer relied on. Nothing was changed; make the
                commit again with a new writer.
        """
        return publish(self, writer, commit, head, session, message, branch, also)

    def store_loose(self, writer: Writer, commit: Commit) -> ObjectId:
        """Store what is left in the writer and the commit, and let no ref name it. It is garbage until one does."""
        return store_loose(self, writer, commit)

    def merge_trees(
        self,
        base: Tree,
        ours: Tree,
        theirs: Tree,
        *,
        choose_ours: Collection[str] = (),
        choose_theirs: Collection[str] = (),
    ) -> TreeMerge:
        """Merge two trees, by name, given the one they come from.

        Names that share a value move together, and notebook classes follow the values that need them.

        Args:
            choose_ours: names whose conflict is settled by keeping what we have, for all that move with them.
            choose_theirs: names whose conflict is settled by taking theirs.
                A variable that only one side created stays in any case.

        Raises:
            MergeChoiceError: of names that move together, both sides were chosen.
        """
        from agent_kernel.repository.merge import merge_trees

        return merge_trees(self, base, ours, theirs, choose_ours=choose_ours, choose_theirs=choose_theirs)

    # Upkeep

    def gc(self, grace_s: float = 3600.0, dry_run: bool = False, progress: Progress | None = None) -> GcReport:
        """Delete objects that no ref, HEAD or reflog reaches, and reflog lines older than 90 days.

        Args:
            grace_s: seconds for which an object must have been seen unreachable. The first collection with a grace
                only writes down what it finds. 0 deletes at once, and is refused while another process works here.

        Raises:
            BranchInUseError: another living process holds a branch, and the grace is 0.
            DamagedObjectError: it cannot be told what is reachable. Nothing more was deleted; run verify.
        """
        from agent_kernel.repository.upkeep import collect

        return collect(self, grace_s, dry_run, progress)

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Read back everything reachable and compare it with its ids. Nothing is unpickled.

        Raises:
            StoreUnavailableError: the file of the store is damaged, and reading it could end this process, or what is
                damaged holds nothing that is reachable.
        """
        from agent_kernel.repository.rewrite import tips
        from agent_kernel.repository.upkeep import Verifier, commit_keys

        damage = self._damage()
        logged = (entry.commit for entry in self.pointers.all(LOGS, LogRecord).values())
        report = Verifier(self, progress).run(commit_keys([*tips(self), *logged]))
        if damage is not None and report.is_sound:
            raise damage
        return report

    def _damage(self) -> StoreUnavailableError | None:
        """What is wrong with the file of the store, if all of it can be read nevertheless."""
        check: Callable[[], None] | None = getattr(self.store, "check", None)
        try:
            if check is not None:
                check()
        except StoreUnavailableError as error:
            if not getattr(self.store, "is_damaged", False):
                raise
            return error
        return None

    def stats(self, session: str = "") -> Stats:
        """Counts and sizes."""
        from agent_kernel.repository.upkeep import measure

        return measure(self, self.head(session).commit)

    def prune(self, policy: Retention, dry_run: bool = False) -> PruneReport:
        """Rewrite all history into fewer commits, and delete what only the others held.

        The commits that stay keep author, time and message; those with dropped ancestors get new ids. Reflog lines of
        dropped commits go.

        Raises:
            BranchInUseError: another living process works in this store. Nothing was changed.
        """
        from agent_kernel.repository.rewrite import prune

        return prune(self, policy, dry_run)

    def forget(
        self,
        names: Collection[str] = (),
        commits: Collection[ObjectId] = (),
        mask: Mask | None = None,
        settings: Mapping[str, bytes | None] = _NO_SETTINGS,
    ) -> ForgetReport:
        """Take variables and commits out of all history and their bytes out of the store: all of them, or none.

        Children of a commit that goes become children of its parents. Old commit ids then name nothing.

        Args:
            mask: gives a source without the literals of its statements about some names, and those literals. With it,
                they are taken out of everything that commits say too, and stored code that holds one goes. What is
                masked so stays masked in later commits.
            settings: what else to store, by name, if and when it is forgotten.

        Raises:
            NameNotFoundError: no commit ever had one of the names. RefNotFoundError: no ref reaches one of the commits.
            BranchInUseError: another living process works in this store. Nothing was changed.
            StoreFullError: there is no room for the new history. Nothing was changed.
        """
        from agent_kernel.repository.rewrite import forget

        return forget(self, names, commits, mask, settings)

    def masked_names(self) -> frozenset[str]:
        """The variables that were forgotten with a mask: later commits mask what code says of them."""
        stored = self.setting(MASKED)
        return frozenset() if stored is None else frozenset(msgspec.msgpack.decode(stored, type=list[str]))

    def mask_from_now_on(self, names: Collection[str]) -> None:
        """Let later commits mask what code says of these variables, and of no others."""
        self.set_setting(MASKED, encode_names(names))

    def traces_of(self, names: Collection[str], mask: Mask | None = None) -> Traces:
        """What forgetting some names would find. Nothing is changed."""
        from agent_kernel.repository.rewrite import redaction_of, traces_of

        return traces_of(self, names, None if mask is None else redaction_of(self, names, mask))

    # Opening

    @functools.cached_property
    def _empty_tree(self) -> ObjectId:
        # Written when the store is made; here it is only a matter of its id.
        return _store_empty_tree(Writer(self.store, self.objects, Presence()))

    def _check_format(self, *, create: bool) -> None:
        found = self._format()
        if found is None:
            if self.store.keys(b"", limit=1):
                raise NotAStoreError(self.store.url)
            if not create:
                raise NotAStoreError(self.store.url, "it is empty")
            self._create()
        refuse_newer(self.store, found)

    def _format(self) -> Stamp | None:
        try:
            return self.pointers.get(FORMAT, Stamp)
        except DamagedObjectError as error:
            raise NotAStoreError(self.store.url, "its format entry cannot be read") from error

    def _create(self) -> None:
        writer = Writer(self.store, self.objects, Presence())
        _store_empty_tree(writer)

        def build(move: Move) -> None:
            if move.get(FORMAT, Stamp) is None:
                move.stamp_format()
                move.items = writer.pending()

        self.pointers.change(build)


def _store_empty_tree(writer: Writer) -> ObjectId:
    from agent_kernel.repository.commits import Leaf, store_node

    return store_node(writer, Leaf([], [])).id


# -- make a commit and move everything that names it, in one transaction
#
# All objects that the commit needs are in the store, or in the transaction itself, when the branch moves: garbage collection
# changes the epoch whenever it deletes, the transaction expects the epoch that the writer began in, and where it has moved on
# everything the commit refers to is looked up again.


def publish(
    repo: Repository,
    writer: Writer,
    commit: Commit,
    head: Head,
    session: str | None,
    message: str,
    branch: str | None,
    also: Callable[[Move], object] | None = None,
) -> ObjectId:
    """See `Repository.publish`."""
    target = branch if branch is not None else head.branch
    if target is not None:
        check_ref_name(target)
    id = _add_commit(repo, writer, commit)

    def build(move: Move) -> None:
        keys = [EPOCH, FORMAT, HEADS, *([] if session is None else [head_key(session)])]
        move.read(keys if target is None else [*keys, branch_key(target), beside_key(target)])
        move.stamp_format()
        _rely(repo, writer, id, commit, move.raw(EPOCH))
        ref = _expect_unmoved(move, head, session or "", target, is_new=branch is not None)
        if session is not None:
            set_head(move, session, target, id)
        elif target is not None:
            refuse_leased(move, target)
            if move.get(HEADS, HeadRecord) is None:
                set_head(move, "", target, id)
        if target is not None:
            if ref is None:
                move.enroll()
            move.set(branch_key(target), Ref(move.stamp, id))
        if session is not None:
            move.log_move(target, session, id, message)
        if also is not None:
            also(move)
        if target is not None:
            refuse_beside(move, target, is_own=True)
        move.items = writer.pending()
        move.objects = writer.stored_within()

    repo.pointers.change(build)
    writer.note_published()
    return id


def store_loose(repo: Repository, writer: Writer, commit: Commit) -> ObjectId:
    """See `Repository.store_loose`."""
    id = _add_commit(repo, writer, commit)
    repo.pointers.change(Move.stamp_format)
    writer.flush()
    return id


def younger_than_parents(repo: Repository, commit: Commit) -> Commit:
    """The commit with its time raised above its parents' where clocks disagree: walks go by time."""
    oldest = max((repo.commit_at(parent).time_ns for parent in commit.parents), default=0)
    return commit if commit.time_ns > oldest else msgspec.structs.replace(commit, time_ns=oldest + 1)


def _add_commit(repo: Repository, writer: Writer, commit: Commit) -> ObjectId:
    commit = younger_than_parents(repo, commit)
    base = None
    if commit.recent and commit.parents:  # it holds most of what its parent holds
        base = commit.parents[0], encode(repo.commit_at(commit.parents[0]))
    id = writer.add(Kind.COMMIT, encode(commit), decoded=commit, base=base, most_depth=DEEPEST)
    for parent in commit.parents:  # or a long session keeps every commit that it made
        repo.objects.supersede(Kind.COMMIT, parent)
    return id


def _expect_unmoved(move: Move, head: Head, session: str, target: str | None, *, is_new: bool) -> Ref | None:
    if target is None:
        record = move.get(head_key(session), HeadRecord)
        if record is not None and (record.branch is not None or record.commit != head.commit):
            raise BranchMovedError("HEAD")
        return None
    ref = move.get(branch_key(target), Ref)
    if (None if ref is None else ref.commit) != head.commit and not (ref is None and is_new):
        raise BranchMovedError(target)
    return ref


def _rely(repo: Repository, writer: Writer, id: ObjectId, commit: Commit, epoch: bytes | None) -> None:
    if epoch == writer.epoch:
        return
    repo.presence.at(epoch)
    from agent_kernel.repository.upkeep import missing_for

    repo.objects.forget_cached()
    writer.requeue(epoch, ())
    writer.flush()
    while missing := missing_for(repo.objects, repo.store, id, commit):
        if writer.requeue(epoch, missing):
            reason = "what this commit builds on was collected as garbage meanwhile; commit again"
            raise StoreUnavailableError(repo.store.url, reason)
        writer.flush()


def set_in(move: Move, name: str, value: bytes | None) -> None:
    """Within a move, set a setting, or remove it."""
    move.get(_setting_key(name), _Setting)
    move.set(_setting_key(name), None if value is None else _Setting(move.stamp, value))


def encode_names(names: Collection[str]) -> bytes | None:
    """Names as a setting holds them. None removes the setting: without names there is nothing to keep."""
    return msgspec.msgpack.encode(sorted(names)) if names else None


def _setting_key(name: str) -> bytes:
    if name in RESERVED_SETTINGS or not name or "\0" in name or len(name.encode()) > 200:
        raise ValueError(f"{name!r} cannot name a setting")
    return SETTINGS + name.encode()


# -- git's language for naming a commit: `main~3`, `HEAD^2`, `@{1}`, `3fa9`, `@{-1}`. `[5]` is that of a cell, as Jupyter numbers it
#
# A name is read as a cell of the session, a tag, a branch or the digits of a commit, in this order, then each suffix goes on from there.

_REVISION = re.compile(r"(?P<base>(?:(?!@\{)[^~^:])*)(?P<rest>.*)", re.DOTALL)
_SUFFIX = re.compile(r"@\{(?P<ago>-?\d+)\}|~(?P<up>\d*)|\^(?P<parent>\d*)")
_LEFT = re.compile(r"(?:HEAD|@)?@\{-(?P<ago>[1-9]\d*)\}")
_DIGITS = re.compile(rf"([0-9a-fA-F]{{4,64}})(?:(?<=[0-9a-fA-F]{{64}}){ALGORITHM.hex()})?")  # an id may end so
_CELL = re.compile(r"\[(?P<number>\d{1,9})\]")
_SHOWN = 50


def split_path(text: str) -> tuple[str, str | None]:
    """Split `REF:NAME`. Without a colon the name is None; an empty REF means HEAD.

    >>> split_path("main~2:df")
    ('main~2', 'df')
    """
    ref, colon, name = text.partition(":")
    return (ref or "HEAD", name) if colon else (text, None)


def _resolve(repo: Repository, text: str, session: str = "") -> ObjectId:
    """The commit that a revision names, as `session` sees it.

    Raises:
        RefNotFoundError: nothing has this name, or history does not go back that far.
        AmbiguousRefError: the digits fit several commits.
    """
    match = _REVISION.match(text)
    if not text or match is None:
        raise _unknown(repo, text, "it is empty")
    base, rest = match["base"], match["rest"]
    first = _SUFFIX.match(rest)
    if first is not None and first["ago"] is not None:
        id = _from_reflog(repo, text, base, int(first["ago"]), session)
        rest = rest[first.end() :]
    elif not base:
        raise _unknown(repo, text)
    else:
        id = _base(repo, text, base, session)
    while rest:
        suffix = _SUFFIX.match(rest)
        if suffix is None or suffix["ago"] is not None:
            raise _unknown(repo, text)
        id = _ancestor(repo, text, id, suffix)
        rest = rest[suffix.end() :]
    return id


def _branch_meant(repo: Repository, text: str, session: str = "") -> str | None:
    """The branch that a revision names as a whole, so that going there is being on it; None: it names a commit, or nothing.

    `HEAD` is the branch that is checked out, `@{-1}` the one before, if that was one.
    """
    if text in ("HEAD", "@"):
        return repo.head(session).branch
    match = _LEFT.fullmatch(text)
    if match is not None:
        earlier = [entry.left for entry in repo.reflog(repo.head_log(session)) if entry.left]
        text = earlier[int(match["ago"]) - 1] if int(match["ago"]) <= len(earlier) else ""
    return text if text in repo.branches() else None


def _base(repo: Repository, text: str, base: str, session: str) -> ObjectId:
    at_head, cell = base in ("HEAD", "@"), _CELL.fullmatch(base)
    if cell is not None:
        return _by_cell(repo, text, int(cell["number"]), session)
    id = repo.head(session).commit if at_head else _ref(repo, base) or _by_digits(repo, base)
    if id is None:
        remedy = _cell_called(repo, base, session) if _CELL.fullmatch(f"[{base}]") else ""
        raise _unknown(repo, text, "nothing is committed yet" if at_head else "", remedy)
    return id


def _by_cell(repo: Repository, text: str, number: int, session: str) -> ObjectId:
    own, other = _cells_of(repo, number, session)
    if own is None:
        problem = f"No commit has the number [{number}]."
        if other is not None:
            problem = (
                f"No commit has the number [{number}] since the restart. Before it, [{number}] was {short(other)}."
            )
            if not _goes_on_from(repo, session, other):
                problem = (
                    f"No commit of this kernel has the number [{number}]. In another one, [{number}] is {short(other)}."
                )
        raise RefNotFoundError(text, repo.refs.list_refs(), said=problem)
    return own


def _goes_on_from(repo: Repository, session: str, other: ObjectId) -> bool:
    head = repo.head(session).commit
    return head is not None and any(id == other for id, _ in repo.history.walk([head]))


def _cell_called(repo: Repository, base: str, session: str) -> str:
    """What somebody may have meant who typed a bare number."""
    own, other = _cells_of(repo, int(base), session)
    if own is not None:
        return f"the commit of cell [{int(base)}] is {short(own)}, or [{int(base)}]"
    return f"the commit of cell [{int(base)}] is {short(other)}" if other is not None else ""


def _cells_of(repo: Repository, number: int, session: str) -> tuple[ObjectId | None, ObjectId | None]:
    """The newest commit of a cell with this number, of this session and of any other; what HEAD goes on from comes first."""
    record = None if session else repo.refs.head_record("")
    session = record.session if record is not None else session
    head, other = repo.head(session).commit, None
    for starts in ([head] if head is not None else [], [*repo.branches().values(), *repo.tags().values()]):
        for id, commit in repo.history.walk(starts):
            if commit.cell is None or commit.cell.number != number:
                continue
            if commit.session == session:
                return id, other
            other = other or id
    return None, other


def _ref(repo: Repository, name: str) -> ObjectId | None:
    for prefix, key in (
        ("refs/tags/", tag_key),
        ("tags/", tag_key),
        ("refs/heads/", branch_key),
        ("heads/", branch_key),
    ):
        if name.startswith(prefix):
            found = repo.refs.ref(key(name.removeprefix(prefix)))
            if found is not None:
                return found
    # git too prefers a tag to a branch of the same name.
    return repo.refs.ref(tag_key(name)) or repo.refs.ref(branch_key(name))


def _by_digits(repo: Repository, digits: str) -> ObjectId | None:
    match = _DIGITS.fullmatch(digits)
    if match is None:
        return None
    digits = match[1].lower()
    whole = Kind.COMMIT + bytes.fromhex(digits[: len(digits) // 2 * 2])
    found = [hex_of(ObjectId(key[1:])) for key in repo.pointers.keys(whole, limit=1000)]
    fits = [id for id in found if id.startswith(digits)]
    if len(fits) > 1:
        raise AmbiguousRefError(digits, tuple(fits[:_SHOWN]))
    return ObjectId(bytes.fromhex(fits[0]) + ALGORITHM) if fits else None


def _from_reflog(repo: Repository, text: str, base: str, ago: int, session: str) -> ObjectId:
    if ago < 0:
        if base not in ("", "HEAD", "@"):
            raise _unknown(repo, text)
        earlier = [entry.left for entry in repo.reflog(repo.head_log(session)) if entry.left]
        if len(earlier) < -ago:
            raise _unknown(repo, text, f"HEAD {_was_moved(len(earlier))}")
        before = earlier[-ago - 1]
        if _ref(repo, before) is None and _by_digits(repo, before) is None:
            raise _unknown(repo, text, f"{before}, which HEAD left, is gone")
        return _base(repo, text, before, session)
    if base == "":  # of the branch that is checked out, as in git; detached, of HEAD
        base = repo.head(session).branch or "HEAD"
    name = repo.head_log(session) if base in ("HEAD", "@") else base.removeprefix("refs/").removeprefix("heads/")
    entries = repo.reflog(name, ago + 1)
    if len(entries) <= ago:
        raise _unknown(repo, text, f"{base} {_was_moved(len(entries))}" if entries else "")
    return entries[ago].commit


def _ancestor(repo: Repository, text: str, id: ObjectId, suffix: re.Match[str]) -> ObjectId:
    if suffix["up"] is not None:
        for before in range(int(suffix["up"] or 1)):
            parents = repo.commit_at(id).parents
            if not parents:
                raise _unknown(repo, text, f"{_start_of(text, suffix)} has {_commits(before)} before it")
            id = parents[0]
        return id
    number = int(suffix["parent"] or 1)
    return id if number == 0 else _parent(repo, text, id, number)


def _parent(repo: Repository, text: str, id: ObjectId, number: int) -> ObjectId:
    parents = repo.commit_at(id).parents
    if len(parents) < number:
        many = {0: "the first commit has no parent", 1: "a commit on its way has one parent only"}
        raise _unknown(repo, text, many.get(len(parents), f"a commit on its way has {len(parents)} parents"))
    return parents[number - 1]


def _start_of(text: str, suffix: re.Match[str]) -> str:
    """The revision in front of the suffix, as it was typed."""
    return text[: len(text) - len(suffix.string) + suffix.start()]


def _commits(count: int) -> str:
    return {0: "no commit", 1: "one commit"}.get(count, f"{count:,} commits")


def _was_moved(count: int) -> str:
    return {0: "has not been moved in this session", 1: "was moved once"}.get(count, f"was moved {count:,} times")


def _unknown(repo: Repository, text: str, reason: str = "", remedy: str = "") -> RefNotFoundError:
    return RefNotFoundError(text, repo.refs.list_refs(), reason, remedy)
