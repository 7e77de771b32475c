"""Make another history out of this one: the same commits without some of them, or without some of their content.

Commits keep authors, times, messages and whatever else a newer release put into them, and get new ids where anything
before them changed. All refs, HEADs and reflogs move in one transaction; then exactly what only the old history reached is
deleted.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from agent_kernel.errors import NameNotFoundError, RefNotFoundError, StoreFullError, StoreUnavailableError
from agent_kernel.repository.commits import (
    ENCODER,
    NO_CHAT,
    Blob,
    Cell,
    Change,
    Commit,
    Document,
    Entry,
    Kind,
    Manifest,
    ObjectId,
    Unsaved,
    amend,
    decode_commit,
    decode_entry,
    decode_manifest,
    hex_of,
    preview_id,
    short,
)
from agent_kernel.repository.objects import blobs_of, chunks_of, load_list, read_outputs, store_list
from agent_kernel.repository.refs import BRANCHES, HEADS, LOGS, TAGS, HeadRecord, LogRecord, Move, Ref
from agent_kernel.repository.repository import MASKED, encode_names, set_in
from agent_kernel.repository.runs import Forgetting, change_events, code_of_events, steps_of
from agent_kernel.repository.upkeep import Reach, Sweeper, commit_keys

if TYPE_CHECKING:
    from collections.abc import Collection

    from agent_kernel.repository.commits import Tree
    from agent_kernel.repository.objects import Writer
    from agent_kernel.repository.repository import Repository


_SHORT = re.compile(r"\b[0-9a-f]{8}\b")


@dataclass(frozen=True)
class Plan:
    """What the new history is to be.

    Attributes:
        keeps: whether a commit stays. Children of one that goes become children of its parents.
        edit: the tree of a commit that stays, given its old one.
        renews: whether to work out anew what a commit changed, if it gets another first parent.
        drops: names that commits are no longer to mention as changed or unsaved.
        says: the fields of a commit that are text and are to be other ones.
        logs: the message of a reflog's line, given its old one.
        holds: whether a branch or tag (by its key) stays when its commit goes; it moves to the commit before.
        event: changes the fields of an event of an agent's run, given its kind.
        settings: what to store in the same transaction.
    """

    keeps: Callable[[ObjectId, Commit], bool] = lambda id, commit: True
    edit: Callable[[Writer, Tree], Tree] = lambda writer, tree: tree
    renews: bool = False
    drops: frozenset[str] = frozenset()
    says: Callable[[Commit], Mapping[str, object]] = lambda commit: {}
    logs: Callable[[str], str] = str
    holds: Callable[[bytes], bool] = lambda key: key.startswith(BRANCHES)
    event: Callable[[str, dict[str, Any]], None] | None = None
    settings: Mapping[str, bytes | None] = field(default_factory=dict[str, "bytes | None"])


@dataclass
class Rewrite:
    """The outcome: where each old commit's place is taken by which new one, and what was deleted."""

    places: dict[ObjectId, ObjectId | None] = field(default_factory=dict[ObjectId, "ObjectId | None"])
    dropped: set[ObjectId] = field(default_factory=set[ObjectId])
    events_changed: int = 0  # by the plan
    is_collected: bool = True  # if not, the disk was too full to delete what only the old history reached
    objects_deleted: int = 0
    bytes_freed: int = 0
    shorts: dict[str, str] = field(default_factory=dict[str, str])  # new ids by old ones, as people see them

    @property
    def moved(self) -> dict[ObjectId, ObjectId]:
        """New ids by old ones, of the commits that were kept and changed."""
        return {
            old: new for old, new in self.places.items() if new is not None and new != old and old not in self.dropped
        }


def tips(repo: Repository) -> list[ObjectId]:
    """The commits that branches, tags and detached HEADs name."""
    heads = [head.commit for head in repo.heads().values() if head.commit is not None]
    return list(dict.fromkeys([*repo.branches().values(), *repo.tags().values(), *heads]))


