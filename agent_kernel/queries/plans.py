"""`plan`: what a checkout, a rollback, a merge or a cherry-pick would do, from what is stored. Nothing is changed and nothing is loaded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from agent_kernel.commands.show import details_of
from agent_kernel.errors import (
    DamagedObjectError,
    MergeCommitError,
    NewerFormatError,
    StoreError,
    UnrelatedHistoriesError,
)
from agent_kernel.queries.changes import summary_of
from agent_kernel.queries.listing import QueryContext, side_of
from agent_kernel.queries.reader import Planned
from agent_kernel.queries.wording import Side, shorten_line
from agent_kernel.repository import Change, Entry, Manifest, ObjectId, Tree, short
from agent_kernel.session import trust
from agent_kernel.session.history import changes_between, rank_of
from agent_kernel.session.merge import describe_conflict, start
from agent_kernel.session.tracking import commits_of_cells, describe_failures, is_of_session, remedy_for
from agent_kernel.values import previews
from agent_kernel.values.groups import decode_layout, failures_of

if TYPE_CHECKING:
    from agent_kernel.repository import Conflict as Clash
    from agent_kernel.session import Repository
    from agent_kernel.values.aliases import SaveFailure

_MOST = 1_000  # names of a kind
_FEW = 3  # differences of one value
_SIGNED = ("+ ", "− ", "~ ")
_LENGTHS = ("rows ", "length ", "shape ")  # that of the columns stands in theirs


class Cannot(msgspec.Struct, frozen=True):
    """A variable that does not come back. `stays`: what is there of it now stays as it is."""

    name: str
    type: str
    reason: str
    remedy: str
    stays: bool


class Conflict(msgspec.Struct, frozen=True):
    """A variable that both sides changed. `together`: the others that a choice for it is for too.

    `ours_changed`, `theirs_changed`: what either side did to it since both were the same, where that says more.
    """

    name: str
    ours: str
    theirs: str
    together: tuple[str, ...] = ()
    ours_changed: str = ""
    theirs_changed: str = ""


class Plan(msgspec.Struct, frozen=True):
    """What would happen to which variable."""

    op: str
    to: Side
    changes: tuple[str, ...]
    adds: tuple[str, ...]
    removes: tuple[str, ...]
    cannot: tuple[Cannot, ...]
    loads: int
    notes: tuple[str, ...]
    conflicts: tuple[Conflict, ...]


def plan(context: QueryContext, args: Planned) -> Plan:
    """What the action would do.

    Raises:
        UnrelatedHistoriesError: there is nothing to merge from. MergeCommitError: a merge cannot be picked.
    """
    id, commit = context.resolve(args.to)
    repo, head = context.repo, context.history_now().view.head.commit
    before, target = repo.tree_at(head), repo.tree(commit.tree)
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[str, ...]
    joins = args.op in ("merge", "cherry_pick")
    if joins:
        pick = args.op == "cherry_pick"
        taken, conflicts, notes = (
            _plan_cherry_pick(context, head, id) if pick else _plan_merge(context, args.to, head, id)
        )
        changes = [change for change in _changes(before, taken) if not change.name.startswith("\0")]
        entries = {name: entry for name, entry in taken.items() if entry is not None}
    else:
        changes = list(changes_between(repo, before, target))
        entries = _entries(target, changes)
        notes = _checkout_notes(context, args.to) if args.op == "checkout" else _rollback_notes(context)
    if not trust.is_trusted(repo):
        notes = (*notes, "The store was made by someone else: run %agent trust before you load from it.")
    return Plan(
        op=args.op,
        to=side_of(context, id, commit),
        changes=_names(changes, "~"),
        adds=_names(changes, "+"),
        removes=_names(changes, "-"),
        cannot=tuple(_cannot(context, before, entries if joins else dict(target.items())))[:_MOST],
        loads=_bytes_of(repo, entries),
        notes=notes,
        conflicts=conflicts,
    )


def change_fields(repo: Repository, target: Tree, changes: Collection[Change]) -> dict[str, object]:
    """The fields of a plan that are about what changes, for whoever knows better than the store what is there now."""
    return {
        "changes": [*_names(changes, "~")],
        "adds": [*_names(changes, "+")],
        "removes": [*_names(changes, "-")],
        "loads": _bytes_of(repo, _entries(target, changes)),
    }


def _entries(target: Tree, changes: Iterable[Change]) -> dict[str, Entry]:
    names = {change.name for change in changes if change.how != "-"}
    return {name: entry for name, entry in target.items() if name in names}


def _names(changes: Iterable[Change], how: str) -> tuple[str, ...]:
    return tuple(shorten_line(change.name) for change in changes if change.how == how)[:_MOST]


def _changes(before: Tree, taken: Mapping[str, Entry | None]) -> Iterator[Change]:
    for name, entry in sorted(taken.items()):
        if entry is None:
            yield Change(name, "-")
        else:
            yield Change(name, "~" if name in before else "+")


_Taken: TypeAlias = "tuple[Mapping[str, Entry | None], tuple[Conflict, ...], tuple[str, ...]]"


def _plan_merge(context: QueryContext, rev: str, head: ObjectId | None, other: ObjectId) -> _Taken:
    """Return the entries that a merge takes, what both sides changed, and what else there is to say."""
    repo, called = context.repo, shorten_line(rev, 200)
    if head is None:
        return dict(repo.tree_at(other).items()), (), ()
    begin = start(repo, head, other)
    if begin.base is None:
        raise UnrelatedHistoriesError("HEAD", called)
    if begin.up_to_date:
        return {}, (), (f"Already up to date with {called}.",)
    taken, conflicts, notes = _merge_trees(repo, begin.base, head, other)
    conflicts = (*conflicts, *_record_conflicts(repo, begin.base, head, other))[:_MOST]
    if begin.fast_forward:
        notes = (*notes, f"All your commits are in {called} already: the branch moves forward, without a new commit.")
    return taken, conflicts, notes


def _record_conflicts(
    repo: Repository, base: ObjectId | None, head: ObjectId | None, other: ObjectId
) -> Iterator[Conflict]:
    """One for each record that both sides changed differently, with the fields that differ."""
    if repo.commit_at(other).records in (None, None if base is None else repo.commit_at(base).records):
        return
    from agent_kernel.records.merge import merge_records

    for name, rows in sorted(merge_records(repo, repo.writer(), base, head, other).conflicts.items()):
        fields = [row.removeprefix(name) for row, _, _ in rows]
        ours, theirs = (
            ", ".join(f"{field} {row[at]}".lstrip() for field, row in zip(fields, rows, strict=True)) for at in (1, 2)
        )
        yield Conflict(shorten_line(name), shorten_line(ours), shorten_line(theirs))


def _plan_cherry_pick(context: QueryContext, head: ObjectId | None, picked: ObjectId) -> _Taken:
    """Return the same of a cherry-pick."""
    parents = context.repo.commit_at(picked).parents
    if len(parents) > 1:
        raise MergeCommitError(short(picked), len(parents))
    base = parents[0] if parents else None
    taken, conflicts, notes = _merge_trees(context.repo, base, head, picked)
    return taken, (*conflicts, *_record_conflicts(context.repo, base, head, picked))[:_MOST], notes


def _merge_trees(repo: Repository, base: ObjectId | None, head: ObjectId | None, other: ObjectId) -> _Taken:
    merged = repo.merge_trees(repo.tree_at(base), repo.tree_at(head), repo.tree_at(other))
    rank = {name: rank_of(repo, one.theirs or one.ours) for name, one in merged.conflicts.items()}
    rows = sorted(merged.conflicts.items(), key=lambda row: (rank[row[0]], row[0]))[:_MOST]
    conflicts = tuple(_conflict(repo, name, one) for name, one in rows)
    alone = [(name, one) for name, one in rows if not one.partners]
    dicts = [name for name, one in alone if _is_dict(repo, one.ours) and _is_dict(repo, one.theirs)]
    notes = [
        f"{shorten_line(name)} merges key by key: you decide only about keys that both sides changed."
        for name in dicts[:3]
    ]
    return merged.changes, conflicts, tuple(notes)


def _conflict(repo: Repository, name: str, conflict: Clash) -> Conflict:
    name, ours, theirs = map(shorten_line, describe_conflict(repo, name, conflict))
    since = (_since(repo, conflict.base, side) for side in (conflict.ours, conflict.theirs))
    return Conflict(name, ours, theirs, tuple(map(shorten_line, conflict.partners)), *since)


def _since(repo: Repository, base: Entry | None, side: Entry | None) -> str:
    """What one side did to a value: `rows 1,384 → 1,106 (−278), + c int64`; of much the first lines."""
    try:
        found = [line for line in details_of(repo, base, side) if not line.startswith("size ")]
    except StoreError:
        return ""
    # Where rows are gone, that the others stand elsewhere says nothing.
    lines = [line for line in found if line.startswith((*_SIGNED, *_LENGTHS))] or found
    return shorten_line(", ".join(lines[:_FEW]) + (f" and {len(lines) - _FEW} more" if len(lines) > _FEW else ""), 160)


def _is_dict(repo: Repository, entry: Entry | None) -> bool:
    summary = summary_of(repo, entry)
    return summary is not None and summary.kind == "mapping"


def _checkout_notes(context: QueryContext, rev: str) -> tuple[str, ...]:
    view = context.history_now().view
    branch = view.head.branch
    stays = (
        f"What you have now stays on {shorten_line(branch, 200)}."
        if branch
        else "What you have now stays in the history."
    )
    if rev in view.branches:
        return () if rev == branch else (f"{stays} You go to branch {shorten_line(rev, 200)}.",)
    return (f"{stays} The next change starts a new branch.",)


def _rollback_notes(context: QueryContext) -> tuple[str, ...]:
    branch = context.history_now().view.head.branch
    where = f" on {shorten_line(branch, 200)}" if branch else ""
    return (f"A new commit{where} equals it; what you have now stays in the history.",)


def _bytes_of(repo: Repository, entries: Mapping[str, Entry]) -> int:
    """Bytes of the values to be loaded. Names that share a value count once."""
    values = {(entry.alias_group or name, entry.manifest, entry.value): entry for name, entry in entries.items()}
    return sum(manifest.size for entry in values.values() if (manifest := _manifest(repo, entry)) is not None)


def _manifest(repo: Repository, entry: Entry) -> Manifest | None:
    if not entry.value and entry.manifest is None:
        return None
    try:
        return repo.read_manifest(entry)
    except (DamagedObjectError, NewerFormatError):
        return None


def _cannot(context: QueryContext, current: Tree, target: Mapping[str, Entry]) -> Iterator[Cannot]:
    repo, session = context.repo, _session_id(context)
    for name, entry in target.items():
        if name.startswith("\0"):
            continue
        try:
            manifest = repo.read_manifest(entry)
        except (DamagedObjectError, NewerFormatError) as error:
            yield Cannot(
                shorten_line(name), "", shorten_line(str(error), 300), "run verify to see what is affected", False
            )
            continue
        if not manifest.unsaved:
            continue
        now = current.get(name)
        both = _tokens(repo, entry) & _tokens(repo, now) if now is not None else ()
        stays = bool(session) and any(is_of_session(token, session) for token in both)
        # Of several losses inside one value the first says what kind of thing is missing.
        unsaved = manifest.unsaved[0]
        reason = previews.mask_text(unsaved.reason)
        losses = failures_of(decode_layout(manifest.layout))
        unsaved = msgspec.structs.replace(
            unsaved, name=name
        )  # the value may have other names, which are told by themselves
        (unsaved,) = describe_failures([unsaved], losses, partial(_remedy, repo, session))
        yield Cannot(
            shorten_line(name),
            shorten_line(unsaved.type),
            shorten_line(reason, 300),
            shorten_line(unsaved.remedy, 300),
            stays,
        )


def _remedy(repo: Repository, session: str, loss: SaveFailure, names: Collection[str]) -> str:
    return remedy_for(session, loss, partial(commits_of_cells, repo), names)


def _session_id(context: QueryContext) -> str:
    """The session whose variables these are; nothing where none is known to live."""
    branch = context.history_now().view.head.branch
    if context.session_id or branch is None:
        return context.session_id
    holder = context.repo.lease_of(branch)
    return holder.session if holder is not None and holder.is_alive(context.repo.store) else ""


def _tokens(repo: Repository, entry: Entry) -> set[str]:
    """What names the lost objects in a value as long as the session lives that had them."""
    manifest = _manifest(repo, entry)
    return set() if manifest is None else {token for token, *_ in decode_layout(manifest.layout).losses}
