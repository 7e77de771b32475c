"""Turn what was staged into a commit, say in a few words what one is, move the branch, and fork it for a second writer.

Messages that a session writes by itself speak of other commits in the words that interfaces use, so the words are made here
and not at the interfaces: `3f2a91c4 [7] convert to euros`. What looks like a secret is masked first. A commit also keeps what
no variable holds: the notebook's page, the packages that were installed, and the state of the random generators.
"""

from __future__ import annotations

import array
import functools
import os
import random
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from ctypes import string_at
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from agent_kernel.errors import (
    AgentKernelError,
    BranchInUseError,
    DamagedObjectError,
    LoadError,
    NewerFormatError,
    StoreError,
    StoreUnavailableError,
)
from agent_kernel.repository import (
    ASIDE,
    NO_CHAT,
    OF_KERNEL,
    Author,
    Cell,
    Change,
    Commit,
    Document,
    Entry,
    Head,
    Holder,
    Kind,
    ObjectId,
    Repository,
    Tree,
    Unsaved,
    Writer,
    hex_of,
    short,
)
from agent_kernel.repository.commits import ALGORITHM, DEEPEST, address, decode_entry, encode
from agent_kernel.repository.refs import Beside, beside_key
from agent_kernel.storage import Store, SupportsSize
from agent_kernel.text import clean, shorten
from agent_kernel.values import CLASS_PREFIX, previews
from agent_kernel.values.previews import size_text

if TYPE_CHECKING:
    from agent_kernel.records.lines import Pending
    from agent_kernel.repository import Outputs
    from agent_kernel.repository.commits import Recent
    from agent_kernel.session.process_state import ProcessState
    from agent_kernel.session.provenance import Forgotten, NotebookCell, NotebookSnapshot


class Draft(msgspec.Struct):
    """What a commit says besides its tree."""

    kind: str
    author: Author
    message: str = ""
    status: str = "ok"
    cell: Cell | None = None
    changed: tuple[Change, ...] = ()
    unsaved: tuple[Unsaved, ...] = ()
    labels: list[str] = []
    restores: ObjectId | None = None
    chat: ObjectId | None = None
    other_parents: tuple[ObjectId, ...] = ()
    random: ObjectId | None = None
    outputs: Outputs | None = None
    records: ObjectId | None = None  # of a merge: those of both sides
    is_own: bool = False  # no cell made it: one undo reverses it and the commits of records alone before it
    takes_in: bool = False  # it takes the place of these
    instead: tuple[ObjectId, ...] | None = None  # the parents that those had
    undoable: bool = True
    run: str = ""
    step: int | None = None


class Recorder:
    """Writes the commits of one session."""

    def __init__(self, repo: Repository, session_id: str, process: ProcessState) -> None:
        self.repo = repo
        self.session_id = session_id
        self.process = process
        self._environment = EnvironmentWatch()
        self._stored_environment: tuple[ObjectId | None, bytes] = None, b""
        self._random: tuple[ObjectId, bytes] | None = None  # the last state of generators, and its bytes
        self._path: tuple[list[str], str] = [], ""
        self._folders: tuple[str, ...] = ()
        self._page = NotebookWatch()
        self.pending: Pending | None = None  # records that the next commit changes
        self._forgotten: Forgotten | None = None
        self.notebook: Path | None = None  # the file, if there is one
        self.open_document: NotebookSnapshot | None = None  # its page, as a front end told it last

    def masks(self, names: frozenset[str], namespace: Mapping[str, object]) -> None:
        """Keep no more of these variables than that code speaks of them."""
        if not names:
            self._forgotten = None
        elif self._forgotten is None or self._forgotten.names != names:
            from agent_kernel.session.provenance import Forgotten

            self._forgotten = Forgotten(names, namespace, self._forgotten)

    def publish(
        self, writer: Writer, tree: Tree, draft: Draft, head: Head, branch: str | None
    ) -> tuple[ObjectId, Commit]:
        """Store the commit and move `branch`; raises what `Repository.publish` raises, and then nothing was changed."""
        draft = self._mask(draft)
        message = draft.message or draft.kind
        also = None if self.pending is None else self.pending.take_in(branch)
        id = self.repo.publish(
            writer,
            self._commit(writer, tree, draft, head),
            head=head,
            session=self.session_id,
            message=message.strip().partition("\n")[0][:80],
            branch=branch if branch != head.branch else None,
            also=also,
        )
        commit = self.repo.commit_at(id)
        if self.process.are_any:
            self.process.note_commit(id, commit.set_in_libraries)
        return id, commit

    def _mask(self, draft: Draft) -> Draft:
        """The draft without what was forgotten, in all that it says."""
        forgotten = self._forgotten
        if forgotten is None:
            return draft
        cell, outputs = draft.cell, draft.outputs
        if cell is not None:
            source, cell = cell.source, forgotten.cell(cell)
            outputs = None if outputs is None else forgotten.outputs(outputs, source)
        else:
            forgotten.learn()
        return msgspec.structs.replace(
            draft,
            message=forgotten.text(draft.message),
            cell=cell,
            unsaved=tuple(msgspec.structs.replace(one, reason=forgotten.text(one.reason)) for one in draft.unsaved),
            outputs=outputs,
        )

    def _commit(self, writer: Writer, tree: Tree, draft: Draft, head: Head) -> Commit:
        records, recent = self._records(writer, draft, head)
        return Commit(
            tree=tree.id,
            parents=(*self._first_parents(draft, head), *draft.other_parents),
            author=draft.author,
            time_ns=time.time_ns(),
            utc_offset_s=time.localtime().tm_gmtoff,
            message=draft.message,
            kind=draft.kind,
            status=draft.status,
            cell=self._cell(writer, draft),
            changed=draft.changed,
            unsaved=draft.unsaved,
            labels=tuple(draft.labels),
            random=draft.random or self._random_id(writer),
            cwd=(cwd := _cwd()),
            folders=self._import_folders(cwd),
            session=self.session_id,
            run=draft.run,
            step=draft.step,
            restores=draft.restores,
            chat=draft.chat,
            environment=self._environment_id(writer),
            document=self._document(writer, head),
            records=records,
            recent=recent,
            set_in_libraries=self._set_in_libraries(draft, head),
        )

    def _set_in_libraries(self, draft: Draft, head: Head) -> tuple[str, ...]:
        bases = (draft.restores or head.commit, *draft.other_parents)
        then = [name for base in bases if base is not None for name in self.repo.commit_at(base).set_in_libraries]
        return self.process.names_after(then) if then or self.process.are_any else ()

    @staticmethod
    def _first_parents(draft: Draft, head: Head) -> tuple[ObjectId, ...]:
        if draft.instead is not None:
            return draft.instead
        return () if head.commit is None else (head.commit,)

    def _records(self, writer: Writer, draft: Draft, head: Head) -> tuple[ObjectId | None, Recent]:
        """The records of the commit, in a tree and beside it: they go where the conversation goes, and what is pending comes on top."""
        base = draft.chat or draft.restores or head.commit
        commit = None if base is None or draft.chat == NO_CHAT else self.repo.commit_at(base)
        records, recent = (None, ()) if commit is None else (commit.records, commit.recent)
        if draft.records is not None:
            records, recent = draft.records, ()
        if self.pending is None or not self.pending.gather():
            return records, recent
        from agent_kernel.records.trees import RecordTree

        root = self.repo.tree(records).id
        tree = self.pending.edited(writer, RecordTree(self.repo.objects, root, dict(recent)))
        return tree.id, tree.recent_rows()

    def _random_id(self, writer: Writer) -> ObjectId:
        """Stored as the difference from the last state: of most draws, that is where in the same numbers the next one is."""
        payload = capture_generators()
        base = self._random or (address(payload), payload)
        known = base[0] if payload is base[1] else None
        self._random = writer.add(Kind.SMALL, payload, base=base, most_depth=DEEPEST, id=known), payload
        return self._random[0]

    def _environment_id(self, writer: Writer) -> ObjectId:
        payload = self._environment.payload()
        known, before = self._stored_environment
        self._stored_environment = writer.add(Kind.SMALL, payload, id=known if payload is before else None), payload
        return self._stored_environment[0]

    def _import_folders(self, cwd: str) -> tuple[str, ...]:
        if self._path != (sys.path, cwd):
            from agent_kernel.session.provenance import import_folders

            self._path = list(sys.path), cwd
            self._folders = tuple(folder for folder in import_folders(sys.path) if folder != cwd)
        return self._folders

    def _document(self, writer: Writer, head: Head) -> Document | None:
        if self.notebook is None and self.open_document is None:
            return None
        page = self._page.snapshot(self.notebook, self.open_document, self._forgotten)
        before = None if head.commit is None else self.repo.commit_at(head.commit).document
        return None if page is None else self._page.store(writer, page, before)

    def _cell(self, writer: Writer, draft: Draft) -> Cell | None:
        cell = draft.cell
        if cell is None or draft.outputs is None:
            return cell
        from agent_kernel.repository import store_outputs

        return msgspec.structs.replace(cell, outputs=store_outputs(writer, draft.outputs))