def rewrite(repo: Repository, plan: Plan) -> Rewrite:
    """Rewrite everything that refs reach, move them all, and delete what only the old history held.

    Raises:
        BranchInUseError: another living process works in this store. Nothing was changed.
    """
    repo.leases.refuse_others()
    repo.writer()  # notices whether anything was deleted, and forgets it
    before = Reach(repo.objects)
    before.extend(commit_keys([*tips(repo), *_list_logged(repo)]))
    result = Rewrite()
    # Refs may move while this goes on; then what they reach anew is rewritten too, and the move is tried again.
    repo.pointers.change(lambda move: _attempt(repo, plan, result, move))
    repo.pointers.change(lambda move: change_events(repo, move, result.places))  # those that came meanwhile
    try:
        result.objects_deleted, result.bytes_freed = Sweeper(repo).delete(before.seen)
    except StoreFullError:  # even deleting takes some room; what is unreachable now is the next collection's
        result.is_collected = False
    return result


def _attempt(repo: Repository, plan: Plan, result: Rewrite, move: Move) -> None:
    pointers = repo.pointers
    refs = [*pointers.keys(BRANCHES), *pointers.keys(TAGS), *pointers.keys(HEADS)]
    lines = pointers.all(LOGS, LogRecord)
    move.read(refs)
    move.stamp_format()
    move.enroll()
    _rewrite_commits(repo, plan, result)
    for key in refs:
        if key.startswith(HEADS):
            _move_head(move, key, result)
        else:
            _move_ref(move, key, result, plan.holds(key))
    for key, line in lines.items():
        place = result.places.get(line.commit)
        if place is None or line.commit in result.dropped:
            move.set(key, None)
        elif (place, message := plan.logs(line.message)) != (line.commit, line.message):
            move.set(key, LogRecord(place, message, line.session, line.moved_from))
    for name, value in plan.settings.items():
        set_in(move, name, value)
    result.events_changed = change_events(repo, move, result.places, plan.event)


def _rewrite_commits(repo: Repository, plan: Plan, result: Rewrite) -> None:
    writer = repo.writer()
    parents_of: dict[ObjectId, tuple[ObjectId, ...]] = {}  # what takes the place of a dropped commit
    for id, commit in reversed(list(repo.history.walk(tips(repo)))):
        parents = tuple(
            dict.fromkeys(new for old in commit.parents for new in parents_of.get(old, _place(result, old)))
        )
        if plan.keeps(id, commit):
            new = result.places[id] = _rewritten(repo, writer, plan, result, id, commit, parents)
            result.shorts[short(id)] = short(new)
        else:
            parents_of[id] = parents
            result.dropped.add(id)
            result.places[id] = parents[0] if parents else None
    writer.flush()


def _place(result: Rewrite, old: ObjectId) -> tuple[ObjectId, ...]:
    new = result.places.get(old)
    return () if new is None else (new,)


def _rewritten(
    repo: Repository,
    writer: Writer,
    plan: Plan,
    result: Rewrite,
    id: ObjectId,
    commit: Commit,
    parents: tuple[ObjectId, ...],
) -> ObjectId:
    before = repo.tree(commit.tree)
    tree = plan.edit(writer, before)
    changed = tuple(
        change
        for change in commit.changed
        if change.name not in plan.drops and (change.name in tree or change.name not in before)
    )
    if plan.renews and parents[:1] != commit.parents[:1]:
        changed = _changes(repo, parents[0] if parents else None, tree)
    texts = dict(plan.says(commit))
    texts["message"] = _message(commit, str(texts.get("message", commit.message)), result)
    unsaved_before = cast("tuple[Unsaved, ...]", texts.pop("unsaved", commit.unsaved))
    unsaved = tuple(unsaved for unsaved in unsaved_before if unsaved.name not in plan.drops)
    restores = None if commit.restores is None else result.places.get(commit.restores)
    chat = None if commit.chat is None else result.places.get(commit.chat) or NO_CHAT
    if chat is None and commit.restores is not None and restores is None:
        chat = NO_CHAT  # what it went back to is gone, and the conversation must not be that of what it left
    fields = {
        "tree": tree.id,
        "parents": parents,
        "changed": changed,
        "unsaved": unsaved,
        "restores": restores,
        "chat": chat,
        **texts,
    }
    if all(getattr(commit, name) == value for name, value in fields.items()):
        return id
    payload = amend(repo.objects.get(Kind.COMMIT, id), **fields)
    return writer.add(Kind.COMMIT, payload, decoded=decode_commit(payload))


