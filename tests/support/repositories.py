"""Make small histories by hand, and compare a repository with a model of it: a dict of dicts.

`RepositoryMachine` is a Hypothesis state machine: inherit it, return a store of your engine from `make_store`, and run
`run_state_machine_as_test` on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent_kernel.errors import DamagedObjectError, RefExistsError
from agent_kernel.repository.commits import Author, Commit, Entry, Kind, Manifest, ObjectId, encode
from agent_kernel.repository.refs import Head
from agent_kernel.repository.repository import Repository
from agent_kernel.storage import MemoryStore, Store

AUTHOR = Author("tester")
_clock = count(1_700_000_000_000_000_000, 1_000_000_000)


def entry_of(value: str, *, classes: Sequence[str] = (), leader: str = "", slot: int = 0) -> Entry:
    """An entry whose value is this text; `value_of` reads it back."""
    manifest = Manifest(layout=value.encode(), size=len(value), classes=tuple(classes))
    return Entry(encode(manifest), slot=slot, alias_group=leader, preview=b"str")


def group_of(value: str, names: Iterable[str]) -> dict[str, Entry]:
    """Entries of names that share one value."""
    ordered = sorted(names)
    return {name: entry_of(value, leader=ordered[0], slot=slot) for slot, name in enumerate(ordered)}


def value_of(repo: Repository, entry: Entry) -> str:
    return repo.read_manifest(entry).layout.decode()


def values_at(repo: Repository, commit: ObjectId | None) -> dict[str, str]:
    """All names and texts of a commit."""
    return {name: value_of(repo, entry) for name, entry in repo.tree_at(commit).items() if not name.startswith("\0")}


def commit_values(
    repo: Repository,
    changes: Mapping[str, str | Entry | None],
    *,
    session: str = "s",
    message: str = "",
    parents: Sequence[ObjectId] | None = None,
    time_ns: int | None = None,
    branch: str | None = None,
    **fields: object,
) -> ObjectId:
    """Commit some names on the session's branch, as a cell would.

    Args:
        changes: texts, or whole entries, by name; None removes a name.
        parents: instead of the session's commit; the first one's tree is changed.
    """
    head = repo.head(session)
    if parents is None:
        parents = () if head.commit is None else (head.commit,)
    writer = repo.writer()
    before = repo.tree_at(parents[0] if parents else None)
    entries = {name: entry_of(value) if isinstance(value, str) else value for name, value in changes.items()}
    tree = before.edit(writer, entries)
    commit = Commit(
        tree=tree.id,
        parents=tuple(parents),
        author=AUTHOR,
        time_ns=next(_clock) if time_ns is None else time_ns,
        message=message,
        session=session,
        **fields,  # type: ignore[arg-type]  # whatever a commit has
    )
    return repo.publish(writer, commit, head=head, session=session, message=message, branch=branch)


def detach(repo: Repository, commit: ObjectId, session: str = "s") -> None:
    repo.move_head(session, Head(None, commit), "checkout: detached")


def switch(repo: Repository, branch: str, session: str = "s") -> None:
    repo.move_head(session, Head(branch, None), f"checkout: {branch}")


def keys_of_kind(repo: Repository, kind: bytes = Kind.COMMIT) -> set[bytes]:
    return set(repo.pointers.keys(kind))


def add_commit(repo: Repository, parents: Sequence[ObjectId], time_ns: int) -> ObjectId:
    """A commit that no ref names, for histories of any shape."""
    writer = repo.writer()
    commit = Commit(tree=repo.tree(None).id, parents=tuple(parents), author=AUTHOR, time_ns=time_ns)
    id = writer.add(Kind.COMMIT, encode(commit))
    writer.flush()
    return id


NAMES: Final = [f"n{number}" for number in range(30)]
BRANCHES: Final = ["main", "a", "b", "c"]
_CHANGES = st.dictionaries(st.sampled_from(NAMES), st.none() | st.sampled_from("xyz"), max_size=12)
_PICK = st.integers(0, 1 << 20)


@dataclass(frozen=True)
class _State:
    values: dict[str, str]
    parents: tuple[ObjectId, ...]


def _has_commits(machine: RuleBasedStateMachine) -> bool:
    return isinstance(machine, RepositoryMachine) and bool(machine.commits)


class RepositoryMachine(RuleBasedStateMachine):
    """A repository and, beside it, what it should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.make_store()
        self.repo = Repository.open(self.store)
        self.commits: dict[ObjectId, _State] = {}
        self.branches: dict[str, ObjectId] = {}
        self.tags: dict[str, ObjectId] = {}
        self.logs: dict[str, list[ObjectId]] = {"HEAD": []}
        self.branch: str | None = "main"
        self.detached: ObjectId | None = None

    def make_store(self) -> Store:
        """A new, empty store."""
        return MemoryStore()

    def reopened(self, store: Store) -> Store:
        """The same store, closed and opened again where that means anything."""
        return store

    def teardown(self) -> None:
        """Close the store."""
        self.repo.close()

    @property
    def head(self) -> ObjectId | None:
        return self.detached if self.branch is None else self.branches.get(self.branch)

    def _values(self, commit: ObjectId | None) -> dict[str, str]:
        return {} if commit is None else self.commits[commit].values

    def _picked(self, pick: int) -> ObjectId:
        return sorted(self.commits)[pick % len(self.commits)]

    def _moved(self, commit: ObjectId) -> None:
        if self.branch is None:
            self.detached = commit
        else:
            self.branches[self.branch] = commit
            self.logs.setdefault(self.branch, []).insert(0, commit)
        self.logs["HEAD"].insert(0, commit)

    @initialize(changes=_CHANGES)
    def start(self, changes: dict[str, str | None]) -> None:
        self.commit(changes)

    @rule(changes=_CHANGES)
    def commit(self, changes: dict[str, str | None]) -> None:
        before = self.head
        values = {name: text for name, text in (self._values(before) | changes).items() if text is not None}
        id = commit_values(self.repo, changes)
        self.commits[id] = _State(values, () if before is None else (before,))
        self._moved(id)

    @precondition(_has_commits)
    @rule(name=st.sampled_from(BRANCHES), pick=_PICK, force=st.booleans())
    def create_branch(self, name: str, pick: int, force: bool) -> None:
        at = self._picked(pick)
        try:
            self.repo.create_branch(name, at, force=force)
        except RefExistsError:
            assert name in self.branches
            assert not force
            return
        assert force or name not in self.branches
        self.branches[name] = at
        self.logs.setdefault(name, []).insert(0, at)

    @precondition(lambda self: bool(self.branches))
    @rule(pick=_PICK)
    def delete_branch(self, pick: int) -> None:
        name = sorted(self.branches)[pick % len(self.branches)]
        self.repo.delete_branch(name, force=True)
        del self.branches[name]
        self.logs.pop(name, None)

    @rule(name=st.sampled_from(BRANCHES))
    def checkout_branch(self, name: str) -> None:
        switch(self.repo, name)
        self.branch, self.detached = name, None
        if name in self.branches:
            self.logs["HEAD"].insert(0, self.branches[name])

    @precondition(_has_commits)
    @rule(pick=_PICK)
    def checkout_commit(self, pick: int) -> None:
        at = self._picked(pick)
        detach(self.repo, at)
        self.branch, self.detached = None, at
        self.logs["HEAD"].insert(0, at)

    @precondition(_has_commits)
    @rule(name=st.sampled_from(["v1", "v2"]), pick=_PICK)
    def tag(self, name: str, pick: int) -> None:
        self.tags[name] = self._picked(pick)
        self.repo.create_tag(name, self.tags[name], force=True)

    @precondition(lambda self: bool(self.tags))
    @rule(pick=_PICK)
    def delete_tag(self, pick: int) -> None:
        name = sorted(self.tags)[pick % len(self.tags)]
        self.repo.delete_tag(name)
        del self.tags[name]

    @precondition(lambda self: self.head is not None)
    @rule(pick=_PICK)
    def merge(self, pick: int) -> None:
        """Merge a commit into HEAD; where both changed a name, theirs is taken."""
        ours, theirs = self.head, self._picked(pick)
        assert ours is not None
        base = self.repo.merge_base(ours, theirs)
        assert (base is None) == (not self._reached([ours]) & self._reached([theirs]))
        trees = [self.repo.tree_at(commit) for commit in (base, ours, theirs)]
        found = self.repo.merge_trees(trees[0], trees[1], trees[2], choose_theirs=NAMES)
        assert not found.conflicts
        id = commit_values(self.repo, dict(found.changes), parents=[ours, theirs])
        old, mine, other = self._values(base), self._values(ours), self._values(theirs)
        merged = {name: other.get(name) if other.get(name) != old.get(name) else mine.get(name) for name in NAMES}
        values = {name: text for name, text in merged.items() if text is not None}
        self.commits[id] = _State(values, (ours, theirs))
        self._moved(id)

    @rule(grace_s=st.sampled_from([0.0, 0.0, 3600.0]))
    def gc(self, grace_s: float) -> None:
        self.repo.gc(grace_s=grace_s)
        if grace_s:
            return
        kept = self._reached(
            [*self.branches.values(), *self.tags.values(), *(id for log in self.logs.values() for id in log)]
            + ([self.detached] if self.detached else [])
        )
        for id in self.commits.keys() - kept:
            try:
                Repository(self.store).commit_at(id)
            except DamagedObjectError:
                del self.commits[id]
            else:
                raise AssertionError("a commit that nothing reaches was kept")

    @rule()
    def drop_reflogs(self) -> None:
        self.store.delete_many(list(self.repo.pointers.keys(b"g/")))
        self.logs = {"HEAD": []}

    @rule()
    def reopen(self) -> None:
        self.store = self.reopened(self.store)
        self.repo = Repository.open(self.store, create=False)

    @rule()
    def verify(self) -> None:
        assert self.repo.verify().is_sound

    @precondition(_has_commits)
    @rule(pick=_PICK, other=_PICK)
    def diff(self, pick: int, other: int) -> None:
        old, new = self._picked(pick), self._picked(other)
        before, after = self._values(old), self._values(new)
        names = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
        assert [found.name for found in self.repo.diff(old, new)] == names

    @precondition(_has_commits)
    @rule(pick=_PICK)
    def log(self, pick: int) -> None:
        start = self._picked(pick)
        shown = [id for id, _ in self.repo.log(start)]
        assert set(shown) == self._reached([start])
        place = {id: number for number, id in enumerate(shown)}
        assert all(place[id] < place[parent] for id in shown for parent in self.commits[id].parents)

    @invariant()
    def refs_and_their_values_are_as_they_should_be(self) -> None:
        assert self.repo.branches() == self.branches
        assert self.repo.tags() == self.tags
        if self.commits:
            assert self.repo.head("s") == Head(self.branch, self.head)
        for commit in {*self.branches.values(), *self.tags.values(), self.head}:
            assert values_at(self.repo, commit) == self._values(commit)
        for name, log in self.logs.items():
            assert [entry.commit for entry in self.repo.reflog("HEAD:s" if name == "HEAD" else name)] == log

    def _reached(self, starts: Iterable[ObjectId]) -> set[ObjectId]:
        found: set[ObjectId] = set()
        waiting = list(starts)
        while waiting:
            id = waiting.pop()
            if id not in found:
                found.add(id)
                waiting += self.commits[id].parents
        return found