class LooseRecorder(Recorder):
    """Stores commits that nothing names: whoever learns their ids may give them a name before they are collected."""

    def publish(
        self, writer: Writer, tree: Tree, draft: Draft, head: Head, branch: str | None
    ) -> tuple[ObjectId, Commit]:
        id = self.repo.store_loose(writer, self._commit(writer, tree, self._mask(draft), head))
        return id, self.repo.commit_at(id)


# What says whether the page or the packages are others than at the last commit. They are read by `provenance`, which
# loads with the first commit.


class EnvironmentWatch:
    """The environment now, worked out anew only where something was installed or removed."""

    def __init__(self) -> None:
        self._path: list[str] = []
        self._folders: list[str] = []
        self._changed: list[int | None] = []
        self._payload = b""

    def payload(self) -> bytes:
        """The encoded environment."""
        if self._path != sys.path:
            from agent_kernel.session.provenance import installed_in

            self._path = list(sys.path)
            self._folders, self._changed = installed_in(self._path), []
        changed = [found and found.st_mtime_ns for found in map(_stat, self._folders)]
        if changed != self._changed or not self._payload:
            from agent_kernel.session.provenance import read_environment

            self._changed = changed
            self._payload = encode(read_environment(self._folders))
        return self._payload


class NotebookWatch:
    """The page now, read anew only after it was saved."""

    def __init__(self) -> None:
        self._seen: tuple[object, ...] = ()
        self._snapshot: NotebookSnapshot | None = None
        self._stored: NotebookSnapshot | None = None
        self._document: Document | None = None
        self._chunks: dict[NotebookCell, tuple[ObjectId, int]] = {}
        self._epoch: bytes | None = None  # of garbage collection, when the page was stored

    def snapshot(
        self, path: Path | None, open_document: NotebookSnapshot | None = None, forgotten: Forgotten | None = None
    ) -> NotebookSnapshot | None:
        """The page; None where nobody told of the page, and the file is not there or cannot be read.

        Args:
            open_document: what a front end said last.
            forgotten: what no page may say.
        """
        found = _stat(path)
        if open_document is not None and (found is None or found.st_mtime_ns <= open_document.saved_ns):
            if self._seen != (open_document, forgotten):
                self._seen = (open_document, forgotten)
                self._take(open_document if forgotten is None else forgotten.of_page(open_document))
            return self._snapshot
        if path is None or found is None:
            return None
        seen = (path, found.st_mtime_ns, found.st_size, forgotten)
        if seen != self._seen:
            self._seen = seen
            from agent_kernel.session.provenance import read_page

            self._take(read_page(path, found, forgotten))
        return self._snapshot

    def store(self, writer: Writer, page: NotebookSnapshot, before: Document | None) -> Document:
        """Store the cells that are new.

        Args:
            before: the document of the parent. If it is the one that was stored last, its cells are in the store.
        """
        is_kept = before is not None and before == self._document and writer.epoch == self._epoch
        if is_kept and page is self._stored and before is not None:
            return before
        from agent_kernel.session.provenance import document_of, store_cell

        known = self._chunks if is_kept else {}
        self._chunks = {}
        for cell in page.cells:
            if cell not in self._chunks:
                self._chunks[cell] = known.get(cell) or store_cell(writer, cell)
        empty = Document(page.name, page.saved_ns, page.language)
        self._document = document_of(writer, empty, [self._chunks[cell] for cell in page.cells])
        self._stored, self._epoch = page, writer.epoch
        return self._document

    def _take(self, read: NotebookSnapshot | None) -> None:
        before = self._snapshot
        # Saved again with the same cells (new outputs, mostly): the snapshot stays the one that it was.
        if read is None or before is None or (read.name, read.cells) != (before.name, before.cells):
            self._snapshot = read


