"""Which runs an agent remembers: those whose steps lie on the line of history to where it is.

So the conversation goes back and forth with the variables, and nothing has to be rewound. The line to a commit is the
line to its first parent and the commit's own step; where a commit went back to an older one, the line to that; where it
names another one for the conversation alone (`chat`), the line to that. A run without any step belongs to the commit at
which it was begun. A run of which later steps were taken back is remembered as far as its steps are on the line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from agent_kernel.agents.conversation import told_later, within
from agent_kernel.agents.events import Compaction, Event, StepStart, TaskStart
from agent_kernel.repository import hex_of
from agent_kernel.session.chats import line_to

if TYPE_CHECKING:
    from agent_kernel.agents.journal import Journal
    from agent_kernel.agents.models import Message
    from agent_kernel.agents.place import Place
    from agent_kernel.repository import ObjectId
    from agent_kernel.session.snapshot import Repository

__all__ = ["MOST_CHARS", "begun_at", "behind", "line_to", "messages", "runs_before", "too_many"]

MOST_CHARS: Final = 60_000  # of earlier runs that a model is sent again
_LEFT_OUT = "(Earlier parts of this conversation are left out.)"


def runs_before(place: Place, namespace: str) -> tuple[tuple[str, int], ...]:
    """The runs that an agent remembers here, oldest first, each with the number of its last event that counts.

    Of many, the oldest that could not be told anyway are left out. After a restart those of before it are left out as
    well, as long as their variables are not in memory: they tell of what is not there.
    """
    if place.session is None:
        return ()
    restarted_at = place.session.restarted_at
    mine = {start.run: start for start in place.journal.starts() if start.namespace == namespace}
    if not mine:
        return ()
    since_ns = min(start.time_ns for start in mine.values())
    reached: dict[str, int] = {}
    line: set[str] = set()
    for at, commit, is_own in line_to(place.session.repo, place.session.head, since_ns):
        if restarted_at is not None and at == hex_of(restarted_at):
            break
        line.add(at)
        if is_own and commit is not None and commit.run in mine:
            reached[commit.run] = max(reached.get(commit.run, 0), commit.step or 0)
    found: list[tuple[str, int]] = []
    room = MOST_CHARS
    for run in sorted(mine, key=lambda run: mine[run].time_ns, reverse=True):
        if run not in reached and mine[run].before not in line:
            continue
        events = _as_far_as(list(place.journal.of(run)), reached.get(run))
        if events:
            found.insert(0, (run, events[-1].seq))
            room -= sum(len(message.text) for message in told_later(events))
        if room < 0:
            break
    return tuple(found)


def behind(repo: Repository, head: ObjectId | None, since_ns: int) -> set[str]:
    """The commits, in hex digits, that a run knows of which goes on at a commit: those on its line, and what was merged there."""
    found: set[str] = set()
    heads = [head]
    while heads:
        for at, commit, is_own in line_to(repo, heads.pop(), since_ns):
            if at in found:
                break
            found.add(at)
            if commit is not None and is_own:
                heads += commit.parents[1:]
    return found


def begun_at(repo: Repository, journal: Journal, head: ObjectId | None) -> dict[str, str]:
    """The runs without any step that are remembered at a commit, by the commit at which each was begun; of several, the last."""
    starts = [start for start in journal.starts() if not start.parent_run and start.prompt]
    if not starts:
        return {}
    line = list(line_to(repo, head, min(start.time_ns for start in starts) - 1))
    stepped = {commit.run for _, commit, _ in line if commit is not None}
    behind = {at for at, _, _ in line} | {starts[0].before}
    return {
        start.before: start.run
        for start in starts
        if start.run not in stepped and start.before in behind and _as_far_as(list(journal.of(start.run)), None)
    }


def messages(journal: Journal, runs: Iterable[tuple[str, int]]) -> list[Message]:
    """What was said in these runs, each up to an event."""
    found: list[Message] = []
    for run, last in runs:
        events = [event for event in journal.of(run) if event.seq <= last]
        if events and isinstance(events[0], TaskStart):
            found += told_later(events)
    return found


def too_many(heard: list[Message]) -> Compaction | None:
    """What says that of the earlier conversation only the end is told, where it is too long."""
    _, dropped = within(heard, MOST_CHARS)
    return Compaction(dropped=dropped, sent=_LEFT_OUT) if dropped else None


def _as_far_as(events: list[Event], step: int | None) -> list[Event]:
    """The events of a run up to what followed on one of its steps; without one, of a run that has none."""
    if step is None:
        return [] if any(isinstance(event, StepStart) for event in events) else events
    at = next((at for at, event in enumerate(events) if event.step is not None and event.step > step), len(events))
    return events[:at]
