"""Bring what other commits hold into the present state: `merge` and `cherry_pick`."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent_kernel.errors import MergeConflictError
from agent_kernel.repository import ObjectId, hex_of
from agent_kernel.session import randomness, trust
from agent_kernel.session.history import Draft, changes_between
from agent_kernel.session.labels import title
from agent_kernel.session.moving import Moving
from agent_kernel.session.operations import Operation
from agent_kernel.session.reports import Report
from agent_kernel.session.workspace import Loaded

if TYPE_CHECKING:
    from agent_kernel.repository import Tree, Writer
    from agent_kernel.session.settling import Choices, Resolver


class Joining(Moving):
    """A session that can take on what others did, beside what it has."""

    def merge(
        self,
        rev: str,
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
            MergeConflictError: others were changed on both sides. UnrelatedHistoriesError: no common ancestor.
            LoadError: nothing was changed.
        """
        from agent_kernel.session.settling import Choices

        choices = Choices(frozenset(ours), frozenset(theirs), resolvers or {}, partial, fast_forward, since)
        draft = self._within_step(Draft(kind="merge", author=self.author, message=message or f"merge {rev}"))
        can_be_asked_again = since is None and not resolvers and fast_forward
        with _to_be_asked_again(rev if can_be_asked_again else "", choices, message):
            return self._merge(rev, choices, draft)

    def _merge(self, rev: str, choices: Choices, draft: Draft) -> Report:
        """See `merge`. `draft`: what the commit says, if there is one."""
        from agent_kernel.session import merging

        self._require_open()
        other = self.repo.resolve(rev, self.id)
        self._save_uncommitted()
        began = time.perf_counter()
        trust.require(self.repo)
        writer = self.repo.writer()
        outcome = merging.merge(self.repo, writer, self.workspace, self.head, other, rev, choices)
        if outcome.tree is None:
            return Report(self.head, self._record_here(), self.branch, notes=(outcome.note,))
        loaded = self._load_joined(writer, outcome.tree, draft, other, partial=choices.partial)
        if outcome.fast_forward and self.branch is not None:
            return self._fast_forward(other, loaded, draft, outcome.note)
        draft.other_parents = (other,)
        return self._record_joined(writer, outcome.tree, draft, loaded, began)

    def take_step(self, rev: str, run: str) -> Report:
        """Merge the commits of a step that ran on a fork, as a step of its run: undo takes back the run as a whole.

        Args:
            run: "" for code that is no step: merging it is this session's own doing.

        Raises:
            MergeConflictError, LoadError: nothing was changed.
        """
        from agent_kernel.session.settling import Choices

        before = len(self._operations.done)
        # What it drew is drawn: whatever draws next goes on from there.
        generators, _ = randomness.prepare(self.repo, self.repo.resolve(rev, self.id), keep=False, partial=True)
        if self._cell is not None:
            self.workspace.monitor.stop()
        try:
            other = self.repo.resolve(rev, self.id)
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

    def cherry_pick(
        self,
        rev: str,
        *,
        ours: Collection[str] = (),
        theirs: Collection[str] = (),
        message: str = "",
        partial: bool = False,
    ) -> Report:
        """Do here what one commit did: the change from its parent, merged into the present state.

        The new commit has one parent, the picked one's author and message (or `message`), and names the picked commit, as
        `git cherry-pick -x` does. Where all of the change is here already there is no commit.

        Args:
            ours, theirs, partial: as for `merge`, the picked commit being theirs.

        Raises:
            MergeCommitError: the commit has several parents. MergeConflictError: both changed the same variables.
            LoadError: nothing was changed.
        """
        from agent_kernel.session import merging
        from agent_kernel.session.settling import Choices

        self._require_open()
        picked = self.repo.resolve(rev, self.id)
        self._save_uncommitted()
        began = time.perf_counter()
        trust.require(self.repo)
        writer = self.repo.writer()
        choices = Choices(frozenset(ours), frozenset(theirs), partial=partial)
        with _to_be_asked_again(rev, choices, message, picks=True):
            outcome = merging.pick(self.repo, writer, self.workspace, self.head, picked, rev, choices)
        if outcome.tree is None:
            return Report(self.head, self._record_here(), self.branch, notes=(outcome.note,))
        commit = self.repo.commit_at(picked)
        said = message or commit.message or title(commit)
        said = f"{said.rstrip()}\n\n(cherry picked from commit {hex_of(picked)})"
        draft = Draft(kind="cherry-pick", author=commit.author, message=said)
        loaded = self._load_joined(writer, outcome.tree, draft, picked, partial=partial)
        return self._record_joined(writer, outcome.tree, draft, loaded, began)

    def _load_joined(self, writer: Writer, tree: Tree, draft: Draft, other: ObjectId, *, partial: bool) -> Loaded:
        writer.flush()  # what was merged by value is loaded like the rest
        draft.changed = changes_between(self.repo, self._tree, tree)
        stay = self._carried.difference(change.name for change in draft.changed)
        loaded = self.workspace.load(
            self._tree, tree, absent=self._carried, stay=stay, partial=partial, sources=(other, self.head)
        )
        draft.unsaved = loaded.told
        return loaded

    def _record_joined(self, writer: Writer, tree: Tree, draft: Draft, loaded: Loaded, began: float) -> Report:
        with self._taking_on(loaded):
            return self._record(writer, tree, draft, began, loaded.carried(tree))

    def _fast_forward(self, other: ObjectId, loaded: Loaded, draft: Draft, note: str) -> Report:
        before = self._position
        with self._taking_on(loaded):
            self.repo.move_branch(str(self.branch), other, draft.message, self.head, self.id)
            self.head, self._tree = other, self.repo.tree_at(other)
            self._carried = loaded.carried(self._tree)
            self._operations.add(Operation(before, self._position, by=draft.author), "a merge was made")
        return Report(other, self._record_here(), self.branch, draft.changed, loaded.told, notes=(note,))


@contextmanager
def _to_be_asked_again(rev: str, choices: Choices, message: str, *, picks: bool = False) -> Generator[None]:
    """Let a conflict say what was asked for, so that a person can choose and ask for the same again."""
    try:
        yield
    except MergeConflictError as conflict:
        conflict.rev, conflict.message, conflict.partial, conflict.picks = rev, message, choices.partial, picks
        conflict.ours, conflict.theirs = tuple(sorted(choices.ours)), tuple(sorted(choices.theirs))
        raise