def _stat(path: Path | str | None) -> os.stat_result | None:
    try:
        return None if path is None else os.stat(path)  # noqa: PTH116 - half of Path.stat, and every commit waits for it
    except (OSError, ValueError):
        return None


def _cwd() -> str:
    try:
        cwd = os.getcwd()  # noqa: PTH109 - a fifth of the time of Path.cwd, in every commit
    except OSError:  # the directory was removed
        return ""
    return cwd if cwd.isascii() else cwd.encode(errors="backslashreplace").decode()  # its bytes may be no text


def changes_between(repo: Repository, old: Tree, new: Tree) -> tuple[Change, ...]:
    """What differs between two trees, by name. A class that was altered in place goes by the names that are bound to it."""
    found: dict[str, Change] = {}
    altered: list[str] = []
    rows = [row for row in old.diff(new) if row[1] is None or not row[1].is_same_value(row[2])]
    regrouped = _find_regrouped(repo, rows)
    for name, before, after in rows:
        if name in regrouped:
            continue
        if name.startswith(CLASS_PREFIX):
            altered += [name] if before is not None and after is not None else []
        elif not name.startswith("\0"):
            how = "+" if before is None else "-" if after is None else "~"
            found[name] = Change(name, how, 0 if after is None else size_of(repo, after))
    for name in _find_users(repo, new, altered):
        entry = new.get(name)
        if entry is not None and name not in found:
            found[name] = Change(name, "~", size_of(repo, entry))
    return tuple(sorted(found.values(), key=lambda change: change.name))


def _find_regrouped(repo: Repository, rows: Sequence[tuple[str, Entry | None, Entry | None]]) -> set[str]:
    """The names with the values that they had, which others have come to share or share no more: no news of these.

    Where the same names share their values in another way, that is a change of all of them.
    """
    same = {name for name, before, after in rows if before and after and before.own and before.own == after.own}
    if not same:
        return same
    groups: list[dict[object, set[str]]] = [{}, {}]
    for name, *entries in rows:
        for members, entry in zip(groups, entries, strict=True):
            if entry is not None:
                members.setdefault(entry.shared_value or name, set()).add(name)
    earlier, later = ({name: names for names in members.values() for name in names} for members in groups)
    found = {name for name in same if earlier[name] != later[name] or not later[name] <= same}
    rest = (row for row in rows if row[0] in same - found)
    return found | {
        name for name, before, after in rest if before and after and _pins(repo, before) != _pins(repo, after)
    }


def _pins(repo: Repository, entry: Entry) -> tuple[str, ...]:
    """What of a value can be set back in place: that something has come to hold it is no news."""
    from agent_kernel.values.groups import decode_layout

    return decode_layout(repo.read_manifest(entry).layout).pins


def _find_users(repo: Repository, tree: Tree, classes: list[str]) -> Iterator[str]:
    """The variables of these classes' names; of a class that has none, those that are made of it."""
    users: dict[str, list[str]] = {}
    for name, entry in tree.items() if classes else ():
        try:
            needed = repo.read_manifest(entry).classes
        except (DamagedObjectError, NewerFormatError):
            continue
        for of_class in needed:
            users.setdefault(of_class, []).append(name)
    for of_class in classes:
        called = of_class.removeprefix(CLASS_PREFIX).partition("#")[0].rpartition(".")[2]
        found = [name for name in users.get(of_class, ()) if not name.startswith("\0")]
        yield from [name for name in found if name == called] or found


def size_of(repo: Repository, entry: Entry) -> int:
    """Bytes of a name's value. Of several that are saved together what its preview says, or else an equal share."""
    try:
        manifest = repo.read_manifest(entry)
        stored = repo.read_preview(entry) if entry.alias_group else b""
    except (DamagedObjectError, NewerFormatError):  # the state is loaded without it
        return 0
    if not entry.alias_group:
        return manifest.size
    known = previews.decode(stored).size_bytes if stored else 0
    return min(known, manifest.size) or manifest.size // manifest.slots


def describe_error(error: BaseException) -> str:
    """The error's type and text; only plain text is read, because `str` of a notebook's own error is its code."""
    texts = [argument for argument in error.args[:1] if type(argument) is str]
    return escape_surrogates(": ".join([type(error).__name__, *texts])[:500])


def error_line(error: BaseException) -> str:
    """An error in one line. Its `str` is not asked unless it is ours: that would be the notebook's code."""
    if isinstance(error, AgentKernelError):
        return str(error)
    texts = [argument for argument in error.args if type(argument) is str]
    return " ".join(": ".join([type(error).__name__, *texts]).split())[:200]