def _message(commit: Commit, message: str, result: Rewrite) -> str:
    """What undo, redo and rollback said by themselves, with the new ids of the commits that they speak of."""
    if commit.kind not in ("undo", "redo", "rollback"):
        return message
    return _SHORT.sub(lambda found: result.shorts.get(found[0], found[0]), message)


def _changes(repo: Repository, parent: ObjectId | None, tree: Tree) -> tuple[Change, ...]:
    found: list[Change] = []
    for name, old, new in repo.tree_at(parent).diff(tree):
        if name.startswith("\0") or (old is not None and old.is_same_value(new)):
            continue
        how = "-" if new is None else "+" if old is None else "~"
        manifest = None if new is None else repo.read_manifest(new)
        # Names that are saved together share the bytes; what each has of them only a preview could say.
        found.append(Change(name, how, 0 if manifest is None else manifest.size // manifest.slots))
    return tuple(found)


def _move_ref(move: Move, key: bytes, result: Rewrite, holds: bool) -> None:
    ref = move.get(key, Ref)
    if ref is None or ref.commit not in result.places:
        return
    place = result.places[ref.commit]
    if place is None or (ref.commit in result.dropped and not holds):
        move.set(key, None)
    elif place != ref.commit:
        move.set(key, Ref(move.stamp, place))


def _move_head(move: Move, key: bytes, result: Rewrite) -> None:
    head = move.get(key, HeadRecord)
    if head is None or head.commit is None or head.commit not in result.places:
        return
    place = result.places[head.commit]
    if place != head.commit:
        # Without any commit left there, HEAD goes back to the first branch.
        branch = None if place is not None else "main"
        move.set(key, msgspec.structs.replace(head, stamp=move.stamp, branch=branch, commit=place))


def _list_logged(repo: Repository) -> Iterable[ObjectId]:
    return [line.commit for line in repo.pointers.all(LOGS, LogRecord).values()]


# -- take variables and commits out of all history, and their bytes out of the store, in one rewriting

_NO_SETTINGS: Final[Mapping[str, bytes | None]] = {}


@dataclass(frozen=True)
class ForgetReport:
    """What was forgotten, and where more of it may be."""

    moved: dict[ObjectId, ObjectId]  # new ids by old ones
    objects_deleted: int
    bytes_freed: int
    erased: bool  # whether the store's file was rewritten too, so that its free space holds nothing of it
    shared_with: tuple[str, ...] = ()  # names that hold the same value, or did
    mentioned_in: tuple[ObjectId, ...] = ()  # commits, by their new ids, whose code speaks of a name
    outputs_dropped: int = 0  # cells that changed one or spoke of one, and whose outputs went too
    redacted: bool = False  # whether that code was masked
    code_dropped: tuple[str, ...] = ()  # functions and classes that went too, because their code held it
    events_masked: int = 0  # of agents' runs, which told of it
    also_in: tuple[str, ...] = ()  # values that hold what the code gave away, and stay
    is_collected: bool = True  # if not, the disk was too full to delete the bytes, and a collection has to
    in_memory: tuple[str, ...] = ()  # live variables that no commit holds any more as they are; the next one will


@dataclass
class Traces:
    """What a history says of some names, before anything is changed."""

    missing: set[str] = field(default_factory=set[str])  # no commit holds them, or says that they could not be saved
    spoken_of: dict[str, set[ObjectId]] = field(default_factory=dict[str, "set[ObjectId]"])  # by name: code that does
    shared: set[str] = field(default_factory=set[str])
    outputs: set[ObjectId] = field(default_factory=set[ObjectId])  # outputs that may show them
    code: set[str] = field(default_factory=set[str])
    values: set[str] = field(default_factory=set[str])
    noted: frozenset[str] = frozenset()  # names that events of agents' runs speak of

    @property
    def mentioned(self) -> set[ObjectId]:
        """The commits whose code speaks of any of them."""
        return {id for ids in self.spoken_of.values() for id in ids}

    def require(self, *, masks: bool) -> None:
        """Raise NameNotFoundError for a name that there is no trace of. `masks`: being spoken of is one."""
        for name in sorted(self.missing):
            many = len(self.spoken_of[name])
            if not (masks and (many or name in self.noted)):
                spoken = (
                    f", only in the code of {'one cell' if many == 1 else f'{many:,} cells'}, which --sources masks"
                )
                raise NameNotFoundError(name, f"any commit{spoken if many else ''}")


def traces_of(repo: Repository, names: Collection[str], redaction: Redaction | None = None) -> Traces:
    """Look through all history for some names, and with a redaction also for what the code gave away."""
    found = Traces(set(names), {name: set() for name in names})
    words = {name: re.compile(rf"\b{re.escape(name)}\b") for name in names}
    for id, commit in repo.history.walk(tips(repo)):
        tree = repo.tree(commit.tree)
        named = {change.name for change in commit.changed} | {unsaved.name for unsaved in commit.unsaved}
        found.missing -= {name for name in found.missing if name in tree or name in named}
        found.shared |= {other for name in names for other in _find_aliases(tree, name)} - set(names)
        if commit.cell is not None:
            mentioned = [name for name, word in words.items() if word.search(commit.cell.source)]
            for name in mentioned:
                found.spoken_of[name].add(id)
            if commit.cell.outputs is not None and (mentioned or not named.isdisjoint(names)):
                found.outputs.add(commit.cell.outputs)
        if redaction is not None:
            code, values = redaction.holders(tree)
            found.code |= code - set(names)
            found.values |= values
    found.noted = Forgetting(repo, names, ()).speaks_of()
    return found


def redaction_of(repo: Repository, names: Collection[str], mask: Mask) -> Redaction:
    """What taking the code of some names out of the sources would take out."""
    commits = (commit for _, commit in repo.history.walk(tips(repo)))
    return Redaction(repo, names, commits, mask, code_of_events(repo))


def forget(
    repo: Repository,
    names: Collection[str],
    commits: Collection[ObjectId],
    mask: Mask | None = None,
    settings: Mapping[str, bytes | None] = _NO_SETTINGS,
) -> ForgetReport:
    """See `Repository.forget`."""
    reached = {found for found, _ in repo.history.walk(tips(repo))} if commits else set[ObjectId]()
    for id in commits:
        if id not in reached:
            raise RefNotFoundError(hex_of(id), repo.refs.list_refs())
    redaction = redaction_of(repo, names, mask) if mask is not None and names else None
    traces = traces_of(repo, names, redaction) if names else Traces()
    traces.require(masks=redaction is not None)
    repo.leases.refuse_others()
    settings = dict(settings)
    if redaction is not None:
        settings[MASKED] = encode_names(repo.masked_names() | frozenset(names))
    events = Forgetting(repo, names, steps_of(repo, commits), redaction)
    plan = _plan(names, commits, traces, redaction)
    result = rewrite(repo, replace(plan, event=events.change, settings=settings))
    stay = [id for id in traces.mentioned if id not in result.dropped]
    return ForgetReport(
        result.moved,
        result.objects_deleted,
        result.bytes_freed,
        result.is_collected and _erase(repo),
        is_collected=result.is_collected,
        shared_with=tuple(sorted(traces.shared)),
        mentioned_in=tuple(sorted(result.moved.get(id, id) for id in stay)),
        outputs_dropped=len(traces.outputs),
        redacted=redaction is not None,
        code_dropped=_names(traces.code),
        also_in=_names(traces.values),
        events_masked=result.events_changed,
    )


def _plan(names: Collection[str], commits: Collection[ObjectId], traces: Traces, redaction: Redaction | None) -> Plan:
    """One rewriting for everything that goes."""

    def edit(writer: Writer, tree: Tree) -> Tree:
        code = redaction.holders(tree)[0] if redaction is not None else ()
        return tree.edit_rows(writer, dict.fromkeys([*names, *code])) if names else tree

    def redact(commit: Commit) -> dict[str, object]:
        fields = {} if redaction is None else redaction.fields(commit)
        cell = fields.get("cell", commit.cell)
        # A cell that made the variable, or looked at it, may have shown what it held.
        if isinstance(cell, Cell) and cell.outputs in traces.outputs:
            fields["cell"] = msgspec.structs.replace(cell, outputs=None)
        return fields

    return Plan(
        keeps=lambda found, commit: found not in commits,
        edit=edit,
        renews=bool(commits),
        drops=frozenset(names),
        says=redact,
        logs=str if redaction is None else redaction.text,
    )


def _names(entries: set[str]) -> tuple[str, ...]:
    """The variables among a tree's names; a class goes by the variables that need it."""
    return tuple(sorted(name for name in entries if not name.startswith("\0")))


def _find_aliases(tree: Tree, name: str) -> set[str]:
    entry = tree.get(name)
    if entry is None or entry.shared_value is None:
        return set()
    return {other for other, it in tree.items() if other != name and it.shared_value == entry.shared_value}


def _erase(repo: Repository) -> bool:
    compact = getattr(repo.store, "compact", None)
    if compact is None:
        return False
    try:
        compact()
    except (StoreUnavailableError, StoreFullError):
        return False
    return True


# -- take what the code of some variables gave away out of everything that commits say: sources, errors, messages, outputs
#
# What is looked for are the literals of the statements that spoke of the variable. They are replaced in all text. Code
# that holds one (a stored function or class) cannot be altered without becoming other code, so it goes with its name.
# Values that hold one are only named: they may hold it for reasons of their own.


class Mask(Protocol):
    """How code is masked; `values.previews` has two ways."""

    def __call__(self, source: str, names: frozenset[str]) -> tuple[str, frozenset[str]]:
        """The source without the literals that belong to the names, and these."""
        ...

    def literals(self, source: str, literals: Iterable[str]) -> str:
        """The source without these literals. It stays code."""
        ...


MASK: Final = "•••• masked"
_TELLING: Final = 6  # characters; a shorter literal is part of too much that has nothing to do with it


class Redaction:
    """What to take out, learnt from every cell that speaks of one of the names.

    Args:
        mask: gives a source without the literals that belong to names, and those literals.
        noted: code that stands beside the history, in the events of agents' runs.
    """

    def __init__(
        self,
        repo: Repository,
        names: Iterable[str],
        commits: Iterable[Commit],
        mask: Mask,
        noted: Iterable[str] = (),
    ) -> None:
        self._repo = repo
        self._names = frozenset(names)
        self._word = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(self._names)))})\b")
        self._mask = mask
        literals: set[str] = set()
        sources = (commit.cell.source for commit in commits if commit.cell is not None)
        for source in chain(sources, noted):
            if self.speaks(source):
                literals |= mask(source, self._names)[1]
        self.literals = sorted(literals - {MASK}, key=len, reverse=True)
        self._needles = [literal.encode() for literal in self.literals if len(literal) >= _TELLING]
        self.is_telling = cache(self._is_telling)
        self._tells = cache(self._tells_of)
        self._document_cell = cache(self._document_cell_of)

    def speaks(self, source: str) -> bool:
        """Whether the code names one of the variables."""
        return self._word.search(source) is not None

    def code(self, source: str) -> str:
        """The source without what it gives away."""
        return self._mask.literals(self._mask(source, self._names)[0] if self.speaks(source) else source, self.literals)

    def text(self, text: str) -> str:
        """The text without the literals."""
        for literal in self.literals:
            text = text.replace(literal, MASK)
        return text

    def fields(self, commit: Commit) -> dict[str, object]:
        """The fields of a commit that are text, without the literals."""
        found: dict[str, object] = {
            "message": self.text(commit.message),
            "labels": tuple(map(self.text, commit.labels)),
            "unsaved": tuple(msgspec.structs.replace(one, reason=self.text(one.reason)) for one in commit.unsaved),
        }
        if commit.notebook is not None and self._on_page(commit.notebook):
            found["notebook"] = None
        if commit.document is not None:
            found["document"] = self._document(commit.document)
        if commit.cell is not None:
            outputs = commit.cell.outputs
            safe_outputs = None if self.speaks(commit.cell.source) or self._in_outputs(outputs) else outputs
            found["cell"] = msgspec.structs.replace(
                commit.cell,
                source=self.code(commit.cell.source),
                error=self.text(commit.cell.error),
                outputs=safe_outputs,
            )
        return found

    def holders(self, tree: Tree) -> tuple[set[str], set[str]]:
        """The names whose code holds a literal, with all that cannot be loaded without them; and other such values."""
        code: set[str] = set()
        values: set[str] = set()
        needs: dict[str, tuple[str, ...]] = {}
        for name, row in tree.rows():
            in_code, in_value, needs[name] = self._tells(row)
            if in_code:
                code.add(name)
            elif in_value and name not in self._names:
                values.add(name)
        while more := {name for name, needed in needs.items() if name not in code and code.intersection(needed)}:
            code |= more
        return code, values - code

    def _tells_of(self, row: bytes) -> tuple[bool, bool, tuple[str, ...]]:
        entry = decode_entry(row)
        manifest = self._manifest(entry)
        if manifest is None:
            return False, self._in_preview(entry), ()
        in_code = any(self.is_telling(Kind.DEFINITION + id) for id in manifest.definitions)
        in_value = self._in_preview(entry) or any(self._in_blob(blob) for blob in manifest.blobs)
        return in_code, in_value, manifest.classes

    def _manifest(self, entry: Entry) -> Manifest | None:
        if entry.value:
            return decode_manifest(entry.value)
        return self._repo.read_manifest(entry) if entry.manifest is not None else None

    def _in_outputs(self, id: ObjectId | None) -> bool:
        if id is None:
            return False
        outputs = read_outputs(self._repo.objects, id)
        return self.is_telling(Kind.OUTPUTS + id) or any(map(self._in_blob, blobs_of(outputs)))

    def _on_page(self, id: ObjectId) -> bool:
        """Whether a notebook's cells as they were saved speak of the variable, or hold a literal."""
        return self._gives_away(self._repo.objects.get(Kind.SMALL, id))

    def _document(self, document: Document) -> Document | None:
        """The page without what its cells give away; None where its name does."""
        if self._gives_away(document.name.encode()):
            return None
        before = [] if document.cells is None else load_list(self._repo.objects, document.cells)
        after = [self._document_cell(id, length) for id, length in before]
        if after == before:
            return document
        writer = self._repo.writer()
        root = store_list(writer, after)
        writer.flush()
        return Document(document.name, document.saved_ns, document.language, root)

    def _document_cell_of(self, id: ObjectId, length: int) -> tuple[ObjectId, int]:
        payload = self._repo.objects.get(Kind.CHUNK, id)
        if not self._gives_away(payload):
            return id, length
        parts = msgspec.msgpack.decode(payload, type=list[str])  # see `session.provenance.NotebookCell`
        is_code = parts[1:2] == ["code"]
        masked = ENCODER.encode([*map(self.text, parts[:-1]), (self.code if is_code else self.text)(parts[-1])])
        if self._holds(masked):  # in another way than code says it
            masked = ENCODER.encode([*parts[:-1], MASK])
        writer = self._repo.writer()
        new = writer.add(Kind.CHUNK, masked)
        writer.flush()
        return new, len(masked)

    def _gives_away(self, text: bytes) -> bool:
        return self._holds(text) or self.speaks(text.decode("utf-8", "replace"))

    def _in_preview(self, entry: Entry) -> bool:
        id = preview_id(entry)
        return self.is_telling(Kind.SMALL + id) if id is not None else self._holds(entry.preview)

    def _in_blob(self, blob: Blob) -> bool:
        if blob.inline is not None:
            return self._holds(blob.inline)
        keep = max(map(len, self._needles), default=1) - 1
        tail = b""
        for id, _ in chunks_of(self._repo.objects, blob):
            payload = self._repo.objects.get(Kind.CHUNK, id)
            if self._holds(tail + payload[: keep or 1]) or self._holds(payload):
                return True
            tail = payload[-keep:] if keep else b""
        return False

    def _is_telling(self, key: bytes) -> bool:
        found = self._repo.objects.fetch([key])
        return key in found and self._holds(found[key].payload)

    def _holds(self, payload: bytes) -> bool:
        return any(needle in payload for needle in self._needles)


