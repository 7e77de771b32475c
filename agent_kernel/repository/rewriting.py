"""Make another history out of this one: the same commits without some of them, or without some of their content.

Commits keep authors, times, messages and whatever else a newer release put into them, and get new ids where anything
before them changed. All refs, HEADs and reflogs move in one swap; then exactly what only the old history reached is
deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from agent_kernel.errors import StoreFullError
from agent_kernel.repository.commits import NO_CHAT, Change, Commit, Unsaved, amended, decode_commit
from agent_kernel.repository.ids import Kind, ObjectId, short
from agent_kernel.repository.marking import Reach, commit_keys
from agent_kernel.repository.naming import set_in
from agent_kernel.repository.pointers import BRANCHES, HEADS, LOGS, TAGS, HeadRecord, LogRecord, Move, Ref
from agent_kernel.repository.runs import change_events
from agent_kernel.repository.sweeping import Sweeper

if TYPE_CHECKING:
    from agent_kernel.repository.repository import Repository
    from agent_kernel.repository.tree import Tree
    from agent_kernel.repository.writer import Writer


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
        settings: what to store in the same swap.
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
    before.extend(commit_keys([*tips(repo), *_logged(repo)]))
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
        elif (place, said := plan.logs(line.message)) != (line.commit, line.message):
            move.set(key, LogRecord(place, said, line.session, line.left))
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
    said = dict(plan.says(commit))
    said["message"] = _message(commit, str(said.get("message", commit.message)), result)
    told = cast("tuple[Unsaved, ...]", said.pop("unsaved", commit.unsaved))
    unsaved = tuple(unsaved for unsaved in told if unsaved.name not in plan.drops)
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
        **said,
    }
    if all(getattr(commit, name) == value for name, value in fields.items()):
        return id
    payload = amended(repo.objects.get(Kind.COMMIT, id), **fields)
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
        # Names that are saved together share the bytes; what each has of them only a summary could say.
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
        move.set(key, HeadRecord(move.stamp, branch, place, head.session))


def _logged(repo: Repository) -> Iterable[ObjectId]:
    return [line.commit for line in repo.pointers.all(LOGS, LogRecord).values()]
