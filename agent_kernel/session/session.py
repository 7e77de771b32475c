"""Joins a namespace to a branch: every cell becomes a commit, and any commit can be taken back into the namespace."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from agent_kernel.errors import (
    DamagedObjectError,
    LoadError,
    MergeConflictError,
    NameNotFoundError,
    NothingToUndoError,
    RefNotFoundError,
)
from agent_kernel.quiet import uninterrupted
from agent_kernel.repository import NO_CHAT, Change, Commit, Head, ObjectId, Tree, Unsaved, hex_of, short
from agent_kernel.repository.commits import revision_text
from agent_kernel.session import trust
from agent_kernel.session.committing import (
    Committing,
    Operation,
    Operations,
    Position,
    Report,
    moves_head,
    name_records,
)
from agent_kernel.session.history import (
    NOTHING,
    Draft,
    changes_between,
    commit_in_message,
    commit_in_undo,
    live_changes,
    prepare_generators,
    title,
    tree_edits,
    variables,
)
from agent_kernel.session.process_state import describe_differences, ran_pylab
from agent_kernel.session.snapshot import close_names
from agent_kernel.session.tracking import label_of
from agent_kernel.session.workspace import Loaded
from agent_kernel.values import CLASS_PREFIX, class_entry
from agent_kernel.values.surface import name_placeholders

if TYPE_CHECKING:
    from agent_kernel.records.merge import RecordMerge
    from agent_kernel.repository import ForgetReport, PruneReport, Retention, Writer
    from agent_kernel.session.history import RememberedRun
    from agent_kernel.session.merge import Choices, Resolver

logger = logging.getLogger(__name__)

Only: TypeAlias = Literal["", "vars", "chat"]  # of what goes back, this alone
_NONE: Final[Mapping[str, str]] = {}
_FURTHEST: Final = 1_000  # commits that are looked through for one of a run
_SAID: Final[dict[str, str]] = {"": "", "vars": " the variables", "chat": " the conversation"}


class Session(Committing):
    """A live namespace on a branch. Close it to give the branch back; it changes nothing from then on."""

    # -- going elsewhere

    @moves_head
    def checkout(
        self,
        rev: str | ObjectId | None = None,
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
        rev = None if rev is None else revision_text(rev)
        if only and (names or rev is None):
            raise ValueError("only goes with a commit, and without names")
        if only and rev is not None:
            return self.rollback(rev, keep_random=keep_random, partial=partial, only=only)
        if names:
            return self._checkout_names(rev or "HEAD", names, partial=partial)
        if rev is None:
            return self._checkout_last(keep_random=keep_random, partial=partial)
        branch = self.repo.branch_meant(rev, self.id)
        target = self.repo.branches().get(branch or "") or self._resolve(rev)
        stay = NOTHING if branch is not None and branch == self.branch else None
        to = Position(branch, target)
        return self._move(to, f"checkout: moving to {branch or rev}", stay, keep_random=keep_random, partial=partial)

    def _checkout_last(self, *, keep_random: bool, partial: bool) -> Report:
        if self.branch is None and self._not_loaded and self.head == self._bound_at:  # restarted on no branch
            return self._move(Position(None, self.head), "checkout: bring back", NOTHING, partial=partial)
        branch = self.branch or self._base  # before what is not committed yet starts a branch of its own
        tip = self.repo.branches().get(branch)
        if tip is None:
            raise RefNotFoundError(branch, tuple(self.repo.branches()))
        to = Position(branch, tip)
        message = f"checkout: moving to {branch}"
        return self._move(to, message, NOTHING, keep_random=keep_random, partial=partial)

    def bring_back(self, *, partial: bool = False) -> Report:
        """`checkout` as a session begins: part of beginning, so nothing that undo could take back."""
        report = self.checkout(partial=partial)
        self._operations = Operations()
        return report

    @moves_head
    def leave_behind(self) -> Report:
        """Take out of the branch's state what a restart took out of memory and nobody brought back.

        The commits before still hold it, and undo takes this back too.
        """
        self._require_open()
        self._save_uncommitted()
        if not self._not_loaded:
            return Report(None, None, self.branch)
        began = time.perf_counter()
        names = variables(self._not_loaded)
        draft = Draft(kind="commit", author=self.author, message="start fresh, with what is in memory alone")
        draft.chat = NO_CHAT
        draft.changed = tuple(Change(name, "-", 0) for name in names)
        writer = self.repo.writer()
        tree = self._tree.edit(writer, dict.fromkeys(self._not_loaded))
        with uninterrupted():
            return self._record(writer, tree, draft, began)

    @moves_head
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
        return Report(self.head, self._head_commit(), self.branch)

    @moves_head
    def rollback(
        self, rev: str | ObjectId, *, keep_random: bool = False, partial: bool = False, only: Only = ""
    ) -> Report:
        """Make a new commit that equals an older one; what came between stays in the history.

        `partial`, `only` and what it raises: as for `checkout`.
        """
        self._require_open()
        rev = revision_text(rev)
        target = self._resolve(rev)
        draft = Draft(
            kind="rollback", author=self.author, message=f"roll back{_SAID[only]} to {self._name_commit(target, rev)}"
        )
        if only == "chat":
            return self._restore_chat(target, draft)
        if only == "vars":
            self._save_uncommitted()
            draft.chat = self.head or NO_CHAT
        return self._restore(target, draft, keep_random=keep_random, partial=partial)

    @moves_head
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

    @moves_head
    def undo(self, *, partial: bool = False, only: Only = "", begun: Mapping[str, str] = _NONE) -> Report:
        """Reverse this session's last operation; again, the one before. `partial`, `only`: as for `checkout`.

        With `only="chat"` no operation is reversed: the conversation goes back to before the last run that agents
        remember, and again, to before the one before. Both `undo` and `redo` bring it back then.

        Args:
            begun: for the conversation, runs without any step, by the commit, in hex digits, at which they were begun.

        Raises:
            NothingToUndoError: no operation is left.
        """
        self._require_open()
        self._save_uncommitted()  # what no cell has committed is the last thing that was done
        if only == "chat":
            remembered = self.last_talk(begun)
            if remembered is None:
                raise NothingToUndoError(chat=True)
            message = "undo the conversation of the last run"
            return self._restore_chat(remembered.before, Draft(kind="undo", author=self.author, message=message))
        operation = self._operations.last("undo")
        return self._reverse(operation, operation.before, "undo", partial=partial, only=only)

    @moves_head
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
        return f" of {run or commit_in_undo(at, commit)}"

    def _agent_of(self, run: str, tip: ObjectId) -> str:
        """Whose run it is. The commit that it ended with may be somebody's who took on what it did."""
        found = (commit for _, commit in self.repo.log([tip], limit=_FURTHEST))
        return next((commit.author.name for commit in found if commit.run == run), self.repo.commit_at(tip).author.name)

    def _reverse(self, operation: Operation, to: Position, verb: str, *, partial: bool, only: Only = "") -> Report:
        then = self._operations.shift(verb)
        if operation.moved and not only:
            message = f"{verb}: moving to {to.branch or 'a commit'}"
            return self._move(to, message, to.not_in_memory, partial=partial, then=then)
        draft = Draft(kind=verb, author=self.author, message=f"{verb}{_SAID[only]}{self._of(operation)}")
        if only == "vars":
            draft.chat = self.head or NO_CHAT
        return self._restore(to.commit, draft, to.not_in_memory, partial=partial, then=then)

    # -- what undo and redo are about, and the branch and its history as a whole

    def last_talk(self, begun: Mapping[str, str] = _NONE) -> RememberedRun | None:
        """The last run that agents remember, before which `undo` takes the conversation back. `begun`: as for that."""
        from agent_kernel.session.history import last_remembered_run

        return last_remembered_run(self.repo, self.head, begun, self.restarted_at)

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

    @moves_head
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
        from agent_kernel.values import previews

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
            mask = previews.CodeMask() if sources else None
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
            return self._resolve(text)
        except RefNotFoundError:
            return None

    def _stop_saving(self, names: Sequence[str]) -> None:
        """Ignore variables from now on, and take them out of the values that they are saved together with."""
        known = [name for name in names if name in self.namespace or name in self._tree]
        self.ignoring.add_unstored(known)
        self.workspace.bindings.forget_rules()
        if any(self.workspace.tracking.groups.get(name) is not None for name in known):
            self._commit(Draft(kind="commit", author=self.author, message=f"forget {', '.join(known)}"), "")

    @moves_head
    def prune(self, policy: Retention, *, dry_run: bool = False) -> PruneReport:
        """Thin out the history by a retention policy; see `Repository.prune`."""
        self._require_open()
        self._save_uncommitted()
        report = self.repo.prune(policy, dry_run=dry_run)
        if not dry_run and report.dropped:
            self._reread_head("prune")
        return report

    @moves_head
    def rename_branch(self, new: str) -> None:
        """Rename the branch that this session is on."""
        self._require_open()
        if self.branch is None:
            raise RefNotFoundError("HEAD", tuple(self.repo.branches()))
        if self.pending.lies_beside:
            self._commit_pending()
        with uninterrupted():
            self.repo.rename_branch(self.branch, new)
            self._operations = self._operations.rename_branch(self.branch, new)
            self.branch = self._base = new

    # -- bring what other commits hold into the present state

    @moves_head
    def merge(
        self,
        rev: str | ObjectId,
        *,
        ours: Collection[str] = (),
        theirs: Collection[str] = (),
        resolvers: Mapping[type, Resolver] | None = None,
        message: str = "",
        fast_forward: bool = True,
        partial: bool = False,
        since: ObjectId | None = None,
    ) -> Report:
        """Merge another commit into the branch, variable by variable, and dicts key by key.

        Args:
            ours: variables that both sides changed, to be kept as they are here.
            theirs: variables that both sides changed, to be taken from the other side.
            resolvers: by type, functions that merge values which both sides changed. Called with copies of the value as
                it was (None where both sides added it), ours and theirs, if both are of that type or of classes made of
                it; the nearest type goes first, and before keys of dicts. What it returns is stored. If it returns
                NotImplemented or raises MergeConflictError, dicts go on key by key and others stay a conflict; any
                other error ends the merge with nothing changed. Values that share objects with other variables stay a
                conflict.
            fast_forward: where nothing was changed here since, only move the branch; otherwise there is a commit of two
                parents in any case.
            partial: as for `checkout`. Values that cannot be loaded are not merged by key, and no resolver sees them.
            since: the commit from which the other side was tried: what was undone here since is a change of this side.
                Otherwise the other side brings it back.

        Raises:
            MergeConflictError: others were changed on both sides, or fields of records, which are chosen by the names that
                it gives (`Note:a`). UnrelatedHistoriesError: no common ancestor.
            LoadError: nothing was changed.
        """
        from agent_kernel.session.merge import Choices

        rev = revision_text(rev)
        choices = Choices(frozenset(ours), frozenset(theirs), resolvers or {}, partial, fast_forward, since)
        draft = self._within_step(Draft(kind="merge", author=self.author, message=message or f"merge {rev}"))
        can_be_asked_again = since is None and not resolvers and fast_forward
        with _noting_request(rev if can_be_asked_again else "", choices, message):
            return self._merge(rev, choices, draft)

    def _merge(self, rev: str, choices: Choices, draft: Draft) -> Report:
        """See `merge`. `draft`: what the commit says, if there is one."""
        from agent_kernel.session import merge

        self._require_open()
        other = self._resolve(rev)
        self._save_uncommitted()
        began = time.perf_counter()
        trust.require(self.repo)
        writer = self.repo.writer()
        records = self._merge_records(writer, other, choices)
        named = choices if records is None else choices.without(records.names)
        with _with_conflicts_of(records):
            outcome = merge.merge(self.repo, writer, self.workspace, self.head, other, rev, named)
        if outcome.tree is None:
            return Report(self.head, self._head_commit(), self.branch, notes=(outcome.note,))
        if records is not None:
            records.require_no_conflict()
            draft.records = records.root
        loaded = self._load_joined(writer, outcome.tree, draft, other, partial=choices.partial)
        if outcome.fast_forward and self.branch is not None:
            return self._fast_forward(other, loaded, draft, outcome.note)
        draft.other_parents = (other,)
        return self._record_joined(writer, outcome.tree, draft, loaded, began)

    def _merge_records(self, writer: Writer, other: ObjectId, choices: Choices) -> RecordMerge | None:
        """What the merge makes of the records; None: they stay as they are."""
        if self.head is None or self.repo.commit_at(other).records is None:
            return None
        from agent_kernel.records.merge import merge_records
        from agent_kernel.session.merge import start

        begin = start(self.repo, self.head, other)
        if begin.up_to_date or begin.base is None:
            return None
        return merge_records(
            self.repo,
            writer,
            choices.since or begin.base,
            self.head,
            other,
            choose_ours=choices.ours,
            choose_theirs=choices.theirs,
        )

    @moves_head
    def take_step(self, rev: str, run: str) -> Report:
        """Merge the commits of a step that ran on a fork, as a step of its run: undo takes back the run as a whole.

        Args:
            run: "" for code outside a run: the merge is then an operation of this session itself.

        Raises:
            MergeConflictError, LoadError: nothing was changed.
        """
        from agent_kernel.session.merge import Choices

        before = len(self._operations.done)
        # What it drew is drawn: whatever draws next goes on from there.
        generators, _ = prepare_generators(self.repo, self._resolve(rev), keep=False, partial=True)
        if self._cell is not None:
            self.workspace.monitor.stop()
        try:
            other = self._resolve(rev)
            since = None if self.head is None else self.repo.merge_base(self.head, other)
            draft = self._draft_of_step(other) if run else None
            report = self._merge(rev, Choices(since=since), draft) if draft else self.merge(rev, since=since)
            generators()
        finally:
            if run:
                self._join(run, min(before, len(self._operations.done)))
            if self._cell is not None:
                self.workspace.monitor.start()
        return report

    def _draft_of_step(self, tip: ObjectId) -> Draft:
        """What the merge of a step says: it is the agent's work, as the step itself is."""
        made = self.repo.commit_at(tip)
        message = f"apply step {made.step} of {made.author.name} as previewed"
        return Draft(kind="merge", author=made.author, message=message, run=made.run, step=made.step)

    @moves_head
    def cherry_pick(
        self,
        rev: str | ObjectId,
        *,
        ours: Collection[str] = (),
        theirs: Collection[str] = (),
        message: str = "",
        partial: bool = False,
    ) -> Report:
        """Do here what one commit did: the change from its parent, of variables and records, merged into the present state.

        The new commit has one parent, the picked one's author and message (or `message`), and names the picked commit, as
        `git cherry-pick -x` does. If all of the change is here already, it makes no commit.

        Args:
            ours: as for `merge`.
            theirs: as for `merge`; the picked commit is theirs.
            partial: as for `merge`.

        Raises:
            MergeCommitError: the commit has several parents. MergeConflictError: both changed the same variables, or fields of
                records. LoadError: nothing was changed.
        """
        from agent_kernel.session import merge
        from agent_kernel.session.merge import Choices

        self._require_open()
        rev = revision_text(rev)
        picked = self._resolve(rev)
        self._save_uncommitted()
        began = time.perf_counter()
        trust.require(self.repo)
        writer = self.repo.writer()
        choices = Choices(frozenset(ours), frozenset(theirs), partial=partial)
        commit = self.repo.commit_at(picked)
        with _noting_request(rev, choices, message, picks=True):
            records = self._pick_records(writer, commit, picked, choices)
            named = choices if records is None else choices.without(records.names)
            with _with_conflicts_of(records):
                outcome = merge.pick(self.repo, writer, self.workspace, self.head, picked, rev, named)
            if records is not None:
                records.require_no_conflict()
        if outcome.tree is None and (records is None or not records.is_changed):
            return Report(self.head, self._head_commit(), self.branch, notes=(outcome.note,))
        tree = self._tree if outcome.tree is None else outcome.tree
        text = message or commit.message or title(commit)
        text = f"{text.rstrip()}\n\n(cherry picked from commit {hex_of(picked)})"
        draft = Draft(kind="cherry-pick", author=commit.author, message=text)
        draft.records = None if records is None else records.root
        loaded = self._load_joined(writer, tree, draft, picked, partial=partial)
        return self._record_joined(writer, tree, draft, loaded, began)

    def _pick_records(self, writer: Writer, commit: Commit, picked: ObjectId, choices: Choices) -> RecordMerge | None:
        """What records become with the change of a commit; None: it changed none."""
        parent = next(iter(commit.parents), None)
        if commit.records is None or len(commit.parents) > 1:
            return None
        from agent_kernel.records.merge import merge_records
        from agent_kernel.records.trees import tree_of

        if tree_of(self.repo, parent) == tree_of(self.repo, picked):
            return None
        return merge_records(
            self.repo, writer, parent, self.head, picked, choose_ours=choices.ours, choose_theirs=choices.theirs
        )

    def _load_joined(self, writer: Writer, tree: Tree, draft: Draft, other: ObjectId, *, partial: bool) -> Loaded:
        writer.flush()  # what was merged by value is loaded like the rest
        draft.changed = changes_between(self.repo, self._tree, tree)
        stay = self._not_loaded.difference(change.name for change in draft.changed)
        loaded = self.workspace.load(
            self._tree, tree, absent=self._not_loaded, stay=stay, partial=partial, sources=(other, self.head)
        )
        draft.unsaved = loaded.reports
        return loaded

    def _record_joined(self, writer: Writer, tree: Tree, draft: Draft, loaded: Loaded, began: float) -> Report:
        with self._taking_on(loaded, self._has_pylab_with(*draft.other_parents)):
            return self._record(writer, tree, draft, began, loaded.find_not_loaded(tree))

    def _has_pylab_at(self, commit: ObjectId | None) -> bool | None:
        """Whether `%pylab` had run at a commit; None where it did not run in this process, which then has none of its names."""
        return ran_pylab(self.repo, commit) if self.workspace.living.process.pylab.bound else None

    def _has_pylab_with(self, *others: ObjectId) -> bool | None:
        """Whether `%pylab` had run here, or in a state that is joined with this one; None where it did not run in this process."""
        pylab = self.workspace.living.process.pylab
        return (pylab.has_run or any(ran_pylab(self.repo, other) for other in others)) if pylab.bound else None

    def _fast_forward(self, other: ObjectId, loaded: Loaded, draft: Draft, note: str) -> Report:
        before = self._position
        with self._taking_on(loaded, self._has_pylab_with(other)):
            self.repo.move_branch(str(self.branch), other, draft.message, self.head, self.id)
            self.head, self._tree = other, self.repo.tree_at(other)
            self._not_loaded = loaded.find_not_loaded(self._tree)
            self._operations.add(Operation(before, self._position, by=draft.author), "a merge was made")
        report = Report(other, self._head_commit(), self.branch, draft.changed, loaded.reports, notes=(note,))
        return name_records(report, self.repo, before.commit)

    # -- take another state on: the namespace becomes what it was at another commit
    #
    # The other state is built aside, HEAD moves, and only then, without interruption, the namespace changes. Whatever is not
    # committed yet is committed first, so nothing is ever replaced unseen.

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
        restarted = then is None and bool(self._not_loaded)
        if (
            not restarted
        ):  # after a restart plain data comes back from a store of any maker, and placeholders for the rest
            trust.require(self.repo)
        began = time.perf_counter()
        saved = self._save_uncommitted()
        to = self._as_it_is_now(to)
        before = self._position
        target = self.repo.tree_at(to.commit)
        loaded = self._load(target, to.commit, stay, partial=partial, restarted=restarted)
        generators, note = prepare_generators(self.repo, to.commit, keep=keep_random, partial=partial)
        absent_names = loaded.find_not_loaded(target)
        changed = live_changes(self.repo, self._tree, target, self._not_loaded, absent_names)
        with self._taking_on(loaded, self._has_pylab_at(to.commit)):
            self._go(Head(to.branch, to.commit), message)
            self._tree, self._not_loaded = target, absent_names
            self._restarted = self._restarted and bool(absent_names)
            self._operations.add(Operation(before, self._position, moved=True, by=self.author), "HEAD was moved")
            self._operations = then or self._operations
            generators()
        notes = (*self._checkout_notes(saved, loaded, to.commit), *filter(None, [note]))
        report = Report(
            to.commit,
            self._head_commit(),
            self.branch,
            changed,
            self._describe_unsaved(loaded),
            notes,
            time.perf_counter() - began,
        )
        return name_records(report, self.repo, before.commit)

    def foreseen(self, target: ObjectId, *, is_here: bool = False) -> tuple[Change, ...]:
        """What going there would change among the live variables, which may be fewer than HEAD's. Nothing is loaded.

        Args:
            is_here: what is checked out is the branch that the session is on, so all of it comes.
        """
        stay = NOTHING if is_here else self._find_staying(target)
        return live_changes(self.repo, self._tree, self.repo.tree_at(target), self._not_loaded, stay)

    def foreseen_undo(self, operation: Operation) -> tuple[Change, ...]:
        """What undoing it would change among the live variables. Nothing is loaded."""
        to = self._as_it_is_now(operation.before) if operation.moved else operation.before
        target = self.repo.tree_at(to.commit)
        return live_changes(self.repo, self._tree, target, self._not_loaded, to.not_in_memory)

    def _find_staying(self, commit: ObjectId | None) -> frozenset[str]:
        then = self._not_loaded_at.get(commit) if commit is not None and self._not_loaded else None
        return NOTHING if then is None else self._not_loaded & then.names()

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
        stay = self._find_staying(commit) if stay is None else stay
        return self.workspace.load(
            self._tree,
            target,
            absent=self._not_loaded,
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
        generators, note = prepare_generators(self.repo, target, keep=keep_random, partial=partial)
        absent_names = loaded.find_not_loaded(tree)
        live = live_changes(self.repo, self._tree, tree, self._not_loaded, absent_names)
        draft.changed = changes_between(self.repo, self._tree, tree)
        draft.unsaved = loaded.reports
        draft.restores = target
        if target is None and draft.chat is None:
            draft.chat = NO_CHAT
        if target is not None and not keep_random and not note:
            draft.random = self.repo.commit_at(target).random
        left = self.head
        with self._taking_on(loaded, self._has_pylab_at(target)):
            report = self._record(self.repo.writer(), tree, draft, began, absent_names)
            self._operations = then or self._operations
            generators()
        self._note_versions_left(left)
        notes = (*report.notes, *self._checkout_notes(saved, loaded, target), *filter(None, [note]))
        return Report(
            report.commit,
            report.record,
            self.branch,
            live,
            self._describe_unsaved(loaded),
            notes,
            time.perf_counter() - began,
            records=report.records,
            more_records=report.more_records,
        )

    def _note_versions_left(self, left: ObjectId | None) -> None:
        """Let no version of a record come again that was taken back. HEAD has moved: what cannot be read any more changes nothing."""
        pending = self._recorder.pending
        if pending is not None:
            try:
                pending.note_left(left, self.head)
            except DamagedObjectError as error:
                logger.warning("an expect of a record that was taken back may fit later: %s", error)

    def _restore_chat(self, target: ObjectId | None, draft: Draft) -> Report:
        """Make a new commit with the present tree, in which agents know what they knew at an older one."""
        began = time.perf_counter()
        self._save_uncommitted()
        draft.chat = target or NO_CHAT
        before = self._position
        with uninterrupted():
            report = self._record(self.repo.writer(), self._tree, draft, began, self._not_loaded)
            taken = Operation(before, self._position, by=draft.author, chat=True)
            self._operations.add(taken, "the conversation was taken back")
        return report

    def _checkout_names(self, rev: str, names: Sequence[str], *, partial: bool) -> Report:
        commit = self._resolve(rev)
        target = self.repo.tree_at(commit)
        for name in names:
            if name not in target:
                raise NameNotFoundError(name, rev, close_names(name, target.names()))
        began = time.perf_counter()
        self._save_uncommitted()
        loaded, names, notes = self._load_names(target, commit, names, partial=partial)
        message = f"take {', '.join(names)} from {self._name_commit(commit, rev)}"
        draft = Draft(kind="rollback", author=self.author, message=message, restores=commit, chat=self.head)
        if self._brings_other_classes(loaded, target):
            report = self._bind(loaded, draft)
            return msgspec.structs.replace(report, notes=(*report.notes, *notes))
        writer = self.repo.writer()
        rest = self.workspace.without(loaded, writer)
        classes = {name: entry for name in loaded.needs if (entry := target.get(name)) is not None}
        live = {**rest.entries, **loaded.plan.entries, **classes}
        edits, absent_names = tree_edits(
            self._index, self._tree, self._not_loaded, live, self.ignoring.select(self._not_loaded)
        )
        tree = self._tree.edit(writer, edits)
        writer.flush()  # the comparison reads manifests that are new
        draft.changed = changes_between(self.repo, self._tree, tree)
        changed = live_changes(self.repo, self._tree, tree, self._not_loaded, absent_names)
        with self._taking_on(loaded):
            report = self._record(writer, tree, draft, began, absent_names)
            self.workspace.accept(rest)
        others = sorted(name for name in loaded.plan.entries if name not in names and not name.startswith("\0"))
        if others:
            notes = (*notes, f"with what shares objects: {', '.join(others)}")
        return msgspec.structs.replace(report, changed=changed, notes=(*report.notes, *notes))

    def _brings_other_classes(self, loaded: Loaded, target: Tree) -> bool:
        """Whether a class comes along that has been altered since, and stays here as it is."""
        pairs = ((self._tree.get(name), target.get(name)) for name in map(class_entry, loaded.classes))
        return any(ours is not None and not ours.is_same_value(theirs) for ours, theirs in pairs)

    def _bind(self, loaded: Loaded, draft: Draft) -> Report:
        """Bind names to what was loaded, as a cell would: classes that came along are others than those of the same name."""
        values = {name: value for name, value in loaded.values.items() if not name.startswith(CLASS_PREFIX)}
        before = {name: self.namespace[name] for name in values if name in self.namespace}
        name_placeholders(values)
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

    def _name_commit(self, commit: ObjectId, rev: str = "") -> str:
        return commit_in_message(commit, self.repo.commit_at(commit), rev)

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
    def _taking_on(self, loaded: Loaded, has_pylab: bool | None = None) -> Generator[None]:
        """Go somewhere in the block, and the variables with it: an interrupt finds both moved, or neither.

        Args:
            has_pylab: whether `%pylab` had run there; None: what it bound stays as it is.
        """
        pylab = self.workspace.living.process.pylab
        with uninterrupted(), self._publishing:
            with nullcontext() if has_pylab is None else pylab.moving(has_run=has_pylab):
                yield
            self.workspace.take_on(loaded)
            if has_pylab is not None:
                self.workspace.place_pylab()
        self.workspace.read_again(loaded)  # of what an interrupt keeps unread, whatever is found counts as a change

    def _checkout_notes(self, saved: Report | None, loaded: Loaded, commit: ObjectId | None) -> tuple[str, ...]:
        notes = (
            [f"what was not committed yet is in {short(saved.commit)}"]
            if saved and saved.commit and saved.changed
            else []
        )
        separated = self.workspace.find_separated(loaded)
        notes += [
            f"{f'{names} and {holder}' if names else f'parts of {holder}'} no longer share objects: "
            "these cannot be restored in place"
            for holder, names in separated
        ]
        notes += [
            f"{names} ({kind}) stays as it is now, not as it was then: it cannot be saved"
            for names, kind in self.workspace.find_unlike_then(loaded)
            if names not in dict(separated)  # one line for a holder is enough
        ]
        notes += [
            f"with the code that {module} has now, not as it was then: {names}"
            for names, module in self.workspace.find_of_changed_modules(loaded)
        ]
        process = self.workspace.living.process
        notes += filter(None, [process.pylab.moved])
        if process.are_any or (commit is not None and self.repo.commit_at(commit).set_in_libraries):
            notes += describe_differences(self.repo, commit, self.namespace, process.names(), label_of)
        threads = self.workspace.find_running_threads()
        if threads and loaded.values:
            notes.append(f"still running with the objects they had: {', '.join(threads)}")
        return tuple(notes)

    def _describe_unsaved(self, loaded: Loaded) -> tuple[Unsaved, ...]:
        unsaved = dict.fromkeys(
            one
            for name, manifest in loaded.plan.manifests.items()
            if manifest.unsaved and not name.startswith(CLASS_PREFIX)
            for one in self.workspace.describe_failures(manifest, whole=self.workspace.has_placeholder(name))
        )
        return (*unsaved, *loaded.reports)

    def _head_commit(self) -> Commit | None:
        return self.repo.commit_at(self.head) if self.head is not None else None


@contextmanager
def _with_conflicts_of(records: RecordMerge | None) -> Generator[None]:
    """A conflict of variables names those of the records too: a person chooses once."""
    try:
        yield
    except MergeConflictError as conflict:
        conflict.conflicts += () if records is None else records.rows
        raise


@contextmanager
def _noting_request(rev: str, choices: Choices, message: str, *, picks: bool = False) -> Generator[None]:
    """Let a conflict say what was asked for, so that a person can choose and ask for the same again."""
    try:
        yield
    except MergeConflictError as conflict:
        conflict.rev, conflict.message, conflict.partial, conflict.picks = rev, message, choices.partial, picks
        conflict.ours, conflict.theirs = tuple(sorted(choices.ours)), tuple(sorted(choices.theirs))
        raise
