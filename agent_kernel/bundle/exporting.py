"""Write a bundle: choose branches and tags, leave out what is secret, and put all that they reach into one file.

The same state gives the same bytes: objects stand in the order of their keys and are stored in one way, and nothing says when
or where the file was made. Nothing is unpickled.
"""

from __future__ import annotations

import base64
import contextlib
import io
import pickletools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec

from agent_kernel.bundle.members import (
    MOST_PACKED,
    Chosen,
    Contents,
    Plain,
    encode_json,
    environment_of,
    find_needed,
    make_members,
)
from agent_kernel.cells import history_notebook
from agent_kernel.commands.contents import read_stored
from agent_kernel.errors import NameNotFoundError, RefNotFoundError
from agent_kernel.records.trees import decode_row, label_of, name_of, read_entry, unit_of
from agent_kernel.repository import (
    Blob,
    Commit,
    Document,
    Entry,
    Kind,
    Manifest,
    ObjectId,
    hex_of,
    load_list,
    read_blob,
    read_outputs,
    store_outputs,
)
from agent_kernel.repository import Repository as BareRepository
from agent_kernel.repository.commits import Unsaved, id_of, kind_of
from agent_kernel.repository.objects import Objects, base_of, chunks_of, version_of, wrap
from agent_kernel.repository.refs import (
    FORMAT,
    FORMAT_VERSION,
    HEADS,
    HeadRecord,
    Ref,
    Stamp,
    branch_key,
    encode_record,
    tag_key,
)
from agent_kernel.repository.rewrite import Plan, rewrite, tips
from agent_kernel.repository.runs import EVENTS
from agent_kernel.repository.upkeep import Reach, commit_keys
from agent_kernel.session import Repository
from agent_kernel.session.provenance import decode_cell, document_of, store_cell
from agent_kernel.storage.archive import (
    BUNDLE_VERSION,
    INDEX,
    LOCK,
    MANIFEST,
    NOTEBOOK,
    OBJECTS,
    RECORDS,
    ROW,
    SIGNATURE,
    Packer,
)
from agent_kernel.storage.memory import OverlayStore
from agent_kernel.values import CLASS_PREFIX, list_for_person, previews
from agent_kernel.values.groups import Layout, decode_layout
from agent_kernel.values.previews.redaction import is_secret_under, names_a_secret, places, secret_at

if TYPE_CHECKING:
    from agent_kernel.storage import Store
    from agent_kernel.values.previews.redaction import Reach as MaskReach

_BATCH: Final = 32  # objects that are in memory at once: 8 MB of pieces

Progress = Callable[[int, int], None]


def choose(repo: Repository, refs: Collection[str], session: str = "") -> Chosen:
    """The branches and tags of these names; without names the branch of HEAD, and the tags on the way to it.

    Raises:
        RefNotFoundError: there is no such branch or tag, or nothing was committed yet.
    """
    branches, tags = repo.branches(), repo.tags()
    if not refs:
        head = repo.head(session)
        if head.commit is None or head.branch not in branches:
            reason = "HEAD is on no branch: name the branches and tags that go into the bundle" if branches else ""
            raise RefNotFoundError(str(head.branch or "HEAD"), repo.refs.list_refs(), reason)
        return Chosen({head.branch: head.commit}, _on_the_way(repo, tags, head.commit), head.branch)
    chosen: dict[str, ObjectId] = {}
    marked: dict[str, ObjectId] = {}
    for name in refs:
        if name in branches:
            chosen[name] = branches[name]
        elif name in tags:
            marked[name] = tags[name]
        else:
            raise RefNotFoundError(
                name, repo.refs.list_refs(), "a bundle holds branches and tags: give this commit a tag first"
            )
    for tip in chosen.values():
        marked = _on_the_way(repo, tags, tip) | marked
    if not chosen:
        # A bundle has a branch to be on: that of the first tag, under its name.
        first = next(iter(marked))
        chosen = {first: marked[first]}
    current = repo.head(session).branch
    return Chosen(chosen, marked, current if current in chosen else next(iter(chosen)))


def _on_the_way(repo: Repository, tags: Mapping[str, ObjectId], tip: ObjectId) -> dict[str, ObjectId]:
    return {name: at for name, at in tags.items() if at == tip or repo.is_ancestor(at, tip)}


class Omissions(msgspec.Struct, frozen=True):
    """What the bundle that a history came from did not have of it: variables, and outputs and secrets of commits."""

    left_out: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


_ORIGIN: Final = "bundle"  # the setting of a store that was opened from one


def note_origin(repo: BareRepository, manifest: Mapping[str, object]) -> None:
    """Keep what a bundle says that it left out, for whoever exports the history again."""
    with contextlib.suppress(msgspec.ValidationError):
        repo.set_setting(_ORIGIN, msgspec.json.encode(msgspec.convert(manifest, Omissions)))


def _earlier_omissions(source: Repository) -> Omissions:
    manifest, noted = getattr(source.store, "manifest", None), source.setting(_ORIGIN)
    try:
        if manifest is not None:
            return msgspec.convert(manifest, Omissions)
        return Omissions() if noted is None else msgspec.json.decode(noted, type=Omissions)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Omissions()


