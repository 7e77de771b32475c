"""Take a variable, or a commit, out of all history, and its bytes out of the store."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.errors import NameNotFoundError, RefNotFoundError, StoreFullError, StoreUnavailableError
from agent_kernel.repository.commits import Cell, Commit
from agent_kernel.repository.ids import ObjectId, hex_of
from agent_kernel.repository.rewriting import Plan, Rewrite, rewrite, tips

if TYPE_CHECKING:
    from agent_kernel.repository.redacting import Mask, Redaction
    from agent_kernel.repository.repository import Repository
    from agent_kernel.repository.tree import Tree
    from agent_kernel.repository.writer import Writer


@dataclass(frozen=True)
class ForgetReport:
    """What was forgotten, and where more of it may be."""

    moved: dict[ObjectId, ObjectId]  # new ids by old ones
    objects_deleted: int
    bytes_freed: int
    erased: bool  # whether the store's file was rewritten too, so that its free space holds nothing of it
    shared_with: tuple[str, ...] = ()  # names that hold the same value, or did
    mentioned_in: tuple[ObjectId, ...] = ()  # commits, by their new ids, whose code speaks of the name
    outputs_dropped: int = 0  # cells that changed it or spoke of it, and whose outputs went too
    redacted: bool = False  # whether that code was masked
    code_dropped: tuple[str, ...] = ()  # functions and classes that went too, because their code held it
    also_in: tuple[str, ...] = ()  # values that hold what the code gave away, and stay
    in_memory: tuple[str, ...] = ()  # live variables that no commit holds any more as they are; the next one will


@dataclass
class Traces:
    """What a history says of a name, before anything is changed."""

    found: bool = False  # some commit holds it, or says that it could not be saved
    shared: set[str] = field(default_factory=set[str])
    mentioned: set[ObjectId] = field(default_factory=set[ObjectId])
    shown: set[ObjectId] = field(default_factory=set[ObjectId])  # outputs that may show it
    code: set[str] = field(default_factory=set[str])
    values: set[str] = field(default_factory=set[str])


def traces_of(repo: Repository, name: str, redaction: Redaction | None = None) -> Traces:
    """Look through all history for a name, and with a redaction also for what the code gave away."""
    found = Traces()
    word = re.compile(rf"\b{re.escape(name)}\b")
    for id, commit in repo.history.walk(tips(repo)):
        tree = repo.tree(commit.tree)
        mentions = {change.name for change in commit.changed} | {unsaved.name for unsaved in commit.unsaved}
        found.found |= name in tree or name in mentions
        found.shared |= _sharing(tree, name)
        if commit.cell is not None and word.search(commit.cell.source):
            found.mentioned.add(id)
        if commit.cell is not None and commit.cell.outputs is not None and (name in mentions or id in found.mentioned):
            found.shown.add(commit.cell.outputs)
        if redaction is not None:
            code, values = redaction.holders(tree)
            found.code |= code - {name}
            found.values |= values
    return found


def redaction_of(repo: Repository, name: str, mask: Mask) -> Redaction:
    """What taking a name's code out of the sources would take out."""
    from agent_kernel.repository.redacting import Redaction

    return Redaction(repo, name, (commit for _, commit in repo.history.walk(tips(repo))), mask)


def forget_name(repo: Repository, name: str, mask: Mask | None = None) -> ForgetReport:
    """See `Repository.forget_name`."""
    redaction = None if mask is None else redaction_of(repo, name, mask)
    traces = traces_of(repo, name, redaction)
    if not traces.found and not (redaction is not None and traces.mentioned):
        many = len(traces.mentioned)
        spoken = f", only in the code of {'one cell' if many == 1 else f'{many:,} cells'}, which --sources masks"
        raise NameNotFoundError(name, f"any commit{spoken if traces.mentioned else ''}")

    def edit(writer: Writer, tree: Tree) -> Tree:
        code = redaction.holders(tree)[0] if redaction is not None else ()
        return tree.edit_rows(writer, dict.fromkeys([name, *code]))

    def says(commit: Commit) -> dict[str, object]:
        fields = {} if redaction is None else redaction.fields(commit)
        cell = fields.get("cell", commit.cell)
        # A cell that made the variable, or looked at it, may have shown what it held.
        if isinstance(cell, Cell) and cell.outputs in traces.shown:
            fields["cell"] = msgspec.structs.replace(cell, outputs=None)
        return fields

    logs = str if redaction is None else redaction.text
    result = rewrite(repo, Plan(edit=edit, drops=frozenset([name]), says=says, logs=logs))
    return ForgetReport(
        result.moved,
        result.objects_deleted,
        result.bytes_freed,
        _erase(repo),
        shared_with=tuple(sorted(traces.shared)),
        mentioned_in=tuple(sorted(result.moved.get(id, id) for id in traces.mentioned)),
        outputs_dropped=len(traces.shown),
        redacted=redaction is not None,
        code_dropped=_names(traces.code),
        also_in=_names(traces.values),
    )


def forget_commit(repo: Repository, id: ObjectId) -> ForgetReport:
    """See `Repository.forget_commit`."""
    if id not in {found for found, _ in repo.history.walk(tips(repo))}:
        raise RefNotFoundError(hex_of(id), repo.refs.known())
    result: Rewrite = rewrite(repo, Plan(keeps=lambda found, commit: found != id, renews=True))
    return ForgetReport(result.moved, result.objects_deleted, result.bytes_freed, _erase(repo))


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