def escape_surrogates(text: str) -> str:
    """Spell out what UTF-8 cannot hold in the text: half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def only_commands(source: str) -> bool:
    """Whether a cell holds nothing but %agent lines: they act on the history, so running them is not part of it."""
    lines = [line.strip() for line in source.splitlines()]
    code = [line for line in lines if line and not line.startswith("#")]
    commands = ("%agent", "%load_ext agent_kernel", "%reload_ext agent_kernel", "?", "%unload_ext agent_kernel")
    return bool(code) and all(line.startswith(commands) and not line.startswith("%%") for line in code)


def within_cell(number: int) -> str:
    """The label of a commit that was made while this cell ran, whose own commit comes after it."""
    return f"within cell [{number}]"


def sort_changes(changes: Iterable[Change]) -> tuple[Change, ...]:
    return tuple(sorted(changes, key=lambda change: change.name))


# -- names that the branch holds and memory does not: what a restarted kernel has not brought back
#
# Every commit keeps the entries of such names as they are, until the person binds the name anew, loads it, or leaves it
# behind. What else of a tree changes with one of them: names that shared a value with it, and notebook classes that only
# it needed.

_Value: TypeAlias = "tuple[str, ObjectId | None]"  # what names share: the name of their alias group, and a manifest
ClassGroups: TypeAlias = "dict[_Value, list[str]]"
NOTHING: frozenset[str] = frozenset()


def variables(names: Iterable[str]) -> list[str]:
    """Those of the names that a person would list."""
    return sorted(name for name in names if not name.startswith("\0"))


class _Leaf(NamedTuple):
    """The names in one node of a tree that share a value, or need classes to load. Most do neither."""

    sharing: dict[str, _Value]
    classes: dict[str, tuple[str, ...]]
    unread: frozenset[str]  # names whose manifest cannot be read


class EntryIndex:
    """Finds which of thousands of names share a value or need a class.

    Keeps what it found in each node for the next tree: the trees of two commits have nearly all nodes in common.
    """

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self._known: dict[ObjectId, _Leaf] = {}

    def find_sharing(self, tree: Tree, values: Collection[_Value], names: Collection[str]) -> dict[_Value, list[str]]:
        """Group these names by value, and leave out those that have none of the values."""
        found: dict[_Value, list[str]] = {}
        for leaf in self._leaves(tree) if values else ():
            for name, value in leaf.sharing.items():
                if value in values and name in names:
                    found.setdefault(value, []).append(name)
        return found

    def find_needed_classes(self, tree: Tree, names: frozenset[str]) -> set[str]:
        """As the function `find_needed_classes`, in little time for any number of names."""
        grouped = class_groups(tree)
        needed: set[str] = set()
        for leaf in self._leaves(tree):
            if not names.isdisjoint(leaf.unread):
                return {name for name, _ in tree.items(CLASS_PREFIX)}
            needed.update(*(leaf.classes[name] for name in names.intersection(leaf.classes)))
            if grouped:
                needed.update(*(grouped.get(leaf.sharing[name], ()) for name in names.intersection(leaf.sharing)))
        return _close_over_classes(self.repo, tree, list(needed), needed, grouped)

    def _leaves(self, tree: Tree) -> list[_Leaf]:
        ids = tree.leaf_ids()
        new = [id for id in ids if id not in self._known]
        leaves = self._known | dict(zip(new, map(self._look_at, tree.leaf_rows(new)), strict=True))
        self._known = {id: leaves[id] for id in ids if not leaves[id].unread}
        return [leaves[id] for id in ids]

    def _look_at(self, rows: Iterable[tuple[str, bytes]]) -> _Leaf:
        sharing: dict[str, _Value] = {}
        classes: dict[str, tuple[str, ...]] = {}
        unread: set[str] = set()
        for name, row in rows:
            entry = decode_entry(row)
            if entry.shared_value is not None:
                sharing[name] = entry.shared_value
            if name.startswith(CLASS_PREFIX):
                continue  # `_close_over_classes` reads the few that are needed
            try:
                needed = self.repo.read_manifest(entry).classes
            except (DamagedObjectError, NewerFormatError):
                unread.add(name)
                continue
            if needed:
                classes[name] = needed
        return _Leaf(sharing, classes, frozenset(unread))


def tree_edits(
    index: EntryIndex,
    tree: Tree,
    not_loaded: frozenset[str],
    staged: Mapping[str, Entry | None],
    ignored: Iterable[str],
) -> tuple[dict[str, Entry | None], frozenset[str]]:
    """What to edit in a tree that also holds what is not in memory, and which names that is from then on."""
    entries: dict[str, Entry | None] = dict(staged)
    dropped = [name for name, entry in entries.items() if entry is None and name.startswith(CLASS_PREFIX)]
    needed = index.find_needed_classes(tree, not_loaded - staged.keys()).intersection(dropped) if dropped else NOTHING
    for name in needed:  # nothing in memory needs this class, but what is not loaded does
        del entries[name]
    entries |= dict.fromkeys(ignored)
    entries |= further_edits(index, tree, not_loaded, entries)
    replaced = {name for name, entry in entries.items() if entry is None} | staged.keys()
    if not_loaded.isdisjoint(replaced) and not_loaded.issuperset(needed):
        return entries, not_loaded  # the same object: nothing has to find out again that it is equal
    return entries, (not_loaded - replaced) | needed


def compare_not_loaded(
    tree: Tree, not_loaded: frozenset[str], entries: Mapping[str, Entry | None], changes: Mapping[str, Change]
) -> tuple[Change, ...]:
    """The changes, with names that were not loaded compared with what the branch holds of them."""
    found = dict(changes)
    for name in not_loaded.intersection(entries):
        entry, before = entries[name], tree.get(name)
        if name not in found and entry is None and not name.startswith("\0"):
            found[name] = Change(name, "-", 0)
        elif name in found and before is not None:
            change = found.pop(name)
            if not before.is_same_value(entry):
                found[name] = Change(name, "~", change.size)
    return sort_changes(found.values())


def further_edits(
    index: EntryIndex, tree: Tree, not_loaded: frozenset[str], replaced: Collection[str]
) -> dict[str, Entry | None]:
    """What else to edit in the tree when `replaced` names are set or removed: nothing unless one of them was not loaded."""
    removed = not_loaded.intersection(replaced)
    if not removed:
        return {}
    rest = not_loaded - removed
    edits: dict[str, Entry | None] = dict(_regroup(index, tree, removed, rest))
    classes = find_needed_classes(index.repo, tree, removed) & rest
    if classes:
        edits |= dict.fromkeys(classes - index.find_needed_classes(tree, rest))
    return edits


def _regroup(index: EntryIndex, tree: Tree, removed: Iterable[str], rest: Collection[str]) -> dict[str, Entry]:
    """Entries of what shared a value with a name that is gone.

    An alias group is named after one of its own members: a name that comes to mean something else cannot be taken for one of them.
    """
    values = (entry.shared_value for name in removed if (entry := tree.get(name)) is not None)
    torn = {value for value in values if value is not None}
    return {
        name: msgspec.structs.replace(entry, alias_group=min(members) if len(members) > 1 else "")
        for members in index.find_sharing(tree, torn, rest).values()
        for name in members
        if (entry := tree.get(name)) is not None
    }


def class_groups(tree: Tree) -> ClassGroups:
    """The class entries of each value that several names share: all are read."""
    grouped: ClassGroups = {}
    for name, of_class in tree.items(CLASS_PREFIX):
        if of_class.shared_value is not None:
            grouped.setdefault(of_class.shared_value, []).append(name)
    return grouped


def find_needed_classes(
    repo: Repository, tree: Tree, names: Iterable[str], grouped: ClassGroups | None = None
) -> set[str]:
    """Find the class entries that these variables need to load. If a manifest cannot be read: all class entries.

    Args:
        grouped: the `class_groups` of the tree, for callers that ask about many names one by one.
    """
    if grouped is None:
        grouped = class_groups(tree)
    todo = [name for name in names if not name.startswith(CLASS_PREFIX)]
    return _close_over_classes(repo, tree, todo, set(), grouped)


def _close_over_classes(
    repo: Repository, tree: Tree, todo: list[str], needed: set[str], grouped: ClassGroups
) -> set[str]:
    """Add to `needed` the classes that these names need, and those that these classes need in turn."""
    while todo:
        entry = tree.get(todo.pop())
        if entry is not None:
            partners = [] if entry.shared_value is None else grouped.get(entry.shared_value, [])
            try:
                classes = repo.read_manifest(entry).classes
            except (DamagedObjectError, NewerFormatError):
                return {name for name, _ in tree.items(CLASS_PREFIX)}
            found = {*classes, *partners} - needed
            needed |= found
            todo += found
    return needed


def live_changes(
    repo: Repository, old: Tree, new: Tree, before: Collection[str], after: Collection[str]
) -> tuple[Change, ...]:
    """What a move changes among the live variables, given what is not loaded before and after it."""
    changed = {change.name for change in changes_between(repo, old, new)}
    found: list[Change] = []
    for name in sorted(changed.union(variables(set(before).symmetric_difference(after)))):
        entry = new.get(name)
        was_live = name not in before and name in old
        if entry is None or name in after:
            if was_live:
                found.append(Change(name, "-", 0))
        elif not was_live or name in changed:
            found.append(Change(name, "~" if was_live else "+", size_of(repo, entry)))
    return tuple(found)


# -- say when a store has become large: at 10 GB, at a fifth of the free disk, and at each doubling after that

FIRST_BYTES = 10_000_000_000
SHARE_OF_FREE_DISK = 0.2
# Asking the store and the disk costs a tiny cell a tenth of its time.
_LOOK_AFTER_S, _LOOK_AFTER_BYTES = 10.0, 1_000_000


class Growth:
    """Remembers what was said, so that it is said once."""

    def __init__(self) -> None:
        self._reported_bytes = 0
        self._look_at = 0.0
        self._unlooked = 0

    def notice(self, store: Store, written_bytes: int) -> str:
        """A line for the person, or nothing; `written_bytes` is what the commit that was just made stored."""
        self._unlooked += written_bytes
        now = time.monotonic()
        if self._unlooked < _LOOK_AFTER_BYTES and now < self._look_at:
            return ""
        self._unlooked, self._look_at = 0, now + _LOOK_AFTER_S
        if not isinstance(store, SupportsSize):
            return ""
        try:
            used = store.size().disk_bytes
        except StoreUnavailableError:  # the commit that follows says so better
            return ""
        if used < max(2 * self._reported_bytes, 1):
            return ""
        path = store.url.removeprefix("lmdb://")
        free = shutil.disk_usage(path).free if Path(path).exists() else 0
        if used < FIRST_BYTES and not (free and used > SHARE_OF_FREE_DISK * free):
            return ""
        self._reported_bytes = used
        return f"the history takes {size_text(used)}, and {size_text(free)} are free; see %agent stats and %agent prune"


# -- which branch a session works on: one writer each, so a second session forks


def take(repo: Repository, wanted: str | None, holder: Holder, session: str) -> tuple[str | None, ObjectId | None, str]:
    """Put a new session on a branch and lease it.

    Returns:
        The branch (None: HEAD is detached), its commit, and what to tell the person, if anything.
    """
    own = _own(repo, session) if wanted is None else Head(wanted, repo.branches().get(wanted))
    head = own or repo.head()
    if head.branch is None:
        repo.move_head(session, head, "session: start")
        return None, head.commit, "HEAD is on no branch; the next change starts one"
    branch, commit = head.branch, head.commit
    note = ""
    if wanted is not None and commit is None and repo.branches():
        commit = repo.head().commit
        if commit is not None:
            repo.create_branch(wanted, commit)
        note = f"{wanted} is a new branch, {f'at {short(commit)}' if commit is not None else 'with no commit yet'}"
    try:
        commit = _acquire(repo, branch, holder)
    except BranchInUseError as busy:
        name = free_name(repo, branch)
        repo.acquire_lease(name, holder)
        if commit is not None:
            repo.create_branch(name, commit)
        note = f"branch {branch} is in use by {busy.holder}; this session works on {name}"
        branch = name
    note = note or (_describe_original_branch(repo, branch) if own is None else "")
    repo.move_head(session, Head(branch, commit), "session: start")
    return branch, commit, note


_ATTEMPTS: Final = 100  # to find nothing beside a branch, where others go on storing there


def _acquire(repo: Repository, branch: str, holder: Holder) -> ObjectId | None:
    """Lease a branch, and return its commit. It has all that others stored until then: nothing lies beside the branch."""
    for _ in range(_ATTEMPTS):
        repo.acquire_lease(branch, holder)
        beside = repo.pointers.get(beside_key(branch), Beside)
        if beside is None or not beside.count:
            return repo.refs.branches().get(branch)
        repo.release_lease(branch, holder)  # or nobody else could commit what lies there
        repo.take_in()
    raise StoreUnavailableError(repo.store.url, f"records beside the branch {branch} could not be committed")


def _own(repo: Repository, session: str) -> Head | None:
    """Where this kernel was before it was restarted, whatever others did since; None: it was not here yet."""
    kernel, of_kernel, _ = session.partition(OF_KERNEL)
    head = repo.last_head(kernel) if of_kernel else None
    return None if head is None or (head.commit is None and repo.branches()) else head


def _describe_original_branch(repo: Repository, branch: str) -> str:
    """What to tell of a branch that went on, and is free, since this one was forked off it for a second session; "": nothing."""
    tips = repo.branches()
    stem, _, last = branch.rpartition("-")
    if not last.isdigit() or branch not in tips or stem not in tips or repo.is_ancestor(tips[stem], tips[branch]):
        return ""
    lease = repo.lease_of(stem)
    if lease is not None and lease.is_alive(repo.store):
        return ""
    return f"branch {stem} has gone on beside this one: %agent switch {stem} goes there"


def free_name(repo: Repository, base: str) -> str:
    """`base-2`, or the next number that no branch has and nobody holds."""
    known = repo.branches()
    stem, _, last = base.rpartition("-")
    if last.isdigit() and stem in known:  # a fork of a fork is named after the first
        base = stem
    number = 2
    while f"{base}-{number}" in known or repo.lease_of(f"{base}-{number}") is not None:
        number += 1
    return f"{base}-{number}"


# -- where the conversation with agents stands: the line of commits whose steps they remember, and what it can go back to
#
# The line to a commit is the line to its first parent and the commit's own step; where a commit went back to an older one,
# the line to that; where it names another one for the conversation alone (`chat`), the line to that.

_GOES_BACK: Final = frozenset({"undo", "redo", "rollback"})
_FAR: Final = 10_000  # commits that are looked at


class RememberedRun(NamedTuple):
    """A run that agents remember, and the commit before it: None: there was none."""

    run: str
    before: ObjectId | None


def line_to(repo: Repository, head: ObjectId | None, since_ns: int = 0) -> Iterator[tuple[str, Commit | None, bool]]:
    """The commits on the line, newest first, in hex digits, and whether their own steps count; at last "" before the first.

    Where a commit is gone that the line would go on with, nothing more is known, and the line ends.
    """
    at = head
    while at is not None and at != NO_CHAT:
        try:
            commit = repo.commit_at(at)
        except DamagedObjectError:
            return
        if commit.time_ns < since_ns:
            return
        goes_back = commit.restores if commit.kind in _GOES_BACK else None
        target = goes_back if commit.chat is None else commit.chat
        yield hex_of(at), commit, target is None
        at = next(iter(commit.parents), None) if target is None else target
    if at is None:
        yield "", None, False


def last_remembered_run(
    repo: Repository, head: ObjectId | None, begun: Mapping[str, str], until: ObjectId | None = None
) -> RememberedRun | None:
    """The last run of those that are remembered at a commit; None: none is.

    Args:
        begun: runs without any step, by the commit, in hex digits, at which they were begun.
        until: what lies behind this commit, and its own step, is not remembered.
    """
    last = None if until is None else hex_of(until)
    line = list(islice(line_to(repo, head), _FAR))
    known = takewhile(lambda one: one[0] != last, line)
    runs = [(commit.run if commit is not None and is_own else "") or begun.get(at, "") for at, commit, is_own in known]
    run = next(filter(None, runs), "")
    if not run:
        return None
    behind = len(runs) - runs[::-1].index(run)  # the run may have gone on after other work
    before = line[behind][0] if behind < len(line) else ""
    return RememberedRun(run, ObjectId(bytes.fromhex(before) + ALGORITHM) if before else None)


# -- a commit in a few words, for people: `3f2a91c4 [7] convert to euros`


_IMPORT = re.compile(r"(?:import|from)\s+[\w.]+")
_LONGEST = 60  # characters of a title inside the message of another commit
_WRITTEN = frozenset({"cell", "commit", "merge"})  # kinds whose message a person wrote; others quote a cell
_MESSAGE = 80
_NAME = 120


def mask_commit(commit: Commit) -> Commit:
    """Mask what looks like a secret in a commit's code, its error and its message, as every interface shows it."""
    cell, hidden = commit.cell, frozenset[str]()
    if cell is not None:
        source, hidden = previews.mask_code(cell.source)
        cell = msgspec.structs.replace(cell, source=source, error=previews.mask_text(cell.error, hidden))
    message = previews.mask_text(commit.message, hidden)
    unsaved = tuple(
        msgspec.structs.replace(one, reason=previews.mask_text(one.reason, hidden)) for one in commit.unsaved
    )
    return msgspec.structs.replace(commit, cell=cell, message=message, unsaved=unsaved)