def gather(
    source: Repository,
    chosen: Chosen,
    *,
    exclude: Collection[str] = (),
    keep: Collection[str] = (),
    keeps_secrets: bool = False,
) -> Contents:
    """Find out what a bundle holds. The store that it is made from stays as it is.

    Args:
        exclude: variables to leave out of the whole history.
        keep: variables and records (`Note:a`) that go along although they look like secrets; `keeps_secrets`: all of these.

    Raises:
        NameNotFoundError: no commit has one of the excluded or kept variables, or one of the kept records.
        RefNotFoundError: a branch or tag has a name that looks like a secret.
    """
    if not keeps_secrets:
        _refuse_secret_names(chosen)
    above = OverlayStore(source.store)
    _narrow(above, chosen)
    repo = Repository(above)
    _require_names(repo, chosen.tips, keep)
    found, texts = (dict[str, Secret](), frozenset[str]())
    if not keeps_secrets:
        found, texts = find_secrets(repo, chosen.tips, keep)
    included = set(keep) & found.keys()
    included |= _classes_of(repo, chosen.tips, included) & found.keys()
    secret = found.keys() - included
    hidden = sorted({*secret, *exclude, *_only_needed_by(repo, chosen.tips, {*exclude})})
    showing = _showing(repo)
    before = _earlier_omissions(source)
    known = {hex_of(id): id for id, _ in repo.history.walk(chosen.tips)} if before.masked or before.silent else {}
    rewritten: list[Mapping[ObjectId, ObjectId]] = []
    suspects = {name: one.why for name, one in found.items() if name in keep}
    suspects |= _that_hold(repo, chosen.tips, {*exclude} - secret, hidden)
    if hidden:
        # Of what somebody wants left out, all is masked that code says of it.
        mask = previews.CodeMask({name: found[name].reach for name in secret - {*exclude}})
        rewritten.append(repo.forget(hidden, mask=mask).moved)
    masked: tuple[ObjectId, ...] = ()
    records = set[str]()
    if not keeps_secrets:
        masked, records, moved = _mask_code(repo, texts, keep)
        rewritten.append(moved)
    now = Chosen(repo.branches(), repo.tags(), chosen.head)
    reach = Reach(repo.objects)
    reach.extend([Kind.TREE + repo.tree(None).id, *commit_keys(now.tips)])
    keys = sorted(reach.seen)
    return Contents(
        repo,
        now,
        keys,
        _size_of(above, keys),
        sum(kind_of(key) == Kind.COMMIT for key in keys),
        _sizes_of_variables(repo, now),
        {_masked_name(name): "it was left out before" for name in before.left_out}
        | {_masked_name(name): found[name].why if name in secret else "you left it out" for name in hidden}
        | {_masked_name(name): "a record that holds what looks like a secret" for name in records},
        tuple(sorted({*masked, *_current_ids((known[one] for one in before.masked if one in known), rewritten)})),
        tuple(
            sorted(
                (_current_ids(showing, rewritten) - _showing(repo))
                | _current_ids((known[one] for one in before.silent if one in known), rewritten)
            )
        ),
        suspects,
    )


def _that_hold(
    repo: Repository, tips: Iterable[ObjectId], excluded: Collection[str], hidden: Collection[str]
) -> dict[str, str]:
    """Variables that go along and share objects with those that somebody wants left out, or hold their text, and why."""
    if not excluded:
        return {}
    found = dict.fromkeys(repo.traces_of(excluded).shared - {*hidden}, "it shares an object with what you left out")
    entries = {
        (name, entry.value, entry.manifest): entry
        for _, commit in repo.history.walk(tips)
        for name, entry in repo.tree(commit.tree).items()
        if not name.startswith("\0")
    }
    texts = {
        text.encode("utf-8", "replace"): name
        for (name, *_), entry in entries.items()
        if name in excluded and (text := _text_of(repo, entry))
    }
    for (name, *_), entry in entries.items() if texts else ():
        if name not in found and name not in hidden:
            of = holds_any(repo.objects, repo.read_manifest(entry), repo.read_preview(entry), texts)
            found |= {name: f"it holds the text of {of}, which you left out"} if of else {}
    return found


def _refuse_secret_names(chosen: Chosen) -> None:
    for kind, names in (("tag", chosen.tags), ("branch", chosen.branches)):
        for name in names:
            if (masked := _masked_name(name)) != name:
                message = (
                    f"the name of a {kind} looks like a secret ({masked}): give it another name, or add --keep-secrets"
                )
                raise RefNotFoundError(masked, said=message)


def _narrow(above: OverlayStore, chosen: Chosen) -> None:
    """Let the chosen branches and tags be all that there is: no other branch, no session, no reflog, no lease."""
    doomed = [key for prefix in (b"r/", b"h/", b"g/", b"k/", b"a/", b"w", b"x/") for key in all_keys(above, prefix)]
    above.delete_many(doomed)
    stamped = {branch_key(name): Ref(0, at) for name, at in chosen.branches.items()}
    stamped |= {tag_key(name): Ref(0, at) for name, at in chosen.tags.items()}
    records: dict[bytes, bytes | None] = {key: encode_record(ref) for key, ref in stamped.items()}
    records[HEADS] = encode_record(HeadRecord(0, chosen.head, chosen.branches[chosen.head]))
    records[FORMAT] = encode_record(Stamp(0, FORMAT_VERSION))
    above.swap({}, records)


def all_keys(store: Store, prefix: bytes) -> Iterator[bytes]:
    """All keys that begin so, page by page."""
    after = b""
    while page := store.keys(prefix, after):
        yield from page
        after = page[-1]


