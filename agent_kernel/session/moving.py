"""Take another state on: the namespace becomes what it was at another commit.

The other state is built aside, HEAD moves, and only then, without interruption, the namespace changes. Whatever is not
committed yet is committed first, so nothing is ever replaced unseen.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import msgspec

from agent_kernel.errors import LoadError, NameNotFoundError
from agent_kernel.repository import NO_CHAT, Change, Commit, Head, ObjectId, Tree, Unsaved, short
from agent_kernel.session import carrying, randomness, trust
from agent_kernel.session.history import Draft, changes_between
from agent_kernel.session.interrupts import uninterrupted
from agent_kernel.session.labels import named
from agent_kernel.session.operations import Operation, Operations, Position
from agent_kernel.session.reports import Report
from agent_kernel.session.snapshot import close_names
from agent_kernel.session.stepping import Stepping
from agent_kernel.session.workspace import Loaded
from agent_kernel.values.entries import CLASS_PREFIX, class_entry
from agent_kernel.values.lost import name_losses


class Moving(Stepping):
    """A session that can go elsewhere; `Session` says where to."""

    def _move(
        self,
        to: Position,
        message: str,
        stay: frozenset[str] | None = None,
        *,
        keep_random: bool = False,
        partial: bool = False,
        then: Operations | None = None,
    ) -> Report:
        """Check out a position: HEAD moves, no commit is made.

        Args:
            then: what undo and redo are about afterwards, where this is one of them.
            stay: what is not to be in memory there. By default what is not now and was not at that commit, if it is one
                of this session: its variables are then as they were.
        """
        trust.require(self.repo)
        began = time.perf_counter()
        saved = self._save_uncommitted()
        to = self._as_it_is_now(to)
        before = self._position
        target = self.repo.tree_at(to.commit)
        loaded = self._load(target, to.commit, stay, partial=partial, restarted=then is None and bool(self._carried))
        generators, note = randomness.prepare(self.repo, to.commit, keep=keep_random, partial=partial)
        carried = loaded.carried(target)
        changed = carrying.live_changes(self.repo, self._tree, target, self._carried, carried)
        with self._taking_on(loaded):
            self._go(Head(to.branch, to.commit), message)
            self._tree, self._carried = target, carried
            self._restarted = self._restarted and bool(carried)
            self._operations.add(Operation(before, self._position, moved=True, by=self.author), "HEAD was moved")
            self._operations = then or self._operations
            generators()
        notes = (*self._checkout_notes(saved, loaded), *filter(None, [note]))
        return Report(
            to.commit,
            self._record_here(),
            self.branch,
            changed,
            self._lost_in(loaded),
            notes,
            time.perf_counter() - began,
        )

    def foreseen(self, target: ObjectId, *, is_here: bool = False) -> tuple[Change, ...]:
        """What going there would change among the live variables, which may be fewer than HEAD's. Nothing is loaded.

        Args:
            is_here: what is checked out is the branch that the session is on, so all of it comes.
        """
        stay = carrying.NOTHING if is_here else self._staying(target)
        return carrying.live_changes(self.repo, self._tree, self.repo.tree_at(target), self._carried, stay)

    def foreseen_undo(self, operation: Operation) -> tuple[Change, ...]:
        """What undoing it would change among the live variables. Nothing is loaded."""
        to = self._as_it_is_now(operation.before) if operation.moved else operation.before
        target = self.repo.tree_at(to.commit)
        return carrying.live_changes(self.repo, self._tree, target, self._carried, to.carried)

    def _staying(self, commit: ObjectId | None) -> frozenset[str]:
        then = self._carried_at.get(commit) if commit is not None and self._carried else None
        return carrying.NOTHING if then is None else self._carried & then.names()

    def _as_it_is_now(self, to: Position) -> Position:
        """The branch may have moved since the position was noted, by an undo for one; or be gone."""
        tip = self.repo.branches().get(to.branch or "")
        if tip is not None:
            return msgspec.structs.replace(to, commit=tip)
        return to if to.commit is None else msgspec.structs.replace(to, branch=None)

    def _load(
        self,
        target: Tree,
        commit: ObjectId | None,
        stay: frozenset[str] | None,
        *,
        partial: bool,
        restarted: bool = False,
    ) -> Loaded:
        stay = self._staying(commit) if stay is None else stay
        return self.workspace.load(
            self._tree,
            target,
            absent=self._carried,
            stay=stay,
            partial=partial,
            restarted=restarted,
            sources=(commit,),
        )

    def _restore(
        self,
        target: ObjectId | None,
        draft: Draft,
        stay: frozenset[str] | None = None,
        *,
        keep_random: bool = False,
        partial: bool = False,
        then: Operations | None = None,
    ) -> Report:
        """Make a new commit whose tree is an older one's, and take it on. `stay` and `then`: as in `_move`."""
        trust.require(self.repo)
        began = time.perf_counter()
        saved = self._save_uncommitted()
        tree = self.repo.tree_at(target)
        loaded = self._load(tree, target, stay, partial=partial)
        generators, note = randomness.prepare(self.repo, target, keep=keep_random, partial=partial)
        carried = loaded.carried(tree)
        live = carrying.live_changes(self.repo, self._tree, tree, self._carried, carried)
        draft.changed = changes_between(self.repo, self._tree, tree)
        draft.unsaved = loaded.told
        draft.restores = target
        if target is None and draft.chat is None:
            draft.chat = NO_CHAT
        if target is not None and not keep_random and not note:
            draft.random = self.repo.commit_at(target).random
        with self._taking_on(loaded):
            report = self._record(self.repo.writer(), tree, draft, began, carried)
            self._operations = then or self._operations
            generators()
        notes = (*report.notes, *self._checkout_notes(saved, loaded), *filter(None, [note]))
        return Report(
            report.commit,
            report.record,
            self.branch,
            live,
            self._lost_in(loaded),
            notes,
            time.perf_counter() - began,
        )

    def _restore_chat(self, target: ObjectId | None, draft: Draft) -> Report:
        """Make a new commit with the present tree, in which agents know what they knew at an older one."""
        began = time.perf_counter()
        self._save_uncommitted()
        draft.chat = target or NO_CHAT
        before = self._position
        with uninterrupted():
            report = self._record(self.repo.writer(), self._tree, draft, began, self._carried)
            taken = Operation(before, self._position, by=draft.author, chat=True)
            self._operations.add(taken, "the conversation was taken back")
        return report

    def _checkout_names(self, rev: str, names: Sequence[str], *, partial: bool) -> Report:
        trust.require(self.repo)
        commit = self.repo.resolve(rev, self.id)
        target = self.repo.tree_at(commit)
        for name in names:
            if name not in target:
                raise NameNotFoundError(name, rev, close_names(name, target.names()))
        began = time.perf_counter()
        self._save_uncommitted()
        loaded, names, notes = self._load_names(target, commit, names, partial=partial)
        message = f"take {', '.join(names)} from {self._named(commit, rev)}"
        draft = Draft(kind="rollback", author=self.author, message=message, restores=commit, chat=self.head)
        if self._brings_other_classes(loaded, target):
            report = self._bind(loaded, draft)
            return msgspec.structs.replace(report, notes=(*report.notes, *notes))
        writer = self.repo.writer()
        rest = self.workspace.without(loaded, writer)
        classes = {name: entry for name in loaded.needs if (entry := target.get(name)) is not None}
        live = {**rest.entries, **loaded.plan.entries, **classes}
        edits, carried = carrying.beside(self.repo, self._tree, self._carried, live, self.ignoring.among(self._carried))
        tree = self._tree.edit(writer, edits)
        writer.flush()  # the comparison reads manifests that are new
        draft.changed = changes_between(self.repo, self._tree, tree)
        changed = carrying.live_changes(self.repo, self._tree, tree, self._carried, carried)
        with self._taking_on(loaded):
            report = self._record(writer, tree, draft, began, carried)
            self.workspace.accept(rest)
        others = sorted(name for name in loaded.plan.entries if name not in names and not name.startswith("\0"))
        if others:
            notes = (*notes, f"with what shares objects: {', '.join(others)}")
        return msgspec.structs.replace(report, changed=changed, notes=(*report.notes, *notes))

    def _brings_other_classes(self, loaded: Loaded, target: Tree) -> bool:
        """Whether a class comes along that has been altered since, and stays here as it is."""
        pairs = ((self._tree.get(name), target.get(name)) for name in map(class_entry, loaded.classes))
        return any(here is not None and not here.is_same_value(there) for here, there in pairs)

    def _bind(self, loaded: Loaded, draft: Draft) -> Report:
        """Bind names to what was loaded, as a cell would: classes that came along are others than those of the same name."""
        values = {name: value for name, value in loaded.values.items() if not name.startswith(CLASS_PREFIX)}
        before = {name: self.namespace[name] for name in values if name in self.namespace}
        name_losses(values)
        with uninterrupted():  # after the commit an interrupt would take back what it holds
            try:
                self.namespace.update(values)
                loaded.set_back()
                return self._commit(draft, "")
            except BaseException:
                for name in values:
                    self.namespace.pop(name, None)
                self.namespace.update(before)
                raise

    def _load_names(
        self, target: Tree, source: ObjectId, names: Sequence[str], *, partial: bool
    ) -> tuple[Loaded, Sequence[str], tuple[str, ...]]:
        """Load single variables; `partial` leaves those out that fail, if any is left."""
        try:
            return self.workspace.load(self._tree, target, names, sources=(source,)), names, ()
        except LoadError as error:
            rest = [name for name in names if name not in error.names]
            if not partial or not rest:
                raise
            notes = tuple(f"{', '.join(failed)} not loaded, and left as is: {why}" for failed, why in error.failures)
            return self.workspace.load(self._tree, target, rest, sources=(source,)), rest, notes

    def _named(self, commit: ObjectId, rev: str = "") -> str:
        return named(commit, self.repo.commit_at(commit), rev)

    def _go(self, head: Head, message: str) -> None:
        """Move HEAD, holding the lease of the branch that it goes to."""
        if head.branch is not None and head.branch != self.branch:
            self.repo.acquire_lease(head.branch, self._holder)
        try:
            self.repo.move_head(self.id, head, message)
        except BaseException:
            if head.branch is not None and head.branch != self.branch:
                self.repo.release_lease(head.branch, self._holder)
            raise
        if self.branch is not None and self.branch != head.branch:
            self.repo.release_lease(self.branch, self._holder)
        self.branch, self.head = head.branch, head.commit
        self._base = head.branch or self._base

    @contextmanager
    def _taking_on(self, loaded: Loaded) -> Generator[None]:
        """Go somewhere in the block, and the variables with it: an interrupt finds both moved, or neither."""
        with uninterrupted():
            yield
            self.workspace.take_on(loaded)
        self.workspace.read_again(loaded)  # of what an interrupt keeps unread, whatever is found counts as a change

    def _checkout_notes(self, saved: Report | None, loaded: Loaded) -> tuple[str, ...]:
        notes = (
            [f"what was not committed yet is in {short(saved.commit)}"]
            if saved and saved.commit and saved.changed
            else []
        )
        notes += [
            f"{f'{names} and {holder}' if names else f'parts of {holder}'} no longer share objects: "
            "these cannot be restored in place"
            for holder, names in self.workspace.apart(loaded)
        ]
        threads = self.workspace.running_threads()
        if threads and loaded.values:
            notes.append(f"still running with the objects they had: {', '.join(threads)}")
        return tuple(notes)

    def _lost_in(self, loaded: Loaded) -> tuple[Unsaved, ...]:
        lost = dict.fromkeys(
            lost
            for name, manifest in loaded.plan.manifests.items()
            if manifest.lost and not name.startswith(CLASS_PREFIX)
            for lost in self.workspace.lost_in(manifest, whole=self.workspace.is_lost(name))
        )
        return (*lost, *loaded.told)

    def _record_here(self) -> Commit | None:
        return self.repo.commit_at(self.head) if self.head is not None else None
