"""Take variables and commits out of all history, and their bytes out of the store, in one rewriting."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.errors import NameNotFoundError, RefNotFoundError, StoreFullError, StoreUnavailableError
from agent_kernel.repository.commits import Cell, Commit
from agent_kernel.repository.ids import ObjectId, hex_of
from agent_kernel.repository.rewriting import Plan, rewrite, tips
from agent_kernel.repository.runs import Forgetting, code_of_events, steps_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from agent_kernel.repository.redacting import Mask, Redaction
    from agent_kernel.repository.repository import Repository
    from agent_kernel.repository.tree import Tree
    from agent_kernel.repository.writer import Writer


_NO_SETTINGS: Final[Mapping[str, bytes | None]] = {}
_MASKED: Final = "masked"  # the setting that names what is masked in later commits


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
    shown: set[ObjectId] = field(default_factory=set[ObjectId])  # outputs that may show them
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
        told = {change.name for change in commit.changed} | {unsaved.name for unsaved in commit.unsaved}
        found.missing -= {name for name in found.missing if name in tree or name in told}
        found.shared |= {other for name in names for other in _sharing(tree, name)} - set(names)
        if commit.cell is not None:
            said = [name for name, word in words.items() if word.search(commit.cell.source)]
            for name in said:
                found.spoken_of[name].add(id)
            if commit.cell.outputs is not None and (said or not told.isdisjoint(names)):
                found.shown.add(commit.cell.outputs)
        if redaction is not None:
            code, values = redaction.holders(tree)
            found.code |= code - set(names)
            found.values |= values
    found.noted = Forgetting(repo, names, ()).speaks_of()
    return found


def redaction_of(repo: Repository, names: Collection[str], mask: Mask) -> Redaction:
    """What taking the code of some names out of the sources would take out."""
    from agent_kernel.repository.redacting import Redaction

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
            raise RefNotFoundError(hex_of(id), repo.refs.known())
    redaction = redaction_of(repo, names, mask) if mask is not None and names else None
    traces = traces_of(repo, names, redaction) if names else Traces()
    traces.require(masks=redaction is not None)
    repo.leases.refuse_others()
    settings = dict(settings)
    if redaction is not None:
        settings[_MASKED] = _encoded(masked_names(repo) | frozenset(names))
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
        outputs_dropped=len(traces.shown),
        redacted=redaction is not None,
        code_dropped=_names(traces.code),
        also_in=_names(traces.values),
        events_masked=result.events_changed,
    )


def masked_names(repo: Repository) -> frozenset[str]:
    """The variables of which later commits mask what code says, because it was masked in those before."""
    stored = repo.setting(_MASKED)
    return frozenset() if stored is None else frozenset(msgspec.msgpack.decode(stored, type=list[str]))


def set_masked(repo: Repository, names: Collection[str]) -> None:
    """Say anew which variables these are."""
    repo.set_setting(_MASKED, _encoded(names))


def _encoded(names: Collection[str]) -> bytes | None:
    return msgspec.msgpack.encode(sorted(names)) if names else None


def _plan(names: Collection[str], commits: Collection[ObjectId], traces: Traces, redaction: Redaction | None) -> Plan:
    """One rewriting for everything that goes."""

    def edit(writer: Writer, tree: Tree) -> Tree:
        code = redaction.holders(tree)[0] if redaction is not None else ()
        return tree.edit_rows(writer, dict.fromkeys([*names, *code])) if names else tree

    def says(commit: Commit) -> dict[str, object]:
        fields = {} if redaction is None else redaction.fields(commit)
        cell = fields.get("cell", commit.cell)
        # A cell that made the variable, or looked at it, may have shown what it held.
        if isinstance(cell, Cell) and cell.outputs in traces.shown:
            fields["cell"] = msgspec.structs.replace(cell, outputs=None)
        return fields

    return Plan(
        keeps=lambda found, commit: found not in commits,
        edit=edit,
        renews=bool(commits),
        drops=frozenset(names),
        says=says,
        logs=str if redaction is None else redaction.text,
    )


def _names(entries: set[str]) -> tuple[str, ...]:
    """The variables among a tree's names; a class goes by the variables that need it."""
    return tuple(sorted(name for name in entries if not name.startswith("\0")))


def _sharing(tree: Tree, name: str) -> set[str]:
    entry = tree.get(name)
    if entry is None or not entry.leader:
        return set()
    value = (entry.leader, entry.manifest, entry.value)
    return {other for other, it in tree.items() if other != name and (it.leader, it.manifest, it.value) == value}


def _erase(repo: Repository) -> bool:
    compact = getattr(repo.store, "compact", None)
    if compact is None:
        return False
    try:
        compact()
    except (StoreUnavailableError, StoreFullError):
        return False
    return True