def _showing(repo: Repository) -> set[ObjectId]:
    """The commits whose cells showed something."""
    walked = repo.history.walk(tips(repo))
    return {id for id, commit in walked if commit.cell is not None and commit.cell.outputs is not None}


def _current_ids(ids: Iterable[ObjectId], rewritten: Iterable[Mapping[ObjectId, ObjectId]]) -> set[ObjectId]:
    """Which commits these are, after the history was rewritten."""
    found = set(ids)
    for moved in rewritten:
        found = {moved.get(id, id) for id in found}
    return found


class Secret(NamedTuple):
    """Why a name is left out, and what of the code that speaks of it is masked, see `CodeMask`."""

    why: str
    reach: MaskReach = "here"


_LEAST_COPIED: Final = 6  # characters of a secret that is looked for in other variables


def find_secrets(
    repo: Repository, tips: Iterable[ObjectId], keep: Collection[str] = ()
) -> tuple[dict[str, Secret], frozenset[str]]:
    """What of a history looks like a secret, by its name or by what it held once, and why: variables, and classes.

    Classes go by the names of their entries. With a class goes what needs it: itself, those derived from it, and instances.
    What holds a copy of a secret's text is one too.

    Returns:
        The names with the reasons, and the texts of the secrets, those of the names in `keep` left out.
    """
    found: dict[str, Secret] = {}
    needs: dict[str, set[str]] = {}
    texts: dict[str, str] = {}
    entries: dict[tuple[str, bytes, ObjectId | None], Entry] = {}
    tips = list(tips)
    seen: set[tuple[str, bytes, ObjectId | None]] = set()
    for _, commit in repo.history.walk(tips):
        tree = repo.tree(commit.tree)
        changed = [(one.name, tree.get(one.name)) for one in commit.changed if one.how != "-"]
        for name, entry in [*changed, *tree.items(CLASS_PREFIX)]:
            if entry is not None and (name, entry.value, entry.manifest) in seen:
                continue
            if entry is not None:
                seen.add((name, entry.value, entry.manifest))
                entries[name, entry.value, entry.manifest] = entry
                needs.setdefault(name, set()).update(repo.read_manifest(entry).classes)
                if previews.names_a_secret(name) and (text := _text_of(repo, entry)):
                    texts[text] = name
            if name not in found and (one := _why_secret(repo, name, entry)):
                found[name] = one
    texts |= dict.fromkeys(_secrets_in_code(repo, tips) - texts.keys(), "the code")
    secret = {text: name for text, name in texts.items() if name not in keep}
    needles = {text.encode("utf-8", "replace"): name for text, name in secret.items()}
    for (name, *_), entry in entries.items() if needles else ():
        if name not in found and (
            of := holds_any(repo.objects, repo.read_manifest(entry), repo.read_preview(entry), needles)
        ):
            found[name] = Secret(f"it holds the secret of {of}", "secrets")
    while more := [name for name, classes in needs.items() if name not in found and classes & found.keys()]:
        found |= dict.fromkeys(more, Secret("its class holds what looks like a secret"))
    return found, frozenset(secret)


def _text_of(repo: Repository, entry: Entry) -> str:
    """The text that a variable is, if it is one and could be no other word."""
    stored = read_stored(repo, entry)
    value = None if stored is None else stored.value
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return text if isinstance(text, str) and len(text) >= _LEAST_COPIED and previews.is_telling(text) else ""


def _secrets_in_code(repo: Repository, tips: Iterable[ObjectId]) -> set[str]:
    """What code says of secrets."""
    sources = {commit.cell.source for _, commit in repo.history.walk(tips) if commit.cell is not None}
    secrets = (previews.mask_code(source)[1] for source in sources)
    found = {text for texts in secrets for text in texts if len(text) >= _LEAST_COPIED and text != previews.MASK}
    return set(filter(previews.is_telling, found))


def _why_secret(repo: Repository, name: str, entry: Entry | None) -> Secret | None:
    is_text = entry is not None and _text_of(repo, entry) != ""
    if looks_secret(name.encode("utf-8", "replace")):
        return Secret("its name looks like a secret", "all")
    if not name.startswith(CLASS_PREFIX) and previews.names_a_secret(name):
        return Secret("its name is that of a secret", "all" if is_text or entry is None else "secrets")
    if entry is None:
        return None
    found = _holds_a_secret(repo, entry)
    return found if found is None or not is_text else Secret(found.why, "all")


def _classes_of(repo: Repository, tips: Iterable[ObjectId], names: Collection[str]) -> set[str]:
    """The classes that these variables ever needed, and those that these need."""
    needed: set[str] = set()
    for _, commit in repo.history.walk(tips) if names else ():
        tree = repo.tree(commit.tree)
        waiting = list(names)
        while waiting:
            entry = tree.get(waiting.pop())
            more = set[str]() if entry is None else {*repo.read_manifest(entry).classes} - needed
            needed |= more
            waiting += more
    return needed


def _only_needed_by(repo: Repository, tips: list[ObjectId], names: Collection[str]) -> set[str]:
    """The classes of these variables that no other variable ever needed."""
    if not names:
        return set()
    trees = [repo.tree(commit.tree) for _, commit in repo.history.walk(tips)]
    others = {name for tree in trees for name in tree.names() if not name.startswith("\0")} - {*names}
    return _classes_of(repo, tips, names) - _classes_of(repo, tips, others)


