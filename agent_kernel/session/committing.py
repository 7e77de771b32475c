"""Turn what cells do to a namespace into commits on a branch.

Order is what makes it safe. A commit is staged from the live values, published in one swap, and only then taken as the
state to compare with; a failed publish leaves everything to the next commit.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from agent_kernel.errors import AgentKernelError, BranchMovedError
from agent_kernel.repository import Author, Cell, Entry, Head, Tree, Writer
from agent_kernel.session import branches, carrying
from agent_kernel.session.history import Draft, describe_error, only_commands, written
from agent_kernel.session.interrupts import uninterrupted
from agent_kernel.session.operations import Operation
from agent_kernel.session.reports import Report
from agent_kernel.session.standing import Running, Standing
from agent_kernel.session.watching import Touched
from agent_kernel.values.quiet import seldom_collected

if TYPE_CHECKING:
    from agent_kernel.repository import Outputs
    from agent_kernel.session.dumping import Staged


logger = logging.getLogger(__name__)


class StepRefused(Exception):  # noqa: N818 - nothing went wrong
    """What a step made is not committed: looking at it did what nobody had allowed."""


class Committing(Standing):
    """A live namespace on a branch, whose cells become commits."""

    def begin_cell(
        self, source: str, *, cell_id: str = "", number: int | None = None, author: Author | None = None
    ) -> Report | None:
        """A cell is about to run. What moved since the last commit was not this cell's doing.

        Variables that are there before the session's first cell get a commit of their own, which undo does not reverse.

        Raises:
            SessionClosedError: nothing was committed. So do all methods that write.
        """
        self._require_open()
        if self._cell is not None:  # a cell run by a cell is part of it
            self._cell.depth += 1
            return None
        found = None if self._begun else self._commit_what_was_there()
        outside: frozenset[str] = frozenset()
        if self.workspace.tracking.groups:
            rebound = self.workspace.bindings.changed(self.namespace)
            outside = rebound.new | rebound.rebound | rebound.removed
        self.workspace.living.cell = f"cell [{number}]" if number is not None else "the cell that made it"
        self._cell = Running(source, cell_id, number, author or self.author, time.perf_counter(), outside)
        self._cell.done = len(self._operations.done)
        self.workspace.begin()
        return found

    def _commit_what_was_there(self) -> Report | None:
        report: Report | None = None
        if self.workspace.bindings.names(self.namespace):
            draft = Draft(kind="commit", author=self.author, message="what was there before", undoable=False)
            report = self._commit(draft, "", only_changes=True)
        self._begun = True
        return report

    def end_cell(self, *, error: BaseException | None = None, outputs: Outputs | None = None) -> Report | None:
        """The cell has run, well or not: commit what it changed. None for a cell of nothing but %agent lines.

        Args:
            outputs: what the cell showed; pictures in it may still be inline.
        """
        running = self._cell
        if running is None:
            return None
        running.depth -= 1
        if running.depth:
            return None
        self._cell = None
        self.workspace.monitor.stop()
        if only_commands(running.source):
            return None
        interrupted = isinstance(error, KeyboardInterrupt)
        draft = Draft(
            kind="cell",
            author=running.author,
            status="ok" if error is None else "interrupted" if interrupted else "failed",
            cell=Cell(
                source=written(running.source),
                id=running.id,
                number=running.number,
                duration_s=round(time.perf_counter() - running.began, 6),
                error="" if error is None else describe_error(error),
            ),
            outputs=outputs,
            run=running.run,
            step=running.step,
        )
        return self._commit(draft, running.source, outside=running.outside, rolling=True)

    def commit(self, message: str = "", *, full: bool = False, author: Author | None = None) -> Report:
        """Commit now. Without a message, and with nothing changed, there is nothing to record.

        While no cell is running, no code says what may have changed, and every variable is looked at.

        Args:
            full: do so within a cell too, and store also values of gigabytes, which are held back otherwise.
        """
        draft = self._own_draft(message, author)
        source = self._cell.source if self._cell is not None else ""
        looks = full or self._cell is None
        return self._commit(draft, source, everything=looks, holds_back=not full, only_changes=not message)

    @seldom_collected()
    def _commit(
        self,
        draft: Draft,
        source: str,
        *,
        everything: bool = False,
        holds_back: bool | None = None,
        only_changes: bool = False,
        outside: frozenset[str] = frozenset(),
        rolling: bool = False,
    ) -> Report:
        self._require_open()
        began = time.perf_counter()
        writer = self.repo.writer()
        self._follow_rewriting(writer)
        touched = self.workspace.touched(source, everything=everything)
        checked = self.workspace.overdue(touched) if rolling and not touched.everything else []
        asked = everything if holds_back is None else not holds_back
        wider = touched.with_checked(checked, asked=asked)
        try:
            staged = self.workspace.stage(wider, writer)
        except AgentKernelError:
            self.workspace.look_again(wider, None)
            raise
        except Exception as error:  # code of others runs there, and may do what nobody thought of
            if not rolling:
                raise
            return self._keep_cell(writer, touched, draft, error, began)
        if rolling and self._refuses():
            self.workspace.look_again(wider, staged)
            raise StepRefused
        if staged.interrupted and everything:  # something is about to be replaced that could not be saved
            raise KeyboardInterrupt
        # On no branch, only a change starts one: looking at a past state must not.
        looks = only_changes or (self.branch is None and not draft.message)
        if looks and not staged.entries:
            self.workspace.accept(staged)
            self._begun = True
            return Report(None, None, self.branch, seconds=time.perf_counter() - began)
        if rolling:
            draft.labels += _labels(staged, touched, frozenset(checked), outside)
        try:
            return self._publish(writer, staged, draft, began, looks=looks)
        except BaseException:
            self.workspace.look_again(wider, staged)
            raise

    def _keep_cell(self, writer: Writer, touched: Touched, draft: Draft, error: Exception, began: float) -> Report:
        """Saving the variables of a cell failed: commit the cell without them, and leave them to the next commit."""
        logger.debug("the variables of a cell were not saved", exc_info=error)
        draft.unsaved = self.workspace.put_off(touched, error)
        if self.branch is None:  # nothing starts a branch that has nothing to hold
            return Report(None, None, None, unsaved=draft.unsaved, seconds=time.perf_counter() - began)
        with uninterrupted():
            return self._record(writer, self._tree, draft, began, self._carried)

    def _publish(self, writer: Writer, staged: Staged, draft: Draft, began: float, *, looks: bool) -> Report:
        carried = self._carried
        entries: dict[str, Entry | None] = dict(staged.entries)
        if carried:
            entries, carried = carrying.beside(
                self.repo, self._tree, carried, staged.entries, self.ignoring.among(carried)
            )
        # Before the tree is edited: its nodes are at hand until then.
        draft.changed = carrying.told(self._tree, self._carried, entries, staged.changes)
        tree = self._tree.edit(writer, entries) if entries else self._tree
        unloaded = [one for one in self.workspace.unloaded() if one.name not in staged.entries]
        draft.unsaved = (*staged.unsaved.values(), *self.workspace.unwritable(), *unloaded)
        with uninterrupted():
            if not looks or tree.id != self._tree.id:
                report = self._record(writer, tree, draft, began, carried)
            else:  # what is new in memory is what the branch holds
                self._carried = carried
                report = Report(None, None, self.branch, seconds=time.perf_counter() - began)
            self.workspace.accept(staged)
        self._begun = True
        return report

    def _record(
        self, writer: Writer, tree: Tree, draft: Draft, began: float, carried: frozenset[str] = carrying.NOTHING
    ) -> Report:
        """Publish a commit on the branch, or on a new one if HEAD is detached, and remember where that leads.

        Args:
            carried: what of the tree is not in memory.
        """
        before = self._position
        target, note = self._branch_to_write()
        if self._restarted:
            draft.labels.append("restart")
        # A merge that took nothing of theirs changes what the next one starts from.
        changes = tree.id != self._tree.id or carried != self._carried or bool(draft.other_parents)
        try:
            made, record = self._recorder.publish(writer, tree, draft, Head(self.branch, self.head), target)
        except BranchMovedError:
            if target != self.branch:
                raise
            target, note = self._fork(target)
            made, record = self._recorder.publish(writer, tree, draft, Head(self.branch, self.head), target)
        self.branch, self.head, self._tree, self._carried = target, made, tree, carried
        self._restarted = False
        if carried:
            self._carried_at[made] = self._absent
        # A cell that only looked is nothing to undo; a run that only looked is: the conversation goes back with it.
        if changes and draft.kind == "commit" and not (draft.changed or draft.run or draft.other_parents):
            self._operations.prolong(before, self._position)  # no more than who shares what was found out
        elif (changes or draft.run) and draft.undoable and draft.kind not in ("undo", "redo"):
            what = "a cell ran" if draft.kind == "cell" else f"a {draft.kind} was made"
            self._operations.add(Operation(before, self._position, by=draft.author), what)
        return Report(
            commit=made,
            record=record,
            branch=self.branch,
            changed=draft.changed,
            unsaved=draft.unsaved,
            notes=tuple(filter(None, (note, self._growth.notice(self.repo.store, writer.written_bytes)))),
            seconds=time.perf_counter() - began,
            written_bytes=writer.written_bytes,
        )

    def _branch_to_write(self) -> tuple[str, str]:
        if self.branch is not None:
            return self.branch, ""
        name = branches.free_name(self.repo, self._base)
        self.repo.acquire_lease(name, self._holder)
        self._base = name
        return name, f"this starts branch {name}"

    def _fork(self, branch: str) -> tuple[str, str]:
        """Somebody moved the branch though it is leased to this session: leave it to them, and lose nothing here."""
        name = branches.free_name(self.repo, branch)
        self.repo.acquire_lease(name, self._holder)
        self.repo.release_lease(branch, self._holder)
        self._base = name
        return name, f"branch {branch} was moved by someone else; this session goes on as {name}"

    def _save_uncommitted(self) -> Report | None:
        """Commit what is not committed yet, having looked at everything: nothing may be replaced unseen."""
        report = self._commit(
            self._own_draft("changes that no cell had committed yet"),
            self._cell.source if self._cell is not None else "",
            everything=True,
            only_changes=True,
        )
        return report if report.commit is not None else None

    def _own_draft(self, message: str, author: Author | None = None) -> Draft:
        """A commit that is no cell's. What was there when the session began is nothing that undo could take back."""
        undoable = self._begun or not self._found_names
        draft = Draft(kind="commit", author=author or self.author, message=message, undoable=undoable)
        return draft if author is not None else self._within_step(draft)

    def _within_step(self, draft: Draft) -> Draft:
        """What happens within an agent's step is the agent's doing."""
        if self._cell is not None and self._cell.run:
            draft.author, draft.run, draft.step = self._cell.author, self._cell.run, self._cell.step
        return draft


def _labels(staged: Staged, touched: Touched, checked: frozenset[str], outside: frozenset[str]) -> list[str]:
    """Say of changes that the cell's own code does not explain where they come from."""
    moved = touched.rebound.new | touched.rebound.rebound | touched.rebound.removed
    found = sorted(name for name in staged.changes if name in checked and name not in touched.names | moved)
    before = sorted(name for name in staged.changes if name in outside)
    labels = [f"changed before the cell ran: {', '.join(before)}"] if before else []
    return [*labels, f"changed by something else: {', '.join(found)}"] if found else labels