def subject(message: str, source: str) -> str:
    """What a commit is about: its message, else the cell's leading comment, else its first line that does something."""
    return about(message, source)[0]


def is_code(commit: Commit) -> bool:
    """Whether a line of the cell's code stands for the commit, and no words of a person's."""
    return about(commit.message, commit.cell.source if commit.cell else "")[1]


def about(message: str, source: str) -> tuple[str, bool]:
    """The same as `subject`, and whether it is a line of the code."""
    if message.strip():
        return clean(message.strip().splitlines()[0]), False
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    body = [line for line in lines if not line.startswith("%%agent")]
    if not body:
        return clean(lines[0]) if lines else "", bool(lines)
    comment = body[0].lstrip("#! ").strip()
    if body[0].startswith("#") and comment:
        return clean(comment), False
    code = [line for line in body if not line.startswith("#")]
    return clean(next((line for line in code if not _IMPORT.match(line)), (code or body)[0])), True


def title(commit: Commit) -> str:
    """What the commit is about, in one line; never empty."""
    commit = mask_commit(commit)
    text = subject(commit.message, commit.cell.source if commit.cell else "")
    return text or {"root": "the beginning", "commit": "what no cell had committed yet"}.get(commit.kind, commit.kind)


def prompt(commit: Commit) -> str:
    """The cell's number as Jupyter shows it."""
    return f"[{commit.cell.number}]" if commit.cell and commit.cell.number is not None else ""