# -- keep fewer commits, by a policy that says which matter

REASONS: Final = ("newest", "HEAD", "tagged", "young", "named")
_SPEAKING: Final = frozenset({"undo", "redo", "rollback", "records"})
_BY_ITSELF: Final = (
    "changes that no cell had committed yet",
    "changes that were not committed yet",
    "forget ",
    "merge ",
)


@dataclass(frozen=True)
class Retention:
    """Which commits to keep. The last commit of every branch stays in any case."""

    keep_last: int | None = None  # of every branch
    keep_days: float | None = None  # the younger ones
    keep_tagged: bool = True  # if not, tags whose commits go are deleted
    keep_named: bool = True  # those that somebody gave a message


@dataclass(frozen=True)
class PruneReport:
    """What was pruned, or would have been.

    Attributes:
        reasons: how many commits are kept for which reason; each counts once, for the first that fits.
    """

    kept: int
    dropped: int
    reasons: dict[str, int] = field(default_factory=dict[str, int])
    moved: dict[ObjectId, ObjectId] = field(default_factory=dict[ObjectId, ObjectId])  # new ids by old ones
    objects_deleted: int = 0
    bytes_freed: int = 0
    is_collected: bool = True  # if not, the disk was too full to delete what was dropped, and a collection has to


def prune(repo: Repository, policy: Retention, dry_run: bool = False) -> PruneReport:
    """See `Repository.prune`."""
    reasons = _reasons(repo, policy)
    counts = Counter(reasons.values())
    reason_counts = {reason: counts[reason] for reason in REASONS if counts[reason]}
    if dry_run:
        total = sum(1 for _ in repo.history.walk(tips(repo)))
        return PruneReport(len(reasons), total - len(reasons), reason_counts)
    # What is committed while this goes on is new, and stays.
    known = {id for id, _ in repo.history.walk(tips(repo))}
    result = rewrite(repo, Plan(keeps=lambda id, commit: id in reasons or id not in known, renews=True))
    kept_count = len(result.places) - len(result.dropped)
    return PruneReport(
        kept_count,
        len(result.dropped),
        reason_counts,
        result.moved,
        result.objects_deleted,
        result.bytes_freed,
        result.is_collected,
    )


def _reasons(repo: Repository, policy: Retention) -> dict[ObjectId, str]:
    """The commits to keep, each with the first reason for it."""
    found: dict[ObjectId, str] = {}
    for tip in repo.branches().values():
        last = repo.history.walk([tip], first_parent=True)
        for id, _ in islice(last, max(policy.keep_last or 1, 1)):
            found.setdefault(id, "newest")
    for head in repo.heads().values():
        if head.commit is not None:
            found.setdefault(head.commit, "HEAD")
    if policy.keep_tagged:
        for id in repo.tags().values():
            found.setdefault(id, "tagged")
    for id, commit in repo.history.walk(tips(repo)):
        if policy.keep_days is not None and time.time_ns() - commit.time_ns < policy.keep_days * 86_400e9:
            found.setdefault(id, "young")
        elif policy.keep_named and is_named(commit):
            found.setdefault(id, "named")
    return found


def is_named(commit: Commit) -> bool:
    """Whether somebody gave the commit its message: undo, rollback, changes of records and the like write one by themselves."""
    return bool(commit.message) and commit.kind not in _SPEAKING and not commit.message.startswith(_BY_ITSELF)