def _masked_name(name: str) -> str:
    """The name of what was left out: that of a class as people know it, and none that is a secret itself."""
    if name.startswith(CLASS_PREFIX):
        name = list_for_person([name])
    return previews.MASK if looks_secret(name.encode("utf-8", "replace")) else name


def _require_names(repo: Repository, tips: Iterable[ObjectId], names: Collection[str]) -> None:
    """Raise NameNotFoundError for a name that no variable and no record of the history has."""
    unknown = {*names}
    for _, commit in repo.history.walk(tips) if unknown else ():
        unknown -= {one.name for one in commit.changed} | {name_of(unit_of(key)) for key, _ in commit.recent}
    for root in {commit.records for _, commit in repo.history.walk(tips)} if unknown else ():
        if root is not None:
            unknown -= {name_of(unit_of(key)) for key in repo.tree(root).names()}
    if unknown:
        raise NameNotFoundError(min(unknown), "any commit of the bundle, and no record")


def _holds_a_secret(repo: Repository, entry: Entry) -> Secret | None:
    """Why the value should not travel; None where nothing is seen of a secret."""
    summary, manifest = repo.read_preview(entry), repo.read_manifest(entry)
    codes = (repo.objects.get(Kind.DEFINITION, id) for id in manifest.definitions)
    if any(map(looks_secret, codes)):
        return Secret("its code holds what looks like a secret")
    if looks_secret(summary) or value_looks_secret(repo.objects, manifest):
        return Secret("it held what looks like a secret")
    with contextlib.suppress(msgspec.MsgspecError):
        if previews.decode(summary).masked:
            return Secret("a key, column or attribute in it has the name of a secret", "secrets")
    return None


class _Mask:
    """What a history says without what looks like a secret: in code, errors, messages, outputs, pages and agents' runs."""

    def __init__(self, repo: Repository, texts: frozenset[str], keep: Collection[str]) -> None:
        self._objects, self._writer = repo.objects, repo.writer()
        self._texts = texts
        self._repo = repo
        self._is_secret_record = cache(self._holds_secret)
        self._records = cache(self._records_of)
        self._doomed = {unit for unit in self._secret_units() if name_of(unit) not in keep}
        self._outputs = cache(self._outputs_of)
        self._masked_cell = cache(self._mask_document_cell)

    def flush(self) -> None:
        self._writer.flush()

    def fields(self, commit: Commit) -> dict[str, object]:
        """The fields of a commit that are to be other ones."""
        found: dict[str, object] = {"document": commit.document and self._document(commit.document)}
        found["records"] = commit.records and self._records(commit.records)
        found["recent"] = tuple((key, None if unit_of(key) in self._doomed else row) for key, row in commit.recent)
        if commit.notebook is not None and looks_secret(self._objects.get(Kind.SMALL, commit.notebook)):
            found["notebook"] = None
        hidden = self._texts
        if commit.cell is not None:
            source, more = previews.mask_code(commit.cell.source)
            source = previews.mask_literals(source, self._texts)
            hidden |= more
            error = previews.mask_text(commit.cell.error, hidden)
            outputs = commit.cell.outputs and self._outputs(commit.cell.outputs, hidden)
            found["cell"] = msgspec.structs.replace(commit.cell, source=source, error=error, outputs=outputs)
        found["message"] = previews.mask_text(commit.message, hidden)
        found["unsaved"] = tuple(map(_masked_unsaved, commit.unsaved))
        return {name: value for name, value in found.items() if value != getattr(commit, name)}

    def event(self, kind: str, fields: dict[str, Any]) -> None:
        """Mask what an event of a run says."""
        del kind
        for name, value in fields.items():
            fields[name] = _masked(value)

    @property
    def omitted_records(self) -> set[str]:
        """The names of the records that are left out."""
        return set(map(name_of, self._doomed))

    def _secret_units(self) -> set[str]:
        """The records, and lists with all their parts, in which something looks like a secret or a copy of one stands, in any commit."""
        found: set[str] = set()
        roots: set[ObjectId] = set()
        for _, commit in self._repo.history.walk(tips(self._repo)):
            roots |= {commit.records} - {None}  # type: ignore[arg-type]
            found |= {unit_of(key) for key, row in commit.recent if row is not None and self._is_secret(key, row)}
        for root in roots:
            found |= {unit_of(key) for key, row in self._repo.tree(root).rows() if self._is_secret(key, row)}
        return found

    def _is_secret(self, key: str, entry: bytes) -> bool:
        label = label_of(unit_of(key), "value")
        return self._is_secret_record(entry) or (names_a_secret(label) and self._is_secret_value(label, entry))

    def _is_secret_value(self, label: str, entry: bytes) -> bool:
        """Whether a record has a value that the record's own name says is a secret: a state has the key `api_key`."""
        from pydantic_core import from_json  # it reads infinity, which JSON has not

        row = decode_row(read_entry(self._repo, entry))
        document: object = None if row.is_sealed else from_json(row.text())
        value = cast("dict[str, object]", document).get("value") if isinstance(document, dict) else None
        return value not in (None, "") and is_secret_under(label, value)

    def _records_of(self, root: ObjectId) -> ObjectId:
        tree = self._repo.tree(root)
        doomed = [key for key in tree.names() if unit_of(key) in self._doomed] if self._doomed else []
        return tree.edit_rows(self._writer, dict.fromkeys(doomed)).id if doomed else root

    def _holds_secret(self, entry: bytes) -> bool:
        row = decode_row(read_entry(self._repo, entry))
        content = b"" if row.is_sealed else row.text()
        return looks_secret(content) or any(text.encode("utf-8", "replace") in content for text in self._texts)

    def _outputs_of(self, id: ObjectId, hidden: frozenset[str]) -> ObjectId:
        outputs = read_outputs(self._objects, id)
        masked = outputs.with_texts(lambda text: previews.mask_text(text, hidden))
        return id if masked == outputs else store_outputs(self._writer, masked)

    def _document(self, document: Document) -> Document:
        if document.cells is None:
            return document
        before = load_list(self._objects, document.cells)
        after = [self._masked_cell(id, length) for id, length in before]
        return document if after == before else document_of(self._writer, document, after)

    def _mask_document_cell(self, id: ObjectId, length: int) -> tuple[ObjectId, int]:
        cell = decode_cell(self._objects.get(Kind.CHUNK, id))
        if cell.type == "code":
            source = previews.mask_literals(previews.mask_code(cell.source)[0], self._texts)
        else:
            source = previews.mask_text(cell.source, self._texts)
        if source == cell.source:
            return id, length
        return store_cell(self._writer, msgspec.structs.replace(cell, source=source))