def label(found: ObjectId, commit: Commit, *, longest: int = 0) -> str:
    """The commit in a sentence: `3f2a91c4 [7] convert to euros`. `longest`: characters of its title; 0: all."""
    text = title(commit)
    if longest and len(text) > longest:
        text = f"{text[: longest - 1]}…"
    return " ".join(part for part in (short(found), prompt(commit), text) if part)


def commit_in_message(found: ObjectId, commit: Commit, rev: str = "") -> str:
    """The commit inside another one's message: as it was called by whoever typed it, then what it is."""
    text = label(found, commit, longest=_LONGEST)
    return f"{rev}: {text}" if rev and not text.startswith(rev) else text


class Kernels:
    """Where a history that is listed newest first passes from one kernel to the one before: numbers of cells begin anew there."""

    def __init__(self) -> None:
        self._next: dict[ObjectId | None, str] = {}  # by commit, the session of the cell that went on from it

    def before(self, found: ObjectId | None, parent: ObjectId | None, session: str) -> str:
        """What to say right above this commit; "" mostly.

        Args:
            found, parent: the commit, and from which it goes on; None: others lie between those that are listed.
            session: in which its cell ran; "": it has no numbered cell of a kernel.
        """
        later = self._next.pop(found, "")
        if later or session:
            self._next[parent] = session or later
        if not later or not session or later == session:
            return ""
        if later.partition(OF_KERNEL)[0] == session.partition(OF_KERNEL)[0]:
            return "kernel restarted"
        return "new kernel" if OF_KERNEL in later and OF_KERNEL in session else "new session"


