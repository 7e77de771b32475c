"""Branches that agents have for a while, and that stay behind where their process died or their run was stopped.

What a step did on a fork (`preview/…`) is needed as long as somebody may take it on. What a sub-agent had committed when
it stopped is kept as long as its outermost run rests where it was: a person may look at it, merge it, or give it another
name. It goes when that run goes on, is over, or is undone. A candidate's work stays until somebody deletes its branch;
where the race died, branches on which nothing was done go. Nothing that a living process holds is touched.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.agents import approval, event_log, messages
from agent_kernel.agents.event_log import PREVIEWS, state_of
from agent_kernel.agents.events import ApprovalRequested, Event, Output, Part, StateChange, SubRun
from agent_kernel.agents.messages import open_action, start_event
from agent_kernel.errors import BranchInUseError, DamagedObjectError, RefNotFoundError, RunNotFoundError
from agent_kernel.repository import ASIDE, hex_of
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.event_log import EventStore
    from agent_kernel.agents.execution_context import ExecutionContext
    from agent_kernel.repository import Commit, ObjectId
    from agent_kernel.session import Session
    from agent_kernel.session.snapshot import Repository

__all__ = [
    "PartialWork",
    "delete_branches",
    "delete_unneeded_branches",
    "find_partial_work",
    "find_step_commit",
    "recover_outcome",
]


_STOPPED: Final = ("running", "interrupted")  # how a sub-agent is told of that did not come to an end


class PartialWork(msgspec.Struct, frozen=True):
    """What a sub-agent had committed when it stopped, on a branch of its own."""

    branch: str
    agent: str
    has_work: bool

    def __str__(self) -> str:
        return f"what {self.agent} had done is on branch {self.branch}, until the run goes on or is undone"


def find_partial_work(repo: Repository, event_store: EventStore, events: Sequence[Event]) -> list[PartialWork]:
    """What the sub-agents of a run left that stopped halfway, also their own sub-agents."""
    runs: dict[str, list[SubRun]] = {}
    for event in events:
        if isinstance(event, SubRun) and event.branch and not event.branch.startswith(event_log.RACES):
            runs.setdefault(event.child, []).append(event)
    stopped = {child: notes for child, notes in runs.items() if notes[-1].status in _STOPPED}
    if not stopped:
        return []
    known = repo.branches()
    found: list[PartialWork] = []
    for child, notes in stopped.items():
        first = notes[0]
        if first.branch in known and not _is_continued_by_person(repo, known[first.branch], first.before):
            has_work = hex_of(known[first.branch]) != first.before
            found.append(PartialWork(first.branch, first.child_agent, has_work))
        found += find_partial_work(repo, event_store, tuple(event_store.of(child)))
    return found


def _is_continued_by_person(repo: Repository, tip: ObjectId, start: str) -> bool:
    """Whether a person committed something on the branch of a sub-agent: then it is theirs."""
    return hex_of(tip) != start and repo.commit_at(tip).author.kind == "person"


def delete_branches(repo: Repository, branches: Sequence[str]) -> tuple[str, ...]:
    """Delete branches that nobody is on, with what was left of those who were; returns those that went."""
    if not branches:
        return ()
    deleted: list[str] = []
    in_use = {head.branch for session, head in repo.heads().items() if not session.startswith(ASIDE)}
    for name in branches:
        holder = repo.lease_of(name)
        if name in in_use:
            continue
        with suppress(RefNotFoundError, BranchInUseError):
            repo.delete_branch(name, force=True)
            deleted.append(name)
            if holder is not None:
                repo.release_lease(name, holder)
    return tuple(deleted)


def delete_unneeded_branches(
    repo: Repository, event_store: EventStore, session: Session | None = None
) -> tuple[str, ...]:
    """Delete what nobody needs any more of what processes left behind that died; returns the branches.

    Args:
        session: where it stands it can be told which runs were undone.
    """
    leases = {name: repo.lease_of(name) for name in repo.branches() if _may_be_temporary(name)}
    free = [name for name, holder in leases.items() if holder is None or not holder.is_alive(repo.store)]
    needs = _Needs(repo, event_store, session)
    deleted = delete_branches(repo, [name for name in free if not needs.needs(name)])
    _forget_heads(repo)
    return deleted


def _may_be_temporary(name: str) -> bool:
    return event_log.is_temporary(name) or event_log.may_be_sub_agents(name)


def _forget_heads(repo: Repository) -> None:
    """Forget where workers and sub-agents were whose process died: what they left would be kept for nobody."""
    heads = [name for name, head in repo.heads().items() if name.startswith(ASIDE) and head.branch is not None]
    if heads:
        alive = {holder.session for _, holder in repo.leases.find_living()}
        for name in heads:
            if name not in alive:
                repo.drop_head(name)


class _Needs:
    """Says of branches whether a run, or a person, may need them."""

    def __init__(self, repo: Repository, event_store: EventStore, session: Session | None) -> None:
        self._repo = repo
        self._event_store = event_store
        self._session = session
        self._read: dict[str, tuple[Event, ...]] = {}

    def needs(self, name: str) -> bool:
        try:
            return self._needs(name)
        except (DamagedObjectError, RunNotFoundError):  # nobody can tell any more
            return True

    def _needs(self, name: str) -> bool:
        preview, (race, _) = event_log.previewed_run(name), event_log.candidate_on(name)
        if preview is not None:
            return any(self._may_take(run, name) for run in self._runs_of_preview(name, preview))
        if race:
            return not any(self._is_abandoned_empty(run, name) for run in self._runs(race))
        return self._is_for_a_person(name)

    def _runs(self, end: str) -> Iterator[str]:
        return (run for run in self._all_runs if run.endswith(end))

    @functools.cached_property
    def _all_runs(self) -> list[str]:
        return self._event_store.runs()

    def _events(self, run: str) -> tuple[Event, ...]:
        if run not in self._read:
            self._read[run] = tuple(self._event_store.of(run))
        return self._read[run]

    def _runs_of_preview(self, name: str, run: str) -> Iterator[str]:
        if run:
            yield from self._runs(run)
            return
        yield from self._event_store.waiting()  # an earlier release named no run
        commit = self._repo.commit_at(self._repo.branches()[name])
        yield from [commit.run] if commit.run else []

    def _may_take(self, run: str, branch: str) -> bool:
        """Whether what a step did on a fork waits for a decision, or to be taken on."""
        if self._event_store.find_driver(run) is not None:
            return True
        events = self._events(run)
        _, since = open_action(events)
        request = next((one for one in reversed(since) if isinstance(one, ApprovalRequested)), None)
        return (
            state_of(events) != "cancelled"
            and request is not None
            and request.branch == branch
            and start_event(since) is None
        )

    def _is_abandoned_empty(self, race: str, branch: str) -> bool:
        """Whether nothing was done on a candidate's branch, and nobody drives the race any more."""
        events = self._events(race)
        start = next((one.before for one in events if isinstance(one, SubRun) and one.branch == branch), "")
        return (
            hex_of(self._repo.branches()[branch]) == start
            and approval.run_status(self._event_store, events) == "stopped"
        )

    def _is_for_a_person(self, name: str) -> bool:
        """Whether this is no sub-agent's branch, or one that is kept for a person."""
        start = event_log.find_sub_agent(self._event_store, name)
        if start is None:  # nothing was done where not even its run was begun
            holder = self._repo.lease_of(name)
            return holder is None or not holder.session.startswith(ASIDE)
        notes = [one for one in self._events(start.parent_run) if isinstance(one, SubRun) and one.child == start.run]
        if notes and notes[-1].status not in _STOPPED:
            return True  # it failed, or could not be merged: that was told, and is a person's to look at
        if notes and _is_continued_by_person(self._repo, self._repo.branches()[name], notes[0].before):
            return True
        while start.parent_run:
            start = self._event_store.first(start.parent_run)
        return self._rests(start.run)

    def _rests(self, run: str) -> bool:
        """Whether a run may go on, or does, from where it stands."""
        if self._event_store.find_driver(run) is not None:
            return True
        events = self._events(run)
        return state_of(events) not in ("completed", "failed", "cancelled") and not self._is_undone(events)

    def _is_undone(self, events: Sequence[Event]) -> bool:
        """Whether no step of it lies on the line of history any more."""
        made = {event.after for event in events if isinstance(event, Output) and event.after not in ("", event.before)}
        if self._session is None or not made:
            return False
        line = messages.line_to(self._session.repo, self._session.head, events[0].time_ns)
        return made.isdisjoint(at for at, _, _ in line)


