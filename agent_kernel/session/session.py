"""Joins a namespace to a branch: every cell becomes a commit, and any commit can be taken back into the namespace."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from agent_kernel.errors import NothingToUndoError, RefNotFoundError
from agent_kernel.repository import NO_CHAT, Change, Head, ObjectId
from agent_kernel.session import carrying
from agent_kernel.session.history import Draft
from agent_kernel.session.interrupts import uninterrupted
from agent_kernel.session.joining import Joining
from agent_kernel.session.labels import undone
from agent_kernel.session.operations import Operation, Operations, Position
from agent_kernel.session.reports import Report

if TYPE_CHECKING:
    from agent_kernel.repository import ForgetReport, PruneReport, Retention
    from agent_kernel.session.chats import Talk


Only: TypeAlias = Literal["", "vars", "chat"]  # of what goes back, this alone
_NONE: Final[Mapping[str, str]] = {}
_FURTHEST: Final = 1_000  # commits that are looked through for one of a run
_SAID: Final[dict[str, str]] = {"": "", "vars": " the variables", "chat": " the conversation"}


class Session(Joining):
    """A live namespace on a branch. Close it to give the branch back; it changes nothing from then on."""

    # -- going elsewhere

    def checkout(
        self,
        rev: str | None = None,
        names: Sequence[str] = (),
        *,
        keep_random: bool = False,
        partial: bool = False,
        only: Only = "",
    ) -> Report:
        """Make the variables what they were at a commit, or take only `names` from it into what is there now.

        Args:
            only: `vars` leaves agents the conversation that they have here, `chat` leaves the variables; both make a
                commit here, as `rollback` does.
            rev: without one, the branch's last state, and with it all that a restart took out of memory.
            partial: go on without what cannot be loaded. It is replaced by a placeholder: using that raises an error. What
                is stored of it is kept; of `names`, those that cannot be loaded stay as they are now.

        Raises:
            RefNotFoundError, AmbiguousRefError, NameNotFoundError: nothing was changed.
            LoadError, DamagedObjectError, UntrustedStoreError, SessionClosedError: nothing was changed.
        """
        self._require_open()
        if only and (names or rev is None):
            raise ValueError("only goes with a commit, and without names")
        if only and rev is not None:
            return self.rollback(rev, keep_random=keep_random, partial=partial, only=only)
        if names:
            return self._checkout_names(rev or "HEAD", names, partial=partial)
        if rev is None:
            return self._checkout_last(keep_random=keep_random, partial=partial)
        branch = self.repo.branch_meant(rev, self.id)
        target = self.repo.branches().get(branch or "") or self.repo.resolve(rev, self.id)
        stay = carrying.NOTHING if branch is not None and branch == self.branch else None
        to = Position(branch, target)
        return self._move(to, f"checkout: moving to {branch or rev}", stay, keep_random=keep_random, partial=partial)

    def _checkout_last(self, *, keep_random: bool, partial: bool) -> Report:
        if self.branch is None and self._carried and self.head == self._bound_at:  # restarted on no branch
            return self._move(Position(None, self.head), "checkout: bring back", carrying.NOTHING, partial=partial)
        branch = self.branch or self._base  # before what is not committed yet starts a branch of its own
        tip = self.repo.branches().get(branch)
        if tip is None:
            raise RefNotFoundError(branch, tuple(self.repo.branches()))
        to = Position(branch, tip)
        message = f"checkout: moving to {branch}"
        return self._move(to, message, carrying.NOTHING, keep_random=keep_random, partial=partial)

    def bring_back(self, *, partial: bool = False) -> Report:
        """`checkout` as a session begins: part of beginning, so nothing that undo could take back."""
        report = self.checkout(partial=partial)
        self._operations = Operations()
        return report

    def leave_behind(self) -> Report:
        """Take out of the branch's state what a restart took out of memory and nobody brought back.

        The commits before still hold it, and undo takes this back too.
        """
        self._require_open()
        self._save_uncommitted()
        if not self._carried:
            return Report(None, None, self.branch)
        began = time.perf_counter()
        names = carrying.variables(self._carried)
        draft = Draft(kind="commit", author=self.author, message="start fresh, with what is in memory alone")
        draft.chat = NO_CHAT
        draft.changed = tuple(Change(name, "-", 0) for name in names)
        writer = self.repo.writer()
        tree = self._tree.edit(writer, dict.fromkeys(self._carried))
        with uninterrupted():
            return self._record(writer, tree, draft, began)

    def switch(self, branch: str, create: bool = False, *, keep_random: bool = False, partial: bool = False) -> Report:
        """Go to a branch, and with `create` make it here first. `keep_random`, `partial`: as for `checkout`.

        Raises:
            RefNotFoundError: there is no such branch. RefExistsError: there is, and `create` is set.
        """
        self._require_open()
        if create:
            return self._start_branch(branch)
        known = self.repo.branches()
        if branch not in known:
            raise RefNotFoundError(branch, tuple(sorted(known)))
        to = Position(branch, known[branch])
        return self._move(to, f"checkout: moving to {branch}", keep_random=keep_random, partial=partial)

    def _start_branch(self, branch: str) -> Report:
        self._save_uncommitted()
        before = self._position
        with uninterrupted():
            if self.head is not None:
                self.repo.create_branch(branch, self.head)
            self._go(Head(branch, self.head), f"checkout: moving to {branch}")
            self._operations.add(Operation(before, self._position, moved=True, by=self.author), "a branch was made")
        return Report(self.head, self._record_here(), self.branch)

    def rollback(self, rev: str, *, keep_random: bool = False, partial: bool = False, only: Only = "") -> Report:
        """Make a new commit that equals an older one; what came between stays in the history.

        `partial`, `only` and what it raises: as for `checkout`.
        """
        self._require_open()
        target = self.repo.resolve(rev, self.id)
        draft = Draft(
            kind="rollback", author=self.author, message=f"roll back{_SAID[only]} to {self._named(target, rev)}"
        )
        if only == "chat":
            return self._restore_chat(target, draft)
        if only == "vars":
            self._save_uncommitted()
            draft.chat = self.head or NO_CHAT
        return self._restore(target, draft, keep_random=keep_random, partial=partial)

    def take_back(self, to: ObjectId | None) -> tuple[str, ...]:
        """Put the variables back to where a step began that was stopped; to be called before it ends.

        Returns:
            Names whose values of before are gone, because they could not be saved.

        Raises:
            UntrustedStoreError: nothing can be loaded; the variables stay as they are.
        """
        self._require_open()
        self._save_uncommitted()
        if self.head != to:
            author = self._cell.author if self._cell is not None else self.author
            draft = Draft(kind="rollback", author=author, message="take back a step that was stopped")
            return tuple(one.name for one in self._restore(to, draft, partial=True).unsaved)
        return ()

    def undo(self, *, partial: bool = False, only: Only = "", begun: Mapping[str, str] = _NONE) -> Report:
        """Reverse this session's last operation; again, the one before. `partial`, `only`: as for `checkout`.

        With `only="chat"` no operation is reversed: the conversation goes back to before the last run that agents
        remember, and again, to before the one before. Both `undo` and `redo` bring it back then.

        Args:
            begun: for the conversation, runs without any step, by the commit, in hex digits, at which they were begun.

        Raises:
            NothingToUndoError: there is none left.
        """
        self._require_open()
        self._save_uncommitted()  # what no cell has committed is the last thing that was done
        if only == "chat":
            talk = self.last_talk(begun)
            if talk is None:
                raise NothingToUndoError(chat=True)
            message = "undo the conversation of the last run"
            return self._restore_chat(talk.before, Draft(kind="undo", author=self.author, message=message))
        operation = self._operations.last("undo")
        return self._reverse(operation, operation.before, "undo", partial=partial, only=only)

    def redo(self, *, partial: bool = False) -> Report:
        """Do again what was undone last, as long as no cell changed anything since. `partial`: as for `checkout`.

        Raises:
            NothingToUndoError: there is nothing to redo.
        """
        self._require_open()
        self._save_uncommitted()  # which may be such a change
        operation = self._operations.last("redo")
        to = operation.before if self._operations.brings_chat_back else operation.after
        return self._reverse(operation, to, "redo", partial=partial)

    def _of(self, operation: Operation) -> str:
        at = operation.after.commit
        if at is None:
            return ""
        commit = self.repo.commit_at(at)
        # A run is undone as a whole, and not the step that was its last.
        run = f"the run of {self._agent_of(operation.run, at)} ({operation.run[-5:]})" if operation.run else ""
        return f" of {run or undone(at, commit)}"

    def _agent_of(self, run: str, tip: ObjectId) -> str:
        """Whose run it is. The commit that it ended with may be somebody's who took on what it did."""
        found = (commit for _, commit in self.repo.log([tip], limit=_FURTHEST))
        return next((commit.author.name for commit in found if commit.run == run), self.repo.commit_at(tip).author.name)

    def _reverse(self, operation: Operation, to: Position, verb: str, *, partial: bool, only: Only = "") -> Report:
        then = self._operations.shifted(verb)
        if operation.moved and not only:
            message = f"{verb}: moving to {to.branch or 'a commit'}"
            return self._move(to, message, to.carried, partial=partial, then=then)
        draft = Draft(kind=verb, author=self.author, message=f"{verb}{_SAID[only]}{self._of(operation)}")
        if only == "vars":
            draft.chat = self.head or NO_CHAT
        return self._restore(to.commit, draft, to.carried, partial=partial, then=then)

    # -- the rest

    def last_talk(self, begun: Mapping[str, str] = _NONE) -> Talk | None:
        """The last run that agents remember, before which `undo` takes the conversation back. `begun`: as for that."""
        from agent_kernel.session.chats import last_talk

        return last_talk(self.repo, self.head, begun, self.restarted_at)

    @property
    def next_undo(self) -> Operation | None:
        """What `undo` would reverse."""
        return self._operations.done[-1] if self._operations.done else None

    @property
    def next_redo(self) -> Operation | None:
        """What `redo` would do again; of a conversation that was taken back last, bring back."""
        if self._operations.brings_chat_back:
            return self._operations.done[-1]
        return self._operations.undone[-1] if self._operations.undone else None

    def alive(self, commit: ObjectId, names: Iterable[str]) -> frozenset[str]:
        """Of variables that a commit could not save, those whose objects are still there: going there keeps them."""
        tree = self.repo.tree_at(commit)
        found = ((name, tree.get(name)) for name in names)
        return frozenset(name for name, entry in found if entry is not None and self.workspace.lives(entry))

    def verify_all(self) -> Report:
        """Look at every variable, and commit what changed unseen."""
        return self.commit(full=True)

    def ignore(self, name: str) -> None:
        """Never store this variable from now on."""
        self._require_open()
        self.ignoring.add(name)
        self.workspace.bindings.forget_rules()

    def unignore(self, name: str) -> None:
        """Store this variable again, from the next cell on; nothing happens if it was not ignored."""
        self._require_open()
        self.ignoring.remove(name)
        self.workspace.bindings.forget_rules()
        self._recorder.masks(self.repo.masked_names(), self.namespace)

    def ignored(self) -> tuple[str, ...]:
        """The variables that are never stored, sorted."""
        return tuple(sorted(self.ignoring))

    def trust(self) -> None:
        """Let values of this store be loaded, which can run code."""
        self.repo.trust()

    def forget(self, *names_or_refs: str, sources: bool = False) -> ForgetReport:
        """Rewrite the history without some variables and commits, all of them or none, and collect what they held at once.

        A variable that is forgotten is ignored from then on; the live one stays as it is. What only a forgotten commit
        held is saved again by the next commit if it is still in memory: the report names it.

        Args:
            sources: of variables, also mask what the code that speaks of them gave away, here and in later commits.

        Raises:
            ValueError: `sources` was asked for with a commit, which takes its code along.
            NameNotFoundError: one is neither a variable of any commit nor the name of a commit. Nothing was changed.
            BranchInUseError: another process works in this store. Nothing was changed.
            StoreFullError: there is no room for the history without them. Nothing was forgotten.
        """
        from agent_kernel.values import summaries

        self._require_open()
        self.repo.leases.refuse_others()
        meant = {one: self._commit_meant(one) for one in names_or_refs}
        names = [name for name, commit in meant.items() if commit is None]
        commits = {commit for commit in meant.values() if commit is not None}
        if sources and commits:
            raise ValueError("sources goes with variables alone: what a commit says goes with it")
        self.repo.traces_of(names).require(masks=sources)
        try:
            self._stop_saving(names)
            if commits:
                self._save_uncommitted()
            mask = summaries.mask_code if sources else None
            report = self.repo.forget(names, commits, mask, self.ignoring.to_store())
        except BaseException:  # nothing was forgotten, so nothing is ignored
            self.ignoring.reread()
            self.workspace.bindings.forget_rules()
            raise
        self._recorder.masks(self.repo.masked_names(), self.namespace)
        self._reread_head("forget")
        return dataclasses.replace(report, in_memory=self._compare_with_head()) if commits else report

    def _commit_meant(self, text: str) -> ObjectId | None:
        """The commit of this name; a variable of the same name goes first."""
        if text in self.namespace or text in self._tree:
            return None
        try:
            return self.repo.resolve(text, self.id)
        except RefNotFoundError:
            return None

    def _stop_saving(self, names: Sequence[str]) -> None:
        """Ignore variables from now on, and take them out of the values that they are saved together with."""
        here = [name for name in names if name in self.namespace or name in self._tree]
        self.ignoring.add_unstored(here)
        self.workspace.bindings.forget_rules()
        if any(self.workspace.tracking.groups.get(name) is not None for name in here):
            self._commit(Draft(kind="commit", author=self.author, message=f"forget {', '.join(here)}"), "")

    def prune(self, policy: Retention, *, dry_run: bool = False) -> PruneReport:
        """Thin out the history by a retention policy; see `Repository.prune`."""
        self._require_open()
        self._save_uncommitted()
        report = self.repo.prune(policy, dry_run=dry_run)
        if not dry_run and report.dropped:
            self._reread_head("prune")
        return report

    def rename_branch(self, new: str) -> None:
        """Rename the branch that this session is on."""
        self._require_open()
        if self.branch is None:
            raise RefNotFoundError("HEAD", tuple(self.repo.branches()))
        with uninterrupted():
            self.repo.rename_branch(self.branch, new)
            self._operations = self._operations.renamed(self.branch, new)
            self.branch = self._base = new