def session_of(commit: Commit) -> str:
    """The session in which the commit's numbered cell ran. Returns "" without such a cell, or where an agent ran it aside."""
    is_numbered = commit.cell is not None and commit.cell.number is not None
    return commit.session if is_numbered and not commit.session.startswith(ASIDE) else ""


def commit_in_undo(found: ObjectId, commit: Commit) -> str:
    """The commit inside the message of an undo: `3f2a91c4 [7] x = 1`, and of another move `3f2a91c4 (roll back to HEAD~2)`."""
    if commit.cell is not None:
        return commit_in_message(found, commit)
    text = title(commit)
    if commit.kind not in _WRITTEN:
        text = text.partition(": ")[0]  # behind it stands what the move went to, in as many words again
    return f"{short(found)} ({shorten(text, _LONGEST)})"


def describe_kind(commit: Commit) -> str:
    """What kind of thing it was, or what somebody wrote about it; never code."""
    message = mask_commit(commit).message.strip()
    if message and commit.kind in _WRITTEN:
        return shorten(clean(message.splitlines()[0]), _MESSAGE)
    if commit.cell is not None:
        return f"cell of {shorten(clean(commit.author.name), _NAME)}" if commit.author.kind == "agent" else "cell"
    names = {"root": "the beginning", "commit": "what no cell had committed yet"}
    return names.get(commit.kind, shorten(clean(commit.kind), _NAME))


def error_kind(commit: Commit) -> str:
    """The type of the error: its text may hold what the variables held."""
    if commit.status == "ok" or commit.cell is None:
        return ""
    kind = commit.cell.error.partition(":")[0]
    return "interrupted" if commit.status == "interrupted" else kind if kind.isidentifier() else "failed"


def without_code(commit: Commit) -> Commit:
    """The commit as it may stay in a notebook that others are given, when the cell may have been deleted long since."""
    cell = commit.cell
    if cell is not None:
        error = error_kind(commit) if cell.error else ""
        cell = msgspec.structs.replace(cell, source="", error=error, outputs=None)
    return msgspec.structs.replace(commit, message=describe_kind(commit), cell=cell)


# -- what a commit says of its variables: a preview of each, how much longer or wider they became, and which to name first


def summary_of(repo: Repository, entry: Entry) -> previews.Preview | None:
    """What was noted about the value when it was committed; None where nothing was, or nothing that can be read.

    A size is that of what is stored, before packing, as in the history. (Previews of older stores hold what the value
    took in memory, as far as its type could tell.)
    """
    stored = repo.read_preview(entry)
    if not stored:
        return None
    try:
        summary = previews.decode(stored)
    except msgspec.MsgspecError:  # somebody else's store may hold anything
        return None
    if not summary.size_bytes:
        return summary
    known = summary.kind != "object" or not (entry.alias_group or repo.read_manifest(entry).unsaved)
    return msgspec.structs.replace(summary, size_bytes=size_of(repo, entry) if known else 0)


def grown(repo: Repository, commit: Commit, names: Sequence[str] | None = None) -> dict[str, str]:
    """How much longer or wider each name became that the commit changed: of these names, or of the largest ones."""
    if names is None:
        changed = sorted((change for change in commit.changed if change.how == "~"), key=lambda change: -change.size)
        names = [change.name for change in changed[:MOST_RANKED]]
    return grown_between(repo, commit.parents[0], commit.tree, names) if names and commit.parents else {}


def grown_between(repo: Repository, base: ObjectId | None, after: ObjectId, names: Iterable[str]) -> dict[str, str]:
    """The same of some names between a commit, None: the empty state, and a tree."""
    found: dict[str, str] = {}
    try:
        trees = repo.tree_at(base), repo.tree(after)
        for name in names:
            old, new = (
                None if entry is None else summary_of(repo, entry) for entry in (tree.get(name) for tree in trees)
            )
            if old is not None and new is not None and (grew := previews.growth(old, new)):
                found[name] = grew
    except StoreError:  # what can be said of the others will do
        pass
    return found


def unsaved_names(unsaved: Iterable[Unsaved]) -> list[str]:
    """The variables; some that are saved together are told as one."""
    return list(dict.fromkeys(name for one in unsaved for name in one.name.split(", ")))


# Which changes to name first: those of tables, models, single values and figures, then the others. See `previews.interest`
Rank = Callable[[str], int]
MOST_RANKED: Final = 64  # names whose kind is looked at, the largest first


def by_name(known: Mapping[str, int]) -> Rank:
    """The rank of a name; of one that is not known the last."""
    return lambda name: known.get(name, previews.LEAST)


def ranks_of(repo: Repository, commit: Commit) -> dict[str, int]:
    """The ranks of what a commit changed."""
    return ranks(repo, commit.changed, commit)