def _masked_unsaved(one: Unsaved) -> Unsaved:
    texts = {key: previews.mask_text(getattr(one, key)) for key in ("name", "type", "reason", "remedy")}
    return msgspec.structs.replace(one, **texts)


def _masked(value: Any) -> Any:
    """Plain data without what looks like a secret in its texts."""
    if isinstance(value, str):
        return previews.mask_code(value)[0]
    if isinstance(value, list | tuple):
        return [_masked(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  # of an event: anything
    if isinstance(value, dict):
        return {_masked(key): _masked(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _mask_code(
    repo: Repository, texts: frozenset[str], keep: Collection[str]
) -> tuple[tuple[ObjectId, ...], set[str], Mapping[ObjectId, ObjectId]]:
    """Mask all that looks like a secret in what the history says, and these texts.

    Returns:
        The commits that had some, by their new ids; the names of records that were left out; and the new ids of all commits
        that have one.
    """
    mask = _Mask(repo, texts, keep)
    telling = [found for found, commit in repo.history.walk(tips(repo)) if mask.fields(commit)]
    mask.flush()
    moved = rewrite(repo, Plan(says=mask.fields, event=mask.event)).moved
    return tuple(sorted(moved.get(one, one) for one in telling)), mask.omitted_records, moved


def _size_of(store: Store, keys: list[bytes]) -> int:
    from agent_kernel.repository.upkeep import measure_stored

    return sum(sum(measure_stored(store, part).values()) for part in _batches(keys))


def _sizes_of_variables(repo: Repository, chosen: Chosen) -> dict[str, int]:
    tree = repo.tree_at(chosen.branches[chosen.head])
    manifests = {name: repo.read_manifest(entry) for name, entry in tree.items() if not name.startswith("\0")}
    return {name: manifest.size // max(manifest.slots, 1) for name, manifest in manifests.items()}


def _batches(keys: list[bytes]) -> Iterator[list[bytes]]:
    return (keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH))


class Written(msgspec.Struct, frozen=True):
    """A bundle that was written."""

    path: Path
    size: int
    fingerprint: str
    plain: Plain


def write(
    contents: Contents,
    path: Path,
    progress: Progress | None = None,
    *,
    sign: Callable[[bytes], bytes] | None = None,
    lock: bytes = b"",
) -> Written:
    """Write the bundle. A file that is there is replaced once the new one is whole.

    Args:
        sign: makes the signature of a manifest, as `keys.Signer.sign` does.
        lock: a `pylock.toml`, see `members.make_lock`.

    Raises:
        DamagedObjectError: an object in the store is not what was stored.
        StoreFullError, StoreUnavailableError: the file cannot be written.
    """
    from agent_kernel.errors import StoreFullError, StoreUnavailableError

    try:
        with Packer(path) as packer:
            plain = contents.plain
            tip = contents.chosen.branches[contents.chosen.head]
            extra = plain.members | {NOTEBOOK: history_notebook(contents.repo, tip, keep_failed=True).content}
            extra |= {LOCK: lock} if lock else {}
            extra |= make_members(contents, extra)
            for name in sorted(extra):
                packer.add(name, [[extra[name]]], packed=len(extra[name]) <= MOST_PACKED)
            rows: list[bytes] = []
            packer.add(OBJECTS, _stored(contents, rows, progress))
            packer.add(INDEX, [rows])
            packer.add(RECORDS, [[msgspec.msgpack.encode(sorted(_records(contents).items()))]])
            manifest = encode_json(describe(contents, plain) | {"members": _members(packer)})
            packer.add(MANIFEST, [[manifest]])
            if sign is not None:
                packer.add(SIGNATURE, [[sign(manifest)]])
    except OSError as error:
        import errno

        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFullError(str(path), str(error)) from error
        raise StoreUnavailableError(str(path), error.strerror or str(error)) from error
    import hashlib

    return Written(path, path.stat().st_size, hashlib.sha256(manifest).hexdigest(), plain)


def _members(packer: Packer) -> dict[str, dict[str, object]]:
    return {name: {"sha256": digest, "size": size} for name, (digest, size) in packer.digests.items()}


def _stored(contents: Contents, rows: list[bytes], progress: Progress | None) -> Iterator[list[bytes]]:
    """The objects as they are stored, checked, several at once; `rows` gets where each lies."""
    offset = done = 0
    for part in _batches(contents.keys):
        found = contents.repo.store.get_many(part)
        batch: list[bytes] = []
        for key in part:
            stored = _without_base(contents.repo, key, found.get(key))
            rows.append(ROW.pack(key, offset, len(stored)))
            offset += len(stored)
            batch.append(stored)
        yield batch
        done += len(part)
        if progress is not None:
            progress(done, len(contents.keys))


def _without_base(repo: Repository, key: bytes, stored: bytes | None) -> bytes:
    """What is stored as a difference from another object of its store: here each stands alone."""
    kind = kind_of(key)
    if stored is None or base_of(key, stored) is not None or kind in (Kind.TREE, Kind.COMMIT):
        payload = repo.objects.get(kind, id_of(key))
        return b"".join(wrap(id_of(key), payload, compress=kind == Kind.COMMIT, version=version_of(kind)))
    repo.objects.check(key, stored)
    return stored


def _records(contents: Contents) -> dict[bytes, bytes]:
    """What would change in a store that can be written, in one form: without times."""
    chosen = contents.chosen
    records = {branch_key(name): encode_record(Ref(0, at)) for name, at in chosen.branches.items()}
    records |= {tag_key(name): encode_record(Ref(0, at)) for name, at in chosen.tags.items()}
    records[HEADS] = encode_record(HeadRecord(0, chosen.head, chosen.branches[chosen.head]))
    records[FORMAT] = encode_record(Stamp(0, FORMAT_VERSION))
    store = contents.repo.store
    for run in sorted(_runs(contents)):
        events = list(all_keys(store, EVENTS + run.encode() + b"\0"))
        records |= store.get_many(events)
    return records


def _runs(contents: Contents) -> set[str]:
    return {commit.run for _, commit in contents.repo.history.walk(contents.chosen.tips) if commit.run}


def describe(contents: Contents, plain: Plain) -> dict[str, object]:
    """What a bundle says of itself, for people and programs that read no store."""
    repo, chosen = contents.repo, contents.chosen
    tip = chosen.branches[chosen.head]
    commits = [commit for _, commit in repo.history.walk(chosen.tips)]
    last = repo.commit_at(tip)
    times = [commit.time_ns for commit in commits]
    return {
        "bundle": BUNDLE_VERSION,
        "store_format": FORMAT_VERSION,
        "head": {"branch": chosen.head, "commit": hex_of(tip)},
        "branches": {name: hex_of(at) for name, at in chosen.branches.items()},
        "tags": {name: hex_of(at) for name, at in chosen.tags.items()},
        "commits": len(commits),
        "first_ns": min(times),
        "last_ns": max(times),
        "authors": sorted({commit.author.name for commit in commits}),
        "notebook": last.document.name if last.document is not None else "",
        "environment": environment_of(repo, last) | {"imported": list(find_needed(contents).imported)},
        "left_out": list(contents.left_out),
        "masked": [hex_of(one) for one in contents.masked],
        "silent": [hex_of(one) for one in contents.silent],
        "variables": {
            name: _variable(repo, entry) | _form(name, plain)
            for name, entry in sorted(repo.tree_at(tip).items())
            if not name.startswith("\0")
        },
    }


def _form(name: str, plain: Plain) -> dict[str, object]:
    """Where other programs find the variable, or what has to be trusted before it can be built."""
    if name in plain.names:
        return {"data": plain.names[name]}
    return {"needs_trust": plain.needs_trust[name]} if name in plain.needs_trust else {}


def _variable(repo: Repository, entry: Entry) -> dict[str, object]:
    summary = previews.decode(repo.read_preview(entry))
    manifest = repo.read_manifest(entry)
    return {
        "type": summary.type,
        "line": previews.line(summary),
        "size": manifest.size // max(manifest.slots, 1),
        "classes": sorted(needed.removeprefix(CLASS_PREFIX).partition("#")[0] for needed in manifest.classes),
    }


# -- find keys, tokens, private keys and logins in the bytes of stored values, wherever in them they stand
#
# All of a value is read, piece by piece, and nothing of it is unpickled. A fast expression over bytes finds where one may
# begin; what stands there is then read as text, by the rules that previews use.


_PIECE: Final = 256 << 10
_OVERLAP: Final = 4 << 10  # bytes that two pieces share: what begins in the one ends in the other
_LONGEST: Final = 1 << 10  # bytes that are read as text from where a secret may begin

_BEGINNING: Final = re.compile(
    rb"""
    -----BEGIN[ ]
    | sk-[A-Za-z0-9_-]{12} | [spr]k_(?:live|test)_ | gh[pousr]_[A-Za-z0-9]{16} | github_pat_ | glpat-
    | (?:AKIA|ASIA)[A-Z0-9]{12} | AIza[A-Za-z0-9_-]{24} | ya29\. | xox[abeoprs]- | hf_[A-Za-z0-9]{16}
    | npm_[A-Za-z0-9]{24} | pypi-[A-Za-z0-9_-]{24} | dapi[0-9a-f]{32} | dop_v1_ | :AA[A-Za-z0-9_-]{33}
    | eyJ[A-Za-z0-9_-]{6,}\. | SG\.[A-Za-z0-9_-]{12} | [Bb]earer[ ] | [Bb]asic[ ]
    | hv[sb]\.[A-Za-z0-9_-]{20} | pat[A-Za-z0-9]{14}\. | SK[0-9a-f]{32} | key-[0-9a-f]{32}
    | (?:shp(?:at|ss|ca|pa)_|lin_api_|dckr_pat_|pscale_(?:tkn|pw)_|gsk_|xai-|pplx-|nvapi-|tvly-(?:dev-)?|r8_|ntn_|secret_
      |figd_|sbp_|co_api_|tgp_v1_|lsv2_(?:pt|sk)_|HRKU-|fm[12]_|wandb_v1_|AGE-SECRET-KEY-)[A-Za-z0-9]{20} | SSWS[ ]
    | PuTTY-User-Key-File- | (?i:cookie["']?:) | mysql\w*[ ][^\n]{0,200}?[ ]-p | login\s+\S+\s+password\s | ://[A-Za-z0-9_-]{20,}@
    | ["']key["']\s*: | --?(?i:password|passwd|token|secret|api[_-]key|access[_-]token|auth[_-]token)[ =]
    | (?i:pass(?:word|wort)?(?:["']?\s*[=:]|\s+is\s))
    | [?&](?:sig|key|auth|access_token|X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature)=
    | hooks\.slack\.com/ | discord(?:app)?\.com/ | [?&]sig= | curl[^\n]{0,900}?\s-u
    | ://[^/\s:@]{0,500}:[^@/\s]{1,500}@
    | (?i:passw(?:or)?[dt]|kennwort|passphrase|pwd|secret|token|(?:api|access|account|secret|private|signing)[_-]?key)["']?\s*[=:]
    """,
    re.VERBOSE,
)


def looks_secret(content: bytes, *, goes_on: bool = False) -> bool:
    r"""Whether something in these bytes looks like a secret: text, a pickle stream, MessagePack or the memory of an array.

    Args:
        goes_on: whether it begins with what was searched before, as the end of another piece.

    >>> looks_secret(b"\x80\x05\x8c4sk-" + b"aB3" * 16), looks_secret(b"\x80\x05\x8c\x15risk-averse-investors")
    (True, False)
    """
    starts = range(0, max(len(content) - _OVERLAP, 1), _PIECE - _OVERLAP)
    return any(_is_one_in(content[start : start + _PIECE], goes_on=goes_on or start > 0) for start in starts)


def _is_one_in(content: bytes, *, goes_on: bool) -> bool:
    # What stands before the first characters of a piece that goes on is not known: it may be the beginning of a word.
    first = _LEAST if goes_on else 0
    forms = [content]
    if content.count(b"\0") >= _LEAST:
        forms.append(content.replace(b"\0", b""))  # texts of two or four bytes a character, as numpy's
    words = (found[0] for found in _BASE64.finditer(content))
    # The length of a text, which stands before it, may be one of the letters, too.
    forms += (form for word in words for start in (0, 1) if (form := _decoded(word[start:])))
    return any(
        _is_secret_at(form, at) for form in forms for at in _beginnings(form) if at >= first or form is not content
    )


# Of text, and of JSON in it: what is encoded is rarely shorter than a key.
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{24,}={0,2}|[A-Za-z0-9_-]{24,}={0,2}")


def _decoded(text: bytes) -> bytes:
    """What stands there in base64, if that is text."""
    word = text.rstrip(b"=").translate(_URL_SAFE)
    word = word[:-1] if len(word) % 4 == 1 else word
    try:
        found = base64.b64decode(word + b"=" * (-len(word) % 4))
    except ValueError:
        return b""
    beginning = found[:64].translate(None, b"\n\r\t")
    return found if beginning.isascii() and beginning.decode("latin-1").isprintable() else b""


_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def _beginnings(content: bytes) -> Iterator[int]:
    """Where a secret may begin."""
    # Each byte is a character, so places are the same.
    return (at for at in places(content.decode("latin-1")) if _BEGINNING.match(content, at))


_LEAST: Final = 8  # characters of a secret, with what says that it is one
_DIGITS: Final = 11  # of the number that some tokens begin with, and the character before it
_BEFORE: Final = 6  # characters that set a colour, before a text in a terminal, or say whose token it is
_LEAST_JOINED: Final = 20


def _is_secret_at(content: bytes, at: int) -> bool:
    if content.startswith(b":AA", at):
        text = _as_text(content[max(at - _DIGITS, 0) : at + _LONGEST])
        return any(secret_at(text, shift) for shift in range(_DIGITS))
    text = _as_text(content[at : at + _LONGEST])
    before = content[at - 1 : at]
    if not (before.isalnum() or before == b"_") or _is_length(content, at):
        return bool(secret_at(text))
    prefix = content[max(at - _BEFORE, 0) : at].decode("latin-1")
    if secret_at(prefix + text, len(prefix)):
        return True
    # In the memory of a column of texts one follows the other, with nothing between them.
    found = secret_at(text)
    return len(found) >= _LEAST_JOINED and _looks_random(found)


def _looks_random(found: str) -> bool:
    """Whether it is no word that ends as keys begin: `risk-2024-report`, `task-…`."""
    rest = found[3:]
    is_mixed = any(map(str.isdigit, rest)) and any(map(str.isalpha, rest))
    return is_mixed and (not found.startswith("sk-") or (not rest.isupper() and not rest.islower()))


# Opcodes of pickle and headers of MessagePack with the length of a text behind them, which may look like a letter.
_LENGTHS: Final = {1: b"\x8cC\xd9\xc4", 2: b"\xda\xc5", 4: b"XB\xdb\xc6", 8: b"\x8d\x8e\x96"}


def _is_length(content: bytes, at: int) -> bool:
    return any(at > size and content[at - size - 1] in codes for size, codes in _LENGTHS.items())


# What is no text ends a word, and no secret goes on behind it.
_NO_TEXT: Final = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127, 0xFFFD], ",\n")


def _as_text(content: bytes) -> str:
    return content.decode("utf-8", "replace").translate(_NO_TEXT)


# -- all blobs of a value


def value_looks_secret(objects: Objects, manifest: Manifest) -> bool:
    """Whether anything of a stored value looks like a secret, whatever its size."""
    texts = [manifest.layout, *(name.encode("utf-8", "replace") for name in manifest.packages)]
    if any(map(looks_secret, texts)):
        return True
    layout = decode_layout(manifest.layout)
    numbers = _memory_of_numbers(objects, manifest, layout)
    pickles = len(layout.skeletons) + layout.streams
    return any(
        looks_secret(piece, goes_on=number > 0)
        for position, blob in enumerate(manifest.blobs)
        if position not in numbers
        for number, piece in enumerate(_pieces(objects, blob))
        if position < pickles or _may_be_text(piece)
    )


def holds_any(objects: Objects, manifest: Manifest, summary: bytes, needles: Mapping[bytes, str]) -> str:
    """Whose text of these stands in a stored value or in its summary; "" if none does."""
    codes = (objects.get(Kind.DEFINITION, id) for id in manifest.definitions)
    pieces = (piece for blob in manifest.blobs for piece in _pieces(objects, blob))
    for piece in chain([summary], codes, pieces):
        # Texts of numpy take four bytes a character, and some of other libraries two.
        forms = (piece, piece.replace(b"\0", b"")) if b"\0" in piece else (piece,)
        for needle, of in needles.items():
            if any(needle in form for form in forms):
                return of
    return ""


_PRINTED: Final = bytes(1 if 32 <= byte < 127 or byte in b"\t\n\r" else 0 for byte in range(256))
_RUN: Final = bytes([1]) * 16


def _may_be_text(piece: bytes) -> bool:
    """Whether memory holds a few characters in a row, which that of numbers rarely does."""
    return _RUN in piece.translate(_PRINTED) or (
        piece.count(b"\0\0\0") >= len(_RUN) and _RUN in piece.replace(b"\0\0\0", b"").translate(_PRINTED)
    )


def _pieces(objects: Objects, blob: Blob) -> Iterator[bytes]:
    """The bytes in order. Pieces overlap."""
    if blob.inline is not None:
        yield blob.inline
        return
    waiting = bytearray()
    for id, _ in chunks_of(objects, blob):
        waiting += objects.get(Kind.CHUNK, id)
        if len(waiting) >= _PIECE:
            yield bytes(waiting)
            del waiting[:-_OVERLAP]
    yield bytes(waiting)


_WORTH_IT: Final = 1 << 20  # bytes of buffers: looking through fewer is faster than reading what they are
_MOST_STREAM: Final = 4 << 20
_NUMBERS: Final = re.compile(r"[<>=|]?(?:[fcmM]\d+(?:\[.*\])?|[iu][248]|b1|\?)")
_PASSED: Final = frozenset(["MEMOIZE", "READONLY_BUFFER"])


def _memory_of_numbers(objects: Objects, manifest: Manifest, layout: Layout) -> frozenset[int]:
    """The blobs that are the memory of large arrays of numbers, as the streams say: these hold no text."""
    pickles = len(layout.skeletons) + layout.streams
    if len(layout.buffers) != pickles or sum(blob.size for blob in manifest.blobs[pickles:]) < _WORTH_IT:
        return frozenset()
    found: set[int] = set()
    first = pickles
    for blob, many in zip(manifest.blobs[:pickles], layout.buffers, strict=False):
        if many and blob.size <= _MOST_STREAM:
            found.update(
                first + number for number in _buffers_of_numbers(bytes(read_blob(objects, blob))) if number < many
            )
        first += many
    return frozenset(found)


def _buffers_of_numbers(stream: bytes) -> Iterator[int]:
    """The buffers of a stream that come right before the name of a dtype of numbers, by their position."""
    memo: list[object] = []
    last: object = None
    buffers, is_next = 0, False
    source = io.BytesIO(stream)
    try:
        while source.tell() < len(stream):
            for code, argument, _ in pickletools.genops(source):
                if code.name == "MEMOIZE":
                    memo.append(last)
                if code.name in _PASSED:
                    continue
                key = cast("object", argument)
                last = memo[key] if isinstance(key, int) and code.name in ("BINGET", "LONG_BINGET") else key
                if is_next and isinstance(last, str) and _NUMBERS.fullmatch(last):
                    yield buffers - 1
                is_next = code.name == "NEXT_BUFFER"
                buffers += is_next
    except (ValueError, IndexError, TypeError):
        return  # what it says from here on is not understood