# -- what became of a step whose outcome was never written down: the process died, or an interrupt came, after its code ran
#
# A step's commit names its run and its number. Where it is in the history the step has run to its end, and what it came to
# is read from there. Where it is not, nobody knows.

KEPT = "(What came of this step was not recorded as it ran; this is what the history has kept of it.)"


def find_step_commit(repo: Repository, run: str, step: int, began_ns: int) -> tuple[ObjectId, Commit] | None:
    """The commit that a step became, wherever in the history it is by now; `began_ns`: when its code began."""
    heads = [head.commit for head in repo.heads().values() if head.commit is not None]
    # What a step did on a fork is no outcome: it was not taken on.
    branches = [tip for name, tip in repo.branches().items() if not name.startswith(PREVIEWS)]
    for id, commit in repo.log(list(dict.fromkeys([*branches, *heads]))):
        if commit.time_ns < began_ns:
            return None
        if commit.run == run and commit.step == step:
            return id, commit
    return None


def recover_outcome(
    context: ExecutionContext, id: ObjectId, commit: Commit, most_chars: int, note: str = ""
) -> tuple[list[Event], str]:
    """The events that say what a step came to, read from its commit, and the commit's id in hex digits.

    Args:
        note: what else the model is told.
    """
    assert context.session is not None
    repo = context.session.repo
    context.learn_secrets()
    text = context.redact_output(_read_output_text(repo, commit), most_chars).rstrip()
    tree = repo.tree(commit.tree)

    def summary(name: str) -> str:
        entry = tree.get(name)
        stored = repo.read_preview(entry) if entry is not None else b""
        if not stored or context.is_hidden(name):
            return ""
        return context.redact(messages.value_text(previews.decode(stored), context.policy))

    lines = messages.change_lines([one for one in commit.changed if context.is_visible(one.name)], summary)
    pieces = [KEPT, *([text] if text else []), *(["\n".join(["Changed variables:", *lines])] if lines else [])]
    parts = (Part("text/plain", text),) if text else ()
    seconds = commit.cell.duration_s if commit.cell is not None else 0.0
    sent = messages.cut("\n\n".join(pieces), most_chars) + note
    found: list[Event] = [Output(status=_status(commit), sent=sent, parts=parts, duration_s=seconds)]
    if commit.changed or commit.unsaved:
        changed = tuple(
            (
                one.how,
                previews.MASK if context.redactor.knows(one.name) else one.name,
                "" if one.how == "-" else summary(one.name),
            )
            for one in commit.changed
        )
        found.append(StateChange(changed=changed, unsaved=tuple((one.name, one.reason) for one in commit.unsaved)))
    return found, hex_of(id)


def _status(commit: Commit) -> str:
    error = commit.cell.error if commit.cell is not None else ""
    return "timeout" if error.startswith("StepTimeout") else commit.status


def _read_output_text(repo: Repository, commit: Commit) -> str:
    """What the step printed and showed, as text, and what it raised."""
    from agent_kernel.repository import read_outputs

    cell = commit.cell
    if cell is None:
        return ""
    if cell.outputs is None:
        return cell.error
    pieces: list[str] = []
    for output in read_outputs(repo.objects, cell.outputs).outputs:
        pieces += ["\n".join(output.traceback) or output.text] if output.kind in ("stream", "error") else []
        pieces += [face.text for face in output.representations if face.mime == "text/plain" and face.text]
    return "\n".join(piece.rstrip() for piece in pieces if piece)