def ranks(repo: Repository, changes: Sequence[Change], after: Commit) -> dict[str, int]:
    """The ranks of changed names. What was removed is not among them, and so comes last.

    Nothing is read where there is nothing to sort.
    """
    if len(changes) < 2:
        return {}
    looked_at = sorted(changes, key=lambda change: -change.size)[:MOST_RANKED]
    tree = repo.tree(after.tree)
    return {change.name: rank_of(repo, tree.get(change.name)) for change in looked_at if change.how != "-"}


def rank_of(repo: Repository, entry: Entry | None) -> int:
    """The rank of a stored value, by what was noted about it when it was committed."""
    try:
        stored = b"" if entry is None else repo.read_preview(entry)
        return previews.interest(previews.decode(stored)) if stored else previews.LEAST
    except (StoreError, msgspec.MsgspecError):
        return previews.LEAST


# -- the state of the random generators that each commit keeps: Python's and numpy's global ones, and torch's, where they are loaded
#
# Running a cell again after a rollback then gives the same numbers. The format is msgpack, not pickle, so that it can be read
# without trust.

GENERATORS = "the state of the random generators"


class RandomState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Generator states as bytes; None where the library was not loaded."""

    version: int = 3
    words: bytes = b""
    gauss: float | None = None
    numpy: tuple[str, bytes, int, int, float] | None = None
    torch: bytes | None = None


def capture_generators() -> bytes:
    """The stored bytes of the generators' state, some 5 kB."""
    state = _python_state(), _numpy_state(), _torch_state()
    if state != _captured.state:  # most cells leave it as it is: to compare it takes a third of the time
        (version, words, gauss), (_, numpy, torch) = random.getstate(), state
        payload = msgspec.msgpack.encode(RandomState(version, array.array("I", words).tobytes(), gauss, numpy, torch))
        _captured.state, _captured.payload = state, payload
    return _captured.payload


def _python_state() -> object:
    """What tells whether Python's generator is as it was: its numbers as they lie in memory, or else its state.

    To ask for the state makes an object of each of 625 numbers.
    """
    generator = getattr(random.getstate, "__self__", None)
    if type(generator) is not random.Random or not _knows_numbers():
        return random.getstate()
    return (
        id(generator),
        string_at(id(generator) + object.__basicsize__, _NUMBERS_BYTES),
        vars(generator).get("gauss_next"),
    )


_NUMBERS_BYTES = 625 * 4  # where the next one is, and 624 words


@functools.cache
def _knows_numbers() -> bool:
    """Whether this Python keeps a generator's numbers as we know it: tried on one."""
    size: int = random.Random.__base__.__basicsize__  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    if sys.implementation.name != "cpython" or size - object.__basicsize__ not in (_NUMBERS_BYTES, _NUMBERS_BYTES + 4):
        return False
    some = random.Random(7)
    for _ in range(2):
        some.random()
        numbers = string_at(id(some) + object.__basicsize__, _NUMBERS_BYTES)
        *words, place = some.getstate()[1]
        if numbers != array.array("I", [place, *words]).tobytes():
            return False
    return True


class _Captured:
    """The state that was asked for last, and its bytes."""

    state: object = None
    payload: bytes = b""


_captured = _Captured()


def try_generators(payload: bytes) -> Callable[[], None]:
    """Try a stored state on generators made for it, and return what puts the real ones into it.

    Libraries that are not loaded now are left alone.

    Raises:
        Exception: whatever a library that does not know such a state raises. Nothing was changed.
    """
    state = msgspec.msgpack.decode(payload, type=RandomState)
    words = array.array("I")
    words.frombytes(state.words)
    python = state.version, tuple(words), state.gauss
    random.Random(0).setstate(python)
    puts: list[Callable[[], object]] = [lambda: random.setstate(python)]
    numpy_random = _find_loaded("numpy.random")
    if numpy_random is not None and state.numpy is not None:
        name, keys, position, has_gauss, cached = state.numpy
        numpys = name, sys.modules["numpy"].frombuffer(keys, "uint32"), position, has_gauss, cached
        numpy_random.RandomState(0).set_state(numpys)
        puts.append(lambda: numpy_random.set_state(numpys))
    torch = _find_loaded("torch")
    if torch is not None and state.torch is not None:
        torchs = torch.frombuffer(bytearray(state.torch), dtype=torch.uint8)
        torch.Generator().set_state(torchs)
        puts.append(lambda: torch.set_rng_state(torchs))

    def put() -> None:
        for one in puts:
            one()

    return put


def leave_generators() -> None:
    """Put nothing anywhere."""


def prepare_generators(
    repo: Repository, commit: ObjectId | None, *, keep: bool, partial: bool
) -> tuple[Callable[[], None], str]:
    """What puts the generators into the state of a commit, and what to say of it.

    Raises:
        LoadError: there is a state that cannot be had, and `partial` does not allow to go without. Nothing was changed.
    """
    id = None if keep or commit is None else repo.commit_at(commit).random
    if id is None:
        return leave_generators, ""
    try:
        return try_generators(repo.objects.get(Kind.SMALL, id)), ""
    except StoreUnavailableError:
        raise
    except Exception as error:
        reason = error_line(error)
        if not partial:
            what, way = (GENERATORS,), "--keep-random leaves them as they are, and so does --partial"
            raise LoadError((), reason, ((what, reason),), way) from error
        return leave_generators, f"{GENERATORS} stays as it is, for that of the commit could not be loaded: {reason}"


def _find_loaded(name: str) -> Any:
    """A library that the user has loaded, and finished loading."""
    module: Any = sys.modules.get(name)
    ready = {"numpy.random": "get_state", "torch": "get_rng_state"}[name]
    return module if module is not None and hasattr(module, ready) else None


def _numpy_state() -> tuple[str, bytes, int, int, float] | None:
    numpy_random = _find_loaded("numpy.random")
    if numpy_random is None:
        return None
    name, keys, position, has_gauss, cached = numpy_random.get_state()
    return name, keys.tobytes(), int(position), int(has_gauss), float(cached)


def _torch_state() -> bytes | None:
    torch = _find_loaded("torch")
    if torch is None:
        return None
    state: bytes = torch.get_rng_state().numpy().tobytes()
    return state
