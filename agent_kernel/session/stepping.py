"""Steps of an agent: each is a commit of its own, also in the middle of a cell, and a whole run is one operation of undo."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.errors import DamagedObjectError
from agent_kernel.session.committing import Committing, StepRefused
from agent_kernel.session.history import LooseRecorder
from agent_kernel.session.operations import Operation, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from agent_kernel.repository import Author, ObjectId, Outputs
    from agent_kernel.session.reports import Report


_TURN_S: Final = 60.0  # that a step waits for another thread's


class Stepping(Committing):
    """A session in which agents act."""

    def begin_step(
        self, source: str, *, author: Author, run: str, step: int | None, cell_id: str = "", number: int | None = None
    ) -> None:
        """Code of an agent is about to run. What the cell around it did so far is committed first, as the cell's own.

        Args:
            step: None: it belongs to the run, and is no step of it.
            cell_id, number: of the notebook cell that the agent runs in.
        """
        self._require_open()
        self._take_turn()
        try:
            self._begin_within(source, author, cell_id, number)
        except BaseException:
            self._steps.release()
            raise
        if self._cell is not None:
            self._cell.run, self._cell.step = run, step

    def _begin_within(self, source: str, author: Author, cell_id: str, number: int | None) -> None:
        if self._cell is not None:
            draft = self._own_draft("before an agent's step")
            self._commit(draft, self._cell.source, only_changes=True)
            self.workspace.monitor.stop()
        self._outer.append((self._cell, len(self._operations.done)))
        self._cell = None
        try:
            self.begin_cell(source, cell_id=cell_id, number=number, author=author)
        except BaseException:
            self._cell, _ = self._outer.pop()
            raise

    def wait_turn(self) -> None:
        """Wait until no other thread runs a step here: what two change at once nobody could tell apart.

        Raises:
            StepBusyError: one has been running for a minute. It may be waiting for this thread.
        """
        self._take_turn()
        self._steps.release()

    def _take_turn(self) -> None:
        if not self._steps.acquire(timeout=_TURN_S):
            from agent_kernel.errors import StepBusyError

            raise StepBusyError(_TURN_S)

    def end_step(
        self,
        *,
        error: BaseException | None = None,
        outputs: Outputs | None = None,
        refuses: Callable[[], bool] = lambda: False,
        take_back: Callable[[], object] = lambda: None,
    ) -> Report | None:
        """It has run, well or not: commit what it changed. The cell around it goes on.

        Args:
            refuses: whether it must not be committed after all, asked once its variables were looked at.
            take_back: called then, before it ends; what is left is committed.
        """
        running = self._cell
        run = running.run if running is not None else ""
        try:
            self._refuses = refuses
            try:
                return self.end_cell(error=error, outputs=outputs)
            except StepRefused:
                self._refuses = lambda: False
                self._cell = running
                if running is not None:
                    running.depth += 1
                take_back()
                return self.end_cell(error=error, outputs=outputs)
        finally:
            self._refuses = lambda: False
            self._cell, before = self._outer.pop()
            self._join(run, min(before, len(self._operations.done)))
            if self._cell is not None:
                self.workspace.monitor.start()
            self._steps.release()

    def end_cell(self, *, error: BaseException | None = None, outputs: Outputs | None = None) -> Report | None:
        """The cell has run. One in which agents worked, or that took on what they made, is one operation with all that."""
        running = self._cell
        report = super().end_cell(error=error, outputs=outputs)
        if running is not None and not running.depth and not running.run:
            mine = self._operations.done[running.done :]
            if any(one.run or one.took for one in mine):
                # Also where nothing is left for the cell's own commit to change: the operation goes by that, not by a step.
                self._join("", running.done, self._position if report is not None and report.commit else None)
        return report

    def save_step(self) -> ObjectId:
        """Commit what the running step did so far, and return where that led: a sub-agent begins there."""
        self._save_uncommitted()
        return self.head or self._record_beginning()

    def _record_beginning(self) -> ObjectId:
        made = self.commit("begin").commit
        assert made is not None  # with a message there is a commit
        return made

    # -- steps that are seen on a fork first

    def before_fork(self) -> None:
        """Commit all that is not committed yet, so that what a fork changes is the step's own doing."""
        self._require_open()
        self._save_uncommitted()

    def in_fork(self) -> None:
        """In a forked child: from here on commits have no name, and nothing that the parent relies on is moved."""
        reopen: Callable[[], None] | None = getattr(self.repo.store, "reopen_after_fork", None)
        if reopen is not None:
            reopen()
        self._recorder = LooseRecorder(self.repo, self.id)
        self._recorder.masks(self.repo.masked_names(), self.namespace)
        self.branch = self.branch or self._base  # else the first commit would start one

    @contextmanager
    def taking(self, what: str) -> Generator[None]:
        """The operation that the block ends with takes on what an agent made elsewhere; within a cell it is part of the cell's."""
        before = len(self._operations.done)
        yield
        done = self._operations.done
        if len(done) > before:
            done[-1] = msgspec.structs.replace(done[-1], took=(*done[-1].took, what))

    def _join(self, run: str, before: int, after: Position | None = None) -> None:
        """Make what was done since, and what the same run did right before, one operation.

        Args:
            after: where it ends; by default where the last thing did that was done.
        """
        done = self._operations.done
        while run and before and done[before - 1].run == run:
            before -= 1
        mine = done[before:]
        if mine:
            is_first = bool(run) and not any(one.run == run for one in done[:before])
            begun = self._begun_before(run, mine[0].before) if is_first else mine[0].before
            took = tuple(what for one in mine for what in one.took)
            by = mine[0].by if all(one.by == mine[0].by for one in mine) else None
            whole = Operation(begun, after or mine[-1].after, all(one.moved for one in mine), run, took, by)
            self._operations.done = [*done[:before], whole]

    def _begun_before(self, run: str, here: Position) -> Position:
        """Where a run began that this session goes on with: its steps of before a restart go back with the others."""
        at = here.commit
        try:
            while at is not None and (commit := self.repo.commit_at(at)).run == run:
                at = next(iter(commit.parents), None)
            if at == here.commit:
                return here
            names = self.repo.tree_at(at)
        except DamagedObjectError:  # pruned
            return here
        was = here.carried
        return Position(here.branch, at, here.absent.then(frozenset(name for name in was if name in names), was))
